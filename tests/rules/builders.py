"""Small profiles, tokenizers and pairs for the tests of rules: a 7B target and a 1B draft that fit each other."""

from __future__ import annotations

from typing import Any

from draftpick.models.profile import Lineage, ModelProfile
from draftpick.models.tokenizer import Fingerprint, Relation
from draftpick.pair import Device, Engine, Head, Pair, Proposal, Setting
from draftpick.rules import RULES, Outcome, load

IDENTICAL = Relation(
    kind="identical", verified=True, reason="all 1,000 ids mean the same", same_cut=True, same_ids=1000
)


def tokenizer(**changes: Any) -> Fingerprint:
    fields: dict[str, Any] = {
        "key": "toy",
        "verified": True,
        "named_ids": 1000,
        "highest_id": 999,
        "base_ids": 990,
        "bos": 1,
        "eos": 2,
        "add_bos": True,
    }
    return Fingerprint(**{**fields, **changes})


def target(**changes: Any) -> ModelProfile:
    fields: dict[str, Any] = {
        "id": "maker/Toy-2-7B-Instruct",
        "origin": "folder",
        "family": "Toy",
        "generation": "2",
        "variant": "instruct",
        "architecture": "ToyForCausalLM",
        "params_total": 7_000_000_000,
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "tie_word_embeddings": True,
        "vocab_size": 1024,
        "tokenizer": tokenizer(),
        "max_position_embeddings": 32768,
        "dtype": "bfloat16",
        "license": "apache-2.0",
        "gated": False,
        "lineage": Lineage(data="Toy 2 pre-training", thinking="off"),
    }
    return ModelProfile(**{**fields, **changes})


def draft(**changes: Any) -> ModelProfile:
    smaller: dict[str, Any] = {
        "id": "maker/Toy-2-1B-Instruct",
        "params_total": 1_000_000_000,
        "num_hidden_layers": 8,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_attention_heads": 16,
    }
    return target(**{**smaller, **changes})


def head(**changes: Any) -> Head:
    fields: dict[str, Any] = {
        "id": "someone/EAGLE3-Toy-2-7B-Instruct",
        "method": "eagle3",
        "target": "maker/Toy-2-7B-Instruct",
        "params": 300_000_000,
        "num_hidden_layers": 1,
        "hidden_size": 4096,
        "vocab_size": 1024,
        "max_position_embeddings": 32768,
        "license": "apache-2.0",
        "confidence": "pairing-read",
    }
    return Head(**{**fields, **changes})


def engine(key: str = "toy-engine", version: str = "1.0", **facts: Any) -> Engine:
    return Engine(key=key, name=key, version=version, facts={"version": "1.0", **facts})


def device(**changes: Any) -> Device:
    fields: dict[str, Any] = {"key": "toy-npu", "name": "Toy NPU", "vendor": "maker", "bf16": True, "fp8": True}
    return Device(**{**fields, **changes})


def pair(
    ours: ModelProfile | None = None,
    theirs: ModelProfile | None = None,
    relation: Relation | None = IDENTICAL,
    method: str = "draft_model",
    via: str | None = None,
    of: Head | None = None,
    **setting: Any,
) -> Pair:
    """A target with a draft model; `of` says for whom that draft was published."""
    proposal = Proposal(method=method, origin="given", draft=theirs or draft(), via=via, head=of)
    return Pair(target=ours or target(), proposal=proposal, setting=Setting(**setting), relation=relation)


def head_pair(
    ours: ModelProfile | None = None, published: Head | None = None, via: str | None = None, **setting: Any
) -> Pair:
    found = published or head()
    proposal = Proposal(method=found.method, origin="catalogue", head=found, via=via)
    return Pair(target=ours or target(), proposal=proposal, setting=Setting(**setting))


def bare_pair(method: str, ours: ModelProfile | None = None, **setting: Any) -> Pair:
    """A target that drafts by itself: n-gram lookup, suffix decoding or its own MTP layers."""
    origin = "target" if method == "mtp" else "always"
    return Pair(target=ours or target(), proposal=Proposal(method=method, origin=origin), setting=Setting(**setting))


def ask(rule: str, judged: Pair) -> Outcome:
    """What one rule says."""
    load()
    return RULES[rule].check(judged)


def says(rule: str, judged: Pair) -> str:
    """What one rule says, in short: `ok`, `warn 0.55` with its score, `ok 0.8 unsure`, `reject`, `skip`, `n/a`."""
    outcome = ask(rule, judged)
    if outcome.kind == "skip":
        return "skip" if outcome.applies else "n/a"
    score = f" {outcome.score:.3g}" if outcome.score != (outcome.kind != "reject") else ""
    return f"{outcome.kind}{score}{'' if outcome.certain else ' unsure'}"
