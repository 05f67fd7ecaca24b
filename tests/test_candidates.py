"""Where proposals come from: named drafts, the catalogue, published heads, the target itself, caches, and the hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import run, spawn

from draftpick.candidates import draft_free, named, search
from draftpick.catalog import load
from draftpick.errors import NotResolvable
from draftpick.models import resolve
from draftpick.models.profile import Lineage, ModelProfile
from draftpick.pair import Proposal

CATALOG = load()
HUB = Path(__file__).parent / "hub"
TARGET = "Qwen/Qwen2.5-72B-Instruct"


def find(name: str) -> ModelProfile:
    return resolve(name, CATALOG, offline=True)


def proposals(target: ModelProfile, **options: Any) -> list[Proposal]:
    return search(target, CATALOG, **options).proposals


# ---------------------------------------------------------------------- named


def test_a_named_draft_may_be_a_model_or_a_head() -> None:
    model, head = named(["qwen2.5-7b-instruct", "lmsys/deepseek-v3-nextn"], CATALOG, find)
    assert (model.id, model.method, model.origin) == ("Qwen/Qwen2.5-7B-Instruct", "draft_model", "given")
    assert (head.id, head.method, head.draft) == ("lmsys/DeepSeek-V3-NextN", "mtp", None)


def test_a_draft_named_twice_is_judged_once() -> None:
    names = ["Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct", "lmsys/DeepSeek-V3-NextN", "LMSYS/DeepSeek-V3-NextN"]
    assert [proposal.id for proposal in named(names, CATALOG, find)] == [names[0], names[2]]


def test_a_named_draft_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NotResolvable):
        list(named(["nobody/nothing"], CATALOG, find))


def test_a_folder_with_a_head_is_proposed_as_one(tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (proposal,) = named([str(tmp_path)], CATALOG, find)
    assert (proposal.method, proposal.draft, proposal.id) == ("eagle3", None, str(tmp_path))
    assert proposal.head is not None
    assert proposal.head.hidden_size == 64


# ---------------------------------------------------------------------- the catalogue


def test_every_catalogued_model_is_proposed_or_counted() -> None:
    found = search(find(TARGET), CATALOG)
    drafts = [proposal for proposal in found.proposals if proposal.draft is not None]
    base = find(TARGET).lineage.base_model
    own = {TARGET, base}
    assert len(drafts) + sum(found.left_out.values()) == len(CATALOG.models) - len(own)
    assert {"another vocabulary", "not smaller than the target"} <= set(found.left_out)
    assert all(number > 0 for number in found.left_out.values())
    assert not own & {proposal.id for proposal in found.proposals}


def test_everything_leaves_nothing_out() -> None:
    found = search(find(TARGET), CATALOG, everything=True)
    assert found.left_out == {}
    assert len([proposal for proposal in found.proposals if proposal.draft]) == len(CATALOG.models) - 2


def test_what_looks_right_and_is_not_gets_a_line() -> None:
    names = {proposal.id for proposal in proposals(find(TARGET))}
    assert {"Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-0.6B"} <= names, "its family, although other rows or ids"
    llama = {proposal.id for proposal in proposals(find("meta-llama/Llama-2-70b-hf"))}
    assert "TinyLlama/TinyLlama-1.1B-Chat-v1.0" in llama, "another family with the same tokenizer"
    assert "mistralai/Mistral-7B-v0.1" in llama, "as many rows"


def test_only_smaller_models_are_proposed() -> None:
    target = find("Qwen/Qwen2.5-7B-Instruct")
    for proposal in proposals(target):
        if proposal.draft is not None and proposal.draft.params_text and not proposal.draft.is_moe:
            assert proposal.draft.params_text < (target.params_text or 0), proposal.id


def test_heads_are_those_for_exactly_this_target() -> None:
    heads = [proposal.head for proposal in proposals(find("deepseek-ai/DeepSeek-V3")) if proposal.head is not None]
    assert heads
    assert {head.target for head in heads} == {"deepseek-ai/DeepSeek-V3"}


def test_the_own_head_is_proposed_where_there_is_one() -> None:
    def own(target: ModelProfile) -> list[Proposal]:
        return [proposal for proposal in proposals(target) if proposal.origin == "target"]

    v3 = find("deepseek-ai/DeepSeek-V3")
    assert [(proposal.method, proposal.id) for proposal in own(v3)] == [("mtp", None)]
    assert own(find(TARGET)) == []
    assert own(v3.with_changes(num_nextn_predict_layers=0)) == []
    promised = v3.with_changes(num_nextn_predict_layers=0, notes=("HEAD_MISSING: no tensors of it",))
    assert len(own(promised)) == 1, "a promise that is not kept has to be told"


@pytest.mark.parametrize("relation", ["finetune", "quantized", "adapter"])
def test_what_fits_the_base_model_is_proposed_for_its_descendants(relation: str) -> None:
    base = find("deepseek-ai/DeepSeek-V3")
    copy = base.with_changes(
        id="acme/copy", origin="folder", lineage=Lineage(base_model="deepseek-ai/DeepSeek-V3", relation=relation)
    )
    through = {proposal.id: proposal.via for proposal in proposals(copy) if proposal.head is not None}
    assert through["lmsys/DeepSeek-V3-NextN"] == "deepseek-ai/DeepSeek-V3"
    assert "deepseek-ai/DeepSeek-V3" not in {proposal.id for proposal in proposals(copy)}


def test_it_is_said_that_a_head_was_made_for_the_base(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    card = "---\nbase_model: meta-llama/Llama-3.1-8B-Instruct\nbase_model_relation: finetune\n---\n"
    (tmp_path / "README.md").write_text(card)
    answer = run("recommend", str(tmp_path), "--json")
    heads = [found for found in answer.document["candidates"] if found["via"]]
    assert heads
    assert {found["via"] for found in heads} <= {"meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"}
    assert "made for meta-llama/Llama-3.1-8B-Instruct" in run("recommend", str(tmp_path), "--all").stdout


def test_a_circle_of_ancestors_ends() -> None:
    target = find(TARGET).with_changes(lineage=Lineage(base_model=TARGET, relation="finetune"))
    assert proposals(target)
    stranger = find(TARGET).with_changes(id="a/b", lineage=Lineage(base_model="a/b"))
    assert proposals(stranger)


def test_a_target_of_which_nothing_is_known_has_still_an_answer() -> None:
    found = search(ModelProfile(id="a/b", origin="folder"), CATALOG)
    assert sum(found.left_out.values()) + len(found.proposals) == len(CATALOG.models)


def test_draft_free_methods_are_always_there() -> None:
    assert [(proposal.method, proposal.draft) for proposal in draft_free()] == [("ngram", None), ("suffix", None)]
    for engine in CATALOG.engines:
        document = run("recommend", TARGET, "--engine", engine, "--json").document
        assert {"ngram", "suffix"} <= {found["method"] for found in document["candidates"]}


def test_models_found_elsewhere_are_added_but_not_the_target() -> None:
    extra = [find(TARGET), find("Qwen/Qwen2.5-7B-Instruct").with_changes(id="acme/found", origin="cache")]
    found = {proposal.id: proposal.origin for proposal in proposals(find(TARGET), extra=extra)}
    assert found["acme/found"] == "cache"
    assert TARGET not in found


# ---------------------------------------------------------------------- caches and the hub


def published(name: str, **changes: Any) -> dict[str, Any]:
    return {**json.loads((HUB / f"{name}.json").read_text()), **changes}


def cached(home: Path, model_id: str, config: object) -> None:
    base = home / ".cache" / "huggingface" / "hub" / f"models--{model_id.replace('/', '--')}"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text("abc")
    (base / "snapshots" / "abc").mkdir(parents=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (base / "snapshots" / "abc" / "config.json").write_text(text)


def test_models_of_a_local_cache_are_candidates(tmp_path: Path) -> None:
    small = published("Qwen--Qwen2.5-0.5B-Instruct")
    cached(tmp_path, "acme/small", small)
    cached(tmp_path, "acme/larger", {**published("Qwen--Qwen2.5-7B-Instruct"), "num_hidden_layers": 900})
    cached(tmp_path, "acme/corrupt", "{")
    cached(tmp_path, "Qwen/Qwen2.5-3B-Instruct", small)
    answer = run("recommend", TARGET, "--json", home=tmp_path)
    origins = {found["draft"]: found["origin"] for found in answer.document["candidates"]}
    assert answer.exit_code == 0
    assert origins["acme/small"] == "cache"
    assert "acme/larger" not in origins
    assert "acme/corrupt" not in origins
    assert origins["Qwen/Qwen2.5-3B-Instruct"] == "catalogue"


def test_a_cache_is_not_asked_when_drafts_are_named(tmp_path: Path) -> None:
    cached(tmp_path, "acme/small", published("Qwen--Qwen2.5-0.5B-Instruct"))
    document = run("recommend", TARGET, "-d", "Qwen/Qwen2.5-7B-Instruct", "--json", home=tmp_path).document
    assert "acme/small" not in {found["draft"] for found in document["candidates"]}


class Hub(BaseHTTPRequestHandler):
    """A hub with a few models of one owner."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = "/".join(path.removeprefix("/api/models/").strip("/").split("/")[:2])
        size = "7B" if "-7B" in name else "0.5B"
        config = json.dumps(published(f"Qwen--Qwen2.5-{size}-Instruct")).encode()
        if path == "/api/models":
            ids = ["acme/Tune-0.5B-Chat", "acme/Tune-72B-Chat", "acme/Tune-0.5B-Base", "acme/Other-1B-Chat"]
            self._answer(json.dumps([{"id": model_id} for model_id in ids]).encode())
        elif path.startswith("/api/models/"):
            siblings = [{"rfilename": "config.json", "size": len(config)}]
            self._answer(json.dumps({"id": name, "sha": "0" * 40, "gated": False, "siblings": siblings}).encode())
        else:
            self._answer(config)

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        for name, value in {"X-Repo-Commit": "0" * 40, "ETag": '"a"', "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence: the standard error belongs to the tests."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_smaller_siblings_on_the_hub_are_candidates(hub: str, tmp_path: Path) -> None:
    online = {"HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    answer = spawn("recommend", "acme/Tune-7B-Chat", "--json", home=tmp_path, **online)
    assert answer.stderr == ""
    assert answer.document["target"]["origin"] == "hub"
    found = {found["draft"]: found["origin"] for found in answer.document["candidates"]}
    assert found["acme/Tune-0.5B-Chat"] == "hub"
    assert not {"acme/Tune-72B-Chat", "acme/Tune-0.5B-Base", "acme/Other-1B-Chat"} & set(found)
    offline = spawn("recommend", "acme/Tune-7B-Chat", "--json", "--offline", home=tmp_path, **online)
    assert offline.document["target"]["origin"] == "cache"
