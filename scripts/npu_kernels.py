"""The operations for which torch_npu has a kernel, asked of its own library: what the tests' stand-in for it knows.

    pip download --no-deps --dest build torch-npu==2.13.0 && unzip -d build/torch_npu build/torch_npu-2.13.0-*.whl
    python scripts/npu_kernels.py build/torch_npu/torch_npu/lib > tests/probing/fake_npu/torch_npu/kernels.txt

The library registers its kernels when it is loaded, and needs no device for that; what it asks of CANN, which is not
here, is answered by a library of empty functions. It takes gcc, nm, and the torch that this torch_npu is made for.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch

LIBRARIES = ("libtensorpipe.so", "libnpu_profiler.so", "libtorch_npu.so")
CANN = re.compile(r"^(acl|Hccl|rt|ge|Msprof)")


def symbols(library: Path, which: str) -> set[str]:
    done = subprocess.run(["nm", "-D", which, str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.strip()}


def needed(library: Path) -> set[str]:
    done = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    return set(re.findall(r"NEEDED.*\[(lib[^\]]*)\]", done.stdout))


def stand_ins(folder: Path, libraries: list[Path]) -> None:
    """Make every library of CANN that is missing, with every function that is asked of it, and load them."""
    ours = {*LIBRARIES, *(path.name for path in (Path(torch.__file__).parent / "lib").iterdir())}
    missing = set().union(*map(needed, libraries)) - ours
    missing = {name for name in missing if not _loads(name)}
    wanted = set().union(*(symbols(library, "--undefined-only") for library in libraries))
    source = folder / "cann.c"
    source.write_text("\n".join(f"long {name}(void) {{ return 0; }}" for name in sorted(filter(CANN.match, wanted))))
    for name in missing:
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)], check=True
        )
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def main(folder: Path) -> None:
    libraries = [folder / name for name in LIBRARIES]
    with tempfile.TemporaryDirectory() as made:
        stand_ins(Path(made), libraries)
        for library in libraries[::2]:
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    print("\n".join(sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))))
    sys.stdout.flush()
    # What torch_npu does at the end of a process needs the real CANN.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
