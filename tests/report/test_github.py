"""Workflow commands by their grammar, and what GitHub takes of them and of a summary."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from gate_results import MIXED, RATE, many, pair, result, results
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from draftpick.gate_file import GateFile
from draftpick.report import github
from draftpick.report.gate import sentence, severity
from draftpick.report.github import MOST_ANNOTATIONS, MOST_BYTES
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
        "it does not fit on 1 × 910b4-1; waived until 2027-01-31: the second card arrives in January"
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
            printable(check.reason),
        )
        for one in gate.pairs
        for check in one.checks
    }
    for command in commands:
        if "file" in command.properties:
            properties = command.properties
            assert (command.kind, properties["file"], properties["title"], command.message) in told


# ---------------------------------------------------------------------- the summary


def tokens(gate: GateFile) -> list[Token]:
    """A summary as Markdown reads it."""
    return MarkdownIt("commonmark").enable("table").parse(github.summary(gate))


def test_a_summary_tells_the_verdict_and_every_pair() -> None:
    text = github.summary(MIXED)
    assert text.startswith("## Draft pairs: failed\n\n**The gate failed: 2 of 4 pairs did not pass.")
    assert [line for line in text.split("\n") if line.startswith(("### ", "<details>"))] == [
        "### code: failed",
        "### long: not judged",
        "### math: passed",
        "<details><summary>chat: passed</summary>",
    ]


@given(results)
def test_hostile_texts_make_no_rows_and_no_markup(gate: GateFile) -> None:
    found = tokens(gate)
    rows = sum(token.type == "tr_open" for token in found)
    assert rows == 1 + len(gate.pairs) + sum(1 + len(one.checks) for one in gate.pairs if one.checks)
    blocks = [token.content for token in found if token.type == "html_block"]
    assert all(re.match("</?details>", block) for block in blocks)
    inline = [child for token in found for child in token.children or ()]
    assert not [child for child in inline if child.type in ("html_inline", "link_open", "image")]


@pytest.mark.parametrize("pairs", [200, 600])
def test_a_summary_is_no_larger_than_github_takes(pairs: int) -> None:
    gate = many(pairs)
    text = github.summary(gate)
    assert len(text.encode("utf-8")) <= MOST_BYTES
    listed = text.count("\n### ")
    left_out = re.findall(r"^> (\d+) pairs not listed here", text, re.MULTILINE)
    assert left_out == ([str(pairs - listed)] if listed < pairs else [])
    assert listed >= min(pairs, 250)
