"""The largest files that bounds let through, made to be as costly as they can: what they cost is the bound on time."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping

import gguf_builder
from readers import DEMO, ROOT, SEEDS

Made = tuple[str, Callable[[], bytes]]
"""The reader, and the file for it."""


def _header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _piece(text: bytes) -> bytes:
    inside = b"\x0a" + _varint(len(text)) + text
    return b"\x0a" + _varint(len(inside)) + inside


def _filled(name: str, key: str, value: str, size: int) -> bytes:
    """A seed with another key, whose value is so long."""
    document = json.loads((SEEDS / name).read_bytes())
    return json.dumps({**document, key: None}).replace(f'"{key}": null', f'"{key}": {value}').encode()[:size]


def _many(name: str, key: str, times: int) -> bytes:
    """A seed with a list in it so many times as long."""
    document = json.loads((SEEDS / name).read_bytes())
    return json.dumps({**document, key: document[key] * times}).encode()


def _trace() -> bytes:
    head, row, *_ = (SEEDS / "probe.trace.jsonl").read_bytes().splitlines(keepends=True)
    return head + row * ((64 << 20) // len(row))


def _policy() -> bytes:
    pair = (ROOT / "ci" / "pairs.toml").read_text(encoding="utf-8").partition("\n\n")[2]
    return "".join(pair.replace('"demo"', f'"{number}"') for number in range(1_000)).encode()[:999_000]


LARGE: Mapping[str, Made] = {
    "5 MB of empty lists": ("config", lambda: b'{"a": [' + b"[]," * 1_499_000 + b"1]}"),
    "5 MB of keys": ("config", lambda: b"{" + b",".join(b'"%d":1' % i for i in range(440_000)) + b"}"),
    "1,400,000 texts": (
        "tokenizer-json",
        lambda: b'{"model": {"vocab": {}, "merges": [' + b",".join(b'"%d"' % i for i in range(1_400_000)) + b"]}}",
    ),
    "400,000 tokens": (
        "tokenizer-json",
        lambda: (
            b'{"model": {"type": "BPE", "vocab": {' + b",".join(b'"w%d":%d' % (i, i) for i in range(400_000)) + b"}}}"
        ),
    ),
    "64 MB of one token": (
        "tokenizer-json",
        lambda: b'{"model": {"type": "BPE", "vocab": {"' + "Ġ".encode() * 33_000_000 + b'": 0}}}',
    ),
    "400,000 pieces": ("sentencepiece", lambda: b"".join(_piece(b"p%d" % i) for i in range(399_000))),
    "64 MB in 399,000 pieces": ("sentencepiece", lambda: _piece(b"x" * 160) * 399_000),
    "400,000 ranks": (
        "tiktoken",
        lambda: b"".join(base64.b64encode(b"%d" % i) + b" %d\n" % i for i in range(399_000)),
    ),
    "399,000 entries": (
        "tekken",
        lambda: json.dumps(
            {
                "config": {"pattern": "", "default_num_special_tokens": 0, "default_vocab_size": 399_000},
                "vocab": [{"rank": i, "token_bytes": base64.b64encode(b"%d" % i).decode()} for i in range(399_000)],
            }
        ).encode(),
    ),
    "69,000 literals": ("rwkv", lambda: b"".join(b"%d '%s' 1\n" % (i, b"\\x41" * 20) for i in range(69_000))),
    "sums in literals": ("rwkv", lambda: b"".join(b"%d %s 1\n" % (i, b"-" * 60 + b"1") for i in range(69_000))),
    "300,000 tensors": (
        "safetensors",
        lambda: _header(
            b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(300_000)) + b"}"
        ),
    ),
    "700,000 names in an index": (
        "index",
        lambda: b'{"weight_map": {' + b",".join(b'"%d":"a.safetensors"' % i for i in range(700_000)) + b"}}",
    ),
    "2,000,000 texts": (
        "gguf",
        lambda: (
            gguf_builder.build({"general.architecture": "llama", "a": ["x"]})[:-9].replace(
                struct.pack("<IQ", 8, 1), struct.pack("<IQ", 8, 2_000_000)
            )
            + (struct.pack("<Q", 20) + b"x" * 20) * 2_000_000
        ),
    ),
    "200,000 tensors of a header": (
        "gguf",
        lambda: gguf_builder.build(
            {"general.architecture": "llama"}, [(f"blk.{i}.w", (1, 1), 0) for i in range(199_000)]
        ),
    ),
    "64 MB of answers": ("trace", _trace),
    "3,000,000 numbers in a key": ("probe", lambda: _filled("probe.json", "x", "[" + "1," * 2_900_000 + "1]", 1 << 30)),
    "100 drafts": ("report-probe", lambda: _many("probe.json", "drafts", 100)),
    "2,000 candidates": ("report-advice", lambda: _many("advice.json", "candidates", 2_000)),
    "20,000 checked pairs": ("report-gate", lambda: _many("gate.json", "pairs", 20_000)),
    "1,000 pairs": ("policy", _policy),
    "10,000 tables": ("policy", lambda: b"".join(b"[a.b%d]\n" % i for i in range(9_900))),
    "9,900 rows of a family": (
        "family",
        lambda: (
            b'family = "x"\n'
            + b"".join(b'[[model]]\nid = "fuzz/%05d"\nsource = "s"\nchecked = 2026-10-31\n' % i for i in range(9_900))
        ),
    ),
    "20,000 samples": (
        "prometheus",
        lambda: b"".join(b'vllm:spec_decode_num_drafts_total{e="%d"} 1\n' % i for i in range(19_900)),
    ),
    "8 MB of other lines": ("prometheus", lambda: b"a 1\n" * 2_097_000),
    "8 MB in a line": (
        "responses",
        lambda: b'{"choices": [' + b"[]," * 2_700_000 + b"1]}\n",
    ),
    "100,000 requests": (
        "responses",
        lambda: b"".join(
            b'{"id": "%d", "choices": [],'
            b' "metrics": {"speculative_decoding": {"num_spec_tokens": 3, "num_draft_tokens": 3,'
            b' "acceptance_histogram": [1, 0, 0, 0]}}}\n' % i
            for i in range(99_000)
        ),
    ),
    "100,000 prompts": ("prompts", lambda: b"".join(b'{"prompt": "%d"}\n' % i for i in range(99_999))),
    "4 MB in a prompt": (
        "prompts",
        lambda: (DEMO / "prompts.jsonl").read_bytes() + b'{"prompt": "' + b"x" * 4_190_000 + b'"}\n',
    ),
    "3,000,000 values": ("vllm-writes", lambda: b'{"choices": [' + b"1," * 2_900_000 + b"1]}"),
    "100,000 events": ("events", lambda: b'data: {"choices": []}\n\n' * 100_000),
}
