from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick import speedup as sp
from draftpick.errors import UsageError
from draftpick.speedup import Interval, Plan, StepTimes, make_plan, mean_acceptance_length, step_times

LAW = settings(deadline=None, derandomize=True, max_examples=100)
RATES = st.floats(0, 1)
TOKENS = st.integers(0, 16)
COSTS = st.floats(0, 2)


def gains(rate: float, draft_cost: float, k_max: int = 16, **cost: float) -> list[float]:
    times = step_times(draft_cost, k_max=k_max, **cost)
    return [sp.speedup(mean_acceptance_length(rate, k), times, k) for k in range(k_max + 1)]


def plan_of(rate: float, draft_cost: float, half_width: float = 0.0, level: float = 0.8, **options: Any) -> Plan:
    low, high = max(rate - half_width, 0.0), min(rate + half_width, 1.0)
    lengths = sp.lengths_from_rate(Interval(rate, low, high, level))
    return make_plan(lengths, step_times(draft_cost), **options)


# The figures of the source text, and what becomes of them.


def test_the_formula_at_65_percent() -> None:
    assert f"{plan_of(0.65, 0.05, num_spec_tokens=5).speedup.value:.2f}" == "2.11"


@pytest.mark.parametrize(
    ("rate", "draft_cost", "measured"),
    [
        pytest.param(0.65, 0.05, 2.1, id="same architecture, same data"),
        pytest.param(0.55, 0.05, 1.7, id="same architecture, other data"),
        pytest.param(0.40, 0.05, 1.3, id="other architecture"),
        pytest.param(0.25, 0.10, 0.9, id="other tokens, encoded again"),
    ],
)
def test_the_measured_pairs_are_reproduced(rate: float, draft_cost: float, measured: float) -> None:
    assert gains(rate, draft_cost)[5] == pytest.approx(measured, abs=0.04)


def test_the_measured_pairs_come_out_in_order() -> None:
    pairs = [(0.65, 0.05), (0.55, 0.05), (0.40, 0.05), (0.25, 0.10)]
    values = [gains(rate, draft_cost)[5] for rate, draft_cost in pairs]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1 < values[-2]


@pytest.mark.parametrize(
    ("rate", "draft_cost", "best", "smallest_near"),
    [
        pytest.param(0.7, 0.05, {5, 6}, 4, id="0.7 at 0.05"),
        pytest.param(0.5, 0.05, {3}, 3, id="0.5 at 0.05"),
        pytest.param(0.3, 0.05, {2}, 2, id="0.3 at 0.05"),
        pytest.param(0.7, 0.02, {8}, 6, id="0.7 at 0.02"),
        pytest.param(0.5, 0.02, {4}, 3, id="0.5 at 0.02"),
        pytest.param(0.3, 0.02, {3}, 2, id="0.3 at 0.02"),
        pytest.param(0.7, 0.2, {3}, 2, id="0.7 at 0.2"),
        pytest.param(0.5, 0.2, {1, 2}, 1, id="0.5 at 0.2"),
        pytest.param(0.3, 0.2, {1}, 1, id="0.3 at 0.2"),
    ],
)
def test_the_best_k(rate: float, draft_cost: float, best: set[int], smallest_near: int) -> None:
    values = gains(rate, draft_cost)
    # Two k tie on paper where both are named.
    assert {k for k, value in enumerate(values) if value > max(values) * (1 - 2e-5)} == best
    assert sp.choose(values) == smallest_near


def test_five_and_six_tokens_tie() -> None:
    values = gains(0.7, 0.05)
    assert [round(values[k], 3) for k in (5, 6)] == [2.353, 2.353]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_nothing_is_gained_at_30_percent_once_the_first_token_costs_as_much(rate: float) -> None:
    values = gains(rate, 0.15, verify_cost=0.1, overhead=0.05)
    assert max(values) == pytest.approx(1.0)
    assert sp.choose(values) == 0


@pytest.mark.parametrize(
    ("rate", "k", "length"),
    [
        pytest.param(0.7, 5, 2.94, id="2.94, not 3.3"),
        pytest.param(0.7, 200, 3.33, id="3.33 is the limit"),
        pytest.param(0.4, 200, 1.67, id="1/(1 - rate) is the limit"),
        pytest.param(0.5, 3, 1.875, id="the bonus token counts"),
        pytest.param(0.0, 8, 1.0, id="rate 0"),
        pytest.param(1.0, 8, 9.0, id="rate 1"),
        pytest.param(1 - 1e-16, 8, 9.0, id="next to 1"),
        pytest.param(5e-324, 8, 1.0, id="next to 0"),
        pytest.param(0.7, 0, 1.0, id="k = 0"),
    ],
)
def test_mean_acceptance_length(rate: float, k: int, length: float) -> None:
    assert mean_acceptance_length(rate, k) == pytest.approx(length, abs=0.005)


# Laws.


@LAW
@given(rate=RATES, k=TOKENS)
def test_a_step_emits_at_least_one_and_at_most_k_plus_one(rate: float, k: int) -> None:
    assert 1 <= mean_acceptance_length(rate, k) <= k + 1


@LAW
@given(rate=st.floats(0, 0.999), k=TOKENS)
def test_the_sum_is_the_closed_form(rate: float, k: int) -> None:
    assert mean_acceptance_length(rate, k) == pytest.approx((1 - rate ** (k + 1)) / (1 - rate), rel=1e-9)


@LAW
@given(low=RATES, high=RATES, k=TOKENS)
def test_the_length_grows_with_k_and_with_the_rate(low: float, high: float, k: int) -> None:
    low, high = sorted((low, high))
    assert mean_acceptance_length(low, k) <= mean_acceptance_length(high, k)
    assert mean_acceptance_length(low, k) <= mean_acceptance_length(low, k + 1)


@LAW
@given(rate=RATES, k=st.integers(1, 16))
def test_the_rate_comes_back_from_length_and_from_accepted_over_drafted(rate: float, k: int) -> None:
    length = mean_acceptance_length(rate, k)
    assert sp.rate_from_length(length, k) == pytest.approx(rate, abs=1e-9)
    assert sp.rate_from_draft_acceptance((length - 1) / k, k) == pytest.approx(rate, abs=1e-9)


@LAW
@given(rate=RATES, cheap=COSTS, dear=COSTS, verify=st.floats(0, 1), overhead=st.floats(0, 1))
def test_k_never_rises_with_the_draft_cost(
    rate: float, cheap: float, dear: float, verify: float, overhead: float
) -> None:
    cheap, dear = sorted((cheap, dear))
    few = sp.choose(gains(rate, dear, verify_cost=verify, overhead=overhead))
    assert few <= sp.choose(gains(rate, cheap, verify_cost=verify, overhead=overhead))


@LAW
@given(rate=RATES, cost=COSTS, verify=st.floats(0, 1), overhead=st.floats(0, 1))
def test_k_is_zero_where_nothing_gains(rate: float, cost: float, verify: float, overhead: float) -> None:
    values = gains(rate, cost, verify_cost=verify, overhead=overhead)
    k = sp.choose(values)
    assert values[k] >= 0.98 * max(values) * (1 - 1e-9)
    assert all(value < 0.98 * max(values) for value in values[:k])
    if max(values) <= 1:
        assert k == 0


@pytest.mark.parametrize("value", [1.5, 1.99, 3.98])
def test_two_percent_below_the_best_is_still_near(value: float) -> None:
    assert sp.choose([0.5, value, value / 0.98]) == 1


@LAW
@given(rate=RATES, cost=COSTS, verify=st.floats(0, 1), overhead=st.floats(0, 1))
def test_one_token_gains_when_the_rate_exceeds_what_it_costs(
    rate: float, cost: float, verify: float, overhead: float
) -> None:
    times = step_times(cost, verify, overhead)
    needed = cost + (times.verify[1] - times.target) / times.target + overhead
    found = sp.break_even_rate(times, 1)
    assert found == (pytest.approx(needed, abs=1e-9) if needed <= 1 else None)
    if abs(rate - needed) > 1e-9:
        assert (sp.speedup(mean_acceptance_length(rate, 1), times, 1) > 1) == (rate > needed)


@LAW
@given(rate=RATES, k=st.integers(1, 8), cost=COSTS)
def test_break_even_cost_is_where_the_gain_ends(rate: float, k: int, cost: float) -> None:
    length = mean_acceptance_length(rate, k)
    limit = sp.break_even_draft_cost(length, step_times(cost, 0.01), k)
    assert limit is None or sp.speedup(length, step_times(limit, 0.01), k) == pytest.approx(1.0)


def test_break_even_says_where_nothing_helps() -> None:
    assert sp.break_even_rate(step_times(3.0), 2) is None
    assert sp.break_even_rate(step_times(0.1), 0) is None
    assert sp.break_even_draft_cost(1.0, step_times(0.0, 0.1), 2) is None
    assert sp.break_even_draft_cost(1.0, step_times(0.0), 0) is None


# Times.


def test_a_step_adds_up() -> None:
    times = StepTimes(10.0, 2.0, 1.5, (10.0, 11.0, 12.0, 13.0), 0.5)
    assert [times.step(k) for k in range(4)] == [10.0, 13.5, 16.0, 18.5]
    assert times.most_tokens == 3
    assert sp.speedup(2.5, times, 3) == pytest.approx(2.5 * 10 / 18.5)


def test_a_draft_that_proposes_all_at_once_pays_once() -> None:
    times = StepTimes(1.0, 0.1, 0.0, (1.0,) * 5)
    assert times.step(4) == times.step(1) == pytest.approx(1.1)


def test_the_scale_of_the_times_does_not_matter() -> None:
    lengths = sp.lengths_from_rate(Interval(0.7, 0.6, 0.8, 0.8))
    seconds = StepTimes(0.02, 0.003, 0.002, tuple(0.02 + 0.001 * m for m in range(9)), 0.001)
    milliseconds = StepTimes(20, 3, 2, tuple(20 + m for m in range(9)), 1)
    for one, other in zip(make_plan(lengths, seconds).by_k, make_plan(lengths, milliseconds).by_k, strict=True):
        assert one == pytest.approx(other)


# The plan.


def test_a_plan_holds_its_choice_and_every_k() -> None:
    plan = plan_of(0.7, 0.05, 0.1)
    assert [row.k for row in plan.by_k] == list(range(9))
    assert plan.num_spec_tokens == 4
    chosen = plan.by_k[4]
    assert plan.speedup == (chosen.speedup, chosen.low, chosen.high, 0.8)
    assert plan.mean_acceptance_length == chosen.mean_acceptance_length
    assert plan.drafting == chosen
    assert not plan.fixed


def test_the_interval_comes_from_the_rate_when_times_are_certain() -> None:
    row = plan_of(0.7, 0.05, 0.1).by_k[4]
    assert row.low == pytest.approx(gains(0.6, 0.05)[4])
    assert row.high == pytest.approx(gains(0.8, 0.05)[4])


def test_the_interval_comes_from_the_times_when_the_rate_is_certain() -> None:
    row = plan_of(0.7, 0.05, spread=0.2).by_k[4]
    assert row.low == pytest.approx(row.speedup * math.exp(-0.2))
    assert row.high == pytest.approx(row.speedup * math.exp(0.2))


@LAW
@given(rate=RATES, half=st.floats(0, 0.5), cost=COSTS, spread=st.floats(0, 1))
def test_the_value_lies_in_its_interval(rate: float, half: float, cost: float, spread: float) -> None:
    plan = plan_of(rate, cost, half, spread=spread)
    assert all(row.low <= row.speedup <= row.high for row in plan.by_k)
    wider = plan_of(rate, cost, half, spread=spread + 0.1)
    assert all(a.low <= b.low and a.high >= b.high for a, b in zip(wider.by_k[1:], plan.by_k[1:], strict=True))


def test_the_spread_may_differ_by_k() -> None:
    rows = plan_of(0.7, 0.05, spread=[0.0, 0.1, 0.2, *[0.3] * 6]).by_k
    assert [round(math.log(row.high / row.speedup), 9) for row in rows[:4]] == [0, 0.1, 0.2, 0.3]


def test_the_engine_caps_k() -> None:
    plan = plan_of(0.9, 0.01, most_tokens=3)
    assert plan.num_spec_tokens == 3
    assert [row.k for row in plan.by_k] == [0, 1, 2, 3]
    assert plan_of(0.9, 0.01, most_tokens=0).drafting is None


def test_a_given_k_is_taken() -> None:
    plan = plan_of(0.3, 0.3, num_spec_tokens=5)
    assert (plan.num_spec_tokens, plan.fixed) == (5, True)
    assert plan.speedup.value < 1


def test_without_a_gain_the_plan_is_plain_decoding() -> None:
    plan = plan_of(0.2, 0.5, 0.1)
    assert (plan.num_spec_tokens, plan.mean_acceptance_length, plan.speedup) == (0, 1.0, (1.0, 1.0, 1.0, 0.8))
    assert plan.drafting is not None
    assert plan.drafting.k == 1


# Schedules.


def growing(batch: int) -> StepTimes:
    return step_times(0.05, verify_cost=0.004 * batch)


def test_a_schedule_covers_all_batches_with_fewer_tokens_under_load() -> None:
    rows = plan_of(0.7, 0.05, times_at=growing, max_num_seqs=300).schedule
    assert rows[0][0] == 1
    assert rows[-1][1] == 300
    assert all(one[1] + 1 == other[0] and one[2] > other[2] for one, other in pairwise(rows))
    assert rows[-1][2] == 0
    for first, last, k in rows:
        for batch in (first, last):
            assert sp.choose(gains(0.7, 0.05, 8, verify_cost=0.004 * batch)) == k


def test_a_schedule_asks_for_few_times() -> None:
    asked: list[int] = []

    def times_at(batch: int) -> StepTimes:
        asked.append(batch)
        return step_times(0.05)

    lengths = [mean_acceptance_length(0.7, k) for k in range(9)]
    assert sp.make_schedule(lengths, times_at, 1000) == ((1, 1000, 4),)
    assert len(asked) == len(set(asked)) == 11


def test_a_schedule_of_one_batch() -> None:
    assert sp.make_schedule([1.0, 1.7], growing, 1) == ((1, 1, 1),)


# Decisions.


def rated(value: float, low: float, high: float, level: float = 0.95) -> Plan:
    row = sp.KRow(1, 1.5, value, low, high)
    none = sp.KRow(0, 1.0, 1.0, 1.0, 1.0)
    if value > 1:
        return Plan(1, 1.5, Interval(value, low, high, level), (none, row))
    return Plan(0, 1.0, Interval(1.0, 1.0, 1.0, level), (none, row))


@pytest.mark.parametrize(
    ("plans", "evidence", "action"),
    [
        pytest.param([rated(1.5, 1.2, 1.9)], "measured", "speculate", id="surely above"),
        pytest.param([rated(1.5, 1.04, 2.1)], "measured", "undecided", id="may be below the margin"),
        pytest.param([rated(0.8, 0.6, 1.01)], "served", "do_not_speculate", id="surely below"),
        pytest.param([rated(1.02, 1.01, 1.03)], "served", "do_not_speculate", id="a gain that is too small"),
        pytest.param([rated(0.9, 0.7, 1.1)], "measured", "undecided", id="may be above"),
        pytest.param([rated(0.8, 0.7, 0.9), rated(0.9, 0.7, 1.1)], "measured", "undecided", id="one draft open"),
        pytest.param([rated(0.8, 0.7, 0.9), rated(1.5, 1.2, 1.9)], "measured", "speculate", id="one draft good"),
        pytest.param([rated(1.5, 0.7, 2.9, 0.8)], "roofline", "speculate", id="predicted: the value decides"),
        pytest.param([rated(1.04, 0.8, 1.3, 0.8)], "published", "undecided", id="predicted: too little to tell"),
        pytest.param([rated(1.04, 1.01, 1.1, 0.8)], "published", "speculate", id="predicted: little, yet sure"),
        pytest.param([rated(0.98, 0.7, 1.5, 0.8)], "roofline", "do_not_speculate", id="predicted: no gain"),
        pytest.param([], "measured", "do_not_speculate", id="no draft, measured"),
        pytest.param([], "rule", "do_not_speculate", id="no draft, rules only"),
    ],
)
def test_decisions(plans: list[Plan], evidence: str, action: str) -> None:
    assert sp.decide(plans, evidence).action == action


def test_the_decision_names_the_best_draft() -> None:
    plans = [rated(1.2, 1.1, 1.3), rated(1.6, 1.3, 2.0), rated(1.9, 0.9, 3.0)]
    assert sp.decide(plans, "measured").plan == 1
    assert sp.decide(plans, "roofline").plan == 2


def test_one_open_k_keeps_a_measurement_undecided() -> None:
    rows = (sp.KRow(0, 1, 1, 1, 1), sp.KRow(1, 1.3, 0.99, 0.95, 1.03), sp.KRow(2, 1.6, 0.98, 0.8, 1.2))
    plan = Plan(0, 1.0, Interval(1, 1, 1, 0.95), rows)
    assert sp.decide([plan], "measured").action == "undecided"
    given_k = plan._replace(num_spec_tokens=1, speedup=Interval(0.99, 0.95, 1.03, 0.95), fixed=True)
    assert sp.decide([given_k], "measured").action == "do_not_speculate"


@pytest.mark.parametrize(
    ("plan", "prompts", "more"),
    [
        pytest.param(rated(1.25, 0.85, 1.65), 16, 48, id="twice as wide as allowed: four times the prompts"),
        pytest.param(rated(0.85, 0.55, 1.15), 16, 20, id="from below"),
        pytest.param(rated(1.25, 0.85, 1.65), None, None, id="not known what it rests on"),
        pytest.param(rated(1.05, 0.9, 1.2), 16, None, id="at the margin itself no number decides"),
    ],
)
def test_how_many_more_prompts_would_decide(plan: Plan, prompts: int | None, more: int | None) -> None:
    decision = sp.decide([plan], "measured", num_prompts=prompts)
    assert decision.action == "undecided"
    assert decision.more_prompts == (more if more is None else pytest.approx(more, abs=1))


# End to end.


def test_end_to_end_counts_both_prefills() -> None:
    times = step_times(0.1)
    whole = sp.end_to_end(times, 4, 2.8, prefill=50, draft_prefill=5, num_tokens=280)
    assert whole == pytest.approx(((50 + 280) / (55 + 100 * 1.4), 195.0, 330.0, 55.0, 50.0))
    assert whole.speedup < sp.speedup(2.8, times, 4)
    assert sp.end_to_end(times, 0, 1.0, prefill=50, draft_prefill=5, num_tokens=280).speedup == 1


# Impossible values.


@pytest.mark.parametrize(
    ("call", "said", "allowed"),
    [
        pytest.param(lambda: mean_acceptance_length(1.2, 3), "1.2", "from 0 to 1", id="rate 1.2"),
        pytest.param(lambda: mean_acceptance_length(-0.1, 3), "-0.1", "from 0 to 1", id="rate below 0"),
        pytest.param(lambda: mean_acceptance_length(math.nan, 3), "nan", "from 0 to 1", id="rate NaN"),
        pytest.param(lambda: mean_acceptance_length(True, 3), "True", "from 0 to 1", id="rate is a truth value"),
        pytest.param(lambda: mean_acceptance_length(0.5, -1), "-1", "from 0 to 256", id="k below 0"),
        pytest.param(lambda: mean_acceptance_length(0.5, 10**9), "1000000000", "from 0 to 256", id="k without end"),
        pytest.param(lambda: mean_acceptance_length(0.5, 2.5), "2.5", "whole number", id="k is no whole number"),  # type: ignore[arg-type]
        pytest.param(lambda: step_times(-0.1), "-0.1", "0 or more", id="negative draft cost"),
        pytest.param(lambda: step_times(math.inf), "inf", "finite", id="endless draft cost"),
        pytest.param(lambda: step_times(0.1, -1), "-1", "0 or more", id="negative verify cost"),
        pytest.param(lambda: step_times(0.1, overhead=math.nan), "nan", "0 or more", id="overhead NaN"),
        pytest.param(lambda: sp.rate_from_length(5.5, 4), "5.5", "from 1 to 5", id="τ above k + 1"),
        pytest.param(lambda: sp.rate_from_length(0.5, 4), "0.5", "from 1 to 5", id="τ below 1"),
        pytest.param(lambda: sp.rate_from_length(1.0, 0), "0", "1 or more", id="τ at k = 0"),
        pytest.param(lambda: sp.rate_from_draft_acceptance(1.1, 4), "1.1", "from 0 to 1", id="accepted over drafted"),
        pytest.param(lambda: plan_of(0.5, 0.1, num_spec_tokens=9), "9", "from 0 to 8", id="given k beyond the reach"),
        pytest.param(lambda: plan_of(0.5, 0.1, spread=-1), "-1", "0 or more", id="negative spread"),
        pytest.param(lambda: sp.lengths_from_rate(Interval(0.5, -1, 1, 0.8)), "-1", "from 0 to 1", id="bound"),
        pytest.param(
            lambda: make_plan([Interval(1, 1, 1, 0.8), Interval(3, 1, 3, 0.8)], step_times(0.1)),
            "k = 1",
            "1 to 2",
            id="more tokens than a step can emit",
        ),
        pytest.param(lambda: sp.checked_times(StepTimes(0, 1, 1, (0.0,))), "0", "above 0", id="target takes no time"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, 1, (2.0,))), "v(1)", "same", id="v(1) is not t"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, 1, ())), "verification", "v(1)", id="no v"),
        pytest.param(lambda: sp.make_schedule([1.0], growing, 0), "max_num_seqs", "from 1 to", id="batch 0"),
        pytest.param(
            lambda: sp.end_to_end(step_times(0.1), 4, 2.0, prefill=-1, draft_prefill=0, num_tokens=5),
            "-1",
            "0 or more",
            id="negative prefill",
        ),
        pytest.param(lambda: sp.decide([], "measured", margin=-0.1), "-0.1", "0 or more", id="negative margin"),
    ],
)
def test_impossible_values_are_named_with_what_is_allowed(call: Any, said: str, allowed: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert said in caught.value.message
    assert allowed in caught.value.hint


@pytest.mark.parametrize("choice", sp.CHOICES, ids=lambda choice: choice.name)
def test_every_choice_has_a_reason(choice: Any) -> None:
    assert choice.why


@pytest.mark.parametrize(
    ("low", "high", "spread", "mostly"),
    [
        pytest.param(0.8, 1.25, 0.0, False, id="timings are sure"),
        pytest.param(0.8, 1.25, 0.1, False, id="texts make it wider"),
        pytest.param(0.8, 1.25, 0.2, True, id="timings make it wider"),
        pytest.param(0.0, 1.25, 9.0, False, id="one prompt has no lower bound"),
    ],
)
def test_what_makes_a_speedup_unsure(low: float, high: float, spread: float, mostly: bool) -> None:
    assert sp.mostly_of_timings(sp.KRow(1, 1.5, 1.0, low, high), spread) is mostly


# At the bounds.


@pytest.mark.parametrize(
    ("call", "value"),
    [
        pytest.param(lambda: mean_acceptance_length(1.0, 256), 257.0, id="the most tokens"),
        pytest.param(lambda: mean_acceptance_length(0, 1), 1.0, id="a whole number as a rate"),
        pytest.param(lambda: sp.checked_rate(1.0), 1.0, id="rate 1"),
        pytest.param(lambda: sp.checked_cost(1e300, "x"), 1e300, id="a long time"),
        pytest.param(lambda: sp.checked_cost(0, "x"), 0.0, id="no time"),
        pytest.param(lambda: sp.rate_from_length(1.0, 1), 0.0, id="shortest"),
        pytest.param(lambda: sp.rate_from_length(2.0, 1), 1.0, id="longest at 1"),
        pytest.param(lambda: sp.rate_from_length(5.0, 4), 1.0, id="longest at 4"),
        pytest.param(lambda: sp.rate_from_draft_acceptance(1.0, 3), 1.0, id="all accepted"),
        pytest.param(lambda: sp.choose([1.0, 1.02], within=0.0), 1, id="nothing but the best"),
        pytest.param(lambda: sp.choose([1.0, 1.0], within=0.0), 0, id="a tie"),
        pytest.param(lambda: sp.break_even_rate(StepTimes(1, 1, 1, (1, 1)), 1), 1.0, id="gains at rate 1 alone"),
        pytest.param(lambda: sp.break_even_rate(StepTimes(1, 0, 0, (1, 1)), 1), 0.0, id="never loses"),
        pytest.param(
            lambda: sp.break_even_draft_cost(2.0, StepTimes(2, 1, 1, (2, 3), 1), 1), 0.0, id="nothing to spare"
        ),
        pytest.param(
            lambda: sp.break_even_draft_cost(3.0, StepTimes(2, 1, 1, (2, 3, 3), 1), 2), 0.5, id="some to spare"
        ),
        pytest.param(lambda: step_times(0.1).most_tokens, 8, id="as far as is usual"),
        pytest.param(lambda: len(sp.lengths_from_rate(Interval(0.5, 0.4, 0.6, 0.8))), 9, id="lengths as far"),
        pytest.param(lambda: sp.speedup(2.0, StepTimes(4, 1, 1, (4, 5), 2), 1), 1.0, id="as fast as without"),
        pytest.param(lambda: StepTimes(1, 2, 3, (1, 1)).overhead, 0.0, id="no overhead said"),
    ],
)
def test_values_at_the_bounds(call: Any, value: float) -> None:
    assert call() == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: mean_acceptance_length(0.5, 257), id="more than the most tokens"),
        pytest.param(lambda: mean_acceptance_length(0.5, True), id="k is a truth value"),
        pytest.param(lambda: mean_acceptance_length("0.5", 1), id="a rate in letters"),  # type: ignore[arg-type]
        pytest.param(lambda: sp.checked_cost(2e300, "x"), id="longer than any time"),
        pytest.param(lambda: step_times(0.1).step(9), id="a step beyond the times"),
        pytest.param(lambda: step_times(0.1).step(-1), id="a step of less than nothing"),
        pytest.param(lambda: step_times(0.1, k_max=-1), id="times of less than nothing"),
        pytest.param(lambda: sp.break_even_rate(step_times(0.1), 9), id="break-even beyond the times"),
        pytest.param(lambda: sp.break_even_draft_cost(1.0, step_times(0.1), 9), id="break-even cost beyond the times"),
        pytest.param(lambda: sp.rate_from_length(5.000001, 4), id="longer than k + 1"),
        pytest.param(lambda: sp.rate_from_length(0.999999, 4), id="shorter than 1"),
        pytest.param(lambda: sp.rate_from_draft_acceptance(0.5, 0), id="accepted of none"),
        pytest.param(lambda: sp.lengths_from_rate(Interval(0.5, 0.4, 1.1, 0.8)), id="an upper bound above 1"),
        pytest.param(lambda: sp.lengths_from_rate(Interval(1.1, 0.4, 1.0, 0.8)), id="a value above 1"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, -1, 1, (1,))), id="a first token before its time"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, -1, (1,))), id="a token before its time"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, 1, (1,), -1)), id="an overhead below 0"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, 1, (1, 0))), id="a pass that takes no time"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 1, 1, (1.00001,))), id="v(1) is nearly t"),
        pytest.param(lambda: plan_of(0.5, 0.1, most_tokens=-1), id="an engine's cap below 0"),
        pytest.param(lambda: plan_of(0.5, 0.1, num_spec_tokens=4, most_tokens=3), id="k above the engine's cap"),
        pytest.param(lambda: sp.make_schedule([1.0], growing, (1 << 20) + 1), id="more batches than any"),
        pytest.param(
            lambda: sp.end_to_end(step_times(0.1), 4, 2.0, prefill=0, draft_prefill=0, num_tokens=0), id="no answer"
        ),
        pytest.param(
            lambda: sp.end_to_end(step_times(0.1), 4, 2.0, prefill=0, draft_prefill=-1, num_tokens=5), id="negative"
        ),
        pytest.param(
            lambda: sp.end_to_end(step_times(0.1), 4, 5.1, prefill=0, draft_prefill=0, num_tokens=5), id="τ above k + 1"
        ),
    ],
)
def test_values_beyond_the_bounds(call: Any) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint


def test_times_that_nearly_agree_are_taken() -> None:
    times = StepTimes(1, 0, 0, (1 + 1e-7, 2))
    assert sp.checked_times(times) is times


@pytest.mark.parametrize("excess", [0.0, 5e-10])
def test_a_length_may_end_a_rounding_beyond(excess: float) -> None:
    lengths = [Interval(1 - excess, 1 - excess, 1 + excess, 0.8), Interval(2 + excess, 1 - excess, 2 + excess, 0.8)]
    assert make_plan(lengths, step_times(0.1)).num_spec_tokens == 1


@pytest.mark.parametrize("lengths", [(0.9, 1.5, 1.6), (1.1, 1.5, 2.1), (1.2, 2.1, 2.1)])
def test_a_length_beyond_what_can_be_is_refused(lengths: tuple[float, float, float]) -> None:
    low, value, high = lengths
    with pytest.raises(UsageError):
        make_plan([Interval(1, 1, 1, 0.8), Interval(value, low, high, 0.8)], step_times(0.1))


def test_a_gain_that_may_be_nothing_has_no_lower_end() -> None:
    assert sp.widened(Interval(2.0, 0.0, 4.0, 0.8), 0.1) == (
        2.0,
        0.0,
        pytest.approx(2 * math.exp(math.hypot(math.log(2), 0.1))),
        0.8,
    )
    assert sp.widened(Interval(2.0, 1.0, 4.0, 0.8), 0.0) == pytest.approx((2.0, 1.0, 4.0, 0.8))


@pytest.mark.parametrize("last", [1, 2, 3, 4, 5, 8, 9, 100])
def test_a_schedule_finds_a_change_wherever_it_is(last: int) -> None:
    for change in range(1, last + 1):
        rows = sp.schedule_by(lambda batch, change=change: 3 if batch < change else 1, last)  # type: ignore[misc]
        assert rows == (((1, last, 1),) if change == 1 else ((1, change - 1, 3), (change, last, 1)))


def test_a_plan_without_a_schedule_was_not_asked_for_one() -> None:
    assert plan_of(0.7, 0.05, times_at=growing).schedule == plan_of(0.7, 0.05, max_num_seqs=4).schedule == ()


def test_a_schedule_goes_no_further_than_the_times() -> None:
    short = step_times(0.01, k_max=2)
    assert sp.make_schedule([1.0, 1.9, 2.7, 3.4], lambda batch: short, 4) == ((1, 4, 2),)
    assert sp.make_schedule([1.0, 1.9], lambda batch: short, 4, within=0.5) == ((1, 4, 0),)
    assert sp.make_schedule([1.0, 1.9, 2.7], lambda batch: short, 4, within=0.5) == ((1, 4, 1),)


@pytest.mark.parametrize(
    ("plans", "evidence", "decision"),
    [
        pytest.param([], "measured", ("do_not_speculate", "nothing drafts here", None, None), id="none"),
        pytest.param([], "roofline", ("do_not_speculate", "nothing drafts here", None, None), id="none, predicted"),
        pytest.param(
            [rated(1.5, 1.06, 1.9)],
            "measured",
            ("speculate", "surely more than 1.05x: 1.06 to 1.90", 0, None),
            id="surely above",
        ),
        pytest.param(
            [rated(1.5, 1.05, 1.9)], "measured", ("undecided", "the interval spans 1.05x", 0, 1), id="at the margin"
        ),
        pytest.param(
            [rated(1.01, 0.9, 1.04)],
            "measured",
            ("do_not_speculate", "no draft reaches 1.05x within its interval", None, None),
            id="surely below",
        ),
        pytest.param(
            [rated(1.01, 0.9, 1.05)], "measured", ("undecided", "the interval spans 1.05x", 0, 1), id="just reaching"
        ),
        pytest.param(
            [rated(1.0, 0.9, 1.2)], "roofline", ("do_not_speculate", "at best 1.00x is expected", 0, None), id="no gain"
        ),
        pytest.param(
            [rated(1.05, 0.99, 1.2)],
            "roofline",
            ("undecided", "1.05x is expected, too little to tell from none: measure it", 0, None),
            id="a gain of the margin that may be none",
        ),
        pytest.param(
            [rated(1.05, 1.0, 1.2)], "roofline", ("speculate", "1.05x is expected", 0, None), id="a gain of the margin"
        ),
        pytest.param(
            [rated(1.2, 0.9, 1.4), rated(1.2, 0.8, 1.5)],
            "roofline",
            ("speculate", "1.20x is expected", 0, None),
            id="the first of two",
        ),
        pytest.param(
            [rated(1.2, 1.1, 1.4), rated(1.2, 1.15, 1.5)],
            "measured",
            ("speculate", "surely more than 1.05x: 1.10 to 1.40", 0, None),
            id="the first of two, measured",
        ),
        pytest.param(
            [rated(1.02, 0.9, 1.4), rated(1.02, 0.8, 1.5)],
            "measured",
            ("undecided", "the interval spans 1.05x", 0, None),
            id="the first of two that are open",
        ),
        pytest.param(
            [rated(1.1, 1.06, 1.4)._replace(num_spec_tokens=0)],
            "roofline",
            ("do_not_speculate", "1.10x at best is no more than plain decoding gives", 0, None),
            id="a plan not to draft",
        ),
        pytest.param(
            [rated(1.1, 1.06, 1.4)._replace(num_spec_tokens=0)],
            "measured",
            ("undecided", "the interval spans 1.05x", 0, 1),
            id="a plan not to draft, measured",
        ),
    ],
)
def test_decisions_with_their_reasons(plans: list[Plan], evidence: str, decision: tuple[Any, ...]) -> None:
    found = sp.decide(plans, evidence, num_prompts=16 if decision[3] is not None else None)
    assert found == decision


@pytest.mark.parametrize(
    ("plans", "more"),
    [
        # Half-widths over the distance to 1.05, squared, times 16 prompts.
        pytest.param([rated(1.25, 0.85, 1.65)], 16 * 4 - 16, id="from above"),
        pytest.param([rated(1.25, 1.05, 1.65)], 1, id="at least one"),
        pytest.param([rated(1.25, 0.85, 1.65), rated(1.15, 0.85, 1.3)], 16 * 4 - 16, id="the nearest from above"),
        pytest.param([rated(0.85, 0.55, 1.25)], 16 * 4 - 16, id="from below"),
        pytest.param([rated(0.85, 0.55, 1.25), rated(0.95, 0.55, 1.25)], 16 * 9 - 16, id="the farthest from below"),
        pytest.param([rated(1.05, 0.85, 1.25), rated(0.85, 0.55, 1.25)], None, id="one at the margin"),
        pytest.param([rated(1.06, 0.86, 1.26)], 16 * 400 - 16, id="many"),
        pytest.param([rated(1.055, 0.865, 1.255)], None, id="more than anybody has"),
        pytest.param([rated(1.05 + 1e-9, 0.5, 1.5)], None, id="more than there are"),
    ],
)
def test_how_many_prompts_decide(plans: list[Plan], more: int | None) -> None:
    found = sp.decide(plans, "measured", num_prompts=16)
    assert found.action == "undecided"
    assert found.more_prompts == (None if more is None else pytest.approx(more, abs=1))


def test_a_given_k_alone_is_judged() -> None:
    rows = (sp.KRow(0, 1, 1, 1, 1), sp.KRow(1, 1.3, 0.99, 0.95, 1.03), sp.KRow(2, 1.6, 0.98, 0.8, 1.2))
    plan = Plan(2, 1.6, Interval(0.98, 0.8, 1.2, 0.95), rows, fixed=True)
    assert plan.drafting == plan.row(2) == rows[2]
    assert sp.decide([plan], "measured").action == "undecided"
    none = Plan(0, 1.0, Interval(1, 1, 1, 0.95), rows[:1], fixed=True)
    assert none.drafting is None
    assert sp.decide([none], "measured").reason == "nothing drafts here"


@pytest.mark.parametrize(("k", "ttft", "total"), [(0, 50.0, 330.0), (4, 55.0, 195.0)])
def test_a_draft_reads_the_prompt_where_there_is_one(k: int, ttft: float, total: float) -> None:
    whole = sp.end_to_end(step_times(0.1), k, 2.8 if k else 1.0, prefill=50, draft_prefill=5, num_tokens=280)
    assert (whole.ttft, whole.ttft_without, whole.total) == pytest.approx((ttft, 50.0, total))
    assert sp.end_to_end(step_times(0.1), 0, 1.0, prefill=0, draft_prefill=0, num_tokens=1).total == 1.0


def test_every_k_of_a_plan_that_chose_is_judged() -> None:
    rows = (sp.KRow(0, 1, 1, 1, 1), sp.KRow(1, 1.3, 1.01, 0.95, 1.03), sp.KRow(2, 1.6, 1.0, 0.8, 1.2))
    plan = Plan(1, 1.3, Interval(1.01, 0.95, 1.03, 0.95), rows)
    assert sp.decide([plan], "measured").action == "undecided"
    assert sp.decide([plan._replace(fixed=True)], "measured").action == "do_not_speculate"


# Where a condition begins to hold, and what a rounding may do.


@LAW
@given(at=st.floats(0, 3), low=st.floats(0, 1), high=st.floats(1, 3))
def test_the_least_value_is_found_to_the_last_bit(at: float, low: float, high: float) -> None:
    assert sp.least_where(lambda value: value >= at, low, high) == min(max(at, low), high)


@pytest.mark.parametrize(
    ("within", "value", "near"),
    [
        pytest.param(0.0, 1 - 0.9e-12, True, id="a rounding below the best"),
        pytest.param(0.0, 1 - 1.1e-12, False, id="more than a rounding"),
        pytest.param(0.02, 0.98 * (1 - 0.9e-12), True, id="a rounding below the room"),
        pytest.param(0.02, 0.98 * (1 - 1.1e-12), False, id="more than the room"),
    ],
)
def test_a_hair_of_room(within: float, value: float, near: bool) -> None:
    assert sp.choose([value, 1.0], within) == (0 if near else 1)


@pytest.mark.parametrize(
    ("call", "taken"),
    [
        pytest.param(lambda: sp.checked_times(StepTimes(1, 0, 0, (1 + 0.9e-6,))), True, id="v(1), a rounding"),
        pytest.param(lambda: sp.checked_times(StepTimes(1, 0, 0, (1 + 1.1e-6,))), False, id="v(1) is not t"),
        pytest.param(lambda: one_length(1 - 0.9e-9, 2), True, id="a length below 1, a rounding"),
        pytest.param(lambda: one_length(1 - 1.1e-9, 2), False, id="a length below 1"),
        pytest.param(lambda: one_length(1, 2 + 0.9e-9), True, id="a length above k + 1, a rounding"),
        pytest.param(lambda: one_length(1, 2 + 1.1e-9), False, id="a length above k + 1"),
        pytest.param(lambda: sp.checked_times(StepTimes(1e-300, 0, 0, (1e-300,))), True, id="hardly any time"),
        pytest.param(lambda: sp.checked_times(StepTimes(9e-301, 0, 0, (9e-301,))), False, id="less than that"),
        pytest.param(lambda: sp.checked_times(StepTimes(1e300, 0, 0, (1e300,))), True, id="a very long time"),
        pytest.param(lambda: sp.checked_times(StepTimes(1.1e300, 0, 0, (1.1e300,))), False, id="longer than that"),
        pytest.param(lambda: sp.checked_cost(1.1e300, "x"), False, id="a cost longer than that"),
        pytest.param(lambda: answered(1e12), True, id="a long answer"),
        pytest.param(lambda: answered(1.1e12), False, id="longer than that, too"),
        pytest.param(lambda: answered(1), True, id="an answer of one token"),
        pytest.param(lambda: answered(0.9), False, id="less than a token"),
        pytest.param(lambda: sp.schedule_by(lambda batch: 1, 1 << 20), True, id="a million batches"),
        pytest.param(lambda: sp.schedule_by(lambda batch: 1, (1 << 20) + 1), False, id="one more"),
    ],
)
def test_how_far_beyond_a_bound_is_a_rounding(call: Any, taken: bool) -> None:
    if taken:
        assert call()
    else:
        with pytest.raises(UsageError):
            call()


def one_length(low: float, high: float) -> Plan:
    return make_plan([Interval(1, 1, 1, 0.8), Interval(1.5, low, high, 0.8)], step_times(0.1))


def answered(num_tokens: float) -> sp.EndToEnd:
    return sp.end_to_end(step_times(0.1), 4, 2.0, prefill=0, draft_prefill=0, num_tokens=num_tokens)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, 0, 0, (1, 2, 0))),
            "the time of a target pass over 3 positions is 0",
            id="v(3)",
        ),
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, 0, 0, (0,))),
            "the time of a target pass over 1 positions is 0",
            id="v(1)",
        ),
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, 0, 0, (2,))),
            "v(1) is 2, but the target's time per token is 1",
            id="v(1) and t",
        ),
        pytest.param(lambda: sp.checked_times(StepTimes(0, 0, 0, (1,))), "the target's time per token is 0", id="t"),
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, -1, 0, (1,))), "the time of the first drafted token is -1", id="first"
        ),
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, 0, -1, (1,))), "the time of a drafted token is -1", id="further"
        ),
        pytest.param(
            lambda: sp.checked_times(StepTimes(1, 0, 0, (1,), -1)), "the overhead per step is -1", id="overhead"
        ),
        pytest.param(lambda: sp.rate_from_length(3.5, 2), "the mean acceptance length is 3.5", id="length"),
        pytest.param(lambda: sp.rate_from_draft_acceptance(2.0, 2), "the draft acceptance rate is 2.0", id="share"),
        pytest.param(
            lambda: plan_of(0.5, 0.1, most_tokens=257), "the engine's largest num_spec_tokens is 257", id="cap"
        ),
        pytest.param(lambda: plan_of(0.5, 0.1, spread=-2), "the spread of the step time is -2", id="spread"),
        pytest.param(lambda: one_length(0.5, 2), "the mean acceptance length at k = 1 is 0.5", id="length at k"),
        pytest.param(lambda: step_times(0.1, k_max=300), "num_spec_tokens is 300", id="k"),
    ],
)
def test_what_is_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.message == said


def test_an_engine_may_cap_at_as_many_as_any_drafts() -> None:
    assert len(plan_of(0.5, 0.1, most_tokens=256).by_k) == 9


@pytest.mark.parametrize("reach", [1, 3, 8])
def test_a_plan_and_its_schedule_reach_as_far_as_lengths_and_times(reach: int) -> None:
    """A draft that is never wrong and costs nothing: as many tokens as can be looked at."""
    sure = Interval(1.0, 1.0, 1.0, 0.8)
    options: dict[str, Any] = {"times_at": lambda batch: step_times(0.0), "max_num_seqs": 4}
    for plan in (
        make_plan(sp.lengths_from_rate(sure, reach), step_times(0.0), **options),
        make_plan(sp.lengths_from_rate(sure), step_times(0.0, k_max=reach), **options),
        make_plan(sp.lengths_from_rate(sure), step_times(0.0), most_tokens=reach, **options),
    ):
        assert [row.k for row in plan.by_k] == list(range(reach + 1))
        assert plan.num_spec_tokens == reach
        assert plan.schedule == ((1, 4, reach),)
    given_k = make_plan(sp.lengths_from_rate(sure), step_times(0.0), num_spec_tokens=reach)
    assert (given_k.num_spec_tokens, given_k.fixed, given_k.schedule) == (reach, True, ())


@pytest.mark.parametrize(
    ("distance", "more"),
    [
        # Sixteen prompts with a half-width of 0.25; what is left to the margin has to be as wide as that.
        pytest.param(0.25 / 24.9, 16 * 24.9**2 - 16, id="just below ten thousand"),
        pytest.param(0.25 / 25.0, 10_000 - 16, id="ten thousand"),
        pytest.param(0.25 / 25.1, None, id="just above"),
        pytest.param(1e-15, None, id="far above"),
    ],
)
def test_more_than_ten_thousand_prompts_decide_nothing(distance: float, more: float | None) -> None:
    value = 1.05 + distance
    found = sp.decide([rated(value, value - 0.25, value + 0.25)], "measured", num_prompts=16)
    assert (found.action, found.more_prompts) == ("undecided", None if more is None else pytest.approx(more, abs=1))


@pytest.mark.parametrize(("half", "mostly"), [(0.2, True), (0.21, True), (0.214, False), (0.3, False)])
def test_timings_outweigh_texts_from_half_of_the_variance_on(half: float, mostly: bool) -> None:
    """A spread of 0.15 makes a half-width of 0.2121 alone as wide again in squares as all that is left."""
    row = sp.KRow(1, 1.5, 1.0, math.exp(-half), math.exp(half))
    assert sp.mostly_of_timings(row, 0.15) is mostly


def test_the_numbers_that_were_chosen() -> None:
    chosen = {choice.name: choice.value for choice in sp.CHOICES}
    assert chosen == {"plan.within": 0.02, "plan.margin": 0.05, "plan.most-tokens": 8, "plan.most-prompts": 10_000}
    assert tuple(chosen.values()) == (sp.WITHIN, sp.MARGIN, sp.DEFAULT_MOST_TOKENS, sp.MOST_PROMPTS)
