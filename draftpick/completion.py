"""What Tab offers behind an option or for an argument: names of the catalogue, the user's own among them.

Typer asks these only when a shell does, and keeps what begins as was typed; nothing is loaded before. A catalogue that
cannot be read offers nothing: the command itself says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from draftpick.errors import DraftpickError

if TYPE_CHECKING:
    from draftpick.catalog import Record

Offers = Iterator[tuple[str, str]]
"""Words, each with what some shells show beside it."""


def engines(ctx: typer.Context) -> Offers:
    """Engines by key, with the version that is known."""
    return ((key, f"{row['name']} {row['version']}") for key, row in _known(ctx, "engines"))


def devices(ctx: typer.Context) -> Offers:
    """Devices of this machine, and those of the catalogue by key and by other names that are one word."""
    yield from ((name, "of this machine") for name in ("auto", "npu", "cuda", "mps"))
    for key, row in _known(ctx, "devices"):
        names = (key, *row.get("aliases", ()))
        yield from ((name, str(row["name"])) for name in names if " " not in name)


def torch_devices() -> Offers:
    """Devices that a probe runs on."""
    return ((name, "") for name in ("auto", "npu", "cuda", "mps", "cpu"))


def models(ctx: typer.Context, incomplete: str) -> Offers:
    """Models by id, once a letter is typed: before that, and for paths, a shell offers files."""
    return ((key, "") for key, _ in _known(ctx, "models") if incomplete)


def drafts(ctx: typer.Context, incomplete: str) -> Offers:
    """Models and published heads by id, as `models`."""
    yield from models(ctx, incomplete)
    yield from ((key, "head") for key, _ in _known(ctx, "heads") if incomplete)


def records(ctx: typer.Context) -> Offers:
    """Everything that `catalog show` has."""
    kinds = ("models", "heads", "tokenizers", "engines", "devices")
    return ((key, kind[:-1]) for kind in kinds for key, _ in _known(ctx, kind))


def kinds() -> Offers:
    """What `catalog list` can list."""
    from draftpick.report.catalog import KINDS

    return ((kind, "") for kind in KINDS)


def rules() -> Offers:
    """Rules by name, with what each asks."""
    from draftpick.rules import load

    return ((name, rule.title) for name, rule in load().items())


def _known(ctx: typer.Context, kind: str) -> Iterator[tuple[str, Record]]:
    """The records of one kind, those of the overlay that was typed before among them."""
    from draftpick.catalog import load

    folder = ctx.params.get("catalog_folder")
    try:
        catalog = load(Path(folder) if folder else None)
    except DraftpickError:
        return
    yield from getattr(catalog, kind).items()
