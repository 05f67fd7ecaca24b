"""Stands in for torch_npu in tests: the device npu, in Python, on a machine that has none.

torch finds it as it finds the real one, by the entry point of a package on its path. It shows which calls and
operations reach the device and refuses what a device refuses. It knows nothing of speed, of kernels, or of the types
they take.
"""

from __future__ import annotations

import atexit
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from torch_npu import tensor
from torch_npu.memory import LEDGERS
from torch_npu.settings import SEEN, SETTINGS

__version__ = "2.13.0+fake"


class Event:
    """A moment on the device's clock."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        tensor.check_alive()
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        tensor.check_alive()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds."""
        if self._at is None or other._at is None:
            raise RuntimeError("an event was not recorded")
        return (other._at - self._at) * 1e3


class Npu(ModuleType):
    """torch.npu."""

    Event = Event

    def __getattribute__(self, name: str) -> Any:
        """Every function that is looked up is about to be called."""
        if not name.startswith("_") and callable(getattr(Npu, name, None)):
            SEEN.calls[f"torch.npu.{name}"] += 1
        return super().__getattribute__(name)

    def is_available(self) -> bool:
        return self.device_count() > 0

    def device_count(self) -> int:
        if not SETTINGS.driver:
            raise RuntimeError(
                "Initialize:torch_npu.dir/compiler_depend.ts:1 NPU function error: aclInit, error code is 507899"
            )
        return SETTINGS.count

    def current_device(self) -> int:
        return tensor.current

    def set_device(self, device: Any) -> None:
        tensor.current = _index(device)

    def synchronize(self, device: Any = None) -> None:
        _index(device)
        tensor.check_alive()

    def empty_cache(self) -> None:
        tensor.check_alive()

    def get_device_name(self, device: Any = None) -> str:
        _index(device)
        return SETTINGS.name

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        _index(device)
        return SimpleNamespace(name=SETTINGS.name, total_memory=SETTINGS.capacity)

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        return SETTINGS.capacity - LEDGERS[_index(device)].live, SETTINGS.capacity

    def memory_allocated(self, device: Any = None) -> int:
        return LEDGERS[_index(device)].live

    def max_memory_allocated(self, device: Any = None) -> int:
        return LEDGERS[_index(device)].most

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        ledger = LEDGERS[_index(device)]
        ledger.most = ledger.live

    def is_bf16_supported(self) -> bool:
        return "910B" in SETTINGS.name

    def manual_seed(self, seed: int) -> None:
        pass

    manual_seed_all = manual_seed

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16, torch.float32]

    def is_initialized(self) -> bool:
        return True

    def _lazy_init(self) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False


def _index(device: Any) -> int:
    """The index that a device, its name or a number mean. Raises as torch_npu does for one that is not there."""
    index = torch.device(device).index if isinstance(device, (str, torch.device)) else device
    index = tensor.current if index is None else index
    if not 0 <= index < SETTINGS.count:
        raise AssertionError("Invalid device id\n[ERROR] ERR00002 PTA invalid value")
    return int(index)


class _Hook(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


npu = Npu("torch.npu")


def _stand_in_for_the_guard() -> None:
    """What torch.accelerator asks of a backend's C++, which Python cannot give it."""

    def told(name: str) -> Any:
        answer = getattr(
            Npu, {"current_device_index": "current_device", "set_device_index": "set_device"}.get(name, name)
        )

        def called(*args: Any) -> Any:
            SEEN.calls[f"torch.accelerator.{name}({', '.join(map(str, args))})"] += 1
            return answer(npu, *args)

        return called

    for name in ("current_device_index", "set_device_index", "synchronize"):
        setattr(torch.accelerator, name, told(name))


def npu_fusion_attention(*_: Any, **__: Any) -> Any:
    """transformers imports it for flash_attention_2."""
    raise RuntimeError("the stand-in for torch_npu has no npu_fusion_attention")


def _autoload() -> None:
    """The entry point that torch calls; importing this did the work."""


_setup_privateuseone_for_python_backend("npu", backend_module=npu, hook=_Hook(), device_guard=_Guard())
_stand_in_for_the_guard()
_kept = tensor.register()


def write_report() -> None:
    """Write what was seen where FAKE_NPU names a file."""
    if SETTINGS.report is not None:
        SEEN.write(SETTINGS.report, {index: ledger.most for index, ledger in LEDGERS.items()})


atexit.register(write_report)
