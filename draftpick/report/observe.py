"""What was read from a running server, for people: what to do first, then rates by position, engines, and doubts."""

from __future__ import annotations

from collections.abc import Iterable

from draftpick.observe_file import Counted, Drift, ModelRow, ObservationFile
from draftpick.report.blocks import Block, Chart, Paragraph, Positions, Report, Section, Table
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.text import ended, printable

NOMINAL = (
    "Intervals are nominal: they take drafts as independent; those of one request are not, so the true ones are wider."
)
BY_REQUEST = (
    "Intervals are over requests: they hold for other requests of this kind, and are no narrower than if drafts were "
    "independent."
)
PAYS = (
    "pays below: what drafting and verifying one more token may cost, in plain steps of the target, for the kth to pay."
)


def table(found: ObservationFile, *, width: int | None, color: bool) -> str:
    """For a terminal or a pipe."""
    return draw(_parts(found), width=width, color=color)


def blocks(found: ObservationFile) -> Report:
    """For Markdown and HTML."""
    sentences: list[Block] = [Paragraph(one.decision.sentence, "decision") for one in found.models]
    sentences += [Paragraph(line, "note") for line in _left_out(found)]
    sections = [Section("Decision", sentences), *(_section(found, one) for one in found.models)]
    return Report("Speculation of a running server", sections, _provenance(found))


def _parts(found: ObservationFile) -> Iterable[Line | Grid]:
    for place, one in enumerate(found.models):
        if place:
            yield Line("")
        yield Line(printable(one.decision.sentence), "bold")
        for part in _tables(one):
            rows: list[Row] = [[Cell(printable(cell)) for cell in row] for row in part.rows]
            yield Line("")
            yield Grid(part.header, rows, right=part.numeric)
        yield Line("")
        for line in _doubts(one):
            yield Line(printable(line), "yellow")
        for line in _notes(found, one):
            yield Line(printable(line), "dim")
    for line in _left_out(found):
        yield Line(printable(line), "dim")
    yield Line(printable(_provenance(found)), "dim")


def _section(found: ObservationFile, one: ModelRow) -> Section:
    content: list[Block] = []
    for part in _tables(one):
        if part.header[0] == "k" and one.position_rates is not None:
            rates = one.position_rates
            first = next(iter(rates.marginal), None)
            known = one.num_drafts and first is not None
            said = f"Of {one.num_drafts:,} drafts {first:.0%} accept the first token." if known else ""
            content.append(Chart("Acceptance by position", said, Positions(rates.marginal, rates.conditional), part))
        else:
            content.append(part)
    content += [Paragraph(line, "warning") for line in _doubts(one)]
    content += [Paragraph(line, "note") for line in _notes(found, one)]
    return Section(_title(found, one), content)


def _title(found: ObservationFile, one: ModelRow) -> str:
    """The model's name, and what tells it from another row of that name."""
    alone = sum(other.model == one.model for other in found.models) == 1
    return one.model if alone else f"{one.model}, num_spec_tokens = {one.num_spec_tokens}"


def _tables(one: ModelRow) -> Iterable[Table]:
    rates = one.position_rates
    if one.by_k and rates is not None:
        priced = one.by_k[0].speedup is not None
        header = ("k", "tokens per step", "accepted at the kth", "if reached", "pays below", *(["speed-up"] * priced))
        rows = [
            (
                f"{row.k} ◀" if row.k == one.decision.num_spec_tokens else str(row.k),
                _within(row.mean_acceptance_length, row.mean_acceptance_length_low, row.mean_acceptance_length_high),
                _within(rates.marginal[row.k - 1], rates.marginal_low[row.k - 1], rates.marginal_high[row.k - 1]),
                _within(
                    rates.conditional[row.k - 1], rates.conditional_low[row.k - 1], rates.conditional_high[row.k - 1]
                ),
                "-" if row.pays_below is None else f"{row.pays_below:.2f}",
                *([f"{_within(row.speedup.value, row.speedup.low, row.speedup.high)}"] if row.speedup else []),
            )
            for row in one.by_k[1:]
        ]
        yield Table(header, rows, numeric=frozenset(range(len(header))))
    if len(one.engines) > 1:
        header = ("engine", "drafts", "drafted", "accepted", "tokens per step", "accepted / drafted")
        rows = [(engine.engine, *_counted(engine)) for engine in one.engines]
        yield Table(header, [*rows, ("all", *_counted(one))], numeric=frozenset(range(1, len(header))))


def _counted(row: Counted) -> tuple[str, ...]:
    counts = (row.num_drafts, row.num_draft_tokens, row.num_accepted_tokens)
    rates = (row.mean_acceptance_length, row.draft_acceptance_rate)
    return (
        *("-" if count is None else f"{count:,}" for count in counts),
        *("-" if rate is None else f"{rate:.2f}" for rate in rates),
    )


def _within(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "-"
    return f"{value:.2f} ({low:.2f}–{high:.2f})"


def _doubts(one: ModelRow) -> Iterable[str]:
    for doubt in one.doubts:
        yield ended(f"Doubtful: {doubt}")
    if one.drift is not None and one.drift.moved:
        yield _drift(one.drift)


def _notes(found: ObservationFile, one: ModelRow) -> Iterable[str]:
    if one.drift is not None and not one.drift.moved:
        yield _drift(one.drift)
    if found.counted == "between two scrapes" and one.drift is None:
        yield "There is nothing before the first scrape to compare with."
    if one.by_k:
        yield f"{PAYS} A smaller k begins its drafts elsewhere, which moves its tokens per step a little."
        yield NOMINAL if one.num_requests is None else BY_REQUEST


def _left_out(found: ObservationFile) -> Iterable[str]:
    """What of a log is not in the figures."""
    log = found.responses
    if log is None:
        return
    told = (
        (log.num_without, f"responses that say nothing of speculation: {log.num_without:,}"),
        (log.num_undrafted, f"requests that drafted nothing: {log.num_undrafted:,}"),
        (log.num_repeated, f"figures under an id that has later ones: {log.num_repeated:,}"),
        (log.num_other_lines, f"lines without a response: {log.num_other_lines:,}"),
        (log.torn, "the last line, which was cut"),
    )
    parts = [words for number, words in told if number]
    if parts:
        yield ended(f"Not counted: {'; '.join(parts)}")


def _drift(drift: Drift) -> str:
    """Whether it went on as it was before the first scrape."""
    before, change = drift.before, drift.change
    moved = "more than chance among independent drafts" if drift.moved else "no more than chance"
    return (
        f"Before the first scrape it was {before.value:.2f} tokens per step over {drift.num_drafts_before:,} drafts: "
        f"a change of {change.value:+.2f} ({change.low:+.2f} to {change.high:+.2f}), {moved}."
    )


def _provenance(found: ObservationFile) -> str:
    names = {"vllm": "vLLM's counters", "llama.cpp": "llama.cpp's counters", "sglang": "SGLang's gauges"}[found.server]
    if found.responses is not None:
        names = f"vLLM's figures of {found.responses.num_requests:,} requests"
    span = f", {found.interval_s:.1f} s apart" if found.interval_s is not None else ""
    costs = f"; costs {found.costs}" if found.costs is not None else ""
    version = found.tool.get("version", "?")
    source = " and ".join(found.sources)
    return f"{names} {found.counted}{span}, from {source}, {found.created[:10]}{costs}; draftpick {version}."
