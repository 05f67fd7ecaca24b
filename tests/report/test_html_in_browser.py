"""The page in a real browser without a network: quiet, complete, no wider than the window. Skipped without Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sample_report
from browser import CHROMIUM, Page, browser

from draftpick.report.blocks import Chart, Domains, MemoryBars, Paragraph, Plane, Point, Report, Section, Table
from draftpick.report.html import render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")

LONG = "org/" + "An-endless_name.of<a>model" * 12
# Pairs of texts of one picture that share more than a pixel, in the letters of this machine.
OVERLAPS = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()])
  return texts.flatMap(([one, a], at) => texts.slice(at + 1)
    .filter(([, b]) => a.left + 1 < b.right && b.left + 1 < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom)
    .map(([other]) => [one, other]))
})
"""
OUTSIDE = """
[...document.querySelectorAll('svg text')].filter(text => {
  const [here, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()]
  return here.left < all.left - 1 || here.right > all.right + 1 || here.bottom > all.bottom + 1
}).map(text => text.textContent)
"""


def hostile() -> Report:
    """Every text as long as none should be."""
    rows = [[str(place), LONG, LONG, "1.71× (1.2–2.4)", "\u202e" + "שלום " * 40] for place in range(5)]
    blocks = (
        Paragraph(LONG, "decision"),
        Paragraph(LONG, "warning"),
        Paragraph("模型" * 300, "note"),
        Table(("#", LONG, "draft", "speed-up", "why"), rows, LONG, frozenset({0, 3})),
        *(sample_report.domains()._replace(title=LONG), sample_report.plane()._replace(alt=LONG)),
        Chart(LONG, LONG, Domains([LONG, "模型" * 90, "W" * 90, "שלום " * 40], *[[0.7] * 4] * 3, 0.95), Table((), ())),
        Chart(LONG, LONG, MemoryBars([LONG], {LONG: [9], "模型" * 90: [8], "W" * 90: [7]}, 8), Table((), ())),
        Chart(LONG, LONG, Plane([Point("W" * 90, 0.3, 0.7, 0.6, 0.8, True)]), Table((), ())),
    )
    return Report(LONG, [Section(LONG, blocks if place == 1 else blocks[:4], place > 1) for place in range(5)], LONG)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    for name, report in (("sample", sample_report.report()), ("hostile", hostile())):
        (folder / f"{name}.html").write_text(render(report), encoding="utf-8")
    return {path.stem: path.as_uri() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["sample", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800, 360, 320])
def test_the_page_is_quiet_fetches_nothing_and_fits(
    tab: Page, addresses: dict[str, str], name: str, scheme: str, width: int
) -> None:
    tab.open(addresses[name], width, scheme=scheme)
    assert tab.fetched() == [addresses[name]]
    tab.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.value("document.documentElement.scrollWidth") == width
    assert (
        tab.value("getComputedStyle(document.body).backgroundColor")
        == {
            "light": "rgb(253, 253, 252)",
            "dark": "rgb(20, 23, 27)",
        }[scheme]
    )
    assert tab.complaints() == []


@pytest.mark.parametrize("name", ["sample", "hostile"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_text_of_a_picture_covers_another_or_is_cut_off(
    tab: Page, addresses: dict[str, str], name: str, width: int
) -> None:
    tab.open(addresses[name], width)
    tab.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.value("document.querySelectorAll('svg text').length") > 60
    assert tab.value(OVERLAPS) == []
    assert tab.value(OUTSIDE) == []


def test_pictures_and_tables_have_names_for_a_screen_reader(tab: Page, addresses: dict[str, str]) -> None:
    tab.open(addresses["sample"])
    nodes: list[dict[str, Any]] = tab.ask("Accessibility.getFullAXTree")["nodes"]
    named = {
        role: [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == role]
        for role in ("image", "table", "heading")
    }
    charts = [sample_report.curve(), sample_report.plane(), sample_report.positions(), sample_report.domains()]
    expected = [f"{chart.title} {chart.alt}" for chart in [*charts, sample_report.memory()]]
    assert named["image"] == expected
    assert named["table"] == ["Drafts by predicted speed-up"]
    assert len(named["heading"]) == 9


def test_on_paper_nothing_is_folded_dark_or_scrolled(tab: Page, addresses: dict[str, str], tmp_path: Path) -> None:
    tab.open(addresses["sample"], 794)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.ask("Emulation.setEmulatedMedia", media="print", features=features)
    heights = tab.value("[...document.querySelectorAll('table')].map(one => one.getBoundingClientRect().height)")
    assert len(heights) == 8
    assert min(heights) > 40
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert tab.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    tab.paper(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
    tab.ask("Emulation.setEmulatedMedia", media="", features=[])


def test_the_browser_would_tell(tab: Page, tmp_path: Path) -> None:
    page = tmp_path / "loud.html"
    view = "<!DOCTYPE html><meta name=viewport content='width=device-width'>"
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page.write_text(f"{view}{policy}<p style='width: 2000px'>")
    tab.open(page.as_uri(), 360)
    assert tab.value("document.documentElement.scrollWidth") == 360
    assert any("Content Security Policy" in str(complaint) for complaint in tab.complaints())
    page.write_text(f"{view}<img src=http://a.example/x.png><pre>{'x' * 2000}")
    tab.open(page.as_uri(), 360)
    assert tab.value("document.documentElement.scrollWidth") > 2000
    assert "http://a.example/x.png" in tab.fetched()
    assert tab.complaints() != []
