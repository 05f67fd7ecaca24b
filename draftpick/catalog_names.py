"""Names as people spell them: which model a mistyped one may mean, and which device one that a tool prints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_TELLING = 5
"""Letters and digits of a beginning that means a family and not any name."""


def nearest(name: str, ids: Iterable[str], n: int = 3) -> list[str]:
    """The ids whose bare name is nearest to the bare name asked for, best first.

    Names that go on where the one asked for ends come first: a size or a date was left out. Sizes and generations are
    digits: names whose digits agree come before names that merely look alike.
    """
    asked = bare(name)
    by_name: dict[str, list[str]] = {}
    for model_id in ids:
        by_name.setdefault(bare(model_id), []).append(model_id)
    longer = {other for other in by_name if len(asked) >= _TELLING and other.startswith(asked)}
    close = [*longer.union(get_close_matches(asked, by_name, n=max(4 * n, 12), cutoff=0.5))]
    wanted = _digits(asked)
    ratios = {other: SequenceMatcher(None, asked, other).ratio() for other in close}
    close.sort(key=lambda other: (other not in longer, wanted != _digits(other), -ratios[other], other))
    return [model_id for other in close for model_id in by_name[other]][:n]


def bare(name: str) -> str:
    """A name in lower case, without organisation and separators."""
    return "".join(character for character in name.rstrip("/").rsplit("/", 1)[-1].lower() if character.isalnum())


_VENDORS = re.compile(r"(?:nvidia|amd|huawei|apple|intel|tesla|geforce|quadro|instinct|radeon|ascend)(?=.)")


def device_name(name: str) -> str:
    """A device's name without separators, in lower case, and without the vendor and the brand before it."""
    plain = "".join(character for character in name.lower() if character.isalnum())
    while (found := _VENDORS.match(plain)) is not None:
        plain = plain[found.end() :]
    return plain


def _digits(name: str) -> str:
    return "".join(character if character.isdigit() else " " for character in name).strip()
