"""docs/launch.md shows what is really printed. UPDATE_DOCUMENTS=1 writes the output on the page anew."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from commands import run

from draftpick.catalog import load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "launch.md"
BLOCK = re.compile(
    r"```console\n\$ draftpick (?P<advise>[^\n]*)\n\$ draftpick (?P<launch>[^\n]*)\n(?P<output>.*?)```\n", re.DOTALL
)


def blocks() -> list[re.Match[str]]:
    return list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))


def printed(block: re.Match[str], folder: Path) -> str:
    """What the second command prints, on both streams."""
    advise, launch = (shlex.split(block[name].replace("advice.json", str(folder / "advice.json"))) for name in
                      ("advise", "launch"))  # fmt: skip
    assert run(*advise).exit_code in (0, 1)
    answer = run(*launch)
    assert answer.exit_code in (0, 1)
    return answer.stdout + answer.stderr


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the page")
def test_write_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    PAGE.write_text(
        BLOCK.sub(
            lambda found: (
                f"```console\n$ draftpick {found['advise']}\n$ draftpick {found['launch']}\n"
                f"{printed(found, tmp_path)}```\n"
            ),
            PAGE.read_text(encoding="utf-8"),
        ),
        encoding="utf-8",
    )


def test_every_console_block_is_compared() -> None:
    assert len(blocks()) == PAGE.read_text(encoding="utf-8").count("```console") == 13


@pytest.mark.parametrize("block", blocks(), ids=lambda found: found["advise"])
def test_the_page_shows_what_is_printed(block: re.Match[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert block["output"] == printed(block, tmp_path)


def test_every_engine_has_a_part_that_says_whether_it_was_started() -> None:
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    by_title = dict(zip(parts[1::2], parts[2::2], strict=True))
    names = {facts["name"].replace("SGLang (Ascend)", "SGLang on NPUs") for facts in load().engines.values()}
    assert names <= by_title.keys()
    for name in names:
        assert re.match(r"\n(Not started|Started)", by_title[name]), name
