"""What a probe was asked for, and what came out: the same whether models ran here or behind servers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from draftpick.catalog import Catalog
from draftpick.choices import PROBE
from draftpick.probing import result, timing
from draftpick.probing.checks import Check
from draftpick.probing.device import CannotProbe, Place
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt, digest
from draftpick.probing.result import Budget, Drafts, Measured
from draftpick.probing.trace import Row, TraceFile, check_same, holds_answers, read
from draftpick.speedup import StepTimes


class ModelFiles(NamedTuple):
    """One model that is measured."""

    id: str
    weights: Path | None
    """The folder they lie in; None where a server has them."""
    identity: Mapping[str, Any]
    """What tells it from other models: revision, digests. It must agree when a trace is resumed."""

    @property
    def folder(self) -> Path:
        """Of a model that is loaded here."""
        assert self.weights is not None, "a served model has no folder"
        return self.weights


class Request(NamedTuple):
    """What to measure."""

    target: ModelFiles
    drafts: Sequence[ModelFiles]
    prompts: Sequence[Prompt]
    trace: Path
    catalog: Catalog
    """What is known of devices and engines."""
    resume: bool = False
    samplings: Sequence[Sampling] = (Sampling(),)
    k_max: int = 8
    max_new_tokens: int = int(PROBE["max-new-tokens"])
    batch_size: int = int(PROBE["batch-size"])
    timed_batches: Sequence[int] = (1,)
    context: int | None = None
    """Tokens of the cache when passes are timed; None: a prompt and half an answer of this run."""
    device: str | None = None
    devices: int = 1
    dtype: str | None = None
    attention: str | None = None
    thinking: bool | None = None
    seed: int = 0
    budget: Budget = Budget(int(PROBE["first-look"]), PROBE["precision"])
    times_passes: bool = True
    given_times: StepTimes | None = None
    """Costs somebody measured elsewhere, instead of timing passes here."""
    engine: str = "transformers"
    """Whose way to draft counts."""

    def refuse_old_trace(self) -> None:
        """Raise CannotProbe where a trace is there already, and nobody said to go on with it."""
        if not self.resume and holds_answers(self.trace):
            raise CannotProbe(
                f"{self.trace} is there already", "go on with it (--resume), or name another with --trace"
            )

    def header(
        self, *, chat_template: bool, dtype: str, device: str, software: str, eos_ids: Sequence[int]
    ) -> dict[str, Any]:
        """What the trace must carry to be understood and repeated."""
        return {
            "target": dict(self.target.identity),
            "drafts": [{"id": draft.id, **draft.identity} for draft in self.drafts],
            "temperatures": [sampling.temperature for sampling in self.samplings],
            "top_k": self.samplings[0].top_k,
            "top_p": self.samplings[0].top_p,
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "thinking": self.thinking,
            "chat_template": chat_template,
            "dtype": dtype,
            "attention": self.attention,
            "device": device,
            "software": software,
            "eos_ids": list(eos_ids),
            "prompts_digest": digest(self.prompts),
        }

    def kept(self, header: Mapping[str, Any]) -> TraceFile | None:
        """What an earlier run with such a header measured; None where there was none. Raises UsageError for another."""
        if not holds_answers(self.trace):
            return None
        found = read(self.trace)
        check_same(found, header)
        return found


class Costs(NamedTuple):
    """What steps with one draft cost here, by batch size."""

    passes: Sequence[timing.Passes]
    overhead: timing.Overhead | None
    checked: Sequence[tuple[int, float, float]] = ()
    """k, predicted and measured speed-up of the software's own speculative runs."""

    def times(self, batch: int = 1) -> StepTimes:
        """The step at one of the batch sizes that were timed."""
        return next(one for one in self.passes if one.batch == batch).times(self.overhead)

    def spread(self, batch: int = 1) -> float:
        """Half-width of ln(step time) at 95 %, from the spread of the passes."""
        found = next(one for one in self.passes if one.batch == batch)
        passes = max(result.spread_of(one.spread, one.repeats) for one in (found.target[0], found.target[-1]))
        return math.hypot(passes, self.overhead.spread if self.overhead is not None else 0.0)


class ServedStep(NamedTuple):
    """A step in running servers at one number of sequences at once."""

    times: StepTimes
    spread: float
    """Half-width of ln(step time) at 95 %."""
    context: int
    """Tokens before the timed positions."""


class ServedCosts(NamedTuple):
    """What steps with one draft cost in the servers that were asked, by sequences at once."""

    software: str
    """The engine that was timed, with its version, and how."""
    steps: Mapping[int, ServedStep]
    doubts: Sequence[str] = ()
    whole_steps: bool = False
    """Steps were timed whole: drafting is within what stands as verification."""

    def times(self, batch: int = 1) -> StepTimes:
        """The step with so many sequences at once."""
        return self.steps[batch].times

    def spread(self, batch: int = 1) -> float:
        """Half-width of ln(step time) at 95 %."""
        return self.steps[batch].spread


@dataclass
class Outcome:
    """What a probe measured."""

    request: Request
    rows: list[Row]
    eos_ids: frozenset[int]
    place: Place
    dtype: str
    software: Mapping[str, str]
    """Versions of what took part."""
    evidence: Literal["measured", "served"] = "measured"
    stopped_by: str = ""
    interrupted: bool = False
    costs: dict[str, Costs] = field(default_factory=dict)
    served_costs: dict[str, ServedCosts] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """About the text that was measured."""
    timing_doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of loading, writing, reading, checking and timing."""
    drift: float = 0.0
    """By what share a plain token's time was longer at the end of the run."""
    peak_bytes: int | None = None
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_prompts(self) -> int:
        return len({row.prompt for row in self.rows})

    def priced(self, draft: str) -> result.Priced | None:
        """Costs of a step with a draft at the first batch size, where they are known."""
        if self.request.given_times is not None:
            return result.Priced(self.request.given_times)
        batch = self.request.timed_batches[0]
        if (served := self.served_costs.get(draft)) is not None:
            return result.Priced(served.times(batch), served.spread(batch)) if batch in served.steps else None
        found = self.costs.get(draft)
        return result.Priced(found.times(batch), self.spread(found, batch)) if found is not None else None

    def parts(self, draft: str) -> result.Priced | None:
        """The parts of a step at the first batch size; None where none are known, or steps were timed whole."""
        served, priced = self.served_costs.get(draft), self.priced(draft)
        if priced is None or (served is not None and served.whole_steps and self.request.given_times is None):
            return None
        return priced

    def spread(self, costs: Costs, batch: int) -> float:
        """Half-width of ln(step time) at 95 %, with what the machine's pace changed meanwhile."""
        return math.hypot(costs.spread(batch), math.log1p(self.drift))

    def measured(self, level: float = result.LEVEL) -> list[Measured]:
        """Every draft at every temperature, in the way the request's engine drafts."""
        request = self.request
        return [
            result.measured(
                self.rows,
                draft.id,
                sampling.temperature,
                result.usual(sampling.temperature, request.engine, self.ways(draft.id, sampling.temperature)),
                k_max=request.k_max,
                first=result.first_position(request.engine),
                eos_ids=self.eos_ids,
                level=level,
            )
            for sampling in request.samplings
            for draft in request.drafts
        ]

    def end_interrupted(self) -> None:
        """End with what the trace holds: an interrupt may come between an answer's writing and its counting."""
        self.stopped_by, self.interrupted = "interrupted", True
        if self.request.trace.is_file():
            self.rows = list(read(self.request.trace).rows)

    def ways(self, draft: str, temperature: float) -> tuple[Drafts, ...]:
        """The ways to draft of which the rows tell something."""
        return result.measurable(self.rows, draft, temperature)

    def reason_to_stop(self, seconds: float, budget: Budget) -> str | None:
        """Why enough was measured after so many seconds, or None."""
        if not self.rows:
            return None
        if budget.fixed:  # what was measured plays no part
            return result.reason_to_stop((), {}, self.num_prompts, seconds, budget)
        costs = {draft.id: priced for draft in self.request.drafts if (priced := self.priced(draft.id)) is not None}
        return result.reason_to_stop(self.measured(), costs, self.num_prompts, seconds, budget)

    def rates(self) -> str:
        """The acceptance rates so far, in words."""
        several = len(self.request.samplings) > 1
        return ", ".join(
            f"{one.draft}{f' at T = {one.temperature:g}' if several else ''} "
            f"{one.rate.value:.3f} ±{(one.rate.high - one.rate.low) / 2:.3f}"
            for one in self.measured()
        )
