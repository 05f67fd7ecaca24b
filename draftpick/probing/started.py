"""Servers that draftpick starts itself: for as long as they are needed, and surely no longer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from draftpick.choices import PROBE
from draftpick.probing.client import Client, NotServed
from draftpick.probing.device import CannotProbe, temporary_folder

_GRACE = 20.0
"""Seconds that a server has to end by itself."""
_GONE = 5.0
"""Seconds in which killed processes vanish, where somebody collects them."""
_LOOK = 1.0
"""Seconds between two looks at a server that is starting."""
_OFTEN = 10.0
"""Seconds between two words about it."""
_TOLD = 3
"""Lines of its log that are told of a server that failed without an error."""
_MOST_READ = 1 << 20
_ERROR = re.compile(r"(?:^|\] )((?:\w+\.)*[A-Z]\w*(?:Error|Exception): .+)")
"""As Python ends a traceback; what an engine writes before it on each line is left out."""


@contextmanager
def started(words: Sequence[str], what: str, say: Callable[[str], None]) -> Iterator[str]:
    """The address of a server that answers, started with a command that takes --host and --port.

    It and all that it started end with the block, however that ends. `what` names it in words.
    Raises CannotProbe where the command is not there, or the server ends or does not come up.
    """
    if shutil.which(words[0]) is None:
        raise CannotProbe(
            f"{words[0]} is not on PATH", f"run draftpick where `{words[0]} serve` works, as in its environment"
        )
    port = _free_port()
    with tempfile.TemporaryFile(dir=temporary_folder()) as log:
        process = subprocess.Popen(
            [*words, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own: it starts others, and Ctrl-C is for draftpick to pass on
        )
        try:
            yield _ready(process, f"http://127.0.0.1:{port}", what, log, say)
        finally:
            _end(process)


def _ready(process: subprocess.Popen[bytes], url: str, what: str, log: IO[bytes], say: Callable[[str], None]) -> str:
    client, begun, told = Client(url, tries=1), time.monotonic(), -_OFTEN
    while (waited := time.monotonic() - begun) < PROBE["start-seconds"]:
        if process.poll() is not None:
            raise CannotProbe(f"{what} ended while it started: {_last_words(log)}", "start it by hand to see why")
        with suppress(NotServed):
            client.get("/v1/models")
            return url
        if waited >= told + _OFTEN:
            say(f"starting {what}, {waited:.0f} s")
            told = waited
        time.sleep(_LOOK)
    raise CannotProbe(f"{what} did not answer within {waited:.0f} s: {_last_words(log)}", "start it by hand to see why")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and kill what is left of its group."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            # The next server needs the memory that this one's processes hold until they are gone.
            until = time.monotonic() + _GONE
            while time.monotonic() < until:
                os.killpg(process.pid, 0)
                time.sleep(_GONE / 100)
        process.wait()


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def _last_words(log: IO[bytes]) -> str:
    """What a log ends with: its first error, which is the cause of the others, or its last lines."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - _MOST_READ))
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [found[1] for line in lines if (found := _ERROR.search(line)) is not None]
    return " / ".join(errors[:1] or lines[-_TOLD:])[-600:] or "it said nothing"
