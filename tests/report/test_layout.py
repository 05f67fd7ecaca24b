"""Lines and grids on screens of any width, held against rich, which draws as a terminal shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftpick.report.layout import Cell, Grid, Line, draw

LAW = settings(deadline=None, max_examples=100)
WORDS = st.lists(st.text("abc-×…é", max_size=30), max_size=12).map(" ".join)
ANY = st.lists(st.text("ab×宽字😀é", max_size=30), max_size=12).map(" ".join)
NAMES = ("#", "draft", "speed-up (80 %)", "what matters most")


def with_rich(shown: Text | Table, width: int) -> list[str]:
    buffer = StringIO()
    Console(file=buffer, width=width, highlight=False, color_system=None).print(shown)
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


def drawn(part: Line | Grid, width: int | None) -> list[str]:
    return draw([part], width=width, color=False).splitlines()


@LAW
@given(ANY, st.integers(2, 90))
def test_lines_break_where_rich_breaks_them(text: str, width: int) -> None:
    assert drawn(Line(text), width) == with_rich(Text(text), width)


@LAW
@given(
    st.lists(st.tuples(*[WORDS] * 4), min_size=1, max_size=4),
    st.frozensets(st.integers(0, 3)),
    st.frozensets(st.integers(0, 3), min_size=1),
    st.integers(60, 140),
)
def test_columns_are_as_wide_as_those_of_rich(
    rows: list[tuple[str, ...]], right: frozenset[int], wraps: frozenset[int], width: int
) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(NAMES):
        justify = "right" if place in right else "left"
        table.add_column(name, justify=justify, no_wrap=place not in wraps, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    expected = with_rich(table, width)
    found = drawn(Grid(NAMES, rows, right, wraps), width)
    assert max(map(cell_len, found)) <= width
    # Where even what may not break has to shrink, rich draws beyond the screen and cuts.
    whole = sum(
        max(map(cell_len, column)) for place, column in enumerate(zip(NAMES, *rows, strict=True)) if place not in wraps
    )
    if whole + 6 + 2 * len(wraps) < width:
        assert found == expected


@LAW
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=4), st.integers(20, 140))
def test_no_line_of_a_grid_is_wider_than_the_screen(rows: list[tuple[str, ...]], width: int) -> None:
    noted = [[Cell(one, below=two), three, "7"] for one, two, three in rows]
    found = drawn(Grid(NAMES, [[*row, "1"] for row in noted], wraps=frozenset({0, 1})), width)
    assert max(map(cell_len, found)) <= width


def test_wide_characters_keep_columns_apart() -> None:
    rows = [["模型", "1"], ["e\u0301 accented", "2"], ["\N{GRINNING FACE}", "3"]]
    for width in (None, 80):
        lines = drawn(Grid(("name", "n"), rows), width)
        assert {cell_len(line[:-1]) for line in lines} == {12}


def test_styles_are_those_of_a_terminal() -> None:
    grid = Grid(("k", "gain"), [["1", Cell("2×", "bold green")]])
    text = draw([Line("all", "dim"), grid], width=80, color=True)
    assert text == "\x1b[2mall\x1b[0m\n\x1b[1mk\x1b[0m  \x1b[1mgain\x1b[0m\n1  \x1b[1;32m2×\x1b[0m\n"


@pytest.mark.parametrize("text", [" " * 50_000, "a " * 20_000, "a" * 50_000], ids=["blanks", "words", "word"])
def test_long_texts_break_at_once(text: str) -> None:
    assert max(map(len, drawn(Line(text), 80))) <= 80


def test_an_ordinary_answer_does_without_rich() -> None:
    script = (
        "import sys\n"
        "from draftpick import advice\n"
        "from draftpick.catalog import load\n"
        "from draftpick.pair import Setting\n"
        "from draftpick.report import table\n"
        "catalog = load()\n"
        "answer = advice.recommend(catalog.find('Qwen/Qwen2.5-72B-Instruct'), Setting(), catalog, catalog.find)\n"
        "print(table.render(answer, width=80, color=True))\n"
        "sys.exit('rich' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_colour_marks_stand_on_the_line_they_colour() -> None:
    text = draw([Line("word " * 40, "bold")], width=30, color=True)
    assert all(re.fullmatch(r"\x1b\[1m[a-z ]+\x1b\[0m", line) for line in text.splitlines())


def test_a_narrow_screen_does_without_the_least_important_columns() -> None:
    grid = Grid(("name", "gain", "cost"), [["n" * 20, "1.50", "0.03"]], frozenset({1, 2}), frozenset({0}), (2, 1))
    assert drawn(grid, 32)[0] == "name                  gain  cost"
    assert drawn(grid, 31)[0] == "name                  gain"
    assert drawn(grid, 25)[0] == "name"
    assert drawn(grid, None)[0] == "name                  gain  cost"
