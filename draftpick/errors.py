"""Errors a person can act on: what went wrong, where, and what to do next."""

from __future__ import annotations


class DraftpickError(Exception):
    """Base of all expected failures. The command line prints it and exits with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


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
