"""Which device is here: asked of real executables that answer as the vendors' tools do."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick import catalog, devices
from draftpick.devices import Chip
from draftpick.errors import AbsentDevice, UsageError
from draftpick.evidence import device_of
from draftpick.probe_file import DeviceRecord

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

OLD = """\
+--------------------------------------------------------------------------------------------+
| npu-smi 22.0.4              Version: 22.0.4                                               |
+----------------------+---------------+----------------------------------------------------+
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+======================+===============+====================================================+
| 0     910A           | OK            | 69.4        41                15   / 15            |
| 0                    | 0000:C1:00.0  | 0           2713 / 15137      0    / 32768         |
+======================+===============+====================================================+
| 1     910ProB        | Critical      | 67.9        40                0    / 0             |
| 0                    | 0000:81:00.0  | 0           2221 / 15137      1    / 32768         |
+======================+===============+====================================================+
"""
OTHER_LANGUAGE = """\
|npu-smi 24.1.0 Version: 24.1.0|
|NPU 名称|健康状态|功率(W) 温度(C) 大页使用率(page)|
|芯片|总线|AICore(%) 内存使用率(MB) HBM使用率(MB)|
|0 910B3|OK|93.8 38 0/0|
|0|0000:C1:00.0|0 0/0 3401/65536|
"""
RESERVED = A2.format(name="910B3", used=3401, total=65536)
MIXED = RESERVED + DUO.format(memory="3497 / 44213")
TWO_CARDS = DUO.format(memory="3497 / 44213") + "".join(
    line + "\n"
    for line in DUO.format(memory="3497 / 44213")
    .replace("| 32 ", "| 96 ")
    .replace("| 64 ", "| 128")
    .replace("| 1       1 ", "| 1       3 ")
    .replace("| 0       0 ", "| 0       2 ")
    .splitlines()
)

# What the tool prints, and every chip in it: index, name, used and total memory, health, and the catalogue's row.
Row = tuple[int, str, int | None, int | None, str | None, str | None]
ASCENDS: dict[str, tuple[str, list[Row]]] = {
    "A2": (RESERVED, [(0, "910B3", 3401, 65536, "OK", "910b3"), (1, "910B3", 3401, 65536, "Warning", "910b3")]),
    "A2 of 16 devices": (
        A2.format(name="910B2C", used=3401, total=65536),
        [(0, "910B2C", 3401, 65536, "OK", "910b2c"), (1, "910B2C", 3401, 65536, "Warning", "910b2c")],
    ),
    "910B4 with 32 GB": (
        A2.format(name="910B4", used=2849, total=32768),
        [(0, "910B4", 2849, 32768, "OK", "910b4"), (1, "910B4", 2849, 32768, "Warning", "910b4")],
    ),
    "910B4 with 64 GB": (
        A2.format(name="910B4", used=3197, total=65536),
        [(0, "910B4", 3197, 65536, "OK", "910b4-1"), (1, "910B4", 3197, 65536, "Warning", "910b4-1")],
    ),
    "910B4-1": (
        A2.format(name="910B4-1", used=3197, total=65536),
        [(0, "910B4-1", 3197, 65536, "OK", "910b4-1"), (1, "910B4-1", 3197, 65536, "Warning", "910b4-1")],
    ),
    "910B4 that hides its memory": (
        A2.format(name="910B4", used="NA", total="NA"),
        [(0, "910B4", None, None, "OK", "910b4"), (1, "910B4", None, None, "Warning", "910b4")],
    ),
    "A3, two dies with one NPU id": (
        A3.format(total=65536),
        [(0, "Ascend910", 15133, 65536, "OK", "910c"), (1, "Ascend910", 2886, 65536, "OK", "910c")],
    ),
    "A3 dies in another order": (
        A3.format(total=65536).replace("| 0     0     ", "| 0     5     ").replace("| 1     1     ", "| 1     4     "),
        [(0, "Ascend910", 2886, 65536, "OK", "910c"), (1, "Ascend910", 15133, 65536, "OK", "910c")],
    ),
    "Ascend910 with memory that no row has": (
        A3.format(total=16384),
        [(0, "Ascend910", 15133, 16384, "OK", None), (1, "Ascend910", 2886, 16384, "OK", None)],
    ),
    "Duo 96 GB": (
        DUO.format(memory="3497 / 44213"),
        [(0, "310P3", 3497, 44213, "OK", "310p-duo-96g"), (1, "310P3", 3497, 44213, "OK", "310p-duo-96g")],
    ),
    "Duo 48 GB": (
        DUO.format(memory="1764 / 21527"),
        [(0, "310P3", 1764, 21527, "OK", "310p-duo-48g"), (1, "310P3", 1764, 21527, "OK", "310p-duo-48g")],
    ),
    "Duo with an empty second pair": (
        DUO.format(memory="512  / 21527          0    / 0"),
        [(0, "310P3", 512, 21527, "OK", "310p-duo-48g"), (1, "310P3", 512, 21527, "OK", "310p-duo-48g")],
    ),
    "Duo without memory": (
        DUO.format(memory="-"),
        [(0, "310P3", None, None, "OK", None), (1, "310P3", None, None, "OK", None)],
    ),
    "two Duo cards": (TWO_CARDS, [(n, "310P3", 3497, 44213, "OK", "310p-duo-96g") for n in range(4)]),
    "310B": (EDGE.format(health="Alarm"), [(0, "310B4", 957, 10810, "Alarm", "310b")]),
    "310B without health": (EDGE.format(health="NA"), [(0, "310B4", 957, 10810, "NA", "310b")]),
    "910A, HBM after memory": (
        OLD,
        [(0, "910A", 0, 32768, "OK", "910a"), (1, "910ProB", 1, 32768, "Critical", "910a")],
    ),
    "another language and no width": (OTHER_LANGUAGE, [(0, "910B3", 3401, 65536, "OK", "910b3")]),
    "lines end as on Windows": (
        A3.format(total=65536).replace("\n", "\r\n"),
        [(0, "Ascend910", 15133, 65536, "OK", "910c"), (1, "Ascend910", 2886, 65536, "OK", "910c")],
    ),
    "several kinds": (
        MIXED,
        [
            (0, "910B3", 3401, 65536, "OK", "910b3"),
            (1, "310P3", 3497, 44213, "OK", "310p-duo-96g"),
            (2, "910B3", 3401, 65536, "Warning", "910b3"),
            (3, "310P3", 3497, 44213, "OK", "310p-duo-96g"),
        ],
    ),
    "cut before the memory of the second": (
        RESERVED[: RESERVED.index("| 0000:01:00.0")],
        [(0, "910B3", 3401, 65536, "OK", "910b3"), (1, "910B3", None, None, "Warning", "910b3")],
    ),
    "cut in the first row": (RESERVED[: RESERVED.index("93.8")], []),
    "a Bus-Id of another kind": (OTHER_LANGUAGE.replace("0000:", "slot "), [(0, "910B3", 3401, 65536, "OK", "910b3")]),
    "a chip nobody catalogued": (OTHER_LANGUAGE.replace("910B3", "990X1"), [(0, "990X1", 3401, 65536, "OK", None)]),
    "nothing": ("", []),
}
NVIDIAS = {
    "one": ("NVIDIA H200, 143771, 512\n", [("NVIDIA H200", 143771)]),
    "several": (
        "NVIDIA GeForce RTX 5060 Ti, 16311, 2\nNVIDIA H200, 143771, 0\n",
        [("NVIDIA GeForce RTX 5060 Ti", 16311), ("NVIDIA H200", 143771)],
    ),
    "one is lost": ("[GPU requires reset]\r\nNVIDIA H100 80GB HBM3, 81559, 4\r\n", [("NVIDIA H100 80GB HBM3", 81559)]),
    "memory is not shown": ("NVIDIA L4, [N/A], [N/A]\n", [("NVIDIA L4", None)]),
    "an older tool": ("NVIDIA L4\n", [("NVIDIA L4", None)]),
    "blanks": ("\n  NVIDIA   L40S  ,46068,1\n", [("NVIDIA L40S", 46068)]),
}
NOT_IN_CATALOGUE = {
    "nvidia-smi": ["Tesla K80", "NVIDIA TITAN V", "TITAN Xp", "NVIDIA Thor", "Orin (nvgpu)", "A100-PCIE-40GB"],
    "sysctl": ["Apple M9 Ultra"],
}
NO_ANSWER = {
    "fails": ("exit 1", "failed with exit code 1"),
    "fails with a name": ("echo NVIDIA H200; exit 9", "failed with exit code 9: NVIDIA H200"),
    "nothing": ("exit 0", "shows none"),
    "no device": ("echo 'No devices were found'", "shows none"),
    "no driver": (
        "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'",
        "shows none",
    ),
    "no library": ("echo 'Failed to initialize NVML: Driver/library version mismatch'", "shows none"),
    "no management": (
        "echo 'dcmi module initialize failed. ret is -8005'; exit 255",
        "failed with exit code 255: dcmi module initialize failed. ret is -8005",
    ),
    "noise": (r"printf '\000\377\033[31m|||\n| 0 | 0 |\n|0 910B3|\n\n|\302'", "shows none"),
    "a table of others": (
        r"printf '| 0 x | OK | 1 |\n| 0 | 0000:C1:00.0 | 0 / 65536 |\n| NPU Name | NA | 9 |\n'",
        "shows none",
    ),
    "10 MB": (f"exec {shlex.quote(sys.executable)} -c 'print(\"NVIDIA H200\\n\" * 900_000)'", "printed without end"),
    "10 MB without a line": (
        f"exec {shlex.quote(sys.executable)} -c 'print(\"9\" * 10_000_000)'",
        "printed without end",
    ),
    "no end": ("while :; do echo NVIDIA H200; done", "printed without end"),
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


def row_of(chip: Chip) -> str | None:
    try:
        return catalog.load().device_seen(chip.name, chip.memory_bytes).key
    except UsageError:
        return None


def key_of(name: str | None) -> str | None:
    return catalog.load().device(name).key if name is not None else None


@pytest.mark.parametrize(("text", "rows"), ASCENDS.values(), ids=ASCENDS.keys())
def test_every_chip_of_npu_smi(say: Say, text: str, rows: list[Row]) -> None:
    say("npu-smi", text)
    found = [(one.index, one.name, one.used_mb, one.total_mb, one.health, row_of(one)) for one in devices.chips("npu")]
    assert found == [(*row[:5], key_of(row[5])) for row in rows]


@given(text=st.text(alphabet="0123456789|/ :.-+=NAOKBHM\n", max_size=300), table=st.sampled_from([RESERVED, MIXED]))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_any_text_is_read_and_chips_are_counted_from_0(text: str, table: str) -> None:
    for broken in (text, table[: len(text)] + text, text + table):
        found = devices.chips_in("npu", broken)
        assert [one.index for one in found] == list(range(len(found)))


@given(cut=st.integers(0, len(MIXED)))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_a_table_that_was_cut_shows_the_chips_before_the_cut(cut: int) -> None:
    whole = [(one.name, one.health) for one in devices.chips_in("npu", MIXED)]
    shown = [(one.name, one.health) for one in devices.chips_in("npu", MIXED[:cut])]
    assert all(shown.count(one) <= whole.count(one) for one in shown)


@pytest.mark.parametrize(
    ("text", "version"), [(RESERVED, "24.1.rc2"), (OLD, "22.0.4"), ("", None), ("Version: 1", None)]
)
def test_the_driver_stands_in_the_head_of_the_table(text: str, version: str | None) -> None:
    assert devices.driver_in(text) == version


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("0", ["OK"]),
        ("1", ["Warning"]),
        ("0,1", ["OK", "Warning"]),
        ("1,0", []),
        ("0,0", []),
        ("7", []),
        ("", []),
        ("a", []),
    ],
)
def test_the_runtime_shows_some_of_them(
    say: Say, monkeypatch: pytest.MonkeyPatch, listed: str, left: list[str]
) -> None:
    say("npu-smi", RESERVED)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", listed)
    found = devices.chips("npu")
    assert [one.health for one in found] == left
    assert [one.index for one in found] == list(range(len(left)))


@pytest.mark.parametrize(("text", "gpus"), NVIDIAS.values(), ids=NVIDIAS.keys())
def test_the_gpus_of_nvidia_smi(say: Say, text: str, gpus: list[tuple[str, int | None]]) -> None:
    say("nvidia-smi", text)
    found = devices.chips("cuda")
    assert [(one.name, one.total_mb) for one in found] == gpus
    assert [one.index for one in found] == list(range(len(gpus)))
    assert all(row_of(one) for one in found)


@pytest.mark.parametrize(
    ("brand", "device"),
    [
        ("Apple M3 Max\n", "m3-max"),
        ("Apple M4\n", "m4"),
        ("Apple processor\n", None),
        ("Intel(R) Core(TM) i9-9980HK CPU @ 2.40GHz\n", None),
    ],
)
def test_the_chip_of_a_mac(say: Say, monkeypatch: pytest.MonkeyPatch, brand: str, device: str | None) -> None:
    say("sysctl", brand)
    assert devices.first() is None, "sysctl of another system is not asked"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    found = devices.first()
    assert (row_of(found) if found is not None else None) == device


@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool, names in NOT_IN_CATALOGUE.items() for name in names])
def test_a_device_the_catalogue_lacks_is_still_named(
    say: Say, monkeypatch: pytest.MonkeyPatch, tool: str, name: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    say(tool, f"{name}\n")
    found = devices.first()
    assert found is not None
    assert (found.name, row_of(found)) == (name, None)


SEEN = {
    # What torch reports: https://github.com/vllm-project/vllm-ascend/issues/5020 and others, see catalog/devices.toml.
    ("Ascend910B4", 29.49): "910b4",
    ("Ascend910B4", 60.96): "910b4-1",
    ("Ascend910B4-1", 61.0): "910b4-1",
    ("Ascend910B3", 61.27): "910b3",
    ("Ascend910_9391", 61.0): "910c",
    ("Ascend910", 64): "910c",
    ("Ascend910", 32): "910a",
    ("Ascend910", None): None,
    ("Ascend910B", None): "910b3",
    ("Ascend310P3", 43.18): "310p-duo-96g",
    ("Ascend310P3", 21.02): "310p-duo-48g",
    ("Ascend310P3", 8): None,
    ("Ascend310P3", None): None,
    ("910B3", 32): None,
    ("Ascend950PR_9589", 84): "950-84g",
    ("Ascend950PR_9589", 112): None,
    ("NVIDIA GeForce RTX 5060 Ti", 8): None,
    ("NVIDIA B200", 179): "b200-180g",
}


@pytest.mark.parametrize(("seen", "key"), SEEN.items(), ids=str)
def test_name_and_memory_make_a_row_or_none(seen: tuple[str, float | None], key: str | None) -> None:
    name, gib = seen
    memory = int(gib * 2**30) if gib is not None else None
    if key is not None:
        assert catalog.load().device_seen(name, memory).key == key
    else:
        with pytest.raises(UsageError) as told:
            catalog.load().device_seen(name, memory)
        assert name in told.value.message
        assert "--device" in told.value.hint


def test_a_shared_name_is_shared() -> None:
    rows = catalog.load().devices
    names = [name for row in rows.values() for name in row.get("shared_names", ())]
    assert names
    assert [name for name in names if names.count(name) < 2 or name != name.lower()] == []


def test_the_tools_are_asked_as_their_manuals_say(script: Say) -> None:
    script("npu-smi", '[ "$*" = info ] || echo NVIDIA H200')
    script(
        "nvidia-smi",
        '[ "$*" = "--query-gpu=name,memory.total,memory.used --format=csv,noheader,nounits" ] && echo NVIDIA H200',
    )
    found = devices.first()
    assert found is not None
    assert (found.kind, found.name) == ("cuda", "NVIDIA H200")


def test_ascend_comes_before_nvidia_before_apple(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    tools = [
        say("npu-smi", A3.format(total=65536)),
        say("nvidia-smi", "NVIDIA H200\n"),
        say("sysctl", "Apple M3 Max\n"),
    ]
    found = []
    for tool in tools:
        chip = devices.first()
        found.append(chip.kind if chip is not None else None)
        tool.unlink()
    assert found == ["npu", "cuda", "mps"]
    assert devices.first() is None


@pytest.mark.parametrize(("lines", "problem"), NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_without_an_answer_the_next_is_asked(script: Say, say: Say, lines: str, problem: str) -> None:
    script("nvidia-smi", lines)
    script("npu-smi", lines)
    assert devices.first() is None
    with pytest.raises(AbsentDevice, match=re.escape(f"there is no npu:0 here: npu-smi {problem}")):
        devices.find("npu", 0)
    say("nvidia-smi", "NVIDIA L4\n")
    found = devices.first()
    assert found is not None
    assert found.name == "NVIDIA L4"


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
    assert devices.first() is None
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x00\x00", b"#!/no/such/shell\n"], ids=repr)
@pytest.mark.parametrize("mode", [0o755, 0o644], ids=oct)
def test_a_tool_that_cannot_be_run_is_not_here(script: Say, content: bytes, mode: int) -> None:
    path = script("nvidia-smi", "")
    path.write_bytes(content)
    path.chmod(mode)
    assert devices.first() is None


@pytest.mark.usefixtures("script")
def test_without_any_tool_there_is_none() -> None:
    assert devices.first() is None
    assert run("check", *PAIR, "--device", "auto", "--json").document["device"]["id"] == "cpu"


def test_the_import_is_light() -> None:
    script = (
        "import sys; before = set(sys.modules); import draftpick.devices\n"
        "print(sorted({'subprocess', 'platform', 'threading', 'torch'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


PAIR = ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm-ascend")


@pytest.mark.parametrize(
    ("asked", "tool", "text", "key"),
    [
        ("auto", "npu-smi", RESERVED, "910b3"),
        ("npu", "npu-smi", RESERVED, "910b3"),
        ("NPU:1", "npu-smi", A3.format(total=65536), "910c"),
        ("npu:3", "npu-smi", MIXED, "310p-duo-96g"),
        ("cuda:1", "nvidia-smi", "NVIDIA L4, 23034, 1\nNVIDIA H200, 143771, 0\n", "h200-141g"),
        ("cuda", "nvidia-smi", "NVIDIA L4, 23034, 1\n", "l4-24g"),
    ],
)
def test_a_device_that_is_here_stands_for_its_row(say: Say, asked: str, tool: str, text: str, key: str) -> None:
    say(tool, text)
    found = run("check", *PAIR, "--device", asked, "--json", "--exit-zero")
    assert found.stdout == run("check", *PAIR, "--device", key, "--json", "--exit-zero").stdout
    assert found.document["device"]["id"] == key


@pytest.mark.parametrize(
    ("asked", "text", "code", "said"),
    [
        ("npu:2", RESERVED, 3, "there is no npu:2 here: npu-smi shows 2, counted from 0"),
        ("npu", "", 3, "there is no npu:0 here: npu-smi shows none"),
        ("cuda:0", RESERVED, 3, "there is no cuda:0 here: nvidia-smi is not on the PATH"),
        ("npu:0", OTHER_LANGUAGE.replace("910B3", "990X1"), 2, "unknown device '990X1'"),
        ("npu:0", DUO.format(memory="-"), 2, "310P3 with memory that is not shown may be 310p-duo-48g or 310p-duo-96g"),
        ("npu:x", RESERVED, 2, "unknown device 'npu:x'"),
        ("auto:1", RESERVED, 2, "unknown device 'auto:1'"),
        ("npu:99999999999", RESERVED, 2, "unknown device 'npu:99999999999'"),
    ],
)
def test_a_device_that_is_not_here_or_not_known_is_told(say: Say, asked: str, text: str, code: int, said: str) -> None:
    say("npu-smi", text)
    answer = run("recommend", "Qwen/Qwen3-32B", "--device", asked)
    assert answer.exit_code == code
    assert said in answer.stderr


def test_a_list_of_visible_devices_that_leaves_none_is_told(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    say("npu-smi", RESERVED)
    answer = run("check", *PAIR, "--device", "npu", ASCEND_RT_VISIBLE_DEVICES="1,0")
    assert answer.exit_code == 3
    assert "ASCEND_RT_VISIBLE_DEVICES = '1,0' leaves none of those that npu-smi shows" in answer.stderr


def test_a_present_device_that_nobody_catalogued_is_an_error_that_names_it(say: Say) -> None:
    say("nvidia-smi", "NVIDIA Frobnicator 9000\n")
    answer = run("check", *PAIR[:2], "--device", "auto")
    assert answer.exit_code == 2
    assert "frobnicator 9000" in answer.stderr.lower()


@pytest.mark.parametrize(
    ("seen", "key"),
    [
        ({"name": "Ascend910B4", "tool_name": "910B4", "memory_bytes": 65_455_301_591}, "910b4-1"),
        ({"name": "Ascend910B4", "tool_name": "910B4", "memory_bytes": 31_664_646_000}, "910b4"),
        ({"name": "Ascend910_9391", "tool_name": "Ascend910", "memory_bytes": 65_455_301_591}, "910c"),
        ({"name": "arm", "tool_name": "Apple M3 Max"}, "m3-max"),
        ({"name": "Ascend310P3", "tool_name": "310p-duo-48g"}, "310p-duo-48g"),
        ({"name": "Intel Xeon", "tool_name": "cpu"}, "cpu"),
        ({"name": "h100", "tool_name": "cpu"}, "cpu"),
        ({"name": "Ascend990X", "tool_name": "990X", "memory_bytes": 10**9}, "npu:0"),
        ({"name": "Ascend990X"}, "npu:0"),
    ],
    ids=str,
)
def test_what_was_measured_on_is_found_again(seen: dict[str, Any], key: str) -> None:
    probe = SimpleNamespace(device=DeviceRecord(id="npu:0", **seen))
    assert device_of(probe, catalog.load()).key == key  # type: ignore[arg-type]


TYPED = {
    "910B": ("910b3", ("910b1", "910b2", "910b4", "910b4-1")),
    "Ascend 910B": ("910b3", ("910b1", "910b2", "910b4", "910b4-1")),
    "Atlas 800T A2": ("910b3", ("910b1", "910b2")),
    "Atlas 800I A2": ("910b4-1", ("910b4",)),
    "Ascend 910C": ("910c", ("910c-560t",)),
    "A3": ("910c", ("910c-560t",)),
    "Atlas 800I A3": ("910c-560t", ("910c",)),
    "310P": ("310p-duo-96g", ("310p-duo-48g", "310p-pro")),
    "950": ("950-112g", ("950-84g", "950dt", "950pr")),
    "A100": ("a100-80g", ("a100-40g",)),
    "H100": ("h100-80g", ("h100-pcie-80g", "h100-nvl-94g")),
    "V100": ("v100-16g", ("v100-32g",)),
    "RTX 6000": ("rtx6000ada-48g", ("a6000-48g", "rtx-pro-6000-96g")),
    "910b3": ("910b3", ()),
    "Ascend910B3": ("910b3", ()),
    "ascend-910-9391": ("910c", ()),
    "NVIDIA H20": ("h20-96g", ()),
    "nvidia-h20": ("h20-96g", ()),
    "NVIDIA_H20": ("h20-96g", ()),
    "GB200": ("gb200-192g", ()),
    "Tesla T4": ("t4-16g", ()),
    "tesla-v100-sxm2-32gb": ("v100-32g", ()),
    "H100 PCIe": ("h100-pcie-80g", ()),
    "rtx_5090": ("rtx5090-32g", ()),
    "AMD Instinct MI325X": ("mi325x-256g", ()),
    "Apple M3 Max": ("m3-max", ()),
}


@pytest.mark.parametrize(("typed", "meant"), TYPED.items(), ids=str)
def test_a_name_as_people_type_it(typed: str, meant: tuple[str, tuple[str, ...]]) -> None:
    found = catalog.load().device(typed)
    assert (found.key, found.others) == meant
    assert (found.note is not None, found.asked) == ((True, typed) if meant[1] else (False, ""))


@pytest.mark.parametrize("typed", ["A2", "GH200", "", "---", "nvidia", "910b9"])
def test_a_name_that_no_device_has_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="unknown device"):
        catalog.load().device(typed)


def test_no_two_devices_have_one_name_and_families_name_rows() -> None:
    known = catalog.load()
    rows = known.devices
    for key in rows:
        row = known.record("devices", key)
        assert [known.device(name).key for name in (key, *row["aliases"])] == [key] * (1 + len(row["aliases"]))
        for family in row.get("stands_for", ()):
            assert set(family["names"]) <= {key, *row["aliases"]}
            assert set(family["others"]) <= {*rows} - {key}


def test_memory_settles_a_name_of_several() -> None:
    known = catalog.load()
    assert known.device_seen("NVIDIA A100", 40 * 2**30).key == "a100-40g"
    assert known.device_seen("Tesla V100", 32 * 2**30).key == "v100-32g"
