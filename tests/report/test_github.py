"""Workflow commands by their grammar, and what GitHub takes of them and of a summary."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from gate_results import MIXED, RATE, many, pair, result, results
from hypothesis import given

from draftpick.gate_file import GateFile
from draftpick.report import github
from draftpick.report.gate import said, sentence, severity
from draftpick.report.github import MOST_ANNOTATIONS
from draftpick.report.text import printable

COMMAND = re.compile(r"::(error|warning|notice) ((?:file|line|title)=[^:,]*(?:,(?:file|line|title)=[^:,]*)*)::(.*)")
ESCAPES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


class Command(NamedTuple):
    kind: str
    properties: dict[str, str]
    message: str


def unescaped(text: str, known: str) -> str:
    """As the runner reads it: nothing else may follow a percent sign."""
    assert re.fullmatch(f"(?:[^%]|{known})*", text), text
    return re.sub("%[0-9A-F]{2}", lambda found: ESCAPES[found[0]], text)


def read(text: str) -> tuple[list[Command], str]:
    """The commands of a text, and its last line."""
    *lines, last = text.removesuffix("\n").split("\n")
    assert text.splitlines() == [*lines, last]
    commands = []
    for line in lines:
        found = COMMAND.fullmatch(line)
        assert found, line
        split = dict(one.split("=", 1) for one in found[2].split(","))
        properties = {name: unescaped(value, "%25|%0D|%0A|%3A|%2C") for name, value in split.items()}
        commands.append(Command(found[1], properties, unescaped(found[3], "%25|%0D|%0A")))
    return commands, last


def test_each_check_that_did_not_pass_is_told_at_the_line_of_its_pair() -> None:
    commands, last = read(github.annotations(MIXED))
    assert [(one.kind, one.properties["line"], one.properties["title"]) for one in commands] == [
        ("error", "12", "Draft pair code: acceptance_rate failed"),
        ("error", "30", "Draft pair long: evidence stale"),
        ("warning", "21", "Draft pair math: memory waived"),
        ("notice", "21", "Draft pair math: num_spec_tokens noted"),
    ]
    assert {one.properties["file"] for one in commands} == {"ci/pairs.toml"}
    assert commands[2].message == (
        "It does not fit on one 910b4-1. Waived until 2027-01-31: the second card arrives in January."
    )
    assert last == "The gate failed: 2 of 4 pairs did not pass. 1 failed check waived."


def test_a_command_is_escaped_as_the_toolkit_does() -> None:
    check = RATE.model_copy(update={"reason": "50 % off, a: b"})
    text = github.annotations(result([pair("a,b: 5%", [check])], policy="my: pairs,.toml"))
    assert text.split("\n")[0] == (
        "::error file=my%3A pairs%2C.toml,line=3,title=Draft pair a%2Cb%3A 5%25%3A acceptance_rate failed"
        "::50 %25 off, a: b"
    )


def test_a_pair_of_no_known_line_is_told_at_its_file() -> None:
    (command,), _ = read(github.annotations(result([pair("a", [RATE], line=None)])))
    assert set(command.properties) == {"file", "title"}


@pytest.mark.parametrize(("status", "kind"), [("failed", "error"), ("waived", "warning"), ("noted", "notice")])
def test_no_more_of_a_kind_than_are_shown(status: str, kind: str) -> None:
    assert len(read(github.annotations(many(1, status)))[0]) == MOST_ANNOTATIONS  # type: ignore[arg-type]
    commands, _ = read(github.annotations(many(2, status)))  # type: ignore[arg-type]
    assert [one.kind for one in commands] == [kind] * MOST_ANNOTATIONS
    assert commands[-1].message.startswith("13 more are not shown")


@given(results)
def test_hostile_texts_stay_texts(gate: GateFile) -> None:
    commands, last = read(github.annotations(gate))
    assert last == sentence(gate)
    told = {
        (
            severity(check),
            printable(gate.policy),
            printable(f"Draft pair {one.name}: {check.name} {check.status}"),
            printable(said(check)),
        )
        for one in gate.pairs
        for check in one.checks
    }
    for command in commands:
        if "file" in command.properties:
            properties = command.properties
            assert (command.kind, properties["file"], properties["title"], command.message) in told
