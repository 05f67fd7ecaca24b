"""A plan from typed-in numbers: sentence, table over k with a chart, document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftpick import __version__
from draftpick.planning import Numbers
from draftpick.report.json import NOTHING_ASKED, SCHEMA_VERSION
from draftpick.report.layout import Cell, Grid, Line, Row, draw

CHART_WIDTH = 32


def sentence(numbers: Numbers) -> str:
    """The decision in one sentence."""
    plan, row = numbers.plan, numbers.plan.drafting
    if numbers.decision.action == "speculate":
        gain = f"{plan.speedup.value:.2f}× and {plan.mean_acceptance_length:.2f} tokens per step are expected"
        return f"Speculate with num_spec_tokens = {plan.num_spec_tokens}: {gain} from the numbers given."
    best = f"num_spec_tokens = {row.k} gives {row.speedup:.2f}×" if row is not None else "nothing drafts"
    return f"Do not speculate: {best} from the numbers given."


def table(numbers: Numbers, *, width: int | None, color: bool) -> str:
    """The sentence, then a row for every k with its speed-up as a bar."""
    most = max(row.speedup for row in numbers.plan.by_k)
    rows: list[Row] = []
    for row in numbers.plan.by_k:
        chosen = row.k == numbers.plan.num_spec_tokens
        bar = "█" * max(1, round(CHART_WIDTH * row.speedup / most))
        style = "green" if row.speedup > 1 else "red" if row.speedup < 1 else "dim"
        chart = Cell(bar + (" ◀" if chosen else ""), style=f"bold {style}" if chosen else style)
        rows.append([str(row.k), f"{row.mean_acceptance_length:.2f}", f"{row.speedup:.2f}×", chart])
    grid = Grid(("k", "tokens per step", "speed-up", ""), rows, right=frozenset({0, 1, 2}))
    parts: list[Line | Grid] = [
        Line(sentence(numbers), "bold"),
        Line(""),
        grid,
        Line(""),
        Line(_fine_print(numbers), "dim"),
    ]
    return draw(parts, width=width, color=color)


def document(numbers: Numbers, request: Mapping[str, Any] = NOTHING_ASKED) -> dict[str, Any]:
    """The document as plain values, with the keys of an advice. `request` is what was typed."""
    plan = numbers.plan
    decision = {
        "action": numbers.decision.action,
        "method": None,
        "draft": None,
        "num_spec_tokens": plan.num_spec_tokens if numbers.decision.action == "speculate" else 0,
        "speedup": plan.speedup._asdict(),
        "evidence": "rule",
        "sentence": sentence(numbers),
    }
    candidate = {
        "rank": 1,
        "draft": None,
        "method": None,
        "label": "the numbers given",
        "viable": None,
        "acceptance": {"rate": numbers.rate, "low": numbers.rate, "high": numbers.rate, "source": numbers.rate_from},
        "cost": {
            "c": numbers.times.draft,
            "verify": list(numbers.times.verify),
            "overhead": numbers.times.overhead,
            "source": "as given, in plain steps of the target",
        },
        "plan": plan_values(numbers),
        "break_even_rate": numbers.break_even,
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "advice",
        "tool": {"name": "draftpick", "version": __version__},
        "command": "plan",
        "request": dict(request),
        "target": None,
        "device": None,
        "engine": None,
        "decision": decision,
        "candidates": [candidate],
    }


def plan_values(numbers: Numbers) -> dict[str, Any]:
    """A plan as plain values."""
    plan = numbers.plan
    rows: Sequence[Any] = plan.by_k
    return {
        "num_spec_tokens": plan.num_spec_tokens,
        "mean_acceptance_length": plan.mean_acceptance_length,
        "speedup": plan.speedup._asdict(),
        "by_k": [row._asdict() for row in rows],
        "schedule": [list(row) for row in plan.schedule],
    }


def _fine_print(numbers: Numbers) -> str:
    k = numbers.plan.num_spec_tokens or 1
    even = "no rate gains" if numbers.break_even is None else f"any rate above {numbers.break_even:.2f} gains"
    return (
        f"Acceptance rate {numbers.rate:.2f} {numbers.rate_from}, draft cost {numbers.times.draft:g} of a target step; "
        f"at k = {k} {even}. "
        "Tokens per step count the target's own and assume independent acceptances, which errs upward."
    )
