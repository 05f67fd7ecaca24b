"""The answer as a person reads it in a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from draftpick.advice import Advice, num_spec_tokens, why, why_not
from draftpick.assess import TAKEN, Assessment
from draftpick.report.text import memory, printable, ratio, size_of, summary

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
WIDE = 120
UNCUT = 100_000
"""Width for output that no terminal shows: a pipe gets whole lines."""


def render(advice: Advice, *, width: int | None, color: bool, explain: bool = False, everything: bool = False) -> str:
    """The whole answer. `width` is the terminal's; None: not a terminal, nothing is cut or wrapped."""
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width or UNCUT,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in _parts(advice, width, explain, everything):
        console.print(part, soft_wrap=width is None and isinstance(part, Text))
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def _parts(advice: Advice, width: int | None, explain: bool, everything: bool) -> Iterable[RenderableType]:
    yield Text(printable(advice.decision.sentence), style="bold")
    if advice.command == "check":
        yield from _pair(advice.assessments[0])
    else:
        yield from _ranking(advice, width, explain, everything)
    yield Text("")
    yield Text(_footer(advice), style="dim")


def _ranking(advice: Advice, width: int | None, explain: bool, everything: bool) -> Iterable[RenderableType]:
    viable = advice.viable if everything else advice.viable[:VIABLE_SHOWN]
    shown = [*viable, *(found for found in advice.draft_free if found.viable)]
    if shown:
        yield Text("")
        yield _candidates_table(advice, shown, stacked=width is not None and width < WIDE)
    yield from (Text(line, style="dim") for found in advice.viable[:1] for line in memory(found))
    if len(viable) < len(advice.viable):
        yield Text(f"… and {len(advice.viable) - len(viable)} more that fit less well (--all shows them)", style="dim")
    groups = _by_reason(sorted(advice.rejected, key=_looks_right))
    listed = groups if everything else groups[:REASONS_SHOWN]
    if listed:
        yield Text("")
        yield Text("Look right, but do not fit:")
        yield from _rejected(listed, everything)
    if len(listed) < len(groups):
        yield Text(_the_rest([found for group in groups[len(listed) :] for found in group]), style="dim")
    if advice.left_out:
        counts = ", ".join(f"{number} {reason}" for reason, number in sorted(advice.left_out.items()))
        yield Text(f"Not listed one by one: {counts}.", style="dim")
    if explain:
        for found in [*shown, *(found for group in listed for found in group[:NAMES_SHOWN])]:
            yield Text("")
            yield Text(printable(found.proposal.label), style="bold")
            yield _findings_table(found)


def _candidates_table(advice: Advice, shown: Sequence[Assessment], *, stacked: bool) -> Table:
    """One row a candidate; on a narrow screen the reason stands below the name."""
    table = _table()
    table.add_column("#", justify="right")
    table.add_column("draft", overflow="fold", no_wrap=not stacked)
    for name in ("size", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    with_k = any(num_spec_tokens(found) for found in shown)
    if with_k:
        table.add_column("k", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("verdict" if advice.setting.engine else "engine", no_wrap=True)
    if not stacked:
        table.add_column("what matters most", overflow="fold")
    for place, found in enumerate(shown, start=1):
        name, reason = printable(_name(found)), printable(why(found))
        table.add_row(
            str(place),
            Text.assemble(name, ("\n" + reason, "dim")) if stacked else name,
            size_of(found.proposal),
            ratio(advice.target, found.proposal),
            *([str(num_spec_tokens(found) or "-")] if with_k else []),
            f"{found.score:.0f}" if found.proposal.draft or found.proposal.head else "-",
            _verdict_cell(advice, found),
            *([] if stacked else [reason]),
        )
    return table


def _verdict_cell(advice: Advice, found: Assessment) -> Text:
    verdict = found.verdict
    if verdict is None:
        return Text("")
    words = verdict.verdict if advice.setting.engine else verdict.engine
    if not advice.setting.engine and verdict.verdict != "accepted":
        words += f" ({verdict.verdict})"
    return Text(words, style=STYLES[verdict.verdict])


def _by_reason(rejected: Iterable[Assessment]) -> list[list[Assessment]]:
    """Rejected ones with one and the same reason stand together, in the order of the first of them."""
    groups: dict[str, list[Assessment]] = {}
    for found in rejected:
        groups.setdefault(why_not(found).replace(found.proposal.label, "it"), []).append(found)
    return list(groups.values())


def _rejected(groups: Sequence[Sequence[Assessment]], everything: bool) -> Iterable[RenderableType]:
    for group in groups:
        names = [printable(_name(found)) for found in (group if everything else group[:NAMES_SHOWN])]
        if len(names) < len(group):
            names.append(f"… and {len(group) - len(names)} more")
        yield Text(", ".join(names))
        yield Padding(
            Text(printable(why_not(group[0]) + _taken_elsewhere(group[0])), style="dim"), (0, 0, 0, 4), expand=False
        )


def _taken_elsewhere(found: Assessment) -> str:
    """Which engines take what the asked one refuses, where no rule speaks against the pair itself."""
    if found.rejections:
        return ""
    others = {verdict: [key for key, one in found.engines.all.items() if one.verdict == verdict] for verdict in TAKEN}
    parts = [f"{words} {', '.join(others[verdict])}" for verdict, words in _TAKEN_WORDS.items() if others[verdict]]
    return f" ({'; '.join(parts)})" if parts else ""


_TAKEN_WORDS = {"accepted": "accepted by", "care": "with care by"}


def _pair(found: Assessment) -> Iterable[RenderableType]:
    yield Text(summary(found), style="dim")
    yield from (Text(line, style="dim") for line in memory(found))
    yield Text("")
    yield _findings_table(found)
    yield Text("")
    yield _engine_matrix(found)


def _findings_table(found: Assessment) -> Table:
    table = _table()
    table.add_column("finding", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("what was seen", overflow="fold", ratio=1)
    for finding in sorted(found.findings, key=lambda one: (_SEVERITY[one.outcome], -one.weight, one.rule)):
        message = finding.message
        if finding.ignored_because is not None:
            message += f" (ignored: {finding.ignored_because})"
        table.add_row(Text(finding.outcome, style=STYLES[finding.outcome]), finding.rule, printable(message))
    return table


_SEVERITY = {"reject": 0, "warn": 1, "ok": 2, "skip": 3}


def _engine_matrix(found: Assessment) -> Table:
    table = _table()
    table.add_column("engine", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    for key, verdict in found.engines.all.items():
        table.add_row(
            f"{key} {printable(verdict.version)}",
            Text(verdict.verdict, style=STYLES[verdict.verdict]),
            printable("; ".join(verdict.reasons)),
        )
    return table


def _table(*, show_header: bool = True) -> Table:
    return Table(
        box=None, show_header=show_header, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), expand=False
    )


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
    place = (
        f"engine {engine.key} {printable(engine.version)}"
        if engine
        else "no engine named: the first that takes a draft is shown"
    )
    device = f", device {advice.setting.device.key}" if advice.setting.device else ""
    return f"{place}{device}; catalogue of {advice.catalog_date}; nothing was run."
