"""What a pair did before, what it does now, and whether the difference is more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from draftpick.choices import GATE
from draftpick.errors import InvalidFile
from draftpick.gate_file import BaselineFile, BaselineRow, GateFile, PairRow, PromptSums
from draftpick.gating.evidence import Measured
from draftpick.probe_file import IntervalRecord
from draftpick.speedup import Interval, rescaled

if TYPE_CHECKING:
    from draftpick.intervals import Sums

_SHOWN = 16
"""Hex digits of a prompt's hash: enough to tell thousands apart."""


def row_of(pair: PairRow, measured: Measured, k: int | None) -> BaselineRow:
    """What would be a pair's baseline from now on; `k` is the num_spec_tokens it is used with."""
    probe, record = measured.probe, measured.record
    length = record.by_k[k] if k is not None and k < len(record.by_k) else None
    return BaselineRow(
        target=pair.target,
        draft=pair.draft,
        created=probe.created,
        temperature=record.temperature,
        way=record.way,
        engine=probe.engine,
        max_new_tokens=_whole(probe.sampling.get("max_new_tokens")),
        prompts=str(probe.prompts.get("source", "?")),
        num_prompts=record.num_prompts,
        num_spec_tokens=k,
        acceptance_rate=record.acceptance_rate,
        mean_acceptance_length=(
            IntervalRecord(
                value=length.mean_acceptance_length,
                low=length.mean_acceptance_length_low,
                high=length.mean_acceptance_length_high,
                level=record.level,
            )
            if length is not None
            else None
        ),
        speedup=length.speedup if length is not None else None,
        by_prompt=_by_prompt(measured),
    )


def _by_prompt(measured: Measured) -> dict[str, PromptSums]:
    """What was accepted of each prompt's answer; nothing where the trace is gone."""
    if measured.trace is None:
        return {}
    from draftpick.probing import result
    from draftpick.probing.trace import read

    trace, record = read(measured.trace), measured.record
    first = result.first_position(measured.probe.engine)
    way = next((one for one in result.proposals(record.temperature) if one.key == record.way), None)
    if way is None:
        raise InvalidFile(
            f"{measured.path}: nothing drafts by {record.way} at temperature {record.temperature:g}",
            "the file was changed by hand: probe again",
        )
    rows = [row._replace(prompt=row.digest) for row in trace.rows]
    sums = result.sums_by_prompt(rows, record.draft, record.temperature, way, first=first)
    return {
        name[:_SHOWN]: PromptSums(domain=domain, accepted=round(float(y), 6), positions=float(x))
        for name, domain, y, x in zip(sums.prompts, sums.strata, sums.y, sums.x, strict=True)
    }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def taken_otherwise(old: BaselineRow, new: BaselineRow) -> str:
    """In what the two were measured differently, so that nothing can be compared; empty where in nothing."""
    compared = (
        ("temperature", f"{old.temperature:g}", f"{new.temperature:g}"),
        ("drafting", old.way, new.way),
        ("drafting as", old.engine, new.engine),
        ("longest answers", str(old.max_new_tokens or "?"), str(new.max_new_tokens or "?")),
        ("prompts", old.prompts, new.prompts),
    )
    return "; ".join(f"{name} {before} then, {now} now" for name, before, now in compared if before != now)


def difference_of(new: BaselineRow, old: BaselineRow) -> tuple[Interval, str]:
    """Acceptance rate of `new` minus that of `old`, and how they were compared: by prompt where that tells more."""
    from draftpick.intervals import paired_difference, ratio_interval, unpaired_difference

    level = GATE["level"]
    ours, theirs = _sums(new.by_prompt), _sums(old.by_prompt)
    if ours is None or theirs is None:
        now, before = rescaled(_plain(new.acceptance_rate), level), rescaled(_plain(old.acceptance_rate), level)
        how = f"{new.num_prompts} prompts against {old.num_prompts}, unpaired"
        return unpaired_difference(now, before, level), how
    # A single prompt bounds nothing but what a rate can be.
    now_known, before_known = ratio_interval(ours, level, (0.0, 1.0)), ratio_interval(theirs, level, (0.0, 1.0))
    assert now_known is not None, "positions were counted"
    assert before_known is not None, "positions were counted"
    apart = unpaired_difference(now_known, before_known, level)
    common = len(set(ours.prompts) & set(theirs.prompts))
    paired = paired_difference(ours, theirs, level) if common >= GATE["common-prompts"] else None
    # A few common prompts among many say less than all of both.
    if paired is not None and paired.high - paired.low <= apart.high - apart.low:
        return paired, f"paired over {common} prompts"
    return apart, f"{len(ours.prompts)} prompts against {len(theirs.prompts)}{'' if common else ' others'}"


def _sums(by_prompt: Mapping[str, PromptSums]) -> Sums | None:
    """The sums by prompt; None where nothing was counted."""
    import numpy as np

    from draftpick.intervals import Sums

    rows = [(name, one) for name, one in by_prompt.items() if one.positions > 0]
    if not rows:
        return None
    return Sums(
        tuple(name for name, _ in rows),
        tuple(one.domain for _, one in rows),
        np.array([one.accepted for _, one in rows]),
        np.array([one.positions for _, one in rows]),
    )


def _plain(record: IntervalRecord) -> Interval:
    return Interval(record.value, record.low, record.high, record.level)


def updated(
    baseline: BaselineFile, result: GateFile, rows: Mapping[str, BaselineRow], names: Iterable[str]
) -> BaselineFile:
    """The baseline with the new rows of pairs that pass; rows of pairs that the policy no longer has are dropped."""
    there = set(names)
    kept = {name: row for name, row in baseline.pairs.items() if name in there}
    passing = {one.name for one in result.pairs if one.passed}
    return baseline.model_copy(update={"pairs": {**kept, **{name: rows[name] for name in rows if name in passing}}})
