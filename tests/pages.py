"""The pages of the documentation as their readers meet them: what is to be typed, what it prints, where links lead."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from commands import beside_npu, environment, on_terminal
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CUT = "…"
"""A line that stands for what is left out of an output."""
ANSWER = re.compile(r"```console\n\$ (?P<command>draftpick [^\n]*)\n(?P<output>.*?)```\n", re.DOTALL)
"""A block with one command and what it prints."""
MOST_LINES = 46
_STEP = re.compile(r"^\$ (?P<command>[^\n]*)\n(?P<output>(?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
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


@cache
def _tokens(page: Path) -> list[Token]:
    return _READER.parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """The code of a page, in its order."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    marks: tuple[str, ...] = ()
    for token in _tokens(page):
        if token.type in ("fence", "code_block"):
            yield Block(token.info.split(" ")[0], token.content, marks)
        lines = token.content.splitlines() if token.type == "html_block" else []
        before = marks if lines else ()
        marks = (*before, *(found["mark"] for line in lines if (found := _MARK.match(line))))


def steps(page: Path) -> list[Step]:
    """What the page's console blocks type and print, in their order."""
    return [
        Step(found["command"], found["output"], block.marks)
        for block in blocks(page)
        if block.language == "console"
        for found in _STEP.finditer(block.text)
    ]


def typed(page: Path) -> Iterator[str]:
    """Every command line of draftpick that a page shows: in blocks of code, or between words."""
    for block in _blocks(page):
        lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
        yield from (
            found[1] for line in lines if (found := re.match(r"\s*(?:\$ |- )*(?:run: |- )?(draftpick .+)", line))
        )
    for token in _tokens(page):
        for child in token.children or ():
            if child.type == "code_inline" and child.content.startswith("draftpick "):
                yield child.content


def headings(page: Path) -> list[str]:
    """The titles of a page as text."""
    inner = (after for before, after in pairwise(_tokens(page)) if before.type == "heading_open")
    return ["".join(child.content for child in token.children or ()) for token in inner]


def links(page: Path) -> list[str]:
    """Where a page leads to, pictures included."""
    found = []
    for token in _tokens(page):
        for child in token.children or ():
            address = child.attrGet("href" if child.type == "link_open" else "src")
            if address is not None:
                found.append(str(address))
    return found


class Machine:
    """A user in a clone, without network, caches and NPU; the stand-in for an NPU where a step asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.folder.mkdir()
        for name in ("catalog", "ci", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        started = folder / "bin" / "draftpick"
        started.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m draftpick "$@"\n')
        started.chmod(0o755)
        self._plain = environment(OMP_NUM_THREADS="1")
        self._npu = {
            **self._plain,
            **beside_npu(folder),
            "ASCEND_TOOLKIT_HOME": os.path.relpath(folder / "cann", self.folder),
        }
        for variables in (self._plain, self._npu):
            variables["PATH"] = f"{folder / 'bin'}{os.pathsep}{variables['PATH']}"
            paths = filter(None, [variables.get("PYTHONPATH"), str(ROOT)])
            variables["PYTHONPATH"] = os.pathsep.join(paths)

    def run(self, command: str, *, on_stand_in: bool = False) -> tuple[int, str]:
        """The exit code of a line typed into bash, and what it prints on a terminal of 100 columns."""
        return on_terminal(["bash", "-c", command], self._npu if on_stand_in else self._plain, self.folder)


def as_shown(printed: str, shown: str, alike: Callable[[str], str] = str) -> str:
    """What was printed, as far as a page shows it.

    What follows a line `…` is found by its first line; `alike` says what two lines share that are the same.
    """
    wanted = shown.splitlines()
    if CUT not in wanted:
        return printed
    lines, kept, at = printed.splitlines(), list[str](), 0
    for is_cut, group in groupby(wanted, CUT.__eq__):
        part = list(group)
        if not is_cut and kept:
            begin = [alike(line) for line in lines].index(alike(part[0]), at)
            assert begin > at, f"{CUT} stands for nothing before {part[0]!r}"
            at = begin
        kept += [CUT] if is_cut else lines[at : at + len(part)]
        at += 0 if is_cut else len(part)
    assert (at < len(lines)) == (kept[-1] == CUT), f"the page ends elsewhere than:\n{printed}"
    return "\n".join(kept) + "\n"


def without_numbers(text: str) -> str:
    """Words alone: numbers, systems, and the columns that they fill."""
    words = re.sub(r"on \w+ \w+$|[\d.,]+\S*", "#", text, flags=re.MULTILINE)
    return " ".join(words.split())


def shown(command: str) -> str:
    """What the command prints on a terminal of 100 columns, cut where a page would tire its reader."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": os.devnull, "HF_HOME": os.devnull}
    code, printed = on_terminal([sys.executable, "-m", *shlex.split(command)], variables)
    assert code in (0, 1)
    lines = printed.splitlines()
    return "\n".join([*lines[:MOST_LINES], *([CUT] if len(lines) > MOST_LINES else [])]) + "\n"
