"""JUnit XML against the schema that Jenkins reads it by."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate_results import MIXED, check, many, pair, result, results
from hypothesis import given
from lxml import etree

from draftpick.gate_file import GateFile
from draftpick.report import junit
from draftpick.report.text import printable

SCHEMA = etree.XMLSchema(file=str(Path(__file__).parent / "schemas" / "junit-10.xsd"))


def read(found: GateFile) -> etree._Element:
    root = etree.fromstring(junit.render(found).encode("utf-8"))
    SCHEMA.assertValid(root)
    return root


def test_a_pair_is_a_suite_and_a_check_a_case() -> None:
    root = read(MIXED)
    assert [suite.get("name") for suite in root] == ["chat", "code", "math", "long"]
    cases = root.xpath("testsuite[@name='code']/testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("code", "findings"),
        ("code", "speedup"),
        ("code", "acceptance_rate"),
    ]
    assert cases[0].findtext("system-out") == "No rule rejects the pair."
    properties = {one.get("name"): one.get("value") for one in root.xpath("testsuite[@name='code']/properties/*")}
    assert properties == {
        "target": "acme/Big-70B",
        "draft": "acme/Small-1B",
        "evidence": "probes/code.json",
        "line": "12",
    }


@pytest.mark.parametrize(
    ("suite", "name", "kind", "told"),
    [
        ("code", "failure", "failed", "The lower bound 0.702 of the acceptance rate 0.731 lies below 0.75."),
        ("long", "failure", "stale", "The probe is 45 days old; 30 are allowed."),
        (
            "math",
            "skipped",
            "waived",
            "it does not fit on 1 × 910b4-1; waived until 2027-01-31: the second card arrives in January",
        ),
    ],
)
def test_what_did_not_pass_has_a_type_and_a_message(suite: str, name: str, kind: str, told: str) -> None:
    (found,) = read(MIXED).xpath(f"testsuite[@name='{suite}']/testcase/{name}")
    assert (found.get("type"), found.get("message"), found.text) == (kind, told, told)


def test_counts_are_those_of_the_cases() -> None:
    root = read(MIXED)
    sums = [(one.get("tests"), one.get("failures"), one.get("skipped")) for one in root]
    assert sums == [("2", "0", "0"), ("3", "1", "0"), ("2", "0", "1"), ("1", "1", "0")]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("8", "2", "0")
    assert len(read(many(3)).xpath("//failure")) == 33


def test_what_was_noted_about_a_check_belongs_to_its_case() -> None:
    noted = [check("evidence", reason="64 prompts"), check("evidence", "noted", "its trace is gone")]
    (suite,) = read(result([pair("a", noted)]))
    (case,) = suite.iterfind("testcase")
    assert [(told.tag, told.text) for told in case] == [
        ("system-out", "64 prompts"),
        ("system-out", "its trace is gone"),
    ]
    assert suite.get("tests") == "1"


@given(results)
def test_hostile_texts_stay_texts(found: GateFile) -> None:
    root = read(found)
    for suite, one in zip(root, found.pairs, strict=True):
        assert suite.get("name") == written(one.name)
        cases = {case.get("name"): case for case in suite.iterfind("testcase")}
        assert len(cases) == len(suite.findall("testcase")) == int(suite.get("tests"))
        for name, case in cases.items():
            checks = [each for each in one.checks if each.name == name]
            for told, each in zip(case, checks, strict=True):
                assert (told.text or "") == written(each.reason)
                assert (told.tag == "failure") == (not each.passed)
            assert not {"failure", "skipped"} <= {told.tag for told in case}
        assert sum(case.find("failure") is not None for case in cases.values()) == int(suite.get("failures"))


def written(text: str) -> str:
    return printable(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
