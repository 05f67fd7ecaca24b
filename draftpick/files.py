"""The catalogue's text files as records: what each file may say, and what of a row must agree with itself. Those about
engines are in `draftpick.engine_file`.

pydantic: import this module inside functions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from draftpick.models.profile import MOST_PARAMS, Experts, LatentAttention, Lineage, ModelProfile

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


class Sourced(CatalogRecord):
    """A part that says where its facts come from."""

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


class ModelRecord(Sourced):
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


class HeadRecord(Sourced):
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


class NotPublished(Sourced):
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


class TokenizerRecord(Sourced):
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


class Family(CatalogRecord):
    """Names that several devices have, in the row of the one that is assumed."""

    names: Annotated[list[Name], Field(min_length=1)]
    """Aliases of the row."""
    others: Annotated[list[Name], Field(min_length=1)]
    """Keys of the other devices that the names may mean."""


class DeviceRecord(Sourced):
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


Release = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\w+)*$")]
Python = Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]


class TorchNpuRecord(Sourced):
    """One `[[torch_npu]]` row: a release and what it is made for."""

    version: Release
    torch: Release
    cann: Release | None = None
    python_min: Python | None = None
    python_max: Python | None = None


class AscendEngineRecord(Sourced):
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
