"""What every command shares with the process around it: streams that may be closed or narrow, hints, errors, exits."""

from __future__ import annotations

import codecs
import errno
import gc
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import typer

from draftpick import __version__
from draftpick.errors import DraftpickError, Warned

UNWRITTEN, BUG, INTERRUPTED = 3, 70, 130
LONGEST_LINE = 600
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

_quiet = False
"""Whether the user asked for no hints; an error is told after the command that knows it has ended."""


def be_quiet(wanted: bool | None) -> None:
    """Whether hints and progress are left out from now on."""
    global _quiet
    _quiet = bool(wanted)


def remark(text: str) -> None:
    """A line on stderr for the person who typed the command."""
    if not _quiet:
        typer.echo(text, err=True)


class Progress:
    """One line on stderr that says how far a long run is; a line each where stderr is no terminal.

    A warning stays where it was written.
    """

    def __init__(self) -> None:
        self._shown = False

    def __enter__(self) -> Callable[[str], None]:
        return self._say

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _say(self, text: str) -> None:
        from draftpick.report.text import printable

        if _quiet:
            return
        lasting = isinstance(text, Warned)
        text = f"warning: {printable(text)}" if lasting else printable(text)
        if not sys.stderr.isatty():
            sys.stderr.write(f"{text}\n")
        elif lasting:
            sys.stderr.write(f"\r\x1b[K{text}\n")
        else:
            import shutil

            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{text if len(text) <= width else text[: max(width - 1, 0)] + '…'}")
            self._shown = True
        sys.stderr.flush()


def screen(no_color: bool | None, output: Path | None = None) -> dict[str, Any]:
    """Width and colour of where the text goes; no terminal has neither."""
    if output is not None or not sys.stdout.isatty():
        return {"width": None, "color": False}
    import shutil

    plain = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return {"width": shutil.get_terminal_size().columns, "color": not plain}


def write(text: str, output: Path | None, *, cut: int = 0) -> None:
    """Write to a file, whole or not at all, or to stdout, which `-` means as well.

    `cut` is the exit code where the reader of stdout has gone: a gate that failed must not pass for that.
    """
    if output is not None and str(output) != "-":
        from draftpick.atomic import write_text

        write_text(output, text)
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go(sys.stdout)
        raise typer.Exit(cut) from None


def _let_go(stream: TextIO) -> None:
    """Forget a stream whose reader has seen enough (`| head`): Python would complain again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed_streams() -> None:
    """Python has no stream where the shell closed one (`>&-`): nothing is read there, and what is written goes nowhere.

    In this order each takes the number that was closed, or a file that is opened later would, and print's or a
    library's lines would go into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


class _Heedless(io.RawIOBase):
    """stderr for those who cannot mind that nobody reads it: `2>&1 | head`, a full disk under a log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream  # were it let go of, it would close what is below it
        self._raw = stream.buffer.raw  # type: ignore[attr-defined]

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        return bool(self._raw.isatty())

    def write(self, data: Any) -> int | None:
        try:
            written: int | None = self._raw.write(data)
        except OSError:
            return len(data)  # what was measured and the exit code count for more
        return written


def _never_mind_stderr() -> None:
    """What cannot be told must not end a run, nor change how it ends."""
    if hasattr(getattr(sys.stderr, "buffer", None), "raw"):  # tests have streams without one
        heedless = io.BufferedWriter(_Heedless(sys.stderr))
        sys.stderr = io.TextIOWrapper(heedless, sys.stderr.encoding, "draftpick", line_buffering=True)


def run(command: Callable[[], object]) -> None:
    """Run a command and turn failures into one line, a hint and an exit code."""
    global _quiet
    _quiet = False
    codecs.register_error("draftpick", _spelled_out)
    _open_closed_streams()
    _never_mind_stderr()
    stdout = sys.stdout
    # A locale without UTF-8 must not turn an answer into a traceback.
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="draftpick")
    # A run is short and makes no cycles worth collecting, but hundreds of thousands of records.
    gc.disable()
    try:
        command()
    except SystemExit as left:
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        # typer and rich leave with 1 when the reader of their help has gone.
        _let_go(stdout)
        sys.exit(0)
    except DraftpickError as error:
        _complain(error.message, "" if _quiet else error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # the last resort: a bug must not look like bad input
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            _let_go(stdout)
            _complain(f"stdout: {error.strerror}", "free some space, or write elsewhere with --output")
            sys.exit(UNWRITTEN)
        if os.environ.get("DRAFTPICK_DEBUG"):
            import traceback

            traceback.print_exc()
            sys.exit(BUG)
        _complain(
            f"this is a bug in draftpick {__version__}: {type(error).__name__}: {error}",
            "run again with DRAFTPICK_DEBUG=1 and report the traceback with the command you typed",
        )
        sys.exit(BUG)


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks as `\\uXXXX`, which JSON reads too; the usual `\\xXX` is no JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs), error.end


def _complain(message: str, hint: str) -> None:
    from draftpick.report.text import printable

    lines = [f"error: {_cut(printable(message))}\n", *([f"hint: {_cut(printable(hint))}\n"] if hint else [])]
    sys.stderr.write("".join(lines))
    sys.stderr.flush()


def _cut(text: str) -> str:
    """A text of a length that a person reads; its two ends say most."""
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 4 :]}"
