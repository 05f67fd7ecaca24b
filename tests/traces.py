"""Traces that tests make up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from draftpick.lookup import Lookup
from draftpick.replay import Answer, Trace
from draftpick.walks import Walked, walk_lookup


def answer_from_matches(prompt: str, matches: Iterable[bool]) -> Answer:
    """An answer of which only is known whether each emitted token was the draft's first choice."""
    matched = np.fromiter(matches, dtype=bool)
    return Answer(prompt, np.zeros(matched.size, np.int64), np.where(matched, 0, -1).astype(np.int64))


def looked(trace: Trace, lookup: Lookup, k: int, *, horizon: int | None = None) -> Walked:
    """A draft-free method replayed with one length."""
    return walk_lookup(trace, lookup, [k], horizon=horizon)[0]
