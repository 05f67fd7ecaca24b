"""What was found on a machine, for people: a line for each check, and below it how to mend what it found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from draftpick.doctor import Line as Checked
from draftpick.report.blocks import Paragraph, Report, Section, Table
from draftpick.report.layout import Cell, Grid, Line, Row, draw
from draftpick.report.text import printable

if TYPE_CHECKING:
    from draftpick.doctor_file import DoctorFile

_COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


def table(lines: Sequence[Checked], *, quiet: bool, width: int | None, color: bool) -> str:
    """For a terminal or a pipe; `quiet` leaves out what is well."""
    rows = [row for line in lines if not (quiet and line.verdict == "ok") for row in _rows(line)]
    parts: list[Line | Grid] = [Grid(("", "", ""), rows, wraps=frozenset({2})), Line("")] if rows else []
    return draw([*parts, Line(summary([line.verdict for line in lines]), "bold")], width=width, color=color)


def _rows(line: Checked) -> Iterable[Row]:
    yield Cell(line.verdict, _COLORS[line.verdict]), Cell(printable(line.check)), Cell(printable(line.text))
    if line.mend:
        yield Cell(""), Cell(""), Cell(f"→ {printable(line.mend)}", "dim")


def summary(verdicts: Sequence[str]) -> str:
    """How many checks found something, in a sentence."""
    bad, doubtful = verdicts.count("fail"), verdicts.count("warn")
    if not bad and not doubtful:
        return f"All {len(verdicts)} checks are well."
    parts = [
        *([f"{bad} {'fails' if bad == 1 else 'fail'}"] if bad else []),
        *([f"{doubtful} {'warns' if doubtful == 1 else 'warn'}"] if doubtful else []),
    ]
    return f"Of {len(verdicts)} checks {' and '.join(parts)}; mend from the top, one may be the cause of the next."


def blocks(found: DoctorFile) -> Report:
    """For Markdown and HTML."""
    header = ("verdict", "check", "what was seen", "what to do")
    rows = [(row.verdict, row.check, row.text, row.mend or "") for row in found.checks]
    sections = [
        Section("Summary", [Paragraph(summary([row.verdict for row in found.checks]), "decision")]),
        Section("Checks", [Table(header, rows)]),
    ]
    if found.devices:
        sections.append(Section("Devices", [_devices(found)]))
    sections.append(Section("Packages", [Table(("package", "version"), sorted(found.versions.items()))]))
    asked = f"no server was asked ({found.offline})" if found.offline else "servers were asked"
    version = found.tool.get("version", "?")
    return Report("This machine", sections, f"Examined on {found.created[:10]}; {asked}; draftpick {version}.")


def _devices(found: DoctorFile) -> Table:
    rows = [
        (one.id, one.name, one.key or "-", _shown(one.used_mb), _shown(one.total_mb), one.health or "-")
        for one in found.devices
    ]
    header = ("device", "name", "in the catalogue", "used (MiB)", "total (MiB)", "health")
    return Table(header, rows, numeric=frozenset({3, 4}))


def _shown(amount: int | None) -> str:
    return "-" if amount is None else f"{amount:,}"
