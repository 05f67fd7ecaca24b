"""Tokenizers that are lists of tokens: of tiktoken, of tekken and of RWKV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftpick.models.vocabulary import (
    ALPHABET,
    MAX_FILE_BYTES,
    MAX_TOKENS,
    Tokens,
    Vocabulary,
    byte_level_alphabet,
    check_ids,
    damaged,
    decoder_list,
    optional_object,
    read_json,
    whole_file,
    with_config,
)

MAX_UNNAMED = 20_000
"""Control tokens that a tekken file only counts; the known ones count a thousand. Each is spelled out."""
MAX_LITERALS = 70_000
"""Lines of an RWKV vocabulary; the only one there is has 65,529, in 1.2 MB."""
MAX_LITERAL_BYTES = 8_000_000
TIKTOKEN_NOTE = "control tokens are in the vendor's code, not in the tiktoken file"
TEKKEN_NOTE = "names of control tokens are not in the tekken file"


def tiktoken_ranks(path: Path) -> dict[bytes, int]:
    """Token bytes → rank of a file with a base64 token and a number on each line."""
    import base64
    import binascii

    ranks: dict[bytes, int] = {}
    for number, line in enumerate(_lines(path, MAX_TOKENS), 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            token = base64.b64decode(text, validate=True)
            value = int(rank)
        except (ValueError, binascii.Error):
            raise damaged(f"{path}, line {number}: not `base64 number`") from None
        if token in ranks:
            raise damaged(f"{path}, line {number}: the token is there twice")
        ranks[token] = value
    check_ids(ranks.values(), str(path))
    return ranks


def _lines(path: Path, limit: int, size: int = MAX_FILE_BYTES) -> list[bytes]:
    data = whole_file(path, size)
    if data.count(b"\n") > limit:
        raise damaged(f"{path}: more lines than any tokenizer has")
    return data.split(b"\n")


def _spell(token: bytes) -> str:
    """Byte-level spelling, the one GGUF files have."""
    if not ALPHABET:
        ALPHABET.update(byte_level_alphabet())
    if not _SPELLING:
        _SPELLING.update({b: c for c, b in ALPHABET.items()})
    return "".join([_SPELLING[b] for b in token])


_SPELLING: dict[int, str] = {}


def read_tiktoken(
    path: Path,
    *,
    pipeline: bool = False,
    specials: Mapping[str, int] | None = None,
    pattern: str | None = None,
    normalizer: str | None = None,
) -> Vocabulary:
    """A tiktoken file. Its control tokens and pattern are in the vendor's code: pass them where they are known.

    Without `specials`, those that tokenizer_config.json lists are taken, and the vocabulary says that its control
    tokens are not known for certain.
    """
    ranks = tiktoken_ranks(path)
    tokens = Tokens(str(path))
    for token, i in ranks.items():
        tokens.base[i] = b"N" + token
        tokens.raw[i] = _spell(token)
    config = optional_object(path.parent / "tokenizer_config.json") if specials is None else {}
    listed = decoder_list(config) if specials is None else {i: text for text, i in specials.items()}
    check_ids(listed, str(path))
    tokens.added = dict(listed)
    tokens.raw.update(listed)
    values = {
        "format": "tiktoken",
        "algorithm": "BPE/byte-level",
        "vocab_type": "BPE",
        "base_ids": len(tokens.base),
        "control_known": specials is not None,
        "normalizer": normalizer,
        "pipeline": {"type": "tiktoken", "pat": pattern, "nfc": normalizer == "NFC"} if pipeline and pattern else None,
        "source": str(path),
        "notes": () if specials is not None else (TIKTOKEN_NOTE,),
    }
    return with_config(values, tokens, folder=path.parent)


def read_tekken(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """Mistral's tekken.json. Its `config` says how many of the listed tokens are used, and from which id on."""
    content = read_json(path)
    try:
        config = content["config"]
        reserved, size = config["default_num_special_tokens"], config["default_vocab_size"]
        used = content["vocab"][: max(size - reserved, 0)]
        pattern = config["pattern"]
    except (TypeError, KeyError):
        raise damaged(f"{path}: no tekken.json, it has no `config` and `vocab`") from None
    check_ids([reserved], str(path))
    if reserved > MAX_UNNAMED:
        raise damaged(f"{path}: {reserved} control tokens are more than any tokenizer has")
    check_ids(range(reserved + len(used)), str(path))
    tokens = Tokens(str(path))
    try:
        named = [(x["rank"], x["token_str"]) for x in content.get("special_tokens") or []]
    except (TypeError, KeyError):
        raise damaged(f"{path}: a control token without rank or text") from None
    check_ids((i for i, _ in named), str(path))
    names = dict(named)
    for token, rank in _tekken_ranks(used, path).items():
        tokens.base[rank + reserved] = b"N" + token
        tokens.raw[rank + reserved] = _spell(token)
    tokens.added = {i: str(names.get(i, f"<SPECIAL_{i}>")) for i in range(reserved)}
    tokens.raw.update(tokens.added)
    values = {
        "format": "tekken",
        "algorithm": "BPE/byte-level",
        "vocab_type": "BPE",
        "base_ids": len(tokens.base),
        "control_known": bool(names),
        "normalizer": "none",
        "digits": "single" if r"|\p{N}|" in str(pattern) else None,
        "pipeline": {"type": "tiktoken", "pat": pattern, "nfc": False} if pipeline else None,
        "source": str(path),
        "notes": () if names else (TEKKEN_NOTE,),
    }
    for name, text in (("bos", "<s>"), ("eos", "</s>"), ("pad", "<pad>")):
        values[name] = next((i for i, known in names.items() if known == text), None)
    return with_config(values, tokens, folder=path.parent)


def _tekken_ranks(entries: list[Any], path: Path) -> dict[bytes, int]:
    import base64
    import binascii

    try:
        ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    except (TypeError, KeyError, ValueError, binascii.Error):
        raise damaged(f"{path}: a token without bytes or rank") from None
    if len(ranks) != len(entries):
        raise damaged(f"{path}: a token is there twice")
    check_ids(ranks.values(), str(path))
    return ranks


# ---------------------------------------------------------------- RWKV
def _rwkv_token(line: str) -> tuple[int, bytes]:
    import ast

    if len(line) > 2**16:
        raise ValueError("too long")
    literal = ast.literal_eval(line[line.index(" ") : line.rindex(" ")].strip())
    token = literal.encode("utf-8") if isinstance(literal, str) else literal
    if not isinstance(token, bytes):
        raise ValueError("neither text nor bytes")
    return int(line[: line.index(" ")]), token


def read_rwkv(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """A `rwkv_vocab` text file: id, Python literal and length on each line; cut greedily, longest match first."""
    import warnings

    tokens = Tokens(str(path))
    ids = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a literal is the file's matter, nothing for stderr
        for number, data in enumerate(_lines(path, MAX_LITERALS, MAX_LITERAL_BYTES), 1):
            line = data.decode("utf-8", "replace")
            if not line.strip():
                continue
            try:
                i, token = _rwkv_token(line)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                raise damaged(f"{path}, line {number}: not `id literal length`") from None
            ids.append(i)
            tokens.base[i] = b"N" + token
            tokens.raw[i] = token.decode("utf-8", "replace")
    check_ids(ids, str(path))
    values = {
        "format": "rwkv",
        "algorithm": "greedy",
        "vocab_type": "RWKV",
        "base_ids": len(tokens.base),
        "eos": 0,
        "normalizer": "none",
        "pipeline": {"type": "rwkv"} if pipeline else None,
        "source": str(path),
    }
    return with_config(values, tokens, folder=path.parent)
