"""Every reader of draftpick as a function over bytes: what a stranger may hand it, from which real file to begin.

A reader passes a file if it returns, or raises a DraftpickError whose message and hint are short. `scripts/fuzz.py`
looks for files that one does not pass; the tests beside this hold those that were found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gguf_builder
import misbehaving
import mutations
import small_tokenizers as small
from mutations import Mutation

from draftpick import catalog
from draftpick.errors import DraftpickError, NotResolvable

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).parent / "seeds"
DEMO = ROOT / "catalog" / "demo"
TESTS = ROOT / "tests"

LONGEST = 1500
"""Characters of an error that still fit a screen; a path and a value are cut before they fill it."""


class Reader(NamedTuple):
    """One way into draftpick."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    mutate: Mutation = mutations.raw
    words: Sequence[str] = ()
    """Of its format, that chance would not write."""

    def __repr__(self) -> str:
        return f"a reader with {len(self.seeds)} seeds"


class Unkind(Exception):
    """An error of ours that does not say what is wrong and what to do, or says too much."""


def passes(reader: Reader, data: bytes) -> DraftpickError | None:
    """What the reader says of a file; None where it takes it. Raises whatever else went wrong."""
    try:
        reader.read(data)
    except DraftpickError as error:
        if not error.message or not error.hint or max(len(error.message), len(error.hint)) > LONGEST:
            raise Unkind(f"{error.message[:200]!r}, {error.hint[:200]!r}") from error
        return error
    return None


def words_of(*records: Any) -> list[str]:
    """The names of the fields of pydantic's records, those inside them too."""
    found: dict[str, None] = {}
    waiting = [record.model_json_schema() for record in records]
    while waiting:
        schema = waiting.pop()
        for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
            if key in ("properties", "enum"):
                found |= dict.fromkeys(str(name) for name in value)
            if isinstance(value, (dict, list)):
                waiting.append(value)
    return list(found)


def in_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of a file as one of bytes."""

    def with_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    path.parent.mkdir(parents=True, exist_ok=True)
    return with_bytes


def judged(target: Any, draft: Any, known: catalog.Catalog, engine: str) -> object:
    """What is said of a pair of profiles, as a document that is read back."""
    from draftpick import advice
    from draftpick.advice_file import advice_of
    from draftpick.pair import Setting
    from draftpick.report.json import document

    setting = Setting(engine=known.engine(engine), device=known.device("910b3"), max_num_seqs=8, max_model_len=4096)
    return advice_of(document(advice.check(target, draft.id, setting, known, lambda name, revision=None: draft)))


# ---------------------------------------------------------------------- models

BPE = small.byte_level_json(small.words(6), {6: "<|end|>"})
CONFIGS = [path.read_bytes() for path in sorted((TESTS / "hub").glob("*.json"))]
CONFIG_WORDS = (
    "head_dim", "num_key_value_heads", "num_local_experts", "moe_intermediate_size", "sliding_window", "layer_types",
    "rope_scaling", "rope_parameters", "text_config", "quantization_config", "config_groups", "speculators_config",
    "base_model_name_or_path", "num_nextn_predict_layers", "mlp_only_layers", "hybrid_override_pattern", "torch_dtype",
    "attn_layer_period", "attn_layer_offset", "kv_lora_rank", "qk_rope_head_dim", "expansion_ratio", "_name_or_path",
    "quantization", "moe_layers_enum", "layers_block_type", "linear_attn_config", "vision_config", "auto_map",
    "draft_vocab_size", "compress_ratios", "cross_attention_layers", "attention_chunk_size", "medusa", "eagle3",
)  # fmt: skip
CARD = b"---\nlicense: apache-2.0\nbase_model:\n- Qwen/Qwen2.5-7B\nbase_model_relation: finetune\n---\n# A\n"


def _models(folder: Path) -> dict[str, Reader]:
    from draftpick.models.card import read_card
    from draftpick.models.folder import profile_from_folder, profile_from_gguf_file
    from draftpick.models.safetensors import read_folder, read_header
    from draftpick.models.tokenizer import compare, fingerprint
    from draftpick.models.vocabulary_files import read_folder as read_tokenizer

    known = catalog.load()

    def profile(path: Path, **more: Any) -> object:
        return profile_from_folder(path.parent, known, id=path.parent.name, **more)

    def base(name: str) -> Any:
        if (found := known.find(name)) is None:
            raise NotResolvable(f"{name[:300]} is not known", "name another")
        return found

    def in_pairs(path: Path) -> object:
        found, other = profile(path), known.profile("Qwen/Qwen2.5-7B-Instruct")
        return [judged(*pair, known, "vllm") for pair in ((found, other), (other, found))]

    def tokenizer(path: Path) -> object:
        found = read_tokenizer(path.parent)
        return found and compare(fingerprint(found, verified=True), usual, found.size, None)

    def gguf(path: Path) -> object:
        return profile_from_gguf_file(path, known, id="a")

    def beside(name: str, file: str, content: Any) -> Path:
        """A folder with one file that is sound."""
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
        return path.parent

    config = json.loads((DEMO / "target" / "config.json").read_bytes())
    of_demo = read_tokenizer(DEMO / "target")
    assert of_demo is not None
    usual = fingerprint(of_demo, verified=True)
    index = {"metadata": {"total_size": 8}, "weight_map": {"a.weight": "a.safetensors", "b": "sub/b.safetensors"}}
    header = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [0, 16]},
        "model.layers.0.mlp.up_proj.weight": {"dtype": "I32", "shape": [2], "data_offsets": [16, 24]},
        "fc.weight": {"dtype": "F8_E4M3", "shape": [2, 1, 1], "data_offsets": [24, 26]},
    }
    raw_header = json.dumps(header).encode()
    weights = len(raw_header).to_bytes(8, "little") + raw_header + bytes(26)
    adapter = {"base_model_name_or_path": "Qwen/Qwen2.5-7B", "peft_type": "LORA", "r": 8}
    spm = [small.sentencepiece(small.words(3), {3: "<s>"}, bpe=bpe, unused=(4,)) for bpe in (True, False)]
    bpe_tokens = {**small.words(4), 4: b"B\n"}
    spm_json = json.dumps(small.spm_json(bpe_tokens, {5: "</s>"})).encode()
    gguf_keys = small.gguf(small.words(4), {4: "<|im_end|>"}, pre="qwen2", eos_token_id=4, scores=[0.5], merges=["a b"])
    ggufs = [
        gguf_builder.build(gguf_builder.qwen2() | gguf_keys, [("token_embd.weight", (8, 5), 12)]),
        gguf_builder.build({**small.gguf(small.words(4), {4: "</s>"}, model="llama"), "n": [[1], []]}, order=">"),
    ]
    tekkens = [
        json.dumps(small.tekken(small.moved(small.words(4), 3), names, reserved=3, listed=1)).encode()
        for names in (None, {0: "<s>", 1: "</s>"})
    ]
    settings = b'{"bos_token": null, "eos_token": {"content": "<|end|>"}, "add_bos_token": false,'
    settings += b'"chat_template": "{{ x }}<|end|>",'
    settings += b'"added_tokens_decoder": {"6": {"content": "<|end|>", "special": true}}, "tokenizer_class": "A"}'
    inside = partial(in_file, read=profile)
    with_config = partial(beside, file="config.json", content=config)
    with_tokenizer = partial(beside, file="tokenizer.json", content=BPE)
    tree, words = mutations.json_tree, CONFIG_WORDS
    return {
        "config": Reader(in_file(folder / "config" / "config.json", profile), CONFIGS, tree, words),
        "config-judged": Reader(in_file(folder / "judged" / "config.json", in_pairs), CONFIGS, tree, words),
        "adapter": Reader(
            in_file(folder / "adapter" / "adapter_config.json", partial(profile, base=base)),
            [json.dumps(adapter).encode()],
            tree,
            ["../../etc/passwd", "/etc/passwd", "Qwen/Qwen2.5-7B-Instruct"],
        ),
        "quantization": Reader(
            inside(with_config("quantization") / "quant_model_description.json"),
            [b'{"model_quant_type": "W8A8", "model.layers.0.mlp": "W8A8_DYNAMIC", "lm_head.weight": "FLOAT"}'],
            tree,
        ),
        "hf-quantization": Reader(
            inside(with_config("hf-quantization") / "hf_quant_config.json"),
            [b'{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "bits": 8}}'],
            tree,
            words,
        ),
        "card": Reader(
            in_file(folder / "card" / "README.md", read_card),
            [CARD, CARD.replace(b"\n", b"\r\n")],
            words=["base_model:", "license_name:", "- ", "---", "[", "]", "|", "&", "*", "!!python/object:os.system"],
        ),
        "safetensors": Reader(
            in_file(folder / "safetensors.safetensors", read_header),
            [weights],
            mutations.with_header,
            ["data_offsets", "shape", "dtype", "BF16", "F4", "__metadata__"],
        ),
        "index": Reader(
            in_file(with_config("index") / "model.safetensors.index.json", lambda path: read_folder(path.parent)),
            [json.dumps(index).encode()],
            tree,
            ["../a", "/etc/passwd", "a\\b", "weight_map", "total_size", "a.safetensors", "config.json"],
        ),
        "gguf": Reader(
            in_file(folder / "gguf.gguf", gguf),
            ggufs,
            words=["general.architecture", "qwen2.block_count", "tokenizer.ggml.tokens", "GGUF", "llama"],
        ),
        "tokenizer-json": Reader(
            in_file(folder / "tokenizer-json" / "tokenizer.json", tokenizer),
            [json.dumps(BPE).encode(), spm_json],
            tree,
            ["byte_fallback", "merges", "Unigram", "WordPiece", "Metaspace", "ByteLevel", "\u2581", "<0x0A>", "NFKC"],
        ),
        "tokenizer-config": Reader(
            in_file(with_tokenizer("tokenizer-config") / "tokenizer_config.json", tokenizer),
            [settings],
            tree,
            ["template", "chat_template", "content", "eos_token", "added_tokens_decoder", "<|end|>"],
        ),
        "generation-config": Reader(
            in_file(with_tokenizer("generation-config") / "generation_config.json", tokenizer),
            [b'{"eos_token_id": [6, 1], "bos_token_id": 0}'],
            tree,
        ),
        "vocab-json": Reader(
            in_file(folder / "vocab-json" / "vocab.json", tokenizer), [b'{"a": 0, "\\u0120b": 1, "<|end|>": 2}'], tree
        ),
        "sentencepiece": Reader(in_file(folder / "sentencepiece" / "tokenizer.model", tokenizer), spm),
        "tiktoken": Reader(
            in_file(folder / "tiktoken" / "a.tiktoken", tokenizer), [small.tiktoken(small.words(5))], words=["YQ== 1\n"]
        ),
        "tekken": Reader(
            in_file(folder / "tekken" / "tekken.json", tokenizer), tekkens, tree, ["rank", "token_str", "token_bytes"]
        ),
        "rwkv": Reader(
            in_file(folder / "rwkv" / "rwkv_vocab_v1.txt", tokenizer),
            [b"1 'a' 1\n2 b'\\xff' 1\n3 '\\n' 1\n"],
            words=["b'", "f'", "(", "1_0", "\\N{", "'a' 'b'", "-", "{", "lambda"],
        ),
    }


# ---------------------------------------------------------------------- documents of draftpick


def _documents(folder: Path) -> dict[str, Reader]:
    from draftpick import gate_file, probe_file
    from draftpick.advice_file import AdviceFile
    from draftpick.doctor_file import DoctorFile
    from draftpick.gate_file import BaselineFile, GateFile, PolicyFile
    from draftpick.launch import launch
    from draftpick.launch_input import Choice, wanted_from
    from draftpick.observe_file import ObservationFile
    from draftpick.probe_file import GivenCosts, ProbeFile
    from draftpick.probing import prompts, trace
    from draftpick.report import saved

    known = catalog.load()

    def replayed(path: Path) -> object:
        found = trace.read(path)
        for draft in (None, *found.drafts):
            for heat in found.temperatures:
                found.of(draft, heat)
        return found

    def reported(path: Path) -> object:
        found = saved.read(path)
        forms = ["json", "markdown", "html", *saved._WRITERS[type(found)][1]]
        return [saved.write(found, form, explain=True, everything=True) for form in forms]

    def probed(path: Path) -> object:
        return probe_file.trace_of(probe_file.read_probe(path), path)

    (folder / "probe").mkdir(parents=True, exist_ok=True)
    (folder / "probe" / "probe.trace.jsonl").write_bytes((SEEDS / "probe.trace.jsonl").read_bytes())
    seed = {path.stem: path.read_bytes() for path in sorted(SEEDS.glob("*.json"))}
    tree = mutations.json_tree
    pairs = (ROOT / "ci" / "pairs.toml").read_bytes()
    more = b'waivers = [{ check = "memory", reason = "later", expires = 2027-01-31 }]\nengine = "vllm"\n'
    whole = pairs.replace(b"[pair.policy]", more + b"[pair.policy]") + b"max_k_drift = 1\ntolerance = 0.02\n"
    return {
        "trace": Reader(
            in_file(folder / "a.trace.jsonl", replayed),
            [(SEEDS / "probe.trace.jsonl").read_bytes()],
            mutations.json_lines,
            ["target_prob_of_top", "log_q", "overlap", "0.7", "eos_ids", "draftpick_trace", "stop", "length"],
        ),
        "probe": Reader(
            in_file(folder / "probe" / "a.json", probed),
            [seed["probe"]],
            tree,
            [*words_of(ProbeFile), "../../../etc/passwd", "probe.trace.jsonl"],
        ),
        "report-probe": Reader(in_file(folder / "report.json", reported), [seed["probe"]], tree, words_of(ProbeFile)),
        "report-advice": Reader(
            in_file(folder / "report.json", reported), [seed["advice"], seed["plan"]], tree, words_of(AdviceFile)
        ),
        "report-gate": Reader(in_file(folder / "report.json", reported), [seed["gate"]], tree, words_of(GateFile)),
        "report-observation": Reader(
            in_file(folder / "report.json", reported), [seed["observation"]], tree, words_of(ObservationFile)
        ),
        "report-doctor": Reader(
            in_file(folder / "report.json", reported), [seed["doctor"]], tree, words_of(DoctorFile)
        ),
        "launch": Reader(
            in_file(folder / "launch.json", lambda path: launch(wanted_from(path, Choice(), known))),
            [seed["advice"], seed["probe"], seed["plan"]],
            tree,
            [*words_of(AdviceFile), *known.engines],
        ),
        "policy": Reader(
            in_file(folder / "pairs.toml", gate_file.read_policy),
            [pairs, whole],
            mutations.toml_lines,
            words_of(PolicyFile),
        ),
        "baseline": Reader(
            in_file(folder / "baseline.json", gate_file.read_baseline),
            [(ROOT / "ci" / "baseline.json").read_bytes()],
            tree,
            words_of(BaselineFile),
        ),
        "costs": Reader(
            in_file(folder / "costs.json", probe_file.read_costs),
            [b'{"target_ms": 10.0, "draft_ms": 1.0, "verify_ms": [10.0, 11.0], "overhead_ms": 0.5, "software": "x"}'],
            tree,
            words_of(GivenCosts),
        ),
        "prompts": Reader(
            in_file(folder / "prompts.jsonl", prompts.read),
            [b"\n".join((DEMO / "prompts.jsonl").read_bytes().splitlines()[:4]) + b"\n"],
            mutations.json_lines,
            ["prompt", "response", "id", "domain", "language"],
        ),
        "answers": Reader(
            in_file(folder / "answers.jsonl", partial(prompts.read, answered=True)),
            [b'{"prompt": "a", "response": "b", "id": "1"}\n{"prompt": "c", "response": "d"}\n'],
            mutations.json_lines,
            ["prompt", "response", "id", "domain", "language"],
        ),
    }


# ---------------------------------------------------------------------- options, rules, the catalogue


def _settings(folder: Path) -> dict[str, Reader]:
    from draftpick import choices, engine_file, files, option_values, options

    def laid_over(name: str, file: str, show: Callable[[catalog.Catalog], object]) -> Callable[[bytes], object]:
        return in_file(folder / name / file, lambda _: show(catalog.load(folder / name)))

    def families(found: catalog.Catalog) -> object:
        qwen = found.profile("Qwen/Qwen2.5-7B-Instruct")
        own = [found.profile(model) for model in found.models if model.startswith("fuzz/")][:5]
        return [judged(one, qwen, found, "vllm") for one in own], [found.heads_for(one.id) for one in own]

    def tokenizers(found: catalog.Catalog) -> object:
        light = found.tokenizer("afm-bpe-128004")
        return light and found.full_tokenizer(light)

    def engines(found: catalog.Catalog) -> object:
        pair = (found.profile("Qwen/Qwen2.5-72B-Instruct"), found.profile("Qwen/Qwen2.5-7B-Instruct"))
        return [judged(*pair, found, engine) for engine in ("xllm", "vllm-ascend")]

    def placed(found: catalog.Catalog) -> object:
        return [found.device(name) for name in found.devices], engines(found)

    def merged(path: Path) -> object:
        asked = dict.fromkeys(
            (*option_values._OF_PAIRS, *option_values._OF_SETTINGS, *option_values._LISTS, *option_values._SWITCHES)
        )
        return options.merged({**asked, "config": path, "output_format": None, "catalog_folder": None, "output": None})

    def toml(name: str) -> bytes:
        return (ROOT / "catalog" / name).read_bytes()

    model = b'family = "Mine"\n[[model]]\nid = "fuzz/a"\nsource = "s"\nchecked = 2026-10-31\nhidden_size = 64\n'
    more = b'aliases = ["b"]\nparams_total = 1000\nlineage = { base_model = "Qwen/Qwen2.5-7B" }\nnotes = ["n"]\n'
    heads = b'[[head]]\nid = "fuzz/h"\nmethod = "eagle3"\ntarget = "fuzz/a"\nsource = "s"\nchecked = 2026-10-31\n'
    tokenizer = toml("tokenizers/afm-bpe-128004.toml") + b'full = "%s"\nblocks = "%s"\nsketch = "AAAAAA=="\n' % (
        b"0" * 64,
        b"ab" * 16,
    )
    lines, seeds = mutations.toml_lines, (ROOT / "catalog" / "families" / "bielik.toml").read_bytes()
    first = b"\n\n".join(toml("devices.toml").split(b"\n\n")[:3])
    return {
        "family": Reader(
            laid_over("over", "families/x.toml", families),
            [model, model + more + heads, seeds],
            lines,
            words_of(files.FamilyFile),
        ),
        "tokenizer-row": Reader(
            laid_over("over-tokenizer", "tokenizers/afm-bpe-128004.toml", tokenizers),
            [tokenizer, toml("tokenizers/afm-bpe-128004.toml")],
            lines,
            words_of(files.TokenizerRecord),
        ),
        "engine-row": Reader(
            laid_over("over-engine", "engines/xllm.toml", engines),
            [toml("engines/xllm.toml")],
            lines,
            words_of(engine_file.EngineFile),
        ),
        "devices-row": Reader(
            laid_over("over-devices", "devices.toml", placed), [first], lines, words_of(files.DevicesFile)
        ),
        "issues-row": Reader(
            laid_over("over-issues", "known_issues.toml", engines),
            [b"\n\n".join(toml("known_issues.toml").split(b"\n\n")[:3])],
            lines,
            words_of(engine_file.IssuesFile),
        ),
        "rules": Reader(
            in_file(folder / "rules.toml", choices.load_rules_file),
            [b'select = ["size-ratio"]\n[weights]\nsize-ratio = 2\n[ignore]\nlicence = "we know"\n'],
            lines,
            ["select", "weights", "ignore", "size-ratio", "context"],
        ),
        "options": Reader(
            in_file(folder / "options.toml", merged),
            [
                b'engine = "vllm"\ntensor-parallel-size = 4\ndraft-model = ["a/b"]\nimages = true\n'
                b"gpu-memory-utilization = 0.9\n"
            ],
            lines,
            [*option_values._OF_PAIRS, *option_values._OF_SETTINGS, "format", "catalog"],
        ),
    }


# ---------------------------------------------------------------------- servers and tools

NPU_SMI = b"""\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 94.9        43                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3394 / 65536         |
+===========================+===============+====================================================+
"""


def _tools(_: Path) -> dict[str, Reader]:
    from draftpick import devices

    def shown(kind: str) -> Callable[[bytes], object]:
        return lambda data: (
            devices.visible(devices.chips_in(kind, data.decode("utf-8", "replace"))),
            devices.driver_in(data.decode("utf-8", "replace")),
        )

    return {
        "npu-smi": Reader(
            shown("npu"), [NPU_SMI], words=["910B3", "Ascend", "/", "|", "0000:C1:00.0", "99999 / 99999"]
        ),
        "nvidia-smi": Reader(shown("cuda"), [b"NVIDIA H200, 143771, 4\nNVIDIA A100, 81920, [N/A]\n"]),
        "sysctl": Reader(shown("mps"), [b"Apple M3 Max\n"]),
    }


def _metrics(folder: Path) -> dict[str, Reader]:
    from draftpick import responses, scrape
    from draftpick.counters import FAMILIES
    from draftpick.observe import costs_from_numbers, observe, observe_responses

    costs = costs_from_numbers(0.1, 1.1, 0.0)

    def observed(path: Path) -> object:
        return observe([scrape.from_file(path, FAMILIES)], costs)

    def answered(path: Path) -> object:
        return observe_responses(responses.read(path), costs)

    log = (TESTS / "responses" / "vllm-0.32.0.jsonl").read_bytes().splitlines(keepends=True)
    constrained = (TESTS / "responses" / "vllm-0.32.0-regex.jsonl").read_bytes()
    texts = [path.read_bytes() for path in sorted((TESTS / "scrapes").glob("*.txt"))]
    texts.append(
        b'sglang:spec_accept_length{model_name="a",tp_rank="0"} 2.9\nsglang:spec_accept_rate{model_name="a"} 0.6\n'
    )
    return {
        "prometheus": Reader(
            in_file(folder / "metrics.txt", observed),
            texts,
            words=[
                "NaN",
                "+Inf",
                "1e400",
                " # {",
                '\\"',
                "_total",
                "_created",
                'position="0"',
                'engine="1"',
                "vllm:",
                "e9",
            ],
        ),
        "responses": Reader(
            in_file(folder / "log.jsonl", answered),
            [b"".join(log[:3]), b"".join(log[-3:]), constrained],
            mutations.json_lines,
            ["data: ", "[DONE]", "metrics", "speculative_decoding", "acceptance_histogram", "response", "body"],
        ),
    }


HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"data": [1]}'
CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{"a": 1\r\n1\r\n}\r\n0\r\n\r\n'
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 2\r\n\r\n{}"
MOVED = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/there\r\nContent-Length: 0\r\n\r\n"
HTTP_WORDS = (
    "Content-Length: ", "Content-Encoding: gzip", "Transfer-Encoding: chunked", "Location: http://127.0.0.1:1/", "\r\n",
    "Retry-After: ", "HTTP/1.0", "100 Continue", "Location: file:///etc/passwd", "Location: //[", "Set-Cookie: a=b",
    "Wed, 99 Foo 99999 99:99:99 +9999", "data: ", "event: ", "data: [DONE]", "\n\n",
)  # fmt: skip
EVENTS = b'data: {"choices": [{"token_ids": [1, 2]}], "meta_info": {"completion_tokens": 1}, "tokens_predicted": 1}\n\n'


def _served(behave: list[bytes], raw_url: str, page_url: str) -> dict[str, Reader]:
    from draftpick import scrape
    from draftpick.counters import FAMILIES
    from draftpick.probing.api import About
    from draftpick.probing.api_llama import LlamaCpp
    from draftpick.probing.api_sglang import Sglang
    from draftpick.probing.api_vllm import Vllm
    from draftpick.probing.client import Client
    from draftpick.probing.local import Sampling
    from draftpick.probing.prompts import Prompt
    from draftpick.probing.server import connect

    sampling, prompt = Sampling(0.0), Prompt("a", "b")

    def client(url: str) -> Client:
        return Client(url, seconds=5.0, tries=2, wait=lambda _: None)

    raw_client, page_client = client(raw_url), client(page_url)

    def asked(data: bytes) -> object:
        behave[0] = data
        return raw_client.get("/v1/models")

    def streamed(data: bytes) -> object:
        behave[0] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + data
        return [list(make(raw_client, about).stream([1], sampling, 2)) for make in (Vllm, Sglang, LlamaCpp)]

    def written(make: Any, ask: Callable[[Any], object]) -> Callable[[bytes], object]:
        def of_bytes(data: bytes) -> object:
            behave[0] = data
            return ask(make(page_client, about))

        return of_bytes

    def connected(data: bytes) -> object:
        behave[0] = data
        return connect(page_url, name=None, called=None, engine=None, width=1)

    def scraped(data: bytes) -> object:
        behave[0] = data
        return scrape.from_server(raw_url, FAMILIES, 5.0)

    about, tree = About("m", "m", "vllm", "1", 100), mutations.json_tree
    ids = {"tokens": [1, 2], "chat_template": "x", "prompt": "y"}
    vllm = {
        "choices": [
            {
                "token_ids": [5, 6],
                "finish_reason": "length",
                "logprobs": {
                    "token_logprobs": [-0.1, -0.2],
                    "top_logprobs": [{"token_id:5": -0.1, "token_id:9": -3.0}] * 2,
                },
            }
        ]
    }
    column = {"logprob": -0.1, "rank": 1, "decoded_token": "x"}
    vllm_read = {"choices": [{"prompt_logprobs": [None, {"2": column}, {"5": column, "7": {"logprob": -0.05}}]}]}
    sglang = {
        "meta_info": {
            "finish_reason": {"type": "stop"},
            "output_token_logprobs": [[-0.1, 5, None]],
            "output_top_logprobs": [[[-0.1, 5, None], [-2.0, 6, None]]],
            "completion_tokens": 1,
        }
    }
    sglang_read = {
        "meta_info": {
            "input_token_logprobs": [[None, 2, "b"], [-0.1, 5, "x"]],
            "input_top_logprobs": [None, [[-0.1, 5, "x"]]],
        }
    }
    top = [{"id": 5, "logprob": -0.1, "token": "x"}, {"id": 6, "logprob": -2.0}]
    llama = {
        "stop_type": "eos",
        "completion_probabilities": [{"id": 5, "token": "x", "logprob": -0.1, "top_logprobs": top}],
    }
    listed = {
        "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 10, "root": "m"}],
        "version": "1",
        "build_info": "b1",
    }
    pages: dict[str, tuple[Any, Callable[[Any], object], Any]] = {
        "vllm-writes": (Vllm, lambda one: one.write([1], sampling, 2, 0), vllm),
        "vllm-reads": (Vllm, lambda one: one.read([1, 2], [5], ended=False), vllm_read),
        "sglang-writes": (Sglang, lambda one: one.write([1], sampling, 1, 0), sglang),
        "sglang-reads": (Sglang, lambda one: one.read([1, 2], [5], ended=False), sglang_read),
        "llama-writes": (LlamaCpp, lambda one: one.write([1], sampling, 1, 0), llama),
        "llama-reads": (LlamaCpp, lambda one: one.read([1, 2], [5], ended=True), llama),
        "vllm-tokenizes": (Vllm, lambda one: one.prompt_ids(prompt, None), ids),
        "llama-tokenizes": (LlamaCpp, lambda one: one.prompt_ids(prompt, True), ids),
    }
    return {
        "http": Reader(asked, [HEAD, CHUNKED, BUSY, MOVED], words=HTTP_WORDS),
        "http-metrics": Reader(scraped, [HEAD.replace(b'{"data": [1]}', b"vllm:a{} 1.0\n"), MOVED], words=HTTP_WORDS),
        "events": Reader(
            streamed, [EVENTS + b"data: [DONE]\n\n", b": ping\n" + EVENTS * 2], mutations.json_lines, HTTP_WORDS
        ),
        "models-page": Reader(
            connected, [json.dumps(listed).encode()], tree, ["meta", "n_ctx", "parent", "sglang", "llamacpp"]
        ),
        **{
            name: Reader(
                written(make, ask), [json.dumps(page).encode()], tree, ["logprob", "top_logprobs", "token_ids"]
            )
            for name, (make, ask, page) in pages.items()
        },
    }


@contextmanager
def readers(folder: Path, only: str | None = None) -> Iterator[dict[str, Reader]]:
    """All of them, by name, or as many as it takes until `only` is there.

    They write into a folder, and two real servers say what they are told to.
    """
    behave = [b""]

    def served(_: Path) -> dict[str, Reader]:
        found = _served(behave, raw_url, page_url)
        return {name: one._replace(read=_forgetting(one.read, *heard)) for name, one in found.items()}

    with (
        misbehaving.serving(lambda handler: misbehaving.raw(behave[0])(handler)) as (raw_url, heard_raw),
        misbehaving.serving(lambda handler: misbehaving.page(behave[0])(handler)) as (page_url, heard_page),
    ):
        heard, found = (heard_raw, heard_page), dict[str, Reader]()
        for group in (_tools, _models, _metrics, served, _settings, _documents):
            if only not in found:
                found |= group(folder)
        yield found


def _forgetting(read: Callable[[bytes], object], *heard: list[Any]) -> Callable[[bytes], object]:
    """A reader over a server that does not keep what it was asked: millions of questions would fill the memory."""

    def read_and_forget(data: bytes) -> object:
        for one in heard:
            one.clear()
        return read(data)

    return read_and_forget
