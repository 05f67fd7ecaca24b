"""Tables for spreadsheets: every cell comes back, and none of them acts."""

from __future__ import annotations

import csv
import io
import unicodedata
from typing import Any

import pandas
import pytest
from answers import checked, paired, recommended
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_documents import draft, probe

from draftpick.advice_file import AdviceFile, advice_of
from draftpick.probe_file import ProbeFile
from draftpick.report.csv import ADVICE, PROBE, render
from draftpick.report.json import document
from draftpick.report.text import printable

LAW = settings(deadline=None, max_examples=60)
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
HOSTILE = [
    "=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "＝1", '"quoted"', 'a","b', "a,b;c", "a\nb",
    "a\r\nb", "'=1", "\x00", "\x1b[31m", "\u202e", "\ud800", "", " ", "−1",
]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text())
# A probe file holds none that are empty, overlong or have control characters.
IDS = TEXTS.filter(lambda text: 0 < len(text) <= 300 and not any(unicodedata.category(c) in ("Cc", "Cs") for c in text))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def table(text: str) -> list[dict[str, str]]:
    names, *found = rows(text)
    return [dict(zip(names, row, strict=True)) for row in found]


def advice(found: Any = None) -> AdviceFile:
    return advice_of(document(found or recommended()))


def harmless(text: str) -> str:
    """How a text stands in its cell."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(FORMULAS) else shown


# ---------------------------------------------------------------------- what is in it


def test_an_advice_has_a_row_per_candidate() -> None:
    whole = advice()
    found = table(render(whole))
    assert [row["rank"] for row in found] == [str(one.rank) for one in whole.candidates]
    assert list(found[0]) == [*ADVICE, "verdict_strict", "verdict_loose"]
    first, plan, cost = found[0], whole.candidates[0].plan, whole.candidates[0].cost
    assert plan.speedup is not None
    assert cost is not None
    assert (first["draft"], first["method"], first["viable"], first["chosen"]) == (
        "maker/Toy-2-7B-Instruct", "draft_model", "true", "true",
    )  # fmt: skip
    assert [float(first[name]) for name in ("speedup", "speedup_low", "speedup_high", "speedup_level")] == [
        plan.speedup.value, plan.speedup.low, plan.speedup.high, plan.speedup.level,
    ]  # fmt: skip
    assert (float(first["c"]), float(first["verify_ms"])) == (cost.c, cost.verify_ms[2])
    assert (first["speedup_k"], first["num_spec_tokens"]) == ("2", "2")
    assert int(first["target_weights_bytes"]) == whole.candidates[0].memory.per_device_bytes.target_weights  # type: ignore[union-attr]
    rejected = next(row for row in found if row["draft"] == "maker/Toy-3-7B")
    assert (rejected["viable"], rejected["chosen"], rejected["speedup"]) == ("false", "false", "")
    assert rejected["reason"]
    assert [row["chosen"] for row in found].count("true") == 1


def test_nothing_is_chosen_where_the_answer_is_no() -> None:
    for found in (paired(0.81), checked()):
        assert {row["chosen"] for row in table(render(advice(found)))} == {"false"}


def test_a_probe_has_a_row_per_draft_temperature_and_k() -> None:
    whole = probe(draft(), draft(temperature=0.8, histogram=(2, 1, 1)), draft("acme/bare", priced=False))
    found = table(render(whole))
    assert [(row["draft"], row["temperature"], row["k"]) for row in found] == [
        (one.draft, str(one.temperature), str(row.k)) for one in whole.drafts for row in one.by_k
    ]
    assert list(found[0]) == list(PROBE)
    plain, _, second, third = found[:4]
    assert (plain["position_marginal"], plain["position_conditional"]) == ("", "")
    assert (second["position_marginal"], second["position_conditional"]) == ("0.3", "0.5")
    assert (second["chosen"], third["chosen"]) == ("true", "false")
    assert (second["verify_ms"], second["draft_ms"], second["num_seqs"]) == ("12.0", "1.25", "2")
    assert [third[name] for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens")] == [
        "100.0", "300.0", "100.0",
    ]  # fmt: skip
    assert {found[-1][name] for name in ("chosen", "speedup", "c", "verify_ms", "cost_source")} == {""}


def test_what_needs_no_draft_and_what_has_two_tokenizers_follow() -> None:
    lookup = {"method": "ngram", "temperature": 0.8, "num_spec_tokens": 3, "mean_acceptance_length": 1.25}
    pair = {
        "draft": "acme/other",
        "method": "uag",
        "num_prompts": 8,
        "by_k": [{"k": 2, "mean_acceptance_length": 1.5, "speedup": 0.9}],
    }
    *_, one, two = table(render(probe(draft_free=[lookup], translated=[pair])))
    assert (one["draft"], one["method"], one["k"], one["mean_acceptance_length"]) == ("", "ngram", "3", "1.25")
    assert (two["draft"], two["method"], two["k"], two["speedup"], two["temperature"]) == (
        "acme/other", "uag", "2", "0.9", "",
    )  # fmt: skip


def test_every_column_of_a_probe_is_filled_somewhere() -> None:
    filled = table(render(probe(draft())))
    assert [name for name in PROBE if not any(row[name] for row in filled)] == ["conditional_rate"]


def test_pandas_reads_numbers_as_numbers() -> None:
    found = pandas.read_csv(io.StringIO(render(probe(draft(), draft("acme/bare", priced=False)))))
    numbers = {"temperature", "k", "acceptance_rate", "mean_acceptance_length", "num_drafts", "speedup", "verify_ms"}
    assert all(pandas.api.types.is_numeric_dtype(found[name]) for name in numbers)
    assert found["speedup"].isna().sum() == 4
    assert found.loc[1, "mean_acceptance_length"] == 1.6
    advised = pandas.read_csv(io.StringIO(render(advice())))
    assert advised["viable"].dtype == bool
    assert advised["score"].max() == pytest.approx(97.0)


# ---------------------------------------------------------------------- hostile texts


def hostile_advice(names: list[str]) -> AdviceFile:
    whole = advice().plain()
    for one, name in zip(whole["candidates"], names, strict=False):
        one |= {"draft": name, "label": name, "reason": name, "engines": {name: {"verdict": "care", "version": "1"}}}
    return AdviceFile.model_validate(whole)


@LAW
@given(st.lists(TEXTS, min_size=8, max_size=8))
def test_names_leave_rows_and_columns_intact(names: list[str]) -> None:
    whole = hostile_advice(names)
    text = render(whole)
    head, *found = rows(text)
    assert len(found) == len(whole.candidates)
    assert {len(row) for row in found} == {len(head)}
    assert len(head) == len(ADVICE) + len(dict.fromkeys(key for one in whole.candidates for key in one.engines))
    for row, one in zip(found, whole.candidates, strict=True):
        cells = dict(zip(head, row, strict=True))
        assert [cells[name] for name in ("draft", "label", "reason")] == [harmless(one.label)] * 3
    assert text.count("\n") == len(found) + 1, "no cell holds a line break"


@LAW
@given(IDS, IDS)
def test_those_of_a_probe_as_well(name: str, target: str) -> None:
    text = render(probe(draft(name), target=target))
    assert [row["draft"] for row in table(text)] == [harmless(name)] * 4
    assert {row["target"] for row in table(text)} == {harmless(target)}


@LAW
@given(st.lists(TEXTS, min_size=8, max_size=8))
def test_no_cell_is_a_formula_and_nothing_acts_on_a_terminal(names: list[str]) -> None:
    text = render(hostile_advice(names))
    for row in rows(text):
        for cell in row:
            assert not cell.startswith(FORMULAS) or _is_number(cell)
    assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    text.encode("utf-8")


def test_numbers_below_zero_stay_numbers() -> None:
    whole = advice().plain()
    whole["candidates"][0]["memory"]["per_device_bytes"]["free"] = -5
    found = AdviceFile.model_validate(whole)
    assert table(render(found))[0]["free_bytes"] == "-5"
    assert ",-5," in render(found)


def test_it_is_the_same_from_run_to_run() -> None:
    found: list[AdviceFile | ProbeFile] = [advice(), probe()]
    assert [render(one) for one in found] == [render(one) for one in found]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
