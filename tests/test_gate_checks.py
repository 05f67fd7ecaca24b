"""Each check of a gate by itself: at its border and on both sides of it, and the sentence it says.

The measurement is a small saved one; nothing is measured here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from draftpick import __version__
from draftpick.assess import Assessment, Engines, assess
from draftpick.atomic import CannotWrite
from draftpick.catalog import load
from draftpick.choices import GATE
from draftpick.errors import InvalidFile, NotResolvable, UsageError
from draftpick.evidence import Evidence, from_probe
from draftpick.gate_file import (
    BaselineFile,
    BaselineRow,
    CheckResult,
    PairRow,
    Policy,
    PolicyFile,
    PromptSums,
    checked_gate,
    read_baseline,
    read_policy,
)
from draftpick.gating import Outcome, _Pair, judge
from draftpick.gating.baseline import _by_prompt, _sums, _whole, row_of
from draftpick.gating.command import _check_names, _measure, _write_baseline, run
from draftpick.gating.evidence import Measured, Models, Sources, _age, _changed, _digests, find
from draftpick.memory import Budget
from draftpick.models.profile import ModelProfile
from draftpick.pair import Proposal, Setting
from draftpick.predict import Prediction, Predictor
from draftpick.probe_file import IntervalRecord, ProbeFile, read_probe
from draftpick.probing.session import Done
from draftpick.rules import Finding
from draftpick.rules.engine import Verdict
from draftpick.speedup import MARGIN, Interval, KRow, Plan

SEEDS = Path(__file__).parent / "fuzz" / "seeds"
CATALOG = load()
TODAY = date(2026, 11, 30)
PAIR = {"name": "a", "target": "acme/target", "draft": "acme/draft"}
ENGINE, DEVICE = CATALOG.engine("vllm"), CATALOG.device("h100-80g")
HERE = Path("here/pairs.toml")

Change = Callable[[dict[str, Any]], Any]


# ---------------------------------------------------------------------- what is judged


def resolve(name: str, revision: str | None = None) -> ModelProfile:
    found = CATALOG.find(name)
    if found is None:
        raise NotResolvable(f"{name} is not found", "name another")
    return found


def measure(pair: PairRow, target: ModelProfile, draft: ModelProfile, output: Path) -> None:
    raise UsageError("nothing is measured here")


def setting_of(pair: PairRow) -> Setting:
    return Setting(
        engine=CATALOG.engine(pair.engine) if pair.engine is not None else None,
        device=CATALOG.device(pair.device) if pair.device is not None else None,
        num_spec_tokens=pair.num_spec_tokens,
    )


SOURCES = Sources(CATALOG, resolve, setting_of, measure, TODAY)


def saved(folder: Path, change: Change = lambda document: None) -> Path:
    """A measurement without doubts of a pair whose models are not here, with its trace; changed."""
    trace = (SEEDS / "probe.trace.jsonl").read_text(encoding="utf-8").replace("catalog/demo/", "acme/")
    (folder / "probe.trace.jsonl").write_text(trace, encoding="utf-8")
    document = json.loads((SEEDS / "probe.json").read_text(encoding="utf-8").replace("catalog/demo/", "acme/"))
    document["tool"]["version"] = __version__
    document["trace"]["sha256"] = hashlib.sha256(trace.encode()).hexdigest()
    document["drafts"][0].update(doubts=[], stopped_by="all 16 prompts were used")
    change(document)
    (folder / "probe.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "probe.json"


def outcome_of(
    folder: Path,
    policy: Mapping[str, Any],
    pair: Mapping[str, Any],
    baseline: BaselineFile | None = None,
    *,
    top: Mapping[str, Any] | None = None,
) -> Outcome:
    row = {**PAIR, "evidence": "probe.json", **pair, "policy": policy}
    content = {**(top or {}), "pair": [{name: value for name, value in row.items() if value is not None}]}
    return judge(PolicyFile.model_validate(content), folder / "pairs.toml", baseline, SOURCES, {"a": 3})


def checks_of(found: Outcome) -> dict[str, CheckResult]:
    return {one.name: one for one in found.result.pairs[0].checks}


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ProbeFile:
    return read_probe(saved(tmp_path_factory.mktemp("probe")))


@pytest.fixture(scope="module")
def evidence(probe: ProbeFile) -> Evidence:
    return from_probe(probe, CATALOG)["acme/draft"]


def of_pair(policy: Mapping[str, Any] | None = None, *, anew: bool = False, **pair: Any) -> _Pair:
    """A pair that is about to be judged."""
    own = Policy.model_validate(policy or {})
    return _Pair(PairRow.model_validate({**PAIR, **pair}), own, HERE, SOURCES, anew=anew)


def only(one: _Pair) -> CheckResult:
    (check,) = one.result(None).checks
    return check


def _assessed() -> Assessment:
    target, draft = resolve("Qwen/Qwen3-32B"), resolve("Qwen/Qwen3-0.6B")
    where = Setting(engine=ENGINE, device=DEVICE)
    proposal = Proposal("draft_model", "given", draft)
    return assess(target, proposal, where, CATALOG, None, Predictor(target, where, CATALOG))


ASSESSED = _assessed()


def assessed(
    *,
    findings: tuple[Finding, ...] = (),
    score: float = 80.0,
    coverage: float = 0.5,
    setting: Setting = Setting(),  # noqa: B008
    engines: Mapping[str, Verdict | None] | None = None,
    **known: Any,
) -> Assessment:
    """What was thought of a real pair, with these parts in place of those that would be worked out."""
    pair = ASSESSED.pair._replace(setting=setting)
    found = Assessment(pair, findings, score, coverage, Engines(pair, CATALOG.all_engines))
    vars(found).update(known)
    vars(found.engines).update(engines or {})
    return found


def predicted(*speeds: float, chosen: int = 0, measured: Evidence | None = None, level: float = 0.95) -> Prediction:
    """A prediction whose speed-ups at k = 0, 1, … are these, each from 0.1 below to 0.2 above."""
    said = ASSESSED.prediction
    assert said is not None
    rows = tuple(KRow(k, 1.0, speed, speed - 0.1, speed + 0.2) for k, speed in enumerate(speeds))
    plan = Plan(chosen, 1.0, Interval(1.0, 1.0, 1.0, level), rows)
    costs = said.costs._replace(source="measured") if measured is not None else said.costs
    return said._replace(plan=plan, measured=measured, costs=costs)


# ---------------------------------------------------------------------- facts


def finding(rule: str, outcome: Any, weight: float = 1.0, ignored: str | None = None) -> Finding:
    return Finding(rule, outcome, f"{rule} says {outcome}", {}, weight, ignored)


@pytest.mark.parametrize(
    ("policy", "findings", "status", "value", "said"),
    [
        ({}, [], "passed", None, "no rule rejects it"),
        ({}, [finding("a", "warn"), finding("b", "pass")], "passed", None, "no rule rejects it"),
        ({"fail_on": "warn"}, [finding("a", "pass")], "passed", None, "no rule rejects it or warns"),
        ({"fail_on": "warn"}, [finding("b", "warn", 9), finding("a", "reject")], "failed", "a, b", "a says reject"),
        ({"fail_on": "warn"}, [finding("b", "warn", 1), finding("a", "warn", 2)], "failed", "a, b", "a says warn"),
        ({"fail_on": "warn"}, [finding("b", "warn", 2), finding("a", "warn", 1)], "failed", "a, b", "b says warn"),
        ({}, [finding("b", "warn", 9), finding("a", "reject")], "failed", "a", "a says reject"),
        ({}, [finding("a", "reject", 1), finding("a", "reject", 2)], "failed", "a", "a says reject"),
        ({"allow": ["a"]}, [finding("a", "reject")], "passed", None, "no rule rejects it"),
        ({"allow": ["a"]}, [finding("a", "reject"), finding("b", "reject")], "failed", "b", "b says reject"),
        ({}, [finding("a", "reject", ignored="said so")], "passed", None, "no rule rejects it"),
    ],
)
def test_findings(policy: dict[str, Any], findings: list[Finding], status: str, value: str | None, said: str) -> None:
    one = of_pair(policy)
    one._facts(assessed(findings=tuple(findings)))
    check = only(one)
    assert (check.name, check.status, check.value) == ("findings", status, value)
    assert check.reason == (f"{value}: {said}" if value is not None else said)
    assert check.threshold == policy.get("fail_on", "reject")


@pytest.mark.parametrize(
    ("name", "found", "least", "status", "said"),
    [
        ("score", 88.96, 89.0, "passed", "score 89, at least 89 is asked for"),
        ("score", 88.94, 89.0, "failed", "score 88.9, at least 89 is asked for"),
        ("score", 89.1, 89.0, "passed", "score 89.1, at least 89 is asked for"),
        ("score", 0.0, 0.0, "passed", "score 0, at least 0 is asked for"),
        ("coverage", 0.6496, 0.65, "passed", "coverage 0.65, at least 0.65 is asked for"),
        ("coverage", 0.6494, 0.65, "failed", "coverage 0.649, at least 0.65 is asked for"),
        ("coverage", 0.0, 0.0, "passed", "coverage 0, at least 0 is asked for"),
    ],
)
def test_figures(name: str, found: float, least: float, status: str, said: str) -> None:
    one = of_pair({f"min_{name}": least})
    one._facts(assessed(**{name: found}))
    first, check = one.result(None).checks
    assert (first.name, check.name, check.status, check.reason) == ("findings", name, status, said)
    assert (check.value, check.threshold) == (round(found, 1 if name == "score" else 3), least)


TWO = Setting(device=DEVICE, tensor_parallel_size=2)


@pytest.mark.parametrize(
    ("setting", "budget", "status", "said"),
    [
        (Setting(), Budget(True, None), "missing", "the pair names no device whose memory it could fit"),
        (TWO, Budget(None, None), "missing", "whether it fits on 2 × h100-80g cannot be told: a size is not known"),
        (TWO, Budget(True, None), "passed", "it fits on 2 × h100-80g"),
        (TWO, Budget(True, None, notes=("x",)), "passed", "it fits on 2 × h100-80g (x)"),
        (TWO, Budget(True, None, min_tensor_parallel_size=1), "passed", "it fits on 2 × h100-80g"),
        (TWO, Budget(False, None), "failed", "it does not fit on 2 × h100-80g"),
        (TWO, Budget(False, None, min_tensor_parallel_size=4), "failed", "it does not fit on 2 × h100-80g: it takes 4"),
        (TWO, Budget(False, None, notes=("x", "y")), "failed", "it does not fit on 2 × h100-80g (x; y)"),
    ],
)
def test_memory(setting: Setting, budget: Budget, status: str, said: str) -> None:
    one = of_pair({"must_fit": True})
    one._facts(assessed(setting=setting, budget=budget))
    check = one.result(None).checks[1]
    assert (check.name, check.status, check.reason, check.value) == ("memory", status, said, None)


@pytest.mark.parametrize(
    ("verdict", "least", "status"),
    [
        ("accepted", "accepted", "passed"),
        ("accepted", "care", "passed"),
        ("care", "accepted", "failed"),
        ("care", "care", "passed"),
        ("refused", "accepted", "failed"),
        ("refused", "care", "failed"),
        ("unknown", "accepted", "missing"),
        ("unknown", "care", "missing"),
    ],
)
@pytest.mark.parametrize(("reasons", "said"), [((), ""), (("x", "y"), ": x")])
def test_engines(verdict: Any, least: str, status: str, reasons: tuple[str, ...], said: str) -> None:
    one = of_pair({"engine_verdict": least})
    one._facts(assessed(engines={"asked": Verdict("vllm", "1.2", verdict, reasons)}))
    check = one.result(None).checks[1]
    assert (check.name, check.status, check.reason) == ("engine", status, f"vllm 1.2: {verdict}{said}")
    assert (check.value, check.threshold) == (verdict, least)


def test_no_engine_is_named() -> None:
    one = of_pair({"engine_verdict": "care"})
    one._facts(assessed())
    check = one.result(None).checks[1]
    assert (check.status, check.reason) == ("missing", "the pair names no engine whose verdict counts")
    assert check.threshold == "care"


def test_facts_that_nobody_asks_for_are_not_judged() -> None:
    one = of_pair({"must_fit": False})
    one._facts(assessed())
    assert only(one).name == "findings"


# ---------------------------------------------------------------------- rates


@pytest.mark.parametrize(
    ("least", "status", "said"),
    [
        (0.25, "passed", "acceptance rate 0.500 (95 % interval 0.250 to 0.750): its lower bound is at least 0.25"),
        (0.2501, "failed", "acceptance rate 0.500 (95 % interval 0.250 to 0.750): its lower bound is below 0.2501"),
        (0.0, "passed", "acceptance rate 0.500 (95 % interval 0.250 to 0.750): its lower bound is at least 0"),
    ],
)
def test_the_rate(evidence: Evidence, least: float, status: str, said: str) -> None:
    one = of_pair({"min_acceptance_rate": least})
    one._rates(evidence._replace(rate=Interval(0.5, 0.25, 0.75, 0.95)), assessed())
    check = only(one)
    assert (check.name, check.status, check.reason) == ("acceptance_rate", status, said)
    assert (check.value, check.bound, check.threshold) == (0.5, 0.25, least)


LENGTHS = tuple(Interval(1 + k / 2, 1 + k / 4, 1 + k, 0.95) for k in range(4))


@pytest.mark.parametrize(
    ("k", "least", "status", "said"),
    [
        (3, 1.75, "passed", "at k = 3 2.500 (95 % interval 1.750 to 4.000): its lower bound is at least 1.75"),
        (3, 1.76, "failed", "at k = 3 2.500 (95 % interval 1.750 to 4.000): its lower bound is below 1.76"),
        (1, 0.0, "passed", "at k = 1 1.500 (95 % interval 1.250 to 2.000): its lower bound is at least 0"),
        (4, 1.0, "missing", "no length at k = 4 was measured: up to 3 tokens were drafted"),
        (None, 1.0, "missing", "no length at k = None was measured: up to 3 tokens were drafted"),
    ],
)
def test_the_length(evidence: Evidence, k: int | None, least: float, status: str, said: str) -> None:
    one = of_pair({"min_mean_acceptance_length": least}, num_spec_tokens=k)
    one._rates(evidence._replace(lengths=LENGTHS), assessed(prediction=None))
    check = only(one)
    assert (check.name, check.status) == ("mean_acceptance_length", status)
    assert check.reason == (said if status == "missing" else f"mean acceptance length {said}")
    assert check.threshold == least


@pytest.mark.parametrize(
    ("engine", "verdict", "rate"), [(None, "vllm", 0.5), ("vllm", "vllm", 0.7), ("vllm", None, 0.5)]
)
def test_the_rate_is_that_of_the_engine_that_is_named(
    evidence: Evidence, engine: str | None, verdict: str | None, rate: float
) -> None:
    ways = {"first_choice": (Interval(0.7, 0.6, 0.8, 0.95), LENGTHS)}
    known = evidence._replace(temperature=1.0, way="sampled", rate=Interval(0.5, 0.4, 0.6, 0.95), others=ways)
    one = of_pair({"min_acceptance_rate": 0.0}, engine=engine)
    said = Verdict(verdict, "1", "accepted", ()) if verdict is not None else None
    one._rates(known, assessed(engines={"asked": said, "taken_by": None}))
    assert only(one).value == rate


@pytest.mark.parametrize(
    ("given", "speeds", "chosen", "k"),
    [(5, (1.0, 2.0), 1, 5), (None, (1.0, 2.0, 3.0), 1, 1), (None, (1.0, 0.5, 0.8), 0, 2), (None, (1.0,), 0, None)],
)
def test_the_k_that_is_judged(given: int | None, speeds: tuple[float, ...], chosen: int, k: int | None) -> None:
    one = of_pair(num_spec_tokens=given)
    assert one._k(assessed(prediction=predicted(*speeds, chosen=chosen))) == k
    assert one._k(assessed(prediction=None)) == given


NO_COSTS = "its costs were not measured, and the pair names no engine and device to predict them for"
UNTOLD = "no engine takes the pair, or its costs are not known"
PLACED = {"engine": "vllm", "device": "h100-80g"}


@pytest.mark.parametrize(
    ("pair", "timed", "least", "status", "said"),
    [
        ({}, True, 1.5, "passed", ", measured, 1.600 (90 % interval 1.500 to 1.800): its lower bound is at least 1.5"),
        ({}, True, 1.51, "failed", ", measured, 1.600 (90 % interval 1.500 to 1.800): its lower bound is below 1.51"),
        (PLACED, False, 0.0, "passed", ", with predicted costs, 1.600 (90 % interval 1.500 to 1.800): its lower bound "
         "is at least 0"),
        ({"engine": "vllm"}, False, 1.0, "missing", NO_COSTS),
        ({"device": "h100-80g"}, False, 1.0, "missing", NO_COSTS),
        ({"num_spec_tokens": 3}, True, 1.0, "missing", "k = 3 was not measured"),
    ],
)  # fmt: skip
def test_the_speed_up(
    evidence: Evidence, pair: dict[str, Any], timed: bool, least: float, status: str, said: str
) -> None:
    one = of_pair({"min_speedup": least}, **{"num_spec_tokens": 2, **pair})
    found = predicted(1.0, 1.2, 1.6, measured=evidence if timed else None, level=0.9)
    one._rates(evidence, assessed(prediction=found))
    check = only(one)
    assert (check.name, check.status, check.threshold) == ("speedup", status, least)
    where = f"speed-up at k = 2 in vllm on {found.place.devices} × h100-80g"
    assert check.reason == (f"no speed-up is known: {said}" if status == "missing" else f"{where}{said}")
    if status != "missing":
        assert (check.value, check.bound) == (1.6, 1.5)


def test_a_speed_up_that_nobody_can_tell(evidence: Evidence) -> None:
    one = of_pair({"min_speedup": 1.0}, **PLACED)
    one._rates(evidence, assessed(prediction=None))
    assert (only(one).status, only(one).reason) == ("missing", f"no speed-up is known: {UNTOLD}")
    assert only(one).threshold == 1.0


def test_why_nothing_is_predicted_is_told() -> None:
    target = ASSESSED.pair.target
    where = Setting(engine=ENGINE, device=DEVICE, draft_quantization="strange")
    found = assess(target, ASSESSED.pair.proposal, where, CATALOG, None, Predictor(target, where, CATALOG))
    assert found.prediction is None
    assert of_pair()._unknown_gain(found) == "how many bits --draft-quantization strange stores is not known"


# ---------------------------------------------------------------------- the best k


JUST_BELOW = math.nextafter(1 - MARGIN, 0)


@pytest.mark.parametrize(
    ("expected", "speeds", "most", "status", "best", "share"),
    [
        (1, (1.0, 0.5, 0.5, 1.5), 2, "passed", 3, 33),
        (1, (1.0, 0.5, 0.5, 1.5), 1, "failed", 3, 33),
        (3, (1.0, 2.0, 1.0, 1.0), 2, "passed", 1, 50),
        (3, (1.0, 2.0, 1.0, 1.0), 1, "failed", 1, 50),
        (2, (1.0, 1.0, 4.0), 0, "passed", 2, 100),
        (1, (0.5, 1 - MARGIN, 1.0), 0, "passed", 2, 95),
        (1, (0.5, JUST_BELOW, 1.0), 0, "failed", 2, 95),
    ],
)
def test_a_drift(
    evidence: Evidence, expected: int, speeds: tuple[float, ...], most: int, status: str, best: int, share: int
) -> None:
    one = of_pair({"max_k_drift": most})
    one._drift(expected, assessed(prediction=predicted(*speeds, measured=evidence)))
    check = only(one)
    assert (check.name, check.status) == ("num_spec_tokens", status)
    assert check.reason == f"the best k is {best}, {expected} was expected: that gives {share} % of its speed"
    assert (check.value, check.threshold, check.baseline) == (best, most, expected)


def test_the_margin_of_a_drift_is_the_one_of_plans() -> None:
    assert MARGIN == 0.05


@pytest.mark.parametrize(
    ("expected", "timed", "pair", "said"),
    [
        (None, True, {}, "neither the pair nor its baseline names a num_spec_tokens to compare with"),
        (3, True, {}, "the best k cannot be compared: k = 3 was not measured"),
        (1, False, {}, f"the best k cannot be compared: {NO_COSTS}"),
        (1, None, PLACED, f"the best k cannot be compared: {UNTOLD}"),
    ],
)
def test_a_drift_that_cannot_be_told(
    evidence: Evidence, expected: int | None, timed: bool | None, pair: dict[str, Any], said: str
) -> None:
    one = of_pair({"max_k_drift": 4}, **pair)
    found = predicted(1.0, 1.2, 1.6, measured=evidence if timed else None) if timed is not None else None
    one._drift(expected, assessed(prediction=found))
    assert (only(one).status, only(one).reason, only(one).threshold) == ("missing", said, 4.0)


@pytest.mark.parametrize(
    ("most", "expected", "anew", "judged"),
    [(None, 1, False, False), (None, None, False, False), (1, None, True, False), (1, 1, True, True)],
)
def test_a_drift_that_nobody_asks_for(
    evidence: Evidence, most: int | None, expected: int | None, anew: bool, judged: bool
) -> None:
    one = of_pair({"max_k_drift": most}, anew=anew)
    one._drift(expected, assessed(prediction=predicted(1.0, 1.2, measured=evidence)))
    assert bool(one.result(None).checks) is judged


# ---------------------------------------------------------------------- the baseline


def row(rate: float, *, prompts: int = 20, positions: float = 1000, **changes: Any) -> BaselineRow:
    """Of prompts that all have the same rate: nothing is left to chance."""
    one = PromptSums(domain="", accepted=rate * positions, positions=positions)
    fields: dict[str, Any] = {
        "target": "t", "draft": "d", "created": "", "temperature": 0.5, "way": "sampled", "engine": "vllm",
        "max_new_tokens": 8, "prompts": "p.jsonl", "num_prompts": prompts,
        "by_prompt": {f"{n}": one for n in range(prompts)},
        "acceptance_rate": IntervalRecord(value=rate, low=rate, high=rate, level=0.98),
    }  # fmt: skip
    return BaselineRow(**{**fields, **changes})


@pytest.mark.parametrize(
    ("now", "before", "policy", "status", "said"),
    [
        (0.5, 0.75, {"tolerance": 0.125}, "failed", "worse by more than 0.125"),
        (0.5, 0.75, {"tolerance": 0.25}, "passed", "not worse"),
        (0.5, 0.75, {}, "failed", "worse by more than 0.01"),
        (0.75, 0.5, {"tolerance": 0.0}, "passed", "not worse"),
        (0.5, 0.5, {"tolerance": 0.0}, "passed", "not worse"),
    ],
)
def test_against_the_baseline(now: float, before: float, policy: dict[str, Any], status: str, said: str) -> None:
    one = of_pair(policy)
    one._against(row(before), row(now))
    check = only(one)
    assert (check.name, check.status) == ("baseline", status)
    change = f"{now - before:+.3f}"
    assert check.reason == (
        f"acceptance rate {now:.3f}, baseline {before:.3f}: {change} ({change} to {change}, paired over 20 prompts), "
        f"{said}"
    )
    assert (check.value, check.baseline) == (now, before)
    assert check.bound == pytest.approx(now - before)
    assert check.threshold == -policy.get("tolerance", GATE["tolerance"])


def test_what_chance_may_have_done_is_no_loss() -> None:
    """By the bounds of two rates, from 0.2 below to 0.2 above."""
    wide = {"acceptance_rate": IntervalRecord(value=0.5, low=0.3, high=0.7, level=0.98), "by_prompt": {}}
    one = of_pair()
    one._against(row(0.5, **wide), row(0.5, **wide))
    half = 0.08**0.5
    assert only(one).status == "passed"
    assert only(one).reason == (
        f"acceptance rate 0.500, baseline 0.500: +0.000 ({-half:+.3f} to {half:+.3f}, 20 prompts against 20, unpaired)"
        ", no significant change"
    )


def test_no_baseline_to_compare_with() -> None:
    one = of_pair()
    one._against(None, row(0.5))
    assert (only(one).name, only(one).status) == ("baseline", "missing")
    assert only(one).reason == "the pair has no baseline yet: draftpick gate --update-baseline takes one"
    one = of_pair()
    one._against(row(0.6, way="first_choice"), row(0.5))
    check = only(one)
    assert (check.name, check.status, check.baseline, check.value) == ("baseline", "stale", 0.6, None)
    assert check.reason == (
        "the baseline was taken otherwise (drafting first_choice then, sampled now): "
        "draftpick gate --update-baseline takes a new one"
    )


def test_a_row_holds_what_was_measured(tmp_path: Path) -> None:
    """Field by field."""

    def change(document: dict[str, Any]) -> None:
        document["created"] = "2026-11-29T00:00:00+00:00"
        document["drafts"][0].update(temperature=0.5, way="sampled", num_prompts=15, level=0.9)
        document["drafts"][0]["by_k"][8]["speedup"] = {"value": 2.0, "low": 1.0, "high": 3.0, "level": 0.9}
        document["engine"] = "vllm"
        document["prompts"]["source"] = "others.jsonl"
        document["sampling"]["max_new_tokens"] = 99

    place = saved(tmp_path, change)
    probe = read_probe(place)
    record = probe.drafts[0]
    measured = Measured(probe, record, place, None)
    pair = PairRow.model_validate(PAIR)
    found = row_of(pair, measured, 8)
    expected = {
        "target": "acme/target",
        "draft": "acme/draft",
        "created": "2026-11-29T00:00:00+00:00",
        "temperature": 0.5,
        "way": "sampled",
        "engine": "vllm",
        "max_new_tokens": 99,
        "prompts": "others.jsonl",
        "num_prompts": 15,
        "num_spec_tokens": 8,
        "acceptance_rate": record.acceptance_rate.model_dump(),
        "mean_acceptance_length": {
            "value": record.by_k[8].mean_acceptance_length,
            "low": record.by_k[8].mean_acceptance_length_low,
            "high": record.by_k[8].mean_acceptance_length_high,
            "level": 0.9,
        },
        "speedup": {"value": 2.0, "low": 1.0, "high": 3.0, "level": 0.9},
        "by_prompt": {},
    }
    assert found.model_dump() == expected
    for k in (9, None):
        without = {**expected, "num_spec_tokens": k, "mean_acceptance_length": None, "speedup": None}
        assert row_of(pair, measured, k).model_dump() == without
    bare = probe.model_copy(update={"prompts": {}, "sampling": {}})
    found = row_of(pair, measured._replace(probe=bare), 0)
    assert (found.prompts, found.max_new_tokens, found.num_spec_tokens) == ("?", None, 0)
    assert found.mean_acceptance_length is not None
    assert found.mean_acceptance_length.value == 1.0


@pytest.mark.parametrize(
    ("value", "whole"),
    [(8, 8), (1, 1), (0, None), (-1, None), ("8", None), (8.5, None), (None, None), ([8], None)],
)
def test_a_length_of_answers_is_a_number(value: object, whole: int | None) -> None:
    assert _whole(value) == whole


def test_sums_by_prompt_are_those_of_the_trace(tmp_path: Path) -> None:
    place = saved(tmp_path)
    probe = read_probe(place)
    measured = Measured(probe, probe.drafts[0], place, tmp_path / "probe.trace.jsonl")
    rows = [json.loads(line) for line in measured.trace.read_text(encoding="utf-8").splitlines()[1:]]  # type: ignore[union-attr]
    found = _by_prompt(measured)
    assert list(found) == [one["digest"][:16] for one in rows]
    assert [one.domain for one in found.values()] == [one["domain"] for one in rows]
    assert all(one.accepted == round(one.accepted, 6) for one in found.values())
    assert all(0 < one.positions <= 10 for one in found.values())
    later = _by_prompt(measured._replace(probe=probe.model_copy(update={"engine": "vllm"})))
    assert [one.positions - 1 for one in found.values()] == [one.positions for one in later.values()]
    assert _by_prompt(measured._replace(trace=None)) == {}


def test_a_way_that_no_trace_has_is_told(tmp_path: Path) -> None:
    place = saved(tmp_path, lambda document: document["drafts"][0].update(way="sampled"))
    probe = read_probe(place)
    with pytest.raises(InvalidFile) as caught:
        _by_prompt(Measured(probe, probe.drafts[0], place, tmp_path / "probe.trace.jsonl"))
    assert str(caught.value) == f"{place}: nothing drafts by sampled at temperature 0"
    assert caught.value.hint == "the file was changed by hand: probe again"


@pytest.mark.parametrize(("positions", "names"), [((0.0, 0.0), None), ((0.0, 0.5), ("1",)), ((1.0, 2.0), ("0", "1"))])
def test_prompts_that_count(positions: tuple[float, ...], names: tuple[str, ...] | None) -> None:
    sums = {
        f"{place}": PromptSums(domain=f"d{place}", accepted=0.25 * size, positions=size)
        for place, size in enumerate(positions)
    }
    found = _sums(sums)
    assert (found.prompts if found is not None else None) == names
    if found is not None:
        assert found.strata == tuple(f"d{name}" for name in found.prompts)
        assert found.y.tolist() == [0.25 * size for size in found.x.tolist()]


# ---------------------------------------------------------------------- waivers and results


def waiver(expires: str, check: str = "speedup", reason: str = "r") -> dict[str, str]:
    return {"check": check, "expires": expires, "reason": reason}


@pytest.mark.parametrize("status", ["failed", "missing", "stale", "doubtful", "passed", "noted"])
@pytest.mark.parametrize(
    ("waivers", "waived", "said"),
    [
        ([], None, "x"),
        ([waiver("2999-01-01", "memory")], None, "x"),
        ([waiver("2026-11-30")], "r", "x; waived until 2026-11-30: r"),
        ([waiver("2026-11-29")], None, "x; its waiver expired on 2026-11-29"),
        (
            [waiver("2026-11-28"), waiver("2026-11-29"), waiver("2026-11-27")],
            None,
            "x; its waiver expired on 2026-11-29",
        ),
        ([waiver("2020-01-01"), waiver("2027-01-01", reason="s")], "s", "x; waived until 2027-01-01: s"),
        ([waiver("2027-01-01", reason="s"), waiver("2028-01-01")], "s", "x; waived until 2027-01-01: s"),
    ],
)
def test_a_waiver(status: Any, waivers: list[dict[str, str]], waived: str | None, said: str) -> None:
    one = of_pair(waivers=waivers)
    one._add("speedup", status, "x", value=1.0, bound=2.0, threshold=3.0, baseline=4.0)
    check = only(one)
    fine = status in ("passed", "noted")
    assert check.status == ("waived" if waived is not None and not fine else status)
    assert check.passed is (fine or waived is not None)
    assert check.reason == ("x" if fine else said)
    assert (check.waiver.reason if check.waiver is not None else None) == (None if fine else waived)
    assert check.waiver is None or f"until {check.waiver.expires}" in said
    assert (check.name, check.value, check.bound, check.threshold, check.baseline) == ("speedup", 1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("statuses", "measured", "passed", "judged"),
    [
        ([], False, True, True),
        (["passed", "noted"], False, True, True),
        (["missing"], False, False, False),
        (["passed", "missing", "stale", "doubtful"], False, False, False),
        (["missing", "failed"], False, False, True),
        (["missing"], True, False, True),
    ],
)
def test_a_result_sums_up_its_checks(
    tmp_path: Path, statuses: list[Any], measured: bool, passed: bool, judged: bool
) -> None:
    one = of_pair()
    for status in statuses:
        one._add("speedup", status, "x")
    if measured:
        probe = read_probe(saved(tmp_path))
        one._measured = Measured(probe, probe.drafts[0], Path("some.json"), None)
    found = one.result(7)
    assert (found.passed, found.judged, found.line) == (passed, judged, 7)
    assert found.evidence == ("some.json" if measured else None)
    assert (found.name, found.target, found.draft) == ("a", "acme/target", "acme/draft")


ALL = {
    "min_score": (0.0, "score"),
    "min_coverage": (0.0, "coverage"),
    "must_fit": (True, "memory"),
    "engine_verdict": ("care", "engine"),
    "max_age_days": (1, "evidence"),
    "min_prompts": (1, "evidence"),
    "min_acceptance_rate": (0.0, "acceptance_rate"),
    "min_mean_acceptance_length": (0.0, "mean_acceptance_length"),
    "min_speedup": (0.0, "speedup"),
    "max_k_drift": (0, "num_spec_tokens"),
}


@pytest.mark.parametrize("name", ALL)
def test_what_was_asked_for_and_was_not_judged_fails(name: str) -> None:
    value, check = ALL[name]
    one = of_pair({name: value})
    one._unjudged(compares=False)
    found = only(one)
    assert (found.name, found.status, found.reason) == (check, "missing", "there is nothing that it could be judged by")
    for made in ("passed", "failed"):
        one = of_pair({name: value})
        one._add(check, made, "x")  # type: ignore[arg-type]
        one._unjudged(compares=False)
        assert only(one).status == made
    one = of_pair({name: value}, anew=True)
    one._unjudged(compares=False)
    assert bool(one.result(None).checks) is (check != "num_spec_tokens")


def test_what_was_not_asked_for_need_not_be_judged() -> None:
    one = of_pair({"must_fit": False})
    one._unjudged(compares=False)
    assert one.result(None).checks == []
    one._unjudged(compares=True)
    assert only(one).name == "baseline"
    one = of_pair({"min_score": 1.0})
    one._add("findings", "failed", "x")
    one._unjudged(compares=True)
    assert only(one).name == "findings"


# ---------------------------------------------------------------------- a whole gate


def test_a_result_says_what_it_is(tmp_path: Path) -> None:
    saved(tmp_path)
    found = outcome_of(tmp_path, {"min_acceptance_rate": 0.1}, {})
    result = found.result
    assert (result.schema_version, result.kind, result.date) == ("1", "gate", TODAY)
    assert result.tool == {"name": "draftpick", "version": __version__}
    assert (result.policy, result.passed) == (str(tmp_path / "pairs.toml"), True)
    (one,) = result.pairs
    assert (one.line, one.evidence) == (3, str(tmp_path / "probe.json"))
    assert [check.name for check in one.checks] == ["evidence", "findings", "acceptance_rate"]
    check = checks_of(found)["evidence"]
    assert (check.status, check.value) == ("passed", 16.0)
    assert check.reason == "16 prompts, 462 tokens, measured on 2026-11-30"
    assert list(found.rows) == ["a"]
    assert found.rows["a"].num_spec_tokens is not None


@pytest.mark.parametrize("name", ALL)
def test_what_needs_a_measurement(tmp_path: Path, name: str) -> None:
    """Facts need none: then nothing is said of evidence."""
    found = outcome_of(tmp_path, {name: ALL[name][0]}, {"evidence": None})
    facts = name in ("min_score", "min_coverage", "must_fit", "engine_verdict")
    assert ("evidence" in checks_of(found)) is not facts
    assert found.rows == {}
    if not facts:
        assert checks_of(found)["evidence"].reason == (
            "nothing was measured: the pair names no evidence and no probe = true"
        )


def test_a_baseline_needs_a_measurement(tmp_path: Path) -> None:
    empty = BaselineFile(schema_version="1", kind="baseline", pairs={})
    assert "evidence" in checks_of(outcome_of(tmp_path, {}, {"evidence": None}, empty))
    assert "evidence" not in checks_of(outcome_of(tmp_path, {}, {"evidence": None}))
    assert "evidence" in checks_of(outcome_of(tmp_path, {}, {}))
    probed = checks_of(outcome_of(tmp_path, {}, {"evidence": None, "probe": True, "draft": "Qwen/Qwen3-0.6B"}))
    assert probed["evidence"].reason == "acme/target is not found; name another"


def test_models_that_are_nowhere(tmp_path: Path) -> None:
    found = checks_of(outcome_of(tmp_path, {}, {"evidence": None}))
    assert {name: (one.status, one.reason) for name, one in found.items()} == {
        "findings": ("missing", "acme/target is not found; name another")
    }


def test_the_speed_of_a_pair_that_names_no_engine_is_that_of_the_measured_one(tmp_path: Path) -> None:
    saved(tmp_path)
    asked = {"min_speedup": 0.1, "max_k_drift": 16}
    check = checks_of(outcome_of(tmp_path, asked, {"num_spec_tokens": 2}))["speedup"]
    assert (check.status, "in transformers on 1 × cpu, measured," in check.reason) == ("passed", True), check.reason
    check = checks_of(outcome_of(tmp_path, asked, {"num_spec_tokens": 2, **PLACED}))["speedup"]
    assert "in vllm on 1 × h100-80g, with predicted costs," in check.reason
    for place in ({"device": "h100-80g"}, {"engine": "vllm"}):
        check = checks_of(outcome_of(tmp_path, asked, {"num_spec_tokens": 2, **place}))["speedup"]
        assert (check.status, NO_COSTS in check.reason) == ("missing", True), check.reason


def test_a_waiver_lets_pass_what_it_names_alone(tmp_path: Path) -> None:
    """Stale evidence is judged by where that was waived; what cannot be judged fails all the same."""
    saved(tmp_path, lambda document: document.update(created="2020-01-01"))
    asked = {"max_age_days": 1, "min_acceptance_rate": 0.1}
    waived = {"waivers": [waiver("2999-01-01", "evidence")]}
    statuses = [
        [(name, one.status) for name, one in checks_of(outcome_of(tmp_path, asked, pair)).items()]
        for pair in (
            {},
            waived,
            {**waived, "evidence": "no.json", "target": "Qwen/Qwen3-32B", "draft": "Qwen/Qwen3-0.6B"},
        )
    ]
    assert statuses == [
        [("evidence", "stale"), ("findings", "missing")],
        [("evidence", "waived"), ("findings", "passed"), ("acceptance_rate", "passed")],
        [("evidence", "waived"), ("findings", "passed"), ("acceptance_rate", "missing")],
    ]


def test_the_temperature_of_the_pair_is_the_one_that_is_judged(tmp_path: Path) -> None:
    def warmer(document: dict[str, Any]) -> None:
        rate = {"value": 0.25, "low": 0.2, "high": 0.3, "level": 0.95}
        document["drafts"].append({**document["drafts"][0], "temperature": 0.5, "acceptance_rate": rate})

    saved(tmp_path, warmer)
    (tmp_path / "probe.trace.jsonl").unlink()
    for heat, value in ((None, 0.543), (0.0, 0.543), (0.5, 0.25)):
        found = outcome_of(tmp_path, {"min_acceptance_rate": 0.1}, {"temperature": heat})
        assert checks_of(found)["acceptance_rate"].value == pytest.approx(value, abs=0.001)
        assert found.rows["a"].temperature == (heat or 0.0)
    check = checks_of(outcome_of(tmp_path, {}, {"temperature": 0.7}))["evidence"]
    assert check.status == "missing"
    assert check.reason == f"{tmp_path / 'probe.json'} measured nothing at temperature 0.7; it holds 0, 0.5"


@pytest.mark.parametrize(
    ("pair", "policy", "in_baseline", "expected"),
    [({"num_spec_tokens": 3}, 0, 2, 3.0), ({}, 0, 2, 2.0), ({}, 0, None, None), ({}, None, 2, "none")],
)
def test_the_k_that_was_expected(
    tmp_path: Path, pair: dict[str, Any], policy: int | None, in_baseline: int | None, expected: object
) -> None:
    saved(tmp_path)
    old = outcome_of(tmp_path, {}, {"num_spec_tokens": 2}).rows["a"]
    known = {"a": old.model_copy(update={"num_spec_tokens": in_baseline})}
    baseline = BaselineFile(schema_version="1", kind="baseline", pairs=known)
    found = checks_of(outcome_of(tmp_path, {"max_k_drift": policy}, pair, baseline))
    check = found.get("num_spec_tokens")
    assert (check.baseline if check is not None else "none") == expected
    assert found["baseline"].reason.endswith("not worse") or "no significant" in found["baseline"].reason


def test_a_new_baseline_has_no_k_to_compare_with(tmp_path: Path) -> None:
    saved(tmp_path)
    for top, judged in (({"baseline": "b.json"}, False), ({}, True)):
        found = checks_of(outcome_of(tmp_path, {"max_k_drift": 0}, {}, top=top))
        assert ("num_spec_tokens" in found) is judged


# ---------------------------------------------------------------------- evidence


def _doubts(own: list[str], common: list[str], timing: list[str], own_timing: list[str]) -> Change:
    def change(document: dict[str, Any]) -> None:
        document.update(doubts=common, timing_doubts=timing)
        document["drafts"][0].update(doubts=own, timing_doubts=own_timing)

    return change


OLD = _doubts([], [], [], [])
SAME = "16 prompts, 462 tokens, measured on 2026-11-30"


def _identity(model: str, **parts: object) -> Change:
    return lambda document: document["identities"][model].update(parts)


@pytest.mark.parametrize(
    ("change", "policy", "pair", "status", "said"),
    [
        (OLD, {"min_prompts": 16}, {}, "passed", SAME),
        (OLD, {"min_prompts": 17}, {}, "doubtful", "16 prompts were measured; min_prompts = 17"),
        (_doubts(["x"], [], [], []), {}, {}, "doubtful", "x"),
        (_doubts(["x"], ["y"], [], []), {}, {}, "doubtful", "y (and 1 more doubts)"),
        (_doubts(["x"], ["y"], ["y"], []), {}, {}, "doubtful", "x"),
        (_doubts(["x"], ["y"], ["y"], ["x"]), {}, {}, "passed", SAME),
        (_doubts(["x"], ["y"], ["y"], ["x"]), {"min_speedup": 0.0}, {}, "doubtful", "y (and 1 more doubts)"),
        (_doubts(["x"], [], [], ["x"]), {"max_k_drift": 0}, {}, "doubtful", "x"),
        (lambda one: one.update(created="2026-11-20"), {"max_age_days": 10}, {}, "passed", SAME.replace("30", "20")),
        (lambda one: one.update(created="2026-11-20"), {"max_age_days": 9}, {}, "stale",
         "it is 10 days old; max_age_days = 9"),
        (lambda one: one.update(created="2026-12-02"), {}, {}, "stale",
         "its date, '2026-12-02', is none, or lies in the future"),
        (lambda one: one.update(created="x" * 50), {}, {}, "stale",
         f"its date, '{'x' * 40}', is none, or lies in the future"),
        (lambda one: one["tool"].update(version="99.1"), {}, {}, "stale",
         f"draftpick 99.1 measured it, this is {__version__}: measure again"),
        (lambda one: one["tool"].pop("version"), {}, {}, "stale",
         f"draftpick  measured it, this is {__version__}: measure again"),
        (_identity("acme/target", revision="old"), {}, {"revision": "new"}, "stale",
         "acme/target was measured at revision old, the policy names new"),
        (_identity("acme/draft", revision="o" * 50), {}, {"draft_revision": "n" * 50}, "stale",
         f"acme/draft was measured at revision {'o' * 40}, the policy names {'n' * 40}"),
        (_identity("acme/draft", revision="old"), {}, {"revision": "new"}, "passed", SAME),
        (_identity("acme/draft", revision="old"), {}, {"draft_revision": "old"}, "passed", SAME),
        (_identity("acme/target", revision="old"), {}, {}, "passed", SAME),
        (OLD, {}, {"revision": "new"}, "passed", SAME),
        (lambda one: one.update(created="2026-11-20", doubts=["y"]), {"max_age_days": 9, "min_prompts": 17}, {},
         "stale",
         "it is 10 days old; max_age_days = 9; 16 prompts were measured; min_prompts = 17; y"),
        (OLD, {}, {"target": "acme/other"}, "missing", "{} measured the target acme/target, not acme/other"),
        (OLD, {}, {"draft": "acme/other"}, "missing", "{} measured no draft acme/other; it holds acme/draft"),
        (lambda one: one["drafts"].clear(), {}, {}, "missing", "{} measured no draft acme/draft; it holds none"),
        (lambda one: one["drafts"].append({**one["drafts"][0], "temperature": 0.5}), {}, {"draft": "x/y"}, "missing",
         "{} measured no draft x/y; it holds acme/draft"),
        (lambda one: one.update(kind="gate"), {}, {}, "missing", None),
    ],
)  # fmt: skip
def test_evidence(
    tmp_path: Path, change: Change, policy: dict[str, Any], pair: dict[str, Any], status: str, said: str | None
) -> None:
    place = saved(tmp_path, change)
    check = checks_of(outcome_of(tmp_path, {"min_acceptance_rate": 0.0, **policy}, pair))["evidence"]
    assert check.status == status, check.reason
    if said is not None:
        assert check.reason == said.format(place)
    else:
        assert "it is a gate's result; `draftpick report` reads it; here, name" in check.reason


def test_evidence_that_is_not_there(tmp_path: Path) -> None:
    check = checks_of(outcome_of(tmp_path, {"min_acceptance_rate": 0.0}, {"evidence": "no.json"}))["evidence"]
    assert (check.status, check.reason) == ("missing", f"{tmp_path / 'no.json'}: there is no such probe file")


def test_a_probe_that_is_made_now_is_named_by_its_pair(tmp_path: Path) -> None:
    """And takes the place of what lies there."""
    made: list[tuple[str, str, Path]] = []

    def measured(pair: PairRow, target: ModelProfile, draft: ModelProfile, output: Path) -> None:
        made.append((target.id, draft.id, output))
        saved(tmp_path).rename(output)

    sources = SOURCES._replace(measure=measured)
    names = {"target": "Qwen/Qwen3-32B", "draft": "Qwen/Qwen3-0.6B"}
    for evidence, file in ((None, "gate-a-b.json"), ("own.json", "own.json")):
        pair = PairRow.model_validate({**PAIR, **names, "name": "a b", "probe": True, "evidence": evidence})
        path = tmp_path / "pairs.toml"
        with pytest.raises(Exception, match="measured the target acme/target, not Qwen/Qwen3-32B"):
            find(pair, path, Models(pair, path, sources), sources)
        assert made.pop() == ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", tmp_path / file)


@pytest.mark.parametrize(
    ("stopped", "trace", "compares", "said"),
    [
        ("all prompts were used", True, True, []),
        ("all prompts were used", False, False, []),
        ("all prompts were used", False, True, ["its trace is gone: acceptance is compared without pairing by prompt"]),
        ("the decision is clear", True, False,
         ["the run looked before it stopped, so its intervals are nominal: --precision 0 measures all prompts"]),
    ],
)  # fmt: skip
def test_notes(tmp_path: Path, stopped: str, trace: bool, compares: bool, said: list[str]) -> None:
    saved(tmp_path, lambda document: document["drafts"][0].update(stopped_by=stopped))
    baseline = None
    if compares:
        baseline = BaselineFile(schema_version="1", kind="baseline", pairs=outcome_of(tmp_path, {}, {}).rows)
    if not trace:
        (tmp_path / "probe.trace.jsonl").unlink()
    found = outcome_of(tmp_path, {}, {}, baseline)
    noted = [one for one in found.result.pairs[0].checks if one.status == "noted"]
    assert ([one.reason for one in noted], [one.name for one in noted]) == (said, ["evidence"] * len(said))


@pytest.mark.parametrize(
    ("created", "age"),
    [("2026-11-30", 0), ("2026-12-01", 0), ("2026-12-02", None), ("0001-01-01T00:00:00+05:00", None)],
)
def test_ages_at_their_border(created: str, age: int | None) -> None:
    assert _age(created, TODAY) == age


def test_digests_are_those_that_are_known() -> None:
    parts = {"weights": "w", "config": None, "tokenizer": "t", "id": "x", "revision": "r"}
    assert _digests(parts) == {"weights": "w", "tokenizer": "t"}


# ---------------------------------------------------------------------- models


def folder_of(path: Path, weights: bytes = b"w") -> ModelProfile:
    """A folder with weights, config and tokenizer, and what is known of it."""
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(weights)
    (path / "config.json").write_text("{}", encoding="utf-8")
    (path / "tokenizer.json").write_text("{}", encoding="utf-8")
    return ASSESSED.pair.target._replace(id=str(path), path=str(path), origin="folder")


def models_of(folder: Path, asked: list[tuple[str, str | None]], **pair: Any) -> Models:
    """The models of a pair whose policy lies in a folder; `asked` gets what is looked up."""

    def look_up(name: str, revision: str | None) -> ModelProfile:
        asked.append((name, revision))
        if not Path(name).is_dir():
            return resolve(name)
        return ASSESSED.pair.target._replace(id=name, path=name, origin="folder")

    row = PairRow.model_validate({**PAIR, **pair})
    return Models(row, folder / "pairs.toml", SOURCES._replace(resolve=look_up))


def test_a_model_is_looked_up_once_by_its_revision(tmp_path: Path) -> None:
    folder_of(tmp_path / "mine")
    asked: list[tuple[str, str | None]] = []
    names = {"target": "Qwen/Qwen3-32B", "draft": "mine", "revision": "r1", "draft_revision": "r2"}
    models = models_of(tmp_path, asked, **names)
    for _ in range(2):
        assert models.resolved("Qwen/Qwen3-32B").id == "Qwen/Qwen3-32B"
        assert models.resolved("mine").id == str(tmp_path / "mine")
        assert models.resolved("Qwen/Qwen3-0.6B").id == "Qwen/Qwen3-0.6B"
    assert asked == [("Qwen/Qwen3-32B", "r1"), (str(tmp_path / "mine"), "r2"), ("Qwen/Qwen3-0.6B", None)]


def test_the_folder_beside_the_policy_goes_before_the_one_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("policy/mine", "here/mine", "here/other"):
        folder_of(tmp_path / place)
    monkeypatch.chdir(tmp_path / "here")
    models = models_of(tmp_path / "policy", [])
    assert models._folder("mine") == tmp_path / "policy" / "mine"
    assert models._folder("other") == Path("other")
    assert models._folder("nowhere") is None


def test_the_same_model_by_name_place_or_files(tmp_path: Path, probe: ProbeFile) -> None:
    folder_of(tmp_path / "mine")
    folder_of(tmp_path / "moved")
    folder_of(tmp_path / "other", b"x")
    models = models_of(tmp_path, [])
    known = models.digests("mine")
    assert known is not None
    assert set(known) == {"weights", "config", "tokenizer"}
    assert all(known.values())
    elsewhere = probe.model_copy(update={"identities": {"/gone/mine": {**known, "id": "/gone/mine", "revision": None}}})
    for name, measured, same in (
        ("acme/draft", "acme/draft", True),
        ("acme/draft", "acme/target", False),
        ("mine", str(tmp_path / "mine"), True),
        ("mine", "/gone/mine", True),
        ("moved", "/gone/mine", True),
        ("other", "/gone/mine", False),
        ("mine", "/gone/other", False),
        ("mine", "nul\0l", False),
    ):
        assert models.is_same(name, measured, elsewhere) is same, (name, measured)
    assert models.digests("Qwen/Qwen3-32B") is None


@pytest.mark.parametrize("part", ["tokenizer", "weights", "config"])
def test_a_part_that_changed_is_named(tmp_path: Path, part: str) -> None:
    folder_of(tmp_path / "mine")
    models = models_of(tmp_path, [])
    known = dict(models.digests("mine") or {})
    assert list(_changed("mine", None, known, models)) == []
    assert list(_changed("mine", None, {part: None}, models)) == []
    (found,) = _changed("mine", None, {**known, part: "0" * 64}, models)
    assert (found.status, found.reason) == ("stale", f"the {part} of mine changed since it was measured: measure again")
    assert str(found) == found.reason
    assert list(_changed("acme/gone", None, {part: "0" * 64}, models)) == []
    assert list(_changed("Qwen/Qwen3-32B", None, {part: "0" * 64}, models)) == []


# ---------------------------------------------------------------------- the command


def test_the_probe_is_put_in_place_after_its_trace(tmp_path: Path) -> None:
    """A probe that names a trace which is not there yet would be judged by half of it."""
    output = saved(tmp_path)
    before = output.read_bytes()
    found = read_probe(output)
    folders: list[Path] = []

    def probe(into: Path) -> Done:
        folders.append(into)
        into.with_suffix(".trace.jsonl").write_text("new", encoding="utf-8")
        return Done(found.model_copy(update={"created": "now"}), False)

    trace = tmp_path / "probe.trace.jsonl"
    trace.unlink()
    (trace / "full").mkdir(parents=True)
    with pytest.raises(CannotWrite) as caught:
        _measure(output, probe)
    assert caught.value.hint == "free some space, or check the folder's permissions"
    assert output.read_bytes() == before
    (trace / "full").rmdir()
    trace.rmdir()
    _measure(output, probe)
    assert read_probe(output).created == "now"
    assert trace.read_text(encoding="utf-8") == "new"
    assert {one.name for one in tmp_path.iterdir()} == {"probe.json", "probe.trace.jsonl"}
    assert {(into.parent.parent, into.name) for into in folders} == {(tmp_path, "probe.json")}


def test_an_interrupted_probe_leaves_what_was_there(tmp_path: Path) -> None:
    output = saved(tmp_path)
    before = output.read_bytes()
    found = read_probe(output)
    with pytest.raises(KeyboardInterrupt):
        _measure(output, lambda into: Done(found.model_copy(update={"created": "now"}), True))
    assert output.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "said", "hint"),
    [
        ("nowhere/probe.json", None, "the folder {} does not exist", "create it first"),
        ("probe.json", '{"kind": "gate"}', "what is there is no probe, and stays", "name another file as evidence"),
        ("probe.json", "x", "what is there is no probe, and stays", "name another file as evidence"),
    ],
)
def test_where_no_probe_is_written(tmp_path: Path, name: str, content: str | None, said: str, hint: str) -> None:
    output = tmp_path / name
    if content is not None:
        output.write_text(content, encoding="utf-8")
    called: list[Path] = []

    def probe(into: Path) -> Done:
        called.append(into)
        raise OSError("it was asked for")

    with pytest.raises(CannotWrite) as caught:
        _measure(output, probe)
    assert (str(caught.value), caught.value.hint) == (f"{output}: {said.format(output.parent)}", hint)
    assert called == []


def test_a_link_to_nowhere_stays(tmp_path: Path) -> None:
    os.symlink(tmp_path / "gone", tmp_path / "probe.json")
    with pytest.raises(CannotWrite, match="what is there is no probe"):
        _measure(tmp_path / "probe.json", lambda into: pytest.fail("it was measured"))


def test_an_error_without_a_number_is_told(tmp_path: Path) -> None:
    def probe(into: Path) -> Done:
        raise OSError("the disk is gone")

    with pytest.raises(CannotWrite) as caught:
        _measure(tmp_path / "probe.json", probe)
    assert str(caught.value) == f"{tmp_path / 'probe.json'}: the disk is gone"


@pytest.mark.parametrize(
    ("pair", "policy", "said", "hint"),
    [
        (
            {},
            {"allow": ["size-ratio", "x" * 99]},
            f"allow names no rule: '{'x' * 59}",
            "`draftpick rules` lists them all",
        ),
        ({"engine": "vlm"}, {}, "unknown engine", None),
    ],
)
def test_names_that_nobody_knows(pair: dict[str, Any], policy: dict[str, Any], said: str, hint: str | None) -> None:
    content = {"pair": [{**PAIR, "name": "fine"}, {**PAIR, **pair, "policy": policy}]}
    found = PolicyFile.model_validate(content)
    with pytest.raises(InvalidFile) as caught:
        _check_names(found, HERE, {"fine": 2, "a": 9}, setting_of)
    assert str(caught.value).startswith(f"{HERE}:9: {said}")
    assert caught.value.hint
    assert hint is None or (caught.value.hint, str(caught.value)) == (hint, f"{HERE}:9: {said}")
    _check_names(PolicyFile.model_validate({"pair": content["pair"][:1]}), HERE, {"fine": 2}, setting_of)


def gated(folder: Path, text: str, *, update: bool = False) -> tuple[Any, list[str]]:
    """The result of a policy with the seed's pair, and what was said."""
    path, said = folder / "pairs.toml", []
    path.write_text(text, encoding="utf-8")
    result = run(
        path, CATALOG, resolve=resolve, setting=setting_of, update=update, offline=True,
        consent=lambda what: False, say=said.append,
    )  # fmt: skip
    return result, said


def text_of(*names: str, top: str = "", failing: str = "") -> str:
    rows = (
        f'[[pair]]\nname = "{name}"\ntarget = "acme/target"\ndraft = "acme/draft"\nevidence = "probe.json"\n'
        + ("[pair.policy]\nmin_acceptance_rate = 1.0\n" if name == failing else "")
        for name in names
    )
    return f"{top}\n" + "".join(rows)


def test_a_baseline_is_taken_and_compared_with(tmp_path: Path) -> None:
    saved(tmp_path, lambda document: document.update(created="2026-01-01"))
    top = 'baseline = "kept.json"'
    result, said = gated(tmp_path, text_of("a", "b", top=top, failing="b"), update=True)
    place = tmp_path / "kept.json"
    assert said == [f"{place}: a written; pairs that fail keep what they had"]
    assert [one.passed for one in result.pairs] == [True, False]
    assert list(read_baseline(place).pairs) == ["a"]
    result, said = gated(tmp_path, text_of("a", "b", top=top))
    assert said == []
    assert [[one.status for one in pair.checks if one.name == "baseline"] for pair in result.pairs] == [
        ["passed"],
        ["missing"],
    ]
    result, said = gated(tmp_path, text_of("b", top=top, failing="b"), update=True)
    assert said == [f"{place}: no pair written; pairs that fail keep what they had"]
    result, said = gated(tmp_path, text_of("c", "d", top=top), update=True)
    assert said == [f"{place}: c, d written; pairs that fail keep what they had"]
    assert (list(read_baseline(place).pairs), {one.name for one in tmp_path.iterdir()}) == (
        ["c", "d"],
        {"kept.json", "pairs.toml", "probe.json", "probe.trace.jsonl"},
    )


def test_a_name_that_nobody_knows_ends_a_gate(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(InvalidFile, match="allow names no rule"):
        gated(tmp_path, text_of("a", top='[defaults]\nallow = ["size"]'))


def test_an_update_needs_a_baseline(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(UsageError) as caught:
        gated(tmp_path, text_of("a"), update=True)
    assert str(caught.value) == f"{tmp_path / 'pairs.toml'} names no baseline"
    assert caught.value.hint == 'add a line `baseline = "baseline.json"` before its first pair'
    assert gated(tmp_path, text_of("a"))[0].passed


def test_pairs_that_were_not_measured_are_not_written(tmp_path: Path) -> None:
    saved(tmp_path)
    facts = '[[pair]]\nname = "facts"\ntarget = "Qwen/Qwen3-32B"\ndraft = "Qwen/Qwen3-0.6B"\n'
    result, said = gated(tmp_path, f'baseline = "kept.json"\n{facts}', update=True)
    assert result.passed
    assert said == [f"{tmp_path / 'kept.json'}: no pair written; pairs that fail keep what they had"]


def test_a_baseline_is_put_into_a_folder_that_is_there(tmp_path: Path) -> None:
    saved(tmp_path)
    found = outcome_of(tmp_path, {}, {})
    policy = PolicyFile.model_validate({"pair": [PAIR]})
    with pytest.raises(CannotWrite) as caught:
        _write_baseline(tmp_path / "no" / "b.json", policy, found)
    assert str(caught.value) == f"{tmp_path / 'no' / 'b.json'}: the folder {tmp_path / 'no'} does not exist"
    assert caught.value.hint == "create it first"
    assert _write_baseline(tmp_path / "b.json", policy, found) == ["a"]


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(("size", "good"), [(16 << 20, True), ((16 << 20) + 1, False)])
def test_how_large_a_baseline_may_be(tmp_path: Path, size: int, good: bool) -> None:
    path, text = tmp_path / "b.json", b'{"schema_version": "1", "kind": "baseline", "pairs": {}}'
    path.write_bytes(text.ljust(size))
    if good:
        assert read_baseline(path).pairs == {}
    else:
        with pytest.raises(InvalidFile):
            read_baseline(path)


def test_a_baseline_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert read_baseline(path) == BaselineFile(schema_version="1", kind="baseline", pairs={})
    rows = {"ä": row(0.5, prompts=2), "b": row(0.25, prompts=1, by_prompt={})}
    whole = BaselineFile(schema_version="1", kind="baseline", pairs=rows)
    text = whole.text()
    path.write_text(text, encoding="utf-8")
    assert read_baseline(path) == whole
    assert '        "0": {"accepted": 500.0, "domain": "", "positions": 1000.0},\n' in text
    assert text.index('"b": {') < text.index('"ä": {')
    assert text.startswith('{\n  "kind": "baseline",\n')
    assert text.endswith("}\n")


def test_a_baseline_that_is_wrong_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text('{"schema_version": "1", "kind": "baseline", "pairs": {"a": {}}}', encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_baseline(path)
    assert str(caught.value) == f"{path}: pairs.a.target: Field required"
    assert caught.value.hint == (
        "take the last good version back from version control, or delete it and use --update-baseline"
    )


@pytest.mark.parametrize(("low", "high", "good"), [(0.0, 1.0, True), (-0.1, 1.0, False), (0.0, 1.1, False)])
def test_the_rate_of_a_baseline_is_a_share(low: float, high: float, good: bool) -> None:
    rate = IntervalRecord(value=0.5, low=low, high=high, level=0.95)
    if good:
        assert row(0.5, acceptance_rate=rate).acceptance_rate == rate
    else:
        with pytest.raises(ValidationError, match="acceptance_rate is no share"):
            row(0.5, acceptance_rate=rate)


def test_a_result_reads_back(tmp_path: Path) -> None:
    saved(tmp_path)
    result = outcome_of(tmp_path, {"min_acceptance_rate": 0.9}, {}).result
    document = json.loads(result.model_dump_json())
    assert checked_gate(document, HERE) == result
    with pytest.raises(InvalidFile) as caught:
        checked_gate({**document, "pairs": 1}, HERE)
    assert str(caught.value).startswith(f"{HERE}: pairs: ")
    assert caught.value.hint.endswith("judge again with --json")


TOP = '[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\n'
NO_KEY = "no such key"
MEND = "mend that line"


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        (f"basline = 1\n{TOP}", 1, f"basline: {NO_KEY}", "did you mean baseline?"),
        (f"zzz = 1\n{TOP}", 1, f"zzz: {NO_KEY}", "known there: schema_version, baseline, defaults, pair"),
        (f"[defaults]\nmin_scor = 1\n{TOP}", 2, f"defaults.min_scor: {NO_KEY}", "did you mean min_score?"),
        (f"{TOP}[pair.policy]\nfail-on = 1", 6, f"pair.0.policy.fail-on: {NO_KEY}", "did you mean fail_on?"),
        (f"{TOP}tp = 1", 5, f"pair.0.tp: {NO_KEY}", "did you mean tensor_parallel_size?"),
        (f"{TOP}tp_size = 1", 5, f"pair.0.tp_size: {NO_KEY}", "did you mean tensor_parallel_size?"),
        (f"{TOP}max-num-seqs = 1", 5, f"pair.0.max-num-seqs: {NO_KEY}", "did you mean max_num_seqs?"),
        (f"{TOP}min_score = 1", 5, f"pair.0.min_score: {NO_KEY}", None),
        (f'{TOP}[[pair.waivers]]\nchek = "speedup"\n', 6, f"pair.0.waivers.0.chek: {NO_KEY}", "did you mean check?"),
        (f"{TOP}[[pair.waivers]]\nzzz = 1\n", 6, f"pair.0.waivers.0.zzz: {NO_KEY}",
         "known there: check, reason, expires"),
        (f"{'x' * 60} = 1\n{TOP}", 1, f"{'x' * 60}: {NO_KEY}", None),
        (f"{'x' * 61} = 1\n{TOP}", 1, f"{'x' * 60}: {NO_KEY}", None),
        (f"{TOP}temperature = 11.0", 5, "pair.0.temperature: Input should be less than or equal to 10", MEND),
        (f"[defaults]\nmin_score = nan\n{TOP}", 2, "defaults.min_score: Input should be a finite number", MEND),
        (f"{TOP}probe = 1", 5, "pair.0.probe: Input should be a valid boolean", MEND),
        ("pair = []", 1, "pair: List should have at least 1 item after validation, not 0", MEND),
        ('pair = [{name = "a"}]\n', 1, "pair.0.target: Field required", MEND),
        (f"[defaults]\nmin_score = 101.0\n[x]\n{TOP}", 3, f"x: {NO_KEY}", None),
        (f"{TOP}\n{TOP}", 7, "a second pair is named 'a'; the first stands in line 2",
         "give each pair a name of its own: baselines and reports are kept by it"),
        (TOP + 'prompts = "p"', 1, "pair.0: Value error, prompts and max_new_tokens are for probe = true", MEND),
    ],
)  # fmt: skip
def test_a_policy_that_is_refused(tmp_path: Path, text: str, line: int, said: str, hint: str | None) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_policy(path)
    assert str(caught.value) == f"{path}:{line}: {said}"
    assert hint is None or caught.value.hint == hint
    assert caught.value.hint


def test_a_long_key_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text(f"{TOP}[pair.policy.{'.'.join(letter * 61 for letter in 'ab')}]\nx = 1\n", encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_policy(path)
    assert f": pair.0.policy.{'a' * 60}: no such key" in str(caught.value)


def test_a_policy_stays_as_it_was_read() -> None:
    policy = Policy.model_validate({"min_score": 1.0})
    with pytest.raises(ValidationError):
        policy.min_score = 2.0
    assert policy.min_score == 1.0


def test_a_policy_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    with pytest.raises(UsageError) as missing:
        read_policy(path)
    assert str(missing.value) == f"{path}: no such policy file"
    assert missing.value.hint == "write one from an answer: draftpick gate --init advice.json -o pairs.toml"
    path.write_text("[[pair\n", encoding="utf-8")
    with pytest.raises(InvalidFile) as broken:
        read_policy(path)
    assert (str(broken.value).startswith(f"{path}: not valid TOML"), broken.value.hint) == (True, "mend the file")
    path.write_bytes(b"\xef\xbb\xbf" + TOP.replace('"a"', '"ä"').encode())
    policy, lines = read_policy(path)
    assert (policy.pair[0].name, lines) == ("ä", {"ä": 2})
