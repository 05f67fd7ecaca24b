"""docs/python.md is run like a notebook. UPDATE_DOCUMENTS=1 writes what its cells show anew."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from commands import environment

from draftpick import atomic, errors
from draftpick.probing import device

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "python.md"
CELL = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<shown>.*?)```\n", re.DOTALL)


def shown(code: str, names: dict[str, Any]) -> str:
    """What a notebook shows below a cell: what it prints, and its last expression."""
    cell = ast.parse(code)
    last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(cell, str(PAGE), "exec"), names)
        value = eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names) if last is not None else None
    if value is None:
        return printed.getvalue()
    text = value.to_string() if isinstance(value, (pd.DataFrame, pd.Series)) else repr(value)
    return f"{printed.getvalue()}{text}\n"


@pytest.mark.usefixtures("one_thread")
def test_every_cell_shows_what_stands_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "catalog").symlink_to(ROOT / "catalog")
    monkeypatch.chdir(tmp_path)
    page, names = PAGE.read_text(encoding="utf-8"), {"__name__": "page"}
    with mock.patch.dict(os.environ, environment(), clear=True):
        answers = [shown(cell["code"], names) for cell in CELL.finditer(page)]
    if "UPDATE_DOCUMENTS" in os.environ:
        rest = iter(answers)
        page = CELL.sub(lambda cell: f"```python\n{cell['code']}```\n\n```text\n{next(rest)}```\n", page)
        PAGE.write_text(page, encoding="utf-8")
    assert [cell["shown"] for cell in CELL.finditer(page)] == answers
    assert len(answers) == page.count("```python") == 13


def test_the_page_names_every_error() -> None:
    page = PAGE.read_text(encoding="utf-8")
    known = [one for module in (errors, atomic, device) for one in vars(module).values() if isinstance(one, type)]
    of_calls = {one.__name__ for one in known if issubclass(one, errors.DraftpickError)} - {"NotObservable"}
    assert {name for name in of_calls if f"`{name}`" not in page} == set()
