"""A gate's result as table, JSON and blocks, and what writing it costs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gate_results import FINE, GAIN, MIXED, NOTED, RATE, WAIVED, many, pair, result, results
from hypothesis import given
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from draftpick.gate_file import GateFile, PairResult
from draftpick.report import gate, github, junit, markdown, sarif, saved
from draftpick.report.blocks import Paragraph, Table
from draftpick.report.text import printable

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "schemas" / "gate.schema.json").read_text(encoding="utf-8"))
)
WRITERS = {
    "table": lambda found: gate.table(found, width=None, color=False),
    "narrow table": lambda found: gate.table(found, width=80, color=True),
    "json": lambda found: saved.write(found, "json"),
    "markdown": lambda found: markdown.render(gate.blocks(found)),
    "annotations": github.annotations,
    "summary": github.summary,
    "junit": junit.render,
    "sarif": sarif.render,
}


# ---------------------------------------------------------------------- the verdict


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([pair("a", [FINE, GAIN, NOTED])], "The gate passed: 1 pair and 2 checks."),
        ([pair("a", [FINE]), pair("b", [WAIVED])], "The gate passed: 2 pairs and 2 checks. 1 failed check waived."),
        ([pair("a", [FINE]), pair("b", [RATE])], "The gate failed: 1 of 2 pairs did not pass."),
        ([pair("a", [RATE], judged=False)], "The gate could not judge any of 1 pair."),
        ([pair("a", [RATE], judged=False), pair("b", [RATE])], "The gate failed: 2 of 2 pairs did not pass."),
    ],
)
def test_the_verdict_is_one_sentence(pairs: list[PairResult], said: str) -> None:
    assert gate.sentence(result(pairs)) == said


LET_PASS = {**pair("a", [RATE]).model_dump(), "passed": True, "checks": [{**RATE.model_dump(), "passed": True}]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"passed": True},
        {"pairs": [{**MIXED.pairs[1].model_dump(), "passed": True}]},
        {"pairs": [LET_PASS], "passed": True},
    ],
)
def test_a_result_that_contradicts_itself_is_none(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"and only there|cannot have passed"):
        GateFile.model_validate({**MIXED.model_dump(), **wrong})


# ---------------------------------------------------------------------- table


def test_the_table_shows_what_failed_first() -> None:
    lines = gate.table(MIXED, width=None, color=False).split("\n")
    assert lines[0] == "The gate failed: 2 of 4 pairs did not pass. 1 failed check waived."
    assert [line for line in lines if re.match("(failed|passed|not judged): ", line)] == [
        "failed: code",
        "not judged: long",
        "passed: math",
        "passed: chat",
    ]
    at = lines.index("failed: code")
    assert lines[at + 1] == "Draft acme/Small-1B for target acme/Big-70B, judged by probes/code.json."
    assert lines[at + 2] == (
        "failed  acceptance_rate  The lower bound 0.702 of the acceptance rate 0.731 lies below 0.75."
    )
    assert lines[at + 3].split() == ["passed", "findings", "No", "rule", "rejects", "the", "pair."]


def test_colours_say_what_failed_and_what_was_let_pass() -> None:
    text = gate.table(MIXED, width=100, color=True)
    assert "\x1b[31mfailed\x1b[0m" in text
    assert "\x1b[33mwaived\x1b[0m" in text
    assert "\x1b[32mpassed\x1b[0m" in text
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 100 for line in text.split("\n"))


@given(results)
def test_no_line_of_a_pipe_begins_with_a_text_of_others(found: GateFile) -> None:
    text = gate.table(found, width=None, color=False)
    lines = text.removesuffix("\n").split("\n")
    assert len(lines) == 3 + sum(3 + len(one.checks) for one in found.pairs)
    assert all(printable(line) == line for line in lines)
    own = r"The gate |failed|passed|not judged|Draft |missing|stale|doubtful|waived|noted|Policy |$"
    assert all(re.match(own, line) for line in lines)


# ---------------------------------------------------------------------- JSON and blocks


@given(results)
def test_json_reads_back_as_the_same_result(found: GateFile) -> None:
    # Two halves of a character that happen to meet are one in any JSON.
    same = GateFile.model_validate(json.loads(json.dumps(found.model_dump(mode="json"))))
    document = json.loads(saved.write(found, "json"))
    SCHEMA.validate(document)
    assert GateFile.model_validate(document) == same


def test_json_has_the_keys_that_others_build_on() -> None:
    document = json.loads(saved.write(MIXED, "json"))
    assert document["passed"] is False
    assert {"name", "passed", "checks"} <= set(document["pairs"][1])
    assert document["pairs"][1]["checks"][2] == {
        "name": "acceptance_rate",
        "status": "failed",
        "passed": False,
        "value": 0.731,
        "bound": 0.702,
        "threshold": 0.75,
        "baseline": 0.802,
        "reason": "The lower bound 0.702 of the acceptance rate 0.731 lies below 0.75.",
        "waiver": None,
    }


def test_blocks_list_all_pairs_and_fold_those_that_simply_passed() -> None:
    report = gate.blocks(MIXED)
    overview, *sections = report.sections
    assert report.title == "Draft pairs: failed"
    decision, table = overview.blocks
    assert isinstance(decision, Paragraph)
    assert decision == Paragraph(gate.sentence(MIXED), "decision")
    assert isinstance(table, Table)
    assert [row[:2] + row[4:] for row in table.rows] == [
        ["code", "failed", "acceptance_rate failed"],
        ["long", "not judged", "evidence stale"],
        ["math", "passed", "memory waived, num_spec_tokens noted"],
        ["chat", "passed", "-"],
    ]
    assert [(one.title, one.folded) for one in sections] == [
        ("code: failed", False),
        ("long: not judged", False),
        ("math: passed", False),
        ("chat: passed", True),
    ]
    checks = sections[0].blocks[1]
    assert isinstance(checks, Table)
    assert checks.rows[0][:6] == ["acceptance_rate", "failed", "0.731", "0.702", "0.75", "0.802"]


def test_blocks_say_how_many_pairs_were_left_out() -> None:
    report = gate.blocks(MIXED, most_pairs=1)
    assert [one.title for one in report.sections] == ["Verdict", "code: failed"]
    assert Paragraph("3 pairs not listed here: there is no room for more.", "warning") in report.sections[0].blocks


def test_a_passed_pair_shows_a_value_of_words() -> None:
    check = NOTED.model_copy(update={"value": "accepted"})
    table = gate.blocks(result([pair("a", [check])])).sections[1].blocks[1]
    assert isinstance(table, Table)
    assert table.rows[0][2] == "accepted"


# ---------------------------------------------------------------------- cost


@pytest.mark.parametrize("name", WRITERS)
def test_two_hundred_pairs_are_written_within_half_a_second(name: str) -> None:
    found = many(200)
    times = []
    for _ in range(3):
        begun = time.process_time()
        WRITERS[name](found)
        times.append(time.process_time() - begun)
    assert min(times) < 0.5


def test_writing_a_result_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from draftpick.gate_file import GateFile\n"
        "from draftpick.report import gate, github, junit, sarif, saved\n"
        "found = GateFile.model_validate_json(sys.stdin.read())\n"
        "for text in (saved.write(found, 'json'), gate.table(found, width=80, color=True), github.annotations(found),\n"
        "             github.summary(found), junit.render(found), sarif.render(found)):\n"
        "    assert text\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'pandas', 'numpy', 'scipy', 'matplotlib', 'jinja2'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=saved.write(MIXED, "json"), capture_output=True, text=True, check=True
    )
    assert done.stdout == "HEAVY []\n"
