"""Tensors whose device is an NPU and whose numbers lie on the CPU, and what an operation on them does.

An operation for which torch_npu has a kernel (kernels.txt) runs as one. Others are taken apart as torch takes them
apart for such a device, so that what is counted is what the device would be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_npu.memory import LEDGERS
from torch_npu.settings import SEEN, SETTINGS

CPU = torch.device("cpu")
KERNELS = frozenset((Path(__file__).parent / "kernels.txt").read_text(encoding="utf-8").split())
MIXING = ("copy_", "_to_copy", "index.Tensor", "index_put", "_index_put_impl_", "set_")
"""Operations that may take tensors of the CPU beside those of a device."""
COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
"""Dispatch keys of what torch builds of other operations where a device has no kernel, in the order of its choice."""
VIEWS = ("_unsafe_view", "alias", "detach")
"""Of these torch itself makes a new tensor over the same storage, on every device."""
LOST = """synchronize:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:479 NPU function error: \
AclrtSynchronizeDeviceWithTimeout, error code is 507010
[ERROR] 2026-01-01-00:00:00 (PID:1, Device:0, RankID:-1) ERR00100 PTA call acl api failed
[Error]: The task scheduler of the device has lost its heartbeat.
        Rectify the fault based on the error information in the ascend log.
EE9999: Inner Error!
EE9999: [PID: 1] Device[0] lost heartbeat."""

current = 0
"""The device that is meant where none is named."""


class NpuTensor(torch.Tensor):
    """Size, strides and device are its own; the numbers are those of `data_on_cpu`."""

    data_on_cpu: torch.Tensor

    @staticmethod
    def __new__(cls, data: torch.Tensor, index: int, requires_grad: bool = False) -> NpuTensor:
        made: NpuTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            data.size(),
            strides=data.stride(),
            storage_offset=data.storage_offset(),
            dtype=data.dtype,
            layout=data.layout,
            device=torch.device("npu", index),
            requires_grad=requires_grad,
        )
        made.data_on_cpu = data
        LEDGERS[index].hold(made, data)
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return run(func, args, kwargs or {})

    def tolist(self) -> Any:
        """torch copies to the host first, but refuses to for subclasses."""
        return self.cpu().tolist()

    def __repr__(self) -> str:
        return f"{self.data_on_cpu!r} on {self.device}"


class _Plan(NamedTuple):
    """What is known of an operation."""

    name: str
    taken_apart: Any
    """The dispatch key whose kernel takes it apart; None where it runs as one."""
    falls_back: bool
    written: tuple[tuple[int, str], ...]
    """Arguments that it writes."""


_plans: dict[Any, _Plan] = {}


def _plan(func: Any) -> _Plan:
    if func not in _plans:
        name = func.name().removeprefix("aten::")
        written = tuple(
            (place, one.name)
            for place, one in enumerate(func._schema.arguments)
            if one.alias_info is not None and one.alias_info.is_write
        )
        keys = COMPOSITES if name not in KERNELS else ()
        found = [key for key in keys if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)]
        apart = getattr(torch._C.DispatchKey, found[0]) if found and name not in VIEWS else None
        _plans[func] = _Plan(name, apart, name not in KERNELS and not found, written)
    return _plans[func]


def run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operation with at least one tensor of a device."""
    plan = _plan(func)
    if plan.taken_apart is not None:
        return func._op_dk(plan.taken_apart, *args, **kwargs)
    return compute(func, args, kwargs)


def compute(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """One kernel: count it, compute on the CPU, and wrap what comes out."""
    plan = _plan(func)
    check_alive()
    tensors = list(_tensors([*args, *kwargs.values()]))
    index = _index(plan, tensors, kwargs)
    if index is not None:
        SEEN.operations[plan.name] += 1
        if plan.falls_back:
            SEEN.fallbacks[plan.name] += 1
    bare = _map([*args], _unwrapped), {name: _map(value, _unwrapped) for name, value in kwargs.items()}
    bare[1].pop("pin_memory", None)
    out = func(*bare[0], **bare[1])
    if index is not None:
        SEEN.note_types(plan.name, [*tensors, *_tensors([out])])
    if index is None:
        return args[0] if plan.name == "copy_" else out
    same = {}
    for place, name in plan.written:
        given = args[place] if place < len(args) else kwargs.get(name)
        same.update({id(one.data_on_cpu): one for one in _tensors([given]) if isinstance(one, NpuTensor)})

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, NpuTensor):
            return value
        return same[id(value)] if id(value) in same else NpuTensor(value, index)

    # A view of a tensor made outside of inference mode shares that tensor's version: it is no inference tensor.
    inference = torch.is_inference_mode_enabled() and all(one.is_inference() for one in tensors)
    with torch.inference_mode(inference):
        return _map(out, wrapped)


def check_alive() -> None:
    """Raise what torch_npu raises where the device was lost."""
    if SETTINGS.lost_after is not None and sum(SEEN.operations.values()) >= SETTINGS.lost_after:
        raise RuntimeError(LOST)


def _index(plan: _Plan, tensors: Sequence[torch.Tensor], kwargs: Mapping[str, Any]) -> int | None:
    """The device that computes; None: the result lies on the CPU. Raises RuntimeError for tensors of two devices."""
    asked = kwargs.get("device")
    if plan.name == "copy_":
        return tensors[0].device.index if isinstance(tensors[0], NpuTensor) else None
    if asked is not None:
        asked = torch.device(asked)
        return None if asked.type != "npu" else asked.index if asked.index is not None else current
    # A number in a tensor of the CPU goes with every device.
    devices = {one.device for one in tensors if isinstance(one, NpuTensor) or one.dim() > 0}
    if len(devices) > 1 and not (plan.name.startswith(MIXING) and devices == {CPU, tensors[0].device}):
        found = " and ".join(sorted(map(str, devices), reverse=True))
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {found}! "
            f"(when checking arguments for {plan.name})"
        )
    return next((one.device.index for one in tensors if isinstance(one, NpuTensor)), current)


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, NpuTensor):
        return value.data_on_cpu
    return CPU if isinstance(value, torch.device) else value


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_map(one, change) for one in value)
    return change(value)


# Operations that torch's C++ calls below the Python dispatch, or that have no tensor of the device to be found by.
BELOW = (
    "empty.memory_format", "empty_strided", "copy_", "_to_copy", "detach", "alias", "view", "as_strided",
    "fill_.Scalar", "zero_", "_local_scalar_dense", "clone", "slice.Tensor", "select.int",
)  # fmt: skip


def register() -> list[torch.library.Library]:
    """Give torch kernels for the device. The libraries must be kept: what they hold goes with them."""
    others = torch.library.Library("_", "IMPL")
    others.fallback(lambda func, *args, **kwargs: compute(func, args, kwargs), "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for name in BELOW:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, packet), overload or "default")
        aten.impl(name, lambda *args, func=func, **kwargs: compute(func, args, kwargs), "PrivateUse1")
    return [others, aten]
