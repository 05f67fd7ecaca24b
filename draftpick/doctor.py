"""Whether this machine is ready: each check is a small function of the table CHECKS, and says how to mend things.

A check that fails is something that is installed or set here and does not work. What is merely absent, as an
accelerator or a network, is a warning at most: facts and a CPU need neither.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple

from draftpick import __version__, ascend, devices
from draftpick.catalog import Catalog, Record, load
from draftpick.choices import DOCTOR
from draftpick.devices import Chip
from draftpick.errors import DraftpickError, UsageError
from draftpick.machine import OFFLINE, Machine, Reached, TorchLook, look, proxy_for
from draftpick.models.caches import hugging_face_cache, modelscope_caches
from draftpick.pair import Device

Verdict = Literal["ok", "warn", "fail"]

HUB = "https://huggingface.co"
MODELSCOPE = "www.modelscope.cn"
_GIB = 2**30


class Line(NamedTuple):
    """What one check found."""

    check: str
    verdict: Verdict
    text: str
    mend: str = ""
    """What to do about it; empty where nothing needs to be done."""


class Found(NamedTuple):
    """A whole examination."""

    lines: Sequence[Line]
    machine: Machine
    rows: Mapping[str, str]
    """Device of this machine, as npu:0 → key of its row in the catalogue."""

    @property
    def exit_code(self) -> int:
        """1: something fails; else 0."""
        return 1 if any(line.verdict == "fail" for line in self.lines) else 0


class Case(NamedTuple):
    """What a check looks at."""

    machine: Machine
    catalog: Catalog | None
    """None where an overlay keeps it from being read."""
    overlay: Path | None


def examine(*, offline: bool, overlay: Path | None) -> Found:
    """Look at this machine and run every check. Servers are asked unless `offline`, or the environment forbids it."""
    why = "--offline" if offline else next((f"{name} is set" for name in OFFLINE if _is_on(name)), None)
    hub = f"{_endpoint()}/api/models?limit=1" if why is None and _is_address(_endpoint()) else None
    domain = _modelscope_domain()
    asks = why is None and domain is not None and _is_domain(domain)
    machine = look(why, hub, f"https://{domain}/" if asks else None)
    case = Case(machine, _catalog(overlay), overlay)
    lines = [line for check in CHECKS for line in check(case)]
    rows = {f"{chip.kind}:{chip.index}": row.key for chip, row in _rows(case) if row is not None}
    return Found(lines, machine, rows)


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on")


def _catalog(overlay: Path | None) -> Catalog | None:
    try:
        return load(overlay)
    except DraftpickError:
        return None


# ---------------------------------------------------------------------- Python and draftpick


def _python(case: Case) -> Iterator[Line]:
    import platform

    yield Line("Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _draftpick(case: Case) -> Iterator[Line]:
    try:
        dated = load(case.overlay).date
    except DraftpickError as error:
        yield Line("draftpick", "fail", f"{__version__}; its catalogue cannot be read: {error.message}", error.hint)
        return
    text = f"{__version__}, catalogue of {dated}"
    age = (date.today() - date.fromisoformat(dated)).days if dated else 0
    if age > DOCTOR["old-catalogue"]:
        yield Line(
            "draftpick",
            "warn",
            f"{text}, {age} days old: models and engines that came since are unknown",
            "pip install --upgrade draftpick, or add models of your own with `draftpick catalog add`",
        )
    else:
        yield Line("draftpick", "ok", text)


# ---------------------------------------------------------------------- torch and transformers


def _torch(case: Case) -> Iterator[Line]:
    machine = case.machine
    seen = machine.torch
    if seen is None:
        yield Line(
            "torch",
            "warn",
            "not installed: nothing can be measured, all else works",
            f"to measure, {_install_torch(machine)}, then: pip install 'draftpick[probe]'",
        )
    elif not seen.imported:
        yield _broken_torch(machine, seen)
    elif seen.problem or seen.error:
        what = f"it {seen.problem}" if seen.problem else seen.error
        yield Line(
            "torch",
            "fail",
            f"{seen.version} is imported, but looking at its devices: {what}",
            "a driver that hangs or fails: see the device's own tool; `--device cpu` measures without it",
        )
    elif () < _number(seen.version) < (2, 7):
        yield Line("torch", "fail", f"{seen.version} is too old to measure with", "take torch 2.7 or later")
    else:
        here = f"{seen.count} × {seen.kind} ({seen.name or 'no name'})" if seen.count else "no accelerator, the CPU"
        yield Line("torch", "ok", f"{seen.version}, imported in {seen.seconds:.1f} s; it sees {here}")


def _install_torch(machine: Machine) -> str:
    """How torch is to be had for what is here."""
    if machine.chips.get("npu") or "torch_npu" in machine.versions:
        return "install torch and torch_npu as the line of torch_npu below says"
    if machine.is_cpu_alone:
        return f"{devices.CPU_TORCH} (the CPU build, for no accelerator was found)"
    return "install the build of torch for this device"


def _broken_torch(machine: Machine, seen: TorchLook) -> Line:
    version = machine.versions["torch"]
    what = f"{version}: import torch {seen.problem or 'raises'}" + (f": {seen.error}" if seen.error else "")
    alone = machine.torch_alone
    if alone is not None and alone.imported:
        what += "; without torch_npu it is imported"
        if machine.lacks_cann:
            return Line("torch", "fail", what, f"{_source_cann(machine)}; {_WITHOUT_NPU}")
        return Line("torch", "fail", what, f"mend torch_npu, see below, or leave it out: {_WITHOUT_NPU}")
    return Line(
        "torch",
        "fail",
        what,
        "install the build of torch for this device and this Python anew: pip install --force-reinstall torch"
        + (f" (for a CPU {devices.CPU_TORCH.partition('torch ')[2]})" if machine.is_cpu_alone else ""),
    )


_WITHOUT_NPU = (
    f"without NPUs, pip uninstall torch-npu, or export {ascend.AUTOLOAD}=0 (draftpick does so for itself, and measures "
    "on the CPU)"
)


def _source_cann(machine: Machine) -> str:
    if machine.cann is None:
        return "with NPUs, install CANN and source its set_env.sh"
    return f"with NPUs, source {machine.cann.set_env}"


def _transformers(case: Case) -> Iterator[Line]:
    machine = case.machine
    version = machine.versions.get("transformers")
    if version is None:
        if machine.torch is not None:
            yield Line(
                "transformers",
                "warn",
                "not installed: nothing can be measured",
                "pip install 'draftpick[probe]'",
            )
        return
    look_ = machine.torch
    if () < _number(version) < (5,):
        yield Line("transformers", "warn", f"{version} is older than the probe takes", "pip install 'transformers>=5'")
    elif machine.lacks_cann:
        yield Line(
            "transformers",
            "warn",
            f"{version}: its model classes cannot be imported while torch_npu is found and CANN is not; draftpick "
            "keeps torch_npu from it",
            "as for torch",
        )
    elif look_ is not None and look_.transformers_error:
        yield Line(
            "transformers",
            "fail",
            f"{version}: asking it for the NPU raises: {look_.transformers_error}",
            "take a transformers that fits torch and torch_npu, see the lines below",
        )
    elif look_ is not None and look_.transformers_npu is not None:
        seen = "sees the NPU" if look_.transformers_npu else "sees no NPU"
        yield Line("transformers", "ok", f"{version}; it {seen}")
    else:
        yield Line("transformers", "ok", version)


# ---------------------------------------------------------------------- the Ascend software


def _torch_npu(case: Case) -> Iterator[Line]:
    machine = case.machine
    version = machine.versions.get("torch_npu")
    npus = machine.chips.get("npu", [])
    if version is None:
        if npus:
            yield Line(
                "torch_npu",
                "warn",
                f"not installed, and npu-smi shows {len(npus)}: a probe measures on the CPU",
                _install_npu_packages(case),
            )
        return
    row = _npu_row(case, version)
    wrong = [*_against_torch(machine, version, row), *_against_python(row, f"torch_npu {version}")]
    known = f"{version}, for CANN {row['cann']}" if row is not None and "cann" in row else version
    if wrong:
        yield Line("torch_npu", "fail", f"{version} {'; '.join(wrong)}", _install_npu_packages(case))
    elif machine.torch is not None and machine.torch.imported and machine.torch.kind != "npu" and npus:
        yield _unseen_npus(machine, version, len(npus))
    elif row is None:
        yield Line("torch_npu", "ok", f"{version}, which draftpick's table does not have: nothing is compared with it")
    else:
        yield Line("torch_npu", "ok", known)


def _unseen_npus(machine: Machine, version: str, count: int) -> Line:
    what = f"{version}: npu-smi shows {count} and torch sees none"
    listed = os.environ.get(devices.VISIBLE)
    if os.environ.get(ascend.AUTOLOAD) == "0":
        return Line("torch_npu", "warn", f"{what}, as {ascend.AUTOLOAD} is 0", f"unset {ascend.AUTOLOAD}")
    if listed is not None:
        hint = "list numbers of NPUs in ascending order, or unset it"
        return Line("torch_npu", "fail", f"{what}: {devices.VISIBLE} is {listed[:40]!r}", hint)
    return Line("torch_npu", "fail", what, f"{_source_cann(machine)}, and compare the versions below")


def _npu_row(case: Case, version: str) -> Record | None:
    """The row of a release, whatever build it is."""
    plain = version.partition("+")[0]
    rows = case.catalog.ascend_versions["torch_npu"] if case.catalog is not None else []
    return next((row for row in rows if row["version"] == plain), None)


def _against_torch(machine: Machine, version: str, row: Record | None) -> Iterator[str]:
    torch = machine.versions.get("torch")
    if torch is None:
        yield "is here without torch"
        return
    wanted = row["torch"] if row is not None else version
    if _number(torch)[:2] != _number(wanted)[:2]:
        yield f"is made for torch {'.'.join(map(str, _number(wanted)[:2]))}, and torch is {torch}"
    if _is_for_cuda(machine):
        yield f"cannot be used with a build of torch for CUDA ({torch}): two accelerators exclude each other"


def _is_for_cuda(machine: Machine) -> bool:
    looks = [one for one in (machine.torch, machine.torch_alone) if one is not None and one.cuda]
    return bool(looks) or "+cu" in machine.versions.get("torch", "")


def _against_python(row: Record | None, what: str) -> Iterator[str]:
    import platform

    here = _number(platform.python_version())[:2]
    if row is None:
        return
    low, high = row.get("python_min"), row.get("python_max")
    if (low and here < _number(low)) or (high and here > _number(high)):
        span = f"{low} to {high}" if low and high else f"up to {high}" if high else f"{low} or later"
        yield f"is made for Python {span}, and this is {'.'.join(map(str, here))}"


def _proposed(case: Case) -> Record | None:
    """The newest torch_npu for the CANN that is here, or else the newest that the table has a CANN for."""
    rows = case.catalog.ascend_versions["torch_npu"] if case.catalog is not None else []
    cann = case.machine.cann.version if case.machine.cann is not None else None
    fits = (row for row in rows if "cann" in row and (cann is None or _number(row["cann"])[:2] == _number(cann)[:2]))
    return next(fits, None)


def _install_npu_packages(case: Case) -> str:
    """How to get the torch and torch_npu that are proposed: torch first, for torch_npu would take PyPI's, with CUDA."""
    row = _proposed(case)
    if row is None:
        return "install torch, its CPU build, and torch_npu of the releases that Ascend/pytorch names for your CANN"
    # pip takes a build for CUDA of the same release to be what was asked for.
    before = "pip uninstall -y torch && " if _is_for_cuda(case.machine) else ""
    return f"{before}{_cpu_torch(row['torch'])} && pip install torch-npu=={row['version']}"


def _cpu_torch(version: str) -> str:
    return devices.CPU_TORCH.replace("install torch ", f"install torch=={version} ")


def _cann(case: Case) -> Iterator[Line]:
    machine = case.machine
    if not machine.has_npu_software:
        return
    cann, version = machine.cann, machine.versions.get("torch_npu")
    row = _npu_row(case, version) if version is not None else _proposed(case)
    wanted = row.get("cann") if row is not None else None
    install = f"install CANN {wanted or 'of the release that torch_npu names'} and source its set_env.sh"
    if cann is None:
        verdict: Verdict = "fail" if machine.lacks_cann else "warn"
        yield Line("CANN", verdict, f"not found in {ascend.ROOT} or where {ascend.VARIABLES[0]} points", install)
        return
    shown = f"{cann.version or 'of unknown version'} in {cann.folder}"
    if machine.lacks_cann or not cann.sourced:
        verdict = "fail" if machine.lacks_cann else "warn"
        what = "its libraries are not on the loader's path" if machine.lacks_cann else "its variables are not set"
        yield Line("CANN", verdict, f"{shown}: {what}", f"source {cann.set_env}")
    elif cann.version and wanted and _number(cann.version)[:2] != _number(wanted)[:2]:
        age = "older" if _number(cann.version)[:2] < _number(wanted)[:2] else "newer"
        yield Line(
            "CANN",
            "warn",
            f"{shown} is {age} than torch_npu {version} was released with: {wanted}",
            f"install CANN {wanted}, or {_install_npu_packages(case)}",
        )
    else:
        yield Line("CANN", "ok", shown)


def _driver(case: Case) -> Iterator[Line]:
    machine = case.machine
    told = machine.tools["npu"]
    if machine.driver is not None:
        yield Line("NPU driver", "ok", machine.driver)
    elif machine.has_npu_software or not told.missing:
        yield Line(
            "NPU driver",
            "warn",
            f"not found: neither {ascend.ROOT}/driver/version.info nor npu-smi names a version",
            "install driver and firmware of your board; in a container mount /usr/local/Ascend/driver",
        )


# ---------------------------------------------------------------------- devices


def _tools(case: Case) -> Iterator[Line]:
    machine = case.machine
    npu, nvidia = machine.tools["npu"], machine.tools["cuda"]
    if npu.problem and not npu.missing:
        yield Line("npu-smi", "fail", npu.problem, _MEND_NPU_SMI)
    elif npu.missing and machine.has_npu_software:
        yield Line(
            "npu-smi",
            "warn",
            "is not on the PATH: nobody can say which NPUs are here and how full they are",
            "in a container mount /usr/local/bin/npu-smi and /usr/local/dcmi; else install the driver",
        )
    elif npu.text and not machine.chips.get("npu"):
        yield Line(
            "npu-smi",
            "warn",
            "shows no NPU, or a table that draftpick cannot read",
            "look at `npu-smi info`: where it shows NPUs, report its output to draftpick's makers",
        )
    if nvidia.problem and not nvidia.missing:
        yield Line("nvidia-smi", "warn", nvidia.problem, "install the driver, or start the container with its GPUs")


_MEND_NPU_SMI = (
    "run `npu-smi info` yourself: it needs the driver, the rights to /dev/davinci* (group HwHiAiUser) and, in a "
    "container, /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc; if it hangs, restart the board"
)


def _rows(case: Case) -> Iterator[tuple[Chip, Device | None]]:
    """Every chip with its row of the catalogue, where it has one."""
    for chips in case.machine.chips.values():
        for chip in chips:
            try:
                row = case.catalog.device_seen(chip.name, chip.memory_bytes) if case.catalog is not None else None
            except UsageError:
                row = None
            yield chip, row


def _devices(case: Case) -> Iterator[Line]:
    groups: dict[tuple[str, str, str | None], list[Chip]] = {}
    rows = dict(_rows(case))
    for chip, row in rows.items():
        groups.setdefault((chip.kind, chip.name, row.key if row is not None else None), []).append(chip)
    if case.machine.has_hidden_npus:
        yield _hidden_npus(case.machine)
    elif not groups:
        yield Line("devices", "ok", "no accelerator: the CPU")
    for (kind, name, key), chips in groups.items():
        text = f"{len(chips)} × {kind}: {name}" + (f", {_memory(chips)}" if _memory(chips) else "")
        if key is None:
            yield Line(
                "devices",
                "warn",
                f"{text}, which the catalogue does not tell from others or does not have",
                "name the nearest with --device (`draftpick catalog list --kind devices`), --memory and --bandwidth",
            )
        else:
            yield Line("devices", "ok", f"{text}; --device {key}")
        row = rows[chips[0]]
        if row is not None and row.bf16 is False:
            yield Line(
                "devices",
                "warn",
                f"{key} has no bfloat16: the probe takes float16 there",
                "give engines --dtype float16, and --dtype float16 to recommend",
            )


def _hidden_npus(machine: Machine) -> Line:
    """NPUs that are known by a trace alone: by nodes in /dev, or on the bus."""
    nodes = machine.npu_nodes
    mend = "in a container mount /usr/local/bin/npu-smi, /usr/local/dcmi, /usr/local/Ascend/driver and "
    mend += "/etc/ascend_install.info"
    if nodes:
        span = f"/dev/{nodes[0]}" + (f" to {nodes[-1]}" if len(nodes) > 1 else "")
        what = (
            f"{span} {'are' if len(nodes) > 1 else 'is'} here, and npu-smi is not: nobody can say which NPUs they are"
        )
        return Line("devices", "warn", what, f"{mend}; else install the driver, and put npu-smi on the PATH")
    what = (
        f"{machine.npus_on_bus} × npu on the PCI bus, but neither /dev/davinci* nor npu-smi: only the CPU can be used"
    )
    hand_in = "and hand in /dev/davinci0 (and so on), /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc"
    return Line("devices", "warn", what, f"{mend}, {hand_in}; else install driver and firmware of your board")


def _memory(chips: Sequence[Chip]) -> str:
    """Free and total memory of devices of one kind."""
    free = [chip.total_mb - chip.used_mb for chip in chips if chip.total_mb is not None and chip.used_mb is not None]
    total = next((chip.total_mb for chip in chips if chip.total_mb), None)
    if not free or total is None:
        return ""
    low, high = min(free) / 1024, max(free) / 1024
    span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    return f"{span} of {total / 1024:.1f} GiB free"


def _states(case: Case) -> Iterator[Line]:
    """Devices that are not well, or full."""
    for chips in case.machine.chips.values():
        full = [chip for chip in chips if chip.total_mb and chip.used_mb is not None and _is_full(chip)]
        ill = [chip for chip in chips if chip.health not in (None, "OK", "NA")]
        for chip in ill:
            verdict: Verdict = "fail" if str(chip.health).lower() in ("alarm", "critical") else "warn"
            yield Line(
                f"{chip.kind}:{chip.index}",
                verdict,
                f"{chip.name}: health is {str(chip.health)[:40]}",
                "see `npu-smi info -t health` for its NPU id, and take another device",
            )
        free = [chip for chip in chips if chip not in full and chip not in ill]
        for chip in full:
            yield Line(
                f"{chip.kind}:{chip.index}",
                "warn",
                f"{chip.name}: {_memory([chip])}, others use it",
                f"take --device {free[0].kind}:{free[0].index}" if free else "stop what uses it, or wait",
            )


def _is_full(chip: Chip) -> bool:
    assert chip.total_mb is not None
    assert chip.used_mb is not None
    return chip.total_mb - chip.used_mb < DOCTOR["full-device"] * chip.total_mb


# ---------------------------------------------------------------------- engines


def _engines(case: Case) -> Iterator[Line]:
    versions, machine = case.machine.versions, case.machine
    plugin = versions.get("vllm-ascend")
    if "vllm" in versions:
        on_npu = machine.chips.get("npu") or "torch_npu" in versions
        if on_npu and plugin is None:
            yield Line(
                "vllm",
                "warn",
                f"{versions['vllm']}: it cannot use NPUs without its plug-in vllm-ascend",
                f"pip install vllm-ascend=={_plain(versions['vllm'])}, in the environment that its page names",
            )
        else:
            yield Line("vllm", "ok", versions["vllm"])
    if plugin is not None:
        yield _vllm_ascend(case, plugin)
    if "sglang" in versions:
        yield Line("sglang", "ok", versions["sglang"])
    if not {"vllm", "vllm-ascend", "sglang"} & versions.keys():
        yield Line("engines", "ok", "vllm, vllm-ascend and sglang are not installed here")


def _vllm_ascend(case: Case, version: str) -> Line:
    rows = case.catalog.ascend_versions["engine"] if case.catalog is not None else []
    row = next((row for row in rows if row["name"] == "vllm-ascend" and row["version"] == _plain(version)), None)
    if row is None:
        table = ", ".join(row["version"] for row in rows)
        return Line("vllm-ascend", "ok", f"{version}, which draftpick's table does not have ({table})")
    versions, cann = case.machine.versions, case.machine.cann
    here = {
        "vllm": (versions.get("vllm"), 3),
        "torch": (versions.get("torch"), 2),
        "torch_npu": (versions.get("torch_npu"), 3),
        "triton_ascend": (versions.get("triton-ascend"), 3),
        "cann": (cann.version if cann is not None else None, 2),
    }
    wrong = [
        f"is made for {_SPOKEN[name]} {row[name]}, and {f'this is {found}' if found else 'there is none'}"
        for name, (found, digits) in here.items()
        if name in row and (found is None or not _same(found, row[name], digits))
    ]
    wrong += _against_python(row, f"vllm-ascend {version}")
    if wrong:
        named = (("vllm", "vllm"), ("torch_npu", "torch-npu"))
        others = " ".join(f"{name}=={row[key]}" for key, name in named if key in row)
        commands = [_cpu_torch(row["torch"])] if "torch" in row else []
        commands += [f"pip install {others}"] if others else []
        cann_too = f", with CANN {row['cann']}" if "cann" in row else ""
        return Line("vllm-ascend", "warn", f"{version} {'; '.join(wrong)}", f"{' && '.join(commands)}{cann_too}")
    return Line("vllm-ascend", "ok", f"{version}, and what it is made for")


_SPOKEN = {"vllm": "vllm", "torch": "torch", "torch_npu": "torch_npu", "triton_ascend": "triton-ascend", "cann": "CANN"}


def _same(found: str, wanted: str, digits: int) -> bool:
    """Whether two releases are one as far as so many of their numbers; a post-release counts where all do."""
    if digits >= 3 and "post" in wanted:
        return found.partition("+")[0] == wanted
    return _number(found)[:digits] == _number(wanted)[:digits]


def _number(version: str | None) -> tuple[int, ...]:
    """The numbers of a release: 2.10.0.post4+cpu and 8.3.RC1 begin with (2, 10, 0) and (8, 3)."""
    found = re.match(r"\d{1,6}(\.\d{1,6})*", version or "", re.ASCII)
    return tuple(map(int, found[0].split("."))) if found else ()


def _plain(version: str) -> str:
    """A release without what a build adds: 0.23.0 of 0.23.0.post1."""
    return ".".join(map(str, _number(version)))


# ---------------------------------------------------------------------- hubs


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def _is_address(text: str) -> bool:
    return re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", text) is not None


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def _hub(case: Case) -> Iterator[Line]:
    machine, endpoint = case.machine, _endpoint()
    shown = _without_password(endpoint)[:100]
    if not _is_address(endpoint):
        yield Line(
            "hub",
            "fail",
            f"HF_ENDPOINT is {shown!r}, which is no address",
            f"write https://HOST, as {HUB}, or unset it",
        )
        return
    if machine.hub is None:
        yield Line("hub", "ok", f"{shown} is not asked: {machine.offline}")
        return
    through = f" through the proxy {proxy}" if (proxy := proxy_for(endpoint.partition(":")[0])) else ""
    named = "check HF_ENDPOINT" if os.environ.get("HF_ENDPOINT") else "set HF_ENDPOINT to a mirror that you may use"
    path = "check HTTPS_PROXY and NO_PROXY" if through else "check the network, or HTTPS_PROXY where you need one"
    yield _reached(
        "hub",
        f"{shown}{through}",
        machine.hub,
        f"{path}; {named}; or work offline with folders and caches (HF_HUB_OFFLINE=1)",
        speaks_json=True,
    )


def _reached(check: str, server: str, found: Reached, mend: str, *, speaks_json: bool) -> Line:
    if found.status is None:
        return Line(check, "warn", f"{server} {found.problem}", mend)
    if found.status in (401, 403, 407, 429):
        said = {401: "asks who you are", 403: "refuses", 407: "wants a password", 429: "has been asked too often"}
        return Line(check, "warn", f"{server} {said[found.status]} ({found.status})", f"`hf auth login`, or {mend}")
    if found.status != 200 or (speaks_json and not found.is_json):
        answer = f"{found.status}" if found.status != 200 else "a page"
        return Line(check, "warn", f"{server} answers as no hub does, with {answer}", mend)
    return Line(check, "ok", f"{server} answers")


def _modelscope_domain() -> str | None:
    """The server that ModelScope is asked at; None where nothing here uses ModelScope."""
    named = os.environ.get("MODELSCOPE_DOMAIN")
    if named:
        return named.strip()
    from importlib.util import find_spec

    return MODELSCOPE if _modelscope_base().is_dir() or find_spec("modelscope") is not None else None


def _is_domain(text: str) -> bool:
    return re.fullmatch(r"[\w.-]{1,253}(:\d{1,5})?", text, re.ASCII) is not None


def _modelscope(case: Case) -> Iterator[Line]:
    domain = _modelscope_domain()
    if domain is None:
        return
    if not _is_domain(domain):
        shown = _without_password(domain)[:100]
        yield Line(
            "ModelScope",
            "fail",
            f"MODELSCOPE_DOMAIN is {shown!r}, which is no name of a server",
            f"write the name alone, as {MODELSCOPE}, or unset it",
        )
    elif case.machine.modelscope is None:
        yield Line("ModelScope", "ok", f"{domain} is not asked: {case.machine.offline}")
    else:
        mend = "check the network and MODELSCOPE_DOMAIN; draftpick itself reads ModelScope's cache alone"
        yield _reached("ModelScope", domain, case.machine.modelscope, mend, speaks_json=False)


# ---------------------------------------------------------------------- caches and disks


def _modelscope_base() -> Path:
    return modelscope_caches()[-1]


def _caches(case: Case) -> Iterator[Line]:
    yield from _cache("cache of the hub", hugging_face_cache(), "HF_HOME")
    if _modelscope_domain() is not None:
        yield from _cache("cache of ModelScope", _modelscope_base(), "MODELSCOPE_CACHE")


def _cache(check: str, folder: Path, variable: str) -> Iterator[Line]:
    mend = f"set {variable} to a folder that you may write to"
    if str(folder).startswith("~"):
        yield Line(check, "warn", f"{folder}: this user has no home", mend)
        return
    try:
        exists, parent = folder.is_dir(), _nearest(folder)
        problem = _unwritable(parent)
        said = _size(folder) if exists else f"does not exist yet{'' if problem else ', and can be made'}"
    except OSError as error:
        yield Line(check, "fail", f"{folder}: {error.strerror or error}", mend)
        return
    if problem:
        yield Line(check, "fail", f"{folder} {said}; {parent} cannot be written: {problem}", mend)
    else:
        yield Line(check, "ok", f"{folder} {said}")


def _nearest(folder: Path) -> Path:
    """The folder, or the first above it that is there."""
    return next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path(folder.anchor or "."))


def _unwritable(folder: Path) -> str:
    """Why no file can be made in a folder; empty where one can. A file without a name is tried, and is gone at once."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _size(folder: Path) -> str:
    """What a folder holds, as far as can be counted in a moment."""
    import time

    end, size = time.monotonic() + DOCTOR["counting-time"], 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(root, name)).st_size
            if time.monotonic() > end:
                return f"holds more than {size / _GIB:.1f} GiB"
    return f"holds {size / _GIB:.1f} GiB"


def _disk(case: Case) -> Iterator[Line]:
    import shutil

    places = {"this folder": Path("."), "the hub's cache": hugging_face_cache()}
    seen: set[int] = set()
    for name, folder in places.items():
        try:
            nearest = _nearest(folder)
            device, free = nearest.stat().st_dev, shutil.disk_usage(nearest).free
        except OSError as error:
            yield Line("disk", "warn", f"{name}: {error.strerror or error}", "choose another folder")
            continue
        if device in seen:
            continue
        seen.add(device)
        text = f"{free / _GIB:.1f} GiB free for {name}"
        mend = "free some space, or set HF_HOME to a larger disk" if name != "this folder" else "free some space"
        if free < DOCTOR["full-disk"]:
            yield Line("disk", "fail", text, mend)
        elif free < DOCTOR["low-disk"]:
            yield Line("disk", "warn", f"{text}: little for the weights of a target", mend)
        else:
            yield Line("disk", "ok", text)


CHECKS: tuple[Callable[[Case], Iterator[Line]], ...] = (
    _python,
    _draftpick,
    _torch,
    _transformers,
    _torch_npu,
    _cann,
    _driver,
    _tools,
    _devices,
    _states,
    _engines,
    _hub,
    _modelscope,
    _caches,
    _disk,
)
"""In the order in which a person mends: what comes first may be the cause of what comes later."""
