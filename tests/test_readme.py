"""What a newcomer reads first shows real output: README, tutorial, guide. UPDATE_DOCUMENTS=1 writes the output anew.

Numbers in blocks under a mark are not compared: times and the rounding of a CPU are no facts of the page.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from commands import run
from pages import ROOT, Clone, Step, shown, steps, without_numbers, written

README = ROOT / "README.md"
PAGES = [README, ROOT / "README.zh-CN.md", ROOT / "docs" / "reading.md", ROOT / "docs" / "tutorial.md"]
CODES = {"draftpick gate pairs.toml": 1}
"""Steps that must end so; others say yes or no."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def follow(clone: Clone, step: Step) -> str:
    """What a step prints, as far as the page shows it."""
    code, printed = clone.follow(step.command)
    assert code in ({CODES[step.command]} if step.command in CODES else {0, 1}), printed
    return shown(printed, step.output, without_numbers if step.mark else str)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the pages")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_write_the_page(page: Path, clone: Clone) -> None:
    page.write_text(written(text_of(page), lambda step: follow(clone, step)), encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_shows_what_is_printed(page: Path, clone: Clone) -> None:
    text = text_of(page)
    followed = steps(text)
    assert {step.command for step in followed} == set(re.findall(r"^\$ (?!.*-o probe\.json$)(.*)", text, re.MULTILINE))
    if any("probe " in step.command for step in followed):
        pytest.importorskip("transformers")
    for step in followed:
        printed = follow(clone, step)
        if step.mark:
            assert without_numbers(printed) == without_numbers(step.output), step.command
        else:
            assert printed == step.output, step.command


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


READMES = PAGES[:2]
CODE = re.compile(r"```(\w+)\n(.*?)```\n|((?:^    [^\n]+\n)+)", re.DOTALL | re.MULTILINE)


def code(page: Path) -> list[tuple[str, str]]:
    """Kind and text of the blocks on a page, without the comments, which are in its language."""
    return [(kind, re.sub(r" +# [^\n]*", "", text or indented)) for kind, text, indented in CODE.findall(text_of(page))]


def links(page: Path) -> set[str]:
    """What a page points to, by its path; the other language stands at the top of each."""
    body = text_of(page).split("\n", 4)[-1]
    return {re.sub(r"#.*", "", target) for target in re.findall(r"\]\(([^)]+)\)", body)}


def test_both_languages_have_the_same_parts_commands_and_links() -> None:
    ours, theirs = ([len(marks) for marks in re.findall(r"^(#+) ", text_of(page), re.MULTILINE)] for page in READMES)
    assert ours == theirs
    assert code(READMES[0]) == code(READMES[1])
    assert len(code(READMES[0])) > 8
    assert links(READMES[0]) == links(READMES[1])
    assert "README.zh-CN.md" in text_of(READMES[0]).split("\n")[2]
    assert "README.md" in text_of(READMES[1]).split("\n")[2]


def test_both_languages_name_the_same_options_and_files() -> None:
    ours, theirs = (set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text_of(page))) for page in READMES)
    assert ours == theirs


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_readme_names_every_exit_code(page: Path) -> None:
    codes = re.findall(r"^\| (\d+) \|", text_of(page), re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "70", "130"]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_an_answer_stands_on_the_first_screen(page: Path) -> None:
    before, _, rest = text_of(page).partition("```console\n")
    assert len(before.splitlines()) + len(rest.split("```")[0].splitlines()) <= 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for name, part in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text_of(page)):
        target = page.parent / name if name else page
        assert target.is_file(), name
        assert not part or part in anchors(target), (name, part)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
