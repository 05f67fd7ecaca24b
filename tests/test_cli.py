"""The command line as people and scripts meet it: exit codes, options, files, pipes, terminals and locales."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from commands import Answer, command, environment, from_a_terminal, on_terminal, run, spawn

from draftpick import __version__
from draftpick.option_values import respelled

TARGET, DRAFT, SMALL = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
OTHER = "Qwen/Qwen3.5-27B"
"""Of another vocabulary."""
ESCAPE = "\x1b"


# ---------------------------------------------------------------------- exit codes


def spoken(value: object) -> str | None:
    return " ".join(value) if isinstance(value, list) else None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["recommend", TARGET], 0),
        (["recommend", TARGET, "-d", DRAFT], 0),
        (["recommend", TARGET, "-d", OTHER, "-d", DRAFT], 0),
        (["recommend", TARGET, "-d", OTHER], 1),
        (["recommend", TARGET, "-d", SMALL, "--engine", "vllm-ascend"], 1),
        (["recommend", TARGET, "-d", SMALL, "--engine", "llama.cpp"], 0),
        (["recommend", TARGET, "--engine", "mindie"], 1),
        (["check", TARGET, DRAFT], 0),
        (["check", TARGET, OTHER], 1),
        (["check", TARGET, TARGET], 1),
        (["check", TARGET, SMALL, "--engine", "vllm-ascend"], 1),
        (["check", TARGET, SMALL, "--engine", "llama.cpp"], 0),
        (["rules"], 0),
        (["rules", "size-ratio"], 0),
        (["catalog", "list"], 0),
        (["catalog", "show", TARGET], 0),
        (["--version"], 0),
        (["--help"], 0),
        (["check", "--help"], 0),
    ],
    ids=spoken,
)
def test_the_exit_code_is_the_answer(arguments: list[str], code: int) -> None:
    answer = run(*arguments)
    assert (answer.exit_code, answer.stderr) == (code, "")
    assert answer.stdout


@pytest.mark.parametrize("arguments", [["recommend", TARGET, "-d", OTHER], ["check", TARGET, OTHER]], ids=" ".join)
def test_exit_zero_changes_the_code_alone(arguments: list[str]) -> None:
    usual, zero = run(*arguments), run(*arguments, "--exit-zero")
    assert (usual.exit_code, zero.exit_code) == (1, 0)
    assert usual.stdout == zero.stdout


def test_exit_zero_hides_no_failure() -> None:
    assert run("check", TARGET, "nobody/nothing", "--exit-zero").exit_code == 3
    assert run("check", TARGET, DRAFT, "--engine", "vlm", "--exit-zero").exit_code == 2


def test_nothing_viable_says_what_is_left() -> None:
    answer = run("recommend", TARGET, "--engine", "mindie", "--json")
    decision = answer.document["decision"]
    assert (answer.exit_code, decision["action"], decision["draft"]) == (1, "undecided", None)
    assert "mindie" in decision["sentence"]
    assert all(not found["viable"] for found in answer.document["candidates"] if found["draft"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["check", TARGET, "-tp", "0"], 2, "from 1 to 1024"),
        (["check", TARGET, DRAFT, "-tp", "-2"], 2, "from 1 to 1024"),
        (["recommend", TARGET, "-tp", "0"], 2, "from 1 to 1024"),
        (["recommend", TARGET, "--max-model-len", "-1"], 2, "from 1 to 1073741824"),
        (["recommend", TARGET, "--max-num-seqs", "0"], 2, "from 1 to 1048576"),
        (["recommend", TARGET, "-k", "0"], 2, "from 1 to 64"),
        (["recommend", TARGET, "-k", "many"], 2, "many"),
        (["recommend", TARGET, "--dtype", "int3"], 2, "bfloat16"),
        (["recommend", TARGET, "--format", "xml"], 2, "'table', 'json'"),
        (["recommend", TARGET, "--engine", "vlm"], 2, "did you mean vllm"),
        (["recommend", TARGET, "--engine", ""], 2, "vllm-ascend"),
        (["recommend", TARGET, "--engine", "vllm@"], 2, "vllm@VERSION"),
        (["recommend", TARGET, "--engine", "vllm~=0.11"], 2, "write vllm@0.11"),
        (["recommend", TARGET, "--engine", "vLLM >= 0.11.1"], 2, "write vllm@0.11.1"),
        (["recommend", TARGET, "--quantization", "q9"], 2, "w8a8; known: mlx-2bit, "),
        (["check", TARGET, DRAFT, "--draft-quantization", "q9"], 2, "--draft-quantization is 'q9'"),
        (["recommend", TARGET, "--device", "910b33"], 2, "did you mean 910b3"),
        (["recommend", TARGET, "--device", ""], 2, "known: "),
        (["recommend", TARGET, "--frmat", "json"], 2, "--format"),
        (["recommend", TARGET, "--select", "depht"], 2, "depth"),
        (["recommend", TARGET, "--ignore", "depth"], 2, "depth=reason"),
        (["recommend", TARGET, "--rules-file", "/nothing.toml"], 2, "/nothing.toml"),
        (["recommend", TARGET, "--config", "/nothing.toml"], 2, "/nothing.toml"),
        (["recommend", TARGET, "--catalog", "/nothing"], 2, "/nothing"),
        (["recommend"], 2, "Missing argument"),
        (["check", TARGET], 2, "draft"),
        (["recomend", TARGET], 2, "recommend"),
        (["rules", "dept"], 2, "did you mean depth"),
        (["catalog", "list", "--kind", "model"], 2, "did you mean models"),
        (["catalog", "list", "--family", "Qwenn"], 2, "Qwen"),
        (["catalog", "show", "Qwen/Qwen2.5-7B-Instrct"], 2, DRAFT),
        (["catalog", "validate", "/nothing"], 2, "/nothing"),
        (["recommend", "Qwen/Qwen2.5-72B-Instrukt"], 3, TARGET),
        (["check", TARGET, "Qwen/Qwen2.5-7B-Instrukt"], 3, DRAFT),
        (["check", TARGET, "nobody/nothing-at-all"], 3, "offline"),
        (["check", TARGET, "./nothing"], 3, "no file or folder ./nothing"),
        (["catalog", "add", "./nothing"], 3, "no file or folder ./nothing"),
        (["catalog", "add", "/nothing"], 3, "no file or folder /nothing"),
        (["recommend", "Qwen/Qwen2.5-72B-FP8"], 3, "Qwen/Qwen2.5-72B with --quantization fp8"),
        (["recommend", "RedHatAI/Qwen2.5-72B-Instruct-quantized.w8a8"], 3, f"{TARGET} with --quantization w8a8"),
        (["check", TARGET, "acme/Qwen3-0.6B-AWQ"], 3, "Qwen/Qwen3-0.6B with --quantization awq"),
        (["recommend", ""], 3, "catalog list"),
    ],
    ids=spoken,
)
def test_a_failure_says_what_is_wrong_and_what_to_do(arguments: list[str], code: int, says: str) -> None:
    answer = run(*arguments)
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.splitlines()) <= 6


def test_a_failure_is_one_line_and_a_hint() -> None:
    lines = run("recommend", TARGET, "--engine", "vlm").stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["error", "hint"]


def test_an_empty_folder_is_nothing_to_judge(tmp_path: Path) -> None:
    answer = run("recommend", str(tmp_path))
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert "is empty" in answer.stderr


def test_a_corrupt_file_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    answer = run("recommend", str(tmp_path))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "config.json" in answer.stderr


def test_hostile_names_do_not_reach_the_terminal() -> None:
    answer = run("recommend", "evil/\x1b[31m\n\u202ename")
    assert answer.exit_code == 3
    assert ESCAPE not in answer.stderr
    assert "\u202e" not in answer.stderr
    assert len(answer.stderr.splitlines()) == 2


def test_quiet_leaves_the_hints_out(tmp_path: Path) -> None:
    config = tmp_path / "options.toml"
    config.write_text("quiet = true\n")
    asked = ("recommend", TARGET, "--engine", "vlm")
    assert "hint: " in run(*asked).stderr
    for quietly in (run(*asked, "-q"), run(*asked, "--config", str(config))):
        assert quietly.stderr == "error: unknown engine 'vlm'\n"


@pytest.mark.parametrize(
    ("spelled", "engine"),
    [
        ("vllm==0.8.2", ("vllm", "0.8.2")),
        ("vllm=0.8.2", ("vllm", "0.8.2")),
        ("vllm 0.8.2", ("vllm", "0.8.2")),
        ("vllm-0.8.2", ("vllm", "0.8.2")),
        ("vllm@v0.8.2", ("vllm", "0.8.2")),
        ("vLLM == v0.8.2", ("vllm", "0.8.2")),
        ("vllm-ascend-0.18.0", ("vllm-ascend", "0.18.0")),
        ("vllm-ascend:v0.18.0rc1", ("vllm-ascend", "0.18.0rc1")),
    ],
)
def test_a_version_is_read_in_every_spelling_that_means_one(spelled: str, engine: tuple[str, str]) -> None:
    document = run("check", TARGET, DRAFT, "--engine", spelled, "--json").document
    assert (document["engine"]["id"], document["engine"]["version"]) == engine


# ---------------------------------------------------------------------- bugs, interrupts, closed pipes

BROKEN_RULE = """
import sys
from draftpick.rules import rule
@rule("broken", "size", about="any")
def broken(pair):
    "A rule with a bug."
    return 1 / 0
from draftpick.cli import main
sys.argv = ["draftpick", "recommend", "Qwen/Qwen2.5-72B-Instruct"]
main()
"""


def test_a_bug_is_told_shortly() -> None:
    answer = spawn(script=BROKEN_RULE)
    assert (answer.exit_code, answer.stdout) == (70, "")
    assert answer.stderr.splitlines() == [
        f"error: this is a bug in draftpick {__version__}: ZeroDivisionError: division by zero",
        "hint: run again with DRAFTPICK_DEBUG=1 and report the traceback with the command you typed",
    ]


def test_a_bug_shows_its_traceback_when_asked() -> None:
    answer = spawn(script=BROKEN_RULE, DRAFTPICK_DEBUG="1")
    assert answer.exit_code == 70
    assert "Traceback" in answer.stderr
    assert "in broken" in answer.stderr


def test_an_interrupt_ends_with_130() -> None:
    # The answer is longer than a pipe holds, so that the process waits in the middle of it.
    with subprocess.Popen(
        command("recommend", TARGET, "--all", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=from_a_terminal,
    ) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0]
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["recommend", TARGET],
        ["recommend", TARGET, "--all", "--json"],
        ["check", TARGET, OTHER],
        ["rules"],
        ["rules", "depth"],
        ["catalog", "list"],
        ["catalog", "show", TARGET],
        ["catalog", "validate", "families/qwen.toml"],
        ["--help"],
        ["recommend", "--help"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_ends_silently(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(*arguments),
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=Path(__file__).parent.parent / "catalog",
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_first_line_of_a_long_answer() -> None:
    line = f"{' '.join(command('recommend', TARGET, '--all'))} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment(), check=True)
    first, code = done.stdout.splitlines()
    assert f" in front of {TARGET} as draft model" in first
    assert (code, done.stderr) == ("0", "")


# ---------------------------------------------------------------------- options


def workload(*arguments: str) -> dict[str, object]:
    found = run("recommend", TARGET, "-d", DRAFT, "--json", *arguments).document["workload"]
    assert isinstance(found, dict)
    return found


def test_numbers_reach_the_setting() -> None:
    asked = workload("--max-model-len", "8192", "--max-num-seqs", "16", "-k", "5", "--images")
    assert (asked["max_model_len"], asked["max_num_seqs"], asked["num_spec_tokens"], asked["images"]) == (
        8192,
        16,
        5,
        True,
    )


def test_k_is_the_plan() -> None:
    document = run("check", TARGET, DRAFT, "-k", "5", "--json").document
    assert document["decision"]["num_spec_tokens"] == 5
    assert document["candidates"][0]["plan"]["num_spec_tokens"] == 5


def test_tensor_parallel_counts_devices() -> None:
    for spelled in ("-tp", "--tensor-parallel-size"):
        document = run("recommend", TARGET, "--device", "910b3", spelled, "4", "--json").document
        assert (document["device"]["id"], document["device"]["count"]) == ("910b3", 4)
        assert document["device"]["memory_bytes"] == 64 * 2**30


def test_named_drafts_are_the_only_ones() -> None:
    document = run("recommend", TARGET, "-d", OTHER, "--draft-model", DRAFT, "-d", DRAFT, "--json").document
    assert [found["draft"] for found in document["candidates"]] == [DRAFT, None, None, OTHER]


@pytest.mark.parametrize(
    ("asked", "key", "version"),
    [
        ("vllm", "vllm", None),
        ("VLLM", "vllm", None),
        ("vllm-npu", "vllm-ascend", None),
        ("llamacpp", "llama.cpp", None),
        ("vllm-ascend@0.18.0", "vllm-ascend", "0.18.0"),
        ("vllm@no-version", "vllm", "no-version"),
    ],
)
def test_an_engine_by_name_alias_and_version(asked: str, key: str, version: str | None) -> None:
    engine = run("recommend", TARGET, "--engine", asked, "--json").document["engine"]
    assert engine["id"] == key
    assert engine["version"] == (version or run("catalog", "show", key, "--json").document["version"])


def test_another_version_gets_another_verdict() -> None:
    def verdict(version: str) -> str:
        found = run("check", TARGET, DRAFT, "--engine", f"vllm-ascend@{version}", "--json").document
        return str(found["candidates"][0]["engines"]["vllm-ascend"]["verdict"])

    assert (verdict("0.23.0"), verdict("0.7.1")) == ("accepted", "refused")


def test_a_device_by_product_name() -> None:
    assert run("recommend", TARGET, "--device", "atlas-800i-a2-64g", "--json").document["device"]["id"] == "910b4-1"


@pytest.mark.parametrize("dtype", ["bfloat16", "bf16", "BFloat16"])
def test_a_dtype_the_device_lacks(dtype: str) -> None:
    document = run("check", TARGET, DRAFT, "--device", "310p", "--dtype", dtype, "--json").document
    said = next(found for found in document["candidates"][0]["findings"] if found["rule"] == "dtype")
    assert said["outcome"] == "warn"
    assert said["evidence"]["side"] == "setting"


def test_ignored_rules_stay_in_sight() -> None:
    plain = run("check", TARGET, OTHER)
    ignored = run("check", TARGET, OTHER, "--ignore", "tokenizer-identity=a test", "--json")
    said = {found["rule"]: found for found in ignored.document["candidates"][0]["findings"]}["tokenizer-identity"]
    assert plain.exit_code == 1
    assert (said["outcome"], said["ignored_because"]) == ("reject", "a test")


def test_selected_rules_are_the_only_ones() -> None:
    document = run("check", TARGET, DRAFT, "--select", "depth", "--select", "size-ratio", "--json").document
    assert {found["rule"] for found in document["candidates"][0]["findings"]} == {"depth", "size-ratio"}


def test_a_rules_file_changes_the_score(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[weights]\ndepth = 0\n[ignore]\n"licence" = "of no interest"\n')
    plain = run("check", TARGET, "Qwen/Qwen2.5-14B-Instruct", "--json").document["candidates"][0]
    other = run("check", TARGET, "Qwen/Qwen2.5-14B-Instruct", "--rules-file", str(path), "--json").document
    assert other["candidates"][0]["score"] > plain["score"]


# ---------------------------------------------------------------------- the config file


def configured(tmp_path: Path, text: str, *more: str, command: str = "recommend") -> Answer:
    path = tmp_path / "options.toml"
    path.write_text(text)
    named = [TARGET] if command == "recommend" else [TARGET, DRAFT]
    return run(command, *named, "--config", str(path), *more)


def test_a_config_file_sets_what_the_command_line_can(tmp_path: Path) -> None:
    text = f"""
    engine = "vllm-ascend"
    device = "910b3"
    tensor-parallel-size = 4
    num_speculative_tokens = 3
    draft-model = ["{DRAFT}", "{SMALL}"]
    format = "json"
    exit-zero = true
    all = true
    ignore = ["depth=a test"]
    """
    document = configured(tmp_path, text).document
    assert (document["engine"]["id"], document["device"]["count"]) == ("vllm-ascend", 4)
    assert document["decision"]["num_spec_tokens"] == 3
    assert [found["draft"] for found in document["candidates"]] == [DRAFT, None, None, SMALL]
    assert any(found.get("ignored_because") == "a test" for found in document["candidates"][0]["findings"])


def test_a_config_file_sets_numbers_to_plan_from(tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    path.write_text("acceptance-rate = 0.65\ndraft-cost = 0\nverify-cost = 3\noverhead = 0.5\n")
    cost = run("plan", "--config", str(path), "--verify-cost", "1", "--json").document["candidates"][0]["cost"]
    assert (cost["c"], cost["verify"][1], cost["overhead"]) == (0, 1, 0.5), "the command line wins"


@pytest.mark.parametrize(
    ("text", "more", "engine"),
    [
        ('engine = "vllm"\njson = true', ["--engine", "sglang"], "sglang"),
        ('engine = "vllm"\nformat = "markdown"', ["--json"], "vllm"),
        ('engine = "vllm"\nformat = "markdown"', ["--format", "json"], "vllm"),
    ],
)
def test_the_command_line_wins(tmp_path: Path, text: str, more: list[str], engine: str) -> None:
    assert configured(tmp_path, text, *more).document["engine"]["id"] == engine


def test_the_command_line_wins_over_json_too(tmp_path: Path) -> None:
    assert configured(tmp_path, "json = true", "--format", "markdown").stdout.startswith("## ")


def test_a_switch_can_be_switched_off_again(tmp_path: Path) -> None:
    text = f'exit-zero = true\ndraft-model = ["{OTHER}"]'
    assert configured(tmp_path, text).exit_code == 0
    assert configured(tmp_path, text, "--no-exit-zero").exit_code == 1


def test_files_can_be_named_in_a_config(tmp_path: Path) -> None:
    out = tmp_path / "answer.json"
    answer = configured(tmp_path, f'json = true\noutput = "{out}"\ncatalog = "{tmp_path}"')
    assert answer.exit_code == 2, "the folder holds a TOML file that is no catalogue"
    (tmp_path / "rows").mkdir()
    answer = configured(tmp_path, f'json = true\noutput = "{out}"\ncatalog = "{tmp_path / "rows"}"')
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert json.loads(out.read_text())["schema_version"] == "1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('engin = "vllm"', "did you mean engine?"),
        ('fromat = "json"', "did you mean format?"),
        ('output-format = "json"', "unknown option 'output-format'"),
        ("zzz = 1", "known: all, bandwidth, catalog"),
        ('target = "x"', "unknown option 'target'"),
        ('config = "x"', "unknown option 'config'"),
        ("tensor-parallel-size = 0", "from 1 to 1024"),
        ("tensor-parallel-size = true", "from 1 to 1024"),
        ("temperature = [0.0, 0.8]", "a number from 0 to 10"),
        ("max-model-len = -1", "from 1 to 1073741824"),
        ('num-speculative-tokens = "3"', "from 1 to 64"),
        ('draft-model = "one"', "a list of texts"),
        ("engine = 3", "a text"),
        ('json = "yes"', "true or false"),
        ('format = "xml"', "table, json, markdown"),
        ('engine = "vlm"', "did you mean vllm"),
        ('dtype = "int3"', "bfloat16"),
        ("engine = ", "not valid TOML"),
    ],
)
def test_a_config_file_that_cannot_be_meant(tmp_path: Path, text: str, says: str) -> None:
    answer = configured(tmp_path, text)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr


def test_a_config_file_is_bounded(tmp_path: Path) -> None:
    answer = configured(tmp_path, "# " + "x" * 1_000_001)
    assert answer.exit_code == 2
    assert "larger than 1,000,000 bytes" in answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["recommend", TARGET],
        ["check", TARGET, DRAFT],
        ["probe", TARGET, DRAFT],
        ["plan", "--acceptance-rate", "0.7"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(
    "spelling",
    [
        ["-tp", "0"],
        ["-tp0"],
        ["-tp=0"],
        ["--tp", "0"],
        ["--tp=0"],
        ["--tp-size", "0"],
        ["--tp_size=0"],
        ["--tensor-parallel-size=0"],
        ["--tensor_parallel_size", "0"],
        ["--tensor_parallel_size=0"],
    ],
    ids=" ".join,
)
def test_options_are_understood_as_engines_spell_them(words: list[str], spelling: list[str]) -> None:
    answer = run(*words, *spelling)
    assert answer.exit_code == 2
    assert answer.stderr == "error: --tensor-parallel-size is '0'\nhint: give a whole number from 1 to 1024\n"


def test_every_spelling_of_the_devices_gives_one_answer(tmp_path: Path) -> None:
    words = (["-tp4"], ["--tp", "4"], ["-tp", "4"])
    answers = [run("check", TARGET, DRAFT, *spelling, "--json").document for spelling in words]
    answers += [configured(tmp_path, f"json = true\n{key} = 4", command="check").document for key in ("tp", "tp_size")]
    assert all(answer == answers[0] for answer in answers)


def test_what_follows_two_dashes_is_no_option() -> None:
    assert respelled(["--tp", "2", "--max_model_len=3", "--", "--tp", "-tp4", "a_b"]) == [
        *("--tensor-parallel-size", "2", "--max-model-len=3", "--", "--tp", "-tp4", "a_b"),
    ]


# ---------------------------------------------------------------------- output


def test_output_goes_to_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "answer.md"
    shown = run("recommend", TARGET, "--format", "markdown")
    written = run("recommend", TARGET, "--format", "markdown", "-o", str(path))
    assert (written.exit_code, written.stdout) == (0, "")
    assert path.read_text() == shown.stdout
    assert [found.name for found in tmp_path.iterdir()] == ["answer.md"]


def test_a_failed_run_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text("old")
    assert run("recommend", TARGET, "--engine", "vlm", "--json", "-o", str(path)).exit_code == 2
    assert path.read_text() == "old"


def test_the_answer_no_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    assert run("check", TARGET, OTHER, "--json", "-o", str(path)).exit_code == 1
    assert json.loads(path.read_text())["decision"]["action"] == "do_not_speculate"


def test_a_missing_folder_for_the_output(tmp_path: Path) -> None:
    answer = run("recommend", TARGET, "-o", str(tmp_path / "no" / "answer.json"))
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert "does not exist" in answer.stderr
    assert "hint: " in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["recommend", TARGET],
        ["recommend", TARGET, "--engine", "vllm-ascend", "--explain", "--all"],
        ["check", TARGET, SMALL],
        ["catalog", "list"],
        ["catalog", "list", "--kind", "engines"],
        ["catalog", "show", TARGET],
        ["rules"],
        ["rules", "size-ratio"],
    ],
    ids=" ".join,
)
def test_a_pipe_gets_whole_plain_lines(arguments: list[str]) -> None:
    text = run(*arguments, FORCE_COLOR="1", COLUMNS="40").stdout
    assert ESCAPE not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert max(map(len, text.splitlines())) > 100, "lines are cut to no width"


def test_a_pipe_gets_what_a_process_of_its_own_writes() -> None:
    assert spawn("check", TARGET, SMALL).stdout == run("check", TARGET, SMALL).stdout


def on_a_terminal(columns: int, *arguments: str, **variables: str) -> str:
    """What a terminal of this width is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    around = environment(**{"TERM": "xterm", **variables})
    process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=around)
    os.close(theirs)
    sent = b""
    try:
        while part := os.read(ours, 65536):
            sent += part
    except OSError:  # how Linux says that the other end was closed
        pass
    os.close(ours)
    process.wait(timeout=30)
    return sent.decode().replace("\r\n", "\n")


PROGRESS = """
from draftpick.console import Progress
from draftpick.errors import Warned

with Progress() as say:
    say("loading")
    say(Warned("is it \\x1b[31mswapped?"))
    say("warning: a file's name")
"""


def test_a_warning_stays_on_a_terminal_and_what_only_looks_like_one_does_not() -> None:
    _, sent = on_terminal([sys.executable, "-c", PROGRESS], environment())
    clear = "\r\x1b[K"
    loading, warning, last = sent.removeprefix(clear).split(clear, 2)
    assert loading == "loading"
    assert warning.startswith("warning: is it ")
    assert warning.endswith("swapped?\n")
    assert last == f"warning: a file's name{clear}"
    assert "\x1b" not in warning


def test_a_pipe_gets_a_line_each() -> None:
    first, second, third = spawn(script=PROGRESS).stderr.splitlines()
    assert (first, third) == ("loading", "warning: a file's name")
    assert second.startswith("warning: is it ")


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_gets_colours_and_lines_that_fit(columns: int) -> None:
    text = on_a_terminal(columns, "recommend", TARGET, "--engine", "vllm-ascend")
    assert ESCAPE in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= columns
    assert ESCAPE not in plain


@pytest.mark.parametrize(
    ("more", "variables"),
    [(["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})],
    ids=["option", "env", "dumb"],
)
def test_colours_can_be_left_out(more: list[str], variables: dict[str, str]) -> None:
    assert ESCAPE not in on_a_terminal(80, "check", TARGET, DRAFT, *more, **variables)


# ---------------------------------------------------------------------- surroundings


def test_a_locale_without_utf8_gets_an_answer_and_valid_json(tmp_path: Path) -> None:
    folder = tmp_path / "modèle-\N{GRINNING FACE}"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 32000}')
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    table = spawn("check", str(folder), DRAFT, **ascii_only)
    assert (table.exit_code, table.stderr) == (1, "")
    assert table.stdout.isascii()
    answer = spawn("check", str(folder), DRAFT, "--json", **ascii_only)
    assert answer.stdout.isascii()
    assert "mod" in answer.document["target"]["id"]


def test_json_in_latin1_is_still_json() -> None:
    answer = spawn(
        "check", "deepseek-ai/DeepSeek-V3", "deepseek-ai/deepseek-llm-7b-chat", "--json", PYTHONIOENCODING="ascii"
    )
    first = answer.document["candidates"][0]["tokenizer"]["first_difference"]
    assert first["target"] == "<｜begin▁of▁sentence｜>"


@pytest.mark.parametrize("name", ["HOME", "PATH", "LANG"])
def test_a_variable_that_is_not_set(name: str) -> None:
    variables = {key: value for key, value in environment().items() if key != name}
    done = subprocess.run(command("recommend", TARGET), capture_output=True, env=variables, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_as_a_module_and_as_a_script() -> None:
    script = Path(sys.executable).parent / "draftpick"
    said = [
        subprocess.run([*start, "--version"], capture_output=True, text=True, env=environment(), check=True).stdout
        for start in ([sys.executable, "-m", "draftpick"], [str(script)])
    ]
    assert said == [f"draftpick {__version__}\n"] * 2


def test_help_names_every_command_with_an_example() -> None:
    text = run("--help").stdout
    for name in ("recommend", "check", "rules", "catalog"):
        assert name in text
        assert "Example:" in run(name, "--help").stdout or name == "catalog"
    for name in ("list", "show", "validate", "add"):
        assert "Example:" in run("catalog", name, "--help").stdout


def test_no_command_shows_the_help() -> None:
    answer = run()
    assert answer.exit_code == 2
    assert "recommend" in answer.stdout + answer.stderr


def test_the_answer_comes_at_once() -> None:
    start = time.perf_counter()
    spawn("recommend", TARGET)
    assert time.perf_counter() - start < 5
