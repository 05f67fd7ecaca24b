"""Lines and grids, drawn on a terminal of some width or as whole lines for a pipe.

A pipe needs no colours and no wrapping, so it does without rich, whose import is a third of the start-up time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """One paragraph."""

    text: str
    style: str = ""
    indent: int = 0


class Cell(NamedTuple):
    """One field of a grid, with what stands below it in the same field."""

    text: str
    style: str = ""
    below: str = ""


Row = Sequence[Cell | str]


class Grid(NamedTuple):
    """Columns side by side."""

    header: Sequence[str]
    rows: Sequence[Row]
    right: frozenset[int] = frozenset()
    """Columns of numbers, aligned to the right."""
    wraps: frozenset[int] = frozenset()
    """Columns that may break into several lines on a screen; all others stay whole."""


GAP = "  "


def draw(parts: Iterable[Line | Grid], *, width: int | None, color: bool) -> str:
    """The parts as text. `width` is the terminal's; None: a pipe, where nothing is cut, wrapped or coloured."""
    text = _plain(parts) if width is None else _on_screen(parts, width, color)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _plain(parts: Iterable[Line | Grid]) -> str:
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Line):
            lines += [" " * part.indent + line for line in part.text.split("\n")]
        else:
            lines += _plain_grid(part)
    return "\n".join(lines) + "\n"


def _plain_grid(grid: Grid) -> Iterable[str]:
    rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in grid.rows]
    rows = [list(grid.header), *rows] if any(grid.header) else rows
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        fields = [
            _blanks(width, text) + text if place in grid.right else text + _blanks(width, text)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield GAP.join(fields)


def _blanks(width: int, text: str) -> str:
    return " " * (width - _cells(text))


def _cells(text: str) -> int:
    """Cells that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _on_screen(parts: Iterable[Line | Grid], width: int, color: bool) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in parts:
        if isinstance(part, Grid):
            console.print(_table(part))
        elif part.indent:
            console.print(Padding(Text(part.text, style=part.style), (0, 0, 0, part.indent), expand=False))
        else:
            console.print(Text(part.text, style=part.style))
    return buffer.getvalue()


def _table(grid: Grid) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, show_header=any(grid.header), header_style="bold", pad_edge=False, padding=(0, len(GAP), 0, 0)
    )
    for place, name in enumerate(grid.header):
        table.add_column(
            name,
            justify="right" if place in grid.right else "left",
            no_wrap=place not in grid.wraps,
            overflow="fold",
        )
    for row in grid.rows:
        cells = [Cell(cell) if isinstance(cell, str) else cell for cell in row]
        table.add_row(
            *(
                Text.assemble((cell.text, cell.style), ("\n" + cell.below, "dim"))
                if cell.below
                else Text(cell.text, style=cell.style)
                for cell in cells
            )
        )
    return table
