"""What torch says of this machine, told from a process of its own: a driver may keep it for ever, or kill it.

`python -m draftpick.torch_look [alone]` prints a JSON object a line, each as soon as it is known; `alone` keeps
torch_npu out of it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from draftpick.ascend import has_torch_npu, hide_torch_npu


def main(alone: bool) -> None:
    """Import torch, then look at its devices, then at what transformers makes of them."""
    if sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]  # python -m put it there: a torch.py that happens to lie here is not torch
    npu = has_torch_npu()
    if alone:
        hide_torch_npu()
    _tell("imports torch")
    try:
        import torch
    except Exception as error:
        _tell("failed to import torch", error=_said(error))
        return
    _tell("imported torch", version=str(torch.__version__), cuda=torch.version.cuda)
    try:
        _tell("looked at its devices", **_devices(torch))
    except Exception as error:
        _tell("failed to look at its devices", error=_said(error))
    if not npu or alone:
        return
    try:
        from transformers.utils import is_torch_npu_available

        _tell("asked transformers", transformers_npu=bool(is_torch_npu_available()))
    except Exception as error:
        _tell("failed to ask transformers", transformers_error=_said(error))


def _devices(torch: Any) -> dict[str, Any]:
    """Kind and number of the accelerators, and the name and memory of the first; a CPU has neither."""
    if not hasattr(torch, "accelerator") or not torch.accelerator.is_available():
        return {"kind": "cpu", "count": 0}
    kind = torch.accelerator.current_accelerator().type
    found: dict[str, Any] = {"kind": kind, "count": torch.accelerator.device_count()}
    module: Any = getattr(torch, kind, None)
    if hasattr(module, "get_device_name"):
        found["name"] = str(module.get_device_name(0))
    if hasattr(module, "get_device_properties"):
        found["memory_bytes"] = getattr(module.get_device_properties(0), "total_memory", None)
    return found


def _said(error: BaseException) -> str:
    """The first line of an error and of what caused it."""
    parts = [error, *([error.__cause__] if error.__cause__ is not None else [])]
    lines = ((str(part).strip().splitlines() or [type(part).__name__])[0] for part in parts)
    return "; ".join(line[:200].rstrip(".") for line in lines)


def _tell(step: str, **said: Any) -> None:
    print(json.dumps({"step": step, **said}), flush=True)


if __name__ == "__main__":
    main("alone" in sys.argv[1:])
