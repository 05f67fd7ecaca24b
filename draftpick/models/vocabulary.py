"""A tokenizer in one canonical shape, whatever file it was read from, and what lies beside it.

A canonical token is its kind and its bytes: `N` for text, `B` for a byte fallback (`<0x0A>`). Byte-level spellings
are decoded, `▁` becomes a space in sentencepiece-like vocabularies, padding is left out. What a file marks as base or
special is not trusted: files of one and the same model disagree about it, so mark-up is told by its text alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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
_MAX_TEMPLATE_MARKS = 20_000
"""Places in a chat template where mark-up may begin; long templates have some hundred."""


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


def byte_level_alphabet() -> dict[str, int]:
    """The spelling byte-level BPE uses: each byte has a printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


ALPHABET: dict[str, int] = {}


def byte_level(text: str) -> bytes:
    """Bytes of a byte-level spelling; text with a character outside the alphabet is left as UTF-8."""
    if not ALPHABET:
        ALPHABET.update(byte_level_alphabet())
    try:
        return bytes([ALPHABET[c] for c in text])
    except KeyError:
        return raw_bytes(text)


def utf8(text: str) -> bytes:
    """The bytes of a text, lone surrogates as they are."""
    try:
        return text.encode("utf-8", "surrogatepass")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def raw_bytes(text: str) -> bytes:
    """Bytes of a string that was decoded with surrogateescape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return utf8(text)


def byte_fallback(text: str) -> bytes | None:
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
class Tokens:
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
                tokens[i] = b"N" + utf8(text.replace("▁", " ") if self.spaces else text)
        return tokens

    @property
    def size(self) -> int:
        return max(max(self.base, default=-1), max(self.added, default=-1)) + 1


def check_ids(ids: Iterable[Any], where: str) -> None:
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
def whole_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """A file of a tokenizer. Raises InvalidFile for one that is too large, empty, or only a pointer to it."""
    data = read_bytes(path, limit)
    if not data.strip():
        raise InvalidFile(f"{path}: the file is empty", "The download did not finish; fetch it again.")
    if data.startswith(b"version https://git-lfs"):
        raise InvalidFile(f"{path}: a Git LFS pointer, not the file itself", "Run `git lfs pull` in that folder.")
    return data


def read_json(path: Path) -> dict[str, Any]:
    """Its JSON object. Raises InvalidFile."""
    return parse_json(whole_file(path), str(path))


def optional_object(path: Path) -> dict[str, Any]:
    """Its JSON object; an empty one where there is no such file."""
    return read_json(path) if is_there(path) else {}


def is_there(path: Path) -> bool:
    """Whether the folder names it; a broken link, a pipe or a folder of that name is told and not passed over."""
    return os.path.lexists(path)


def with_config(values: dict[str, Any], tokens: Tokens, *, folder: Path) -> Vocabulary:
    """Put tokenizer_config.json and generation_config.json to a vocabulary read from `folder`."""
    config = optional_object(folder / "tokenizer_config.json")
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
        template_ids=template_ids(template, canonical) if template else (),
        notes=tuple(notes),
    )


def _from_config(config: dict[str, Any], tokens: Tokens) -> dict[str, Any]:
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


def _added_by_config(config: dict[str, Any], tokens: Tokens) -> list[str]:
    texts = decoder_list(config)
    extra = [i for i in texts if i not in tokens.added and tokens.raw.get(i) != texts[i]]
    renamed = [i for i, text in texts.items() if i in tokens.added and tokens.added[i] != text]
    notes = []
    if extra:
        notes.append(f"tokenizer_config.json names {len(extra)} tokens that the vocabulary file lacks")
    if renamed:
        notes.append(f"tokenizer_config.json renames {len(renamed)} tokens")
    return notes


def _generation_stops(folder: Path) -> list[int]:
    value = optional_object(folder / "generation_config.json").get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return [i for i in values if type(i) is int and 0 <= i <= MAX_ID]


def template_ids(template: Any, tokens: Mapping[int, bytes]) -> tuple[int, ...]:
    """Ids of the mark-up tokens whose text a chat template contains, as far as its first 20,000 brackets."""
    if isinstance(template, list):
        template = "\n".join(str(t.get("template", "")) for t in template if isinstance(t, dict))
    if not isinstance(template, str):
        return ()
    import re
    from itertools import islice

    encoded = utf8(template)
    markup = {i: token[1:] for i, token in tokens.items() if is_markup(token)}
    texts = set(markup.values())
    lengths = sorted({len(text) for text in texts})
    starts = [found.start() for found in islice(re.finditer(rb"[<\[|]", encoded), _MAX_TEMPLATE_MARKS)]
    # Looking every token up in the template would take time that grows with the product of both.
    written = {text for at in starts for length in lengths if (text := encoded[at : at + length]) in texts}
    return tuple(sorted(i for i, text in markup.items() if text in written))


def hash_texts(texts: Iterable[bytes]) -> str:
    """A digest of texts in their order."""
    import hashlib

    parts = []
    for text in texts:
        parts += [len(text).to_bytes(4, "little"), text]
    return hashlib.sha256(b"".join(parts)).hexdigest()


NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Kinds of pieces, in sentencepiece and in GGUF."""


def decoder_list(config: dict[str, Any]) -> dict[int, str]:
    """id → text of the tokens that tokenizer_config.json adds."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return {}
    texts = {int(i): v.get("content") for i, v in listed.items() if _is_id(i) and isinstance(v, dict)}
    return {i: text for i, text in texts.items() if isinstance(text, str)}


def _is_id(digits: str) -> bool:
    return len(digits) <= len(str(MAX_ID)) and digits.isdecimal() and int(digits) <= MAX_ID
