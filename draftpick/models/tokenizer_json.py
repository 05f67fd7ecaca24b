"""Tokenizers as tokenizer.json of Hugging Face, or vocab.json of its older releases, has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftpick.errors import InvalidFile
from draftpick.models.vocabulary import (
    Tokens,
    Vocabulary,
    byte_fallback,
    byte_level,
    check_ids,
    damaged,
    hash_texts,
    optional_object,
    read_json,
    utf8,
    whole_file,
    with_config,
)


def read_tokenizer_json(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """The `tokenizer.json` of the tokenizers library, and the configs beside it."""
    content = read_json(path)
    model = content.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), (dict, list)):
        raise InvalidFile(f"{path}: no `model.vocab` in it", "This is not a tokenizer.json, or it is damaged.")
    added = _added_tokens(content, str(path))
    style = _json_style(content, model)
    tokens = Tokens(str(path), spaces=style in ("BPE/spm", "Unigram"))
    items = _json_items(model["vocab"], str(path))
    to_token = _json_converter(style, bool(model.get("byte_fallback")), _spaces_in_base(content, model))
    for text, i in items:
        tokens.raw[i] = text
        if i not in added:
            tokens.base[i] = to_token(text)
    tokens.added = added
    tokens.raw.update(added)
    values: dict[str, Any] = {
        "format": "tokenizer.json",
        "algorithm": style,
        "vocab_type": {"BPE/byte-level": "BPE", "BPE/spm": "SPM", "Unigram": "UGM", "WordPiece": "WPM"}.get(style),
        "base_ids": len(tokens.base),
        "normalizer": _json_normalizer(content.get("normalizer")),
        "digits": _json_digits(content.get("pre_tokenizer"), style, model, added),
        "pipeline": _json_pipeline(content, model, str(path)) if pipeline else None,
        "source": str(path),
    }
    return with_config(values, tokens, folder=path.parent)


def _json_items(vocab: Any, where: str) -> list[tuple[str, int]]:
    if isinstance(vocab, dict):
        check_ids(vocab.values(), where)
        return list(vocab.items())
    check_ids(range(len(vocab)), where)
    try:
        return [(str(piece[0]), i) for i, piece in enumerate(vocab)]
    except (TypeError, IndexError, KeyError):
        raise damaged(f"{where}: `model.vocab` is no list of pieces") from None


def _added_tokens(content: dict[str, Any], where: str) -> dict[int, str]:
    listed = content.get("added_tokens") or []
    try:
        pairs = [(token["id"], token["content"]) for token in listed]
    except (TypeError, KeyError):
        raise damaged(f"{where}: `added_tokens` lacks an id or a content") from None
    check_ids((i for i, _ in pairs), where)
    if not all(isinstance(text, str) for _, text in pairs):
        raise damaged(f"{where}: an added token is no text")
    return dict(pairs)


def _model_type(model: dict[str, Any]) -> str:
    return str(model.get("type") or ("BPE" if "merges" in model else "?"))


def _mentions(part: Any, *words: str) -> bool:
    import json

    blob = json.dumps(part, ensure_ascii=False)
    return any(word in blob for word in words)


def _spaces_in_base(content: dict[str, Any], model: dict[str, Any]) -> bool:
    steps = [content.get("pre_tokenizer"), content.get("decoder")]
    return (
        bool(model.get("byte_fallback"))
        or _mentions(steps, '"Metaspace"')
        or _mentions([content.get("normalizer"), content.get("decoder")], "▁")
    )


def _json_style(content: dict[str, Any], model: dict[str, Any]) -> str:
    kind = _model_type(model)
    if kind != "BPE":
        return kind
    if _mentions([content.get("pre_tokenizer"), content.get("decoder")], '"ByteLevel"'):
        return "BPE/byte-level"
    return "BPE/spm" if _spaces_in_base(content, model) else "BPE"


def _json_converter(style: str, fallback: bool, spaces: bool) -> Any:
    if style.endswith("byte-level"):
        return lambda text: b"N" + byte_level(text)

    def convert(text: str) -> bytes:
        byte = byte_fallback(text) if fallback else None
        return byte or b"N" + utf8(text.replace("▁", " ") if spaces else text)

    return convert


def _json_normalizer(normalizer: Any) -> str | None:
    if not normalizer or normalizer == {"type": "Sequence", "normalizers": []}:
        return "none"
    for name in ("NFKC", "NFC"):
        if _mentions(normalizer, f'"{name}"'):
            return name
    if _mentions(normalizer, "nfkc", "Precompiled"):
        return "NFKC" if _mentions(normalizer, "nfkc") else "Precompiled"
    return "spaces" if _mentions(normalizer, '"Prepend"', '"Replace"') else "other"


def _json_digits(pre: Any, style: str, model: dict[str, Any], added: Mapping[int, str]) -> str | None:
    if _mentions(pre, '"individual_digits": true'):
        return "single"
    if _mentions(pre, r"\\p{N}{1,3}"):
        return "groups-of-3"
    if _mentions(pre, r"\\p{N}+"):
        return "free"
    if _mentions(pre, r"|\\p{N}|", r'"\\p{N}"'):
        return "single"
    return None


def _json_pipeline(content: dict[str, Any], model: dict[str, Any], where: str) -> dict[str, Any]:
    pairs = []
    merges = model.get("merges") or []
    if not isinstance(merges, list):
        raise damaged(f"{where}: `merges` is no list")
    for merge in merges:
        if isinstance(merge, str):
            left, _, right = merge.partition(" ")
        elif isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
            left, right = merge
        else:
            raise damaged(f"{where}: a merge is no pair of texts")
        pairs += [left, right]
    return {
        "type": _model_type(model),
        "normalizer": content.get("normalizer"),
        "pre_tokenizer": content.get("pre_tokenizer"),
        "byte_fallback": bool(model.get("byte_fallback")),
        "ignore_merges": bool(model.get("ignore_merges")),
        "fuse_unk": bool(model.get("fuse_unk")),
        "unk": model.get("unk_token"),
        "csp": model.get("continuing_subword_prefix") or "",
        "eow": model.get("end_of_word_suffix") or "",
        "dropout": model.get("dropout"),
        "merges": hash_texts(utf8(text) for text in pairs),
    }


def read_vocab_json(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """`vocab.json`, with `merges.txt` and `added_tokens.json` beside it: the older byte-level BPE files."""
    vocab = read_json(path)
    check_ids(vocab.values(), str(path))
    extra = optional_object(path.parent / "added_tokens.json")
    check_ids(extra.values(), str(path.parent / "added_tokens.json"))
    tokens = Tokens(str(path))
    tokens.added = {i: text for text, i in extra.items()}
    for text, i in vocab.items():
        tokens.raw[i] = text
        if i not in tokens.added:
            tokens.base[i] = b"N" + byte_level(text)
    tokens.raw.update(tokens.added)
    merges = path.parent / "merges.txt"
    cut = None
    if pipeline and merges.is_file():
        lines = whole_file(merges).decode("utf-8", "replace").splitlines()
        pairs = [line.partition(" ") for line in lines if line and not line.startswith("#version")]
        cut = {"type": "BPE", "merges": hash_texts(utf8(part) for a, _, b in pairs for part in (a, b))}
    values = {
        "format": "vocab.json",
        "algorithm": "BPE/byte-level",
        "vocab_type": "BPE",
        "base_ids": len(tokens.base),
        "pipeline": cut,
        "source": str(path),
    }
    return with_config(values, tokens, folder=path.parent)
