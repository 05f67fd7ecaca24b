"""An id or a path becomes a ModelProfile: from the catalogue, a folder, a GGUF file, a local cache or the hub."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from draftpick.catalog import Catalog
    from draftpick.models.profile import ModelProfile

_MAX_ADAPTERS = 4


def resolve(
    name: str, catalog: Catalog, *, revision: str | None = None, offline: bool = False, id: str | None = None
) -> ModelProfile:
    """The profile of the model that `name` stands for; `id` is what a path shall be called, in place of itself.

    Looked up in this order: path (a model folder or a GGUF file), catalogue, caches of Hugging Face and ModelScope, hub
    (metadata only). A name that looks like a path is never sent to the hub.

    Raises NotResolvable for what is missing, gated, out of reach or empty, InvalidFile for what is corrupt.
    """
    if _looks_like_path(name):
        return _from_path(name, catalog, offline, 0, id=id)
    return _resolve(name, catalog, revision, offline, 0)


def _resolve(name: str, catalog: Catalog, revision: str | None, offline: bool, depth: int) -> ModelProfile:
    if _looks_like_path(name):
        return _from_path(name, catalog, offline, depth)
    if revision is None or revision == "main":
        known = catalog.find(name)
        return known if known is not None else _from_caches_or_hub(name, catalog, None, offline, depth)
    return _at_revision(name, catalog, revision, offline, depth)


def _at_revision(name: str, catalog: Catalog, revision: str, offline: bool, depth: int) -> ModelProfile:
    """A catalogued model at another revision is read from the cache; else the catalogue's facts stand."""
    known = catalog.find(name)
    if known is None:
        return _from_caches_or_hub(name, catalog, revision, offline, depth)
    cached = _from_cache(known.id, catalog, revision, offline, depth)
    if cached is not None:
        return cached
    note = f"revision {revision} was not read: the facts are the catalogue's"
    return known._replace(revision=revision, notes=(*known.notes, note))


def _from_caches_or_hub(name: str, catalog: Catalog, revision: str | None, offline: bool, depth: int) -> ModelProfile:
    from draftpick.errors import NotResolvable
    from draftpick.models.caches import is_hub_id

    cached = _from_cache(name, catalog, revision, offline, depth)
    if cached is not None:
        return cached
    invented = catalog.not_published(name)
    if invented is not None:
        text, nearest = invented
        raise NotResolvable(text, f"the nearest real model is {nearest}")
    shown = name if len(name) <= 100 else name[:97] + "…"
    if not is_hub_id(name) or "/" not in name:
        raise NotResolvable(f"{shown!r} is no model of the catalogue and no path", _suggestion(name, catalog))
    from draftpick.models.hub import is_offline, profile_from_hub

    if offline or is_offline():
        raise NotResolvable(
            f"{shown} is in no catalogue or local cache, and the hub is not asked (offline)",
            f"{_suggestion(name, catalog)}; or go online, or name a local folder",
        )
    try:
        return profile_from_hub(name, catalog, revision=revision, base=_base(catalog, offline, depth))
    except NotResolvable as error:
        close = catalog.nearest(name)
        if close and "gated" not in error.message:
            raise NotResolvable(error.message, f"{error.hint}; near names: {', '.join(close)}") from error
        raise


def _suggestion(name: str, catalog: Catalog) -> str:
    quantised = _quantised(name, catalog)
    if quantised is not None:
        base, how = quantised
        return f"judge {base} with --quantization {how} (of a draft: --draft-quantization {how})"
    close = catalog.nearest(name[:200])
    return f"did you mean {', '.join(close)}?" if close else "`draftpick catalog list` shows the known ids"


_QUANTISED = r"[-_.](?:quantized[-_.])?(fp8|nvfp4|mxfp4|awq|gptq|int[48]|w[48]a(?:16|8))(?:[-_.][a-z0-9]+){0,3}"
"""What quantisers put behind the name of a model."""


def _quantised(name: str, catalog: Catalog) -> tuple[str, str] | None:
    """The catalogued model whose quantised copy a name seems to be, and the name of the quantisation."""
    import re

    ending = re.search(f"{_QUANTISED}$", name[:200], re.IGNORECASE)
    if ending is None:
        return None
    whole = name[: ending.start()]
    base = catalog.model_id(whole) or catalog.model_id(whole.rpartition("/")[2])
    return (base, ending[1].lower()) if base is not None else None


def _from_cache(name: str, catalog: Catalog, revision: str | None, offline: bool, depth: int) -> ModelProfile | None:
    from draftpick.models.caches import find_cached

    found = find_cached(name, revision)
    if found is None:
        return None
    from draftpick.models.folder import profile_from_folder

    return profile_from_folder(
        found.folder,
        catalog,
        id=found.id,
        origin="cache",
        revision=found.revision,
        base=_base(catalog, offline, depth),
    )


def _base(catalog: Catalog, offline: bool, depth: int) -> Callable[[str], ModelProfile]:
    """Resolves the model below an adapter; adapters may lie on adapters, but not without end."""
    from draftpick.errors import InvalidFile

    def resolve_base(name: str) -> ModelProfile:
        if depth >= _MAX_ADAPTERS:
            raise InvalidFile(f"{name} is an adapter of an adapter without end", "name a model, not an adapter")
        return _resolve(name, catalog, None, offline, depth + 1)

    return resolve_base


# -------------------------------------------------------------------- paths


def _looks_like_path(name: str) -> bool:
    if name.startswith((".", "/", "~")) or name.lower().endswith(".gguf"):
        return True
    try:
        return os.path.lexists(name)
    except ValueError:  # a null byte
        return False


def _from_path(name: str, catalog: Catalog, offline: bool, depth: int, *, id: str | None = None) -> ModelProfile:
    from pathlib import Path

    from draftpick.errors import InvalidFile
    from draftpick.models.folder import profile_from_folder, profile_from_gguf_file

    path = Path(os.path.expanduser(name))
    if _is_folder(path):
        return profile_from_folder(path, catalog, id=id or name, base=_base(catalog, offline, depth))
    if path.suffix.lower() == ".gguf":
        return profile_from_gguf_file(path, catalog, id=id or name)
    raise InvalidFile(f"{name} is neither a model folder nor a GGUF file", "name the folder that holds config.json")


def _is_folder(path: Path) -> bool:
    """Whether there is a folder; raises NotResolvable where there is nothing, InvalidFile where links lead nowhere."""
    from stat import S_ISDIR

    from draftpick.errors import InvalidFile, NotResolvable
    from draftpick.models.bounded import unreadable

    try:
        return S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise InvalidFile(f"{path} is a link to what is not there", "mend the link, or name the folder") from error
        shown = path if path.is_absolute() or str(path).startswith(".") else f"./{path}"
        raise NotResolvable(f"no file or folder {shown}", "see whether the path is spelled right") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
