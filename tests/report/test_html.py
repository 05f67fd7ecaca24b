"""The page: whole in one file, the same again, well built, and made of nothing but the template's own elements."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import sample_report
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from lxml import html as lxml_html

from draftpick.report import html
from draftpick.report.blocks import Chart, Code, Domains, Paragraph, Report, Section, Table
from draftpick.report.html import render
from draftpick.report.svg import COLORS
from draftpick.report.text import printable

LAW = settings(deadline=None, max_examples=25)
STYLE = (Path(html.__file__).parent / "report.css").read_text(encoding="utf-8")
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("|`<>&\"'\\*_{}#%\n\r\t\0\x1b\u202e\u2067\u200f\u2028\ufeff\uffff\ud800\udfffאبم模😀é e/-"),
        st.characters(),
    ),
    max_size=60,
) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "</title><script>",
        "</style><b>",
        "</code></pre><img src=x onerror=alert(1)>",
        "]]>",
        "<!-- ",
        '" onclick="x',
        "{{ 7 * 7 }}{% include 'x' %}",
        "\x1b[31mred\x1b[0m",
        "javascript:alert(1)",
    ]
)


@pytest.fixture(scope="module")
def page() -> str:
    return render(sample_report.report())


@pytest.fixture(scope="module")
def tree(page: str) -> Any:
    return parsed(page)


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page.encode(), parser=lxml_html.HTMLParser(encoding="utf-8"))


def colors(block: str) -> dict[str, str]:
    """The custom properties of a block of the style sheet."""
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))


LIGHT = colors(STYLE.partition(":root {")[2].partition("}")[0])
DARK = colors(STYLE.partition("prefers-color-scheme: dark")[2].partition("}\n}")[0])


def test_the_page_is_one_small_file(page: str, tree: Any) -> None:
    assert len(page.encode()) < 300_000
    assert [link.get("href") for link in tree.iter("link")] == ["data:,"]
    assert list(tree.iter("script", "img", "iframe", "object", "embed", "form", "base")) == []
    # The name of the SVG language is the only address; nothing is fetched from it.
    assert set(re.findall(r"[a-z]+://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import|@font-face|\bsrc=", page)
    assert not any(name.startswith("on") or name == "style" for element in tree.iter() for name in element.attrib)


def test_the_policy_allows_this_style_and_nothing_else(tree: Any) -> None:
    (policy,) = (meta.get("content") for meta in tree.iter("meta") if meta.get("http-equiv"))
    (style,) = tree.iter("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_headings_names_and_tables_are_those_of_an_accessible_page(tree: Any) -> None:
    assert tree.get("lang") == "en"
    assert tree.findtext(".//title") == sample_report.report().title
    headings = [element.tag for element in tree.iter("h1", "h2", "h3", "h4")]
    assert headings == ["h1"] + ["h2"] * len(sample_report.report().sections)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    pointed = [link.get("href")[1:] for link in tree.iter("a")]
    pointed += [name for element in tree.iter() for name in (element.get("aria-labelledby") or "").split()]
    assert set(pointed) <= set(ids)
    for table in tree.iter("table"):
        assert table.findtext("caption")
        assert {cell.get("scope") for cell in table.findall("thead//th")} == {"col"}
        assert all([cell.get("scope") for cell in row.findall("th")] == ["row"] for row in table.findall("tbody/tr"))
    for figure in tree.xpath("//figure[@class='chart']"):
        assert [child.tag for child in figure] == ["figcaption", "svg", "details"]
        assert figure.find(".//table") is not None


def test_what_a_section_holds_stands_in_its_order(tree: Any) -> None:
    sections = tree.findall(".//main/section")
    assert [section.findtext(".//h2") for section in sections] == [
        section.title for section in sample_report.report().sections
    ]
    assert [section.find("details") is not None for section in sections] == [
        section.folded for section in sample_report.report().sections
    ]
    assert tree.xpath("string(//p[@class='decision'])").startswith("Put Qwen/Qwen2.5-7B-Instruct in front of ")
    assert [code.text for code in tree.iter("code")] == [sample_report.LAUNCH, '{\n  "k": 3\n}']


def test_rows_and_numbers_of_the_ranking(tree: Any) -> None:
    (table,) = (table for table in tree.iter("table") if table.findtext("caption") == "Drafts by predicted speed-up")
    rows = table.findall("tbody/tr")
    assert [row.findtext("th") for row in rows] == [name for name, *_ in sample_report.DRAFTS]
    assert [cell.get("class") for cell in rows[0]] == ["number", "words", *["number"] * 5, None, "words"]


def test_a_table_without_a_header_has_none() -> None:
    table = Table(("", ""), [("device", "910b4-1"), ("engine", "vllm-ascend")])
    tree = parsed(render(Report("t", [Section("Provenance", [table])], "")))
    assert tree.find(".//thead") is None
    assert [cell.text for cell in tree.iter("th")] == ["device", "engine"]
    assert tree.findtext(".//caption") == "Provenance"


def test_an_empty_report_is_a_page_too() -> None:
    tree = parsed(render(Report("Nothing", [], "draftpick")))
    assert tree.findtext(".//h1") == "Nothing"
    assert tree.find(".//nav") is None


# Colours.


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def as_seen(color: str, kind: str) -> tuple[float, ...]:
    """A colour as the colour-blind see it (Machado, Oliveira and Fernandes 2009, full severity), in linear light."""
    matrix = {
        "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    }[kind]
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return tuple(min(max(sum(m * part for m, part in zip(row, linear, strict=True)), 0), 1) for row in matrix)


def oklab(linear: tuple[float, ...]) -> tuple[float, ...]:
    red, green, blue = linear
    long, middle, short = (
        (weights[0] * red + weights[1] * green + weights[2] * blue) ** (1 / 3)
        for weights in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_letters_and_marks_stand_out(scheme: dict[str, str]) -> None:
    assert set(COLORS) <= set(scheme)
    assert scheme.keys() == LIGHT.keys()
    for role in ("ink", "muted", "accent", "second", "doubt"):
        assert contrast(scheme[role], scheme["page"]) >= 4.5, role
        assert contrast(scheme[role], scheme["raised"]) >= 4.5, role
    for role in ("third", "fourth", "fifth", "sixth"):
        assert contrast(scheme[role], scheme["page"]) >= 3.0, role


@pytest.mark.parametrize("kind", ["normal", "protan", "deutan", "tritan"])
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_differ_for_the_colour_blind(scheme: dict[str, str], kind: str) -> None:
    series = ["accent", "second", "third", "fourth", "fifth", "sixth"]
    seen = [oklab(as_seen(scheme[role], kind)) for role in series]
    for (one, here), (other, there) in combinations(zip(series, seen, strict=True), 2):
        distance = sum((a - b) ** 2 for a, b in zip(here, there, strict=True)) ** 0.5
        # A just noticeable difference is about 0.02.
        assert distance > 0.09, (one, other)


def test_the_light_colours_are_those_of_the_charts() -> None:
    assert {role: LIGHT[role] for role in COLORS} == COLORS


# The same again, and without matplotlib.


def run(script: str, **environment: str) -> str:
    paths = [str(Path(__file__).parent), *sys.path]
    lines = f"import sys\nsys.path[:0] = {paths!r}\nimport sample_report\nfrom draftpick.report.html import render\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", lines + script],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PATH": "", "PYTHONIOENCODING": "utf-8", **environment},
    )
    assert done.stderr == ""
    return done.stdout


def test_the_page_is_the_same_in_every_process(page: str, tmp_path: Path) -> None:
    script = "print(render(sample_report.report()), end='')"
    for seed in ("1", "2"):
        assert run(script, PYTHONHASHSEED=seed, HOME=str(Path.home())) == page


def test_without_matplotlib_the_tables_stay_and_the_reason_is_said(tree: Any) -> None:
    tables = len(list(tree.iter("table")))
    bare = parsed(run("sys.modules['matplotlib'] = None\nprint(render(sample_report.report()), end='')"))
    assert list(bare.iter("svg")) == []
    assert len(list(bare.iter("table"))) == tables
    notes = [note.text for note in bare.xpath("//figure/p[@class='note']")]
    assert len(notes) == 5
    assert all(note.startswith("No picture, as matplotlib could not be loaded: ") for note in notes)
    assert all(details.get("open") is not None for details in bare.xpath("//figure/details"))


def test_a_report_without_charts_loads_no_matplotlib() -> None:
    script = (
        "from draftpick.report.blocks import Report, Section\n"
        "render(Report('t', [Section('Candidates', [sample_report.ranking()])], ''))\n"
        "print(sorted({'matplotlib', 'numpy'} & set(sys.modules)))\n"
    )
    assert run(script) == "[]\n"


# Laws.


def outline(element: Any) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Elements and attributes of a page, but what isolates words from the right, and the insides of pictures."""
    if element.tag not in ("bdi", etree.Comment):
        yield element.tag, tuple(sorted(element.attrib.items()))
    if element.tag != "svg":
        for child in element:
            yield from outline(child)


def filled(texts: list[str]) -> Report:
    """A report of every kind of block whose every text is given."""
    text = iter(texts)

    def table() -> Table:
        return Table([next(text), next(text)], [[next(text), next(text)], ["7", next(text)]], next(text))

    blocks = (
        Paragraph(next(text), "decision"),
        Paragraph(next(text)),
        Paragraph(next(text), "warning"),
        Paragraph(next(text), "note"),
        table(),
        Code(next(text), next(text), next(text)),
        Chart(next(text), next(text), Domains([next(text)], [0.7], [0.6], [0.8], 0.95), table()),
    )
    sections = [Section(next(text), blocks), *(Section(next(text), (), folded=True) for _ in range(3))]
    return Report(next(text), sections, next(text))


COUNT = 4 + 6 + 3 + 3 + 6 + 4 + 2


@LAW
@given(st.lists(HOSTILE.filter(lambda text: text.strip() != ""), min_size=COUNT, max_size=COUNT))
def test_no_element_or_attribute_comes_from_data(texts: list[str]) -> None:
    page = render(filled(texts))
    tree = parsed(page)
    # The same lengths, so that the same columns break into lines; a hyphen for those that a decision keeps whole.
    plain = ["".join("-" if letter in "-/" else "x" if letter.strip() else " " for letter in text) for text in texts]
    expected = list(outline(parsed(render(filled(plain)))))
    spans = ("span", (("class", "whole"),))
    assert [part for part in outline(tree) if part != spans] == [part for part in expected if part != spans]
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        etree.fromstring(picture)
    assert page.encode("utf-8").decode("utf-8") == page
    assert not re.search("[\0\x1b\r\u200e\u200f\u202a-\u202e\u2066-\u2069]", page)


@LAW
@given(st.lists(HOSTILE.filter(lambda text: text.strip() != ""), min_size=COUNT, max_size=COUNT))
def test_every_text_is_shown_as_it_is(texts: list[str]) -> None:
    tree = parsed(render(filled(texts)))
    decision, paragraph, warning, note = (printable(text) for text in texts[:4])
    shown = [
        " ".join(one.itertext()) if one.tag is etree.Comment else "".join(one.itertext()) for one in tree.iter("p")
    ]
    assert shown[:4] == [decision, paragraph, f"Warning: {warning}", note]
    cells = ["".join(cell.itertext()) for cell in tree.find(".//table").iter("th", "td")]
    header, rows = texts[4:6], [texts[6], texts[7], "7", texts[8]]
    assert cells == [printable(text) for text in (*header, *rows)]
    code = "".join(tree.find(".//code").itertext())
    kept = "".join(letter if letter in "\n\t" else printable(letter) for letter in texts[10])
    assert code == kept
    assert tree.findtext(".//title") == printable(texts[-2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("put שלום/7B-x in front", "put <bdi>שלום/7B-x</bdi> in front"),
        ("سلام عليكم (2)", "<bdi>سلام عليكم</bdi> (2)"),
        ("a\u202eb", "a\\u202eb"),
        ("<bdi>א</bdi> <bdi>", "<bdi>&lt;bdi&gt;א&lt;/bdi&gt;</bdi> &lt;bdi&gt;"),
    ],
)
def test_words_from_the_right_are_isolated(text: str, expected: str) -> None:
    assert f"<h1>{expected}</h1>" in render(Report(text, [], ""))
