"""What every rule says in each of its cases: the verdict in short, and the sentence that people read."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, device, draft, engine, head, head_pair, pair, says, target, tokenizer

from draftpick.models.profile import Experts, Lineage, ModelProfile
from draftpick.models.tokenizer import Difference, Relation, RelationKind
from draftpick.pair import Pair
from draftpick.rules import RULES, judge, load

SELF = "maker/Toy-2-7B-Instruct"
SPARSE = Experts(num_experts=128, experts_per_token=8)
SPARSE_DRAFT: dict[str, Any] = {"params_active": 1_000_000_000, "experts": SPARSE}
OLD = device(bf16=False, fp8=False)
INHERITS = engine(exceptions=[{"pair": {"quantization": "differ"}, "verdict": "care"}])
EQUAL = engine(tensor_parallel={"any": "equal"})
TRANSLATES = engine(vocabulary={"rule": "equal-rows", "bridge": {"name": "b"}})
YARN, LLAMA3 = "yarn 4 32768", "llama3 8 8192"
SEES = {"modality": "text+vision"}
MTP = target(num_nextn_predict_layers=2)
COPY = target(id="other/Toy-2-7B-W8A8", lineage=Lineage(base_model=SELF, relation="quantized"))
OTHER: dict[str, Any] = {
    "first_difference": Difference(id=260, target=" t", draft="er\n"),
    "same_ids": 270,
    "covered": 0.8,
}


def sized(billions: float, **changes: Any) -> ModelProfile:
    return draft(params_total=round(billions * 1e9), **changes)


def merged(how: Any) -> ModelProfile:
    """A target of somebody else, made in some way from the maker's."""
    return target(id="someone/Tuned-7B", lineage=Lineage(base_model="maker/Toy-2-7B", relation=how))


def related(kind: RelationKind, verified: bool = True, reason: str = "as read", **fields: Any) -> Relation:
    return Relation(kind=kind, verified=verified, reason=reason, **fields)


ANOTHER = "The draft is another model than the target."
NOT_TOLD_APART = "Whether the draft is another model than the target is not known: nothing tells them apart."
NO_FORM: dict[str, Any] = dict.fromkeys(
    (
        "architecture", "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size",
    )
)  # fmt: skip
NOT_TOLD = "Whether others changed the target is not known: nothing names the model it was made from."


def bare_folder(name: str, **changes: Any) -> ModelProfile:
    """A folder that holds a config.json and nothing else."""
    fields: dict[str, Any] = {
        "path": f"/models/{name.rpartition('/')[2]}",
        "family": None,
        "generation": None,
        "variant": None,
        "tokenizer": None,
        "license": None,
        "gated": None,
        "lineage": Lineage(),
    }
    return target(id=name, **{**fields, **changes})


SAID: dict[str, list[tuple[Pair, str, str]]] = {
    "architecture": [
        (pair(), "ok", "Both are ToyForCausalLM."),
        (
            pair(theirs=draft(architecture="Else")),
            "ok 0.8",
            "The target is ToyForCausalLM, the draft Else: no matter where the tokenizers agree.",
        ),
        (pair(target(architecture=None)), "skip", "The architecture is not known on both sides."),
        (pair(theirs=draft(architecture=None)), "skip", "The architecture is not known on both sides."),
        (head_pair(), "skip", "The architecture is not known on both sides."),
    ],
    "tensor-parallel": [
        (pair(), "n/a", "One device."),
        (
            pair(target(num_attention_heads=None), tensor_parallel_size=2),
            "skip",
            "The target's number of heads is not known.",
        ),
        (
            pair(target(num_attention_heads=40), tensor_parallel_size=16),
            "reject",
            "The target's 40 heads (8 for KV) do not divide by 16 devices.",
        ),
        (
            pair(target(num_attention_heads=40, num_key_value_heads=None), tensor_parallel_size=16),
            "reject",
            "The target's 40 heads do not divide by 16 devices.",
        ),
        (
            pair(target(num_key_value_heads=3), tensor_parallel_size=2),
            "reject",
            "The target's 32 heads (3 for KV) do not divide by 2 devices.",
        ),
        (
            pair(target(num_key_value_heads=3), tensor_parallel_size=4),
            "reject",
            "The target's 32 heads (3 for KV) do not divide by 4 devices.",
        ),
        (
            pair(target(num_key_value_heads=1), tensor_parallel_size=2),
            "ok",
            "Both numbers of heads divide by 2 devices.",
        ),
        (head_pair(tensor_parallel_size=2), "ok", "The target's 32 heads divide by 2 devices."),
        (
            pair(theirs=draft(num_attention_heads=None), tensor_parallel_size=2),
            "skip",
            "The draft's number of heads is not known.",
        ),
        (
            pair(theirs=draft(num_attention_heads=14), tensor_parallel_size=4),
            "warn 0.3",
            "The draft's 14 heads (8 for KV) do not divide by 4 devices: it runs only where it may stay on one.",
        ),
        (
            pair(theirs=draft(num_attention_heads=14), tensor_parallel_size=4, engine=EQUAL),
            "reject",
            "The draft's 14 heads (8 for KV) do not divide by 4 devices, and toy-engine splits it as the target.",
        ),
        (pair(tensor_parallel_size=2), "ok", "Both numbers of heads divide by 2 devices."),
        (
            pair(tensor_parallel_size=4),
            "ok 0.8",
            "Both divide by 4 devices, but with 250M of the draft on each its step is mostly all-reduce.",
        ),
        (pair(theirs=sized(10), tensor_parallel_size=4), "ok", "Both numbers of heads divide by 4 devices."),
        (
            pair(theirs=sized(9.99), tensor_parallel_size=4),
            "ok 0.8",
            "Both divide by 4 devices, but with 2.5B of the draft on each its step is mostly all-reduce.",
        ),
        (
            pair(theirs=draft(params_total=None), tensor_parallel_size=4),
            "ok",
            "Both numbers of heads divide by 4 devices.",
        ),
    ],
    "dtype": [
        (pair(), "n/a", "No device was named."),
        (pair(device=device()), "ok", "Toy NPU has bfloat16."),
        (pair(device=device(bf16=None)), "skip", "Whether Toy NPU has bfloat16 is not known."),
        (
            pair(target(quantization="fp8"), device=device(fp8=False)),
            "warn 0.3",
            "The target is in FP8, for which Toy NPU has no units.",
        ),
        (
            pair(theirs=draft(quantization="fp8"), device=device(fp8=False)),
            "warn 0.3",
            "The draft is in FP8, for which Toy NPU has no units.",
        ),
        (pair(theirs=draft(quantization="fp8"), device=device(fp8=None)), "ok", "Toy NPU has bfloat16."),
        (
            pair(quantization="fp8", device=device(fp8=False)),
            "warn 0.3",
            "The target is in FP8, for which Toy NPU has no units.",
        ),
        (
            pair(target(quantization="fp8"), quantization="int8", device=device(fp8=False)),
            "ok",
            "Toy NPU has bfloat16.",
        ),
        (
            pair(device=OLD),
            "warn 0.5",
            "Toy NPU lacks bfloat16, in which the target is published: float16 is needed, which may overflow.",
        ),
        (
            pair(device=OLD, dtype="bfloat16"),
            "warn 0.2",
            "Toy NPU lacks bfloat16: float16 is needed, which may overflow.",
        ),
        (
            pair(device=OLD, dtype="float16"),
            "warn 0.5",
            "Toy NPU lacks bfloat16, in which the target is published: float16 is needed, which may overflow.",
        ),
        (
            pair(target(dtype="float16"), device=OLD),
            "warn 0.5",
            "Toy NPU lacks bfloat16, in which the draft is published: float16 is needed, which may overflow.",
        ),
        (
            pair(target(dtype="float16"), draft(dtype="float16"), device=OLD),
            "ok",
            "Toy NPU lacks bfloat16, which neither side needs.",
        ),
        (
            pair(target(dtype="float16"), draft(dtype=None), device=OLD),
            "skip",
            "The published number format is not known on both sides.",
        ),
        (
            pair(target(dtype=None), device=OLD),
            "warn 0.5",
            "Toy NPU lacks bfloat16, in which the draft is published: float16 is needed, which may overflow.",
        ),
        (head_pair(target(dtype="float16"), device=OLD), "ok", "Toy NPU lacks bfloat16, which neither side needs."),
    ],
    "quantization": [
        (pair(bare_folder("./target", **NO_FORM)), "skip", "Whether the target is quantised is not known."),
        (pair(), "ok", "The target is not quantised."),
        (
            pair(target(quantization="w8a8")),
            "ok 0.85",
            "The target is quantised (w8a8), which leaves a little less to win.",
        ),
        (
            pair(kv_cache_dtype="int4"),
            "warn 0.4",
            "The KV cache is kept in int4: below 8 bits a draft loses acceptance.",
        ),
        (pair(kv_cache_dtype="fp8"), "ok", "The target is not quantised."),
        (bare_pair("ngram", kv_cache_dtype="int4"), "ok", "The target is not quantised."),
        (
            bare_pair("mtp", target(quantization="awq-int4")),
            "warn 0.5",
            "The target is quantised (awq-int4): see that its MTP layers were left as they were.",
        ),
        (
            bare_pair("mtp", target(quantization="fp8")),
            "ok 0.85",
            "The target is quantised (fp8), which leaves a little less to win.",
        ),
        (
            bare_pair("mtp", target(quantization="nvfp4")),
            "ok 0.85",
            "The target is quantised (nvfp4), which leaves a little less to win.",
        ),
        (
            bare_pair("mtp", COPY),
            "warn 0.5",
            "The target is quantised (format not known): see that its MTP layers were left as they were.",
        ),
        (
            bare_pair("mtp", quantization="int8"),
            "warn 0.5",
            "The target is quantised (int8): see that its MTP layers were left as they were.",
        ),
        (bare_pair("mtp"), "ok", "The target is not quantised."),
        (
            pair(target(quantization="w8a8"), engine=INHERITS),
            "warn 0.35",
            "toy-engine gives the draft its target's quantisation: w8a8, not none.",
        ),
        (
            pair(theirs=draft(quantization="w8a8"), engine=INHERITS),
            "warn 0.35",
            "toy-engine gives the draft its target's quantisation: none, not w8a8.",
        ),
        (
            pair(target(quantization="w8a8"), draft(quantization="w8a8"), engine=INHERITS),
            "ok 0.85",
            "The target is quantised (w8a8), which leaves a little less to win.",
        ),
        (
            head_pair(draft_quantization="int4"),
            "warn 0.4",
            "The head is to be quantised to int4: some engines load it so and accept nothing.",
        ),
        (bare_pair("ngram", draft_quantization="int4"), "ok", "The target is not quantised."),
        (
            pair(theirs=draft(quantization="awq-int4")),
            "warn 0.7",
            "The draft is quantised to awq-int4: a small model loses more by that than a large one.",
        ),
        (pair(theirs=draft(quantization="int8")), "ok", "The target is not quantised."),
        (pair(theirs=draft(quantization="q4_k")), "ok", "The target is not quantised."),
        (pair(theirs=draft(quantization="gguf-q2_k")), "ok", "The target is not quantised."),
        (pair(theirs=draft(quantization="odd")), "ok", "The target is not quantised."),
        (
            pair(target(quantization="gguf-q4_k_m")),
            "warn 0.5",
            "The target is stored as gguf-q4_k_m: small-batch kernels verify several rows at nearly their "
            "number's cost.",
        ),
        (
            pair(target(quantization="gguf-q5_k_m")),
            "ok 0.85",
            "The target is quantised (gguf-q5_k_m), which leaves a little less to win.",
        ),
        (
            pair(target(quantization="gguf-odd")),
            "ok 0.85",
            "The target is quantised (gguf-odd), which leaves a little less to win.",
        ),
    ],
    "file-format": [
        (pair(), "n/a", "No engine was named."),
        (pair(engine=engine(gguf="no")), "ok", "toy-engine reads these files."),
        (
            pair(engine=engine(gguf="only")),
            "ok 0.9",
            "toy-engine wants GGUF files: convert both, or take a converted copy.",
        ),
        (bare_pair("ngram", engine=engine(gguf="only")), "ok", "toy-engine reads these files."),
        (
            pair(target(origin="gguf"), draft(quantization="gguf-q8_0"), engine=engine(gguf="only")),
            "ok",
            "toy-engine reads the GGUF file of the target and draft.",
        ),
        (
            pair(target(origin="gguf"), engine=engine(gguf="some")),
            "warn 0.2",
            "The target is a GGUF file, the other side is not: toy-engine may not mix them.",
        ),
        (
            pair(target(origin="gguf"), draft(origin="gguf"), engine=engine(gguf="some")),
            "warn 0.4",
            "toy-engine reads GGUF files in part: try the target and draft before relying on it.",
        ),
        (
            pair(target(origin="gguf"), draft(origin="gguf"), engine=engine(gguf="no")),
            "warn 0.1",
            "toy-engine reads no GGUF file, as the target and draft are: take the safetensors repository.",
        ),
        (
            pair(target(origin="gguf"), draft(origin="gguf"), engine=engine()),
            "skip",
            "Whether toy-engine reads GGUF files is not known.",
        ),
        (
            head_pair(target(origin="gguf"), engine=engine(gguf="no")),
            "warn 0.1",
            "toy-engine reads no GGUF file, as the target is: take the safetensors repository.",
        ),
    ],
    "remote-code": [
        (pair(), "ok", "No code of its own."),
        (pair(target(remote_code=True)), "warn 0.6", "The target names code of its own, which has to be trusted."),
        (
            pair(theirs=draft(remote_code=True), trust_remote_code=True),
            "warn 0.8",
            "The draft names code of its own, which has to be trusted.",
        ),
        (
            pair(target(remote_code=True), draft(remote_code=True)),
            "warn 0.6",
            "The target and draft name code of their own, which has to be trusted.",
        ),
    ],
    "context-length": [
        (pair(), "ok", "The draft reaches 32768 tokens, 32768 are wanted."),
        (bare_pair("ngram"), "n/a", "The draft has no context of its own."),
        (bare_pair("mtp"), "n/a", "The draft has no context of its own."),
        (pair(theirs=draft(max_position_embeddings=None)), "skip", "The context length is not known on both sides."),
        (pair(target(max_position_embeddings=None)), "skip", "The context length is not known on both sides."),
        (
            pair(target(max_position_embeddings=None), max_model_len=32768),
            "ok",
            "The draft reaches 32768 tokens, 32768 are wanted.",
        ),
        (
            pair(max_model_len=32769),
            "warn 0.3",
            "The draft ends at 32768 tokens, 32769 were asked for: no gain beyond.",
        ),
        (
            pair(theirs=draft(max_position_embeddings=16384)),
            "warn 0.8",
            "The draft ends at 16384 tokens, the target at 32768: no gain beyond 16384.",
        ),
        (
            pair(theirs=draft(max_position_embeddings=16384), max_model_len=16384),
            "ok",
            "The draft reaches 16384 tokens, 16384 are wanted.",
        ),
        (
            pair(theirs=draft(max_position_embeddings=128)),
            "warn 0.2",
            "The draft ends at 128 tokens, the target at 32768: no gain beyond 128.",
        ),
        (
            head_pair(published=head(max_position_embeddings=2048)),
            "warn 0.5",
            "The draft ends at 2048 tokens, the target at 32768: no gain beyond 2048.",
        ),
    ],
    "rope-scaling": [
        (pair(bare_folder("./target", **NO_FORM)), "skip", "The rope scaling of at least one side is not known."),
        (pair(), "ok", "The same rope scaling: none."),
        (head_pair(), "n/a", "The draft has no rope scaling of its own that is known."),
        (bare_pair("ngram"), "n/a", "The draft has no rope scaling of its own that is known."),
        (
            head_pair(published=head(rope=YARN)),
            "warn 0.55",
            "The target's rope scaling is none, the draft's yarn 4 32768: agreement falls past 32768 tokens.",
        ),
        (pair(target(origin="catalogue")), "skip", "The rope scaling of at least one side is not known."),
        (pair(theirs=draft(origin="catalogue")), "skip", "The rope scaling of at least one side is not known."),
        (pair(target(rope=YARN), draft(rope=YARN)), "ok", "The same rope scaling: yarn 4 32768."),
        (
            pair(target(rope=YARN), draft(rope="yarn 2 32768")),
            "ok 0.95",
            "The same kind of rope scaling: yarn 4 32768 and yarn 2 32768.",
        ),
        (
            pair(target(rope=YARN)),
            "warn 0.55",
            "The target's rope scaling is yarn 4 32768, the draft's none: agreement falls past 32768 tokens.",
        ),
        (
            pair(target(rope=YARN), draft(rope=LLAMA3)),
            "warn 0.55",
            "The target's rope scaling is yarn 4 32768, the draft's llama3 8 8192: agreement falls past 8192 tokens.",
        ),
        (
            pair(target(rope=YARN), max_model_len=32768),
            "ok 0.9",
            "The rope scalings differ, but 32768 tokens are within the native 32768.",
        ),
        (
            pair(target(rope=YARN), max_model_len=32769),
            "warn 0.55",
            "The target's rope scaling is yarn 4 32768, the draft's none: agreement falls past 32768 tokens.",
        ),
        (
            pair(target(rope="odd"), draft(rope="strange")),
            "warn 0.55",
            "The target's rope scaling is odd, the draft's strange: agreement falls in long contexts.",
        ),
    ],
    "modality": [
        (pair(bare_folder("./target", **NO_FORM)), "skip", "Whether the target sees images is not known."),
        (pair(), "ok", "Text only."),
        (head_pair(), "n/a", "No draft model."),
        (pair(theirs=draft(**SEES)), "ok 0.9", "The draft's vision tower is of no use here."),
        (
            pair(target(**SEES)),
            "warn 0.6",
            "The target sees images, the draft only text: it guesses blindly about them.",
        ),
        (
            pair(target(**SEES), images=True),
            "warn 0.25",
            "The target sees images, the draft only text: it guesses blindly about them.",
        ),
        (pair(target(**SEES), images=False), "ok 0.95", "The target sees images, but no request carries any."),
        (
            pair(target(**SEES), draft(**SEES)),
            "warn 0.6",
            "Target and draft both see images: the engine must pass the image embeddings to both.",
        ),
        (
            pair(target(**SEES), draft(**SEES), images=True),
            "warn 0.4",
            "Target and draft both see images: the engine must pass the image embeddings to both.",
        ),
    ],
    "mrope": [
        (pair(bare_folder("./target", **NO_FORM)), "skip", "How positions run is not known on both sides."),
        (pair(), "ok", "Positions run along one axis on both sides."),
        (head_pair(), "n/a", "No draft model."),
        (
            pair(theirs=draft(mrope=True)),
            "warn 0.2",
            "The draft's positions have several axes (M-RoPE), which most engines refuse in a draft.",
        ),
        (
            pair(target(mrope=True)),
            "warn 0.7",
            "The target has M-RoPE, the draft has not: positions part after an image.",
        ),
        (pair(target(mrope=True), images=False), "ok 0.95", "The target has M-RoPE, which text alone does not use."),
    ],
    "recurrent-state": [
        (pair(bare_folder("./target", **NO_FORM)), "skip", "Whether a layer holds a recurrent state is not known."),
        (pair(), "ok", "No layer holds a recurrent state."),
        (pair(target(attention="unknown")), "skip", "Whether a layer holds a recurrent state is not known."),
        (pair(theirs=draft(attention="unknown")), "skip", "Whether a layer holds a recurrent state is not known."),
        (
            pair(target(attention="hybrid")),
            "warn 0.5",
            "The target holds a recurrent state that must be rolled back when a guess is rejected; not every"
            " engine can.",
        ),
        (
            pair(theirs=draft(attention="recurrent")),
            "warn 0.4",
            "The draft holds a recurrent state that must be rolled back when a guess is rejected; not every "
            "engine can.",
        ),
        (
            pair(target(attention="hybrid"), draft(attention="hybrid")),
            "warn 0.35",
            "The target and draft both hold a recurrent state that must be rolled back when a guess is "
            "rejected; not every engine can.",
        ),
        (
            bare_pair("ngram", target(attention="hybrid")),
            "warn 0.5",
            "The target holds a recurrent state that must be rolled back when a guess is rejected; not every"
            " engine can.",
        ),
        (
            bare_pair("mtp", target(attention="hybrid")),
            "warn 0.8",
            "The target holds a recurrent state that must be rolled back when a guess is rejected; engines "
            "made for its MTP layers do that.",
        ),
    ],
    "lineage": [
        (head_pair(), "n/a", "No draft model."),
        (pair(), "ok", "The same pre-training: Toy 2 pre-training."),
        (
            pair(theirs=draft(lineage=Lineage(base_model=SELF, relation="distill"))),
            "ok",
            "The draft was made from maker/Toy-2-7B-Instruct, the target's own stock.",
        ),
        (
            pair(
                target(lineage=Lineage(base_model="maker/Base")),
                draft(lineage=Lineage(base_model="maker/Base", relation="pruned")),
            ),
            "ok",
            "The draft was made from maker/Base, the target's own stock.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(base_model="maker/Else", relation="pruned"))),
            "ok 0.95",
            "One family and generation: Toy 2.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(base_model=SELF, relation="finetune"), family="Else")),
            "warn 0.35",
            "Other pre-training: the target is Toy 2, the draft Else 2.",
        ),
        (pair(theirs=draft(lineage=Lineage(), family=None)), "skip", "What both were trained on is not known."),
        (pair(target(family=None), draft(lineage=Lineage())), "skip", "What both were trained on is not known."),
        (pair(theirs=draft(lineage=Lineage())), "ok 0.95", "One family and generation: Toy 2."),
        (pair(theirs=draft(lineage=Lineage(), generation=None)), "ok 0.8 unsure", "One family, Toy."),
        (
            pair(theirs=draft(lineage=Lineage(), generation="1")),
            "warn 0.6",
            "One family, two generations: the target is Toy 2, the draft Toy 1.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), generation="2.5-x")),
            "warn 0.625",
            "One family, two generations: the target is Toy 2, the draft Toy 2.5-x.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), generation="9")),
            "warn 0.4",
            "One family, two generations: the target is Toy 2, the draft Toy 9.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), generation="new")),
            "warn 0.6",
            "One family, two generations: the target is Toy 2, the draft Toy new.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Toy-Coder")),
            "ok 0.85 unsure",
            "One stock, trained on for a subject: Toy 2 and Toy-Coder 2.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Toy-Coder", generation="3")),
            "warn 0.35",
            "Other pre-training: the target is Toy 2, the draft Toy-Coder 3.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Else")),
            "warn 0.35",
            "Other pre-training: the target is Toy 2, the draft Else 2.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Else", generation=None)),
            "warn 0.35",
            "Other pre-training: the target is Toy 2, the draft Else.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(stock="Toy", stock_generation="2"), family="Else")),
            "ok 0.75",
            "One stock: both go back to Toy 2.",
        ),
        (
            pair(
                target(lineage=Lineage(stock="Old", stock_generation="1")),
                draft(lineage=Lineage(stock="Old", stock_generation="1")),
            ),
            "ok 0.9",
            "One stock: both go back to Old 1.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(stock="Toy", stock_generation="1"), family="Else", variant="draft")),
            "warn 0.6",
            "The draft was published to draft for others of Toy 1.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(stock="Toy"), family="Else", variant="draft")),
            "ok 0.7",
            "The draft is Else 2, published to draft.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Else", variant="draft")),
            "ok 0.7",
            "The draft is Else 2, published to draft.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), family="Else", variant="draft", made_for=(SELF,))),
            "ok 0.95",
            "The draft is Else 2, published to draft.",
        ),
    ],
    "tuning": [
        (pair(), "ok", "Both are tuned to answer."),
        (
            pair(theirs=draft(uncertain=frozenset({"variant"}))),
            "ok unsure",
            "Both are tuned to answer (taken from catalogued models like them, not read from their files).",
        ),
        (
            pair(theirs=draft(uncertain=frozenset({"variant"}), origin="catalogue")),
            "ok",
            "Both are tuned to answer.",
        ),
        (head_pair(), "skip", "How both were tuned is not known."),
        (pair(target(variant=None)), "skip", "How both were tuned is not known."),
        (pair(theirs=draft(variant=None)), "skip", "How both were tuned is not known."),
        (pair(theirs=draft(variant="draft")), "ok", "The draft was published to draft."),
        (pair(target(variant="base"), draft(variant="coder-base")), "ok", "Both are base models."),
        (pair(theirs=draft(variant="base")), "warn 0.55", "A base model drafts for one that was tuned to answer."),
        (pair(target(variant="base")), "warn 0.65", "A tuned model drafts for a base model."),
    ],
    "subject": [
        (pair(), "ok", "Both are general models."),
        (head_pair(), "skip", "What both were specialised in is not known."),
        (pair(target(variant=None)), "skip", "What both were specialised in is not known."),
        (pair(theirs=draft(variant=None)), "skip", "What both were specialised in is not known."),
        (pair(target(variant="coder-instruct"), draft(variant="coder-base")), "ok", "Both are coder models."),
        (pair(target(variant="coder-instruct"), draft(variant="draft")), "ok", "The draft was published to draft."),
        (pair(target(variant="coder-instruct")), "warn 0.65", "The target is a coder model, the draft a general one."),
        (
            pair(target(variant="math-instruct"), draft(variant="coder-instruct")),
            "warn 0.65",
            "The target is a math model, the draft a coder one.",
        ),
        (pair(target(variant="vision-instruct")), "ok 0.85", "The target is a vision model, the draft a general one."),
        (
            pair(theirs=draft(variant="vision-instruct")),
            "ok 0.85",
            "The target is a general model, the draft a vision one.",
        ),
        (
            pair(target(variant="vision-instruct"), draft(variant="coder-instruct")),
            "warn 0.65",
            "The target is a vision model, the draft a coder one.",
        ),
    ],
    "thinking-mode": [
        (pair(), "ok", "Both have thinking off."),
        (head_pair(), "skip", "Whether both think aloud is not known."),
        (pair(theirs=draft(lineage=Lineage(), variant=None)), "skip", "Whether both think aloud is not known."),
        (pair(theirs=draft(lineage=Lineage(), variant="draft")), "skip", "Whether both think aloud is not known."),
        (pair(theirs=draft(lineage=Lineage(), variant="base")), "n/a", "A base model has no thinking mode."),
        (pair(theirs=draft(lineage=Lineage())), "ok unsure", "Both have thinking off."),
        (
            pair(theirs=draft(lineage=Lineage(thinking="on"))),
            "warn 0.4",
            "The target has thinking off, the draft on: the first part of an answer parts them.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(), variant="reasoning")),
            "warn 0.4 unsure",
            "The target has thinking off, the draft on: the first part of an answer parts them.",
        ),
        (
            pair(theirs=draft(lineage=Lineage(thinking="hybrid"))),
            "ok 0.85",
            "The draft can switch thinking to the other's mode.",
        ),
        (
            pair(target(lineage=Lineage(thinking="hybrid")), draft(lineage=Lineage(thinking="on"))),
            "ok 0.85",
            "The target can switch thinking to the other's mode.",
        ),
        (
            pair(target(lineage=Lineage(thinking="hybrid")), draft(lineage=Lineage(), variant="hybrid-reasoning")),
            "ok 0.95 unsure",
            "Both can switch thinking: serve them in one mode.",
        ),
        (
            pair(target(lineage=Lineage(thinking="on")), draft(lineage=Lineage(thinking="on"))),
            "ok",
            "Both have thinking on.",
        ),
    ],
    "changed-target": [
        (pair(), "ok", "The target was not changed by others."),
        (pair(bare_folder("./target")), "skip", NOT_TOLD),
        (pair(bare_folder("./target", origin="gguf")), "skip", NOT_TOLD),
        (pair(bare_folder("acme/target", origin="overlay")), "skip", NOT_TOLD),
        (pair(bare_folder("acme/target", origin="hub")), "skip", NOT_TOLD),
        (pair(bare_folder("acme/target", origin="catalogue")), "ok", "The target was not changed by others."),
        (pair(target(path="/models/target", lineage=Lineage(data="Toy"))), "skip", NOT_TOLD),
        (
            pair(target(uncertain=frozenset({"family"}))),
            "ok unsure",
            "Nothing says that others changed the target.",
        ),
        (
            pair(merged(None)),
            "skip",
            "Whether the target is maker/Toy-2-7B as it was published, or trained on from there, is not known.",
        ),
        (
            pair(merged("finetune")._replace(id="./target", path="/models/target"), bare_folder("./draft")),
            "warn 0.5",
            "The target is a fine-tune of maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (bare_pair("ngram"), "n/a", "Nothing here was trained for another model."),
        (bare_pair("mtp", merged("merge")), "n/a", "Nothing here was trained for another model."),
        (
            pair(merged("merge")),
            "warn 0.5",
            "The target is a merge of maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (
            pair(merged("finetune")),
            "warn 0.5",
            "The target is a fine-tune of maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (
            pair(merged("distill")),
            "warn 0.5",
            "The target is another model's knowledge distilled into maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (
            pair(merged("adapter")),
            "warn 0.5",
            "The target is an adapter on maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (
            pair(merged("continued")),
            "warn 0.5",
            "The target is made from maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (pair(merged("quantized")), "ok", "The target was not changed by others."),
        (
            pair(merged("quantized"), via="maker/Toy-2-7B"),
            "ok 0.9",
            "The target is a quantised copy of maker/Toy-2-7B, for which the draft is meant.",
        ),
        (
            pair(merged("merge"), draft(made_for=("someone/Tuned-7B",))),
            "ok",
            "The draft was made for the target as it is.",
        ),
        (pair(merged("merge"), draft(id="someone/Small")), "ok", "The target was not changed by others."),
        (
            pair(merged("merge"), draft(lineage=Lineage(base_model="someone/Base"))),
            "ok",
            "The target was not changed by others.",
        ),
        (
            pair(target(id="plain", lineage=Lineage(base_model="plain-base", relation="merge"))),
            "warn 0.5",
            "The target is a merge of plain-base: a draft for that one agrees less.",
        ),
        (
            head_pair(merged("merge")),
            "warn 0.5",
            "The target is a merge of maker/Toy-2-7B: a draft for that one agrees less.",
        ),
        (
            head_pair(merged("merge"), head(target="someone/Tuned-7B")),
            "ok",
            "The draft was made for the target as it is.",
        ),
        (
            head_pair(merged(None), via="maker/Toy-2-7B"),
            "warn 0.5",
            "The target is made from maker/Toy-2-7B: a draft for that one agrees less.",
        ),
    ],
    "made-for": [
        (pair(), "n/a", "The draft names no target that it was published for."),
        (pair(theirs=draft(made_for=(SELF, "x/y"))), "ok", "The draft was published for maker/Toy-2-7B-Instruct."),
        (pair(theirs=draft(made_for=("x/y", "x/z"))), "n/a", "The draft was published for x/y, x/z."),
        (pair(of=head()), "ok", "The draft was published for maker/Toy-2-7B-Instruct."),
        (pair(of=head(confidence="recalled")), "ok unsure", "The draft was published for maker/Toy-2-7B-Instruct."),
        (
            pair(of=head(target="x/y; maker/Toy-2-7B-Instruct")),
            "ok",
            "The draft was published for maker/Toy-2-7B-Instruct.",
        ),
        (pair(of=head(target="x/y")), "n/a", "The draft was published for x/y."),
    ],
    "licence": [
        (pair(), "ok", "The draft's licence (apache-2.0) is not stricter than the target's (apache-2.0)."),
        (bare_pair("ngram"), "n/a", "No second set of weights."),
        (pair(target(license=None)), "skip", "The licence of at least one side is not known."),
        (pair(theirs=draft(license="other")), "skip", "The licence of at least one side is not known."),
        (
            pair(theirs=draft(license="llama3.2")),
            "warn 0.7",
            "The draft's licence (llama3.2) has terms that the target's (apache-2.0) has not.",
        ),
        (
            pair(target(license="llama3.1"), draft(license="llama3.2")),
            "ok",
            "The draft's licence (llama3.2) is not stricter than the target's (llama3.1).",
        ),
        (
            pair(theirs=draft(license="CC-BY-NC-4.0")),
            "warn 0.3",
            "The draft's licence (CC-BY-NC-4.0) forbids commercial use, the target's (apache-2.0) does not.",
        ),
        (
            pair(target(license="llama3.1"), draft(license="qwen-research")),
            "warn 0.3",
            "The draft's licence (qwen-research) forbids commercial use, the target's (llama3.1) does not.",
        ),
        (
            pair(target(license="qwen-research"), draft(license="mrl")),
            "ok",
            "The draft's licence (mrl) is not stricter than the target's (qwen-research).",
        ),
        (
            pair(target(license="qwen-research")),
            "ok",
            "The draft's licence (apache-2.0) is not stricter than the target's (qwen-research).",
        ),
        (
            pair(theirs=draft(gated=True)),
            "warn 0.8",
            "The draft is gated, the target is not: each machine needs a token.",
        ),
        (
            pair(target(gated=True), draft(gated=True)),
            "ok",
            "The draft's licence (apache-2.0) is not stricter than the target's (apache-2.0).",
        ),
        (
            pair(target(gated=None), draft(gated=True)),
            "ok",
            "The draft's licence (apache-2.0) is not stricter than the target's (apache-2.0).",
        ),
        (
            head_pair(published=head(license="cc-by-nc-nd-4.0")),
            "warn 0.3",
            "The draft's licence (cc-by-nc-nd-4.0) forbids commercial use, the target's (apache-2.0) does not.",
        ),
    ],
    "head-target": [
        (bare_pair("mtp"), "n/a", "The target's own layers."),
        (head_pair(), "ok", "The head was trained for maker/Toy-2-7B-Instruct."),
        (
            head_pair(published=head(confidence="recalled")),
            "ok unsure",
            "The head was trained for maker/Toy-2-7B-Instruct (known from its name only).",
        ),
        (
            head_pair(published=head(target="unknown")),
            "warn 0.3 unsure",
            "Which checkpoint the head was trained for is not known, and it drafts for that one only.",
        ),
        (head_pair(COPY), "ok 0.9", "The target is a quantised copy of maker/Toy-2-7B-Instruct."),
        (
            head_pair(target(lineage=Lineage(base_model="maker/Base", relation="finetune")), head(target="maker/Base")),
            "warn 0.5",
            "The head was trained for maker/Base, from which the target was made.",
        ),
        (
            head_pair(target(id="maker/Toy-2-7B")),
            "warn 0.4 unsure",
            "The head was trained for maker/Toy-2-7B-Instruct, not for maker/Toy-2-7B: a sibling, whose "
            "hidden states differ.",
        ),
        (
            head_pair(target(id="maker/Toy-3-7B")),
            "warn 0.25 unsure",
            "The head was trained for maker/Toy-2-7B-Instruct, not for maker/Toy-3-7B: another model of the same size.",
        ),
        (
            head_pair(target(id="maker/Toy-2-70B")),
            "reject",
            "The head was trained for maker/Toy-2-7B-Instruct, not for maker/Toy-2-70B: another size.",
        ),
        (
            head_pair(target(id="maker/Else-7B")),
            "reject",
            "The head was trained for maker/Toy-2-7B-Instruct, not for maker/Else-7B: another family.",
        ),
        (
            head_pair(target(id="maker/Toy-2-70B"), head(target="maker/Else-7B; maker/Toy-3-70B")),
            "warn 0.25 unsure",
            "The head was trained for maker/Else-7B; maker/Toy-3-70B, not for maker/Toy-2-70B: another model"
            " of the same size.",
        ),
    ],
    "head-hidden-size": [
        (bare_pair("mtp"), "n/a", "The target's own layers."),
        (head_pair(), "ok", "Both are 4096 wide."),
        (head_pair(published=head(hidden_size=None)), "skip", "The width of head or target is not known."),
        (head_pair(target(hidden_size=None)), "skip", "The width of head or target is not known."),
        (
            head_pair(published=head(hidden_size=1024)),
            "ok 0.8",
            "The head has a width of its own, 1024 against 4096, and was published for this target.",
        ),
        (
            head_pair(target(id="x/y"), head(hidden_size=1024)),
            "reject",
            "The head is 1024 wide, the target's hidden states 4096.",
        ),
    ],
    "head-vocabulary": [
        (bare_pair("mtp"), "n/a", "The target's own layers."),
        (head_pair(), "ok", "Both have 1024 rows."),
        (head_pair(published=head(vocab_size=None)), "skip", "The rows of head or target are not known."),
        (head_pair(target(vocab_size=None)), "skip", "The rows of head or target are not known."),
        (head_pair(published=head(vocab_size=1000)), "warn 0.6", "The head has 1000 rows, its target 1024."),
        (
            head_pair(target(id="x/y"), head(vocab_size=1000)),
            "reject",
            "The head was made for 1000 token ids, the target has 1024.",
        ),
        (
            head_pair(published=head(draft_vocab_size=1023)),
            "ok 0.9",
            "The head drafts from 1023 of 1024 tokens by a map.",
        ),
        (head_pair(published=head(draft_vocab_size=1024)), "ok", "Both have 1024 rows."),
    ],
    "head-not-a-draft": [
        (pair(theirs=bare_folder("./draft", **NO_FORM)), "skip", "Whether the draft runs on its own is not known."),
        (head_pair(), "n/a", "No draft model."),
        (pair(), "ok", "The draft runs on its own."),
        (
            pair(theirs=draft(head_for="x/y")),
            "reject",
            "maker/Toy-2-1B-Instruct is a head for x/y, not a model that runs on its own.",
        ),
        (
            pair(theirs=draft(head_for="unknown")),
            "reject",
            "maker/Toy-2-1B-Instruct is a head, not a model that runs on its own.",
        ),
        (
            pair(theirs=draft(head_for="x/y", variant="draft")),
            "ok",
            "The draft was made for one target and runs on its own.",
        ),
        (
            pair(theirs=draft(head_for="x/y"), method="pard"),
            "ok",
            "The draft was made for one target and runs on its own.",
        ),
    ],
    "mtp-layers": [
        (head_pair(), "n/a", "Not drafted by the target's own layers."),
        (head_pair(published=head(method="mtp")), "n/a", "Not drafted by the target's own layers."),
        (bare_pair("mtp"), "skip", "Whether the target has MTP layers is not known."),
        (bare_pair("mtp", target(num_nextn_predict_layers=0)), "reject", "The target has no MTP layers."),
        (bare_pair("mtp", target(num_nextn_predict_layers=1)), "ok", "The target has 1 MTP layer of its own."),
        (bare_pair("mtp", MTP), "ok", "The target has 2 MTP layers of its own."),
    ],
    "swapped-roles": [
        (pair(), "ok", "The draft is the smaller one: the draft reads 1B parameters per token, the target 7B."),
        (pair(theirs=draft(params_total=None)), "skip", "The parameters read per token are not known on both sides."),
        (head_pair(), "skip", "The parameters read per token are not known on both sides."),
        (pair(theirs=sized(0)), "skip", "The parameters read per token are not known on both sides."),
        (pair(target(params_total=0)), "skip", "The parameters read per token are not known on both sides."),
        (
            pair(target(params_total=None, params_active=3_000_000_000), sized(4)),
            "reject",
            "The draft is not smaller than its target, did you swap them? Here the draft reads 4B parameters"
            " per token, the target 3B.",
        ),
        (
            pair(
                target(params_total=35_000_000_000, params_active=3_000_000_000),
                draft(params_total=None, params_active=4_000_000_000),
            ),
            "reject",
            "Against a target this sparse the draft is not smaller: the draft reads 4B parameters per token,"
            " the target 3B.",
        ),
        (
            pair(draft(), target()),
            "reject",
            "The draft is not smaller than its target, did you swap them? Here the draft reads 7B parameters"
            " per token, the target 1B.",
        ),
        (
            pair(theirs=sized(7)),
            "reject",
            "The draft is not smaller than its target, did you swap them? Here the draft reads 7B parameters"
            " per token, the target 7B.",
        ),
        (pair(theirs=target()), "n/a", "Target and draft are one model: see self-draft."),
        (pair(theirs=target(id="copy/Toy-2-7B-Instruct")), "n/a", "Target and draft are one model: see self-draft."),
        (
            pair(theirs=sized(7, quantization="gguf-q2_k")),
            "ok 0.5",
            "Of like size, but the draft reads 6.2 times fewer bytes.",
        ),
        (
            pair(target(quantization="int8"), sized(7.5, quantization="int4")),
            "ok 0.5",
            "Of like size, but the draft reads 1.9 times fewer bytes.",
        ),
        (
            pair(target(params_total=35_000_000_000, params_active=3_000_000_000, experts=SPARSE), sized(4)),
            "reject",
            "Against a target this sparse the draft is not smaller: the draft reads 4B parameters per token,"
            " the target 3B.",
        ),
        (
            pair(theirs=sized(3.6, **SPARSE_DRAFT)),
            "warn 0.1",
            "The draft keeps 51% of the target's weights in memory, beside the target's own: the draft reads"
            " 1B parameters per token, the target 7B.",
        ),
        (
            pair(theirs=sized(3.4, **SPARSE_DRAFT)),
            "ok",
            "The draft is the smaller one: the draft reads 1B parameters per token, the target 7B.",
        ),
    ],
    "self-draft": [
        (pair(bare_folder("./target"), bare_folder("./draft", num_hidden_layers=8)), "ok", ANOTHER),
        (pair(bare_folder("./target"), bare_folder("./draft")), "skip", NOT_TOLD_APART),
        (pair(bare_folder("./target"), bare_folder("./draft", **NO_FORM)), "skip", NOT_TOLD_APART),
        (pair(), "ok", "The draft is another model than the target."),
        (head_pair(), "n/a", "No draft model."),
        (pair(theirs=target()), "reject", "maker/Toy-2-7B-Instruct is the target itself."),
        (
            pair(theirs=target(path="/copy")),
            "warn 0.1",
            "The draft is the target in another storage format (the same repository) and reads as many bytes.",
        ),
        (
            pair(theirs=target(quantization="awq-int4")),
            "warn 0.1",
            "The draft is the target in another storage format (the same repository) and reads 4.0 times fewer bytes.",
        ),
        (
            pair(theirs=target(quantization="odd")),
            "warn 0.1",
            "The draft is the target in another storage format (the same repository) and differs only in how"
            " its weights are stored.",
        ),
        (
            pair(target(quantization="awq-int4"), target()),
            "warn 0.1",
            "The draft is the target in another storage format (the same repository) and reads 4.0 times as "
            "many bytes.",
        ),
        (
            pair(COPY, target()),
            "warn 0.1",
            "The draft is the target in another storage format (by its card) and reads as many bytes.",
        ),
        (
            pair(COPY, target(id="x/copy", lineage=Lineage(base_model=SELF, relation="quantized"))),
            "warn 0.1",
            "The draft is the target in another storage format (by its card) and reads as many bytes.",
        ),
        (
            pair(theirs=target(id="x/Toy-2-7B-Q4", quantization="gguf-q4_k_m")),
            "warn 0.1 unsure",
            "The draft is the target in another storage format (by its shape) and reads 3.6 times fewer bytes.",
        ),
        (pair(theirs=target(id="x/Toy-2-7B-Q4")), "ok", "The draft is another model than the target."),
        (
            pair(theirs=target(id="x/Toy-3-7B-Q4", quantization="gguf-q4_k_m")),
            "ok",
            "The draft is another model than the target.",
        ),
        (
            pair(theirs=target(id="x/Toy-2-7B-Q4", quantization="gguf-q4_k_m", generation="3")),
            "ok",
            "The draft is another model than the target.",
        ),
    ],
    "size-ratio": [
        (head_pair(), "skip", "The parameters read per token are not known on both sides."),
        (pair(), "ok", "The target reads 7.0 times the parameters of its draft, as is customary."),
        (
            pair(theirs=sized(3.6)),
            "warn 0.236",
            "The target reads 1.9 times the parameters of its draft: below 3 times the draft's steps eat the gain.",
        ),
        (
            pair(theirs=sized(2)),
            "ok 0.625",
            "The target reads 3.5 times the parameters of its draft, a little below the customary 5 to 10.",
        ),
        (
            pair(theirs=sized(0.6)),
            "ok 1",
            "The target reads 12 times the parameters of its draft, a little above the customary 5 to 10.",
        ),
        (
            pair(theirs=sized(0.12)),
            "warn 0.975",
            "The target reads 58 times the parameters of its draft: above 15 times acceptance tends to fall.",
        ),
        (
            pair(target(params_total=30_000_000_000, params_active=3_000_000_000, experts=SPARSE), sized(1.7)),
            "warn 0.191",
            "The target reads 1.8 times the parameters of its draft (active experts only): below 3 times the"
            " draft's steps eat the gain.",
        ),
        (
            pair(target(params_total=27_000_000_000), sized(26, **SPARSE_DRAFT)),
            "warn 0.1",
            "The target reads 27 times the parameters of its draft, but all its experts stay in memory: 96% "
            "of the target's parameters.",
        ),
        (
            pair(target(params_total=27_000_000_000), sized(9, **SPARSE_DRAFT)),
            "warn 0.992",
            "The target reads 27 times the parameters of its draft: above 15 times acceptance tends to fall.",
        ),
        (
            pair(target(params_total=2_900_000_000), sized(2.8, **SPARSE_DRAFT)),
            "warn 0.475",
            "The target reads 2.9 times the parameters of its draft: below 3 times the draft's steps eat the gain.",
        ),
    ],
    "target-size": [
        (pair(), "ok", "The target reads 7B parameters per token."),
        (
            pair(target(params_total=1_700_000_000)),
            "warn 0.44",
            "The target reads only 1.7B parameters per token: a draft model has little to win.",
        ),
        (pair(target(params_total=None)), "skip", "How many parameters the target reads per token is not known."),
    ],
    "depth": [
        (pair(), "ok", "The draft has 8 layers against the target's 32."),
        (pair(theirs=draft(num_hidden_layers=16)), "ok 0.7", "The draft has 16 layers against the target's 32."),
        (
            pair(theirs=draft(num_hidden_layers=17)),
            "warn 0.663",
            "The draft has 17 layers against the target's 32: where launches dominate, its step costs about "
            "0.53 of a target's.",
        ),
        (pair(theirs=draft(num_hidden_layers=0)), "skip", "The number of layers is not known on both sides."),
        (pair(target(num_hidden_layers=None)), "skip", "The number of layers is not known on both sides."),
    ],
    "moe-verify": [
        (pair(bare_folder("./target", **NO_FORM)), "n/a", "The target's expert layout is not known."),
        (pair(), "n/a", "The target is dense."),
        (pair(target(params_active=1_000_000_000)), "n/a", "The target's expert layout is not known."),
        (
            pair(target(experts=SPARSE)),
            "warn 0.7",
            "Every drafted token reads up to 8 more of 128 experts per layer when it is verified.",
        ),
        (
            pair(target(experts=SPARSE), num_spec_tokens=1),
            "warn 0.7",
            "Verifying 1 drafted token reads up to 16 of 128 experts per layer, not 8.",
        ),
        (
            pair(target(experts=SPARSE), num_spec_tokens=4),
            "warn 0.7",
            "Verifying 4 drafted tokens reads up to 35 of 128 experts per layer, not 8.",
        ),
        (
            pair(target(experts=SPARSE), num_spec_tokens=5),
            "warn 0.2",
            "Verifying 5 drafted tokens reads up to 41 of 128 experts per layer, not 8: 5 is too many for a "
            "sparse target.",
        ),
        (
            bare_pair("mtp", target(experts=SPARSE, num_nextn_predict_layers=2)),
            "warn 0.7",
            "Every drafted token reads up to 8 more of 128 experts per layer when it is verified.",
        ),
        (
            bare_pair("ngram", target(experts=SPARSE, num_nextn_predict_layers=2)),
            "warn 0.7",
            "Every drafted token reads up to 8 more of 128 experts per layer when it is verified.",
        ),
    ],
    "draft-length": [
        (pair(), "n/a", "No number of drafted tokens was asked for."),
        (pair(num_spec_tokens=8), "ok", "8 drafted tokens are in the customary range."),
        (pair(num_spec_tokens=9), "warn 0.4", "9 drafted tokens are seldom best: past 8 most are thrown away."),
        (
            pair(num_spec_tokens=5, engine=engine(limits={"max_num_spec_tokens": 4})),
            "warn 0.1",
            "5 drafted tokens are more than toy-engine takes: 4.",
        ),
        (
            pair(num_spec_tokens=4, engine=engine(limits={"max_num_spec_tokens": 4})),
            "ok",
            "4 drafted tokens are in the customary range.",
        ),
        (
            pair(
                num_spec_tokens=4,
                engine=engine(limits={"max_num_spec_tokens": 4}, methods={"draft_model": {"max_num_spec_tokens": 3}}),
            ),
            "warn 0.1",
            "4 drafted tokens are more than toy-engine takes: 3.",
        ),
        (
            head_pair(published=head(num_spec_tokens=3), num_spec_tokens=3),
            "ok",
            "3 drafted tokens are in the customary range.",
        ),
        (
            head_pair(published=head(num_spec_tokens=3), num_spec_tokens=4),
            "warn 0.4",
            "The head was trained to draft 3 tokens, not 4.",
        ),
        (bare_pair("mtp", num_spec_tokens=2), "skip", "How many MTP layers there are is not known."),
        (pair(num_spec_tokens=1), "ok", "1 drafted token is in the customary range."),
        (
            bare_pair("mtp", target(num_nextn_predict_layers=1), num_spec_tokens=1),
            "ok",
            "1 drafted token fits 1 MTP layer.",
        ),
        (
            bare_pair("mtp", target(num_nextn_predict_layers=1), num_spec_tokens=3),
            "warn 0.7",
            "Past token 1 an MTP layer is used again, off its training.",
        ),
        (
            bare_pair("mtp", target(num_nextn_predict_layers=1), num_spec_tokens=4),
            "warn 0.4",
            "4 drafted tokens use the one MTP layer 4 times.",
        ),
        (bare_pair("mtp", MTP, num_spec_tokens=2), "ok", "2 drafted tokens fit 2 MTP layers."),
        (bare_pair("mtp", MTP, num_spec_tokens=3), "warn 0.2", "3 drafted tokens are no multiple of 2 MTP layers."),
        (
            bare_pair("mtp", MTP, num_spec_tokens=4),
            "warn 0.7",
            "Past token 2 an MTP layer is used again, off its training.",
        ),
        (
            bare_pair("mtp", MTP, num_spec_tokens=6),
            "warn 0.7",
            "Past token 2 an MTP layer is used again, off its training.",
        ),
        (bare_pair("mtp", MTP, num_spec_tokens=8), "warn 0.4", "8 drafted tokens use each of 2 MTP layers 4 times."),
        (
            head_pair(published=head(method="mtp", num_hidden_layers=2), num_spec_tokens=4),
            "warn 0.7",
            "Past token 2 an MTP layer is used again, off its training.",
        ),
    ],
    "tokenizer-identity": [
        (pair(), "ok", "The token ids agree: all 1,000 ids mean the same."),
        (pair(relation=None), "skip", "The tokenizers were not compared: at least one of them is not known."),
        (
            pair(relation=related("unknown", False, reason="one was not read. ")),
            "skip",
            "Whether the token ids agree is not known: one was not read.",
        ),
        (pair(relation=related("identical", False)), "ok unsure", "The token ids probably agree: as read."),
        (pair(relation=related("padding_only")), "ok", "The token ids agree: as read."),
        (pair(relation=related("control_tokens", reason="seven names differ.")), "ok", "Seven names differ."),
        (pair(relation=related("extension", reason="the draft has more")), "warn 0.4", "The draft has more."),
        (
            pair(relation=related("different", **OTHER)),
            "reject",
            "The vocabularies differ, although both state 1024 rows: id 260 is ' t' in the target and 'er\\n'"
            " in the draft (270 ids agree).",
        ),
        (
            pair(theirs=draft(vocab_size=1000), relation=related("different", **OTHER)),
            "reject",
            "The vocabularies differ: id 260 is ' t' in the target and 'er\\n' in the draft (270 ids agree).",
        ),
        (
            pair(relation=related("different", False)),
            "reject unsure",
            "The vocabularies differ, although both state 1024 rows: as read.",
        ),
        (
            pair(relation=related("different", first_difference=Difference(id=3, target=None, draft="a"))),
            "reject",
            "The vocabularies differ, although both state 1024 rows: id 3 is not there in the target and 'a'"
            " in the draft.",
        ),
        (
            pair(relation=related("different", first_difference_in=(1024, 2047))),
            "reject",
            "The vocabularies differ, although both state 1024 rows: they part between the ids 1024 and 2047.",
        ),
        (
            pair(relation=related("different", **OTHER), engine=TRANSLATES),
            "warn 0.26",
            "The vocabularies differ, although both state 1024 rows: id 260 is ' t' in the target and 'er\\n'"
            " in the draft; toy-engine can translate between them (the draft has 80% of the target's "
            "tokens).",
        ),
        (
            pair(relation=related("different"), engine=TRANSLATES),
            "warn 0.1",
            "The vocabularies differ, although both state 1024 rows: as read; toy-engine can translate between them.",
        ),
    ],
    "control-tokens": [
        (pair(), "ok", "The control tokens agree."),
        (pair(relation=None), "skip", "The control tokens were not compared."),
        (pair(relation=related("unknown")), "skip", "The control tokens were not compared."),
        (pair(relation=related("different")), "n/a", "The vocabularies differ anyhow."),
        (
            pair(relation=related("control_tokens", False)),
            "warn 0.6 unsure",
            "Which control tokens differ is not known: as read.",
        ),
        (
            pair(relation=related("control_tokens", only_target=(996,))),
            "warn 0.85",
            "Control tokens differ: 1 named by the target alone (996).",
        ),
        (
            pair(relation=related("control_tokens", only_draft=(1, 2, 3, 4, 5, 6, 7))),
            "warn 0.85",
            "Control tokens differ: 7 named by the draft alone (1, 2, 3, 4, 5, 6, …).",
        ),
        (
            pair(relation=related("control_tokens", False, renamed=(5, 6), only_target=(9,))),
            "warn 0.65 unsure",
            "Control tokens differ: 2 named otherwise (5, 6) and 1 named by the target alone (9).",
        ),
        (
            pair(relation=related("control_tokens", renamed=(5, 6), renamed_in_use=(6,))),
            "warn 0.4",
            "Control tokens differ: 2 named otherwise (5, 6); of these 6 begin, end or frame an answer.",
        ),
        (
            pair(
                target(tokenizer=tokenizer(control={5: "<a>", 9: "<n>"})),
                draft(tokenizer=tokenizer(control={5: "<b>"})),
                related("control_tokens", renamed=(5, 6), only_target=(9, 10)),
            ),
            "warn 0.65",
            "Control tokens differ: 2 named otherwise (5 '<a>' against '<b>', 6) and 2 named by the target "
            "alone (9 '<n>', 10).",
        ),
    ],
    "stop-tokens": [
        (pair(), "ok", "Both end an answer with the same ids."),
        (head_pair(), "skip", "The ids that end an answer are not known."),
        (pair(relation=related("different")), "n/a", "The vocabularies differ anyhow."),
        (pair(relation=None), "ok", "Both end an answer with the same ids."),
        (pair(theirs=draft(tokenizer=None)), "skip", "The ids that end an answer are not known."),
        (
            pair(theirs=draft(tokenizer=tokenizer(eos=None))),
            "skip",
            "The ids that end an answer are not known on both sides.",
        ),
        (
            pair(theirs=draft(tokenizer=tokenizer(add_bos=False))),
            "warn 0.6",
            "Only the target puts a bos token in front, over which llama.cpp refuses.",
        ),
        (
            pair(target(tokenizer=tokenizer(add_bos=False))),
            "warn 0.6",
            "Only the draft puts a bos token in front, over which llama.cpp refuses.",
        ),
        (pair(theirs=draft(tokenizer=tokenizer(add_bos=None))), "ok", "Both end an answer with the same ids."),
        (pair(theirs=draft(tokenizer=tokenizer(bos=5))), "warn 0.5", "The target begins with id 1, the draft with 5."),
        (
            pair(target(tokenizer=tokenizer(add_bos=False)), draft(tokenizer=tokenizer(add_bos=False, bos=5))),
            "ok",
            "Both end an answer with the same ids.",
        ),
        (
            pair(target(tokenizer=tokenizer(stop_ids=(7, 2)))),
            "ok 0.9",
            "Every id the draft ends with also ends the target's answers.",
        ),
        (
            pair(theirs=draft(tokenizer=tokenizer(stop_ids=(7, 2)))),
            "warn 0.7",
            "The target ends with 2, the draft with 2, 7.",
        ),
    ],
    "text-cut": [
        (pair(), "ok", "Both cut text alike."),
        (pair(relation=None), "skip", "The tokenizers were not compared."),
        (pair(relation=related("unknown")), "skip", "The tokenizers were not compared."),
        (pair(relation=related("different")), "n/a", "The vocabularies differ anyhow."),
        (pair(relation=related("identical")), "skip", "Whether both cut text alike is not known."),
        (pair(relation=related("identical", False, same_cut=True)), "ok unsure", "Both cut text alike."),
        (
            pair(relation=related("identical", False, same_cut=False)),
            "warn 0.6 unsure",
            "The ids agree, yet the two tokenizers cut text differently.",
        ),
    ],
    "embedding-rows": [
        (pair(), "ok", "Both have 1024 embedding rows."),
        (head_pair(), "skip", "The number of embedding rows is not known on both sides."),
        (pair(theirs=draft(vocab_size=None)), "skip", "The number of embedding rows is not known on both sides."),
        (
            pair(theirs=draft(notes=("else", "TENSOR_ROWS: 1,000 rows, config.json says 1,024"))),
            "warn 0.1",
            "Weights and configuration disagree, 1,000 rows, config.json says 1,024.",
        ),
        (
            pair(theirs=draft(vocab_size=1152), relation=None),
            "warn 0.4 unsure",
            "The target has 1024 embedding rows, the draft 1152; whether the difference is padding is not known.",
        ),
        (
            pair(theirs=draft(vocab_size=1152), relation=related("unknown")),
            "warn 0.4 unsure",
            "The target has 1024 embedding rows, the draft 1152; whether the difference is padding is not known.",
        ),
        (
            pair(theirs=draft(vocab_size=1152), relation=related("different")),
            "warn 0.1",
            "The target has 1024 embedding rows, the draft 1152, and the vocabularies differ as well.",
        ),
        (
            pair(theirs=draft(vocab_size=1152), relation=related("extension")),
            "warn 0.3",
            "The target has 1024 embedding rows, the draft 1152, and not all of the difference is padding; "
            "the draft can propose ids that the target has no row for.",
        ),
        (
            pair(theirs=draft(vocab_size=1000), relation=related("extension")),
            "warn 0.3",
            "The target has 1024 embedding rows, the draft 1000, and not all of the difference is padding.",
        ),
        (
            pair(theirs=draft(vocab_size=1152)),
            "warn 0.6",
            "The target has 1024 embedding rows, the draft 1152: the difference of 128 is padding, for the "
            "ids 0 to 999 are the same on both sides; the draft can propose ids that the target has no row "
            "for.",
        ),
        (
            pair(theirs=draft(vocab_size=1000), relation=related("padding_only", False)),
            "warn 0.6",
            "The target has 1024 embedding rows, the draft 1000: the difference of 24 is padding, for the "
            "ids 0 to 999 are probably the same on both sides.",
        ),
        (
            pair(theirs=draft(vocab_size=1000), engine=engine(vocabulary={"rule": "equal-rows"})),
            "warn 0.4",
            "The target has 1024 embedding rows, the draft 1000: the difference of 24 is padding, for the "
            "ids 0 to 999 are the same on both sides.",
        ),
        (
            pair(theirs=draft(vocab_size=1000), engine=engine(vocabulary={"rule": "none"})),
            "warn 0.9",
            "The target has 1024 embedding rows, the draft 1000: the difference of 24 is padding, for the "
            "ids 0 to 999 are the same on both sides.",
        ),
        (
            pair(theirs=draft(vocab_size=1000, tokenizer=tokenizer(highest_id=900))),
            "warn 0.6",
            "The target has 1024 embedding rows, the draft 1000: the difference of 24 is padding, for the "
            "ids 0 to 900 are the same on both sides.",
        ),
        (
            pair(target(tokenizer=None), draft(vocab_size=1000, tokenizer=None)),
            "warn 0.6",
            "The target has 1024 embedding rows, the draft 1000: the difference of 24 is padding, for the "
            "ids of text are the same.",
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "judged", "verdict", "message"),
    [
        pytest.param(rule, *row, id=f"{rule}-{number}")
        for rule, rows in SAID.items()
        for number, row in enumerate(rows, 1)
    ],
)
def test_what_a_rule_says(rule: str, judged: Pair, verdict: str, message: str) -> None:
    outcome = ask(rule, judged)
    assert (says(rule, judged), outcome.message) == (verdict, message)
    assert outcome.kind not in ("skip", "reject") or outcome.score == 0


# ---------------------------------------------------------------------- what rules stand where, and read what

FAMILIES = {
    "architecture": "architecture tensor-parallel dtype quantization file-format remote-code",
    "context": "context-length rope-scaling modality mrope recurrent-state",
    "lineage": "lineage tuning subject thinking-mode changed-target made-for licence",
    "heads": "head-target head-hidden-size head-vocabulary head-not-a-draft mtp-layers",
    "size": "swapped-roles self-draft size-ratio target-size depth moe-verify draft-length",
    "tokenizer": "tokenizer-identity control-tokens stop-tokens text-cut embedding-rows",
}
ANY = {
    "tensor-parallel", "dtype", "quantization", "file-format", "remote-code", "context-length", "rope-scaling",
    "recurrent-state", "changed-target", "licence", "moe-verify", "draft-length",
}  # fmt: skip
OF_HEADS = {"head-target", "head-hidden-size", "head-vocabulary", "mtp-layers"}


def test_every_rule_is_here_by_its_family() -> None:
    assert {*SAID} == {*load()}
    assert sorted(SAID) == sorted(name for names in FAMILIES.values() for name in names.split())


@pytest.mark.parametrize(
    ("judged", "asked"),
    [
        pytest.param(pair(), {*SAID} - OF_HEADS, id="draft model"),
        pytest.param(head_pair(), ANY | OF_HEADS, id="head"),
        pytest.param(bare_pair("mtp"), ANY | OF_HEADS, id="own layers"),
        pytest.param(bare_pair("ngram"), ANY, id="n-gram"),
        pytest.param(bare_pair("suffix"), ANY, id="suffix"),
    ],
)
def test_which_rules_are_asked(judged: Pair, asked: set[str]) -> None:
    families = {name: family for family, names in FAMILIES.items() for name in names.split()}
    found = {finding.rule: RULES[finding.rule].family for finding in judge(judged)[0]}
    assert found == {name: families[name] for name in asked}


IN_DOUBT: dict[str, tuple[str, str]] = {
    "architecture": ("architecture", ""),
    "num_attention_heads": ("tensor-parallel", "tensor-parallel"),
    "num_key_value_heads": ("tensor-parallel", "tensor-parallel"),
    "dtype": ("dtype quantization", "dtype quantization"),
    "quantization": ("dtype quantization file-format self-draft", "dtype quantization file-format"),
    "remote_code": ("remote-code", "remote-code"),
    "max_position_embeddings": ("context-length", "context-length"),
    "rope": ("rope-scaling", "rope-scaling"),
    "modality": ("modality", ""),
    "mrope": ("mrope", ""),
    "attention": ("recurrent-state", "recurrent-state"),
    "recurrent_layers": ("recurrent-state", "recurrent-state"),
    "family": ("lineage changed-target", "changed-target"),
    "generation": ("lineage", ""),
    "lineage": ("lineage thinking-mode changed-target", "changed-target"),
    "variant": ("lineage tuning subject thinking-mode", ""),
    "license": ("licence", "licence"),
    "gated": ("licence", "licence"),
    "hidden_size": ("swapped-roles size-ratio target-size", "head-hidden-size"),
    "vocab_size": ("swapped-roles size-ratio target-size embedding-rows", "head-vocabulary"),
    "head_for": ("head-not-a-draft", ""),
    "num_nextn_predict_layers": ("draft-length", "draft-length mtp-layers"),
    "params_total": ("swapped-roles size-ratio target-size", ""),
    "params_text": ("swapped-roles size-ratio target-size", ""),
    "params_active": ("swapped-roles size-ratio target-size", ""),
    "tie_word_embeddings": ("swapped-roles size-ratio target-size", ""),
    "num_hidden_layers": ("depth", ""),
    "experts": ("moe-verify size-ratio", "moe-verify"),
    "latent": ("tensor-parallel", "tensor-parallel"),
    "made_for": ("lineage made-for changed-target", "changed-target"),
    "target": ("made-for changed-target", "changed-target head-target"),
    "confidence": ("", "head-target"),
    "draft_vocab_size": ("", "head-vocabulary"),
    "tokenizer": ("tokenizer-identity control-tokens stop-tokens text-cut", ""),
}
"""Field → the rules that rest on it, with a draft model and with a head."""


@pytest.mark.parametrize("field", IN_DOUBT)
def test_a_doubtful_field_makes_what_rests_on_it_doubtful(field: str) -> None:
    doubtful, (of_a_draft, of_a_head) = frozenset({field}), IN_DOUBT[field]
    for judged, expected in (
        (pair(target(uncertain=doubtful)), of_a_draft),
        (pair(theirs=draft(uncertain=doubtful)), of_a_draft),
        (head_pair(target(uncertain=doubtful)), of_a_head),
        (head_pair(published=head(uncertain=doubtful)), of_a_head),
    ):
        assert {finding.rule for finding in judge(judged)[0] if not finding.certain} == {*expected.split()}


def test_no_field_that_a_rule_reads_is_left_out() -> None:
    assert {*IN_DOUBT} == {field for rule in load().values() for field in rule.reads}
