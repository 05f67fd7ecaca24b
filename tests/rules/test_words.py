"""Every word that the rules go by: in names, licences, lineages, quantisations and the files of engines."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bare_pair, device, draft, head, head_pair, pair, says, target
from test_engine_facts import toy

from draftpick.models.profile import Lineage
from draftpick.rules.engine_facts import covers
from draftpick.rules.figures import PLAIN_BITS, bits_per_weight
from draftpick.rules.heads import kinship

TUNED = [
    "meta", "instruct", "chat", "base", "it", "pt", "hf", "thinking", "reasoning", "preview", "sft", "dpo", "rl",
    "fp8", "awq", "gptq", "w8a8", "w4a16", "int4", "int8", "fp4", "nvfp4", "mxfp4", "bf16", "4bit", "8bit", "bnb",
    "dynamic", "quantized", "gguf", "mlx",
]  # fmt: skip


@pytest.mark.parametrize("word", [*TUNED, "2507", "20251130"])
def test_a_word_of_tuning_is_no_other_model(word: str) -> None:
    assert kinship("maker/Toy-7B", f"maker/Toy-7B-{word.upper()}") == "tuning"


@pytest.mark.parametrize("word", ["coder", "v2", "2", "2.5", "123", "next", "vl"])
def test_any_other_word_is(word: str) -> None:
    assert kinship("maker/Toy-7B", f"maker/Toy-7B-{word}") == "version"


@pytest.mark.parametrize(
    ("one", "other", "kin"),
    [
        ("a/Toy-7B", "b/Toy-7B", "tuning"), ("a/Toy-7B", "a/toy_7b", "tuning"), ("a/Toy-7B", "a/Toy", "tuning"),
        ("a/Toy-7B", "a/Toy-8B", "size"), ("a/Toy-7B", "a/Else-8B", "size"), ("a/Toy-7B", "a/Else-7B", "family"),
        ("a/Toy-7B", "a/Else", "family"), ("a/Toy-350M", "a/Toy-351M", "size"), ("a/Toy-1T", "a/Toy-2T", "size"),
        ("a/Toy-30B-A3B", "a/Toy-30B-A4B", "size"), ("a/Toy-30B-A3B", "a/Toy-30B-a3b", "tuning"),
        ("a/Toy-E2B", "a/Toy-E4B", "size"), ("a/Toy-8x7B", "a/Toy-8x22B", "size"), ("a/Toy-16E", "a/Toy-128E", "size"),
        ("a/Toy-1.7B", "a/Toy-1.8B", "size"), ("a/Toy-XE", "a/Toy-YE", "version"), ("a/Toy-7X", "a/Toy-8X", "version"),
        ("a/Toy-B", "a/Toy-M", "version"), ("a/Toy3-7B", "a/Toy2-7B", "version"), ("a/Toy3-7B", "a/Toy-3-7B", "tuning"),
        ("a/Toy-v3-7B", "a/Toy-3-7B", "tuning"), ("a/Toy-v3-7B", "a/Toy-v2-7B", "version"),
        ("Toy-7B", "x/Toy-7B", "tuning"), ("a/Toy-3-7B", "a/Else-3-7B", "family"),
    ],
)  # fmt: skip
def test_how_far_two_names_are_apart(one: str, other: str, kin: str) -> None:
    assert kinship(one, other) == kinship(other, one) == kin


PERMISSIVE = [
    "apache-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "cc-by-4.0", "cc0-1.0", "unlicense", "openmdw-1.1",
    "modified-mit",
]  # fmt: skip
NON_COMMERCIAL = ["cc-by-nc-4.0", "qwen-research", "x-non-commercial", "noncommercial", "mrl"]


@pytest.mark.parametrize("name", PERMISSIVE)
def test_permissive_licences(name: str) -> None:
    assert says("licence", pair(theirs=draft(license=name.upper()))) == "ok"
    assert says("licence", pair(target(license=name), draft(license="llama3.2"))) == "warn 0.7"


@pytest.mark.parametrize("name", NON_COMMERCIAL)
def test_licences_without_commercial_use(name: str) -> None:
    assert says("licence", pair(theirs=draft(license=name))) == "warn 0.3"
    assert says("licence", pair(target(license="llama3.1"), draft(license=name))) == "warn 0.3"
    assert says("licence", pair(target(license=name), draft(license="llama3.1"))) == "ok"


@pytest.mark.parametrize("name", ["other", "unknown", "", None])
def test_licences_nobody_read(name: str | None) -> None:
    assert says("licence", pair(theirs=draft(license=name))) == "skip"
    assert says("licence", pair(target(license=name))) == "skip"
    assert says("licence", head_pair(published=head(license=name))) == "skip"


@pytest.mark.parametrize("how", ["finetune", "distill", "adapter", "merge", "continued", "quantized", "pruned", None])
def test_what_was_changed_by_others(how: Any) -> None:
    origin = Lineage(base_model="maker/Toy-2-7B", relation=how)
    expected = "skip" if how is None else "ok" if how in ("quantized", "pruned") else "warn 0.5"
    assert says("changed-target", pair(target(id="x/y", lineage=origin))) == expected


@pytest.mark.parametrize("how", ["distill", "pruned", "finetune", "quantized", None])
def test_what_descends_from_its_target(how: Any) -> None:
    origin = Lineage(base_model="maker/Toy-2-7B-Instruct", relation=how)
    expected = "ok" if how in ("distill", "pruned") else "warn 0.35"
    assert says("lineage", pair(theirs=draft(family="Else", lineage=origin))) == expected


@pytest.mark.parametrize("ending", ["-Coder", "-Math", "-VL", "-Else"])
def test_families_trained_on_for_a_subject(ending: str) -> None:
    judged = pair(theirs=draft(family=f"Toy{ending}", lineage=Lineage()))
    assert says("lineage", judged) == ("warn 0.35" if ending == "-Else" else "ok 0.85 unsure")


@pytest.mark.parametrize("word", ["coder", "math", "vision"])
def test_subjects(word: str) -> None:
    special = f"{word}-instruct"
    assert says("subject", pair(target(variant=special), draft(variant=f"{word}-base"))) == "ok"
    assert says("subject", pair(target(variant=special))) == ("ok 0.85" if word == "vision" else "warn 0.65")


@pytest.mark.parametrize("how", ["name-derived", "recalled", "derived", "pairing-read"])
def test_how_a_pairing_became_known(how: str) -> None:
    sure = "ok" if how == "pairing-read" else "ok unsure"
    assert says("head-target", head_pair(published=head(confidence=how))) == sure
    assert says("made-for", pair(of=head(confidence=how))) == sure


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_methods_without_a_draft(method: str) -> None:
    assert says("context-length", bare_pair(method)) == "n/a"
    assert says("quantization", bare_pair(method, kv_cache_dtype="int4")) == "ok"


BITS = {
    "iq1": 1.8, "iq2": 2.4, "q2": 2.6, "iq3": 3.4, "q3": 3.4, "iq4": 4.3, "q4": 4.5, "q5": 5.5, "q6": 6.6, "q8": 8.5,
    "int4": 4.0, "4bit": 4.0, "fp4": 4.0, "w4a16": 4.0, "int8": 8.0, "8bit": 8.0, "fp8": 8.0, "w8a8": 8.0,
    "float8": 8.0,
    "awq": 4.0, "gptq": 4.0, "1.58": 2.0, "f16": 16.0, "odd": None,
}  # fmt: skip


@pytest.mark.parametrize("name", BITS)
def test_bits_by_a_word(name: str) -> None:
    assert bits_per_weight(f"X-{name.upper()}", "float32") == BITS[name]


def test_bits_of_plain_types() -> None:
    assert PLAIN_BITS == {"bfloat16": 16.0, "float16": 16.0, "half": 16.0, "float32": 32.0, "float": 32.0}
    assert [bits_per_weight(None, name) for name in (*PLAIN_BITS, "odd", None)] == [16, 16, 16, 32, 32, None, None]


@pytest.mark.parametrize(
    ("version", "older"),
    [("1.0.dev3", "1.0.dev2"), ("1.0a", "1.0.dev9"), ("1.0alpha2", "1.0a1"), ("1.0b", "1.0a9"), ("1.0beta2", "1.0b1"),
     ("1.0rc", "1.0b9"), ("1.0", "1.0rc9"), ("1.0.post1", "1.0")],
)  # fmt: skip
def test_words_in_a_version(version: str, older: str) -> None:
    assert covers(toy(version), {"since": older, "until": version}) is False
    assert covers(toy(older), {"since": older, "until": version}) is True


@pytest.mark.parametrize("lacks", [{"bf16": False}, {"bf16": False, "fp8": False}])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", None])
def test_what_a_device_without_bfloat16_makes_of_a_type(lacks: dict[str, bool], dtype: str | None) -> None:
    judged = pair(target(dtype=dtype), draft(dtype=dtype), device=device(**lacks))
    assert says("dtype", judged) == {"bfloat16": "warn 0.5", None: "skip"}.get(dtype, "ok")
