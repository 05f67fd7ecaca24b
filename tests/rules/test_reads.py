"""What rules read of a pair's profiles, recorded as they run, against what they declare to read."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import draft, head, head_pair
from builders import pair as fitting_pair

from draftpick.assess import relate
from draftpick.candidates import named
from draftpick.catalog import load
from draftpick.models.profile import ModelProfile
from draftpick.pair import Head, Pair, Proposal, Setting
from draftpick.rules import Rule, judge
from draftpick.rules import load as load_rules
from draftpick.rules.figures import SIZES, STORED

NOT_FACTS = {"id", "origin", "path", "revision", "uncertain", "notes"}
"""Fields that say which model it is and where its facts come from, and are never uncertain themselves."""

ASKED_WITH_SURE = {
    "tensor-parallel": {*SIZES},
    "quantization": {"lineage"},
    "head-target": {"lineage"},
    "head-hidden-size": {"target"},
    "head-vocabulary": {"target"},
    "swapped-roles": {*STORED},
    "self-draft": {"lineage"},
}
"""Rule → fields that only some of its answers go by, which ask themselves whether they are certain."""
ONLY_SAID = {
    # The rule of thumb goes by parameters; the ratio in bytes stands beside as evidence.
    "size-ratio": {*STORED},
    # Whether a target without a known layout of experts is sparse: either way it is not judged.
    "moe-verify": {"params_active"},
    # Likeness of shape is never taken for certain.
    "self-draft": {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"},
    # How the ids relate, and how surely, is the relation's matter; these numbers are named in the sentence.
    "tokenizer-identity": {"vocab_size"},
    "embedding-rows": {"tokenizer"},
}
"""Rule → fields that change no outcome that is told as certain."""

_read: set[str] = set()


class WatchedModel(ModelProfile):
    """A profile that notes which fields are looked at."""

    def __getattribute__(self, name: str) -> Any:
        if name in ModelProfile._fields:
            _read.add(name)
        return super().__getattribute__(name)


class WatchedHead(Head):
    """The same of a head."""

    def __getattribute__(self, name: str) -> Any:
        if name in Head._fields:
            _read.add(name)
        return super().__getattribute__(name)


CATALOG = load()
SETTINGS = [
    Setting(),
    *(
        Setting(
            engine=CATALOG.engine(engine),
            device=CATALOG.device(device),
            tensor_parallel_size=devices,
            max_model_len=65536,
            images=images,
            dtype=dtype,
        )
        for engine, device, devices, images, dtype in (
            ("vllm", "h100-80g", 8, False, None),
            ("vllm-ascend", "910a", 4, True, "bfloat16"),
            ("llama.cpp", "310p-pro", 1, None, "float16"),
            ("transformers", "910b3", 2, None, "float32"),
        )
    ),
]


def pairs() -> Iterator[Pair]:
    """The known pairs and every head with its target, in several places; what rules see of them is recorded."""
    with open(Path(__file__).parent.parent / "cases.csv", encoding="utf-8", newline="") as file:
        known = {(case["target"], case["draft"]) for case in csv.DictReader(file)}
    known |= {(head["target"], name) for name, head in CATALOG.heads.items() if head.get("target")}
    for target_id, draft_id in sorted(known):
        target = CATALOG.find(target_id)
        if target is None or (CATALOG.find(draft_id) is None and CATALOG.head(draft_id) is None):
            continue
        for proposal in named([draft_id], CATALOG, CATALOG.profile):
            relation = relate(target, proposal, CATALOG)
            for setting in SETTINGS:
                yield Pair(WatchedModel._make(target), watched(proposal), setting, relation)


def watched(proposal: Proposal) -> Proposal:
    draft, head = proposal.draft, proposal.head
    return proposal._replace(
        draft=WatchedModel._make(draft) if draft is not None else None,
        head=WatchedHead._make(head) if head is not None else None,
    )


@pytest.fixture(scope="module")
def read() -> dict[str, set[str]]:
    """Rule → fields that it read of some pair."""
    found: dict[str, set[str]] = {name: set() for name in load_rules()}
    for pair in pairs():
        for name, rule in load_rules().items():
            if rule.about == "any" or (rule.about == "head") == (pair.proposal.head is not None):
                _read.clear()
                rule.check(pair)
                found[name] |= _read
    return found


@pytest.mark.parametrize("rule", load_rules().values(), ids=lambda rule: rule.name)
def test_a_rule_declares_the_facts_that_it_reads(rule: Rule, read: dict[str, set[str]]) -> None:
    others = ASKED_WITH_SURE.get(rule.name, set()) | ONLY_SAID.get(rule.name, set())
    assert read[rule.name] - NOT_FACTS - others <= set(rule.reads)
    assert others <= read[rule.name], "what is named here is read"


@pytest.mark.parametrize("rule", load_rules().values(), ids=lambda rule: rule.name)
def test_what_a_rule_declares_is_a_fact(rule: Rule) -> None:
    assert set(rule.reads) <= {*ModelProfile._fields, *Head._fields} - NOT_FACTS


@pytest.mark.parametrize(
    ("rule", "fields", "changes", "certain"),
    [
        ("swapped-roles", STORED, {}, True),
        ("swapped-roles", STORED, {"params_total": 7_000_000_000, "quantization": "gguf-q2_k"}, False),
        ("tensor-parallel", SIZES, {}, True),
        ("tensor-parallel", ("latent",), {}, False),
        ("size-ratio", STORED, {}, True),
        ("size-ratio", ("experts",), {}, False),
        ("self-draft", ("lineage",), {}, True),
    ],
)
def test_a_finding_is_unsure_where_it_goes_by_an_unsure_fact(
    rule: str, fields: tuple[str, ...], changes: dict[str, Any], certain: bool
) -> None:
    pair = fitting_pair(theirs=draft(uncertain=frozenset(fields), **changes), tensor_parallel_size=2)
    (finding,) = [found for found in judge(pair)[0] if found.rule == rule]
    assert finding.certain is certain


@pytest.mark.parametrize(("fields", "certain"), [((), True), (("target",), False), (("lineage",), True)])
def test_a_head_is_as_sure_as_what_it_was_trained_for(fields: tuple[str, ...], certain: bool) -> None:
    pair = head_pair(published=head(uncertain=frozenset(fields)))
    (finding,) = [found for found in judge(pair)[0] if found.rule == "head-target"]
    assert finding.certain is certain
