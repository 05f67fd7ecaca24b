"""SARIF against the schema of the standard, and what viewers of it rely on beyond that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from gate_results import FINE, MIXED, NAMES, NOTED, RATE, pair, result, results
from hypothesis import given
from jsonschema import Draft4Validator

from draftpick.gate_file import GateFile
from draftpick.report import sarif
from draftpick.report.text import printable

SCHEMA = Draft4Validator(
    json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
)


def read(gate: GateFile) -> dict[str, Any]:
    document = json.loads(sarif.render(gate))
    SCHEMA.validate(document)
    (run,) = document["runs"]
    found: dict[str, Any] = run
    return found


def test_every_check_is_a_rule_with_help() -> None:
    rules = read(MIXED)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(NAMES)
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"].endswith(".") for rule in rules)


def test_a_result_names_its_rule_level_and_place() -> None:
    run = read(MIXED)
    found = next(one for one in run["results"] if one["ruleId"] == "acceptance_rate")
    assert run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "acceptance_rate"
    assert found["level"] == "error"
    assert found["message"]["text"] == ("code: The lower bound 0.702 of the acceptance rate 0.731 lies below 0.75.")
    (location,) = found["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "ci/pairs.toml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 12},
    }
    assert "suppressions" not in found


def test_what_passed_is_no_result_and_what_was_waived_is_suppressed() -> None:
    found = {(one["ruleId"], one["level"], one["properties"]["status"]): one for one in read(MIXED)["results"]}
    assert list(found) == [
        ("acceptance_rate", "error", "failed"),
        ("memory", "warning", "waived"),
        ("num_spec_tokens", "note", "noted"),
        ("evidence", "error", "stale"),
    ]
    (suppression,) = found["memory", "warning", "waived"]["suppressions"]
    assert (suppression["kind"], suppression["status"]) == ("external", "accepted")
    assert suppression["justification"] == "the second card arrives in January. Until 2027-01-31."


def test_a_fingerprint_outlives_a_move_within_the_file() -> None:
    def fingerprints(gate: GateFile) -> list[str]:
        return [one["partialFingerprints"]["draftpick/v1"] for one in read(gate)["results"]]

    before = fingerprints(result([pair("a", [RATE], line=3), pair("b", [RATE], line=9)]))
    after = fingerprints(result([pair("c", [FINE]), pair("b", [RATE], line=40), pair("a", [RATE], line=50)]))
    assert before == after[::-1]
    assert len(set(before)) == 2


def test_two_notes_about_one_check_are_two_results() -> None:
    found = read(result([pair("a", [NOTED, NOTED.model_copy(update={"reason": "another note"})])]))["results"]
    assert len({one["partialFingerprints"]["draftpick/v1"] for one in found}) == 2


@pytest.mark.parametrize(
    ("policy", "location"),
    [
        ("pairs.toml", {"uri": "pairs.toml", "uriBaseId": "%SRCROOT%"}),
        ("./ci/my pairs.toml", {"uri": "ci/my%20pairs.toml", "uriBaseId": "%SRCROOT%"}),
        ("../a:b#c.toml", {"uri": "../a%3Ab%23c.toml", "uriBaseId": "%SRCROOT%"}),
        ("/srv/ci/päirs.toml", {"uri": "file:///srv/ci/p%C3%A4irs.toml"}),
    ],
)
def test_the_place_is_a_reference_that_others_resolve(policy: str, location: dict[str, str]) -> None:
    (found,) = read(result([pair("a", [RATE])], policy=policy))["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"] == location


@given(results)
def test_hostile_texts_stay_texts(gate: GateFile) -> None:
    run = read(gate)
    told = [(pair, check) for pair in gate.pairs for check in pair.checks if check.status != "passed"]
    assert len(told) == len(run["results"])
    for (pair_result, check), found in zip(told, run["results"], strict=True):
        message = found["message"]["text"]
        assert found["ruleId"] == check.name
        assert printable(message) == message
        assert "](" not in message
        assert not re.search("[{}]", re.sub(r"\{\{|\}\}", "", message))
        plain = printable(f"{pair_result.name}: {check.reason}").replace("](", "] (")
        assert message.replace("{{", "{").replace("}}", "}").startswith(plain)
        uri = found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii()
        assert unquote(urlsplit(uri).path, errors="surrogatepass").endswith(Path(gate.policy).name)
