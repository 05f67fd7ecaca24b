"""A whole probe: load, let the target write, let every draft read it, time the steps, and stop when enough is known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from draftpick import replay
from draftpick.choices import PROBE
from draftpick.probe import result, timing
from draftpick.probe.local import (
    Batches,
    CannotProbe,
    LocalModel,
    Reading,
    Sampling,
    Written,
    check_count,
    find_device,
    generate,
    load,
    peak_memory,
    read_answers,
    torch_here,
    uniforms,
)
from draftpick.probe.prompts import Prompt, digest
from draftpick.probe.result import Budget, Measured
from draftpick.probe.trace import DraftColumns, Row, TraceFile, Writer, check_same, read
from draftpick.speedup import StepTimes


class ModelFiles(NamedTuple):
    """One model to load."""

    id: str
    folder: Path
    identity: Mapping[str, Any]
    """What tells it from other models: revision, digests. It must agree when a trace is resumed."""


class Request(NamedTuple):
    """What to measure."""

    target: ModelFiles
    drafts: Sequence[ModelFiles]
    prompts: Sequence[Prompt]
    trace: Path
    resume: bool = False
    samplings: Sequence[Sampling] = (Sampling(),)
    k_max: int = 8
    max_new_tokens: int = int(PROBE["max-new-tokens"])
    batch_size: int = int(PROBE["batch-size"])
    timed_batches: Sequence[int] = (1,)
    context: int | None = None
    """Tokens of the cache when passes are timed; None: a prompt and half an answer of this run."""
    device: str | None = None
    devices: int = 1
    dtype: str | None = None
    attention: str | None = None
    thinking: bool | None = None
    seed: int = 0
    budget: Budget = Budget(int(PROBE["first-look"]), PROBE["precision"])
    times_passes: bool = True
    given_times: StepTimes | None = None
    """Costs somebody measured elsewhere, instead of timing passes here."""
    engine: str = "transformers"
    """Whose way to draft counts."""


class Costs(NamedTuple):
    """What steps with one draft cost here, by batch size."""

    passes: Sequence[timing.Passes]
    overhead: timing.Overhead | None
    checked: Sequence[tuple[int, float, float]] = ()
    """k, predicted and measured speed-up of the software's own speculative runs."""

    def times(self, batch: int = 1) -> StepTimes:
        """The step at one of the batch sizes that were timed."""
        return next(one for one in self.passes if one.batch == batch).times(self.overhead)

    def spread(self, batch: int = 1) -> float:
        """Half-width of ln(step time) at 95 %, from the spread of the passes."""
        found = next(one for one in self.passes if one.batch == batch)
        passes = max(result.spread_of(one.spread, one.repeats) for one in (found.target[0], found.target[-1]))
        return math.hypot(passes, self.overhead.spread if self.overhead is not None else 0.0)


class Check(NamedTuple):
    """A self-check: what was compared, how it ended, and whether it passed."""

    name: str
    passed: bool
    detail: str


@dataclass
class Outcome:
    """What a probe measured."""

    request: Request
    rows: list[Row]
    eos_ids: frozenset[int]
    device: str
    dtype: str
    stopped_by: str = ""
    interrupted: bool = False
    costs: dict[str, Costs] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of loading, writing, reading, checking and timing."""
    peak_bytes: int | None = None
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_prompts(self) -> int:
        return len({row.prompt for row in self.rows})

    def priced(self, draft: str) -> result.Priced | None:
        """Costs of a step with a draft at the first batch size, where they are known."""
        if self.request.given_times is not None:
            return result.Priced(self.request.given_times)
        found = self.costs.get(draft)
        if found is None:
            return None
        batch = self.request.timed_batches[0]
        return result.Priced(found.times(batch), found.spread(batch))

    def measured(self, level: float = result.LEVEL) -> list[Measured]:
        """Every draft at every temperature, in the way the request's engine drafts."""
        request = self.request
        return [
            result.measured(
                self.rows,
                draft.id,
                sampling.temperature,
                result.usual(sampling.temperature, request.engine),
                k_max=request.k_max,
                first=result.first_position(request.engine),
                eos_ids=self.eos_ids,
                level=level,
            )
            for sampling in request.samplings
            for draft in request.drafts
        ]


Say = Callable[[str], None]


class Probe:
    """The state of one run."""

    def __init__(self, request: Request, say: Say) -> None:
        self._request, self._say = request, say
        self._seconds: dict[str, float] = dict.fromkeys(("loading", "writing", "reading", "checking", "timing"), 0.0)
        torch = torch_here()
        device = find_device(request.device, torch)
        check_count(request.devices, device, torch)
        self.target = self._load(request.target, device)
        self.drafts = [self._load(draft, device) for draft in request.drafts]
        self.renderer = Renderer(request.target.folder, request.thinking)
        eos = frozenset(self.target.eos_ids)
        self.outcome = Outcome(request, [], eos, device, self.target.dtype, seconds=self._seconds)
        self._batches = Batches(request.batch_size)
        self._disagreed = self._tied = self._compared = 0
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
            )

    def run(self) -> Outcome:
        """Measure until enough is known; an interrupt ends the run and keeps what is there."""
        request, outcome = self._request, self.outcome
        header = self.header()
        kept = self._kept(header)
        outcome.header = header
        outcome.rows = list(kept.rows) if kept is not None else []
        self._resumed = outcome.num_prompts
        with Writer(request.trace, header, keep=kept) as writer:
            try:
                self._measure(writer)
            except KeyboardInterrupt:
                outcome.stopped_by, outcome.interrupted = "interrupted", True
        outcome.peak_bytes = peak_memory(outcome.device)
        return outcome

    def header(self) -> dict[str, Any]:
        """What the trace must carry to be understood and repeated."""
        request = self._request
        return {
            "target": dict(request.target.identity),
            "drafts": [{"id": draft.id, **draft.identity} for draft in request.drafts],
            "temperatures": [sampling.temperature for sampling in request.samplings],
            "top_k": request.samplings[0].top_k,
            "top_p": request.samplings[0].top_p,
            "seed": request.seed,
            "max_new_tokens": request.max_new_tokens,
            "thinking": request.thinking,
            "chat_template": self.renderer.has_template,
            "dtype": self.target.dtype,
            "device": self.outcome.device,
            "software": timing.software(),
            "eos_ids": sorted(self.outcome.eos_ids),
            "prompts_digest": digest(request.prompts),
        }

    def _kept(self, header: Mapping[str, Any]) -> TraceFile | None:
        request = self._request
        if not request.trace.is_file():
            return None
        if not request.resume:
            raise CannotProbe(
                f"{request.trace} is there already",
                "go on with it (--resume), or name another file with --trace",
            )
        kept = read(request.trace)
        check_same(kept, header)
        return kept

    # ------------------------------------------------------------------ the loop

    def _measure(self, writer: Writer) -> None:
        outcome, request = self.outcome, self._request
        todo = self._todo()
        total, begun = outcome.num_prompts + len(todo), time.monotonic()
        for part in _parts(todo, request.batch_size):
            reason = self._reason(begun, request.budget._replace(most_prompts=None))
            if reason is not None:
                outcome.stopped_by = reason
                break
            rows = self._rows(part)
            writer.append(rows)
            outcome.rows += rows
            if request.times_passes and not outcome.costs:
                self._time()
            self._tell(total, time.monotonic() - begun)
        if request.times_passes and not outcome.costs and outcome.rows:
            self._time()
        outcome.stopped_by = outcome.stopped_by or f"all {outcome.num_prompts} prompts were used"
        self._compare_self()
        if outcome.costs:
            self._look_for_drift()

    def _todo(self) -> list[tuple[Prompt, list[int]]]:
        """Prompts that are not in the trace yet and fit the context, with their ids."""
        request, outcome = self._request, self.outcome
        self._done = {(row.prompt, row.digest, row.temperature) for row in outcome.rows}
        lengths = [model.max_length for model in (self.target, *self.drafts) if model.max_length is not None]
        room = min(lengths, default=1 << 30) - request.max_new_tokens
        prompts = [(prompt, self.renderer.ids(prompt)) for prompt in request.prompts]
        fitting = [(prompt, ids) for prompt, ids in prompts if 0 < len(ids) <= room]
        if not fitting:
            raise CannotProbe(
                f"all {len(prompts)} prompts with {request.max_new_tokens} tokens of answer are longer than the "
                f"context of {min(lengths, default=0)} tokens",
                "shorten them, or the answers with --max-new-tokens",
            )
        if len(fitting) < len(prompts):
            outcome.doubts.append(f"{len(prompts) - len(fitting)} prompts do not fit the context and were left out")
        limit = request.budget.most_prompts
        return [
            (prompt, ids)
            for prompt, ids in fitting[:limit]
            if not all(self._is_done(prompt, sampling) for sampling in request.samplings)
        ]

    def _is_done(self, prompt: Prompt, sampling: Sampling) -> bool:
        return (prompt.id, prompt.digest, sampling.temperature) in self._done

    def _reason(self, begun: float, budget: Budget) -> str | None:
        outcome, request = self.outcome, self._request
        if not outcome.rows:
            return None
        costs = {draft.id: priced for draft in request.drafts if (priced := outcome.priced(draft.id)) is not None}
        found = outcome.measured()
        return result.reason_to_stop(found, costs, outcome.num_prompts, time.monotonic() - begun, budget)

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
        checks = not self._compared
        with_target = given or not sampling.greedy or checks
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
        if own is not None and sampling.greedy:
            for reading in own:
                self._count_disagreement(reading)
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

    def _count_disagreement(self, reading: Reading) -> None:
        near = PROBE.get(f"near-tie.{self.target.dtype}", 0.0)
        self._compared += len(reading.top)
        self._tied += int(((reading.shortfall > 0) & (reading.shortfall <= near)).sum())
        self._disagreed += int((reading.shortfall > near).sum())

    # ------------------------------------------------------------------ costs and checks

    def _time(self) -> None:
        request, outcome = self._request, self.outcome
        context = request.context or _typical_context(outcome.rows)
        for draft in self.drafts:
            self._say(f"timing {self.target.id} and {draft.id}")
            with self._clock("timing"):
                passes = [
                    timing.time_passes(self.target, draft, batch=batch, context=context, k_max=request.k_max)
                    for batch in request.timed_batches
                ]
            self._say(f"checking against real speculative runs with {draft.id}")
            with self._clock("checking"):
                outcome.costs[draft.id] = self._calibrated(draft, passes)

    def _calibrated(self, draft: LocalModel, passes: Sequence[timing.Passes]) -> Costs:
        """Costs with what the software adds, from real runs with few and many tokens, which also check the replay."""
        rows = [row for row in self.outcome.rows if row.temperature == 0 and row.gap is not None]
        rows = rows[: int(PROBE["check-prompts"])]
        base = next((one for one in passes if one.batch == 1), None)
        if not rows or base is None:
            return Costs(passes, None)
        limit = min(int(PROBE["check-tokens"]), self._request.max_new_tokens)
        plain, runs = self._repeated(draft, rows, limit)
        typical = {k: found.typical for k, found in runs.items()}
        self._check_replay(draft, rows, typical, limit)
        overhead = timing.overhead_of(base, plain, runs[1], runs[self._request.k_max])
        return Costs(passes, overhead, _compared(base.times(overhead), plain.typical, typical))

    def _repeated(
        self, draft: LocalModel, rows: Sequence[Row], limit: int
    ) -> tuple[timing.Repeats, dict[int, timing.Repeats]]:
        """Plain runs, and speculative ones with few and with many tokens, by turns: what disturbs one disturbs all."""
        lengths = sorted({1, self._request.k_max})
        plain: list[list[timing.Run]] = [[] for _ in rows]
        runs: dict[int, list[list[timing.Run]]] = {k: [[] for _ in rows] for k in lengths}
        for turn in range(int(PROBE["check-repeats"]) + 1):
            for place, row in enumerate(rows):
                found = [timing.run_plain(self.target, row.prompt_ids, limit)]
                found += [timing.run_assisted(self.target, draft, row.prompt_ids, limit, k) for k in lengths]
                if turn:  # the first is a warm-up
                    plain[place].append(found[0])
                    for k, run in zip(lengths, found[1:], strict=True):
                        runs[k][place].append(run)
        return timing.Repeats(plain), {k: timing.Repeats(those) for k, those in runs.items()}

    def _check_replay(
        self, draft: LocalModel, rows: Sequence[Row], runs: Mapping[int, Sequence[timing.Run]], limit: int
    ) -> None:
        """The replay must need as many steps as the real loop, on the same text."""
        for k, found in runs.items():
            for row, run in zip(rows, found, strict=True):
                cut = _cut(row, min(limit, len(row.tokens)))
                predicted = _steps(draft.id, cut, k)
                same = run.tokens == list(cut.tokens)
                passed = same and predicted == run.steps
                detail = f"{row.prompt}, k = {k}: {run.steps} steps, replayed {predicted}"
                if not same:
                    detail += _where_texts_part(run.tokens, row)
                self.outcome.checks.append(Check(f"replay against assisted generation with {draft.id}", passed, detail))

    def verify(self, k: int) -> list[Check]:
        """transformers' own speculation with one k on the prompts that were measured, beside the replay."""
        return [check for draft in self.drafts for check in self._verified(draft, k)]

    def _verified(self, draft: LocalModel, k: int) -> Iterator[Check]:
        rows = [row for row in self.outcome.rows if row.temperature == 0 and row.gap is not None]
        steps = replayed = tokens = agreeing = 0
        for number, row in enumerate(rows, start=1):
            self._say(f"verifying with assisted generation, k = {k}: {number} of {len(rows)} prompts")
            run = timing.run_assisted(self.target, draft, row.prompt_ids, self._request.max_new_tokens, k)
            expected = _steps(draft.id, row, k)
            steps, replayed, tokens = steps + run.steps, replayed + expected, tokens + len(run.tokens)
            agreeing += run.tokens == list(row.tokens) and run.steps == expected
        if rows:
            yield Check(
                f"assisted generation with {draft.id}, k = {k}",
                agreeing == len(rows),
                f"{tokens / steps:.3f} tokens per step on {len(rows)} prompts, replayed {tokens / replayed:.3f}; "
                f"{agreeing} of {len(rows)} with the same text and steps",
            )

    def _compare_self(self) -> None:
        if not self._compared:
            return
        given = any(prompt.response is not None for prompt in self._request.prompts)
        hint = "; are these answers its greedy text? Name the temperature they were sampled at" if given else ""
        share = 1 - (self._disagreed + self._tied) / self._compared
        passed = 1 - self._disagreed / self._compared >= PROBE["self-acceptance"]
        self.outcome.checks.append(
            Check(
                "the target as its own draft",
                passed,
                f"accepts {share:.2%} of {self._compared} tokens; {self._tied} near-ties, "
                f"{self._disagreed} other disagreements{hint if self._disagreed else ''}",
            )
        )

    def _look_for_drift(self) -> None:
        """A machine that became slower or faster meanwhile makes speed-ups doubtful."""
        outcome = self.outcome
        if not self.drafts or outcome.interrupted:
            return
        passes = outcome.costs[self.drafts[-1].id].passes[0]
        with self._clock("timing"):
            now = timing.time_token(self.target, batch=passes.batch, context=passes.context)
        change = now.median / passes.target[0].median - 1
        if abs(change) > PROBE["drift"]:
            outcome.doubts.append(f"a plain token took {change:+.0%} at the end of the run: heat, or other load")

    # ------------------------------------------------------------------ telling

    def _tell(self, total: int, seconds: float) -> None:
        outcome = self.outcome
        found = outcome.measured()
        done = outcome.num_prompts
        rates = ", ".join(
            f"{one.draft}{f' at T = {one.temperature:g}' if len(self._request.samplings) > 1 else ''} "
            f"{one.rate.value:.3f} ±{(one.rate.high - one.rate.low) / 2:.3f}"
            for one in found
        )
        new = max(done - self._resumed, 1)
        left = seconds / new * (total - done)
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


class Renderer:
    """Turns prompts into ids as the target's own chat template says, or as plain text where it has none."""

    def __init__(self, folder: Path, thinking: bool | None) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0][:300]
            raise CannotProbe(f"{folder}: its tokenizer cannot be loaded: {first}", "look at its files") from None
        self._options = {} if thinking is None else {"enable_thinking": thinking}
        self.has_template = bool(getattr(self._tokenizer, "chat_template", None))

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    def ids(self, prompt: Prompt) -> list[int]:
        """The ids of a request, up to where the answer begins."""
        if not self.has_template:
            return list(self._tokenizer(prompt.text).input_ids)
        messages = [{"role": "user", "content": prompt.text}]
        try:
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self._options
            )
        except Exception as error:
            raise CannotProbe(f"the target's chat template fails: {error}", "mend its tokenizer_config.json") from None
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def answer_ids(self, prompt: Prompt) -> list[int]:
        """The ids of an answer that is there already."""
        return list(self._tokenizer(prompt.response or "", add_special_tokens=False).input_ids)


def _parts(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


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


def _steps(draft: str, row: Row, k: int) -> int:
    """Steps that the replay predicts for one answer in transformers."""
    trace = result.measured([row], draft, 0.0, result.usual(0.0, "transformers"), k_max=1, first=1).trace
    return round(float(replay.replay(trace, ks=[k])[k].visible.x.sum()))


def _cut(row: Row, size: int) -> Row:
    """The beginning of an answer."""
    drafts = {name: DraftColumns(columns.top[:size], columns.top_prob[:size]) for name, columns in row.drafts.items()}
    return row._replace(tokens=row.tokens[:size], log_p=row.log_p[:size], gap=None, drafts=drafts)


def _where_texts_part(tokens: Sequence[int], row: Row) -> str:
    place = next((at for at, (one, other) in enumerate(zip(tokens, row.tokens, strict=False)) if one != other), None)
    if place is None or row.gap is None:
        return "; the texts differ in length"
    return f"; the texts part at token {place + 1}, where the target's two best logits lie {row.gap[place]:.4f} apart"


def _typical_context(rows: Sequence[Row]) -> int:
    lengths = sorted(len(row.prompt_ids) + len(row.tokens) // 2 for row in rows)
    return max(lengths[len(lengths) // 2], 8)


def _compared(
    times: StepTimes, plain: Sequence[timing.Run], runs: Mapping[int, Sequence[timing.Run]]
) -> list[tuple[int, float, float]]:
    """k, predicted and measured speed-up of the runs that calibrated the costs."""
    found = []
    without = sum(run.seconds for run in plain)
    for k, those in runs.items():
        tokens, steps = sum(len(run.tokens) for run in those), sum(run.steps for run in those)
        found.append((k, tokens / steps * times.target / times.step(k), without / sum(run.seconds for run in those)))
    return found
