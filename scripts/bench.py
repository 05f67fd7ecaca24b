"""Start-up and ranking time: `recommend` against a minimal typer app, and the whole catalogue as candidates.

CPU seconds (user + sys) of whole processes, medians of ten pairs run in turn, byte-code present, file cache warm.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TARGET = "meta-llama/Llama-3.1-70B-Instruct"
PAIRS = 10
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


def main() -> None:
    import draftpick

    compileall.compile_dir(Path(draftpick.__file__).parent, quiet=1, force=True)
    import typer

    print(
        f"typer {typer.__version__}, Python {sys.version.split()[0]}, {PAIRS} pairs, CPU seconds (user + sys), medians"
    )
    with tempfile.TemporaryDirectory() as folder:
        minimal = Path(folder) / "minimal.py"
        minimal.write_text(MINIMAL_APP)
        ours = [sys.executable, "-m", "draftpick", "recommend", TARGET]
        theirs = [sys.executable, str(minimal), "show"]
        for terminal in (False, True):
            for command in (ours, theirs):
                cpu_seconds(command, terminal)
            pairs = [(cpu_seconds(ours, terminal), cpu_seconds(theirs, terminal)) for _ in range(PAIRS)]
            recommend, minimal_app = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(f"into a {'terminal' if terminal else 'pipe'}:")
            print(f"  draftpick recommend {TARGET}: {recommend:.3f} s")
            print(f"  minimal typer app, one table of nine rows: {minimal_app:.3f} s")
            print(f"  ratio of medians: {recommend / minimal_app:.2f} (at most 1.30)")
    start = time.perf_counter()
    judged = subprocess.run(
        [sys.executable, "-c", JUDGE_ALL.format(target=TARGET)], capture_output=True, text=True, check=True
    )
    number, seconds = judged.stdout.split()
    print(f"whole catalogue judged as candidates: {number} in {float(seconds):.3f} s (at most 0.200)")
    print(f"(the benchmark itself took {time.perf_counter() - start:.1f} s for that)")


if __name__ == "__main__":
    main()
