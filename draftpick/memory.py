"""Bytes on each device: weights, caches and workspace of a pair, and how many sequences are left room for.

What a number rests on that is no fact of the models stands in `draftpick.choices`, with its reason. What is not known
gives None, never a guess.
"""

from math import ceil, floor
from typing import NamedTuple

from draftpick.choices import LIMITS, MEMORY, memory_choice
from draftpick.errors import UsageError
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Device, Pair, Setting
from draftpick.rules.engines_say import draft_must_split_alike, splits_layers
from draftpick.sizes import (
    CACHELESS,
    EAGLE,
    Cache,
    cache,
    cache_element_bytes,
    cache_gap,
    head_params,
    layer_cache,
    mtp_params,
    weight_bytes,
    weight_format,
)

MOST_BYTES = 1 << 60
"""More is told as this much: no machine holds it, and written files keep whole numbers below 2^63."""


class Parts(NamedTuple):
    """Bytes on each device; they sum up to its memory. Unknown is None."""

    target_weights: int | None = None
    draft_weights: int | None = None
    target_kv: int | None = None
    """Of all sequences asked for, at the length asked for, drafted tokens included."""
    draft_kv: int | None = None
    verify_workspace: int | None = None
    """Logits and probabilities of the rows that are verified at once."""
    reserve: int | None = None
    """What the engine leaves alone, and what it runs in."""
    free: int | None = None
    """Below zero: what is missing."""


class Budget(NamedTuple):
    """Whether a pair has room, and for how much."""

    fits: bool | None
    """The sequences asked for, all at the length asked for, have room at once; None where that is not known."""
    per_device_bytes: Parts
    max_num_seqs: int | None = None
    """Sequences of the length asked for that have room at once; 0: not even one."""
    max_num_seqs_without_draft: int | None = None
    max_tokens: int | None = None
    """Tokens that all sequences together may keep, at the length asked for."""
    max_context: int | None = None
    """Longest context at which the sequences asked for have room, at most the target's own; 0: none."""
    min_tensor_parallel_size: int | None = None
    """Fewest devices that hold what is asked for and divide the heads; None: none tried, or not known."""
    notes: tuple[str, ...] = ()


# ---------------------------------------------------------------------- what a proposal adds


class _Load(NamedTuple):
    """Weights and caches of a pair on each of `devices`."""

    target_weights: int | None
    draft_weights: int | None
    target: Cache | None
    draft: Cache | None


class _Plan(NamedTuple):
    """What is asked for, with the gaps filled in by choices."""

    pair: Pair
    engine: str | None
    devices: int
    draft_devices: int | None
    length: int
    sequences: int
    drafted: int
    kv_cache_dtype: str | None
    memory: int | None
    utilization: float

    def usable(self, devices: int) -> float:
        return (self.memory or 0) * self.utilization - _runtime(devices)


def draft_tensor_parallel_size(pair: Pair, devices: int | None = None) -> int:
    """On how many devices the draft is split: as its target where the engine wants it or its heads divide, else 1."""
    size = devices or pair.setting.tensor_parallel_size
    engine = pair.setting.engine
    if size == 1 or draft_must_split_alike(pair):
        return size
    if pair.proposal.head is not None and engine is not None:
        only = MEMORY.get(f"head-devices.{engine.key}")
        if only is not None:
            return int(only)
    return size if _divides(pair.draft or pair.target, size) is not False else 1


def _divides(profile: ModelProfile, devices: int) -> bool | None:
    heads, kv_heads = profile.num_attention_heads, profile.num_key_value_heads
    if devices == 1:
        return True
    if heads is None:
        return None
    if heads % devices or profile.latent is not None or kv_heads is None:
        return heads % devices == 0
    return kv_heads % devices == 0 or devices % kv_heads == 0


def splits(pair: Pair, devices: int) -> bool | None:
    """Whether the heads of the target, and of a draft that has to be split alike, divide; None: they are not known."""
    if splits_layers(pair):
        return True
    divides = _divides(pair.target, devices)
    if divides and pair.draft is not None and draft_must_split_alike(pair):
        return _divides(pair.draft, devices)
    return divides


def _load(plan: _Plan, devices: int) -> _Load:
    pair, setting = plan.pair, plan.pair.setting
    weights = weight_bytes(
        pair.target,
        tensor_parallel_size=devices,
        dtype=setting.dtype,
        quantization=setting.quantization,
        engine=plan.engine,
    )
    kept = cache(pair.target, plan.kv_cache_dtype, devices, engine=plan.engine)
    split = plan.draft_devices or draft_tensor_parallel_size(pair, devices)
    return _Load(weights, _draft_weights(plan, split), kept, _draft_cache(plan, kept, split))


def _draft_weights(plan: _Plan, devices: int) -> int | None:
    """Bytes on each device that the proposal adds to the target's weights."""
    pair = plan.pair
    setting, target, head = pair.setting, pair.target, pair.proposal.head
    if pair.method in DRAFT_FREE:
        return 0
    if pair.draft is not None:
        return weight_bytes(
            pair.draft,
            tensor_parallel_size=devices,
            dtype=setting.dtype,
            quantization=setting.draft_quantization,
            engine=plan.engine,
        )
    if head is not None:
        params = head_params(head, target)
        # Quantisation at load is not passed on to heads: they stay in 16 bits.
        return ceil(params * 2 / devices) if params is not None else None
    return _own_mtp_weights(plan, devices) if pair.method == "mtp" else None


def _own_mtp_weights(plan: _Plan, devices: int) -> int | None:
    target, setting = plan.pair.target, plan.pair.setting
    params = mtp_params(target)
    shape = weight_format(target, dtype=setting.dtype, quantization=setting.quantization, engine=plan.engine)
    if not params or shape is None:
        return None
    copies = MEMORY.get(f"own-matrices.{plan.engine}", 0)
    matrix = target.embedding_params
    if copies and matrix is None:
        return None
    return ceil((params * shape.bits + copies * (matrix or 0) * shape.plain) / 8 / devices)


def _draft_cache(plan: _Plan, target_cache: Cache | None, devices: int) -> Cache | None:
    pair = plan.pair
    element = MEMORY.get(f"draft-cache-bytes.{plan.engine}")
    dtype = plan.kv_cache_dtype if element is None else "f16"
    if pair.method in CACHELESS:
        return Cache()
    if pair.draft is not None:
        return cache(pair.draft, dtype, devices, engine=plan.engine)
    layers = _head_layers(pair)
    # An MTP layer attends as its target's layers do; of other heads this is known for ordinary attention only.
    if layers is None or (pair.target.latent is not None and pair.method != "mtp"):
        return None
    each = layer_cache(pair.target, cache_element_bytes(dtype), devices, plan.engine)
    if each is None:
        return None
    return Cache(full=layers * each + _latent_copy(plan, target_cache))


def _head_layers(pair: Pair) -> int | None:
    head = pair.proposal.head
    if pair.method == "mtp":
        return pair.target.num_nextn_predict_layers or (head.num_hidden_layers if head is not None else None)
    if head is None:
        return None
    return head.num_hidden_layers or (1 if head.method in EAGLE else None)


def _latent_copy(plan: _Plan, target_cache: Cache | None) -> float:
    """Bytes per token of the second copy of the target's cache that some engines verify from."""
    element = MEMORY.get(f"latent-copy-bytes.{plan.engine}")
    latent, layers = plan.pair.target.latent, plan.pair.target.num_hidden_layers
    if element is None or latent is None or layers is None or plan.pair.method != "mtp" or target_cache is None:
        return 0.0
    return max(layers * (latent.kv_lora_rank + latent.qk_rope_head_dim) * element, target_cache.full)


# ---------------------------------------------------------------------- the budget


def budget(
    pair: Pair,
    *,
    memory: int | None = None,
    kv_cache_dtype: str | None = None,
    gpu_memory_utilization: float | None = None,
    num_spec_tokens: int | None = None,
    draft_tensor_parallel_size: int | None = None,
) -> Budget:
    """Whether a pair fits its devices, and how many sequences it leaves room for.

    `memory`: bytes of one device, instead of what its row says the framework sees of it (nominal where nobody saw).
    Raises UsageError for values that cannot be.
    """
    _check(pair, memory, gpu_memory_utilization, num_spec_tokens, draft_tensor_parallel_size)
    plan = _plan(pair, memory, kv_cache_dtype, gpu_memory_utilization, num_spec_tokens, draft_tensor_parallel_size)
    load = _load(plan, plan.devices)
    parts = _parts(plan, load)
    fits, room = _fits(plan, parts), _room(plan, load, plan.drafted)
    return Budget(
        fits=fits,
        per_device_bytes=parts,
        max_num_seqs=room,
        max_num_seqs_without_draft=_room(plan, _alone(load), 0),
        max_tokens=_max_tokens(plan, load),
        max_context=_max_context(plan, load),
        min_tensor_parallel_size=_fewest_devices(plan),
        notes=(*_assumptions(plan), *_gaps(plan, load, parts), *_engine_notes(plan), *_shortage(plan, fits, room)),
    )


def devices_needed(
    pair: Pair, *, memory: int | None = None, gpu_memory_utilization: float | None = None
) -> tuple[bool | None, int | None]:
    """Whether a pair fits as it is set, and if it does not, the fewest devices that hold it; None: nobody can tell."""
    plan = _plan(pair, memory, None, gpu_memory_utilization, None, None)
    fits = _fits(plan, _parts(plan, _load(plan, plan.devices)))
    return fits, None if fits else _fewest_devices(plan)


def _check(pair: Pair, memory: int | None, share: float | None, drafted: int | None, split: int | None) -> None:
    setting = pair.setting
    counts = {
        "memory": memory,
        "tensor_parallel_size": setting.tensor_parallel_size,
        "draft_tensor_parallel_size": split,
        "max_model_len": setting.max_model_len,
        "max_num_seqs": setting.max_num_seqs,
    }
    for name, value in counts.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", hint="It must be at least 1.")
    for name, value in {"num_spec_tokens": drafted, "setting.num_spec_tokens": setting.num_spec_tokens}.items():
        if value is not None and value < 0:
            raise UsageError(f"{name} is {value}", hint="It must be at least 0.")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"gpu_memory_utilization is {share}", hint="It must be above 0 and at most 1.")


def _plan(
    pair: Pair,
    memory: int | None,
    kv_cache_dtype: str | None,
    share: float | None,
    drafted: int | None,
    split: int | None,
) -> _Plan:
    setting, device = pair.setting, pair.setting.device
    engine = setting.engine.key if setting.engine is not None else None
    if share is None:
        share = memory_choice("utilization", engine)
        if device is not None:
            share = min(share, MEMORY.get(f"utilization.{device.vendor}", share))
    known = drafted if drafted is not None else setting.num_spec_tokens
    return _Plan(
        pair=pair,
        engine=engine,
        devices=setting.tensor_parallel_size,
        draft_devices=split,
        length=setting.max_model_len or _stated_length(setting) or _assumed_length(pair.target),
        sequences=setting.max_num_seqs or 1,
        drafted=known if known is not None else int(LIMITS["draft-length.assumed"]),
        kv_cache_dtype=kv_cache_dtype,
        memory=memory if memory is not None else device_memory(device),
        utilization=share,
    )


def device_memory(device: Device | None) -> int | None:
    """Bytes of a device as its framework shows them, nominal where nobody saw; None: not known."""
    if device is None:
        return None
    return device.memory_seen_bytes or device.memory_bytes


def _stated_length(setting: Setting) -> int | None:
    """Prompt and answer together, where both lengths were given."""
    if setting.input_len is None or setting.output_len is None:
        return None
    return setting.input_len + setting.output_len


def _assumed_length(target: ModelProfile) -> int:
    return min(int(MEMORY["context"]), target.max_position_embeddings or int(MEMORY["context"]))


def _runtime(devices: int) -> float:
    return MEMORY["runtime"] if devices == 1 else MEMORY["runtime-split"]


def _alone(load: _Load) -> _Load:
    return load._replace(draft_weights=0, draft=Cache())


def _parts(plan: _Plan, load: _Load) -> Parts:
    tokens = plan.length + plan.drafted
    target_kv = load.target.of(tokens, 1 + plan.drafted) if load.target is not None else None
    draft_kv = load.draft.of(tokens, 1 + plan.drafted) if load.draft is not None else None
    parts = Parts(
        target_weights=_times(load.target_weights, 1),
        draft_weights=_times(load.draft_weights, 1),
        target_kv=_times(target_kv, plan.sequences),
        draft_kv=_times(draft_kv, plan.sequences),
        verify_workspace=_times(_workspace(plan, plan.drafted), plan.sequences),
        reserve=None if plan.memory is None else ceil(plan.memory - plan.usable(plan.devices)),
    )
    taken = [value for value in parts[:6] if value is not None]
    if plan.memory is None or len(taken) < 6:
        return parts
    return parts._replace(free=plan.memory - sum(taken))


def _times(each: float | None, sequences: int) -> int | None:
    return min(ceil(each * sequences), MOST_BYTES) if each is not None else None


def _workspace(plan: _Plan, drafted: int) -> float | None:
    """Bytes that verifying one sequence takes: each device holds whole rows of the vocabulary."""
    rows = plan.pair.target.vocab_size
    return (drafted + 1) * rows * MEMORY["logit-bytes"] if rows is not None else None


def _fits(plan: _Plan, parts: Parts) -> bool | None:
    if plan.memory is None:
        return None
    known = [value for value in parts[:6] if value is not None]
    # What is known may be too much already, whatever the rest takes.
    if sum(known) > plan.memory:
        return False
    return True if len(known) == 6 else None


def _per_sequence(plan: _Plan, load: _Load, length: int, drafted: int) -> float | None:
    """Bytes that one more sequence takes on each device; None where not known."""
    if load.target is None or load.draft is None:
        return None
    tokens, states = length + drafted, 1 + drafted
    parts = (load.target.of(tokens, states), load.draft.of(tokens, states), _workspace(plan, drafted))
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _left(plan: _Plan, load: _Load) -> float | None:
    """Bytes on each device that weights and runtime leave; None where not known."""
    if plan.memory is None or load.target_weights is None or load.draft_weights is None:
        return None
    return plan.usable(plan.devices) - load.target_weights - load.draft_weights


def _room(plan: _Plan, load: _Load, drafted: int) -> int | None:
    left, each = _left(plan, load), _per_sequence(plan, load, plan.length, drafted)
    if left is None or each is None:
        return None
    return max(floor(left / each), 0)


def _max_tokens(plan: _Plan, load: _Load) -> int | None:
    left, each = _left(plan, load), _per_sequence(plan, load, plan.length, plan.drafted)
    if left is None or each is None:
        return None
    return max(floor(left / each * plan.length), 0)


def _max_context(plan: _Plan, load: _Load) -> int | None:
    left, longest = _left(plan, load), plan.pair.target.max_position_embeddings
    if left is None or longest is None or _per_sequence(plan, load, longest, plan.drafted) is None:
        return None
    if not (load.target and load.draft) or load.target.windowed or load.draft.windowed:
        return _search_context(plan, load, left / plan.sequences, longest)
    empty = _per_sequence(plan, load, 0, plan.drafted) or 0.0
    token = load.target.full + load.draft.full
    free = left / plan.sequences - empty
    if free < 0:
        return 0
    return longest if free >= token * longest else floor(free / token)


def _search_context(plan: _Plan, load: _Load, left: float, longest: int) -> int:
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        each = _per_sequence(plan, load, middle, plan.drafted)
        if each is not None and each <= left:
            low = middle
        else:
            high = middle - 1
    return low


def _fewest_devices(plan: _Plan) -> int | None:
    if plan.memory is None:
        return None
    device = plan.pair.setting.device
    alone = device is not None and device.devices_per_node == 1
    undivided = _load(plan, 1)
    whole = (undivided.target_weights or 0) + (undivided.draft_weights or 0)
    for devices in range(1, 2 if alone else int(MEMORY["max-devices"]) + 1):
        divides = splits(plan.pair, devices)
        if divides is None:
            return None
        if not divides or whole / devices > plan.usable(devices):
            continue
        trial = plan._replace(devices=devices)
        fits = _fits(trial, _parts(trial, _load(trial, devices)))
        if fits is None:
            return None
        if fits:
            return devices
    return None


# ---------------------------------------------------------------------- notes


def _assumptions(plan: _Plan) -> list[str]:
    setting, found = plan.pair.setting, []
    if setting.max_model_len is None:
        found.append(f"no length was asked for: {plan.length:,} tokens per sequence are budgeted")
    if setting.max_num_seqs is None:
        found.append("no number of sequences was asked for: one is budgeted")
    if plan.memory is not None:
        spare = _runtime(plan.devices) / 2**30
        found.append(f"{spare:.2f} GiB per device for activations, graphs and communication are our estimate")
    head = plan.pair.proposal.head
    if head is not None and head.params is None and head_params(head, plan.pair.target) is not None:
        found.append(f"the parameters of {head.id} are computed from its method and its target's shape")
    for profile in (plan.pair.target, plan.pair.draft):
        if profile is not None and profile.dtype is None and profile.quantization is None and setting.dtype is None:
            found.append(f"the dtype of {profile.name} was not read: {MEMORY['weight-bits']:.0f} bits are assumed")
    return found


def _gaps(plan: _Plan, load: _Load, parts: Parts) -> list[str]:
    pair, found = plan.pair, []
    if plan.memory is None:
        found.append("the memory of the device is not known: whether it fits is not either")
    if load.target_weights is None:
        found.append(f"the weights of {pair.target.name} are not known: parameters or storage format were not read")
    if load.draft_weights is None:
        found.append(f"the weights of {pair.proposal.label} are not known: parameters or storage format were not read")
    if parts.target_kv is None:
        found.append(cache_gap(pair.target))
    if parts.draft_kv is None:
        unread = f"the KV cache of {pair.proposal.label} is not known: its layers, or how they attend, were not read"
        found.append(cache_gap(pair.draft) if pair.draft is not None else unread)
    if parts.verify_workspace is None:
        found.append(f"the rows of {pair.target.name}'s vocabulary are not known, nor what verifying takes")
    return found


def _engine_notes(plan: _Plan) -> list[str]:
    pair, found = plan.pair, []
    if pair.target.latent is not None and pair.method == "mtp" and f"latent-copy-bytes.{plan.engine}" in MEMORY:
        found.append(f"{plan.engine} keeps a second cache of the target at 16 bits for MTP: it counts as the draft's")
    if pair.proposal.origin == "target" and f"own-matrices.{plan.engine}" in MEMORY:
        found.append(f"{plan.engine} loads embedding and lm_head a second time for the MTP layer")
    if pair.target.attention in ("hybrid", "recurrent") and pair.target.recurrent_layers:
        found.append("each sequence keeps one recurrent state more for each drafted token")
    return found


def _shortage(plan: _Plan, fits: bool | None, room: int | None) -> list[str]:
    if fits is not False or not room:
        return []
    return [f"{room} of {plan.sequences} sequences of {plan.length:,} tokens have room at once: the rest wait"]
