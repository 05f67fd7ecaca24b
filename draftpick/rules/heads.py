"""Rules about heads: the checkpoint they were trained for, their width, their ids, and the target's own MTP layers."""

from __future__ import annotations

from functools import lru_cache

from draftpick.models.profile import ModelProfile
from draftpick.pair import Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, reject, rule, skip, sure, warn
from draftpick.rules.lineage import UNSURE, targets_of

TUNED = frozenset(
    {
        "meta", "instruct", "chat", "base", "it", "pt", "hf", "thinking", "reasoning", "preview", "sft", "dpo", "rl",
        "fp8", "awq", "gptq", "w8a8", "w4a16", "int4", "int8", "fp4", "nvfp4", "mxfp4", "bf16", "4bit", "8bit", "bnb",
        "dynamic", "quantized", "gguf", "mlx",
    }
)  # fmt: skip
"""Words in a name that tell a variant or a copy, not another model."""


@rule("head-target", "heads", reads=("target", "confidence"), about="head")
def head_target(pair: Pair) -> Outcome:
    """A head drafts for the checkpoint it was trained for.

    Why: EAGLE, Medusa, DFlash and MTP heads read the target's hidden states. Those of another size do not fit, those
    of another generation or tuning mean something else: a head for Llama 3 lowers acceptance on Llama 3.1, one for
    Qwen3-30B-A3B on its Instruct-2507 successor.

    Exception: quantised copies keep the hidden states nearly as they were. A pairing read from names alone is
    uncertain.

    Remedy: the head published for this very checkpoint; else a draft model, the target's own MTP layers, or train one.
    """
    head = pair.proposal.head
    if head is None:
        return not_applicable("The target's own layers.")
    target = pair.target
    certain = head.confidence not in UNSURE
    evidence: Evidence = {"trained_for": head.target, "confidence": head.confidence}
    named = targets_of(head.target)
    if target.id in named:
        how = "" if certain else " (known from its name only)"
        return ok(f"The head was trained for {target.id}{how}.", certain=certain, kin="same", **evidence)
    if head.target == "unknown":
        message = "Which checkpoint the head was trained for is not known, and it drafts for that one only."
        return warn(message, 0.3, certain=False, **evidence)
    origin, certain = target.lineage, certain and sure(pair, "lineage")
    if origin.base_model in named:
        if origin.relation == "quantized":
            return ok(
                f"The target is a quantised copy of {origin.base_model}.", 0.9, certain=certain, kin="copy", **evidence
            )
        message = f"The head was trained for {head.target}, from which the target was made."
        return warn(message, 0.5, certain=certain, kin="base", **evidence)
    return _by_name(target, head.target, named, evidence)


def _by_name(target: ModelProfile, text: str, named: tuple[str, ...], evidence: Evidence) -> Outcome:
    """What names tell of two checkpoints; the nearest of several targets counts."""
    kin = min((kinship(target.id, name) for name in named), key=("tuning", "version", "size", "family").index)
    message = f"The head was trained for {text}, not for {target.id}"
    if kin == "tuning":
        return warn(f"{message}: a sibling, whose hidden states differ.", 0.4, certain=False, kin=kin, **evidence)
    if kin == "version":
        return warn(f"{message}: another model of the same size.", 0.25, certain=False, kin=kin, **evidence)
    return reject(f"{message}: another {kin}.", kin=kin, **evidence)


@lru_cache(maxsize=2048)
def kinship(one: str, other: str) -> str:
    """How far apart two ids are by their names: tuning, version, size or family.

    "family" is said only where no word is shared; a name without a size counts as of the same size.
    """
    ours, theirs = _parts(one), _parts(other)
    if ours[0] and theirs[0] and ours[0] != theirs[0]:
        return "size"
    if not ours[1] & theirs[1]:
        return "family"
    return "tuning" if ours[1:] == theirs[1:] else "version"


def _parts(model_id: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Sizes, words and version numbers in a name; words of tuning and dates are left out."""
    sizes, words, versions = set(), set(), set()
    for part in model_id.rpartition("/")[2].lower().replace("_", "-").split("-"):
        if _is_size(part):
            sizes.add(part)
        elif part not in TUNED and not (part.isdecimal() and len(part) >= 4):
            word = part.rstrip("0123456789.")
            if word and word != "v":
                words.add(word)
            if version := part[len(word) :]:
                versions.add(version)
    return frozenset(sizes), frozenset(words), frozenset(versions)


def _is_size(part: str) -> bool:
    """Whether a part of a name is a size: 8b, 1.7b, a3b, 350m, 8x7b, or a number of experts: 16e."""
    if part[-1:] == "e":
        return part[:-1].isdecimal()
    body = part[:-1].removeprefix("a").removeprefix("e").replace(".", "").replace("x", "")
    return part[-1:] in ("b", "m", "t") and body.isdecimal()


@rule("head-hidden-size", "heads", reads=("hidden_size",), about="head")
def head_hidden_size(pair: Pair) -> Outcome:
    """The head is as wide as the hidden states it reads.

    Why: an 8B's head has 4096 columns, a 70B's hidden states 8192: the first matrix product fails, in the better case
    at start, in the worse while a graph is captured.

    Exception: some heads have a width of their own and project (Gemma 4's assistants, MLP speculators, EAGLE-3 for
    Llama-3.3-70B); for the target they were published for that is no fault, though older engines stumble over it.

    Remedy: the head for this size.
    """
    head = pair.proposal.head
    if head is None:
        return not_applicable("The target's own layers.")
    ours, theirs = pair.target.hidden_size, head.hidden_size
    if ours is None or theirs is None:
        return skip("The width of head or target is not known.")
    evidence: Evidence = {"target": ours, "head": theirs}
    if ours == theirs:
        return ok(f"Both are {ours} wide.", **evidence)
    if pair.target.id in targets_of(head.target):
        return ok(
            f"The head has a width of its own, {theirs} against {ours}, and was published for this target.",
            0.8,
            certain=sure(pair, "target"),
            **evidence,
        )
    return reject(f"The head is {theirs} wide, the target's hidden states {ours}.", **evidence)


@rule("head-vocabulary", "heads", reads=("vocab_size", "draft_vocab_size"), about="head")
def head_vocabulary(pair: Pair) -> Outcome:
    """The head speaks its target's token ids.

    Why: a head stores rows for its target's vocabulary, or a shorter list with a map back to it (EAGLE-3: often 32000).
    Another number of rows means another target. Plug-ins that overwrite a shortened head with the target's own lose
    nearly all acceptance (25 to 2 % in one vLLM-Ascend version).

    Exception: rows may differ by padding; a shortened vocabulary costs the rare tokens it leaves out.

    Remedy: the head for this target, in an engine version that knows shortened vocabularies.
    """
    head = pair.proposal.head
    if head is None:
        return not_applicable("The target's own layers.")
    ours, theirs = pair.target.vocab_size, head.vocab_size
    if ours is None or theirs is None:
        return skip("The rows of head or target are not known.")
    evidence: Evidence = {"target": ours, "head": theirs, "draft_vocab_size": head.draft_vocab_size}
    if ours != theirs and pair.target.id not in targets_of(head.target):
        return reject(f"The head was made for {theirs} token ids, the target has {ours}.", **evidence)
    if head.draft_vocab_size is not None and head.draft_vocab_size < ours:
        return ok(
            f"The head drafts from {head.draft_vocab_size} of {ours} tokens by a map.", 0.9, reduced=True, **evidence
        )
    if ours != theirs:
        message = f"The head has {theirs} rows, its target {ours}."
        return warn(message, 0.6, certain=sure(pair, "target"), reduced=False, **evidence)
    return ok(f"Both have {ours} rows.", reduced=False, **evidence)


@rule("head-not-a-draft", "heads", reads=("head_for",))
def head_not_a_draft(pair: Pair) -> Outcome:
    """What is given as a draft model can run on its own.

    Why: EAGLE, MTP and DFlash checkpoints have no embedding of their own and need the target's hidden states at every
    step. Loaded as a model they fail on unknown types and shapes, or run and accept nothing.

    Exception: PARD drafts are whole models, trained to guess several tokens at once; they need an engine that lets
    them.

    Remedy: name the head's own method (eagle3, mtp, dflash …) instead of draft_model.
    """
    draft = pair.draft
    if draft is None:
        return not_applicable("No draft model.")
    if draft.head_for is None and not draft.form_known:
        return skip("Whether the draft runs on its own is not known.")
    if draft.head_for is None:
        return ok("The draft runs on its own.")
    if draft.variant == "draft" or pair.method == "pard":
        return ok("The draft was made for one target and runs on its own.")
    whom = "" if draft.head_for == "unknown" else f" for {draft.head_for}"
    return reject(f"{draft.id} is a head{whom}, not a model that runs on its own.", head_for=draft.head_for)


@rule("mtp-layers", "heads", reads=("num_nextn_predict_layers",), about="head")
def mtp_layers(pair: Pair) -> Outcome:
    """The target carries the MTP layers that are to draft.

    Why: the method mtp runs layers that the maker trained with the model (DeepSeek-V3: one, Qwen3.5: one). Checkpoints
    converted or quantised by others often lack them, and the engine then starts without a gain or not at all.

    Exception: MTP layers published as a checkpoint of their own are judged as a head.

    Remedy: the maker's own checkpoint, or another method.
    """
    if pair.method != "mtp" or pair.proposal.head is not None:
        return not_applicable("Not drafted by the target's own layers.")
    layers = pair.target.num_nextn_predict_layers
    if layers is None:
        return skip("Whether the target has MTP layers is not known.")
    if layers == 0:
        return reject("The target has no MTP layers.", layers=0)
    return ok(f"The target has {layers} MTP layer{'s' if layers > 1 else ''} of its own.", layers=layers)
