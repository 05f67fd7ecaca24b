"""What passes and steps cost on this device: single passes, and whole speculative runs of the software itself."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from draftpick.probing.device import synchronize
from draftpick.probing.local import LocalModel, Stream
from draftpick.speedup import StepTimes

WARM_UP = 3
LEAST_REPEATS = 7
MOST_REPEATS = 41
LEAST = 0.3
"""Share of a pass that it costs in a run at the least: below, timings were disturbed."""
SECONDS = 6.0
"""For the passes of one target and draft; slow models are timed LEAST_REPEATS times all the same."""


class Timing(NamedTuple):
    """A repeated measurement, in seconds."""

    median: float
    low: float
    """First quartile."""
    high: float
    """Third quartile."""
    repeats: int

    @property
    def spread(self) -> float:
        """Distance of the quartiles over the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


class Passes(NamedTuple):
    """Times of single passes at one batch size and context length, with a KV cache of that context."""

    batch: int
    context: int
    target: tuple[Timing, ...]
    """Over 1, 2, … k_max+1 positions."""
    draft: tuple[Timing, ...]
    """Over 1 and 2 positions: a drafted token, and the first one behind a block that was accepted whole."""
    target_prefill: Timing
    draft_prefill: Timing
    grew: bool = False
    """A model could not take back what it read, so its context grew from pass to pass."""

    @property
    def c(self) -> float:
        """Cost of a drafted token over that of a plain one."""
        return self.draft[0].median / self.target[0].median

    def times(self, overhead: Overhead | None = None) -> StepTimes:
        """The step, with what the software adds to its passes; forwards alone without it."""
        verify = [timing.median for timing in self.target]
        # Wider passes are not faster: where one seems so, it is noise.
        verify = [max(verify[: place + 1]) for place in range(len(verify))]
        if overhead is None:
            first, each = self.draft[1].median, self.draft[0].median
            return StepTimes(verify[0], max(first, each), each, tuple(verify))
        plain = verify[0] + overhead.per_token
        shifted = tuple(plain + value - verify[0] for value in verify)
        each = self.draft[0].median + overhead.per_draft
        return StepTimes(plain, each, each, shifted, overhead.per_step)


class Overhead(NamedTuple):
    """What the software adds, in seconds: to a plain token, to a step that drafts, and to each drafted token."""

    per_token: float
    per_step: float
    per_draft: float
    software: str
    spread: float = 0.0
    """Half-width, at 95 %, of ln(time of a speculative run / time of a plain one) over the repeats."""


class Run(NamedTuple):
    """A generation of the software itself."""

    tokens: list[int]
    seconds: float
    steps: int
    """Passes of the target."""
    drafted: int
    """Passes of the draft."""


def time_passes(
    target: LocalModel, draft: LocalModel, *, batch: int, context: int, k_max: int, seconds: float = SECONDS
) -> Passes:
    """Time single passes of both by turns, so that what disturbs the machine disturbs all alike."""
    import torch

    with torch.inference_mode():
        ours, theirs = _filled(target, batch, context, k_max + 1), _filled(draft, batch, context, 2)
        jobs = [(ours.stream, m) for m in range(1, k_max + 2)] + [(theirs.stream, m) for m in (1, 2)]
        found: list[list[float]] = [[] for _ in jobs]
        grew = False
        for _ in _rounds(seconds, WARM_UP):
            for place, (stream, positions) in enumerate(jobs):
                taken, restored = _pass(stream, positions)
                found[place].append(taken)
                grew = grew or not restored
        timings = [_summed(values[WARM_UP:]) for values in found]
    return Passes(
        batch, context, tuple(timings[: k_max + 1]), tuple(timings[k_max + 1 :]), ours.prefill, theirs.prefill, grew
    )


def time_token(target: LocalModel, *, batch: int, context: int) -> Timing:
    """t again, for seeing whether the machine has changed."""
    import torch

    with torch.inference_mode():
        stream = _filled(target, batch, context, 1).stream
        return _summed([_pass(stream, 1)[0] for _ in _rounds(SECONDS / 10, WARM_UP)][WARM_UP:])


class _Filled(NamedTuple):
    stream: Stream
    prefill: Timing


def _filled(local: LocalModel, batch: int, context: int, positions: int) -> _Filled:
    """A model that has read `context` tokens, and how long that took."""
    import torch

    room = context + positions * (MOST_REPEATS + WARM_UP) * positions
    times: list[float] = []
    for _ in range(2):
        # The first pass of a shape compiles or picks kernels.
        stream = Stream(local, torch.ones((batch, room), dtype=torch.int64, device=local.device))
        ids = torch.randint(0, local.vocab_size, (batch, context), device="cpu").to(local.device)
        with _stopwatch(local) as taken:
            stream.read_prompt(ids)
        times.append(taken())
    return _Filled(stream, _summed(times[-1:]))


def _pass(stream: Stream, positions: int) -> tuple[float, bool]:
    """How long a pass took, and whether the context is as before."""
    import torch

    ids = torch.ones((stream.rows, positions), dtype=torch.int64, device=stream.local.device)
    with _stopwatch(stream.local) as taken:
        stream.read(ids, positions)
    return taken(), stream.forget(positions)


def _rounds(seconds: float, warm_up: int) -> Iterator[int]:
    begun = time.perf_counter()
    for number in range(MOST_REPEATS + warm_up):
        if number >= LEAST_REPEATS + warm_up and time.perf_counter() - begun > seconds:
            return
        yield number


@contextmanager
def _stopwatch(local: LocalModel) -> Iterator[Callable[[], float]]:
    """Seconds between two moments at which the device had nothing left to do."""
    synchronize(local.device)
    begun = time.perf_counter()
    ended = begun

    def taken() -> float:
        return ended - begun

    yield taken
    synchronize(local.device)
    ended = time.perf_counter()


def _summed(values: Sequence[float]) -> Timing:
    ordered = sorted(values)
    if len(ordered) < 2:
        return Timing(ordered[0], ordered[0], ordered[0], 1)
    low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
    return Timing(statistics.median(ordered), low, high, len(ordered))


# ---------------------------------------------------------------------- whole runs of transformers


def run_plain(target: LocalModel, prompt: Sequence[int], max_new_tokens: int) -> Run:
    """Greedy generation by transformers itself."""
    return _run(target, prompt, max_new_tokens, None, {})


def run_assisted(
    target: LocalModel, draft: LocalModel, prompt: Sequence[int], max_new_tokens: int, k: int, **options: Any
) -> Run:
    """transformers' assisted generation with k tokens a step, always as many.

    `options` go to its `generate`: sampling, or the tokenizers of a pair whose vocabularies differ.
    """
    config = draft.model.generation_config
    before = {name: getattr(config, name, None) for name in _FIXED}
    config.update(**{**_FIXED, "num_assistant_tokens": k})
    try:
        return _run(target, prompt, max_new_tokens, draft, options)
    finally:
        config.update(**before)


_FIXED = {
    "num_assistant_tokens": 0,
    "num_assistant_tokens_schedule": "constant",
    "assistant_confidence_threshold": 0.0,
}


_TOKENIZERS = ("tokenizer", "assistant_tokenizer")


def _run(
    target: LocalModel, prompt: Sequence[int], max_new_tokens: int, draft: LocalModel | None, options: Mapping[str, Any]
) -> Run:
    import torch
    from transformers import GenerationConfig

    plain: dict[str, Any] = {
        "do_sample": False,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "repetition_penalty": 1.0,
    }
    given = {**plain, **options}
    others: dict[str, Any] = {name: given.pop(name) for name in _TOKENIZERS if name in given}
    eos = list(target.eos_ids)
    config = GenerationConfig(
        max_new_tokens=max_new_tokens, eos_token_id=eos or None, pad_token_id=eos[0] if eos else 0, **given
    )
    ids = torch.tensor([list(prompt)], device=target.device)
    if draft is not None:
        others["assistant_model"] = draft.model
    with _counted(target) as steps, _counted(draft) as drafted, torch.inference_mode(), _stopwatch(target) as taken:
        output = target.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **others)
        tokens = output[0, len(prompt) :].tolist()
    return Run(tokens, taken(), steps(), drafted())


@contextmanager
def _counted(local: LocalModel | None) -> Iterator[Callable[[], int]]:
    """How often a model runs."""
    count = 0

    def note(*_: Any) -> None:
        nonlocal count
        count += 1

    handle = local.model.register_forward_pre_hook(note) if local is not None else None
    try:
        yield lambda: count
    finally:
        if handle is not None:
            handle.remove()


class Repeats(NamedTuple):
    """The same generations, repeated: a list of repeats for each prompt."""

    runs: Sequence[Sequence[Run]]

    @property
    def typical(self) -> list[Run]:
        """The run of median time for each prompt."""
        return [sorted(those, key=lambda run: run.seconds)[len(those) // 2] for those in self.runs]

    @property
    def variance(self) -> float:
        """Of the logarithm of the median time, averaged over prompts; 0 where nothing was repeated."""
        # The median of a few normal values has 1.57 times the variance of their mean.
        found = [
            1.57 * statistics.variance([math.log(run.seconds) for run in those]) / len(those)
            for those in self.runs
            if len(those) > 1
        ]
        return statistics.mean(found) / len(self.runs) if found else 0.0


def overhead_of(passes: Passes, plain: Repeats, few: Repeats, many: Repeats) -> Overhead:
    """What the software adds to its passes, from plain runs and from runs with few and with many drafted tokens.

    Two kinds of runs, two unknowns: a time per step and a time per drafted token. A pass timed by itself waits for the
    device, which a run does not: what is added may be less than nothing, down to LEAST of the pass.
    """
    target = [timing.median for timing in passes.target]
    alone = plain.typical
    per_token = sum(run.seconds for run in alone) / sum(len(run.tokens) for run in alone) - target[0]
    rest, share = zip(*(_beyond_passes(passes, runs.typical) for runs in (few, many)), strict=True)
    per_draft = (rest[1] - rest[0]) / (share[1] - share[0]) if share[1] > share[0] else 0.0
    per_draft = max(per_draft, (LEAST - 1) * passes.draft[0].median)
    per_token = max(per_token, (LEAST - 1) * target[0])
    per_step = sum(value - per_draft * drafted for value, drafted in zip(rest, share, strict=True)) / 2
    spread = 1.96 * math.sqrt(plain.variance + max(few.variance, many.variance))
    return Overhead(per_token, max(per_step - per_token, 0.0), per_draft, software(), spread)


def _beyond_passes(passes: Passes, runs: Sequence[Run]) -> tuple[float, float]:
    """Seconds of a step beyond its passes, and tokens drafted in a step, on average."""
    steps = sum(run.steps for run in runs)
    drafted = sum(run.drafted for run in runs) / steps
    target = [timing.median for timing in passes.target]
    whole = min(int(drafted), len(target) - 2)
    verify = target[whole] + (drafted - whole) * (target[whole + 1] - target[whole])
    spent = sum(run.seconds for run in runs) / steps
    return spent - verify - drafted * passes.draft[0].median, drafted


def software() -> str:
    """What ran the models, with its version."""
    import transformers

    return f"transformers {transformers.__version__} (eager)"
