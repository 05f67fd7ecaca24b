from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, draft, head, head_pair, pair, says, target

from draftpick.models.profile import Lineage
from draftpick.rules.heads import TUNED, kinship

BASE = "maker/Toy-2-7B-Instruct"


@pytest.mark.parametrize(
    ("one", "other", "kin"),
    [
        pytest.param(
            "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3-70B-Instruct", "version", id="Llama 3"
        ),
        pytest.param("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B", "tuning", id="Qwen3 2507"),
        pytest.param("Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507", "tuning", id="thinking"),
        pytest.param(
            "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "size", id="another size"
        ),
        pytest.param("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B", "size", id="sparse and dense"),
        pytest.param(
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            "size",
            id="other numbers of experts",
        ),
        pytest.param("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "family", id="another family"),
        pytest.param("RedHatAI/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B", "tuning", id="a quantised copy"),
        pytest.param("Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B", "size", id="generations of other sizes"),
        pytest.param("Qwen/Qwen3-32B", "Qwen/Qwen2.5-32B-Instruct", "version", id="generations of one size"),
    ],
)
def test_kinship_by_name(one: str, other: str, kin: str) -> None:
    assert kinship(one, other) == kinship(other, one) == kin


@pytest.mark.parametrize(
    ("ours", "published", "expected", "kin"),
    [
        pytest.param({}, {}, "ok", "same", id="this target"),
        pytest.param({}, {"target": f"maker/Other-7B; {BASE}"}, "ok", "same", id="one of several"),
        pytest.param({"id": "maker/Toy-2-7B"}, {}, "warn 0.4 unsure", "tuning", id="base and instruct"),
        pytest.param({"id": "maker/Toy-3-7B-Instruct"}, {}, "warn 0.25 unsure", "version", id="another generation"),
        pytest.param({"id": "maker/Toy-2-13B-Instruct"}, {}, "reject", "size", id="another size"),
        pytest.param({"id": "maker/Else-7B"}, {}, "reject", "family", id="another family"),
        pytest.param({}, {"target": "unknown"}, "warn 0.3 unsure", None, id="not known for whom"),
        pytest.param(
            {"id": "x/Else-9B", "lineage": Lineage(base_model=BASE, relation="finetune")},
            {},
            "warn 0.5",
            "base",
            id="a fine-tune",
        ),
        pytest.param(
            {"id": "x/Else-9B", "lineage": Lineage(base_model=BASE, relation="quantized")},
            {},
            "ok 0.9",
            "copy",
            id="a copy",
        ),
    ],
)
def test_head_target(ours: dict[str, Any], published: dict[str, Any], expected: str, kin: str | None) -> None:
    judged = head_pair(target(**ours), head(**published))
    assert (says("head-target", judged), ask("head-target", judged).evidence.get("kin")) == (expected, kin)


@pytest.mark.parametrize(
    ("confidence", "certain"),
    [pytest.param("pairing-read", True, id="read"), pytest.param("name-derived", False, id="by its name alone")],
)
def test_a_pairing_read_from_names_is_uncertain(confidence: str, certain: bool) -> None:
    assert ask("head-target", head_pair(published=head(confidence=confidence))).certain is certain


@pytest.mark.parametrize(
    ("ours", "published", "expected"),
    [
        pytest.param({}, {}, "ok", id="equal"),
        pytest.param({"id": "maker/Toy-2-70B-Instruct", "hidden_size": 8192}, {}, "reject", id="another size"),
        pytest.param({}, {"hidden_size": 1024}, "ok 0.8", id="a width of its own"),
        pytest.param({}, {"hidden_size": None}, "skip", id="not known"),
    ],
)
def test_head_hidden_size(ours: dict[str, Any], published: dict[str, Any], expected: str) -> None:
    assert says("head-hidden-size", head_pair(target(**ours), head(**published))) == expected


def test_head_hidden_size_names_both_widths() -> None:
    judged = head_pair(target(id="maker/Toy-2-70B-Instruct", hidden_size=8192))
    assert ask("head-hidden-size", judged).message == "The head is 4096 wide, the target's hidden states 8192."


@pytest.mark.parametrize(
    ("ours", "published", "expected"),
    [
        pytest.param({}, {}, "ok", id="equal"),
        pytest.param({}, {"draft_vocab_size": 256}, "ok 0.9", id="a shortened list"),
        pytest.param({}, {"vocab_size": 1000}, "warn 0.6", id="padding"),
        pytest.param({"id": "maker/Else-7B"}, {"vocab_size": 1000}, "reject", id="another target's"),
        pytest.param({}, {"vocab_size": None}, "skip", id="not known"),
    ],
)
def test_head_vocabulary(ours: dict[str, Any], published: dict[str, Any], expected: str) -> None:
    assert says("head-vocabulary", head_pair(target(**ours), head(**published))) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "ok", id="a model"),
        pytest.param(pair(theirs=draft(head_for="unknown")), "reject", id="a head"),
        pytest.param(pair(theirs=draft(head_for=BASE), method="pard"), "ok", id="a parallel draft"),
        pytest.param(pair(theirs=draft(head_for=BASE, variant="draft")), "ok", id="a model made for one target"),
    ],
)
def test_head_not_a_draft(judged: Any, expected: str) -> None:
    assert says("head-not-a-draft", judged) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(bare_pair("mtp", target(num_nextn_predict_layers=1)), "ok", id="one"),
        pytest.param(bare_pair("mtp", target(num_nextn_predict_layers=0)), "reject", id="none"),
        pytest.param(bare_pair("mtp"), "skip", id="not known"),
        pytest.param(head_pair(published=head(method="mtp")), "n/a", id="a checkpoint of its own"),
        pytest.param(head_pair(), "n/a", id="another method"),
    ],
)
def test_mtp_layers(judged: Any, expected: str) -> None:
    assert says("mtp-layers", judged) == expected


@pytest.mark.parametrize(
    ("one", "other", "kin"),
    [
        *((f"a/Toy-7B-{word}", "b/Toy-7B", "tuning") for word in sorted(TUNED)),
        ("a/Toy-7B-2507", "b/Toy-7B", "tuning"),
        ("a/Toy-7B-250", "b/Toy-7B", "version"),
        ("a/Toy_7B", "b/toy-7b", "tuning"),
        ("a/Toy2-7B", "b/Toy3-7B", "version"),
        ("a/Toy-v0.1-7B", "b/Toy-v0.3-7B", "version"),
        ("a/Toy-Large-7B", "b/Toy-7B", "version"),
        ("a/Toy", "b/Toy-7B", "tuning"),
        ("a/Toy-16E", "b/Toy-128E", "size"),
        ("a/Toy-E4B", "b/Toy-E2B", "size"),
        ("a/Toy-350M", "b/Toy-1.7B", "size"),
        ("a/Toy-1T", "b/Toy-1B", "size"),
        ("a/Toy-8x7B", "b/Toy-8x22B", "size"),
        ("a/Toy-A3B-30B", "b/Toy-30B", "size"),
        ("a/Toy-7B", "b/Else-7B", "family"),
        ("a/Toy-7B", "b/Else-8B", "size"),
    ],
)
def test_kinship_by_parts_of_names(one: str, other: str, kin: str) -> None:
    assert kinship(one, other) == kinship(other, one) == kin


@pytest.mark.parametrize("rule", ["head-target", "head-hidden-size", "head-vocabulary"])
def test_own_layers_are_no_head(rule: str) -> None:
    assert says(rule, bare_pair("mtp")) == "n/a"


@pytest.mark.parametrize(("rows", "expected"), [(1023, "ok 0.9"), (1024, "ok"), (None, "ok")])
def test_a_list_is_shortened_where_it_is_shorter(rows: int | None, expected: str) -> None:
    assert says("head-vocabulary", head_pair(published=head(draft_vocab_size=rows))) == expected


def test_the_nearest_of_several_targets_counts() -> None:
    named = head(target="maker/Else-7B; maker/Toy-2-7B; maker/Toy-3-7B")
    assert says("head-target", head_pair(published=named)) == "warn 0.4 unsure"


@pytest.mark.parametrize("head_for", ["unknown", BASE])
def test_a_head_is_named_with_its_target_where_that_is_known(head_for: str) -> None:
    outcome = ask("head-not-a-draft", pair(theirs=draft(head_for=head_for)))
    assert (f"for {BASE}" in outcome.message) is (head_for == BASE)
    assert says("head-not-a-draft", head_pair()) == "n/a"


@pytest.mark.parametrize(("confidence", "doubted"), [("pairing-read", False), ("name-derived", True)])
def test_what_is_known_from_a_name_alone_is_told(confidence: str, doubted: bool) -> None:
    message = ask("head-target", head_pair(published=head(confidence=confidence))).message
    assert ("known from its name only" in message) is doubted
