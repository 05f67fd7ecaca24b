#!/usr/bin/env python3
"""Whether the files of a release work where they will be installed: each in a new environment, away from the checkout.

    python scripts/check_release.py dist                       # with every Python that the wheel names and that is here
    python scripts/check_release.py dist --probe 3.11          # and there with the extra `probe`, on the demo pair
    python scripts/check_release.py dist --only 3.12 --all     # fails where that Python is not to be found

Needs the group `release` (uv, twine, check-wheel-contents, build) and, for what is installed, a package index.
Pythons are `python3.N` on the path, or those of pyenv.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

TARGET, DRAFT, OTHER_ROWS = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
ENGINE = ("--engine", "vllm-ascend")
DEMO = Path("draftpick", "_data", "catalog", "demo")
MOST_BYTES = 15_000_000
TORCH = "torch==2.13.0"  # As in the Makefile: where an index has a build for CPUs, it is of this release.


class Step(NamedTuple):
    """A command, the code that it must end with, and what it must say on stdout or stderr."""

    arguments: tuple[str, ...]
    code: int = 0
    says: str = ""


class Failed(Exception):
    """What is wrong with the release, for its maintainer."""


def core(version: str) -> Iterator[Step]:
    """What needs no torch: the main jobs, and an example of each exit code."""
    yield Step(("--version",), says=version)
    yield Step(("recommend", TARGET, *ENGINE), says=DRAFT)
    yield Step(("recommend", TARGET, *ENGINE, "--json", "-o", "advice.json"))
    yield Step(("recommend", TARGET, *ENGINE, "-d", OTHER_ROWS), code=1)
    yield Step(("check", TARGET, DRAFT, *ENGINE), says=DRAFT)
    yield Step(("check", TARGET, OTHER_ROWS, *ENGINE), code=1, says="embedding rows")
    yield Step(("check", TARGET, DRAFT, "--engine", "no-such-engine"), says="unknown", code=2)
    yield Step(("check", "nobody/has-this", DRAFT), code=3, says="hint:")
    yield Step(("plan", "--acceptance-rate", "0.65", "--draft-cost", "0.05"), says="num_spec_tokens")
    yield Step(("catalog", "validate"), says="0 errors")
    yield Step(("catalog", "list", "--kind", "engines"), says="vllm-ascend")
    yield Step(("rules",), says="vocab")
    yield Step(("launch", "advice.json", "-d", DRAFT), says="vllm")
    for form, says in (("markdown", "|"), ("html", "<svg"), ("csv", "num_spec_tokens"), ("json", '"schema_version"')):
        yield Step(("report", "advice.json", "--format", form), says=says)
    yield Step(("report", "no-such.json"), code=2, says="hint:")


def probing(site: Path) -> Iterator[Step]:
    """A measurement of the pair that the wheel carries, and decisions from it."""
    demo = site / DEMO
    pair = (str(demo / "target"), str(demo / "draft"))
    yield Step(
        (
            "probe",
            *pair,
            "--prompts",
            str(demo / "prompts.jsonl"),
            "--num-prompts",
            "8",
            "--exit-zero",
            "-o",
            "probe.json",
        ),
        says="num_spec_tokens",
    )
    yield Step(("plan", "probe.json", "--policy", "all", "--exit-zero"), says="num_spec_tokens")
    yield Step(("report", "probe.json", "--format", "html"), says="<svg")


def take(python: Path, step: Step, folder: Path) -> None:
    """Run one step as a module and hold what it did against what it should; raises Failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DRAFTPICK"))}
    environment |= {"HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        # What one Python warns of is an error in a later one.
        [python, "-W", "default", "-m", "draftpick", *step.arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    said = done.stdout + done.stderr
    wrong = [
        *([f"ended with {done.returncode}, not {step.code}"] if done.returncode != step.code else []),
        *([f"does not say {step.says!r}"] if step.says not in said else []),
        *(["shows a traceback"] if "Traceback" in said else []),
        *(
            ["warns of its own code"]
            if any("draftpick/" in line and "Warning" in line for line in said.split("\n"))
            else []
        ),
    ]
    if wrong:
        raise Failed(f"draftpick {' '.join(step.arguments)}: {', '.join(wrong)}\n{said[-1500:]}")


def quietly(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(str(word) for word in command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(package: Path, interpreter: Path, folder: Path, *, extra: str = "") -> tuple[Path, Path]:
    """The Python and the site-packages of a new environment with nothing but a package and what it asks for."""
    environment = folder / "environment"
    quietly(sys.executable, "-m", "uv", "venv", "--quiet", "--seed", "--python", interpreter, environment)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    if extra:
        quietly(python, "-m", "pip", "install", "--quiet", TORCH)
    quietly(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, f"{package}{extra}")
    quietly(sys.executable, "-m", "uv", "pip", "check", "--quiet", "--python", python)
    return python, Path(quietly(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def interpreters(wanted: Sequence[str]) -> dict[str, Path | None]:
    """Where the Python of each wanted version is, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found: dict[str, Path | None] = {}
    for version in wanted:
        # A shim of pyenv is on the path and may run no Python at all.
        beside = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        name = shutil.which(f"python{version}")
        running = Path(sys.executable) if version == f"{sys.version_info.major}.{sys.version_info.minor}" else None
        candidates = [path for path in (running, *reversed(beside), Path(name) if name else None) if path is not None]
        found[version] = next((path for path in candidates if _runs(path, version)), None)
    return found


def _runs(python: Path, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == version


def metadata(wheel: Path) -> tuple[str, list[str]]:
    """A wheel's version, and the Pythons that it says it is for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode())
    prefix = "Programming Language :: Python :: 3."
    return fields["Version"], [
        found[len(prefix) - 2 :] for found in fields.get_all("Classifier", ()) if prefix in found
    ]


def look_at(wheel: Path, sdist: Path, folder: Path) -> None:
    """What can be said of the two files without installing them."""
    if wheel.stat().st_size > MOST_BYTES:
        raise Failed(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
    quietly(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    quietly(sys.executable, "-m", "check_wheel_contents", wheel)
    quietly(
        sys.executable, "-m", "build", "--installer", "uv", "--wheel", "--outdir", folder, *_unpacked(sdist, folder)
    )
    (again,) = folder.glob("*.whl")
    if _hash(again) != _hash(wheel):
        raise Failed(f"{sdist.name} builds another wheel than {wheel.name}: see `python -m zipfile -l` of both")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, sha256 {_hash(wheel)}")
    print(f"{sdist.name}: {sdist.stat().st_size:,} bytes, sha256 {_hash(sdist)}; builds the same wheel")


def _unpacked(sdist: Path, folder: Path) -> tuple[Path]:
    shutil.unpack_archive(sdist, folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return (source,)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="the folder with one wheel and one source distribution")
    parser.add_argument("--only", action="append", help="a Python as 3.12; else all that the wheel names")
    parser.add_argument("--probe", action="append", default=[], help="a Python that also gets torch, and probes")
    parser.add_argument("--all", action="store_true", help="a Python that is not here is a failure")
    options = parser.parse_args()
    (wheel,), (sdist,) = options.dist.glob("*.whl"), options.dist.glob("*.tar.gz")
    version, named = metadata(wheel)
    missing = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            look_at(wheel, sdist, Path(folder))
        for python, interpreter in interpreters(options.only or named).items():
            if interpreter is None:
                missing.append(python)
                print(f"Python {python}: not here, not checked")
                continue
            check(python, interpreter, wheel, version, probes=python in options.probe)
    except Failed as wrong:
        print(f"failed: {wrong}", file=sys.stderr)
        return 1
    return 1 if missing and options.all else 0


def check(name: str, interpreter: Path, wheel: Path, version: str, *, probes: bool) -> None:
    """All steps with one Python; raises Failed."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, site = installed(wheel.resolve(), interpreter, folder, extra="[probe]" if probes else "")
        steps = [*core(version), *(probing(site) if probes else ())]
        for step in steps:
            take(python, step, folder)
        json.loads((folder / "advice.json").read_text(encoding="utf-8"))
    print(f"Python {name}: {len(steps)} commands did what they should{', a probe among them' if probes else ''}")


if __name__ == "__main__":
    sys.exit(main())
