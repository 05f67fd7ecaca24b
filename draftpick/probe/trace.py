"""The trace of a probe on disk: JSON Lines, a header and then one answer a line, appended and synced as it goes.

What was written stays: a last line that is torn (the machine went down, the disk was full) is dropped when reading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from draftpick.atomic import CannotWrite
from draftpick.errors import InvalidFile, UsageError
from draftpick.models.bounded import open_regular, parse_json

if TYPE_CHECKING:
    from draftpick import replay

VERSION = 1
LONGEST_LINE = 256 << 20
_LEAST_LOG = -1e5
"""Written for the logarithm of a probability that is zero in floating point: JSON has no infinity."""

_MUST_AGREE = ("target", "drafts", "temperatures", "top_k", "top_p", "seed", "max_new_tokens", "dtype", "thinking")
"""Of a header: what may not differ between the parts of one trace."""


class DraftColumns(NamedTuple):
    """What one draft made of an answer: an entry per emitted token."""

    top: Sequence[int]
    """The draft's most probable id given the emitted text before."""
    top_prob: Sequence[float]
    target_prob_of_top: Sequence[float] | None = None
    """Its probability in the target, after the target's processors; None for greedy text."""
    log_q: Mapping[str, Sequence[float]] = {}
    """Draft temperature → ln q of the emitted token, never clipped."""
    overlap: Mapping[str, Sequence[float]] = {}
    """Draft temperature → Σ min(p, q)."""


class Row(NamedTuple):
    """One answer of the target, with what every draft made of it."""

    prompt: str
    digest: str
    domain: str
    language: str
    temperature: float
    prompt_ids: Sequence[int]
    tokens: Sequence[int]
    ended: str
    """stop or length."""
    log_p: Sequence[float]
    """ln p of each token: after the processors where sampled, of the plain softmax where greedy."""
    gap: Sequence[float] | None
    """How far the first choice's logit lay above the second's; None for text that was not generated here."""
    drafts: Mapping[str, DraftColumns]


@dataclass(frozen=True)
class TraceFile:
    """What a trace file holds."""

    path: Path
    header: Mapping[str, Any]
    rows: Sequence[Row]
    size: int = field(repr=False, default=0)
    """Bytes up to the end of the last whole line."""

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        return frozenset(self.header.get("eos_ids") or ())

    @property
    def drafts(self) -> list[str]:
        return [draft["id"] for draft in self.header["drafts"]]

    @property
    def temperatures(self) -> list[float]:
        return list(self.header["temperatures"])

    def of(self, draft: str | None, temperature: float, *, first: int = 2) -> replay.Trace:
        """The answers at one temperature with one draft's columns, or with none, for the replay.

        Raises UsageError where no answer was given at it.
        """
        return as_trace(self.rows, draft, temperature, first=first, eos_ids=self.eos_ids)


def as_trace(
    rows: Iterable[Row], draft: str | None, temperature: float, *, first: int = 2, eos_ids: frozenset[int] = frozenset()
) -> replay.Trace:
    """Answers at one temperature with one draft's columns, for the replay. Raises UsageError where there are none."""
    from draftpick import replay

    answers = tuple(_answer(row, draft) for row in rows if row.temperature == temperature and row.tokens)
    if not answers:
        raise UsageError(f"the trace has no answer at temperature {temperature:g}", "measure at that temperature too")
    return replay.Trace(answers, first=first, eos_ids=eos_ids, processors={"temperature": temperature})


def _answer(row: Row, draft: str | None) -> replay.Answer:
    import numpy as np

    from draftpick import replay

    columns = row.drafts.get(draft) if draft is not None else None
    numbers: dict[str, Any] = {}
    if columns is not None:
        numbers = {"draft_top": np.asarray(columns.top, np.int64), "draft_top_prob": np.asarray(columns.top_prob)}
        if columns.target_prob_of_top is not None:
            numbers["target_prob_of_draft_top"] = np.asarray(columns.target_prob_of_top)
        for name in ("log_q", "overlap"):
            numbers[name] = {float(key): np.asarray(value) for key, value in getattr(columns, name).items()}
    return replay.Answer(
        row.prompt,
        np.asarray(row.tokens, np.int64),
        log_p=np.asarray(row.log_p),
        prompt_ids=np.asarray(row.prompt_ids, np.int64),
        domain=row.domain,
        ended=row.ended,
        **numbers,
    )


# ---------------------------------------------------------------------- writing


class Writer:
    """Appends answers to a trace file; a context manager."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, keep: TraceFile | None = None) -> None:
        """Begin a trace, or go on behind what `keep` holds. Raises CannotWrite."""
        self.path = path
        try:
            # Never O_TRUNC before the header is ready: a name typed wrongly must not cost an old trace.
            self._file: BinaryIO = open(path, "r+b" if keep is not None else "wb", buffering=0)  # noqa: SIM115
            if keep is not None:
                self._file.seek(keep.size)
                self._file.truncate()
        except OSError as error:
            raise self._cannot(error) from None
        if keep is None:
            self._write({"draftpick_trace": VERSION, **header})

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def append(self, rows: Iterable[Row]) -> None:
        """Write answers and wait until they are on the disk. Raises CannotWrite; what was written before stays."""
        for row in rows:
            self._write(_plain(row))

    def _write(self, value: Mapping[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
        whole = memoryview(line.encode("utf-8", "surrogatepass"))
        try:
            start = self._file.tell()
            try:
                while whole:
                    whole = whole[self._file.write(whole) or 0 :]
                os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(start)
                raise
        except OSError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: OSError) -> CannotWrite:
        kept = "; the answers before are kept: go on with --resume" if os.path.exists(self.path) else ""
        return CannotWrite(
            f"{self.path}: {error.strerror or error}", f"free some space, or write elsewhere with --trace{kept}"
        )


def _plain(row: Row) -> dict[str, Any]:
    drafts = {name: _plain_columns(columns) for name, columns in row.drafts.items()}
    gap = _rounded(row.gap, 4) if row.gap is not None else None
    return {**row._asdict(), "log_p": _rounded(row.log_p), "gap": gap, "drafts": drafts}


def _plain_columns(columns: DraftColumns) -> dict[str, Any]:
    return {
        "top": list(columns.top),
        "top_prob": _rounded(columns.top_prob),
        "target_prob_of_top": _rounded(columns.target_prob_of_top) if columns.target_prob_of_top is not None else None,
        "log_q": {key: _rounded(value) for key, value in columns.log_q.items()},
        "overlap": {key: _rounded(value) for key, value in columns.overlap.items()},
    }


def _rounded(values: Iterable[float], digits: int = 6) -> list[float]:
    return [round(max(float(value), _LEAST_LOG), digits) for value in values]


# ---------------------------------------------------------------------- reading


def read(path: Path) -> TraceFile:
    """The trace in a file, less a torn last line. Raises InvalidFile for what is no trace of a known version."""
    rows: list[Row] = []
    header: Mapping[str, Any] | None = None
    size = number = 0
    with open_regular(path) as file:
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) > LONGEST_LINE:
                    raise InvalidFile(f"{path}:{number}: a line of over {LONGEST_LINE >> 20} MiB", "measure again")
                break
            value = parse_json(line, f"{path}:{number}")
            if header is None:
                header = _header(value, path)
            else:
                rows.append(_row(value, f"{path}:{number}"))
            size += len(line)
    if header is None:
        raise InvalidFile(f"{path}: no trace in it", "measure again, with another --trace")
    return TraceFile(path, header, rows, size)


def _header(value: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if value.get("draftpick_trace") != VERSION:
        raise InvalidFile(
            f"{path}: not a trace that this draftpick reads ({value.get('draftpick_trace', 'no version')!r:.40})",
            f"it reads version {VERSION}, as `draftpick probe` writes it",
        )
    drafts, heats = value.get("drafts"), value.get("temperatures")
    whole = isinstance(drafts, list) and all(isinstance(one, dict) and isinstance(one.get("id"), str) for one in drafts)
    if not whole or not isinstance(heats, list) or not all(isinstance(heat, (int, float)) for heat in heats):
        raise InvalidFile(f"{path}: the header lacks drafts or temperatures", "measure again")
    return value


def _row(value: Mapping[str, Any], where: str) -> Row:
    try:
        drafts = {name: DraftColumns(**columns) for name, columns in value["drafts"].items()}
        row = Row(**{**value, "drafts": drafts})
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidFile(f"{where}: not an answer of a trace ({error})", "measure again") from None
    for name, column in _columns(row):
        if not isinstance(column, list) or len(column) != len(row.tokens):
            raise InvalidFile(f"{where}: {name} has not one entry per token", "measure again")
        if not all(isinstance(entry, (int, float)) and not isinstance(entry, bool) for entry in column):
            raise InvalidFile(f"{where}: {name} holds what is no number", "measure again")
    return row


def _columns(row: Row) -> Iterable[tuple[str, Any]]:
    yield from (("tokens", row.tokens), ("log_p", row.log_p))
    for name, columns in row.drafts.items():
        yield from ((f"{name}: top", columns.top), (f"{name}: top_prob", columns.top_prob))
        for temperature, column in (*columns.log_q.items(), *columns.overlap.items()):
            yield f"{name} at {temperature}", column


def check_same(found: TraceFile, header: Mapping[str, Any]) -> None:
    """Raise UsageError unless a probe with this header may go on in that trace."""
    for key in _MUST_AGREE:
        before, now = found.header.get(key), header.get(key)
        if before != now:
            raise UsageError(
                f"{found.path}: its {key} was {before!r:.120}, now it is {now!r:.120}",
                "resume with the options of the first run, or begin another trace",
            )
