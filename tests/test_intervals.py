"""Intervals by hand: strata, differences, quotients, and what cannot be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from draftpick.errors import UsageError
from draftpick.intervals import (
    MANY,
    Sums,
    checked_level,
    got_worse,
    level_of_best,
    paired_difference,
    paired_quotient,
    ratio_interval,
    t_quantile,
    unpaired_difference,
)
from draftpick.speedup import Interval, rescaled

T1, T2, T3 = 12.7062047364, 4.3026527297, 3.1824463053
"""97.5 % quantiles of Student's t with one, two and three degrees of freedom."""


def sums(y: Sequence[float], x: Sequence[float], strata: str = "") -> Sums:
    """Prompts a, b, c …, with a letter each for the stratum."""
    names = tuple("abcdefgh"[: len(y)])
    return Sums(names, tuple(strata or " " * len(y)), np.asarray(y, float), np.asarray(x, float))


@pytest.mark.parametrize(
    ("strata", "t", "variance"),
    [
        # Errors of the four prompts are −1, 2, 1 and −2 over 4; a pool of n adds n/(n−1) times its squares.
        pytest.param("    ", T3, 4 / 3 * 10, id="one stratum"),
        pytest.param("aabb", T2, 2 * 4.5 + 2 * 4.5, id="two of two"),
        pytest.param("abcd", T3, 4 / 3 * 10, id="four of one"),
        pytest.param("aabc", T2, 2 * 4.5 + 2 * 4.5, id="two of one are one"),
        pytest.param("aaab", T3, 4 / 3 * 10, id="one of one joins the first"),
        pytest.param("abab", T2, 2 * 2 + 2 * 8, id="two of two, mixed"),
    ],
)
def test_the_variance_within_strata(strata: str, t: float, variance: float) -> None:
    found = ratio_interval(sums([1, 4, 3, 0], [1, 1, 1, 1], strata))
    half = t * math.sqrt(variance) / 4
    assert found == pytest.approx((2, 2 - half, 2 + half, 0.95), rel=1e-6)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [((-math.inf, math.inf), 2 - T1 * 2, 2 + T1 * 2), ((0, 5), 0, 5), ((2.5, 1.5), 2, 2)],
)
def test_a_ratio_stays_within_its_bounds(bounds: tuple[float, float], low: float, high: float) -> None:
    assert ratio_interval(sums([0, 4], [1, 1]), bounds=bounds) == pytest.approx((2, low, high, 0.95))


def test_one_prompt_tells_nothing_of_a_difference() -> None:
    one, other = sums([3], [1]), sums([2], [1])
    assert paired_difference(one, other) == (1, -math.inf, math.inf, 0.95)
    assert paired_quotient(one, other) == (1.5, 0, math.inf, 0.95)
    assert ratio_interval(one) == (3, -math.inf, math.inf, 0.95)


def test_differences_and_quotients_by_hand() -> None:
    new, old = sums([3, 6], [1, 1]), sums([2, 2], [1, 1])
    # Per prompt the errors of the ratios are ∓0.75 and 0; over the ratios, −1/6 and 1/6.
    assert paired_difference(new, old, 0.95) == pytest.approx((2.5, 2.5 - T1 * 1.5, 2.5 + T1 * 1.5, 0.95))
    half = T1 * math.sqrt(2 * 2 / 36)
    quotient = paired_quotient(new, old)
    assert quotient == pytest.approx((2.25, 2.25 * math.exp(-half), 2.25 * math.exp(half), 0.95))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(sums([0], [0]), sums([1], [1]), id="nothing counted now"),
        pytest.param(sums([1], [1]), sums([0], [0]), id="nothing counted then"),
        pytest.param(sums([1], [1])._replace(prompts=("z",)), sums([1], [1]), id="no prompt in common"),
    ],
)
def test_what_cannot_be_compared(new: Sums, old: Sums) -> None:
    assert paired_difference(new, old) is None
    assert paired_quotient(new, old) is None


@pytest.mark.parametrize(("new", "old"), [(0, 1), (1, 0)])
def test_nothing_is_no_factor(new: float, old: float) -> None:
    assert paired_quotient(sums([new, new], [1, 1]), sums([old, old], [1, 1])) is None
    assert paired_difference(sums([new, new], [1, 1]), sums([old, old], [1, 1])) is not None


def test_prompts_keep_their_strata_when_they_are_matched() -> None:
    mine, theirs = (
        sums([1, 2, 3], [4, 5, 6], "xyz"),
        sums([7, 8, 9], [1, 2, 3], "uvw")._replace(prompts=("c", "z", "a")),
    )
    ours, others = mine.common(theirs)
    assert (ours.prompts, ours.strata, [*ours.y], [*ours.x]) == (("a", "c"), ("x", "z"), [1, 3], [4, 6])
    assert (others.prompts, others.strata, [*others.y], [*others.x]) == (("a", "c"), ("w", "u"), [9, 7], [3, 1])


def test_independent_intervals_add_in_squares() -> None:
    new, old = Interval(5, 2, 9, 0.95), Interval(3, -1, 6, 0.95)
    assert unpaired_difference(new, old) == pytest.approx((2, 2 - math.hypot(3, 3), 2 + math.hypot(4, 4), 0.95))
    wide = unpaired_difference(new._replace(level=0.8), old)
    factor = NormalDist().inv_cdf(0.975) / NormalDist().inv_cdf(0.9)
    assert wide == pytest.approx((2, 2 - math.hypot(3 * factor, 3), 2 + math.hypot(4 * factor, 4), 0.95))


@pytest.mark.parametrize(
    ("level", "to", "factor"),
    [(0.95, 0.95, 1.0), (0.95, 0.8, 0.653866), (0.8, 0.95, 1.529361), (0.95, 0.0, 0.006395), (0.95, 1.0, 1.985020)],
)
def test_an_interval_at_another_level(level: float, to: float, factor: float) -> None:
    found = rescaled(Interval(10, 9, 12, level), to)
    assert found == pytest.approx((10, 10 - factor, 10 + 2 * factor, to), rel=1e-5)


@pytest.mark.parametrize(
    ("low", "high", "worse"),
    [(-0.3, -0.11, True), (-0.3, -0.1, None), (-0.1, -0.1, False), (-0.1, 0.5, False), (-0.11, 0.5, None)],
)
def test_worse_beyond_the_tolerance_alone(low: float, high: float, worse: bool | None) -> None:
    assert got_worse(Interval(0, low, high, 0.95), 0.1) is worse


@pytest.mark.parametrize(("drafts", "level"), [(1, 0.95), (2, 0.975), (5, 0.99)])
def test_the_level_for_the_best_of_several(drafts: int, level: float) -> None:
    assert level_of_best(drafts) == pytest.approx(level)
    assert level_of_best(drafts, 0.8) == pytest.approx(1 - 0.2 / drafts)


@pytest.mark.parametrize("level", [1e-9, 0.5, 1 - 1e-9])
def test_levels_that_can_be(level: float) -> None:
    assert checked_level(level) == level


@pytest.mark.parametrize(
    "call",
    [
        lambda: checked_level(0),
        lambda: checked_level(1),
        lambda: level_of_best(0),
        lambda: level_of_best(1, 1.0),
        lambda: t_quantile(0.0, 5),
        lambda: t_quantile(1.0, 5),
        lambda: t_quantile(0.9, 0),
        lambda: t_quantile(0.9, math.inf),
        lambda: ratio_interval(sums([1, 2], [1, 1]), 0.0),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint


@pytest.mark.parametrize("df", [0.5, 1, 2, 7.5, 300, 1e7])
def test_the_middle_of_t_is_zero_and_its_halves_are_alike(df: float) -> None:
    assert t_quantile(0.5, df) == pytest.approx(0, abs=1e-12)
    for probability in (0.6, 0.9, 0.999):
        assert t_quantile(1 - probability, df) == pytest.approx(-t_quantile(probability, df), rel=1e-9)


@pytest.mark.parametrize(
    ("probability", "df", "quantile"),
    [
        # Of the exact series; those of a million and more are beyond what the continued fraction tells.
        (0.975, 1e6 - 1, 1.95996635660), (0.975, 1e6 + 1, 1.95996635659), (0.975, 1e9, 1.95996398691),
        (0.975, 1e20, 1.95996398454), (0.975, 1e300, 1.95996398454), (0.995, 2e6, 2.57583176182),
        (0.025, 1e9, -1.95996398691),
        (0.9, 1, 3.07768353718), (0.75, 2, 0.816496580928), (0.6, 4, 0.270722294),
        (0.999, 7, 4.78528963), (0.95, 30, 1.69726088659), (0.9995, 200, 3.33983540),
    ],
)  # fmt: skip
def test_quantiles_of_t(probability: float, df: float, quantile: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(quantile, rel=1e-8)


@pytest.mark.parametrize("probability", [0.5, 0.51, 0.75, 0.975, 0.9999, 1 - 1e-9])
def test_many_degrees_of_freedom_join_the_others(probability: float) -> None:
    below, above = t_quantile(probability, MANY), t_quantile(probability, MANY + 1)
    assert above == pytest.approx(below, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("df", [0.3, 1, 2, 3, 5, 10, 40, 300, 5000])
@pytest.mark.parametrize("probability", [0.501, 0.6, 0.8, 0.95, 0.999])
def test_the_density_adds_up_to_the_probability(probability: float, df: float) -> None:
    """By Simpson's rule from 0 to the quantile."""
    end = t_quantile(probability, df)
    places = np.sinh(np.linspace(0, math.asinh(end), 20_001))
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    density = scale * (1 + places**2 / df) ** (-(df + 1) / 2) * np.cosh(np.linspace(0, math.asinh(end), 20_001))
    step = math.asinh(end) / 20_000
    area = step / 3 * (density[0] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum() + density[-1])
    assert 0.5 + area == pytest.approx(probability, abs=1e-10)
