"""TOML files of people and strangers, read within bounds: the parser itself has none."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftpick.errors import InvalidCatalog

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE_BYTES = 1_000_000
"""The largest shipped file has 0.1 MB, all of them 2.4 MB. Checking 1 MB takes 1 s, and 2 s at the worst."""
MAX_DEPTH = 12
"""Tables and lists inside each other; the catalogue's own files need 6."""
MAX_TABLES = 10_000
MAX_TOP_KEYS = 200
MAX_KEY_PARTS = 6
"""Names in one dotted key; the catalogue's own files need 3."""

ADVICE = "mend the file, then run `draftpick catalog validate`"

_STRINGS = (
    r""""{3}(?:[^\\]|\\(?:.|\Z))*?(?:"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:[^"\\\n]|\\(?:.|\Z))*"?|'[^'\n]*'?|#[^\n]*"""
)
"""One that does not end goes as far as it can: looked through again from its every quote, it would take for ever."""


def read_toml(path: Path, advice: str = ADVICE) -> dict[str, Any]:
    """The content of a TOML file; `advice` is what to do about one that is none.

    Raises InvalidCatalog where it is no regular file, too large, no TOML, or nested too deeply.
    """
    large = "split it by family" if advice == ADVICE else advice
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InvalidCatalog(f"{path}: not a regular file", "remove it, or put a TOML file there")
        if status.st_size > MAX_FILE_BYTES:
            raise InvalidCatalog(f"{path}: larger than {MAX_FILE_BYTES:,} bytes", large)
        with open(path, "rb") as file:  # files of /proc have no size, and some of them no end
            text = file.read(MAX_FILE_BYTES + 1).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise InvalidCatalog(f"{path}: {error.strerror or error}", "check the path and its permissions") from None
    except UnicodeDecodeError:
        raise InvalidCatalog(f"{path}: not valid TOML: it is not UTF-8 text", "save it as UTF-8") from None
    except ValueError as error:  # a null byte in the path
        raise InvalidCatalog(f"{path}: {error}", "check the path") from None
    return parse_toml(text, path, advice)


def parse_toml(text: str, path: Path, advice: str = ADVICE) -> dict[str, Any]:
    """The content of the text that a file has, or is about to have, within the same bounds. Raises InvalidCatalog."""
    large = "split it by family" if advice == ADVICE else advice
    try:
        if len(text) > MAX_FILE_BYTES or len(text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
            raise InvalidCatalog(f"{path}: larger than {MAX_FILE_BYTES:,} bytes", large)
        if text.count("\n[") > MAX_TABLES:
            raise InvalidCatalog(f"{path}: more than {MAX_TABLES:,} tables in one file", large)
        if _has_long_key(text):
            raise InvalidCatalog(f"{path}: nested too deeply: a key has more than {MAX_KEY_PARTS} parts", advice)
        content: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise InvalidCatalog(f"{path}: nested too deeply", advice) from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise InvalidCatalog(f"{path}: not valid TOML: {_short(error)}", advice) from None
    if len(content) > MAX_TOP_KEYS:
        raise InvalidCatalog(f"{path}: {len(content)} keys at the top; no such file has over {MAX_TOP_KEYS}", advice)
    if _depth(content) > MAX_DEPTH:
        raise InvalidCatalog(f"{path}: nested too deeply: more than {MAX_DEPTH} tables inside each other", advice)
    return content


def _has_long_key(text: str) -> bool:
    """Whether a dotted key has too many parts: the parser takes time that grows with their square."""
    bare = re.sub(_STRINGS, "q", text, flags=re.DOTALL)
    return any(part.count(".") >= MAX_KEY_PARTS for part in re.split(r"[={},\n\[\]]", bare))


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 300 else text[:300] + "…"


def _depth(content: Any) -> int:
    """Levels of tables and lists, counted without recursion and only as far as needed."""
    level, depth = [content], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        below: list[Any] = []
        for item in level:
            values = item.values() if isinstance(item, dict) else item
            below.extend(value for value in values if isinstance(value, (dict, list)))
        level = below
    return depth if not level else MAX_DEPTH + 1


class Lines:
    """Where the tables and keys of a file stand: the parser of TOML does not tell."""

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[Any, ...], int] = {}
        self._last = text.count("\n") + 1
        counts: dict[tuple[Any, ...], int] = {}
        table: tuple[Any, ...] = ()
        for number, line in enumerate(text.split("\n"), start=1):
            if header := _HEADER.match(line):
                table = self._inside(header[2], counts)
                if header[1] == "[[":
                    place = counts[table] = counts.get(table, -1) + 1
                    table = (*table, place)
                self._found.setdefault(table, number)
            elif key := _KEY.match(line):
                self._found.setdefault((*table, *_parts(key[1])), number)

    @staticmethod
    def _inside(dotted: str, counts: dict[tuple[Any, ...], int]) -> tuple[Any, ...]:
        """The path of a header: in a list of tables it means the last one so far."""
        *above, last = _parts(dotted)
        path: tuple[Any, ...] = ()
        for part in above:
            path = (*path, part)
            if path in counts:
                path = (*path, counts[path])
        return (*path, last)

    def of(self, where: Sequence[Any]) -> int:
        """The line of a key, or of the nearest table around it."""
        for size in range(len(where), 0, -1):
            if (line := self._found.get(tuple(where[:size]))) is not None:
                return line
        return 1


_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
