"""The memory of the devices, as a ledger: the bytes of the storages that tensors of a device hold."""

from __future__ import annotations

import weakref
from collections import defaultdict

import torch

from torch_npu.settings import SEEN, SETTINGS

_GIB = 2**30


class Ledger:
    """Live and most bytes of one device. A storage counts once, however many views it has."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.live = self.most = 0
        self._holders: dict[int, list[int]] = {}
        self._watched: dict[weakref.ref[torch.Tensor], int] = {}

    def hold(self, tensor: torch.Tensor, data: torch.Tensor) -> None:
        """Count the storage of `data` while `tensor` lives. Raises what torch_npu raises where there is no room."""
        storage = data.untyped_storage()
        key = storage._cdata
        if key in self._holders:
            self._holders[key][1] += 1
        else:
            size = storage.nbytes()
            if self.live + size > SETTINGS.capacity:
                SEEN.refused += 1
                raise self._full(size)
            self._holders[key] = [size, 1]
            self.live += size
            self.most = max(self.most, self.live)
        self._watched[weakref.ref(tensor, self._gone)] = key

    def _gone(self, reference: weakref.ref[torch.Tensor]) -> None:
        key = self._watched.pop(reference)
        holder = self._holders[key]
        holder[1] -= 1
        if holder[1] == 0:
            self.live -= holder[0]
            del self._holders[key]

    def _full(self, size: int) -> Exception:
        held = self.live / _GIB
        said = (
            f"NPU out of memory. Tried to allocate {size / 2**20:.2f} MiB (NPU {self.index}; "
            f"{SETTINGS.capacity / _GIB:.2f} GiB total capacity; {held:.2f} GiB already allocated; "
            f"{held:.2f} GiB current active; {(SETTINGS.capacity - self.live) / 2**20:.2f} MiB free; "
            f"{held:.2f} GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
            "max_split_size_mb to avoid fragmentation."
        )
        return torch.OutOfMemoryError(said) if SETTINGS.spelling == "OutOfMemoryError" else RuntimeError(said)


class _Ledgers(defaultdict[int, Ledger]):
    def __missing__(self, index: int) -> Ledger:
        self[index] = Ledger(index)
        return self[index]


LEDGERS = _Ledgers()
