"""What an on-call engineer meets: commands killed at any moment, full disks, streams that are closed, no home.

`make test-faults` tries every moment, `make test` some of them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import command, environment, run
from dying import Ended, Runs, runs

from draftpick.probing import trace as traces

EVERY = bool(os.environ.get("DRAFTPICK_FAULTS"))
ROOT = Path(__file__).parent.parent
DEMO = ROOT / "catalog" / "demo"
TARGET, DRAFT = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

LOADED = (
    "draftpick.cli",
    "draftpick.report.table",
    "draftpick.report.json",
    "draftpick.report.saved",
    "draftpick.report.markdown",
    "draftpick.gating.command",
    "draftpick.overlay",
    "draftpick.doctor",
)


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs(tmp_path_factory.mktemp("dying"), environment(OMP_NUM_THREADS="1"), *LOADED) as one:
        yield one


def moments(last: int, few: int) -> list[int]:
    """The numbers up to `last`, or a few of them."""
    return list(range(1, last + 1)) if EVERY else sorted(random.Random(0).sample(range(1, last + 1), min(few, last)))


def names(folder: Path) -> list[str]:
    """All files and folders below, as far as they are there."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def unfinished(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".draftpick")]


# ---------------------------------------------------------------------- inputs

POLICY = f"""
baseline = "baseline.json"
[[pair]]
name = "demo"
target = "{DEMO / "target"}"
draft = "{DEMO / "draft"}"
evidence = "probe.json"
[pair.policy]
min_acceptance_rate = 0.01
"""
MEASURE = ("probe", str(DEMO / "target"), str(DEMO / "draft"), "--prompts", str(DEMO / "prompts.jsonl"), "--exit-zero")
MEASURE += ("--precision", "0", "--costs", "roofline", "-o")
PROBE = (*MEASURE, "probe.json", "--num-prompts", "3", "--batch-size", "1", "--max-new-tokens", "8")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what commands read: an advice, a probe with its trace, metrics, a policy, an overlay."""
    folder = tmp_path_factory.mktemp("inputs")
    assert run("recommend", TARGET, "--engine", "vllm", "--json", "-o", str(folder / "advice.json")).exit_code == 0
    found = run(*MEASURE, str(folder / "probe.json"), "--num-prompts", "40", "--max-new-tokens", "32")
    assert found.exit_code == 0, found.stderr
    shutil.copy(ROOT / "tests" / "scrapes" / "vllm-0.32.0-first.txt", folder / "metrics.txt")
    (folder / "pairs.toml").write_text(POLICY, encoding="utf-8")
    assert run("catalog", "add", DRAFT, "--id", "me/first", "--catalog", str(folder / "mine")).exit_code == 0
    return folder


@pytest.fixture
def here(inputs: Path, tmp_path: Path) -> Path:
    """A copy of the inputs, to work in."""
    return Path(shutil.copytree(inputs, tmp_path / "here"))


# ---------------------------------------------------------------------- killed

WRITERS: dict[str, tuple[Sequence[str], str, int]] = {
    "-o": (("catalog", "show", TARGET, "-o", "shown.txt"), "shown.txt", 9),
    "overlay": (("catalog", "add", str(DEMO / "draft"), "--id", "me/second", "--catalog", "mine"), "mine", 6),
    "baseline": (("gate", "--update-baseline", "-o", "result.txt"), "baseline.json", 5),
}
"""Words, what they write, and how many moments are enough for a quick look."""


def content(folder: Path, place: str) -> dict[str, bytes]:
    """The files of that name, or below the folder of that name, less what is not finished."""
    files = [path for path in (folder, *folder.rglob("*")) if path.is_file()]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: data for name, data in found.items() if name.startswith(place) and not name.endswith(".draftpick")}


def put_back(folder: Path, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    for name in new.keys() - old.keys():
        (folder / name).unlink(missing_ok=True)
    for name, data in old.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_leaves_the_old_file_or_the_new_one(name: str, dying: Runs, here: Path) -> None:
    words, place, few = WRITERS[name]
    old = content(here, place)
    whole = dying(here, words)
    assert whole.code == 0, whole.stderr
    assert whole.operations > 5
    new = content(here, place)
    assert new != old
    for moment in moments(whole.operations, few):
        put_back(here, old, new)
        assert dying(here, words, at=moment).code == -signal.SIGKILL
        for left, data in content(here, place).items():
            assert data in (old.get(left), new[left]), f"{left} after {moment} of {whole.operations}"
        assert len(unfinished(here)) <= 1, "what the runs before left is gone"
        if name == "overlay":
            assert run("catalog", "validate", str(here / "mine")).exit_code == 0
    assert dying(here, words).code == 0
    assert content(here, place) == new
    assert unfinished(here) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", WRITERS)
def test_a_signal_at_any_moment_ends_with_130_and_leaves_nothing(
    name: str, sent: signal.Signals, dying: Runs, here: Path
) -> None:
    words, place, _ = WRITERS[name]
    old = content(here, place)
    last = dying(here, words, reads=True).operations
    new = content(here, place)
    for moment in moments(last, 1):
        put_back(here, old, new)
        ended = dying(here, words, at=moment, sent=sent, reads=True)
        assert (ended.code, "rror" in ended.stderr) == (130, False), (moment, ended)
        assert unfinished(here) == []
        assert all(data in (old.get(left), new[left]) for left, data in content(here, place).items())


def figures(folder: Path) -> Any:
    return json.loads((folder / "probe.json").read_text(encoding="utf-8"))["drafts"]


@pytest.fixture(scope="module")
def probing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("probing")
    with runs(folder, environment(OMP_NUM_THREADS="1"), "draftpick.cli") as one:
        one.warm_up(folder, PROBE)
        yield one


def test_a_killed_probe_goes_on_to_the_same_figures(probing: Runs, tmp_path: Path) -> None:
    whole = probing(tmp_path, PROBE)
    assert whole.code == 0, whole.stderr
    trace = (tmp_path / "probe.trace.jsonl").read_bytes()
    for moment in moments(whole.operations, 2):
        folder = tmp_path / str(moment)
        folder.mkdir()
        assert probing(folder, PROBE, at=moment).code == -signal.SIGKILL
        goes_on(probing, folder, trace, tmp_path)
    # Cut as a kill cuts a write: nothing, a part of the header, of an answer, all but the last byte.
    header = trace.index(b"\n") + 1
    sizes = [0, 1, header - 1, header, header + 99, len(trace) - 1]
    for size in sizes if EVERY else sizes[2::2]:
        folder = tmp_path / f"torn-{size}"
        folder.mkdir()
        (folder / "probe.trace.jsonl").write_bytes(trace[:size])
        goes_on(probing, folder, trace, tmp_path)


def goes_on(probing: Runs, folder: Path, trace: bytes, undisturbed: Path) -> None:
    ended = probing(folder, [*PROBE, "--resume"])
    assert ended.code == 0, ended.stderr
    assert (folder / "probe.trace.jsonl").read_bytes() == trace
    assert figures(folder) == figures(undisturbed)
    assert names(folder) == ["probe.json", "probe.trace.jsonl"]


def test_what_a_run_left_that_never_began_needs_no_resume(probing: Runs, tmp_path: Path) -> None:
    (tmp_path / "probe.trace.jsonl").write_bytes(b'{"draftpick_trace":1,"target":')
    assert probing(tmp_path, PROBE).code == 0


def test_a_clock_that_goes_back_changes_no_figure(probing: Runs, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "back").mkdir()
    assert probing(tmp_path / "plain", PROBE).code == probing(tmp_path / "back", PROBE, around=["clock back"]).code == 0
    assert figures(tmp_path / "plain") == figures(tmp_path / "back")


MEASURING = POLICY.replace(
    'evidence = "probe.json"', f'probe = true\nprompts = "{DEMO / "prompts.jsonl"}"\nmax_new_tokens = 2'
)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_gate_that_is_ended_while_it_measures_leaves_no_half_probe(
    sent: signal.Signals, probing: Runs, inputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "pairs.toml").write_text(MEASURING, encoding="utf-8")
    before = (inputs / "probe.json").read_bytes()
    (tmp_path / "gate-demo.json").write_bytes(before)
    ended = probing(tmp_path, ("gate", "-q"), at=8, sent=sent)
    assert ended.code == (130 if sent == signal.SIGTERM else -signal.SIGKILL)
    assert (tmp_path / "gate-demo.json").read_bytes() == before
    assert len([name for name in unfinished(tmp_path) if "/" not in name]) == (sent == signal.SIGKILL)
    again = probing(tmp_path, ("gate", "-q"))
    assert again.code in (0, 1, 3)
    assert names(tmp_path) == ["gate-demo.json", "gate-demo.trace.jsonl", "pairs.toml"], again.stderr
    assert traces.read(tmp_path / "gate-demo.trace.jsonl").rows


# ---------------------------------------------------------------------- two at once


def test_a_trace_that_grew_after_it_was_read_is_left_alone(inputs: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    shutil.copy(inputs / "probe.trace.jsonl", path)
    seen = traces.read(path)
    with open(path, "ab") as other:
        other.write(path.read_bytes().splitlines(keepends=True)[-1])
    whole = path.read_bytes()
    with pytest.raises(traces.CannotWrite, match="another run is writing it"):
        traces.Writer(path, seen.header, keep=seen)
    assert path.read_bytes() == whole


def test_of_two_that_begin_a_trace_one_is_told(tmp_path: Path) -> None:
    header = {"drafts": [], "temperatures": [0.0]}
    with traces.Writer(tmp_path / "t", header):
        with pytest.raises(traces.CannotWrite, match="another run is writing it"):
            traces.Writer(tmp_path / "t", header)
        assert names(tmp_path) == ["t"], "the other's trace is not taken away"
    assert names(tmp_path) == []


def test_two_baselines_at_once_are_both_there(inputs: Path, here: Path) -> None:
    second = (here / "pairs.toml").read_text(encoding="utf-8").partition("[[pair]]")[2].replace("demo", "other", 1)
    with open(here / "pairs.toml", "a", encoding="utf-8") as file:
        file.write("[[pair]]" + second)
    words = command("gate", "--update-baseline", "-q")
    running = [subprocess.Popen(words, cwd=here, env=environment(), stdout=-1, stderr=-1) for _ in range(2)]
    ended = [(*one.communicate(timeout=60), one.returncode) for one in running]
    assert [code for *_, code in ended] == [0, 0], ended
    assert sorted(json.loads((here / "baseline.json").read_text())["pairs"]) == ["demo", "other"]
    assert unfinished(here) == []


# ---------------------------------------------------------------------- every command in odd surroundings

COMMANDS: dict[str, Sequence[str]] = {
    "recommend": ("recommend", TARGET),
    "check": ("check", TARGET, DRAFT),
    "plan": ("plan", "probe.json", "--exit-zero"),
    "launch": ("launch", "advice.json", "--exit-zero"),
    "gate": ("gate", "--exit-zero", "--format", "junit"),
    "gate --init": ("gate", "--init", "advice.json"),
    "observe": ("observe", "--file", "metrics.txt", "--exit-zero"),
    "report": ("report", "advice.json"),
    "rules": ("rules",),
    "list": ("catalog", "list"),
    "show": ("catalog", "show", TARGET),
    "validate": ("catalog", "validate", "mine"),
    "add": ("catalog", "add", DRAFT, "--catalog", "mine"),
}
WITH_OUTPUT = [name for name in COMMANDS if name not in ("rules", "validate", "add")]


@pytest.fixture(scope="module")
def usual(dying: Runs, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    folder = shutil.copytree(inputs, tmp_path_factory.mktemp("usual") / "here")
    return {name: dying(Path(folder), words) for name, words in COMMANDS.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_nobody_reads_changes_no_answer(name: str, dying: Runs, here: Path, usual: dict[str, Ended]) -> None:
    assert usual[name].code in (0, 1)
    closed = dying(here, COMMANDS[name], around=["stdin closed", "stdout closed", "stderr closed"])
    assert closed.code == usual[name].code
    for stderr in ("stderr full", "stderr unread"):
        odd = dying(here, COMMANDS[name], around=["stdin closed", stderr, "few files"])
        assert (odd.code, odd.stdout, odd.stderr) == (usual[name].code, usual[name].stdout, "")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "add"])
def test_a_stdout_that_is_full_or_unread(name: str, dying: Runs, here: Path) -> None:
    full = dying(here, COMMANDS[name], around=["stdout full"])
    assert full.code == 3
    assert full.stderr.splitlines()[-2] == "error: stdout: No space left on device"
    unread = dying(here, COMMANDS[name], around=["stdout unread"])
    assert (unread.code, "rror" in unread.stderr) == (0, False)


@pytest.mark.parametrize("name", WITH_OUTPUT if EVERY else WITH_OUTPUT[::4])
def test_no_room_keeps_the_old_output(name: str, dying: Runs, here: Path) -> None:
    (here / "out.txt").write_text("old")
    before = names(here)
    full = subprocess.run(
        [sys.executable, "-c", NO_ROOM, *COMMANDS[name], "-o", "out.txt"],
        cwd=here, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (full.returncode, full.stdout) == (3, "")
    assert full.stderr.startswith("error: out.txt: File too large\nhint: free some space")
    assert (here / "out.txt").read_text() == "old"
    assert names(here) == before


NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from draftpick.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("words", "place"),
    [(WRITERS["overlay"][0], "mine"), (("gate", "--update-baseline"), "baseline.json")],
    ids=["overlay", "baseline"],
)
def test_no_room_keeps_the_old_overlay_and_baseline(words: Sequence[str], place: str, here: Path) -> None:
    before = content(here, place)
    full = subprocess.run(
        [sys.executable, "-c", NO_ROOM, *words],
        cwd=here,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 3
    assert "File too large" in full.stderr
    assert content(here, place) == before
    assert unfinished(here) == []


PLACES = {
    "no home": {"HOME": None},
    "a home that is gone": {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"},
    "relative": {"XDG_CONFIG_HOME": "relative", "XDG_CACHE_HOME": "relative"},
    "empty": {"XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "TERM": None, "TMPDIR": "/nonexistent"},
}


@pytest.mark.parametrize("place", PLACES)
def test_no_command_needs_a_home(place: str, dying: Runs, here: Path, usual: dict[str, Ended]) -> None:
    before = names(here)
    for name in ("recommend", "list"):
        odd = dying(here, COMMANDS[name], variables=PLACES[place])
        assert (odd.code, odd.stdout, odd.stderr) == (usual[name].code, usual[name].stdout, usual[name].stderr)
    assert names(here) == before


def test_an_overlay_is_never_looked_for_in_a_relative_folder(dying: Runs, here: Path) -> None:
    shutil.copytree(here / "mine", here / "relative" / "draftpick" / "catalog")
    assert dying(here, ("catalog", "show", "me/first"), variables={"XDG_CONFIG_HOME": "relative"}).code == 2


@pytest.mark.parametrize("columns", ["0", "1", "100000"])
def test_a_terminal_of_any_width(columns: str, here: Path) -> None:
    import pty

    reader, terminal = pty.openpty()
    around = environment(COLUMNS=columns, TERM="dumb")
    with subprocess.Popen(
        command("launch", "advice.json"), cwd=here, env=around, stdout=terminal, stderr=terminal
    ) as one:
        os.close(terminal)
        assert one.wait(30) == 0
    os.close(reader)


# ---------------------------------------------------------------------- places where nothing can be written


def test_a_probe_in_a_folder_that_is_gone_is_told(probing: Runs, tmp_path: Path) -> None:
    words = [*PROBE[: PROBE.index("-o")], "-o", str(tmp_path / "probe.json")]
    ended = probing(tmp_path, words, around=["folder gone"])
    assert (ended.code, ended.stderr.splitlines()[0]) == (3, "error: the folder that draftpick was started in is gone")


def test_a_probe_without_room_for_temporary_files_is_told(tmp_path: Path) -> None:
    full = subprocess.run(
        [sys.executable, "-c", NO_ROOM, *PROBE],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 3
    assert full.stderr.startswith("error: No usable temporary directory found in ")
    assert "hint: free some space there, or name another folder with TMPDIR" in full.stderr


def as_nobody(folder: Path, *words: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Run as a user whom the machine does not know, whose permissions count, and who has no home."""
    unshare = ["unshare", "--user", "--map-user=12345"]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine makes no other users")
    around = {name: value for name, value in environment().items() if name != "HOME"}
    return subprocess.run(
        [*unshare, *command(*words)], cwd=folder, env=around, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("recommend", TARGET, "-o", "out.txt"), "out.txt: Permission denied"),
        (("catalog", "add", DRAFT, "--catalog", "mine"), "Permission denied"),
        (PROBE, "probe.trace.jsonl: nothing can be written there"),
    ],
    ids=["-o", "overlay", "probe"],
)
def test_a_folder_that_cannot_be_written_is_told_before_minutes_are_spent(
    words: Sequence[str], said: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o555)
    ended = as_nobody(tmp_path, *words)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert said in ended.stderr.splitlines()[0]
    assert "loading" not in ended.stderr


def test_a_user_without_a_home_is_told_where_rows_could_go(tmp_path: Path) -> None:
    ended = as_nobody(tmp_path, "catalog", "add", DRAFT)
    assert (ended.returncode, names(tmp_path)) == (2, [])
    assert "hint: name a folder with --catalog" in ended.stderr
    assert as_nobody(tmp_path, "recommend", TARGET).returncode == 0
