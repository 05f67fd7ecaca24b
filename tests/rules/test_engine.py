"""What each engine says of a pair."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick.catalog_index import read_toml
from draftpick.models.profile import Experts, ModelProfile
from draftpick.models.tokenizer import Difference, Fingerprint, Relation, RelationKind
from draftpick.pair import Device, Engine, Head, Pair, Proposal, Setting
from draftpick.rules.engine import Verdict, reuses_layers, takes_length, verdict

CATALOG = Path(__file__).parents[2] / "catalog"
ENGINES = tuple(sorted(path.stem for path in (CATALOG / "engines").glob("*.toml")))


@cache
def facts() -> dict[str, dict[str, Any]]:
    return {path.stem: read_toml(path) for path in (CATALOG / "engines").glob("*.toml")}


def engine(name: str) -> Engine:
    key, _, version = name.partition("@")
    row = facts()[key]
    return Engine(key=key, name=row["name"], version=version or row["version"], facts=row)


def model(id: str, rows: int | None, architecture: str = "LlamaForCausalLM", **fields: Any) -> ModelProfile:
    return ModelProfile(id=id, origin="catalogue", vocab_size=rows, architecture=architecture, **fields)


def pair(target: ModelProfile, draft: ModelProfile | None, method: str = "draft_model", **setting: Any) -> Pair:
    head = setting.pop("head", None)
    return Pair(
        target=target,
        proposal=Proposal(method=method, origin="given", draft=draft, head=head),
        setting=Setting(**setting),
    )


def relation(kind: RelationKind, verified: bool = True, **fields: Any) -> Relation:
    return Relation(kind=kind, verified=verified, reason="compared id by id", **fields)


def said(name: str, of: Pair, relation: Relation | None = None) -> Verdict:
    return verdict(of, relation, engine(name))


QWEN_BIG = model("Qwen/Qwen2.5-72B-Instruct", 152064, num_attention_heads=64, num_key_value_heads=8)
QWEN_SMALL = model("Qwen/Qwen2.5-0.5B-Instruct", 151936, num_attention_heads=14, num_key_value_heads=2)
QWEN3 = model("Qwen/Qwen3-8B", 151936, num_attention_heads=32, num_key_value_heads=8)
QWEN3_SMALL = model("Qwen/Qwen3-0.6B", 151936, num_attention_heads=16, num_key_value_heads=8)
THREE_KV_HEADS = model("a/three", 151936, num_attention_heads=12, num_key_value_heads=3)
LLAMA2 = model("meta-llama/Llama-2-7b-hf", 32000, tokenizer=Fingerprint(key="llama2", base_ids=32000))
MISTRAL = model("mistralai/Mistral-7B-v0.1", 32000, tokenizer=Fingerprint(key="mistral", base_ids=32000))
SAME = relation("identical")
QWEN3_TAGS = relation(
    "control_tokens",
    first_difference=Difference(id=151665, target="<tool_response>", draft=None),
    only_target=(151665, 151666, 151667, 151668),
)
OTHER = relation("different", first_difference=Difference(id=260, target="er", draft=" t"))

ROWS_DIFFER_SAME_TOKENIZER = [
    ("vllm", "care", "use_heterogeneous_vocab"),
    ("vllm@0.25.0", "care", "greedy"),
    ("vllm@0.24.0", "refused", "152,064 embedding rows against 151,936"),
    ("vllm-ascend", "refused", "152,064 embedding rows against 151,936"),
    ("sglang", "refused", "152,064 embedding rows against 151,936"),
    ("llama.cpp", "accepted", "same token text"),
    ("llama.cpp@2024-05", "refused", "a difference of 128, allowed are 100"),
    ("llama.cpp@b3000", "refused", "a difference of 128, allowed are 100"),
    ("llama.cpp@b2000", "refused", "a difference of 128, allowed are 100"),
    ("llama.cpp@2025", "accepted", "same token text"),
    ("transformers", "care", "both tokenizers must be passed"),
    ("mlx", "accepted", "tokenizer.vocab_size"),
    ("tensorrt-llm", "care", "nothing is compared"),
]


@pytest.mark.parametrize(("name", "expected", "reason"), ROWS_DIFFER_SAME_TOKENIZER, ids=lambda value: str(value)[:20])
def test_rows_that_differ_by_padding_only(name: str, expected: str, reason: str) -> None:
    answer = said(name, pair(QWEN_BIG, QWEN_SMALL), SAME)
    assert answer.verdict == expected
    assert reason in answer.reasons[0]


QWEN3_WITH_QWEN25 = [
    ("vllm", "care", "only the target names ids 151665–151668"),
    ("vllm-ascend", "care", "only the target names ids 151665–151668"),
    ("transformers", "care", "only the target names ids 151665–151668"),
    ("sglang", "refused", "first at id 151665: '<tool_response>' against no such token"),
    ("llama.cpp", "refused", "first at id 151665"),
]


@pytest.mark.parametrize(("name", "expected", "reason"), QWEN3_WITH_QWEN25, ids=lambda value: str(value)[:20])
def test_control_tokens_named_on_one_side(name: str, expected: str, reason: str) -> None:
    draft = model("Qwen/Qwen2.5-0.5B", 151936)
    answer = said(name, pair(QWEN3, draft), QWEN3_TAGS)
    assert answer.verdict == expected
    assert reason in answer.reasons[0]


OTHER_VOCABULARY = [
    ("vllm", "accepted", "near zero"),
    ("vllm-ascend", "accepted", "near zero"),
    ("transformers", "accepted", "near zero"),
    ("mlx", "accepted", "near zero"),
    ("tensorrt-llm", "accepted", "near zero"),
    ("sglang", "refused", "first at id 260: 'er' against ' t'"),
    ("llama.cpp", "refused", "first at id 260: 'er' against ' t'"),
]


@pytest.mark.parametrize(("name", "expected", "reason"), OTHER_VOCABULARY, ids=lambda value: str(value)[:20])
def test_equal_rows_with_another_vocabulary(name: str, expected: str, reason: str) -> None:
    answer = said(name, pair(LLAMA2, MISTRAL), OTHER)
    assert answer.verdict == expected
    assert reason in answer.reasons[0]


@pytest.mark.parametrize(
    ("name", "of", "expected"),
    [
        ("vllm", "unverified", "accepted"),
        ("vllm-ascend", "unverified", "accepted"),
        ("transformers", "unverified", "accepted"),
        ("mlx", "unverified", "accepted"),
        ("sglang", "unverified", "care"),
        ("llama.cpp", "unverified", "care"),
        ("sglang", "same file", "accepted"),
        ("llama.cpp", "same file", "accepted"),
        ("vllm", "unknown", "accepted"),
        ("vllm-ascend", "unknown", "accepted"),
        ("sglang", "unknown", "unknown"),
        ("llama.cpp", "unknown", "unknown"),
        ("mlx", "unknown", "unknown"),
        ("tensorrt-llm", "unknown", "care"),
    ],
)
def test_tokenizers_that_are_not_verified(name: str, of: str, expected: str) -> None:
    compared = {
        "unverified": relation("identical", verified=False),
        "same file": relation("identical", verified=False, same_ids=151669),
        "unknown": relation("unknown"),
    }[of]
    answer = said(name, pair(QWEN3, QWEN3_SMALL), compared)
    assert answer.verdict == expected
    if of != "unknown":
        assert "probably" in answer.reasons[0]


@pytest.mark.parametrize(("difference", "expected"), [(0, "accepted"), (128, "accepted"), (129, "refused")])
def test_llama_cpp_takes_a_difference_of_128(difference: int, expected: str) -> None:
    target, draft = model("a/target", 50000 + difference), model("a/draft", 50000)
    assert said("llama.cpp", pair(target, draft), SAME).verdict == expected
    assert said("llama.cpp", pair(draft, target), SAME).verdict == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        pytest.param(2, "accepted", id="below the first compared id"),
        pytest.param(5, "refused", id="the first compared id"),
        pytest.param(31999, "refused", id="the last shared id"),
        pytest.param(32000, "accepted", id="beyond the smaller vocabulary"),
    ],
)
def test_llama_cpp_compares_from_5_to_the_smaller_size(part: int, expected: str) -> None:
    target, draft = model("a/target", 32000), model("a/draft", 32064)
    compared = relation(
        "control_tokens", first_difference=Difference(id=part, target=None, draft="<|user|>"), only_draft=(part,)
    )
    assert said("llama.cpp", pair(target, draft), compared).verdict == expected


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param((1024, 2047), "refused", id="within"),
        pytest.param((33000, 34000), "accepted", id="beyond"),
    ],
)
def test_llama_cpp_knows_the_block_of_the_first_difference(between: tuple[int, int], expected: str) -> None:
    compared = relation("extension", first_difference_in=between)
    assert said("llama.cpp", pair(model("a/t", 32000), model("a/d", 32064)), compared).verdict == expected


@pytest.mark.parametrize(("name", "severity"), [("llama.cpp", "silent no-op"), ("llama.cpp@b5000", "refuses at start")])
def test_llama_cpp_runs_on_without_a_draft_that_does_not_fit(name: str, severity: str) -> None:
    assert said(name, pair(model("a/t", 32000), model("a/d", 32000 - 129)), SAME).severity == severity


@pytest.mark.parametrize("name", ["llama.cpp", "sglang"])
def test_a_difference_that_is_only_said_to_exist_refuses_nothing(name: str) -> None:
    answer = said(name, pair(QWEN3, QWEN3_SMALL), relation("control_tokens", verified=False))
    assert answer.verdict == "care"
    assert "probably differ" in answer.reasons[0]


def _special(bos: int, add: bool | None, kind: str = "BPE") -> Fingerprint:
    return Fingerprint(key=f"bos{bos}", bos=bos, add_bos=add, vocab_type=kind)


@pytest.mark.parametrize(
    ("name", "target", "draft", "expected"),
    [
        pytest.param("llama.cpp", _special(1, False), _special(2, False), "accepted", id="not added"),
        pytest.param("llama.cpp", _special(1, True), _special(2, True), "refused", id="added"),
        pytest.param("llama.cpp", _special(1, True), _special(1, False), "refused", id="added by one"),
        pytest.param("llama.cpp", _special(1, None), _special(2, None), "accepted", id="not known"),
        pytest.param("llama.cpp", _special(1, False, "SPM"), _special(1, False), "refused", id="another type"),
        pytest.param("llama.cpp@2026-04-01", _special(1, False), _special(2, False), "refused", id="older build"),
    ],
)
def test_llama_cpp_compares_bos_where_it_is_added(
    name: str, target: Fingerprint, draft: Fingerprint, expected: str
) -> None:
    of = pair(model("a/t", 1000, tokenizer=target), model("a/d", 1000, tokenizer=draft))
    assert said(name, of, SAME).verdict == expected


def test_a_build_between_two_known_ones_is_not_judged_for_certain() -> None:
    answer = said("llama.cpp@b9000", pair(QWEN_BIG, QWEN_SMALL), SAME)
    assert any("may still hold in b9000" in reason for reason in answer.reasons)


METHODS = [
    ("vllm@0.14.1", "draft_model", "refused"),
    ("vllm@0.15.0", "draft_model", "accepted"),
    ("vllm@0.9.0", "draft_model", "care"),
    ("vllm@0.16.0", "dflash", "refused"),
    ("vllm@0.18.0", "dflash", "accepted"),
    ("vllm", "mlp_speculator", "refused"),
    ("vllm", "suffix", "accepted"),
    ("vllm", "a_new_method", "unknown"),
    ("vllm-ascend@0.17.0rc1", "draft_model", "refused"),
    ("vllm-ascend@0.18.0", "draft_model", "accepted"),
    ("vllm-ascend@0.7.3", "draft_model", "refused"),
    ("vllm-ascend", "dspark", "refused"),
    ("vllm-ascend@0.26rc1", "dspark", "accepted"),
    ("mindie", "draft_model", "refused"),
    ("mindie", "ngram", "accepted"),
    ("sglang-ascend", "draft_model", "refused"),
    ("sglang-ascend", "eagle3", "accepted"),
    ("sglang-ascend", "mtp", "accepted"),
    ("sglang-ascend", "ngram", "refused"),
    ("xllm", "draft_model", "refused"),
    ("xllm", "mtp", "accepted"),
    ("xllm", "suffix", "accepted"),
    ("mlx", "mtp", "refused"),
    ("transformers", "ngram", "accepted"),
    ("llama.cpp", "mtp_assistant", "accepted"),
    ("tensorrt-llm", "medusa", "unknown"),
]


@pytest.mark.parametrize(("name", "method", "expected"), METHODS, ids=lambda value: str(value))
def test_methods_by_engine_and_version(name: str, method: str, expected: str) -> None:
    draft = QWEN3_SMALL if method == "draft_model" else None
    assert said(name, pair(QWEN3, draft, method), SAME if draft else None).verdict == expected


def test_vllm_ascend_of_the_first_days_drafts_nothing_without_a_message() -> None:
    assert said("vllm-ascend@0.7.3", pair(QWEN3, QWEN3_SMALL), SAME).severity == "silent no-op"


def test_a_version_without_the_method_is_judged_on() -> None:
    reasons = said("vllm@0.13.0", pair(QWEN_BIG, QWEN_SMALL), SAME).reasons
    assert any("from 0.15.0" in reason for reason in reasons)
    assert any("152,064" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("name", "draft", "size", "expected", "reason"),
    [
        ("vllm", QWEN_SMALL, 2, "accepted", ""),
        ("vllm", QWEN_SMALL, 4, "refused", "14 attention heads"),
        ("vllm@0.9.0", QWEN_SMALL, 4, "care", "14 attention heads"),
        ("vllm-ascend", QWEN_SMALL, 4, "refused", "14 attention heads"),
        ("vllm", QWEN3_SMALL, 8, "accepted", ""),
        ("vllm", THREE_KV_HEADS, 4, "refused", "3 key-value heads"),
        ("llama.cpp", QWEN_SMALL, 4, "accepted", ""),
    ],
)  # fmt: skip
def test_tensor_parallel_size_of_the_draft(
    name: str, draft: ModelProfile, size: int, expected: str, reason: str
) -> None:
    answer = said(name, pair(QWEN3, draft, tensor_parallel_size=size), SAME)
    assert answer.verdict == expected
    assert any(reason in text for text in answer.reasons)


HYBRID = model("Qwen/Qwen3.6-27B", 248320, attention="hybrid", model_type="qwen3_5")
PLAIN = model("a/plain", 248320)
SLIDING = model("google/gemma-3-1b-it", 248320, attention="sliding")
VISION = model("Qwen/Qwen3-VL-8B-Instruct", 151936, modality="text+vision", mrope=True)
VISION_SMALL = model("Qwen/Qwen3-VL-2B-Instruct", 151936, modality="text+vision", mrope=True)
REDUCED = Head(id="a/head.dflash", method="dflash", target="a/plain", vocab_size=248320, draft_vocab_size=32000)
QUANTIZED_HEAD = Head(id="a/Block-Drafter-W4A16", method="dflash", target="a/plain")
SHORT_HEAD = Head(id="a/eagle3", method="eagle3", target="a/plain", max_position_embeddings=2048)
WIDE = model("a/wide", 128256, hidden_size=8192)
OWN_EMBEDDING_HEAD = Head(id="yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", method="eagle3", target="a/wide")
NARROW_HEAD = Head(id="a/eagle3-6144", method="eagle3", target="a/wide", hidden_size=6144)
GEMMA4 = model("google/gemma-4-31B-it", 262144, model_type="gemma4")
CACHE8 = model("a/Qwen3-32B-w8a8c8", 151936, quantization="w8a8c8")
DEEPSEEK = model("deepseek-ai/DeepSeek-V3", 129280, model_type="deepseek_v3", num_nextn_predict_layers=1)
TWO_LAYERS = model("a/two-mtp-layers", 1000, num_nextn_predict_layers=2)
MOE = model("Qwen/Qwen3-235B-A22B", 151936, experts=Experts(num_experts=128, experts_per_token=8))
GLM = model("zai-org/GLM-4-9B", 151936, model_type="glm4")
REMOTE = model("tiiuae/falcon-40b-instruct", 151936, remote_code=True)
GPTQ = model("a/GPTQ-Int4", 151936, quantization="gptq-int4", num_nextn_predict_layers=1)

EXCEPTIONS = [
    ("llama.cpp@b5000", pair(HYBRID, PLAIN), "refused", "roll back"),
    ("llama.cpp@2025", pair(HYBRID, None, "ngram"), "refused", "roll back"),
    ("llama.cpp", pair(HYBRID, PLAIN), "care", "half the speed"),
    ("llama.cpp", pair(HYBRID, None, "mtp"), "accepted", ""),
    ("mlx", pair(HYBRID, PLAIN), "refused", "first request"),
    ("mlx", pair(PLAIN, SLIDING), "care", "window"),
    ("transformers", pair(HYBRID, PLAIN), "refused", "recurrent state"),
    ("transformers", pair(QWEN3, QWEN3_SMALL, max_num_seqs=4), "refused", "one sequence at a time, not 4"),
    ("transformers", pair(QWEN3, QWEN3_SMALL, max_num_seqs=1), "accepted", ""),
    ("transformers", pair(REMOTE, QWEN3_SMALL), "care", "code of its own"),
    ("vllm", pair(PLAIN, HYBRID), "refused", "does not start"),
    ("vllm", pair(HYBRID, PLAIN), "care", "prefix-cache"),
    ("vllm@0.23.0", pair(VISION, VISION_SMALL), "refused", "M-RoPE"),
    ("vllm", pair(VISION, VISION_SMALL), "unknown", "M-RoPE"),
    ("vllm@0.20.0", pair(VISION, QWEN3_SMALL), "refused", "multimodal"),
    ("vllm", pair(VISION, QWEN3_SMALL), "care", "no images"),
    ("vllm-ascend", pair(VISION, VISION_SMALL), "refused", "M-RoPE"),
    ("vllm-ascend", pair(VISION, QWEN3_SMALL), "care", "no images"),
    ("llama.cpp@b6900", pair(PLAIN, SLIDING, images=True), "refused", "projector"),
    ("llama.cpp@b6900", pair(PLAIN, SLIDING, images=False), "accepted", ""),
    ("llama.cpp", pair(PLAIN, SLIDING, images=True), "care", "no images"),
    ("llama.cpp", pair(PLAIN, None, "mtp", head=REDUCED), "refused", "trimmed vocabulary"),
    ("vllm@0.26.0", pair(PLAIN, None, "eagle3", head=SHORT_HEAD, max_model_len=8192), "care", "max_model_len 8192"),
    ("vllm@0.27.0", pair(PLAIN, None, "eagle3", head=SHORT_HEAD, max_model_len=8192), "accepted", ""),
    ("vllm@0.26.0", pair(PLAIN, None, "eagle3", head=SHORT_HEAD, max_model_len=2048), "accepted", ""),
    ("vllm@0.9.0", pair(WIDE, None, "eagle3", head=NARROW_HEAD), "refused", "another width"),
    ("vllm@0.9.0", pair(WIDE, None, "eagle3", head=OWN_EMBEDDING_HEAD), "refused", "embedding of its own"),
    ("vllm", pair(WIDE, None, "eagle3", head=NARROW_HEAD), "accepted", ""),
    ("vllm", pair(TWO_LAYERS, None, "mtp", num_spec_tokens=3), "refused", "no multiple of the 2 MTP layers"),
    ("vllm", pair(TWO_LAYERS, None, "mtp", num_spec_tokens=4), "accepted", "used again"),
    ("vllm", pair(TWO_LAYERS, None, "mtp", num_spec_tokens=2), "accepted", ""),
    ("vllm-ascend", pair(DEEPSEEK, None, "mtp", num_spec_tokens=3), "care", "from 3 tokens on"),
    ("vllm-ascend", pair(PLAIN, None, "dflash", head=REDUCED), "care", "reduced vocabulary"),
    ("vllm-ascend", pair(GEMMA4, None, "mtp"), "care", "0 %"),
    ("vllm-ascend", pair(GEMMA4, None, "eagle3"), "care", "extra patch"),
    ("vllm-ascend", pair(CACHE8, None, "eagle3"), "refused", "8-bit cache"),
    ("vllm-ascend@0.18.0", pair(CACHE8, None, "eagle3"), "accepted", ""),
    ("vllm-ascend@0.13.0rc1", pair(MOE, None, "eagle3"), "refused", "drafts noise"),
    ("vllm-ascend", pair(MOE, None, "eagle3", num_spec_tokens=3), "accepted", ""),
    ("vllm-ascend", pair(GLM, QWEN3_SMALL), "care", "eager"),
    ("vllm-ascend", pair(QWEN3, QWEN3_SMALL, num_spec_tokens=14), "accepted", ""),
    ("vllm-ascend", pair(QWEN3, QWEN3_SMALL, num_spec_tokens=15), "refused", "15 is above 14"),
    ("vllm-ascend", pair(QWEN3, QWEN3_SMALL, quantization="w8a8"), "care", "dropped"),
    ("sglang@0.5.10", pair(QWEN3, QWEN3_SMALL, max_num_seqs=2), "refused", "two requests"),
    ("sglang@0.5.10", pair(QWEN3, QWEN3_SMALL, max_num_seqs=1), "accepted", ""),
    ("sglang", pair(QWEN3, QWEN3_SMALL, max_num_seqs=256), "care", "48"),
    ("sglang", pair(PLAIN, None, "dflash", head=QUANTIZED_HEAD), "care", "unquantised"),
    ("sglang", pair(GPTQ, None, "mtp"), "care", "MTP head"),
    ("mindie", pair(DEEPSEEK, None, "mtp", num_spec_tokens=1), "accepted", ""),
    ("mindie", pair(DEEPSEEK, None, "mtp", num_spec_tokens=3), "refused", "above 2"),
    ("mindie", pair(GEMMA4, None, "mtp"), "refused", "DeepSeek"),
    ("mindie", pair(GEMMA4, None, "ngram"), "unknown", "Llama 3"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "of", "expected", "reason"),
    [
        pytest.param(*row, id=f"{row[0]}-{row[1].method}-{row[1].target.name}-{index}")
        for index, row in enumerate(EXCEPTIONS)
    ],
)
def test_exceptions(name: str, of: Pair, expected: str, reason: str) -> None:
    answer = said(name, of, SAME if of.draft is not None else None)
    assert answer.verdict == expected, answer
    if expected == "accepted":
        assert answer.severity is None
    else:
        assert any(reason in text for text in answer.reasons)


@pytest.mark.parametrize(
    ("key", "method", "expected"),
    [
        ("910a", "ngram", "refused"),
        ("310b", "mtp", "refused"),
        ("310p-duo-96g", "draft_model", "unknown"),
        ("910b3", "mtp", "accepted"),
    ],
)
def test_devices_that_vllm_ascend_does_not_serve(key: str, method: str, expected: str) -> None:
    device = Device(key=key, name=key, vendor="huawei")
    draft = QWEN3_SMALL if method == "draft_model" else None
    assert said("vllm-ascend", pair(QWEN3, draft, method, device=device), SAME).verdict == expected


def test_unknown_rows_are_unknown_not_guessed() -> None:
    answer = said("vllm", pair(QWEN3, model("a/secret", None)), relation("unknown"))
    assert answer.verdict == "unknown"
    assert "embedding rows of secret" in answer.reasons[0]


@pytest.mark.parametrize("version", ["main", "nightly", "latest"])
def test_the_newest_version_is_judged_by_the_known_facts(version: str) -> None:
    answer = said(f"vllm@{version}", pair(QWEN3, QWEN3_SMALL), SAME)
    assert answer.verdict == "accepted"
    assert answer.version == version
    assert any(facts()["vllm"]["version"] in reason for reason in answer.reasons)


@pytest.mark.parametrize("version", ["foo", "0.x", "1.2.3.4.5", "...", "b", "2025-", "-1", "1.0banana"])
def test_a_version_that_is_none_is_unknown_with_a_note(version: str) -> None:
    answer = said(f"vllm@{version}", pair(QWEN3, QWEN3_SMALL), SAME)
    assert answer.verdict == "unknown"
    assert any(repr(version) in reason for reason in answer.reasons)


def toy(**tables: Any) -> Engine:
    row = {
        "key": "toy",
        "name": "Toy",
        "version": "1.0",
        "source": "here",
        "vocabulary": {"rule": "none", "source": "s"},
    }
    return Engine(key="toy", name="Toy", version="1.0", facts={**row, **tables})


ORDERED = ["0.9", "0.13.0.dev1", "0.13rc1", "v0.13rc2", "0.13", "0.13.0.post1", "0.13.1", "1.0.0+cpu", "1.2.1", "10.0"]


@pytest.mark.parametrize("bound", range(len(ORDERED)))
@pytest.mark.parametrize("at", range(len(ORDERED)))
def test_releases_are_ordered(at: int, bound: int) -> None:
    row = {"support": "yes", "since": ORDERED[bound], "source": "s"}
    found = verdict(
        pair(QWEN3, None, "mtp"),
        None,
        Engine(key="toy", name="Toy", version=ORDERED[at], facts=toy(methods={"mtp": row}).facts),
    )
    assert found.verdict == ("accepted" if at >= bound else "refused")


@given(st.text(max_size=20))
def test_no_text_breaks_the_reading_of_a_version(text: str) -> None:
    row = {"support": "yes", "since": "0.5", "until": "2025-06", "source": "s"}
    engine = Engine(key="toy", name="Toy", version=text, facts=toy(methods={"mtp": row}).facts)
    assert verdict(pair(QWEN3, None, "mtp"), None, engine).verdict in ("accepted", "refused", "unknown")


KINDS: list[RelationKind] = ["identical", "control_tokens", "padding_only", "extension", "different", "unknown"]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Pair, Relation]:
    size = st.one_of(st.none(), st.integers(1000, 1400))
    kind = draw(st.sampled_from(KINDS))
    part = draw(st.one_of(st.none(), st.integers(0, 1400)))
    compared = relation(
        kind,
        draw(st.booleans()),
        first_difference=None if part is None else Difference(id=part, target="a", draft=None),
        only_target=tuple(draw(st.lists(st.integers(0, 1400), max_size=3))),
        covered=draw(st.one_of(st.none(), st.floats(0, 1))),
    )
    models = [
        model(
            name,
            draw(size),
            attention=draw(st.sampled_from(["full", "hybrid", "sliding"])),
            num_attention_heads=draw(st.one_of(st.none(), st.integers(1, 64))),
            mrope=draw(st.booleans()),
        )
        for name in ("a/target", "a/draft")
    ]
    setting = {
        "tensor_parallel_size": draw(st.sampled_from([1, 2, 4])),
        "max_num_seqs": draw(st.sampled_from([None, 1, 64])),
    }
    return pair(models[0], models[1], **setting), compared


@given(pairs(), st.sampled_from(ENGINES))
def test_every_verdict_is_explained(case: tuple[Pair, Relation], name: str) -> None:
    answer = said(name, *case)
    assert answer.reasons
    assert all(reason and "{" not in reason and "None" not in reason for reason in answer.reasons)
    assert len(set(answer.reasons)) == len(answer.reasons)


@given(pairs())
def test_llama_cpp_never_takes_what_differs_in_a_compared_id(case: tuple[Pair, Relation]) -> None:
    of, compared = case
    rows = [profile.vocab_size for profile in (of.target, of.draft) if profile is not None and profile.vocab_size]
    part = compared.first_difference
    differs = compared.kind not in ("identical", "padding_only", "unknown")
    if part is not None and len(rows) == 2 and differs and 5 <= part.id < min(rows):
        assert said("llama.cpp", of, compared).verdict == "refused"


@given(pairs(), st.sampled_from(["vllm@0.24.0", "vllm-ascend", "sglang"]))
def test_engines_that_compare_rows_refuse_unequal_ones(case: tuple[Pair, Relation], name: str) -> None:
    of, compared = case
    assert of.draft is not None
    ours, theirs = of.target.vocab_size, of.draft.vocab_size
    if ours is not None and theirs is not None and ours != theirs:
        answer = said(name, of, compared)
        assert answer.verdict == "refused"
        assert any(f"{ours:,}" in reason and f"{theirs:,}" in reason for reason in answer.reasons)


@given(pairs(), st.sampled_from(ENGINES))
def test_nobody_is_told_to_edit_a_config(case: tuple[Pair, Relation], name: str) -> None:
    assert not any("config.json" in reason or "edit" in reason for reason in said(name, *case).reasons)


def test_an_accepted_method_without_a_draft_says_so() -> None:
    assert said("vllm", pair(QWEN3, None, "ngram")).reasons == ("vLLM takes ngram",)


def test_two_catalogues_do_not_share_their_facts() -> None:
    of = pair(QWEN3, None, "mtp")
    yes = toy(methods={"mtp": {"support": "yes", "source": "s"}})
    no = toy(methods={"mtp": {"support": "no", "source": "s"}})
    assert [verdict(of, None, one).verdict for one in (yes, no, yes)] == ["accepted", "refused", "accepted"]


CONDITIONS = [
    ({"target": {"model_type": "glm*"}}, True),
    ({"target": {"model_type": "*m4"}}, True),
    ({"target": {"model_type": "*lm*"}}, True),
    ({"target": {"model_type": "!qwen3"}}, True),
    ({"target": {"model_type": ["!glm4", "!qwen3"]}}, False),
    ({"target": {"model_type": ["llama", "GLM4"]}}, True),
    ({"target": {"vocab_size": ">=151936"}}, True),
    ({"target": {"vocab_size": "<151936"}}, False),
    ({"target": {"vocab_size": 151936}}, True),
    ({"target": {"moe": False}}, True),
    ({"target": {"moe": True}}, False),
    ({"target": {"hidden_size": ">1"}}, False),
    ({"draft": {"moe": False}}, False),
    ({"either": {"vision": False}}, True),
    ({"setting": {"max_num_seqs": ">1"}}, False),
    ({"setting": {"no_such_field": ">1"}}, False),
    ({"device": {"key": "910b3"}}, False),
    ({"target": {"moe": False}, "setting": {"temperature": ">0"}}, False),
]


@pytest.mark.parametrize(("conditions", "holds"), CONDITIONS, ids=lambda value: str(value))
def test_conditions(conditions: dict[str, Any], holds: bool) -> None:
    row = {**conditions, "verdict": "care", "reason": "it holds", "source": "s"}
    found = verdict(
        pair(GLM, None, "mtp"), None, toy(methods={"mtp": {"support": "yes", "source": "s"}}, exceptions=[row])
    )
    assert found.verdict == ("care" if holds else "accepted")


@pytest.mark.parametrize(
    ("name", "of", "taken"),
    [
        ("vllm", pair(TWO_LAYERS, None, "mtp"), {1, 2, 4, 6, 8}),
        ("sglang", pair(TWO_LAYERS, None, "mtp"), set(range(1, 9))),
        ("vllm-ascend", pair(DEEPSEEK, None, "mtp"), {1, 2}),
        ("vllm-ascend", pair(MOE, None, "eagle3"), {1, 2, 3}),
        ("sglang", pair(MOE, None, "eagle3"), {1, 2, 3, 4}),
        ("sglang", pair(PLAIN, None, "eagle3"), set(range(1, 9))),
        ("vllm", pair(QWEN3, QWEN3_SMALL), set(range(1, 9))),
    ],
)
def test_the_lengths_that_an_engine_takes_without_a_word(name: str, of: Pair, taken: set[int]) -> None:
    assert {k for k in range(1, 9) if takes_length(of, engine(name), k)} == taken


@pytest.mark.parametrize(("name", "again"), [("vllm", True), ("sglang", True), ("mlx", False)])
def test_engines_that_use_mtp_layers_again(name: str, again: bool) -> None:
    assert reuses_layers(engine(name)) is again
