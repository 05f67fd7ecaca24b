"""Traces on disk: what was written is read, torn lines are dropped, and nothing else passes for an answer."""

from __future__ import annotations

import json
import math
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.atomic import CannotWrite
from draftpick.errors import InvalidFile, UsageError
from draftpick.probing.trace import DraftColumns, Row, TraceFile, Writer, as_trace, check_same, read
from draftpick.replay import Acceptance, log_ratios

LAW = settings(deadline=None, derandomize=True, max_examples=60)
HEADER: dict[str, Any] = {
    "target": {"id": "acme/target", "revision": None, "weights": "aa", "config": "bb"},
    "drafts": [{"id": "acme/draft", "weights": "cc"}],
    "temperatures": [0.0, 0.7],
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "max_new_tokens": 8,
    "thinking": None,
    "dtype": "float32",
    "eos_ids": [2],
}
IDS = st.integers(0, 2**31 - 1)
SHARES = st.floats(0, 1)
LOGS = st.floats(-1e4, 0) | st.just(-math.inf)
TEXTS = st.text(max_size=10)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    size = draw(st.integers(0, 4))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    sampled = draw(st.booleans())
    heats = ["0.7", "0.49"] if sampled else ["1"]
    return Row(
        draw(TEXTS),
        draw(TEXTS),
        draw(TEXTS),
        draw(TEXTS),
        0.7 if sampled else 0.0,
        draw(st.lists(IDS, max_size=4)),
        column(IDS),
        draw(st.sampled_from(["stop", "length"])),
        column(st.floats(-1e4, 0)),
        None if sampled else column(st.floats(0, 1e4)),
        {
            "acme/draft": DraftColumns(
                column(IDS),
                column(SHARES),
                column(SHARES) if sampled else None,
                {heat: column(LOGS) for heat in heats},
                {heat: column(SHARES) for heat in heats} if sampled else {},
            )
        },
    )


def row(**changes: Any) -> Row:
    columns = DraftColumns([5, 6], [0.5, 0.25], None, {"1": [-0.5, -2.0]}, {})
    plain = Row("p", "d", "chat", "en", 0.0, [3], [5, 2], "stop", [-0.1, -0.2], [1.0, 2.0], {"acme/draft": columns})
    return plain._replace(**changes)


def written(path: Path, *answers: Row) -> Path:
    with Writer(path, HEADER) as writer:
        writer.append(answers)
    return path


def assert_near(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_near(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4)
    else:
        assert found == expected


# ---------------------------------------------------------------------- what was written is read


@given(st.lists(rows(), min_size=1, max_size=3))
@LAW
def test_what_was_written_is_read(answers: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read(written(Path(folder) / "trace.jsonl", *answers))
        size = os.path.getsize(found.path)
    assert found.header == {"draftpick_trace": 1, **HEADER}
    assert (found.drafts, found.temperatures, found.eos_ids) == (["acme/draft"], [0.0, 0.7], {2})
    assert found.size == size
    assert_near(list(found.rows), answers)


def test_a_probability_of_zero_is_still_one() -> None:
    with tempfile.TemporaryDirectory() as folder:
        columns = DraftColumns([5], [0.5], [0.5], {"0.7": [-math.inf]}, {"0.7": [0.5]})
        answer = row(temperature=0.7, tokens=[5], log_p=[-1.0], gap=None, drafts={"acme/draft": columns})
        found = read(written(Path(folder) / "t", answer))
    [one] = found.of("acme/draft", 0.7).answers
    assert log_ratios(one, Acceptance(sampled=True, draft_temperature=0.7)).tolist() == [-math.inf]


def test_a_choice_without_a_second_one_is_written(tmp_path: Path) -> None:
    found = read(written(tmp_path / "t", row(gap=[math.inf, 1.0])))
    assert found.rows[0].gap == [1e5, 1.0]


def test_a_trace_is_read_for_the_replay(tmp_path: Path) -> None:
    found = read(written(tmp_path / "t", row(), row(tokens=[], log_p=[], gap=[], prompt="empty", drafts=no_columns())))
    trace = found.of("acme/draft", 0.0)
    assert [answer.prompt for answer in trace.answers] == ["p"], "an answer without tokens says nothing"
    [answer] = trace.answers
    assert (answer.tokens.tolist(), answer.domain, answer.ended) == ([5, 2], "chat", "stop")
    assert answer.prompt_ids is not None
    assert answer.prompt_ids.tolist() == [3]
    assert answer.draft_top is not None
    np.testing.assert_array_equal(answer.draft_top == answer.tokens, [True, False])
    assert trace.eos_ids == {2}
    assert found.of(None, 0.0).answers[0].draft_top is None
    with pytest.raises(UsageError, match=r"no answer at temperature 0\.7"):
        found.of("acme/draft", 0.7)
    with pytest.raises(UsageError, match="no answer"):
        as_trace([], None, 0.0)


def no_columns() -> dict[str, DraftColumns]:
    return {"acme/draft": DraftColumns([], [], None, {"1": []}, {})}


# ---------------------------------------------------------------------- torn lines, and going on


def test_a_torn_last_line_is_dropped_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = written(tmp_path / "t", row(prompt="one"), row(prompt="zwei ü")).read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    torn = tmp_path / "torn"
    for size in range(len(whole) + 1):
        torn.write_bytes(whole[:size])
        lines = sum(1 for end in ends if end <= size)
        if lines == 0:
            with pytest.raises(InvalidFile, match="no trace in it"):
                read(torn)
        else:
            found = read(torn)
            assert (len(found.rows), found.size) == (lines - 1, ends[lines - 1])


@pytest.mark.parametrize("torn", [b"", b"{", b'{"prompt": "p"}', b"\xff\xff", b"\0" * 5000])
def test_a_resumed_trace_goes_on_behind_its_last_whole_line(torn: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "t", row(prompt="one"))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with Writer(path, HEADER, keep=read(path)) as writer:
        writer.append([row(prompt="two")])
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes() == written(tmp_path / "other", row(prompt="one"), row(prompt="two")).read_bytes()


def test_a_trace_without_an_answer_is_gone_and_one_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Writer(tmp_path / "t", HEADER) as writer:
        raise KeyboardInterrupt
    assert not writer.path.exists()
    path = written(tmp_path / "t", row())
    with pytest.raises(KeyboardInterrupt), Writer(path, HEADER, keep=read(path)):
        raise KeyboardInterrupt
    assert len(read(path).rows) == 1


def test_an_old_trace_is_never_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path / "t", row())
    before = path.read_bytes()
    with pytest.raises(CannotWrite, match="File exists") as caught:
        Writer(path, HEADER)
    assert caught.value.exit_code == 3
    assert path.read_bytes() == before


# ---------------------------------------------------------------------- full disks


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond this: as on a full disk, a part of a line is written and the rest refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("missing", [1, 10, 100])
def test_a_full_disk_keeps_the_lines_before(missing: int, tmp_path: Path) -> None:
    path = written(tmp_path / "t", row(prompt="one"))
    before = path.read_bytes()
    size = written(tmp_path / "whole", row(prompt="one"), row(prompt="two")).stat().st_size
    with Writer(path, HEADER, keep=read(path)) as writer:
        with room_for(size - missing), pytest.raises(CannotWrite, match="File too large") as caught:
            writer.append([row(prompt="two")])
        assert caught.value.exit_code == 3
        assert "--resume" in caught.value.hint
        assert path.read_bytes() == before
        writer.append([row(prompt="two")])
    assert [one.prompt for one in read(path).rows] == ["one", "two"]


def test_where_not_even_the_header_fits_nothing_stays(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with room_for(20), pytest.raises(CannotWrite) as caught:
        Writer(path, HEADER)
    assert "--resume" not in caught.value.hint
    assert not path.exists(), "an empty file would stand in the way of the next try"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_device_that_is_full_is_told(tmp_path: Path) -> None:
    keep = TraceFile(Path("/dev/full"), HEADER, [], 0)
    with pytest.raises(CannotWrite) as caught, Writer(keep.path, HEADER, keep=keep) as writer:
        writer.append([row()])
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", ["no/such/folder/t", ".", "a\0b", "x" * 300])
def test_a_place_that_cannot_be_written_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(CannotWrite) as caught:
        Writer(tmp_path / name, HEADER)
    assert "--trace" in caught.value.hint


# ---------------------------------------------------------------------- hostile lines


def test_the_lines_that_are_changed_below_are_fine(tmp_path: Path) -> None:
    assert len(read(lines(tmp_path, header(), answer())).rows) == 1


def lines(folder: Path, *values: Any) -> Path:
    path = folder / "t"
    path.write_bytes(b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in values))
    return path


def header(**changes: Any) -> dict[str, Any]:
    return {"draftpick_trace": 1, **HEADER, **changes}


def answer(**changes: Any) -> dict[str, Any]:
    plain = row()._asdict()
    plain["drafts"] = {name: columns._asdict() for name, columns in row().drafts.items()}
    return {**plain, **changes}


def drafted(**changes: Any) -> dict[str, Any]:
    return answer(drafts={"acme/draft": {**answer()["drafts"]["acme/draft"], **changes}})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (header(draftpick_trace=2), "not a trace that this draftpick reads (2)"),
        (header(draftpick_trace="1"), "not a trace"),
        ({"prompt": "Hi"}, "not a trace that this draftpick reads ('no version')"),
        ([1], "holds a list"),
        (b"not JSON\n", "is not valid JSON"),
        (b"\n", "is not valid JSON: it is empty"),
        (header(drafts=None), "lacks the ids of its drafts"),
        (header(drafts=["acme/draft"]), "lacks the ids of its drafts"),
        (header(drafts=[{"id": 5}]), "lacks the ids of its drafts"),
        (header(temperatures=0.7), "temperatures or eos_ids"),
        (header(temperatures=["0.7"]), "temperatures or eos_ids"),
        (header(temperatures=[math.nan]), "temperatures or eos_ids"),
        (header(temperatures=[True]), "temperatures or eos_ids"),
        (header(eos_ids=2), "temperatures or eos_ids"),
        (header(eos_ids=[2.5]), "temperatures or eos_ids"),
        (b'{"draftpick_trace":' * 100_000 + b"\n", "nested too deeply"),
    ],
)
def test_what_is_no_header_is_told(value: Any, said: str, tmp_path: Path) -> None:
    path = lines(tmp_path, value)
    with pytest.raises(InvalidFile) as caught:
        read(path)
    assert f"{path}:1" in caught.value.message
    assert said in caught.value.message


HUGE = 10**200
UNFIT: list[tuple[str, Any, str]] = [
    ("no JSON", b"{]\n", "is not valid JSON"),
    ("no UTF-8", b'{"a": "\xff"}\n', "is not valid JSON"),
    ("a list", [1], "holds a list"),
    ("deep", b'{"a":' + b"[" * 100_000 + b"\n", "nested too deeply"),
    ("digits", b'{"a":' + b"9" * 1000 + b"}\n", "a number of 1,000 digits"),
    ("nothing in it", {}, "not an answer"),
    ("lacks a field", {name: value for name, value in answer().items() if name != "tokens"}, "not an answer"),
    ("unknown field", answer(extra=1), "not an answer"),
    ("drafts is a list", answer(drafts=[]), "not an answer"),
    ("a draft is a list", answer(drafts={"acme/draft": []}), "not an answer"),
    ("unknown column", drafted(extra=[1, 2]), "not an answer"),
    ("another draft", answer(drafts={"x": answer()["drafts"]["acme/draft"]}), "one of its drafts is missing"),
    ("no draft", answer(drafts={}), "one of its drafts is missing"),
    ("prompt", answer(prompt=5), "prompt is missing or not"),
    ("digest", answer(digest=None), "digest"),
    ("domain", answer(domain=[]), "domain"),
    ("temperature text", answer(temperature="0"), "temperature"),
    ("temperature NaN", answer(temperature=math.nan), "temperature"),
    ("prompt_ids", answer(prompt_ids=[-1]), "prompt_ids"),
    ("tokens text", answer(tokens="ab"), "tokens"),
    ("tokens true", answer(tokens=[True, 2]), "tokens"),
    ("tokens fraction", answer(tokens=[1.5, 2]), "tokens"),
    ("tokens huge", answer(tokens=[HUGE, 2]), "tokens"),
    ("tokens shorter", answer(tokens=[5]), "log_p"),
    ("ended", answer(ended="crash"), "ended"),
    ("ended list", answer(ended=["stop"]), "ended"),
    ("log_p longer", answer(log_p=[-1, -1, -1]), "log_p"),
    ("log_p NaN", answer(log_p=[math.nan, -1]), "log_p"),
    ("log_p infinite", answer(log_p=[-math.inf, -1]), "log_p"),
    ("log_p positive", answer(log_p=[2, -1]), "log_p"),
    ("gap shorter", answer(gap=[1]), "gap"),
    ("gap object", answer(gap={}), "gap"),
    ("top shorter", drafted(top=[5]), "acme/draft: top"),
    ("top null", drafted(top=None), "acme/draft: top"),
    ("top huge", drafted(top=[2**70, 5]), "acme/draft: top"),
    ("top_prob above 1", drafted(top_prob=[0.5, 1.5]), "acme/draft: top_prob"),
    ("target_prob_of_top", drafted(target_prob_of_top=[0.5]), "acme/draft: target_prob_of_top"),
    ("log_q a list", drafted(log_q=[1, 2]), "acme/draft: log_q"),
    ("log_q shorter", drafted(log_q={"1": [-1]}), "acme/draft: log_q at 1"),
    ("log_q at a word", drafted(log_q={"warm": [-1, -1]}), "acme/draft: log_q at warm"),
    ("overlap text", drafted(overlap={"1": ["0.5", "0.5"]}), "acme/draft: overlap at 1"),
    ("overlap huge", drafted(overlap={"1": [HUGE, 1]}), "acme/draft: overlap at 1"),
]


@pytest.mark.parametrize(("value", "said"), [case[1:] for case in UNFIT], ids=[case[0] for case in UNFIT])
def test_what_is_no_answer_is_told(value: Any, said: str, tmp_path: Path) -> None:
    path = lines(tmp_path, header(), answer(), value, answer())
    with pytest.raises(InvalidFile) as caught:
        read(path)
    assert f"{path}:3" in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"no newline"])
def test_a_file_without_a_whole_line_is_no_trace(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no trace in it"):
        read(lines(tmp_path, content))


@given(st.binary(max_size=200))
@LAW
def test_no_bytes_break_the_reader(noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = lines(Path(folder), header(), answer(), b"{" + noise + b"\n")
        with pytest.raises(InvalidFile, match=r"t:\d+"):
            read(path)


# ---------------------------------------------------------------------- the same run?


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": {**HEADER["target"], "weights": "zz"}}, "its target.weights was 'aa', now it is 'zz'"),
        ({"target": {**HEADER["target"], "revision": "main"}}, "its target.revision was None, now it is 'main'"),
        ({"target": {"id": "acme/target"}}, "its target.weights was 'aa', now it is None"),
        ({"drafts": [{"id": "acme/other", "weights": "cc"}]}, "its drafts[0].id was 'acme/draft'"),
        ({"drafts": []}, "its drafts was"),
        ({"temperatures": [0.0, 0.8]}, "its temperatures[1] was 0.7, now it is 0.8"),
        ({"temperatures": [0.0]}, "its temperatures was [0.0, 0.7], now it is [0.0]"),
        ({"top_k": 5}, "its top_k was 0, now it is 5"),
        ({"top_p": 0.9}, "its top_p was 1.0"),
        ({"seed": 1}, "its seed was 0"),
        ({"max_new_tokens": 9}, "its max_new_tokens was 8"),
        ({"thinking": True}, "its thinking was None, now it is True"),
        ({"prompts_digest": "other"}, "its prompts_digest was None, now it is 'other'"),
        ({"dtype": "bfloat16"}, "its dtype was 'float32'"),
    ],
)
def test_a_trace_goes_on_only_with_the_same_run(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    found = read(written(tmp_path / "t", row()))
    check_same(found, HEADER)
    check_same(found, {**HEADER, "device": "npu:1", "software": "newer"})
    with pytest.raises(UsageError) as caught:
        check_same(found, {**HEADER, **changes})
    assert said in caught.value.message
    assert "resume" in caught.value.hint
