"""A gate's result as JUnit XML, which every CI system shows: a suite for each pair, a case for each check."""

from __future__ import annotations

from xml.etree import ElementTree

from draftpick.gate_file import CheckResult, GateFile, PairResult
from draftpick.report.gate import severity
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
    failures = sum(not check.passed for check in pair.checks)
    skipped = sum(check.passed and check.status == "waived" for check in pair.checks)
    suite = ElementTree.Element(
        "testsuite",
        name=_text(pair.name),
        tests=str(len(pair.checks)),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
        timestamp=f"{result.date}T00:00:00",
        file=_text(result.policy),
    )
    known = {"target": pair.target, "draft": pair.draft, "evidence": pair.evidence, "line": pair.line}
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in known.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=_text(str(value)))
    suite.extend(_case(pair, check) for check in pair.checks)
    return suite


def _case(pair: PairResult, check: CheckResult) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=_text(pair.name), name=check.name)
    message = _text(check.reason)
    if severity(check) == "error":
        # Some readers show the attribute, others the text.
        ElementTree.SubElement(case, "failure", type=check.status, message=message).text = message
    elif check.status == "waived":
        ElementTree.SubElement(case, "skipped", type=check.status, message=message).text = message
    else:
        ElementTree.SubElement(case, "system-out").text = message
    return case


def _sums(suites: list[ElementTree.Element]) -> dict[str, str]:
    return {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in ("tests", "failures", "errors")}


def _text(value: str) -> str:
    return printable(value).translate(_UNWRITABLE)
