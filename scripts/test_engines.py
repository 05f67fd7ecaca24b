"""Whether engines take what `draftpick launch` writes: their own parsers and configuration classes, and real starts.

python scripts/test_engines.py FOLDER [vllm sglang start llama]

`make test-engines` fills FOLDER with environments of vLLM (for CPUs) and MLX-LM, and with packages of other versions.
Each line says what was given and whether it was accepted; lines that must be rejected are there too, for a check that
takes everything says nothing. `start` runs the lines of vLLM and MLX-LM on the demo pair, which takes minutes. `llama`
runs only where it is named (scripts/llama_server.py): its server must be built first.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from draftpick.catalog import Catalog, load
from draftpick.launch import Place, Step, Wanted, launch

DEMO = Path(__file__).parent.parent / "catalog" / "demo"

# Runs where vLLM is installed: reads lists of arguments, answers each with what was understood, or the error.
VLLM_READER = """
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

SGLANG_READER = """
import argparse, json, sys
import sglang
from sglang.srt.server_args import ServerArgs

def answer(arguments):
    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    try:
        return {"error": None, "read": vars(parser.parse_args(arguments))}
    except (SystemExit, Exception) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300], "read": None}

answers = [answer(arguments) for arguments in json.load(sys.stdin)]
print("ANSWERS " + json.dumps({"version": sglang.__version__, "answers": answers}, default=str))
"""


class Case(NamedTuple):
    """Arguments for one version, and what must be read from them."""

    version: str
    what: str
    arguments: list[str]
    meant: dict[str, Any] | None = None
    accepted: bool = True


def main() -> int:
    """Run the parts asked for, or all; 1 where an engine answers otherwise than expected."""
    folder, parts = Path(sys.argv[1]), sys.argv[2:] or ["vllm", "sglang", "start"]
    python, catalog, wrong = folder / "venv" / "bin" / "python", load(), 0
    with tempfile.TemporaryDirectory() as made:
        names = models(Path(made))
        if "vllm" in parts:
            found = cases(catalog, names)
            for version in dict.fromkeys(case.version for case in found):
                overlay = None if version == "0.32.0" else folder / f"vllm-{version}"
                asked = [case for case in found if case.version == version]
                wrong += ask("vLLM", python, VLLM_READER, overlay, asked)
        if "sglang" in parts:
            wrong += ask("SGLang", python, SGLANG_READER, folder / "sglang", sglang_cases(catalog, names))
    if "start" in parts:
        wrong += start(catalog, "vllm", folder / "venv", 8000) + start(catalog, "mlx", folder / "mlx", 8080)
    if "llama" in parts:
        import llama_server

        wrong += llama_server.check(folder, catalog)
    return 1 if wrong else 0


def ask(name: str, python: Path, reader: str, overlay: Path | None, asked: list[Case]) -> int:
    """Print what one version says; the number of answers that were not expected."""
    done = subprocess.run(
        [str(python), "-c", reader],
        input=json.dumps([case.arguments for case in asked]),
        capture_output=True,
        text=True,
        env=environment(overlay),
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
        misread = {key for key, value in (case.meant or {}).items() if read.get(key) != value}
        as_expected = (answer["error"] is None) == case.accepted and not misread
        wrong += not as_expected
        verdict = "accepted" if answer["error"] is None else f"rejected: {answer['error']}"
        print(f"{'' if as_expected else 'NOT EXPECTED '}{name} {said['version']}: {case.what}: {verdict}")
    return wrong


def environment(overlay: Path | None = None, tools: Path | None = None) -> dict[str, str]:
    """That of a process which sees no draftpick, and a package in front of the installed ones."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if tools is not None:
        found["PATH"] = f"{tools / 'bin'}:{found['PATH']}"
    return found | ({"PYTHONPATH": str(overlay)} if overlay is not None else {})


def start(catalog: Catalog, engine: str, tools: Path, port: int) -> int:
    """Start an engine by its script on the demo pair, ask it for a text, and stop it; 1 where that fails."""
    target, draft = str(DEMO / "target"), str(DEMO / "draft")
    wanted = Wanted(target, catalog.engine(engine), method="draft_model", draft=draft, num_spec_tokens=3, rows="equal")
    script = launch(wanted).steps[0].text
    with subprocess.Popen(
        ["bash", "-c", script],
        env=environment(tools=tools),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            text, counters = answers(f"http://127.0.0.1:{port}", server, target)
            print(f"{engine}: started by its script, answered {text!r}{counters}")
            return 0
        except (OSError, TimeoutError) as error:
            print(f"NOT EXPECTED {engine}: {error}")
            return 1
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)


def answers(url: str, server: subprocess.Popen[bytes], target: str) -> tuple[str, str]:
    """A greedy answer of a server, and its counters of speculation where it has them."""
    until_ready(url, server)
    question = {"model": target, "prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
    asked = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=120) as answer:
        text = json.load(answer)["choices"][0]["text"]
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as page:
            lines = [
                line for line in page.read().decode().splitlines() if line.startswith("vllm:spec_decode_num_draft")
            ]
    except OSError:
        lines = []
    return text, "".join(f", {line.split('{')[0]} {line.split()[-1]}" for line in lines if "_total" in line)


def until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raises OSError where it ends before, TimeoutError after ten minutes."""
    for _ in range(300):
        if server.poll() is not None:
            raise OSError(f"it ended with {server.returncode}")
        try:
            urllib.request.urlopen(f"{url}/health", timeout=2).close()
            return
        except OSError:
            time.sleep(2)
    raise TimeoutError("it was not ready after ten minutes")


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
            ("draft_model with a schedule", drafted._replace(schedule=((1, 4, 5), (5, 8, 0)))),
            ("pard", drafted._replace(method="pard")),
            ("eagle3", drafted._replace(method="eagle3", draft=names["head"])),
            ("ngram", wanted._replace(method="ngram", num_spec_tokens=5)),
        ):
            found += [case_of(version, f"{engine} {what}", one, step) for step in launch(one).steps]
    unequal = drafted._replace(engine=catalog.engine("vllm@0.32.0"), draft=names["padded"], rows="differ")
    for one in (unequal, unequal._replace(method="pard")):
        found.append(case_of("0.32.0", f"vllm {one.method} with unequal rows", one, launch(one).steps[0]))
    return found + refused(names)


def case_of(version: str, what: str, wanted: Wanted, step: Step) -> Case:
    """A step as a case: the words of its command, and what was meant by them."""
    words = shlex.split(step.text.replace("\\\n", ""))
    assert words[:2] == ["vllm", "serve"], words
    by_batch = step.title.startswith("Instead")
    meant = {
        "method": "draft_model" if wanted.method == "pard" else wanted.method,
        "num_speculative_tokens": max(k for _, _, k in wanted.schedule) if by_batch else wanted.num_spec_tokens,
        **({"model": wanted.draft} if wanted.draft else {}),
        **({"parallel_drafting": True} if wanted.method == "pard" else {}),
        **({"use_heterogeneous_vocab": True} if wanted.rows == "differ" else {}),
        **({"num_speculative_tokens_per_batch_size": [list(part) for part in wanted.schedule]} if by_batch else {}),
    }
    title = f"{what}, by batch" if by_batch else what
    return Case(version, title, ["--model", *words[2:]], meant if wanted.method else None)


def sglang_cases(catalog: Catalog, names: dict[str, str]) -> list[Case]:
    """SGLang reads its options, whatever the machine."""
    found = []
    for engine in ("sglang", "sglang-ascend"):
        wanted = Wanted(
            names["target"],
            catalog.engine(f"{engine}@0.5.23"),
            Place(tensor_parallel_size=4, max_num_seqs=64, max_model_len=1024, dtype="bfloat16"),
            draft=names["draft"],
            num_spec_tokens=3,
            rows="equal",
            target_quantization="w8a8",
        )
        for method in ("draft_model", "eagle", "eagle3", "mtp", "ngram", "dflash", "dspark"):
            one = wanted._replace(method=method, draft=None if method == "ngram" else wanted.draft)
            written = launch(one)
            if written.method is None:
                continue
            words = shlex.split(written.steps[0].text.replace("\\\n", ""))
            assert words[:3] == ["python3", "-m", "sglang.launch_server"], words
            meant = {"model_path": one.target, "tp_size": 4, "max_running_requests": 64, "context_length": 1024}
            if method not in ("ngram", "dflash", "dspark"):
                meant |= {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4, "speculative_eagle_topk": 1}
            found.append(Case("0.5.23", f"{engine} {method}", words[3:], meant))
    wrong = ["--model-path", names["target"], "--speculative-num-speculative-tokens", "3"]
    return [*found, Case("0.5.23", "control: an option of no version", wrong, accepted=False)]


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
