"""What a report says of an advice: the decision first, then why, what else there is, the doubts, what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from draftpick.advice_file import (
    AdviceFile,
    CandidateRecord,
    FindingRecord,
    GainRecord,
    KnownIssueRecord,
    KRecord,
    MemoryRecord,
)
from draftpick.pair import BEHIND, GIVEN, MEASURED
from draftpick.report.blocks import (
    Block,
    Chart,
    Code,
    Curve,
    MemoryBars,
    Paragraph,
    Plane,
    Point,
    Report,
    Section,
    Table,
)
from draftpick.report.text import count, ended, fades, finding_text, milliseconds, short_names, spoken_level
from draftpick.report.typed import command_line

SHOWN = 9
"""Drafts that are compared; the others stand folded behind them."""
BARS = 5
"""Drafts whose memory is shown."""


def blocks_of(advice: AdviceFile, *, explain: bool = False, everything: bool = False) -> Report:
    """The report. `explain` adds every finding about each draft that is listed, `everything` lists them all at once."""
    best = _best(advice)
    shown = advice.viable if everything else advice.viable[:SHOWN]
    about = advice.target.id if advice.target is not None else "the numbers given"
    sections = chain(
        [Section("Decision", [*_decision(advice, best)])],
        _ranking(advice, shown) if advice.command != "check" else (),
        _against(best),
        _issues(shown, best),
        _gains(advice, shown, best),
        _policies(advice),
        _schedule(best),
        _memory(advice, best),
        _doubts(advice, best),
        _left_out(advice),
        _cautions(advice, shown, best, explain=explain),
        _findings(best),
        _engines(best),
        _evidence(advice, best),
        _repeat(advice),
    )
    return Report(f"{'Plan from' if advice.target is None else 'Draft for'} {about}", [*sections], _footer(advice))


def _best(advice: AdviceFile) -> CandidateRecord | None:
    """The candidate that the decision is about; None where nothing fits."""
    if advice.command == "check" or advice.target is None:
        return next(iter(advice.candidates), None)
    return next(iter(advice.viable), None)


# ---------------------------------------------------------------------- the decision


def _decision(advice: AdviceFile, best: CandidateRecord | None) -> Iterable[Block]:
    yield Paragraph(advice.decision.sentence, "decision")
    if best is not None:
        rows = [*_figures(advice, best)]
        if rows:
            yield Table(("what", "figure"), rows)


def _figures(advice: AdviceFile, best: CandidateRecord) -> Iterable[tuple[str, str]]:
    if best.method is not None:
        yield "draft", f"{name_of(best)}, {best.method.replace('_', ' ')}{_size(advice, best)}"
    plan, rate, cost = best.plan, best.acceptance, best.cost
    if plan.num_spec_tokens:
        yield "num_spec_tokens", f"{plan.num_spec_tokens}"
    elif plan.num_spec_tokens == 0 and plan.speedup_of:
        yield "num_spec_tokens", f"0: not to draft; figures are those of {plan.speedup_of}, the best that drafts"
    if plan.speedup is not None:
        yield "speed-up of decoding", _gained(plan.speedup)
    if rate is not None:
        known = "measured" if rate.measured else "as given" if best.method is None else "predicted"
        yield "acceptance rate", f"{_between(rate.rate, rate.low, rate.high, rate.level, 2)}, {known}{fades(rate.fade)}"
    if plan.mean_acceptance_length is not None:
        yield "tokens per step", f"{plan.mean_acceptance_length:.2f}"
    if cost is not None:
        yield "a drafted token costs", f"{cost.c:.2f} of a plain one{_times(best)}"
    if cost is not None and cost.ttft_overhead_ms:
        yield "time to the first token", f"{milliseconds(cost.ttft_overhead_ms / 1e3)} more, for the draft's own prompt"
    if plan.end_to_end is not None and plan.num_spec_tokens:
        whole = plan.end_to_end
        yield "a whole request", f"{whole.total:.2f} s instead of {whole.total_without:.2f} s: {whole.speedup:.2f}×"
    if best.break_even_rate is not None:
        yield "gains above", f"an acceptance rate of {best.break_even_rate:.2f}"
    verdict = best.verdict
    if verdict is not None:
        why = f": {'; '.join(verdict.reasons)}" if verdict.reasons and verdict.verdict != "accepted" else ""
        yield f"{best.engine} {verdict.version}", f"{verdict.verdict}{why}"
    if best.memory is not None and best.memory.fits is not None:
        placed = _placed_elsewhere(best)
        size = best.memory.tensor_parallel_size
        asked = f"on {size} {'device' if size == 1 else 'devices'}: " if placed else ""
        yield "memory", f"{asked}{_room(best.memory)}{f'; the speed-up is predicted on {placed}' if placed else ''}"
    if best.score is not None and best.coverage is not None:
        yield "facts", f"score {best.score:.0f} of 100; {best.coverage:.0%} of what matters could be judged"


def _size(advice: AdviceFile, one: CandidateRecord) -> str:
    size = f", {count(one.params)}" if one.params is not None else ""
    target, draft = advice.target, one.model
    if target is None or draft is None or not target.params_read or not draft.params_read:
        return size
    times = target.params_read / draft.params_read
    return f"{size}; the target reads {times:.{0 if times >= 9.95 else 1}f} times as many parameters per token"


def _times(one: CandidateRecord) -> str:
    cost = one.cost
    if cost is None or cost.target_ms is None or cost.draft_ms is None:
        return ""
    load = f" at {cost.num_seqs} sequences at once" if (cost.num_seqs or 1) > 1 else ""
    plain = f"{milliseconds(cost.target_ms / 1e3)}{load}"
    if not cost.draft_ms and cost.draft_first_ms:
        return f": {milliseconds(cost.draft_first_ms / 1e3)} for all of a step at once, against {plain}"
    if not cost.draft_ms and cost.c:
        return f", its verification included; a plain one takes {plain}"
    return f": {milliseconds(cost.draft_ms / 1e3)} against {plain}"


def _room(memory: MemoryRecord) -> str:
    """Whether it fits, and for how many sequences there is room."""
    free = memory.per_device_bytes.free
    waits = not memory.fits and bool(memory.max_num_seqs)
    words = "fits" if memory.fits else "does not hold all sequences at once, the rest wait" if waits else "does not fit"
    if free is not None:
        words += f", {_gib(abs(free))} GiB of each device {'free' if free >= 0 else 'missing'}"
    if memory.max_num_seqs is not None:
        words += f"; room for {memory.max_num_seqs:,} full-length sequences at once"
        without = memory.max_num_seqs_without_draft
        words += f", {without:,} without the draft" if without is not None else ""
    if not memory.fits and memory.min_tensor_parallel_size is not None:
        words += f"; it takes {memory.min_tensor_parallel_size} devices"
    return words


def _placed_elsewhere(best: CandidateRecord | None) -> int | None:
    """The devices that the speed-up is predicted on, where the memory is told for another number of them."""
    if best is None or best.memory is None or best.cost is None:
        return None
    asked, placed = best.memory.tensor_parallel_size, best.cost.tensor_parallel_size
    return placed if asked is not None and placed != asked else None


# ---------------------------------------------------------------------- the candidates


def _ranking(advice: AdviceFile, shown: Sequence[CandidateRecord]) -> Iterable[Section]:
    if advice.target is None:
        return
    free = [one for one in advice.draft_free if one.viable]
    blocks: list[Block] = []
    if shown or free:
        figures, reasons = _candidates(advice, [*shown, *free])
        blocks += [figures, Paragraph(_COLUMNS, "note"), reasons]
    rest = advice.viable[len(shown) :]
    if advice.left_out:
        counts = ", ".join(f"{number} {reason}" for reason, number in sorted(advice.left_out.items()))
        blocks.append(Paragraph(f"Not listed one by one: {counts}.", "note"))
    if blocks:
        yield Section("Candidates", blocks)
    if rest:
        yield Section(f"{len(rest)} more that fit less well", _candidates(advice, rest), folded=True)


_COLUMNS = (
    "accept: rate at which drafted tokens are accepted; cost: of a drafted token, in plain ones; GiB: what the draft "
    "adds to each device, its cache included; score: how well the facts fit, of 100."
)


def _candidates(advice: AdviceFile, shown: Sequence[CandidateRecord]) -> tuple[Table, Table]:
    """The figures of each, and what matters most: a table of its own, where those alike stand together."""
    levels = {one.plan.speedup.level for one in shown if one.plan.speedup is not None}
    engine = "verdict" if advice.engine is not None else "engine"
    header = ("rank", "draft", "size", _gain_heading(levels), "k", "accept", "cost", "GiB", "score", engine)
    figures = Table(header, [_row(advice, one) for one in shown], numeric=frozenset({0, 2, 3, 4, 5, 6, 7, 8}))
    reasons: dict[str, list[CandidateRecord]] = {}
    for one in shown:
        reasons.setdefault(one.reason, []).append(one)
    rows = [(", ".join(str(one.rank) for one in alike), reason) for reason, alike in reasons.items()]
    return figures, Table(("rank", "what matters most"), rows)


def _row(advice: AdviceFile, one: CandidateRecord) -> tuple[str, ...]:
    plan, verdict = one.plan, one.verdict
    words: str = verdict.verdict if verdict is not None else "-"
    if advice.engine is None and verdict is not None:
        words = one.engine or "" if verdict.verdict == "accepted" else f"{one.engine} ({verdict.verdict})"
    drafting = one.draft is not None or one.method == "mtp"
    return (
        str(one.rank),
        name_of(one),
        count(one.params) if one.params is not None else "-",
        _briefly(plan.speedup) if plan.speedup is not None else "-",
        str(plan.num_spec_tokens or plan.speedup_of or "-"),
        f"{one.acceptance.rate:.2f}" if one.acceptance is not None else "-",
        f"{one.cost.c:.2f}" if one.cost is not None else "-",
        _added(one),
        f"{one.score:.0f}" if one.score is not None and drafting else "-",
        words,
    )


def _added(one: CandidateRecord) -> str:
    """What a draft adds to the memory of each device, its cache included."""
    parts = one.memory.per_device_bytes if one.memory is not None else None
    if parts is None or not one.needs_draft or parts.draft_weights is None or parts.draft_kv is None:
        return "-"
    return _gib(parts.draft_weights + parts.draft_kv)


def _left_out(advice: AdviceFile) -> Iterable[Section]:
    """Those that were rejected: drafts with one and the same reason stand together."""
    groups: dict[str, list[CandidateRecord]] = {}
    refused = [one for one in advice.draft_free if one.viable is False]
    rejected = [*(advice.rejected if advice.command != "check" else ()), *refused]
    for one in rejected:
        groups.setdefault(one.reason.replace(one.label, "it"), []).append(one)
    if groups:
        rows = [
            (", ".join(name_of(one) for one in group), group[0].reason + _elsewhere(group[0]))
            for group in groups.values()
        ]
        title = f"{len(rejected)} that look right but do not fit"
        yield Section(title, [Table(("draft", "why not"), rows)], folded=True)


def _elsewhere(one: CandidateRecord) -> str:
    """Which engines take what the asked one refuses, where no rule speaks against the pair itself."""
    if any(finding.outcome == "reject" and finding.ignored_because is None for finding in one.findings):
        return ""
    taken = {"accepted": "accepted by", "care": "with care by"}
    by = {word: [key for key, found in one.engines.items() if found.verdict == word] for word in taken}
    said = [f"{words} {', '.join(by[word])}" for word, words in taken.items() if by[word]]
    return f" ({'; '.join(said)})" if said else ""


# ---------------------------------------------------------------------- what it gains


def _gains(advice: AdviceFile, shown: Sequence[CandidateRecord], best: CandidateRecord | None) -> Iterable[Section]:
    blocks = [*_curve(best), *_plane(advice, shown)]
    if blocks:
        yield Section("What it gains", blocks)


def _curve(best: CandidateRecord | None) -> Iterable[Block]:
    rows = best.plan.by_k if best is not None else None
    if best is None or not rows:
        return
    speedup = best.plan.speedup
    level = speedup.level if speedup is not None else None
    chosen = best.plan.num_spec_tokens
    bounded = any(row.low < row.high for row in rows)
    table = Table(
        ("k", "tokens per step", _gain_heading({level}) if bounded else "speed-up"),
        [(_k(row, chosen), f"{row.mean_acceptance_length:.2f}", _row_gain(row, bounded=bounded)) for row in rows],
        numeric=frozenset({0, 1, 2}),
    )
    curve = Curve(
        [row.k for row in rows],
        [row.speedup for row in rows],
        [row.low for row in rows],
        [row.high for row in rows],
        chosen,
        level if level is not None else 0.0,
    )
    top = max((row for row in rows if row.k), key=lambda row: row.speedup, default=rows[0])
    words = f"{best.label}: at best {top.speedup:.2f}× the plain decoding speed, with {_tokens(top.k)} drafted per step"
    said = f"{words}; k = {chosen} is chosen." if chosen is not None and chosen != top.k else f"{words}."
    yield Chart("Speed-up over num_spec_tokens (k)", said, curve, table)
    if best.method is None:
        independent = "Tokens per step count the target's own and assume independent acceptances, which errs upward."
        yield Paragraph(independent, "note")


def _tokens(k: int) -> str:
    return f"{k} token{'s' if k != 1 else ''}"


def _k(row: KRecord, chosen: int | None) -> str:
    return f"{row.k} ◀" if row.k == chosen else str(row.k)


def _row_gain(row: KRecord, *, bounded: bool) -> str:
    if not row.k:
        return "1.00× (plain)"
    return f"{row.speedup:.2f}× ({row.low:.2f}–{row.high:.2f})" if bounded else f"{row.speedup:.2f}×"


def _plane(advice: AdviceFile, shown: Sequence[CandidateRecord]) -> Iterable[Block]:
    known = [one for one in shown if one.acceptance is not None and one.cost is not None]
    if len(known) < 2:
        return
    names = short_names([one.label for one in known])
    best = known[0] if advice.decision.action != "do_not_speculate" and known[0] is _best(advice) else None
    points = [
        Point(name, one.cost.c, one.acceptance.rate, one.acceptance.low, one.acceptance.high, one is best)
        for name, one in zip(names, known, strict=True)
        if one.acceptance is not None and one.cost is not None
    ]
    table = Table(
        ("draft", "cost ratio c", "acceptance rate", "low", "high"),
        [
            (point.label, f"{point.c:.2f}", *(f"{x:.2f}" for x in (point.rate, point.low, point.high)))
            for point in points
        ],
        numeric=frozenset({1, 2, 3, 4}),
    )
    cheap, sure = min(points, key=lambda point: point.c), max(points, key=lambda point: point.rate)
    said = f"The cheapest is {cheap.label} (c = {cheap.c:.2f}), the most accepted {sure.label} ({sure.rate:.2f})."
    yield Chart("Drafts by cost and acceptance", said, Plane(points), table)


def _schedule(best: CandidateRecord | None) -> Iterable[Section]:
    if best is None or not best.plan.schedule:
        return
    rows = [
        (f"{low} to {high}" if low < high else str(low), str(k) if k else "0 (do not draft)")
        for low, high, k in best.plan.schedule
    ]
    table = Table(("sequences at once", "num_spec_tokens"), rows, numeric=frozenset({0, 1}))
    yield Section("num_spec_tokens by load", [table])


def _policies(advice: AdviceFile) -> Iterable[Section]:
    rows = [
        (
            row.policy,
            _value(row.mean_acceptance_length),
            f"{row.drafted_per_step:.2f}",
            f"{'≈ ' if row.estimated else ''}{_gained(row.speedup, level=False) if row.speedup is not None else '-'}",
            row.what,
        )
        for row in advice.policies
    ]
    header = ("length of drafts", "tokens per step", "drafted", "speed-up", "rule")
    if rows:
        yield Section("Adaptive lengths, replayed on the trace", [Table(header, rows, numeric=frozenset({1, 2, 3}))])


# ---------------------------------------------------------------------- memory

_PARTS = {
    "target weights": "target_weights",
    "draft weights": "draft_weights",
    "target KV cache": "target_kv",
    "draft KV cache": "draft_kv",
    "workspace": "verify_workspace",
    "reserve": "reserve",
}


def _memory(advice: AdviceFile, best: CandidateRecord | None) -> Iterable[Section]:
    first = [best] if best is not None else []
    others = [one for one in advice.viable if one is not best] if advice.command != "check" else []
    held = [(one, one.memory) for one in [*first, *others[: BARS - 1]] if one.memory is not None]
    known = {
        name: key for name, key in _PARTS.items() if held and getattr(held[0][1].per_device_bytes, key) is not None
    }
    if not held or not known:
        return
    names = short_names([one.label for one, _ in held])
    keys = (*_PARTS.values(), "free")
    whole = all(getattr(memory.per_device_bytes, key) is not None for _, memory in held for key in keys)
    rows = [[name, *(_gib(getattr(memory.per_device_bytes, key)) for _, memory in held)] for name, key in known.items()]
    if whole:
        left = [_left(memory) for _, memory in held]
        rows += [[name, *(one[place] for one in left)] for place, name in enumerate(_LEFT)]
    table = Table(["with", *names], rows, numeric=frozenset(range(1, len(names) + 1)))
    title, placed = _where(advice, whole=whole), _placed_elsewhere(best)
    if placed:
        title += f"; the speed-up is predicted on {placed} of them"
    yield Section("Memory", [_bars(title, names, held, table) if whole else table._replace(title=title)])


def _where(advice: AdviceFile, *, whole: bool) -> str:
    if whole and advice.device is not None:
        return f"GiB of each of {advice.device.count} × {advice.device.id}, estimated"
    devices = advice.setting.tensor_parallel_size if advice.setting is not None else 1
    return f"GiB if split over {devices} devices, estimated" if devices > 1 else "GiB, estimated"


_LEFT = ("free", "fits", "sequences at once", "without the draft")


def _left(memory: MemoryRecord) -> list[str]:
    fits = {True: "yes", False: "no", None: "?"}[memory.fits]
    seats = (memory.max_num_seqs, memory.max_num_seqs_without_draft)
    return [_gib(memory.per_device_bytes.free), fits, *(f"{one:,}" if one is not None else "?" for one in seats)]


def _bars(
    title: str,
    names: Sequence[str],
    held: Sequence[tuple[CandidateRecord, MemoryRecord]],
    table: Table,
) -> Chart:
    parts = {
        name: [(getattr(memory.per_device_bytes, key) or 0) / 2**30 for _, memory in held]
        for name, key in _PARTS.items()
    }
    # What the framework sees of a device is less than what its name says.
    capacity = sum(values[0] for values in parts.values()) + (held[0][1].per_device_bytes.free or 0) / 2**30
    said = f"With {held[0][0].label} it {_room(held[0][1])}."
    return Chart(title, said, MemoryBars(names, parts, capacity), table)


# ---------------------------------------------------------------------- findings and engines

_ORDER = {"reject": 0, "warn": 1, "ok": 2, "skip": 3}
_AGAINST = frozenset({"reject", "warn"})


def _against(best: CandidateRecord | None) -> Iterable[Section]:
    against = [one for one in _sorted(best.findings) if one.outcome in _AGAINST] if best is not None else []
    if best is not None and against:
        yield Section(f"What speaks against {name_of(best)}", [_findings_table(against)])


def _issues(shown: Sequence[CandidateRecord], best: CandidateRecord | None) -> Iterable[Section]:
    """What others met with the drafts shown, in the engine they are shown for: one row a trouble."""
    having: dict[str, list[CandidateRecord]] = {}
    known: dict[str, KnownIssueRecord] = {}
    for one in [*([best] if best is not None else []), *(one for one in shown if one is not best)]:
        for issue in one.known_issues:
            known.setdefault(issue.key, issue)
            having.setdefault(issue.key, []).append(one)
    rows = [
        (", ".join(map(name_of, having[key])), issue.engine, issue.kind.replace("_", " "), issue.sentence, issue.source)
        for key, issue in known.items()
    ]
    if rows:
        header = ("draft", "engine", "kind", "what others met, and what to do", "report")
        yield Section("Known troubles", [Table(header, rows)])


def _findings(best: CandidateRecord | None) -> Iterable[Section]:
    rest = [one for one in _sorted(best.findings) if one.outcome not in _AGAINST] if best is not None else []
    if best is not None and rest:
        yield Section(f"{len(rest)} other findings about {name_of(best)}", [_findings_table(rest)], folded=True)


def _cautions(
    advice: AdviceFile, shown: Sequence[CandidateRecord], best: CandidateRecord | None, *, explain: bool
) -> Iterable[Section]:
    """What the others have against them; with `explain` every finding about them."""
    others = [one for one in shown if one is not best and one.findings]
    if explain:
        others += [one for one in advice.rejected if advice.command != "check"]
        tables = [_findings_table(_sorted(one.findings))._replace(title=name_of(one)) for one in others]
        if tables:
            yield Section(f"All findings about the {len(others)} others", tables, folded=True)
        return
    rows = [
        (name_of(one), finding.rule, finding_text(finding))
        for one in others
        for finding in _sorted(one.findings)
        if finding.outcome == "warn"
    ]
    if rows:
        yield Section("Cautions about the others", [Table(("draft", "rule", "what was seen"), rows)], folded=True)


def _sorted(findings: Iterable[FindingRecord]) -> list[FindingRecord]:
    return sorted(findings, key=lambda one: (_ORDER[one.outcome], -(one.weight or 0), one.rule))


def _findings_table(findings: Iterable[FindingRecord]) -> Table:
    return Table(("finding", "rule", "what was seen"), [(one.outcome, one.rule, finding_text(one)) for one in findings])


def _engines(best: CandidateRecord | None) -> Iterable[Section]:
    if best is not None and best.engines:
        rows = [(key, one.version, one.verdict, "; ".join(one.reasons)) for key, one in best.engines.items()]
        table = Table(("engine", "version", "verdict", "why"), rows)
        yield Section(f"What each engine says of {name_of(best)}", [table], folded=True)


# ---------------------------------------------------------------------- what it rests on


def _evidence(advice: AdviceFile, best: CandidateRecord | None) -> Iterable[Section]:
    yield Section("Evidence and provenance", [Table(("what", "from"), [*_rests_on(advice, best)])])


def _rests_on(advice: AdviceFile, best: CandidateRecord | None) -> Iterable[tuple[str, str]]:
    yield "kind of evidence", _kind(advice, best)
    if best is not None and best.acceptance is not None:
        yield "acceptance", best.acceptance.source
    if best is not None and best.cost is not None:
        yield "costs", _costs_from(best)
    for role, model in (("target", advice.target), ("draft", best.model if best is not None else None)):
        if model is not None:
            yield role, f"{model.id}, {_revision(model.revision)}, facts from: {model.origin}"
    if best is not None and best.head is not None:
        pairing = f"; pairing: {best.head.confidence}" if best.head.confidence is not None else ""
        yield "head", f"{best.head.id}, {best.head.method}, made for {best.head.target}{pairing}"
    if advice.engine is not None:
        yield "engine", f"{advice.engine.id} {advice.engine.version}"
    if advice.device is not None:
        said = "assumed: none was named" if advice.device.assumed else advice.device.note
        assumed = f" ({said})" if said else ""
        yield "device", f"{advice.device.count} × {advice.device.id}, {advice.device.name}{assumed}"
    if advice.target is not None and (best is None or best.evidence not in MEASURED):
        yield "formats", _formats(advice)
    if advice.target is not None:
        yield "requests", _requests(advice)
    if advice.request.probe_file is not None:
        yield "measured in", advice.request.probe_file
    date = f", catalogue of {advice.tool.catalog_date}" if advice.tool.catalog_date is not None else ""
    yield "made by", f"{advice.tool.name} {advice.tool.version}{date}"


def _kind(advice: AdviceFile, best: CandidateRecord | None) -> str:
    if advice.target is None:
        return "numbers that were typed in"
    if (best is None or best.evidence == "rule") and advice.request.probe_file is not None:
        return "facts: acceptance was measured, and no speed-up could be told from it"
    if best is None or best.evidence == "rule":
        return "facts alone: nothing was measured, and no speed-up could be predicted"
    if best.cost is not None and best.cost.source == GIVEN:
        return "acceptance was measured, costs were given"
    if best.evidence in MEASURED:
        return f"{best.evidence}: acceptance and costs{' of running servers' if best.evidence == 'served' else ''}"
    measured = best.acceptance is not None and best.acceptance.measured
    return "acceptance was measured, costs are predicted" if measured else "predicted: nothing was measured"


def _costs_from(best: CandidateRecord) -> str:
    cost = best.cost
    if cost is None or cost.engine is None:
        return cost.source if cost is not None else ""
    assumed = " (assumed)" if cost.device_assumed else ""
    source = {"roofline": "a model of the device and the engine"}.get(cost.source, cost.source)
    where = f" on {cost.tensor_parallel_size} × {cost.device}{assumed}" if cost.device != BEHIND else ""
    return (
        f"{source}: {cost.engine}{where}, {cost.num_seqs} {'sequence' if cost.num_seqs == 1 else 'sequences'} at once"
    )


def _revision(revision: str | None) -> str:
    return f"revision {revision}" if revision is not None else "no revision known"


def _formats(advice: AdviceFile) -> str:
    assert advice.target is not None
    where, target = advice.setting, advice.target
    asked = {
        "dtype": where.dtype if where is not None and where.dtype is not None else target.dtype,
        "quantization": (where.quantization if where is not None else None) or target.quantization,
        "draft quantization": where.draft_quantization if where is not None else None,
        "KV cache": where.kv_cache_dtype if where is not None else None,
    }
    return ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None) or "the checkpoint's own"


def _requests(advice: AdviceFile) -> str:
    load = advice.workload
    if load is None:
        return "nothing was said of them"
    said = {
        "temperature": f"{load.temperature:g}" if load.temperature is not None else None,
        "about": load.kind,
        "input": f"{load.input_len:,} tokens" if load.input_len is not None else None,
        "output": f"{load.output_len:,} tokens" if load.output_len is not None else None,
        "at once": f"{load.max_num_seqs:,}" if load.max_num_seqs is not None else None,
        "context": f"{load.max_model_len:,} tokens" if load.max_model_len is not None else None,
    }
    return (
        ", ".join(f"{name} {value}" for name, value in said.items() if value is not None) or "nothing was said of them"
    )


def _doubts(advice: AdviceFile, best: CandidateRecord | None) -> Iterable[Section]:
    said = [*_doubts_about(advice, best)] if best is not None else []
    missing: dict[str, list[str]] = {}
    for one in advice.viable:
        if one is not best and one.plan.missing is not None:
            missing.setdefault(one.plan.missing.replace(one.label, "it"), []).append(one.label)
    for why, labels in missing.items():
        who = labels[0] if len(labels) == 1 else f"{len(labels)} drafts that fit"
        said.append(f"What {who} would gain could not be predicted: {why}")
    if said:
        yield Section("Open doubts", [Paragraph(ended(_capital(one)), "warning") for one in said])


def _doubts_about(advice: AdviceFile, best: CandidateRecord) -> Iterable[str]:
    if best.acceptance is not None:
        yield from best.acceptance.doubts
    if best.cost is not None:
        yield from best.cost.notes
    if best.plan.missing is not None:
        yield f"what it gains could not be predicted: {best.plan.missing}"
    if advice.device is not None and advice.device.assumed:
        yield f"no device was named: {advice.device.id} is assumed"
    elif advice.device is not None and advice.device.note is not None:
        yield f"device {advice.device.id} is {advice.device.note}"
    if best.tokenizer is not None and not best.tokenizer.verified and best.tokenizer.relation != "different":
        yield f"tokenizers: {best.tokenizer.reason}"
    for role, model in (("target", advice.target), ("draft", best.model)):
        if model is not None and model.uncertain:
            yield f"recalled or unverified of the {role}: {', '.join(model.uncertain)}"
    if best.memory is not None and best.memory.fits is not None:
        yield from best.memory.notes


def _repeat(advice: AdviceFile) -> Iterable[Section]:
    text = command_line(advice.request)
    if text is not None:
        yield Section("How to repeat it", [Code(text)])


def _footer(advice: AdviceFile) -> str:
    date = f", catalogue of {advice.tool.catalog_date}" if advice.tool.catalog_date is not None else ""
    return f"{advice.tool.name} {advice.tool.version}{date}; {_kind(advice, _best(advice))}."


# ---------------------------------------------------------------------- words


def name_of(one: CandidateRecord) -> str:
    """A candidate's name with what it is, where that is no draft model, and through which model it was found."""
    said = [*([one.method] if one.head is not None else []), *([f"made for {one.via}"] if one.via is not None else [])]
    return f"{one.label} ({', '.join(str(word) for word in said)})" if said else one.label


def _gain_heading(levels: Iterable[float | None]) -> str:
    known = {level for level in levels if level is not None}
    return f"speed-up ({spoken_level(known.pop())})" if len(known) == 1 else "speed-up"


def _gained(gain: GainRecord, *, level: bool = True) -> str:
    """A speed-up with its interval, and the level of that."""
    if gain.value is None:
        return f"? ({gain.low:.1f}–{gain.high:.1f})"
    if gain.low == gain.high:
        return f"{gain.value:.2f}×"
    shown = _between(gain.value, gain.low, gain.high, gain.level if level else None, 2)
    return shown.replace(" (", "× (", 1)


def _briefly(gain: GainRecord) -> str:
    """A speed-up for a narrow column."""
    return f"{f'{gain.value:.2f}×' if gain.value is not None else '?'} ({gain.low:.1f}–{gain.high:.1f})"


def _between(value: float, low: float, high: float, level: float | None, digits: int) -> str:
    if low == high:
        return f"{value:.{digits}f}"
    share = f", {spoken_level(level)} interval" if level is not None else ""
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f}{share})"


def _value(gain: GainRecord | None) -> str:
    return f"{gain.value:.2f}" if gain is not None and gain.value is not None else "-"


def _gib(value: float | None) -> str:
    if value is None:
        return "?"
    amount = value / 2**30
    if abs(amount) >= 0.05 or not amount:
        return f"{amount:.1f}"
    return f"{amount:.1g}" if abs(amount) >= 0.0005 else "0.0"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
