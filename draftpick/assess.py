"""The one place where everything about a pair meets: tokenizer relation, rules, engines, what it is predicted to gain;
and the order of answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from draftpick.catalog import Catalog, Record
from draftpick.choices import (
    APPLE_PREFERENCE,
    ASCEND_PREFERENCE,
    CPU_PREFERENCE,
    ENGINE_PREFERENCE,
    LIMITS,
    USUAL_ENGINES,
    RuleChoices,
)
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Fingerprint, Relation, compare, rows_apart
from draftpick.pair import DRAFT_FREE, NOTHING, Device, Engine, Pair, Proposal, Setting
from draftpick.rules import Finding, judge
from draftpick.rules.engine import Verdict, needed_option, verdict
from draftpick.rules.figures import kept_share
from draftpick.rules.known_issues import KnownIssue, matching

if TYPE_CHECKING:
    from draftpick.evidence import Evidence
    from draftpick.memory import Budget
    from draftpick.predict import Prediction, Predictor

TAKEN = ("accepted", "care")


class Assessment:
    """What draftpick thinks of one pair."""

    def __init__(
        self,
        pair: Pair,
        findings: Sequence[Finding],
        score: float,
        coverage: float,
        engines: Engines,
        predictor: Predictor | None = None,
    ) -> None:
        self._predictor = predictor
        self.pair = pair
        self.findings = findings
        self.score = score
        """0 … 100: how well the facts fit."""
        self.coverage = coverage
        """0 … 1: how much of what matters could be judged, and on facts that are sure."""
        self.engines = engines

    def led_by(self, engine: str) -> Assessment:
        """The same pair, judged in the engine of that key where it takes it and the user named none."""
        engines = self.engines.led_by(engine)
        return Assessment(self.pair, self.findings, self.score, self.coverage, engines, self._predictor)

    @cached_property
    def budget(self) -> Budget:
        """What the pair takes of each device's memory, and whether it fits the device that was named, if one was."""
        return self._budget(self.pair)

    @cached_property
    def budget_in_place(self) -> Budget:
        """The same on as many devices as the prediction holds for."""
        devices = self.num_devices
        if devices == self.pair.setting.tensor_parallel_size:
            return self.budget
        return self._budget(self.pair._replace(setting=self.pair.setting._replace(tensor_parallel_size=devices)))

    def devices_with(self, quantization: str) -> int | None:
        """The fewest devices that hold the target alone with its weights stored so; None where nobody can tell."""
        setting = self.pair.setting._replace(quantization=quantization, tensor_parallel_size=1)
        held = self._budget(self.pair._replace(setting=setting, proposal=NOTHING))
        return 1 if held.fits else held.min_tensor_parallel_size

    @property
    def num_devices(self) -> int:
        """As many as the prediction holds for, else those asked for."""
        said = self.prediction
        return said.place.devices if said is not None else self.pair.setting.tensor_parallel_size

    def _budget(self, pair: Pair) -> Budget:
        from draftpick.memory import budget

        setting = pair.setting
        return budget(
            pair,
            memory=setting.memory,
            kv_cache_dtype=setting.kv_cache_dtype,
            gpu_memory_utilization=setting.gpu_memory_utilization,
        )

    @cached_property
    def prediction(self) -> Prediction | None:
        """What the pair is predicted to gain in the engine that takes it; None where none does, or nobody can tell."""
        taken = self.verdict
        if self._predictor is None or not self.viable or taken is None:
            return None
        return self._predictor.predict(self.pair, taken.engine)

    @property
    def measured(self) -> Evidence | None:
        """What a probe measured of it, whatever the engines say."""
        return self._predictor.evidence_of(self.pair) if self._predictor is not None else None

    @cached_property
    def bounds(self) -> tuple[float, float] | None:
        """Between what the speed-up must lie where it could not be predicted; None: nothing is known of it."""
        taken = self.verdict
        if self._predictor is None or not self.viable or taken is None or self.prediction is not None:
            return None
        return self._predictor.bounds(self.pair, taken.engine)

    @property
    def missing(self) -> str:
        """Why the speed-up of a viable pair could not be predicted; empty where it could."""
        taken = self.verdict
        if self._predictor is None or taken is None or self.prediction is not None:
            return ""
        return self._predictor.missing(self.pair, taken.engine)

    @cached_property
    def schedule(self) -> tuple[tuple[int, int, int], ...]:
        """(from, to, num_spec_tokens) by sequences at once; empty without a prediction or a number of sequences."""
        if self._predictor is None or self.prediction is None:
            return ()
        return self._predictor.schedule(self.prediction)

    @property
    def misfits(self) -> bool:
        """Whether it fits the facts and not the memory: that of the device named, or where other drafts fit."""
        setting = self.pair.setting
        named = setting.device is not None or setting.memory is not None
        if named and self.viable and self.budget.fits is False:
            return True
        return self.prediction is not None and self.prediction.place.crowded

    @cached_property
    def heavy(self) -> bool:
        """Whether the draft keeps so much of its target's weights in memory that others come before it."""
        share = kept_share(self.pair)
        return share is not None and share > LIMITS["swapped-roles.most-kept"]

    @property
    def expected_speedup(self) -> float:
        """The predicted speed-up of drafting; 1 where nobody can tell: neither a gain nor a loss."""
        row = self.prediction.plan.drafting if self.prediction is not None else None
        return row.speedup if row is not None else 1.0

    @property
    def proposal(self) -> Proposal:
        return self.pair.proposal

    @property
    def relation(self) -> Relation | None:
        return self.pair.relation

    @cached_property
    def rejections(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.outcome == "reject" and finding.ignored_because is None]

    @cached_property
    def viable(self) -> bool:
        """No rule rejects, and the engine asked for (or at least one) takes the pair."""
        return not self.rejections and self.engines.taken_by is not None

    @property
    def known_issues(self) -> tuple[KnownIssue, ...]:
        """What others met with such a pair in the engine that takes it; empty where it does not fit."""
        return self.engines.known_issues if self.viable else ()

    @property
    def needed_option(self) -> str | None:
        """The option without which the engine that takes the pair refuses it as shipped; None where it needs none."""
        return self.engines.needed_option if self.viable else None

    @property
    def ids_unknown(self) -> bool:
        """Whether a draft with a vocabulary of its own was never compared with the target's."""
        return self.pair.draft is not None and (self.relation is None or self.relation.kind == "unknown")

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the engine asked for, or of the best one."""
        return self.engines.asked or self.engines.taken_by


class Engines:
    """The verdicts of the engines on one pair, each computed when somebody looks."""

    def __init__(
        self,
        pair: Pair,
        engines: Sequence[Engine],
        leading: str | None = None,
        issues_of: Callable[[str], Sequence[Record]] = lambda engine: (),
    ) -> None:
        self._pair = pair
        self.known = engines
        self._leading = leading
        self._issues_of = issues_of
        self._found: dict[str, Verdict] = {}

    def led_by(self, key: str) -> Engines:
        """The same verdicts, where the engine of that key is named before all others that take the pair."""
        led = Engines(self._pair, self.known, key, self._issues_of)
        led._found = self._found
        return led

    @cached_property
    def all(self) -> dict[str, Verdict]:
        """Verdicts by engine key; the asked engine is judged in the version asked for."""
        return {engine.key: self._verdict(engine) for engine in self.known}

    @cached_property
    def asked(self) -> Verdict | None:
        engine = self._pair.setting.engine
        return self._verdict(engine) if engine is not None else None

    @cached_property
    def taken_by(self) -> Verdict | None:
        """The asked engine if it takes the pair; without one, the first usual one that accepts, else takes with care,
        else one of the others.
        """
        if self._pair.setting.engine is not None:
            return self.asked if self.asked is not None and self.asked.verdict in TAKEN else None
        leading = [engine for engine in self.known if engine.key == self._leading]
        usual, others = preferred(self.known, self._pair.setting.device)
        return self._first_of(leading) or self._first_of(usual) or self._first_of(others)

    @cached_property
    def known_issues(self) -> tuple[KnownIssue, ...]:
        """What others met with such a pair in the engine that takes it; empty where none does."""
        taken = self.taken_by
        engine = next((one for one in self.known if taken is not None and one.key == taken.engine), None)
        if engine is None:
            return ()
        return matching(self._issues_of(engine.key), self._pair, self._in_version(engine))

    @cached_property
    def needed_option(self) -> str | None:
        """The option without which the engine that takes the pair refuses it as shipped; None where none does."""
        taken = self.asked or self.taken_by
        engine = next((one for one in self.known if taken is not None and one.key == taken.engine), None)
        return needed_option(self._pair, self._in_version(engine)) if engine is not None else None

    def _in_version(self, engine: Engine) -> Engine:
        asked = self._pair.setting.engine
        return asked if asked is not None and asked.key == engine.key else engine

    def _verdict(self, engine: Engine) -> Verdict:
        found = self._found.get(engine.key)
        if found is None:
            found = self._found[engine.key] = verdict(self._pair, self._pair.relation, self._in_version(engine))
        return found

    def _first_of(self, engines: Iterable[Engine]) -> Verdict | None:
        careful = None
        for engine in engines:
            found = self._verdict(engine)
            if found.verdict == "accepted":
                return found
            if found.verdict == "care" and careful is None:
                careful = found
        return careful


def preferred(engines: Iterable[Engine], device: Device | None) -> tuple[list[Engine], list[Engine]]:
    """Engines in the order in which one is named where the user named none: the device's usual ones, and the others."""
    vendor = device.vendor if device is not None else None
    first = {"huawei": ASCEND_PREFERENCE, "apple": APPLE_PREFERENCE, "generic": CPU_PREFERENCE}.get(vendor or "", ())
    order = (*first, *ENGINE_PREFERENCE)
    ranked = sorted(
        engines, key=lambda engine: (order.index(engine.key) if engine.key in order else len(order), engine.key)
    )
    usual = first or USUAL_ENGINES
    return [engine for engine in ranked if engine.key in usual], [
        engine for engine in ranked if engine.key not in usual
    ]


def assess(
    target: ModelProfile,
    proposal: Proposal,
    setting: Setting,
    catalog: Catalog,
    choices: RuleChoices | None = None,
    predictor: Predictor | None = None,
    relation: Relation | None = None,
) -> Assessment:
    """Judge one pair by facts, and by what `predictor` says it gains.

    `relation` is how the tokenizers relate, where somebody compared them when their files were there.
    """
    relation = relation or relate(target, proposal, catalog)
    pair = Pair(target=target, proposal=proposal, setting=setting, relation=relation)
    findings, score, coverage = judge(pair, choices)
    engines = Engines(pair, catalog.all_engines, issues_of=catalog.issues_of)
    return Assessment(pair, findings, score, coverage, engines, predictor)


def relate(target: ModelProfile, proposal: Proposal, catalog: Catalog) -> Relation | None:
    """How the tokenizers relate; None where the proposal has none of its own, or one is not known."""
    draft = proposal.draft
    if draft is None:
        return None
    ours, theirs = target.tokenizer, draft.tokenizer
    if ours is None or theirs is None:
        return rows_apart(target.vocab_size, draft.vocab_size)
    if ours.tokens is not None or theirs.tokens is not None or catalog.compares_here(ours, theirs):
        ours, theirs = (side if side.tokens is not None else catalog.full_tokenizer(side) for side in (ours, theirs))
    known = catalog.measured_relation(ours, theirs)
    found = compare(ours, theirs, target.vocab_size, draft.vocab_size, known=known)
    return _through_kin(ours, theirs, catalog) or found if found.kind == "unknown" else found


def _through_kin(ours: Fingerprint, theirs: Fingerprint, catalog: Catalog) -> Relation | None:
    """What a tokenizer without fingerprint shows through one said to have its ids of text, where these differ."""
    for mine in _stand_ins(ours, catalog):
        for other in _stand_ins(theirs, catalog):
            shown = compare(mine, other, None, None, known=catalog.measured_relation(mine, other))
            if shown.kind == "different":
                names = " and ".join(
                    f"{kin.key}, whose ids of text {side.key} is said to have"
                    for side, kin in ((ours, mine), (theirs, other))
                    if side is not kin
                )
                return shown._replace(verified=False, reason=f"{shown.reason} (by {names})")
    return None


def _stand_ins(side: Fingerprint, catalog: Catalog) -> list[Fingerprint]:
    """The tokenizer itself where it was read, else those read that are said to have its ids of text."""
    if side.core is not None:
        return [side]
    kin = (catalog.tokenizer(said["key"]) for said in side.same_text_as)
    return [found for found in kin if found is not None and found.core is not None]


def rank(assessments: Iterable[Assessment]) -> list[Assessment]:
    """By predicted speed-up, among those that can be compared: viable ones in one engine come first, then those that
    only another engine takes, then those whose token ids nobody compared, then what needs no draft, then the rejected.
    Where predictions are equal, or there are none, the facts decide.

    Of a target whose tokenizer was not read, what is known to have another one comes no sooner than what may have it.
    """
    found = list(assessments)
    leading = _leading_engine(found)
    if leading is not None:
        found = [one.led_by(leading) for one in found]
    return sorted(found, key=lambda one: _order(one, leading))


def _leading_engine(assessments: Iterable[Assessment]) -> str | None:
    """The first engine, in the order in which people name them, that takes a draft; None where the user named one.

    Speed-ups are over the engine's own plain decoding, so they compare within one engine only.
    """
    drafts = [one for one in assessments if one.viable and one.proposal.method not in DRAFT_FREE]
    taking = {one.verdict.engine for one in drafts if one.verdict is not None and not one.ids_unknown}
    if not taking or drafts[0].pair.setting.engine is not None:
        return None
    usual, others = preferred(drafts[0].engines.known, drafts[0].pair.setting.device)
    return next((engine.key for engine in (*usual, *others) if engine.key in taking), None)


def _order(assessment: Assessment, leading: str | None) -> tuple[object, ...]:
    proposal, taken = assessment.proposal, assessment.verdict
    if proposal.method in DRAFT_FREE:
        tier = 3
    elif not assessment.viable:
        tier = 4
    elif assessment.ids_unknown or (assessment.pair.target.tokenizer is None and assessment.missing):
        tier = 2
    else:
        tier = 0 if leading is None or (taken is not None and taken.engine == leading) else 1
    size = proposal.draft.params_read if proposal.draft is not None else None
    return (
        tier,
        assessment.misfits,
        assessment.heavy,
        not assessment.viable,
        -round(assessment.expected_speedup, 2),
        proposal.origin != "target",
        -round(assessment.score),
        -round(assessment.coverage, 2),
        size or 0,
        proposal.label.lower(),
    )
