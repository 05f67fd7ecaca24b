"""A whole probe: load, let the target write, let every draft read it, time the steps, and stop when enough is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from draftpick.choices import PROBE
from draftpick.probing import checks, timing
from draftpick.probing.checks import Check
from draftpick.probing.device import (
    Batches,
    CannotProbe,
    computes_in_bf16,
    device_here,
    failures_told,
    make_current,
    peak_memory,
    place_of,
    software_here,
)
from draftpick.probing.local import LocalModel, Reading, Sampling, Written, generate, load, read_answers, uniforms
from draftpick.probing.outcome import Costs, ModelFiles, Outcome, Request
from draftpick.probing.prompts import Prompt, different, in_parts
from draftpick.probing.render import Renderer
from draftpick.probing.trace import DraftColumns, Row, Writer

Say = Callable[[str], None]


class Probe:
    """The state of one run."""

    def __init__(self, request: Request, say: Say) -> None:
        self._request, self._say = request, say
        self._seconds: dict[str, float] = dict.fromkeys(("loading", "writing", "reading", "checking", "timing"), 0.0)
        request.refuse_old_trace()
        torch, device = device_here(request.device, request.devices)
        self._bf16 = computes_in_bf16(device, request.dtype, torch, request.catalog, say)
        make_current(device, torch)
        self.target = self._load(request.target, device)
        self.drafts = [self._load(draft, device) for draft in request.drafts]
        self.renderer = Renderer(request.target.folder, request.thinking)
        eos = frozenset(self.target.eos_ids)
        self.outcome = Outcome(
            request, [], eos, place_of(device), self.target.dtype, software_here(), seconds=self._seconds
        )
        self._batches = Batches(request.batch_size)
        self._agreement = checks.Agreement(checks.near_tie(self.target))
        self._resumed = 0
        self._done: set[tuple[str, str, float]] = set()

    def _load(self, files: ModelFiles, device: str) -> LocalModel:
        request = self._request
        self._say(f"loading {files.id}")
        with self._clock("loading"):
            return load(
                files.folder,
                id=files.id,
                device=device,
                dtype=request.dtype,
                devices=request.devices,
                attention=request.attention,
                bf16=self._bf16,
            )

    def run(self) -> Outcome:
        """Measure until enough is known; an interrupt ends the run and keeps what is there."""
        request, outcome = self._request, self.outcome
        header = self.header()
        kept = request.kept(header)
        outcome.header = header
        outcome.rows = list(kept.rows) if kept is not None else []
        self._resumed = outcome.num_prompts
        with Writer(request.trace, header, keep=kept) as writer, failures_told(outcome.place.id):
            try:
                self._measure(writer)
            except KeyboardInterrupt:
                outcome.end_interrupted()
            if not outcome.interrupted:
                self._compare_kept()
        if self._agreement.compared:
            given = any(prompt.response is not None for prompt in request.prompts)
            outcome.checks.append(self._agreement.check(given))
        outcome.peak_bytes = peak_memory(outcome.place.id)
        return outcome

    def header(self) -> dict[str, Any]:
        """What the trace must carry to be understood and repeated."""
        outcome = self.outcome
        return self._request.header(
            chat_template=self.renderer.has_template,
            dtype=self.target.dtype,
            device=outcome.place.id,
            software=timing.software(),
            eos_ids=sorted(outcome.eos_ids),
        )

    # ------------------------------------------------------------------ the loop

    def _measure(self, writer: Writer) -> None:
        outcome, request = self.outcome, self._request
        todo = self._todo()
        total, begun = outcome.num_prompts + len(todo), time.monotonic()
        for part in in_parts(todo, request.batch_size):
            reason = outcome.reason_to_stop(time.monotonic() - begun, request.budget._replace(most_prompts=None))
            if reason is not None:
                outcome.stopped_by = reason
                break
            rows = self._rows(part)
            writer.append(rows)
            outcome.rows += rows
            if request.times_passes and not outcome.costs:
                self._time()
            self._tell(total)
        if request.times_passes and not outcome.costs and outcome.rows:
            self._time()
        outcome.stopped_by = outcome.stopped_by or f"all {outcome.num_prompts} prompts were used"
        if outcome.costs:
            self._look_for_drift()

    def _compare_kept(self) -> None:
        """Where all answers were kept from an earlier run, the target reads some of them again."""
        rows = [row for row in self.outcome.rows if row.tokens][: self._request.batch_size]
        if self._agreement.compared or not rows:
            return
        sampling = next(one for one in self._request.samplings if one.temperature == rows[0].temperature)
        rows = [row for row in rows if row.temperature == sampling.temperature]
        with self._clock("checking"):
            prompts, answers = [row.prompt_ids for row in rows], [row.tokens for row in rows]
            (readings,) = read_answers(prompts, answers, (), target=self.target, sampling=sampling)
        self._agreement.add(readings, sampling)

    def _todo(self) -> list[tuple[Prompt, list[int]]]:
        """Prompts that are not in the trace yet and fit the context, with their ids."""
        request, outcome = self._request, self.outcome
        self._done = {(row.prompt, row.digest, row.temperature) for row in outcome.rows}
        lengths = [model.max_length for model in (self.target, *self.drafts) if model.max_length is not None]
        room = min(lengths, default=1 << 30) - request.max_new_tokens
        asked = different(request.prompts, outcome.notes)
        prompts = [(prompt, self.renderer.ids(prompt)) for prompt in asked]
        fitting = [(prompt, ids) for prompt, ids in prompts if 0 < len(ids) <= room]
        if not fitting:
            raise CannotProbe(
                f"all {len(prompts)} prompts with {request.max_new_tokens} tokens of answer are longer than the "
                f"context of {min(lengths, default=0)} tokens",
                "shorten them, or the answers with --max-new-tokens",
            )
        if len(fitting) < len(prompts):
            outcome.notes.append(f"prompts that do not fit the context were left out: {len(prompts) - len(fitting)}")
        limit = request.budget.most_prompts
        return [
            (prompt, ids)
            for prompt, ids in fitting[:limit]
            if not all(self._is_done(prompt, sampling) for sampling in request.samplings)
        ]

    def _is_done(self, prompt: Prompt, sampling: Sampling) -> bool:
        return (prompt.id, prompt.digest, sampling.temperature) in self._done

    def _rows(self, part: Sequence[tuple[Prompt, list[int]]]) -> list[Row]:
        rows: list[Row] = []
        for sampling in self._request.samplings:
            # A run that was broken off may have written a prompt at one temperature and not at the other.
            missing = [(prompt, ids) for prompt, ids in part if not self._is_done(prompt, sampling)]
            if missing:
                rows += self._answers(missing, sampling)
        return rows

    def _answers(self, part: Sequence[tuple[Prompt, list[int]]], sampling: Sampling) -> list[Row]:
        """The target's answers, and what the drafts make of them."""
        given = part[0][0].response is not None
        with self._clock("writing"):
            written = self._given(part) if given else self._batches.run(lambda p: self._write(p, sampling), part)
        with self._clock("reading"):
            whole = [(prompt, ids, answer) for (prompt, ids), answer in zip(part, written, strict=True)]
            return self._batches.run(lambda rows: self._read(rows, sampling, given), whole)

    def _write(self, part: Sequence[tuple[Prompt, list[int]]], sampling: Sampling) -> list[Written]:
        request = self._request
        draws = [
            uniforms(request.seed, prompt.digest, sampling.temperature, request.max_new_tokens) for prompt, _ in part
        ]
        return generate(self.target, [ids for _, ids in part], sampling, request.max_new_tokens, draws)

    def _given(self, part: Sequence[tuple[Prompt, list[int]]]) -> list[Written]:
        """Answers that somebody has already."""
        limit = self._request.max_new_tokens
        found = []
        for prompt, _ in part:
            tokens = self.renderer.answer_ids(prompt)
            found.append(Written(tokens[:limit], [], None, "stop" if len(tokens) <= limit else "length"))
        return found

    def _read(self, part: Sequence[tuple[Prompt, list[int], Written]], sampling: Sampling, given: bool) -> list[Row]:
        """One pass of each draft, and of the target where its own probabilities or its agreement are wanted."""
        with_target = given or not sampling.greedy or not self._agreement.compared
        heats = (1.0,) if sampling.greedy else (sampling.temperature, sampling.temperature**2)
        readings = read_answers(
            [ids for _, ids, _ in part],
            [answer.tokens for _, _, answer in part],
            self.drafts,
            target=self.target if with_target else None,
            sampling=sampling,
            temperatures=tuple(dict.fromkeys(heats)),
        )
        own = readings.pop(0) if with_target else None
        if own is not None:
            self._agreement.add(own, sampling)
        if given and own is not None:
            _check_possible(part, own, sampling)
        return [
            _row(
                prompt,
                ids,
                answer,
                sampling,
                own[place] if given and own is not None else None,
                {draft.id: readings[number][place] for number, draft in enumerate(self.drafts)},
            )
            for place, (prompt, ids, answer) in enumerate(part)
        ]

    # ------------------------------------------------------------------ costs and checks

    def _time(self) -> None:
        request, outcome = self._request, self.outcome
        context = request.context or _typical_context(outcome.rows)
        longest = min((model.max_length or context for model in (self.target, *self.drafts)), default=context)
        if context + request.k_max + 1 > longest > request.k_max + 1:
            context = longest - request.k_max - 1
            outcome.notes.append(f"steps were timed at a context of {context} tokens, the longest the models have")
        for draft in self.drafts:
            self._say(f"timing {self.target.id} and {draft.id}")
            with self._clock("timing"):
                passes = [
                    timing.time_passes(self.target, draft, batch=batch, context=context, k_max=request.k_max)
                    for batch in request.timed_batches
                ]
            # An interrupt of the real runs must not cost what was timed.
            outcome.costs[draft.id] = Costs(passes, None)
            with self._clock("checking"):
                outcome.costs[draft.id] = self._calibrated(draft, passes)

    def _calibrated(self, draft: LocalModel, passes: Sequence[timing.Passes]) -> Costs:
        """Costs with what the software adds, from real runs with few and many tokens, which also check the replay."""
        base = next((one for one in passes if one.batch == 1), None)
        if base is None:
            return Costs(passes, None)
        rows = list({row.prompt: row for row in self._greedy() or self.outcome.rows}.values())
        rows = rows[: int(PROBE["check-prompts"])]
        limit = min(int(PROBE["check-tokens"]), self._request.max_new_tokens)
        runs = checks.real_runs(
            self.target, draft, [row.prompt_ids for row in rows], limit, self._request.k_max, self._say
        )
        if self._greedy():
            near = checks.near_tie(self.target)
            self.outcome.checks += checks.replay_against(draft.id, rows, runs.speculative, limit, near)
        few, many = runs.speculative[1], runs.speculative[self._request.k_max]
        overhead = timing.overhead_of(base, runs.plain, few, many)
        return Costs(passes, overhead, checks.foretold(base.times(overhead), runs))

    def _greedy(self) -> list[Row]:
        """Answers that the target wrote here, greedily: those a real run must give again."""
        return [row for row in self.outcome.rows if row.temperature == 0 and row.gap is not None]

    def verify(self, k: int) -> list[Check]:
        """transformers' own speculation with one k on the prompts that were measured, beside the replay."""
        rows = self._greedy()
        limit = self._request.max_new_tokens
        with failures_told(self.outcome.place.id):
            return [checks.verified(self.target, draft, rows, limit, k, self._say) for draft in self.drafts if rows]

    def _look_for_drift(self) -> None:
        """A machine that became slower or faster meanwhile makes speed-ups doubtful."""
        outcome = self.outcome
        if not self.drafts or outcome.interrupted:
            return
        passes = outcome.costs[self.drafts[-1].id].passes[0]
        with self._clock("timing"):
            now = timing.time_token(self.target, batch=passes.batch, context=passes.context)
        outcome.drift = now.median / passes.target[0].median - 1
        if abs(outcome.drift) > PROBE["drift"]:
            outcome.timing_doubts.append(
                f"a plain token took {abs(outcome.drift) * 100:.0f} % {'more' if outcome.drift > 0 else 'less'} time "
                "at the end than at the start: heat, or other load"
            )

    # ------------------------------------------------------------------ telling

    def _tell(self, total: int) -> None:
        outcome = self.outcome
        done = outcome.num_prompts
        spent = self._seconds["writing"] + self._seconds["reading"]
        left = spent / max(done - self._resumed, 1) * (total - done)
        rates = outcome.rates() or "nothing yet"
        self._say(f"{done} of at most {total} prompts, acceptance {rates}; at most {left:.0f} s left")

    def _clock(self, name: str) -> _Clock:
        return _Clock(self._seconds, name)


class _Clock:
    """Adds the time within to a sum."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._name] += time.perf_counter() - self._begun


def _check_possible(
    part: Sequence[tuple[Prompt, list[int], Written]], readings: Sequence[Reading], sampling: Sampling
) -> None:
    """Raise CannotProbe for an answer that these processors rule out, before it is written."""
    import numpy as np

    for (prompt, _, _), reading in zip(part, readings, strict=True):
        if bool(np.isneginf(reading.log_prob[sampling.temperature]).any()):
            raise CannotProbe(
                f"{prompt.id}: the answer holds a token of probability 0 under --top-k {sampling.top_k} and --top-p "
                f"{sampling.top_p:g}",
                "name the temperature, top-k and top-p that the answers were sampled with",
            )


def _row(
    prompt: Prompt,
    ids: list[int],
    answer: Written,
    sampling: Sampling,
    own: Reading | None,
    readings: Mapping[str, Reading],
) -> Row:
    log_p = answer.log_p if own is None else own.log_prob[sampling.temperature].tolist()
    return Row(
        prompt.id,
        prompt.digest,
        prompt.domain,
        prompt.language,
        sampling.temperature,
        ids,
        answer.tokens,
        answer.ended,
        log_p,
        answer.gap,
        {
            name: DraftColumns(
                reading.top.tolist(),
                reading.top_prob.tolist(),
                reading.target_prob_of_top.tolist() if reading.target_prob_of_top is not None else None,
                {f"{heat:g}": column.tolist() for heat, column in reading.log_prob.items()},
                {f"{heat:g}": column.tolist() for heat, column in reading.overlap.items()},
            )
            for name, reading in readings.items()
        },
    )


def _typical_context(rows: Sequence[Row]) -> int:
    lengths = sorted(len(row.prompt_ids) + len(row.tokens) // 2 for row in rows)
    return max(lengths[len(lengths) // 2], 8)
