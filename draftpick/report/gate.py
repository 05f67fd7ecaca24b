"""A gate's result as people read it: the verdict first, then every pair with what each of its checks compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from draftpick.gate_file import CheckResult, GateFile, PairResult
from draftpick.report.blocks import Block, Paragraph, Report, Section, Table
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.text import printable

Severity = Literal["error", "warning", "notice"]

_STYLES = {"error": "red", "warning": "yellow", "notice": "dim", None: "green"}
_URGENCY: dict[Severity | None, int] = {"error": 0, "warning": 1, "notice": 2, None: 3}


def table(result: GateFile, *, width: int | None, color: bool) -> str:
    """For a terminal or a pipe."""
    return draw(_parts(result), width=width, color=color)


def blocks(result: GateFile, *, most_pairs: int | None = None) -> Report:
    """For Markdown and HTML: all pairs, or those that matter most and how many were left out."""
    pairs = worst_first(result)
    shown = pairs if most_pairs is None else pairs[:most_pairs]
    overview: list[Block] = [Paragraph(sentence(result), "decision")]
    if left_out := len(pairs) - len(shown):
        overview.append(Paragraph(f"{_count(left_out, 'pair')} not listed here: there is no room for more.", "warning"))
    rows = [[pair.name, _verdict(pair), pair.target, pair.draft, _deciding(pair)] for pair in shown]
    overview.append(Table(("pair", "verdict", "target", "draft", "what decides"), rows))
    return Report(
        f"Draft pairs: {_outcome(result)}",
        [Section("Verdict", overview), *(_section(pair) for pair in shown)],
        _provenance(result),
    )


def sentence(result: GateFile) -> str:
    """The verdict in one sentence. It holds counts alone: names could be read as commands where it is printed."""
    total = len(result.pairs)
    failed = sum(not pair.passed for pair in result.pairs)
    checks = [check for pair in result.pairs for check in pair.checks if check.status != "noted"]
    waived = sum(check.status == "waived" for check in checks)
    aside = f" {_count(waived, 'failed check')} waived." if waived else ""
    if result.passed:
        return f"The gate passed: {_count(total, 'pair')} and {_count(len(checks), 'check')}.{aside}"
    if result.exit_code == 3:
        return f"The gate could not judge any of {_count(total, 'pair')}.{aside}"
    return f"The gate failed: {failed} of {_count(total, 'pair')} did not pass.{aside}"


def severity(check: CheckResult) -> Severity | None:
    """How loudly a check is told of; None where it simply passed."""
    if not check.passed:
        return "error"
    if check.status == "passed":
        return None
    return "notice" if check.status == "noted" else "warning"


def worst_first(result: GateFile) -> list[PairResult]:
    """The pairs that failed, those with something to say, then the rest, each in the order of the policy."""
    return sorted(result.pairs, key=lambda pair: min((_URGENCY[severity(check)] for check in pair.checks), default=3))


def _checks(pair: PairResult) -> list[CheckResult]:
    return sorted(pair.checks, key=lambda check: _URGENCY[severity(check)])


def _parts(result: GateFile) -> Iterable[Line | Grid]:
    yield Line(sentence(result), "bold")
    for pair in worst_first(result):
        style = "bold" if pair.passed else "bold red"
        yield Line("")
        yield Line(f"{_verdict(pair)}: {printable(pair.name)}", style)
        yield Line(printable(_about(pair)), "dim")
        if pair.checks:
            rows: list[Row] = [
                [Cell(check.status, _STYLES[severity(check)]), check.name, printable(check.reason)]
                for check in _checks(pair)
            ]
            yield Grid(("", "", ""), rows, wraps=frozenset({2}))
    yield Line("")
    yield Line(printable(_provenance(result)), "dim")


def _section(pair: PairResult) -> Section:
    header = ("check", "status", "value", "compared", "threshold", "baseline", "what was seen")
    rows = [
        [
            check.name,
            check.status,
            _shown(check.value),
            _shown(check.bound),
            _shown(check.threshold),
            _shown(check.baseline),
            check.reason,
        ]
        for check in _checks(pair)
    ]
    quiet = all(severity(check) is None for check in pair.checks)
    content: list[Block] = [Paragraph(_about(pair), "note")]
    if rows:
        content.append(Table(header, rows, numeric=frozenset({2, 3, 4, 5})))
    return Section(f"{pair.name}: {_verdict(pair)}", content, folded=quiet)


def _verdict(pair: PairResult) -> str:
    if pair.passed:
        return "passed"
    return "failed" if pair.judged else "not judged"


def _outcome(result: GateFile) -> str:
    return {0: "passed", 1: "failed", 3: "not judged"}[result.exit_code]


def _about(pair: PairResult) -> str:
    judged_by = f", judged by {pair.evidence}" if pair.evidence is not None else ""
    if pair.evidence is None and pair.judged:
        judged_by = ", judged by facts alone: nothing was measured"
    return f"Draft {pair.draft} for target {pair.target}{judged_by}."


def _deciding(pair: PairResult) -> str:
    """The checks that fail a pair, or what was let pass."""
    told = [check for check in _checks(pair) if (severity(check) == "error") == (not pair.passed) and severity(check)]
    return ", ".join(f"{check.name} {check.status}" for check in told) or "-"


def _provenance(result: GateFile) -> str:
    version = result.tool.get("version", "?")
    return f"Policy {result.policy}, ages and waivers counted from {result.date}; draftpick {version}."


def _shown(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
