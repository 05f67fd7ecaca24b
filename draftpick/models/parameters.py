"""Recompute the number of parameters of a model from its dimensions.

Pure arithmetic over a `ModelProfile`: no file is read and nothing is guessed. The published architectures differ in
small things (biases, norms, learned positions); `_RECIPES` names these by config `model_type`. A type that is not
listed, or a profile that lacks a dimension its type needs, gives `None`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from draftpick.models.profile import MOST_PARAMS, Experts, LatentAttention, ModelProfile

MOST_MTP_LAYERS = 256
"""Each drafts a token, and no answer tells of more in a step."""
MOST_KEPT = 1 << 28
"""Numbers that all layers keep of one token; the largest models keep a few millions."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of parameters of a text decoder, without vision towers and MTP modules."""

    total_text: int
    """All of them; a tied embedding matrix counts once."""
    embedding: int
    """One embedding matrix."""
    active: int
    """Those one token touches, all of the embedding matrices included; equals `total_text` in a dense model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """What the dimensions of a config do not say and its `model_type` does."""

    gated: bool = True
    """The feed-forward has a gate: three matrices instead of two."""
    norm: Literal["rms", "layer", "none"] = "rms"
    """rms: a weight; layer: weight and bias; none: no parameters."""
    norms: int = 2
    """Norms of hidden size in each layer."""
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["head", "width", "none"] = "none"
    """head: one weight of head_dim each for q and k; width: one for every head."""
    q_bias: bool = False
    kv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    positions: int | None = None
    """Rows of the learned position table beyond `max_position_embeddings`; None: no such table."""
    embedding_width: int | None = None
    """Width of the embedding where it is projected to the hidden size and back."""
    per_layer: int = 0
    """Single parameters in each layer, for instance of a trained activation."""
    per_head: int = 0
    """Single parameters for each attention head, for instance attention sinks."""
    sub_norms: bool = False
    """Two more norms inside: over the attention's output and over the feed-forward's hidden width (BitNet)."""
    router_bias: bool = False
    """One parameter for each expert beside the router: its bias, or the correction of its scores."""
    expert_bias: bool = False
    shared_gate: bool = False
    """The shared expert has a gate of its own (hidden size → 1)."""
    indexer: tuple[int, int] | None = None
    """Heads and width of the index of sparse attention (DeepSeek 3.2, GLM 5)."""
    linear: Literal["delta", "conv"] | None = None
    """What the recurrent layers are: gated delta nets (Qwen 3.5) or short convolutions (LFM 2)."""
    query_gate: bool = False
    """The query projection is doubled by an output gate."""


_LLAMA = _Recipe()
_QWEN2 = _Recipe(q_bias=True, kv_bias=True)
_QWEN3 = _Recipe(qk_norm="head")
_GEMMA3 = _Recipe(norms=4, qk_norm="head")
_OLMO2 = _Recipe(qk_norm="width")
_ALL_BIASES = _Recipe(gated=False, norm="layer", q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True)
_GPT2 = replace(_ALL_BIASES, positions=0)
_OPT = replace(_ALL_BIASES, positions=2)
_COHERE = _Recipe(norms=1)
_FALCON = _Recipe(gated=False, norm="layer")
_GLM45 = _Recipe(q_bias=True, kv_bias=True, router_bias=True)
_STABLELM = _Recipe(norm="layer")
_SCORED = _Recipe(router_bias=True)
_QWEN35 = _Recipe(qk_norm="head", linear="delta", query_gate=True, shared_gate=True)

_RECIPES: dict[str, _Recipe] = {
    "apertus": _Recipe(gated=False, qk_norm="head", per_layer=2),
    "arcee": _Recipe(gated=False),
    "baichuan": _LLAMA,
    "bailing_moe": _Recipe(qk_norm="head", router_bias=True),
    "bitnet": _Recipe(sub_norms=True),
    "bloom": replace(_ALL_BIASES, embedding_norm=True),
    "chatglm": _QWEN2,
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "deepseek": _LLAMA,
    "deepseek_v2": _LLAMA,
    "deepseek_v3": _SCORED,
    "deepseek_v32": _Recipe(router_bias=True, indexer=(64, 128)),
    "ernie4_5": _LLAMA,
    "ernie4_5_moe": _SCORED,
    "exaone": _LLAMA,
    "exaone4": _Recipe(qk_norm="head"),
    "falcon": _FALCON,
    "gemma": _LLAMA,
    "gemma2": _Recipe(norms=4),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "glm": _QWEN2,
    "glm4": _Recipe(norms=4),
    "glm4_moe": _GLM45,
    "glm4_moe_lite": _SCORED,
    "glm_moe_dsa": _Recipe(router_bias=True, indexer=(32, 128)),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": _ALL_BIASES,
    "gpt_oss": _Recipe(q_bias=True, kv_bias=True, o_bias=True, per_head=1, router_bias=True, expert_bias=True),
    "granite": _LLAMA,
    "granitemoe": _LLAMA,
    "granitemoehybrid": _LLAMA,
    "hunyuan_v1_dense": _QWEN3,
    "hunyuan_v1_moe": _QWEN3,
    "internlm2": _LLAMA,
    "internlm3": _LLAMA,
    "kimi_k2": _SCORED,
    "kimi_k25": _SCORED,
    "lfm2": _Recipe(qk_norm="head", linear="conv"),
    "llama": _LLAMA,
    "llama4": _LLAMA,
    "mimo": _QWEN2,
    "minicpm": _LLAMA,
    "minicpm3": _LLAMA,
    "minimax_m2": _Recipe(qk_norm="width", router_bias=True),
    "ministral3": _LLAMA,
    "mistral": _LLAMA,
    "mistral3": _LLAMA,
    "mixtral": _LLAMA,
    "nemotron": _Recipe(gated=False, norm="layer"),
    "olmo": _Recipe(norm="none", final_norm=False),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": _OLMO2,
    "opt": _OPT,
    "panguembedded": _Recipe(q_bias=True, kv_bias=True, o_bias=True),
    "phi": replace(_ALL_BIASES, norms=1, head_bias=True),
    "phi3": _LLAMA,
    "phimoe": _Recipe(norm="layer", q_bias=True, kv_bias=True, o_bias=True, head_bias=True),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_moe": _Recipe(q_bias=True, kv_bias=True, shared_gate=True),
    "qwen2_vl": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5": _QWEN35,
    "qwen3_5_moe": _QWEN35,
    "qwen3_moe": _QWEN3,
    "qwen3_next": _QWEN35,
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "seed_oss": _QWEN2,
    "smollm3": _LLAMA,
    "stablelm": _STABLELM,
    "starcoder2": _ALL_BIASES,
}

_GRANITE_CODE = _Recipe(q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True)

# Published models whose config switches on what others of their type lack, and which no dimension shows.
# (model_type, hidden_size, num_hidden_layers, vocab_size)
_EXCEPTIONS: dict[tuple[str, int, int, int], _Recipe] = {
    ("bailing_moe", 2048, 28, 126464): _LLAMA,  # Ling-lite
    ("cohere", 12288, 64, 256000): _Recipe(norms=1, qk_norm="width"),  # Command R+
    ("falcon", 4096, 60, 65024): replace(_FALCON, norms=1),  # Falcon 2 11B
    ("falcon", 4544, 32, 65024): replace(_FALCON, norms=1),  # Falcon 7B
    ("glm4_moe", 5120, 92, 151552): replace(_GLM45, qk_norm="head"),  # GLM-4.5, 4.6, 4.7
    ("llama", 2560, 32, 49152): _GRANITE_CODE,
    ("llama", 4096, 36, 49152): _GRANITE_CODE,
    ("opt", 1024, 24, 50272): replace(_OPT, final_norm=False, embedding_width=512),  # OPT-350m
    ("stablelm", 2048, 24, 100352): replace(_STABLELM, q_bias=True, kv_bias=True),  # StableLM 2 1.6B
}


def count(profile: ModelProfile) -> Counts | None:
    """The parameters of the text decoder, or None where the architecture or a dimension is not known."""
    recipe = _recipe(profile)
    hidden, vocabulary = profile.hidden_size, profile.vocab_size
    if recipe is None or hidden is None or vocabulary is None or profile.tie_word_embeddings is None:
        return None
    mixers = _mixers(profile, recipe, hidden)
    outside = _outside(profile, recipe, hidden)
    feed_forward = _feed_forward(profile, recipe, hidden)
    if mixers is None or outside is None or feed_forward is None:
        return None
    layers = profile.num_hidden_layers or 0
    norms = layers * (recipe.norms * _norm(recipe, hidden) + recipe.per_layer)
    rest = mixers + norms + outside
    every, touched = feed_forward
    width = recipe.embedding_width or hidden
    return Counts(total_text=rest + every, embedding=vocabulary * width, active=rest + touched)


def _recipe(profile: ModelProfile) -> _Recipe | None:
    kind = profile.model_type or ""
    shape = (kind, profile.hidden_size or 0, profile.num_hidden_layers or 0, profile.vocab_size or 0)
    return _EXCEPTIONS.get(shape) or _RECIPES.get(kind)


def _norm(recipe: _Recipe, width: int) -> int:
    return {"rms": width, "layer": 2 * width, "none": 0}[recipe.norm]


def _outside(profile: ModelProfile, recipe: _Recipe, hidden: int) -> int | None:
    """What stands before the first layer and after the last."""
    vocabulary = profile.vocab_size or 0
    width = recipe.embedding_width or hidden
    total = vocabulary * width * (1 if profile.tie_word_embeddings else 2)
    if width != hidden:
        total += 2 * width * hidden
    total += _norm(recipe, hidden) * (recipe.final_norm + recipe.embedding_norm)
    if recipe.head_bias:
        total += vocabulary
    if recipe.positions is not None:
        if profile.max_position_embeddings is None:
            return None
        total += (profile.max_position_embeddings + recipe.positions) * hidden
    return total


def _mixers(profile: ModelProfile, recipe: _Recipe, hidden: int) -> int | None:
    """Attention and its recurrent substitutes, over all layers."""
    layers = profile.num_hidden_layers
    if layers is None:
        return None
    recurrent = profile.recurrent_layers
    if recipe.linear is None:
        if recurrent or profile.attention in ("hybrid", "recurrent"):
            return None
        recurrent = 0
    if recurrent is None:
        return None
    latent = profile.latent
    attention = _latent(profile, recipe, latent, hidden) if latent else _attention(profile, recipe, hidden)
    substitute = _recurrent(profile, recipe, hidden) if recurrent else 0
    if attention is None or substitute is None:
        return None
    return (layers - recurrent) * attention + recurrent * substitute


def _attention(profile: ModelProfile, recipe: _Recipe, hidden: int) -> int | None:
    heads, kv_heads, head_dim = profile.num_attention_heads, profile.num_key_value_heads, profile.head_dim
    if heads is None or kv_heads is None or head_dim is None:
        return None
    query, key = heads * head_dim, kv_heads * head_dim
    total = hidden * (query * (2 if recipe.query_gate else 1) + 2 * key) + query * hidden
    total += query * recipe.q_bias + 2 * key * recipe.kv_bias + hidden * recipe.o_bias
    total += {"head": 2 * head_dim, "width": query + key, "none": 0}[recipe.qk_norm]
    return total + heads * recipe.per_head + query * recipe.sub_norms


def _latent(profile: ModelProfile, recipe: _Recipe, latent: LatentAttention, hidden: int) -> int | None:
    heads = profile.num_attention_heads
    plain, value = latent.qk_nope_head_dim, latent.v_head_dim
    if heads is None or plain is None or value is None:
        return None
    query = heads * (plain + latent.qk_rope_head_dim)
    if latent.q_lora_rank:
        total = hidden * latent.q_lora_rank + latent.q_lora_rank + latent.q_lora_rank * query
    else:
        total = hidden * query
    total += hidden * (latent.kv_lora_rank + latent.qk_rope_head_dim) + latent.kv_lora_rank
    total += latent.kv_lora_rank * heads * (plain + value) + heads * value * hidden
    if recipe.indexer is not None:
        index_heads, width = recipe.indexer
        if not latent.q_lora_rank:
            return None
        total += latent.q_lora_rank * index_heads * width + hidden * (width + index_heads) + 2 * width
    return total


def _recurrent(profile: ModelProfile, recipe: _Recipe, hidden: int) -> int | None:
    if recipe.linear == "conv":
        return 4 * hidden * hidden + 3 * hidden  # in (to three parts) and out projections, a kernel of three
    # Gated delta net. Every published config has 16 key heads and value heads that are 128 wide, and as much value
    # width as the attention layers have query width.
    width, state = 128, 16 * 128
    value = (profile.num_attention_heads or 0) * (profile.head_dim or 0)
    if value % width:
        return None
    heads, kernel = value // width, 4
    projections = hidden * (2 * state + 2 * value + 2 * heads) + value * hidden
    return projections + kernel * (2 * state + value) + 2 * heads + width


def _feed_forward(profile: ModelProfile, recipe: _Recipe, hidden: int) -> tuple[int, int] | None:
    """(all parameters, those one token touches), over all layers."""
    layers = profile.num_hidden_layers or 0
    dense_width = profile.intermediate_size
    experts = profile.experts
    if experts is None:
        if dense_width is None:
            return None
        total = layers * _mlp(recipe, hidden, dense_width)
        return total, total
    if experts.width is None or (experts.dense_layers and dense_width is None):
        return None
    dense = experts.dense_layers * _mlp(recipe, hidden, dense_width or 0)
    sparse = layers - experts.dense_layers
    one = _matrices(recipe) * hidden * experts.width
    if recipe.expert_bias:
        one += 2 * experts.width + hidden
    around = _shared(recipe, experts, hidden) + experts.num_experts * (hidden + recipe.router_bias)
    return (
        dense + sparse * (around + experts.num_experts * one),
        dense + sparse * (around + experts.experts_per_token * one),
    )


def _matrices(recipe: _Recipe) -> int:
    return 3 if recipe.gated else 2


def _mlp(recipe: _Recipe, hidden: int, width: int) -> int:
    total = _matrices(recipe) * hidden * width
    if recipe.mlp_bias:
        total += width * (_matrices(recipe) - 1) + hidden
    return total + width * recipe.sub_norms


def _shared(recipe: _Recipe, experts: Experts, hidden: int) -> int:
    width = experts.shared_width
    if width is None:
        width = experts.shared * (experts.width or 0)
    if not width:
        return 0
    return _matrices(recipe) * hidden * width + hidden * recipe.shared_gate


# ---------------------------------------------------------------------- what no model has


def too_large(profile: ModelProfile) -> str | None:
    """What the sizes of a profile come to, where no model has as much; each may be possible for itself."""
    stated = (profile.params_total, profile.params_text, profile.params_active, profile.embedding_params)
    params = max(*(value or 0 for value in stated), _matrices_at_most(profile))
    kept = (profile.num_hidden_layers or 0) * _layer_kept(profile)
    mtp = profile.num_nextn_predict_layers or 0
    for value, most, what in (
        (params, MOST_PARAMS, "parameters"),
        (kept, MOST_KEPT, "cached numbers a token"),
        (mtp, MOST_MTP_LAYERS, "MTP layers"),
    ):
        if value > most:
            return f"its sizes come to {float(value):.0e} {what}, which no model has"
    return None


def _matrices_at_most(profile: ModelProfile) -> int:
    """Parameters of the larger matrices of all layers, whatever the architecture and the rest of its dimensions."""
    hidden, experts, latent = profile.hidden_size or 1, profile.experts, profile.latent
    width = profile.intermediate_size or 0
    if experts is not None:
        each = experts.width or 0
        width += experts.num_experts * each + (experts.shared_width or experts.shared * each) + experts.num_experts
    heads = max(profile.num_attention_heads or 0, profile.num_key_value_heads or 0)
    attention = hidden * heads * (profile.head_dim or 0)
    if latent is not None:
        inner = max(hidden, latent.q_lora_rank or 0, latent.kv_lora_rank)
        attention += inner * (heads * latent.expanded + (latent.q_lora_rank or 0) + latent.kv_lora_rank)
    # An MTP module is a layer more.
    layers = (profile.num_hidden_layers or 1) + (profile.num_nextn_predict_layers or 0)
    return layers * (hidden * (width + hidden) + attention)


def _layer_kept(profile: ModelProfile) -> int:
    """Numbers that one layer keeps of a token, at most: keys and values for each head, latent ones expanded."""
    heads = max(profile.num_attention_heads or 0, profile.num_key_value_heads or 0)
    if (latent := profile.latent) is None:
        return 2 * heads * (profile.head_dim or 0)
    return max(heads * latent.expanded, latent.kv_lora_rank + latent.qk_rope_head_dim)
