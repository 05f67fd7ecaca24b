"""The command line that asks again what an answer was asked, safe to paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from draftpick.probe_file import Option, RequestRecord
from draftpick.report.text import printable


def command_line(request: RequestRecord) -> str | None:
    """The command, quoted; None where nobody wrote down what was asked."""
    arguments = [one for one in (request.target, *request.drafts, request.probe_file) if one is not None]
    spelled = [word for name, value in request.options.items() for word in _option(name, value)]
    if request.command is None:
        return None
    # What begins with a dash would be read as an option.
    dashed = any(one.startswith("-") for one in arguments)
    words = [*spelled, "--", *arguments] if dashed else [*arguments, *spelled]
    return " ".join(quoted(word) for word in ("draftpick", request.command, *words))


def _option(name: str, value: Option) -> Iterable[str]:
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--{_OFF.get(name, f'no-{name}')}"
        return
    for one in value if isinstance(value, list) else [value]:
        # Joined where the value would look like another option.
        yield from (f"--{name}={one}",) if str(one).startswith("-") else (f"--{name}", f"{one}")


_OFF = {"offline": "online"}


def quoted(word: str) -> str:
    """A word for a POSIX shell; what cannot be shown is spelled out as bash and zsh read it."""
    if printable(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(_spelled(letter) for letter in word) + "'"


def _spelled(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    if printable(letter) == letter:
        return letter
    # A name that is no UTF-8 is kept byte by byte.
    lone = "\udc80" <= letter <= "\udcff"
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape" if lone else "surrogatepass"))
