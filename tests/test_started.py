"""Servers that are started: real processes, which must be gone with all that they started, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from draftpick.probing import started as starting
from draftpick.probing.client import Client
from draftpick.probing.device import CannotProbe
from draftpick.probing.started import started

SERVER = """
import json, os, signal, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

{before}
child = subprocess.Popen([sys.executable, "-c", "import signal, threading; {child}; threading.Event().wait()"])

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"data": [], "pids": [os.getpid(), child.pid]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def words(folder: Path, before: str = "", child: str = "pass") -> list[str]:
    script = folder / "server.py"
    script.write_text(SERVER.format(before=before, child=child), encoding="utf-8")
    return [sys.executable, str(script)]


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait to be collected by the first process of the machine."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def silent(_: str) -> None:
    pass


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks often, and waits no longer than a test may for a process that does not end by itself."""
    monkeypatch.setattr(starting, "_LOOK", 0.05)
    monkeypatch.setattr(starting, "_GRACE", 0.5)


pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")


def pids_of(arguments: Sequence[str], work: Callable[[list[int]], None]) -> list[int]:
    with started(arguments, "a server", silent) as url:
        found: list[int] = Client(url).get("/v1/models")["pids"]
        assert all(map(is_there, found))
        work(found)
    return found


@pytest.mark.parametrize(
    ("before", "child"),
    [("", "pass"), ("", STUBBORN), (STUBBORN, STUBBORN)],
    ids=["ends when asked to", "leaves a child behind", "does not end"],
)
def test_nothing_is_left(tmp_path: Path, before: str, child: str) -> None:
    found = pids_of(words(tmp_path, before, child), lambda pids: None)
    assert not any(map(is_there, found))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CannotProbe("it broke", "")], ids=["interrupted", "failed"])
def test_nothing_is_left_where_the_work_is_broken_off(tmp_path: Path, error: BaseException) -> None:
    seen: list[int] = []

    def break_off(pids: list[int]) -> None:
        seen.extend(pids)
        raise error

    with pytest.raises(type(error)):
        pids_of(words(tmp_path), break_off)
    assert len(seen) == 2
    assert not any(map(is_there, seen))


def test_a_server_that_ends_while_it_starts_says_why() -> None:
    script = "import sys; print('loading'); raise ValueError('no such speculative method')"
    with (
        pytest.raises(CannotProbe, match="a server ended while it started: ValueError: no such speculative method"),
        started([sys.executable, "-c", script], "a server", silent),
    ):
        raise AssertionError("it does not come up")


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PROBE", {"start-seconds": 0.3})
    said: list[str] = []
    script = "import threading; print('loading', flush=True); threading.Event().wait()"
    with (
        pytest.raises(CannotProbe, match=r"did not answer within 0 s: (loading|it said nothing)"),
        started([sys.executable, "-c", script], "a server", said.append),
    ):
        raise AssertionError("it does not come up")
    assert said == ["starting a server, 0 s"]


def test_a_command_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(CannotProbe, match="no-such-engine is not on PATH") as refused,
        started(["no-such-engine", "serve"], "a server", silent),
    ):
        raise AssertionError("it cannot start")
    assert "`no-such-engine serve`" in refused.value.hint
