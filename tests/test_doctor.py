"""What is said of a machine: of simulated ones, with real tools on the PATH and packages on Python's path."""

from __future__ import annotations

import _ctypes
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import environment, run
from jsonschema import Draft202012Validator
from test_devices import A2, A3, DUO, EDGE, OLD

from draftpick import ascend, doctor, machine
from draftpick.doctor import CHECKS
from draftpick.models.caches import cached_models, find_cached
from draftpick.report.saved import read, write

REPOSITORY = Path(__file__).parent.parent
NEEDED = (
    "typer",
    "click",
    "rich",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "annotated_doc",
    "typing_inspection",
)
NEEDED += ("typing_extensions", "shellingham", "markdown_it", "mdurl", "pygments", "tomli", "numpy", "numpy.libs")

SCHEMA = Draft202012Validator(json.loads((REPOSITORY / "schemas" / "doctor.schema.json").read_text(encoding="utf-8")))

# ---------------------------------------------------------------------- packages that stand for others

TORCH = """
import os
__version__ = {version!r}
class version:
    cuda = {cuda!r}
class _Properties:
    total_memory = {memory}
class {kind}:
    get_device_name = staticmethod(lambda index: {name!r})
    get_device_properties = staticmethod(lambda index: _Properties)
class accelerator:
    is_available = staticmethod(lambda: {count} > 0)
    current_accelerator = staticmethod(lambda: type("device", (), {{"type": {kind!r}}}))
    device_count = staticmethod(lambda: {count})
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0":
    try:
        from importlib.util import find_spec
        if find_spec("torch_npu"):
            import torch_npu
    except ImportError as error:
        raise RuntimeError("Failed to load the backend extension: torch_npu. You can disable it.") from error
"""
NEEDS_CANN = (
    "import ctypes\ntry:\n    ctypes.CDLL('libhccl.so')\nexcept OSError as error:\n    raise ImportError(str(error))\n"
)
TRANSFORMERS = """
from importlib.util import find_spec
def is_torch_npu_available():
    if find_spec("torch_npu") is None:
        return False
    import torch_npu, torch
    return torch.accelerator.is_available()
"""


def torch(version: str = "2.10.0+cpu", count: int = 0, cuda: str | None = None, kind: str = "npu") -> tuple[str, str]:
    code = TORCH.format(version=version, count=count, cuda=cuda, kind=kind, name="Ascend910B3", memory=65_455_301_591)
    return version, code


def npu_packages(torch_npu: str = "2.10.0.post4", count: int = 2, **of_torch: Any) -> dict[str, tuple[str, str]]:
    return {
        "torch": torch(count=count, **of_torch),
        "torch_npu": (torch_npu, NEEDS_CANN),
        "transformers": ("5.5.4", ""),
        "transformers.utils": ("", TRANSFORMERS),
    }


# ---------------------------------------------------------------------- the machines

Lines = Sequence[tuple[str, str, str, str]]
"""Check, verdict, and what its text and its mending say: patterns."""


@dataclass(frozen=True)
class State:
    """A machine, and lines that are said of it; those that are not named must be ok."""

    lines: Lines = ()
    exit_code: int = 0
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    """Name → a shell script."""
    variables: Mapping[str, str] = field(default_factory=dict)
    cann: str | None = None
    """The version that lies in the user's home."""
    sourced: bool = True
    """Its set_env.sh was sourced, and its libraries are found."""
    before: str = ""
    """What the process runs first."""
    home: Mapping[str, str] = field(default_factory=dict)
    """Files in the user's home."""
    options: Sequence[str] = ()


def shows(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND"


NO_TORCH = ("torch", "warn", "not installed: nothing can be measured", r"pip install 'draftpick\[probe\]'")
CPU_INDEX = r"--index-url https://download\.pytorch\.org/whl/cpu"


def proposed(torch: str, torch_npu: str) -> str:
    """A pattern of two commands: torch_npu alone would bring the build of torch that it cannot be used with."""
    torch, torch_npu = re.escape(torch), re.escape(torch_npu)
    return rf"pip install torch=={torch} {CPU_INDEX} && pip install torch-npu=={torch_npu}$"


def on_bus(*ids: tuple[str, str, str]) -> dict[str, str]:
    """Files of the PCI bus: vendor, class and device of each."""
    names = ("vendor", "class", "device")
    rows = [(f"bus/0000:{at:02x}:00.0", dict(zip(names, one, strict=True))) for at, one in enumerate(ids)]
    return {f"{folder}/{name}": f"{value}\n" for folder, row in rows for name, value in row.items()}


NPU_ON_BUS = ("0x19e5", "0x120000", "0xd802")


FULL = A2.format(name="910B3", used=65000, total=65536)
GOOD = A2.format(name="910B3", used=3401, total=65536).replace("Warning", "OK     ")
NPUS = {"npu-smi": shows(GOOD)}
HAPPY: Lines = [("devices", "ok", r"2 × npu: 910B3, 60\.7 of 64\.0 GiB free; --device 910b3", "")]
TORCH_RAISES = (
    r"import torch raises: Failed to load the backend extension: torch_npu.*libhccl\.so.*without torch_npu it is"
)
HANGS = "exec /bin/sleep 60"
QUICK = "from draftpick import devices, machine; devices.TIMEOUT_S = 0.3; devices.GRACE_S = 0.2; machine.IMPORT_S = 1.5"

STATES: dict[str, State] = {
    "nothing": State(
        [
            ("torch", "warn", "not installed", rf"pip install torch {CPU_INDEX} \(the CPU build.*, then: pip install"),
            ("devices", "ok", "no accelerator: the CPU", ""),
        ]
    ),
    "torch on a CPU": State(
        [("torch", "ok", r"2\.10\.0\+cpu, imported in .* s; it sees no accelerator, the CPU", "")],
        packages={"torch": torch(), "transformers": ("5.5.4", "")},
    ),
    "CUDA": State(
        [
            ("torch", "ok", r"it sees 1 × cuda \(Ascend910B3\)", ""),
            ("devices", "ok", r"1 × cuda: NVIDIA H200, 139\.9 of 140\.4 GiB free; --device h200-141g", ""),
        ],
        packages={"torch": torch("2.10.0", 1, "12.8", "cuda"), "transformers": ("5.5.4", "")},
        tools={"nvidia-smi": shows("NVIDIA H200, 143771, 512")},
    ),
    "no NVIDIA driver": State(
        [
            ("torch", "warn", "not installed", "install the build of torch for this device, then"),
            ("nvidia-smi", "warn", "failed with exit code 9: NVIDIA-SMI has failed", "install the driver"),
        ],
        tools={"nvidia-smi": "echo NVIDIA-SMI has failed; exit 9"},
    ),
    "torch lacks a library": State(
        [
            (
                "torch",
                "fail",
                r"import torch raises: libgomp\.so: no such file",
                rf"pip install --force-reinstall torch \(for a CPU {CPU_INDEX}\)",
            )
        ],
        1,
        packages={"torch": ("2.10.0", "raise OSError('libgomp.so: no such file')"), "transformers": ("5.5.4", "")},
    ),
    "torch crashes": State(
        [("torch", "fail", "import torch was ended by signal 6", "pip install --force-reinstall torch")],
        1,
        packages={"torch": ("2.10.0", "import os; os.abort()"), "transformers": ("5.5.4", "")},
    ),
    "torch hangs": State(
        [("torch", "fail", r"import torch gave no answer in 1\.5 s", "pip install --force-reinstall torch")],
        1,
        packages={"torch": ("2.10.0", "import time; time.sleep(60)"), "transformers": ("5.5.4", "")},
        before=QUICK,
    ),
    "the driver kills torch": State(
        [
            (
                "torch",
                "fail",
                r"2\.10\.0\+cpu is imported, but looking at its devices: it was ended by signal 9",
                "--device cpu",
            )
        ],
        1,
        packages={
            "torch": (torch()[0], torch()[1] + "import os\naccelerator.is_available = lambda: os.kill(os.getpid(), 9)"),
            "transformers": ("5.5.4", ""),
        },
    ),
    "torch is old": State(
        [("torch", "fail", r"2\.6\.0 is too old", r"2\.7 or later")],
        1,
        packages={"torch": torch("2.6.0"), "transformers": ("5.5.4", "")},
    ),
    "transformers is missing": State(
        [("transformers", "warn", "not installed: nothing can be measured", r"draftpick\[probe\]")],
        packages={"torch": torch()},
    ),
    "transformers is old": State(
        [("transformers", "warn", r"4\.49\.0 is older", "transformers>=5")],
        packages={"torch": torch(), "transformers": ("4.49.0", "")},
    ),
    "NPUs, all well": State(
        [
            *HAPPY,
            ("torch", "ok", r"it sees 2 × npu \(Ascend910B3\)", ""),
            ("torch_npu", "ok", r"2\.10\.0\.post4, for CANN 9\.1\.0", ""),
            ("transformers", "ok", r"5\.5\.4; it sees the NPU", ""),
            ("CANN", "ok", r"9\.1\.0 in ", ""),
            ("NPU driver", "ok", r"24\.1\.rc2", ""),
        ],
        packages=npu_packages(),
        tools=NPUS,
        cann="9.1.0",
    ),
    "torch_npu without CANN": State(
        [
            ("torch", "fail", TORCH_RAISES, "with NPUs, install CANN.*without NPUs, pip uninstall torch-npu"),
            ("transformers", "warn", "its model classes cannot be imported while torch_npu", "as for torch"),
            ("CANN", "fail", "not found in /usr/local/Ascend", r"install CANN 9\.1\.0 and source its set_env"),
            ("NPU driver", "warn", "not found", "/usr/local/Ascend/driver"),
            ("npu-smi", "warn", "is not on the PATH", "mount /usr/local/bin/npu-smi"),
        ],
        1,
        packages=npu_packages(),
    ),
    "set_env.sh was not sourced": State(
        [
            *HAPPY,
            ("torch", "fail", TORCH_RAISES, r"with NPUs, source .*/Ascend/cann/set_env\.sh"),
            ("transformers", "warn", "its model classes cannot be imported", "as for torch"),
            (
                "CANN",
                "fail",
                r"9\.1\.0 in .*/Ascend/cann: its libraries are not on the loader",
                r"source .*/set_env\.sh",
            ),
        ],
        1,
        packages=npu_packages(),
        tools=NPUS,
        cann="9.1.0",
        sourced=False,
    ),
    "NPUs and nothing else": State(
        [
            *HAPPY,
            (
                "torch",
                "warn",
                "not installed",
                r"install torch and torch_npu as the line of torch_npu below says, then",
            ),
            ("torch_npu", "warn", "not installed, and npu-smi shows 2", f"^{proposed('2.12.0', '2.12.0')}"),
            ("CANN", "warn", "not found", r"^install CANN 9\.1\.0 and source"),
        ],
        tools=NPUS,
    ),
    "a container with nodes and no tool": State(
        [
            ("torch", "warn", "not installed", "install the build of torch for this device"),
            (
                "devices",
                "warn",
                "^/dev/davinci0 to davinci10 are here, and npu-smi is not",
                "in a container mount /usr/local/bin/npu-smi, /usr/local/dcmi, /usr/local/Ascend/driver and",
            ),
        ],
        home={"dev/davinci10": "", "dev/davinci0": "", "dev/davinci_manager": "", **on_bus(NPU_ON_BUS)},
    ),
    "a container with one node and the packages": State(
        [
            ("devices", "warn", "^/dev/davinci3 is here", ""),
            ("npu-smi", "warn", "is not on the PATH", ""),
            ("NPU driver", "warn", "not found", ""),
        ],
        packages=npu_packages(),
        cann="9.1.0",
        home={"dev/davinci3": ""},
    ),
    "a container without mounts": State(
        [
            ("torch", "warn", "not installed", "install the build of torch for this device"),
            (
                "devices",
                "warn",
                r"^2 × npu on the PCI bus, but neither /dev/davinci\* nor npu-smi",
                "hand in /dev/davinci0 .*, /dev/davinci_manager.* else install driver and firmware",
            ),
        ],
        home=on_bus(NPU_ON_BUS, ("0x19e5", "0x120000", "0xd500"), ("0x10de", "0x030200", "0x2335")),
    ),
    "a board of the same maker that is no NPU": State(
        [NO_TORCH, ("devices", "ok", "no accelerator: the CPU", "")],
        home={"dev/davinci_manager": "", **on_bus(("0x19e5", "0x020000", "0xd802"), ("0x19e5", "0x120000", "0xa250"))},
    ),
    "CANN is here and nobody uses it": State(
        [
            NO_TORCH,
            *HAPPY,
            ("torch_npu", "warn", "not installed, and npu-smi shows 2", proposed("2.9.0", "2.9.0")),
            ("CANN", "warn", "its variables are not set", r"source .*/set_env\.sh"),
        ],
        tools=NPUS,
        cann="8.5.0",
        sourced=False,
    ),
    "CANN is older": State(
        [
            (
                "CANN",
                "warn",
                r"8\.3\.RC1 in .* is older than torch_npu 2\.10\.0\.post4",
                rf"CANN 9\.1\.0, or {proposed('2.8.0', '2.8.0')}",
            )
        ],
        packages=npu_packages(),
        tools=NPUS,
        cann="8.3.RC1",
    ),
    "CANN is newer": State(
        [
            (
                "CANN",
                "warn",
                r"9\.1\.0 in .* is newer than torch_npu 2\.8\.0 was released with: 8\.3\.RC1",
                r"install CANN 8\.3\.RC1",
            )
        ],
        packages=npu_packages("2.8.0", version="2.8.0+cpu"),
        tools=NPUS,
        cann="9.1.0",
    ),
    "CANN of another patch": State(
        [("CANN", "ok", r"8\.5\.1 in ", "")],
        packages=npu_packages("2.9.0", version="2.9.0+cpu"),
        tools=NPUS,
        cann="8.5.1",
    ),
    "CANN does not say its version": State(
        [("CANN", "ok", "of unknown version in ", "")], packages=npu_packages(), tools=NPUS, cann=""
    ),
    "torch_npu for another torch": State(
        [
            (
                "torch_npu",
                "fail",
                r"is made for torch 2\.12, and torch is 2\.10\.0\+cpu",
                f"^{proposed('2.12.0', '2.12.0')}",
            )
        ],
        1,
        packages=npu_packages("2.12.0"),
        tools=NPUS,
        cann="9.1.0",
    ),
    "torch for CUDA with torch_npu": State(
        [
            ("torch", "fail", r"import torch raises: .*Two accelerators", "mend torch_npu, see below"),
            ("transformers", "ok", r"5\.5\.4", ""),
            ("torch_npu", "fail", r"build of torch for CUDA \(2\.10\.0\)", "^pip uninstall -y torch && pip install"),
        ],
        1,
        packages={
            **npu_packages(version="2.10.0", cuda="12.8"),
            "torch_npu": ("2.10.0.post4", "raise ImportError('Two accelerators cannot be used at the same time')"),
        },
        tools=NPUS,
        cann="9.1.0",
    ),
    "torch_npu that the table lacks": State(
        [("torch_npu", "ok", r"2\.10\.0\.post9, which draftpick's table does not have", "")],
        packages=npu_packages("2.10.0.post9"),
        tools=NPUS,
        cann="9.1.0",
    ),
    "Python is too old": State(
        [("torch_npu", "fail", r"is made for Python 3\.10 to 3\.13, and this is 3\.9", "pip install")],
        1,
        packages=npu_packages(),
        tools=NPUS,
        cann="9.1.0",
        before="import platform; platform.python_version = lambda: '3.9.18'",
    ),
    "torch sees none of the NPUs": State(
        [
            ("torch_npu", "fail", "npu-smi shows 2 and torch sees none", "compare the versions"),
            ("transformers", "ok", "it sees no NPU", ""),
        ],
        1,
        packages=npu_packages(count=0),
        tools=NPUS,
        cann="9.1.0",
    ),
    "visible devices in no order": State(
        [("torch_npu", "fail", "ASCEND_RT_VISIBLE_DEVICES is '1,0'", "in ascending order")],
        1,
        packages=npu_packages(count=0),
        tools=NPUS,
        cann="9.1.0",
        variables={"ASCEND_RT_VISIBLE_DEVICES": "1,0"},
    ),
    "autoload is off": State(
        [("torch_npu", "warn", "as TORCH_DEVICE_BACKEND_AUTOLOAD is 0", "unset TORCH_DEVICE_BACKEND_AUTOLOAD")],
        packages=npu_packages(count=0),
        tools=NPUS,
        cann="9.1.0",
        variables={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    ),
    "transformers fails over torch_npu": State(
        [("transformers", "fail", "asking it for the NPU raises: no operator", "take a transformers that fits")],
        1,
        packages={**npu_packages(), "transformers.utils": ("", "raise ImportError('no operator')")},
        tools=NPUS,
        cann="9.1.0",
    ),
    "npu-smi may not be run": State(
        [
            NO_TORCH,
            ("npu-smi", "fail", "cannot be run: Permission denied", "HwHiAiUser"),
            ("NPU driver", "warn", "", ""),
        ],
        1,
        tools={"npu-smi": "-"},
    ),
    "npu-smi fails": State(
        [
            NO_TORCH,
            ("npu-smi", "fail", "failed with exit code 255: dcmi module initialize failed", "/dev/davinci_manager"),
            ("NPU driver", "warn", "", ""),
        ],
        1,
        tools={"npu-smi": "echo 'dcmi module initialize failed. ret is -8005'; exit 255"},
    ),
    "npu-smi hangs": State(
        [NO_TORCH, ("npu-smi", "fail", r"gave no answer in 0\.3 s", "if it hangs"), ("NPU driver", "warn", "", "")],
        1,
        tools={"npu-smi": HANGS},
        before=QUICK,
    ),
    "npu-smi prints something else": State(
        [NO_TORCH, ("npu-smi", "warn", "cannot read", "report its output"), ("NPU driver", "warn", "", "")],
        tools={"npu-smi": "echo '\x1b[31m | 0 | what'"},
    ),
    "one device is full": State(
        [
            NO_TORCH,
            ("devices", "ok", r"2 × npu: Ascend910, 3\.0 to 61\.2 of 64\.0 GiB free; --device 910c", ""),
            ("npu:0", "warn", r"3\.0 of 64\.0 GiB free, others use it", "take --device npu:1"),
            ("torch_npu", "warn", "", "torch-npu=="),
            ("CANN", "warn", "not found", ""),
        ],
        tools={"npu-smi": shows(A3.format(total=65536).replace("15133/", "62464/"))},
    ),
    "the runtime shows one of two devices": State(
        [
            NO_TORCH,
            ("devices", "ok", r"1 × npu: Ascend910, 61\.2 of 64\.0 GiB free; --device 910c", ""),
            ("torch_npu", "warn", "npu-smi shows 1", ""),
            ("CANN", "warn", "not found", ""),
        ],
        tools={"npu-smi": shows(A3.format(total=65536).replace("15133/", "62464/"))},
        variables={"ASCEND_RT_VISIBLE_DEVICES": "1"},
    ),
    "all devices are full": State(
        [
            NO_TORCH,
            ("npu:0", "warn", "others use it", "stop what uses it"),
            ("npu:1", "warn", "health is Warning", "take another device"),
            ("npu:1", "warn", "others use it", "stop what uses it"),
            ("torch_npu", "warn", "", ""),
            ("CANN", "warn", "", ""),
        ],
        tools={"npu-smi": shows(FULL)},
    ),
    "a device is ill": State(
        [NO_TORCH, ("npu:1", "fail", "910ProB: health is Critical", "take another device")]
        + [("devices", "warn", "910a has no bfloat16", "--dtype float16")] * 2
        + [("torch_npu", "warn", "", ""), ("CANN", "warn", "", "")],
        1,
        tools={"npu-smi": shows(OLD)},
    ),
    "310P has no bfloat16": State(
        [
            NO_TORCH,
            ("devices", "ok", r"2 × npu: 310P3, 39\.8 of 43\.2 GiB free; --device 310p-duo-96g", ""),
            ("devices", "warn", "310p-duo-96g has no bfloat16", "--dtype float16"),
            ("torch_npu", "warn", "", ""),
            ("CANN", "warn", "", ""),
        ],
        tools={"npu-smi": shows(DUO.format(memory="3497 / 44213"))},
    ),
    "a device of unclear kind": State(
        [
            NO_TORCH,
            ("devices", "warn", "2 × npu: 310P3, which the catalogue does not tell from others", "--bandwidth"),
            ("torch_npu", "warn", "", ""),
            ("CANN", "warn", "", ""),
        ],
        tools={"npu-smi": shows(DUO.format(memory="-"))},
    ),
    "an edge board raises an alarm": State(
        [NO_TORCH, ("npu:0", "fail", "health is Alarm", ""), ("torch_npu", "warn", "", ""), ("CANN", "warn", "", "")],
        1,
        tools={"npu-smi": shows(EDGE.format(health="Alarm"))},
    ),
    "vllm without its plug-in": State(
        [("vllm", "warn", r"0\.23\.0: it cannot use NPUs without its plug-in", r"pip install vllm-ascend==0\.23\.0")],
        packages={**npu_packages(), "vllm": ("0.23.0", "")},
        tools=NPUS,
        cann="9.1.0",
    ),
    "vllm without NPUs": State(
        [NO_TORCH, ("vllm", "ok", r"0\.32\.0", ""), ("sglang", "ok", r"0\.5\.23", "")],
        packages={"vllm": ("0.32.0", ""), "sglang": ("0.5.23", "")},
    ),
    "vllm-ascend and its set": State(
        [
            ("vllm-ascend", "ok", r"0\.23\.0\.post1, and what it is made for", ""),
            ("vllm", "ok", r"0\.23\.0\+empty", ""),
        ],
        packages={
            **npu_packages(),
            "vllm": ("0.23.0+empty", ""),
            "vllm_ascend": ("0.23.0.post1", ""),
            "triton_ascend": ("3.2.2", ""),
        },
        tools=NPUS,
        cann="9.1.0",
    ),
    "vllm-ascend with another set": State(
        [
            (
                "vllm-ascend",
                "warn",
                r"0\.23\.0 is made for vllm 0\.23\.0, and this is 0\.18\.0; is made for torch 2\.10\.0, and this is "
                r"2\.9\.0\+cpu; is made for torch_npu 2\.10\.0\.post4, and this is 2\.9\.0; is made for triton-ascend "
                r"3\.2\.2, and there is none; is made for CANN 9\.1\.0, and this is 8\.5\.0",
                rf"pip install torch==2\.10\.0 {CPU_INDEX} && pip install vllm==0\.23\.0 "
                r"torch-npu==2\.10\.0\.post4, with CANN 9\.1\.0",
            )
        ],
        packages={
            **npu_packages("2.9.0", version="2.9.0+cpu"),
            "vllm": ("0.18.0", ""),
            "vllm_ascend": ("0.23.0", ""),
        },
        tools=NPUS,
        cann="8.5.0",
    ),
    "vllm-ascend that the table lacks": State(
        [("vllm-ascend", "ok", r"0\.99\.0, which draftpick's table does not have \(0\.23\.0, 0\.18\.0", "")],
        packages={**npu_packages(), "vllm": ("0.99.0", ""), "vllm_ascend": ("0.99.0", "")},
        tools=NPUS,
        cann="9.1.0",
    ),
    "offline": State(
        [NO_TORCH, ("hub", "ok", "https://huggingface.co is not asked: HF_HUB_OFFLINE is set", "")],
    ),
    "offline by transformers' variable": State(
        [NO_TORCH, ("hub", "ok", "is not asked: TRANSFORMERS_OFFLINE is set", "")],
        variables={"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "1"},
    ),
    "offline by option": State(
        [NO_TORCH, ("hub", "ok", "is not asked: --offline", "")],
        options=["--offline"],
        variables={"HF_HUB_OFFLINE": ""},
    ),
    "the hub is refused": State(
        [NO_TORCH, ("hub", "warn", "http://127.0.0.1:1 cannot be reached: Connection refused", "check HF_ENDPOINT")],
        variables={"HF_HUB_OFFLINE": "", "HF_ENDPOINT": "http://127.0.0.1:1/", "NO_PROXY": "*"},
    ),
    "the hub has no such name": State(
        [NO_TORCH, ("hub", "warn", "http://hub.invalid cannot be reached", "work offline")],
        variables={"HF_HUB_OFFLINE": "", "HF_ENDPOINT": "http://hub.invalid", "NO_PROXY": "*"},
    ),
    "the mirror is set wrongly": State(
        [NO_TORCH, ("hub", "fail", "HF_ENDPOINT is 'hf-mirror.com', which is no address", "write https://HOST")],
        1,
        variables={"HF_HUB_OFFLINE": "", "HF_ENDPOINT": "hf-mirror.com"},
    ),
    "the proxy is away": State(
        [
            NO_TORCH,
            ("hub", "warn", r"through the proxy 127\.0\.0\.1:1 cannot be reached", "check HTTPS_PROXY and NO_PROXY"),
        ],
        variables={
            "HF_HUB_OFFLINE": "",
            "HF_ENDPOINT": "http://hub.invalid",
            "HTTP_PROXY": "http://me:secret@127.0.0.1:1",
            "http_proxy": "http://me:secret@127.0.0.1:1",
            "NO_PROXY": "",
            "no_proxy": "",
        },
    ),
    "ModelScope's domain is an address": State(
        [
            NO_TORCH,
            ("ModelScope", "fail", "is 'https://www.modelscope.cn', which is no name of a server", "the name alone"),
        ],
        1,
        variables={"MODELSCOPE_DOMAIN": "https://www.modelscope.cn"},
    ),
    "ModelScope only": State(
        [
            NO_TORCH,
            ("ModelScope", "ok", r"www\.modelscope\.cn is not asked: HF_HUB_OFFLINE is set", ""),
            ("cache of ModelScope", "ok", r"modelscope holds 0\.0 GiB", ""),
            ("cache of the hub", "ok", "does not exist yet, and can be made", ""),
        ],
        home={".cache/modelscope/hub/models/Qwen/Qwen3-8B/config.json": "{}"},
    ),
    "the cache lies below a file": State(
        [NO_TORCH, ("cache of the hub", "fail", "cannot be written: Not a directory", "set HF_HOME")],
        1,
        variables={"HF_HOME": f"{__file__}/cache"},
    ),
    "the cache lies where nobody writes": State(
        [
            NO_TORCH,
            ("cache of the hub", "fail", "/proc/hub does not exist yet; /proc cannot be written", "set HF_HOME"),
            ("disk", "fail", r"0\.0 GiB free for the hub's cache", "set HF_HOME to a larger disk"),
        ],
        1,
        variables={"HF_HOME": "/proc"},
    ),
    "an overlay is broken": State(
        [NO_TORCH, ("draftpick", "fail", "its catalogue cannot be read: .*not valid TOML", "mend the file")],
        1,
        home={".config/draftpick/catalog/devices.toml": "[["},
    ),
    "the catalogue is old": State(
        [
            NO_TORCH,
            ("draftpick", "warn", "days old: models and engines that came since are unknown", "pip install --upgrade"),
        ],
        before="from draftpick import doctor; doctor.DOCTOR = {**doctor.DOCTOR, 'old-catalogue': -4000}",
    ),
}


# ---------------------------------------------------------------------- how they are made


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that knows neither torch nor transformers, only what draftpick itself needs."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in NEEDED:
        for path in Path(sysconfig.get_path("purelib")).glob(f"{name}*"):
            if path.name.partition("-")[0].removesuffix(".py") == name and not (site / path.name).exists():
                (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def made(state: State, folder: Path) -> dict[str, str]:
    """The environment of a machine, whose files are written into a folder."""
    home, tools, packages = folder / "home", folder / "bin", folder / "packages"
    for path in (home, tools, packages):
        path.mkdir()
    for name, (version, code) in state.packages.items():
        module = packages.joinpath(*name.split("."))
        if "." in name:
            module.with_suffix(".py").write_text(code)
            continue
        module.mkdir()
        (module / "__init__.py").write_text(code)
        described = packages / f"{name}-{version}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for name, script in state.tools.items():
        (tools / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (tools / name).chmod(0o644 if script == "-" else 0o755)
    for name, text in state.home.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    variables = {"PATH": str(tools), "PYTHONPATH": f"{packages}{os.pathsep}{REPOSITORY}"}
    if state.cann is not None:
        variables |= cann_in(home / "Ascend" / "cann", state)
    return environment(home, **variables, **state.variables)


def cann_in(folder: Path, state: State) -> dict[str, str]:
    (folder / "x86_64-linux").mkdir(parents=True)
    info = f"package_name=Ascend-cann-toolkit\nversion={state.cann}\n" if state.cann else "package_name=x\n"
    (folder / "x86_64-linux" / "ascend_toolkit_install.info").write_text(info)
    (folder / "set_env.sh").write_text("")
    shutil.copy(_ctypes.__file__, folder / "libhccl.so")
    return {"ASCEND_TOOLKIT_HOME": str(folder), "LD_LIBRARY_PATH": str(folder)} if state.sourced else {}


def examined(python: Path, state: State, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ["draftpick", "doctor", *state.options, *options]
    attached = "from pathlib import Path\nfrom draftpick import ascend\nascend.NODES, ascend.BUS = "
    attached += "Path.home() / 'dev', Path.home() / 'bus'\n"
    script = f"import sys\n{attached}{state.before}\nsys.argv = {arguments!r}\nfrom draftpick.cli import main\nmain()"
    return subprocess.run(
        [python, "-c", script],
        env=made(state, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_what_is_said_of_a_machine(python: Path, tmp_path: Path, state: State) -> None:
    done = examined(python, state, tmp_path, "--json")
    assert (done.returncode, done.stderr) == (state.exit_code, "")
    assert "secret" not in done.stdout
    rows = json.loads(done.stdout)["checks"]
    said = [(row["check"], row["verdict"], row["text"], row["mend"] or "") for row in rows]
    for check, verdict, text, mend in state.lines:
        fits = [
            row for row in said if row[:2] == (check, verdict) and re.search(text, row[2]) and re.search(mend, row[3])
        ]
        assert fits, (check, verdict, text, mend, said)
    named = {(check, verdict) for check, verdict, _, _ in state.lines}
    assert [row for row in said if row[1] != "ok" and row[:2] not in named] == []
    assert [row for row in said if (row[1] == "ok") != (row[3] == "")] == []


def test_the_table_says_each_check_and_how_to_mend_it(python: Path, tmp_path: Path) -> None:
    done = examined(python, STATES["torch_npu without CANN"], tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(at for at, line in enumerate(lines) if line.startswith("fail  torch "))
    assert lines[place + 1].strip().startswith("→ with NPUs, install CANN")
    assert re.fullmatch(r"Of \d+ checks 2 fail and 3 warn; mend from the top, .*", lines[-1])


def test_quiet_leaves_out_what_is_well(python: Path, tmp_path: Path) -> None:
    (tmp_path / "well").mkdir()
    done = examined(python, STATES["NPUs, all well"], tmp_path / "well", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"All \d+ checks are well\.\n", done.stdout)
    (tmp_path / "ill").mkdir()
    done = examined(python, STATES["torch crashes"], tmp_path / "ill", "--quiet", "--exit-zero")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if line] == ["fail", "→", "Of"]


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_it_is_reported_like_other_documents(python: Path, tmp_path: Path, form: str) -> None:
    done = examined(python, STATES["one device is full"], tmp_path, "--json", "-o", "seen.json")
    assert (done.returncode, done.stdout) == (0, "")
    found = read(tmp_path / "seen.json")
    text = write(found, form)
    assert "This machine" in text
    assert "take --device npu:1" in text
    assert run("report", str(tmp_path / "seen.json"), "--format", form).stdout == text
    assert list(SCHEMA.iter_errors(json.loads((tmp_path / "seen.json").read_text()))) == []
    assert [(one.id, one.key, one.used_mb) for one in found.devices] == [
        ("npu:0", "910c", 62464),
        ("npu:1", "910c", 2886),
    ]


def test_a_module_that_happens_to_lie_here_is_not_torch(python: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('not torch')")
    done = examined(python, STATES["torch on a CPU"], tmp_path, "--json")
    assert done.returncode == 0, done.stdout


# ---------------------------------------------------------------------- servers


class Server(NamedTuple):
    status: int
    content: bytes
    seconds: float = 0.0


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that gives one answer to everything."""
    told: Server = request.param

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(told.seconds)
            self.send_response(told.status)
            self.send_header("Content-Length", str(len(told.content)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(told.content)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process sees no package that matters, no tool, and a home without anything."""
    monkeypatch.setattr(machine, "PACKAGES", ())
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in ("HF_HUB_OFFLINE", "HF_ENDPOINT", "HF_HOME", "MODELSCOPE_DOMAIN", "MODELSCOPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")


def said_of(check: str) -> list[tuple[str, str]]:
    found = doctor.examine(offline=False, overlay=None)
    return [(line.verdict, line.text) for line in found.lines if line.check == check]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("served", "verdict", "text"),
    [
        (Server(200, b'[{"id": "a/b"}]'), "ok", "answers"),
        (Server(200, b"<html>Welcome"), "warn", "answers as no hub does, with a page"),
        (Server(404, b"{}"), "warn", "answers as no hub does, with 404"),
        (Server(401, b"{}"), "warn", "asks who you are (401)"),
        (Server(403, b"{}"), "warn", "refuses (403)"),
        (Server(200, b"[]", seconds=0.5), "warn", "gave no answer in 0.2 s"),
    ],
    indirect=["served"],
)
def test_what_a_hub_answers(monkeypatch: pytest.MonkeyPatch, served: str, verdict: str, text: str) -> None:
    monkeypatch.setattr(machine, "REACH_S", 0.2 if "gave no answer" in text else 5.0)
    monkeypatch.setenv("HF_ENDPOINT", served)
    assert said_of("hub") == [(verdict, f"{served} {text}")]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("served", [Server(200, b"<html>")], indirect=True)
def test_modelscope_is_asked_where_it_is_used(monkeypatch: pytest.MonkeyPatch, served: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", served)
    assert said_of("ModelScope") == []
    monkeypatch.setenv("MODELSCOPE_DOMAIN", served.removeprefix("http://"))
    ((verdict, text),) = said_of("ModelScope")
    assert (verdict, "cannot be reached" in text) == ("warn", True), "it is asked by https, which this server lacks"


# ---------------------------------------------------------------------- disks and homes


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("free", "verdict", "text"),
    [
        (0, "fail", "0.0 GiB free for this folder"),
        (5 * 2**30, "warn", "5.0 GiB free for this folder: little for the weights of a target"),
        (500 * 2**30, "ok", "500.0 GiB free for this folder"),
    ],
)
def test_the_room_on_a_disk(monkeypatch: pytest.MonkeyPatch, free: int, verdict: str, text: str) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**13, 10**13 - free, free))
    assert said_of("disk")[0] == (verdict, text)


@pytest.mark.usefixtures("bare")
def test_a_user_without_a_home_is_told_so_and_has_no_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert said_of("cache of the hub") == [("warn", "~/.cache/huggingface/hub: this user has no home")]
    assert find_cached("Qwen/Qwen3-8B") is None
    assert list(cached_models()) == []


@pytest.mark.usefixtures("bare")
def test_a_large_cache_is_counted_for_a_moment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with open(tmp_path / "blob", "wb") as file:
        file.truncate(3 * 2**30)
    assert said_of("cache of the hub") == [("ok", f"{tmp_path} holds 3.0 GiB")]
    monkeypatch.setattr(doctor, "DOCTOR", {**doctor.DOCTOR, "counting-time": -1})
    assert said_of("cache of the hub") == [("ok", f"{tmp_path} holds more than 3.0 GiB")]


# ---------------------------------------------------------------------- the Ascend software


@pytest.mark.parametrize(
    ("files", "variables", "folder", "version"),
    [
        ({}, {}, None, None),
        ({"cann/x86_64-linux/ascend_toolkit_install.info": "version=8.5.0\n"}, {}, "cann", "8.5.0"),
        ({"cann-8.5.0/aarch64-linux/ascend_toolkit_install.info": "version=8.5.0\n"}, {}, "cann-8.5.0", "8.5.0"),
        (
            {
                "cann-8.5.0/version.info": "Version=8.5.0\n",
                "cann-9.1.0/version.info": "package=x\nVersion=9.1.0\n",
                "ascend-toolkit/latest/version.info": "Version=8.3.RC1\n",
            },
            {},
            "cann-9.1.0",
            "9.1.0",
        ),
        (
            {
                "ascend-toolkit/latest/toolkit/version.info": "Version=8.2.RC1\n",
                "ascend-toolkit/set_env.sh": "",
            },
            {},
            "ascend-toolkit/latest",
            "8.2.RC1",
        ),
        ({"cann/version.info": "\x00\xff"}, {}, "cann", None),
        (
            {"cann/version.info": "Version=9.1.0", "mine/version.info": "Version=8.5.1"},
            {"ASCEND_HOME_PATH": "mine"},
            "mine",
            "8.5.1",
        ),
        ({"cann/version.info": "Version=9.1.0"}, {"ASCEND_TOOLKIT_HOME": "gone"}, "cann", "9.1.0"),
    ],
)
def test_where_cann_lies(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    files: Mapping[str, str],
    variables: Mapping[str, str],
    folder: str | None,
    version: str | None,
) -> None:
    monkeypatch.setattr(ascend, "ROOT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ascend.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, place in variables.items():
        monkeypatch.setenv(name, str(tmp_path / place))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="latin-1")
    found = ascend.cann()
    assert (found.folder if found is not None else None) == (tmp_path / folder if folder is not None else None)
    if found is not None:
        assert found.version == version
        assert found.sourced == (folder == "mine")
        assert found.set_env.parent in (found.folder, found.folder.parent)


def test_the_driver_has_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ascend, "ROOT", tmp_path)
    assert ascend.driver_version() is None
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "version.info").write_text("Version=24.1.rc2\nascendhal_version=7.35.19\n")
    assert ascend.driver_version() == "24.1.rc2"


def test_torch_and_transformers_are_imported_beside_a_torch_npu_without_cann(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text(f"{NEEDS_CANN}def _autoload(): pass\n")
    described = tmp_path / "torch_npu-2.13.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (described / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    script = (
        "import os\nfrom draftpick.errors import DraftpickError\n"
        "from draftpick.probing.device import find_device, torch_here\n"
        "torch = torch_here()\n"
        "from transformers import LlamaForCausalLM\n"
        "print(find_device(None, torch), os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'])\n"
        "try:\n    find_device('npu:0', torch)\nexcept DraftpickError as error:\n    print(error.message)\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(REPOSITORY)])
    variables = {**environment(tmp_path), "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "cpu 0",
        "there is no npu device here: torch-npu is installed, but CANN is not on the loader's path",
    ], done.stderr
    plain = subprocess.run(
        [sys.executable, "-c", "import torch"], env=variables, capture_output=True, text=True, check=False
    )
    assert "libhccl.so" in plain.stderr, "without draftpick it is not imported"


def test_every_check_says_something_somewhere() -> None:
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS) == 15
