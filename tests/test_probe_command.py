"""The probe from end to end: real small models, real files, and what the commands make of them."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, command, environment, from_a_terminal, run
from jsonschema import Draft202012Validator

from draftpick import choices, replay
from draftpick.probe_file import read_probe
from draftpick.probing import command as command_of_probe
from draftpick.probing import trace as traces
from draftpick.probing.local import Sampling, generate, load, read_answers
from draftpick.probing.timing import run_assisted
from draftpick.probing.trace import DraftColumns, Row
from draftpick.report.csv import PROBE
from draftpick.report.csv import render as csv_of
from draftpick.report.speculation_profile import render as profile_of

PAIR = Path(__file__).parent.parent / "catalog" / "demo"
SCHEMAS = Path(__file__).parent.parent / "schemas"
TARGET, DRAFT, PROMPTS = str(PAIR / "target"), str(PAIR / "draft"), str(PAIR / "prompts.jsonl")
QUICK = ("--prompts", PROMPTS, "--max-new-tokens", "24", "--num-prompts", "6", "--precision", "0")


pytestmark = pytest.mark.usefixtures("one_thread")


def probe(folder: Path, *options: str, draft: str = DRAFT, target: str = TARGET, costs: str = "roofline") -> Answer:
    return run("probe", target, draft, "-o", str(folder / "probe.json"), "--costs", costs, *QUICK, *options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe with costs, both temperatures and every check."""
    folder = tmp_path_factory.mktemp("measured")
    options = ("--temperature", "0", "--temperature", "0.8", "-k", "4", "--verify", "2", "--exit-zero")
    options += ("--timed-batch", "4")
    answer = probe(folder, *options, costs="measured")
    assert answer.exit_code == 0, answer.stderr
    return folder / "probe.json"


def document(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------------- what is measured


def test_the_document_has_what_others_build_on(measured: Path) -> None:
    found = document(measured)
    greedy, sampled = found["drafts"]
    assert (greedy["temperature"], sampled["temperature"]) == (0.0, 0.8)
    for one in (greedy, sampled):
        assert {"draft", "acceptance_rate", "by_k", "position_rates", "by_domain", "doubts", "costs"} <= set(one)
        assert 0 <= one["acceptance_rate"]["low"] <= one["acceptance_rate"]["value"] <= one["acceptance_rate"]["high"]
        lengths = [row["mean_acceptance_length"] for row in one["by_k"]]
        assert lengths == sorted(lengths)
        assert [row["k"] for row in one["by_k"]] == [0, 1, 2, 3, 4]
        assert one["num_prompts"] == 6
        assert one["stopped_by"] == "all 6 prompts were used"
    assert [other["proposal"] for other in sampled["other_proposals"]] == [
        "the draft's first choice",
        "sampled at 0.8",
        "sampled at 0.8, block verification",
    ]
    assert sampled["proposal"].startswith("sampled at 0.64")
    assert {row["method"] for row in found["draft_free"]} == {"ngram", "ngram of transformers", "suffix"}


def test_result_and_trace_fit_their_schemas(measured: Path) -> None:
    probed, answers = (
        Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))
        for name in ("probe", "trace")
    )
    assert list(probed.iter_errors(document(measured))) == []
    header, *rows = measured.with_name("probe.trace.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 12
    assert [error for row in rows for error in answers.iter_errors(json.loads(row))] == []
    assert not answers.is_valid(json.loads(header))


@pytest.mark.parametrize("swapped", [True, False])
def test_a_draft_larger_than_its_target_is_told_first_and_kept(swapped: bool, tmp_path: Path) -> None:
    target, draft = (DRAFT, TARGET) if swapped else (TARGET, DRAFT)
    answer = probe(tmp_path, "--num-prompts", "2", "--exit-zero", draft=draft, target=target)
    assert answer.exit_code == 0, answer.stderr
    said = f"with {draft}: the draft is not smaller than its target, did you swap them?"
    assert answer.stderr.startswith(f"warning: {said}") is swapped
    notes = document(tmp_path / "probe.json")["notes"]
    assert any(note.startswith(said) for note in notes) is swapped


def test_it_becomes_a_table_and_a_speculation_profile(measured: Path) -> None:
    found = read_probe(measured)
    names, *rows = csv.reader(io.StringIO(csv_of(found), newline=""))
    assert (names, len(rows)) == (list(PROBE), 2 * 5 + len(found.draft_free))
    for one in found.drafts:
        told = json.loads(profile_of(found, one.draft, one.temperature))
        assert told["validation"]["mean_consistency"]["abs_delta"] < 1e-5
        assert told["validation"]["marginal_monotonicity"]["passed"]
        assert told["accept_length_by_k"]["4"] == pytest.approx(one.by_k[4].mean_acceptance_length, abs=1e-6)


def test_it_becomes_a_report_that_says_how_it_was_made(measured: Path) -> None:
    shown = run("report", str(measured))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("## Probe of ")
    assert document(measured)["decision"]["sentence"] in shown.stdout
    (command_line,) = [line for line in shown.stdout.splitlines() if line.startswith("draftpick probe ")]
    assert command_line.split()[2:4] == [TARGET, DRAFT]
    assert "--temperature 0.0 --temperature 0.8" in command_line
    assert "--timed-batch 4 --verify 2" in command_line
    assert "exit-zero" not in command_line


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_report_keeps_the_measurement_beside_it(form: str, tmp_path: Path) -> None:
    out = tmp_path / "seen.txt"
    options = ("--costs", "roofline", "-k", "2", *QUICK)
    answer = run("probe", TARGET, DRAFT, "-o", str(out), "--format", form, *options)
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert f"the probe itself is kept in {tmp_path / 'seen.json'}" in answer.stderr
    assert out.read_text(encoding="utf-8") == run("report", str(tmp_path / "seen.json"), "--format", form).stdout
    assert run("plan", str(tmp_path / "seen.json"), "--engine", "transformers", "--exit-zero").exit_code == 0


def test_a_report_writes_its_measurement_over_no_other_file(tmp_path: Path) -> None:
    from draftpick.report.saved import beside

    other, mine = tmp_path / "notes.json", tmp_path / "mine.json"
    other.write_text('{"kind": "notes"}')
    mine.write_text('{"kind": "probe"}')
    assert beside(tmp_path / "notes.md") == tmp_path / "notes.probe.json"
    assert beside(tmp_path / "mine.md") == mine
    assert beside(tmp_path / "new.md") == tmp_path / "new.json"
    assert beside(tmp_path / "report.json") == tmp_path / "report.probe.json"


def test_self_checks_pass_on_a_sound_pair(measured: Path) -> None:
    checks = document(measured)["checks"]
    assert {check["passed"] for check in checks} == {True}
    assert len([check for check in checks if "replay" in check["name"]]) == 4
    assert "6 of 6 with the same text and steps" in checks[-1]["detail"]


def test_costs_are_those_of_the_software_that_ran(measured: Path) -> None:
    costs, loaded = document(measured)["drafts"][0]["costs"]
    assert (costs["num_seqs"], loaded["num_seqs"]) == (1, 4)
    assert costs["software"].startswith("transformers ")
    assert len(costs["verify_ms"]) == 5
    assert costs["verify_ms"] == sorted(costs["verify_ms"])
    assert costs["verify_ms"][0] == pytest.approx(costs["target_ms"])
    assert [one["k"] for one in costs["checked"]] == [1, 4]


def test_replay_equals_the_real_loop_for_every_k() -> None:
    """Greedy decoding: the steps of transformers' assisted generation, exactly."""
    target = load(Path(TARGET), id="target", device="cpu", dtype=None)
    draft = load(Path(DRAFT), id="draft", device="cpu", dtype=None)
    prompts = [[0, 45, 300, 77, 12], [0, 900, 31]]
    written = generate(target, prompts, Sampling(), 48)
    (readings,) = read_answers(prompts, [answer.tokens for answer in written], [draft])
    for prompt, answer, reading in zip(prompts, written, readings, strict=True):
        columns = DraftColumns(reading.top.tolist(), reading.top_prob.tolist())
        row = Row("p", "", "", "", 0.0, prompt, answer.tokens, answer.ended, answer.log_p, None, {"draft": columns})
        trace = traces.as_trace([row], "draft", 0.0, first=1)
        for k in range(1, 9):
            real = run_assisted(target, draft, prompt, 48, k)
            assert real.tokens == answer.tokens
            assert round(float(replay.replay(trace, ks=[k])[k].visible.x.sum())) == real.steps


def test_answers_that_are_there_already_are_measured_without_writing(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    rows = [{"prompt": f"def read_{n}(", "response": f"self, size):\n    return self._read({n})\n"} for n in range(4)]
    answers.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--responses", str(answers), "--costs", "roofline", "-o", str(tmp_path / "probe.json"))
    answer = run("probe", TARGET, DRAFT, *options)
    assert answer.exit_code == 0, answer.stderr
    found = document(tmp_path / "probe.json")
    assert found["num_prompts"] == 4
    assert found["prompts"]["source"] == "answers in answers.jsonl"
    kept = traces.read(tmp_path / "probe.trace.jsonl")
    assert all(row.gap is None and len(row.log_p) == len(row.tokens) for row in kept.rows)


def test_a_config_file_may_name_several_temperatures(tmp_path: Path) -> None:
    (tmp_path / "probe.toml").write_text("temperature = [0, 0.7]\nmax-new-tokens = 16\nseed = 3\n")
    answer = probe(tmp_path, "--config", str(tmp_path / "probe.toml"), "--num-prompts", "2")
    assert answer.exit_code == 0, answer.stderr
    found = document(tmp_path / "probe.json")
    assert found["sampling"]["temperatures"] == [0.0, 0.7]
    assert found["sampling"]["max_new_tokens"] == 24, "the command line wins"
    assert found["sampling"]["seed"] == 3


# ---------------------------------------------------------------------- the trace


def test_a_resumed_run_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    assert probe(whole, "--batch-size", "2").exit_code == 0
    assert probe(parts, "--batch-size", "2", "--num-prompts", "2").exit_code == 0
    trace = parts / "probe.trace.jsonl"
    with open(trace, "ab") as file:
        file.write(b'{"prompt": "torn')
    assert probe(parts, "--batch-size", "2").exit_code == 3, "it is there, and nobody said --resume"
    assert probe(parts, "--batch-size", "2", "--resume").exit_code == 0
    assert trace.read_bytes() == (whole / "probe.trace.jsonl").read_bytes()
    assert document(parts / "probe.json")["drafts"] == document(whole / "probe.json")["drafts"]


def test_a_run_broken_off_between_two_temperatures_is_completed(tmp_path: Path) -> None:
    heats = ("--temperature", "0", "--temperature", "0.7", "--batch-size", "3")
    assert probe(tmp_path, *heats).exit_code == 0
    trace = tmp_path / "probe.trace.jsonl"

    def texts() -> list[tuple[str, float, list[int]]]:
        return sorted((row.prompt, row.temperature, list(row.tokens)) for row in traces.read(trace).rows)

    whole = texts()
    trace.write_bytes(b"".join(trace.read_bytes().splitlines(keepends=True)[: 1 + 6 + 3 + 1]))
    assert probe(tmp_path, *heats, "--resume").exit_code == 0
    assert texts() == whole


def test_resuming_with_other_options_says_which(tmp_path: Path) -> None:
    assert probe(tmp_path).exit_code == 0
    answer = probe(tmp_path, "--resume", "--max-new-tokens", "32")
    assert answer.exit_code == 2
    assert "max_new_tokens" in answer.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, sent: signal.Signals) -> None:
    arguments = ("--prompts", PROMPTS, "--costs", "roofline", "--batch-size", "1", "--precision", "0")
    process = subprocess.Popen(
        command("probe", TARGET, DRAFT, "-o", str(tmp_path / "probe.json"), *arguments),
        env=environment(OMP_NUM_THREADS="1"),
        preexec_fn=from_a_terminal,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "of at most" in line:
            break
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert process.returncode == 130
    found = document(tmp_path / "probe.json")
    assert found["stopped_by"] == "interrupted"
    assert found["num_prompts"] >= 1
    assert traces.read(tmp_path / "probe.trace.jsonl").rows


# ---------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("options", "evidence", "engine"),
    [
        ((), "measured", "transformers"),
        (("--max-num-seqs", "3"), "roofline", None),
        (("--max-num-seqs", "4"), "roofline", None),
        (("--device", "cpu"), "measured", "transformers"),
        (("--device", "cpu", "--memory", "8GB"), "roofline", None),
        (("--device", "cpu-server"), "roofline", None),
        (("--device", "cpu", "--engine", "vllm"), "roofline", "vllm"),
        (("--device", "atlas-800i-a2-64g"), "roofline", None),
        (("--engine", "vllm", "--device", "h100"), "roofline", "vllm"),
        (("--engine", "vllm-ascend", "--max-num-seqs", "16"), "roofline", "vllm-ascend"),
    ],
)
def test_plan_decides_again_for_another_place(
    measured: Path, options: tuple[str, ...], evidence: str, engine: str | None
) -> None:
    answer = run("plan", str(measured), "--json", "--exit-zero", *options)
    assert answer.exit_code == 0, answer.stderr
    found = answer.document
    assert found["decision"]["evidence"] == evidence
    assert found["decision"]["speedup"]["level"] == (0.95 if evidence == "measured" else 0.8)
    assert (found["engine"] or {}).get("id") == engine
    candidate, *free = found["candidates"]
    assert candidate["acceptance"]["measured"] is True
    rate = json.loads(measured.read_text(encoding="utf-8"))["drafts"][0]["acceptance_rate"]
    if engine != "vllm":  # others draft in another way
        assert candidate["acceptance"]["low"] == pytest.approx(rate["low"]), "its interval stays that of its level"
    assert candidate["acceptance"]["level"] == rate["level"] == 0.95
    assert candidate["tokenizer"]["relation"] == "identical"
    known = [one for one in free if one["acceptance"] is not None]
    assert known
    for one in known:
        assert one["method"] in ("ngram", "suffix")
        assert one["acceptance"]["measured"] is True
        assert one["cost"]["draft_ms"] == 0


def test_a_lookup_is_planned_with_its_replayed_lengths(measured: Path) -> None:
    saved = {row["method"]: row for row in document(measured)["draft_free"] if row["temperature"] == 0}
    for engine, own in (("transformers", "ngram of transformers"), ("vllm", "ngram")):
        candidates = run("plan", str(measured), "--engine", engine, "--json", "--exit-zero").document["candidates"]
        (ngram,) = (one for one in candidates if one["method"] == "ngram")
        lengths = [row["mean_acceptance_length"] for row in ngram["plan"]["by_k"]]
        assert lengths == pytest.approx([1.0, *(row["mean_acceptance_length"]["value"] for row in saved[own]["by_k"])])


def test_plan_replays_adaptive_lengths(measured: Path) -> None:
    found = run("plan", str(measured), "--policy", "all", "--json", "--exit-zero").document
    rows = {row["policy"]: row for row in found["policies"]}
    assert list(rows) == ["fixed", "rate", "heuristic", "confidence", "p-min"]
    assert rows["confidence"]["estimated"]
    assert not rows["rate"]["estimated"]


def test_a_plan_without_its_trace_does_what_rates_allow(measured: Path, tmp_path: Path) -> None:
    shutil.copy(measured, tmp_path / "alone.json")
    assert run("plan", str(tmp_path / "alone.json"), "--exit-zero").exit_code == 0
    answer = run("plan", str(tmp_path / "alone.json"), "--policy", "rate")
    assert answer.exit_code == 2
    assert "trace is gone" in answer.stderr


def test_a_trace_that_was_changed_is_refused(measured: Path, tmp_path: Path) -> None:
    for path in (measured, measured.with_suffix(".trace.jsonl")):
        shutil.copy(path, tmp_path / path.name)
    with open(tmp_path / "probe.trace.jsonl", "ab") as file:
        file.write(b"\n")
    answer = run("plan", str(tmp_path / "probe.json"))
    assert answer.exit_code == 2
    assert "not the trace" in answer.stderr


def test_recommend_measures_the_first_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The command has no options for it, and whole answers to all prompts take a third of a minute.
    short = {"max-new-tokens": 24, "precision": 0.5}
    monkeypatch.setattr(command_of_probe, "PROBE", {**command_of_probe.PROBE, **short})
    answer = run("recommend", TARGET, "-d", DRAFT, "--probe", "--workload", "code", "--json", "--exit-zero", "-q")
    assert answer.exit_code == 0, answer.stderr
    found = answer.document
    assert found["engine"]["id"] == "transformers"
    assert found["candidates"][0]["acceptance"]["measured"] is True
    assert found["candidates"][0]["cost"]["source"] == "measured"
    assert (tmp_path / "probe-target.json").is_file()


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "the probe needs torch and transformers"), (("--device", "npu:3"), "there is no npu device here")],
)
def test_nothing_is_fetched_where_nothing_can_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    """Weights that are not here would be asked for otherwise."""
    if not options:
        monkeypatch.setitem(sys.modules, "torch", None)
    answer = run("probe", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", *options, home=tmp_path)
    assert (answer.exit_code, said in answer.stderr) == (3, True), answer.stderr


def copied(folder: Path, *left_out: str, source: str = DRAFT) -> Path:
    found = folder / "draft"
    shutil.copytree(source, found, ignore=shutil.ignore_patterns(*left_out))
    return found


def pickled(folder: Path) -> Path:
    found = copied(folder, "*.safetensors")
    (found / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    return found


def truncated(folder: Path) -> Path:
    found = copied(folder)
    whole = (found / "model.safetensors").read_bytes()
    (found / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    return found


def broken_numbers(folder: Path) -> Path:
    import torch
    from safetensors.torch import load_file, save_file

    found = copied(folder)
    weights = load_file(found / "model.safetensors")
    name = next(name for name in weights if "norm" in name)
    save_file({**weights, name: torch.full_like(weights[name], float("nan"))}, found / "model.safetensors")
    return found


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (pickled, 3, "pickle"),
        (lambda folder: copied(folder, "*.safetensors"), 3, "no weights"),
        (truncated, 2, "safetensors"),
        (broken_numbers, 3, "NaN or infinite logits"),
    ],
    ids=["pickled", "missing", "truncated", "NaN"],
)
def test_a_draft_that_cannot_be_run(tmp_path: Path, make: Any, code: int, said: str) -> None:
    answer = probe(tmp_path, draft=str(make(tmp_path)))
    assert (answer.exit_code, said in answer.stderr) == (code, True), answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--device", "cuda"), 3, "there is no cuda device here"),
        (("--device", "npu:3"), 3, "there is no npu device here"),
        (("--device", "toaster"), 2, "no device of torch"),
        (("--dtype", "toaster"), 2, "unknown dtype"),
        (("--tensor-parallel-size", "2"), 3, "there is 1 cpu"),
        (("--max-new-tokens", "4000"), 3, "longer than the context"),
        (("--prompts", "/nowhere.jsonl"), 2, "/nowhere.jsonl"),
        (("--workload", "poetry"), 2, "two sources"),
        (("--engine", "toaster"), 2, "toaster"),
        (("--costs", "/nowhere.json"), 2, "/nowhere.json"),
        (("--trace", "/dev/full"), 3, "/dev/full"),
        (("--batch-size", "0"), 2, "--batch-size"),
        (("--temperature", "-1"), 2, "--temperature"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, options: tuple[str, ...], code: int, said: str) -> None:
    answer = probe(tmp_path, *options)
    assert (answer.exit_code, said in answer.stderr) == (code, True), answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_empty_file_of_prompts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("\n")
    answer = probe(tmp_path, "--prompts", str(tmp_path / "none.jsonl"))
    assert answer.exit_code == 2
    assert "no prompt in it" in answer.stderr


def test_two_drafts_are_compared_on_the_same_prompts(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text('{"target_ms": 10, "draft_ms": 1, "verify_ms": [10, 10.5, 11, 11.5, 12]}')
    answer = probe(tmp_path, TARGET, "-k", "4", "--exit-zero", costs=str(tmp_path / "costs.json"))
    assert answer.exit_code == 0, answer.stderr
    found = document(tmp_path / "probe.json")
    own = next(one for one in found["drafts"] if one["draft"] == TARGET)
    assert own["acceptance_rate"]["value"] > 0.99, "the target as its own draft"
    assert own["acceptance_rate"]["level"] == 0.95
    (comparison,) = found["comparisons"]
    assert (comparison["draft"], comparison["best"]) == (DRAFT, TARGET)
    assert comparison["speedup"]["high"] <= 1
    assert own["plan"]["speedup"]["level"] == pytest.approx(0.975), "the best of two is named: choosing flatters"


def test_a_resumed_run_checks_itself_too(tmp_path: Path) -> None:
    """Answers that the target would not have given: the second run must not forget what the first one saw."""
    answers = tmp_path / "answers.jsonl"
    rows = [{"prompt": f"Return the {n}th.", "response": "zebra quartz " * 12 + str(n)} for n in range(4)]
    answers.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "costs.json").write_text('{"target_ms": 10, "draft_ms": 0.1, "verify_ms": [10, 10, 10, 10, 10]}')
    options = ("--responses", str(answers), "--costs", str(tmp_path / "costs.json"), "-k", "4", "--precision", "0")
    for more in ((), ("--resume",)):
        answer = run("probe", TARGET, DRAFT, "-o", str(tmp_path / "probe.json"), *options, *more, "--exit-zero")
        assert answer.exit_code == 0, answer.stderr
        found = document(tmp_path / "probe.json")
        assert [check["passed"] for check in found["checks"]] == [False]
        assert found["decision"]["action"] == "undecided"
        assert "suspect" in found["decision"]["sentence"]


@pytest.mark.parametrize("heat", ["0", "0.7"])
def test_text_of_another_writer_is_suspect(tmp_path: Path, heat: str) -> None:
    answers = tmp_path / "answers.jsonl"
    rows = [{"prompt": f"Return the {n}th.", "response": "zebra quartz " * 12 + str(n)} for n in range(4)]
    answers.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--responses", str(answers), "--costs", "roofline", "--temperature", heat)
    answer = run("probe", TARGET, DRAFT, "-o", str(tmp_path / "probe.json"), *options, "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    (check,) = document(tmp_path / "probe.json")["checks"]
    assert not check["passed"]
    assert "are these answers" in check["detail"]


def test_resuming_with_other_prompts_is_refused(tmp_path: Path) -> None:
    assert probe(tmp_path).exit_code == 0
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "def other("}\n', encoding="utf-8")
    answer = probe(tmp_path, "--resume", "--prompts", str(other))
    assert answer.exit_code == 2
    assert "prompts_digest" in answer.stderr


def test_another_engine_drafts_in_its_own_way(tmp_path: Path) -> None:
    """transformers samples its drafts, vLLM proposes the first choice: what is accepted differs at a temperature."""
    assert probe(tmp_path, "--temperature", "0.7").exit_code == 0
    (one,) = document(tmp_path / "probe.json")["drafts"]
    (first_choice,) = (other for other in one["other_proposals"] if other["way"] == "first_choice")
    for engine, rate in (("vllm", first_choice["acceptance_rate"]), ("transformers", one["acceptance_rate"])):
        place = ("--engine", engine, "--device", "h100-80g", "--exit-zero", "--json")
        candidate, *_ = run("plan", str(tmp_path / "probe.json"), *place).document["candidates"]
        assert candidate["acceptance"]["rate"] == pytest.approx(rate["value"])


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("-k", "64"), 2, "was measured with up to 4 tokens"),
        (("--temperature", "0.3"), 2, "nothing was measured at temperature 0.3"),
        (("--policy", "guess"), 2, "is not known"),
        (("--verify-cost", "3"), 2, "--verify-cost and a probe file"),
        (("--acceptance-rate", "0.5"), 2, "--acceptance-rate and a probe file"),
    ],
)
def test_plans_that_a_probe_cannot_make(measured: Path, options: tuple[str, ...], code: int, said: str) -> None:
    answer = run("plan", str(measured), *options)
    assert (answer.exit_code, said in answer.stderr) == (code, True), answer.stderr


def test_a_policy_of_fixed_length_is_the_row_of_the_plan(measured: Path) -> None:
    for heat in ("0", "0.8"):
        found = run("plan", str(measured), "--policy", "fixed", "--temperature", heat, "--json", "--exit-zero").document
        (row,) = found["policies"]
        k = found["candidates"][0]["plan"]["speedup_of"]
        by_k = {one["k"]: one for one in found["candidates"][0]["plan"]["by_k"]}
        assert row["drafted_per_step"] == k
        assert row["speedup"]["value"] == pytest.approx(by_k[k]["speedup"], rel=0.03 if heat == "0.8" else 1e-6)


def other_tokenizer(folder: Path) -> Path:
    """A small random model with a tokenizer of its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    found = folder / "other"
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<a>", "<b>"], initial_alphabet=alphabet)
    made.train_from_iterator(["some text of another kind"] * 8, trainer)
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<a>", eos_token="<b>").save_pretrained(found)
    config = LlamaConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        intermediate_size=32, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(found)
    return found


def test_a_draft_with_another_tokenizer_is_run_by_the_real_loop(tmp_path: Path) -> None:
    answer = probe(tmp_path, draft=str(other_tokenizer(tmp_path)))
    assert answer.exit_code == 0, answer.stderr
    found = document(tmp_path / "probe.json")
    assert found["drafts"] == []
    (translated,) = found["translated"]
    assert [row["k"] for row in translated["by_k"]] == [1, 4, 8]
    assert all(1 <= row["mean_acceptance_length"] <= row["k"] + 1 for row in translated["by_k"])
    assert {row["method"] for row in found["draft_free"]} == {"ngram", "ngram of transformers", "suffix"}


ZERO = """
[[issue]]
key = "acme-zero"
engines = ["vllm-ascend"]
kind = "zero_acceptance"
symptom = "nothing is accepted"
mending = "take another"
source = "https://example.org/zero"
checked = 2026-11-29

[[issue]]
key = "acme-zero-mtp"
engines = ["vllm-ascend"]
methods = ["mtp"]
kind = "zero_acceptance"
symptom = "nothing of MTP is accepted"
mending = "take another"
source = "https://example.org/mtp"
checked = 2026-11-29
"""


@pytest.fixture(scope="module")
def guesses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's draft with random weights: its tokenizer is right, and next to nothing of it is accepted."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("guesses") / "draft"
    shutil.copytree(DRAFT, folder)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(DRAFT)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (
            "vllm-ascend",
            "; on Ascend NPUs it was mostly the engine's, in one version or graph mode, and not the draft's; "
            "known of vLLM-Ascend: Nothing is accepted: take another. (https://example.org/zero)",
        ),
        ("xllm", "; on Ascend NPUs it was mostly the engine's, in one version or graph mode, and not the draft's"),
        ("vllm", ""),
    ],
)
def test_next_to_no_acceptance_points_at_the_engine(tmp_path: Path, guesses: Path, engine: str, said: str) -> None:
    (tmp_path / "known_issues.toml").write_text(ZERO, encoding="utf-8")
    own = ("--engine", engine, "--catalog", str(tmp_path / "known_issues.toml"), "--exit-zero")
    answer = probe(tmp_path, *own, draft=str(guesses))
    assert answer.exit_code == 0, answer.stderr
    (found,) = document(tmp_path / "probe.json")["drafts"]
    (doubt,) = [one for one in found["doubts"] if "more often a fault" in one]
    assert doubt.partition("look at the tokenizers")[2] == said


def test_result_and_trace_are_two_files(tmp_path: Path) -> None:
    answer = probe(tmp_path, "--trace", str(tmp_path / "probe.json"))
    assert answer.exit_code == 2
    assert "one file" in answer.stderr


def test_a_place_that_cannot_be_written_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    answer = run("probe", TARGET, DRAFT, "-o", str(tmp_path / "nowhere" / "probe.json"), *QUICK)
    assert answer.exit_code == 3
    assert "loading" not in answer.stderr


def test_what_needs_no_draft_is_named_where_no_draft_gains(tmp_path: Path) -> None:
    """Answers that repeat themselves, and a draft as dear as its target."""
    (tmp_path / "costs.json").write_text('{"target_ms": 10, "draft_ms": 10, "verify_ms": [10, 10, 10, 10, 10]}')
    answers = tmp_path / "answers.jsonl"
    rows = [{"prompt": f"Count {n}.", "response": "self.x = x\n" * 8} for n in range(10)]
    answers.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--responses", str(answers), "--costs", str(tmp_path / "costs.json"), "-k", "4", "--precision", "0")
    answer = run("probe", TARGET, DRAFT, "-o", str(tmp_path / "probe.json"), *options, "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    sentence = document(tmp_path / "probe.json")["decision"]["sentence"]
    assert "Without a draft" in sentence
    assert "doubtful" not in sentence, "costs that were given have no spread"
    again = run("plan", str(tmp_path / "probe.json"), "--json", "--exit-zero").document
    assert "Without a draft" in again["decision"]["sentence"]


DOUBTFUL = r"\(timings doubtful: passes of one kind spread by \d+ %; measure on a quiet machine\)\."


def test_a_verdict_says_at_once_that_its_timings_are_doubtful(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However little passes spread on the machine that runs this: the limit lies below it."""
    monkeypatch.setattr("draftpick.probing.document.PROBE", {**choices.PROBE, "unstable": -1.0})
    answer = run("probe", TARGET, TARGET, "-o", str(tmp_path / "probe.json"), *QUICK, "-k", "1", "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    sentence = document(tmp_path / "probe.json")["decision"]["sentence"]
    # Where timings alone keep it open, it says that instead.
    assert re.search(rf"on 6 prompts {DOUBTFUL}|its timings are too unsteady to decide", sentence)
