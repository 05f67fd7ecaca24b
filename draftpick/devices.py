"""The accelerators of this machine, as their own tools show them: no framework is imported.

A tool that is missing, fails, hangs or prints something else means only that its kind of device is not here; what
stood in the way is told to who asks for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, TYPE_CHECKING, NamedTuple

from draftpick.errors import AbsentDevice

if TYPE_CHECKING:
    import subprocess

TIMEOUT_S = 10.0
CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""PyPI's own build of torch brings CUDA's packages on x86_64."""
GRACE_S = 1.0
_MOST_BYTES = 256 * 1024

_BUS_ID = re.compile(r"[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.[0-9a-f]+|NA", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d{1,6})(?:\s+(\d{1,6}))?", re.ASCII)
_CHIP = re.compile(r"(\d{1,6})\s+((?:Ascend)?\d{3}[a-z0-9_-]*)", re.IGNORECASE | re.ASCII)
_MEMORY = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})", re.ASCII)
_DRIVER = re.compile(r"npu-smi\s.{0,200}?Version:\s*([\w.]{1,40})")

# nvidia-smi prints some of its complaints where the names belong, such as "No devices were found".
_NVIDIA_NAME = re.compile(
    r"(?=(?:NVIDIA|GeForce|RTX|TITAN|Quadro|Tesla|GRID|Orin) |[A-Z]{1,3}\d)[\w ()/+.-]{2,60}", re.ASCII
)
_APPLE_NAME = re.compile(r"Apple M\d{1,2}(?: \w{1,10})?", re.ASCII)


@dataclass(frozen=True)
class Chip:
    """One device that a process can compute on: a chip of a card, a die of a package."""

    kind: str
    """npu, cuda or mps, as torch has it."""
    index: int
    """As torch counts those it may use."""
    name: str
    """As its own tool has it: 910B3, NVIDIA H200."""
    total_mb: int | None = None
    """MiB, what the driver takes included; None where the tool does not tell, as `used_mb` and `health`."""
    used_mb: int | None = None
    health: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        return self.total_mb * 2**20 if self.total_mb is not None else None


class Told(NamedTuple):
    """What a command printed, and what stood in the way."""

    text: str
    problem: str = ""
    """A clause, as `is not on the PATH`; empty where it ended well."""
    missing: bool = False
    """There is no such command here."""

    @property
    def answer(self) -> str:
        """What it printed, where it ended well."""
        return "" if self.problem else self.text


def first() -> Chip | None:
    """The first accelerator of this machine; None where there is none. Each tool may take TIMEOUT_S."""
    return next((found[0] for kind in ("npu", "cuda", "mps") if (found := chips(kind))), None)


def find(kind: str, index: int) -> Chip:
    """The device that torch calls `kind:index`. Raises AbsentDevice with the reason where it is not here."""
    told = ask_for(kind)
    found = visible(chips_in(kind, told.answer))
    chip = next((one for one in found if one.index == index), None)
    if chip is not None:
        return chip
    tool = TOOLS[kind][0]
    if found:
        count = f"{tool} shows {len(found)}, counted from 0"
        raise AbsentDevice(f"there is no {kind}:{index} here: {count}", f"one of {kind}:0 to {kind}:{len(found) - 1}")
    reason = f"{tool} {told.problem or 'shows none'}"
    if chips_in(kind, told.answer):
        reason = f"{VISIBLE} = {os.environ.get(VISIBLE, '')[:40]!r} leaves none of those that {tool} shows"
    raise AbsentDevice(
        f"there is no {kind}:{index} here: {reason}",
        "name the device by its key, as --device 910b3, or run this on the machine that has it; `draftpick doctor` "
        "says more",
    )


def chips(kind: str) -> list[Chip]:
    """The devices of a kind that torch may use here, by index; none of a kind whose tool is not known."""
    return visible(chips_in(kind, ask_for(kind).answer)) if kind in TOOLS else []


# ---------------------------------------------------------------------- what the tools print

TOOLS = {
    "npu": ("npu-smi", "info"),
    "cuda": ("nvidia-smi", "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"),
    "mps": ("sysctl", "-n", "machdep.cpu.brand_string"),
}
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def ask_for(kind: str) -> Told:
    """What the tool for a kind of device answers."""
    import platform

    if kind == "mps" and platform.system() != "Darwin":
        return Told("", "is asked on macOS alone", missing=True)
    return ask(*TOOLS[kind])


def chips_in(kind: str, text: str) -> list[Chip]:
    """The devices that a tool's text shows, all of them, by index."""
    return list({"npu": _ascend, "cuda": _nvidia, "mps": _apple}[kind](text))


def driver_in(text: str) -> str | None:
    """The driver's version in the head of npu-smi's table."""
    found = _DRIVER.search(text)
    return found[1].rstrip(".") if found else None


def visible(found: list[Chip]) -> list[Chip]:
    """Those that a process may use, counted anew: the runtime of Ascend takes a list in ascending order, or none."""
    listed = os.environ.get(VISIBLE)
    if listed is None or not found or found[0].kind != "npu":
        return found
    parts = [part.strip() for part in listed.split(",")]
    numbers = [int(part) for part in parts if re.fullmatch(r"\d{1,6}", part, re.ASCII)]
    if len(numbers) != len(parts) or any(one >= two for one, two in pairwise(numbers)):
        return []
    kept = [chip for chip in found if chip.index in numbers]
    return [replace(chip, index=index) for index, chip in enumerate(kept)]


def _ascend(text: str) -> Iterator[Chip]:
    """The chips of npu-smi's table: a row with name and health, then one with Bus-Id and memory, whatever its width.

    The second row begins with the chip's number on its card and, on boards of several chips, the number of the device
    on this machine. A row that was cut off leaves its chip without memory.
    """
    found: list[tuple[tuple[int, int, int], Chip]] = []
    open_row: tuple[int, str, str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 3:
            continue
        numbers = _NUMBERS.fullmatch(cells[0])
        if open_row is not None and (numbers or _BUS_ID.fullmatch(cells[1])):
            found.append(_placed(*open_row, numbers, cells[2]))
            open_row = None
        elif named := _CHIP.fullmatch(cells[0]):
            if open_row is not None:
                found.append(_placed(*open_row, None, ""))
            open_row = int(named[1]), named[2], cells[1]
    if open_row is not None:
        found.append(_placed(*open_row, None, ""))
    # torch counts the devices it is given, in the order of their numbers.
    for index, (_, chip) in enumerate(sorted(found, key=lambda one: one[0])):
        yield replace(chip, index=index)


def _placed(
    npu: int, name: str, health: str, numbers: re.Match[str] | None, metrics: str
) -> tuple[tuple[int, int, int], Chip]:
    """A chip, and by what it is ordered: the number of the device where it is told, else those of card and chip."""
    on_card, device = (int(part) if part else None for part in numbers.groups()) if numbers else (None, None)
    pairs = [(int(used), int(total)) for used, total in _MEMORY.findall(metrics)]
    # HBM stands last where there is any; a pair of zeros is of memory that the board lacks.
    used, total = next((pair for pair in reversed(pairs) if pair[1]), (None, None))
    order = (device if device is not None else npu, npu, on_card or 0)
    return order, Chip("npu", 0, name, total, used, health or None)


def _nvidia(text: str) -> Iterator[Chip]:
    index = 0
    for line in text.splitlines():
        name, *memory = (" ".join(part.split()) for part in line.split(","))
        if _NVIDIA_NAME.fullmatch(name):
            total, used = [int(part) if part.isdecimal() and len(part) < 10 else None for part in (*memory, "", "")][:2]
            yield Chip("cuda", index, name, total, used)
            index += 1


def _apple(text: str) -> Iterator[Chip]:
    name = text.strip()
    if _APPLE_NAME.fullmatch(name):
        yield Chip("mps", 0, name)


# ---------------------------------------------------------------------- asking a tool


def ask(*command: str, timeout: float | None = None) -> Told:
    """What a command prints, within TIMEOUT_S or `timeout` seconds and _MOST_BYTES."""
    import subprocess
    from threading import Thread

    seconds = TIMEOUT_S if timeout is None else timeout
    try:
        process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        return Told("", "is not on the PATH", missing=True)
    except OSError as error:
        return Told("", f"cannot be run: {error.strerror or error}")
    # A tool that hangs in its driver outlives even a kill and keeps the pipe open: nothing may wait for its end.
    output = bytearray()
    reader = Thread(target=_read, args=(process.stdout, output), daemon=True)
    reader.start()
    reader.join(seconds)
    late = reader.is_alive() or not _ends(process)
    if late:
        process.kill()
        _ends(process)
    return Told(output.decode("utf-8", "replace"), _problem(process.returncode, bytes(output), seconds, late))


def _problem(code: int | None, output: bytes, seconds: float, late: bool) -> str:
    """What stood in the way of a command, as a clause; empty where nothing did."""
    if late:
        return f"gave no answer in {seconds:g} s"
    if len(output) > _MOST_BYTES:
        return "printed without end"
    if code == 0:
        return ""
    lines = output.decode("utf-8", "replace").splitlines()
    said = next((line.strip()[:100] for line in lines if line.strip()), "")
    return (f"was ended by signal {-code}" if code and code < 0 else f"failed with exit code {code}") + (
        f": {said}" if said else ""
    )


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
