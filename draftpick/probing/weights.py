"""Where a model's weights lie, how they are fetched after consent, and what tells them from others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from draftpick.errors import DraftpickError, NotResolvable
from draftpick.models.caches import find_cached, is_hub_id
from draftpick.models.profile import ModelProfile
from draftpick.probing.device import CannotProbe
from draftpick.probing.local import missing_shards

_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.model", "*.tiktoken", "*.txt", "*.jinja")
"""What is fetched: never pickled weights, never code."""
_SAMPLES = 64
_SAMPLE_BYTES = 4096
_TOKENIZER_NAMES = ("tokenizer", "vocab", "merges", "chat_template", "added_tokens", "special_tokens_map")
_TOKENIZER_ENDINGS = (".model", ".tiktoken")

Consent = Callable[[str], bool]


def at_hand(profile: ModelProfile) -> Path | None:
    """The folder with a model's safetensors on this machine; None where there is none."""
    local = profile.path is not None and profile.origin in ("folder", "cache", "overlay")
    folder = Path(profile.path) if profile.path is not None and local else None
    if folder is None and is_hub_id(profile.id):
        cached = find_cached(profile.id, profile.revision)
        folder = cached.folder if cached is not None else None
    return folder if folder is not None and _has_weights(folder) else None


def obtainable(profile: ModelProfile, *, offline: bool) -> bool:
    """Whether a model's weights are here, or may be fetched from the hub."""
    if at_hand(profile) is not None:
        return True
    return not offline and profile.path is None and "/" in profile.id and is_hub_id(profile.id)


def _has_weights(folder: Path) -> bool:
    try:
        return any(
            path.suffix == ".safetensors" and path.is_file() for path in folder.iterdir()
        ) and not missing_shards(folder)
    except OSError:
        return False


def folder_of(profile: ModelProfile, *, offline: bool, consent: Consent) -> Path:
    """The folder to load a model from, fetched from the hub where it is not here and the user agrees to the size.

    Raises NotResolvable or CannotProbe with what to do.
    """
    found = at_hand(profile)
    if found is not None:
        return found
    if profile.path is not None and Path(profile.path).is_dir():
        return Path(profile.path)  # loading says what is wrong with its weights
    if profile.path is not None and profile.origin == "overlay" and not Path(profile.path).exists():
        raise CannotProbe(
            f"the row of {profile.id} points to {profile.path}, which is not there",
            f"say where it is now: draftpick catalog add FOLDER --id {profile.id}",
        )
    if profile.path is not None or not is_hub_id(profile.id) or "/" not in profile.id:
        raise CannotProbe(
            f"{profile.id} is no folder with safetensors", "the probe runs models of Hugging Face's layout: name one"
        )
    if offline:
        raise NotResolvable(
            f"the weights of {profile.id} are not on this machine, and the hub is not asked (offline)",
            "go online, or name the folder that holds them",
        )
    return _fetched(profile, consent)


def _fetched(profile: ModelProfile, consent: Consent) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    try:
        info = HfApi().model_info(profile.id, revision=profile.revision, files_metadata=True)
        size = sum(one.size or 0 for one in info.siblings or () if one.rfilename.endswith(".safetensors"))
        if not size:
            raise NotResolvable(
                f"{profile.id} has no safetensors on the hub", "take a revision or a copy that has them"
            )
        if not consent(f"fetch the weights of {profile.id}: {size / 1e9:.1f} GB"):
            raise CannotProbe(f"the weights of {profile.id} ({size / 1e9:.1f} GB) are not here", "agree with --yes")
        return Path(snapshot_download(profile.id, revision=info.sha, allow_patterns=list(_PATTERNS)))
    except DraftpickError:
        raise
    except Exception as error:  # the hub's client raises dozens of classes
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise NotResolvable(
            f"the weights of {profile.id} cannot be fetched: {first}", "look at the connection and the access rights"
        ) from None


def identity(profile: ModelProfile, folder: Path) -> dict[str, Any]:
    """What tells these very weights, config and tokenizer from others: digests, without reading many gigabytes.

    Of each weight file its size and 64 places of 4 KiB are hashed: no training leaves those as they were.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return {
        "id": profile.id,
        "revision": profile.revision,
        "weights": _digest(folder / name for name in names if name.endswith(".safetensors")),
        "config": _digest(folder / name for name in names if name in ("config.json", "generation_config.json")),
        "tokenizer": _digest(
            folder / name for name in names if name.startswith(_TOKENIZER_NAMES) or name.endswith(_TOKENIZER_ENDINGS)
        ),
    }


def _digest(paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        whole.update(f"{path.name}\0{size}\0".encode())
        with open(path, "rb") as file:
            if size <= _SAMPLES * _SAMPLE_BYTES:
                whole.update(file.read())
                continue
            for place in range(_SAMPLES):
                file.seek((size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
                whole.update(file.read(_SAMPLE_BYTES))
    return whole.hexdigest()
