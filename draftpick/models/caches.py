"""Models that other tools left on this machine: the caches of Hugging Face and of ModelScope."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Patterns as text: most runs find no cache, and compiling them is a millisecond of start-up.
_ID = r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?"
_REVISION = r"[A-Za-z0-9][\w.-]{0,127}"
_MARKS = ("config.json", "adapter_config.json")
_DEFAULT_BRANCHES = ("master", "main")
"""Of ModelScope and of others' mirrors there: main is asked for where master is meant."""
_MAX_ENTRIES = 10_000


class Cached(NamedTuple):
    """A model folder in a cache."""

    id: str
    folder: Path
    revision: str | None
    """The commit, where the cache knows it."""


def is_hub_id(name: str) -> bool:
    """Whether a name can be a hub id, and so a part of a path below a cache without leaving it."""
    return re.fullmatch(_ID, name, re.ASCII) is not None and ".." not in name and "--" not in name


def find_cached(model_id: str, revision: str | None = None) -> Cached | None:
    """The cached folder of a model: of `revision` (branch, tag or commit), or of the newest snapshot."""
    if not is_hub_id(model_id):
        return None
    return _in_hugging_face(model_id, revision) or _in_modelscope(model_id, revision)


def cached_models() -> Iterator[Cached]:
    """Every model with a config in the caches, in the order of their names."""
    seen: set[str] = set()
    for model_id in (*_hugging_face_ids(), *_modelscope_ids()):
        found = find_cached(model_id) if model_id.lower() not in seen else None
        if found is not None:
            seen.add(model_id.lower())
            yield found


def hugging_face_cache() -> Path:
    """Where huggingface_hub keeps its snapshots, by its environment variables."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return _expanded(os.environ[name])
    home = os.environ.get("HF_HOME")
    if home:
        return _expanded(home) / "hub"
    return _expanded(os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")) / "huggingface" / "hub"


def modelscope_caches() -> list[Path]:
    """Where ModelScope keeps its models; newer versions added a folder `models`."""
    base = _expanded(os.environ.get("MODELSCOPE_CACHE") or os.path.join("~", ".cache", "modelscope"))
    return [base / "hub" / "models", base / "models", base / "hub", base]


def _expanded(path: str) -> Path:
    """A path with the user's home for ~, which stays where the user has none; Path.expanduser would raise."""
    return Path(os.path.expanduser(path))


def _in_hugging_face(model_id: str, revision: str | None) -> Cached | None:
    wanted = f"models--{model_id.replace('/', '--')}"
    repository = _entry(hugging_face_cache(), wanted)
    if repository is None:
        return None
    for commit in _commits(repository, revision):
        folder = repository / "snapshots" / commit
        if _is_model(folder):
            return Cached(_id_of(repository.name), folder, commit)
    return None


def _commits(repository: Path, revision: str | None) -> list[str]:
    if revision is not None:
        if not all(re.fullmatch(_REVISION, part, re.ASCII) for part in revision.split("/")) or ".." in revision:
            return []
        referred = _reference(repository, revision)
        return [referred] if referred else [revision]
    main = _reference(repository, "main")
    return [*([main] if main else []), *_newest_first(repository / "snapshots")]


def _reference(repository: Path, name: str) -> str | None:
    path = repository / "refs" / name
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            commit = file.read(200).decode("ascii", "replace").strip()
    except OSError:
        return None
    return commit if re.fullmatch(_REVISION, commit, re.ASCII) else None


def _newest_first(folder: Path) -> list[str]:
    found = [path for path in _folders(folder) if re.fullmatch(_REVISION, path.name, re.ASCII)]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.name for path in found]


def _in_modelscope(model_id: str, revision: str | None) -> Cached | None:
    if "/" not in model_id:
        return None
    organisation, name = model_id.split("/")
    for cache in modelscope_caches():
        owner = _entry(cache, organisation) if revision in (None, *_DEFAULT_BRANCHES) else None
        for spelled in (name.replace(".", "___"), name):
            folder = _entry(owner, spelled) if owner is not None else None
            if owner is not None and folder is not None and _is_model(folder):
                return Cached(f"{owner.name}/{folder.name.replace('___', '.')}", folder, None)
        repository = _entry(cache, f"{organisation}--{name}")
        for branch in _branches(repository, revision) if repository is not None else ():
            if repository is not None and _is_model(repository / "snapshots" / branch):
                return Cached(_id_of(repository.name), repository / "snapshots" / branch, None)
    return None


def _branches(repository: Path, revision: str | None) -> list[str]:
    """The snapshots, from ModelScope 1.38 on named by branch or tag, that a revision may mean."""
    if revision in (None, *_DEFAULT_BRANCHES):
        return [*_DEFAULT_BRANCHES, *(_newest_first(repository / "snapshots") if revision is None else [])]
    return [revision] if revision is not None and re.fullmatch(_REVISION, revision, re.ASCII) else []


def _entry(folder: Path, name: str) -> Path | None:
    """The folder of this name, whatever its case."""
    exact = folder / name
    if exact.is_dir():
        return exact
    return next((path for path in _folders(folder) if path.name.lower() == name.lower()), None)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False) if entry.is_dir()]
    except OSError:
        return []
    return sorted(found)


def _is_model(folder: Path) -> bool:
    try:
        return any(os.path.lexists(folder / name) for name in _MARKS)
    except OSError:
        return False


def _id_of(entry: str) -> str:
    return entry.removeprefix("models--").replace("--", "/", 1)


def _hugging_face_ids() -> Iterator[str]:
    for path in _folders(hugging_face_cache()):
        if path.name.startswith("models--"):
            yield _id_of(path.name)


def _modelscope_ids() -> Iterator[str]:
    skipped = {"hub", "models", "datasets", "temp", "_temp", "ast_indexer"}
    for cache in modelscope_caches():
        for owner in _folders(cache):
            if owner.name in skipped or owner.name.startswith((".", "_")):
                continue
            if "--" in owner.name:
                yield _id_of(owner.name)
            yield from (f"{owner.name}/{path.name.replace('___', '.')}" for path in _folders(owner))
