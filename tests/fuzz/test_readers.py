"""Hostile files in small numbers: every reader takes what was spoilt, or says what is wrong with it and what to do.

`make fuzz` does the same for hours, guided by coverage. What it found lies in `cases`, in a folder for each reader.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path

import pytest
import readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import Reader

from draftpick import catalog, devices, toml_file
from draftpick.errors import DraftpickError, InvalidFile
from draftpick.gate_file import read_policy
from draftpick.gating import evidence
from draftpick.models import bounded, safetensors, vocabulary_files
from draftpick.probing import prompts, trace
from draftpick.report import html, markdown, saved
from draftpick.report.blocks import Paragraph, Report, Section

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
    under_two_seconds(lambda: readers.passes(all_readers[case.parent.name], case.read_bytes()))


def test_the_seeds_are_files_that_readers_take_whole(all_readers: dict[str, Reader]) -> None:
    """A seed that is refused at its first byte begins nowhere; a few are refused for what they say."""
    refused = {name for name, one in all_readers.items() if all(readers.passes(one, seed) for seed in one.seeds)}
    assert refused == set()


# ---------------------------------------------------------------------- what is bounded as a whole


def test_a_trace_is_bounded_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = (readers.SEEDS / "probe.trace.jsonl").read_bytes()
    monkeypatch.setattr(trace, "MOST_BYTES", len(seed))
    path = tmp_path / "a.jsonl"
    path.write_bytes(seed)
    assert trace.read(path).rows
    path.write_bytes(seed + b'{"draftpick')
    assert trace.read(path).rows, "a torn line is not there"
    path.write_bytes(seed + seed.split(b"\n")[1] + b"\n")
    with pytest.raises(InvalidFile, match="more than"):
        trace.read(path)


def test_a_file_of_prompts_is_bounded_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MOST_BYTES", 40)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": "b"}\n')
    assert len(prompts.read(path)) == 2
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": "b"}\n' + b"\n" * 20)
    with pytest.raises(InvalidFile, match="more than"):
        prompts.read(path)


def test_the_tensors_of_all_files_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors, "_MAX_TENSORS", 5)
    for number in range(3):
        header = json.dumps(
            {f"{number}.{tensor}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for tensor in range(2)}
        ).encode()
        (tmp_path / f"{number}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        if number == 1:
            assert safetensors.read_folder(tmp_path) is not None
    with pytest.raises(InvalidFile, match="describe more than 5 tensors"):
        safetensors.read_folder(tmp_path)


@pytest.mark.parametrize("columns", ["marginal", "marginal_low", "conditional_high"])
def test_an_observation_has_a_rate_for_each_position(columns: str, tmp_path: Path) -> None:
    document = json.loads((readers.SEEDS / "observation.json").read_bytes())
    document["models"][0]["position_rates"][columns].pop()
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InvalidFile, match="not one entry for each k"):
        saved.read(tmp_path / "a.json")


@pytest.mark.parametrize(
    "build", ["{}", "{ build = 1 }", '{ build = 1, date = "x" }', "{ build = -1, date = 2025-01-01 }"]
)
def test_a_build_of_an_overlay_has_a_number_and_a_day(build: str, tmp_path: Path) -> None:
    text = (readers.ROOT / "catalog" / "engines" / "xllm.toml").read_text(encoding="utf-8")
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "xllm.toml").write_text(f"builds = [{build}]\n{text}", encoding="utf-8")
    with pytest.raises(InvalidFile, match="builds"):
        catalog.load(tmp_path)


def test_a_probe_of_the_first_day_of_all_is_of_no_age() -> None:
    assert evidence._age("0001-01-01T00:00:00+23:59", date(2026, 11, 30)) is None
    assert evidence._age("2026-11-29T23:59:59-12:00", date(2026, 11, 30)) == 0


@pytest.mark.parametrize(("opens", "closes", "levels"), [(b"[", b"]", 1), (b'{"a":', b"}", 1), (b'[{"a":', b"}]", 2)])
def test_json_is_no_deeper_than_its_bound(opens: bytes, closes: bytes, levels: int) -> None:
    """By a bound of our own: what the parser bears differs between versions of Python."""
    times = bounded.MAX_DEPTH // levels
    fits, deep = (b"[1," + opens * number + b"1" + closes * number + b"]" for number in (times - 1, times))
    bounded.parse_value(fits, "a")
    with pytest.raises(InvalidFile, match="nested too deeply"):
        bounded.parse_value(deep, "a")


# ---------------------------------------------------------------------- time


def under_two_seconds(call: Callable[[], object]) -> None:
    """By the clock of the process: what grows with the square of these sizes takes minutes."""
    began = time.process_time()
    with suppress(DraftpickError):
        call()
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "unit",
    [
        '"\\',
        '\\"',
        '\\"""',
        '"""\\',
        "'''\\'",
        "'",
        '"',
        '#"',
        "a.",
        "a . ",
        '"a".',
        "[a",
        "[[a]]\n",
        "\\",
        "=",
        "{a=",
        "a=1\n",
    ],
    ids=repr,
)
def test_toml_takes_time_that_grows_with_its_size(unit: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    for begun in ("", 'x = """', "x = '''", "x = "):
        path.write_text((begun + unit * (200_000 // len(unit)))[:200_000])
        under_two_seconds(partial(read_policy, path))
        under_two_seconds(partial(toml_file.Lines, path.read_text()))


def test_npu_smi_is_read_in_time_that_grows_with_its_length() -> None:
    under_two_seconds(lambda: devices.driver_in("npu-smi " * 30_000))


def test_names_of_any_length_are_written_in_time_that_grows_with_it() -> None:
    for unit in ("_", "`", ":a", "@", "a_", "<", "\u202e", "=", "\n", " ", "0", "a.", "www.", "[", "\\", "]("):
        name = "a" + unit * (100_000 // len(unit)) + "a"
        under_two_seconds(partial(markdown.text, name))
        under_two_seconds(partial(html.render, Report(name, [Section(name, [Paragraph(name)])], name)))


def test_a_template_is_searched_in_time_that_grows_with_its_length(tmp_path: Path) -> None:
    """Names of tokens may have thousands of lengths, and a template as many places where one may begin."""
    vocab = {"|||" + "A" * length + "|||": length for length in range(2_000)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": []}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "|" * 500_000}))
    under_two_seconds(lambda: vocabulary_files.read_folder(tmp_path))


def test_a_control_token_of_an_overlay_is_short(tmp_path: Path) -> None:
    (tmp_path / "tokenizers").mkdir()
    text = (readers.ROOT / "catalog" / "tokenizers" / "afm-bpe-128004.toml").read_text(encoding="utf-8")
    token = "<" + "unused1" * 20_000
    (tmp_path / "tokenizers" / "afm-bpe-128004.toml").write_text(f'{text}\n[control]\n7 = "{token}"\n')
    with pytest.raises(InvalidFile, match="control"):
        catalog.load(tmp_path)
