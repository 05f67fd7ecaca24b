"""What a release is made by: the workflows, their rights and pins, the page, and whose the data is."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.licenses import canonicalize_license_expression

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
}
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in [*(ROOT / ".github/workflows").glob("*.yml"), ROOT / "action.yml"]
}
PYTHONS = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    return ((workflow, name, job) for workflow, found in WORKFLOWS.items() for name, job in found["jobs"].items())


# ---------------------------------------------------------------------- workflows


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version_beside(path: Path) -> None:
    uses = re.findall(r"uses: (.*)", TEXTS[path])
    assert uses
    assert [line for line in uses if not re.fullmatch(r"\./|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_one_action_has_one_pin() -> None:
    pins = {tuple(pin.split("@", 1)) for text in TEXTS.values() for pin in re.findall(r"uses: (\w.*)", text)}
    assert [name for name, times in Counter(name for name, _ in pins).items() if times > 1] == []


def test_workflows_read_and_only_jobs_that_publish_may_do_more() -> None:
    assert {
        name: found["permissions"] for name, found in WORKFLOWS.items() if found["permissions"] != {"contents": "read"}
    } == {}
    more = {(workflow, name): job["permissions"] for workflow, name, job in jobs() if "permissions" in job}
    pages = {"pages": "write", "id-token": "write"}
    assert more == {("release", "publish"): {"id-token": "write"}, ("docs", "publish"): pages}


def test_nothing_but_a_tag_publishes_and_only_what_was_checked() -> None:
    release = WORKFLOWS["release"]
    # YAML reads `on` as true.
    assert release[True] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}
    publish = release["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert publish["if"] == "github.event_name == 'push'"
    assert publish["needs"] == "check"
    assert release["jobs"]["check"]["needs"] == "build"
    # No checkout and no command: the job with the right to publish runs nothing of the tree.
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert publish["steps"][1]["with"] == {"attestations": True}
    builds = [name for name, job in release["jobs"].items() if "uv build" in str(job)]
    assert builds == ["build"]


@pytest.mark.parametrize(("workflow", "job"), [("release", "check"), ("test", "core")])
def test_the_pythons_are_those_of_the_classifiers(workflow: str, job: str) -> None:
    assert WORKFLOWS[workflow]["jobs"][job]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_checkout_leaves_no_credentials(workflow: str) -> None:
    steps = [step for name, _, job in jobs() if name == workflow for step in job["steps"]]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_commands_take_what_others_may_name_from_the_environment() -> None:
    """GitHub writes `${{ … }}` into a script as it stands, commands and all."""
    commands = [step["run"] for _, _, job in jobs() for step in job["steps"] if "run" in step]
    assert [command for command in commands if "${{" in command] == []


def test_make_has_the_targets_that_workflows_and_the_page_name() -> None:
    said = [*TEXTS.values(), (ROOT / "docs/release.md").read_text(encoding="utf-8")]
    named = {name for text in said for name in re.findall(r"(?:run: |`|&& )make ([a-z-]+)", text)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"test-core", "test-lowest", "release-check", "dist", "sbom"} <= named <= targets


@pytest.mark.parametrize("tag", ["v0.1.0", "v9.9.9"])
def test_a_tag_that_is_not_the_version_stops_the_release(tag: str, tmp_path: Path) -> None:
    (step,) = (
        step for step in WORKFLOWS["release"]["jobs"]["build"]["steps"] if step.get("name", "").startswith("Hold")
    )
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "draftpick-0.1.0-py3-none-any.whl").touch()
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env={"GITHUB_REF_NAME": tag, "PATH": "/bin:/usr/bin"}
    )
    assert (done.returncode == 0) == (tag == "v0.1.0")


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT


def test_metadata_names_no_address_that_is_not_there_yet() -> None:
    assert "urls" not in PROJECT


# ---------------------------------------------------------------------- licences of the data


@pytest.fixture
def rows() -> list[dict[str, str]]:
    """The first table of docs/data-licences.md."""
    lines = (ROOT / "docs/data-licences.md").read_text(encoding="utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("| files |"))
    end = lines.index("", start)
    names, _, *table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    return [dict(zip(names, cells, strict=True)) for cells in table]


def test_every_file_of_the_catalogue_is_covered_by_one_row(rows: list[dict[str, str]]) -> None:
    covered = Counter(
        path.relative_to(ROOT).as_posix()
        for row in rows
        for path in (ROOT / "catalog").glob(row["files"].strip("`"))
        if path.is_file()
    )
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "catalog").rglob("*") if path.is_file()}
    assert covered == dict.fromkeys(files, 1)


def test_no_row_is_of_files_that_are_gone(rows: list[dict[str, str]]) -> None:
    assert [row["files"] for row in rows if not list((ROOT / "catalog").glob(row["files"].strip("`")))] == []


def test_each_row_is_whole_and_the_licence_of_the_package_is_that_of_all_rows(rows: list[dict[str, str]]) -> None:
    assert all(all(row.values()) for row in rows)
    licences = {row["licence"] for row in rows}
    assert [canonicalize_license_expression(licence) for licence in licences] == list(licences)
    assert set(PROJECT["license"].split(" AND ")) == licences


def test_what_is_not_ours_has_its_licence_and_notice_beside(rows: list[dict[str, str]]) -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for row in rows:
        if row["licence"] != "Apache-2.0":
            assert f"catalog/{row['files'].strip('`')}" in notice
            assert (ROOT / "LICENSES" / f"{row['licence']}.txt").is_file()


def test_rows_of_facts_name_their_sources() -> None:
    """The page says so; these are the files that consist of rows."""
    with open(ROOT / "catalog/measurements.csv", encoding="utf-8", newline="") as file:
        assert all(row["source"] for row in csv.DictReader(file))
    for name, kind in (("devices", "device"), ("known_issues", "issue"), ("ascend_versions", "torch_npu")):
        found = tomllib.loads((ROOT / f"catalog/{name}.toml").read_text(encoding="utf-8"))[kind]
        assert all(row["source"] for row in found)
    for path in [*(ROOT / "catalog/families").glob("*.toml"), *(ROOT / "catalog/tokenizers").glob("*.toml")]:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        records = (
            [content]
            if "full" in content or "key" in content
            else [*content.get("model", ()), *content.get("head", ())]
        )
        assert all(record["source"] for record in records), path
