"""A call that would never end, or never stop to grow, ends; what ends by itself is left alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from draftpick.models.watch import Overrun, watched


def turn() -> None:
    while True:
        pass


def turn_and_catch() -> None:
    while True:
        try:
            turn()
        except Exception:
            continue


def grow() -> None:
    held: list[bytearray] = []
    while True:
        held.append(bytearray(b"x" * 2**20))


@pytest.mark.parametrize("call", [turn, turn_and_catch])
def test_a_call_without_end_is_ended(call: Callable[[], None]) -> None:
    with pytest.raises(Overrun, match=r"0\.1 seconds"), watched(0.1):
        call()


def test_an_answer_without_end_is_ended() -> None:
    with pytest.raises(Overrun, match="no end"), watched(30.0, memory_bytes=20 * 2**20):
        grow()


def test_a_file_without_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large"), watched(file_bytes=10_000):
        (tmp_path / "large").write_bytes(b"x" * 20_000)


def test_nothing_stays_behind(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with watched(file_bytes=10):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (tmp_path / "any").write_bytes(b"x" * 20) == 20


def test_another_thread_is_not_watched() -> None:
    ended: list[bool] = []

    def work() -> None:
        with watched(0.0):
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]
