"""Tokenizers in the head of a GGUF file, in llama.cpp's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftpick.errors import InvalidFile
from draftpick.models.vocabulary import (
    BYTE,
    CONTROL,
    MAX_ID,
    MAX_TOKENS,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER,
    Tokens,
    Vocabulary,
    byte_fallback,
    byte_level,
    hash_texts,
    raw_bytes,
    template_ids,
)

_GGUF_TYPES = {"llama": "SPM", "gpt2": "BPE", "gemma4": "BPE", "bert": "WPM", "t5": "UGM", "rwkv": "RWKV"}
_GGUF_ALGORITHMS = {
    "llama": "BPE/spm",
    "gpt2": "BPE/byte-level",
    "gemma4": "BPE/spm",
    "bert": "WordPiece",
    "t5": "Unigram",
}
_GGUF_SINGLE_DIGITS = frozenset(
    ("qwen2", "qwen35", "deepseek-r1-qwen", "command-r", "starcoder", "refact", "smollm", "deepseek-coder", "tekken")
)


def from_gguf(metadata: Mapping[str, Any], *, source: str = "GGUF", pipeline: bool = False) -> Vocabulary:
    """The tokenizer in the metadata of a GGUF file (keys `tokenizer.ggml.*`, strings decoded with surrogateescape)."""

    def get(key: str) -> Any:
        return metadata.get(f"tokenizer.ggml.{key}")

    model, pre = (value if isinstance(value, str) else "" for value in (get("model"), get("pre")))
    texts = get("tokens")
    if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidFile(f"{source}: no list of tokens in its metadata", "The file has no tokenizer, or is damaged.")
    kinds = get("token_type") or [NORMAL] * len(texts)
    if not isinstance(kinds, Sequence) or len(texts) > MAX_TOKENS or len(kinds) != len(texts):
        counted = f"{len(kinds):,}" if isinstance(kinds, Sequence) else "no list of"
        raise InvalidFile(
            f"{source}: {len(texts):,} tokens and {counted} token types", "The file is damaged; convert it again."
        )
    algorithm = _GGUF_ALGORITHMS.get(model, model)
    tokens = Tokens(source, spaces=algorithm in ("BPE/spm", "Unigram"))
    _gguf_tokens(model, texts, kinds, tokens)
    canonical, template = tokens.finish(), metadata.get("tokenizer.chat_template")
    return Vocabulary(
        format="gguf",
        tokens=canonical,
        raw=tokens.raw,
        vocab_type=_GGUF_TYPES.get(model),
        algorithm=algorithm,
        base_ids=sum(token is not None for token in tokens.base.values()),
        size=len(texts),
        bos=_id(get("bos_token_id")),
        eos=_id(get("eos_token_id")),
        pad=_id(get("padding_token_id")),
        add_bos=get("add_bos_token") if isinstance(get("add_bos_token"), bool) else None,
        add_eos=get("add_eos_token") if isinstance(get("add_eos_token"), bool) else None,
        stop_ids=_gguf_stops(get),
        template_ids=template_ids(template, canonical) if template else (),
        normalizer="none",
        digits="single" if pre in _GGUF_SINGLE_DIGITS else None,
        pipeline=_gguf_pipeline(get) if pipeline else None,
        tokenizer_class=f"{model}/{pre}",
        source=source,
        notes=() if pre or model != "gpt2" else ("tokenizer.ggml.pre is missing: llama.cpp cuts by its default rule",),
    )


def _gguf_tokens(model: str, texts: Any, kinds: Any, tokens: Tokens) -> None:
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        tokens.raw[i] = text
        byte = byte_fallback(text) if kind == BYTE or model in ("llama", "gemma4") else None
        if kind in (UNKNOWN, CONTROL, USER):
            tokens.added[i] = text
        elif kind == UNUSED:
            tokens.base[i] = None
        elif byte is not None:
            tokens.base[i] = byte
        elif model == "gpt2":
            tokens.base[i] = b"N" + byte_level(text)
        else:
            tokens.base[i] = b"N" + raw_bytes(text.replace("▁", " "))


def _id(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_ID else None


def _gguf_stops(get: Any) -> tuple[int, ...]:
    found = {_id(get(key)) for key in ("eos_token_id", "eot_token_id", "eom_token_id")}
    return tuple(sorted(i for i in found if i is not None))


def _gguf_pipeline(get: Any) -> dict[str, Any]:
    return {
        "type": get("model"),
        "pre": get("pre"),
        "merges": hash_texts(raw_bytes(str(merge)) for merge in get("merges") or []),
        "add_space_prefix": get("add_space_prefix"),
    }
