"""A model on the Hugging Face hub: its metadata files, kept in the hub's own cache, and never its weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from draftpick.errors import DraftpickError, NotResolvable
from draftpick.models.bounded import CONFIG_BYTES
from draftpick.models.card import Card, parse_card

if TYPE_CHECKING:
    from draftpick.catalog import Catalog
    from draftpick.models.folder import Base
    from draftpick.models.profile import ModelProfile
    from draftpick.models.safetensors import Weights

T = TypeVar("T")

_TIMEOUT = 8.0
_TOKENIZER_BYTES = 64 * 2**20
_INDEX_BYTES = 40_000_000
_INDEX = "model.safetensors.index.json"
_CONFIGS = (
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer_config.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
)
_TOKENIZERS = ("tokenizer.json", "tekken.json", "tokenizer.model", "spiece.model", "vocab.json")
"""The first of these that a repository has is enough."""
_MAX_HEADERS = 4
"""Headers of so many shards are asked for; of larger models the index gives the sum."""


def is_offline() -> bool:
    """Whether the environment forbids asking the hub."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def profile_from_hub(model_id: str, catalog: Catalog, *, revision: str | None, base: Base) -> ModelProfile:
    """What the hub's metadata says of a model. Raises NotResolvable where it is missing, gated or out of reach."""
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    api = huggingface_hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    info = _ask(
        model_id, revision, lambda: api.model_info(model_id, revision=revision, files_metadata=True, timeout=_TIMEOUT)
    )
    sizes = {item.rfilename: item.size or 0 for item in info.siblings or ()}
    if not {"config.json", "adapter_config.json"} & set(sizes):
        raise _not_a_model(model_id, sizes)
    folder = _download(api, model_id, info.sha, _wanted(sizes))
    from draftpick.models.folder import profile_from_folder

    profile = profile_from_folder(
        folder,
        catalog,
        id=info.id or model_id,
        origin="hub",
        revision=info.sha,
        base=base,
        weights=_weights(api, model_id, info.sha, sizes, folder),
        card=_card(info.card_data),
    )
    return profile._replace(gated=bool(info.gated) if info.gated is not None else None)


def _wanted(sizes: dict[str, int]) -> list[str]:
    names = [name for name in _CONFIGS if sizes.get(name, CONFIG_BYTES + 1) <= CONFIG_BYTES]
    tokenizers = [name for name in _TOKENIZERS if sizes.get(name, _TOKENIZER_BYTES + 1) <= _TOKENIZER_BYTES]
    names += tokenizers[:1]
    names += [name for name in sizes if name.startswith("quant_model_description") and sizes[name] <= _INDEX_BYTES]
    if sizes.get(_INDEX, _INDEX_BYTES + 1) <= _INDEX_BYTES:
        names.append(_INDEX)
    return names


def _download(api: Any, model_id: str, revision: str | None, names: list[str]) -> Path:
    folder: Path | None = None
    for name in names:
        path = _ask(
            model_id,
            revision,
            lambda name=name: api.hf_hub_download(  # type: ignore[misc]
                model_id, name, revision=revision, etag_timeout=_TIMEOUT
            ),
        )
        folder = folder or Path(path).parent
    if folder is None:
        raise NotResolvable(f"{model_id}: its config.json is too large to be one", "name another model")
    return folder


def _weights(api: Any, model_id: str, revision: str | None, sizes: dict[str, int], folder: Path) -> Weights | None:
    """The headers of small checkpoints, and of large ones the sum their index names."""
    from draftpick.models.safetensors import from_hub, read_folder

    shards = [name for name in sizes if name.endswith(".safetensors") and name.startswith("model")]
    if not shards or len(shards) > _MAX_HEADERS:
        return read_folder(folder)
    try:
        files = [
            api.parse_safetensors_file_metadata(model_id, name, revision=revision, timeout=_TIMEOUT).tensors
            for name in shards
        ]
    except Exception:  # the header is a supplement: whatever keeps it away, the config still stands
        return read_folder(folder)
    return from_hub([{name: (info.dtype, tuple(info.shape)) for name, info in tensors.items()} for tensors in files])


def _card(data: Any) -> Card | None:
    """The card's metadata, which the hub has already parsed."""
    if data is None:
        return None
    known = data.to_dict() if hasattr(data, "to_dict") else dict(data)
    lines = ["---"]
    for name in ("license", "license_name", "base_model_relation", "base_model"):
        value = known.get(name)
        values = value if isinstance(value, list) else [value]
        texts = [text for text in values if isinstance(text, str)]
        lines += [f"{name}:", *(f"- {text.splitlines()[0] if text else ''}" for text in texts)] if texts else []
    return parse_card("\n".join([*lines, "---"]))


def _not_a_model(model_id: str, sizes: dict[str, int]) -> NotResolvable:
    if any(name.endswith(".gguf") for name in sizes):
        return NotResolvable(
            f"{model_id} holds GGUF files and no config.json", "download one of its files and name that file"
        )
    return NotResolvable(f"{model_id} holds no config.json", "name a repository in the transformers format")


def _ask(model_id: str, revision: str | None, call: Callable[[], T]) -> T:
    """Whatever the client library raises becomes one line and a hint: its errors differ between its versions."""
    try:
        return call()
    except DraftpickError:
        raise
    except Exception as error:
        raise _not_resolvable(model_id, revision, error) from error


def _not_resolvable(model_id: str, revision: str | None, error: Exception) -> NotResolvable:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if "GatedRepoError" in kinds or status == 403:
        return NotResolvable(
            f"{model_id} is gated: the hub gives its files only to those who accepted its terms",
            f"accept them at https://huggingface.co/{model_id}, then run `hf auth login` or set HF_TOKEN",
        )
    if "RevisionNotFoundError" in kinds:
        return NotResolvable(f"{model_id} has no revision {revision!r}", "leave out --revision, or name another one")
    if kinds & {"RepositoryNotFoundError", "HFValidationError", "EntryNotFoundError"} or status in (401, 404):
        return NotResolvable(
            f"{model_id} is not on the hub, or it is private",
            "see whether the id is spelled right; for a private model run `hf auth login` or set HF_TOKEN",
        )
    if status is not None:
        return NotResolvable(f"the hub answered {status} for {model_id}", "try again later, or name a local folder")
    return NotResolvable(
        f"{model_id} is in no catalogue or cache, and the hub cannot be reached ({type(error).__name__})",
        "check the network or HF_ENDPOINT, or name a local folder",
    )
