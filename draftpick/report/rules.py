"""What the rules check, for a person to read."""

from __future__ import annotations

from difflib import get_close_matches
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftpick.choices import WEIGHTS, choices_of
from draftpick.errors import UsageError
from draftpick.rules import RULES, load


def all_rules(*, width: int | None, color: bool) -> str:
    """A line for each rule, by family."""
    load()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("about", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("what it asks", overflow="fold")
    for name, one in RULES.items():
        table.add_row(name, one.family, f"{WEIGHTS.get(name, 1):g}", one.title)
    return _text(table, width, color) + "\n`draftpick rules NAME` tells why a rule is there and what to do about it.\n"


def one_rule(name: str, *, width: int | None, color: bool) -> str:
    """The documentation of a rule, its weight and its limits with their reasons."""
    load()
    if name not in RULES:
        near = get_close_matches(name, RULES, n=3, cutoff=0.4)
        raise UsageError(
            f"no rule is called {name!r}",
            f"did you mean {', '.join(near)}?" if near else "`draftpick rules` lists them",
        )
    lines = [RULES[name].doc, "", "Choices:"]
    lines += [f"  {choice.name} = {choice.value:g}: {choice.why}" for choice in choices_of(name)]
    return _text(Text(f"{name}\n", style="bold"), width, color) + "\n".join(lines) + "\n"


def _text(part: Table | Text, width: int | None, color: bool) -> str:
    buffer = StringIO()
    Console(
        file=buffer, width=width or 100_000, force_terminal=color, highlight=False, markup=False, emoji=False
    ).print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))
