"""Readers: the same vocabulary from every format, the traps of real files, and files that mean harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import (
    BYTE,
    USER,
    byte_level_json,
    gguf,
    message,
    sentencepiece,
    spelled,
    spm_json,
    tekken,
    tiktoken,
    words,
    write_json,
)

from draftpick.errors import InvalidFile
from draftpick.models import vocabulary as v
from draftpick.models.gguf_tokenizer import from_gguf
from draftpick.models.token_lists import TEKKEN_NOTE, TIKTOKEN_NOTE, read_tiktoken
from draftpick.models.tokenizer import fingerprint
from draftpick.models.vocabulary_files import read_folder

WORDS = {0: b"Nhello", 1: b"N world", 2: b"N\xe4\xbd", 3: b"N\n\n", 4: b"N<div>"}
CHAT = {5: "<|im_start|>", 6: "<|im_end|>"}
SPM = {3: b"B\x00", 4: b"B\x0a", 5: b"Nhello", 6: b"N world", 7: "N  größe".encode()}
SPM_CONTROL = {0: "<unk>", 1: "<s>", 2: "</s>"}


def folder_with(folder: Path, **files: Any) -> Path:
    """A folder with files; `_json` and `_model` in a name stand for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        path = folder / f"{stem}.{ending}"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def read(folder: Path) -> v.Vocabulary:
    found = read_folder(folder, pipeline=True)
    assert found is not None
    return found


# ---------------------------------------------------------------- every format


def test_byte_level_formats_give_one_map(tmp_path: Path) -> None:
    a = read(folder_with(tmp_path / "a", tokenizer_json=byte_level_json(WORDS, CHAT)))
    (tmp_path / "t.tiktoken").write_bytes(tiktoken(WORDS))
    b = read_tiktoken(tmp_path / "t.tiktoken", specials={text: i for i, text in CHAT.items()})
    c = from_gguf(gguf(WORDS, CHAT, padding=3))
    merges = folder_with(
        tmp_path / "d", vocab_json={spelled(t[1:]): i for i, t in WORDS.items()}, merges_txt=b"#version: 0.2\nh e\n"
    )
    write_json(merges, {text: i for i, text in CHAT.items()}, "added_tokens.json")
    expected = {**WORDS, **{i: b"N" + text.encode() for i, text in CHAT.items()}}
    for found in (a, b, c, read(merges)):
        assert dict(found.tokens) == expected
        assert found.vocab_type == "BPE"
    assert c.size == 10
    assert max(c.tokens) == 6


def test_sentencepiece_formats_give_one_map(tmp_path: Path) -> None:
    a = read(folder_with(tmp_path / "a", tokenizer_json=spm_json(SPM, SPM_CONTROL)))
    b = read(folder_with(tmp_path / "b", tokenizer_model=sentencepiece(SPM, SPM_CONTROL)))
    c = from_gguf(gguf(SPM, SPM_CONTROL, model="llama"))
    expected = {**SPM, **{i: b"N" + text.encode() for i, text in SPM_CONTROL.items()}}
    for found in (a, b, c):
        assert dict(found.tokens) == expected
        assert found.vocab_type == "SPM"
    assert (b.bos, b.eos, b.pad) == (1, 2, None)


def test_tekken_gives_the_map_of_its_json_conversion(tmp_path: Path) -> None:
    names = {0: "<unk>", 1: "<s>", 2: "</s>"}
    tokens = {3: b"Na", 4: b"N\xff"}
    a = read(folder_with(tmp_path / "a", tekken_json=tekken(tokens, names, reserved=3)))
    b = read(folder_with(tmp_path / "b", tokenizer_json=byte_level_json(tokens, names)))
    assert dict(a.tokens) == dict(b.tokens)
    assert (a.bos, a.eos, a.control_known) == (1, 2, True)


def test_rwkv_reads_python_literals_without_running_them(tmp_path: Path) -> None:
    (tmp_path / "rwkv_vocab_v1.txt").write_text("1 'a b' 3\n2 b'\\xff\\n' 2\n", encoding="utf-8")
    assert dict(read(tmp_path).tokens) == {1: b"Na b", 2: b"N\xff\n"}


def test_raw_texts_are_as_the_file_spells_them(tmp_path: Path) -> None:
    found = from_gguf(gguf(WORDS, CHAT, padding=1))
    assert found.raw[1] == "Ġworld"
    assert found.raw[7] == "[PAD7]"


def test_gguf_spells_user_tokens_with_real_spaces_or_not() -> None:
    real = gguf({0: b"Na"}, {1: "x"}, model="llama")
    marked = gguf({0: b"Na"}, {1: "x"}, model="llama")
    for metadata, text in ((real, "  "), (marked, "▁▁")):
        metadata["tokenizer.ggml.tokens"].append(text)
        metadata["tokenizer.ggml.token_type"].append(USER)
    a, b = from_gguf(real), from_gguf(marked)
    assert a.tokens == b.tokens
    assert a.raw != b.raw


def test_unigram_list_and_byte_pieces(tmp_path: Path) -> None:
    content = spm_json({}, {0: "<unk>"})
    content["model"] = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -1.0]], "unk_id": 0}
    found = read(folder_with(tmp_path, tokenizer_json=content))
    assert dict(found.tokens) == {0: b"N<unk>", 1: b"N a"}
    assert found.vocab_type == "UGM"


# ---------------------------------------------------------------- what lies beside


def test_stop_ids_come_from_both_configs(tmp_path: Path) -> None:
    config = {"eos_token": {"content": "<|im_end|>"}, "bos_token": None, "add_bos_token": False}
    config["chat_template"] = "{{ '<|im_start|>user' }}"
    files = {"tokenizer_json": byte_level_json(WORDS, CHAT), "tokenizer_config_json": config}
    found = read(folder_with(tmp_path, **files, generation_config_json={"eos_token_id": [3, 6]}))
    assert (found.eos, found.bos, found.add_bos) == (6, None, False)
    assert found.stop_ids == (3, 6)
    assert found.template_ids == (5,)


def test_a_chat_template_may_be_a_list(tmp_path: Path) -> None:
    config = {"chat_template": [{"name": "default", "template": "<|im_end|>"}, "odd"]}
    files = {"tokenizer_json": byte_level_json(WORDS, CHAT), "tokenizer_config_json": config}
    assert read(folder_with(tmp_path, **files)).template_ids == (6,)


def test_tokens_that_only_the_config_names_are_told(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"9": {"content": "[MASK]"}, "5": {"content": "<|other|>"}}}
    files = {"tokenizer_json": byte_level_json(WORDS, CHAT), "tokenizer_config_json": config}
    notes = " ".join(read(folder_with(tmp_path, **files)).notes)
    assert "names 1 tokens" in notes
    assert "renames 1 tokens" in notes


def test_control_tokens_of_a_bare_tiktoken_file_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "qwen.tiktoken").write_bytes(tiktoken(WORDS))
    found = read(tmp_path)
    assert not found.control_known
    assert found.notes == (TIKTOKEN_NOTE,)


def test_code_alone_is_not_run_and_told(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'w')"
    folder = folder_with(tmp_path / "m", tokenizer_config_json={"auto_map": {"AutoTokenizer": ["x", None]}})
    (folder / "tokenization_x.py").write_text(code)
    found = read(folder)
    assert found.format == "code"
    assert not found.tokens
    assert "tokenization_x.py" in found.notes[0]
    assert not marker.exists()


def test_a_folder_without_a_tokenizer_gives_none(tmp_path: Path) -> None:
    assert read_folder(folder_with(tmp_path, config_json={"model_type": "llama"})) is None


# ---------------------------------------------------------------- traps


def test_tekken_length_of_vocab_is_not_its_size(tmp_path: Path) -> None:
    tokens = {3: b"Na", 4: b"Nb"}
    found = read(folder_with(tmp_path, tekken_json=tekken(tokens, None, reserved=3, listed=50)))
    assert found.size == len(found.tokens) == 5
    assert found.tokens[1] == b"N<SPECIAL_1>"
    assert (found.control_known, found.notes) == (False, (TEKKEN_NOTE,))


def test_tokenizer_model_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    a = read(folder_with(tmp_path / "a", tokenizer_model=sentencepiece(SPM, SPM_CONTROL)))
    b = read(folder_with(tmp_path / "b", tokenizer_model=tiktoken(WORDS)))
    assert (a.format, b.format) == ("sentencepiece", "tiktoken")


def test_what_a_file_marks_as_special_does_not_matter(tmp_path: Path) -> None:
    unused = {0: b"Na", 1: b"N<unused0>", 2: b"N<unused1>"}
    few = read(folder_with(tmp_path / "few", tokenizer_json=spm_json(unused, {3: "<bos>"})))
    many = {1: "<unused0>", 2: "<unused1>", 3: "<bos>"}
    all_special = read(folder_with(tmp_path / "all", tokenizer_json=spm_json({0: b"Na"}, many)))
    assert (few.base_ids, all_special.base_ids) == (3, 1)
    assert fingerprint(few).full == fingerprint(all_special).full


@pytest.mark.parametrize("kind", [2, USER, 5], ids=["unknown", "user-defined", "unused"])
def test_padding_is_left_out_whatever_type_it_has(kind: int) -> None:
    metadata = gguf(WORDS, CHAT, padding=4)
    metadata["tokenizer.ggml.token_type"][7:] = [kind] * 4
    found = from_gguf(metadata)
    assert (len(found.tokens), found.size) == (7, 11)


def test_three_numbers_are_kept_apart() -> None:
    taken = fingerprint(from_gguf(gguf({0: b"Na", 7: b"Nb"}, {9: "<s>"}, padding=6)))
    assert (taken.named_ids, taken.highest_id) == (3, 9)


def test_merges_spelled_two_ways_are_one_pipeline(tmp_path: Path) -> None:
    digests = set()
    for name, merges in (("text", ["h e", "l l"]), ("pairs", [["h", "e"], ["l", "l"]])):
        content = byte_level_json(WORDS, CHAT)
        content["model"]["merges"] = merges
        if name == "pairs":
            content["model"]["ignore_merges"] = False
        digests.add(fingerprint(read(folder_with(tmp_path / name, tokenizer_json=content))).pipeline)
    assert len(digests) == 1
    assert None not in digests


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ({"type": "Digits", "individual_digits": True}, "single"),
        ({"type": "Split", "pattern": {"Regex": r" ?\p{L}+|\p{N}{1,3}|\s+"}}, "groups-of-3"),
        ({"type": "Split", "pattern": {"Regex": r" ?\p{L}+|\p{N}|\s+"}}, "single"),
        ({"type": "Split", "pattern": {"Regex": r" ?\p{L}+| ?\p{N}+|\s+"}}, "free"),
        (None, None),
    ],
    ids=["digits", "three", "one", "free", "unknown"],
)
def test_how_digits_are_cut(tmp_path: Path, pre: Any, expected: str | None) -> None:
    content = byte_level_json(WORDS, CHAT, pre_tokenizer=pre)
    assert read(folder_with(tmp_path, tokenizer_json=content)).digits == expected


@pytest.mark.parametrize(
    ("normalizer", "expected"),
    [
        (None, "none"),
        ({"type": "Sequence", "normalizers": []}, "none"),
        ({"type": "NFC"}, "NFC"),
        ({"type": "Sequence", "normalizers": [{"type": "NFKC"}]}, "NFKC"),
        ({"type": "Prepend", "prepend": "▁"}, "spaces"),
    ],
    ids=["null", "empty", "nfc", "nfkc", "spaces"],
)
def test_normalizer_is_named(tmp_path: Path, normalizer: Any, expected: str) -> None:
    content = byte_level_json(WORDS, CHAT, normalizer=normalizer)
    assert read(folder_with(tmp_path, tokenizer_json=content)).normalizer == expected


def test_missing_pre_of_a_gguf_is_told() -> None:
    assert "tokenizer.ggml.pre" in from_gguf(gguf(WORDS, CHAT)).notes[0]
    assert from_gguf(gguf(WORDS, CHAT, pre="qwen2")).notes == ()


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("<|im_start|>", True),
        ("[INST]", True),
        ("[/INST]", True),
        ("|||EMAIL|||", True),
        ("<div>", True),
        ("<", False),
        ("a<b>", False),
        ("<a\nb>", False),
        ("[1]", False),
    ],
)
def test_markup_is_told_by_its_text(text: str, markup: bool) -> None:
    assert v.is_markup(b"N" + text.encode()) is markup


@pytest.mark.parametrize(
    ("text", "reserved"),
    [
        ("<unused12>", True),
        ("<|reserved_special_token_5|>", True),
        ("[control_768]", True),
        ("<|extra_3|>", True),
        ("<SPECIAL_20>", True),
        ("[UNUSED_TOKEN_141]", True),
        ("<｜place▁holder▁no▁7｜>", True),
        ("<|im_start|>", False),
        ("<h1>", False),
        ("<image_soft_token>", False),
    ],
)
def test_place_holders_are_told_by_their_text(text: str, reserved: bool) -> None:
    assert v.is_reserved(text) is reserved


def test_texts_for_the_terminal_are_printable() -> None:
    assert v.text_of(b"N\x1b[31mred\n\xff") == "\\x1b[31mred\\n\\xff"
    assert v.text_of(b"B\x0a") == "<0x0A>"
    assert v.text_of(None) is None


# ---------------------------------------------------------------- files that mean harm
JSON = byte_level_json(WORDS, CHAT)


def with_vocab(vocab: Any) -> dict[str, Any]:
    return {**JSON, "added_tokens": [], "model": {"type": "BPE", "vocab": vocab}}


def with_added(*added: Any) -> dict[str, Any]:
    return {**JSON, "added_tokens": list(added)}


HOSTILE: dict[str, tuple[str, bytes | Any, str]] = {
    "empty": ("tokenizer.json", b"", "empty"),
    "only spaces": ("tokenizer.json", b"  \n ", "empty"),
    "lfs pointer": ("tokenizer.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    "lfs pointer for a model": ("tokenizer.model", b"version https://git-lfs.github.com/spec/v1\noid x\n", "Git LFS"),
    "cut off": ("tokenizer.json", json.dumps(JSON).encode()[:100], "not valid JSON"),
    "no object": ("tokenizer.json", [], "not a JSON object"),
    "no vocabulary": ("tokenizer.json", {"model": {}}, "model.vocab"),
    "deep": ("tokenizer.json", b'{"model":' + b"[" * 500_000, "nested too deeply"),
    "many values": ("tokenizer.json", b"[" + b"0," * 3_500_000 + b"0]", "values"),
    "ids twice": ("tokenizer.json", with_vocab({"a": 1, "b": 1}), "token id 1 is given to two tokens"),
    "added ids twice": ("tokenizer.json", with_added({"id": 9, "content": "a"}, {"id": 9, "content": "b"}), "id 9"),
    "huge id": ("tokenizer.json", with_vocab({"a": 2**24 + 1}), "out of range"),
    "negative id": ("tokenizer.json", with_vocab({"a": -1}), "out of range"),
    "text for an id": ("tokenizer.json", with_vocab({"a": "1"}), "not a whole number"),
    "truth for an id": ("tokenizer.json", with_vocab({"a": True}), "not a whole number"),
    "fraction for an id": ("tokenizer.json", with_vocab({"a": 1.5}), "not a whole number"),
    "added without content": ("tokenizer.json", with_added({"id": 1}), "added_tokens"),
    "added is a number": ("tokenizer.json", with_added(3), "added_tokens"),
    "added without text": ("tokenizer.json", with_added({"id": 9, "content": 5}), "no text"),
    "unigram of numbers": ("tokenizer.json", with_vocab([1, 2]), "list of pieces"),
    "merge of numbers": ("tokenizer.json", {**JSON, "model": {**JSON["model"], "merges": [5]}}, "merge"),
    "no model at all": ("tokenizer.model", b"\x00\x01\x02", "neither"),
    "sentencepiece cut off": ("tokenizer.model", sentencepiece(SPM, SPM_CONTROL)[:-9] + b"\x12\xff", "damaged"),
    "sentencepiece of one byte": ("tokenizer.model", b"\x0a\x05a", "damaged"),
    "sentencepiece long number": ("tokenizer.model", b"\x0a\x02\x18" + b"\xff" * 30, "damaged"),
    "tiktoken cut off": ("a.tiktoken", b"aGVsbG8= 0\naGV", "line 2"),
    "tiktoken twice": ("a.tiktoken", b"aGVsbG8= 0\naGVsbG8= 1\n", "twice"),
    "tiktoken ids twice": ("a.tiktoken", b"aGVsbG8= 1\naGVs 1\n", "two tokens"),
    "tekken without config": ("tekken.json", {"vocab": []}, "config"),
    "tekken config of texts": (
        "tekken.json",
        {"config": {"default_num_special_tokens": "a", "default_vocab_size": 9, "pattern": ""}, "vocab": []},
        "config",
    ),
    "tekken huge": (
        "tekken.json",
        {"config": {"default_num_special_tokens": 2**40, "default_vocab_size": 9, "pattern": ""}, "vocab": []},
        "out of range",
    ),
    "tekken unnamed": (
        "tekken.json",
        {"config": {"default_num_special_tokens": 213_222, "default_vocab_size": 1, "pattern": ""}, "vocab": []},
        "more than any tokenizer",
    ),
    "tekken rank missing": (
        "tekken.json",
        {"config": {"default_num_special_tokens": 1, "default_vocab_size": 3, "pattern": ""}, "vocab": [{"rank": 1}]},
        "without bytes",
    ),
    "rwkv code": ("rwkv_vocab_x.txt", b"1 __import__('os').getpid() 3\n", "line 1"),
    "rwkv number": ("rwkv_vocab_x.txt", b"1 5 3\n", "line 1"),
    "vocab of lists": ("vocab.json", {"a": [1]}, "not a whole number"),
}


@pytest.mark.parametrize(("name", "content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_end_in_one_clear_line(tmp_path: Path, name: str, content: Any, message: str) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InvalidFile) as raised:
        read_folder(tmp_path, pipeline=True)
    assert message in raised.value.message
    assert str(tmp_path) in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_a_file_of_hundreds_of_megabytes_is_refused_by_size(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.write(b"{")
        file.truncate(200 * 2**20)
    with pytest.raises(InvalidFile, match="too large"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer.ggml.tokens": None},
        {"tokenizer.ggml.tokens": [1, 2]},
        {"tokenizer.ggml.tokens": []},
        {"tokenizer.ggml.token_type": [1]},
    ],
    ids=["none", "numbers", "empty", "too few types"],
)
def test_damaged_gguf_metadata_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidFile):
        from_gguf({**gguf(WORDS, CHAT), **change}, source="x.gguf")


def test_odd_gguf_values_are_not_believed() -> None:
    odd = gguf(WORDS, CHAT, bos_token_id="1", eos_token_id=-1, add_bos_token=3, eot_token_id=2**40)
    found = from_gguf(odd)
    assert (found.bos, found.eos, found.add_bos, found.stop_ids) == (None, None, None, ())


def read_or_refuse(folder: Path) -> tuple[v.Vocabulary | None, InvalidFile | None]:
    """What was read, or the error; anything else that is raised fails the test."""
    try:
        return read_folder(folder, pipeline=True), None
    except InvalidFile as error:
        return None, error


WHOLE = {
    "tokenizer.model": sentencepiece(SPM, SPM_CONTROL),
    "a.tiktoken": tiktoken(WORDS),
    "rwkv_vocab_x.txt": b"1 'a' 1\n2 'b' 1\n",
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**25) | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TOP = ["added_tokens", "normalizer", "pre_tokenizer", "decoder", "model"]
CONFIG = ["eos_token", "bos_token", "added_tokens_decoder", "chat_template", "add_bos_token", "eos_token_id"]
MODEL = ["vocab", "merges", "byte_fallback", "type"]


@settings(max_examples=100, deadline=None)
@given(
    top=st.dictionaries(st.sampled_from(TOP), JSON_VALUES, max_size=2),
    model=st.dictionaries(st.sampled_from(MODEL), JSON_VALUES, max_size=1),
    config=st.dictionaries(st.sampled_from(CONFIG), JSON_VALUES),
)
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, top: Any, model: Any, config: Any
) -> None:
    content = {**JSON, "model": {**JSON["model"], **model}, **top}
    folder = folder_with(tmp_path_factory.mktemp("t"), tokenizer_json=content, tokenizer_config_json=config)
    write_json(folder, config, "generation_config.json")
    found, error = read_or_refuse(folder)
    if found is None:
        assert error is not None
        assert "\n" not in error.message
    else:
        assert fingerprint(found).named_ids in (None, len(found.tokens))


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(sorted(WHOLE)),
    cut=st.integers(0, 200),
    junk=st.binary(max_size=8),
)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: int, junk: bytes
) -> None:
    whole = WHOLE[name]
    folder = tmp_path_factory.mktemp("b")
    (folder / name).write_bytes(whole[:cut] + junk + whole[cut:])
    found, error = read_or_refuse(folder)
    assert (found is None) == (error is not None)


# ---------------------------------------------------------------- laws
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="▁"), min_size=1, max_size=5)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=12, unique=True), extra=st.integers(0, 5))
def test_core_does_not_depend_on_the_format(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], extra: int
) -> None:
    root = tmp_path_factory.mktemp("f")
    tokens = {i + 3: b"N" + text.encode() for i, text in enumerate(texts)}
    control = {0: "<unk>", 1: "<s>", 2: "</s>"}
    (root / "t.tiktoken").write_bytes(tiktoken(tokens))
    byte_level = [
        read(folder_with(root / "a", tokenizer_json=byte_level_json(tokens, control))),
        read_tiktoken(root / "t.tiktoken", specials={text: i for i, text in control.items()}),
        from_gguf(gguf(tokens, control, padding=extra)),
        read(folder_with(root / "b", tekken_json=tekken(tokens, control, reserved=3, listed=extra))),
    ]
    plain = {i: t for i, t in tokens.items() if v.byte_fallback(t[1:].decode()) is None}
    if len(plain) == len(tokens):
        byte_level += [
            read(folder_with(root / "c", tokenizer_json=spm_json(tokens, control))),
            read(folder_with(root / "d", tokenizer_model=sentencepiece(tokens, control))),
            from_gguf(gguf(tokens, control, model="llama", padding=extra)),
        ]
    taken = [fingerprint(found) for found in byte_level]
    assert len({t.core for t in taken}) == 1
    assert len({t.full for t in taken}) == 1
    assert len({t.blocks for t in taken}) == 1


def test_unknown_protobuf_fields_are_passed_over(tmp_path: Path) -> None:
    more = message([(99, "future"), (98, 7)])
    found = read(folder_with(tmp_path, tokenizer_model=sentencepiece(SPM, SPM_CONTROL) + more))
    assert len(found.tokens) == 8


def test_a_byte_type_without_a_byte_is_kept_as_text() -> None:
    metadata = gguf(words(2), {}, model="llama")
    metadata["tokenizer.ggml.token_type"][1] = BYTE
    assert from_gguf(metadata).tokens[1] == b"N w1"
