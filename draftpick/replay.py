"""Replay of traces: what every k, acceptance rule, adaptive policy and draft-free method would have done on a text.

A trace holds text that the target itself wrote and, for every token, what the draft made of it. Whatever was drafted,
the target's text keeps its distribution, so one pass of the draft over it measures every k (Leviathan et al. 2023,
arXiv 2211.17192). Starts are counted from 0 in here: start t drafts tokens[t], tokens[t+1], …

Two figures are kept apart: *engine-like* ones use only blocks whose drafted positions all lie in the text, as an
engine's counters do; *visible* ones count all steps of an answer of that length.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from draftpick.errors import UsageError
from draftpick.intervals import Sums, checked_level, ratio_interval
from draftpick.speedup import (
    DEFAULT_MOST_TOKENS,
    MOST_TOKENS,
    Interval,
    Plan,
    StepTimes,
    checked_times,
    make_plan,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEW_PROMPTS = 8
FEW_TOKENS = 500
"""Below either, figures are of low confidence."""

_ROUNDING = 0.01
"""By how much a logarithm of a probability may exceed 0, summed in half precision."""

_CELLS = 4_000_000
"""Survival probabilities held at once: 32 MB."""


# Traces.


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """One answer of the target: a column per fact, an entry per emitted token. Absent columns are None or empty."""

    prompt: str
    """Which prompt it answers. Answers of one prompt are one unit of every interval."""
    tokens: Ints
    """The ids the target emitted."""
    draft_top: Ints | None = None
    """The draft's most probable id given the emitted text before."""
    draft_top_prob: Floats | None = None
    """Its probability in the draft."""
    target_prob_of_draft_top: Floats | None = None
    """Its probability in the target, after the target's processors."""
    log_p: Floats | None = None
    """ln p of the emitted token, after the target's processors."""
    log_q: Mapping[float, Floats] = field(default_factory=dict)
    """Draft temperature → ln q of the emitted token, never clipped."""
    overlap: Mapping[float, Floats] = field(default_factory=dict)
    """Draft temperature → Σ min(p, q)."""
    prompt_ids: Ints | None = None
    domain: str = ""
    """The stratum the prompt was drawn from."""
    ended: str = "length"
    """stop or length."""

    def __post_init__(self) -> None:
        for name, column in self._columns():
            if column.ndim != 1 or len(column) != len(self.tokens):
                raise UsageError(
                    f"{self.prompt}: column {name} has shape {column.shape} for {self.tokens.size} tokens",
                    hint="Every column of an answer has one entry per emitted token.",
                )
            if column.dtype.kind == "f" and bool(np.isnan(column).any()):
                raise UsageError(
                    f"{self.prompt}: column {name} holds NaN", hint="Measure this answer again: its logits are broken."
                )
            if name.startswith("log_") and bool((column > _ROUNDING).any()):
                raise UsageError(
                    f"{self.prompt}: column {name} holds a probability above 1",
                    hint="Logarithms of probabilities are 0 or less.",
                )
        if self.log_p is not None and bool(np.isneginf(self.log_p).any()):
            raise UsageError(
                f"{self.prompt}: an emitted token has probability 0 in the target",
                hint="The text was not sampled from this target with these processors.",
            )

    def _columns(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        yield "tokens", self.tokens
        for name in ("draft_top", "draft_top_prob", "target_prob_of_draft_top", "log_p"):
            column = getattr(self, name)
            if column is not None:
                yield name, column
        for temperature, column in self.log_q.items():
            yield f"log_q at {temperature}", column
        for temperature, column in self.overlap.items():
            yield f"overlap at {temperature}", column


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Answers of one target with one draft's columns, made in one way."""

    answers: tuple[Answer, ...]
    first: int = 2
    """The first drafted position s: 2 where the prefill emits the first token (vLLM), 1 where it does not."""
    eos_ids: frozenset[int] = frozenset()
    processors: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Everything that shaped p: temperature, top_k, top_p, penalties."""

    def __post_init__(self) -> None:
        if self.first not in (1, 2):
            raise UsageError(f"the first drafted position is {self.first!r}", hint="Give 1 or 2.")
        if not self.answers:
            raise UsageError("the trace holds no answer", hint="Measure at least one prompt.")

    @property
    def num_prompts(self) -> int:
        return len({answer.prompt for answer in self.answers})

    @property
    def num_tokens(self) -> int:
        return sum(len(answer.tokens) for answer in self.answers)

    @property
    def low_confidence(self) -> bool:
        """Too few prompts or tokens to be relied on."""
        return self.num_prompts < FEW_PROMPTS or self.num_tokens < FEW_TOKENS


def answer_from_matches(prompt: str, matches: Iterable[bool], domain: str = "") -> Answer:
    """An answer of which only is known whether each emitted token was the draft's first choice."""
    matched = np.fromiter(matches, dtype=bool)
    return Answer(prompt, np.zeros(matched.size, np.int64), np.where(matched, 0, -1).astype(np.int64), domain=domain)


class Acceptance(NamedTuple):
    """How the draft proposes and how its block is verified."""

    sampled: bool = False
    """The draft samples from q ("probabilistic"); otherwise it proposes its first choice."""
    draft_temperature: float = 1.0
    """Which q, for a sampled draft. transformers applies the target's temperature twice: ask for its square."""
    block: bool = False
    """Block verification instead of token by token. The same thing for a draft that proposes its first choice."""


GREEDY_DRAFT = Acceptance()


def log_ratios(answer: Answer, rule: Acceptance) -> Floats:
    """ln(q/p) of every emitted token, unclipped; for a first-choice draft 0 where it matches and -inf elsewhere.

    Raises UsageError where the trace lacks the column.
    """
    if not rule.sampled:
        return np.where(_column(answer.draft_top, "draft_top", answer) == answer.tokens, 0.0, -np.inf)
    log_q = _column(answer.log_q.get(rule.draft_temperature), f"log_q at {rule.draft_temperature}", answer)
    ratios: Floats = log_q - _column(answer.log_p, "log_p", answer)
    return ratios


def _column(column: npt.NDArray[Any] | None, name: str, answer: Answer) -> npt.NDArray[Any]:
    if column is None:
        raise UsageError(
            f"{answer.prompt}: the trace has no column {name}", hint="Measure again, storing what this rule needs."
        )
    return column


class _Units(NamedTuple):
    """Prompts in order of appearance, and which of them each answer belongs to."""

    prompts: tuple[str, ...]
    strata: tuple[str, ...]
    owner: Ints

    def sums(self, per_answer: Floats) -> Floats:
        """Rows of answers added up to rows of prompts."""
        total = np.zeros((len(self.prompts), *per_answer.shape[1:]))
        np.add.at(total, self.owner, per_answer)
        return total


def _units(trace: Trace) -> _Units:
    places: dict[str, int] = {}
    strata: list[str] = []
    index = np.empty(len(trace.answers), np.int64)
    for number, answer in enumerate(trace.answers):
        if answer.prompt not in places:
            places[answer.prompt] = len(places)
            strata.append(answer.domain)
        index[number] = places[answer.prompt]
    return _Units(tuple(places), tuple(strata), index)


def acceptance_rate(
    trace: Trace, rule: Acceptance = GREEDY_DRAFT, *, smooth: bool = False, level: float = 0.95
) -> Interval | None:
    """α: the mean of the acceptance column over all positions where drafting may happen.

    `smooth` averages what the column expects at each position instead, Σ min(p, q) or p(first choice): for sampled
    text the same mean with less noise, and of no use in a replay. Raises UsageError where the trace lacks the column.
    """
    return ratio_interval(acceptance_sums(trace, rule, smooth=smooth), level, (0.0, 1.0))


def acceptance_sums(trace: Trace, rule: Acceptance = GREEDY_DRAFT, *, smooth: bool = False) -> Sums:
    """α by prompt: what was accepted, and how many positions there were. Raises UsageError as `acceptance_rate`."""
    units = _units(trace)
    sums = np.zeros((len(trace.answers), 2))
    for number, answer in enumerate(trace.answers):
        column = _smooth_column(answer, rule) if smooth else np.exp(np.minimum(log_ratios(answer, rule), 0.0))
        sums[number] = column[trace.first - 1 :].sum(), len(column[trace.first - 1 :])
    pooled = units.sums(sums)
    return Sums(units.prompts, units.strata, pooled[:, 0], pooled[:, 1])


def _smooth_column(answer: Answer, rule: Acceptance) -> npt.NDArray[Any]:
    if rule.sampled:
        return _column(answer.overlap.get(rule.draft_temperature), f"overlap at {rule.draft_temperature}", answer)
    return _column(answer.target_prob_of_draft_top, "target_prob_of_draft_top", answer)


# The replay of fixed lengths: expectations, no draws.


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """What drafting k tokens at every step does on a trace, by prompt."""

    k: int
    prompts: tuple[str, ...]
    strata: tuple[str, ...]
    reached: Floats
    """[prompt, i]: expected complete blocks that accept i tokens or more; i = 0 counts the blocks themselves."""
    visible_tokens: Floats
    visible_steps: Floats

    @property
    def num_drafts(self) -> float:
        """Expected number of complete blocks."""
        return float(self.reached[:, 0].sum())

    @property
    def lengths(self) -> Sums:
        """Tokens emitted over steps, in complete blocks: for intervals and paired comparisons."""
        return self._sums(self.reached.sum(axis=1), self.reached[:, 0])

    @property
    def visible(self) -> Sums:
        """Tokens emitted over all steps, incomplete last blocks included."""
        return self._sums(self.visible_tokens, self.visible_steps)

    def mean_acceptance_length(self, level: float = 0.95) -> Interval | None:
        """τ as an engine's counters show it; None where no block is complete."""
        return ratio_interval(self.lengths, level, (1.0, self.k + 1.0))

    def visible_length(self, level: float = 0.95) -> Interval | None:
        """Tokens per step that a user gets for answers of these lengths, incomplete last blocks included."""
        return ratio_interval(self.visible, level, (0.0, self.k + 1.0))

    def draft_acceptance_rate(self, level: float = 0.95) -> Interval | None:
        """Accepted / drafted. It falls with k by construction and is not α."""
        return ratio_interval(self._sums(self._accepted, self.k * self.reached[:, 0]), level, (0.0, 1.0))

    def conditional_rate(self, level: float = 0.95) -> Interval | None:
        """Accepted / tested, where tested adds the steps stopped by a rejection: what an engine's counters give."""
        stopped = self.reached[:, 0] - self.reached[:, -1]
        return ratio_interval(self._sums(self._accepted, self._accepted + stopped), level, (0.0, 1.0))

    @property
    def marginal_rates(self) -> tuple[float | None, ...]:
        """Accepted at position j over all blocks, for j = 1 … k."""
        blocks, *reached = self.reached.sum(axis=0).tolist()
        return tuple(value / blocks if blocks > 0 else None for value in reached)

    @property
    def conditional_rates(self) -> tuple[float | None, ...]:
        """Accepted at position j over the blocks that reached j, for j = 1 … k."""
        reached = self.reached.sum(axis=0).tolist()
        return tuple(after / before if before > 0 else None for before, after in pairwise(reached))

    @property
    def histogram(self) -> tuple[float, ...]:
        """Expected number of complete blocks that accept exactly 0, 1, … k tokens."""
        reached = self.reached.sum(axis=0)
        return tuple((reached - np.append(reached[1:], 0.0)).tolist())

    @property
    def _accepted(self) -> Floats:
        accepted: Floats = self.reached[:, 1:].sum(axis=1)
        return accepted

    def _sums(self, y: Floats, x: Floats) -> Sums:
        return Sums(self.prompts, self.strata, y, x)


def replay(
    trace: Trace, rule: Acceptance = GREEDY_DRAFT, ks: Sequence[int] = tuple(range(DEFAULT_MOST_TOKENS + 1))
) -> dict[int, Replayed]:
    """Every k of `ks` replayed on the trace. All use the same starts, those complete for the largest k.

    Raises UsageError for an impossible k or a column the trace lacks.
    """
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= MOST_TOKENS:
            raise UsageError(f"num_spec_tokens is {k!r}", hint=f"Give whole numbers from 0 to {MOST_TOKENS}.")
    units = _units(trace)
    horizon = max(ks)
    reached = {k: np.zeros((len(trace.answers), k + 1)) for k in ks}
    steps = {k: np.zeros(len(trace.answers)) for k in ks}
    for numbers in _batches(trace, horizon):
        ratios = [log_ratios(trace.answers[number], rule) for number in numbers]
        sizes = np.array([len(row) for row in ratios])
        survival = _survival(_padded(ratios), horizon, rule.block)
        for k in ks:
            weights = _start_weights(survival[:, :, : k + 1], trace.first - 1)
            starts = np.arange(weights.shape[1])
            steps[k][numbers] = np.where(starts < sizes[:, None], weights, 0.0).sum(axis=1)
            complete = np.where(starts <= sizes[:, None] - horizon, weights, 0.0)
            complete[starts >= sizes[:, None]] = 0.0
            reached[k][numbers] = np.einsum("at,ati->ai", complete, survival[:, :, : k + 1])
    emitted = np.array([max(len(answer.tokens) - trace.first + 1, 0) for answer in trace.answers], np.float64)
    return {
        k: Replayed(k, units.prompts, units.strata, units.sums(reached[k]), units.sums(emitted), units.sums(steps[k]))
        for k in ks
    }


def _batches(trace: Trace, horizon: int) -> Iterator[Ints]:
    """Numbers of the answers, those of like length together, as many as memory allows at once."""
    order = sorted(range(len(trace.answers)), key=lambda number: len(trace.answers[number].tokens))
    batch: list[int] = []
    for number in order:
        cells = (len(batch) + 1) * len(trace.answers[number].tokens) * (horizon + 1)
        if batch and cells > _CELLS:
            yield np.array(batch)
            batch = []
        batch.append(number)
    yield np.array(batch)


def _padded(rows: Sequence[Floats]) -> Floats:
    """Rows below each other; behind a row's end nothing is accepted."""
    table = np.full((len(rows), max(len(row) for row in rows)), -np.inf)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _survival(log_ratio: Floats, k: int, block: bool) -> Floats:
    """[answer, start, i]: the chance that a block from that start accepts i tokens or more, given the text."""
    answers, size = log_ratio.shape
    survival = np.zeros((answers, size, k + 1))
    survival[:, :, 0] = 1.0
    log_product = np.zeros((answers, size))
    clipped = np.minimum(log_ratio, 0.0)
    for i in range(1, min(k, size) + 1):
        starts = size - i + 1
        term = (log_ratio if block else clipped)[:, i - 1 :]
        log_product = log_product[:, :starts] + term
        chance = np.exp(np.minimum(log_product, 0.0))
        # Block verification: the running minimum of the product; token by token: the product of the minima.
        survival[:, :starts, i] = np.minimum(survival[:, :starts, i - 1], chance)
    return survival


def _start_weights(survival: Floats, first: int) -> Floats:
    """[answer, start]: the chance that a block starts there, from the first drafted position on."""
    answers, size, k = survival.shape[0], survival.shape[1], survival.shape[2] - 1
    accepts = survival.copy()
    accepts[:, :, :k] -= survival[:, :, 1:]
    weights = np.zeros((answers, size + k + 1))
    weights[:, first : first + 1] = 1.0
    for start in range(first, size):
        weights[:, start + 1 : start + k + 2] += weights[:, start, None] * accepts[:, start]
    return weights[:, :size]


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


class BatchTable(FixedLength):
    """The k of a schedule (from, to, k) at one batch size, as engines with batch tables use it; 0 beyond its rows."""

    def __init__(self, rows: Sequence[tuple[int, int, int]], batch: int) -> None:
        _whole(batch, "the batch size", 1, most=10**6)
        super().__init__(next((k for low, high, k in rows if low <= batch <= high), 0))


class ConfidenceStop(NamedTuple):
    """Stop drafting when the draft's own probability of what it drafted falls below a threshold.

    Known exactly for what gets accepted. Behind a miss the draft would have gone on in a text nobody recorded:
    how much it wasted there is an estimate from the recorded text.
    """

    threshold: float = 0.4
    keep: bool = True
    """The token that triggers is still verified (transformers); otherwise it is dropped (llama.cpp's p-min)."""


def _whole(value: int, name: str, least: int, most: int = MOST_TOKENS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} is {value!r}", hint=f"Give a whole number from {least} to {most}.")
    return value


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
    drafted_is_estimate: bool = False
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

    def length_of_drafts(self, level: float = 0.95) -> Interval | None:
        """Tokens per step that had a draft: what vLLM's counters show, which leave the others out."""
        drafts = self.counts[:, 2]
        return ratio_interval(self._sums(drafts + self.counts[:, 4], drafts), level, (1.0, math.inf))

    def visible_length(self, level: float = 0.95) -> Interval | None:
        """Tokens per step for answers of these lengths, incomplete last blocks included."""
        return ratio_interval(self.visible, level, (0.0, math.inf))

    def draft_acceptance_rate(self, level: float = 0.95) -> Interval | None:
        """Accepted / drafted; None where nothing was drafted."""
        return ratio_interval(self._sums(self.counts[:, 4], self.counts[:, 3]), level, (0.0, 1.0))

    @property
    def wasted(self) -> float:
        """Tokens drafted for nothing, per step; an estimate where `drafted_is_estimate`."""
        steps = float(self.counts[:, 1].sum())
        return float((self.counts[:, 3] - self.counts[:, 4]).sum()) / steps if steps else 0.0

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
    if passes == 0 and drafted == 0:
        return times.target
    drafting = times.draft_first + (passes - 1) * times.draft if passes else 0.0
    return drafting + times.verify[drafted] + times.overhead


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
        survival = _survival(ratios[None, :], most, block=True)[0]
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
    confidence = _column(answer.draft_top_prob, "draft_top_prob", answer)
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
        self._units = _units(trace)
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


class Lookup(Protocol):
    """A method that drafts from the text so far."""

    def proposals(self, ids: Sequence[int], begin: int, k: int) -> Iterator[Sequence[int]]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end], at most k tokens."""


class NgramLookup(NamedTuple):
    """The longest n-gram at the end of the text, its earliest occurrence before, and what followed there (vLLM)."""

    min_n: int = 5
    max_n: int = 5
    stop_ids: frozenset[int] = frozenset()
    """A proposal is cut before the first of these."""

    def proposals(self, ids: Sequence[int], begin: int, k: int) -> Iterator[Sequence[int]]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end], at most k tokens."""
        if not 1 <= self.min_n <= self.max_n:
            raise UsageError(
                f"n-grams of {self.min_n} to {self.max_n} tokens", hint="Give 1 or more, the smaller number first."
            )
        follows: dict[tuple[int, ...], int] = {}
        for end in range(1, len(ids)):
            # An n-gram is known from the moment something follows it: those that end one token back.
            for n in range(self.min_n, min(self.max_n, end - 1) + 1):
                follows.setdefault(tuple(ids[end - 1 - n : end - 1]), end - 1)
            if end >= begin:
                yield self._cut(ids[(place := self._find(ids, end, follows)) : min(place + k, end)])

    def _find(self, ids: Sequence[int], end: int, follows: Mapping[tuple[int, ...], int]) -> int:
        for n in range(min(self.max_n, end), self.min_n - 1, -1):
            place = follows.get(tuple(ids[end - n : end]))
            if place is not None:
                return place
        return end

    def _cut(self, proposal: Sequence[int]) -> Sequence[int]:
        for place, token in enumerate(proposal):
            if token in self.stop_ids:
                return proposal[:place]
        return proposal


def prompt_lookup(max_n: int = 2, stop_ids: frozenset[int] = frozenset()) -> NgramLookup:
    """The variant of transformers: n-grams of `max_n` tokens down to one, cut at the first end-of-text token."""
    return NgramLookup(1, max_n, stop_ids)


@dataclass(slots=True, eq=False)
class _Node:
    """Of the tree of all n-grams of a text: how often it occurs, and what followed, in order of first sight."""

    count: int = 0
    children: dict[int, _Node] = field(default_factory=dict)


class SuffixLookup(NamedTuple):
    """Suffix decoding with the request's own tree alone: no cache of other requests.

    Where two continuations are equally frequent the engine's choice is unspecified; here the first seen is taken.
    """

    max_depth: int = 24
    max_spec_factor: float = 1.0
    """Tokens drafted per matched token."""
    min_token_prob: float = 0.1

    def proposals(self, ids: Sequence[int], begin: int, k: int) -> Iterator[Sequence[int]]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end], at most k tokens."""
        root = _Node()
        active: deque[_Node] = deque(maxlen=self.max_depth)
        for end in range(1, len(ids)):
            active.append(root)
            root.count += 1
            for place, node in enumerate(active):
                child = node.children.setdefault(ids[end - 1], _Node())
                child.count += 1
                active[place] = child
            if end >= begin:
                yield self._best(active, k)

    def _best(self, active: deque[_Node], k: int) -> list[int]:
        best: list[int] = []
        best_score = 0.0
        # The last nodes are those of the shortest matches; where two score alike the longer match wins.
        for matched in range(1, len(active) + 1):
            most = min(k, int(matched * self.max_spec_factor + 1e-6))
            proposal, score = self._follow(active[-matched], most)
            if score >= best_score:
                best, best_score = proposal, score
        return best

    def _follow(self, node: _Node, most: int) -> tuple[list[int], float]:
        """The likeliest way on from a node, and its expected number of hits."""
        proposal: list[int] = []
        score, chance = 0.0, 1.0
        while len(proposal) < most and node.children:
            token, child = max(node.children.items(), key=lambda item: item[1].count)
            chance *= child.count / node.count
            if chance < self.min_token_prob:
                break
            proposal.append(token)
            score += chance
            node = child
        return proposal, score


def walk_lookup(trace: Trace, lookup: Lookup, k: int, *, horizon: int | None = None) -> Walked:
    """Replay a draft-free method with at most k tokens per step. Looking up counts as one pass of the draft.

    Raises UsageError where the trace lacks the prompts' ids.
    """
    _whole(k, "num_spec_tokens", 1)
    tally = _Tally(trace, k if horizon is None else _whole(horizon, "the horizon", k), estimate=False)
    for number, answer in enumerate(trace.answers):
        prompt = _column(answer.prompt_ids, "prompt_ids", answer)
        ids: list[int] = [*prompt.tolist(), *answer.tokens.tolist()]
        tally.add(number, _lookup_blocks(lookup, ids, len(prompt), trace.first - 1, k))
    return tally.walked()


def _lookup_blocks(lookup: Lookup, ids: list[int], before: int, first: int, k: int) -> Iterator[_Block]:
    start = first
    begin = max(before + first, 1)
    for end, proposal in enumerate(lookup.proposals(ids, begin, k), begin):
        if end - before < start:
            continue
        accepted = 0
        for drafted, emitted in zip(proposal, ids[end : end + len(proposal)], strict=False):
            if drafted != emitted:
                break
            accepted += 1
        yield _Block(end - before, 1, len(proposal), accepted)
        start = end - before + accepted + 1


# Choosing k from a trace.


def plan_from_trace(
    trace: Trace,
    times: StepTimes,
    rule: Acceptance = GREEDY_DRAFT,
    *,
    k_max: int = DEFAULT_MOST_TOKENS,
    timings: Sequence[StepTimes] = (),
    level: float = 0.95,
    **options: Any,
) -> Plan:
    """The plan for measured acceptance and measured times, with intervals over prompts.

    `timings` are resamples of the times: their spread widens the intervals. `options` go to `make_plan`.
    Raises UsageError where no answer is as long as a block.
    """
    k_max = min(k_max, times.most_tokens)
    lengths = [
        length
        for replayed in replay(trace, rule, range(k_max + 1)).values()
        if (length := replayed.mean_acceptance_length(level)) is not None
    ]
    if len(lengths) <= k_max:
        raise UsageError(
            f"no answer of the trace is long enough for {k_max} drafted tokens",
            hint="Measure longer answers, or look at fewer tokens.",
        )
    spread = [timing_spread(timings, k, level) for k in range(k_max + 1)]
    return make_plan(lengths, times, spread=spread, **options)


def timing_spread(timings: Sequence[StepTimes], k: int, level: float = 0.95) -> float:
    """Half-width, at that level, of ln(step time / target time) over resampled timings; 0 where there are none."""
    if len(timings) < 2 or k == 0:
        return 0.0
    logs = [math.log(times.step(k) / times.target) for times in timings]
    tail = (1 - checked_level(level)) / 2
    low, high = np.quantile(logs, [tail, 1 - tail]).tolist()
    return float(high - low) / 2
