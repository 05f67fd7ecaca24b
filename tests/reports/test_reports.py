"""The frozen table of public reports: what draftpick says to each kind of trouble that people reported."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from draftpick.cli import main
from draftpick.rules import load as load_rules

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

CAPABILITIES = {"facts", "memory", "plan", "predict"}
"""What draftpick can do by now; cases that need more are skipped."""

EVERY_CAPABILITY = {"facts", "memory", "plan", "predict", "probe", "launch", "gate", "served", "troubles"}
REPORTS = 136
EXPRESSIBLE = 100
PASSING = 0.95

HERE = Path(__file__).parent
DEMO = HERE.parents[1] / "catalog" / "demo"
TABLE: list[dict[str, Any]] = tomllib.loads((HERE / "reports.toml").read_text(encoding="utf-8"))["report"]
CASE_KEYS = {"command", "since", "fixture", "fixture_args", "prepare", "variants", "tolerance"}
CASE_KEYS |= {"of", "of_method", "plain", "xfail", "expect"}


def _load_fixtures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report_fixtures", HERE / "fixtures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIXTURES = _load_fixtures()


# ---------------------------------------------------------------------- running


@dataclass(frozen=True)
class Answer:
    exit_code: int
    text: str
    document: Mapping[str, Any]


def run(arguments: tuple[str, ...], *, plain: bool = False) -> Answer:
    """What the command line answers, through its entry point: that is where errors become exit codes."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["draftpick", *arguments, *([] if plain else ["--json"])]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        pytest.raises(SystemExit) as left,
    ):
        main()
    try:
        document = json.loads(stdout.getvalue())
    except ValueError:
        document = {}
    code = left.value.code
    return Answer(
        code if isinstance(code, int) else 0,
        stdout.getvalue() + stderr.getvalue(),
        document if isinstance(document, dict) else {},
    )


remembered = lru_cache(maxsize=None)(run)


def answers(case: Mapping[str, Any], folder: Path) -> list[Answer]:
    """One answer for each variant of the command, or the one answer."""
    name = case.get("fixture")
    if name is not None:
        build = getattr(FIXTURES, name, None)
        assert build is not None, f"fixtures.py has no builder {name!r} yet"
        build(folder, *case.get("fixture_args", []))
    for command in case.get("prepare", []):
        assert run(_filled(command, folder), plain=True).exit_code in (0, 1)
    ask = run if name is not None or "prepare" in case else remembered
    variants = case.get("variants", [[]])
    return [ask(_filled([*case["command"], *more], folder), plain=case.get("plain", False)) for more in variants]


def _filled(arguments: list[str], folder: Path) -> tuple[str, ...]:
    return tuple(_place(argument, folder) for argument in arguments)


def _place(text: str, folder: Path) -> str:
    return text.replace("{dir}", str(folder)).replace("{demo}", str(DEMO))


# ---------------------------------------------------------------------- reading an answer


class Reading:
    """An answer, seen from the candidate that a case is about."""

    def __init__(self, answer: Answer, case: Mapping[str, Any], folder: Path) -> None:
        self.answer = answer
        self.case = case
        self.folder = folder

    @property
    def candidates(self) -> list[dict[str, Any]]:
        found = self.answer.document.get("candidates", [])
        assert found, f"no candidates: exit code {self.answer.exit_code}, {self.answer.text[:400]}"
        return list(found)

    @property
    def candidate(self) -> dict[str, Any]:
        if "of" in self.case:
            return self.of(self.case["of"])
        if "of_method" in self.case:
            wanted = self.case["of_method"]
            found = [one for one in self.candidates if one["method"] == wanted]
            assert found, f"no candidate with method {wanted}"
            return found[0]
        return self.candidates[0]

    def of(self, draft: str) -> dict[str, Any]:
        found = [one for one in self.candidates if one["draft"] == self.place(draft)]
        assert found, f"{draft} is not among the candidates"
        return found[0]

    def place(self, text: str) -> str:
        return _place(text, self.folder)

    def finding(self, rule: str) -> dict[str, Any]:
        found = [one for one in self.candidate["findings"] if one["rule"] == rule]
        assert found, f"no finding of {rule}"
        return dict(found[0])

    def outcome(self, rule: str) -> str | None:
        """None where the rule does not apply to this candidate."""
        return next((one["outcome"] for one in self.candidate["findings"] if one["rule"] == rule), None)

    def viable(self) -> list[str]:
        return [one["draft"] for one in self.candidates if one["viable"]]

    def rank(self, draft: str) -> int:
        return self.candidates.index(self.of(draft))

    def methods(self) -> list[str]:
        return [one["method"] for one in self.candidates]

    def value(self, path: str) -> Any:
        head, _, rest = path.partition(".")
        value: Any = self.candidate if head == "candidate" else self.answer.document
        for step in (rest if head == "candidate" else path).split("."):
            try:
                value = value[int(step)] if isinstance(value, list) else value[step]
            except (KeyError, IndexError, TypeError) as error:
                raise AssertionError(f"{path}: nothing at {step!r}") from error
        return value


def _allowed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# ---------------------------------------------------------------------- what a case can expect of each answer


def expect_exit(reading: Reading, wanted: Any) -> None:
    assert reading.answer.exit_code in _allowed(wanted), reading.answer.text[-600:]


def expect_viable(reading: Reading, wanted: bool) -> None:
    one = reading.candidate
    assert one["viable"] is wanted, one.get("reason")


def expect_engine(reading: Reading, wanted: Mapping[str, Any]) -> None:
    for key, verdicts in wanted.items():
        said = reading.candidate["engines"][key]
        assert said["verdict"] in _allowed(verdicts), f"{key}: {said}"


def expect_engine_reason(reading: Reading, wanted: Mapping[str, str]) -> None:
    for key, pattern in wanted.items():
        reasons = reading.candidate["engines"][key]["reasons"]
        assert re.search(pattern, "\n".join(reasons)), f"{key}: {reasons}"


def expect_finding(reading: Reading, wanted: Mapping[str, Any]) -> None:
    for rule, outcomes in wanted.items():
        said = reading.finding(rule)
        assert said["outcome"] in _allowed(outcomes), f"{rule}: {said}"


def expect_finding_text(reading: Reading, wanted: Mapping[str, str]) -> None:
    for rule, pattern in wanted.items():
        message = reading.finding(rule)["message"]
        assert re.search(pattern, message), f"{rule}: {message}"


def expect_evidence(reading: Reading, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    for rule, values in wanted.items():
        evidence = reading.finding(rule)["evidence"]
        assert {key: evidence.get(key) for key in values} == values


def expect_warned_by(reading: Reading, wanted: list[list[str]]) -> None:
    for group in wanted:
        said = {rule: reading.outcome(rule) for rule in group}
        assert {"warn", "reject"} & set(said.values()), said


def expect_rejected_by(reading: Reading, wanted: list[list[str]]) -> None:
    for group in wanted:
        said = {rule: reading.outcome(rule) for rule in group}
        assert "reject" in said.values(), said


def expect_listed(reading: Reading, wanted: list[str]) -> None:
    assert {reading.place(draft) for draft in wanted} - set(reading.viable()) == set()


def expect_not_listed(reading: Reading, wanted: list[str]) -> None:
    assert {reading.place(draft) for draft in wanted} & set(reading.viable()) == set()


def expect_none_viable(reading: Reading, wanted: bool) -> None:
    drafting = [one for one in reading.candidates if one["method"] not in ("ngram", "suffix")]
    assert [one["draft"] or one["method"] for one in drafting if one["viable"]] == []


def expect_first(reading: Reading, wanted: str) -> None:
    assert reading.candidates[0]["draft"] == reading.place(wanted)


def expect_first_draft_model(reading: Reading, wanted: str) -> None:
    models = [one["draft"] for one in reading.candidates if one["method"] == "draft_model"]
    assert models[0] == reading.place(wanted)


def expect_before(reading: Reading, wanted: list[list[str]]) -> None:
    for earlier, later in wanted:
        assert reading.rank(earlier) < reading.rank(later), f"{later} stands before {earlier}"


def expect_before_method(reading: Reading, wanted: list[list[str]]) -> None:
    methods = reading.methods()
    for earlier, later in wanted:
        assert methods.index(earlier) < methods.index(later), methods


def expect_method_offered(reading: Reading, wanted: list[str]) -> None:
    assert set(wanted) - set(reading.methods()) == set()


def expect_first_method(reading: Reading, wanted: str) -> None:
    assert reading.methods()[0] == wanted


def expect_not_first_method(reading: Reading, wanted: str) -> None:
    assert reading.methods()[0] != wanted


def expect_json(reading: Reading, wanted: Mapping[str, Any]) -> None:
    for path, values in wanted.items():
        value = reading.value(path)
        assert value in _allowed(values), f"{path}: {value!r}"


def expect_range(reading: Reading, wanted: Mapping[str, list[float]]) -> None:
    for path, (low, high) in wanted.items():
        value = reading.value(path)
        assert value is not None, path
        assert low <= value <= high, f"{path}: {value}"


def expect_has(reading: Reading, wanted: list[str]) -> None:
    for path in wanted:
        assert reading.value(path) is not None, path


def expect_same(reading: Reading, wanted: list[str]) -> None:
    values = [reading.value(path) for path in wanted]
    assert None not in values
    assert len(set(values)) == 1, values


def expect_at_least(reading: Reading, wanted: list[list[str]]) -> None:
    for larger, smaller in wanted:
        assert reading.value(larger) >= reading.value(smaller) > 0


def expect_schedule(reading: Reading, wanted: str) -> None:
    tokens = [step[-1] for step in reading.value("candidate.plan.schedule")]
    assert len(tokens) >= 2, tokens
    assert wanted == "not_rising"
    assert tokens == sorted(tokens, reverse=True)


def expect_multiples(reading: Reading, wanted: Mapping[str, Any]) -> None:
    found = re.search(wanted["in"], reading.answer.text)
    assert found, reading.answer.text[:600]
    sizes = [int(size) for size in found[1].split(",")]
    assert [size for size in sizes if size % wanted["of"]] == []


def expect_text_present(reading: Reading, pattern: str) -> None:
    assert re.search(pattern, reading.answer.text), reading.answer.text[:600]


def expect_text_absent(reading: Reading, pattern: str) -> None:
    found = re.search(pattern, reading.answer.text)
    assert found is None, found and found[0]


# ---------------------------------------------------------------------- what a case can expect of its variants


def _numbers(readings: list[Reading], path: str) -> list[float]:
    values = [reading.value(path) for reading in readings]
    assert None not in values, path
    return values


def expect_rising(readings: list[Reading], path: str) -> None:
    values = _numbers(readings, path)
    assert values == sorted(set(values)), values


def expect_falling(readings: list[Reading], path: str) -> None:
    values = _numbers(readings, path)
    assert values == sorted(set(values), reverse=True), values


def expect_not_rising(readings: list[Reading], path: str) -> None:
    values = _numbers(readings, path)
    assert values == sorted(values, reverse=True), values


def expect_constant(readings: list[Reading], path: str) -> None:
    values = _numbers(readings, path)
    assert max(values) - min(values) <= readings[0].case.get("tolerance", 0), values


OF_VARIANTS: dict[str, Callable[[list[Reading], str], None]] = {
    "rising": expect_rising,
    "falling": expect_falling,
    "not_rising": expect_not_rising,
    "constant": expect_constant,
}
OF_ONE: dict[str, Callable[[Reading, Any], None]] = {
    name.removeprefix("expect_"): function
    for name, function in list(globals().items())
    if name.startswith("expect_") and name.removeprefix("expect_") not in OF_VARIANTS
}


# ---------------------------------------------------------------------- the table


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for report in TABLE:
        for number, case in enumerate(report.get("case", []), start=1):
            yield f"{report['id']}-{number}", case


def _since(case: Mapping[str, Any]) -> str:
    return str(case.get("since", "facts"))


def _parameters() -> list[Any]:
    return list(_marked_cases())


def _marked_cases() -> Iterator[Any]:
    for name, case in cases():
        marks = []
        if _since(case) not in CAPABILITIES:
            marks.append(pytest.mark.skip(reason=f"needs {_since(case)}"))
        elif "xfail" in case:
            marks.append(pytest.mark.xfail(reason=case["xfail"], strict=True, raises=AssertionError))
        yield pytest.param(case, id=name, marks=marks)


@pytest.fixture(autouse=True)
def _nothing_from_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No hub, no cache, no overlay of whoever runs the tests."""
    nowhere = tmp_path_factory.getbasetemp() / "nowhere"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("DRAFTPICK_DEBUG", "1")
    for name in ("HOME", "HF_HOME", "HF_HUB_CACHE", "MODELSCOPE_CACHE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(nowhere))


@pytest.mark.parametrize("case", _parameters())
def test_report(case: dict[str, Any], tmp_path: Path) -> None:
    readings = [Reading(answer, case, tmp_path) for answer in answers(case, tmp_path)]
    for name, wanted in case["expect"].items():
        if name in OF_VARIANTS:
            OF_VARIANTS[name](readings, wanted)
        else:
            for reading in readings:
                OF_ONE[name](reading, wanted)


def test_totals() -> None:
    """Enough reports can be expressed, and enough of what can be said today is right (a wrong xfail fails above)."""
    expressible = [report for report in TABLE if "case" in report]
    today = [case for _, case in cases() if _since(case) in CAPABILITIES]
    failing = [case for case in today if "xfail" in case]
    share = 1 - len(failing) / len(today)
    reports_today = [report for report in TABLE if any(_since(case) in CAPABILITIES for case in report.get("case", []))]
    right = [report for report in reports_today if not any("xfail" in case for case in report["case"])]
    print(
        f"{len(TABLE)} reports, {len(expressible)} expressible; by {', '.join(sorted(CAPABILITIES))}: "
        f"{len(reports_today)} reports in {len(today)} cases, {share:.1%} of the cases as expected"
    )
    assert len(TABLE) == REPORTS
    assert len(expressible) >= EXPRESSIBLE
    assert share >= PASSING
    assert len(right) / len(reports_today) >= PASSING


def test_every_report_is_expressed_or_says_why_not() -> None:
    assert len({report["id"] for report in TABLE}) == len(TABLE)
    for report in TABLE:
        assert re.fullmatch(r"R\d{3}", report["id"])
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|https://\S+", report["source"]), report["id"]
        assert ("case" in report) != ("not_expressible" in report), report["id"]
        assert set(report) <= {"id", "source", "kind", "case", "not_expressible"}, report["id"]


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in cases()])
def test_case_is_well_formed(case: dict[str, Any]) -> None:
    assert set(case) <= CASE_KEYS
    assert case["command"]
    assert case["expect"]
    assert _since(case) in EVERY_CAPABILITY
    assert set(case["expect"]) <= OF_ONE.keys() | OF_VARIANTS.keys()
    assert ("variants" in case) == bool(set(case["expect"]) & OF_VARIANTS.keys())
    assert _rules_named(case["expect"]) <= load_rules().keys()
    if _since(case) == "facts" and "fixture" in case:
        assert callable(getattr(FIXTURES, case["fixture"], None))


def _rules_named(expect: Mapping[str, Any]) -> set[str]:
    named: set[str] = set()
    for name in ("finding", "finding_text", "evidence"):
        named |= set(expect.get(name, {}))
    for name in ("warned_by", "rejected_by"):
        named |= {rule for group in expect.get(name, []) for rule in group}
    return named
