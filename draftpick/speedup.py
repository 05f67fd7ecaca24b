"""What drafting gains: mean acceptance length, speed-up, the choice of k, batch schedules, and the decision.

Plain arithmetic on the start-up path. Names: `rate` is α, the chance that a drafted token is accepted; `k` tokens are
drafted before each verification; the mean acceptance length τ counts the target's own token too (1 ≤ τ ≤ k+1); `target`
is the time t of a one-token pass of the target, `draft` the time d of one drafted token, `verify` the times v(m).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from draftpick.choices import Choice
from draftpick.errors import UsageError
from draftpick.pair import MEASURED

MOST_TOKENS = 256
"""The largest k any function here takes; no engine drafts as many."""

CHOICES: tuple[Choice, ...] = (
    Choice("plan.within", 0.02, "the smallest k this near the best costs least under load; it loses 0.1 % on average"),
    Choice("plan.margin", 0.05, "a gain below 5 % does not repay a second model that must be loaded and served"),
    Choice("plan.most-tokens", 8, "the best k of nearly every published pair is at most 8"),
    Choice("plan.most-prompts", 10_000, "where more prompts than this would be needed, no number decides in practice"),
)
_CHOSEN = {choice.name: choice.value for choice in CHOICES}
WITHIN = _CHOSEN["plan.within"]
MARGIN = _CHOSEN["plan.margin"]
DEFAULT_MOST_TOKENS = int(_CHOSEN["plan.most-tokens"])
MOST_PROMPTS = int(_CHOSEN["plan.most-prompts"])


class Interval(NamedTuple):
    """A value with its interval. `level` is the share of such intervals that hold the truth: 0.80 or 0.95."""

    value: float
    low: float
    high: float
    level: float


def rescaled(interval: Interval, level: float) -> Interval:
    """An interval at another level, half-widths taken as those of a normal distribution."""
    if interval.level == level:
        return interval
    factor = _quantile(level) / _quantile(interval.level)
    low, value, high = interval.low, interval.value, interval.high
    return Interval(value, value - (value - low) * factor, value + (high - value) * factor, level)


def _quantile(level: float) -> float:
    """Of the normal distribution: what an interval of that level reaches, in standard deviations."""
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + min(max(level, 0.01), 0.9999)) / 2)


class StepTimes(NamedTuple):
    """The times of one step, all in one unit and at one batch size."""

    target: float
    """t: a one-token pass of the target."""
    draft_first: float
    """The first drafted token, which also ingests the tokens just verified."""
    draft: float
    """d: every further drafted token; 0 for drafts that propose all tokens in one pass."""
    verify: tuple[float, ...]
    """v(1), v(2), … v(k_max+1): a pass of the target over that many positions. v(1) is `target`."""
    overhead: float = 0.0
    """o: what speculation adds per step to the plain engine's own overhead, which is inside `target`."""

    @property
    def most_tokens(self) -> int:
        """The largest k these times speak of."""
        return len(self.verify) - 1

    def step(self, k: int) -> float:
        """Time of one step that drafts k tokens, in the unit of the times; k = 0 is the plain engine's step.

        Raises UsageError for a k these times do not reach.
        """
        if k == 0:
            return self.target
        _tokens(k, "num_spec_tokens", self.most_tokens)
        return self.draft_first + (k - 1) * self.draft + self.verify[k] + self.overhead


class KRow(NamedTuple):
    """What one k gives."""

    k: int
    mean_acceptance_length: float
    speedup: float
    low: float
    high: float


class Plan(NamedTuple):
    """The k to use and what it gives. `speedup` is of decoding; 1 with no width for k = 0."""

    num_spec_tokens: int
    mean_acceptance_length: float
    speedup: Interval
    by_k: tuple[KRow, ...]
    schedule: tuple[tuple[int, int, int], ...] = ()
    """(from, to, k): the k for every batch size from … to. Empty where it was not asked for."""
    fixed: bool = False
    """The k was given, not chosen."""

    def row(self, k: int) -> KRow:
        """What k tokens give, for a k that was looked at."""
        return next(row for row in self.by_k if row.k == k)

    @property
    def drafting(self) -> KRow | None:
        """The row the decision is about: the plan's k, or the best k ≥ 1 where the plan is not to draft."""
        if self.num_spec_tokens:
            return self.row(self.num_spec_tokens)
        return max(self.by_k[1:], key=lambda row: row.speedup, default=None)


class Decision(NamedTuple):
    """What to do, and why in one clause."""

    action: str
    """speculate, do_not_speculate or undecided."""
    reason: str
    plan: int | None = None
    """Index of the plan to speculate with, or of the nearest to deciding; None where none drafts."""
    more_prompts: int | None = None
    """How many more prompts would decide, where that can be said."""


class EndToEnd(NamedTuple):
    """A whole request with and without a draft, in the unit of the times given."""

    speedup: float
    total: float
    total_without: float
    ttft: float
    ttft_without: float


# Values that can be meant.


def _number(value: float, name: str, low: float, high: float, allowed: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise UsageError(f"{name} is {value!r}", hint=f"Give {allowed}.")
    return float(value)


def checked_rate(value: float, name: str = "the acceptance rate") -> float:
    """A share from 0 to 1, unchanged. Raises UsageError naming the range."""
    return _number(value, name, 0.0, 1.0, "a number from 0 to 1")


def checked_cost(value: float, name: str) -> float:
    """A time or a cost, 0 or more and finite, unchanged. Raises UsageError naming the range."""
    return _number(value, name, 0.0, 1e300, "a finite number, 0 or more")


def typed_times(draft_cost: float, verify_cost: float, overhead: float, most: int) -> StepTimes:
    """A step of up to `most` drafted tokens whose costs somebody typed, in plain steps of the target.

    `verify_cost` is that of the pass over the drafted tokens, taken as the same for every number of them. Raises
    UsageError naming the range: beyond it no quotient of two costs could be kept.
    """
    for value, name in ((draft_cost, "the draft cost ratio"), (overhead, "the overhead per step")):
        _number(value, name, 0.0, 1e15, "a number of plain steps, 0 or more, up to 1e15")
    _number(
        verify_cost, "the verify cost", 1e-6, 1e15, "it in plain steps of the target, 1e-6 to 1e15: 1 is as one token"
    )
    return StepTimes(1.0, draft_cost, draft_cost, (1.0,) + (verify_cost,) * most, overhead)


def _positive(value: float, name: str) -> float:
    return _number(value, name, 1e-300, 1e300, "a finite number above 0")


def _tokens(k: int, name: str = "num_spec_tokens", most: int = MOST_TOKENS) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= most:
        raise UsageError(f"{name} is {k!r}", hint=f"Give a whole number from 0 to {most}.")
    return k


# Acceptance.


def mean_acceptance_length(rate: float, k: int) -> float:
    """τ(k) = (1−α^(k+1))/(1−α): tokens per step, for independent acceptances with chance `rate`.

    Real acceptance comes in runs, so this serves only where nothing was measured. Raises UsageError.
    """
    checked_rate(rate)
    length = 1.0
    # The sum itself, not the fraction: exact at rate 1, and never falling in k or in the rate by rounding.
    for _ in range(_tokens(k)):
        length = 1.0 + rate * length
    return length


def rate_from_length(length: float, k: int) -> float:
    """The rate α whose closed form gives this mean acceptance length at k. Raises UsageError unless 1 ≤ τ ≤ k+1."""
    if _tokens(k) == 0:
        raise UsageError("num_spec_tokens is 0, which says nothing of acceptance", hint="Give k as 1 or more.")
    _number(length, "the mean acceptance length", 1.0, k + 1.0, f"a number from 1 to {k + 1} (k + 1) at k = {k}")
    return least_where(lambda rate: mean_acceptance_length(rate, k) >= length, 0.0, 1.0)


def rate_from_draft_acceptance(draft_acceptance_rate: float, k: int) -> float:
    """The rate α behind accepted / drafted at k: the solution of α(1−α^k)/(k(1−α)) = that share. Raises UsageError."""
    share = checked_rate(draft_acceptance_rate, "the draft acceptance rate")
    return rate_from_length(min(1.0 + share * _tokens(k), k + 1.0), k)


def least_where(reached: Callable[[float], bool], low: float, high: float) -> float:
    """The least value in [low, high] at which a rising condition holds, to the last bits; `high` where none does."""
    if reached(low):
        return low
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def lengths_from_rate(rate: Interval, k_max: int = DEFAULT_MOST_TOKENS) -> tuple[Interval, ...]:
    """τ with its interval for k = 0 … k_max, from a rate with its interval."""
    low, value, high = (checked_rate(bound) for bound in (rate.low, rate.value, rate.high))
    return tuple(
        Interval(
            mean_acceptance_length(value, k),
            mean_acceptance_length(low, k),
            mean_acceptance_length(high, k),
            rate.level,
        )
        for k in range(_tokens(k_max) + 1)
    )


# Times.


def step_times(
    draft_cost: float, verify_cost: float = 0.0, overhead: float = 0.0, k_max: int = DEFAULT_MOST_TOKENS
) -> StepTimes:
    """Times in units of t, from the draft cost ratio c = d/t.

    `verify_cost` is what each further verified position adds to the target's pass, `overhead` what a step adds.
    Raises UsageError for negative values.
    """
    checked_cost(draft_cost, "the draft cost ratio")
    checked_cost(verify_cost, "the verify cost per token")
    checked_cost(overhead, "the overhead per step")
    verify = tuple(1.0 + verify_cost * extra for extra in range(_tokens(k_max) + 1))
    return StepTimes(1.0, draft_cost, draft_cost, verify, overhead)


def checked_times(times: StepTimes) -> StepTimes:
    """The same times. Raises UsageError where one is negative, no number, or where v(1) is not t."""
    _positive(times.target, "the target's time per token")
    checked_cost(times.draft_first, "the time of the first drafted token")
    checked_cost(times.draft, "the time of a drafted token")
    checked_cost(times.overhead, "the overhead per step")
    if not times.verify:
        raise UsageError("no verification times", hint="Give v(1) … v(k_max+1), starting with the target's own time.")
    for positions, value in enumerate(times.verify, 1):
        _positive(value, f"the time of a target pass over {positions} positions")
    if not math.isclose(times.verify[0], times.target, rel_tol=1e-6):
        raise UsageError(
            f"v(1) is {times.verify[0]}, but the target's time per token is {times.target}",
            hint="A pass over one position is a plain step: both are the same number.",
        )
    return times


# Speed-up.


def speedup(length: float, times: StepTimes, k: int) -> float:
    """Decoding speed with a draft over speed without: τ·t / step(k); 1 for k = 0."""
    return 1.0 if k == 0 else length * times.target / times.step(k)


def break_even_rate(times: StepTimes, k: int) -> float | None:
    """The rate α above which drafting k tokens gains; None where even α = 1 does not."""
    if _tokens(k, most=times.most_tokens) == 0:
        return None
    step = times.step(k)

    def gains(rate: float) -> bool:
        return mean_acceptance_length(rate, k) * times.target >= step

    return least_where(gains, 0.0, 1.0) if gains(1.0) else None


def break_even_draft_cost(length: float, times: StepTimes, k: int) -> float | None:
    """The largest draft cost ratio c at which k tokens with this τ lose nothing; None where even c = 0 loses."""
    if _tokens(k, most=times.most_tokens) == 0:
        return None
    spare = (length * times.target - times.verify[k] - times.overhead) / (k * times.target)
    return spare if spare >= 0 else None


def choose(speedups: Sequence[float], within: float = WITHIN) -> int:
    """The smallest k whose speed-up is within that share of the best. `speedups[k]`, from k = 0 on."""
    best = max(speedups)
    # A hair of room: ratios that are equal on paper must not differ by a rounding.
    return next(k for k, value in enumerate(speedups) if value >= best * (1 - within) * (1 - 1e-12))


def end_to_end(
    times: StepTimes, k: int, length: float, *, prefill: float, draft_prefill: float, num_tokens: int
) -> EndToEnd:
    """A request of `num_tokens` answer tokens: (P + N·t) / (P + P_draft + (N/τ)·step), and the time to first token.

    `prefill` and `draft_prefill` are the times of the prompt in target and draft, in the unit of the times.
    """
    checked_cost(prefill, "the target's prefill time")
    checked_cost(draft_prefill, "the draft's prefill time")
    _number(num_tokens, "the number of answer tokens", 1, 1e12, "a whole number, 1 or more")
    _number(length, "the mean acceptance length", 1.0, k + 1.0, f"a number from 1 to {k + 1} (k + 1)")
    added = draft_prefill if k else 0.0
    without = prefill + num_tokens * times.target
    total = prefill + added + num_tokens / length * times.step(k)
    return EndToEnd(without / total, total, without, prefill + added, prefill)


# The plan.


def make_plan(
    lengths: Sequence[Interval],
    times: StepTimes,
    *,
    num_spec_tokens: int | None = None,
    most_tokens: int | None = None,
    spread: float | Sequence[float] = 0.0,
    times_at: Callable[[int], StepTimes] | None = None,
    max_num_seqs: int | None = None,
    within: float = WITHIN,
) -> Plan:
    """Choose k, or take `num_spec_tokens`, and say what it gives.

    `lengths[k]` is τ with its interval for k = 0 … k_max; `times` reach as far or less; `most_tokens` is the engine's
    cap. `spread` is the half-width of ln(step time), at the level of the lengths: one number, or one per k.
    With `times_at` (batch → times) and `max_num_seqs` the plan has a schedule too.
    Raises UsageError for impossible values and for a given k beyond the reach.
    """
    reach = min(len(lengths) - 1, checked_times(times).most_tokens)
    if most_tokens is not None:
        reach = min(reach, _tokens(most_tokens, "the engine's largest num_spec_tokens"))
    rows = tuple(_row(k, lengths[k], times, _spread(spread, k)) for k in range(reach + 1))
    if num_spec_tokens is None:
        k = choose([row.speedup for row in rows], within)
    else:
        k = _tokens(num_spec_tokens, most=reach)
    row = rows[k]
    schedule: tuple[tuple[int, int, int], ...] = ()
    if times_at is not None and max_num_seqs is not None:
        schedule = make_schedule([length.value for length in lengths[: reach + 1]], times_at, max_num_seqs, within)
    interval = Interval(row.speedup, row.low, row.high, lengths[0].level)
    return Plan(k, row.mean_acceptance_length, interval, rows, schedule, num_spec_tokens is not None)


def _spread(spread: float | Sequence[float], k: int) -> float:
    value = spread if isinstance(spread, (int, float)) else spread[k]
    return checked_cost(value, "the spread of the step time")


def _row(k: int, length: Interval, times: StepTimes, spread: float) -> KRow:
    for bound in (length.low, length.value, length.high):
        # Sums of rates may end a rounding beyond k + 1.
        _number(bound, f"the mean acceptance length at k = {k}", 1 - 1e-9, k + 1 + 1e-9, f"1 to {k + 1} (k + 1)")
    if k == 0:
        return KRow(0, 1.0, 1.0, 1.0, 1.0)
    gain = speedup(length.value, times, k)
    below, above = _half_widths(length, spread)
    return KRow(k, length.value, gain, gain * math.exp(-below), gain * math.exp(above))


def widened(value: Interval, spread: float) -> Interval:
    """The interval of a positive number with the spread of the step times in it (half-width of ln(time))."""
    below, above = _half_widths(value, spread)
    return value._replace(low=value.value * math.exp(-below), high=value.value * math.exp(above))


def _half_widths(value: Interval, spread: float) -> tuple[float, float]:
    """Of ln(value), below and above: errors of acceptance and of times are independent, so they add in squares."""
    below = math.log(value.value / value.low) if value.low > 0 else math.inf
    return math.hypot(below, spread), math.hypot(math.log(value.high / value.value), spread)


def make_schedule(
    lengths: Sequence[float], times_at: Callable[[int], StepTimes], max_num_seqs: int, within: float = WITHIN
) -> tuple[tuple[int, int, int], ...]:
    """(from, to, k) for the batch sizes 1 … max_num_seqs, without gaps; τ is taken not to depend on the batch."""

    def k_at(batch: int) -> int:
        times = times_at(batch)
        reach = min(len(lengths) - 1, times.most_tokens)
        return choose([speedup(lengths[k], times, k) for k in range(reach + 1)], within)

    return schedule_by(k_at, max_num_seqs)


def schedule_by(k_at: Callable[[int], int], max_num_seqs: int) -> tuple[tuple[int, int, int], ...]:
    """(from, to, k) for the batch sizes 1 … max_num_seqs, from the k of one batch size.

    It is asked for at powers of two and where k changes between them.
    """
    _number(max_num_seqs, "max_num_seqs", 1, 1 << 20, f"a whole number from 1 to {1 << 20:,}")
    known: dict[int, int] = {}

    def known_k(batch: int) -> int:
        if batch not in known:
            known[batch] = k_at(batch)
        return known[batch]

    def locate(low: int, high: int) -> None:
        if known_k(low) != known_k(high) and high - low > 1:
            middle = (low + high) // 2
            locate(low, middle)
            locate(middle, high)

    low = 1
    while low < max_num_seqs:
        high = min(low * 2, max_num_seqs)
        locate(low, high)
        low = high
    return _segments(max_num_seqs, known_k(1), known)


def _segments(last: int, first_k: int, known: dict[int, int]) -> tuple[tuple[int, int, int], ...]:
    rows: list[tuple[int, int, int]] = []
    start, k = 1, first_k
    for batch in sorted(known):
        if known[batch] != k:
            rows.append((start, batch - 1, k))
            start, k = batch, known[batch]
    return (*rows, (start, last, k))


# The decision.


def mostly_of_timings(row: KRow, spread: float) -> bool:
    """Whether the step times, known to `spread` (half-width of ln(time)), make a speed-up unsure more than texts do."""
    return row.low > 0 and 2 * spread**2 > (math.log(row.high / row.low) / 2) ** 2


def decide(plans: Sequence[Plan], evidence: str, *, margin: float = MARGIN, num_prompts: int | None = None) -> Decision:
    """Speculate, do not, or undecided, for the plans of all drafts of one target.

    Measured and served evidence decides by the interval: all of it above 1 + margin, or for every draft and k below.
    Weaker evidence decides by the value; it is undecided where the value gains less than the margin and the interval
    spans 1. `num_prompts` is what the interval rests on, for saying how many more would decide.
    """
    checked_cost(margin, "the margin")
    if evidence in MEASURED:
        return _decide_measured(plans, 1 + margin, num_prompts)
    return _decide_predicted(plans, 1 + margin)


def _decide_predicted(plans: Sequence[Plan], wanted: float) -> Decision:
    drafting = [(row, index) for index, plan in enumerate(plans) if (row := plan.drafting) is not None]
    if not drafting:
        return Decision("do_not_speculate", "nothing drafts here")
    row, index = max(drafting, key=lambda pair: (pair[0].speedup, -pair[1]))
    if row.speedup <= 1:
        return Decision("do_not_speculate", f"at best {row.speedup:.2f}x is expected", index)
    if row.speedup <= wanted and row.low < 1:
        return Decision("undecided", f"{row.speedup:.2f}x is expected, too little to tell from none: measure it", index)
    if plans[index].num_spec_tokens == 0:
        return Decision("do_not_speculate", f"{row.speedup:.2f}x at best is no more than plain decoding gives", index)
    return Decision("speculate", f"{row.speedup:.2f}x is expected", index)


def _decide_measured(plans: Sequence[Plan], wanted: float, num_prompts: int | None) -> Decision:
    drafting = [(row, index) for index, plan in enumerate(plans) if (row := plan.drafting) is not None]
    if not drafting:
        return Decision("do_not_speculate", "nothing drafts here")
    sure = [pair for pair in drafting if pair[0].low > wanted and plans[pair[1]].num_spec_tokens > 0]
    if sure:
        row, index = max(sure, key=lambda pair: (pair[0].speedup, -pair[1]))
        return Decision("speculate", f"surely more than {wanted:.2f}x: {row.low:.2f} to {row.high:.2f}", index)
    open_rows = [(row, index) for index, plan in enumerate(plans) for row in _rows(plan) if row.high >= wanted]
    if not open_rows:
        return Decision("do_not_speculate", f"no draft reaches {wanted:.2f}x within its interval")
    _, index = max(drafting, key=lambda pair: (pair[0].speedup, -pair[1]))
    more = _more_prompts([row for row, _ in drafting], [row for row, _ in open_rows], wanted, num_prompts)
    return Decision("undecided", f"the interval spans {wanted:.2f}x", index, more)


def _rows(plan: Plan) -> tuple[KRow, ...]:
    return (plan.row(plan.num_spec_tokens),) if plan.fixed and plan.num_spec_tokens else plan.by_k[1:]


def _more_prompts(
    drafting: Sequence[KRow], open_rows: Sequence[KRow], wanted: float, num_prompts: int | None
) -> int | None:
    """Half-widths fall with the square root of the prompts: one draft must rise above, or all rows sink below."""
    if not num_prompts:
        return None
    above = [row for row in drafting if row.speedup > wanted]
    if above:
        factor = min((row.speedup - row.low) / (row.speedup - wanted) for row in above)
    elif all(row.speedup < wanted for row in open_rows):
        factor = max((row.high - row.speedup) / (wanted - row.speedup) for row in open_rows)
    else:
        return None
    needed = num_prompts * factor * factor
    return max(math.ceil(needed) - num_prompts, 1) if needed <= MOST_PROMPTS else None
