"""Plans from evidence alone, without a pair: numbers that somebody measured elsewhere and types in."""

from __future__ import annotations

from typing import NamedTuple

from draftpick.errors import UsageError
from draftpick.speedup import (
    DEFAULT_MOST_TOKENS,
    Decision,
    Interval,
    Plan,
    StepTimes,
    break_even_rate,
    checked_rate,
    decide,
    lengths_from_rate,
    make_plan,
    rate_from_draft_acceptance,
    rate_from_length,
    typed_times,
)


class Numbers(NamedTuple):
    """What a user typed in, and what follows from it."""

    rate: float
    """α, the chance that a drafted token is accepted."""
    rate_from: str
    """Where α comes from, in words."""
    times: StepTimes
    """In units of the target's plain step."""
    plan: Plan
    decision: Decision
    break_even: float | None
    """The rate above which the plan's k (or k = 1) gains; None where no rate does."""

    @property
    def exit_code(self) -> int:
        """1: judged, and the answer is no."""
        return 1 if self.decision.action == "do_not_speculate" else 0


def plan_numbers(
    *,
    acceptance_rate: float | None = None,
    mean_acceptance_length: float | None = None,
    draft_acceptance_rate: float | None = None,
    draft_cost: float | None = None,
    verify_cost: float = 1.0,
    overhead: float = 0.0,
    num_spec_tokens: int | None = None,
) -> Numbers:
    """Choose k, or judge a given one, for one acceptance figure and costs in units of a plain step of the target.

    `verify_cost` is the target's pass over the drafted tokens, taken as the same for every k. A mean acceptance length
    or a draft acceptance rate holds at `num_spec_tokens`. Raises UsageError for impossible or missing numbers.
    """
    rate, source = _rate(acceptance_rate, mean_acceptance_length, draft_acceptance_rate, num_spec_tokens)
    if draft_cost is None:
        raise UsageError(
            "no draft cost was given", "say what a drafted token costs: --draft-cost 0.05, or 0 for n-gram"
        )
    most = max(DEFAULT_MOST_TOKENS, num_spec_tokens or 0)
    times = typed_times(draft_cost, verify_cost, overhead, most)
    lengths = lengths_from_rate(Interval(rate, rate, rate, 0.8), most)
    plan = make_plan(lengths, times, num_spec_tokens=num_spec_tokens)
    return Numbers(rate, source, times, plan, decide([plan], "rule"), break_even_rate(times, plan.num_spec_tokens or 1))


def _rate(rate: float | None, length: float | None, share: float | None, k: int | None) -> tuple[float, str]:
    given = [value for value in (rate, length, share) if value is not None]
    if len(given) != 1:
        raise UsageError(
            f"{len(given)} acceptance figures were given" if given else "no acceptance figure was given",
            "give one of --acceptance-rate, --mean-acceptance-length and --draft-acceptance-rate",
        )
    if rate is not None:
        return checked_rate(rate), "as given"
    if k is None:
        raise UsageError("this acceptance figure depends on k", "say at which k it was measured: -k 5")
    if length is not None:
        return rate_from_length(length, k), f"from a mean acceptance length of {length:g} at k = {k}"
    assert share is not None
    return rate_from_draft_acceptance(share, k), f"from {share:g} of the drafted tokens accepted at k = {k}"
