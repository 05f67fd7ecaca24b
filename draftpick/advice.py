"""From a target and a setting to one answer: the decision in a sentence, the ranked candidates, and those left out."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from draftpick.assess import Assessment, assess, rank
from draftpick.candidates import Candidates, Resolve, draft_free, named, search
from draftpick.catalog import Catalog
from draftpick.choices import LIMITS, RuleChoices
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Setting

PAYS_WHERE = {
    "ngram": "Needs no draft: copies what followed the same tokens in the prompt, so it pays where answers repeat it.",
    "suffix": "Needs no draft: a suffix tree of earlier answers, so it pays where answers repeat each other.",
}
KINDS = {"draft_model": "draft model", "pard": "draft model that drafts in parallel (PARD)"}
FACTS_ONLY = "judged by facts alone: nothing was measured and no speed-up is predicted"


class Decision(NamedTuple):
    """The answer in one sentence, and in fields."""

    action: str
    """speculate, do_not_speculate or undecided."""
    sentence: str
    method: str | None = None
    draft: str | None = None
    num_spec_tokens: int | None = None
    evidence: str = "rule"


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
) -> Advice:
    """Rank the drafts for a target: those named, or else all that are known.

    `extra` models come from local caches or the hub. Raises what `resolve` raises for a named draft.
    """
    if drafts:
        found = Candidates(list(named(drafts, catalog, resolve)), {})
    else:
        found = search(target, catalog, everything, extra)
    proposals = [*found.proposals, *draft_free()]
    ranked = rank(assess(target, proposal, setting, catalog, choices) for proposal in proposals)
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
    return _advice("check", target, setting, catalog, [assess(target, proposal, setting, catalog, choices)], {})


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


def decide(command: str, target: ModelProfile, ranked: Sequence[Assessment]) -> Decision:
    """The decision on facts alone; the best viable draft, whatever it may gain."""
    best = next((found for found in ranked if found.viable and found.proposal.method not in DRAFT_FREE), None)
    if best is not None:
        return _speculate(target, best)
    if command == "check":
        return Decision(
            "do_not_speculate", f"Do not put {ranked[0].proposal.label} in front of {target.id}: {why_not(ranked[0])}"
        )
    named_drafts = [found for found in ranked if found.proposal.method not in DRAFT_FREE]
    lead = (
        f"None of the {len(named_drafts)} drafts looked at fits {target.id}"
        if named_drafts
        else f"No draft is known for {target.id}"
    )
    place = f" in {ranked[0].pair.setting.engine.key}" if ranked and ranked[0].pair.setting.engine else ""
    free = [found.proposal.label for found in ranked if found.proposal.method in DRAFT_FREE and found.viable]
    rest = (
        f"what needs no draft is left: {' or '.join(free)}; "
        "beyond that, a head could be trained for it, or a small model given its vocabulary and trained on its answers"
        if free
        else "and no draft-free method is known to run there"
    )
    return Decision("undecided", f"{lead}{place}; {rest} ({FACTS_ONLY}).")


def _speculate(target: ModelProfile, best: Assessment) -> Decision:
    proposal = best.proposal
    found = best.verdict
    place = f" in {found.engine}" + (" (with care)" if found.verdict == "care" else "") if found else ""
    if best.ids_unknown:
        why = best.relation.reason if best.relation is not None else "one tokenizer is not known"
        sentence = (
            f"Nothing is known against {proposal.label} in front of {target.id}{place}, but nothing says either that "
            f"their token ids agree ({why}): compare the two tokenizers first ({FACTS_ONLY})."
        )
        return Decision("undecided", sentence, method=proposal.method, draft=proposal.id)
    large = _too_large(best)
    if large:
        sentence = (
            f"Of what fits {target.id}{place}, {proposal.label} comes first, yet it may not be worth it: {large} "
            f"Measure before you speculate ({FACTS_ONLY})."
        )
        return Decision("undecided", sentence, method=proposal.method, draft=proposal.id)
    k = num_spec_tokens(best)
    start = f" with num_spec_tokens = {k}" if k else ""
    if proposal.origin == "target":
        sentence = (
            f"Use the MTP head that {target.id} carries itself{place}{start}: "
            f"a separate draft model is not what to look for here ({FACTS_ONLY})."
        )
    else:
        kind = KINDS.get(proposal.method, f"{proposal.method} head")
        whose = f", made for {proposal.via}," if proposal.via else ""
        sentence = f"Put {proposal.label}{whose} in front of {target.id} as {kind}{place}{start} ({FACTS_ONLY})."
    decided = Decision("speculate", sentence, method=proposal.method, draft=proposal.id, num_spec_tokens=k)
    return decided._replace(sentence=sentence + _misfit(best))


def _too_large(best: Assessment) -> str:
    """The finding that even the best draft is nearly as large as its target, or an empty string."""
    for finding in best.findings:
        small = finding.evidence.get("ratio", LIMITS["size-ratio.low"]) < LIMITS["size-ratio.low"]
        if finding.rule == "size-ratio" and finding.outcome == "warn" and small and finding.ignored_because is None:
            return finding.message[:1].lower() + finding.message[1:]
    return ""


def _misfit(best: Assessment) -> str:
    """What the sentence must not hide: the pair does not fit the memory that was named, or that of the device."""
    setting = best.pair.setting
    if best.budget.fits is not False:
        return ""
    need = best.budget.min_tensor_parallel_size
    enough = f": it takes {need} of them" if need is not None and need > setting.tensor_parallel_size else ""
    key = setting.device.key if setting.device is not None else "device"
    return f" It does not fit on {setting.tensor_parallel_size} × {key}{enough}."


def num_spec_tokens(found: Assessment) -> int | None:
    """The number of speculative tokens that is a fact of the method; None where only a prediction could tell."""
    asked = found.pair.setting.num_spec_tokens
    if asked is not None:
        return asked
    if found.proposal.origin == "target":
        return found.pair.target.num_nextn_predict_layers
    return found.proposal.head.num_spec_tokens if found.proposal.head is not None else None


def why_not(found: Assessment) -> str:
    """The most important reason against a pair, or an empty string."""
    if found.rejections:
        return max(found.rejections, key=lambda finding: finding.weight).message
    asked = found.engines.asked
    if asked is not None and asked.verdict not in ("accepted", "care"):
        reason = asked.reasons[0] if asked.reasons else "no reason is recorded"
        return f"{asked.engine} {asked.version}: {asked.verdict}: {reason}"
    if found.engines.taken_by is None:
        return "no engine that draftpick knows takes it"
    return ""


def why(found: Assessment) -> str:
    """The reason that matters most: against a rejected pair; for a viable one its weightiest caution, else praise."""
    against = why_not(found)
    if against:
        return against
    if found.proposal.method in PAYS_WHERE:
        return PAYS_WHERE[found.proposal.method]
    cautions = [finding for finding in found.findings if finding.outcome == "warn" and finding.ignored_because is None]
    if cautions:
        return max(cautions, key=lambda finding: finding.weight * (1 - finding.score)).message
    asked = found.verdict
    if asked is not None and asked.verdict == "care" and asked.reasons:
        return asked.reasons[0]
    praise = [finding for finding in found.findings if finding.outcome == "ok"]
    return max(praise, key=lambda finding: finding.weight).message if praise else ""
