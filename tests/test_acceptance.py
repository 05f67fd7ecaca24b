from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick import catalog
from draftpick.acceptance import (
    ESTRANGED,
    Drafting,
    basis,
    drafting_of,
    estrangement,
    expected_step,
    fitted,
    met_rate,
    prior,
    rate_for,
)
from draftpick.assess import relate
from draftpick.errors import UsageError
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


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "medusa", "dflash", "ngram", "suffix"])
def test_published_methods_have_a_rate_that_gives_their_length(method: str) -> None:
    pair = Pair(KNOWN.profile(TARGET), Proposal(method, "catalogue"), Setting())
    found = prior(pair)
    assert found is not None
    assert found.tau is not None
    assert found.drafted is not None
    assert 1 < found.tau < found.drafted + 1
    assert found.low <= found.rate <= found.high
    assert rate_for(found.tau, found.drafted) == pytest.approx(found.rate, abs=1e-6)


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
