"""Prompts: those that come with draftpick are balanced wherever one stops, and a bad line of a file is named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.errors import InvalidFile
from draftpick.pair import WORKLOADS
from draftpick.probing.prompts import LONGEST_LINE, Prompt, balanced, digest, embedded, read

LAW = settings(deadline=None, derandomize=True, max_examples=60)


# ---------------------------------------------------------------------- those that come with draftpick


def test_twenty_prompts_of_each_workload_come_with_draftpick() -> None:
    found = embedded()
    assert Counter(prompt.domain for prompt in found) == dict.fromkeys(WORKLOADS, 20)
    assert len({prompt.id for prompt in found}) == len({prompt.digest for prompt in found}) == 120
    assert all(prompt.text.strip() and prompt.language and prompt.response is None for prompt in found)


@pytest.mark.parametrize("size", range(12, 121, 12))
def test_any_twelve_more_are_balanced(size: int) -> None:
    some = embedded()[:size]
    assert set(Counter(prompt.domain for prompt in some).values()) == {size // 6}
    languages = Counter(prompt.language for prompt in some)
    assert len(languages) == 2
    assert max(languages.values()) - min(languages.values()) == 0


@pytest.mark.parametrize("workload", WORKLOADS)
def test_one_workload_alternates_its_languages(workload: str) -> None:
    found = embedded(workload)
    assert {prompt.domain for prompt in found} == {workload}
    assert len({prompt.language for prompt in found[::2]}) == len({prompt.language for prompt in found[1::2]}) == 1


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=5))
@LAW
def test_groups_take_turns(sizes: list[list[int]]) -> None:
    groups = [[Prompt(f"{g}-{n}", "x") for n in range(len(rows))] for g, rows in enumerate(sizes)]
    found = balanced(groups)
    assert Counter(found) == Counter(prompt for group in groups for prompt in group)
    for group in groups:
        assert [prompt for prompt in found if prompt in group] == group
    rounds = [int(prompt.id.partition("-")[2]) for prompt in found]
    assert rounds == sorted(rounds)


# ---------------------------------------------------------------------- files


def written(folder: Path, *rows: object) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"prompt": "Hi"}, Prompt("mine-1", "Hi")),
        ({"prompt": " Hi\n"}, Prompt("mine-1", " Hi\n")),
        ({"prompt": "你好", "id": "x", "domain": "chat", "language": "zh"}, Prompt("x", "你好", "chat", "zh")),
        ({"prompt": "Hi", "id": None, "domain": None, "language": ""}, Prompt("mine-1", "Hi")),
        ({"prompt": "Hi", "response": "Ho"}, Prompt("mine-1", "Hi")),
        ({"prompt": "Hi", "other": [1]}, Prompt("mine-1", "Hi")),
    ],
)
def test_a_line_is_a_prompt(row: object, found: Prompt, tmp_path: Path) -> None:
    assert read(written(tmp_path, row)) == [found]


def test_answers_are_read_where_they_are_wanted(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "Hi", "response": "Ho"})
    assert read(path, answered=True) == [Prompt("mine-1", "Hi", response="Ho")]


def test_empty_lines_and_a_byte_order_mark_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n\n  \n{"prompt": "b"}')
    assert [prompt.id for prompt in read(path)] == ["mine-1", "mine-4"]


GOOD = b'{"prompt": "Hi"}\n'


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        (b"", None, "no prompt in it"),
        (b"\n \n", None, "no prompt in it"),
        (GOOD + b"Hello\n", 2, "is not valid JSON"),
        (GOOD + b'{"prompt": "Hi"', 2, "is not valid JSON"),
        (GOOD + b'["Hi"]\n', 2, "holds a list, not a JSON object"),
        (GOOD + b'"Hi"\n', 2, "holds a str, not a JSON object"),
        (GOOD + b"{}\n", 2, "prompt is None"),
        (GOOD + b'{"text": "Hi"}\n', 2, "prompt is None"),
        (GOOD + b'{"prompt": 5}\n', 2, "prompt is 5"),
        (GOOD + b'{"prompt": ["Hi"]}\n', 2, "prompt is ['Hi']"),
        (GOOD + b'{"prompt": " \\n"}\n', 2, "prompt is empty"),
        (GOOD + b'{"prompt": "Hi", "id": 7}\n', 2, "id is 7"),
        (GOOD + b'{"prompt": "Hi", "domain": {}}\n', 2, "domain is {}"),
        (b'{"prompt": "Hi", "id": "a"}\n' * 2, 2, "the id 'a' was used before"),
        (b'{"prompt": "Hi", "id": "mine-2"}\n' + GOOD, 2, "the id 'mine-2' was used before"),
        (GOOD + b'{"prompt": "\xff\xfe"}\n', 2, "is not valid JSON"),
        (GOOD + b'{"prompt": "\\ud83d"}\n', 2, "prompt holds half of a character"),
        (GOOD + b'{"prompt": "Hi", "id": "\\udc00"}\n', 2, "id holds half of a character"),
        (GOOD + b'{"prompt": ' + b"[" * 100_000 + b"\n", 2, "mine.jsonl:2"),
        (GOOD + b'{"prompt": ' + b"9" * 1000 + b"}\n", 2, "a number of 1,000 digits"),
        (GOOD + b'{"prompt": "' + b"x" * (5 << 20) + b'"}\n', 2, "a line of over 4 MiB"),
        (b"\0" * 100, 1, "is not valid JSON"),
    ],
    ids=[
        "empty", "blank", "no JSON", "cut", "list", "text", "no key", "other key", "number", "list of texts",
        "blank prompt", "id", "domain", "twice", "own id taken", "no UTF-8", "half", "half id", "deep", "digits",
        "5 MB", "zeros",
    ],
)  # fmt: skip
def test_a_bad_line_is_named(content: bytes, line: int | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidFile) as caught:
        read(path)
    error = caught.value
    assert error.exit_code == 2
    assert f"{path}:{line}" in error.message if line else str(path) in error.message
    assert said in error.message
    assert error.hint
    assert len(error.message) < 500


@pytest.mark.parametrize("response", [None, 5, "", "  "], ids=repr)
def test_an_answer_that_is_wanted_must_be_there(response: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"mine.jsonl:1: response is"):
        read(written(tmp_path, {"prompt": "Hi", "response": response}), answered=True)


@pytest.mark.parametrize("name", ["gone.jsonl", "."])
def test_what_is_no_file_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"cannot be read|not a regular file"):
        read(tmp_path / name)


def test_the_longest_line_is_read(tmp_path: Path) -> None:
    around = len(b'{"prompt": ""}\n')
    path = written(tmp_path, {"prompt": "x" * (LONGEST_LINE - around)})
    assert len(read(path)[0].text) == LONGEST_LINE - around


# ---------------------------------------------------------------------- digests


TEXT = st.text(max_size=8)
PROMPTS = st.builds(Prompt, id=TEXT, text=TEXT, domain=TEXT, language=TEXT, response=st.none() | TEXT)


@given(PROMPTS, PROMPTS)
@LAW
def test_a_digest_tells_what_is_asked_and_answered(one: Prompt, other: Prompt) -> None:
    assert (one.digest == other.digest) == ((one.text, one.response) == (other.text, other.response))


@given(st.lists(PROMPTS, max_size=4), st.lists(PROMPTS, max_size=4))
@LAW
def test_a_digest_of_a_set_tells_its_order(ones: list[Prompt], others: list[Prompt]) -> None:
    same = [prompt.digest for prompt in ones] == [prompt.digest for prompt in others]
    assert (digest(ones) == digest(others)) == same
