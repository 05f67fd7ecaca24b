"""What a report says of a probe: the decision first, then each draft, what a step costs, doubts, and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from draftpick.probe_file import DraftRecord, ProbeFile, stopped_by_looking
from draftpick.report import probe as tables
from draftpick.report.blocks import (
    Block,
    Chart,
    Code,
    Curve,
    Domains,
    Paragraph,
    Plane,
    Point,
    Positions,
    Report,
    Section,
    Table,
)
from draftpick.report.text import ended, short_names
from draftpick.report.typed import command_line

DIGITS = 16
"""Of a digest: enough to tell two files apart; the JSON has all."""


def blocks_of(probe: ProbeFile) -> Report:
    """The report."""
    sections = chain(
        [Section("Decision", [Paragraph(probe.decision.sentence, "decision"), *_failed(probe)])],
        _summary(probe),
        (_draft(probe, one, folded=place > 0) for place, one in enumerate(probe.drafts)),
        _plane(probe),
        (
            Section(found.title, [found._replace(title="")])
            for found in (*tables.comparisons(probe), *tables.draft_free(probe), *tables.translated(probe))
        ),
        _costs(probe),
        _doubts(probe),
        _checks(probe),
        [Section("Evidence and provenance", [Table(("what", "from"), [*_rests_on(probe)])])],
        _repeat(probe),
    )
    return Report(f"Probe of {probe.target.id}", [*sections], _footer(probe))


def _failed(probe: ProbeFile) -> Iterable[Block]:
    for check in probe.checks:
        if not check.passed:
            yield Paragraph(ended(f"A self-check failed: {check.name}: {check.detail}"), "warning")


def _summary(probe: ProbeFile) -> Iterable[Section]:
    for found in tables.summary(probe):
        blocks: list[Block] = [found._replace(title="")]
        if any(one.plan is not None and not one.plan.num_spec_tokens for one in probe.drafts):
            blocks.append(Paragraph("k = 0 (1): not to draft is best; the figures are those of k = 1.", "note"))
        yield Section(found.title, blocks)


# ---------------------------------------------------------------------- one draft


def _draft(probe: ProbeFile, one: DraftRecord, *, folded: bool) -> Section:
    blocks: list[Block] = []
    if one.by_k:
        blocks.append(_curve(one) or tables.by_k(one))
    rates = one.position_rates
    if rates.marginal:
        rows = [
            (str(position), _share(rate), _share(tables.rate_at(rates.conditional, position)))
            for position, rate in enumerate(rates.marginal, start=1)
        ]
        table = Table(("position", "accepted", "if reached"), rows, numeric=frozenset({0, 1, 2}))
        said = f"Of all steps that draft {len(rates.marginal)} tokens, {_share(rates.marginal[0])} accept the first."
        chart = Positions(rates.marginal, rates.conditional)
        blocks.append(Chart("Acceptance by position", said, chart, table))
    if len(one.by_domain) > 1:
        blocks.append(_by_domain(one))
    if one.other_proposals:
        blocks.append(tables.otherwise(one)._replace(title="Drafting or verifying otherwise"))
    return Section(f"{tables.title_of(probe, one)}, proposing {tables.proposing(one.proposal)}", blocks, folded)


def _curve(one: DraftRecord) -> Chart | None:
    """Speed-up over k; None where no costs are known."""
    rows = [(row.k, row.speedup) for row in one.by_k if row.speedup is not None]
    if not rows:
        return None
    curve = Curve(
        [k for k, _ in rows],
        [gain.value for _, gain in rows],
        [gain.low for _, gain in rows],
        [gain.high for _, gain in rows],
        one.plan.num_spec_tokens if one.plan is not None else None,
        one.level,
    )
    k, top = max(((k, gain) for k, gain in rows if k), key=lambda pair: pair[1].value, default=rows[0])
    said = f"At best {top.value:.2f}× ({top.low:.2f}–{top.high:.2f}) the plain decoding speed, at k = {k}."
    return Chart("Speed-up over num_spec_tokens (k)", said, curve, tables.by_k(one))


def _by_domain(one: DraftRecord) -> Chart:
    rates = {name: found.acceptance_rate for name, found in one.by_domain.items()}
    domains = Domains(
        [*rates],
        [rate.value for rate in rates.values()],
        [rate.low for rate in rates.values()],
        [rate.high for rate in rates.values()],
        next(iter(rates.values())).level,
    )
    most, least = max(rates, key=lambda name: rates[name].value), min(rates, key=lambda name: rates[name].value)
    said = f"From {rates[least].value:.2f} ({least}) to {rates[most].value:.2f} ({most})."
    return Chart("Acceptance rate by kind of text", said, domains, tables.by_domain(one))


def _plane(probe: ProbeFile) -> Iterable[Section]:
    known = [(one, one.costs[0].c) for one in probe.drafts if one.costs]
    if len(known) < 2:
        return
    names = short_names([tables.title_of(probe, one) for one, _ in known])
    points = [
        Point(
            name,
            c,
            one.acceptance_rate.value,
            one.acceptance_rate.low,
            one.acceptance_rate.high,
            one.draft == probe.decision.draft,
        )
        for name, (one, c) in zip(names, known, strict=True)
    ]
    rows = [
        (point.label, f"{point.c:.2f}", f"{point.rate:.3f}", f"{point.low:.3f}", f"{point.high:.3f}")
        for point in points
    ]
    table = Table(("draft", "cost ratio c", "acceptance rate", "low", "high"), rows, numeric=frozenset({1, 2, 3, 4}))
    cheap, sure = min(points, key=lambda point: point.c), max(points, key=lambda point: point.rate)
    said = f"The cheapest is {cheap.label} (c = {cheap.c:.2f}), the most accepted {sure.label} ({sure.rate:.2f})."
    yield Section("Drafts compared", [Chart("Drafts by cost and acceptance", said, Plane(points), table)])


# ---------------------------------------------------------------------- costs and checks


def _costs(probe: ProbeFile) -> Iterable[Section]:
    rows = [
        (
            one.draft,
            str(costs.num_seqs),
            str(costs.context) if costs.context is not None else "-",
            f"{costs.target_ms:.3g}",
            *(f"{value:.3g}" if not costs.whole_steps else "-" for value in (costs.draft_ms, costs.overhead_ms)),
            f"{costs.c:.2f}",
            "; ".join(f"k = {one.k}: {one.predicted:.2f}× / {one.measured:.2f}×" for one in costs.checked) or "-",
        )
        for one in probe.drafts
        for costs in one.costs
    ]
    if not rows:
        return
    header = ("draft", "at once", "context", "plain ms", "drafted ms", "overhead ms", "c", "predicted / own run")
    software = ", ".join(dict.fromkeys(costs.software for one in probe.drafts for costs in one.costs))
    note = Paragraph(
        f"Costs are those of {software}; another engine's are others: draftpick plan predicts them.", "note"
    )
    table = Table(header, rows, numeric=frozenset({1, 2, 3, 4, 5, 6}))
    yield Section("What a step costs", [table, note])


def _checks(probe: ProbeFile) -> Iterable[Section]:
    for found in tables.checks(probe):
        passed = all(check.passed for check in probe.checks)
        title = f"{len(probe.checks)} self-checks, all passed" if passed else found.title
        yield Section(title, [found._replace(title="")], folded=passed)


# ---------------------------------------------------------------------- what it rests on


def _rests_on(probe: ProbeFile) -> Iterable[tuple[str, str]]:
    yield "kind of evidence", probe.decision.evidence
    yield "text", f"{probe.num_prompts} prompts, {probe.num_tokens:,} tokens; the run ended: {probe.stopped_by}"
    yield "prompts", _listed({"from": probe.prompts.get("source"), "of": probe.prompts.get("num")})
    yield "prompts digest", _digest(probe.prompts.get("digest"))
    yield "sampling", _listed(probe.sampling)
    yield "target", _identity(probe, probe.target.id)
    for name in probe.models:
        yield "draft", _identity(probe, name)
    threads = f", {probe.device.threads} threads" if probe.device.threads is not None else ""
    if probe.decision.evidence == "served":
        yield "servers", probe.where
    else:
        yield "device", f"{probe.where}, {probe.device.name}{threads}"
    if probe.peak_bytes is not None:
        yield "memory at its peak", f"{probe.peak_bytes / 2**30:.1f} GiB"
    yield "dtype", probe.dtype
    yield "drafting as", probe.engine
    yield "software", _listed(probe.software)
    stages = ", ".join(f"{name} {value:.1f} s" for name, value in probe.seconds.items() if value >= 0.05)
    yield "duration", f"{probe.duration_s:.1f} s{f': {stages}' if stages else ''}"
    yield "measured at", probe.created
    if probe.trace is not None:
        yield "trace", f"{probe.trace.path}, SHA-256 {_digest(probe.trace.sha256)}"
    yield "made by", f"{probe.tool.get('name', '?')} {probe.tool.get('version', '?')}"


def _identity(probe: ProbeFile, name: str) -> str:
    """A model with the revision and the digests of what was read."""
    known = probe.identities.get(name, {})
    revision = f"revision {known['revision']}" if known.get("revision") is not None else "no revision"
    digests = [f"{part} {_digest(known[part])}" for part in ("weights", "config", "tokenizer") if known.get(part)]
    return ", ".join((name, revision, *digests))


def _digest(value: object) -> str:
    text = str(value) if value is not None else "?"
    return text if len(text) <= DIGITS else f"{text[:DIGITS]}…"


def _listed(values: Mapping[str, Any]) -> str:
    """Names with their values; what was not set is left out."""
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " and ".join(_value(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _doubts(probe: ProbeFile) -> Iterable[Section]:
    said = [*probe.doubts]
    several = len(probe.drafts) > 1
    for one in probe.drafts:
        said += [f"{tables.title_of(probe, one)}: {doubt}" if several else doubt for doubt in one.doubts]
    if stopped_by_looking(probe.stopped_by):
        said.append("intervals of a run that looks before it stops are nominal")
    if said:
        blocks = [Paragraph(ended(one[:1].upper() + one[1:] if not several else one), "warning") for one in said]
        yield Section("Open doubts", blocks)


def _repeat(probe: ProbeFile) -> Iterable[Section]:
    text = command_line(probe.request)
    if text is not None:
        yield Section("How to repeat it", [Code(text)])


def _footer(probe: ProbeFile) -> str:
    return (
        f"{probe.tool.get('name', '?')} {probe.tool.get('version', '?')}; measured at {probe.created} on "
        f"{probe.where}, {probe.num_prompts} prompts, {probe.num_tokens:,} tokens."
    )


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"
