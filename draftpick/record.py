"""What all documents that draftpick writes have in common: how their records are read, and how a wrong one is told.

pydantic lives here as in `files`: import this module inside functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from draftpick.errors import InvalidFile

SCHEMA_VERSION = "1"

_R = TypeVar("_R", bound=BaseModel)


_KINDS = {
    "advice": ("an advice", "`draftpick report`, `launch` and `gate --init` read it"),
    "probe": ("a probe", "`draftpick plan`, `report` and `launch` read it"),
    "gate": ("a gate's result", "`draftpick report` reads it"),
    "observation": ("an observation", "`draftpick report` reads it"),
    "doctor": ("an examination of a machine", "`draftpick report` reads it"),
    "launch": ("a start-up configuration", "no command reads it"),
}
"""What a document is, and what it is good for, by its `kind`."""


def no_such_kind(path: Path, value: Mapping[str, Any], wanted: str, instead: str) -> InvalidFile:
    """The error for a document that is not of the kind `wanted`: what it is, where that is known."""
    kind = value.get("kind", "advice" if "candidates" in value else None)
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None or kind in wanted.split():
        return InvalidFile(f"{path} is {wanted}", instead)
    return InvalidFile(f"{path} is {wanted}: it is {known[0]}", f"{known[1]}; here, {instead}")


class Record(BaseModel):
    """A part of a document."""

    # More keys may be added: a document of a newer draftpick still loads.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def checked(record: type[_R], value: Mapping[str, Any], path: Path, again: str) -> _R:
    """The document in a JSON object that was read from `path`; `again` says how to get a sound one.

    Raises InvalidFile for another schema_version, and naming the field that is wrong first.
    """
    version = value.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidFile(
            f"{path}: its schema_version is {version!r:.20}, and this draftpick reads {SCHEMA_VERSION!r}: it does not "
            "load",
            f"{again}, or use the draftpick that wrote it",
        )
    try:
        return record.model_validate(value)
    except ValidationError as error:
        raise InvalidFile(f"{path}: {first_wrong(error)}", f"the file was changed by hand, or cut: {again}") from None


def first_wrong(error: ValidationError) -> str:
    """The field that is wrong first, and why. Names of fields may be a stranger's keys."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"])
    return f"{where[:200]}: {first['msg']:.200}".replace("\n", " ")
