"""Walks through docs/served.md against real vLLM servers, and writes what its commands print onto the page.

python scripts/walk_served.py ENVIRONMENT [PORT]

Servers of the demo pair are started at the page's addresses, or at other ports from PORT on. Fails where a command
ends otherwise than the page says.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from evaluate_served import Model, Setting, serving
from test_engines import DEMO

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "served.md"
FIRST_PORT = 8000
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
BLOCK = re.compile(
    r"<!-- exit (?P<codes>[\d ]+) -->\n```console\n\$ (?P<command>draftpick [^\n]*)\n(?P<output>.*?)```\n", re.DOTALL
)
FILE = re.compile(r"`(?P<name>[a-z]+\.toml)`:\n\n```toml\n(?P<text>.*?)```\n", re.DOTALL)
SPECULATES = '{"method": "draft_model", "model": "%s", "num_speculative_tokens": 3}'


class Step(NamedTuple):
    """A command of the page."""

    command: str
    codes: tuple[int, ...]
    output: str


def steps(page: str) -> Iterator[Step]:
    """The commands of the page, in their order."""
    for found in BLOCK.finditer(page):
        yield Step(found["command"], tuple(map(int, found["codes"].split())), found["output"])


def lay_out(folder: Path, page: str) -> None:
    """The files that the commands take for granted."""
    (folder / "catalog").symlink_to(ROOT / "catalog")
    for found in FILE.finditer(page):
        (folder / found["name"]).write_text(found["text"], encoding="utf-8")


def main() -> int:
    """Run every command of the page, and write it anew."""
    setting = Setting(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else FIRST_PORT)
    page, printed = PAGE.read_text(encoding="utf-8"), []
    target, draft = DEMO / "target", DEMO / "draft"
    models = [
        Model(target),
        Model(draft),
        Model(target, options=("--speculative-config", SPECULATES % draft), log="speculating"),
    ]
    with tempfile.TemporaryDirectory() as made, serving(setting, models, Path(made)):
        folder = Path(made)
        lay_out(folder, page)
        for step in steps(page):
            printed.append(run(step, folder, setting))
    texts = iter(printed)
    PAGE.write_text(BLOCK.sub(lambda found: written(found, next(texts)), page), encoding="utf-8")
    return 0


def run(step: Step, folder: Path, setting: Setting) -> str:
    """What a command prints on a screen of 110 columns."""
    print(f"  $ {step.command}", flush=True)
    command = re.sub(PORT, lambda port: str(int(port[0]) - FIRST_PORT + setting.first_port), step.command)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 110))
    variables = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command)],
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **variables},
    ) as running:
        os.close(theirs)
        printed = everything(ours)
        said = running.stderr.read().decode() if running.stderr is not None else ""
    if running.returncode not in step.codes:
        raise SystemExit(f"ended with {running.returncode}:\n{printed}\n{said[-2000:]}")
    shown = printed.replace("\r\n", "\n").replace(f"{ROOT}/", "")
    return re.sub(PORT, lambda port: str(int(port[0]) - setting.first_port + FIRST_PORT), shown)


def everything(terminal: int) -> str:
    """What is written to a terminal until its other end is closed."""
    found = b""
    try:
        while piece := os.read(terminal, 65536):
            found += piece
    except OSError:  # as Linux says that nobody holds the other end
        pass
    os.close(terminal)
    return found.decode()


def written(found: re.Match[str], text: str) -> str:
    """The block with what was printed."""
    return f"<!-- exit {found['codes']} -->\n```console\n$ {found['command']}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
