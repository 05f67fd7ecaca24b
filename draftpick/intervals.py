"""How sure a ratio is that was counted over prompts, alone and against another: the unit of chance is the prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from draftpick.errors import UsageError
from draftpick.speedup import Interval, least_where, rescaled

Floats = npt.NDArray[np.float64]

# Student's t.

MANY = 1e6
"""Degrees of freedom from which on t is the normal distribution with its first correction, to a dozen digits."""


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (Lentz), for x < (a + 1) / (a + b + 2).

    No denominator comes nearer to 0 than 1 / (a + b) there, and some fifty terms are enough.
    """
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised I_x(a, b); `rest` is 1 − x, given apart so that it keeps its digits."""
    if x <= 0.0:
        return 0.0
    if rest <= 0.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, rest) / b


def _t_tail(t: float, df: float) -> float:
    """P(T > t) for t ≥ 0."""
    square = t * t
    return 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square))


@lru_cache(maxsize=512)
def t_quantile(probability: float, df: float) -> float:
    """The quantile of Student's t with `df` degrees of freedom, to about nine digits. Raises UsageError."""
    if not 0.0 < probability < 1.0 or not 0.0 < df < math.inf:
        raise UsageError(
            f"no t quantile at {probability} with {df} degrees of freedom",
            hint="Give a probability between 0 and 1 and more than 0 degrees of freedom.",
        )
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    if df > MANY:
        normal = NormalDist().inv_cdf(probability)
        return normal + (normal**3 + normal) / (4 * df)
    tail = 1.0 - probability
    low, high = 0.0, 1.0
    while _t_tail(high, df) > tail:
        low, high = high, high * 2
    return least_where(lambda t: _t_tail(t, df) <= tail, low, high)


# Intervals of ratios over prompts.


class Sums(NamedTuple):
    """A ratio Σy/Σx as its two sums per prompt, with each prompt's stratum."""

    prompts: tuple[str, ...]
    strata: tuple[str, ...]
    y: Floats
    x: Floats

    @property
    def ratio(self) -> float | None:
        """Σy/Σx; None where nothing was counted."""
        total = float(self.x.sum())
        return float(self.y.sum()) / total if total > 0 else None

    def common(self, other: Sums) -> tuple[Sums, Sums]:
        """Both on the prompts they share, in one order."""
        places = {prompt: place for place, prompt in enumerate(other.prompts)}
        mine = [place for place, prompt in enumerate(self.prompts) if prompt in places]
        return self._at(mine), other._at([places[self.prompts[place]] for place in mine])

    def _at(self, places: list[int]) -> Sums:
        index = np.asarray(places, dtype=np.int64)
        return Sums(
            tuple(self.prompts[place] for place in places),
            tuple(self.strata[place] for place in places),
            self.y[index],
            self.x[index],
        )


def _deviations(sums: Sums, ratio: float) -> Floats:
    """What each prompt adds to the error of the ratio: their sum has the ratio's variance."""
    deviations: Floats = (sums.y - ratio * sums.x) / sums.x.sum()
    return deviations


def _half_width(deviations: Floats, strata: Sequence[str], level: float) -> float | None:
    """t · se of a sum of deviations, within strata; None where one prompt is all there is."""
    groups: dict[str, list[int]] = {}
    for place, stratum in enumerate(strata):
        groups.setdefault(stratum, []).append(place)
    # A stratum of one prompt shows no variance: those are taken together.
    lone = [places.pop() for places in groups.values() if len(places) == 1]
    pools = [places for places in groups.values() if places]
    if len(lone) > 1:
        pools.append(lone)
    elif lone and pools:
        pools[0].extend(lone)
    df = sum(len(pool) - 1 for pool in pools)
    if df < 1:
        return None
    variance = sum(
        len(pool) / (len(pool) - 1) * float(((deviations[pool] - deviations[pool].mean()) ** 2).sum()) for pool in pools
    )
    return t_quantile((1 + checked_level(level)) / 2, df) * math.sqrt(variance)


def checked_level(level: float) -> float:
    """A level strictly between 0 and 1, unchanged. Raises UsageError."""
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval is {level!r}", hint="Give a number between 0 and 1, such as 0.95.")
    return level


def ratio_interval(
    sums: Sums, level: float = 0.95, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Interval | None:
    """Σy/Σx with its t interval over prompts, within strata; None where nothing was counted.

    `bounds` are what the ratio can be; a single prompt says no more than they do.
    """
    ratio = sums.ratio
    if ratio is None:
        return None
    half = _half_width(_deviations(sums, ratio), sums.strata, level)
    if half is None:
        return Interval(ratio, min(bounds[0], ratio), max(bounds[1], ratio), level)
    return Interval(ratio, min(max(ratio - half, bounds[0]), ratio), max(min(ratio + half, bounds[1]), ratio), level)


def paired_difference(new: Sums, old: Sums, level: float = 0.95) -> Interval | None:
    """Ratio of `new` minus that of `old` on their common prompts, paired by prompt; None without common prompts.

    Valid also where the texts differ.
    """
    new, old = new.common(old)
    ratio, before = new.ratio, old.ratio
    if ratio is None or before is None:
        return None
    half = _half_width(_deviations(new, ratio) - _deviations(old, before), new.strata, level)
    difference = ratio - before
    return Interval(difference, *_around(difference, half), level)


def unpaired_difference(new: Interval, old: Interval, level: float = 0.95) -> Interval:
    """The difference of two ratios that were measured on different prompts, from the intervals of both."""
    value = new.value - old.value
    ours, before = rescaled(new, level), rescaled(old, level)
    return Interval(
        value,
        value - math.hypot(ours.value - ours.low, before.high - before.value),
        value + math.hypot(ours.high - ours.value, before.value - before.low),
        level,
    )


def paired_quotient(new: Sums, old: Sums, level: float = 0.95) -> Interval | None:
    """Ratio of `new` over that of `old`, paired by prompt: times the quotient of the costs, that of two speed-ups."""
    new, old = new.common(old)
    ratio, before = new.ratio, old.ratio
    if ratio is None or before is None or ratio <= 0 or before <= 0:
        return None
    half = _half_width(_deviations(new, ratio) / ratio - _deviations(old, before) / before, new.strata, level)
    low, high = _around(math.log(ratio / before), half)
    return Interval(ratio / before, math.exp(low), math.exp(high), level)


def _around(value: float, half: float | None) -> tuple[float, float]:
    return (value - half, value + half) if half is not None else (-math.inf, math.inf)


def got_worse(difference: Interval, tolerance: float) -> bool | None:
    """Whether new − old lies surely below −tolerance; None where the interval cannot tell."""
    if difference.high < -tolerance:
        return True
    return False if difference.low >= -tolerance else None


def level_of_best(num_drafts: int, level: float = 0.95) -> float:
    """The level for the best of several: choosing inflates, so its interval must be wider."""
    if num_drafts < 1:
        raise UsageError(f"the best of {num_drafts} drafts", hint="Give 1 or more.")
    return 1 - (1 - checked_level(level)) / num_drafts
