"""Servers under load, restarting, or behind a balancer: asks them for JSON, again where that helps, within bounds."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from email.utils import mktime_tz, parsedate_tz
from typing import Any, TypeVar

from draftpick.errors import InvalidFile, UsageError
from draftpick.http import KEY, Answer, NoAnswer, Server, address, shown_address
from draftpick.models.bounded import parse_value
from draftpick.probing.device import CannotProbe

_R = TypeVar("_R")
_T = TypeVar("_T")

MOST_BYTES = 64 << 20
"""Log-probabilities of 20 tokens at each of 1,000 places come to some 2 MB."""
MOST_WAIT = 30.0
"""Seconds before a try; a server that asks for more is asked again after these."""
_FIRST_WAIT = 0.5
_ABSURD_WAIT = 86_400.0
_MENDED = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that another try may mend: the server is busy, starting, or its balancer found none."""
_LAST = 0.2
"""Seconds for the end of a stream after its last event, so that the connection can be used again."""
_LOG = "look into the server's log"


class Refused(CannotProbe):
    """A server's answer that repeating does not mend: 4xx, a redirect, what it does not have (exit code 3)."""

    def __init__(self, message: str, hint: str, code: int, said: str) -> None:
        super().__init__(message, hint)
        self.code = code
        self.said = said
        """The server's own words, on one line; "" where it had none."""


class NotServed(CannotProbe):
    """No whole answer, or none that can be meant, after all tries (exit code 3)."""


class _Again(Exception):
    """What a try ended with that another may mend, and after how many seconds where the server says so."""

    def __init__(self, error: NotServed, after: float | None = None) -> None:
        self.error, self.after = error, after


class Client:
    """One server, asked from as many threads as one likes over at most `width` connections."""

    def __init__(
        self,
        url: str,
        *,
        seconds: float = 30.0,
        tries: int = 4,
        width: int = 8,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`seconds`: for one whole answer, of each try; after one that came too late there is one more.

        Raises UsageError for an address, a key or a proxy that cannot be meant.
        """
        parts = address(url)
        if parts.query or parts.fragment:
            raise UsageError(
                f"{shown_address(url)!r} ends in a query", "name the server alone, as http://localhost:8000"
            )
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        self.address = f"{parts.scheme}://{parts.netloc}{path}"
        self._seconds, self._tries, self._wait = seconds, tries, wait
        self._server = Server(parts, width=width, accept="application/json, text/event-stream")

    def get(self, path: str, *, seconds: float | None = None) -> Any:
        """The JSON value at a path, as `/v1/models`. Raises Refused, NotServed."""
        return self._value(path, None, seconds)

    def ask(self, path: str, body: Mapping[str, Any], *, seconds: float | None = None) -> dict[str, Any]:
        """The JSON object in answer to a POST of another. Raises Refused, NotServed."""
        value = self._value(path, body, seconds)
        if not isinstance(value, dict):
            raise _senseless(self.address + path, f"a {type(value).__name__}, not a JSON object")
        return value

    def stream(
        self, path: str, body: Mapping[str, Any], *, seconds: float | None = None
    ) -> Generator[tuple[float, dict[str, Any]], None, None]:
        """Server-sent events in answer to a POST: time.perf_counter() of the arrival, and the JSON object.

        Asks when the first is wanted, and not again once it is there. `seconds` are for the whole stream.
        Raises Refused, NotServed: also for an event that says `error`.
        """
        url = self.address + path

        def begin() -> tuple[list[tuple[float, dict[str, Any]]], Generator[tuple[float, dict[str, Any]], None, None]]:
            events = self._events(self._answer(url, body, seconds), url)
            return [event for event in [next(events, None)] if event is not None], events

        first, events = self._until_mended(begin)
        with closing(events):
            yield from first
            try:
                yield from events
            except NoAnswer as error:
                raise _not_served(error) from error

    def _value(self, path: str, body: Mapping[str, Any] | None, seconds: float | None) -> Any:
        url = self.address + path

        def once() -> bytes:
            with closing(self._answer(url, body, seconds)) as answer:
                return answer.whole()

        return _json(self._until_mended(once), url)

    def _until_mended(self, once: Callable[[], _R]) -> _R:
        """What `once` returns, after as many tries as it takes. Raises Refused, NotServed."""
        is_late = False
        for number in range(1, self._tries + 1):
            after = None
            try:
                return once()
            except _Again as again:
                error, after = again.error, again.after
            except NoAnswer as none:
                error = _not_served(none)
                if none.why not in ("late", "refused", "broken", "unreachable") or (none.why == "late" and is_late):
                    raise error from none
                is_late = is_late or none.why == "late"
            if number < self._tries:
                backoff = _FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.5)
                self._wait(min(MOST_WAIT, backoff if after is None else after))
        raise error

    def _answer(self, url: str, body: Mapping[str, Any] | None, seconds: float | None) -> Answer:
        """An answer with a status of success. Raises Refused, NoAnswer, _Again."""
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        answer = self._server.ask(url, data, self._seconds if seconds is None else seconds, MOST_BYTES)
        if 200 <= answer.status < 300:
            return answer
        with closing(answer):
            try:
                said = self._server.shown(_said(answer.whole()))
            except NoAnswer:
                said = ""
        if answer.status in _MENDED:
            raise _Again(_failed(url, answer.status, said), _retry_after(answer.headers.get("Retry-After", "")))
        raise self._refused(url, answer.status, said)

    def _events(self, answer: Answer, url: str) -> Generator[tuple[float, dict[str, Any]], None, None]:
        told, other = 0, b""
        try:
            for at, field, data in _fields(answer):
                if field == b"data" and data.strip() == b"[DONE]":
                    answer.close(_LAST)
                    return
                if field not in (b"data", b"error"):
                    other = other or field
                    continue
                if not data.strip():
                    continue
                told += 1
                event = _json(data, url)
                if not isinstance(event, dict):
                    raise _senseless(url, f"events that are a {type(event).__name__}, not a JSON object")
                if field == b"error" or event.get("error"):
                    said = self._server.shown(_said(data))
                    raise NotServed(f"{url} broke off with an error: {said or 'without a word'}", _LOG)
                yield at, event
        finally:
            answer.close()
        if not told:
            begins = f": it begins {self._server.shown(other.decode('utf-8', 'replace'), 40)!r}" if other else ""
            raise _senseless(url, f"no stream of events{begins}")

    def _refused(self, url: str, code: int, said: str) -> Refused:
        hint = "look whether the server, in its version, can do this"
        words = f": {said}" if said else ""
        if code in (401, 403):
            which, hint = "a", f"put one into {KEY}: it is sent as a bearer token"
            if self._server.has_key:
                which, hint = "another", f"mend the one in {KEY}"
            return Refused(f"{url} asks for {which} key ({code}){words}", hint, code, said)
        if code in (404, 405):
            hint = "name the address of an OpenAI-compatible server, as http://localhost:8000"
            return Refused(f"{url} is not there ({code}){words}", hint, code, said)
        if code == 413:
            return Refused(
                f"{url} takes no question this long (413){words}", "raise the limit of its proxy", code, said
            )
        if 300 <= code < 400:
            return Refused(f"{url} sends from place to place ({code})", "name the address where it ends", code, said)
        return Refused(f"{url} refuses ({code}){words}", hint, code, said)


def side_by_side(
    function: Callable[[_T], _R], items: Sequence[_T], width: int
) -> Generator[tuple[_T, _R | Exception], None, None]:
    """What `function` returns or raises for each item, `width` at once, as they end.

    On daemon threads: those of an executor would be waited for when an interrupt ends the process. Closing this starts
    no more of them. What is no Exception is raised here, and CannotProbe where so many threads cannot be.
    """
    waiting = deque(items)
    ended: queue.SimpleQueue[tuple[_T, _R | Exception, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                ended.put((item, function(item), None))
            except Exception as error:
                ended.put((item, error, None))
            except BaseException as error:
                ended.put((item, RuntimeError(), error))

    try:
        for number in range(min(width, len(items))):
            try:
                threading.Thread(target=work, name="draftpick works", daemon=True).start()
            except RuntimeError:
                raise _no_thread(number) from None
        for _ in items:
            item, outcome, fatal = ended.get()
            if fatal is not None:
                raise fatal
            yield item, outcome
    finally:
        waiting.clear()


# ---------------------------------------------------------------------- reading


def _fields(answer: Answer) -> Iterator[tuple[float, bytes, bytes]]:
    """Events of a stream as arrival, name of the field, and value; lines of one event's data are joined.

    https://html.spec.whatwg.org/multipage/server-sent-events.html. A line end is LF or CRLF.
    """
    data: list[bytes] = []
    arrival = 0.0
    for at, line in _lines(answer):
        if line.startswith(b":"):
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value)
            arrival = at
            continue
        if data:
            yield arrival, b"data", b"\n".join(data)
            data = []
        if line and field not in (b"event", b"id", b"retry"):
            yield at, field, value
    if data:
        yield arrival, b"data", b"\n".join(data)


def _lines(answer: Answer) -> Iterator[tuple[float, bytes]]:
    begun: list[bytes] = []
    at = 0.0
    for at, piece in answer.pieces():
        first, *others = piece.split(b"\n")
        begun.append(first)
        for line in others:
            yield at, b"".join(begun).removesuffix(b"\r")
            begun = [line]
    if any(begun):
        yield at, b"".join(begun).removesuffix(b"\r")


def _json(data: bytes, url: str) -> Any:
    try:
        return parse_value(data, f"the answer of {url}", finite=True)
    except InvalidFile as error:
        raise NotServed(error.message, "is it an OpenAI-compatible server, and not a page in front of it?") from None


def _said(data: bytes) -> str:
    """A server's own message, out of the shapes that servers give it; else the text."""
    try:
        value: Any = parse_value(data, "")
    except InvalidFile:
        return data.decode("utf-8", "replace")
    for name in ("error", "message", "detail"):
        while isinstance(value, dict) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else data.decode("utf-8", "replace")


def _retry_after(text: str) -> float | None:
    """Seconds that a server wants to be left alone; None where it does not say, or nothing that can be meant."""
    date = parsedate_tz(text)
    try:
        seconds = mktime_tz(date) - time.time() if date else float(text if text.isdecimal() else "")
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds <= _ABSURD_WAIT else None


# ---------------------------------------------------------------------- errors


def _no_thread(running: int) -> CannotProbe:
    return CannotProbe(
        f"this machine lets draftpick start no more than {running} threads", "ask for fewer answers at once"
    )


def _not_served(error: NoAnswer) -> NotServed:
    return NotServed(error.message, error.hint)


def _senseless(url: str, what: str) -> NotServed:
    return NotServed(f"{url} answers with {what}", "is it an OpenAI-compatible server?")


def _failed(url: str, code: int, said: str) -> NotServed:
    words = f": {said}" if said else ""
    if code == 429:
        return NotServed(f"{url} is asked too often (429){words}", "wait, or ask for less at once")
    return NotServed(f"{url} answers with an error ({code}){words}", _LOG)
