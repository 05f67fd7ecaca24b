"""Runs the command line: inside this process, or as a process of its own where pipes, signals or locales matter."""

from __future__ import annotations

import _ctypes
import contextlib
import gc
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from draftpick.ascend import LIBRARY
from draftpick.cli import main

_LOOKED_AT = ("HF_", "HUGGINGFACE_", "MODELSCOPE_", "XDG_", "DRAFTPICK_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LC_")


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


def environment(home: Path | None = None, **variables: str) -> dict[str, str]:
    """A user who has no caches, no overlay and no network, unless `home` holds some."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LOOKED_AT)}
    nobody = {"HOME": str(home or "/home-of-nobody"), "HF_HUB_OFFLINE": "1", "LANG": "C.UTF-8"}
    return {**kept, **nobody, **variables}


FAKE_NPU = Path(__file__).parent / "probing" / "fake_npu"


def beside_npu(folder: Path, *on_path: Path) -> dict[str, str]:
    """Variables of a machine with the stand-in for an NPU: torch_npu, npu-smi, and a CANN, made in a folder."""
    cann = folder / "cann"
    cann.mkdir(parents=True)
    shutil.copy(_ctypes.__file__, cann / LIBRARY)  # any library that loads will do
    (cann / "version.info").write_text("Version=9.1.0\n", encoding="utf-8")
    paths = {"PATH": [FAKE_NPU / "bin"], "PYTHONPATH": [FAKE_NPU, *on_path], "LD_LIBRARY_PATH": [cann]}
    return {
        "ASCEND_TOOLKIT_HOME": str(cann),
        **{
            name: os.pathsep.join([*map(str, first), *filter(None, [os.environ.get(name)])])
            for name, first in paths.items()
        },
    }


def run(*arguments: str, home: Path | None = None, **variables: str) -> Answer:
    """Run a command through its entry point, where errors become exit codes."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["draftpick", *arguments]),
        mock.patch.dict(os.environ, environment(home, **variables), clear=True),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        pytest.raises(SystemExit) as left,
    ):
        main()
    gc.enable()
    code = left.value.code
    return Answer(code if isinstance(code, int) else 0, stdout.getvalue(), stderr.getvalue())


def from_a_terminal() -> None:
    """Runs in a new process, so that it hears signals as one from a terminal does, whatever started these tests."""
    for name in ("SIGINT", "SIGHUP"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_DFL)


def command(*arguments: str) -> list[str]:
    """The command line of a process."""
    return [sys.executable, "-m", "draftpick", *arguments]


def spawn(*arguments: str, home: Path | None = None, script: str | None = None, **variables: str) -> Answer:
    """Run a command, or a script, as a process of its own."""
    done = subprocess.run(
        command(*arguments) if script is None else [sys.executable, "-c", script],
        env=environment(home, **variables),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def on_terminal(words: Sequence[str], variables: Mapping[str, str], folder: Path | None = None) -> tuple[int, str]:
    """The exit code of a command, and what it prints on a terminal of 100 columns without colours."""
    reader, terminal = pty.openpty()
    shown = {**variables, "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(words, env=shown, cwd=folder, stdout=terminal, stderr=terminal) as running:
        os.close(terminal)
        printed = b"".join(iter(lambda: _read(reader), b""))
    os.close(reader)
    return running.returncode, printed.decode().replace("\r\n", "\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:  # how Linux says that the other end was closed
        return b""
