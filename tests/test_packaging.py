"""The wheel carries the catalogue, and works outside the tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from draftpick.catalog import packed_folder
from draftpick.catalog_index import is_current

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_small_and_whole(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"draftpick/_data/index.json", "draftpick/_data/models.jsonl", "draftpick/_data/tokenizers.json"} <= names
    assert {"draftpick/report/report.css", "draftpick/report/report.html.jinja"} <= names
    assert any(name.startswith("draftpick/_data/relations/") for name in names)
    assert any(name.startswith("draftpick/_data/catalog/families/") for name in names)
    assert {f"draftpick/_data/schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} <= names
    assert wheel.stat().st_size < 15_000_000


def test_recommend_runs_from_the_wheel_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    zipfile.ZipFile(wheel).extractall(site)
    # A plain path in a .pth file lends the installed dependencies, without the editable draftpick among them.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = subprocess.run(
        [python, "-m", "draftpick", "recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Qwen/Qwen2.5-7B-Instruct" in done.stdout
    where = subprocess.run(
        [python, "-c", "import draftpick; print(draftpick.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))


def test_the_compiled_index_is_current() -> None:
    compiled = ROOT / "draftpick" / "_data"
    assert is_current(packed_folder(), compiled), "stale: run `make test`, or `python -m draftpick.catalog_index`"
