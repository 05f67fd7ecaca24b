"""The collected real tokenizers against the catalogue, and every pair of them against what was measured.

The pairs of catalogue records are always compared. The files themselves are read where DRAFTPICK_TOKENIZERS names the
folder that scripts/collect_tokenizers.py made.

pairs.csv lists the pairs of the 76 tokenizers whose ids agree for the most part, as measured on 2026-11-29 by a program
apart from draftpick; every pair that is not listed is different.
"""

from __future__ import annotations

import base64
import csv
import importlib.util
import os
import struct
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from draftpick import catalog
from draftpick.catalog_index import read_toml
from draftpick.models.tokenizer import Fingerprint, Relation, compare

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER = os.environ.get("DRAFTPICK_TOKENIZERS")
HASHES = ("full", "core", "markup", "pipeline", "probe")

collected = pytest.mark.skipif(not FOLDER, reason="DRAFTPICK_TOKENIZERS names no folder of collected tokenizers")


def _sources() -> dict[str, dict[str, str]]:
    with (ROOT / "scripts" / "tokenizer_sources.csv").open(encoding="utf-8") as file:
        return {row["key"]: row for row in csv.DictReader(file)}


SOURCES = _sources()
KEYS = sorted(SOURCES)


@cache
def expected() -> dict[frozenset[str], dict[str, str]]:
    with (HERE / "pairs.csv").open(encoding="utf-8") as file:
        return {frozenset((row["a"], row["b"])): row for row in csv.DictReader(file)}


CATALOG = catalog.load()


@cache
def record(key: str) -> Fingerprint:
    known = CATALOG.tokenizer(key)
    assert known is not None
    return CATALOG.full_tokenizer(known)._replace(verified=True)


def relation_of(a: Fingerprint, b: Fingerprint) -> Relation:
    return compare(a, b, None, None, CATALOG.measured_relation(a, b))


@cache
def fingerprints_script() -> ModuleType:
    path = ROOT / "scripts" / "fingerprints.py"
    spec = importlib.util.spec_from_file_location("fingerprints", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fingerprints"] = module
    spec.loader.exec_module(module)
    return module


@cache
def is_here(key: str) -> bool:
    """Whether the file was collected; a public repository may be out of reach where the packages are not."""
    folder = Path(str(FOLDER)) / SOURCES[key]["folder"]
    return bool(FOLDER) and folder.is_dir() and any(folder.iterdir())


@cache
def read(key: str) -> Fingerprint:
    if not is_here(key):
        pytest.skip(f"{SOURCES[key]['folder']} was not collected")
    for library in ("tokenizers", "sentencepiece", "tiktoken"):
        pytest.importorskip(library)
    script = fingerprints_script()
    source = next(source for source in script.SOURCES if source.key == key)
    taken: Fingerprint = script.load(source, Path(str(FOLDER)))[1]
    return taken


def kind_expected(a: str, b: str) -> str:
    verdict = expected().get(frozenset((a, b)), {"verdict": "different"})["verdict"]
    return verdict.split(",")[0].replace(" ", "_")


def disagreements(pairs: Any, relate: Any) -> list[str]:
    found = []
    for a, b in pairs:
        kind = relate(a, b).kind
        if kind != kind_expected(a, b):
            found.append(f"{a} / {b}: {kind}, measured {kind_expected(a, b)}")
    return found


def test_every_pair_of_records_has_its_measured_kind() -> None:
    pairs = list(combinations(KEYS, 2))
    assert len(pairs) == 2850
    assert disagreements(pairs, lambda a, b: relation_of(record(a), record(b))) == []
    assert disagreements(pairs, lambda a, b: relation_of(record(b), record(a))) == []


def test_numbers_of_agreeing_ids_and_first_differences() -> None:
    for row in expected().values():
        relation = relation_of(record(row["a"]), record(row["b"]))
        if record(row["a"]).control_known and record(row["b"]).control_known:
            assert relation.same_ids == int(row["same_ids"]), row
        if relation.first_difference is not None:
            assert relation.first_difference.id == int(row["first_difference"])


def test_cutting_is_never_called_alike_where_it_differs() -> None:
    listed = expected().values()
    for row in listed:
        alike = relation_of(record(row["a"]), record(row["b"])).same_cut
        if row["verdict"].endswith("cut differs"):
            assert alike is not True, row
        elif row["verdict"] in ("identical", "control tokens"):
            assert alike is not False, row
    assert sum(row["verdict"].endswith("cut differs") for row in listed) == 27


@collected
@pytest.mark.parametrize("key", KEYS)
def test_a_real_file_has_the_fingerprint_of_its_record(key: str) -> None:
    taken, written = read(key), read_toml(ROOT / "catalog" / "tokenizers" / f"{key}.toml")
    for name in HASHES:
        assert getattr(taken, name) == written.get(name), name
    assert "".join(taken.blocks) == written["blocks"]
    assert struct.pack(f"<{len(taken.sketch)}I", *taken.sketch) == base64.b64decode(written["sketch"])
    for name in ("named_ids", "highest_id", "vocab_type", "bos", "eos", "pad", "digits", "normalizer"):
        assert getattr(taken, name) == written.get(name), name
    assert taken.stop_ids == tuple(written.get("stop_ids", ()))


@collected
def test_every_file_against_every_record() -> None:
    pairs = [(a, b) for a in KEYS for b in KEYS if a != b and is_here(a)]
    assert pairs
    assert disagreements(pairs, lambda a, b: relation_of(read(a), record(b))) == []


@collected
def test_files_whose_sizes_or_ids_are_close() -> None:
    close = [
        (a, b)
        for a, b in combinations(filter(is_here, KEYS), 2)
        if frozenset((a, b)) in expected() or abs((record(a).highest_id or 0) - (record(b).highest_id or 0)) <= 128
    ]
    assert disagreements(close, lambda a, b: compare(read(a), read(b), None, None)) == []
    for a, b in close:
        row, measured = expected().get(frozenset((a, b))), compare(read(a), read(b), None, None)
        if row is not None and read(a).control_known and read(b).control_known:
            assert measured.same_ids == int(row["same_ids"]), row
