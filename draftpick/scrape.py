"""Metrics of a running server in Prometheus' text format, fetched or read from a file within bounds of size and time.

Reads what is asked for and passes over the rest: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlunsplit

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

_HINTS = {
    "large": "name the server's own address, not one that gathers many",
    "compressed": "fetch it with curl --compressed, give --file",
}

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
    from draftpick.http import NoAnswer, Server, address

    parts = address(url)
    asked = urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/metrics", fragment=""))
    try:
        with closing(Server(parts, accept="text/plain;version=0.0.4").ask(asked, None, timeout, MOST_BYTES)) as answer:
            if not 200 <= answer.status < 300:
                raise _refused(asked, answer.status)
            text = answer.whole()
        return parse(text, asked, wanted, time.monotonic())
    except NoAnswer as error:
        raise NotObservable(error.message, _HINTS.get(error.why, error.hint)) from error
    except InvalidFile as error:
        raise NotObservable(error.message, error.hint) from None


def _refused(address: str, code: int) -> NotObservable:
    if code in (401, 403):
        return NotObservable(
            f"{address} asks for a key ({code})", "put it into DRAFTPICK_API_KEY: it is sent as a bearer token"
        )
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
