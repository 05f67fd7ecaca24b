from __future__ import annotations

from typing import Any

import pytest
from builders import IDENTICAL, ask, draft, engine, pair, says, target, tokenizer

from draftpick.models.tokenizer import Difference, Relation

PADDING = Relation(kind="padding_only", verified=True, reason="all 1,000 ids mean the same", same_ids=1000)
PROBABLY = Relation(kind="identical", verified=False, reason="both use toy; probably, no fingerprint was compared")
CONTROL = Relation(
    kind="control_tokens", verified=True, reason="the ids of text are the same", only_target=(996, 997), same_cut=True
)
RENAMED = Relation(kind="control_tokens", verified=True, reason="the ids of text are the same", renamed=(994, 995))
FRAMING = Relation(
    kind="control_tokens", verified=True, reason="the ids of text are the same", renamed=(2, 994), renamed_in_use=(2,)
)
UNLISTED = Relation(kind="control_tokens", verified=False, reason="the ids of text are said to be the same")
EXTENSION = Relation(kind="extension", verified=True, reason="the draft has text ids that the target lacks")
DIFFERENT = Relation(
    kind="different",
    verified=True,
    reason="id 260 is `x` in the target and `y` in the draft",
    first_difference=Difference(id=260, target=" t", draft="er\n"),
    same_ids=270,
    covered=0.8,
    same_cut=False,
)
SOMEWHERE = Relation(kind="different", verified=True, reason="r", first_difference_in=(1024, 2047))
UNKNOWN = Relation(kind="unknown", verified=False, reason="toy: no fingerprint of it is known")

BRIDGE = engine(vocabulary={"rule": "equal-rows", "bridge": {"name": "use_heterogeneous_vocab"}})
TRANSLATES = engine(vocabulary={"rule": "equal-rows-or-translate"})
EQUAL_ROWS = engine(vocabulary={"rule": "equal-rows"})
TEXTS = engine(vocabulary={"rule": "token-text", "max_size_difference": 128})


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        pytest.param(IDENTICAL, "ok", id="identical"),
        pytest.param(PROBABLY, "ok unsure", id="probably identical"),
        pytest.param(PADDING, "ok", id="padding only"),
        pytest.param(CONTROL, "ok", id="other control tokens"),
        pytest.param(EXTENSION, "warn 0.4", id="extension"),
        pytest.param(DIFFERENT, "reject", id="different"),
        pytest.param(UNKNOWN, "skip", id="unknown"),
        pytest.param(None, "skip", id="not compared"),
    ],
)
def test_tokenizer_identity(relation: Relation | None, expected: str) -> None:
    assert says("tokenizer-identity", pair(relation=relation)) == expected


def test_a_difference_is_named_with_both_texts_although_the_rows_are_equal() -> None:
    outcome = ask("tokenizer-identity", pair(relation=DIFFERENT))
    assert outcome.evidence["first_difference"] == {"id": 260, "target": " t", "draft": "er\n"}
    assert "id 260 is ' t' in the target and 'er\\n' in the draft" in outcome.message
    assert "both state 1024 rows" in outcome.message
    assert "\n" not in outcome.message


def test_a_difference_known_by_block_alone_names_the_block() -> None:
    outcome = ask("tokenizer-identity", pair(relation=SOMEWHERE))
    assert "between the ids 1024 and 2047" in outcome.message
    assert outcome.evidence["first_difference_in"] == [1024, 2047]


@pytest.mark.parametrize(
    ("of", "rows", "expected"),
    [
        pytest.param(EQUAL_ROWS, 1024, "reject", id="no bridge"),
        pytest.param(BRIDGE, 1024, "warn 0.26", id="an option bridges"),
        pytest.param(engine(version="0.9", vocabulary=BRIDGE.facts["vocabulary"]), 1024, "reject", id="older version"),
        pytest.param(TRANSLATES, 2048, "warn 0.26", id="unequal rows are translated"),
        pytest.param(TRANSLATES, 1024, "reject", id="equal rows are taken for one vocabulary"),
    ],
)
def test_engines_that_translate_turn_the_rejection_into_a_warning(of: object, rows: int, expected: str) -> None:
    assert says("tokenizer-identity", pair(theirs=draft(vocab_size=rows), relation=DIFFERENT, engine=of)) == expected


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        pytest.param(IDENTICAL, "ok", id="none differ"),
        pytest.param(CONTROL, "warn 0.85", id="named on one side"),
        pytest.param(RENAMED, "warn 0.65", id="renamed"),
        pytest.param(FRAMING, "warn 0.4", id="renamed and in use"),
        pytest.param(UNLISTED, "warn 0.6 unsure", id="not known which"),
        pytest.param(UNKNOWN, "skip", id="not compared"),
        pytest.param(DIFFERENT, "n/a", id="vocabularies differ anyhow"),
    ],
)
def test_control_tokens(relation: Relation, expected: str) -> None:
    assert says("control-tokens", pair(relation=relation)) == expected


def test_control_tokens_are_listed_with_their_texts() -> None:
    named = tokenizer(control={996: "<think>", 997: "</think>"})
    outcome = ask("control-tokens", pair(target(tokenizer=named), relation=CONTROL))
    assert outcome.message == ("Control tokens differ: 2 named by the target alone (996 '<think>', 997 '</think>').")
    assert outcome.evidence["only_target"] == [996, 997]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param({}, {}, "ok", id="the same"),
        pytest.param({}, {"eos": 3}, "warn 0.7", id="another eos"),
        pytest.param({"stop_ids": (2, 3)}, {"eos": 3}, "ok 0.9", id="one of the target's stops"),
        pytest.param({"eos": None}, {}, "skip", id="not known"),
        pytest.param({}, {"bos": 5}, "warn 0.5", id="another bos that is added"),
        pytest.param({"add_bos": False}, {"add_bos": False, "bos": 5}, "ok", id="another bos that nobody adds"),
        pytest.param({}, {"add_bos": False}, "warn 0.6", id="only one adds bos"),
    ],
)
def test_stop_tokens(ours: dict[str, object], theirs: dict[str, object], expected: str) -> None:
    judged = pair(target(tokenizer=tokenizer(**ours)), draft(tokenizer=tokenizer(**theirs)))
    assert says("stop-tokens", judged) == expected


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        pytest.param(IDENTICAL, "ok", id="alike"),
        pytest.param(Relation(kind="identical", verified=True, reason="r", same_cut=False), "warn 0.6", id="otherwise"),
        pytest.param(PADDING, "skip", id="not known"),
        pytest.param(DIFFERENT, "n/a", id="vocabularies differ anyhow"),
    ],
)
def test_text_cut(relation: Relation, expected: str) -> None:
    assert says("text-cut", pair(relation=relation)) == expected


@pytest.mark.parametrize(
    ("rows", "relation", "expected"),
    [
        pytest.param(1024, IDENTICAL, "ok", id="equal"),
        pytest.param(1152, PADDING, "warn 0.6", id="padding"),
        pytest.param(1152, DIFFERENT, "warn 0.1", id="another vocabulary"),
        pytest.param(1152, EXTENSION, "warn 0.3", id="extension"),
        pytest.param(1152, None, "warn 0.4 unsure", id="not compared"),
        pytest.param(None, IDENTICAL, "skip", id="not known"),
    ],
)
def test_embedding_rows(rows: int | None, relation: Relation | None, expected: str) -> None:
    assert says("embedding-rows", pair(theirs=draft(vocab_size=rows), relation=relation)) == expected


def test_padding_rows_name_both_numbers_and_the_evidence_for_padding() -> None:
    outcome = ask("embedding-rows", pair(target(vocab_size=1152), relation=PADDING))
    assert "1152" in outcome.message
    assert "1024" in outcome.message
    assert "the ids 0 to 999 are the same on both sides" in outcome.message
    assert outcome.evidence["difference"] == 128
    assert (outcome.evidence["target_named_ids"], outcome.evidence["draft_base_ids"]) == (1000, 990)


@pytest.mark.parametrize(
    ("of", "rows", "score"),
    [
        pytest.param(None, 1152, 0.6, id="no engine"),
        pytest.param(EQUAL_ROWS, 1152, 0.4, id="an engine that compares the number"),
        pytest.param(TEXTS, 1152, 0.9, id="within the limit"),
        pytest.param(TEXTS, 1153, 0.4, id="one past the limit"),
        pytest.param(engine(vocabulary={"rule": "none"}), 1153, 0.9, id="an engine that compares nothing"),
    ],
)
def test_padding_rows_weigh_as_the_engine_takes_them(of: object, rows: int, score: float) -> None:
    assert ask("embedding-rows", pair(target(vocab_size=rows), relation=PADDING, engine=of)).score == score


def test_rows_of_the_weights_that_contradict_the_configuration_are_told() -> None:
    odd = draft(notes=("TENSOR_ROWS: the embedding has 1,000 rows, config.json says 1,024",))
    outcome = ask("embedding-rows", pair(theirs=odd))
    assert outcome.kind == "warn"
    assert "1,000 rows" in outcome.message


@pytest.mark.parametrize(
    ("relation", "of", "expected"),
    [
        pytest.param(SOMEWHERE, BRIDGE, "warn 0.1", id="translated, how well is not known"),
        pytest.param(DIFFERENT._replace(covered=1.0), BRIDGE, "warn 0.3", id="translated whole"),
        pytest.param(DIFFERENT._replace(verified=False), BRIDGE, "warn 0.26 unsure", id="probably different"),
        pytest.param(DIFFERENT._replace(verified=False), None, "reject unsure", id="rejected, probably"),
        pytest.param(EXTENSION._replace(verified=False), None, "warn 0.4 unsure", id="probably longer"),
    ],
)
def test_other_vocabularies(relation: Relation, of: Any, expected: str) -> None:
    assert says("tokenizer-identity", pair(relation=relation, engine=of)) == expected


@pytest.mark.parametrize(
    ("relation", "identical"), [(IDENTICAL, True), (PADDING, True), (CONTROL, False), (UNKNOWN, None)]
)
def test_whether_tokenizers_are_identical_is_told(relation: Relation, identical: bool | None) -> None:
    assert ask("tokenizer-identity", pair(relation=relation)).evidence.get("tokenizer_identical") is identical


NAMED = tokenizer(control={2: "<s>", 994: "<a>", 995: "<b>"})


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        (RENAMED, "2 named otherwise (994 '<a>' against '<a>', 995 '<b>' against '<b>')."),
        (FRAMING, "(2 '<s>' against '<s>', 994 '<a>' against '<a>'); of these 2 begin, end or frame an answer."),
        (
            CONTROL._replace(only_draft=(995, 7)),
            "2 named by the target alone (996, 997) and 2 named by the draft alone",
        ),
        (CONTROL._replace(only_target=tuple(range(20))), "20 named by the target alone (0, 1, 2 '<s>'"),
    ],
)
def test_control_tokens_in_words(relation: Relation, said: str) -> None:
    named = pair(target(tokenizer=NAMED), draft(tokenizer=NAMED), relation=relation)
    assert said in ask("control-tokens", named).message


def test_a_name_that_one_side_lacks_is_not_shown() -> None:
    for ours, theirs in ((NAMED, tokenizer()), (tokenizer(), NAMED)):
        judged = pair(target(tokenizer=ours), draft(tokenizer=theirs), relation=RENAMED)
        assert "2 named otherwise (994, 995)." in ask("control-tokens", judged).message


@pytest.mark.parametrize("rule", ["control-tokens", "text-cut"])
@pytest.mark.parametrize("relation", [None, UNKNOWN])
def test_what_was_not_compared_says_nothing(rule: str, relation: Relation | None) -> None:
    assert says(rule, pair(relation=relation)) == "skip"


@pytest.mark.parametrize(
    ("rows", "relation", "said", "missing"),
    [
        pytest.param(1000, PADDING, "is padding, for the ids 0 to 999 are the same on both sides.", False, id="fewer"),
        pytest.param(1152, PADDING, "is padding, for the ids 0 to 999 are the same on both sides;", True, id="more"),
        pytest.param(1152, PROBABLY, "are probably the same on both sides;", True, id="probably"),
        pytest.param(1152, EXTENSION, "not all of the difference is padding;", True, id="more ids"),
        pytest.param(1000, EXTENSION, "not all of the difference is padding.", False, id="fewer ids"),
    ],
)
def test_rows_that_a_target_lacks_are_told(rows: int, relation: Relation, said: str, missing: bool) -> None:
    message = ask("embedding-rows", pair(theirs=draft(vocab_size=rows), relation=relation)).message
    assert said in message
    assert ("the target has no row for" in message) is missing


@pytest.mark.parametrize("rule", ["stop-tokens", "text-cut", "control-tokens"])
def test_where_vocabularies_differ_no_more_is_asked(rule: str) -> None:
    assert says(rule, pair(relation=DIFFERENT)) == "n/a"
