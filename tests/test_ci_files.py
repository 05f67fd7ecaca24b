"""The files that continuous integration reads: against their readers' schemas, and the scripts in them by bash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftpick.cli import COMMANDS

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
SCRIPTS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
POLICY = "ci/pairs.toml"


def valid(*command: str) -> str:
    """Runs a checker of this environment; what it complains of, or nothing."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.github-actions", "action.yml"),
        ("vendor.github-workflows", ".github/workflows/gate.yml"),
        ("custom.github-workflows-require-timeout", ".github/workflows/gate.yml"),
        ("vendor.gitlab-ci", "ci/gitlab/draftpick.gitlab-ci.yml"),
    ],
)
def test_each_file_keeps_to_the_schema_of_its_reader(schema: str, file: str) -> None:
    assert valid("check_jsonschema", "--builtin-schema", schema, file) == ""


def test_pre_commit_takes_the_hook() -> None:
    assert valid("pre_commit", "validate-manifest", ".pre-commit-hooks.yaml") == ""


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ("pairs.toml", True),
        ("ci/pairs.toml", True),
        ("ci/pairs-npu.toml", True),
        ("ci/baseline.json", True),
        ("probes/probe.json", True),
        ("ci/code-probe-2026.json", True),
        ("pairs.toml.md", False),
        ("probes/probe.trace", False),
        ("pairs/README.md", False),
        ("pyproject.toml", False),
    ],
)
def test_the_hook_runs_where_policy_baseline_or_evidence_change(changed: str, runs: bool) -> None:
    assert bool(re.search(HOOK["files"], changed)) == runs


# ---------------------------------------------------------------------- the action


def test_the_action_uses_all_its_inputs_and_no_other() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_take_inputs_from_the_environment_alone(name: str) -> None:
    """GitHub writes `${{ … }}` into a script as it stands, commands and all."""
    assert "${{" not in SCRIPTS[name]["run"]
    assert all(re.search(rf"\${{?{variable}\b", SCRIPTS[name]["run"]) for variable in SCRIPTS[name]["env"])


@pytest.mark.parametrize(
    ("install", "extras", "what"),
    [
        ("", "", "/actions/draftpick"),
        ("", "probe", "/actions/draftpick[probe]"),
        ("draftpick[npu] @ git+https://host/x", "probe", "draftpick[npu] @ git+https://host/x"),
    ],
)
def test_what_is_installed(install: str, extras: str, what: str) -> None:
    script = SCRIPTS["Install draftpick"]["run"].replace("python -m pip install", "printf '%s|'")
    environment = {"INSTALL": install, "EXTRAS": extras, "GITHUB_ACTION_PATH": "/actions/draftpick"}
    assert bash(script, environment).stdout == f"--quiet|--disable-pip-version-check|{what}|"


def bash(script: str, environment: dict[str, str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs a script as a composite action does, with the `draftpick` of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path, "HF_HUB_OFFLINE": "1"} | environment,
        capture_output=True,
        text=True,
    )


def judged(folder: Path, policy: str, **more: str) -> tuple[int, str, str]:
    """Exit code, stdout and step outputs of the action's own step."""
    script = SCRIPTS["Judge the pairs"]
    given = {**dict.fromkeys(script["env"], ""), "POLICY": policy, "GITHUB_OUTPUT": str(folder / "outputs"), **more}
    done = bash(script["run"], given)
    return done.returncode, done.stdout, (folder / "outputs").read_text(encoding="utf-8")


@pytest.mark.parametrize("policy", ["no such.toml", "--no-such", "$(exit 9)"])
def test_a_policy_that_is_not_there_ends_the_step_with_2(policy: str, tmp_path: Path) -> None:
    code, _, outputs = judged(tmp_path, policy, JUNIT=str(tmp_path / "gate.xml"))
    assert (code, outputs) == (2, "exit-code=2\n")
    assert not (tmp_path / "gate.xml").exists()


@pytest.mark.skipif(
    "gate" not in COMMANDS or not (ROOT / POLICY).exists(), reason="no gate command or no policy of the demo pair yet"
)
def test_the_demo_pair_passes_the_action(tmp_path: Path) -> None:
    files = {"JUNIT": tmp_path / "gate.xml", "SARIF": tmp_path / "gate.sarif", "GITHUB_STEP_SUMMARY": tmp_path / "md"}
    code, stdout, outputs = judged(tmp_path, POLICY, **{name: str(path) for name, path in files.items()})
    assert (code, outputs) == (0, "exit-code=0\n")
    assert stdout.splitlines()[-1].startswith("The gate passed: ")
    assert all(path.stat().st_size for path in files.values())
