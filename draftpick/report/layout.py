"""Lines and grids, drawn on a terminal of some width or as whole lines for a pipe.

A pipe needs no colours and no wrapping, so it does without rich, whose import is a third of the start-up time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


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
INDENT = 4
"""Of what stands below a row."""
LEAST_ROOM = 20
"""Cells for a name below which a narrow table reads better."""


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
    return (GAP.join(cell.text for cell in row) for row in _aligned(grid))


def _aligned(grid: Grid) -> list[list[Cell]]:
    """The rows, the header first if there is one, with blanks that make each column as wide as its widest field."""
    header = [[Cell(name, "bold") for name in grid.header]] if any(grid.header) else []
    rows = header + [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in grid.rows]
    widths = [max(_cells(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    return [[_padded(cell, widths[place], place in grid.right) for place, cell in enumerate(row)] for row in rows]


def _padded(cell: Cell, width: int, right: bool) -> Cell:
    blanks = " " * (width - _cells(cell.text))
    return cell._replace(text=blanks + cell.text if right else cell.text + blanks)


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
            for line in _lines_of(part, width) or (_table(part),):
                console.print(line)
        elif part.indent:
            console.print(Padding(Text(part.text, style=part.style), (0, 0, 0, part.indent), expand=False))
        else:
            console.print(Text(part.text, style=part.style))
    return buffer.getvalue()


def _lines_of(grid: Grid, width: int) -> list[RenderableType] | None:
    """Rows with what stands below them over the whole width; None where nothing does, or the numbers are too wide.

    A name that is too long for its column gets a line of its own.
    """
    from rich.padding import Padding
    from rich.text import Text

    noted = {place for row in grid.rows for place, cell in enumerate(row) if isinstance(cell, Cell) and cell.below}
    if len(noted) != 1:
        return None
    (place,) = noted
    room = width - sum(_cells(cell.text) + len(GAP) for at, cell in enumerate(_aligned(grid)[0]) if at != place)
    if room < LEAST_ROOM:
        return None
    long = [_cells(_text(row[place])) > room for row in grid.rows]
    short = [
        [cell if at != place or not cut else "" for at, cell in enumerate(row)]
        for row, cut in zip(grid.rows, long, strict=True)
    ]
    aligned = _aligned(grid._replace(rows=short))
    lines: list[RenderableType] = [_joined(row) for row in aligned[: len(aligned) - len(short)]]
    for row, fields, cut in zip(grid.rows, aligned[len(aligned) - len(short) :], long, strict=True):
        if cut:
            lines.append(_joined([*fields[:place], Cell(_text(row[place]))]))
            fields = [
                cell if at >= place else cell._replace(text=" " * _cells(cell.text)) for at, cell in enumerate(fields)
            ]
        lines.append(_joined(fields))
        noted_cell = row[place]
        below = noted_cell.below if isinstance(noted_cell, Cell) else ""
        lines.append(Padding(Text(below, style="dim"), (0, 0, 0, INDENT), expand=False))
    return lines


def _joined(cells: Iterable[Cell]) -> Text:
    from rich.text import Text

    return Text(GAP).join(Text(cell.text, style=cell.style) for cell in cells)


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def _table(grid: Grid) -> RenderableType:
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
