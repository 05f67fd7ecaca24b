"""The answer in a terminal and in a pipe."""

from __future__ import annotations

import re

import pytest
from answers import (
    DOCUMENTED,
    FITS,
    HEAD,
    LOOSE,
    TARGET,
    WRONG,
    answer,
    candidate,
    checked,
    compare_document,
    drafted,
    issue,
    recommended,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from draftpick.advice import Advice
from draftpick.pair import Proposal, Setting
from draftpick.report import table

LAW = settings(deadline=None, max_examples=60)
HOSTILE = st.text(
    st.characters() | st.sampled_from("|`\x1b\n\r\t<>\u202e\u200f\u061c\x9b\x00"), min_size=1, max_size=40
)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def render(advice: Advice, width: int | None, color: bool = False, **options: bool) -> str:
    return table.render(advice, width=width, color=color, **options)


@pytest.mark.parametrize("width", [80, 140, None])
@pytest.mark.parametrize("name", [*DOCUMENTED])
def test_the_whole_document(name: str, width: int | None) -> None:
    advice = DOCUMENTED[name]()
    compare_document(f"{name}-{width or 'pipe'}.txt", render(advice, width))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 119, 120, 140, 200])
@pytest.mark.parametrize("options", [{}, {"explain": True}, {"everything": True}], ids=str)
def test_no_line_is_wider_than_the_terminal(width: int, options: dict[str, bool]) -> None:
    for advice in (recommended(), recommended(None), checked()):
        for color in (False, True):
            text = re.sub(r"\x1b\[[0-9;]*m", "", render(advice, width, color, **options))
            assert max(map(cell_len, text.splitlines())) <= width


def test_colours_change_nothing_else() -> None:
    plain, coloured = render(recommended(), 140), render(recommended(), 140, color=True)
    assert "\x1b" not in plain
    without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


def test_a_pipe_gets_whole_lines() -> None:
    long = "x" * 5000
    text = render(answer(candidate(drafted(f"maker/{long}", 7), FITS)), None)
    assert f"maker/{long}" in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)


def test_no_candidate_disappears() -> None:
    text = render(recommended(), None, everything=True)
    for found in recommended().assessments:
        assert found.proposal.label in text
    assert "12 another vocabulary, 3 not smaller than the target" in text


def test_many_are_counted_where_they_are_not_shown() -> None:
    found = [candidate(drafted(f"maker/Toy-2-{number}B", number), score=90 - number) for number in range(1, 15)]
    short, whole = render(answer(*found), None), render(answer(*found), None, everything=True)
    assert "5 more that fit less well" in short
    assert "maker/Toy-2-14B" not in short
    assert "maker/Toy-2-14B" in whole


def test_rejected_ones_with_one_reason_stand_together() -> None:
    text = render(recommended(), None)
    assert text.count("The vocabularies differ") == 1
    assert "maker/Toy-3-7B" in text
    assert "maker/Toy-3-1B" in text


def test_a_refusal_names_the_engines_that_take_it() -> None:
    line = next(
        line for line in render(recommended(), None).splitlines() if "1,024 embedding rows against 1,000" in line
    )
    assert "by loose)" in line
    assert "refused" in line


def test_explain_shows_every_finding() -> None:
    plain, explained = render(recommended(), None), render(recommended(), None, explain=True)
    assert "The number of layers is not known on both sides." not in plain
    assert "The number of layers is not known on both sides." in explained
    assert "(ignored: for tests)" in explained


def test_check_shows_the_worst_first_and_every_engine() -> None:
    text = render(checked(), None)
    rows = [
        line.split()[0] for line in text.splitlines() if line.split()[:1] in (["reject"], ["warn"], ["ok"], ["skip"])
    ]
    assert rows == ["reject", "warn", "warn", "ok", "skip"]
    assert "strict 2.0" in text
    assert "loose b42" in text


def test_the_engine_is_told_where_none_was_named() -> None:
    assert "no engine named" in render(recommended(None), None)
    assert "engine strict 2.0, device toy-npu" in render(recommended(), None)


def test_nothing_to_show_is_said() -> None:
    text = render(answer(setting=Setting(engine=LOOSE)), 80)
    assert "No draft is known" in text


@LAW
@given(HOSTILE, HOSTILE, st.sampled_from([None, 80, 140]), st.booleans())
def test_no_control_character_reaches_the_terminal(name: str, message: str, width: int | None, color: bool) -> None:
    bad = (FITS[0]._replace(message=message), FITS[1]._replace(outcome="reject", message=message))
    target = TARGET.with_changes(id=name)
    head = Proposal("eagle3", "given", head=HEAD._replace(id=name), via=name)
    found = [
        candidate(drafted(name, 7), target=target),
        candidate(drafted(name, 7), bad, target=target),
        candidate(head, bad[:1], target=target),
    ]
    for advice in (answer(*found, target=target), answer(found[1], command="check", target=target)):
        text = render(advice, width, color, explain=True, everything=True)
        text = re.sub(r"\x1b\[[0-9;]*m", "", text) if color else text
        assert not CONTROL.search(text)
        assert width is None or max(map(cell_len, text.splitlines())) <= width


ISSUES = [issue("one"), issue("two", kind="crash"), issue("three")]


def test_known_issues_of_the_first_are_told_and_the_rest_counted() -> None:
    found = [
        candidate(drafted("maker/Toy-2-7B", 7), score=90, issues=ISSUES),
        candidate(drafted("maker/Toy-2-8B", 8), score=80, issues=ISSUES[:1]),
        candidate(drafted("maker/Toy-2-9B", 9), score=70, issues=[issue("four")]),
    ]
    lines = render(answer(*found), None).splitlines()
    assert [line for line in lines if "known trouble" in line.lower()] == [
        "Known trouble, crash: Two is slow: do less. (https://example.org/two)",
        "Known trouble, slow: One is slow: do less. (https://example.org/one)",
        "… and 1 more known trouble (--explain shows all)",
        "Known troubles of 3: --explain shows them.",
    ]
    explained = render(answer(*found), None, explain=True)
    assert [explained.count(f"https://example.org/{key}") for key in ("one", "two", "three", "four")] == [2, 1, 1, 1]


def test_a_check_tells_all_known_issues() -> None:
    found = candidate(drafted("maker/Toy-2-7B", 7), issues=ISSUES)
    text = render(answer(found, command="check"), None)
    assert text.count("Known trouble, ") == 3


def test_a_pair_that_does_not_fit_has_no_known_issues() -> None:
    found = candidate(drafted("maker/Toy-2-7B", 7), WRONG, issues=ISSUES)
    assert "Known trouble" not in render(answer(found), None, explain=True)
