"""Whole probes on a stand-in for an NPU: what they ask of the device, and what they do when it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from commands import beside_npu
from torch.utils import backend_registration

from draftpick.probing.trace import Row, read

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="needs fork, and a torch that takes a device written in Python",
)

HERE = Path(__file__).parent
DEMO = HERE.parent.parent / "catalog" / "demo"
PROMPTS = ("--prompts", str(DEMO / "prompts.jsonl"), "--num-prompts", "4", "--precision", "0", "--exit-zero")
QUICK = (*PROMPTS, "--max-new-tokens", "8", "--dtype", "float32", "-k", "2", "--costs", "roofline")
BOTH = ("--temperature", "0", "--temperature", "0.8", "--top-k", "50", "--top-p", "0.9")
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what the device saw of it."""

    exit_code: int
    stdout: str
    stderr: str
    seen: dict[str, Any]
    folder: Path

    @property
    def probe(self) -> dict[str, Any]:
        found = json.loads((self.folder / "probe.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    @property
    def trace(self) -> Path:
        return self.folder / "probe.trace.jsonl"

    @property
    def rows(self) -> list[Row]:
        return list(read(self.trace).rows)


class Machine:
    """A computer with NPUs, or with the software for them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()
        self._npu = beside_npu(folder, HERE)
        self.target, self.draft = self._model("target", 4.0), self._model("draft", 3.5)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "npu_runs.py")],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _model(self, name: str, sharpness: float) -> Path:
        folder = tiny_models.saved(self._folder / name, "llama", 2048, sharpness=sharpness)
        for path in (DEMO / "target").glob("tokenizer*"):
            shutil.copy(path, folder)
        return folder

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self._npu,
            "OMP_NUM_THREADS": "1",
            "HOME": "/home-of-nobody",
            "HF_HUB_OFFLINE": "1",
        }

    def folder(self) -> Path:
        made = self._folder / str(next(self._numbers))
        made.mkdir()
        return made

    def _run(self, folder: Path, settings: dict[str, Any], request: dict[str, Any]) -> Ran:
        files = {name: folder / f"{name}-{next(self._numbers)}" for name in ("stdout", "stderr", "report")}
        settings = {**settings, "report": str(files["report"])}
        request = {**request, "settings": settings, "stdout": str(files["stdout"]), "stderr": str(files["stderr"])}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        stdout, stderr, report = (files[name].read_text(encoding="utf-8") for name in ("stdout", "stderr", "report"))
        return Ran(code, stdout, stderr, json.loads(report), folder)

    def _arguments(self, folder: Path, *options: str) -> list[str]:
        return ["probe", str(self.target), str(self.draft), "-o", str(folder / "probe.json"), *options]

    def probe(self, *options: str, folder: Path | None = None, **settings: Any) -> Ran:
        folder = folder or self.folder()
        return self._run(folder, settings, {"arguments": self._arguments(folder, *options)})

    def probe_in_a_process_of_its_own(self, *options: str, **settings: Any) -> Ran:
        folder = self.folder()
        report = folder / "report"
        done = subprocess.run(
            [sys.executable, "-m", "draftpick", *self._arguments(folder, *options)],
            env={**self._environment(), "FAKE_NPU": json.dumps({**settings, "report": str(report)})},
            capture_output=True,
            text=True,
            check=False,
        )
        seen = json.loads(report.read_text(encoding="utf-8"))
        return Ran(done.returncode, done.stdout, done.stderr, seen, folder)

    def script(self, text: str, **settings: Any) -> Ran:
        return self._run(self.folder(), settings, {"script": text})

    def off(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("npu"))
    yield made
    made.off()


def passed(ran: Ran) -> Ran:
    assert ran.exit_code == 0, ran.stderr
    return ran


@pytest.fixture(scope="session")
def measured(machine: Machine) -> Ran:
    """Everything that a probe does: writing, reading, timing, checking, both temperatures."""
    options = (*PROMPTS, "--max-new-tokens", "8", "--dtype", "float32", "-k", "2", "--verify", "1")
    return passed(machine.probe(*options, *BOTH))


@pytest.fixture(scope="session")
def on_cpu(machine: Machine) -> Ran:
    """The same text, without the device."""
    return passed(machine.probe(*QUICK, *BOTH, "--device", "cpu"))


@pytest.fixture(scope="session")
def whole(machine: Machine) -> Ran:
    """An undisturbed run of two prompts at a time."""
    return passed(machine.probe(*QUICK, "--batch-size", "2"))


def assert_same(found: list[Row], expected: list[Row], **close: Any) -> None:
    assert [(row.prompt, row.temperature, row.tokens) for row in found] == [
        (row.prompt, row.temperature, row.tokens) for row in expected
    ]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.ended == theirs.ended
        np.testing.assert_allclose(np.exp(mine.log_p), np.exp(theirs.log_p), **close)
        assert mine.drafts.keys() == theirs.drafts.keys()
        for name, columns in mine.drafts.items():
            other = theirs.drafts[name]
            assert columns.top == other.top
            np.testing.assert_allclose(columns.top_prob, other.top_prob, **close)
            assert (columns.target_prob_of_top is None) == (other.target_prob_of_top is None)
            if columns.target_prob_of_top is not None:
                np.testing.assert_allclose(columns.target_prob_of_top, other.target_prob_of_top, **close)
            assert columns.log_q.keys() == other.log_q.keys()
            for heat, column in columns.log_q.items():
                np.testing.assert_allclose(np.exp(column), np.exp(other.log_q[heat]), **close)
            for heat, column in columns.overlap.items():
                np.testing.assert_allclose(column, other.overlap[heat], **close)


# ---------------------------------------------------------------------- the stand-in


def test_the_device_is_found_as_torch_finds_the_real_one(machine: Machine) -> None:
    ran = passed(machine.script(THE_DEVICE, count=2))
    assert ran.stdout.split() == ["npu", "2", "npu:1", "refused", "refused", "refused", "42.0", "2", "lgamma.out"]


THE_DEVICE = """
import sys, torch
print(torch.accelerator.current_accelerator(), torch.accelerator.device_count())
here, there = torch.ones(2, 2, device="npu:1"), torch.ones(2, 2, device="npu:0")
print(here.device)
for other in (torch.ones(2, 2), there):
    try:
        here @ other
    except RuntimeError as error:
        assert "Expected all tensors to be on the same device, but found at least two devices, npu:" in str(error)
        print("refused")
try:
    here.numpy()
except (RuntimeError, TypeError):
    print("refused")
here.view(4)[1] = 42.0
print(here[0, 1].item(), int((here * torch.tensor(2.0))[0, 0]))
torch.lgamma(here)
print(*sys.modules["torch_npu.settings"].SEEN.fallbacks)
"""


# ---------------------------------------------------------------------- what is measured


def test_the_trace_is_that_of_the_cpu(measured: Ran, on_cpu: Ran) -> None:
    assert len(measured.rows) == 8
    assert_same(measured.rows, on_cpu.rows, **CLOSE)
    ours, theirs = (dict(read(ran.trace).header) for ran in (measured, on_cpu))
    assert (ours.pop("device"), theirs.pop("device")) == ("npu:0", "cpu")
    assert ours == theirs
    assert on_cpu.seen["operations"] == {}, "nothing of the run on the CPU reaches the device"


def test_the_figures_are_those_of_the_cpu(measured: Ran, on_cpu: Ran) -> None:
    for mine, theirs in zip(measured.probe["drafts"], on_cpu.probe["drafts"], strict=True):
        assert mine["acceptance_rate"]["value"] == pytest.approx(theirs["acceptance_rate"]["value"], abs=1e-5)
        lengths = [[row["mean_acceptance_length"] for row in one["by_k"]] for one in (mine, theirs)]
        assert lengths[0] == pytest.approx(lengths[1], abs=1e-5)


def test_the_probe_checks_itself_on_the_device(measured: Ran) -> None:
    checks = measured.probe["checks"]
    assert [check for check in checks if not check["passed"]] == []
    kinds = {check["name"].split(" with ")[0] for check in checks}
    assert kinds == {"the target as its own draft", "replay against assisted generation", "assisted generation"}


def test_passes_are_timed_between_moments_at_which_the_device_is_idle(measured: Ran) -> None:
    (costs,) = measured.probe["drafts"][0]["costs"]
    assert 0 < costs["target_ms"] == pytest.approx(costs["verify_ms"][0])
    assert len(costs["verify_ms"]) == 3
    assert "(eager)" in costs["software"], "no graph is captured"
    # At least ten rounds of five kinds of passes, before and after each.
    assert measured.seen["calls"]["torch.accelerator.synchronize(npu:0)"] >= 2 * 10 * 5


def test_memory_is_what_the_device_held(measured: Ran, machine: Machine) -> None:
    weights = sum((folder / "model.safetensors").stat().st_size for folder in (machine.target, machine.draft))
    assert measured.probe["peak_bytes"] == measured.seen["peaks"]["0"] > weights - 20_000


def test_the_device_is_named_by_torch_and_by_its_tool(measured: Ran) -> None:
    probe = measured.probe
    assert probe["device"] == {**probe["device"], "id": "npu:0", "name": "Ascend910B3", "count": 1, "threads": None}
    assert probe["device"]["tool_name"].lower() == "910b3"
    assert probe["software"]["torch_npu"] == "2.13.0+fake"
    assert "npu:0" in measured.stdout


def test_no_operation_falls_back_to_the_cpu(measured: Ran) -> None:
    assert measured.seen["fallbacks"] == {}


def test_no_number_of_64_bits_is_a_fraction(measured: Ran) -> None:
    """NPUs compute in float64 slowly, or not at all."""
    assert [name for name, types in measured.seen["types"].items() if {"float64", "complex128"} & {*types}] == []


# ---------------------------------------------------------------------- the page that says so
PAGE = HERE.parent.parent / "docs" / "npu.md"
PART = re.compile(
    r"(?s)<!-- operations of torch (?P<torch>\S+), transformers (?P<transformers>\S+) -->\n(?P<list>.*?)<!-- end -->\n"
)


def operations(seen: dict[str, Any]) -> str:
    """What ran on the device, by the types of its numbers."""
    by_types: dict[str, list[str]] = {}
    for name in sorted(seen["operations"]):
        by_types.setdefault(", ".join(sorted(seen["types"][name])), []).append(f"`{name}`")
    return "\n" + "".join(f"- {types}: {', '.join(by_types[types])}\n" for types in sorted(by_types)) + "\n"


def test_the_page_lists_the_operations(measured: Ran) -> None:
    """UPDATE_DOCUMENTS=1 writes the list anew."""
    text = PAGE.read_text(encoding="utf-8")
    found = PART.search(text)
    assert found is not None
    here = {name: metadata.version(name).partition("+")[0] for name in ("torch", "transformers")}
    if "UPDATE_DOCUMENTS" in os.environ:
        head = f"<!-- operations of torch {here['torch']}, transformers {here['transformers']} -->\n"
        part = f"{head}{operations(measured.seen)}<!-- end -->\n"
        PAGE.write_text(text.replace(found[0], part), encoding="utf-8")
        found = PART.search(part)
        assert found is not None
    if (found["torch"], found["transformers"]) != (here["torch"], here["transformers"]):
        pytest.skip(f"the page is about torch {found['torch']} and transformers {found['transformers']}")
    assert found["list"] == operations(measured.seen)


def test_the_page_lists_the_calls(measured: Ran, squeezed: Ran) -> None:
    """Of a device's module and of torch.accelerator: who else is asked is seen here."""
    called = {name.partition("(")[0] for ran in (measured, squeezed) for name in ran.seen["calls"]}
    listed = re.findall(r"^\| `(torch\.(?:npu|accelerator)\.\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(called) == sorted(listed)


# ---------------------------------------------------------------------- choices


def test_the_second_device_is_used_alone(machine: Machine, whole: Ran) -> None:
    """As on a real machine, where torch is imported by draftpick and finds torch_npu by itself."""
    options = (*QUICK, "--batch-size", "2", "--device", "NPU:1")
    ran = passed(machine.probe_in_a_process_of_its_own(*options, count=2))
    assert ran.probe["device"]["id"] == "npu:1"
    assert ran.seen["peaks"].keys() == {"1"}
    assert ran.probe["peak_bytes"] == ran.seen["peaks"]["1"]
    assert_same(ran.rows, whole.rows, **CLOSE)


@pytest.mark.parametrize("attention", ["eager"])
def test_attention_is_chosen(attention: str, machine: Machine, whole: Ran) -> None:
    ran = passed(machine.probe(*QUICK, "--batch-size", "2", "--attention", attention))
    assert "scaled_dot_product_attention" in whole.seen["operations"]
    assert "scaled_dot_product_attention" not in ran.seen["operations"]
    assert_same(ran.rows, whole.rows, **CLOSE)


def test_positions_out_of_the_mask_are_read_rightly(machine: Machine) -> None:
    """On an NPU transformers turns masks into true and false for its sdpa, which would lose ALiBi."""
    ran = passed(machine.script(ALIBI))
    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [
        ["bloom", "eager"],
        ["mpt", "eager"],
        ["falcon", "sdpa"],
    ]


ALIBI = """
import torch, transformers, tiny_models
from draftpick.probing.local import LocalModel, read_answers
tiny_models.CONFIGS["mpt"] = lambda rows: transformers.MptConfig(
    vocab_size=rows, d_model=32, n_heads=4, n_layers=2, max_seq_len=256)
tiny_models.CONFIGS["falcon"] = lambda rows: transformers.FalconConfig(
    vocab_size=rows, hidden_size=32, num_attention_heads=4, num_hidden_layers=2, alibi=True)
prompts, answers = tiny_models.texts(9, 4), tiny_models.texts(20, 20, seed=1)
for name in ("bloom", "mpt", "falcon"):
    here, there = (LocalModel(name, tiny_models.network(name).to(device), device) for device in ("cpu", "npu:0"))
    ((mine, _), (theirs, _)) = (read_answers(prompts, answers, [model])[0] for model in (here, there))
    error = abs(mine.log_prob[1.0] - theirs.log_prob[1.0]).max()
    print(name, there.model.config._attn_implementation, error)
    assert error < 1e-4
"""


# ---------------------------------------------------------------------- devices that are not there


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        (("--device", "npu"), {"count": 0}, "there is no npu device here"),
        (("--device", "npu:2"), {"count": 2}, "there is no npu:2 here: torch sees 2 of them"),
        (("--device", "cuda"), {}, "there is no cuda device here: torch sees npu"),
        ((), {"driver": False}, "the device failed: Initialize"),
        (("--device", "npu", "-tp", "2"), {}, "--tensor-parallel-size 2"),
    ],
    ids=["none", "third of two", "of another kind", "no driver", "two of one"],
)
def test_a_device_that_is_not_there_is_told(
    options: tuple[str, ...], settings: dict[str, Any], said: str, machine: Machine
) -> None:
    ran = machine.probe(*QUICK, *options, **settings)
    assert ran.exit_code == 3
    assert said in ran.stderr
    assert "hint: " in ran.stderr
    assert not ran.trace.exists()


@pytest.mark.parametrize(("options", "settings"), [((), {"count": 0}), (("--device", "cpu"), {"driver": False})])
def test_without_a_device_the_cpu_measures(
    options: tuple[str, ...], settings: dict[str, Any], machine: Machine, whole: Ran
) -> None:
    ran = passed(machine.probe(*QUICK, "--batch-size", "2", "--num-prompts", "2", *options, **settings))
    assert ran.probe["device"]["id"] == "cpu"
    assert_same(ran.rows, whole.rows[:2], **CLOSE)


# ---------------------------------------------------------------------- memory that runs out


@pytest.fixture(scope="session")
def side_by_side(machine: Machine) -> Ran:
    """Four prompts at a time, with all the memory there is."""
    return passed(machine.probe(*QUICK, "--batch-size", "4"))


@pytest.fixture(scope="session", params=["OutOfMemoryError", "RuntimeError"])
def squeezed(request: pytest.FixtureRequest, machine: Machine, side_by_side: Ran) -> Ran:
    """The same with a byte less than that took."""
    capacity = side_by_side.probe["peak_bytes"] - 1
    return passed(machine.probe(*QUICK, "--batch-size", "4", capacity=capacity, spelling=request.param))


def test_where_memory_runs_out_half_as_many_rows_give_the_same(squeezed: Ran, side_by_side: Ran) -> None:
    assert (side_by_side.seen["refused"], squeezed.seen["refused"]) == (0, 1)
    assert squeezed.seen["calls"]["torch.npu.empty_cache"] == 1
    assert squeezed.probe["peak_bytes"] < side_by_side.probe["peak_bytes"]
    assert_same(squeezed.rows, side_by_side.rows, **CLOSE)


def test_where_one_row_is_too_much_it_is_told_and_what_was_measured_is_kept(
    machine: Machine, side_by_side: Ran
) -> None:
    folder = machine.folder()
    few = passed(machine.probe(*QUICK, "--batch-size", "1", "--num-prompts", "2", folder=folder))
    long = ("--batch-size", "1", "--resume")
    ran = machine.probe(*QUICK, *long, folder=folder, capacity=few.seen["peaks"]["0"] - 40_000)
    assert ran.exit_code == 3, ran.stderr
    assert "memory ran out" in ran.stderr
    assert_same(ran.rows, side_by_side.rows[: len(ran.rows)], **CLOSE)
    assert len(ran.rows) >= 2
    assert_same(passed(machine.probe(*QUICK, *long, folder=folder)).rows, side_by_side.rows, **CLOSE)


def test_a_model_that_does_not_fit_is_told(machine: Machine) -> None:
    ran = machine.probe(*QUICK, capacity=100_000)
    assert ran.exit_code == 3
    assert f"{machine.target} does not fit in memory: NPU out of memory. Tried to allocate" in ran.stderr


def test_where_timing_takes_too_much_memory_the_answers_are_kept(machine: Machine, whole: Ran) -> None:
    folder, options = machine.folder(), [*QUICK, "--batch-size", "2"]
    options[options.index("roofline")] = "measured"
    capacity = whole.probe["peak_bytes"] + 100_000
    ran = machine.probe(*options, "--timed-batch", "64", folder=folder, capacity=capacity)
    assert ran.exit_code == 3, ran.stderr
    assert "error: memory ran out on npu:0\nhint: time fewer sequences (--timed-batch)" in ran.stderr
    assert_same(ran.rows, whole.rows[:2], **CLOSE)


# ---------------------------------------------------------------------- a device that is lost


def test_a_device_that_is_lost_keeps_what_was_measured(machine: Machine, whole: Ran) -> None:
    folder, options = machine.folder(), (*QUICK, "--batch-size", "2")
    ran = machine.probe(*options, folder=folder, lost_after=sum(whole.seen["operations"].values()) * 3 // 4)
    assert ran.exit_code == 3, ran.stderr
    assert "error: the device failed: " in ran.stderr
    assert "NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507010" in ran.stderr
    assert "--resume" in ran.stderr
    assert 0 < len(ran.rows) < len(whole.rows)
    assert not (folder / "probe.json").exists()
    passed(machine.probe(*options, "--resume", folder=folder))
    assert ran.trace.read_bytes() == whole.trace.read_bytes()


@pytest.mark.parametrize("after", [0, 200], ids=["at once", "at the first pass"])
def test_a_device_that_is_lost_while_loading_is_told(after: int, machine: Machine) -> None:
    ran = machine.probe(*QUICK, lost_after=after)
    assert ran.exit_code == 3
    assert "error: the device failed: " in ran.stderr
    assert not ran.trace.exists()
