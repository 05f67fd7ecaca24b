"""Every page of the documentation: its commands print what it says, its options exist, its links lead somewhere.

Console blocks run in their order, in one folder for a page, with `catalog`, `ci` and `tests` of the clone beside them.
A comment before a block says more: `<!-- exit 1 -->`, `<!-- numbers differ -->` (words alone are compared),
`<!-- not run here: why -->`. UPDATE_DOCUMENTS=1 writes the outputs anew.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from pages import (
    ROOT,
    Machine,
    Step,
    all_pages,
    as_shown,
    blocks,
    headings,
    links,
    name_of,
    steps,
    typed,
    without_numbers,
)

from draftpick.cli import application

PAGES = all_pages()
ELSEWHERE = {
    "docs/ascend.md": "test_ascend_page.py",
    "docs/ascend.zh.md": "test_ascend_page.py",
    "docs/launch.md": "test_launch_page.py",
    "docs/observe.md": "test_observe.py",
    "docs/served.md": "test_served_page.py",
    "docs/source-article.md": "test_source_article.py",
}
"""Pages whose console blocks have a test of their own."""
NOT_RUN = {
    ("docs/doctor.md", "draftpick doctor --offline --quiet"),
}
"""Steps of the other pages that need what is not here; the page says what, in a comment before the block."""
RECORDED = {
    (name, "draftpick probe catalog/demo/target catalog/demo/draft --prompts catalog/demo/prompts.jsonl -o probe.json")
    for name in ("README.md", "README.zh-CN.md")
}
"""Measurements that were recorded once, in blocks of text: they take long, or differ from run to run."""
FOLLOWED = [page for page in PAGES if steps(page) and name_of(page) not in ELSEWHERE]
TODAY = "2026-11-30"


def by_name(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=name_of)


# ---------------------------------------------------------------------- what pages show is what is printed


def reason_not_to_run(step: Step) -> str | None:
    return next((mark.partition(": ")[2] for mark in step.marks if mark.startswith("not run here: ")), None)


def printed(step: Step, machine: Machine) -> str:
    """What a step prints, as far as its page shows it, on the page's own day."""
    code, text = machine.run(step.command)
    wanted = next((int(mark.split()[1]) for mark in step.marks if mark.startswith("exit ")), 0)
    assert code == wanted, (step.command, text)
    shown = as_shown(text, step.output, without_numbers if "numbers differ" in step.marks else str)
    return re.sub(r"\b20\d\d-\d\d-\d\d(?=[;.,]|$)", TODAY, shown, flags=re.MULTILINE)


@by_name(FOLLOWED)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for step in steps(page):
        if reason_not_to_run(step) is not None:
            continue
        found = printed(step, machine)
        if "UPDATE_DOCUMENTS" in os.environ:
            before = page.read_text(encoding="utf-8")
            line = f"$ {step.command}\n"
            page.write_text(before.replace(line + step.output, line + found, 1), encoding="utf-8")
        elif "numbers differ" in step.marks:
            assert without_numbers(found) == without_numbers(step.output), step.command
        else:
            assert found == step.output, step.command


def test_what_is_not_run_is_known_and_says_why() -> None:
    left_out = {(name_of(page), step.command) for page in FOLLOWED for step in steps(page) if reason_not_to_run(step)}
    assert left_out == NOT_RUN


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_the_other_pages_are_followed_by_a_test_of_their_own(page: str, test: str) -> None:
    assert steps(ROOT / page)
    source = (ROOT / "tests" / test).read_text(encoding="utf-8")
    if "walk_served" in source:
        source += (ROOT / "scripts" / "walk_served.py").read_text(encoding="utf-8")
    assert Path(page).name in source


def test_what_is_recorded_is_known() -> None:
    text = ((page, block.text) for page in PAGES for block in blocks(page) if block.language != "console")
    typed_there = {(name_of(page), line[2:]) for page, lines in text for line in lines.splitlines() if line[:2] == "$ "}
    assert typed_there == RECORDED


def test_every_console_block_is_read_as_steps() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                assert block.text.startswith("$ "), (name_of(page), block.text[:60])


# ---------------------------------------------------------------------- what pages tell to type exists


def fault(line: str) -> str | None:
    """What the command line would say against a line, missing arguments and values aside; None if nothing."""
    words = shlex.split(re.split(r"\s(?:\||>|&&|;|2>|<|#)(?:\s|$)|\s#", line, maxsplit=1)[0])[1:]
    words = [word.strip("[]") for word in words if word not in ("...", "[OPTIONS]")]
    command: Any = typer.main.get_command(application())
    while hasattr(command, "resolve_command"):
        if not words or words[0].startswith("-"):
            known = {name for one in command.params for name in one.opts} | {"--help"}
            return next((f"no option {word}" for word in words if word not in known), None)
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    try:
        command.make_context(None, [word for word in words if word != "--help"])
    except Exception as error:  # typer brings its own click or uses another: their errors share names alone
        left_out = type(error).__name__ in ("MissingParameter", "BadOptionUsage")
        return None if left_out else f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("draftpick plan --acceptance-rate 0.65 --draft-cost 0.05 -k 5", False),
        ("draftpick recommend TARGET --json -o advice.json && draftpick report advice.json", False),
        ("draftpick catalog list --kind devices | head", False),
        ("draftpick launch", False),
        ("draftpick --version", False),
        ("draftpick recommend TARGET --no-such-option", True),
        ("draftpick plan --acceptance-rate much", True),
        ("draftpick report advice.json --format pdf", True),
        ("draftpick catalog lst", True),
        ("draftpick suggest TARGET", True),
        ("draftpick --verbose", True),
    ],
)
def test_a_line_that_cannot_be_typed_is_noticed(line: str, wrong: bool) -> None:
    assert (fault(line) is not None) == wrong


def is_pattern(line: str) -> bool:
    """A line about lines: `draftpick catalog list|show`, or one whose words stand for others."""
    return bool(re.search(r"\w\|\w|<\w+>|COMMAND|\{\{?|\$\{", line))


@by_name(PAGES)
def test_no_page_names_a_command_or_an_option_that_does_not_exist(page: Path) -> None:
    wrong = {line: said for line in typed(page) if not is_pattern(line) and (said := fault(line))}
    assert wrong == {}


def test_commands_are_found_on_pages() -> None:
    assert sum(1 for page in PAGES for _ in typed(page)) > 150


# ---------------------------------------------------------------------- links, as GitHub sees them


def anchors(page: Path) -> Iterator[str]:
    """The anchors that GitHub gives the titles of a page."""
    seen: dict[str, int] = {}
    for title in headings(page):
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        yield f"{anchor}-{number}" if number else anchor


@by_name(PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []
