"""What a pair is predicted to gain in one place: acceptance from published pairs, costs from a roofline, and a plan.

Everything here is a prediction. What a probe or a server measured replaces its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from draftpick.acceptance import Acceptance, Basis, Drafting, basis, bits_of, drafting_of, expected_step, prior
from draftpick.catalog import Catalog
from draftpick.choices import COSTS, MEMORY, PRIORS, REFERENCE_DEVICE, REFERENCE_DEVICES
from draftpick.cost import MAX_POSITIONS, Costs, costs, step_time
from draftpick.memory import budget, device_memory, devices_needed, splits, weight_bytes
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, IN_PARALLEL, Device, Engine, Pair, Proposal, Setting
from draftpick.rules.engine import most_tokens
from draftpick.speedup import DEFAULT_MOST_TOKENS, Interval, KRow, Plan, choose, mean_acceptance_length, schedule_by

NOTHING = Proposal("ngram", "always")
"""A draft that costs nothing: what a target does alone."""


class Place(NamedTuple):
    """What a prediction holds for."""

    engine: Engine
    device: Device
    assumed: bool
    """Nobody named the device: it is the reference one of the engine."""
    devices: int
    """The tensor-parallel size asked for, or the smallest that holds the target and leaves room for a small draft."""
    batch: int
    """Sequences at once."""
    crowded: bool = False
    """This draft takes more devices than the others."""
    splits: bool = True
    """There is a number of devices that holds the pair and divides its heads."""
    free: int | None = None
    """Bytes of each device that the target and one sequence leave; None: not known."""


class EndToEnd(NamedTuple):
    """A whole request, in seconds, with and without the draft."""

    speedup: float
    total: float
    total_without: float


class Prediction(NamedTuple):
    """What a pair is expected to do in one place."""

    pair: Pair
    """With the setting of the place."""
    place: Place
    acceptance: Acceptance
    costs: Costs
    plan: Plan
    end_to_end: EndToEnd | None = None
    """Where the length of an answer is known."""

    @property
    def basis(self) -> Basis:
        """What the expected acceptance rests on."""
        return basis(self.pair, self.pair.setting.workload)


class Predictor:
    """Predicts the drafts of one target; what they share is worked out once."""

    def __init__(self, target: ModelProfile, setting: Setting, catalog: Catalog) -> None:
        self._target = target
        self._setting = setting
        self._catalog = catalog
        self._places: dict[str, Place] = {}
        self._verify: dict[tuple[str, int, int], tuple[float, ...]] = {}

    def predict(self, pair: Pair, engine: str) -> Prediction | None:
        """The prediction for `pair` in the engine of that key; None where a size or a rate to go by is not known."""
        if pair.method in DRAFT_FREE and self._setting.workload is None:
            return None  # what it gains is up to the texts alone
        place = self._place_of(pair, engine)
        placed = _placed(pair, place)
        expected = prior(placed, self._setting.workload)
        parts = self._costs(placed, place, place.batch)
        if expected is None or parts is None or not place.splits or _too_many(place):
            return None
        asked = _given_length(placed)
        rows = _rows(placed, parts, expected, _lengths(placed, place.engine, expected, asked))
        plan = Plan(0, 1.0, Interval(1.0, 1.0, 1.0, expected.level), rows, fixed=asked is not None)
        row = plan.row(asked) if asked is not None else rows[choose([row.speedup for row in rows])]
        gain = Interval(row.speedup, row.low, row.high, expected.level)
        plan = plan._replace(num_spec_tokens=row.k, mean_acceptance_length=row.mean_acceptance_length, speedup=gain)
        return Prediction(placed, place, expected, parts, plan, self._end_to_end(parts, gain.value, row.k))

    def missing(self, pair: Pair, engine: str) -> str:
        """Why there is no prediction for a pair that has none."""
        place = self._place_of(pair, engine)
        if _too_many(place):
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
        if self._costs(_placed(pair._replace(proposal=NOTHING), place), place, place.batch) is None:
            return f"layers, parameters or format of {self._target.id} are not known"
        if draft is not None:
            return f"layers, parameters or format of {draft.id} are not known"
        return f"nothing was published that tells what {pair.proposal.label} accepts or costs"

    def bounds(self, pair: Pair, engine: str) -> tuple[float, float] | None:
        """Between what a draft of unknown size or shape must lie, if it is smaller than its target: at worst a drafted
        token costs what a plain one does and one is tried, at best it costs nothing. None where the target's own costs
        are not known.
        """
        place = self._place(engine)
        placed = _placed(pair, place)
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

        def k_at(batch: int) -> int:
            parts = self._costs(placed, found.place, batch)
            assert parts is not None, "known at another batch size"
            lengths = [row.k for row in found.plan.by_k[1:]]
            if found.plan.fixed:
                lengths = [found.plan.num_spec_tokens]
            rows = _rows(placed, parts, found.acceptance, lengths)
            return rows[choose([row.speedup for row in rows])].k

        return schedule_by(k_at, most)

    def _place(self, key: str) -> Place:
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._find_place(key)
        return found

    def _place_of(self, pair: Pair, engine: str) -> Place:
        """The place, with as many devices as hold the draft too."""
        place = self._place(engine)
        if place.devices > pair.setting.tensor_parallel_size and splits(_placed(pair, place), place.devices) is False:
            # The rules judged the devices that were asked for: the heads of this draft need another number of them.
            one = _placed(pair, place._replace(devices=1))
            fewest = _needed(one)[1]
            return place._replace(devices=fewest or place.devices, crowded=True, splits=fewest is not None)
        if self._fits_easily(pair, place):
            return place
        need = self._devices(_placed(pair, place))
        return place if need <= place.devices else place._replace(devices=need, crowded=True)

    def _find_place(self, key: str) -> Place:
        setting = self._setting
        engine = setting.engine if setting.engine is not None and setting.engine.key == key else None
        engine = engine or self._catalog.engine(key)
        device = setting.device or self._catalog.device(REFERENCE_DEVICES.get(key, REFERENCE_DEVICE))
        place = Place(engine, device, setting.device is None, setting.tensor_parallel_size, setting.max_num_seqs or 1)
        devices = max(place.devices, self._devices(_placed(Pair(self._target, NOTHING, setting), place)))
        place = place._replace(devices=devices)
        place = place._replace(free=self._free(place))
        weights = weight_bytes(self._target, quantization=setting.quantization, engine=key) or 0
        crammed = place.free is not None and place.free * devices < MEMORY["small-draft"] * weights
        if crammed and setting.tensor_parallel_size == 1 and devices > 1:
            place = place._replace(devices=2 * devices)
            place = place._replace(free=self._free(place))
        return place

    def _free(self, place: Place) -> int | None:
        """Bytes of each device that the target and one sequence leave; None where nobody can tell."""
        setting = self._setting
        alone = _placed(Pair(self._target, NOTHING, setting._replace(max_model_len=None, max_num_seqs=None)), place)
        held = budget(alone, memory=setting.memory, gpu_memory_utilization=setting.gpu_memory_utilization)
        return held.per_device_bytes.free

    def _fits_easily(self, pair: Pair, place: Place) -> bool:
        """Whether a draft is so small that the place holds it without a budget of its own."""
        draft, head = pair.draft, pair.proposal.head
        params = (
            draft.params_total or draft.params_text if draft is not None else head.params if head is not None else 0
        )
        if params is None or place.free is None:
            return False
        # Two bytes a parameter on one device: the least that a draft is split, the most that it usually stores.
        return 2 * params < MEMORY["easy-fit"] * place.free

    def _devices(self, placed: Pair) -> int:
        """How many devices hold the weights and one sequence; more of them may be needed for the whole load."""
        setting = placed.setting
        fits, fewest = _needed(placed)
        if fits:
            return setting.tensor_parallel_size
        assert setting.device is not None
        assert setting.engine is not None
        return fewest or self._by_weights(setting.device, setting.engine, setting)

    def _by_weights(self, device: Device, engine: Engine, setting: Setting) -> int:
        """The power of two of devices that holds the weights, for caches whose shape nobody knows."""
        weights = weight_bytes(self._target, quantization=setting.quantization, engine=engine.key)
        room = (setting.memory or device_memory(device) or 0) * MEMORY["utilization"]
        devices = 1
        while weights is not None and room and weights > room * devices and devices < MEMORY["max-devices"]:
            devices *= 2
        return devices

    def _costs(self, placed: Pair, place: Place, batch: int) -> Costs | None:
        key = (place.engine.key, place.devices, batch)
        setting = self._setting
        found = costs(
            placed, batch=batch, context=_context(setting), input_len=setting.input_len, verify=self._verify.get(key)
        )
        if found is not None:
            self._verify[key] = found.verify
        return found

    def _end_to_end(self, parts: Costs, gain: float, k: int) -> EndToEnd | None:
        """(P + N·t) / (P + P_draft + N·t / speed-up); see speedup.end_to_end, which takes a fixed length."""
        answer = self._setting.output_len
        if answer is None:
            return None
        without = parts.prefill + answer * parts.target
        total = parts.prefill + (parts.ttft_overhead or 0.0 if k else 0.0) + answer * parts.target / gain
        return EndToEnd(without / total, total, without)


def _too_many(place: Place) -> bool:
    """Whether more devices would be needed than can work together."""
    return place.device.devices_per_node == 1 and place.devices > 1


def _needed(placed: Pair) -> tuple[bool | None, int | None]:
    """Whether the weights and one sequence fit, and the fewest devices that hold them."""
    setting = placed.setting
    one = placed._replace(setting=setting._replace(max_model_len=None, max_num_seqs=None))
    return devices_needed(one, memory=setting.memory, gpu_memory_utilization=setting.gpu_memory_utilization)


def _placed(pair: Pair, place: Place) -> Pair:
    setting = pair.setting._replace(engine=place.engine, device=place.device, tensor_parallel_size=place.devices)
    return pair._replace(setting=setting)


def _rows(placed: Pair, parts: Costs, expected: Acceptance, lengths: Iterable[int]) -> tuple[KRow, ...]:
    """What no drafting and each number of drafted tokens gives."""
    usual, heat, trained = _drafting(placed), placed.setting.temperature or 0.0, _trained(placed)

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


def _drafting(placed: Pair) -> Drafting:
    """How the method drafts; stop rules are for models that draft token by token."""
    if placed.draft is None:
        return Drafting(1)
    if placed.method in IN_PARALLEL:
        return Drafting(1, fade=PRIORS["parallel_fade"])
    return drafting_of(placed.setting.engine, None, placed.setting.stop_rule)


def _trained(placed: Pair) -> int | None:
    """How many tokens a head was trained to draft; None for what has no such bound."""
    if placed.method == "mtp" and placed.target.num_nextn_predict_layers:
        return placed.target.num_nextn_predict_layers
    head = placed.proposal.head
    return head.num_spec_tokens if head is not None else None


def _lengths(placed: Pair, engine: Engine, expected: Acceptance, asked: int | None) -> Iterable[int]:
    """The numbers of tokens to look at: what the engine takes, and what a head was trained or published for."""
    if asked is not None and _drafting(placed).stop == "heuristic":
        return (asked,)
    trained = _trained(placed) or expected.drafted
    limits = (DEFAULT_MOST_TOKENS, MAX_POSITIONS - 1, most_tokens(engine, placed.method), trained)
    reach = max(min(limit for limit in limits if limit is not None), 1)
    return range(1, max(reach, asked or 0) + 1)


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
