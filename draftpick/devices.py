"""Which accelerator this machine has, for `--device auto`: asked of the vendor's own tool, without importing torch."""

from __future__ import annotations

TIMEOUT = 10.0
"""Seconds that a vendor's tool may take."""
LONGEST = 1 << 20
"""Characters of its answer that are read."""


def present() -> str:
    """The name of the first accelerator found, as the catalogue's devices are called; `cpu` where there is none.

    An NPU goes before a GPU, and that before an Apple chip. A tool that is missing, fails or answers nonsense counts
    as a device that is not there.
    """
    return _npu() or _gpu() or _apple() or "cpu"


def _npu() -> str | None:
    return _npu_name(_answer("npu-smi", "info"))


def _gpu() -> str | None:
    lines = _answer("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    name = lines[0].strip() if lines else ""
    return name if name and name.isprintable() and len(name) < 100 else None


def _apple() -> str | None:
    import sys

    if sys.platform != "darwin":
        return None
    name = _answer("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return name if name.startswith("Apple") else None


def _answer(*command: str) -> str:
    """What a tool prints, or nothing."""
    import shutil
    import subprocess

    tool = shutil.which(command[0])
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout[:LONGEST].decode("utf-8", "replace")


def _npu_name(table: str) -> str | None:
    """The first chip of an `npu-smi info` table: its name in one row, its bus and memory in the next.

    Columns differ in number and width from board to board, so cells are told by what they hold.
    """
    name = None
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3:
            continue
        words = cells[0].split()
        if name is not None and _is_bus(cells[1]):
            return _variant(name, _megabytes(cells[-1]))
        if len(words) == 2 and words[0].isdigit() and not words[1].isdigit():
            name = words[1]
    return None


def _is_bus(cell: str) -> bool:
    """`0000:C1:00.0`, or NA where the chip has no bus."""
    return cell == "NA" or (cell.count(":") == 2 and "." in cell)


def _megabytes(cell: str) -> int:
    """The last total that is not zero of `used / total` pairs; 0 where there is none."""
    import re

    totals = [int(total) for _, total in re.findall(r"(\d+)\s*/\s*(\d+)", cell)]
    return next((total for total in reversed(totals) if total), 0)


def _variant(name: str, megabytes: int) -> str:
    """The catalogue's name of a chip: boards of one chip differ in memory, and some names leave the chip out."""
    chip = name.lower().removeprefix("ascend")
    if chip == "910b4" and megabytes > 40_000:
        return "910b4-1"
    if chip.startswith("310p") and megabytes:
        return "310p-duo-96g" if megabytes > 30_000 else "310p-duo-48g"
    if chip == "910" and megabytes > 40_000:
        return "910c"
    return chip
