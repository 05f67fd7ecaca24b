"""From a target and a setting to one answer: the decision in a sentence, the ranked candidates, and those left out."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from draftpick.assess import Assessment, assess, rank
from draftpick.candidates import Candidates, Resolve, draft_free, given_model, named, search
from draftpick.catalog import Catalog
from draftpick.choices import RuleChoices
from draftpick.decision import Decision, decide, why_not
from draftpick.evidence import Evidence, PolicyRow, relation_of
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Setting
from draftpick.predict import NO_EVIDENCE, Predictor

if TYPE_CHECKING:
    from draftpick.probe_file import ProbeFile

PAYS_WHERE = {
    "ngram": "Needs no draft: copies what followed the same tokens in the prompt, so it pays where answers repeat it.",
    "suffix": "Needs no draft: a suffix tree of earlier answers, so it pays where answers repeat each other.",
}


class Advice(NamedTuple):
    """Everything an answer contains."""

    command: str
    target: ModelProfile
    setting: Setting
    decision: Decision
    assessments: Sequence[Assessment]
    catalog_date: str
    left_out: Mapping[str, int] = MappingProxyType({})
    """Catalogued models that were not judged one by one: how many, by reason."""
    policies: Sequence[PolicyRow] = ()
    """Adaptive lengths replayed for the first draft."""

    @property
    def viable(self) -> list[Assessment]:
        """Drafts that fit; what needs no draft does not count."""
        return [found for found in self.assessments if found.viable and found.proposal.method not in DRAFT_FREE]

    @property
    def draft_free(self) -> list[Assessment]:
        return [found for found in self.assessments if found.proposal.method in DRAFT_FREE]

    @property
    def rejected(self) -> list[Assessment]:
        return [found for found in self.assessments if not found.viable and found.proposal.method not in DRAFT_FREE]

    @property
    def exit_code(self) -> int:
        """0: something viable; 1: judged, and the answer is no."""
        return 0 if self.viable and self.decision.action != "do_not_speculate" else 1


def recommend(
    target: ModelProfile,
    setting: Setting,
    catalog: Catalog,
    resolve: Resolve,
    drafts: Sequence[str] = (),
    extra: Sequence[ModelProfile] = (),
    choices: RuleChoices | None = None,
    everything: bool = False,
    evidence: Mapping[str, Evidence] = NO_EVIDENCE,
) -> Advice:
    """Rank the drafts for a target: those named, or else all that are known.

    `extra` models come from local caches or the hub; `evidence` is what was measured, by draft.
    Raises what `resolve` raises for a named draft.
    """
    if drafts:
        found = Candidates(list(named(drafts, catalog, resolve)), {})
    else:
        found = search(target, catalog, everything, extra)
    proposals = [*found.proposals, *draft_free()]
    predictor = Predictor(target, setting, catalog, evidence)
    ranked = rank(assess(target, proposal, setting, catalog, choices, predictor) for proposal in proposals)
    return _advice("recommend", target, setting, catalog, ranked, found.left_out)


def check(
    target: ModelProfile,
    draft: str,
    setting: Setting,
    catalog: Catalog,
    resolve: Resolve,
    choices: RuleChoices | None = None,
) -> Advice:
    """Judge one pair."""
    (proposal,) = named([draft], catalog, resolve)
    found = assess(target, proposal, setting, catalog, choices, Predictor(target, setting, catalog))
    return _advice("check", target, setting, catalog, [found], {})


def from_probe(
    probe: "ProbeFile",
    evidence: Mapping[str, Evidence],
    setting: Setting,
    catalog: Catalog,
    choices: RuleChoices | None = None,
) -> Advice:
    """Decide again from a saved probe, for another place or load, without its models and without its device."""
    target = probe.profile(probe.target.id)
    predictor = Predictor(target, setting, catalog, evidence)
    found = [
        assess(target, given_model(probe.profile(name)), setting, catalog, choices, predictor, relation_of(probe, name))
        for name in evidence
        if name not in DRAFT_FREE
    ]
    found += [
        assess(target, proposal, setting, catalog, choices, predictor)
        for proposal in draft_free()
        if proposal.method in evidence
    ]
    return _advice("plan", target, setting, catalog, rank(found), {})


def _advice(
    command: str,
    target: ModelProfile,
    setting: Setting,
    catalog: Catalog,
    ranked: Sequence[Assessment],
    left_out: Mapping[str, int],
) -> Advice:
    return Advice(
        command=command,
        target=target,
        setting=setting,
        decision=decide(command, target, ranked),
        assessments=ranked,
        catalog_date=catalog.date,
        left_out=left_out,
    )


def _crowding(found: Assessment) -> str:
    """That a pair takes more memory than the others, or than there is where they stand; else empty."""
    if not found.misfits or found.prediction is None:
        return ""
    place = found.prediction.place
    if place.crowded:
        return f"It takes {place.devices} × {place.device.key}, more than other drafts do."
    return f"It does not fit on {place.devices} × {place.device.key}." if found.budget_in_place.fits is False else ""


def why(found: Assessment) -> str:
    """The reason that matters most: against a rejected pair; for a viable one its weightiest caution, else praise."""
    against = why_not(found)
    if against:
        return against
    if found.proposal.method in PAYS_WHERE:
        return PAYS_WHERE[found.proposal.method]
    if crowding := _crowding(found):
        return crowding
    cautions = [finding for finding in found.findings if finding.outcome == "warn" and finding.ignored_because is None]
    if cautions:
        return max(cautions, key=lambda finding: finding.weight * (1 - finding.score)).message
    asked = found.verdict
    if asked is not None and asked.verdict == "care" and asked.reasons:
        return asked.reasons[0]
    praise = [finding for finding in found.findings if finding.outcome == "ok"]
    return max(praise, key=lambda finding: finding.weight).message if praise else ""
