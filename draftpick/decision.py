"""The decision about a target, in fields and in one sentence that says what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from draftpick.assess import Assessment
from draftpick.choices import FEWER_BITS, LIMITS, MEMORY
from draftpick.cost import untested
from draftpick.models.profile import ModelProfile
from draftpick.pair import BEHIND, DRAFT_FREE, GIVEN, MEASURED, Setting
from draftpick.place import Place
from draftpick.predict import Prediction
from draftpick.rules.figures import kept_share
from draftpick.speedup import MARGIN, Interval, KRow, mostly_of_timings
from draftpick.speedup import decide as decide_by

KINDS = {"draft_model": "draft model", "pard": "draft model that drafts in parallel (PARD)"}
FACTS_ONLY = "judged by facts alone: nothing was measured and no speed-up could be predicted"
PREDICTED = "predicted, nothing was measured"


class Decision(NamedTuple):
    """The answer in one sentence, and in fields."""

    action: str
    """speculate, do_not_speculate or undecided."""
    sentence: str
    method: str | None = None
    draft: str | None = None
    num_spec_tokens: int | None = None
    evidence: str = "rule"
    speedup: Interval | None = None
    """Of the draft that the decision is about."""


def decide(command: str, target: ModelProfile, ranked: Sequence[Assessment]) -> Decision:
    """The decision about the best viable draft: by what it is predicted to gain, or by facts where nobody can tell."""
    best = next((found for found in ranked if found.viable and found.proposal.method not in DRAFT_FREE), None)
    if best is None:
        return _nothing_fits(command, target, ranked)
    if best.ids_unknown:
        return _never_compared(target, best)
    if _held_nowhere(best):
        return _load_of_nobody(target, best)
    if best.prediction is not None:
        decided = _by_prediction(target, best, best.prediction)
        decided = decided._replace(sentence=decided.sentence + _without_draft(decided, ranked))
    else:
        others = [one for one in ranked if one.prediction is not None and one.proposal.method not in DRAFT_FREE]
        decided = _among_unknown(target, best, others[0]) if others else _by_facts(target, best)
    said = (_heavy(best), _refused_as_shipped(best), _untested(best.prediction), _misfit(best))
    return decided._replace(sentence=decided.sentence + "".join(said))


def _nothing_fits(command: str, target: ModelProfile, ranked: Sequence[Assessment]) -> Decision:
    if command == "check":
        return Decision(
            "do_not_speculate", f"Do not put {ranked[0].proposal.label} in front of {target.id}: {why_not(ranked[0])}"
        )
    named_drafts = [found for found in ranked if found.proposal.method not in DRAFT_FREE]
    unknown = [one for one in named_drafts if not one.rejections and one.verdict and one.verdict.verdict == "unknown"]
    lead = (
        f"None of the {len(named_drafts)} drafts looked at {'is known to fit' if unknown else 'fits'} {target.id}"
        if named_drafts
        else f"No draft is known for {target.id}"
    )
    place = f" in {ranked[0].pair.setting.engine.key}" if ranked and ranked[0].pair.setting.engine else ""
    free = [found.proposal.label for found in ranked if found.proposal.method in DRAFT_FREE and found.viable]
    rest = (
        f"what needs no draft is left: {' or '.join(free)}; "
        "beyond that, a head could be trained for it, or a small model given its vocabulary and trained on its answers"
        if free
        else _no_draft_free(ranked)
    )
    return Decision("undecided", f"{lead}{place}; {rest} ({_judged_by(named_drafts)}).")


def _no_draft_free(ranked: Sequence[Assessment]) -> str:
    refused = next((why_not(found) for found in ranked if found.proposal.method in DRAFT_FREE), "")
    return (
        f"and what needs no draft does not run there either: {refused.rstrip('.')}"
        if refused
        else "and nothing else is known"
    )


def _judged_by(drafts: Sequence[Assessment]) -> str:
    """What a judgement without a speed-up rests on: what was measured of these drafts all the same, or facts alone."""
    rates = [f"{one.proposal.label} {one.measured.rate.value:.3f}" for one in drafts if one.measured is not None]
    return f"judged by facts; acceptance rates were measured all the same: {', '.join(rates)}" if rates else FACTS_ONLY


def _never_compared(target: ModelProfile, best: Assessment) -> Decision:
    why = best.relation.reason if best.relation is not None else "at least one tokenizer is not known"
    rests_on = "what is predicted holds only if they agree" if best.prediction is not None else _judged_by([best])
    sentence = (
        f"Nothing is known against {best.proposal.label} in front of {target.id}{_engine(best)}, but nothing says "
        f"either that their token ids agree ({why}): compare the two tokenizers first ({rests_on})."
    )
    return Decision("undecided", sentence, method=best.proposal.method, draft=best.proposal.id)


# ---------------------------------------------------------------------- by prediction


def _held_nowhere(best: Assessment) -> bool:
    """Whether what was asked for fits on no number of devices, and not one such sequence where the pair is placed."""
    setting, budget = best.pair.setting, best.budget_in_place
    asked = setting.max_num_seqs is not None or setting.max_model_len is not None
    held = budget.fits is not False or budget.min_tensor_parallel_size is not None or budget.max_num_seqs
    return asked and not held and setting.device is not None


def _load_of_nobody(target: ModelProfile, best: Assessment) -> Decision:
    setting, proposal = best.pair.setting, best.proposal
    assert setting.device is not None, "a load is held against a device"
    number = f"{setting.max_num_seqs:,} sequences" if setting.max_num_seqs is not None else "one sequence"
    length = f" of {setting.max_model_len:,} tokens" if setting.max_model_len is not None else ""
    key = setting.device.key
    alone = f"One {key}, which works with no other, does not hold"
    most = (
        alone if setting.device.devices_per_node == 1 else f"No number of {key} up to {MEMORY['max-devices']:g} holds"
    )
    sentence = (
        f"{most} {number}{length} of {target.id} with {proposal.label}: ask for fewer or shorter ones. The speed-ups "
        "listed are of a load that cannot be."
    )
    return Decision("undecided", sentence, method=proposal.method, draft=proposal.id)


def _by_prediction(target: ModelProfile, best: Assessment, found: Prediction) -> Decision:
    row = found.plan.drafting
    assert row is not None, "a plan reaches at least one token"
    # Where timings make an interval wide, more prompts decide nothing.
    steady = found.measured is not None and found.measured.spread < MARGIN
    num_prompts = found.measured.num_prompts if found.measured is not None and steady else None
    said = decide_by([found.plan], found.evidence, num_prompts=num_prompts)
    action = "undecided" if found.measured is not None and found.measured.suspect else said.action
    # A loss on a device that nobody named says little of the user's own, unless the draft is too large on any.
    unsure = found.place.assumed and row.high >= 1 + MARGIN and not _too_large(best)
    elsewhere = action == "do_not_speculate" and unsure
    if elsewhere:
        action = "undecided"
    place, gain = _place(found.place, _care(best), best.pair.setting), _gain(row, found)
    k, proposal, how = row.k, best.proposal, _how(found)
    if action == "speculate":
        lead = f"{_use(target, best)}{place} with num_spec_tokens = {k}: {gain} {how}."
        if row.low < 1:
            lead += " Measure before you rely on it: a loss is possible."
    elif action == "undecided":
        why = (
            "a loss there. Another device or engine may gain: name yours with --device and --engine"
            if elsewhere
            else _too_little(found, row, said.more_prompts)
        )
        verb = "Measure more" if found.measured is not None else "Measure"
        lead = (
            f"{verb} before you put {proposal.label} in front of {target.id}{place}: with num_spec_tokens = {k}, "
            f"{gain} {how}, {why}."
        )
    else:
        lead = (
            f"Do not speculate with {target.id}{place}: with {proposal.label} at num_spec_tokens = {k}, {gain} "
            f"{how}.{_at_lower_load(best)}"
        )
    return Decision(
        action,
        lead,
        method=None if action == "do_not_speculate" else proposal.method,
        draft=None if action == "do_not_speculate" else proposal.id,
        num_spec_tokens=0 if action == "do_not_speculate" else k,
        evidence=found.evidence,
        speedup=Interval(row.speedup, row.low, row.high, found.plan.speedup.level),
    )


def _without_draft(decided: Decision, ranked: Sequence[Assessment]) -> str:
    """What needs no draft and was measured to gain more than the drafts do."""
    found = [one.prediction for one in ranked if one.viable and one.proposal.method in DRAFT_FREE]
    known = [one for one in found if one is not None and one.measured is not None]
    best = max(known, key=lambda one: one.plan.speedup.value, default=None)
    if best is None or best.plan.speedup.low <= 1 + MARGIN:
        return ""
    gain = best.plan.speedup
    if decided.action == "speculate" and decided.speedup is not None and gain.value <= decided.speedup.value:
        return ""
    label, k = best.pair.proposal.label, best.plan.num_spec_tokens
    how = "its lookups were measured, its costs are a draft's without its passes"
    return f" Without a draft, {label} at num_spec_tokens = {k} is estimated to give {gain.value:.2f}× ({how})."


def _among_unknown(target: ModelProfile, best: Assessment, other: Assessment) -> Decision:
    """Nobody can tell what the first gains, and what can be told of the others is a loss."""
    sentence = (
        f"Measure before you speculate with {target.id}{_engine(best)}: what {best.proposal.label} gains cannot be "
        f"predicted ({best.missing}), and {other.proposal.label}, the best of those that can, is predicted "
        f"{other.expected_speedup:.2f}× the plain decoding speed."
    )
    return Decision("undecided", sentence, method=best.proposal.method, draft=best.proposal.id)


def _how(found: Prediction) -> str:
    """Whether a gain was measured or predicted, and from what."""
    if found.measured is None:
        return f"is {PREDICTED}"
    prompts = f"{found.measured.num_prompts} prompts"
    if found.costs.source == GIVEN:
        return f"follows from the costs given and an acceptance rate measured on {prompts}"
    if found.evidence == "served":
        return f"was measured in running servers on {prompts}"
    if found.evidence == "measured":
        return f"was measured on {prompts}"
    return f"is predicted from an acceptance rate measured on {prompts}; its costs are not measured"


def _too_little(found: Prediction, row: KRow, more_prompts: int | None) -> str:
    if found.measured is not None and found.measured.suspect:
        return f"but the measurement is suspect: {found.measured.suspect}"
    if found.evidence in MEASURED and more_prompts is not None:
        return f"which decides nothing yet: about {more_prompts} more prompts would"
    if found.evidence in MEASURED and found.measured is not None and mostly_of_timings(row, found.measured.spread):
        known = f"{found.measured.spread:.0%}".replace("%", " %")
        return f"which decides nothing: its timings are known to ±{known}"
    return "too little to tell from none"


def _gain(row: KRow, found: Prediction) -> str:
    interval = f"{found.plan.speedup.level:.0%} interval {row.low:.2f} to {row.high:.2f}".replace("%", " %")
    return f"{row.speedup:.2f}× the plain decoding speed ({interval})"


def _place(place: Place, care: str, setting: Setting) -> str:
    given = " but for the figures given" if setting.bandwidth is not None or setting.memory is not None else ""
    assumed = f" (assumed{given}, as no device was named)" if place.assumed else ""
    load = f" at {place.batch} sequences at once" if place.batch > 1 else ""
    where = f" on {place.devices} × {place.device.key}{assumed}" if place.device.key != BEHIND else ""
    return f" in {place.engine.key}{care}{where}{load}"


def _at_lower_load(best: Assessment) -> str:
    """What a decision for the full load must not hide: other numbers of sequences at once would gain."""
    gaining = [(first, last, k) for first, last, k in best.schedule if k]
    if not gaining:
        return ""
    low, high = gaining[0][0], gaining[-1][1]
    tokens = sorted({k for _, _, k in gaining})
    lengths = str(tokens[0]) if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
    reach = f"Up to {high}" if low == 1 else f"From {low} to {high}"
    return f" {reach} at once it is predicted to gain, with num_spec_tokens = {lengths}."


def _use(target: ModelProfile, best: Assessment) -> str:
    proposal = best.proposal
    if proposal.origin == "target":
        return f"Use the MTP head that {target.id} carries itself (a separate draft model is not what to look for here)"
    kind = KINDS.get(proposal.method, f"{proposal.method} head")
    whose = f", made for {proposal.via}," if proposal.via else ""
    return f"Put {proposal.label}{whose} in front of {target.id} as {kind}"


# ---------------------------------------------------------------------- by facts


def _by_facts(target: ModelProfile, best: Assessment) -> Decision:
    proposal, place = best.proposal, _engine(best)
    large = _too_large(best)
    if large:
        sentence = (
            f"Of what fits {target.id}{place}, {proposal.label} comes first, yet it may not be worth it: {large} "
            f"Measure before you speculate ({FACTS_ONLY})."
        )
        return Decision("undecided", sentence, method=proposal.method, draft=proposal.id)
    if best.relation is not None and best.relation.kind == "different":
        sentence = (
            f"Measure before you put {proposal.label} in front of {target.id}{place}: {best.missing} ({FACTS_ONLY})."
        )
        return Decision("undecided", sentence, method=proposal.method, draft=proposal.id)
    k = num_spec_tokens(best)
    start = f" with num_spec_tokens = {k}" if k else ""
    missing = f"; {best.missing}" if best.missing else ""
    sentence = f"{_use(target, best)}{place}{start} ({FACTS_ONLY}{missing})."
    return Decision("speculate", sentence, method=proposal.method, draft=proposal.id, num_spec_tokens=k)


def _engine(best: Assessment) -> str:
    return f" in {best.verdict.engine}{_care(best)}" if best.verdict is not None else ""


def _care(best: Assessment) -> str:
    return " (with care)" if best.verdict is not None and best.verdict.verdict == "care" else ""


def _too_large(best: Assessment) -> str:
    """The finding that even the best draft is nearly as large as its target, or an empty string."""
    for finding in best.findings:
        small = finding.evidence.get("ratio", LIMITS["size-ratio.low"]) < LIMITS["size-ratio.low"]
        if finding.rule == "size-ratio" and finding.outcome == "warn" and small and finding.ignored_because is None:
            return finding.message[:1].lower() + finding.message[1:]
    return ""


# ---------------------------------------------------------------------- for both


def _refused_as_shipped(best: Assessment) -> str:
    """The option that a start must not forget."""
    option, taken = best.needed_option, best.verdict
    if option is None or taken is None:
        return ""
    return f" It runs only with {option}: as shipped, {taken.engine} refuses two numbers of embedding rows."


def _heavy(best: Assessment) -> str:
    """What a draft that is fast by what it reads takes in memory."""
    share = kept_share(best.pair)
    if not best.heavy or share is None or best.budget.fits is False:
        return ""
    known = best.budget.fits
    held = f" The draft's weights take {share:.1f} times the memory of the target's{_also_quantized(best)}"
    return f"{held}." if known else f"{held}, and whether both fit is not known: name the memory with --memory."


def _also_quantized(best: Assessment) -> str:
    """How a draft that is stored whole beside a target of few bits is made as small."""
    setting, draft = best.pair.setting, best.pair.draft
    if setting.quantization is None or setting.draft_quantization is not None or draft is None or draft.quantization:
        return ""
    return f", fewer with --draft-quantization {setting.quantization}"


def _untested(found: Prediction | None) -> str:
    """That nothing was there to hold the costs against, where they were worked out for a maker without fitted rows."""
    if found is None or found.evidence != "roofline" or not untested(found.place.device):
        return ""
    return f" The costs on {found.place.device.key} are estimates, and the interval was not tested there."


def _misfit(best: Assessment) -> str:
    """What the sentence must not hide: the pair does not fit the memory that was named, or that of the device."""
    setting = best.pair.setting
    if best.budget.fits is not False:
        return ""
    placed = best.budget_in_place
    if placed.fits is False and placed.max_num_seqs:
        asked = setting.max_num_seqs or 1
        return f" There is room for {placed.max_num_seqs:,} full-length sequences at once, of {asked:,}: the rest wait."
    need = best.budget.min_tensor_parallel_size
    enough = f": it takes {need} of them" if need is not None and need > setting.tensor_parallel_size else ""
    key = setting.device.key if setting.device is not None else "device"
    return f" It does not fit on {setting.tensor_parallel_size} × {key}{enough}{_fewer_bits(best, need)}."


def _fewer_bits(best: Assessment, need: int | None) -> str:
    """The usual format of the engine with which the fewest devices hold a target whose weights are stored whole."""
    setting, taken = best.pair.setting, best.verdict
    if setting.quantization is not None or best.pair.target.quantization is not None or taken is None:
        return ""
    vendor = setting.device.vendor if setting.device is not None else None
    formats = FEWER_BITS.get(taken.engine, FEWER_BITS.get(vendor or "", FEWER_BITS["others"]))
    lacking = {"fp8"} if setting.device is not None and setting.device.fp8 is False else set()
    tried = [name for name in formats if name not in lacking]
    held = [(devices, name) for name in tried if (devices := best.devices_with(name)) is not None]
    fewest = min(held, key=lambda one: one[0], default=None)
    if fewest is None or (need is not None and fewest[0] >= need):
        return ""
    return f", or {fewest[0]} with --quantization {fewest[1]}"


def num_spec_tokens(found: Assessment) -> int | None:
    """The number of speculative tokens: as asked, as predicted, or else a fact of the method; None: nobody can tell."""
    asked = found.pair.setting.num_spec_tokens
    if asked is not None:
        return asked
    if found.prediction is not None:
        row = found.prediction.plan.drafting
        return row.k if row is not None else None
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
