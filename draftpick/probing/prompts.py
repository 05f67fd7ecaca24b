"""What the target is asked: the prompts that come with draftpick, those of a file, or text that is there already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

from draftpick.catalog import packed_folder
from draftpick.errors import InvalidFile
from draftpick.models.bounded import open_regular, parse_json
from draftpick.pair import WORKLOADS

_T = TypeVar("_T")

MOST_PROMPTS = 100_000
LONGEST_LINE = 4 << 20
"""Bytes of one line: a prompt of a million tokens."""
MOST_BYTES = 1 << 30
"""Of all lines: a hundred thousand prompts of ten kilobytes."""


class Prompt(NamedTuple):
    """One request, and the answer to it where there is one already."""

    id: str
    text: str
    domain: str = ""
    language: str = ""
    response: str | None = None

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the request, and of the answer if there is one."""
        whole = self.text if self.response is None else f"{self.text}\0{self.response}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def digest(prompts: Iterable[Prompt]) -> str:
    """Hex SHA-256 of a set of prompts in its order."""
    return hashlib.sha256("\n".join(prompt.digest for prompt in prompts).encode()).hexdigest()


def different(prompts: Sequence[Prompt], notes: list[str]) -> list[Prompt]:
    """Each text once; `notes` tells how many were left out."""
    found = list({prompt.digest: prompt for prompt in reversed(prompts)}.values())[::-1]
    if len(found) < len(prompts):
        repeated = len(prompts) - len(found)
        notes.append(f"repeated prompts were left out, as the same text tells nothing new: {repeated}")
    return found


def in_parts(rows: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Rows, so many at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def embedded(workload: str | None = None) -> list[Prompt]:
    """The prompts that come with draftpick, of one workload or of all by turns.

    Any beginning of them is balanced by workload and language."""
    folder = packed_folder() / "prompts"
    wanted = WORKLOADS if workload is None else (workload,)
    groups = [read(folder / f"{domain}.jsonl") for domain in wanted]
    # Each file begins in English and changes with every line: every other one begins a line later.
    return balanced([[*group[place % 2 :], *group[: place % 2]] for place, group in enumerate(groups)])


def balanced(groups: Sequence[Sequence[Prompt]]) -> list[Prompt]:
    """The groups' prompts by turns."""
    return [prompt for row in zip_longest(*groups) for prompt in row if prompt is not None]


def read(path: Path, *, answered: bool = False) -> list[Prompt]:
    """The prompts of a JSON Lines file: `prompt`, and optionally `id`, `domain`, `language`.

    `answered`: each line has a `response` too. Raises InvalidFile, naming the line, for what is no such file.
    """
    found: list[Prompt] = []
    seen: set[str] = set()
    for number, line in _lines(path):
        prompt = _prompt(path, number, line, answered)
        if prompt.id in seen:
            raise InvalidFile(
                f"{path}:{number}: the id {prompt.id!r:.60} was used before", "give every prompt its own id"
            )
        seen.add(prompt.id)
        found.append(prompt)
        if len(found) > MOST_PROMPTS:
            raise InvalidFile(f"{path}: more than {MOST_PROMPTS:,} prompts", "take a sample of them")
    if not found:
        raise InvalidFile(f"{path}: no prompt in it", 'write one JSON object a line: {"prompt": "…"}')
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    size = 0
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            size += len(line)
            if len(line) > LONGEST_LINE:
                raise InvalidFile(f"{path}:{number}: a line of over {LONGEST_LINE >> 20} MiB", "shorten it")
            if size > MOST_BYTES:
                raise InvalidFile(f"{path}: more than {MOST_BYTES >> 30} GiB", "take a sample of them")
            if line.strip():
                yield number, line


def _is_torn(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, which no tokenizer takes."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _prompt(path: Path, number: int, line: bytes, answered: bool) -> Prompt:
    where = f"{path}:{number}"
    row = parse_json(line, where)
    wanted = ("prompt", "response") if answered else ("prompt",)
    for key in (*wanted, "id", "domain", "language"):
        value = row.get(key)
        if (key in wanted or value is not None) and not isinstance(value, str):
            raise InvalidFile(f"{where}: {key} is {value!r:.60}", f'{key} is a text: {{"{key}": "…"}}')
    for key in wanted:
        if not row[key].strip():
            raise InvalidFile(f"{where}: {key} is empty", "leave the line out, or fill it")
    for key in (*wanted, "id", "domain", "language"):
        if _is_torn(row.get(key) or ""):
            raise InvalidFile(f"{where}: {key} holds half of a character", "write the whole pair of \\u escapes")
    return Prompt(
        row.get("id") or f"{path.stem}-{number}",
        row["prompt"],
        row.get("domain") or "",
        row.get("language") or "",
        row["response"] if answered else None,
    )
