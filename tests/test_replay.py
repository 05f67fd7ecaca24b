from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from traces import answer_from_matches, looked

from draftpick import intervals
from draftpick import replay as rp
from draftpick.errors import UsageError
from draftpick.intervals import Sums
from draftpick.lookup import Lookup, NgramLookup, SuffixLookup, prompt_lookup
from draftpick.replay import (
    Acceptance,
    Answer,
    Trace,
)
from draftpick.speedup import StepTimes, mean_acceptance_length, step_times
from draftpick.walks import (
    ConfidenceStop,
    FixedLength,
    HeuristicLength,
    Policy,
    RateRule,
    walk,
    walk_lookup,
)

LAW = settings(deadline=None, derandomize=True, max_examples=60)
SAMPLED = Acceptance(sampled=True)
BLOCK = Acceptance(sampled=True, block=True)
MATCHES = st.lists(st.booleans(), min_size=1, max_size=40)


def trace_of(*rows: Sequence[bool], first: int = 1) -> Trace:
    return Trace(tuple(answer_from_matches(str(number), row) for number, row in enumerate(rows)), first=first)


def rated(rates: Sequence[float], prompt: str = "p") -> Answer:
    """An answer whose sampled draft is accepted with these chances."""
    size = len(rates)
    with np.errstate(divide="ignore"):
        log_q = np.log(np.asarray(rates, float)) - 1.0
    return Answer(prompt, np.zeros(size, np.int64), log_p=np.full(size, -1.0), log_q={1.0: log_q})


# Worlds: random second-order Markov tables for target and draft, where speculative sampling is simulated for real.

VOCABULARY = 4


class World:
    """p and q by context, a context being the last two tokens."""

    def __init__(self, seed: int, likeness: float = 0.6) -> None:
        rng = np.random.default_rng(seed)
        contexts = VOCABULARY**2
        self.p = rng.dirichlet(np.full(VOCABULARY, 0.6), contexts)
        self.q = likeness * self.p + (1 - likeness) * rng.dirichlet(np.full(VOCABULARY, 0.6), contexts)

    def text(self, rng: np.random.Generator, answers: int, size: int) -> np.ndarray:
        tokens = np.zeros((answers, size), np.int64)
        context = np.zeros(answers, np.int64)
        for place in range(size):
            tokens[:, place] = pick(rng, self.p[context])
            context = after(context, tokens[:, place])
        return tokens

    def trace(self, tokens: np.ndarray, first: int = 1) -> Trace:
        contexts = np.zeros_like(tokens)
        for place in range(1, tokens.shape[1]):
            contexts[:, place] = after(contexts[:, place - 1], tokens[:, place - 1])
        p, q = self.p[contexts], self.q[contexts]
        top = q.argmax(-1)
        log_p, log_q = (np.log(np.take_along_axis(x, tokens[..., None], -1))[..., 0] for x in (p, q))
        return Trace(
            tuple(
                Answer(
                    str(row),
                    tokens[row],
                    draft_top=top[row],
                    draft_top_prob=q[row].max(-1),
                    target_prob_of_draft_top=np.take_along_axis(p, top[..., None], -1)[row, :, 0],
                    log_p=log_p[row],
                    log_q={1.0: log_q[row]},
                    overlap={1.0: np.minimum(p, q)[row].sum(-1)},
                )
                for row in range(len(tokens))
            ),
            first=first,
        )


def after(context: np.ndarray, token: np.ndarray) -> np.ndarray:
    return (context * VOCABULARY + token) % VOCABULARY**2


def pick(rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    edges = weights.cumsum(-1)
    return (rng.random(len(weights))[:, None] * edges[:, -1:] >= edges).sum(-1).clip(0, VOCABULARY - 1)


def draft_block(
    world: World, rng: np.random.Generator, context: np.ndarray, k: int, sampled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Drafted tokens [chain, k] and the contexts before each of them and behind the last [chain, k + 1]."""
    contexts = np.zeros((len(context), k + 1), np.int64)
    drafted = np.zeros((len(context), k), np.int64)
    contexts[:, 0] = context
    for i in range(k):
        q = world.q[contexts[:, i]]
        drafted[:, i] = pick(rng, q) if sampled else q.argmax(-1)
        contexts[:, i + 1] = after(contexts[:, i], drafted[:, i])
    return drafted, contexts


def verify(
    world: World, rng: np.random.Generator, drafted: np.ndarray, contexts: np.ndarray, rule: Acceptance
) -> tuple[np.ndarray, np.ndarray]:
    """Accepted length of each block and the target's own token behind it, by rejection with the residual."""
    chains, k = drafted.shape
    rows = np.arange(chains)
    p, q = world.p[contexts], world.q[contexts]
    if not rule.sampled:
        q = np.eye(VOCABULARY)[q.argmax(-1)]
    drafted_p = np.take_along_axis(p[:, :k], drafted[..., None], -1)[..., 0]
    drafted_q = np.take_along_axis(q[:, :k], drafted[..., None], -1)[..., 0]
    uniform = rng.random((chains, k))
    scale = np.ones((chains, k + 1))
    if rule.block:
        for i in range(k):
            scale[:, i + 1] = np.minimum(scale[:, i] * drafted_p[:, i] / drafted_q[:, i], 1.0)
        left = np.maximum(scale[:, 1:, None] * p[:, 1:] - q[:, 1:], 0).sum(-1)
        with np.errstate(invalid="ignore"):
            chance = np.nan_to_num(left / (left + 1 - scale[:, 1:]), nan=1.0)
        chance[:, -1] = scale[:, -1]
        passed = uniform < chance
        accepted = np.where(passed.any(1), k - passed[:, ::-1].argmax(1), 0)
    else:
        missed = uniform >= drafted_p / drafted_q
        accepted = np.where(missed.any(1), missed.argmax(1), k)
    scale = scale[rows, accepted][:, None]
    residual = np.maximum(scale * p[rows, accepted] - q[rows, accepted], 0)
    own = np.where((accepted == k)[:, None], p[rows, accepted], residual)
    return accepted, pick(rng, own)


class Simulated:
    """Speculative decoding of many answers at once: what was emitted, and what counters and users see."""

    def __init__(self, world: World, rule: Acceptance, k: int, size: int, answers: int, first: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tokens = np.zeros((answers, size + k + 1), np.int64)
        position = np.full(answers, first - 1)
        context = np.zeros(answers, np.int64)
        if first == 2:
            self.tokens[:, 0] = pick(rng, world.p[context])
            context = after(context, self.tokens[:, 0])
        counts = np.zeros((answers, 3))
        while (live := np.flatnonzero(position < size)).size:
            drafted, contexts = draft_block(world, rng, context[live], k, rule.sampled)
            accepted, own = verify(world, rng, drafted, contexts, rule)
            complete = position[live] <= size - k
            counts[live] += np.stack([complete * (accepted + 1), complete, np.ones(live.size)], axis=1)
            for i in range(k):
                taken = live[accepted > i]
                self.tokens[taken, position[taken] + i] = drafted[accepted > i, i]
            self.tokens[live, position[live] + accepted] = own
            context[live] = after(contexts[np.arange(live.size), accepted], own)
            position[live] += accepted + 1
        self.tokens = self.tokens[:, :size]
        names = tuple(str(row) for row in range(answers))
        plain = ("",) * answers
        self.lengths = Sums(names, plain, counts[:, 0], counts[:, 1])
        self.visible = Sums(names, plain, np.full(answers, size - first + 1.0), counts[:, 2])


def apart(difference: rp.Interval | None) -> float:
    """A difference in standard errors (its interval is at the level of one of them)."""
    assert difference is not None
    width = difference.high - difference.value
    return abs(difference.value) / width if difference.value else 0.0


ONE_ERROR = 0.6826894921


def apart_unpaired(one: Sums, other: Sums) -> float:
    a, b = intervals.ratio_interval(one, ONE_ERROR), intervals.ratio_interval(other, ONE_ERROR)
    assert a is not None
    assert b is not None
    return abs(a.value - b.value) / math.hypot(a.high - a.value, b.high - b.value)


RULES = [
    pytest.param(rp.GREEDY_DRAFT, id="first choice"),
    pytest.param(SAMPLED, id="sampled"),
    pytest.param(BLOCK, id="block verification"),
]
SIZES = [pytest.param(16, 800, id="short"), pytest.param(128, 250, id="long")]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("size", "answers"), SIZES)
@pytest.mark.parametrize(("k", "first", "seed"), [(1, 1, 1), (4, 2, 2), (8, 1, 1)])
def test_a_replay_of_the_emitted_text_is_what_speculative_sampling_did(
    rule: Acceptance, size: int, answers: int, k: int, first: int, seed: int
) -> None:
    world = World(seed)
    real = Simulated(world, rule, k, size, answers, first, seed + 100)
    replayed = rp.replay(world.trace(real.tokens, first), rule, [k])[k]
    assert apart(intervals.paired_difference(replayed.lengths, real.lengths, ONE_ERROR)) < 4
    assert apart(intervals.paired_difference(replayed.visible, real.visible, ONE_ERROR)) < 4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("size", "answers"), SIZES)
@pytest.mark.parametrize("seed", [3, 4])
def test_a_replay_of_plain_text_predicts_speculative_sampling(
    rule: Acceptance, size: int, answers: int, seed: int
) -> None:
    world = World(seed, likeness=0.8)
    trace = world.trace(world.text(np.random.default_rng(seed + 50), answers, size), first=2)
    for k in (2, 6):
        real = Simulated(world, rule, k, size, answers, 2, seed + 200)
        replayed = rp.replay(trace, rule, [k])[k]
        assert apart_unpaired(replayed.lengths, real.lengths) < 4
        assert apart_unpaired(replayed.visible, real.visible) < 4


@pytest.mark.parametrize("k", [1, 3, 8])
def test_greedy_text_is_replayed_exactly(k: int) -> None:
    world = World(7)
    world.p = np.eye(VOCABULARY)[world.p.argmax(-1)] * (1 - 1e-12) + 1e-12 / VOCABULARY
    # Several starts, since one greedy chain soon runs in a circle.
    tokens = np.zeros((16, 60), np.int64)
    tokens[:, 0], tokens[:, 1] = np.divmod(np.arange(16), VOCABULARY)
    for place in range(2, 60):
        tokens[:, place] = world.p[tokens[:, place - 2] * VOCABULARY + tokens[:, place - 1]].argmax(-1)
    replayed = rp.replay(world.trace(tokens, first=2), rp.GREEDY_DRAFT, [k])[k]
    histogram = [0] * (k + 1)
    for row in tokens:
        place = 1
        while place <= 60 - k:
            context, accepted = np.array(row[place - 1]), 0
            context = after(np.array(row[place - 2] if place > 1 else 0), row[place - 1])
            while accepted < k and world.q[context].argmax() == row[place + accepted]:
                context = after(context, row[place + accepted])
                accepted += 1
            histogram[accepted] += 1
            place += accepted + 1
    assert replayed.histogram == pytest.approx(histogram)


def test_block_verification_accepts_at_least_as_much() -> None:
    world = World(11)
    trace = world.trace(world.text(np.random.default_rng(1), 50, 60))
    token, block = rp.replay(trace, SAMPLED), rp.replay(trace, BLOCK)
    lengths = [
        (
            token[k].visible_steps.sum(),
            block[k].visible_steps.sum(),
            intervals.paired_quotient(block[k].lengths, token[k].lengths),
        )
        for k in range(9)
    ]
    assert all(quotient is not None and quotient.high >= 1 for _, _, quotient in lengths)
    assert lengths[8][2] is not None
    assert lengths[8][2].low > 1
    assert lengths[1][0] == pytest.approx(lengths[1][1])


def test_block_verification_is_token_verification_for_first_choice_drafts() -> None:
    trace = trace_of([True, False, True, True] * 8)
    plain, block = rp.replay(trace), rp.replay(trace, Acceptance(block=True))
    assert all(plain[k].reached.tolist() == block[k].reached.tolist() for k in plain)


# Laws of the replay.


@LAW
@given(rows=st.lists(MATCHES, min_size=1, max_size=4), first=st.sampled_from([1, 2]))
def test_lengths_lie_between_one_and_k_plus_one(rows: list[list[bool]], first: int) -> None:
    trace = trace_of(*rows, first=first)
    for k, replayed in rp.replay(trace).items():
        length = replayed.mean_acceptance_length()
        assert (length is None) == (max(map(len, rows)) < max(8 + first - 1, first))
        if length is not None:
            assert 1 <= length.low <= length.value <= length.high <= k + 1
            assert sum(replayed.histogram) == pytest.approx(replayed.num_drafts)


@LAW
@given(rates=st.lists(st.floats(0, 1), min_size=2, max_size=30), place=st.integers(0, 29), better=st.floats(0, 1))
def test_steps_fall_with_k_and_with_any_rate(rates: list[float], place: int, better: float) -> None:
    steps = [float(x.visible_steps[0]) for x in rp.replay(Trace((rated(rates),), first=1), SAMPLED).values()]
    assert all(after <= before + 1e-9 for before, after in pairwise(steps))
    if place < len(rates):
        raised = [*rates]
        raised[place] = max(better, raised[place])
        fewer = rp.replay(Trace((rated(raised),), first=1), SAMPLED)
        assert all(fewer[k].visible_steps[0] <= steps[k] + 1e-9 for k in fewer)


@LAW
@given(rate=st.floats(0, 1), size=st.integers(10, 60), k=st.integers(0, 8))
def test_equal_rates_give_the_closed_form(rate: float, size: int, k: int) -> None:
    length = rp.replay(Trace((rated([rate] * size),)), SAMPLED)[k].mean_acceptance_length()
    assert length is not None
    assert length.value == pytest.approx(mean_acceptance_length(rate, k))


@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_independent_matches_give_the_closed_form(rate: float) -> None:
    rng = np.random.default_rng(5)
    trace = trace_of(*(rng.random((60, 200)) < rate))
    for k, replayed in rp.replay(trace, ks=[1, 3, 8]).items():
        length = replayed.mean_acceptance_length(ONE_ERROR)
        assert length is not None
        assert abs(length.value - mean_acceptance_length(rate, k)) < 4 * (length.high - length.value)
        for column in (replayed.conditional_rates, replayed.marginal_rates):
            assert column[0] == pytest.approx(rate, abs=0.03)
        assert replayed.conditional_rates[:2][-1] == pytest.approx(rate, abs=0.05)
        assert value(replayed.conditional_rate()) == pytest.approx(rate, abs=0.03)
        assert replayed.marginal_rates[-1] == pytest.approx(rate**k, abs=0.03)


@LAW
@given(rows=st.lists(MATCHES, min_size=1, max_size=4), k=st.integers(0, 8), first=st.sampled_from([1, 2]))
def test_a_fixed_policy_is_the_replay(rows: list[list[bool]], k: int, first: int) -> None:
    trace = trace_of(*rows, first=first)
    replayed = rp.replay(trace, ks=[k, 8])[k]
    walked = walk(trace, FixedLength(k), horizon=8)
    assert walked.lengths.y.tolist() == replayed.lengths.y.tolist()
    assert walked.lengths.x.tolist() == replayed.lengths.x.tolist()
    assert walked.visible_steps.tolist() == replayed.visible_steps.tolist()


def test_the_batches_of_a_replay_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    trace = trace_of(*(rng.random(size) < 0.7 for size in rng.integers(1, 60, 30)))
    whole = rp.replay(trace)
    monkeypatch.setattr(rp, "_CELLS", 1000)
    parts = rp.replay(trace)
    assert all(whole[k].reached == pytest.approx(parts[k].reached) for k in whole)
    assert all(whole[k].visible_steps == pytest.approx(parts[k].visible_steps) for k in whole)


# Figures, by hand.


def test_the_figures_of_a_small_walk() -> None:
    # From 1: hit hit miss → 3 tokens; from 4: miss → 1; from 5: hit hit (all of k) → 3; from 8: hit, end.
    trace = trace_of([True, True, False, False, True, True, True, True])
    got = rp.replay(trace, ks=[2])[2]
    assert got.reached.tolist() == [[3, 2, 2]]
    assert got.histogram == (1, 0, 2)
    assert got.num_drafts == 3
    assert got.marginal_rates == pytest.approx((2 / 3, 2 / 3))
    assert got.conditional_rates == pytest.approx((2 / 3, 1))
    assert value(got.mean_acceptance_length()) == pytest.approx(7 / 3)
    assert value(got.visible_length()) == pytest.approx(8 / 4)
    assert value(got.draft_acceptance_rate()) == pytest.approx(4 / 6)
    assert value(got.conditional_rate()) == pytest.approx(4 / 5)
    assert value(rp.acceptance_rate(trace)) == pytest.approx(6 / 8)


def value(interval: rp.Interval | None) -> float:
    assert interval is not None
    return interval.value


def test_the_prefill_emits_the_first_token() -> None:
    trace = trace_of([True, False, True, True], first=2)
    got = rp.replay(trace, ks=[1])[1]
    assert got.reached.tolist() == [[2, 1]]
    assert value(got.visible_length()) == pytest.approx(3 / 2)
    assert value(rp.acceptance_rate(trace)) == pytest.approx(2 / 3)


def test_pooling_is_by_tokens_not_by_prompts() -> None:
    got = rp.replay(trace_of([True] * 40, [False] * 10), ks=[4])[4]
    assert value(got.mean_acceptance_length()) == pytest.approx((8 * 5 + 7) / (8 + 7))


def test_answers_of_one_prompt_are_one_unit() -> None:
    rng = np.random.default_rng(3)
    rows = rng.random((6, 50)) < 0.6
    answers = tuple(answer_from_matches(str(number // 2), row) for number, row in enumerate(rows))
    got = rp.replay(Trace(answers), ks=[3])[3]
    assert got.prompts == ("0", "1", "2")
    assert got.num_drafts == pytest.approx(rp.replay(trace_of(*rows, first=2), ks=[3])[3].num_drafts)


@pytest.mark.parametrize("rule", [rp.GREEDY_DRAFT, SAMPLED], ids=["first choice", "sampled"])
def test_the_smooth_rate_has_the_same_mean_and_less_noise(rule: Acceptance) -> None:
    world = World(4)
    trace = world.trace(world.text(np.random.default_rng(8), 300, 60))
    plain, smooth = (rp.acceptance_rate(trace, rule, smooth=smooth, level=ONE_ERROR) for smooth in (False, True))
    assert plain is not None
    assert smooth is not None
    assert abs(plain.value - smooth.value) < 4 * (plain.high - plain.value)
    assert smooth.high - smooth.value < plain.high - plain.value


# Intervals.


@pytest.mark.parametrize(
    ("probability", "df", "quantile"),
    [
        (0.975, 1, 12.7062047364),
        (0.975, 2, 4.3026527297),
        (0.975, 5, 2.5705818356),
        (0.975, 7, 2.3646242516),
        (0.975, 15, 2.1314495456),
        (0.975, 31, 2.0395134464),
        (0.975, 63, 1.9983405425),
        (0.975, 1000, 1.9623390808),
        (0.9, 3, 1.6377443536),
        (0.9, 15, 1.3406056079),
        (0.995, 30, 2.7499956536),
        (0.9995, 10, 4.5868938587),
        (0.025, 5, -2.5705818356),
        (0.5, 9, 0.0),
    ],
)
def test_t_quantiles_are_those_of_the_tables(probability: float, df: int, quantile: float) -> None:
    assert intervals.t_quantile(probability, df) == pytest.approx(quantile, abs=1e-6)


@pytest.mark.parametrize("probability", [0.55, 0.9, 0.975, 0.9999])
def test_t_quantiles_have_closed_forms_for_one_and_two_degrees(probability: float) -> None:
    assert intervals.t_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)), rel=1e-8)
    middle = 2 * probability - 1
    assert intervals.t_quantile(probability, 2) == pytest.approx(middle * math.sqrt(2 / (1 - middle**2)), rel=1e-8)


def test_t_quantiles_end_at_the_normal_ones() -> None:
    assert intervals.t_quantile(0.975, 1e6) == pytest.approx(1.959966356, abs=1e-6)


def sums(y: Sequence[float], x: Sequence[float], strata: Sequence[str] | None = None) -> Sums:
    names = tuple(str(number) for number in range(len(y)))
    return Sums(names, tuple(strata or [""] * len(y)), np.asarray(y, float), np.asarray(x, float))


def test_a_ratio_interval_by_hand() -> None:
    y, x = np.array([3.0, 5.0, 4.0, 8.0]), np.array([1.0, 2.0, 2.0, 3.0])
    ratio = 20 / 8
    errors = (y - ratio * x) / 2.0
    half = 3.1824463053 * math.sqrt((errors**2).sum() / (4 * 3))
    interval = intervals.ratio_interval(sums(y, x))
    assert interval == pytest.approx((ratio, ratio - half, ratio + half, 0.95))


@pytest.mark.parametrize("prompts", [6, 8, 16, 32])
def test_a_ratio_interval_covers_95_percent(prompts: int) -> None:
    rng = np.random.default_rng(prompts)
    runs, covered = 3000, 0
    for _ in range(runs):
        x = rng.uniform(50, 150, prompts)
        # Prompts differ in their rate, and within a prompt tokens vary: truth is E y / E x = 3.
        y = x * (3.0 + 0.4 * rng.standard_normal(prompts)) + np.sqrt(x) * rng.standard_normal(prompts)
        interval = intervals.ratio_interval(sums(y, x))
        assert interval is not None
        covered += interval.low <= 3.0 <= interval.high
    assert 0.93 <= covered / runs <= 0.97


def test_strata_take_the_difference_between_domains_out() -> None:
    rng = np.random.default_rng(1)
    x = np.full(20, 100.0)
    y = x * np.where(np.arange(20) < 10, 2.0, 4.0) + rng.standard_normal(20)
    plain = intervals.ratio_interval(sums(y, x))
    strata = intervals.ratio_interval(sums(y, x, ["chat"] * 10 + ["code"] * 10))
    assert plain is not None
    assert strata is not None
    assert plain.value == strata.value == pytest.approx(3.0, abs=0.01)
    assert strata.high - strata.low < 0.05 * (plain.high - plain.low)


def test_strata_of_one_prompt_are_taken_together() -> None:
    mixed = intervals.ratio_interval(sums([3, 5, 4, 8], [1, 2, 2, 3], ["a", "b", "c", "d"]))
    assert mixed == pytest.approx(intervals.ratio_interval(sums([3, 5, 4, 8], [1, 2, 2, 3])))
    assert intervals.ratio_interval(sums([3, 5, 4], [1, 2, 2], ["a", "a", "b"])) is not None


def test_one_prompt_says_no_more_than_what_is_possible() -> None:
    assert intervals.ratio_interval(sums([3], [2]), bounds=(1, 5)) == (1.5, 1, 5, 0.95)
    assert intervals.ratio_interval(sums([0], [0])) is None


def test_a_comparison_is_paired_by_prompt() -> None:
    rng = np.random.default_rng(9)
    x = rng.uniform(50, 150, 30)
    level = rng.uniform(2, 4, 30)
    old = sums(x * level, x)
    new = sums(x * (level + 0.05) + rng.standard_normal(30), x)
    difference = intervals.paired_difference(new, old)
    assert difference is not None
    assert 0 < difference.low < 0.05 < difference.high
    alone = intervals.ratio_interval(new)
    assert alone is not None
    assert difference.high - difference.low < 0.1 * (alone.high - alone.low)


def test_a_comparison_uses_the_common_prompts_in_any_order() -> None:
    old = Sums(("a", "b", "c"), ("",) * 3, np.array([2.0, 4.0, 9.0]), np.ones(3))
    new = Sums(("d", "c", "a"), ("",) * 3, np.array([7.0, 10.0, 3.0]), np.ones(3))
    assert intervals.paired_difference(new, old) == pytest.approx((1.0, 1.0, 1.0, 0.95))
    assert value(intervals.paired_quotient(new, old)) == pytest.approx(13 / 11)
    assert intervals.paired_difference(new, old._replace(prompts=("x", "y", "z"))) is None


@pytest.mark.parametrize(
    ("low", "high", "worse"),
    [
        pytest.param(-0.5, -0.2, True, id="surely worse"),
        pytest.param(-0.05, 0.2, False, id="surely not"),
        pytest.param(-0.3, 0.1, None, id="cannot tell"),
    ],
)
def test_a_gate_says_when_it_cannot_tell(low: float, high: float, worse: bool | None) -> None:
    assert intervals.got_worse(rp.Interval((low + high) / 2, low, high, 0.95), 0.1) is worse


def test_the_best_of_several_has_a_wider_interval() -> None:
    assert intervals.level_of_best(1) == pytest.approx(0.95)
    assert intervals.level_of_best(10) == pytest.approx(0.995)


def test_few_prompts_or_tokens_are_of_low_confidence() -> None:
    assert trace_of(*[[True] * 100] * 7).low_confidence
    assert trace_of(*[[True] * 62] * 8).low_confidence
    assert not trace_of(*[[True] * 63] * 8).low_confidence


# Policies.


def lengths_of(policy: Policy, outcomes: Sequence[Callable[[int], int]]) -> list[int]:
    policy.begin()
    lengths = [policy.length()]
    for outcome in outcomes:
        policy.observe(policy.length(), outcome(policy.length()))
        lengths.append(policy.length())
    return lengths


def everything(drafted: int) -> int:
    return drafted


def nothing(drafted: int) -> int:
    return 0


def half(drafted: int) -> int:
    return drafted // 2


@pytest.mark.parametrize(
    ("policy", "outcomes", "lengths"),
    [
        pytest.param(FixedLength(3), [everything, nothing], [3, 3, 3], id="fixed"),
        pytest.param(RateRule(), [everything] * 4, [5, 6, 7, 8, 8], id="rate rule rises to its most"),
        pytest.param(RateRule(), [nothing] * 4, [5, 4, 3, 2, 2], id="rate rule falls to its least"),
        pytest.param(RateRule(start=6), [half] * 3, [6, 6, 6, 6], id="rate rule stays between the bounds"),
        pytest.param(RateRule(window=1), [everything, nothing], [5, 6, 5], id="rate rule forgets"),
        pytest.param(HeuristicLength(5), [everything, nothing, half], [5, 7, 6, 5], id="heuristic"),
        pytest.param(HeuristicLength(2), [nothing] * 3, [2, 1, 1, 1], id="heuristic keeps one"),
        pytest.param(HeuristicLength(5, most=6), [everything], [5, 6], id="heuristic, bounded"),
    ],
)
def test_policies(policy: Policy, outcomes: list[Callable[[int], int]], lengths: list[int]) -> None:
    assert lengths_of(policy, outcomes) == lengths


def test_policies_begin_anew_unless_they_carry_over() -> None:
    for policy, again in [
        (RateRule(), 5),
        (HeuristicLength(5, transient=True), 5),
        (HeuristicLength(5), 9),
    ]:
        lengths_of(policy, [everything] * 2)
        policy.begin()
        assert policy.length() == again


def test_an_adaptive_walk_by_hand() -> None:
    # 2 drafted, 2 hit → 4; 4 drafted, hit miss → 3; 3 drafted, miss → 2; 2 drafted, hit hit.
    trace = trace_of([True, True, False, True, False, False, True, True, True])
    walked = walk(trace, HeuristicLength(2, most=4), horizon=4)
    assert walked.blocks[0] == {(2, 2): 1, (4, 4): 1, (3, 3): 1}
    assert walked.counts.tolist() == [[6, 3, 3, 9, 3]]
    assert walked.visible_steps.tolist() == [4]
    assert value(walked.draft_acceptance_rate()) == pytest.approx(1 / 3)


def real_heuristic_steps(world: World, size: int, answers: int, seed: int) -> np.ndarray:
    """Steps of real speculative sampling under the heuristic schedule, answer by answer."""
    rng = np.random.default_rng(seed)
    steps = np.zeros(answers)
    for answer in range(answers):
        context, position, k = np.array([0]), 0, 3
        while position < size:
            drafted, contexts = draft_block(world, rng, context, k, sampled=True)
            accepted, own = verify(world, rng, drafted, contexts, SAMPLED)
            count = int(accepted[0])
            context = after(contexts[:, count], own)
            position += count + 1
            steps[answer] += 1
            k = min(k + 2, 16) if count == k else max(k - 1, 1)
    return steps


def test_drawn_walks_predict_adaptive_speculative_sampling() -> None:
    world = World(6, likeness=0.8)
    size, answers = 60, 150
    trace = world.trace(world.text(np.random.default_rng(1), answers, size))
    policy = HeuristicLength(3, transient=True, most=16)
    walked = walk(trace, policy, SAMPLED, draws=10, seed=3)
    real = real_heuristic_steps(world, size, answers, 4)
    drawn = walked.visible_steps / 10
    error = math.sqrt(real.var(ddof=1) / answers + drawn.var(ddof=1) / answers)
    assert abs(real.mean() - drawn.mean()) < 4 * error


@pytest.mark.parametrize("rule", [SAMPLED, BLOCK], ids=["token", "block"])
def test_drawn_walks_of_a_fixed_length_agree_with_the_expectation(rule: Acceptance) -> None:
    world = World(9)
    trace = world.trace(world.text(np.random.default_rng(2), 60, 60))
    walked = walk(trace, FixedLength(4), rule, draws=20, seed=1)
    expected = rp.replay(trace, rule, [4])[4]
    assert apart(intervals.paired_difference(walked.lengths, expected.lengths, ONE_ERROR)) < 4


def test_a_seed_gives_the_same_walk() -> None:
    world = World(9)
    trace = world.trace(world.text(np.random.default_rng(2), 5, 60))
    one, other = (walk(trace, RateRule(), SAMPLED, draws=3, seed=7) for _ in range(2))
    assert one.counts.tolist() == other.counts.tolist()


def confident(matches: Sequence[bool], confidence: Sequence[float]) -> Trace:
    return Trace((replace(answer_from_matches("p", matches), draft_top_prob=np.asarray(confidence, float)),), first=1)


@pytest.mark.parametrize(
    ("stop", "blocks"),
    [
        pytest.param(ConfidenceStop(0.4, keep=True), {(2, 2): 1, (4, 4): 1, (1, 1): 2}, id="kept"),
        pytest.param(ConfidenceStop(0.4, keep=False), {(2, 1): 2, (4, 4): 2, (4, 3): 1, (1, 0): 1}, id="dropped"),
        pytest.param(ConfidenceStop(0.0), {(4, 4): 3}, id="never"),
    ],
)
def test_confidence_stops_by_hand(stop: ConfidenceStop, blocks: dict[tuple[int, int], int]) -> None:
    trace = confident(
        [True, True, False, True, True, False, True, True, True, False, True, True, True],
        [0.9, 0.3, 0.9, 0.9, 0.9, 0.9, 0.3, 0.9, 0.2, 0.9, 0.9, 0.9, 0.9],
    )
    walked = walk(trace, FixedLength(4), stop=stop)
    assert sum(walked.blocks[0].values()) == walked.counts[0, 1]
    assert walked.drafted_is_estimate
    assert walked.blocks[0] == blocks


def test_under_a_confidence_stop_the_emitted_lengths_are_exact() -> None:
    world = World(12)
    tokens = world.text(np.random.default_rng(5), 40, 60)
    trace = world.trace(tokens)
    stop = ConfidenceStop(0.5)
    walked = walk(trace, FixedLength(6), stop=stop)
    steps = np.zeros(40)
    for row in range(40):
        start, context = 0, np.array(0)
        while start < 60:
            drafted, accepted, ahead = 0, True, context
            hits = 0
            while drafted < 6:
                # The draft goes on from its own tokens, whether right or wrong.
                top, sure = int(world.q[ahead].argmax()), float(world.q[ahead].max())
                accepted = accepted and start + drafted < 60 and top == tokens[row, start + drafted]
                hits += accepted
                ahead = after(ahead, np.array(top))
                drafted += 1
                if sure < stop.threshold:
                    break
            for token in tokens[row, start : start + hits + 1]:
                context = after(context, token)
            start += hits + 1
            steps[row] += 1
    assert walked.visible_steps.tolist() == steps.tolist()


def test_the_speed_up_of_a_walk_pays_for_every_kind_of_step() -> None:
    trace = trace_of([True, True, False, True, False, False, True, True, True])
    walked = walk(trace, HeuristicLength(2, most=4), horizon=4)
    times = StepTimes(10, 2, 1, (10, 11, 12, 13, 14), 0.5)
    assert value(walked.speedup(times)) == pytest.approx(6 * 10 / (times.step(2) + times.step(3) + times.step(4)))
    plain = walk(trace, FixedLength(0))
    assert value(plain.speedup(times)) == 1


@LAW
@given(rows=st.lists(MATCHES, min_size=1, max_size=3), k=st.integers(1, 6), cost=st.floats(0, 1))
def test_a_fixed_walk_gains_what_the_formula_says(rows: list[list[bool]], k: int, cost: float) -> None:
    walked = walk(trace_of(*rows), FixedLength(k))
    times = step_times(cost, 0.02)
    length, gain = walked.mean_acceptance_length(), walked.speedup(times)
    assert (length is None) == (gain is None)
    if length is not None and gain is not None:
        assert gain.value == pytest.approx(length.value / times.step(k))


# Draft-free methods.


def brute_ngram(context: list[int], min_n: int, max_n: int, k: int) -> list[int]:
    for n in range(max_n, min_n - 1, -1):
        for start in range(len(context) - n):
            if n <= len(context) and context[start : start + n] == context[-n:]:
                return context[start + n : start + n + k]
    return []


def proposals(lookup: Lookup, ids: list[int], k: int) -> Iterator[tuple[list[int], list[int]]]:
    for end, propose in enumerate(lookup.proposers(ids, 1), 1):
        yield ids[:end], list(propose(k))


IDS = st.lists(st.integers(0, 2), min_size=2, max_size=40)
N = st.integers(1, 4) | st.integers(1, 50)
"""Of an n-gram: mostly shorter than the text, at times longer than all of it."""


@LAW
@given(ids=IDS, sizes=st.tuples(N, N), k=st.integers(1, 5))
@example(ids=[1, 1, 1], sizes=(1, 4), k=1)
@example(ids=[1, 2, 1, 2, 1, 2], sizes=(1, 9), k=5)
def test_ngram_lookup_is_the_definition(ids: list[int], sizes: tuple[int, int], k: int) -> None:
    low, high = sorted(sizes)
    got = list(proposals(NgramLookup(low, high), ids, k))
    assert len(got) == len(ids) - 1
    for context, proposal in got:
        assert proposal == brute_ngram(context, low, high, k)


@LAW
@given(ids=IDS, k=st.integers(1, 5))
def test_prompt_lookup_is_cut_at_the_end_of_text(ids: list[int], k: int) -> None:
    for context, proposal in proposals(prompt_lookup(2, frozenset({2})), ids, k):
        whole = brute_ngram(context, 1, 2, k)
        assert proposal == (whole[: whole.index(2)] if 2 in whole else whole)


def occurrences(text: list[int], gram: list[int]) -> int:
    return sum(text[start : start + len(gram)] == gram for start in range(len(text) - len(gram) + 1))


def brute_suffix_score(context: list[int], proposal: list[int], matched: int) -> float:
    score, chance, gram = 0.0, 1.0, context[-matched:]
    for token in proposal:
        if not occurrences(context, [*gram, token]):
            break
        chance *= occurrences(context, [*gram, token]) / occurrences(context, gram)
        gram = [*gram, token]
        score += chance
    return score


@LAW
@given(ids=IDS, k=st.integers(1, 5))
def test_suffix_lookup_follows_the_most_frequent_way_on(ids: list[int], k: int) -> None:
    lookup = SuffixLookup(max_depth=8, min_token_prob=0.0)
    for context, proposal in proposals(lookup, ids, k):
        best = 0.0
        for matched in range(1, min(len(context), 7) + 1):
            way: list[int] = []
            while len(way) < min(k, matched) and matched + len(way) < 8:
                counts = [occurrences(context, [*context[-matched:], *way, token]) for token in range(3)]
                if max(counts) == 0 or counts.count(max(counts)) > 1:
                    break
                way.append(counts.index(max(counts)))
            best = max(best, brute_suffix_score(context, way, matched))
        scores = [
            brute_suffix_score(context, proposal, matched)
            for matched in range(max(len(proposal), 1), min(len(context), 7) + 1)
        ]
        assert len(proposal) <= k
        # Where continuations tie the way taken here may be another, never a worse one.
        assert max(scores, default=0.0) >= best - 1e-9


def test_suffix_lookup_drafts_no_more_than_it_matched_and_stops_when_unsure() -> None:
    ids = [1, 2, 3, 4, 5, 1, 2, 0]
    drafted = [proposal for _, proposal in proposals(SuffixLookup(), ids, 8)]
    assert drafted[5] == [2]
    assert drafted[6] == [3, 4]
    assert [proposal for _, proposal in proposals(SuffixLookup(max_spec_factor=2.0), ids, 8)][6] == [3, 4, 5, 1]
    # Seen once among the two: a chance of 1/2.
    assert [proposal for _, proposal in proposals(SuffixLookup(min_token_prob=0.6), ids, 8)][6] == []


def test_suffix_lookup_prefers_the_longer_match_where_two_score_alike() -> None:
    # Behind 1 came 2 two times in four; behind 7 1 came 3 one time in two.
    ids = [9, 1, 2, 8, 1, 2, 7, 1, 3, 7, 1, 0]
    assert list(proposals(SuffixLookup(), ids, 1))[-1] == (ids[:-1], [3])


def looked_up(prompt: list[int], tokens: list[int], first: int = 2) -> Trace:
    return Trace((Answer("p", np.array(tokens), prompt_ids=np.array(prompt)),), first=first)


def test_a_lookup_walk_by_hand() -> None:
    # Behind the prefill's 1 the prompt has 2 3 4, of which 2 3 are right; 9 is the target's own.
    trace = looked_up([1, 2, 3, 4], [1, 2, 3, 9, 8, 7, 1, 2, 3])
    walked = looked(trace, NgramLookup(1, 1), 3)
    # Behind 9, 8 and 7 nothing is known; the block behind the second 1 is not complete.
    assert walked.counts.tolist() == [[3 + 1 + 1 + 1, 4, 1, 3, 2]]
    assert walked.blocks[0] == {(1, 3): 1, (1, 0): 3}
    assert value(walked.mean_acceptance_length()) == pytest.approx(6 / 4)
    assert walked.visible_tokens.tolist() == [8]
    assert walked.visible_steps.tolist() == [5]


@LAW
@given(before=IDS, tokens=IDS)
@pytest.mark.parametrize("lookup", [NgramLookup(1, 2), prompt_lookup(), SuffixLookup()])
def test_several_lengths_at_once_are_each_by_itself(lookup: Lookup, before: list[int], tokens: list[int]) -> None:
    trace = looked_up(before, tokens)
    together = walk_lookup(trace, lookup, [1, 2, 5], horizon=5)
    for k, walked in zip((1, 2, 5), together, strict=True):
        alone = looked(trace, lookup, k, horizon=5)
        assert walked.blocks == alone.blocks
        assert walked.counts.tolist() == alone.counts.tolist()
        assert walked.visible_steps.tolist() == alone.visible_steps.tolist()


@pytest.mark.parametrize("lookup", [NgramLookup(1, 1), prompt_lookup(), SuffixLookup()])
@pytest.mark.parametrize("tokens", [[1, 2] * 4, [3] * 8, [1, 2, 3, 1, 2, 3, 9, 1]])
def test_without_a_prompt_there_is_nothing_to_look_up_for_the_first_token(lookup: Lookup, tokens: list[int]) -> None:
    first, second = (looked(looked_up([], tokens, first), lookup, 2) for first in (1, 2))
    assert first.counts.tolist() == second.counts.tolist()
    assert first.blocks == second.blocks
    begun = looked(looked_up(tokens[:1], tokens[1:], 1), lookup, 2)
    assert first.blocks == begun.blocks


def test_a_lookup_pays_for_what_it_verifies_alone() -> None:
    trace = looked_up([1, 2, 3, 4], [1, 2, 3, 9, 8, 7, 1, 2, 3])
    walked = looked(trace, NgramLookup(1, 1), 3)
    times = StepTimes(10, 0.1, 0, (10, 11, 12, 13))
    assert value(walked.speedup(times)) == pytest.approx(6 * 10 / (13.1 + 3 * 10.1))


def test_a_repeating_text_is_looked_up_whole() -> None:
    trace = looked_up([5, 6, 7] * 4, [5, 6, 7] * 20)
    assert value(looked(trace, NgramLookup(5, 5), 4).mean_acceptance_length()) == 5
    assert value(looked(trace, prompt_lookup(), 4).mean_acceptance_length()) == 5
    assert value(looked(trace, SuffixLookup(), 4).mean_acceptance_length()) == 5
    assert value(looked(looked_up([1], list(range(2, 40))), NgramLookup(), 4).mean_acceptance_length()) == 1


def test_a_long_trace_is_replayed_in_a_moment() -> None:
    rng = np.random.default_rng(4)
    trace = trace_of(*(rng.random((4, 4096)) < 0.8))
    assert value(rp.replay(trace, ks=range(17))[16].mean_acceptance_length()) == pytest.approx(4.89, abs=0.2)


# What cannot be.


ANSWER = answer_from_matches("what is 2 + 2", [True] * 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda: replace(ANSWER, draft_top=np.zeros(3, np.int64)), "draft_top", id="another length"),
        pytest.param(lambda: replace(ANSWER, log_p=np.array([0, math.nan, 0, 0])), "NaN", id="NaN"),
        pytest.param(lambda: replace(ANSWER, log_q={1.0: np.array([0, 0.5, 0, 0])}), "above 1", id="above 1"),
        pytest.param(lambda: replace(ANSWER, log_p=np.array([0, -math.inf, 0, 0])), "probability 0", id="impossible"),
        pytest.param(lambda: Trace(()), "no answer", id="no answer"),
        pytest.param(lambda: Trace((ANSWER,), first=3), "3", id="first position"),
        pytest.param(lambda: rp.replay(Trace((ANSWER,)), SAMPLED), "log_q at 1.0", id="no log q"),
        pytest.param(lambda: rp.replay(Trace((rated([1.0]),))), "draft_top", id="no first choice"),
        pytest.param(lambda: rp.replay(Trace((ANSWER,)), ks=[-1]), "-1", id="k below 0"),
        pytest.param(lambda: rp.acceptance_rate(Trace((ANSWER,)), smooth=True), "target_prob", id="no smooth column"),
        pytest.param(lambda: walk(Trace((ANSWER,)), FixedLength(4), horizon=3), "horizon", id="horizon below k"),
        pytest.param(
            lambda: walk(Trace((ANSWER,)), FixedLength(4), stop=ConfidenceStop()),
            "draft_top_prob",
            id="no prob",
        ),
        pytest.param(lambda: looked(Trace((ANSWER,)), NgramLookup(), 3), "prompt_ids", id="no prompt"),
        pytest.param(lambda: looked(looked_up([1], [2]), NgramLookup(3, 2), 3), "3 to 2", id="sizes"),
        pytest.param(lambda: RateRule(lower_below=0.8), "0.8", id="bounds crossed"),
        pytest.param(lambda: RateRule(least=0), "0", id="least of 0"),
        pytest.param(lambda: HeuristicLength(0), "0", id="start of 0"),
        pytest.param(lambda: intervals.t_quantile(1.0, 5), "1.0", id="quantile of 1"),
        pytest.param(lambda: intervals.t_quantile(0.9, 0), "0", id="no degrees of freedom"),
        pytest.param(lambda: intervals.ratio_interval(sums([1, 2], [1, 1]), 95), "95", id="level in percent"),
        pytest.param(lambda: intervals.level_of_best(0), "0", id="best of none"),
        pytest.param(
            lambda: walk(trace_of([True] * 30), FixedLength(9)).speedup(step_times(0.1)), "9", id="times too few"
        ),
    ],
)
def test_what_cannot_be_is_said(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert said in caught.value.message
    assert caught.value.hint


# At the bounds.


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: FixedLength(257), id="more tokens than any engine drafts"),
        pytest.param(lambda: FixedLength(-1), id="less than nothing"),
        pytest.param(lambda: FixedLength(2.0), id="no whole number"),  # type: ignore[arg-type]
        pytest.param(lambda: FixedLength(True), id="a truth value"),
        pytest.param(lambda: RateRule(least=0), id="a rule that may draft nothing"),
        pytest.param(lambda: RateRule(least=3, most=2), id="bounds the wrong way round"),
        pytest.param(lambda: RateRule(start=0), id="a start of nothing"),
        pytest.param(lambda: RateRule(window=0), id="no memory"),
        pytest.param(lambda: RateRule(lower_below=0.8), id="rates the wrong way round"),
        pytest.param(lambda: RateRule(raise_above=1.1), id="a rate above 1"),
        pytest.param(lambda: RateRule(lower_below=-0.1), id="a rate below 0"),
        pytest.param(lambda: HeuristicLength(0), id="a heuristic that begins with nothing"),
        pytest.param(lambda: HeuristicLength(most=0), id="a heuristic that drafts nothing"),
        pytest.param(lambda: walk(trace_of([True]), FixedLength(2), horizon=1), id="a horizon below the policy's most"),
        pytest.param(lambda: walk(trace_of([True]), FixedLength(2), SAMPLED, draws=0), id="no draws"),
        pytest.param(lambda: walk(trace_of([True]), FixedLength(2), SAMPLED, draws=10**6 + 1), id="too many draws"),
        pytest.param(lambda: looked(looked_up([1], [1]), NgramLookup(), 0), id="a look-up of nothing"),
        pytest.param(lambda: looked(looked_up([1], [1]), NgramLookup(), 2, horizon=1), id="a look-up beyond"),
        pytest.param(lambda: looked(trace_of([True]), NgramLookup(), 2), id="no ids of the prompt"),
        pytest.param(lambda: list(NgramLookup(0, 1).proposers([1, 2], 1)), id="n-grams of nothing"),
        pytest.param(lambda: list(NgramLookup(3, 2).proposers([1, 2], 1)), id="n-grams the wrong way round"),
        pytest.param(lambda: rp.replay(trace_of([True]), ks=[257]), id="a replay of more than any engine drafts"),
        pytest.param(lambda: rp.replay(trace_of([True]), ks=[-1]), id="a replay of less than nothing"),
        pytest.param(lambda: Trace((answer_from_matches("p", [True]),), first=0), id="a first position of 0"),
        pytest.param(lambda: Trace((answer_from_matches("p", [True]),), first=3), id="a first position of 3"),
        pytest.param(lambda: replace(rated([0.5]), log_p=np.array([0.011])), id="a probability above 1"),
        pytest.param(lambda: replace(rated([0.5]), log_p=np.array([-np.inf])), id="a token that cannot be"),
        pytest.param(lambda: replace(rated([0.5]), draft_top_prob=np.array([np.nan])), id="no number"),
        pytest.param(lambda: replace(rated([0.5]), draft_top_prob=np.array([0.5, 0.5])), id="a column too long"),
        pytest.param(lambda: replace(rated([0.5]), overlap={1.0: np.array([[0.5]])}), id="a column of two dimensions"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: FixedLength(256), id="as many as any engine drafts"),
        pytest.param(lambda: FixedLength(0), id="nothing"),
        pytest.param(lambda: HeuristicLength(256, most=256), id="a heuristic with as many"),
        pytest.param(lambda: RateRule(256, 256, 256, 0, 0, 256), id="a rule with as many"),
        pytest.param(lambda: RateRule(start=1, least=1, most=1, window=1), id="the smallest rule"),
        pytest.param(lambda: RateRule(lower_below=0.5, raise_above=0.5), id="one bound for both"),
        pytest.param(lambda: RateRule(lower_below=0, raise_above=1), id="bounds that are never passed"),
        pytest.param(lambda: HeuristicLength(1, most=1), id="the smallest heuristic"),
        pytest.param(lambda: walk(trace_of([True]), FixedLength(2), horizon=2), id="the policy's most as the horizon"),
        pytest.param(lambda: rp.replay(trace_of([True]), ks=[0]), id="nothing drafted"),
        pytest.param(lambda: replace(rated([0.5]), log_p=np.array([0.01])), id="a rounding above 1"),
        pytest.param(lambda: replace(rated([0.0]), log_q={1.0: np.array([-np.inf])}), id="a token the draft excludes"),
    ],
)
def test_what_can_just_be_is_taken(call: Callable[[], Any]) -> None:
    assert call() is not None


@pytest.mark.parametrize(
    ("policy", "seen", "k"),
    [
        pytest.param(RateRule(), (10, 7), 5, id="at the upper bound"),
        pytest.param(RateRule(), (100, 71), 6, id="above it"),
        pytest.param(RateRule(), (10, 4), 5, id="at the lower bound"),
        pytest.param(RateRule(), (100, 39), 4, id="below it"),
        pytest.param(RateRule(), (0, 0), 4, id="nothing drafted"),
        pytest.param(RateRule(start=1), (10, 5), 2, id="a start below the least"),
        pytest.param(RateRule(start=9), (10, 5), 8, id="a start above the most"),
        pytest.param(HeuristicLength(), (20, 20), 22, id="twenty to begin with"),
        pytest.param(HeuristicLength(64), (64, 64), 64, id="at the most"),
        pytest.param(HeuristicLength(63), (63, 63), 64, id="no further than the most"),
        pytest.param(HeuristicLength(99), (64, 63), 63, id="a start above its most"),
    ],
)
def test_the_next_length(policy: Policy, seen: tuple[int, int], k: int) -> None:
    policy.begin()
    policy.observe(*seen)
    assert policy.length() == k


def test_a_rate_rule_remembers_four_steps() -> None:
    rule = RateRule()
    for seen in [(1, 1)] * 4 + [(1, 0)] * 2:
        rule.observe(*seen)
    # Two of the last four: between the bounds.
    assert lengths_of(RateRule(), [everything] * 3 + [nothing]) == [5, 6, 7, 8, 8]
    before = rule.length()
    rule.observe(1, 0)
    assert rule.length() == before - 1


def test_a_walk_counts_blocks_that_lie_in_the_text() -> None:
    trace = trace_of([True] * 6)
    assert walk(trace, FixedLength(2)).counts.tolist() == [[6, 2, 2, 4, 4]]
    assert walk(trace, FixedLength(2), horizon=3).counts.tolist() == [[6, 2, 2, 4, 4]]
    assert walk(trace, FixedLength(2), horizon=4).counts.tolist() == [[3, 1, 1, 2, 2]]
    assert walk(trace_of([True] * 6, first=2), FixedLength(2)).counts.tolist() == [[6, 2, 2, 4, 4]]
    assert walk(trace_of([True] * 6, first=2), FixedLength(2)).visible_tokens.tolist() == [5]
    empty = walk(trace_of([True]), FixedLength(2))
    assert (empty.mean_acceptance_length(), empty.draft_acceptance_rate()) == (None, None)


def test_what_a_block_costs() -> None:
    times = StepTimes(10, 4, 1, (10, 11, 12, 13), 0.5)
    dropped = confident([True, False, True, True], [0.9, 0.9, 0.1, 0.9])
    walked = walk(dropped, FixedLength(3), stop=ConfidenceStop(0.4, keep=False))
    # Three passes and two tokens, the first right; a block of one pass and none is not complete at horizon 3.
    assert walked.blocks[0] == {(3, 2): 1}
    assert value(walked.speedup(times)) == pytest.approx(2 * 10 / (4 + 2 * 1 + 12 + 0.5))
    with pytest.raises(UsageError):
        walk(trace_of([True] * 9), FixedLength(4)).speedup(times)


@pytest.mark.parametrize(
    ("ids", "lookup", "k", "drafted"),
    [
        pytest.param([1, 2, 1, 0], NgramLookup(1, 1), 3, [2, 1], id="no further than the text"),
        pytest.param([1, 2, 3, 1, 0], NgramLookup(1, 1), 1, [2], id="no more than asked for"),
        pytest.param([1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 0], NgramLookup(), 2, [6, 1], id="five tokens match"),
        pytest.param([2, 3, 4, 5, 6, 2, 3, 4, 5, 0], NgramLookup(), 2, [], id="four tokens match"),
        pytest.param([1, 2, 3, 1, 2, 0], prompt_lookup(), 2, [3, 1], id="two tokens match"),
        pytest.param([1, 9, 1, 2, 3, 4, 1, 2, 0], prompt_lookup(), 1, [3], id="two go before one"),
        pytest.param([1, *[2] * 10, 1, 0], SuffixLookup(), 9, [2], id="a certain way, as far as it matched"),
        pytest.param([*[1, 2], *[1, 3] * 8, 1, 0], SuffixLookup(max_depth=1), 9, [], id="a tree of one level"),
    ],
)
def test_look_ups_by_hand(ids: list[int], lookup: Lookup, k: int, drafted: list[int]) -> None:
    assert list(proposals(lookup, ids, k))[-1] == (ids[:-1], drafted)


@pytest.mark.parametrize(("times", "drafted"), [(9, [2]), (10, [])])
def test_a_suffix_is_followed_down_to_a_tenth(times: int, drafted: list[int]) -> None:
    """Behind 1 came as many tokens, once each; the 1 at the end counts too."""
    ids = [token for place in range(times) for token in (1, 2 + place)]
    assert list(proposals(SuffixLookup(), [*ids, 1, 0], 1))[-1][1] == drafted


def test_the_deepest_match_of_a_suffix() -> None:
    text = list(range(100, 140))
    repeated = list(proposals(SuffixLookup(), [*text, *text[:30], 0], 64))[-1][1]
    # 24 levels hold the match and what is drafted behind it.
    assert repeated == (text * 2)[30:42]


def test_rates_of_positions_where_nothing_was_reached() -> None:
    replayed = rp.replay(trace_of([False] * 5), ks=[3])[3]
    assert replayed.conditional_rates == (0.0, None, None)
    assert replayed.marginal_rates == (0.0, 0.0, 0.0)
    assert replayed.histogram == (3.0, 0.0, 0.0, 0.0)
    assert value(replayed.conditional_rate()) == 0.0
    short = rp.replay(trace_of([True]), ks=[3])[3]
    assert short.marginal_rates == short.conditional_rates == (None, None, None)
    assert (short.num_drafts, short.mean_acceptance_length()) == (0.0, None)


def test_a_stop_where_nobody_said_when() -> None:
    assert ConfidenceStop() == (0.4, True)
