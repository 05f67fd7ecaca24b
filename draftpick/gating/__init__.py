"""Whether pairs keep their policy and are no worse than their baseline, judged by bounds and by evidence that holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from draftpick import __version__
from draftpick.assess import Assessment, assess
from draftpick.candidates import named
from draftpick.choices import GATE
from draftpick.errors import DraftpickError
from draftpick.evidence import Evidence, from_probe, relation_of
from draftpick.gate_file import (
    BaselineFile,
    BaselineRow,
    CheckName,
    CheckResult,
    GateFile,
    PairResult,
    PairRow,
    Policy,
    PolicyFile,
    Status,
    WaivedBy,
)
from draftpick.gating.baseline import difference_of, row_of, taken_otherwise
from draftpick.gating.evidence import Measured, Models, Sources, Unusable, find, notes, problems
from draftpick.models.tokenizer import Relation
from draftpick.pair import MEASURED, Proposal
from draftpick.predict import Prediction, Predictor
from draftpick.speedup import MARGIN, Interval


class Outcome(NamedTuple):
    """What a gate found."""

    result: GateFile
    rows: Mapping[str, BaselineRow]
    """What would be the baseline of each pair from now on; absent for pairs without evidence that can be used."""


def judge(
    policy: PolicyFile, path: Path, baseline: BaselineFile | None, sources: Sources, lines: Mapping[str, int]
) -> Outcome:
    """Judge every pair of the policy at `path`, whose pairs stand in those lines.

    `baseline` None: nothing is compared with one, as the policy names none or a new one is being taken.
    """
    results: list[PairResult] = []
    rows: dict[str, BaselineRow] = {}
    for pair in policy.pair:
        one = _Pair(pair, policy.policy(pair), path, sources, anew=baseline is None and policy.baseline is not None)
        row = one.judge(baseline)
        results.append(one.result(lines.get(pair.name)))
        if row is not None:
            rows[pair.name] = row
    result = GateFile(
        schema_version="1",
        kind="gate",
        tool={"name": "draftpick", "version": __version__},
        policy=str(path),
        date=sources.today,
        passed=all(one.passed for one in results),
        pairs=results,
    )
    return Outcome(result, rows)


class _Pair:
    """One pair while it is judged."""

    def __init__(self, pair: PairRow, policy: Policy, path: Path, sources: Sources, *, anew: bool) -> None:
        self._pair, self._policy, self._path, self._sources = pair, policy, path, sources
        self._anew = anew  # a baseline is being taken: there is none to compare with
        self._models = Models(pair, path, sources)
        self._measured: Measured | None = None
        self._checks: list[CheckResult] = []

    def judge(self, baseline: BaselineFile | None) -> BaselineRow | None:
        """Make all checks; what would be the pair's baseline from now on, where it has evidence."""
        row: BaselineRow | None = None
        measured = self._measured = self._evidence(baseline is not None)
        try:
            found = self._assessed(measured)
            self._facts(found)
            if measured is not None:
                row = self._measurement(measured, found, baseline)
        except DraftpickError as error:
            # A model that is not found, or a k beyond what was measured: the other pairs are judged all the same.
            self._add("findings", "missing", f"{error.message}; {error.hint}" if error.hint else error.message)
        self._unjudged(compares=baseline is not None)
        return row

    def _unjudged(self, *, compares: bool) -> None:
        """A waiver of what is missing waives nothing else: what was asked for and could not be judged fails."""
        if not all(check.passed for check in self._checks):
            return
        made = {check.name for check in self._checks}
        thresholds = ((getattr(self._policy, name), check) for name, check in _CHECKS.items())
        asked = [check for threshold, check in thresholds if threshold is not None and threshold is not False]
        if compares:
            asked.append("baseline")
        for name in asked:
            if name not in made and not (self._anew and name == "num_spec_tokens"):
                self._add(name, "missing", "there is nothing that it could be judged by")

    def _measurement(self, measured: Measured, found: Assessment, baseline: BaselineFile | None) -> BaselineRow:
        """The checks that a measurement is for."""
        assert found.measured is not None, "it was judged by the measurement"
        self._rates(found.measured, found)
        row = row_of(self._pair, measured, self._k(found))
        old = baseline.pairs.get(self._pair.name) if baseline is not None else None
        if baseline is not None:
            self._against(old, row)
        self._drift(self._pair.num_spec_tokens or (old.num_spec_tokens if old is not None else None), found)
        return row

    def result(self, line: int | None) -> PairResult:
        """The pair's result."""
        failed = [check for check in self._checks if not check.passed]
        return PairResult(
            name=self._pair.name,
            target=self._pair.target,
            draft=self._pair.draft,
            passed=not failed,
            # Evidence that can be used was judged by, whatever else is missing.
            judged=not failed or self._measured is not None or any(check.status == "failed" for check in failed),
            line=line,
            evidence=str(self._measured.path) if self._measured is not None else None,
            checks=self._checks,
        )

    def _add(
        self,
        name: CheckName,
        status: Status,
        reason: str,
        *,
        value: float | str | None = None,
        bound: float | None = None,
        threshold: float | str | None = None,
        baseline: float | None = None,
    ) -> None:
        """One more check; one that does not pass may be waived."""
        waiver = None
        harmless = status in ("passed", "noted")
        found = [one for one in self._pair.waivers if one.check == name] if not harmless else []
        valid = next((one for one in found if one.expires >= self._sources.today), None)
        if valid is not None:
            waiver = WaivedBy(reason=valid.reason, expires=valid.expires)
            reason, status = f"{reason}; waived until {valid.expires}: {valid.reason}", "waived"
        elif found:
            reason = f"{reason}; its waiver expired on {max(one.expires for one in found)}"
        self._checks.append(
            CheckResult(
                name=name,
                status=status,
                passed=harmless or status == "waived",
                value=value,
                bound=bound,
                threshold=threshold,
                baseline=baseline,
                reason=reason,
                waiver=waiver,
            )
        )

    # ------------------------------------------------------------------ evidence

    def _evidence(self, compares: bool) -> Measured | None:
        """The measurement of the pair; None where it needs none, or where none can be used."""
        pair, policy = self._pair, self._policy
        measured = [name for name in _CHECKS if name not in _OF_FACTS]
        needed = compares or any(getattr(policy, name) is not None for name in measured)
        if not needed and pair.evidence is None and not pair.probe:
            return None
        found: Measured | None = None
        try:
            found = find(pair, self._path, self._models, self._sources)
            if wrong := list(problems(found, pair, policy, self._models, self._sources.today)):
                # A waiver of one must not hide the others.
                raise Unusable(wrong[0].status, "; ".join(one.reason for one in wrong))
        except Unusable as problem:
            self._add("evidence", problem.status, problem.reason)
            # What is stale or doubtful is judged by all the same where that was waived.
            return found if self._checks[-1].passed else None
        record = found.record
        said = f"{record.num_prompts} prompts, {record.num_tokens:,} tokens, measured on {found.probe.created[:10]}"
        self._add("evidence", "passed", said, value=float(record.num_prompts))
        for note in notes(found, compares):
            self._add("evidence", "noted", note)
        return found

    def _assessed(self, measured: Measured | None) -> Assessment:
        """What is thought of the pair: by its models or, where they are not at hand, as its probe knew them."""
        pair, sources = self._pair, self._sources
        setting, catalog = sources.setting(pair), sources.catalog
        relation: Relation | None = None
        try:
            target = self._models.resolved(pair.target)
            (proposal,) = named([pair.draft], catalog, lambda name: self._models.resolved(name))
        except DraftpickError:
            if measured is None:
                raise
            probe, record = measured.probe, measured.record
            target = probe.profile(probe.target.id)
            proposal = Proposal("draft_model", "given", probe.profile(record.draft))
            relation = relation_of(probe, record.draft)
        known: dict[str, Evidence] = {}
        if measured is not None:
            found = from_probe(measured.probe, catalog, measured.record.temperature)[measured.record.draft]
            known[proposal.label] = found._replace(draft=proposal.label)
            if setting.engine is None and found.priced_here(setting, found.engine) is not None:
                setting = setting._replace(engine=catalog.engine(found.engine))
        predictor = Predictor(target, setting, catalog, known)
        return assess(target, proposal, setting, catalog, None, predictor, relation)

    # ------------------------------------------------------------------ facts

    def _facts(self, found: Assessment) -> None:
        self._findings(found)
        if self._policy.min_score is not None:
            self._figure("score", round(found.score, 1), self._policy.min_score)
        if self._policy.min_coverage is not None:
            self._figure("coverage", round(found.coverage, 3), self._policy.min_coverage)
        if self._policy.must_fit:
            self._memory(found)
        if self._policy.engine_verdict is not None:
            self._engine(found, self._policy.engine_verdict)

    def _findings(self, found: Assessment) -> None:
        policy = self._policy
        outcomes = ("reject",) if policy.fail_on == "reject" else ("reject", "warn")
        counted = [one for one in found.findings if one.rule not in policy.allow and one.ignored_because is None]
        against = [one for one in counted if one.outcome in outcomes]
        if not against:
            said = "no rule rejects it" if policy.fail_on == "reject" else "no rule rejects it or warns"
            self._add("findings", "passed", said, threshold=policy.fail_on)
            return
        names = ", ".join(sorted({one.rule for one in against}))
        worst = max(against, key=lambda one: (one.outcome == "reject", one.weight))
        self._add("findings", "failed", f"{names}: {worst.message}", value=names, threshold=policy.fail_on)

    def _figure(self, name: CheckName, value: float, least: float) -> None:
        status: Status = "passed" if value >= least else "failed"
        self._add(name, status, f"{name} {value:g}, at least {least:g} is asked for", value=value, threshold=least)

    def _memory(self, found: Assessment) -> None:
        setting, budget = found.pair.setting, found.budget
        if setting.device is None:
            self._add("memory", "missing", "the pair names no device whose memory it could fit")
            return
        where = f"{setting.tensor_parallel_size} × {setting.device.key}"
        if budget.fits is None:
            self._add("memory", "missing", f"whether it fits on {where} cannot be told: a size is not known")
            return
        need = budget.min_tensor_parallel_size
        enough = f": it takes {need}" if need is not None else ""
        said = f"it fits on {where}" if budget.fits else f"it does not fit on {where}{enough}"
        said += f" ({'; '.join(budget.notes)})" if budget.notes else ""
        self._add("memory", "passed" if budget.fits else "failed", said)

    def _engine(self, found: Assessment, least: str) -> None:
        asked = found.engines.asked
        if asked is None:
            self._add("engine", "missing", "the pair names no engine whose verdict counts", threshold=least)
            return
        fine = asked.verdict == "accepted" or (asked.verdict == "care" and least == "care")
        status: Status = "passed" if fine else "missing" if asked.verdict == "unknown" else "failed"
        reason = f": {asked.reasons[0]}" if asked.reasons else ""
        said = f"{asked.engine} {asked.version}: {asked.verdict}{reason}"
        self._add("engine", status, said, value=asked.verdict, threshold=least)

    # ------------------------------------------------------------------ rates

    def _rates(self, evidence: Evidence, found: Assessment) -> None:
        """Every threshold against the bound of its interval."""
        policy = self._policy
        if self._pair.engine is not None and found.verdict is not None:
            evidence = evidence.drafting_as(found.verdict.engine)  # otherwise as it was measured
        k = self._k(found)
        if policy.min_acceptance_rate is not None:
            self._at_least("acceptance_rate", evidence.rate, policy.min_acceptance_rate, "acceptance rate")
        least = policy.min_mean_acceptance_length
        if least is not None and k is not None and k < len(evidence.lengths):
            what = f"mean acceptance length at k = {k}"
            self._at_least("mean_acceptance_length", evidence.lengths[k], least, what)
        elif least is not None:
            said = f"no length at k = {k} was measured: up to {len(evidence.lengths) - 1} tokens were drafted"
            self._add("mean_acceptance_length", "missing", said, threshold=least)
        if policy.min_speedup is not None:
            self._speedup(found, k, policy.min_speedup)

    def _k(self, found: Assessment) -> int | None:
        """The k that is deployed, or the one that the evidence chooses."""
        if self._pair.num_spec_tokens is not None:
            return self._pair.num_spec_tokens
        row = found.prediction.plan.drafting if found.prediction is not None else None
        return row.k if row is not None else None

    def _gains(self, found: Assessment) -> Prediction | None:
        """What the pair gains, measured, or predicted for the place it names: nothing is judged by an assumed one."""
        said = found.prediction
        named = self._pair.engine is not None and self._pair.device is not None
        return said if said is not None and (said.evidence in MEASURED or named) else None

    def _unknown_gain(self, found: Assessment) -> str:
        if found.prediction is not None:
            return "its costs were not measured, and the pair names no engine and device to predict them for"
        return found.missing or "no engine takes the pair, or its costs are not known"

    def _speedup(self, found: Assessment, k: int | None, least: float) -> None:
        said = self._gains(found)
        row = next((one for one in said.plan.by_k if one.k == k), None) if said is not None else None
        if said is None or row is None:
            why = f"k = {k} was not measured" if said is not None else self._unknown_gain(found)
            self._add("speedup", "missing", f"no speed-up is known: {why}", threshold=least)
            return
        gain = Interval(row.speedup, row.low, row.high, said.plan.speedup.level)
        how = said.evidence if said.evidence in MEASURED else "with predicted costs"
        where = f"{said.place.engine.key} on {said.place.devices} × {said.place.device.key}"
        self._at_least("speedup", gain, least, f"speed-up at k = {k} in {where}, {how},")

    def _at_least(self, name: CheckName, found: Interval, least: float, what: str) -> None:
        fine = found.low >= least
        interval = f"{found.value:.3f} ({found.level:.0%} interval {found.low:.3f} to {found.high:.3f})"
        said = f"{what} {interval.replace('%', ' %')}: its lower bound is {'at least' if fine else 'below'} {least:g}"
        status: Status = "passed" if fine else "failed"
        self._add(name, status, said, value=found.value, bound=found.low, threshold=least)

    # ------------------------------------------------------------------ the baseline

    def _against(self, old: BaselineRow | None, row: BaselineRow) -> None:
        """Acceptance then and now: worse only where the interval of the difference says so."""
        if old is None:
            self._add("baseline", "missing", "the pair has no baseline yet: draftpick gate --update-baseline takes one")
            return
        before, now = old.acceptance_rate.value, row.acceptance_rate.value
        different = taken_otherwise(old, row)
        if different:
            said = f"the baseline was taken otherwise ({different}): draftpick gate --update-baseline takes a new one"
            self._add("baseline", "stale", said, baseline=before)
            return
        from draftpick.intervals import got_worse

        tolerance = self._policy.tolerance if self._policy.tolerance is not None else GATE["tolerance"]
        difference, how = difference_of(row, old)
        worse = got_worse(difference, tolerance)
        change = f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f}, {how})"
        said = (
            f"acceptance rate {now:.3f}, baseline {before:.3f}: {change}, "
            + {
                True: f"worse by more than {tolerance:g}",
                False: "not worse",
                None: "no significant change",
            }[worse]
        )
        status: Status = "failed" if worse else "passed"
        self._add("baseline", status, said, value=now, bound=difference.high, threshold=-tolerance, baseline=before)

    def _drift(self, expected: int | None, found: Assessment) -> None:
        """Whether the best k moved away from the one that is deployed, where that costs speed."""
        most, gains = self._policy.max_k_drift, self._gains(found)
        if most is None or (expected is None and self._anew):
            return
        if expected is None:
            said = "neither the pair nor its baseline names a num_spec_tokens to compare with"
            self._add("num_spec_tokens", "missing", said, threshold=float(most))
            return
        there = next((row for row in gains.plan.by_k if row.k == expected), None) if gains is not None else None
        if gains is None or there is None:
            why = f"k = {expected} was not measured" if gains is not None else self._unknown_gain(found)
            self._add("num_spec_tokens", "missing", f"the best k cannot be compared: {why}", threshold=float(most))
            return
        best = max(gains.plan.by_k, key=lambda row: row.speedup)
        kept = there.speedup / best.speedup
        fine = abs(best.k - expected) <= most or kept >= 1 - MARGIN
        share = f"{100 * kept:.0f} % of its speed"
        self._add(
            "num_spec_tokens",
            "passed" if fine else "failed",
            f"the best k is {best.k}, {expected} was expected: that gives {share}",
            value=float(best.k),
            threshold=float(most),
            baseline=float(expected),
        )


_CHECKS: Mapping[str, CheckName] = {
    "min_score": "score",
    "min_coverage": "coverage",
    "must_fit": "memory",
    "engine_verdict": "engine",
    "max_age_days": "evidence",
    "min_prompts": "evidence",
    "min_acceptance_rate": "acceptance_rate",
    "min_mean_acceptance_length": "mean_acceptance_length",
    "min_speedup": "speedup",
    "max_k_drift": "num_spec_tokens",
}
"""Threshold → the check that holds it."""
_OF_FACTS = ("min_score", "min_coverage", "must_fit", "engine_verdict")
"""Those that need no evidence."""
