"""The catalogue's text files as records: schema, checks that need several rows, and writing an overlay.

pydantic lives here and nowhere else; import this module inside functions.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from draftpick.errors import InvalidCatalog
from draftpick.launch_values import IN_SCRIPT, PLACEHOLDER, VALUES
from draftpick.models.parameters import count
from draftpick.models.profile import Experts, LatentAttention, Lineage, ModelProfile
from draftpick.pair import CONDITIONS
from draftpick.toml_file import ADVICE, MAX_FILE_BYTES, read_toml

if TYPE_CHECKING:
    from draftpick.models.tokenizer import Fingerprint

MAX_TOTAL_BYTES = 8_000_000
MAX_FILES = 1_000
TOLERANCE = 0.03
"""Share by which a stated parameter count may differ from the one recomputed from dimensions."""


# ---------------------------------------------------------------------- records

Name = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Count = Annotated[int, Field(strict=True, ge=1, le=10**16)]
Small = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Positive = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Id = Annotated[int, Field(strict=True, ge=0, le=10**8)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(gt=0, le=1)]
Month = Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Source = Text | Annotated[list[Text], Field(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Sourced(_Record):
    source: Source
    """Where the facts were read."""
    checked: date
    """The day on which somebody last compared them with the source."""


class ExpertsRecord(_Record):
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


class LatentRecord(_Record):
    """See `draftpick.models.profile.LatentAttention`."""

    kv_lora_rank: Positive
    qk_rope_head_dim: Positive
    q_lora_rank: Positive | None = None
    qk_nope_head_dim: Positive | None = None
    v_head_dim: Positive | None = None


class LineageRecord(_Record):
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
    num_hidden_layers: Positive | None = None
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
    max_position_embeddings: Positive | None = None
    rope: Name | None = None
    attention: Literal["full", "sliding", "hybrid", "recurrent", "unknown"] = "full"
    attention_note: Text | None = None
    sliding_window: Positive | None = None
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
        for part in (self.sliding_layers, self.recurrent_layers):
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
    num_hidden_layers: Positive | None = None
    hidden_size: Positive | None = None
    intermediate_size: Positive | None = None
    num_attention_heads: Positive | None = None
    num_key_value_heads: Positive | None = None
    head_dim: Positive | None = None
    vocab_size: Positive | None = None
    draft_vocab_size: Positive | None = None
    num_spec_tokens: Positive | None = None
    block_size: Positive | None = None
    aux_layer_ids: list[Small] = []
    """Layers of the target whose hidden states it reads."""
    max_position_embeddings: Positive | None = None
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


class FamilyFile(_Record):
    """families/<slug>.toml."""

    family: Name
    not_published: list[NotPublished] = []
    model: list[ModelRecord] = []
    head: list[HeadRecord] = []


class SameText(_Record):
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
    head: list[str] = []
    control: dict[Annotated[str, StringConstraints(pattern=r"^\d{1,9}$")], str] = {}


class _Facts(BaseModel):
    """A table of an engine file: what judging cannot do without; the rules that read the rest say what it means."""

    model_config = ConfigDict(extra="allow", frozen=True)


Support = Literal["yes", "no", "experimental", "unknown"]
VocabularyRule = Literal[
    "equal-rows", "equal-rows-and-map", "token-text", "equal-rows-or-translate", "named-ids", "none"
]
Conditions = dict[str, Any]


class OlderMethod(_Facts):
    """An entry of `was` of a method."""

    support: Support
    note: str = ""


class MethodFacts(_Facts):
    """[methods.<name>]."""

    support: Support
    note: str = ""
    max_num_spec_tokens: Positive | None = None
    was: list[OlderMethod] = []


class OlderVocabulary(_Facts):
    """An entry of `was` of the vocabulary."""

    until: Name
    rule: VocabularyRule | None = None


class Bridge(_Facts):
    """[vocabulary.bridge]."""

    name: Text


class VocabularyFacts(_Facts):
    """[vocabulary]."""

    rule: VocabularyRule
    max_size_difference: Small | None = None
    first_compared_id: Small | None = None
    bridge: Bridge | None = None
    was: list[OlderVocabulary] = []

    @model_validator(mode="after")
    def _fits(self) -> VocabularyFacts:
        if self.rule == "token-text" and None in (self.max_size_difference, self.first_compared_id):
            raise ValueError("the rule token-text needs max_size_difference and first_compared_id")
        return self


class Limits(_Facts):
    """[limits]."""

    max_num_spec_tokens: Positive | None = None


class Splits(_Facts):
    """[tensor_parallel]."""

    was: list[dict[str, Any]] = []


class _Conditioned(BaseModel):
    """A row that holds for some pairs only."""

    methods: list[Name] = []
    target: Conditions = {}
    draft: Conditions = {}
    head: Conditions = {}
    either: Conditions = {}
    setting: Conditions = {}
    device: Conditions = {}
    pair: Conditions = {}

    @model_validator(mode="after")
    def _compares(self) -> _Conditioned:
        wanted = [value for subject in CONDITIONS for value in getattr(self, subject).values()]
        for value in (part for one in wanted for part in (one if isinstance(one, list) else [one])):
            if isinstance(value, str) and not re.fullmatch(r"!?([<>]=?\s*-?\d+(\.\d+)?|[^<>!].*|)", value):
                raise ValueError(f"the condition {value!r} compares with no number")
        return self


class ExceptionFacts(_Conditioned):
    """[[exceptions]]."""

    model_config = ConfigDict(extra="allow", frozen=True)

    verdict: Literal["refused", "care", "unknown"]
    reason: Text


class LaunchMethod(_Record):
    """[[launch.method]]. See `draftpick.launch_text` for what templates mean."""

    names: Annotated[list[Name], Field(min_length=1)]
    source: Source
    since: Name | None = None
    until: Name | None = None
    rows: Literal["equal", "differ"] | None = None
    words: list[Any] = []
    each: list[Any] = []
    file: dict[Literal["name", "title", "content"], Any] | None = None
    then: list[str] = []
    script: str | None = None
    cautions: list[Any] = []
    schedule_cautions: list[Any] = []


class LaunchFacts(_Sourced):
    """[launch]: how the engine is started."""

    since: Name | None = None
    until: Name | None = None
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
            raise ValueError(f"no value is called {unknown[0]!r}{_did_you_mean(unknown[0], VALUES)}")
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


class EngineFile(_Sourced):
    """engines/<key>.toml. See `draftpick.rules.engine_facts` for what its tables mean."""

    model_config = ConfigDict(extra="allow", frozen=True)

    key: Name
    name: Name
    version: Name
    aliases: list[Name] = []
    gguf: Literal["only", "some", "no"] | None = None
    vocabulary: VocabularyFacts
    methods: dict[Name, MethodFacts] = {}
    limits: Limits = Limits()
    tensor_parallel: Splits = Splits()
    exceptions: list[ExceptionFacts] = []
    builds: list[dict[str, Any]] = []
    launch: LaunchFacts | None = None


class DeviceRecord(_Sourced):
    """One `[[device]]` row."""

    key: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.\-]{0,60}$")]
    name: Name
    vendor: Name
    aliases: list[Name] = []
    shared_names: list[Name] = []
    """What torch or the vendor's tool calls it and another row too, in lower case: memory tells them apart."""
    soc: Name | None = None
    memory_bytes: Count | None = None
    """Nominal."""
    memory_seen_bytes: Count | None = None
    """What the framework reports as total."""
    bandwidth: Count | None = None
    """Bytes a second."""
    peak_fp16: Count | None = None
    """Dense operations a second of the matrix units, as the other peaks."""
    peak_fp8: Count | None = None
    peak_int8: Count | None = None
    compute_efficiency: Share | None = None
    memory_efficiency: Share | None = None
    devices_per_node: Positive | None = None
    bf16: Flag | None = None
    fp8: Flag | None = None
    uncertain: list[Name] = []
    notes: list[Text] = []


class DevicesFile(_Record):
    """devices.toml."""

    device: list[DeviceRecord] = []


Version = Annotated[str, StringConstraints(pattern=r"^(b\d{1,9}|v?\d[0-9A-Za-z.+-]{0,50})$")]
IssueKind = Literal["crash", "wrong_output", "zero_acceptance", "slow", "quality"]


class IssueRecord(_Conditioned, _Sourced):
    """One `[[issue]]` row: a trouble that others had with an engine although it takes the pair."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.\-]{0,60}$")]
    engines: Annotated[list[Name], Field(min_length=1)]
    kind: IssueKind
    symptom: Text
    mending: Text
    since: Version | None = None
    until: Version | None = None
    """The first version that no longer has it."""
    certain: Flag = True
    """Whether the bounds are exactly known."""
    fixed: Flag | None = None
    reported: Month | None = None
    """Of the first report."""

    @model_validator(mode="after")
    def _fits(self) -> IssueRecord:
        for subject, known in CONDITIONS.items():
            for name in getattr(self, subject):
                if name not in known:
                    raise ValueError(f"{subject} has no {name!r}{_did_you_mean(name, known)}")
        return self


class IssuesFile(_Record):
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


class AscendVersionsFile(_Record):
    """ascend_versions.toml: newest releases first."""

    torch_npu: list[TorchNpuRecord]
    engine: list[AscendEngineRecord]


_PROFILE_FIELDS = ModelProfile._fields


def _known_fields(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"uncertain names {name!r}, which is no field{_did_you_mean(name, known)}")


# ---------------------------------------------------------------------- problems


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a file says that it must not, and how to mend it."""

    file: str
    where: str
    message: str
    fix: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.message}" if self.where else f"{self.file}: {self.message}"


# ---------------------------------------------------------------------- validation of a folder


@dataclass(slots=True)
class _Seen:
    """What the files of a folder hold together."""

    base: Mapping[str, Any]
    overlay: bool
    models: dict[str, tuple[str, ModelRecord]] = field(default_factory=dict)
    heads: dict[str, tuple[str, HeadRecord]] = field(default_factory=dict)
    not_published: list[tuple[str, NotPublished]] = field(default_factory=list)
    tokenizers: set[str] = field(default_factory=set)
    engines: set[str] = field(default_factory=set)
    issues: dict[str, tuple[str, IssueRecord]] = field(default_factory=dict)
    written: dict[tuple[str, str], str] = field(default_factory=dict)
    """(model or head, id in lower case) → the id as it was written first."""
    problems: list[Problem] = field(default_factory=list)

    def add(self, file: str, where: str, message: str, fix: str, *, warning: bool = False) -> None:
        severity: Literal["error", "warning"] = "warning" if warning else "error"
        self.problems.append(Problem(file, where, message, fix, severity))


def validate(folder: Path, *, base: Mapping[str, Any] | None = None) -> list[Problem]:
    """All problems of a catalogue folder, or of an overlay laid over the compiled index `base`.

    A folder without engines, tokenizers and families of its own counts as an overlay of the shipped catalogue.
    Raises InvalidCatalog where the folder cannot be listed.
    """
    paths = _paths(folder)
    whole = all((folder / name).is_dir() for name in ("families", "tokenizers", "engines"))
    if base is None and not whole:
        base = _rows_below(_shipped_folder())
    seen = _Seen(base or {}, overlay=base is not None)
    _check_files(folder, paths, seen)
    _check_rows_together(seen)
    return sorted(seen.problems, key=lambda problem: (problem.severity, problem.file, problem.where))


def _shipped_folder() -> Path:
    """The catalogue of the checkout, or the one that came with the package."""
    package = Path(__file__).parent
    beside = package.parent / "catalog"
    return beside if (beside / "families").is_dir() else package / "_data" / "catalog"


def _rows_below(folder: Path) -> dict[str, Any]:
    """The models, and the keys of tokenizers and engines, of a whole catalogue, as an overlay needs them."""
    files = [read_toml(path) for path in sorted((folder / "families").glob("*.toml"))]
    return {
        "models": {row["id"]: row for content in files for row in content.get("model", ())},
        "tokenizers": {path.stem: {} for path in (folder / "tokenizers").glob("*.toml")},
        "engines": {path.stem: {} for path in (folder / "engines").glob("*.toml")},
    }


def check_overlay(folder: Path, base: Mapping[str, Any]) -> list[Path]:
    """The files of an overlay, once they are known to be sound.

    Raises InvalidCatalog with the first error and the number of others.
    """
    paths = _paths(folder)
    errors = [problem for problem in validate(folder, base=base) if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidCatalog(f"{folder}: {errors[0]}{more}", errors[0].fix or ADVICE)
    return paths


def _paths(folder: Path) -> list[Path]:
    """The TOML files of a folder, or the single file that `folder` is."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InvalidCatalog(f"{folder}: no such folder", "give a folder with families/*.toml in it")
    try:
        found = sorted(
            path for part in (".", "families", "tokenizers", "engines") for path in (folder / part).glob("*.toml")
        )
        sizes = [path.stat().st_size for path in found]
    except OSError as error:
        where = error.filename or folder
        raise InvalidCatalog(f"{where}: {error.strerror or error}", "check the path and its permissions") from None
    if len(found) > MAX_FILES:
        raise InvalidCatalog(f"{folder}: {len(found)} files; at most {MAX_FILES} are read", "merge them by family")
    if sum(size for size in sizes if size <= MAX_FILE_BYTES) > MAX_TOTAL_BYTES:
        limit = MAX_TOTAL_BYTES / 1e6
        raise InvalidCatalog(f"{folder}: more than {limit:.0f} MB in all", "leave out what you do not need")
    return found


_Model = type[_Record]


def _check_files(folder: Path, paths: Sequence[Path], seen: _Seen) -> None:
    for path in paths:
        name = str(path.relative_to(folder)) if path != folder else path.name
        try:
            content = read_toml(path)
        except InvalidCatalog as error:
            seen.add(name, "", error.message.removeprefix(f"{path}: "), error.hint)
            continue
        part = path.parent.name
        if part == "tokenizers" and path != folder:
            _check_tokenizer(name, path.stem, content, seen)
        elif part == "engines" and path != folder:
            _check_engine(name, path.stem, content, seen)
        elif path.name == "devices.toml":
            devices = _record(DevicesFile, name, content, seen)
            if isinstance(devices, DevicesFile):
                _in_order(name, "device", [row.key for row in devices.device], seen)
        elif path.name == "known_issues.toml":
            _check_issues(name, content, seen)

        elif path.name == "ascend_versions.toml":
            _check_versions(name, content, seen)
        else:
            _check_family(name, content, seen)


def _check_versions(name: str, content: dict[str, Any], seen: _Seen) -> None:
    record = _record(AscendVersionsFile, name, content, seen)
    if not isinstance(record, AscendVersionsFile):
        return
    if seen.overlay:
        seen.add(name, "", "releases are read from the shipped catalogue alone", "remove the file", warning=True)
    known = {row.version: row for row in record.torch_npu}
    if len(known) < len(record.torch_npu):
        seen.add(name, "torch_npu", "a version stands twice", "remove one of the two rows")
    for row in record.torch_npu:
        if row.torch.split(".")[:2] != row.version.split(".")[:2]:
            seen.add(name, f"torch_npu {row.version}", f"is made for torch {row.torch}", "correct torch or version")
    for engine in record.engine:
        pinned = known.get(engine.torch_npu) if engine.torch_npu is not None else None
        if pinned is not None and (pinned.torch, pinned.cann) != (engine.torch, engine.cann):
            seen.add(
                name,
                f"engine {engine.name} {engine.version}",
                f"its torch_npu {pinned.version} belongs to torch {pinned.torch} and CANN {pinned.cann}",
                "correct one of the two rows",
            )


def _check_family(name: str, content: dict[str, Any], seen: _Seen) -> None:
    file = _record(FamilyFile, name, content, seen)
    if not isinstance(file, FamilyFile):
        return
    _in_order(name, "model", [row.id for row in file.model], seen)
    _in_order(name, "head", [row.id for row in file.head], seen)
    for model in file.model:
        _check_count(name, model, seen)
        _once(seen.models, model.id, name, model, "model", seen)
    for head in file.head:
        _once(seen.heads, head.id, name, head, "head", seen)
    seen.not_published.extend((name, row) for row in file.not_published)


def _check_tokenizer(name: str, key: str, content: dict[str, Any], seen: _Seen) -> None:
    seen.tokenizers.add(key)
    record = _record(TokenizerRecord, name, content, seen)
    if isinstance(record, TokenizerRecord) and record.key not in (None, key):
        seen.add(name, "key", f"key {record.key!r} is not the name of the file", f"rename it to {record.key}.toml")


def _check_issues(name: str, content: dict[str, Any], seen: _Seen) -> None:
    file = _record(IssuesFile, name, content, seen)
    if isinstance(file, IssuesFile):
        _in_order(name, "issue", [row.key for row in file.issue], seen)
        for row in file.issue:
            _once(seen.issues, row.key, name, row, "issue", seen)


def _check_engine(name: str, key: str, content: dict[str, Any], seen: _Seen) -> None:
    seen.engines.add(key)
    record = _record(EngineFile, name, content, seen)
    if isinstance(record, EngineFile) and record.key != key:
        seen.add(name, "key", f"key {record.key!r} is not the name of the file", f"rename it to {record.key}.toml")


def _record(kind: _Model, name: str, content: dict[str, Any], seen: _Seen) -> _Record | None:
    """The content as a record; what does not fit becomes problems."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        for entry in error.errors(include_url=False, include_input=False)[:50]:
            where, message, fix = _explain(kind, content, entry)
            seen.add(name, where, message, fix)
        return None


def _explain(kind: _Model, content: Any, entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """Where, what and how to mend, of one entry of a ValidationError."""
    location = [part for part in entry["loc"] if not _is_branch(part)]
    where = _row_name(content, location)
    key = str(location[-1]) if location else ""
    if entry["type"] == "extra_forbidden":
        near = _did_you_mean(key, _keys_at(kind, location[:-1]))
        return where, f"unknown key {key!r}{near}", near.lstrip("; ") or "remove it, or see the keys in CONTRIBUTING"
    if entry["type"] == "missing":
        return where, f"key {key!r} is missing", f"add {key} = …"
    message = str(entry["msg"]).removeprefix("Value error, ")
    return where, f"{key}: {message[:1].lower()}{message[1:]}" if key else message, f"correct {key or 'the row'}"


def _is_branch(part: int | str) -> bool:
    """Whether pydantic named a branch of a union, not a key."""
    return isinstance(part, str) and ("[" in part or part in ("str", "constrained-str"))


def _row_name(content: Any, location: Sequence[int | str]) -> str:
    if len(location) >= 2 and isinstance(location[1], int) and isinstance(content, dict):
        rows = content.get(str(location[0]))
        if isinstance(rows, list) and location[1] < len(rows) and isinstance(rows[location[1]], dict):
            row = rows[location[1]]
            name = row.get("id") or row.get("key")
            return f"{location[0]} {str(name)[:120]}" if name else f"{location[0]} number {location[1] + 1}"
    return ""


def _keys_at(kind: _Model, location: Sequence[int | str]) -> Iterable[str]:
    """The keys that a record allows at a place, for suggestions."""
    current: Any = kind
    for part in location:
        if isinstance(part, int) or current is None:
            continue
        item = current.model_fields.get(part)
        current = next(iter(_records_in(item.annotation)), None) if item is not None else None
    return current.model_fields if current is not None else ()


def _records_in(annotation: Any) -> Iterator[_Model]:
    if isinstance(annotation, type) and issubclass(annotation, _Record):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _records_in(part)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _order(name: str) -> tuple[str, str]:
    return name.casefold(), name


def _in_order(file: str, kind: str, ids: Sequence[str], seen: _Seen) -> None:
    """Rows stand in the order of their ids, so that two people add a row at the same place."""
    for before, after in pairwise(ids):
        if _order(before) > _order(after):
            place = max((other for other in ids if _order(other) < _order(after)), key=_order, default=None)
            fix = f"move {after} after {place}" if place else f"move {after} to the front"
            seen.add(
                file, f"{kind} {after}", f"stands after {before}: rows are sorted by id", fix, warning=seen.overlay
            )
            return


def _once(found: dict[str, Any], key: str, file: str, row: Any, kind: str, seen: _Seen) -> None:
    same = seen.written.setdefault((kind, key.lower()), key)
    if same in found:
        place = "in this file" if found[same][0] == file else f"in {found[same][0]}"
        seen.add(file, f"{kind} {key}", f"stands twice: also {place}", "remove one of the two rows")
        return
    found[key] = (file, row)


def _check_count(file: str, row: ModelRecord, seen: _Seen) -> None:
    """Stated counts against those recomputed from the dimensions."""
    counts = count(row.profile())
    if counts is None:
        return
    stated: list[tuple[str, int | None, int]] = [
        ("params_text", row.params_text, counts.total_text),
        ("params_active", row.params_active if row.experts else None, counts.active),
    ]
    explained = row.param_check not in (None, "exact", "within 3 %")
    whole = row.modality == "text" and not row.num_nextn_predict_layers and row.quantization is None
    if whole and not explained:
        stated.append(("params_total", row.params_total, counts.total_text))
    for name, value, computed in stated:
        if value is not None and abs(value - computed) > TOLERANCE * computed:
            share = (value - computed) / computed
            seen.add(
                file,
                f"model {row.id}",
                f"{name} {value:,} differs by {share:+.1%} from {computed:,}, recomputed from the dimensions",
                f"correct {name} or the dimensions, or say in param_check why they differ",
                warning=seen.overlay,
            )


# ---------------------------------------------------------------------- rows that must agree with other rows


def _check_rows_together(seen: _Seen) -> None:
    known: dict[str, str] = {name.lower(): name for name in seen.base.get("models", {})}
    known.update((name.lower(), name) for name in seen.models)
    aliases = _check_aliases(seen, known)
    _check_tokenizer_keys(seen)
    _check_targets(seen, known, aliases)
    _check_lineage(seen)
    _check_engine_keys(seen)


def _check_engine_keys(seen: _Seen) -> None:
    keys = {*seen.engines, *seen.base.get("engines", {})}
    for file, row in seen.issues.values():
        for engine in row.engines:
            if engine not in keys:
                message = f"no engine has the key {engine!r}{_did_you_mean(engine, keys)}"
                seen.add(file, f"issue {row.key}", message, "name engines by the key of their file")


def _check_aliases(seen: _Seen, known: Mapping[str, str]) -> dict[str, str]:
    """Lower-case alias → id of the model."""
    aliases: dict[str, str] = {}
    for model_id, record in seen.base.get("models", {}).items():
        if model_id not in seen.models:
            aliases.update((alias.lower(), model_id) for alias in record.get("aliases", ()))
    rows: list[tuple[str, str, ModelRecord | HeadRecord]] = [
        *((file, "model", model) for file, model in seen.models.values()),
        *((file, "head", head) for file, head in seen.heads.values()),
    ]
    for file, kind, row in rows:
        for alias in row.aliases:
            owner = known.get(alias.lower()) or aliases.get(alias.lower())
            if owner is not None:
                whose = "its own id" if owner == row.id else f"taken by {owner}"
                seen.add(file, f"{kind} {row.id}", f"alias {alias!r} is {whose}", "remove the alias")
            else:
                aliases[alias.lower()] = row.id
    for head_id, (file, _) in seen.heads.items():
        if head_id.lower() in known:
            seen.add(
                file, f"head {head_id}", "is a model as well", "keep one of the two; a model has made_for = [targets]"
            )
    return aliases


def _check_tokenizer_keys(seen: _Seen) -> None:
    keys = {*seen.tokenizers, *seen.base.get("tokenizers", {})}
    if not keys:
        return
    for kind, rows in (("model", seen.models), ("head", seen.heads)):
        for file, row in rows.values():
            if row.tokenizer is not None and row.tokenizer not in keys:
                near = _did_you_mean(row.tokenizer, keys)
                fix = near.lstrip("; ") or f"add tokenizers/{row.tokenizer}.toml"
                seen.add(file, f"{kind} {row.id}", f"no tokenizer has the key {row.tokenizer!r}{near}", fix)


def _check_targets(seen: _Seen, known: Mapping[str, str], aliases: Mapping[str, str]) -> None:
    def exists(name: str) -> bool:
        return name.lower() in known or name.lower() in aliases

    for file, head in seen.heads.values():
        if exists(head.target) == head.unlisted_target:
            message = "is in the catalogue" if head.unlisted_target else "is no model of the catalogue"
            fix = "remove unlisted_target" if head.unlisted_target else "correct it, or add unlisted_target = true"
            seen.add(file, f"head {head.id}", f"target {head.target!r} {message}", fix)
    for file, model in seen.models.values():
        for target in model.made_for:
            if not exists(target):
                seen.add(file, f"model {model.id}", f"made_for {target!r} is no model of the catalogue", "correct it")
    for file, row in seen.not_published:
        if not exists(row.nearest):
            seen.add(file, "not_published", f"nearest {row.nearest!r} is no model of the catalogue", "correct it")
        for name in row.names:
            if exists(name):
                seen.add(file, "not_published", f"{name!r} is a model of the catalogue", "remove the name")


def _check_lineage(seen: _Seen) -> None:
    """No model descends from itself."""
    parents: dict[str, str | None] = {
        model_id: record.get("lineage", {}).get("base_model")
        for model_id, record in seen.base.get("models", {}).items()
    }
    parents.update((model_id, row.lineage.base_model) for model_id, (_, row) in seen.models.items())
    settled: set[str] = set()
    for model_id, (file, _) in seen.models.items():
        path: dict[str, None] = {}
        current: str | None = model_id
        while current is not None and current not in settled and current not in path:
            path[current] = None
            current = parents.get(current)
        if current is not None and current in path:
            steps = list(path)
            circle = [*steps[steps.index(current) :], current]
            shown = " → ".join(circle if len(circle) <= 6 else [*circle[:3], "…", *circle[-2:]])
            seen.add(file, f"model {model_id}", f"descends from itself: {shown}", "correct base_model")
        settled.update(path)


# ---------------------------------------------------------------------- writing an overlay


class _Names(Protocol):
    def model_id(self, name: str) -> str | None:
        """The catalogued id that a name stands for."""


def add_to_overlay(profile: ModelProfile, folder: Path, catalog: _Names, *, model_id: str | None = None) -> Path:
    """Write a profile into an overlay folder, under `model_id` or its own id, and return the file written.

    Raises InvalidCatalog where the id is an alias of another model or the file there is unsound, and CannotWrite.
    """
    named = profile.with_changes(id=model_id) if model_id else profile
    owner = catalog.model_id(named.id)
    if owner is not None and owner.lower() != named.id.lower() and "/" in named.id:
        raise InvalidCatalog(f"{named.id} is another name of {owner}", "choose another id with --id")
    slug = re.sub(r"[^a-z0-9]+", "-", (named.family or "local").lower()).strip("-") or "local"
    path = folder / "families" / f"{slug}.toml"
    write_overlay(named, path)
    return path


def write_overlay(profile: ModelProfile, path: Path) -> None:
    """Write one model row into a family file, in place of a row with the same id; all other rows stay.

    The file is replaced in one step. A tokenizer that was read from a file gets a record of its own in the folder
    `tokenizers` beside the file's folder. Comments in front of the first key stay, others are lost.
    Raises InvalidCatalog where the file there or the profile breaks the schema, and CannotWrite.
    """
    from draftpick.atomic import CannotWrite, one_at_a_time

    model_row(profile, profile.family or "local")  # nothing is made for a profile that breaks the schema
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "check the folder's permissions") from None
    with one_at_a_time(path.parent):
        _put_in(profile, path)


def _put_in(profile: ModelProfile, path: Path) -> None:
    from draftpick.atomic import CannotWrite, write_text

    content, comment = _existing(path)
    family = content.setdefault("family", profile.family or "local")
    row = model_row(profile, family)
    rows = [other for other in content.get("model", ()) if other["id"].lower() != profile.id.lower()]
    content["model"] = sorted([*rows, row], key=lambda other: _order(other["id"]))
    try:
        if _has_own_record(profile.tokenizer):
            _write_tokenizer(profile.tokenizer, profile, path.parent.parent / "tokenizers")
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "check the folder's permissions") from None
    write_text(path, comment + _family_text(content))


def _existing(path: Path) -> tuple[dict[str, Any], str]:
    """The content of the file that is there, and the comments in front of its first key."""
    if not path.exists():
        return {}, ""
    content = read_toml(path)
    seen = _Seen({}, overlay=True)
    if _record(FamilyFile, path.name, content, seen) is None:
        raise InvalidCatalog(f"{path}: {seen.problems[0].where}: {seen.problems[0].message}", seen.problems[0].fix)
    comment = ""
    for line in path.read_text(encoding="utf-8-sig").splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        comment += line
    return content, comment


def model_row(profile: ModelProfile, family: str) -> dict[str, Any]:
    """A profile as a row: what is unknown or as usual is left out."""
    values: dict[str, Any] = {}
    for name, value in profile._asdict().items():
        if name not in ModelRecord.model_fields or value is None or (name == "family" and value == family):
            continue
        if name == "tokenizer":
            value = _file_key(profile.tokenizer) if _has_own_record(profile.tokenizer) else value.key
        elif name in ("experts", "latent", "lineage"):
            derived = ("stock", "stock_generation")
            value = {key: part for key, part in value._asdict().items() if part is not None and key not in derived}
        elif name == "uncertain":
            value = sorted(value)
        elif name in ("notes", "made_for"):
            value = list(value)
        if value not in ({}, []) and value != ModelRecord.model_fields[name].default:
            values[name] = value
    where = f": {profile.path}" if profile.path else ""
    values["source"] = f"read from {profile.origin}{where}"
    values["checked"] = date.today()
    seen = _Seen({}, overlay=True)
    if _record(FamilyFile, profile.id, {"family": family, "model": [values]}, seen) is None:
        raise InvalidCatalog(
            f"{profile.id} does not fit the catalogue: {seen.problems[0].message}", seen.problems[0].fix
        )
    return values


def _has_own_record(tokenizer: Fingerprint | None) -> bool:
    """Whether it was read from a file: a catalogued record of the same ids was not read from this model."""
    return tokenizer is not None and (tokenizer.tokens is not None or tokenizer.key.startswith("file:"))


def _file_key(tokenizer: Fingerprint | None) -> str:
    if tokenizer is None:
        return ""
    key = tokenizer.key
    if tokenizer.full and not key.startswith("file:"):
        key = f"file:{tokenizer.full[:16]}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)


def _write_tokenizer(tokenizer: Fingerprint | None, profile: ModelProfile, folder: Path) -> None:
    from draftpick.atomic import write_text

    if tokenizer is None:
        return
    key = _file_key(tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.toml"
    repos = [profile.id]
    if path.exists():
        known = read_toml(path).get("repos", [])
        repos = sorted({*repos, *(name for name in known if isinstance(name, str))}, key=_order)
    values: dict[str, Any] = {"key": key, "confidence": "verified file", "repos": repos}
    for name, value in tokenizer._asdict().items():
        if name in TokenizerRecord.model_fields and name not in (*values, "control", "same_text_as"):
            if name == "blocks":
                value = "".join(value)
            elif name == "sketch":
                value = base64.b64encode(b"".join(part.to_bytes(4, "little") for part in value)).decode()
            elif isinstance(value, tuple):
                value = list(value)
            if value not in (None, "", []) and value != TokenizerRecord.model_fields[name].default:
                values[name] = value
    values |= {"source": f"read from {profile.origin}: {profile.path or profile.id}", "checked": date.today()}
    if tokenizer.control:
        values["control"] = {str(token): tokenizer.control[token] for token in sorted(tokenizer.control)}
    write_text(path, _table(values))


def _family_text(content: Mapping[str, Any]) -> str:
    lines = [_table({"family": content["family"]})]
    for kind in ("not_published", "model", "head"):
        lines.extend(f"[[{kind}]]\n{_table(row)}" for row in content.get(kind, ()))
    return "\n".join(lines)


def _table(row: Mapping[str, Any]) -> str:
    """Keys and values, a line each; tables inside are inline."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in row.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items()) + " }"
    return "[" + ", ".join(_value(part) for part in value) + "]"
