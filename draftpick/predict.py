"""What a pair is predicted to gain in one place: acceptance from published pairs, costs from a roofline, and a plan.

Everything here is a prediction. What a probe or a server measured replaces its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from draftpick.acceptance import Acceptance, Basis, Drafting, basis, bits_of, bridged, drafting_of, expected_step, prior
from draftpick.catalog import Catalog
from draftpick.choices import COSTS, LIMITS
from draftpick.cost import MAX_POSITIONS, Alone, Costs, costs, step_time, target_alone
from draftpick.errors import UsageError
from draftpick.evidence import PREDICTED_LEVEL, Evidence, spread_of, times_of
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, IN_PARALLEL, MEASURED, NOTHING, Engine, Pair, Setting, evidence_of
from draftpick.place import Place, Places, placed_in
from draftpick.rules.engine import most_tokens, reuses_layers, takes_length
from draftpick.speedup import (
    DEFAULT_MOST_TOKENS,
    EndToEnd,
    Interval,
    KRow,
    Plan,
    choose,
    make_plan,
    mean_acceptance_length,
    schedule_by,
    speedup,
)

NO_EVIDENCE: Mapping[str, Evidence] = MappingProxyType({})


class Prediction(NamedTuple):
    """What a pair is expected to do in one place."""

    pair: Pair
    """With the setting of the place."""
    place: Place
    acceptance: Acceptance
    costs: Costs
    plan: Plan
    end_to_end: EndToEnd | None = None
    """In seconds, where the length of an answer is known."""
    measured: Evidence | None = None
    """What the acceptance was measured by; None: it is predicted."""

    @property
    def basis(self) -> Basis:
        """What the expected acceptance rests on."""
        return self.measured.basis if self.measured is not None else basis(self.pair, self.pair.setting.workload)

    @property
    def used_once(self) -> bool:
        """Whether MTP layers were looked at once each although the engine would use them again."""
        unknown = self.pair.method == "mtp" and self.measured is None and self.acceptance.longest is None
        return unknown and reuses_layers(self.place.engine)

    @property
    def evidence(self) -> str:
        """measured where acceptance and costs are, served where running servers told the costs; else roofline."""
        return evidence_of(self.costs.source) if self.measured is not None else "roofline"


class Predictor:
    """Predicts the drafts of one target; what they share is worked out once."""

    def __init__(
        self, target: ModelProfile, setting: Setting, catalog: Catalog, evidence: Mapping[str, Evidence] = NO_EVIDENCE
    ) -> None:
        self._evidence = evidence
        self._target = target
        self._setting = setting
        self._places = Places(target, setting, catalog)
        self._alone: dict[tuple[str, int, int], Alone | None] = {}

    def predict(self, pair: Pair, engine: str) -> Prediction | None:
        """The prediction for `pair` in the engine of that key; None where a size or a rate to go by is not known."""
        free = pair.method in DRAFT_FREE
        evidence = self.evidence_of(pair)
        if evidence is not None and (free or pair.draft is not None) and len(evidence.lengths) > 1:
            return self._measured(pair, engine, evidence)
        if free and self._setting.workload is None:
            return None  # what it gains is up to the texts alone
        place = self._places.of(pair, engine)
        placed = placed_in(pair, place)
        expected = prior(placed, self._setting.workload)
        parts = self._costs(placed, place, place.batch)
        if expected is None or parts is None or not place.splits or place.overreaches:
            return None
        asked = _given_length(placed)
        rows = _rows(placed, parts, expected, _lengths(placed, place.engine, expected, asked))
        plan = Plan(0, 1.0, Interval(1.0, 1.0, 1.0, expected.level), rows, fixed=asked is not None)
        row = plan.row(asked) if asked is not None else rows[choose([row.speedup for row in rows])]
        gain = Interval(row.speedup, row.low, row.high, expected.level)
        plan = plan._replace(num_spec_tokens=row.k, mean_acceptance_length=row.mean_acceptance_length, speedup=gain)
        return Prediction(placed, place, expected, parts, plan, self._end_to_end(parts, gain.value, row.k))

    def evidence_of(self, pair: Pair) -> Evidence | None:
        """What was measured of the draft, or of the method that needs none."""
        return self._evidence.get(pair.method if pair.method in DRAFT_FREE else pair.proposal.id or "")

    def _measured(self, pair: Pair, engine: str, evidence: Evidence) -> Prediction | None:
        """What was measured here, or the measured acceptance with the costs predicted for another place."""
        evidence = evidence.drafting_as(engine)
        if len(evidence.lengths) < 2:
            return None
        here = evidence.priced_here(self._setting, engine)
        place = (
            self._places.of(pair, engine)
            if here is None
            else _place_of(evidence, self._places.engine(engine), self._setting)
        )
        placed = placed_in(pair, place)
        parts = here or self._costs(placed, place, place.batch)
        if parts is None or not place.splits or place.overreaches:
            return None
        level = evidence.lengths[0].level if here is not None else PREDICTED_LEVEL
        lengths = evidence.lengths_at(level)
        reach = min(len(lengths) - 1, len(parts.verify) - 1)
        asked = self._setting.num_spec_tokens
        if asked is not None and asked > reach:
            if pair.draft is None:
                return None
            raise UsageError(
                f"-k {asked}: {evidence.draft} was measured with up to {reach} tokens",
                f"measure again with -k {asked}, or ask for {reach} or fewer",
            )
        plan = make_plan(
            lengths[: reach + 1],
            times_of(parts),
            num_spec_tokens=asked,
            most_tokens=most_tokens(place.engine, placed.method),
            spread=spread_of(evidence, measured=here is not None),
        )
        whole = self._end_to_end(parts, plan.speedup.value, plan.num_spec_tokens)
        return Prediction(placed, place, evidence.acceptance, parts, plan, whole, evidence)

    def missing(self, pair: Pair, engine: str) -> str:
        """Why there is no prediction for a pair that has none."""
        place = self._places.of(pair, engine)
        if place.overreaches:
            return f"it does not fit on one {place.device.key}, and these do not work together"
        if not place.splits:
            return f"no number of {place.device.key} was found that holds it and divides the heads of both"
        if place.device.bandwidth is None and self._setting.bandwidth is None:
            return f"the bandwidth of {place.device.key} is not known: give it with --bandwidth"
        draft, setting = pair.draft, self._setting
        for option, asked, model in (
            ("--quantization", setting.quantization, self._target),
            ("--draft-quantization", setting.draft_quantization, draft),
        ):
            if asked is not None and model is not None and bits_of(asked, None) is None:
                return f"how many bits {option} {asked} stores is not known"
        if self._costs(placed_in(pair._replace(proposal=NOTHING), place), place, place.batch) is None:
            return f"layers, parameters or format of {self._target.id} are not known"
        if bridged(placed_in(pair, place)):
            return (
                "nothing was published that tells what a draft with another vocabulary reaches in "
                f"{place.engine.name}, where it can propose only tokens that both vocabularies name"
            )
        if draft is not None:
            return f"layers, parameters or format of {draft.id} are not known"
        return f"nothing was published that tells what {pair.proposal.label} accepts or costs"

    def bounds(self, pair: Pair, engine: str) -> tuple[float, float] | None:
        """Between what a draft of unknown size or shape must lie, if it is smaller than its target: at worst a drafted
        token costs what a plain one does and one is tried, at best it costs nothing. None where the target's own costs
        are not known.
        """
        place = self._places.roomy(engine)
        placed = placed_in(pair, place)
        alone = self._costs(placed._replace(proposal=NOTHING), place, place.batch)
        if pair.method in DRAFT_FREE or alone is None:
            return None
        expected = prior(placed, self._setting.workload)
        worst, best = (expected.low, expected.high) if expected is not None else (0.0, 1.0)
        tried = alone.target + alone.verify[1] + alone.overhead
        free = max(
            mean_acceptance_length(best, k) * alone.target / (alone.verify[k] + alone.overhead)
            for k in range(1, DEFAULT_MOST_TOKENS + 1)
        )
        return (1 + worst) * alone.target / tried, free

    def schedule(self, found: Prediction) -> tuple[tuple[int, int, int], ...]:
        """(from, to, num_spec_tokens) for every number of sequences at once up to --max-num-seqs; empty without it."""
        most = self._setting.max_num_seqs
        if most is None:
            return ()
        placed = found.pair
        if found.evidence in MEASURED:
            return ()  # steps were timed with some numbers of sequences only

        def k_at(batch: int) -> int:
            parts = self._costs(placed, found.place, batch)
            assert parts is not None, "known at another batch size"
            if found.measured is not None and not found.plan.fixed:
                values = [row.mean_acceptance_length for row in found.plan.by_k]
                return choose([speedup(length, times_of(parts), k) for k, length in enumerate(values)])
            lengths = [row.k for row in found.plan.by_k[1:]]
            if found.plan.fixed:
                lengths = [found.plan.num_spec_tokens]
            rows = _rows(placed, parts, found.acceptance, lengths)
            return rows[choose([row.speedup for row in rows])].k

        return schedule_by(k_at, most)

    def _costs(self, placed: Pair, place: Place, batch: int) -> Costs | None:
        setting, context = self._setting, _context(self._setting)
        key = (place.engine.key, place.devices, batch)
        if key not in self._alone:
            self._alone[key] = target_alone(placed, batch=batch, context=context, input_len=setting.input_len)
        alone = self._alone[key]
        if alone is None:
            return None
        return costs(placed, batch=batch, context=context, input_len=setting.input_len, alone=alone)

    def _end_to_end(self, parts: Costs, gain: float, k: int) -> EndToEnd | None:
        """(P + N·t) / (P + P_draft + N·t / speed-up); see speedup.end_to_end, which takes a fixed length."""
        answer = self._setting.output_len
        if answer is None:
            return None
        without = parts.prefill + answer * parts.target
        first = parts.prefill + (parts.ttft_overhead or 0.0 if k else 0.0)
        total = first + answer * parts.target / gain
        return EndToEnd(without / total, total, without, first, parts.prefill)


def _place_of(evidence: Evidence, engine: Engine, setting: Setting) -> Place:
    """Where the evidence was taken, or what was named where somebody said that it holds there."""
    device = setting.device if evidence.anywhere and setting.device is not None else evidence.device
    devices = max(setting.tensor_parallel_size, evidence.devices) if evidence.anywhere else evidence.devices
    return Place(engine, device, False, devices, setting.max_num_seqs or min(evidence.costs))


def _rows(placed: Pair, parts: Costs, expected: Acceptance, lengths: Iterable[int]) -> tuple[KRow, ...]:
    """What no drafting and each number of drafted tokens gives."""
    usual, heat = _drafting(placed, expected), placed.setting.temperature or 0.0
    trained = _trained(placed)

    def gain(rate: float, k: int) -> tuple[float, float]:
        drafting = _of_length(usual, min(k, trained or k))
        step = expected_step(rate, drafting, heat, own_rate=expected.own_rate)
        if drafting.num_spec_tokens < k:
            step = step._replace(drafted=k, passes=k)  # beyond its training a head costs and gives nothing
        return step.tau, step.tau * parts.target / step_time(parts, step)

    rows = [KRow(0, 1.0, 1.0, 1.0, 1.0)]
    errors = [math.exp(error) for error in expected.log_error or ()]
    for k in lengths:
        length, value = gain(expected.rate, k)
        if errors:
            low, high = value * errors[0], value * errors[1]
        else:
            low, high = (gain(rate, k)[1] for rate in (expected.low, expected.high))
            low, high = _wider(value, low, high)
        rows.append(KRow(k, length, value, low, high))
    return tuple(rows)


@cache
def _of_length(usual: Drafting, k: int) -> Drafting:
    return usual._replace(num_spec_tokens=k)


def _wider(value: float, low: float, high: float) -> tuple[float, float]:
    """The interval of a rate joined with that of the cost, as half-widths of independent errors."""
    below = math.hypot(math.log(value / low), COSTS["cost_error"])
    above = math.hypot(math.log(high / value), COSTS["cost_error"])
    return value * math.exp(-below), value * math.exp(above)


def _drafting(placed: Pair, expected: Acceptance) -> Drafting:
    """How the method drafts; stop rules are for models that draft token by token."""
    if placed.draft is None or placed.method in IN_PARALLEL:
        return Drafting(1, fade=expected.fade)
    return drafting_of(placed.setting.engine, None, placed.setting.stop_rule)


def _trained(placed: Pair) -> int | None:
    """How many tokens a head can draft; None for what has no such bound, as layers that the engine uses again."""
    if placed.method == "mtp":
        engine = placed.setting.engine
        return None if engine is not None and reuses_layers(engine) else _layers(placed)
    head = placed.proposal.head
    return head.num_spec_tokens if head is not None else None


def _layers(placed: Pair) -> int:
    return placed.target.num_nextn_predict_layers or 1


def _lengths(placed: Pair, engine: Engine, expected: Acceptance, asked: int | None) -> list[int]:
    """The numbers of tokens to look at: what the engine takes, and what a head was trained or published for.

    MTP layers are used again where it was published how much less is then accepted of such a target.
    """
    if asked is not None and _drafting(placed, expected).stop == "heuristic":
        return [asked]
    known = _trained(placed) or expected.longest
    if placed.method == "mtp":
        known = min(known or _layers(placed), _layers(placed) * int(LIMITS["draft-length.reuse"]))
    limits = (DEFAULT_MOST_TOKENS, MAX_POSITIONS - 1, most_tokens(engine, placed.method), known)
    reach = max(min(limit for limit in limits if limit is not None), 1)
    lengths = range(1, max(reach, asked or 0) + 1)
    return [k for k in lengths if k == asked or takes_length(placed, engine, k)]


def _given_length(placed: Pair) -> int | None:
    """The number of tokens asked for, or where a heuristic starts, which then finds its own; None: to be chosen."""
    setting = placed.setting
    if setting.num_spec_tokens is not None or placed.draft is None:
        return setting.num_spec_tokens
    usual = drafting_of(setting.engine, None, setting.stop_rule)
    return usual.num_spec_tokens if usual.stop == "heuristic" else None


def _context(setting: Setting) -> int | None:
    """Tokens of a sequence half-way through its answer; None where no lengths were given."""
    if setting.input_len is None and setting.output_len is None:
        return min(setting.max_model_len, int(COSTS["context"])) if setting.max_model_len is not None else None
    return (setting.input_len or 0) + (setting.output_len or 0) // 2 or 1
