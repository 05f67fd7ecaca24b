"""How often a gate fails a pair that did not change, and how often it catches one that did: `make eval-gate`.

Every run judges real files: a probe of prompts drawn from a pool, against a baseline of the same pair from other
prompts of the pool (or the same ones). The changed pair has a draft whose weights were disturbed until it lost ten
points of acceptance.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import records
from bench_probe import DEMO, pool
from records import Figure, Told

from draftpick.catalog import load as load_catalog
from draftpick.gate_file import BaselineFile, BaselineRow, GateFile, PairRow, Policy, PolicyFile
from draftpick.gating import judge
from draftpick.gating.baseline import updated
from draftpick.gating.evidence import Sources
from draftpick.models import resolve
from draftpick.models.profile import ModelProfile
from draftpick.pair import Setting
from draftpick.probe_file import TraceRecord, sha256, to_text
from draftpick.probing import local, prompts, result
from draftpick.probing.document import document, draft_record
from draftpick.probing.outcome import ModelFiles, Outcome, Request
from draftpick.probing.result import Budget
from draftpick.probing.run import Probe
from draftpick.probing.trace import DraftColumns, Row, Writer
from draftpick.replay import acceptance_rate

RUNS = 400
TOKENS = 64
LOSS = 0.10
SIZES = (120, 64)
"""Prompts of a run: as many as come with draftpick, and as many as this repository's own gate takes."""


class Made(NamedTuple):
    """The pair measured once on all prompts of the pool, with the sound draft and with the disturbed one."""

    outcome: Outcome
    sound: Sequence[Row]
    disturbed: Sequence[Row]
    target: ModelProfile
    draft: ModelProfile


def made(folder: Path) -> tuple[Made, str]:
    """The pool measured and the draft disturbed until it has lost LOSS; and a sentence about both."""
    asked = pool(prompts.read(DEMO / "prompts.jsonl"))
    files = [ModelFiles(name, DEMO / name, {"id": name}) for name in ("target", "draft")]
    budget = Budget(len(asked), 0.0, most_prompts=len(asked), fixed=True)
    request = Request(
        files[0], files[1:], asked, folder / "pool.jsonl", max_new_tokens=TOKENS, k_max=1, batch_size=32,
        times_passes=False, budget=budget, catalog=load_catalog(None),
    )  # fmt: skip
    probe = Probe(request, lambda said: None)
    outcome = probe.run()
    catalog = load_catalog(None)
    target, draft = (resolve(str(DEMO / name), catalog, offline=True)._replace(id=name) for name in ("target", "draft"))
    worse, scale = disturbed(probe.drafts[0], outcome.rows)
    about = (
        f"{len(outcome.rows)} prompts in the pool, whose acceptance rate is {rate(outcome.rows):.3f}, and "
        f"{rate(worse):.3f} with weights disturbed by {scale:.3f} σ; in brackets the exact 95 % interval."
    )
    return Made(outcome, outcome.rows, worse, target, draft), about


def disturbed(draft: local.LocalModel, rows: Sequence[Row]) -> tuple[list[Row], float]:
    """What the draft makes of the same answers once noise in its weights has cost it LOSS, and how much noise."""
    import torch

    before = rate(rows)
    weights = {name: value.clone() for name, value in draft.model.state_dict().items() if value.ndim == 2}
    noise = torch.Generator().manual_seed(0)
    drawn = {name: value.std() * torch.randn(value.shape, generator=noise) for name, value in weights.items()}
    low, high = 0.0, 1.0
    found: list[Row] = []
    for _ in range(10):
        scale = (low + high) / 2
        draft.model.load_state_dict({name: weights[name] + scale * drawn[name] for name in weights}, strict=False)
        found = read_again(draft, rows)
        lost = before - rate(found)
        low, high = (scale, high) if lost < LOSS else (low, scale)
        if abs(lost - LOSS) < 0.001:
            break
    return found, scale


def read_again(draft: local.LocalModel, rows: Sequence[Row]) -> list[Row]:
    """The same answers with the columns of a draft that has changed."""
    found: list[Row] = []
    for start in range(0, len(rows), 32):
        part = rows[start : start + 32]
        (readings,) = local.read_answers([row.prompt_ids for row in part], [row.tokens for row in part], [draft])
        for row, reading in zip(part, readings, strict=True):
            columns = DraftColumns(reading.top.tolist(), reading.top_prob.tolist())
            found.append(row._replace(drafts={draft.id: columns}))
    return found


def rate(rows: Sequence[Row]) -> float:
    """α of these answers."""
    found = acceptance_rate(result.measured(rows, "draft", 0.0, result.proposals(0.0)[0], k_max=1, first=1).trace)
    assert found is not None, "positions were counted"
    return found.value


# ---------------------------------------------------------------------- runs


class Gate:
    """A policy of the pair in a folder of its own, judged again and again with other evidence."""

    def __init__(self, folder: Path, measured: Made) -> None:
        self._folder, self._made = folder, measured
        first = dataclasses.replace(measured.outcome, rows=list(measured.sound[:8]))
        self._template = document(first, measured.target, [measured.draft], {}, source="pool", beside=folder)
        self._pair = PairRow(name="demo", target="target", draft="draft", evidence="probe.json")
        self._policy = PolicyFile(baseline="baseline.json", defaults=Policy(), pair=[self._pair])
        models = {"target": measured.target, "draft": measured.draft}

        def find(name: str, revision: str | None) -> ModelProfile:
            return models[name]._replace(origin="catalogue", path=None)

        def never(pair: PairRow, target: ModelProfile, draft: ModelProfile, output: Path) -> None:
            raise AssertionError("the evidence is saved")

        today = datetime.now(timezone.utc).date()
        self._sources = Sources(measured.outcome.request.catalog, find, lambda pair: Setting(), never, today)

    def baseline(self, rows: Sequence[Row]) -> BaselineFile:
        """The baseline that these answers give."""
        empty = BaselineFile(schema_version="1", kind="baseline", pairs={})
        first, found = self._judged(rows, None)
        baseline = updated(empty, first, found, ["demo"])
        assert "demo" in baseline.pairs, first.pairs[0].checks
        return baseline

    def fails(self, baseline: BaselineFile, rows: Sequence[Row]) -> bool:
        """Whether the gate fails with these answers as evidence, for no other reason than the baseline."""
        judged, _ = self._judged(rows, baseline)
        failed = [check for check in judged.pairs[0].checks if not check.passed]
        assert all(check.name == "baseline" and check.status == "failed" for check in failed), failed
        return bool(failed)

    def _judged(self, rows: Sequence[Row], baseline: BaselineFile | None) -> tuple[GateFile, Mapping[str, BaselineRow]]:
        self._write(rows)
        found = judge(self._policy, self._folder / "pairs.toml", baseline, self._sources, {})
        return found.result, found.rows

    def _write(self, rows: Sequence[Row]) -> None:
        """A probe file of these answers with its trace."""
        trace = self._folder / "probe.trace.jsonl"
        trace.unlink(missing_ok=True)
        outcome = self._made.outcome
        with Writer(trace, outcome.header) as writer:
            writer.append(rows)
        measured = dataclasses.replace(outcome, rows=list(rows), stopped_by=f"all {len(rows)} prompts were used")
        (found,) = measured.measured()
        # What needs no draft plays no part here, and takes most of the time.
        whole = self._template.model_copy(
            update={
                "drafts": [draft_record(measured, found, None, "")],
                "draft_free": [],
                "trace": TraceRecord(path=trace.name, sha256=sha256(trace)),
            }
        )
        (self._folder / "probe.json").write_text(to_text(whole), encoding="utf-8")


class Share(NamedTuple):
    """How many of so many runs failed, with the exact (Clopper-Pearson) 95 % interval."""

    failed: int
    runs: int

    def __str__(self) -> str:
        low, high = exact_interval(self.failed, self.runs)
        return f"{self.failed / self.runs:.1%} ({self.failed} of {self.runs}; {low:.1%} to {high:.1%})"


def exact_interval(failed: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Of the chance behind `failed` of `runs`: Clopper and Pearson 1934."""
    tail = (1 - level) / 2
    low = 0.0 if not failed else _solve(lambda p: 1 - _at_most(failed - 1, runs, p) - tail)
    high = 1.0 if failed == runs else _solve(lambda p: tail - _at_most(failed, runs, p))
    return low, high


def _at_most(count: int, runs: int, chance: float) -> float:
    return sum(math.comb(runs, one) * chance**one * (1 - chance) ** (runs - one) for one in range(count + 1))


def _solve(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def shares(gate: Gate, measured: Made, size: int, runs: int) -> dict[str, Share]:
    """Failures of the unchanged pair and of the changed one, with prompts drawn anew at each run."""
    rng = random.Random(size)
    places = range(len(measured.sound))
    failed = dict.fromkeys(("unchanged, fresh prompts", "changed, the same prompts", "changed, fresh prompts"), 0)
    for _ in range(runs):
        drawn = rng.sample(places, 2 * size)
        before, now = drawn[:size], drawn[size:]
        old = gate.baseline([measured.sound[place] for place in before])
        for name, rows, which in (
            ("unchanged, fresh prompts", measured.sound, now),
            ("changed, the same prompts", measured.disturbed, before),
            ("changed, fresh prompts", measured.disturbed, now),
        ):
            failed[name] += gate.fails(old, [rows[place] for place in which])
    return {name: Share(count, runs) for name, count in failed.items()}


def gate(runs: int) -> Told:
    """How often a gate fails a pair that did not change, and one that lost ten points of acceptance."""
    memory = Path("/dev/shm")
    figures = []
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        measured, about = made(folder)
        judged = Gate(folder, measured)
        for size in SIZES:
            for what, share in shares(judged, measured, size, runs).items():
                wanted = "at most 2 %" if what.startswith("unchanged") else "at least 95 %"
                reached = share.failed <= 0.02 * runs if what.startswith("unchanged") else share.failed >= 0.95 * runs
                figures.append(Figure(f"{size} prompts, {what}: runs that fail", str(share), wanted, reached))
                print(f"  {figures[-1].what}: {share}", file=sys.stderr, flush=True)
    return Told(figures, [about])


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    records.run({"gate": partial(gate, options.runs)}, options.keep)


if __name__ == "__main__":
    main()
