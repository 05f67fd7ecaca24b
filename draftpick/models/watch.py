"""Bounds on a dialogue with a server, whatever the client library does: time, memory, size of the files written."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 60.0
"""For all answers and files of one model; the largest tokenizer has 34 MB."""
MEMORY_BYTES = 200 * 2**20
FILE_BYTES = 80 * 2**20
_EVERY = 0.1
_AGAIN = 2.0


class Overrun(BaseException):
    """The server answers too slowly or too much. No Exception, so that no library takes it for one of its own."""


@contextmanager
def watched(seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES, file_bytes: int = FILE_BYTES) -> Iterator[None]:
    """Raise Overrun inside the block when it runs longer than `seconds` or takes more memory than `memory_bytes`.

    A file that it writes beyond `file_bytes` fails with an OSError. Without signals (Windows, or another thread than
    the main one) nothing is watched.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    end, most = time.monotonic() + seconds, _peak_memory() + memory_bytes

    def look(number: int, frame: FrameType | None) -> None:
        late, large = time.monotonic() > end, _peak_memory() > most
        if late or large:
            # What is being cleaned up must not be interrupted again at once.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN, _AGAIN)
            raise Overrun(f"nothing whole came in {seconds:g} seconds" if late else "its answer has no end")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)
    try:
        with _file_size(file_bytes):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak_memory() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def _file_size(limit: int) -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lowered = limit if soft == resource.RLIM_INFINITY else min(limit, soft)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lowered, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
