"""JSON schemas of what draftpick writes and reads, generated from its records: for editors and other tools.

`python -m draftpick.schemas [FOLDER]` writes them, into `schemas` where no folder is named. pydantic lives here as in
`files`: import this module inside functions.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from pydantic import BaseModel, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from draftpick import advice_file, files, memory
from draftpick.advice_file import AdviceFile
from draftpick.atomic import write_text
from draftpick.doctor_file import DoctorFile
from draftpick.gate_file import BaselineFile, GateFile, PolicyFile
from draftpick.models import profile
from draftpick.observe_file import ObservationFile
from draftpick.probe_file import GivenCosts, ProbeFile
from draftpick.probing.trace import DraftColumns, Row
from draftpick.report.text import json_text

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _as_model(record: Any, parts: Mapping[str, type]) -> type[BaseModel]:
    """A named tuple as a model: the trace writes its fields as keys. `parts` stand for the named tuples in it."""
    hints = get_type_hints(record, {**vars(sys.modules[record.__module__]), **parts})
    fields: dict[str, Any] = {name: (hint, record._field_defaults.get(name, ...)) for name, hint in hints.items()}
    return create_model(record.__name__, __module__="pydantic", **fields)  # of no module that has its source


_COLUMNS = _as_model(DraftColumns, {})
_ANSWER = _as_model(Row, {"DraftColumns": _COLUMNS})


class Document(NamedTuple):
    """One kind of document."""

    name: str
    """Of its schema's file, before `.schema.json`."""
    title: str
    record: type[BaseModel]
    mode: Literal["serialization", "validation"]
    """serialization: as draftpick writes it; validation: as people may write it."""
    toml: bool = False
    """Written as TOML, which knows no null."""


DOCUMENTS = (
    Document("advice", "An advice of draftpick: recommend, check or plan", AdviceFile, "serialization"),
    Document("probe", "A probe of draftpick", ProbeFile, "serialization"),
    Document("trace", "An answer in a trace of draftpick: a line, behind the first", _ANSWER, "serialization"),
    Document("gate", "A gate's result of draftpick", GateFile, "serialization"),
    Document(
        "observation",
        "What draftpick read from a running server's counters or its responses",
        ObservationFile,
        "serialization",
    ),
    Document("doctor", "What draftpick found on a machine", DoctorFile, "serialization"),
    Document("policy", "Pairs and their policy, for draftpick gate", PolicyFile, "validation", toml=True),
    Document("baseline", "The baselines of a gate's pairs", BaselineFile, "serialization"),
    Document("costs", "Times of a step, for draftpick --costs", GivenCosts, "validation"),
)


def schema(document: Document) -> dict[str, Any]:
    """The JSON schema of one kind of document, as plain values."""
    generator = _OfToml if document.toml else _OfRecords
    found = document.record.model_json_schema(mode=document.mode, schema_generator=generator)
    # A URN: Taplo takes no relative id, and an address would promise a server.
    head = {"$schema": DIALECT, "$id": f"urn:draftpick:schema:{document.name}:1", "title": document.title}
    return head | {key: value for key, value in found.items() if key != "title"}


def write(folder: Path) -> None:
    """Write every schema into a folder. Raises CannotWrite."""
    for document in DOCUMENTS:
        write_text(folder / f"{document.name}.schema.json", json_text(schema(document)) + "\n")


class _OfRecords(GenerateJsonSchema):
    """Schemas with the docstrings of fields as descriptions, and without what only repeats a key as its title."""

    # pydantic's use_attribute_docstrings gives the same, and adds a third to the time that importing the records takes.

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        if self.mode == "serialization":
            # More keys may be added to what is written, whatever reading allows.
            found.pop("additionalProperties", None)
        return _described(found, schema["cls"])


class _OfToml(_OfRecords):
    """Of documents without null: a key is there, or it is not."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if not isinstance(found.get("default"), (str, int, float)):
            found.pop("default", None)
        return found


_FACTS: dict[type, type] = {
    files.ModelRecord: profile.ModelProfile,
    files.ExpertsRecord: profile.Experts,
    files.LatentRecord: profile.LatentAttention,
    files.LineageRecord: profile.Lineage,
    advice_file.ModelRecord: profile.ModelProfile,
    advice_file.MemoryRecord: memory.Budget,
    advice_file.PartsRecord: memory.Parts,
    _ANSWER: Row,
    _COLUMNS: DraftColumns,
}
"""Records whose fields are those of another class, and are described there."""


def _described(found: JsonSchemaValue, record: type) -> JsonSchemaValue:
    """A schema of an object with what it and its fields are."""
    classes = [part for one in reversed(record.__mro__) for part in (_FACTS.get(one, one), one)]
    texts = {name: text for one in classes for name, text in _docstrings(one).items()}
    for name, part in found.get("properties", {}).items():
        if name in texts:
            part["description"] = texts[name]
    found["description"] = _on_one_line(_FACTS.get(record, record).__doc__ or "")
    return found


def _docstrings(record: type) -> dict[str, str]:
    """The docstrings below the fields of a class of draftpick."""
    if not record.__module__.startswith("draftpick."):
        return {}
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(written, ast.ClassDef)
    found = {}
    for field, text in pairwise(written.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = _on_one_line(ast.literal_eval(text.value))
    return found


def _on_one_line(text: str) -> str:
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def main(arguments: Sequence[str]) -> None:
    """Write the schemas into the folder that is named, or into `schemas`."""
    folder = Path(*arguments) if arguments else Path("schemas")
    folder.mkdir(parents=True, exist_ok=True)
    write(folder)
    print(f"wrote {len(DOCUMENTS)} schemas into {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
