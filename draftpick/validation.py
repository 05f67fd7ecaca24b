"""Whether a folder of the catalogue, or one laid over it, is sound: every file by itself, and rows that must agree.

pydantic: import this module inside functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_origin

from pydantic import ValidationError

from draftpick.engine_file import EngineFile, IssueRecord, IssuesFile
from draftpick.errors import InvalidCatalog
from draftpick.files import (
    AscendVersionsFile,
    CatalogRecord,
    DevicesFile,
    FamilyFile,
    HeadRecord,
    ModelRecord,
    NotPublished,
    TokenizerRecord,
    did_you_mean,
)
from draftpick.models.parameters import count, too_large
from draftpick.toml_file import ADVICE, MAX_FILE_BYTES, parse_toml, read_toml

MAX_TOTAL_BYTES = 8_000_000
MAX_FILES = 1_000
TOLERANCE = 0.03
"""Share by which a stated parameter count may differ from the one recomputed from dimensions."""


# ---------------------------------------------------------------------- problems


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a file says that it must not, and how to mend it."""

    file: str
    where: str
    message: str
    fix: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.message}" if self.where else f"{self.file}: {self.message}"


# ---------------------------------------------------------------------- validation of a folder


@dataclass(slots=True)
class Seen:
    """What the files of a folder hold together."""

    base: Mapping[str, Any]
    overlay: bool
    without: str | None = None
    """A model whose row counts for nothing: it is about to be replaced."""
    models: dict[str, tuple[str, ModelRecord]] = field(default_factory=dict)
    heads: dict[str, tuple[str, HeadRecord]] = field(default_factory=dict)
    not_published: list[tuple[str, NotPublished]] = field(default_factory=list)
    tokenizers: set[str] = field(default_factory=set)
    engines: set[str] = field(default_factory=set)
    issues: dict[str, tuple[str, IssueRecord]] = field(default_factory=dict)
    written: dict[tuple[str, str], str] = field(default_factory=dict)
    """(model or head, id in lower case) → the id as it was written first."""
    problems: list[Problem] = field(default_factory=list)

    def add(self, file: str, where: str, message: str, fix: str, *, warning: bool = False) -> None:
        severity: Literal["error", "warning"] = "warning" if warning else "error"
        self.problems.append(Problem(file, where, message, fix, severity))


def validate(
    folder: Path,
    *,
    base: Mapping[str, Any] | None = None,
    instead: Mapping[Path, str] | None = None,
    without: str | None = None,
) -> list[Problem]:
    """All problems of a catalogue folder, or of an overlay laid over the compiled index `base`.

    A folder without engines, tokenizers and families of its own counts as an overlay of the shipped catalogue.
    `instead` are texts that files are about to have, `without` is a model whose row is not looked at.
    Raises InvalidCatalog where the folder cannot be listed.
    """
    instead = instead or {}
    paths = sorted({*(_paths(folder) if folder.exists() or not instead else ()), *instead})
    whole = all((folder / name).is_dir() for name in ("families", "tokenizers", "engines"))
    if base is None and not whole:
        base = shipped_rows()
    seen = Seen(base or {}, overlay=base is not None, without=without)
    _check_files(folder, paths, instead, seen)
    _check_rows_together(seen)
    return sorted(seen.problems, key=lambda problem: (problem.severity, problem.file, problem.where))


def _shipped_folder() -> Path:
    """The catalogue of the checkout, or the one that came with the package."""
    package = Path(__file__).parent
    beside = package.parent / "catalog"
    return beside if (beside / "families").is_dir() else package / "_data" / "catalog"


def shipped_rows() -> dict[str, Any]:
    """The models, and the keys of tokenizers and engines, of the shipped catalogue, as an overlay needs them."""
    return {kind: {**rows} for kind, rows in _shipped(_shipped_folder()).items()}


@cache
def _shipped(folder: Path) -> dict[str, dict[str, Any]]:
    files = [read_toml(path) for path in sorted((folder / "families").glob("*.toml"))]
    return {
        "models": {row["id"]: row for content in files for row in content.get("model", ())},
        "tokenizers": {path.stem: {} for path in (folder / "tokenizers").glob("*.toml")},
        "engines": {path.stem: {} for path in (folder / "engines").glob("*.toml")},
    }


def check_overlay(folder: Path, base: Mapping[str, Any], *, without: str | None = None) -> list[Path]:
    """The files of an overlay, once they are known to be sound, but for the row of a model `without`.

    Raises InvalidCatalog with the first error and the number of others.
    """
    paths = _paths(folder)
    refuse(folder, validate(folder, base=base, without=without))
    return paths


def refuse(folder: Path, problems: Iterable[Problem]) -> None:
    """Raise InvalidCatalog with the file of the first error and the number of others, where there is an error."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        place = f"{folder.parent if folder.is_file() else folder}/"
        raise InvalidCatalog(f"{place}{errors[0]}{more}", errors[0].fix or ADVICE)


def _paths(folder: Path) -> list[Path]:
    """The TOML files of a folder, or the single file that `folder` is."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InvalidCatalog(f"{folder}: no such folder", "give a folder with families/*.toml in it")
    try:
        found = sorted(
            path for part in (".", "families", "tokenizers", "engines") for path in (folder / part).glob("*.toml")
        )
        sizes = [path.stat().st_size for path in found]
    except OSError as error:
        where = error.filename or folder
        raise InvalidCatalog(f"{where}: {error.strerror or error}", "check the path and its permissions") from None
    if len(found) > MAX_FILES:
        raise InvalidCatalog(f"{folder}: {len(found)} files; at most {MAX_FILES} are read", "merge them by family")
    if sum(size for size in sizes if size <= MAX_FILE_BYTES) > MAX_TOTAL_BYTES:
        limit = MAX_TOTAL_BYTES / 1e6
        raise InvalidCatalog(f"{folder}: more than {limit:.0f} MB in all", "leave out what you do not need")
    return found


_Model = type[CatalogRecord]


def _check_files(folder: Path, paths: Sequence[Path], instead: Mapping[Path, str], seen: Seen) -> None:
    for path in paths:
        name = str(path.relative_to(folder)) if path != folder else path.name
        try:
            content = parse_toml(instead[path], path) if path in instead else read_toml(path)
        except InvalidCatalog as error:
            seen.add(name, "", error.message.removeprefix(f"{path}: "), error.hint)
            continue
        part = path.parent.name
        if part == "tokenizers" and path != folder:
            _check_tokenizer(name, path.stem, content, seen)
        elif part == "engines" and path != folder:
            _check_engine(name, path.stem, content, seen)
        elif path.name == "devices.toml":
            devices = as_record(DevicesFile, name, content, seen)
            if isinstance(devices, DevicesFile):
                _in_order(name, "device", [row.key for row in devices.device], seen)
        elif path.name == "known_issues.toml":
            _check_issues(name, content, seen)
        elif path.name == "ascend_versions.toml":
            _check_versions(name, content, seen)
        else:
            _check_family(name, content, seen)


def _check_versions(name: str, content: dict[str, Any], seen: Seen) -> None:
    record = as_record(AscendVersionsFile, name, content, seen)
    if not isinstance(record, AscendVersionsFile):
        return
    if seen.overlay:
        seen.add(name, "", "releases are read from the shipped catalogue alone", "remove the file", warning=True)
    known = {row.version: row for row in record.torch_npu}
    if len(known) < len(record.torch_npu):
        seen.add(name, "torch_npu", "a version stands twice", "remove one of the two rows")
    for row in record.torch_npu:
        if row.torch.split(".")[:2] != row.version.split(".")[:2]:
            seen.add(name, f"torch_npu {row.version}", f"is made for torch {row.torch}", "correct torch or version")
    for engine in record.engine:
        pinned = known.get(engine.torch_npu) if engine.torch_npu is not None else None
        if pinned is not None and (pinned.torch, pinned.cann) != (engine.torch, engine.cann):
            seen.add(
                name,
                f"engine {engine.name} {engine.version}",
                f"its torch_npu {pinned.version} belongs to torch {pinned.torch} and CANN {pinned.cann}",
                "correct one of the two rows",
            )


def _check_family(name: str, content: dict[str, Any], seen: Seen) -> None:
    file = as_record(FamilyFile, name, content, seen)
    if not isinstance(file, FamilyFile):
        return
    _in_order(name, "model", [row.id for row in file.model], seen)
    _in_order(name, "head", [row.id for row in file.head], seen)
    for model in file.model:
        if seen.without is not None and model.id.lower() == seen.without.lower():
            continue
        _check_count(name, model, seen)
        _once(seen.models, model.id, name, model, "model", seen)
    for head in file.head:
        _once(seen.heads, head.id, name, head, "head", seen)
    seen.not_published.extend((name, row) for row in file.not_published)


def _check_tokenizer(name: str, key: str, content: dict[str, Any], seen: Seen) -> None:
    seen.tokenizers.add(key)
    record = as_record(TokenizerRecord, name, content, seen)
    if isinstance(record, TokenizerRecord) and record.key not in (None, key):
        seen.add(name, "key", f"key {record.key!r} is not the name of the file", f"rename it to {record.key}.toml")


def _check_issues(name: str, content: dict[str, Any], seen: Seen) -> None:
    file = as_record(IssuesFile, name, content, seen)
    if isinstance(file, IssuesFile):
        _in_order(name, "issue", [row.key for row in file.issue], seen)
        for row in file.issue:
            _once(seen.issues, row.key, name, row, "issue", seen)


def _check_engine(name: str, key: str, content: dict[str, Any], seen: Seen) -> None:
    seen.engines.add(key)
    record = as_record(EngineFile, name, content, seen)
    if isinstance(record, EngineFile) and record.key != key:
        seen.add(name, "key", f"key {record.key!r} is not the name of the file", f"rename it to {record.key}.toml")


def as_record(kind: _Model, name: str, content: dict[str, Any], seen: Seen) -> CatalogRecord | None:
    """The content as a record; what does not fit becomes problems."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        for entry in error.errors(include_url=False, include_input=False)[:50]:
            where, message, fix = _explain(kind, content, entry)
            seen.add(name, where, message, fix)
        return None


def _explain(kind: _Model, content: Any, entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """Where, what and how to mend, of one entry of a ValidationError."""
    location = [part for part in entry["loc"] if not _is_branch(part)]
    where = _place(content, location)
    key = str(location[-1]) if location and isinstance(location[-1], str) else ""
    if entry["type"] == "extra_forbidden":
        near = did_you_mean(key, _keys_at(kind, location[:-1]))
        return where, f"unknown key {key!r}{near}", near.lstrip("; ") or "remove it, or see the keys in CONTRIBUTING"
    if entry["type"] == "missing":
        return where, f"key {key!r} is missing", f"add {key} = …"
    message = str(entry["msg"]).removeprefix("Value error, ")
    if not key:
        return where, message, "correct the row"
    return where, f"{key}: {message[:1].lower()}{message[1:]}", f"correct {key}"


def _is_branch(part: int | str) -> bool:
    """Whether pydantic named a branch of a union, not a key."""
    return isinstance(part, str) and ("[" in part or part in ("str", "constrained-str"))


def _place(content: Any, location: Sequence[int | str]) -> str:
    """The table or row that holds the last part of a location: `model acme/x`, `methods.mtp.was number 1`."""
    where = ""
    for depth, part in enumerate(location):
        content = _within(content, part)
        if isinstance(part, int):
            name = (content.get("id") or content.get("key")) if isinstance(content, dict) else None
            where += f" {str(name)[:120]}" if name else f" number {part + 1}"
        elif depth < len(location) - 1:
            where += f"{'.' if where else ''}{part[:120]}"
    return where


def _within(content: Any, part: int | str) -> Any:
    try:
        return content[part]
    except (KeyError, IndexError, TypeError):
        return None


def _keys_at(kind: _Model, location: Sequence[int | str]) -> Iterable[str]:
    """The keys that a record allows at a place, for suggestions."""
    current, named = kind, False
    for part in location:
        if isinstance(part, int) or named:  # the key of a row in a table that holds rows by name
            named = False
            continue
        item = current.model_fields.get(part)
        inner = next(_records_in(item.annotation), None) if item is not None else None
        if item is None or inner is None:
            return ()
        current, named = inner, get_origin(item.annotation) is dict
    return current.model_fields


def _records_in(annotation: Any) -> Iterator[_Model]:
    if isinstance(annotation, type) and issubclass(annotation, CatalogRecord):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _records_in(part)


def by_name(name: str) -> tuple[str, str]:
    """What rows are sorted by."""
    return name.casefold(), name


def _in_order(file: str, kind: str, ids: Sequence[str], seen: Seen) -> None:
    """Rows stand in the order of their ids, so that two people add a row at the same place."""
    for before, after in pairwise(ids):
        if by_name(before) > by_name(after):
            place = max(
                (other for other in ids if by_name(other) < by_name(after)),
                key=by_name,
                default=None,
            )
            fix = f"move {after} after {place}" if place else f"move {after} to the front"
            seen.add(
                file, f"{kind} {after}", f"stands after {before}: rows are sorted by id", fix, warning=seen.overlay
            )
            return


def _once(found: dict[str, Any], key: str, file: str, row: Any, kind: str, seen: Seen) -> None:
    same = seen.written.setdefault((kind, key.lower()), key)
    if same in found:
        place = "in this file" if found[same][0] == file else f"in {found[same][0]}"
        seen.add(file, f"{kind} {key}", f"stands twice: also {place}", "remove one of the two rows")
        return
    found[key] = (file, row)


def _check_count(file: str, row: ModelRecord, seen: Seen) -> None:
    """Stated counts against those recomputed from the dimensions, and all of them against what any model has."""
    profile = row.profile()
    if (said := too_large(profile)) is not None:
        seen.add(file, f"model {row.id}", said, "correct the dimensions")
        return
    counts = count(profile)
    if counts is None:
        return
    stated: list[tuple[str, int | None, int]] = [
        ("params_text", row.params_text, counts.total_text),
        ("params_active", row.params_active if row.experts else None, counts.active),
    ]
    explained = row.param_check not in (None, "exact", "within 3 %")
    whole = row.modality == "text" and not row.num_nextn_predict_layers and row.quantization is None
    if whole and not explained:
        stated.append(("params_total", row.params_total, counts.total_text))
    for name, value, computed in stated:
        if value is not None and abs(value - computed) > TOLERANCE * computed:
            share = (value - computed) / computed
            seen.add(
                file,
                f"model {row.id}",
                f"{name} {value:,} differs by {share:+.1%} from {computed:,}, recomputed from the dimensions",
                f"correct {name} or the dimensions, or say in param_check why they differ",
                warning=seen.overlay,
            )


# ---------------------------------------------------------------------- rows that must agree with other rows


def _check_rows_together(seen: Seen) -> None:
    known: dict[str, str] = {name.lower(): name for name in seen.base.get("models", {})}
    known.update((name.lower(), name) for name in seen.models)
    aliases = _check_aliases(seen, known)
    _check_tokenizer_keys(seen)
    _check_targets(seen, known, aliases)
    _check_lineage(seen)
    _check_engine_keys(seen)


def _check_engine_keys(seen: Seen) -> None:
    keys = {*seen.engines, *seen.base.get("engines", {})}
    for file, row in seen.issues.values():
        for engine in row.engines:
            if engine not in keys:
                message = f"no engine has the key {engine!r}{did_you_mean(engine, keys)}"
                seen.add(file, f"issue {row.key}", message, "name engines by the key of their file")


def _check_aliases(seen: Seen, known: Mapping[str, str]) -> dict[str, str]:
    """Lower-case alias → id of the model."""
    aliases: dict[str, str] = {}
    for model_id, record in seen.base.get("models", {}).items():
        if model_id not in seen.models:
            aliases.update((alias.lower(), model_id) for alias in record.get("aliases", ()))
    rows: list[tuple[str, str, ModelRecord | HeadRecord]] = [
        *((file, "model", model) for file, model in seen.models.values()),
        *((file, "head", head) for file, head in seen.heads.values()),
    ]
    for file, kind, row in rows:
        for alias in row.aliases:
            owner = known.get(alias.lower()) or aliases.get(alias.lower())
            if owner is not None:
                whose = "its own id" if owner == row.id else f"taken by {owner}"
                seen.add(file, f"{kind} {row.id}", f"alias {alias!r} is {whose}", "remove the alias")
            else:
                aliases[alias.lower()] = row.id
    for head_id, (file, _) in seen.heads.items():
        if head_id.lower() in known:
            seen.add(
                file, f"head {head_id}", "is a model as well", "keep one of the two; a model has made_for = [targets]"
            )
    return aliases


def _check_tokenizer_keys(seen: Seen) -> None:
    keys = {*seen.tokenizers, *seen.base.get("tokenizers", {})}
    if not keys:
        return
    for kind, rows in (("model", seen.models), ("head", seen.heads)):
        for file, row in rows.values():
            if row.tokenizer is not None and row.tokenizer not in keys:
                near = did_you_mean(row.tokenizer, keys)
                fix = near.lstrip("; ") or f"add tokenizers/{row.tokenizer}.toml"
                seen.add(file, f"{kind} {row.id}", f"no tokenizer has the key {row.tokenizer!r}{near}", fix)


def _check_targets(seen: Seen, known: Mapping[str, str], aliases: Mapping[str, str]) -> None:
    def exists(name: str) -> bool:
        return name.lower() in known or name.lower() in aliases

    for file, head in seen.heads.values():
        if exists(head.target) == head.unlisted_target:
            message = "is in the catalogue" if head.unlisted_target else "is no model of the catalogue"
            fix = "remove unlisted_target" if head.unlisted_target else "correct it, or add unlisted_target = true"
            seen.add(file, f"head {head.id}", f"target {head.target!r} {message}", fix)
    for file, model in seen.models.values():
        for target in model.made_for:
            if not exists(target):
                seen.add(file, f"model {model.id}", f"made_for {target!r} is no model of the catalogue", "correct it")
    for file, row in seen.not_published:
        if not exists(row.nearest):
            seen.add(file, "not_published", f"nearest {row.nearest!r} is no model of the catalogue", "correct it")
        for name in row.names:
            if exists(name):
                seen.add(file, "not_published", f"{name!r} is a model of the catalogue", "remove the name")


def _check_lineage(seen: Seen) -> None:
    """No model descends from itself."""
    parents: dict[str, str | None] = {
        model_id: record.get("lineage", {}).get("base_model")
        for model_id, record in seen.base.get("models", {}).items()
    }
    parents.update((model_id, row.lineage.base_model) for model_id, (_, row) in seen.models.items())
    settled: set[str] = set()
    for model_id, (file, _) in seen.models.items():
        path: dict[str, None] = {}
        current: str | None = model_id
        while current is not None and current not in settled and current not in path:
            path[current] = None
            current = parents.get(current)
        if current is not None and current in path:
            steps = list(path)
            circle = [*steps[steps.index(current) :], current]
            shown = " → ".join(circle if len(circle) <= 6 else [*circle[:3], "…", *circle[-2:]])
            seen.add(file, f"model {model_id}", f"descends from itself: {shown}", "correct base_model")
        settled.update(path)
