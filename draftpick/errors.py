"""Errors a person can act on: what went wrong, where, and what to do next."""

from __future__ import annotations

_LONGEST = 1200
"""Characters of a message or hint: what a file says and where it lies may be of any length, a screen is not."""


class Warned(str):
    """A line among those that say how far a long run is, to be kept in sight: a doubt about what was asked for."""


class DraftpickError(Exception):
    """Base of all expected failures. The command line prints it and exits with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = _fitted(message), _fitted(hint)
        super().__init__(self.message)


def _fitted(text: str) -> str:
    """The text without its middle where it is too long: it begins with the place and ends with what is wrong there."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"


class UsageError(DraftpickError):
    """An option, value, device or engine that cannot be meant (exit code 2)."""


class InvalidFile(DraftpickError):
    """A file that is there but corrupt, truncated, hostile or of another format (exit code 2)."""


class InvalidCatalog(InvalidFile):
    """A catalogue or overlay that breaks its own rules (exit code 2)."""


class NotResolvable(DraftpickError):
    """A model that cannot be judged: missing, gated, offline, or an empty folder (exit code 3)."""

    exit_code = 3


class NotObservable(DraftpickError):
    """A server that cannot be judged: out of reach, without counters of speculation, or idle (exit code 3)."""

    exit_code = 3


class AbsentDevice(DraftpickError):
    """A kind of device that draftpick knows, and that is not here (exit code 3)."""

    exit_code = 3
