"""What is not trusted reaches nothing: names in files lead out of no folder, and nothing of a model is run."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from commands import run

from draftpick.catalog import Catalog, load
from draftpick.errors import DraftpickError, InvalidFile, NotResolvable
from draftpick.models.folder import profile_from_folder
from draftpick.models.hub import _wanted
from draftpick.models.safetensors import listed_shards
from draftpick.probe_file import read_probe, trace_of
from draftpick.probing.local import missing_shards

PACKAGE = Path(__file__).parents[1] / "draftpick"
SEEDS = Path(__file__).parent / "fuzz" / "seeds"
DEMO = Path(__file__).parents[1] / "catalog" / "demo"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


# ---------------------------------------------------------------------- names in files


@pytest.mark.parametrize("name", ["../weights.safetensors", "/weights.safetensors", "a/../../b", "..\\b", "C:b", ""])
def test_weights_are_loaded_from_no_other_folder(name: str, tmp_path: Path) -> None:
    """transformers would open what the index names, wherever it lies."""
    (tmp_path / "m").mkdir()
    (tmp_path / "weights.safetensors").write_bytes(b"")
    (tmp_path / "m" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    for read in (listed_shards, missing_shards):
        with pytest.raises(InvalidFile, match="no file of that folder"):
            read(tmp_path / "m")


@pytest.mark.parametrize("base", ["/etc", "../private", "~/models/private", "./x", "C:\\x", "..", "a/b/c", ".hidden/x"])
@pytest.mark.parametrize("origin", ["cache", "hub"])
def test_a_published_adapter_names_no_folder_of_this_machine(
    base: str, origin: str, tmp_path: Path, catalog: Catalog
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    asked: list[str] = []
    with pytest.raises(NotResolvable, match="no id of a model"):
        profile_from_folder(tmp_path, catalog, id="a/b", origin=origin, base=asked.append)  # type: ignore[arg-type]
    assert asked == []


@pytest.mark.parametrize("where", ["../outside.jsonl", "{folder}/outside.jsonl", "link.jsonl"])
def test_a_probe_names_no_trace_but_its_own(where: str, tmp_path: Path) -> None:
    """Wherever it lies: nothing is taken for the trace that has not its digest."""
    (tmp_path / "outside.jsonl").write_text('{"secret": 1}\n')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    document = json.loads((SEEDS / "probe.json").read_bytes())
    document["trace"]["path"] = where.format(folder=tmp_path)
    path = tmp_path / "in" / "probe.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidFile, match="is not the trace") as caught:
        trace_of(read_probe(path), path)
    assert "secret" not in caught.value.message


def test_a_trace_that_never_ends_is_not_hashed(tmp_path: Path) -> None:
    document = json.loads((SEEDS / "probe.json").read_bytes())
    document["trace"]["path"] = "/dev/zero"
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(document))
    assert trace_of(read_probe(path), path) is None


def test_the_hub_names_no_file_of_another_folder() -> None:
    sizes = {
        "config.json": 10,
        "quant_model_description/../../../x.json": 10,
        "quant_model_description_w8a8.json": 10,
        **{f"quant_model_description_{number}.json": 10 for number in range(50)},
    }
    wanted = _wanted(sizes)
    assert len(wanted) == 5
    assert not [name for name in wanted if "/" in name]


def test_a_gate_writes_over_no_file_that_is_no_probe(tmp_path: Path) -> None:
    """A policy comes with a change that somebody proposes: what it names as evidence may be anything."""
    precious = tmp_path / "precious.json"
    precious.write_text('{"kind": "wallet"}')
    pair = f'[[pair]]\nname = "a"\ntarget = "{DEMO / "target"}"\ndraft = "{DEMO / "draft"}"\nprobe = true\n'
    (tmp_path / "pairs.toml").write_text(
        f'{pair}evidence = "precious.json"\n[pair.policy]\nmin_acceptance_rate = 0.1\n'
    )
    answer = run("gate", str(tmp_path / "pairs.toml"), "--json")
    assert answer.exit_code == 3
    assert "no probe, and stays" in json.dumps(answer.document)
    assert precious.read_text() == '{"kind": "wallet"}'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.toml", "precious.json"]


def test_the_names_of_models_are_no_names_of_files(tmp_path: Path, catalog: Catalog) -> None:
    """A family of an overlay, and a tokenizer's key, become file names: of one folder."""
    from draftpick.models.profile import ModelProfile
    from draftpick.overlay import add_to_overlay

    profile = catalog.profile("Qwen/Qwen2.5-7B-Instruct")
    hostile: ModelProfile = profile._replace(id="me/x", family="../../../evil\0/..\\x", tokenizer=None)
    with suppress(DraftpickError):
        add_to_overlay(hostile, tmp_path / "over", catalog)
    assert {path.parent for path in tmp_path.rglob("*.toml")} <= {tmp_path / "over" / "families"}


# ---------------------------------------------------------------------- code of strangers

FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "code", "codeop", "xml"}
"""Modules that run what they read, or read without bounds."""
CALLS = {"eval", "exec", "compile", "__import__"}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """Module, dotted name, and the call, of all calls in the package."""
    return [
        (module, ast.unparse(node.func), node)
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def keywords(call: ast.Call) -> dict[str | None, str]:
    return {one.arg: ast.unparse(one.value) for one in call.keywords}


def test_nothing_is_imported_that_runs_what_it_reads() -> None:
    found = set()
    for module, tree in trees():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {(module, name) for name in names if name.partition(".")[0] in FORBIDDEN}
    # What these two read is what matplotlib and they themselves wrote.
    assert {module for module, _ in found} <= {"report/junit.py", "report/svg.py"}


def test_nothing_is_evaluated() -> None:
    """`ast.literal_eval` reads RWKV's vocabularies: it takes literals alone, of lines that are bounded."""
    assert [(module, name) for module, name, _ in calls() if name in CALLS] == []
    literal = {module for module, name, _ in calls() if name == "ast.literal_eval"}
    assert literal == {"models/token_lists.py", "schemas.py"}


def test_no_shell_is_started() -> None:
    started = [
        (module, keywords(call))
        for module, name, call in calls()
        if name.startswith(("subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "pty."))
        and name not in ("subprocess.TimeoutExpired",)
    ]
    assert {module for module, _ in started} == {"devices.py", "probing/started.py"}
    assert not [module for module, given in started if "shell" in given]


def test_models_are_loaded_without_their_code_and_without_pickles() -> None:
    loading: dict[str, list[dict[str | None, str]]] = {}
    for module, name, call in calls():
        if name.rpartition(".")[2] == "from_pretrained":
            loading.setdefault(module, []).append(keywords(call))
        assert name not in ("torch.load", "numpy.load", "np.load"), module
    assert set(loading) == {"probing/render.py", "probing/local.py", "probing/session.py"}
    for given in loading["probing/render.py"] + loading["probing/session.py"]:
        assert (given["trust_remote_code"], given["local_files_only"]) == ("False", "True")
    (weights,) = loading["probing/local.py"]
    assert weights["local_files_only"] == "True"
    source = (PACKAGE / "probing" / "local.py").read_text(encoding="utf-8")
    assert '"use_safetensors": True, "trust_remote_code": False' in source


def test_templates_of_models_are_rendered_by_transformers_alone() -> None:
    """It renders them in jinja2's sandbox; our own templates are files of the package."""
    importers = {
        module
        for module, tree in trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jinja2"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("jinja2") for alias in node.names))
    }
    assert importers == {"report/html.py"}
    rendered = {module for module, name, _ in calls() if name.endswith("apply_chat_template")}
    assert rendered == {"probing/render.py"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('touch MARK') }}",
        "{{ self.__init__.__globals__.__builtins__.open('MARK', 'w') }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_reaches_nothing(template: str, tmp_path: Path) -> None:
    from draftpick.probing.device import CannotProbe
    from draftpick.probing.prompts import Prompt
    from draftpick.probing.render import Renderer

    mark = tmp_path / "mark"
    for path in (DEMO / "target").iterdir():
        if path.suffix == ".json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((DEMO / "target" / "tokenizer_config.json").read_bytes())
    config["chat_template"] = template.replace("MARK", str(mark))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(CannotProbe, match="chat template fails"):
        Renderer(tmp_path, None).ids(Prompt("a", "b"))
    assert not mark.exists()
