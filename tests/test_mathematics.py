"""docs/mathematics.md: what its text and its tables say is what the code computes."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from commands import run
from pages import DOCS, ROOT
from traces import answer_from_matches

from draftpick.replay import GREEDY_DRAFT, Trace, replay
from draftpick.speedup import mean_acceptance_length, speedup, step_times

PAGE = (DOCS / "mathematics.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())
ANSWERS, TOKENS = 16, 4000


def rows(header: str) -> list[list[str]]:
    """The cells below the header that begins so."""
    below = PAGE.split(f"\n| {header}")[1].splitlines()[2:]
    lines = below[: next(place for place, line in enumerate(below) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# ---------------------------------------------------------------------- runs


def in_runs(after_hit: float, after_miss: float) -> list[npt.NDArray[np.bool_]]:
    """Texts in which the chance of a hit depends on the token before."""
    chance = np.random.default_rng(1)
    texts = []
    for _ in range(ANSWERS):
        hit, draws = chance.random() < after_miss / (1 - after_hit + after_miss), chance.random(TOKENS)
        text = np.zeros(TOKENS, bool)
        for place in range(TOKENS):
            hit = text[place] = bool(draws[place] < (after_hit if hit else after_miss))
        texts.append(text)
    return texts


@pytest.mark.parametrize("row", rows("after a hit"), ids=lambda row: f"after a hit {row[0]}")
def test_runs_shorten_steps(row: list[str]) -> None:
    after_hit, after_miss, *lengths, rate = map(float, row)
    assert after_miss / (1 - after_hit + after_miss) == pytest.approx(0.60)
    texts = in_runs(after_hit, after_miss)
    trace = Trace(tuple(answer_from_matches(f"{place}", text.tolist()) for place, text in enumerate(texts)))
    ks = (1, 3, 5, 8, 64)
    found = replay(trace, GREEDY_DRAFT, ks)
    assert [found[k].lengths.ratio for k in ks] == pytest.approx(lengths, abs=0.0051)
    counted = found[3].conditional_rate()
    assert counted is not None
    assert counted.value == pytest.approx(rate, abs=0.0051)
    closed = [mean_acceptance_length(0.60, k) for k in ks]
    independent = after_hit == after_miss
    assert (lengths == pytest.approx(closed, abs=0.02)) == independent
    assert independent or all(found[k].lengths.ratio < form for k, form in zip(ks, closed, strict=True))


def test_the_number_of_simulated_tokens_is_said() -> None:
    assert f"{ANSWERS * TOKENS:,} tokens (seed 1)" in PROSE


# ---------------------------------------------------------------------- the walk


def test_the_walk_is_what_the_replay_counts() -> None:
    shown, walked = (line.strip() for line in PAGE.splitlines() if line.startswith("    ") and "✗" in line)
    text = [mark == "✓" for mark in shown.split()]
    steps = [step.split() for step in walked.removeprefix("k = 2:").split("│")]
    assert [mark == "✓" for step in steps for mark in step] == text
    trace = Trace((answer_from_matches("text", text),), first=1)
    ks = (1, 2, 3, 4)
    found = replay(trace, GREEDY_DRAFT, ks)
    table = {row[0]: row[1:] for row in rows("k | 1 | 2")}
    assert [found[k].visible_steps.sum() for k in ks] == list(map(float, table["steps"]))
    assert [found[k].visible.ratio for k in ks] == pytest.approx(list(map(float, table["tokens per step"])), abs=0.005)
    assert len(steps) == found[2].visible_steps.sum()


# ---------------------------------------------------------------------- the example


def test_the_example_is_counted_and_computed() -> None:
    scrape = ROOT / "tests" / "scrapes" / "vllm-0.32.0-second.txt"
    (model,) = run("observe", "--file", str(scrape), "--draft-cost", "0.34", "--json").document["models"]
    accepted = model["num_accepted_tokens_per_pos"]
    steps = model["num_drafts"]
    assert f"vLLM counted {steps} steps of the small pair that comes with draftpick, at k = 3: the first" in PROSE
    assert (
        f"token was accepted in {accepted[0]} of them, the second in {accepted[1]}, the third in {accepted[2]}" in PROSE
    )
    marginal = [number / steps for number in accepted]
    length = 1 + sum(marginal)
    shown = [f"{rate:.3f}" for rate in marginal]
    assert f"m = {', '.join(shown)} and τ(3) = 1 + {' + '.join(shown)} = {length:.2f}" in PROSE
    times = step_times(0.34)
    one, three = speedup(1 + marginal[0], times, 1), speedup(length, times, 3)
    assert f"speed-up(1) = {1 + marginal[0]:.3f} / {times.step(1):.2f} = {one:.2f}" in PROSE
    assert f"speed-up(3) = {length:.2f} / {times.step(3):.2f} = {three:.2f}" in PROSE
    assert f"gives τ(3) = {mean_acceptance_length(round(marginal[0], 3), 3):.2f}, too little" in PROSE
    if_reached = [after / before for before, after in pairwise([steps, *accepted])]
    assert f"more often ({if_reached[2]:.2f}) than the first ({if_reached[0]:.2f})" in PROSE


def test_pays_below_is_the_bound_of_the_formula() -> None:
    scrape = ROOT / "tests" / "scrapes" / "vllm-0.32.0-second.txt"
    (model,) = run("observe", "--file", str(scrape), "--json").document["models"]
    marginal = model["position_rates"]["marginal"]
    for k, row in enumerate(model["by_k"][1:], 1):
        before = 1 + sum(marginal[: k - 1])
        assert row["pays_below"] == pytest.approx(marginal[k - 1] / (before - (k - 1) * marginal[k - 1]))


def test_what_is_said_of_intervals_is_what_is_shown_elsewhere() -> None:
    low, high, nominal_low, nominal_high = map(
        float, re.findall(r"\((\d\.\d\d) to (\d\.\d\d), against (\d\.\d\d) to (\d\.\d\d)\)", PROSE)[0]
    )
    assert 1.4 < (high - low) / (nominal_high - nominal_low) < 1.6
    page = " ".join((DOCS / "observe.md").read_text(encoding="utf-8").split())
    assert f"a nominal interval of {nominal_low} to {nominal_high}" in page
    assert f"tokens per step ({low} to {high})" in page
