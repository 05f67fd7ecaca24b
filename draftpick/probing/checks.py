"""What a probe checks itself by: the target against itself, and the replay against real speculative runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from draftpick import replay
from draftpick.choices import PROBE
from draftpick.probing import result
from draftpick.probing.local import LocalModel, Reading, Sampling
from draftpick.probing.timing import Repeats, Run, run_assisted, run_plain
from draftpick.probing.trace import DraftColumns, Row
from draftpick.speedup import StepTimes


class Check(NamedTuple):
    """What was compared, whether it passed, and what was seen."""

    name: str
    passed: bool
    detail: str


def near_tie(model: LocalModel) -> float:
    """How near two logits may lie for their order to be a matter of rounding, in nats."""
    return PROBE.get(f"near-tie.{model.dtype}", 0.0)


class Agreement:
    """Whether the target, reading its own greedy text, would have written it."""

    def __init__(self, near: float) -> None:
        self._near = near
        self.compared = self._tied = self._disagreed = self._greedy = 0
        self._surprise = 0.0

    def add(self, readings: Iterable[Reading], sampling: Sampling) -> None:
        """Count what the target makes of answers that were given in this way."""
        for reading in readings:
            self.compared += len(reading.top)
            if not sampling.greedy and reading.entropy is not None:
                # Of its own text a model expects to be as surprised as it is uncertain.
                self._surprise -= float((reading.log_prob[sampling.temperature] + reading.entropy).sum())
                continue
            self._greedy += len(reading.top)
            self._tied += int(((reading.shortfall > 0) & (reading.shortfall <= self._near)).sum())
            self._disagreed += int((reading.shortfall > self._near).sum())

    def check(self, given: bool) -> Check:
        """The target as its own draft. `given`: the answers were not written here."""
        sampled = self.compared - self._greedy
        surprise = self._surprise / sampled if sampled else 0.0
        said = (
            [f"its sampled text surprises it by {surprise:+.2f} nats a token more than it expects"] if sampled else []
        )
        passed = surprise <= PROBE["foreign-text"]
        if self._greedy:
            share = 1 - (self._disagreed + self._tied) / self._greedy
            passed = passed and 1 - self._disagreed / self._greedy >= PROBE["self-acceptance"]
            said.append(
                f"accepts {share:.2%} of {self._greedy} greedy tokens; {self._tied} near-ties, {self._disagreed} other "
                "disagreements"
            )
        if given and not passed:
            said.append(
                "are these answers this target's own? Name the temperature, top-k and top-p they were sampled at"
            )
        return Check("the target as its own draft", passed, "; ".join(said))


# ---------------------------------------------------------------------- real runs


class RealRuns(NamedTuple):
    """Greedy generations of the software itself, for some prompts."""

    plain: Repeats
    speculative: Mapping[int, Repeats]
    """By num_spec_tokens."""


def real_runs(
    target: LocalModel,
    draft: LocalModel,
    prompts: Sequence[Sequence[int]],
    limit: int,
    k_max: int,
    say: Callable[[str], None],
) -> RealRuns:
    """Plain runs, and speculative ones with few and with many tokens, by turns: what disturbs one disturbs all."""
    lengths = sorted({1, k_max})
    plain: list[list[Run]] = [[] for _ in prompts]
    runs: dict[int, list[list[Run]]] = {k: [[] for _ in prompts] for k in lengths}
    _all_kinds(target, draft, prompts[0], int(PROBE["check-warm-up"]), lengths)
    begun = time.monotonic()
    for turn in range(int(PROBE["check-most-repeats"])):
        spent = time.monotonic() - begun
        enough = turn >= PROBE["check-repeats"] and spent > PROBE["check-least-seconds"]
        if enough or (turn and spent > PROBE["check-seconds"]):
            break
        for place, prompt in enumerate(prompts):
            say(f"real runs with {draft.id}, {turn * len(prompts) + place + 1}")
            alone, drafted = _all_kinds(target, draft, prompt, limit, lengths)
            plain[place].append(alone)
            for k, run in zip(lengths, drafted, strict=True):
                runs[k][place].append(run)
    return RealRuns(Repeats(plain), {k: Repeats(those) for k, those in runs.items()})


def _all_kinds(
    target: LocalModel, draft: LocalModel, prompt: Sequence[int], limit: int, lengths: Sequence[int]
) -> tuple[Run, list[Run]]:
    return run_plain(target, prompt, limit), [run_assisted(target, draft, prompt, limit, k) for k in lengths]


def foretold(times: StepTimes, runs: RealRuns) -> list[tuple[int, float, float]]:
    """k, predicted and measured speed-up of the runs that calibrated the costs."""
    found = []
    without = sum(run.seconds for run in runs.plain.typical)
    for k, repeats in runs.speculative.items():
        those = repeats.typical
        tokens, steps = sum(len(run.tokens) for run in those), sum(run.steps for run in those)
        step = _step_of(times, sum(run.drafted for run in those) / steps)
        found.append((k, tokens / steps * times.target / step, without / sum(run.seconds for run in those)))
    return found


def _step_of(times: StepTimes, drafted: float) -> float:
    """Time of a step that drafts so many tokens on average: the last steps of an answer are shorter."""
    whole = min(int(drafted), times.most_tokens - 1)
    return times.step(whole) + (drafted - whole) * (times.step(whole + 1) - times.step(whole))


def replay_against(
    draft: str, rows: Sequence[Row], runs: Mapping[int, Repeats], limit: int, near: float
) -> Iterable[Check]:
    """The replay must need as many steps as the real loop, on the same text; texts may part at a near-tie."""
    name = f"replay against assisted generation with {draft}"
    for k, repeats in runs.items():
        for row, run in zip(rows, repeats.typical, strict=True):
            cut = _cut(row, min(limit, len(row.tokens)))
            predicted = steps(draft, cut, k)
            detail = f"{row.prompt}, k = {k}: {run.steps} steps, replayed {predicted}"
            parted = _parting(run.tokens, cut.tokens)
            if parted is None:
                yield Check(name, predicted == run.steps, detail)
            else:
                yield _parted(name, detail, row, parted, near)


def _parted(name: str, detail: str, row: Row, place: int, near: float) -> Check:
    if row.gap is None or place >= len(row.gap):
        return Check(name, False, f"{detail}; the texts differ in length")
    gap = row.gap[place]
    where = f"the texts part at token {place + 1}, where the target's two best logits lie {gap:.4f} apart"
    return Check(name, gap <= near, f"{detail}; {where}{', a near-tie' if gap <= near else ''}")


def _parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Where two texts begin to differ; None where they do not."""
    if list(one) == list(other):
        return None
    pairs = zip(one, other, strict=False)
    return next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def verified(
    target: LocalModel, draft: LocalModel, rows: Sequence[Row], limit: int, k: int, say: Callable[[str], None]
) -> Check:
    """The software's own speculation with one k on all answers, beside the replay."""
    real = replayed = tokens = agreeing = tied = 0
    for number, row in enumerate(rows, start=1):
        say(f"verifying with assisted generation, k = {k}: {number} of {len(rows)} prompts")
        run = run_assisted(target, draft, row.prompt_ids, limit, k)
        expected = steps(draft.id, row, k)
        real, replayed, tokens = real + run.steps, replayed + expected, tokens + len(run.tokens)
        parted = _parting(run.tokens, row.tokens)
        agreeing += parted is None and run.steps == expected
        tied += parted is not None and _parted("", "", row, parted, near_tie(target)).passed
    ties = f", {tied} parted at near-ties" if tied else ""
    return Check(
        f"assisted generation with {draft.id}, k = {k}",
        agreeing + tied == len(rows),
        f"{tokens / real:.3f} tokens per step on {len(rows)} prompts, replayed {tokens / replayed:.3f}; "
        f"{agreeing} of {len(rows)} with the same text and steps{ties}",
    )


def steps(draft: str, row: Row, k: int) -> int:
    """Steps that the replay predicts for one answer in transformers."""
    trace = result.measured([row], draft, 0.0, result.usual(0.0, "transformers"), k_max=1, first=1).trace
    return round(float(replay.replay(trace, ks=[k])[k].visible.x.sum()))


def _cut(row: Row, size: int) -> Row:
    """The beginning of an answer."""
    drafts = {name: DraftColumns(columns.top[:size], columns.top_prob[:size]) for name, columns in row.drafts.items()}
    return row._replace(tokens=row.tokens[:size], log_p=None, gap=None, drafts=drafts)
