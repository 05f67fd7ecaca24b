"""Methods that draft from the text so far, without a model: n-gram lookup and suffix decoding."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from draftpick.errors import UsageError

Proposer = Callable[[int], Sequence[int]]
"""k → at most k drafted tokens; to be asked before the next one is."""


class Lookup(Protocol):
    """A method that drafts from the text so far."""

    def proposers(self, ids: Sequence[int], begin: int) -> Iterator[Proposer]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end]."""


class NgramLookup(NamedTuple):
    """The longest n-gram at the end of the text, its earliest occurrence before, and what followed there (vLLM)."""

    min_n: int = 5
    max_n: int = 5
    stop_ids: frozenset[int] = frozenset()
    """A proposal is cut before the first of these."""

    def proposers(self, ids: Sequence[int], begin: int) -> Iterator[Proposer]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end]."""
        if not 1 <= self.min_n <= self.max_n:
            raise UsageError(
                f"n-grams of {self.min_n} to {self.max_n} tokens", hint="Give 1 or more, the smaller number first."
            )
        follows: dict[tuple[int, ...], int] = {}
        for end in range(1, len(ids)):
            # An n-gram is known from the moment something follows it: those that end one token back.
            for n in range(self.min_n, min(self.max_n, end - 1) + 1):
                follows.setdefault(tuple(ids[end - 1 - n : end - 1]), end - 1)
            if end >= begin:
                yield partial(self._propose, ids, end, self._find(ids, end, follows))

    def _find(self, ids: Sequence[int], end: int, follows: Mapping[tuple[int, ...], int]) -> int:
        for n in range(min(self.max_n, end), self.min_n - 1, -1):
            place = follows.get(tuple(ids[end - n : end]))
            if place is not None:
                return place
        return end

    def _propose(self, ids: Sequence[int], end: int, start: int, k: int) -> Sequence[int]:
        proposal = ids[start : min(start + k, end)]
        for place, token in enumerate(proposal):
            if token in self.stop_ids:
                return proposal[:place]
        return proposal


def prompt_lookup(max_n: int = 2, stop_ids: frozenset[int] = frozenset()) -> NgramLookup:
    """The variant of transformers: n-grams of `max_n` tokens down to one, cut at the first end-of-text token."""
    return NgramLookup(1, max_n, stop_ids)


@dataclass(slots=True, eq=False)
class _Node:
    """Of the tree of all n-grams of a text: how often it occurs, and what followed, in order of first sight."""

    token: int = -1
    place: int = 0
    """Among what follows the same text."""
    count: int = 0
    children: dict[int, _Node] = field(default_factory=dict)
    likeliest: _Node | None = None
    """The child that occurs most often, of several the first that was seen."""

    def followed_by(self, token: int) -> _Node:
        """The child of that token, seen once more."""
        child = self.children.get(token)
        if child is None:
            child = self.children[token] = _Node(token, len(self.children))
        child.count += 1
        best = self.likeliest
        if best is None or (child.count, -child.place) > (best.count, -best.place):
            self.likeliest = child
        return child


class SuffixLookup(NamedTuple):
    """Suffix decoding with the request's own tree alone: no cache of other requests.

    Where two continuations are equally frequent the engine's choice is unspecified; here the first seen is taken.
    """

    max_depth: int = 24
    max_spec_factor: float = 1.0
    """Tokens drafted per matched token."""
    min_token_prob: float = 0.1

    def proposers(self, ids: Sequence[int], begin: int) -> Iterator[Proposer]:
        """For each end = begin … len(ids)−1: what it drafts behind ids[:end]."""
        root = _Node()
        active: deque[_Node] = deque(maxlen=self.max_depth)
        for end in range(1, len(ids)):
            active.append(root)
            token = ids[end - 1]
            active = deque((node.followed_by(token) for node in active), self.max_depth)
            if end >= begin:
                yield partial(self._best, active)

    def _best(self, active: deque[_Node], k: int) -> list[int]:
        best: list[int] = []
        best_score = 0.0
        # The last nodes are those of the shortest matches; where two score alike the longer match wins.
        for matched, node in enumerate(reversed(active), 1):
            most = min(k, int(matched * self.max_spec_factor + 1e-6))
            proposal, score = self._follow(node, most)
            if score >= best_score:
                best, best_score = proposal, score
        return best

    def _follow(self, node: _Node, most: int) -> tuple[list[int], float]:
        """The likeliest way on from a node, and its expected number of hits."""
        proposal: list[int] = []
        score, chance = 0.0, 1.0
        while len(proposal) < most and (child := node.likeliest) is not None:
            chance *= child.count / node.count
            if chance < self.min_token_prob:
                break
            proposal.append(child.token)
            score += chance
            node = child
        return proposal, score
