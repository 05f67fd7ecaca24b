"""What draftpick knows of one model. Unknown is a value: `None` travels to the output."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from draftpick.models.tokenizer import Fingerprint

MOST_PARAMS = 10**16
"""No model has a thousandth of it."""


class Experts(NamedTuple):
    """Mixture-of-experts layout of the feed-forward layers."""

    num_experts: int
    experts_per_token: int
    width: int | None = None
    """Intermediate size of one routed expert."""
    shared: int = 0
    """Number of shared experts, each `width` wide unless `shared_width` says otherwise."""
    shared_width: int | None = None
    """Total intermediate size of the shared experts, where the config names it."""
    dense_layers: int = 0
    """Leading layers with a dense feed-forward of `intermediate_size`."""


class LatentAttention(NamedTuple):
    """Multi-head latent attention (MLA): the KV cache holds `kv_lora_rank + qk_rope_head_dim` per layer and token."""

    kv_lora_rank: int
    qk_rope_head_dim: int
    q_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None

    @property
    def expanded(self) -> int:
        """Numbers that keys and values of one head have when they are written out; unknown ones count as none."""
        return (self.qk_nope_head_dim or 0) + self.qk_rope_head_dim + (self.v_head_dim or 0)


class Lineage(NamedTuple):
    """Where a model comes from, as far as somebody wrote it down."""

    base_model: str | None = None
    relation: str | None = None
    """How it was made from `base_model`: finetune, distill, adapter, quantized, merge, pruned."""
    data: str | None = None
    """Pre-training lineage in words, equal strings mean the same pre-training."""
    trained_tokens: str | None = None
    thinking: str | None = None
    """off, on (always thinks) or hybrid (switchable)."""
    stock: str | None = None
    """Family of the catalogued model that it goes back to through its base models; None: its own."""
    stock_generation: str | None = None


class ModelProfile(NamedTuple):
    """One model: sizes, shape, vocabulary and origin. Never weights.

    Counts are numbers of parameters, lengths are tokens, sizes are bytes.
    """

    id: str
    origin: str
    """Where the facts were read: catalogue, overlay, folder, gguf, cache or hub."""
    path: str | None = None
    revision: str | None = None
    family: str | None = None
    generation: str | None = None
    variant: str | None = None
    """base, instruct, reasoning, hybrid-reasoning, coder-base, coder-instruct, math, vision-instruct, draft …"""
    architecture: str | None = None
    model_type: str | None = None

    params_total: int | None = None
    """Unique parameters of the checkpoint, vision towers and MTP modules included."""
    params_text: int | None = None
    """Parameters of the text decoder alone, without MTP modules: what decoding reads."""
    params_active: int | None = None
    """Parameters of the text decoder that one token touches, both embedding matrices included; None where dense."""
    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    experts: Experts | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    latent: LatentAttention | None = None
    tie_word_embeddings: bool | None = None
    num_nextn_predict_layers: int | None = None
    """Layers of the model's own multi-token-prediction head; 0 or None: it has none, or nobody said."""

    vocab_size: int | None = None
    """Rows of the embedding matrix (config `vocab_size`), padding included."""
    tokenizer: "Fingerprint | None" = None

    max_position_embeddings: int | None = None
    rope: str | None = None
    """Scaling of the rotary embedding, as `type factor original_length`; None where there is none."""
    attention: str = "full"
    """full, sliding (some layers see a window), hybrid (some layers hold a recurrent state), recurrent, unknown."""
    attention_note: str | None = None
    sliding_window: int | None = None
    sliding_layers: int | None = None
    recurrent_layers: int | None = None

    dtype: str | None = None
    """bfloat16, float16 or float32: of the weights that are not quantised."""
    quantization: str | None = None
    """None (not quantised), gptq-int4, awq-int4, fp8, w8a8, mxfp4, bnb-4bit, gguf-q4_k_m …"""
    weight_bytes: int | None = None
    """Bytes of all weights where a file or its metadata says so."""
    modality: str = "text"
    """text, text+vision, text+vision+audio …"""
    mrope: bool = False
    """Positions have several axes (M-RoPE)."""
    license: str | None = None
    gated: bool | None = None
    remote_code: bool = False
    """The config names code of its own (`auto_map`); draftpick never runs it."""
    head_for: str | None = None
    """Set when this is a draft head, not a model of its own: the target it was trained for, or "unknown"."""

    draft_method: str | None = None
    """How it drafts where an ordinary model would not: eagle3, medusa, mtp …, pard. None: not told, or as one."""
    made_for: tuple[str, ...] = ()
    """Targets that a stand-alone draft was published for."""

    lineage: Lineage = Lineage()
    uncertain: frozenset[str] = frozenset()
    """Names of fields that are recalled or unverified."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The id without its organisation."""
        return self.id.rstrip("/").rsplit("/", 1)[-1]

    @property
    def from_files(self) -> bool:
        """Whether the model's own files were read, so that what they leave out is not there."""
        return self.origin in ("folder", "gguf", "cache", "hub")

    @property
    def form_known(self) -> bool:
        """Whether anything says what kind of model this is; an empty config.json does not."""
        return self.origin == "catalogue" or self.architecture is not None or self.model_type is not None

    @property
    def is_moe(self) -> bool:
        return self.experts is not None

    @property
    def has_mtp(self) -> bool:
        return bool(self.num_nextn_predict_layers)

    @property
    def embedding_params(self) -> int | None:
        """Parameters of one embedding matrix."""
        if self.vocab_size is None or self.hidden_size is None:
            return None
        return self.vocab_size * self.hidden_size

    @property
    def params_read(self) -> int | None:
        """Parameters read for one decoded token: active weights and lm_head, without the input embedding's rows.

        A tied matrix is read once, as lm_head; an untied input embedding costs one row, that is nothing.
        """
        touched = self.params_active or self.params_text or self.params_total
        if touched is None or self.tie_word_embeddings is not False:
            return touched
        embedding = self.embedding_params
        return max(touched - embedding, 1) if embedding is not None else touched

    def with_changes(self, **changes: object) -> "ModelProfile":
        """A copy with some fields replaced."""
        return self._replace(**changes)  # type: ignore[arg-type]
