"""Metrics of a running server in Prometheus' text format, fetched or read from a file within bounds of size and time.

Reads what is asked for and passes over the rest: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4).
"""

from __future__ import annotations

import http.client
import math
import os
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from draftpick.errors import InvalidFile, NotObservable, UsageError
from draftpick.models.bounded import read_bytes

TIMEOUT = 10.0
"""Seconds after which a server that has not answered in whole is given up."""
MOST_BYTES = 8 << 20
"""A vLLM server with one model exports some 200 kB."""
MOST_LINE = 1 << 16
MOST_LABELS = 32
MOST_SAMPLES = 20_000
"""Of the families that are asked for."""
MOST_REDIRECTS = 3
KEY = "DRAFTPICK_API_KEY"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|(?=\}))')
_ESCAPE = re.compile(r'\\([\\n"])')
_NUMBER = re.compile(r"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?", re.ASCII)


class Sample(NamedTuple):
    """One line: a value under a name and labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class Scrape(NamedTuple):
    """What a server said of itself at one moment."""

    source: str
    """The address or file, to name it in an error."""
    samples: tuple[Sample, ...]
    """Of the families that were asked for."""
    namespaces: frozenset[str]
    """What stands before the colon of all names, as vllm; the whole name where there is none."""
    at: float | None = None
    """Seconds of a monotonic clock; None for a file."""


# ---------------------------------------------------------------------- the text


def parse(data: bytes, source: str, wanted: re.Pattern[str], at: float | None = None) -> Scrape:
    """The samples whose names match `wanted`. Raises InvalidFile for what is no such text, naming the line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_metrics(source, f"byte {error.start} is no UTF-8") from None
    samples: list[Sample] = []
    namespaces: set[str] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        name = _NAME.match(line)
        if len(line) > MOST_LINE or name is None or line[name.end() : name.end() + 1] not in ("{", " ", "\t"):
            raise _not_metrics(source, f"line {number} begins {line[:40]!r}")
        if len(namespaces) < MOST_SAMPLES:
            namespaces.add(name[0].partition(":")[0])
        if wanted.fullmatch(name[0]):
            if len(samples) == MOST_SAMPLES:
                raise _not_metrics(source, f"more than {MOST_SAMPLES:,} values where one server has some dozens")
            try:
                samples.append(_sample(line, name[0]))
            except ValueError as error:
                raise _not_metrics(source, f"line {number}: {name[0]}: {error}") from None
    return Scrape(source, tuple(samples), frozenset(namespaces), at)


def _not_metrics(source: str, why: str) -> InvalidFile:
    return InvalidFile(
        f"{source} is no metrics in Prometheus' text format: {why}",
        "name the address that Prometheus scrapes, http://HOST:PORT/metrics, or a file that curl saved from it",
    )


def _sample(line: str, name: str) -> Sample:
    """A line as a sample. Raises ValueError saying what is wrong."""
    place = len(name)
    labels: dict[str, str] = {}
    while line[place] in " \t":
        place += 1
    if line[place] == "{":
        for found in _labels(line, place + 1):
            if found[1] in labels:
                raise ValueError(f"label {found[1][:40]} is there twice")
            if len(labels) == MOST_LABELS:
                raise ValueError(f"more than {MOST_LABELS} labels")
            labels[found[1]] = _ESCAPE.sub(lambda one: "\n" if one[1] == "n" else one[1], found[2])
            place = found.end()
        place = line.index("}", place) + 1
    # An exemplar of OpenMetrics stands behind a hash, a time behind the value.
    value, *rest = line[place:].partition(" # ")[0].split() or [""]
    if len(rest) > 1 or not _NUMBER.fullmatch(value):
        raise ValueError(f"{line[place:].strip()[:40]!r} is no number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value[:40]} is too large")
    return Sample(name, labels, number)


def _labels(line: str, place: int) -> Iterator[re.Match[str]]:
    while line[place : place + 1] != "}":
        found = _LABEL.match(line, place)
        if found is None:
            raise ValueError(f"labels end at {line[place : place + 40]!r}")
        yield found
        place = found.end()


# ---------------------------------------------------------------------- where it comes from


def from_file(path: Path, wanted: re.Pattern[str]) -> Scrape:
    """A scrape that was saved. Raises UsageError where there is none, InvalidFile."""
    if not path.exists():
        raise UsageError(f"{path}: no such file", "save one: curl -o metrics.txt http://HOST:PORT/metrics")
    return parse(read_bytes(path, MOST_BYTES), str(path), wanted)


def from_server(url: str, wanted: re.Pattern[str], timeout: float = TIMEOUT) -> Scrape:
    """What a server answers now. Raises UsageError for an address that cannot be meant, NotObservable."""
    address = _address(url)
    headers = {"Accept": "text/plain;version=0.0.4", "User-Agent": "draftpick", **_authorization()}
    answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_get(urllib.request.Request(address, headers=headers), timeout))
        except Exception as error:
            answers.put(error)

    # A socket's timeout ends neither the look-up of a name nor a server that sends a byte a second.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=timeout)
    except queue.Empty:
        answer = TimeoutError()
    if isinstance(answer, Exception):
        raise _unreachable(address, answer, timeout) from answer
    try:
        return parse(answer, address, wanted, time.monotonic())
    except InvalidFile as error:
        raise NotObservable(error.message, error.hint) from None


def _address(url: str) -> str:
    """The address that is asked: `/metrics` where no path is named. Raises UsageError."""
    example = "as http://localhost:8000"
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is no address", f"{example}; other characters are percent-encoded")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no address: {error}", example) from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"{url!r} is no address of a server", f"{example}: http or https, then the host")
    if "@" in parts.netloc:
        raise UsageError("a name or password stands in the address", f"leave it out; a key is read from {KEY}")
    return urlunsplit(SplitResult(parts.scheme, parts.netloc, parts.path.rstrip("/") or "/metrics", parts.query, ""))


def _authorization() -> dict[str, str]:
    key = os.environ.get(KEY, "")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"{KEY} holds what no header can", "set it to the key alone, without a line end")
    return {"Authorization": f"Bearer {key}"} if key else {}


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a server to another path of its own: the key and the question are not for others."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if before.hostname != after.hostname or (before.scheme, after.scheme) == ("https", "http"):
            fp.close()
            raise _Elsewhere(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Elsewhere(Exception):
    pass


class _TooMuch(Exception):
    pass


class _Compressed(Exception):
    pass


def _get(request: urllib.request.Request, timeout: float) -> bytes:
    try:
        opened = urllib.request.build_opener(_SameHost).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise
    with opened as answer:
        if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise _Compressed(answer.headers["Content-Encoding"])
        length = answer.headers.get("Content-Length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > MOST_BYTES:
            raise _TooMuch
        data: bytes = answer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise _TooMuch
    if length.isdecimal() and len(data) < int(length):
        raise http.client.IncompleteRead(data)
    return data


def _unreachable(address: str, error: Exception, timeout: float) -> NotObservable:
    """What went wrong, with the address."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(error, urllib.error.HTTPError):
        return _refused(address, error.code)
    if isinstance(reason, TimeoutError):
        return NotObservable(f"{address} did not answer within {timeout:g} seconds", "is it the right port?")
    if isinstance(reason, ConnectionRefusedError):
        return NotObservable(f"{address}: the connection was refused", "is the server up, and on this port?")
    if isinstance(error, _Elsewhere):
        return NotObservable(
            f"{address} sends to {str(error)[:200]}, which is not asked", "name that address if you trust it"
        )
    if isinstance(error, _TooMuch):
        return NotObservable(
            f"{address} answers with more than {MOST_BYTES >> 20} MiB, which are no metrics of a server",
            "name the server's own address, not one that gathers many",
        )
    if isinstance(error, _Compressed):
        return NotObservable(
            f"{address} answers compressed ({str(error)[:40]}), unasked", "fetch it with curl --compressed, give --file"
        )
    if isinstance(error, (http.client.HTTPException, ConnectionError)):
        return NotObservable(f"{address} broke off its answer ({type(error).__name__})", "is it a web server at all?")
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return NotObservable(f"{address}: {said[:200]}", "check the address, and that this machine reaches it")


def _refused(address: str, code: int) -> NotObservable:
    if code in (401, 403):
        return NotObservable(f"{address} asks for a key ({code})", f"put it into {KEY}: it is sent as a bearer token")
    if code == 404:
        return NotObservable(
            f"{address} is not there (404)",
            "vLLM has it at /metrics; SGLang too, if it was started with --enable-metrics",
        )
    if code == 501:
        return NotObservable(f"{address} is switched off (501)", "llama-server has it when started with --metrics")
    if 300 <= code < 400:
        return NotObservable(f"{address} sends from place to place ({code})", "name the address where it ends")
    return NotObservable(f"{address} answers with an error ({code})", "look into the server's log")
