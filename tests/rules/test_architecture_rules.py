from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, device, draft, engine, head_pair, pair, says, target

from draftpick.models.profile import LatentAttention, Lineage

ALIKE = engine("alike", tensor_parallel={"draft_model": "equal", "any": "one-or-equal"})
CHANGED = {"draft_model": "equal", "was": [{"until": "0.9", "draft_model": "one-or-equal"}]}


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        pytest.param("ToyForCausalLM", "ok", id="the same"),
        pytest.param("OtherForCausalLM", "ok 0.8", id="another only informs"),
        pytest.param(None, "skip", id="not known"),
    ],
)
def test_architecture(theirs: str | None, expected: str) -> None:
    assert says("architecture", pair(theirs=draft(architecture=theirs))) == expected


FOURTEEN = draft(num_attention_heads=14, num_key_value_heads=2)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "n/a", id="one device"),
        pytest.param(pair(tensor_parallel_size=8), "ok 0.8", id="both divide"),
        pytest.param(
            pair(target(num_attention_heads=40), tensor_parallel_size=16), "reject", id="target does not divide"
        ),
        pytest.param(pair(theirs=FOURTEEN, tensor_parallel_size=4), "warn 0.3", id="draft does not divide"),
        pytest.param(pair(theirs=FOURTEEN, tensor_parallel_size=4, engine=ALIKE), "reject", id="and is split alike"),
        pytest.param(pair(theirs=FOURTEEN, tensor_parallel_size=7, engine=ALIKE), "reject", id="target by 7"),
        pytest.param(pair(theirs=FOURTEEN, tensor_parallel_size=2, engine=ALIKE), "ok", id="by two"),
        pytest.param(
            pair(theirs=FOURTEEN, tensor_parallel_size=4, engine=engine("x", tensor_parallel=CHANGED)),
            "reject",
            id="split alike in the version known",
        ),
        pytest.param(
            pair(theirs=FOURTEEN, tensor_parallel_size=4, engine=engine("x", "0.5", tensor_parallel=CHANGED)),
            "warn 0.3",
            id="not in every version",
        ),
        pytest.param(
            pair(target(num_key_value_heads=6), tensor_parallel_size=4), "reject", id="KV heads do not divide"
        ),
        pytest.param(
            pair(target(num_key_value_heads=2), tensor_parallel_size=8), "ok 0.8", id="few KV heads are copied"
        ),
        pytest.param(
            pair(
                target(num_key_value_heads=3, latent=LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64)),
                tensor_parallel_size=2,
            ),
            "ok",
            id="latent attention has no KV heads to deal out",
        ),
        pytest.param(bare_pair("ngram", tensor_parallel_size=3), "reject", id="n-gram needs the target to divide too"),
        pytest.param(head_pair(tensor_parallel_size=8), "ok", id="a head"),
        pytest.param(pair(theirs=draft(num_attention_heads=None), tensor_parallel_size=2), "skip", id="not known"),
    ],
)
def test_tensor_parallel(judged: Any, expected: str) -> None:
    assert says("tensor-parallel", judged) == expected


def test_a_draft_spread_thinly_is_told() -> None:
    eight, two = (ask("tensor-parallel", pair(tensor_parallel_size=size)) for size in (8, 2))
    assert eight.evidence["oversharded"] is True
    assert two.evidence["oversharded"] is False
    assert eight.score < two.score


OLD = device(bf16=False, fp8=False)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "n/a", id="no device"),
        pytest.param(pair(device=device()), "ok", id="has bfloat16"),
        pytest.param(pair(device=OLD), "warn 0.5", id="published in bfloat16"),
        pytest.param(
            pair(target(dtype="float16"), draft(dtype="float16"), device=OLD), "ok", id="published in float16"
        ),
        pytest.param(pair(target(dtype="float16"), device=OLD), "warn 0.5", id="the draft alone in bfloat16"),
        pytest.param(
            pair(target(dtype="float16"), draft(dtype="float16"), device=OLD, dtype="bfloat16"),
            "warn 0.2",
            id="asked for",
        ),
        pytest.param(pair(target(dtype="float16"), draft(dtype=None), device=OLD), "skip", id="not known"),
        pytest.param(pair(target(quantization="fp8"), device=device(fp8=False)), "warn 0.3", id="fp8 target"),
        pytest.param(pair(device=device(fp8=False), draft_quantization="fp8"), "warn 0.3", id="fp8 draft at load"),
        pytest.param(pair(device=device(bf16=None)), "skip", id="device not known"),
    ],
)
def test_dtype(judged: Any, expected: str) -> None:
    assert says("dtype", judged) == expected


INHERITS = engine("inherits", exceptions=[{"pair": {"quantization": "differ"}, "verdict": "care"}])
W8A8 = target(quantization="w8a8")


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "ok", id="none"),
        pytest.param(pair(W8A8), "ok 0.85", id="the target alone"),
        pytest.param(pair(W8A8, engine=INHERITS), "warn 0.35", id="the draft inherits"),
        pytest.param(pair(W8A8, draft(quantization="w8a8"), engine=INHERITS), "ok 0.85", id="both alike"),
        pytest.param(
            pair(quantization="w8a8", engine=INHERITS), "warn 0.35", id="the draft inherits what is asked for"
        ),
        pytest.param(pair(theirs=draft(quantization="awq-int4")), "warn 0.7", id="a draft in four bits"),
        pytest.param(pair(target(quantization="gguf-q4_k_m")), "warn 0.5", id="a target in k-quants"),
        pytest.param(pair(target(quantization="gguf-q8_0")), "ok 0.85", id="a target in q8"),
        pytest.param(bare_pair("mtp"), "ok", id="own layers"),
        pytest.param(bare_pair("mtp", W8A8), "warn 0.5", id="own layers of a quantised target"),
        pytest.param(bare_pair("mtp", target(quantization="fp8")), "ok 0.85", id="own layers of a maker's fp8"),
        pytest.param(bare_pair("mtp", quantization="gptq-int4"), "warn 0.5", id="own layers quantised at load"),
        pytest.param(
            bare_pair("mtp", target(lineage=Lineage(relation="quantized"))), "warn 0.5", id="own layers of a copy"
        ),
        pytest.param(head_pair(draft_quantization="int4"), "warn 0.4", id="a quantised head"),
        pytest.param(bare_pair("ngram", W8A8), "ok 0.85", id="n-gram"),
    ],
)
def test_quantization(judged: Any, expected: str) -> None:
    assert says("quantization", judged) == expected


GGUF = draft(origin="gguf", quantization="gguf-q8_0")
GGUF_TARGET = target(origin="gguf", quantization="gguf-q8_0")
ONLY, SOME, NO = (engine(gguf=answer) for answer in ("only", "some", "no"))


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(theirs=GGUF), "n/a", id="no engine"),
        pytest.param(pair(engine=engine()), "ok", id="no such file"),
        pytest.param(pair(engine=ONLY), "ok 0.9", id="to be converted"),
        pytest.param(pair(GGUF_TARGET, GGUF, engine=ONLY), "ok", id="both, where only that is read"),
        pytest.param(pair(GGUF_TARGET, GGUF, engine=SOME), "warn 0.4", id="both, where it is read in part"),
        pytest.param(pair(GGUF_TARGET, GGUF, engine=NO), "warn 0.1", id="both, where it is not read"),
        pytest.param(pair(GGUF_TARGET, engine=SOME), "warn 0.2", id="one side alone"),
        pytest.param(pair(GGUF_TARGET, GGUF, engine=engine()), "skip", id="not known"),
    ],
)
def test_file_format(judged: Any, expected: str) -> None:
    assert says("file-format", judged) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "ok", id="none"),
        pytest.param(pair(target(remote_code=True)), "warn 0.6", id="target"),
        pytest.param(pair(theirs=draft(remote_code=True)), "warn 0.6", id="draft"),
        pytest.param(pair(theirs=draft(remote_code=True), trust_remote_code=True), "warn 0.8", id="trusted"),
    ],
)
def test_remote_code(judged: Any, expected: str) -> None:
    assert says("remote-code", judged) == expected


@pytest.mark.parametrize(
    ("billions", "size", "expected"),
    [
        pytest.param(20, 8, "ok", id="much on each"),
        pytest.param(10, 4, "ok", id="just enough on each"),
        pytest.param(1, 2, "ok", id="few devices"),
        pytest.param(9.99, 4, "ok 0.8", id="little on each"),
        pytest.param(None, 8, "ok", id="not known how much"),
    ],
)
def test_how_thin_a_draft_may_be_spread(billions: float | None, size: int, expected: str) -> None:
    total = None if billions is None else round(billions * 1e9)
    judged = pair(target(params_total=70 * 10**9), draft(params_total=total), tensor_parallel_size=size)
    assert says("tensor-parallel", judged) == expected


@pytest.mark.parametrize(
    ("heads", "kv", "size", "expected"),
    [
        (12, 4, 4, "ok"),
        (12, 3, 4, "reject"),
        (12, 4, 6, "reject"),
        (12, 6, 12, "ok"),
        (12, 12, 12, "ok"),
        (12, None, 4, "ok"),
        (12, None, 5, "reject"),
        (None, 4, 4, "skip"),
    ],
)
def test_how_heads_divide(heads: int | None, kv: int | None, size: int, expected: str) -> None:
    judged = bare_pair("ngram", target(num_attention_heads=heads, num_key_value_heads=kv), tensor_parallel_size=size)
    assert says("tensor-parallel", judged) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(kv_cache_dtype="int4"), "warn 0.4", id="a cache in 4 bits"),
        pytest.param(pair(kv_cache_dtype="fp8"), "ok", id="a cache in 8 bits"),
        pytest.param(bare_pair("ngram", kv_cache_dtype="int4"), "ok", id="a cache in 4 bits, no draft"),
        pytest.param(pair(theirs=draft(quantization="gguf-q4_k_m")), "ok", id="a draft in k-quants"),
        pytest.param(pair(theirs=draft(quantization="w8a8")), "ok", id="a draft in 8 bits"),
        pytest.param(pair(target(quantization="gguf-q5_k_m")), "ok 0.85", id="a target in 5.5 bits"),
        pytest.param(pair(target(quantization="gguf-odd")), "ok 0.85", id="a target in bits not known"),
        pytest.param(pair(target(quantization="awq-int4")), "ok 0.85", id="a target in 4 bits, no k-quants"),
        pytest.param(bare_pair("mtp", target(quantization="nvfp4")), "ok 0.85", id="own layers of a maker's fp4"),
        pytest.param(head_pair(), "ok", id="a head as it is"),
    ],
)
def test_formats_that_go_together(judged: Any, expected: str) -> None:
    assert says("quantization", judged) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(device=OLD, quantization="fp8"), "warn 0.3", id="asked of the target"),
        pytest.param(
            pair(target(quantization="fp8"), device=OLD, quantization="int8"), "warn 0.5", id="asked otherwise"
        ),
        pytest.param(head_pair(device=OLD), "warn 0.5", id="a head's target"),
        pytest.param(head_pair(target(dtype="float16"), device=OLD), "ok", id="a head"),
        pytest.param(pair(target(dtype=None), device=OLD), "warn 0.5", id="the draft alone is known"),
    ],
)
def test_formats_a_device_lacks(judged: Any, expected: str) -> None:
    assert says("dtype", judged) == expected


@pytest.mark.parametrize("method", ["ngram", "mtp"])
def test_files_that_are_to_be_converted(method: str) -> None:
    assert says("file-format", bare_pair(method, engine=ONLY)) == ("ok" if method == "ngram" else "ok 0.9")
    assert says("file-format", bare_pair(method, GGUF_TARGET, engine=SOME)) == "warn 0.4"
