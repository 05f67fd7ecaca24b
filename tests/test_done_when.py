"""What draftpick promises, offline: the main answers, and one verdict for a model whatever form it comes in."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, run

sys.path.append(str(Path(__file__).parent / "models"))

from gguf_builder import build
from small_tokenizers import byte_level_json, gguf, words

ROOT = Path(__file__).parent.parent


def candidates(answer: Answer) -> dict[str | None, dict[str, Any]]:
    return {found["draft"]: found for found in answer.document["candidates"]}


def outcomes(candidate: dict[str, Any]) -> dict[str, str]:
    return {found["rule"]: found["outcome"] for found in candidate["findings"]}


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two judgements agree: what only one form tells may be judged there alone, and is contradicted nowhere."""
    ours, theirs = outcomes(one), outcomes(other)
    both = [rule for rule in ours if "skip" not in (ours[rule], theirs[rule])]
    assert len(both) > 12
    return [ours[rule] for rule in both] == [theirs[rule] for rule in both]


# ---------------------------------------------------------------------- the main answers


def test_recommend_on_vllm_ascend_accepts_no_other_rows() -> None:
    answer = run("recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend", "--json")
    rows = answer.document["target"]["vocab_size"]
    accepted = [
        found
        for found in answer.document["candidates"]
        if found["model"] and found["engines"]["vllm-ascend"]["verdict"] in ("accepted", "care")
    ]
    assert answer.exit_code == 0
    assert accepted
    assert {found["model"]["vocab_size"] for found in accepted if found["viable"]} == {rows}
    small = candidates(answer)["Qwen/Qwen2.5-0.5B-Instruct"]
    assert not small["viable"]
    assert small["engines"]["vllm-ascend"]["verdict"] == "refused"
    assert "152,064 embedding rows against 151,936" in small["engines"]["vllm-ascend"]["reasons"][0]
    assert small["engines"]["llama.cpp"]["verdict"] == "accepted"


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_recommend_says_why_the_smallest_is_refused(form: str) -> None:
    text = run("recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend", "--format", form).stdout
    lines = text.splitlines()
    place = next(number for number, line in enumerate(lines) if "Qwen2.5-0.5B-Instruct" in line)
    told = " ".join(lines[place : place + 2])
    assert "152,064 embedding rows against 151,936" in told
    assert "refused" in told
    if form == "table":
        assert "accepted by llama.cpp" in told


def test_llama_2_and_mistral_differ_although_both_say_32000() -> None:
    answer = run("check", "meta-llama/Llama-2-7b-hf", "mistralai/Mistral-7B-v0.1", "--json")
    (found,) = answer.document["candidates"]
    assert (answer.exit_code, found["viable"]) == (1, False)
    assert outcomes(found)["tokenizer-identity"] == "reject"
    assert found["tokenizer"]["target"]["embedding_rows"] == found["tokenizer"]["draft"]["embedding_rows"] == 32000
    assert found["tokenizer"]["first_difference"]["id"] == 260
    sentence = answer.document["decision"]["sentence"]
    assert "although both state 32000 rows" in sentence
    assert "id 260 is ' t' in the target" in sentence


def test_qwen3_does_not_draft_for_qwen3_5() -> None:
    answer = run("check", "Qwen/Qwen3.5-27B", "Qwen/Qwen3-0.6B", "--json")
    assert answer.exit_code == 1
    assert outcomes(answer.document["candidates"][0])["tokenizer-identity"] == "reject"
    assert answer.document["decision"]["action"] == "do_not_speculate"


def test_deepseek_v3_is_offered_its_own_head_first() -> None:
    answer = run("recommend", "deepseek-ai/DeepSeek-V3", "--json")
    first, decision = answer.document["candidates"][0], answer.document["decision"]
    assert answer.exit_code == 0
    assert (first["method"], first["origin"], first["draft"], first["viable"]) == ("mtp", "target", None, True)
    assert (decision["action"], decision["method"], decision["num_spec_tokens"]) == ("speculate", "mtp", 3)
    assert "a separate draft model is not what to look for" in decision["sentence"]
    assert "own MTP head" in run("recommend", "deepseek-ai/DeepSeek-V3").stdout.splitlines()[3]


def test_a_model_that_was_never_published() -> None:
    answer = run("recommend", "Llama2-1.1B")
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert "No Llama 2 of 1.1B was ever published" in answer.stderr
    assert "TinyLlama-1.1B" in answer.stderr


# ---------------------------------------------------------------------- one model in three forms

TOKENS = words(990)
CONTROL = {990 + number: f"<|{name}|>" for number, name in enumerate(["start", "end", "tool", "think"])}
OTHER_TOKENS = {**TOKENS, 7: b"N other"}
LARGE = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
SMALL = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16}
LONGER = 2048
"""Embedding rows of a model that was padded further."""


def config(shape: dict[str, int], rows: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        **shape,
        "num_key_value_heads": 8,
        "vocab_size": rows,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "bos_token_id": 990,
        "eos_token_id": 991,
    }


def write_folder(path: Path, shape: dict[str, int], tokens: dict[int, bytes], rows: int) -> None:
    """A model folder with only config.json and tokenizer.json."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config(shape, rows)))
    (path / "tokenizer.json").write_text(json.dumps(byte_level_json(tokens, CONTROL)))


def write_gguf(path: Path, shape: dict[str, int], tokens: dict[int, bytes], rows: int) -> None:
    """The same model as a GGUF file: header alone."""
    said = gguf(tokens, CONTROL, padding=rows - len(tokens) - len(CONTROL), bos_token_id=990, eos_token_id=991)
    keys = {
        **said,
        "general.architecture": "qwen2",
        "general.file_type": 1,
        "qwen2.block_count": shape["num_hidden_layers"],
        "qwen2.context_length": 32768,
        "qwen2.embedding_length": shape["hidden_size"],
        "qwen2.feed_forward_length": shape["intermediate_size"],
        "qwen2.attention.head_count": shape["num_attention_heads"],
        "qwen2.attention.head_count_kv": 8,
        "qwen2.rope.freq_base": 1000000.0,
        "qwen2.vocab_size": rows,
    }
    path.write_bytes(build(keys, list(tensors(shape, rows))))


def tensors(shape: dict[str, int], rows: int) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """All tensors of the model, in F16."""
    wide, inner, heads = shape["hidden_size"], shape["intermediate_size"], shape["num_attention_heads"]
    cache = 8 * (wide // heads)
    yield "token_embd.weight", (wide, rows), 1
    yield "output.weight", (wide, rows), 1
    yield "output_norm.weight", (wide,), 1
    for layer in range(shape["num_hidden_layers"]):
        for name, size in (("attn_q", (wide, wide)), ("attn_k", (wide, cache)), ("attn_v", (wide, cache))):
            yield f"blk.{layer}.{name}.weight", size, 1
            yield f"blk.{layer}.{name}.bias", size[1:], 1
        yield f"blk.{layer}.attn_output.weight", (wide, wide), 1
        for name, size in (("ffn_gate", (wide, inner)), ("ffn_up", (wide, inner)), ("ffn_down", (inner, wide))):
            yield f"blk.{layer}.{name}.weight", size, 1
        yield f"blk.{layer}.attn_norm.weight", (wide,), 1
        yield f"blk.{layer}.ffn_norm.weight", (wide,), 1


MODELS: dict[str, tuple[dict[str, int], dict[int, bytes], int]] = {
    "target": (LARGE, TOKENS, 1024),
    "same": (SMALL, TOKENS, 1024),
    "padded": (SMALL, TOKENS, LONGER),
    "other": (SMALL, OTHER_TOKENS, 1024),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each model as a folder, as a GGUF file, and as a row of an overlay that `catalog add` wrote."""
    shelf = tmp_path_factory.mktemp("shelf")
    for name, (shape, tokens, rows) in MODELS.items():
        write_folder(shelf / name, shape, tokens, rows)
        write_gguf(shelf / f"{name}.gguf", shape, tokens, rows)
        added = run("catalog", "add", str(shelf / name), "--id", f"acme/{name}", "--catalog", str(shelf / "rows"))
        assert added.exit_code == 0, added.stderr
    return shelf


def in_form(shelf: Path, name: str, form: str) -> str:
    return {"id": f"acme/{name}", "folder": str(shelf / name), "gguf": str(shelf / f"{name}.gguf")}[form]


def judged(shelf: Path, draft: str, target_form: str, draft_form: str, *more: str) -> dict[str, Any]:
    names = in_form(shelf, "target", target_form), in_form(shelf, draft, draft_form)
    answer = run("check", *names, "--json", "--catalog", str(shelf / "rows"), *more)
    assert answer.stderr == ""
    (found,) = answer.document["candidates"]
    return {**found, "exit_code": answer.exit_code}


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {engine: verdict["verdict"] for engine, verdict in found["engines"].items()}


def test_the_overlay_holds_records_of_the_tokenizers(shelf: Path) -> None:
    assert run("catalog", "validate", str(shelf / "rows")).exit_code == 0
    keys = {
        run("catalog", "show", f"acme/{name}", "--json", "--catalog", str(shelf / "rows")).document["tokenizer"]: name
        for name in MODELS
    }
    assert len(keys) == 2, "three models share one tokenizer"
    for key in keys:
        record = run("catalog", "show", key, "--json", "--catalog", str(shelf / "rows")).document
        assert record["confidence"] == "verified file"
        assert record["named_ids"] == 994


@pytest.mark.parametrize(
    ("draft", "relation", "code"), [("same", "identical", 0), ("padded", "padding_only", 0), ("other", "different", 1)]
)
@pytest.mark.parametrize(("target_form", "draft_form"), [("folder", "folder"), ("id", "folder"), ("folder", "id")])
def test_a_folder_is_judged_as_its_catalogue_entry(
    shelf: Path, draft: str, relation: str, code: int, target_form: str, draft_form: str
) -> None:
    by_id = judged(shelf, draft, "id", "id")
    found = judged(shelf, draft, target_form, draft_form)
    assert by_id["tokenizer"]["relation"] == relation
    assert (by_id["exit_code"], found["exit_code"]) == (code, code)
    for key in ("relation", "verified", "first_difference", "target", "draft"):
        assert by_id["tokenizer"][key] == found["tokenizer"][key], key
    assert agree(by_id, found)
    assert by_id["engines"] == found["engines"]


@pytest.mark.parametrize("draft", ["same", "padded", "other"])
@pytest.mark.parametrize(
    ("target_form", "draft_form"), [("gguf", "gguf"), ("id", "gguf"), ("folder", "gguf"), ("gguf", "id")]
)
def test_a_gguf_file_is_judged_as_its_catalogue_entry(
    shelf: Path, draft: str, target_form: str, draft_form: str
) -> None:
    by_id, found = judged(shelf, draft, "id", "id"), judged(shelf, draft, target_form, draft_form)
    assert by_id["exit_code"] == found["exit_code"]
    assert by_id["viable"] == found["viable"]
    for key in ("relation", "verified", "first_difference"):
        assert by_id["tokenizer"][key] == found["tokenizer"][key], key
    for side in ("target", "draft"):
        for key in ("named_ids", "highest_id", "embedding_rows"):
            assert by_id["tokenizer"][side][key] == found["tokenizer"][side][key], key
    assert agree(by_id, found)
    assert verdicts(by_id) == verdicts(found)


def test_the_first_difference_is_named_in_every_form(shelf: Path) -> None:
    for target_form in ("id", "folder", "gguf"):
        for draft_form in ("id", "folder", "gguf"):
            first = judged(shelf, "other", target_form, draft_form)["tokenizer"]["first_difference"]
            assert first == {"id": 7, "target": " w7", "draft": " other"}, (target_form, draft_form)


def test_a_folder_is_recommended_what_its_entry_is(shelf: Path) -> None:
    """Drafts of the overlay are found for both, in the same order."""
    found = {}
    for form in ("id", "folder", "gguf"):
        answer = run("recommend", in_form(shelf, "target", form), "--json", "--catalog", str(shelf / "rows"))
        own = [one for one in answer.document["candidates"] if (one["draft"] or "").startswith("acme/")]
        found[form] = [(one["draft"], one["viable"]) for one in own if one["draft"] != "acme/target"]
    assert found["id"]
    assert found["id"] == found["folder"] == found["gguf"]
