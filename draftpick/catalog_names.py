"""Names of models: what a mistyped one may mean."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches


def nearest(name: str, ids: Iterable[str], n: int = 3) -> list[str]:
    """The ids whose bare name is nearest to the bare name asked for, best first.

    Sizes and generations are digits: names whose digits agree come before names that merely look alike.
    """
    asked = bare(name)
    by_name: dict[str, list[str]] = {}
    for model_id in ids:
        by_name.setdefault(bare(model_id), []).append(model_id)
    close = get_close_matches(asked, by_name, n=max(4 * n, 12), cutoff=0.5)
    wanted = _digits(asked)
    close.sort(key=lambda other: (wanted != _digits(other), -SequenceMatcher(None, asked, other).ratio()))
    return [model_id for other in close for model_id in by_name[other]][:n]


def bare(name: str) -> str:
    """A name in lower case, without organisation and separators."""
    return "".join(character for character in name.rstrip("/").rsplit("/", 1)[-1].lower() if character.isalnum())


def _digits(name: str) -> str:
    return "".join(character if character.isdigit() else " " for character in name).strip()
