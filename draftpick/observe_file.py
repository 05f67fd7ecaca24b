"""What is read from a running server's counters or its responses: the records of an observation, also its JSON output.

pydantic lives here as in `files`: import this module inside functions. Rates are shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftpick import probe_file
from draftpick.probe_file import Count, DecisionRecord, IntervalRecord, Share, Spent
from draftpick.record import Record, checked

Tokens = Annotated[float, Field(ge=1, le=257)]
Position = Annotated[int, Field(ge=0, le=256)]


class PositionRates(probe_file.PositionRates):
    """Rates by position with their bounds, at 95 %: nominal, or over requests where responses were read."""

    marginal_low: list[Share | None]
    marginal_high: list[Share | None]
    conditional_low: list[Share | None]
    conditional_high: list[Share | None]


class Counted(Record):
    """What was counted of some drafts, and what follows from it. Null is what the server does not export."""

    num_drafts: Count | None = None
    """Steps that drafted."""
    num_draft_tokens: Count | None = None
    num_accepted_tokens: Count | None = None
    num_accepted_tokens_per_pos: list[Count] = []
    """At position 1, 2, … k."""
    acceptance_histogram: list[int] = []
    """Steps that accept exactly 0, 1, … k tokens."""
    mean_acceptance_length: Tokens | None = None
    """Tokens per step, the target's own included; null without drafts."""
    mean_acceptance_length_low: Tokens | None = None
    """At 95 %: nominal, as if drafts were independent; over requests where responses were read."""
    mean_acceptance_length_high: Tokens | None = None
    draft_acceptance_rate: Share | None = None
    """Accepted over drafted: falls with k by construction, and is not α."""
    draft_acceptance_rate_low: Share | None = None
    """At 95 %, over requests; null where counters were read."""
    draft_acceptance_rate_high: Share | None = None
    position_rates: PositionRates | None = None
    """Null where positions are not counted, or nothing was drafted."""


class EngineRow(Counted):
    """One engine: a data-parallel rank, or a process behind the same address."""

    engine: str
    """Its labels in words."""
    labels: dict[str, str]
    """Those of its counters besides the model's name."""


class LengthRow(Record):
    """What a num_spec_tokens up to the server's gives."""

    k: Position
    mean_acceptance_length: Tokens
    """From the rates of the positions up to k."""
    mean_acceptance_length_low: Tokens
    mean_acceptance_length_high: Tokens
    pays_below: Annotated[float, Field(ge=0)] | None = None
    """The k-th token pays where drafting and verifying one more costs less, in plain steps; null for 0."""
    speedup: IntervalRecord | None = None
    """Of decoding, with the costs given; null without them."""


class Drift(Record):
    """What was counted before the first scrape, against what came after it."""

    before: IntervalRecord
    """Mean acceptance length from the server's start to the first scrape."""
    num_drafts_before: Count
    change: IntervalRecord
    """Of the mean acceptance length."""
    moved: bool
    """The interval of the change leaves out 0."""


class Decision(DecisionRecord):
    """What to do with the server's num_spec_tokens."""

    change: Literal["lower", "keep", "raise", "stop"] | None = None
    """Null where it is undecided, as always without costs; raise rests on an extrapolation."""
    evidence: str = "served"
    """served."""


class ModelRow(Counted):
    """One model, all its engines together; of responses, one model with one num_spec_tokens."""

    model: str
    num_spec_tokens: Position | None = None
    """The server's k: as many as it counts positions."""
    num_requests: Count | None = None
    """That tell of speculation; null where counters were read."""
    by_k: list[LengthRow] = []
    """For k = 0, 1, … num_spec_tokens; empty where positions are not counted."""
    drift: Drift | None = None
    """Null with one scrape."""
    doubts: list[str] = []
    """What makes the figures unsure, in words."""
    decision: Decision
    engines: list[EngineRow]
    """Empty where responses were read: they do not name theirs."""

    @model_validator(mode="after")
    def _one_for_each_k(self) -> ModelRow:
        if [row.k for row in self.by_k] != list(range(len(self.by_k))):
            raise ValueError("by_k does not count 0, 1, 2, …")
        if self.by_k and self.position_rates is not None:
            columns = self.position_rates.model_dump().values()
            if any(len(column) != len(self.by_k) - 1 for column in columns):
                raise ValueError("position_rates has not one entry for each k of by_k but 0")
        return self


class ResponseLog(Record):
    """What a log of responses held."""

    num_requests: Count
    """Responses that tell of speculation, each counted once."""
    num_undrafted: Count
    """Those of them that drafted nothing, and weigh nothing."""
    num_without: Count
    """Responses that tell nothing of it."""
    num_repeated: Count
    """Further figures under the id of one that is counted; the last ones count."""
    num_other_lines: Count
    """Without a response."""
    torn: bool
    """The last line was cut and is left out."""


class ObservationFile(Record):
    """A whole observation."""

    schema_version: Literal["1"]
    kind: Literal["observation"]
    tool: dict[str, str]
    """What wrote it: name and version."""
    created: str
    """Time in ISO 8601, UTC."""
    sources: Annotated[list[str], Field(min_length=1, max_length=2)]
    """The address or file; two files: the second less the first."""
    server: Literal["vllm", "llama.cpp", "sglang"]
    """Whose names the figures have."""
    counted: Literal["since the server started", "between two scrapes", "at the moment", "in responses"]
    """at the moment: gauges, which are no counts."""
    responses: ResponseLog | None = None
    """Null where counters were read."""
    interval_s: Spent | None = None
    """Between two scrapes of an address."""
    costs: str | None = None
    """Where the costs of a step come from, in words; null without."""
    models: Annotated[list[ModelRow], Field(min_length=1)]

    @property
    def exit_code(self) -> int:
        """1: some model had better not speculate; else 0."""
        return 1 if any(one.decision.action == "do_not_speculate" for one in self.models) else 0


def checked_observation(value: Mapping[str, Any], path: Path) -> ObservationFile:
    """The observation in a JSON object that was read from `path`. Raises InvalidFile, naming the field."""
    return checked(ObservationFile, value, path, "observe again with --json")
