"""Hostile files in small numbers: every reader takes what was spoilt, or says what is wrong with it and what to do.

`make fuzz` does the same for hours, guided by coverage. What it found lies in `cases`, in a folder for each reader.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import Reader

CASES = sorted((Path(__file__).parent / "cases").glob("*/*"))


@pytest.fixture(scope="module")
def all_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    with pytest.MonkeyPatch.context() as patch, readers.readers(tmp_path_factory.mktemp("fuzz")) as found:
        patch.setenv("HOME", "/home-of-nobody")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield found


@given(st.integers(0, 1 << 64))
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_reader_falls_over_a_spoilt_file(all_readers: dict[str, Reader], number: int) -> None:
    chance = random.Random(number)
    reader = all_readers[chance.choice(sorted(all_readers))]
    spoilt = reader.mutate(chance.choice(reader.seeds), chance, reader.words)
    began = time.process_time()
    readers.passes(reader, spoilt)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_reader_fell_over_once_it_passes(case: Path, all_readers: dict[str, Reader]) -> None:
    readers.passes(all_readers[case.parent.name], case.read_bytes())


def test_the_seeds_are_files_that_readers_take_whole(all_readers: dict[str, Reader]) -> None:
    """A seed that is refused at its first byte begins nowhere; a few are refused for what they say."""
    refused = {name for name, one in all_readers.items() if all(readers.passes(one, seed) for seed in one.seeds)}
    assert refused == set()
