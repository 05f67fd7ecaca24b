"""The answer as a person reads it in a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from draftpick.advice import Advice, why
from draftpick.assess import TAKEN, Assessment
from draftpick.decision import num_spec_tokens, why_not
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.text import (
    POLICY_HEADER,
    acceptance,
    by_k,
    draft_cost,
    expected,
    finding_text,
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
from draftpick.rules.engine_facts import table_of

STYLES = {
    "ok": "green",
    "warn": "yellow",
    "reject": "red",
    "skip": "dim",
    "accepted": "green",
    "care": "yellow",
    "refused": "red",
    "unknown": "dim",
}
VIABLE_SHOWN = 9
REASONS_SHOWN = 6
NAMES_SHOWN = 4
ISSUES_SHOWN = 2
WIDE = 120


def render(advice: Advice, *, width: int | None, color: bool, explain: bool = False, everything: bool = False) -> str:
    """The whole answer. `width` is the terminal's; None: not a terminal, nothing is cut or wrapped."""
    return draw(_parts(advice, width, explain, everything), width=width, color=color)


def _parts(advice: Advice, width: int | None, explain: bool, everything: bool) -> Iterable[Line | Grid]:
    yield Line(printable(advice.decision.sentence), style="bold")
    if advice.command == "check":
        yield from _pair(advice.assessments[0])
    else:
        yield from _ranking(advice, width, explain, everything)
    yield Line("")
    yield Line(_footer(advice), style="dim")


def _ranking(advice: Advice, width: int | None, explain: bool, everything: bool) -> Iterable[Line | Grid]:
    viable = advice.viable if everything else advice.viable[:VIABLE_SHOWN]
    shown = [*viable, *(found for found in advice.draft_free if found.viable)]
    if shown:
        yield Line("")
        yield _candidates_table(advice, shown, stacked=width is not None and width < WIDE)
    if len(viable) < len(advice.viable):
        yield Line(f"… and {len(advice.viable) - len(viable)} more that fit less well (--all shows them)", style="dim")
    yield from _best(advice.viable[:1])
    if not explain:
        for best in advice.viable[:1]:
            yield from _issues(best, ISSUES_SHOWN)
        yield from _issues_of_others(shown, advice.viable[:1])
    if advice.policies:
        yield Line("")
        yield Grid(POLICY_HEADER, policies(advice), right=frozenset({1, 2, 3}), wraps=frozenset({4}))
    if advice.command == "plan" and advice.viable:
        yield Line("")
        yield _by_k_table(advice.viable[0])
    groups = _by_reason(sorted(advice.rejected, key=_looks_right))
    listed = groups if everything else groups[:REASONS_SHOWN]
    if listed:
        yield Line("")
        yield Line("Look right, but do not fit:")
        yield from _rejected(listed, everything)
    if len(listed) < len(groups):
        yield Line(_the_rest([found for group in groups[len(listed) :] for found in group]), style="dim")
    if advice.left_out:
        counts = ", ".join(f"{number} {reason}" for reason, number in sorted(advice.left_out.items()))
        yield Line(f"Not listed one by one: {counts}.", style="dim")
    if explain:
        for found in [*shown, *(found for group in listed for found in group[:NAMES_SHOWN])]:
            yield Line("")
            yield Line(printable(found.proposal.label), style="bold")
            yield _findings_table(found)
            yield from _issues(found)


def _best(found: Sequence[Assessment]) -> Iterable[Line]:
    """What is known of the first draft beyond its row."""
    for best in found:
        if best.prediction is not None or memory(best):
            yield Line("")
        yield from (Line(line, style="yellow" if warning else "") for line, warning in predicted(best))
        yield from (Line(line, style="dim") for line in memory(best))


def _issues(found: Assessment, shown: int | None = None) -> Iterable[Line]:
    """What others met with such a pair, a line each; those beyond `shown` by their number."""
    issues = found.known_issues
    if issues:
        yield Line("")
    for issue in issues[:shown]:
        yield Line(printable(f"Known trouble, {issue.kind.replace('_', ' ')}: {issue.sentence} ({issue.source})"))
    if (rest := len(issues) - len(issues[:shown])) > 0:
        yield Line(f"… and {rest} more known trouble{'s' if rest > 1 else ''} (--explain shows all)", style="dim")


def _issues_of_others(shown: Sequence[Assessment], told: Sequence[Assessment]) -> Iterable[Line]:
    """Which drafts have known troubles beyond those told, by their place in the table."""
    before = {issue.key for found in told for issue in found.known_issues}
    places = [
        str(place)
        for place, found in enumerate(shown, start=1)
        if any(issue.key not in before for issue in found.known_issues)
    ]
    if places:
        yield Line(f"Known troubles of {', '.join(places)}: --explain shows them.", style="dim")


def _candidates_table(advice: Advice, shown: Sequence[Assessment], *, stacked: bool) -> Grid:
    """One row a candidate; on a narrow screen the reason stands below the name, and sizes are left out."""
    predicted = any(found.prediction is not None for found in shown)
    columns: list[tuple[str, Callable[[Assessment], Cell | str]]] = []
    if not (predicted and stacked):
        columns += [("size", lambda found: size_of(found.proposal)), ("ratio", lambda found: ratio(found.pair))]
    if predicted:
        columns.append((level(shown), _gain_cell))
    if any(num_spec_tokens(found) for found in shown):
        columns.append(("k", lambda found: str(num_spec_tokens(found) or "-")))
    if predicted:
        columns += [("accept", acceptance), ("cost", draft_cost)]
    columns.append(
        ("score", lambda found: f"{found.score:.0f}" if found.proposal.draft or found.proposal.head else "-")
    )
    rows: list[Row] = []
    for place, found in enumerate(shown, start=1):
        name, reason = printable(_name(found)), printable(why(found))
        cells = [cell(found) for _, cell in columns]
        rest: list[Cell | str] = [_verdict_cell(advice, found), *([] if stacked else [reason])]
        rows.append([str(place), Cell(name, below=reason) if stacked else name, *cells, *rest])
    header = ["#", "draft", *(name for name, _ in columns), "verdict" if advice.setting.engine else "engine"]
    header += [] if stacked else ["what matters most"]
    numbers = frozenset({0, *range(2, 2 + len(columns))})
    spare = [header.index(name) for name in _SPARE if name in header] if stacked else []
    return Grid(header, rows, right=numbers, wraps=frozenset({1} if stacked else {len(header) - 1}), spare=spare)


_SPARE = ("score", "cost", "ratio", "accept", "size", "k")
"""What a narrow screen does without, the least important first; JSON and wide screens have it."""


def _gain_cell(found: Assessment) -> Cell:
    if found.prediction is None:
        return Cell(expected(found))
    return Cell(expected(found), style="green" if found.expected_speedup > 1 else "red")


def _verdict_cell(advice: Advice, found: Assessment) -> Cell:
    verdict = found.verdict
    if verdict is None:
        return Cell("")
    words = verdict.verdict if advice.setting.engine else verdict.engine
    if not advice.setting.engine and verdict.verdict != "accepted":
        words += f" ({verdict.verdict})"
    return Cell(words, style=STYLES[verdict.verdict])


def _by_reason(rejected: Iterable[Assessment]) -> list[list[Assessment]]:
    """Rejected ones with one and the same reason stand together, in the order of the first of them."""
    groups: dict[str, list[Assessment]] = {}
    for found in rejected:
        groups.setdefault(why_not(found).replace(found.proposal.label, "it"), []).append(found)
    return list(groups.values())


def _rejected(groups: Sequence[Sequence[Assessment]], everything: bool) -> Iterable[Line | Grid]:
    for group in groups:
        names = [printable(_name(found)) for found in (group if everything else group[:NAMES_SHOWN])]
        if len(names) < len(group):
            names.append(f"… and {len(group) - len(names)} more")
        yield Line(", ".join(names))
        yield Line(printable(why_not(group[0]) + _taken_elsewhere(group[0])), style="dim", indent=4)


def _taken_elsewhere(found: Assessment) -> str:
    """Which engines take what the asked one refuses, where no rule speaks against the pair itself."""
    if found.rejections:
        return ""
    others = {verdict: [key for key, one in found.engines.all.items() if one.verdict == verdict] for verdict in TAKEN}
    parts = [f"{words} {', '.join(others[verdict])}" for verdict, words in _TAKEN_WORDS.items() if others[verdict]]
    return f" ({'; '.join(parts)})" if parts else ""


_TAKEN_WORDS = {"accepted": "accepted by", "care": "with care by"}


def _pair(found: Assessment) -> Iterable[Line | Grid]:
    yield Line(summary(found), style="dim")
    yield from _best([found])
    yield from _issues(found)
    if found.prediction is not None:
        yield Line("")
        yield _by_k_table(found)
    yield Line("")
    yield _findings_table(found)
    yield Line("")
    yield _engine_matrix(found)


def _by_k_table(found: Assessment) -> Grid:
    rows: list[Row] = list(by_k(found))
    return Grid(("k", "tokens per step", level([found])), rows, right=frozenset({0, 1, 2}))


def _findings_table(found: Assessment) -> Grid:
    rows: list[Row] = []
    for finding in sorted(found.findings, key=lambda one: (_SEVERITY[one.outcome], -one.weight, one.rule)):
        outcome = Cell(finding.outcome, style=STYLES[finding.outcome])
        rows.append([outcome, finding.rule, printable(finding_text(finding))])
    return Grid(("finding", "rule", "what was seen"), rows, wraps=frozenset({2}))


_SEVERITY = {"reject": 0, "warn": 1, "ok": 2, "skip": 3}


def _engine_matrix(found: Assessment) -> Grid:
    rows: list[Row] = [
        [
            f"{key} {printable(verdict.version)}",
            Cell(verdict.verdict, style=STYLES[verdict.verdict]),
            printable("; ".join(verdict.reasons)),
        ]
        for key, verdict in found.engines.all.items()
    ]
    return Grid(("engine", "verdict", "why"), rows, wraps=frozenset({2}))


def _name(found: Assessment) -> str:
    proposal = found.proposal
    via = f" (made for {proposal.via})" if proposal.via else ""
    kind = f" [{proposal.method}]" if proposal.head is not None else ""
    return f"{proposal.label}{kind}{via}"


def _looks_right(found: Assessment) -> tuple[object, ...]:
    """Order of the rejected: what a person would try comes first, by vocabulary, kind of model and size."""
    target, draft, relation = found.pair.target, found.proposal.draft, found.relation
    if draft is None:
        return (9, True, True, 0.0, found.proposal.label)
    off = abs(target.params_read / draft.params_read - 7.0) if target.params_read and draft.params_read else 1e9
    kind = _LIKENESS.get(relation.kind, 5) if relation is not None else 5
    return (kind, draft.generation != target.generation, draft.variant != target.variant, off, found.proposal.label)


_LIKENESS = {"identical": 0, "padding_only": 0, "control_tokens": 1, "extension": 2, "different": 3}


def _the_rest(rejected: Sequence[Assessment]) -> str:
    reasons: dict[str, int] = {}
    for found in rejected:
        reason = max(found.rejections, key=lambda one: one.weight).rule if found.rejections else "refused by the engine"
        reasons[reason] = reasons.get(reason, 0) + 1
    counts = ", ".join(f"{reason} {number}" for reason, number in sorted(reasons.items(), key=lambda item: -item[1]))
    return f"… and {len(rejected)} more that do not fit: {counts} (--all shows them)"


def _footer(advice: Advice) -> str:
    engine = advice.setting.engine
    place = "no engine named: the first that takes a draft is shown"
    if engine is not None:
        note = table_of(engine).note
        place = f"engine {engine.key} {printable(engine.version)}" + (f" ({printable(note)})" if note else "")
    named = advice.setting.device
    device = f", device {named.key}{f' ({printable(named.note)})' if named.note else ''}" if named else ""
    return f"{place}{device}; catalogue of {advice.catalog_date}; {ran(advice)}."
