"""What a report consists of, before it becomes Markdown or HTML: texts here are plain, whoever writes them escapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple


class Paragraph(NamedTuple):
    """A few sentences."""

    text: str
    kind: Literal["text", "decision", "warning", "note"] = "text"
    """decision: the answer itself; warning: a doubt, or what stands against it; note: small print."""


class Table(NamedTuple):
    """Columns side by side."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    numeric: frozenset[int] = frozenset()
    """Columns aligned to the right."""


class Code(NamedTuple):
    """Something to be copied whole."""

    text: str
    language: str = "sh"
    title: str = ""


class Curve(NamedTuple):
    """Speed-up over num_spec_tokens, with its interval."""

    ks: Sequence[int]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    chosen: int | None
    level: float


class Positions(NamedTuple):
    """Acceptance by position, from the first drafted token on."""

    marginal: Sequence[float | None]
    conditional: Sequence[float | None]


class Domains(NamedTuple):
    """Acceptance rate by kind of text, with its interval."""

    names: Sequence[str]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    level: float


class MemoryBars(NamedTuple):
    """What each device's memory holds, in GiB: a bar per entry of `bars`."""

    bars: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    """Name of a part → its size in each bar."""
    capacity: float | None


class Point(NamedTuple):
    """One draft in the plane of cost and acceptance."""

    label: str
    c: float
    rate: float
    low: float
    high: float
    chosen: bool = False


class Plane(NamedTuple):
    """Drafts by cost ratio c and acceptance rate α, over lines of equal speed-up at the best k."""

    points: Sequence[Point]


class Chart(NamedTuple):
    """A picture, what it shows in words, and the same figures as a table."""

    title: str
    alt: str
    data: Curve | Positions | Domains | MemoryBars | Plane
    table: Table


Block = Paragraph | Table | Code | Chart


class Section(NamedTuple):
    """A heading with what belongs to it."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False
    """Shown on demand, where the format can."""


class Report(NamedTuple):
    """A whole report."""

    title: str
    sections: Sequence[Section]
    footer: str
    """Provenance in a line."""
