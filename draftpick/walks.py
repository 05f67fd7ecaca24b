"""Walks through traces: what an adaptive policy or a draft-free method would have done, step by step.

A replay of fixed lengths is an expectation over all starts; a policy remembers, so it must be walked. It sees what an
engine sees: drafted and accepted. Starts are counted from 0, as in `draftpick.replay`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from draftpick.errors import UsageError
from draftpick.intervals import Sums, ratio_interval
from draftpick.lookup import Lookup
from draftpick.replay import (
    GREEDY_DRAFT,
    Acceptance,
    Answer,
    Floats,
    Ints,
    Trace,
    column_of,
    log_ratios,
    survival_of,
    units_of,
)
from draftpick.speedup import (
    MOST_TOKENS,
    Interval,
    StepTimes,
    checked_times,
)


def _whole(value: int, name: str, least: int, most: int = MOST_TOKENS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} is {value!r}", hint=f"Give a whole number from {least} to {most}.")
    return value


# Policies: lengths that follow what happened. They see what an engine sees: drafted and accepted.


class Policy(Protocol):
    """How many tokens to draft next."""

    @property
    def most(self) -> int:
        """The most it ever drafts."""

    def begin(self) -> None:
        """A request starts."""

    def length(self) -> int:
        """Tokens to draft in the next step; 0 for a plain step."""

    def observe(self, drafted: int, accepted: int) -> None:
        """What became of the step."""


class FixedLength:
    """The same k at every step."""

    def __init__(self, k: int) -> None:
        self.most = _whole(k, "num_spec_tokens", 0)

    def begin(self) -> None:
        """Nothing to forget."""

    def length(self) -> int:
        return self.most

    def observe(self, drafted: int, accepted: int) -> None:
        """Nothing to learn."""


class RateRule:
    """One token more when the recent accepted share exceeds a bound, one fewer below another (the source text's rule).

    The text does not say what "recent" is: here the last `window` steps of the request.
    """

    def __init__(
        self,
        start: int = 5,
        least: int = 2,
        most: int = 8,
        raise_above: float = 0.70,
        lower_below: float = 0.40,
        window: int = 4,
    ) -> None:
        self.least = _whole(least, "the least num_spec_tokens", 1)
        self.most = _whole(most, "the largest num_spec_tokens", self.least)
        self.start = min(max(_whole(start, "the first num_spec_tokens", 1), self.least), self.most)
        if not 0 <= lower_below <= raise_above <= 1:
            raise UsageError(
                f"the bounds of the rate are {lower_below!r} and {raise_above!r}",
                hint="Give two numbers from 0 to 1, the lower one first.",
            )
        self.raise_above, self.lower_below = raise_above, lower_below
        self._recent: deque[tuple[int, int]] = deque(maxlen=_whole(window, "the window", 1))
        self._k = self.start

    def begin(self) -> None:
        self._recent.clear()
        self._k = self.start

    def length(self) -> int:
        return self._k

    def observe(self, drafted: int, accepted: int) -> None:
        self._recent.append((drafted, accepted))
        rate = sum(a for _, a in self._recent) / max(sum(d for d, _ in self._recent), 1)
        if rate > self.raise_above:
            self._k = min(self._k + 1, self.most)
        elif rate < self.lower_below:
            self._k = max(self._k - 1, self.least)


class HeuristicLength:
    """transformers' schedule: two more when all that was drafted matched, else one fewer, never below one.

    `transient` starts every request anew; otherwise the length is carried over. `most` bounds the replay alone:
    the schedule itself has no upper end.
    """

    def __init__(self, start: int = 20, *, transient: bool = False, most: int = 64) -> None:
        self.most = _whole(most, "the largest num_spec_tokens", 1)
        self.start = min(_whole(start, "the first num_spec_tokens", 1), self.most)
        self.transient = transient
        self._k = self.start

    def begin(self) -> None:
        if self.transient:
            self._k = self.start

    def length(self) -> int:
        return self._k

    def observe(self, drafted: int, accepted: int) -> None:
        self._k = min(self._k + 2, self.most) if accepted == drafted else max(self._k - 1, 1)


class ConfidenceStop(NamedTuple):
    """Stop drafting when the draft's own probability of what it drafted falls below a threshold.

    Known exactly for what gets accepted. Behind a miss the draft would have gone on in a text nobody recorded:
    how much it wasted there is an estimate from the recorded text.
    """

    threshold: float = 0.4
    keep: bool = True
    """The token that triggers is still verified (transformers); otherwise it is dropped (llama.cpp's p-min)."""


class _Block(NamedTuple):
    """One step: where it starts, passes of the draft, tokens verified, tokens accepted."""

    start: int
    passes: int
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What a policy or a draft-free method does on a trace, by prompt, added up over all walks of it."""

    prompts: tuple[str, ...]
    strata: tuple[str, ...]
    counts: Floats
    """[prompt, …]: tokens, steps, steps with a draft, drafted and accepted tokens, all in complete blocks."""
    visible_tokens: Floats
    visible_steps: Floats
    blocks: tuple[Mapping[tuple[int, int], float], ...]
    """By prompt: (passes of the draft, tokens verified) → complete blocks of that kind."""
    drafted_is_estimate: bool
    """Under a confidence stop the tokens drafted behind a miss are estimated."""

    @property
    def lengths(self) -> Sums:
        """Tokens over all steps, with or without a draft, in complete blocks."""
        return self._sums(self.counts[:, 0], self.counts[:, 1])

    @property
    def visible(self) -> Sums:
        """Tokens emitted over all steps, incomplete last blocks included."""
        return self._sums(self.visible_tokens, self.visible_steps)

    def mean_acceptance_length(self, level: float = 0.95) -> Interval | None:
        """Tokens per step over all steps, with or without a draft."""
        return ratio_interval(self.lengths, level, (1.0, math.inf))

    def visible_length(self, level: float = 0.95) -> Interval | None:
        """Tokens per step for answers of these lengths, incomplete last blocks included."""
        return ratio_interval(self.visible, level, (0.0, math.inf))

    def draft_acceptance_rate(self, level: float = 0.95) -> Interval | None:
        """Accepted / drafted; None where nothing was drafted."""
        return ratio_interval(self._sums(self.counts[:, 4], self.counts[:, 3]), level, (0.0, 1.0))

    def costs(self, times: StepTimes) -> Sums:
        """Tokens · t over the time of the steps: the speed-up as a ratio over prompts.

        Raises UsageError where a step verified more positions than the times know.
        """
        spent = [sum(number * _block_time(times, *kind) for kind, number in kinds.items()) for kinds in self.blocks]
        return self._sums(self.counts[:, 0] * times.target, np.array(spent))

    def speedup(self, times: StepTimes, level: float = 0.95) -> Interval | None:
        """The decoding speed-up with these costs, with its interval over prompts."""
        return ratio_interval(self.costs(checked_times(times)), level, (0.0, math.inf))

    def _sums(self, y: Floats, x: Floats) -> Sums:
        return Sums(self.prompts, self.strata, y, x)


def _block_time(times: StepTimes, passes: int, drafted: int) -> float:
    if drafted > times.most_tokens:
        raise UsageError(
            f"a step verified {drafted} drafted tokens, and the times end at {times.most_tokens}",
            hint="Measure or predict the target's pass for more positions, or bound the policy.",
        )
    if passes == 0:
        return times.target
    return times.draft_first + (passes - 1) * times.draft + times.verify[drafted] + times.overhead


def walk(
    trace: Trace,
    policy: Policy,
    rule: Acceptance = GREEDY_DRAFT,
    *,
    stop: ConfidenceStop | None = None,
    draws: int = 1,
    seed: int = 0,
    horizon: int | None = None,
) -> Walked:
    """Replay a policy. Fractional acceptances are drawn, `draws` times; for first-choice drafts one walk is exact.

    `horizon` is the number of positions that must lie in the text behind a start that counts as complete: the
    policy's largest length, or what makes policies comparable. Raises UsageError for a column the trace lacks.
    """
    rng = np.random.default_rng(seed)
    reach = policy.most if horizon is None else _whole(horizon, "the horizon", policy.most)
    tally = _Tally(trace, reach, estimate=stop is not None)
    for _ in range(_whole(draws, "the number of draws", 1, most=10**6) if rule.sampled else 1):
        for number, answer in enumerate(trace.answers):
            runs = _runs(answer, rule, policy.most, rng)
            stops = _distance_to_doubt(answer, stop) if stop is not None else None
            tally.add(number, _policy_blocks(policy, runs, stops, stop, trace.first - 1))
    return tally.walked()


def _runs(answer: Answer, rule: Acceptance, most: int, rng: np.random.Generator) -> Ints:
    """[start]: how many tokens a long enough block from there would accept, in one draw."""
    ratios = log_ratios(answer, rule)
    uniform = rng.random(len(ratios))
    if rule.sampled and rule.block:
        (survival,) = survival_of(ratios[None, :], most, block=True)
        runs: Ints = (survival[:, 1:] > uniform[:, None]).sum(axis=1)
        return runs
    # A position is tested at most once in a walk, so one draw for each will do.
    return _distance_to(uniform >= np.exp(np.minimum(ratios, 0.0)))


def _distance_to(marks: npt.NDArray[np.bool_]) -> Ints:
    """[start]: positions from there to the next mark, or to the end."""
    places = np.where(marks, np.arange(marks.size), marks.size)
    nearest: Ints = np.minimum.accumulate(places[::-1])[::-1] - np.arange(marks.size)
    return nearest


def _distance_to_doubt(answer: Answer, stop: ConfidenceStop) -> Ints:
    confidence = column_of(answer.draft_top_prob, "draft_top_prob", answer)
    return _distance_to(confidence < stop.threshold)


def _policy_blocks(
    policy: Policy, runs: Ints, stops: Ints | None, stop: ConfidenceStop | None, first: int
) -> Iterator[_Block]:
    policy.begin()
    start = first
    while start < runs.size:
        passes = drafted = policy.length()
        if stops is not None and stop is not None and stops[start] < drafted:
            passes = int(stops[start]) + 1
            drafted = passes if stop.keep else passes - 1
        accepted = min(int(runs[start]), drafted)
        yield _Block(start, passes, drafted, accepted)
        if drafted:
            policy.observe(drafted, accepted)
        start += accepted + 1


class _Tally:
    """Adds up the steps of walks by prompt."""

    def __init__(self, trace: Trace, horizon: int, *, estimate: bool) -> None:
        self._trace, self._horizon, self._estimate = trace, horizon, estimate
        self._units = units_of(trace)
        size = len(self._units.prompts)
        self._counts = np.zeros((size, 5))
        self._visible = np.zeros((size, 2))
        self._blocks: list[Counter[tuple[int, int]]] = [Counter() for _ in range(size)]

    def add(self, number: int, blocks: Iterable[_Block]) -> None:
        unit = int(self._units.owner[number])
        size = len(self._trace.answers[number].tokens)
        self._visible[unit, 0] += max(size - self._trace.first + 1, 0)
        for block in blocks:
            self._visible[unit, 1] += 1
            if block.start <= size - self._horizon:
                drafts = 1 if block.drafted else 0
                self._counts[unit] += (block.accepted + 1, 1, drafts, block.drafted, block.accepted)
                self._blocks[unit][block.passes, block.drafted] += 1

    def walked(self) -> Walked:
        units = self._units
        return Walked(
            units.prompts,
            units.strata,
            self._counts,
            self._visible[:, 0],
            self._visible[:, 1],
            tuple(self._blocks),
            self._estimate,
        )


# Draft-free methods, replayed on the ids of prompt and answer.


def walk_lookup(trace: Trace, lookup: Lookup, lengths: Sequence[int], *, horizon: int | None = None) -> list[Walked]:
    """Replay a draft-free method with at most so many tokens per step, for each of `lengths`. Looking up counts as one
    pass of the draft.

    Raises UsageError where the trace lacks the prompts' ids.
    """
    tallies = []
    for k in lengths:
        _whole(k, "num_spec_tokens", 1)
        tallies.append(_Tally(trace, k if horizon is None else _whole(horizon, "the horizon", k), estimate=False))
    for number, answer in enumerate(trace.answers):
        prompt = column_of(answer.prompt_ids, "prompt_ids", answer)
        ids: list[int] = [*prompt.tolist(), *answer.tokens.tolist()]
        blocks = _lookup_blocks(lookup, ids, len(prompt), trace.first - 1, lengths)
        for tally, found in zip(tallies, blocks, strict=True):
            tally.add(number, found)
    return [tally.walked() for tally in tallies]


def _lookup_blocks(
    lookup: Lookup, ids: list[int], before: int, first: int, lengths: Sequence[int]
) -> list[list[_Block]]:
    """The steps of one answer for each of `lengths`; the text is looked through once."""
    blocks: list[list[_Block]] = [[] for _ in lengths]
    starts = [first] * len(lengths)
    begin = max(before + first, 1)
    for end, propose in enumerate(lookup.proposers(ids, begin), begin):
        for place, k in enumerate(lengths):
            if end - before < starts[place]:
                continue
            proposal = propose(k)
            accepted = _agreeing(proposal, ids[end : end + len(proposal)])
            blocks[place].append(_Block(end - before, 1, len(proposal), accepted))
            starts[place] = end - before + accepted + 1
    return blocks


def _agreeing(drafted: Sequence[int], emitted: Sequence[int]) -> int:
    """Drafted tokens before the first that is another than the text's."""
    pairs = enumerate(zip(drafted, emitted, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(drafted), len(emitted)))
