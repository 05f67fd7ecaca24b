"""Lines and grids, drawn on a terminal of some width or as whole lines for a pipe.

Done here, as the import of rich would be a fifth of the start-up time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
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
    spare: Sequence[int] = ()
    """Columns that a narrow screen does without, the least important first."""


GAP = "  "
INDENT = 4
"""Of what stands below a row."""
LEAST_ROOM = 20
"""Cells for a name below which a narrow table reads better."""

_ANSI = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_WORD = re.compile(r"\s*\S+\s*|\s+")
_NARROW = frozenset(
    chr(code)
    for first, last in ((0x20, 0x7E), (0xA0, 0xAC), (0xAE, 0x2FF), (0x370, 0x482), (0x2013, 0x2026), (0x2500, 0x25FC))
    for code in range(first, last + 1)
)
"""Characters of one cell, among them all that draftpick itself writes; what others take is looked up."""


def draw(parts: Iterable[Line | Grid], *, width: int | None, color: bool) -> str:
    """The parts as text. `width` is the terminal's; None: a pipe, where nothing is cut, wrapped or coloured."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Line):
            lines += _line(part, width, color)
        elif width is None:
            lines += [_joined(row, color=False) for row in _aligned(part)]
        else:
            grid = _lightened(part, width)
            lines += _noted(grid, width, color) or _columns(grid, width, color)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _lightened(grid: Grid, width: int) -> Grid:
    """The grid without as many of its spare columns as it takes to leave the others room."""
    left = list(range(len(grid.header)))
    widths = [max(_cells(cell.text) for cell in column) for column in zip(*_rows(grid), strict=True)]
    least = [min(room, LEAST_ROOM) if at in grid.wraps else room for at, room in enumerate(widths)]
    for column in grid.spare:
        if sum(least[at] + len(GAP) for at in left) - len(GAP) <= width:
            break
        left.remove(column)
    return grid._replace(
        header=[grid.header[at] for at in left],
        rows=[[row[at] for at in left] for row in grid.rows],
        right=frozenset(place for place, at in enumerate(left) if at in grid.right),
        wraps=frozenset(place for place, at in enumerate(left) if at in grid.wraps),
    )


def _line(part: Line, width: int | None, color: bool) -> Iterable[str]:
    if width is None:
        return (" " * part.indent + line for line in part.text.split("\n"))
    lines = _wrapped(part.text, max(width - part.indent, 1))
    return (" " * part.indent + _painted(line, part.style, color) for line in lines)


def _noted(grid: Grid, width: int, color: bool) -> list[str] | None:
    """Rows with what stands below them over the whole width; None where nothing does, or the numbers are too wide.

    A name that is too long for its column gets a line of its own.
    """
    noted = {place for row in grid.rows for place, cell in enumerate(row) if isinstance(cell, Cell) and cell.below}
    if len(noted) != 1:
        return None
    (place,) = noted
    room = width - sum(_cells(cell.text) + len(GAP) for at, cell in enumerate(_aligned(grid)[0]) if at != place)
    if room < LEAST_ROOM:
        return None
    named = [_cell(row[place]) for row in grid.rows]
    long = [_cells(cell.text) > room for cell in named]
    short = [
        [cell if at != place or not cut else "" for at, cell in enumerate(row)]
        for row, cut in zip(grid.rows, long, strict=True)
    ]
    aligned = _aligned(grid._replace(rows=short))
    lines = [_joined(row, color) for row in aligned[: len(aligned) - len(short)]]
    for name, fields, cut in zip(named, aligned[len(aligned) - len(short) :], long, strict=True):
        if cut:
            lines += _wrapped(GAP.join([*(cell.text for cell in fields[:place]), name.text]), width)
            fields = [
                cell if at >= place else cell._replace(text=" " * _cells(cell.text)) for at, cell in enumerate(fields)
            ]
        lines.append(_joined(fields, color))
        lines += _line(Line(name.below, "dim", INDENT), width, color)
    return lines


def _aligned(grid: Grid) -> list[list[Cell]]:
    """The rows, the header first if there is one, with blanks that make each column as wide as its widest field."""
    rows = _rows(grid)
    widths = [max(_cells(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    return [
        [cell._replace(text=_padded(cell.text, widths[at], at in grid.right)) for at, cell in enumerate(row)]
        for row in rows
    ]


def _rows(grid: Grid) -> list[list[Cell]]:
    header = [[Cell(name, "bold") for name in grid.header]] if any(grid.header) else []
    return header + [[_cell(cell) for cell in row] for row in grid.rows]


def _cell(cell: Cell | str) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _joined(cells: Iterable[Cell], color: bool) -> str:
    return GAP.join(_painted(cell.text, cell.style, color) for cell in cells)


def _columns(grid: Grid, width: int, color: bool) -> Iterable[str]:
    """Fields that break, or are cut, where the columns do not fit side by side."""
    rows = _rows(grid)
    gaps = [len(GAP)] * (len(grid.header) - 1) + [0]
    widths = [min(_widest(column) + gap, width) for column, gap in zip(zip(*rows, strict=True), gaps, strict=True)]
    _narrow(widths, grid.wraps, width)
    header = rows[0] if any(grid.header) else None
    for row in rows:
        fields = [_pieces(cell, widths[at] - gaps[at], at in grid.wraps) for at, cell in enumerate(row)]
        if row is header:
            # A name of one line stands on the last of its neighbours.
            height = max(map(len, fields))
            fields = [[Cell("")] * (height - len(field)) + field for field in fields]
        for pieces in zip_longest(*fields, fillvalue=Cell("")):
            line = ""
            for at, piece in enumerate(pieces):
                blanks = " " * (widths[at] - gaps[at] - _cells(piece.text))
                text = _painted(piece.text, piece.style, color)
                line += (blanks + text if at in grid.right else text + blanks) + " " * min(gaps[at], widths[at])
            yield line


def _widest(column: Iterable[Cell]) -> int:
    return max(max(_cells(cell.text), _cells(cell.below)) for cell in column)


def _narrow(widths: list[int], wraps: Iterable[int], most: int) -> None:
    """Take from the widest columns that may break until all fit into `most` cells, then, if need be, from all."""
    while (excess := sum(widths) - most) > 0:
        widest = max((widths[at] for at in wraps), default=0)
        if widest:
            next_widest = max((widths[at] for at in wraps if widths[at] < widest), default=0)
            _take(excess, widths, [at for at in sorted(wraps) if widths[at] == widest], next_widest)
        else:
            _take(excess, widths, [at for at, width in enumerate(widths) if width], 0)


def _take(excess: int, widths: list[int], columns: Sequence[int], least: int) -> None:
    """Take `excess` cells from these columns in equal parts, and leave each of them `least`."""
    for number, at in enumerate(columns):
        part = min(round(excess / (len(columns) - number)), widths[at] - least)
        widths[at] -= part
        excess -= part


def _pieces(cell: Cell, room: int, wraps: bool) -> list[Cell]:
    """The lines that a field takes in so many cells; one that does not wrap is cut."""
    if room < 1:
        return []
    fit = _wrapped if wraps else _cut
    lines = [Cell(line, cell.style) for line in fit(cell.text, room)]
    if cell.below:
        lines += [Cell(line, "dim") for line in fit(cell.below, room)]
    return lines


def _wrapped(text: str, width: int) -> Iterable[str]:
    """Lines of at most `width` cells, broken between words, and within those that are wider."""
    for paragraph in text.split("\n"):
        line, used = "", 0
        for word in _WORD.findall(paragraph) if _cells(paragraph) > width else (paragraph,):
            wide = _cells(word.rstrip())
            if used and wide > width - used:
                yield line.rstrip()
                line, used = "", 0
            if wide > width:
                *full, word = _chopped(word, width)
                yield from map(str.rstrip, full)
            line += word
            used += _cells(word)
        yield line.rstrip()


def _cut(text: str, width: int) -> Iterable[str]:
    lines = (line.rstrip() for line in text.split("\n"))
    return (line if _cells(line) <= width else _chopped(line, width)[0] for line in lines)


def _chopped(text: str, width: int) -> list[str]:
    if _NARROW.issuperset(text):
        return [text[start : start + width] for start in range(0, len(text), width)]
    from rich.cells import chop_cells

    return chop_cells(text, width)


def _cells(text: str) -> int:
    """Cells that a text takes on a terminal."""
    if _NARROW.issuperset(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _cells(text))
    return blanks + text if right else text + blanks


def _painted(text: str, style: str, color: bool) -> str:
    if not (text and style and color):
        return text
    return f"\x1b[{';'.join(_ANSI[word] for word in style.split())}m{text}\x1b[0m"
