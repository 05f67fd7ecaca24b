"""The catalogue's engines and devices: complete, sourced and usable."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftpick.catalog_index import read_toml
from draftpick.pair import Device

CATALOG = Path(__file__).parents[1] / "catalog"
FILES = sorted((CATALOG / "engines").glob("*.toml"))
KEYS = {
    "vllm", "vllm-ascend", "sglang", "sglang-ascend", "xllm", "mindie", "tensorrt-llm", "llama.cpp", "transformers",
    "mlx",
}  # fmt: skip
METHODS = {
    "draft_model", "eagle", "eagle3", "mtp", "mtp_assistant", "medusa", "mlp_speculator", "dflash", "dflash2", "dspark",
    "pard", "ngram", "suffix",
}  # fmt: skip
DEVICES: list[dict[str, Any]] = read_toml(CATALOG / "devices.toml")["device"]
NUMBERS = ("memory_bytes", "memory_seen_bytes", "bandwidth", "peak_fp16", "peak_fp8", "peak_int8", "devices_per_node")


def rows_of(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Every table of an engine that states a fact with a source of its own."""
    rows = [facts, facts["vocabulary"], *facts["methods"].values(), *facts.get("exceptions", ())]
    rows += facts["vocabulary"].get("was", ())
    rows += [facts["vocabulary"]["bridge"]] if "bridge" in facts["vocabulary"] else []
    rows += [facts["launch"], *facts["launch"]["method"]]
    return rows + [facts[name] for name in ("limits", "tensor_parallel") if name in facts]


def test_there_are_the_ten_engines() -> None:
    assert {path.stem for path in FILES} == KEYS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_engine_file_is_usable(path: Path) -> None:
    facts = read_toml(path)
    assert facts["key"] == path.stem
    assert isinstance(facts["checked"], date)
    assert set(facts["methods"]) == METHODS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_fact_of_an_engine_has_a_source(path: Path) -> None:
    assert all(row.get("source") for row in rows_of(read_toml(path)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reasons_read_alone(path: Path) -> None:
    known = {"{target}", "{draft}", "{k}", "{tp}", "{max_model_len}", "{max_num_seqs}"}
    for row in read_toml(path).get("exceptions", ()):
        assert set(re.findall(r"\{\w+\}", row["reason"])) <= known
        assert not row["reason"].endswith(".")


@pytest.mark.parametrize("path", [*FILES, CATALOG / "devices.toml"], ids=lambda path: path.stem)
def test_nobody_is_told_to_edit_a_config(path: Path) -> None:
    assert not re.search(r"(?i)\bedit\b|(?<!conf/)config\.json", path.read_text(encoding="utf-8"))


def test_names_of_engines_are_unique() -> None:
    names = [name.lower() for path in FILES for name in (path.stem, *read_toml(path).get("aliases", ()))]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "key"), [("trtllm", "tensorrt-llm"), ("llamacpp", "llama.cpp"), ("hf", "transformers")]
)
def test_usual_other_names(asked: str, key: str) -> None:
    assert asked in read_toml(CATALOG / "engines" / f"{key}.toml")["aliases"]


def test_builds_of_llama_cpp_are_in_order() -> None:
    builds = read_toml(CATALOG / "engines" / "llama.cpp.toml")["builds"]
    assert builds == sorted(builds, key=lambda row: row["build"])
    assert builds == sorted(builds, key=lambda row: row["date"])


@pytest.mark.parametrize("row", DEVICES, ids=lambda row: row["key"])
def test_a_device_is_complete_and_sourced(row: dict[str, Any]) -> None:
    assert row["source"]
    assert isinstance(row["checked"], date)
    assert row["vendor"] in ("huawei", "nvidia", "amd", "apple", "generic")
    assert all(type(row[name]) is int and row[name] > 0 for name in NUMBERS if name in row)
    assert set(row.get("uncertain", ())) <= {*NUMBERS, "bf16", "fp8", "compute_efficiency", "memory_efficiency"}
    assert row["bandwidth"] < 20e12


@pytest.mark.parametrize("row", DEVICES, ids=lambda row: row["key"])
def test_figures_of_a_device_agree(row: dict[str, Any]) -> None:
    if "memory_seen_bytes" in row:
        assert 0.88 * row["memory_bytes"] < row["memory_seen_bytes"] <= 1.07 * row["memory_bytes"]
    if "peak_fp8" in row:
        assert 1.9 < row["peak_fp8"] / row["peak_fp16"] < 2.1
    if row.get("fp8"):
        assert row["bf16"]


def test_names_of_devices_are_unique() -> None:
    names = [name.lower() for row in DEVICES for name in (row["key"], *row.get("aliases", ()))]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("atlas-800i-a2-64g", "910b4-1"),
        ("atlas-800i-a2-32g", "910b4"),
        ("atlas-800t-a2", "910b3"),
        ("ascend910b3", "910b3"),
        ("ascend910_9392", "910c"),
        ("atlas-300i-duo", "310p-duo-96g"),
        ("a100", "a100-80g"),
        ("h100", "h100-80g"),
        ("rtx-5060-ti", "rtx5060ti-16g"),
        ("mi300x", "mi300x-192g"),
        ("apple-m4-max", "m4-max"),
    ],
)
def test_product_names_are_aliases(asked: str, key: str) -> None:
    assert [row["key"] for row in DEVICES if asked in row.get("aliases", ())] == [key]


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("310p-duo-96g", "bf16", False),
        ("910a", "bf16", False),
        ("310b", "bf16", None),
        ("910b3", "bf16", True),
        ("910b3", "fp8", False),
        ("950-112g", "fp8", True),
        ("910b4", "memory_bytes", 32 << 30),
        ("910b4-1", "memory_bytes", 64 << 30),
        ("910b4", "bandwidth", 800_000_000_000),
        ("310p-duo-96g", "bandwidth", 204_000_000_000),
        ("910c", "devices_per_node", 16),
    ],
)
def test_facts_that_decide(key: str, field: str, value: object) -> None:
    row = next(row for row in DEVICES if row["key"] == key)
    assert row.get(field) == value


def test_ascend_shows_less_memory_than_its_label() -> None:
    row = next(row for row in DEVICES if row["key"] == "910b4")
    assert round(row["memory_seen_bytes"] / 2**30, 2) == 29.49


@pytest.mark.parametrize("row", DEVICES, ids=lambda row: row["key"])
def test_a_row_becomes_a_device(row: dict[str, Any]) -> None:
    fields = Device._fields
    device = Device(**{name: value for name, value in row.items() if name in fields})
    assert device.key == row["key"]
