"""What a trace says: rates, every k, the choice of k, doubts, and when enough was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.choices import PROBE
from draftpick.errors import UsageError
from draftpick.probing import result
from draftpick.probing.result import (
    Budget,
    Measured,
    Priced,
    best_lookup,
    doubts,
    looked_up,
    measured,
    proposals,
    reason_to_stop,
)
from draftpick.probing.trace import DraftColumns, Row
from draftpick.replay import GREEDY_DRAFT, Acceptance
from draftpick.speedup import StepTimes

LAW = settings(deadline=None, derandomize=True, max_examples=40)
GREEDY = proposals(0.0)[0]
MATCHES = st.lists(st.booleans(), min_size=1, max_size=30)


def answer(prompt: str, drafts: dict[str, Sequence[bool]], domain: str = "", *, text: Sequence[int] = ()) -> Row:
    """A greedy answer, and which of its tokens were each draft's first choice."""
    size = len(next(iter(drafts.values())))
    tokens = list(text) or list(range(10, 10 + size))
    columns = {
        name: DraftColumns([token if hit else 9 for token, hit in zip(tokens, hits, strict=True)], [0.5] * size)
        for name, hits in drafts.items()
    }
    return Row(prompt, prompt, domain, "en", 0.0, [1, 2, 3], tokens, "length", [-1.0] * size, [1.0] * size, columns)


def answers(count: int, period: int, size: int = 40, draft: str = "d", shift: int = 0) -> list[Row]:
    """Every `period`-th token is missed; the prompts are slightly different."""
    return [
        answer(str(row), {draft: [(place + row + shift) % period != 0 for place in range(size)]})
        for row in range(count)
    ]


def found(rows: Sequence[Row], draft: str = "d", **options: Any) -> Measured:
    return measured(rows, draft, 0.0, GREEDY, **{"k_max": 8, "first": 2, **options})


def costs(c: float, k_max: int = 8, spread: float = 0.0) -> Priced:
    return Priced(StepTimes(1.0, c, c, (1.0,) * (k_max + 1)), spread)


# ---------------------------------------------------------------------- ways to draft


def test_at_temperature_zero_there_is_one_way() -> None:
    assert [way.rule for way in proposals(0.0)] == [GREEDY_DRAFT]


@pytest.mark.parametrize("heat", [0.1, 0.3, 0.6, 0.7, 0.9, 1.3])
def test_sampled_text_is_drafted_in_four_ways(heat: float) -> None:
    rules = [way.rule for way in proposals(heat)]
    assert [rule.sampled for rule in rules] == [False, True, True, True]
    assert [rule.block for rule in rules] == [False, False, False, True]
    # The columns of a trace are named by %g: 0.7² is 0.48999… and stands at 0.49.
    assert [rule.draft_temperature for rule in rules[1:]] == [
        float(f"{heat:g}"), float(f"{heat**2:g}"), float(f"{heat:g}")
    ]  # fmt: skip
    assert len({way.name for way in proposals(heat)}) == 4


def test_a_temperature_of_one_acts_twice_without_effect() -> None:
    assert [way.rule.block for way in proposals(1.0)] == [False, False, True]
    assert result.usual(1.0, "transformers").rule == Acceptance(True, 1.0)


@pytest.mark.parametrize("heat", [0.1, 0.3, 0.7, 1.0, 1.1])
def test_every_way_finds_its_columns(heat: float) -> None:
    row = sampled(heat, heats=(heat, heat**2))
    for way in proposals(heat):
        one = measured([row], "d", heat, way, k_max=2, first=1)
        assert 0 < one.rate.value < 1
        assert one.k_max == 2


def sampled(heat: float, heats: Sequence[float], size: int = 12) -> Row:
    rng = np.random.default_rng(0)
    log_p, log_q = (np.log(rng.uniform(0.1, 0.9, size)).tolist() for _ in range(2))
    shares = rng.uniform(0.2, 0.8, size).tolist()
    tokens = list(range(size))
    columns = DraftColumns(
        [token if token % 2 else 99 for token in tokens],
        shares,
        shares,
        {f"{one:g}": log_q for one in heats},
        {f"{one:g}": shares for one in heats},
    )
    return Row("p", "p", "", "", heat, [1], tokens, "length", log_p, None, {"d": columns})


@pytest.mark.parametrize(
    ("heat", "engine", "place", "first"),
    [(0.0, "vllm", 0, 2), (0.0, "transformers", 0, 1), (0.7, "vllm", 0, 2), (0.7, "transformers", 2, 1)],
)
def test_the_usual_way_of_an_engine(heat: float, engine: str, place: int, first: int) -> None:
    assert result.usual(heat, engine) == proposals(heat)[place]
    assert result.first_position(engine) == first


def test_a_rate_of_sampled_text_averages_what_is_expected() -> None:
    row = sampled(0.7, (0.7, 0.49))
    columns = row.drafts["d"]
    assert columns.target_prob_of_top is not None
    for place, column in ((0, columns.target_prob_of_top), (1, columns.overlap["0.7"])):
        one = measured([row], "d", 0.7, proposals(0.7)[place], k_max=2, first=2)
        assert one.rate.value == pytest.approx(np.mean(column[1:]))


# ---------------------------------------------------------------------- every k


@given(st.lists(MATCHES, min_size=1, max_size=5), st.integers(1, 8), st.sampled_from([1, 2]))
@LAW
def test_as_many_k_are_looked_at_as_the_longest_answer_holds(rows: list[list[bool]], k_max: int, first: int) -> None:
    one = found([answer(str(n), {"d": row}) for n, row in enumerate(rows)], k_max=k_max, first=first)
    reach = min(k_max, max(len(row) for row in rows) - first + 1)
    assert list(one.by_k) == (list(range(reach + 1)) if reach >= 1 else [])
    assert one.k_max == max(reach, 0)
    assert len(one.lengths) == len(one.by_k)
    for k, length in enumerate(one.lengths):
        assert 1 <= length.low <= length.value <= length.high <= k + 1
    hits, tested = sum(sum(row[first - 1 :]) for row in rows), sum(len(row[first - 1 :]) for row in rows)
    assert one.rate.value == pytest.approx(hits / tested if tested else 0)


@pytest.mark.parametrize(
    ("size", "first", "reach"),
    [(40, 2, 8), (9, 2, 8), (8, 2, 7), (8, 1, 8), (3, 2, 2), (2, 2, 1), (1, 2, 0), (1, 1, 1)],
)
def test_answers_shorter_than_a_block(size: int, first: int, reach: int) -> None:
    one = found([answer("p", {"d": [True] * size})], first=first)
    assert one.k_max == reach
    plan = one.priced(costs(0.1))
    assert (plan is None) == (reach == 0)
    if plan is not None:
        assert len(plan.by_k) == reach + 1


def test_without_an_answer_nothing_is_measured() -> None:
    with pytest.raises(UsageError, match="no answer at temperature 1"):
        measured(answers(2, 3), "d", 1.0, GREEDY, k_max=8, first=2)


def test_costs_that_reach_fewer_k_choose_among_those() -> None:
    one = found(answers(8, 10**6))
    plan = one.priced(costs(0.01, k_max=3))
    assert plan is not None
    assert [row.k for row in plan.by_k] == [0, 1, 2, 3]
    assert plan.num_spec_tokens == 3


def test_unsteady_costs_make_the_interval_wider() -> None:
    one = found(answers(16, 4))
    steady, shaky = one.priced(costs(0.1)), one.priced(costs(0.1, spread=0.2))
    assert steady is not None
    assert shaky is not None
    assert shaky.speedup.value == steady.speedup.value
    assert shaky.speedup.low < steady.speedup.low < steady.speedup.high < shaky.speedup.high


def test_each_domain_has_its_rate() -> None:
    rows = [
        answer("a", {"d": [True] * 10}, "code"),
        answer("b", {"d": [False] * 10}, "chat"),
        answer("c", {"d": [False] + [True] * 9}, "chat"),
        answer("e", {"d": [True] * 10}),
        answer("f", {"d": [True]}, "tiny"),
    ]
    by_domain = found(rows).by_domain()
    assert {name: (rate.value, count) for name, (rate, count) in by_domain.items()} == {
        "code": (1.0, 1), "chat": (0.5, 2), "unnamed": (1.0, 1)
    }  # fmt: skip
    assert by_domain["code"][0].low == 0, "one prompt alone says nothing of the next"


# ---------------------------------------------------------------------- doubts


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (answers(16, 3), []),
        (answers(7, 3, size=100), ["low confidence: 7 prompts, 8 are needed"]),
        (answers(9, 3, size=20), ["low confidence: 180 tokens, 500 are needed"]),
        (answers(16, 1), ["an acceptance rate of 0.000 is more often a fault"]),
        (
            [*answers(10, 3, size=60), *[answer(f"s{n}", {"d": [True] * 8}) for n in range(11)]],
            ["11 of 21 answers end before one block of 8 tokens is complete"],
        ),
        ([*answers(10, 3, size=60), *[answer(f"s{n}", {"d": [True] * 9}) for n in range(11)]], []),
        ([*answers(10, 3, size=60), *[answer(f"s{n}", {"d": [True] * 8}) for n in range(10)]], []),
        (
            [answer(str(n), {"d": [True]}) for n in range(600)],
            ["no answer is long enough for one drafted token: nothing was measured"],
        ),
    ],
    ids=["none", "few prompts", "few tokens", "near zero", "short", "just long enough", "half", "nothing"],
)
def test_doubts_are_said(rows: list[Row], said: list[str]) -> None:
    told = doubts(found(rows))
    assert len(told) == len(said), told
    for one, expected in zip(told, said, strict=True):
        assert one.startswith(expected)


# ---------------------------------------------------------------------- going on

FIRST = int(PROBE["first-look"])
OPEN = Budget(FIRST, 0.0)
ROUGH = Budget(FIRST, 1.0)


@pytest.mark.parametrize(
    ("budget", "prompts", "seconds", "cost", "reason"),
    [
        (OPEN, 20, 0, None, None),
        (OPEN._replace(most_prompts=20), 20, 0, None, "all 20 prompts were used"),
        (OPEN._replace(most_prompts=21), 20, 0, None, None),
        (OPEN._replace(most_seconds=9), 20, 9, None, "the time limit of 9 s was reached"),
        (OPEN._replace(most_seconds=9), 20, 8.9, None, None),
        (OPEN._replace(most_seconds=9), 2, 9.5, None, "the time limit of 9 s was reached"),
        (ROUGH, 20, 0, None, "every acceptance rate is known within"),
        (ROUGH, FIRST - 1, 0, None, None),
        (ROUGH, FIRST, 0, None, "every acceptance rate is known within"),
        (ROUGH._replace(fixed=True), 20, 0, None, None),
        (ROUGH._replace(fixed=True, most_prompts=20), 20, 0, 0.05, "all 20 prompts were used"),
        (OPEN, 20, 0, 0.05, "the decision is clear after 20 prompts"),
        (OPEN, 20, 0, 5.0, "the decision is clear after 20 prompts"),
        (OPEN, FIRST - 1, 0, 5.0, None),
        (OPEN._replace(fixed=True), 20, 0, 5.0, None),
    ],
)
def test_when_to_stop(budget: Budget, prompts: int, seconds: float, cost: float | None, reason: str | None) -> None:
    one = found(answers(prompts, 4))
    priced = {"d": costs(cost)} if cost is not None else {}
    told = reason_to_stop([one], priced, prompts, seconds, budget)
    assert (told is None) if reason is None else (told is not None and told.startswith(reason))


def test_an_open_decision_goes_on() -> None:
    one = found(answers(20, 4))
    assert reason_to_stop([one], {"d": costs(0.6, spread=0.5)}, 20, 0, OPEN) is None


def test_where_no_draft_reads_only_the_budget_ends_the_run() -> None:
    assert reason_to_stop([], {}, 20, 0, ROUGH) is None
    assert reason_to_stop([], {}, 20, 0, ROUGH._replace(most_prompts=20)) == "all 20 prompts were used"


def test_a_draft_without_costs_keeps_the_decision_open() -> None:
    rows = pair(20, 4, 4)
    both = [found(rows, "a"), found(rows, "b")]
    assert reason_to_stop(both, {"a": costs(0.05)}, 20, 0, OPEN) is None
    assert reason_to_stop(both, {"a": costs(0.05), "b": costs(5.0)}, 20, 0, OPEN) is not None


def pair(count: int, one: int, other: int) -> list[Row]:
    return [
        answer(
            str(n), {name: [(at + n) % period != 0 for at in range(40)] for name, period in (("a", one), ("b", other))}
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("periods", "costs_of", "clear"),
    [
        ((20, 3), (0.05, 0.05), True),
        ((20, 20), (0.05, 0.2), True),
        ((20, 19), (0.05, 0.05), True),
        ((3, 20), (0.05, 0.6), True),
    ],
    ids=["better text", "cheaper", "the same to within the margin", "dearer but better"],
)
def test_drafts_are_compared_on_the_same_prompts(
    periods: tuple[int, int], costs_of: tuple[float, float], clear: bool
) -> None:
    rows = pair(24, *periods)
    both = [found(rows, "a"), found(rows, "b")]
    priced = dict(zip("ab", map(costs, costs_of), strict=True))
    assert (reason_to_stop(both, priced, 24, 0, OPEN) is not None) == clear


def test_two_drafts_that_may_beat_each_other_keep_the_run_going() -> None:
    """On half of the prompts one is better, on the other half the other."""
    rows = [
        answer(
            str(n),
            {
                name: [(at + n) % (12 if n % 2 == side else 3) != 0 for at in range(40)]
                for side, name in enumerate("ab")
            },
        )
        for n in range(20)
    ]
    both = [found(rows, "a"), found(rows, "b")]
    assert reason_to_stop(both, {"a": costs(0.05), "b": costs(0.05)}, 20, 0, OPEN) is None
    prices = {"a": costs(0.05), "b": costs(0.05)}
    plans = [one.priced(prices[one.draft]) for one in both]
    assert plans[0] is not None
    assert plans[1] is not None
    quotient = result.compared(both[0], plans[0], both[1], plans[1], prices)
    assert quotient is not None
    assert quotient.low < 1 < quotient.high


def test_a_draft_is_as_good_as_itself() -> None:
    one = found(answers(12, 5))
    prices = {one.draft: costs(0.05)}
    plan = one.priced(prices[one.draft])
    assert plan is not None
    quotient = result.compared(one, plan, one, plan, prices)
    assert quotient is not None
    assert tuple(quotient)[:3] == pytest.approx((1, 1, 1))


# ---------------------------------------------------------------------- the decision


@pytest.mark.parametrize(
    ("cost", "spread", "action", "about"),
    [
        (0.05, 0.0, "speculate", 0),
        (3.0, 0.0, "do_not_speculate", None),
        (0.3, 0.8, "undecided", 0),
        (None, 0.0, "undecided", None),
    ],
)
def test_the_decision(cost: float | None, spread: float, action: str, about: int | None) -> None:
    one = found(answers(16, 4))
    plan = one.priced(costs(cost, spread=spread)) if cost is not None else None
    said, place = result.decision([one], [plan], 16)
    assert (said.action, place) == (action, about)


def test_the_decision_names_the_draft_and_not_its_plan() -> None:
    rows = pair(16, 3, 20)
    both = [found(rows, "a"), found(rows, "b")]
    said, place = result.decision(both, [None, both[1].priced(costs(0.05))], 16)
    assert (said.action, place) == ("speculate", 1)


# ---------------------------------------------------------------------- methods without a draft


REPEATING = [7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9]


def test_copying_pays_where_the_text_repeats_itself() -> None:
    rows = [answer(str(n), {"d": [True] * 15}, text=[token + n for token in REPEATING]) for n in range(9)]
    free = [best_lookup(rows) for rows in looked_up(found(rows).trace, costs(0.1), 4)]
    assert {row.method for row in free} == set(result.LOOKUPS)
    best = {row.method: row for row in free}["suffix"]
    assert best.length is not None
    assert best.speedup is not None
    assert best.speedup.value > 1.5
    assert best.speedup.value <= best.length.value + 1e-9, "verification costs no less than a plain token"


def test_the_spread_of_timings_is_in_the_interval_of_a_lookup() -> None:
    rows = [answer(str(n), {"d": [True] * 15}, text=[token + n for token in REPEATING]) for n in range(9)]
    sure, unsure = (
        {row.method: row.speedup for row in map(best_lookup, looked_up(found(rows).trace, priced, 4))}
        for priced in (costs(0.1), costs(0.1, spread=0.3))
    )
    for method, one in sure.items():
        other = unsure[method]
        assert one is not None
        assert other is not None
        assert other.value == one.value
        assert other.low == pytest.approx(one.value / math.exp(math.hypot(math.log(one.value / one.low), 0.3)))


@pytest.mark.parametrize("priced", [None, costs(0.1)], ids=["no costs", "costs"])
def test_the_interval_of_one_prompt_is_finite(priced: Priced | None) -> None:
    free = looked_up(found([answer("p", {"d": [True] * 15}, text=REPEATING)]).trace, priced, 4)
    for row in (row for rows in free for row in rows):
        for value in (row.length, row.speedup):
            assert value is None or (value.value <= value.high <= max(row.k + 1, value.value))
            assert value is None or math.isfinite(value.high)


def test_only_k_with_costs_are_compared_by_speedup() -> None:
    rows = [answer(str(n), {"d": [True] * 15}, text=REPEATING) for n in range(9)]
    for looked in looked_up(found(rows).trace, costs(0.1, k_max=2), 8):
        row = best_lookup(looked)
        assert [one.k for one in looked] == list(range(1, 9))
        assert row.k <= 2
        assert row.speedup is not None


@pytest.mark.parametrize("size", [1, 2])
def test_a_text_too_short_to_copy_is_no_error(size: int) -> None:
    assert len(looked_up(found([answer("p", {"d": [True] * size})]).trace, None, 8)) <= len(result.LOOKUPS)


# ---------------------------------------------------------------------- timings


@given(st.floats(0, 1), st.integers(1, 100))
@LAW
def test_more_timings_narrow_the_spread(deviation: float, count: int) -> None:
    assert result.spread_of(deviation, 4 * count) == pytest.approx(result.spread_of(deviation, count) / 2)


def test_the_spread_of_a_median_is_that_of_normal_timings() -> None:
    rng = np.random.default_rng(0)
    timings = rng.normal(1, 0.05, (4000, 25))
    low, high = np.quantile(timings, [0.25, 0.75], axis=1)
    half = np.array([result.spread_of(one, 25) for one in high - low])
    inside = np.abs(np.median(timings, axis=1) - 1) < half
    assert inside.mean() == pytest.approx(0.95, abs=0.04)


def test_no_timings_have_no_spread_to_divide_by() -> None:
    assert result.spread_of(0.0, 0) == 0


def test_block_verification_accepts_no_less() -> None:
    row = sampled(0.7, (0.7, 0.49), size=40)
    token, block = (
        measured([row], "d", 0.7, result.Drafts("", Acceptance(True, 0.7, block), "sampled"), k_max=6, first=1)
        for block in (False, True)
    )
    for one, other in zip(token.lengths, block.lengths, strict=True):
        assert one.value <= other.value + 1e-9
