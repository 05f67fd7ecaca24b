"""The pages of the documentation as their readers meet them: what is to be typed, what it prints, where links lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from pages import ROOT, STEP

DOCS = ROOT / "docs"
_MARK = re.compile(r"^<!-- (?P<mark>.+?) -->\s*$")
_READER = MarkdownIt("commonmark").enable("table")


def all_pages() -> list[Path]:
    """Every page that people read, in the order of their names."""
    outside = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("README*.md")]
    return sorted([*DOCS.rglob("*.md"), *outside])


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Block(NamedTuple):
    """Code on a page."""

    language: str
    """As the fence says it; empty for an indented block."""
    text: str
    marks: tuple[str, ...]
    """Comments right before it, which the reader does not see."""


class Step(NamedTuple):
    """A command of a page with what the page says it prints."""

    command: str
    output: str
    marks: tuple[str, ...] = ()


def blocks(page: Path) -> list[Block]:
    """The code of a page, in its order."""
    return list(_blocks(page.read_text(encoding="utf-8")))


def _blocks(text: str) -> Iterator[Block]:
    marks: tuple[str, ...] = ()
    for token in _READER.parse(text):
        if token.type in ("fence", "code_block"):
            yield Block(token.info.split(" ")[0], token.content, marks)
        lines = token.content.splitlines() if token.type == "html_block" else []
        marks = tuple(found["mark"] for line in lines if (found := _MARK.match(line)))


def steps(page: Path) -> list[Step]:
    """What the page's console blocks type and print, in their order."""
    return [
        Step(found["command"], found["output"], block.marks)
        for block in blocks(page)
        if block.language == "console"
        for found in STEP.finditer(block.text)
    ]


def typed(page: Path) -> Iterator[str]:
    """Every command line of draftpick that a page shows: in blocks of code, or between words."""
    text = page.read_text(encoding="utf-8")
    for block in _blocks(text):
        lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
        yield from (
            found[1] for line in lines if (found := re.match(r"\s*(?:\$ |- )*(?:run: |- )?(draftpick .+)", line))
        )
    for token in _READER.parse(text):
        for child in token.children or ():
            if child.type == "code_inline" and child.content.startswith("draftpick "):
                yield child.content


def headings(page: Path) -> list[str]:
    """The titles of a page as text."""
    tokens = _READER.parse(page.read_text(encoding="utf-8"))
    inner = (after for before, after in pairwise(tokens) if before.type == "heading_open")
    return ["".join(child.content for child in token.children or ()) for token in inner]


def links(page: Path) -> list[str]:
    """Where a page leads to, pictures included."""
    found = []
    for token in _READER.parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            address = child.attrGet("href" if child.type == "link_open" else "src")
            if address is not None:
                found.append(str(address))
    return found
