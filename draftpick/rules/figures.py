"""How numbers are written in a finding, and the figures of a pair that several rules read."""

from __future__ import annotations

from functools import lru_cache

from draftpick.models.profile import ModelProfile
from draftpick.pair import Pair

# Bits of a stored weight by the first word that a quantisation's name holds; scales add a few per cent, left out.
_BITS = (
    ("iq1", 1.8), ("iq2", 2.4), ("q2", 2.6), ("iq3", 3.4), ("q3", 3.4), ("iq4", 4.3), ("q4", 4.5), ("q5", 5.5),
    ("q6", 6.6), ("q8", 8.5), ("int4", 4.0), ("4bit", 4.0), ("fp4", 4.0), ("w4", 4.0), ("int8", 8.0), ("8bit", 8.0),
    ("fp8", 8.0), ("w8", 8.0), ("float8", 8.0), ("awq", 4.0), ("gptq", 4.0), ("1.58", 2.0), ("f16", 16.0),
)  # fmt: skip

SIZES = (
    "params_total", "params_text", "params_active", "vocab_size", "hidden_size", "tie_word_embeddings",
)  # fmt: skip
"""Fields by which the parameters read for a token are known."""
STORED = ("quantization", "dtype")
"""Fields by which the bits of a weight are known."""

PLAIN_BITS = {"bfloat16": 16.0, "float16": 16.0, "half": 16.0, "float32": 32.0, "float": 32.0}
"""Bits of a weight that is not quantised, by the name of its type."""


@lru_cache(maxsize=1024)
def count(parameters: float) -> str:
    """A number of parameters as people say it: 68M, 7.6B, 1.04T."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if parameters >= size * 0.9995:  # what rounds to 1000M is 1B
            value = parameters / size
            return f"{value:.3g}{unit}" if value < 1000 else f"{value:.0f}{unit}"
    return f"{parameters:.0f}"


def times(ratio: float) -> str:
    """A ratio with as many digits as matter: 0.86, 4.6, 57."""
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def read_ratio(pair: Pair) -> float | None:
    """How many times the parameters read per token the target has over a draft model; None where unknown."""
    if pair.draft is None:
        return None
    target, draft = pair.target.params_read, pair.draft.params_read
    return target / draft if target and draft else None


def bytes_ratio(pair: Pair) -> float | None:
    """The same in bytes of weights; None where a storage format is not known."""
    if pair.draft is None:
        return None
    target = bytes_read(pair.target, pair.setting.quantization)
    draft = bytes_read(pair.draft, pair.setting.draft_quantization)
    return target / draft if target and draft else None


def kept_share(pair: Pair) -> float | None:
    """What the draft's weights take over what the target's take, all experts counted; None where one is not known."""
    if pair.draft is None:
        return None
    target = _bits_kept(pair.target, pair.setting.quantization)
    draft = _bits_kept(pair.draft, pair.setting.draft_quantization)
    return draft / target if target and draft else None


def _bits_kept(model: ModelProfile, quantization: str | None) -> float | None:
    total, bits = model.params_total, bits_per_weight(quantization or model.quantization, model.dtype)
    return total * bits if total is not None and bits is not None else None


def bytes_read(model: ModelProfile, quantization: str | None = None) -> float | None:
    """Bytes of weights read for one token, `quantization` being applied at load; None where unknown."""
    read, bits = model.params_read, bits_per_weight(quantization or model.quantization, model.dtype)
    return read * bits / 8 if read is not None and bits is not None else None


def bits_per_weight(quantization: str | None, dtype: str | None) -> float | None:
    """Bits that one stored weight takes, scales left out; None where neither format is known."""
    return PLAIN_BITS.get(dtype or "") if quantization is None else _quantized_bits(quantization)


@lru_cache(maxsize=256)
def _quantized_bits(quantization: str) -> float | None:
    name = quantization.lower()
    return next((bits for mark, bits in _BITS if mark in name), None)


def quoted(text: str) -> str:
    """A token's text between quotes, with what cannot be printed escaped once (recorded texts already are)."""
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + "'"
