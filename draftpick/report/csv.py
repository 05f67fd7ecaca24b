"""Flat tables of an advice or a probe, for spreadsheets and pandas.

RFC 4180 in UTF-8, but lines end with a line feed alone, as everything else on stdout does. Texts stand in quotes,
numbers do not; null is an empty cell, and no cell holds a line break. A text that a spreadsheet would take for a
formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from draftpick.report.text import printable

if TYPE_CHECKING:
    from draftpick.advice_file import AdviceFile, CandidateRecord
    from draftpick.probe_file import DraftRecord, KRecord, LookupRecord, ProbeFile

Row = Mapping[str, Any]

ADVICE: Mapping[str, str] = {
    "target": "Its id; empty where nothing but numbers was given.",
    "rank": "By speed-up, viable ones first.",
    "draft": "Id of the draft or head; empty for a method that needs none, and for the target's own head.",
    "method": "draft_model, eagle3, mtp, ngram, …",
    "label": "What people call it.",
    "origin": "Where it was found.",
    "viable": "No rule rejects it, and an engine takes it.",
    "chosen": "The decision is about it.",
    "score": "How well the facts fit, of 100.",
    "coverage": "Share of what matters that could be judged.",
    "reason": "What matters most.",
    "params": "Parameters of what it adds.",
    "evidence": "measured, roofline or rule.",
    "acceptance_rate": "α.",
    "acceptance_low": "Lower bound of α.",
    "acceptance_high": "Upper bound of α.",
    "acceptance_level": "Level of that interval.",
    "acceptance_measured": "By a probe.",
    "acceptance_source": "What it rests on, in words.",
    "num_spec_tokens": "The k to use; 0: not to draft.",
    "mean_acceptance_length": "τ at k = speedup_k, the target's own token included.",
    "speedup_k": "The k that length and speed-up are of: the best one that drafts.",
    "speedup": "Of decoding; empty where only its bounds are known.",
    "speedup_low": "Its lower bound.",
    "speedup_high": "Its upper bound.",
    "speedup_level": "Level of that interval.",
    "c": "A drafted token over a plain one.",
    "target_ms": "A plain token.",
    "draft_first_ms": "The first drafted token.",
    "draft_ms": "Every further drafted token.",
    "verify_ms": "The target over speedup_k + 1 positions.",
    "overhead_ms": "What a step adds besides.",
    "ttft_overhead_ms": "What the draft's own prompt adds to the time to the first token.",
    "cost_source": "roofline, measured, served, given, or a sentence for numbers that were typed in.",
    "cost_engine": "The engine that the costs are of.",
    "cost_device": "The device that they are of.",
    "tensor_parallel_size": "Devices that they hold for.",
    "num_seqs": "Sequences at once.",
    "fits": "Pair and caches have room.",
    "target_weights_bytes": "On each device, as all that follow.",
    "draft_weights_bytes": "The draft's, or the head's.",
    "target_kv_bytes": "KV cache of all sequences asked for.",
    "draft_kv_bytes": "The same of the draft.",
    "reserve_bytes": "What the engine leaves alone, and what it runs in.",
    "free_bytes": "Below zero: what is missing.",
    "max_num_seqs": "Sequences of the length asked for that have room at once.",
    "max_num_seqs_without_draft": "The same without it.",
    "min_tensor_parallel_size": "Fewest devices that hold what is asked for.",
}
"""Columns of an advice, a row per candidate; behind them one for each engine, verdict_vllm and so on."""

PROBE: Mapping[str, str] = {
    "target": "Its id.",
    "draft": "Its id; empty for a method that copies from the text.",
    "method": "draft_model, ngram, suffix, …",
    "temperature": "Of the text.",
    "way": "How the draft proposes and is verified.",
    "k": "num_spec_tokens.",
    "chosen": "The k that is best for this draft with the costs at hand; empty without them.",
    "num_prompts": "Prompts that it rests on.",
    "num_tokens": "Of the target's text.",
    "acceptance_rate": "α: the same in all rows of a draft.",
    "acceptance_low": "Lower bound of α.",
    "acceptance_high": "Upper bound of α.",
    "acceptance_level": "Level of that interval.",
    "mean_acceptance_length": "τ: tokens per step, the target's own included.",
    "mean_acceptance_length_low": "Its lower bound.",
    "mean_acceptance_length_high": "Its upper bound.",
    "mean_acceptance_length_level": "Level of that interval.",
    "visible_length": "Tokens per step for answers of these lengths, the last and shorter steps included.",
    "draft_acceptance_rate": "Accepted over drafted: falls with k.",
    "conditional_rate": "Accepted over tested.",
    "position_marginal": "Position k is accepted: over all steps, at the largest k.",
    "position_conditional": "Position k is accepted: over the steps that reach it.",
    "num_drafts": "Expected number of steps.",
    "num_draft_tokens": "Expected count, as the next.",
    "num_accepted_tokens": "Without the target's own.",
    "speedup": "Of decoding; empty without costs.",
    "speedup_low": "Its lower bound.",
    "speedup_high": "Its upper bound.",
    "speedup_level": "Level of that interval.",
    "c": "A drafted token over a plain one.",
    "target_ms": "A plain token.",
    "draft_first_ms": "The first drafted token.",
    "draft_ms": "Every further drafted token.",
    "verify_ms": "The target over k + 1 positions.",
    "overhead_ms": "What a step adds besides.",
    "cost_source": "measured, served or given.",
    "num_seqs": "Sequences at once, that costs and speed-up are of.",
    "device": "As torch names it.",
    "engine": "Whose way to draft the figures hold for.",
}
"""Columns of a probe: a row per draft, temperature and k, then what needs no draft, then pairs of two tokenizers."""


def render(document: AdviceFile | ProbeFile) -> str:
    """The table of a document: a row of names, then the rows."""
    if document.kind == "probe":
        return _text(list(PROBE), _probe(document))
    engines = list(dict.fromkeys(key for one in document.candidates for key in one.engines))
    rows = (_candidate(document, one) for one in document.candidates)
    return _text([*ADVICE, *(f"verdict_{key}" for key in engines)], rows)


def _text(names: Sequence[str], rows: Iterable[Row]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return written.getvalue()


# Those of East Asian keyboards do the same in their spreadsheets. Tabs and carriage returns are spelled out before.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def _cell(value: str | float | None) -> str | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    shown = printable(value)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _interval(name: str, found: Any, value: str = "value") -> Row:
    """The columns of a value with its bounds and level."""
    if found is None:
        return {}
    bounds = {f"{name.removesuffix('_rate')}_{part}": getattr(found, part) for part in ("low", "high", "level")}
    return {name: getattr(found, value), **bounds}


# ---------------------------------------------------------------------- an advice


def _candidate(advice: AdviceFile, one: CandidateRecord) -> Row:
    decision = advice.decision
    asked = (decision.method, decision.draft)
    return {
        "target": advice.target.id if advice.target is not None else None,
        **{name: getattr(one, name) for name in ("rank", "draft", "method", "label", "origin", "viable")},
        "chosen": decision.action == "speculate" and (one.method, one.draft) == asked,
        **{name: getattr(one, name) for name in ("score", "coverage", "reason", "params", "evidence")},
        **_interval("acceptance_rate", one.acceptance, "rate"),
        **_named("acceptance_", one.acceptance, ("measured", "source")),
        "num_spec_tokens": one.plan.num_spec_tokens,
        "mean_acceptance_length": one.plan.mean_acceptance_length,
        "speedup_k": one.plan.speedup_of,
        **_interval("speedup", one.plan.speedup),
        **_costs(one),
        **_memory(one),
        **{f"verdict_{key}": found.verdict for key, found in one.engines.items()},
    }


def _named(prefix: str, record: Any, fields: Iterable[str]) -> Row:
    return {f"{prefix}{name}": getattr(record, name) for name in fields} if record is not None else {}


_PARTS = ("c", "target_ms", "draft_first_ms", "draft_ms", "overhead_ms")


def _costs(one: CandidateRecord) -> Row:
    if one.cost is None:
        return {}
    verified = one.plan.speedup_of
    return {
        **_named("", one.cost, (*_PARTS, "ttft_overhead_ms", "tensor_parallel_size", "num_seqs")),
        **_named("cost_", one.cost, ("source", "engine", "device")),
        "verify_ms": _at(one.cost.verify_ms, verified),
    }


def _memory(one: CandidateRecord) -> Row:
    if one.memory is None:
        return {}
    parts = one.memory.per_device_bytes
    return {
        **_named("", one.memory, ("fits", "max_num_seqs", "max_num_seqs_without_draft", "min_tensor_parallel_size")),
        **{f"{name}_bytes": getattr(parts, name) for name in _HELD},
    }


_HELD = ("target_weights", "draft_weights", "target_kv", "draft_kv", "reserve", "free")


def _at(values: Sequence[float | None], place: int | None) -> float | None:
    return values[place] if place is not None and 0 <= place < len(values) else None


# ---------------------------------------------------------------------- a probe


def _probe(probe: ProbeFile) -> Iterable[Row]:
    place = {"target": probe.target.id, "device": probe.device.id, "engine": probe.engine}
    for one in probe.drafts:
        yield from ({**place, **_k(one, row)} for row in one.by_k)
    for lookup in probe.draft_free:
        yield {**place, **_lookup(lookup)}
    for pair in probe.translated:
        names = {"draft": pair.draft, "method": pair.method, "num_prompts": pair.num_prompts}
        yield from ({**place, **names, **_named("", row, _OF_TRANSLATED)} for row in pair.by_k)


_OF_TRANSLATED = ("k", "mean_acceptance_length", "speedup")


def _k(one: DraftRecord, row: KRecord) -> Row:
    costs = one.costs[0] if one.costs else None  # those that plan and speed-ups are made with
    return {
        **{name: getattr(one, name) for name in ("draft", "method", "temperature", "way", "num_prompts", "num_tokens")},
        "chosen": one.plan.num_spec_tokens == row.k if one.plan is not None else None,
        **_interval("acceptance_rate", one.acceptance_rate),
        **{name: getattr(row, name) for name in _OF_K},
        "mean_acceptance_length_level": one.level,
        "position_marginal": _at(one.position_rates.marginal, row.k - 1),
        "position_conditional": _at(one.position_rates.conditional, row.k - 1),
        **_interval("speedup", row.speedup),
        **(_named("", costs, (*_PARTS, "num_seqs"))),
        "verify_ms": _at(costs.verify_ms, row.k) if costs is not None else None,
        "cost_source": costs.source if costs is not None else None,
    }


_OF_K = (
    "k",
    "mean_acceptance_length",
    "mean_acceptance_length_low",
    "mean_acceptance_length_high",
    "visible_length",
    "draft_acceptance_rate",
    "conditional_rate",
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
)


def _lookup(row: LookupRecord) -> Row:
    names = ("method", "temperature", "mean_acceptance_length", "draft_acceptance_rate")
    return {
        **{name: getattr(row, name) for name in names},
        "k": row.num_spec_tokens,
        **_interval("speedup", row.speedup),
    }
