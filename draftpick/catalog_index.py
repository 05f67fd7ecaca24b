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

DETAILS = {
    "models": ("source", "checked", "param_check", "params_active_vendor", "aliases"),
    "heads": ("source", "checked", "aliases", "release", "block_size"),
    "tokenizers": ("source", "checked", "stands_for", "embedding_rows", "markup", "key"),
    "devices": ("source", "checked", "aliases"),
}
"""What nobody needs for a judgement, only for a look at the record."""
KINDS = ("models", "heads", "tokenizers", "engines", "devices", "issues")
NO_FAMILY = "local"
"""Family of an overlay's file for models of which none is known."""
TRAITS = ("family", "tokenizer", "vocab_size", "params_active", "params_text", "params_total")
HEAVY_TOKENIZER_FIELDS = ("control", "blocks", "sketch", "head")


def read_toml(path: Path) -> Record:
    """A TOML file; raises InvalidCatalog with file and line where it is not TOML."""
    from draftpick.errors import InvalidCatalog

    try:
        with open(path, "rb") as file:
            return dict(tomllib.load(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidCatalog(
            f"{path}: not valid TOML: {error}", "mend the file, then run `draftpick catalog validate`"
        ) from None


def compile_index(folder: Path) -> dict[str, bytes]:
    """All compiled files by name, from a catalogue folder.

    Records stand one a line in `<kind>.jsonl`; the index says where each begins and ends, so that a run parses only
    those it looks at.
    """
    whole = _read_folder(folder)
    tokenizers = {key: _heavy(record) for key, record in whole["tokenizers"].items() if record.get("full")}
    whole["tokenizers"] = {key: _light(record) for key, record in whole["tokenizers"].items()}
    relations = _relations(folder / "tokenizers" / "relations.csv")
    index = _derive(whole)
    index["related"] = sorted(Path(name).stem for name in relations)
    _add_traits(index)
    details = {kind: {key: _split(index[kind], key, fields) for key in index[kind]} for kind, fields in DETAILS.items()}
    files = {"details.json": _bytes(details), "tokenizers.json": _bytes(tokenizers)}
    files.update((name, _bytes(rows)) for name, rows in relations.items())
    for kind in KINDS:
        # Templates of engines keep the order in which somebody wrote them.
        index[kind], files[f"{kind}.jsonl"] = _lines(index[kind], sort_keys=kind != "engines")
    # Exact ids need no look-up: most runs never read this file.
    files["names.json"] = _bytes({name: index.pop(name) for name in ("names", "head_names")})
    files["index.json"] = _bytes(index)
    if (folder / "ascend_versions.toml").is_file():
        files["ascend_versions.json"] = _bytes(_plain(read_toml(folder / "ascend_versions.toml")))
    return files


def write_index(folder: Path, target: Path) -> None:
    """Compile `folder` and write the files into `target`; what an earlier catalogue left there goes."""
    (target / "relations").mkdir(parents=True, exist_ok=True)
    files = compile_index(folder)
    for name, content in files.items():
        (target / name).write_bytes(content)
    for path in (*target.glob("*.json*"), *target.glob("relations/*.json")):
        if path.relative_to(target).as_posix() not in files:
            path.unlink()


def is_current(folder: Path, compiled: Path) -> bool:
    """Whether the compiled files say what the text files say."""
    return all(
        (compiled / name).is_file() and (compiled / name).read_bytes() == content
        for name, content in compile_index(folder).items()
    )


def _read_folder(folder: Path) -> Record:
    index: Record = {
        "models": {},
        "heads": {},
        "not_published": {},
        "engines": {path.stem: _plain(read_toml(path)) for path in sorted((folder / "engines").glob("*.toml"))},
        "devices": {},
        "issues": {},
        "tokenizers": {path.stem: _plain(read_toml(path)) for path in sorted((folder / "tokenizers").glob("*.toml"))},
    }
    for path in sorted((folder / "families").glob("*.toml")):
        _add_family(index, read_toml(path), origin=None)
    if (folder / "devices.toml").is_file():
        _add_devices(index, read_toml(folder / "devices.toml"))
    if (folder / "known_issues.toml").is_file():
        _add_issues(index, read_toml(folder / "known_issues.toml"))
    return index


def _lines(records: Mapping[str, Record], *, sort_keys: bool) -> tuple[dict[str, list[int]], bytes]:
    """Where each record begins and ends, and the records one a line."""
    places: dict[str, list[int]] = {}
    content = bytearray()
    for key, record in records.items():
        line = _bytes(record, sort_keys=sort_keys)
        places[key] = [len(content), len(content) + len(line)]
        content += line + b"\n"
    return places, bytes(content)


def _bytes(value: Any, *, sort_keys: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys).encode()


def lay_over(
    index: Mapping[str, Any], details: Mapping[str, Any], folders: Iterable[Path], *, without: str | None = None
) -> Record:
    """The index with the overlays' rows added or replaced, but for a model `without`; each overlay is validated first.

    Its records are whole again: the look-up tables are derived from what the index keeps apart as details.
    """
    from draftpick.validation import check_overlay

    merged: Record = {key: dict(value) if isinstance(value, dict) else value for key, value in index.items()}
    merged["heavy"] = {}
    for kind in KINDS:
        rows = details.get(kind, {})
        merged[kind] = {key: {**rows.get(key, {}), **record} for key, record in index[kind].items()}
    for folder in folders:
        for path in check_overlay(folder, merged, without=without):
            content = read_toml(path)
            if path.parent.name == "tokenizers":
                record = _plain(content)
                merged["tokenizers"][path.stem], merged["heavy"][path.stem] = _light(record), _heavy(record)
            elif path.parent.name == "engines":
                merged["engines"][path.stem] = _plain(content)
            elif path.name == "devices.toml":
                _add_devices(merged, content)
            elif path.name == "known_issues.toml":
                _add_issues(merged, content)
            else:
                _add_family(merged, content, origin="overlay", without=without)
    _add_traits(merged)
    return _derive(merged)


def _add_family(index: Record, content: Record, origin: str | None, without: str | None = None) -> None:
    family = content.get("family")
    for row in content.get("model", ()):
        if without is not None and row["id"].lower() == without.lower():
            continue
        record = _plain(row)
        if family != NO_FAMILY:
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


def _add_issues(index: Record, content: Record) -> None:
    for row in content.get("issue", ()):
        index["issues"][row["key"]] = _plain(row)


def _add_traits(index: Record) -> None:
    """What decides whether a model is worth a line, kept for all models and tokenizers in the index itself."""
    index["traits"] = {key: [record.get(field) for field in TRAITS] for key, record in index["models"].items()}
    index["tokenizer_traits"] = {
        key: [record.get("family"), record.get("core"), [said["key"] for said in record.get("same_text_as", ())]]
        for key, record in index["tokenizers"].items()
    }


def _derive(index: Record) -> Record:
    """Look-up tables that depend on all rows."""
    models, heads = index["models"], index["heads"]
    index["names"] = _names(models)
    index["stock"] = {key: stock for key in models if (stock := _stock(key, models, index["names"])) is not None}
    index["head_names"] = _names(heads)
    index["heads_by_target"] = {}
    for head_id, head in sorted(heads.items()):
        index["heads_by_target"].setdefault(head.get("target"), []).append(head_id)
    index["engine_names"] = _keyed_names(index["engines"])
    index["device_names"] = _keyed_names(index["devices"])
    index["issues_by_engine"] = {}
    for key, issue in sorted(index["issues"].items()):
        for engine in issue["engines"]:
            index["issues_by_engine"].setdefault(engine, []).append(key)
    index["tokenizers_by_full"] = {}
    for key, record in index["tokenizers"].items():
        if record.get("full"):
            index["tokenizers_by_full"].setdefault(record["full"], key)
    index["date"] = max((str(record.get("checked", "")) for record in models.values()), default="")
    return index


_LONGEST_LINE = 20
"""Ancestors that are looked at; the longest line of the catalogue has 4. An overlay may hold any."""


def _stock(model_id: str, models: Mapping[str, Record], names: Mapping[str, str]) -> list[str | None] | None:
    """Family and generation of the oldest catalogued ancestor; None for a model that has none."""
    seen = [model_id]
    while len(seen) <= _LONGEST_LINE and (base := models[seen[-1]].get("lineage", {}).get("base_model")):
        base_id = names.get(base.lower())
        if base_id is None or base_id in seen:
            break
        seen.append(base_id)
    root = models[seen[-1]]
    return [root.get("family"), root.get("generation")] if len(seen) > 1 else None


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


def _split(records: Record, key: str, fields: tuple[str, ...]) -> Record:
    """Take the details out of a record and return them."""
    record = records[key]
    return {field: record.pop(field) for field in fields if field in record}


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


if __name__ == "__main__":
    _root = Path(__file__).parent.parent
    write_index(_root / "catalog", _root / "draftpick" / "_data")
