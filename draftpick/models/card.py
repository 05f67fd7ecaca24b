"""The metadata at the top of a model card: licence and base model. A few keys, so no YAML parser is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from draftpick.models.bounded import clean, open_regular

_HEAD_BYTES = 65_536
_RELATIONS = {"finetune": "finetune", "adapter": "adapter", "quantized": "quantized", "merge": "merge"}


@dataclass(frozen=True, slots=True)
class Card:
    """What a model card says of origin and licence."""

    base_model: str | None = None
    """None also where several are named, as for a merge."""
    relation: str | None = None
    license: str | None = None


def read_card(path: Path) -> Card:
    """The metadata of a README.md; an empty card where there is none. Raises InvalidFile for no regular file."""
    if not path.exists():
        return Card()
    with open_regular(path) as file:
        text = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    return parse_card(text)


def parse_card(text: str) -> Card:
    """The same from the card's text."""
    keys = _front_matter(text)
    bases = [base for base in keys.get("base_model", ()) if base]
    relation = _RELATIONS.get(_first(keys, "base_model_relation") or "")
    licence = _first(keys, "license")
    if licence in (None, "other"):
        licence = _first(keys, "license_name") or licence
    if len(bases) != 1:
        return Card(relation=relation or ("merge" if len(bases) > 1 else None), license=licence)
    return Card(base_model=bases[0], relation=relation, license=licence)


def hub_id(value: object) -> str | None:
    """`org/name` from a hub address or an id; None for anything else."""
    text = clean(value)
    if text is None:
        return None
    for prefix in ("https://huggingface.co/", "https://modelscope.cn/models/", "https://hf.co/"):
        text = text.removeprefix(prefix)
    return text.strip("/") if re.fullmatch(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", text.strip("/")) else None


def _first(keys: dict[str, list[str]], name: str) -> str | None:
    values = keys.get(name)
    return values[0].lower() if values and values[0] else None


def _front_matter(text: str) -> dict[str, list[str]]:
    """Top-level keys with plain values: `key: value`, `key: [a, b]` and lists of `- item` lines."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    keys: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines[1:]:
        if line.strip() in ("---", "..."):
            return keys
        item = line.strip()
        if item.startswith("- ") and current is not None:
            current.append(_plain(item[2:]))
        elif line[:1].strip() and ":" in line and not item.startswith(("#", "-")):
            key, _, value = line.partition(":")
            current = keys.setdefault(key.strip(), [])
            current.extend(_values(value.strip()))
        elif line[:1].strip():
            current = None
    return {}


def _values(value: str) -> list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [_plain(part) for part in value[1:-1].split(",")]
    return [_plain(value)] if value and value[0] not in "|>&*{" else []


def _plain(value: str) -> str:
    value = value.split(" #", 1)[0].strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return clean(value) or ""
