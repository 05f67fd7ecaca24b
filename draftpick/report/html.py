"""A report as one HTML file to mail or to keep: no script, nothing fetched, for light and dark, paper and telephone."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from draftpick.report.blocks import Block, Chart, Code, Paragraph, Report, Table
from draftpick.report.text import printable

_FOLDER = Path(__file__).parent
_LONG = 28
"""Letters of a field from which its column may break into lines."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""What is written from the right, by the blocks that Unicode keeps for such scripts."""


class Field(NamedTuple):
    """One field of a table as the page needs it."""

    text: str
    kind: str
    """number, words (may break into lines), or nothing."""
    heads: bool
    """It names its row."""


def render(report: Report) -> str:
    """The whole page. Without matplotlib it has the tables, and says why the pictures are missing."""
    pictured = any(isinstance(block, Chart) for section in report.sections for block in section.blocks)
    picture, no_pictures = _pictures() if pictured else (None, "")
    style = (_FOLDER / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.tests |= {
        "paragraph": lambda block: isinstance(block, Paragraph),
        "table": lambda block: isinstance(block, Table),
        "code": lambda block: isinstance(block, Code),
    }
    template = environment.from_string((_FOLDER / "report.html.jinja").read_text(encoding="utf-8"))
    page = template.render(
        report=report,
        style=Markup(style),
        style_hash=Markup(f"sha256-{digest}"),
        picture=picture,
        no_pictures=no_pictures,
        new_id=_ids(),
        grid=_grid,
        groups=_groups,
        lines=_lines,
        whole=_whole,
        plain=_plain,
    )
    return page.lstrip() + "\n"


def _pictures() -> tuple[Callable[[Chart, str], Markup] | None, str]:
    """What draws a chart with a prefix for its ids, or why nothing can."""
    # It would tell of places for its caches that cannot be written; without them it is only slower.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        from draftpick.report.charts import svg
    except (ImportError, OSError) as error:  # OSError: no place even for temporary files
        return None, f"No picture, as matplotlib could not be loaded: {error}."
    return lambda chart, prefix: Markup(svg(chart, prefix)), ""


def _ids() -> Callable[[str], str]:
    counted: Counter[str] = Counter()

    def new_id(kind: str) -> str:
        counted[kind] += 1
        return f"{kind}-{counted[kind]}"

    return new_id


def _groups(blocks: Sequence[Block]) -> Iterator[tuple[bool, list[Block]]]:
    """Charts that follow each other, and the blocks between them."""
    for pictured, group in groupby(blocks, key=lambda block: isinstance(block, Chart)):
        yield pictured, list(group)


def _grid(table: Table) -> tuple[list[Field], list[list[Field]]]:
    """The header and the rows. The first column of words names the row, else the first column."""
    heads = next((place for place in range(len(table.header)) if place not in table.numeric), 0)
    long = {place for row in table.rows for place, text in enumerate(row) if len(text) > _LONG}
    kinds = dict.fromkeys(long, "words") | dict.fromkeys(table.numeric, "number")

    def fields(row: Sequence[str]) -> list[Field]:
        return [Field(text, kinds.get(place, ""), place == heads) for place, text in enumerate(row)]

    return fields(table.header), [fields(row) for row in table.rows]


# Texts.


def _shown(value: object) -> Markup:
    """Whatever the template prints, as it goes into the page."""
    return value if isinstance(value, Markup) else _isolated(printable(str(value)))


def _isolated(text: str) -> Markup:
    """Text whose words from the right leave their neighbours where they are."""
    if not _RIGHT_TO_LEFT.search(text):
        return escape(text)
    words = re.split(r"(\s+)", text)
    marked = Markup().join(
        Markup("<bdi>{}</bdi>").format(word) if _RIGHT_TO_LEFT.search(word) else word for word in words
    )
    return Markup(re.sub(r"</bdi>(\s+)<bdi>", r"\1", marked))


def _lines(text: str) -> Markup:
    """Text that keeps its lines and its tabs."""
    return Markup("\n").join(
        Markup("\t").join(_isolated(printable(part)) for part in line.split("\t")) for line in text.split("\n")
    )


def _whole(text: str) -> Markup:
    """Text that breaks inside a name, at a hyphen or a slash, only where the line has no room for all of it."""
    words = re.split(r"(\s+)", printable(text))
    return Markup().join(
        Markup('<span class="whole">{}</span>').format(_isolated(word))
        if "-" in word or "/" in word
        else _isolated(word)
        for word in words
    )


def _plain(text: str) -> Markup:
    """Text for where no element may stand."""
    return escape(printable(text))
