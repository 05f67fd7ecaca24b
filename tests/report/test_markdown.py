"""The report as Markdown to paste."""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import (
    DOCUMENTED,
    FITS,
    HEAD,
    TARGET,
    answer,
    candidate,
    checked,
    compare_document,
    drafted,
    markdown_of,
    recommended,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parsed import expected, same, shape_of

from draftpick.advice import Advice
from draftpick.advice_file import advice_of
from draftpick.pair import Proposal
from draftpick.report.advice import blocks_of
from draftpick.report.blocks import (
    Chart,
    Code,
    Curve,
    Domains,
    MemoryBars,
    Paragraph,
    Plane,
    Point,
    Positions,
    Report,
    Section,
    Table,
)
from draftpick.report.json import document
from draftpick.report.markdown import render, text

LAW = settings(deadline=None, derandomize=True, max_examples=40)
PIECES = (
    "|", "||", "\\", "\\|", "`", "```", "````", "<script>alert(1)</script>", "<b>", "</details>", "<!-- x", "-->",
    "]]>", "&lt;", "&copy;", "@user", "@org/team", "#1", "!2", "$3$", "~bug", "%v1", "&5", "GH-6", "org/repo#7",
    ":smile:", "https://evil.example/?a=b&c", "www.evil.example", "a@b.example", "[text](javascript:x)", "![i](x)",
    "[^1]", "[ref]: /u", "**bold**", "__x__", "_y_", "~~gone~~", "# heading", "## x", "- item", "1. one", "> quote",
    "---", "===", "~~~", "/close", "\n", "\r\n", "\t", "\x1b[31m", "\x00", "\u202e", "\u200f", "\u2028", "\ud800",
    "é", "😀", "机", " ", "  ", "deadbeef1234567", "<|im_end|>", "num_spec_tokens", "\\x0a", "*", "_", "[", "]", "(",
    ")", "{+", "[-", "x",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES) | st.characters(), min_size=1, max_size=8).map("".join)


def is_faithful(markdown: str, report: Report) -> bool:
    """Whether a parser finds in the document just what the blocks hold."""
    return same(shape_of(markdown), expected(report))


# ---------------------------------------------------------------------- documents


@pytest.mark.parametrize("name", ["recommend-explained", *DOCUMENTED])
def test_the_whole_document(name: str) -> None:
    explained = name.endswith("explained")
    advice = DOCUMENTED[name.removesuffix("-explained")]()
    compare_document(f"{name}.md", markdown_of(advice, explain=explained, everything=explained))


@pytest.mark.parametrize("name", [*DOCUMENTED])
def test_a_parser_reads_what_was_meant(name: str) -> None:
    found = advice_of(document(DOCUMENTED[name]()))
    report = blocks_of(found, explain=True)
    assert is_faithful(render(report), report)


def test_every_candidate_is_named() -> None:
    said = markdown_of(recommended())
    for found in recommended().assessments:
        assert text(found.proposal.label) in said


def test_many_stand_folded_behind_the_first() -> None:
    found = [candidate(drafted(f"maker/Toy-2-{number}B", number), score=90 - number) for number in range(1, 15)]
    assert "<details><summary>5 more that fit less well</summary>" in markdown_of(answer(*found))
    assert "fit less well" not in markdown_of(answer(*found), everything=True)
    for said in (markdown_of(answer(*found)), markdown_of(answer(*found), everything=True)):
        assert all(f"maker/Toy-2-{number}B " in said for number in range(1, 15))


def test_it_can_be_pasted_into_a_comment() -> None:
    found = [candidate(drafted(f"maker/Toy-2-{number}B", number), score=90, speedup=1.5) for number in range(1, 21)]
    assert len(markdown_of(answer(*found)).encode()) < 65_536, "GitHub cuts what is longer"


# ---------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("plain", "written"),
    [
        ("plain name-1.5B", "plain name-1.5B"),
        ("a|b", "a&#124;b"),
        ("a\\|b", "a\\\\&#124;b"),
        ("`code`", "\\`code\\`"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("**bold** _x_ ~~y~~", "\\*\\*bold\\*\\* \\_x\\_ `~~y~~`"),
        ("num_spec_tokens", "num_spec_tokens"),
        ("[text](javascript:x)", "\\[text\\](javascript:x)"),
        ("]]>", "\\]\\]&gt;"),
        ("&lt;", "`&lt;`"),
        ("a & b", "a &amp; b"),
        ("\x1b[31mred", "\\\\x1b\\[31mred"),
        ("two\nlines", "two\\\\x0alines"),
        ("right\u202eleft\u200f\u061c", "right\\\\u202eleft\\\\u200f\\\\u061c"),
        ("\ud800", "\\\\ud800"),
        ("see @user, then", "see `@user`, then"),
        ("org/repo#1", "`org/repo#1`"),
        ("a`@user`", "`` a`@user` ``"),
        (":smile:", "`:smile:`"),
        ("(https://a.example/x).", "`(https://a.example/x`)."),
        ("80 % of 152,064 ids at k = 3: 1.54×", "80 % of 152,064 ids at k = 3: 1.54×"),
    ],
)
def test_what_markdown_or_a_forge_acts_on_shows_as_itself(plain: str, written: str) -> None:
    assert text(plain) == written


@pytest.mark.parametrize(
    "plain",
    ["- item", "+ item", "1. one", "2) two", "# one", "> quote", "===", "---", "~~~", "```", "/close", "* x", ": x"],
)
def test_a_paragraph_begins_no_list_rule_heading_or_command(plain: str) -> None:
    for kind in ("text", "warning", "note", "decision"):
        section = Section("s", [Paragraph(plain, kind), Paragraph(plain, kind)])  # type: ignore[arg-type]
        report = Report("t", [section], plain)
        said = render(report)
        assert is_faithful(said, report)
        assert not re.search(r"^/", said, re.MULTILINE)


# ---------------------------------------------------------------------- any text


def hostile_report(word: str, other: str) -> Report:
    """A report with strangers' texts in every place that may hold one."""
    table = Table((word, "b", other), [(other, word, "1"), (word, "", other)], title=other, numeric=frozenset({2}))
    charts: list[Any] = [
        Domains([word, other], [0.5, 0.6], [0.4, 0.5], [0.6, 0.7], 0.95),
        Plane([Point(word, 0.1, 0.5, 0.4, 0.6, True), Point(other, 0.2, 0.7, 0.6, 0.8)]),
        MemoryBars([word, other], {"weights": [1.0, 2.0], other: [0.5, 0.0]}, 2.0),
        Curve([0, 1], [1.0, 1.5], [1.0, 1.2], [1.0, 1.8], 1, 0.8),
        Positions([0.5, None], [0.5, None]),
    ]
    blocks = [
        Paragraph(word, "decision"),
        Paragraph(f"{other} {word}", "warning"),
        Paragraph(f"{word} {other}", "warning"),
        Paragraph(other, "note"),
        table,
        Code(f"{word}\n{other}", "sh", title=word),
        *(Chart(word, other, chart, table) for chart in charts),
    ]
    return Report(word, [Section(other, blocks), Section(word, blocks[:6]), Section(other, blocks, folded=True)], word)


@LAW
@given(HOSTILE.filter(str.strip), HOSTILE.filter(str.strip))
@example("a|b`<script>", "\x1b[31m\n| x | y |\u202e")
@example("`` ` ```", "@a`|`b \\")
@example("\\", "x\\")
def test_whatever_stands_in_it_the_structure_and_the_cells_are_those_of_the_blocks(word: str, other: str) -> None:
    report = hostile_report(word, other)
    said = render(report)
    assert is_faithful(said, report)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", said)
    said.encode("utf-8")


@LAW
@given(HOSTILE.filter(str.strip), HOSTILE)
@example("a|b`<script>", "\x1b[31m\n| x | y |\u202e")
def test_hostile_names_and_messages_leave_the_answer_whole(name: str, message: str) -> None:
    target = TARGET.with_changes(id=name)
    bad = (FITS[0]._replace(message=message), FITS[1]._replace(outcome="reject", message=message, rule="depth"))
    found = [
        candidate(drafted(name, 7), FITS, target=target, speedup=1.4),
        candidate(drafted(f"{name}y", 6), FITS, target=target, speedup=1.3),
        candidate(Proposal("eagle3", "given", head=HEAD._replace(id=name), via=name), bad[:1], target=target),
        candidate(drafted(f"{name}x", 7), bad, target=target),
    ]
    answers: tuple[Advice, ...] = (
        answer(*found, target=target, left_out={message: 1}),
        answer(found[3], command="check", target=target),
    )
    for advice in answers:
        report = blocks_of(advice_of(document(advice)), explain=True)
        assert is_faithful(render(report), report)


def test_a_rejected_pair_has_its_reason_in_sight() -> None:
    said = markdown_of(checked())
    folded = re.sub(r"<details>.*?</details>", "", said, flags=re.DOTALL)
    assert "| reject  | tokenizer-identity | The vocabularies differ: id 7 is 'a' here and '&#124;' there. |" in folded
