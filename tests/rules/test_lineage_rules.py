from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, draft, head, head_pair, pair, says, target

from draftpick.models.profile import Lineage

SELF = "maker/Toy-2-7B-Instruct"


def origin(**fields: Any) -> Lineage:
    return Lineage(**fields)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected", "kind"),
    [
        pytest.param({}, {}, "ok", "same data", id="same data"),
        pytest.param(
            {},
            {"family": "Other", "lineage": origin(base_model=SELF, relation="distill")},
            "ok",
            "descends",
            id="distilled",
        ),
        pytest.param(
            {"lineage": origin(base_model="maker/Toy-2-7B", relation="finetune")},
            {"lineage": origin(base_model="maker/Toy-2-7B", relation="pruned")},
            "ok",
            "descends",
            id="pruned from the target's base",
        ),
        pytest.param({}, {"lineage": Lineage()}, "ok 0.95", "generation", id="one generation"),
        pytest.param(
            {}, {"lineage": Lineage(), "generation": None}, "ok 0.8 unsure", "family", id="generation not known"
        ),
        pytest.param(
            {}, {"lineage": Lineage(), "generation": "1"}, "warn 0.6", "other generation", id="other generation"
        ),
        pytest.param({}, {"lineage": Lineage(), "family": "Other"}, "warn 0.35", "other family", id="other family"),
        pytest.param(
            {},
            {"lineage": Lineage(), "family": "Other", "variant": "draft"},
            "ok 0.7",
            "draft",
            id="published to draft",
        ),
        pytest.param({}, {"lineage": Lineage(), "family": "Toy-Coder"}, "ok 0.85 unsure", "stock", id="one stock"),
        pytest.param(
            {"family": "Reasoner", "generation": "9", "lineage": origin(stock="Toy", stock_generation="2")},
            {"lineage": Lineage()},
            "ok 0.75",
            "one stock",
            id="trained on from the draft's stock",
        ),
        pytest.param(
            {"family": "Reasoner", "lineage": origin(stock="Toy", stock_generation="1")},
            {"lineage": Lineage()},
            "warn 0.35",
            "other family",
            id="trained on from an older stock",
        ),
        pytest.param(
            {},
            {"lineage": Lineage(), "family": "Toy-Coder", "generation": "1"},
            "warn 0.35",
            "other family",
            id="other stock",
        ),
        pytest.param({}, {"lineage": Lineage(), "family": None}, "skip", None, id="not known"),
    ],
)
def test_lineage(ours: dict[str, Any], theirs: dict[str, Any], expected: str, kind: str | None) -> None:
    judged = pair(target(**ours), draft(**theirs))
    assert (says("lineage", judged), ask("lineage", judged).evidence.get("kind")) == (expected, kind)


def test_nearer_origins_score_higher() -> None:
    same, other_generation, other_family = (
        ask("lineage", pair(theirs=draft(**fields))).score
        for fields in ({}, {"lineage": Lineage(), "generation": "1"}, {"lineage": Lineage(), "family": "Other"})
    )
    assert same > other_generation > other_family


def test_the_nearer_generation_scores_higher() -> None:
    ours = target(generation="3", lineage=Lineage())
    near, far, unnumbered = (
        ask("lineage", pair(ours, draft(generation=generation, lineage=Lineage()))).score
        for generation in ("2.5", "1.5", "Next")
    )
    assert near > far >= 0.4
    assert near > unnumbered


def test_a_draft_trained_for_this_target_needs_no_common_origin() -> None:
    other = {"lineage": Lineage(), "family": "Other", "variant": "draft"}
    assert (
        ask("lineage", pair(theirs=draft(**other, made_for=(SELF,)))).score
        > ask("lineage", pair(theirs=draft(**other))).score
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param("instruct", "instruct", "ok", id="both tuned"),
        pytest.param("base", "coder-base", "ok", id="both base"),
        pytest.param("instruct", "base", "warn 0.55", id="base for instruct"),
        pytest.param("base", "instruct", "warn 0.65", id="instruct for base"),
        pytest.param("reasoning", "draft", "ok", id="published to draft"),
        pytest.param("instruct", None, "skip", id="not known"),
    ],
)
def test_tuning(ours: str | None, theirs: str | None, expected: str) -> None:
    assert says("tuning", pair(target(variant=ours), draft(variant=theirs))) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param("coder-instruct", "coder-base", "ok", id="both coders"),
        pytest.param("coder-instruct", "instruct", "warn 0.65", id="general draft for a coder"),
        pytest.param("instruct", "math-instruct", "warn 0.65", id="mathematician for a general target"),
        pytest.param("vision-instruct", "instruct", "ok 0.85", id="general draft for a vision target"),
        pytest.param("coder-instruct", "draft", "ok", id="published to draft"),
        pytest.param(None, "instruct", "skip", id="not known"),
    ],
)
def test_subject(ours: str | None, theirs: str | None, expected: str) -> None:
    assert says("subject", pair(target(variant=ours), draft(variant=theirs))) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param({"thinking": "on"}, {"thinking": "on"}, "ok", id="both think"),
        pytest.param({"thinking": "on"}, {"thinking": "off"}, "warn 0.4", id="only the target thinks"),
        pytest.param({"thinking": "off"}, {"thinking": "on"}, "warn 0.4", id="only the draft thinks"),
        pytest.param({"thinking": "hybrid"}, {"thinking": "off"}, "ok 0.85", id="the target can switch"),
        pytest.param({"thinking": "hybrid"}, {"thinking": "hybrid"}, "ok 0.95", id="both can switch"),
        pytest.param({"thinking": "on"}, {}, "warn 0.4 unsure", id="read from the variant"),
    ],
)
def test_thinking_mode(ours: dict[str, Any], theirs: dict[str, Any], expected: str) -> None:
    assert says("thinking-mode", pair(target(lineage=origin(**ours)), draft(lineage=origin(**theirs)))) == expected


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        pytest.param("base", "n/a", id="base"),
        pytest.param("draft", "skip", id="draft"),
        pytest.param(None, "skip", id="not known"),
    ],
)
def test_thinking_mode_of_models_that_do_not_answer(variant: str | None, expected: str) -> None:
    assert says("thinking-mode", pair(theirs=draft(variant=variant, lineage=Lineage()))) == expected


THEIR_FINETUNE = target(id="someone/Tuned-7B", lineage=origin(base_model=SELF, relation="finetune"))
QUANTISED = target(id="someone/Toy-AWQ", lineage=origin(base_model=SELF, relation="quantized"))


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "ok", id="unchanged"),
        pytest.param(pair(THEIR_FINETUNE), "warn 0.5", id="somebody's fine-tune"),
        pytest.param(pair(THEIR_FINETUNE, draft(id="someone/Tuned-1B")), "ok", id="both by that somebody"),
        pytest.param(
            pair(THEIR_FINETUNE, draft(id="third/Draft-1B", made_for=(THEIR_FINETUNE.id,))), "ok", id="made for it"
        ),
        pytest.param(
            pair(THEIR_FINETUNE, draft(id="third/Draft-1B", lineage=origin(base_model="someone/Tuned-1B"))),
            "ok",
            id="made from that somebody's small one",
        ),
        pytest.param(pair(THEIR_FINETUNE._replace(id="/models/tuned")), "warn 0.5", id="a fine-tune in a folder"),
        pytest.param(head_pair(THEIR_FINETUNE), "warn 0.5", id="a head for the base, named by the user"),
        pytest.param(head_pair(THEIR_FINETUNE, head(target=THEIR_FINETUNE.id)), "ok", id="a head for the fine-tune"),
        pytest.param(
            pair(target(lineage=origin(base_model="maker/Toy-2-7B", relation="finetune"))),
            "ok",
            id="the maker's own version",
        ),
        pytest.param(head_pair(THEIR_FINETUNE, via=SELF), "warn 0.5", id="a head found through the base"),
        pytest.param(head_pair(QUANTISED, via=SELF), "ok 0.9", id="a head for a quantised copy"),
        pytest.param(bare_pair("ngram", THEIR_FINETUNE), "n/a", id="nothing was trained"),
    ],
)
def test_changed_target(judged: Any, expected: str) -> None:
    assert says("changed-target", judged) == expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "n/a", id="a model of its own"),
        pytest.param(pair(of=head(method="draft_model")), "ok", id="for this target"),
        pytest.param(pair(of=head(confidence="name-derived")), "ok unsure", id="by its name alone"),
        pytest.param(pair(of=head(target=f"maker/Other; {SELF}")), "ok", id="for several targets"),
        pytest.param(pair(of=head(target="maker/Other")), "n/a", id="for another target"),
        pytest.param(pair(theirs=draft(made_for=(SELF,), variant="draft")), "ok", id="by its own row"),
        pytest.param(pair(theirs=draft(made_for=("maker/Other",))), "n/a", id="a model for another target"),
    ],
)
def test_made_for(judged: Any, expected: str) -> None:
    assert says("made-for", judged) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param("apache-2.0", "mit", "ok", id="both free"),
        pytest.param("apache-2.0", "qwen-research", "warn 0.3", id="research only"),
        pytest.param("apache-2.0", "cc-by-nc-nd-4.0", "warn 0.3", id="not commercial"),
        pytest.param("apache-2.0", "llama3.2", "warn 0.7", id="terms of its own"),
        pytest.param("llama3.1", "llama3.2", "ok", id="terms on both sides"),
        pytest.param("qwen-research", "apache-2.0", "ok", id="freer than the target"),
        pytest.param("apache-2.0", "other", "skip", id="unread terms"),
        pytest.param("apache-2.0", None, "skip", id="not known"),
    ],
)
def test_licence(ours: str | None, theirs: str | None, expected: str) -> None:
    assert says("licence", pair(target(license=ours), draft(license=theirs))) == expected
    assert says("licence", head_pair(target(license=ours), head(license=theirs))) == expected


def test_a_gated_draft_of_an_open_target_is_told() -> None:
    assert says("licence", pair(theirs=draft(gated=True))) == "warn 0.8"
    assert says("licence", bare_pair("ngram")) == "n/a"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected", "kind"),
    [
        pytest.param(
            {}, {"lineage": Lineage(), "generation": "1.5"}, "warn 0.625", "other generation", id="half apart"
        ),
        pytest.param(
            {}, {"lineage": Lineage(), "generation": "2-next"}, "warn 0.65", "other generation", id="one number"
        ),
        pytest.param({}, {"lineage": Lineage(), "generation": "9"}, "warn 0.4", "other generation", id="far apart"),
        pytest.param({}, {"lineage": Lineage(), "generation": "Next"}, "warn 0.6", "other generation", id="no number"),
        pytest.param({"family": None}, {"lineage": Lineage()}, "skip", None, id="the target's family is not known"),
        pytest.param(
            {"generation": None}, {"lineage": Lineage()}, "ok 0.8 unsure", "family", id="the target's generation is not"
        ),
        pytest.param(
            {"lineage": origin(stock="Else", stock_generation="1")},
            {"lineage": origin(stock="Else", stock_generation="1")},
            "ok 0.9",
            "one stock",
            id="one family, one stock",
        ),
        pytest.param({}, {"lineage": Lineage(), "family": "Toy-Math"}, "ok 0.85 unsure", "stock", id="for mathematics"),
        pytest.param({}, {"lineage": Lineage(), "family": "Toy-VL"}, "ok 0.85 unsure", "stock", id="for images"),
        pytest.param(
            {},
            {"lineage": origin(base_model="other/Else", relation="distill"), "family": "Other"},
            "warn 0.35",
            "other family",
            id="distilled from another",
        ),
        pytest.param(
            {},
            {"lineage": origin(base_model=SELF, relation="finetune"), "family": "Other"},
            "warn 0.35",
            "other family",
            id="trained on from the target",
        ),
        pytest.param(
            {},
            {"lineage": origin(stock="Toy", stock_generation="1"), "family": "Other", "variant": "draft"},
            "warn 0.6",
            "other generation",
            id="a draft for an older one",
        ),
        pytest.param(
            {"generation": "4"},
            {"lineage": origin(stock="Toy", stock_generation="1"), "family": "Other", "variant": "draft"},
            "warn 0.5",
            "other generation",
            id="a draft for a much older one",
        ),
        pytest.param(
            {},
            {"lineage": origin(stock="Toy"), "family": "Other", "variant": "draft"},
            "ok 0.7",
            "draft",
            id="a draft for one of them",
        ),
        pytest.param(
            {"generation": None},
            {"lineage": origin(stock="Toy", stock_generation="1"), "family": "Other", "variant": "draft"},
            "ok 0.7",
            "draft",
            id="a draft for one of them, perhaps",
        ),
        pytest.param(
            {},
            {"lineage": Lineage(), "family": "Other", "variant": "draft", "made_for": (SELF,)},
            "ok 0.95",
            "draft",
            id="a draft for this target",
        ),
    ],
)
def test_lineage_in_detail(ours: dict[str, Any], theirs: dict[str, Any], expected: str, kind: str | None) -> None:
    judged = pair(target(**ours), draft(**theirs))
    assert (says("lineage", judged), ask("lineage", judged).evidence.get("kind")) == (expected, kind)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param("reasoning", "reasoning", "ok unsure", id="both think"),
        pytest.param("hybrid-reasoning", "instruct", "ok 0.85 unsure", id="the target can switch"),
        pytest.param("instruct", "hybrid-reasoning", "ok 0.85 unsure", id="the draft can switch"),
        pytest.param("reasoning", "instruct", "warn 0.4 unsure", id="the target alone"),
        pytest.param("coder-base", "instruct", "n/a", id="a base model"),
        pytest.param(None, "instruct", "skip", id="not known"),
    ],
)
def test_thinking_read_from_the_variant(ours: str | None, theirs: str, expected: str) -> None:
    judged = pair(target(variant=ours, lineage=Lineage()), draft(variant=theirs, lineage=Lineage()))
    assert says("thinking-mode", judged) == expected


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("finetune", "a fine-tune of maker/Toy-2-7B-Instruct"),
        ("distill", "another model's knowledge distilled into maker/Toy-2-7B-Instruct"),
        ("adapter", "an adapter on maker/Toy-2-7B-Instruct"),
        ("merge", "a merge of maker/Toy-2-7B-Instruct"),
        ("continued", "made from maker/Toy-2-7B-Instruct"),
    ],
)
def test_how_a_target_was_changed(relation: str, said: str) -> None:
    changed = target(id="someone/Tuned-7B", lineage=origin(base_model=SELF, relation=relation))
    assert said in ask("changed-target", pair(changed)).message


@pytest.mark.parametrize("confidence", ["name-derived", "recalled", "derived"])
@pytest.mark.parametrize("rule", ["made-for", "head-target"])
def test_a_pairing_that_nobody_read_is_unsure(confidence: str, rule: str) -> None:
    assert says(rule, head_pair(published=head(confidence=confidence))) == "ok unsure"
    assert says(rule, head_pair(published=head(confidence="pairing-read"))) == "ok"


@pytest.mark.parametrize(
    ("name", "strictness"),
    [
        ("MIT", 0), ("bsd-3-clause", 0), ("bsd-2-clause", 0), ("cc-by-4.0", 0), ("cc0-1.0", 0), ("unlicense", 0),
        ("openmdw-1.1", 0), ("apache-2.0", 0), ("modified-mit", 0), ("gemma", 1), ("llama3.1", 1), ("cc-by-nc-4.0", 2),
        ("qwen-research", 2), ("x-non-commercial", 2), ("noncommercial-1", 2), ("mrl", 2),
    ],
)  # fmt: skip
def test_how_strict_a_licence_is(name: str, strictness: int) -> None:
    expected = ["ok", "warn 0.7", "warn 0.3"][strictness]
    assert says("licence", pair(target(license="mit"), draft(license=name))) == expected
    if strictness == 2:
        assert says("licence", pair(target(license="gemma"), draft(license=name))) == "warn 0.3"
        assert says("licence", pair(target(license=name), draft(license=name))) == "ok"


@pytest.mark.parametrize("name", ["other", "unknown", "", None])
def test_a_licence_that_nobody_read_says_nothing(name: str | None) -> None:
    assert says("licence", pair(target(license=name))) == says("licence", pair(theirs=draft(license=name))) == "skip"


@pytest.mark.parametrize(("ours", "expected"), [(False, "warn 0.8"), (True, "ok"), (None, "ok")])
def test_a_gate_is_told_where_only_the_draft_has_one(ours: bool | None, expected: str) -> None:
    assert says("licence", pair(target(gated=ours), draft(gated=True))) == expected
