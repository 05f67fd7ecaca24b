"""Rules about size: roles, ratio, depth, experts, and how many tokens to draft."""

from __future__ import annotations

from math import log

from draftpick.choices import LIMITS
from draftpick.models.profile import ModelProfile
from draftpick.pair import Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, reject, rule, skip, sure, warn
from draftpick.rules.engines_say import engine_name, longest_draft
from draftpick.rules.figures import SIZES, STORED, bytes_ratio, count, kept_share, read_ratio, times

LOW = LIMITS["size-ratio.low"]
IDEAL_LOW = LIMITS["size-ratio.ideal-low"]
IDEAL_HIGH = LIMITS["size-ratio.ideal-high"]
HIGH = LIMITS["size-ratio.high"]
FADE = LIMITS["size-ratio.fade"]
FLOOR = LIMITS["size-ratio.floor"]
MOST_KEPT = LIMITS["swapped-roles.most-kept"]
FEWER_BYTES = LIMITS["swapped-roles.fewer-bytes"]
SMALL = LIMITS["target-size.small"]
SHALLOW = LIMITS["depth.shallow"]
DEEP = LIMITS["depth.deep"]
MOE_LONG = LIMITS["moe-verify.long"]
ASSUMED = int(LIMITS["draft-length.assumed"])
LONG = LIMITS["draft-length.long"]
REUSE = LIMITS["draft-length.reuse"]


@rule("swapped-roles", "size", reads=SIZES)
def swapped_roles(pair: Pair) -> Outcome:
    """The draft is the smaller of the two.

    Why: a draft that reads as many weights per token as its target costs a target's step for each guess. Somebody who
    gave a 0.5B as target and its 7B as draft got 10 to 12 tokens per second where the 7B alone made 50.

    Exception: a copy of like size in far fewer bits is not swapped but weak: size-ratio and self-draft judge it. A
    sparse target is compared by the parameters one token touches, not by all of them. A sparse draft is held against
    what it keeps in memory too: above half of the target's weights it warns, and such a draft never comes first.

    Remedy: exchange the two names, or take a smaller draft. A sparse target this fast may need none.
    """
    draft = pair.draft
    target_read, draft_read = pair.target.params_read, draft.params_read if draft is not None else None
    if draft is None or not target_read or not draft_read:
        return skip("The parameters read per token are not known on both sides.")
    ratio = target_read / draft_read
    evidence: Evidence = {"target_read": target_read, "draft_read": draft_read, "ratio": round(ratio, 3)}
    sizes = f"the draft reads {count(draft_read)} parameters per token, the target {count(target_read)}"
    if ratio > 1:
        share = kept_share(pair)
        if share is not None and share > MOST_KEPT:
            return warn(
                f"The draft keeps {share:.0%} of the target's weights in memory, beside the target's own: {sizes}.",
                0.1,
                certain=sure(pair, *STORED),
                kept_share=round(share, 2),
                **evidence,
            )
        return ok(f"The draft is the smaller one: {sizes}.", **evidence)
    in_bytes = bytes_ratio(pair)
    if in_bytes is not None and in_bytes * FEWER_BYTES > 1:
        message = f"Of like size, but the draft reads {times(in_bytes)} times fewer bytes."
        return ok(message, 0.5, certain=sure(pair, *STORED), **evidence)
    if pair.target.id == draft.id or (ratio == 1 and _same_model(pair.target, draft)):
        return not_applicable("Target and draft are one model: see self-draft.")
    if (draft.params_total or draft_read) < (pair.target.params_total or target_read):
        against = "Against a target this sparse the" if pair.target.params_active is not None else "The"
        return reject(f"{against} draft is not smaller: {sizes}.", **evidence)
    return reject(f"The draft is not smaller than its target, did you swap them? Here {sizes}.", **evidence)


@rule("self-draft", "size", reads=("quantization",))
def self_draft(pair: Pair) -> Outcome:
    """The draft is another model than the target.

    Why: a model drafting for itself agrees with itself and costs a full step per guess, so it loses what verification
    costs. The same weights in fewer bits gain at most the ratio of bytes: an 8B in 4.3 bits drafted by its own 2.4-bit
    copy did not get faster.

    Exception: none; layers of the target itself are another method (mtp, medusa).

    Remedy: a smaller sibling, a head for this target, or n-gram lookup.
    """
    draft, target = pair.draft, pair.target
    if draft is None:
        return not_applicable("No draft model.")
    stored = pair.setting.quantization or target.quantization, pair.setting.draft_quantization or draft.quantization
    if target.id == draft.id and target.path == draft.path and stored[0] == stored[1]:
        return reject(f"{draft.id} is the target itself.", same=True)
    copy = _copy_of(target, draft)
    if copy is None:
        if not _told_apart(target, draft):
            return skip("Whether the draft is another model than the target is not known: nothing tells them apart.")
        return ok("The draft is another model than the target.")
    ratio = bytes_ratio(pair)
    message = f"The draft is the target in another storage format ({copy}) and {_bytes_beside(ratio)}."
    certain = "shape" not in copy and (copy != BY_CARD or sure(pair, "lineage"))
    return warn(message, 0.1, certain=certain, bytes_ratio=round(ratio, 2) if ratio is not None else None)


def _bytes_beside(ratio: float | None) -> str:
    """What a copy reads beside its target, from the target's bytes over its own."""
    if ratio is None:
        return "differs only in how its weights are stored"
    if ratio > 1:
        return f"reads {times(ratio)} times fewer bytes"
    return "reads as many bytes" if ratio == 1 else f"reads {times(1 / ratio)} times as many bytes"


BY_CARD = "by its card"


def _copy_of(target: ModelProfile, draft: ModelProfile) -> str | None:
    """How draft and target are copies of one model; None where nothing says so."""
    if target.id == draft.id:
        return "the same repository"
    sources = {_source(target), _source(draft)}
    if len(sources) == 1:
        return BY_CARD
    if target.quantization != draft.quantization and _same_model(target, draft):
        return "by its shape"
    return None


def _told_apart(target: ModelProfile, draft: ModelProfile) -> bool:
    """Whether names of published models or shapes say that these are two; paths of files say nothing."""
    if all(side.path is None or side.origin in ("cache", "hub") for side in (target, draft)):
        return True
    return any(
        ours is not None and theirs is not None and ours != theirs
        for ours, theirs in zip(_shape(target), _shape(draft), strict=True)
    )


def _source(model: ModelProfile) -> str:
    """The model a quantised copy was made from, or the model."""
    lineage = model.lineage
    return lineage.base_model if lineage.relation == "quantized" and lineage.base_model else model.id


def _same_model(one: ModelProfile, other: ModelProfile) -> bool:
    """Whether two profiles have one shape and nothing that tells them apart."""
    shape = _shape(one)
    return (
        None not in shape
        and shape == _shape(other)
        and (one.family, one.generation, one.variant) == (other.family, other.generation, other.variant)
        and one.name.split("-")[:2] == other.name.split("-")[:2]
    )


def _shape(model: ModelProfile) -> tuple[int | None, ...]:
    return (
        model.num_hidden_layers,
        model.hidden_size,
        model.intermediate_size,
        model.num_attention_heads,
        model.vocab_size,
    )


@rule("size-ratio", "size", reads=(*SIZES, "experts"))
def size_ratio(pair: Pair) -> Outcome:
    """The target reads 5 to 10 times the parameters of its draft.

    Why: below 3 times the draft's own steps eat the gain (a 2x pair lost 12 % at 66 % accepted); above 15 times the
    draft tends to guess less well. Counted is what one token reads: active experts and the lm_head, since a tied matrix
    is read at each step too and a sparse target is fast already (17B active with a 9B draft: 35 % slower). A sparse
    draft reads little, yet keeps all its experts in memory: there both ratios count.

    Exception: this is a custom, not a law. In 141 published groups of drafts the one nearest to 7x won 34 times and the
    smallest of the same tokenizer 78 times: a large ratio lowers the score and never rejects. On a laptop small drafts
    do better, on a data-centre card the depth counts for more.

    Remedy: a smaller sibling below 3x; above 15x try the next larger one as well, and measure.
    """
    ratio = read_ratio(pair)
    if ratio is None:
        return skip("The parameters read per token are not known on both sides.")
    band = _band(ratio)
    in_bytes = bytes_ratio(pair)
    evidence: Evidence = {
        "ratio": round(ratio, 2),
        "bytes_ratio": round(in_bytes, 2) if in_bytes is not None else None,
        "band": band,
        "basis": "active" if pair.target.is_moe else "all",
    }
    read = f"The target reads {times(ratio)} times the parameters of its draft"
    if pair.target.is_moe:
        read += " (active experts only)"
    kept = _kept_ratio(pair)
    if kept is not None and kept < LOW <= ratio:
        return warn(
            f"{read}, but all its experts stay in memory: {1 / kept:.0%} of the target's parameters.",
            min(ratio_score(ratio), max(ratio_score(kept), 0.1)),
            kept_ratio=round(kept, 2),
            **evidence,
        )
    if band == "low":
        return warn(f"{read}: below {LOW:g} times the draft's steps eat the gain.", ratio_score(ratio), **evidence)
    if band == "high":
        return warn(f"{read}: above {HIGH:g} times acceptance tends to fall.", ratio_score(ratio), **evidence)
    if band == "ideal":
        return ok(f"{read}, as is customary.", **evidence)
    side = "below" if band == "below-ideal" else "above"
    return ok(f"{read}, a little {side} the customary {IDEAL_LOW:g} to {IDEAL_HIGH:g}.", ratio_score(ratio), **evidence)


def _kept_ratio(pair: Pair) -> float | None:
    """How many times the weights of a sparse draft the target keeps in memory; None for a dense draft."""
    draft = pair.draft
    if draft is None or not draft.is_moe or not draft.params_total or not pair.target.params_total:
        return None
    return pair.target.params_total / draft.params_total


def _band(ratio: float) -> str:
    if ratio < LOW:
        return "low"
    if ratio < IDEAL_LOW:
        return "below-ideal"
    if ratio <= IDEAL_HIGH:
        return "ideal"
    return "above-ideal" if ratio <= HIGH else "high"


def ratio_score(ratio: float) -> float:
    """0 … 1: rises to the ideal range, then falls slowly, never below a floor."""
    if ratio <= 1:
        return 0.0
    if ratio < LOW:
        return 0.5 * (ratio - 1) / (LOW - 1)
    if ratio < IDEAL_LOW:
        return 0.5 + 0.5 * (ratio - LOW) / (IDEAL_LOW - LOW)
    if ratio <= IDEAL_HIGH:
        return 1.0
    return max(1 - FADE * log(ratio / IDEAL_HIGH) ** 2, FLOOR)


@rule("target-size", "size", reads=SIZES)
def target_size(pair: Pair) -> Outcome:
    """The target is large enough to be worth a draft model.

    Why: below some 3 billion parameters read per token a step is mostly launches, which a draft model pays as well:
    SmolLM2-1.7B with a 135M draft became 30 % slower in spite of very high acceptance. Sparse targets with 3B active
    were as fast alone as a dense 14B with a draft.

    Exception: on CPUs and laptops even a small target is bound by its weights.

    Remedy: n-gram lookup, the model's own MTP layers, or no speculation.
    """
    read = pair.target.params_read
    if read is None:
        return skip("How many parameters the target reads per token is not known.")
    if read < SMALL:
        message = f"The target reads only {count(read)} parameters per token: a draft model has little to win."
        return warn(message, 0.1 + 0.6 * read / SMALL, target_read=read)
    return ok(f"The target reads {count(read)} parameters per token.", target_read=read)


@rule("depth", "size", reads=("num_hidden_layers",))
def depth(pair: Pair) -> Outcome:
    """The draft has far fewer layers than the target.

    Why: at small batches a step costs launches per layer as much as bytes, so a deep, narrow draft is slow whatever its
    size: on an Atlas 800I A2 a 4B draft (36 layers) costs 0.53 of a 32B target's step (64 layers), on a GB200 a 0.6B
    draft (28 layers) 0.32 of it.

    Exception: engines that run the draft as one graph, and devices bound by bandwidth, follow size more than depth.

    Remedy: the shallower of two drafts (Llama-3.2-1B has 16 layers, Qwen3-0.6B 28), or a head of one layer.
    """
    target = pair.target.num_hidden_layers
    draft = pair.draft.num_hidden_layers if pair.draft is not None else None
    if not target or not draft:
        return skip("The number of layers is not known on both sides.")
    share = draft / target
    evidence: Evidence = {"target_layers": target, "draft_layers": draft, "share": round(share, 3)}
    message = f"The draft has {draft} layers against the target's {target}"
    score = 1.0 if share <= SHALLOW else max(1 - 0.9 * (share - SHALLOW) / (1 - SHALLOW), 0.1)
    if share > DEEP:
        return warn(
            f"{message}: where launches dominate, its step costs about {share:.2f} of a target's.", score, **evidence
        )
    return ok(f"{message}.", score, **evidence)


@rule("moe-verify", "size", reads=("experts",), about="any")
def moe_verify(pair: Pair) -> Outcome:
    """A sparse target verifies few tokens at once.

    Why: each verified token picks its own experts, so a pass over k+1 tokens reads more weights than one over a single
    token: up to E·(1 − (1 − top_k/E)^(k+1)) experts per layer with even routing. Six steps and 32 drafted tokens gave
    Qwen3-30B-A3B nothing; offloaded experts gained nothing at 85 % accepted.

    Exception: real routing repeats itself, so the figure is an upper bound. At large batches all experts are read
    anyhow, with or without drafts.

    Remedy: at most 4 drafted tokens, the model's own MTP layers, and a measurement before a decision.
    """
    experts = pair.target.experts
    if experts is None:
        dense = pair.target.params_active is None and pair.target.form_known
        return not_applicable("The target is dense." if dense else "The target's expert layout is not known.")
    k = pair.setting.num_spec_tokens or ASSUMED
    touched = experts.num_experts * (1 - (1 - experts.experts_per_token / experts.num_experts) ** (k + 1))
    factor = touched / experts.experts_per_token
    evidence: Evidence = {
        "k": k,
        "experts": experts.num_experts,
        "experts_read": round(touched, 1),
        "factor": round(factor, 2),
    }
    each, every = experts.experts_per_token, experts.num_experts
    if pair.setting.num_spec_tokens is None:
        message = f"Every drafted token reads up to {each} more of {every} experts per layer when it is verified"
    else:
        drafted = f"{k} drafted {'token' if k == 1 else 'tokens'}"
        message = f"Verifying {drafted} reads up to {touched:.0f} of {every} experts per layer, not {each}"
    if k > MOE_LONG:
        return warn(f"{message}: {k} is too many for a sparse target.", 0.2, too_many=True, **evidence)
    return warn(f"{message}.", 0.7, too_many=False, **evidence)


@rule("draft-length", "size", reads=("num_nextn_predict_layers",), about="any")
def draft_length(pair: Pair) -> Outcome:
    """The number of drafted tokens suits method and engine.

    Why: an MTP layer predicts one step; run again it is off its training, and vLLM wants a multiple of the layers. What
    is then accepted falls from token to token: by 4 % with Qwen3.5 and GLM-5.2, by a tenth with DeepSeek-V3, to next to
    nothing with GLM-4.6. Past the best k each further guess costs a draft step and is seldom reached. Ascend's
    attention operator takes 16 tokens in a decode round, so engines there stop near 14.

    Exception: methods that guess a block at once, and confidence stops (llama.cpp's p-min), stand a larger maximum.

    Remedy: 1 to 3 for one MTP layer, 3 to 5 for a draft model, and what a measurement says after that.
    """
    k = pair.setting.num_spec_tokens
    if k is None:
        return not_applicable("No number of drafted tokens was asked for.")
    cap = longest_draft(pair)
    if cap is not None and k > cap:
        return warn(f"{k} drafted tokens are more than {engine_name(pair)} takes: {cap}.", 0.1, k=k, cap=cap)
    if pair.method == "mtp":
        return _mtp_length(pair, k)
    trained = pair.proposal.head.num_spec_tokens if pair.proposal.head is not None else None
    if trained is not None and k > trained:
        return warn(f"The head was trained to draft {trained} tokens, not {k}.", 0.4, k=k, trained=trained)
    if k > LONG:
        return warn(f"{k} drafted tokens are seldom best: past {LONG:g} most are thrown away.", 0.4, k=k)
    return ok(f"{k} drafted {'token is' if k == 1 else 'tokens are'} in the customary range.", k=k)


def _mtp_length(pair: Pair, k: int) -> Outcome:
    head = pair.proposal.head
    layers = pair.target.num_nextn_predict_layers or (head.num_hidden_layers if head is not None else None)
    if not layers:
        return skip("How many MTP layers there are is not known.", k=k)
    evidence: Evidence = {"k": k, "layers": layers}
    if k > layers and k % layers:
        return warn(f"{k} drafted tokens are no multiple of {layers} MTP layers.", 0.2, divisible=False, **evidence)
    if k > layers * REUSE:
        each = "the one MTP layer" if layers == 1 else f"each of {layers} MTP layers"
        return warn(f"{k} drafted tokens use {each} {k // layers} times.", 0.4, **evidence)
    if k > layers:
        return warn(f"Past token {layers} an MTP layer is used again, off its training.", 0.7, **evidence)
    fits = "drafted token fits" if k == 1 else "drafted tokens fit"
    return ok(f"{k} {fits} {layers} MTP layer{'s' if layers > 1 else ''}.", **evidence)
