"""What a finding rests on: names and values that JSON outputs carry, for each rule that has any."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, device, draft, engine, head, head_pair, pair, target, tokenizer
from test_sentences import COPY, INHERITS, LLAMA3, SPARSE_DRAFT, TRANSLATES, merged, related
from test_sentences import SEES as SEEING
from test_size_rules import CAPPED, MTP, SPARSE, sized
from test_tokenizer_rules import CONTROL, DIFFERENT, FRAMING, PADDING, SOMEWHERE

from draftpick.models.profile import Lineage
from draftpick.pair import Pair
from draftpick.rules import load

SELF = "maker/Toy-2-7B-Instruct"
YARN = "yarn 4 32768"
OLD = device(bf16=False, fp8=False)
W8A8 = target(quantization="w8a8")
SEES = target(modality="text+vision")
ODD_ROWS = "the embedding has 1,000 rows, config.json says 1,024"
ALL_EXPERTS = draft(params_total=26_000_000_000, params_active=1_000_000_000, experts=SPARSE)
MERGED = target(id="someone/Tuned-7B", lineage=Lineage(base_model="maker/Toy-2-7B", relation="merge"))

FINDINGS: list[tuple[str, Pair, dict[str, Any]]] = [
    (
        "architecture",
        pair(theirs=draft(architecture="OtherForCausalLM")),
        {"target": "ToyForCausalLM", "draft": "OtherForCausalLM"},
    ),
    (
        "tensor-parallel",
        pair(target(num_attention_heads=40), tensor_parallel_size=16),
        {"side": "target", "heads": 40, "tensor_parallel_size": 16},
    ),
    ("tensor-parallel", bare_pair("ngram", tensor_parallel_size=2), {"heads": 32, "tensor_parallel_size": 2}),
    (
        "tensor-parallel",
        pair(tensor_parallel_size=8),
        {"oversharded": True, "side": "draft", "heads": 16, "tensor_parallel_size": 8},
    ),
    (
        "tensor-parallel",
        pair(tensor_parallel_size=4),
        {"oversharded": True, "side": "draft", "heads": 16, "tensor_parallel_size": 4},
    ),
    ("dtype", pair(target(quantization="fp8"), device=OLD), {"side": "target", "lacks": "fp8"}),
    ("dtype", pair(draft_quantization="fp8", device=OLD), {"side": "draft", "lacks": "fp8"}),
    ("dtype", pair(device=OLD, dtype="bfloat16"), {"side": "setting", "lacks": "bfloat16"}),
    ("dtype", pair(target(dtype="float16"), device=OLD), {"side": "draft", "lacks": "bfloat16"}),
    ("quantization", pair(kv_cache_dtype="int4"), {"cache": "int4", "target": None, "draft": None}),
    ("quantization", pair(W8A8, draft(quantization="awq-int4")), {"target": "w8a8", "draft": "awq-int4"}),
    ("quantization", pair(W8A8, engine=INHERITS), {"inherits": True, "target": "w8a8", "draft": None}),
    ("file-format", pair(theirs=draft(origin="gguf"), engine=engine(gguf="some")), {"gguf": ["draft"]}),
    ("file-format", pair(engine=engine(gguf="only")), {"gguf": []}),
    ("remote-code", pair(target(remote_code=True), draft(remote_code=True)), {"sides": ["target", "draft"]}),
    (
        "context-length",
        pair(theirs=draft(max_position_embeddings=2048), max_model_len=4096),
        {"draft": 2048, "target": 32768, "asked": 4096, "effective_context": 2048},
    ),
    ("rope-scaling", pair(target(rope=YARN)), {"native": 32768, "target": YARN, "draft": None}),
    (
        "modality",
        pair(SEES, images=True),
        {"text_draft": True, "target": "text+vision", "draft": "text", "images": True},
    ),
    (
        "modality",
        pair(SEES, draft(modality="text+vision")),
        {"text_draft": False, "target": "text+vision", "draft": "text+vision", "images": None},
    ),
    ("mrope", pair(target(mrope=True)), {"target": True, "draft": False}),
    (
        "recurrent-state",
        pair(target(attention="hybrid"), draft(attention="recurrent")),
        {"sides": ["target", "draft"], "target": "hybrid", "draft": "recurrent"},
    ),
    ("head-target", head_pair(), {"kin": "same", "trained_for": SELF, "confidence": "pairing-read"}),
    (
        "head-target",
        head_pair(target(id="maker/Toy-2-7B")),
        {"kin": "tuning", "trained_for": SELF, "confidence": "pairing-read"},
    ),
    (
        "head-hidden-size",
        head_pair(target(id="maker/Toy-2-70B-Instruct", hidden_size=8192)),
        {"target": 8192, "head": 4096},
    ),
    (
        "head-vocabulary",
        head_pair(published=head(draft_vocab_size=256)),
        {"reduced": True, "target": 1024, "head": 1024, "draft_vocab_size": 256},
    ),
    (
        "head-vocabulary",
        head_pair(published=head(vocab_size=1000)),
        {"reduced": False, "target": 1024, "head": 1000, "draft_vocab_size": None},
    ),
    ("head-not-a-draft", pair(theirs=draft(head_for="unknown")), {"head_for": "unknown"}),
    ("mtp-layers", bare_pair("mtp", target(num_nextn_predict_layers=2)), {"layers": 2}),
    ("lineage", pair(), {"kind": "same data"}),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(), generation="0.5")),
        {"kind": "other generation", "apart": 1.5, "target": "Toy 2", "draft": "Toy 0.5"},
    ),
    ("tuning", pair(theirs=draft(variant="base")), {"base_for_instruct": True, "target": "tuned", "draft": "base"}),
    ("tuning", pair(target(variant="base")), {"base_for_instruct": False, "target": "base", "draft": "tuned"}),
    ("subject", pair(target(variant="coder-instruct")), {"target": "coder", "draft": "general"}),
    ("thinking-mode", pair(theirs=draft(lineage=Lineage(thinking="on"))), {"target": "off", "draft": "on"}),
    ("changed-target", pair(MERGED), {"base": "maker/Toy-2-7B", "relation": "merge"}),
    ("made-for", pair(of=head()), {"target": SELF}),
    ("made-for", pair(theirs=draft(made_for=(SELF,))), {"targets": [SELF]}),
    ("licence", pair(theirs=draft(license="llama3.2")), {"target": "apache-2.0", "draft": "llama3.2"}),
    ("licence", pair(theirs=draft(gated=True)), {"gated": True, "target": "apache-2.0", "draft": "apache-2.0"}),
    ("swapped-roles", pair(), {"target_read": 7000000000, "draft_read": 1000000000, "ratio": 7.0}),
    ("self-draft", pair(theirs=target()), {"same": True}),
    ("self-draft", pair(theirs=target(quantization="awq-int4")), {"bytes_ratio": 4.0}),
    (
        "size-ratio",
        pair(theirs=sized(1.7, quantization="int8")),
        {"ratio": 4.12, "bytes_ratio": 8.24, "band": "below-ideal", "basis": "all"},
    ),
    (
        "size-ratio",
        pair(target(params_total=27_000_000_000), ALL_EXPERTS),
        {"kept_ratio": 1.04, "ratio": 27.0, "bytes_ratio": 27.0, "band": "high", "basis": "all"},
    ),
    ("target-size", pair(target(params_total=1_700_000_000)), {"target_read": 1700000000}),
    ("depth", pair(theirs=draft(num_hidden_layers=17)), {"target_layers": 32, "draft_layers": 17, "share": 0.531}),
    (
        "moe-verify",
        pair(target(experts=SPARSE)),
        {"too_many": False, "k": 3, "experts": 128, "experts_read": 29.1, "factor": 3.64},
    ),
    (
        "moe-verify",
        bare_pair("mtp", target(experts=SPARSE, num_nextn_predict_layers=1)),
        {"too_many": False, "k": 3, "experts": 128, "experts_read": 29.1, "factor": 3.64},
    ),
    ("draft-length", pair(num_spec_tokens=15, engine=CAPPED), {"k": 15, "cap": 14}),
    ("draft-length", head_pair(published=head(num_spec_tokens=3), num_spec_tokens=4), {"k": 4, "trained": 3}),
    ("draft-length", bare_pair("mtp", MTP, num_spec_tokens=3), {"divisible": False, "k": 3, "layers": 2}),
    (
        "tokenizer-identity",
        pair(),
        {"relation": "identical", "verified": True, "same_ids": 1000, "tokenizer_identical": True},
    ),
    (
        "tokenizer-identity",
        pair(relation=DIFFERENT),
        {
            "relation": "different",
            "verified": True,
            "same_ids": 270,
            "first_difference": {"id": 260, "target": " t", "draft": "er\n"},
            "covered": 0.8,
        },
    ),
    (
        "tokenizer-identity",
        pair(relation=SOMEWHERE),
        {"relation": "different", "verified": True, "same_ids": None, "first_difference_in": [1024, 2047]},
    ),
    (
        "control-tokens",
        pair(relation=FRAMING),
        {"only_target": [], "only_draft": [], "renamed": [2, 994], "renamed_in_use": [2], "count": 2},
    ),
    (
        "control-tokens",
        pair(relation=CONTROL),
        {"only_target": [996, 997], "only_draft": [], "renamed": [], "renamed_in_use": [], "count": 2},
    ),
    ("stop-tokens", pair(theirs=draft(tokenizer=tokenizer(eos=3))), {"target": [2], "draft": [3]}),
    ("stop-tokens", pair(theirs=draft(tokenizer=tokenizer(bos=5))), {"bos": [1, 5], "target": [2], "draft": [2]}),
    ("embedding-rows", pair(), {"target_rows": 1024, "draft_rows": 1024}),
    (
        "embedding-rows",
        pair(target(vocab_size=1152), relation=PADDING),
        {
            "target_rows": 1152,
            "draft_rows": 1024,
            "difference": 128,
            "target_named_ids": 1000,
            "target_highest_id": 999,
            "target_base_ids": 990,
            "draft_named_ids": 1000,
            "draft_highest_id": 999,
            "draft_base_ids": 990,
        },
    ),
    ("embedding-rows", pair(theirs=draft(notes=(f"TENSOR_ROWS: {ODD_ROWS}",))), {"tensor_rows": ODD_ROWS}),
    (
        "tensor-parallel",
        pair(target(num_key_value_heads=1), tensor_parallel_size=2),
        {"oversharded": False, "side": "draft", "heads": 16, "tensor_parallel_size": 2},
    ),
    (
        "tensor-parallel",
        pair(theirs=draft(num_attention_heads=14), tensor_parallel_size=4),
        {"side": "draft", "heads": 14, "tensor_parallel_size": 4},
    ),
    ("dtype", pair(device=OLD), {"side": "target", "lacks": "bfloat16"}),
    ("quantization", bare_pair("mtp", target(quantization="awq-int4")), {"target": "awq-int4", "draft": None}),
    (
        "quantization",
        pair(theirs=draft(quantization="w8a8"), engine=INHERITS),
        {"inherits": True, "target": None, "draft": "w8a8"},
    ),
    ("quantization", head_pair(draft_quantization="int4"), {"target": None, "draft": "int4"}),
    ("quantization", pair(theirs=draft(quantization="awq-int4")), {"target": None, "draft": "awq-int4"}),
    ("quantization", pair(target(quantization="gguf-q4_k_m")), {"target": "gguf-q4_k_m", "draft": None}),
    ("context-length", pair(), {"draft": 32768, "target": 32768, "asked": None, "effective_context": 32768}),
    (
        "rope-scaling",
        pair(target(rope=YARN), draft(rope="yarn 2 32768")),
        {"target": "yarn 4 32768", "draft": "yarn 2 32768"},
    ),
    (
        "rope-scaling",
        pair(target(rope=YARN), draft(rope=LLAMA3)),
        {"native": 8192, "target": "yarn 4 32768", "draft": "llama3 8 8192"},
    ),
    ("rope-scaling", pair(target(rope=YARN), max_model_len=32768), {"target": "yarn 4 32768", "draft": None}),
    (
        "rope-scaling",
        pair(target(rope="odd"), draft(rope="strange")),
        {"native": None, "target": "odd", "draft": "strange"},
    ),
    ("modality", pair(theirs=draft(**SEEING)), {"target": "text", "draft": "text+vision", "images": None}),
    ("modality", pair(target(**SEEING), images=False), {"target": "text+vision", "draft": "text", "images": False}),
    ("mrope", pair(theirs=draft(mrope=True)), {"target": False, "draft": True}),
    ("recurrent-state", pair(target(attention="unknown")), {"target": "unknown", "draft": "full"}),
    ("recurrent-state", pair(theirs=draft(attention="unknown")), {"target": "full", "draft": "unknown"}),
    ("recurrent-state", pair(target(attention="hybrid")), {"sides": ["target"], "target": "hybrid", "draft": "full"}),
    (
        "recurrent-state",
        pair(theirs=draft(attention="recurrent")),
        {"sides": ["draft"], "target": "full", "draft": "recurrent"},
    ),
    ("lineage", pair(theirs=draft(lineage=Lineage(base_model=SELF, relation="distill"))), {"kind": "descends"}),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(base_model="maker/Else", relation="pruned"))),
        {"kind": "generation", "target": "Toy 2", "draft": "Toy 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(base_model=SELF, relation="finetune"), family="Else")),
        {"kind": "other family", "target": "Toy 2", "draft": "Else 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(), generation=None)),
        {"kind": "family", "target": "Toy 2", "draft": "Toy"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(), family="Toy-Coder")),
        {"kind": "stock", "target": "Toy 2", "draft": "Toy-Coder 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(stock="Toy", stock_generation="2"), family="Else")),
        {"kind": "one stock", "target": "Toy 2", "draft": "Else 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(stock="Toy", stock_generation="1"), family="Else", variant="draft")),
        {"kind": "other generation", "apart": 1.0, "target": "Toy 2", "draft": "Else 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(stock="Toy"), family="Else", variant="draft")),
        {"kind": "draft", "target": "Toy 2", "draft": "Else 2"},
    ),
    (
        "lineage",
        pair(theirs=draft(lineage=Lineage(), family="Else", variant="draft", made_for=(SELF,))),
        {"kind": "draft", "target": "Toy 2", "draft": "Else 2"},
    ),
    ("tuning", pair(theirs=draft(variant="draft")), {"target": "tuned", "draft": "draft"}),
    ("subject", pair(target(variant="vision-instruct")), {"target": "vision", "draft": "general"}),
    (
        "thinking-mode",
        pair(target(lineage=Lineage(thinking="hybrid")), draft(lineage=Lineage(thinking="on"))),
        {"target": "hybrid", "draft": "on"},
    ),
    (
        "thinking-mode",
        pair(target(lineage=Lineage(thinking="hybrid")), draft(lineage=Lineage(), variant="hybrid-reasoning")),
        {"target": "hybrid", "draft": "hybrid"},
    ),
    (
        "thinking-mode",
        pair(target(lineage=Lineage(thinking="on")), draft(lineage=Lineage(thinking="on"))),
        {"target": "on", "draft": "on"},
    ),
    (
        "changed-target",
        pair(merged("quantized"), via="maker/Toy-2-7B"),
        {"base": "maker/Toy-2-7B", "relation": "quantized"},
    ),
    ("changed-target", head_pair(merged(None), via="maker/Toy-2-7B"), {"base": "maker/Toy-2-7B", "relation": None}),
    ("licence", pair(theirs=draft(license="CC-BY-NC-4.0")), {"target": "apache-2.0", "draft": "CC-BY-NC-4.0"}),
    (
        "head-target",
        head_pair(published=head(target="unknown")),
        {"trained_for": "unknown", "confidence": "pairing-read"},
    ),
    (
        "head-target",
        head_pair(COPY),
        {"kin": "copy", "trained_for": "maker/Toy-2-7B-Instruct", "confidence": "pairing-read"},
    ),
    (
        "head-target",
        head_pair(target(lineage=Lineage(base_model="maker/Base", relation="finetune")), head(target="maker/Base")),
        {"kin": "base", "trained_for": "maker/Base", "confidence": "pairing-read"},
    ),
    (
        "head-target",
        head_pair(target(id="maker/Toy-3-7B")),
        {"kin": "version", "trained_for": "maker/Toy-2-7B-Instruct", "confidence": "pairing-read"},
    ),
    (
        "head-target",
        head_pair(target(id="maker/Toy-2-70B")),
        {"kin": "size", "trained_for": "maker/Toy-2-7B-Instruct", "confidence": "pairing-read"},
    ),
    (
        "head-target",
        head_pair(target(id="maker/Else-7B")),
        {"kin": "family", "trained_for": "maker/Toy-2-7B-Instruct", "confidence": "pairing-read"},
    ),
    ("head-hidden-size", head_pair(published=head(hidden_size=1024)), {"target": 4096, "head": 1024}),
    (
        "head-vocabulary",
        head_pair(target(id="x/y"), head(vocab_size=1000)),
        {"target": 1024, "head": 1000, "draft_vocab_size": None},
    ),
    (
        "head-vocabulary",
        head_pair(published=head(draft_vocab_size=1024)),
        {"reduced": False, "target": 1024, "head": 1024, "draft_vocab_size": 1024},
    ),
    ("head-not-a-draft", pair(theirs=draft(head_for="x/y")), {"head_for": "x/y"}),
    ("mtp-layers", bare_pair("mtp", target(num_nextn_predict_layers=0)), {"layers": 0}),
    ("swapped-roles", pair(draft(), target()), {"target_read": 1000000000, "draft_read": 7000000000, "ratio": 0.143}),
    (
        "swapped-roles",
        pair(theirs=sized(7, quantization="gguf-q2_k")),
        {"target_read": 7000000000, "draft_read": 7000000000, "ratio": 1.0},
    ),
    (
        "swapped-roles",
        pair(theirs=sized(3.6, **SPARSE_DRAFT)),
        {"kept_share": 0.51, "target_read": 7000000000, "draft_read": 1000000000, "ratio": 7.0},
    ),
    ("self-draft", pair(theirs=target(quantization="odd")), {"bytes_ratio": None}),
    (
        "self-draft",
        pair(COPY, target(id="x/copy", lineage=Lineage(base_model=SELF, relation="quantized"))),
        {"bytes_ratio": 1.0},
    ),
    ("size-ratio", pair(), {"ratio": 7.0, "bytes_ratio": 7.0, "band": "ideal", "basis": "all"}),
    ("size-ratio", pair(theirs=sized(3.6)), {"ratio": 1.94, "bytes_ratio": 1.94, "band": "low", "basis": "all"}),
    (
        "size-ratio",
        pair(theirs=sized(0.6)),
        {"ratio": 11.67, "bytes_ratio": 11.67, "band": "above-ideal", "basis": "all"},
    ),
    ("size-ratio", pair(theirs=sized(0.12)), {"ratio": 58.33, "bytes_ratio": 58.33, "band": "high", "basis": "all"}),
    (
        "size-ratio",
        pair(target(params_total=30_000_000_000, params_active=3_000_000_000, experts=SPARSE), sized(1.7)),
        {"ratio": 1.76, "bytes_ratio": 1.76, "band": "low", "basis": "active"},
    ),
    ("target-size", pair(), {"target_read": 7000000000}),
    ("depth", pair(), {"target_layers": 32, "draft_layers": 8, "share": 0.25}),
    (
        "moe-verify",
        pair(target(experts=SPARSE), num_spec_tokens=5),
        {"too_many": True, "k": 5, "experts": 128, "experts_read": 41.1, "factor": 5.14},
    ),
    ("draft-length", pair(num_spec_tokens=8), {"k": 8}),
    ("draft-length", bare_pair("mtp", target(num_nextn_predict_layers=1), num_spec_tokens=1), {"k": 1, "layers": 1}),
    (
        "tokenizer-identity",
        pair(relation=related("unknown", False, reason="one was not read. ")),
        {"relation": "unknown", "verified": False, "same_ids": None},
    ),
    (
        "tokenizer-identity",
        pair(relation=related("control_tokens", reason="seven names differ.")),
        {"relation": "control_tokens", "verified": True, "same_ids": None, "tokenizer_identical": False},
    ),
    (
        "tokenizer-identity",
        pair(relation=related("extension", reason="the draft has more")),
        {"relation": "extension", "verified": True, "same_ids": None},
    ),
    (
        "tokenizer-identity",
        pair(relation=related("different"), engine=TRANSLATES),
        {"relation": "different", "verified": True, "same_ids": None},
    ),
    (
        "embedding-rows",
        pair(theirs=draft(vocab_size=1000), relation=related("extension")),
        {
            "target_rows": 1024,
            "draft_rows": 1000,
            "difference": 24,
            "target_named_ids": 1000,
            "target_highest_id": 999,
            "target_base_ids": 990,
            "draft_named_ids": 1000,
            "draft_highest_id": 999,
            "draft_base_ids": 990,
        },
    ),
    (
        "embedding-rows",
        pair(target(tokenizer=None), draft(vocab_size=1000, tokenizer=None)),
        {"target_rows": 1024, "draft_rows": 1000, "difference": 24},
    ),
    ("file-format", pair(target(origin="gguf"), draft(origin="gguf"), engine=engine()), {"gguf": ["target", "draft"]}),
    (
        "control-tokens",
        pair(relation=related("control_tokens", False, renamed=(5, 6), only_target=(9,))),
        {"only_target": [9], "only_draft": [], "renamed": [5, 6], "renamed_in_use": [], "count": 3},
    ),
]


@pytest.mark.parametrize(
    ("rule", "judged", "evidence"), FINDINGS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_evidence(rule: str, judged: Pair, evidence: dict[str, Any]) -> None:
    assert ask(rule, judged).evidence == evidence


def test_every_rule_with_evidence_is_here() -> None:
    assert set(load()) - {rule for rule, _, _ in FINDINGS} == {"text-cut"}
