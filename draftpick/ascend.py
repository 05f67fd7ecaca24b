"""The Ascend software of this machine, by its files alone: torch_npu without CANN keeps even torch from being imported.

Nothing here asks a driver or imports a framework.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/usr/local/Ascend")
NODES = Path("/dev")
BUS = Path("/sys/bus/pci/devices")
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""0 keeps torch from importing torch_npu by itself."""
VARIABLES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
"""What set_env.sh sets, among others: the folder of the toolkit."""
LIBRARY = "libhccl.so"
"""The first library of CANN that torch_npu asks for."""
_INFO_BYTES = 10_000
_VERSION = re.compile(r"^version\s*=\s*([\w.]{1,40})", re.IGNORECASE | re.MULTILINE)


class Cann(NamedTuple):
    """An installed toolkit."""

    folder: Path
    version: str | None
    """None where its files do not say."""
    sourced: bool
    """set_env.sh was sourced: this process has the variables."""

    @property
    def set_env(self) -> Path:
        """The script that puts it on the loader's path."""
        found = (folder / "set_env.sh" for folder in (self.folder, self.folder.parent))
        return next((path for path in found if path.is_file()), self.folder / "set_env.sh")


def cann() -> Cann | None:
    """The toolkit that the environment names, or else the one that lies where installers put it."""
    named = [Path(value) for name in VARIABLES if (value := os.environ.get(name))]
    for folder in (*named, *_usual_folders()):
        if folder.is_dir():
            return Cann(folder, _toolkit_version(folder), folder in named)
    return None


def driver_version() -> str | None:
    """The driver's version as its own file has it; None without one."""
    return _version_in(ROOT / "driver" / "version.info")


def nodes() -> list[str]:
    """The nodes by which processes reach NPUs: davinci0 and so on, of those that this process, or container, has."""
    found = [path.name for path in NODES.glob("davinci*") if path.name.removeprefix("davinci").isdecimal()]
    return sorted(found, key=lambda name: int(name.removeprefix("davinci")))


def on_the_bus() -> int:
    """How many NPUs sit on the machine's PCI bus, which a container sees whether or not it may use them.

    The vendor makes network cards and, of the same class, compressors too: those are not numbered 0xd….
    """
    return sum(
        _read(folder / "vendor") == "0x19e5"
        and _read(folder / "class").startswith("0x12")
        and _read(folder / "device").startswith("0xd")
        for folder in BUS.glob("*")
    )


def _read(path: Path) -> str:
    """What a small file of the kernel says; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip().lower()
    except OSError:
        return ""


def _usual_folders() -> Iterator[Path]:
    """Since 8.5 in `cann` beside `cann-8.5.0`, before in `ascend-toolkit`; below the home of a user who is not root."""
    for root in (ROOT, Path(os.path.expanduser("~")) / "Ascend"):
        yield root / "cann"
        yield from sorted(root.glob("cann-*"), reverse=True)
        yield root / "ascend-toolkit" / "latest"


def _toolkit_version(folder: Path) -> str | None:
    patterns = ("*-linux/ascend_toolkit_install.info", "version.info", "toolkit/version.info", "*/version.info")
    paths = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return next((version for path in paths if (version := _version_in(path))), None)


def _version_in(path: Path) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = _VERSION.search(file.read(_INFO_BYTES))
    except OSError:
        return None
    return found[1] if found else None


def has_torch_npu() -> bool:
    """Whether torch_npu can be found; it is not imported."""
    from importlib.util import find_spec

    try:
        return find_spec("torch_npu") is not None
    except (ImportError, ValueError):
        return False


def lacks_cann() -> bool:
    """Whether torch_npu is installed and the libraries it is built on do not load."""
    if sys.modules.get("torch_npu") is not None or not has_torch_npu():
        return False  # imported already, or not here
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return True
    return False


def hide_torch_npu() -> None:
    """Make torch_npu look absent in this process, before torch and transformers are imported.

    transformers asks for it at import, and lets its ImportError through: without the switch and this, neither can be
    used on a CPU either.
    """
    os.environ[AUTOLOAD] = "0"
    sys.modules.setdefault("torch_npu", None)  # type: ignore[arg-type]


def is_hidden() -> bool:
    """Whether `hide_torch_npu` was called."""
    return "torch_npu" in sys.modules and sys.modules["torch_npu"] is None
