"""Finding the present device, with tools that print what the vendors' do."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run

from draftpick import devices
from draftpick.catalog import load

HEADER = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
PROCESSES = """\
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
"""


def board(name: str, bus: str, chip: str, memory: str) -> str:
    rows = f"| 0     {name:20}| OK            | 92.6        41                0    / 0             |\n"
    return f"{HEADER}{rows}| {chip:26}| {bus:14}| 0           {memory:39}|\n{PROCESSES}"


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def prints(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.txt").write_text(text.rstrip("\n") + "\n")
    tool(folder, name, f"while IFS= read -r line; do printf '%s\\n' \"$line\"; done < {folder}/{name}.txt")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("table", "name"),
    [
        pytest.param(board("910B3", "0000:C1:00.0", "0", "0    / 0          3401 / 65536"), "910b3", id="910B3"),
        pytest.param(board("910B4", "0000:C1:00.0", "0", "0    / 0          2849 / 32768"), "910b4", id="910B4"),
        pytest.param(board("910B4", "0000:C1:00.0", "0", "0    / 0          2849 / 65536"), "910b4-1", id="64 GB"),
        pytest.param(board("910B4-1", "0000:C1:00.0", "0", "0    / 0          2849 / 65536"), "910b4-1", id="910B4-1"),
        pytest.param(board("Ascend910", "0000:9D:00.0", "0     0", "0    / 0          3133 / 65536"), "910c", id="A3"),
        pytest.param(board("310P3", "0000:86:00.0", "0     0", "3497 / 44213"), "310p-duo-96g", id="300I Duo 96"),
        pytest.param(board("310P3", "0000:86:00.0", "0     0", "1764 / 21527"), "310p-duo-48g", id="300I Duo 48"),
        pytest.param(
            board("310P3", "0000:86:00.0", "0     0", "512  / 21527      0 / 0"), "310p-duo-48g", id="newer layout"
        ),
        pytest.param(board("310B4", "NA", "0     0", "957  / 10810"), "310b4", id="310B"),
    ],
)
def test_an_npu_is_found_by_its_name_and_memory(folder: Path, table: str, name: str) -> None:
    prints(folder, "npu-smi", table)
    prints(folder, "nvidia-smi", "NVIDIA H200")
    assert devices.present() == name
    assert load().device(name).vendor == "huawei"


@pytest.mark.parametrize(
    ("said", "key"),
    [("NVIDIA H200\n", "h200-141g"), ("NVIDIA A100-SXM4-80GB\nNVIDIA A100-SXM4-80GB\n", "a100-80g")],
)
def test_a_gpu_is_found(folder: Path, said: str, key: str) -> None:
    prints(folder, "nvidia-smi", said)
    assert load().device(devices.present()).key == key


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("exit 1", id="fails"),
        pytest.param("echo '| 0 910B3 | OK |'; exit 3", id="prints and fails"),
        pytest.param("echo dcmi module initialize failed. ret is -8005", id="no driver"),
        pytest.param(":", id="prints nothing"),
        pytest.param("i=0; while [ $i -lt 20000 ]; do echo '| x | y | z | 910B3'; i=$((i+1)); done", id="nonsense"),
        pytest.param("printf '\\377\\376|\\0|'", id="no text"),
        pytest.param("while :; do :; done", id="hangs"),
    ],
)
def test_a_tool_that_does_not_answer_counts_as_no_device(
    folder: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "TIMEOUT", 0.5)
    tool(folder, "npu-smi", body)
    assert devices.present() == "cpu"


def test_without_any_tool_it_is_the_cpu(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert load().device(devices.present()).key == "cpu"


def test_the_present_device_is_what_auto_means(folder: Path) -> None:
    prints(folder, "npu-smi", board("910B3", "0000:C1:00.0", "0", "0    / 0          3401 / 65536"))
    pair = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm-ascend")
    assert run(*pair, "--device", "auto", "--json").stdout == run(*pair, "--device", "910b3", "--json").stdout


def test_a_gpu_that_nobody_catalogued_is_named(folder: Path) -> None:
    prints(folder, "nvidia-smi", "Frobnicator 9000")
    answer = run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--device", "auto")
    assert answer.exit_code == 2
    assert "Frobnicator 9000" in answer.stderr
