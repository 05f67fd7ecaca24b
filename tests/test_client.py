"""Questions to servers, asked of a real one on this machine that misbehaves as a table says."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from commands import from_a_terminal
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving import (
    Behaviour,
    Handler,
    answer,
    chunked,
    endless,
    hang,
    hang_after,
    in_turn,
    nobody_listens,
    page,
    pause,
    raw,
    reset,
    send_chunk,
    send_head,
    serving,
    stream,
    trickle,
)

from draftpick.errors import UsageError
from draftpick.http import NoAnswer, Server, address
from draftpick.probing.client import MOST_BYTES, MOST_WAIT, Client, NotServed, Refused, side_by_side
from draftpick.probing.device import CannotProbe

FINE = answer({"fine": True})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"a": 1}\n\n'
DONE = b"data: [DONE]\n\n"


class Waits(list[float]):
    """The waits a client asked for, at none of which it waited."""

    def client(self, url: str, **how: Any) -> Client:
        return Client(url, wait=self.append, **how)


# ---------------------------------------------------------------------- addresses and the key


@pytest.mark.parametrize(
    ("given", "prefix"),
    [("", ""), ("/", ""), ("/v1", ""), ("/v1/", ""), ("//", ""), ("/team/a", "/team/a"), ("/team/v1/", "/team")],
)
def test_what_people_paste_as_an_address(given: str, prefix: str) -> None:
    with serving(FINE) as (url, asked):
        client = Client(url + given)
        assert client.get("/v1/models") == {"fine": True}
    assert client.address == url + prefix
    assert asked[0]["path"] == f"{prefix}/v1/models"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "no address of a server"),
        ("file:///etc/passwd", "no address of a server"),
        ("http://", "no address of a server"),
        ("http://localhost:99999", "no address"),
        ("http://local host", "no address"),
        ("http://me:secret@localhost", "name or password"),
        ("ftp://me:secret@localhost", "ftp://…@localhost' is no address of a server"),
        ("http://me:secr et@localhost", "http://…@localhost' is no address"),
        ("me:secret@localhost", "'…@localhost' is no address of a server"),
        ("http://me:s@secret@localhost:x", "http://…@localhost:x"),
        ("http://localhost/v1?api_key=secret", r"/v1\?…' ends in a query"),
        ("http://localhost/v1#x", "ends in a query"),
    ],
)
def test_an_address_that_cannot_be_meant(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        Client(url)
    assert "secret" not in told.value.message + told.value.hint


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "token-1")
    with serving(FINE) as (url, asked):
        assert Client(url).ask("/v1/completions", {"prompt": "模型"}) == {"fine": True}
    assert (asked[0]["method"], asked[0]["path"]) == ("POST", "/v1/completions")
    assert json.loads(asked[0]["body"]) == {"prompt": "模型"}
    assert asked[0]["authorization"] == "Bearer token-1"
    assert asked[0]["content-type"] == "application/json"
    assert asked[0]["accept-encoding"] == "identity"
    assert asked[0]["user-agent"] == "draftpick"


def echo(status: int, **headers: str) -> Behaviour:
    """Says the key that it was sent, in all the places that are shown."""

    def behave(handler: Handler) -> None:
        key = handler.headers["Authorization"].removeprefix("Bearer ")
        spelled = {name: value.format(key=key) for name, value in headers.items()}
        answer({"error": {"message": "x" * 290 + f" {key} is no key"}}, status, **spelled)(handler)

    return behave


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(echo(400), id="refused"),
        pytest.param(echo(401), id="no key"),
        pytest.param(echo(500), id="error"),
        pytest.param(echo(302, Location="http://example.org/{key}"), id="elsewhere"),
        pytest.param(echo(200, Content_Encoding="{key}"), id="encoding"),
        pytest.param(stream(b'data: {"error": {"message": "no s3cret-key here"}}\n\n'), id="in a stream"),
    ],
)
def test_the_key_is_never_shown(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "s3cret-key")
    caplog.set_level(logging.DEBUG)
    with serving(behaviour) as (url, asked), pytest.raises(CannotProbe) as told:
        list(Waits().client(url).stream("/v1/completions", {}))
    assert asked[0]["authorization"] == "Bearer s3cret-key"
    error = told.value
    shown = [error.message, error.hint, getattr(error, "said", ""), str(error.__cause__), caplog.text]
    assert not [text for text in shown if "s3cr" in text]


@pytest.mark.parametrize("key", ["a\nHost: b", "schlüssel"])
def test_a_key_that_no_header_holds(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", key)
    with pytest.raises(UsageError, match="holds what no header can") as told:
        Client("http://127.0.0.1:9")
    assert key not in told.value.message + told.value.hint


def test_the_environments_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FINE) as (url, asked):
        monkeypatch.setenv("http_proxy", url.replace("//", "//me:secret@"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert Client("http://nobody.invalid/").get("/x") == {"fine": True}
        assert Client(url).get("/y") == {"fine": True}
    assert [(one["path"], "proxy-authorization" in one) for one in asked] == [
        ("http://nobody.invalid/x", True),
        ("/y", False),
    ]
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", "http://nobody.invalid")
    with serving(FINE) as (url, asked):  # nobody reaches this machine's own servers through another
        for here in (url, url.replace("127.0.0.1", "localhost")):
            assert Waits().client(here).get("/z") == {"fine": True}
    monkeypatch.setenv("http_proxy", "socks5://localhost")
    with pytest.raises(UsageError, match="no address of an http proxy"):
        Client("http://nobody.invalid/")


# ---------------------------------------------------------------------- what is mended by asking again


@pytest.mark.parametrize(
    "trouble",
    [
        reset,
        raw(b""),
        raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
        page(b'{"fine"', Content_Length="500"),
        chunked(b"{", ends=False),
    ]
    + [answer({}, status) for status in (408, 425, 429, 500, 502, 503, 504)],
    ids=["reset", "closed", "no HTTP", "cut", "cut in chunks", *["408", "425", "429", "500", "502", "503", "504"]],
)
@pytest.mark.parametrize("times", [1, 3])
def test_what_passes_is_asked_again(trouble: Behaviour, times: int) -> None:
    waits = Waits()
    with serving(*[trouble] * times, FINE) as (url, asked):
        assert waits.client(url).ask("/x", {"a": 1}) == {"fine": True}
    assert [one["body"] for one in asked] == ['{"a": 1}'] * (times + 1)
    assert all(0.25 * 2**n <= wait <= 0.75 * 2**n for n, wait in enumerate(waits))
    assert len(waits) == times


@pytest.mark.parametrize(
    ("after", "low", "high"),
    [
        ("2", 2, 2),
        ("0", 0.25, 0.75),
        ("3600", MOST_WAIT, MOST_WAIT),
        (format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True), MOST_WAIT, MOST_WAIT),
        (format_datetime(datetime.now(timezone.utc) - timedelta(hours=1), usegmt=True), 0.25, 0.75),
        *[
            (absurd, 0.25, 0.75)
            for absurd in ("-5", "9" * 30, "9" * 5000, "soon", "Fri, 31 Dec 99999 23:59:59 GMT", "")
        ],
    ],
    ids=[
        "2 s",
        "0 s",
        "an hour",
        "a date",
        "a date that was",
        "negative",
        "absurd",
        "endless",
        "a word",
        "year",
        "empty",
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_may_say_when(status: int, after: str, low: float, high: float) -> None:
    waits = Waits()
    with serving(answer({}, status, Retry_After=after), FINE) as (url, _):
        assert waits.client(url).get("/x") == {"fine": True}
    assert [low <= wait <= high for wait in waits] == [True]


def test_a_server_that_comes_up_late() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            listening.listen()
            threading.Thread(target=accept, daemon=True).start()

        def accept() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")

        assert Client(f"http://127.0.0.1:{port}", wait=wait).get("/x") == {}
        assert len(waits) == 1


# ---------------------------------------------------------------------- what is not mended

FAULTS: dict[str, tuple[Behaviour, int, str, str]] = {
    "resets for ever": (reset, 4, "broke off its answer", "web server"),
    "resets in the body": (raw(HEAD + b"Content-Length: 50\r\n\r\n{", reset), 4, "broke off its answer", "web server"),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), 4, "broke off its answer", "web server"),
    "endless status": (endless(b"HTTP/1.1 ", b"2" * 4096), 4, "broke off its answer", "web server"),
    "endless headers": (endless(HEAD, b"X-A: b\r\n" * 512), 4, "broke off its answer", "web server"),
    "endless header": (endless(HEAD + b"X-A:", b"b" * 4096), 4, "broke off its answer", "web server"),
    "endless chunk size": (endless(CHUNKED, b"0" * 4096), 4, "broke off its answer", "web server"),
    "no chunk size": (raw(CHUNKED + b"hello\r\n"), 4, "broke off its answer", "web server"),
    "two lengths": (
        raw(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        4,
        "broke off its answer",
        "web server",
    ),
    "longer than it says": (page(b'{"a": 1}', Content_Length="4"), 1, "is not valid JSON", "OpenAI"),
    "500 for ever": (answer({"error": {"message": "out of pages"}}, 500), 4, "error (500): out of pages", "log"),
    "429 for ever": (answer({"message": "slow"}, 429), 4, "too often (429): slow", "less at once"),
    "500 without end": (endless(b"HTTP/1.1 500 Oh\r\n\r\n", b"a" * 65536), 4, "error (500): aaaa", "log"),
    "500, cut": (raw(b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\na"), 4, "error (500)", "log"),
    "500, compressed": (page(b"\x1f\x8b", 500, Content_Encoding="gzip"), 4, "error (500)", "log"),
    "HTML": (page(b"<html></html>"), 1, "is not valid JSON", "a page in front of it"),
    "empty": (page(b""), 1, "is not valid JSON: it is empty", "OpenAI"),
    "no content": (page(b"", 204), 1, "is not valid JSON: it is empty", "OpenAI"),
    "no UTF-8": (page(b'{"a": "\xff"}'), 1, "is not valid JSON", "OpenAI"),
    "cut JSON": (page(b'{"a": '), 1, "is not valid JSON", "OpenAI"),
    "a list": (answer([1]), 1, "a list, not a JSON object", "OpenAI"),
    "a text": (answer("{}"), 1, "a str, not a JSON object", "OpenAI"),
    "null": (answer(None), 1, "a NoneType, not a JSON object", "OpenAI"),
    "NaN": (page(b'{"a": NaN}'), 1, "NaN is no finite number", "OpenAI"),
    "Infinity": (page(b'{"a": -Infinity}'), 1, "-Infinity is no finite number", "OpenAI"),
    "overflow": (page(b'{"a": 1e999}'), 1, "1e999 is no finite number", "OpenAI"),
    "endless digits": (page(b'{"a": ' + b"9" * 5000 + b"}"), 1, "a number of 5,000 digits", "OpenAI"),
    "deep": (page(b'{"a":' + b"[" * 200_000), 1, "nested too deeply", "OpenAI"),
    "wide": (page(b'{"a":[' + b"[]," * 1_600_000 + b"0]}"), 1, "too many values", "OpenAI"),
    "says 100 MB": (page(b"", Content_Length="100000000"), 1, "more than 64 MiB", "address"),
    "says absurdly much": (page(b"", Content_Length="9" * 4000), 1, "more than 64 MiB", "address"),
    "compressed": (page(b"\x1f\x8b", Content_Encoding="gzip"), 1, "compressed (gzip), unasked", "the server itself"),
    "elsewhere": (page(b"", 307, Location="http://example.org/\x1b[2J"), 1, "which is not asked", "trust"),
    "elsewhere by a name": (page(b"", 307, Location="//example.org/"), 1, "which is not asked", "trust"),
}


@pytest.mark.parametrize(("behaviour", "requests", "said", "hint"), FAULTS.values(), ids=FAULTS)
def test_no_answer_that_can_be_meant(behaviour: Behaviour, requests: int, said: str, hint: str) -> None:
    waits = Waits()
    with serving(behaviour) as (url, asked), pytest.raises(NotServed, match=re.escape(said)) as told:
        waits.client(url).ask("/x", {})
    assert f"{url}/x" in told.value.message
    assert (told.value.message + told.value.hint).isprintable()
    assert hint in told.value.hint
    assert told.value.exit_code == 3
    assert (len(asked), len(waits)) == (requests, requests - 1)


REFUSALS: dict[str, tuple[Behaviour, int, str, str, str]] = {
    "bad request": (answer({"error": {"message": "no logprobs"}}, 400), 400, "no logprobs", "refuses (400)", "version"),
    "error is a text": (answer({"error": "no logprobs"}, 400), 400, "no logprobs", "refuses (400)", "version"),
    "as vLLM once said it": (answer({"object": "error", "message": "no"}, 400), 400, "no", "refuses", "version"),
    "as FastAPI says it": (answer({"detail": "no"}, 422), 422, "no", "refuses (422)", "version"),
    "a list of details": (answer({"detail": [{"loc": 1}]}, 422), 422, '{"detail": [{"loc": 1}]}', "(422)", "version"),
    "plain text": (page(b"no\r\n  way", 400), 400, "no way", "refuses (400)", "version"),
    "not a word": (page(b"", 400), 400, "", "refuses (400)", "version"),
    "control characters": (
        answer({"message": "a\x1b[2J\u202eb\x00"}, 400),
        400,
        r"a\x1b[2J\u202eb\x00",
        "refuses",
        "version",
    ),
    "no UTF-8": (page(b"\xff\x80", 400), 400, "\ufffd\ufffd", "refuses (400)", "version"),
    "a message without end": (endless(b"HTTP/1.1 400 No\r\n\r\n", b"ab" * 999), 400, "ab" * 150, "(400)", "version"),
    "deep": (page(b"[" * 60_000, 400), 400, "[" * 300, "refuses (400)", "version"),
    "no key": (answer({}, 401), 401, "{}", "asks for a key (401)", "DRAFTPICK_API_KEY"),
    "wrong key": (page(b"", 403), 403, "", "asks for a key (403)", "DRAFTPICK_API_KEY"),
    "not found": (answer({"detail": "Not Found"}, 404), 404, "Not Found", "is not there (404)", "OpenAI-compatible"),
    "no POST": (page(b"", 405), 405, "", "is not there (405)", "OpenAI-compatible"),
    "too long": (page(b"<html>", 413), 413, "<html>", "question this long (413)", "proxy"),
    "not there yet": (page(b"", 501), 501, "", "refuses (501)", "version"),
    "circle": (page(b"", 307, Location="/x"), 307, "", "from place to place (307)", "where it ends"),
    "to a file": (page(b"", 302, Location="file:///etc/passwd"), 302, "", "from place to place", "where it ends"),
    "nowhere": (page(b"", 302), 302, "", "from place to place (302)", "where it ends"),
    "no address": (page(b"", 302, Location="http://[::1"), 302, "", "from place to place (302)", "where it ends"),
    "to a page": (page(b"", 303, Location="/done"), 303, "", "from place to place (303)", "where it ends"),
}


@pytest.mark.parametrize(("behaviour", "code", "words", "said", "hint"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_not_asked_again(behaviour: Behaviour, code: int, words: str, said: str, hint: str) -> None:
    waits = Waits()
    with serving(behaviour) as (url, asked), pytest.raises(Refused, match=re.escape(said)) as told:
        waits.client(url).ask("/x", {})
    assert (told.value.code, told.value.said) == (code, words)
    assert told.value.message.startswith(f"{url}/x")
    assert told.value.message.isprintable()
    assert hint in told.value.hint
    assert waits == []
    assert len(asked) == (4 if code == 307 else 1)


def test_another_key_is_asked_for_where_one_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "token-1")
    with serving(page(b"", 401)) as (url, _), pytest.raises(Refused, match="asks for another key") as told:
        Client(url).get("/x")
    assert told.value.hint == "mend the one in DRAFTPICK_API_KEY"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_it_is_followed_within_its_host(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "token-1")
    with serving(page(b"", status, Location="/there?a=1#b"), FINE) as (url, asked):
        assert Client(url).ask("/x", {"a": 1}) == {"fine": True}
    assert [(one["method"], one["path"]) for one in asked] == [("POST", "/x"), ("POST", "/there?a=1")]
    assert {(one["authorization"], one["body"]) for one in asked} == {("Bearer token-1", '{"a": 1}')}


def test_a_question_without_a_body_is_followed_to_a_page() -> None:
    with serving(page(b"", 303, Location="/there"), FINE) as (url, _):
        assert Client(url).get("/x") == {"fine": True}


def test_nobody_is_there() -> None:
    waits = Waits()
    with nobody_listens() as url, pytest.raises(NotServed, match=f"{url}/x: the connection was refused"):
        waits.client(url, tries=3).get("/x")
    assert len(waits) == 2
    with pytest.raises(NotServed, match=r"^http://nobody\.invalid/x: "):
        waits.client("http://nobody.invalid").get("/x")
    waits.clear()
    with pytest.raises(NotServed, match=r"^http://a\.\.b/x: no host can have this name"):
        waits.client("http://a..b").get("/x")
    assert waits == []


# ---------------------------------------------------------------------- time

SLOW: dict[str, Behaviour] = {
    "says nothing": hang,
    "hangs in the headers": hang_after(HEAD),
    "hangs after the headers": hang_after(HEAD + b"Content-Length: 9\r\n\r\n"),
    "hangs in a chunk": hang_after(CHUNKED + b"9\r\n{"),
    "hangs at its end": hang_after(CHUNKED + b"2\r\n{}\r\n"),
    "trickles the status": trickle(b"", b"H"),
    "trickles headers": trickle(HEAD + b"X-A: ", b"b"),
    "trickles the body": trickle(HEAD + b"Content-Length: 900\r\n\r\n", b" "),
    "trickles chunks": trickle(CHUNKED, b"1\r\n \r\n"),
    "trickles the trailer": trickle(CHUNKED + b"2\r\n{}\r\n0\r\n", b"A: b\r\n"),
    "tells to go on for ever": trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


def threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "draftpick asks"}


@pytest.mark.parametrize("behaviour", SLOW.values(), ids=SLOW)
def test_a_slow_answer_is_given_up_and_asked_for_once_more(behaviour: Behaviour) -> None:
    waits = Waits()
    began = time.monotonic()
    with serving(behaviour) as (url, asked):
        with pytest.raises(NotServed, match=rf"{url}/x did not answer within 0\.1 seconds"):
            waits.client(url, seconds=0.1).ask("/x", {})
        took = time.monotonic() - began
        for thread in threads():
            thread.join(timeout=5)
        assert threads() == set(), "the server goes on, and whoever asked does not"
    assert len(waits) == 1
    assert len(asked) <= 2
    assert 0.2 <= took < 5


def test_one_late_answer_is_mended() -> None:
    with serving(reset, hang, answer({}, 503), FINE) as (url, asked):
        assert Waits().client(url).ask("/x", {}, seconds=0.5) == {"fine": True}
    assert len(asked) == 4


def test_a_refusal_whose_words_do_not_come_is_one() -> None:
    silent = hang_after(b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n")
    with serving(silent) as (url, _), pytest.raises(Refused) as told:
        Client(url, seconds=0.1).get("/x")
    assert (told.value.code, told.value.said) == (400, "")


def test_a_name_that_is_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def look_up(*_: object, **__: object) -> None:
        ended.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "later")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        with pytest.raises(NotServed, match=r"did not answer within 0\.05 seconds"):
            Waits().client("http://slow.invalid", seconds=0.05).get("/x")
    finally:
        ended.set()
        for thread in threads():
            thread.join(timeout=5)


# ---------------------------------------------------------------------- memory and connections


@pytest.mark.parametrize(
    ("behaviour", "most"),
    [
        pytest.param(page(b"", Content_Length=str(1 << 40)), 4 << 20, id="said"),
        pytest.param(raw(HEAD + b"\r\n", endless(b"", b" " * (1 << 20))), MOST_BYTES * 1.25, id="without a length"),
        pytest.param(endless(CHUNKED, b"100000\r\n%s\r\n" % (b" " * (1 << 20))), MOST_BYTES * 1.25, id="chunks"),
        pytest.param(endless(b"HTTP/1.1 400 No\r\n\r\n", b"a" * (1 << 20)), 8 << 20, id="an error"),
    ],
)
def test_memory_is_bounded(behaviour: Behaviour, most: float) -> None:
    with serving(behaviour) as (url, _):
        client = Client(url, tries=1)
        tracemalloc.start()
        try:
            with pytest.raises(CannotProbe):
                client.get("/x")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < most


def test_pieces_take_memory_however_small() -> None:
    with serving(endless(CHUNKED, b"1\r\n \r\n" * 4096)) as (url, _):
        server = Server(address(url), accept="*/*")
        tracemalloc.start()
        try:
            with (
                closing(server.ask(url, None, 30.0, 1 << 20)) as asked,
                pytest.raises(NoAnswer, match="more than 1 MiB"),
            ):
                asked.whole()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 2 << 20


def test_connections_are_used_again_and_no_more_than_asked_for() -> None:
    open_now, most, lock = 0, 0, threading.Lock()
    peers = set()

    def behave(handler: Handler) -> None:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
            peers.add(handler.client_address)
        pause(handler)
        with lock:
            open_now -= 1
        (stream(EVENT, DONE) if handler.path == "/s" else FINE)(handler)

    with serving(behave) as (url, asked):
        client = Client(url, width=3)
        for _, outcome in side_by_side(
            lambda path: [*client.stream(path, {})] if path == "/s" else client.get(path), ["/s", "/x"] * 12, 6
        ):
            assert outcome == {"fine": True} or [event for _, event in outcome] == [{"a": 1}]  # type: ignore[union-attr]
    assert (len(asked), most) == (24, 3)
    assert len(peers) == 3


@pytest.mark.parametrize(
    "trouble", [hang, reset, page(b"", Content_Length="100000000"), page(b"{}", 500, Content_Length="5")]
)
def test_troubles_take_no_connection_away(trouble: Behaviour) -> None:
    with serving(*[trouble] * 3, FINE) as (url, _):
        client = Client(url, width=1, tries=1)
        for _ in range(3):
            with pytest.raises(NotServed):
                client.get("/x", seconds=0.1)
        assert client.get("/x") == {"fine": True}


def test_a_server_that_keeps_no_connection() -> None:
    def closes(handler: Handler) -> None:
        FINE(handler)
        handler.close_connection = True

    with serving(closes) as (url, asked):
        client = Waits().client(url, width=1)
        assert [client.get("/x") for _ in range(20)] == [{"fine": True}] * 20
    assert len(asked) == 20


# ---------------------------------------------------------------------- streams

ONE, TWO = {"a": 1}, {"a": 2}
STREAMS: dict[str, tuple[Behaviour, list[dict[str, Any]]]] = {
    "as vLLM": (stream(EVENT, b'data: {"a": 2}\n\n', DONE), [ONE, TWO]),
    "CRLF": (stream(b'data: {"a": 1}\r\n\r', b'\ndata: {"a": 2}\r\n\r\n', b"data: [DONE]\r\n\r\n"), [ONE, TWO]),
    "comments": (stream(b": ping\n\n", EVENT, b":\n\n", DONE), [ONE]),
    "empty lines": (stream(b"\n\n\n", EVENT, b"\n\n", DONE), [ONE]),
    "empty data": (stream(b"data:\n\n", EVENT, b"data: \n\n", DONE), [ONE]),
    "no blank": (stream(b'data:{"a": 1}\n\n', b"data:[DONE]\n\n"), [ONE]),
    "other fields": (stream(b"event: x\nid: 7\nretry: 9\n" + EVENT, DONE), [ONE]),
    "one event on lines": (stream(b'data: {"a":\ndata: 1}\n\n', DONE), [ONE]),
    "a byte at a time": (stream(*[bytes([byte]) for byte in EVENT + DONE]), [ONE]),
    "without DONE": (stream(EVENT), [ONE]),
    "without the last line's end": (stream(EVENT, b'data: {"a": 2}'), [ONE, TWO]),
    "until the connection ends": (raw(HEAD + b"\r\n" + EVENT + DONE), [ONE]),
    "more after DONE": (stream(EVENT, DONE, EVENT), [ONE]),
    "cut after DONE": (stream(EVENT, DONE, ends=False), [ONE]),
    "nothing but DONE": (stream(DONE), []),
}


@pytest.mark.parametrize(("behaviour", "events"), STREAMS.values(), ids=STREAMS)
def test_streams(behaviour: Behaviour, events: list[dict[str, Any]]) -> None:
    with serving(behaviour) as (url, asked):
        began = time.perf_counter()
        found = list(Client(url).stream("/x", {"stream": True}))
        ended = time.perf_counter()
    assert [event for _, event in found] == events
    assert [began, *(at for at, _ in found), ended] == sorted([began, *(at for at, _ in found), ended])
    assert len(asked) == 1


BROKEN_STREAMS: dict[str, tuple[Behaviour, list[dict[str, Any]], str]] = {
    "cut in an event": (stream(EVENT, b'data: {"a"', ends=False), [ONE], "broke off its answer"),
    "reset": (raw(CHUNKED + b"%x\r\n%s\r\n" % (len(EVENT), EVENT), reset), [ONE], "broke off its answer"),
    "ends in an event": (raw(HEAD + b"\r\n" + EVENT + b'data: {"a"'), [ONE], "is not valid JSON"),
    "hangs": (hang_after(CHUNKED + b"%x\r\n%s\r\n" % (len(EVENT), EVENT)), [ONE], "within 0.5 seconds"),
    "trickles": (trickle(CHUNKED + b"%x\r\n%s\r\n" % (len(EVENT), EVENT), b"1\r\n:\r\n"), [ONE], "within 0.5 seconds"),
    "says error": (
        stream(EVENT, b'data: {"error": {"message": "out of\\u001b pages"}}\n\n'),
        [ONE],
        r"out of\x1b pages",
    ),
    "says error as llama-server": (stream(EVENT, b'error: {"code":500,"message":"no slot"}\n\n'), [ONE], "no slot"),
    "NaN": (stream(EVENT, b'data: {"a": NaN}\n\n'), [ONE], "NaN is no finite number"),
    "a list": (stream(b"data: [1]\n\n"), [], "events that are a list"),
    "deep": (stream(b"data: " + b"[" * 60_000 + b"\n\n"), [], "nested too deeply"),
    "JSON": (answer({"object": "text_completion"}), [], r"""no stream of events: it begins '{"object"'"""),
    "HTML": (page(b"<html>\n"), [], "no stream of events: it begins '<html>'"),
    "nothing": (stream(), [], "no stream of events"),
    "a line without end": (endless(CHUNKED, b"100000\r\n%s\r\n" % (b"a" * (1 << 20))), [], "more than 64 MiB"),
    "compressed": (page(b"\x1f\x8b", Content_Encoding="br"), [], "compressed (br)"),
}


@pytest.mark.parametrize(("behaviour", "events", "said"), BROKEN_STREAMS.values(), ids=BROKEN_STREAMS)
def test_streams_that_break(behaviour: Behaviour, events: list[dict[str, Any]], said: str) -> None:
    found: list[tuple[float, dict[str, Any]]] = []
    with serving(behaviour) as (url, asked), pytest.raises(NotServed, match=re.escape(said)) as told:
        found.extend(Waits().client(url, seconds=0.5 if "0.5" in said else 30.0).stream("/x", {}))
    assert [event for _, event in found] == events
    assert f"{url}/x" in told.value.message
    assert len(asked) == 1


def test_a_stream_is_asked_for_again_until_its_first_event() -> None:
    broken = [reset, answer({}, 503), stream(b": ping\n\n", b"dat", ends=False)]
    waits = Waits()
    with serving(*broken, stream(EVENT, DONE)) as (url, asked):
        assert [event for _, event in waits.client(url).stream("/x", {})] == [ONE]
    assert (len(asked), len(waits)) == (4, 3)
    with serving(answer({"message": "no"}, 400)) as (url, _), pytest.raises(Refused, match="no"):
        next(Client(url).stream("/x", {}))


def test_events_come_as_they_are_sent_and_a_stream_may_be_left() -> None:
    go_on = threading.Event()
    left = threading.Event()

    def behave(handler: Handler) -> None:
        send_head(handler, "text/event-stream")
        send_chunk(handler, EVENT)
        go_on.wait(5)
        try:
            while True:
                send_chunk(handler, EVENT)
        except OSError:
            left.set()
            raise

    with serving(behave, FINE) as (url, _):
        client = Client(url, width=1)
        events = client.stream("/x", {})
        first, _ = next(events)
        sent = time.perf_counter()
        go_on.set()
        second, _ = next(events)
        assert first < sent < second
        events.close()
        assert left.wait(5)
        assert client.get("/x") == {"fine": True}


def test_a_connection_is_kept_whose_stream_ends_soon_after_its_last_event() -> None:
    peers = []

    def behave(handler: Handler) -> None:
        peers.append(handler.client_address)
        send_head(handler, "text/event-stream")
        send_chunk(handler, EVENT + DONE)
        pause(handler)
        handler.wfile.write(b"0\r\n\r\n")

    with serving(behave) as (url, _):
        client = Client(url, width=1)
        assert [[event for _, event in client.stream("/x", {})] for _ in range(3)] == [[ONE]] * 3
    assert len(set(peers)) == 1


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=3), st.text(max_size=8) | st.integers() | st.none(), max_size=2), min_size=1
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_events_come_out_however_they_are_cut(events: list[dict[str, Any]], end: str, sizes: list[int]) -> None:
    events = [{"n": number, "of": event} for number, event in enumerate(events)]
    data = "".join(f"data: {json.dumps(event)}{end}{end}" for event in events).encode()
    pieces, place = [], 0
    while place < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[place : place + size])
        place += size
    with serving(stream(*pieces)) as (url, _):
        assert [event for _, event in Client(url).stream("/x", {})] == events


# ---------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {path} -days 2"
        f" -out {path.with_name('certificate.pem')} -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_name("certificate.pem").read_text())
    return path


def test_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    down = page(b"", 307, Location="http://127.0.0.1/x")

    def wrap(plain: socket.socket) -> socket.socket:
        return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)

    waits = Waits()
    with serving(FINE, stream(EVENT, DONE), trickle(CHUNKED, b"1\r\n \r\n"), hang, down, wrap=wrap) as (url, asked):
        with pytest.raises(NotServed, match=f"{url}/x: no trust in its certificate"):
            waits.client(url).get("/x")
        assert (asked, waits) == ([], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        client = waits.client(url, width=1)
        assert client.get("/x") == {"fine": True}
        assert [event for _, event in client.stream("/x", {})] == [ONE]
        with pytest.raises(NotServed, match="within"):
            client.get("/x", seconds=0.5)
        with pytest.raises(NotServed, match="which is not asked"):
            client.get("/x")


# ---------------------------------------------------------------------- side by side


def test_side_by_side_in_the_order_of_their_end() -> None:
    last = threading.Event()

    def function(number: int) -> int:
        if number == 0:
            last.wait(5)
        if number == 3:
            last.set()
            raise ValueError("three")
        return number * number

    found = list(side_by_side(function, range(4), 2))
    assert sorted(item for item, _ in found) == [0, 1, 2, 3]
    assert [item for item, _ in found][:2] == [1, 2]
    assert {item: outcome if isinstance(outcome, int) else repr(outcome) for item, outcome in found} == {
        0: 0,
        1: 1,
        2: 4,
        3: "ValueError('three')",
    }
    assert list(side_by_side(function, [], 2)) == []


def test_what_is_no_exception_is_raised() -> None:
    def function(number: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(side_by_side(function, range(4), 2))


def test_closing_starts_no_more() -> None:
    begun: list[int] = []
    go_on = threading.Semaphore(0)

    def function(number: int) -> int:
        begun.append(number)
        go_on.acquire(timeout=5)
        return number

    results = side_by_side(function, range(100), 2)
    go_on.release()
    next(results)
    results.close()
    go_on.release(100)
    for thread in threading.enumerate():
        if thread.daemon and thread.name == "draftpick works":
            thread.join(timeout=5)
    assert len(begun) <= 4


@pytest.fixture
def _no_threads() -> Iterator[None]:
    """No address space holds the stack of another one."""
    before = threading.stack_size(1 << 46)
    yield
    threading.stack_size(before)


@pytest.mark.usefixtures("_no_threads")
def test_a_machine_that_starts_no_more_threads_is_told() -> None:
    with pytest.raises(CannotProbe, match="no more than 0 threads"):
        list(side_by_side(lambda item: item, range(9), 3))
    with pytest.raises(CannotProbe, match="start no more threads"):
        Client("http://127.0.0.1:9").get("/x")


def test_an_interrupt_ends_the_process() -> None:
    script = (
        "import os, threading\n"
        "from draftpick.probing.client import side_by_side\n"
        "def function(number):\n    os.write(1, b'begun\\n')\n    threading.Event().wait()\n"
        "list(side_by_side(function, range(9), 3))\n"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, preexec_fn=from_a_terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(3)] == [b"begun\n"] * 3
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=10)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in said
    assert process.returncode == -signal.SIGINT


def test_faults_that_come_back_do_not_show() -> None:
    with serving(in_turn([FINE, reset, answer({}, 503), FINE, FINE])) as (url, _):
        client = Waits().client(url, width=4, tries=12)
        found = dict(side_by_side(lambda number: client.ask("/x", {"n": number}), range(60), 4))
    assert set(map(str, found.values())) == {"{'fine': True}"}
    assert len(found) == 60
