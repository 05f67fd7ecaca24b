"""A probe as people read it: the decision, a row per draft, every k, positions, domains, checks and doubts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from draftpick.probe_file import CheckRecord, CostRecord, DraftRecord, IntervalRecord, KRecord, ProbeFile
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.markdown import cell
from draftpick.report.text import ended, json_text, printable

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, a header and rows."""


def json(probe: ProbeFile) -> str:
    """The probe file's own text."""
    return json_text(probe.plain()) + "\n"


def table(probe: ProbeFile, *, width: int | None, color: bool) -> str:
    """For a terminal or a pipe."""
    return draw(_parts(probe), width=width, color=color)


def markdown(probe: ProbeFile) -> str:
    """For a review."""
    lines = [f"**{cell(probe.decision.sentence)}**"]
    for title, header, rows in _tables(probe):
        lines += ["", f"### {cell(title)}", "", f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
        lines += [f"| {' | '.join(cell(one) for one in row)} |" for row in rows]
    for line, warning in _lines(probe):
        lines += ["", f"> {cell(line)}" if warning else cell(line)]
    return "\n".join(lines) + "\n"


def _parts(probe: ProbeFile) -> Iterable[Line | Grid]:
    yield Line(printable(probe.decision.sentence), "bold")
    for title, header, rows in _tables(probe):
        yield Line("")
        yield Line(printable(title), "dim")
        shown: list[Row] = [[Cell(printable(one)) for one in row] for row in rows]
        texts = frozenset(place for place, name in enumerate(header) if place == 0 or name in _TEXTS)
        yield Grid(header, shown, right=frozenset(range(len(header))) - texts, wraps=texts)
    yield Line("")
    for line, warning in _lines(probe):
        yield Line(printable(line), "yellow" if warning else "dim")


_TEXTS = frozenset({"what was seen", "proposed by", "best draft"})


def _tables(probe: ProbeFile) -> Iterable[Table]:
    several = len({one.temperature for one in probe.drafts}) > 1
    if probe.drafts:
        header = ["draft", "acceptance rate", "tokens per step", "k", "speed-up", "cost"]
        yield (
            "What each draft gives",
            [*header[:1], *(["T"] if several else []), *header[1:]],
            [[one.draft, *([f"{one.temperature:g}"] if several else []), *_summary(one)] for one in probe.drafts],
        )
    for one in probe.drafts:
        name = f"{one.draft}{f' at T = {one.temperature:g}' if several else ''}"
        if one.by_k:
            yield (
                f"{name}, proposing {_proposing(one.proposal)}",
                _K_HEADER,
                [_k_row(row, one) for row in one.by_k if row.k],
            )
        if len(one.by_domain) > 1:
            yield (
                f"{name}, by domain",
                ("domain", "acceptance rate", "prompts"),
                [
                    [domain, _interval(found.acceptance_rate), str(found.num_prompts)]
                    for domain, found in one.by_domain.items()
                ],
            )
        if one.other_proposals:
            yield (
                f"{name}, drafting or verifying otherwise",
                ("proposed by", "acceptance rate", "tokens per step"),
                [
                    [other.proposal, _interval(other.acceptance_rate), _best_length(other.mean_acceptance_lengths)]
                    for other in one.other_proposals
                ],
            )
    if probe.comparisons:
        yield (
            "Speed over that of the best draft, on the same prompts",
            ("draft", "best draft", "speed"),
            [[one.draft, one.best, _gain(one.speedup)] for one in probe.comparisons],
        )
    if probe.draft_free:
        yield (
            "Without a draft, at its best k",
            ("method", "tokens per step", "k", "speed-up"),
            [
                [
                    row.method,
                    f"{row.mean_acceptance_length:.2f}",
                    str(row.num_spec_tokens),
                    _gain(row.speedup) if row.speedup is not None else "-",
                ]
                for row in probe.draft_free
            ],
        )
    for found in probe.translated:
        yield (
            f"{found.draft}: {found.method}, {found.num_prompts} prompts",
            ("k", "tokens per step", "speed-up"),
            [
                [f"{row['k']:.0f}", f"{row['mean_acceptance_length']:.2f}", f"{row['speedup']:.2f}×"]
                for row in found.by_k
            ],
        )
    if probe.checks:
        yield (
            "Self-checks",
            ("check", "passed", "what was seen"),
            [_checked(name, [one for one in probe.checks if one.name == name]) for name in _names(probe.checks)],
        )


def _names(checks: Sequence[CheckRecord]) -> Iterable[str]:
    return dict.fromkeys(check.name for check in checks)


def _checked(name: str, checks: Sequence[CheckRecord]) -> list[str]:
    """Checks of one kind in a row; where some failed, what they saw."""
    failed = [check for check in checks if not check.passed]
    passed = f"{len(checks) - len(failed)} of {len(checks)}"
    return [name, passed, "; ".join(check.detail for check in failed or checks)]


# accepted: of the drafted tokens; at the kth: marginal rate of that position; if reached: conditional rate.
_K_HEADER = ("k", "tokens per step", "speed-up", "accepted", "at the kth", "if reached")


def _k_row(row: KRecord, one: DraftRecord) -> list[str]:
    marginal, conditional = one.position_rates.marginal, one.position_rates.conditional
    return [
        str(row.k),
        f"{row.mean_acceptance_length:.2f} "
        f"({row.mean_acceptance_length_low:.2f}–{row.mean_acceptance_length_high:.2f})",
        _gain(row.speedup) if row.speedup is not None else "-",
        _share(row.draft_acceptance_rate),
        _share(marginal[row.k - 1]),
        _share(conditional[row.k - 1]),
    ]


def _summary(one: DraftRecord) -> list[str]:
    rate = _interval(one.acceptance_rate)
    costs = f"{one.costs[0].c:.2f}" if one.costs else "-"
    if one.plan is None:
        longest = one.by_k[-1] if one.by_k else None
        length = f"{longest.mean_acceptance_length:.2f} at k = {longest.k}" if longest is not None else "-"
        return [rate, length, "-", "-", costs]
    plan = one.plan
    if not plan.num_spec_tokens:
        row = max((row for row in one.by_k[1:] if row.speedup is not None), key=_speed, default=None)
        best = _gain(row.speedup) if row is not None and row.speedup is not None else "-"
        k = f"0 ({row.k})" if row is not None else "0"
        return [rate, f"{row.mean_acceptance_length:.2f}" if row is not None else "-", k, best, costs]
    return [rate, f"{plan.mean_acceptance_length:.2f}", str(plan.num_spec_tokens), _gain(plan.speedup), costs]


def _speed(row: KRecord) -> float:
    return row.speedup.value if row.speedup is not None else 0.0


def _lines(probe: ProbeFile) -> Iterable[tuple[str, bool]]:
    """What stands below the tables, and for each line whether it is a warning."""
    for doubt in probe.doubts:
        yield f"Doubtful: {ended(doubt)}", True
    for one in probe.drafts:
        yield from ((f"Doubtful, {one.draft}: {ended(doubt)}", True) for doubt in one.doubts)
    yield from ((f"{ended(note[:1].upper() + note[1:])}", False) for note in probe.notes)
    looked = probe.stopped_by.startswith(("the decision", "every"))
    nominal = "; intervals of a run that looks before it stops are nominal" if looked else ""
    yield f"The run ended: {probe.stopped_by}{nominal}.", False
    for one in probe.drafts[:1]:
        yield from ((_costs(costs), False) for costs in one.costs)
    yield _provenance(probe), False


def _costs(costs: CostRecord) -> str:
    checked = "".join(
        f"; at k = {one.k} they predict {one.predicted:.2f}× and its own run gave {one.measured:.2f}×"
        for one in costs.checked
    )
    context = f" at a context of {costs.context} tokens" if costs.context is not None else ""
    return (
        f"Costs are those of {costs.software}, {costs.num_seqs} at once{context}: a plain token takes "
        f"{costs.target_ms:.3g} ms, a drafted one {costs.draft_ms:.3g} ms, a step beyond its passes "
        f"{costs.overhead_ms:.3g} ms{checked}. Another engine's are others: `draftpick plan` predicts them."
    )


def _provenance(probe: ProbeFile) -> str:
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in probe.seconds.items() if value >= 0.05)
    tokens = f"{probe.num_prompts} prompts ({probe.prompts['source']}), {probe.num_tokens:,} tokens"
    torch = probe.software.get("torch", "?")
    trace = f"; trace in {probe.trace.path}" if probe.trace is not None else ""
    return f"{tokens}, {probe.dtype} on {probe.device.id}, torch {torch}; {seconds}{trace}."


def _interval(value: IntervalRecord) -> str:
    return f"{value.value:.3f} ({value.low:.3f}–{value.high:.3f})"


def _gain(value: IntervalRecord) -> str:
    return f"{value.value:.2f}× ({value.low:.2f}–{value.high:.2f})"


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"


def _proposing(name: str) -> str:
    return name if name.startswith("the") else f"tokens {name}"


def _best_length(lengths: Sequence[IntervalRecord]) -> str:
    return f"{lengths[-1].value:.2f} at k = {len(lengths) - 1}" if lengths else "-"
