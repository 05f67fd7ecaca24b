"""What a probe leaves behind: the records of the probe file, which is its JSON output as well.

pydantic lives here as in `files`: import this module inside functions. Rates are shares, times milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from draftpick.errors import InvalidFile, UsageError
from draftpick.files import ModelRecord
from draftpick.models.bounded import clean, open_regular, read_json
from draftpick.models.profile import ModelProfile
from draftpick.overlay import values_of_row
from draftpick.record import Record, checked, first_wrong, no_such_kind

MOST_BYTES = 64 << 20

Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(gt=0, lt=1e10)]
Spent = Annotated[float, Field(ge=0, lt=1e10)]
GivenPass = Annotated[float, Field(ge=1e-6, lt=1e9)]
"""A nanosecond at least, or the ratio of two has no bound; inside those of a record, which rounding may touch."""
GivenPart = Annotated[float, Field(ge=0, lt=1e9)]
Heat = Annotated[float, Field(ge=0, le=10)]
Length = Annotated[int, Field(ge=0, le=256)]
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
_JSON = TypeAdapter(dict[str, JsonValue], config=ConfigDict(allow_inf_nan=False))
Facts = Annotated[dict[str, Any], AfterValidator(_JSON.validate_python)]
"""What JSON can say, without numbers that it cannot, and not nested without end."""
Option = bool | int | float | str | list[str] | list[int] | list[float]


class RequestRecord(Record):
    """What was typed, in a config file as well, so that it can be asked again."""

    command: str | None = None
    target: str | None = None
    drafts: list[str] = []
    """As arguments; those of `--draft-model` are among the options."""
    probe_file: str | None = None
    options: dict[str, Option] = {}
    """By name, without the dashes in front; only those that change the answer."""


class IntervalRecord(Record):
    """A value with its interval."""

    value: float
    low: float
    high: float
    level: Share

    @model_validator(mode="after")
    def _ordered(self) -> IntervalRecord:
        if not 0 < self.level < 1:
            raise ValueError(f"an interval has no level of {self.level:g}")
        slack = 1e-9 * max(1.0, abs(self.value))
        if not self.low - slack <= self.value <= self.high + slack:
            raise ValueError(f"the value {self.value:g} does not lie between its bounds")
        return self

    def check_share(self, what: str) -> None:
        """Raise ValueError unless this is a share with its bounds."""
        if not 0 <= self.low <= self.value <= self.high <= 1:
            raise ValueError(f"{what} is no share with its bounds")


class KRecord(Record):
    """What one num_spec_tokens does, with the keys of vLLM's metrics where they exist. Counts are expected ones."""

    k: Length
    mean_acceptance_length: float
    """τ: tokens per step, the target's own included, over complete blocks."""
    mean_acceptance_length_low: float
    mean_acceptance_length_high: float
    visible_length: float | None = None
    """Tokens per step for answers of these lengths, the last and shorter steps included."""
    draft_acceptance_rate: Share | None = None
    """Accepted over drafted: falls with k by construction, and is not α."""
    conditional_rate: Share | None = None
    """Accepted over tested."""
    num_drafts: float
    """Steps."""
    num_draft_tokens: float
    num_accepted_tokens: float
    num_accepted_tokens_per_pos: list[float] = []
    """At position 1, 2, … k."""
    acceptance_histogram: list[float] = []
    """Steps that accept exactly 0, 1, … k tokens."""
    speedup: IntervalRecord | None = None
    """Of decoding, with the costs at hand; null without them."""

    @model_validator(mode="after")
    def _possible(self) -> KRecord:
        low, value, high = (
            self.mean_acceptance_length_low,
            self.mean_acceptance_length,
            self.mean_acceptance_length_high,
        )
        if not 1 - 1e-6 <= low <= value <= high <= self.k + 1 + 1e-6:
            raise ValueError(f"tokens per step at k = {self.k} lie between 1 and {self.k + 1}, lower bound first")
        return self


Way = Literal["first_choice", "sampled", "sampled_twice", "sampled_block"]
"""How a draft proposes and is verified; sampled_twice: at the square of the temperature, as transformers does."""


class PositionRates(Record):
    """Rates by position, at the largest k."""

    marginal: list[Share | None]
    """Position j is accepted: over all steps."""
    conditional: list[Share | None]
    """Position j is accepted: over the steps that reach it."""


class DomainRecord(Record):
    """One kind of text."""

    acceptance_rate: IntervalRecord
    num_prompts: Count


class OtherWay(Record):
    """The same text, drafted or verified in another way."""

    proposal: str
    """In words."""
    way: Way
    acceptance_rate: IntervalRecord
    mean_acceptance_lengths: list[IntervalRecord]
    """For k = 0, 1, 2, …"""


class Checked(Record):
    """A speculative run of the software itself."""

    k: Length
    predicted: float
    """Speed-up by the costs."""
    measured: float
    """Speed-up that the software gave."""


class CostRecord(Record):
    """What a step costs at one batch size."""

    source: Literal["measured", "served", "given"]
    """measured: timed in the software that ran the models; served: in running servers."""
    software: str
    """Whose passes and runs were timed."""
    num_seqs: Annotated[int, Field(ge=1)] = 1
    """Sequences at once."""
    context: Count | None = None
    """Tokens before the timed position."""
    target_ms: Milliseconds
    """A plain token."""
    draft_first_ms: Spent
    """The first drafted token."""
    draft_ms: Spent
    """Every further drafted token."""
    verify_ms: Annotated[list[Milliseconds], Field(min_length=1, max_length=257)]
    """Over 1, 2, … positions; the first is a plain token."""
    overhead_ms: Spent
    """What a step adds besides."""
    c: Annotated[float, Field(ge=0, lt=1e16)]
    """draft_ms over target_ms; of whole steps, what each drafted token adds to one, its verification included."""
    whole_steps: bool = False
    """Steps were timed whole: verify_ms holds them, drafting included, by tokens drafted, and draft_ms is 0."""
    passes: dict[str, list[float]] = {}
    """Forward passes alone, without what the software adds: target and draft over 1, 2, … positions."""
    software_adds: dict[str, float] = {}
    """In milliseconds: per_token, per_step, per_draft."""
    ttft_overhead_ms: float | None = None
    """What the draft's own prompt adds to the time to the first token."""
    prefill_ms: float | None = None
    """The target's prompt."""
    spread: Annotated[float, Field(ge=0, le=20)] = 0.0
    """Half-width of ln(step time) at 95 %."""
    checked: list[Checked] = []
    """The costs against speculative runs of the same software."""


class PlanRecord(Record):
    """The k to use with the costs at hand."""

    num_spec_tokens: Length
    """0: not to draft."""
    mean_acceptance_length: float
    speedup: IntervalRecord


class DraftRecord(Record):
    """One draft at one temperature."""

    draft: str
    method: str = "draft_model"
    """draft_model: an ordinary model."""
    temperature: Heat
    proposal: str
    """How it drafts: by its first choice, or sampled."""
    way: Way
    acceptance_rate: IntervalRecord
    """α: the mean of the trace's column."""
    by_k: list[KRecord]
    """For k = 0, 1, 2, …; empty where no answer is as long as a block."""
    level: Share = 0.95
    """Of the intervals in by_k: higher than 0.95 where the best of several drafts is named."""
    position_rates: PositionRates
    by_domain: dict[str, DomainRecord]
    """By kind of text."""
    other_proposals: list[OtherWay] = []
    """The same text, drafted or verified in other ways."""
    num_prompts: Count
    num_tokens: Count
    """Of the target's text."""
    stopped_by: str
    """Why no more was measured."""
    doubts: list[str] = []
    """What makes the figures unsure, in words."""
    timing_doubts: list[str] = []
    """Those of `doubts` that are about costs: the acceptance rate is as sure without them."""
    costs: list[CostRecord] = []
    """One per number of sequences at once; empty where none were timed."""
    plan: PlanRecord | None = None
    """Null without costs."""


class LookupKRecord(Record):
    """A method without a draft at one k."""

    k: Length
    mean_acceptance_length: IntervalRecord
    """Steps that drafted nothing included."""
    draft_acceptance_rate: Share | None = None


class LookupRecord(Record):
    """A method without a draft, at its best k."""

    method: str
    """ngram, ngram of transformers, suffix."""
    temperature: Heat
    num_spec_tokens: Length
    mean_acceptance_length: float
    draft_acceptance_rate: Share | None = None
    speedup: IntervalRecord | None = None
    by_k: list[LookupKRecord] = []
    """From 1 on; empty in files of older versions."""


class TranslatedK(Record):
    """What real speculative runs with one k gave."""

    k: Length
    mean_acceptance_length: float
    speedup: float


class TranslatedRecord(Record):
    """A pair whose tokenizers differ: what real speculative runs gave, for a few k."""

    draft: str
    method: str
    num_prompts: Count
    by_k: list[TranslatedK]


class ComparisonRecord(Record):
    """The speed of one draft over that of the best, each at its best k, paired by prompt."""

    draft: str
    best: str
    temperature: Heat
    speedup: IntervalRecord
    """Of `draft` over `best`: below 1 where it is slower."""


class CheckRecord(Record):
    """A self-check."""

    name: str
    passed: bool
    detail: str
    """What was compared, and what came out."""


class DecisionRecord(Record):
    """The answer."""

    action: Literal["speculate", "do_not_speculate", "undecided"]
    method: str | None = None
    draft: str | None = None
    num_spec_tokens: Length | None = None
    """0: not to draft."""
    speedup: IntervalRecord | None = None
    evidence: str
    """measured, or served: through servers."""
    sentence: str
    """The decision in words."""
    more_prompts: Count | None = None
    """About how many would decide, where it is undecided."""


class DeviceRecord(Record):
    """What was measured on, as the framework names it."""

    id: str
    """As torch names it: npu:0, cuda, cpu."""
    name: str
    count: Annotated[int, Field(ge=1, le=4096)] = 1
    threads: Annotated[int, Field(ge=1)] | None = None
    """Of the CPU that computed; null on an accelerator."""
    tool_name: str | None = None
    """As the device's own tool names it, for the catalogue; null in files of older versions."""
    memory_bytes: Annotated[int, Field(ge=1)] | None = None
    """What the framework, or else that tool, says one device has in all; null on a CPU and where nothing says so."""


class KnownModel(ModelRecord):
    """What was known of one model, its tokenizer left out. Null is unknown."""

    model_config = ConfigDict(extra="ignore")

    id: str
    """As it was named: a path may have any length, and letters that no row of the catalogue has."""


class TraceRecord(Record):
    """Where the trace lies, seen from the probe file."""

    path: str
    """Relative to the probe file."""
    sha256: str
    """Hex."""


class ProbeFile(Record):
    """A whole probe."""

    schema_version: Literal["1"]
    kind: Literal["probe"]
    tool: dict[str, str]
    """What wrote it: name and version."""
    created: str
    """Time in ISO 8601, UTC."""
    duration_s: Spent
    seconds: dict[str, Spent]
    """Where the duration went: loading, writing, reading, checking, timing."""
    request: RequestRecord = RequestRecord()
    target: KnownModel
    models: dict[str, KnownModel]
    """The drafts, by id."""
    identities: dict[str, Facts]
    """Revision and digests of every model, by id."""
    relations: dict[str, Facts] = {}
    """How each draft's tokenizer relates to the target's: kind, verified, reason."""
    device: DeviceRecord
    software: dict[str, str]
    """Versions: python, system, torch, transformers and what else took part."""
    dtype: str
    """The models computed in it."""
    sampling: Facts
    """temperatures, top_k, top_p, seed, max_new_tokens, thinking, chat_template, batch_size."""
    prompts: Facts
    """source, digest (hex SHA-256) and num."""
    engine: str
    """Whose way to draft the figures hold for."""
    trace: TraceRecord | None = None
    num_prompts: Count
    num_tokens: Count
    """Of the target's text."""
    stopped_by: str
    """Why no more was measured."""
    decision: DecisionRecord
    drafts: list[DraftRecord]
    """One entry per draft and temperature."""
    comparisons: list[ComparisonRecord] = []
    """Every draft against the fastest at its temperature."""
    draft_free: list[LookupRecord] = []
    """What copies from the text, at its best k."""
    translated: list[TranslatedRecord] = []
    """Pairs whose tokenizers differ."""
    checks: list[CheckRecord] = []
    """Self-checks: one that failed decides nothing."""
    doubts: list[str] = []
    """Of the whole run, in words."""
    timing_doubts: list[str] = []
    """Those of `doubts` that are about costs."""
    notes: list[str] = []
    """What was done differently from what was asked, and makes nothing doubtful."""
    peak_bytes: Count | None = None
    """The most memory that was held on the device."""

    @model_validator(mode="after")
    def _whole(self) -> ProbeFile:
        for one in self.drafts:
            name = clean(one.draft)
            if one.draft not in self.models:
                raise ValueError(f"models lacks {name}")
            if [row.k for row in one.by_k] != list(range(len(one.by_k))):
                raise ValueError(f"by_k of {name} does not count 0, 1, 2, …")
            for rate in (one.acceptance_rate, *(other.acceptance_rate for other in one.other_proposals)):
                rate.check_share(f"the acceptance rate of {name}")
            for other in one.other_proposals:
                for k, length in enumerate(other.mean_acceptance_lengths):
                    if not 1 - 1e-6 <= length.low <= length.high <= k + 1 + 1e-6:
                        raise ValueError(f"tokens per step of {name} at k = {k} lie between 1 and {k + 1}")
        return self

    @property
    def where(self) -> str:
        """What it was measured on, in words."""
        if self.decision.evidence == "served":
            return f"{self.engine} {self.device.name}"
        return f"{self.device.count} × {self.device.id}"

    def plain(self) -> dict[str, Any]:
        """The document as plain values."""
        return self.model_dump(mode="json", exclude_none=False)

    def profile(self, model_id: str) -> ModelProfile:
        """What was known of one of its models, without the tokenizer."""
        record = self.target if model_id == self.target.id else self.models[model_id]
        return record.profile()


def record_of(profile: ModelProfile) -> KnownModel:
    """A profile as it stands in a probe file. Its tokenizer is left out: the relation was judged when it was read."""
    return KnownModel(**values_of_row(profile._replace(tokenizer=None), "local"))


def read_probe(path: Path) -> ProbeFile:
    """The probe in a file. Raises InvalidFile for what is none, naming the field."""
    return checked_probe(read_json(path, MOST_BYTES), path)


def is_probe(path: Path) -> bool:
    """Whether a file says that it is a probe: only such a one is written over unasked."""
    try:
        return read_json(path, MOST_BYTES).get("kind") == "probe"
    except InvalidFile:
        return False


def checked_probe(value: Mapping[str, Any], path: Path) -> ProbeFile:
    """The probe in a JSON object that was read from `path`. Raises InvalidFile, naming the field."""
    if value.get("kind") != "probe":
        raise no_such_kind(path, value, "no probe file", "name what `draftpick probe -o FILE` wrote")
    return checked(ProbeFile, value, path, "probe again")


def stopped_by_looking(reason: str) -> bool:
    """Whether a run ended because of what it had measured: its intervals are nominal then."""
    return reason.startswith(("the decision", "every"))


def trace_of(probe: ProbeFile, path: Path) -> Path | None:
    """The trace that belongs to a probe file; None where it is gone. Raises InvalidFile where it is another one."""
    if probe.trace is None:
        return None
    # Wherever it lies, nothing but the file of that hash is taken.
    trace = path.parent / probe.trace.path
    if not os.path.isfile(trace):  # unlike Path.is_file, no error for a name that is too long
        return None
    if sha256(trace) != probe.trace.sha256:
        raise InvalidFile(
            f"{trace} is not the trace that {path} was made from", "probe again, or take the trace away to plan without"
        )
    return trace


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    whole = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(1 << 20):
            whole.update(piece)
    return whole.hexdigest()


class GivenCosts(Record):
    """A file for `--costs`: times of a step that somebody measured elsewhere."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    target_ms: GivenPass
    """A plain token."""
    draft_ms: GivenPart
    """A drafted token."""
    draft_first_ms: GivenPart | None = None
    """The first drafted token, where it differs."""
    verify_ms: Annotated[list[GivenPass], Field(min_length=2, max_length=257)]
    """A pass of the target over 1, 2, … positions; the first is target_ms."""
    overhead_ms: GivenPart = 0.0
    """What a step adds besides."""
    software: str = "given"
    """Where they were measured."""


def read_costs(path: Path) -> GivenCosts:
    """The costs in a JSON file. Raises InvalidFile, naming the field."""
    try:
        found = GivenCosts.model_validate(read_json(path, 1 << 20))
    except ValidationError as error:
        raise InvalidFile(
            f"{path}: {first_wrong(error)}",
            "it holds target_ms, draft_ms and verify_ms (a list over 1, 2, … positions), and optionally draft_first_ms "
            "and overhead_ms",
        ) from None
    if abs(found.verify_ms[0] - found.target_ms) > 1e-6 * found.target_ms:
        raise UsageError(
            f"{path}: verify_ms begins with {found.verify_ms[0]}, target_ms is {found.target_ms}",
            "a pass over one position is a plain token: both are the same number",
        )
    return found


def to_text(probe: ProbeFile) -> str:
    """The file's text."""
    return json.dumps(probe.plain(), ensure_ascii=False, allow_nan=False, indent=2) + "\n"
