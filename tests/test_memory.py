from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick import catalog
from draftpick.choices import GGUF_BITS, MEMORY, MEMORY_TABLE, STORED_BITS
from draftpick.errors import UsageError
from draftpick.memory import Budget, budget, draft_tensor_parallel_size
from draftpick.models.profile import Experts, LatentAttention, ModelProfile
from draftpick.pair import Device, Engine, Head, Pair, Proposal, Setting
from draftpick.sizes import (
    Cache,
    cache,
    cache_element_bytes,
    head_params,
    kv_bytes_per_token,
    medusa_params,
    mtp_params,
    stored_bits,
    weight_bytes,
    weight_format,
)

GIB = 1 << 30
CATALOG = catalog.load()
SEEN_64G = 65_455_301_591
"""60.96 GiB: what torch shows of a 64 GB Ascend 910B."""

SMALL = ModelProfile(
    id="made-up/small",
    origin="folder",
    params_total=1_200_000_000,
    params_text=1_200_000_000,
    num_hidden_layers=16,
    hidden_size=2048,
    intermediate_size=8192,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    vocab_size=128_000,
    tie_word_embeddings=True,
    max_position_embeddings=131_072,
    dtype="bfloat16",
)
LARGE = SMALL._replace(
    id="made-up/large",
    params_total=8_000_000_000,
    params_text=8_000_000_000,
    num_hidden_layers=32,
    hidden_size=4096,
    intermediate_size=14_336,
    head_dim=128,
    tie_word_embeddings=False,
)


def profile(name: str) -> ModelProfile:
    found = CATALOG.find(name)
    assert found is not None
    return found


def head(name: str) -> Head:
    found = CATALOG.head(name)
    assert found is not None
    return found


def engine(key: str | None) -> Engine | None:
    return CATALOG.engine(key) if key is not None else None


def pair(target: ModelProfile, proposal: Proposal, engine_key: str | None = None, **setting: Any) -> Pair:
    return Pair(target, proposal, Setting(engine=engine(engine_key), **setting))


def drafted(target: ModelProfile, draft: ModelProfile, engine_key: str | None = None, **setting: Any) -> Pair:
    return pair(target, Proposal("draft_model", "given", draft=draft), engine_key, **setting)


NGRAM = Proposal("ngram", "always")
OWN_MTP = Proposal("mtp", "target")


# ---------------------------------------------------------------------- caches


@pytest.mark.parametrize(
    ("model", "each"),
    [
        pytest.param("Qwen/Qwen3-0.6B", 112 * 1024, id="8 KV heads of 128 in 28 layers"),
        pytest.param("Qwen/Qwen2.5-0.5B", 12 * 1024, id="2 KV heads of 64 in 24 layers"),
        pytest.param("meta-llama/Llama-2-7b-hf", 512 * 1024, id="as many KV heads as heads"),
        pytest.param("Qwen/Qwen3-32B", 256 * 1024, id="64 layers"),
        pytest.param("deepseek-ai/DeepSeek-V3", (512 + 64) * 61 * 2, id="latent"),
        pytest.param("deepseek-ai/DeepSeek-V3.2", (512 + 64) * 61 * 2 + 132 * 61, id="latent, sparse by an index"),
        pytest.param("google/gemma-3-27b-it", 2 * 16 * 128 * 62 * 2, id="sliding, within the window"),
        pytest.param("Qwen/Qwen3-Next-80B-A3B-Instruct", 2 * 2 * 256 * 12 * 2, id="hybrid: 12 of 48 layers"),
        pytest.param("deepseek-ai/DeepSeek-V4-Flash", None, id="attention not known"),
        pytest.param("ai21labs/Jamba-v0.1", None, id="hybrid, layers not counted"),
    ],
)
def test_kv_bytes_per_token(model: str, each: int | None) -> None:
    assert kv_bytes_per_token(profile(model)) == each


@pytest.mark.parametrize(
    ("model", "gib"), [("Qwen/Qwen3-0.6B", 3.5), ("Qwen/Qwen2.5-0.5B", 0.375)], ids=["qwen3", "qwen2.5"]
)
def test_a_draft_of_one_size_class_may_keep_nine_times_the_cache(model: str, gib: float) -> None:
    found = cache(profile(model), "f16")
    assert found is not None
    assert found.of(32_768) == gib * GIB


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (None, 2),
        ("auto", 2),
        ("bfloat16", 2),
        ("FP8", 1),
        ("fp8_e4m3", 1),
        ("f32", 4),
        ("q8_0", 1.0625),
        ("q4_0", 0.5625),
    ],
)
def test_cache_types(name: str | None, size: float) -> None:
    assert cache_element_bytes(name) == size


def test_an_unknown_cache_type_is_an_error_that_names_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        kv_bytes_per_token(SMALL, "fp7")
    assert "fp8" in caught.value.hint


def test_sliding_layers_stop_at_their_window() -> None:
    found = cache(profile("google/gemma-3-27b-it"))
    each = 2 * 16 * 128 * 2
    assert found is not None
    assert found.of(1024) == 62 * each * 1024
    assert found.of(131_072) == 10 * each * 131_072 + 52 * each * 1024


def test_a_window_of_unknown_layers_is_known_within_it_alone() -> None:
    found = cache(profile("mistralai/Mistral-7B-v0.1"))
    assert found is not None
    assert found.of(4096) == 128 * 1024 * 4096
    assert found.of(4097) is None


def test_recurrent_layers_keep_one_state_whatever_the_length() -> None:
    found = cache(profile("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    # 32 value heads with a float32 matrix of 128 by 128, and three tokens of a convolution 8192 wide in 16 bits.
    state = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert found is not None
    assert found.state == state
    assert found.of(0) == state
    assert found.of(1000) == state + 24_576 * 1000
    assert found.of(1000, states=4) == 4 * state + 24_576 * 1000


@pytest.mark.parametrize(
    ("model", "devices", "share"),
    [
        pytest.param("Qwen/Qwen3-32B", 4, 1 / 4, id="8 KV heads over 4"),
        pytest.param("Qwen/Qwen3-32B", 8, 1 / 8, id="one each"),
        pytest.param("Qwen/Qwen3-32B", 16, 1 / 8, id="copied over 16"),
        pytest.param("Qwen/Qwen2.5-0.5B", 7, 1 / 2, id="2 KV heads over 7"),
        pytest.param("deepseek-ai/DeepSeek-V3", 16, 1, id="latent: whole on each"),
    ],
)
def test_kv_heads_over_devices(model: str, devices: int, share: float) -> None:
    one, many = kv_bytes_per_token(profile(model)), kv_bytes_per_token(profile(model), None, devices)
    assert one is not None
    assert many == one * share


def test_transformers_caches_latent_attention_expanded() -> None:
    model = profile("deepseek-ai/DeepSeek-V3")
    assert kv_bytes_per_token(model, engine="transformers") == 128 * (128 + 64 + 128) * 61 * 2


@pytest.mark.parametrize("missing", ["num_hidden_layers", "num_key_value_heads", "head_dim"])
def test_an_unknown_dimension_gives_no_cache(missing: str) -> None:
    assert cache(SMALL._replace(**{missing: None})) is None


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("model", "options", "gigabytes"),
    [
        pytest.param("meta-llama/Llama-2-7b-hf", {}, 13.5, id="7B in 16 bits: the customary 14"),
        pytest.param("TinyLlama/TinyLlama-1.1B-Chat-v1.0", {}, 2.2, id="1.1B: 2.2"),
        pytest.param("meta-llama/Llama-2-7b-hf", {"dtype": "float32"}, 27.0, id="asked for in float32"),
        pytest.param("openai/gpt-oss-120b", {}, 65.2, id="mxfp4 experts, the rest in 16 bits: published 60.8 GiB"),
        pytest.param("openai/gpt-oss-20b", {}, 13.8, id="published 12.8 GiB"),
        pytest.param("deepseek-ai/DeepSeek-V3", {}, 672.9, id="fp8, embedding and lm_head in 16 bits"),
        pytest.param("meta-llama/Llama-3.1-70B-Instruct", {"quantization": "gguf-q4_k_m"}, 43.1, id="Q4_K_M 70B"),
        pytest.param("meta-llama/Llama-3.1-8B-Instruct", {"quantization": "q4_k_m"}, 4.9, id="Q4_K_M 8B"),
        pytest.param("meta-llama/Llama-3.1-70B-Instruct", {"quantization": "awq-int4"}, 39.8, id="AWQ 70B"),
        pytest.param(
            "Qwen/Qwen2.5-0.5B", {"quantization": "4bit"}, 0.458, id="4 bits of a small model: embedding stays"
        ),
    ],
)
def test_weights_of_known_checkpoints(model: str, options: dict[str, Any], gigabytes: float) -> None:
    found = weight_bytes(profile(model), **options)
    assert found is not None
    assert found / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize(
    ("name", "bits", "whole"),
    [
        ("gguf-q4_k_m", 4.8944, True),
        ("UD-Q4_K_XL", 4.8944, True),
        ("gguf-iq2_xxs", 2.3824, True),
        ("q8_0", 8.5008, True),
        ("gptq-int4", 4.16, False),
        ("gptq-int8", 8.0, False),
        ("w8a8_dynamic", 8.0, False),
        ("w4a16", 4.16, False),
        ("bnb-4bit", 4.5, False),
        ("mlx-4bit", 4.5, True),
        ("gguf-mxfp4", 4.25, True),
        ("fp8", 8.0, False),
        ("nvfp4", 4.5, False),
    ],
)
def test_bits_of_a_format(name: str, bits: float, whole: bool) -> None:
    assert stored_bits(name) == (bits, whole)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        pytest.param({"params_total": None, "params_text": None}, {}, id="no parameters"),
        pytest.param({}, {"quantization": "hqq-odd"}, id="unknown format"),
        pytest.param({"tie_word_embeddings": None}, {"quantization": "fp8"}, id="nobody said how many matrices stay"),
        pytest.param({"vocab_size": None}, {"quantization": "fp8"}, id="size of those matrices not known"),
        pytest.param({}, {"dtype": "float7"}, id="unknown dtype"),
        pytest.param(
            {"params_text": None, "uncertain": frozenset({"params_total"})}, {}, id="elements of packed tensors"
        ),
    ],
)
def test_weights_that_are_not_known(change: dict[str, Any], options: dict[str, Any]) -> None:
    assert weight_bytes(SMALL._replace(**change), **options) is None


def test_a_file_says_itself_what_it_takes() -> None:
    stored = SMALL._replace(weight_bytes=777_000_000, quantization="gguf-q4_k_m")
    assert weight_bytes(stored) == 777_000_000
    assert weight_bytes(stored, tensor_parallel_size=2) == 388_500_000
    assert weight_bytes(stored, quantization="q8_0") != 777_000_000


@pytest.mark.parametrize(
    ("engine_key", "bits"), [("vllm", 16), ("sglang-ascend", 16), ("transformers", 32), (None, 32)]
)
def test_float32_checkpoints_by_engine(engine_key: str | None, bits: int) -> None:
    found = weight_format(SMALL._replace(dtype="float32"), engine=engine_key)
    assert found is not None
    assert found.bits == bits


def test_latent_projections_and_routers_are_copied() -> None:
    model = profile("deepseek-ai/DeepSeek-V3")
    copied = 61 * 7168 * (1536 + 512 + 64) + 58 * 7168 * 256
    one, many = weight_bytes(model), weight_bytes(model, tensor_parallel_size=16)
    assert one is not None
    assert many is not None
    assert many == pytest.approx((one - copied) / 16 + copied, rel=1e-6)


def test_towers_count_and_mtp_layers_do_not() -> None:
    model = profile("Qwen/Qwen3.6-27B")
    own = mtp_params(model)
    assert own is not None
    assert model.params_total is not None
    assert weight_bytes(model) == (model.params_total - own) * 2


# ---------------------------------------------------------------------- heads


def test_medusa_heads_on_a_7b_are_591_million() -> None:
    assert round(medusa_params(4096, 32_000, heads=4) / 1e6) == 591
    assert head_params(head("FasterDecoding/medusa-vicuna-7b-v1.3"), profile("lmsys/vicuna-7b-v1.3")) == medusa_params(
        4096, 32_000, heads=4
    )


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("yuhuili/EAGLE-llama2-chat-7B", 240),
        ("yuhuili/EAGLE-LLaMA3-Instruct-8B", 250),
        ("yuhuili/EAGLE-llama2-chat-70B", 990),
        ("yuhuili/EAGLE-Qwen2-7B-Instruct", 260),
        ("yuhuili/EAGLE-Qwen2-72B-Instruct", 1050),
    ],
)
def test_the_formula_of_eagle_heads_gives_the_published_sizes(name: str, millions: float) -> None:
    published = head(name)
    found = head_params(published._replace(params=None), profile(published.target))
    assert found is not None
    assert found / 1e6 == pytest.approx(millions, rel=0.05)


@pytest.mark.parametrize(
    ("model", "params"),
    [
        pytest.param("Qwen/Qwen3-Next-80B-A3B-Instruct", 1_650_471_424, id="sparse"),
        pytest.param("GLM-4.5-Air", 3_616_573_568 - 2 * 151_552 * 4096, id="the checkpoint repeats both matrices"),
        pytest.param("XiaomiMiMo/MiMo-7B-RL", 210_790_400, id="dense"),
    ],
)
def test_own_mtp_layers_by_formula_are_those_of_the_checkpoint(model: str, params: int) -> None:
    assert mtp_params(profile(model)) == pytest.approx(params, rel=0.001)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"experts": Experts(8, 2, 1024)}, id="sparse target"),
        pytest.param({"latent": LatentAttention(512, 64)}, id="latent target"),
        pytest.param({"intermediate_size": None}, id="unknown width"),
    ],
)
def test_a_head_is_not_guessed(change: dict[str, Any]) -> None:
    unread = Head("made-up/head", "eagle3", LARGE.id, draft_vocab_size=32_000)
    assert head_params(unread, LARGE) is not None
    assert head_params(unread, LARGE._replace(**change)) is None
    assert head_params(unread._replace(draft_vocab_size=None), LARGE) is None
    assert head_params(unread._replace(method="dflash"), LARGE) is None


@pytest.mark.parametrize(
    ("engine_key", "draft", "devices", "expected"),
    [
        pytest.param("vllm", "Qwen/Qwen2.5-0.5B", 4, 4, id="vllm wants it equal, 14 heads or not"),
        pytest.param("vllm-ascend", "Qwen/Qwen3-0.6B", 8, 8, id="vllm-ascend wants it equal"),
        pytest.param(None, "Qwen/Qwen2.5-0.5B", 4, 1, id="no engine, heads do not divide"),
        pytest.param(None, "Qwen/Qwen3-0.6B", 4, 4, id="no engine, heads divide"),
    ],
)
def test_over_how_many_devices_a_draft_is_split(
    engine_key: str | None, draft: str, devices: int, expected: int
) -> None:
    there = drafted(profile("Qwen/Qwen3-32B"), profile(draft), engine_key, tensor_parallel_size=devices)
    assert draft_tensor_parallel_size(there) == expected


def test_vllm_ascend_runs_heads_on_one_device() -> None:
    proposal = Proposal("eagle3", "given", head=Head("made-up/head", "eagle3", LARGE.id, params=400_000_000))
    alone = budget(pair(LARGE, proposal, "vllm-ascend", tensor_parallel_size=4))
    split = budget(pair(LARGE, proposal, "vllm", tensor_parallel_size=4))
    assert alone.per_device_bytes.draft_weights == 800_000_000
    assert split.per_device_bytes.draft_weights == 200_000_000


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize(
    ("engine_key", "proposal"),
    [
        pytest.param("vllm", OWN_MTP, id="own layers"),
        pytest.param("sglang", OWN_MTP, id="own layers with matrices of their own"),
        pytest.param("vllm", Proposal("draft_model", "given", draft=SMALL), id="a draft model"),
        pytest.param(
            "vllm", Proposal("eagle3", "given", head=Head("a/head", "eagle3", "b", params=10**9)), id="a head"
        ),
    ],
)
def test_what_is_split_weighs_its_share_on_each_device(engine_key: str, proposal: Proposal, devices: int) -> None:
    target = LARGE._replace(num_nextn_predict_layers=1)
    whole, each = (
        budget(pair(target, proposal, engine_key, tensor_parallel_size=size)).per_device_bytes for size in (1, devices)
    )
    for all_of_it, share in ((whole.draft_weights, each.draft_weights), (whole.target_weights, each.target_weights)):
        assert all_of_it
        assert share == pytest.approx(all_of_it / devices, rel=0.01)


@pytest.mark.parametrize(("published", "heads"), [(None, 4), (2, 4), (4, 4), (5, 5), (9, 9)])
def test_a_medusa_has_four_heads_or_more(published: int | None, heads: int) -> None:
    of = Head("made-up/medusa", "medusa", LARGE.id, num_spec_tokens=published)
    assert LARGE.hidden_size is not None
    assert LARGE.vocab_size is not None
    assert head_params(of, LARGE) == medusa_params(LARGE.hidden_size, LARGE.vocab_size, heads)


# ---------------------------------------------------------------------- the source text's budgets


def article(utilization: float | None = None, sequences: int = 1) -> Budget:
    """7B + 1.1B at Llama's and TinyLlama's shape, counted as the text does, on 64 GB (60.96 GiB seen)."""
    target = profile("meta-llama/Llama-2-7b-hf")._replace(params_total=7_000_000_000, params_text=7_000_000_000)
    draft = profile("TinyLlama/TinyLlama-1.1B-Chat-v1.0")
    draft = draft._replace(params_total=1_100_000_000, params_text=1_100_000_000)
    there = drafted(target, draft, "vllm-ascend", max_model_len=76_288, max_num_seqs=sequences, num_spec_tokens=5)
    return budget(there, memory=SEEN_64G, gpu_memory_utilization=utilization)


def test_7b_and_1b_and_40_gb_of_cache_on_64_gb() -> None:
    parts = article().per_device_bytes
    assert parts.target_weights == 14_000_000_000
    assert parts.draft_weights == 2_200_000_000
    assert parts.target_kv == pytest.approx(40e9, rel=1e-4)
    assert parts.target_weights + parts.draft_weights + parts.target_kv == pytest.approx(56.2e9, rel=1e-4)


def test_the_text_leaves_out_the_drafts_cache_and_the_reserve() -> None:
    parts = article().per_device_bytes
    assert parts.draft_kv == pytest.approx(40e9 * 22 * 4 * 64 / (32 * 32 * 128), rel=1e-4)
    assert parts.reserve == pytest.approx(0.1 * SEEN_64G + 1.25 * GIB, abs=1)


@pytest.mark.parametrize(("utilization", "fits"), [(0.92, True), (1.0, True), (0.9, False)])
def test_whether_the_texts_budget_fits_hangs_on_the_share_of_memory(utilization: float, fits: bool) -> None:
    assert article(utilization).fits is fits


def test_real_parameters_fit_at_the_usual_share() -> None:
    """6.74 and 1.10 billion parameters and 40 GB of cache for the target: everything counted, it fits."""
    there = drafted(
        profile("meta-llama/Llama-2-7b-hf"),
        profile("TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
        "vllm-ascend",
        max_model_len=76_288,
        device=CATALOG.device("910b3"),
    )
    found = budget(there)
    assert found.fits is True
    assert found.max_num_seqs == 1
    assert found.min_tensor_parallel_size == 1


def test_70b_and_7b_on_64_gb_take_four_cards() -> None:
    there = drafted(
        profile("meta-llama/Llama-2-70b-hf"), profile("meta-llama/Llama-2-7b-hf"), "vllm-ascend", max_model_len=4096
    )
    found = budget(there, memory=SEEN_64G)
    assert found.fits is False
    assert found.max_num_seqs == 0
    # Three would hold the bytes, yet 64 heads do not divide by three.
    assert found.min_tensor_parallel_size == 4
    split = budget(there._replace(setting=there.setting._replace(tensor_parallel_size=4)), memory=SEEN_64G)
    assert split.fits is True
    two = budget(there._replace(setting=there.setting._replace(tensor_parallel_size=2)), memory=SEEN_64G)
    assert two.fits is False


# ---------------------------------------------------------------------- what engines do


def parts_of(there: Pair, **options: Any) -> dict[str, int | None]:
    return budget(there, **options).per_device_bytes._asdict()


def test_sglang_holds_embedding_and_lm_head_of_the_mtp_layer() -> None:
    model = profile("Qwen/Qwen3.6-27B")
    matrix = 248_320 * 5120 * 2
    there, elsewhere = pair(model, OWN_MTP, "sglang"), pair(model, OWN_MTP, "vllm")
    assert matrix / GIB == pytest.approx(2.37, abs=0.005)
    assert parts_of(there)["draft_weights"] == (parts_of(elsewhere)["draft_weights"] or 0) + 2 * matrix


def test_llama_cpp_keeps_a_second_cache_of_latent_targets_for_mtp() -> None:
    model = profile("zai-org/GLM-5.2")
    for kind in (None, "q8_0"):
        there = parts_of(pair(model, OWN_MTP, "llama.cpp", max_model_len=131_072), kv_cache_dtype=kind)
        elsewhere = parts_of(pair(model, OWN_MTP, "vllm", max_model_len=131_072))
        assert (there["draft_kv"] or 0) >= (there["target_kv"] or 0) > 0
        assert (elsewhere["draft_kv"] or 0) < (elsewhere["target_kv"] or 0) / 50


def test_llama_cpp_keeps_the_drafts_cache_at_f16() -> None:
    target, draft = profile("Qwen/Qwen3-14B"), profile("Qwen/Qwen3-0.6B")
    plain = parts_of(drafted(target, draft, "llama.cpp", max_model_len=32_768))
    packed = parts_of(drafted(target, draft, "llama.cpp", max_model_len=32_768), kv_cache_dtype="q8_0")
    assert packed["draft_kv"] == plain["draft_kv"]
    assert packed["target_kv"] == pytest.approx((plain["target_kv"] or 0) * 17 / 32, rel=1e-6)
    vllm = parts_of(drafted(target, draft, "vllm", max_model_len=32_768), kv_cache_dtype="fp8")
    assert vllm["draft_kv"] == (plain["draft_kv"] or 0) / 2


def test_quantisation_at_load_is_the_targets_alone() -> None:
    plain, packed = (parts_of(drafted(LARGE, SMALL, quantization=kind)) for kind in (None, "fp8"))
    assert (packed["target_weights"] or 0) < (plain["target_weights"] or 0)
    assert packed["draft_weights"] == plain["draft_weights"]
    assert (parts_of(drafted(LARGE, SMALL, draft_quantization="fp8"))["draft_weights"] or 0) < 2_400_000_000


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_draft_free_methods_take_no_memory_but_rows_to_verify(method: str) -> None:
    there = parts_of(pair(LARGE, Proposal(method, "always"), num_spec_tokens=4))
    assert there["draft_weights"] == 0
    assert there["draft_kv"] == 0
    assert there["verify_workspace"] == 5 * 128_000 * 8


def test_a_head_that_reads_the_targets_cache_keeps_none() -> None:
    proposal = Proposal("mtp_assistant", "given", head=Head("made-up/assistant", "mtp_assistant", LARGE.id, params=9))
    assert parts_of(pair(LARGE, proposal))["draft_kv"] == 0


@pytest.mark.parametrize(
    ("engine_key", "share"), [("vllm", 0.9), ("mindie", 0.8), ("llama.cpp", 1.0), (None, 0.9)], ids=str
)
def test_the_share_of_memory_an_engine_takes(engine_key: str | None, share: float) -> None:
    found = parts_of(drafted(LARGE, SMALL, engine_key), memory=64 * GIB)
    assert found["reserve"] == pytest.approx((1 - share) * 64 * GIB + 1.25 * GIB, abs=1)


def test_apple_devices_leave_a_quarter_to_the_system() -> None:
    there = drafted(LARGE, SMALL, "llama.cpp", device=CATALOG.device("m4-max"))
    assert parts_of(there)["reserve"] == pytest.approx(0.25 * 128 * GIB + 1.25 * GIB, abs=1)


def test_several_devices_need_room_to_talk() -> None:
    one = parts_of(drafted(LARGE, SMALL), memory=64 * GIB)["reserve"] or 0
    two = parts_of(drafted(LARGE, SMALL, tensor_parallel_size=2), memory=64 * GIB)["reserve"] or 0
    assert two - one == 2 * GIB


# ---------------------------------------------------------------------- gaps


def test_without_a_device_the_parts_stand_and_nothing_is_said_to_fit() -> None:
    found = budget(drafted(LARGE, SMALL, max_num_seqs=4))
    assert found.fits is None
    assert found.max_num_seqs is found.max_context is found.min_tensor_parallel_size is None
    assert None not in found.per_device_bytes[:5]
    assert found.per_device_bytes.free is None
    assert any("memory of the device" in note for note in found.notes)


@pytest.mark.parametrize(
    ("seen", "said", "expected"),
    [
        pytest.param(None, None, 64 * GIB, id="nominal where nobody saw it"),
        pytest.param(SEEN_64G, None, SEEN_64G, id="what the framework sees"),
        pytest.param(SEEN_64G, 48 * GIB, 48 * GIB, id="what is said goes before"),
    ],
)
def test_the_memory_of_a_device(seen: int | None, said: int | None, expected: int) -> None:
    device = Device("x", "X", "x", memory_bytes=64 * GIB, memory_seen_bytes=seen)
    found = budget(drafted(LARGE, SMALL, device=device), memory=said).per_device_bytes
    assert sum(value or 0 for value in found) == expected


@pytest.mark.parametrize(
    ("change", "part", "said"),
    [
        ({"num_key_value_heads": None}, "target_kv", "heads or layers"),
        ({"attention": "unknown"}, "target_kv", "how its layers attend"),
        ({"attention": "hybrid"}, "target_kv", "recurrent layers"),
        ({"attention": "sliding"}, "target_kv", "window"),
        ({"params_total": None, "params_text": None}, "target_weights", "weights of large"),
        ({"vocab_size": None}, "verify_workspace", "vocabulary"),
    ],
    ids=["heads", "attention", "recurrent layers", "window", "parameters", "rows"],
)
def test_what_is_not_known_is_none_with_its_reason(change: dict[str, Any], part: str, said: str) -> None:
    found = budget(drafted(LARGE._replace(**change), SMALL), memory=64 * GIB)
    assert found.per_device_bytes._asdict()[part] is None
    assert found.per_device_bytes.free is None
    assert found.fits is None
    assert found.max_num_seqs is None
    assert found.min_tensor_parallel_size is None
    assert any(said in note for note in found.notes)


def test_what_is_known_may_be_too_much_already() -> None:
    assert budget(drafted(LARGE._replace(attention="unknown"), SMALL), memory=8 * GIB).fits is False


def test_an_unread_head_leaves_the_answer_open() -> None:
    proposal = Proposal("dflash", "given", head=Head("made-up/head", "dflash", LARGE.id))
    found = budget(pair(LARGE, proposal), memory=64 * GIB)
    assert found.fits is None
    assert found.per_device_bytes.draft_weights is None
    assert found.max_num_seqs is None
    assert found.max_num_seqs_without_draft is not None


def test_unknown_heads_leave_the_number_of_devices_open() -> None:
    assert (
        budget(drafted(LARGE._replace(num_attention_heads=None), SMALL), memory=16 * GIB).min_tensor_parallel_size
        is None
    )


def test_fewer_sequences_than_asked_for_are_named() -> None:
    found = budget(drafted(LARGE, SMALL, max_model_len=32_768, max_num_seqs=64), memory=64 * GIB)
    assert found.fits is False
    assert found.max_num_seqs is not None
    assert 0 < found.max_num_seqs < 64
    assert any(f"{found.max_num_seqs} of 64 sequences" in note for note in found.notes)


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ({}, {"memory": 0}),
        ({}, {"memory": -1}),
        ({}, {"gpu_memory_utilization": 0.0}),
        ({}, {"gpu_memory_utilization": 1.2}),
        ({}, {"gpu_memory_utilization": float("nan")}),
        ({}, {"num_spec_tokens": -1}),
        ({}, {"draft_tensor_parallel_size": 0}),
        ({}, {"kv_cache_dtype": "fp7"}),
        ({"tensor_parallel_size": 0}, {}),
        ({"max_model_len": 0}, {}),
        ({"max_num_seqs": -3}, {}),
    ],
    ids=str,
)
def test_impossible_values_are_refused(setting: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        budget(drafted(LARGE, SMALL, **setting), **options)
    assert caught.value.hint
    name = next(iter({**setting, **options}))
    assert caught.value.message.startswith(f"{name} is " if name != "kv_cache_dtype" else "unknown KV cache type")


# ---------------------------------------------------------------------- laws


def shapes() -> st.SearchStrategy[ModelProfile]:
    """Models of every kind of attention, dense and sparse, in 16 bits and fewer."""
    return st.builds(
        _shape,
        layers=st.integers(1, 100),
        heads=st.sampled_from([8, 14, 16, 32, 64]),
        shared=st.sampled_from([1, 2, 4, 8]),
        head_dim=st.sampled_from([64, 128, 256]),
        kind=st.sampled_from(["full", "sliding", "hybrid", "latent"]),
        experts=st.sampled_from([None, Experts(8, 2, 1024), Experts(128, 8, 768, shared=1)]),
        quantization=st.sampled_from([None, "fp8", "awq-int4", "mxfp4", "gguf-q4_k_m"]),
        tied=st.booleans(),
        params=st.integers(10**8, 10**12),
    )


def _shape(
    *,
    layers: int,
    heads: int,
    shared: int,
    head_dim: int,
    kind: str,
    experts: Experts | None,
    quantization: str | None,
    tied: bool,
    params: int,
) -> ModelProfile:
    shape = SMALL._replace(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(heads // shared, 1),
        head_dim=head_dim,
        experts=experts,
        quantization=quantization,
        tie_word_embeddings=tied,
        params_total=params,
        params_text=params,
    )
    if kind == "sliding":
        return shape._replace(attention="sliding", sliding_window=1024, sliding_layers=layers // 2)
    if kind == "hybrid":
        return shape._replace(attention="hybrid", model_type="qwen3_next", recurrent_layers=layers // 2)
    return shape._replace(latent=LatentAttention(512, 64)) if kind == "latent" else shape


MEMORIES = st.integers(4, 512).map(lambda gigabytes: gigabytes * GIB)
LENGTHS = st.integers(1, 131_072)


@given(shapes(), LENGTHS)
def test_bytes_of_a_device_never_rise_with_the_number_of_devices(model: ModelProfile, length: int) -> None:
    weights = [weight_bytes(model, tensor_parallel_size=devices) or 0 for devices in range(1, 20)]
    kept = [found.of(length) or 0 for devices in range(1, 20) if (found := cache(model, None, devices)) is not None]
    assert len(kept) == 19
    assert all(later <= earlier for earlier, later in pairwise(weights))
    assert all(later <= earlier for earlier, later in pairwise(kept))


@given(shapes(), st.sampled_from([2, 4, 8, 16]))
def test_devices_together_hold_at_least_the_model(model: ModelProfile, devices: int) -> None:
    one, each = weight_bytes(model), weight_bytes(model, tensor_parallel_size=devices)
    assert one is not None
    assert each is not None
    assert each * devices >= one


@given(shapes(), shapes(), MEMORIES, LENGTHS, st.integers(0, 16), st.sampled_from([1, 2, 4, 8]))
def test_a_draft_never_raises_concurrency(
    target: ModelProfile, draft: ModelProfile, memory: int, length: int, k: int, devices: int
) -> None:
    there = drafted(target, draft, max_model_len=length, num_spec_tokens=k, tensor_parallel_size=devices)
    found = budget(there, memory=memory)
    assert found.max_num_seqs is not None
    assert found.max_num_seqs_without_draft is not None
    assert 0 <= found.max_num_seqs <= found.max_num_seqs_without_draft


@given(shapes(), shapes(), MEMORIES, LENGTHS, LENGTHS)
def test_more_context_never_raises_concurrency(
    target: ModelProfile, draft: ModelProfile, memory: int, one: int, other: int
) -> None:
    short, long = (
        budget(drafted(target, draft, max_model_len=length), memory=memory).max_num_seqs
        for length in sorted((one, other))
    )
    assert short is not None
    assert long is not None
    assert long <= short


@given(shapes(), MEMORIES, st.integers(0, 15), st.integers(1, 64))
def test_more_drafted_tokens_never_take_less(model: ModelProfile, memory: int, k: int, sequences: int) -> None:
    few, many = (
        budget(drafted(model, SMALL, num_spec_tokens=n, max_num_seqs=sequences), memory=memory) for n in (k, k + 1)
    )
    assert (many.per_device_bytes.verify_workspace or 0) > (few.per_device_bytes.verify_workspace or 0)
    assert (many.max_num_seqs or 0) <= (few.max_num_seqs or 0)


@given(shapes(), shapes(), MEMORIES, LENGTHS, st.integers(1, 256), st.sampled_from([1, 2, 8]))
def test_the_parts_are_the_memory(
    target: ModelProfile, draft: ModelProfile, memory: int, length: int, sequences: int, devices: int
) -> None:
    there = drafted(target, draft, max_model_len=length, max_num_seqs=sequences, tensor_parallel_size=devices)
    found = budget(there, memory=memory)
    parts = found.per_device_bytes
    assert None not in parts
    assert sum(value or 0 for value in parts) == memory
    assert found.fits is not None
    assert found.fits is ((parts.free or 0) >= 0)
    if found.fits:
        assert (found.max_num_seqs or 0) >= sequences
        assert (found.max_context or 0) >= length
        assert devices > 1 or found.min_tensor_parallel_size == 1


@settings(max_examples=50)
@given(shapes(), MEMORIES, st.integers(1, 64))
def test_the_largest_context_fits_and_the_next_does_not(model: ModelProfile, memory: int, sequences: int) -> None:
    longest = budget(drafted(model, SMALL, max_num_seqs=sequences), memory=memory).max_context
    assert longest is not None

    def room(length: int) -> int:
        return budget(drafted(model, SMALL, max_model_len=length), memory=memory).max_num_seqs or 0

    if longest > 0:
        assert room(longest) >= sequences
    if longest < (model.max_position_embeddings or 0):
        assert room(longest + 1) < sequences


@settings(max_examples=50)
@given(shapes(), shapes(), MEMORIES, st.integers(1, 8))
def test_the_fewest_devices_hold_it_and_divide_the_heads(
    target: ModelProfile, draft: ModelProfile, memory: int, sequences: int
) -> None:
    there = drafted(target, draft, "vllm", max_num_seqs=sequences)
    fewest = budget(there, memory=memory).min_tensor_parallel_size
    if fewest is None:
        return
    assert (target.num_attention_heads or 0) % fewest == 0
    assert (draft.num_attention_heads or 0) % fewest == 0
    split = there._replace(setting=there.setting._replace(tensor_parallel_size=fewest))
    assert budget(split, memory=memory).fits is True


def test_every_model_of_the_catalogue_has_a_budget_or_a_reason() -> None:
    for model in CATALOG.profiles():
        found = budget(pair(model, NGRAM), memory=1 << 44)
        assert (found.fits is None) == any("not known" in note for note in found.notes), model.id


def test_an_empty_cache_takes_nothing() -> None:
    assert Cache().of(1_000_000) == 0


def test_every_choice_has_a_reason_and_a_name_of_its_own() -> None:
    for table in (MEMORY_TABLE, GGUF_BITS, STORED_BITS):
        names = [choice.name for choice in table]
        assert len(names) == len(set(names))
        assert all(choice.why for choice in table)
    assert len(MEMORY) == len(MEMORY_TABLE)
