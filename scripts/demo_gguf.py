"""The pair that comes with draftpick as GGUF files, for engines that read nothing else.

python scripts/demo_gguf.py SOURCE FOLDER

SOURCE holds llama.cpp with its own converter, which writes FOLDER/target.gguf and FOLDER/draft.gguf in float32. It
needs torch and transformers. The converter knows byte-level vocabularies by a checksum of what they make of a text, and
ends at one that it never saw: it is told that this one splits texts as GPT-2 does.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "catalog" / "demo"


def main() -> None:
    """Convert both models."""
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    base, llama = importlib.import_module("conversion.base"), importlib.import_module("conversion.llama")
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    # Otherwise it asks for sentencepiece first, which this vocabulary has no use for.
    llama.LlamaModel.set_vocab = base.TextModel._set_vocab_gpt2
    converter = importlib.import_module("convert_hf_to_gguf")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("target", "draft"):
        file = folder / f"{name}.gguf"
        sys.argv[1:] = [str(DEMO / name), "--outtype", "f32", "--outfile", str(file)]
        converter.main()


if __name__ == "__main__":
    main()
