"""What a report says of an advice."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import TypeVar

import pytest
from answers import DOCUMENTED, FITS, HEAD, NPU, STRICT, answer, candidate, checked, drafted, issue, paired, recommended

from draftpick.advice import Advice
from draftpick.advice_file import advice_of
from draftpick.pair import Proposal, Setting
from draftpick.probe_file import RequestRecord
from draftpick.report.advice import blocks_of
from draftpick.report.blocks import Block, Chart, Code, Curve, Paragraph, Plane, Report, Section, Table
from draftpick.report.json import document
from draftpick.report.typed import command_line, quoted

Kind = TypeVar("Kind", Chart, Code, Paragraph, Table)


def report_of(advice: Advice, **flags: bool) -> Report:
    return blocks_of(advice_of(document(advice)), **flags)


def blocks(report: Report) -> Iterator[tuple[Section, Block]]:
    for section in report.sections:
        for block in section.blocks:
            yield section, block


def all_of(report: Report, kind: type[Kind]) -> list[Kind]:
    return [block for _, block in blocks(report) if isinstance(block, kind)]


def texts(report: Report) -> str:
    """All that stands in tables and paragraphs, for seeing whether something is said."""
    said: list[str] = []
    for _, block in blocks(report):
        table = block.table if isinstance(block, Chart) else block
        if isinstance(table, Table):
            said += [cell for row in table.rows for cell in row]
        elif isinstance(table, Paragraph):
            said.append(table.text)
    return "\n".join(said)


@pytest.mark.parametrize("name", [*DOCUMENTED])
def test_the_decision_comes_first(name: str) -> None:
    advice = DOCUMENTED[name]()
    first = report_of(advice).sections[0].blocks[0]
    assert first == Paragraph(advice.decision.sentence, "decision")


@pytest.mark.parametrize("name", [*DOCUMENTED])
def test_tables_are_rectangles(name: str) -> None:
    report = report_of(DOCUMENTED[name](), explain=True)
    for table in [*all_of(report, Table), *(chart.table for chart in all_of(report, Chart))]:
        assert {len(row) for row in table.rows} <= {len(table.header)}
        assert table.numeric <= set(range(len(table.header)))


def test_no_candidate_disappears() -> None:
    found = [
        candidate(drafted(f"maker/Toy-2-{number}B", number), score=90 - number, speedup=1.2) for number in range(1, 21)
    ]
    for advice in (recommended(), answer(*found)):
        for everything in (False, True):
            said = texts(report_of(advice, everything=everything))
            assert [one.proposal.label for one in advice.assessments if one.proposal.label not in said] == []


def test_what_was_left_out_is_counted_and_has_its_reason() -> None:
    report = report_of(recommended())
    said = texts(report)
    assert "12 another vocabulary, 3 not smaller than the target" in said
    (left_out,) = [section for section in report.sections if "do not fit" in section.title]
    assert left_out.folded
    assert isinstance(left_out.blocks[0], Table)
    assert [row[0] for row in left_out.blocks[0].rows] == [
        "maker/Toy-2-0.5B",
        "maker/Toy-3-1B, maker/Toy-3-7B",
    ]


def test_the_curve_is_that_of_the_first_draft() -> None:
    advice = advice_of(document(recommended()))
    (chart,) = [one for one in all_of(blocks_of(advice), Chart) if isinstance(one.data, Curve)]
    rows = advice.candidates[0].plan.by_k or []
    assert isinstance(chart.data, Curve)
    assert (chart.data.ks, chart.data.value, chart.data.chosen) == ([0, 1, 2], [row.speedup for row in rows], 2)
    assert [row[0] for row in chart.table.rows] == ["0", "1", "2 ◀"]


def test_drafts_are_compared_where_there_are_several() -> None:
    planes = [one.data for one in all_of(report_of(recommended()), Chart) if isinstance(one.data, Plane)]
    assert [[point.label for point in plane.points] for plane in planes] == [
        ["Toy-2-7B-Instruct", "Toy-2-35B-Instruct"]
    ]
    assert [point.chosen for point in planes[0].points] == [True, False]
    assert not [one for one in all_of(report_of(paired(1.62)), Chart) if isinstance(one.data, Plane)]


def test_nothing_is_chosen_where_the_answer_is_no() -> None:
    found = [candidate(drafted(f"maker/Toy-2-{number}B", number), speedup=0.8) for number in (7, 35)]
    advice = answer(*found)
    assert advice.decision.action != "speculate"
    (curve,) = [one.data for one in all_of(report_of(advice), Chart) if isinstance(one.data, Curve)]
    assert curve.chosen == 0


def test_two_names_that_end_alike_keep_their_makers() -> None:
    found = [candidate(drafted(f"{maker}/Toy-2-7B", 7), speedup=1.2) for maker in ("one", "other")]
    (plane,) = [one.data for one in all_of(report_of(answer(*found)), Chart) if isinstance(one.data, Plane)]
    assert {point.label for point in plane.points} == {"one/Toy-2-7B", "other/Toy-2-7B"}


def test_what_speaks_against_it_is_in_sight_and_all_findings_are_there() -> None:
    report = report_of(checked())
    against = next(section for section in report.sections if section.title.startswith("What speaks against"))
    others = next(section for section in report.sections if "other findings" in section.title)
    assert (against.folded, others.folded) == (False, True)
    found = [row for section in (against, others) for row in section.blocks[0].rows]  # type: ignore[union-attr]
    assert sorted(row[1] for row in found) == sorted(one.rule for one in checked().assessments[0].findings)
    assert any("(ignored: for tests)" in row[2] for row in found)


def test_every_finding_about_every_draft_is_there_where_it_is_asked_for() -> None:
    (others,) = [one for one in report_of(recommended(), explain=True).sections if one.title.startswith("All findings")]
    assert others.folded
    found = {block.title: len(block.rows) for block in others.blocks if isinstance(block, Table)}
    assert found == {
        one.proposal.label + (" (eagle3, made for maker/Toy-2-70B)" if one.proposal.head else ""): len(one.findings)
        for one in recommended().assessments[1:]
        if one.findings
    }


def test_a_head_says_what_it_was_made_for() -> None:
    found = candidate(Proposal("eagle3", "catalogue", head=HEAD), FITS, setting=Setting(engine=STRICT, device=NPU))
    said = texts(report_of(answer(found, command="check")))
    assert "someone/EAGLE3-Toy-2-70B, eagle3, made for maker/Toy-2-70B-Instruct" in said


def test_doubts_are_warnings() -> None:
    report = report_of(paired(1.62))
    (doubts,) = [section for section in report.sections if section.title == "Open doubts"]
    assert Paragraph("A drafted token is launch-bound.", "warning") in doubts.blocks
    assert all(isinstance(block, Paragraph) and block.kind == "warning" for block in doubts.blocks)


def test_a_report_has_no_clock() -> None:
    assert report_of(recommended(), explain=True) == report_of(recommended(), explain=True)


# ---------------------------------------------------------------------- how to repeat it


def test_a_switch_that_was_turned_off_is_turned_off_again() -> None:
    request = RequestRecord(command="recommend", target="a/b", options={"offline": False, "images": False})
    assert command_line(request) == "draftpick recommend a/b --online --no-images"


def test_what_begins_with_a_dash_is_no_option() -> None:
    request = RequestRecord(command="check", target="-x", drafts=["y"], options={"ignore": ["-a=b"], "all": True})
    assert command_line(request) == "draftpick check --ignore=-a=b --all -- -x y"


NASTY = [
    "a b",
    "$(touch x)",
    "`id`",
    "a'b",
    'a"b',
    "a;b|c&d",
    "*?[",
    "~",
    "!x",
    "\\",
    "é",
    "机",
    "two\nlines",
    "\x1b[31m'\\",
]


@pytest.mark.parametrize("word", [*NASTY, "\u202eabc", "#x", "", "\udcff"])
def test_a_shell_reads_the_word_that_was_meant(word: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    done = subprocess.run([bash, "-c", f"printf %s {quoted(word)}"], capture_output=True, check=True)
    assert done.stdout == word.encode("utf-8", "surrogateescape")
    assert quoted(word).isprintable()


def test_known_issues_are_one_row_each_with_their_drafts() -> None:
    rows = [issue("one"), issue("two", kind="zero_acceptance")]
    found = [
        candidate(drafted("maker/Toy-2-7B", 7), score=90, issues=rows),
        candidate(drafted("maker/Toy-2-8B", 8), score=80, issues=rows[:1]),
    ]
    section = next(one for one in report_of(answer(*found)).sections if one.title == "Known troubles")
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["maker/Toy-2-7B", "maker/Toy-2-7B, maker/Toy-2-8B"]
    assert table.rows[0][2:] == ("zero acceptance", "Two is slow: do less.", "https://example.org/two")
    assert not any(one.title == "Known troubles" for one in report_of(recommended()).sections)
