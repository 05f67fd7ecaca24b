"""What the catalogue's text files say of engines, as records: an engine's own file, and the troubles that others had
with one. What holds from one version to another is written alike in both.

pydantic: import this module inside functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from draftpick.files import (
    Amount,
    CatalogRecord,
    Drafted,
    Flag,
    Month,
    Name,
    Positive,
    Share,
    Small,
    Source,
    Sourced,
    Text,
    did_you_mean,
)
from draftpick.launch_values import IN_SCRIPT, PLACEHOLDER, VALUES
from draftpick.pair import CONDITIONS
from draftpick.versions import parsed

Severity = Literal[
    "refuses at start", "fails at first request", "crashes under load", "corrupts", "silent no-op", "warns"
]
"""When a mismatch shows, and how badly."""
Support = Literal["yes", "no", "experimental", "unknown"]
VocabularyRule = Literal[
    "equal-rows", "equal-rows-and-map", "token-text", "equal-rows-or-translate", "named-ids", "none"
]
Conditions = dict[str, Any]


def _version(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"a version is a text in quotes, not {value}")
    if parsed(value) is None:
        raise ValueError(f"{value[:60]!r} is no version: a release (0.9.0), a build (b4500) or a date (2026-05-04)")
    return value


Version = Annotated[str, BeforeValidator(_version)]
"""Of an engine, so that it compares with others."""


class _Window(CatalogRecord):
    """What holds from one version to before another."""

    since: Version | None = None
    until: Version | None = None
    """The first version where it no longer holds."""


class OlderMethod(_Window):
    """An entry of `was` of a method."""

    support: Support
    note: str = ""
    needs: Text | None = None
    max_num_spec_tokens: Positive | None = None
    max_note: Text | None = None
    multiple_of_layers: Flag = False
    reuses_layers: Flag = False
    severity: Severity | None = None
    source: Source | None = None


class MethodFacts(OlderMethod):
    """[methods.<name>]."""

    source: Source
    was: list[OlderMethod] = []


class _Vocabulary(_Window):
    """How vocabularies are compared."""

    rule: VocabularyRule | None = None
    max_size_difference: Small | None = None
    first_compared_id: Small | None = None
    special_ids_always: Flag | None = None
    severity: Severity | None = None
    source: Source


class OlderVocabulary(_Vocabulary):
    """An entry of `was` of the vocabulary."""

    until: Version


class Bridge(_Window):
    """[vocabulary.bridge]."""

    name: Text
    note: Text | None = None
    source: Source


class VocabularyFacts(_Vocabulary):
    """[vocabulary]."""

    rule: VocabularyRule
    bridge: Bridge | None = None
    was: list[OlderVocabulary] = []

    @model_validator(mode="after")
    def _fits(self) -> VocabularyFacts:
        if self.rule == "token-text" and None in (self.max_size_difference, self.first_compared_id):
            raise ValueError("the rule token-text needs max_size_difference and first_compared_id")
        return self


class Limits(CatalogRecord):
    """[limits]."""

    max_num_spec_tokens: Positive | None = None
    note: Text | None = None
    severity: Severity | None = None
    source: Source


class OlderSplits(_Window):
    """An entry of `was` of `tensor_parallel`. Other keys are methods, or `any`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Literal["equal", "one-or-equal"]]


class Splits(OlderSplits):
    """[tensor_parallel]."""

    severity: Severity | None = None
    source: Source
    was: list[OlderSplits] = []


class _Steps(_Window):
    """What the engine adds to a step, in seconds, and how it drafts."""

    mode: Literal["eager", "graph"] | None = None
    per_token: Amount | None = None
    per_step: Amount | None = None
    per_draft_token: Amount | None = None
    per_translation: Amount | None = None
    launch_per_layer: dict[Name, Amount] | None = None
    """By vendor of the device, or `other`."""
    draft_launch_per_layer: dict[Name, Amount] | None = None
    launch_per_expert: Amount | None = None
    cache_factor: Amount | None = None
    copies_cache: Flag | None = None
    state_copy_rate: Amount | None = None
    """Bytes a second."""
    splits: Literal["layers"] | None = None
    redecodes_draft: Flag | None = None
    draft_samples: Flag | None = None
    default_num_spec_tokens: Drafted | None = None
    stop: Literal["fixed", "heuristic", "confidence"] | None = None
    stop_threshold: Share | None = None
    stop_keeps: Flag | None = None
    seen: Text | None = None


class OlderSteps(_Steps):
    """An entry of `was` of `step_overhead`."""

    until: Version


class StepFacts(_Steps):
    """[step_overhead]."""

    source: Source
    certain: Flag = True
    notes: list[Text] = []
    was: list[OlderSteps] = []


class _Conditioned(_Window):
    """A row that holds for some pairs only."""

    methods: list[Name] = []
    target: Conditions = {}
    draft: Conditions = {}
    head: Conditions = {}
    either: Conditions = {}
    setting: Conditions = {}
    device: Conditions = {}
    pair: Conditions = {}
    certain: Flag = True
    """Whether the bounds are exactly known."""

    @model_validator(mode="after")
    def _compares(self) -> _Conditioned:
        for subject, known in CONDITIONS.items():
            for name, wanted in getattr(self, subject).items():
                if name not in known:
                    raise ValueError(f"{subject} has no {name!r}{did_you_mean(name, known)}")
                for value in wanted if isinstance(wanted, list) else [wanted]:
                    if isinstance(value, str) and not re.fullmatch(r"!?([<>]=?\s*-?\d+(\.\d+)?|[^<>!].*|)", value):
                        raise ValueError(f"the condition {value!r} compares with no number")
        return self


class ExceptionFacts(_Conditioned):
    """[[exceptions]]."""

    verdict: Literal["refused", "care", "unknown"]
    severity: Severity | None = None
    reason: Text
    source: Source

    @model_validator(mode="after")
    def _fits(self) -> ExceptionFacts:
        if not any(getattr(self, subject) for subject in CONDITIONS):
            raise ValueError("no condition: a method that is never taken belongs into its own table")
        return self


class LaunchMethod(_Window):
    """[[launch.method]]. See `draftpick.launch_text` for what templates mean."""

    names: Annotated[list[Name], Field(min_length=1)]
    source: Source
    rows: Literal["equal", "differ"] | None = None
    words: list[Any] = []
    each: list[Any] = []
    file: dict[Literal["name", "title", "content"], Any] | None = None
    then: list[str] = []
    script: str | None = None
    cautions: list[Any] = []
    schedule_cautions: list[Any] = []


class LaunchFacts(_Window, Sourced):
    """[launch]: how the engine is started."""

    command: list[Any] = []
    name_traps: list[Name] = []
    no_schedule: Text | None = None
    accelerator: Literal["cuda", "npu", "mps", "cpu"] | None = None
    per_device: Flag = False
    port: Positive | None = None
    each: list[Any] = []
    settings: dict[Name, Any] = {}
    method: list[LaunchMethod] = []

    @model_validator(mode="after")
    def _fits(self) -> LaunchFacts:
        texts = list(_texts([self.command, self.each, self.settings, [row.model_dump() for row in self.method]]))
        named = {name for text in texts for name in PLACEHOLDER.findall(text)}
        named |= {name for row in self.method for name in IN_SCRIPT.findall(row.script or "")}
        if unknown := sorted(named - VALUES.keys()):
            raise ValueError(f"no value is called {unknown[0]!r}{did_you_mean(unknown[0], VALUES)}")
        if self.per_device and self.port is None:
            raise ValueError("a process for each device needs the port of the first one")
        return self


def _texts(template: Any) -> Iterator[str]:
    """Every text of a template."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for key, part in template.items():
            if key != "script":  # braces mean something else in Python
                yield from _texts(part)
    elif isinstance(template, Sequence):
        for part in template:
            yield from _texts(part)


class Build(CatalogRecord):
    """An entry of `builds`: the day on which a build was made."""

    build: Positive
    date: date


class Architectures(Sourced):
    """The classes of models that an engine runs."""

    read: Version | None = None
    since: dict[Name, Version] = {}
    seen: dict[Name, Version] = {}
    stand_in: Version | None = None

    @model_validator(mode="after")
    def _fits(self) -> Architectures:
        if twice := sorted(self.since.keys() & self.seen.keys()):
            raise ValueError(f"since and seen both name {twice[0]}")
        return self


class EngineFile(Sourced):
    """engines/<key>.toml. See `draftpick.rules.engine_facts` for what its tables mean."""

    key: Name
    name: Name
    version: Version
    aliases: list[Name] = []
    notes: list[Text] = []
    gguf: Literal["only", "some", "no"] | None = None
    vocabulary: VocabularyFacts
    methods: dict[Name, MethodFacts] = {}
    architectures: Architectures | None = None
    limits: Limits | None = None
    tensor_parallel: Splits | None = None
    step_overhead: StepFacts | None = None
    exceptions: list[ExceptionFacts] = []
    builds: list[Build] = []
    launch: LaunchFacts | None = None


IssueKind = Literal["crash", "wrong_output", "zero_acceptance", "slow", "quality"]


class IssueRecord(_Conditioned, Sourced):
    """One `[[issue]]` row: a trouble that others had with an engine although it takes the pair."""

    key: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.\-]{0,60}$")]
    engines: Annotated[list[Name], Field(min_length=1)]
    kind: IssueKind
    symptom: Text
    mending: Text
    fixed: Flag | None = None
    reported: Month | None = None
    """Of the first report."""


class IssuesFile(CatalogRecord):
    """known_issues.toml."""

    issue: list[IssueRecord] = []
