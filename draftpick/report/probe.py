"""A probe as people read it: the decision, a row per draft, every k, positions, domains, checks and doubts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from draftpick.probe_file import (
    CheckRecord,
    CostRecord,
    DraftRecord,
    IntervalRecord,
    KRecord,
    ProbeFile,
    stopped_by_looking,
)
from draftpick.report.blocks import Table
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.text import ended, json_text, printable


def json(probe: ProbeFile) -> str:
    """The probe file's own text."""
    return json_text(probe.plain()) + "\n"


_SPARE = ("if reached", "at the kth", "accepted", "cost", "tokens per step")
"""Columns that a narrow screen does without, the least important first; JSON and wide screens have them."""


def table(probe: ProbeFile, *, width: int | None, color: bool) -> str:
    """For a terminal or a pipe."""
    return draw(_parts(probe), width=width, color=color)


def _parts(probe: ProbeFile) -> Iterable[Line | Grid]:
    yield Line(printable(probe.decision.sentence), "bold")
    for found in _tables(probe):
        yield Line("")
        yield Line(printable(found.title), "dim")
        shown: list[Row] = [[Cell(printable(one)) for one in row] for row in found.rows]
        texts = frozenset(range(len(found.header))) - found.numeric
        spare = [found.header.index(name) for name in _SPARE if name in found.header]
        yield Grid(found.header, shown, right=found.numeric, wraps=texts, spare=spare)
    yield Line("")
    for line, warning in _lines(probe):
        yield Line(printable(line), "yellow" if warning else "dim")


def _tables(probe: ProbeFile) -> Iterable[Table]:
    yield from summary(probe)
    for one in probe.drafts:
        name = title_of(probe, one)
        if one.by_k:
            yield by_k(one)._replace(title=f"{name}, proposing {proposing(one.proposal)}")
        if len(one.by_domain) > 1:
            yield by_domain(one)._replace(title=f"{name}, by domain")
        if one.other_proposals:
            yield otherwise(one)._replace(title=f"{name}, drafting or verifying otherwise")
    yield from comparisons(probe)
    yield from draft_free(probe)
    yield from translated(probe)
    yield from checks(probe)


# ---------------------------------------------------------------------- tables


def title_of(probe: ProbeFile, one: DraftRecord) -> str:
    """A draft, with its temperature where several were measured."""
    return f"{one.draft}{f' at T = {one.temperature:g}' if _several(probe) else ''}"


def _several(probe: ProbeFile) -> bool:
    return len({one.temperature for one in probe.drafts}) > 1


def summary(probe: ProbeFile) -> Iterable[Table]:
    """A row per draft and temperature."""
    if not probe.drafts:
        return
    several = _several(probe)
    header = ["draft", *(["T"] if several else []), "acceptance rate", "tokens per step", "k", "speed-up", "cost"]
    rows = [[one.draft, *([f"{one.temperature:g}"] if several else []), *_summary(one)] for one in probe.drafts]
    yield Table(header, rows, "What each draft gives", numeric=frozenset(range(1, len(header))))


def by_k(one: DraftRecord) -> Table:
    """What every number of tokens gives.

    accepted: of the drafted tokens; at the kth: marginal rate of that position; if reached: conditional rate.
    """
    header = ("k", "tokens per step", "speed-up", "accepted", "at the kth", "if reached")
    return Table(header, [_k_row(row, one) for row in one.by_k if row.k], numeric=frozenset({1, 2, 3, 4, 5}))


def by_domain(one: DraftRecord) -> Table:
    """Acceptance by kind of text."""
    rows = [
        [domain, _interval(found.acceptance_rate), str(found.num_prompts)] for domain, found in one.by_domain.items()
    ]
    return Table(("domain", "acceptance rate", "prompts"), rows, numeric=frozenset({1, 2}))


def otherwise(one: DraftRecord) -> Table:
    """The same text, drafted or verified in other ways."""
    rows = [
        [other.proposal, _interval(other.acceptance_rate), _best_length(other.mean_acceptance_lengths)]
        for other in one.other_proposals
    ]
    return Table(("proposed by", "acceptance rate", "tokens per step"), rows, numeric=frozenset({1, 2}))


def comparisons(probe: ProbeFile) -> Iterable[Table]:
    """Each draft against the best."""
    if probe.comparisons:
        rows = [[one.draft, one.best, _gain(one.speedup)] for one in probe.comparisons]
        title = "Speed over that of the best draft, on the same prompts"
        yield Table(("draft", "best draft", "speed"), rows, title, numeric=frozenset({2}))


def draft_free(probe: ProbeFile) -> Iterable[Table]:
    """What needs no draft."""
    if probe.draft_free:
        rows = [
            [
                row.method,
                f"{row.mean_acceptance_length:.2f}",
                str(row.num_spec_tokens),
                _gain(row.speedup) if row.speedup is not None else "-",
            ]
            for row in probe.draft_free
        ]
        header = ("method", "tokens per step", "k", "speed-up")
        yield Table(header, rows, "Without a draft, at its best k", numeric=frozenset({1, 2, 3}))


def translated(probe: ProbeFile) -> Iterable[Table]:
    """Pairs whose tokenizers differ."""
    for found in probe.translated:
        rows = [[f"{row.k:.0f}", f"{row.mean_acceptance_length:.2f}", f"{row.speedup:.2f}×"] for row in found.by_k]
        title = f"{found.draft}: {found.method}, {found.num_prompts} prompts"
        yield Table(("k", "tokens per step", "speed-up"), rows, title, numeric=frozenset({1, 2}))


def checks(probe: ProbeFile) -> Iterable[Table]:
    """A row per kind of self-check."""
    if probe.checks:
        rows = [_checked(name, [one for one in probe.checks if one.name == name]) for name in _names(probe.checks)]
        yield Table(("check", "passed", "what was seen"), rows, "Self-checks", numeric=frozenset({1}))


def _names(checks: Sequence[CheckRecord]) -> Iterable[str]:
    return dict.fromkeys(check.name for check in checks)


def _checked(name: str, checks: Sequence[CheckRecord]) -> list[str]:
    """Checks of one kind in a row; where some failed, what they saw."""
    failed = [check for check in checks if not check.passed]
    passed = f"{len(checks) - len(failed)} of {len(checks)}"
    return [name, passed, "; ".join(check.detail for check in failed or checks)]


def _k_row(row: KRecord, one: DraftRecord) -> list[str]:
    marginal, conditional = one.position_rates.marginal, one.position_rates.conditional
    return [
        str(row.k),
        f"{row.mean_acceptance_length:.2f} "
        f"({row.mean_acceptance_length_low:.2f}–{row.mean_acceptance_length_high:.2f})",
        _gain(row.speedup) if row.speedup is not None else "-",
        _share(row.draft_acceptance_rate),
        _share(rate_at(marginal, row.k)),
        _share(rate_at(conditional, row.k)),
    ]


def rate_at(rates: Sequence[float | None], position: int) -> float | None:
    """The rate of a position, counted from 1; None where no step reached it."""
    return rates[position - 1] if position <= len(rates) else None


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
    looked = stopped_by_looking(probe.stopped_by)
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
        f"{costs.target_ms:.3g} ms, {_of_a_step(costs)}{checked}. Another engine's are others: `draftpick plan` "
        "predicts them."
    )


def _of_a_step(costs: CostRecord) -> str:
    if costs.whole_steps:
        return f"steps that draft 1, 2, … {', '.join(f'{ms:.3g}' for ms in costs.verify_ms[1:])} ms"
    return f"a drafted one {costs.draft_ms:.3g} ms, a step beyond its passes {costs.overhead_ms:.3g} ms"


def _provenance(probe: ProbeFile) -> str:
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in probe.seconds.items() if value >= 0.05)
    tokens = f"{probe.num_prompts} prompts ({probe.prompts.get('source', '?')}), {probe.num_tokens:,} tokens"
    with_torch = f", torch {probe.software['torch']}" if "torch" in probe.software else ""
    where = probe.where if probe.decision.evidence == "served" else f"{probe.dtype} on {probe.device.id}{with_torch}"
    trace = f"; trace in {probe.trace.path}" if probe.trace is not None else ""
    return f"{tokens}, {where}; {seconds}{trace}."


def _interval(value: IntervalRecord) -> str:
    return f"{value.value:.3f} ({value.low:.3f}–{value.high:.3f})"


def _gain(value: IntervalRecord) -> str:
    return f"{value.value:.2f}× ({value.low:.2f}–{value.high:.2f})"


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"


def proposing(name: str) -> str:
    """What a draft proposes, as it follows `proposing`."""
    return name if name.startswith("the") else f"tokens {name}"


def _best_length(lengths: Sequence[IntervalRecord]) -> str:
    return f"{lengths[-1].value:.2f} at k = {len(lengths) - 1}" if lengths else "-"
