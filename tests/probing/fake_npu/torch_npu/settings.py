"""What a test wants of the device, and what the device saw: settings come from FAKE_NPU, the report goes to a file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch


@dataclass
class Settings:
    """How the machine is; set by a JSON object in the environment variable FAKE_NPU, or by a test."""

    count: int = 1
    name: str = "Ascend910B3"
    capacity: int = 64 << 30
    """Bytes of one device."""
    spelling: str = "OutOfMemoryError"
    """Of memory that ran out: OutOfMemoryError, or RuntimeError as of older builds."""
    lost_after: int | None = None
    """The device is lost after so many operations."""
    driver: bool = True
    """False: counting devices fails, as where the driver does not answer."""
    report: str | None = None


@dataclass
class Seen:
    """What reached the device."""

    operations: Counter[str] = field(default_factory=Counter)
    """aten operation, with overload → how often it ran on the device."""
    types: dict[str, list[str]] = field(default_factory=dict)
    """aten operation → types of the numbers that it read and wrote."""
    fallbacks: Counter[str] = field(default_factory=Counter)
    """Those for which torch_npu has no kernel: it would copy to the CPU and compute there."""
    calls: Counter[str] = field(default_factory=Counter)
    """Of torch.npu, and of those of torch.accelerator that reach a backend's C++."""
    refused: int = 0
    """How often there was no memory."""

    def note_types(self, name: str, tensors: Iterable[torch.Tensor]) -> None:
        known = self.types.setdefault(name, [])
        known += sorted({str(one.dtype).removeprefix("torch.") for one in tensors}.difference(known))

    def write(self, path: str, peaks: dict[int, int]) -> None:
        """A JSON object of all that, and the most bytes that each device held."""
        found = {**vars(self), "peaks": peaks}
        Path(path).write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")


SETTINGS = Settings(**json.loads(os.environ.get("FAKE_NPU", "{}")))
SEEN = Seen()
