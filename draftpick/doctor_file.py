"""What was found on a machine: the records of an examination, which is its JSON output as well.

pydantic lives here as in `files`: import this module inside functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from draftpick import __version__
from draftpick.devices import Chip
from draftpick.doctor import Found
from draftpick.record import Record, checked

Megabytes = Annotated[int, Field(ge=0)]


class CheckRow(Record):
    """What one check found."""

    check: str
    """What was looked at, as torch, CANN, npu:0."""
    verdict: Literal["ok", "warn", "fail"]
    """fail: it is installed or set here, and does not work; warn: something cannot be done, or may go wrong."""
    text: str
    """What was seen, in words."""
    mend: str | None = None
    """What to do about it; null where nothing needs to be done."""


class DeviceRow(Record):
    """One accelerator, as its own tool shows it. Null is what the tool does not tell."""

    id: str
    """As torch counts it: npu:0, cuda:1."""
    name: str
    key: str | None = None
    """Of its row in the catalogue; null where it has none, or where it is not clear which."""
    total_mb: Megabytes | None = None
    """MiB, what the driver takes included."""
    used_mb: Megabytes | None = None
    health: str | None = None


class DoctorFile(Record):
    """A whole examination."""

    schema_version: Literal["1"]
    kind: Literal["doctor"]
    tool: dict[str, str]
    """What wrote it: name and version."""
    created: str
    """Time in ISO 8601, UTC."""
    passed: bool
    """Nothing fails; there may be warnings."""
    offline: str | None = None
    """Why no server was asked; null where servers were asked."""
    checks: Annotated[list[CheckRow], Field(min_length=1)]
    """In the order in which to mend: what comes first may be the cause of what comes later."""
    versions: dict[str, str]
    """Of the installed packages that matter."""
    devices: list[DeviceRow]

    @property
    def exit_code(self) -> int:
        """1: something fails; else 0."""
        return 0 if self.passed else 1


def recorded(found: Found) -> DoctorFile:
    """An examination as a document."""
    chips = [chip for kind in found.machine.chips.values() for chip in kind]
    return DoctorFile(
        schema_version="1",
        kind="doctor",
        tool={"name": "draftpick", "version": __version__},
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        passed=found.exit_code == 0,
        offline=found.machine.offline,
        checks=[CheckRow(**{**line._asdict(), "mend": line.mend or None}) for line in found.lines],
        versions=dict(found.machine.versions),
        devices=[_device(chip, found.rows) for chip in chips],
    )


def _device(chip: Chip, rows: Mapping[str, str]) -> DeviceRow:
    id = f"{chip.kind}:{chip.index}"
    return DeviceRow(
        id=id, name=chip.name, key=rows.get(id), total_mb=chip.total_mb, used_mb=chip.used_mb, health=chip.health
    )


def checked_doctor(value: Mapping[str, Any], path: Path) -> DoctorFile:
    """The examination in a JSON object that was read from `path`. Raises InvalidFile, naming the field."""
    return checked(DoctorFile, value, path, "examine again with `draftpick doctor --json`")
