"""How a tokenizer cuts text: encoders for every format, and a digest of the ids they give to the frozen texts.

Needs the libraries `tokenizers`, `sentencepiece` or `tiktoken`, which draftpick does not depend on: where one is not
installed, how text is cut stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from draftpick.models.token_lists import tiktoken_ranks
from draftpick.models.vocabulary import Vocabulary

Encoder = Callable[[str], Sequence[int]]

# What llama.cpp cuts by for each `tokenizer.ggml.pre`, after the table in its src/llama-vocab.cpp (MIT licence).
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_SINGLE_DIGIT = (r"\p{N}", _GPT2)
_PRE: dict[str, tuple[str, ...]] = {
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
    "qwen35": (_QWEN35,),
    "gpt-2": (_GPT2,),
    "mpt": (_GPT2,),
    "command-r": _SINGLE_DIGIT,
    "starcoder": _SINGLE_DIGIT,
    "refact": _SINGLE_DIGIT,
    "smollm": _SINGLE_DIGIT,
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}


def encoder(vocabulary: Vocabulary) -> Encoder | None:
    """A function text → ids (no begin and end tokens), or None where none can be made here.

    tiktoken and tekken files need a vocabulary read with `pipeline=True`, which holds their pattern.
    """
    makers: dict[str, Callable[[Vocabulary], Encoder | None]] = {
        "tokenizer.json": _json,
        "sentencepiece": _sentencepiece,
        "tiktoken": _tiktoken,
        "tekken": _tiktoken,
        "rwkv": _rwkv,
        "gguf": _gguf,
    }
    maker = makers.get(vocabulary.format)
    if maker is None:
        return None
    try:
        return maker(vocabulary)
    except ImportError:
        return None
    except BaseException as error:
        # The libraries raise bare Exception for a file they refuse, and a panic of their Rust core is no Exception.
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        return None


def probe(encode: Encoder) -> str:
    """Hex SHA-256 of the ids of the frozen texts: equal digests mean equal cutting, on these texts."""
    import hashlib
    import struct

    from draftpick.models.probe_texts import TEXTS

    parts = [b"draftpick-probe-plain-v1"]
    for _, text in TEXTS:
        try:
            ids = list(encode(text))
        except (ValueError, KeyError, OverflowError):
            ids = []
        parts.append(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def digits(encode: Encoder, vocabulary: Vocabulary) -> str:
    """How numbers are cut: single, groups-of-3 or free."""
    tokens = [vocabulary.tokens.get(i, b"N")[1:].decode("utf-8", "replace") for i in encode("x12345678901")]
    pieces = [text.strip("x ") for text in tokens if any(c.isdigit() for c in text)]
    if all(len(piece) == 1 for piece in pieces):
        return "single"
    return "groups-of-3" if pieces == ["123", "456", "789", "01"] else "free"


def _json(vocabulary: Vocabulary) -> Encoder:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(vocabulary.source)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def _sentencepiece(vocabulary: Vocabulary) -> Encoder:
    return _processor(Path(vocabulary.source).read_bytes())


def _processor(model: bytes) -> Encoder:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    return lambda text: processor.encode(text, out_type=int)


def _tiktoken(vocabulary: Vocabulary) -> Encoder | None:
    pipeline = vocabulary.pipeline
    if pipeline is None:
        return None
    import unicodedata

    from tiktoken import Encoding

    if vocabulary.format == "tiktoken":
        ranks, offset = tiktoken_ranks(Path(vocabulary.source)), 0
    else:
        offset = vocabulary.size - vocabulary.base_ids
        ranks = {token[1:]: i - offset for i, token in vocabulary.tokens.items() if i >= offset}
    encoding = Encoding("file", pat_str=pipeline["pat"], mergeable_ranks=ranks, special_tokens={})

    def encode(text: str) -> list[int]:
        composed = unicodedata.normalize("NFC", text) if pipeline["nfc"] else text
        return [i + offset for i in encoding.encode(composed, disallowed_special=())]

    return encode


def _rwkv(vocabulary: Vocabulary) -> Encoder:
    ids = {token[1:]: i for i, token in vocabulary.tokens.items()}
    longest = max(map(len, ids))

    def encode(text: str) -> list[int]:
        data, at, found = text.encode("utf-8"), 0, []
        while at < len(data):
            length = next(n for n in range(min(longest, len(data) - at), 0, -1) if data[at : at + n] in ids)
            found.append(ids[data[at : at + length]])
            at += length
        return found

    return encode


def _gguf(vocabulary: Vocabulary) -> Encoder | None:
    from draftpick.models.gguf import read_header

    metadata = read_header(Path(vocabulary.source)).metadata
    model = metadata.get("tokenizer.ggml.model")
    if model == "gpt2":
        return _gguf_bpe(metadata)
    return _processor(_sentencepiece_model(metadata)) if model == "llama" else None


def _gguf_bpe(metadata: Any) -> Encoder | None:
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

    pre = metadata.get("tokenizer.ggml.pre") or "default"
    if pre not in _PRE:
        return None
    texts = metadata["tokenizer.ggml.tokens"]
    vocab: dict[str, int] = {}
    for i, text in enumerate(texts):
        vocab.setdefault(text, i)
    merges = [_merge(text) for text in metadata.get("tokenizer.ggml.merges") or []]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre == "llama-bpe"))
    cuts: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _PRE[pre]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    kinds = metadata.get("tokenizer.ggml.token_type") or []
    added = [text for text, kind in zip(texts, kinds, strict=False) if kind in (2, 3, 4)]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in added])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def _merge(text: str) -> tuple[str, str]:
    left, _, right = text[1:].partition(" ")
    return text[:1] + left, right


# ---------------------------------------------------------------- a sentencepiece model from GGUF metadata
def _number(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _numbers(fields: dict[int, int]) -> bytes:
    return b"".join(_number(key << 3) + _number(value) for key, value in fields.items())


def _nested(key: int, content: bytes) -> bytes:
    return _number(key << 3 | 2) + _number(len(content)) + content


def _sentencepiece_model(metadata: Any) -> bytes:
    """The protobuf that sentencepiece would have had: pieces, trainer and normaliser settings."""
    import struct

    def get(key: str) -> Any:
        return metadata.get(f"tokenizer.ggml.{key}")

    texts, kinds, scores = get("tokens"), list(get("token_type")), get("scores")
    unknown = next((i for i, kind in enumerate(kinds) if kind == 2), 0)
    seen: set[str] = set()
    parts = []
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        # GGUF writes runs of spaces in user-defined tokens as they are; sentencepiece wants each piece but once.
        piece = text.replace(" ", "▁") if kind == 4 else text
        piece = f"{piece}\0dup{i}" if piece in seen else piece
        seen.add(piece)
        kind = 2 if i == unknown else 3 if kind == 2 else kind
        content = _nested(1, piece.encode("utf-8", "surrogateescape"))
        content += _number(2 << 3 | 5) + struct.pack("<f", scores[i]) + _numbers({3: kind})
        parts.append(_nested(1, content))
    fallback = any(text.startswith("<0x") and kind != 3 for text, kind in zip(texts, kinds, strict=True))
    ends = [get(key) if get(key) is not None else -1 for key in ("bos_token_id", "eos_token_id")]
    trainer = _numbers({3: 2, 4: len(texts), 35: int(fallback), 40: unknown, 41: ends[0], 42: ends[1], 43: -1})
    prefix = int(get("add_space_prefix") is not False)
    normal = _nested(1, b"identity") + _numbers({3: prefix, 4: 0, 5: 1})
    return b"".join([*parts, _nested(2, trainer), _nested(3, normal)])
