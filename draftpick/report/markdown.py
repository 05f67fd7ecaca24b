"""A report as Markdown to paste into a review: it reads well on GitHub, on GitLab and as plain text.

Names and messages come from strangers. Outside code everything that Markdown acts on is escaped; a word that a forge
turns into a mention, an issue, an emoji or a link after rendering is shown as code, where forges look for none.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from itertools import groupby

from draftpick.report import bars
from draftpick.report.blocks import Block, Chart, Code, Paragraph, Report, Section, Table
from draftpick.report.text import printable

WIDEST = 44
"""Characters up to which columns are padded, so that the text reads as a table too."""

_ESCAPED = {ord(mark): f"\\{mark}" for mark in "\\`*[]#~"}
# A bar divides cells even behind a backslash in one of the two dialects, never as an entity.
_ESCAPED |= {ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;", ord("|"): "&#124;"}
_UNDERSCORES = re.compile(r"(?<!\w)_+|(?<=[^\W_])_+(?!\w)")
"""Those that may begin or end emphasis: between two letters they never do."""
_STARTS = re.compile(r"^(\d{1,9})([.)])(?=\s|$)|^([-+=:/])")
"""What makes a list, a rule or a heading at the beginning of a line, or a command to GitLab."""
_WORDS = re.compile(r"([^\S\xa0]+|\|)")
_FORGED = re.compile(
    r"""
      [@\#!$%~^&]["\w]          # mentions, issues, merge requests, snippets, milestones, labels, alerts, epics
    | :[\w+-]+:                 # emoji
    | ://|(?<![^\W_])www\.      # links
    | \bGH-\d                   # issues
    | \b[0-9a-f]{7,64}\b        # commits
    | \$                        # formulas
    | \{[+-]|\[[+-]             # changes marked inline
    | \[\[|\[_?TOC              # wiki links, tables of contents
    """,
    re.VERBOSE | re.IGNORECASE,
)


def render(report: Report) -> str:
    """The whole report."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def _lines(report: Report) -> Iterable[str]:
    yield f"## {text(report.title)}"
    yield ""
    for place, section in enumerate(report.sections):
        if section.folded:
            yield from (
                f"<details><summary>{_in_html(section.title)}</summary>",
                "",
                *_blocks(section),
                "</details>",
                "",
            )
        else:
            # The answer needs no heading of its own.
            yield from () if place == 0 else (f"### {text(section.title)}", "")
            yield from _blocks(section)
    yield from ("---", "", _begun(text(report.footer)))


def _blocks(section: Section) -> Iterable[str]:
    for warnings, group in groupby(section.blocks, key=_is_warning):
        blocks = list(group)
        if warnings and len(blocks) > 1:
            yield from (f"> - {_begun(text(one.text))}" for one in blocks if isinstance(one, Paragraph))
            yield ""
        else:
            for block in blocks:
                yield from _block(block)


def _is_warning(block: Block) -> bool:
    return isinstance(block, Paragraph) and block.kind == "warning"


def _block(block: Block) -> Iterable[str]:
    if isinstance(block, Paragraph):
        yield from _paragraph(block)
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Code):
        yield from _titled(block.title)
        yield from _code(block.text, block.language)
    else:
        yield from _chart(block)


def _paragraph(paragraph: Paragraph) -> Iterable[str]:
    shown = _begun(text(paragraph.text))
    if shown:
        yield {"decision": f"**{shown}**", "warning": f"> {shown}"}.get(paragraph.kind, shown)
        yield ""


def _titled(title: str) -> Iterable[str]:
    if title:
        yield f"**{text(title)}**"
        yield ""


def _table(table: Table) -> Iterable[str]:
    yield from _titled(table.title)
    grid = [[text(one) for one in row] for row in (table.header, *table.rows)]
    widths = [min(max(len(row[column]) for row in grid), WIDEST) for column in range(len(table.header))]
    if widths and len(widths) - 1 not in table.numeric:
        widths[-1] = 0  # nothing stands behind it
    lines = [_row(row, widths, table.numeric) for row in grid]
    marks = ["-" * max(width - 1, 2) + (":" if place in table.numeric else "-") for place, width in enumerate(widths)]
    yield from (lines[0], _row(marks, widths, frozenset()), *lines[1:], "")


def _row(cells: Iterable[str], widths: Iterable[int], numeric: frozenset[int]) -> str:
    padded = (
        cell.rjust(width) if place in numeric else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join(padded)} |"


def _chart(chart: Chart) -> Iterable[str]:
    yield from _titled(chart.title)
    yield from _paragraph(Paragraph(chart.alt))
    yield from _table(chart.table)
    yield from _code(bars.draw(chart.data), "text")


def _code(content: str, language: str) -> Iterable[str]:
    """A fence longer than any run of backticks inside."""
    lines = [printable(line) for line in content.split("\n")]
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    yield from (f"{fence}{language}", *lines, fence, "")


# ---------------------------------------------------------------------- text


def text(plain: str) -> str:
    """Text that shows as itself, on one line, in a paragraph as in a cell."""
    return "".join(_word(word) for word in _WORDS.split(printable(plain).strip()))


def _word(word: str) -> str:
    core = word.rstrip(",.)")
    if _FORGED.search(core):
        return _as_code(core) + word[len(core) :].translate(_ESCAPED)
    if _FORGED.search(word):
        return _as_code(word)
    return _UNDERSCORES.sub(lambda found: "\\_" * len(found[0]), word.translate(_ESCAPED))


def _as_code(word: str) -> str:
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", word)), default=0))
    pad = " " if word.startswith("`") or word.endswith("`") else ""
    return f"{fence}{pad}{word}{pad}{fence}"


def _begun(shown: str) -> str:
    """Escaped text that begins a line, and no list, rule, heading or command."""
    return _STARTS.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", shown)


def _in_html(plain: str) -> str:
    """The same inside a tag, where Markdown is not read."""
    return "".join(
        f"<code>{html.escape(word)}</code>" if _FORGED.search(word) else html.escape(word)
        for word in _WORDS.split(printable(plain).strip())
    )
