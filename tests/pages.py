"""Pages that show what is printed: the steps on them, a user who follows these, and how much of it a page shows."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from commands import environment, on_terminal

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(?P<mark><!-- [\w-]+ -->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)
STEP = re.compile(r"\$ (?P<command>[^\n]*)\n(?P<output>(?:(?!\$ )[^\n]*\n)*)")
CUT = "…"


class Step(NamedTuple):
    """A command on a page, what the page shows of its output, and the mark above its block."""

    command: str
    output: str
    mark: str


def steps(text: str) -> list[Step]:
    return list(_steps(text))


def _steps(text: str) -> Iterator[Step]:
    for block in BLOCK.finditer(text):
        for step in STEP.finditer(block["text"]):
            yield Step(step["command"], step["output"], block["mark"] or "")


def written(text: str, printed: Callable[[Step], str]) -> str:
    """The page with the output of each step as `printed` has it."""

    def block(found: re.Match[str]) -> str:
        mark = found["mark"] or ""

        def step(one: re.Match[str]) -> str:
            return f"$ {one['command']}\n{printed(Step(one['command'], one['output'], mark))}"

        return f"{mark}```console\n{STEP.sub(step, found['text'])}```\n"

    return BLOCK.sub(block, text)


def shown(printed: str, output: str, alike: Callable[[str], str] = str) -> str:
    """What a page shows of `printed`: the lines of `output`, in which a line `…` stands for some that are left out.

    Lines behind a cut are found by the first of them; `alike` says what two lines must share to be one.
    """
    if CUT not in output.splitlines():
        return printed
    lines, kept, at = printed.splitlines(), list[str](), 0
    seen = [alike(line) for line in lines]
    for cut, part in groupby(output.splitlines(), CUT.__eq__):
        wanted = list(part)
        if cut:
            kept.append(CUT)
            continue
        if kept:
            start = seen.index(alike(wanted[0]), at)
            assert start > at, f"nothing is left out before {wanted[0]!r}"
            at = start
        kept += lines[at : at + len(wanted)]
        at += len(wanted)
    assert (at < len(lines)) is (kept[-1] == CUT), f"the page ends elsewhere:\n{printed}"
    return "".join(f"{line}\n" for line in kept)


def without_numbers(text: str) -> str:
    """Words alone: numbers, systems, and the columns that they fill."""
    words = re.sub(r"on \w+ \w+$|[\d.,]+\S*", "#", text, flags=re.MULTILINE)
    return " ".join(words.split())


class Clone:
    """A user in a clone, without network and caches, on a terminal of 100 columns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.folder.mkdir()
        for name in ("catalog", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        started = folder / "bin" / "draftpick"
        started.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m draftpick "$@"\n')
        started.chmod(0o755)
        self.variables = environment(OMP_NUM_THREADS="1")
        self.variables["PATH"] = f"{folder / 'bin'}{os.pathsep}{self.variables['PATH']}"

    def follow(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints."""
        return on_terminal(["bash", "-c", command], self.variables, self.folder)
