"""Replay of traces: what every k and acceptance rule would have done on a text.

A trace holds text that the target itself wrote and, for every token, what the draft made of it. Whatever was drafted,
the target's text keeps its distribution, so one pass of the draft over it measures every k (Leviathan et al. 2023,
arXiv 2211.17192). Starts are counted from 0 in here: start t drafts tokens[t], tokens[t+1], …

Two figures are kept apart: *engine-like* ones use only blocks whose drafted positions all lie in the text, as an
engine's counters do; *visible* ones count all steps of an answer of that length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from draftpick.errors import UsageError
from draftpick.intervals import Sums, ratio_interval
from draftpick.speedup import (
    DEFAULT_MOST_TOKENS,
    MOST_TOKENS,
    Interval,
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
        return np.where(column_of(answer.draft_top, "draft_top", answer) == answer.tokens, 0.0, -np.inf)
    log_q = column_of(answer.log_q.get(rule.draft_temperature), f"log_q at {rule.draft_temperature}", answer)
    ratios: Floats = log_q - column_of(answer.log_p, "log_p", answer)
    return ratios


def column_of(column: npt.NDArray[Any] | None, name: str, answer: Answer) -> npt.NDArray[Any]:
    """The column, which a rule needs. Raises UsageError where the trace lacks it."""
    if column is None:
        raise UsageError(
            f"{answer.prompt}: the trace has no column {name}", hint="Measure again, storing what this rule needs."
        )
    return column


class Units(NamedTuple):
    """Prompts in order of appearance, and which of them each answer belongs to."""

    prompts: tuple[str, ...]
    strata: tuple[str, ...]
    owner: Ints

    def sums(self, per_answer: Floats) -> Floats:
        """Rows of answers added up to rows of prompts."""
        total = np.zeros((len(self.prompts), *per_answer.shape[1:]))
        np.add.at(total, self.owner, per_answer)
        return total


def units_of(trace: Trace) -> Units:
    """The prompts of a trace, which are the units of every interval."""
    places: dict[str, int] = {}
    strata: list[str] = []
    index = np.empty(len(trace.answers), np.int64)
    for number, answer in enumerate(trace.answers):
        if answer.prompt not in places:
            places[answer.prompt] = len(places)
            strata.append(answer.domain)
        index[number] = places[answer.prompt]
    return Units(tuple(places), tuple(strata), index)


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
    units = units_of(trace)
    sums = np.zeros((len(trace.answers), 2))
    for number, answer in enumerate(trace.answers):
        column = _smooth_column(answer, rule) if smooth else np.exp(np.minimum(log_ratios(answer, rule), 0.0))
        sums[number] = column[trace.first - 1 :].sum(), len(column[trace.first - 1 :])
    pooled = units.sums(sums)
    return Sums(units.prompts, units.strata, pooled[:, 0], pooled[:, 1])


def _smooth_column(answer: Answer, rule: Acceptance) -> npt.NDArray[Any]:
    if rule.sampled:
        return column_of(answer.overlap.get(rule.draft_temperature), f"overlap at {rule.draft_temperature}", answer)
    return column_of(answer.target_prob_of_draft_top, "target_prob_of_draft_top", answer)


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
    units = units_of(trace)
    horizon = max(ks)
    reached = {k: np.zeros((len(trace.answers), k + 1)) for k in ks}
    steps = {k: np.zeros(len(trace.answers)) for k in ks}
    for numbers in _batches(trace, horizon):
        ratios = [log_ratios(trace.answers[number], rule) for number in numbers]
        sizes = np.array([len(row) for row in ratios])
        survival = survival_of(_padded(ratios), horizon, rule.block)
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


def survival_of(log_ratio: Floats, k: int, block: bool) -> Floats:
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
