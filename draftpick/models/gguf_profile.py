"""A GGUF header becomes a ModelProfile: llama.cpp's key names, and the transformers names of the same things."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftpick.errors import InvalidFile
from draftpick.models.bounded import clean
from draftpick.models.card import hub_id
from draftpick.models.gguf import FILE_TYPES, TYPES, GgufHeader, Tensor, read_header
from draftpick.models.profile import Experts, LatentAttention, Lineage, ModelProfile

# llama.cpp's architecture → transformers' class and model_type.
_ARCHITECTURES: dict[str, tuple[str, str]] = {
    "afmoe": ("AfmoeForCausalLM", "afmoe"),
    "apertus": ("ApertusForCausalLM", "apertus"),
    "arcee": ("ArceeForCausalLM", "arcee"),
    "baichuan": ("BaichuanForCausalLM", "baichuan"),
    "bitnet": ("BitNetForCausalLM", "bitnet"),
    "bloom": ("BloomForCausalLM", "bloom"),
    "chatglm": ("ChatGLMModel", "chatglm"),
    "cohere2": ("Cohere2ForCausalLM", "cohere2"),
    "command-r": ("CohereForCausalLM", "cohere"),
    "deepseek": ("DeepseekForCausalLM", "deepseek"),
    "deepseek2": ("DeepseekV2ForCausalLM", "deepseek_v2"),
    "ernie4_5": ("Ernie4_5ForCausalLM", "ernie4_5"),
    "ernie4_5-moe": ("Ernie4_5_MoeForCausalLM", "ernie4_5_moe"),
    "exaone": ("ExaoneForCausalLM", "exaone"),
    "exaone4": ("Exaone4ForCausalLM", "exaone4"),
    "falcon": ("FalconForCausalLM", "falcon"),
    "falcon-h1": ("FalconH1ForCausalLM", "falcon_h1"),
    "gemma": ("GemmaForCausalLM", "gemma"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    "gemma3n": ("Gemma3nForConditionalGeneration", "gemma3n"),
    "gemma4": ("Gemma4ForConditionalGeneration", "gemma4"),
    "glm-dsa": ("GlmMoeDsaForCausalLM", "glm_moe_dsa"),
    "glm4": ("Glm4ForCausalLM", "glm4"),
    "glm4moe": ("Glm4MoeForCausalLM", "glm4_moe"),
    "gpt-oss": ("GptOssForCausalLM", "gpt_oss"),
    "gpt2": ("GPT2LMHeadModel", "gpt2"),
    "gptneox": ("GPTNeoXForCausalLM", "gpt_neox"),
    "granite": ("GraniteForCausalLM", "granite"),
    "granitehybrid": ("GraniteMoeHybridForCausalLM", "granitemoehybrid"),
    "granitemoe": ("GraniteMoeForCausalLM", "granitemoe"),
    "hunyuan-dense": ("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"),
    "hunyuan-moe": ("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"),
    "internlm2": ("InternLM2ForCausalLM", "internlm2"),
    "jamba": ("JambaForCausalLM", "jamba"),
    "lfm2": ("Lfm2ForCausalLM", "lfm2"),
    "lfm2moe": ("Lfm2MoeForCausalLM", "lfm2_moe"),
    "llama": ("LlamaForCausalLM", "llama"),
    "llama4": ("Llama4ForConditionalGeneration", "llama4"),
    "mamba": ("MambaForCausalLM", "mamba"),
    "mamba2": ("Mamba2ForCausalLM", "mamba2"),
    "mimo2": ("MiMoV2FlashForCausalLM", "mimo_v2_flash"),
    "minicpm": ("MiniCPMForCausalLM", "minicpm"),
    "minicpm3": ("MiniCPM3ForCausalLM", "minicpm3"),
    "minimax-m2": ("MiniMaxM2ForCausalLM", "minimax_m2"),
    "mistral3": ("Mistral3ForConditionalGeneration", "mistral3"),
    "mpt": ("MPTForCausalLM", "mpt"),
    "nemotron": ("NemotronForCausalLM", "nemotron"),
    "nemotron_h": ("NemotronHForCausalLM", "nemotron_h"),
    "nemotron_h_moe": ("NemotronHForCausalLM", "nemotron_h"),
    "olmo": ("OlmoForCausalLM", "olmo"),
    "olmo2": ("Olmo2ForCausalLM", "olmo2"),
    "olmoe": ("OlmoeForCausalLM", "olmoe"),
    "pangu-embedded": ("PanguEmbeddedForCausalLM", "panguembedded"),
    "phi2": ("PhiForCausalLM", "phi"),
    "phi3": ("Phi3ForCausalLM", "phi3"),
    "phimoe": ("PhiMoEForCausalLM", "phimoe"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen2moe": ("Qwen2MoeForCausalLM", "qwen2_moe"),
    "qwen2vl": ("Qwen2VLForConditionalGeneration", "qwen2_vl"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "qwen35": ("Qwen3_5ForConditionalGeneration", "qwen3_5"),
    "qwen35moe": ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
    "qwen3next": ("Qwen3NextForCausalLM", "qwen3_next"),
    "qwen3vl": ("Qwen3VLForConditionalGeneration", "qwen3_vl"),
    "qwen3vlmoe": ("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"),
    "seed_oss": ("SeedOssForCausalLM", "seed_oss"),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3"),
    "stablelm": ("StableLmForCausalLM", "stablelm"),
    "starcoder": ("GPTBigCodeForCausalLM", "gpt_bigcode"),
    "starcoder2": ("Starcoder2ForCausalLM", "starcoder2"),
}
_SEVERAL = frozenset({"llama", "deepseek2", "granite", "starcoder"})
"""Architectures under whose name llama.cpp runs several of transformers' classes."""
_WITH_VISION = frozenset({"qwen2vl", "qwen3vl", "qwen3vlmoe"})
_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_HYBRID = frozenset(
    {
        "falcon-h1",
        "granitehybrid",
        "jamba",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
        "qwen35",
        "qwen35moe",
        "qwen3next",
    }
)
# One full layer in so many where the file has no pattern (llama.cpp's own constants).
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt-oss": 2}
_UNQUANTISED = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_MAX_COUNT = 10**9
_MAX_TOKENS = 1 << 40
_MAX_LAYERS = 10_000


def profile_from_gguf(path: Path, header: GgufHeader | None = None) -> ModelProfile:
    """What a GGUF header says of a model, without its tokenizer. Raises InvalidFile."""
    keys = _Keys(path, header or read_header(path))
    architecture, model_type = _ARCHITECTURES.get(keys.architecture, (None, None))
    if keys.architecture == "llama" and keys.count("expert_count"):
        architecture, model_type = "MixtralForCausalLM", "mixtral"
    if keys.architecture == "deepseek2" and keys.count("expert_gating_func") == 2:
        architecture, model_type = "DeepseekV3ForCausalLM", "deepseek_v3"
    mtp = keys.count("nextn_predict_layers")
    layers = _layers(keys, mtp)
    heads, hidden, latent = keys.count("attention.head_count"), keys.count("embedding_length"), _latent(keys)
    profile = ModelProfile(
        id=str(path),
        origin="gguf",
        path=str(path),
        architecture=architecture or clean(keys.architecture),
        model_type=model_type or clean(keys.architecture),
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=keys.count("feed_forward_length"),
        experts=_experts(keys, layers),
        num_attention_heads=heads,
        num_key_value_heads=heads if latent else keys.count("attention.head_count_kv", default=heads),
        head_dim=None if latent else _head_dim(keys, hidden, heads),
        latent=latent,
        num_nextn_predict_layers=mtp,
        vocab_size=keys.rows(),
        max_position_embeddings=keys.count("context_length", _MAX_TOKENS),
        rope=_rope(keys),
        modality="text+vision" if keys.architecture in _WITH_VISION else "text",
        mrope=f"{keys.architecture}.rope.dimension_sections" in keys.metadata,
        license=clean(keys.metadata.get("general.license")),
        lineage=_lineage(keys.metadata),
        uncertain=frozenset({"architecture"}) if keys.architecture in _SEVERAL else frozenset(),
    )
    profile = profile._replace(**_attention(keys, profile))
    return _with_weights(keys, profile)


def names_of_source(metadata: Mapping[str, Any]) -> list[str]:
    """What the header calls its own model: hub ids first, then bare names."""
    found: list[str | None] = [hub_id(metadata.get(key)) for key in _SOURCE_KEYS]
    name, base = clean(metadata.get("general.name"), 200), clean(metadata.get("general.basename"), 100)
    size, tune = clean(metadata.get("general.size_label"), 40), clean(metadata.get("general.finetune"), 100)
    found += [name]
    if base:
        found += [
            "-".join(part for part in (base, size, tune) if part),
            "-".join(part for part in (base, tune, size) if part),
        ]
    return [name for name in dict.fromkeys(found) if name]


_SOURCE_KEYS = (
    "general.source.huggingface.repository",
    "general.source.repo_url",
    "general.source.url",
    "general.repo_url",
)


class _Keys:
    """The metadata of one file, by llama.cpp's names without the architecture's prefix."""

    def __init__(self, path: Path, header: GgufHeader) -> None:
        self.path = path
        self.header = header
        self.metadata = header.metadata
        name = self.metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise InvalidFile(f"{path} names no architecture", _other_file_hint(self.metadata))
        self.architecture = name
        self.notes: list[str] = []

    def raw(self, key: str) -> Any:
        return self.metadata.get(f"{self.architecture}.{key}")

    def count(self, key: str, limit: int = _MAX_COUNT, default: int | None = None) -> int | None:
        """A positive number; of a list the one value that all layers with any have."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, Sequence) and not isinstance(value, str):
            found = {int(item) for item in value[:_MAX_LAYERS] if _is_whole(item) and 0 < item <= limit}
            if len(found) > 1:
                self.notes.append(f"{key} differs between layers")
            return found.pop() if len(found) == 1 else None
        if not _is_whole(value):
            return None
        if value > limit:
            raise InvalidFile(f"{self.path}: {key} is {value}, which no model has", "download the file again")
        return int(value) if value > 0 else None

    def rows(self) -> int | None:
        """Rows of the embedding matrix: of the tensor where it is there, or else as many as there are tokens."""
        for tensor in self.header.tensors:
            if tensor.name == "token_embd.weight" and len(tensor.shape) == 2:
                return tensor.shape[1]
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return self.count("vocab_size") or (len(tokens) if isinstance(tokens, list) and tokens else None)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1


def _other_file_hint(metadata: Mapping[str, Any]) -> str:
    number = metadata.get("split.no")
    return "name the first file of the split set (…-00001-of-…)" if number else "name a GGUF file of a language model"


def _layers(keys: _Keys, mtp: int | None) -> int | None:
    blocks = keys.count("block_count", _MAX_LAYERS)
    # llama.cpp counts the blocks of the MTP head among the layers.
    return blocks - mtp if blocks and mtp and mtp < blocks else blocks


def _latent(keys: _Keys) -> LatentAttention | None:
    rank, rope = keys.count("attention.kv_lora_rank"), keys.count("rope.dimension_count")
    if rank is None or rope is None:
        return None
    # Newer files keep the widths of a head under `_mla`; older ones have no compressed cache and use the plain names.
    key = keys.count("attention.key_length_mla") or keys.count("attention.key_length")
    value = keys.count("attention.value_length_mla") or keys.count("attention.value_length")
    return LatentAttention(
        kv_lora_rank=rank,
        qk_rope_head_dim=rope,
        q_lora_rank=keys.count("attention.q_lora_rank"),
        qk_nope_head_dim=key - rope if key and key > rope else None,
        v_head_dim=value,
    )


def _head_dim(keys: _Keys, hidden: int | None, heads: int | None) -> int | None:
    said = keys.count("attention.key_length")
    if said is not None:
        return said
    return hidden // heads if hidden and heads and hidden % heads == 0 else None


def _experts(keys: _Keys, layers: int | None) -> Experts | None:
    number, chosen = keys.count("expert_count"), keys.count("expert_used_count")
    if number is None or number < 2 or chosen is None or chosen > number:
        return None
    width = keys.count("expert_feed_forward_length") or keys.count("feed_forward_length")
    dense = keys.count("leading_dense_block_count") or 0
    shared_width = keys.count("expert_shared_feed_forward_length")
    step = keys.count("interleave_moe_layer_step") or 1
    if step > 1 and layers:
        dense = layers - layers // step
    return Experts(
        num_experts=number,
        experts_per_token=chosen,
        width=width,
        shared=keys.count("expert_shared_count") or (1 if shared_width or keys.architecture == "llama4" else 0),
        shared_width=shared_width,
        dense_layers=min(dense, layers) if layers else dense,
    )


def _rope(keys: _Keys) -> str | None:
    kind = clean(keys.raw("rope.scaling.type"), 40)
    if kind in (None, "none"):
        return None
    factor = keys.raw("rope.scaling.factor")
    original = keys.count("rope.scaling.original_context_length", _MAX_TOKENS)
    known = isinstance(factor, (int, float)) and 0 < factor < 1e6
    parts = [kind, f"{factor:g}" if known else None, str(original) if original else None]
    return " ".join(part for part in parts if part)


def _attention(keys: _Keys, profile: ModelProfile) -> dict[str, Any]:
    layers = profile.num_hidden_layers
    if keys.architecture in _RECURRENT:
        return {"attention": "recurrent", "recurrent_layers": layers}
    if keys.architecture in _HYBRID or keys.count("ssm.state_size"):
        number = _recurrent_layers(keys, layers)
        if number == 0:
            return {"attention": "full"}
        note = f"{number} of {layers} layers hold a recurrent state" if number and layers else None
        return {"attention": "hybrid", "recurrent_layers": number, "attention_note": note}
    window = keys.count("attention.sliding_window", _MAX_TOKENS)
    if window is None or (profile.max_position_embeddings and window >= profile.max_position_embeddings):
        return {"attention": "full"}
    return {"attention": "sliding", "sliding_window": window, "sliding_layers": _sliding_layers(keys, layers)}


def _recurrent_layers(keys: _Keys, layers: int | None) -> int | None:
    if keys.architecture == "falcon-h1":
        return layers
    by_layer = keys.raw("attention.head_count_kv")
    if isinstance(by_layer, Sequence) and not isinstance(by_layer, str) and keys.architecture != "nemotron_h":
        return sum(1 for heads in by_layer if heads == 0)
    every = keys.count("full_attention_interval", _MAX_LAYERS)
    if every is None and keys.architecture in ("qwen3next", "qwen35", "qwen35moe"):
        every = 4  # llama.cpp's constant where an older file lacks the key
    return layers - layers // every if layers and every else None


def _sliding_layers(keys: _Keys, layers: int | None) -> int | None:
    pattern = keys.raw("attention.sliding_window_pattern")
    if isinstance(pattern, Sequence) and not isinstance(pattern, str):
        return sum(1 for item in pattern if item)
    every = pattern if _is_whole(pattern) and 1 < pattern < _MAX_LAYERS else _FULL_EVERY.get(keys.architecture)
    return layers - layers // int(every) if layers and every else None


# -------------------------------------------------------------------- lineage and weights


def _lineage(metadata: Mapping[str, Any]) -> Lineage:
    base = hub_id(metadata.get("general.base_model.0.repo_url"))
    if base is None:
        name = clean(metadata.get("general.base_model.0.name"), 96)
        organisation = clean(metadata.get("general.base_model.0.organization"), 96)
        base = hub_id(f"{organisation}/{name}".replace(" ", "-")) if name and organisation else None
    return Lineage(base_model=base)


def _with_weights(keys: _Keys, profile: ModelProfile) -> ModelProfile:
    tensors, note = _all_tensors(keys)
    name = _quantization(keys.metadata, tensors or keys.header.tensors)
    fields: dict[str, Any] = {}
    if name in _UNQUANTISED:
        fields["dtype"] = _UNQUANTISED[name]
    elif name is not None:
        fields["quantization"] = f"gguf-{name}"
    notes = [*keys.notes, *([note] if note else [])]
    if tensors:
        sizes = [tensor.nbytes for tensor in tensors]
        fields["tie_word_embeddings"] = not any(tensor.name == "output.weight" for tensor in tensors)
        fields["params_total"] = sum(tensor.elements for tensor in tensors if not _is_buffer(tensor))
        fields["params_text"] = sum(
            tensor.elements for tensor in tensors if not _is_buffer(tensor) and not _is_mtp(tensor, profile)
        )
        if None not in sizes:
            fields["weight_bytes"] = sum(size or 0 for size in sizes)
        if _is_cut_off(keys.header):
            notes.append("the file ends before its weights do: the download was cut off")
    return profile._replace(**fields, notes=(*profile.notes, *notes))


def _is_buffer(tensor: Tensor) -> bool:
    return tensor.name.startswith("rope_") or tensor.name.endswith((".rope_freqs.weight", ".input_scale", ".scale"))


def _is_mtp(tensor: Tensor, profile: ModelProfile) -> bool:
    block = re.match(r"blk\.(\d{1,6})\.", tensor.name)
    return bool(block and profile.num_hidden_layers and int(block[1]) >= profile.num_hidden_layers)


def _is_cut_off(header: GgufHeader) -> bool:
    return any(
        tensor.nbytes is not None and header.header_bytes + tensor.offset + tensor.nbytes > header.file_bytes
        for tensor in header.tensors
    )


def _all_tensors(keys: _Keys) -> tuple[tuple[Tensor, ...], str | None]:
    """The tensors of the whole model, and a note; none where only a part of a split set is there."""
    count = keys.metadata.get("split.count")
    named = _SPLIT.search(keys.path.name)
    if not isinstance(count, int) or count < 2:
        return keys.header.tensors, None
    note = f"the first of {count} files was read"
    if named is None or count > 1000:
        return (), f"{note}; sizes are computed from the shape"
    stem = keys.path.name[: named.start()]
    others = [keys.path.with_name(f"{stem}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [path for path in others if not path.is_file()]
    if missing:
        return (), f"{note}, {len(missing)} of them are not there; sizes are computed from the shape"
    tensors: list[Tensor] = []
    for path in others:
        tensors += keys.header.tensors if path.name == keys.path.name else read_header(path).tensors
    return tuple(tensors), f"the headers of {count} files were read"


def _quantization(metadata: Mapping[str, Any], tensors: Iterable[Tensor]) -> str | None:
    """The file's type, or else the type that most weights have."""
    said = metadata.get("general.file_type")
    if isinstance(said, int) and said in FILE_TYPES:
        return FILE_TYPES[said]
    weights: dict[int, int] = {}
    for tensor in tensors:
        weights[tensor.type] = weights.get(tensor.type, 0) + tensor.elements
    if not weights:
        return None
    most = max(weights, key=lambda kind: weights[kind])
    return TYPES[most][0].lower() if most in TYPES else None
