"""What a probe measured of a pair: it replaces what facts would predict, and never blends with it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from draftpick.acceptance import Acceptance, Basis
from draftpick.catalog import Catalog
from draftpick.choices import COSTS
from draftpick.cost import Costs
from draftpick.errors import DraftpickError
from draftpick.models.tokenizer import Relation
from draftpick.pair import DRAFT_FREE, GIVEN, Device, Setting
from draftpick.speedup import Interval, StepTimes, rescaled

if TYPE_CHECKING:
    from draftpick.probe_file import CostRecord, DraftRecord, IntervalRecord, LookupRecord, ProbeFile

PREDICTED_LEVEL = 0.80
UNLISTED = "measured"
"""The vendor of a device that the catalogue lacks."""
_LOOKUPS = {"ngram": "ngram of transformers"}
"""Methods without a draft of which transformers has a variant of its own, and how a probe names that."""


class Evidence(NamedTuple):
    """What one draft, or a method without one, did for the target's own text at one temperature."""

    draft: str
    """Or the method that needs none."""
    temperature: float
    rate: Interval
    """Without a draft, the chance that a step gets its first token, whether something was found to copy or not."""
    lengths: tuple[Interval, ...]
    """τ with its interval for k = 0, 1, …"""
    engine: str
    """Key of the engine in which the costs hold."""
    first: int
    """The first drafted position that was replayed: 1 as in transformers, 2 as in the others."""
    way: str
    """How the draft proposes, as the probe file names it; the method where there is no draft."""
    others: Mapping[str, tuple[Interval, tuple[Interval, ...]]]
    """Other ways → rate and lengths."""
    device: Device
    """What it was measured on: as the catalogue has it, or by the name the framework gives it."""
    devices: int
    dtype: str
    costs: Mapping[int, Costs]
    """Sequences at once → measured costs; empty where none were timed."""
    spread: float
    """Half-width of ln(step time) at 95 %."""
    num_prompts: int
    source: str
    doubts: tuple[str, ...] = ()
    """What makes the figures unsure, in words."""
    served: bool = False
    """Whether servers were asked: their engine and, where it was named, their device are where the pair runs."""
    suspect: str = ""
    """A self-check that failed: then nothing is decided by these figures."""
    whole_steps: bool = False
    """The costs are those of whole steps: drafting is within what stands as verification."""
    anywhere: bool = False
    """Somebody said that the costs hold, whatever device is named."""

    @property
    def acceptance(self) -> Acceptance:
        """As a prediction holds it."""
        return Acceptance(self.rate.value, self.rate.low, self.rate.high, self.rate.level)

    @property
    def basis(self) -> Basis:
        """What it rests on, in words."""
        return Basis(self.source, ())

    def drafting_as(self, engine: str) -> Evidence:
        """The same text as that engine would draft it: transformers samples where the text is, others do not."""
        way = self.draft if self.draft in DRAFT_FREE else "first_choice"
        if self.draft in DRAFT_FREE and engine == "transformers":
            way = _LOOKUPS.get(self.draft, way)
        elif engine == "transformers" and self.temperature > 0:
            way = "sampled_twice" if "sampled_twice" in (self.way, *self.others) else "sampled"
        if way == self.way or way not in self.others:
            return self
        rate, lengths = self.others[way]
        return self._replace(way=way, rate=rate, lengths=lengths)

    def priced_here(self, setting: Setting, engine: str) -> Costs | None:
        """The measured costs where a setting asks for no other place; None where they hold for another one."""
        batch = setting.max_num_seqs or min(self.costs, default=1)
        if self.anywhere:
            return self.costs.get(batch) if engine == self.engine else None
        named = setting.device.key if setting.device is not None else self.device.key
        elsewhere = named != self.device.key or setting.bandwidth is not None or setting.memory is not None
        if elsewhere or engine != self.engine or setting.tensor_parallel_size not in (1, self.devices):
            return None
        formats = (setting.quantization, setting.draft_quantization, setting.kv_cache_dtype)
        if any(one is not None for one in formats) or setting.dtype not in (None, self.dtype):
            return None
        return self.costs.get(batch)

    def lengths_at(self, level: float) -> list[Interval]:
        """τ with intervals of another level."""
        return [rescaled(length, level) for length in self.lengths]


class PolicyRow(NamedTuple):
    """What one rule for the length of drafts does."""

    name: str
    what: str
    length: Interval | None
    """Tokens per step."""
    drafted: float
    """Tokens drafted per step."""
    speedup: Interval | None
    estimated: bool
    """How many tokens a confidence stop wastes behind a miss is an estimate, and so is its speed-up."""


def spread_of(evidence: Evidence, *, measured: bool) -> float:
    """Half-width of ln(step time), at the level that goes with measured or with predicted costs."""
    return evidence.spread if measured else COSTS["cost_error"]


def times_of(costs: Costs) -> StepTimes:
    """The parts of a step, for a plan."""
    return StepTimes(costs.target, costs.draft_first, costs.draft, costs.verify, costs.overhead)


def from_probe(probe: ProbeFile, catalog: Catalog, temperature: float | None = None) -> dict[str, Evidence]:
    """Draft, or method without one → what was measured of it at one temperature: the first where none is named."""
    heats = [one.temperature for one in probe.drafts]
    wanted = temperature if temperature is not None else next(iter(heats), None)
    device = device_of(probe, catalog)
    found = {one.draft: _evidence(probe, one, device) for one in probe.drafts if one.temperature == wanted}
    for base in list(found.values())[:1]:
        rows = {row.method: row for row in probe.draft_free if row.temperature == wanted and row.by_k}
        found |= {method: _looked_up(base, rows, method) for method in sorted(DRAFT_FREE & rows.keys())}
    return found


def device_of(probe: ProbeFile, catalog: Catalog) -> Device:
    """What a probe was measured on, as the catalogue has it where it does."""
    one = probe.device
    # torch knows the exact chip where npu-smi may tell only its kind; on a CPU its name is not the catalogue's.
    for name in (one.name if one.tool_name != "cpu" else None, one.tool_name):
        if name:
            with contextlib.suppress(DraftpickError):
                return catalog.device_seen(name, one.memory_bytes)
    return _unlisted(probe)


def _unlisted(probe: ProbeFile) -> Device:
    return Device(probe.device.id, probe.device.name, UNLISTED)


def _looked_up(base: Evidence, rows: Mapping[str, LookupRecord], method: str) -> Evidence:
    """Evidence of a method without a draft; what is common to a probe is that of its first draft."""
    rate, lengths = _lookup_lengths(rows[method])
    own = _LOOKUPS.get(method)
    return base._replace(
        draft=method,
        way=method,
        rate=rate,
        lengths=lengths,
        others={own: _lookup_lengths(rows[own])} if own is not None and own in rows else {},
        costs=_without_draft(base),
        source=base.source.rpartition(";")[0] or base.source,
        doubts=(),
    )


def _without_draft(base: Evidence) -> dict[int, Costs]:
    """Costs of a lookup, which takes microseconds; what the software adds is taken to be that of a draft's step."""
    if base.whole_steps:
        return {}  # there is no telling what of them was drafting
    return {
        batch: costs._replace(draft_first=0.0, draft=0.0, c=0.0, ttft_overhead=0.0)
        for batch, costs in base.costs.items()
    }


def _lookup_lengths(row: LookupRecord) -> tuple[Interval, tuple[Interval, ...]]:
    lengths = [_interval(one.mean_acceptance_length) for one in row.by_k]
    first = lengths[0]
    value, low, high = (min(max(length - 1, 0.0), 1.0) for length in first[:3])
    return Interval(value, low, high, first.level), (Interval(1.0, 1.0, 1.0, first.level), *lengths)


def engine_of(probe: ProbeFile) -> str:
    """The engine that a probe's costs are of: transformers where passes were timed, whosever drafting was replayed."""
    timed = any(record.source == "measured" for one in probe.drafts for record in one.costs)
    return "transformers" if timed else probe.engine


def _evidence(probe: ProbeFile, one: DraftRecord, device: Device) -> Evidence:
    rate = one.acceptance_rate
    level = one.level
    lengths = [
        Interval(row.mean_acceptance_length, row.mean_acceptance_length_low, row.mean_acceptance_length_high, level)
        for row in sorted(one.by_k, key=lambda row: row.k)
    ]
    served = probe.decision.evidence == "served"
    where = probe.where if served else f"{probe.dtype} on {probe.device.id}"
    if lengths and one.by_k[0].k != 0:
        lengths.insert(0, Interval(1.0, 1.0, 1.0, level))
    return Evidence(
        draft=one.draft,
        temperature=one.temperature,
        rate=Interval(rate.value, rate.low, rate.high, rate.level),
        lengths=tuple(lengths),
        engine=engine_of(probe),
        first=1 if probe.engine == "transformers" else 2,
        way=one.way,
        others={
            other.way: (_interval(other.acceptance_rate), tuple(map(_interval, other.mean_acceptance_lengths)))
            for other in one.other_proposals
        },
        device=device,
        devices=probe.device.count,
        dtype=probe.dtype,
        costs={record.num_seqs: costs_of(record) for record in one.costs},
        whole_steps=any(record.whole_steps for record in one.costs),
        spread=max((record.spread for record in one.costs), default=0.0),
        num_prompts=one.num_prompts,
        source=(
            f"measured on {one.num_prompts} prompts ({probe.prompts.get('source', '?')}), {one.num_tokens:,} tokens, "
            f"{where}; {one.proposal}"
        ),
        doubts=(*probe.doubts, *one.doubts),
        served=served,
        suspect=next((f"{check.name}: {check.detail}" for check in probe.checks if not check.passed), ""),
    )


def _interval(record: IntervalRecord) -> Interval:
    return Interval(record.value, record.low, record.high, record.level)


def costs_of(record: CostRecord) -> Costs:
    """Measured costs, as predictions have them."""
    return Costs(
        target=record.target_ms / 1e3,
        draft_first=record.draft_first_ms / 1e3,
        draft=record.draft_ms / 1e3,
        verify=tuple(value / 1e3 for value in record.verify_ms),
        overhead=record.overhead_ms / 1e3,
        ttft_overhead=record.ttft_overhead_ms / 1e3 if record.ttft_overhead_ms is not None else None,
        c=record.c,
        source=record.source,
        notes=_notes(record),
        prefill=record.prefill_ms / 1e3 if record.prefill_ms is not None else 0.0,
    )


def _notes(record: CostRecord) -> tuple[str, ...]:
    if record.source == GIVEN:
        return ("costs are those that were given: how sure they are is in no interval",)
    return (f"costs are those of {record.software}: another engine's are others",)


def relation_of(probe: ProbeFile, draft: str) -> Relation | None:
    """How a draft's tokenizer relates to the target's, as it was judged when their files were there."""
    said = probe.relations.get(draft)
    if said is None:
        return None
    return Relation(said.get("kind", "unknown"), bool(said.get("verified")), str(said.get("reason", "")))
