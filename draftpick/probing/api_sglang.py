"""SGLang, as a served model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    tokenized,
)
from draftpick.probing.client import Client
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sglang:
    """SGLang's own /generate: its OpenAI-compatible answers name tokens by their text, as of 0.5.23 (srt/managers)."""

    client: Client
    about: About

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """As `Server`."""
        return tokenized(self.client, self.about, prompt, thinking)

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        settings = {**_settings(sampling, most), "sampling_seed": seed}
        asked = {"input_ids": list(ids), "sampling_params": settings, "return_logprob": True, "top_logprobs_num": 2}
        return self._ask(asked, most, lambda answer: _text(answer, sampling.greedy))

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        """As `Server`."""
        asked = {
            "input_ids": [*ids, *tokens],
            "sampling_params": {"temperature": 0.0, "max_new_tokens": 1},
            "return_logprob": True,
            # The first column belongs to the token at the start, and is empty.
            "logprob_start_len": len(ids) - 1,
            "top_logprobs_num": 1,
            "return_text_in_logprobs": True,
        }
        return self._ask(asked, (len(ids) + len(tokens)) // 64, lambda answer: _reading(answer, tokens))

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`."""
        settings = {**_settings(sampling, most), "ignore_eos": True}
        body = {"input_ids": list(ids), "sampling_params": settings, "stream": True}
        events = self.client.stream("/generate", body, seconds=patience(most))
        return growing(self.client, events, _so_far)

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        answer = self.client.ask("/generate", asked, seconds=patience(tokens))
        return believed(self.client, lambda: read(answer))


def _settings(sampling: Sampling, most: int) -> dict[str, Any]:
    return {
        "temperature": sampling.temperature,
        "max_new_tokens": most,
        "top_p": 1.0 if sampling.greedy else sampling.top_p,
        "top_k": sampling.top_k if sampling.top_k and not sampling.greedy else -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }


def _so_far(event: Mapping[str, Any]) -> int:
    (number,) = as_ids([event["meta_info"]["completion_tokens"]])
    return number


def _text(answer: Mapping[str, Any], greedy: bool) -> Text:
    told = answer["meta_info"]
    columns = told["output_token_logprobs"]
    tokens = as_ids([column[1] for column in columns])
    log_p = as_logs([column[0] for column in columns], len(tokens))
    pairs = [sorted((as_log(one[0]) for one in top), reverse=True) for top in told.get("output_top_logprobs") or ()]
    gap = [pair[0] - pair[1] for pair in pairs if len(pair) > 1] if greedy else []
    return Text(tokens, log_p, gap if len(gap) == len(tokens) else None, as_ended(told["finish_reason"]["type"]))


def _reading(answer: Mapping[str, Any], tokens: Sequence[int]) -> Reading:
    told = answer["meta_info"]
    own, tops = told["input_token_logprobs"][1:], told["input_top_logprobs"][1:]
    if not len(own) == len(tops) == len(tokens):
        raise ValueError(f"{len(own)} and {len(tops)} columns for {len(tokens)} tokens")
    found = Reading([], [], [], [])
    for (log_prob, _, spelled), top in zip(own, tops, strict=True):
        best = max(top, key=lambda one: as_log(one[0]))
        add(found, best[1], as_log(best[0]), as_log(log_prob), spelled)
    return found
