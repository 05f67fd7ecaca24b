"""Readers that bring a tokenizer from whatever file holds it into one canonical shape.

A canonical token is its kind and its bytes: `N` for text, `B` for a byte fallback (`<0x0A>`). Byte-level spellings
are decoded, `▁` becomes a space in sentencepiece-like vocabularies, padding is left out. What a file marks as base or
special is not trusted: files of one and the same model disagree about it, so mark-up is told by its text alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftpick.errors import InvalidFile
from draftpick.models.bounded import parse_json, read_bytes

if TYPE_CHECKING:
    import re

MAX_FILE_BYTES = 64 * 2**20
"""Largest tokenizer file that is parsed; the largest seen in real repositories has 34 MB."""
MAX_ID = 2**20
"""Highest id a file may name: the cost of a fingerprint grows with it, even where most ids are holes."""
MAX_TOKENS = 400_000
"""Most tokens of one vocabulary, so that a hostile file costs at most seconds (real language models: up to 262,145)."""
_MAX_LITERALS = 70_000
"""Lines of an RWKV vocabulary; the only one there is has 65,529, in 1.2 MB."""
_MAX_LITERAL_BYTES = 8_000_000
_MAX_TEMPLATE_MARKS = 20_000
"""Places in a chat template where mark-up may begin; long templates have some hundred."""
_MAX_PIECE_FIELDS = 6

TIKTOKEN_NOTE = "control tokens are in the vendor's code, not in the tiktoken file"
TEKKEN_NOTE = "names of control tokens are not in the tekken file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """One tokenizer as its file has it, brought into canonical shape."""

    format: str
    """tokenizer.json, sentencepiece, tiktoken, tekken, rwkv, vocab.json or gguf; `code` where only code was found."""
    tokens: Mapping[int, bytes] = field(repr=False)
    """id → kind and bytes of every id that means something."""
    raw: Mapping[int, str] = field(default_factory=dict, repr=False)
    """id → text as the file spells it: what llama.cpp compares. Padding included."""
    vocab_type: str | None = None
    """What llama.cpp calls it: SPM, BPE, WPM, UGM, RWKV."""
    algorithm: str | None = None
    base_ids: int = 0
    """Ids without those the file itself lists as added or control tokens. Informative: files disagree about it."""
    size: int = 0
    """Highest id of the file and one, padding included."""
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    stop_ids: tuple[int, ...] = ()
    """Ids that end an answer: the eos of tokenizer_config and all of generation_config."""
    template_ids: tuple[int, ...] = ()
    """Mark-up tokens the chat template writes."""
    normalizer: str | None = None
    """none, NFC, NFKC, spaces or another name; None: not known."""
    digits: str | None = None
    """single, groups-of-3 or free; None: not known without an encoder."""
    control_known: bool = True
    """False where control tokens are not in the file."""
    pipeline: Mapping[str, Any] | None = field(default=None, repr=False)
    """How text is cut, as the file says it; filled only where it was asked for."""
    tokenizer_class: str | None = None
    source: str = ""
    """Path of the file read."""
    notes: tuple[str, ...] = ()

    @property
    def control(self) -> dict[int, bytes]:
        """The mark-up-like tokens, id → canonical bytes."""
        return {i: token for i, token in self.tokens.items() if is_markup(token)}


def damaged(message: str) -> InvalidFile:
    """The error for a file that is not what its name says."""
    return InvalidFile(message, "The file is cut off, damaged or hostile; fetch it again from its source.")


# ---------------------------------------------------------------- canonical tokens
def is_markup(token: bytes) -> bool:
    """Whether a canonical token looks like mark-up for the model (`<…>`, `[WORD]`, `|||WORD|||`), not like language."""
    if token[:1] != b"N" or token[1:2] not in (b"<", b"[", b"|"):
        return False
    return _markup().match(token, 1) is not None


@cache
def _markup() -> re.Pattern[bytes]:
    import re

    return re.compile(rb"(<[^\n]{1,80}>|\[/?[A-Za-z_0-9 ]{2,40}\]|\|\|\|[A-Z_]{1,80}\|\|\|)$")


def is_reserved(text: str) -> bool:
    """Whether a mark-up token is only a numbered place holder that nothing was trained on."""
    import re

    words = "unused|reserved|special|extra|holder|control"
    pattern = rf"(?i)[<\[][|｜]?[\w▁ ]*?(?:{words})[\w▁ -]*?\d+[|｜]?[>\]]$"
    return re.match(pattern, text) is not None


def text_of(token: bytes | None) -> str | None:
    """Printable text of a canonical token; bytes that are no character and control characters are escaped."""
    if token is None:
        return None
    if token[:1] == b"B":
        return f"<0x{token[1]:02X}>" if len(token) == 2 else "<byte>"
    return printable(token[1:].decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    """The text with everything escaped that a terminal or a CSV file would act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _byte_level_alphabet() -> dict[str, int]:
    """The spelling byte-level BPE uses: each byte has a printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


_ALPHABET: dict[str, int] = {}


def byte_level(text: str) -> bytes:
    """Bytes of a byte-level spelling; text with a character outside the alphabet is left as UTF-8."""
    if not _ALPHABET:
        _ALPHABET.update(_byte_level_alphabet())
    try:
        return bytes([_ALPHABET[c] for c in text])
    except KeyError:
        return _raw_bytes(text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogatepass")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _raw_bytes(text: str) -> bytes:
    """Bytes of a string that was decoded with surrogateescape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _utf8(text)


def _byte_fallback(text: str) -> bytes | None:
    """Canonical token of `<0xNN>`, or None."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return b"B" + bytes([int(text[3:5], 16)])
        except ValueError:
            return None
    return None


def _is_padding(text: str) -> bool:
    for prefix, end in (("[PAD", "]"), ("<dummy", ">"), ("<pad", ">")):
        if text.startswith(prefix) and text.endswith(end) and text[len(prefix) : -1].isdecimal():
            return True
    return False


@dataclass(slots=True)
class _Tokens:
    """Collects tokens while a file is read."""

    where: str
    spaces: bool = False
    """Whether `▁` means a space, in added tokens too."""
    base: dict[int, bytes | None] = field(default_factory=dict)
    """None: an id that is padding."""
    added: dict[int, str] = field(default_factory=dict)
    raw: dict[int, str] = field(default_factory=dict)

    def finish(self) -> dict[int, bytes]:
        """The canonical map of all ids that mean something."""
        tokens = {i: token for i, token in self.base.items() if token is not None}
        for i, text in self.added.items():
            if _is_padding(text):
                tokens.pop(i, None)
            else:
                tokens[i] = b"N" + _utf8(text.replace("▁", " ") if self.spaces else text)
        return tokens

    @property
    def size(self) -> int:
        return max(max(self.base, default=-1), max(self.added, default=-1)) + 1


def _check_ids(ids: Iterable[Any], where: str) -> None:
    """Refuse ids that are no numbers, negative, absurd or given twice."""
    listed = list(ids)
    if len(listed) > MAX_TOKENS:
        raise damaged(f"{where}: {len(listed):,} tokens, more than any tokenizer has")
    if not all(type(i) is int for i in listed):
        raise damaged(f"{where}: a token id is not a whole number")
    if listed and (min(listed) < 0 or max(listed) > MAX_ID):
        bad = min(listed) if min(listed) < 0 else max(listed)
        raise damaged(f"{where}: token id {bad} is out of range (0 … {MAX_ID})")
    if len(set(listed)) != len(listed):
        seen: set[int] = set()
        twice = next(i for i in listed if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise damaged(f"{where}: token id {twice} is given to two tokens")


# ---------------------------------------------------------------- files
def _read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    data = read_bytes(path, limit)
    if not data.strip():
        raise InvalidFile(f"{path}: the file is empty", "The download did not finish; fetch it again.")
    if data.startswith(b"version https://git-lfs"):
        raise InvalidFile(f"{path}: a Git LFS pointer, not the file itself", "Run `git lfs pull` in that folder.")
    return data


def _read_json(path: Path) -> dict[str, Any]:
    return parse_json(_read_bytes(path), str(path))


def _optional_object(path: Path) -> dict[str, Any]:
    return _read_json(path) if _is_there(path) else {}


def _is_there(path: Path) -> bool:
    """Whether the folder names it; a broken link, a pipe or a folder of that name is told and not passed over."""
    return os.path.lexists(path)


def read_folder(folder: Path, *, pipeline: bool = False) -> Vocabulary | None:
    """The tokenizer that lies in a folder, or None where there is none.

    Where only code describes it (it is never run), the vocabulary has format `code`, no tokens and a note saying so.
    Raises InvalidFile for an empty, cut off, damaged or hostile file. `pipeline` also reads how text is cut (slower).
    """
    for name, reader in (("tokenizer.json", read_tokenizer_json), ("tekken.json", read_tekken)):
        if _is_there(folder / name):
            return reader(folder / name, pipeline=pipeline)
    for path in _models_in(folder):
        return read_model(path, pipeline=pipeline)
    if _is_there(folder / "vocab.json"):
        return read_vocab_json(folder / "vocab.json", pipeline=pipeline)
    for path in sorted(folder.glob("rwkv_vocab*.txt")):
        return read_rwkv(path, pipeline=pipeline)
    for path in sorted(folder.glob("*.gguf")):
        return read_gguf(path, pipeline=pipeline)
    return _code_only(folder)


def _models_in(folder: Path) -> list[Path]:
    named = [folder / "tokenizer.model", folder / "spiece.model"]
    others = sorted(folder.glob("*.tiktoken")) + sorted(folder.glob("*.model"))
    return [path for path in named if _is_there(path)] + others


def _code_only(folder: Path) -> Vocabulary | None:
    config = _optional_object(folder / "tokenizer_config.json")
    code = sorted(path.name for path in folder.glob("tokeniz*.py"))
    if not code and "auto_map" not in config:
        return None
    what = code[0] if code else "auto_map in tokenizer_config.json"
    note = f"the tokenizer is described only by code of the repository ({what}), which is not run"
    return Vocabulary(format="code", tokens={}, source=str(folder), control_known=False, notes=(note,))


def read_gguf(path: Path, *, pipeline: bool = False) -> Vocabulary | None:
    """The tokenizer in the head of a GGUF file, or None where it has none."""
    from draftpick.models.gguf import read_header

    metadata = read_header(path).metadata
    if "tokenizer.ggml.tokens" not in metadata:
        return None
    return from_gguf(metadata, source=str(path), pipeline=pipeline)


def read_model(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """A `*.model` or `*.tiktoken` file: sentencepiece or tiktoken, told by its first bytes and not by its name."""
    data = _read_bytes(path)
    if data[:1] == b"\x0a":
        return _with_config(*_sentencepiece(path, data, pipeline), folder=path.parent)
    first = data.split(b"\n", 1)[0].split()
    if len(first) == 2 and first[1].isdigit():
        return read_tiktoken(path, pipeline=pipeline)
    raise InvalidFile(
        f"{path}: neither a sentencepiece model nor a tiktoken file",
        "The file is damaged or of another format; fetch it again.",
    )


# ---------------------------------------------------------------- what lies beside the vocabulary
def _with_config(values: dict[str, Any], tokens: _Tokens, *, folder: Path) -> Vocabulary:
    """Put tokenizer_config.json and generation_config.json to a vocabulary read from `folder`."""
    config = _optional_object(folder / "tokenizer_config.json")
    canonical = tokens.finish()
    notes = list(values.pop("notes", ()))
    if config:
        values |= _from_config(config, tokens)
        notes += _added_by_config(config, tokens)
    stops = {values.get("eos")} | set(_generation_stops(folder))
    template = config.get("chat_template")
    return Vocabulary(
        **values,
        tokens=canonical,
        raw=tokens.raw,
        size=tokens.size,
        stop_ids=tuple(sorted(i for i in stops if isinstance(i, int))),
        template_ids=_template_ids(template, canonical) if template else (),
        notes=tuple(notes),
    )


def _from_config(config: dict[str, Any], tokens: _Tokens) -> dict[str, Any]:
    ids: dict[str, int] = {}
    for i in sorted(tokens.raw):
        ids.setdefault(tokens.raw[i], i)

    def id_of(key: str) -> int | None:
        value = config.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        return ids.get(text) if isinstance(text, str) else None

    found: dict[str, Any] = {"tokenizer_class": config.get("tokenizer_class")}
    for name in ("bos", "eos", "pad"):
        if f"{name}_token" in config:
            found[name] = id_of(f"{name}_token")
    for name in ("add_bos", "add_eos"):
        if isinstance(config.get(f"{name}_token"), bool):
            found[name] = config[f"{name}_token"]
    return found


def _added_by_config(config: dict[str, Any], tokens: _Tokens) -> list[str]:
    texts = _decoder_list(config)
    extra = [i for i in texts if i not in tokens.added and tokens.raw.get(i) != texts[i]]
    renamed = [i for i, text in texts.items() if i in tokens.added and tokens.added[i] != text]
    notes = []
    if extra:
        notes.append(f"tokenizer_config.json names {len(extra)} tokens that the vocabulary file lacks")
    if renamed:
        notes.append(f"tokenizer_config.json renames {len(renamed)} tokens")
    return notes


def _generation_stops(folder: Path) -> list[int]:
    value = _optional_object(folder / "generation_config.json").get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return [i for i in values if type(i) is int and 0 <= i <= MAX_ID]


def _template_ids(template: Any, tokens: Mapping[int, bytes]) -> tuple[int, ...]:
    """Ids of the mark-up tokens whose text a chat template contains, as far as its first 20,000 brackets."""
    if isinstance(template, list):
        template = "\n".join(str(t.get("template", "")) for t in template if isinstance(t, dict))
    if not isinstance(template, str):
        return ()
    import re
    from itertools import islice

    encoded = _utf8(template)
    markup = {i: token[1:] for i, token in tokens.items() if is_markup(token)}
    texts = set(markup.values())
    lengths = sorted({len(text) for text in texts})
    starts = [found.start() for found in islice(re.finditer(rb"[<\[|]", encoded), _MAX_TEMPLATE_MARKS)]
    # Looking every token up in the template would take time that grows with the product of both.
    written = {text for at in starts for length in lengths if (text := encoded[at : at + length]) in texts}
    return tuple(sorted(i for i, text in markup.items() if text in written))


# ---------------------------------------------------------------- tokenizer.json
def read_tokenizer_json(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """The `tokenizer.json` of the tokenizers library, and the configs beside it."""
    content = _read_json(path)
    model = content.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), (dict, list)):
        raise InvalidFile(f"{path}: no `model.vocab` in it", "This is not a tokenizer.json, or it is damaged.")
    added = _added_tokens(content, str(path))
    style = _json_style(content, model)
    tokens = _Tokens(str(path), spaces=style in ("BPE/spm", "Unigram"))
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
    return _with_config(values, tokens, folder=path.parent)


def _json_items(vocab: Any, where: str) -> list[tuple[str, int]]:
    if isinstance(vocab, dict):
        _check_ids(vocab.values(), where)
        return list(vocab.items())
    _check_ids(range(len(vocab)), where)
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
    _check_ids((i for i, _ in pairs), where)
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
        byte = _byte_fallback(text) if fallback else None
        return byte or b"N" + _utf8(text.replace("▁", " ") if spaces else text)

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
        "merges": _hash_texts(_utf8(text) for text in pairs),
    }


def _hash_texts(texts: Iterable[bytes]) -> str:
    import hashlib

    parts = []
    for text in texts:
        parts += [len(text).to_bytes(4, "little"), text]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def read_vocab_json(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """`vocab.json`, with `merges.txt` and `added_tokens.json` beside it: the older byte-level BPE files."""
    vocab = _read_json(path)
    _check_ids(vocab.values(), str(path))
    extra = _optional_object(path.parent / "added_tokens.json")
    _check_ids(extra.values(), str(path.parent / "added_tokens.json"))
    tokens = _Tokens(str(path))
    tokens.added = {i: text for text, i in extra.items()}
    for text, i in vocab.items():
        tokens.raw[i] = text
        if i not in tokens.added:
            tokens.base[i] = b"N" + byte_level(text)
    tokens.raw.update(tokens.added)
    merges = path.parent / "merges.txt"
    cut = None
    if pipeline and merges.is_file():
        lines = _read_bytes(merges).decode("utf-8", "replace").splitlines()
        pairs = [line.partition(" ") for line in lines if line and not line.startswith("#version")]
        cut = {"type": "BPE", "merges": _hash_texts(_utf8(part) for a, _, b in pairs for part in (a, b))}
    values = {
        "format": "vocab.json",
        "algorithm": "BPE/byte-level",
        "vocab_type": "BPE",
        "base_ids": len(tokens.base),
        "pipeline": cut,
        "source": str(path),
    }
    return _with_config(values, tokens, folder=path.parent)


# ---------------------------------------------------------------- sentencepiece
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6


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


def _sentencepiece(path: Path, data: bytes, pipeline: bool) -> tuple[dict[str, Any], _Tokens]:
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
    tokens = _Tokens(str(path), spaces=algorithm in ("BPE/spm", "Unigram"))
    for i, (text, _, kind) in enumerate(pieces):
        tokens.raw[i] = text
        if kind in (_UNKNOWN, _CONTROL, _USER):
            tokens.added[i] = text
        else:
            byte = _byte_fallback(text) if kind == _BYTE else None
            tokens.base[i] = None if kind == _UNUSED else byte or b"N" + _raw_bytes(text.replace("▁", " "))
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
    text, score, kind = "", b"\0\0\0\0", _NORMAL
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


# ---------------------------------------------------------------- tiktoken and tekken
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
    _check_ids(ranks.values(), str(path))
    return ranks


def _lines(path: Path, limit: int, size: int = MAX_FILE_BYTES) -> list[bytes]:
    data = _read_bytes(path, size)
    if data.count(b"\n") > limit:
        raise damaged(f"{path}: more lines than any tokenizer has")
    return data.split(b"\n")


def _spell(token: bytes) -> str:
    """Byte-level spelling, the one GGUF files have."""
    if not _ALPHABET:
        _ALPHABET.update(_byte_level_alphabet())
    if not _SPELLING:
        _SPELLING.update({b: c for c, b in _ALPHABET.items()})
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
    tokens = _Tokens(str(path))
    for token, i in ranks.items():
        tokens.base[i] = b"N" + token
        tokens.raw[i] = _spell(token)
    config = _optional_object(path.parent / "tokenizer_config.json") if specials is None else {}
    listed = _decoder_list(config) if specials is None else {i: text for text, i in specials.items()}
    _check_ids(listed, str(path))
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
    return _with_config(values, tokens, folder=path.parent)


def _decoder_list(config: dict[str, Any]) -> dict[int, str]:
    """id → text of the tokens that tokenizer_config.json adds."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return {}
    texts = {int(i): v.get("content") for i, v in listed.items() if _is_id(i) and isinstance(v, dict)}
    return {i: text for i, text in texts.items() if isinstance(text, str)}


def _is_id(digits: str) -> bool:
    return len(digits) <= len(str(MAX_ID)) and digits.isdecimal() and int(digits) <= MAX_ID


def read_tekken(path: Path, *, pipeline: bool = False) -> Vocabulary:
    """Mistral's tekken.json. Its `config` says how many of the listed tokens are used, and from which id on."""
    content = _read_json(path)
    try:
        config = content["config"]
        reserved, size = config["default_num_special_tokens"], config["default_vocab_size"]
        used = content["vocab"][: max(size - reserved, 0)]
        pattern = config["pattern"]
    except (TypeError, KeyError):
        raise damaged(f"{path}: no tekken.json, it has no `config` and `vocab`") from None
    _check_ids([reserved], str(path))
    _check_ids(range(reserved + len(used)), str(path))
    tokens = _Tokens(str(path))
    try:
        named = [(x["rank"], x["token_str"]) for x in content.get("special_tokens") or []]
    except (TypeError, KeyError):
        raise damaged(f"{path}: a control token without rank or text") from None
    _check_ids((i for i, _ in named), str(path))
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
    return _with_config(values, tokens, folder=path.parent)


def _tekken_ranks(entries: list[Any], path: Path) -> dict[bytes, int]:
    import base64
    import binascii

    try:
        ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    except (TypeError, KeyError, ValueError, binascii.Error):
        raise damaged(f"{path}: a token without bytes or rank") from None
    if len(ranks) != len(entries):
        raise damaged(f"{path}: a token is there twice")
    _check_ids(ranks.values(), str(path))
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

    tokens = _Tokens(str(path))
    ids = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a literal is the file's matter, nothing for stderr
        for number, data in enumerate(_lines(path, _MAX_LITERALS, _MAX_LITERAL_BYTES), 1):
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
    _check_ids(ids, str(path))
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
    return _with_config(values, tokens, folder=path.parent)


# ---------------------------------------------------------------- GGUF
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
    kinds = get("token_type") or [_NORMAL] * len(texts)
    if not isinstance(kinds, Sequence) or len(texts) > MAX_TOKENS or len(kinds) != len(texts):
        counted = f"{len(kinds):,}" if isinstance(kinds, Sequence) else "no list of"
        raise InvalidFile(
            f"{source}: {len(texts):,} tokens and {counted} token types", "The file is damaged; convert it again."
        )
    algorithm = _GGUF_ALGORITHMS.get(model, model)
    tokens = _Tokens(source, spaces=algorithm in ("BPE/spm", "Unigram"))
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
        template_ids=_template_ids(template, canonical) if template else (),
        normalizer="none",
        digits="single" if pre in _GGUF_SINGLE_DIGITS else None,
        pipeline=_gguf_pipeline(get) if pipeline else None,
        tokenizer_class=f"{model}/{pre}",
        source=source,
        notes=() if pre or model != "gpt2" else ("tokenizer.ggml.pre is missing: llama.cpp cuts by its default rule",),
    )


def _gguf_tokens(model: str, texts: Any, kinds: Any, tokens: _Tokens) -> None:
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        tokens.raw[i] = text
        byte = _byte_fallback(text) if kind == _BYTE or model in ("llama", "gemma4") else None
        if kind in (_UNKNOWN, _CONTROL, _USER):
            tokens.added[i] = text
        elif kind == _UNUSED:
            tokens.base[i] = None
        elif byte is not None:
            tokens.base[i] = byte
        elif model == "gpt2":
            tokens.base[i] = b"N" + byte_level(text)
        else:
            tokens.base[i] = b"N" + _raw_bytes(text.replace("▁", " "))


def _id(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_ID else None


def _gguf_stops(get: Any) -> tuple[int, ...]:
    found = {_id(get(key)) for key in ("eos_token_id", "eot_token_id", "eom_token_id")}
    return tuple(sorted(i for i in found if i is not None))


def _gguf_pipeline(get: Any) -> dict[str, Any]:
    return {
        "type": get("model"),
        "pre": get("pre"),
        "merges": _hash_texts(_raw_bytes(str(merge)) for merge in get("merges") or []),
        "add_space_prefix": get("add_space_prefix"),
    }
