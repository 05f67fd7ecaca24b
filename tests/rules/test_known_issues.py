"""Which troubles of others are told of which pair, and that the catalogue's own rows can be met."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_engine import ENGINES, QWEN3, QWEN3_SMALL, engine, model, pair, pairs

from draftpick.catalog_index import read_toml
from draftpick.engine_file import IssueKind
from draftpick.models.tokenizer import Relation
from draftpick.pair import CONDITIONS, Device, Pair
from draftpick.rules.conditions import _DERIVED
from draftpick.rules.known_issues import KINDS, KnownIssue, matching
from draftpick.versions import window

CATALOG = Path(__file__).parents[2] / "catalog"
ROWS: list[dict[str, Any]] = read_toml(CATALOG / "known_issues.toml")["issue"]
PAIR = pair(QWEN3, QWEN3_SMALL)
NPU = Device("310p-duo-96g", "Atlas 300I Duo", "huawei")


def row(**changes: Any) -> dict[str, Any]:
    plain = {"key": "a", "engines": ["vllm-ascend"], "kind": "slow", "symptom": "it is slow", "mending": "do less"}
    return {**plain, "source": "https://example.org/1", **changes}


def told(issue: dict[str, Any], of: Pair = PAIR, name: str = "vllm-ascend") -> tuple[KnownIssue, ...]:
    return matching([issue], of, engine(name))


@pytest.mark.parametrize(
    ("issue", "of", "name", "fits"),
    [
        (row(), PAIR, "vllm-ascend", True),
        (row(), PAIR, "vllm", False),
        (row(engines=["vllm", "vllm-ascend"]), PAIR, "vllm", True),
        (row(methods=["draft_model"]), PAIR, "vllm-ascend", True),
        (row(methods=["mtp"]), PAIR, "vllm-ascend", False),
        (row(methods=["mtp"]), pair(QWEN3, None, "mtp"), "vllm-ascend", True),
        (row(since="0.20.0"), PAIR, "vllm-ascend@0.23.0", True),
        (row(since="0.20.0"), PAIR, "vllm-ascend@0.20.0rc1", False),
        (row(until="0.20.0"), PAIR, "vllm-ascend@0.20.0", False),
        (row(until="0.20.0"), PAIR, "vllm-ascend@0.19.9", True),
        (row(since="0.24.0"), PAIR, "vllm-ascend", False),
        (row(since="0.24.0"), PAIR, "vllm-ascend@main", False),
        (row(engines=["llama.cpp"], since="b10752"), PAIR, "llama.cpp@b10751", False),
        (row(engines=["llama.cpp"], since="b10752"), PAIR, "llama.cpp@b10752", True),
        (row(target={"id": "*Qwen3-8B*"}), PAIR, "vllm-ascend", True),
        (row(draft={"id": "*Qwen3-8B*"}), PAIR, "vllm-ascend", False),
        (row(either={"id": "*0.6B"}), PAIR, "vllm-ascend", True),
        (row(target={"quantization": "w8a8*"}), PAIR, "vllm-ascend", False),
        (row(target={"quantization": "w8a8*"}), pair(model("a", 9, quantization="w8a8"), None), "vllm-ascend", True),
        (row(setting={"max_num_seqs": ">=16"}), PAIR, "vllm-ascend", False),
        (row(setting={"max_num_seqs": ">=16"}), pair(QWEN3, None, max_num_seqs=16), "vllm-ascend", True),
        (row(device={"key": "310p*"}), PAIR, "vllm-ascend", False),
        (row(device={"key": "310p*"}), pair(QWEN3, None, device=NPU), "vllm-ascend", True),
        (row(pair={"positions": "stretched"}), PAIR, "vllm-ascend", False),
        *(
            (
                row(pair={"positions": "stretched"}),
                pair(model("a", 9, max_position_embeddings=4096), None, max_model_len=length),
                "vllm-ascend",
                length > 4096,
            )
            for length in (4096, 4097)
        ),
        (row(target={"moe": False}, setting={"tensor_parallel_size": ">1"}), PAIR, "vllm-ascend", False),
    ],
)
def test_a_row_is_told_where_all_of_it_fits(issue: dict[str, Any], of: Pair, name: str, fits: bool) -> None:
    assert bool(told(issue, of, name)) is fits


@pytest.mark.parametrize(
    ("changes", "name", "sentence"),
    [
        ({}, "vllm-ascend", "It is slow: do less."),
        ({"until": "0.30.0", "fixed": True}, "vllm-ascend", "It is slow: do less. Mended in 0.30.0."),
        ({"until": "0.30.0"}, "vllm-ascend", "It is slow: do less. Mended in 0.30.0."),
        ({"fixed": False}, "vllm-ascend", "It is slow: do less. Not mended when last looked at."),
        ({"fixed": True}, "vllm-ascend", "It is slow: do less. Said to be mended since, in a version not named."),
        (
            {"since": "0.20.0", "certain": False},
            "vllm-ascend",
            "It is slow (from about 0.20.0; the exact versions are not known): do less.",
        ),
        (
            {"since": "0.20.0", "until": "0.30.0"},
            "vllm-ascend@of-mine",
            "It is slow (in some versions: from about 0.20.0 to before 0.30.0): do less. Mended in 0.30.0.",
        ),
    ],
)
def test_every_doubt_is_said(changes: dict[str, Any], name: str, sentence: str) -> None:
    (issue,) = told(row(**changes), name=name)
    assert issue.sentence == sentence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"reported": "2026-09"}, {"reported": "2026-09"}),
        ({"source": ["s/1", "s/2"]}, {"source": "s/1, s/2"}),
        ({"certain": True}, {}),
        ({"certain": False}, {"versions": "as last reported; the exact versions are not known"}),
        ({"since": "0.1", "certain": False}, {"versions": "from about 0.1; the exact versions are not known"}),
        ({"until": "99", "fixed": True}, {"mended": "mended in 99"}),
        ({"fixed": True}, {"mended": "said to be mended since, in a version not named"}),
        ({"fixed": False, "until": "99"}, {"mended": "not mended when last looked at"}),
    ],
)
def test_what_is_told_of_a_trouble(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    plain = KnownIssue("a", "vllm-ascend", "slow", "it is slow", "do less", "https://example.org/1", None, "", "")
    assert told(row(**changes)) == (plain._replace(**expected),)


def test_troubles_of_one_kind_stand_by_their_keys() -> None:
    rows = [row(key=key, kind=kind) for key, kind in (("c", "slow"), ("b", "crash"), ("a", "slow"), ("d", "crash"))]
    assert [issue.key for issue in matching(rows, PAIR, engine("vllm-ascend"))] == ["b", "d", "a", "c"]


def test_the_worst_kind_comes_first() -> None:
    rows = [row(key=f"{kind[0]}{place}", kind=kind) for place, kind in enumerate(reversed(KINDS))]
    assert [issue.kind for issue in matching(rows, PAIR, engine("vllm-ascend"))] == list(KINDS)
    assert get_args(IssueKind) == KINDS


@given(pairs(), st.sampled_from(ENGINES), st.sampled_from(["", "@0.1", "@main", "@b5000", "@of-mine"]))
def test_a_row_without_conditions_fits_every_pair_of_its_engine(
    case: tuple[Pair, Relation], key: str, version: str
) -> None:
    of, compared = case
    (issue,) = told(row(engines=[key]), of._replace(relation=compared), key + version)
    assert (issue.engine, issue.versions, issue.mended) == (key, "", "")


@given(pairs(), st.sampled_from(ENGINES), st.sampled_from(ROWS))
def test_a_further_condition_never_adds_a_pair(case: tuple[Pair, Relation], key: str, issue: dict[str, Any]) -> None:
    bare = {name: value for name, value in issue.items() if name not in CONDITIONS}
    assert len(told(issue, case[0], key)) <= len(told(bare, case[0], key))


def test_conditions_are_named_as_they_are_read() -> None:
    assert set(_DERIVED) <= CONDITIONS["target"]


# ---------------------------------------------------------------------- the catalogue's rows


@pytest.mark.parametrize("issue", ROWS, ids=lambda issue: issue["key"])
def test_a_row_reads_alone(issue: dict[str, Any]) -> None:
    assert any(issue["key"].startswith(f"{key}-") for key in issue["engines"])
    assert not any(issue[name].endswith(".") or issue[name][:1].isspace() for name in ("symptom", "mending"))
    assert not re.search(r"(?i)edit|config\.json", issue["mending"])
    assert "about" in window(issue) or "reported" in window(issue)


@pytest.mark.parametrize("issue", ROWS, ids=lambda issue: issue["key"])
def test_a_report_is_not_told_by_an_engines_verdict_too(issue: dict[str, Any]) -> None:
    sources = issue["source"] if isinstance(issue["source"], list) else [issue["source"]]
    for key in issue["engines"]:
        facts = engine(key).facts
        said = [str(one["source"]) for one in facts.get("exceptions", ())] + facts.get("notes", [])
        assert not [source for source in sources if any(source in text for text in said)]
