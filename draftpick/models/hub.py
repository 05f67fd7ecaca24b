"""A model on the Hugging Face hub: its metadata files, kept in the hub's own cache, and never its weights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from draftpick.errors import DraftpickError, NotResolvable
from draftpick.models.bounded import CONFIG_BYTES, clean
from draftpick.models.caches import is_hub_id
from draftpick.models.card import Card, parse_card
from draftpick.models.watch import Overrun, watched

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
_NOT_UNDERSTOOD = {"JSONDecodeError", "KeyError", "TypeError", "AttributeError", "RecursionError"}
_MAX_HEADERS = 4
"""Headers of so many shards are asked for; of larger models the index gives the sum."""


def is_offline() -> bool:
    """Whether the environment forbids asking the hub."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def profile_from_hub(model_id: str, catalog: Catalog, *, revision: str | None, base: Base) -> ModelProfile:
    """What the hub's metadata says of a model. Raises NotResolvable where it is missing, gated or out of reach."""
    found = _ask(model_id, revision, lambda: _fetch(model_id, revision))
    from draftpick.models.folder import profile_from_folder

    profile = profile_from_folder(
        found.folder,
        catalog,
        id=found.id,
        origin="hub",
        revision=found.revision,
        base=base,
        weights=found.weights,
        card=found.card,
    )
    return profile._replace(gated=found.gated)


class _Found(NamedTuple):
    """What the hub gave of one model."""

    id: str
    revision: str | None
    folder: Path
    weights: Weights | None
    card: Card | None
    gated: bool | None


def _fetch(model_id: str, revision: str | None) -> _Found:
    # Another way to fetch large files, which would not be held to any bound of size.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    api = huggingface_hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    info = api.model_info(model_id, revision=revision, files_metadata=True, timeout=_TIMEOUT)
    sizes = {item.rfilename: item.size or 0 for item in info.siblings or ()}
    commit = info.sha
    if not _are_sane(commit, sizes):
        raise TypeError("names, sizes or revision of its files are none")
    if not {"config.json", "adapter_config.json"} & set(sizes):
        raise _not_a_model(model_id, sizes)
    folder = _download(api, model_id, commit, _wanted(sizes))
    return _Found(
        id=info.id if is_hub_id(str(info.id)) else model_id,
        revision=commit,
        folder=folder,
        weights=_weights(api, model_id, commit, sizes, folder),
        card=_card(info.card_data),
        gated=bool(info.gated) if info.gated is not None else None,
    )


def _are_sane(commit: object, sizes: dict[Any, Any]) -> bool:
    named = commit is None or (isinstance(commit, str) and commit.isalnum())
    return named and all(isinstance(name, str) and type(size) is int for name, size in sizes.items())


def _wanted(sizes: dict[str, int]) -> list[str]:
    from draftpick.models.folder import MAX_DESCRIPTIONS

    names = [name for name in _CONFIGS if sizes.get(name, CONFIG_BYTES + 1) <= CONFIG_BYTES]
    tokenizers = [name for name in _TOKENIZERS if sizes.get(name, _TOKENIZER_BYTES + 1) <= _TOKENIZER_BYTES]
    names += tokenizers[:1]
    described = [name for name in sizes if name.startswith("quant_model_description") and "/" not in name]
    names += [name for name in sorted(described) if sizes[name] <= _INDEX_BYTES][:MAX_DESCRIPTIONS]
    if sizes.get(_INDEX, _INDEX_BYTES + 1) <= _INDEX_BYTES:
        names.append(_INDEX)
    return names


def _download(api: Any, model_id: str, revision: str | None, names: list[str]) -> Path:
    folder: Path | None = None
    for name in names:
        path = api.hf_hub_download(model_id, name, revision=revision, etag_timeout=_TIMEOUT)
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
        # The client prints some of its errors; stdout is for the answer.
        with watched(), redirect_stdout(sys.stderr):
            return call()
    except DraftpickError:
        raise
    except Overrun as error:
        raise NotResolvable(
            f"the hub was asked for {model_id}, but {error}", "check the network or HF_ENDPOINT, or name a local folder"
        ) from error
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
    if kinds & _NOT_UNDERSTOOD:
        return NotResolvable(
            f"the hub's answer for {model_id} is no description of a model ({type(error).__name__})",
            "check HF_ENDPOINT and proxies, or name a local folder",
        )
    said = clean(str(error).partition("\n")[0], 120)
    kind = type(error).__name__ + (f": {said}" if said else "")
    return NotResolvable(
        f"{model_id} is in no catalogue or cache, and the hub cannot be reached ({kind})",
        "check the network or HF_ENDPOINT, or name a local folder",
    )
