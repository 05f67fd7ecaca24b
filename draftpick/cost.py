"""What a step costs: a roofline of one pass on a device row, and what an engine adds to it.

Plain arithmetic on the start-up path. Times are seconds, rates are bytes or operations per second. Everything here is
a prediction; what a probe or a server measured replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from draftpick.acceptance import Step, bits_of, fitted, translates
from draftpick.choices import COSTS, PRIORS
from draftpick.errors import UsageError
from draftpick.memory import draft_tensor_parallel_size
from draftpick.models.profile import ModelProfile
from draftpick.pair import IN_PARALLEL, WITHOUT_CACHE, Device, Engine, Pair
from draftpick.rules.engine_facts import in_version
from draftpick.sizes import cache, cache_element_bytes, head_params

MAX_POSITIONS = 17
"""Positions of the widest verification that is predicted: 16 drafted tokens and the target's own."""

PLAIN_LAYERS = frozenset({"gpt2", "gpt_bigcode", "opt", "gpt_neo", "gpt_neox", "gptj", "bloom", "codegen"})
"""Model types whose layers have fused projections, LayerNorm and no rotary embedding or gate: half the kernels."""


INT8_VENDORS = frozenset({"huawei", "nvidia", "amd"})
"""Their matrix units multiply 8-bit integers."""


class Load(NamedTuple):
    """What one pass of a model reads and computes, whatever the device."""

    layers: int
    dense: float
    """Parameters that every pass reads, lm_head included."""
    routed: float
    """Parameters of all routed experts together; 0 where there are none."""
    experts: int
    experts_per_token: int
    bits: float
    """Bits of a stored weight, or what reading one costs where unpacking takes longer than reading."""
    kv_bytes: float
    """Bytes of KV cache that attention reads per sequence at the given context; 0 where the shape is not known."""
    launches: float = 1.0
    """Kernels of a layer in eager mode, against those of a Llama layer."""
    captured: float = 1.0
    """What a layer costs to launch inside a captured graph, against a Llama layer."""
    groups: float = 1.0
    """Query heads that share one cached head."""
    attention: float = 0.0
    """Width of all query heads of all layers that see the whole text: what attention computes with each token of it."""
    native: str | None = None
    """fp8 or int8 where weights and activations are multiplied in that format, by devices that have it."""

    @property
    def active(self) -> float:
        """Parameters that one token touches."""
        return self.dense + (self.routed * self.experts_per_token / self.experts if self.experts else 0.0)

    def weights(self, positions: float) -> float:
        """Bytes of weights that a pass over so many positions (of all sequences together) touches."""
        if not self.experts:
            return self.dense * self.bits / 8
        # Tokens of one text go to the same experts more often than by chance.
        share: float = 1 - (1 - self.experts_per_token / self.experts) ** positions ** COSTS["routing"]
        return (self.dense + self.routed * share) * self.bits / 8


class Rates(NamedTuple):
    """What a device gives to decoding in one engine, efficiencies applied; per device under tensor parallelism."""

    bandwidth: float
    compute: float
    """Operations per second of a pass over a few positions, far below the peak of large matrices."""
    prefill: float
    """Operations per second of a pass over a whole prompt."""
    unpacking: float
    """How many times longer the arithmetic takes on weights of 4 bits; in proportion for others."""
    launch: float
    """Per layer and pass."""
    draft_launch: float
    """The same of a separate draft model, which engines capture less well than the target."""
    hidden: bool
    """Launches run ahead of the device (eager mode on a queue): the slower of the two counts, not their sum."""
    expert_launch: float
    """Per expert of a layer, in engines that loop over experts."""
    all_reduce: float
    """Per layer and pass."""
    native: frozenset[str]
    """Formats of 8 bits that the device multiplies at twice the rate of 16."""
    per_token: float
    """What the engine spends on every plain pass of the target outside of the model."""
    per_step: float
    """What speculation adds to a step."""
    per_draft: float
    """What it adds to each drafted token."""
    per_translation: float
    """What a draft with another tokenizer adds to a step: text out, text in."""
    cache_factor: float
    """How much longer moving the KV cache takes than its bytes say."""
    copies_cache: bool
    """Every pass copies the cache to grow it, and expands shared heads before attention reads them."""
    state_copy_rate: float
    """Bytes per second of a recurrent state that is saved and restored at every step with a draft model; 0: is not."""
    redecodes: bool
    """The draft reads the verified block again in a pass of its own."""
    seen: str = ""
    """What somebody measured in this engine with a draft that was mostly launches."""


class Alone(NamedTuple):
    """A target by itself in one place, at one batch size and context length: the same for all its drafts."""

    load: Load
    rates: Rates
    verify: tuple[float, ...]
    """Passes over 1 … 17 positions."""
    prefill: float
    """The pass over the prompt."""


class Costs(NamedTuple):
    """Times of the parts of a step, in seconds, at one batch size and context length."""

    target: float
    """One plain token of the target, the engine's own overhead included."""
    draft_first: float
    """The pass that takes in the verified tokens and drafts the first one."""
    draft: float
    """Each further drafted token."""
    verify: tuple[float, ...]
    """The target over 1 … 17 positions; the first is `target`."""
    overhead: float
    """What speculation adds to a step besides its passes."""
    ttft_overhead: float | None
    """What the draft's own prefill adds to the time to the first token."""
    c: float
    """Cost of a drafted token over that of a plain one."""
    source: str = "roofline"
    notes: tuple[str, ...] = ()
    launch_bound: bool = False
    """A drafted token is mostly launches: a smaller draft would not be faster, a shallower one would."""
    prefill: float = 0.0
    """The target over the prompt."""


def costs(
    pair: Pair,
    *,
    device: Device | None = None,
    engine: Engine | None = None,
    batch: int = 1,
    context: int | None = None,
    input_len: int | None = None,
    calibration: Mapping[str, float] | None = None,
    alone: Alone | None = None,
) -> Costs | None:
    """Predict the costs of a pair's step; None where the device's bandwidth or a model's shape is not known.

    What is not given is taken from the pair's setting. `context` is in tokens per sequence. `calibration` holds the
    fitted numbers; those of the catalogue where none is given. `alone`: what `target_alone` said of the same place.
    Raises UsageError for a batch or context below 1.
    """
    alone = alone or target_alone(
        pair,
        device=device,
        engine=engine,
        batch=batch,
        context=context,
        input_len=input_len,
        calibration=calibration,
    )
    length = context if context is not None else int(COSTS["context"])
    theirs = _draft_load(pair, length)
    if alone is None or theirs is None:
        return None
    drafting, devices = alone.rates, pair.setting.tensor_parallel_size
    if devices > 1 and (fewer := draft_tensor_parallel_size(pair)) != devices:
        drafting = _rates(pair, device, engine, fewer, calibration) or drafting
    if pair.draft is not None:
        # What a layer costs more inside a graph it does not cost again outside of one.
        drafting = drafting._replace(launch=max(drafting.draft_launch, drafting.launch * theirs.captured))
        theirs = theirs._replace(captured=1.0)
    return _costs(pair, alone, theirs, drafting, batch, input_len or length)


def target_alone(
    pair: Pair,
    *,
    device: Device | None = None,
    engine: Engine | None = None,
    batch: int = 1,
    context: int | None = None,
    input_len: int | None = None,
    calibration: Mapping[str, float] | None = None,
) -> Alone | None:
    """What the target of a pair costs without a draft, told as `costs` is; None where its shape or the bandwidth is not
    known.
    """
    setting = pair.setting
    length = context if context is not None else int(COSTS["context"])
    for name, value in (("batch", batch), ("context", length)):
        if value < 1:
            raise UsageError(f"{name} is {value}", f"{name} is at least 1")
    rates = _rates(pair, device, engine, setting.tensor_parallel_size, calibration)
    ours = load(pair.target, setting.quantization, length, setting.dtype, setting.kv_cache_dtype)
    if rates is None or ours is None:
        return None
    verify = tuple(pass_time(ours, rates, m, batch) + rates.per_token for m in range(1, MAX_POSITIONS + 1))
    return Alone(ours, rates, verify, prefill_time(ours, rates, input_len or length))


def _rates(
    pair: Pair,
    device: Device | None,
    engine: Engine | None,
    devices: int,
    calibration: Mapping[str, float] | None,
) -> Rates | None:
    setting = pair.setting
    known: Mapping[str, float] = calibration if calibration is not None else fitted()["cost"]
    return rates_of(device or setting.device, engine or setting.engine, devices, known, bandwidth=setting.bandwidth)


def load(
    model: ModelProfile,
    quantization: str | None = None,
    context: int = 1,
    dtype: str | None = None,
    kv_cache_dtype: str | None = None,
) -> Load | None:
    """What a pass of `model` reads; None where its layers, parameters or storage format are not known.

    `dtype` is that of the engine, for a model whose own is not known.
    """
    bits = bits_of(quantization or model.quantization, model.dtype or dtype)
    total = model.params_text or model.params_total
    if bits is None or total is None or model.num_hidden_layers is None:
        return None
    bits = max(bits, COSTS["fewest_bits"])
    if model.tie_word_embeddings is False and model.embedding_params is not None:
        total = max(total - model.embedding_params, 1)
    dense, routed, experts, per_token = float(total), 0.0, 0, 0
    if model.experts is not None and model.params_read is not None:
        experts, per_token = model.experts.num_experts, model.experts.experts_per_token
        share = per_token / experts
        if share < 1:
            dense = max((model.params_read - total * share) / (1 - share), 0.0)
            routed = total - dense
        else:
            experts = 0
    launches = COSTS["plain_layer"] if model.model_type in PLAIN_LAYERS else 1.0
    read = kv_bytes(model, context) * cache_element_bytes(kv_cache_dtype) / 2
    groups = (model.num_attention_heads or 1) / (model.num_key_value_heads or model.num_attention_heads or 1)
    captured = COSTS["latent_layer"] if model.latent is not None else 1.0
    return Load(
        layers=model.num_hidden_layers,
        dense=dense,
        routed=routed,
        experts=experts,
        experts_per_token=per_token,
        bits=bits,
        kv_bytes=read,
        launches=launches,
        captured=captured,
        groups=groups,
        attention=_attention(model),
        native=native_format(quantization or model.quantization),
    )


def _attention(model: ModelProfile) -> float:
    layers = (model.num_hidden_layers or 0) - (model.recurrent_layers or 0) - (model.sliding_layers or 0)
    width = (model.num_attention_heads or 0) * (model.head_dim or 0) or model.hidden_size or 0
    return float(max(layers, 0) * width)


def native_format(quantization: str | None) -> str | None:
    """The format of 8 bits that is multiplied as it is; None where weights are unpacked to 16 bits first."""
    name = (quantization or "").lower()
    if "fp8" in name or "float8" in name:
        return "fp8"
    return "int8" if "w8a8" in name else None


def kv_bytes(model: ModelProfile, context: int) -> float:
    """Bytes of a 16-bit KV cache that one sequence's pass reads; 0 where the shape is not known."""
    layers = (model.num_hidden_layers or 0) - (model.recurrent_layers or 0)
    if model.latent is not None:
        return 2.0 * layers * (model.latent.kv_lora_rank + model.latent.qk_rope_head_dim) * context
    heads, width = model.num_key_value_heads, model.head_dim
    if width is None and model.hidden_size and model.num_attention_heads:
        width = model.hidden_size // model.num_attention_heads
    if heads is None or width is None:
        return 0.0
    sliding = min(model.sliding_layers or 0, layers) if model.sliding_window else 0
    tokens = (layers - sliding) * context + sliding * min(context, model.sliding_window or context)
    return 4.0 * heads * width * tokens


def untested(device: Device) -> bool:
    """Whether no published measurement of the device's maker was there to fit costs on, or to test them with."""
    return f"memory.{device.vendor}" not in fitted()["cost"]


def rates_of(
    device: Device | None,
    engine: Engine | None,
    devices: int,
    calibration: Mapping[str, float],
    *,
    bandwidth: float | None = None,
) -> Rates | None:
    """What `device` gives in `engine`; None without a bandwidth. An unknown peak makes arithmetic free."""
    peak_bandwidth = bandwidth or (device.bandwidth if device is not None else None)
    if device is None or peak_bandwidth is None:
        return None
    kind = device.vendor
    facts = in_version(engine, "step_overhead") if engine is not None else {}
    if facts.get("splits") == "layers":
        devices = 1  # one device after the other: more of them hold more, and none is faster
    key = engine.key if engine is not None else ""

    def number(name: str, *, vendor: bool = False) -> float:
        """Fitted for this engine (and vendor) where there was something to fit on, else as the engine's file says."""
        for fitted_name in (f"{name}.{key}.{kind}", f"{name}.{key}"):
            if fitted_name in calibration:
                return calibration[fitted_name]
        found = facts.get(name)
        if isinstance(found, Mapping):
            found = found.get(kind, found.get("other"))
        return float(found) if found is not None else COSTS[name]

    memory = calibration.get(f"memory.{kind}") or device.memory_efficiency or COSTS["memory"]
    few = calibration.get(f"compute.{key}.{kind}") or calibration.get(f"compute.{kind}") or COSTS["compute"]
    many = device.compute_efficiency or COSTS["prefill"]
    peak = device.peak_fp16 or float("inf")
    return Rates(
        bandwidth=peak_bandwidth * memory * devices,
        compute=peak * few * devices,
        prefill=peak * many * devices,
        unpacking=calibration.get(f"unpacking.{kind}", COSTS["unpacking"]),
        launch=number("launch_per_layer"),
        draft_launch=number("draft_launch_per_layer" if "draft_launch_per_layer" in facts else "launch_per_layer"),
        hidden=facts.get("mode") == "eager",
        expert_launch=number("launch_per_expert"),
        all_reduce=0.0 if devices == 1 else 2 * COSTS["all_reduce"],
        native=frozenset(name for name, there in (("fp8", device.fp8), ("int8", kind in INT8_VENDORS)) if there),
        per_token=number("per_token"),
        per_step=number("per_step"),
        per_draft=number("per_draft_token"),
        per_translation=number("per_translation"),
        cache_factor=number("cache_factor"),
        copies_cache=bool(facts.get("copies_cache")),
        state_copy_rate=number("state_copy_rate") if "state_copy_rate" in facts else 0.0,
        redecodes=bool(facts.get("redecodes_draft")),
        seen=str(facts.get("seen", "")),
    )


def pass_time(load: Load, rates: Rates, positions: float, batch: int = 1) -> float:
    """Seconds of one pass over `positions` tokens of each of `batch` sequences."""
    rows = positions * batch
    read = load.weights(rows) / rates.bandwidth
    work = 2 * load.active * rows / _compute(rates, rows)
    if load.native in rates.native:
        work /= 2
    elif load.bits < 16:
        work *= 1 + (rates.unpacking - 1) * (16 - load.bits) / 12
    moved = load.kv_bytes * _moves(load, rates) * batch / rates.bandwidth
    # A roofline with a rounded ridge: small batches overlap arithmetic with reading in part.
    overlap = COSTS["overlap"]
    busy: float = (read**overlap + work**overlap) ** (1 / overlap)
    launched = launch_time(load, rates)
    return (max(busy, launched) if rates.hidden else busy + launched) + moved + load.layers * rates.all_reduce


def _compute(rates: Rates, rows: float) -> float:
    """Operations per second of a pass over so many rows: thin matrices first, then what a whole prompt reaches."""
    few, many = COSTS["thin_rows"], COSTS["thick_rows"]
    if rows <= few:
        return rates.compute
    share = min(math.log(rows / few) / math.log(many / few), 1.0)
    return float(rates.compute * (max(rates.prefill, rates.compute) / rates.compute) ** share)


def _moves(load: Load, rates: Rates) -> float:
    """How many times a pass moves the cache's bytes: once, or with copies and expanded heads."""
    if not rates.copies_cache:
        return rates.cache_factor
    expanded = 2 * load.groups if load.groups > 1 else 0.0
    return (3 + expanded) * rates.cache_factor


def launch_time(load: Load, rates: Rates) -> float:
    """Seconds of launches of one pass."""
    factor = load.launches if rates.hidden else load.captured
    return load.layers * (rates.launch * factor + load.experts * rates.expert_launch)


def step_time(costs: Costs, step: Step) -> float:
    """Seconds of a step that drafts and verifies as `step` says."""
    if step.drafted <= 0 and step.passes <= 0:
        return costs.target
    drafting = costs.draft_first * min(step.passes, 1.0) + costs.draft * max(step.passes - 1, 0.0)
    return drafting + _between(costs.verify, step.drafted) + costs.overhead


def _between(verify: tuple[float, ...], drafted: float) -> float:
    """Time of the target over 1 + `drafted` positions, linear between and beyond the known ones."""
    lower = min(int(drafted), len(verify) - 2)
    return verify[lower] + (drafted - lower) * (verify[lower + 1] - verify[lower])


def prefill_time(load: Load, rates: Rates, tokens: int) -> float:
    """Seconds of the pass over a prompt of `tokens`."""
    # Each token attends to half of the prompt on average, in two products.
    work = 2 * load.active * tokens + 2 * load.attention * tokens**2
    busy = max(work / rates.prefill, load.weights(tokens) / rates.bandwidth)
    return busy + launch_time(load, rates) + load.layers * rates.all_reduce


def _costs(pair: Pair, alone: Alone, theirs: Load, drafting: Rates, batch: int, prompt: int) -> Costs:
    """`theirs` is what the draft reads, `drafting` what its devices give."""
    ours, rates, verify, prefill = alone
    notes = []
    if not ours.kv_bytes:
        notes.append("the target's KV cache is left out: its shape is not known")
    if theirs.layers == 0:
        return Costs(verify[0], 0.0, 0.0, verify, rates.per_step, 0.0, 0.0, notes=tuple(notes), prefill=prefill)
    one = pass_time(theirs, drafting, 1, batch)
    draft = one + drafting.per_draft
    # Methods that draft in one pass fill it with the positions of a usual step.
    together = pair.method in IN_PARALLEL
    width = 1 + PRIORS["num_spec_tokens"] if together else 2
    first = pass_time(theirs, drafting, width, batch) + drafting.per_draft
    overhead = rates.per_step
    state = cache(pair.target) if rates.state_copy_rate and pair.draft is not None else None
    if state is not None and state.state:
        copying = state.state * batch / rates.state_copy_rate
        overhead += copying
        notes.append(f"the target's recurrent state is saved and restored at every step: {copying * 1e3:.1f} ms")
    if rates.redecodes:
        overhead += one
    if translates(pair):
        overhead += rates.per_translation
        notes.append("the draft has another tokenizer: its text is translated at every step")
    launched = launch_time(theirs, drafting) + theirs.layers * drafting.all_reduce
    bound = launched > COSTS["launch_bound"] * one
    if bound and pair.draft is not None:
        notes.append(
            f"a pass of the draft is launch-bound: {theirs.layers} layers cost {launched * 1e3:.1f} of its "
            f"{draft * 1e3:.1f} ms, a smaller draft of as many layers is no faster, and at low acceptance it makes "
            "decoding slower"
        )
        if rates.seen:
            notes.append(f"one report of a launch-bound draft model in this engine, not verified here: {rates.seen}")
    return Costs(
        target=verify[0],
        draft_first=first,
        draft=0.0 if together else draft,
        verify=verify,
        overhead=overhead,
        ttft_overhead=prefill_time(theirs, drafting, 1 if pair.method in WITHOUT_CACHE else prompt),
        c=(first / PRIORS["num_spec_tokens"] if together else draft) / verify[0],
        notes=tuple(notes),
        launch_bound=bound,
        prefill=prefill,
    )


_NOTHING = Load(0, 0.0, 0.0, 0, 0, 16.0, 0.0)


def _draft_load(pair: Pair, context: int) -> Load | None:
    """What a drafted token reads; a draft-free method reads nothing; None where it is not known."""
    target, setting = pair.target, pair.setting
    draft, head = pair.draft, pair.proposal.head
    if draft is not None:
        # Engines run both models in one dtype.
        dtype = setting.dtype or target.dtype
        return load(draft, setting.draft_quantization, context, dtype, setting.kv_cache_dtype)
    if pair.method in ("ngram", "suffix"):
        return _NOTHING
    if pair.method == "mtp" and target.params_read and target.num_hidden_layers:
        # A layer of the target's own kind and its lm_head, the experts of one token only.
        vocabulary = target.embedding_params or 0
        layer = max(target.params_read - vocabulary, 0) / target.num_hidden_layers
        stored = bits_of(setting.quantization or target.quantization, target.dtype or setting.dtype)
        return Load(1, layer + vocabulary, 0.0, 0, 0, stored or 16.0, 0.0)
    size = head_params(head, target) if head is not None else None
    if head is None or size is None:
        return None
    return Load(head.num_hidden_layers or 1, float(size), 0.0, 0, 0, bits_of(None, target.dtype) or 16.0, 0.0)
