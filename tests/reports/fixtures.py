"""Small model folders and files that stand in where a report's model is not in the catalogue.

Each builder fills an empty folder. The folders hold metadata alone: no weights, tokenizers of a thousand tokens.
"""

from __future__ import annotations

import itertools
import json
import string
import struct
from pathlib import Path
from typing import Any

NAMED = 1000
"""Tokens of the synthetic vocabulary, control tokens included."""
TARGET = {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336, "num_key_value_heads": 8}
DRAFT = {"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "num_key_value_heads": 8}


def row_difference(folder: Path, rows: int) -> None:
    """One tokenizer; the target's embedding has `rows` rows more than the draft's."""
    _model(folder / "target", TARGET, vocab_size=NAMED + rows)
    _model(folder / "draft", DRAFT, vocab_size=NAMED)


def bos_differs(folder: Path, added: bool) -> None:
    """Equal tokens, other bos ids; `added`: whether the tokenizers put the bos token in front of a text."""
    _model(folder / "target", TARGET, bos="<s>", add_bos=added)
    _model(folder / "draft", DRAFT, bos="<sep>", add_bos=added)


def extra_token(folder: Path) -> None:
    """A draft with the target's vocabulary, and one whose fine-tuning appended a padding token and a row."""
    _model(folder / "target", TARGET)
    _model(folder / "equal", DRAFT)
    _model(folder / "extra", DRAFT, vocab_size=NAMED + 1, more_tokens=["[PAD]"])


def projector_beside(folder: Path, present: bool) -> None:
    """A good pair; `present`: an image projector lies in the target's folder."""
    _model(folder / "target", TARGET)
    _model(folder / "draft", DRAFT)
    if present:
        header = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
        (folder / "target" / "mmproj-model-f16.gguf").write_bytes(header)


def rope_stretched(folder: Path) -> None:
    """The target's context is stretched by YaRN, the draft's is native."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    _model(folder / "target", TARGET, max_position_embeddings=131072, rope_scaling=yarn)
    _model(folder / "draft", DRAFT, max_position_embeddings=32768)


def head_rope(folder: Path) -> None:
    """An EAGLE-3 head of gpt-oss-120b's width with a rotary schedule of another kind."""
    shape = {"hidden_size": 2880, "num_hidden_layers": 1, "intermediate_size": 17280, "num_key_value_heads": 8}
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    _config(
        folder / "head",
        shape,
        architectures=["LlamaForCausalLMEagle3"],
        num_attention_heads=64,
        head_dim=64,
        vocab_size=201088,
        draft_vocab_size=32000,
        max_position_embeddings=131072,
        rope_scaling=llama3,
    )


def finetune(folder: Path) -> None:
    """A fine-tune of Mistral-7B-Instruct-v0.2, as its card says."""
    shape = TARGET | {"num_attention_heads": 32}
    base = "mistralai/Mistral-7B-Instruct-v0.2"
    _config(
        folder / "target",
        shape,
        architectures=["MistralForCausalLM"],
        model_type="mistral",
        vocab_size=32000,
        max_position_embeddings=32768,
        _name_or_path=base,
    )
    card = f"---\nbase_model: {base}\nbase_model_relation: finetune\nlicense: apache-2.0\n---\n\n# A fine-tune\n"
    (folder / "target" / "README.md").write_text(card)


def mtp_layers(folder: Path, layers: int) -> None:
    """A target with `layers` multi-token-prediction layers of its own."""
    _mtp_target(folder / "target", layers)


def mtp_missing(folder: Path) -> None:
    """The config promises an own head, the checkpoint holds no tensor of it."""
    _mtp_target(folder / "target", 1)
    names = [f"model.layers.{i}.self_attn.o_proj.weight" for i in range(8)]
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (folder / "target" / "model.safetensors.index.json").write_text(json.dumps(index))


def mtp_checkpoint(folder: Path) -> None:
    """A built-in head cut out of its model and saved as if it were one."""
    shape = {"hidden_size": 5120, "num_hidden_layers": 1, "intermediate_size": 17408, "num_key_value_heads": 4}
    _config(
        folder / "head",
        shape,
        architectures=["Qwen3_5MTP"],
        model_type="qwen3_5_mtp",
        num_attention_heads=24,
        vocab_size=248320,
        max_position_embeddings=262144,
    )


def remote_code(folder: Path) -> None:
    """Both configs name Python files of their own."""
    code = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    _model(folder / "target", TARGET, auto_map=code)
    _model(folder / "draft", DRAFT, auto_map=code)


def eagle3_folder(folder: Path) -> None:
    """An EAGLE-3 head for a target 2560 wide; its config looks like an ordinary model, its tensors do not."""
    shape = {"hidden_size": 2560, "num_hidden_layers": 1, "intermediate_size": 9728, "num_key_value_heads": 8}
    _config(
        folder / "head",
        shape,
        architectures=["Qwen3ForCausalLM"],
        model_type="qwen3",
        num_attention_heads=32,
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
    )
    _safetensors(
        folder / "head" / "model.safetensors",
        {
            "fc.weight": [2560, 3 * 2560],
            "midlayer.hidden_norm.weight": [2560],
            "midlayer.self_attn.q_proj.weight": [4096, 5120],
            "norm.weight": [2560],
        },
    )


def tensor_rows(folder: Path) -> None:
    """The draft's config says 1,024 rows, its embedding tensor has 1,000."""
    _model(folder / "target", TARGET, vocab_size=1024)
    _model(folder / "draft", DRAFT, vocab_size=1024)
    _safetensors(folder / "draft" / "model.safetensors", {"model.embed_tokens.weight": [1000, 2048]})


def metrics(folder: Path, drafts: int, accepted: list[int]) -> None:
    """A scrape of a server's counters after `drafts` drafts, `accepted` tokens at each position."""
    (folder / "metrics.txt").write_text(_scrape(drafts, accepted))


def metrics_drop(folder: Path, rates: list[float]) -> None:
    """Scrapes metrics-0.txt …: between two of them 1,000 drafts of two tokens, accepted at the rate named."""
    accepted = [0, 0]
    (folder / "metrics-0.txt").write_text(_scrape(0, accepted))
    for number, rate in enumerate(rates, start=1):
        accepted = [accepted[0] + round(1000 * rate), accepted[1] + round(1000 * rate * rate)]
        (folder / f"metrics-{number}.txt").write_text(_scrape(1000 * number, accepted))


def _mtp_target(folder: Path, layers: int) -> None:
    shape = {"hidden_size": 2048, "num_hidden_layers": 8, "intermediate_size": 8192, "num_key_value_heads": 16}
    _model(
        folder,
        shape,
        architectures=["DeepseekV3ForCausalLM"],
        model_type="deepseek_v3",
        num_attention_heads=16,
        num_nextn_predict_layers=layers,
        q_lora_rank=768,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    )


def _model(
    folder: Path,
    shape: dict[str, int],
    *,
    bos: str = "<s>",
    add_bos: bool = True,
    more_tokens: list[str] | None = None,
    **config: Any,
) -> None:
    _config(folder, shape, **{"vocab_size": NAMED, **config})
    _tokenizer(folder, bos=bos, add_bos=add_bos, more_tokens=more_tokens or [])


def _config(folder: Path, shape: dict[str, int], **extra: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_attention_heads": 32,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rope_theta": 500000.0,
    }
    (folder / "config.json").write_text(json.dumps(config | shape | extra))


def _tokenizer(folder: Path, *, bos: str, add_bos: bool, more_tokens: list[str]) -> None:
    control = ["<s>", "</s>", "<sep>", *more_tokens]
    ordinary = _byte_symbols()
    pairs = list(itertools.islice(itertools.product(string.ascii_letters, repeat=2), NAMED - 3 - len(ordinary)))
    ordinary += ["".join(pair) for pair in pairs]
    added = [
        {
            "id": len(ordinary) + i,
            "content": text,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for i, text in enumerate(control)
    ]
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(ordinary)},
            "merges": [f"{first} {second}" for first, second in pairs],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": "</s>",
        "add_bos_token": add_bos,
        "add_eos_token": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _byte_symbols() -> list[str]:
    """The 256 characters by which byte-level vocabularies spell bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]


def _safetensors(path: Path, shapes: dict[str, list[int]]) -> None:
    """A file whose header is right and whose data are a hole of zeros."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        begin, size = end, 2
        for length in shape:
            size *= length
        end = begin + size
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def _scrape(drafts: int, accepted: list[int]) -> str:
    label = 'engine="0",model_name="target"'
    lines = [
        f"vllm:spec_decode_num_drafts_total{{{label}}} {float(drafts)}",
        f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {float(drafts * len(accepted))}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {float(sum(accepted))}",
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{i}"}} {float(count)}'
        for i, count in enumerate(accepted)
    ]
    return "\n".join(lines) + "\n"
