from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, draft, engine, head, head_pair, pair, says, target
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.models.profile import Experts, Lineage, ModelProfile
from draftpick.rules.figures import bits_per_weight, bytes_read, count, times
from draftpick.rules.size import ratio_score

LAW = settings(deadline=None, max_examples=60)
SPARSE = Experts(num_experts=128, experts_per_token=8)


def sized(billions: float, **changes: Any) -> ModelProfile:
    return draft(params_total=round(billions * 1e9), **changes)


@pytest.mark.parametrize(
    ("billions", "expected", "band"),
    [
        pytest.param(3.6, "warn 0.236", "low", id="1.9x"),
        pytest.param(2.33, "ok 0.501", "below-ideal", id="3.0x"),
        pytest.param(1.0, "ok", "ideal", id="7x"),
        pytest.param(0.5, "ok 0.999", "above-ideal", id="14x"),
        pytest.param(0.44, "warn 0.998", "high", id="15.9x"),
        pytest.param(0.12, "warn 0.975", "high", id="58x"),
    ],
)
def test_size_ratio(billions: float, expected: str, band: str) -> None:
    judged = pair(theirs=sized(billions))
    assert (says("size-ratio", judged), ask("size-ratio", judged).evidence["band"]) == (expected, band)


def test_size_ratio_counts_what_one_token_reads() -> None:
    sparse = target(params_total=30_000_000_000, params_active=3_000_000_000, experts=SPARSE)
    outcome = ask("size-ratio", pair(sparse, sized(1.7)))
    assert outcome.kind == "warn"
    assert outcome.evidence == {"ratio": 1.76, "bytes_ratio": 1.76, "band": "low", "basis": "active"}


def test_a_sparse_draft_keeps_all_its_experts() -> None:
    sparse = draft(params_total=26_000_000_000, params_active=1_000_000_000, experts=SPARSE)
    outcome = ask("size-ratio", pair(target(params_total=27_000_000_000), sparse))
    assert outcome.kind == "warn"
    assert "96% of the target's parameters" in outcome.message
    assert outcome.evidence["kept_ratio"] == 1.04


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (999_400_000_000_000, "999T"),
        (1e15, "1000T"),
        (1_234e12, "1234T"),
        (999_499_999, "999M"),
        (999_500_000, "1B"),
        (999_400_000, "999M"),
        (999_885_952, "1B"),
        (1_490_000_000, "1.49B"),
        (1_040_000_000_000, "1.04T"),
        (512, "512"),
    ],
)
def test_numbers_of_parameters_as_people_say_them(parameters: int, said: str) -> None:
    assert count(parameters) == said


def test_a_ratio_is_told_from_the_customary_one_in_words() -> None:
    assert "a little above the customary 5 to 10" in ask("size-ratio", pair(theirs=sized(0.6))).message
    assert "a little below the customary 5 to 10" in ask("size-ratio", pair(theirs=sized(2.0))).message


def test_size_ratio_leaves_an_untied_input_embedding_out() -> None:
    untied = draft(params_total=1_000_000_000, vocab_size=100_000, hidden_size=5_000, tie_word_embeddings=False)
    assert ask("size-ratio", pair(theirs=untied)).evidence["ratio"] == 14.0


def test_size_ratio_is_told_in_bytes_too() -> None:
    four_bits = pair(theirs=sized(3.5, quantization="awq-int4"))
    assert ask("size-ratio", four_bits).evidence["bytes_ratio"] == 8.0
    at_load = pair(theirs=sized(3.5), quantization="int8", draft_quantization="int4")
    assert ask("size-ratio", at_load).evidence["bytes_ratio"] == 4.0


@given(st.floats(15, 1e6), st.floats(15, 1e6))
@LAW
def test_a_larger_ratio_never_scores_higher_and_is_never_hopeless(one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert 0.5 <= ratio_score(large) <= ratio_score(small) <= 1


@given(st.floats(0, 5), st.floats(0, 5))
@LAW
def test_below_the_ideal_a_larger_ratio_never_scores_lower(one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert 0 <= ratio_score(small) <= ratio_score(large) <= 1


def test_a_ratio_of_57_scores_below_one_of_16() -> None:
    assert ratio_score(57) < ratio_score(16) < ratio_score(8)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param(target(), draft(), "ok", id="smaller"),
        pytest.param(draft(), target(), "reject", id="swapped"),
        pytest.param(target(), draft(params_total=7_000_000_000), "reject", id="equal"),
        pytest.param(target(), draft(params_total=None), "skip", id="not known"),
        pytest.param(target(), sized(7.0, quantization="gguf-q2_k"), "ok 0.5", id="equal in a sixth of the bits"),
        pytest.param(
            target(params_total=35_000_000_000, params_active=3_000_000_000, experts=SPARSE),
            sized(4.0),
            "reject",
            id="sparse target that reads less",
        ),
    ],
)
def test_swapped_roles(ours: ModelProfile, theirs: ModelProfile, expected: str) -> None:
    assert says("swapped-roles", pair(ours, theirs)) == expected


def test_swapped_roles_asks_whether_they_were_swapped_only_where_they_may_be() -> None:
    sparse = target(params_total=35_000_000_000, params_active=3_000_000_000, experts=SPARSE)
    assert "did you swap them?" in ask("swapped-roles", pair(draft(), target())).message
    assert "swap" not in ask("swapped-roles", pair(sparse, sized(4.0))).message


@pytest.mark.parametrize(
    ("theirs", "setting", "expected"),
    [
        pytest.param(draft(), {}, "ok", id="another model"),
        pytest.param(target(), {}, "reject", id="the target itself"),
        pytest.param(target(quantization="awq-int4"), {}, "warn 0.1", id="the same repository in other bits"),
        pytest.param(
            target(), {"quantization": "int8", "draft_quantization": "int4"}, "warn 0.1", id="other bits at load"
        ),
        pytest.param(
            target(
                id="other/Toy-2-7B-Instruct-AWQ",
                quantization="awq-int4",
                lineage=Lineage(base_model="maker/Toy-2-7B-Instruct", relation="quantized"),
            ),
            {},
            "warn 0.1",
            id="a quantised copy by its card",
        ),
        pytest.param(
            target(id="other/Toy-2-7B-Q4", quantization="gguf-q4_k_m"),
            {},
            "warn 0.1 unsure",
            id="a quantised copy by its shape",
        ),
    ],
)
def test_self_draft(theirs: ModelProfile, setting: dict[str, Any], expected: str) -> None:
    assert says("self-draft", pair(theirs=theirs, **setting)) == expected


def test_a_copy_known_by_its_shape_alone_is_uncertain() -> None:
    outcome = ask("self-draft", pair(theirs=target(id="other/Toy-2-7B-Q4", quantization="gguf-q4_k_m")))
    assert not outcome.certain
    assert outcome.evidence["bytes_ratio"] == 3.56


@pytest.mark.parametrize(
    ("billions", "expected"),
    [
        pytest.param(1.7, "warn 0.44", id="1.7B"),
        pytest.param(2.99, "warn 0.698", id="just below"),
        pytest.param(3.0, "ok", id="at the limit"),
        pytest.param(None, "skip", id="not known"),
    ],
)
def test_target_size(billions: float | None, expected: str) -> None:
    total = None if billions is None else round(billions * 1e9)
    assert says("target-size", pair(target(params_total=total))) == expected


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        pytest.param(8, "ok", id="a quarter"),
        pytest.param(16, "ok 0.7", id="half"),
        pytest.param(17, "warn 0.663", id="more than half"),
        pytest.param(40, "warn 0.1", id="deeper than the target"),
        pytest.param(None, "skip", id="not known"),
    ],
)
def test_depth(layers: int | None, expected: str) -> None:
    assert says("depth", pair(theirs=draft(num_hidden_layers=layers))) == expected


@given(st.integers(1, 200), st.integers(1, 200))
@LAW
def test_a_deeper_draft_never_scores_higher(one: int, other: int) -> None:
    shallow, deep = (ask("depth", pair(theirs=draft(num_hidden_layers=n))).score for n in sorted((one, other)))
    assert 0 < deep <= shallow <= 1


@pytest.mark.parametrize(
    ("experts", "k", "expected", "too_many"),
    [
        pytest.param(None, None, "n/a", None, id="dense"),
        pytest.param(SPARSE, None, "warn 0.7", False, id="no length asked for"),
        pytest.param(SPARSE, 4, "warn 0.7", False, id="four tokens"),
        pytest.param(SPARSE, 5, "warn 0.2", True, id="five tokens"),
    ],
)
def test_moe_verify(experts: Experts | None, k: int | None, expected: str, too_many: bool | None) -> None:
    judged = bare_pair("ngram", target(experts=experts), num_spec_tokens=k)
    assert says("moe-verify", judged) == expected
    assert ask("moe-verify", judged).evidence.get("too_many") is too_many


def test_moe_verify_counts_the_experts_of_even_routing() -> None:
    evidence = ask("moe-verify", bare_pair("ngram", target(experts=SPARSE), num_spec_tokens=7)).evidence
    assert evidence["experts_read"] == pytest.approx(52, abs=1)


CAPPED = engine(limits={"max_num_spec_tokens": 14}, methods={"draft_model": {}})
MTP = target(num_nextn_predict_layers=2)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "n/a", id="not asked for"),
        pytest.param(pair(num_spec_tokens=5), "ok", id="customary"),
        pytest.param(pair(num_spec_tokens=9), "warn 0.4", id="long"),
        pytest.param(pair(num_spec_tokens=15, engine=CAPPED), "warn 0.1", id="more than the engine takes"),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=2), "ok", id="mtp: as many as layers"),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=1), "ok", id="mtp: fewer than layers"),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=3), "warn 0.2", id="mtp: no multiple"),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=4), "warn 0.7", id="mtp: layers used again"),
        pytest.param(bare_pair("mtp", target(), num_spec_tokens=4), "skip", id="mtp: layers not known"),
        pytest.param(
            head_pair(published=head(num_spec_tokens=3), num_spec_tokens=4), "warn 0.4", id="past a head's training"
        ),
        pytest.param(head_pair(published=head(num_spec_tokens=3), num_spec_tokens=3), "ok", id="a head's own length"),
    ],
)
def test_draft_length(judged: Any, expected: str) -> None:
    assert says("draft-length", judged) == expected


def test_a_length_that_does_not_divide_says_multiple() -> None:
    outcome = ask("draft-length", bare_pair("mtp", MTP, num_spec_tokens=3))
    assert "no multiple of 2" in outcome.message
    assert outcome.evidence["divisible"] is False


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ("gguf-iq1_s", 1.8), ("gguf-iq2_xs", 2.4), ("gguf-q2_k", 2.6), ("gguf-iq3_m", 3.4), ("gguf-q3_k_m", 3.4),
        ("gguf-iq4_nl", 4.3), ("gguf-q4_k_m", 4.5), ("gguf-q5_k_m", 5.5), ("gguf-q6_k", 6.6), ("gguf-q8_0", 8.5),
        ("gptq-int4", 4.0), ("bnb-4bit", 4.0), ("mxfp4", 4.0), ("NVFP4", 4.0), ("w4a16", 4.0), ("gptq-int8", 8.0),
        ("bnb-8bit", 8.0), ("fp8", 8.0), ("w8a8", 8.0), ("float8-e4m3", 8.0), ("awq", 4.0), ("gptq", 4.0),
        ("bitnet-1.58", 2.0), ("gguf-f16", 16.0), ("odd", None),
    ],
)  # fmt: skip
def test_bits_of_a_stored_weight(quantization: str, bits: float | None) -> None:
    assert bits_per_weight(quantization, "float32") == bits


@pytest.mark.parametrize(
    ("dtype", "bits"), [("bfloat16", 16.0), ("float16", 16.0), ("float32", 32.0), ("odd", None), (None, None)]
)
def test_bits_of_a_weight_that_is_not_quantised(dtype: str | None, bits: float | None) -> None:
    assert bits_per_weight(None, dtype) == bits


def test_bytes_are_read_in_the_format_asked_for() -> None:
    model = draft(params_total=1000, quantization="int8")
    assert [bytes_read(model, asked) for asked in (None, "int4", "odd")] == [1000, 500, None]
    assert bytes_read(draft(params_total=None)) is None


@pytest.mark.parametrize(
    ("ratio", "said"), [(0.857, "0.86"), (0.999, "1.00"), (1.0, "1.0"), (9.94, "9.9"), (10.0, "10"), (57.4, "57")]
)
def test_ratios_as_people_say_them(ratio: float, said: str) -> None:
    assert times(ratio) == said


@pytest.mark.parametrize(
    ("ratio", "score"),
    [
        (0.5, 0.0), (1.0, 0.0), (1.5, 0.125), (2.0, 0.25), (2.999, 0.49975), (3.0, 0.5), (4.0, 0.75), (5.0, 1.0),
        (10.0, 1.0), (15.0, 0.9987), (30.0, 0.9903), (100.0, 0.9576), (1e6, 0.5),
    ],
)  # fmt: skip
def test_the_score_of_a_ratio(ratio: float, score: float) -> None:
    assert ratio_score(ratio) == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize(
    ("ratio", "band"),
    [
        (2.999, "low"), (3, "below-ideal"), (4.999, "below-ideal"), (5, "ideal"), (10, "ideal"),
        (10.001, "above-ideal"),         (15, "above-ideal"), (15.001, "high"),
    ],
)  # fmt: skip
def test_bands_of_a_ratio(ratio: float, band: str) -> None:
    judged = pair(target(params_total=round(ratio * 1e9)))
    assert ask("size-ratio", judged).evidence["band"] == band


@pytest.mark.parametrize(
    ("kept", "active", "expected"),
    [
        pytest.param(26.0, 1.0, "warn 0.1", id="nearly all of the target's"),
        pytest.param(13.5, 1.0, "warn 0.25", id="half of the target's"),
        pytest.param(9.0, 1.0, "warn 0.992", id="a third: the bytes that are read decide"),
        pytest.param(26.0, 13.5, "warn 0.25", id="reads much as well"),
    ],
)
def test_what_a_sparse_draft_keeps(kept: float, active: float, expected: str) -> None:
    sparse = draft(params_total=round(kept * 1e9), params_active=round(active * 1e9), experts=SPARSE)
    assert says("size-ratio", pair(target(params_total=27_000_000_000), sparse)) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "setting", "expected"),
    [
        pytest.param(target(), target(), {}, "n/a", id="one model"),
        pytest.param(
            target(),
            target(id="x/Toy-2-Copy", quantization="int8"),
            {},
            "ok 0.5",
            id="one model by its shape, in half the bytes",
        ),
        pytest.param(target(), target(id="x/Toy-2-Copy"), {}, "n/a", id="one model by its shape"),
        pytest.param(target(), sized(10.7), {"draft_quantization": "int8"}, "reject", id="three quarters of the bytes"),
        pytest.param(target(), target(id="x/Toy-2-Copy", vocab_size=9), {}, "reject", id="another shape"),
        pytest.param(target(), target(id="x/Toy-2-Copy", vocab_size=None), {}, "reject", id="a shape half known"),
        pytest.param(target(), target(id="x/Toy-2-Copy", generation="3"), {}, "reject", id="another generation"),
        pytest.param(target(), target(id="x/Else-2-Copy"), {}, "reject", id="another name"),
        pytest.param(target(), target(id="x/Toy-2-Copy", variant="base"), {}, "reject", id="another variant"),
        pytest.param(target(), sized(7.0), {"draft_quantization": "int4"}, "ok 0.5", id="a quarter of the bytes"),
        pytest.param(target(), sized(7.1), {"draft_quantization": "int8"}, "ok 0.5", id="half of the bytes"),
    ],
)
def test_models_of_one_size(ours: ModelProfile, theirs: ModelProfile, setting: dict[str, Any], expected: str) -> None:
    assert says("swapped-roles", pair(ours, theirs, **setting)) == expected


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (1, "ok"),
        (9, "ok 0.963"),
        (10, "ok 0.925"),
        (13, "ok 0.812"),
        (24, "warn 0.4"),
        (31, "warn 0.138"),
        (32, "warn 0.1"),
    ],
)
def test_the_score_of_a_depth(layers: int, expected: str) -> None:
    assert says("depth", pair(theirs=draft(num_hidden_layers=layers))) == expected


def test_layers_that_nobody_counted_say_nothing() -> None:
    assert says("depth", head_pair()) == "skip"
    assert says("depth", pair(target(num_hidden_layers=None))) == "skip"


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(num_spec_tokens=8), "ok", id="the last that is customary"),
        pytest.param(pair(num_spec_tokens=14, engine=CAPPED), "warn 0.4", id="as many as the engine takes"),
        pytest.param(
            pair(num_spec_tokens=3, engine=engine(methods={"draft_model": {"max_num_spec_tokens": 2}})),
            "warn 0.1",
            id="more than the method takes",
        ),
        pytest.param(
            pair(num_spec_tokens=3, engine=engine(methods={"eagle3": {"max_num_spec_tokens": 2}})),
            "ok",
            id="another method's limit",
        ),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=6), "warn 0.7", id="mtp: three times each"),
        pytest.param(bare_pair("mtp", MTP, num_spec_tokens=8), "warn 0.4", id="mtp: four times each"),
        pytest.param(
            head_pair(published=head(method="mtp", num_hidden_layers=2), num_spec_tokens=2),
            "ok",
            id="mtp: a head's layers",
        ),
    ],
)
def test_draft_lengths_at_their_limits(judged: Any, expected: str) -> None:
    assert says("draft-length", judged) == expected


@pytest.mark.parametrize(
    ("experts", "k", "read", "factor"), [(SPARSE, 1, 15.5, 1.94), (SPARSE, 3, 29.1, 3.64), (Experts(8, 8), 4, 8.0, 1.0)]
)
def test_the_experts_that_a_verification_reads(experts: Experts, k: int, read: float, factor: float) -> None:
    evidence = ask("moe-verify", bare_pair("ngram", target(experts=experts), num_spec_tokens=k)).evidence
    assert (evidence["k"], evidence["experts_read"], evidence["factor"]) == (k, read, factor)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [("int8", None, "warn 0.1"), (None, "int8", "warn 0.1"), ("int8", "int8", "reject"), (None, None, "reject")],
)
def test_the_same_repository_in_its_own_formats(ours: str | None, theirs: str | None, expected: str) -> None:
    stored = pair(target(quantization=ours), target(quantization=theirs))
    assert says("self-draft", stored) == expected
    asked = pair(target(), target(), quantization=ours, draft_quantization=theirs)
    assert says("self-draft", asked) == expected
