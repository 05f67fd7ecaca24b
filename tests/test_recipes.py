"""Follows every recipe of CONTRIBUTING.md to the letter: its blocks are read from that page."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run
from pages import Machine, steps
from test_pages import printed, reason_not_to_run

import draftpick.rules as rules
from draftpick import doctor, machine
from draftpick.choices import WEIGHTS
from draftpick.options import Format, ReportFormat
from draftpick.pair import Pair
from draftpick.report.blocks import Report

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def recipes() -> dict[str, str]:
    """The recipes by title."""
    part = PAGE.partition("## Recipes\n")[2]
    titles = re.split(r"^### (.+)\n", part, flags=re.MULTILINE)
    return dict(zip(titles[1::2], titles[2::2], strict=True))


def block(title: str) -> str:
    """The one indented block of a recipe."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", recipes()[title], flags=re.MULTILINE)
    blocks = [textwrap.dedent(text).strip() + "\n" for text in found if text.strip()]
    assert len(blocks) == 1, f"{title}: {len(blocks)} blocks"
    return blocks[0]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """An overlay with the model of the recipe in it."""
    family = 'family = "Acme"\n\n' + block("A model or a family")
    return write(tmp_path / "rows", "families/acme.toml", family)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    answer = run("catalog", "validate", str(folder))
    assert answer.exit_code == 0, answer.stdout
    return folder


def test_every_recipe_is_followed_here() -> None:
    assert set(recipes()) == {
        "A model or a family",
        "A head",
        "A device",
        "An engine",
        "A known issue",
        "A check of the doctor",
        "A rule",
        "A measurement",
        "A tokenizer",
        "A report format",
        "A page",
        "A source of candidates",
    }


def test_every_file_a_recipe_names_is_there() -> None:
    named = set(re.findall(r"`((?:draftpick|catalog|scripts|tests)/[^`<>]*)`", PAGE))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
    targets = set(re.findall(r"\bmake ([a-z-]+)", PAGE)) - {"an"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in targets if f"\n{name}:" not in makefile] == []


def test_a_model(rows: Path) -> None:
    document = run("recommend", "meta-llama/Llama-2-70b-chat-hf", "--json", "--catalog", str(rows)).document
    found = next(found for found in document["candidates"] if found["draft"] == "acme/Tiny-1B")
    assert found["viable"]
    assert found["model"]["vocab_size"] == 32000
    assert run("catalog", "show", "Tiny-1B", "--json", "--catalog", str(rows)).document["family"] == "Acme"


def test_a_wrong_count_is_flagged(tmp_path: Path) -> None:
    row = 'family = "Acme"\n\n' + block("A model or a family").replace("1100048384", "1200048384")
    write(tmp_path, "families/acme.toml", row)
    assert "params_text 1,200,048,384 differs by +9.1%" in run("catalog", "validate", str(tmp_path)).stdout


def test_a_head(rows: Path) -> None:
    family = rows / "families" / "acme.toml"
    write(rows, "families/acme.toml", family.read_text(encoding="utf-8") + "\n" + block("A head"))
    document = run("recommend", "acme/Tiny-1B", "--json", "--catalog", str(rows)).document
    found = next(found for found in document["candidates"] if found["draft"] == "acme/EAGLE3-Tiny-1B")
    assert (found["method"], found["viable"]) == ("eagle3", True)
    other = run("check", "meta-llama/Llama-2-7b-hf", "acme/EAGLE3-Tiny-1B", "--json", "--catalog", str(rows))
    assert other.exit_code == 1, "it was trained for another target"


def test_a_device(rows: Path) -> None:
    write(rows, "devices.toml", block("A device"))
    asked = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--device", "acme-x1", "--json", "--catalog", str(rows))
    document = run(*asked).document
    assert (document["device"]["id"], document["device"]["memory_bytes"]) == ("acme-x1-32g", 32 * 2**30)
    said = next(found for found in document["candidates"][0]["findings"] if found["rule"] == "dtype")
    assert "Acme X1 32 GB lacks bfloat16" in said["message"]
    assert document["candidates"][0]["cost"]["device"] == "acme-x1-32g"


@pytest.mark.parametrize(
    ("draft", "version", "verdict", "reason"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "", "accepted", ""),
        ("Qwen/Qwen2.5-7B-Instruct", "@1.1", "refused", "from 1.2, not in 1.1"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "", "refused", "152,064 embedding rows against 151,936"),
        ("Qwen/Qwen3-30B-A3B", "", "refused", "sparse drafts are not loaded"),
    ],
)
def test_an_engine(rows: Path, draft: str, version: str, verdict: str, reason: str) -> None:
    write(rows, "engines/acme-serve.toml", block("An engine"))
    asked = ("--engine", f"acme-serve{version}", "--json", "--catalog", str(rows))
    document = run("check", "Qwen/Qwen2.5-72B-Instruct", draft, *asked).document
    found = document["candidates"][0]["engines"]["acme-serve"]
    assert found["verdict"] == verdict
    assert reason in " ".join(found["reasons"])
    cost = document["candidates"][0]["cost"]
    assert (cost["engine"] if cost is not None else None) == ("acme-serve" if verdict == "accepted" else None)


def test_an_engine_is_started(rows: Path, tmp_path: Path) -> None:
    write(rows, "engines/acme-serve.toml", block("An engine"))
    own, advice = ("--catalog", str(rows)), str(tmp_path / "advice.json")
    pair = ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct")
    run("check", *pair, "--engine", "acme-serve", "-tp", "4", "--dtype", "float16", *own, "--json", "-o", advice)
    answer = run("launch", advice, "-d", pair[1], "-k", "3", *own)
    assert answer.exit_code == 0
    assert answer.stdout.replace(" \\\n ", "") == (
        f"acme-serve {pair[0]} --devices 4 --draft {pair[1]} --draft-tokens 3\n"
    )
    assert "Left out: dtype float16: the checkpoint's own is taken." in answer.stderr


@pytest.mark.parametrize(
    ("wrong", "message"),
    [('"{draft}"', "no value is called 'drafts'; did you mean 'draft'?"), ("names =", "unknown key 'name'")],
)
def test_a_wrong_start_line_is_said(rows: Path, wrong: str, message: str) -> None:
    changed = {'"{draft}"': '"{drafts}"', "names =": "name ="}[wrong]
    path = rows / "engines" / "acme-serve.toml"
    path.parent.mkdir(parents=True)
    path.write_text(block("An engine").replace(wrong, changed), encoding="utf-8")
    answer = run("catalog", "validate", str(rows))
    assert answer.exit_code == 2
    assert message in answer.stdout


@pytest.mark.parametrize(("version", "known"), [("", True), ("@0.29.0", False), ("@0.33.0", False)])
def test_a_known_issue(rows: Path, tmp_path: Path, version: str, known: bool) -> None:
    write(rows, "known_issues.toml", block("A known issue"))
    own, advice = ("--catalog", str(rows)), str(tmp_path / "advice.json")
    asked = ("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", f"vllm{version}", *own)
    said = "with this target text is garbled in graph mode: start with --enforce-eager. Mended in 0.33.0."
    run(*asked, "--json", "-o", advice)
    for text in (
        run(*asked).stdout,
        run("report", advice, "--format", "markdown").stdout,
        run("report", advice, "--format", "html").stdout,
        run("launch", advice, "-d", "Qwen/Qwen3-0.6B", "-k", "3", *own).stderr,
    ):
        assert (said[1:] in text) is known
    listed = run("catalog", "list", "--kind", "issues", *own).stdout
    assert "vllm-acme-garbled" in listed


@pytest.fixture
def own_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    rules.load()
    names = {name: getattr(rules, name) for name in ("rule", "ok", "skip", "Outcome")}
    exec(
        compile(block("A rule"), "CONTRIBUTING.md", "exec"), {**names, "Pair": Pair, "__name__": "draftpick.rules.size"}
    )
    monkeypatch.setitem(WEIGHTS, "kebab-name", 2.0)  # type: ignore[misc]
    yield "kebab-name"
    del rules.RULES["kebab-name"]


def test_a_rule(own_rule: str) -> None:
    document = run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--json").document
    assert [found["outcome"] for found in document["candidates"][0]["findings"] if found["rule"] == own_rule] == ["ok"]
    assert run("rules", own_rule).stdout.startswith("kebab-name\n")
    assert own_rule in run("rules").stdout
    chosen = run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--select", own_rule, "--json").document
    assert [found["rule"] for found in chosen["candidates"][0]["findings"]] == [own_rule]


@pytest.mark.parametrize("name", ["markdown", "html"])
def test_a_report_format(name: str) -> None:
    assert {name} <= {one.value for one in Format} & {one.value for one in ReportFormat}
    render = importlib.import_module(f"draftpick.report.{name}").render
    first = next(iter(inspect.signature(render, eval_str=True).parameters.values()))
    assert first.annotation is Report
    assert inspect.signature(render, eval_str=True).return_annotation is str
    assert run("recommend", "Qwen/Qwen3-32B", "--format", name).stdout


def test_a_source_of_candidates() -> None:
    from draftpick import candidates
    from draftpick.pair import Proposal

    for source in (candidates.named, candidates.draft_free):
        assert inspect.isgeneratorfunction(source)
        assert inspect.signature(source, eval_str=True).return_annotation == Iterator[Proposal]
    assert "_heads(" in inspect.getsource(candidates.search)


def test_a_check_of_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict(vars(doctor))
    exec("from __future__ import annotations\n" + block("A check of the doctor"), names)
    monkeypatch.setattr(doctor, "CHECKS", (names["_umask"],))
    monkeypatch.setattr(machine, "PACKAGES", ())
    answer = run("doctor")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[:2] == ["warn  umask  what was seen", "             → what to do about it"]


def test_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    fit = importlib.import_module("fit")
    text = (ROOT / "catalog" / "measurements.csv").read_text(encoding="utf-8")
    first = text.splitlines()[1]
    assert first.startswith("PM0001,")
    more = tmp_path / "measurements.csv"
    more.write_text(text + first.replace("PM0001", "PM9999", 1) + "\n", encoding="utf-8")
    added = {row.id for row in fit.read(more)[0]} - {row.id for row in fit.read()[0]}
    assert added == {"PM9999"}
    assert all(mark in fit.PAGE.read_text(encoding="utf-8") for mark in fit.MARKS)


def test_a_tokenizer() -> None:
    for script in ("fingerprints.py", "collect_tokenizers.py"):
        assert f"scripts/{script}" in recipes()["A tokenizer"]
        compile((ROOT / "scripts" / script).read_text(encoding="utf-8"), script, "exec")


def test_a_page(tmp_path: Path) -> None:
    marks = re.findall(r"`<!-- (.+?) -->`", recipes()["A page"])
    command = "draftpick plan --acceptance-rate 0.3 --draft-cost 0.34"
    page = tmp_path / "page.md"
    page.write_text(
        "\n".join(f"<!-- {mark} -->\n```console\n$ {command}\n…\n```\n" for mark in marks), encoding="utf-8"
    )
    followed = {step.marks[0]: step for step in steps(page)}
    assert list(followed) == marks
    assert [reason_not_to_run(step) for step in followed.values()] == [None, None, "why"]
    machine = Machine(tmp_path)
    assert printed(followed["exit 1"], machine) == "…\n"
    with pytest.raises(AssertionError, match=command):
        printed(followed["numbers differ"], machine)
