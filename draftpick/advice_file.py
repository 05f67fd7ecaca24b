"""What an advice leaves behind: the records of the JSON that `recommend`, `check` and `plan` print and write.

pydantic lives here as in `files`: import this module inside functions. Times are milliseconds, sizes bytes. Unknown is
null; what was not asked for is null as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from draftpick.models.bounded import read_json
from draftpick.pair import evidence_of
from draftpick.probe_file import RequestRecord
from draftpick.record import Record, checked, no_such_kind

MOST_BYTES = 64 << 20

Share = Annotated[float, Field(ge=0, le=1)]
# More than the largest model that is read takes on the slowest device.
Milliseconds = Annotated[float, Field(ge=0, lt=1e30)]
Times = Annotated[float, Field(ge=0, lt=1e30)]
"""A quotient, as a speed-up or a cost ratio."""
Length = Annotated[int, Field(ge=0, le=256)]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Bytes = Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]
Action = Literal["speculate", "do_not_speculate", "undecided"]
Outcome = Literal["ok", "warn", "reject", "skip"]
Verdict = Literal["accepted", "care", "refused", "unknown"]


# ---------------------------------------------------------------------- what was asked


class ToolRecord(Record):
    """What wrote it, and from which catalogue."""

    name: str
    version: str
    catalog_date: str | None = None
    """The newest date on which a record of the catalogue was checked."""


class ModelRecord(Record):
    """What is known of one model."""

    id: str
    origin: str
    revision: str | None = None
    architecture: str | None = None
    params_total: Count | None = None
    params_text: Count | None = None
    params_active: Count | None = None
    params_read: Count | None = None
    num_hidden_layers: Count | None = None
    num_nextn_predict_layers: Count | None = None
    vocab_size: Count | None = None
    max_position_embeddings: Count | None = None
    dtype: str | None = None
    quantization: str | None = None
    tokenizer: str | None = None
    license: str | None = None
    gated: bool | None = None
    remote_code: bool | None = None
    uncertain: list[str] = []


class DeviceRecord(Record):
    """Where the answer holds: the device named, or the one that the first prediction assumes."""

    id: str
    name: str
    count: Annotated[int, Field(ge=1, le=1 << 20)]
    """Devices, over which a model is spread."""
    memory_bytes: Count | None = None
    """Nominal, of one."""
    assumed: bool = False
    """Nobody named one."""
    others: list[str] = []
    """Keys of the devices that the name given may mean as well; this one is assumed."""
    note: str | None = None
    """What was assumed of that name."""


class EngineRecord(Record):
    """The engine asked for."""

    id: str
    version: str


class WorkloadRecord(Record):
    """What requests are like."""

    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    num_spec_tokens: Length | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    kind: str | None = None
    """Kind of text: chat, code, …"""
    input_len: Count | None = None
    """Tokens of a prompt."""
    output_len: Count | None = None
    """Tokens of an answer."""
    images: bool | None = None
    """Whether requests hold some."""


class SettingRecord(Record):
    """What else was said of the place, and what a start-up configuration needs."""

    tensor_parallel_size: Annotated[int, Field(ge=1, le=1 << 20)] = 1
    dtype: str | None = None
    quantization: str | None = None
    draft_quantization: str | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: Share | None = None
    memory_bytes: Count | None = None
    """Of one device, where it was given."""
    bandwidth: Annotated[float, Field(ge=0, lt=1e18)] | None = None
    """Bytes per second of one device, where it was given."""
    stop_rule: str | None = None
    trust_remote_code: bool = False


# ---------------------------------------------------------------------- what was found


class GainRecord(Record):
    """A speed-up with its interval; without a value, between what it must lie."""

    value: Times | None = None
    low: Times
    high: Times
    level: Share | None = None
    """Of the interval; null where it is none."""


class DecisionRecord(Record):
    """The answer."""

    action: Action
    method: str | None = None
    draft: str | None = None
    num_spec_tokens: Length | None = None
    """0: not to draft."""
    speedup: GainRecord | None = None
    evidence: str
    """measured, served, roofline, published or rule: the weakest that it rests on."""
    sentence: str
    """The decision in words."""


class FindingRecord(Record):
    """What one rule said."""

    rule: str
    outcome: Outcome
    message: str
    """In a sentence."""
    evidence: dict[str, JsonValue] = {}
    """The values that were compared."""
    weight: Annotated[float, Field(ge=0, lt=1e9)] | None = None
    """In the score."""
    certain: bool = True
    """Whether every fact that it goes by was read; false where one is recalled, derived or only probable."""
    ignored_because: str | None = None
    """The reason that was given to ignore it."""


class HeadRecord(Record):
    """A published draft head."""

    id: str
    method: str
    target: str
    params: Count | None = None
    num_hidden_layers: Count | None = None
    draft_vocab_size: Count | None = None
    num_spec_tokens: Length | None = None
    license: str | None = None
    confidence: str | None = None
    """How the pairing is known."""


class TokenIds(Record):
    """Sizes of one side's vocabulary."""

    base_ids: Count | None = None
    named_ids: Count | None = None
    highest_id: Count | None = None
    embedding_rows: Count | None = None


class DifferenceRecord(Record):
    """The first id that means something else."""

    id: Count
    target: str | None
    draft: str | None


class TokenizerRecord(Record):
    """How the draft's tokenizer relates to the target's."""

    relation: str
    verified: bool
    reason: str
    first_difference: DifferenceRecord | None = None
    same_cut: bool | None = None
    only_target: list[Count] = []
    only_draft: list[Count] = []
    renamed: list[Count] = []
    target: TokenIds = TokenIds()
    draft: TokenIds = TokenIds()


class AcceptanceRecord(Record):
    """The acceptance rate that is expected, or was measured."""

    rate: Share
    """α."""
    low: Share
    high: Share
    level: Share | None = None
    """Of the interval."""
    fade: Share = 1.0
    """Rate of a token over that of the one before it; below 1 `rate` is that of the first."""
    source: str
    """What it rests on, in words."""
    rests_on: list[str] = []
    """Ids of published measurements."""
    measured: bool = False
    doubts: list[str] = []
    """What makes a measurement unsure."""

    @model_validator(mode="after")
    def _ordered(self) -> AcceptanceRecord:
        if not self.low <= self.rate <= self.high:
            raise ValueError(f"the rate {self.rate} does not lie between its bounds")
        return self


class CostRecord(Record):
    """What the parts of a step cost, in one place."""

    c: Times
    """A drafted token over a plain one."""
    target_ms: Milliseconds | None = None
    """A plain token."""
    draft_first_ms: Milliseconds | None = None
    """The first drafted token."""
    draft_ms: Milliseconds | None = None
    """Every further drafted token."""
    verify_ms: Annotated[list[Milliseconds], Field(max_length=257)] = []
    """Over 1, 2, … positions; the first is a plain token."""
    overhead_ms: Milliseconds | None = None
    """What a step adds besides."""
    ttft_overhead_ms: Milliseconds | None = None
    """What the draft's own prompt adds to the time to the first token."""
    verify: Annotated[list[Times], Field(max_length=257)] = []
    """The same in plain steps of the target, where numbers were typed in."""
    overhead: Times | None = None
    source: str
    """roofline, measured, given, or a sentence for numbers that were typed in."""
    launch_bound: bool = False
    """A drafted token is mostly launches: a smaller draft would not be faster, a shallower one would."""
    notes: list[str] = []
    engine: str | None = None
    device: str | None = None
    device_assumed: bool | None = None
    tensor_parallel_size: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    """Devices that the prediction holds for."""
    more_devices: bool = False
    """This draft takes more of them than the others."""
    num_seqs: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    """Sequences at once."""


class KRecord(Record):
    """What one num_spec_tokens gives."""

    k: Length
    mean_acceptance_length: Annotated[float, Field(ge=1, le=257.001)]
    speedup: Times
    low: Times
    high: Times


class EndToEndRecord(Record):
    """A whole request, in seconds."""

    speedup: Times
    total: Times
    total_without: Times
    ttft: Times
    ttft_without: Times


class PlanRecord(Record):
    """The k to use, and what it gives."""

    num_spec_tokens: Length | None = None
    """0: not to draft."""
    mean_acceptance_length: Annotated[float, Field(ge=1, le=257.001)] | None = None
    """τ: tokens per step, the target's own included."""
    speedup_of: Length | None = None
    """The k that length and speed-up are of: the best one that drafts."""
    speedup: GainRecord | None = None
    by_k: Annotated[list[KRecord], Field(max_length=257)] | None = None
    schedule: Annotated[list[tuple[Count, Count, Length]], Field(max_length=4096)] | None = None
    """(from, to, k): the k by sequences at once."""
    end_to_end: EndToEndRecord | None = None
    """Where lengths of prompts and answers were named."""
    missing: str | None = None
    """Why a viable candidate has no prediction."""

    @model_validator(mode="after")
    def _counted(self) -> PlanRecord:
        ks = [row.k for row in self.by_k or ()]
        if ks != sorted(set(ks)):
            raise ValueError("by_k does not rise")
        if any(first > last for first, last, _ in self.schedule or ()):
            raise ValueError("a part of the schedule ends before it begins")
        return self


class PartsRecord(Record):
    """Bytes on each device; they sum up to its memory."""

    target_weights: Bytes | None = None
    draft_weights: Bytes | None = None
    target_kv: Bytes | None = None
    draft_kv: Bytes | None = None
    verify_workspace: Bytes | None = None
    reserve: Bytes | None = None
    free: Bytes | None = None
    """Below zero: what is missing."""


class MemoryRecord(Record):
    """Whether the pair has room on the devices that were asked for, and for how much."""

    tensor_parallel_size: Count | None = None
    """Devices that the figures are for; a prediction takes as many as hold the pair, and `cost` names them."""
    fits: bool | None = None
    per_device_bytes: PartsRecord = PartsRecord()
    max_num_seqs: Count | None = None
    max_num_seqs_without_draft: Count | None = None
    max_tokens: Count | None = None
    max_context: Count | None = None
    min_tensor_parallel_size: Count | None = None
    notes: list[str] = []


class VerdictRecord(Record):
    """What one engine does with the pair."""

    verdict: Verdict
    version: str
    """Of the engine that it holds for."""
    reasons: list[str] = []


class KnownIssueRecord(Record):
    """A trouble that others had with the engine of such a pair, although it takes the pair."""

    key: str
    """As `draftpick catalog list --kind issues` names it."""
    engine: str
    kind: Literal["crash", "wrong_output", "zero_acceptance", "slow", "quality"]
    symptom: str
    mending: str
    """What to do."""
    source: str
    """Addresses of the reports."""
    reported: str | None = None
    """Month of the first report."""
    versions: str = ""
    """Of the engine, in words, where it is not sure that this one has it."""
    mended: str = ""
    """In what versions, in words, where anything is known of that."""
    sentence: str
    """Symptom, mending and doubts."""


class CandidateRecord(Record):
    """One draft, head or method without a draft."""

    rank: Annotated[int, Field(ge=1)]
    """By speed-up, viable ones first."""
    draft: str | None = None
    """Id of the draft or head; null for a method that needs none, and for the target's own head."""
    method: str | None = None
    """None for numbers that were typed in."""
    label: str
    """What people call it: the draft's id, or `own MTP head`, `n-gram lookup` …"""
    origin: str | None = None
    """Where it was found: given, catalogue, overlay, cache, hub, target (its own head) or always (draft-free)."""
    via: str | None = None
    """The base model through which it was found, where the target is a copy or fine-tune of it."""
    viable: bool | None = None
    """No rule rejects it, and an engine takes it."""
    score: Annotated[float, Field(ge=0, le=100)] | None = None
    """How well the facts fit, of 100."""
    coverage: Share | None = None
    """Share of what matters that could be judged."""
    engine: str | None = None
    """The engine whose verdict and costs these are: the one asked for, or else the first that takes it."""
    reason: str = ""
    """What matters most."""
    params: Count | None = None
    """Of what it adds: the draft's text decoder, or the head."""
    model: ModelRecord | None = None
    head: HeadRecord | None = None
    tokenizer: TokenizerRecord | None = None
    findings: Annotated[list[FindingRecord], Field(max_length=1000)] = []
    acceptance: AcceptanceRecord | None = None
    """Null where nothing can be predicted."""
    cost: CostRecord | None = None
    """Null where nothing can be predicted."""
    plan: PlanRecord = PlanRecord()
    memory: MemoryRecord | None = None
    known_issues: Annotated[list[KnownIssueRecord], Field(max_length=1000)] = []
    """Of the engine whose verdict these are, the worst kind first; they change no verdict."""
    engines: dict[str, VerdictRecord] = {}
    """By key, all of them."""
    break_even_rate: Share | None = None
    """For numbers that were typed in: the rate above which the plan's k gains."""

    @property
    def needs_draft(self) -> bool:
        """Whether it is a draft or a head, and no method that copies what was said before."""
        return self.method not in ("ngram", "suffix")

    @property
    def verdict(self) -> VerdictRecord | None:
        """That of the engine asked for, or of the first that takes it."""
        return self.engines.get(self.engine) if self.engine is not None else None

    @property
    def evidence(self) -> str:
        """measured or served where acceptance and costs are; roofline where one is predicted; rule: nothing was."""
        if self.acceptance is None or self.cost is None:
            return "rule"
        return evidence_of(self.cost.source) if self.acceptance.measured else "roofline"


class PolicyRecord(Record):
    """What one adaptive length did on the trace."""

    policy: str
    """Name."""
    what: str
    """The rule, in words."""
    mean_acceptance_length: GainRecord | None = None
    """τ."""
    drafted_per_step: Times
    """Tokens."""
    speedup: GainRecord | None = None
    estimated: bool = False
    """What it wastes behind a miss is an estimate, and so is its speed-up."""


class AdviceFile(Record):
    """A whole advice. `target` is None where nothing but numbers was given to `plan`."""

    schema_version: Literal["1"]
    kind: Literal["advice"] = "advice"
    tool: ToolRecord
    command: Literal["recommend", "check", "plan"]
    request: RequestRecord = RequestRecord()
    target: ModelRecord | None = None
    device: DeviceRecord | None = None
    engine: EngineRecord | None = None
    workload: WorkloadRecord | None = None
    setting: SettingRecord | None = None
    decision: DecisionRecord
    candidates: Annotated[list[CandidateRecord], Field(max_length=100_000)]
    left_out: dict[str, Count] = {}
    """Models that were not judged one by one: how many, by reason."""
    policies: list[PolicyRecord] = []

    @property
    def viable(self) -> list[CandidateRecord]:
        """Drafts that fit; what needs no draft does not count."""
        return [one for one in self.candidates if one.viable and one.needs_draft]

    @property
    def draft_free(self) -> list[CandidateRecord]:
        return [one for one in self.candidates if not one.needs_draft]

    @property
    def rejected(self) -> list[CandidateRecord]:
        return [one for one in self.candidates if one.viable is False and one.needs_draft]

    def plain(self) -> dict[str, Any]:
        """The document as plain values."""
        return self.model_dump(mode="json")


def advice_of(document: Mapping[str, Any]) -> AdviceFile:
    """The records of a document that `draftpick.report.json` or `draftpick.report.plan` just made.

    By way of its text: a report says of an answer what it says of its file.
    """
    return AdviceFile.model_validate(json.loads(json.dumps(document, allow_nan=False)))


def read_advice(path: Path) -> AdviceFile:
    """The advice in a file. Raises InvalidFile for what is none, naming the field."""
    return checked_advice(read_json(path, MOST_BYTES), path)


def checked_advice(value: Mapping[str, Any], path: Path) -> AdviceFile:
    """The advice in a JSON object that was read from `path`. Raises InvalidFile, naming the field."""
    if value.get("kind", "advice") != "advice" or "candidates" not in value:
        raise no_such_kind(
            path, value, "no advice", "name what `draftpick recommend --json`, `check --json` or `plan --json` wrote"
        )
    return checked(AdviceFile, value, path, "ask again with --json")
