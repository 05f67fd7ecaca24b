"""Texts made safe, and what `rules` and `catalog` print."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from answers import HEAD, TARGET, drafted, model
from hypothesis import given
from hypothesis import strategies as st

from draftpick.catalog import Catalog, load
from draftpick.choices import WEIGHTS, choices_of
from draftpick.errors import UsageError
from draftpick.pair import Pair, Proposal, Setting
from draftpick.report.catalog import listing, one_record, validation
from draftpick.report.rules import all_rules, one_rule
from draftpick.report.text import count, printable, ratio, size_of
from draftpick.rules import load as load_rules

CATALOG = load()


# ---------------------------------------------------------------------- texts


@given(st.text())
def test_printable_text_holds_nothing_a_terminal_acts_on(text: str) -> None:
    shown = printable(text)
    assert not [character for character in shown if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [
        character for character in shown if unicodedata.bidirectional(character) in ("RLO", "LRO", "RLE", "LRE")
    ]
    shown.encode("utf-8")


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "?"),
        (0, "0.0M"),
        (2_828_736, "2.8M"),
        (9_949_999, "9.9M"),
        (68_000_000, "68M"),
        (99_999_999, "100M"),
        (494_000_000, "0.49B"),
        (950_000_000, "0.9B"),
        (7_615_616_512, "7.6B"),
        (72_706_203_648, "72.7B"),
        (671_026_419_200, "671B"),
    ],
)
def test_numbers_of_parameters_are_short(number: int | None, shown: str) -> None:
    assert count(number) == shown


def test_sizes_and_ratios() -> None:
    assert size_of(drafted("a/b", 7)) == "7.0B"
    assert size_of(Proposal("eagle3", "catalogue", head=HEAD)) == "0.90B"
    assert size_of(Proposal("ngram", "always")) == "-"
    for proposal, shown in (
        (drafted("a/b", 7), "10×"),
        (drafted("a/b", 35), "2.0×"),
        (Proposal("ngram", "always"), "-"),
        (Proposal("draft_model", "given", draft=model("a/b", 1, params_total=None)), "?"),
    ):
        assert ratio(Pair(TARGET, proposal, Setting())) == shown


# ---------------------------------------------------------------------- rules


def test_every_rule_is_listed_with_its_weight() -> None:
    lines = all_rules(width=None, color=False).splitlines()
    assert {line.split()[0] for line in lines[1:-2]} == set(load_rules())
    assert all(f" {WEIGHTS[line.split()[0]]:g} " in line for line in lines[1:-2])


@pytest.mark.parametrize("name", sorted(load_rules()))
def test_a_rule_tells_why_and_what_to_do(name: str) -> None:
    text = one_rule(name, width=80, color=False)
    assert text.startswith(f"{name}\n")
    assert "Why: " in text
    assert "Remedy: " in text
    for choice in choices_of(name):
        assert f"{choice.name} = {choice.value:g}: {choice.why}" in " ".join(text.split())


def test_a_mistyped_rule_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        one_rule("size-rato", width=None, color=False)
    assert "size-ratio" in error.value.hint


# ---------------------------------------------------------------------- catalogue


@pytest.mark.parametrize("kind", ["models", "heads", "tokenizers", "engines", "devices", "issues"])
@pytest.mark.parametrize("width", [80, 140])
def test_lists_fit_the_terminal(kind: str, width: int) -> None:
    text = listing(CATALOG, kind, family=None, as_json=False, width=width, color=False)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("kind", ["models", "heads", "tokenizers", "engines", "devices", "issues"])
@pytest.mark.parametrize("width", [80, 140, None])
def test_a_key_is_whole_on_any_screen_and_nothing_of_its_record_is_lost(kind: str, width: int | None) -> None:
    text = listing(CATALOG, kind, family=None, as_json=False, width=width, color=False)
    shown = {word.strip(";,") for word in text.split()}
    assert set(getattr(CATALOG, kind)) <= shown
    rows = listing(CATALOG, kind, family=None, as_json=False, width=None, color=False).split("\n", 1)[1]
    assert {word.strip(";,") for word in rows.split()} <= shown


def test_a_record_fits_the_terminal() -> None:
    for name in ("Qwen/Qwen2.5-72B-Instruct", "vllm-ascend", "qwen2.5-bpe-151643", "910b3"):
        text = one_record(CATALOG, name, as_json=False, width=80, color=False)
        assert max(map(len, text.splitlines())) <= 80


def test_hostile_records_are_shown_harmlessly(tmp_path: Path) -> None:
    row = 'family = "Evil"\n[[model]]\nid = "evil/\u202emodel"\nlicense = "|<b>\u200f"\nsource = "a\\u001b[31mb\\nc"\n'
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "evil.toml").write_text(row + "checked = 2026-11-29\n", encoding="utf-8")
    catalog: Catalog = load(tmp_path)
    for text in (
        one_record(catalog, "evil/\u202emodel", as_json=False, width=80, color=False),
        listing(catalog, "models", family="Evil", as_json=False, width=None, color=False),
    ):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\u200f" not in text


def test_validation_counts_and_names_problems(tmp_path: Path) -> None:
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "evil.toml").write_text('family = "Evil"\n[[model]]\nid = "a/\\u0007"\nlayer = 3\n')
    text, passed = validation(tmp_path)
    assert not passed
    assert text.splitlines()[-1] == f"{tmp_path}: {len(text.splitlines()) - 1} errors, 0 warnings"
    assert all(line.startswith("error: families/evil.toml: ") for line in text.splitlines()[:-1])
    assert "\x07" not in text


def test_a_name_that_no_model_has_is_told_what_is_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        one_record(load(), "Llama2-1.1B", as_json=False, width=None, color=False)
    assert "ever published" in caught.value.message
    assert "TinyLlama" in str(caught.value.hint)
