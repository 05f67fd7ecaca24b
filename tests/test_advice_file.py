"""The records of an advice: every document that the commands write reads back whole, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import run

from draftpick.advice_file import AdviceFile, read_advice
from draftpick.errors import InvalidFile
from draftpick.report.text import json_text

COMMANDS = (
    "recommend Qwen/Qwen2.5-72B-Instruct",
    "recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend --device 910b3 -tp 4 --max-num-seqs 32",
    "recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend --device 910b3 -tp 4 --max-num-seqs 32 --all",
    "recommend meta-llama/Llama-3.1-8B-Instruct --device h100-80g --input-len 1000 --output-len 200 --temperature 0.7",
    "recommend deepseek-ai/DeepSeek-V3 --engine sglang --device h100-80g -tp 8",
    "recommend Qwen/Qwen3-32B --engine mindie",
    "recommend Qwen/Qwen3-32B --memory 24GB --bandwidth 900GB/s --quantization awq --draft-quantization awq",
    "recommend google/gemma-3-27b-it --workload code --engine llama.cpp --stop-rule heuristic",
    "recommend Qwen/Qwen2.5-72B-Instruct -d Qwen/Qwen2.5-7B-Instruct -d Qwen/Qwen3-0.6B -k 5 --ignore size-ratio=known",
    "check Qwen/Qwen3-32B Qwen/Qwen3-0.6B --engine vllm --device h100-80g",
    "check Qwen/Qwen2.5-72B-Instruct Qwen/Qwen3-0.6B --images",
    "check meta-llama/Llama-3.1-70B-Instruct yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --select tokenizer-identity",
    "recommend meta-llama/Llama-3.1-405B-Instruct --device h100-80g --engine vllm --max-model-len 1073741824"
    " --max-num-seqs 1048576 --input-len 1073741824 --output-len 1073741824 --temperature 10",
    "plan --acceptance-rate 0.65 --draft-cost 0.05 -k 5",
    "plan --mean-acceptance-length 64 -k 64 --draft-cost 5e-324 --verify-cost 1e-6",
    "plan --acceptance-rate 0 -k 1 --draft-cost 1e15 --verify-cost 1e15 --overhead 1e15",
    "plan --mean-acceptance-length 2.4 -k 4 --draft-cost 0.9 --verify-cost 1.3 --overhead 0.1",
)


@pytest.fixture(scope="module", params=COMMANDS)
def written(request: pytest.FixtureRequest) -> str:
    answer = run(*request.param.split(), "--json")
    assert answer.exit_code in (0, 1), answer.stderr
    return answer.stdout


def kept(document: Any, back: Any, where: str = "") -> list[str]:
    """Where a value of the document is another one, or none, in what was read back."""
    if isinstance(document, Mapping):
        lost = [f"{where}.{key}" for key in document if key not in back]
        return lost + [
            found for key in document if key in back for found in kept(document[key], back[key], f"{where}.{key}")
        ]
    if isinstance(document, list):
        if len(document) != len(back):
            return [where]
        return [found for one, other in zip(document, back, strict=True) for found in kept(one, other, f"{where}[]")]
    return [] if document == back else [where]


def test_nothing_of_a_document_is_lost(written: str, tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    path.write_text(written, encoding="utf-8")
    advice = read_advice(path)
    assert kept(json.loads(written), advice.plain()) == []


def test_dumped_loaded_and_dumped_it_is_the_same(written: str, tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    path.write_text(written, encoding="utf-8")
    once = json_text(read_advice(path).plain())
    path.write_text(once, encoding="utf-8")
    assert json_text(read_advice(path).plain()) == once


SOURCED = 'source = "s"\nchecked = 2026-10-31\n'
FAMILY_OF_EXTREMES = f"""family = "Mine"
[[model]]
id = "me/large"
params_total = 10_000_000_000_000_000
num_hidden_layers = 9_000
hidden_size = 1_000_000
num_attention_heads = 8
num_key_value_heads = 8
head_dim = 1024
vocab_size = 1_000_000_000
max_position_embeddings = 1_099_511_627_776
num_nextn_predict_layers = 256
dtype = "float32"
{SOURCED}
[[model]]
id = "me/small"
params_total = 1
num_hidden_layers = 1
hidden_size = 1
vocab_size = 1
dtype = "bfloat16"
{SOURCED}
[[head]]
id = "me/head"
method = "eagle3"
target = "me/small"
params = 10_000_000_000_000_000
num_spec_tokens = 256
{SOURCED}
"""
SLOW, FAST = "slow", "fast"
DEVICES_OF_EXTREMES = f"""[[device]]
key = "{FAST}"
name = "Fast"
vendor = "nvidia"
memory_bytes = 10_000_000_000_000_000
bandwidth = 1_000_000_000_000_000_000
peak_fp16 = 100_000_000_000_000_000_000
{SOURCED}
[[device]]
key = "{SLOW}"
name = "Slow"
vendor = "x"
memory_bytes = 1
bandwidth = 1_000_000
peak_fp16 = 1_000_000_000
memory_efficiency = 0.001
compute_efficiency = 0.001
{SOURCED}
"""


@pytest.mark.parametrize(
    "command",
    [
        f"recommend me/large -d me/small --device {SLOW} --input-len 1073741824 --output-len 1 --max-num-seqs 1048576",
        f"recommend me/small -d me/large --device {SLOW} --max-model-len 1073741824 -tp 1024 --engine transformers",
        f"check me/small me/large --device {FAST} --engine vllm-ascend -k 64 --kv-cache-dtype q4_0",
        f"check me/small me/head --device {FAST} --memory 0.000001MB --gpu-memory-utilization 0.05",
    ],
)
def test_the_outermost_rows_of_an_overlay_give_an_answer_that_reads_back(command: str, tmp_path: Path) -> None:
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "extremes.toml").write_text(FAMILY_OF_EXTREMES, encoding="utf-8")
    (tmp_path / "devices.toml").write_text(DEVICES_OF_EXTREMES, encoding="utf-8")
    path = tmp_path / "advice.json"
    answer = run(*command.split(), "--catalog", str(tmp_path), "-o", str(path), "--json")
    assert answer.exit_code in (0, 1), answer.stderr
    assert kept(json.loads(path.read_text(encoding="utf-8")), read_advice(path).plain()) == []


def test_it_says_what_was_asked() -> None:
    document = run(
        "check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm", "-tp", "2", "--json", "--exit-zero"
    ).document
    assert document["request"] == {
        "command": "check",
        "target": "Qwen/Qwen3-32B",
        "drafts": ["Qwen/Qwen3-0.6B"],
        "probe_file": None,
        "options": {"engine": "vllm", "tensor-parallel-size": 2},
    }


def test_options_of_a_config_file_are_said_as_well(tmp_path: Path) -> None:
    config = tmp_path / "draftpick.toml"
    config.write_text('engine = "sglang"\nmax-num-seqs = 8\nall = true\n', encoding="utf-8")
    asked = run("recommend", "Qwen/Qwen3-32B", "--config", str(config), "--engine", "vllm", "--json").document
    assert asked["request"]["options"] == {"engine": "vllm", "max-num-seqs": 8, "all": True}


def changed(**values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: {**document, **values}


def first_candidate(**values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: {**document, "candidates": [{**document["candidates"][0], **values}]}


@pytest.fixture(scope="module")
def pair() -> dict[str, Any]:
    return run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--json").document


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed(schema_version="2"), "its schema_version is '2'"),
        (changed(schema_version=None), "its schema_version is None"),
        (changed(kind="probe"), "is no advice"),
        (lambda document: {key: document[key] for key in document if key != "candidates"}, "is no advice"),
        (changed(candidates={}), "candidates: "),
        (changed(command="gate"), "command: "),
        (changed(decision={}), "decision.action: "),
        (first_candidate(rank=0), "candidates.0.rank: "),
        (first_candidate(coverage=1.5), "candidates.0.coverage: "),
        (first_candidate(plan={"by_k": [{"k": -1}]}), "candidates.0.plan.by_k.0.k: "),
        (first_candidate(plan={"schedule": [[4, 1, 3]]}), "candidates.0.plan: "),
        (first_candidate(acceptance={"rate": 0.9, "low": 0.1, "high": 0.2, "source": ""}), "candidates.0.acceptance: "),
        (first_candidate(cost={"c": float("nan"), "source": ""}), "candidates.0.cost.c: "),
        (
            first_candidate(
                findings=[{"rule": "a", "outcome": "ok", "message": "b", "evidence": {"seen": float("inf")}}]
            ),
            "candidates.0.findings.0.evidence.seen",
        ),
        (first_candidate(engines={"vllm": {"verdict": "splendid", "version": "1"}}), "candidates.0.engines.vllm.ver"),
    ],
)
def test_what_is_no_advice_is_refused_by_file_and_field(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str, pair: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "advice.json"
    path.write_text(json.dumps(change(pair)), encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_advice(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def test_a_value_nested_without_end_is_refused(pair: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    deep = json.dumps(pair).replace('"evidence": {}', '"evidence": {"a": ' + "[" * 900 + "]" * 900 + "}", 1)
    path.write_text(deep, encoding="utf-8")
    with pytest.raises(InvalidFile):
        read_advice(path)


def test_keys_of_a_newer_version_are_let_pass(pair: dict[str, Any]) -> None:
    newer = {**pair, "later": 1, "candidates": [{**pair["candidates"][0], "later": [1]}]}
    assert AdviceFile.model_validate(newer) == AdviceFile.model_validate(pair)
