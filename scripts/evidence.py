"""Runs benchmarks and evaluations and writes docs/evidence.md from what they kept: `make evidence`.

python scripts/evidence.py [--engines FOLDER] [PART …]

All parts that can be run here where none is named. Timed parts have the machine to themselves; the others then run side
by side, one for each core. A part that was not asked for stays on the page as it was last kept in build/evidence, with
the date of then.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import records
from records import KEPT, PAGE, ROOT, Figure, Record

LLAMA, VLLM, REAL = "{engines}/llama/build/bin/llama-server", "{engines}/venv/bin/vllm", "build/real-pair/draft-25"
HOW_TO_GET = {
    LLAMA: "llama.cpp's server, which `make test-engines PARTS=llama` builds",
    VLLM: "vLLM for CPUs, which `make eval-served` installs",
    REAL: "a real pair, which `python scripts/real_pair.py` makes",
}


class Part(NamedTuple):
    """A question, and what answers it."""

    name: str
    question: str
    words: str
    """The script with its options; of one timed script all parts run in one process."""
    timed: bool = False
    needs: tuple[str, ...] = ()
    """Files without which it cannot be run."""


PARTS = [
    Part("start-up", "How long does an answer from facts take?", "bench.py", timed=True),
    Part(
        "cost",
        "What does a probe cost, beside running transformers with every k from 1 to 8?",
        "bench_probe.py cost",
        timed=True,
    ),
    Part(
        "llama",
        "What does a probe cost beside running llama.cpp with every k from 1 to 8, and does its k hold there?",
        "bench_llama.py {engines}/llama",
        timed=True,
        needs=(LLAMA, REAL),
    ),
    Part("exactness", "Does the replay count the steps that transformers takes?", "bench_probe.py exactness"),
    Part("sampling", "Does it also where text is sampled?", "bench_probe.py sampling"),
    Part("coverage", "Does a 95 % interval hold the true value in 95 of 100 cases?", "bench_probe.py coverage"),
    Part(
        "prediction",
        "How near do a probe's predictions come to the speed-ups of transformers?",
        "bench_probe.py prediction",
        timed=True,
    ),
    Part("choice", "What is lost by taking the k that was planned?", "bench_probe.py choice", timed=True),
    Part(
        "predictions",
        "How far off are predictions without a measurement, beside simple rules?",
        "evaluate.py",
    ),
    Part(
        "gate",
        "How often does a gate fail an unchanged pair, and how often does it catch a changed one?",
        "evaluate_gate.py",
    ),
    Part(
        "served",
        "Does a probe through vLLM's servers measure what a probe of the same models here does?",
        "evaluate_served.py {engines}/venv",
        needs=(VLLM, REAL),
    ),
    Part("estimates", "How near are the memory estimates to what engines logged?", "evaluate_memory.py"),
    Part("memory", "How much memory does a probe take?", "bench_probe.py memory"),
]
LIMITS_OF_IT = """\
- **Nothing here was measured on an NPU or a GPU.** The code that would run there asks torch for devices by the same
  names; [npu.md](npu.md) says what was tried on a stand-in.
- The machine has few cores and the models are small: the pair that comes with draftpick, and SmolLM2-135M with its own
  first layers. Where no draft pays there, the best k is 0, and a plan that says so was an easy one: whether it finds a
  larger k where there is one rests on the speed-ups that are predicted for each k, not on the choice.
- Times are those of one run on one machine. Counts are exact and come out again; times differ from run to run.
- Predictions without a measurement are judged on published figures of others, with other machines and prompts.
- Memory estimates are held against logs that people posted: few, and none of a pair with a draft.
"""


# ---------------------------------------------------------------------- running


def missing(part: Part, engines: Path) -> str:
    """Why a part cannot be run here; empty where it can."""
    lacks = [HOW_TO_GET[name] for name in part.needs if not (ROOT / name.format(engines=engines)).exists()]
    return f"it needs {', and '.join(lacks)}, and that was not there" if lacks else ""


def commands(parts: Sequence[Part], engines: Path) -> tuple[list[list[str]], list[list[str]]]:
    """What must be run for these parts: by turns, and side by side."""
    alone: dict[str, list[str]] = {}
    for part in parts:
        if part.timed:
            script, *words = shlex.split(part.words.format(engines=engines))
            alone.setdefault(script, [script]).extend(words)
    beside = [shlex.split(part.words.format(engines=engines)) for part in parts if not part.timed]
    return list(alone.values()), beside


def run(words: Sequence[str], *, beside: bool) -> None:
    """Run one script, which keeps its records; what runs beside others has one thread and is printed at its end."""
    command = [sys.executable, str(ROOT / "scripts" / words[0]), *words[1:], "--keep", str(KEPT)]
    print(f"$ python scripts/{shlex.join(words)}", flush=True)
    if not beside:
        subprocess.run(command, cwd=ROOT, check=False)
        return
    one = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False
    )
    print(f"\n$ python scripts/{shlex.join(words)}\n{done.stdout}", flush=True)


def kept() -> dict[str, Record]:
    """What was run here, now or before."""
    found = [records.read(path) for path in sorted(KEPT.glob("*.json"))]
    return {record.part: record for record in found}


# ---------------------------------------------------------------------- the page


def page(found: Mapping[str, Record], absent: Mapping[str, str]) -> str:
    """docs/evidence.md out of records by part, and reasons why others are not there."""
    settings = list(dict.fromkeys(_place(one) for one in found.values()))
    ran_first = sorted(PARTS, key=lambda part: part.name not in found)
    sections = [line for part in ran_first for line in _section(part, found.get(part.name), absent, settings)]
    missed = [(part, one) for part in PARTS if part.name in found for one in _missed(found[part.name])]
    head = _head(settings, len(PARTS), len(set(found) & {part.name for part in PARTS}), missed)
    return "\n".join([*head, *sections, "## What these figures do not show", "", LIMITS_OF_IT])


def _head(settings: Sequence[str], parts: int, ran: int, missed: Sequence[tuple[Part, Figure]]) -> Iterator[str]:
    yield "# Evidence"
    yield ""
    yield "What draftpick says of itself, measured. `make evidence` runs the commands below and writes this page: no"
    yield 'figure was typed by hand. `make evidence PARTS="cost gate"` runs some of them anew.'
    yield ""
    if not settings:
        yield "Nothing has been run yet."
        yield ""
        return
    yield from (f"Machine {letter}: {place}." for letter, place in zip("ABCDEFGH", settings, strict=False))
    yield ""
    said = f"{ran} of {parts} parts {'was' if ran == 1 else 'were'} run here; of their figures"
    if missed:
        short = "falls short of its limit" if len(missed) == 1 else "fall short of their limits"
        yield f"{said} {len(missed)} {short}:"
        yield ""
        yield from (f"- [{part.name}](#{part.name}): {_cell(one.what)}: {_cell(one.seen)}" for part, one in missed)
    else:
        yield f"{said} none falls short of its limit."
    if ran < parts:
        yield ""
        yield "The parts that were not run stand last, each with the reason."
    yield ""


def _missed(record: Record) -> list[Figure]:
    return [one for one in record.told.figures if one.reached is False]


def _place(record: Record) -> str:
    return f"{record.setting.machine}; {record.setting.software}"


def _section(part: Part, record: Record | None, absent: Mapping[str, str], settings: Sequence[str]) -> Iterator[str]:
    yield f"## {part.name}"
    yield ""
    yield f"**{part.question}**"
    yield ""
    yield f"    make evidence PARTS={part.name}"
    yield ""
    if record is None:
        reason = absent.get(part.name) or "no run on this machine has taken it in yet; the command above does"
        yield f"Not run: {reason}."
        yield ""
        return
    yield _when(record, settings)
    yield ""
    with_notes = any(one.note for one in record.told.figures)
    columns = ["", "figure", "limit", "reached", *(["note"] if with_notes else [])]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for one in record.told.figures:
        cells = [one.what, one.seen, one.limit, records.REACHED[one.reached], *([one.note] if with_notes else [])]
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""
    for note in record.told.notes:
        yield f"- {_cell(note)}"
    if record.told.notes:
        yield ""


def _when(record: Record, settings: Sequence[str]) -> str:
    """When, where and of which state of the repository."""
    one = record.setting
    state = f"revision {one.revision}{'' if one.clean else ' with changes'}" if one.revision else "no checkout"
    threads = f", OMP_NUM_THREADS={one.threads}" if one.threads else ""
    load = f", load before {one.load:g}" if one.load is not None else ""
    return (
        f"`{one.command}`, {one.date} UTC, machine {'ABCDEFGH'[settings.index(_place(record))]}{threads}{load}; "
        f"{state}; {record.seconds:.0f} s."
    )


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, in one line of a table."""
    for special in "\\`*_|<>[]":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.split())


# ---------------------------------------------------------------------- all of it


def main() -> int:
    """Run the parts asked for, and write the page; 1 where a part that was asked for has no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--engines", type=Path, default=Path("build/engines"), help="where engines were installed")
    parser.add_argument("--page-only", action="store_true", help="run nothing: write the page from what is kept")
    options = parser.parse_args()
    names = records.chosen(parser, options.parts, [part.name for part in PARTS])
    absent = {part.name: missing(part, options.engines) for part in PARTS}
    todo = [part for part in PARTS if part.name in names and not absent[part.name] and not options.page_only]
    for part in todo:
        (KEPT / f"{part.name}.json").unlink(missing_ok=True)
        absent[part.name] = "its script failed on this machine before it had a figure"
    alone, beside = commands(todo, options.engines)
    for words in alone:
        run(words, beside=False)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(run, beside=True), beside))
    found = kept()
    (ROOT / PAGE).write_text(page(found, absent), encoding="utf-8")
    lacking = [name for name in (options.parts or [part.name for part in todo]) if name not in found]
    print("".join(f"{name}: not run: {absent[name]}\n" for name in lacking) + f"written: {PAGE}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
