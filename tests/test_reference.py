"""docs/reference says what the code says: its pages are current, and nothing that they should name is missing."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from commands import run
from pages import DOCS, ROOT

import draftpick
from draftpick.catalog import load
from draftpick.rules import load as load_rules

sys.path.insert(0, str(ROOT / "scripts"))

import reference

PACKAGE = Path(draftpick.__file__).parent


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    kept = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert kept == reference.PAGES[name](), "run `make reference`"


def test_no_other_page_is_kept() -> None:
    assert {path.name for path in (DOCS / "reference").iterdir()} == set(reference.PAGES)


def test_every_command_has_its_exit_codes() -> None:
    said = reference.PAGES["commands.md"]()
    assert said.count("\n## draftpick ") == len(reference.EXITS) == said.count("\nExit codes: ")


def test_the_exit_codes_are_those_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [code for code in reference.EXIT_CODES if f"\n| {code} |" not in readme] == []


# ---------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("meta-llama/Llama-2-7b-hf", "mistralai/Mistral-7B-v0.1"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-72B-Instruct"),
        ("Qwen/Qwen3-30B-A3B", "google/gemma-3-4b-it"),
        ("deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K2-Instruct"),
    ],
)
def test_no_rule_answers_more_severely_than_its_page_says(target: str, draft: str) -> None:
    order = ("skip", "ok", "warn", "reject")
    most = {name: reference.severest(rule) for name, rule in load_rules().items()}
    document = json.loads(run("check", target, draft, "--engine", "vllm", "-tp", "3", "--json", "--exit-zero").stdout)
    findings = {one["rule"]: one["outcome"] for one in document["candidates"][0]["findings"]}
    assert len(findings) > 20
    assert {name for name, found in findings.items() if order.index(found) > order.index(most[name])} == set()


# ---------------------------------------------------------------------- choices


def test_every_choice_of_the_code_stands_on_the_page() -> None:
    page = reference.PAGES["choices.md"]()
    found = set(_choices())
    assert len(found) > 150
    assert {name for name in found if f"`{name}`" not in page} == set()


def _choices() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Choice":
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant):
                    yield str(first.value)


# ---------------------------------------------------------------------- variables of the environment


def test_every_variable_that_is_read_stands_on_the_page_and_no_other() -> None:
    documented = {name for names in reference.VARIABLES for name in names.split(", ")}
    assert set(_variables()) == documented


def _variables() -> Iterator[str]:
    """Names that the code looks up in os.environ; a proxy's name, which is put together, as the page has it."""
    for tree in _trees().values():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            key = _key(node)
            for name in _texts(key, parents, tree) if key is not None else ():
                yield from (f"{kind}_PROXY" for kind in ("HTTP", "HTTPS")) if name.lower() == "_proxy" else (name,)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


def _key(node: ast.AST) -> ast.expr | None:
    """What is looked up, where a node looks something up in os.environ."""
    if isinstance(node, ast.Subscript) and _is_environ(node.value):
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_environ(node.func.value):
        assert node.func.attr in ("get", "setdefault", "pop"), ast.unparse(node)
        return node.args[0]
    return None


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def _texts(node: ast.expr, parents: dict[ast.AST, ast.AST], tree: ast.Module) -> Iterable[str]:
    """The texts that an expression may be: a constant, one of a loop's, or what a function was called with."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [text for one in node.elts for text in _texts(one, parents, tree)]
    if isinstance(node, ast.Attribute):
        return _constant(node.attr)
    assert isinstance(node, ast.Name), ast.unparse(node)
    return _bound(node, parents, tree) or _constant(node.id)


def _bound(name: ast.Name, parents: dict[ast.AST, ast.AST], tree: ast.Module) -> list[str]:
    """What a name is within its function: the things of a loop, or an argument."""
    around: ast.AST = name
    while (around := parents[around]) is not tree:
        loops = [around] if isinstance(around, ast.For) else getattr(around, "generators", [])
        for loop in loops:
            if isinstance(loop.target, ast.Name) and loop.target.id == name.id:
                return list(_texts(loop.iter, parents, tree))
        if isinstance(around, ast.FunctionDef):
            names = [argument.arg for argument in around.args.args]
            if name.id in names:
                return _passed(around.name, names.index(name.id), parents, tree)
            for node in ast.walk(around):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name.id:
                    return list(_texts(node.value, parents, tree))
    return []


def _passed(function: str, place: int, parents: dict[ast.AST, ast.AST], tree: ast.Module) -> list[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == function)
    return [text for call in calls for text in _texts(call.args[place], parents, tree)]


def _constant(name: str) -> list[str]:
    """What a constant of some module holds."""
    for tree in _trees().values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                found = ast.literal_eval(node.value)
                return [found] if isinstance(found, str) else list(found)
    raise AssertionError(f"{name} is not known to be a name of a variable")


# ---------------------------------------------------------------------- the catalogue


def test_every_record_stands_on_a_page_with_its_date() -> None:
    catalog = load()
    kept = {name: write() for name, write in reference.PAGES.items()}
    made = {name: write(catalog) for name, write in reference.CATALOGUE.items()}
    for kind in ("models", "heads", "tokenizers", "engines", "devices", "issues"):
        page = {**kept, **made}[f"{kind}.md"]
        for key in getattr(catalog, kind):
            assert f"`{key}`" in page, (kind, key)
    rows = (ROOT / "catalog" / "measurements.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert made["measurements.md"].count("\n| `PM") >= len([row for row in rows if row.startswith("PM")])
