"""Laws of judging: what holds for every pair, whatever is known of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from builders import bare_pair, draft, head, head_pair, pair, target, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.choices import WEIGHTS, RuleChoices, choices_of
from draftpick.models.profile import Experts, Lineage, ModelProfile
from draftpick.models.tokenizer import Difference, Relation
from draftpick.pair import Device, Engine, Head, Pair, Setting
from draftpick.rules import RULES, Outcome, Rule, judge, load, not_applicable, ok, reject, skip, warn

LAW = settings(deadline=None, max_examples=60)
NAMES = sorted(load())


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


sizes = maybe(st.integers(1, 10**12))
small = maybe(st.integers(1, 300))
quantizations = maybe(st.sampled_from(["fp8", "awq-int4", "gguf-q4_k_m", "gguf-q8_0", "w8a8", "odd"]))
lineages = st.builds(
    Lineage,
    base_model=maybe(st.sampled_from(["maker/Toy-2-7B-Instruct", "maker/Toy-2-7B", "other/Else"])),
    relation=maybe(st.sampled_from(["finetune", "distill", "adapter", "quantized", "merge", "pruned"])),
    data=maybe(st.sampled_from(["a", "b"])),
    thinking=maybe(st.sampled_from(["on", "off", "hybrid"])),
)
tokenizers = st.builds(
    tokenizer,
    eos=maybe(st.integers(0, 9)),
    bos=maybe(st.integers(0, 9)),
    add_bos=maybe(st.booleans()),
    highest_id=small,
)
profile_fields = {
    "id": st.sampled_from(["maker/Toy-2-7B-Instruct", "other/Else", "plain", "x/Toy-3-8x7B"]),
    "origin": st.sampled_from(["catalogue", "folder", "gguf"]),
    "family": maybe(st.sampled_from(["Toy", "Else"])),
    "generation": maybe(st.sampled_from(["1", "2"])),
    "variant": maybe(st.sampled_from(["base", "instruct", "coder-instruct", "hybrid-reasoning", "reasoning", "draft"])),
    "architecture": maybe(st.sampled_from(["A", "B"])),
    "params_total": sizes,
    "params_active": sizes,
    "num_hidden_layers": small,
    "hidden_size": small,
    "num_attention_heads": small,
    "num_key_value_heads": small,
    "experts": maybe(st.builds(Experts, num_experts=st.integers(8, 256), experts_per_token=st.integers(1, 8))),
    "tie_word_embeddings": maybe(st.booleans()),
    "num_nextn_predict_layers": maybe(st.integers(0, 4)),
    "vocab_size": maybe(st.integers(1, 3)),
    "tokenizer": maybe(tokenizers),
    "max_position_embeddings": sizes,
    "rope": maybe(st.sampled_from(["yarn 4 32768", "llama3 8 8192", "odd"])),
    "attention": st.sampled_from(["full", "sliding", "hybrid", "recurrent", "unknown"]),
    "dtype": maybe(st.sampled_from(["bfloat16", "float16", "float32"])),
    "quantization": quantizations,
    "modality": st.sampled_from(["text", "text+vision"]),
    "mrope": st.booleans(),
    "license": maybe(st.sampled_from(["mit", "llama3.1", "qwen-research", "other"])),
    "gated": maybe(st.booleans()),
    "remote_code": st.booleans(),
    "head_for": maybe(st.sampled_from(["unknown", "maker/Toy-2-7B-Instruct"])),
    "lineage": lineages,
    "uncertain": st.frozensets(st.sampled_from(["dtype", "lineage", "vocab_size", "tokenizer", "params_total"])),
    "notes": st.sampled_from([(), ("TENSOR_ROWS: the embedding has 1 rows, config.json says 2",)]),
}
profiles = st.builds(ModelProfile, **profile_fields)
heads = st.builds(
    head,
    target=st.sampled_from(["unknown", "maker/Toy-2-7B-Instruct", "maker/Toy-3-7B; maker/Toy-3-1B", "x/y", ""]),
    method=st.sampled_from(["eagle3", "mtp", "medusa", "dflash"]),
    hidden_size=small,
    vocab_size=maybe(st.integers(1, 3)),
    draft_vocab_size=maybe(st.integers(1, 3)),
    num_spec_tokens=maybe(st.integers(1, 8)),
    rope=maybe(st.just("yarn 4 32768")),
    license=maybe(st.just("cc-by-nc-4.0")),
    uncertain=st.frozensets(st.sampled_from(["hidden_size", "license"])),
)
ids = st.lists(st.integers(0, 999), max_size=12).map(tuple)
relations = st.builds(
    Relation,
    kind=st.sampled_from(["identical", "control_tokens", "padding_only", "extension", "different", "unknown"]),
    verified=st.booleans(),
    reason=st.just("the reason"),
    first_difference=maybe(
        st.builds(Difference, id=st.integers(0, 9), target=maybe(st.text()), draft=maybe(st.text()))
    ),
    only_target=ids,
    only_draft=ids,
    renamed=ids,
    renamed_in_use=ids,
    same_cut=maybe(st.booleans()),
    covered=maybe(st.floats(0, 1)),
)
rules_of_vocabularies = ["equal-rows", "token-text", "equal-rows-or-translate", "none"]
engines = st.builds(
    lambda rule, tensor_parallel, gguf, version, cap: Engine(
        key="toy",
        name="toy",
        version=version,
        facts={
            "version": "2",
            "vocabulary": {"rule": rule, "max_size_difference": 1, "bridge": {"name": "b"}},
            "tensor_parallel": {"any": tensor_parallel},
            "limits": {"max_num_spec_tokens": cap},
            **({"gguf": gguf} if gguf else {}),
        },
    ),
    st.sampled_from(rules_of_vocabularies),
    st.sampled_from(["equal", "one-or-equal"]),
    maybe(st.sampled_from(["only", "some", "no"])),
    st.sampled_from(["1", "2"]),
    maybe(st.integers(1, 16)),
)
devices = st.builds(
    Device,
    key=st.just("d"),
    name=st.just("D"),
    vendor=st.just("v"),
    bf16=maybe(st.booleans()),
    fp8=maybe(st.booleans()),
)
situations = st.builds(
    Setting,
    engine=maybe(engines),
    device=maybe(devices),
    tensor_parallel_size=st.sampled_from([1, 2, 4, 8, 16]),
    max_model_len=sizes,
    num_spec_tokens=maybe(st.integers(1, 32)),
    dtype=maybe(st.sampled_from(["bfloat16", "float16"])),
    quantization=quantizations,
    draft_quantization=quantizations,
    images=maybe(st.booleans()),
)


def changed(made: Pair, **parts: Any) -> Pair:
    """A pair with some of its parts replaced."""
    return Pair(**{name: getattr(made, name) for name in Pair.__annotations__} | parts)


pairs = st.one_of(
    st.builds(
        pair, profiles, profiles, maybe(relations), method=st.sampled_from(["draft_model", "pard"]), of=maybe(heads)
    ),
    st.builds(head_pair, profiles, heads, via=maybe(st.just("maker/Toy-2-7B"))),
    st.builds(bare_pair, st.sampled_from(["ngram", "suffix", "mtp"]), profiles),
).flatmap(lambda made: situations.map(lambda setting: changed(made, setting=setting)))


@contextmanager
def replaced(name: str, check: Any) -> Iterator[None]:
    """One rule with another check."""
    known = RULES[name]
    RULES[name] = Rule(known.name, known.family, check, known.reads, known.about)
    try:
        yield
    finally:
        RULES[name] = known


@given(pairs)
@LAW
def test_score_and_coverage_keep_their_bounds(judged: Pair) -> None:
    _, score, coverage = judge(judged)
    assert 0 <= score <= 100
    assert 0 <= coverage <= 1


@given(pairs)
@LAW
def test_judging_is_deterministic(judged: Pair) -> None:
    assert judge(judged) == judge(judged)


@given(pairs)
@LAW
def test_every_finding_is_one_sentence_and_json_can_hold_its_evidence(judged: Pair) -> None:
    for finding in judge(judged)[0]:
        assert finding.message.endswith("."), finding
        assert "\n" not in finding.message
        assert json.loads(json.dumps(dict(finding.evidence))) is not None
        assert 0 <= finding.score <= 1
        assert finding.outcome != "reject" or finding.score == 0


@given(pairs, st.sampled_from(NAMES))
@LAW
def test_a_rejection_never_raises_the_score(judged: Pair, name: str) -> None:
    _, before, _ = judge(judged)
    with replaced(name, lambda _: reject("no.")):
        _, after, _ = judge(judged)
    assert after <= before + 1e-9


@given(pairs, st.sampled_from(NAMES))
@LAW
def test_a_perfect_finding_never_lowers_the_score(judged: Pair, name: str) -> None:
    _, before, _ = judge(judged)
    with replaced(name, lambda _: ok("yes.")):
        _, after, _ = judge(judged)
    assert after >= before - 1e-9


@given(pairs, st.sampled_from(NAMES))
@LAW
def test_a_missing_fact_never_raises_the_coverage(judged: Pair, name: str) -> None:
    with replaced(name, lambda _: ok("yes.")):
        _, _, known = judge(judged)
    with replaced(name, lambda _: skip("not known.")):
        _, _, unknown = judge(judged)
    assert unknown <= known


@given(pairs, st.sampled_from(NAMES))
@LAW
def test_ignoring_a_rule_judges_as_if_it_were_not_there(judged: Pair, name: str) -> None:
    findings, score, coverage = judge(judged, RuleChoices(ignore={name: "known and harmless here"}))
    others, *without = judge(judged, RuleChoices(select=frozenset(NAMES) - {name}))
    assert [score, coverage] == without
    assert [finding for finding in findings if finding.rule != name] == others


@given(pairs)
@LAW
def test_selecting_every_rule_changes_nothing(judged: Pair) -> None:
    assert judge(judged, RuleChoices(select=frozenset(NAMES))) == judge(judged)


@given(pairs)
@LAW
def test_uncertain_facts_lower_the_coverage_alone(judged: Pair) -> None:
    doubtful = judged.target.with_changes(uncertain=frozenset(ModelProfile.__annotations__))
    sure, doubted = judge(judged), judge(changed(judged, target=doubtful))
    assert doubted[1] == sure[1]
    assert doubted[2] <= sure[2]
    assert [finding.outcome for finding in doubted[0]] == [finding.outcome for finding in sure[0]]


def test_a_good_pair_scores_high_and_is_wholly_covered() -> None:
    findings, score, coverage = judge(pair())
    assert [finding.rule for finding in findings if finding.outcome in ("warn", "reject")] == []
    assert score > 99
    assert coverage == 1


def test_an_uncertain_fact_counts_half() -> None:
    only = RuleChoices(
        select=frozenset({"target-size", "embedding-rows"}), weights={"target-size": 1, "embedding-rows": 3}
    )
    doubtful = pair(theirs=draft(uncertain=frozenset({"vocab_size"})))
    assert judge(doubtful, RuleChoices(select=frozenset({"embedding-rows"})))[2] == 0.5
    assert judge(pair(), only)[2] == 1
    # Both rules read vocab_size: the one for the rows it compares, the other for the parameters read.
    assert judge(doubtful, only)[2] == 0.5


@pytest.mark.parametrize(
    ("said", "score", "coverage"),
    [
        pytest.param({}, 0.0, 0.0, id="nothing"),
        pytest.param({"depth": ok("a.", 0.5)}, 50.0, 1.0, id="one"),
        pytest.param(
            {"depth": ok("a.", 0.5), "tuning": ok("b.")}, 100 * (6 * 0.5 + 3) / 9, 1.0, id="two by their weights"
        ),
        pytest.param({"depth": warn("a."), "tuning": ok("b.")}, 100 * (6 * 0.5 + 3) / 9, 1.0, id="a warning is half"),
        pytest.param({"depth": reject("a."), "tuning": ok("b.")}, 100 * 3 / 9, 1.0, id="a rejection is nothing"),
        pytest.param({"depth": skip("a."), "tuning": ok("b.")}, 100.0, 3 / 9, id="what is not known covers nothing"),
        pytest.param(
            {"depth": not_applicable("a."), "tuning": ok("b.")}, 100.0, 1.0, id="what cannot matter is left out"
        ),
        pytest.param({"depth": ok("a.", certain=False), "tuning": ok("b.")}, 100.0, 6 / 9, id="a doubt covers half"),
        pytest.param({"depth": skip("a.")}, 0.0, 0.0, id="nothing is known"),
        pytest.param({"depth": not_applicable("a.")}, 0.0, 0.0, id="nothing matters"),
    ],
)
def test_score_and_coverage_by_hand(said: dict[str, Outcome], score: float, coverage: float) -> None:
    with ExitStack() as stack:
        for name, outcome in said.items():
            stack.enter_context(replaced(name, lambda _, outcome=outcome: outcome))
        findings, *found = judge(pair(), RuleChoices(select=frozenset(said)))
    assert found == pytest.approx([score, coverage])
    weights = {"depth": 6, "tuning": 3}
    assert {(one.rule, one.weight, one.outcome, one.score, one.certain, one.applies) for one in findings} == {
        (name, weights[name], one.kind, one.score, one.certain, one.applies) for name, one in said.items()
    }


def test_outcomes_as_rules_make_them() -> None:
    assert ok("m", a=1) == ("ok", "m", 1.0, {"a": 1}, True, True)
    assert warn("m", a=1) == ("warn", "m", 0.5, {"a": 1}, True, True)
    assert reject("m", a=1) == ("reject", "m", 0.0, {"a": 1}, True, True)
    assert skip("m", a=1) == ("skip", "m", 0.0, {"a": 1}, True, True)
    assert not_applicable("m") == ("skip", "m", 0.0, {}, True, False)
    assert [make("m", certain=False).certain for make in (ok, warn, reject)] == [False] * 3


def test_weights_are_the_users() -> None:
    unlike = pair(theirs=draft(num_hidden_layers=40))
    only = frozenset({"depth", "target-size"})
    depth_alone = judge(unlike, RuleChoices(select=only, weights={"target-size": 0}))[1]
    size_alone = judge(unlike, RuleChoices(select=only, weights={"depth": 0}))[1]
    assert depth_alone == pytest.approx(10)
    assert size_alone == 100


def test_an_ignored_rejection_stays_visible_and_does_not_reject() -> None:
    swapped = pair(draft(), target())
    findings, _, _ = judge(swapped, RuleChoices(ignore={"swapped-roles": "a test of the engine"}))
    seen = next(finding for finding in findings if finding.rule == "swapped-roles")
    assert seen.outcome == "reject"
    assert seen.ignored_because == "a test of the engine"
    assert not seen.rejects
    assert next(finding for finding in judge(swapped)[0] if finding.rule == "swapped-roles").rejects


@pytest.mark.parametrize(
    ("judged", "subjects"),
    [
        pytest.param(pair(), {"draft_model", "any"}, id="draft model"),
        pytest.param(pair(of=head(method="draft_model")), {"draft_model", "any"}, id="published draft model"),
        pytest.param(head_pair(), {"head", "any"}, id="head"),
        pytest.param(bare_pair("mtp"), {"head", "any"}, id="own layers"),
        pytest.param(bare_pair("ngram"), {"any"}, id="n-gram"),
    ],
)
def test_rules_are_asked_of_what_they_are_about(judged: Pair, subjects: set[str]) -> None:
    asked = {finding.rule for finding in judge(judged)[0]}
    assert asked == {name for name, known in RULES.items() if known.about in subjects}


@pytest.mark.parametrize("first", ["acceptance", "rules.tokenizer", "cli"])
def test_the_order_of_rules_is_one(first: str) -> None:
    script = f"import draftpick.{first}; from draftpick.rules import load; print(*load())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(load())


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_documented_and_weighed_with_a_reason(name: str) -> None:
    known = RULES[name]
    paragraphs = known.doc.split("\n\n")
    assert [part.partition(":")[0] for part in paragraphs[1:]] == ["Why", "Exception", "Remedy"]
    assert known.title.endswith(".")
    assert len(known.title) <= 90
    assert all(choice.why and choice.value >= 0 for choice in choices_of(name))
    assert choices_of(name)[0].name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_reads_fields_there_are(name: str) -> None:
    assert set(RULES[name].reads) <= {*ModelProfile.__annotations__, *Head.__annotations__}


def test_every_weight_belongs_to_a_rule() -> None:
    assert set(WEIGHTS) == set(RULES)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_says_where_it_stands_and_what_it_reads(name: str) -> None:
    rule = RULES[name]
    assert rule.family == rule.check.__module__.rpartition(".")[2]
    assert rule.about in ("draft_model", "head", "any")
    assert {*rule.reads} <= {*ModelProfile._fields, *Head._fields}
