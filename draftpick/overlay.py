"""Writing models into a folder that is laid over the catalogue: other rows stay, and nothing unsound is written.

pydantic: import this module inside functions.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from draftpick.catalog_index import NO_FAMILY
from draftpick.errors import InvalidCatalog
from draftpick.files import FamilyFile, ModelRecord, TokenizerRecord
from draftpick.models.profile import ModelProfile
from draftpick.toml_file import read_toml
from draftpick.validation import Seen, as_record, by_name, refuse, validate

if TYPE_CHECKING:
    from draftpick.models.tokenizer import Fingerprint


class _Catalog(Protocol):
    @property
    def models(self) -> Mapping[str, Any]: ...
    @property
    def tokenizers(self) -> Mapping[str, Any]: ...
    @property
    def engines(self) -> Mapping[str, Any]: ...

    def model_id(self, name: str) -> str | None:
        """The catalogued id that a name stands for."""


def add_to_overlay(profile: ModelProfile, folder: Path, catalog: _Catalog, *, model_id: str | None = None) -> Path:
    """Write a profile into an overlay folder, under `model_id` or its own id, and return the file written.

    Its path is written whole: a row is read from any folder. `catalog` is what the overlay lies on, itself included.
    Raises InvalidCatalog where the id is an alias of another model or the overlay would be unsound, and CannotWrite.
    """
    named = profile.with_changes(id=model_id) if model_id else profile
    if named.path is not None:
        named = named.with_changes(path=os.path.abspath(named.path))
    owner = catalog.model_id(named.id)
    if owner is not None and owner.lower() != named.id.lower() and "/" in named.id:
        raise InvalidCatalog(f"{named.id} is another name of {owner}", "choose another id with --id")
    slug = re.sub(r"[^a-z0-9]+", "-", (named.family or NO_FAMILY).lower()).strip("-") or NO_FAMILY
    path = _file_of(named.id, folder / "families") or folder / "families" / f"{slug}.toml"
    write_overlay(named, path, base={kind: getattr(catalog, kind) for kind in ("models", "tokenizers", "engines")})
    return path


def left_unknown(profile: ModelProfile) -> list[str]:
    """What a row says nothing of because the model's files do not: a line each, with what to add to them."""
    lines = []
    if profile.tokenizer is None or not profile.tokenizer.verified:
        guessed = profile.tokenizer is not None
        stays = "is only that of a model like it" if guessed else "stays unknown, and so does whether drafts fit it"
        files = "tokenizer.json (or tokenizer.model, or vocab.json with merges.txt)"
        lines.append(f"no tokenizer files: its vocabulary {stays}; put {files} beside its config.json")
    if profile.weight_bytes is None:
        files = "model.safetensors.index.json, or the safetensors files,"
        lines.append(f"no weights and no index of them: its size is counted from its shape alone; put {files} there")
    if profile.lineage.base_model is None and (profile.family is None or "family" in profile.uncertain):
        lines.append("no base model is named: its origin stays unknown; write base_model at the top of its README.md")
    return lines


def _file_of(model_id: str, folder: Path) -> Path | None:
    """The family file that has a model's row already: a row whose family changed stays where it was."""
    for path in sorted(folder.glob("*.toml")):
        if any(row["id"].lower() == model_id.lower() for row in _existing(path)[0].get("model", ())):
            return path
    return None


def write_overlay(profile: ModelProfile, path: Path, *, base: Mapping[str, Any] | None = None) -> None:
    """Write one model row into a family file, in place of a row with the same id; all other rows stay.

    The file is replaced in one step. A tokenizer that was read from a file gets a record of its own in the folder
    `tokenizers` beside the file's folder. Comments in front of the first key stay, others are lost.
    `base` are the rows that the overlay lies on; None for those of the shipped catalogue.
    Raises InvalidCatalog where the overlay would not be sound then, with nothing changed, and CannotWrite.
    """
    from draftpick.atomic import CannotWrite, one_at_a_time

    model_row(profile, profile.family or NO_FAMILY)  # nothing is made for a profile that breaks the schema
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "check the folder's permissions") from None
    with one_at_a_time(path.parent):
        _put_in(profile, path, base)


def _put_in(profile: ModelProfile, path: Path, base: Mapping[str, Any] | None) -> None:
    from draftpick.atomic import CannotWrite, write_text

    content, comment = _existing(path)
    family = content.setdefault("family", profile.family or NO_FAMILY)
    row = model_row(profile, family)
    rows = [other for other in content.get("model", ()) if other["id"].lower() != profile.id.lower()]
    content["model"] = sorted([*rows, row], key=lambda other: by_name(other["id"]))
    folder = path.parent.parent
    texts: dict[Path, str] = {}
    if profile.tokenizer is not None and _has_own_record(profile.tokenizer):
        place = folder / "tokenizers" / f"{_file_key(profile.tokenizer)}.toml"
        texts[place] = _tokenizer_text(profile.tokenizer, profile, place)
    texts[path] = comment + _family_text(content)
    refuse(folder, validate(folder, base=base, instead=texts))
    try:
        for place, text in texts.items():  # the tokenizer before the row that names it
            place.parent.mkdir(parents=True, exist_ok=True)
            write_text(place, text)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "check the folder's permissions") from None


def _existing(path: Path) -> tuple[dict[str, Any], str]:
    """The content of the file that is there, and the comments in front of its first key."""
    if not path.exists():
        return {}, ""
    content = read_toml(path)
    seen = Seen({}, overlay=True)
    if as_record(FamilyFile, path.name, content, seen) is None:
        raise InvalidCatalog(f"{path}: {seen.problems[0].where}: {seen.problems[0].message}", seen.problems[0].fix)
    comment = ""
    for line in path.read_text(encoding="utf-8-sig").splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        comment += line
    return content, comment


def model_row(profile: ModelProfile, family: str) -> dict[str, Any]:
    """A profile as a row: what is unknown or as usual is left out. Raises InvalidCatalog for what no row may say."""
    values = values_of_row(profile, family)
    seen = Seen({}, overlay=True)
    if as_record(FamilyFile, profile.id, {"family": family, "model": [values]}, seen) is None:
        raise InvalidCatalog(
            f"{profile.id} does not fit the catalogue: {seen.problems[0].message}", seen.problems[0].fix
        )
    return values


def values_of_row(profile: ModelProfile, family: str) -> dict[str, Any]:
    """Keys and values of a row, unchecked."""
    values: dict[str, Any] = {}
    for name, value in profile._asdict().items():
        if name not in ModelRecord.model_fields or value is None or (name == "family" and value == family):
            continue
        if name == "tokenizer":
            value = _file_key(profile.tokenizer) if _has_own_record(profile.tokenizer) else value.key
        elif name in ("experts", "latent", "lineage"):
            derived = ("stock", "stock_generation")
            value = {key: part for key, part in value._asdict().items() if part is not None and key not in derived}
        elif name == "uncertain":
            value = sorted(value)
        elif name in ("notes", "made_for"):
            value = list(value)
        if value not in ({}, []) and value != ModelRecord.model_fields[name].default:
            values[name] = value
    where = f": {profile.path}" if profile.path else ""
    values["source"] = f"read from {profile.origin}{where}"
    values["checked"] = date.today()
    return values


def _has_own_record(tokenizer: Fingerprint | None) -> bool:
    """Whether it was read from a file: a catalogued record of the same ids was not read from this model."""
    return tokenizer is not None and (tokenizer.tokens is not None or tokenizer.key.startswith("file:"))


def _file_key(tokenizer: Fingerprint | None) -> str:
    if tokenizer is None:
        return ""
    key = tokenizer.key
    if tokenizer.full and not key.startswith("file:"):
        key = f"file:{tokenizer.full[:16]}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)


def _tokenizer_text(tokenizer: Fingerprint, profile: ModelProfile, path: Path) -> str:
    """A tokenizer's record, with the models that a record at `path` names already."""
    repos = [profile.id]
    if path.exists():
        known = read_toml(path).get("repos", [])
        repos = sorted({*repos, *(name for name in known if isinstance(name, str))}, key=by_name)
    values: dict[str, Any] = {"key": path.stem, "confidence": "verified file", "repos": repos}
    for name, value in tokenizer._asdict().items():
        if name in TokenizerRecord.model_fields and name not in (*values, "control", "same_text_as"):
            if name == "blocks":
                value = "".join(value)
            elif name == "sketch":
                value = base64.b64encode(b"".join(part.to_bytes(4, "little") for part in value)).decode()
            elif isinstance(value, tuple):
                value = list(value)
            if value not in (None, "", []) and value != TokenizerRecord.model_fields[name].default:
                values[name] = value
    values |= {"source": f"read from {profile.origin}: {profile.path or profile.id}", "checked": date.today()}
    if tokenizer.control:
        values["control"] = {str(token): tokenizer.control[token] for token in sorted(tokenizer.control)}
    return _table(values)


def _family_text(content: Mapping[str, Any]) -> str:
    lines = [_table({"family": content["family"]})]
    for kind in ("not_published", "model", "head"):
        lines.extend(f"[[{kind}]]\n{_table(row)}" for row in content.get(kind, ()))
    return "\n".join(lines)


def _table(row: Mapping[str, Any]) -> str:
    """Keys and values, a line each; tables inside are inline."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in row.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items()) + " }"
    return "[" + ", ".join(_value(part) for part in value) + "]"
