"""What Tab offers, through the protocol of each shell; `draftpick --install-completion` writes what asks so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment

from draftpick.catalog import load
from draftpick.cli import CATALOG_COMMANDS, COMMANDS
from draftpick.pair import STOP_RULES, WORKLOADS

STARTED = "import sys; sys.argv[0] = 'draftpick'; from draftpick.__main__ import main; main()"
"""The entry point as it is installed: which variable is asked by hangs on its name."""

FAMILIES = {str(row["family"]) for row in load().models.values()}
HEAD_RULES = {"head-target", "head-hidden-size", "head-vocabulary", "head-not-a-draft"}


def asked(folder: Path, **variables: str) -> tuple[int, str]:
    """The exit code and the output of an asking shell, which must not be disturbed by any word on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env=environment(**variables), cwd=folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def offered(line: str, folder: Path, **variables: str) -> list[str]:
    """What bash is told for a line, the word behind its last blank being the one that is completed."""
    words = line.split(" ")
    told = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DRAFTPICK_COMPLETE": "complete_bash"}
    code, printed = asked(folder, **told, **variables)
    assert code == 0
    return printed.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("draftpick ", {*COMMANDS, "catalog"}),
        ("draftpick catalog ", set(CATALOG_COMMANDS)),
        ("draftpick recommend TARGET --eng", {"--engine"}),
        ("draftpick recommend TARGET --engine ", set(load().engines)),
        ("draftpick launch advice.json --engine vllm", {"vllm", "vllm-ascend"}),
        ("draftpick check A B --device 910b4", {"910b4", "910b4-1"}),
        ("draftpick plan --device npu", {"npu"}),
        ("draftpick probe --device ", {"auto", "npu", "cuda", "mps", "cpu"}),
        ("draftpick recommend Qwen/Qwen3-30B", {key for key in load().models if key.startswith("Qwen/Qwen3-30B")}),
        ("draftpick check Qwen/Qwen3-32B Qwen/Qwen3-0.6", {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B-Base"}),
        ("draftpick probe Qwen/Qwen3-32B Qwen/Qwen3-1.7", {"Qwen/Qwen3-1.7B", "Qwen/Qwen3-1.7B-Base"}),
        ("draftpick rules size", {"size-ratio"}),
        ("draftpick recommend TARGET --select head-", HEAD_RULES),
        ("draftpick check A B --ignore head-", {f"{rule}=" for rule in HEAD_RULES}),
        ("draftpick check A B --workload ", set(WORKLOADS)),
        ("draftpick check A B --stop-rule ", set(STOP_RULES)),
        ("draftpick check A B --dtype B", {"Bfloat16"}),
        ("draftpick probe --dtype ", {"auto", "bfloat16", "float16", "float32"}),
        ("draftpick check A B --kv-cache-dtype int", {"int8"}),
        ("draftpick check A B --device atlas-800i-a3", {"atlas-800i-a3"}),
        ("draftpick check A B --engine VLLM-A", {"VLLM-Ascend"}),
        ("draftpick recommend qwen/qwen3-30b-a3b-b", {"qwen/qwen3-30b-a3b-base"}),
        ("draftpick catalog list --family lla", {f"lla{name[3:]}" for name in FAMILIES if name.startswith("Lla")}),
        ("draftpick recommend meta-llama/Meta-Llama-3.1-8B-I", {"meta-llama/Meta-Llama-3.1-8B-Instruct"}),
        ("draftpick catalog list --kind ", {"models", "heads", "tokenizers", "engines", "devices", "issues"}),
        ("draftpick catalog show 910b3", {"910b3"}),
        ("draftpick recommend ", set()),
        ("draftpick recommend ./", set()),
        ("draftpick report advice.json --format ht", {"html"}),
    ],
)  # fmt: skip
def test_bash_is_offered(line: str, expected: set[str], tmp_path: Path) -> None:
    found = offered(line, tmp_path)
    assert set(found) == expected


def test_models_of_an_own_overlay_are_offered(tmp_path: Path) -> None:
    rows = tmp_path / "rows" / "families"
    rows.mkdir(parents=True)
    (rows / "acme.toml").write_text(
        'family = "Acme"\n[[model]]\nid = "acme/Tiny-1B"\narchitecture = "LlamaForCausalLM"\nmodel_type = "llama"\n'
        'source = "its config"\nchecked = 2026-11-29\n',
        encoding="utf-8",
    )
    assert offered("draftpick recommend --catalog rows acme/", tmp_path) == ["acme/Tiny-1B"]


def test_a_broken_overlay_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "x.toml").write_text("= [", encoding="utf-8")
    assert offered("draftpick recommend --catalog . Qwen/", tmp_path) == []


@pytest.mark.parametrize(
    ("shell", "variables", "shown"),
    [
        ("zsh", {}, '"vllm-ascend":"vLLM-Ascend '),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "vllm-ascend\tvLLM-Ascend "),
        ("powershell", {"_TYPER_COMPLETE_WORD_TO_COMPLETE": "vllm-a"}, "vllm-ascend:::vLLM-Ascend "),
    ],
)
def test_other_shells_are_offered_the_same_with_its_meaning(
    shell: str, variables: dict[str, str], shown: str, tmp_path: Path
) -> None:
    told = {"_DRAFTPICK_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "draftpick plan --engine vllm-a"}
    code, printed = asked(tmp_path, **told, **variables)
    assert code == 0
    assert shown in printed


def test_a_real_bash_completes(tmp_path: Path) -> None:
    """With what --show-completion prints, sourced into bash, and the function that it binds to Tab."""
    started = tmp_path / "draftpick"
    started.write_text(f"#!{sys.executable}\n{STARTED}\n", encoding="utf-8")
    started.chmod(0o755)
    script = (
        'eval "$(_DRAFTPICK_COMPLETE=source_bash draftpick)"; COMP_WORDS=(draftpick recommend Qwen/Qwen3-32B --engine '
        "vllm-a); COMP_CWORD=4; _draftpick_completion draftpick; echo ${COMPREPLY[@]}; complete -p draftpick"
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment(PATH=path), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["vllm-ascend", "complete -o default -F _draftpick_completion draftpick"]
    assert done.stderr == ""
