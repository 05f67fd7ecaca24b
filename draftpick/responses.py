"""A log of responses, for what vLLM says of its speculation in each: the requests that counters do not keep apart.

Started with `--per-request-spec-decode-metrics summary` or `detailed`, vLLM (0.32.0, `vllm/v1/metrics/stats.py` and
`vllm/entrypoints/generate/base/protocol.py`; since PR 48915 of 2026) writes `metrics.speculative_decoding` into a
response with one answer, and into the last chunk of a stream that was asked for its usage. Names may still change.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftpick.errors import InvalidFile, NotObservable, UsageError
from draftpick.models.bounded import clean, open_regular, unreadable
from draftpick.speedup import MOST_TOKENS

OPTION = "--per-request-spec-decode-metrics summary"
LONGEST_LINE = 8 << 20
"""A response of a hundred thousand tokens with its steps is one tenth of that; logprobs take more."""
MOST_LINES = 1_000_000
MOST_BYTES = 2 << 30
MOST_REQUESTS = 100_000
"""Intervals over as many have long become narrow."""
MOST_COUNTS = 1_000_000
"""Of all histograms: a hundred thousand requests with num_spec_tokens = 9."""
UNNAMED = "the model"
_WRAPPERS = ("response", "body", "data")
"""What loggers keep a body under, one within another too: OpenAI's batches have `response.body`."""
_DEEPEST = 4
_FRAMES = (":", "event:", "id:", "retry:")
"""What a stream of server-sent events has beside its data."""
_LONGEST_ID = 300
_MOST = 1 << 32
"""Of anything in one request; sums of a whole log stay exact as floats."""
_ROUNDED = 0.006
"""So far may a mean be off that a logger wrote with two digits."""
_HINT = "the line was changed, or written by another version: leave it out, or save responses as the server sent them"


class Request(NamedTuple):
    """The steps of one request."""

    model: str
    histogram: tuple[int, ...]
    """Those that accept exactly 0, 1, … num_spec_tokens tokens."""
    draft_tokens: int
    tried: tuple[int, ...] | None
    """Those that accept all before position 1, 2, … and drafted that one; None where lengths vary untold."""


class Log(NamedTuple):
    """What a file of responses holds."""

    source: str
    requests: tuple[Request, ...]
    without: int
    """Responses that say nothing of speculation."""
    repeated: int
    """Further figures under the id of a request that has some: the last ones count."""
    other: int
    """Lines without a response."""
    torn: bool
    """The last line was cut and is left out."""


def read(path: Path) -> Log:
    """The requests of a log: JSON Lines, or a stream as it was sent.

    Raises UsageError where there is no file, InvalidFile naming the line, NotObservable where no response says
    anything of speculation.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file", "save responses there, a JSON object a line")
    requests: dict[object, Request | None] = {}
    repeated = other = counts = 0
    torn = False
    for number, line in _lines(path):
        where = f"{path}:{number}"
        text = _sent(_decoded(line, where))
        if not text:
            continue
        try:
            value = _parsed(text)
        except ValueError as error:
            if line.endswith(b"\n"):
                raise InvalidFile(f"{where}: no JSON: {error}"[:300], "one response a line, as JSON") from None
            torn = True
            break
        bodies = list(_bodies(value))
        other += not bodies
        for place, body in enumerate(bodies):
            name, request = _told(body, where)
            key = (number, place) if name is None else name
            repeated += request is not None and requests.get(key) is not None
            requests[key] = request or requests.get(key)
            counts += len(request.histogram) if request is not None else 0
        if len(requests) > MOST_REQUESTS or counts > MOST_COUNTS:
            raise InvalidFile(
                f"{path}: more than {MOST_REQUESTS:,} requests, or {MOST_COUNTS:,} counts in their histograms",
                "take a sample of them",
            )
    return _checked(path, requests, repeated, other, torn)


def _checked(path: Path, requests: Mapping[object, Request | None], repeated: int, other: int, torn: bool) -> Log:
    if not requests:
        raise InvalidFile(
            f"{path}: no response in it",
            "one a line, as the server sent it (an object with choices), or under response, body or data",
        )
    found = tuple(one for one in requests.values() if one is not None)
    if not found:
        raise NotObservable(
            f"{path}: none of {len(requests):,} responses says anything of speculation",
            f"vLLM does when started with {OPTION}, in responses with one answer; in streams, if the request has "
            "stream_options.include_usage",
        )
    return Log(str(path), found, len(requests) - len(found), repeated, other, torn)


# ---------------------------------------------------------------------- lines


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    size = 0
    with open_regular(path) as file:
        for number, line in enumerate(_raw(path, file), start=1):
            size += len(line)
            if len(line) > LONGEST_LINE:
                raise InvalidFile(f"{path}:{number}: a line of over {LONGEST_LINE >> 20} MiB", "leave it out")
            if number > MOST_LINES or size > MOST_BYTES:
                raise InvalidFile(
                    f"{path}: more than {MOST_LINES:,} lines or {MOST_BYTES >> 30} GiB", "take a sample of them"
                )
            yield number, line


def _raw(path: Path, file: Any) -> Iterator[bytes]:
    try:
        yield from iter(lambda: file.readline(LONGEST_LINE + 1), b"")
    except OSError as error:
        raise unreadable(path, error) from error


def _decoded(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not line.endswith(b"\n"):
            return line.decode("utf-8", "replace")  # cut within a letter: no JSON either
        raise InvalidFile(f"{where}: byte {error.start + 1} is no UTF-8", "one response a line, as JSON") from None


def _sent(line: str) -> str:
    """The data of a line; empty for what frames it."""
    text = line.strip()
    if text.startswith(_FRAMES):
        return ""
    if text.startswith("data:"):
        text = text.removeprefix("data:").lstrip()
    return "" if text == "[DONE]" else text


def _parsed(text: str) -> dict[str, Any]:
    """The JSON object in a text. Raises ValueError for anything else."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}, not an object")
    return value


def _bodies(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The responses in what was logged: itself, under a known key, or in a text there, which may be a whole stream."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        for text in [value] if value.lstrip().startswith("{") else map(_sent, value.split("\n")):
            try:
                yield from _bodies(_parsed(text), depth + 1)
            except ValueError:
                continue
    elif isinstance(value, dict) and isinstance(value.get("choices"), list):
        yield value
    elif isinstance(value, dict):
        for key in _WRAPPERS:
            yield from _bodies(value.get(key), depth + 1)


# ---------------------------------------------------------------------- figures


def _told(body: Mapping[str, Any], where: str) -> tuple[str | None, Request | None]:
    """The id of a response and its figures, both where it has some. Raises InvalidFile."""
    try:
        name = body.get("id")
        if name is not None and not (isinstance(name, str) and len(name) <= _LONGEST_ID):
            raise ValueError(f"id is {_shown(name)}, no text of up to {_LONGEST_ID} characters")
        metrics = body.get("metrics")
        found = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
        if found is None:
            return name or None, None
        if not isinstance(found, dict):
            raise ValueError(f"metrics.speculative_decoding is {_shown(found)}, no object")
        return name or None, _request(clean(body.get("model")) or UNNAMED, found)
    except ValueError as error:
        raise InvalidFile(f"{where}: {error}", _HINT) from None


def _request(model: str, found: Mapping[str, Any]) -> Request:
    """Figures that agree with each other. Raises ValueError."""
    k = _count("num_spec_tokens", found.get("num_spec_tokens"))
    if not 1 <= k <= MOST_TOKENS:
        raise ValueError(f"num_spec_tokens is {k:,}, not 1 to {MOST_TOKENS}")
    histogram = _counts(found, "acceptance_histogram", k + 1)
    drafted = _count("num_draft_tokens", found.get("num_draft_tokens"))
    steps, accepted = sum(histogram), sum(place * count for place, count in enumerate(histogram))
    for name, value in (("num_spec_steps", steps), ("num_accepted_draft_tokens", accepted)):
        if found.get(name) is not None and _count(name, found[name]) != value:
            raise ValueError(f"{name} is {found[name]:,}, and acceptance_histogram comes to {value:,}")
    if not accepted <= drafted <= k * steps:
        raise ValueError(f"{drafted:,} tokens drafted, {accepted:,} accepted, in {steps:,} steps of up to {k}")
    for name, mean in (
        ("mean_acceptance_length", 1 + accepted / steps if steps else 1.0),
        ("draft_acceptance_rate", accepted / drafted if drafted else 0.0),
    ):
        given = found.get(name)
        if given is not None and not (type(given) in (int, float) and mean - _ROUNDED < given < mean + _ROUNDED):
            raise ValueError(f"{name} is {_shown(given)}, and the counts beside it come to {mean:.4f}")
    return Request(model, histogram, drafted, _tried(found, histogram, drafted))


def _tried(found: Mapping[str, Any], histogram: Sequence[int], drafted: int) -> tuple[int, ...] | None:
    """Steps that drafted a position and accepted all before it, from single steps where they are told."""
    steps, k = sum(histogram), len(histogram) - 1
    if found.get("per_step_accepted") is None and found.get("per_step_drafted") is None:
        whole = drafted == k * steps
        return tuple(sum(histogram[place:]) for place in range(k)) if whole else None
    took, drew = (_counts(found, name, steps) for name in ("per_step_accepted", "per_step_drafted"))
    by_number = Counter(took)
    if sum(drew) != drafted or any(by_number[place] != count for place, count in enumerate(histogram)):
        raise ValueError("per_step_accepted and per_step_drafted do not come to the sums beside them")
    pairs = Counter(zip(took, drew, strict=True))
    if any(not few <= many <= k for few, many in pairs):
        raise ValueError(f"a step accepts more than it drafts, or drafts more than {k}")
    return tuple(sum(count for (few, many), count in pairs.items() if few >= place < many) for place in range(k))


def _counts(found: Mapping[str, Any], name: str, length: int) -> tuple[int, ...]:
    values = found.get(name)
    if not isinstance(values, list) or len(values) != length:
        there = f"has {len(values):,} numbers" if isinstance(values, list) else f"is {_shown(values)}"
        raise ValueError(f"{name} {there}, not {length:,}")
    return tuple(_count(name, value) for value in values)


def _count(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError(f"{name} is {_shown(value)}, no count" if value is not None else f"{name} is missing")
    return value


def _shown(value: object) -> str:
    """A value as an error may show it: what nests may nest too deep to be written."""
    return f"a {type(value).__name__}" if isinstance(value, (list, dict)) else f"{value!r:.40}"
