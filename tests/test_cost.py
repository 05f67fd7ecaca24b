from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick import catalog
from draftpick.acceptance import Step
from draftpick.assess import relate
from draftpick.cost import Costs, Rates, costs, kv_bytes, load, pass_time, prefill_time, rates_of, step_time
from draftpick.errors import UsageError
from draftpick.models.profile import Experts, LatentAttention, ModelProfile
from draftpick.pair import Device, Head, Pair, Proposal, Setting

KNOWN = catalog.load()

DENSE = ModelProfile(
    id="a/dense",
    origin="given",
    params_text=8_000_000_000,
    num_hidden_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=100_000,
    tie_word_embeddings=True,
    dtype="bfloat16",
)
SPARSE = DENSE._replace(
    id="a/sparse", params_active=3_000_000_000, experts=Experts(num_experts=64, experts_per_token=4)
)


def pair_of(target: str, draft: str | None, engine: str, device: str, **setting: object) -> Pair:
    profile = KNOWN.profile(target)
    proposal = Proposal("draft_model", "given", KNOWN.profile(draft)) if draft else Proposal("ngram", "always")
    where = Setting(engine=KNOWN.engine(engine), device=KNOWN.device(device))._replace(**setting)  # type: ignore[arg-type]
    return Pair(profile, proposal, where, relate(profile, proposal, KNOWN))


def costs_of(target: str, draft: str | None, engine: str, device: str, **setting: object) -> Costs:
    found = costs(pair_of(target, draft, engine, device, **setting))
    assert found is not None
    return found


def rates(engine: str = "vllm", device: str = "a100", devices: int = 1) -> Rates:
    found = rates_of(KNOWN.device(device), KNOWN.engine(engine), devices, {})
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------------------- one pass


def test_a_dense_pass_reads_every_weight_once_however_many_positions() -> None:
    one = load(DENSE)
    assert one is not None
    assert one.weights(1) == one.weights(100) == 16e9


def test_an_untied_input_embedding_is_not_read() -> None:
    tied, untied = load(DENSE), load(DENSE._replace(tie_word_embeddings=False))
    assert tied is not None and untied is not None  # noqa: PT018
    assert tied.weights(1) - untied.weights(1) == pytest.approx(2 * 100_000 * 4096)


def test_one_token_of_a_sparse_model_reads_its_active_parameters() -> None:
    found = load(SPARSE)
    assert found is not None
    assert found.weights(1) == pytest.approx(2 * 3e9)
    assert found.active == pytest.approx(3e9)


def test_verification_wakes_experts_up_to_all_of_them() -> None:
    found = load(SPARSE)
    assert found is not None
    read = [found.weights(positions) for positions in (1, 2, 4, 8, 1000)]
    assert read == sorted(read)
    assert read[3] > 1.3 * read[0]
    assert read[-1] == pytest.approx(2 * 8e9, rel=1e-6)


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        pytest.param(None, 16, id="as stored"),
        pytest.param("fp16", 16, id="fp16"),
        pytest.param("q8_0", 8.5, id="q8_0"),
        pytest.param("fp8", 8, id="fp8"),
        pytest.param("q2_k", 4.8, id="two bits read no faster than four"),
    ],
)
def test_quantised_weights_are_read_by_their_bits(quantization: str | None, bits: float) -> None:
    found = load(DENSE, quantization)
    assert found is not None
    assert found.weights(1) == pytest.approx(8e9 * bits / 8)


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param({"num_hidden_layers": None}, id="layers"),
        pytest.param({"params_text": None}, id="parameters"),
        pytest.param({"dtype": None}, id="storage format"),
    ],
)
def test_what_is_not_known_of_a_model_gives_no_number(unknown: dict[str, None]) -> None:
    assert load(DENSE._replace(**unknown)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 2 * 2 * 32 * 8 * 128 * 1000, id="grouped heads"),
        pytest.param({"head_dim": None}, 2 * 2 * 32 * 8 * 128 * 1000, id="width from the hidden size"),
        pytest.param({"sliding_window": 100, "sliding_layers": 16}, 2 * 2 * 8 * 128 * 16 * 1100, id="sliding window"),
        pytest.param({"recurrent_layers": 24}, 2 * 2 * 8 * 8 * 128 * 1000, id="recurrent layers"),
        pytest.param({"latent": LatentAttention(512, 64)}, 2 * 32 * 576 * 1000, id="latent attention"),
        pytest.param({"num_key_value_heads": None}, 0, id="not known"),
    ],
)
def test_cache_bytes_of_a_thousand_tokens(changes: dict[str, object], expected: float) -> None:
    assert kv_bytes(DENSE._replace(**changes), 1000) == expected  # type: ignore[arg-type]


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 32_768))
def test_more_positions_sequences_or_context_never_cost_less(positions: int, batch: int, context: int) -> None:
    for model in (DENSE, SPARSE):
        near, far = load(model, None, context), load(model, None, context + 100)
        assert near is not None
        assert far is not None
        here = pass_time(near, rates(), positions, batch)
        assert here <= pass_time(near, rates(), positions + 1, batch)
        assert here <= pass_time(near, rates(), positions, batch + 1)
        assert here <= pass_time(far, rates(), positions, batch)


def test_eager_launches_hide_behind_reading_and_graph_launches_do_not() -> None:
    found = load(DENSE)
    assert found is not None
    eager, graph = rates("transformers"), rates("vllm")
    busy = found.weights(1) / eager.bandwidth
    assert pass_time(found, eager, 1) == pytest.approx(max(busy, 32 * eager.launch), rel=0.01)
    assert pass_time(found, graph, 1) > busy + 32 * graph.launch


def test_more_devices_read_faster_but_reduce_between_layers() -> None:
    found = load(DENSE)
    tiny = load(DENSE._replace(params_text=10_000_000, tie_word_embeddings=True, vocab_size=100))
    assert found is not None
    assert tiny is not None
    one, four = rates(), rates(devices=4)
    assert pass_time(found, four, 1) < pass_time(found, one, 1)
    assert pass_time(tiny, four, 1) > pass_time(tiny, one, 1)


# -------------------------------------------------------------------------------------------------------- whole steps


def test_a_step_is_drafting_verification_and_overhead() -> None:
    parts = Costs(10.0, 2.0, 1.0, tuple(10.0 + m for m in range(17)), 0.5, 0.0, 0.1)
    assert step_time(parts, Step(3.0, 4, 4)) == 2 + 3 * 1 + 14 + 0.5
    assert step_time(parts, Step(2.0, 1.5, 2.5)) == 2 + 1.5 * 1 + 11.5 + 0.5
    assert step_time(parts, Step(1.0, 0, 0)) == 10.0


def test_verification_beyond_the_table_goes_on_in_a_line() -> None:
    parts = Costs(10.0, 2.0, 1.0, tuple(10.0 + m for m in range(17)), 0.5, 0.0, 0.1)
    assert step_time(parts, Step(3.0, 20, 20)) == pytest.approx(2 + 19 + 30 + 0.5)


def test_the_first_verification_is_the_plain_token() -> None:
    found = costs_of("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "vllm", "h100", tensor_parallel_size=4)
    assert found.verify[0] == found.target
    assert len(found.verify) == 17
    assert found.c == pytest.approx(found.draft / found.target)


def test_a_deep_narrow_draft_costs_on_ascend_as_its_layers_do() -> None:
    """Qwen3-4B took 0.53 of Qwen3-32B's step on four 910B, though it has an eighth of the parameters."""
    where = {"tensor_parallel_size": 4}
    found = costs_of("Qwen/Qwen3-32B", "Qwen/Qwen3-4B", "vllm-ascend", "atlas-800i-a2-64g", **where)
    assert 0.3 < found.c < 0.6
    assert found.launch_bound


def test_a_launch_bound_draft_on_ascend_is_warned_of_with_what_was_measured() -> None:
    found = costs_of("Qwen/Qwen3-14B", "Qwen/Qwen3-0.6B", "vllm-ascend", "910b3")
    assert found.target == pytest.approx(0.045, rel=0.15)
    assert found.launch_bound
    note, report = found.notes
    assert "launch-bound" in note
    assert "slower" in note
    assert "60 ms, at 40 %" in report


@pytest.mark.parametrize(("engine", "device"), [("vllm", "h100"), ("llama.cpp", "h100"), ("vllm-ascend", "910b3")])
def test_gpt_oss_20b_in_front_of_120b_gains_nothing_even_if_nine_in_ten_are_accepted(engine: str, device: str) -> None:
    found = costs_of("openai/gpt-oss-120b", "openai/gpt-oss-20b", engine, device)
    for k in range(1, 9):
        step = Step((1 - 0.9 ** (k + 1)) / 0.1, k, k)
        assert step.tau * found.target / step_time(found, step) < 1.05


@pytest.mark.parametrize(
    ("target", "quantization", "engine", "device", "per_second"),
    [
        pytest.param("Qwen/Qwen2.5-7B-Instruct", "q8_0", "llama.cpp", "m4 max", 58.7, id="7B on a laptop"),
        pytest.param("Qwen/Qwen2.5-72B-Instruct", "q4_k_m", "llama.cpp", "m4 max", 9.36, id="72B on a laptop"),
        pytest.param("Qwen/Qwen2.5-Coder-14B-Instruct", "q4_k_m", "llama.cpp", "rtx 5060 ti", 42.2, id="14B on a GPU"),
        pytest.param("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", None, "transformers", "a100", 12.9, id="70B eager"),
        pytest.param("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", None, "transformers", "a100", 51.8, id="7B eager"),
    ],
)
def test_plain_speed_is_near_what_was_published(
    target: str, quantization: str | None, engine: str, device: str, per_second: float
) -> None:
    found = costs_of(target, None, engine, device, quantization=quantization)
    assert 1 / found.target == pytest.approx(per_second, rel=0.3)


def test_a_draft_with_another_tokenizer_pays_for_translation() -> None:
    same = costs_of("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "transformers", "a100")
    other = costs_of("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B-Instruct", "transformers", "a100")
    assert other.overhead > same.overhead + 0.001
    assert any("another tokenizer" in note for note in other.notes)


def test_a_drafts_prefill_delays_the_first_token_more_for_longer_prompts() -> None:
    pair = pair_of("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "vllm", "h100", tensor_parallel_size=4)
    short, long = costs(pair, input_len=512), costs(pair, input_len=16_384)
    assert short is not None
    assert long is not None
    assert short.ttft_overhead is not None
    assert long.ttft_overhead is not None
    assert long.ttft_overhead > 5 * short.ttft_overhead
    whole = load(KNOWN.profile("Qwen/Qwen2.5-7B-Instruct"))
    assert whole is not None
    alone = rates(device="h100", devices=4)
    drafting = alone._replace(launch=alone.draft_launch)
    assert long.ttft_overhead == pytest.approx(prefill_time(whole, drafting, 16_384), rel=0.01)


def test_drafting_without_a_model_costs_no_passes() -> None:
    found = costs_of("Qwen/Qwen2.5-7B-Instruct", None, "vllm", "a100")
    assert (found.draft, found.draft_first, found.c, found.ttft_overhead) == (0, 0, 0, 0)


def test_without_a_bandwidth_there_is_no_prediction_unless_one_is_given() -> None:
    pair = pair_of("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "vllm", "a100")
    unknown = Device("x", "X", "x")
    assert costs(pair, device=unknown) is None
    assert costs(pair._replace(setting=pair.setting._replace(bandwidth=1e12)), device=unknown) is not None


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"context": 0}], ids=str)
def test_impossible_settings_are_refused_with_the_range(wrong: dict[str, int]) -> None:
    pair = pair_of("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "vllm", "a100")
    with pytest.raises(UsageError) as caught:
        costs(pair, **wrong)  # type: ignore[arg-type]
    assert "at least 1" in str(caught.value.hint)


COMMON_NAMES = (
    "a100 · a100 40 · m4 max · m4 pro · m3 pro · apple m4 · apple m1 · rtx 5060 ti · rtx 4090 · rtx 3090 · "
    "rtx 3060 12 · gtx 1080 ti · core i7-8700 · rtx a6000 · g5.12xlarge"
)


@pytest.mark.parametrize("name", COMMON_NAMES.split(" · "))
def test_devices_are_found_by_their_common_names(name: str) -> None:
    assert KNOWN.device(name).bandwidth


@pytest.mark.parametrize(("method", "reads"), [("eagle3", True), ("medusa", False)])
def test_only_heads_with_a_cache_of_their_own_read_the_prompt(method: str, reads: bool) -> None:
    target = KNOWN.profile("lmsys/vicuna-7b-v1.3")
    head = Head("a/head", method, target.id, params=500_000_000, num_hidden_layers=1)
    pair = Pair(
        target, Proposal(method, "given", head=head), Setting(engine=KNOWN.engine("vllm"), device=KNOWN.device("h100"))
    )
    short, long = (costs(pair, input_len=length) for length in (1, 20_000))
    assert short is not None
    assert long is not None
    assert (short.ttft_overhead != long.ttft_overhead) is reads


def test_a_target_s_own_mtp_layer_costs_what_its_published_copy_does() -> None:
    target = KNOWN.profile("deepseek-ai/DeepSeek-V3")
    where = Setting(engine=KNOWN.engine("vllm"), device=KNOWN.device("h200"), tensor_parallel_size=8)
    own, copy = (
        costs(Pair(target, proposal, where))
        for proposal in (
            Proposal("mtp", "target"),
            Proposal("mtp", "catalogue", head=KNOWN.head("lmsys/DeepSeek-V3-NextN")),
        )
    )
    assert own == copy
