"""The page of threats names the bounds that hold: its table is made from the code's own constants."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from draftpick import advice_file, devices, gate_file, http, probe_file, responses, scrape, toml_file, validation
from draftpick.models import bounded, card, gguf, safetensors, token_lists, vocabulary
from draftpick.probing import client, prompts, trace

PAGE = Path(__file__).parents[1] / "docs" / "threat-model.md"
PART = re.compile(r"(?<=<!-- bounds -->\n).*?(?=<!-- end -->)", re.DOTALL)


def size(bytes_: int) -> str:
    if bytes_ % 1_000_000 == 0:
        return f"{bytes_ // 1_000_000} MB"
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_:,} bytes"


def table() -> str:
    json_counts = (
        f"{bounded._MAX_VALUES:,} values, {bounded._MAX_STRINGS:,} texts, numbers of {bounded._MAX_DIGITS} digits"
    )
    toml_counts = (
        f"{toml_file.MAX_TABLES:,} tables, {toml_file.MAX_TOP_KEYS} keys at the top, "
        f"{toml_file.MAX_KEY_PARTS} parts of a key"
    )
    tokens = f"{vocabulary.MAX_TOKENS:,} tokens, ids up to {vocabulary.MAX_ID:,}"
    tokenizer = size(vocabulary.MAX_FILE_BYTES)
    rows = [
        ("any JSON", "", bounded.MAX_DEPTH, json_counts),
        ("config.json and the other configs", size(bounded.CONFIG_BYTES), "", ""),
        ("tokenizer.json, tekken.json, vocab.json", tokenizer, "", tokens),
        ("sentencepiece, tiktoken", tokenizer, "", tokens),
        (
            "RWKV's vocabulary",
            size(token_lists.MAX_LITERAL_BYTES),
            "",
            f"{token_lists.MAX_LITERALS:,} lines of 64 KiB",
        ),
        (
            "head of a safetensors file, and index",
            f"{size(safetensors._HEADER_BYTES)}, {size(safetensors._INDEX_BYTES)}",
            "",
            f"{safetensors._MAX_SHARDS:,} files, {safetensors._MAX_TENSORS:,} tensors of all files",
        ),
        (
            "head of a GGUF file",
            f"{size(gguf._MAX_STRING_BYTES)} of texts",
            gguf._MAX_DEPTH,
            f"{gguf._MAX_KEYS:,} keys, {gguf._MAX_STRINGS:,} texts, {gguf._MAX_NUMBERS:,} numbers, "
            f"{gguf._MAX_ARRAYS:,} lists, {gguf._MAX_TENSORS:,} tensors",
        ),
        ("head of a model card", size(card._HEAD_BYTES), "", "the rest is not read"),
        ("probe, and the files that `report` reads", size(probe_file.MOST_BYTES), "", ""),
        ("advice", size(advice_file.MOST_BYTES), "", "100,000 candidates"),
        ("baseline", size(gate_file.MOST_BYTES), "", ""),
        ("costs of `--costs`", "1 MiB", "", "257 positions"),
        ("trace", f"{size(trace.MOST_BYTES)}, {size(trace.LONGEST_LINE)} a line", "", "as of JSON in each line"),
        (
            "prompts",
            f"{size(prompts.MOST_BYTES)}, {size(prompts.LONGEST_LINE)} a line",
            "",
            f"{prompts.MOST_PROMPTS:,} prompts",
        ),
        (
            "log of responses",
            f"{size(responses.MOST_BYTES)}, {size(responses.LONGEST_LINE)} a line",
            f"{responses._DEEPEST} wrappers",
            f"{responses.MOST_LINES:,} lines, {responses.MOST_REQUESTS:,} requests",
        ),
        (
            "TOML: pairs.toml, rules, `--config`, overlays",
            size(toml_file.MAX_FILE_BYTES),
            toml_file.MAX_DEPTH,
            toml_counts,
        ),
        (
            "all files of an overlay",
            size(validation.MAX_TOTAL_BYTES),
            "",
            f"{validation.MAX_FILES:,} files",
        ),
        ("pairs.toml", "", "", "1,000 pairs"),
        (
            "metrics of a server",
            f"{size(scrape.MOST_BYTES)}, {size(scrape.MOST_LINE)} a line",
            "",
            f"{scrape.MOST_SAMPLES:,} samples that matter, {scrape.MOST_LABELS} labels each; {scrape.TIMEOUT:g} s",
        ),
        (
            "answer of a served model",
            size(client.MOST_BYTES),
            "",
            f"60 s and 1 s a token; {http.MOST_REDIRECTS} redirects",
        ),
        ("answer with an error", size(http.MOST_SAID), "", "the rest is not read"),
        ("npu-smi, nvidia-smi, sysctl", size(devices._MOST_BYTES), "", f"{devices.TIMEOUT_S:g} s"),
    ]
    lines = ["| file | bytes | depth | counts |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows), ""])


@pytest.mark.skipif("UPDATE_DOCUMENTS" not in os.environ, reason="writes the page")
def test_write_the_page() -> None:
    PAGE.write_text(PART.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def test_the_page_names_the_bounds_that_hold() -> None:
    (found,) = PART.findall(PAGE.read_text(encoding="utf-8"))
    assert found == table(), "stale: UPDATE_DOCUMENTS=1 python -m pytest tests/test_threat_model.py"


def test_the_numbers_that_records_hold_are_those_of_the_page() -> None:
    assert _most(advice_file.AdviceFile, "candidates") == 100_000
    assert _most(gate_file.PolicyFile, "pair") == 1_000
    assert _most(probe_file.GivenCosts, "verify_ms") == 257


def _most(record: type, name: str) -> int | None:
    limits = [one.max_length for one in record.model_fields[name].metadata if hasattr(one, "max_length")]  # type: ignore[attr-defined]
    return limits[0] if limits else None


@pytest.mark.parametrize("name", re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text(encoding="utf-8")) or ["none"])
def test_the_tests_that_it_names_are_there(name: str) -> None:
    assert (PAGE.parents[1] / name).exists()
