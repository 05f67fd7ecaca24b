"""Rules about form: architecture, storage, number format, files, and how heads divide over devices."""

from __future__ import annotations

from draftpick.choices import LIMITS
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Device, Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, reject, rule, skip, sure, warn
from draftpick.rules.engines_say import (
    draft_inherits_quantization,
    draft_must_split_alike,
    engine_name,
    reads_gguf,
    splits_layers,
)
from draftpick.rules.figures import SIZES, bits_per_weight, count

SHARDED = LIMITS["tensor-parallel.sharded"]
SHARE = LIMITS["tensor-parallel.share"]


@rule("architecture", "architecture", reads=("architecture",))
def architecture(pair: Pair) -> Outcome:
    """Draft and target have the same architecture.

    Why: one architecture mostly means one code path, one cache layout and one set of quirks in the engine. It does not
    mean one vocabulary (Llama 2 and Llama 3 differ), and another architecture with the same tokenizer works well: it
    acts through cost, which other rules count.

    Exception: engines that run only some architectures as draft say so in their verdict.

    Remedy: none needed; compare tokenizers, not class names.
    """
    target, draft = pair.target.architecture, pair.draft.architecture if pair.draft is not None else None
    if target is None or draft is None:
        return skip("The architecture is not known on both sides.")
    if target == draft:
        return ok(f"Both are {target}.", target=target, draft=draft)
    message = f"The target is {target}, the draft {draft}: no matter where the tokenizers agree."
    return ok(message, 0.8, target=target, draft=draft)


@rule("tensor-parallel", "architecture", reads=("num_attention_heads", "num_key_value_heads", "latent"), about="any")
def tensor_parallel(pair: Pair) -> Outcome:
    """Attention heads divide by the number of devices, on both sides.

    Why: tensor parallelism gives each device whole heads. Qwen2.5-0.5B has 14 heads and runs on 1, 2, 7 or 14 devices
    only; vLLM and vLLM-Ascend want a draft model split as its target is, so with a target on 4 devices it does not
    start.

    Exception: where the draft may run on one device, it needs no dividing. KV heads are copied where there are fewer
    of them than devices. A small draft over many devices starts, but spends its step on all-reduces.

    Remedy: a draft whose heads divide (Qwen2.5-1.5B has 12), another number of devices, or an engine with a split of
    its own for the draft.
    """
    size = pair.setting.tensor_parallel_size
    if size <= 1:
        return not_applicable("One device.")
    if splits_layers(pair):
        return not_applicable(f"{engine_name(pair)} gives each device whole layers: no heads have to divide.")
    heads = pair.target.num_attention_heads
    if heads is None:
        return skip("The target's number of heads is not known.")
    if _odd_heads(pair.target, size):
        message = f"The target's {_heads(pair.target)} do not divide by {size} devices."
        return reject(message, side="target", heads=heads, tensor_parallel_size=size)
    if pair.draft is None:
        return ok(f"The target's {heads} heads divide by {size} devices.", heads=heads, tensor_parallel_size=size)
    return _draft_split(pair, pair.draft, size)


def _draft_split(pair: Pair, draft: ModelProfile, size: int) -> Outcome:
    heads = draft.num_attention_heads
    if heads is None:
        return skip("The draft's number of heads is not known.")
    evidence: Evidence = {"side": "draft", "heads": heads, "tensor_parallel_size": size}
    if _odd_heads(draft, size):
        message = f"The draft's {_heads(draft)} do not divide by {size} devices"
        if draft_must_split_alike(pair):
            return reject(f"{message}, and {engine_name(pair)} splits it as the target.", **evidence)
        return warn(f"{message}: it runs only where it may stay on one.", 0.3, **evidence)
    read = draft.params_read
    if size >= SHARDED and read is not None and read / size < SHARE:
        each = count(read / size)
        message = f"Both divide by {size} devices, but with {each} of the draft on each its step is mostly all-reduce."
        return ok(message, 0.8, certain=sure(pair, *SIZES), oversharded=True, **evidence)
    return ok(f"Both numbers of heads divide by {size} devices.", oversharded=False, **evidence)


def _sides(pair: Pair) -> list[tuple[str, ModelProfile]]:
    """Target and, where there is one, draft model, by name."""
    if pair.draft is None:
        return [("target", pair.target)]
    return [("target", pair.target), ("draft", pair.draft)]


def _odd_heads(model: ModelProfile, size: int) -> bool:
    """Whether a model's heads cannot be dealt out evenly; fewer KV heads than devices are copied."""
    heads, kv = model.num_attention_heads, model.num_key_value_heads
    if heads is not None and heads % size:
        return True
    if kv is None or model.latent is not None:
        return False
    return bool(kv % size if kv >= size else size % kv)


def _heads(model: ModelProfile) -> str:
    kv = model.num_key_value_heads
    return f"{model.num_attention_heads} heads" + (f" ({kv} for KV)" if kv is not None else "")


@rule("dtype", "architecture", reads=("dtype", "quantization"), about="any")
def dtype(pair: Pair) -> Outcome:
    """The device computes in the format the weights are published in.

    Why: Atlas 300I (310P) and the first Ascend 910 have no bfloat16. Weights published in it run in float16 there,
    whose largest number is 65504: activations that were fine overflow to infinity, first in long contexts, and a draft
    then guesses noise. FP8 weights need units of their own.

    Exception: float16 models lose nothing; quantised integer weights keep their own path.

    Remedy: `--dtype float16` and a probe that watches for infinite logits; for FP8 the unquantised or an INT8
    checkpoint.
    """
    device = pair.setting.device
    if device is None:
        return not_applicable("No device was named.")
    if device.fp8 is False and (side := _side_in_fp8(pair)) is not None:
        return warn(f"The {side} is in FP8, for which {device.name} has no units.", 0.3, side=side, lacks="fp8")
    if device.bf16 is None:
        return skip(f"Whether {device.name} has bfloat16 is not known.")
    if device.bf16:
        return ok(f"{device.name} has bfloat16.")
    return _without_bfloat16(pair, device)


def _without_bfloat16(pair: Pair, device: Device) -> Outcome:
    lacks = f"{device.name} lacks bfloat16"
    if pair.setting.dtype == "bfloat16":
        return warn(f"{lacks}: float16 is needed, which may overflow.", 0.2, side="setting", lacks="bfloat16")
    formats = [(side, model.dtype) for side, model in _sides(pair)]
    for side, stored in formats:
        if stored == "bfloat16":
            message = f"{lacks}, in which the {side} is published: float16 is needed, which may overflow."
            return warn(message, 0.5, side=side, lacks="bfloat16")
    if any(stored is None for _, stored in formats):
        return skip("The published number format is not known on both sides.")
    return ok(f"{lacks}, which neither side needs.")


def _side_in_fp8(pair: Pair) -> str | None:
    asked = pair.setting
    if "fp8" in (asked.quantization or pair.target.quantization or ""):
        return "target"
    own = pair.draft.quantization if pair.draft is not None else None
    return "draft" if "fp8" in (asked.draft_quantization or own or "") else None


@rule("quantization", "architecture", reads=("quantization", "dtype"), about="any")
def quantization(pair: Pair) -> Outcome:
    """Target and draft are stored in formats that go together.

    Why: vLLM-Ascend gives the draft its target's quantisation, whatever the draft is, so a W8A8 target with a bfloat16
    draft needs care. A quantised target leaves less to win: a CodeLlama-34B gained 3x in F16, 1.5x in Q8 and nothing in
    Q4_K with the same 7B draft. MTP layers of a copy that a third party quantised often accept nothing.

    Exception: a quantised draft costs little acceptance as long as its KV cache keeps 8 bits or more.

    Remedy: keep drafts and MTP layers unquantised or at 8 bits; on Ascend quantise both alike or neither.
    """
    target = pair.setting.quantization or pair.target.quantization
    draft = pair.setting.draft_quantization or (pair.draft.quantization if pair.draft is not None else None)
    evidence: Evidence = {"target": target, "draft": draft}
    cache = bits_per_weight(pair.setting.kv_cache_dtype, None)
    if cache is not None and cache < 8 and pair.method not in DRAFT_FREE:
        message = f"The KV cache is kept in {pair.setting.kv_cache_dtype}: below 8 bits a draft loses acceptance."
        return warn(message, 0.4, cache=pair.setting.kv_cache_dtype, **evidence)
    if pair.method == "mtp" and _mtp_in_doubt(pair):
        message = (
            f"The target is quantised ({target or 'format not known'}): see that its MTP layers were left as they were."
        )
        certain = pair.setting.quantization is not None or sure(pair, "lineage")
        return warn(message, 0.5, certain=certain, **evidence)
    if pair.draft is not None and target != draft and draft_inherits_quantization(pair):
        given = f"{target or 'none'}, not {draft or 'none'}"
        message = f"{engine_name(pair)} gives the draft its target's quantisation: {given}."
        return warn(message, 0.35, inherits=True, **evidence)
    if draft is not None and pair.draft is None and pair.method not in DRAFT_FREE:
        return warn(
            f"The head is to be quantised to {draft}: some engines load it so and accept nothing.", 0.4, **evidence
        )
    bits = bits_per_weight(draft, None)
    if pair.draft is not None and bits is not None and bits < 4.5 and not _gguf(draft or ""):
        message = f"The draft is quantised to {draft}: a small model loses more by that than a large one."
        return warn(message, 0.7, **evidence)
    return _target_bits(target, pair.target.form_known, evidence)


def _mtp_in_doubt(pair: Pair) -> bool:
    """Whether somebody else may have quantised the MTP layers; FP8 and FP4 are formats that makers publish in."""
    if pair.setting.quantization is not None or pair.target.lineage.relation == "quantized":
        return True
    own = pair.target.quantization
    return own is not None and "fp8" not in own and "fp4" not in own


def _target_bits(target: str | None, known: bool, evidence: Evidence) -> Outcome:
    if target is not None and _gguf(target) and (bits_per_weight(target, None) or 16) < 5:
        message = (
            f"The target is stored as {target}: small-batch kernels verify several rows at nearly their number's cost."
        )
        return warn(message, 0.5, **evidence)
    if target is not None:
        return ok(f"The target is quantised ({target}), which leaves a little less to win.", 0.85, **evidence)
    if not known:
        return skip("Whether the target is quantised is not known.", **evidence)
    return ok("The target is not quantised.", **evidence)


def _gguf(quantization: str) -> bool:
    return quantization.startswith("gguf")


@rule("file-format", "architecture", reads=("quantization",), about="any")
def file_format(pair: Pair) -> Outcome:
    """The engine can read the files of both sides.

    Why: a GGUF file is for llama.cpp and what builds on it. vLLM reads some of them, experimentally and as a target; a
    GGUF target with a plain draft failed on a quantised head tensor. Engines on Ascend read none.

    Exception: where a model is published in both forms, the other repository serves the other engine.

    Remedy: take the safetensors repository for vLLM and its kin, and a converted GGUF for llama.cpp.
    """
    if pair.setting.engine is None:
        return not_applicable("No engine was named.")
    sides = [side for side, model in _sides(pair) if _is_gguf(model)]
    name, reads = pair.setting.engine.name, reads_gguf(pair)
    if not sides:
        if reads == "only" and pair.method != "ngram":
            return ok(f"{name} wants GGUF files: convert both, or take a converted copy.", 0.9, gguf=[])
        return ok(f"{name} reads these files.", gguf=[])
    who, are = " and ".join(sides), "is" if len(sides) == 1 else "are"
    if reads == "only":
        return ok(f"{name} reads the GGUF file of the {who}.", gguf=sides)
    if pair.draft is not None and len(sides) == 1:
        return warn(f"The {who} is a GGUF file, the other side is not: {name} may not mix them.", 0.2, gguf=sides)
    if reads is None:
        return skip(f"Whether {name} reads GGUF files is not known.", gguf=sides)
    if reads == "some":
        return warn(f"{name} reads GGUF files in part: try the {who} before relying on it.", 0.4, gguf=sides)
    return warn(f"{name} reads no GGUF file, as the {who} {are}: take the safetensors repository.", 0.1, gguf=sides)


def _is_gguf(model: ModelProfile) -> bool:
    return model.origin == "gguf" or _gguf(model.quantization or "")


@rule("remote-code", "architecture", reads=("remote_code",), about="any")
def remote_code(pair: Pair) -> Outcome:
    """Neither side needs code of its own from its repository.

    Why: such code runs with the server's rights, so engines ask for `--trust-remote-code`. It also keeps its cache in a
    form nobody else knows: transformers' assisted generation could not trim Falcon's.

    Exception: many engines carry their own implementation and never run the code; draftpick never does.

    Remedy: read the code of that revision, pin it, and pass `--trust-remote-code`; or a model without it.
    """
    sides = [side for side, model in _sides(pair) if model.remote_code]
    if not sides:
        return ok("No code of its own.")
    names = "names code of its own" if len(sides) == 1 else "name code of their own"
    message = f"The {' and '.join(sides)} {names}, which has to be trusted."
    return warn(message, 0.8 if pair.setting.trust_remote_code else 0.6, sides=sides)
