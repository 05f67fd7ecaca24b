"""Answers as records, read from a file or just computed, and the formats that are made from them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from draftpick.advice_file import MOST_BYTES, AdviceFile, checked_advice
from draftpick.doctor_file import DoctorFile, checked_doctor
from draftpick.errors import DraftpickError, UsageError
from draftpick.gate_file import GateFile, checked_gate
from draftpick.models.bounded import read_json
from draftpick.observe_file import ObservationFile, checked_observation
from draftpick.probe_file import ProbeFile, checked_probe, is_probe
from draftpick.record import no_such_kind
from draftpick.report.blocks import Block, Paragraph, Report, Section
from draftpick.report.text import json_text

Saved = AdviceFile | ProbeFile | GateFile | ObservationFile | DoctorFile


def read(path: Path) -> Saved:
    """The document of draftpick in a file, told by its content. Raises InvalidFile for what no report is made of."""
    value = read_json(path, MOST_BYTES)
    if value.get("kind") == "probe":
        return checked_probe(value, path)
    if value.get("kind") == "gate":
        return checked_gate(value, path)
    if value.get("kind") == "observation":
        return checked_observation(value, path)
    if value.get("kind") == "doctor":
        return checked_doctor(value, path)
    if value.get("kind", "advice") != "advice" or "candidates" not in value:
        raise no_such_kind(
            path,
            value,
            "no advice, probe, gate's result or observation",
            "name what `draftpick recommend --json -o FILE`, `probe -o FILE`, `gate --json -o FILE` or "
            "`observe --json -o FILE` wrote",
        )
    return checked_advice(value, path)


def beside(report: Path) -> Path:
    """Where the JSON of a probe goes whose report goes to that file; never over a file that is no probe."""
    path = report.with_suffix(".json")
    if path != report and (not path.exists() or is_probe(path)):
        return path
    return report.with_suffix(".probe.json")


def write(
    found: Saved, form: str, *, explain: bool = False, everything: bool = False, catalog_folder: Path | None = None
) -> str:
    """An answer in one of the formats that it has.

    `explain` and `everything` lengthen what Markdown says of an advice; `catalog_folder` is an overlay that knows more
    of engines. Raises UsageError for a format that this kind of answer does not have.
    """
    if form == "json":
        return json_text(found.model_dump(mode="json")) + "\n"
    if form in ("markdown", "html"):
        return _page(_blocks(found, explain, everything, catalog_folder), form)
    kind, writers = _WRITERS[type(found)]
    if form not in writers:
        raise UsageError(
            f"{kind} is not written as {form}", f"one of {', '.join(('markdown', 'html', 'json', *writers))}"
        )
    module, function = writers[form]
    text: str = getattr(import_module(f"draftpick.report.{module}"), function)(found)
    return text


_WRITERS: dict[type, tuple[str, dict[str, tuple[str, str]]]] = {
    AdviceFile: ("an advice", {"csv": ("csv", "render")}),
    ProbeFile: ("a probe", {"csv": ("csv", "render"), "speculation-profile": ("speculation_profile", "render")}),
    GateFile: (
        "a gate's result",
        {"github": ("github", "annotations"), "junit": ("junit", "render"), "sarif": ("sarif", "render")},
    ),
    ObservationFile: ("an observation", {}),
    DoctorFile: ("an examination", {}),
}
"""Format → the module and the function that write it, beside those that every answer has."""


def _blocks(found: Saved, explain: bool, everything: bool, catalog_folder: Path | None) -> Report:
    from draftpick.report import advice, doctor, gate, observe, probe_report

    if isinstance(found, GateFile):
        return gate.blocks(found)
    if isinstance(found, ObservationFile):
        return observe.blocks(found)
    if isinstance(found, DoctorFile):
        return doctor.blocks(found)
    if isinstance(found, ProbeFile):
        report = probe_report.blocks_of(found)
    else:
        report = advice.blocks_of(found, explain=explain, everything=everything)
    return _with_launch(report, found, catalog_folder) if found.decision.action == "speculate" else report


def _with_launch(report: Report, found: AdviceFile | ProbeFile, catalog_folder: Path | None) -> Report:
    """The report with how its decision is started, before what it rests on."""
    from draftpick import launch_input
    from draftpick.catalog import load
    from draftpick.launch import launch
    from draftpick.report.launch import blocks

    if isinstance(found, AdviceFile) and found.target is None:
        return report
    try:
        wanted = launch_input.wanted_of(found, launch_input.Choice(), load(catalog_folder))
        steps: list[Block] = [*blocks(launch(wanted))]
    except DraftpickError as error:
        steps = [Paragraph(f"No configuration is written: {error.message}; {error.hint}.", "note")]
    titles = [section.title for section in report.sections]
    place = titles.index("Evidence and provenance") if "Evidence and provenance" in titles else len(titles)
    sections = [*report.sections[:place], Section("How to start it", steps), *report.sections[place:]]
    return report._replace(sections=sections)


def _page(report: Report, form: str) -> str:
    if form == "html":
        from draftpick.report import html

        return html.render(report)
    from draftpick.report import markdown

    return markdown.render(report)
