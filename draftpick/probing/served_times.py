"""What a step costs in running servers: they write while somebody watches when each token comes.

A plain server shows its plain step. A server that speculates sends what a step accepted in one part, so the time
between its parts is the whole step, drafting and verification included, whatever was accepted.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from draftpick.choices import PROBE
from draftpick.intervals import Sums
from draftpick.probing.api import Server
from draftpick.probing.client import side_by_side
from draftpick.probing.device import CannotProbe
from draftpick.probing.local import Sampling
from draftpick.probing.outcome import ServedCosts, ServedStep
from draftpick.probing.result import spread_of
from draftpick.probing.trace import Row
from draftpick.speedup import StepTimes

Say = Callable[[str], None]


class NotTimed(CannotProbe):
    """Servers answer, and what their steps cost cannot be seen (exit code 3)."""


# ---------------------------------------------------------------------- what a stream says


class Stream(NamedTuple):
    """One answer that came in parts: the first is of the prompt's own pass, each other of one step."""

    begun: float
    """When it was asked for, in seconds of the clock of `at`."""
    at: tuple[float, ...]
    """When each part came."""
    tokens: tuple[int, ...]
    """How many tokens it brought."""


class Round(NamedTuple):
    """Answers that were written at once, over the time in which all of them were."""

    seconds: float
    """Of all answers together."""
    parts: int
    tokens: int
    merged: int
    """Parts with more tokens than one step can write."""
    lumps: bool
    """The parts came together, so that no time lies between them."""

    def step(self, k: int) -> float:
        """Seconds of a step that drafts k tokens. A plain one writes one token, in whatever parts they come."""
        return self.seconds / (self.parts if k else self.tokens)


def round_of(streams: Sequence[Stream], k: int) -> Round | None:
    """What answers that were asked for at once show; None where some waited until others had ended."""
    if not all(stream.at for stream in streams):
        return None
    start, end = max(stream.at[0] for stream in streams), min(stream.at[-1] for stream in streams)
    steps = [
        [
            (after - before, number)
            for before, after, number in zip(one.at, one.at[1:], one.tokens[1:], strict=False)
            if start <= before and after <= end
        ]
        for one in streams
    ]
    soonest = min(streams, key=lambda stream: stream.at[0])
    if soonest.at[-1] - soonest.at[0] <= PROBE["stream-lump"] * (soonest.at[-1] - soonest.begun):
        return Round(0.0, 0, 0, 0, lumps=True)  # all of it came at its end, out of some buffer
    if min(map(len, steps)) < PROBE["stream-least"]:
        return None
    found = [step for own in steps for step in own]
    seconds = sum(gap for gap, _ in found)
    # What comes a few at a time makes only the ends unsure.
    apart = sum(gap > PROBE["stream-lump"] * seconds / len(found) for gap, _ in found)
    return Round(
        seconds,
        len(found),
        sum(number for _, number in found),
        sum(number > k + 1 for _, number in found),
        lumps=apart < PROBE["stream-least"] * len(streams),
    )


class Timed(NamedTuple):
    """A step of one server with so many sequences at once."""

    seconds: float
    """The median over rounds."""
    spread: float
    """Half-width of ln(seconds) at 95 %."""
    merged: float
    """Share of parts with more tokens than one step can write."""
    lengths: Sums
    """Tokens per step by prompt, of the texts that the target was measured on."""


def timed(rounds: Sequence[Round], k: int, lengths: Sums) -> Timed | None:
    """The step that rounds show; None where most of them came in lumps, and show none."""
    whole = [one for one in rounds if not one.lumps]
    if not whole or 2 * len(whole) <= len(rounds):
        return None
    steps = [one.step(k) for one in whole]
    middle = statistics.median(steps)
    low, _, high = statistics.quantiles(steps, n=4) if len(steps) > 1 else [middle] * 3
    merged = sum(one.merged for one in whole) / sum(one.parts for one in whole)
    return Timed(middle, spread_of((high - low) / middle, len(steps)), merged, lengths)


def tokens_per_step(answers: Sequence[tuple[Row, Stream]]) -> Sums:
    """Tokens over steps by prompt, as far as an answer goes on like the text that was measured.

    The first part is no step, and the last one is cut short.
    """
    found: dict[str, tuple[str, int, int]] = {}
    for row, stream in answers:
        domain, tokens, steps = found.get(row.prompt, (row.domain, 0, 0))
        reached = stream.tokens[0]
        for number in stream.tokens[1:-1]:
            reached += number
            if reached > len(row.tokens):
                break
            tokens, steps = tokens + number, steps + 1
        found[row.prompt] = domain, tokens, steps
    y, x = ([counts[place] for counts in found.values()] for place in (1, 2))
    strata = tuple(domain for domain, _, _ in found.values())
    return Sums(tuple(found), strata, np.array(y, dtype=np.float64), np.array(x, dtype=np.float64))


# ---------------------------------------------------------------------- watching servers


class Job(NamedTuple):
    """A server with so many answers at once."""

    server: Server
    num_seqs: int
    k: int = 0
    """Tokens it drafts per step; 0: it does not speculate."""


@dataclass
class _Watched:
    """What a job showed so far."""

    job: Job
    rounds: list[Round] = field(default_factory=list)
    answers: list[tuple[Row, Stream]] = field(default_factory=list)
    waited: int = 0
    """Rounds in which the server kept some answers waiting."""

    @property
    def refused(self) -> bool:
        return self.waited > 1 and self.waited > len(self.rounds)

    def wants(self, late: bool) -> bool:
        """Whether another round is worth its time."""
        if self.refused or len(self.rounds) >= PROBE["stream-most-rounds"]:
            return False
        if len(self.rounds) + self.waited < PROBE["stream-rounds"]:
            return True
        return not late and self._spread() > PROBE["stream-precision"]

    def _spread(self) -> float:
        found = self.result()
        return found.spread if found is not None else math.inf

    def result(self) -> Timed | None:
        return timed(self.rounds, self.job.k, tokens_per_step(self.answers))


def watch(jobs: Sequence[Job], rows: Sequence[Row], sampling: Sampling, say: Say) -> list[Timed | None]:
    """Time every job on prompts of `rows`, by turns, so that what disturbs one disturbs all alike.

    None where a server does not run so many at once. Raises NotTimed, Refused and NotServed.
    """
    watched = [_Watched(job) for job in jobs]
    begun = time.monotonic()
    for one in watched:
        _answers(one.job, rows, sampling, 0, int(PROBE["check-warm-up"]))
    number = 0
    while todo := [one for one in watched if one.wants(time.monotonic() - begun > PROBE["stream-seconds"])]:
        for one in todo:
            found = _answers(one.job, rows, sampling, number, int(PROBE["stream-tokens"]))
            seen = round_of([stream for _, stream in found], one.job.k)
            if seen is None:
                one.waited += 1
                continue
            one.rounds.append(seen)
            one.answers += found
        number += 1
        say(f"timing steps of the servers: round {number}, {time.monotonic() - begun:.0f} s")
    return [None if one.refused or not one.rounds else _told(one) for one in watched]


def _told(one: _Watched) -> Timed:
    found = one.result()
    if found is None:
        raise NotTimed(
            f"the answers of {one.job.server.client.address} come in lumps, and not as they are written",
            "name the server itself, not a proxy that keeps answers together, and leave the machine alone meanwhile",
        )
    return found


def _answers(job: Job, rows: Sequence[Row], sampling: Sampling, number: int, most: int) -> list[tuple[Row, Stream]]:
    """So many answers at once, each to another prompt as long as there are some. Raises what a server raises."""
    longest = job.server.about.max_length
    fitting = [row for row in rows if longest is None or len(row.prompt_ids) + most < longest]
    if not fitting:
        raise NotTimed(
            f"no prompt fits {job.server.client.address} with {most} tokens of answer",
            "serve it with a longer --max-model-len",
        )
    start = number * job.num_seqs
    chosen = [fitting[(start + place) % len(fitting)] for place in range(job.num_seqs)]
    found = list(side_by_side(lambda row: _stream(job.server, row, sampling, most), chosen, len(chosen)))
    for _, one in found:
        if isinstance(one, Exception):
            raise one
    return [(row, one) for row, one in found if isinstance(one, Stream)]


def _stream(server: Server, row: Row, sampling: Sampling, most: int) -> Stream:
    begun = time.perf_counter()
    parts = list(server.stream(row.prompt_ids, sampling, most))
    return Stream(begun, tuple(at for at, _ in parts), tuple(number for _, number in parts))


# ---------------------------------------------------------------------- from steps to costs


def widths(k_max: int) -> list[int]:
    """Positions of a pass that are timed: between them lines are drawn, for wide passes grow evenly."""
    found = {1, 2, k_max + 1}
    return sorted(found | {1 + 2**power for power in range(1, 9) if 1 + 2**power <= k_max})


def line(points: Mapping[int, float], most: int) -> tuple[float, ...]:
    """Values at 0, 1, … `most` on the lines between points, and on along the last; none is below one before it."""
    known = sorted(points)
    found: list[float] = []
    for at in range(most + 1):
        place = min(max(bisect_left(known, at), 1), len(known) - 1)
        before, after = known[place - 1], known[place]
        value = points[before] + (points[after] - points[before]) * (at - before) / (after - before)
        found.append(max([value, *found[-1:]]))
    return tuple(found)


def from_passes(passes: Mapping[int, float], draft: float) -> StepTimes:
    """Steps out of the target's passes over 1, 2, … positions, as far as they reach, and the draft's plain step."""
    verify = line({positions - 1: seconds for positions, seconds in passes.items()}, max(passes) - 1)
    return StepTimes(verify[0], draft, draft, verify)


def from_steps(plain: float, steps: Mapping[int, float], k_max: int) -> StepTimes:
    """Steps that were timed whole: all of each stands where a verification does."""
    verify = line({0: plain, **steps}, max(k_max, *steps))
    return StepTimes(verify[0], 0.0, 0.0, verify)


class Servers(NamedTuple):
    """Who has the models."""

    target: Server
    drafts: Mapping[str, Server]
    """By id; may be empty where `speculating` is not."""
    speculating: Mapping[int, Server] = {}
    """The target with the only draft, by the number of tokens that is drafted per step."""


Found = Mapping[Job, Timed | None]
"""What was timed; None where a server does not run so many at once."""


class Prices(NamedTuple):
    """What steps cost in running servers."""

    costs: Mapping[str, ServedCosts]
    """By draft; without those whose servers do not run so many sequences at once."""
    own: Mapping[int, Timed]
    """Steps of the servers that speculate, by tokens drafted, with the fewest sequences at once."""
    refused: Sequence[int] = ()
    """Numbers of sequences that a server does not run at once."""


def price(
    servers: Servers,
    drafts: Sequence[str],
    rows: Sequence[Row],
    sampling: Sampling,
    *,
    batches: Sequence[int],
    k_max: int,
    say: Say,
) -> Prices:
    """What steps with each draft cost. Whole steps are timed where servers speculate, else their parts.

    Raises NotTimed, and what a server raises.
    """
    jobs = jobs_of(servers, batches, k_max)
    found = dict(zip(jobs, watch(jobs, rows, sampling, say), strict=True))
    return prices(servers, drafts, found, batches=batches, k_max=k_max, context=context_of(rows))


def jobs_of(servers: Servers, batches: Sequence[int], k_max: int) -> list[Job]:
    """What must be timed, each once."""
    return list(dict.fromkeys(job for batch in batches for job in _jobs(servers, batch, k_max)))


def prices(
    servers: Servers, drafts: Sequence[str], found: Found, *, batches: Sequence[int], k_max: int, context: int
) -> Prices:
    """What timed steps make of every draft."""
    costs = {}
    for draft in drafts:
        steps: dict[int, ServedStep] = {}
        doubts: dict[str, None] = {}
        for batch in batches:
            priced = _step(servers, draft, batch, k_max, found)
            if priced is not None:
                steps[batch] = ServedStep(*priced, context)
                doubts |= dict.fromkeys(_doubts(servers, draft, batch, k_max, found))
        if min(batches) in steps:
            costs[draft] = ServedCosts(_software(servers), steps, list(doubts), whole_steps=bool(servers.speculating))
    refused = [
        batch for batch in batches if not all(draft in costs and batch in costs[draft].steps for draft in drafts)
    ]
    own = {job.k: one for job, one in found.items() if job.k and one is not None and job.num_seqs == min(batches)}
    return Prices(costs, own, refused)


def context_of(rows: Sequence[Row]) -> int:
    """Tokens before a timed step, in the middle of an answer."""
    return round(statistics.mean(len(row.prompt_ids) for row in rows) + PROBE["stream-tokens"] / 2)


def whole(plain: Timed, steps: Mapping[int, Timed], k_max: int) -> tuple[StepTimes, float]:
    """Steps that were timed whole, and the half-width of ln(step / plain step) at 95 %."""
    times = from_steps(plain.seconds, {k: one.seconds for k, one in steps.items()}, k_max)
    return times, math.hypot(plain.spread, max(one.spread for one in steps.values()))


def _jobs(servers: Servers, batch: int, k_max: int) -> list[Job]:
    if servers.speculating:
        whole = [Job(server, batch, k) for k, server in sorted(servers.speculating.items())]
        return [Job(servers.target, batch), *whole]
    # A pass over m positions of n sequences does the work of a plain one over n·m sequences, but for their caches.
    passes = [Job(servers.target, batch * positions) for positions in widths(k_max)]
    return [*passes, *(Job(server, batch) for server in servers.drafts.values())]


def _step(servers: Servers, draft: str, batch: int, k_max: int, found: Found) -> tuple[StepTimes, float] | None:
    """The step and the half-width of ln(step / plain step); None where a server does not run so many at once."""
    plain = found[Job(servers.target, batch)]
    if plain is None:
        return None
    if servers.speculating:
        steps = {k: found[Job(server, batch, k)] for k, server in servers.speculating.items()}
        known = {k: one for k, one in steps.items() if one is not None}
        return whole(plain, known, k_max) if len(known) == len(steps) else None
    own = found[Job(servers.drafts[draft], batch)]
    passes = _passes(servers, batch, k_max, found)
    if own is None or len(passes) < 2:
        return None
    times = from_passes({positions: one.seconds for positions, one in passes.items()}, own.seconds)
    return times, math.hypot(plain.spread, own.spread, max(one.spread for one in passes.values()))


def _passes(servers: Servers, batch: int, k_max: int, found: Found) -> dict[int, Timed]:
    """Passes over 1, 2, … positions, as many as the server has room for at once."""
    known = {positions: found[Job(servers.target, batch * positions)] for positions in widths(k_max)}
    return {positions: one for positions, one in known.items() if one is not None}


def _software(servers: Servers) -> str:
    name = servers.target.about.software
    if servers.speculating:
        lengths = ", ".join(map(str, sorted(servers.speculating)))
        return f"{name}, whole steps of servers that draft {lengths} tokens, and lines between and beyond them"
    return (
        f"{name}, the draft in a server of its own and verification as the target's steps with as many more sequences "
        "at once, which read more caches than it does"
    )


def _doubts(servers: Servers, draft: str, batch: int, k_max: int, found: Found) -> list[str]:
    """What makes the costs of one draft unsure."""
    said = []
    jobs = [job for job in _jobs(servers, batch, k_max) if job.server not in _others(servers, draft)]
    known = [(job, one) for job in jobs if (one := found[job]) is not None]
    said += unsteady(batch, [one for _, one in known])
    for job, one in known:
        said += merged(job, one, of_target=job.server is servers.target)
    reach = max(_passes(servers, batch, k_max, found), default=0) - 1 if not servers.speculating else k_max
    if reach < k_max:
        said.append(
            f"the target's server runs no {batch * (k_max + 1)} sequences at once: with {batch}, costs are known up to "
            f"{reach} drafted tokens"
        )
    return said


def unsteady(batch: int, steps: Sequence[Timed]) -> list[str]:
    """What is to be said of timings that lie far apart; nothing where they do not."""
    widest = max(one.spread for one in steps)
    if widest <= PROBE["stream-unsteady"]:
        return []
    known = f"{widest:.0%}".replace("%", " %")
    return [f"unsteady steps with {batch} at once: known to ±{known}; is something else running there?"]


def _others(servers: Servers, draft: str) -> list[Server]:
    return [server for name, server in servers.drafts.items() if name != draft]


def merged(job: Job, one: Timed, *, of_target: bool = True) -> list[str]:
    """What is to be said of parts that hold more than one step can write; nothing where there are few."""
    if one.merged <= PROBE["stream-merged"]:
        return []
    share, address = f"{one.merged:.0%} of the parts".replace("%", " %"), job.server.client.address
    if job.k:
        return [
            f"{share} that {address} sends hold more than the {job.k + 1} tokens of a step: it drafts more, or sends "
            "steps together, and then they seem to take longer"
        ]
    over = "speed-ups are those over it" if of_target else "a drafted token costs more than it seems"
    return [
        f"{share} that {address} sends hold several tokens: if it speculates, its steps are not plain ones, and {over}"
    ]
