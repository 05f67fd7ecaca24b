"""docs/formats.md lists the keys and columns that there are. UPDATE_DOCUMENTS=1 writes its tables anew."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from draftpick.report.csv import ADVICE, PROBE
from draftpick.schemas import DOCUMENTS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "formats.md"
PART = re.compile(r"<!-- (?P<kind>keys|columns): (?P<name>\w+) -->\n(?P<table>.*?)<!-- end -->\n", re.DOTALL)
COLUMNS: Mapping[str, Mapping[str, str]] = {"advice": ADVICE, "probe": PROBE}


def tables(kind: str, name: str) -> str:
    """What stands between two marks of the page."""
    if kind == "columns":
        lines = _table(("column", "what"), ((f"`{column}`", what) for column, what in COLUMNS[name].items()))
        return "\n".join([*lines, ""])
    schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    lines, waiting, seen = _record(schema), _parts(schema), set[str]()
    while waiting:
        part = waiting.pop(0)
        if part not in seen:
            seen.add(part)
            found = schema["$defs"][part]
            lines += ["", f"**{part}**: {found['description']}", "", *_record(found)]
            waiting += _parts(found)
    return "\n".join([*lines, ""])


def _record(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required", ()) if schema.get("additionalProperties") is False else ()
    return _table(
        ("key", "type", "what"),
        (
            (f"`{key}`", _type(part) + (", required" if key in required else ""), part.get("description", ""))
            for key, part in schema["properties"].items()
        ),
    )


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        f"|{' --- |' * len(header)}",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |".replace("|  |", "| |") for row in rows),
    ]


def _parts(schema: Mapping[str, Any]) -> list[str]:
    """The records that a record is made of, in the order of its keys."""
    found = re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema.get("properties", {})))
    return [name for name in found if name != "JsonValue"]


def _type(part: Mapping[str, Any]) -> str:
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return "any" if name == "JsonValue" else name
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(one) for one in part["anyOf"]))
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if "enum" in part:
        return ", ".join(f"`{one}`" for one in part["enum"])
    kind = part.get("type", "any")
    if kind == "array":
        inside = part.get("prefixItems") or [part.get("items", {})]
        return f"list of {', '.join(_type(one) for one in inside)}"
    if kind == "object":
        inside = part.get("additionalProperties")
        return f"map of {_type(inside)}" if isinstance(inside, dict) and inside else "map"
    return _bounded(kind, part)


def _bounded(kind: str, part: Mapping[str, Any]) -> str:
    if part.get("minimum") == 0 and part.get("maximum") == 1:
        return f"{kind} 0 to 1"
    return f"{part['format']}, as a text" if "format" in part else kind


def parts() -> list[re.Match[str]]:
    return list(PART.finditer(PAGE.read_text(encoding="utf-8")))


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the page")
def test_write_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    anew = PART.sub(
        lambda found: (
            f"<!-- {found['kind']}: {found['name']} -->\n{tables(found['kind'], found['name'])}<!-- end -->\n"
        ),
        text,
    )
    PAGE.write_text(anew, encoding="utf-8")


@pytest.mark.parametrize("part", parts(), ids=lambda found: f"{found['kind']} {found['name']}")
def test_the_page_lists_what_there_is(part: re.Match[str]) -> None:
    assert part["table"] == tables(part["kind"], part["name"]), "stale: run `make schemas`"


def test_it_lists_every_document() -> None:
    found = {(part["kind"], part["name"]) for part in parts()}
    assert found == {("keys", one.name) for one in DOCUMENTS} | {("columns", name) for name in COLUMNS}


def test_every_mark_has_its_end() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(parts()) == text.count("<!-- end -->") == len(re.findall("<!-- (?:keys|columns):", text))
