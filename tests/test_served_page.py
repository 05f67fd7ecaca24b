"""docs/served.md is followed: against servers of the same models here, against real ones by `make walk-served`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from commands import run
from serving import Handler, Model, Server, serving

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from walk_served import FIRST_PORT, PAGE, PORT, lay_out, steps  # noqa: E402

PAIR = ROOT / "catalog" / "demo"
SCRAPE = ROOT / "tests" / "scrapes" / "vllm-0.32.0-second.txt"
ROW = re.compile(r"^\d+  \d\.\d\d \(\d\.\d\d–\d\.\d\d\)", re.MULTILINE)
"""k and tokens per step with their interval: what hangs on no clock."""


def as_words(text: str) -> list[str]:
    """A text without its lines, its rules and its dates."""
    return re.sub(r"\d{4}-\d\d-\d\d|─+", "", text).split()


def metrics(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
    if path != "/metrics":
        return False
    handler.send(200, SCRAPE.read_bytes())
    return True


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        models = (Model(PAIR / "target"), Model(PAIR / "draft"), Model(PAIR / "target"))
        yield [stack.enter_context(serving(model, hook=metrics)) for model in models]


def test_every_command_of_the_walk_through_works(
    tmp_path: Path, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    lay_out(tmp_path, page)
    monkeypatch.chdir(tmp_path)
    followed = list(steps(page))
    assert len(followed) == 6
    for step in followed:
        ports = {str(FIRST_PORT + place): str(one.server_address[1]) for place, one in enumerate(servers)}
        words = shlex.split(PORT.sub(lambda port, known=ports: known[port[0]], step.command))[1:]
        if "--speculating-url" in words:  # these servers stream nothing
            place = words.index("--speculating-url")
            words[place : place + 2] = ["--costs", "roofline"]
        answer = run(*words)
        assert answer.exit_code in step.codes, (step.command, answer.stderr)
        if words[0] == "probe":
            assert ROW.findall(answer.stdout) == ROW.findall(step.output)
            assert len(ROW.findall(step.output)) == 8
        elif words[0] in ("launch", "gate"):
            assert as_words(answer.stdout) == as_words(step.output)
