"""Compiles the catalogue's text files into the JSON that the start-up path reads, and lays overlays over it.

Standard library only: it also runs inside the build of a wheel.
"""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Record = dict[str, Any]

HEAVY_TOKENIZER_FIELDS = ("control", "blocks", "sketch", "head")


def read_toml(path: Path) -> Record:
    """A TOML file; raises InvalidCatalog with file and line where it is not TOML."""
    from draftpick.errors import InvalidCatalog

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidCatalog(f"{path}: not valid TOML: {error}", "mend the file, then run `draftpick catalog validate`") from None


def compile_index(folder: Path) -> dict[str, Any]:
    """All compiled files by name, from a catalogue folder."""
    tokenizers = {path.stem: read_toml(path) for path in sorted((folder / "tokenizers").glob("*.toml"))}
    index: Record = {
        "models": {},
        "heads": {},
        "not_published": {},
        "engines": {path.stem: _plain(read_toml(path)) for path in sorted((folder / "engines").glob("*.toml"))},
        "devices": {},
        "tokenizers": {key: _light(_plain(record)) for key, record in tokenizers.items()},
    }
    for path in sorted((folder / "families").glob("*.toml")):
        _add_family(index, read_toml(path), origin=None)
    if (folder / "devices.toml").is_file():
        _add_devices(index, read_toml(folder / "devices.toml"))
    relations = _relations(folder / "tokenizers" / "relations.csv")
    index["related"] = sorted(Path(name).stem for name in relations)
    return {
        "index.json": _derive(index),
        "tokenizers.json": {key: _heavy(record) for key, record in tokenizers.items() if record.get("full")},
        **relations,
    }


def write_index(folder: Path, target: Path) -> None:
    """Compile `folder` and write the files into `target`."""
    (target / "relations").mkdir(parents=True, exist_ok=True)
    for name, content in compile_index(folder).items():
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        (target / name).write_text(text, encoding="utf-8")


def lay_over(index: Mapping[str, Any], folders: Iterable[Path]) -> Record:
    """The index with the overlays' rows added or replaced; each overlay is validated first."""
    from draftpick.files import check_overlay

    merged: Record = {key: dict(value) if isinstance(value, dict) else value for key, value in index.items()}
    for folder in folders:
        for path in check_overlay(folder, merged):
            content = read_toml(path)
            if path.parent.name == "tokenizers":
                merged["tokenizers"][path.stem] = _light(_plain(content))
            elif path.parent.name == "engines":
                merged["engines"][path.stem] = _plain(content)
            elif path.name == "devices.toml":
                _add_devices(merged, content)
            else:
                _add_family(merged, content, origin="overlay")
    return _derive(merged)


def _add_family(index: Record, content: Record, origin: str | None) -> None:
    family = content.get("family")
    for row in content.get("model", ()):
        record = _plain(row)
        record.setdefault("family", family)
        if origin:
            record["origin"] = origin
        index["models"][record.pop("id")] = record
    for row in content.get("head", ()):
        record = _plain(row)
        index["heads"][record.pop("id")] = record
    for row in content.get("not_published", ()):
        for name in row["names"]:
            index["not_published"][name.lower()] = {"text": row["text"], "nearest": row["nearest"]}


def _add_devices(index: Record, content: Record) -> None:
    for row in content.get("device", ()):
        record = _plain(row)
        index["devices"][record.pop("key")] = record


def _derive(index: Record) -> Record:
    """Look-up tables that depend on all rows."""
    models, heads = index["models"], index["heads"]
    index["names"] = _names(models)
    index["head_names"] = _names(heads)
    index["heads_by_target"] = {}
    for head_id, head in sorted(heads.items()):
        index["heads_by_target"].setdefault(head.get("target"), []).append(head_id)
    index["engine_names"] = _keyed_names(index["engines"])
    index["device_names"] = _keyed_names(index["devices"])
    index["tokenizers_by_full"] = {}
    for key, record in index["tokenizers"].items():
        if record.get("full"):
            index["tokenizers_by_full"].setdefault(record["full"], key)
    index["date"] = max((str(record.get("checked", "")) for record in models.values()), default="")
    return index


def _names(records: Mapping[str, Record]) -> dict[str, str]:
    """Lower-case ids, aliases and unambiguous bare names → id. An id wins over an alias, an alias over a bare name."""
    bare: dict[str, str | None] = {}
    for model_id, record in records.items():
        for name in {full.rsplit("/", 1)[-1].lower() for full in (model_id, *record.get("aliases", ()))}:
            bare[name] = model_id if bare.get(name, model_id) == model_id else None
    names = {name: model_id for name, model_id in bare.items() if model_id is not None}
    for model_id, record in records.items():
        names.update((alias.lower(), model_id) for alias in record.get("aliases", ()))
    names.update((model_id.lower(), model_id) for model_id in records)
    return names


def _keyed_names(records: Mapping[str, Record]) -> dict[str, str]:
    names = {alias.lower(): key for key, record in records.items() for alias in record.get("aliases", ())}
    names.update((key.lower(), key) for key in records)
    return names


def _light(record: Record) -> Record:
    return {key: value for key, value in record.items() if key not in HEAVY_TOKENIZER_FIELDS}


def _heavy(record: Record) -> Record:
    """Blocks, sketch and texts of a fingerprint, unpacked from their compact spelling."""
    blocks, sketch = record.get("blocks", ""), base64.b64decode(record.get("sketch", ""))
    return {
        "blocks": [blocks[at : at + 16] for at in range(0, len(blocks), 16)],
        "sketch": [int.from_bytes(sketch[at : at + 4], "little") for at in range(0, len(sketch), 4)],
        "control": record.get("control", {}),
        "head": record.get("head", []),
    }


def _relations(path: Path) -> dict[str, dict[str, Record]]:
    """One file for each tokenizer with its relations to all others, so that a run reads one and not all pairs."""
    files: dict[str, dict[str, Record]] = {}
    if path.is_file():
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                a, b = row["a_full"], row["b_full"]
                files.setdefault(f"relations/{a}.json", {})[b] = row
                files.setdefault(f"relations/{b}.json", {})[a] = row
    return files


def _plain(value: Any) -> Any:
    """TOML values as JSON ones: dates become text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def is_current(folder: Path, compiled: Path) -> bool:
    """Whether the compiled files say what the text files say."""
    return all(
        (compiled / name).is_file() and json.loads((compiled / name).read_text(encoding="utf-8")) == json.loads(json.dumps(content))
        for name, content in compile_index(folder).items()
    )


if __name__ == "__main__":
    _root = Path(__file__).parent.parent
    write_index(_root / "catalog", _root / "draftpick" / "_data")
