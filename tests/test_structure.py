"""The shape of the code: one way through it, and a light start."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "draftpick"

# A module may import those of its own stage and of earlier ones, inside functions too.
STAGES = [
    {"errors", "atomic", "toml_file", "devices", "ascend", "launch_values", "record", "versions"},
    {"models.bounded", "models.probe_texts", "models.gguf"},
    {"http"},
    {"models.vocabulary"},
    {"models.tokenizer_json", "models.sentencepiece_model", "models.token_lists", "models.gguf_tokenizer"},
    {"models.vocabulary_files", "models.cutting", "models.tokenizer"},
    {"models.profile", "pair"},
    {"models.parameters", "models.gguf_profile", "models.safetensors", "models.config", "models.card"},
    {"files", "catalog_names"},
    {"engine_file"},
    {"validation"},
    {"overlay", "catalog_index"},
    {"probe_file", "advice_file", "gate_file"},
    {"observe_file"},
    {"catalog"},
    {"models.sources", "models"},
    {"choices"},
    {"rules"},
    {"sizes", "acceptance", "speedup"},
    {"memory"},
    {"cost"},
    {"evidence"},
    {"option_values"},
    {"place"},
    {"predict"},
    {"intervals"},
    {"replay", "lookup"},
    {"walks"},
    {"planning"},
    {"candidates"},
    {"assess"},
    {"probing.prompts", "probing.trace", "probing.device"},
    {"probing.local", "probing.client"},
    {"probing.started"},
    {"probing.timing", "probing.result", "probing.weights", "probing.render", "probing.api"},
    {"probing.api_vllm", "probing.api_sglang", "probing.api_llama"},
    {"probing.server"},
    {"probing.checks"},
    {"probing.outcome"},
    {"probing.run", "probing.served_times"},
    {"probing.served", "probing.document", "probing.translated"},
    {"probing.session"},
    {"probing.command", "probing"},
    {"decision"},
    {"advice"},
    {"replanning"},
    {"gating"},
    {"torch_look", "machine"},
    {"doctor"},
    {"doctor_file"},
    {"scrape", "responses"},
    {"counters"},
    {"observe"},
    {"launch_text"},
    {"launch"},
    {"launch_input"},
    {"repricing"},
    {"report.blocks"},
    {"report"},
    {"schemas", "completion"},
    {"options", "commands"},
    {"api"},
    {"console"},
    {"cli", "__main__"},
]


def stage_of(module: str) -> int | None:
    while module:
        for number, stage in enumerate(STAGES):
            if module in stage:
                return number
        module = module.rpartition(".")[0]
    return None


def modules() -> list[str]:
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        names.append(name.removesuffix(".__init__") if name != "__init__" else "")
    return [name for name in names if name]


def imports_of(module: str) -> set[str]:
    path = PACKAGE.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("draftpick."):
            base = node.module.removeprefix("draftpick.")
            found |= {
                f"{base}.{alias.name}" if (PACKAGE / base.replace(".", "/") / f"{alias.name}.py").is_file() else base
                for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("draftpick.") for alias in node.names if alias.name.startswith("draftpick.")
            }
    return found


def test_every_module_has_a_stage() -> None:
    assert [name for name in modules() if stage_of(name) is None] == []


@pytest.mark.parametrize("module", modules())
def test_no_stage_imports_a_later_one(module: str) -> None:
    later = {other for other in imports_of(module) if (stage_of(other) or 0) > (stage_of(module) or 0)}
    assert later == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["recommend", "meta-llama/Llama-3.1-70B-Instruct"],
        ["check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--json"],
    ],
    ids=["help", "recommend", "check"],
)
def test_start_up_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['draftpick', *{arguments!r}]\n"
        "from draftpick.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'pandas', 'numpy', 'scipy', 'matplotlib'}\n"
        "heavy |= {'pydantic', 'urllib3', 'huggingface_hub', 'jinja2', 'tomllib'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    # Coverage, in a process that it follows, imports some of them itself.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run([sys.executable, "-c", script], env=alone, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"
