"""A model's config.json, read as data: whatever its family calls a size, and nothing that it does not say.

The code a config may name (`auto_map`) is never run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from draftpick.errors import InvalidFile
from draftpick.models.bounded import clean
from draftpick.models.profile import Experts, LatentAttention, ModelProfile

Config = Mapping[str, Any]

_NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "transformer_layer_config")
_WRAPPERS = ("thinker_config",)
"""Configs that hold a whole multimodal config of their own."""

# The names a size goes by, most specific first.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_query_heads")
_KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups")
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "attention_head_size")
_WIDTH = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_dim", "d_ff")
_ROWS = ("padded_vocab_size", "vocab_size")
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "seq_length",
    "max_sequence_length",
    "max_seq_len",
    "max_seq_length",
    "model_max_length",
    "n_ctx",
)
_EXPERTS = (
    "n_routed_experts",
    "num_routed_experts",
    "num_experts",
    "num_local_experts",
    "moe_num_experts",
    "n_experts",
    "num_moe_experts",
)
_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "top_k_experts",
    "moe_k",
    "num_selected_experts",
    "n_experts_per_tok",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size")
_SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
_SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
)
_DENSE_FIRST = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "n_dense_layers")
_VISION = ("vision_config", "visual", "vision_tower", "mm_vision_tower", "img_processor")
_AUDIO = ("audio_config", "audio_encoder_config", "audio_processor", "speech_config")
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules", "mtp_num_layers")

_LIMITS = {"layers": 10_000, "context": 1 << 40, "default": 10**9}
"""No model is near: above, the file is corrupt or hostile."""

# Types whose class ties the embedding matrices unless the config says otherwise (defaults of transformers).
_TIED_BY_DEFAULT = frozenset(
    [
        "bloom",
        "cohere",
        "cohere2",
        "command-r",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "gemma3n_text",
        "gemma4",
        "gemma4_text",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "mpt",
        "opt",
        "starcoder2",
    ]
)
_UNTIED_BY_DEFAULT = frozenset(
    [
        "baichuan",
        "chatglm",
        "deepseek_v2",
        "deepseek_v3",
        "glm",
        "glm4",
        "gpt_neox",
        "gpt_oss",
        "internlm2",
        "llama",
        "llama4",
        "minimax_m2",
        "mistral",
        "mixtral",
        "olmo2",
        "phi",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
        "stablelm",
    ]
)

# A nested config is saved without the values that equal its class's defaults, so these stand for what is absent.
# Source: the configuration classes of transformers 5.
_NESTED_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
    "llama": {
        "vocab_size": 32_000,
        "hidden_size": 4096,
        "intermediate_size": 11_008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "vocab_size": 32_000,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
    },
}

# Types with one full layer in so many, the others sliding, where the config has no `layer_types`.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
_RECURRENT_TYPES = frozenset(
    ["mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm", "codestral_mamba"]
)
_ALWAYS_BOTH = frozenset({"falcon_h1", "hymba"})
"""Types whose every layer has attention and a recurrent part side by side."""
_RECURRENT_WORDS = ("linear", "mamba", "recurrent", "conv", "ssm", "kda", "delta", "rwkv", "lightning")

_HEAD_WORDS = (
    "eagle",
    "medusa",
    "mlpspeculator",
    "mlp_speculator",
    "dflash",
    "dspark",
    "mtpmodel",
    "mtpforcausallm",
    "nextn",
    "hydra",
    "assistantforcausallm",
    "draftmodel",
)
_HEAD_KEYS = (
    "draft_vocab_size",
    "medusa_num_heads",
    "eagle_config",
    "dflash_config",
    "speculators_model_type",
    "n_predict",
)


def profile_from_config(
    config: Config, *, id: str, origin: str, where: str, path: str | None = None, revision: str | None = None
) -> ModelProfile:
    """What a config.json says of a model; what it does not say is None.

    `where` names the file in errors. Raises InvalidFile for sizes that no model has.
    """
    return _Reader(config, where).profile(id=id, origin=origin, path=path, revision=revision)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number (true and false are not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Reader:
    """One config: the outer object and the part that describes the text decoder."""

    def __init__(self, config: Config, where: str) -> None:
        self.where = where
        self.outer = _unwrapped(config)
        self.text, self.is_nested = _text_part(self.outer)
        self.notes: list[str] = []
        self.uncertain: set[str] = set()
        self.type = clean(self.text.get("model_type")) or clean(self.outer.get("model_type")) or ""

    # ---------------------------------------------------------------- values

    def value(self, names: Iterable[str]) -> Any:
        """The first of these keys that is set, in the text part before the outer one."""
        names = tuple(names)
        for part in (self.text, self.outer) if self.is_nested else (self.text,):
            for name in names:
                if part.get(name) is not None:
                    return part[name]
        return None

    def count(self, names: tuple[str, ...], limit: str = "default") -> int | None:
        """A positive whole number; of a list the value all its entries agree on. None: not said, or no single value."""
        value = self.value(names)
        if isinstance(value, list):
            return self._agreed(names[0], value, limit)
        return self._number(names[0], value, limit)

    def _number(self, name: str, value: object, limit: str) -> int | None:
        if not is_number(value):
            return None
        if not math.isfinite(value) or value > _LIMITS[limit] or value < -_LIMITS[limit]:
            shown = str(value)
            raise InvalidFile(
                f"{self.where}: {name} is {shown if len(shown) < 30 else shown[:27] + '…'}, which no model has",
                "the file is corrupt; download it again",
            )
        return int(value) if value > 0 and value == int(value) else None

    def _agreed(self, name: str, values: list[object], limit: str) -> int | None:
        numbers = {self._number(name, value, limit) for value in values[: _LIMITS["layers"]]} - {None}
        if len(numbers) == 1:
            return numbers.pop()
        if numbers:
            self.notes.append(f"{name} differs between layers")
        return None

    def default(self, name: str, value: int | None) -> int | None:
        """`value`, or the default of the class where a nested config leaves it out."""
        if value is not None or not self.is_nested:
            return value
        known = _NESTED_DEFAULTS.get(self.type, {}).get(name)
        note = "sizes that config.json leaves out are the defaults of its class"
        if known is not None and note not in self.notes:
            self.notes.append(note)
        return known

    # ---------------------------------------------------------------- the profile

    def profile(self, *, id: str, origin: str, path: str | None, revision: str | None) -> ModelProfile:
        layers = self.default("num_hidden_layers", self.count(_LAYERS, "layers"))
        hidden = self.default("hidden_size", self.count(_HIDDEN))
        latent = self.latent()
        heads = self.default("num_attention_heads", self.count(_HEADS))
        experts, width = self.experts(layers)
        context = self.default("max_position_embeddings", self.count(_CONTEXT, "context"))
        profile = ModelProfile(
            id=id,
            origin=origin,
            path=path,
            revision=revision,
            architecture=self.architecture(),
            model_type=clean(self.outer.get("model_type")) or clean(self.text.get("model_type")),
            num_hidden_layers=layers,
            hidden_size=hidden,
            intermediate_size=width,
            experts=experts,
            num_attention_heads=heads,
            num_key_value_heads=self.kv_heads(heads),
            head_dim=self.head_dim(hidden, heads, latent),
            latent=latent,
            tie_word_embeddings=self.tied(),
            num_nextn_predict_layers=self.mtp_layers(),
            vocab_size=self.default("vocab_size", self.count(_ROWS)),
            max_position_embeddings=context,
            rope=self.rope(context),
            dtype=self.dtype(),
            quantization=quantization(self.outer) or quantization(self.text),
            modality=self.modality(),
            mrope=self.mrope(),
            remote_code=bool(self.outer.get("auto_map") or self.text.get("auto_map")),
        )
        profile = profile._replace(**self.attention(layers, context))
        head_for = self.head_for(profile)
        method = draft_method(f"{profile.architecture or ''} {self.type} {self._says_method()}") if head_for else None
        return profile._replace(
            head_for=head_for, draft_method=method, uncertain=frozenset(self.uncertain), notes=tuple(self.notes)
        )

    def architecture(self) -> str | None:
        for part in (self.outer, self.text):
            names = part.get("architectures")
            if isinstance(names, list) and names and clean(names[0]):
                return clean(names[0])
        return None

    def latent(self) -> LatentAttention | None:
        rank, rope = self.count(("kv_lora_rank",)), self.count(("qk_rope_head_dim",))
        if rank is None or rope is None:
            return None
        return LatentAttention(
            kv_lora_rank=rank,
            qk_rope_head_dim=rope,
            q_lora_rank=self.count(("q_lora_rank",)),
            qk_nope_head_dim=self.count(("qk_nope_head_dim",)),
            v_head_dim=self.count(("v_head_dim",)),
        )

    def kv_heads(self, heads: int | None) -> int | None:
        if self.text.get("block_configs") is not None:  # layers of searched architectures differ
            self.notes.append("num_key_value_heads differs between layers")
            return None
        if self.type in ("falcon", "RefinedWeb", "RefinedWebModel"):
            return self._falcon_kv_heads(heads)
        if self.type == "chatglm" and self.text.get("multi_query_attention") is False:
            return heads
        if self.text.get("multi_query") is True and self.value(_KV_HEADS) is None:
            return 1
        inner = self.text.get("attn_config")
        if isinstance(inner, Mapping) and inner.get("kv_n_heads") is not None:
            return self._number("attn_config.kv_n_heads", inner["kv_n_heads"], "default")
        if self.value(_KV_HEADS) is not None:
            return self.count(_KV_HEADS)
        return self.default("num_key_value_heads", None) or heads

    def _falcon_kv_heads(self, heads: int | None) -> int | None:
        """Falcon's class ignores `num_kv_heads` unless the new decoder is on."""
        if self.text.get("new_decoder_architecture"):
            return self.count(_KV_HEADS)
        return 1 if self.text.get("multi_query", True) else heads

    def head_dim(self, hidden: int | None, heads: int | None, latent: LatentAttention | None) -> int | None:
        if latent is not None or self.value(("qk_nope_head_dim",)) is not None:
            return None  # keys and values have widths of their own
        said = self.default("head_dim", self.count(_HEAD_DIM))
        if said is not None or self.value(_HEAD_DIM) is not None:
            return said
        return hidden // heads if hidden and heads and hidden % heads == 0 else None

    def tied(self) -> bool | None:
        for part in (self.outer, self.text):
            said = part.get("tie_word_embeddings")
            if isinstance(said, bool):
                return said
        if self.type in _TIED_BY_DEFAULT or self.type in _UNTIED_BY_DEFAULT:
            return self.type in _TIED_BY_DEFAULT
        return None

    def mtp_layers(self) -> int | None:
        value = self.value(_MTP)
        return 0 if is_number(value) and value == 0 else self.count(_MTP, "layers")

    def dtype(self) -> str | None:
        for part in (self.outer, self.text):
            for name in ("dtype", "torch_dtype"):
                said = clean(part.get(name))
                if said:
                    said = said.removeprefix("torch.")
                    return said if said in ("bfloat16", "float16", "float32") else None
        return None

    def modality(self) -> str:
        kinds = ["text"]
        if any(self._has(name) for name in _VISION):
            kinds.append("vision")
        if any(self._has(name) for name in _AUDIO):
            kinds.append("audio")
        return "+".join(kinds)

    def _has(self, name: str) -> bool:
        return bool(self.outer.get(name)) or bool(self.text.get(name))

    # ---------------------------------------------------------------- feed-forward

    def experts(self, layers: int | None) -> tuple[Experts | None, int | None]:
        """The experts' layout and the width of the dense feed-forward."""
        width = self.default("intermediate_size", self.count(_WIDTH)) or self._implied_width()
        inner = self.text.get("ffn_config")
        part = _Reader(inner, self.where) if isinstance(inner, Mapping) and inner.get("moe_num_experts") else self
        number, chosen = part.count(_EXPERTS), part.count(_PER_TOKEN)
        if self.type in ("jamba", "bamba") and number == 1:
            return None, width
        if number is None or number < 2:
            return None, width
        if chosen is None or chosen > number:
            self.notes.append("the config names experts, but not how many of them a token uses")
            return None, width
        expert_width, dense_layers = part.count(_EXPERT_WIDTH), self._dense_layers(layers)
        shared_width = self.count(_SHARED_WIDTH)
        shared = self.count(_SHARED) or (1 if shared_width else 0)
        if expert_width is None:
            expert_width = width or part.count(_WIDTH)
        if self.type in ("llama4", "llama4_text"):
            # One shared expert beside the routed ones; the dense layers have a width of their own.
            shared, width = 1, self.count(("intermediate_size_mlp",)) or width
        layout = Experts(
            num_experts=number,
            experts_per_token=chosen,
            width=expert_width,
            shared=shared,
            shared_width=shared_width,
            dense_layers=dense_layers,
        )
        return layout, width

    def _implied_width(self) -> int | None:
        hidden = self.count(_HIDDEN)
        if hidden is None:
            return None
        if self.type in ("gpt2", "gpt_bigcode", "gptj", "codegen", "bloom", "falcon", "RefinedWeb", "RefinedWebModel"):
            return 4 * hidden
        ratio = self.text.get("expansion_ratio")
        return hidden * ratio if isinstance(ratio, int) and 0 < ratio < 100 else None

    def _dense_layers(self, layers: int | None) -> int:
        """Layers without experts. The families count them in six ways."""
        first = self.count(_DENSE_FIRST, "layers") or 0
        listed = self.value(("mlp_only_layers",))
        if isinstance(listed, list) and listed:
            first = max(first, len({item for item in listed if isinstance(item, int)}))
        pattern = self.value(("moe_layer_freq", "mlp_layer_types"))
        if isinstance(pattern, list) and pattern:
            return sum(1 for item in pattern if item in (0, "dense"))
        named = self.text.get("moe_layers_enum")
        if isinstance(named, str) and layers is not None:
            return max(layers - named.count(",") - 1, 0)
        step = self.count(("interleave_moe_layer_step", "decoder_sparse_step", "expert_layer_period"), "layers") or 1
        if step > 1 and layers is not None and not first:
            return layers - layers // step
        return min(first, layers) if layers is not None else first

    # ---------------------------------------------------------------- positions

    def _rope_parameters(self) -> Mapping[str, Any]:
        for part in (self.text, self.outer):
            for name in ("rope_parameters", "rope_scaling"):
                found = part.get(name)
                if not isinstance(found, Mapping):
                    continue
                by_layer = found.get("full_attention")
                return by_layer if isinstance(by_layer, Mapping) else found
        return {}

    def rope(self, context: int | None) -> str | None:
        """`type factor original_length`, as far as the config says them."""
        found = self._rope_parameters()
        kind = clean(found.get("rope_type")) or clean(found.get("type"))
        if kind in (None, "default", "mrope", "none", "proportional"):
            return None
        factor = found.get("factor")
        original = found.get("original_max_position_embeddings") or self.value(("original_max_position_embeddings",))
        length = self._number("original_max_position_embeddings", original, "context")
        if not is_number(factor) or not math.isfinite(factor):
            factor = context / length if kind in ("longrope", "su") and context and length else None
        parts = [kind, f"{factor:g}" if factor is not None else None, str(length) if length else None]
        return clean(" ".join(part for part in parts if part))

    def mrope(self) -> bool:
        found = self._rope_parameters()
        return "mrope_section" in found or found.get("type") == "mrope" or found.get("rope_type") == "mrope"

    # ---------------------------------------------------------------- attention

    def attention(self, layers: int | None, context: int | None) -> dict[str, Any]:
        """The fields of the profile that tell which layers see what."""
        window = self.count(("sliding_window", "sliding_window_size", "attention_window_size"), "context")
        if self.text.get("use_sliding_window") is False or (window and context and window >= context):
            window = None
        recurrent = self._recurrent_layers(layers)
        sliding = self._sliding_layers(layers) if window else 0
        fields: dict[str, Any] = {"attention": "full"}
        if self.value(("attention_chunk_size",)) or self.type in ("llama4", "llama4_text"):
            return {"attention": "unknown", "attention_note": "attention in chunks in most layers"}
        if recurrent is None or recurrent:
            all_of_them = self.type in _RECURRENT_TYPES or (recurrent == layers and self.type not in _ALWAYS_BOTH)
            fields.update(attention="recurrent" if all_of_them else "hybrid", recurrent_layers=recurrent)
        elif window and sliding != 0:
            fields.update(attention="sliding")
        if window and sliding != 0:
            fields.update(sliding_window=window, sliding_layers=sliding)
        note = self._attention_note(fields, layers)
        return {**fields, "attention_note": note} if note else fields

    def _layer_kinds(self) -> list[str]:
        for name in ("layer_types", "layers_block_type", "block_types", "_block_types"):
            kinds = self.text.get(name)
            if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
                return [kind.lower() for kind in kinds]
        return []

    def _recurrent_layers(self, layers: int | None) -> int | None:
        """Layers that hold a recurrent state; None: some do, and nobody says how many."""
        kinds = self._layer_kinds()
        if self.type in _RECURRENT_TYPES or self.type in _ALWAYS_BOTH:
            return layers
        if self.type in ("recurrentgemma", "recurrent_gemma", "griffin") and kinds and layers:
            return sum("recurrent" in kinds[index % len(kinds)] for index in range(layers))
        if kinds:
            return sum(_is_recurrent(kind) for kind in kinds)
        pattern = self.text.get("hybrid_override_pattern")
        if isinstance(pattern, str) and pattern:
            return pattern.count("M")
        return self._recurrent_by_rule(layers)

    def _recurrent_by_rule(self, layers: int | None) -> int | None:
        every = self.count(("full_attention_interval", "attn_layer_period"), "layers")
        if every is not None and layers is not None:
            offset = self.count(("attn_layer_offset",), "layers")
            if self.value(("attn_layer_period",)) is None or offset is None:
                return layers - layers // every
            return layers - len(range(offset, layers, every))
        kinds = self.text.get("attn_type_list")
        if isinstance(kinds, list) and kinds:
            return sum(1 for kind in kinds if kind != 1)
        named = self.value(("attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids"))
        if isinstance(named, list) and layers is not None:
            return max(layers - len(named), 0)
        inner = self.text.get("linear_attn_config")
        if isinstance(inner, Mapping) and isinstance(inner.get("kda_layers"), list):
            return len(inner["kda_layers"])
        states = ("ssm_state_size", "mamba_d_state", "mamba_state_dim", "conv_L_cache", "linear_num_value_heads")
        return None if any(self.text.get(name) for name in states) and self.type != "granitemoehybrid" else 0

    def _sliding_layers(self, layers: int | None) -> int | None:
        """Layers that see a window only; None: nobody says how many."""
        kinds = self._layer_kinds()
        if kinds:
            return sum("sliding" in kind or kind in ("local", "chunked_attention") for kind in kinds)
        pattern = self.value(("hybrid_layer_pattern", "sliding_window_layers"))
        if isinstance(pattern, list) and pattern and all(item in (0, 1) for item in pattern):
            return sum(pattern)
        every = self.count(("sliding_window_pattern", "_sliding_window_pattern"), "layers") or _FULL_EVERY.get(
            self.type
        )
        if layers is None:
            return None
        if every is not None and every > 1:
            return layers - layers // every
        first = self.value(("max_window_layers",))
        if isinstance(first, int) and self.text.get("use_sliding_window"):
            return max(layers - first, 0)  # the layers below it are full
        return layers

    def _attention_note(self, fields: Mapping[str, Any], layers: int | None) -> str | None:
        cross = self.value(("cross_attention_layers",))
        if isinstance(cross, list) and cross and layers:
            return f"{layers} layers of which {len(cross)} cross-attention"
        if self.value(("compress_ratios",)):
            return "compressed, sparse attention"
        if fields["attention"] in ("hybrid", "recurrent") and fields.get("recurrent_layers") and layers:
            return f"{fields['recurrent_layers']} of {layers} layers hold a recurrent state"
        return None

    # ---------------------------------------------------------------- draft heads

    def head_for(self, profile: ModelProfile) -> str | None:
        """For a draft head: the target its config names, or "unknown"; None for a model of its own."""
        names = " ".join(filter(None, (profile.architecture, self.type, clean(self.outer.get("model_type"))))).lower()
        said = any(word in names for word in _HEAD_WORDS) or any(self._has(key) for key in _HEAD_KEYS)
        # nvidia/Eagle2 and Eagle2.5 are vision-language models whose name says nothing of drafting.
        if said and profile.modality == "text":
            return self._target_of_head() or "unknown"
        if profile.num_hidden_layers == 1 and (profile.hidden_size or 0) >= 1024:
            self.uncertain.add("head_for")
            self.notes.append("one layer of this width is taken for a draft head: the config does not say what it is")
            return self._target_of_head() or "unknown"
        return None

    def _says_method(self) -> str:
        """What the config itself calls the method of a head, in whatever key."""
        inner = self.outer.get("speculators_config")
        said = (inner.get("algorithm") if isinstance(inner, Mapping) else None, *map(self.outer.get, _METHOD_KEYS))
        keys = [key for key in _HEAD_KEYS if self._has(key)]
        return " ".join([*filter(None, map(clean, said)), *keys])

    def _target_of_head(self) -> str | None:
        inner = self.outer.get("speculators_config")
        if isinstance(inner, Mapping) and isinstance(inner.get("verifier"), Mapping):
            return clean(inner["verifier"].get("name_or_path"))
        for name in ("base_model_name_or_path", "target_model_name_or_path", "target_model", "base_model"):
            if clean(self.outer.get(name)):
                return clean(self.outer[name])
        return None


def draft_method(words: str, tensor_marks: Iterable[str] = ()) -> str | None:
    """The method of a draft head, in the spelling of vLLM, by what names it or by the tensors that only it has."""
    words = words.lower().replace("-", "").replace("_", "")
    for mark, method in _METHOD_OF_WORD:
        if mark in words:
            return method
    for tensor, method in _METHOD_OF_TENSOR:
        if tensor in tensor_marks:
            return method
    return "eagle" if "eagle" in words or "fc" in tensor_marks else None


_METHOD_KEYS = ("speculators_model_type", "draft_type", "method")
_METHOD_OF_WORD = (
    ("eagle3", "eagle3"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("mtp", "mtp"),
    ("nextn", "mtp"),
    # Only EAGLE-3 maps a reduced vocabulary and reads states of several layers.
    ("draftvocabsize", "eagle3"),
)
_METHOD_OF_TENSOR = (
    ("d2t", "eagle3"),
    ("t2d", "eagle3"),
    ("hidden_norm", "eagle3"),
    ("midlayer", "eagle3"),
    ("medusa_head", "medusa"),
)


def _unwrapped(config: Config) -> Config:
    for name in _WRAPPERS:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            outside = {key: config[key] for key in ("architectures", "model_type", "torch_dtype") if key in config}
            return {**inner, **outside}
    return config


def _text_part(config: Config) -> tuple[Config, bool]:
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return inner, True
    return config, False


def _is_recurrent(kind: str) -> bool:
    return any(word in kind for word in _RECURRENT_WORDS)


# -------------------------------------------------------------------- quantisation


def quantization(config: Config) -> str | None:
    """The name of a config's quantisation: gptq-int4, fp8, w8a8, w4a16, mxfp4, bnb-4bit …; None: not quantised."""
    found = config.get("quantization_config") or config.get("compression_config")
    if isinstance(found, Mapping):
        return _quantization(found)
    mlx = config.get("quantization")
    if isinstance(mlx, Mapping) and is_number(mlx.get("bits")):
        return f"mlx-{int(mlx['bits'])}bit" if 0 < mlx["bits"] <= 16 else None
    said = clean(config.get("quantize"), 40)
    return said.lower() if said else None


def _quantization(found: Config) -> str | None:
    method = (clean(found.get("quant_method"), 40) or "").lower().replace("_", "-")
    bits = found.get("bits") or found.get("w_bit") or found.get("num_bits")
    if method in ("gptq", "awq", "auto-round", "gptqmodel", "intel/auto-round"):
        name = "gptq" if method == "gptqmodel" else method.rsplit("/", 1)[-1]
        return f"{name}-int{int(bits)}" if is_number(bits) and 0 < bits <= 16 else name
    if method in ("bitsandbytes", "bnb"):
        return "bnb-4bit" if found.get("load_in_4bit") else "bnb-8bit" if found.get("load_in_8bit") else "bnb"
    if "fp8" in method:
        return "fp8"
    if method == "compressed-tensors" or "config_groups" in found:
        return _compressed_tensors(found)
    algorithm = clean(found.get("quant_algo"), 40)
    if method == "modelopt" or algorithm:
        return (algorithm or "modelopt").lower()
    return method or None


def _compressed_tensors(found: Config) -> str:
    groups = found.get("config_groups")
    listed = groups.values() if isinstance(groups, Mapping) else ()
    group = next((item for item in listed if isinstance(item, Mapping)), {})
    layout = (clean(group.get("format")) or clean(found.get("format")) or "").lower()
    for name in ("nvfp4", "mxfp4"):
        if name in layout:
            return name
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping) or not is_number(weights.get("num_bits")):
        return "compressed-tensors"
    bits = int(weights["num_bits"]) if 0 < weights["num_bits"] <= 16 else 0
    if weights.get("type") == "float":
        return f"fp{bits}"
    acts = inputs.get("num_bits") if isinstance(inputs, Mapping) else 16
    return f"w{bits}a{int(acts)}" if is_number(acts) and 0 < acts <= 16 else f"w{bits}"


def ascend_quantization(description: Config) -> str | None:
    """The quantisation named by msmodelslim's quant_model_description.json: w8a8, w8a8_dynamic, w4a8 …"""
    said = clean(description.get("model_quant_type"), 40)
    if said and said.upper() != "FLOAT":
        return said.lower()
    kinds = [value for value in description.values() if isinstance(value, str) and value.upper() != "FLOAT"]
    common = max(set(kinds), key=kinds.count) if kinds and len(set(kinds)) < 20 else None
    return clean(common.lower(), 40) if common and common.upper().startswith("W") else None
