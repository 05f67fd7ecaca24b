"""Models outside the catalogue that might draft for a target: those in local caches, and its siblings on the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from draftpick.errors import DraftpickError

if TYPE_CHECKING:
    from draftpick.catalog import Catalog
    from draftpick.models.profile import ModelProfile

MAX_CACHED = 12
"""Reading a tokenizer takes a second; more of them would make the answer wait."""
MAX_SIBLINGS = 4
SIBLING_SECONDS = 10.0
_SIZE = r"(?<![a-z0-9])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])"


def outside(
    target: ModelProfile, catalog: Catalog, resolve: Callable[[str], ModelProfile], *, offline: bool
) -> Iterator[ModelProfile]:
    """Smaller models that the catalogue does not list. The hub is asked only where the target came from it."""
    seen = {target.id.lower()}
    for name in (*islice(_cached(catalog), MAX_CACHED), *(() if offline else _siblings(target, catalog))):
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            found = resolve(name)
        except DraftpickError:
            continue  # what cannot be read cannot be advised; `check` with its name tells why
        if found.params_read is None or target.params_read is None or found.params_read < target.params_read:
            yield found


def _cached(catalog: Catalog) -> Iterator[str]:
    from draftpick.models.caches import cached_models

    return (found.id for found in cached_models() if catalog.model_id(found.id) is None)


def _siblings(target: ModelProfile, catalog: Catalog) -> list[str]:
    """Names of smaller models of the same owner whose names differ from the target's in their size alone."""
    if target.origin != "hub":
        return []
    owner, _, name = target.id.partition("/")
    size = re.search(_SIZE, name.lower(), re.ASCII)
    if size is None:
        return []
    import huggingface_hub

    from draftpick.models.watch import Overrun, watched

    try:
        with watched(SIBLING_SECONDS):
            listed = list(huggingface_hub.HfApi().list_models(author=owner, search=name[: size.start()], limit=100))
    except (Exception, Overrun):  # the hub may answer anything; siblings are an extra
        return []
    pattern = re.compile(re.escape(name[: size.start()].lower()) + _SIZE + re.escape(name[size.end() :].lower()))
    found = [model.id for model in listed if pattern.fullmatch(model.id.partition("/")[2].lower())]
    smaller = [
        model_id for model_id in found if _billions(model_id) < _billions(name) and catalog.model_id(model_id) is None
    ]
    return sorted(smaller, key=_billions)[:MAX_SIBLINGS]


def _billions(name: str) -> float:
    size = re.search(_SIZE, name.lower(), re.ASCII)
    return float(size[1]) / (1 if size[2] == "b" else 1000) if size else 0.0
