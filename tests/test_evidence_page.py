"""docs/evidence.md: how it is written from records, and what stands on the committed one."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
evidence: Any = importlib.import_module("evidence")
records: Any = importlib.import_module("records")

PAGE = ROOT / records.PAGE
SETTING = records.Setting(
    "2026-11-30 18:00", "python scripts/bench.py", "0123456789ab", True, "a processor, 2 cores", "Python 3.11", "1", 0.2
)
FIGURES = [
    records.Figure("fast | enough", "1.0 s", "2 s", True),
    records.Figure("too *slow*", "3 s\n(of 4)", "2 s", False, "see https://example.org"),
    records.Figure("no limit", "<b>7</b>"),
]
RECORD = records.Record("start-up", SETTING, 12.4, records.Told(FIGURES, ["a remark"]))


def tables(page: str) -> dict[str, list[list[str]]]:
    """Rows of the table under each heading, as a reader of Markdown sees them."""
    found: dict[str, list[list[str]]] = {}
    heading, inside = "", ""
    for token in MarkdownIt().enable("table").parse(page):
        if token.type in ("heading_open", "tr_open", "th_open", "td_open"):
            inside = token.type
            if inside == "tr_open":
                found.setdefault(heading, []).append([])
        elif token.type == "inline":
            text = "".join(child.content for child in token.children or [])
            if inside == "heading_open":
                heading = text
            elif inside in ("th_open", "td_open"):
                found[heading][-1].append(text)
        elif token.type.endswith("_close"):
            inside = ""
    return found


def test_a_record_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    records.keep(tmp_path, RECORD)
    assert records.read(tmp_path / "start-up.json") == RECORD


def test_the_page_shows_each_figure_as_it_was_recorded() -> None:
    rows = tables(evidence.page({"start-up": RECORD}, {}))["start-up"]
    assert rows[0] == ["", "figure", "limit", "reached", "note"]
    assert rows[1:] == [
        ["fast | enough", "1.0 s", "2 s", "reached", ""],
        ["too *slow*", "3 s (of 4)", "2 s", "MISSED", "see https://example.org"],
        ["no limit", "<b>7</b>", "", "", ""],
    ]


def test_the_page_names_what_falls_short_first() -> None:
    before, _, _ = evidence.page({"start-up": RECORD}, {}).partition("## start-up")
    assert f"1 of {len(evidence.PARTS)} parts was run here; of their figures 1 falls short of its limit:" in before
    assert "too \\*slow\\*: 3 s (of 4)" in before
    good = RECORD._replace(told=records.Told(FIGURES[:1]))
    assert "of their figures none falls short of its limit." in evidence.page({"start-up": good}, {})
    both = evidence.page({"start-up": RECORD, "gate": RECORD._replace(part="gate")}, {})
    assert f"2 of {len(evidence.PARTS)} parts were run here; of their figures 2 fall short of their limits:" in both


def test_the_parts_that_were_run_stand_first() -> None:
    page = evidence.page({"gate": RECORD._replace(part="gate"), "memory": RECORD._replace(part="memory")}, {})
    names = [part.name for part in evidence.PARTS]
    headings = re.findall(r"^## (\S+)$", page, re.MULTILINE)
    assert headings == ["gate", "memory", *(name for name in names if name not in ("gate", "memory"))]
    assert "The parts that were not run stand last" in page
    every = evidence.page({name: RECORD._replace(part=name) for name in names}, {})
    assert "stand last" not in every


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "revision 0123456789ab; 12 s."),
        ({"clean": False}, "revision 0123456789ab with changes;"),
        ({"revision": ""}, "no checkout;"),
        ({"threads": "", "load": None}, "UTC, machine A; revision"),
    ],
)
def test_the_page_says_what_state_was_measured(change: dict[str, Any], said: str) -> None:
    record = RECORD._replace(setting=SETTING._replace(**change))
    assert said in evidence.page({"start-up": record}, {})


def test_two_machines_are_told_apart() -> None:
    other = RECORD._replace(part="gate", setting=SETTING._replace(machine="another"))
    page = evidence.page({"start-up": RECORD, "gate": other}, {})
    assert "Machine A: a processor, 2 cores; Python 3.11." in page
    assert "Machine B: another; Python 3.11." in page
    assert re.search(r"## gate\n.*machine B", page, re.DOTALL)


def test_a_part_that_was_not_run_says_why() -> None:
    page = evidence.page({}, {"served": "it needs vLLM, and that was not there"})
    assert "Not run: it needs vLLM, and that was not there." in page
    assert "Not run: no run on this machine has taken it in yet; the command above does." in page
    assert page.count("Not run: ") == len(evidence.PARTS)


def test_a_part_that_lacks_something_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    part = next(part for part in evidence.PARTS if part.name == "served")
    reason = evidence.missing(part, tmp_path)
    assert reason.startswith("it needs vLLM for CPUs, which `make eval-served` installs")
    assert reason.endswith(", and that was not there")
    assert evidence.missing(evidence.PARTS[0], tmp_path) == ""


def test_parts_of_one_timed_script_share_a_process() -> None:
    chosen = [part for part in evidence.PARTS if part.name in ("cost", "choice", "gate", "exactness")]
    alone, beside = evidence.commands(chosen, Path("engines"))
    assert alone == [["bench_probe.py", "cost", "choice"]]
    assert beside == [["bench_probe.py", "exactness"], ["evaluate_gate.py"]]


def test_every_part_has_a_script() -> None:
    for part in evidence.PARTS:
        assert (ROOT / "scripts" / part.words.split()[0]).is_file()
    assert len({part.name for part in evidence.PARTS}) == len(evidence.PARTS)


def test_paths_of_the_machine_are_not_kept(tmp_path: Path) -> None:
    figure = records.Figure("x", f"exit 3: {records.ROOT}/build/eval-served/1.json")
    records.keep(tmp_path, RECORD._replace(told=records.Told([figure])))
    assert records.read(tmp_path / "start-up.json").told.figures[0].seen == "exit 3: build/eval-served/1.json"


def test_every_figure_of_the_committed_page_has_a_command_of_the_makefile() -> None:
    page, makefile = PAGE.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    found = tables(page)
    assert set(found) <= set(sections)
    for part in evidence.PARTS:
        command = re.search(r"^    make (\S+) PARTS=(\S+)$", sections[part.name], re.MULTILINE)
        assert command is not None
        assert re.search(rf"^{command[1]}:", makefile, re.MULTILINE)
        assert command[2] == part.name
        ran = part.name in found
        assert ran != ("Not run: " in sections[part.name])
        assert not ran or len(found[part.name]) > 1
    shorter = sum(row[3] == "MISSED" for rows in found.values() for row in rows)
    short = {0: "(none|No figure) falls", 1: "1 falls"}.get(shorter, f"{shorter} fall")
    assert re.search(f"{short} short of", page)
