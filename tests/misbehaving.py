"""A real web server on this machine that misbehaves as a script says.

A behaviour is a function of the request's raw handler, called once its body has been read. `serving` is given one for
each request in turn; the last goes on for ever.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = BaseHTTPRequestHandler
Behaviour = Callable[[Handler], None]

DRIP = 0.02
"""Seconds between bytes of a server that answers slowly."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[Handler]) -> None:
        self.ended = threading.Event()
        self.connections: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # the other end may have seen enough
            super().handle_error(request, client_address)


@contextmanager
def serving(
    *script: Behaviour, wrap: Callable[[socket.socket], socket.socket] | None = None
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The server's address, and what it was asked so far: headers in small letters, `path`, `method` and `body`.

    `wrap`: what makes it speak TLS. All its connections are closed at the end.
    """
    asked: list[dict[str, str]] = []
    turns = iter(script)
    one_by_one = threading.Lock()
    last = script[-1]

    class Scripted(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode("utf-8", "replace")
            headers = {name.lower(): value for name, value in self.headers.items()}
            with one_by_one:
                asked.append({**headers, "path": self.path, "method": self.command, "body": body})
                turn = next(turns, last)
            turn(self)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(Scripted)
    if wrap is not None:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if wrap else ''}://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.ended.set()
        server.shutdown()
        for connection in server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()


@contextmanager
def nobody_listens() -> Iterator[str]:
    """An address at which connections are refused."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"


# ---------------------------------------------------------------------- well-behaved


def page(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    """An answer in one piece; a header's name has `_` for `-`. After another Content-Length the connection ends."""

    def behave(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = handler.close_connection or "Content_Length" in headers

    return behave


def answer(value: Any, status: int = 200, **headers: str) -> Behaviour:
    """JSON."""
    return page(json.dumps(value).encode(), status, Content_Type="application/json", **headers)


def chunked(*chunks: bytes, ends: bool = True, content_type: str = "application/json") -> Behaviour:
    """An answer in chunks, the last of which may be missing: then the connection is closed."""

    def behave(handler: Handler) -> None:
        send_head(handler, content_type)
        for chunk in chunks:
            send_chunk(handler, chunk)
        if ends:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True

    return behave


def stream(*chunks: bytes, ends: bool = True) -> Behaviour:
    """Server-sent events, cut into chunks."""
    return chunked(*chunks, ends=ends, content_type="text/event-stream")


def send_head(handler: Handler, content_type: str = "application/json") -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.send_header("Content-Type", content_type)
    handler.end_headers()


def send_chunk(handler: Handler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def by_path(behaviours: Mapping[str, Behaviour], other: Behaviour) -> Behaviour:
    """One behaviour for each path that is named, another for the rest."""
    return lambda handler: behaviours.get(handler.path, other)(handler)


# ---------------------------------------------------------------------- silent and slow


def hang(handler: Handler) -> None:
    """Says nothing."""
    _ended(handler).wait()
    handler.close_connection = True


def pause(handler: Handler) -> None:
    """Lets a moment pass, for a behaviour of the caller's own."""
    _ended(handler).wait(DRIP)


def hang_after(begun: bytes) -> Behaviour:
    """Says so much, as an HTTP answer or a part of one, and then nothing."""

    def behave(handler: Handler) -> None:
        handler.wfile.write(begun)
        hang(handler)

    return behave


def trickle(begun: bytes, byte: bytes) -> Behaviour:
    """Says so much, and then a byte now and then, without end."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(begun)
        while not _ended(handler).wait(DRIP):
            handler.wfile.write(byte)

    return behave


def _ended(handler: Handler) -> threading.Event:
    ended: threading.Event = handler.server.ended  # type: ignore[attr-defined]
    return ended


# ---------------------------------------------------------------------- broken


def reset(handler: Handler) -> None:
    """Ends the connection as a server that was killed."""
    linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()
    handler.close_connection = True


def raw(data: bytes, then: Behaviour | None = None) -> Behaviour:
    """These bytes, whatever they mean, and the connection's end."""

    def behave(handler: Handler) -> None:
        handler.wfile.write(data)
        handler.wfile.flush()
        handler.close_connection = True
        if then is not None:
            then(handler)

    return behave


def endless(begun: bytes, more: bytes, sent: list[int] | None = None) -> Behaviour:
    """Says so much, then the same again and again until the other end has seen enough; counts its bytes in `sent`."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(begun)
        while not _ended(handler).is_set():
            handler.wfile.write(more)
            if sent is not None:
                sent.append(len(more))

    return behave


def in_turn(behaviours: Iterable[Behaviour]) -> Behaviour:
    """One of several at each request, then anew: faults that come back."""
    kept = list(behaviours)
    number = iter(range(1 << 30))
    return lambda handler: kept[next(number) % len(kept)](handler)
