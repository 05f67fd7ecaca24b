"""How an engine's file is read: versions, windows and conditions."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bare_pair, device, draft, head, head_pair, pair, target

from draftpick.models.profile import Experts
from draftpick.models.tokenizer import Relation
from draftpick.pair import Engine, Pair
from draftpick.rules.conditions import conditions, fits
from draftpick.rules.engine_facts import Table, covers, in_version, table_of
from draftpick.versions import window


def toy(version: str = "1.0", **tables: Any) -> Engine:
    vocabulary = {"rule": "none", "source": "s"}
    row = {"key": "toy", "name": "Toy", "version": "1.0", "source": "here", "vocabulary": vocabulary}
    return Engine(key="toy", name="Toy", version=version, facts={**row, **tables})


# Each group means one version; each is older than the next.
RISING = [
    ["0.9", "v0.9.0.0", " 0.9+cu130 "], ["1.0.dev", "1.0.dev0"], ["1.0.dev1"], ["1.0a1", "1.0alpha1", "1.0-alpha1"],
    ["1.0b1", "1.0beta1", "1.0_beta1"], ["1.0rc", "1.0rc0"], ["1.0rc1"], ["1.0rc2"],
    ["1", "1.0", "1.0.0", "1.0.0.0"], ["1.0.post", "1.0.post0"], ["1.0.post1"],
    ["1.0.0.1"], ["1.0.1"], ["1.2"], ["1.10"], ["2020.1"],
]  # fmt: skip


@pytest.mark.parametrize(("place", "version"), [(place, one) for place, group in enumerate(RISING) for one in group])
def test_versions_rise(place: int, version: str) -> None:
    for bound, group in enumerate(RISING):
        for other in group:
            assert covers(toy(version), {"since": other}) is (place >= bound)
            assert covers(toy(version), {"until": other}) is (place < bound)


DATED: dict[str, Any] = {"builds": [{"build": 300, "date": "2025-03-01"}, {"build": 100, "date": "2024-01-31"}]}


@pytest.mark.parametrize(
    ("version", "row", "expected"),
    [
        pytest.param("b200", {}, True, id="no window"),
        pytest.param("b200", {"since": "b200"}, True, id="build: the first"),
        pytest.param("b199", {"since": "b200"}, False, id="build: one before"),
        pytest.param("b200", {"until": "b200"}, False, id="build: the first without"),
        pytest.param("b100", {"since": "2024-01-31"}, True, id="known build: its day"),
        pytest.param("b100", {"until": "2024-01-31"}, False, id="known build: over on its day"),
        pytest.param("b200", {"since": "2024-01-31"}, True, id="between two: after the earlier"),
        pytest.param("b200", {"since": "2024-02-01"}, None, id="between two: perhaps before"),
        pytest.param("b200", {"until": "2025-03-02"}, True, id="between two: before the later"),
        pytest.param("b200", {"until": "2025-03-01"}, None, id="between two: perhaps that day"),
        pytest.param("b100", {"until": "2024-02-01"}, True, id="known build: before the next day"),
        pytest.param("b100", {"since": "2024-02-01"}, False, id="known build: not yet the next day"),
        pytest.param("b300", {"since": "2025-03-01"}, True, id="last known build: its day"),
        pytest.param("b300", {"until": "2025-03-02"}, True, id="last known build: before the next day"),
        pytest.param("b99", {"since": "2023"}, None, id="older than all: any time before"),
        pytest.param("b99", {"since": "2000"}, None, id="older than all: however long before"),
        pytest.param("b99", {"until": "2024-02-01"}, True, id="older than all: before the first"),
        pytest.param("b301", {"since": "2025-03-01"}, True, id="newer than all: after the last"),
        pytest.param("b301", {"until": "2030"}, None, id="newer than all: any time after"),
        pytest.param("2024-05-07", {"since": "2024-05-07"}, True, id="date: that day"),
        pytest.param("2024-05-06", {"since": "2024-05-07"}, False, id="date: the day before"),
        pytest.param("2024-05", {"since": "2024-05-07"}, None, id="month: some days of it"),
        pytest.param("2024-05", {"since": "2024-05-01"}, True, id="month: all of it"),
        pytest.param("2024", {"until": "2025-01-01"}, True, id="year: all of it"),
        pytest.param("2024", {"until": "2024-06-01"}, None, id="year: some of it"),
        pytest.param("2024-05-07", {"since": "0.9"}, None, id="a date and a release"),
        pytest.param("1.0", {"since": "2024-05-07"}, None, id="a release and a date"),
        pytest.param("odd", {"since": "0.9"}, None, id="no version"),
        pytest.param("1.0", {"since": "0.9", "until": "odd"}, None, id="one bound is none"),
        pytest.param("1.0", {"since": "1.1", "until": "odd"}, False, id="yet too old for the other"),
        pytest.param("1" * 60, {"since": "0.9"}, True, id="as long as one may be"),
        pytest.param("1" * 61, {"since": "0.9"}, None, id="longer than any version"),
        pytest.param("1.0.0.0.0", {"since": "0.9"}, None, id="five numbers"),
        pytest.param("1.0é", {"since": "0.9"}, None, id="another letter"),
        pytest.param("1999-01-01", {"since": "1998-01-01"}, True, id="a year before 2000 is a release"),
    ],
)
def test_windows(version: str, row: dict[str, Any], expected: bool | None) -> None:
    assert covers(toy(version, **DATED), row) is expected


@pytest.mark.parametrize("name", ["main", "master", "nightly", "latest", "dev", "head", " Main "])
def test_the_newest_has_the_facts_of_the_file(name: str) -> None:
    assert covers(toy(name), {"since": "1.0"}) is True
    assert covers(toy(name), {"until": "1.0"}) is False
    assert table_of(toy(name)).note == f"version {name!r} is judged by the facts of 1.0"


COSTS = {"per_step": 3, "was": [{"until": "0.5", "per_step": 1}, {"until": "0.9", "per_step": 2, "mode": "eager"}]}


@pytest.mark.parametrize(
    ("version", "table", "expected"),
    [
        ("1.0", "costs", COSTS),
        ("0.8", "costs", {**COSTS, **COSTS["was"][1]}),  # type: ignore[index]
        ("0.4", "costs", {**COSTS, **COSTS["was"][0]}),  # type: ignore[index]
        ("0.4", "notes", {}),
        ("0.4", "nothing", {}),
    ],
)
def test_a_plain_table_has_the_values_of_the_version(version: str, table: str, expected: dict[str, Any]) -> None:
    of = toy(version, costs=COSTS, notes=["a list"])
    assert in_version(of, table) == in_version(of, table) == expected


def test_more_engines_than_are_kept_are_told_apart() -> None:
    many = [toy(costs={"per_step": number}, limits={"max_num_spec_tokens": number}) for number in range(200)]
    for _ in range(2):
        assert [in_version(one, "costs")["per_step"] for one in many] == list(range(200))
        assert [table_of(one).limits["max_num_spec_tokens"] for one in many] == list(range(200))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"since": "1", "until": "2"}, "from about 1 to before 2"),
        ({"since": "1"}, "from about 1"),
        ({"until": "2"}, "before about 2"),
        ({}, "as last reported"),
    ],
)
def test_a_window_in_words(row: dict[str, Any], said: str) -> None:
    assert window(row) == said


# ---------------------------------------------------------------------- resolved tables


def resolved(version: str, **tables: Any) -> Table:
    return table_of(toy(version, **tables))


METHOD = {
    "support": "yes", "since": "0.5", "note": "set it", "severity": "warns", "source": "s",
    "was": [{"until": "0.6", "support": "no", "note": "broken", "severity": "corrupts"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "row", "expected"),
    [
        pytest.param("1.0", METHOD, ("yes", "set it", "warns", False), id="now"),
        pytest.param("0.5", METHOD, ("no", "broken", "corrupts", True), id="once otherwise"),
        pytest.param(
            "0.5",
            {"support": "yes", "since": "0.6"},
            ("no", "Toy has mtp from 0.6, not in 0.5", None, True),
            id="before",
        ),
        pytest.param(
            "0.9",
            {"support": "experimental", "since": "0.6", "until": "0.8"},
            ("no", "Toy has mtp from 0.6 until 0.8, not in 0.9", None, True),
            id="after",
        ),
        pytest.param("0.5", {"support": "no", "since": "0.6"}, ("no", "", None, False), id="never"),
        pytest.param(
            "odd",
            {"support": "yes", "since": "0.6"},
            ("unknown", "mtp exists in some versions of Toy", None, True),
            id="?",
        ),
        pytest.param(
            "odd",
            {"support": "yes", "since": "0.6", "note": "set it"},
            ("unknown", "mtp exists in some versions of Toy: set it", None, True),
            id="? with a note",
        ),
        pytest.param("odd", {"support": "no", "since": "0.6"}, ("no", "", None, False), id="never, in any version"),
    ],
)
def test_a_method_in_a_version(version: str, row: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = resolved(version, methods={"mtp": row}).methods["mtp"]
    assert (found.support, found.note, found.severity, found.bound) == expected
    assert found.facts == row


@pytest.mark.parametrize(
    ("version", "row", "expected"),
    [
        pytest.param("1.0", {"since": "0.5"}, ("refused", "it breaks", "crashes under load"), id="within"),
        pytest.param("0.4", {"since": "0.5"}, None, id="outside"),
        pytest.param(
            "odd",
            {"since": "0.5"},
            ("care", "it breaks (in some versions: from about 0.5)", "crashes under load"),
            id="not known",
        ),
        pytest.param(
            "1.0",
            {"since": "0.5", "certain": False},
            ("refused", "it breaks (from about 0.5; the exact versions are not known)", "crashes under load"),
            id="about",
        ),
    ],
)
def test_an_exception_in_a_version(version: str, row: dict[str, Any], expected: tuple[Any, ...] | None) -> None:
    full = {"verdict": "refused", "reason": "it breaks", "severity": "crashes under load", **row}
    of_two = resolved(version, exceptions=[{**full, "methods": ["mtp", "eagle3"]}])
    anywhere = resolved(version, exceptions=[full])
    found = [(one.verdict, one.reason, one.severity) for one in anywhere.anywhere]
    assert found == ([] if expected is None else [expected])
    assert {*of_two.exceptions} == (set() if expected is None else {"mtp", "eagle3"})
    assert not of_two.anywhere
    assert not anywhere.exceptions


@pytest.mark.parametrize(
    ("version", "bridge", "rule"),
    [("1.0", True, "none"), ("0.7", False, "named-ids"), ("0.8", True, "named-ids"), ("odd", True, "none")],
)
def test_what_an_engine_compared_before(version: str, bridge: bool, rule: str) -> None:
    vocabulary = {
        "rule": "none",
        "bridge": {"name": "b", "since": "0.8"},
        "was": [{"until": "0.9", "rule": "named-ids"}],
    }
    parallel = {"any": "equal", "was": [{"until": "0.9", "any": "one-or-equal"}]}
    found = resolved(version, vocabulary=vocabulary, tensor_parallel=parallel)
    assert (found.bridge is not None, found.vocabulary["rule"]) == (bridge, rule)
    assert found.tensor_parallel["any"] == ("equal" if rule == "none" else "one-or-equal")


# ---------------------------------------------------------------------- conditions

HYBRID = target(attention="hybrid", experts=Experts(num_experts=8, experts_per_token=2))
RECURRENT = draft(attention="recurrent", modality="text+vision", num_nextn_predict_layers=1)
SEVERAL: dict[str, Any] = {"device": device(), "max_num_seqs": 8, "temperature": 0.5}


@pytest.mark.parametrize(
    ("asked", "judged", "holds"),
    [
        ({"target": {"moe": True, "hybrid": True, "vision": False, "mtp": False}}, pair(HYBRID, RECURRENT), True),
        ({"draft": {"moe": False, "hybrid": True, "vision": True, "mtp": True}}, pair(HYBRID, RECURRENT), True),
        ({"either": {"moe": True, "vision": True}}, pair(HYBRID, RECURRENT), True),
        ({"either": {"attention": "full"}}, pair(HYBRID, RECURRENT), False),
        ({"setting": {"max_num_seqs": ">7"}}, pair(**SEVERAL), True),
        ({"setting": {"max_num_seqs": ">8"}}, pair(**SEVERAL), False),
        ({"setting": {"max_num_seqs": ">=8"}}, pair(**SEVERAL), True),
        ({"setting": {"max_num_seqs": ">=9"}}, pair(**SEVERAL), False),
        ({"setting": {"max_num_seqs": "<8"}}, pair(**SEVERAL), False),
        ({"setting": {"max_num_seqs": "<9"}}, pair(**SEVERAL), True),
        ({"setting": {"max_num_seqs": "<=8"}}, pair(**SEVERAL), True),
        ({"setting": {"max_num_seqs": "<=7"}}, pair(**SEVERAL), False),
        ({"setting": {"max_num_seqs": 8}}, pair(**SEVERAL), True),
        ({"setting": {"max_num_seqs": [7, 9]}}, pair(**SEVERAL), False),
        ({"setting": {"temperature": ">0.4"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": "MAKER"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": "mak"}}, pair(**SEVERAL), False),
        ({"device": {"vendor": "mak*"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": "*ker"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": "*mak"}}, pair(**SEVERAL), False),
        ({"device": {"vendor": "ker*"}}, pair(**SEVERAL), False),
        ({"device": {"vendor": "*ake*"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": "!mak*"}}, pair(**SEVERAL), False),
        ({"device": {"vendor": "!"}}, pair(**SEVERAL), True),
        ({"device": {"vendor": ["!other", "!mak*"]}}, pair(**SEVERAL), False),
        ({"device": {"vendor": ["other", "!else"]}}, pair(**SEVERAL), True),
        ({"head": {"method": "eagle3"}}, head_pair(), True),
        ({"head": {"method": "eagle3"}}, pair(), False),
        ({"head": {"reduced_vocab": True}}, head_pair(published=head(draft_vocab_size=1023)), True),
        ({"head": {"reduced_vocab": False}}, head_pair(published=head(draft_vocab_size=1024)), True),
        ({"head": {"reduced_vocab": True}}, head_pair(published=head(draft_vocab_size=9, vocab_size=None)), True),
        ({"head": {"reduced_vocab": False}}, head_pair(), False),
    ],
    ids=str,
)  # fmt: skip
def test_conditions(asked: dict[str, Any], judged: Pair, holds: bool) -> None:
    assert fits(conditions(asked), judged, None) is holds


@pytest.mark.parametrize(
    ("name", "judged", "value"),
    [
        ("relation", pair(), "identical"),
        ("rows", pair(), "equal"),
        ("rows", pair(theirs=draft(vocab_size=1025)), "differ"),
        ("rows", pair(theirs=draft(vocab_size=None)), None),
        ("rows", head_pair(), None),
        ("positions", pair(max_model_len=32769), "stretched"),
        ("positions", bare_pair("ngram", max_model_len=32768), "native"),
        ("positions", pair(), None),
        ("quantization", pair(), "equal"),
        ("quantization", pair(quantization="int8"), "differ"),
        ("quantization", pair(quantization="int8", draft_quantization="int8"), "equal"),
        ("quantization", pair(target(quantization="fp8"), draft(quantization="fp8")), "equal"),
        ("quantization", head_pair(quantization="int8"), None),
        ("hidden_size", pair(), "differ"),
        ("hidden_size", head_pair(), "equal"),
        ("hidden_size", head_pair(published=head(hidden_size=None)), None),
        ("hidden_size", bare_pair("ngram"), None),
        ("context", pair(max_model_len=32768), "enough"),
        ("context", pair(max_model_len=32769), "short"),
        ("context", head_pair(published=head(max_position_embeddings=512), max_model_len=513), "short"),
        ("context", head_pair(), None),
    ],
    ids=str,
)
def test_conditions_of_a_pair(name: str, judged: Pair, value: str | None) -> None:
    for wanted in ("identical", "equal", "differ", "stretched", "native", "enough", "short"):
        assert fits(conditions({"pair": {name: wanted}}), judged, judged.relation) is (wanted == value)


def test_what_no_pair_has_holds_of_none() -> None:
    relation = Relation(kind="identical", verified=True, reason="r")
    assert not fits(conditions({"pair": {"colour": "!red"}}), pair(), relation)
    assert not fits(conditions({"pair": {"relation": "!red"}}), pair(), None)


@pytest.mark.parametrize(
    ("version", "said"),
    [("99", "is newer than 1.0"), ("banana", "can't be read as one"), ("main", "by the facts of 1.0"), ("0.9", None)],
)
def test_a_version_that_nobody_read_is_told(version: str, said: str | None) -> None:
    note = table_of(toy(version)).note
    assert note is None if said is None else note is not None and said in note
