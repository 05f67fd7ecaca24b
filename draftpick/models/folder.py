"""A model folder becomes a ModelProfile: config, headers of the weights, tokenizer and model card; never code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftpick.errors import InvalidFile, NotResolvable
from draftpick.models.bounded import clean, read_json, unreadable
from draftpick.models.card import Card, hub_id, read_card
from draftpick.models.config import ascend_quantization, draft_method, profile_from_config, quantization
from draftpick.models.kin import with_kin
from draftpick.models.profile import Lineage, ModelProfile

if TYPE_CHECKING:
    from draftpick.catalog import Catalog
    from draftpick.models.safetensors import Weights
    from draftpick.models.tokenizer import Fingerprint
    from draftpick.models.vocabulary import Vocabulary

Base = Callable[[str], ModelProfile]
"""Resolves the model that an adapter names as its base."""

MAX_DESCRIPTIONS = 4
"""Files of msmodelslim that say how a model was quantised; a folder has one."""


def profile_from_folder(
    folder: Path,
    catalog: Catalog,
    *,
    id: str,
    origin: str = "folder",
    revision: str | None = None,
    base: Base | None = None,
    weights: Weights | None = None,
    card: Card | None = None,
) -> ModelProfile:
    """What a model folder says. `weights` and `card` stand for files that were read elsewhere.

    Raises InvalidFile for a corrupt file, NotResolvable for a folder that holds no model.
    """
    names = _entries(folder)
    if "config.json" not in names:
        if "adapter_config.json" in names:
            return _adapter(folder, catalog, id=id, origin=origin, revision=revision, base=base)
        return _only_gguf(folder, names, catalog, id)
    config = read_json(folder / "config.json")
    profile = profile_from_config(
        config, id=id, origin=origin, where=str(folder / "config.json"), path=str(folder), revision=revision
    )
    profile = _with_quantization(profile, folder, names)
    profile = _with_weights(profile, weights or _weights(folder))
    profile = profile._replace(tokenizer=_tokenizer(folder, catalog))
    profile = _with_card(profile, card or read_card(folder / "README.md"), config)
    own_ids = [id] if origin in ("cache", "hub") else []
    return _named(profile, own_ids, [] if own_ids else [folder.name], catalog)


def profile_from_gguf_file(path: Path, catalog: Catalog, *, id: str) -> ModelProfile:
    """What a GGUF file says, with its tokenizer. Raises InvalidFile."""
    from draftpick.models.gguf import read_header
    from draftpick.models.gguf_profile import names_of_source, profile_from_gguf

    header = read_header(path)
    profile = profile_from_gguf(path, header)._replace(id=id)
    if "tokenizer.ggml.tokens" in header.metadata:
        from draftpick.models.gguf_tokenizer import from_gguf

        profile = profile._replace(tokenizer=_fingerprint(from_gguf(header.metadata, source=str(path)), catalog))
    names = names_of_source(header.metadata)
    own_ids = [name for name in names if hub_id(name)]
    titles = [name for name in names if name not in own_ids]
    return _named(profile, own_ids, titles or [path.stem], catalog)


def _named(profile: ModelProfile, own_ids: list[str], titles: list[str], catalog: Catalog) -> ModelProfile:
    """The profile with its counts and kin. Raises InvalidFile for sizes that multiply to what no model has."""
    known = _without_more_parts(profile)
    named = with_counts(with_kin(with_counts(known), own_ids, titles, catalog))
    from draftpick.models.parameters import too_large

    if (said := too_large(named)) is not None:
        raise InvalidFile(f"{profile.path}: {said}", "the file is corrupt; download it again")
    return named


def _without_more_parts(profile: ModelProfile) -> ModelProfile:
    """The profile without numbers of layers of one kind that are more than all of its layers."""
    layers = profile.num_hidden_layers
    if layers is None:
        return profile
    more: dict[str, Any] = {
        name: None for name in ("sliding_layers", "recurrent_layers") if (getattr(profile, name) or 0) > layers
    }
    if profile.experts is not None and profile.experts.dense_layers > layers:
        profile = profile._replace(experts=profile.experts._replace(dense_layers=layers))
    note = (f"its lists of layers are longer than its {layers} layers",) if more else ()
    return profile._replace(**more, notes=(*profile.notes, *note))


def with_counts(profile: ModelProfile) -> ModelProfile:
    """The profile with numbers of parameters recomputed from its shape where no file gave them."""
    if profile.params_total and profile.params_text and (profile.params_active or not profile.experts):
        return profile
    if profile.head_for is not None:
        return profile
    from draftpick.models.parameters import count

    counts = count(profile)
    if counts is None:
        return profile
    fields: dict[str, Any] = {}
    if profile.params_text is None:
        fields["params_text"] = counts.total_text
    if profile.params_total is None and profile.modality == "text" and not profile.has_mtp:
        fields["params_total"] = counts.total_text
    if profile.params_active is None and profile.experts is not None:
        fields["params_active"] = counts.active
    return profile._replace(**fields)


def _entries(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise unreadable(folder, error) from error


def _only_gguf(folder: Path, names: set[str], catalog: Catalog, id: str) -> ModelProfile:
    files = sorted(name for name in names if name.lower().endswith(".gguf") and not name.startswith("mmproj"))
    first = [name for name in files if "-of-" not in name or "-00001-of-" in name]
    if len(first) == 1:
        return profile_from_gguf_file(folder / first[0], catalog, id=id)
    if first:
        shown = ", ".join(first[:3]) + (" …" if len(first) > 3 else "")
        raise NotResolvable(f"{folder} holds {len(first)} GGUF models", f"name one of the files: {shown}")
    if not names:
        raise NotResolvable(f"{folder} is empty", "download the model into it, or name its hub id")
    raise NotResolvable(
        f"{folder} holds no config.json, adapter_config.json or GGUF file",
        "name the folder that holds config.json (of a Hugging Face cache: snapshots/<revision>)",
    )


def _adapter(
    folder: Path, catalog: Catalog, *, id: str, origin: str, revision: str | None, base: Base | None
) -> ModelProfile:
    path = folder / "adapter_config.json"
    name = clean(read_json(path).get("base_model_name_or_path"))
    if name is None:
        raise InvalidFile(f"{path} names no base model", "write the base model's id to base_model_name_or_path")
    if origin != "folder" and hub_id(name) is None:
        raise NotResolvable(f"{id} is an adapter of {name}, which is no id of a model", "name the base model instead")
    if base is None:
        raise NotResolvable(f"{folder} is an adapter of {name}", "name the base model instead")
    try:
        below = base(name)
    except NotResolvable as error:
        raise NotResolvable(f"{folder} is an adapter of {name}, and {error.message}", error.hint) from error
    own = _tokenizer(folder, catalog)
    return below._replace(
        id=id,
        origin=origin,
        path=str(folder),
        revision=revision,
        tokenizer=own or below.tokenizer,
        lineage=below.lineage._replace(base_model=below.id, relation="adapter"),
        notes=(*below.notes, f"an adapter of {below.id}: shape and sizes are the base model's"),
    )


# -------------------------------------------------------------------- parts


def _with_quantization(profile: ModelProfile, folder: Path, names: set[str]) -> ModelProfile:
    found = None
    described = sorted(name for name in names if name.startswith("quant_model_description") and name.endswith(".json"))
    for name in described[:MAX_DESCRIPTIONS]:
        found = ascend_quantization(read_json(folder / name, 40_000_000))
    if found is None and profile.quantization is None:
        for name, method in (
            ("quantize_config.json", "gptq"),
            ("quant_config.json", "awq"),
            ("hf_quant_config.json", ""),
        ):
            if name in names:
                said = read_json(folder / name)
                inner = said.get("quantization") if isinstance(said.get("quantization"), dict) else said
                found = quantization({"quantization_config": {"quant_method": method, **(inner or {})}})
    return profile._replace(quantization=found) if found else profile


def _weights(folder: Path) -> Weights | None:
    from draftpick.models.safetensors import read_folder

    return read_folder(folder)


def _with_weights(profile: ModelProfile, weights: Weights | None) -> ModelProfile:
    if weights is None:
        return profile
    fields: dict[str, Any] = {"weight_bytes": weights.weight_bytes}
    notes = list(profile.notes)
    layers = profile.num_hidden_layers
    if profile.dtype is None and profile.quantization is None:
        fields["dtype"] = weights.plain_dtype
    if profile.tie_word_embeddings is None and weights.complete and weights.embedding_rows:
        fields["tie_word_embeddings"] = not weights.has_head
    tied = fields.get("tie_word_embeddings", profile.tie_word_embeddings)
    if profile.head_for is None and weights.draft_marks and (layers or 0) <= 4:
        fields["head_for"] = "unknown"
        fields["draft_method"] = profile.draft_method or draft_method("", weights.draft_marks)
        notes.append(f"its tensors ({', '.join(weights.draft_marks)}) are those of a draft head")
    elif profile.head_for is not None:
        fields["draft_method"] = draft_method(profile.draft_method or "", weights.draft_marks)
    head_for = fields.get("head_for", profile.head_for)
    counted = weights.parameters(tied, layers if head_for is None else None)
    if counted is not None:
        fields["params_total"], fields["params_text"] = counted
    rows = weights.embedding_rows
    if rows is not None and profile.vocab_size is not None and rows != profile.vocab_size:
        notes.append(f"TENSOR_ROWS: the embedding has {rows:,} rows, config.json says {profile.vocab_size:,}")
    if head_for is None:
        mtp, note = _mtp(profile, weights)
        fields["num_nextn_predict_layers"] = mtp
        notes += [note] if note else []
    return profile._replace(**fields, notes=tuple(notes))


def _mtp(profile: ModelProfile, weights: Weights) -> tuple[int | None, str | None]:
    """Layers of the model's own MTP head: what is stored counts, not what the config promises."""
    said, stored = profile.num_nextn_predict_layers, weights.mtp_layers(profile.num_hidden_layers)
    if stored and not said:
        return stored, "its weights hold an MTP head that config.json does not mention"
    if said and weights.all_named and not stored:
        return 0, "HEAD_MISSING: config.json names an MTP head, but the weights here hold none"
    return said, None


def _tokenizer(folder: Path, catalog: Catalog) -> Fingerprint | None:
    from draftpick.models.vocabulary_files import read_folder

    vocabulary = read_folder(folder)
    return _fingerprint(vocabulary, catalog) if vocabulary is not None else None


def _fingerprint(vocabulary: Vocabulary, catalog: Catalog) -> Fingerprint:
    from draftpick.models.tokenizer import fingerprint

    found = fingerprint(vocabulary, verified=True)
    key = catalog.by_full(found.full) if found.full else None
    known = catalog.tokenizer(key) if key else None
    return found._replace(key=known.key, family=known.family) if known is not None else found


# -------------------------------------------------------------------- model card


def _with_card(profile: ModelProfile, card: Card, config: dict[str, Any]) -> ModelProfile:
    base, relation = card.base_model, card.relation
    if base is None:
        # The id the weights were loaded from: of an original checkpoint its own name, of a fine-tune its base.
        base = hub_id(config.get("_name_or_path"))
    if base is not None and base.lower() == profile.id.lower():
        base, relation = None, None
    lineage = Lineage(base_model=base, relation=relation)
    return profile._replace(license=card.license or profile.license, lineage=lineage)
