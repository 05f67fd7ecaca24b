"""Writes small GGUF files by hand, so that tests decide every byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def text(value: str | bytes, order: str = "<") -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack(order + "Q", len(raw)) + raw


def value(item: Any, order: str = "<") -> bytes:
    """A typed value; lists take the type of their first entry."""
    if isinstance(item, bool):
        return struct.pack(order + "IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack(order + "Ii", I32, item) if item < 0 else struct.pack(order + "II", U32, item)
    if isinstance(item, float):
        return struct.pack(order + "If", F32, item)
    if isinstance(item, (str, bytes)):
        return struct.pack(order + "I", STRING) + text(item, order)
    parts = [value(entry, order) for entry in item]
    kind = parts[0][:4] if parts else struct.pack(order + "I", I32)
    items = b"".join(part[4:] for part in parts)
    return struct.pack(order + "I", ARRAY) + kind + struct.pack(order + "Q", len(parts)) + items


def build(
    metadata: Mapping[str, Any],
    tensors: Sequence[tuple[str, tuple[int, ...], int]] = (),
    *,
    version: int = 3,
    order: str = "<",
    tensor_count: int | None = None,
    key_count: int | None = None,
) -> bytes:
    """The header of a GGUF file; counts may lie. Tensors are (name, shape in ggml's order, type)."""
    keys = len(metadata) if key_count is None else key_count
    count = len(tensors) if tensor_count is None else tensor_count
    head = b"GGUF" + struct.pack(order + "IQQ", version, count, keys)
    pairs = b"".join(text(key, order) + value(item, order) for key, item in metadata.items())
    infos = b"".join(
        text(name, order) + struct.pack(f"{order}I{len(shape)}QIQ", len(shape), *shape, kind, 0)
        for name, shape, kind in tensors
    )
    return head + pairs + infos


def qwen2(**changes: Any) -> dict[str, Any]:
    """Metadata of a Qwen2.5-7B-Instruct conversion, without its tokenizer."""
    keys: dict[str, Any] = {
        "general.architecture": "qwen2",
        "general.name": "Qwen2.5 7B Instruct",
        "general.file_type": 15,
        "qwen2.block_count": 28,
        "qwen2.context_length": 32768,
        "qwen2.embedding_length": 3584,
        "qwen2.feed_forward_length": 18944,
        "qwen2.attention.head_count": 28,
        "qwen2.attention.head_count_kv": 4,
        "qwen2.rope.freq_base": 1000000.0,
        "qwen2.vocab_size": 152064,
    }
    return {key: item for key, item in {**keys, **changes}.items() if item is not None}
