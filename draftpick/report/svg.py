"""Figures drawn by matplotlib, made fit for a page: small, in its colours and letters, with words for who cannot see.

What a name says never passes through matplotlib, which would read `$` as mathematics and look for the glyphs of every
script: a number stands in its place until the drawing is done.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from draftpick.report.text import printable

WIDTH = 440.0
"""Of every figure, in pixels: two stand side by side on a screen, and a telephone shrinks one only a little."""
LETTERS = 13.0
"""The size of letters, in the same pixels."""

COLORS = {
    "ink": "#1b1f24",
    "muted": "#5b6570",
    "rule": "#e2e1dc",
    "page": "#fdfdfc",
    "accent": "#0b5ea8",
    "second": "#96441d",
    "third": "#2aa496",
    "fourth": "#a98b3c",
    "fifth": "#582272",
    "sixth": "#717171",
}
"""Role → its colour where no page gives another: a page colours the classes `f-role` (fill) and `s-role` (stroke)."""
_ROLES = {color: role for role, color in COLORS.items()}

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "draftpick",
    "font.size": LETTERS,
    "axes.axisbelow": True,
    "axes.edgecolor": COLORS["rule"],
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": COLORS["rule"],
    "lines.solid_capstyle": "round",
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.labelcolor": COLORS["muted"],
    "ytick.labelcolor": COLORS["muted"],
}

_DROPPED = frozenset({"metadata", "style", "clipPath"})
"""Elements of no use: nothing is drawn outside its axes, and a style would reach the whole page."""
_AT_THE_ROOT = ("font", "stroke-linejoin")
"""Properties that are the same for the whole figure, by the beginnings of their names."""
_NUMBER = re.compile(r"-?\d+\.\d+")
_NARROW = frozenset("fijlrtI.,:;|!'()[]/- ")
_BROAD = frozenset("mwMW@%&")


class Box(NamedTuple):
    """A rectangle in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether they have room in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def within(self, other: Box) -> bool:
        """Whether the other holds all of it."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom


Align = Literal["left", "center", "right"]


def text_width(text: str) -> float:
    """The room a text may take, in pixels: letters differ from machine to machine, so a little more than most take."""
    return LETTERS * sum(map(_em, text))


def _em(letter: str) -> float:
    if letter > "\u024f":
        return 1.0
    if letter in _BROAD:
        return 0.95
    return 0.36 if letter in _NARROW else 0.72 if letter.isupper() else 0.58


def shortened(text: str, most: float) -> str:
    """A text as it is shown, cut in its middle where it takes more than `most` pixels."""
    text = printable(text)
    if text_width(text) <= most:
        return text
    # No line holds more letters than that.
    for kept in range(min(len(text), 200), 1, -1):
        cut = text[: kept - kept // 2] + "…" + text[len(text) - kept // 2 :]
        if text_width(cut) <= most:
            return cut
    return "…"


def box_of(x: float, y: float, text: str, align: Align = "left") -> Box:
    """The room of a text whose baseline is at y."""
    wide = text_width(text)
    left = x - {"left": 0.0, "center": wide / 2, "right": wide}[align]
    return Box(left, y - LETTERS, left + wide, y + LETTERS / 4)


@contextmanager
def settings() -> Iterator[None]:
    """The settings that every figure is made and written with, whatever the user's own are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


class Sketch:
    """A figure under work, WIDTH pixels wide, measured from its top left."""

    def __init__(self, height: float) -> None:
        self.height = height
        # At 72 dots per inch matplotlib's points are pixels.
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        self.figure.patch.set_visible(False)
        self._words: list[tuple[str, bool]] = []
        self._names: dict[str, str] = {}

    def axes(self, box: Box) -> Axes:
        """Axes that fill a box."""
        left, low = box.left / WIDTH, 1 - box.bottom / self.height
        axes = self.figure.add_axes((left, low, box.right / WIDTH - left, 1 - box.top / self.height - low))
        axes.patch.set_visible(False)
        return axes

    def at(self, axes: Axes, x: float, y: float) -> tuple[float, float]:
        """Where a point of the axes lies, once their limits are set."""
        across, up = axes.transData.transform((x, y))
        return float(across), self.height - float(up)

    def say(
        self, x: float, y: float, text: str, color: str = "muted", align: Align = "left", bold: bool = False
    ) -> None:
        """Write a text, its baseline at y."""
        self.figure.text(
            x / WIDTH, 1 - y / self.height, f"#{len(self._words)}", color=COLORS[color], ha=align, va="baseline"
        )
        self._words.append((printable(text), bold))

    def swatch(self, x: float, y: float, color: str) -> None:
        """A square of a colour before a text whose baseline is at y."""
        low, wide, high = 1 - y / self.height, 10 / WIDTH, 10 / self.height
        square = Rectangle((x / WIDTH, low), wide, high, facecolor=COLORS[color], transform=self.figure.transFigure)
        self.figure.add_artist(square)

    def named(self, text: str) -> str:
        """The `gid` of an artist whose name a browser shows under the pointer."""
        key = f"named{len(self._names)}"
        self._names[key] = printable(text)
        return key

    def svg(self, title: str, alt: str, prefix: str) -> str:
        """The figure as an `svg` element. Every id in it begins with the prefix."""
        file = io.BytesIO()
        self.figure.savefig(file, format="svg", metadata={"Date": None})
        attributes = {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH:g} {self.height:g}",
            "role": "img",
            "aria-labelledby": f"{prefix}-title {prefix}-desc",
            "font-family": "sans-serif",
            "font-size": f"{LETTERS:g}",
            "stroke-linejoin": "round",
        }
        root = Element("svg", attributes)
        for tag, text in (("title", title), ("desc", alt)):
            ElementTree.SubElement(root, tag, {"id": f"{prefix}-{tag}"}).text = printable(text)
        for child in ElementTree.fromstring(file.getvalue()):
            root.extend(self._cleaned(child, prefix))
        return ElementTree.tostring(root, encoding="unicode")

    def _cleaned(self, element: Element, prefix: str) -> list[Element]:
        """What stays of an element: itself, its children, or nothing."""
        tag = element.tag.rpartition("}")[2]
        if tag in _DROPPED:
            return []
        children = [kept for child in element for kept in self._cleaned(child, prefix)]
        name = self._names.get(element.get("id", ""))
        groups = tag in ("g", "defs")
        if (tag == "g" and name is None) or (groups and not children):
            return children
        cleaned = Element(tag, {} if groups else _attributes(element, prefix))
        if name is not None:
            ElementTree.SubElement(cleaned, "title").text = name
        cleaned.extend(children)
        if tag == "text":
            said = element.text or ""
            cleaned.text, bold = self._words[int(said[1:])] if said.startswith("#") else (said, False)
            if bold:
                cleaned.set("font-weight", "700")
        return [cleaned]


def _attributes(element: Element, prefix: str) -> dict[str, str]:
    """The attributes as a page needs them, which forbids `style`; nothing is clipped, nothing turned."""
    kept: dict[str, str] = {}
    for key, value in element.items():
        key = key.rpartition("}")[2]
        if key == "style":
            kept |= _presentation(value)
        elif key == "id":
            kept["id"] = f"{prefix}-{value}"
        elif key == "href":
            kept["href"] = f"#{prefix}-{value[1:]}"
        elif key not in ("clip-path", "transform"):
            kept[key] = " ".join(_NUMBER.sub(lambda found: f"{round(float(found[0]), 2):g}", value).split())
    return kept


def _presentation(style: str) -> dict[str, str]:
    """A style as attributes, with classes for its colours."""
    kept: dict[str, str] = {}
    classes = []
    for declaration in style.split("; "):
        key, _, value = declaration.partition(": ")
        if key.startswith(_AT_THE_ROOT):
            continue
        if value in _ROLES:
            classes.append(f"{key[0]}-{_ROLES[value]}")
        kept[key] = value.removesuffix("px")
    return kept | ({"class": " ".join(classes)} if classes else {})
