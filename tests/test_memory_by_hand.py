"""A model small enough to count by hand: what it takes to the byte, and what the last byte decides."""

from __future__ import annotations

from typing import Any

import pytest

from draftpick import catalog
from draftpick.memory import Parts, budget, device_memory, devices_needed, draft_tensor_parallel_size, splits
from draftpick.models.profile import Experts, LatentAttention, ModelProfile
from draftpick.pair import Device, Head, Pair, Proposal, Setting
from draftpick.sizes import (
    CACHE_BYTES,
    Cache,
    Format,
    cache,
    cache_element_bytes,
    cache_gap,
    head_params,
    medusa_params,
    mtp_params,
    weight_bytes,
    weight_format,
)

CATALOG = catalog.load()
RUNTIME = 5 << 28
"""1.25 GiB on one device."""

TOY = ModelProfile(
    id="maker/toy",
    origin="folder",
    params_total=1_000_000,
    params_text=1_000_000,
    num_hidden_layers=4,
    hidden_size=100,
    intermediate_size=200,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=16,
    vocab_size=1000,
    tie_word_embeddings=False,
    max_position_embeddings=500,
    dtype="bfloat16",
)
DRAFT = TOY._replace(id="maker/toy-draft", params_total=500_000, params_text=500_000, num_hidden_layers=1)
LATENT = LatentAttention(32, 8, q_lora_rank=24, qk_nope_head_dim=16, v_head_dim=12)
EXPERTS = Experts(8, 2, 50)
WEIGHTS = 2_000_000 + 1_000_000
EACH = (1024 + 256) * 103 + 4 * 1000 * 8
"""Bytes of a sequence of 100 tokens and 3 drafted: 256 of each layer for each, and 4 rows to verify."""


def changed(**changes: Any) -> ModelProfile:
    return TOY._replace(**changes)


def drafted(target: ModelProfile = TOY, draft: ModelProfile = DRAFT, engine: str | None = None, **setting: Any) -> Pair:
    return of(Proposal("draft_model", "given", draft=draft), target, engine, **setting)


def of(proposal: Proposal, target: ModelProfile = TOY, engine: str | None = None, **setting: Any) -> Pair:
    known = CATALOG.engine(engine) if engine is not None else None
    asked = {"max_model_len": 100, "max_num_seqs": 2, "num_spec_tokens": 3, **setting}
    return Pair(target, proposal, Setting(engine=known, **asked))


def parts(there: Pair, **options: Any) -> Parts:
    return budget(there, **options).per_device_bytes


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("change", "params"),
    [
        pytest.param({}, 38_400 + 60_000 + 20_000, id="dense"),
        pytest.param({"num_nextn_predict_layers": 2}, 2 * 118_400, id="two layers"),
        pytest.param({"num_nextn_predict_layers": 0}, 0, id="none"),
        pytest.param({"num_nextn_predict_layers": None, "hidden_size": None}, 0, id="none that anybody knows"),
        pytest.param({"hidden_size": None}, None, id="width not known"),
        pytest.param({"model_type": "qwen3_next"}, 51_200 + 60_000 + 20_000, id="a gate beside the queries"),
        pytest.param({"experts": EXPERTS}, 38_400 + 8 * 15_100 + 20_000, id="experts and their router"),
        pytest.param(
            {"experts": Experts(8, 2, 50, shared=2)}, 38_400 + 8 * 15_100 + 30_000 + 20_000, id="shared experts"
        ),
        pytest.param(
            {"experts": Experts(8, 2, 50, shared=2, shared_width=70)},
            38_400 + 8 * 15_100 + 21_000 + 20_000,
            id="shared experts of a width of their own",
        ),
        pytest.param({"latent": LATENT}, 7_008 + 11_168 + 9_600 + 60_000 + 20_000, id="latent"),
        pytest.param(
            {"latent": LATENT._replace(q_lora_rank=None)},
            19_200 + 11_168 + 9_600 + 60_000 + 20_000,
            id="latent, whole queries",
        ),
        pytest.param(
            {"latent": LATENT._replace(v_head_dim=None), "params_total": 1_000_300}, 300, id="by the difference"
        ),
        pytest.param({"num_attention_heads": None, "params_total": 1_000_300}, 300, id="by the difference too"),
        pytest.param({"intermediate_size": None}, None, id="no difference"),
        pytest.param({"experts": Experts(8, 2), "params_total": 999_999}, None, id="less than nothing"),
        pytest.param(
            {"head_dim": None, "params_total": 1_000_300, "modality": "text+vision"},
            None,
            id="the difference has a tower",
        ),
    ],
)
def test_own_mtp_layers(change: dict[str, Any], params: int | None) -> None:
    assert mtp_params(changed(**{"num_nextn_predict_layers": 1, **change})) == params


@pytest.mark.parametrize(
    ("method", "fields", "change", "params"),
    [
        ("dflash", {"params": 7}, {}, 7),
        ("eagle", {}, {}, 25_600 + 12_800 + 60_000 + 20_000),
        ("eagle", {"num_hidden_layers": 2}, {}, 2 * 98_400 + 20_000),
        ("eagle", {"draft_vocab_size": 50}, {}, 98_400 + 20_000 + 5_000),
        ("eagle", {"hidden_size": 101}, {}, None),
        ("eagle", {}, {"num_key_value_heads": None}, None),
        ("eagle", {}, {"model_type": "qwen3_5"}, None),
        ("eagle3", {"draft_vocab_size": 50}, {}, 51_200 + 12_800 + 60_000 + 30_000 + 5_000),
        ("eagle3", {}, {}, None),
        ("medusa", {}, {}, 4 * 110_100),
        ("medusa", {"num_spec_tokens": 5}, {}, 5 * 110_100),
        ("medusa", {"num_spec_tokens": 2, "vocab_size": 2000, "hidden_size": 10}, {}, 4 * 20_110),
        ("medusa", {}, {"vocab_size": None}, None),
        ("mtp", {}, {"num_nextn_predict_layers": 1}, 118_400),
        ("mtp", {"num_hidden_layers": 1}, {"num_nextn_predict_layers": 1}, 118_400),
        ("mtp", {"num_hidden_layers": 2}, {"num_nextn_predict_layers": 1}, None),
        ("mtp", {}, {}, None),
    ],
)
def test_heads(method: str, fields: dict[str, Any], change: dict[str, Any], params: int | None) -> None:
    assert head_params(Head("maker/head", method, TOY.id, **fields), changed(**change)) == params


def test_medusa_heads_may_be_deeper() -> None:
    assert medusa_params(100, 1000, heads=3, layers=2) == 3 * (2 * 10_100 + 100_000)


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("dtype", "options", "expected"),
    [
        ("bfloat16", {}, Format(16, 16, "nothing")),
        ("half", {}, Format(16, 16, "nothing")),
        ("float16", {}, Format(16, 16, "nothing")),
        (None, {}, Format(16, 16, "nothing")),
        ("float", {}, Format(32, 32, "nothing")),
        ("float32", {"engine": "vllm"}, Format(16, 16, "nothing")),
        ("float32", {"engine": "vllm", "dtype": "auto"}, Format(16, 16, "nothing")),
        ("bfloat16", {"engine": "vllm", "dtype": "float32"}, Format(32, 32, "nothing")),
        ("float32", {"quantization": "fp8"}, Format(8, 32, "matrices")),
        ("bfloat16", {"quantization": "mlx-4bit"}, Format(4.5, 16, "nothing")),
        ("bfloat16", {"quantization": "MXFP4"}, Format(4.25, 16, "matrices")),
        ("odd", {}, None),
        ("bfloat16", {"quantization": "odd"}, None),
    ],
)
def test_formats(dtype: str | None, options: dict[str, Any], expected: Format | None) -> None:
    assert weight_format(changed(dtype=dtype), **options) == expected


SPARSE = changed(experts=Experts(8, 2, 50, dense_layers=1), quantization="mxfp4")
OWN = {"num_nextn_predict_layers": 1, "params_total": 1_118_400}


@pytest.mark.parametrize(
    ("model", "devices", "taken"),
    [
        pytest.param(TOY, 1, 2_000_000, id="whole"),
        pytest.param(TOY, 2, 1_000_000, id="halves"),
        pytest.param(TOY, 8, (2_000_000 - 102_400) / 8 + 102_400 / 4, id="KV projections copied beyond one head each"),
        pytest.param(changed(num_key_value_heads=None), 8, 250_000, id="KV heads not known"),
        pytest.param(changed(num_hidden_layers=None), 8, 250_000, id="layers not known"),
        pytest.param(changed(hidden_size=None), 8, 250_000, id="hidden size not known by itself"),
        pytest.param(changed(head_dim=None), 8, 250_000, id="width of heads not known"),
        pytest.param(changed(recurrent_layers=4), 8, 250_000, id="no layer with KV heads"),
        pytest.param(changed(recurrent_layers=2), 8, (2_000_000 - 51_200) / 8 + 51_200 / 4, id="half of the layers"),
        pytest.param(
            changed(latent=LATENT), 2, (2_000_000 - 51_200) / 2 + 51_200, id="latent: down projections copied"
        ),
        pytest.param(
            changed(experts=Experts(8, 2, 50, dense_layers=1), num_key_value_heads=None),
            2,
            (2_000_000 - 4_800) / 2 + 4_800,
            id="routers copied",
        ),
        pytest.param(SPARSE, 1, 640_000 * 2 + 360_000 * 4.25 / 8, id="mxfp4: experts alone"),
        pytest.param(SPARSE._replace(experts=Experts(8, 2)), 1, None, id="width of experts not known"),
        pytest.param(SPARSE._replace(num_hidden_layers=None), 1, None, id="number of layers not known"),
        pytest.param(SPARSE._replace(hidden_size=None), 1, None, id="hidden size not known"),
        pytest.param(changed(quantization="fp8"), 1, 200_000 * 2 + 800_000, id="fp8: two matrices as they were"),
        pytest.param(changed(quantization="fp8", tie_word_embeddings=True), 1, 100_000 * 2 + 900_000, id="one matrix"),
        pytest.param(changed(quantization="mlx-4bit"), 1, 562_500, id="mlx: all"),
        pytest.param(changed(**OWN), 1, 2_000_000, id="no MTP layers"),
        pytest.param(changed(**OWN, params_text=None), 1, 2_000_000, id="no MTP layers, by the sum"),
        pytest.param(changed(params_total=1_300_000, modality="text+vision"), 1, 2_600_000, id="a tower"),
        pytest.param(changed(params_total=1_300_000), 1, 2_000_000, id="what no text model has"),
        pytest.param(
            changed(params_total=1_300_000, modality="text+vision", uncertain=frozenset({"params_total"})),
            1,
            2_000_000,
            id="a tower of unknown size",
        ),
        pytest.param(changed(weight_bytes=2_500_000), 1, 2_500_000, id="as the file says"),
        pytest.param(changed(weight_bytes=2_500_000, **OWN), 1, 2_500_000 - 236_800, id="the file has MTP layers"),
        pytest.param(
            changed(weight_bytes=2_500_000, **{**OWN, "params_total": 1_059_200}),
            1,
            2_500_000 - 236_800,
            id="half of them",
        ),
        pytest.param(
            changed(weight_bytes=2_500_000, **{**OWN, "params_total": 1_059_199}), 1, 2_500_000, id="or has none"
        ),
    ],
)
def test_weights(model: ModelProfile, devices: int, taken: float | None) -> None:
    assert weight_bytes(model, tensor_parallel_size=devices) == taken


# ---------------------------------------------------------------------- caches


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (("auto", "bfloat16", "bf16", "float16", "f16", "fp16", "half", None), 2),
        (("float32", "f32", "fp32", "float"), 4),
        (("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1),
        (("q8_0",), 1.0625),
        (("q5_1",), 0.75),
        (("q5_0",), 0.6875),
        (("q4_1",), 0.625),
        (("q4_0", "iq4_nl", "IQ4_NL"), 0.5625),
    ],
)
def test_types_of_caches(names: tuple[str | None, ...], size: float) -> None:
    assert {cache_element_bytes(name) for name in names} == {size}
    assert {name.lower() for name in names if name} <= {*CACHE_BYTES}


DELTA = changed(attention="hybrid", model_type="qwen3_next", recurrent_layers=3, num_attention_heads=16)


@pytest.mark.parametrize(
    ("model", "devices", "expected"),
    [
        (TOY, 1, Cache(full=4 * 256)),
        (TOY, 2, Cache(full=4 * 128)),
        (TOY, 3, Cache(full=4 * 128)),
        (changed(latent=LATENT), 2, Cache(full=4 * 80)),
        (changed(latent=LATENT, model_type="deepseek_v32"), 2, Cache(full=4 * (80 + 132))),
        (changed(latent=LATENT, model_type="glm_moe_dsa"), 2, Cache(full=4 * (80 + 132))),
        (changed(attention="sliding", sliding_window=9, sliding_layers=3), 1, Cache(256, 3 * 256, 9)),
        (changed(attention="sliding", sliding_window=9), 1, Cache(4 * 256, known_until=9)),
        (changed(attention="sliding", sliding_layers=3), 1, None),
        (DELTA, 1, Cache(256, state=3 * (2 * 128 * 128 * 4 + 3 * (4096 + 256) * 2))),
        (DELTA, 2, Cache(128, state=3 * (1 * 128 * 128 * 4 + 3 * 2176 * 2))),
        (DELTA._replace(model_type="qwen3_5_moe"), 1, Cache(256, state=3 * (2 * 128 * 128 * 4 + 3 * (4096 + 256) * 2))),
        (DELTA._replace(attention="recurrent", model_type="lfm2"), 3, Cache(128, state=3 * 2 * 34 * 2)),
        (DELTA._replace(model_type="mamba"), 1, None),
        (DELTA._replace(recurrent_layers=None), 1, None),
        (changed(attention="unknown"), 1, None),
    ],
)
def test_caches(model: ModelProfile, devices: int, expected: Cache | None) -> None:
    assert cache(model, None, devices) == expected


def test_a_cache_by_tokens_and_states() -> None:
    kept = Cache(full=2, windowed=3, window=5, state=7)
    assert [kept.of(tokens) for tokens in (0, 4, 5, 6)] == [7, 27, 32, 34]
    assert kept.of(4, states=3) == 41
    assert kept.per_token == 5
    assert [Cache(full=2, known_until=5).of(tokens) for tokens in (5, 6)] == [10, None]


@pytest.mark.parametrize(
    ("engine", "change", "full"),
    [
        ("transformers", {}, 4 * 8 * 36 * 2),
        ("transformers", {"num_attention_heads": None}, None),
        ("transformers", {"latent": LATENT._replace(v_head_dim=None)}, None),
        ("vllm", {}, 4 * 80),
    ],
)
def test_latent_caches_by_engine(engine: str, change: dict[str, Any], full: float | None) -> None:
    found = cache(changed(**{"latent": LATENT, **change}), engine=engine)
    assert (found.full if found is not None else None) == full


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        ("unknown", "how its layers attend was not read"),
        ("hybrid", "its recurrent layers were not read"),
        ("recurrent", "its recurrent layers were not read"),
        ("sliding", "its window, or which layers have it, was not read"),
        ("full", "heads or layers were not read"),
    ],
)
def test_why_a_cache_is_not_known(attention: str, said: str) -> None:
    assert cache_gap(changed(attention=attention)) == f"the KV cache of toy is not known: {said}"


# ---------------------------------------------------------------------- the parts


def test_the_parts_of_a_budget() -> None:
    memory = RUNTIME + WEIGHTS + 2 * EACH
    assert parts(drafted(), memory=memory, gpu_memory_utilization=1.0) == Parts(
        target_weights=2_000_000,
        draft_weights=1_000_000,
        target_kv=2 * 1024 * 103,
        draft_kv=2 * 256 * 103,
        verify_workspace=2 * 32_000,
        reserve=RUNTIME,
        free=0,
    )


HEAD = Head("maker/head", "eagle3", TOY.id, params=90_001, num_hidden_layers=2)
MTP = changed(num_nextn_predict_layers=1)
OWN_MTP = Proposal("mtp", "target")


@pytest.mark.parametrize(
    ("there", "weights", "kept"),
    [
        pytest.param(of(Proposal("ngram", "always")), 0, 0, id="n-gram"),
        pytest.param(of(Proposal("eagle3", "given", head=HEAD)), 180_002, 2 * 256, id="a head"),
        pytest.param(
            of(Proposal("eagle3", "given", head=HEAD), tensor_parallel_size=4), 45_001, 2 * 64, id="a head on four"
        ),
        pytest.param(
            of(Proposal("eagle3", "given", head=HEAD), engine="vllm-ascend", tensor_parallel_size=4),
            180_002,
            2 * 256,
            id="a head on one of four",
        ),
        *(
            pytest.param(
                of(Proposal(name, "given", head=HEAD._replace(method=name, num_hidden_layers=None))),
                180_002,
                256,
                id=f"a head of one layer: {name}",
            )
            for name in ("eagle", "eagle3", "eagle3.1", "peagle")
        ),
        pytest.param(
            of(Proposal("dflash", "given", head=HEAD._replace(method="dflash", num_hidden_layers=None))),
            180_002,
            None,
            id="a head of unknown layers",
        ),
        *(
            pytest.param(
                of(Proposal(name, "given", head=HEAD._replace(method=name))), 180_002, 0, id=f"no cache: {name}"
            )
            for name in ("medusa", "mlp_speculator", "mtp_assistant")
        ),
        pytest.param(of(OWN_MTP, MTP), 236_800, 256, id="own layers"),
        pytest.param(of(OWN_MTP, MTP, quantization="fp8"), 118_400, 256, id="own layers in fp8"),
        pytest.param(of(OWN_MTP, MTP, "sglang"), 236_800 + 2 * 200_000, 256, id="own layers with their own matrices"),
        pytest.param(of(OWN_MTP, MTP._replace(vocab_size=None), "sglang"), None, 256, id="matrices of unknown size"),
        pytest.param(of(OWN_MTP), None, None, id="own layers that nobody counted"),
        pytest.param(
            of(Proposal("mtp", "given", head=HEAD._replace(method="mtp"))),
            180_002,
            2 * 256,
            id="MTP layers of their own",
        ),
        pytest.param(
            of(OWN_MTP, MTP._replace(latent=LATENT), "llama.cpp"), 215_552, 80 + 4 * 80, id="a second latent cache"
        ),
        pytest.param(of(OWN_MTP, MTP._replace(latent=LATENT), "vllm"), 215_552, 80, id="one latent cache"),
        pytest.param(
            of(Proposal("eagle3", "given", head=HEAD), changed(latent=LATENT)),
            180_002,
            None,
            id="a head of a latent target",
        ),
    ],
)
def test_what_a_proposal_adds(there: Pair, weights: int | None, kept: int | None) -> None:
    found = parts(there)
    assert found.draft_weights == weights
    assert found.draft_kv == (None if kept is None else 2 * 103 * kept)


def test_a_second_latent_cache_is_at_least_as_large_as_the_first() -> None:
    there = of(OWN_MTP, MTP._replace(latent=LATENT), "llama.cpp")
    kept = parts(there, kv_cache_dtype="f32")
    assert (kept.target_kv, kept.draft_kv) == (2 * 103 * 4 * 160, 2 * 103 * (80 + 4 * 160))
    packed = parts(there, kv_cache_dtype="q8_0")
    assert (packed.target_kv, packed.draft_kv) == (2 * 103 * 4 * 42.5, 2 * 103 * (80 + 4 * 80))


@pytest.mark.parametrize(
    ("setting", "options", "tokens", "sequences"),
    [
        pytest.param({}, {}, 103, 2, id="as asked"),
        pytest.param({}, {"num_spec_tokens": 0}, 100, 2, id="said again"),
        pytest.param({"num_spec_tokens": None}, {}, 103, 2, id="three where nobody said"),
        pytest.param({"num_spec_tokens": 0}, {}, 100, 2, id="none"),
        pytest.param({"max_num_seqs": None}, {}, 103, 1, id="one sequence where nobody said"),
        pytest.param({"max_model_len": None}, {}, 503, 2, id="all that the target reaches"),
        pytest.param({"max_model_len": None, "input_len": 30, "output_len": 20}, {}, 53, 2, id="prompt and answer"),
        pytest.param({"max_model_len": None, "input_len": 30}, {}, 503, 2, id="no answer"),
        pytest.param({"max_model_len": None, "output_len": 30}, {}, 503, 2, id="no prompt"),
    ],
)
def test_what_is_asked_for(setting: dict[str, Any], options: dict[str, Any], tokens: int, sequences: int) -> None:
    assert parts(drafted(**setting), **options).target_kv == sequences * tokens * 1024


@pytest.mark.parametrize(("reach", "length"), [(None, 8192), (9000, 8192), (8192, 8192), (400, 400)])
def test_the_length_where_nobody_said(reach: int | None, length: int) -> None:
    there = drafted(changed(max_position_embeddings=reach), max_model_len=None)
    assert parts(there).target_kv == 2 * 1024 * (length + 3)


def test_a_recurrent_state_is_kept_for_each_drafted_token() -> None:
    hybrid = changed(attention="recurrent", model_type="lfm2", recurrent_layers=4)
    assert parts(drafted(hybrid)).target_kv == 2 * 4 * (4 * 400)
    assert parts(drafted(hybrid), num_spec_tokens=0).target_kv == 2 * 1 * (4 * 400)


# ---------------------------------------------------------------------- what the last byte decides


@pytest.mark.parametrize(
    ("spare", "fits", "sequences", "tokens", "context"),
    [(0, True, 2, 200, 100), (-1, False, 1, 199, 99), (EACH - 1, True, 2, 299, None), (EACH, True, 3, 300, None)],
)
def test_the_last_byte(spare: int, fits: bool, sequences: int, tokens: int, context: int | None) -> None:
    found = budget(drafted(), memory=RUNTIME + WEIGHTS + 2 * EACH + spare, gpu_memory_utilization=1.0)
    assert (found.fits, found.max_num_seqs, found.max_tokens) == (fits, sequences, tokens)
    assert found.per_device_bytes.free == spare
    if context is not None:
        assert found.max_context == context
    without = 2 * EACH + spare + 1_000_000
    assert found.max_num_seqs_without_draft == without // (1024 * 100 + 1000 * 8)


@pytest.mark.parametrize(
    ("left", "context"),
    [
        pytest.param(-1, 0, id="not even the weights"),
        pytest.param(2 * (3 * 1280 + 32_000) - 1, 0, id="not even what is drafted"),
        pytest.param(2 * (3 * 1280 + 32_000), 0, id="what is drafted alone"),
        pytest.param(2 * (4 * 1280 + 32_000), 1, id="one token"),
        pytest.param(2 * (503 * 1280 + 32_000) - 1, 499, id="one byte short of all"),
        pytest.param(2 * (503 * 1280 + 32_000), 500, id="all that the target reaches"),
        pytest.param(1 << 40, 500, id="more than it reaches"),
    ],
)
def test_the_longest_context(left: int, context: int) -> None:
    for target, draft in (
        (TOY, DRAFT),
        (TOY, DRAFT._replace(attention="sliding", sliding_window=999, sliding_layers=1)),
    ):
        found = budget(drafted(target, draft), memory=RUNTIME + WEIGHTS + left, gpu_memory_utilization=1.0)
        assert found.max_context == context


def test_layers_with_a_window_leave_more_context() -> None:
    sliding = changed(attention="sliding", sliding_window=10, sliding_layers=4)
    left = 2 * (10 * 1024 + 200 * 256 + 32_000)
    found = budget(drafted(sliding), memory=RUNTIME + WEIGHTS + left, gpu_memory_utilization=1.0)
    assert found.max_context == 197


def test_the_longest_context_is_known_where_the_target_reaches_no_further() -> None:
    assert budget(drafted(changed(max_position_embeddings=None)), memory=1 << 40).max_context is None
    short = changed(attention="sliding", sliding_window=50)
    assert budget(drafted(short, max_model_len=40), memory=1 << 40).max_context is None


@pytest.mark.parametrize(
    ("share", "fewest"),
    [
        pytest.param(1.0, 1, id="one device"),
        pytest.param(0.9, 2, id="two, on one it is short"),
        pytest.param(0.4, 4, id="four, for three do not divide"),
        pytest.param(0.001, None, id="none that is tried"),
    ],
)
def test_the_fewest_devices(share: float, fewest: int | None) -> None:
    big = changed(params_total=10**11, params_text=10**11, num_attention_heads=64, num_key_value_heads=64)
    there = drafted(big, engine="vllm")
    memory = round(share * 2 * 10**11) + (13 << 28) + 10**8
    assert budget(there, memory=memory, gpu_memory_utilization=1.0).min_tensor_parallel_size == fewest
    fits, needed = devices_needed(there, memory=memory, gpu_memory_utilization=1.0)
    assert (fits, needed) == (share == 1.0, None if share == 1.0 else fewest)


def test_a_device_that_stands_alone_is_not_joined() -> None:
    alone = Device("x", "X", "x", memory_bytes=5 << 30, devices_per_node=1)
    big = changed(params_total=2 * 10**9, params_text=2 * 10**9)
    found = [
        budget(drafted(big, device=one)).min_tensor_parallel_size for one in (alone, alone._replace(devices_per_node=8))
    ]
    assert found == [None, 4]


@pytest.mark.parametrize(
    ("heads", "kv", "latent", "devices", "divides"),
    [
        (8, 4, None, 1, True), (8, 4, None, 2, True), (8, 4, None, 3, False), (8, 4, None, 8, True),
        (12, 4, None, 6, False), (12, 4, None, 2, True), (8, None, None, 8, True), (8, 3, LATENT, 8, True),
        (None, 4, None, 2, None), (None, None, None, 1, True),
    ],
)  # fmt: skip
def test_heads_that_divide(heads: int | None, kv: int | None, latent: Any, devices: int, divides: bool | None) -> None:
    model = changed(num_attention_heads=heads, num_key_value_heads=kv, latent=latent)
    assert splits(of(Proposal("ngram", "always"), model), devices) is divides


def test_a_draft_divides_where_it_is_split_alike() -> None:
    odd = DRAFT._replace(num_attention_heads=7)
    assert [splits(drafted(draft=odd, engine=engine), 2) for engine in ("vllm", None)] == [False, True]
    assert splits(drafted(changed(num_attention_heads=7), odd, "vllm"), 2) is False


@pytest.mark.parametrize(
    ("engine", "draft", "asked", "expected"),
    [
        ("vllm", DRAFT._replace(num_attention_heads=7), None, 4),
        (None, DRAFT._replace(num_attention_heads=7), None, 1),
        (None, DRAFT._replace(num_attention_heads=None), None, 4),
        (None, DRAFT, 2, 2),
        (None, DRAFT._replace(num_attention_heads=7), 1, 1),
    ],
)
def test_how_a_draft_is_split(engine: str | None, draft: ModelProfile, asked: int | None, expected: int) -> None:
    assert draft_tensor_parallel_size(drafted(draft=draft, engine=engine, tensor_parallel_size=4), asked) == expected


def test_how_a_head_is_split() -> None:
    proposal = Proposal("eagle3", "given", head=HEAD)
    sizes = {
        engine: draft_tensor_parallel_size(of(proposal, engine=engine, tensor_parallel_size=4))
        for engine in ("vllm-ascend", "vllm", None)
    }
    assert sizes == {"vllm-ascend": 1, "vllm": 4, None: 4}


def test_a_split_that_is_asked_for_wins() -> None:
    there = drafted(engine="vllm", tensor_parallel_size=4)
    assert parts(there).draft_weights == 250_000
    assert parts(there, draft_tensor_parallel_size=1).draft_weights == 1_000_000


@pytest.mark.parametrize(("seen", "memory", "expected"), [(7, 9, 7), (None, 9, 9), (None, None, None)])
def test_the_memory_a_device_shows(seen: int | None, memory: int | None, expected: int | None) -> None:
    assert device_memory(Device("x", "X", "x", memory_bytes=memory, memory_seen_bytes=seen)) == expected
    assert device_memory(None) is None


# ---------------------------------------------------------------------- notes

SAID = "1.25 GiB per device for activations, graphs and communication are our estimate"


@pytest.mark.parametrize(
    ("there", "memory", "notes"),
    [
        pytest.param(drafted(), 1 << 40, (SAID,), id="all is known"),
        pytest.param(
            drafted(), None, ("the memory of the device is not known: whether it fits is not either",), id="none"
        ),
        pytest.param(
            drafted(max_model_len=None, max_num_seqs=None),
            1 << 40,
            (
                "no length was asked for: 500 tokens per sequence are budgeted",
                "no number of sequences was asked for: one is budgeted",
                SAID,
            ),
            id="little was asked for",
        ),
        pytest.param(drafted(tensor_parallel_size=2), 1 << 40, (SAID.replace("1.25", "3.25"),), id="two devices"),
        pytest.param(
            drafted(draft=DRAFT._replace(dtype=None)),
            1 << 40,
            (SAID, "the dtype of toy-draft was not read: 16 bits are assumed"),
            id="a dtype that is not known",
        ),
        pytest.param(drafted(changed(dtype=None), dtype="bfloat16"), 1 << 40, (SAID,), id="a dtype that is asked for"),
        pytest.param(
            drafted(changed(dtype=None, quantization="mlx-4bit")), 1 << 40, (SAID,), id="a dtype that does not matter"
        ),
        pytest.param(
            of(Proposal("eagle", "given", head=HEAD._replace(method="eagle", params=None))),
            1 << 40,
            (SAID, "the parameters of maker/head are computed from its method and its target's shape"),
            id="a head's formula",
        ),
        pytest.param(
            of(Proposal("dflash", "given", head=Head("maker/head", "dflash", TOY.id))),
            1 << 40,
            (
                SAID,
                "the weights of maker/head are not known: parameters or storage format were not read",
                "the KV cache of maker/head is not known: its layers, or how they attend, were not read",
            ),
            id="a head that nobody read",
        ),
        pytest.param(
            drafted(changed(params_total=None, params_text=None, vocab_size=None, head_dim=None)),
            1 << 40,
            (
                SAID,
                "the weights of toy are not known: parameters or storage format were not read",
                "the KV cache of toy is not known: heads or layers were not read",
                "the rows of toy's vocabulary are not known, nor what verifying takes",
            ),
            id="a target that nobody read",
        ),
        pytest.param(
            drafted(draft=DRAFT._replace(attention="unknown")),
            1 << 40,
            (SAID, "the KV cache of toy-draft is not known: how its layers attend was not read"),
            id="a draft that nobody read",
        ),
        pytest.param(
            of(OWN_MTP, MTP._replace(latent=LATENT), "llama.cpp"),
            1 << 40,
            (SAID, "llama.cpp keeps a second cache of the target at 16 bits for MTP: it counts as the draft's"),
            id="a second cache",
        ),
        pytest.param(
            of(OWN_MTP, MTP, "sglang"),
            1 << 40,
            (SAID, "sglang loads embedding and lm_head a second time for the MTP layer"),
            id="second matrices",
        ),
        pytest.param(
            drafted(changed(attention="hybrid", model_type="lfm2", recurrent_layers=4)),
            1 << 40,
            (SAID, "each sequence keeps one recurrent state more for each drafted token"),
            id="states",
        ),
        pytest.param(
            drafted(max_num_seqs=1000),
            round((RUNTIME + WEIGHTS + 10.5 * EACH) / 0.9),
            (SAID, "10 of 1000 sequences of 100 tokens have room at once: the rest wait"),
            id="fewer than asked for",
        ),
    ],
)
def test_notes(there: Pair, memory: int | None, notes: tuple[str, ...]) -> None:
    assert budget(there, memory=memory).notes == notes
