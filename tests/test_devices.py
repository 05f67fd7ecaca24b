"""Which device is here: asked of real executables that answer as the vendors' tools do."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run

from draftpick import catalog, devices

A2 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     {name:<20}| OK            | 93.8        38                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          {used} / {total}         |
+===========================+===============+====================================================+
| 1     {name:<20}| Warning       | 91.2        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          {used} / {total}         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 310310        | python3.11               | 512                     |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""

A3 = """\
+------------------------------------------------------------------------------------------------------------------+
| npu-smi 25.5.0                              Version: 25.5.0                                                      |
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 0     Ascend910           | OK            | 171.4                36                      0    / 0                |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                15133/ {total}            |
+------------------------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -                    35                      0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0                2886 / {total}            |
+===========================+===============+======================================================================+
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
+===========================+===============+======================================================================+
| 0       0                 | 692311        | python3            | 12417                 | NA                      |
+===========================+===============+======================================================================+
"""

DUO = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 23.0.1                                   Version: 23.0.1                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 32      310P3                 | OK              | NA           43                0     / 0             |
| 0       0                     | 0000:02:00.0    | 0            {memory:<40}|
+-------------------------------+-----------------+------------------------------------------------------+
| 64      310P3                 | OK              | NA           42                0     / 0             |
| 1       1                     | 0000:02:00.0    | 0            {memory:<40}|
+===============================+=================+======================================================+
"""

EDGE = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 23.0.rc3                                 Version: 23.0.rc3                                     |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 0       310B4                 | {health:<16}| 0.0          52                15    / 15            |
| 0       0                     | NA              | 0            957  / 10810                            |
+===============================+=================+======================================================+
"""

MIXED = A2.format(name="910B3", used=3401, total=65536) + DUO.format(memory="3497 / 44213")

# How the tool answers, and the device that means: all of these are in the catalogue.
ASCENDS = {
    "A2": (A2.format(name="910B3", used=3401, total=65536), "910b3"),
    "A2 of 16 devices": (A2.format(name="910B2C", used=3401, total=65536), "910b2c"),
    "910B4 with 32 GB": (A2.format(name="910B4", used=2849, total=32768), "910b4"),
    "910B4 with 64 GB": (A2.format(name="910B4", used=3197, total=65536), "910b4-1"),
    "910B4-1": (A2.format(name="910B4-1", used=3197, total=65536), "910b4-1"),
    "910B4 that hides its memory": (A2.format(name="910B4", used="NA", total="NA"), "910b4"),
    "A3": (A3.format(total=65536), "910c"),
    "Duo 96 GB": (DUO.format(memory="3497 / 44213"), "310p-duo-96g"),
    "Duo 48 GB": (DUO.format(memory="1764 / 21527"), "310p-duo-48g"),
    "Duo with an empty second pair": (DUO.format(memory="512  / 21527          0    / 0"), "310p-duo-48g"),
    "Duo without memory": (DUO.format(memory="-"), "310p3"),
    "310B": (EDGE.format(health="Alarm"), "310b4"),
    "310B without health": (EDGE.format(health="NA"), "310b4"),
    "lines end as on Windows": (A3.format(total=65536).replace("\n", "\r\n"), "910c"),
    "several kinds": (MIXED, "910b3"),
}
NVIDIAS = {
    "one": ("NVIDIA H200\n", "NVIDIA H200"),
    "several": ("NVIDIA GeForce RTX 5060 Ti\nNVIDIA H200\n", "NVIDIA GeForce RTX 5060 Ti"),
    "eight": ("NVIDIA A100-SXM4-80GB\n" * 8, "NVIDIA A100-SXM4-80GB"),
    "one is lost": ("[GPU requires reset]\r\nNVIDIA H100 80GB HBM3\r\n", "NVIDIA H100 80GB HBM3"),
    "blanks": ("\n  NVIDIA   L40S  \n", "NVIDIA L40S"),
}
NOT_IN_CATALOGUE = {
    "nvidia-smi": ["Tesla K80", "NVIDIA TITAN V", "TITAN Xp", "NVIDIA Thor", "Orin (nvgpu)", "A100-PCIE-40GB"],
    "sysctl": ["Apple M9 Ultra"],
}
NO_ANSWER = {
    "fails": "exit 1",
    "fails with a name": "echo NVIDIA H200; exit 9",
    "nothing": "exit 0",
    "no device": "echo 'No devices were found'",
    "no driver": "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'",
    "no library": "echo 'Failed to initialize NVML: Driver/library version mismatch'",
    "no management": "echo 'dcmi module initialize failed. ret is -8005'",
    "noise": r"printf '\000\377\033[31m|||\n| 0 | 0 |\n|0 910B3|\n\n|\302'",
    "a table of others": r"printf '| 0 x | OK | 1 |\n| 0 | 0000:C1:00.0 | 0 / 65536 |\n| NPU Name | NA | 9 |\n'",
    "10 MB": f"exec {shlex.quote(sys.executable)} -c 'print(\"NVIDIA H200\\n\" * 900_000)'",
    "10 MB without a line": f"exec {shlex.quote(sys.executable)} -c 'print(\"9\" * 10_000_000)'",
    "no end": "while :; do echo NVIDIA H200; done",
}

Say = Callable[[str, str], Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Puts a shell script of that name on the PATH, which holds nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "system", lambda: "Linux")

    def write(name: str, lines: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def say(script: Say) -> Say:
    """Puts a tool of that name on the PATH that prints a text."""
    return lambda name, text: script(name, f"printf %s {shlex.quote(text)}")


@pytest.mark.parametrize(("text", "device"), ASCENDS.values(), ids=ASCENDS.keys())
def test_the_first_chip_of_npu_smi(say: Say, text: str, device: str) -> None:
    say("npu-smi", text)
    assert devices.present() == device


@pytest.mark.parametrize(("text", "device"), NVIDIAS.values(), ids=NVIDIAS.keys())
def test_the_first_gpu_of_nvidia_smi(say: Say, text: str, device: str) -> None:
    say("nvidia-smi", text)
    assert devices.present() == device


@pytest.mark.parametrize(
    ("brand", "device"),
    [
        ("Apple M3 Max\n", "Apple M3 Max"),
        ("Apple M4\n", "Apple M4"),
        ("Apple processor\n", "cpu"),
        ("Intel(R) Core(TM) i9-9980HK CPU @ 2.40GHz\n", "cpu"),
    ],
)
def test_the_chip_of_a_mac(say: Say, monkeypatch: pytest.MonkeyPatch, brand: str, device: str) -> None:
    say("sysctl", brand)
    assert devices.present() == "cpu", "sysctl of another system is not asked"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert devices.present() == device


@pytest.mark.parametrize(
    "device", sorted({device for rows in (ASCENDS, NVIDIAS) for _, device in rows.values()} | {"Apple M3 Max", "cpu"})
)
def test_the_catalogue_knows_the_names(device: str) -> None:
    assert catalog.load().device(device).memory_bytes or device == "cpu"


@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool, names in NOT_IN_CATALOGUE.items() for name in names])
def test_a_device_the_catalogue_lacks_is_still_named(
    say: Say, monkeypatch: pytest.MonkeyPatch, tool: str, name: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    say(tool, f"{name}\n")
    assert devices.present() == name


@pytest.mark.parametrize(
    ("text", "device"),
    [
        (A2.format(name="990X1", used=1, total=99999), "990x1"),
        (A3.format(total=32768), "910"),
        (A2.format(name="950PR", used=1, total=99999).replace("0000:", "slot "), "950pr"),
    ],
    ids=["unknown chip", "unknown memory", "unknown Bus-Id"],
)
def test_a_chip_of_another_kind_is_still_named(say: Say, text: str, device: str) -> None:
    say("npu-smi", text)
    assert devices.present() == device


def test_the_tools_are_asked_as_their_manuals_say(script: Say) -> None:
    script("npu-smi", '[ "$*" = info ] || echo NVIDIA H200')
    script("nvidia-smi", '[ "$*" = "--query-gpu=name --format=csv,noheader" ] && echo NVIDIA H200')
    assert devices.present() == "NVIDIA H200"


def test_ascend_comes_before_nvidia_before_apple(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    tools = [
        say("npu-smi", A3.format(total=65536)),
        say("nvidia-smi", "NVIDIA H200\n"),
        say("sysctl", "Apple M3 Max\n"),
    ]
    found = []
    for tool in tools:
        found.append(devices.present())
        tool.unlink()
    assert [*found, devices.present()] == ["910c", "NVIDIA H200", "Apple M3 Max", "cpu"]


@pytest.mark.parametrize("lines", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_without_an_answer_the_next_is_asked(script: Say, say: Say, lines: str) -> None:
    script("nvidia-smi", lines)
    script("npu-smi", lines)
    assert devices.present() == "cpu"
    say("nvidia-smi", "NVIDIA L4\n")
    assert devices.present() == "NVIDIA L4"


@pytest.mark.parametrize(
    "lines",
    [
        "exec /bin/sleep 5",
        "echo NVIDIA H200; exec /bin/sleep 5",
        "/bin/sleep 2; exit 0",
        "echo NVIDIA H200; exec >&-; exec /bin/sleep 5",
    ],
    ids=["silent", "after an answer", "in a child that keeps the pipe", "with its output closed"],
)
def test_a_tool_that_hangs_is_given_up(script: Say, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    monkeypatch.setattr(devices, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(devices, "GRACE_S", 0.2)
    script("nvidia-smi", lines)
    started = time.monotonic()
    assert devices.present() == "cpu"
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x00\x00", b"#!/no/such/shell\n"], ids=repr)
@pytest.mark.parametrize("mode", [0o755, 0o644], ids=oct)
def test_a_tool_that_cannot_be_run_is_not_here(script: Say, content: bytes, mode: int) -> None:
    path = script("nvidia-smi", "")
    path.write_bytes(content)
    path.chmod(mode)
    assert devices.present() == "cpu"


@pytest.mark.usefixtures("script")
def test_without_any_tool_it_is_the_processor() -> None:
    assert devices.present() == "cpu"


def test_the_import_is_light() -> None:
    script = (
        "import sys; before = set(sys.modules); import draftpick.devices\n"
        "print(sorted({'subprocess', 'platform', 'threading', 'torch'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_auto_means_the_present_device(say: Say) -> None:
    say("npu-smi", A2.format(name="910B3", used=3401, total=65536))
    pair = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm-ascend")
    assert run(*pair, "--device", "auto", "--json").stdout == run(*pair, "--device", "910b3", "--json").stdout


def test_a_present_device_that_nobody_catalogued_is_an_error_that_names_it(say: Say) -> None:
    say("nvidia-smi", "NVIDIA Frobnicator 9000\n")
    answer = run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--device", "auto")
    assert answer.exit_code == 2
    assert "frobnicator 9000" in answer.stderr.lower()
