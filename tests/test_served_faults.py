"""Whole probes through servers that fail: what was measured is kept, what was lost is said, and the end is near."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, run
from misbehaving import Behaviour, answer, endless, hang, hang_after, nobody_listens, page, raw, reset
from serving import Handler, Hook, Model, Server, serving

from draftpick.probe_file import read_probe
from draftpick.probing import api, client
from draftpick.probing import trace as traces

PAIR = Path(__file__).parent.parent / "catalog" / "demo"
QUICK = ("--prompts", str(PAIR / "prompts.jsonl"), "--max-new-tokens", "8", "--precision", "0", "--costs", "roofline")
TARGET, DRAFT = Model(PAIR / "target"), Model(PAIR / "draft")
PROMPTS = 12


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in tests: neither between tries, nor a minute for a server that hangs."""
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.0)
    monkeypatch.setattr(client, "MOST_WAIT", 0.0)
    monkeypatch.setattr(api, "SECONDS", 20.0)
    monkeypatch.setattr(api, "SECONDS_PER_TOKEN", 0.0)


@pytest.fixture(scope="module")
def target() -> Iterator[Server]:
    with serving(TARGET) as one:
        yield one


def probe(folder: Path, target: str, draft: str, *options: str, prompts: int = PROMPTS) -> Answer:
    places = ("--target-url", target, "--draft-url", draft, "-o", str(folder / "probe.json"))
    return run(
        "probe", "the-target", "the-draft", *places, *QUICK, "--num-prompts", str(prompts), *options, "--exit-zero"
    )


def at(*turns: int, behave: Behaviour, path: str = "/v1/completions") -> Hook:
    """A hook that misbehaves at these requests of a path, counted from 1; at all without one."""
    seen = []

    def hook(handler: Handler, asked_path: str, asked: dict[str, Any]) -> bool:
        if asked_path != path:
            return False
        seen.append(path)
        if turns and len(seen) not in turns:
            return False
        behave(handler)
        return True

    return hook


BUSY = answer({"error": {"message": "too many requests"}}, 429, Retry_After="1")
BROKEN = answer({"error": {"message": "the engine is dead"}}, 500)
CUT = raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"choices"')
HUGE = endless(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", b"1" * 65_536)
DECLARED = raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n[")

MENDED = {"busy": BUSY, "500": BROKEN, "reset": reset, "cut": CUT}
LOST = {
    "no JSON": page(b"<html>", Content_Type="text/html"),
    "NaN": page(b'{"choices": [{"prompt_logprobs": [NaN]}]}'),
    "400": answer({"error": {"message": "prompt too odd"}}, 400),
    "too large": HUGE,
    "declared too large": DECLARED,
    "hangs": hang,
    "hangs in the body": hang_after(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_another_try_mends_loses_nothing(tmp_path: Path, target: Server, name: str) -> None:
    with serving(DRAFT, hook=at(2, 5, behave=MENDED[name])) as odd:
        said = probe(tmp_path, target.url, odd.url)
    assert said.exit_code == 0, said.stderr
    found = read_probe(tmp_path / "probe.json")
    assert found.num_prompts == PROMPTS
    assert not [one for one in (*found.notes, *found.doubts) if "lost" in one]


@pytest.mark.parametrize("name", LOST)
def test_what_none_mends_loses_one_prompt(
    tmp_path: Path, target: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = (3, 4) if name.startswith("hangs") else (3,)  # a hang is tried once more
    if name.startswith("hangs"):
        monkeypatch.setattr(api, "SECONDS", 3.0)
    with serving(DRAFT, hook=at(*turns, behave=LOST[name])) as odd:
        said = probe(tmp_path, target.url, odd.url, "--batch-size", "1")
    assert said.exit_code == 0, said.stderr
    found = read_probe(tmp_path / "probe.json")
    assert found.num_prompts == PROMPTS - 1
    assert [one for one in (*found.notes, *found.doubts) if one.startswith("1 prompt was lost")]
    assert len(traces.read(tmp_path / "probe.trace.jsonl").rows) == PROMPTS - 1


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (BROKEN, "the engine is dead"),
        (answer({"error": {"message": "no such route"}}, 404), "no such route"),
        (answer({"error": {"message": "wrong key"}}, 401), "DRAFTPICK_API_KEY"),
        (HUGE, "64 MiB"),
        (hang, "within 2 seconds"),
        (reset, "broke off"),
    ],
)
def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, target: Server, behave: Behaviour, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if behave is hang:
        monkeypatch.setattr(api, "SECONDS", 2.0)
    with serving(DRAFT, hook=at(behave=behave)) as odd:
        begun = time.monotonic()
        ended = probe(tmp_path, target.url, odd.url, prompts=60)
    assert time.monotonic() - begun < 30
    assert ended.exit_code == 3
    assert said in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "probe.json").exists()


def test_the_time_limit_holds_before_the_first_answer_too(
    tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "SECONDS", 0.5)  # and as much for another try
    with serving(DRAFT, hook=at(behave=hang)) as odd:
        ended = probe(tmp_path, target.url, odd.url, "--batch-size", "1", "--time-limit", "1", prompts=60)
    assert ended.exit_code == 3
    assert "not one of 1 prompts was measured" in ended.stderr


def test_nobody_listens(tmp_path: Path, target: Server) -> None:
    with nobody_listens() as nowhere:
        for one, other in ((nowhere, target.url), (target.url, nowhere)):
            ended = probe(tmp_path, one, other)
            assert ended.exit_code == 3
            assert nowhere in ended.stderr
            assert "refused" in ended.stderr


def test_a_huge_answer_costs_no_memory(tmp_path: Path, target: Server) -> None:
    """The bound is 64 MiB: a few answers at once, read whole, and no more."""
    with serving(DRAFT, hook=at(1, 2, behave=HUGE)) as odd:
        tracemalloc.start()
        try:
            ended = probe(tmp_path, target.url, odd.url, "--batch-size", "1", prompts=6)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert ended.exit_code == 0, ended.stderr
    assert peak < 300 << 20


def test_faults_all_the_way_lose_only_what_they_hit(tmp_path: Path, target: Server) -> None:
    """Every third request fails in another way; a second run with --resume asks for what is missing."""
    faults = [BUSY, BROKEN, reset, CUT, *(LOST[name] for name in ("no JSON", "400", "NaN"))]
    turns: dict[int, Behaviour] = {3 * place: faults[place % len(faults)] for place in range(1, 40)}
    count = iter(range(1, 10_000))

    def hook(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        behave = turns.get(next(count)) if path == "/v1/completions" else None
        if behave is not None:
            behave(handler)
        return behave is not None

    options = ("--batch-size", "4")
    with serving(DRAFT, hook=hook) as odd:
        first = probe(tmp_path, target.url, odd.url, *options, prompts=24)
        kept = {row.prompt for row in traces.read(tmp_path / "probe.trace.jsonl").rows}
        again = [probe(tmp_path, target.url, odd.url, *options, "--resume", prompts=24) for _ in range(4)]
    assert first.exit_code in (0, 3)
    assert [one.exit_code for one in again][-1] == 0
    found = traces.read(tmp_path / "probe.trace.jsonl").rows
    assert kept <= {row.prompt for row in found}
    assert len(found) == len({row.prompt for row in found}) == 24


def test_a_full_disk_is_said_and_keeps_what_was_written(
    tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    synced: list[int] = []
    whole: Callable[[int], None] = os.fsync

    def full(number: int) -> None:
        synced.append(number)
        if len(synced) > 5:
            raise OSError(28, "No space left on device")
        whole(number)

    monkeypatch.setattr(os, "fsync", full)
    with serving(DRAFT) as fine:
        ended = probe(tmp_path, target.url, fine.url)
    assert ended.exit_code == 3
    assert "No space left on device" in ended.stderr
    monkeypatch.undo()
    assert len(traces.read(tmp_path / "probe.trace.jsonl").rows) == 4
