"""Memory estimates against what engines logged and publishers stated, row by row of memory_figures.csv."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from draftpick.catalog import load

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
evaluate_memory: Any = importlib.import_module("evaluate_memory")

ROWS = evaluate_memory.read()
CATALOG = load()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.kind}-{row.model}-{row.engine}" for row in ROWS])
def test_an_estimate_is_as_near_as_the_page_says(row: Any) -> None:
    assert abs(evaluate_memory.error(row, CATALOG)) <= evaluate_memory.LIMITS[row.kind]


def test_every_row_has_a_source_and_a_date() -> None:
    assert all(row.source.startswith("https://") and row.date.startswith("20") and row.note for row in ROWS)
    assert {row.kind for row in ROWS} == set(evaluate_memory.LIMITS)
