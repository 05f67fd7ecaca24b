"""Traces that tests make up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from draftpick.replay import Answer


def answer_from_matches(prompt: str, matches: Iterable[bool]) -> Answer:
    """An answer of which only is known whether each emitted token was the draft's first choice."""
    matched = np.fromiter(matches, dtype=bool)
    return Answer(prompt, np.zeros(matched.size, np.int64), np.where(matched, 0, -1).astype(np.int64))
