"""Files that are the old ones or the new ones, never half of one, whatever ends the process that writes them.

A new file is made beside the old one and moved over it. Whoever makes one holds its lock, so that the next run knows
what a run that was killed has left behind, and removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from draftpick.errors import DraftpickError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks: nothing waits there, and what was left is not removed
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = ".draftpick"
"""How the names of files and folders end that are not finished."""


class CannotWrite(DraftpickError):
    """The output could not be written: full disk, no permission, no such folder (exit code 3)."""

    exit_code = 3


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, keeping the permissions of an existing file.

    Raises CannotWrite, with the old file untouched.
    """
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
        _remove_leftovers(target)
        _replace(target, text)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle, ValueError: a null byte
        raise CannotWrite(
            f"{path}: {getattr(error, 'strerror', None) or error}", "free some space, or write elsewhere with --output"
        ) from None


def _replace(target: Path, text: str) -> None:
    """Write beside a file, and move it there; again where a run that removes leftovers came before the lock."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target), suffix=_UNFINISHED)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                lock(handle, wait=True)
                if not is_at(handle, temporary):
                    continue
                file.write(text)
                file.flush()
                os.fsync(handle)
                os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
                if fcntl is None:
                    file.close()  # Windows moves no open file
                os.replace(temporary, target)
                return
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _write_to_special(path: Path, text: str) -> None:
    """A device or pipe, such as /dev/stdout, cannot be replaced."""
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}", "name a file to write to") from None


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A folder beside `path` to make it in, with what belongs to it; gone afterwards. Raises OSError, CannotWrite."""
    with one_at_a_time(path.parent):  # or another run might remove it before it is held
        _remove_leftovers(path)
        folder = tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path), suffix=_UNFINISHED)
        handle = os.open(folder, os.O_RDONLY) if fcntl is not None else None
        if handle is not None:
            lock(handle, wait=True)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _prefix(target: Path) -> str:
    return f".{target.name[:50]}."


def _remove_leftovers(target: Path) -> None:
    """Remove what runs that were killed left beside a file: what no process holds the lock of."""
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix(target)) and entry.name.endswith(_UNFINISHED) and not entry.is_symlink():
                _remove_unheld(entry.path)


def _remove_unheld(path: str) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            if not lock(handle, wait=False):
                return
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        finally:
            os.close(handle)


# ---------------------------------------------------------------------- locks


def lock(handle: int, *, wait: bool) -> bool | None:
    """Whether an open file is this process's alone from now on; None where there are no locks to tell."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None  # a file system without locks
    return True


def is_at(handle: int, path: str | Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process reads a file of this folder in order to replace it (not on Windows)."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise CannotWrite(f"{folder}: {error.strerror or error}", "check the folder's permissions") from None
    try:
        lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
