"""The one place where everything about a pair meets: tokenizer relation, rules, engines; and the order of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from draftpick.catalog import Catalog
from draftpick.choices import APPLE_PREFERENCE, ASCEND_PREFERENCE, ENGINE_PREFERENCE, USUAL_ENGINES, RuleChoices
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Fingerprint, Relation, compare, rows_apart
from draftpick.pair import DRAFT_FREE, Device, Engine, Pair, Proposal, Setting
from draftpick.rules import Finding, judge
from draftpick.rules.engine import Verdict, verdict

if TYPE_CHECKING:
    from draftpick.memory import Budget

TAKEN = ("accepted", "care")


class Assessment:
    """What draftpick thinks of one pair."""

    def __init__(
        self, pair: Pair, findings: Sequence[Finding], score: float, coverage: float, engines: Engines
    ) -> None:
        self.pair = pair
        self.findings = findings
        self.score = score
        """0 … 100: how well the facts fit."""
        self.coverage = coverage
        """0 … 1: how much of what matters could be judged, and on facts that are sure."""
        self.engines = engines

    @cached_property
    def budget(self) -> Budget:
        """What the pair takes of each device's memory, and whether it fits the device that was named, if one was."""
        from draftpick.memory import budget

        setting = self.pair.setting
        return budget(
            self.pair,
            memory=setting.memory,
            kv_cache_dtype=setting.kv_cache_dtype,
            gpu_memory_utilization=setting.gpu_memory_utilization,
        )

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
    def ids_unknown(self) -> bool:
        """Whether a draft with a vocabulary of its own was never compared with the target's."""
        return self.pair.draft is not None and (self.relation is None or self.relation.kind == "unknown")

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the engine asked for, or of the best one."""
        return self.engines.asked or self.engines.taken_by


class Engines:
    """The verdicts of the engines on one pair, each computed when somebody looks."""

    def __init__(self, pair: Pair, engines: Sequence[Engine]) -> None:
        self._pair = pair
        self._engines = engines

    @cached_property
    def all(self) -> dict[str, Verdict]:
        """Verdicts by engine key; the asked engine is judged in the version asked for."""
        asked = self._pair.setting.engine
        chosen = [asked if asked is not None and asked.key == engine.key else engine for engine in self._engines]
        return {engine.key: verdict(self._pair, self._pair.relation, engine) for engine in chosen}

    @cached_property
    def asked(self) -> Verdict | None:
        engine = self._pair.setting.engine
        return verdict(self._pair, self._pair.relation, engine) if engine is not None else None

    @cached_property
    def taken_by(self) -> Verdict | None:
        """The asked engine if it takes the pair; without one, the first usual one that accepts, else takes with care,
        else one of the others.
        """
        if self._pair.setting.engine is not None:
            return self.asked if self.asked is not None and self.asked.verdict in TAKEN else None
        usual, others = preferred(self._engines, self._pair.setting.device)
        return self._first_of(usual) or self._first_of(others)

    def _first_of(self, engines: Iterable[Engine]) -> Verdict | None:
        careful = None
        for engine in engines:
            found = verdict(self._pair, self._pair.relation, engine)
            if found.verdict == "accepted":
                return found
            if found.verdict == "care" and careful is None:
                careful = found
        return careful


def preferred(engines: Iterable[Engine], device: Device | None) -> tuple[list[Engine], list[Engine]]:
    """Engines in the order in which one is named where the user named none: the device's usual ones, and the others."""
    vendor = device.vendor if device is not None else None
    first = {"huawei": ASCEND_PREFERENCE, "apple": APPLE_PREFERENCE}.get(vendor or "", ())
    order = (*first, *ENGINE_PREFERENCE)
    ranked = sorted(
        engines, key=lambda engine: (order.index(engine.key) if engine.key in order else len(order), engine.key)
    )
    usual = first or USUAL_ENGINES
    return [engine for engine in ranked if engine.key in usual], [
        engine for engine in ranked if engine.key not in usual
    ]


def assess(
    target: ModelProfile, proposal: Proposal, setting: Setting, catalog: Catalog, choices: RuleChoices | None = None
) -> Assessment:
    """Judge one pair by facts."""
    pair = Pair(target=target, proposal=proposal, setting=setting, relation=relate(target, proposal, catalog))
    findings, score, coverage = judge(pair, choices)
    return Assessment(pair, findings, score, coverage, Engines(pair, catalog.all_engines))


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
    """Viable ones first: those whose token ids were never compared last of them; then what needs no draft, then the
    rejected ones. Within these the facts decide.
    """
    return sorted(assessments, key=_order)


def _is_own_head(assessment: Assessment) -> bool:
    """Whether it is a head trained for exactly this target, in an engine that simply accepts it."""
    taken = assessment.verdict
    if assessment.proposal.head is None or taken is None or taken.verdict != "accepted":
        return False
    return any(finding.rule == "head-target" and finding.outcome == "ok" for finding in assessment.findings)


def _order(assessment: Assessment) -> tuple[object, ...]:
    proposal = assessment.proposal
    if proposal.method in DRAFT_FREE:
        tier = 4
    elif not assessment.viable:
        tier = 5
    elif proposal.origin == "target":
        # The target's own head was trained with it and costs one layer: nothing separate beats it on facts alone.
        tier = 0
    elif assessment.ids_unknown:
        tier = 3
    else:
        # A head reads the target's hidden states: what was trained on this very target comes before separate models.
        tier = 1 if _is_own_head(assessment) else 2
    size = proposal.draft.params_read if proposal.draft is not None else None
    return (
        tier,
        not assessment.viable,
        -round(assessment.score),
        -round(assessment.coverage, 2),
        size or 0,
        proposal.label.lower(),
    )
