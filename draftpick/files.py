"""The catalogue's text files as records: what each file may say, and what of a row must agree with itself.

pydantic: import this module inside functions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from draftpick.launch_values import IN_SCRIPT, PLACEHOLDER, VALUES
from draftpick.models.profile import MOST_PARAMS, Experts, LatentAttention, Lineage, ModelProfile
from draftpick.pair import CONDITIONS
from draftpick.versions import parsed

# ---------------------------------------------------------------------- records

Name = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_PARAMS)]
Small = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Positive = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Layers = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Tokens = Annotated[int, Field(strict=True, ge=1, le=1 << 40)]
"""Of a text."""
Drafted = Annotated[int, Field(strict=True, ge=1, le=256)]
"""Tokens of a step."""
Rate = Annotated[int, Field(strict=True, ge=10**6, le=10**18)]
"""Bytes a second, as `--bandwidth` takes them."""
Operations = Annotated[int, Field(strict=True, ge=10**9, le=10**20)]
"""A second."""
Id = Annotated[int, Field(strict=True, ge=0, le=10**8)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(ge=0.001, le=1)]
Amount = Annotated[float, Field(strict=True, ge=0, le=10**18)]
Month = Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
TokenText = Annotated[str, StringConstraints(max_length=300)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Source = Text | Annotated[list[Text], Field(min_length=1)]


class CatalogRecord(BaseModel):
    """A part of a file, in which nothing may stand that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Sourced(CatalogRecord):
    source: Source
    """Where the facts were read."""
    checked: date
    """The day on which somebody last compared them with the source."""


class ExpertsRecord(CatalogRecord):
    """See `draftpick.models.profile.Experts`."""

    num_experts: Positive
    experts_per_token: Positive
    width: Positive | None = None
    shared: Small = 0
    shared_width: Positive | None = None
    dense_layers: Small = 0

    @model_validator(mode="after")
    def _fits(self) -> ExpertsRecord:
        if self.experts_per_token > self.num_experts:
            raise ValueError(f"experts_per_token {self.experts_per_token} is more than num_experts {self.num_experts}")
        return self


class LatentRecord(CatalogRecord):
    """See `draftpick.models.profile.LatentAttention`."""

    kv_lora_rank: Positive
    qk_rope_head_dim: Positive
    q_lora_rank: Positive | None = None
    qk_nope_head_dim: Positive | None = None
    v_head_dim: Positive | None = None


class LineageRecord(CatalogRecord):
    """See `draftpick.models.profile.Lineage`."""

    base_model: Name | None = None
    relation: (
        Literal[
            "finetune",
            "distill",
            "adapter",
            "quantized",
            "merge",
            "pruned",
            "continued",
            "upcycled",
            "upscaled",
            "draft-init",
        ]
        | None
    ) = None
    data: Text | None = None
    trained_tokens: Text | None = None
    thinking: Literal["off", "on", "hybrid"] | None = None


class ModelRecord(_Sourced):
    """One `[[model]]` row. The keys are the fields of `ModelProfile`; an absent key is unknown."""

    id: Name
    path: Name | None = None
    revision: Name | None = None
    family: Name | None = None
    """Only where it is not the family of the file."""
    generation: Name | None = None
    variant: Name | None = None
    architecture: Name | None = None
    model_type: Name | None = None
    params_total: Count | None = None
    params_text: Count | None = None
    params_active: Count | None = None
    num_hidden_layers: Layers | None = None
    hidden_size: Positive | None = None
    intermediate_size: Positive | None = None
    experts: ExpertsRecord | None = None
    num_attention_heads: Positive | None = None
    num_key_value_heads: Positive | None = None
    head_dim: Positive | None = None
    latent: LatentRecord | None = None
    tie_word_embeddings: Flag | None = None
    num_nextn_predict_layers: Small | None = None
    vocab_size: Positive | None = None
    tokenizer: Name | None = None
    """Key of a tokenizer record."""
    max_position_embeddings: Tokens | None = None
    rope: Name | None = None
    attention: Literal["full", "sliding", "hybrid", "recurrent", "unknown"] = "full"
    attention_note: Text | None = None
    sliding_window: Tokens | None = None
    sliding_layers: Small | None = None
    recurrent_layers: Small | None = None
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    quantization: Name | None = None
    weight_bytes: Count | None = None
    modality: Name = "text"
    mrope: Flag = False
    license: Name | None = None
    gated: Flag | None = None
    remote_code: Flag = False
    head_for: Name | None = None
    draft_method: Name | None = None
    lineage: LineageRecord = LineageRecord()
    uncertain: list[Name] = []
    """Fields of `ModelProfile` that are recalled or unverified."""
    notes: list[Text] = []
    aliases: list[Name] = []
    """Old names, renamed repositories and mirrors."""
    made_for: list[Name] = []
    """Targets for which this model was made as a draft."""
    params_active_vendor: Count | None = None
    """The active parameters its makers state, often without embeddings."""
    param_check: Text | None = None
    """What recomputation from the dimensions says, in words."""

    @model_validator(mode="after")
    def _fits(self) -> ModelRecord:
        _known_fields(self.uncertain, _PROFILE_FIELDS)
        dense = self.experts.dense_layers if self.experts is not None else None
        for part in (self.sliding_layers, self.recurrent_layers, dense):
            if part and self.num_hidden_layers and part > self.num_hidden_layers:
                raise ValueError(f"{part} layers of one kind are more than num_hidden_layers {self.num_hidden_layers}")
        return self

    def profile(self) -> ModelProfile:
        """The dimensions as a profile, without the tokenizer."""
        values = {name: getattr(self, name) for name in _PROFILE_FIELDS if name in ModelRecord.model_fields}
        values |= {"origin": "overlay", "tokenizer": None, "notes": tuple(self.notes), "made_for": tuple(self.made_for)}
        values["uncertain"] = frozenset(self.uncertain)
        values["experts"] = Experts(**self.experts.model_dump()) if self.experts else None
        values["latent"] = LatentAttention(**self.latent.model_dump()) if self.latent else None
        values["lineage"] = Lineage(**self.lineage.model_dump())
        return ModelProfile(**values)


class HeadRecord(_Sourced):
    """One `[[head]]` row: a published draft head and the target whose hidden states it reads."""

    id: Name
    method: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.]{1,30}$")]
    target: Name
    unlisted_target: Flag = False
    """The target is not in the catalogue."""
    architecture: Name | None = None
    params: Count | None = None
    num_hidden_layers: Layers | None = None
    hidden_size: Positive | None = None
    intermediate_size: Positive | None = None
    num_attention_heads: Positive | None = None
    num_key_value_heads: Positive | None = None
    head_dim: Positive | None = None
    vocab_size: Positive | None = None
    draft_vocab_size: Positive | None = None
    num_spec_tokens: Drafted | None = None
    block_size: Drafted | None = None
    aux_layer_ids: list[Small] = []
    """Layers of the target whose hidden states it reads."""
    max_position_embeddings: Tokens | None = None
    tokenizer: Name | None = None
    license: Name | None = None
    shares_target_embeddings: Text | None = None
    confidence: Literal["pairing-read", "config-read", "name-derived", "derived", "recalled"] | None = None
    notes: Text | None = None
    uncertain: list[Name] = []
    aliases: list[Name] = []
    release: Month | None = None

    @model_validator(mode="after")
    def _fits(self) -> HeadRecord:
        _known_fields(self.uncertain, HeadRecord.model_fields)
        return self


class NotPublished(_Sourced):
    """Names people ask for that no model has."""

    names: Annotated[list[Name], Field(min_length=1)]
    nearest: Name
    text: Text


class FamilyFile(CatalogRecord):
    """families/<slug>.toml."""

    family: Name
    not_published: list[NotPublished] = []
    model: list[ModelRecord] = []
    head: list[HeadRecord] = []


class SameText(CatalogRecord):
    """Another tokenizer that is said to have the same ids for ordinary text."""

    key: Name
    what: Text
    confidence: Text | None = None
    through: Name | None = None
    """The tokenizer that both are said to equal."""


_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class TokenizerRecord(_Sourced):
    """tokenizers/<key>.toml. See `draftpick.models.tokenizer.Fingerprint`."""

    key: Name | None = None
    family: Name | None = None
    stands_for: Text | list[Text] | None = None
    confidence: Literal["verified file", "vendor package", "third-party package", "recalled", "unverified"]
    full: Digest | None = None
    core: Digest | None = None
    markup: Digest | None = None
    probe: Digest | None = None
    pipeline: Digest | None = None
    format: Name | None = None
    vocab_type: Name | None = None
    normalizer: Name | None = None
    named_ids: Positive | None = None
    highest_id: Id | None = None
    base_ids: Positive | None = None
    bos: Id | None = None
    eos: Id | None = None
    pad: Id | None = None
    add_bos: Flag | None = None
    add_eos: Flag | None = None
    stop_ids: list[Id] = []
    template_ids: list[Id] = []
    digits: Name | None = None
    control_known: Flag = True
    control_dropped: Small | None = None
    embedding_rows: list[Positive] = []
    repos: list[Name] = []
    """Repositories from whose own file, or whose vendor's, the record was read."""
    same_text_as: list[SameText] = []
    notes: list[Text] = []
    blocks: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16})*$")] | None = None
    sketch: Annotated[str, StringConstraints(pattern=_BASE64)] | None = None
    head: list[TokenText] = []
    control: dict[Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")], TokenText] = {}


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


class LaunchFacts(_Window, _Sourced):
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


class Architectures(_Sourced):
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


class EngineFile(_Sourced):
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


class Family(CatalogRecord):
    """Names that several devices have, in the row of the one that is assumed."""

    names: Annotated[list[Name], Field(min_length=1)]
    """Aliases of the row."""
    others: Annotated[list[Name], Field(min_length=1)]
    """Keys of the other devices that the names may mean."""


class DeviceRecord(_Sourced):
    """One `[[device]]` row."""

    key: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.\-]{0,60}$")]
    name: Name
    vendor: Name
    aliases: list[Name] = []
    shared_names: list[Name] = []
    """What torch or the vendor's tool calls it and another row too, in lower case: memory tells them apart."""
    stands_for: list[Family] = []
    """Aliases that other devices have as well: this one is assumed."""
    soc: Name | None = None
    memory_bytes: Count | None = None
    """Nominal."""
    memory_seen_bytes: Count | None = None
    """What the framework reports as total."""
    bandwidth: Rate | None = None
    """Bytes a second."""
    peak_fp16: Operations | None = None
    """Dense operations a second of the matrix units, as the other peaks."""
    peak_fp8: Operations | None = None
    peak_int8: Operations | None = None
    compute_efficiency: Share | None = None
    memory_efficiency: Share | None = None
    devices_per_node: Positive | None = None
    bf16: Flag | None = None
    fp8: Flag | None = None
    uncertain: list[Name] = []
    notes: list[Text] = []


class DevicesFile(CatalogRecord):
    """devices.toml."""

    device: list[DeviceRecord] = []


IssueKind = Literal["crash", "wrong_output", "zero_acceptance", "slow", "quality"]


class IssueRecord(_Conditioned, _Sourced):
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


Release = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\w+)*$")]
Python = Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]


class TorchNpuRecord(_Sourced):
    """One `[[torch_npu]]` row: a release and what it is made for."""

    version: Release
    torch: Release
    cann: Release | None = None
    python_min: Python | None = None
    python_max: Python | None = None


class AscendEngineRecord(_Sourced):
    """One `[[engine]]` row: a release of an engine for NPUs and the set that it names."""

    name: Name
    version: Release
    vllm: Release | None = None
    cann: Release | None = None
    torch: Release | None = None
    torch_npu: Release | None = None
    triton_ascend: Release | None = None
    python_min: Python | None = None
    python_max: Python | None = None


class AscendVersionsFile(CatalogRecord):
    """ascend_versions.toml: newest releases first."""

    torch_npu: list[TorchNpuRecord]
    engine: list[AscendEngineRecord]


_PROFILE_FIELDS = ModelProfile._fields


def _known_fields(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"uncertain names {name!r}, which is no field{did_you_mean(name, known)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest, as the end of a message; empty where none is near."""
    near = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
