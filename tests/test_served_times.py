"""Steps seen through streams: what recorded ones show, and the arithmetic from parts to costs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick.choices import PROBE
from draftpick.probing.api import About, Reading, Text
from draftpick.probing.api_vllm import _part
from draftpick.probing.client import Client
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt
from draftpick.probing.served_times import (
    Found,
    Job,
    NotTimed,
    Prices,
    Round,
    Servers,
    Stream,
    Timed,
    from_passes,
    from_steps,
    jobs_of,
    line,
    price,
    prices,
    round_of,
    timed,
    tokens_per_step,
    watch,
    widths,
)
from draftpick.probing.trace import Row

STREAMS = Path(__file__).parent / "streams"
"""What vLLM 0.32.0 sent for the demo pair, on a busy machine: one answer a line, its parts with their times."""


def recorded(name: str) -> list[tuple[Row, Stream]]:
    """Answers of the target alone, or with the draft and three tokens a step."""
    found = []
    for text in (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(text)
        parts = [(at, _part(json.loads(event))) for at, event in one["events"] if event != "[DONE]"]
        parts = [(at, number) for at, number in parts if number]
        row = Row(one["prompt"], "d", "", "en", 0.0, one["prompt_ids"], one["tokens"], "stop", None, None, {})
        found.append((row, Stream(0.0, tuple(at for at, _ in parts), tuple(number for _, number in parts))))
    return found


def even(step: float, *tokens: int, begun: float = 0.0, first: float = 0.5) -> Stream:
    """A stream with the same time between all its parts."""
    at = tuple(begun + first + step * place for place in range(len(tokens) + 1))
    return Stream(begun, at, (1, *tokens))


# ---------------------------------------------------------------------- rounds


@pytest.mark.parametrize(
    ("streams", "k", "step", "merged"),
    [
        pytest.param([even(0.02, *[1] * 40)], 0, 0.02, 0, id="plain"),
        pytest.param([even(0.02, *[1] * 40), even(0.02, *[1] * 40, first=0.6)], 0, 0.02, 0, id="the ramp is left out"),
        pytest.param([even(0.06, *[3] * 20)], 0, 0.02, 20, id="a plain server that sends three tokens at a time"),
        pytest.param([even(0.03, *[1, 4, 2, 1] * 5)], 3, 0.03, 0, id="a step, whatever it accepts"),
        pytest.param([even(0.03, *[1, 4, 2, 5] * 5)], 3, 0.03, 5, id="more than a step can write"),
        pytest.param([even(0.02, *[1] * 40), even(0.02, *[2] * 20)], 1, 0.02, 0, id="one ends sooner"),
    ],
)
def test_a_round_shows_the_step(streams: list[Stream], k: int, step: float, merged: int) -> None:
    seen = round_of(streams, k)
    assert seen is not None
    assert not seen.lumps
    assert seen.step(k) == pytest.approx(step)
    assert seen.merged == merged


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param([even(0.02, *[1] * 40), even(0.02, *[1] * 40, first=2.0)], id="one waited for the other"),
        pytest.param([even(0.02, *[1] * 40), even(0.02, *[1] * 40, first=1.2)], id="together for too short a time"),
        pytest.param([even(0.02, *[1] * 40), Stream(0.0, (), ())], id="one wrote nothing"),
        pytest.param([even(0.02, *[1] * 5)], id="too short"),
    ],
)
def test_answers_that_waited_are_told(streams: list[Stream]) -> None:
    assert round_of(streams, 0) is None


def test_what_lay_in_a_buffer_shows_nothing() -> None:
    together = Stream(0.0, tuple(2.0 + 1e-6 * place for place in range(65)), (1,) * 65)
    by_the_dozen = Stream(0.0, tuple(0.3 * (place // 12 + 1) for place in range(65)), (1,) * 65)
    for stream in (together, by_the_dozen):
        seen = round_of([stream], 0)
        assert seen is not None
        assert seen.lumps


def test_recorded_plain_parts_hold_a_token_each() -> None:
    for _, stream in recorded("plain"):
        seen = round_of([stream], 0)
        assert seen is not None
        assert not seen.lumps
        assert sum(stream.tokens) == 64
        assert seen.tokens >= seen.parts
        assert seen.step(0) == pytest.approx((stream.at[-1] - stream.at[0]) / (64 - stream.tokens[0]))


def test_recorded_parts_of_a_server_that_speculates_are_steps() -> None:
    """A part holds what a step accepted and one token more. The first answer came in one lump; of the second, two steps
    came as one part of five tokens.
    """
    lump, merged, clean = [round_of([stream], 3) for _, stream in recorded("speculating-3")]
    assert lump is not None
    assert lump.lumps
    assert merged is not None
    assert clean is not None
    assert not merged.lumps
    assert not clean.lumps
    assert (merged.merged, clean.merged) == (1, 0)
    assert [max(stream.tokens) for _, stream in recorded("speculating-3")] == [4, 5, 4]
    assert all(one.tokens > 1.5 * one.parts for one in (merged, clean))


@given(
    st.lists(st.integers(1, 4), min_size=10, max_size=40),
    st.floats(0.001, 1.0),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 100.0),
)
def test_a_clock_that_is_set_or_runs_otherwise_changes_no_share(
    tokens: list[int], step: float, shift: float, factor: float
) -> None:
    stream = even(step, *tokens, first=step)
    moved = Stream(shift, tuple(shift + factor * at for at in stream.at), stream.tokens)
    one, other = round_of([stream], 3), round_of([moved], 3)
    assert one is not None
    assert other is not None
    assert other.step(3) == pytest.approx(factor * one.step(3), rel=1e-6)
    assert (one.parts, one.tokens, one.merged) == (other.parts, other.tokens, other.merged)


@given(st.integers(20, 60), st.sets(st.integers(2, 59)))
def test_plain_steps_are_the_same_however_parts_are_put_together(size: int, gone: set[int]) -> None:
    """As long as enough of them come apart: a part that is not sent adds its tokens to the next."""
    whole = even(0.02, *[1] * size)
    kept = [place for place in range(size + 1) if place not in gone or place == size]
    tokens = [after - before for before, after in zip([-1, *kept], kept, strict=False)]
    merged = round_of([Stream(0.0, tuple(whole.at[place] for place in kept), tuple(tokens))], 0)
    if merged is not None:
        assert merged.step(0) == pytest.approx(0.02)


# ---------------------------------------------------------------------- the step of several rounds


NOBODY = tokens_per_step([])


def seconds(*values: float, lumps: bool = False) -> list[Round]:
    return [Round(10 * value, 10, 10, 0, lumps) for value in values]


@pytest.mark.parametrize(
    ("rounds", "step", "spread"),
    [
        pytest.param(seconds(0.02), 0.02, 0.0, id="one"),
        pytest.param(seconds(*[0.02] * 5), 0.02, 0.0, id="alike"),
        pytest.param(seconds(0.02, 0.02, 0.02, 0.02, 0.5), 0.02, None, id="one was disturbed"),
        pytest.param([*seconds(0.02, 0.02), *seconds(9.0, lumps=True)], 0.02, 0.0, id="lumps do not count"),
    ],
)
def test_the_median_of_rounds(rounds: list[Round], step: float, spread: float | None) -> None:
    found = timed(rounds, 0, NOBODY)
    assert found is not None
    assert found.seconds == pytest.approx(step)
    assert found.spread == pytest.approx(spread) if spread is not None else found.spread > 0


def test_where_most_rounds_are_lumps_nothing_is_told() -> None:
    assert timed([*seconds(0.02), *seconds(9.0, lumps=True)], 0, NOBODY) is None
    assert timed([], 0, NOBODY) is None


def test_tokens_per_step_end_where_the_measured_text_does() -> None:
    row = Row("p", "d", "code", "en", 0.0, [1], list(range(9)), "stop", None, None, {})
    found = tokens_per_step([(row, even(0.02, 3, 2, 2, 4, 4)), (row, even(0.02, 4, 4, 1))])
    assert (found.prompts, found.strata) == (("p",), ("code",))
    assert found.y.tolist() == [3 + 2 + 2 + 4 + 4]  # 1 + 3 + 2 + 2 = 8 of 9; 1 + 4 + 4 = 9 of 9
    assert found.x.tolist() == [3 + 2]


def test_recorded_tokens_per_step_are_those_of_the_measured_text() -> None:
    found = tokens_per_step(recorded("speculating-3"))
    lengths = {row.prompt: len(row.tokens) for row, _ in recorded("speculating-3")}
    assert set(found.prompts) == set(lengths)
    for prompt, tokens, steps in zip(found.prompts, found.y, found.x, strict=True):
        assert 0 < steps <= tokens < lengths[prompt]


# ---------------------------------------------------------------------- lines and costs


POINTS = st.dictionaries(st.integers(1, 16), st.floats(0.001, 10.0), min_size=1, max_size=5)


@given(POINTS, st.floats(0.001, 10.0), st.integers(0, 20))
def test_lines_never_fall_and_lie_on_their_points(points: dict[int, float], first: float, most: int) -> None:
    ordered = {0: first}
    for at in sorted(points):
        ordered[at] = max(points[at], *ordered.values())
    values = line(ordered, most)
    assert len(values) == most + 1
    assert list(values) == sorted(values)
    for at, value in ordered.items():
        if at <= most:
            assert values[at] == pytest.approx(value)


@pytest.mark.parametrize(
    ("points", "values"),
    [
        pytest.param({0: 10.0, 2: 14.0}, (10, 12, 14, 16, 18), id="on along the last"),
        pytest.param({0: 10.0, 1: 15.0, 3: 17.0}, (10, 15, 16, 17, 18), id="the last slope"),
        pytest.param({0: 10.0, 2: 8.0}, (10, 10, 10, 10, 10), id="what falls is noise"),
    ],
)
def test_lines(points: Mapping[int, float], values: Sequence[float]) -> None:
    assert line(points, 4) == pytest.approx(values)


@given(st.integers(1, 64))
def test_widths_reach_from_one_position_to_the_last(k_max: int) -> None:
    found = widths(k_max)
    assert found[:2] == [1, 2]
    assert found[-1] == k_max + 1
    assert found == sorted(set(found))
    assert len(found) <= 3 + math.log2(k_max + 1)


def test_steps_out_of_passes_and_whole_ones() -> None:
    parts = from_passes({1: 10.0, 2: 11.0, 4: 15.0}, 2.0)
    assert parts.verify == pytest.approx((10, 11, 13, 15))
    assert parts.step(3) == pytest.approx(3 * 2 + 15)
    whole = from_steps(10.0, {1: 13.0, 3: 20.0}, 4)
    assert [whole.step(k) for k in range(5)] == pytest.approx([10, 13, 16.5, 20, 23.5])


# ---------------------------------------------------------------------- watching


class Recorded:
    """A server that sends its parts at given times."""

    def __init__(
        self, name: str, step: float, tokens: int = 1, *, late: Sequence[float] = (0.0,), max_length: int | None = None
    ) -> None:
        """`late`: of so many answers at once, by how much each begins later."""
        self.client, self.about = Client(f"http://{name}.test"), About(name, name, "vllm", "0.32.0", max_length)
        self._parts = [(step * place, tokens if place else 1) for place in range(40)]
        self._late = itertools.cycle(late)

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        late = next(self._late)
        yield from ((late + at, number) for at, number in self._parts)

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        raise AssertionError

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        raise AssertionError

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        raise AssertionError


ROWS = [row for row, _ in recorded("plain")]


def silent(_: str) -> None:
    pass


def priced(servers: Servers, batches: Sequence[int] = (1,), k_max: int = 4) -> Prices:
    drafts = list(servers.drafts) or ["d"]
    return price(servers, drafts, ROWS, Sampling(), batches=batches, k_max=k_max, say=silent)


def test_costs_of_a_draft_in_a_server_of_its_own() -> None:
    found = priced(Servers(Recorded("t", 0.02), {"d": Recorded("d", 0.004), "e": Recorded("e", 0.01)}))
    assert found.refused == []
    times = found.costs["d"].times()
    assert (times.target, times.draft) == pytest.approx((0.02, 0.004))
    assert times.step(4) == pytest.approx(4 * 0.004 + 0.02)
    assert found.costs["e"].times().draft == pytest.approx(0.01)
    assert not found.costs["d"].whole_steps
    assert "vllm 0.32.0" in found.costs["d"].software


def test_whole_steps_of_servers_that_speculate() -> None:
    speculating = {1: Recorded("one", 0.03, 2), 3: Recorded("three", 0.05, 3)}
    found = priced(Servers(Recorded("t", 0.02), {}, speculating))
    assert [found.costs["d"].times().step(k) for k in range(5)] == pytest.approx([0.02, 0.03, 0.04, 0.05, 0.06])
    assert found.costs["d"].whole_steps
    assert found.costs["d"].doubts == []
    assert found.own.keys() == {1, 3}
    assert found.own[3].lengths.ratio == pytest.approx(3.0)


def test_a_server_that_keeps_one_of_two_waiting_runs_one() -> None:
    server = Recorded("t", 0.02, late=(0.0, 0.9))
    assert watch([Job(server, 2)], ROWS, Sampling(), silent) == [None]
    (found,) = watch([Job(Recorded("t", 0.02, late=(0.0, 0.1)), 2)], ROWS, Sampling(), silent)
    assert found is not None
    assert found.seconds == pytest.approx(0.02)


def found_with(servers: Servers, batches: Sequence[int], most: int) -> Found:
    """Steps of 10 ms, with at most so many sequences at once."""
    jobs = jobs_of(servers, batches, 4)
    return {job: Timed(0.01, 0.0, 0.0, NOBODY) if job.num_seqs <= most else None for job in jobs}


@pytest.mark.parametrize(
    ("batches", "seats", "reach", "refused"),
    [
        pytest.param((1,), 5, 4, [], id="room for all"),
        pytest.param((1,), 4, 2, [], id="room for fewer tokens"),
        pytest.param((1, 4), 8, 4, [], id="room for one token with four"),
        pytest.param((1, 4), 7, 4, [4], id="no room for four"),
    ],
)
def test_a_server_prices_what_it_has_room_for(
    batches: Sequence[int], seats: int, reach: int, refused: list[int]
) -> None:
    servers = Servers(Recorded("t", 0.01), {"d": Recorded("d", 0.01)})
    found = prices(servers, ["d"], found_with(servers, batches, seats), batches=batches, k_max=4, context=64)
    assert found.refused == refused
    assert found.costs["d"].times().most_tokens == reach
    said = [doubt for doubt in found.costs["d"].doubts if "sequences at once" in doubt]
    assert bool(said) == any(seats < 5 * batch for batch in found.costs["d"].steps)


def test_without_room_for_one_there_are_no_costs() -> None:
    servers = Servers(Recorded("t", 0.01), {"d": Recorded("d", 0.01)})
    found = prices(servers, ["d"], found_with(servers, (4,), 3), batches=(4,), k_max=4, context=64)
    assert (found.costs, found.refused) == ({}, [4])


def test_unsteady_steps_are_told() -> None:
    servers = Servers(Recorded("t", 0.01), {"d": Recorded("d", 0.01)})
    found = {job: Timed(0.01, 0.2, 0.0, NOBODY) for job in jobs_of(servers, (1,), 4)}
    costs = prices(servers, ["d"], found, batches=(1,), k_max=4, context=64).costs["d"]
    assert costs.spread() == pytest.approx(0.2 * math.sqrt(3))
    assert any("known to ±20 %" in doubt for doubt in costs.doubts)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        (Servers(Recorded("t", 0.02, 3), {"d": Recorded("d", 0.004)}), "speed-ups are those over it"),
        (
            Servers(Recorded("t", 0.02), {"d": Recorded("d", 0.004, 3)}),
            "http://d.test sends hold several tokens: if it speculates, its steps are not plain ones, and a drafted",
        ),
        (Servers(Recorded("t", 0.02), {}, {1: Recorded("one", 0.03, 3)}), "more than the 2 tokens of a step"),
    ],
    ids=["a target that speculates", "a draft that speculates", "a server that drafts more than was said"],
)
def test_parts_that_hold_too_much_are_told(servers: Servers, words: str) -> None:
    (costs,) = priced(servers).costs.values()
    assert any(words in doubt for doubt in costs.doubts)


def test_a_proxy_that_keeps_answers_together_is_named() -> None:
    with pytest.raises(NotTimed, match=r"http://t\.test come in lumps"):
        watch([Job(Recorded("t", 0.0), 1)], ROWS, Sampling(), silent)


def test_prompts_that_do_not_fit_are_left_out() -> None:
    longest = max(len(row.prompt_ids) for row in ROWS)
    short = Recorded("t", 0.02, max_length=longest + int(PROBE["stream-tokens"]))
    assert watch([Job(short, 1)], ROWS, Sampling(), silent)[0] is not None
    with pytest.raises(NotTimed, match="no prompt fits"):
        watch([Job(Recorded("t", 0.02, max_length=20), 1)], ROWS, Sampling(), silent)
