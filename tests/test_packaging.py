"""The wheel carries the catalogue, works outside the tree, and is the same whoever builds it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from draftpick.catalog import packed_folder
from draftpick.catalog_index import compile_index, is_current

ROOT = Path(__file__).parent.parent


MOST_BYTES = 15_000_000


def build(tree: Path, folder: Path, *what: str, **environment: str) -> dict[str, bytes]:
    """The files that a tree is built into, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder, *(word for kind in what for word in ("-t", kind))],
        cwd=tree,
        env={key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return built_in(folder)


def built_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def copied(to: Path) -> Path:
    """The checkout, without what was built in it."""
    built = {"build", "dist", "_data", "__pycache__", ".git", ".hypothesis"}
    return Path(
        shutil.copytree(
            ROOT,
            to,
            ignore=lambda _, names: {
                name for name in names if name in built or name.startswith((".venv", ".mypy", ".ruff"))
            },
        )
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution of this tree."""
    folder = tmp_path_factory.mktemp("built")
    build(copied(folder / "tree"), folder / "dist", "sdist", "wheel")
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    (found,) = built.glob("*.tar.gz")
    return found


def test_the_wheel_is_small_and_holds_the_package_its_data_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    code = {path.relative_to(ROOT).as_posix() for path in files_of(ROOT / "draftpick") if "_data" not in path.parts}
    data = {
        f"draftpick/_data/{path.relative_to(ROOT).as_posix()}"
        for folder in ("catalog", "schemas")
        for path in files_of(ROOT / folder)
    }
    compiled = {f"draftpick/_data/{name}" for name in compile_index(ROOT / "catalog")}
    assert names == code | data | compiled
    assert wheel.stat().st_size <= MOST_BYTES


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_the_source_distribution_holds_what_tests_and_documentation_need_and_nothing_compiled(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/test_packaging.py",
        "docs/release.md",
        "NOTICE",
        "LICENSES/PSF-2.0.txt",
        ".github/workflows/release.yml",
    } <= names
    assert not [name for name in names if name.startswith(("draftpick/_data", "build", "dist", ".venv"))]


def test_licences_travel_with_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.partition("/licenses/")[2] for name in archive.namelist() if "/licenses/" in name}
    assert inside == {"LICENSE", "NOTICE", "LICENSES/PSF-2.0.txt"}


def elsewhere(to: Path) -> Path:
    """The checkout of somebody with other rights on files, other times, and the leftovers of an older catalogue."""
    tree = copied(to)
    left = tree / "draftpick" / "_data" / "relations" / "0000000000000000.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}", encoding="utf-8")
    for path in files_of(tree):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return tree


@pytest.mark.parametrize("epoch", [{}, {"SOURCE_DATE_EPOCH": "1700000000"}], ids=["no date", "a date"])
def test_two_builds_are_the_same_byte_for_byte(epoch: dict[str, str], tmp_path: Path, built: Path, wheel: Path) -> None:
    first = built_in(built)
    if epoch:
        first = build(copied(tmp_path / "one"), tmp_path / "first", "sdist", "wheel", PYTHONHASHSEED="1", **epoch)
    tree = elsewhere(tmp_path / "a" / "longer way to the other")
    second = build(tree, tmp_path / "second", "sdist", "wheel", PYTHONHASHSEED="2", TZ="Asia/Tokyo", **epoch)
    assert {name: digest(content) for name, content in first.items()} == {
        name: digest(content) for name, content in second.items()
    }
    assert (first[wheel.name] == wheel.read_bytes()) == (not epoch)


def test_the_source_distribution_builds_the_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path)
    (tree,) = tmp_path.iterdir()
    (again,) = build(tree, tmp_path / "again", "wheel").values()
    assert digest(again) == digest(wheel.read_bytes())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    elsewhere = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # A plain path in a .pth file lends the installed dependencies, without the editable draftpick among them.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = subprocess.run(
        [python, "-m", "draftpick", "recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend"],
        cwd=tmp_path,
        env=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Qwen/Qwen2.5-7B-Instruct" in done.stdout
    where = subprocess.run(
        [python, "-c", "import draftpick; print(draftpick.__file__)"],
        cwd=tmp_path,
        env=elsewhere,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))


def test_the_compiled_index_is_current() -> None:
    compiled = ROOT / "draftpick" / "_data"
    assert is_current(packed_folder(), compiled), "stale: run `make test`, or `python -m draftpick.catalog_index`"
