"""What a gate reads and writes: the policy of pairs, the baseline, and the result, which is its JSON output as well.

pydantic lives here as in `files`: import this module inside functions.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

SCHEMA_VERSION = "1"
MOST_BYTES = 16 << 20

Name = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Rate = Annotated[float, Field(strict=True, ge=0, le=1)]
Gain = Annotated[float, Field(strict=True, ge=0, le=100)]
Whole = Annotated[int, Field(strict=True, ge=0, le=1 << 20)]
Least = Annotated[int, Field(strict=True, ge=1, le=1 << 20)]
Flag = Annotated[bool, Field(strict=True)]
Verdict = Literal["accepted", "care"]

CheckName = Literal[
    "findings",
    "score",
    "coverage",
    "memory",
    "engine",
    "evidence",
    "acceptance_rate",
    "mean_acceptance_length",
    "speedup",
    "num_spec_tokens",
    "baseline",
]
"""What a gate checks, and what a waiver names."""

Status = Literal["passed", "failed", "missing", "stale", "doubtful", "waived", "noted"]
"""missing, stale and doubtful: the evidence could not be judged by; noted: said, and decides nothing."""


# ---------------------------------------------------------------------- the policy


class _Written(BaseModel):
    # A key that nobody knows is a threshold that nobody checks.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Policy(_Written):
    """What a pair must keep; absent thresholds are not checked. Rates are shares, and their lower bound must reach
    the minimum.
    """

    fail_on: Literal["reject", "warn"] = "reject"
    """Which findings of the rules fail a pair."""
    allow: list[Name] = []
    """Rules whose findings never fail it."""
    min_score: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None
    """How well the facts fit, of 100."""
    min_coverage: Rate | None = None
    """Share of what matters that could be judged."""
    must_fit: Flag = False
    """In the memory of `device`."""
    engine_verdict: Verdict | None = None
    """The least that the pair's engine must say: accepted, or care, which takes both."""
    min_acceptance_rate: Rate | None = None
    """α, at the pair's temperature."""
    min_mean_acceptance_length: Gain | None = None
    """At the pair's num_spec_tokens, or at the k that the evidence chooses."""
    min_speedup: Gain | None = None
    """Of decoding, at the pair's num_spec_tokens or at the best k."""
    max_k_drift: Whole | None = None
    """How far the best k may move from the pair's num_spec_tokens, or from the baseline's, where that costs speed."""
    tolerance: Rate | None = None
    """Loss of acceptance rate against the baseline that is let pass, though the intervals show it."""
    max_age_days: Least | None = None
    """Of the evidence, from the day it was measured."""
    min_prompts: Least | None = None
    """That the evidence rests on."""


class Waiver(_Written):
    """A check that may fail for a while."""

    check: CheckName
    reason: Text
    """Shown wherever the check is."""
    expires: date
    """The last day on which it holds."""


class PairRow(_Written):
    """One pair of the policy file."""

    name: Name
    """By which results, baselines and reports call it."""
    target: Name
    """A hub id, a folder, a GGUF file or an alias of the catalogue."""
    draft: Name
    """As the target."""
    revision: Name | None = None
    """Of the target."""
    draft_revision: Name | None = None
    engine: Name | None = None
    """One of the ten, as `draftpick catalog list --kind engines` names them."""
    device: Name | None = None
    """As `draftpick catalog list --kind devices` names them."""
    tensor_parallel_size: Least | None = None
    max_model_len: Least | None = None
    max_num_seqs: Least | None = None
    num_spec_tokens: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    """The k that is deployed."""
    temperature: Annotated[float, Field(strict=True, ge=0, le=10)] | None = None
    """Of several that were measured; the first without it."""
    evidence: Name | None = None
    """A saved probe file, seen from the policy file."""
    probe: Flag = False
    """Measure now."""
    prompts: Name | None = None
    """For `probe`: a file of prompts, seen from the policy file."""
    policy: Policy = Policy()
    """What differs from `defaults` for this pair."""
    waivers: list[Waiver] = []
    """Checks that may fail for a while, each with its reason."""

    @model_validator(mode="after")
    def _one_source(self) -> PairRow:
        if self.evidence is not None and self.probe:
            raise ValueError("evidence names a saved probe and probe = true measures anew: leave one out")
        if self.prompts is not None and not self.probe:
            raise ValueError("prompts are for probe = true")
        return self


class PolicyFile(_Written):
    """A whole pairs.toml."""

    schema_version: Literal["1"] = "1"
    baseline: Name | None = None
    """The file of baselines, seen from this one."""
    defaults: Policy = Policy()
    """Of every pair that does not say otherwise."""
    pair: Annotated[list[PairRow], Field(min_length=1, max_length=1000)]
    """The pairs, each a table [[pair]]."""

    def policy(self, pair: PairRow) -> Policy:
        """A pair's own thresholds over the defaults."""
        return self.defaults.model_copy(
            update={name: getattr(pair.policy, name) for name in pair.policy.model_fields_set}
        )


# ---------------------------------------------------------------------- the result


class _Record(BaseModel):
    # More keys may be added: a result of a newer draftpick still loads.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class WaivedBy(_Record):
    """Why a failed check does not fail its pair."""

    reason: str
    expires: date


class CheckResult(_Record):
    """One check of one pair."""

    name: CheckName
    status: Status
    """missing, stale, doubtful: the evidence could not be judged by; noted: said, and decides nothing."""
    passed: bool
    """Whether it lets the pair pass: true where it was waived."""
    value: float | str | None = None
    """What was found."""
    bound: float | None = None
    """The end of the value's interval that was compared."""
    threshold: float | str | None = None
    """What the policy asks for."""
    baseline: float | None = None
    """The value in the baseline."""
    reason: str
    """In a sentence, values included."""
    waiver: WaivedBy | None = None
    """Where a waiver lets it pass."""


class PairResult(_Record):
    """What became of one pair."""

    name: str
    target: str
    draft: str
    passed: bool
    judged: bool
    """False where its models are not found, or nothing of the evidence it needs can be used."""
    line: Annotated[int, Field(ge=1)] | None = None
    """Of the policy file, where the pair begins."""
    evidence: str | None = None
    """The probe file that it was judged by."""
    checks: list[CheckResult]

    @model_validator(mode="after")
    def _says_why(self) -> PairResult:
        # A format that lists checks alone would show a pair green that failed without one.
        if self.passed != all(check.passed for check in self.checks):
            raise ValueError("a pair passes where all of its checks let it, and only there")
        return self


class GateFile(_Record):
    """A whole result."""

    schema_version: Literal["1"]
    kind: Literal["gate"]
    tool: dict[str, str]
    """What wrote it: name and version."""
    policy: str
    """The policy file, as it was named."""
    date: date
    """The day that ages and waivers were counted from."""
    passed: bool
    pairs: list[PairResult]
    """In the order of the policy file."""

    @model_validator(mode="after")
    def _sums_up(self) -> GateFile:
        if self.passed != all(pair.passed for pair in self.pairs):
            raise ValueError("a gate passes where all of its pairs pass, and only there")
        return self

    @property
    def exit_code(self) -> int:
        """0: all passed; 1: one failed; 3: none could be judged."""
        if self.passed:
            return 0
        return 1 if any(pair.judged for pair in self.pairs) else 3
