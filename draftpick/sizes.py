"""What weights and caches of one model take, in bytes, from its dimensions; no weights are read.

What a number rests on that is no fact of the models stands in `draftpick.choices`, with its reason. A dimension that
is not known gives None, never a guess.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from draftpick.choices import GGUF_BITS, MEMORY, STORED_BITS, memory_choice
from draftpick.errors import UsageError
from draftpick.models.profile import MOST_PARAMS, Experts, LatentAttention, ModelProfile
from draftpick.pair import DRAFT_FREE, Head
from draftpick.rules.figures import PLAIN_BITS

_DELTA = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
"""Types whose recurrent layers are gated delta nets, and whose query projection is doubled by a gate."""
_INDEXED = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Types that keep the keys of a sparse index beside their latent cache."""
_DELTA_WIDTH, _DELTA_KEYS, _DELTA_KERNEL = 128, 16 * 128, 4
_CONV_KERNEL = 3
_CONVOLUTION_BYTES = 2

EAGLE = frozenset({"eagle", "eagle3", "eagle3.1", "peagle"})
CACHELESS = frozenset({"medusa", "mlp_speculator", "mtp_assistant", *DRAFT_FREE})
"""Methods that keep no keys and values of their own."""

CACHE_BYTES: Mapping[str, float] = {
    **dict.fromkeys(("auto", "bfloat16", "bf16", "float16", "f16", "fp16", "half"), 2.0),
    **dict.fromkeys(("float32", "f32", "fp32", "float"), 4.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1.0),
    # Blocks of 32 values and their scale.
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Bytes of one cached element by the name of the cache's type."""


class Cache(NamedTuple):
    """What one sequence keeps on one device, in bytes."""

    full: float = 0.0
    """For each token, in the layers that keep all of them."""
    windowed: float = 0.0
    """For each token of the window, in the layers that keep no more."""
    window: int = 0
    state: float = 0.0
    """For a recurrent state, however long the sequence."""
    known_until: int | None = None
    """Tokens up to which this holds; None: any number."""

    @property
    def per_token(self) -> float:
        """What one more token of a short sequence takes."""
        return self.full + self.windowed

    def of(self, tokens: int, states: int = 1) -> float | None:
        """Bytes of a sequence; None where a longer one is not known. `states`: copies kept of the recurrent state."""
        if self.known_until is not None and tokens > self.known_until:
            return None
        return self.full * tokens + self.windowed * min(tokens, self.window) + self.state * states


# ---------------------------------------------------------------------- weights


class Format(NamedTuple):
    """Bits of the weights of a model."""

    bits: float
    plain: float
    """Of the weights that are not quantised."""
    kept: str
    """What stays plain: nothing, matrices (embedding and lm_head) or all but experts."""


def weight_format(
    profile: ModelProfile, *, dtype: str | None = None, quantization: str | None = None, engine: str | None = None
) -> Format | None:
    """How the weights lie in memory, `quantization` being applied at load; None where a format is not known."""
    plain = _plain_bits(dtype if dtype not in (None, "auto") else profile.dtype, dtype, engine)
    name = quantization or profile.quantization
    if plain is None:
        return None
    if name is None:
        return Format(plain, plain, "nothing")
    found = stored_bits(name)
    if found is None:
        return None
    bits, whole = found
    if whole:
        return Format(bits, plain, "nothing")
    sparse_only = profile.experts is not None and "mxfp4" in name.lower()
    return Format(bits, plain, "all but experts" if sparse_only else "matrices")


def _plain_bits(name: str | None, asked: str | None, engine: str | None) -> float | None:
    if name is None:
        return MEMORY["weight-bits"]
    bits = PLAIN_BITS.get(name)
    return memory_choice("float32-bits", engine) if bits == 32 and asked in (None, "auto") else bits


@lru_cache(maxsize=256)
def stored_bits(quantization: str) -> tuple[float, bool] | None:
    """Bits of a weight with its scales, and whether embedding and lm_head are stored so too; None: unknown format."""
    name = quantization.lower()
    bare = name.removeprefix("gguf-").removeprefix("ud-")
    for choice in GGUF_BITS:
        if bare.startswith(choice.name):
            return choice.value, True
    for choice in STORED_BITS:
        if choice.name in name:
            return choice.value, name.startswith(("mlx-", "gguf-"))
    return None


def weight_bytes(
    profile: ModelProfile,
    *,
    tensor_parallel_size: int = 1,
    dtype: str | None = None,
    quantization: str | None = None,
    engine: str | None = None,
) -> int | None:
    """Bytes of a model's weights on each device, without its MTP layers; None where they cannot be known.

    Split are all matrices, embedding and lm_head by rows; copied to each device are KV projections beyond one head
    per device, the down projections of latent attention and the routers of experts.
    """
    shape = weight_format(profile, dtype=dtype, quantization=quantization, engine=engine)
    total = _stored(profile, shape, quantization)
    if total is None:
        return None
    if tensor_parallel_size == 1:
        return ceil(total)
    each = (shape.plain if shape.kept == "all but experts" else shape.bits) / 8 if shape is not None else 2.0
    copied = min(each * _copied_params(profile), total)
    keys = min(each * _key_value_params(profile), total - copied)
    heads = profile.num_key_value_heads or 1
    share = ceil(heads / tensor_parallel_size) / heads
    return ceil(copied + (total - copied - keys) / tensor_parallel_size + keys * share)


def _stored(profile: ModelProfile, shape: Format | None, quantization: str | None) -> float | None:
    """Bytes of the whole model on one device."""
    if profile.weight_bytes is not None and quantization in (None, profile.quantization):
        own = mtp_params(profile) or 0
        inside = profile.has_mtp and (profile.params_total or 0) - (profile.params_text or 0) >= own / 2
        return profile.weight_bytes - (own * shape.bits / 8 if inside and shape is not None else 0)
    params = _loaded_params(profile)
    if params is None or shape is None:
        return None
    plain = _plain_params(profile, shape.kept, params)
    return None if plain is None else (plain * shape.plain + (params - plain) * shape.bits) / 8


def _loaded_params(profile: ModelProfile) -> int | None:
    """Parameters that serve without speculation: text decoder and towers, no MTP layers."""
    text = profile.params_text
    total = profile.params_total if "params_total" not in profile.uncertain else None
    own = (mtp_params(profile) or 0) if profile.has_mtp else 0
    if text is None:
        return total - own if total is not None else None
    if profile.modality == "text" or total is None:
        return text
    return max(total - own, text)


def _plain_params(profile: ModelProfile, kept: str, params: int) -> int | None:
    if kept == "nothing":
        return 0
    if kept == "all but experts":
        experts = _expert_params(profile)
        return max(params - experts, 0) if experts is not None else None
    if profile.embedding_params is None or profile.tie_word_embeddings is None:
        return None
    return min(profile.embedding_params * (1 if profile.tie_word_embeddings else 2), params)


def _expert_params(profile: ModelProfile) -> int | None:
    experts, hidden, layers = profile.experts, profile.hidden_size, profile.num_hidden_layers
    if experts is None or experts.width is None or hidden is None or layers is None:
        return None
    return (layers - experts.dense_layers) * experts.num_experts * 3 * hidden * experts.width


def _key_value_params(profile: ModelProfile) -> int:
    """Parameters of the KV projections, which come in whole heads."""
    layers, hidden, heads = profile.num_hidden_layers, profile.hidden_size, profile.num_key_value_heads
    if profile.latent is not None or layers is None or hidden is None or heads is None or profile.head_dim is None:
        return 0
    return (layers - (profile.recurrent_layers or 0)) * hidden * 2 * heads * profile.head_dim


def _copied_params(profile: ModelProfile) -> int:
    layers, hidden = profile.num_hidden_layers or 0, profile.hidden_size or 0
    total = 0
    if profile.latent is not None:
        latent = profile.latent
        total += layers * hidden * ((latent.q_lora_rank or 0) + latent.kv_lora_rank + latent.qk_rope_head_dim)
    if profile.experts is not None:
        total += (layers - profile.experts.dense_layers) * hidden * profile.experts.num_experts
    return total


# ---------------------------------------------------------------------- parameters of heads


def mtp_params(profile: ModelProfile) -> int | None:
    """Parameters of a model's own MTP layers, without matrices shared with it; None where not known.

    A layer is one of the model's decoder layers behind a projection of two hidden states to one.
    """
    layers, hidden = profile.num_nextn_predict_layers, profile.hidden_size
    if not layers or hidden is None:
        return None if layers else 0
    attention, feed_forward = _attention_params(profile, hidden), _feed_forward_params(profile, hidden)
    if attention is not None and feed_forward is not None:
        return layers * (attention + feed_forward + 2 * hidden * hidden)
    if profile.modality == "text" and profile.params_total is not None and profile.params_text is not None:
        return profile.params_total - profile.params_text if profile.params_total > profile.params_text else None
    return None


def medusa_params(hidden_size: int, vocab_size: int, heads: int, layers: int = 1) -> int:
    """Parameters of Medusa heads: each has residual blocks of the hidden size and an lm_head of its own."""
    return heads * (layers * (hidden_size * hidden_size + hidden_size) + vocab_size * hidden_size)


def head_params(head: Head, target: ModelProfile) -> int | None:
    """Parameters that a published head adds: as published, or by its method's formula; None where not known.

    An EAGLE head without a published count is taken for one layer of its dense target's shape (to about 5 %).
    """
    if head.params is not None:
        return head.params
    computed = _computed_head_params(head, target)
    # Dimensions that come to more are wrong, and say nothing.
    return computed if computed is None or computed <= MOST_PARAMS else None


def _computed_head_params(head: Head, target: ModelProfile) -> int | None:
    hidden = head.hidden_size or target.hidden_size
    if head.method == "medusa":
        rows = head.vocab_size or target.vocab_size
        usual = int(MEMORY["medusa-heads"])
        heads = max(head.num_spec_tokens or usual, usual)
        return medusa_params(hidden, rows, heads) if hidden is not None and rows is not None else None
    if head.method == "mtp" and head.num_hidden_layers in (None, target.num_nextn_predict_layers):
        return mtp_params(target) or None
    if head.method in ("eagle", "eagle3") and hidden == target.hidden_size and target.experts is None:
        return _eagle_params(head, target)
    return None


def _eagle_params(head: Head, target: ModelProfile) -> int | None:
    hidden = target.hidden_size
    if hidden is None or target.intermediate_size is None or target.latent is not None or target.model_type in _DELTA:
        return None
    heads, kv_heads, width = target.num_attention_heads, target.num_key_value_heads, target.head_dim
    if heads is None or kv_heads is None or width is None:
        return None
    # EAGLE-3 feeds its layer embedding and hidden state side by side, and joins the states of three target layers.
    third = head.method == "eagle3"
    if third and head.draft_vocab_size is None:
        return None
    inputs = hidden * (2 if third else 1)
    layer = inputs * width * (heads + 2 * kv_heads) + heads * width * hidden + 3 * hidden * target.intermediate_size
    joined = hidden * hidden * (3 if third else 2)
    return (head.num_hidden_layers or 1) * layer + joined + (head.draft_vocab_size or 0) * hidden


def _attention_params(profile: ModelProfile, hidden: int) -> int | None:
    heads = profile.num_attention_heads
    if heads is None:
        return None
    if profile.latent is not None:
        return _latent_params(profile.latent, heads, hidden)
    if profile.num_key_value_heads is None or profile.head_dim is None:
        return None
    query, key = heads * profile.head_dim, profile.num_key_value_heads * profile.head_dim
    gates = 2 if profile.model_type in _DELTA else 1
    return hidden * (query * gates + 2 * key) + query * hidden


def _latent_params(latent: LatentAttention, heads: int, hidden: int) -> int | None:
    plain, value, rope = latent.qk_nope_head_dim, latent.v_head_dim, latent.qk_rope_head_dim
    if plain is None or value is None:
        return None
    query = heads * (plain + rope)
    asking = (hidden + query) * latent.q_lora_rank if latent.q_lora_rank else hidden * query
    kept = hidden * (latent.kv_lora_rank + rope) + latent.kv_lora_rank * heads * (plain + value)
    return asking + kept + heads * value * hidden


def _feed_forward_params(profile: ModelProfile, hidden: int) -> int | None:
    experts = profile.experts
    if experts is None:
        return 3 * hidden * profile.intermediate_size if profile.intermediate_size is not None else None
    if experts.width is None:
        return None
    routed = experts.num_experts * (3 * hidden * experts.width + hidden)
    return routed + 3 * hidden * _shared_width(experts, experts.width)


def _shared_width(experts: Experts, width: int) -> int:
    return experts.shared_width if experts.shared_width is not None else experts.shared * width


# ---------------------------------------------------------------------- caches


def cache_element_bytes(kv_cache_dtype: str | None) -> float:
    """Bytes of one cached element; 16 bits where no type is named. Raises UsageError for an unknown one."""
    size = CACHE_BYTES.get((kv_cache_dtype or "auto").lower())
    if size is None:
        raise UsageError(f"unknown KV cache type {kv_cache_dtype!r}", hint=f"Known: {', '.join(CACHE_BYTES)}.")
    return size


def kv_bytes_per_token(
    profile: ModelProfile,
    kv_cache_dtype: str | None = None,
    tensor_parallel_size: int = 1,
    *,
    engine: str | None = None,
) -> float | None:
    """Bytes of KV cache that a token takes on each device (within the window of sliding layers); None: not known."""
    found = cache(profile, kv_cache_dtype, tensor_parallel_size, engine=engine)
    return found.per_token if found is not None else None


def cache(
    profile: ModelProfile,
    kv_cache_dtype: str | None = None,
    tensor_parallel_size: int = 1,
    *,
    engine: str | None = None,
) -> Cache | None:
    """What a sequence keeps on each device; None where layers, heads or the kind of attention are not known."""
    element = cache_element_bytes(kv_cache_dtype)
    layers, each = profile.num_hidden_layers, layer_cache(profile, element, tensor_parallel_size, engine)
    if layers is None or each is None or profile.attention not in ("full", "sliding", "hybrid", "recurrent"):
        return None
    if profile.attention == "sliding":
        return _sliding_cache(profile, layers, each)
    if profile.attention == "full":
        return Cache(full=layers * each)
    state = _state_bytes(profile, tensor_parallel_size)
    if state is None or profile.recurrent_layers is None:
        return None
    return Cache(full=(layers - profile.recurrent_layers) * each, state=profile.recurrent_layers * state)


def _sliding_cache(profile: ModelProfile, layers: int, each: float) -> Cache | None:
    window, sliding = profile.sliding_window, profile.sliding_layers
    if window is None:
        return None
    if sliding is None:
        # Within the window it makes no difference which layers have one.
        return Cache(full=layers * each, known_until=window)
    return Cache(full=(layers - sliding) * each, windowed=sliding * each, window=window)


def layer_cache(profile: ModelProfile, element: float, devices: int, engine: str | None) -> float | None:
    """Bytes of one token in one attention layer on each device."""
    latent, heads = profile.latent, profile.num_attention_heads
    if latent is not None:
        if f"expanded-latent.{engine}" in MEMORY:
            if heads is None or latent.qk_nope_head_dim is None or latent.v_head_dim is None:
                return None
            return ceil(heads / devices) * latent.expanded * element
        # One vector serves all heads, so each device keeps all of it.
        index = MEMORY["index-bytes"] if profile.model_type in _INDEXED else 0
        return (latent.kv_lora_rank + latent.qk_rope_head_dim) * element + index
    if profile.num_key_value_heads is None or profile.head_dim is None:
        return None
    return ceil(profile.num_key_value_heads / devices) * 2 * profile.head_dim * element


def _state_bytes(profile: ModelProfile, devices: int) -> float | None:
    """Bytes of one recurrent layer's state on each device."""
    if profile.model_type in _DELTA and profile.num_attention_heads is not None and profile.head_dim is not None:
        # Values are as wide as the queries of the attention layers, keys alike in every published config.
        values = profile.num_attention_heads * profile.head_dim
        heads = ceil(values / _DELTA_WIDTH / devices)
        convolved = (_DELTA_KERNEL - 1) * ceil((2 * _DELTA_KEYS + values) / devices)
        return heads * _DELTA_WIDTH * _DELTA_WIDTH * MEMORY["state-bytes"] + convolved * _CONVOLUTION_BYTES
    if profile.model_type == "lfm2" and profile.hidden_size is not None:
        return (_CONV_KERNEL - 1) * ceil(profile.hidden_size / devices) * _CONVOLUTION_BYTES
    return None


def cache_gap(profile: ModelProfile) -> str:
    """Why the cache of a model is not known."""
    if profile.attention == "unknown":
        return f"the KV cache of {profile.name} is not known: how its layers attend was not read"
    if profile.attention in ("hybrid", "recurrent"):
        return f"the KV cache of {profile.name} is not known: its recurrent layers were not read"
    if profile.attention == "sliding":
        return f"the KV cache of {profile.name} is not known: its window, or which layers have it, was not read"
    return f"the KV cache of {profile.name} is not known: heads or layers were not read"
