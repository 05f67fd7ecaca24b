"""What the rules check, for a person to read."""

from __future__ import annotations

from difflib import get_close_matches

from draftpick.choices import WEIGHTS, choices_of
from draftpick.errors import UsageError
from draftpick.report.layout import Grid, Line, draw
from draftpick.rules import RULES, load


def all_rules(*, width: int | None, color: bool) -> str:
    """A line for each rule, by family."""
    load()
    rows = [[name, one.family, f"{WEIGHTS.get(name, 1):g}", one.title] for name, one in RULES.items()]
    grid = Grid(("rule", "about", "weight", "what it asks"), rows, right=frozenset({2}), wraps=frozenset({3}))
    more = Line("`draftpick rules NAME` tells why a rule is there and what to do about it.")
    return draw([grid, Line(""), more], width=width, color=color)


def one_rule(name: str, *, width: int | None, color: bool) -> str:
    """The documentation of a rule, its weight and its limits with their reasons."""
    load()
    if name not in RULES:
        near = get_close_matches(name, RULES, n=3, cutoff=0.4)
        raise UsageError(
            f"no rule is called {name!r}",
            f"did you mean {', '.join(near)}?" if near else "`draftpick rules` lists them",
        )
    # Docstrings are cut to the width of the code; the screen has another.
    paragraphs = (" ".join(part.split()) for part in RULES[name].doc.split("\n\n"))
    said = [Line(line) for part in (*paragraphs, "Choices:") for line in ("", part)]
    numbers = [Line(f"{choice.name} = {choice.value:g}: {choice.why}", indent=2) for choice in choices_of(name)]
    return draw([Line(name, "bold"), *said, *numbers], width=width, color=color)
