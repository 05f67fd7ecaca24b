"""The device that a probe runs on, in torch's own names: no vendor's calls, so npu, cuda, mps and cpu are one path."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from draftpick.ascend import hide_torch_npu, is_hidden, lacks_cann
from draftpick.catalog import Catalog
from draftpick.devices import CPU_TORCH, chips
from draftpick.errors import DraftpickError, UsageError
from draftpick.pair import Device

_R = TypeVar("_R")
_T = TypeVar("_T")

_FAILED = re.compile(r"NPU function error|call acl api failed|\bERR\d{5}\b|\bE[A-Z]\d{4}\b|FORCE STOP|CUDA error")
"""What torch_npu, CANN and torch write where a device, its driver or one of its operations failed."""


class CannotProbe(DraftpickError):
    """Nothing can be measured here: no torch, no such device, no weights, not enough memory (exit code 3)."""

    exit_code = 3


class BrokenLogits(CannotProbe):
    """A model gives NaN or infinite logits: nothing measured with it would mean anything (exit code 3)."""


class Place(NamedTuple):
    """What models ran on."""

    id: str
    """As torch names it; `served` where a server has it."""
    name: str
    threads: int | None = None
    """Of the CPU that computed; None on an accelerator."""
    tool_name: str | None = None
    """As the device's own tool names it, for the catalogue."""
    memory_bytes: int | None = None


def temporary_folder() -> str:
    """Where files go that nobody keeps. Raises CannotProbe where there is no such place."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise CannotProbe(str(error.strerror), "free some space there, or name another folder with TMPDIR") from None


def torch_here() -> Any:
    """The module torch. Raises CannotProbe where it, or transformers, cannot be imported.

    A torch_npu without CANN would keep both from being imported, on a CPU too: it is taken to be absent.
    """
    try:
        os.getcwd()
    except FileNotFoundError:  # the libraries below torch would end the process
        raise CannotProbe("the folder that draftpick was started in is gone", "change into one that is there") from None
    temporary_folder()  # torch wants one, and would say so in the words of a broken model
    if lacks_cann():
        hide_torch_npu()
    try:
        import torch
        import transformers
    except Exception as error:  # a broken plug-in of torch raises RuntimeError or OSError
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = (
            f"install the build of torch for this device ({CPU_TORCH} for a CPU), then: pip install 'draftpick[probe]'"
        )
        if "backend extension" in first or "libhccl" in first or "libascend" in first:
            hint = "torch-npu does not fit what is installed here: `draftpick doctor` says what, and how to mend it"
        raise CannotProbe(f"the probe needs torch and transformers: {first}", hint) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch


def device_here(asked: str | None, devices: int) -> tuple[Any, str]:
    """The module torch, and the device to measure on, once so many of them are known to be here.

    Raises CannotProbe and UsageError as `torch_here`, `find_device` and `check_count` do.
    """
    torch = torch_here()
    device = find_device(asked, torch)
    check_count(devices, device, torch)
    return torch, device


def find_device(asked: str | None, torch: Any) -> str:
    """The device to measure on, in torch's spelling: what was asked for, or the machine's accelerator, or cpu.

    Raises CannotProbe for a device that is not there, UsageError for a name torch does not have.
    """
    try:
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    except RuntimeError as error:  # a driver that does not answer
        if asked is not None and asked.strip().lower().partition(":")[0] == "cpu":
            return "cpu"
        raise _told(error) from None
    kind = here.type if here is not None else "cpu"
    if asked is None or asked.strip().lower() == "auto":
        return kind if kind == "cpu" else f"{kind}:{torch.accelerator.current_device_index()}"
    name, _, index = asked.strip().lower().partition(":")
    if name not in ("npu", "cuda", "mps", "cpu", "xpu") or (index and not index.isdecimal()):
        raise UsageError(f"--device {asked!r} is no device of torch", "give npu, npu:0, cuda:1, mps, cpu or auto")
    if name == "cpu":
        return "cpu"
    if name == "npu" and is_hidden():
        raise CannotProbe(
            "there is no npu device here: torch-npu is installed, but CANN is not on the loader's path",
            "source CANN's set_env.sh; `draftpick doctor` says where it lies",
        )
    if name != kind:
        raise CannotProbe(
            f"there is no {name} device here: torch sees {kind}",
            f"measure on it with --device {kind}, or run this on the machine that has it; `draftpick doctor` says more",
        )
    count = torch.accelerator.device_count()
    if index and int(index) >= count:
        raise CannotProbe(f"there is no {name}:{index} here: torch sees {count} of them", "count from 0")
    return f"{name}:{index or torch.accelerator.current_device_index()}"


def check_count(devices: int, device: str, torch: Any) -> None:
    """Raise CannotProbe where a model shall be split over more devices than there are."""
    here = torch.accelerator.device_count() if device != "cpu" else 1
    if devices > here:
        raise CannotProbe(
            f"--tensor-parallel-size {devices}: there {'is' if here == 1 else 'are'} {here} {device.partition(':')[0]}",
            "measure it where it is served (--target-url and --draft-url), or take a target that fits here",
        )


def make_current(device: str, torch: Any) -> None:
    """Let an accelerator be the one that is meant where none is named: what runs there needs no other's memory."""
    if device != "cpu":
        torch.accelerator.set_device_index(device)


def place_of(device: str) -> Place:
    """What torch, and the device's own tool, say of a device here."""
    import torch

    kind, _, index = device.partition(":")
    if kind == "cpu":
        return Place("cpu", platform.processor() or platform.machine(), torch.get_num_threads(), "cpu")
    seen = seen_by_torch(device, torch)
    chip = next((one for one in chips(kind) if one.index == int(index or 0)), None)
    return Place(
        device,
        seen.name or (chip.name if chip is not None else platform.machine()),
        tool_name=chip.name if chip is not None else None,
        memory_bytes=seen.memory_bytes or (chip.memory_bytes if chip is not None else None),
    )


def software_here() -> dict[str, str]:
    """Versions of what runs models on this machine."""
    from importlib import metadata

    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in ("torch", "transformers", "torch_npu", "accelerate"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Seen(NamedTuple):
    """What torch calls a device; None where it does not say."""

    name: str | None
    memory_bytes: int | None


def seen_by_torch(device: str, torch: Any) -> Seen:
    """Name and total memory of an accelerator."""
    kind, _, index = device.partition(":")
    module = getattr(torch, kind, None)

    def asked(function: str) -> Any:
        try:
            return getattr(module, function)(int(index or 0))
        except (AttributeError, RuntimeError, AssertionError, TypeError):
            return None

    total = getattr(asked("get_device_properties"), "total_memory", None)
    return Seen(asked("get_device_name"), int(total) if total else None)


def computes_in_bf16(device: str, asked: str | None, torch: Any, catalog: Catalog, say: Callable[[str], None]) -> bool:
    """Whether a device computes in bfloat16, as the catalogue or else torch says; `asked` is the dtype of --dtype.

    Raises CannotProbe where it does not, and bfloat16 was asked for.
    """
    reason = _lacks_bf16(device, torch, catalog)
    if reason is None:
        return True
    if asked == "bfloat16":
        raise CannotProbe(reason, "take --dtype float16, or leave it out: a checkpoint in bfloat16 is then loaded so")
    if asked is None:
        say(f"{reason}: a checkpoint in it is loaded in float16")
    return False


def _lacks_bf16(device: str, torch: Any, catalog: Catalog) -> str | None:
    if device == "cpu":
        return None
    row = _row_of(seen_by_torch(device, torch), catalog)
    if row is not None and row.bf16 is not None:
        return None if row.bf16 else f"{row.name} has no bfloat16"
    supported = getattr(getattr(torch, device.partition(":")[0], None), "is_bf16_supported", None)
    return f"torch says that {device} has no bfloat16" if supported is not None and not supported() else None


def _row_of(seen: Seen, catalog: Catalog) -> Device | None:
    try:
        return catalog.device_seen(seen.name, seen.memory_bytes) if seen.name else None
    except UsageError:
        return None


def synchronize(device: str) -> None:
    """Wait until the device has done what it was given; nothing to wait for on a CPU."""
    if device != "cpu":
        import torch

        torch.accelerator.synchronize(device)


def peak_memory(device: str) -> int | None:
    """The most bytes that tensors took on an accelerator so far; None where torch does not count."""
    import torch

    # torch.accelerator.memory asks an allocator that not every torch_npu has, and raises where it is missing.
    counted = getattr(getattr(torch, device.partition(":")[0], None), "max_memory_allocated", None)
    return int(counted(device)) if device != "cpu" and counted is not None else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says, in one of the spellings of devices, that memory ran out."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or any(
        said in text
        for said in ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "error code is 207001")
    )


def device_failure(error: BaseException) -> CannotProbe | None:
    """An error of a device, its driver or one of its operations, as one that says what to do; None for any other."""
    if type(error).__name__ != "AcceleratorError" and not _FAILED.search(str(error)):
        return None
    return _told(error)


def _told(error: BaseException) -> CannotProbe:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return CannotProbe(
        f"the device failed: {first[:200]}",
        "look at it with its own tool (npu-smi info); a run that was broken off goes on with --resume",
    )


@contextmanager
def failures_told(device: str) -> Iterator[None]:
    """Raise CannotProbe for what a device fails by; other errors pass."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise CannotProbe(
                f"memory ran out on {device}",
                "time fewer sequences (--timed-batch) or a shorter --context; what was measured is kept: go on with "
                "--resume",
            ) from None
        if (failure := device_failure(error)) is None:
            raise
        raise failure from None


class Batches:
    """Work on so many rows at a time; half as many from the moment that memory runs out."""

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, work: Callable[[Sequence[_R]], list[_T]], rows: Sequence[_R]) -> list[_T]:
        """The results for all rows. Raises CannotProbe where even one row is too much."""
        found: list[_T] = []
        while len(found) < len(rows):
            part = rows[len(found) : len(found) + self.size]
            if (done := self._tried(work, part)) is not None:
                found += done
            elif self.size == 1 or len(part) == 1:
                raise CannotProbe(
                    "memory ran out with one sequence at a time",
                    "shorten the answers with --max-new-tokens, leave long prompts out, or split the models over "
                    "more devices with --tensor-parallel-size",
                )
            else:
                # Outside of the handler: its traceback would keep the tensors.
                _free()
                self.size = max(min(self.size, len(part)) // 2, 1)
        return found

    @staticmethod
    def _tried(work: Callable[[Sequence[_R]], list[_T]], rows: Sequence[_R]) -> list[_T] | None:
        try:
            return work(rows)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None


def _free() -> None:
    import gc

    import torch

    gc.collect()
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        empty = getattr(getattr(torch, kind, None), "empty_cache", None)
        if empty is not None:
            empty()
