"""What the fit reads out of published rows, and the curves by which heads are accepted less from token to token."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from draftpick.acceptance import Drafting, expected_step

pytest.importorskip("pandas")
sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
fit = importlib.import_module("fit")

ROW: Mapping[str, Any] = {
    "row_id": "PM1",
    "source": "one",
    "target_id": "maker/Toy",
    "target": "Toy",
    "draft_or_method": "native MTP",
    "method_class": "mtp",
    "temperature": 0,
    "task": "code",
    "hardware": "H100",
    "engine": "vLLM",
    "source_locator": "table 1",
    "k": "3",
    "k_rule": "",
    "per_position": float("nan"),
    "tau_incl_bonus": float("nan"),
    "frac_drafted_accepted": float("nan"),
}


def rows(counted: Mapping[int, float], **said: Any) -> list[Mapping[str, Any]]:
    return [{**ROW, "k": str(k), "tau_incl_bonus": tau, **said} for k, tau in counted.items()]


def lengths(rate: float, fade: float, *tokens: int) -> dict[int, float]:
    return {k: expected_step(rate, Drafting(k, fade=fade)).tau for k in tokens}


@pytest.mark.parametrize(("rate", "fade"), [(0.9, 0.95), (0.6, 1.0), (0.8, 0.5), (0.35, 0.7)])
@pytest.mark.parametrize("tokens", [(1, 2, 3), (3, 7), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_a_curve_gives_back_its_fade(rate: float, fade: float, tokens: tuple[int, ...]) -> None:
    assert fit.fade_of(lengths(rate, fade, *tokens)) == pytest.approx(fade, abs=0.011)


def test_one_length_gives_its_fade_where_the_first_rate_is_known() -> None:
    assert fit.fade_of(lengths(0.8, 0.6, 4), rate=0.8) == pytest.approx(0.6, abs=0.006)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"tau_incl_bonus": 2.5}, {3: 2.5}),
        ({"frac_drafted_accepted": 0.5}, {3: 2.5}),
        ({"per_position": "0.8;0.5;0.25 (joint survival)"}, {1: 1.8, 2: 2.3, 3: 2.55}),
        ({"per_position": "0.8;0.7 (conditional)", "tau_incl_bonus": 2.0}, {3: 2.0}),
        ({"per_position": "0.6;0.4;0;... (joint survival)", "tau_incl_bonus": 2.0}, {3: 2.0}),
        ({"k": "3.0", "tau_incl_bonus": 2.5}, {3: 2.5}),
        ({"k": "best of 1 to 8", "tau_incl_bonus": 2.5}, {}),
        ({"method_class": "eagle3", "tau_incl_bonus": 3.0, "engine": "own code"}, {}),
        ({}, {}),
    ],
)
def test_the_lengths_that_a_row_states(said: Mapping[str, Any], expected: Mapping[int, float]) -> None:
    assert fit.lengths_of({**ROW, **said}) == pytest.approx(expected)


def test_a_curve_is_of_one_setting() -> None:
    known = [*rows({1: 1.8, 3: 2.6}), *rows({1: 1.7, 3: 2.2}, source_locator="table 2"), *rows({5: 3}, hardware="T4")]
    assert [dict(one.lengths) for one in fit.curves(known)] == [{1: 1.8, 3: 2.6}, {1: 1.7, 3: 2.2}]


def test_rows_that_do_not_tell_two_settings_apart_are_no_curve() -> None:
    assert fit.curves([*rows({1: 1.8, 3: 2.6}), *rows({3: 2.2})]) == []
    assert fit.curves(rows({1: 1.8, 2: 2.6})) == []


def test_sources_weigh_alike_in_the_fade_of_a_method() -> None:
    many = [row for name in "abcd" for row in rows(lengths(0.8, 0.9, 1, 2, 3), task=name)]
    others = [row for name in ("two", "three") for row in rows(lengths(0.8, 0.5, 1, 2, 3, 8), source=name)]
    found = fit.fades([*many, *others])
    assert found["fade"] == pytest.approx(0.5, abs=0.02)


def test_an_architecture_goes_by_its_own_curves_and_by_single_lengths_where_it_has_none() -> None:
    known = [
        *rows(lengths(0.9, 0.9, 1, 2, 3), target_id="deepseek-ai/DeepSeek-V3"),
        *rows(lengths(0.9, 0.4, 3), target_id="zai-org/GLM-4.6"),
        *rows(lengths(0.9, 0.4, 3), target_id="nobody/knows-it"),
    ]
    found = fit.fades_of(known, 0.9)
    assert found == {
        "DeepseekV3ForCausalLM": pytest.approx(0.9, abs=0.006),
        "Glm4MoeForCausalLM": pytest.approx(0.4, abs=0.006),
    }


def test_a_sampled_row_stands_for_a_greedy_one() -> None:
    greedy = fit._method_row({**ROW, "tau_incl_bonus": 2.5}, 1, 0.95, -0.5)
    sampled = fit._method_row({**ROW, "tau_incl_bonus": 2.5, "temperature": 1.0}, 1, 0.95, -0.5)
    assert greedy is not None
    assert sampled is not None
    assert sampled[-1] > greedy[-1]
    assert expected_step(greedy[-1], Drafting(3, fade=0.95)).tau == pytest.approx(2.5)
