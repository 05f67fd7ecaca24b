"""Files from strangers, read within bounds: size, number of values and depth are checked before memory is spent."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

from draftpick.errors import InvalidFile

CONFIG_BYTES = 5_000_000
"""A config.json is a few kilobytes; the longest quantisation lists come to some hundred."""
_MAX_VALUES = 3_000_000
_MAX_STRINGS = 1_600_000
"""The largest known file, the tokenizer.json of Gemma 3, holds 1.3 million."""
MAX_DEPTH = 100
"""Lists and objects inside each other: real files have some ten. What the parser bears differs between Pythons."""
_MAX_DIGITS = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LFS_MARK = b"version https://git-lfs"


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. Raises InvalidFile for what is no readable regular file (a pipe would block)."""
    try:
        kind = os.stat(path)
        if not stat.S_ISREG(kind.st_mode):
            raise InvalidFile(f"{path} is not a regular file", "name a file or a model folder")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> InvalidFile:
    """The error for a path the system refuses: no permission, a loop of links, a broken link."""
    reason = getattr(error, "strerror", None) or str(error)
    return InvalidFile(
        f"{path} cannot be read: {reason}", "check that the path, its links and its permissions are right"
    )


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a file of at most `limit` bytes. Raises InvalidFile."""
    with open_regular(path) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise unreadable(path, error) from error
    if len(data) > limit:
        raise InvalidFile(
            f"{path} is larger than {limit:,} bytes: too large to be what its name says",
            "download the file again, or name another folder",
        )
    return data


def read_json(path: Path, limit: int = CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in a file. Raises InvalidFile naming the file and what is wrong with it."""
    data = read_bytes(path, limit)
    if data.startswith(_LFS_MARK):
        raise InvalidFile(f"{path} is a Git LFS pointer, not the file itself", "run `git lfs pull` in that folder")
    return parse_json(data, str(path))


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in `data`; `where` names it in the error. Raises InvalidFile."""
    value = parse_value(data, where)
    if not isinstance(value, dict):
        raise InvalidFile(f"{where} holds a {type(value).__name__}, not a JSON object", "download the file again")
    return value


def parse_value(data: bytes, where: str, *, finite: bool = False) -> Any:
    """Any JSON value, with numbers that are all `finite` where that is asked. Raises InvalidFile."""
    containers, strings = data.count(b"[") + data.count(b"{"), data.count(b'"') // 2
    if containers > _MAX_VALUES // 2 or strings > _MAX_STRINGS or data.count(b",") > _MAX_VALUES:
        raise InvalidFile(f"{where} holds too many values to be what it says", "download the file again")
    number = _finite if finite else None
    deep = InvalidFile(f"{where} is nested too deeply", "download the file again")
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_int=_integer, parse_float=number, parse_constant=number)
    except RecursionError:
        raise deep from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        reason = "it is empty" if not data.strip() else str(error)
        raise InvalidFile(f"{where} is not valid JSON: {reason}", "download the file again, or mend it") from error
    if containers > MAX_DEPTH and isinstance(value, (dict, list)) and _is_deep(value):
        raise deep
    return value


def _is_deep(value: Any) -> bool:
    kinds, level = (dict, list), [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            below += [part for part in (item.values() if type(item) is dict else item) if type(part) in kinds]
        if not below:
            return False
        level = below
    return True


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is no finite number")
    return value


def clean(value: object, limit: int = 300) -> str | None:
    """A text of a file as it may travel to the output, the catalogue and a probe; None if it is no text.

    It is printable as UTF-8, one line of bounded length without control characters.
    """
    if not isinstance(value, str):
        return None
    plain = _CONTROL.sub(" ", value[:limit]).encode("utf-8", "replace").decode("utf-8")
    return plain.strip() or None
