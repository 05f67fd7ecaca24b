"""Everything but the NPU works beside a real torch_npu on a machine without CANN.

`make test-torch-npu` installs both and runs this; elsewhere it is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "catalog" / "demo"
pytestmark = pytest.mark.skipif(
    "DRAFTPICK_TORCH_NPU" not in os.environ, reason="needs torch_npu; make test-torch-npu runs it"
)


def draftpick(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND", "TORCH_DEVICE"))}
    variables = {**kept, "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    command = [sys.executable, "-m", "draftpick", *arguments]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def test_without_draftpick_torch_is_not_imported(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND", "TORCH_DEVICE"))}
    done = subprocess.run([sys.executable, "-c", "import torch"], env=kept, capture_output=True, text=True, check=False)
    assert "Failed to load the backend extension: torch_npu" in done.stderr


def test_recommend(tmp_path: Path) -> None:
    done = draftpick("recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["decision"]["action"] == "speculate"


def test_doctor(tmp_path: Path) -> None:
    done = draftpick("doctor", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    found: dict[str, Any] = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    assert found["torch"]["verdict"] == "fail"
    assert "without torch_npu it is imported" in found["torch"]["text"]
    assert "pip uninstall torch-npu" in found["torch"]["mend"]
    assert found["transformers"]["verdict"] == "warn"
    assert (found["CANN"]["verdict"], found["torch_npu"]["verdict"]) == ("fail", "ok")


@pytest.mark.parametrize("device", [["--device", "cpu"], []], ids=["cpu", "not named"])
def test_probe(tmp_path: Path, device: list[str]) -> None:
    quick = ["--num-prompts", "4", "--max-new-tokens", "16", "--costs", "roofline", "--exit-zero", "-o", "probe.json"]
    pair = [str(DEMO / "target"), str(DEMO / "draft"), "--prompts", str(DEMO / "prompts.jsonl")]
    done = draftpick("probe", *pair, *quick, *device, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "probe.json").read_text())
    assert found["device"]["id"] == "cpu"
    assert found["drafts"][0]["num_prompts"] == 4


def test_probe_on_an_npu_says_what_is_missing(tmp_path: Path) -> None:
    pair = [str(DEMO / "target"), str(DEMO / "draft"), "--prompts", str(DEMO / "prompts.jsonl")]
    done = draftpick("probe", *pair, "--device", "npu:0", folder=tmp_path)
    assert done.returncode == 3
    assert "torch-npu is installed, but CANN is not on the loader's path" in done.stderr
