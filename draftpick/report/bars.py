"""Charts drawn with letters, for where no picture can be shown."""

from __future__ import annotations

from collections.abc import Sequence

from draftpick.report.blocks import Curve, Domains, MemoryBars, Plane, Positions
from draftpick.report.text import printable, spoken_level

WIDTH = 40
LONGEST_NAME = 32
_LETTERS = "TDKkWRABCEFGHIJLMNOPQSUVXYZ"


def draw(data: Curve | Positions | Domains | MemoryBars | Plane) -> str:
    """The chart as lines of at most some 100 characters."""
    if isinstance(data, Curve):
        lines = _curve(data)
    elif isinstance(data, Positions):
        lines = _positions(data)
    elif isinstance(data, Domains):
        lines = [*_bars(data.names, data.value, data.low, data.high, 1.0), _legend(data.level)]
    elif isinstance(data, MemoryBars):
        lines = _memory(data)
    else:
        lines = _plane(data)
    return "\n".join(line.rstrip() for line in lines)


def _curve(data: Curve) -> list[str]:
    names = [f"k = {k}" for k in data.ks]
    lines = _bars(names, data.value, data.low, data.high, max([*data.high, *data.value]), unit="×")
    lines = [line + (" ◀" if k == data.chosen else "") for k, line in zip(data.ks, lines, strict=True)]
    bounded = any(low < high for low, high in zip(data.low, data.high, strict=True))
    return [*lines, *([_legend(data.level)] if bounded else [])]


def _bars(
    names: Sequence[str],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    most: float,
    unit: str = "",
) -> list[str]:
    """A line each: the name, the value, and a bar that is dark up to the lower bound and light up to the upper one."""
    shown = _named(names)
    return [
        f"{name}  {value:.2f}{unit}  {_bar(low, high, most)}"
        for name, value, low, high in zip(shown, values, lows, highs, strict=True)
    ]


def _bar(low: float, high: float, most: float) -> str:
    first, last = (_cells(value, most) for value in (low, high))
    return "█" * first + "░" * (last - first)


def _cells(value: float, most: float) -> int:
    return round(WIDTH * min(max(value / most, 0.0), 1.0)) if most > 0 else 0


def _legend(level: float) -> str:
    return f"█ up to the lower bound of the {spoken_level(level)} interval, ░ up to the upper one"


def _positions(data: Positions) -> list[str]:
    lines = []
    for place, rate in enumerate(data.marginal, start=1):
        shown = f"{rate:.2f}" if rate is not None else "   -"
        lines.append(f"{place:>2}  {shown}  {'█' * _cells(rate or 0.0, 1.0)}")
    return [*lines, "accepted at each drafted position, of all steps"]


def _memory(data: MemoryBars) -> list[str]:
    """A bar per draft with a letter for each part, and a stroke where the memory ends."""
    totals = [sum(parts[place] for parts in data.parts.values()) for place in range(len(data.bars))]
    most = max([*totals, data.capacity or 0.0])
    letters = dict(zip(data.parts, _LETTERS, strict=False))
    lines = []
    for place, name in enumerate(_named(data.bars)):
        row, reached = "", 0.0
        for part, values in data.parts.items():
            reached += values[place]
            row += letters[part] * (_cells(reached, most) - len(row))
        if data.capacity is not None:
            end = _cells(data.capacity, most)
            row = row.ljust(end)
            row = f"{row[:end]}|{row[end:]}"
        lines.append(f"{name}  {totals[place]:6.1f}  {row}")
    held = f"; | {data.capacity:.1f} GiB" if data.capacity is not None else ""
    return [*lines, ", ".join(f"{letter} {printable(part)}" for part, letter in letters.items()) + held]


def _plane(data: Plane) -> list[str]:
    lines = _bars(
        [point.label for point in data.points],
        [point.rate for point in data.points],
        [point.low for point in data.points],
        [point.high for point in data.points],
        1.0,
    )
    most = max(len(line) for line in lines) if lines else 0
    shown = [
        f"{line.ljust(most)}  c = {point.c:.2f}{' ◀' if point.chosen else ''}"
        for line, point in zip(lines, data.points, strict=True)
    ]
    return [*shown, "acceptance rate with its interval, and the cost ratio c of a drafted token"]


def _named(names: Sequence[str]) -> list[str]:
    """Names of one length: what is too long is cut in the middle, whose ends tell it apart."""
    shown = [printable(name) for name in names]
    half = LONGEST_NAME // 2
    cut = [name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}" for name in shown]
    width = max((len(name) for name in cut), default=0)
    return [name.ljust(width) for name in cut]
