"""What servers count of their speculation: read from their metrics or their responses, held against itself, added up.

vLLM (0.32.0, `vllm/v1/spec_decode/metrics.py`; since PR 16665 of 2025) counts `vllm:spec_decode_num_drafts`,
`…_num_draft_tokens`, `…_num_accepted_tokens` and `…_num_accepted_tokens_per_pos{position="0"…}`, each with `_total`
behind it and the labels `model_name` and `engine`; its mean acceptance length is 1 + accepted / drafts. vLLM-Ascend is
a plug-in of vLLM and has the same. llama.cpp (b11434, `tools/server/server-task.cpp`, with `--metrics`) counts the same
under `llamacpp:`, without labels, when a request ends. SGLang (0.5.23, `srt/observability/metrics_collector.py`) counts
neither drafts nor positions: its gauges `sglang:spec_accept_length` (bonus token included) and `…_accept_rate` are
means of its last 40 or so steps, 0 where it does not speculate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from draftpick.choices import Choice
from draftpick.errors import NotObservable
from draftpick.responses import UNNAMED, Request
from draftpick.scrape import Sample, Scrape
from draftpick.speedup import (
    MOST_TOKENS,
)

if TYPE_CHECKING:
    from draftpick.intervals import Floats

COUNTER = re.compile(
    r"(vllm|llamacpp):spec_decode_num_(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?"
)
SERVERS = {"vllm": "vllm", "llamacpp": "llama.cpp"}
_STARTED = "vllm:spec_decode_num_drafts_created"
"""When the counter began: a restart shows even where the new count is already the higher one."""
OLD = "vllm:spec_decode_num_emitted_tokens_total"
"""Of vLLM's first engine (V0), which counted no drafts."""
LENGTH, RATE, STEPS = "sglang:spec_accept_length", "sglang:spec_accept_rate", "sglang:spec_num_steps"
WRITTEN = "llamacpp:tokens_predicted_total"
FAMILIES = re.compile(f"{COUNTER.pattern}|{_STARTED}|{OLD}|{LENGTH}|{RATE}|{STEPS}|{WRITTEN}")
"""What is read of a server's metrics."""

CHOICES: tuple[Choice, ...] = (
    Choice("observe.least-tokens", 500, "fewer tokens are a handful of requests, and decide nothing"),
    Choice("observe.slack", 0.005, "counters of one moment are not read in one moment: so far they may disagree"),
    Choice("observe.short", 0.99, "drafts that are shorter on average than this share of k were cut by some rule"),
)
CHOSEN = {choice.name: choice.value for choice in CHOICES}


class Requests(NamedTuple):
    """What counts hold of single requests, a row for each that drafted."""

    steps: Floats
    drafted: Floats
    accepted: Floats
    """By position."""
    tried: Floats
    """By position: steps that drafted it and accepted all before it."""
    apart: bool
    """Where lengths vary, what was not drafted is told apart from what was rejected."""


class Counts(NamedTuple):
    """The counters of one engine, or of several; the sums of requests."""

    drafts: int
    draft_tokens: int
    accepted: int
    positions: tuple[int, ...]
    """Accepted at position 1, 2, … k; empty where they are not exported."""
    started: float | None = None
    """Unix time at which they began; None where it is not exported."""
    requests: Requests | None = None
    """None where requests are not told apart."""

    @property
    def tried(self) -> tuple[int, ...]:
        """Drafts that reach position 1, 2, … k, all before it being accepted."""
        if self.requests is not None:
            return tuple(int(count) for count in self.requests.tried.sum(axis=0))
        return (self.drafts, *self.positions)[: len(self.positions)]

    @property
    def histogram(self) -> tuple[int, ...]:
        """Drafts that accept exactly 0, 1, … k tokens."""
        edges = (self.drafts, *self.positions)
        return (*(before - after for before, after in pairwise(edges)), edges[-1]) if self.positions else ()


class Key(NamedTuple):
    """One engine of one model."""

    model: str
    labels: tuple[tuple[str, str], ...]

    @property
    def engine(self) -> str:
        """The labels in words."""
        if [name for name, _ in self.labels] == ["engine"]:
            return self.labels[0][1]
        return ", ".join(f"{name} {value}" for name, value in self.labels) or "the only one"


class Window(NamedTuple):
    """What one engine counted in the time looked at."""

    counts: Counts
    before: Counts | None
    """At the first scrape; None with one scrape, and where the counters began anew."""
    restarted: bool


def counters(scrape: Scrape) -> dict[Key, Counts]:
    """The counters of each engine. Raises NotObservable where they contradict each other."""
    totals: dict[Key, dict[str, int]] = {}
    positions: dict[Key, dict[int, int]] = {}
    started: dict[Key, float] = {}
    for sample in scrape.samples:
        key = key_of(sample)
        if sample.name == _STARTED:
            started[key] = sample.value
        elif found := COUNTER.fullmatch(sample.name):
            if found[2] == "accepted_tokens_per_pos":
                _put(positions.setdefault(key, {}), _position(sample, scrape), sample, scrape)
            else:
                _put(totals.setdefault(key, {}), found[2], sample, scrape)
    counts = {key: _counts(totals.get(key, {}), positions.get(key, {}), scrape) for key in {**totals, **positions}}
    return {key: one._replace(started=started.get(key)) for key, one in counts.items()}


def key_of(sample: Sample) -> Key:
    """Which engine a sample is of."""
    labels = {name: value for name, value in sample.labels.items() if name not in ("model_name", "position")}
    return Key(sample.labels.get("model_name") or UNNAMED, tuple(sorted(labels.items())))


def _put(found: dict[Any, int], name: str | int, sample: Sample, scrape: Scrape) -> None:
    if not 0 <= sample.value < 1 << 53 or sample.value != int(sample.value):
        raise _contradiction(scrape, f"{sample.name} is {sample.value:g}")
    if name in found:
        raise _contradiction(scrape, f"{sample.name} is there twice for one engine")
    found[name] = int(sample.value)


def _position(sample: Sample, scrape: Scrape) -> int:
    text = sample.labels.get("position", "")
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) >= MOST_TOKENS:
        raise _contradiction(scrape, f"position {text[:20]!r} of {sample.name}")
    return int(text)


def _counts(totals: Mapping[str, int], positions: Mapping[int, int], scrape: Scrape) -> Counts:
    lacking = {"drafts", "draft_tokens", "accepted_tokens"} - totals.keys()
    if lacking:
        raise _contradiction(scrape, f"spec_decode_num_{min(lacking)} is missing")
    if sorted(positions) != list(range(len(positions))):
        raise _contradiction(scrape, "positions do not count 0, 1, 2, …")
    drafts, drafted, accepted = totals["drafts"], totals["draft_tokens"], totals["accepted_tokens"]
    per_position = tuple(positions[place] for place in range(len(positions)))
    return _agreeing(Counts(drafts, drafted, accepted, per_position), scrape.source)


def _agreeing(counts: Counts, source: str) -> Counts:
    """The counts, of which none may exceed the one it is a part of. Raises NotObservable."""
    slack = 16 + CHOSEN["observe.slack"] * counts.drafts
    tidy: list[int] = []
    for place, count in enumerate(counts.positions, start=1):
        most = tidy[-1] if tidy else counts.drafts
        if count > most + slack:
            raise NotObservable(
                f"{source}: the counters contradict each other: {count:,} accepted at position {place}, of {most:,}",
                _HINT,
            )
        tidy.append(min(count, most))
    most = (len(tidy) or MOST_TOKENS) * counts.drafts
    if counts.accepted > counts.draft_tokens + slack or counts.draft_tokens > most + slack:
        raise NotObservable(
            f"{source}: the counters contradict each other: {counts.drafts:,} drafts of {len(tidy) or 'some'} tokens, "
            f"{counts.draft_tokens:,} drafted, {counts.accepted:,} accepted",
            _HINT,
        )
    drafted = min(counts.draft_tokens, most)
    return counts._replace(draft_tokens=drafted, accepted=min(counts.accepted, drafted), positions=tuple(tidy))


_HINT = "is it one server's own page, unchanged? Scrapes of several servers must not be added up before"


def _contradiction(scrape: Scrape, what: str) -> NotObservable:
    return NotObservable(f"{scrape.source}: counters that no server writes: {what}", _HINT)


def window_of(key: Key, after: Counts, before: Mapping[Key, Counts] | None) -> Window:
    """What was counted since the first scrape; since the restart where the counters began anew in between."""
    if before is None:
        return Window(after, None, restarted=False)
    first = before.get(key)
    if first is None or _began_anew(first, after):
        return Window(after, None, restarted=True)
    positions = tuple(new - old for new, old in zip(after.positions, first.positions, strict=True))
    counts = Counts(
        after.drafts - first.drafts,
        after.draft_tokens - first.draft_tokens,
        after.accepted - first.accepted,
        positions,
    )
    return Window(_agreeing(counts, f"engine {key.engine}"), first, restarted=False)


def _began_anew(first: Counts, after: Counts) -> bool:
    if len(first.positions) != len(after.positions):
        return True
    if first.started is not None and after.started is not None and abs(first.started - after.started) > 1:
        return True
    old, new = ((one.drafts, one.draft_tokens, one.accepted, *one.positions) for one in (first, after))
    return any(now < then for now, then in zip(new, old, strict=True))


def added_up(parts: Iterable[Counts]) -> Counts:
    """Of the engines of a model: drafts of other lengths have no further positions."""
    whole = list(parts)
    most = max(len(one.positions) for one in whole)
    positions = tuple(sum(one.positions[place] for one in whole if place < len(one.positions)) for place in range(most))
    return Counts(
        sum(one.drafts for one in whole),
        sum(one.draft_tokens for one in whole),
        sum(one.accepted for one in whole),
        positions,
    )


def natural(text: str) -> list[tuple[int, str]]:
    """Numbers by their value, so that engine 10 comes behind engine 9."""
    return [(int(part) if len(part) < 10 else 0, part) for part in re.findall(r"[0-9]+", text)] or [(0, text)]


def of_requests(requests: Sequence[Request]) -> Counts:
    """The sums of requests with one num_spec_tokens."""
    import numpy as np

    drafting = [one for one in requests if sum(one.histogram)]
    k = len(requests[0].histogram) - 1
    histograms = np.array([one.histogram for one in drafting], dtype=float).reshape(-1, k + 1)
    at_least = histograms[:, ::-1].cumsum(axis=1)[:, ::-1]
    apart = all(one.tried is not None for one in drafting)
    tried = np.array([one.tried for one in drafting], dtype=float).reshape(-1, k) if apart else at_least[:, :-1]
    drafted = np.array([one.draft_tokens for one in drafting], dtype=float)
    positions = tuple(int(count) for count in at_least[:, 1:].sum(axis=0))
    single = Requests(at_least[:, 0], drafted, at_least[:, 1:], tried, apart)
    return Counts(int(at_least[:, 0].sum()), int(drafted.sum()), sum(positions), positions, requests=single)
