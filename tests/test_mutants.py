"""scripts/mutants.py: a test whose id holds what was changed runs under its new id, or is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest

@pytest.mark.parametrize("size", {sizes})
def test_size(size):
    assert size == 3

def test_other():
    assert False
"""
SCRIPT = """
import sys
import pytest
from mutants import Chosen, Reach

names = ["test_size[3]", "test_size[4]", "test_other"]
known = Reach({f"test_it.py::{name}": 0.1 for name in names}, {}, {})
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_it.py"], [Chosen(["test_it.py::test_size[3]"], known)]))
"""


@pytest.mark.parametrize(
    ("sizes", "code", "said"),
    [
        ([3, 4], 0, "1 passed"),
        ([2, 4], 1, "1 failed"),
        ([4], 5, "not run, as the changed code has no such test: test_it.py::test_size[3]"),
    ],
    ids=["unchanged", "renamed", "gone"],
)
def test_a_chosen_test_runs_or_is_named(tmp_path: Path, sizes: list[int], code: int, said: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(sizes=sizes), encoding="utf-8")
    script = f"import sys\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\n{SCRIPT}"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr
