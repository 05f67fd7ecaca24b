"""The README in two languages, and the report that it leads to; `test_pages.py` follows what they tell to type."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from commands import run
from pages import ROOT, blocks, headings, links

import draftpick

READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks on a page, without the comments, which are in its own language."""
    return [(block.language, re.sub(r" +# .*", "", block.text)) for block in blocks(page)]


def files(page: Path) -> set[str]:
    """The files that a page leads to, itself in the other language aside."""
    return {link.partition("#")[0] for link in links(page)} - {one.name for one in READMES}


def in_line(page: Path) -> set[str]:
    """The names between words that are typed or read as they stand: commands, options, files, values."""
    return set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text_of(page)))


@pytest.mark.parametrize("seen", [code, files, in_line], ids=lambda seen: seen.__name__)
def test_both_languages_show_the_same(seen: Callable[[Path], Collection[object]]) -> None:
    ours, theirs = map(seen, READMES)
    assert ours == theirs
    assert len(ours) > 8


def test_both_languages_have_the_same_parts_and_lead_to_each_other() -> None:
    ours, theirs = map(headings, READMES)
    assert len(ours) == len(theirs)
    assert READMES[1].name == links(READMES[0])[0]
    assert READMES[0].name == links(READMES[1])[0]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_python_example_holds(page: Path) -> None:
    """Each line with a comment has that value."""
    names: dict[str, object] = {"draftpick": draftpick}
    (example,) = (block.text for block in blocks(page) if block.language == "python")
    said = 0
    for line in example.splitlines():
        expression, _, value = line.partition("  # ")
        if value:
            assert repr(eval(expression, names)) == value
            said += 1
        else:
            exec(line, names)
    assert said > 1


def test_the_start_that_the_readme_leads_to_can_be_used_as_it_is(tmp_path: Path) -> None:
    """vLLM-Ascend crashes at the first request without the sizes, and only the number of sequences gives them."""
    (step,) = re.findall(r"^draftpick (recommend TARGET .* )-o advice\.json$", text_of(READMES[0]), re.MULTILINE)
    advice = str(tmp_path / "advice.json")
    answer = run(*shlex.split(step.replace("TARGET", "Qwen/Qwen2.5-72B-Instruct")), "-o", advice)
    assert answer.exit_code == 0, answer.stderr
    assert "cudagraph_capture_sizes" in run("launch", advice).stdout


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_readme_names_every_exit_code(page: Path) -> None:
    codes = re.findall(r"^\| (\d+) \|", text_of(page), re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "70", "130"]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_an_answer_stands_on_the_first_screen(page: Path) -> None:
    before, _, rest = text_of(page).partition("```console\n")
    assert len(before.splitlines()) + len(rest.split("```")[0].splitlines()) <= 30


EXAMPLE = ROOT / "docs" / "example-report.md"
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
