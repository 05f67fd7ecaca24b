"""What the rules ask of the setting's engine, and the figures that several of them read."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bare_pair, draft, engine, head_pair, pair, target

from draftpick.models.profile import ModelProfile
from draftpick.pair import Pair
from draftpick.rules.engines_say import (
    draft_inherits_quantization,
    draft_must_split_alike,
    engine_name,
    longest_draft,
    minds_rows,
    reads_gguf,
    translates_vocabularies,
)
from draftpick.rules.figures import bytes_ratio, bytes_read, count, kept_share, quoted, read_ratio, times


def test_without_an_engine_nothing_is_known() -> None:
    nobody = pair()
    assert engine_name(nobody) == "the engine"
    assert (minds_rows(nobody, 5), longest_draft(nobody), reads_gguf(nobody)) == (None, None, None)
    assert not translates_vocabularies(nobody)
    assert not draft_must_split_alike(nobody)
    assert not draft_inherits_quantization(nobody)


def test_an_engine_without_facts_says_nothing() -> None:
    silent = pair(engine=engine("an-engine"))
    assert engine_name(silent) == "an-engine"
    assert (minds_rows(silent, 5), longest_draft(silent), reads_gguf(silent)) == (None, None, None)
    assert not translates_vocabularies(silent)
    assert not draft_must_split_alike(silent)
    assert not draft_inherits_quantization(silent)


BRIDGE = {"rule": "equal-rows", "bridge": {"name": "b"}}
TRANSLATE = {"rule": "equal-rows-or-translate"}


@pytest.mark.parametrize(
    ("vocabulary", "version", "ours", "theirs", "translates"),
    [
        pytest.param(BRIDGE, "1.0", 1024, 1024, True, id="a bridge"),
        pytest.param(BRIDGE, "0.9", 1024, 1024, False, id="a bridge, perhaps not then"),
        pytest.param({"rule": "equal-rows"}, "1.0", 1024, 1000, False, id="no bridge"),
        pytest.param(TRANSLATE, "1.0", 1024, 1000, True, id="other rows"),
        pytest.param(TRANSLATE, "0.9", 1024, 1000, True, id="other rows, in any version"),
        pytest.param(TRANSLATE, "1.0", 1024, 1024, False, id="equal rows are taken for one vocabulary"),
        pytest.param(TRANSLATE, "1.0", 1024, None, False, id="the draft's rows not known"),
        pytest.param(TRANSLATE, "1.0", None, 1024, False, id="the target's rows not known"),
        pytest.param(TRANSLATE, "1.0", None, None, False, id="no rows known"),
    ],
)
def test_which_engines_translate(
    vocabulary: dict[str, Any], version: str, ours: int | None, theirs: int | None, translates: bool
) -> None:
    said = engine(version=version, vocabulary=vocabulary)
    assert translates_vocabularies(pair(target(vocab_size=ours), draft(vocab_size=theirs), engine=said)) is translates
    if vocabulary is TRANSLATE:
        assert not translates_vocabularies(head_pair(engine=said))


@pytest.mark.parametrize(
    ("vocabulary", "difference", "minds"),
    [
        ({"rule": "equal-rows"}, 1, True), ({"rule": "equal-rows-and-map"}, 1, True),
        ({"rule": "equal-rows-or-translate"}, 1, True), ({"rule": "named-ids"}, 1, False), ({"rule": "none"}, 1, False),
        ({"rule": "token-text", "max_size_difference": 128}, 128, False),
        ({"rule": "token-text", "max_size_difference": 128}, 129, True),
        ({"rule": "token-text"}, 0, False), ({"rule": "token-text"}, 1, True), ({}, 1, None),
    ],
)  # fmt: skip
def test_which_engines_mind_the_rows(vocabulary: dict[str, Any], difference: int, minds: bool | None) -> None:
    assert minds_rows(pair(engine=engine(vocabulary=vocabulary)), difference) is minds


WAS = {"was": [{"until": "0.9", "any": "one-or-equal"}]}


@pytest.mark.parametrize(
    ("rows", "version", "alike"),
    [
        ({"any": "equal"}, "1.0", True), ({"any": "equal"}, "0.1", True), ({"any": "one-or-equal"}, "1.0", False),
        ({"draft_model": "equal"}, "1.0", True), ({"eagle3": "equal"}, "1.0", False),
        ({"draft_model": "one-or-equal", "any": "equal"}, "1.0", False), ({}, "1.0", False),
        ({"any": "equal", **WAS}, "1.0", True), ({"any": "equal", **WAS}, "0.1", False),
    ],
)  # fmt: skip
def test_which_engines_split_a_draft_as_its_target(rows: dict[str, Any], version: str, alike: bool) -> None:
    assert draft_must_split_alike(pair(engine=engine(version=version, tensor_parallel=rows))) is alike


@pytest.mark.parametrize(
    ("of_method", "of_engine", "most"),
    [({}, {}, None), ({}, {"max_num_spec_tokens": 4}, 4), ({"max_num_spec_tokens": 3}, {}, 3),
     ({"max_num_spec_tokens": 3}, {"max_num_spec_tokens": 4}, 3),
     ({"max_num_spec_tokens": 5}, {"max_num_spec_tokens": 4}, 4)],
)  # fmt: skip
def test_the_longest_draft_of_an_engine(of_method: dict[str, int], of_engine: dict[str, int], most: int | None) -> None:
    said = engine(methods={"draft_model": of_method}, limits=of_engine)
    assert longest_draft(pair(engine=said)) == most
    assert longest_draft(bare_pair("ngram", engine=said)) == of_engine.get("max_num_spec_tokens")


@pytest.mark.parametrize(
    ("rows", "inherits"),
    [([], False), ([{"pair": {"quantization": "differ"}}], True), ([{"pair": {"rows": "differ"}}], False),
     ([{"pair": {"quantization": "differ"}, "target": {"moe": True}}], False), ([{"setting": {"a": 1}}], False),
     ([{"setting": {"a": 1}}, {"pair": {"quantization": "differ"}}], True)],
)  # fmt: skip
def test_which_engines_give_a_draft_its_target_s_quantisation(rows: list[dict[str, Any]], inherits: bool) -> None:
    assert draft_inherits_quantization(pair(engine=engine(exceptions=rows))) is inherits


@pytest.mark.parametrize("answer", ["only", "some", "no", None])
def test_what_an_engine_makes_of_gguf(answer: str | None) -> None:
    assert reads_gguf(pair(engine=engine(gguf=answer))) == answer


# ---------------------------------------------------------------------- figures


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (999_499, "999499"), (999_500, "1M"), (1_000_000, "1M"), (68e6, "68M"), (999.4e6, "999M"),
     (999.5e6, "1B"), (1e9, "1B"), (7.61e9, "7.61B"), (99.96e9, "100B"), (999.4e9, "999B"), (999.5e9, "1T"),
     (1.04e12, "1.04T"), (999e12, "999T"), (1000e12, "1000T"), (1234.5e12, "1234T")],
)  # fmt: skip
def test_parameters_as_people_say_them(number: float, said: str) -> None:
    assert count(number) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.125, "0.12"), (0.99, "0.99"), (1, "1.0"), (4.56, "4.6"), (9.9, "9.9"), (10, "10"), (57.4, "57")],
)
def test_ratios_as_people_say_them(ratio: float, said: str) -> None:
    assert times(ratio) == said


@pytest.mark.parametrize(
    ("ours", "theirs", "setting", "reads", "in_bytes", "kept"),
    [
        pytest.param({}, {}, {}, 7, 7, 1 / 7, id="alike"),
        pytest.param({"quantization": "int4"}, {}, {}, 7, 1.75, 4 / 7, id="a target in 4 bits"),
        pytest.param({}, {"quantization": "int4"}, {}, 7, 28, 1 / 28, id="a draft in 4 bits"),
        pytest.param({}, {}, {"quantization": "int4"}, 7, 1.75, 4 / 7, id="a target asked for in 4 bits"),
        pytest.param({}, {}, {"draft_quantization": "int8"}, 7, 14, 1 / 14, id="a draft asked for in 8"),
        pytest.param({"quantization": "int4"}, {}, {"quantization": "int8"}, 7, 3.5, 2 / 7, id="asked for wins"),
        pytest.param({"dtype": "float32"}, {}, {}, 7, 14, 1 / 14, id="a target in 32 bits"),
        pytest.param({"dtype": None}, {}, {}, 7, None, None, id="the target's format not known"),
        pytest.param({}, {"dtype": None}, {}, 7, None, None, id="the draft's format not known"),
        pytest.param({"params_active": 2 * 10**9}, {}, {}, 2, 2, 1 / 7, id="a sparse target"),
        pytest.param({}, {"params_active": 5 * 10**8}, {}, 14, 14, 1 / 7, id="a sparse draft"),
        pytest.param({"params_total": None}, {}, {}, None, None, None, id="the target's size not known"),
        pytest.param({}, {"params_total": None}, {}, None, None, None, id="the draft's size not known"),
        pytest.param({"params_total": 0}, {}, {}, None, None, None, id="a target of nothing"),
        pytest.param({}, {"params_total": 0}, {}, None, None, None, id="a draft of nothing"),
    ],
)
def test_the_figures_of_a_pair(
    ours: dict[str, Any],
    theirs: dict[str, Any],
    setting: dict[str, Any],
    reads: float | None,
    in_bytes: float | None,
    kept: float | None,
) -> None:
    judged = pair(target(**ours), draft(**theirs), **setting)
    for figure, expected in ((read_ratio, reads), (bytes_ratio, in_bytes), (kept_share, kept)):
        assert figure(judged) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("judged", [head_pair(), bare_pair("ngram"), bare_pair("mtp")])
def test_figures_of_what_is_no_draft_model(judged: Pair) -> None:
    assert (read_ratio(judged), bytes_ratio(judged), kept_share(judged)) == (None, None, None)


@pytest.mark.parametrize(
    ("model", "asked", "expected"),
    [(target(), None, 14e9), (target(), "int4", 3.5e9), (target(quantization="int8"), None, 7e9),
     (target(quantization="int8"), "int4", 3.5e9), (target(dtype=None), None, None), (target(dtype=None), "int8", 7e9),
     (target(params_total=None), "int8", None), (target(params_total=0), None, 0)],
)  # fmt: skip
def test_bytes_read_for_a_token(model: ModelProfile, asked: str | None, expected: float | None) -> None:
    assert bytes_read(model, asked) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [("a b", "'a b'"), ("a\n", "'a\\n'"), ("é", "'é'"), ("\x1b[1m", "'\\x1b[1m'"), ("", "''"), ("\u200b", "'\\u200b'")],
)
def test_a_token_between_quotes(text: str, said: str) -> None:
    assert quoted(text) == said
