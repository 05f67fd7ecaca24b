"""The README shows real output. UPDATE_DOCUMENTS=1 writes it anew."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from commands import on_terminal, run

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>draftpick [^\n]*)\n(?P<output>.*?)```\n", re.DOTALL)
MOST_LINES = 46


def shown(command: str) -> str:
    """What the command prints on a terminal of 100 columns, cut where a README would tire its reader."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": os.devnull, "HF_HOME": os.devnull}
    code, printed = on_terminal([sys.executable, "-m", *shlex.split(command)], variables)
    assert code in (0, 1)
    lines = printed.splitlines()
    return "\n".join([*lines[:MOST_LINES], *(["…"] if len(lines) > MOST_LINES else [])]) + "\n"


def blocks() -> list[re.Match[str]]:
    return list(BLOCK.finditer(README.read_text(encoding="utf-8")))


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the README")
def test_write_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    README.write_text(
        BLOCK.sub(lambda found: f"```console\n$ {found['command']}\n{shown(found['command'])}```\n", text),
        encoding="utf-8",
    )


@pytest.mark.parametrize("block", blocks(), ids=lambda found: found["command"])
def test_the_readme_shows_what_is_printed(block: re.Match[str]) -> None:
    assert block["output"] == shown(block["command"])


EXAMPLE = README.parent / "docs" / "example-report.md"
ASKED = (
    "recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend --device 910b3 -tp 4 --max-num-seqs 8 "
    "--max-model-len 4096 --format markdown"
)


def test_the_example_report_is_one() -> None:
    answer = run(*shlex.split(ASKED))
    assert answer.exit_code == 0, answer.stderr
    if "UPDATE_DOCUMENTS" in os.environ:
        EXAMPLE.write_text(answer.stdout, encoding="utf-8")
    assert answer.stdout == EXAMPLE.read_text(encoding="utf-8")


def test_the_readme_names_every_exit_code() -> None:
    assert re.findall(r"^\| (\d+) \|", README.read_text(encoding="utf-8"), re.MULTILINE) == [
        "0",
        "1",
        "2",
        "3",
        "70",
        "130",
    ]
