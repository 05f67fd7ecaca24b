"""Looks for files that a reader of draftpick falls over, by coverage: each reader of tests/fuzz in its own process.

    python scripts/fuzz.py gguf trace --seconds 600

A reader falls over a file if it raises anything but a DraftpickError with a short message and hint, takes longer than
a few seconds, or more memory than it should. Such files are made small and kept in build/fuzz/READER, one for each
place in the code. What was learnt of the format is kept there too, so that a later run goes on from it. Needs atheris.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "build" / "fuzz"
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/fuzz", "tests", "tests/models")]

CPU_S = 2.0
"""Of one input, by the clock of the process: other work on the machine does not count."""
HANG_S = 60
"""Of one input, by the clock on the wall, after which the process is ended."""
MEMORY = 2 << 30
"""Bytes of address space, the fuzzer's own included."""
LARGEST = 1 << 17
"""Bytes of an input; what large files cost is held by tests."""
SMALLER_S = 10.0


class Tally(NamedTuple):
    """What one reader went through."""

    inputs: int = 0
    peak_mb: int = 0
    grown_mb: int = 0
    """Since the seeds were read."""
    slowest_ms: float = 0.0
    edges: int = 0
    """Inputs that reached code that none before did."""


# ---------------------------------------------------------------------- in the process of one reader


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one reader for so long; does not return. The servers' threads would hold up any other end."""
    try:
        _fuzz(name, seconds)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _fuzz(name: str, seconds: int) -> None:
    import atheris

    folder = FOUND / name
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(prefix="draftpick-fuzz-", dir=shared) as scratch:
        with atheris.instrument_imports(include=["draftpick"]):
            import readers

            # The readers import what they need when they are called: the seeds are read while imports are seen.
            opened = readers.readers(Path(scratch), only=name)
            reader = opened.__enter__()[name]
            for place, seed in enumerate(reader.seeds):
                write(folder / "seeds" / str(place), seed)
                readers.passes(reader, seed)
        watch = Watch(folder, lambda data: readers.passes(reader, data))

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            chance = random.Random(seed)
            if chance.randrange(3) == 0:
                return bytes(atheris.Mutate(data, most))
            begin = chance.choice(reader.seeds) if chance.randrange(10) == 0 else data
            return reader.mutate(begin, chance, reader.words)[:most]

        (folder / "corpus").mkdir(parents=True, exist_ok=True)
        told = {
            "max_total_time": seconds,
            "timeout": HANG_S,
            "max_len": LARGEST,
            "artifact_prefix": f"{folder}/",
            "rss_limit_mb": 0,
        }
        settings = [f"-{key}={value}" for key, value in told.items()]
        atheris.Setup(
            [sys.argv[0], *settings, str(folder / "corpus"), str(folder / "seeds")], watch, custom_mutator=mutate
        )
        atheris.Fuzz()


class Watch:
    """Takes one input after the other, keeps those that a reader falls over, and counts."""

    def __init__(self, folder: Path, read: Callable[[bytes], object]) -> None:
        self._folder, self._read = folder, read
        self._inputs, self._slowest, self._told = 0, 0.0, time.monotonic()
        self._start_mb = peak_mb()
        self._known = {path.stem for path in folder.glob("*.txt")}

    def __call__(self, data: bytes) -> None:
        found, seconds = self._try(data)
        self._inputs += 1
        self._slowest = max(self._slowest, seconds)
        if found is not None and found[0] not in self._known:
            self._keep(*found, data)
        if time.monotonic() - self._told > 1:
            self._told = time.monotonic()
            told = Tally(self._inputs, peak_mb(), peak_mb() - self._start_mb, round(self._slowest * 1e3, 1))
            write(self._folder / "tally.json", json.dumps(told._asdict()).encode())

    def _try(self, data: bytes) -> tuple[tuple[str, str] | None, float]:
        """Where the reader fell over the input and how that reads, and the seconds it took."""
        began = time.process_time()
        found = None
        try:
            self._read(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            found = place_of(error), "".join(traceback.format_exception(error))[-8000:]
        seconds = time.process_time() - began
        if found is None and seconds > CPU_S:
            found = "slow", f"{seconds:.1f} s of {len(data):,} bytes"
        return found, seconds

    def _keep(self, place: str, text: str, data: bytes) -> None:
        self._known.add(place)
        small = smaller(data, lambda one: (self._try(one)[0] or ("", ""))[0] == place)
        write(self._folder / f"{place}.bin", small)
        write(self._folder / f"{place}.txt", text.encode("utf-8", "backslashreplace"))
        print(f"FOUND {self._folder.name}: {place}, {len(small)} bytes", file=sys.stderr, flush=True)


def place_of(error: BaseException) -> str:
    """The kind of an error and the last line of draftpick's own that it came through, as the name of a file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if f"{os.sep}draftpick{os.sep}" in one.filename]
    last = (own or frames)[-1]
    return f"{type(error).__name__}-{Path(last.filename).stem}-{last.lineno}"


def smaller(data: bytes, still: Callable[[bytes], bool]) -> bytes:
    """The input with as many parts taken out as it can miss, within SMALLER_S."""
    end = time.monotonic() + SMALLER_S
    size = len(data) // 2
    while size and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            without = data[:at] + data[at + size :]
            if still(without):
                data = without
            else:
                at += size
        size //= 2
    return data


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# ---------------------------------------------------------------------- over all of them


def run(name: str, seconds: int) -> tuple[Tally, float, list[str]]:
    """Fuzz a reader in processes, a new one where one was ended: what it went through, how long, and what is new.

    The seconds are those of a core: beside other work it takes longer, and looks at as much.
    """
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    before, began = kept(folder), cpu_of_ended()
    sums: list[dict[str, Any]] = []
    while (left := seconds - (cpu_of_ended() - began)) >= 1:
        (folder / "tally.json").unlink(missing_ok=True)
        with open(folder / "log", "wb") as log:
            command = [sys.executable, __file__, name, "--seconds", str(round(left)), "--inside"]
            ended = subprocess.run(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if ended.returncode:
            (folder / "log").rename(folder / f"ended-{ended.returncode}.log")
        if (folder / "tally.json").exists():
            sums.append(json.loads((folder / "tally.json").read_bytes()))
        elif ended.returncode:
            raise SystemExit(f"{name}: the fuzzer does not start: see {folder}/ended-{ended.returncode}.log")
    tally = Tally(
        sum(one["inputs"] for one in sums),
        *(max((one[key] for one in sums), default=0) for key in ("peak_mb", "grown_mb", "slowest_ms")),
        edges=len(list((folder / "corpus").iterdir())),
    )
    return tally, cpu_of_ended() - began, sorted(kept(folder) - before)


def cpu_of_ended() -> float:
    """Seconds of a core that the processes took which have ended."""
    taken = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken.ru_utime + taken.ru_stime


def kept(folder: Path) -> set[str]:
    """Places at which the reader fell over, and what libFuzzer left of a process that was ended."""
    return {
        path.name for pattern in ("*.txt", "crash-*", "timeout-*", "oom-*", "ended-*") for path in folder.glob(pattern)
    }


def cost(name: str) -> None:
    """Read one of the largest files, and print what that took, and what was said."""
    import large
    import readers

    resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
    called, make = large.LARGE[name]
    with TemporaryDirectory() as scratch, readers.readers(Path(scratch), only=called) as known:
        for seed in known[called].seeds:
            readers.passes(known[called], seed)
        data, before, began = make(), peak_mb(), time.process_time()
        said = readers.passes(known[called], data)
        took, grown = time.process_time() - began, peak_mb() - before
    answer = said.message.replace(scratch, "").strip("/") if said is not None else "taken"
    print(f"{called:16} {name:28} {len(data) / 1e6:6.1f} {took:7.1f} {grown:7,}  {answer[:90]}", flush=True)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("readers", nargs="*", help="those of tests/fuzz/readers.py; all without")
    parser.add_argument("--seconds", type=int, default=60, help="of a core, for each reader")
    parser.add_argument("--list", action="store_true", help="name the readers")
    parser.add_argument("--large", action="store_true", help="what the largest files cost, instead")
    parser.add_argument("--cost", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        fuzz(options.readers[0], options.seconds)
    elif options.cost:
        cost(options.cost)
    elif options.large:
        costs(options.readers)
    else:
        look(options)


def costs(only: list[str]) -> None:
    import large

    print(f"{'reader':16} {'file':28} {'MB':>6} {'CPU s':>7} {'grew MB':>7}  answer", flush=True)
    for name, (called, _) in large.LARGE.items():
        if not only or called in only:
            ended = subprocess.run([sys.executable, __file__, "--cost", name], stderr=subprocess.PIPE)
            if ended.returncode:
                print(f"{called:16} {name:28} failed: {ended.stderr.decode().splitlines()[-1:]}", flush=True)


def look(options: argparse.Namespace) -> None:
    """Fuzz the readers that were named, one after the other, and print a row for each."""
    import readers

    with TemporaryDirectory() as scratch, readers.readers(Path(scratch)) as known:
        names = list(known)
    if options.list:
        print(*names, sep="\n")
        return
    if wrong := [name for name in options.readers if name not in names]:
        raise SystemExit(f"no reader is called {wrong[0]}; known: {', '.join(names)}")
    print(
        f"{'reader':20} {'CPU s':>5} {'inputs':>9} {'kept':>6} {'peak MB':>8} {'grown':>6} {'slowest':>9}  new",
        flush=True,
    )
    failed = False
    for name in options.readers or names:
        tally, seconds, new = run(name, options.seconds)
        failed |= bool(new)
        print(
            f"{name:20} {seconds:5.0f} {tally.inputs:9,} {tally.edges:6,} {tally.peak_mb:8,} {tally.grown_mb:6,} "
            f"{tally.slowest_ms:6,.0f} ms  {', '.join(new) or '-'}",
            flush=True,
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
