"""Versions of engines and how they compare: releases, builds and dates, and the windows of rows that name them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

_LONGEST = 60
_NEWEST = frozenset({"main", "master", "nightly", "latest", "dev", "head"})
_PHASES: Mapping[str, int] = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}


class Version(NamedTuple):
    """A span of points of one scheme; only coarse dates (`2025`) and builds seen as dates have two ends."""

    scheme: Literal["release", "build", "date"]
    low: tuple[int, ...]
    high: tuple[int, ...]


@lru_cache(maxsize=512)
def parsed(text: str) -> Version | None:
    """A version as something that compares; None where the text is no version."""
    text = text.strip().lower().lstrip("v").split("+", 1)[0]
    if len(text) > _LONGEST or not text.isascii():
        return None
    if text[:1] == "b" and text[1:].isdigit():
        return Version("build", (int(text[1:]),), (int(text[1:]),))
    date = _date(text)
    if date is not None:
        return date
    point = _release(text)
    return Version("release", point, point) if point is not None else None


def _date(text: str) -> Version | None:
    parts = text.split("-")
    if len(parts) > 3 or not all(part.isdigit() for part in parts) or len(parts[0]) != 4 or not parts[0] >= "2000":
        return None
    numbers = tuple(int(part) for part in parts)
    return Version("date", numbers + (1,) * (3 - len(numbers)), numbers + (99,) * (3 - len(numbers)))


def _release(text: str) -> tuple[int, ...] | None:
    """Four numbers, then phase and number of a pre- or post-release: 0.13rc1 → (0, 13, 0, 0, -1, 1)."""
    numbers: list[int] = []
    phase = (0, 0)
    for part in text.replace("-", ".").replace("_", ".").split("."):
        digits = len(part) - len(part.lstrip("0123456789"))
        if digits:
            numbers.append(int(part[:digits]))
        rest = part[digits:]
        if not rest:
            if not digits:
                return None
            continue
        name = rest.rstrip("0123456789")
        if name not in _PHASES or not numbers:
            return None
        phase = (_PHASES[name], int(rest[len(name) :] or 0))
        break
    if not numbers or len(numbers) > 4:
        return None
    return (*numbers, *(0,) * (4 - len(numbers)), *phase)


def is_newest(version: str) -> bool:
    """Whether it names whatever is newest, and no release."""
    return version.strip().lower() in _NEWEST


class Clock:
    """Compares a version with the bounds of a row; builds and dates meet through known builds.

    What names whatever is newest is taken for the version that the facts hold for.
    """

    def __init__(self, facts: Mapping[str, Any], version: str) -> None:
        if is_newest(version):
            version = str(facts.get("version", version))
        self._builds = sorted((int(row["build"]), _point(str(row["date"]))) for row in facts.get("builds", ()))
        self._asked = parsed(version)
        self._now = self._comparable(version)

    def covers(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the row's window holds the version; None where that can't be told."""
        since, until = row.get("since"), row.get("until")
        after = True if since is None else _negated(self.before(str(since)))
        before = True if until is None else self.before(str(until))
        if after is False or before is False:
            return False
        return None if after is None or before is None else True

    def before(self, bound: str) -> bool | None:
        """Whether the version came before another one; None where that can't be told."""
        asked, written = self._asked, parsed(bound)
        if asked is not None and written is not None and asked.scheme == written.scheme == "build":
            return asked.low < written.low
        limit = self._comparable(bound)
        if limit is None or self._now is None or limit.scheme != self._now.scheme:
            return None
        if self._now.high < limit.low:
            return True
        return False if self._now.low >= limit.low else None

    def _comparable(self, text: str) -> Version | None:
        version = parsed(text)
        if version is None or version.scheme != "build" or not self._builds:
            return version
        build = version.low[0]
        low = max((date for number, date in self._builds if number <= build), default=())
        high = min((date for number, date in self._builds if number >= build), default=(9999,))
        return Version("date", low, high)


def _point(date: str) -> tuple[int, ...]:
    return tuple(int(part) for part in date.split("-"))


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def window(row: Mapping[str, Any]) -> str:
    """The versions of a row whose bounds are not exactly known, in words."""
    since, until = row.get("since"), row.get("until")
    if since and until:
        return f"from about {since} to before {until}"
    if since:
        return f"from about {since}"
    return f"before about {until}" if until else "as last reported"
