"""What a model behind an API is asked, whatever the engine, and what an answer may hold.

What are the ids of this prompt; what does the model write; what does it make of text that is there. Every answer is
looked through before it is believed: a server, or what stands before it, may say anything. A fourth is how long its
steps take: it writes while somebody watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from draftpick.probing.client import Client, Refused
from draftpick.probing.device import CannotProbe
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt

_T = TypeVar("_T")

SECONDS = 60.0
SECONDS_PER_TOKEN = 1.0
"""A server that is slower than this is given up: its queue would take the day."""
MOST_ID = 1 << 31
_LEAST_LOG = -1e5
_ROUNDING = 1e-3
"""A probability of one may come out as a logarithm a little above zero."""


class BadAnswer(CannotProbe):
    """A server answered, but not what was asked (exit code 3)."""


class Text(NamedTuple):
    """An answer that a served model wrote: an entry per token."""

    tokens: list[int]
    log_p: list[float]
    """ln of each token's probability, as the server gives it."""
    gap: list[float] | None
    """How far the first choice lay above the second; None where it does not give two."""
    ended: str
    """stop or length."""


class Reading(NamedTuple):
    """What a served model makes of an answer: an entry per token."""

    top: list[int]
    top_log_prob: list[float]
    log_prob: list[float]
    """ln of the emitted token's probability, of the plain softmax."""
    spelled: list[str]
    """The emitted tokens as text; each "" where the server does not say."""
    before: Sequence[str] = ()
    """The prompt's tokens behind its first as text; empty where the server does not say."""


class About(NamedTuple):
    """Which model a server has."""

    name: str
    """What requests call it."""
    root: str
    """What it was loaded from, where that is told."""
    engine: str
    """Key of the engine."""
    version: str | None
    max_length: int | None
    """Tokens of prompt and answer together."""

    @property
    def software(self) -> str:
        """The engine with its version."""
        return f"{self.engine} {self.version}" if self.version else self.engine

    @property
    def identity(self) -> dict[str, Any]:
        """What tells the model from others, as far as a server tells it; not the address, which may change."""
        return {"served": self.name, "root": self.root, "engine": self.engine, "version": self.version}


class Server(Protocol):
    """A model behind an address."""

    @property
    def about(self) -> About:
        """Which model it has."""
        ...

    @property
    def client(self) -> Client:
        """Who asks it."""
        ...

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """The ids of a prompt, and whether the model's chat template was applied."""
        ...

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """Let it answer a prompt with at most so many tokens."""
        ...

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        """Let it read an answer to a prompt. `ended`: its last token is an end, not what a limit cut off."""
        ...

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """Let it write exactly so many tokens: when each part of them came (time.perf_counter()), and how many."""
        ...


def patience(tokens: int) -> float:
    """Seconds that a request over so many tokens may take."""
    return SECONDS + SECONDS_PER_TOKEN * tokens


# ---------------------------------------------------------------------- what an answer may hold


class Lacks(Exception):
    """A part of an answer that some servers, or some settings of them, do not give."""


def believed(client: Client, read: Callable[[], _T]) -> _T:
    """What was read of an answer. Raises BadAnswer where it is none of the kind."""
    try:
        return read()
    except Lacks as missing:
        raise BadAnswer(f"{client.address} gives no {missing.args[0]}", missing.args[1]) from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        said = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BadAnswer(
            f"{client.address} answers otherwise than its engine does: {said[:200]}",
            "name the engine's own address, not that of something that rewrites its answers",
        ) from None


def growing(
    client: Client, events: Iterable[tuple[float, dict[str, Any]]], so_far: Callable[[Mapping[str, Any]], int]
) -> Iterator[tuple[float, int]]:
    """New tokens of each part, where parts tell how many there are by then."""
    before = 0
    for at, event in events:
        now = believed(client, partial(so_far, event))
        if now > before:
            yield at, now - before
        before = now


def as_ids(values: Any) -> list[int]:
    """Values as token ids. Raises ValueError where they are none."""
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < MOST_ID for value in values):
        raise ValueError("what should be token ids are none")
    return values


def as_logs(values: Any, size: int) -> list[float]:
    """Values as so many log-probabilities. Raises ValueError where they are not."""
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"not one log-probability for each of {size} tokens")
    return [as_log(value) for value in values]


def as_log(value: Any) -> float:
    """A value as a log-probability, no lower than a trace holds. Raises ValueError where it is none."""
    if type(value) not in (int, float) or not value <= _ROUNDING:  # NaN is neither
        raise ValueError(f"{value!r:.40} is no log-probability")
    return min(max(float(value), _LEAST_LOG), 0.0)


def add(found: Reading, top: int, top_log_prob: float, log_prob: float, spelled: Any) -> None:
    """Put the next position into a reading."""
    found.top.extend(as_ids([top]))
    found.top_log_prob.append(top_log_prob)
    found.log_prob.append(log_prob)
    found.spelled.append(spelling(spelled))


def spelling(text: Any) -> str:
    """A token's text; "" where the server does not say."""
    return text if isinstance(text, str) else ""


def as_ended(reason: Any) -> str:
    """How an answer ended. Raises ValueError where it did in another way than by itself or by its limit."""
    if reason not in ("stop", "length"):
        raise ValueError(f"the answer ended by {reason!r:.40}")
    return str(reason)


# ---------------------------------------------------------------------- prompts


def tokenized(client: Client, about: About, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
    """The server's own ids for a prompt: with its chat template, or as plain text where it has none."""
    asked: dict[str, Any] = {
        "model": about.name,
        "messages": [{"role": "user", "content": prompt.text}],
        "add_generation_prompt": True,
    }
    if thinking is not None:
        asked["chat_template_kwargs"] = {"enable_thinking": thinking}
    try:
        answer = client.ask("/tokenize", asked)
        return believed(client, lambda: as_ids(answer["tokens"])), True
    except Refused as error:
        if error.code not in (400, 422) or "chat template" not in error.said.lower():
            raise
    answer = client.ask("/tokenize", {"model": about.name, "prompt": prompt.text})
    return believed(client, lambda: as_ids(answer["tokens"])), False
