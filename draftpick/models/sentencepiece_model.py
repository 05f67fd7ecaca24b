"""Tokenizers as sentencepiece keeps them: protocol buffers, of which a few fields are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftpick.errors import InvalidFile
from draftpick.models.vocabulary import (
    BYTE,
    CONTROL,
    MAX_TOKENS,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER,
    Tokens,
    byte_fallback,
    damaged,
    raw_bytes,
)

_MAX_PIECE_FIELDS = 6


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _fields(data: bytes, limit: int = MAX_TOKENS) -> list[tuple[int, int, Any]]:
    """The fields of one protobuf message: number, wire type, value. Raises ValueError."""
    found: list[tuple[int, int, Any]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            length = 8 if wire == 1 else 4
            if wire == 2:
                length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field reaches past the end")
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"wire type {wire} is not known")
        found.append((key >> 3, wire, value))
        if len(found) > limit:
            raise ValueError("more fields than any tokenizer has")
    return found


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def sentencepiece_tokens(path: Path, data: bytes, pipeline: bool) -> tuple[dict[str, Any], Tokens]:
    """What a vocabulary needs of such a file, and its tokens. Raises InvalidFile."""
    try:
        message = _fields(data)
        pieces = [_piece(value) for number, wire, value in message if number == 1 and wire == 2]
        trainer = _typed(_last(message, 2))
        normal = _typed(_last(message, 3), texts=(1, 2))
    except (ValueError, IndexError) as error:
        raise damaged(f"{path}: a damaged sentencepiece model ({error})") from None
    if not pieces:
        raise InvalidFile(f"{path}: no pieces in it", "This is not a sentencepiece model, or it is damaged.")
    bpe = trainer.get(3, 1) == 2
    algorithm = {1: "Unigram", 2: "BPE/spm"}.get(trainer.get(3, 1), "other")
    tokens = Tokens(str(path), spaces=algorithm in ("BPE/spm", "Unigram"))
    for i, (text, _, kind) in enumerate(pieces):
        tokens.raw[i] = text
        if kind in (UNKNOWN, CONTROL, USER):
            tokens.added[i] = text
        else:
            byte = byte_fallback(text) if kind == BYTE else None
            tokens.base[i] = None if kind == UNUSED else byte or b"N" + raw_bytes(text.replace("▁", " "))
    name = normal.get(1, b"").decode("utf-8", "replace")
    values: dict[str, Any] = {}
    for key, number, default in (("bos", 41, 1), ("eos", 42, 2), ("pad", 43, -1)):
        i = _signed(trainer.get(number, default))
        values[key] = i if i >= 0 else None
    values |= {
        "format": "sentencepiece",
        "algorithm": algorithm,
        "vocab_type": "SPM" if bpe else "UGM",
        "base_ids": len(tokens.base),
        "normalizer": "NFKC" if "nfkc" in name else "none" if name in ("", "identity") else name[:40],
        "digits": "single" if trainer.get(25) else None,
        "pipeline": _sentencepiece_pipeline(pieces, trainer, normal, name) if pipeline else None,
        "source": str(path),
    }
    return values, tokens


def _typed(data: bytes, texts: tuple[int, ...] = ()) -> dict[int, Any]:
    """Fields by number where they have the type that is meant: bytes those in `texts`, numbers all others."""
    return {number: value for number, wire, value in _fields(data) if wire == (2 if number in texts else 0)}


def _last(message: list[tuple[int, int, Any]], number: int) -> bytes:
    return next((bytes(v) for n, wire, v in reversed(message) if n == number and wire == 2), b"")


def _piece(data: bytes) -> tuple[str, bytes, int]:
    text, score, kind = "", b"\0\0\0\0", NORMAL
    for number, wire, value in _fields(data, _MAX_PIECE_FIELDS):
        if number == 1 and wire == 2:
            text = value.decode("utf-8", "surrogateescape")
        elif number == 2 and wire == 5:
            score = value
        elif number == 3 and wire == 0:
            kind = value
    return text, score, kind


def _sentencepiece_pipeline(
    pieces: list[tuple[str, bytes, int]], trainer: dict[int, Any], normal: dict[int, Any], name: str
) -> dict[str, Any]:
    import hashlib

    return {
        "type": {1: "Unigram", 2: "BPE", 3: "WORD", 4: "CHAR"}.get(trainer.get(3, 1), "?"),
        "normalizer": name,
        "charsmap": hashlib.sha256(normal.get(2, b"")).hexdigest()[:16],
        "add_dummy_prefix": bool(normal.get(3, 1)),
        "remove_extra_ws": bool(normal.get(4, 1)),
        "escape_ws": bool(normal.get(5, 1)),
        "split_digits": bool(trainer.get(25, 0)),
        "byte_fallback": bool(trainer.get(35, 0)),
        "scores": hashlib.sha256(b"".join(score for _, score, _ in pieces)).hexdigest(),
    }
