"""What continuous integration reads, and the page about it: against their readers' schemas, scripts by bash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

from draftpick.gate_file import CheckName, CheckResult, GateFile, PairResult, Policy, PolicyFile, Status

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
SCRIPTS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def against_schema(schema: str, *files: Path) -> str:
    """What a reader's schema has against files; nothing where they keep to it."""
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", schema, *map(str, files)])
    return done.output if done.exit_code else ""


def by_pre_commit(command: str, file: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "pre_commit", command, file], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-actions", [ROOT / "action.yml"]),
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.gitlab-ci", [ROOT / "ci" / "gitlab" / "draftpick.gitlab-ci.yml"]),
    ],
)
def test_files_keep_to_the_schema_of_their_reader(schema: str, files: list[Path]) -> None:
    assert files
    assert against_schema(schema, *files) == ""


def test_pre_commit_takes_the_hook() -> None:
    assert by_pre_commit("validate-manifest", ROOT / ".pre-commit-hooks.yaml") == ""


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


def facts(folder: Path, draft: str, least_score: float) -> str:
    """A policy of one pair that is judged by facts alone."""
    path = folder / "pairs.toml"
    path.write_text(
        f'[[pair]]\nname = "a pair"\ntarget = "Qwen/Qwen2.5-72B-Instruct"\ndraft = "{draft}"\n'
        f"[pair.policy]\nmin_score = {least_score}\n",
        encoding="utf-8",
    )
    return str(path)


GOOD, UNKNOWN = "Qwen/Qwen2.5-7B-Instruct", "nobody/has-this"


@pytest.mark.parametrize(
    ("draft", "least", "code", "verdict"),
    [
        (GOOD, 50.0, 0, "The gate passed: 1 pair and 2 checks."),
        (GOOD, 100.0, 1, "The gate failed: 1 of 1 pair did not pass."),
        (UNKNOWN, 50.0, 3, "The gate could not judge any of 1 pair."),
    ],
)
def test_the_action_judges_once_and_writes_what_is_asked(
    draft: str, least: float, code: int, verdict: str, tmp_path: Path
) -> None:
    files = {"JUNIT": tmp_path / "gate.xml", "SARIF": tmp_path / "gate.sarif", "GITHUB_STEP_SUMMARY": tmp_path / "md"}
    ended, stdout, outputs = judged(
        tmp_path, facts(tmp_path, draft, least), **{name: str(path) for name, path in files.items()}
    )
    assert (ended, outputs) == (code, f"exit-code={code}\n")
    assert stdout.splitlines()[-1] == verdict
    assert verdict in files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    assert files["JUNIT"].read_text(encoding="utf-8").count("<failure") == (0 if code == 0 else 1)
    assert len(json.loads(files["SARIF"].read_text(encoding="utf-8"))["runs"][0]["results"]) == (0 if code == 0 else 1)


@pytest.mark.parametrize(("least", "code"), [(50.0, 0), (100.0, 1)])
def test_the_gitlab_job_ends_as_the_gate_and_leaves_a_report(least: float, code: int, tmp_path: Path) -> None:
    template = yaml.safe_load((ROOT / "ci" / "gitlab" / "draftpick.gitlab-ci.yml").read_text(encoding="utf-8"))
    job = template["draftpick-gate"]
    done = bash("\n".join(job["script"]), {"DRAFTPICK_POLICY": facts(tmp_path, GOOD, least)}, tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("## Draft pairs: ")
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).read_text(encoding="utf-8").startswith("<?xml")


# ---------------------------------------------------------------------- the page


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, or under a line of it."""
    lines = PAGE.partition(heading)[2].split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(("| --- ", "|---")))
    table = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


@pytest.mark.parametrize(
    ("example", "schema"),
    [(0, "vendor.github-workflows"), (1, "vendor.github-workflows"), (2, "vendor.gitlab-ci"), (3, None)],
    ids=["action", "own runner", "gitlab", "pre-commit"],
)
def test_the_examples_are_whole(example: int, schema: str | None, tmp_path: Path) -> None:
    found = examples("yaml")
    assert len(found) == 4
    file = tmp_path / "example.yaml"
    file.write_text(found[example], encoding="utf-8")
    assert (against_schema(schema, file) if schema else by_pre_commit("validate-config", file)) == ""


def test_the_example_of_the_action_gives_it_inputs_that_it_has() -> None:
    step = yaml.safe_load(examples("yaml")[0])["jobs"]["gate"]["steps"][1]
    assert set(step["with"]) <= set(ACTION["inputs"])


def test_the_example_of_a_policy_is_one() -> None:
    (example,) = examples("toml")
    policy = PolicyFile.model_validate(tomllib.loads(example))
    (pair,) = policy.pair
    assert policy.policy(pair).max_age_days == 60
    assert policy.policy(pair).min_acceptance_rate == 0.7


def test_the_tables_leave_nothing_out() -> None:
    checks = rows("## What each check compares")
    assert [row[0].strip("`") for row in checks] == list(get_args(CheckName))
    named = {name for row in checks for name in re.findall(r"`([a-z_]+)`", row[1])}
    assert named == {*Policy.model_fields, "baseline"}
    statuses = rows("Each check ends in one of these:")
    assert [row[0].strip("`") for row in statuses] == list(get_args(Status))
    inputs = [name for row in rows("a summary of the job.") for name in re.findall("`([a-z-]+)`", row[0])]
    assert inputs == list(ACTION["inputs"])


def test_the_keys_of_the_json_are_those_of_the_result() -> None:
    shown = set(re.findall(r'"([a-z_]+)"', PAGE.partition("### Anywhere else")[2])) - {"gate"}
    assert shown == {*GateFile.model_fields, *PairResult.model_fields, *CheckResult.model_fields}
