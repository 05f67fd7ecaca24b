"""A start-up configuration to pipe into a file, to read, or to put into a report."""

from __future__ import annotations

from collections.abc import Iterable

from draftpick import __version__
from draftpick.launch import Launch, Step
from draftpick.report.blocks import Code, Paragraph, Report, Section
from draftpick.report.json import SCHEMA_VERSION
from draftpick.report.text import ended, json_text, printable


def script(launch: Launch) -> str:
    """What is run, or put into a file: the first step alone; empty where nothing is known of this version."""
    return launch.steps[0].text if launch.steps else ""


def remarks(launch: Launch) -> list[str]:
    """What a person must know beside the script, a line each: what it is, further steps, cautions, what is missing."""
    lines = [f"{step.title}:" if place else f"{step.title}." for place, step in enumerate(launch.steps)][:1]
    for step in launch.steps[1:]:
        lines += [f"Then: {step.title}:" if step.language == "sh" and not _another(step) else f"{step.title}:"]
        lines += [f"    {line}" for line in step.text.splitlines()]
    return [*map(printable, lines), *(printable(line) for line in _said(launch))]


def blocks(launch: Launch) -> list[Code | Paragraph]:
    """The steps, then cautions and what was left out, for a report."""
    found: list[Code | Paragraph] = [Code(step.text.rstrip("\n"), step.language, step.title) for step in launch.steps]
    found += [Paragraph(ended(text), "warning") for text in launch.cautions]
    return found + [Paragraph(_left(what, why), "note") for what, why in launch.left_out]


def json(launch: Launch) -> str:
    """The same with keys."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": "launch",
        "engine": {"id": launch.engine, "version": launch.version},
        "target": launch.target,
        "draft": launch.draft,
        "method": launch.method,
        "num_spec_tokens": launch.num_spec_tokens,
        "as_decided": launch.as_decided,
        "steps": [step._asdict() for step in launch.steps],
        "cautions": list(launch.cautions),
        "left_out": [left._asdict() for left in launch.left_out],
    }
    return json_text(document) + "\n"


def markdown(launch: Launch) -> str:
    """The same for a review."""
    from draftpick.report.markdown import render

    title = f"Start {launch.target} in {launch.engine}"
    footer = f"draftpick {__version__}, for {launch.engine} {launch.version}."
    return render(Report(title, [Section("Start", blocks(launch))], footer))


def _said(launch: Launch) -> Iterable[str]:
    yield from (ended(text) for text in launch.cautions)
    yield from (_left(what, why) for what, why in launch.left_out)


def _left(what: str, why: str) -> str:
    return ended(f"Left out: {what}: {why}")


def _another(step: Step) -> bool:
    """Whether the step stands in place of the first one."""
    return step.title.startswith("Instead")
