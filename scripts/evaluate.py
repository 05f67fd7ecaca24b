"""How well the predictions do on published measurements, one source left out at a time, beside simple rules.

`make eval`; with `--keep` the questions alone, as a table. Predictions are judged on rows with use = yes. A setting is
a value of `group`: the same target, task, temperature, engine and hardware; a draft measured at several lengths counts
with its best. "By target" averages over targets, "by source" over sources; of the log error the median is taken over
sources too, and their mean stands beside.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import records
from fit import Prediction, Row, as_model, fit, held_out, predict, read, start
from records import Figure, Told

CONSTANT = 1.33
NEAREST = 7.0
SEVERAL = 5
"""Rows of a source from which on its median says something."""


class Entry(NamedTuple):
    """A draft in a setting: measured and predicted speed-up, each at the draft's best length."""

    row: Row
    measured: float
    predicted: float


Choose = Callable[[Sequence[Entry]], "Entry | None"]


def settings(rows: Sequence[Row], said: Mapping[str, Prediction]) -> dict[str, list[Entry]]:
    """Entries by group."""
    best: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        best.setdefault((row.group, row.draft, row.draft_quant), []).append(row)
    groups: dict[str, list[Entry]] = {}
    for (group, _, _), same in best.items():
        entry = Entry(same[0], max(row.speedup for row in same), max(said[row.id].speedup for row in same))
        groups.setdefault(group, []).append(entry)
    return groups


# ------------------------------------------------------------------------------------------------------- simple rules


def predicted(entries: Sequence[Entry]) -> Entry | None:
    return max(entries, key=lambda entry: entry.predicted)


def predicted_or_none(entries: Sequence[Entry]) -> Entry | None:
    best = max(entries, key=lambda entry: entry.predicted)
    return best if best.predicted > 1 else None


def smallest(entries: Sequence[Entry]) -> Entry | None:
    """The smallest draft with the target's tokenizer, the first listed of equals; none where there is none."""
    same = [entry for entry in entries if entry.row.same_tokenizer]
    return min(same, key=lambda entry: -entry.row.ratio) if same else None


def nearest(entries: Sequence[Entry]) -> Entry | None:
    return min(entries, key=lambda entry: abs(math.log(entry.row.ratio / NEAREST)))


# ------------------------------------------------------------------------------------------------------------ figures


class Score(NamedTuple):
    """How well one way to predict does, by row and by what it is averaged over."""

    values: tuple[float, ...]
    more: str = ""
    balanced: float | None = None
    """Of a yes or no: the mean over those that gained and those that lost."""

    def __str__(self) -> str:
        balanced = f", balanced {self.balanced:.3f}" if self.balanced is not None else ""
        return " / ".join(f"{value:.3f}" for value in self.values) + balanced + self.more


def averages(values: Sequence[tuple[Row, float]], by: Iterable[str]) -> Score:
    """The mean, and the mean of means by target or source."""
    found = [np.mean([value for _, value in values])]
    for field in by:
        parts: dict[str, list[float]] = {}
        for row, value in values:
            parts.setdefault(getattr(row, field), []).append(value)
        found.append(np.mean([np.mean(part) for part in parts.values()]))
    return Score(tuple(map(float, found)))


def median_by(values: Sequence[tuple[Row, float]]) -> Score:
    """The median, and over sources of their medians the median, the mean, and the mean of those with several rows."""
    parts: dict[str, list[float]] = {}
    for row, value in values:
        parts.setdefault(row.source, []).append(value)
    medians = [np.median(part) for part in parts.values()]
    several = [np.median(part) for part in parts.values() if len(part) >= SEVERAL]
    return Score(
        (float(np.median([v for _, v in values])), float(np.median(medians))),
        f" (mean of sources {np.mean(medians):.3f}; of those with {SEVERAL} rows or more {np.mean(several):.3f})",
    )


def draft_or_none(groups: Mapping[str, list[Entry]], choose: Choose, *, skip_none: bool = False) -> Score:
    values = []
    for entries in groups.values():
        chosen = choose(entries)
        if chosen is None and skip_none:
            continue
        possible = max(1.0, *(entry.measured for entry in entries))
        values.append((entries[0].row, (chosen.measured if chosen is not None else 1.0) / possible))
    return averages(values, ("source",))


def choice(groups: Mapping[str, list[Entry]], choose: Choose) -> Score:
    values = []
    for entries in groups.values():
        chosen = choose(entries) if len(entries) > 1 else None
        if chosen is not None:
            values.append((entries[0].row, chosen.measured / max(entry.measured for entry in entries)))
    return averages(values, ("target", "source"))._replace(more=f"  ({len(values)} groups)")


def sign(rows: Sequence[Row], guess: Callable[[Row], float]) -> Score:
    """Share of rows whose gain or loss was foreseen, by row and by source; then balanced by outcome."""
    values = [(row, float((guess(row) > 1) == (row.speedup > 1))) for row in rows]
    gains = [value for row, value in values if row.speedup > 1]
    losses = [value for row, value in values if row.speedup <= 1]
    return averages(values, ("source",))._replace(balanced=float(np.mean(gains) + np.mean(losses)) / 2)


def log_error(rows: Sequence[Row], guess: Callable[[Row], float]) -> Score:
    return median_by([(row, abs(math.log(guess(row) / row.speedup))) for row in rows])


def coverage(rows: Sequence[Row], said: Mapping[str, Prediction], bounds: Mapping[str, tuple[float, float]]) -> Score:
    values = []
    for row in rows:
        low, high = bounds[row.source]
        values.append((row, float(low <= math.log(row.speedup / said[row.id].speedup) <= high)))
    return averages(values, ("source",))


def bounds_by_source(rows: Sequence[Row], said: Mapping[str, Prediction]) -> dict[str, tuple[float, float]]:
    """For each source the interval that the held-out errors of all *other* sources give."""
    from fit import speedup_bounds

    return {
        source: speedup_bounds([row for row in rows if row.source != source], said)
        for source in {row.source for row in rows}
    }


class Contest(NamedTuple):
    """One question to all ways to predict; the first is draftpick's, and is held to the limit."""

    title: str
    limit: str
    reached: Callable[[Score], bool]
    scores: Mapping[str, Score]


OURS = "prediction, held out by source"
UNFITTED = "starting values, nothing fitted"


def contests(rows: Sequence[Row], said: Mapping[str, Prediction]) -> list[Contest]:
    """Every question, with the score of the predictions `said` and of the simple rules."""
    model = as_model(list(start()))
    plain = {row.id: predict(row, model) for row in rows}
    groups, plain_groups = settings(rows, said), settings(rows, plain)
    return [
        Contest(
            "draft or none: share of the best possible, by setting / by source",
            "0.940 / 0.970",
            partial(_at_least, (0.940, 0.970)),
            {
                OURS: draft_or_none(groups, predicted_or_none),
                UNFITTED: draft_or_none(plain_groups, predicted_or_none),
                "smallest same-tokenizer, where any": draft_or_none(groups, smallest, skip_none=True),
                "smallest same-tokenizer, else none": draft_or_none(groups, smallest),
                "never": draft_or_none(groups, lambda _: None),
            },
        ),
        Contest(
            "choice among drafts, by group / by target / by source",
            "0.917 / 0.939 / 0.968",
            partial(_at_least, (0.917, 0.939, 0.968)),
            {
                OURS: choice(groups, predicted),
                UNFITTED: choice(plain_groups, predicted),
                "smallest same-tokenizer": choice(groups, smallest),
                "nearest to 7x": choice(groups, nearest),
            },
        ),
        Contest(
            "sign of the gain, by row / by source",
            "0.870, balanced 0.820",
            lambda score: score.values[0] >= 0.870 and (score.balanced or 0.0) >= 0.820,
            {
                OURS: sign(rows, lambda row: said[row.id].speedup),
                UNFITTED: sign(rows, lambda row: plain[row.id].speedup),
                "always yes": sign(rows, lambda row: 2.0),
                "always no": sign(rows, lambda row: 0.5),
            },
        ),
        Contest(
            "median |log error| of the speed-up, by row / by source",
            "0.200 / 0.210",
            partial(_at_most, (0.200, 0.210)),
            {
                OURS: log_error(rows, lambda row: said[row.id].speedup),
                UNFITTED: log_error(rows, lambda row: plain[row.id].speedup),
                f"constant {CONSTANT}": log_error(rows, lambda row: CONSTANT),
            },
        ),
        Contest(
            "measured speed-ups inside the 80 % interval, by row / by source",
            "0.700 to 0.900",
            lambda score: all(0.700 <= value <= 0.900 for value in score.values),
            {OURS: coverage(rows, said, bounds_by_source(rows, said))},
        ),
    ]


def _at_least(limits: Sequence[float], score: Score) -> bool:
    return all(value >= limit for value, limit in zip(score.values, limits, strict=True))


def _at_most(limits: Sequence[float], score: Score) -> bool:
    return all(value <= limit for value, limit in zip(score.values, limits, strict=True))


def report(rows: Sequence[Row], said: Mapping[str, Prediction], left_out: Mapping[str, int]) -> str:
    """All of it, as docs/predictions.md shows it."""
    lines = [rows_used(rows, said), "rows left out:"]
    lines += [f"  {count:4d}  {reason}" for reason, count in sorted(left_out.items())]
    for contest in contests(rows, said):
        lines += ["", f"{contest.title:<64}  (to reach {contest.limit})"]
        lines += [f"  {name:<38}{score}" for name, score in contest.scores.items()]
    lines += ["", "by source: rows, median |log error|, median log(predicted / measured), sign right"]
    for source in sorted({row.source for row in rows}):
        mine = [row for row in rows if row.source == source]
        errors = np.array([math.log(said[row.id].speedup / row.speedup) for row in mine])
        right = np.mean([(said[row.id].speedup > 1) == (row.speedup > 1) for row in mine])
        lines.append(
            f"  {len(mine):4d}  {np.median(np.abs(errors)):.3f}  {np.median(errors):+.3f}  {right:.2f}  {source}"
        )
    return "\n".join(lines)


def rows_used(rows: Sequence[Row], said: Mapping[str, Prediction]) -> str:
    groups = settings(rows, said)
    several = sum(len(entries) > 1 for entries in groups.values())
    sources = len({row.source for row in rows})
    return f"rows used: {len(rows)} of {sources} sources, {len(groups)} settings, {several} of them with several drafts"


def predictions() -> Told:
    """Predictions on published measurements that the model was not fitted to, beside simple rules."""
    rows, _ = read()
    said = held_out(rows, fit(rows))
    figures = []
    for contest in contests(rows, said):
        for name, score in contest.scores.items():
            judged = name == OURS
            figures.append(
                Figure(
                    f"{contest.title}: {name}",
                    str(score),
                    contest.limit if judged else "",
                    contest.reached(score) if judged else None,
                )
            )
    return Told(figures, [rows_used(rows, said)])


def main() -> None:
    options = records.parser(__doc__).parse_args()
    if options.keep is not None:
        records.run({"predictions": predictions}, options.keep)
        return
    rows, left_out = read()
    print(report(rows, held_out(rows, fit(rows)), left_out))


if __name__ == "__main__":
    main()
