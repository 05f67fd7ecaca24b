"""The command from outside: names, streams, files and environments that nobody meant well. Each run is a process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = "Qwen/Qwen3-32B"
CPU_SECONDS = 4
"""A run takes a fifth of one."""
SECONDS = 60.0
"""By the clock on the wall: a machine may be busy."""
COMMAND = [sys.executable, "-m", "draftpick"]
LONGEST = 700


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE") if name in os.environ}
    return {**kept, "HOME": str(home), "HF_HUB_OFFLINE": "1", "LANG": "C.UTF-8", **more}


def bounded() -> None:
    """Runs in a new process before its command."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def run(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A finished run; whatever it was asked, it must end in time and without a traceback."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env=environment(home, **more),
        cwd=home,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        preexec_fn=bounded,
    )
    assert "Traceback" not in done.stderr
    return done


def shell(home: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A run as a shell starts it; `draftpick` in the line stands for the command."""
    command = line.replace("draftpick", " ".join(COMMAND), 1)
    return subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        preexec_fn=bounded,
    )


def told(done: subprocess.CompletedProcess[str], code: int) -> None:
    """One line that says what is wrong, one that says what to do, both short and harmless to a terminal."""
    assert done.returncode == code
    assert done.stdout == ""
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert max(len(error), len(hint)) < LONGEST
    assert (error + hint).isprintable()


# -------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", 3),
        ("nope/nope", 3),
        ("\x1b[31mred\x1b[0m/x", 3),
        ("a\nb/c", 3),
        ("a/\u202egnp.exe", 3),
        ("x" * 100_000, 3),
        ("/" + "x/" * 3_000, 2),
        ("$(touch mark);`touch mark`", 3),
        ("..", 3),
        ("../../etc", 3),
        ("~", 3),
        ("~nobody-of-this-name/x", 3),
        ("https://huggingface.co/no/such", 3),
        ("C:\\models\\qwen", 3),
        ("/dev/zero", 2),
        ("/proc/self/mem", 2),
        ("models--a--b", 3),
        ("x.gguf", 3),
        ("x/\udcff", 3),
        ("[bold]x[/bold]/y", 3),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_name_that_is_no_model_is_told(name: str, code: int, tmp_path: Path) -> None:
    home = tmp_path / "home" / "deep"
    home.mkdir(parents=True)
    told(run(home, "recommend", name), code)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--engine", "vllm@" + "9" * 100_000],
        ["--engine", "vllm@"],
        ["--engine", "\x1b[31m"],
        ["--device", "x" * 100_000],
        ["--dtype", "\x1b[31m"],
        ["--ignore", "size-ratio"],
        ["--select", "x" * 100_000],
        ["--catalog", "/dev/zero"],
        ["--config", "/dev/zero"],
        ["--config", "/proc/self/mem"],
        ["--rules-file", "/dev/zero"],
    ],
    ids=lambda value: ascii(" ".join(value))[:40],
)
def test_an_option_that_means_nothing_is_told(arguments: list[str], tmp_path: Path) -> None:
    told(run(tmp_path, "recommend", TARGET, *arguments), 2)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "9" * 5_000])
def test_a_number_out_of_range_is_refused(value: str, tmp_path: Path) -> None:
    done = run(tmp_path, "recommend", TARGET, "--gpu-memory-utilization", value)
    assert done.returncode == 2
    assert "--gpu-memory-utilization" in done.stderr


@pytest.mark.parametrize(
    "version", ["banana", "b\u00b2", "\u00b2-1-1", "\u0663.\u0661", "0.0.1", "b1", "\x1b[31m"], ids=ascii
)
def test_any_version_is_answered(version: str, tmp_path: Path) -> None:
    done = run(tmp_path, "check", TARGET, "Qwen/Qwen3-0.6B", "--engine", f"llama.cpp@{version}", "--json")
    assert done.returncode in (0, 1)
    assert json.loads(done.stdout)["engine"] == {"id": "llama.cpp", "version": version}
    assert "\x1b" not in done.stdout


# -------------------------------------------------------------------- files of options and rules

TOML = {
    "long number": b"x = " + b"9" * 5_000,
    "long key": b"a." * 60_000 + b"b = 1",
    "long table": b"[" + b"a." * 60_000 + b"b]",
    "deep list": b"x = " + b"[" * 5_000,
    "deep table": b"x = " + b"{a=" * 5_000,
    "large": b"#" * 2_000_000,
    "no utf-8": b"x = '\xff\xfe'",
    "utf-16": "x = 1".encode("utf-16"),
    "zeros": b"\0" * 100,
    "many tables": b"".join(b"[t%d]\n" % number for number in range(30_000)),
    "escape": b"'\x1b[31m' = 1",
    "unknown key": b"'\\u001b[31m' = 1",
}


@pytest.mark.parametrize("option", ["--config", "--rules-file"])
@pytest.mark.parametrize("content", TOML.values(), ids=TOML)
def test_a_hostile_file_of_options_is_told(option: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    path.write_bytes(content)
    told(run(tmp_path, "recommend", TARGET, option, str(path)), 2)


@pytest.mark.parametrize("option", ["--config", "--rules-file"])
@pytest.mark.parametrize("make", ["folder", "pipe", "circle", "nothing"])
def test_what_is_no_file_of_options_is_told(option: str, make: str, tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    elif make == "circle":
        path.symlink_to(path)
    told(run(tmp_path, "recommend", TARGET, option, str(path)), 2)


# -------------------------------------------------------------------- overlays


def row(model_id: str, **keys: str) -> str:
    written = "".join(f"{key} = {value}\n" for key, value in keys.items())
    return f'[[model]]\nid = "{model_id}"\nsource = "s"\nchecked = 2026-10-31\n{written}'


def overlay(home: Path, name: str, content: str | bytes) -> str:
    path = home / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(home / "mine")


FAMILY = 'family = "Mine"\n'
TOKENIZER = 'source = "s"\nchecked = 2026-10-31\nconfidence = "recalled"\n'
OVERLAYS: dict[str, tuple[str, str | bytes]] = {
    "own ancestor": ("families/x.toml", FAMILY + row("me/x", lineage='{ base_model = "me/x" }')),
    "ancestor of each other": (
        "families/x.toml",
        FAMILY + row("me/x", lineage='{ base_model = "me/y" }') + row("me/y", lineage='{ base_model = "me/x" }'),
    ),
    "stolen alias": ("families/x.toml", FAMILY + row("me/x", aliases=f'["{TARGET}"]')),
    "negative": ("families/x.toml", FAMILY + row("me/x", hidden_size="-1")),
    "absurd": ("families/x.toml", FAMILY + row("me/x", num_hidden_layers=str(10**18))),
    "long number": ("families/x.toml", FAMILY + row("me/x", params_total="9" * 5_000)),
    "other type": ("families/x.toml", FAMILY + row("me/x", vocab_size='"many"')),
    "unknown key": ("families/x.toml", FAMILY + row("me/x", nonsense="1")),
    "escapes in the id": ("families/x.toml", FAMILY + row("me/\\u001b[31m")),
    "large": ("families/x.toml", "#" * 21_000_000),
    "utf-16": ("families/x.toml", FAMILY.encode("utf-16")),
    "no list": ("families/x.toml", FAMILY + "model = 5"),
    "sizes that multiply": (
        "families/x.toml",
        FAMILY + row("me/x", num_hidden_layers="10000", hidden_size="10_000_000", intermediate_size="10_000_000"),
    ),
    "more dense layers than layers": (
        "families/x.toml",
        FAMILY
        + row("me/x", num_hidden_layers="2", experts="{ num_experts = 4, experts_per_token = 2, dense_layers = 3 }"),
    ),
    "a head of very many tokens": (
        "families/x.toml",
        FAMILY
        + row("me/x", num_spec_tokens="1_000_000_000", method='"eagle3"', target=f'"{TARGET}"').replace(
            "model", "head"
        ),
    ),
    "a device that stands still": (
        "devices.toml",
        row("x", name='"X"', vendor='"x"', bandwidth="1").replace("model", "device").replace("id =", "key ="),
    ),
    "sketch that is no base64": ("tokenizers/x.toml", TOKENIZER + 'sketch = "AAAAA"'),
    "blocks that are no hex": ("tokenizers/x.toml", TOKENIZER + 'blocks = "zz"'),
}


@pytest.mark.parametrize("kind", OVERLAYS)
def test_a_hostile_overlay_is_told(kind: str, tmp_path: Path) -> None:
    name, content = OVERLAYS[kind]
    done = run(tmp_path, "recommend", TARGET, "--catalog", overlay(tmp_path, name, content))
    told(done, 2)
    assert name in done.stderr


def test_a_long_line_of_ancestors_is_followed_only_so_far(tmp_path: Path) -> None:
    lineage = '{{ base_model = "me/{:04}" }}'
    rows = "".join(row(f"me/{number:04}", lineage=lineage.format(number + 1)) for number in range(3_000))
    folder = overlay(tmp_path, "families/x.toml", FAMILY + rows)
    assert run(tmp_path, "recommend", TARGET, "--catalog", folder).returncode == 0


@pytest.mark.parametrize(
    "keys", [{"vocab_size": "1000000000"}, {"params_total": "1"}, {"notes": '["\\u001b[31m\\u202e"]'}]
)
def test_odd_values_of_an_overlay_give_sane_json(keys: dict[str, str], tmp_path: Path) -> None:
    folder = overlay(tmp_path, "families/x.toml", FAMILY + row("me/x", **keys))
    done = run(tmp_path, "check", TARGET, "me/x", "--catalog", folder, "--json")
    assert done.returncode in (0, 1)
    assert json.loads(done.stdout, parse_constant=pytest.fail)["candidates"]
    assert done.stdout.replace("\n", "").isprintable()


# -------------------------------------------------------------------- streams and output files

COMMANDS = [f"recommend {TARGET}", f"check {TARGET} Qwen/Qwen3-0.6B --json", f"catalog show {TARGET}", "--version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_stdout_is_told(command: str, tmp_path: Path) -> None:
    told(shell(tmp_path, f"draftpick {command} >/dev/full"), 3)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&- >/dev/null", ">&- 2>&-", "2>/dev/full >/dev/null"])
def test_a_closed_stream_does_not_change_the_answer(command: str, closed: str, tmp_path: Path) -> None:
    done = shell(tmp_path, f"draftpick {command} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_can_read_keeps_its_code(closed: str, tmp_path: Path) -> None:
    assert shell(tmp_path, f"draftpick recommend nope/nope {closed}").returncode == 3


@pytest.mark.parametrize("output", ["/dev/full", "nowhere/x", "/proc/x", ".", "", "x" * 300, "circle"])
def test_an_output_that_cannot_be_written_is_told(output: str, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    told(run(tmp_path, "recommend", TARGET, "-o", output), 3)
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]


def test_a_long_name_of_an_output_that_the_folder_takes_is_written(tmp_path: Path) -> None:
    name = "x" * 255
    assert run(tmp_path, "recommend", TARGET, "-o", name).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_dash_is_stdout(tmp_path: Path) -> None:
    assert TARGET in run(tmp_path, "recommend", TARGET, "-o", "-").stdout
    assert list(tmp_path.iterdir()) == []


def test_runs_on_one_output_leave_a_whole_one(tmp_path: Path) -> None:
    command = [*COMMAND, "recommend", "--json", "-o", "answer.json"]
    names = [TARGET, "meta-llama/Llama-3.1-70B-Instruct"] * 2
    runs = [subprocess.Popen([*command, name], env=environment(tmp_path), cwd=tmp_path) for name in names]
    assert [one.wait(30) for one in runs] == [0, 0, 0, 0]
    assert json.loads((tmp_path / "answer.json").read_text())["target"]["id"] in names
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


def test_rows_added_at_once_are_all_there(tmp_path: Path) -> None:
    command = [*COMMAND, "catalog", "add", "Qwen/Qwen3-0.6B", "--catalog", "mine", "--id"]
    names = [f"me/tune-{number}" for number in range(5)]
    runs = [subprocess.Popen([*command, name], env=environment(tmp_path), cwd=tmp_path, stderr=-1) for name in names]
    assert [one.communicate(timeout=30) and one.returncode for one in runs] == [0] * 5
    text = "".join(path.read_text() for path in (tmp_path / "mine" / "families").iterdir())
    assert [name for name in names if f'"{name}"' not in text] == []


# -------------------------------------------------------------------- environments


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("home"), "recommend", TARGET).stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/nonexistent"),
        ("HOME", ""),
        ("HOME", "/dev/null"),
        ("TERM", "dumb"),
        ("COLUMNS", "1"),
        ("COLUMNS", "100000"),
        ("COLUMNS", "banana"),
        ("LC_ALL", "C"),
        ("PYTHONUTF8", "0"),
        ("PYTHONIOENCODING", "ascii"),
        ("PYTHONWARNINGS", "error"),
        ("PYTHONOPTIMIZE", "2"),
        ("XDG_CONFIG_HOME", "/dev/null"),
        ("HF_HOME", "/dev/null"),
        ("HF_HUB_CACHE", "/proc/self/mem"),
        ("MODELSCOPE_CACHE", "/dev/full"),
        ("TMPDIR", "/nonexistent"),
    ],
)
def test_an_odd_environment_changes_nothing(name: str, value: str, usual: str, tmp_path: Path) -> None:
    odd = run(tmp_path, "recommend", TARGET, **{name: value})
    assert (odd.returncode, odd.stderr) == (0, "")
    if name not in ("PYTHONIOENCODING", "LC_ALL"):
        assert odd.stdout == usual


INTERRUPTED = """
import sys

class ControlC:
    def find_spec(self, name, *rest):
        if name == "draftpick.options":
            raise KeyboardInterrupt

sys.meta_path.insert(0, ControlC())
from draftpick.__main__ import main
main()
"""


def test_an_interruption_while_it_starts_is_quiet(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=SECONDS,
        preexec_fn=bounded,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
