"""What Tab offers behind an option or for an argument: names of the catalogue, the user's own among them.

Typer asks these only when a shell does, and keeps what begins as was typed; nothing is loaded before. A catalogue that
cannot be read offers nothing: the command itself says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from draftpick.errors import DraftpickError

if TYPE_CHECKING:
    from draftpick.catalog import Record

Offers = Iterator[tuple[str, str]]
"""Words, each with what some shells show beside it."""


def words(*known: str) -> Callable[[str], Offers]:
    """Offers a closed list."""

    def offered(incomplete: str) -> Offers:
        return _matching(((word, "") for word in known), incomplete)

    return offered


def engines(ctx: typer.Context, incomplete: str) -> Offers:
    """Engines by key, with the version that is known."""
    return _matching(((key, f"{row['name']} {row['version']}") for key, row in _known(ctx, "engines")), incomplete)


def devices(ctx: typer.Context, incomplete: str) -> Offers:
    """Devices of this machine, and those of the catalogue by key and by other names that are one word."""
    here = ((name, "of this machine") for name in ("auto", "npu", "cuda", "mps"))
    rows = ((name, str(row["name"])) for key, row in _known(ctx, "devices") for name in (key, *_aliases(row)))
    return _matching((*here, *rows), incomplete)


def torch_devices() -> Offers:
    """Devices that a probe runs on."""
    return ((name, "") for name in ("auto", "npu", "cuda", "mps", "cpu"))


def models(ctx: typer.Context, incomplete: str) -> Offers:
    """Models by id or alias, once a letter is typed: before that, and for paths, a shell offers files."""
    if incomplete:
        rows = _known(ctx, "models")
        yield from _matching(((name, "") for key, row in rows for name in (key, *_aliases(row))), incomplete)


def drafts(ctx: typer.Context, incomplete: str) -> Offers:
    """Models and published heads by id, as `models`."""
    yield from models(ctx, incomplete)
    if incomplete:
        yield from _matching(((key, "head") for key, _ in _known(ctx, "heads")), incomplete)


def records(ctx: typer.Context, incomplete: str) -> Offers:
    """Everything that `catalog show` has."""
    kinds = ("models", "heads", "tokenizers", "engines", "devices")
    return _matching(((key, kind[:-1]) for kind in kinds for key, _ in _known(ctx, kind)), incomplete)


def kinds() -> Offers:
    """What `catalog list` can list."""
    from draftpick.report.catalog import KINDS

    return ((kind, "") for kind in KINDS)


def families(ctx: typer.Context, incomplete: str) -> Offers:
    """Families of the kind of record that is listed."""
    kind = str(ctx.params.get("kind") or "models")
    found = {str(row["family"]) for _, row in _known(ctx, kind) if row.get("family")}
    return _matching(((family, "") for family in sorted(found)), incomplete)


def cache_types(incomplete: str) -> Offers:
    """Types of a KV cache."""
    from draftpick.sizes import CACHE_BYTES

    return _matching(((name, "") for name in CACHE_BYTES), incomplete)


def rules() -> Offers:
    """Rules by name, with what each asks."""
    from draftpick.rules import load

    return ((name, rule.title) for name, rule in load().items())


def ignored() -> Offers:
    """Rules as `--ignore` takes them: a reason is typed behind."""
    return ((f"{name}=", title) for name, title in rules())


def _matching(offers: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    """Those that begin as was typed, in whatever case: the letters that were typed stay, or a shell drops the word."""
    typed = len(incomplete)
    for word, shown in offers:
        if word[:typed].lower() == incomplete.lower():
            yield incomplete + word[typed:], shown


def _aliases(row: Record) -> Iterator[str]:
    return (name for name in row.get("aliases", ()) if " " not in name)


def _known(ctx: typer.Context, kind: str) -> Iterator[tuple[str, Record]]:
    """The records of one kind, those of the overlay that was typed before among them."""
    from draftpick.catalog import load

    folder = ctx.params.get("catalog_folder")
    try:
        catalog = load(Path(folder) if folder else None)
    except DraftpickError:
        return
    with_details = kind in ("models", "devices")  # their aliases stand there
    for key, row in getattr(catalog, kind, {}).items():
        yield key, catalog.record(kind, key) if with_details else row
