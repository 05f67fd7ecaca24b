"""The tokenizer of a folder or a file, whichever format it lies there in."""

from __future__ import annotations

from pathlib import Path

from draftpick.errors import InvalidFile
from draftpick.models.gguf_tokenizer import from_gguf
from draftpick.models.sentencepiece_model import sentencepiece_tokens
from draftpick.models.token_lists import read_rwkv, read_tekken, read_tiktoken
from draftpick.models.tokenizer_json import read_tokenizer_json, read_vocab_json
from draftpick.models.vocabulary import (
    Vocabulary,
    is_there,
    optional_object,
    whole_file,
    with_config,
)


def read_folder(folder: Path, *, pipeline: bool = False) -> Vocabulary | None:
    """The tokenizer that lies in a folder, or None where there is none.

    Where only code describes it (it is never run), the vocabulary has format `code`, no tokens and a note saying so.
    Raises InvalidFile for an empty, cut off, damaged or hostile file. `pipeline` also reads how text is cut (slower).
    """
    for name, reader in (("tokenizer.json", read_tokenizer_json), ("tekken.json", read_tekken)):
        if is_there(folder / name):
            return reader(folder / name, pipeline=pipeline)
    for path in _models_in(folder):
        return read_model(path, pipeline=pipeline)
    if is_there(folder / "vocab.json"):
        return read_vocab_json(folder / "vocab.json", pipeline=pipeline)
    for path in sorted(folder.glob("rwkv_vocab*.txt")):
        return read_rwkv(path, pipeline=pipeline)
    for path in sorted(folder.glob("*.gguf")):
        return read_gguf(path, pipeline=pipeline)
    return _code_only(folder)


def _models_in(folder: Path) -> list[Path]:
    named = [folder / "tokenizer.model", folder / "spiece.model"]
    others = sorted(folder.glob("*.tiktoken")) + sorted(folder.glob("*.model"))
    return [path for path in named if is_there(path)] + others


def _code_only(folder: Path) -> Vocabulary | None:
    config = optional_object(folder / "tokenizer_config.json")
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
    data = whole_file(path)
    if data[:1] == b"\x0a":
        return with_config(*sentencepiece_tokens(path, data, pipeline), folder=path.parent)
    first = data.split(b"\n", 1)[0].split()
    if len(first) == 2 and first[1].isdigit():
        return read_tiktoken(path, pipeline=pipeline)
    raise InvalidFile(
        f"{path}: neither a sentencepiece model nor a tiktoken file",
        "The file is damaged or of another format; fetch it again.",
    )
