"""One question to a web server, answered in bounded time and memory, whatever the server does.

A socket's timeout ends neither the look-up of a name nor a server that sends a byte a second. So a thread asks, and who
waits for it gives up at the deadline and shuts the socket under it.
"""

from __future__ import annotations

import math
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3 import exceptions
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import BaseHTTPResponse, HTTPResponse

from draftpick.errors import DraftpickError, UsageError

KEY = "DRAFTPICK_API_KEY"
MOST_REDIRECTS = 3
MOST_SAID = 1 << 16
"""Bytes that are read of an answer with an error; the rest is left."""
_PIECE = 1 << 16
_PIECE_TAKES = 256
"""Bytes of memory that a piece of one byte comes to; a server may send millions."""
_JSON = {"Content-Type": "application/json"}
_EXAMPLE = "as http://localhost:8000"
_NOBODY = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_FAIL") if hasattr(socket, name)}

Why = Literal["late", "refused", "broken", "unreachable", "unknown", "elsewhere", "large", "compressed"]


class NoAnswer(DraftpickError):
    """No whole answer came, for the reason `why` (exit code 3)."""

    exit_code = 3

    def __init__(self, why: Why, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.why = why


class Answer:
    """What came back: a status and headers at once, the body as it arrives."""

    def __init__(self, head: _Head, exchange: _Exchange) -> None:
        self.status = head.status
        self.headers = head.headers
        self._exchange = exchange

    def pieces(self) -> Iterator[tuple[float, bytes]]:
        """Pieces of the body, each with the time.perf_counter() of its arrival. Raises NoAnswer."""
        while isinstance(event := self._exchange.next(), _Piece):
            yield event

    def whole(self) -> bytes:
        """The body. Raises NoAnswer."""
        return b"".join(piece for _, piece in self.pieces())

    def close(self, within: float = 0.0) -> None:
        """Ends the exchange; who asked must call it. With an end that comes `within` seconds the connection is kept."""
        with suppress(NoAnswer):
            while within and isinstance(self._exchange.next(within), _Piece):
                pass
        self._exchange.cut()


class Server:
    """A web server, the key for it, and up to `width` connections that are kept."""

    def __init__(self, parts: SplitResult, *, width: int = 1, accept: str) -> None:
        """`parts`: as `address` gives them. Raises UsageError for a key or a proxy that cannot be meant."""
        self._key = _key()
        self.headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": "draftpick"}
        if self._key:
            self.headers["Authorization"] = f"Bearer {self._key}"
        self.manager = _manager(parts, width)
        self.has_key = bool(self._key)

    def ask(self, url: str, body: bytes | None, seconds: float, most_bytes: int) -> Answer:
        """The answer to a GET, or to a POST of JSON, of which all must have come within `seconds`.

        Redirects are followed within the host; an answer with any status is an answer. Raises NoAnswer.
        """
        exchange = _Exchange(self, url, body, seconds, most_bytes)
        try:
            head = exchange.next()
        except BaseException:
            exchange.cut()
            raise
        assert isinstance(head, _Head)
        return Answer(head, exchange)

    def shown(self, text: str, most: int = 300) -> str:
        """What the server said, as it may be shown: on one line, in `most` characters, without the key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        text = " ".join(text.split())
        spelled = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[:most])
        return "".join(spelled)[:most]


def address(url: str) -> SplitResult:
    """The parts of an address that can be meant. Raises UsageError."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{shown_address(url)!r} is no address", f"{_EXAMPLE}; other characters are percent-encoded")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{shown_address(url)!r} is no address: {error}", _EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"{shown_address(url)!r} is no address of a server", f"{_EXAMPLE}: http or https, then the host"
        )
    if "@" in parts.netloc:
        raise UsageError("a name or password stands in the address", f"leave it out; a key is read from {KEY}")
    return parts


def shown_address(url: str) -> str:
    """What was given as an address, as an error may show it: without a login or a query, which may hold keys."""
    return re.sub(r"\?.*", "?…", re.sub(r"^(\w*:?//)?.*@", r"\1…@", url, flags=re.DOTALL), flags=re.DOTALL)


def _key() -> str:
    key = os.environ.get(KEY, "")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"{KEY} holds what no header can", "set it to the key alone, without a line end")
    return key


# ---------------------------------------------------------------------- connections

_here = threading.local()
"""The exchange of this thread."""
_holding = threading.Lock()


class _Http(HTTPConnection):
    holder: _Exchange | None = None

    @property
    def is_connected(self) -> bool:
        # The pool asks before it hands a connection on: from here on its last user must not shut it.
        _here.exchange.hold(self)
        return super().is_connected

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        _here.exchange.hold(self)
        _here.exchange.go_on()
        return super().getresponse()


class _Https(_Http, HTTPSConnection):
    pass


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


def _is_here(host: str) -> bool:
    """Whether a host is this machine, which no proxy reaches under that name."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _manager(parts: SplitResult, width: int) -> urllib3.PoolManager:
    """Connections to the server, through the proxy that the environment names for it."""
    direct = _is_here(parts.hostname or "") or proxy_bypass(parts.netloc)
    proxy = "" if direct else getproxies().get(parts.scheme, "")
    if proxy:
        try:
            named = urllib3.util.parse_url(proxy if "://" in proxy else f"http://{proxy}")
            login = urllib3.make_headers(proxy_basic_auth=unquote(named.auth)) if named.auth else None
            manager: urllib3.PoolManager = urllib3.ProxyManager(
                named._replace(auth=None).url, proxy_headers=login, maxsize=width, block=True
            )
        except (exceptions.HTTPError, ValueError):
            raise UsageError(
                f"the proxy that the environment names for {parts.scheme} is no address of an http proxy",
                f"mend {parts.scheme}_proxy, or name {parts.hostname} in no_proxy",
            ) from None
    else:
        manager = urllib3.PoolManager(maxsize=width, block=True)
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager


# ---------------------------------------------------------------------- one exchange


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]


class _Piece(NamedTuple):
    at: float
    data: bytes


class _End(NamedTuple):
    pass


class _Elsewhere(Exception):
    pass


class _TooLarge(Exception):
    pass


class _Compressed(Exception):
    pass


class _Exchange:
    """A thread that asks, and what it has heard so far."""

    def __init__(self, server: Server, url: str, body: bytes | None, seconds: float, most_bytes: int) -> None:
        self._server, self._url, self._body = server, url, body
        self._seconds, self._most_bytes = seconds, most_bytes
        self._end = time.monotonic() + seconds
        self._events: queue.SimpleQueue[_Head | _Piece | _End | Exception] = queue.SimpleQueue()
        self._connection: _Http | None = None
        self._socket: socket.socket | None = None
        self._is_cut = self._is_over = False
        try:
            threading.Thread(target=self._run, name="draftpick asks", daemon=True).start()
        except RuntimeError:
            raise NoAnswer(
                "unknown",
                f"{url} is not asked: this machine lets draftpick start no more threads",
                "ask for less at once",
            ) from None

    def next(self, within: float = math.inf) -> _Head | _Piece | _End:
        """What comes next: the head, pieces, the end. Raises NoAnswer."""
        try:
            event = self._events.get(timeout=min(self._left(), within))
        except queue.Empty:
            event = TimeoutError()
        if isinstance(event, Exception):
            raise _told(self._server, self._url, event, self._seconds) from event
        return event

    def cut(self) -> None:
        """Ends the thread, wherever it waits for the server; does nothing when it has ended."""
        with _holding:
            self._is_cut = True
            mine = self._connection is not None and self._connection.holder is self and not self._is_over
            if mine and self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def hold(self, connection: _Http) -> None:
        """Called in the thread: this connection is its own, until another holds it."""
        with _holding:
            connection.holder, self._connection, self._socket = self, connection, connection.sock

    def go_on(self) -> None:
        """Called in the thread. Raises TimeoutError when it should end."""
        if self._is_cut:
            raise TimeoutError

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _run(self) -> None:
        _here.exchange = self
        last: _End | Exception = _End()
        try:
            response = self._follow()
            try:
                self._read(response)
            finally:
                _let_go(response)
        except Exception as error:
            last = error
        with _holding:
            self._is_over = True
        self._events.put(last)

    def _follow(self) -> BaseHTTPResponse:
        """The answer at the end of redirects, or the last of them where nothing should follow."""
        url = self._url
        for _ in range(MOST_REDIRECTS):
            response = self._ask(url)
            there = _redirect(response, url, is_get=self._body is None)
            if there is None:
                return response
            _let_go(response)
            before, after = urlsplit(url), urlsplit(there)
            if before.hostname != after.hostname or (before.scheme, after.scheme) == ("https", "http"):
                raise _Elsewhere(there)
            url = there
        return self._ask(url)

    def _ask(self, url: str) -> BaseHTTPResponse:
        self.go_on()
        return self._server.manager.urlopen(
            "GET" if self._body is None else "POST",
            url,
            body=self._body,
            headers=self._server.headers if self._body is None else {**self._server.headers, **_JSON},
            timeout=self._left(),
            pool_timeout=self._left(),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

    def _read(self, response: BaseHTTPResponse) -> None:
        is_fine = 200 <= response.status < 300
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        length = response.headers.get("Content-Length", "")
        if is_fine and encoding != "identity":
            raise _Compressed(encoding)
        if is_fine and length.isdecimal() and (len(length) > 18 or int(length) > self._most_bytes):
            raise _TooLarge(self._most_bytes >> 20)
        self._events.put(_Head(response.status, response.headers))
        if encoding != "identity":
            return
        left = self._most_bytes if is_fine else MOST_SAID
        while data := response.read1(_PIECE):
            left -= max(len(data), _PIECE_TAKES)
            if left < 0 and is_fine:
                raise _TooLarge(self._most_bytes >> 20)
            if left < 0:
                return
            self._events.put(_Piece(time.perf_counter(), data))


def _redirect(response: BaseHTTPResponse, url: str, *, is_get: bool) -> str | None:
    """Where a web server sends to; None where the same question cannot be asked again."""
    place = response.get_redirect_location()
    if not place or (response.status == 303 and not is_get):
        return None
    try:
        parts = urlsplit(urljoin(url, place))
        return urlunsplit(parts._replace(fragment="")) if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


def _let_go(response: BaseHTTPResponse) -> None:
    """Back to the pool; a connection with something unread on it is closed first."""
    response.close()
    response.release_conn()


# ---------------------------------------------------------------------- what went wrong


def _told(server: Server, url: str, error: Exception, seconds: float) -> Exception:
    """What went wrong, with the address; the error itself where it is none of a network."""
    if isinstance(error, exceptions.NewConnectionError):
        return _unconnected(url, error.__cause__)
    if isinstance(error, (TimeoutError, exceptions.TimeoutError, exceptions.EmptyPoolError)):
        return NoAnswer("late", f"{url} did not answer within {seconds:g} seconds", "is it the right port?")
    if isinstance(error, _Elsewhere):
        there = server.shown(str(error), 200)
        return NoAnswer("elsewhere", f"{url} sends to {there}, which is not asked", "name that address if you trust it")
    if isinstance(error, _TooLarge):
        return NoAnswer("large", f"{url} answers with more than {error} MiB", "is it the right address?")
    if isinstance(error, _Compressed):
        encoding = server.shown(str(error), 40)
        return NoAnswer(
            "compressed", f"{url} answers compressed ({encoding}), unasked", "name the server itself, not one before it"
        )
    if isinstance(error, exceptions.SSLError):
        said = server.shown(str(error), 200)
        return NoAnswer("unknown", f"{url}: no trust in its certificate: {said}", "is it https at all?")
    if isinstance(error, exceptions.ProxyError):
        return NoAnswer("unreachable", f"{url} is not reached through the proxy", "look at http_proxy and no_proxy")
    if isinstance(error, exceptions.LocationValueError):
        return NoAnswer("unknown", f"{url}: no host can have this name", "check the address")
    if isinstance(error, (exceptions.HTTPError, OSError)):
        reason = error.args[-1] if error.args and isinstance(error.args[-1], Exception) else error
        name = type(reason).__name__
        return NoAnswer("broken", f"{url} broke off its answer ({name})", "is it a web server at all?")
    return error


def _unconnected(url: str, reason: BaseException | None) -> NoAnswer:
    if isinstance(reason, ConnectionRefusedError):
        return NoAnswer("refused", f"{url}: the connection was refused", "is the server up, and on this port?")
    why: Why = "unknown" if isinstance(reason, socket.gaierror) and reason.errno in _NOBODY else "unreachable"
    said = getattr(reason, "strerror", None) or type(reason).__name__
    return NoAnswer(why, f"{url}: {said[:200]}", "check the address, and that this machine reaches it")
