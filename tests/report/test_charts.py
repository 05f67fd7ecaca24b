"""The charts: well-formed, the same again, nothing from data but text, and no two texts in one place."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
import sample_report
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from draftpick.report import charts
from draftpick.report.blocks import Chart, Curve, Domains, MemoryBars, Plane, Point, Positions, Table
from draftpick.report.charts import svg
from draftpick.report.svg import COLORS, WIDTH, Box, box_of, shortened, text_width
from draftpick.report.text import printable
from draftpick.speedup import mean_acceptance_length, speedup, step_times

LAW = settings(deadline=None, max_examples=40)
SAMPLES = {
    "curve": sample_report.curve,
    "positions": sample_report.positions,
    "domains": sample_report.domains,
    "memory": sample_report.memory,
    "plane": sample_report.plane,
}
STYLE = (Path(charts.__file__).parent / "report.css").read_text(encoding="utf-8")
ELEMENTS = {"svg", "title", "desc", "text", "path", "use", "g", "defs"}
ATTRIBUTES = {
    *("xmlns", "viewBox", "role", "aria-labelledby", "font-family", "font-size", "font-weight", "id", "href", "class"),
    *("d", "x", "y", "text-anchor", "fill", "fill-opacity", "opacity"),
    *("stroke", "stroke-width", "stroke-opacity", "stroke-linejoin", "stroke-linecap"),
    *("stroke-dasharray", "stroke-dashoffset"),
}
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("|`<>&\"'$\\^_{}#%\n\r\t\0\x1b\u202e\u2067\u200f\ufeff\ufffe\uffff\ud800\udfffאبم模😀é e/-"),
        st.characters(),
    ),
    max_size=60,
) | st.sampled_from(["<script>alert(1)</script>", "]]>", "<!--", "--><svg onload=x>", "$\\frac{1}{0}$", "#0", "#99"])
SHARE = st.floats(0, 1)
NO_TABLE = Table((), ())


def drawn(data: Curve | Positions | Domains | MemoryBars | Plane, title: str = "t", alt: str = "a") -> etree._Element:
    return etree.fromstring(svg(Chart(title, alt, data, NO_TABLE)))


def tag(element: etree._Element) -> str:
    return etree.QName(element).localname


def texts(root: etree._Element) -> list[str]:
    return [element.text or "" for element in root.iter("{*}text")]


def boxes(root: etree._Element) -> list[tuple[str, Box]]:
    aligned = {"start": "left", "middle": "center", "end": "right"}
    return [
        (
            text,
            box_of(
                float(element.get("x", "")), float(element.get("y", "")), text, aligned[element.get("text-anchor", "")]
            ),
        )  # type: ignore[arg-type]
        for element in root.iter("{*}text")
        if (text := element.text or "")
    ]


def overlaps(root: etree._Element) -> list[tuple[str, str]]:
    # Estimated letters are wider than those of most fonts.
    slim = [(text, Box(box.left + 2, box.top + 2, box.right - 2, box.bottom - 2)) for text, box in boxes(root)]
    return [(one, other) for (one, here), (other, there) in combinations(slim, 2) if here.meets(there)]


def check(root: etree._Element) -> None:
    """What holds of every chart."""
    assert {tag(element) for element in root.iter()} <= ELEMENTS
    assert {etree.QName(name).localname for element in root.iter() for name in element.attrib} <= ATTRIBUTES
    named = root.get("aria-labelledby", "").split()
    assert root.get("role") == "img"
    assert [(tag(child), child.get("id")) for child in root[:2]] == [("title", named[0]), ("desc", named[1])]
    ids = [found for element in root.iter() if (found := element.get("id"))]
    assert len(ids) == len(set(ids))
    assert all(found.startswith("chart-") for found in ids)
    assert {use.get("href", "")[1:] for use in root.iter("{*}use")} <= set(ids)
    bottom = float(root.get("viewBox", "").split()[3])
    for text, box in boxes(root):
        assert box.within(Box(-1, -3, WIDTH + 1, bottom + 3)), text
    assert overlaps(root) == []


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_hold_what_every_chart_must(kind: str) -> None:
    chart = SAMPLES[kind]()
    root = etree.fromstring(svg(chart))
    check(root)
    assert [root[0].text, root[1].text] == [chart.title, chart.alt]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_page_can_colour_all_of_a_chart(kind: str) -> None:
    for element in etree.fromstring(svg(SAMPLES[kind]())).iter():
        for key in ("fill", "stroke"):
            color = element.get(key, "none")
            if color != "none":
                (role,) = (role for role, value in COLORS.items() if value == color)
                assert f"{key[0]}-{role}" in element.get("class", "").split()
        for name in element.get("class", "").split():
            assert f".{name} {{" in STYLE


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_chart_is_small_and_the_same_again(kind: str) -> None:
    first = svg(SAMPLES[kind]())
    assert first == svg(SAMPLES[kind]())
    assert len(first) < 25_000


def test_charts_of_one_page_share_no_id() -> None:
    chart = sample_report.curve()
    ids = [set(re.findall(r' id="([^"]+)"', svg(chart, prefix))) for prefix in ("chart-1", "chart-2")]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_the_users_own_settings_change_nothing() -> None:
    import matplotlib

    expected = svg(sample_report.curve())
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path", "lines.linewidth": 9}):
        assert svg(sample_report.curve()) == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_the_chosen_k_is_named_and_plain_decoding_has_its_line() -> None:
    said = texts(etree.fromstring(svg(sample_report.curve())))
    assert "k = 3: 1.76×" in said
    assert "1×" in said
    data = sample_report.curve().data
    assert isinstance(data, Curve)
    assert not any(text.startswith("k = ") for text in texts(drawn(data._replace(chosen=None))))


def test_positions_without_a_figure_leave_a_gap() -> None:
    root = drawn(Positions((0.9, None, 0.5), (None, None, None)))
    check(root)
    assert "marginal" in texts(root)
    assert "conditional" not in texts(root)


def test_memory_says_by_how_much_it_is_too_small() -> None:
    said = texts(drawn(MemoryBars(("one", "two"), {"weights": (60.0, 70.5), "cache": (0.0, 3.0)}, 64.0)))
    assert "60.0 GiB" in said
    assert "73.5 GiB, 9.5 too many" in said
    assert "capacity 64 GiB" in said


@pytest.mark.parametrize("level", [1.0, 1.25, 1.5, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("right", [0.3, 0.7, 1.5])
def test_lines_of_the_plane_are_those_of_the_best_k(level: float, right: float) -> None:
    places = charts._equal(level, 0.2, right)
    for cost, rate in places[:-1]:
        gains = [speedup(mean_acceptance_length(rate, k), step_times(cost), k) for k in range(1, 9)]
        assert max(gains) == pytest.approx(level, rel=1e-9)
    assert places == sorted(places)
    assert places[-1][0] == right or places[-1][1] == 1
    assert places[0][0] == pytest.approx(0, abs=1e-9) or places[0][1] == 0.2


def test_all_points_of_the_plane_say_their_name_under_the_pointer() -> None:
    root = etree.fromstring(svg(sample_report.plane()))
    assert sorted(group[0].text or "" for group in root.iter("{*}g")) == sorted(
        name for name, *_ in sample_report.DRAFTS
    )
    assert "● Qwen/Qwen2.5-7B-Instruct" in texts(root)


# Laws.


@LAW
@given(st.lists(st.tuples(st.floats(0.01, 20), SHARE, SHARE), max_size=17), st.integers(-1, 17), st.booleans())
@example(rows=[(0.9375, 0.9375, 0.0)], chosen=0, plain=False)
@example(rows=[(0.9975, 0.9999, 0.0001)], chosen=0, plain=False)
@example(rows=[(1.0, 1.0, 0.12)], chosen=0, plain=False)
def test_any_curve(rows: list[tuple[float, float, float]], chosen: int, plain: bool) -> None:
    ks = range(0 if plain else 1, len(rows) + (0 if plain else 1))
    value = [row[0] for row in rows]
    low, high = [row[0] * row[1] for row in rows], [row[0] * (1 + row[2]) for row in rows]
    check(drawn(Curve(ks, value, low, high, chosen if chosen >= 0 else None, 0.8)))


@LAW
@given(st.lists(st.none() | SHARE, max_size=17), st.lists(st.none() | SHARE, max_size=17))
def test_any_positions(marginal: list[float | None], conditional: list[float | None]) -> None:
    check(drawn(Positions(marginal, conditional)))


@LAW
@given(st.lists(st.tuples(HOSTILE, SHARE, SHARE, SHARE), max_size=8), HOSTILE, HOSTILE)
def test_any_domains(rows: list[tuple[str, float, float, float]], title: str, alt: str) -> None:
    names, *rates = zip(*rows, strict=True) if rows else ((), (), (), ())
    low, value, high = zip(*(sorted(row) for row in zip(*rates, strict=True)), strict=True) if rows else ((), (), ())
    root = drawn(Domains(names, value, low, high, 0.95), title, alt)
    check(root)
    assert [root[0].text or "", root[1].text or ""] == [printable(title), printable(alt)]
    assert len(texts(root)) == 6 + 2 * len(rows)


@LAW
@given(
    st.lists(HOSTILE, max_size=4),
    st.dictionaries(HOSTILE, st.lists(st.floats(0, 2000), min_size=4, max_size=4), max_size=7),
    st.none() | st.floats(0.5, 2000),
)
def test_any_memory(bars: list[str], parts: dict[str, list[float]], capacity: float | None) -> None:
    check(drawn(MemoryBars(bars, {name: sizes[: len(bars)] for name, sizes in parts.items()}, capacity)))


@LAW
@given(st.lists(st.tuples(HOSTILE, st.floats(0, 3), SHARE, SHARE, SHARE, st.booleans()), max_size=25))
def test_any_plane(rows: list[tuple[str, float, float, float, float, bool]]) -> None:
    points = [Point(name, c, *sorted(rates)[1::-1], max(rates), chosen) for name, c, *rates, chosen in rows]  # type: ignore[misc, call-arg]
    root = drawn(Plane(points))
    check(root)
    assert sorted(group[0].text or "" for group in root.iter("{*}g")) == sorted(printable(row[0]) for row in rows)


@LAW
@given(st.text(max_size=300), st.floats(20, 440))
def test_shortened_texts_have_room_and_keep_both_ends(text: str, most: float) -> None:
    short, whole = shortened(text, most), printable(text)
    assert text_width(short) <= most or short == "…"
    if short != whole:
        before, _, after = short.partition("…") if "…" not in whole else (short[:0], "", short[:0])
        assert whole.startswith(before)
        assert whole.endswith(after)


def test_a_name_of_a_million_letters_is_cut_at_once() -> None:
    assert len(shortened("x" * 1_000_000, 300)) < 60
