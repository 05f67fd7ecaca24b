"""Answers as records, read from a file or just computed, and the formats that are made from them."""

from __future__ import annotations

from pathlib import Path

from draftpick.advice_file import MOST_BYTES, AdviceFile, checked_advice
from draftpick.errors import InvalidFile
from draftpick.models.bounded import read_json
from draftpick.probe_file import ProbeFile, checked_probe
from draftpick.report.text import json_text


def read(path: Path) -> AdviceFile | ProbeFile:
    """The advice or the probe in a file, told by its content. Raises InvalidFile for what is neither."""
    value = read_json(path, MOST_BYTES)
    if value.get("kind") == "probe":
        return checked_probe(value, path)
    if value.get("kind", "advice") != "advice" or "candidates" not in value:
        raise InvalidFile(
            f"{path} is neither an advice nor a probe",
            "name what `draftpick recommend --json -o FILE` or `draftpick probe -o FILE` wrote",
        )
    return checked_advice(value, path)


def beside(report: Path) -> Path:
    """Where the JSON of a probe goes whose report goes to that file; never over a file that is no probe."""
    path = report.with_suffix(".json")
    if path != report and (not path.exists() or _is_probe(path)):
        return path
    return report.with_suffix(".probe.json")


def _is_probe(path: Path) -> bool:
    try:
        return read_json(path, MOST_BYTES).get("kind") == "probe"
    except InvalidFile:
        return False


def write(found: AdviceFile | ProbeFile, form: str, *, explain: bool = False, everything: bool = False) -> str:
    """An answer as markdown, html, json or csv; `explain` and `everything` lengthen what Markdown says of an advice."""
    if form == "json":
        return json_text(found.plain()) + "\n"
    if form == "csv":
        from draftpick.report import csv

        return csv.render(found)
    from draftpick.report import advice, probe_report

    if isinstance(found, ProbeFile):
        report = probe_report.blocks_of(found)
    else:
        # A page folds what is long, and nobody pastes it.
        page = form == "html"
        report = advice.blocks_of(found, explain=explain or page, everything=everything)
    if form == "html":
        from draftpick.report import html

        return html.render(report)
    from draftpick.report import markdown

    return markdown.render(report)
