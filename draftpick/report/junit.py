"""A gate's result as JUnit XML, which every CI system shows: a suite for each pair, a case for each check."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from draftpick.gate_file import CheckResult, GateFile, PairResult
from draftpick.report.text import printable

# XML has no way to write these two, not even as references; what else it lacks is spelled out by `printable`.
_UNWRITABLE = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}


def render(result: GateFile) -> str:
    """The whole document, in the shape that Jenkins's schema holds and GitLab reads.

    A check that could not be judged is a failure of the type that its status names: missing, stale or doubtful. No
    times are stated, as none are measured.
    """
    suites = [_suite(result, pair) for pair in result.pairs]
    root = ElementTree.Element("testsuites", {"name": "draftpick gate", **_sums(suites)})
    root.extend(suites)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(result: GateFile, pair: PairResult) -> ElementTree.Element:
    # Readers know a case by its name alone: what was noted about a check belongs to its case.
    names = dict.fromkeys(check.name for check in pair.checks)
    cases = [_case(pair, [check for check in pair.checks if check.name == name]) for name in names]
    suite = ElementTree.Element(
        "testsuite",
        name=_text(pair.name),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        timestamp=f"{result.date}T00:00:00",
        file=_text(result.policy),
    )
    known = {"target": pair.target, "draft": pair.draft, "evidence": pair.evidence, "line": pair.line}
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in known.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=_text(str(value)))
    suite.extend(cases)
    return suite


def _case(pair: PairResult, checks: Sequence[CheckResult]) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=_text(pair.name), name=checks[0].name)
    failed = any(not check.passed for check in checks)
    for check in checks:
        message = _text(check.reason)
        kind = "failure" if not check.passed else "skipped" if check.status == "waived" and not failed else "system-out"
        # Some readers show the attribute, others the text.
        told = {"type": check.status, "message": message} if kind != "system-out" else {}
        ElementTree.SubElement(case, kind, told).text = message
    return case


def _sums(suites: list[ElementTree.Element]) -> dict[str, str]:
    return {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in ("tests", "failures", "errors")}


def _text(value: str) -> str:
    return printable(value).translate(_UNWRITABLE)
