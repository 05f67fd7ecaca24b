"""Rules about positions and state: context, rope scaling, images, M-RoPE and recurrent layers."""

from __future__ import annotations

from math import log2

from draftpick.choices import LIMITS
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Head, Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, rule, skip, warn

HALVING = LIMITS["context-length.halving"]
ASKED = LIMITS["context-length.asked"]


@rule("context-length", "context", reads=("max_position_embeddings",), about="any")
def context_length(pair: Pair) -> Outcome:
    """The draft reaches as far as the context that is served.

    Why: beyond the draft's positions there is no gain: engines skip drafting, accept nothing, or crash, by version (the
    common EAGLE-3 head of Llama-3.1-8B has 2048 positions and brought vLLM down on longer prompts).

    Exception: a served length shorter than the draft's is no matter; heads trained on short texts fade before their
    configured limit.

    Remedy: `--max-model-len` within the draft's length, or a draft or head with a longer window. A draft's window made
    smaller than the target's is read again at each step once it is full, which costs more than it saves.
    """
    if pair.method in DRAFT_FREE or (pair.draft is None and pair.proposal.head is None):
        return not_applicable("The draft has no context of its own.")
    draft = _draft_context(pair)
    asked = pair.setting.max_model_len
    wanted = asked or pair.target.max_position_embeddings
    if draft is None or wanted is None:
        return skip("The context length is not known on both sides.")
    evidence: Evidence = {"draft": draft, "target": pair.target.max_position_embeddings, "asked": asked}
    evidence["effective_context"] = min(draft, wanted)
    if draft >= wanted:
        return ok(f"The draft reaches {draft} tokens, {wanted} are wanted.", **evidence)
    if asked is not None:
        return warn(f"The draft ends at {draft} tokens, {asked} were asked for: no gain beyond.", ASKED, **evidence)
    score = max(0.9 - HALVING * log2(wanted / draft), 0.2)
    return warn(f"The draft ends at {draft} tokens, the target at {wanted}: no gain beyond {draft}.", score, **evidence)


def _draft_context(pair: Pair) -> int | None:
    if pair.draft is not None:
        return pair.draft.max_position_embeddings
    return pair.proposal.head.max_position_embeddings if pair.proposal.head is not None else None


@rule("rope-scaling", "context", reads=("rope",), about="any")
def rope_scaling(pair: Pair) -> Outcome:
    """Both stretch their rotary positions in the same way.

    Why: a target stretched by YaRN drafts with a model that is not: past the native length the draft agrees with
    nothing. An override given to the engine reaches the target only, not the draft.

    Exception: within the shorter native length the scaling does not matter much; equal kinds with other factors were
    trained that way.

    Remedy: mirror the override on the draft, or serve within the draft's native length.
    """
    second = pair.draft or pair.proposal.head
    if second is None or (pair.draft is None and second.rope is None):
        return not_applicable("The draft has no rope scaling of its own that is known.")
    if not _rope_known(pair.target) or (pair.draft is not None and not _rope_known(pair.draft)):
        return skip("The rope scaling of at least one side is not known.")
    target, draft = pair.target.rope, second.rope
    evidence: Evidence = {"target": target, "draft": draft}
    if target == draft:
        return ok(f"The same rope scaling: {target or 'none'}.", **evidence)
    if _kind(target) == _kind(draft):
        return ok(f"The same kind of rope scaling: {target} and {draft}.", 0.95, **evidence)
    native, asked = _native(pair), pair.setting.max_model_len
    if native is not None and asked is not None and asked <= native:
        return ok(f"The rope scalings differ, but {asked} tokens are within the native {native}.", 0.9, **evidence)
    end = f" past {native} tokens" if native is not None else " in long contexts"
    message = f"The target's rope scaling is {target or 'none'}, the draft's {draft or 'none'}: agreement falls{end}."
    return warn(message, 0.55, native=native, **evidence)


def _rope_known(model: ModelProfile) -> bool:
    """Whether an absent rope scaling means that there is none: a configuration says so, a catalogue row does not."""
    return model.rope is not None or (model.from_files and model.form_known)


def _kind(rope: str | None) -> str | None:
    return rope.partition(" ")[0] if rope is not None else None


def _native(pair: Pair) -> int | None:
    """The shortest length that either side was trained on before stretching."""
    lengths = [_native_of(side) for side in (pair.target, pair.draft or pair.proposal.head) if side is not None]
    known = [length for length in lengths if length is not None]
    return min(known, default=None)


def _native_of(model: ModelProfile | Head) -> int | None:
    if model.rope is None:
        return model.max_position_embeddings
    last = model.rope.rpartition(" ")[2]
    return int(last) if last.isdecimal() else None


@rule("modality", "context", reads=("modality",))
def modality(pair: Pair) -> Outcome:
    """Draft and target see the same input: text, or text and images.

    Why: a text draft for a target that sees images guesses about them blindly; its positions run differently after an
    image. A draft with a vision tower of its own needs the image embeddings as well, which few engines pass on.

    Exception: for requests without images a text draft is as good as for a text target.

    Remedy: say whether requests carry images; with images take a head trained for that very target, or no draft.
    """
    if pair.draft is None:
        return not_applicable("No draft model.")
    target, draft = "vision" in pair.target.modality, "vision" in pair.draft.modality
    if not pair.target.form_known:
        return skip("Whether the target sees images is not known.")
    evidence: Evidence = {"target": pair.target.modality, "draft": pair.draft.modality, "images": pair.setting.images}
    if not target:
        return ok(
            "Text only." if not draft else "The draft's vision tower is of no use here.",
            0.9 if draft else 1.0,
            **evidence,
        )
    if pair.setting.images is False:
        return ok("The target sees images, but no request carries any.", 0.95, **evidence)
    certainly = pair.setting.images is True
    if not draft:
        message = "The target sees images, the draft only text: it guesses blindly about them."
        return warn(message, 0.25 if certainly else 0.6, text_draft=True, **evidence)
    message = "Target and draft both see images: the engine must pass the image embeddings to both."
    return warn(message, 0.4 if certainly else 0.6, text_draft=False, **evidence)


@rule("mrope", "context", reads=("mrope",))
def mrope(pair: Pair) -> Outcome:
    """The draft counts positions along one axis, as engines expect of it.

    Why: vLLM and vLLM-Ascend refuse draft models whose rotary positions have several axes (M-RoPE), so a vision model's
    small sibling does not start as its draft: Qwen3-VL-8B with Qwen3-VL-2B.

    Exception: a text-only draft passes; after an image its positions part from the target's.

    Remedy: a text-only sibling of the same vocabulary, or a head trained for the vision model.
    """
    if pair.draft is None:
        return not_applicable("No draft model.")
    evidence: Evidence = {"target": pair.target.mrope, "draft": pair.draft.mrope}
    if pair.draft.mrope:
        message = "The draft's positions have several axes (M-RoPE), which most engines refuse in a draft."
        return warn(message, 0.2, **evidence)
    if not (pair.target.form_known and pair.draft.form_known):
        return skip("How positions run is not known on both sides.")
    if not pair.target.mrope:
        return ok("Positions run along one axis on both sides.", **evidence)
    if pair.setting.images is False:
        return ok("The target has M-RoPE, which text alone does not use.", 0.95, **evidence)
    return warn("The target has M-RoPE, the draft has not: positions part after an image.", 0.7, **evidence)


@rule("recurrent-state", "context", reads=("attention", "recurrent_layers"), about="any")
def recurrent_state(pair: Pair) -> Outcome:
    """A rejected guess can be taken back on both sides.

    Why: attention forgets a rejected token by shortening its cache. A recurrent, linear or convolution layer has one
    state that a guess overwrites: it must be saved and restored. mlx-lm fails at the first request, older llama.cpp
    refuses, and a whole-state checkpoint each round halved the speed of a 27B. n-gram lookup must roll back just the
    same.

    Exception: engines that keep a state per drafted token, and the model's own MTP layers in the engines made for
    them.

    Remedy: look at the verdict of the engine you run; prefer the target's own MTP layers.
    """
    target = pair.target.attention
    draft = pair.draft.attention if pair.draft is not None else "full"
    evidence: Evidence = {"target": target, "draft": draft}
    untold = not pair.target.form_known or not (pair.draft is None or pair.draft.form_known)
    if untold or target == "unknown" or draft == "unknown":
        return skip("Whether a layer holds a recurrent state is not known.", **evidence)
    sides = [name for name, kind in (("target", target), ("draft", draft)) if kind in ("hybrid", "recurrent")]
    if not sides:
        return ok("No layer holds a recurrent state.", **evidence)
    who = " and ".join(sides)
    verb = "both hold" if len(sides) > 1 else "holds"
    message = f"The {who} {verb} a recurrent state that must be rolled back when a guess is rejected"
    if pair.method == "mtp":
        return warn(f"{message}; engines made for its MTP layers do that.", 0.8, sides=sides, **evidence)
    return warn(
        f"{message}; not every engine can.", {"target": 0.5, "draft": 0.4}.get(who, 0.35), sides=sides, **evidence
    )
