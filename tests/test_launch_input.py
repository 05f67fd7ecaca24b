"""From a file to a start: what an advice or a probe decides, what may be chosen otherwise, and the command."""

from __future__ import annotations

import json
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, run

from draftpick.catalog import load
from draftpick.launch import launch
from draftpick.launch_input import Choice, wanted_from

DEMO = Path(__file__).parents[1] / "catalog" / "demo"
TARGET, DRAFT = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct"
PLACE = ("--device", "910b3", "-tp", "4", "--max-num-seqs", "16", "--max-model-len", "8192", "--dtype", "bfloat16")

LOADED = ("--device", "h100-80g", "--max-num-seqs", "64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Advices by name, as the commands wrote them, and a probe."""
    found = tmp_path_factory.mktemp("advices")
    commands: dict[str, tuple[str, ...]] = {
        "ascend": ("recommend", TARGET, "--engine", "vllm-ascend", *PLACE),
        "anywhere": ("recommend", TARGET),
        "refused": ("check", TARGET, "Qwen/Qwen2.5-0.5B-Instruct", "--engine", "vllm-ascend"),
        "bridged": ("check", TARGET, "Qwen/Qwen2.5-0.5B-Instruct", "--engine", "vllm"),
        "mtp": ("recommend", "deepseek-ai/DeepSeek-V3", "--engine", "vllm", "--device", "h100-80g", "-tp", "16"),
        "loses": ("check", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "--engine", "vllm", *LOADED),
        "numbers": ("plan", "--acceptance-rate", "0.7", "--draft-cost", "0.05"),
        "demo": ("check", str(DEMO / "target"), str(DEMO / "draft"), "--engine", "transformers", "--device", "cpu"),
    }
    for name, command in commands.items():
        run(*command, "--json", "-o", str(found / f"{name}.json"))
    return found


def started(folder: Path, name: str, *options: str) -> Answer:
    return run("launch", str(folder / f"{name}.json"), *options)


def config(text: str) -> dict[str, Any]:
    words = shlex.split(text.replace(" \\\n", " "))
    found = json.loads(words[words.index("--speculative-config") + 1])
    assert isinstance(found, dict)
    return found


def test_a_decision_becomes_a_script_with_what_was_asked(folder: Path) -> None:
    answer = started(folder, "ascend")
    assert answer.exit_code == 0
    words = shlex.split(answer.stdout.replace(" \\\n", " "))
    assert words[:3] == ["vllm", "serve", TARGET]
    for option, value in (
        ("--tensor-parallel-size", "4"),
        ("--max-num-seqs", "16"),
        ("--max-model-len", "8192"),
        ("--dtype", "bfloat16"),
    ):
        assert words[words.index(option) + 1] == value
    decided = json.loads((folder / "ascend.json").read_text(encoding="utf-8"))["decision"]
    assert config(answer.stdout) == {
        "method": "draft_model",
        "model": decided["draft"],
        "num_speculative_tokens": decided["num_spec_tokens"],
        "draft_tensor_parallel_size": 4,
    }
    assert "Start vLLM-Ascend 0.23.0" in answer.stderr


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (("-k", "5"), "num_speculative_tokens", 5),
        (("-d", "Qwen/Qwen2.5-14B-Instruct"), "model", "Qwen/Qwen2.5-14B-Instruct"),
        (("-d", "qwen/qwen2.5-14b-instruct/"), "model", "Qwen/Qwen2.5-14B-Instruct"),
        (("--method", "ngram", "-k", "4"), "method", "ngram"),
        (("--engine", "vllm-ascend@0.18.0"), "method", "draft_model"),
    ],
)
def test_something_else_may_be_chosen(folder: Path, options: tuple[str, ...], key: str, value: Any) -> None:
    answer = started(folder, "ascend", *options)
    assert answer.exit_code == 0
    assert config(answer.stdout)[key] == value


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ascend", ("-d", "acme/unknown"), "acme/unknown is not among the drafts of this advice"),
        ("ascend", ("--method", "eagle3"), "no candidate of this advice is for eagle3"),
        ("ascend", ("-d", DRAFT, "--method", "eagle3"), "drafts by draft_model, not by eagle3"),
        ("ascend", ("-d", DRAFT, "--method", "ngram"), "drafts by draft_model, not by ngram"),
        ("ascend", ("-k", "20"), "num_spec_tokens 20 is above 14 in vLLM-Ascend"),
        ("ascend", ("--method", "ngram"), "no number of speculative tokens is known"),
        ("ascend", ("--engine", "nope"), "unknown engine 'nope'"),
        ("numbers", (), "the numbers of this plan belong to no model"),
        ("missing", (), "missing.json"),
    ],
)
def test_what_can_not_be_meant(folder: Path, name: str, options: tuple[str, ...], message: str) -> None:
    answer = started(folder, name, *options)
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("content", ["[]", "{}", '{"kind": "probe"}', '{"candidates": []}', "not json"])
def test_a_file_of_something_else(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    answer = run("launch", str(path))
    assert answer.exit_code == 2
    assert "Traceback" not in answer.stderr


def test_where_the_engine_refuses_the_pair_only_the_plain_start_is_written(folder: Path) -> None:
    answer = started(folder, "refused", "-d", "Qwen/Qwen2.5-0.5B-Instruct")
    assert answer.exit_code == 1
    assert "--speculative-config" not in answer.stdout
    assert "vLLM-Ascend 0.23.0 refuses the pair: 152,064 embedding rows against 151,936" in answer.stderr
    assert started(folder, "refused", "-d", "Qwen/Qwen2.5-0.5B-Instruct", "--exit-zero").exit_code == 0


def test_unequal_rows_are_bridged_where_vllm_can(folder: Path) -> None:
    answer = started(folder, "bridged", "-d", "Qwen/Qwen2.5-0.5B-Instruct", "-k", "3")
    assert config(answer.stdout)["use_heterogeneous_vocab"] is True
    assert "refused as shipped" in answer.stderr


def test_the_targets_own_head(folder: Path) -> None:
    found = config(started(folder, "mtp").stdout)
    assert found["method"] == "mtp"
    assert "model" not in found


@pytest.mark.parametrize("name", ["loses", "refused"])
def test_where_nothing_is_drafted_the_plain_start_and_why(folder: Path, name: str) -> None:
    decision = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["decision"]
    assert decision["action"] != "speculate"
    answer = started(folder, name)
    assert answer.exit_code == 0
    assert "speculative" not in answer.stdout
    assert decision["sentence"].split(":")[0] in answer.stderr


def test_without_an_engine_that_of_the_prediction_is_started(folder: Path) -> None:
    document = json.loads((folder / "anywhere.json").read_text(encoding="utf-8"))
    decided = document["decision"]["draft"]
    predicted = next(one["cost"]["engine"] for one in document["candidates"] if one["draft"] == decided)
    assert document["engine"] is None
    assert started(folder, "anywhere", "-d", decided, "--json").document["engine"]["id"] == predicted


def test_devices_that_nobody_named_are_said(folder: Path) -> None:
    answer = started(folder, "anywhere", "--engine", "vllm", "-d", DRAFT)
    assert "are assumed, the fewest that hold the weights" in answer.stderr
    assert "are assumed" not in started(folder, "ascend").stderr


def test_json_has_all_of_it(folder: Path) -> None:
    found = started(folder, "ascend", "--json").document
    assert (found["kind"], found["schema_version"], found["as_decided"]) == ("launch", "1", True)
    assert found["steps"][0]["text"] == started(folder, "ascend").stdout
    assert (found["engine"], found["draft"]) == ({"id": "vllm-ascend", "version": "0.23.0"}, DRAFT)


def test_to_a_file_and_quietly(folder: Path, tmp_path: Path) -> None:
    answer = started(folder, "ascend", "-o", str(tmp_path / "start.sh"), "-q")
    assert (answer.stdout, answer.stderr) == ("", "")
    assert (tmp_path / "start.sh").read_text(encoding="utf-8") == started(folder, "ascend").stdout


def test_markdown(folder: Path) -> None:
    text = started(folder, "ascend", "--format", "markdown").stdout
    assert text.startswith("## Start Qwen/Qwen2.5-72B-Instruct in vllm-ascend\n")
    assert "**Start vLLM-Ascend 0.23.0 with Qwen/Qwen2.5-7B-Instruct (draft_model" in text
    assert f"```sh\n{started(folder, 'ascend').stdout}```\n" in text


# ---------------------------------------------------------------------- probes


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe of the demo pair, on two prompts and with given costs: only its file is looked at."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("probe")
    costs = folder / "costs.json"
    costs.write_text(json.dumps({"target_ms": 10, "draft_ms": 0.5, "verify_ms": [10, 10.2, 10.4]}), encoding="utf-8")
    run(
        "probe", str(DEMO / "target"), str(DEMO / "draft"), "--prompts", str(DEMO / "prompts.jsonl"),
        "--num-prompts", "2", "--max-new-tokens", "24", "--device", "cpu", "--costs", str(costs),
        "-o", str(folder / "probe.json"), "--exit-zero",
    )  # fmt: skip
    return folder / "probe.json"


def test_what_speaks_against_a_draft_is_said_where_it_is_started_all_the_same(folder: Path, probe: Path) -> None:
    for path, draft in ((folder / "loses.json", "Qwen/Qwen3-4B"), (probe, str(DEMO / "draft"))):
        document = json.loads(path.read_text(encoding="utf-8"))
        said = f"Decided was otherwise: {document['decision']['sentence']}"
        answer = run("launch", str(path), "-d", draft, "-k", "2")
        assert (said in answer.stderr) == (document["decision"]["action"] == "do_not_speculate")
    swapped = folder / "swapped.json"
    run("check", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "--engine", "vllm", *LOADED, "--json", "-o", str(swapped))
    answer = run("launch", str(swapped), "-d", "Qwen/Qwen3-8B", "-k", "2")
    assert "The rule swapped-roles rejects the pair" in answer.stderr


def test_a_decision_for_a_draft_that_is_not_listed_starts_nothing(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "ascend.json").read_text(encoding="utf-8"))
    document["decision"]["draft"] = "acme/gone"
    (tmp_path / "advice.json").write_text(json.dumps(document), encoding="utf-8")
    answer = run("launch", str(tmp_path / "advice.json"))
    assert (answer.exit_code, "decides for acme/gone" in answer.stderr) == (2, True)


def test_a_probe_is_started_in_transformers(probe: Path) -> None:
    answer = run("launch", str(probe), "-d", str(DEMO / "draft"), "-k", "3")
    assert answer.exit_code == 0
    assert "num_assistant_tokens = 3" in answer.stdout
    assert "assistant_confidence_threshold = 0.0" in answer.stdout


def test_a_probe_is_started_in_another_engine_only_where_it_is_named(probe: Path, tmp_path: Path) -> None:
    answer = run("launch", str(probe), "--engine", "vllm", "-d", str(DEMO / "draft"), "-k", "2")
    assert config(answer.stdout)["num_speculative_tokens"] == 2
    assert "The probe measured transformers: draftpick plan PROBE.json --engine vllm" in answer.stderr
    document = {**json.loads(probe.read_text(encoding="utf-8")), "engine": "vllm"}
    (tmp_path / "other.json").write_text(json.dumps(document), encoding="utf-8")
    other = run("launch", str(tmp_path / "other.json"))
    assert (other.exit_code, "name the engine" in other.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [(("-d", "acme/none"), "was not measured in this probe"), (("--method", "eagle3"), "drafts by draft_model")],
)
def test_what_a_probe_does_not_hold(probe: Path, options: tuple[str, ...], message: str) -> None:
    answer = run("launch", str(probe), *options)
    assert (answer.exit_code, message in answer.stderr) == (2, True)


# ---------------------------------------------------------------------- the script really runs


def output_of(script: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a script of ours in this process; its variables, with what it printed as `printed`."""
    path = folder / "start.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(path), "Once upon a time"])
    capsys.readouterr()
    found = runpy.run_path(str(path))
    return {**found, "printed": capsys.readouterr().out}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "options"), [("demo", ("-d", str(DEMO / "draft"), "-k", "3")), ("demo", ())])
def test_the_script_of_transformers_runs(
    name: str,
    options: tuple[str, ...],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    wanted = wanted_from(
        folder / f"{name}.json", Choice(draft=options[1] if options else None, num_spec_tokens=3), load()
    )
    wanted = wanted._replace(place=wanted.place._replace(dtype="float32", temperature=0.0))
    script = launch(wanted).steps[0].text.replace("'max_new_tokens': 128", "'max_new_tokens': 16")
    ran = output_of(script, tmp_path, capsys, monkeypatch)
    assert ran["printed"].strip()
    plain = ran["model"].generate(**ran["inputs"], max_new_tokens=16, do_sample=False)
    assert torch.equal(ran["output"], plain)
    if options:
        settings = ran["assistant"].generation_config
        assert (settings.num_assistant_tokens, settings.num_assistant_tokens_schedule) == (3, "constant")
        assert settings.assistant_confidence_threshold == 0.0 or wanted.place.stop_rule != "fixed"


def test_a_format_that_launch_has_not_is_refused(tmp_path: Path) -> None:
    answer = run("launch", str(tmp_path / "advice.json"), "--format", "html")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "one of table (the script), json, markdown" in answer.stderr
