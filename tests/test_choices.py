from __future__ import annotations

from pathlib import Path

import pytest

from draftpick.choices import LIMITS, TABLE, WEIGHTS, RuleChoices, load_rules_file
from draftpick.errors import DraftpickError, InvalidFile, UsageError

GOOD = """
select = ["size-ratio", "depth"]
[weights]
size-ratio = 3
depth = 0.5
[ignore]
embedding-rows = "llama.cpp only, which allows 128"
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "rules.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_rules_file_is_read(tmp_path: Path) -> None:
    assert load_rules_file(written(tmp_path, GOOD)) == RuleChoices(
        weights={"size-ratio": 3.0, "depth": 0.5},
        select=frozenset({"size-ratio", "depth"}),
        ignore={"embedding-rows": "llama.cpp only, which allows 128"},
    )


def test_an_empty_rules_file_changes_nothing(tmp_path: Path) -> None:
    assert load_rules_file(written(tmp_path, "")) == RuleChoices()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        pytest.param("[weights]\nsize-rato = 1", InvalidFile, "size-ratio", id="unknown rule, nearest name"),
        pytest.param('select = ["dept"]', InvalidFile, "depth", id="unknown rule in select"),
        pytest.param('[ignore]\nlicense = "x"', InvalidFile, "licence", id="unknown rule in ignore"),
        pytest.param('[ignore]\ndepth = ""', InvalidFile, "without a reason", id="no reason"),
        pytest.param("[ignore]\ndepth = true", InvalidFile, "without a reason", id="reason is no text"),
        pytest.param("[weights]\ndepth = -1", InvalidFile, "-1", id="negative weight"),
        pytest.param("[weights]\ndepth = nan", InvalidFile, "nan", id="weight is no number"),
        pytest.param("[weights]\ndepth = inf", InvalidFile, "inf", id="endless weight"),
        pytest.param("[weights]\ndepth = true", InvalidFile, "True", id="weight is a truth value"),
        pytest.param("[weights]\ndepth = '3'", InvalidFile, "'3'", id="weight is a text"),
        pytest.param("weights = 3", InvalidFile, "[weights]", id="weights are no table"),
        pytest.param("select = 'depth'", InvalidFile, "list", id="select is no list"),
        pytest.param("select = [1]", InvalidFile, "list", id="select holds no names"),
        pytest.param("selects = ['depth']", InvalidFile, "selects", id="unknown key"),
        pytest.param("[weights", InvalidFile, "not valid TOML", id="not TOML"),
        pytest.param(b"\xff\xfe", InvalidFile, "not valid TOML", id="not text"),
        pytest.param("#" * 1_000_001, InvalidFile, "larger than", id="huge"),
    ],
)
def test_a_wrong_rules_file_is_refused(
    tmp_path: Path, text: str | bytes, error: type[DraftpickError], said: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(error) as caught:
        load_rules_file(path)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["absent.toml", "."], ids=["absent", "a folder"])
def test_a_rules_file_that_is_not_there_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules_file(tmp_path / name)


def test_options_win_over_the_file() -> None:
    base = RuleChoices(select=frozenset({"depth"}), ignore={"licence": "ours"}, weights={"depth": 2})
    merged = base.with_options(["size-ratio"], ["licence=not shipped", "depth=measured = fine"])
    assert merged == RuleChoices(
        select=frozenset({"size-ratio"}),
        ignore={"licence": "not shipped", "depth": "measured = fine"},
        weights={"depth": 2},
    )
    assert base.with_options() == base


@pytest.mark.parametrize(
    ("select", "ignore", "said"),
    [
        pytest.param(["dept"], [], "depth", id="unknown rule in select"),
        pytest.param([], ["dept=x"], "depth", id="unknown rule in ignore"),
        pytest.param([], ["depth"], "without a reason", id="no reason"),
        pytest.param([], ["depth= "], "without a reason", id="empty reason"),
    ],
)
def test_wrong_options_are_usage_errors(select: list[str], ignore: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        RuleChoices().with_options(select, ignore)
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_every_choice_is_named_once_and_has_a_reason() -> None:
    names = [choice.name for choice in TABLE]
    assert len(names) == len(set(names))
    assert all(choice.why for choice in TABLE)
    assert {name.partition(".")[0] for name in LIMITS} <= set(WEIGHTS)
