"""draftpick from Python: the same options as on the command line, the same answers, and errors instead of exits."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints
from unittest import mock

import numpy as np
import pytest
from commands import Answer, environment, run

import draftpick
from draftpick import cli
from draftpick.advice_file import AdviceFile
from draftpick.errors import UsageError
from draftpick.gate_file import GateFile
from draftpick.option_values import PARAMETERS
from draftpick.probe_file import ProbeFile
from draftpick.report.typed import command_line

TARGET, DRAFT, SMALL = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
ROOT = Path(__file__).parent.parent
PAIR = ROOT / "catalog" / "demo"
QUICK: dict[str, Any] = {
    "prompts": PAIR / "prompts.jsonl",
    "max_new_tokens": 24,
    "num_prompts": 36,
    "precision": 0,
    "costs": "roofline",
}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    """The surroundings that commands run in here."""
    with mock.patch.dict(os.environ, environment(), clear=True):
        yield


@pytest.fixture(scope="module")
def probe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probe") / "probe.json"
    with mock.patch.dict(os.environ, environment(), clear=True):
        draftpick.probe(PAIR / "target", PAIR / "draft", output=path, **QUICK)
    return path


# ---------------------------------------------------------------------- the same options

SHOWN = {"config", "format", "json", "output", "explain", "exit-zero", "quiet", "no-color", "init"}
"""Options of how an answer is shown; `gate --init` answers with a file to be changed by hand."""
NAMES = ("recommend", "check", "probe", "plan", "gate")


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_the_options_of_its_command(name: str) -> None:
    taken = {parameter: option for option, parameter in PARAMETERS.items()}
    command = [taken.get(one, one) for one in inspect.signature(getattr(cli, name)).parameters]
    kept = {"output"} if name == "probe" else set()
    assert [one for one in command if one.replace("_", "-") not in SHOWN - kept] == list(
        inspect.signature(getattr(draftpick, name)).parameters
    )


@pytest.mark.parametrize("name", NAMES)
def test_options_are_named_and_described(name: str) -> None:
    function = getattr(draftpick, name)
    arguments = ("target", "draft", "probe_file", "policy_file")
    others = [one for one in inspect.signature(function).parameters.values() if one.name not in arguments]
    assert {one.kind for one in others} == {inspect.Parameter.KEYWORD_ONLY}
    assert {one.default for one in others} <= {None, False}
    described = draftpick.recommend.__doc__ or ""
    described += function.__doc__ or ""
    assert [one.name for one in others if f" {one.name}: " not in described and f"{one.name}," not in described] == []


KINDS = {
    "bool": "true or false",
    "bool | None": "true or false",
    "int | None": "a whole number",
    "int | Sequence[int] | None": "a whole number",
    "float | None": "a number",
    "float | Sequence[float] | None": "a number",
    "str | Sequence[str] | None": "a list of texts",
    "str | Path | Sequence[str | Path] | None": "a text",
}
"""What the hint of a wrong value says, by type; of all others that a text is wanted."""
NEEDED = {"recommend": {"target": TARGET}, "check": {"target": TARGET, "draft": DRAFT}}


@pytest.mark.parametrize("name", NAMES)
def test_what_an_option_takes_is_what_its_type_says(name: str) -> None:
    function = getattr(draftpick, name)
    for one in inspect.signature(function).parameters.values():
        with pytest.raises(draftpick.DraftpickError) as caught:
            function(**{**NEEDED.get(name, {}), one.name: object()})
        assert type(caught.value).__name__ == "UsageError"
        assert "<object object" in caught.value.message
        wanted = "a list of texts" if one.name == "draft_model" else KINDS.get(one.annotation, "a text")
        assert caught.value.hint.startswith(f"give {wanted}"), one


@pytest.mark.parametrize("name", NAMES)
def test_ranges_are_those_of_the_command(name: str) -> None:
    taken = {parameter: option for option, parameter in PARAMETERS.items()}
    hints = get_type_hints(getattr(cli, name), include_extras=True)
    parsed = {one: hint.__metadata__[0] for one, hint in hints.items() if hasattr(hint, "__metadata__")}
    for one, option in parsed.items():
        if getattr(option, "parser", None) is None:
            continue
        with pytest.raises(UsageError) as by_command:
            option.parser("-1")
        with pytest.raises(UsageError) as by_call:
            getattr(draftpick, name)(**NEEDED.get(name, {}), **{taken.get(one, one): -1})
        assert (by_call.value.message, by_call.value.hint) == (by_command.value.message, by_command.value.hint)


@pytest.mark.parametrize("name", ["recommend", "check", "plan"])
def test_the_examples_are_true(name: str) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(draftpick, name))
    done = doctest.DocTestRunner().run(example)
    assert done.failed == 0
    assert done.attempted > 1


# ---------------------------------------------------------------------- the same answers


class Call(NamedTuple):
    """A call, from which the command line is made."""

    name: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})

    def of_python(self) -> Any:
        return getattr(draftpick, self.name)(*self.arguments, **self.options)

    def of_command(self) -> Answer:
        return run(self.name, *map(str, self.arguments), *self._words(), "--json")

    def _words(self) -> Iterator[str]:
        for name, value in self.options.items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                yield option if value else option.replace("--", "--no-", 1)
                continue
            for one in value if isinstance(value, (list, tuple)) else [value]:
                yield from (option, str(one))


PLACE = {"engine": "vllm-ascend@0.18.0", "device": "910b3", "tensor_parallel_size": 4, "max_num_seqs": np.int64(8)}


@pytest.mark.parametrize(
    "call",
    [
        Call("recommend", (TARGET,)),
        Call("recommend", (TARGET,), {**PLACE, "max_model_len": 4096, "kv_cache_dtype": "int8"}),
        Call("recommend", (TARGET,), {"draft_model": [DRAFT, SMALL], "temperature": np.float32(0.5), "all": True}),
        Call("recommend", (TARGET,), {"draft_model": DRAFT, "memory": "60.9GiB", "bandwidth": "1600GB/s"}),
        Call("check", (TARGET, DRAFT), {**PLACE, "images": False, "trust_remote_code": True, "workload": "code"}),
        Call("check", (TARGET, "Qwen/Qwen3.5-27B"), {"select": "tokenizer-identity", "temperature": 1}),
        Call("check", (TARGET, DRAFT), {"ignore": ["depth=a test", "size-ratio=another"], "input_len": 1000}),
        Call("check", (PAIR / "target", PAIR / "draft"), {"engine": "vllm", "device": "auto"}),
        Call("plan", (), {"acceptance_rate": 0.65, "draft_cost": 0.05}),
        Call("plan", (), {"mean_acceptance_length": 2, "num_speculative_tokens": 3, "draft_cost": 0, "verify_cost": 2}),
        Call("plan", (), {"draft_acceptance_rate": 0.5, "num_speculative_tokens": 3, "draft_cost": 1, "overhead": 0.5}),
    ],
    ids=lambda call: " ".join([call.name, *call.options]),
)
def test_a_call_gives_what_the_command_writes(call: Call) -> None:
    answer = call.of_command()
    assert answer.exit_code in (0, 1), answer.stderr
    found = call.of_python()
    assert found == AdviceFile.model_validate(answer.document)
    assert found.request.command == call.name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"device": "910b3", "engine": "vllm-ascend", "max_num_seqs": 4},
        {"policy": ["fixed", "rate"], "device": "h100-80g", "engine": "vllm"},
        {"num_speculative_tokens": 2, "temperature": 0},
    ],
    ids=lambda options: " ".join(options) or "as measured",
)
def test_a_plan_of_a_probe_is_what_the_command_writes(probe_file: Path, options: dict[str, Any]) -> None:
    call = Call("plan", (probe_file,), options)
    assert call.of_python() == AdviceFile.model_validate(call.of_command().document)


def test_a_record_is_planned_as_its_file_is(probe_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ProbeFile.model_validate_json(probe_file.read_bytes())
    of_record = draftpick.plan(record, device="910b3", engine="vllm-ascend")
    of_file = draftpick.plan(str(probe_file), device="910b3", engine="vllm-ascend")
    assert of_record.model_copy(update={"request": of_file.request}) == of_file
    assert command_line(of_record.request) is None, "no command names what is in memory"
    assert of_record.request.options == of_file.request.options
    monkeypatch.chdir(probe_file.parent)
    assert len(draftpick.plan(record, policy="all").policies) == 5


@pytest.mark.parametrize("others", [False, True], ids=["no trace", "the trace of another probe"])
def test_a_record_is_planned_without_its_trace(
    probe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if others:
        Path("probe.trace.jsonl").write_text("{}\n")
    record = ProbeFile.model_validate_json(probe_file.read_bytes())
    assert draftpick.plan(record).candidates == draftpick.plan(probe_file).candidates
    with pytest.raises(draftpick.DraftpickError, match="trace is gone"):
        draftpick.plan(record, policy="all")


OF_THE_RUN = {"created", "duration_s", "seconds", "peak_bytes", "trace", "notes"}
"""What differs between two runs."""


def test_a_probe_is_what_the_command_writes(probe_file: Path, tmp_path: Path) -> None:
    call = Call("probe", (PAIR / "target", PAIR / "draft"), {**QUICK, "output": tmp_path / "other.json"})
    answer = call.of_command()
    assert answer.exit_code in (0, 1), answer.stderr
    by_command = json.loads((tmp_path / "other.json").read_text(encoding="utf-8"))
    by_call = json.loads(probe_file.read_text(encoding="utf-8"))
    assert {name for name in by_call if by_call[name] != by_command[name]} <= OF_THE_RUN
    assert (by_call["trace"]["path"], by_command["trace"]["path"]) == ("probe.trace.jsonl", "other.trace.jsonl")
    assert (probe_file.parent / "probe.trace.jsonl").is_file()
    asked = command_line(ProbeFile.model_validate(by_call).request)
    assert asked is not None
    assert asked == (
        f"draftpick probe {PAIR / 'target'} {PAIR / 'draft'} --prompts {PAIR / 'prompts.jsonl'} --num-prompts 36 "
        "--max-new-tokens 24 --precision 0.0 --costs roofline"
    )


def test_the_trace_lies_where_one_looks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = {**QUICK, "num_prompts": 6}
    names = str(PAIR / "target"), [str(PAIR / "draft")]
    found = draftpick.probe(*names, temperature=[0, 0.8], trace="mine.jsonl", **few)
    assert [one.temperature for one in found.drafts] == [0, 0.8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl"]
    with pytest.raises(draftpick.DraftpickError, match=r"mine\.jsonl is there already"):
        draftpick.probe(*names, temperature=[0, 0.8], trace="mine.jsonl", **few)
    again = draftpick.probe(*names, temperature=[0, 0.8], trace="mine.jsonl", resume=True, **few)
    assert again.drafts[0] == found.drafts[0]
    assert again.num_tokens == found.num_tokens
    draftpick.probe(*names, **few)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl", "probe.trace.jsonl"]


def test_what_was_measured_is_kept_on_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is written, then somebody presses Ctrl-C."""
    script = f"""
import signal
import draftpick
from draftpick.probing.trace import Writer
append = Writer.append
def one(self, rows):
    append(self, rows)
    signal.raise_signal(signal.SIGINT)
Writer.append = one
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    draftpick.probe({str(PAIR / "target")!r}, {str(PAIR / "draft")!r}, output="probe.json", batch_size=2,
                    prompts={str(PAIR / "prompts.jsonl")!r}, max_new_tokens=16, costs="roofline")
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
    found = ProbeFile.model_validate_json((tmp_path / "probe.json").read_bytes())
    assert 0 < found.num_prompts < 64


def test_a_gate_is_what_the_command_writes(probe_file: Path, tmp_path: Path) -> None:
    policy = tmp_path / "pairs.toml"
    policy.write_text(
        f'[[pair]]\nname = "demo"\ntarget = "{PAIR / "target"}"\ndraft = "{PAIR / "draft"}"\n'
        f'evidence = "{probe_file}"\n[pair.policy]\nmin_acceptance_rate = 0.99\nmin_prompts = 4\n'
    )
    call = Call("gate", (policy,))
    answer, found = call.of_command(), call.of_python()
    assert isinstance(found, GateFile)
    assert found == GateFile.model_validate(answer.document)
    assert (found.passed, found.exit_code) == (False, answer.exit_code) == (False, 1)


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "call",
    [
        Call("recommend", (TARGET,), {"max_num_seqs": 0}),
        Call("recommend", (TARGET,), {"tensor_parallel_size": 2.5}),
        Call("recommend", (TARGET,), {"temperature": 11}),
        Call("recommend", (TARGET,), {"temperature": float("nan")}),
        Call("recommend", (TARGET,), {"gpu_memory_utilization": 1.5}),
        Call("recommend", (TARGET,), {"engine": "vlm"}),
        Call("recommend", (TARGET,), {"device": "910b9"}),
        Call("recommend", (TARGET,), {"dtype": "int3"}),
        Call("recommend", (TARGET,), {"memory": "64"}),
        Call("recommend", (TARGET,), {"workload": "poems"}),
        Call("recommend", (TARGET,), {"ignore": "depth"}),
        Call("recommend", (TARGET,), {"rules_file": "/nothing.toml"}),
        Call("recommend", (TARGET,), {"catalog": "/nothing"}),
        Call("recommend", ("nobody/nothing",)),
        Call("check", (TARGET, "nobody/nothing")),
        Call("plan", (), {}),
        Call("plan", (), {"acceptance_rate": 1.5, "draft_cost": 0.1}),
        Call("plan", (), {"acceptance_rate": 0.5, "mean_acceptance_length": 2, "draft_cost": 0.1}),
        Call("plan", (), {"acceptance_rate": 0.5, "draft_cost": 0.1, "policy": "all"}),
        Call("plan", ("/nothing.json",)),
        Call("plan", (PAIR / "recipe.json",)),
        Call("plan", (PAIR / "recipe.json",), {"verify_cost": 1.0}),
        Call("recommend", (TARGET,), {"probe": True}),
        Call("probe", ()),
        Call("probe", (TARGET, DRAFT)),
        Call("probe", (TARGET, DRAFT), {"temperature": [0, 11]}),
        Call("probe", (TARGET, DRAFT), {"timed_batch": 0}),
        Call("probe", (PAIR / "target", PAIR / "draft"), {"output": "/nowhere/probe.json"}),
        Call("gate", ("/nothing.toml",)),
        Call("gate", (PAIR / "recipe.json",)),
    ],
    ids=lambda call: " ".join([call.name, *map(str, call.arguments), *map(str, call.options.items())]),
)
def test_what_goes_wrong_is_what_the_command_says(call: Call, capfd: pytest.CaptureFixture[str]) -> None:
    answer = call.of_command()
    with pytest.raises(draftpick.DraftpickError) as caught:
        call.of_python()
    said = f"error: {caught.value.message}\n" + (f"hint: {caught.value.hint}\n" if caught.value.hint else "")
    assert answer.stderr == said
    assert answer.exit_code == caught.value.exit_code in (2, 3)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (Call("recommend", (5,)), "target is '5'"),
        (Call("recommend", (TARGET,), {"engine": 5}), "--engine is '5'"),
        (Call("recommend", (TARGET,), {"offline": "yes"}), "--offline is 'yes'"),
        (Call("recommend", (TARGET,), {"max_num_seqs": True}), "--max-num-seqs is 'True'"),
        (Call("recommend", (TARGET,), {"max_num_seqs": "8"}), "--max-num-seqs is '8'"),
        (Call("recommend", (TARGET,), {"temperature": [0, 1]}), "--temperature is"),
        (Call("recommend", (TARGET,), {"draft_model": [DRAFT, 5]}), "--draft-model is"),
        (Call("check", (TARGET, [DRAFT, SMALL])), "draft is"),
        (Call("plan", (5,)), "probe_file is '5'"),
        (Call("plan", (), {"acceptance_rate": "high", "draft_cost": 0.1}), "--acceptance-rate is 'high'"),
        (Call("plan", (), {"acceptance_rate": 0.5, "draft_cost": 10**400}), "--draft-cost is"),
        (Call("gate", (5,)), "policy_file is '5'"),
        (Call("probe", (TARGET, [DRAFT, 5])), "draft is '5'"),
    ],
)
def test_what_only_python_can_give(call: Call, says: str) -> None:
    with pytest.raises(draftpick.DraftpickError) as caught:
        call.of_python()
    assert type(caught.value).__name__ == "UsageError"
    assert caught.value.message.startswith(says)
    assert caught.value.hint


# ---------------------------------------------------------------------- the package


def test_importing_the_package_loads_nothing() -> None:
    script = """
import sys
before = set(sys.modules)
import draftpick
assert set(dir(draftpick)) >= set(draftpick.__all__)
print(sorted(set(sys.modules) - before))
draftpick.recommend
print(sorted({"torch", "transformers", "numpy", "pandas", "typer"} & set(sys.modules)))
"""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run([sys.executable, "-c", script], env=alone, capture_output=True, text=True, check=True)
    assert done.stdout == "['draftpick']\n[]\n"


def test_type_checkers_see_what_there_is() -> None:
    """The imports that only they read, the names that are loaded, and those that are listed."""
    written = ast.parse(Path(draftpick.__file__).read_text(encoding="utf-8"))
    read = {
        (alias.name, str(node.module).removeprefix("draftpick."))
        for node in ast.walk(written)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("draftpick.")
        for alias in node.names
    }
    homes: dict[str, str] = vars(draftpick)["_HOMES"]
    assert read == set(homes.items())
    assert sorted(draftpick.__all__) == sorted([*homes, "__version__"]) == draftpick.__all__
    assert all(getattr(draftpick, name) is not None for name in draftpick.__all__)
    with pytest.raises(AttributeError, match="recomend"):
        vars(draftpick)["__getattr__"]("recomend")
    assert (Path(draftpick.__file__).parent / "py.typed").is_file()
