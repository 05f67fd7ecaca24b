"""The pictures of a report: one quiet style, read at a glance, saying nothing that the table beside them does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from draftpick.report.blocks import Chart, Curve, Domains, MemoryBars, Plane, Point, Positions
from draftpick.report.svg import COLORS, LETTERS, WIDTH, Align, Box, Sketch, box_of, settings, shortened, text_width
from draftpick.speedup import (
    DEFAULT_MOST_TOKENS,
    break_even_draft_cost,
    mean_acceptance_length,
    rate_from_length,
    step_times,
)

_SERIES = ("accent", "second", "third", "fourth", "fifth", "sixth")
_LEVELS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
"""The speed-ups that get a line of their own in the plane."""
_BESIDE: tuple[tuple[float, float, Align], ...] = (
    (9, 4, "left"),
    (-9, 4, "right"),
    (0, -10, "center"),
    (0, 20, "center"),
)
"""Where a point's name may stand: pixels to the right, pixels down, and which end of it is meant."""
_HEIGHT = 310.0
_LEAST_GIB = 0.01
"""Below it the marks of an axis would all be zero."""
_TITLE = 13.0
"""Baseline of what names the upright axis."""


def svg(chart: Chart, prefix: str = "chart") -> str:
    """A chart as an `svg` element; every id in it begins with the prefix, which must differ within a page."""
    draw: dict[type, Callable[..., Sketch]] = {
        Curve: _curve,
        Positions: _positions,
        Domains: _domains,
        MemoryBars: _memory,
        Plane: _plane,
    }
    with settings():
        return draw[type(chart.data)](chart.data).svg(chart.title, chart.alt, prefix)


# Speed-up over k.


def _curve(data: Curve) -> Sketch:
    sketch = Sketch(_HEIGHT)
    axes = sketch.axes(Box(44, 28, WIDTH - 14, _HEIGHT - 44))
    sketch.say(0, _TITLE, f"speed-up, with its {data.level:.0%} interval".replace("%", " %"))
    _across(sketch, axes, "num_spec_tokens (k)")
    low, high = min([1.0, *data.low]), max([1.0, *data.high])
    room = max(high - low, 0.1)
    axes.set_ylim(low - 0.08 * room, high + 0.16 * room)
    axes.set_xlim(min(data.ks, default=0) - 0.4, max(data.ks, default=1) + 0.4)
    axes.set_xticks(data.ks[:: math.ceil(len(data.ks) / 12) or 1])
    # There is no room for a third decimal, which quarters of a tenth and steps of a thousandth would have.
    steps = (1, 2, 5, 10) if room < 0.25 else (1, 2, 2.5, 5, 10)
    ticks = [tick for tick in _ticks(low, low + room, 5, steps) if tick <= high]
    step = min((after - before for before, after in pairwise(ticks)), default=1.0)
    _grid(axes, sorted({1.0, *(tick for tick in ticks if abs(tick - 1) > 0.6 * step)}), lambda tick: f"{tick:g}×")
    axes.axhline(1, color=COLORS["muted"], linewidth=1, linestyle=(0, (4, 3)))
    axes.fill_between(data.ks, data.low, data.high, color=COLORS["accent"], alpha=0.16, linewidth=0)
    axes.plot(data.ks, data.value, color=COLORS["accent"], linewidth=2, marker="o", markersize=4.5)
    if data.chosen in data.ks:
        _mark(sketch, axes, data, data.ks.index(data.chosen))
    return sketch


def _mark(sketch: Sketch, axes: Axes, data: Curve, place: int) -> None:
    """The chosen k: a ring, and a line from its number to its gain, which stands above the band."""
    k, value, top = data.ks[place], data.value[place], max([*data.value, *data.high])
    axes.vlines(k, axes.get_ylim()[0], top, color=COLORS["accent"], linewidth=1, linestyle=(0, (1, 3)))
    axes.plot(k, value, marker="o", markersize=11, color=COLORS["page"], markeredgecolor=COLORS["accent"], mew=2.5)
    text = f"k = {k}: {value:.2f}×"
    x, y = sketch.at(axes, k, top)
    sketch.say(_inside(x, text), y - 9, text, "accent", "center", bold=True)


# Acceptance by position.


def _positions(data: Positions) -> Sketch:
    sketch = Sketch(_HEIGHT)
    axes = sketch.axes(Box(34, 32, WIDTH - 88, _HEIGHT - 44))
    sketch.say(0, _TITLE, "share of drafted tokens that were accepted")
    _across(sketch, axes, "position in the draft")
    count = max(len(data.marginal), len(data.conditional), 1)
    axes.set_xlim(0.7, count + 0.2)
    axes.set_ylim(0, 1.04)
    axes.set_xticks(range(1, count + 1, math.ceil(count / 12)))
    _grid(axes, [0, 0.25, 0.5, 0.75, 1], lambda tick: f"{tick:g}")
    ends: list[tuple[float, str, str]] = []
    series = (("conditional", data.conditional, "second", "s", "--"), ("marginal", data.marginal, "accent", "o", "-"))
    for name, rates, color, marker, line in series:
        known = [rate for rate in rates if rate is not None]
        if known:
            # A rate that is not known leaves a gap.
            drawn = [math.nan if rate is None else rate for rate in rates]
            axes.plot(range(1, len(rates) + 1), drawn, line, color=COLORS[color], linewidth=2, marker=marker, ms=5)
            ends.append((sketch.at(axes, count, known[-1])[1], name, color))
    for (_, name, color), y in zip(ends, _apart([y for y, _, _ in ends]), strict=True):
        sketch.say(WIDTH - 80, y + 4, name, color)
    return sketch


def _apart(heights: Sequence[float]) -> list[float]:
    """Two heights, the upper one first, at least a line of text from each other."""
    if len(heights) < 2:
        return list(heights)
    gap = LETTERS * 1.3
    middle, half = sum(heights) / 2, max(abs(heights[1] - heights[0]), gap) / 2
    return [middle - half, middle + half] if heights[0] <= heights[1] else [middle + half, middle - half]


# Acceptance by domain.


def _domains(data: Domains) -> Sketch:
    row, top = 42.0, 24.0
    bottom = top + row * max(len(data.names), 1)
    sketch = Sketch(bottom + 26)
    axes = sketch.axes(Box(0, top, WIDTH, bottom))
    sketch.say(0, _TITLE, f"acceptance rate, with its {data.level:.0%} interval".replace("%", " %"))
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom - top, 0)
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.get_xticklabels()[0].set_horizontalalignment("left")
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.hlines([place * row + 32 for place in range(len(data.names))], 0, 1, color=COLORS["rule"], linewidth=1)
    for place, (name, value, low, high) in enumerate(zip(data.names, data.value, data.low, data.high, strict=True)):
        y = place * row + 32
        figures = f"{value:.2f} ({low:.2f}–{high:.2f})"
        sketch.say(WIDTH, top + y - 13, figures, align="right")
        sketch.say(0, top + y - 13, shortened(name, WIDTH - text_width(figures) - 12), "ink")
        axes.hlines(y, low, high, color=COLORS["accent"], linewidth=3, alpha=0.45)
        axes.plot(value, y, marker="o", markersize=7, color=COLORS["accent"])
    return sketch


# Memory of each device.


def _memory(data: MemoryBars) -> Sketch:
    row = 48.0
    legend = list(_legend(data.parts))
    top = (legend[-1][1] if legend else 0.0) + 12
    bottom = top + row * max(len(data.bars), 1)
    sketch = Sketch(bottom + 28)
    for x, y, name, color in legend:
        sketch.say(x + 15, y, name)
        sketch.swatch(x, y, color)
    axes = sketch.axes(Box(0, top, WIDTH - 20, bottom))
    totals = [sum(sizes[place] for sizes in data.parts.values()) for place in range(len(data.bars))]
    axes.set_xlim(0, max([data.capacity or 0.0, _LEAST_GIB, *totals]))
    axes.set_ylim(bottom - top, 0)
    for place, (bar, total) in enumerate(zip(data.bars, totals, strict=True)):
        y = place * row + 24
        _total(sketch, data, top + y - 7, bar, total)
        _stack(axes, data, place, y)
    _sizes(sketch, axes, data.capacity)
    return sketch


def _stack(axes: Axes, data: MemoryBars, place: int, y: float) -> None:
    """One bar, its parts side by side, and a line where the memory ends."""
    left = 0.0
    for sizes, color in zip(data.parts.values(), cycle(_SERIES), strict=False):
        if sizes[place]:
            axes.barh(y, sizes[place], 18, left, align="edge", color=COLORS[color], edgecolor=COLORS["page"], lw=1.5)
        left += sizes[place]
    if data.capacity is not None:
        axes.vlines(data.capacity, y - 4, y + 22, color=COLORS["ink"], linewidth=2)


def _sizes(sketch: Sketch, axes: Axes, capacity: float | None) -> None:
    """The numbers below the bars: the capacity, and round ones where it leaves room."""
    ticks = _ticks(*axes.get_xlim(), 5, (1, 1.6, 2, 3.2, 4, 5, 8, 10))
    if capacity is not None:
        text = f"capacity {capacity:.4g} GiB"
        x, y = sketch.at(axes, capacity, axes.get_ylim()[0])
        box = box_of(_inside(x, text), y, text, "center")
        sketch.say(_inside(x, text), y + 18, text, "ink", "center")
        ticks = [
            tick
            for tick in ticks
            if not box_of(sketch.at(axes, tick, 0)[0], y, f" {tick:g} ", "center" if tick else "left").meets(box)
        ]
    axes.set_yticks([])
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    for tick, label in zip(ticks, axes.get_xticklabels(), strict=True):
        label.set_horizontalalignment("center" if tick else "left")


def _total(sketch: Sketch, data: MemoryBars, y: float, bar: str, total: float) -> None:
    """The name of a bar and its sum, or by how much it is too large."""
    over = total - data.capacity if data.capacity is not None else 0.0
    text = f"{total:.1f} GiB, {over:.1f} too many" if over > 0 else f"{total:.1f} GiB"
    sketch.say(WIDTH - 20, y, text, "second" if over > 0 else "muted", "right", bold=over > 0)
    sketch.say(0, y, shortened(bar, WIDTH - 32 - 1.1 * text_width(text)), "ink")


def _legend(parts: Iterable[str]) -> Iterable[tuple[float, float, str, str]]:
    """x, baseline, name and colour of every part, in as many lines as it takes."""
    x, y = 0.0, _TITLE
    for part, color in zip(parts, cycle(_SERIES), strict=False):
        name = shortened(part, WIDTH - 15)
        wide = 15 + text_width(name)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 19
        yield x, y, name, color
        x += wide + 10


# Drafts by cost and acceptance.


def _plane(data: Plane) -> Sketch:
    sketch = Sketch(_HEIGHT)
    axes = sketch.axes(Box(34, 58, WIDTH - 40, _HEIGHT - 44))
    sketch.say(0, _TITLE, "acceptance rate α; on a line, equal speed-up at the best k")
    _across(sketch, axes, "cost ratio c: a drafted token in tokens of the target")
    right = max([0.3, *(1.15 * point.c for point in data.points)])
    floor = min([0.7, *(point.low for point in data.points)])
    axes.set_xlim(0, right)
    axes.set_ylim(max(floor - 0.05, 0), 1)
    ticks = _ticks(0, right, 6)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    _grid(axes, _ticks(axes.get_ylim()[0], 1, 6), lambda tick: f"{tick:g}")
    axes.grid(visible=False)
    taken: list[Box] = []
    for level in _LEVELS:
        box = _line(sketch, axes, level, taken)
        taken += [box] if box is not None else []
    for point in data.points:
        color = COLORS["accent" if point.chosen else "muted"]
        axes.vlines(point.c, point.low, point.high, color=color, linewidth=1.5, alpha=0.6 if point.chosen else 0.25)
    for point in sorted(data.points, key=lambda point: point.chosen):
        color, size = (COLORS["accent"], 10) if point.chosen else (COLORS["muted"], 6.5)
        name = sketch.named(point.label)
        axes.plot(point.c, point.rate, marker="o", color=color, markersize=size, mew=1.5, mec=COLORS["page"], gid=name)
    _labels(sketch, axes, data.points, taken)
    return sketch


def _line(sketch: Sketch, axes: Axes, level: float, taken: Sequence[Box]) -> Box | None:
    """A line of equal speed-up, and the room of its number where it has any; None where it is out of sight."""
    right, floor = axes.get_xlim()[1], axes.get_ylim()[0]
    places = _equal(level, floor, right)
    if not places:
        return None
    costs, rates = zip(*places, strict=True)
    if level == 1:
        axes.fill_between([*costs, right], [*rates, rates[-1]], floor, color=COLORS["rule"], alpha=0.5, linewidth=0)
    axes.plot(costs, rates, color=COLORS["sixth"], linewidth=1.5 if level == 1 else 1, alpha=1 if level == 1 else 0.5)
    (x, y), text = sketch.at(axes, *places[-1]), f"{level:g}×"
    align: Align = "left" if costs[-1] == right else "center"
    x, y = (x + 5, y + 4) if align == "left" else (x, y - 5)
    box = box_of(x, y, text, align)
    if any(box.meets(other) for other in taken):
        return None
    sketch.say(x, y, text, "ink" if level == 1 else "muted", align)
    return box


def _equal(level: float, floor: float, right: float) -> list[tuple[float, float]]:
    """(c, α) along a line of equal speed-up, from the rate `floor` or from c = 0 up to α = 1 or to the cost `right`."""
    start = max(floor, rate_from_length(level, DEFAULT_MOST_TOKENS))
    rates = [min(start + (1 - start) * step / 60, 1) for step in range(61)]
    places = [(_cost_at(level, rate), rate) for rate in rates]
    inside = [place for place in places if place[0] <= right]
    if inside and len(inside) < len(places):
        (before, low), (after, high) = inside[-1], places[len(inside)]
        inside.append((right, low + (high - low) * (right - before) / (after - before)))
    return inside


def _cost_at(level: float, rate: float) -> float:
    """The cost at which a draft of that acceptance rate gains so much at its best k; 0 where none is low enough."""
    costs = (
        break_even_draft_cost(mean_acceptance_length(rate, k) / level, step_times(0), k)
        for k in range(1, DEFAULT_MOST_TOKENS + 1)
    )
    return max((cost for cost in costs if cost is not None), default=0.0)


def _labels(sketch: Sketch, axes: Axes, points: Sequence[Point], taken: Iterable[Box]) -> None:
    """Names beside the points as long as there is room, and the chosen one's above them all."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    frame = Box(*sketch.at(axes, left, top), *sketch.at(axes, right, bottom))
    places = [sketch.at(axes, point.c, point.rate) for point in points]
    filled = [*taken, *(Box(x - 5, y - 5, x + 5, y + 5) for x, y in places)]
    chosen = next((point for point in points if point.chosen), None)
    if chosen is not None:
        sketch.say(0, _TITLE + 18, f"● {shortened(chosen.label, WIDTH - 40)}", "accent", bold=True)
    for point, (x, y) in zip(points, places, strict=True):
        # The part before the slash, whoever published it, is the same for most.
        name = shortened(point.label.rpartition("/")[2], 165)
        for across, down, align in _BESIDE:
            box = box_of(x + across, y + down, name, align)
            if point is not chosen and box.within(frame) and not any(box.meets(other) for other in filled):
                sketch.say(x + across, y + down, name, "ink", align)
                filled.append(box)
                break


def _inside(x: float, text: str) -> float:
    """The middle of a text that is to stand at x, moved so far that no end of it is cut off."""
    half = text_width(text) / 2
    return min(max(x, half), WIDTH - half)


def _ticks(low: float, high: float, most: int, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> list[float]:
    """Round numbers from low to high."""
    return [
        round(float(tick), 9) for tick in MaxNLocator(most, steps=steps).tick_values(low, high) if low <= tick <= high
    ]


def _grid(axes: Axes, ticks: Sequence[float], text: Callable[[float], str]) -> None:
    """Level lines with their numbers."""
    axes.grid(axis="y")
    axes.set_yticks(ticks, [text(tick) for tick in ticks])


def _across(sketch: Sketch, axes: Axes, text: str) -> None:
    """The name of the level axis, below its numbers."""
    sketch.say(sketch.at(axes, *axes.get_xlim())[0], sketch.height - 6, text)
