"""A saved probe as the ground of new plans, and adaptive lengths replayed on its trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from draftpick.advice import Advice
from draftpick.catalog import Catalog
from draftpick.errors import InvalidFile, UsageError
from draftpick.evidence import Evidence, PolicyRow, from_probe, spread_of, times_of
from draftpick.pair import MEASURED
from draftpick.replay import GREEDY_DRAFT, Acceptance, Trace
from draftpick.speedup import StepTimes, widened
from draftpick.walks import (
    ConfidenceStop,
    FixedLength,
    HeuristicLength,
    Policy,
    RateRule,
    Walked,
    walk,
)

if TYPE_CHECKING:
    from draftpick.probe_file import ProbeFile
    from draftpick.probing.trace import TraceFile


class Kind(NamedTuple):
    """A rule by which engines choose how far to draft."""

    name: str
    what: str
    policy: Callable[[int, int], Policy]
    """Of the plan's k and the most tokens that the times reach."""
    stop: ConfidenceStop | None = None


POLICIES: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("fixed", "the same number at every step", lambda k, most: FixedLength(max(k, 1))),
        Kind(
            "rate",
            "one more above 70 % accepted, one fewer below 40 %, from 2 on",
            lambda k, most: RateRule(start=min(max(k, 2), most), least=min(2, most), most=most),
        ),
        Kind(
            "heuristic",
            "two more after a full hit, else one fewer (transformers)",
            lambda k, most: HeuristicLength(start=max(k, 1), most=most),
        ),
        Kind(
            "confidence",
            "ends where the draft is less than 40 % sure (transformers)",
            lambda k, most: FixedLength(most),
            ConfidenceStop(0.4, keep=True),
        ),
        Kind(
            "p-min",
            "ends before a token of which the draft is less than 75 % sure (llama.cpp)",
            lambda k, most: FixedLength(most),
            ConfidenceStop(0.75, keep=False),
        ),
    )
}


_DRAWS = 32
"""Walks of a sampled text: the error of the mean is then a fraction of that over prompts."""


def chosen(names: Sequence[str]) -> list[Kind]:
    """The rules of these names; `all` is every one. Raises UsageError for a name that is none."""
    if "all" in names:
        return list(POLICIES.values())
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"--policy {name!r} is not known", f"one of all, {', '.join(POLICIES)}")
    return [POLICIES[name] for name in dict.fromkeys(names)]


def policy_rows(
    trace: Trace, times: StepTimes, k: int, kinds: Sequence[Kind], rule: Acceptance = GREEDY_DRAFT
) -> list[PolicyRow]:
    """Replay each rule on the trace, comparable: all count the blocks that are complete for the longest draft."""
    longest = max(len(answer.tokens) for answer in trace.answers) - trace.first + 1
    most = min(times.most_tokens, longest)
    if most < 1:
        raise UsageError("no answer of the trace holds a block", "probe with longer answers")
    rows = []
    for kind in kinds:
        walked = walk(trace, kind.policy(min(k, most), most), rule, stop=kind.stop, draws=_DRAWS, horizon=most)
        rows.append(_row(kind, walked, times))
    return rows


def _row(kind: Kind, walked: Walked, times: StepTimes) -> PolicyRow:
    steps = float(walked.counts[:, 1].sum())
    drafted = float(walked.counts[:, 3].sum()) / steps if steps else 0.0
    return PolicyRow(
        kind.name,
        kind.what,
        walked.mean_acceptance_length(),
        drafted,
        walked.speedup(times),
        walked.drafted_is_estimate,
    )


class Saved(NamedTuple):
    """A probe file with what of it counts for a plan."""

    probe: ProbeFile
    evidence: Mapping[str, Evidence]
    trace: TraceFile | None
    """None where it is gone: plans then rest on the saved rates."""

    @property
    def any(self) -> Evidence:
        """One of its drafts: where and with how many sequences at once steps were timed is common to all."""
        return next(iter(self.evidence.values()))

    def policies(self, answer: Advice, names: Sequence[str]) -> tuple[PolicyRow, ...]:
        """The rules asked for, replayed with the first draft's costs. Raises UsageError without a trace."""
        kinds = chosen(names)
        if not kinds:
            return ()
        best = next((one for one in answer.viable if one.prediction is not None), None)
        if best is None or best.prediction is None or best.prediction.measured is None:
            raise UsageError("no draft of the probe can be planned for here", "leave --policy out to see why")
        if self.trace is None:
            raise UsageError(
                "the probe's trace is gone: adaptive lengths cannot be replayed from rates",
                "put the trace back beside the probe file, or leave --policy out",
            )
        measured, row = best.prediction.measured, best.prediction.plan.drafting
        trace = self.trace.of(measured.draft, measured.temperature, first=measured.first)
        times = times_of(best.prediction.costs)
        rows = policy_rows(trace, times, row.k if row is not None else 1, kinds, _rule(measured))
        spread = spread_of(measured, measured=best.prediction.evidence in MEASURED)
        return tuple(
            row._replace(speedup=widened(row.speedup, spread)) if row.speedup is not None else row for row in rows
        )


def _rule(measured: Evidence) -> Acceptance:
    """The rule of the replay for a way to draft."""
    if measured.way == "first_choice":
        return GREEDY_DRAFT
    heat = measured.temperature**2 if measured.way == "sampled_twice" else measured.temperature
    # As the columns of a trace are named.
    return Acceptance(True, float(f"{heat:g}"), block=measured.way == "sampled_block")


def load_probe(source: Path | ProbeFile, catalog: Catalog, temperature: float | None = None) -> Saved:
    """A probe with its trace: beside the probe file, or, of a record that no file is known of, in the current folder.

    Raises InvalidFile, and UsageError for a temperature it did not measure.
    """
    from draftpick.probe_file import read_probe, trace_of
    from draftpick.probing.trace import read

    probe, path = (read_probe(source), source) if isinstance(source, Path) else (source, Path("the probe"))
    evidence = from_probe(probe, catalog, temperature)
    if not evidence:
        heats = sorted({one.temperature for one in probe.drafts})
        raise UsageError(
            f"{path}: nothing was measured{f' at temperature {temperature:g}' if temperature is not None else ''}",
            f"it holds {', '.join(f'{heat:g}' for heat in heats)}" if heats else "probe a draft with the target's ids",
        )
    try:
        found = trace_of(probe, path)
    except InvalidFile:
        if isinstance(source, Path):
            raise
        found = None  # what has its name in the current folder is another's
    return Saved(probe, evidence, read(found) if found is not None else None)
