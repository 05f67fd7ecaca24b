"""What the catalogue knows of a model read from files: whose copy or descendant it is, as far as evidence goes.

Evidence, strongest first: the file names its own model; its lineage names a base; its folder or title has a catalogued
name and the shape agrees; models of exactly this shape agree with each other. Only the first two count as certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from draftpick.models.profile import Lineage, ModelProfile

if TYPE_CHECKING:
    from draftpick.catalog import Catalog, Record

_ORIGIN = ("family", "generation", "variant")
_SIZES = ("params_total", "params_text", "params_active", "tie_word_embeddings", "max_position_embeddings")


def with_kin(profile: ModelProfile, own_ids: Iterable[str], names: Iterable[str], catalog: Catalog) -> ModelProfile:
    """The profile with family, generation, variant and lineage where the catalogue has a model to take them from.

    `own_ids` are hub ids under which the files name their own model, `names` are titles: of the folder or the file.
    """
    for model_id in own_ids:
        known = catalog.find(model_id)
        if known is not None and same_shape(profile, known):
            return _copy_of(profile, known, certain=True)
    base = catalog.find(profile.lineage.base_model) if profile.lineage.base_model else None
    if base is not None and base.id.lower() == profile.id.lower():
        base = None  # a model is not its own base
    titled = [known for name in names if (known := _titled(name, catalog)) is not None and same_shape(profile, known)]
    if titled and (base is None or base.id == titled[0].id or profile.lineage.relation is None):
        return _copy_of(profile, titled[0], certain=False)
    return _descendant_of(profile, base) if base is not None else _like_its_shape(profile, catalog)


def same_shape(profile: ModelProfile, known: ModelProfile) -> bool:
    """Whether layers, widths, heads and embedding rows agree, as far as both are known; layers must be."""
    ours, theirs = _shape(profile), _shape(known)
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return ours[0] is not None and theirs[0] is not None and len(pairs) >= 3 and all(a == b for a, b in pairs)


def _shape(profile: ModelProfile) -> tuple[int | None, ...]:
    number = profile.experts.num_experts if profile.experts else None
    return (profile.num_hidden_layers, profile.hidden_size, profile.num_attention_heads, profile.vocab_size, number)


def _titled(name: str, catalog: Catalog) -> ModelProfile | None:
    """The catalogued model with this bare name; quantisers' endings and separators do not count."""
    from draftpick.catalog_names import bare

    known, wanted = catalog.find(name), bare(name)
    if known is not None or len(wanted) < 5:
        return known
    found = [model_id for model_id in catalog.models if len(own := bare(model_id)) >= 5 and _is_title(own, wanted)]
    longest = max((len(bare(model_id)) for model_id in found), default=0)
    found = [model_id for model_id in found if len(bare(model_id)) == longest]
    return catalog.profile(found[0]) if len(found) == 1 else None


_ENDINGS = ("gguf", "gptq", "awq", "fp8", "w8a8", "int4", "int8", "bnb", "4bit", "8bit", "mlx", "hf")


def _is_title(own: str, wanted: str) -> bool:
    return wanted == own or (wanted.startswith(own) and wanted[len(own) :].startswith(_ENDINGS))


def _copy_of(profile: ModelProfile, known: ModelProfile, *, certain: bool) -> ModelProfile:
    """The files hold this catalogued model, perhaps quantised."""
    taken: dict[str, Any] = {name: getattr(known, name) for name in _ORIGIN if getattr(profile, name) is None}
    for name in (*_SIZES, "license", "architecture", "model_type"):
        if getattr(profile, name) is None or name in profile.uncertain:
            taken[name] = getattr(known, name)
    if profile.dtype is None and not (profile.quantization or "").startswith("gguf"):
        taken["dtype"] = known.dtype
    taken = {name: value for name, value in taken.items() if value is not None}
    taken.update(_tokenizer_of(profile, known))
    if known.id.lower() == profile.id.lower():
        taken["lineage"] = known.lineage
        return _taken(profile, known, taken, certain, f"facts its files lack are those of {known.id} of the catalogue")
    taken["lineage"] = Lineage(
        base_model=known.id,
        relation=profile.lineage.relation or ("quantized" if profile.quantization and not known.quantization else None),
        data=known.lineage.data,
        trained_tokens=known.lineage.trained_tokens,
        thinking=profile.lineage.thinking or known.lineage.thinking,
        stock=known.lineage.stock,
        stock_generation=known.lineage.stock_generation,
    )
    how = "its files name" if certain else "by name and shape,"
    note = f"{how} {known.id} of the catalogue"
    return _taken(profile, known, taken, certain, note)


def _tokenizer_of(profile: ModelProfile, known: ModelProfile) -> dict[str, Any]:
    """The catalogue's tokenizer for files without one: it was not read from them, so it is only probable."""
    if profile.tokenizer is not None or known.tokenizer is None:
        return {}
    return {"tokenizer": known.tokenizer._replace(verified=False)}


def _descendant_of(profile: ModelProfile, base: ModelProfile) -> ModelProfile:
    """The files name a catalogued model as their base."""
    own = profile.lineage
    relation = own.relation
    if relation is None and profile.quantization and not base.quantization and same_shape(profile, base):
        relation = "quantized"
    same_weights = relation == "quantized"
    taken: dict[str, Any] = {"family": base.family, "generation": base.generation}
    if same_weights:
        taken["variant"] = base.variant
        taken.update(_tokenizer_of(profile, base))
        taken.update({name: getattr(base, name) for name in _SIZES if getattr(profile, name) is None})
    elif profile.vocab_size is not None and profile.vocab_size == base.vocab_size:
        # Training on keeps the ids of text; where no row was added either, the base's tokenizer is the probable one.
        taken.update(_tokenizer_of(profile, base))
    taken = {name: value for name, value in taken.items() if value is not None and getattr(profile, name) is None}
    taken["lineage"] = Lineage(
        base_model=base.id,
        relation=relation,
        data=own.data or base.lineage.data,
        trained_tokens=own.trained_tokens or base.lineage.trained_tokens,
        thinking=own.thinking or (base.lineage.thinking if same_weights else None),
        stock=base.lineage.stock,
        stock_generation=base.lineage.stock_generation,
    )
    return _taken(profile, base, taken, True, f"its files name {base.id} as its base")


def _like_its_shape(profile: ModelProfile, catalog: Catalog) -> ModelProfile:
    """What all catalogued models of exactly this shape and tokenizer agree on."""
    if None in _shape(profile)[:4] or profile.head_for is not None:
        return profile
    alike = [catalog.profile(key) for key, record in catalog.models.items() if _same_record(profile, record)]
    ours = profile.tokenizer.full if profile.tokenizer else None
    if ours is not None:
        alike = [known for known in alike if known.tokenizer is None or known.tokenizer.full in (None, ours)]
    if not alike:
        return profile
    first = alike[0]
    taken: dict[str, Any] = {
        name: getattr(first, name)
        for name in ("family", "generation", *_SIZES)  # a base model and its tuned ones have one shape
        if getattr(profile, name) is None and all(getattr(known, name) == getattr(first, name) for known in alike)
    }
    taken = {name: value for name, value in taken.items() if value is not None}
    data = first.lineage.data if all(known.lineage.data == first.lineage.data for known in alike) else None
    if data and profile.lineage.data is None:
        taken["lineage"] = profile.lineage._replace(data=data)
    if not taken:
        return profile
    who = first.id if len(alike) == 1 else f"{len(alike)} catalogued models ({first.id} …)"
    return _taken(profile, first, taken, False, f"shape and vocabulary are those of {who}")


def _same_record(profile: ModelProfile, record: Record) -> bool:
    if (
        record.get("num_hidden_layers") != profile.num_hidden_layers
        or record.get("hidden_size") != profile.hidden_size
        or record.get("vocab_size") != profile.vocab_size
        or record.get("num_attention_heads") != profile.num_attention_heads
    ):
        return False
    number = (record.get("experts") or {}).get("num_experts")
    if number != (profile.experts.num_experts if profile.experts else None):
        return False
    return "architecture" in profile.uncertain or _stem(record.get("architecture")) == _stem(profile.architecture)


def _stem(architecture: str | None) -> str:
    """The class without what it is for: a text-only copy of a multimodal model has another ending."""
    return (architecture or "").removesuffix("ForConditionalGeneration").removesuffix("ForCausalLM")


def _taken(profile: ModelProfile, known: ModelProfile, taken: dict[str, Any], certain: bool, note: str) -> ModelProfile:
    doubtful = frozenset(taken) if not certain else frozenset(taken) & (known.uncertain | {"variant"})
    settled = profile.uncertain - frozenset(taken) if certain else profile.uncertain
    return profile._replace(**taken, uncertain=settled | doubtful, notes=(*profile.notes, note))
