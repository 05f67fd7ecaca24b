"""The gate from end to end: real probes of a real pair, policies as files, exit codes as CI sees them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, command, environment, run, spawn
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.advice_file import AdviceFile
from draftpick.errors import UsageError
from draftpick.gate_file import BaselineRow, PromptSums, read_baseline, read_policy
from draftpick.gating.baseline import difference_of
from draftpick.gating.start import first_policy
from draftpick.probe_file import IntervalRecord, read_probe
from draftpick.toml_file import Lines, tomllib

DEMO = Path(__file__).parents[1] / "catalog" / "demo"
TARGET, DRAFT = str(DEMO / "target"), str(DEMO / "draft")
LAW = settings(deadline=None, derandomize=True, max_examples=60)


pytestmark = pytest.mark.usefixtures("one_thread")


def measured(folder: Path, name: str, draft: str, *options: str) -> Path:
    """A probe of 64 prompts, without timings."""
    path = folder / f"{name}.json"
    given = ("--prompts", str(DEMO / "prompts.jsonl"), "--max-new-tokens", "24", "--precision", "0")
    answer = run("probe", TARGET, draft, "-o", str(path), *given, "--costs", "roofline", "--exit-zero", *options)
    assert answer.exit_code == 0, answer.stderr
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("sound"), "probe", DRAFT)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a draft whose last layer was disturbed: it loses more than ten points of acceptance."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(DRAFT, folder / "draft")
    weights = load_file(folder / "draft" / "model.safetensors")
    noise = torch.Generator().manual_seed(0)
    for name, value in weights.items():
        if name.endswith("down_proj.weight"):
            disturbance = 0.5 * value.float().std() * torch.randn(value.shape, generator=noise)
            weights[name] = value + disturbance.to(value.dtype)
    save_file(weights, folder / "draft" / "model.safetensors", metadata={"format": "pt"})
    return measured(folder, "probe", str(folder / "draft"))


def placed(folder: Path, probe: Path, change: Callable[[dict[str, Any]], None] = lambda document: None) -> Path:
    """A copy of a probe and its trace, with the document changed."""
    document = json.loads(probe.read_text(encoding="utf-8"))
    change(document)
    (folder / "probe.json").write_text(json.dumps(document), encoding="utf-8")
    shutil.copy(probe.with_suffix(".trace.jsonl"), folder / "probe.trace.jsonl")
    return folder / "probe.json"


def policy(folder: Path, *lines: str, draft: str = DRAFT, name: str = "demo", top: str = "", pair: str = "") -> Path:
    """A policy of one pair whose evidence is probe.json, with these thresholds."""
    path = folder / "pairs.toml"
    path.write_text(
        f'{top}\n[[pair]]\nname = "{name}"\ntarget = "{TARGET}"\ndraft = "{draft}"\nevidence = "probe.json"\n{pair}\n'
        "[pair.policy]\n" + "\n".join(lines),
        encoding="utf-8",
    )
    return path


def gated(path: Path, *options: str) -> tuple[Answer, dict[str, dict[str, Any]]]:
    """The answer, and the checks of its first pair by name."""
    answer = run("gate", str(path), "--json", *options)
    assert answer.stdout, answer.stderr
    return answer, {check["name"]: check for check in answer.document["pairs"][0]["checks"]}


# ---------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("line", "check", "status", "code"),
    [
        ("min_acceptance_rate = 0.3", "acceptance_rate", "passed", 0),
        ("min_acceptance_rate = 0.9", "acceptance_rate", "failed", 1),
        ("min_mean_acceptance_length = 1.2", "mean_acceptance_length", "passed", 0),
        ("min_mean_acceptance_length = 4.0", "mean_acceptance_length", "failed", 1),
        ("min_speedup = 0.01", "speedup", "passed", 0),
        ("min_speedup = 9.0", "speedup", "failed", 1),
        ("min_score = 10.0", "score", "passed", 0),
        ("min_score = 100.0", "score", "failed", 1),
        ("min_coverage = 0.1", "coverage", "passed", 0),
        ("min_coverage = 1.0", "coverage", "failed", 1),
        ('engine_verdict = "care"', "engine", "passed", 0),
        ("must_fit = true", "memory", "passed", 0),
        ("min_prompts = 64", "evidence", "passed", 0),
        ("min_prompts = 65", "evidence", "doubtful", 3),
        ("max_age_days = 1", "evidence", "passed", 0),
        ('fail_on = "reject"', "findings", "passed", 0),
        ('fail_on = "warn"', "findings", "failed", 1),
        ('fail_on = "warn"\nallow = ["size-ratio", "target-size"]', "findings", None, None),
        ("max_k_drift = 16", "num_spec_tokens", "passed", 0),
    ],
)
def test_each_threshold(
    sound: Path, tmp_path: Path, line: str, check: str, status: str | None, code: int | None
) -> None:
    placed(tmp_path, sound)
    place = 'engine = "llama.cpp"\ndevice = "h100-80g"\nnum_spec_tokens = 3'
    answer, checks = gated(policy(tmp_path, line, pair=place))
    assert check in checks
    if status is not None:
        assert (checks[check]["status"], answer.exit_code) == (status, code)


@pytest.mark.parametrize("pair", ["", 'engine = "llama.cpp"', 'device = "h100-80g"'])
@pytest.mark.parametrize(("line", "check"), [("min_speedup = 0.01", "speedup"), ("max_k_drift = 1", "num_spec_tokens")])
def test_no_speed_is_judged_by_an_assumed_place(sound: Path, tmp_path: Path, pair: str, line: str, check: str) -> None:
    placed(tmp_path, sound)
    answer, checks = gated(policy(tmp_path, line, pair=f"num_spec_tokens = 2\n{pair}"))
    assert (checks[check]["status"], answer.exit_code) == ("missing", 1)
    assert "names no engine and device" in checks[check]["reason"]


def test_thresholds_compare_with_the_lower_bound(sound: Path, tmp_path: Path) -> None:
    """Between bound and value a pair fails: chance alone could have given the value."""
    document = json.loads(placed(tmp_path, sound).read_text(encoding="utf-8"))
    rate = document["drafts"][0]["acceptance_rate"]
    for least, code in ((rate["low"], 0), ((rate["low"] + rate["value"]) / 2, 1)):
        answer, checks = gated(policy(tmp_path, f"min_acceptance_rate = {least}"))
        assert answer.exit_code == code
        assert checks["acceptance_rate"]["bound"] == pytest.approx(rate["low"])
        assert checks["acceptance_rate"]["value"] == pytest.approx(rate["value"])


def test_defaults_hold_for_pairs_that_do_not_say_otherwise(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    top = "[defaults]\nmin_acceptance_rate = 0.9\nmin_score = 1.0\n"
    _, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1", top=top))
    assert checks["acceptance_rate"]["threshold"] == 0.1
    assert checks["score"]["threshold"] == 1.0


def test_each_check_carries_its_figures(sound: Path, tmp_path: Path) -> None:
    """What was found, the bound that was compared, and what was asked for; at that very figure a pair passes."""
    document = json.loads(placed(tmp_path, sound).read_text(encoding="utf-8"))
    record = document["drafts"][0]
    place = 'engine = "llama.cpp"\ndevice = "h100-80g"\nnum_spec_tokens = 3'
    asked = {"min_score": 0.0, "min_coverage": 0.0, "min_acceptance_rate": 0.0, "min_mean_acceptance_length": 0.0}
    lines = [f"{name} = {value}" for name, value in (asked | {"min_speedup": 0.0}).items()]
    _, checks = gated(policy(tmp_path, *lines, "max_k_drift = 0", 'engine_verdict = "care"', pair=place))
    found = {name: (one["value"], one["bound"], one["threshold"]) for name, one in checks.items()}
    rate, length = record["acceptance_rate"], record["by_k"][3]
    assert found["acceptance_rate"] == pytest.approx((rate["value"], rate["low"], 0.0))
    lowest = length["mean_acceptance_length_low"]
    assert found["mean_acceptance_length"] == pytest.approx((length["mean_acceptance_length"], lowest, 0.0))
    assert found["score"][1:] == found["coverage"][1:] == (None, 0.0)
    assert found["engine"][::2] == ("accepted", "care")
    assert found["speedup"][1] < found["speedup"][0]
    assert found["num_spec_tokens"][2] == 0.0
    assert checks["num_spec_tokens"]["baseline"] == 3.0
    assert found["findings"] == (None, None, "reject")
    assert found["evidence"] == (64.0, None, None)
    bounds = {
        "min_score": found["score"][0],
        "min_coverage": found["coverage"][0],
        "min_acceptance_rate": found["acceptance_rate"][1],
        "min_mean_acceptance_length": lowest,
        "min_speedup": found["speedup"][1],
    }
    assert 0 < bounds["min_coverage"] < 1 < bounds["min_score"] < 100
    for share, status, code in ((1.0, "passed", 0), (1.001, "failed", 1)):
        answer, checks = gated(
            policy(tmp_path, *(f"{name} = {value * share!r}" for name, value in bounds.items()), pair=place)
        )
        names = ("score", "coverage", "acceptance_rate", "mean_acceptance_length", "speedup")
        assert [checks[name]["status"] for name in names] == [status] * 5
        assert answer.exit_code == code


@pytest.mark.parametrize(
    ("lines", "pair", "check", "status", "said"),
    [
        ("must_fit = true", "", "memory", "missing", "names no device"),
        ('engine_verdict = "care"', "", "engine", "missing", "names no engine"),
        ('engine_verdict = "accepted"', 'engine = "llama.cpp"', "engine", "passed", ": accepted: "),
        ('engine_verdict = "accepted"', 'engine = "mindie"', "engine", "failed", ": refused: "),
        ("min_mean_acceptance_length = 1.0", "num_spec_tokens = 8", "mean_acceptance_length", "passed", "k = 8"),
        (
            "min_mean_acceptance_length = 1.0",
            "num_spec_tokens = 9",
            "mean_acceptance_length",
            "missing",
            "up to 8 tokens",
        ),
        ('fail_on = "reject"', "", "findings", "passed", "no rule rejects it"),
        ('fail_on = "warn"', "", "findings", "failed", "target-size: "),
        ('fail_on = "warn"\nallow = ["size-ratio"]', "", "findings", "failed", "target-size: "),
        ('fail_on = "warn"\nallow = ["size-ratio", "target-size"]', "", "findings", "passed", "rejects it or warns"),
    ],
)
def test_what_each_check_says(
    sound: Path, tmp_path: Path, lines: str, pair: str, check: str, status: str, said: str
) -> None:
    placed(tmp_path, sound)
    _, checks = gated(policy(tmp_path, lines, pair=pair))
    assert (checks[check]["status"], said in checks[check]["reason"]) == (status, True), checks[check]


def test_a_pair_is_measured_now(tmp_path: Path) -> None:
    """The probe and its trace are put in their place whole, and the pair is judged by them."""
    shutil.copy(DEMO / "prompts.jsonl", tmp_path / "asked.jsonl")
    asked = 'probe = true\nprompts = "asked.jsonl"\nmax_new_tokens = 12\nnum_spec_tokens = 3'
    answer, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.9", pair=asked))
    assert (answer.exit_code, checks["acceptance_rate"]["status"]) == (1, "failed")
    assert checks["evidence"]["value"] == 64.0
    made = {"asked.jsonl", "pairs.toml", "probe.json", "probe.trace.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == made
    probe = read_probe(tmp_path / "probe.json")
    assert (probe.drafts[0].num_prompts, len(probe.drafts[0].by_k)) == (64, 9)
    (tmp_path / "probe.json").unlink()
    path = policy(tmp_path, "min_acceptance_rate = 0.1", pair=asked)
    path.write_text(path.read_text(encoding="utf-8").replace('"probe.json"', '"nowhere/probe.json"'), encoding="utf-8")
    answer, checks = gated(path)
    assert (answer.exit_code, checks["evidence"]["status"]) == (3, "missing")
    assert "create it first" in checks["evidence"]["reason"]
    assert {path.name for path in tmp_path.iterdir()} == made - {"probe.json"}


# ---------------------------------------------------------------------- evidence


def _aged(document: dict[str, Any]) -> None:
    document["created"] = "2020-01-01T00:00:00+00:00"


def _dated(created: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(created=created)


def _identity(place: str, part: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["identities"][place].update({part: "0" * 64})


def _doubted(document: dict[str, Any]) -> None:
    document["drafts"][0]["doubts"].append("unstable timings")
    document["drafts"][0]["timing_doubts"].append("unstable timings")


@pytest.mark.parametrize(
    ("change", "lines", "status", "said"),
    [
        (_aged, ["max_age_days = 30"], "stale", "days old; max_age_days = 30"),
        (_aged, [], "passed", "64 prompts"),
        (_dated("2999-01-01T00:00:00+00:00"), [], "stale", "lies in the future"),
        (_dated("yesterday"), [], "stale", "is none"),
        (lambda one: one["tool"].update(version="9.0.0"), [], "stale", "measure again"),
        (_identity(TARGET, "tokenizer"), [], "stale", "the tokenizer of"),
        (_identity(TARGET, "weights"), [], "stale", "the weights of"),
        (_identity(DRAFT, "weights"), [], "stale", "the weights of"),
        (_identity(DRAFT, "config"), [], "stale", "the config of"),
        (lambda one: one["doubts"].append("self-check failed: x"), [], "doubtful", "self-check failed"),
        (_doubted, [], "passed", "64 prompts"),
        (_doubted, ["min_speedup = 0.01"], "doubtful", "unstable timings"),
        (lambda one: one["drafts"].clear(), [], "missing", "measured no draft"),
        (lambda one: one["target"].update(id="acme/other"), [], "missing", "measured the target acme/other"),
        (lambda one: one.pop("drafts"), [], "missing", "drafts: Field required"),
        (lambda one: one.update(schema_version="0"), [], "missing", "schema_version"),
        (lambda one: one["trace"].update(sha256="0" * 64), [], "missing", "is not the trace"),
    ],
)
def test_evidence_that_does_not_hold_fails_with_its_own_reason(
    sound: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], lines: list[str], status: str, said: str
) -> None:
    placed(tmp_path, sound, change)
    answer, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1", *lines))
    assert checks["evidence"]["status"] == status
    assert said in checks["evidence"]["reason"]
    assert answer.exit_code == (0 if status == "passed" else 3)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ('revision = "abc"', None),
        ("temperature = 0.7", "measured nothing at temperature 0.7; it holds 0"),
    ],
)
def test_what_a_pair_asks_of_its_evidence(sound: Path, tmp_path: Path, pair: str, said: str | None) -> None:
    placed(tmp_path, sound)
    _, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1", pair=pair))
    assert checks["evidence"]["status"] == ("missing" if said else "passed")
    assert (said or "64 prompts") in checks["evidence"]["reason"]


def test_another_revision_is_stale(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound, lambda one: one["identities"][TARGET].update(revision="old"))
    _, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1", pair='revision = "new"'))
    assert checks["evidence"]["status"] == "stale"
    assert "at revision old, the policy names new" in checks["evidence"]["reason"]


@pytest.mark.parametrize(
    ("stopped", "traced", "said"),
    [
        ("the decision is clear after 16 prompts", True, ["nominal"]),
        ("all 64 prompts were used", False, ["without pairing"]),
        ("all 64 prompts were used", True, []),
    ],
)
def test_what_decides_nothing_is_noted(kept: Path, stopped: str, traced: bool, said: list[str]) -> None:
    probe = kept.parent / "probe.json"
    document = json.loads(probe.read_text(encoding="utf-8"))
    document["drafts"][0]["stopped_by"] = stopped
    probe.write_text(json.dumps(document), encoding="utf-8")
    if not traced:
        (kept.parent / "probe.trace.jsonl").unlink()
    answer = run("gate", str(kept), "--json")
    noted = [one["reason"] for one in answer.document["pairs"][0]["checks"] if one["status"] == "noted"]
    assert (answer.exit_code, len(noted)) == (0, len(said))
    assert all(word in reason for word, reason in zip(said, noted, strict=True))


def test_a_threshold_without_evidence_fails(tmp_path: Path) -> None:
    """A statistic that is missing is no pass."""
    path = policy(tmp_path, "min_acceptance_rate = 0.1")
    answer, checks = gated(path)
    assert (answer.exit_code, checks["evidence"]["status"]) == (3, "missing")
    path.write_text(path.read_text(encoding="utf-8").replace('evidence = "probe.json"\n', ""), encoding="utf-8")
    answer, checks = gated(path)
    assert (answer.exit_code, checks["evidence"]["status"]) == (3, "missing")


def test_a_k_beyond_what_was_measured_fails_with_its_reason(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    answer, checks = gated(policy(tmp_path, "min_speedup = 0.5", pair="num_spec_tokens = 20"))
    assert not answer.document["passed"]
    assert "up to 8 tokens" in json.dumps(checks)


@pytest.mark.parametrize(
    ("lines", "top", "status", "code"),
    [
        (["max_k_drift = 0"], "", "missing", 1),
        (["max_k_drift = 0"], 'baseline = "none.json"', "missing", 1),
        ([], "", None, 0),
    ],
)
def test_a_drift_from_nothing_is_no_pass(
    sound: Path, tmp_path: Path, lines: list[str], top: str, status: str | None, code: int
) -> None:
    placed(tmp_path, sound)
    answer, checks = gated(policy(tmp_path, *lines, top=top))
    found = checks.get("num_spec_tokens")
    assert (found["status"] if found else None, answer.exit_code) == (status, code)


def test_a_pair_that_names_no_engine_is_judged_as_it_was_measured(sound: Path, tmp_path: Path) -> None:
    """An assumed engine may draft otherwise than that which was measured."""

    def otherwise(document: dict[str, Any]) -> None:
        one = document["drafts"][0]
        others = {"proposal": "sampled", "way": "first_choice", "acceptance_rate": one["acceptance_rate"]}
        one["other_proposals"] = [{**others, "mean_acceptance_lengths": []}]
        one.update(way="sampled", acceptance_rate={"value": 0.9, "low": 0.85, "high": 0.95, "level": 0.95})

    placed(tmp_path, sound, otherwise)
    (tmp_path / "probe.trace.jsonl").unlink()
    for pair, value in (("", 0.9), ('engine = "vllm"', pytest.approx(0.53, abs=0.05))):
        _, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1", pair=pair))
        assert checks["acceptance_rate"]["value"] == value


@pytest.mark.parametrize("fail_on", ["reject", "warn"])
def test_a_rejection_fails_whatever_else_does(tmp_path: Path, fail_on: str) -> None:
    path = policy(tmp_path, f'fail_on = "{fail_on}"', draft=TARGET)
    path.write_text(path.read_text(encoding="utf-8").replace('evidence = "probe.json"', ""), encoding="utf-8")
    answer, checks = gated(path)
    assert (answer.exit_code, checks["findings"]["status"]) == (1, "failed")
    assert "self-draft" in checks["findings"]["value"]
    assert checks["findings"]["reason"].split(": ")[1].endswith("is the target itself.")


def test_what_does_not_fit_fails(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    place = 'device = "h100-80g"\nmax_num_seqs = 1048576\nmax_model_len = 1048576'
    answer, checks = gated(policy(tmp_path, "must_fit = true", pair=place))
    assert (answer.exit_code, checks["memory"]["status"]) == (1, "failed")
    assert "it does not fit on 1 × h100-80g" in checks["memory"]["reason"]


def test_without_a_k_the_best_is_judged(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    place = 'engine = "llama.cpp"\ndevice = "h100-80g"'
    lines = ("min_speedup = 0.01", "min_mean_acceptance_length = 1.0")
    path = policy(tmp_path, *lines, pair=place, top='baseline = "baseline.json"')
    assert run("gate", str(path), "--update-baseline").exit_code == 0
    _, checks = gated(path)
    best = read_baseline(tmp_path / "baseline.json").pairs["demo"].num_spec_tokens
    assert best is not None
    for name in ("speedup", "mean_acceptance_length"):
        assert (checks[name]["status"], f"k = {best}" in checks[name]["reason"]) == ("passed", True)


def test_a_baseline_needs_its_folder(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    answer = run("gate", str(policy(tmp_path, top='baseline = "nowhere/b.json"')), "--update-baseline")
    assert (answer.exit_code, "create it first" in answer.stderr) == (3, True)


def test_the_first_of_several_mistakes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text('[defaults]\nmin_score = 101.0\nmin_speedup = -1.0\n[[pair]]\nname = "a"\n', encoding="utf-8")
    answer = run("gate", str(path))
    assert f"{path}:2: defaults.min_score" in answer.stderr


@pytest.mark.parametrize(
    ("doubts", "said"),
    [(["a"], "a"), (["a", "b"], "a (and 1 more doubts)"), (["a", "b", "c"], "a (and 2 more doubts)")],
)
def test_doubts_are_counted(sound: Path, tmp_path: Path, doubts: list[str], said: str) -> None:
    placed(tmp_path, sound, lambda document: document.update(doubts=doubts))
    _, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.1"))
    assert (checks["evidence"]["status"], checks["evidence"]["reason"]) == ("doubtful", said)


def test_a_drift_is_let_pass_as_far_as_is_asked_or_where_it_costs_little(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    place = 'engine = "llama.cpp"\ndevice = "h100-80g"\nnum_spec_tokens = 8'
    _, checks = gated(policy(tmp_path, "max_k_drift = 16", pair=place))
    drift = 8 - int(checks["num_spec_tokens"]["value"])
    share = int(re.findall(r"gives (\d+) %", checks["num_spec_tokens"]["reason"])[0])
    assert drift > 0
    assert share < 95
    for most, status in ((drift, "passed"), (drift - 1, "failed")):
        _, checks = gated(policy(tmp_path, f"max_k_drift = {most}", pair=place))
        assert (checks["num_spec_tokens"]["status"], checks["num_spec_tokens"]["threshold"]) == (status, most)


def test_of_several_temperatures_the_first_counts(sound: Path, tmp_path: Path) -> None:
    def warmer(document: dict[str, Any]) -> None:
        document["drafts"].append({**document["drafts"][0], "temperature": 0.7, "num_prompts": 63})

    placed(tmp_path, sound, warmer)
    for pair, prompts in (("", 64.0), ("temperature = 0.0", 64.0), ("temperature = 0.7", 63.0)):
        _, checks = gated(policy(tmp_path, "min_prompts = 1", pair=pair))
        assert (checks["evidence"]["status"], checks["evidence"]["value"]) == ("passed", prompts)


def test_a_name_that_is_too_long_is_no_file(tmp_path: Path) -> None:
    path = policy(tmp_path, "min_acceptance_rate = 0.1")
    path.write_text(path.read_text(encoding="utf-8").replace("probe.json", "p" * 280), encoding="utf-8")
    _, checks = gated(path)
    assert "there is no such probe file" in checks["evidence"]["reason"]


def test_models_that_are_gone_are_judged_as_the_probe_knew_them(sound: Path, tmp_path: Path) -> None:
    """CI has no weights: what was saved is enough."""

    def rename(document: dict[str, Any]) -> None:
        text = json.dumps(document).replace(TARGET, "acme/target").replace(DRAFT, "acme/draft")
        document.clear()
        document.update(json.loads(text))

    placed(tmp_path, sound, rename)
    (tmp_path / "probe.trace.jsonl").unlink()
    path = policy(tmp_path, "min_acceptance_rate = 0.3", "min_score = 1.0", draft="acme/draft")
    path.write_text(path.read_text(encoding="utf-8").replace(TARGET, "acme/target"), encoding="utf-8")
    answer, checks = gated(path)
    assert answer.exit_code == 0, answer.stdout
    assert {"evidence", "findings", "score", "acceptance_rate"} <= checks.keys()


def test_a_model_that_is_not_found_fails_its_pair_alone(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    path = policy(tmp_path, "min_acceptance_rate = 0.1")
    second = '\n[[pair]]\nname = "other"\ntarget = "acme/nowhere"\ndraft = "acme/neither"\n'
    path.write_text(path.read_text(encoding="utf-8") + second, encoding="utf-8")
    answer = run("gate", str(path), "--json")
    first, other = answer.document["pairs"]
    assert (first["passed"], other["passed"], other["judged"], answer.exit_code) == (True, False, False, 1)
    assert other["checks"][0]["status"] == "missing"


# ---------------------------------------------------------------------- baselines


@pytest.fixture
def kept(sound: Path, tmp_path: Path) -> Path:
    """A policy with a baseline taken from the sound pair."""
    placed(tmp_path, sound)
    path = policy(tmp_path, top='baseline = "baseline.json"')
    assert run("gate", str(path)).exit_code == 1, "no baseline yet"
    assert run("gate", str(path), "--update-baseline").exit_code == 0
    return path


def _repaired(path: Path, probe: Path) -> None:
    """The probe of the broken draft, under the name of the sound one, as after a change of its weights."""
    broken_draft = str(probe.parent / "draft")

    def rename(document: dict[str, Any]) -> None:
        text = json.dumps(document).replace(broken_draft, DRAFT)
        document.clear()
        document.update(json.loads(text))
        document["identities"][DRAFT] = {}

    placed(path.parent, probe, rename)
    trace = path.parent / "probe.trace.jsonl"
    trace.write_text(trace.read_text(encoding="utf-8").replace(broken_draft, DRAFT), encoding="utf-8")
    document = json.loads((path.parent / "probe.json").read_text(encoding="utf-8"))
    from draftpick.probe_file import sha256

    document["trace"]["sha256"] = sha256(trace)
    (path.parent / "probe.json").write_text(json.dumps(document), encoding="utf-8")


def test_an_unchanged_pair_is_no_worse(kept: Path) -> None:
    answer, checks = gated(kept)
    assert answer.exit_code == 0
    assert "paired over 64 prompts" in checks["baseline"]["reason"]
    assert "not worse" in checks["baseline"]["reason"]


@pytest.mark.parametrize("with_prompts", [True, False], ids=["paired", "unpaired"])
def test_a_broken_draft_is_caught_and_named(kept: Path, broken: Path, with_prompts: bool) -> None:
    if not with_prompts:
        baseline = json.loads((kept.parent / "baseline.json").read_text(encoding="utf-8"))
        baseline["pairs"]["demo"]["by_prompt"] = {}
        (kept.parent / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    _repaired(kept, broken)
    answer, checks = gated(kept)
    check = checks["baseline"]
    assert (answer.exit_code, check["status"]) == (1, "failed")
    assert check["value"] < check["baseline"] - 0.1
    assert check["bound"] < check["threshold"] < 0
    assert ("paired over 64" in check["reason"]) == with_prompts
    table = run("gate", str(kept)).stdout
    for said in ("demo", "baseline", f"{check['value']:.3f}", f"{check['baseline']:.3f}", f"{check['bound']:+.3f}"):
        assert said in table


def test_a_tolerance_lets_a_known_loss_pass(kept: Path, broken: Path) -> None:
    _repaired(kept, broken)
    kept.write_text(kept.read_text(encoding="utf-8") + "\ntolerance = 0.6\n", encoding="utf-8")
    assert gated(kept)[0].exit_code == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("temperature", 0.7), ("way", "sampled"), ("prompts", "others.jsonl"), ("engine", "vllm"), ("max_new_tokens", 99)],
)
def test_a_baseline_taken_otherwise_compares_with_nothing(kept: Path, key: str, value: object) -> None:
    path = kept.parent / "baseline.json"
    baseline = json.loads(path.read_text(encoding="utf-8"))
    baseline["pairs"]["demo"][key] = value
    path.write_text(json.dumps(baseline), encoding="utf-8")
    answer, checks = gated(kept)
    assert (answer.exit_code, checks["baseline"]["status"]) == (1, "stale")


def test_a_new_baseline_is_taken_of_pairs_that_pass_alone(kept: Path, broken: Path) -> None:
    before = (kept.parent / "baseline.json").read_bytes()
    _repaired(kept, broken)
    text = kept.read_text(encoding="utf-8")
    kept.write_text(f"{text}\nmin_acceptance_rate = 0.9\n", encoding="utf-8")
    assert run("gate", str(kept), "--update-baseline").exit_code == 1
    assert (kept.parent / "baseline.json").read_bytes() == before
    kept.write_text(text, encoding="utf-8")
    assert run("gate", str(kept), "--update-baseline").exit_code == 0
    assert (kept.parent / "baseline.json").read_bytes() != before


def test_a_baseline_reads_well_in_a_diff(kept: Path) -> None:
    text = (kept.parent / "baseline.json").read_text(encoding="utf-8")
    assert len(re.findall(r'^        "[0-9a-f]{16}": \{"accepted": .*\},?$', text, re.MULTILINE)) == 64
    assert read_baseline(kept.parent / "baseline.json").text() == text


def test_pairs_that_are_gone_leave_the_baseline(kept: Path) -> None:
    kept.write_text(kept.read_text(encoding="utf-8").replace('"demo"', '"renamed"'), encoding="utf-8")
    assert run("gate", str(kept), "--update-baseline").exit_code == 0
    assert list(read_baseline(kept.parent / "baseline.json").pairs) == ["renamed"]


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": "9", "kind": "baseline", "pairs": {}}', "\x00"])
def test_a_baseline_that_is_none_is_told(kept: Path, content: str) -> None:
    (kept.parent / "baseline.json").write_text(content, encoding="utf-8")
    answer = run("gate", str(kept))
    assert (answer.exit_code, "baseline.json" in answer.stderr) == (2, True)


def _one_prompt(row: dict[str, Any]) -> None:
    name, sums = next(iter(row["by_prompt"].items()))
    row["by_prompt"] = {name: sums}


def _with_sums(**sums: float) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(by_prompt={name: {"domain": "", **sums} for name in row["by_prompt"]})


def _with_rate(**changes: float) -> Callable[[dict[str, Any]], None]:
    return lambda row: row["acceptance_rate"].update(changes)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (_one_prompt, 0, "64 prompts against 1)"),
        (_with_sums(accepted=1e308, positions=1e308), 2, "cannot be accepted"),
        (_with_sums(accepted=9.0, positions=3.0), 2, "cannot be accepted"),
        (_with_rate(level=1.0), 2, "level"),
        (_with_rate(low=0.9, high=0.1), 2, "between its bounds"),
        (_with_rate(value=5.0, low=4.0, high=6.0), 2, "no share"),
    ],
)
def test_what_no_baseline_can_hold_is_told(
    kept: Path, change: Callable[[dict[str, Any]], None], code: int, said: str
) -> None:
    place = kept.parent / "baseline.json"
    document = json.loads(place.read_text(encoding="utf-8"))
    change(document["pairs"]["demo"])
    place.write_text(json.dumps(document), encoding="utf-8")
    answer = run("gate", str(kept))
    assert (answer.exit_code, said in answer.stdout + answer.stderr) == (code, True)


# ---------------------------------------------------------------------- waivers


@pytest.mark.parametrize(
    ("days", "status", "code"),
    [(300_000, "waived", 0), (0, "waived", 0), (-1, "failed", 1), (-2000, "failed", 1)],
)
def test_waivers_end_on_their_day(sound: Path, tmp_path: Path, days: int, status: str, code: int) -> None:
    placed(tmp_path, sound)
    expires = datetime.now(timezone.utc).date() + timedelta(days)  # a gate counts days so
    waiver = f'\n[[pair.waivers]]\ncheck = "acceptance_rate"\nreason = "in training"\nexpires = {expires}'
    answer, checks = gated(policy(tmp_path, "min_acceptance_rate = 0.9", waiver))
    assert (checks["acceptance_rate"]["status"], answer.exit_code) == (status, code)
    assert "waive" in checks["acceptance_rate"]["reason"]


def test_waived_evidence_is_judged_all_the_same(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound, _aged)
    waiver = '\n[[pair.waivers]]\ncheck = "evidence"\nreason = "the device is away"\nexpires = 2999-01-01'
    answer, checks = gated(policy(tmp_path, "max_age_days = 3", "min_acceptance_rate = 0.9", waiver))
    assert checks["evidence"]["status"] == "waived"
    assert (checks["acceptance_rate"]["status"], answer.exit_code) == ("failed", 1)


WAIVED = '\n[[pair.waivers]]\ncheck = "{}"\nreason = "r"\nexpires = 2999-01-01'


def test_a_waiver_of_what_is_missing_waives_nothing_else(sound: Path, tmp_path: Path) -> None:
    lines = ("min_acceptance_rate = 0.1", "min_speedup = 0.1", WAIVED.format("evidence"))
    answer, checks = gated(policy(tmp_path, *lines))
    assert {name: check["status"] for name, check in checks.items()} == {
        "evidence": "waived",
        "findings": "passed",
        "acceptance_rate": "missing",
        "speedup": "missing",
    }
    assert not answer.document["passed"]
    both = (*lines, WAIVED.format("acceptance_rate"), WAIVED.format("speedup"))
    assert run("gate", str(policy(tmp_path, *both))).exit_code == 0
    placed(tmp_path, sound)
    beyond = policy(tmp_path, "min_speedup = 0.1", WAIVED.format("findings"), pair="num_spec_tokens = 20")
    answer, checks = gated(beyond)
    assert (checks["speedup"]["status"], answer.exit_code) == ("missing", 1)


def test_a_waiver_of_one_problem_tells_the_others(sound: Path, tmp_path: Path) -> None:
    def spoilt(document: dict[str, Any]) -> None:
        _aged(document)
        _identity(DRAFT, "weights")(document)

    placed(tmp_path, sound, spoilt)
    _, checks = gated(policy(tmp_path, "max_age_days = 3", "min_prompts = 65", WAIVED.format("evidence")))
    for said in ("days old", "the weights of", "min_prompts = 65", "waived until"):
        assert said in checks["evidence"]["reason"]


# ---------------------------------------------------------------------- policies that cannot be meant


PAIR = '[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\n'


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1", 1, "x: no such key"),
        (f'{PAIR}engin = "vllm"', 5, "did you mean engine"),
        (f"{PAIR}tp = 8", 5, "did you mean tensor_parallel_size"),
        (f"{PAIR}[pair.policy]\nmin_sped = 1.0", 6, "did you mean min_speedup"),
        ('[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\n[pair.policy]\n\nmin_speedup = "fast"', 7, "min_speedup"),
        ('[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\n[pair.policy]\nmin_acceptance_rate = 61', 6, "less than or"),
        ('[defaults]\nmust_fit = 1\n[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"', 2, "must_fit"),
        ('[[pair]]\nname = "a"\ntarget = "t"', 1, "draft: Field required"),
        (f"{PAIR}\n{PAIR}", 7, "stands in line 2"),
        (
            '[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\n[[pair.waivers]]\ncheck = "speed"\nreason = "r"\n'
            "expires = 2030-01-01",
            6,
            "waivers.0.check",
        ),
        ('[[pair]]\nname = "a"\ntarget = "t"\ndraft = "d"\nprompts = "p.jsonl"', 1, "probe = true"),
        (f'{PAIR}engine = "vlm"', 2, "unknown engine"),
        (f'{PAIR}[[pair]]\nname = "b"\ntarget = "t"\ndraft = "d"\ndevice = "h900"', 6, "unknown device"),
        (f'{PAIR}[pair.policy]\nallow = ["size-ration"]', 2, "size-ration"),
        ("pair = []", 1, "pair"),
        ("", 1, "pair"),
        ('[[pair]]\nname = "a"\nname = "b"\n\n', None, "line 3"),
        ("[[pair\n", None, "line 1"),
    ],
)
def test_a_policy_that_cannot_be_meant_names_file_and_line(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text(text, encoding="utf-8")
    answer = run("gate", str(path))
    assert answer.exit_code == 2
    assert said in answer.stderr
    if line is not None:
        assert f"{path}:{line}:" in answer.stderr


def test_no_policy_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run("gate")
    assert (answer.exit_code, "--init" in answer.stderr) == (2, True)


def test_a_long_text_is_no_header() -> None:
    """A pattern that tries every way to share out blanks would take hours for these."""
    assert Lines(f'name = """\n[{" " * 500_000}\n"""\n[defaults]').of(("defaults",)) == 4


def test_a_new_baseline_needs_a_name(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    answer = run("gate", str(policy(tmp_path)), "--update-baseline")
    assert (answer.exit_code, "baseline =" in answer.stderr) == (2, True)


KEYS = st.text("ab_-", min_size=1, max_size=4)


@given(st.lists(st.tuples(st.integers(0, 3), KEYS), max_size=20))
@LAW
def test_lines_are_found_where_the_keys_stand(rows: list[tuple[int, str]]) -> None:
    """Of any file in which no key is written twice, as TOML forbids it."""
    lines: list[str] = []
    expected: dict[tuple[Any, ...], int] = {}
    pair, table = -1, ()  # type: int, tuple[Any, ...]
    for kind, key in rows:
        if kind == 0:
            pair += 1
            table = ("pair", pair)
            lines.append("[[pair]]")
        elif kind == 1 and pair >= 0 and ("pair", pair, "policy") not in expected:
            table = ("pair", pair, "policy")
            lines.append("[pair.policy]")
        elif (*table, key) not in expected:
            table_key = (*table, key)
            lines.append(f"{key} = 1")
            expected[table_key] = len(lines)
            continue
        else:
            continue
        expected[table] = len(lines)
    found = Lines("\n".join(lines))
    assert {where: found.of(where) for where in expected} == expected


# ---------------------------------------------------------------------- a first policy, and formats


def test_a_first_policy_is_one(tmp_path: Path) -> None:
    advice = tmp_path / "advice.json"
    place = ("--engine", "vllm", "--device", "h100-80g", "-tp", "4", "--max-num-seqs", "8")
    assert run("recommend", "Qwen/Qwen2.5-72B-Instruct", *place, "--json", "-o", str(advice)).exit_code == 0
    answer = run("gate", "--init", str(advice), "-o", str(tmp_path / "pairs.toml"))
    assert answer.exit_code == 0, answer.stderr
    text = (tmp_path / "pairs.toml").read_text(encoding="utf-8")
    (pair,) = tomllib.loads(text)["pair"]
    assert (pair["target"], pair["device"], pair["tensor_parallel_size"]) == (
        "Qwen/Qwen2.5-72B-Instruct",
        "h100-80g",
        4,
    )
    assert pair["policy"]["must_fit"]
    judged = run("gate", str(tmp_path / "pairs.toml"), "--json")
    assert judged.exit_code != 2, judged.stderr
    statuses = {check["name"]: check["status"] for check in judged.document["pairs"][0]["checks"]}
    assert statuses["evidence"] == "missing"
    assert {statuses[name] for name in ("findings", "score", "memory", "engine")} == {"passed"}


def test_the_first_policy_of_a_head_asks_for_no_probe(tmp_path: Path) -> None:
    """No probe can measure one."""
    advice, path = tmp_path / "advice.json", tmp_path / "pairs.toml"
    place = ("--engine", "sglang-ascend", "--device", "910b3", "-tp", "4")
    assert run("recommend", "Qwen/Qwen3-32B", *place, "--json", "-o", str(advice)).exit_code == 0
    assert run("gate", "--init", str(advice), "-o", str(path)).exit_code == 0
    answer, checks = gated(path)
    assert answer.exit_code == 0, answer.stdout
    assert checks.keys() == {"findings", "score", "memory", "engine"}


def test_a_policy_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    advice, path = tmp_path / "advice.json", tmp_path / "pairs.toml"
    options = ("--engine", "vllm", "--json", "-o", str(advice))
    assert run("recommend", "Qwen/Qwen2.5-72B-Instruct", *options).exit_code == 0
    path.write_text("# thresholds of somebody\n", encoding="utf-8")
    answer = run("gate", "--init", str(advice), "-o", str(path))
    assert (answer.exit_code, f"{path} is there already" in answer.stderr) == (2, True)
    assert path.read_text(encoding="utf-8") == "# thresholds of somebody\n"


def named(answer: dict[str, Any], target: str, draft: str) -> dict[str, Any]:
    """The answer for models of other names."""
    first = {**answer["candidates"][0], "draft": draft, "model": {**answer["candidates"][0]["model"], "id": draft}}
    return {**answer, "target": {**answer["target"], "id": target}, "candidates": [first]}


@pytest.fixture(scope="module")
def long_texts() -> dict[str, Any]:
    long = ("--max-model-len", "1073741824", "-k", "64", "--engine", "vllm")
    return run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", *long, "--json").document


@pytest.mark.parametrize(
    "name", ["/" + "a/" * 2000 + "b", "x" * 255, "q'uo\"te $(touch x)", "\u202e", "\u2028", "{x}\\"], ids=ascii
)
def test_a_first_policy_can_be_read_whatever_the_models_are_called(
    name: str, long_texts: dict[str, Any], tmp_path: Path
) -> None:
    text = first_policy(AdviceFile.model_validate(named(long_texts, name, f"{name}-draft")))
    path = tmp_path / "pairs.toml"
    path.write_text(text, encoding="utf-8")
    (pair,) = read_policy(path)[0].pair
    assert (pair.target, pair.draft, pair.max_model_len) == (name, f"{name}-draft", 1 << 30)


@pytest.mark.parametrize("name", ["two\nlines", "no-utf-8-\udcff", "\x7f"], ids=ascii)
def test_no_first_policy_is_written_that_the_gate_would_refuse(name: str, long_texts: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        first_policy(AdviceFile.model_validate(named(long_texts, name, "b/c")))
    assert "rename" in caught.value.hint


def test_the_first_policy_of_an_answer_not_to_speculate_says_so(tmp_path: Path) -> None:
    advice, path = tmp_path / "advice.json", tmp_path / "my pairs.toml"
    place = ("--engine", "vllm", "--device", "h100-80g")
    run("recommend", "Qwen/Qwen3-0.6B", *place, "--json", "-o", str(advice))
    assert json.loads(advice.read_text())["decision"]["action"] == "do_not_speculate"
    answer = run("gate", "--init", str(advice), "-o", str(path))
    assert answer.exit_code == 0
    before = path.read_text().partition("num_spec_tokens = ")[0].splitlines()[-1]
    assert "not to speculate" in before
    assert "The k that is deployed." not in path.read_text()
    assert "not to speculate" in answer.stderr
    assert f"draftpick gate '{path}' --update-baseline" in answer.stderr


def test_a_pair_without_a_measurement_passes_by_facts_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text('[[pair]]\nname = "a"\ntarget = "Qwen/Qwen2.5-72B-Instruct"\ndraft = "Qwen/Qwen2.5-7B-Instruct"\n')
    answer = run("gate", str(path))
    assert (answer.exit_code, "judged by facts alone: nothing was measured" in answer.stdout) == (0, True)


@pytest.mark.parametrize("form", ["table", "json", "markdown", "github", "junit", "sarif"])
def test_every_format_is_the_same_when_repeated(sound: Path, tmp_path: Path, form: str) -> None:
    placed(tmp_path, sound)
    path = policy(tmp_path, "min_acceptance_rate = 0.9")
    first, second = (run("gate", str(path), "--format", form) for _ in range(2))
    assert first.exit_code == second.exit_code == 1
    assert first.stdout == second.stdout != ""


def test_a_job_of_github_gets_its_summary(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    path, summary = policy(tmp_path, "min_acceptance_rate = 0.9"), tmp_path / "summary.md"
    answer = run("gate", str(path), "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert answer.stdout.startswith("::error file=")
    assert "acceptance" in summary.read_text(encoding="utf-8")


def test_saved_evidence_is_judged_without_torch(sound: Path, tmp_path: Path) -> None:
    placed(tmp_path, sound)
    path = policy(tmp_path, "min_acceptance_rate = 0.1", top='baseline = "b.json"')
    script = (
        "import sys\n"
        f"sys.argv = ['draftpick', 'gate', {str(path)!r}, '--update-baseline', '-o', {str(tmp_path / 'out.txt')!r}]\n"
        "from draftpick.cli import main\n"
        "try:\n    main()\nexcept SystemExit as left:\n    code = left.code\n"
        "print(code, sorted({'torch', 'transformers', 'tokenizers', 'matplotlib', 'pandas'} & set(sys.modules)))\n"
    )
    done = spawn(script=script)
    assert done.stdout.strip() == "0 []", done.stderr


# ---------------------------------------------------------------------- differences


def row(by_prompt: dict[str, PromptSums], rate: float = 0.5) -> BaselineRow:
    interval = IntervalRecord(value=rate, low=rate - 0.05, high=rate + 0.05, level=0.95)
    return BaselineRow(
        target="t", draft="d", created="", temperature=0.0, way="first_choice", engine="transformers", prompts="p",
        num_prompts=len(by_prompt), acceptance_rate=interval, by_prompt=by_prompt,
    )  # fmt: skip


SUMS = st.dictionaries(
    st.text("abcdefgh", min_size=3, max_size=3),
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(
        lambda pair: PromptSums(domain="x", accepted=float(min(pair)), positions=float(max(pair)))
    ),
    max_size=30,
)


@given(SUMS, SUMS)
@LAW
def test_a_difference_changes_its_sign_with_the_sides(new: dict[str, PromptSums], old: dict[str, PromptSums]) -> None:
    (there, how), (back, _) = difference_of(row(new), row(old)), difference_of(row(old), row(new))
    assert there.value == pytest.approx(-back.value)
    assert there.low <= there.value <= there.high
    common = {name for name in new.keys() & old.keys() if new[name].positions and old[name].positions}
    assert len(common) >= 8 or "paired over" not in how


@pytest.mark.parametrize(("common", "step", "how"), [(8, 5, "120 prompts against 120"), (120, 7, "paired over 120")])
def test_a_few_common_prompts_hide_no_loss(common: int, step: int, how: str) -> None:
    """Ten points less, of prompts that differ among themselves and, with another step, from run to run."""

    def sums(names: list[str], loss: float, step: int = 7) -> dict[str, PromptSums]:
        rates = [0.35 + 0.4 * (place * step % 12) / 11 for place in range(len(names))]
        return {
            name: PromptSums(domain="", accepted=40 * (rate - loss), positions=40)
            for name, rate in zip(names, rates, strict=True)
        }

    names = [f"old-{place}" for place in range(120)]
    fresh = names[:common] + [f"new-{place}" for place in range(120 - common)]
    difference, said = difference_of(row(sums(fresh, 0.1, step)), row(sums(names, 0.0)))
    assert difference.high < -0.01
    assert said.startswith(how)


@given(SUMS)
@LAW
def test_nothing_differs_from_itself(sums: dict[str, PromptSums]) -> None:
    difference, _ = difference_of(row(sums), row(sums))
    assert difference.value == 0
    assert difference.low <= 0 <= difference.high


def test_a_closed_pipe_lets_no_failing_gate_pass(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    policy = (
        '[[pair]]\nname = "a"\ntarget = "Qwen/Qwen3-32B"\ndraft = "Qwen/Qwen3-0.6B"\n[pair.policy]\nmin_score = 100.0\n'
    )
    path.write_text(policy, encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command("gate", str(path)), stdout=writing, stderr=subprocess.PIPE, env=environment(), check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_next_step_of_a_first_policy_runs_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(__file__).parent.parent / "catalog" / "demo", tmp_path / "o'dd pair")
    (tmp_path / "c i").mkdir()
    (tmp_path / "c i" / "probe.trace.jsonl").write_text("of another pair", encoding="utf-8")
    (tmp_path / "c i" / "baseline.json").write_text("of another policy", encoding="utf-8")
    models = ("o'dd pair/target", "o'dd pair/draft")
    place = ("--engine", "vllm", "--device", "h100-80g", "--temperature", "0.5")
    assert run("check", *models, *place, "--json", "--exit-zero", "-o", "advice.json").exit_code == 0
    answer = run("gate", "--init", "advice.json", "-o", "c i/my pairs.toml", "--offline")
    measure, baseline = answer.stderr.splitlines()[-1].removeprefix("next: ").split("; then ")
    assert shlex.split(measure)[1:] == [
        *("probe", *models, "--engine", "vllm", "--temperature", "0.5", "--offline"),
        *("--precision", "0", "--output", "c i/probe-2.json"),
    ]
    assert shlex.split(baseline)[1:] == ["gate", "c i/my pairs.toml", "--offline", "--update-baseline"]
    policy = tomllib.loads((tmp_path / "c i" / "my pairs.toml").read_text(encoding="utf-8"))
    (pair,) = policy["pair"]
    assert (policy["baseline"], pair["evidence"], pair["temperature"]) == ("baseline-2.json", "probe-2.json", 0.5)
    few = ("--num-prompts", "2", "--max-new-tokens", "8", "--costs", "roofline", "--exit-zero")
    assert run(*shlex.split(measure)[1:], *few).exit_code == 0
    judged = run(*shlex.split(baseline)[1:], "--json")
    assert "doubtful" in {check["status"] for check in judged.document["pairs"][0]["checks"]}, "found, with few prompts"


def test_an_answer_from_a_probe_is_gated_by_it(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("plan", str(sound), "--engine", "vllm", "--json", "--exit-zero", "-o", "advice.json").exit_code == 0
    answer = run("gate", "--init", "advice.json", "-o", "pairs.toml")
    assert answer.stderr.splitlines()[-1] == "next: draftpick gate pairs.toml --update-baseline"
    (pair,) = tomllib.loads((tmp_path / "pairs.toml").read_text(encoding="utf-8"))["pair"]
    assert Path(pair["evidence"]).resolve() == sound.resolve()


def test_a_first_policy_that_is_shown_is_kept_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "-tp", "2", "--json", "-o", "an advice.json")
    assert run("gate", "--init", "an advice.json").stderr.splitlines()[-1] == (
        "next: draftpick gate --init 'an advice.json' --output pairs.toml; then draftpick probe Qwen/Qwen3-32B "
        "Qwen/Qwen3-0.6B --tensor-parallel-size 2 --precision 0 --output probe.json; "
        "then draftpick gate pairs.toml --update-baseline"
    )


def test_a_first_policy_is_toml_alone(tmp_path: Path) -> None:
    answer = run("gate", "--init", str(tmp_path / "advice.json"), "--json")
    assert (answer.exit_code, "--init writes TOML" in answer.stderr) == (2, True)
