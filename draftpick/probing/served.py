"""A probe through servers: the target writes, every draft reads it in one request, and nothing is loaded here.

For targets that need many devices or machines, the engine that serves them is the distributed part of this tool.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from draftpick import intervals
from draftpick.choices import PROBE
from draftpick.probing.api import Reading, Server
from draftpick.probing.checks import Agreement, Check
from draftpick.probing.client import side_by_side
from draftpick.probing.device import CannotProbe, Place
from draftpick.probing.local import Reading as LocalReading
from draftpick.probing.local import Sampling
from draftpick.probing.outcome import Outcome, Request
from draftpick.probing.prompts import Prompt, different, in_parts
from draftpick.probing.served_times import Servers, Timed, price
from draftpick.probing.trace import DraftColumns, Row, Writer, ends_of

LOOKED_AT = 4
"""Answers that target and drafts read once more, to see that both speak of the same tokens."""

Say = Callable[[str], None]


class Task(NamedTuple):
    """One prompt at one temperature."""

    prompt: Prompt
    sampling: Sampling

    @property
    def key(self) -> tuple[str, str, float]:
        return self.prompt.id, self.prompt.digest, self.sampling.temperature


class TooLong(Exception):
    """A prompt that does not fit the shortest of the served contexts."""


class ServedProbe:
    """The state of one run."""

    def __init__(self, request: Request, place: Place, servers: Servers, say: Say) -> None:
        """`servers.drafts`: by the id that the request has. Raises CannotProbe where a server lacks what is needed."""
        self._request, self._servers, self._say = request, servers, say
        self._target, self._drafts = target, drafts = servers.target, servers.drafts
        self._priced = not request.times_passes or request.given_times is not None
        self._seconds = dict.fromkeys(("asking", "checking", "timing"), 0.0)
        self._lost: dict[str, CannotProbe] = {}
        self._in_turn = self._too_long = 0
        self._unlooked = "no answer was read twice"
        """Why it was not seen yet that target and drafts speak of the same tokens; empty once it was."""
        request.refuse_old_trace()
        self.outcome = Outcome(
            request,
            [],
            frozenset(),
            place,
            dtype="unknown",
            software=_software({request.target.id: target, **drafts}),
            evidence="served",
            seconds=self._seconds,
        )
        prompts = different(request.prompts, self.outcome.notes)
        self._prompts = prompts[: request.budget.most_prompts]
        _, self.has_template = target.prompt_ids(self._prompts[0], request.thinking)

    def header(self) -> dict[str, Any]:
        """What the trace must carry to be understood and repeated."""
        return self._request.header(
            chat_template=self.has_template,
            dtype="unknown",
            device=self.outcome.place.id,
            software=self._target.about.software,
            # Servers do not tell them: they are learned from the answers that end.
            eos_ids=[],
        )

    def run(self) -> Outcome:
        """Measure until enough is known; an interrupt ends the run and keeps what is there."""
        outcome, request = self.outcome, self._request
        outcome.header = self.header()
        if (kept := request.kept(outcome.header)) is not None:
            outcome.rows, outcome.eos_ids = list(kept.rows), kept.eos_ids
        with Writer(request.trace, outcome.header, keep=kept) as writer:
            try:
                self._measure(writer)
            except KeyboardInterrupt:
                outcome.end_interrupted()
                outcome.eos_ids = ends_of(outcome.rows)
        self._tell_losses()
        return outcome

    # ------------------------------------------------------------------ the loop

    def _measure(self, writer: Writer) -> None:
        outcome, request = self.outcome, self._request
        done = {(row.prompt, row.digest, row.temperature) for row in outcome.rows}
        tasks = [Task(prompt, sampling) for prompt in self._prompts for sampling in request.samplings]
        todo = [task for task in tasks if task.key not in done]
        begun = time.monotonic()
        if outcome.rows:
            self._look(outcome.rows)
        for part in in_parts(todo, request.batch_size):
            if outcome.num_prompts >= request.budget.first_look and not request.budget.fixed:
                self._price()
            seconds = time.monotonic() - begun
            reason = outcome.reason_to_stop(seconds, request.budget._replace(most_prompts=None)) or self._given_up()
            if reason is None and self._lost and not outcome.rows and seconds >= (request.budget.most_seconds or inf):
                break
            if reason is not None:
                outcome.stopped_by = reason
                break
            self._ask(part, writer)
            self._tell(len(self._prompts), time.monotonic() - begun)
        if not outcome.rows:
            self._refuse_empty()
        if self._given_up() is None:
            self._price()
        outcome.stopped_by = outcome.stopped_by or f"all {outcome.num_prompts} prompts were used"

    def _ask(self, part: Sequence[Task], writer: Writer) -> None:
        """The answers of one part, written as they come."""
        outcome = self.outcome
        rows: list[Row] = []
        begun = time.monotonic()
        for task, found in side_by_side(self._row, part, self._request.batch_size):
            if isinstance(found, Row):
                writer.append([found])
                rows.append(found)
                self._in_turn = 0
            elif isinstance(found, TooLong):
                self._too_long += 1
            elif isinstance(found, CannotProbe):
                self._lost[task.prompt.id] = found
                self._in_turn += 1
            else:
                raise found
        order = {task.key: place for place, task in enumerate(part)}
        outcome.rows += sorted(rows, key=lambda row: order[row.prompt, row.digest, row.temperature])
        outcome.eos_ids = ends_of(outcome.rows)
        self._seconds["asking"] += time.monotonic() - begun
        if self._unlooked and rows:
            self._look(rows)

    def _row(self, task: Task) -> Row:
        """One answer, with what every draft makes of it."""
        request, (prompt, sampling) = self._request, task
        ids, _ = self._target.prompt_ids(prompt, request.thinking)
        lengths = [one.about.max_length for one in (self._target, *self._drafts.values()) if one.about.max_length]
        # A server writes one token even where it is only to read.
        if not 0 < len(ids) <= min(lengths, default=1 << 30) - request.max_new_tokens - 1:
            raise TooLong
        text = self._target.write(ids, sampling, request.max_new_tokens, _seed(request.seed, task))
        if not text.tokens:
            raise CannotProbe(f"{self._target.client.address} answers without a token", "look into its log")
        read = {name: draft.read(ids, text.tokens, ended=text.ended == "stop") for name, draft in self._drafts.items()}
        plain = sampling.greedy or sampling == Sampling(1.0)
        return Row(
            prompt.id,
            prompt.digest,
            prompt.domain,
            prompt.language,
            sampling.temperature,
            ids,
            text.tokens,
            text.ended,
            text.log_p if plain else None,
            text.gap if sampling.greedy else None,
            {name: _columns(one, plain) for name, one in read.items()},
        )

    def _given_up(self) -> str | None:
        """Whether so many prompts were lost in turn that the server must be taken for gone."""
        if self._in_turn < max(self._request.batch_size, PROBE["lost-in-turn"]):
            return None
        return f"{self._in_turn} prompts in turn were lost: {_last(self._lost)}"

    def _refuse_empty(self) -> None:
        """Raise CannotProbe with the reason why not one answer came."""
        if self._too_long and not self._lost:
            raise CannotProbe(
                f"all {self._too_long} prompts with {self._request.max_new_tokens} tokens of answer are longer than "
                "the served context",
                "shorten them, or the answers with --max-new-tokens",
            )
        last = next(reversed(list(self._lost.values())))
        raise CannotProbe(f"not one of {len(self._lost)} prompts was measured: {last.message}", last.hint)

    # ------------------------------------------------------------------ looking at the servers

    def _look(self, rows: Sequence[Row]) -> None:
        """Target and drafts read some answers again: the target as its own draft, and every token by its text."""
        begun = time.monotonic()
        # An answer that ends at once shows one token, and always the same.
        rows = sorted(rows, key=lambda row: len(row.tokens), reverse=True)[:LOOKED_AT]
        try:
            own = _readings(self._target, rows)
            read = {name: _readings(draft, rows) for name, draft in self._drafts.items()}
        except CannotProbe as error:  # the next answers will do as well
            self._unlooked = error.message
            return
        self.outcome.checks += [_same_tokens(name, rows, own, theirs) for name, theirs in read.items()]
        self.outcome.checks += _own_draft(rows, own)
        self._unlooked = ""
        self._seconds["checking"] += time.monotonic() - begun

    def _price(self) -> None:
        """What a step costs in these servers, once; without it acceptance rates are worth keeping all the same."""
        if self._priced:
            return
        self._priced = True
        outcome, request, begun = self.outcome, self._request, time.monotonic()
        sampling = request.samplings[0]
        rows = [row for row in outcome.rows if row.temperature == sampling.temperature]
        try:
            found = price(
                self._servers,
                [draft.id for draft in request.drafts],
                rows,
                sampling,
                batches=request.timed_batches,
                k_max=request.k_max,
                say=self._say,
            )
        except CannotProbe as error:
            outcome.timing_doubts.append(f"what a step costs was not measured: {error.message}")
        else:
            outcome.served_costs = dict(found.costs)
            outcome.timing_doubts += [
                f"a server does not run {batch} sequences at once: steps were not timed with so many"
                for batch in found.refused
            ]
            outcome.checks += [check for k, own in found.own.items() if (check := self._own_steps(k, own)) is not None]
        self._seconds["timing"] += time.monotonic() - begun

    def _own_steps(self, k: int, own: Timed) -> Check | None:
        """Whether a server that speculates accepts what the replay says."""
        found = next(iter(self.outcome.measured()), None)
        replayed = found.by_k.get(k) if found is not None else None
        if replayed is None or own.merged > PROBE["stream-merged"]:
            return None
        return own_steps(k, own, replayed.lengths)

    # ------------------------------------------------------------------ telling

    def _tell(self, total: int, seconds: float) -> None:
        outcome = self.outcome
        rates = outcome.rates() if outcome.rows else "nothing yet"
        lost = f", {len(self._lost)} lost" if self._lost else ""
        self._say(f"{outcome.num_prompts} of at most {total} prompts{lost} in {seconds:.0f} s, acceptance {rates}")

    def _tell_losses(self) -> None:
        outcome, lost = self.outcome, len(self._lost)
        if self._unlooked:
            outcome.doubts.append(f"whether the drafts' token ids mean the same was not seen: {self._unlooked}")
        if self._too_long:
            outcome.notes.append(f"prompts that do not fit the served context were left out: {self._too_long}")
        if not lost:
            return
        said = f"{lost} {'prompt was' if lost == 1 else 'prompts were'} lost: {_last(self._lost)}"
        if lost > PROBE["lost-share"] * (lost + outcome.num_prompts):
            outcome.doubts.append(f"{said}; those that are left may be the easy ones")
        else:
            outcome.notes.append(said)


def _readings(server: Server, rows: Sequence[Row]) -> list[Reading]:
    return [server.read(row.prompt_ids, row.tokens, ended=row.ended == "stop") for row in rows]


def _last(lost: Mapping[str, CannotProbe]) -> str:
    return list(lost.values())[-1].message


def _seed(seed: int, task: Task) -> int:
    """A seed of one prompt's own, so that a text does not hang on the order of the questions."""
    key = hashlib.sha256(f"{seed}\0{task.prompt.digest}\0{task.sampling.temperature:g}".encode()).digest()
    return int.from_bytes(key[:4], "big") >> 1


def _columns(reading: Reading, plain: bool) -> DraftColumns:
    """What is kept of a draft. A server tells its plain softmax, whose probabilities hold for no other temperature."""
    return DraftColumns(
        reading.top,
        np.exp(reading.top_log_prob).tolist(),
        None,
        {"1": reading.log_prob} if plain else {},
    )


def _software(servers: Mapping[str, Server]) -> dict[str, str]:
    """Engines by what they have, with their versions."""
    return {f"server of {name}": server.about.software for name, server in servers.items()}


def _same_tokens(name: str, rows: Sequence[Row], own: Sequence[Reading], theirs: Sequence[Reading]) -> Check:
    """Whether both servers spell the same ids alike. Raises CannotProbe where they plainly do not."""
    pairs: list[tuple[int, str, str]] = []
    for row, mine, yours in zip(rows, own, theirs, strict=True):
        pairs += zip(row.prompt_ids[1:], mine.before, yours.before, strict=False)
        pairs += zip(row.tokens, mine.spelled, yours.spelled, strict=True)
    wrong = [pair for pair in pairs if pair[1] != pair[2]]
    title = f"token ids mean the same to {name}"
    if not any(ours or other for _, ours, other in pairs):
        return Check(title, True, "its server spells no tokens: not compared")
    alike = f"{len(pairs) - len(wrong)} of {len(pairs)} tokens are spelled alike"
    if not wrong:
        return Check(title, True, alike)
    token, ours, other = wrong[0]
    example = f"{token} is {ours!r:.40} to the target and {other!r:.40} to it"
    if len(wrong) > PROBE["misspelled"] * len(pairs):
        raise CannotProbe(
            f"{len(wrong)} of {len(pairs)} token ids mean other text to {name}: {example}",
            "the two have different tokenizers: take a draft with the target's own",
        )
    return Check(title, False, f"{alike}: {example}")


def _own_draft(rows: Sequence[Row], own: Sequence[Reading]) -> list[Check]:
    """Whether the target reads what it wrote as it wrote it."""
    greedy = [(row, reading) for row, reading in zip(rows, own, strict=True) if row.temperature == 0]
    known = [
        np.abs(np.subtract(row.log_p, reading.log_prob))
        for row, reading in zip(rows, own, strict=True)
        if row.temperature and row.log_p is not None
    ]
    checks = []
    if greedy:
        # What the server computes in is not told; in bfloat16 two logits lie near each other at most this far.
        agreement = Agreement(PROBE["near-tie.bfloat16"])
        agreement.add([_as_local(row, reading) for row, reading in greedy], Sampling())
        checks.append(agreement.check(given=False))
    if known:
        apart = np.concatenate(known)
        passed = bool(np.median(apart) <= PROBE["own-log-probs"])
        detail = f"ln p of what it wrote and of what it reads lie {np.median(apart):.4f} apart (median)"
        checks.append(Check("the target reads what it sampled", passed, detail))
    return checks


def own_steps(k: int, own: Timed, replayed: intervals.Sums) -> Check | None:
    """A server's tokens per step against those of the replay, by prompt; None where it writes other texts."""
    apart = intervals.paired_difference(own.lengths, replayed)
    before = intervals.ratio_interval(replayed.common(own.lengths)[0])
    if apart is None or before is None:
        return None
    agree = apart.low <= 0 <= apart.high or abs(apart.value) <= PROBE["own-steps"] * before.value
    said = f"{before.value + apart.value:.2f} where the replay says {before.value:.2f}, of the same prompts"
    return Check(f"the server's own tokens per step at k = {k}", agree, said)


def _as_local(row: Row, reading: Reading) -> LocalReading:
    top, emitted = np.asarray(reading.top_log_prob), np.asarray(reading.log_prob)
    ids = np.where(np.asarray(reading.top) == np.asarray(row.tokens), row.tokens, reading.top)
    return LocalReading(ids, np.exp(top), {}, None, {}, shortfall=top - emitted)
