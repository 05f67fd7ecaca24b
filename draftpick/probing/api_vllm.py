"""vLLM and vLLM-Ascend, as a served model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from draftpick.probing.api import (
    About,
    Lacks,
    Reading,
    Text,
    add,
    as_ended,
    as_ids,
    as_log,
    as_logs,
    believed,
    patience,
    spelling,
    tokenized,
)
from draftpick.probing.client import Client, Refused
from draftpick.probing.device import CannotProbe
from draftpick.probing.local import Sampling
from draftpick.probing.prompts import Prompt

_T = TypeVar("_T")


@dataclass(frozen=True)
class Vllm:
    """vLLM's completions: `return_token_ids`, `logprobs` and `prompt_logprobs`, as of 0.32 (entrypoints/openai)."""

    client: Client
    about: About

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """As `Server`."""
        return tokenized(self.client, self.about, prompt, thinking)

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        asked = {
            **_answer(ids, sampling, most),
            "seed": seed,
            "logprobs": 2,
            "return_tokens_as_token_ids": True,
        }
        return self._ask(asked, most, lambda choice: _text(choice, sampling.greedy))

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        """As `Server`."""
        whole = [*ids, *tokens]
        asked = {"prompt": whole, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1}
        try:
            return self._ask(asked, len(whole) // 64, lambda choice: _reading(choice, whole, len(ids)))
        except Refused as error:
            if "out of vocabulary" not in error.said:
                raise
            raise CannotProbe(
                f"{self.client.address} does not know all token ids of the target: {error.said}",
                "the two have different tokenizers: take a draft with the target's own",
            ) from None

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`."""
        asked = {**_answer(ids, sampling, most), "ignore_eos": True, "stream": True}
        body, seconds = {"model": self.about.name, **asked}, patience(most)
        for at, event in self.client.stream("/v1/completions", body, seconds=seconds):
            if number := believed(self.client, partial(_part, event)):
                yield at, number

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        body = {"model": self.about.name, **asked}
        answer = self.client.ask("/v1/completions", body, seconds=patience(tokens))
        return believed(self.client, lambda: read(answer["choices"][0]))


def _answer(ids: Sequence[int], sampling: Sampling, most: int) -> dict[str, Any]:
    """All of it said: a server takes what is not said from the model's generation_config.json."""
    return {
        "prompt": list(ids),
        "max_tokens": most,
        "temperature": sampling.temperature,
        "top_p": 1.0 if sampling.greedy else sampling.top_p,
        "top_k": 0 if sampling.greedy else sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "return_token_ids": True,
    }


def _part(event: Mapping[str, Any]) -> int:
    """Tokens in one part of a stream; its last part, and one that only says what was used, hold none."""
    return sum(len(_ids(choice)) for choice in event["choices"])


def _ids(choice: Mapping[str, Any]) -> list[int]:
    if choice.get("token_ids") is None:
        raise Lacks("token_ids", "vLLM returns them since 0.10.2")
    return as_ids(choice["token_ids"])


def _text(choice: Mapping[str, Any], greedy: bool) -> Text:
    tokens, logs = _ids(choice), choice["logprobs"]
    log_p = as_logs(logs["token_logprobs"], len(tokens))
    pairs = [sorted(map(as_log, top.values()), reverse=True) for top in logs["top_logprobs"]]
    gap = [pair[0] - pair[1] for pair in pairs] if greedy and all(len(pair) > 1 for pair in pairs) else None
    return Text(
        tokens, log_p, gap if gap is None or len(gap) == len(tokens) else None, as_ended(choice["finish_reason"])
    )


def _reading(choice: Mapping[str, Any], whole: Sequence[int], start: int) -> Reading:
    columns = choice.get("prompt_logprobs")
    if columns is None:
        raise Lacks("prompt_logprobs", "vLLM returns them unless it was started with --max-logprobs 0")
    if len(columns) != len(whole):
        raise ValueError(f"{len(columns)} prompt_logprobs for {len(whole)} tokens")
    before = [spelling(column[str(token)]["decoded_token"]) for token, column in _pairs(whole, columns, 1, start)]
    found = Reading([], [], [], [], before)
    for token, column in _pairs(whole, columns, start, len(whole)):
        own = column[str(token)]
        # The column holds the emitted token and the first choice. In half precision both may lie as high: another token
        # stands there only where it was chosen.
        top = max(column, key=lambda name: (as_log(column[name]["logprob"]), name != str(token)))
        add(found, int(top), as_log(column[top]["logprob"]), as_log(own["logprob"]), own.get("decoded_token"))
    return found


def _pairs(whole: Sequence[int], columns: Sequence[Any], start: int, end: int) -> Iterator[tuple[int, Any]]:
    return zip(whole[start:end], columns[start:end], strict=True)
