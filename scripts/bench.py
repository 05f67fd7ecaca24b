"""Start-up and ranking time: `recommend` against a minimal typer app, cold and warm, and the whole catalogue judged.

python scripts/bench.py

CPU seconds (user + sys) of whole processes, medians of ten pairs run in turn, byte-code present, file cache warm. A
cold start is one with everything that Python loads pushed out of the file cache, the interpreter itself aside.
"""

from __future__ import annotations

import compileall
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import records
from records import Figure, Told

import draftpick

PACKAGE = Path(draftpick.__file__).parent
TARGET = "meta-llama/Llama-3.1-70B-Instruct"
OURS = [sys.executable, "-m", "draftpick", "recommend", TARGET]
PAIRS = 10
STARTS = 5
SECONDS = 1.0
"""What the design promises: an answer from facts in a second."""
LOADED = re.compile(r"'(/[^']+\.(?:pyc|so))'")
"""Files in what `python -v` says."""
MINIMAL_APP = '''
import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer()


@app.command()
def show(rows: int = 9) -> None:
    """Print one table."""
    table = Table(title="rows")
    for name in ("draft", "size", "score", "reason"):
        table.add_column(name)
    for row in range(rows):
        table.add_row(f"draft {row}", "1B", "90", "fits")
    Console().print(table)


@app.command()
def other(name: str) -> None:
    """Do nothing."""


if __name__ == "__main__":
    app()
'''
JUDGE_ALL = """
import gc
import time
from draftpick.advice import recommend
from draftpick.catalog import load
from draftpick.pair import Setting
gc.disable()  # as the command does
catalog = load()
target = catalog.find("{target}")
best = None
for _ in range(5):
    fresh = load()
    start = time.perf_counter()
    advice = recommend(target, Setting(engine=fresh.engine("vllm")), fresh, None, everything=True)
    seconds = time.perf_counter() - start
    best = seconds if best is None else min(best, seconds)
print(len(advice.assessments), best)
"""


def cpu_seconds(command: list[str], terminal: bool) -> float:
    """User and system seconds of one run; its output goes to a terminal or to a pipe, and is read to the end."""
    if terminal:
        reader, writer = os.openpty()
    else:
        reader, writer = os.pipe()
    drain = threading.Thread(target=_read_to_the_end, args=(reader,))
    drain.start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=writer, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.close(writer)
    drain.join()
    os.close(reader)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _read_to_the_end(reader: int) -> None:
    try:
        while os.read(reader, 65536):
            pass
    except OSError:
        # Linux says so when the last writer of a terminal is gone.
        return


def start_up() -> Told:
    """What `recommend` takes, and how long the whole catalogue is judged."""
    compileall.compile_dir(PACKAGE, quiet=1, force=True)
    return Told(
        [*against_minimal(), *waiting(), catalogue()],
        [
            f"CPU seconds are medians of {PAIRS} pairs run in turn; seconds on the clock are medians of {STARTS} runs. "
            "Cold: what Python loads is read from the disk again, the interpreter itself aside.",
        ],
    )


def against_minimal() -> Iterator[Figure]:
    """CPU seconds beside those of an app that prints one table."""
    with tempfile.TemporaryDirectory() as folder:
        minimal = Path(folder) / "minimal.py"
        minimal.write_text(MINIMAL_APP)
        theirs = [sys.executable, str(minimal), "show"]
        for terminal in (False, True):
            for command in (OURS, theirs):
                cpu_seconds(command, terminal)
            pairs = [(cpu_seconds(OURS, terminal), cpu_seconds(theirs, terminal)) for _ in range(PAIRS)]
            ours, app = (statistics.median(column) for column in zip(*pairs, strict=True))
            where = "a terminal" if terminal else "a pipe"
            yield Figure(f"CPU seconds, into {where}: recommend {TARGET}", f"{ours:.3f} s")
            yield Figure(f"CPU seconds, into {where}: a minimal typer app, one table of nine rows", f"{app:.3f} s")
            yield Figure(f"the one over the other, into {where}", f"{ours / app:.2f}", "1.30", ours <= 1.3 * app)


def waiting() -> Iterator[Figure]:
    """Seconds on the clock."""
    warm = statistics.median(clock_seconds(OURS) for _ in range(STARTS))
    yield Figure(f"seconds on the clock, warm: recommend {TARGET}", f"{warm:.3f} s", f"{SECONDS:g} s", warm <= SECONDS)
    if not hasattr(os, "posix_fadvise"):
        yield Figure("the same, cold", "not measured: this system lets no program empty the file cache")
        return
    said = subprocess.run([OURS[0], "-v", *OURS[1:]], capture_output=True, text=True, check=False).stderr
    files = [Path(name) for name in dict.fromkeys(LOADED.findall(said))]
    files += [path for path in (PACKAGE / "_data").rglob("*") if path.is_file()]
    times = []
    for _ in range(STARTS):
        forget(files)
        times.append(clock_seconds(OURS))
    cold = statistics.median(times)
    yield Figure(f"the same, cold ({len(files)} files)", f"{cold:.3f} s", f"{SECONDS:g} s", cold <= SECONDS)
    with tempfile.TemporaryDirectory() as empty:
        first = clock_seconds(OURS, {"PYTHONPYCACHEPREFIX": empty})
    yield Figure("the very first run after an installation without byte-code", f"{first:.3f} s")


def clock_seconds(command: list[str], more: dict[str, str] | None = None) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env={**os.environ, **(more or {})})
    return time.perf_counter() - begun


def forget(files: list[Path]) -> None:
    """Push files out of the file cache."""
    os.sync()  # what is not written yet stays
    for path in files:
        number = os.open(path, os.O_RDONLY)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def catalogue() -> Figure:
    """Seconds for every draft of the catalogue."""
    judged = subprocess.run(
        [sys.executable, "-c", JUDGE_ALL.format(target=TARGET)], capture_output=True, text=True, check=True
    )
    number, seconds = judged.stdout.split()
    return Figure(
        f"whole catalogue judged as candidates: {number}", f"{float(seconds):.3f} s", "0.200 s", float(seconds) <= 0.2
    )


def main() -> None:
    options = records.parser(__doc__).parse_args()
    print(records.software())
    records.run({"start-up": start_up}, options.keep)


if __name__ == "__main__":
    main()
