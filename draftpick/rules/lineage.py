"""Rules about origin: pre-training, tuning, changes since, the target a draft was made for, and the licence."""

from __future__ import annotations

from draftpick.models.profile import ModelProfile
from draftpick.pair import Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, rule, skip, warn

SUBJECTS = ("coder", "math", "vision")
STOCKS = ("-Coder", "-Math", "-VL")
"""Endings of a family's name that mean the same pre-training, continued."""
DESCENDS = ("distill", "pruned")
CHANGES = ("finetune", "distill", "adapter", "merge", "continued")

PERMISSIVE = frozenset(
    {
        "apache-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "cc-by-4.0", "cc0-1.0", "unlicense", "openmdw-1.1",
        "modified-mit",
    }
)  # fmt: skip
"""Licences that leave commercial use and changes free."""
NON_COMMERCIAL = ("-nc", "research", "non-commercial", "noncommercial", "mrl")
"""Parts of a licence's name that mean no commercial use."""
UNREAD = frozenset({"other", "unknown", ""})
UNSURE = frozenset({"name-derived", "recalled", "derived"})
"""How it became known what a head was trained for, where nobody read it."""


@rule("lineage", "lineage", reads=("family", "generation", "variant", "made_for", "lineage"))
def lineage(pair: Pair) -> Outcome:
    """Draft and target were pre-trained on the same data.

    Why: a draft agrees where it learned the same text. The rule of thumb is about 65 % accepted for the same
    pre-training and 40 % for another (Llama-2-7B on an Atlas 800I A2). A draft pruned or distilled from its target, or
    from the target's base, stands closest (Llama-3.2-1B for Llama 3.1).

    Exception: re-tokenised drafts trained on the target's answers agree in spite of another origin: see made-for.
    Between two drafts of one family it is a tie-break, no more.

    Remedy: take the family's own small model of the same generation where there is one.
    """
    if pair.draft is None:
        return not_applicable("No draft model.")
    return _as_told(pair, "family", _origins(pair.target, pair.draft))


def _origins(target: ModelProfile, draft: ModelProfile) -> Outcome:
    if draft.lineage.base_model is not None and draft.lineage.relation in DESCENDS and _descends(draft, target):
        return ok(f"The draft was made from {draft.lineage.base_model}, the target's own stock.", 1.0, kind="descends")
    ours, theirs = target.lineage.data, draft.lineage.data
    if ours is not None and ours == theirs:
        return ok(f"The same pre-training: {ours}.", kind="same data")
    if target.family is None or draft.family is None:
        return skip("What both were trained on is not known.")
    evidence: Evidence = {"target": _origin(target), "draft": _origin(draft)}
    if _stock(target) == _stock(draft) and (target.lineage.stock is not None or draft.lineage.stock is not None):
        message = f"One stock: both go back to {_said(*_stock(target))}."
        return ok(message, 0.9 if target.family == draft.family else 0.75, kind="one stock", **evidence)
    if target.family == draft.family:
        if target.generation is None or draft.generation is None:
            return ok(f"One family, {target.family}.", 0.8, certain=False, kind="family", **evidence)
        if target.generation == draft.generation:
            return ok(f"One family and generation: {_origin(target)}.", 0.95, kind="generation", **evidence)
        message = f"One family, two generations: the target is {_origin(target)}, the draft {_origin(draft)}."
        apart = _generations_apart(target.generation, draft.generation)
        score = max(0.65 - 0.05 * apart, 0.4)
        return warn(message, score, kind="other generation", apart=apart, **evidence)
    if target.generation == draft.generation and _line(target.family) == _line(draft.family):
        message = f"One stock, trained on for a subject: {_origin(target)} and {_origin(draft)}."
        return ok(message, 0.85, certain=False, kind="stock", **evidence)
    if draft.variant == "draft":
        return _published_to_draft(target, draft, evidence)
    message = f"Other pre-training: the target is {_origin(target)}, the draft {_origin(draft)}."
    return warn(message, 0.35, kind="other family", **evidence)


def _as_told(pair: Pair, field: str, outcome: Outcome) -> Outcome:
    """The outcome, which says so where files tell nothing of a field and it was taken from a model like theirs."""
    sides = (pair.target, *([pair.draft] if pair.draft is not None else []))
    if outcome.kind == "skip" or not any(_taken_from_its_like(side, field) for side in sides):
        return outcome
    message = (
        f"{outcome.message.removesuffix('.')} (taken from catalogued models like them, not read from their files)."
    )
    return outcome._replace(message=message, certain=False)


def _taken_from_its_like(model: ModelProfile, field: str) -> bool:
    """Whether a field was not told by a model's own files, but by its name or shape."""
    return model.origin != "catalogue" and field in model.uncertain


def _published_to_draft(target: ModelProfile, draft: ModelProfile, evidence: Evidence) -> Outcome:
    if target.id in draft.made_for:  # trained on this target's answers: see made-for
        return ok(f"The draft is {_origin(draft)}, published to draft.", 0.95, kind="draft", **evidence)
    (family, generation), (stock, stock_generation) = _stock(target), _stock(draft)
    if family == stock and generation is not None and stock_generation is not None and generation != stock_generation:
        apart = _generations_apart(generation, stock_generation)
        message = f"The draft was published to draft for others of {_said(stock, stock_generation)}."
        return warn(message, max(0.65 - 0.05 * apart, 0.4), kind="other generation", apart=apart, **evidence)
    return ok(f"The draft is {_origin(draft)}, published to draft.", 0.7, kind="draft", **evidence)


def _stock(model: ModelProfile) -> tuple[str | None, str | None]:
    """Family and generation of what a model goes back to, or its own."""
    origin = model.lineage
    return (origin.stock, origin.stock_generation) if origin.stock is not None else (model.family, model.generation)


def _generations_apart(one: str, other: str) -> float:
    """How many versions lie between them, as far as their names are numbers; else 1."""
    try:
        return round(abs(float(one.partition("-")[0]) - float(other.partition("-")[0])), 2)
    except ValueError:
        return 1.0


def _line(family: str) -> str:
    """A family's name without the subject it was trained on for."""
    for suffix in STOCKS:
        family = family.removesuffix(suffix)
    return family


def _descends(draft: ModelProfile, target: ModelProfile) -> bool:
    """Whether the draft was made from the target, or from what the target was made from."""
    return draft.lineage.base_model in (target.id, target.lineage.base_model)


def _origin(model: ModelProfile) -> str:
    return _said(model.family, model.generation)


def _said(family: str | None, generation: str | None) -> str:
    return f"{family} {generation}" if generation is not None else str(family)


@rule("tuning", "lineage", reads=("variant",))
def tuning(pair: Pair) -> Outcome:
    """Draft and target were tuned alike: both base, or both to answer.

    Why: a base draft does not know the form of an answer, nor when to stop: Qwen2.5-Coder-32B-Instruct with the base 3B
    was accepted at 34 % and gained nothing. A tuned draft for a base target answers where it should go on.

    Exception: models published as drafts were trained for the purpose, whatever they are called.

    Remedy: the draft's instruct version (or its base version for a base target).
    """
    return _as_told(pair, "variant", _tunings(pair))


def _tunings(pair: Pair) -> Outcome:
    target, draft = _tuning(pair.target), _tuning(pair.draft)
    if target is None or draft is None:
        return skip("How both were tuned is not known.")
    evidence: Evidence = {"target": target, "draft": draft}
    if draft == "draft":
        return ok("The draft was published to draft.", **evidence)
    if (target == "base") == (draft == "base"):
        return ok(f"Both are {'base models' if target == 'base' else 'tuned to answer'}.", **evidence)
    if draft == "base":
        return warn("A base model drafts for one that was tuned to answer.", 0.55, base_for_instruct=True, **evidence)
    return warn("A tuned model drafts for a base model.", 0.65, base_for_instruct=False, **evidence)


def _tuning(model: ModelProfile | None) -> str | None:
    """base, tuned or draft; None where the variant is not known."""
    variant = model.variant if model is not None else None
    if variant is None:
        return None
    if variant == "draft":
        return "draft"
    return "base" if "base" in variant else "tuned"


@rule("subject", "lineage", reads=("variant",))
def subject(pair: Pair) -> Outcome:
    """Draft and target were trained for the same subject: code, mathematics, images or none.

    Why: continued training on code or mathematics moves a model's habits: on the other's ground it guesses less well.
    The difference is a tie-break between drafts of one size, not a reason against one.

    Exception: a coder model that serves prose is best drafted by a general one; measure on the served prompts.

    Remedy: take the draft of the target's own line (Qwen2.5-Coder for Qwen2.5-Coder).
    """
    return _as_told(pair, "variant", _subjects(pair))


def _subjects(pair: Pair) -> Outcome:
    draft = pair.draft
    if pair.target.variant is None or draft is None or draft.variant is None:
        return skip("What both were specialised in is not known.")
    target, other = _subject(pair.target), _subject(draft)
    if target == other or draft.variant == "draft":
        return ok(f"Both are {target} models." if target == other else "The draft was published to draft.")
    if "vision" in (target, other) and "general" in (target, other):
        return ok(f"The target is a {target} model, the draft a {other} one.", 0.85, target=target, draft=other)
    return warn(f"The target is a {target} model, the draft a {other} one.", 0.65, target=target, draft=other)


def _subject(model: ModelProfile) -> str:
    for known in SUBJECTS:
        if known in (model.variant or ""):
            return known
    return "general"


@rule("thinking-mode", "lineage", reads=("variant", "lineage"))
def thinking_mode(pair: Pair) -> Outcome:
    """Both think aloud, or neither does.

    Why: a draft that answers at once guesses wrongly through the whole thinking part of its target, and the other way
    round. Hidden thinking also spoils timings: tokens that nobody counts were generated all the same.

    Exception: models that switch follow their template, and the draft sees the target's text; serve both in one mode.

    Remedy: a draft of the same mode, or one whose mode can be switched; say in the probe which mode is served.
    """
    return _as_told(pair, "variant", _thinkings(pair))


def _thinkings(pair: Pair) -> Outcome:
    target, draft = _thinking(pair.target), _thinking(pair.draft)
    if target is None or draft is None:
        return skip("Whether both think aloud is not known.")
    if "base" in (target, draft):
        return not_applicable("A base model has no thinking mode.")
    stated = all(side is not None and side.lineage.thinking is not None for side in (pair.target, pair.draft))
    evidence: Evidence = {"target": target, "draft": draft}
    if target == draft == "hybrid":
        return ok("Both can switch thinking: serve them in one mode.", 0.95, certain=stated, **evidence)
    if target == draft:
        return ok(f"Both have thinking {target}.", certain=stated, **evidence)
    if "hybrid" in (target, draft):
        side = "draft" if draft == "hybrid" else "target"
        return ok(f"The {side} can switch thinking to the other's mode.", 0.85, certain=stated, **evidence)
    message = f"The target has thinking {target}, the draft {draft}: the first part of an answer parts them."
    return warn(message, 0.4, certain=stated, **evidence)


def _thinking(model: ModelProfile | None) -> str | None:
    """off, on, hybrid or base; read from the variant where nobody stated it; None where neither is known."""
    if model is None:
        return None
    if model.lineage.thinking is not None:
        return model.lineage.thinking
    variant = model.variant
    if variant is None or variant == "draft":
        return None
    if "reasoning" in variant:
        return "hybrid" if "hybrid" in variant else "on"
    return "base" if "base" in variant else "off"


@rule("changed-target", "lineage", reads=("family", "lineage", "made_for", "target"), about="any")
def changed_target(pair: Pair) -> Outcome:
    """The target is what the draft was made to follow, not something trained on from there.

    Why: fine-tunes, distillations, merges and adapters move a target away from drafts and heads made for its base:
    acceptance falls with the distance, and an adapter switched at run time leaves the draft behind.

    Exception: quantised copies hardly move. A maker's own instruct version and small models stem from one recipe.

    Remedy: train the draft or head on the changed target's answers, or n-gram lookup; measure before serving.
    """
    if pair.draft is None and pair.proposal.head is None:
        return not_applicable("Nothing here was trained for another model.")
    origin, via = pair.target.lineage, pair.proposal.via
    how = origin.relation
    if _made_for(pair):
        return ok("The draft was made for the target as it is.")
    if via is None and not _changed_by_others(pair):
        if (unknown := _untold(pair.target)) is not None:
            return skip(unknown)
        if origin.base_model is None and _taken_from_its_like(pair.target, "family"):
            return ok("Nothing says that others changed the target.", certain=False)
        return ok("The target was not changed by others.")
    base = via or origin.base_model
    evidence: Evidence = {"base": base, "relation": how}
    if how == "quantized":
        return ok(f"The target is a quantised copy of {base}, for which the draft is meant.", 0.9, **evidence)
    word = {
        "adapter": "an adapter on",
        "distill": "another model's knowledge distilled into",
        "merge": "a merge of",
        "finetune": "a fine-tune of",
    }
    made = word.get(how or "", "made from")
    return warn(f"The target is {made} {base}: a draft for that one agrees less.", 0.5, **evidence)


def _changed_by_others(pair: Pair) -> bool:
    """Whether somebody else than its maker trained the target on, and the draft does not come from there too."""
    origin, base = pair.target.lineage, pair.target.lineage.base_model
    if base is None or origin.relation not in CHANGES:
        return False
    owner = _maker(pair.target)
    theirs = [base]
    if pair.draft is not None:
        theirs += [pair.draft.id, pair.draft.lineage.base_model or ""]
    return not owner or owner not in map(_owner, theirs)


def _untold(target: ModelProfile) -> str | None:
    """What is not known of how files became what they are; None where somebody wrote it down."""
    base, relation = target.lineage.base_model, target.lineage.relation
    if base is None and target.origin != "catalogue" and (target.family is None or _only_a_path(target)):
        return "Whether others changed the target is not known: nothing names the model it was made from."
    if base is not None and relation is None and target.origin != "catalogue" and _maker(target) != _owner(base):
        return f"Whether the target is {base} as it was published, or trained on from there, is not known."
    return None


def _made_for(pair: Pair) -> bool:
    """Whether the draft or head was published for exactly this target."""
    if pair.draft is not None:
        return pair.target.id in pair.draft.made_for
    return pair.proposal.head is not None and pair.target.id in targets_of(pair.proposal.head.target)


def _maker(model: ModelProfile) -> str:
    """Who published a model; nobody is named by the path of a folder or file."""
    return "" if model.origin in ("folder", "gguf") and _only_a_path(model) else _owner(model.id)


def _only_a_path(model: ModelProfile) -> bool:
    """Whether files were named by their place, so that nothing says who published them."""
    return model.path is not None and model.origin not in ("cache", "hub")


def _owner(model_id: str) -> str:
    return model_id.partition("/")[0] if "/" in model_id else ""


@rule("made-for", "lineage", reads=("made_for", "target"))
def made_for(pair: Pair) -> Outcome:
    """The draft was published for exactly this target.

    Why: training on the target's own answers is worth more than any likeness of origin: a 0.5B with a transplanted
    vocabulary drafts for DeepSeek-R1 that shares nothing else with it.

    Exception: a pairing read from names alone counts as uncertain. A draft made for another target is judged by the
    other rules as any model is.

    Remedy: none needed; where no such draft exists, an existing small model can be trained on the target's answers.
    """
    head, draft = pair.proposal.head, pair.draft
    if head is not None:
        certain = head.confidence not in UNSURE
        if pair.target.id in targets_of(head.target):
            return ok(f"The draft was published for {pair.target.id}.", certain=certain, target=head.target)
        return not_applicable(f"The draft was published for {head.target}.")
    if draft is not None and pair.target.id in draft.made_for:
        return ok(f"The draft was published for {pair.target.id}.", targets=list(draft.made_for))
    if draft is not None and draft.made_for:
        return not_applicable(f"The draft was published for {', '.join(draft.made_for)}.")
    return not_applicable("The draft names no target that it was published for.")


def targets_of(text: str) -> tuple[str, ...]:
    """The ids that a head's target names, one or several between semicolons."""
    return tuple(part.strip() for part in text.split(";")) if ";" in text else (text,)


@rule("licence", "lineage", reads=("license", "gated"), about="any")
def licence(pair: Pair) -> Outcome:
    """The draft's licence is not stricter than the target's.

    Why: a pair may be used only where both halves may. Qwen2.5-3B is for research although 0.5B and 1.5B are
    Apache-2.0; some published heads are CC-BY-NC-ND. A gated repository needs an accepted agreement and a token on
    each machine.

    Exception: this compares names of licences, it is no legal advice; terms that no name tells are said to be unknown.

    Remedy: read both licences, or take a sibling under the target's own.
    """
    second = pair.draft or pair.proposal.head
    if second is None:
        return not_applicable("No second set of weights.")
    ours, theirs = pair.target.license, second.license
    if ours is None or theirs is None or ours in UNREAD or theirs in UNREAD:
        return skip("The licence of at least one side is not known.")
    evidence: Evidence = {"target": ours, "draft": theirs}
    strictness = _strictness(theirs) - _strictness(ours)
    if strictness > 0 and _strictness(theirs) == 2:
        return warn(
            f"The draft's licence ({theirs}) forbids commercial use, the target's ({ours}) does not.", 0.3, **evidence
        )
    if strictness > 0:
        return warn(f"The draft's licence ({theirs}) has terms that the target's ({ours}) has not.", 0.7, **evidence)
    if pair.draft is not None and pair.draft.gated and pair.target.gated is False:
        return warn("The draft is gated, the target is not: each machine needs a token.", 0.8, gated=True, **evidence)
    return ok(f"The draft's licence ({theirs}) is not stricter than the target's ({ours}).", **evidence)


def _strictness(licence: str) -> int:
    """0 permissive, 1 with terms of its own, 2 not for commercial use."""
    name = licence.lower()
    if name in PERMISSIVE:
        return 0
    return 2 if any(mark in name for mark in NON_COMMERCIAL) else 1
