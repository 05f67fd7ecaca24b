"""A pair as GGUF files, for engines that read nothing else: the one that comes with draftpick, or the real one.

python scripts/demo_gguf.py SOURCE FOLDER [real]

SOURCE holds llama.cpp with its own converter, which writes FOLDER/target.gguf and FOLDER/draft.gguf: the demo pair in
float32, the real one (build/real-pair, a draft of 25 layers) in 8 bits, as it would be served. It needs torch and
transformers. The converter knows byte-level vocabularies by a checksum of what they make of a text, and ends at one
that it never saw: it is told that the one of the demo pair splits texts as GPT-2 does.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "catalog" / "demo"
REAL = ROOT / "build" / "real-pair"


def main() -> None:
    """Convert both models."""
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    real = sys.argv[3:] == ["real"]
    models = (REAL / "target", REAL / "draft-25") if real else (DEMO / "target", DEMO / "draft")
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    base, llama = importlib.import_module("conversion.base"), importlib.import_module("conversion.llama")
    if not real:
        base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    # Otherwise it asks for sentencepiece first, which these vocabularies have no use for.
    llama.LlamaModel.set_vocab = base.TextModel._set_vocab_gpt2
    converter = importlib.import_module("convert_hf_to_gguf")
    folder.mkdir(parents=True, exist_ok=True)
    for model, name in zip(models, ("target", "draft"), strict=True):
        file = folder / f"{name}.gguf"
        sys.argv[1:] = [str(model), "--outtype", "q8_0" if real else "f32", "--outfile", str(file)]
        converter.main()


if __name__ == "__main__":
    main()
