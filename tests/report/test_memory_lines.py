"""Memory in the answers: the sentence, the lines below the table, the JSON block."""

from __future__ import annotations

import json

import pytest

from tests.commands import run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            ["--device", "h100"],
            "It does not fit on 1 × h100-80g: it takes 4 of them, or 1 with",
            id="too large for one",
        ),
        pytest.param(
            ["--device", "h100", "-tp", "4"],
            "Memory of each of 4 × h100-80g, with meta-llama/Llama-3.2-1B-Instruct, GiB, estimated: target ",
            id="fits",
        ),
        pytest.param(["--device", "910b3", "-tp", "8"], "sequences at once", id="room"),
        pytest.param(["--memory", "64GB", "-tp", "4"], "Memory of each of 4 × device, ", id="memory alone"),
        pytest.param(["--memory", "64GB"], "It does not fit on 1 × device: it takes ", id="memory alone, too little"),
    ],
)
def test_the_answer_speaks_of_memory(options: list[str], said: str) -> None:
    answer = run("check", "meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", *options)
    assert said in answer.stdout


def test_without_a_device_the_parts_stand_in_the_json_alone() -> None:
    pair = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")
    assert "Memory" not in run(*pair).stdout
    memory = json.loads(run(*pair, "--json").stdout)["candidates"][0]["memory"]
    assert memory["fits"] is None
    assert memory["per_device_bytes"]["draft_weights"] > 1_000_000_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--memory", "0"], "64GB or 60.9GiB", id="no unit"),
        pytest.param(["--memory", "-4GB"], "64GB or 60.9GiB", id="negative"),
        pytest.param(["--memory", "many"], "64GB or 60.9GiB", id="words"),
        pytest.param(["--gpu-memory-utilization", "1.5"], "from 0.05 to 1", id="share above one"),
        pytest.param(["-tp", "0"], "from 1 to 1024", id="no devices"),
    ],
)
def test_impossible_amounts_name_what_is_allowed(options: list[str], said: str) -> None:
    answer = run("recommend", "Qwen/Qwen3-32B", "--device", "h100", *options)
    assert answer.exit_code == 2
    assert said in answer.stderr


@pytest.mark.parametrize("text", ["64GB", "64GiB", "64 gb", "65536MiB"])
def test_memory_is_labelled_in_powers_of_two(text: str) -> None:
    answer = run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--device", "910b3", "--memory", text, "--json")
    memory = json.loads(answer.stdout)["candidates"][0]["memory"]
    assert sum(memory["per_device_bytes"].values()) == 64 * 2**30


@pytest.mark.parametrize(
    ("sequences", "waits"), [pytest.param("512", True, id="some have room"), pytest.param("8", False, id="all have")]
)
def test_more_sequences_than_there_is_room_for_wait(sequences: str, waits: bool) -> None:
    place = ("--device", "h100", "-tp", "8", "--engine", "sglang", "--max-num-seqs", sequences)
    text = run("recommend", "Qwen/Qwen3-32B", "-d", "Qwen/Qwen3-0.6B", *place).stdout
    sentence = text.splitlines()[0]
    assert ("full-length sequences at once, of 512: the rest wait" in sentence) is waits
    assert "does not fit" not in sentence
    assert ("without the draft: the rest wait." in text) is waits
    assert (", missing " in text) is waits


def test_memory_is_shown_for_as_many_devices_as_the_prediction_holds_for() -> None:
    text = run("recommend", "Qwen/Qwen2.5-72B-Instruct", "--device", "910b", "--engine", "vllm-ascend").stdout
    assert "in vllm-ascend on 4 × 910b3 with" in text.splitlines()[0]
    (line,) = (line for line in text.splitlines() if line.startswith("Memory of each of "))
    assert line.startswith("Memory of each of 4 × 910b3, ")
    assert ", free " in line


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        pytest.param((), "on 1 device: does not fit, ", id="none asked for"),
        pytest.param(("-tp", "4"), "fits, ", id="as many as it takes"),
    ],
)
def test_a_report_says_for_how_many_devices_its_memory_is(devices: tuple[str, ...], said: str) -> None:
    asked = ("recommend", "Qwen/Qwen2.5-72B-Instruct", "--device", "910b", "--engine", "vllm-ascend", *devices)
    found = json.loads(run(*asked, "--json").stdout)["candidates"][0]
    assert found["memory"]["tensor_parallel_size"] == (int(devices[1]) if devices else 1)
    assert found["cost"]["tensor_parallel_size"] == 4
    text = run(*asked, "--format", "markdown").stdout
    (row,) = (line for line in text.splitlines() if line.startswith("| memory "))
    assert row.split("|")[2].strip().startswith(said)
    assert row.endswith("; the speed-up is predicted on 4 |") is (not devices)
    assert ("910b3, estimated; the speed-up is predicted on 4 of them**" in text) is (not devices)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--max-model-len", "1073741824", "--max-num-seqs", "1048576"),
            "No number of h100-80g up to 64 holds 1,048,576 sequences of 1,073,741,824 tokens of Qwen/Qwen3-32B with ",
        ),
        (
            ("--max-model-len", "1073741824"),
            "No number of h100-80g up to 64 holds one sequence of 1,073,741,824 tokens",
        ),
        (("--max-num-seqs", "1048576"), "Put "),
        (("--max-model-len", "32768", "--max-num-seqs", "4"), "Put "),
    ],
)
def test_a_load_that_nothing_holds_decides_nothing(options: tuple[str, ...], said: str) -> None:
    answer = run("recommend", "Qwen/Qwen3-32B", "--device", "h100-80gb", "--engine", "vllm", *options, "--json")
    decision = answer.document["decision"]
    assert decision["sentence"].startswith(said)
    assert (decision["action"] == "undecided") is (not said.startswith("Put"))
    assert (decision["speedup"] is None) is (not said.startswith("Put"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "Qwen/Qwen2.5-32B-Instruct --engine llama.cpp --device rtx3090",
            "it takes 4 of them, or 1 with --quantization q4_k_m.",
        ),
        ("Qwen/Qwen2.5-72B-Instruct --engine vllm --device h100", ", or 1 with --quantization awq."),
        ("Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend --device 910b3", ", or 1 with --quantization w4a8."),
        ("Qwen/Qwen2.5-72B-Instruct --engine vllm --device h100 --quantization fp8", "it takes 2 of them."),
        ("deepseek-ai/DeepSeek-V3 --engine sglang --device h200", "it takes 8 of them."),
        ("Qwen/Qwen3-8B --engine vllm --device t4", ", or 1 with --quantization awq."),
    ],
)
def test_what_does_not_fit_is_told_the_format_that_does(arguments: str, said: str) -> None:
    sentence = json.loads(run("recommend", *arguments.split(), "--json").stdout)["decision"]["sentence"]
    assert sentence.endswith(said)
