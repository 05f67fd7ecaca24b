"""The guide for Atlas servers, in two languages, shows what is printed. UPDATE_DOCUMENTS=1 writes the output anew.

Blocks under a mark run on the stand-in for an NPU (tests/probing/fake_npu). Their numbers are not compared: times,
versions and the rounding of a CPU are no facts of the page.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from pages import ROOT, Machine, as_shown, without_numbers

from draftpick.catalog import load
from draftpick.cli import app

PAGES = [ROOT / "docs" / "ascend.md", ROOT / "docs" / "ascend.zh.md"]
BLOCK = re.compile(r"(?P<mark><!-- stand-in -->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)
STEP = re.compile(r"\$ (?P<command>[^\n]*)\n(?P<output>(?:(?!\$ )[^\n]*\n)*)")
SHELL = re.compile(r"```sh\n(.*?)```\n", re.DOTALL)
REFUSED = {"draftpick launch advice.json -k 15": 2, "draftpick gate pairs.toml": 3}
"""Commands that end so, and are shown for it."""


class Step(NamedTuple):
    command: str
    output: str
    on_stand_in: bool


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def steps(page: Path) -> list[Step]:
    return [
        Step(step["command"], step["output"], bool(block["mark"]))
        for block in BLOCK.finditer(text_of(page))
        for step in STEP.finditer(block["text"])
    ]


def shell_lines(page: Path) -> list[str]:
    """What is to be typed elsewhere, without comments."""
    lines = (line for block in SHELL.findall(text_of(page)) for line in block.splitlines())
    return [re.sub(r"\s+#.*", "", line) for line in lines]


def printed(machine: Machine, step: Step) -> str:
    """What a step prints, as far as the page shows it."""
    code, text = machine.run(step.command, on_stand_in=step.on_stand_in)
    assert code in ({REFUSED[step.command]} if step.command in REFUSED else {0, 1}), text
    return as_shown(text, step.output)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the pages")
def test_write_the_pages(machine: Machine) -> None:
    texts = {step.command: printed(machine, step) for step in steps(PAGES[0])}

    def written(block: re.Match[str]) -> str:
        text = STEP.sub(lambda step: f"$ {step['command']}\n{texts[step['command']]}", block["text"])
        return f"{block['mark'] or ''}```console\n{text}```\n"

    for page in PAGES:
        page.write_text(BLOCK.sub(written, text_of(page)), encoding="utf-8")


def test_both_languages_have_the_same_steps_and_output() -> None:
    ours, theirs = map(steps, PAGES)
    assert [step.command for step in ours] == [step.command for step in theirs]
    assert ours == theirs
    assert len(ours) == len({step.command for step in ours}) > 10
    assert shell_lines(PAGES[0]) == shell_lines(PAGES[1])


def test_the_page_shows_what_is_printed(machine: Machine) -> None:
    for step in steps(PAGES[0]):
        if not step.on_stand_in:
            assert printed(machine, step) == step.output, step.command


def test_the_page_shows_what_is_printed_on_the_stand_in(machine: Machine) -> None:
    pytest.importorskip("transformers")
    registration = pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("needs a torch that takes a device written in Python")
    followed = [step for step in steps(PAGES[0]) if step.on_stand_in]
    assert len(followed) == 3
    for step in followed:
        assert without_numbers(printed(machine, step)) == without_numbers(step.output), step.command


@pytest.mark.parametrize("line", [line for line in shell_lines(PAGES[0]) if line.startswith("draftpick ")])
def test_what_is_typed_elsewhere_has_options_that_exist(line: str) -> None:
    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    context = command.make_context("draftpick", list(words), resilient_parsing=True)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(
            name, list(words), parent=context, resilient_parsing=hasattr(command, "resolve_command")
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_catalogue(page: Path) -> None:
    text, catalog = text_of(page), load()
    rows = {(row.get("cann"), row["torch"], row["version"]): row for row in catalog.ascend_versions["torch_npu"]}
    releases = re.findall(
        r"^\| (\S+) \| ([\d.]+) \| ([\d.]+(?:post\d+)?) \| ([\d.]+)\D+([\d.]+) \|", text, re.MULTILINE
    )
    assert len(releases) == 5
    for *release, low, high in releases:
        row = rows[tuple(release)]
        assert (row.get("python_min", low), row["python_max"]) == (low, high)
    keys = re.findall(r"`((?:310p|910)[\w-]+)`", text.split("| npu-smi Name |")[1].split("\n\n")[0])
    assert len(keys) == 9
    assert {catalog.device(key).key for key in keys} == {*keys}
    ours = {key for key, issue in catalog.issues.items() if "vllm-ascend" in issue["engines"]}
    assert set(re.findall(r"^\| `(vllm-ascend-[\w-]+)`", text, re.MULTILINE)) == ours
