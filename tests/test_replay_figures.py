"""The figures of replays and walks: what bounds them, what an empty answer counts, what is taken where nobody says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from traces import answer_from_matches, looked

from draftpick import replay as rp
from draftpick.errors import UsageError
from draftpick.lookup import NgramLookup, SuffixLookup, prompt_lookup
from draftpick.replay import Acceptance, Answer, Trace
from draftpick.speedup import Interval, StepTimes
from draftpick.walks import ConfidenceStop, FixedLength, HeuristicLength, RateRule, walk

SAMPLED = Acceptance(sampled=True)
BLOCK = Acceptance(sampled=True, block=True)


def measured(prompt: str, rates: list[float], **changes: object) -> Answer:
    """An answer with every column, whose tokens are accepted with these chances, sampled or not."""
    size = len(rates)
    with np.errstate(divide="ignore"):
        log_q = np.log(np.asarray(rates, float)) - 1.0
    columns = {
        "draft_top": np.where(np.asarray(rates) >= 0.5, 0, -1),
        "draft_top_prob": np.asarray(rates, float),
        "target_prob_of_draft_top": np.asarray(rates, float),
        "log_p": np.full(size, -1.0),
        "log_q": {1.0: log_q},
        "overlap": {1.0: np.asarray(rates, float)},
        "prompt_ids": np.array([7, 8, 9]),
    }
    return Answer(prompt, np.zeros(size, np.int64), **{**columns, **changes})  # type: ignore[arg-type]


# Two prompts that could not be more unlike: no interval of theirs knows more than what can be.
UNLIKE = Trace((measured("good", [1.0] * 12), measured("bad", [0.0] * 12)), first=1)
REPLAYED = rp.replay(UNLIKE, ks=[2])[2]
WALKED = walk(UNLIKE, FixedLength(2))
TIMES = StepTimes(10, 1, 1, (10, 11, 12), 0.5)


@pytest.mark.parametrize(
    ("figure", "value", "low", "high"),
    [
        # Good: 4 blocks of 3 tokens. Bad: 11 complete blocks of 1, 12 in all.
        pytest.param(REPLAYED.mean_acceptance_length, 23 / 15, 1.0, 3.0, id="replay: mean acceptance length"),
        pytest.param(REPLAYED.visible_length, 24 / 16, 0.0, 3.0, id="replay: visible length"),
        pytest.param(REPLAYED.draft_acceptance_rate, 8 / 30, 0.0, 1.0, id="replay: accepted over drafted"),
        pytest.param(REPLAYED.conditional_rate, 8 / 19, 0.0, 1.0, id="replay: accepted over tested"),
        pytest.param(WALKED.mean_acceptance_length, 23 / 15, 1.0, math.inf, id="walk: mean acceptance length"),
        pytest.param(WALKED.visible_length, 24 / 16, 0.0, math.inf, id="walk: visible length"),
        pytest.param(WALKED.draft_acceptance_rate, 8 / 30, 0.0, 1.0, id="walk: accepted over drafted"),
        pytest.param(lambda: WALKED.speedup(TIMES), 230 / 217.5, 0.0, math.inf, id="walk: speed-up"),
        pytest.param(lambda: rp.acceptance_rate(UNLIKE), 0.5, 0.0, 1.0, id="rate"),
        pytest.param(lambda: rp.acceptance_rate(UNLIKE, SAMPLED), 0.5, 0.0, 1.0, id="rate, sampled"),
        pytest.param(lambda: rp.acceptance_rate(UNLIKE, smooth=True), 0.5, 0.0, 1.0, id="rate, smooth"),
    ],
)
def test_what_bounds_a_figure(figure: Callable[[], Interval | None], value: float, low: float, high: float) -> None:
    found = figure()
    assert found is not None
    assert (found.value, found.low, found.level) == (pytest.approx(value), low, 0.95)
    assert found.high == high if high < math.inf else found.high > found.value + 3


@pytest.mark.parametrize("rule", [rp.GREEDY_DRAFT, SAMPLED, BLOCK])
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 2])
def test_an_answer_of_hardly_anything(rule: Acceptance, first: int, size: int) -> None:
    trace = Trace((measured("long", [1.0] * 6), measured("short", [1.0] * size)), first=first)
    steps = [math.ceil((7 - first) / 3), max(size + 1 - first, 0) and 1]
    replayed, walked = rp.replay(trace, rule, [2])[2], walk(trace, FixedLength(2), rule)
    looked_up = looked(trace, NgramLookup(), 2)
    assert replayed.visible_tokens.tolist() == [7 - first, max(size + 1 - first, 0)]
    assert walked.visible_tokens.tolist() == looked_up.visible_tokens.tolist() == replayed.visible_tokens.tolist()
    assert replayed.visible_steps.tolist() == walked.visible_steps.tolist() == steps


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_a_horizon_leaves_the_blocks_that_do_not_fit(size: int) -> None:
    """The same starts for every k: those with as many tokens behind them as the largest k drafts."""
    trace = Trace((measured("p", [1.0] * size),), first=1)
    found = rp.replay(trace, ks=[0, 1, 4])
    assert {k: one.num_drafts for k, one in found.items()} == {
        0: max(size - 3, 0),
        1: (max(size - 3, 0) + 1) // 2,
        4: 1 if size >= 4 else 0,
    }


def test_the_rules_of_acceptance_by_hand() -> None:
    """q/p of 1/2, 2 and 1/4: a product of minima token by token, the running minimum of the product by block."""
    answer = measured("p", [1, 1, 1], log_q={1.0: np.log([0.5, 2.0, 0.25]) - 1.0, 0.5: np.full(3, -1.0)})
    trace = Trace((answer,), first=1)
    assert rp.survival_of(rp.log_ratios(answer, SAMPLED)[None, :], 3, block=False)[0].tolist() == [
        pytest.approx([1, 0.5, 0.5, 0.125]),
        pytest.approx([1, 1, 0.25, 0]),
        pytest.approx([1, 0.25, 0, 0]),
    ]
    assert rp.survival_of(rp.log_ratios(answer, BLOCK)[None, :], 3, block=True)[0].tolist() == [
        pytest.approx([1, 0.5, 0.5, 0.25]),
        pytest.approx([1, 1, 0.5, 0]),
        pytest.approx([1, 0.25, 0, 0]),
    ]
    assert rp.acceptance_sums(trace, SAMPLED).y.tolist() == pytest.approx([1.75])
    assert rp.acceptance_sums(trace, Acceptance(True, 0.5)).y.tolist() == pytest.approx([3.0])
    assert rp.log_ratios(measured("p", [1, 0]), rp.GREEDY_DRAFT).tolist() == [0.0, -math.inf]


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("smooth", [False, True])
def test_the_rate_counts_the_positions_that_are_drafted(first: int, smooth: bool) -> None:
    trace = Trace((measured("p", [0.0, 1.0, 1.0, 0.0]), measured("q", [1.0])), first=first)
    found = rp.acceptance_sums(trace, smooth=smooth)
    assert (found.prompts, found.strata) == (("p", "q"), ("", ""))
    assert (found.y.tolist(), found.x.tolist()) == (([2, 1], [4, 1]) if first == 1 else ([2, 0], [3, 0]))


@pytest.mark.parametrize(
    ("prompts", "tokens", "low"),
    [(8, 63, False), (8, 62, True), (7, 100, True), (9, 56, False), (20, 25, False)],
)
def test_what_is_of_low_confidence(prompts: int, tokens: int, low: bool) -> None:
    trace = Trace(tuple(answer_from_matches(str(number), [True] * tokens) for number in range(prompts)))
    assert (trace.num_prompts, trace.num_tokens, trace.low_confidence) == (prompts, prompts * tokens, low)


def test_what_is_taken_where_nobody_says() -> None:
    assert SuffixLookup() == (24, 1.0, 0.1)
    assert NgramLookup() == (5, 5, frozenset())
    assert prompt_lookup() == (1, 2, frozenset())
    assert Acceptance() == rp.GREEDY_DRAFT == (False, 1.0, False)
    assert list(rp.replay(UNLIKE)) == list(range(9))
    answer = Answer("p", np.zeros(1, np.int64))
    assert (answer.domain, answer.ended, Trace((answer,)).first) == ("", "length", 2)


@pytest.mark.parametrize("draws", [1, 3])
def test_a_walk_that_draws_adds_up_its_draws(draws: int) -> None:
    trace = Trace((measured("p", [1.0] * 6), measured("q", [0.0] * 6)), first=1)
    once, drawn = walk(trace, FixedLength(2)), walk(trace, FixedLength(2), SAMPLED, draws=draws)
    assert drawn.counts.tolist() == (once.counts * draws).tolist()
    assert drawn.visible_steps.tolist() == (once.visible_steps * draws).tolist()
    assert walk(trace, FixedLength(2), draws=draws).counts.tolist() == once.counts.tolist()


@pytest.mark.parametrize("rule", [SAMPLED, BLOCK])
def test_draws_follow_the_chances(rule: Acceptance) -> None:
    """Half of what is drafted is accepted, token by token or by the block."""
    trace = Trace((measured("p", [0.5] * 800),), first=1)
    found = walk(trace, FixedLength(1), rule, draws=5, seed=4).draft_acceptance_rate()
    expected = rp.replay(trace, rule, [1])[1].draft_acceptance_rate()
    assert found is not None
    assert expected is not None
    assert found.value == pytest.approx(expected.value, abs=0.03)
    assert expected.value == pytest.approx(0.5)


@pytest.mark.parametrize(("transient", "lengths"), [(True, [3, 3]), (False, [3, 7])])
def test_a_policy_goes_on_over_answers_or_begins_anew(transient: bool, lengths: list[int]) -> None:
    trace = Trace((measured("p", [1.0] * 9), measured("q", [0.0] * 9)), first=1)
    found = walk(trace, HeuristicLength(3, transient=transient, most=9), horizon=9)
    assert [max(kinds, default=(0, 0))[1] for kinds in found.blocks] == lengths


def test_answers_of_one_prompt_are_added_up() -> None:
    answers = [replace(measured("p", [1.0] * 4), domain="code"), measured("q", [0.0] * 4), measured("p", [0.0] * 4)]
    units = rp.units_of(Trace(tuple(answers)))
    assert (units.prompts, units.strata, units.owner.tolist()) == (("p", "q"), ("code", ""), [0, 1, 0])
    assert units.sums(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist() == [[6, 8], [3, 4]]


BARE = Trace((Answer("p", np.zeros(3, np.int64)),))


@pytest.mark.parametrize(
    ("call", "column"),
    [
        pytest.param(lambda: rp.acceptance_rate(BARE), "draft_top", id="first choice"),
        pytest.param(lambda: rp.acceptance_rate(BARE, smooth=True), "target_prob_of_draft_top", id="smooth"),
        pytest.param(lambda: rp.acceptance_rate(BARE, SAMPLED), "log_q at 1.0", id="sampled"),
        pytest.param(lambda: rp.acceptance_rate(BARE, Acceptance(True, 0.5)), "log_q at 0.5", id="sampled, cooler"),
        pytest.param(lambda: rp.acceptance_rate(BARE, SAMPLED, smooth=True), "overlap at 1.0", id="sampled, smooth"),
        pytest.param(lambda: rp.replay(Trace((measured("p", [1.0], log_p=None),)), SAMPLED), "log_p", id="target"),
        pytest.param(
            lambda: walk(Trace((measured("p", [1.0], draft_top_prob=None),)), FixedLength(1), stop=ConfidenceStop()),
            "draft_top_prob",
            id="a stop",
        ),
        pytest.param(lambda: looked(BARE, NgramLookup(), 1), "prompt_ids", id="a look-up"),
    ],
)
def test_the_column_that_is_missing_is_named(call: Callable[[], object], column: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.message == f"p: the trace has no column {column}"


BAD = np.full(3, np.nan)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"draft_top": np.zeros(2)}, "column draft_top has shape (2,) for 3 tokens", id="too short"),
        pytest.param(
            {"overlap": {0.5: np.zeros((3, 1))}}, "column overlap at 0.5 has shape (3, 1) for 3 tokens", id="2d"
        ),
        pytest.param({"draft_top_prob": BAD}, "column draft_top_prob holds NaN", id="draft_top_prob"),
        pytest.param({"target_prob_of_draft_top": BAD}, "column target_prob_of_draft_top holds NaN", id="target_prob"),
        pytest.param({"log_p": BAD}, "column log_p holds NaN", id="log_p"),
        pytest.param({"log_q": {1.0: BAD}}, "column log_q at 1.0 holds NaN", id="log_q"),
        pytest.param({"overlap": {1.0: BAD}}, "column overlap at 1.0 holds NaN", id="overlap"),
        pytest.param({"log_p": np.full(3, 0.011)}, "column log_p holds a probability above 1", id="log_p above 1"),
        pytest.param(
            {"log_q": {0.5: np.full(3, 0.011)}}, "column log_q at 0.5 holds a probability above 1", id="log_q"
        ),
        pytest.param(
            {"log_p": np.array([-1, -np.inf, -1])}, "an emitted token has probability 0 in the target", id="impossible"
        ),
    ],
)
def test_a_column_that_cannot_be_is_named(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        measured("p", [1.0] * 3, **changes)
    assert caught.value.message == f"p: {said}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda: FixedLength(-1), "num_spec_tokens is -1: 0 to 256", id="fixed"),
        pytest.param(lambda: RateRule(least=0), "the least num_spec_tokens is 0: 1 to 256", id="least"),
        pytest.param(lambda: RateRule(least=3, most=2), "the largest num_spec_tokens is 2: 3 to 256", id="most"),
        pytest.param(lambda: RateRule(start=0), "the first num_spec_tokens is 0: 1 to 256", id="start"),
        pytest.param(lambda: RateRule(window=0), "the window is 0: 1 to 256", id="window"),
        pytest.param(
            lambda: HeuristicLength(most=0), "the largest num_spec_tokens is 0: 1 to 256", id="heuristic, most"
        ),
        pytest.param(lambda: HeuristicLength(0), "the first num_spec_tokens is 0: 1 to 256", id="heuristic, start"),
        pytest.param(lambda: walk(UNLIKE, FixedLength(2), horizon=1), "the horizon is 1: 2 to 256", id="horizon"),
        pytest.param(
            lambda: walk(UNLIKE, FixedLength(2), SAMPLED, draws=0), "the number of draws is 0: 1 to 1000000", id="draws"
        ),
        pytest.param(lambda: looked(UNLIKE, NgramLookup(), 0), "num_spec_tokens is 0: 1 to 256", id="look-up"),
        pytest.param(
            lambda: looked(UNLIKE, NgramLookup(), 2, horizon=1),
            "the horizon is 1: 2 to 256",
            id="look-up's horizon",
        ),
    ],
)
def test_what_a_policy_may_be_given(call: Callable[[], object], said: str) -> None:
    name, _, allowed = said.partition(": ")
    with pytest.raises(UsageError) as caught:
        call()
    assert (caught.value.message, caught.value.hint) == (name, f"Give a whole number from {allowed}.")
