"""Files that are the old ones or the new ones, never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftpick.errors import DraftpickError


class CannotWrite(DraftpickError):
    """The output could not be written: full disk, no permission, no such folder (exit code 3)."""

    exit_code = 3


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, keeping the permissions of an existing file.

    Raises CannotWrite, with the old file untouched.
    """
    temporary = ""
    try:
        if not path.parent.is_dir():
            raise CannotWrite(
                f"{path}: the folder {path.parent} does not exist", "create it first, or choose another path"
            )
        if path.exists() and not path.is_file():
            _write_to_special(path, text)
            return
        target = path.resolve()
        if target.is_symlink():  # since Python 3.13 a circle of links resolves to one of them
            raise RuntimeError("the link leads in a circle")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle, ValueError: a null byte
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise CannotWrite(
            f"{path}: {getattr(error, 'strerror', None) or error}", "free some space, or write elsewhere with --output"
        ) from None


def _write_to_special(path: Path, text: str) -> None:
    """A device or pipe, such as /dev/stdout, cannot be replaced."""
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "name a file to write to") from None


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process reads a file of this folder in order to replace it (not on Windows)."""
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        raise CannotWrite(f"{folder}: {error.strerror or error}", "check the folder's permissions") from None
    try:
        yield
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
