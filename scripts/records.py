"""What a benchmark found: one shape, which people read as a table and `make evidence` keeps as JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "evidence"
PAGE = "docs/evidence.md"
PACKAGES = ("torch", "transformers", "numpy", "typer")
REACHED = {None: "", True: "reached", False: "MISSED"}


class Figure(NamedTuple):
    """One thing that was looked at; `reached` is None where there is no limit."""

    what: str
    seen: str
    limit: str = ""
    reached: bool | None = None
    note: str = ""
    """Where it comes from, or what it does not show."""


class Told(NamedTuple):
    """What a part found: its figures, and remarks below them."""

    figures: Sequence[Figure]
    notes: Sequence[str] = ()


class Setting(NamedTuple):
    """When, where and with what a part was measured."""

    date: str
    """ISO, UTC."""
    command: str
    revision: str
    """Of git; empty outside of a checkout."""
    clean: bool
    """Whether the files were those of the revision, the page of evidence aside."""
    machine: str
    software: str
    threads: str
    """OMP_NUM_THREADS, as it was set; empty where it was not."""
    load: float | None
    """Processes that wanted a core, on average over the minute before."""


class Record(NamedTuple):
    """A part that was run."""

    part: str
    setting: Setting
    seconds: float
    told: Told


# ---------------------------------------------------------------------- for people


def table(figures: Sequence[Figure]) -> str:
    """Figures in columns; notes are left to the page."""
    head = ("", "figure", "limit", "reached")
    rows = [head, *((one.what, one.seen, one.limit, REACHED[one.reached]) for one in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def show(part: str, about: str | None, told: Told, seconds: float) -> None:
    """Print a part as people read it."""
    print(f"\n{part}: {(about or '').strip().splitlines()[0]}\n")
    print(textwrap.indent(table(told.figures), "  "))
    for note in told.notes:
        print(textwrap.fill(note, 118, initial_indent="  ", subsequent_indent="    "))
    print(f"  ({seconds:.0f} s)", flush=True)


def run(parts: Mapping[str, Callable[[], Told]], kept: Path | None) -> list[Record]:
    """Run parts one after the other, print each, keep its record in `kept`, and name the limits that were missed."""
    found = []
    for part, job in parts.items():
        before, begun = setting(), time.perf_counter()
        told = job()
        found.append(Record(part, before, time.perf_counter() - begun, told))
        show(part, getattr(job, "func", job).__doc__, told, found[-1].seconds)
        if kept is not None:
            keep(kept, found[-1])
    missed = [f"{one.part}: {figure.what}" for one in found for figure in one.told.figures if figure.reached is False]
    print(f"\n{len(missed)} missed" + "".join(f"\n  {one}" for one in missed))
    return found


def joined(part: str, found: Sequence[Record]) -> Record:
    """Several records of one run as one, each figure with the name of its own part."""
    figures = [one._replace(what=f"{each.part}: {one.what}") for each in found for one in each.told.figures]
    notes = [f"{each.part}: {note}" for each in found for note in each.told.notes]
    return Record(part, found[0].setting, sum(each.seconds for each in found), Told(figures, notes))


def parser(about: str | None) -> argparse.ArgumentParser:
    """Of a script that keeps records: with the option for it."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--keep", type=Path, metavar="FOLDER", help="also write PART.json there, for docs/evidence.md")
    return found


def chosen(found: argparse.ArgumentParser, asked: Sequence[str], parts: Sequence[str]) -> list[str]:
    """The parts that were asked for, in their own order; all where none is. Ends the script where there is no such."""
    if unknown := [name for name in asked if name not in parts]:
        found.error(f"no part {', '.join(unknown)}: take any of {', '.join(parts)}")
    return [name for name in parts if name in (asked or parts)]


# ---------------------------------------------------------------------- for the page


def keep(folder: Path, record: Record) -> None:
    """Write FOLDER/PART.json, without where this checkout lies."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = record._asdict() | {
        "setting": record.setting._asdict(),
        "told": {"figures": [one._asdict() for one in record.told.figures], "notes": list(record.told.notes)},
    }
    text = json.dumps(whole, ensure_ascii=False, indent=1).replace(f"{ROOT}/", "")
    (folder / f"{record.part}.json").write_text(f"{text}\n", encoding="utf-8")


def read(path: Path) -> Record:
    """What `keep` wrote."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    told = whole["told"]
    return Record(
        whole["part"],
        Setting(**whole["setting"]),
        whole["seconds"],
        Told([Figure(**one) for one in told["figures"]], told["notes"]),
    )


def setting() -> Setting:
    """This run, on this machine."""
    revision = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":(exclude){PAGE}")
    words = [f"scripts/{Path(sys.argv[0]).name}", *_without_keep(sys.argv[1:])]
    return Setting(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        command=f"python {shlex.join(words)}",
        revision=revision or "",
        clean=changed == "",
        machine=machine(),
        software=software(),
        threads=os.environ.get("OMP_NUM_THREADS", ""),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    )


def _without_keep(words: Sequence[str]) -> Iterator[str]:
    """What belongs to the measurement; paths of this checkout without where it lies."""
    rest = iter(words)
    for word in rest:
        if word == "--keep":
            next(rest)
        else:
            yield word.removeprefix(f"{ROOT}/")


def machine() -> str:
    """Processor, cores, memory and system."""
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB of memory"
    return f"{_processor()}, {os.cpu_count()} cores{memory}, {platform.system()} {platform.machine()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "a processor that does not say its name"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a processor")


def software() -> str:
    """Python and the packages that the figures hang on."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join([f"Python {platform.python_version()}", *versions])


def _git(*words: str) -> str | None:
    """What git answers; None where there is none, or no checkout."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
