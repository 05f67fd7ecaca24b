"""Files that are the old ones or the new ones."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from draftpick.atomic import CannotWrite, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("text", ["", "one line\n", "Ünïcode ｜ ▁\r\n", "lone \ud800 surrogate"], ids=repr)
def test_a_file_holds_what_was_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answer.txt"
    write_text(path, text)
    assert path.read_bytes() == text.encode("utf-8", "backslashreplace")
    assert names(tmp_path) == ["answer.txt"]


def test_an_existing_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old " * 1000)
    path.chmod(0o640)
    before = path.stat().st_ino
    write_text(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    assert path.stat().st_ino != before, "written beside it and moved into place"


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    write_text(path, "new")
    other = tmp_path / "other.txt"
    other.write_text("by hand")
    assert path.stat().st_mode == other.stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"the folder .*no does not exist") as error:
        write_text(tmp_path / "no" / "answer.txt", "new")
    assert error.value.exit_code == 3
    assert names(tmp_path) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="directory"):
        write_text(tmp_path, "new")


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from draftpick.atomic import CannotWrite, write_text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_text(Path(sys.argv[1]), "x" * 100_000)
except CannotWrite as error:
    print(error.message)
"""


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}: File too large\n"
    assert path.read_text() == "old"
    assert names(tmp_path) == ["answer.txt"]


def test_a_device_or_pipe_is_written_to() -> None:
    write_text(Path(os.devnull), "gone")
    reading, writing = os.pipe()
    write_text(Path(f"/dev/fd/{writing}"), "through a pipe")
    os.close(writing)
    assert os.read(reading, 100) == b"through a pipe"
    os.close(reading)


def test_a_full_device_is_told() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(CannotWrite, match="No space left"):
        write_text(Path("/dev/full"), "no room")
