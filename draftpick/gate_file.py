"""What a gate reads and writes: the policy of pairs, the baseline, and the result, which is its JSON output as well.

pydantic lives here as in `files`: import this module inside functions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from draftpick.errors import InvalidCatalog, InvalidFile, UsageError
from draftpick.models.bounded import read_bytes, read_json
from draftpick.pair import SPELLINGS
from draftpick.probe_file import IntervalRecord
from draftpick.record import Record, checked, first_wrong
from draftpick.toml_file import MAX_FILE_BYTES, Lines, read_toml

MOST_BYTES = 16 << 20

Name = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
Place = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A path, or the id of a model."""
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
HARMLESS: tuple[Status, ...] = ("passed", "noted", "waived")
"""Those that let a pair pass."""


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
    target: Place
    """A hub id, a folder, a GGUF file or an alias of the catalogue."""
    draft: Place
    """As the target."""
    revision: Name | None = None
    """Of the target."""
    draft_revision: Name | None = None
    engine: Name | None = None
    """One of the ten, as `draftpick catalog list --kind engines` names them."""
    device: Name | None = None
    """As `draftpick catalog list --kind devices` names them."""
    tensor_parallel_size: Least | None = None
    max_model_len: Annotated[int, Field(strict=True, ge=1, le=1 << 30)] | None = None
    max_num_seqs: Least | None = None
    num_spec_tokens: Annotated[int, Field(strict=True, ge=1, le=256)] | None = None
    """The k that is deployed."""
    temperature: Annotated[float, Field(strict=True, ge=0, le=10)] | None = None
    """Of several that were measured; the first without it."""
    evidence: Place | None = None
    """A saved probe file, seen from the policy file."""
    probe: Flag = False
    """Measure now, and write the probe to `evidence`."""
    prompts: Place | None = None
    """For `probe`: a file of prompts, seen from the policy file."""
    max_new_tokens: Annotated[int, Field(strict=True, ge=2, le=1 << 20)] | None = None
    """For `probe`."""
    policy: Policy = Policy()
    """What differs from `defaults` for this pair."""
    waivers: list[Waiver] = []
    """Checks that may fail for a while, each with its reason."""

    @model_validator(mode="after")
    def _measurable(self) -> PairRow:
        if not self.probe and (self.prompts is not None or self.max_new_tokens is not None):
            raise ValueError("prompts and max_new_tokens are for probe = true")
        return self


class PolicyFile(_Written):
    """A whole pairs.toml."""

    schema_version: Literal["1"] = "1"
    baseline: Place | None = None
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

    def place_of(self, name: str, path: Path) -> Path:
        """A file that the policy at `path` names."""
        return path.parent / name


def read_policy(path: Path) -> tuple[PolicyFile, dict[str, int]]:
    """The policy in a TOML file, and the line of each pair's name.

    Raises UsageError where there is none, InvalidFile with file and line.
    """
    if not os.path.exists(path):
        raise UsageError(
            f"{path}: no such policy file", "write one from an answer: draftpick gate --init advice.json -o pairs.toml"
        )
    try:
        content = read_toml(path, "mend the file")
        lines = Lines(read_bytes(path, MAX_FILE_BYTES).decode("utf-8-sig"))
        found = PolicyFile.model_validate(content)
    except InvalidCatalog as error:
        raise InvalidFile(error.message, error.hint) from None
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        # A key that is misspelled is the reason for others that are missing.
        first = next((one for one in wrong if one["type"] == "extra_forbidden"), wrong[0])
        unknown = first["type"] == "extra_forbidden"
        where = ".".join(str(part)[:60] for part in first["loc"])
        said = "no such key" if unknown else first["msg"]
        raise InvalidFile(
            f"{path}:{lines.of(first['loc'])}: {where}: {said}",
            _known_keys(first["loc"]) if unknown else "mend that line",
        ) from None
    seen: dict[str, int] = {}
    for number, pair in enumerate(found.pair):
        line = lines.of(("pair", number, "name"))
        if pair.name in seen:
            raise InvalidFile(
                f"{path}:{line}: a second pair is named {pair.name!r}; the first stands in line {seen[pair.name]}",
                "give each pair a name of its own: baselines and reports are kept by it",
            )
        seen[pair.name] = line
    return found, seen


def _known_keys(where: Sequence[Any]) -> str:
    """What may stand where an unknown key was found."""
    *above, key = where
    names = [part for part in above if isinstance(part, str)]
    records: dict[str, type[BaseModel]] = {
        "defaults": Policy,
        "policy": Policy,
        "waivers": Waiver,
        "pair": PairRow,
    }
    record = records.get(names[-1] if names else "", PolicyFile)
    from difflib import get_close_matches

    meant = SPELLINGS.get(str(key).replace("_", "-"), str(key)).replace("-", "_")
    near = get_close_matches(meant, record.model_fields, n=1)
    return f"did you mean {near[0]}?" if near else f"known there: {', '.join(record.model_fields)}"


# ---------------------------------------------------------------------- the baseline


class PromptSums(Record):
    """What was accepted of one prompt's answer, out of how many positions; both may be sums of expectations."""

    domain: str
    accepted: Annotated[float, Field(ge=0)]
    positions: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _possible(self) -> PromptSums:
        # Probabilities in half precision may sum up to a little more.
        if not self.accepted <= 1.02 * self.positions <= 1e15:
            raise ValueError(f"of {self.positions:g} positions {self.accepted:g} cannot be accepted")
        return self


class BaselineRow(Record):
    """What one pair did when its baseline was taken."""

    target: str
    draft: str
    created: str
    """Of the probe."""
    temperature: float
    way: str
    engine: str
    max_new_tokens: int | None = None
    """Of an answer: longer ones are other text."""
    prompts: str
    """Where they came from."""
    num_prompts: int
    num_spec_tokens: int | None = None
    acceptance_rate: IntervalRecord
    mean_acceptance_length: IntervalRecord | None = None
    """At num_spec_tokens."""
    speedup: IntervalRecord | None = None
    by_prompt: dict[str, PromptSums] = {}
    """By the hash of each prompt, for paired comparisons; empty where the trace was gone."""

    @model_validator(mode="after")
    def _possible(self) -> BaselineRow:
        self.acceptance_rate.check_share("acceptance_rate")
        return self


class BaselineFile(Record):
    """The baselines of a policy's pairs, by name."""

    schema_version: Literal["1"]
    kind: Literal["baseline"]
    pairs: dict[str, BaselineRow]

    def text(self) -> str:
        """The file's text: one line a prompt, so that a change can be reviewed."""
        whole = json.dumps(self.model_dump(), ensure_ascii=False, allow_nan=False, indent=2, sort_keys=True)
        return re.sub(r"\{\n\s+(\"accepted\".*)\n\s+(.*)\n\s+(.*)\n\s+\}", r"{\1 \2 \3}", whole) + "\n"


def read_baseline(path: Path) -> BaselineFile:
    """The baselines in a file; none where it is not there yet. Raises InvalidFile."""
    if not os.path.exists(path):
        return BaselineFile(schema_version="1", kind="baseline", pairs={})
    try:
        return BaselineFile.model_validate(read_json(path, MOST_BYTES))
    except ValidationError as error:
        raise InvalidFile(
            f"{path}: {first_wrong(error)}",
            "take the last good version back from version control, or delete it and use --update-baseline",
        ) from None


# ---------------------------------------------------------------------- the result


class WaivedBy(Record):
    """Why a failed check does not fail its pair."""

    reason: str
    expires: date


class CheckResult(Record):
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
    """In a sentence, values and waiver included."""
    waiver: WaivedBy | None = None
    """Where a waiver lets it pass."""

    @model_validator(mode="after")
    def _consistent(self) -> CheckResult:
        if self.passed != (self.status in HARMLESS):
            raise ValueError(f"a check that is {self.status} cannot have passed = {str(self.passed).lower()}")
        return self


class PairResult(Record):
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


class GateFile(Record):
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


def checked_gate(value: Mapping[str, Any], path: Path) -> GateFile:
    """The result in a JSON object that was read from `path`. Raises InvalidFile, naming the field."""
    return checked(GateFile, value, path, "judge again with --json")
