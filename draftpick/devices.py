"""The accelerator of this machine, as its own tool names it: no framework is imported.

A tool that is missing, fails, hangs or prints something else means only that its kind of device is not here.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

TIMEOUT_S = 10.0
GRACE_S = 1.0
_MOST_BYTES = 256 * 1024

_BUS_ID = re.compile(r"[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.[0-9a-f]+|NA", re.IGNORECASE)
_CHIP = re.compile(r"\d+\s+((?:Ascend)?\d{3}[a-z0-9_-]*)", re.IGNORECASE | re.ASCII)
_MEMORY_TOTAL = re.compile(r"\d+\s*/\s*(\d+)", re.ASCII)

# nvidia-smi prints some of its complaints where the names belong, such as "No devices were found".
_NVIDIA_NAME = re.compile(
    r"(?=(?:NVIDIA|GeForce|RTX|TITAN|Quadro|Tesla|GRID|Orin) |[A-Z]{1,3}\d)[\w ()/+.-]{2,60}", re.ASCII
)
_APPLE_NAME = re.compile(r"Apple M\d{1,2}(?: \w{1,10})?", re.ASCII)

# Boards that share a name on npu-smi: the key of the one with more memory a device, and of the one with less.
_LARGE_MB = 40_000
_BY_MEMORY = {
    "910b4": ("910b4-1", "910b4"),
    "310p3": ("310p-duo-96g", "310p-duo-48g"),
    "ascend910": ("910c", "910"),
}


def present() -> str:
    """The first accelerator of this machine, by a name for `Catalog.device`; "cpu" where there is none.

    The name of a real device may still be one the catalogue lacks. Raises nothing; each tool may take TIMEOUT_S.
    """
    return _ascend() or _nvidia() or _apple() or "cpu"


def _ascend() -> str:
    """The first chip in the table of npu-smi, or "": a row with its name, then one with Bus-Id and memory."""
    name = ""
    for line in _output_of("npu-smi", "info").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 3:
            continue
        if name and _BUS_ID.fullmatch(cells[1]):
            return _ascend_key(name, _memory_mb(cells[2]))
        if chip := _CHIP.fullmatch(cells[0]):
            name = chip[1]
    return name.lower()


def _memory_mb(cell: str) -> int:
    """The total of the last "used / total" that is not zero (HBM stands last, where there is any), in MiB; else 0."""
    totals = [int(total) for total in _MEMORY_TOTAL.findall(cell)]
    return next((total for total in reversed(totals) if total), 0)


def _ascend_key(name: str, memory_mb: int) -> str:
    """The catalogue's name of a chip, given its memory in MiB (0: not known)."""
    name = name.lower()
    if not memory_mb or name not in _BY_MEMORY:
        return name
    large, small = _BY_MEMORY[name]
    return large if memory_mb >= _LARGE_MB else small


def _nvidia() -> str:
    """The name of the first GPU that nvidia-smi lists, or ""."""
    lines = _output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    names = (" ".join(line.split()) for line in lines)
    return next((name for name in names if _NVIDIA_NAME.fullmatch(name)), "")


def _apple() -> str:
    """The chip of a Mac with Apple silicon, or ""."""
    import platform

    if platform.system() != "Darwin":
        return ""
    name = _output_of("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return name if _APPLE_NAME.fullmatch(name) else ""


def _output_of(*command: str) -> str:
    """What a command printed; "" where it is missing, fails, takes over TIMEOUT_S or prints over _MOST_BYTES."""
    import subprocess
    from threading import Thread

    try:
        process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return ""
    # A tool that hangs in its driver outlives even a kill and keeps the pipe open: nothing may wait for its end.
    output = bytearray()
    reader = Thread(target=_read, args=(process.stdout, output), daemon=True)
    reader.start()
    reader.join(TIMEOUT_S)
    if reader.is_alive() or not _ends(process):
        process.kill()
        _ends(process)
        return ""
    if process.returncode != 0 or len(output) > _MOST_BYTES:
        return ""
    return output.decode("utf-8", "replace")


def _read(pipe: IO[bytes], output: bytearray) -> None:
    """Read to the end, or until it is too much; closing the pipe then stops the writer."""
    with pipe:
        while len(output) <= _MOST_BYTES and (piece := pipe.read(65_536)):
            output += piece


def _ends(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process ends within GRACE_S, now that its output has ended."""
    import subprocess

    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return False
    return True
