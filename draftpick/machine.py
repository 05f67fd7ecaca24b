"""What is installed and attached here, looked at side by side: nothing of it may hang or end the process that asks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

from draftpick import ascend, devices
from draftpick.devices import Chip, Told

IMPORT_S = 30.0
"""For torch to be imported, and its devices to be looked at; with a cold disk and eight NPUs it takes some ten."""
REACH_S = 2.5
_ANSWER_BYTES = 65_536
PACKAGES = (
    "torch",
    "torch_npu",
    "transformers",
    "accelerate",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "modelscope",
    "vllm",
    "vllm-ascend",
    "triton-ascend",
    "sglang",
)
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@dataclass(frozen=True)
class TorchLook:
    """How far a process came that imported torch, and what it saw; None is what it did not come to."""

    step: str
    """The last that it told of."""
    problem: str
    """What ended it before its time, as a clause; empty where it ended by itself."""
    seconds: float
    version: str | None = None
    cuda: str | None = None
    """The CUDA that torch was built with."""
    error: str | None = None
    """What importing torch, or looking at its devices, raised."""
    kind: str | None = None
    count: int | None = None
    name: str | None = None
    memory_bytes: int | None = None
    transformers_npu: bool | None = None
    transformers_error: str | None = None

    @property
    def imported(self) -> bool:
        return self.version is not None


class Reached(NamedTuple):
    """What a server answered."""

    status: int | None
    """Of HTTP; None where none came."""
    problem: str = ""
    """Why none came, as a clause."""
    is_json: bool = False


class Machine(NamedTuple):
    """All that the checks look at."""

    offline: str | None
    """Why no server is asked; None where servers are asked."""
    versions: Mapping[str, str]
    """Of installed packages, by the names of PACKAGES."""
    torch: TorchLook | None
    """Imported as everybody does; None where it is not installed."""
    torch_alone: TorchLook | None
    """Without torch_npu; None where that is not installed."""
    tools: Mapping[str, Told]
    """What npu-smi and nvidia-smi answered, by the kind of device."""
    chips: Mapping[str, list[Chip]]
    """Those that torch may use, by kind; all that their tool shows where the environment leaves none of them."""
    lacks_cann: bool
    """torch_npu is installed, and its libraries do not load."""
    cann: ascend.Cann | None
    driver: str | None
    npu_nodes: Sequence[str]
    """The nodes of NPUs in /dev: davinci0 and so on."""
    npus_on_bus: int
    """NPUs that the PCI bus shows; a container sees those of its host."""
    hub: Reached | None
    """None where it was not asked."""
    modelscope: Reached | None

    @property
    def has_hidden_npus(self) -> bool:
        """Whether NPUs are here that nobody can look at: their tool is missing, as in a container without mounts."""
        return self.tools["npu"].missing and bool(self.npu_nodes or self.npus_on_bus)

    @property
    def is_cpu_alone(self) -> bool:
        """Whether there is no sign of an accelerator."""
        tools = all(self.tools[kind].missing for kind in ("npu", "cuda"))
        return tools and not (self.chips or self.npu_nodes or self.npus_on_bus)

    @property
    def has_npu_software(self) -> bool:
        """Whether somebody meant to use NPUs here."""
        return bool(self.chips.get("npu") or "torch_npu" in self.versions or self.cann is not None or self.driver)


def look(offline: str | None, hub: str | None, modelscope: str | None) -> Machine:
    """Look at everything at once. `hub` and `modelscope` are addresses to ask; None: they are not asked."""
    versions = installed()
    jobs: dict[str, Callable[[], Any]] = {kind: partial(devices.ask_for, kind) for kind in devices.TOOLS}
    if "torch" in versions:
        jobs["torch"] = partial(_look_at_torch, alone=False)
    if "torch" in versions and "torch_npu" in versions:
        jobs["alone"] = partial(_look_at_torch, alone=True)
    if "torch_npu" in versions:
        jobs["lacks_cann"] = _lacks_cann
    if hub is not None:
        jobs["hub"] = partial(reach, hub)
    if modelscope is not None:
        jobs["modelscope"] = partial(reach, modelscope)
    found = _side_by_side(jobs)
    tools = {kind: found[kind] for kind in devices.TOOLS}
    shown = {kind: seen for kind, told in tools.items() if (seen := devices.chips_in(kind, told.answer))}
    return Machine(
        offline=offline,
        versions=versions,
        torch=found.get("torch"),
        torch_alone=found.get("alone"),
        tools=tools,
        chips={kind: devices.visible(seen) or seen for kind, seen in shown.items()},
        lacks_cann=found.get("lacks_cann", False),
        cann=ascend.cann(),
        driver=ascend.driver_version() or devices.driver_in(tools["npu"].answer),
        npu_nodes=ascend.nodes(),
        npus_on_bus=ascend.on_the_bus(),
        hub=found.get("hub"),
        modelscope=found.get("modelscope"),
    )


def installed() -> dict[str, str]:
    """The versions of the packages that matter, as their metadata say; nothing is imported."""
    from importlib import metadata
    from importlib.util import find_spec

    found = {}
    for name in PACKAGES:
        try:
            found[name] = str(metadata.version(name))
        except metadata.PackageNotFoundError:
            # A build that was only put on the path has no metadata.
            if name in ("torch", "torch_npu") and find_spec(name) is not None:
                found[name] = "?"
    return found


def _side_by_side(jobs: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each job gives; they bound their own time, and none raises."""
    from threading import Thread

    found: dict[str, Any] = {}

    def run(name: str, job: Callable[[], Any]) -> None:
        found[name] = job()

    threads = [Thread(target=run, args=one, daemon=True) for one in jobs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# ---------------------------------------------------------------------- torch


def _look_at_torch(alone: bool) -> TorchLook:
    began = time.monotonic()
    told = devices.ask(sys.executable, "-m", "draftpick.torch_look", *(["alone"] if alone else []), timeout=IMPORT_S)
    known = {field.name for field in fields(TorchLook)}
    said: dict[str, Any] = {"step": "started"}
    for line in told.text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:  # what a plug-in of torch prints
            continue
        if isinstance(value, dict) and "step" in value:
            said |= {key: part for key, part in value.items() if key in known}
    return TorchLook(**{**said, "problem": told.problem, "seconds": time.monotonic() - began})


def _lacks_cann() -> bool:
    """Whether CANN's libraries load, in a process of its own: loading them runs their code."""
    script = "from draftpick.ascend import lacks_cann; print(lacks_cann())"
    return devices.ask(sys.executable, "-c", script).answer.strip() != "False"


# ---------------------------------------------------------------------- servers


def reach(address: str) -> Reached:
    """What a server answers to GET, within REACH_S, looking up its name included; never raises."""
    from queue import Empty, Queue
    from threading import Thread

    answers: Queue[Reached] = Queue()
    Thread(target=lambda: answers.put(_get(address)), daemon=True).start()
    try:
        return answers.get(timeout=REACH_S)
    except Empty:
        return _silent()


def _silent() -> Reached:
    return Reached(None, f"gave no answer in {REACH_S:g} s")


def _get(address: str) -> Reached:
    import urllib.error
    import urllib.request

    from draftpick import __version__

    request = urllib.request.Request(address, headers={"User-Agent": f"draftpick/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=REACH_S) as response:
            content = response.read(_ANSWER_BYTES)
            return Reached(response.status, is_json=content.lstrip()[:1] in (b"[", b"{"))
    except urllib.error.HTTPError as error:
        return Reached(error.code)
    except Exception as error:  # http.client and ssl have errors of their own
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return _silent()
        said = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
        return Reached(None, f"cannot be reached: {said:.120}")


def proxy_for(scheme: str) -> str | None:
    """The proxy that requests go through, without the password that may stand in it."""
    found = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
    return found.rpartition("@")[2] if found else None
