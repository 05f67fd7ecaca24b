"""Comparing tokenizers: one test for each way a naive rule goes wrong with real pairs, and laws that always hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import byte_level_json, gguf, moved, spm_json, tekken, words, write_json

from draftpick.models import cutting
from draftpick.models.gguf_tokenizer import from_gguf
from draftpick.models.tokenizer import (
    Difference,
    Fingerprint,
    Relation,
    compare,
    expand,
    fingerprint,
    overlap,
    ranges,
    relation_key,
    same_cut,
)
from draftpick.models.vocabulary import Vocabulary, is_markup, is_reserved
from draftpick.models.vocabulary_files import read_folder

CHAT = {100: "<|endoftext|>", 101: "<|im_start|>", 102: "<|im_end|>"}


def taken(tokens: Mapping[int, bytes], control: Mapping[int, str] | None = None, **more: Any) -> Fingerprint:
    """The fingerprint of a vocabulary as if it had been read from a file."""
    named = {i: b"N" + text.encode() for i, text in (control or {}).items()}
    names = {name: more.pop(name) for name in ("key", "family", "probe", "verified") if name in more}
    vocabulary = Vocabulary(format=more.pop("format", "tokenizer.json"), tokens={**tokens, **named}, **more)
    return fingerprint(vocabulary, with_sketch=True, **names)


def recorded(side: Fingerprint, key: str) -> Fingerprint:
    """The same fingerprint as the catalogue holds it: without the map and without numbered place holders."""
    control = {i: text for i, text in side.control.items() if not is_reserved(text)}
    return side._replace(key=key, tokens=None, control=control)


def relate(target: Fingerprint, draft: Fingerprint) -> Relation:
    return compare(target, draft, 128, 128)


A = taken(words(100), CHAT)


# ---------------------------------------------------------------- same ids


def test_same_map_is_identical_and_verified() -> None:
    relation = relate(A, taken(words(100), CHAT))
    assert (relation.kind, relation.verified, relation.same_ids, relation.covered) == ("identical", True, 103, 1.0)
    assert relation.same_language_ids
    assert "103" in relation.reason


def test_rows_alone_differ_in_padding() -> None:
    relation = compare(A, A, 152064, 151936)
    assert relation.kind == "padding_only"
    assert "152,064" in relation.reason
    assert "151,936" in relation.reason


@pytest.mark.parametrize("rows", [(None, 128), (128, None), (None, None), (128, 128)], ids=str)
def test_unknown_rows_are_no_difference(rows: tuple[int | None, int | None]) -> None:
    assert compare(A, A, *rows).kind == "identical"


def test_a_fingerprint_from_elsewhere_makes_it_only_probable() -> None:
    relation = relate(A, A._replace(verified=False))
    assert (relation.kind, relation.verified) == ("identical", False)
    assert "probable" in relation.reason


def test_package_and_family_names_say_nothing() -> None:
    mistral = taken(words(100, "m"), CHAT, key="llama-2", family="llama")
    llama = taken(words(100, "l"), CHAT, key="llama-2", family="llama")
    assert relate(mistral, llama).kind == "different"
    assert relate(mistral, taken(words(100, "m"), CHAT, key="mistral", family="mistral")).kind == "identical"


def test_class_and_size_say_nothing() -> None:
    a = taken(words(100), CHAT, tokenizer_class="LlamaTokenizer", size=103)
    b = taken(words(100, "x"), CHAT, tokenizer_class="LlamaTokenizer", size=103)
    c = taken(words(100), {**CHAT, 103: "<image>"}, tokenizer_class="MiniCPMVTokenizerFast", size=104)
    assert relate(a, b).kind == "different"
    assert relate(a, c).kind == "control_tokens"


def test_one_architecture_name_holds_many_vocabularies() -> None:
    a, b = (gguf(words(50, prefix), {50: "<s>"}, pre="qwen2") for prefix in "ab")
    assert a["general.architecture"] == b["general.architecture"]
    assert relate(fingerprint(from_gguf(a)), fingerprint(from_gguf(b))).kind == "different"


def test_stop_ids_are_kept_apart_from_identity() -> None:
    a, b = taken(words(100), CHAT, stop_ids=(100,)), taken(words(100), CHAT, stop_ids=(100, 102))
    assert relate(a, b).kind == "identical"
    assert a.stop_ids != b.stop_ids


# ---------------------------------------------------------------- other ids


def test_equal_size_other_vocabulary() -> None:
    a, b = taken(words(259, "byte") | {259: b"N t"}), taken(words(259, "byte") | {259: b"N    "})
    relation = relate(a, b)
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=259, target=" t", draft="    ")
    assert relation.same_ids == 259
    assert "` t`" in relation.reason


def test_nothing_in_common() -> None:
    relation = relate(taken(words(100)), taken(words(100, "other")))
    assert (relation.kind, relation.same_ids) == ("different", 0)


def test_control_tokens_put_in_front_shift_every_id() -> None:
    old = words(400)
    new = moved(old, 8, first=3)
    shifted = taken(new, {i: f"[control_{i}]" for i in range(3, 11)})
    relation = relate(taken(old), shifted)
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=3, target=" w3", draft="[control_3]")
    share = overlap(taken(old), shifted)
    assert share is not None
    assert share > 0.95


def test_a_long_common_start_is_not_compatible() -> None:
    llama = taken(words(2000))
    cl100k = taken(words(1900), {1900: "<|endoftext|>", 1901: "<|fim_prefix|>"})
    relation = relate(llama, cl100k)
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=1900, target=" w1900", draft="<|endoftext|>")
    assert relation.same_ids == 1900


def test_damaged_copy_is_not_identical_and_the_ids_are_told() -> None:
    whole = words(100) | {30: "N a\u00a0b".encode(), 60: "N\u00a0".encode()}
    damaged = whole | {30: b"N a b", 60: b"N "}
    relation = relate(taken(whole), taken(damaged))
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=30, target=" a\\xa0b", draft=" a b")
    assert relation.same_ids == 98


def test_more_text_tokens_on_one_side_are_an_extension() -> None:
    gpt2, phi2 = taken(words(100)), taken(words(100) | {100: b"N   ", 101: b"N    "})
    for target, draft, longer in ((phi2, gpt2, "target"), (gpt2, phi2, "draft")):
        relation = relate(target, draft)
        assert relation.kind == "extension"
        assert not relation.same_language_ids
        assert relation.reason.startswith(f"the {longer} has text ids")
        assert relation.first_difference is not None
        assert relation.first_difference.id == 100


def test_each_with_text_the_other_lacks_is_different() -> None:
    assert relate(taken({0: b"Na", 1: b"Nb"}), taken({0: b"Na", 2: b"Nb"})).kind == "different"


# ---------------------------------------------------------------- control tokens


def test_control_tokens_named_on_one_side() -> None:
    more = {**CHAT, 103: "<tool_response>", 104: "</tool_response>"}
    relation = relate(taken(words(100), more), A)
    assert (relation.kind, relation.only_target, relation.only_draft) == ("control_tokens", (103, 104), ())
    assert relation.first_difference == Difference(id=103, target="<tool_response>", draft=None)
    assert relation.same_language_ids
    assert "103-104" in relation.reason
    assert relate(A, taken(words(100), more)).only_draft == (103, 104)


def test_renamed_control_tokens_in_use_are_told_apart() -> None:
    other = {100: "<｜end▁of▁sentence｜>", 101: "<｜User｜>", 102: "<|im_end|>"}
    relation = relate(taken(words(100), CHAT, eos=100), taken(words(100), other, bos=102))
    assert relation.renamed == (100, 101)
    assert relation.renamed_in_use == (100,)
    assert "begin, end or frame" in relation.reason


@pytest.mark.parametrize("where", ["bos", "eos", "stop_ids", "template_ids"])
def test_every_use_of_a_renamed_token_counts(where: str) -> None:
    use = {where: (101,) if where.endswith("ids") else 101}
    relation = relate(taken(words(100), CHAT), taken(words(100), {**CHAT, 101: "<|user|>"}, **use))
    assert relation.renamed_in_use == (101,)


def test_control_tokens_that_are_not_in_a_file_are_not_judged(tmp_path: Path) -> None:
    tokens = {3: b"Na", 4: b"Nb"}
    names = {0: "<unk>", 1: "<s>", 2: "</s>"}
    write_json(tmp_path / "a", tekken(tokens, None, reserved=3), "tekken.json")
    write_json(tmp_path / "b", byte_level_json(tokens, names))
    bare, named = (fingerprint(read) for name in "ab" if (read := read_folder(tmp_path / name)))
    relation = relate(bare, named)
    assert (relation.kind, relation.renamed) == ("control_tokens", ())
    assert "not in the file" in relation.reason
    assert not relate(bare, bare).verified


def test_a_second_conversion_lacks_control_tokens_and_says_so(tmp_path: Path) -> None:
    tokens = words(50)
    short = write_json(tmp_path / "short", spm_json(tokens, {})).parent
    write_json(short, {"added_tokens_decoder": {"50": {"content": "[MASK]"}}}, "tokenizer_config.json")
    write_json(tmp_path / "long", spm_json(tokens, {50: "[MASK]"}))
    a, b = (fingerprint(read) for name in ("short", "long") if (read := read_folder(tmp_path / name)))
    assert relate(a, b).kind == "control_tokens"
    assert any("lacks" in note for note in a.notes)
    assert relate(a, b).same_cut is None


# ---------------------------------------------------------------- how text is cut


def cut_fingerprint(folder: Path, digits: bool) -> tuple[Fingerprint, Vocabulary]:
    pytest.importorskip("tokenizers")
    tokens = {i: b"N" + bytes([b]) for i, b in enumerate(range(256))} | {256: b"N12"}
    content = byte_level_json(tokens, {})
    content["model"]["merges"] = ["1 2"]
    if digits:
        cut = {"type": "Digits", "individual_digits": True}
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [cut, content["pre_tokenizer"]]}
    write_json(folder, content)
    read = read_folder(folder, pipeline=True)
    assert read is not None
    encode = cutting.encoder(read)
    assert encode is not None
    return fingerprint(read, probe=cutting.probe(encode)), read


def test_same_ids_may_cut_text_otherwise(tmp_path: Path) -> None:
    (single, read), (free, _) = (cut_fingerprint(tmp_path / str(digits), digits) for digits in (True, False))
    assert single.full == free.full
    relation = relate(single, free)
    assert (relation.kind, relation.same_cut) == ("identical", False)
    assert relate(single, single).same_cut is True
    encode = cutting.encoder(read)
    assert encode is not None
    assert cutting.digits(encode, read) == "single"


def test_same_tokens_with_another_pre_differ_in_pipeline_only() -> None:
    a, b = (fingerprint(from_gguf(gguf(words(9), {}, pre=pre), pipeline=True)) for pre in ("qwen2", "qwen35"))
    assert a.full == b.full
    assert a.pipeline != b.pipeline
    assert same_cut(a, b) is None
    assert same_cut(a, a) is True


def test_a_gguf_without_the_normaliser_of_its_model_tells_nothing_of_cutting() -> None:
    json = taken(words(9), normalizer="NFC", probe="1" * 64)
    converted = taken(words(9), normalizer="none", probe="2" * 64, format="gguf")
    assert relate(json, converted).kind == "identical"
    assert same_cut(json, converted) is None
    assert same_cut(json, converted._replace(format="tokenizer.json")) is False


def test_pipelines_of_two_formats_are_not_compared() -> None:
    a = A._replace(pipeline="p", format="gguf")
    assert same_cut(a, A._replace(pipeline="p", format="tokenizer.json")) is None


# ---------------------------------------------------------------- a file against the catalogue


def test_first_difference_from_the_texts_a_record_keeps() -> None:
    relation = relate(A, recorded(taken(words(40) | words(100, "z"), CHAT), "z"))
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=0, target=" w0", draft=" z0")


def test_beyond_the_texts_the_block_is_told() -> None:
    a = taken(words(3000))
    b = recorded(taken(words(3000) | {2100: b"Nx"}), "b")
    relation = relate(a, b)
    assert (relation.first_difference, relation.first_difference_in) == (None, (2048, 3071))
    assert "2,048" in relation.reason


def test_control_tokens_against_a_record() -> None:
    reserved = {**CHAT, 103: "<|reserved_special_token_1|>", 104: "<think>"}
    record = recorded(taken(words(100), {**CHAT, 102: "<|eot_id|>"}, eos=102), "record")
    relation = relate(taken(words(100), reserved), record)
    assert relation.kind == "control_tokens"
    assert (relation.only_target, relation.renamed, relation.renamed_in_use) == ((104,), (102,), (102,))
    assert relation.first_difference == Difference(id=102, target="<|im_end|>", draft="<|eot_id|>")


@pytest.mark.parametrize("target_longer", [True, False])
def test_a_file_that_goes_on_after_a_record(target_longer: bool) -> None:
    longer, shorter = taken(words(150)), recorded(taken(words(100)), "short")
    target, draft = (longer, shorter) if target_longer else (shorter, longer)
    assert relate(target, draft).kind == "extension"


def test_two_records_find_their_first_difference_in_the_head() -> None:
    relation = relate(recorded(A, "a"), recorded(taken(words(100) | {7: b"Nseven"}, CHAT), "b"))
    assert relation.first_difference == Difference(id=7, target=" w7", draft="seven")


def row(a: Fingerprint, b: Fingerprint, **values: str) -> dict[str, str]:
    names = (
        "kind",
        "first_id",
        "text_a",
        "text_b",
        "same_ids",
        "covered_ab",
        "covered_ba",
        "only_a",
        "only_b",
        "renamed",
    )
    key = relation_key(a, b)
    assert key is not None
    return {**dict.fromkeys(names, ""), "a": "a", "b": "b", "a_full": key[0], "b_full": key[1], **values}


def test_a_measured_row_is_read_from_both_sides() -> None:
    one, two = recorded(A, "one"), recorded(taken(words(100), {**CHAT, 101: "<|user|>", 103: "<x>"}), "two")
    a, b = sorted((one, two), key=lambda side: str(side.full))
    known = row(a, b, kind="control_tokens", first_id="101", text_a="A", text_b="B", same_ids="102")
    known |= {"only_a" if a is two else "only_b": "103", "renamed": "101", "covered_ab": "0.9", "covered_ba": "0.8"}
    forth, back = compare(a, b, None, None, known), compare(b, a, None, None, known)
    assert forth.first_difference == Difference(id=101, target="A", draft="B")
    assert back.first_difference == Difference(id=101, target="B", draft="A")
    assert (forth.covered, back.covered) == (0.9, 0.8)
    assert (forth.same_ids, forth.renamed) == (102, (101,))
    assert forth.only_target + forth.only_draft == (103,)
    assert forth.only_target == back.only_draft


def test_a_row_of_another_pair_is_not_believed() -> None:
    other = taken(words(7))
    known = row(A, other, kind="extension", first_id="3")
    relation = compare(recorded(A, "a"), recorded(taken(words(100, "q"), CHAT), "q"), None, None, known)
    assert relation.kind == "different"
    assert relation.first_difference == Difference(id=0, target=" w0", draft=" q0")


def test_a_measured_extension() -> None:
    a, b = sorted((taken(words(100)), taken(words(102))), key=lambda side: str(side.full))
    known = row(a, b, kind="extension", first_id="100", text_a="", text_b=" w100", same_ids="100")
    known["only_a" if a.named_ids == 102 else "only_b"] = "100-101"
    relation = compare(recorded(a, "a"), recorded(b, "b"), None, None, known)
    assert relation.kind == "extension"
    assert relation.reason.startswith("the target" if a.named_ids == 102 else "the draft")


# ---------------------------------------------------------------- without fingerprints


def bare(key: str, **more: Any) -> Fingerprint:
    return Fingerprint(key=key, **{"family": key, **more})


SAID = ({"key": "qwen", "what": "two more tokens", "confidence": "recalled"},)


@pytest.mark.parametrize(
    ("target", "draft", "rows", "kind"),
    [
        (bare("glm4"), bare("glm4"), (1, 1), "identical"),
        (bare("glm4"), bare("glm4"), (151552, 151936), "padding_only"),
        (bare("glm4.gguf", family="glm4"), bare("glm4"), (1, 1), "identical"),
        (bare("glm4"), bare("bloom"), (1, 1), "unknown"),
        (A, bare("bloom"), (1, 1), "unknown"),
        (
            bare("mimo", same_text_as=({"key": "qwen", "what": "x", "confidence": "recalled"},)),
            bare("qwen"),
            (1, 1),
            "control_tokens",
        ),
        (
            bare("qwen"),
            bare("mimo", same_text_as=({"key": "qwen", "what": "x", "confidence": "recalled"},)),
            (1, 1),
            "control_tokens",
        ),
        (bare("a", family=None), bare("b", family=None), (1, 1), "unknown"),
        (bare("glm5", base_ids=154820), bare("glm4"), (154880, 151552), "different"),
        (bare("padded", base_ids=152042, named_ids=151665), bare("other"), (152064, 151936), "unknown"),
    ],
    ids=[
        "same key",
        "other rows",
        "same family",
        "other",
        "one side",
        "said so",
        "said by the draft",
        "no family",
        "more ids of text than rows",
        "padding counted as text",
    ],
)
def test_what_is_only_said_is_never_verified(target: Fingerprint, draft: Fingerprint, rows: Any, kind: str) -> None:
    relation = compare(target, draft._replace(verified=True), *rows)
    assert (relation.kind, relation.verified) == (kind, False)
    assert relation.reason


def test_code_alone_is_unknown_with_its_reason() -> None:
    code = fingerprint(Vocabulary(format="code", tokens={}, notes=("only code describes it, which is not run",)))
    relation = relate(A, code)
    assert relation.kind == "unknown"
    assert "only code describes it" in relation.reason


# ---------------------------------------------------------------- laws
TOKEN = st.sampled_from([b"Na", b"Nb", b"N c", b"B\x00", b"N<x>", b"N<y>", b"N[INST]", b"N<|unused_1|>"])
MAPS = st.dictionaries(st.integers(0, 12), TOKEN, min_size=1)


def of_map(tokens: Mapping[int, bytes]) -> Fingerprint:
    return fingerprint(Vocabulary(format="gguf", tokens=tokens), with_sketch=True)


@settings(max_examples=300, deadline=None)
@given(a=MAPS, b=MAPS)
def test_comparison_is_symmetric(a: dict[int, bytes], b: dict[int, bytes]) -> None:
    forth, back = relate(of_map(a), of_map(b)), relate(of_map(b), of_map(a))
    assert forth.kind == back.kind
    assert (forth.only_target, forth.only_draft, forth.renamed) == (back.only_draft, back.only_target, back.renamed)
    assert forth.same_ids == back.same_ids
    if forth.first_difference and back.first_difference:
        assert forth.first_difference.id == back.first_difference.id
        assert forth.first_difference.target == back.first_difference.draft


@settings(max_examples=300, deadline=None)
@given(a=MAPS, b=MAPS)
def test_kind_follows_from_the_maps(a: dict[int, bytes], b: dict[int, bytes]) -> None:
    relation = relate(of_map(a), of_map(b))
    language_a = {i: t for i, t in a.items() if not is_markup(t)}
    language_b = {i: t for i, t in b.items() if not is_markup(t)}
    assert (relation.kind == "identical") == (a == b)
    assert relation.same_language_ids == (language_a == language_b)
    assert (relation.first_difference is None) == (a == b)


@settings(max_examples=200, deadline=None)
@given(a=MAPS, b=MAPS, other=MAPS)
def test_a_sketch_never_changes_the_kind(a: dict[int, bytes], b: dict[int, bytes], other: dict[int, bytes]) -> None:
    target, draft = of_map(a), of_map(b)
    lied = draft._replace(sketch=of_map(other).sketch)
    for side in (lied, draft._replace(sketch=target.sketch), draft._replace(sketch=())):
        assert relate(target, side) == relate(target, draft)


@settings(max_examples=200, deadline=None)
@given(a=MAPS, b=MAPS)
def test_a_record_never_says_more_than_the_maps(a: dict[int, bytes], b: dict[int, bytes]) -> None:
    """Against a record the kind is the same, save that an extension may look like any difference."""
    exact, seen = relate(of_map(a), of_map(b)), relate(of_map(a), recorded(of_map(b), "record"))
    assert seen.kind == exact.kind or (exact.kind, seen.kind) == ("extension", "different")
    assert set(seen.renamed) <= set(exact.renamed)
    assert set(seen.only_target) <= set(exact.only_target) | set(exact.renamed)


@given(st.sets(st.integers(0, 60)))
def test_ranges_can_be_read_back(ids: set[int]) -> None:
    assert expand(ranges(ids)) == tuple(sorted(ids))


def test_long_lists_of_ranges_are_cut() -> None:
    assert ranges([1, 2, 3, 7, 9], limit=2) == "1-3 7 …"
    assert expand("1-3 7 …") == (1, 2, 3, 7)


def test_overlap_estimates_the_share_of_common_strings() -> None:
    a, b = taken(words(4000)), taken(words(2000) | moved(words(2000, "other"), 2000))
    share = overlap(a, b)
    exact = 2000 / 6000
    assert share is not None
    assert abs(share - exact) < 0.05
    assert overlap(a, a) == 1.0
    assert overlap(a, b._replace(sketch=())) is None


def test_two_records_are_compared_in_microseconds() -> None:
    a, b = recorded(A, "a"), recorded(taken(words(100, "b"), CHAT), "b")
    light = [side._replace(blocks=(), sketch=(), head=(), control={}) for side in (a, b)]
    start = time.perf_counter()
    for _ in range(700):
        compare(light[0], light[1], 128, 128)
    assert time.perf_counter() - start < 0.2
