"""Small tokenizers written in every file format, for tests."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

Tokens = Mapping[int, bytes]
"""id → canonical token: `N` and bytes, or `B` and one byte."""
Control = Mapping[int, str]


def spelled(token: bytes) -> str:
    """Byte-level spelling of bytes, made apart from the code under test."""
    plain = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    others = [b for b in range(256) if b not in plain]
    return "".join(chr(b) if b in plain else chr(256 + others.index(b)) for b in token)


def _spm_text(token: bytes) -> str:
    return f"<0x{token[1]:02X}>" if token[:1] == b"B" else token[1:].decode().replace(" ", "▁")


def write_json(folder: Path, content: Any, name: str = "tokenizer.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def byte_level_json(tokens: Tokens, control: Control, **changes: Any) -> dict[str, Any]:
    """A tokenizer.json as GPT-2, Llama 3 and Qwen have it. `changes` replace entries of the top level."""
    return {
        "added_tokens": [{"id": i, "content": text, "special": True} for i, text in control.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True, "trim_offsets": True},
        "model": {"type": "BPE", "vocab": {spelled(token[1:]): i for i, token in tokens.items()}, "merges": []},
        **changes,
    }


def spm_json(tokens: Tokens, control: Control, **changes: Any) -> dict[str, Any]:
    """A tokenizer.json converted from sentencepiece, as Llama 2 and Gemma have it."""
    return {
        "added_tokens": [{"id": i, "content": text, "special": True} for i, text in control.items()],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "decoder": {"type": "ByteFallback"},
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {_spm_text(token): i for i, token in tokens.items()},
            "merges": [],
        },
        **changes,
    }


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def message(fields: list[tuple[int, Any]]) -> bytes:
    """A protobuf message; ints as varints, floats as fixed32, bytes and texts as lengths."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        elif isinstance(value, float):
            out += _varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def sentencepiece(tokens: Tokens, control: Control, *, bpe: bool = True, unused: tuple[int, ...] = ()) -> bytes:
    """A `.model` file. Ids must have no gap; `unused` adds padding."""
    pieces = []
    for i in range(len(tokens) + len(control) + len(unused)):
        if i in unused:
            text, kind = f"[PAD{i}]", UNUSED
        elif i in control:
            text, kind = control[i], CONTROL
        else:
            text, kind = _spm_text(tokens[i]), BYTE if tokens[i][:1] == b"B" else NORMAL
        pieces.append((1, message([(1, text), (2, -float(i)), (3, kind)])))
    trainer = message([(3, 2 if bpe else 1), (40, 0), (41, 1), (42, 2), (43, -1)])
    return message([*pieces, (2, trainer), (3, message([(1, "identity")]))])


def tiktoken(tokens: Tokens) -> bytes:
    lines = [base64.b64encode(token[1:]) + b" " + str(i).encode() for i, token in sorted(tokens.items())]
    return b"\n".join(lines) + b"\n"


def tekken(tokens: Tokens, names: Control | None, *, reserved: int, listed: int = 0) -> dict[str, Any]:
    """A tekken.json: ids below `reserved` are control tokens; `listed` more entries stand in it than are used."""
    ranks = [{"rank": i - reserved, "token_bytes": base64.b64encode(t[1:]).decode()} for i, t in sorted(tokens.items())]
    more = [{"rank": len(ranks) + n, "token_bytes": base64.b64encode(b"\xff%d" % n).decode()} for n in range(listed)]
    content: dict[str, Any] = {
        "config": {
            "pattern": r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+",
            "default_num_special_tokens": reserved,
            "default_vocab_size": reserved + len(ranks),
            "num_vocab_tokens": len(ranks) + listed,
        },
        "vocab": ranks + more,
    }
    if names is not None:
        content["special_tokens"] = [{"rank": i, "token_str": text, "is_control": True} for i, text in names.items()]
    return content


def gguf(tokens: Tokens, control: Control, *, model: str = "gpt2", padding: int = 0, **more: Any) -> dict[str, Any]:
    """Metadata of a GGUF file. `padding` adds ids of the type UNUSED; `more` are other `tokenizer.ggml` keys."""
    size = max([*tokens, *control]) + 1
    texts, kinds = [], []
    for i in range(size + padding):
        if i in control:
            texts.append(control[i])
            kinds.append(CONTROL)
        elif i in tokens:
            texts.append(spelled(tokens[i][1:]) if model == "gpt2" else _spm_text(tokens[i]))
            kinds.append(BYTE if tokens[i][:1] == b"B" else NORMAL)
        else:
            texts.append(f"[PAD{i}]")
            kinds.append(UNUSED)
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": kinds,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def words(count: int, prefix: str = "w") -> dict[int, bytes]:
    """Text tokens with the ids 0, 1, 2 …"""
    return {i: b"N" + f" {prefix}{i}".encode() for i in range(count)}


def moved(tokens: Tokens, by: int, first: int = 0) -> dict[int, bytes]:
    """The tokens with all ids from `first` on moved up."""
    return {i + by if i >= first else i: token for i, token in tokens.items()}
