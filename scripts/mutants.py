"""Mutation testing: change one place of the code at a time, and see whether a test notices.

    python scripts/mutants.py [--sample 60] [--seed 1] [PART …]

Parts and their tests are in mutants.toml. Everything happens in a copy of the tree under build/mutants. The tests run
once on the sound code, to know which test runs which line; then every sampled mutant is written into the copy, and the
tests that reach its line run in a fork of this process, which has imported what is slow to import. A mutant that none
of them notices is tried again on quick tests that reach its file. One that runs out of time or memory is noticed.
With a survivor stand the tests that reach its line and could not be run.

mutmut leaves decorated functions alone, which all rules are; cosmic-ray starts an interpreter per mutant, which is
seconds before the first test. So this is a program of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import coverage
import pytest
from mutations import Mutation, mutations

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "mutants"
COPY = BUILD / "tree"
SLOW_TO_IMPORT = (
    "hypothesis", "numpy", "pydantic", "pandas", "huggingface_hub", "typer.testing", "torch", "transformers",
    "anyio.pytest_plugin", "_hypothesis_pytestplugin", "platformdirs",
)  # fmt: skip
MEMORY = 8 << 30
"""Bytes of data a trial may have: torch alone maps some."""
NEAR = 6.0
"""Seconds of tests that only come near the changed line."""
NOT_RUN = "not run, as the changed code has no such test: "
ARGUMENTS = "-q --no-header --tb=no -p no:xdist -p no:pytest_cov -W ignore::pytest.PytestAssertRewriteWarning".split()  # noqa: SIM905


class Part(NamedTuple):
    """What is changed, and what should notice."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    kept: tuple[str, ...]


class Reach(NamedTuple):
    """What the tests of a part do on the sound code."""

    seconds: dict[str, float]
    """Per test."""
    lines: dict[str, dict[int, set[str]]]
    """File → line → the tests that run it."""
    kept: dict[str, str]
    """Fixture → the path it gave."""

    def of(self, mutation: Mutation) -> list[str]:
        """The tests that run the changed statement."""
        lines = self.lines.get(mutation.path, {})
        return self.quickest({test for line in mutation.lines for test in lines.get(line, ())})

    def near(self, mutation: Mutation) -> list[str]:
        """Quick tests that run another line of its file: what a cache or a fixture runs is known of one test alone."""
        tests = {test for tests in self.lines.get(mutation.path, {}).values() for test in tests}
        quick = self.quickest(tests - set(self.of(mutation)))
        sums = accumulate(self.seconds[test] for test in quick)
        return [test for test, total in zip(quick, sums, strict=True) if total < NEAR]

    def quickest(self, tests: Iterable[str]) -> list[str]:
        """The quickest first."""
        return sorted(tests, key=lambda test: (self.seconds[test], test))


class Trial(NamedTuple):
    mutation: Mutation
    survived: bool
    not_run: tuple[str, ...] = ()
    """Tests that reach the line on the sound code, and are none with the changed code."""


# The sound code.


def copied() -> None:
    """A tree of its own: the files git knows or would take, and the compiled catalogue."""
    shutil.rmtree(BUILD, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    shutil.copytree(ROOT / "draftpick" / "_data", COPY / "draftpick" / "_data", dirs_exist_ok=True)


class Watch:
    """A plugin of pytest that notes what each test runs, and keeps what some fixtures gave."""

    def __init__(self, recorder: coverage.Coverage, kept: Sequence[str]) -> None:
        self._recorder, self._keep = recorder, kept
        self.seconds: Counter[str] = Counter()
        self.kept: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._recorder.switch_context(item.nodeid)
        started = time.monotonic()
        result = yield
        self.seconds[item.nodeid] += time.monotonic() - started
        self._recorder.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        result = yield
        if fixturedef.argname in self._keep:
            self.kept[fixturedef.argname] = str(result)
        return result


class Chosen:
    """A plugin of pytest that runs some tests in this order, with fixtures that were made before.

    A test whose id holds what the mutant changed has another id there: where one is missing, those of its function
    that the sound code does not have run instead. One that has none is named in the log.
    """

    def __init__(self, tests: Sequence[str], known: Reach) -> None:
        self._places, self._known = {test: place for place, test in enumerate(tests)}, known

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = dict(self._places)
        new: dict[str, list[str]] = {}
        for item in items:
            if item.nodeid not in self._known.seconds:
                new.setdefault(_function(item.nodeid), []).append(item.nodeid)
        for test in places.keys() - {item.nodeid for item in items}:
            instead = new.get(_function(test), [])
            places |= {other: min(places[test], places.get(other, places[test])) for other in instead}
            if not instead:
                print(f"{NOT_RUN}{test}")
        items[:] = sorted((i for i in items if i.nodeid in places), key=lambda i: places[i.nodeid])

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Path | None:
        if fixturedef.argname not in self._known.kept:
            return None
        value = Path(self._known.kept[fixturedef.argname])
        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
        return value


def _function(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


class Steady:
    """A plugin of pytest that makes hypothesis try the same examples every time, and not look for smaller ones."""

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("draftpick"), derandomize=True, phases=phases)
        settings.load_profile("mutants")


def forked(work: Callable[[], int], seconds: float, log: Path) -> int | None:
    """The exit code of some work in a process of its own in the copy; None where it ran out of time or crashed."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(COPY)
            sys.path[:0] = [str(COPY)]
            os.environ.update(PYTHONPATH=str(COPY), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    until = time.monotonic() + seconds
    status: int | None = None
    while status is None and time.monotonic() < until:
        ended, how = os.waitpid(child, os.WNOHANG)
        status = how if ended else None
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return None
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def reach(part: Part) -> Reach:
    """Runs the tests of a part on the sound code. Ends the program where one fails."""
    found = BUILD / f"{part.name}.json"

    def work() -> int:
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        recorder = coverage.Coverage(data_file=None, include=[str(COPY / "draftpick" / "*")], config_file=False)
        watch = Watch(recorder, part.kept)
        recorder.start()
        base = f"--basetemp={BUILD / 'kept' / part.name}"
        (BUILD / "kept").mkdir(exist_ok=True)
        code = pytest.main([*ARGUMENTS, base, *part.tests], [watch, Steady()])
        recorder.stop()
        data = recorder.get_data()
        lines = {
            str(Path(path).relative_to(COPY)): {
                line: [test for test in tests if test] for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        found.write_text(json.dumps({"seconds": watch.seconds, "lines": lines, "kept": watch.kept}), encoding="utf-8")
        return int(code)

    log = BUILD / f"{part.name}.log"
    if (code := forked(work, 900, log)) != 0:
        sys.exit(f"The tests of {part.name} fail on the sound code (exit code {code}): see {log}")
    saved = json.loads(found.read_text(encoding="utf-8"))
    lines = {
        path: {int(line): set(tests) for line, tests in of_lines.items()} for path, of_lines in saved["lines"].items()
    }
    known = Reach(saved["seconds"], lines, saved["kept"])
    if notices(known.quickest(known.seconds), known):
        sys.exit(f"The tests of {part.name} fail on the sound code in another order: see {BUILD / 'trial.log'}")
    return known


# The changed code.


def notices(tests: Sequence[str], known: Reach) -> bool:
    """Whether one of these tests fails in the copy as it is now."""
    if not tests:
        return False

    def work() -> int:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        base = f"--basetemp={BUILD / 'trial'}"
        return int(pytest.main([*ARGUMENTS, "-x", base, *files], [Chosen(tests, known), Steady()]))

    seconds = 15 + 5 * sum(known.seconds[test] for test in tests)
    code = forked(work, seconds, BUILD / "trial.log")
    if code not in (0, 1, 2, 3, 5, None):
        sys.exit(f"A trial went wrong (exit code {code}): see {BUILD / 'trial.log'}")
    return code not in (0, 5)  # 5: none of them is a test any more


def tried(mutation: Mutation, known: Reach) -> Trial:
    """Writes the mutant into the copy, runs the tests, and puts the sound file back."""
    path = COPY / mutation.path
    sound, stat = path.read_text(encoding="utf-8"), path.stat()
    changed = mutation.applied(sound)
    compile(changed, mutation.path, "exec")  # a mutant that is no program would prove nothing
    path.write_text(changed, encoding="utf-8")
    try:
        noticed, not_run = notices(known.of(mutation), known), ()
        if not noticed:
            not_run = tests_not_run() if known.of(mutation) else ()
            noticed = notices(known.near(mutation), known)
    finally:
        path.write_text(sound, encoding="utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # its bytecode is valid again
    return Trial(mutation, not noticed, not_run)


def tests_not_run() -> tuple[str, ...]:
    """The chosen tests that the last trial did not have."""
    lines = (BUILD / "trial.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line.removeprefix(NOT_RUN) for line in lines if line.startswith(NOT_RUN))


def tried_all(part: Part, sample: Sequence[Mutation]) -> list[Trial]:
    """Tries the mutants one after another; a dot or an s tells of each."""
    known = reach(part)
    started, trials = time.monotonic(), []
    for mutation in sample:
        trials.append(tried(mutation, known))
        print("s" if trials[-1].survived else ".", end="", file=sys.stderr, flush=True)
    print(f" {part.name}: {(time.monotonic() - started) / len(trials):.1f} s each", file=sys.stderr)
    return trials


# What is said.


def share(killed: int, of: int) -> tuple[float, float, float]:
    """A share with its 95 % interval, Wilson's."""
    z = NormalDist().inv_cdf(0.975)
    value = killed / of
    middle, half = value + z * z / (2 * of), z * (value * (1 - value) / of + z * z / (4 * of * of)) ** 0.5
    return value, (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def row(name: str, everything: int, trials: Sequence[Trial]) -> str:
    survived = sum(trial.survived for trial in trials)
    value, low, high = share(len(trials) - survived, len(trials))
    figures = f"{everything:7} {len(trials):7} {len(trials) - survived:6} {survived:8}"
    return f"{name:12} {figures}   {value:.1%} ({low:.1%} to {high:.1%})"


def told(part: Part, trials: Sequence[Trial]) -> str:
    """The survivors of a part, for people to read."""
    return "".join(
        f"{part.name}: {trial.mutation.path}, {trial.mutation.operator}\n"
        f"{trial.mutation.difference((COPY / trial.mutation.path).read_text(encoding='utf-8'))}\n"
        f"{''.join(f'{NOT_RUN}{test}{chr(10)}' for test in trial.not_run)}\n"
        for trial in trials
        if trial.survived
    )


def of_part(part: Part, equivalent: Sequence[dict[str, str]]) -> list[Mutation]:
    """All mutants of a part but for those that are proven to change nothing."""
    names = sorted({path.relative_to(COPY).as_posix() for pattern in part.files for path in COPY.glob(pattern)})
    found = []
    for name in names:
        source = (COPY / name).read_text(encoding="utf-8")
        changes = [(one["was"], one["becomes"]) for one in equivalent if one["file"] == name]
        for mutation in mutations(name, source):
            difference = mutation.difference(source).splitlines()
            if not any(
                f"-{was}" in _bare(difference) and f"+{becomes}" in _bare(difference) for was, becomes in changes
            ):
                found.append(mutation)
    return found


def _bare(difference: Sequence[str]) -> list[str]:
    return [line[0] + line[1:].strip() for line in difference if line[0] in "+-"]


def main() -> None:
    settings = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    parts = [
        Part(name, tuple(one["files"]), tuple(one["tests"]), tuple(one.get("kept", ())))
        for name, one in settings["parts"].items()
    ]
    parser = argparse.ArgumentParser(description="Change the code, and see whether a test notices.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(part.name for part in parts))
    parser.add_argument("--sample", type=int, default=60, help="mutants of each part")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wanted = [part for part in parts if not asked.parts or part.name in asked.parts]
    copied()
    for name in SLOW_TO_IMPORT:
        importlib.import_module(name)
    gc.freeze()  # else every fork looks through all of it
    rows, survivors = ["part         mutants sampled killed survived   share killed, 95 % interval"], ""
    for part in wanted:
        everything = of_part(part, settings.get("equivalent", []))
        chance = random.Random(f"{asked.seed} {part.name}")
        trials = tried_all(part, sorted(chance.sample(everything, min(asked.sample, len(everything)))))
        rows.append(row(part.name, len(everything), trials))
        survivors += told(part, trials)
        (BUILD / "survivors.txt").write_text(survivors, encoding="utf-8")
    print("\n".join(rows))
    print(f"The survivors are in {(BUILD / 'survivors.txt').relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
