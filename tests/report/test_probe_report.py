"""What a report says of a probe."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed import expected, same, shape_of
from probe_documents import HISTOGRAM, draft, probe, share

from draftpick.probe_file import ProbeFile
from draftpick.report.blocks import Block, Chart, Code, Curve, Domains, Paragraph, Plane, Positions, Section, Table
from draftpick.report.markdown import render
from draftpick.report.probe_report import blocks_of

LAW = settings(deadline=None, derandomize=True, max_examples=25)
DOMAINS = {
    "code": {"acceptance_rate": share(0.8), "num_prompts": 8},
    "prose": {"acceptance_rate": share(0.5), "num_prompts": 8},
}
OTHER = {"proposal": "sampled", "way": "sampled", "acceptance_rate": share(0.4), "mean_acceptance_lengths": []}
CHECK = {"name": "replay against assisted generation", "passed": True, "detail": "11 steps, replayed 11"}


def full(**changes: Any) -> ProbeFile:
    """A probe with one of everything."""
    return probe(
        draft(by_domain=DOMAINS, other_proposals=[OTHER], doubts=["the machine is busy"]),
        draft("acme/second", histogram=(10, 20, 30, 40)),
        decided="acme/second",
        comparisons=[
            {"draft": "acme/draft", "best": "acme/second", "temperature": 0.0, "speedup": {**share(0.8), "high": 0.9}}
        ],
        draft_free=[
            {"method": "ngram", "temperature": 0.0, "num_spec_tokens": 2, "mean_acceptance_length": 1.1}
        ],
        translated=[
            {"draft": "acme/x", "method": "uag", "num_prompts": 8, "by_k": [
                {"k": 1, "mean_acceptance_length": 1.2, "speedup": 0.9}
            ]}
        ],
        doubts=["few prompts"],
        request={"command": "probe", "target": "acme/target", "drafts": ["acme/draft"], "options": {"seed": 1}},
        peak_bytes=2**31,
        trace={"path": "probe.trace.jsonl", "sha256": "e" * 64},
        **{"checks": [CHECK, CHECK], **changes},
    )  # fmt: skip


def blocks(found: ProbeFile) -> list[Block]:
    return [block for section in blocks_of(found).sections for block in section.blocks]


def charts(found: ProbeFile, kind: type) -> list[Chart]:
    return [block for block in blocks(found) if isinstance(block, Chart) and isinstance(block.data, kind)]


def section(found: ProbeFile, title: str) -> Section:
    return next(one for one in blocks_of(found).sections if title in one.title)


def test_the_decision_comes_first() -> None:
    assert blocks(full())[0] == Paragraph("So it is.", "decision")


def test_a_failed_check_stands_beside_the_decision() -> None:
    found = full(checks=[{**CHECK, "passed": False}])
    assert blocks(found)[1] == Paragraph(
        "A self-check failed: replay against assisted generation: 11 steps, replayed 11.", "warning"
    )
    assert not section(found, "Self-checks").folded
    assert section(full(), "2 self-checks, all passed").folded


def test_charts_hold_the_figures_of_the_file() -> None:
    found = full()
    first = found.drafts[0]
    curve, positions, domains = (charts(found, kind)[0].data for kind in (Curve, Positions, Domains))
    assert isinstance(curve, Curve)
    assert isinstance(positions, Positions)
    assert isinstance(domains, Domains)
    assert curve.ks == [0, 1, 2, 3]
    assert curve.value == [row.speedup.value for row in first.by_k if row.speedup is not None]
    assert curve.chosen == 2
    steps = sum(HISTOGRAM)
    assert positions.marginal == pytest.approx([sum(HISTOGRAM[k:]) / steps for k in (1, 2, 3)])
    assert (domains.names, domains.value) == (["code", "prose"], [0.8, 0.5])


def test_drafts_are_compared_in_the_plane() -> None:
    (chart,) = charts(full(), Plane)
    assert isinstance(chart.data, Plane)
    assert [(point.label, point.chosen) for point in chart.data.points] == [("draft", False), ("second", True)]
    assert not charts(probe(), Plane)


def test_without_costs_there_are_tables_and_no_speedup() -> None:
    found = probe(draft(priced=False))
    assert not charts(found, Curve)
    assert any(isinstance(block, Table) and block.header[0] == "k" for block in blocks(found))


def test_every_draft_has_its_section_and_all_but_the_first_are_folded() -> None:
    assert not section(full(), "acme/draft, proposing").folded
    assert section(full(), "acme/second, proposing").folded


def test_it_says_what_it_rests_on() -> None:
    (table,) = section(full(), "provenance").blocks
    assert isinstance(table, Table)
    said = {row[0]: row[1] for row in table.rows}
    assert said["target"] == f"acme/target, revision {'a' * 40}"
    assert said["prompts digest"] == "0" * 16 + "…"
    assert said["sampling"] == "max new tokens 128"
    assert said["memory at its peak"] == "2.0 GiB"
    assert said["duration"] == "12.5 s: loading 1.0 s"
    assert said["measured at"] == "2026-11-30T00:00:00+00:00"


def test_doubts_and_the_command() -> None:
    doubts = section(full(), "Open doubts").blocks
    assert [block.text for block in doubts if isinstance(block, Paragraph)] == [
        "few prompts.",
        "acme/draft: the machine is busy.",
    ]
    assert section(full(), "repeat").blocks == [Code("draftpick probe acme/target acme/draft --seed 1")]


def test_rates_by_position_may_be_cut_short() -> None:
    one = draft()
    found = probe({**one, "position_rates": {"marginal": [0.5], "conditional": []}})
    assert same(shape_of(render(blocks_of(found))), expected(blocks_of(found)))


WORD = st.text(st.characters() | st.sampled_from("|\\`<>&*_[]~#@\x1b\n\u202e:$"), min_size=1, max_size=12).filter(
    str.strip
)


@LAW
@given(WORD, WORD)
def test_hostile_texts_leave_the_answer_whole(name: str, said: str) -> None:
    found = full(stopped_by=said, engine=name, software={name: said}, tool={"name": name, "version": said})
    name = re.sub(r"[\x00-\x1f\x7f]", "", name) or "x"  # no model's id holds these
    hostile = probe(
        draft(name, by_domain={name: DOMAINS["code"], f"{name}x": DOMAINS["prose"]}, doubts=[said, name]),
        draft(f"{name}2", proposal=said),
        target=name,
        checks=[{"name": name, "passed": False, "detail": said}],
        sampling={name: [said, {said: 1.5}]},
        prompts={"source": said, "digest": name},
        created=said,
    )
    for one in (found, hostile):
        report = blocks_of(one)
        assert same(shape_of(render(report)), expected(report))
