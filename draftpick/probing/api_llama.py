"""llama.cpp's server, as a served model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from draftpick.probing.api import (
    About,
    Reading,
    Text,
    add,
    as_ended,
    as_ids,
    as_log,
    as_logs,
    believed,
    growing,
    patience,
)
from draftpick.probing.client import Client
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt

_T = TypeVar("_T")


@dataclass(frozen=True)
class LlamaCpp:
    """llama-server's own /completion, as of b11434 (tools/server, grammars/README.md).

    It reads no text that is sent. But a grammar of token ids lets it write nothing else, and the probabilities it tells
    are those from before the grammar.
    """

    client: Client
    about: About

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """As `Server`."""
        if self._has_template:
            asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt.text}]}
            if thinking is not None:
                asked["chat_template_kwargs"] = {"enable_thinking": thinking}
            answer = self.client.ask("/apply-template", asked)
            return self._ids(believed(self.client, lambda: str(answer["prompt"]))), True
        return self._ids(prompt.text), False

    @cached_property
    def _has_template(self) -> bool:
        """A model without a template is given one whose marks are no tokens of its own."""
        props = self.client.get("/props")
        template = believed(self.client, lambda: str(props.get("chat_template") or ""))
        return bool(template) and ("<|im_start|>" not in template or len(self._ids("<|im_start|>", alone=True)) == 1)

    def _ids(self, text: str, *, alone: bool = False) -> list[int]:
        answer = self.client.ask("/tokenize", {"content": text, "add_special": not alone, "parse_special": True})
        return believed(self.client, lambda: as_ids(answer["tokens"]))

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        asked = {**_answer(ids, sampling, most), "seed": seed, "n_probs": 2}
        return self._ask(asked, most, lambda answer: _text(answer, sampling.greedy))

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        """As `Server`."""
        # An end cannot stand in a grammar: it is what is left to write where the grammar is at its own.
        body = [f"<[{token}]>" for token in (tokens[:-1] if ended else tokens)]
        asked = {
            "prompt": list(ids),
            "n_predict": len(tokens),
            "temperature": 0.0,
            "samplers": ["temperature"],
            "grammar": "root ::= " + (" ".join(body) or '""'),
            "n_probs": 1,
        }
        return self._ask(asked, len(tokens), lambda answer: _reading(answer, tokens))

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`. Each token is a part of its own, also where several were accepted in one step."""
        asked = {**_answer(ids, sampling, most), "ignore_eos": True, "stream": True}
        events = self.client.stream("/completion", asked, seconds=patience(most))
        return growing(self.client, events, _so_far)

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        answer = self.client.ask("/completion", asked, seconds=patience(tokens))
        return believed(self.client, lambda: read(answer))


def _answer(ids: Sequence[int], sampling: Sampling, most: int) -> dict[str, Any]:
    return {
        "prompt": list(ids),
        "n_predict": most,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        # In the order of the other engines, and none besides: by default penalties and min_p act too.
        "samplers": ["temperature"] if sampling.greedy else ["temperature", "top_k", "top_p"],
    }


def _so_far(event: Mapping[str, Any]) -> int:
    (number,) = as_ids([event["tokens_predicted"]])
    return number


def _text(answer: Mapping[str, Any], greedy: bool) -> Text:
    columns = answer["completion_probabilities"]
    tokens = as_ids([column["id"] for column in columns])
    log_p = as_logs([column["logprob"] for column in columns], len(tokens))
    pairs = [sorted((as_log(one["logprob"]) for one in column["top_logprobs"]), reverse=True) for column in columns]
    gap = [pair[0] - pair[1] for pair in pairs if len(pair) > 1] if greedy else []
    ended = {"eos": "stop", "limit": "length"}.get(answer["stop_type"], answer["stop_type"])
    return Text(tokens, log_p, gap if len(gap) == len(tokens) else None, as_ended(ended))


def _reading(answer: Mapping[str, Any], tokens: Sequence[int]) -> Reading:
    columns = answer["completion_probabilities"]
    written = [column["id"] for column in columns]
    if written != list(tokens):
        place = next((place for place, pair in enumerate(zip(written, tokens, strict=False)) if pair[0] != pair[1]), -1)
        raise ValueError(f"it read other tokens than it was given, from token {place} of {len(tokens)} on")
    found = Reading([], [], [], [])
    for column in columns:
        best = max(column["top_logprobs"], key=lambda one: as_log(one["logprob"]))
        add(found, best["id"], as_log(best["logprob"]), as_log(column["logprob"]), column.get("token"))
    return found
