"""The answer as Markdown to paste into a review: reads well on GitHub, on GitLab and as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from draftpick import __version__
from draftpick.advice import Advice, why
from draftpick.assess import Assessment
from draftpick.decision import num_spec_tokens, why_not
from draftpick.report.text import (
    POLICY_HEADER,
    acceptance,
    by_k,
    draft_cost,
    expected,
    level,
    memory,
    policies,
    predicted,
    printable,
    ran,
    ratio,
    size_of,
    summary,
)

# What Markdown acts on inside a table cell; a backslash before it shows it as it is.
_MARKS = {ord(mark): f"\\{mark}" for mark in "\\`*_[]|#~"} | {ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;"}


def render(advice: Advice, *, explain: bool = False, everything: bool = False) -> str:
    """The whole answer."""
    return "\n".join(_lines(advice, explain, everything)) + "\n"


def _lines(advice: Advice, explain: bool, everything: bool) -> Iterable[str]:
    yield f"## Draft for {cell(advice.target.id)}"
    yield ""
    yield f"**{cell(advice.decision.sentence)}**"
    yield ""
    if advice.command == "check":
        yield from _pair(advice.assessments[0])
    else:
        yield from _ranking(advice, explain, everything)
    yield _footer(advice)


def _ranking(advice: Advice, explain: bool, everything: bool) -> Iterable[str]:
    shown = [*advice.viable, *(found for found in advice.draft_free if found.viable)]
    if not everything:
        shown = [*advice.viable[:9], *shown[len(advice.viable) :]]
    yield from _table(
        (
            "#",
            "draft",
            "method",
            "size",
            "ratio",
            level(shown),
            "k",
            "accept",
            "cost",
            "score",
            "engine",
            "what matters most",
        ),
        ((str(place), *_row(found)) for place, found in enumerate(shown, start=1)),
    )
    for found in advice.viable[:1]:
        yield from _best(found)
        if advice.command == "plan":
            yield from _table(("k", "tokens per step", level([found])), by_k(found))
    if advice.policies:
        yield from _table(POLICY_HEADER, policies(advice))
    if len(advice.viable) > 9 and not everything:
        yield f"{len(advice.viable) - 9} more fit less well."
        yield ""
    if advice.rejected:
        yield f"<details><summary>{len(advice.rejected)} drafts that look right but do not fit</summary>"
        yield ""
        rejected = sorted(advice.rejected, key=lambda found: found.proposal.label.lower())
        yield from _table(("draft", "why not"), ((_name(found), why_not(found)) for found in rejected))
        yield "</details>"
        yield ""
    if advice.left_out:
        yield (
            "Not listed one by one: "
            + ", ".join(f"{n} {cell(why)}" for why, n in sorted(advice.left_out.items()))
            + "."
        )
        yield ""
    if explain:
        for found in shown:
            yield f"### {cell(_name(found))}"
            yield ""
            yield from _findings(found)


def _row(found: Assessment) -> tuple[str, ...]:
    verdict = found.verdict
    return (
        _name(found),
        found.proposal.method,
        size_of(found.proposal),
        ratio(found.pair),
        expected(found),
        str(num_spec_tokens(found) or "-"),
        acceptance(found),
        draft_cost(found),
        f"{found.score:.0f}" if found.proposal.draft or found.proposal.head else "-",
        f"{verdict.engine}: {verdict.verdict}" if verdict else "-",
        why(found),
    )


def _best(found: Assessment) -> Iterable[str]:
    """What is known of one draft beyond its row."""
    for line in (*(line for line, _ in predicted(found)), *memory(found)):
        yield cell(line)
        yield ""


def _pair(found: Assessment) -> Iterable[str]:
    yield cell(summary(found))
    yield ""
    yield from _best(found)
    if found.prediction is not None:
        yield from _table(("k", "tokens per step", level([found])), by_k(found))
        yield cell(f"Acceptance: {found.prediction.basis.sentence}")
        yield ""
    yield from _findings(found)
    yield from _table(
        ("engine", "version", "verdict", "why"),
        ((key, one.version, one.verdict, "; ".join(one.reasons)) for key, one in found.engines.all.items()),
    )


def _findings(found: Assessment) -> Iterable[str]:
    order = {"reject": 0, "warn": 1, "ok": 2, "skip": 3}
    findings = sorted(found.findings, key=lambda one: (order[one.outcome], -one.weight, one.rule))
    yield from _table(
        ("finding", "rule", "what was seen"),
        (
            (one.outcome, one.rule, one.message + (f" (ignored: {one.ignored_because})" if one.ignored_because else ""))
            for one in findings
        ),
    )


def _name(found: Assessment) -> str:
    via = f" (made for {found.proposal.via})" if found.proposal.via else ""
    return f"{found.proposal.label}{via}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell(text) for text in row) + " |"
    yield ""


def cell(text: str) -> str:
    """Text that shows as itself inside a table cell, on one line."""
    return printable(text).translate(_MARKS)


def _footer(advice: Advice) -> str:
    engine = f", engine {advice.setting.engine.key} {advice.setting.engine.version}" if advice.setting.engine else ""
    device = f", device {advice.setting.device.key}" if advice.setting.device else ""
    return cell(
        f"draftpick {__version__}, catalogue of {advice.catalog_date}{engine}{device}; "
        f"judged by facts and predictions, {ran(advice)}."
    )
