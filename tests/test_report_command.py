"""`draftpick report`, and reports as commands write them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, TypeVar

import pytest
from commands import run, spawn

from draftpick.advice_file import AdviceFile, advice_of
from draftpick.report.advice import blocks_of
from draftpick.report.blocks import Chart, Code, Curve, MemoryBars, Paragraph, Report, Table

Kind = TypeVar("Kind", Chart, Code, Paragraph, Table)


def blocks(report: Report, kind: type[Kind]) -> list[Kind]:
    return [block for section in report.sections for block in section.blocks if isinstance(block, kind)]


def texts(report: Report) -> str:
    tables = [*blocks(report, Table), *(chart.table for chart in blocks(report, Chart))]
    cells = [cell for table in tables for row in table.rows for cell in row]
    return "\n".join([*cells, *(paragraph.text for paragraph in blocks(report, Paragraph))])


# ---------------------------------------------------------------------- what is said of real answers


def test_parts_and_what_is_free_make_up_what_the_framework_sees() -> None:
    advice = advice_of(
        run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm", "--device", "h100-80g", "--json").document
    )
    (chart,) = [one for one in blocks(blocks_of(advice), Chart) if isinstance(one.data, MemoryBars)]
    assert isinstance(chart.data, MemoryBars)
    free = next(row[1] for row in chart.table.rows if row[0] == "free")
    assert chart.data.capacity is not None
    assert 0.97 * 80 < chart.data.capacity <= 80
    assert sum(values[0] for values in chart.data.parts.values()) + float(free) == pytest.approx(
        chart.data.capacity, abs=0.1
    )


def test_without_a_device_nobody_says_what_fits() -> None:
    report = blocks_of(advice_of(run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--json").document))
    assert not [one for one in blocks(report, Chart) if isinstance(one.data, MemoryBars)]
    assert "target weights" in texts(report)
    assert "no device was named" in texts(report).lower()


# ---------------------------------------------------------------------- numbers that were typed in


def test_a_plan_from_numbers() -> None:
    said = run("plan", "--acceptance-rate", "0.65", "--draft-cost", "0.05", "--json").document
    report = blocks_of(AdviceFile.model_validate(said))
    assert report.title == "Plan from the numbers given"
    assert report.sections[0].blocks[0] == Paragraph(said["decision"]["sentence"], "decision")
    (curve,) = [one for one in blocks(report, Chart) if isinstance(one.data, Curve)]
    assert curve.table.rows[4] == ("4 ◀", "2.53", "2.10×")
    assert "errs upward" in texts(report)
    assert "an acceptance rate of 0.17" in texts(report)


# ---------------------------------------------------------------------- how to repeat it


@pytest.mark.parametrize(
    "command",
    [
        "recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend@0.18.0 --device 910b3 -tp 4 --max-num-seqs 32 --all",
        "recommend Qwen/Qwen3-32B -d Qwen/Qwen3-0.6B -d Qwen/Qwen3-1.7B --memory 24GB --temperature 0.7 --no-images",
        "check Qwen/Qwen3-32B Qwen/Qwen3-0.6B --ignore size-ratio=known --gpu-memory-utilization 0.8 --workload code",
        "plan --mean-acceptance-length 2.4 -k 4 --draft-cost 0.9 --verify-cost 1.3",
    ],
)
def test_the_command_line_asks_the_same_again(command: str) -> None:
    first = run(*shlex.split(command), "--json")
    (code,) = blocks(blocks_of(AdviceFile.model_validate(first.document)), Code)
    program, *arguments = shlex.split(code.text)
    assert program == "draftpick"
    assert run(*arguments, "--json").stdout == first.stdout


# ---------------------------------------------------------------------- the command


PAIR = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm", "--device", "h100-80g", "-tp", "2")
SEVERAL = ("recommend", "Qwen/Qwen2.5-72B-Instruct", "--engine", "vllm-ascend", "--device", "910b3", "-tp", "4")
NUMBERS = ("plan", "--acceptance-rate", "0.65", "--draft-cost", "0.05")


@pytest.fixture(scope="module", params=[PAIR, SEVERAL, NUMBERS], ids=lambda command: command[0])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], Path]:
    path = tmp_path_factory.mktemp("saved") / "answer.json"
    assert run(*request.param, "--json", "-o", str(path)).exit_code in (0, 1)
    return request.param, path


def test_a_saved_answer_reads_as_the_command_wrote_it(saved: tuple[tuple[str, ...], Path]) -> None:
    command, path = saved
    report = run("report", str(path))
    assert (report.exit_code, report.stderr) == (0, "")
    assert report.stdout == run(*command, "--format", "markdown").stdout
    assert report.stdout.startswith("## ")


@pytest.mark.parametrize("form", ["markdown", "html", "json", "csv"])
def test_it_is_the_same_to_the_byte_when_it_is_repeated(
    form: str, saved: tuple[tuple[str, ...], Path], tmp_path: Path
) -> None:
    out = tmp_path / "report"
    first = run("report", str(saved[1]), "--format", form)
    again = run("report", str(saved[1]), "--format", form, "-o", str(out))
    assert (first.exit_code, again.exit_code, again.stdout) == (0, 0, "")
    assert out.read_text(encoding="utf-8") == first.stdout != ""


def test_json_is_normalised_and_stays_so(saved: tuple[tuple[str, ...], Path], tmp_path: Path) -> None:
    once = tmp_path / "once.json"
    run("report", str(saved[1]), "--format", "json", "-o", str(once))
    assert run("report", str(once), "--format", "json").stdout == once.read_text(encoding="utf-8")
    assert run("report", str(once)).stdout == run("report", str(saved[1])).stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((*PAIR, "--format", "csv"), "'csv' is not one of"),
        ((*NUMBERS, "--format", "xml"), "'xml' is not one of"),
        (("report", "x.json", "--format", "table"), "'table' is not one of"),
        (("report",), "FILE"),
        (("report", "/nowhere.json"), "cannot be read"),
    ],
)
def test_what_a_command_cannot_write_is_a_usage_error(command: tuple[str, ...], said: str) -> None:
    answer = run(*command)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "no advice, probe, gate's result or observation"),
        ({"kind": "gate", "schema_version": "1"}, "tool: "),
        ({"kind": "gate", "schema_version": "7"}, "its schema_version is '7'"),
        ({"schema_version": "7", "candidates": []}, "its schema_version is '7'"),
        ({"kind": "probe", "schema_version": "7"}, "its schema_version is '7'"),
        ({"kind": "probe", "schema_version": "1"}, "tool: "),
        ({"schema_version": "1", "candidates": [1]}, "tool: "),
        ([], "not a JSON object"),
    ],
)
def test_a_file_that_is_no_answer_is_named_with_its_field(value: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "strange.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    answer = run("report", str(path))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert str(path) in answer.stderr
    assert said in answer.stderr
    assert "hint: " in answer.stderr


def test_a_report_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    run(*PAIR, "--json", "-o", str(path))
    script = (
        "import sys\n"
        f"sys.argv = ['draftpick', 'report', {str(path)!r}]\n"
        "from draftpick.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'matplotlib', 'huggingface_hub', 'jinja2'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    assert spawn(script=script).stdout.splitlines()[-1] == "HEAVY []"
