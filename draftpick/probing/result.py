"""What a trace and its timings say: acceptance, every k, the choice of k, doubts, and whether to go on measuring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from draftpick import intervals, replay
from draftpick.choices import PROBE
from draftpick.lookup import Lookup, NgramLookup, SuffixLookup, prompt_lookup
from draftpick.probing.trace import Row, as_trace
from draftpick.replay import (
    GREEDY_DRAFT,
    Acceptance,
    Replayed,
    Trace,
)
from draftpick.speedup import MARGIN, Decision, Interval, Plan, StepTimes, decide, make_plan, widened
from draftpick.walks import walk_lookup

LEVEL = 0.95


class Drafts(NamedTuple):
    """How the draft proposes: the name people use, that of the probe file, and the rule of the replay."""

    name: str
    rule: Acceptance
    key: Literal["first_choice", "sampled", "sampled_twice", "sampled_block"]


def proposals(temperature: float) -> tuple[Drafts, ...]:
    """The ways to draft for text of one temperature, the usual one of engines first."""
    first_choice = Drafts("the draft's first choice", GREEDY_DRAFT, "first_choice")
    if temperature == 0:
        return (first_choice,)
    # As the columns of a trace are named, so that 0.7 squared is found at 0.49.
    heat, squared = float(f"{temperature:g}"), float(f"{temperature**2:g}")
    twice = Drafts(
        f"sampled at {squared:g} (transformers: the temperature acts twice)",
        Acceptance(sampled=True, draft_temperature=squared),
        "sampled_twice",
    )
    return (
        first_choice,
        Drafts(f"sampled at {heat:g}", Acceptance(sampled=True, draft_temperature=heat), "sampled"),
        *([twice] if squared != heat else []),
        Drafts(f"sampled at {heat:g}, block verification", Acceptance(True, heat, block=True), "sampled_block"),
    )


def usual(temperature: float, engine: str, known: Sequence[Drafts] = ()) -> Drafts:
    """How drafts are proposed in an engine where nobody says otherwise; `known`: of these ways alone."""
    known = known or proposals(temperature)
    sampled = [one for one in known if one.key in ("sampled", "sampled_twice")]
    # The last: at the square of the temperature, which at 1 is the temperature.
    return sampled[-1] if engine == "transformers" and temperature > 0 and sampled else known[0]


def measurable(rows: Sequence[Row], draft: str, temperature: float) -> tuple[Drafts, ...]:
    """The ways to draft of which rows tell something: servers do not give the probabilities of every way."""
    known = [row for row in rows if row.temperature == temperature and row.tokens and row.log_p is not None][:1]
    heats = {float(heat) for row in known for heat in row.drafts[draft].log_q}
    return tuple(way for way in proposals(temperature) if not way.rule.sampled or way.rule.draft_temperature in heats)


def first_position(engine: str) -> int:
    """The first drafted position: transformers drafts before the target's first pass, the others behind it."""
    return 1 if engine == "transformers" else 2


class Priced(NamedTuple):
    """What steps with a draft cost, and how surely."""

    times: StepTimes
    spread: float = 0.0
    """Half-width of ln(step time)."""


@dataclass(frozen=True)
class Measured:
    """What one draft does for one kind of text."""

    draft: str
    temperature: float
    way: Drafts
    trace: Trace = field(repr=False)
    rate: Interval
    """α."""
    by_k: Mapping[int, Replayed]
    """From 0 on; empty where no answer is as long as a block."""
    level: float = LEVEL

    @property
    def k_max(self) -> int:
        return max(self.by_k, default=0)

    @property
    def lengths(self) -> list[Interval]:
        """τ with its interval for k = 0 … k_max."""
        found = (one.mean_acceptance_length(self.level) for one in self.by_k.values())
        return [length for length in found if length is not None]

    def plan(self, times: StepTimes, *, k: int | None = None, spread: Sequence[float] = (0.0,)) -> Plan | None:
        """The choice of k with these costs; None where no answer is as long as a block."""
        lengths = self.lengths
        if len(lengths) < 2:
            return None
        reach = min(len(lengths) - 1, times.most_tokens)
        widths = [*spread, *[spread[-1]] * reach][: reach + 1]
        return make_plan(lengths[: reach + 1], times, num_spec_tokens=k, spread=widths)

    def priced(self, costs: Priced, *, k: int | None = None) -> Plan | None:
        """The choice of k, with the spread of the costs in its interval."""
        return self.plan(costs.times, k=k, spread=(0.0, costs.spread))

    def by_domain(self) -> dict[str, tuple[Interval, int]]:
        """α and the number of prompts of each domain."""
        found: dict[str, tuple[Interval, int]] = {}
        for domain in sorted({answer.domain for answer in self.trace.answers}):
            part = tuple(answer for answer in self.trace.answers if answer.domain == domain)
            trace = replay.Trace(part, first=self.trace.first, eos_ids=self.trace.eos_ids)
            rate = replay.acceptance_rate(trace, self.way.rule, smooth=_smooths(trace, self.way.rule))
            if rate is not None:
                found[domain or "unnamed"] = (rate, trace.num_prompts)
        return found


def measured(
    rows: Sequence[Row],
    draft: str,
    temperature: float,
    way: Drafts,
    *,
    k_max: int,
    first: int,
    eos_ids: frozenset[int] = frozenset(),
    level: float = LEVEL,
) -> Measured:
    """Replay every k on the answers at one temperature.

    Answers shorter than the longest block hold no complete one; where none is long enough, fewer k are looked at.
    """
    trace = as_trace(rows, draft, temperature, first=first, eos_ids=eos_ids)
    rate = replay.acceptance_rate(trace, way.rule, smooth=_smooths(trace, way.rule))
    longest = max(len(answer.tokens) for answer in trace.answers) - first + 1
    reach = min(k_max, longest)
    by_k = replay.replay(trace, way.rule, range(reach + 1)) if reach >= 1 else {}
    return Measured(draft, temperature, way, trace, rate or Interval(0.0, 0.0, 1.0, LEVEL), by_k, level)


def sums_by_prompt(rows: Sequence[Row], draft: str, temperature: float, way: Drafts, *, first: int) -> intervals.Sums:
    """α by prompt: what was accepted, and out of how many positions."""
    trace = as_trace(rows, draft, temperature, first=first)
    return replay.acceptance_sums(trace, way.rule, smooth=_smooths(trace, way.rule))


def _smooths(trace: Trace, rule: Acceptance) -> bool:
    """Whether the expectation at each position is known: the same mean as its draws, with less noise."""
    if rule.block:
        return False
    if rule.sampled:
        return all(rule.draft_temperature in answer.overlap for answer in trace.answers)
    return all(answer.target_prob_of_draft_top is not None for answer in trace.answers)


# ---------------------------------------------------------------------- methods without a draft

LOOKUPS: Mapping[str, Lookup] = {
    "ngram": NgramLookup(),
    "ngram of transformers": prompt_lookup(),
    "suffix": SuffixLookup(),
}
"""Each with its engine's defaults."""


class LookedUp(NamedTuple):
    """What a method without a draft does."""

    method: str
    k: int
    length: Interval | None
    """Tokens per step, steps without a draft included."""
    draft_acceptance_rate: Interval | None
    speedup: Interval | None
    """Of decoding, with the target's measured passes; None without them."""


def looked_up(trace: Trace, priced: Priced | None, k_max: int) -> list[list[LookedUp]]:
    """For each method that copies from the text a row for every k from 1 on that an answer is long enough for."""
    longest = max(len(answer.tokens) for answer in trace.answers) - trace.first + 1
    # A lookup takes microseconds; the software's own overhead per step is taken to be that of a draft's.
    free = priced.times._replace(draft_first=0.0, draft=0.0) if priced is not None else None
    found: list[list[LookedUp]] = []
    for method, lookup in LOOKUPS.items():
        rows: list[LookedUp] = []
        lengths = range(1, min(k_max, longest) + 1)
        for k, walked in zip(lengths, walk_lookup(trace, lookup, lengths, horizon=min(k_max, longest)), strict=True):
            gain = walked.speedup(free) if free is not None and free.most_tokens >= k else None
            if gain is not None and priced is not None:
                gain = widened(gain, priced.spread)
            # One prompt alone has no upper bound, but a step never gives more than k + 1 tokens.
            length, gain = _at_most(k + 1, walked.mean_acceptance_length()), _at_most(k + 1, gain)
            rows.append(LookedUp(method, k, length, walked.draft_acceptance_rate(), gain))
        rows = [row for row in rows if row.length is not None]
        if rows:
            found.append(rows)
    return found


def best_lookup(rows: Sequence[LookedUp]) -> LookedUp:
    """The best k of one method, by speed-up, or by length where nothing was timed."""
    # Where the costs reach fewer k, only those can be compared by speed-up.
    return max([row for row in rows if row.speedup is not None] or rows, key=_gain)


def _at_most(bound: float, value: Interval | None) -> Interval | None:
    return value._replace(high=max(min(value.high, bound), value.value)) if value is not None else None


def _gain(row: LookedUp) -> float:
    best = row.speedup or row.length
    assert best is not None, "rows without a length were left out"
    return best.value


# ---------------------------------------------------------------------- doubts


def doubts(found: Measured, suspect: str = "") -> list[str]:
    """What makes the figures of one draft unsure, in words; `suspect` says whose fault no acceptance may be here."""
    said: list[str] = []
    trace = found.trace
    if trace.low_confidence:
        counts = (
            (trace.num_prompts, replay.FEW_PROMPTS, "prompts"),
            (trace.num_tokens, replay.FEW_TOKENS, "tokens"),
        )
        few = [f"{found_} {what}, {needed} are needed" for found_, needed, what in counts if found_ < needed]
        said.append(f"low confidence: {'; '.join(few)}")
    if not found.by_k:
        return [*said, "no answer is long enough for one drafted token: nothing was measured"]
    short = sum(1 for answer in trace.answers if len(answer.tokens) < found.k_max + first_block(trace))
    if short > PROBE["short-answers"] * len(trace.answers):
        said.append(
            f"{short} of {len(trace.answers)} answers end before one block of {found.k_max} tokens is complete: "
            "the figures rest on the longer ones"
        )
    if found.rate.value < PROBE["near-zero"]:
        said.append(
            f"an acceptance rate of {found.rate.value:.3f} is more often a fault than a bad draft: compare on a CPU, "
            f"or in eager mode, and look at the tokenizers{f'; {suspect}' if suspect else ''}"
        )
    return said


def first_block(trace: Trace) -> int:
    """Tokens before the first drafted position."""
    return trace.first - 1


# ---------------------------------------------------------------------- going on


class Budget(NamedTuple):
    """When to stop measuring."""

    first_look: int
    precision: float
    """Half-width of the 95 % interval of α that is enough."""
    most_prompts: int | None = None
    most_seconds: float | None = None
    fixed: bool = False
    """Measure `most_prompts`, whatever they show: for gates and comparisons."""


def reason_to_stop(
    found: Sequence[Measured], costs: Mapping[str, Priced], num_prompts: int, seconds: float, budget: Budget
) -> str | None:
    """Why enough was measured, or None.

    Looking again and again makes intervals nominal: the answer says which reason ended the run.
    """
    if budget.most_prompts is not None and num_prompts >= budget.most_prompts:
        return f"all {num_prompts} prompts were used"
    if budget.most_seconds is not None and seconds >= budget.most_seconds:
        return f"the time limit of {budget.most_seconds:g} s was reached"
    if budget.fixed or num_prompts < budget.first_look or any(one.trace.low_confidence for one in found):
        return None
    if costs and all(
        _is_clear([one for one in found if one.temperature == heat], costs, num_prompts)
        for heat in {one.temperature for one in found}
    ):
        return f"the decision is clear after {num_prompts} prompts"
    widest = max(((one.rate.high - one.rate.low) / 2 for one in found), default=None)
    if widest is not None and widest <= budget.precision:
        return f"every acceptance rate is known within ±{widest:.3f} after {num_prompts} prompts"
    return None


def _is_clear(found: Sequence[Measured], costs: Mapping[str, Priced], num_prompts: int) -> bool:
    """Whether to speculate is decided, and no other draft may be clearly better than the one chosen."""
    plans = [(one, one.priced(costs[one.draft]) if one.draft in costs else None) for one in found]
    known = [(one, plan) for one, plan in plans if plan is not None]
    if not known or len(known) < len(plans):
        return False
    decision = decide([plan for _, plan in known], "measured", num_prompts=num_prompts)
    if decision.action != "speculate" or decision.plan is None:
        return decision.action == "do_not_speculate"
    best, plan = known[decision.plan]
    return all(one is best or not _may_beat(one, other, best, plan, costs) for one, other in known)


def _may_beat(one: Measured, plan: Plan, best: Measured, best_plan: Plan, costs: Mapping[str, Priced]) -> bool:
    """Whether, paired by prompt, a draft may be faster than the best by more than the margin."""
    if plan.drafting is None or best_plan.drafting is None:
        return False
    quotient = compared(one, plan, best, best_plan, costs)
    return quotient is None or quotient.high > 1 + MARGIN


def compared(
    one: Measured, plan: Plan, other: Measured, other_plan: Plan, costs: Mapping[str, Priced]
) -> Interval | None:
    """Speed of one draft over that of another, each at its best k, paired by prompt; None where they share none.

    The costs are taken as they are: the interval is of the texts alone.
    """
    row, other_row = plan.drafting, other_plan.drafting
    if row is None or other_row is None:
        return None
    quotient = intervals.paired_quotient(one.by_k[row.k].lengths, other.by_k[other_row.k].lengths)
    if quotient is None:
        return None
    step, other_step = (
        costs[which.draft].times.step(k) / costs[which.draft].times.target
        for which, k in ((one, row.k), (other, other_row.k))
    )
    factor = other_step / step
    return Interval(quotient.value * factor, quotient.low * factor, quotient.high * factor, quotient.level)


def decision(
    found: Sequence[Measured], plans: Sequence[Plan | None], num_prompts: int | None
) -> tuple[Decision, int | None]:
    """What measured drafts say together, and which of them it is about.

    Without `num_prompts` nothing is said of how many more would decide: where timings make the interval wide, none do.
    """
    known = [(place, plan) for place, plan in enumerate(plans) if plan is not None]
    if not known:
        return Decision("undecided", "no answer was long enough to hold a block"), None
    said = decide([plan for _, plan in known], "measured", num_prompts=num_prompts)
    return said, known[said.plan][0] if said.plan is not None else None


def spread_of(deviation: float, count: int) -> float:
    """Half-width of ln(time) at 95 %, from the distance of the quartiles over the median of `count` timings."""
    return 1.96 * 1.2533 * deviation / 1.349 / math.sqrt(max(count, 1))
