"""The parts of a gate by themselves: what a policy may hold, a first policy, ages, versions and baselines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from commands import run
from pydantic import ValidationError

from draftpick.advice_file import AdviceFile, advice_of
from draftpick.errors import InvalidFile, UsageError
from draftpick.gate_file import (
    BaselineFile,
    BaselineRow,
    CheckResult,
    GateFile,
    PairResult,
    PairRow,
    Policy,
    PolicyFile,
    PromptSums,
    Waiver,
)
from draftpick.gating.baseline import difference_of, taken_otherwise, updated
from draftpick.gating.command import _probe_options
from draftpick.gating.evidence import _age, _file_name, _major
from draftpick.gating.start import _name, _text, first_policy
from draftpick.intervals import t_quantile
from draftpick.probe_file import IntervalRecord
from draftpick.report.next_steps import what_next

PAIR = {"name": "a", "target": "t", "draft": "d"}


# ---------------------------------------------------------------------- what a policy may hold


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("fail_on", ["reject", "warn"], ["ok", None]),
        ("allow", [[], ["size-ratio", "x" * 300]], [[""], ["x" * 301], ["a\nb"], ["\x7f"], "x"]),
        ("min_score", [0, 100, 50.5], [-0.1, 100.1, "50", True]),
        ("min_coverage", [0, 1, 0.5], [-0.1, 1.1]),
        ("must_fit", [True, False], [1, "true"]),
        ("engine_verdict", ["accepted", "care"], ["refused", "unknown"]),
        ("min_acceptance_rate", [0, 1], [-0.1, 1.1, float("nan")]),
        ("min_mean_acceptance_length", [0, 100], [-0.1, 100.1]),
        ("min_speedup", [0, 100], [-0.1, 100.1]),
        ("max_k_drift", [0, 1 << 20], [-1, (1 << 20) + 1, 1.5]),
        ("tolerance", [0, 1], [-0.1, 1.1]),
        ("max_age_days", [1, 1 << 20], [0, (1 << 20) + 1]),
        ("min_prompts", [1, 1 << 20], [0, (1 << 20) + 1]),
    ],
)
def test_thresholds(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(Policy.model_validate({field: value}), field) == value
    for value in bad:
        with pytest.raises(ValidationError):
            Policy.model_validate({field: value})


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("name", ["x", "x" * 300, "ä"], ["", "x" * 301, "\x1f"]),
        ("target", ["x"], [""]),
        ("tensor_parallel_size", [1], [0]),
        ("max_model_len", [1], [0]),
        ("max_num_seqs", [1], [0]),
        ("num_spec_tokens", [1, 256], [0, 257]),
        ("temperature", [0, 10], [-0.1, 10.1]),
        ("probe", [True, False], [1]),
    ],
)
def test_pairs(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(PairRow.model_validate({**PAIR, field: value}), field) == value
    for value in bad:
        with pytest.raises(ValidationError):
            PairRow.model_validate({**PAIR, field: value})


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({"probe": True, "prompts": "p", "max_new_tokens": 2}, True),
        ({"probe": True, "max_new_tokens": 1 << 20}, True),
        ({"probe": True, "max_new_tokens": 1}, False),
        ({"probe": True, "max_new_tokens": (1 << 20) + 1}, False),
        ({"prompts": "p"}, False),
        ({"max_new_tokens": 2}, False),
    ],
)
def test_what_only_a_probe_needs(fields: dict[str, Any], good: bool) -> None:
    if good:
        assert PairRow.model_validate({**PAIR, **fields}).probe
    else:
        with pytest.raises(ValidationError):
            PairRow.model_validate({**PAIR, **fields})


def test_what_holds_where_nothing_is_said() -> None:
    assert Policy() == Policy(fail_on="reject", allow=[], must_fit=False, min_score=None, tolerance=None)
    found = PolicyFile.model_validate({"pair": [PAIR]})
    assert (found.schema_version, found.baseline, found.pair[0].probe, found.pair[0].waivers) == ("1", None, False, [])


@pytest.mark.parametrize(("pairs", "good"), [(0, False), (1, True), (1000, True), (1001, False)])
def test_how_many_pairs(pairs: int, good: bool) -> None:
    content = {"pair": [{**PAIR, "name": str(place)} for place in range(pairs)]}
    if good:
        assert len(PolicyFile.model_validate(content).pair) == pairs
    else:
        with pytest.raises(ValidationError):
            PolicyFile.model_validate(content)


@pytest.mark.parametrize(("reason", "good"), [("x", True), ("x" * 1000, True), ("", False), ("x" * 1001, False)])
def test_a_waiver_has_a_reason(reason: str, good: bool) -> None:
    content = {"check": "speedup", "reason": reason, "expires": "2030-01-31"}
    if good:
        assert Waiver.model_validate(content).expires == date(2030, 1, 31)
    else:
        with pytest.raises(ValidationError):
            Waiver.model_validate(content)


def test_a_pairs_own_thresholds_go_before_the_defaults() -> None:
    own = {"min_score": 5.0, "must_fit": False}
    found = PolicyFile.model_validate(
        {"defaults": {"min_score": 1.0, "must_fit": True, "tolerance": 0.5}, "pair": [{**PAIR, "policy": own}]}
    )
    policy = found.policy(found.pair[0])
    assert (policy.min_score, policy.must_fit, policy.tolerance) == (5.0, False, 0.5)
    assert found.place_of("x.json", Path("a/pairs.toml")) == Path("a/x.json")


@pytest.mark.parametrize(
    ("accepted", "positions", "good"),
    [
        (0, 0, True),
        (1.02, 1, True),
        (1.021, 1, False),
        (-1, 1, False),
        (1, -1, False),
        (1, 9.8e14, True),
        (1, 980392156862745.1, True),
        (1, 1e15, False),
    ],
)
def test_what_can_be_accepted(accepted: float, positions: float, good: bool) -> None:
    content = {"domain": "", "accepted": accepted, "positions": positions}
    if good:
        assert PromptSums.model_validate(content).accepted == accepted
    else:
        with pytest.raises(ValidationError):
            PromptSums.model_validate(content)


# ---------------------------------------------------------------------- results


def check(status: str, passed: bool | None = None) -> dict[str, Any]:
    harmless = status in ("passed", "noted", "waived")
    return {"name": "speedup", "status": status, "passed": harmless if passed is None else passed, "reason": "r"}


def pair_result(*statuses: str, judged: bool = True, passed: bool | None = None) -> dict[str, Any]:
    checks = [check(status) for status in statuses]
    fine = all(one["passed"] for one in checks) if passed is None else passed
    return {**PAIR, "passed": fine, "judged": judged, "checks": checks}


def gate_result(*pairs: dict[str, Any], passed: bool | None = None) -> dict[str, Any]:
    fine = all(one["passed"] for one in pairs) if passed is None else passed
    head = {"schema_version": "1", "kind": "gate", "tool": {}, "policy": "p", "date": "2026-11-30"}
    return {**head, "passed": fine, "pairs": [*pairs]}


@pytest.mark.parametrize("status", ["passed", "noted", "waived", "failed", "missing", "stale", "doubtful"])
def test_what_lets_a_pair_pass(status: str) -> None:
    harmless = status in ("passed", "noted", "waived")
    assert CheckResult.model_validate(check(status)).passed is harmless
    with pytest.raises(ValidationError):
        CheckResult.model_validate(check(status, not harmless))
    assert PairResult.model_validate(pair_result("passed", status)).passed is harmless
    with pytest.raises(ValidationError):
        PairResult.model_validate(pair_result("passed", status, passed=not harmless))


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([pair_result("passed")], 0),
        ([pair_result("passed"), pair_result("failed")], 1),
        ([pair_result("missing", judged=False)], 3),
        ([pair_result("missing", judged=False), pair_result("passed")], 1),
        ([], 0),
    ],
)
def test_exit_codes(pairs: list[dict[str, Any]], code: int) -> None:
    assert GateFile.model_validate(gate_result(*pairs)).exit_code == code
    with pytest.raises(ValidationError):
        GateFile.model_validate(gate_result(*pairs, passed=code != 0))


# ---------------------------------------------------------------------- ages, versions, names

TODAY = date(2026, 11, 30)


@pytest.mark.parametrize(
    ("created", "age"),
    [
        ("2026-11-30T12:00:00+00:00", 0),
        ("2026-11-30T12:00:00", 0),
        ("2026-11-29", 1),
        ("2026-10-30T00:00:00Z", 31),
        ("2026-12-01T00:00:00+00:00", 0),
        ("2026-12-02T00:00:00+00:00", None),
        ("2026-11-30T23:00:00-05:00", 0),
        ("2026-11-30T01:00:00+05:00", 1),
        ("yesterday", None),
        ("", None),
    ],
)
def test_the_age_of_a_probe(created: str, age: int | None) -> None:
    if created.endswith("Z"):
        created = created.replace("Z", "+00:00")  # Python 3.10 reads no Z
    assert _age(created, TODAY) == age


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.3.1", "0.3.2", True), ("0.3.1", "0.4.1", False), ("1.2.0", "1.3.0", True), ("1.2.0", "2.2.0", False),
        ("0.3", "0.3.0.dev1", True), ("", "0.3", False),
    ],
)  # fmt: skip
def test_versions_that_measure_alike(one: str, other: str, same: bool) -> None:
    assert (_major(one) == _major(other)) is same


@pytest.mark.parametrize(
    ("name", "file"), [("a b/c", "a-b-c"), ("a-b_c.d9", "a-b_c.d9"), ("ä", "ä"), ("x" * 200, "x" * 100)]
)
def test_the_file_of_a_probe_that_is_made_now(name: str, file: str) -> None:
    assert _file_name(name) == file


@pytest.mark.parametrize(
    ("pair", "policy", "changes"),
    [
        ({}, {}, {}),
        ({}, {"min_speedup": 0.0}, {"costs": "measured"}),
        ({}, {"max_k_drift": 0}, {"costs": "measured"}),
        ({"num_spec_tokens": 8}, {}, {}),
        ({"num_spec_tokens": 9}, {}, {"num_speculative_tokens": 9}),
        ({"temperature": 0.5, "engine": "vllm"}, {}, {"temperature": [0.5], "engine": "vllm"}),
        (
            {"prompts": "p.jsonl", "max_new_tokens": 9, "tensor_parallel_size": 2},
            {},
            {"prompts": Path("here/p.jsonl"), "max_new_tokens": 9, "tensor_parallel_size": 2},
        ),
    ],
)
def test_how_a_pair_is_measured_now(pair: dict[str, Any], policy: dict[str, Any], changes: dict[str, Any]) -> None:
    row = PairRow.model_validate({**PAIR, "probe": True, **pair})
    found = _probe_options(row, Policy.model_validate(policy), Path("here/pairs.toml"))
    plain = {"costs": "roofline", "num_speculative_tokens": 8, "precision": 0.0}
    assert {name: value for name, value in found.items() if value is not None} == {**plain, **changes}


# ---------------------------------------------------------------------- baselines


def sums(*accepted: float, prefix: str = "p", positions: float = 10) -> dict[str, PromptSums]:
    return {
        f"{prefix}{place}": PromptSums(domain="", accepted=value, positions=positions)
        for place, value in enumerate(accepted)
    }


def row(by_prompt: dict[str, PromptSums] | None = None, **changes: Any) -> BaselineRow:
    fields: dict[str, Any] = {
        "target": "t", "draft": "d", "created": "", "temperature": 0.5, "way": "sampled", "engine": "vllm",
        "max_new_tokens": 8, "prompts": "p.jsonl", "num_prompts": 20,
        "acceptance_rate": IntervalRecord(value=0.5, low=0.4, high=0.7, level=0.98),
    }  # fmt: skip
    return BaselineRow(**{**fields, "by_prompt": by_prompt or {}, **changes})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"temperature": 1.0}, "temperature 0.5 then, 1 now"),
        ({"way": "first_choice"}, "drafting sampled then, first_choice now"),
        ({"engine": "mlx"}, "drafting as vllm then, mlx now"),
        ({"max_new_tokens": None}, "longest answers 8 then, ? now"),
        ({"prompts": "q", "engine": "mlx"}, "drafting as vllm then, mlx now; prompts p.jsonl then, q now"),
        ({"created": "later", "num_prompts": 9}, ""),
    ],
)
def test_what_was_taken_otherwise(change: dict[str, Any], said: str) -> None:
    assert taken_otherwise(row(), row(**change)) == said


@pytest.mark.parametrize(
    ("new", "old", "value", "half", "how"),
    [
        pytest.param(row(), row(), 0.0, None, "20 prompts against 20, unpaired", id="sums are gone"),
        pytest.param(row(sums(1, 2)), row(), 0.0, None, "20 prompts against 20, unpaired", id="sums of old are gone"),
        pytest.param(
            row(sums(*[5] * 8)), row(sums(*[6] * 8)), -0.1, 0.0, "paired over 8 prompts", id="eight common prompts"
        ),
        pytest.param(
            row(sums(*[4, 8] * 4)),
            row(sums(*[6, 8] * 4)),
            -0.1,
            t_quantile(0.99, 7) * (8 / 7 * 8 * (1 / 80) ** 2) ** 0.5,
            "paired over 8 prompts",
            id="paired by hand",
        ),
        pytest.param(
            row(sums(*[5] * 7)), row(sums(*[6] * 7)), -0.1, 0.0, "7 prompts against 7", id="seven are too few"
        ),
        pytest.param(
            row(sums(*[5] * 8, prefix="q")),
            row(sums(*[6] * 9)),
            -0.1,
            0.0,
            "8 prompts against 9 others",
            id="none common",
        ),
        pytest.param(
            row({**sums(5, 5), **sums(0, prefix="empty", positions=0)}),
            row(sums(6, 6)),
            -0.1,
            0.0,
            "2 prompts against 2",
            id="a prompt without positions does not count",
        ),
    ],
)
def test_differences(new: BaselineRow, old: BaselineRow, value: float, half: float | None, how: str) -> None:
    found, said = difference_of(new, old)
    assert said == how
    assert found.value == pytest.approx(value)
    assert found.level == 0.98
    if half is not None:
        assert (found.low, found.high) == pytest.approx((value - half, value + half))
    else:
        # 0.1 below and 0.2 above on either side.
        assert (found.low, found.high) == pytest.approx((-(0.05**0.5), 0.05**0.5))


def test_one_prompt_bounds_a_rate_by_what_it_can_be() -> None:
    found, _ = difference_of(row(sums(5)), row(sums(6)))
    assert (found.low, found.high) == pytest.approx((-0.1 - (0.25 + 0.16) ** 0.5, -0.1 + (0.25 + 0.36) ** 0.5))


def test_rows_of_pairs_that_pass_are_taken() -> None:
    before = BaselineFile(
        schema_version="1", kind="baseline", pairs={"kept": row(), "fails": row(), "gone": row(), "new": row()}
    )
    results = [
        {**pair_result("passed"), "name": "new"},
        {**pair_result("failed"), "name": "fails"},
        {**pair_result("passed"), "name": "kept"},
    ]
    result = GateFile.model_validate(gate_result(*results))
    fresh = {"new": row(created="now"), "fails": row(created="now")}
    after = updated(before, result, fresh, ["new", "fails", "kept"])
    assert {name: one.created for name, one in after.pairs.items()} == {"kept": "", "fails": "", "new": "now"}


# ---------------------------------------------------------------------- a first policy


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An answer for a draft model, as JSON."""
    place = ("--engine", "vllm", "--device", "h100-80g", "-tp", "4", "--max-num-seqs", "8")
    names = ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")
    return run("check", *names, *place, "--max-model-len", "4096", "--json").document


def changed(advice: dict[str, Any], change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> AdviceFile:
    document = copy.deepcopy(advice)
    change(document, document["candidates"][0])
    return advice_of(document)


FIRST = """\
# What `draftpick gate` holds these pairs to. Paths are seen from this file.
# Thresholds compare with the bound of an interval: a minimum with its lower end.
schema_version = "1"

# Acceptance must not fall below what it was: `draftpick gate --update-baseline` writes this file.
baseline = "baseline.json"

# Of every pair that does not say otherwise under [pair.policy].
[defaults]
# "reject": only findings that rule a pair out fail it; "warn": cautions fail it too.
fail_on = "reject"
# Rules whose findings never fail a pair: allow = ["size-ratio"]
# A measurement older than this fails as stale.
max_age_days = 90
# One of fewer prompts fails as doubtful.
min_prompts = 16
# A loss of acceptance rate that is let pass, though the intervals show it.
tolerance = 0.01

[[pair]]
name = "Qwen3-0.6B for Qwen3-32B"
target = "Qwen/Qwen3-32B"
draft = "Qwen/Qwen3-0.6B"
# Where it is deployed: engine and device are judged, even where nothing is measured there.
engine = "vllm@1.2"
device = "h100-80g"
tensor_parallel_size = 4
max_model_len = 4096
max_num_seqs = 8
# The k that is deployed.
num_spec_tokens = 3
# What `draftpick probe TARGET DRAFT -o probe.json` wrote; or `probe = true` to measure at each run.
# Without evidence, baseline and the thresholds of a measurement, a pair passes by facts alone.
evidence = "probe.json"

[pair.policy]
# 0 to 100: how well the facts fit.
min_score = 83.0
must_fit = true
# accepted, or care, which takes both.
engine_verdict = "accepted"
# 0.61 was predicted, 0.57 at the lower end of its interval.
min_acceptance_rate = 0.52
# Others: min_coverage, min_mean_acceptance_length, min_speedup, max_k_drift.

# A check that may fail for a while:
# [[pair.waivers]]
# check = "acceptance_rate"
# reason = "why it may fail until then"
# expires = 2027-01-31
"""


def _fixed(document: dict[str, Any], candidate: dict[str, Any]) -> None:
    document["engine"]["version"] = "1.2"
    candidate["score"] = 88.9
    candidate["acceptance"].update(rate=0.61, low=0.57, high=0.7)
    candidate["plan"]["num_spec_tokens"] = 3


def test_a_first_policy_line_by_line(advice: dict[str, Any]) -> None:
    assert first_policy(changed(advice, _fixed)) == FIRST


def test_the_first_policy_of_a_head_line_by_line(tmp_path: Path) -> None:
    place = ("--engine", "sglang-ascend", "--device", "910b3", "-tp", "4")
    document = run("recommend", "Qwen/Qwen3-32B", *place, "--json").document
    chosen = document["decision"]["draft"]
    (candidate,) = [one for one in document["candidates"] if one["draft"] == chosen]
    candidate["plan"]["num_spec_tokens"] = 0
    candidate["plan"]["speedup_of"] = 5
    lines = first_policy(advice_of(document)).splitlines()
    assert 'baseline = "baseline.json"' not in lines
    assert not any("evidence =" in line or "max_age_days" in line or "min_acceptance_rate" in line for line in lines)
    for line in (
        f'draft = "{chosen}"',
        "num_spec_tokens = 5",
        "# A head runs in its engine alone, where no probe measures it: the pair is judged by facts.",
        "# Others: min_coverage.",
        '# check = "memory"',
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("change", "there", "gone"),
    [
        pytest.param(
            lambda document, one: document["target"].update(revision="r1"),
            ['revision = "r1"'],
            ["draft_revision"],
            id="revision",
        ),
        pytest.param(
            lambda document, one: one["model"].update(revision="r2"),
            ['draft_revision = "r2"'],
            ["\nrevision"],
            id="the draft's",
        ),
        pytest.param(lambda document, one: document.update(engine=None), [], ["engine"], id="no engine"),
        pytest.param(lambda document, one: document.update(device=None), [], ["device ="], id="no device"),
        pytest.param(
            lambda document, one: document["device"].update(assumed=True), [], ["device ="], id="assumed device"
        ),
        pytest.param(
            lambda document, one: document["setting"].update(tensor_parallel_size=1),
            [],
            ["tensor_parallel_size"],
            id="one device",
        ),
        pytest.param(
            lambda document, one: document["setting"].update(tensor_parallel_size=2),
            ["tensor_parallel_size = 2"],
            [],
            id="two",
        ),
        pytest.param(
            lambda document, one: document.update(setting=None), [], ["tensor_parallel_size"], id="no setting"
        ),
        pytest.param(
            lambda document, one: document.update(workload=None),
            [],
            ["max_model_len", "max_num_seqs"],
            id="no workload",
        ),
        pytest.param(lambda document, one: one.update(score=None), [], ["min_score"], id="no score"),
        pytest.param(lambda document, one: one.update(score=4.9), ["min_score = 0.0"], [], id="a low score"),
        pytest.param(lambda document, one: one.update(memory=None), [], ["must_fit"], id="memory is not known"),
        pytest.param(lambda document, one: one["memory"].update(fits=False), [], ["must_fit"], id="it does not fit"),
        pytest.param(lambda document, one: one.update(acceptance=None), [], ["min_acceptance_rate"], id="no rate"),
        pytest.param(
            lambda document, one: one["acceptance"].update(low=0.01),
            ["min_acceptance_rate = 0.00"],
            [],
            id="a low rate",
        ),
        pytest.param(
            lambda document, one: one["acceptance"].update(measured=True),
            ["was measured, "],
            ["was predicted"],
            id="measured",
        ),
    ],
)
def test_what_a_first_policy_holds(
    advice: dict[str, Any], change: Callable[[dict[str, Any], dict[str, Any]], Any], there: list[str], gone: list[str]
) -> None:
    text = first_policy(changed(advice, change))
    pair = text[text.index("[[pair]]") :]
    assert all(line in pair for line in there)
    assert not any(line in pair for line in gone)


def test_a_name_is_written_as_toml_reads_it(advice: dict[str, Any]) -> None:
    from draftpick.toml_file import tomllib

    name = 'maker/"a\\b\u2028ä'
    text = first_policy(changed(advice, lambda document, one: document["target"].update(id=name)))
    assert tomllib.loads(text)["pair"][0]["target"] == name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda document, one: document.update(target=None), id="typed-in numbers"),
        pytest.param(lambda document, one: one.update(viable=False), id="no viable draft"),
        pytest.param(lambda document, one: one.update(draft=None), id="no draft by name"),
    ],
)
def test_an_answer_without_a_pair_gives_no_policy(
    advice: dict[str, Any], change: Callable[[dict[str, Any], dict[str, Any]], Any]
) -> None:
    with pytest.raises(UsageError) as caught:
        first_policy(changed(advice, change))
    assert caught.value.hint


Change = Callable[[dict[str, Any], dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        (
            lambda document, one: document.update(target=None),
            "the answer has no target: it is a plan of typed-in numbers",
            "name one of `recommend --json`",
        ),
        (
            lambda document, one: one.update(viable=False),
            "the answer has no viable draft model to gate",
            "name another answer of `recommend --json`",
        ),
        (
            lambda document, one: one.update(draft="a\nb"),
            "no policy can hold this pair: pair.0.name: String should match pattern '^[^\\x00-\\x1f\\x7f]+$'",
            "rename its folder, or write the policy yourself",
        ),
        (
            lambda document, one: document["target"].update(revision="\udcff"),
            "the name '\\udcff' is no UTF-8, as a TOML file must be",
            "rename the folder",
        ),
    ],
)
def test_why_there_is_no_first_policy(advice: dict[str, Any], change: Change, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        first_policy(changed(advice, change))
    assert (str(caught.value), caught.value.hint) == (said, hint)


@pytest.mark.parametrize(("letter", "good"), [(0xD7FF, True), (0xD800, False), (0xDFFF, False), (0xE000, True)])
def test_letters_that_a_file_can_hold(letter: int, good: bool) -> None:
    if good:
        assert _text(f"x{chr(letter)}\x7f") == f'"x{chr(letter)}\\u007f"'
    else:
        with pytest.raises(UsageError):
            _text(f"x{chr(letter)}")


@pytest.mark.parametrize(
    ("draft", "target", "name"),
    [
        ("a/b/draft", "c/target", "draft for target"),
        ("draft", "target/", "draft for "),
        ("a/" + "d" * 140, "t", "d" * 140 + " for t"),
        ("a/" + "d" * 141, "t", "d" * 139 + "… for t"),
        ("d", "t" * 141, "d for " + "t" * 139 + "…"),
    ],
)
def test_the_name_of_a_pair(draft: str, target: str, name: str) -> None:
    assert _name(draft, target) == name


def _second(document: dict[str, Any], one: dict[str, Any]) -> None:
    document["candidates"].append({**one, "rank": 2, "draft": "other/second"})


@pytest.mark.parametrize(
    ("decided", "first", "draft"),
    [
        ("other/second", "other/first", "other/second"),
        ("other/first", "other/first", "other/first"),
        ("nobody", "other/first", "other/first"),
        (None, "other/first", "other/first"),
        (None, None, "other/second"),
        ("nobody", None, "other/second"),
    ],
)
def test_the_draft_that_was_decided_for(
    advice: dict[str, Any], decided: str | None, first: str | None, draft: str
) -> None:
    def change(document: dict[str, Any], one: dict[str, Any]) -> None:
        _second(document, one)
        one["draft"] = first
        document["decision"]["draft"] = decided

    assert f'draft = "{draft}"' in first_policy(changed(advice, change)).splitlines()


@pytest.mark.parametrize("method", ["mtp", "ngram", "suffix"])
def test_what_needs_no_draft_is_held_by_no_policy(advice: dict[str, Any], method: str) -> None:
    """A policy for another draft than the one decided for would pass for the wrong reason."""

    def change(document: dict[str, Any], one: dict[str, Any]) -> None:
        document["decision"] |= {"draft": None, "method": method}

    with pytest.raises(UsageError, match=f"{method} without a draft of its own"):
        first_policy(changed(advice, change))


def _lines(advice: dict[str, Any], change: Change) -> list[str]:
    return first_policy(changed(advice, change)).splitlines()


@pytest.mark.parametrize(
    ("k", "best", "action", "line", "deployed"),
    [
        (3, 5, "speculate", "num_spec_tokens = 3", True),
        (3, 5, "undecided", "num_spec_tokens = 3", False),
        (0, 5, "speculate", "num_spec_tokens = 5", False),
        (None, 5, "speculate", "num_spec_tokens = 5", False),
        (1, None, "speculate", "num_spec_tokens = 1", True),
        (0, None, "do_not_speculate", None, False),
        (None, 0, "speculate", None, False),
    ],
)
def test_the_k_of_a_first_policy(
    advice: dict[str, Any], k: int | None, best: int | None, action: str, line: str | None, deployed: bool
) -> None:
    def change(document: dict[str, Any], one: dict[str, Any]) -> None:
        one["plan"].update(num_spec_tokens=k, speedup_of=best)
        document["decision"]["action"] = action

    lines = _lines(advice, change)
    assert [one for one in lines if one.startswith("num_spec_tokens")] == ([line] if line is not None else [])
    assert ("# The k that is deployed." in lines) is deployed
    otherwise = (
        "# The answer was not to speculate: put the k here that is deployed all the same, or leave the pair out."
    )
    assert (otherwise in lines) is (line is not None and not deployed)


@pytest.mark.parametrize(
    ("verdict", "asked"), [("accepted", True), ("care", True), ("refused", False), ("unknown", False), (None, False)]
)
def test_the_verdict_of_a_first_policy(advice: dict[str, Any], verdict: str | None, asked: bool) -> None:
    def change(document: dict[str, Any], one: dict[str, Any]) -> None:
        engines = {"vllm": {"verdict": verdict, "version": "1", "reasons": []}} if verdict is not None else {}
        one.update(engine="vllm", engines=engines)

    lines = _lines(advice, change)
    assert [one for one in lines if one.startswith("engine_verdict")] == (
        [f'engine_verdict = "{verdict}"'] if asked else []
    )
    assert ("# accepted, or care, which takes both." in lines) is asked


@pytest.mark.parametrize(
    ("score", "least"), [(4.9, "0.0"), (5.0, "0.0"), (6.0, "1.0"), (6.9, "1.0"), (100.0, "95.0"), (0.0, "0.0")]
)
def test_the_least_score_of_a_first_policy(advice: dict[str, Any], score: float, least: str) -> None:
    lines = _lines(advice, lambda document, one: one.update(score=score))
    assert lines[lines.index("# 0 to 100: how well the facts fit.") + 1] == f"min_score = {least}"


@pytest.mark.parametrize("name", ["max_model_len", "max_num_seqs"])
@pytest.mark.parametrize("value", [7, None])
def test_a_workload_of_a_first_policy(advice: dict[str, Any], name: str, value: int | None) -> None:
    lines = _lines(advice, lambda document, one: document["workload"].update({name: value}))
    assert [one for one in lines if one.startswith(name)] == ([f"{name} = 7"] if value is not None else [])


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("speculate", []),
        ("do_not_speculate", ["the answer was not to speculate: gate the pair only if it is deployed all the same"]),
        ("undecided", ["the answer was not to speculate: gate the pair only if it is deployed all the same"]),
    ],
)
def test_what_to_do_with_a_first_policy(advice: dict[str, Any], action: str, more: list[str]) -> None:
    found = changed(advice, lambda document, one: document["decision"].update(action=action))
    assert what_next(found, Path("my ci/pairs.toml")) == [
        "wrote a policy for Qwen/Qwen3-0.6B with Qwen/Qwen3-32B: read its comments, and set its thresholds",
        *more,
        "next: draftpick probe Qwen/Qwen3-32B Qwen/Qwen3-0.6B --engine vllm --tensor-parallel-size 4 "
        "--precision 0 --output 'my ci/probe.json'; "
        "then draftpick gate 'my ci/pairs.toml' --update-baseline",
    ]


def test_a_first_policy_is_no_larger_than_the_gate_reads(advice: dict[str, Any]) -> None:
    with pytest.raises(InvalidFile, match=r"^pairs\.toml: larger than 1,000,000 bytes$"):
        first_policy(changed(advice, lambda document, one: document["target"].update(id="x" * 1_000_000)))


HEAD_POLICY = """\
# What `draftpick gate` holds these pairs to. Paths are seen from this file.
# Thresholds compare with the bound of an interval: a minimum with its lower end.
schema_version = "1"

# Of every pair that does not say otherwise under [pair.policy].
[defaults]
# "reject": only findings that rule a pair out fail it; "warn": cautions fail it too.
fail_on = "reject"
# Rules whose findings never fail a pair: allow = ["size-ratio"]

[[pair]]
name = "Qwen3-0.6B for Qwen3-32B"
target = "Qwen/Qwen3-32B"
draft = "Qwen/Qwen3-0.6B"
num_spec_tokens = 3
# A head runs in its engine alone, where no probe measures it: the pair is judged by facts.

[pair.policy]
# 0 to 100: how well the facts fit.
min_score = 83.0
# Others: min_coverage.

# A check that may fail for a while:
# [[pair.waivers]]
# check = "memory"
# reason = "why it may fail until then"
# expires = 2027-01-31
"""


def test_a_head_is_gated_by_facts(advice: dict[str, Any]) -> None:
    def change(document: dict[str, Any], one: dict[str, Any]) -> None:
        _fixed(document, one)
        document.update(engine=None, device=None, setting=None, workload=None)
        head = {"id": one["draft"], "method": "eagle3", "target": "t"}
        one.update(memory=None, model=None, head=head)

    found = changed(advice, change)
    text = first_policy(found)
    assert "\n".join(line for line in text.splitlines() if line != "# The k that is deployed.") + "\n" == HEAD_POLICY
    assert what_next(found, Path("pairs.toml"))[-1] == (
        "next: draftpick gate pairs.toml (a head is judged by facts alone: no probe measures it)"
    )
