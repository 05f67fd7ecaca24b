"""The trace of a probe on disk: JSON Lines, a header and then one answer a line, appended and synced as it goes.

What was written stays: a last line that is torn (the machine went down, the disk was full) is dropped when reading.
A trace without an answer, as a run leaves that was killed at its start, is as good as none.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from draftpick.atomic import CannotWrite, is_at, lock
from draftpick.errors import InvalidFile, UsageError
from draftpick.models.bounded import open_regular, parse_json

if TYPE_CHECKING:
    from draftpick import replay

VERSION = 1
_BEGINNING = b'{"draftpick_trace":'
LONGEST_LINE = 256 << 20
MOST_BYTES = 1 << 30
"""Of all lines; in memory they are seven times that. Eighteen million tokens with one draft, at one temperature."""
_LEAST_LOG = -1e5
"""Written for the logarithm of a probability that is zero in floating point: JSON has no infinity."""
_MOST_ID = 1 << 31

_MUST_AGREE = (
    "target",
    "drafts",
    "prompts_digest",
    "temperatures",
    "top_k",
    "top_p",
    "seed",
    "max_new_tokens",
    "dtype",
    "attention",
    "thinking",
    "chat_template",
    "eos_ids",
)
"""Of a header: what may not differ between the parts of one trace."""


class DraftColumns(NamedTuple):
    """What one draft made of an answer: an entry per emitted token."""

    top: Sequence[int]
    """The draft's most probable id given the emitted text before."""
    top_prob: Sequence[float]
    """Its probability in the draft."""
    target_prob_of_top: Sequence[float] | None = None
    """Its probability in the target, after the target's processors; None for greedy text."""
    log_q: Mapping[str, Sequence[float]] = {}
    """Draft temperature → ln q of the emitted token, never clipped."""
    overlap: Mapping[str, Sequence[float]] = {}
    """Draft temperature → Σ min(p, q)."""


class Row(NamedTuple):
    """One answer of the target, with what every draft made of it."""

    prompt: str
    """The prompt's id."""
    digest: str
    """Hex SHA-256 of the prompt, and of its answer where that was given."""
    domain: str
    """Kind of text."""
    language: str
    """As the prompts name it."""
    temperature: float
    """0: greedy."""
    prompt_ids: Sequence[int]
    """Token ids of the prompt."""
    tokens: Sequence[int]
    """Token ids that the target emitted: all columns have an entry for each."""
    ended: str
    """stop or length."""
    log_p: Sequence[float] | None
    """ln p of each token: after the processors where sampled, of the plain softmax where greedy; None where a server
    does not tell it."""
    gap: Sequence[float] | None
    """How far the first choice's logit lay above the second's; None for text that was not generated here."""
    drafts: Mapping[str, DraftColumns]
    """By id of the draft."""


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
        return frozenset(self.header.get("eos_ids") or ends_of(self.rows))

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


def ends_of(rows: Iterable[Row]) -> frozenset[int]:
    """The ids at which answers ended: what a server's model takes for an end, as far as it was seen."""
    return frozenset(row.tokens[-1] for row in rows if row.ended == "stop" and row.tokens)


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
        log_p=np.asarray(row.log_p) if row.log_p is not None else None,
        prompt_ids=np.asarray(row.prompt_ids, np.int64),
        domain=row.domain,
        ended=row.ended,
        **numbers,
    )


# ---------------------------------------------------------------------- writing


class Writer:
    """Appends answers to a trace file; a context manager that leaves no file behind without an answer in it."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, keep: TraceFile | None = None) -> None:
        """Begin a trace, or go on behind what `keep` holds. Raises CannotWrite."""
        self.path = path
        self._kept = keep is not None
        self._header_end = -1
        try:
            self._refuse_answers()
            flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (0 if self._kept else os.O_CREAT)
            self._file: BinaryIO = open(os.open(path, flags, 0o666), "r+b", buffering=0)  # noqa: SIM115
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            raise self._cannot(error) from None
        try:
            # Two runs on one trace would write over each other (not held on Windows).
            if lock(self._file.fileno(), wait=False) is False or not is_at(self._file.fileno(), path):
                raise self._busy()
            if keep is not None:
                self._go_on(keep)
            else:
                self._begin(header)
        except BaseException:
            self._file.close()
            raise

    def _refuse_answers(self) -> None:
        """Nothing that is there is overwritten by a new trace: a name typed wrongly must not cost an old one."""
        if not self._kept and holds_answers(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def _begin(self, header: Mapping[str, Any]) -> None:
        try:
            self._refuse_answers()  # as another run may have written them by now
            self._file.truncate(0)
        except OSError as error:
            raise self._cannot(error) from None
        try:
            self._write({"draftpick_trace": VERSION, **header})
        except BaseException:
            self._remove()
            raise
        self._header_end = self._file.tell()

    def _go_on(self, keep: TraceFile) -> None:
        try:
            self._file.seek(keep.size)
            more = os.fstat(self._file.fileno()).st_size - keep.size  # a device would have no end
            if more < 0 or b"\n" in self._file.read(more):
                raise self._busy()  # it wrote between the reading and the lock
            self._file.seek(keep.size)
            self._file.truncate()
        except OSError as error:
            raise self._cannot(error) from None

    def _busy(self) -> CannotWrite:
        return CannotWrite(
            f"{self.path}: another run is writing it", "wait for that run, or name another file with --trace"
        )

    def _remove(self) -> None:
        """While the lock is held: afterwards another run may have begun in it."""
        with suppress(OSError):  # Windows removes no open file: the next run begins in what is left
            self.path.unlink()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # By what lies there: an interrupt may come between an answer's writing and any word about it.
        if os.fstat(self._file.fileno()).st_size == self._header_end:
            self._remove()  # nothing is lost, and the next try needs no other name
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
                self._file.seek(start)
                raise
        except OSError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: OSError | ValueError) -> CannotWrite:
        written = self._kept or self._header_end >= 0
        kept = "; the answers before are kept: go on with --resume" if written else ""
        reason = getattr(error, "strerror", None) or error
        return CannotWrite(f"{self.path}: {reason}", f"free some space, or write elsewhere with --trace{kept}")


def _plain(row: Row) -> dict[str, Any]:
    drafts = {name: _plain_columns(columns) for name, columns in row.drafts.items()}
    gap = _rounded(row.gap, 4) if row.gap is not None else None
    log_p = _rounded(row.log_p) if row.log_p is not None else None
    return {**row._asdict(), "log_p": log_p, "gap": gap, "drafts": drafts}


def _plain_columns(columns: DraftColumns) -> dict[str, Any]:
    return {
        "top": list(columns.top),
        "top_prob": _rounded(columns.top_prob),
        "target_prob_of_top": _rounded(columns.target_prob_of_top) if columns.target_prob_of_top is not None else None,
        "log_q": {key: _rounded(value) for key, value in columns.log_q.items()},
        "overlap": {key: _rounded(value) for key, value in columns.overlap.items()},
    }


def _rounded(values: Iterable[float], digits: int = 6) -> list[float]:
    # Infinite is also how far a first choice lies above forbidden ones.
    return [round(min(max(float(value), _LEAST_LOG), -_LEAST_LOG), digits) for value in values]


# ---------------------------------------------------------------------- reading


def holds_answers(path: Path) -> bool:
    """Whether a file holds what must not be lost: anything but the trace of a run that ended before its first answer.

    A run that is killed leaves a header, or a part of one, and perhaps a part of an answer.
    """
    if not os.path.lexists(path):
        return False
    try:
        with open_regular(path) as file:
            header = file.readline(LONGEST_LINE + 1)
            begun = header.startswith(_BEGINNING) or _BEGINNING.startswith(header)
            return not begun or bool(file.readline(LONGEST_LINE + 1).endswith(b"\n"))
    except InvalidFile:
        return True


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
                rows.append(_row(value, f"{path}:{number}", frozenset(one["id"] for one in header["drafts"])))
            size += len(line)
            if size > MOST_BYTES:
                raise InvalidFile(f"{path}: more than {MOST_BYTES >> 30} GiB", "probe fewer or shorter answers at once")
    if header is None:
        raise InvalidFile(f"{path}: no trace in it", "measure again, with another --trace")
    return TraceFile(path, header, rows, size)


def _header(value: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if value.get("draftpick_trace") != VERSION:
        raise InvalidFile(
            f"{path}:1: not a trace that this draftpick reads ({value.get('draftpick_trace', 'no version')!r:.40})",
            f"it reads version {VERSION}, as `draftpick probe` writes it",
        )
    drafts, heats, eos = value.get("drafts"), value.get("temperatures"), value.get("eos_ids", [])
    if not isinstance(drafts, list) or not all(isinstance(one, dict) and _is_text(one.get("id")) for one in drafts):
        raise InvalidFile(f"{path}:1: the header lacks the ids of its drafts", "measure again")
    if not _are_numbers(heats, 0, 100) or not _are_ids(eos):
        raise InvalidFile(f"{path}:1: the header's temperatures or eos_ids are no numbers", "measure again")
    return value


def _row(value: Mapping[str, Any], where: str, drafts: frozenset[str]) -> Row:
    try:
        columns = {name: DraftColumns(**facts) for name, facts in value["drafts"].items()}
        row = Row(**{**value, "drafts": columns})
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidFile(f"{where}: not an answer of a trace ({str(error)[:100]!r})", "measure again") from None
    for name, fine in _facts(row, drafts):
        if not fine:
            raise InvalidFile(f"{where}: {name:.100} is missing or not what a trace holds", "measure again")
    return row._replace(
        log_p=_with_zeros(row.log_p) if row.log_p is not None else None,
        drafts={name: _columns(facts) for name, facts in row.drafts.items()},
    )


def _columns(facts: DraftColumns) -> DraftColumns:
    return facts._replace(log_q={heat: _with_zeros(column) for heat, column in facts.log_q.items()})


def _with_zeros(logs: Sequence[float]) -> list[float]:
    return [-math.inf if value <= _LEAST_LOG else value for value in logs]


def _facts(row: Row, drafts: frozenset[str]) -> Iterable[tuple[str, bool]]:
    """What each part of an answer must be. The columns have an entry per token."""
    size = len(row.tokens) if isinstance(row.tokens, list) else -1
    for name in ("prompt", "digest", "domain", "language"):
        yield name, _is_text(getattr(row, name))
    yield "temperature", _are_numbers([row.temperature], 0, 100)
    yield "prompt_ids", _are_ids(row.prompt_ids)
    yield "tokens", _are_ids(row.tokens)
    yield "ended", row.ended in ("stop", "length")
    yield "log_p", row.log_p is None or _are_numbers(row.log_p, _LEAST_LOG, 1, size)
    yield "gap", row.gap is None or _are_numbers(row.gap, 0, -_LEAST_LOG, size)
    yield "one of its drafts", row.drafts.keys() == drafts
    for name, facts in row.drafts.items():
        yield f"{name}: top", _are_ids(facts.top, size)
        yield f"{name}: top_prob", _are_numbers(facts.top_prob, 0, 1.01, size)
        known = facts.target_prob_of_top
        yield f"{name}: target_prob_of_top", known is None or _are_numbers(known, 0, 1.01, size)
        for part, columns, low, high in (("log_q", facts.log_q, _LEAST_LOG, 1), ("overlap", facts.overlap, 0, 1.01)):
            yield f"{name}: {part}", isinstance(columns, dict)
            for heat, column in columns.items():
                yield f"{name}: {part} at {heat}", _is_number(heat) and _are_numbers(column, low, high, size)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _are_ids(values: object, size: int | None = None) -> bool:
    return (
        isinstance(values, list)
        and (size is None or len(values) == size)
        and all(type(value) is int and 0 <= value < _MOST_ID for value in values)
    )


def _are_numbers(values: object, low: float, high: float, size: int | None = None) -> bool:
    """Whether this is a list of finite numbers between two; NaN lies between none."""
    return (
        isinstance(values, list)
        and (size is None or len(values) == size)
        and all(type(value) in (int, float) and low <= value <= high for value in values)
    )


def check_same(found: TraceFile, header: Mapping[str, Any]) -> None:
    """Raise UsageError unless a probe with this header may go on in that trace."""
    for key in _MUST_AGREE:
        different = _difference(key, found.header.get(key), header.get(key))
        if different is not None:
            name, before, now = different
            raise UsageError(
                f"{found.path}: its {name} was {before!r:.120}, now it is {now!r:.120}",
                "resume with the options of the first run, delete that trace, or name another with --trace",
            )


def _difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any] | None:
    """The first part of two values that differs, by its name."""
    if isinstance(before, dict) and isinstance(now, dict):
        pairs = [(f"{name}.{key}", before.get(key), now.get(key)) for key in {**before, **now}]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(f"{name}[{place}]", *pair) for place, pair in enumerate(zip(before, now, strict=True))]
    else:
        return None if before == now else (name, before, now)
    return next((found for pair in pairs if (found := _difference(*pair)) is not None), None)
