"""Commands that are ended at a chosen moment: a process forks for each, and counts what the child asks of the system.

Every moment can be tried so, in milliseconds each: the child is ended before its n-th operation on files.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.fsync", "fcntl.flock")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code, or minus the signal that ended it."""
    operations: int
    """How many it did, where it came to its end."""
    stdout: str
    stderr: str


class Runs:
    """Runs commands that may be ended in the middle."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder = server, folder

    def __call__(
        self,
        folder: Path,
        words: Sequence[str],
        *,
        at: int = 0,
        sent: signal.Signals = signal.SIGKILL,
        reads: bool = False,
        around: Sequence[str] = (),
        variables: Mapping[str, str | None] = {},
    ) -> Ended:
        """Run a command in a folder.

        `at`: before which operation the signal is sent; `reads`: operations that change nothing count as well;
        `around`: names of `AROUND`; `variables`: of the environment, None where one is not set.
        """
        told = {name: str(self._folder / name) for name in ("stdout", "stderr")}
        code, operations = self._ask(
            {
                "folder": str(folder),
                "words": words,
                "at": at,
                "sent": int(sent),
                "reads": reads,
                "around": around,
                "variables": variables,
                **told,
            }
        )
        stdout, stderr = (Path(place).read_text(encoding="utf-8", errors="replace") for place in told.values())
        return Ended(code, operations, stdout, stderr)

    def warm_up(self, folder: Path, words: Sequence[str]) -> None:
        """Run a command once without a fork, so that all it imports is there from then on."""
        self._ask({"folder": str(folder), "words": words, "at": None})

    def _ask(self, what: Mapping[str, Any]) -> Sequence[int]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(what) + "\n")
        self._server.stdin.flush()
        found: Sequence[int] = json.loads(self._server.stdout.readline())
        return found


@contextmanager
def runs(folder: Path, environment: Mapping[str, str], *modules: str) -> Iterator[Runs]:
    """What runs commands, with these modules imported before; `folder` is for its own files."""
    words = [sys.executable, __file__, *modules]
    with subprocess.Popen(words, env=environment, stdin=-1, stdout=-1, text=True) as server:
        try:
            yield Runs(server, folder)
        finally:
            assert server.stdin is not None
            server.stdin.close()


# ---------------------------------------------------------------------- what may be wrong around a command


def _closed(number: int) -> None:
    """As Python starts where the shell closed a stream."""
    os.close(number)
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _full(number: int) -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), number)


def _unread(number: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, number)
    os.close(writing)


def _gone() -> None:
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def _clock_goes_back() -> None:
    """By a day with every look at it."""
    days = itertools.count()
    time.time = lambda: 1_700_000_000.0 - 86_400 * next(days)


def _limit(what: int, most: int) -> None:
    resource.setrlimit(what, (most, most))


AROUND: dict[str, Callable[[], None]] = {
    **{f"{name} closed": partial(_closed, number) for number, name in enumerate(("stdin", "stdout", "stderr"))},
    **{f"{name} full": partial(_full, number) for number, name in ((1, "stdout"), (2, "stderr"))},
    **{f"{name} unread": partial(_unread, number) for number, name in ((1, "stdout"), (2, "stderr"))},
    "clock back": _clock_goes_back,
    "folder gone": _gone,
    "few files": partial(_limit, resource.RLIMIT_NOFILE, 12),
}

# ---------------------------------------------------------------------- the process that forks


def _serve() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["at"] is None:
            os.chdir(asked["folder"])
            sys.argv = ["draftpick", *asked["words"]]
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
                importlib.import_module("draftpick.cli").main()
            print("[0, 0]", flush=True)
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _run(asked, writing)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        counted = os.read(reading, 20)
        os.close(reading)
        print(json.dumps([os.waitstatus_to_exitcode(status), int(counted or 0)]), flush=True)


def _run(asked: Mapping[str, Any], counted: int) -> None:
    from draftpick.__main__ import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started these tests may ignore them
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(asked["folder"])
    for number, name in ((0, os.devnull), (1, asked["stdout"]), (2, asked["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update({name: value for name, value in asked["variables"].items() if value is not None})
    for name in (name for name, value in asked["variables"].items() if value is None):
        os.environ.pop(name, None)
    for name in asked["around"]:
        AROUND[name]()
    sys.argv = ["draftpick", *asked["words"]]
    count = _count(asked["at"], asked["sent"], asked["reads"])
    code: Any = 0
    try:
        main()
    except SystemExit as left:
        code = left.code or 0
    finally:
        # As Python does at its end: what cannot be written by then is told with another code.
        try:
            sys.stdout.flush()
        except OSError:
            code = 120
        os.write(counted, str(len(count)).encode())
        os._exit(code if isinstance(code, int) else 1)


def _count(at: int, sent: int, reads: bool) -> list[str]:
    """Count operations on files from now on, and send this process a signal before one of them."""
    seen: list[str] = []

    def watch(event: str, arguments: Sequence[Any]) -> None:
        if not (event in _CHANGES or (event == "open" and (reads or arguments[2] & _WRITING))):
            return
        seen.append(event)
        if len(seen) == at:
            os.kill(os.getpid(), sent)

    whole = os.fsync

    def fsync(number: int) -> None:
        watch("os.fsync", ())
        whole(number)

    os.fsync = fsync
    sys.addaudithook(watch)
    return seen


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    _serve()
