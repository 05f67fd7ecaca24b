"""`--help`: examples that can be typed, options whose unit and default are told, names that are never cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from commands import run
from test_pages import fault

from draftpick.cli import CATALOG_COMMANDS, COMMANDS, application

EXAMPLES = {
    **{(name,): examples for name, (_, _, examples) in COMMANDS.items()},
    **{("catalog", name): examples for name, (_, examples) in CATALOG_COMMANDS.items()},
}
NOTHING = {
    "acceptance-rate",
    "config",
    "draft-acceptance-rate",
    "draft-cost",
    "draft-url",
    "family",
    "file",
    "id",
    "ignore",
    "init",
    "mean-acceptance-length",
    "policy",
    "responses",
    "rules-file",
    "speculating-url",
    "target-url",
    "verify",
}
"""Options that mean nothing where they are not given."""


def commands() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(application())
    for name, command in group.commands.items():
        if name == "catalog":
            yield from ((f"catalog {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_examples_of_a_command_can_be_typed(words: tuple[str, ...]) -> None:
    shown = " ".join(run(*words, "--help", COLUMNS="140").stdout.split())
    assert EXAMPLES[words]
    for example in EXAMPLES[words]:
        assert f"Example: {example}" in shown
        assert example.split()[1 : 1 + len(words)] == list(words)
        assert fault(example) is None


def test_an_option_says_what_holds_without_it() -> None:
    silent = {
        (name, option.opts[0])
        for name, command in commands()
        for option in command.params
        if option.param_type_name == "option" and not option.is_flag
        if "efault: " not in option.help and not (option.show_default and option.default is not None)
        if option.opts[0].removeprefix("--") not in NOTHING
    }
    assert silent == {("observe", "--interval"), ("observe", "--costs")}


@pytest.mark.parametrize("columns", ["80", "140"])
def test_no_name_of_an_option_is_cut(columns: str) -> None:
    for name, command in commands():
        shown = run(*name.split(), "--help", COLUMNS=columns).stdout.split()
        missing = {option.opts[0] for option in command.params if option.param_type_name == "option"} - {*shown}
        assert not missing, name
