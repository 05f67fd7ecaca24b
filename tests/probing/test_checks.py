"""What a probe checks itself by: texts that part at a near-tie are forgiven, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from draftpick.probing.checks import Check, replay_against
from draftpick.probing.timing import Repeats, Run
from draftpick.probing.trace import DraftColumns, Row

NEAR = 0.1


def row(gap: list[float] | None = None) -> Row:
    """A draft that is right at every other token, as transformers drafts: the first token too."""
    tokens = [5, 6, 7, 8, 9]
    columns = DraftColumns([5, 0, 7, 0, 9], [0.5] * 5)
    return Row("p", "", "", "", 0.0, [3], tokens, "length", [-1.0] * 5, gap, {"draft": columns})


def checked(gap: list[float] | None, tokens: list[int], steps: int) -> Check:
    (check,) = replay_against("draft", [row(gap)], {1: Repeats([[Run(tokens, 1.0, steps, 3)]])}, 5, NEAR)
    return check


@pytest.mark.parametrize(
    ("gap", "tokens", "steps", "passed", "said"),
    [
        ([1.0] * 5, [5, 6, 7, 8, 9], 3, True, "p, k = 1: 3 steps, replayed 3"),
        ([1.0] * 5, [5, 6, 7, 8, 9], 4, False, "p, k = 1: 4 steps, replayed 3"),
        ([1.0, 0.05, 1.0, 1.0, 1.0], [5, 4, 4, 4, 4], 4, True, "part at token 2, where"),
        ([1.0, 0.15, 1.0, 1.0, 1.0], [5, 4, 4, 4, 4], 4, False, "lie 0.1500 apart"),
        ([0.05, 1.0, 1.0, 1.0, 1.0], [5, 4, 4, 4, 4], 4, False, "part at token 2, where"),
        ([0.05] * 5, [5, 6, 7, 8, 9, 10], 3, False, "the texts differ in length"),
        (None, [5, 4, 4, 4, 4], 4, False, "the texts differ in length"),
    ],
    ids=["same", "other steps", "near-tie", "far", "near elsewhere", "longer", "not written here"],
)
def test_the_replay_is_held_against_a_real_run(
    gap: Any, tokens: list[int], steps: int, passed: bool, said: str
) -> None:
    check = checked(gap, tokens, steps)
    assert (check.passed, said in check.detail) == (passed, True), check.detail
