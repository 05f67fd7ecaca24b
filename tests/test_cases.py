"""Pairs and rankings with a known right answer: families, generations, heads, engines, devices and splits.

Each answer was written down from published facts before the command was run; `cases.csv` holds the pairs. Expected are
verdicts of engines and outcomes of rules, and whether the pair fits: `unknown` is for tokenizers that nobody compared.
Whether what fits also pays is a prediction, and no part of these answers.
"""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from commands import run

from draftpick.pair import DRAFT_FREE

with open(Path(__file__).parent / "cases.csv", encoding="utf-8", newline="") as _file:
    CASES = list(csv.DictReader(_file))


def test_the_table_is_what_it_was() -> None:
    assert len(CASES) >= 230
    assert len({case["id"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_pair(case: dict[str, str]) -> None:
    answer = run("check", case["target"], case["draft"], *case["options"].split(), "--json")
    found = answer.document["candidates"][0]
    said = {finding["rule"]: finding["outcome"] for finding in found["findings"]}
    said |= {engine: verdict["verdict"] for engine, verdict in found["engines"].items()}
    wanted = dict(item.split("=") for item in case["expected"].split())
    assert {name: said.get(name) for name in wanted} == wanted
    decision = answer.document["decision"]
    assert found["viable"] == (case["fits"] != "no")
    if case["fits"] != "yes":
        assert decision["action"] == {"no": "do_not_speculate", "unknown": "undecided"}[case["fits"]]
        assert decision["speedup"] is None
    assert answer.exit_code == (1 if decision["action"] == "do_not_speculate" else 0)


# ---------------------------------------------------------------------- rankings


@cache
def ranking(target: str) -> tuple[int, str, list[str]]:
    """Exit code, decision, and the viable drafts in order; the target's own head is called mtp."""
    answer = run("recommend", target, "--json")
    viable = [row for row in answer.document["candidates"] if row["viable"] and row["method"] not in DRAFT_FREE]
    decision: dict[str, Any] = answer.document["decision"]
    return answer.exit_code, decision["sentence"], [row["draft"] or row["method"] for row in viable]


ORDER = """
Qwen/Qwen3-32B
    RedHatAI/Qwen3-32B-speculator.eagle3 > Qwen/Qwen3-0.6B
    Qwen/Qwen3-0.6B > Qwen/Qwen3-0.6B-Base
    Qwen/Qwen3-1.7B > Qwen/Qwen3-8B
    Qwen/Qwen3-0.6B > Qwen/Qwen2.5-0.5B-Instruct
    Qwen/Qwen2.5-0.5B-Instruct > Qwen/Qwen1.5-0.5B-Chat
    Qwen/Qwen3-1.7B > Qwen/Qwen1.5-MoE-A2.7B-Chat
    Qwen/Qwen3-1.7B > Qwen/Qwen3-VL-2B-Instruct
    Qwen/Qwen3-4B > Qwen/Qwen3-14B
Qwen/Qwen3-235B-A22B
    nvidia/Qwen3-235B-A22B-Eagle3 > Qwen/Qwen3-0.6B
    Qwen/Qwen3-0.6B > Qwen/Qwen3-8B
Qwen/Qwen2.5-72B-Instruct
    Qwen/Qwen2.5-7B-Instruct > Qwen/Qwen2.5-7B
    Qwen/Qwen2.5-7B-Instruct > Qwen/Qwen2-7B-Instruct
    Qwen/Qwen2.5-7B-Instruct > Qwen/Qwen2.5-Coder-7B-Instruct
    Qwen/Qwen2.5-7B-Instruct > Qwen/Qwen2.5-Math-7B-Instruct
    Qwen/Qwen2.5-7B-Instruct > Qwen/Qwen2.5-VL-7B-Instruct
Qwen/Qwen2.5-Coder-14B-Instruct
    Qwen/Qwen2.5-Coder-0.5B-Instruct > Qwen/Qwen2.5-0.5B-Instruct
    Qwen/Qwen2.5-Coder-0.5B-Instruct > Qwen/Qwen2.5-Coder-0.5B
    Qwen/Qwen2.5-Coder-1.5B-Instruct > Qwen/Qwen2.5-Math-1.5B-Instruct
    Qwen/Qwen2.5-Coder-1.5B-Instruct > Qwen/Qwen2.5-Coder-7B-Instruct
Qwen/Qwen3-Coder-480B-A35B-Instruct
    jukofyork/Qwen3-Coder-Instruct-DRAFT-0.75B > Qwen/Qwen3-0.6B
Qwen/QwQ-32B
    deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B > Qwen/Qwen2.5-1.5B-Instruct
    Qwen/Qwen2.5-1.5B-Instruct > Qwen/Qwen2.5-1.5B
meta-llama/Llama-3.3-70B-Instruct
    RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3 > meta-llama/Llama-3.2-1B-Instruct
    meta-llama/Llama-3.2-1B-Instruct > meta-llama/Llama-3.2-1B
    meta-llama/Llama-3.1-8B-Instruct > meta-llama/Meta-Llama-3-8B-Instruct
    meta-llama/Llama-3.1-8B-Instruct > NousResearch/Hermes-3-Llama-3.1-8B
    meta-llama/Llama-3.1-8B-Instruct > meta-llama/Llama-3.2-11B-Vision-Instruct
    meta-llama/Llama-3.2-1B-Instruct > deepseek-ai/DeepSeek-R1-Distill-Llama-8B
meta-llama/Llama-2-70b-chat-hf
    yuhuili/EAGLE-llama2-chat-70B > meta-llama/Llama-2-7b-chat-hf
    meta-llama/Llama-2-7b-chat-hf > meta-llama/Llama-2-7b-hf
google/gemma-3-27b-it
    google/gemma-3-1b-it > google/gemma-3-1b-pt
    google/gemma-3-4b-it > google/gemma-3-12b-it
    google/gemma-3-270m-it > google/gemma-4-E2B-it
    google/gemma-3-1b-it > google/gemma-4-26B-A4B-it
mistralai/Mistral-Large-Instruct-2411
    mistralai/Mistral-7B-Instruct-v0.3 > mistralai/Mathstral-7B-v0.1
    mistralai/Mistral-Small-Instruct-2409 > mistralai/Codestral-22B-v0.1
deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
    deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B > Qwen/Qwen2.5-1.5B-Instruct
    alamios/DeepSeek-R1-DRAFT-Qwen2.5-0.5B > Qwen/Qwen2.5-0.5B-Instruct
deepseek-ai/DeepSeek-R1-Distill-Llama-70B
    deepseek-ai/DeepSeek-R1-Distill-Llama-8B > meta-llama/Llama-3.1-8B-Instruct
openai/gpt-oss-120b
    lmsys/EAGLE3-gpt-oss-120b-bf16 > openai/gpt-oss-20b
zai-org/GLM-4.5-Air
    mtp > jukofyork/GLM-4.5-DRAFT-0.6B-v3.0
    jukofyork/GLM-4.5-DRAFT-0.6B-v3.0 > zai-org/GLM-4-9B-0414
deepseek-ai/DeepSeek-V3.1
    mtp > jukofyork/DeepSeek-V3-DRAFT-0.6B-v3.0
01-ai/Yi-1.5-34B-Chat
    01-ai/Yi-1.5-6B-Chat > 01-ai/Yi-1.5-6B
nvidia/Nemotron-H-56B-Base-8K
    nvidia/Nemotron-H-8B-Base-8K > nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16
"""
"""A target, and below it which draft stands before which."""


def rows_of(table: str) -> list[tuple[str, str, str]]:
    rows, target = [], ""
    for line in table.strip().splitlines():
        if line.startswith(" "):
            better, worse = line.strip().split(" > ")
            rows.append((target, better, worse))
        else:
            target = line
    return rows


@pytest.mark.parametrize(
    ("target", "better", "worse"),
    rows_of(ORDER),
    ids=["-".join(name.rpartition("/")[2] for name in row) for row in rows_of(ORDER)],
)
def test_one_draft_stands_before_another(target: str, better: str, worse: str) -> None:
    _, _, viable = ranking(target)
    assert viable.index(better) < viable.index(worse)


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        pytest.param("MiniMaxAI/MiniMax-M2", "microsoft/Phi-4-mini-instruct", id="equal rows of another maker"),
        pytest.param("nvidia/Nemotron-H-56B-Base-8K", "tiiuae/Falcon3-1B-Base", id="equal rows of a third maker"),
        pytest.param("zai-org/GLM-5", "zai-org/GLM-4.5-Air", id="more ids of text than rows"),
        pytest.param("meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-3.2-1B-Instruct", id="measured"),
    ],
)
def test_a_draft_of_another_vocabulary_is_not_offered(target: str, draft: str) -> None:
    assert draft not in ranking(target)[2]


def test_where_nothing_fits_it_says_what_is_left() -> None:
    code, sentence, viable = ranking("MiniMaxAI/MiniMax-M2")
    assert (code, viable) == (1, [])
    assert "n-gram lookup" in sentence
    assert "head could be trained" in sentence


@pytest.mark.parametrize(
    ("options", "engine"),
    [
        pytest.param((), "vllm", id="no device"),
        pytest.param(("--device", "910b3"), "vllm-ascend", id="an Ascend device"),
        pytest.param(("--device", "m3-max"), "mlx", id="an Apple device"),
        pytest.param(("--device", "cpu"), "llama.cpp", id="a processor"),
    ],
)
def test_the_engine_named_is_one_that_people_run_there(options: tuple[str, ...], engine: str) -> None:
    answer = run("recommend", "Qwen/Qwen3-32B", "-d", "Qwen/Qwen3-0.6B", *options, "--json")
    assert f"in {engine} " in answer.document["decision"]["sentence"]


def test_no_rare_engine_is_named_for_accepting_what_a_usual_one_takes_with_care() -> None:
    answer = run("check", "EleutherAI/pythia-12b", "EleutherAI/pythia-160m", "--json")
    assert answer.document["candidates"][0]["engines"]["mlx"]["verdict"] == "accepted"
    assert "in vllm (with care)" in answer.document["decision"]["sentence"]


# ---------------------------------------------------------------------- folders made from catalogued shapes

QWEN3_32B = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600,
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def folder(path: Path, config: dict[str, Any], card: str = "") -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    if card:
        (path / "README.md").write_text(card)
    return path


def findings(target: Path, draft: str) -> dict[str, Any]:
    document = run("recommend", str(target), "--json").document
    found = next(row for row in document["candidates"] if row["draft"] == draft)
    return {"via": found["via"]} | {row["rule"]: row for row in found["findings"]}


def test_a_quantised_copy_gets_what_its_base_has_and_is_told_so(tmp_path: Path) -> None:
    config = {**QWEN3_32B, "quantization_config": {"quant_method": "awq", "bits": 4}}
    said = findings(folder(tmp_path / "Qwen3-32B-AWQ", config), "RedHatAI/Qwen3-32B-speculator.eagle3")
    assert said["head-target"]["outcome"] == "ok"
    assert "quantised copy of Qwen/Qwen3-32B" in said["head-target"]["message"]
    assert said["via"] == "Qwen/Qwen3-32B"


def test_a_fine_tune_without_a_tokenizer_probably_has_its_base_s(tmp_path: Path) -> None:
    card = "---\nbase_model: Qwen/Qwen3-32B\nbase_model_relation: finetune\n---\n\n# x\n"
    said = findings(folder(tmp_path / "acme", QWEN3_32B, card), "Qwen/Qwen3-0.6B")
    assert said["tokenizer-identity"]["outcome"] == "ok"
    assert said["tokenizer-identity"]["evidence"]["verified"] is False
    assert said["changed-target"]["outcome"] == "warn"
    assert "fine-tune of Qwen/Qwen3-32B" in said["changed-target"]["message"]


def test_a_fine_tune_with_other_rows_is_not_given_its_base_s_tokenizer(tmp_path: Path) -> None:
    card = "---\nbase_model: Qwen/Qwen3-32B\nbase_model_relation: finetune\n---\n\n# x\n"
    target = folder(tmp_path / "acme", {**QWEN3_32B, "vocab_size": 152000}, card)
    assert findings(target, "Qwen/Qwen3-0.6B")["tokenizer-identity"]["outcome"] == "skip"


def test_an_adapter_is_judged_on_its_base_with_a_warning(tmp_path: Path) -> None:
    target = tmp_path / "adapter"
    target.mkdir()
    config = {"base_model_name_or_path": "meta-llama/Llama-3.3-70B-Instruct", "peft_type": "LORA", "r": 16}
    (target / "adapter_config.json").write_text(json.dumps(config))
    said = findings(target, "meta-llama/Llama-3.1-8B")
    assert said["changed-target"]["outcome"] == "warn"
    assert "an adapter on meta-llama/Llama-3.3-70B-Instruct" in said["changed-target"]["message"]
