"""What the catalogue holds, for a person or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftpick.catalog import Catalog, Record
from draftpick.errors import UsageError
from draftpick.report.layout import GAP, LEAST_ROOM, Cell, Grid, draw
from draftpick.report.text import count, json_text, printable

if TYPE_CHECKING:
    from draftpick.validation import Problem

KINDS = ("models", "heads", "tokenizers", "engines", "devices", "issues")


def listing(catalog: Catalog, kind: str, *, family: str | None, as_json: bool, width: int | None, color: bool) -> str:
    """All records of one kind, one a line."""
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        raise UsageError(f"unknown kind {kind!r}", f"did you mean {near[0]}?" if near else f"one of {', '.join(KINDS)}")
    records = _records(catalog, kind)
    if family is not None:
        records = {key: row for key, row in records.items() if str(row.get("family", "")).lower() == family.lower()}
        if not records:
            families = sorted({str(row["family"]) for row in _records(catalog, kind).values() if row.get("family")})
            raise UsageError(f"no {kind} of a family {family!r}", f"families: {', '.join(families) or 'none'}")
    if as_json:
        return json_text([{"id": key, **row} for key, row in sorted(records.items())]) + "\n"
    header, rows = _COLUMNS[kind](records)
    return _listed(header, rows, width, color) + f"\n{len(records)} {kind}; catalogue of {catalog.date}\n"


def one_record(catalog: Catalog, name: str, *, as_json: bool, width: int | None, color: bool) -> str:
    """One record with everything that is known of it and where that was read."""
    kind, key, record = _find(catalog, name)
    if as_json:
        return json_text({"kind": kind[:-1], "id": key, **record}) + "\n"
    uncertain = set(record.get("uncertain", ()))
    rows = [
        (label, text + (" (uncertain)" if field in uncertain else ""))
        for field, value in record.items()
        if field != "uncertain"
        for label, text in _field(field, value)
    ]
    title = f"{kind[:-1]} {key}\n\n"
    return printable(title.strip()) + "\n\n" + _table(("field", "value"), rows, width, color)


def validation(folder: Path | None) -> tuple[str, bool]:
    """The problems of an overlay, or of the catalogue and the user's own overlay, and whether none is an error."""
    from draftpick.catalog import packed_folder, user_folder
    from draftpick.validation import shipped_rows, validate

    if folder is not None:
        return _validated(folder, validate(folder))
    text, passed = _validated(packed_folder(), validate(packed_folder()))
    own = user_folder()
    if own is not None and own.is_dir():
        more, sound = _validated(own, validate(own, base=shipped_rows()))
        text, passed = text + more, passed and sound
    return text, passed


def _validated(checked: Path, problems: Sequence[Problem]) -> tuple[str, bool]:
    lines = [
        f"{problem.severity}: {problem.file}: {problem.where}: {problem.message}"
        + (f" ({problem.fix})" if problem.fix else "")
        for problem in problems
    ]
    errors = sum(problem.severity == "error" for problem in problems)
    lines.append(f"{checked}: {errors} errors, {len(problems) - errors} warnings")
    return "\n".join(printable(line) for line in lines) + "\n", errors == 0


def _records(catalog: Catalog, kind: str) -> Mapping[str, Record]:
    keys: Mapping[str, Record] = getattr(catalog, kind)
    return {key: catalog.record(kind, key) for key in keys}


def _find(catalog: Catalog, name: str) -> tuple[str, str, Record]:
    model_id = catalog.model_id(name)
    if model_id is not None:
        return "models", model_id, catalog.record("models", model_id)
    head = catalog.head(name)
    if head is not None:
        return "heads", head.id, catalog.record("heads", head.id)
    if name in catalog.tokenizers:
        return "tokenizers", name, catalog.record("tokenizers", name)
    for kind, look_up in (("engines", catalog.engine), ("devices", catalog.device)):
        try:
            key = look_up(name).key
        except UsageError:
            continue
        return kind, key, catalog.record(kind, key)
    invented = catalog.not_published(name)
    if invented is not None:
        raise UsageError(f"the catalogue has no {name!r}: {invented[0]}", f"the nearest real one is {invented[1]}")
    near = catalog.nearest(name)
    raise UsageError(
        f"the catalogue has no {name!r}",
        f"did you mean {', '.join(near)}?" if near else "`draftpick catalog list` shows all",
    )


def _field(field: str, value: Any) -> list[tuple[str, str]]:
    """One row for a plain field; one for each entry where a field holds records."""
    if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
        entries = [f"{key}: {_value(item)}" for key, item in value.items()]
    elif isinstance(value, Sequence) and value and all(isinstance(item, Mapping) for item in value):
        entries = [_value(item) for item in value]
    else:
        entries = [_value(value)]
    return [(field if place == 0 else "", entry) for place, entry in enumerate(entries)]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1_000_000:
        return f"{value:,}"
    return str(value)


_Rows = tuple[Sequence[str], list[tuple[str, ...]]]


def _models(records: Mapping[str, Record]) -> _Rows:
    return ("model", "parameters", "active", "layers", "rows", "tokenizer", "context", "licence"), [
        (
            key,
            count(row.get("params_total")),
            count(row["params_active"]) if row.get("params_active") else "",
            str(row.get("num_hidden_layers", "?")),
            str(row.get("vocab_size", "?")),
            str(row.get("tokenizer", "?")),
            str(row.get("max_position_embeddings", "?")),
            str(row.get("license", "?")),
        )
        for key, row in sorted(records.items(), key=lambda item: item[0].lower())
    ]


def _heads(records: Mapping[str, Record]) -> _Rows:
    return ("head", "method", "target", "size", "pairing"), [
        (key, row["method"], str(row.get("target", "?")), count(row.get("params")), str(row.get("confidence", "?")))
        for key, row in sorted(records.items(), key=lambda item: item[0].lower())
    ]


def _tokenizers(records: Mapping[str, Record]) -> _Rows:
    return ("tokenizer", "family", "named ids", "fingerprint", "confidence"), [
        (
            key,
            str(row.get("family", "")),
            str(row.get("named_ids", "?")),
            str(row["core"])[:12] if row.get("core") else "none",
            str(row.get("confidence", "?")),
        )
        for key, row in sorted(records.items())
    ]


def _engines(records: Mapping[str, Record]) -> _Rows:
    return ("engine", "name", "facts hold for", "checked", "methods"), [
        (
            key,
            str(row["name"]),
            str(row["version"]),
            str(row.get("checked", "?")),
            ", ".join(
                name
                for name, method in row.get("methods", {}).items()
                if method.get("support") not in ("no", "unknown")
            ),
        )
        for key, row in sorted(records.items())
    ]


def _devices(records: Mapping[str, Record]) -> _Rows:
    return ("device", "name", "memory (nominal)", "memory (seen)", "bf16", "also called"), [
        (
            key,
            str(row.get("name", "")),
            f"{row['memory_bytes'] / 2**30:.0f} GiB" if row.get("memory_bytes") else "?",
            f"{row['memory_seen_bytes'] / 2**30:.1f} GiB" if row.get("memory_seen_bytes") else "",
            {True: "yes", False: "no"}.get(row.get("bf16"), "?"),  # type: ignore[arg-type]
            ", ".join(row.get("aliases", ())),
        )
        for key, row in sorted(records.items())
    ]


def _issues(records: Mapping[str, Record]) -> _Rows:
    return ("issue", "kind", "engines", "versions", "what was seen"), [
        (key, row["kind"], ", ".join(row["engines"]), _window(row), row["symptom"])
        for key, row in sorted(records.items())
    ]


def _window(row: Record) -> str:
    bounds = ((word, row[name]) for name, word in (("since", "from"), ("until", "before")) if name in row)
    return " ".join(f"{word} {bound}" for word, bound in bounds) or "any"


_COLUMNS = {
    "models": _models,
    "heads": _heads,
    "tokenizers": _tokenizers,
    "engines": _engines,
    "devices": _devices,
    "issues": _issues,
}


def _listed(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, color: bool) -> str:
    """A record a line; where a screen is too narrow for that, what does not fit stands below its key.

    A key is copied from here, so it is broken only where it is wider than the screen.
    """
    widths = [max(len(name), *(len(row[at]) for row in rows)) if rows else len(name) for at, name in enumerate(header)]
    if width is None or sum(widths) + len(GAP) * (len(widths) - 1) <= width:
        return _table(header, rows, width, color)
    beside = 1
    while sum(widths[1 : beside + 1]) + len(GAP) * beside <= min(width // 2, width - LEAST_ROOM):
        beside += 1
    shown: list[list[Cell | str]] = [
        [
            Cell(
                printable(row[0]),
                below="; ".join(
                    printable(f"{name}: {cell}")
                    for name, cell in zip(header[beside:], row[beside:], strict=True)
                    if cell
                ),
            ),
            *map(printable, row[1:beside]),
        ]
        for row in rows
    ]
    return draw([Grid(header[:beside], shown, wraps=frozenset(range(beside)))], width=width, color=color)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, color: bool) -> str:
    cells = [[printable(cell) for cell in row] for row in rows]
    return draw([Grid(header, cells, wraps=frozenset(range(len(header))))], width=width, color=color)
