"""Random models of many architectures, small enough to be built in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from draftpick.probing.local import LocalModel

ROWS = 64
EOS = 2
_SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}
_GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "bos_token_id": 1}
_MAMBA: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}
_MIXED = ["sliding_attention", "full_attention"]

# Name → configuration, and what is special about it.
CONFIGS: dict[str, Callable[[int], Any]] = {
    # rotary positions
    "llama": lambda rows: transformers.LlamaConfig(vocab_size=rows, **_SHAPE),
    "qwen3": lambda rows: transformers.Qwen3Config(vocab_size=rows, head_dim=8, **_SHAPE),
    # absolute positions
    "gpt2": lambda rows: transformers.GPT2Config(vocab_size=rows, eos_token_id=EOS, **_GPT),
    "opt": lambda rows: transformers.OPTConfig(vocab_size=rows, word_embed_proj_dim=32, ffn_dim=48, **_SHAPE),
    # positions out of the mask (ALiBi)
    "bloom": lambda rows: transformers.BloomConfig(
        vocab_size=rows, hidden_size=32, n_layer=2, n_head=4, eos_token_id=EOS
    ),
    # windows
    "mistral": lambda rows: transformers.MistralConfig(vocab_size=rows, sliding_window=7, **_SHAPE),
    "gemma2": lambda rows: transformers.Gemma2Config(
        vocab_size=rows, head_dim=8, sliding_window=8, query_pre_attn_scalar=8, layer_types=_MIXED, **_SHAPE
    ),
    "gemma3": lambda rows: transformers.Gemma3TextConfig(
        vocab_size=rows, head_dim=8, sliding_window=8, query_pre_attn_scalar=8, layer_types=_MIXED[::-1], **_SHAPE
    ),
    # a recurrent state in some layers or in all
    "qwen3-next": lambda rows: transformers.Qwen3NextConfig(
        vocab_size=rows,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=0,
        mlp_only_layers=[0, 1],
        **_SHAPE,
    ),
    "bamba": lambda rows: transformers.BambaConfig(vocab_size=rows, attn_layer_indices=[1], **_MAMBA, **_SHAPE),
    "falcon-h1": lambda rows: transformers.FalconH1Config(
        vocab_size=rows, head_dim=8, mamba_d_ssm=64, **_MAMBA, **_SHAPE
    ),
    "mamba": lambda rows: transformers.MambaConfig(vocab_size=rows, hidden_size=32, num_hidden_layers=2, state_size=8),
}


def network(name: str, rows: int = ROWS, *, seed: int = 1, sharpness: float = 4.0) -> Any:
    """A random model. Its first weights are so small that every context gives nearly the same logits: `sharpness`."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](rows), dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() >= 2:
                weight.mul_(sharpness)
    return model


def local_model(name: str, rows: int = ROWS, *, seed: int = 1, sharpness: float = 4.0) -> LocalModel:
    return LocalModel(f"tiny/{name}", network(name, rows, seed=seed, sharpness=sharpness), "cpu")


def saved(
    folder: Path, name: str = "llama", rows: int = ROWS, *, seed: int = 1, sharpness: float = 4.0, **options: Any
) -> Path:
    network(name, rows, seed=seed, sharpness=sharpness).save_pretrained(folder, **options)
    return folder


def ended_by(local: LocalModel, *eos: int) -> LocalModel:
    """The same network, ending its answers at other ids."""
    local.model.generation_config.eos_token_id = list(eos)
    local.model.config.eos_token_id = list(eos)
    return LocalModel(local.id, local.model, local.device)


def texts(*lengths: int, seed: int = 0, rows: int = ROWS) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, rows, length).tolist() for length in lengths]


def whole_logits(local: LocalModel, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Logits before each token of the answer, of one row in one pass without a cache."""
    with torch.inference_mode():
        logits = local.model(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0].float()
    return logits[len(prompt) - 1 : -1]
