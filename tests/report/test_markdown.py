"""The answer as Markdown to paste."""

from __future__ import annotations

import re

import pytest
from answers import DOCUMENTED, FITS, HEAD, TARGET, answer, candidate, checked, compare_document, drafted, recommended
from hypothesis import example, given, settings
from hypothesis import strategies as st

from draftpick.pair import Proposal
from draftpick.report.markdown import cell, render

LAW = settings(deadline=None, max_examples=80)
NASTY = st.text(st.characters() | st.sampled_from("|\\`<>&*_[]~#\x1b\n\r\u202e\u200f\u061c"), min_size=1, max_size=30)
CELLS = re.compile(r"(?<!\\)(?:\\\\)*\|")
"""A bar that divides: with an even number of backslashes in front of it."""


def rows(text: str) -> list[list[str]]:
    """The tables of a document, line by line."""
    return [CELLS.split(line)[1:-1] for line in text.split("\n") if line.startswith("|")]


def well_formed(text: str) -> bool:
    """Whether each table has as many cells in each row as in its header."""
    width = None
    for line in text.split("\n"):
        if not line.startswith("|"):
            width = None
            continue
        cells = len(CELLS.split(line)) - 2
        width = cells if width is None else width
        if cells != width or not line.endswith("|"):
            return False
    return True


@pytest.mark.parametrize("name", ["recommend-explained", *DOCUMENTED])
def test_the_whole_document(name: str) -> None:
    explained = name.endswith("explained")
    advice = DOCUMENTED[name.removesuffix("-explained")]()
    compare_document(f"{name}.md", render(advice, explain=explained, everything=explained))


def test_every_candidate_is_in_a_table() -> None:
    names = {found[1].strip() for found in rows(render(recommended()))} | {
        found[0].strip() for found in rows(render(recommended()))
    }
    for found in recommended().assessments:
        assert any(cell(found.proposal.label) in name for name in names)


def test_many_are_counted_where_they_are_not_shown() -> None:
    found = [candidate(drafted(f"maker/Toy-2-{number}B", number), score=90 - number) for number in range(1, 15)]
    assert "5 more fit less well." in render(answer(*found))
    assert "maker/Toy-2-14B" in render(answer(*found), everything=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name-1.5B", "plain name-1.5B"),
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("`code`", "\\`code\\`"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("**bold** _x_ ~~y~~", "\\*\\*bold\\*\\* \\_x\\_ \\~\\~y\\~\\~"),
        ("[text](javascript:x)", "\\[text\\](javascript:x)"),
        ("&lt;", "&amp;lt;"),
        ("\x1b[31mred", "\\\\x1b\\[31mred"),
        ("two\nlines", "two\\\\x0alines"),
        ("right\u202eleft\u200f\u061c", "right\\\\u202eleft\\\\u200f\\\\u061c"),
        ("\ud800", "\\\\ud800"),
    ],
)
def test_what_markdown_acts_on_shows_as_itself(text: str, shown: str) -> None:
    assert cell(text) == shown


@LAW
@given(NASTY, NASTY)
@example("a|b`<script>", "\x1b[31m\n| x | y |\u202e")
def test_a_table_stays_well_formed_whatever_stands_in_it(name: str, message: str) -> None:
    target = TARGET.with_changes(id=name)
    bad = (FITS[0]._replace(message=message), FITS[1]._replace(outcome="reject", message=message, rule="depth"))
    found = [
        candidate(drafted(name, 7), FITS, target=target),
        candidate(Proposal("eagle3", "given", head=HEAD._replace(id=name), via=name), bad[:1], target=target),
        candidate(drafted(name + "x", 7), bad, target=target),
    ]
    for advice in (
        answer(*found, target=target, left_out={message: 1}),
        answer(found[2], command="check", target=target),
    ):
        text = render(advice, explain=True, everything=True)
        assert well_formed(text)
        assert "<script" not in text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
        assert text.count("\n## ") == 0
        assert text.startswith("## ")


def test_headers_and_rows_have_as_many_cells() -> None:
    for advice in (recommended(), recommended(None), checked()):
        assert well_formed(render(advice, explain=True))
        assert rows(render(advice))
