from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick import catalog
from draftpick.acceptance import (
    ESTRANGED,
    Drafting,
    basis,
    bits_of,
    bridged,
    drafting_of,
    estrangement,
    expected_step,
    features,
    fitted,
    logistic,
    met_rate,
    own_logit,
    prior,
    translates,
)
from draftpick.assess import relate
from draftpick.choices import PRIORS
from draftpick.errors import UsageError
from draftpick.models.profile import Lineage, ModelProfile
from draftpick.models.tokenizer import Fingerprint, Relation, RelationKind
from draftpick.pair import Pair, Proposal, Setting

KNOWN = catalog.load()
TARGET, DRAFT = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
PLAIN = {"rate": {"belief": 0.8, "insight": 0.6}}
RATES = st.floats(0.01, 0.99)


def pair_of(target: str, draft: str, engine: str = "vllm", **setting: object) -> Pair:
    profile, proposal = KNOWN.profile(target), Proposal("draft_model", "given", KNOWN.profile(draft))
    where = Setting(engine=KNOWN.engine(engine))._replace(**setting)  # type: ignore[arg-type]
    return Pair(profile, proposal, where, relate(profile, proposal, KNOWN))


def rate(pair: Pair, workload: str | None = None, temperature: float | None = None) -> float:
    found = prior(pair, workload, temperature)
    assert found is not None
    return found.rate


# ------------------------------------------------------------------------------------------------------ the estimator


def test_a_prediction_is_an_interval_with_its_source_and_rows() -> None:
    found = prior(pair_of(TARGET, DRAFT))
    assert found is not None
    assert 0 < found.low < found.rate < found.high < 1
    assert found.level == 0.80
    told = basis(pair_of(TARGET, DRAFT))
    assert "published rows" in told.sentence
    assert told.rows
    assert all(row in told.sentence for row in told.rows)
    assert found.log_error is not None
    assert found.log_error[0] < 0 < found.log_error[1]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(("Qwen/Qwen2.5-7B-Instruct",), (DRAFT,), id="a larger draft"),
        pytest.param((DRAFT, "code"), (DRAFT, "chat"), id="code over chat"),
        pytest.param((DRAFT, None, 0.0), (DRAFT, None, 1.0), id="greedy over sampled, greedy draft"),
        pytest.param((DRAFT, "summarization"), (DRAFT, "translation"), id="an answer that quotes"),
    ],
)
def test_what_raises_the_rate(better: tuple[str, ...], worse: tuple[str, ...]) -> None:
    assert rate(pair_of(TARGET, *better[:1]), *better[1:]) > rate(pair_of(TARGET, *worse[:1]), *worse[1:])  # type: ignore[arg-type]


def test_coarse_quantisation_of_the_draft_costs_acceptance_and_fine_hardly() -> None:
    plain, eight, two = (rate(pair_of(TARGET, DRAFT, draft_quantization=name)) for name in (None, "q8_0", "q2_k"))
    assert two < eight < plain
    assert plain - eight < 0.01 < plain - two


@pytest.mark.parametrize(
    ("target", "draft", "expected"),
    [
        pytest.param("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", set(), id="same family"),
        pytest.param(
            "meta-llama/Llama-3.1-8B",
            "Qwen/Qwen2.5-0.5B-Instruct",
            {"other tokenizer", "other origin", "other tuning"},
            id="nothing in common",
        ),
        pytest.param(
            "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B-Base", {"other tuning", "other thinking mode"}, id="a base draft"
        ),
        pytest.param(
            "Qwen/Qwen3-32B",
            "Qwen/Qwen2.5-0.5B-Instruct",
            {"other generation", "other thinking mode"},
            id="an older one",
        ),
        pytest.param(TARGET, "Qwen/Qwen2.5-Coder-7B-Instruct", {"other subject", "other origin"}, id="a coder"),
        pytest.param("lmsys/vicuna-7b-v1.3", "double7/vicuna-68m", set(), id="tuned on the same answers"),
        pytest.param("meta-llama/Llama-2-7b-hf", "TinyLlama/TinyLlama_v1.1", {"other origin"}, id="same ids only"),
        pytest.param(
            "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
            "meta-llama/Llama-3.1-8B",
            {"other origin", "other tuning", "other thinking mode", "changed target"},
            id="tuned since",
        ),
    ],
)
def test_what_parts_a_draft_from_its_target(target: str, draft: str, expected: set[str]) -> None:
    assert {name for name, far in estrangement(pair_of(target, draft)).items() if far > 0.15} == expected


@given(own=RATES, far=st.dictionaries(st.sampled_from(sorted(ESTRANGED)), st.floats(0, 1)))
def test_a_parted_draft_meets_less_and_never_less_than_what_anybody_guesses(own: float, far: dict[str, float]) -> None:
    coefficients = fitted()["rate"]
    met = met_rate(own, far, coefficients)
    assert min(own, coefficients["easy"]) <= met <= own
    assert met_rate(own, {}, coefficients) == pytest.approx(own)


def test_a_draft_made_for_its_target_is_expected_to_meet_more() -> None:
    target = KNOWN.profile("Qwen/Qwen3-32B")
    draft = KNOWN.profile("Qwen/Qwen3-0.6B")
    plain = pair_of("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")
    made = plain._replace(proposal=Proposal("draft_model", "given", draft._replace(made_for=(target.id,))))
    assert rate(made) > rate(plain)


def test_a_model_of_unknown_size_gets_no_number() -> None:
    pair = pair_of(TARGET, DRAFT)
    hidden = pair.target._replace(params_text=None, params_total=None)
    assert prior(pair._replace(target=hidden)) is None


def test_tokenizers_that_nobody_compared_widen_the_interval() -> None:
    pair = pair_of(TARGET, DRAFT)
    sure, unsure = prior(pair), prior(pair._replace(relation=None))
    assert sure is not None
    assert unsure is not None
    assert unsure.high - unsure.low > sure.high - sure.low


def test_translated_drafts_have_the_wider_interval_that_published_ones_showed() -> None:
    same = prior(pair_of(TARGET, DRAFT))
    other = prior(pair_of("meta-llama/Llama-3.3-70B-Instruct", DRAFT, "transformers"))
    assert same is not None
    assert same.log_error is not None
    assert other is not None
    assert other.log_error == pytest.approx(tuple(PRIORS["translated"] * error for error in same.log_error))
    assert prior(pair_of("meta-llama/Llama-3.3-70B-Instruct", DRAFT, "vllm")) is None


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "medusa", "dflash", "ngram", "suffix"])
def test_published_methods_have_the_rate_that_was_fitted(method: str) -> None:
    row, fades = fitted()["methods"][method]["any"], fitted()["fades"].get(method, {})
    found = prior(Pair(KNOWN.profile(TARGET), Proposal(method, "catalogue"), Setting()))
    assert found is not None
    assert (found.rate, found.low, found.high) == (row["rate"], row["low"], row["high"])
    assert found.fade == fades.get("fade", 1.0)
    assert found.longest == (None if method == "mtp" else fades.get("longest", row["num_spec_tokens"]))


@pytest.mark.parametrize(
    ("target", "counted"),
    [
        ("deepseek-ai/DeepSeek-V3", {2: 2.18, 3: 2.44}),
        ("deepseek-ai/DeepSeek-V4-Pro", {1: 1.79, 2: 2.27, 3: 2.49}),
        ("zai-org/GLM-4.6", {3: 2.024}),
        ("zai-org/GLM-5.2", {1: 1.84, 2: 2.50, 3: 2.99, 8: 4.06}),
        ("Qwen/Qwen3.5-397B-A17B", {1: 1.92, 2: 2.70, 3: 3.33, 8: 4.71}),
    ],
)
def test_mtp_layers_that_are_used_again_accept_as_was_counted(target: str, counted: Mapping[int, float]) -> None:
    found = prior(Pair(KNOWN.profile(target), Proposal("mtp", "target"), Setting()))
    assert found is not None
    assert found.longest == 8
    for k, length in counted.items():
        low, high = (expected_step(rate, Drafting(k, fade=found.fade)).tau for rate in (found.low, found.high))
        assert low < length < high


def test_mtp_layers_of_which_nobody_published_more_have_no_length() -> None:
    found = prior(Pair(KNOWN.profile("XiaomiMiMo/MiMo-V2-Flash"), Proposal("mtp", "target"), Setting()))
    assert found is not None
    assert found.longest is None
    assert 0.9 < found.fade < 1


def test_a_method_nobody_published_gets_no_number() -> None:
    assert prior(Pair(KNOWN.profile(TARGET), Proposal("mlp_speculator", "catalogue"), Setting())) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("poetry", None), "code", id="workload"),
        pytest.param((None, -0.1), "0 to 10", id="negative temperature"),
        pytest.param((None, math.nan), "0 to 10", id="no number"),
    ],
)
def test_impossible_requests_are_refused_with_the_range(arguments: tuple[str | None, float | None], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        prior(pair_of(TARGET, DRAFT), *arguments)
    assert said in str(caught.value.hint)


# ---------------------------------------------------------------------------------------------- how far engines draft


@given(RATES, st.integers(1, 16))
def test_a_fixed_length_follows_the_closed_form(rate: float, k: int) -> None:
    step = expected_step(rate, Drafting(k))
    assert step.tau == pytest.approx(sum(rate**j for j in range(k + 1)))
    assert step.drafted == step.passes == k


@given(RATES, st.integers(1, 16), st.floats(0.05, 0.95), st.booleans(), st.booleans(), st.floats(0, 1))
def test_a_confidence_stop_drafts_and_accepts_no_more_than_it_could(
    rate: float, k: int, threshold: float, keeps: bool, samples: bool, temperature: float
) -> None:
    step = expected_step(rate, Drafting(k, "confidence", threshold, keeps, samples), temperature, model=PLAIN)
    assert 1 <= step.tau <= step.drafted + 1 + 1e-9
    assert step.drafted <= step.passes + 1e-9 <= k + 2e-9
    assert step.tau <= sum(rate**j for j in range(k + 1)) + 1e-9


@given(RATES, RATES, st.floats(0.05, 0.95))
def test_a_better_draft_emits_more_under_a_confidence_stop(one: float, other: float, threshold: float) -> None:
    drafting = Drafting(16, "confidence", threshold)
    low, high = (expected_step(rate, drafting, model=PLAIN).tau for rate in sorted((one, other)))
    assert low <= high + 1e-9


def test_a_stricter_stop_drafts_less_and_wastes_less() -> None:
    loose, strict = (
        expected_step(0.7, Drafting(16, "confidence", threshold, False), model=PLAIN) for threshold in (0.4, 0.9)
    )
    assert strict.drafted < loose.drafted
    assert (strict.tau - 1) / strict.drafted > (loose.tau - 1) / loose.drafted


def test_an_estranged_draft_is_as_sure_of_itself_and_wastes_more() -> None:
    drafting = Drafting(20, "confidence", 0.4)
    alone = expected_step(0.5, drafting, own_rate=0.5, model=PLAIN)
    estranged = expected_step(0.5, drafting, own_rate=0.8, model=PLAIN)
    assert estranged.drafted > alone.drafted


def test_a_sampled_draft_stops_earlier() -> None:
    drafting = Drafting(20, "confidence", 0.4, samples=True)
    assert (
        expected_step(0.7, drafting, 1.0, model=PLAIN).drafted < expected_step(0.7, drafting, 0.0, model=PLAIN).drafted
    )


def test_the_heuristic_schedule_settles_where_full_hits_are_one_in_three() -> None:
    step = expected_step(0.7, Drafting(5, "heuristic"))
    assert 0.7**step.drafted == pytest.approx(1 / 3)


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("stop", ["fixed", "heuristic", "confidence"])
def test_certain_miss_and_certain_hit(rate: float, stop: str) -> None:
    step = expected_step(rate, Drafting(8, stop, 0.5), model=PLAIN)
    assert step.tau == (1.0 if rate == 0 else step.drafted + 1)


@pytest.mark.parametrize("rate", [-0.1, 1.2, math.nan])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(UsageError):
        expected_step(rate, Drafting(3))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        pytest.param("vllm", Drafting(3), id="fixed"),
        pytest.param("transformers", Drafting(20, "confidence", 0.4, True, True), id="stops when unsure"),
        pytest.param("llama.cpp", Drafting(3, keeps=False), id="llama.cpp now"),
        pytest.param("llama.cpp@b8000", Drafting(16, "confidence", 0.75, False), id="llama.cpp before mid-2026"),
    ],
)
def test_engines_draft_as_shipped(engine: str, expected: Drafting) -> None:
    assert drafting_of(KNOWN.engine(engine)) == expected


def test_a_length_that_is_asked_for_wins() -> None:
    assert drafting_of(KNOWN.engine("transformers"), 5).num_spec_tokens == 5


# ------------------------------------------------------------------------------------------------- by their definition


def sure_by_definition(rate: float, own_rate: float, drafting: Drafting, temperature: float) -> tuple[float, float]:
    """Chances that a token is sure, and that a sure one is accepted, over a fine grid of top probabilities."""
    believed = own_rate ** PLAIN["rate"]["belief"]
    certain = believed**1.5
    mean = (believed - certain) / (1 - certain)
    tops = [((place + 0.5) / 50_000) ** ((1 - mean) / mean) for place in range(50_000)]
    greedy = sum(top > drafting.threshold for top in tops) / 50_000
    sampled = sum(top for top in tops if top > drafting.threshold) / 50_000
    heat = min(temperature, 1.0) if drafting.samples else 0.0
    sure = certain + (1 - certain) * (greedy + heat * (sampled - greedy))
    return sure, rate + PLAIN["rate"]["insight"] * (min(1.0, rate / sure) - rate)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("rate", "own_rate", "k", "threshold", "samples", "temperature"),
    [
        pytest.param(0.7, 0.7, 1, 0.4, False, 0.0, id="one token"),
        pytest.param(0.7, 0.7, 5, 0.4, False, 1.0, id="greedy, whatever the temperature"),
        pytest.param(0.3, 0.7, 5, 0.4, False, 0.0, id="sure of itself and wrong"),
        pytest.param(0.7, 0.7, 5, 0.4, True, 0.5, id="sampled at half the temperature"),
        pytest.param(0.7, 0.7, 5, 0.4, True, 1.0, id="sampled"),
        pytest.param(0.7, 0.7, 5, 0.4, True, 2.0, id="hotter than one counts as one"),
        pytest.param(0.6, 0.4, 12, 0.9, True, 1.0, id="strict"),
    ],
)
def test_a_confidence_stop_by_its_definition(
    keeps: bool, rate: float, own_rate: float, k: int, threshold: float, samples: bool, temperature: float
) -> None:
    drafting = Drafting(k, "confidence", threshold, keeps, samples)
    sure, hits = sure_by_definition(rate, own_rate, drafting, temperature)
    tau, drafted, passes = 1.0, 0.0, 0.0
    for place in range(k):
        passes += sure**place
        drafted += sure**place if keeps else sure ** (place + 1)
        tau += (sure * hits) ** place * (rate if keeps else sure * hits)
    step = expected_step(rate, drafting, temperature, own_rate=own_rate, model=PLAIN)
    assert step == pytest.approx((tau, drafted, passes), rel=2e-4)
    if own_rate == rate:
        assert step == expected_step(rate, drafting, temperature, model=PLAIN)


@pytest.mark.parametrize(
    ("rate", "drafted"),
    [
        pytest.param(0.7, math.log(3) / -math.log(0.7), id="where full hits are one in three"),
        pytest.param(0.2, 1.0, id="never fewer than one"),
        pytest.param(0.99, 30.0, id="never more than it grows to"),
        pytest.param(0.0, 1.0, id="never right"),
        pytest.param(1.0, 5.0, id="always right"),
    ],
)
def test_where_the_heuristic_settles(rate: float, drafted: float) -> None:
    step = expected_step(rate, Drafting(5, "heuristic"))
    length = (1 - rate ** (drafted + 1)) / (1 - rate) if rate < 1 else drafted + 1
    assert step == pytest.approx((length, drafted, drafted))


@pytest.mark.parametrize(("rate", "fade", "k"), [(0.6, 0.9, 1), (0.6, 0.9, 4), (1.0, 0.5, 3), (0.0, 0.5, 3)])
def test_rates_that_fade_within_a_block(rate: float, fade: float, k: int) -> None:
    length = 1 + sum(math.prod(rate * fade**place for place in range(upto + 1)) for upto in range(k))
    assert expected_step(rate, Drafting(k, fade=fade)) == pytest.approx((length, k, k))


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_without_a_threshold_a_confidence_stop_never_stops(rate: float, k: int) -> None:
    assert expected_step(rate, Drafting(k, "confidence")) == expected_step(rate, Drafting(k))


def models(ours: dict[str, Any], theirs: dict[str, Any], engine: str = "vllm", **setting: Any) -> Pair:
    """A 40B target with a 1B draft of one family, as nobody published them."""
    common: dict[str, Any] = {"origin": "folder", "family": "Toy", "generation": "1", "dtype": "bfloat16"}
    target = ModelProfile(**{"id": "maker/Toy-40B", **common, "params_total": 40_000_000_000, **ours})
    draft = ModelProfile(**{"id": "maker/Toy-1B", **common, "params_total": 1_000_000_000, **theirs})
    relation = Relation(kind="identical", verified=True, reason="compared")
    return Pair(
        target,
        Proposal("draft_model", "given", draft),
        Setting(engine=KNOWN.engine(engine))._replace(**setting),
        relation,
    )


PLAIN_FACTS = {"constant": 1.0, "draft size": 0.0, "size ratio": math.log(4), "quantisation": 2 * 10 * 2.0**-16}


@pytest.mark.parametrize(
    ("pair", "asked", "changes"),
    [
        pytest.param(models({}, {}), (), {"other origin": 0.05}, id="as they are"),
        pytest.param(
            models({}, {"params_text": 2 * 10**9}),
            (),
            {"draft size": math.log(2), "size ratio": math.log(2)},
            id="text",
        ),
        pytest.param(
            models({"params_active": 2_500_000_000}, {}), (), {"size ratio": 0.0}, id="sparse: between all and active"
        ),
        pytest.param(
            models({"params_total": 1000}, {}), (), {"size ratio": math.log(1 / 10)}, id="never below one to one"
        ),
        pytest.param(models({"variant": "reasoning"}, {}), (), {"reasoning target": 1.0}, id="reasoning"),
        pytest.param(models({"variant": "base"}, {}), (), {"base target": 1.0}, id="base"),
        pytest.param(models({}, {}), ("code",), {"code": 1.0}, id="a workload"),
        pytest.param(
            models({}, {"variant": "coder-instruct"}),
            ("chat",),
            {"chat": 1.0, "coder on other ground": 1.0},
            id="coder",
        ),
        pytest.param(models({}, {"variant": "coder-instruct"}), ("code",), {"code": 1.0}, id="coder for code"),
        pytest.param(models({}, {"variant": "coder-instruct"}), ("math",), {"math": 1.0}, id="coder for mathematics"),
        pytest.param(models({}, {"variant": "coder-instruct"}), (), {}, id="coder, not known for what"),
        pytest.param(models({}, {}), (None, 0.7), {"temperature, greedy draft": 0.7}, id="temperature"),
        pytest.param(
            models({}, {}), (None, 9.0), {"temperature, greedy draft": 1.5}, id="hotter than anything published"
        ),
        pytest.param(
            models({}, {}, "transformers"), (None, 0.7), {"temperature, sampled draft": 0.7}, id="a draft that samples"
        ),
        pytest.param(
            models({}, {}, quantization="int4"),
            (),
            {"quantisation": 10 * (2.0**-4 + 2.0**-16)},
            id="asked of the target",
        ),
        pytest.param(
            models({}, {"quantization": "gguf-q8_0"}),
            (),
            {"quantisation": 10 * (2.0**-8.5 + 2.0**-16)},
            id="a stored copy",
        ),
        pytest.param(models({"dtype": None}, {"dtype": None}), (), {"quantisation": 0.0}, id="formats not known"),
        pytest.param(
            models({}, {"made_for": ("maker/Toy-40B",)}),
            (),
            {"made for the target": 1.0, "made for others": None},
            id="for it",
        ),
        pytest.param(
            models({"lineage": Lineage(base_model="maker/T", relation="quantized")}, {"made_for": ("maker/T",)}),
            (),
            {"made for the target": 1.0},
            id="for what it is a copy of",
        ),
        pytest.param(
            models({"lineage": Lineage(base_model="maker/T", relation="finetune")}, {"made_for": ("maker/T",)}),
            (),
            {"made for the target": None, "made for others": None},
            id="for what it was tuned from",
        ),
        pytest.param(models({}, {"made_for": ("x/y",)}), (), {"made for others": 1.0}, id="for another"),
        pytest.param(
            models({}, {"generation": "2.5"}), (), {"other generation": 1.5, "other origin": None}, id="older"
        ),
        pytest.param(
            models({}, {"generation": "9"}), (), {"other generation": 3, "other origin": None}, id="much older"
        ),
    ],
)
def test_the_facts_that_are_weighed(pair: Pair, asked: tuple[Any, ...], changes: dict[str, float | None]) -> None:
    found = features(pair, *asked)
    assert found is not None
    weighed = {name: value for name, value in found.items() if name in {*PLAIN_FACTS, *changes}}
    expected = {name: value for name, value in {**PLAIN_FACTS, **changes}.items() if value is not None}
    assert weighed == pytest.approx(expected)
    told = {name for name in found if name not in {*ESTRANGED, *PLAIN_FACTS}}
    assert told <= {*changes}


@pytest.mark.parametrize("missing", [{"params_total": None}, {"params_total": 0}])
def test_without_a_size_nothing_is_weighed(missing: dict[str, Any]) -> None:
    assert features(models(missing, {})) is None
    assert features(models({}, missing)) is None


def logit(rate: float) -> float:
    return math.log(rate / (1 - rate))


def test_the_prior_is_the_line_with_its_interval() -> None:
    pair = models({}, {"lineage": Lineage(data="the same")})._replace()
    pair = pair._replace(target=pair.target._replace(lineage=Lineage(data="the same")))
    facts, known = features(pair, "code", 0.5), fitted()
    assert facts is not None
    assert not ESTRANGED & {*facts}
    found, unsure = prior(pair, "code", 0.5), prior(pair._replace(relation=None), "code", 0.5)
    assert found is not None
    assert unsure is not None
    line = sum(known["rate"].get(name, 0.0) * value for name, value in facts.items())
    half = NormalDist().inv_cdf(0.9) * known["spread"]["rate"]
    assert [logit(one) for one in found[:3]] == pytest.approx([line, line - half, line + half], abs=1e-4)
    assert [logit(one) for one in unsure[:3]] == pytest.approx([line, line - 1.5 * half, line + 1.5 * half], abs=1e-4)
    assert found.own_rate == found.rate
    assert found.log_error == tuple(known["spread"]["speedup"])
    assert unsure.log_error == tuple(1.5 * bound for bound in known["spread"]["speedup"])


@pytest.mark.parametrize(
    ("method", "workload", "row"),
    [
        ("eagle3", None, "any"), ("eagle3", "code", "code"), ("eagle3", "translation", "any"),
        ("ngram", None, "any"), ("ngram", "code", "code"),
    ],
)  # fmt: skip
def test_a_published_method_has_the_rate_of_its_row(method: str, workload: str | None, row: str) -> None:
    pair = Pair(KNOWN.profile(TARGET), Proposal(method, "catalogue"), Setting())
    known = fitted()["methods"][method][row]
    found, hot = prior(pair, workload), prior(pair, workload, 9.0)
    assert found is not None
    assert hot is not None
    assert found[:3] == (known["rate"], known["low"], known["high"])
    colder = fitted()["rate"]["temperature, greedy draft"] * 1.5
    assert [logit(one) for one in hot[:3]] == pytest.approx([logit(one) + colder for one in found[:3]])
    told = basis(pair, workload)
    assert told.rows == tuple(known["ids"])
    assert (f" on {workload}: " in told.sentence) is (row != "any")
    assert f"{known['rows']} published rows of {known['sources']} sources" in told.sentence


def test_what_copies_from_the_texts_has_no_rate_of_its_own() -> None:
    pair = Pair(KNOWN.profile(TARGET), Proposal("ngram", "catalogue"), Setting())
    unpublished = {"chat", "code", "math", "translation"} - {*fitted()["methods"]["ngram"]}
    assert unpublished
    assert [prior(pair, workload) for workload in unpublished] == [None] * len(unpublished)


def test_the_nearest_rows_are_the_same_models_first() -> None:
    rows = fitted()["rows"]
    row_id, target, draft = rows[0][:3]
    told = basis(pair_of(target, draft))
    assert told.rows[0] == row_id
    assert len(told.rows) == 3
    far = models({"params_total": 10**15}, {"params_total": 10**4})
    assert basis(far).rows == ()
    assert "none of them is near" in basis(far).sentence


@pytest.mark.parametrize(
    ("quantization", "dtype", "bits"),
    [
        ("fp16", None, 16.0), ("float16", None, 16.0), ("BF16", None, 16.0), ("bfloat16", None, 16.0),
        ("none", None, 16.0), ("fp32", None, 32.0), ("F32", None, 32.0), ("float32", "bfloat16", 32.0),
        ("q8_0", None, 8.5),
        (None, "float32", 32.0), (None, None, None),
    ],
)  # fmt: skip
def test_bits_of_formats(quantization: str | None, dtype: str | None, bits: float | None) -> None:
    assert bits_of(quantization, dtype) == bits


@pytest.mark.parametrize(("value", "share"), [(0.0, 0.5), (math.log(3), 0.75), (30.0, 1.0), (1e9, 1.0), (-1e9, 0.0)])
def test_the_share_of_a_logit(value: float, share: float) -> None:
    assert logistic(value) == pytest.approx(share, abs=1e-12)
    assert 0 < logistic(value) < 1


@pytest.mark.parametrize(
    ("relation", "ours", "theirs", "translated"),
    [
        ("identical", "a", "b", False), ("different", "a", "a", True), ("extension", "a", "b", False),
        ("unknown", "a", "b", True), ("unknown", "a", "a", False), ("unknown", "a", None, False),
        (None, "a", "b", True),
    ],
)  # fmt: skip
def test_which_drafts_are_translated(relation: Any, ours: str, theirs: str | None, translated: bool) -> None:
    tokenizers = [Fingerprint(key=key, family=key) if key is not None else None for key in (ours, theirs)]
    pair = models({"tokenizer": tokenizers[0]}, {"tokenizer": tokenizers[1]})
    compared = Relation(kind=relation, verified=False, reason="r") if relation is not None else None
    assert translates(pair._replace(relation=compared)) is translated


def test_temperatures_that_can_be_asked_for() -> None:
    pair = pair_of(TARGET, DRAFT)
    assert rate(pair, None, 10.0) == rate(pair, None, 1.5) < rate(pair, None, 0.0)
    assert rate(pair._replace(setting=pair.setting._replace(temperature=1.0))) == rate(pair, None, 1.0)
    with pytest.raises(UsageError):
        prior(pair, None, 10.1)


# -------------------------------------------------------------------------------------------------------- the file


def test_the_fitted_file_says_how_and_when_it_was_made() -> None:
    found = fitted()
    assert found["fit"]["command"] == "make fit"
    assert found["fit"]["date"]
    assert found["fit"]["rows"] >= len(found["rows"])


def test_the_fitted_file_is_small_and_one_fact_a_line() -> None:
    folder = catalog.source_folder()
    assert folder is not None
    text = Path(folder / "acceptance.json").read_text(encoding="utf-8")
    assert len(text) < 40_000
    assert max(map(len, text.splitlines())) < 300
    assert json.loads(text) == fitted()


def test_a_stop_that_is_asked_for_has_no_threshold_of_its_own() -> None:
    assert drafting_of(None, stop="confidence") == Drafting(5, "confidence", 0.0)
    assert drafting_of(KNOWN.engine("transformers"), stop="fixed") == Drafting(20, "fixed", 0.0, True, True)


# ------------------------------------------------------------------------------------------------ what is not fitted


@pytest.mark.parametrize(
    ("own", "facts", "coefficients", "met"),
    [
        pytest.param(0.8, {"other tokenizer": 1.0}, {}, 0.8, id="nothing was fitted"),
        pytest.param(0.8, {"other tokenizer": 1.0, "code": 1.0}, {"code": -9.0}, 0.8, id="not a fact that parts"),
        pytest.param(
            0.8, {"other tokenizer": 2.0}, {"other tokenizer": -0.5}, 0.8 * math.exp(-1), id="nothing is easy"
        ),
        pytest.param(
            0.8,
            {"other tokenizer": 1.0},
            {"easy": 0.5, "other tokenizer": -1.0},
            0.5 + 0.3 * math.exp(-1),
            id="the rest",
        ),
        pytest.param(
            0.4, {"other tokenizer": 1.0}, {"easy": 0.5, "other tokenizer": -1.0}, 0.4, id="all of it is easy"
        ),
        pytest.param(0.8, {"other tokenizer": 1.0}, {"other tokenizer": 1.0}, 0.8, id="parting never helps"),
    ],
)
def test_what_is_left_of_a_rate(
    own: float, facts: dict[str, float], coefficients: dict[str, float], met: float
) -> None:
    assert met_rate(own, facts, coefficients) == pytest.approx(met)


def test_the_line_adds_up_what_was_fitted() -> None:
    facts = {"constant": 1.0, "code": 2.0, "chat": 5.0, "other tokenizer": 1.0}
    assert own_logit(facts, {"constant": 0.5, "code": 0.25, "other tokenizer": -7.0, "math": 3.0}) == 1.0
    assert own_logit(facts, {}) == 0.0


def only(*rates: float, k: int = 3, heat: float = -1.0) -> dict[str, Any]:
    """A fitted model with n-gram lookup alone: its rate, low and high."""
    row = dict(zip(("rate", "low", "high"), rates, strict=True)) | {"num_spec_tokens": k}
    return {"methods": {"ngram": {"any": row}}, "rate": {"temperature, greedy draft": heat}}


@pytest.mark.parametrize(
    ("rates", "heat", "expected"),
    [
        pytest.param((0.5, 0.25, 0.75), 0.0, (0.5, 0.25, 0.75), id="as published"),
        pytest.param((0.5, 0.0, 1.0), 1.0, (logistic(-1), 0.0, 1.0), id="never and always stay"),
        pytest.param((1.0, 0.5, 1.0), 1.0, (1.0, logistic(-1), 1.0), id="always"),
        pytest.param((0.0, 0.0, 0.5), 9.0, (0.0, 0.0, logistic(-1.5)), id="hotter than anything published"),
    ],
)
def test_a_published_rate_at_a_temperature(
    rates: tuple[float, float, float], heat: float, expected: tuple[float, float, float]
) -> None:
    pair = Pair(KNOWN.profile(TARGET), Proposal("ngram", "catalogue"), Setting())
    found = prior(pair, temperature=heat, model=only(*rates))
    assert found is not None
    assert found[:3] == pytest.approx(expected)
    assert found[3:] == (0.8, 3, 1.0, None, None)
    unfitted = {**only(*rates), "rate": {}}
    assert prior(pair, temperature=heat, model=unfitted) == prior(pair, temperature=0.0, model=only(*rates))


def test_the_model_that_is_given_is_the_one_that_is_asked() -> None:
    pair, known = pair_of(TARGET, DRAFT), fitted()
    bare = {"rate": {"constant": 1.0}, "spread": {"rate": 0.5, "speedup": [-0.25, 0.5]}}
    found = prior(pair, model=bare)
    assert found is not None
    assert [logit(one) for one in found[:3]] == pytest.approx([1.0, 1 - 0.5 * 1.2816, 1 + 0.5 * 1.2816])
    assert found.own_rate == found.rate
    assert found.log_error == (-0.25, 0.5)
    assert prior(pair, model=known) == prior(pair)
    drafting = Drafting(9, "confidence", 0.4)
    assert expected_step(0.7, drafting, model=known) == expected_step(0.7, drafting)
    assert expected_step(0.7, drafting, model={"rate": {}}) == expected_step(
        0.7, drafting, model={"rate": {"belief": 1.0, "insight": 0.5}}
    )


# Pairs of published models, whose nearest rows are looked for by hand.
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
NEIGHBOURS = [
    (TARGET, DRAFT), (TARGET, "Qwen/Qwen2.5-7B-Instruct"), (LLAMA, "meta-llama/Llama-3.2-1B-Instruct"),
    (LLAMA, DRAFT), ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B"),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "meta-llama/Llama-3.2-1B-Instruct"),
]  # fmt: skip


@pytest.mark.parametrize("kind", [None, "identical", "different"])
@pytest.mark.parametrize(("target", "draft"), [*NEIGHBOURS, *(row[1:3] for row in fitted()["rows"][::25])])
def test_the_nearest_rows_by_their_definition(target: str, draft: str, kind: RelationKind | None) -> None:
    """One for another target, one for another draft, two for the other kind of tokenizer, and how far the sizes are."""
    pair = pair_of(target, draft, "transformers")
    if kind is not None:
        pair = pair._replace(relation=Relation(kind=kind, verified=True, reason="as said"))
    facts = features(pair)
    assert facts is not None
    apart = sorted(
        (
            abs(ratio - facts["size ratio"])
            + abs(size - facts["draft size"])
            + (2 if bool(other) != ("other tokenizer" in facts) else 0)
            + (0 if ours == target else 1)
            + (0 if theirs == draft else 1),
            row,
        )
        for row, ours, theirs, ratio, size, other in fitted()["rows"]
    )
    assert basis(pair).rows == tuple(row for distance, row in apart[:3] if distance < 2.5)


FITTED = fitted()["fit"]


@pytest.mark.parametrize(
    ("pair", "workload", "said"),
    [
        pytest.param(models({}, {}), None, "(other origin); none of them is near this pair.", id="a fact"),
        pytest.param(models({}, {}), "code", "(other origin, code); none of them is near this pair.", id="two facts"),
        pytest.param(
            models({"family": None}, {"family": None})._replace(relation=None),
            None,
            "(tokenizer and lineage not known, taken as the same); none of them is near this pair.",
            id="nothing is known",
        ),
        pytest.param(
            models({"lineage": Lineage(data="one")}, {"lineage": Lineage(data="one")})._replace(relation=None),
            None,
            "(same lineage, tokenizer not known, taken as the same); none of them is near this pair.",
            id="ids were not compared",
        ),
        pytest.param(
            models({"lineage": Lineage(data="one")}, {"lineage": Lineage(data="one")}),
            None,
            "(same tokenizer and lineage); none of them is near this pair.",
            id="nothing parts them",
        ),
        pytest.param(
            pair_of(fitted()["rows"][0][1], fitted()["rows"][0][2]), None, "; nearest: PM0001, ", id="one was published"
        ),
    ],
)
def test_what_an_expectation_rests_on_in_words(pair: Pair, workload: str | None, said: str) -> None:
    sentence = basis(pair, workload).sentence
    assert sentence.startswith(f"A line through {FITTED['rows']} published rows of {FITTED['sources']} sources (")
    assert said in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("method", "workload", "said"),
    [
        ("eagle3", None, "eagle3"),
        ("eagle3", "code", "eagle3 on code"),
        ("eagle", None, "eagle, {share} of the rate of eagle3"),
    ],
)
def test_what_a_method_s_rate_rests_on_in_words(method: str, workload: str | None, said: str) -> None:
    pair = Pair(KNOWN.profile(TARGET), Proposal(method, "catalogue"), Setting())
    row = fitted()["methods"][method][workload or "any"]
    rests_on = f"{said}: {{rows}} published rows of {{sources}} sources, most at {{num_spec_tokens}} drafted."
    assert basis(pair, workload).sentence == rests_on.format_map(row)


@pytest.mark.parametrize(
    ("ours", "theirs", "parted"),
    [
        ("ShareGPT answers", "base, then sharegpt", False),
        ("ultrachat", "UltraChat 200k", False),
        ("OpenHermes 2.5", "openhermes", False),
        ("tulu 3", "Tulu 3 mixture", False),
        ("sharegpt", "ultrachat", True),
        ("sharegpt", None, True),
        (None, "tulu", True),
        (None, None, True),
    ],
)
def test_models_tuned_on_one_set_write_alike(ours: str | None, theirs: str | None, parted: bool) -> None:
    pair = models({"lineage": Lineage(data=ours)}, {"lineage": Lineage(data=theirs)})
    assert ("other origin" in estrangement(pair)) is parted


@pytest.mark.parametrize(
    ("setting", "asked", "expected"),
    [
        pytest.param(None, {}, Drafting(5), id="no engine"),
        pytest.param("vllm", {}, Drafting(3), id="an engine that says how far"),
        pytest.param("vllm", {"num_spec_tokens": 7}, Drafting(7), id="asked for"),
        pytest.param("vllm", {"stop": "heuristic"}, Drafting(3, "heuristic"), id="another stop"),
        pytest.param(
            "transformers", {"stop": "heuristic"}, Drafting(20, "heuristic", 0.0, True, True), id="no threshold"
        ),
    ],
)
def test_how_far_is_drafted(setting: str | None, asked: dict[str, Any], expected: Drafting) -> None:
    assert drafting_of(KNOWN.engine(setting) if setting else None, **asked) == expected


def test_a_draft_where_nobody_says_how() -> None:
    assert Drafting(3) == (3, "fixed", 0.0, True, False, 1.0)


@pytest.mark.parametrize(
    ("engine", "draft", "apart"),
    [("vllm", DRAFT, True), ("transformers", DRAFT, False), ("vllm", "meta-llama/Llama-3.2-1B-Instruct", False)],
)
def test_engines_that_draft_what_both_name(engine: str, draft: str, apart: bool) -> None:
    pair = pair_of(LLAMA, draft, engine)
    assert bridged(pair) is apart
    assert not bridged(pair._replace(setting=Setting()))
    assert (prior(pair) is None) is apart
