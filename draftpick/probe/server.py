"""Models behind an engine's API: each engine in its own words, the same three questions.

What are the ids of this prompt; what does the model write; what does it make of text that is there. Every answer is
looked through before it is believed: a server, or what stands before it, may say anything. A fourth is how long its
steps take: it writes while somebody watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeVar

from draftpick.errors import UsageError
from draftpick.probe.client import Client, NotServed, Refused
from draftpick.probe.device import CannotProbe
from draftpick.probe.local import Sampling
from draftpick.probe.prompts import Prompt

_T = TypeVar("_T")

_SECONDS = 60.0
_SECONDS_PER_TOKEN = 1.0
"""A server that is slower than this is given up: its queue would take the day."""
_MOST_ID = 1 << 31
_LONGEST_NAME = 500
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


# ---------------------------------------------------------------------- vLLM and vLLM-Ascend


@dataclass(frozen=True)
class Vllm:
    """vLLM's completions: `return_token_ids`, `logprobs` and `prompt_logprobs`, as of 0.32 (entrypoints/openai)."""

    client: Client
    about: About

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """As `Server`."""
        return _tokenized(self.client, self.about, prompt, thinking)

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        asked = {
            **_vllm_answer(ids, sampling, most),
            "seed": seed,
            "logprobs": 2,
            "return_tokens_as_token_ids": True,
        }
        return self._ask(asked, most, lambda choice: _vllm_text(choice, sampling.greedy))

    def read(self, ids: Sequence[int], tokens: Sequence[int], *, ended: bool) -> Reading:
        """As `Server`."""
        whole = [*ids, *tokens]
        asked = {"prompt": whole, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1}
        try:
            return self._ask(asked, len(whole) // 64, lambda choice: _vllm_reading(choice, whole, len(ids)))
        except Refused as error:
            if "out of vocabulary" not in error.said:
                raise
            raise CannotProbe(
                f"{self.client.address} does not know all token ids of the target: {error.said}",
                "the two have different tokenizers: take a draft with the target's own",
            ) from None

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`."""
        asked = {**_vllm_answer(ids, sampling, most), "ignore_eos": True, "stream": True}
        body, seconds = {"model": self.about.name, **asked}, _SECONDS + _SECONDS_PER_TOKEN * most
        for at, event in self.client.stream("/v1/completions", body, seconds=seconds):
            if number := _believed(self.client, partial(_vllm_part, event)):
                yield at, number

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        body = {"model": self.about.name, **asked}
        answer = self.client.ask("/v1/completions", body, seconds=_SECONDS + _SECONDS_PER_TOKEN * tokens)
        return _believed(self.client, lambda: read(answer["choices"][0]))


def _vllm_answer(ids: Sequence[int], sampling: Sampling, most: int) -> dict[str, Any]:
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


def _vllm_part(event: Mapping[str, Any]) -> int:
    """Tokens in one part of a stream; its last part, and one that only says what was used, hold none."""
    return sum(len(_vllm_ids(choice)) for choice in event["choices"])


def _vllm_ids(choice: Mapping[str, Any]) -> list[int]:
    if choice.get("token_ids") is None:
        raise _Lacks("token_ids", "vLLM returns them since 0.10.2")
    return _ids(choice["token_ids"])


def _vllm_text(choice: Mapping[str, Any], greedy: bool) -> Text:
    tokens, logs = _vllm_ids(choice), choice["logprobs"]
    log_p = _logs(logs["token_logprobs"], len(tokens))
    pairs = [sorted(map(_log, top.values()), reverse=True) for top in logs["top_logprobs"]]
    gap = [pair[0] - pair[1] for pair in pairs] if greedy and all(len(pair) > 1 for pair in pairs) else None
    return Text(tokens, log_p, gap if gap is None or len(gap) == len(tokens) else None, _ended(choice["finish_reason"]))


def _vllm_reading(choice: Mapping[str, Any], whole: Sequence[int], start: int) -> Reading:
    columns = choice.get("prompt_logprobs")
    if columns is None:
        raise _Lacks("prompt_logprobs", "vLLM returns them unless it was started with --max-logprobs 0")
    if len(columns) != len(whole):
        raise ValueError(f"{len(columns)} prompt_logprobs for {len(whole)} tokens")
    before = [_spelling(column[str(token)]["decoded_token"]) for token, column in _pairs(whole, columns, 1, start)]
    found = Reading([], [], [], [], before)
    for token, column in _pairs(whole, columns, start, len(whole)):
        own = column[str(token)]
        # The column holds the emitted token and the first choice. In half precision both may lie as high: another token
        # stands there only where it was chosen.
        top = max(column, key=lambda name: (_log(column[name]["logprob"]), name != str(token)))
        _add(found, int(top), _log(column[top]["logprob"]), _log(own["logprob"]), own.get("decoded_token"))
    return found


def _pairs(whole: Sequence[int], columns: Sequence[Any], start: int, end: int) -> Iterator[tuple[int, Any]]:
    return zip(whole[start:end], columns[start:end], strict=True)


# ---------------------------------------------------------------------- SGLang


@dataclass(frozen=True)
class Sglang:
    """SGLang's own /generate: its OpenAI-compatible answers name tokens by their text, as of 0.5.23 (srt/managers)."""

    client: Client
    about: About

    def prompt_ids(self, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
        """As `Server`."""
        return _tokenized(self.client, self.about, prompt, thinking)

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        settings = {**_sglang_settings(sampling, most), "sampling_seed": seed}
        asked = {"input_ids": list(ids), "sampling_params": settings, "return_logprob": True, "top_logprobs_num": 2}
        return self._ask(asked, most, lambda answer: _sglang_text(answer, sampling.greedy))

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
        return self._ask(asked, (len(ids) + len(tokens)) // 64, lambda answer: _sglang_reading(answer, tokens))

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`."""
        settings = {**_sglang_settings(sampling, most), "ignore_eos": True}
        body = {"input_ids": list(ids), "sampling_params": settings, "stream": True}
        events = self.client.stream("/generate", body, seconds=_SECONDS + _SECONDS_PER_TOKEN * most)
        return _growing(self.client, events, _sglang_so_far)

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        answer = self.client.ask("/generate", asked, seconds=_SECONDS + _SECONDS_PER_TOKEN * tokens)
        return _believed(self.client, lambda: read(answer))


def _sglang_settings(sampling: Sampling, most: int) -> dict[str, Any]:
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


def _sglang_so_far(event: Mapping[str, Any]) -> int:
    (number,) = _ids([event["meta_info"]["completion_tokens"]])
    return number


def _sglang_text(answer: Mapping[str, Any], greedy: bool) -> Text:
    told = answer["meta_info"]
    columns = told["output_token_logprobs"]
    tokens = _ids([column[1] for column in columns])
    log_p = _logs([column[0] for column in columns], len(tokens))
    pairs = [sorted((_log(one[0]) for one in top), reverse=True) for top in told.get("output_top_logprobs") or ()]
    gap = [pair[0] - pair[1] for pair in pairs if len(pair) > 1] if greedy else []
    return Text(tokens, log_p, gap if len(gap) == len(tokens) else None, _ended(told["finish_reason"]["type"]))


def _sglang_reading(answer: Mapping[str, Any], tokens: Sequence[int]) -> Reading:
    told = answer["meta_info"]
    own, tops = told["input_token_logprobs"][1:], told["input_top_logprobs"][1:]
    if not len(own) == len(tops) == len(tokens):
        raise ValueError(f"{len(own)} and {len(tops)} columns for {len(tokens)} tokens")
    found = Reading([], [], [], [])
    for (log_prob, _, spelled), top in zip(own, tops, strict=True):
        best = max(top, key=lambda one: _log(one[0]))
        _add(found, best[1], _log(best[0]), _log(log_prob), spelled)
    return found


# ---------------------------------------------------------------------- llama.cpp


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
            return self._ids(_believed(self.client, lambda: str(answer["prompt"]))), True
        return self._ids(prompt.text), False

    @cached_property
    def _has_template(self) -> bool:
        """A model without a template is given one whose marks are no tokens of its own."""
        props = self.client.get("/props")
        template = _believed(self.client, lambda: str(props.get("chat_template") or ""))
        return bool(template) and ("<|im_start|>" not in template or len(self._ids("<|im_start|>", alone=True)) == 1)

    def _ids(self, text: str, *, alone: bool = False) -> list[int]:
        answer = self.client.ask("/tokenize", {"content": text, "add_special": not alone, "parse_special": True})
        return _believed(self.client, lambda: _ids(answer["tokens"]))

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> Text:
        """As `Server`."""
        asked = {**_llama_answer(ids, sampling, most), "seed": seed, "n_probs": 2}
        return self._ask(asked, most, lambda answer: _llama_text(answer, sampling.greedy))

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
        return self._ask(asked, len(tokens), lambda answer: _llama_reading(answer, tokens))

    def stream(self, ids: Sequence[int], sampling: Sampling, most: int) -> Iterator[tuple[float, int]]:
        """As `Server`. Each token is a part of its own, also where several were accepted in one step."""
        asked = {**_llama_answer(ids, sampling, most), "ignore_eos": True, "stream": True}
        events = self.client.stream("/completion", asked, seconds=_SECONDS + _SECONDS_PER_TOKEN * most)
        return _growing(self.client, events, _llama_so_far)

    def _ask(self, asked: Mapping[str, Any], tokens: int, read: Callable[[Any], _T]) -> _T:
        answer = self.client.ask("/completion", asked, seconds=_SECONDS + _SECONDS_PER_TOKEN * tokens)
        return _believed(self.client, lambda: read(answer))


def _llama_answer(ids: Sequence[int], sampling: Sampling, most: int) -> dict[str, Any]:
    return {
        "prompt": list(ids),
        "n_predict": most,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        # In the order of the other engines, and none besides: by default penalties and min_p act too.
        "samplers": ["temperature"] if sampling.greedy else ["temperature", "top_k", "top_p"],
    }


def _llama_so_far(event: Mapping[str, Any]) -> int:
    (number,) = _ids([event["tokens_predicted"]])
    return number


def _llama_text(answer: Mapping[str, Any], greedy: bool) -> Text:
    columns = answer["completion_probabilities"]
    tokens = _ids([column["id"] for column in columns])
    log_p = _logs([column["logprob"] for column in columns], len(tokens))
    pairs = [sorted((_log(one["logprob"]) for one in column["top_logprobs"]), reverse=True) for column in columns]
    gap = [pair[0] - pair[1] for pair in pairs if len(pair) > 1] if greedy else []
    ended = {"eos": "stop", "limit": "length"}.get(answer["stop_type"], answer["stop_type"])
    return Text(tokens, log_p, gap if len(gap) == len(tokens) else None, _ended(ended))


def _llama_reading(answer: Mapping[str, Any], tokens: Sequence[int]) -> Reading:
    columns = answer["completion_probabilities"]
    written = [column["id"] for column in columns]
    if written != list(tokens):
        place = next((place for place, pair in enumerate(zip(written, tokens, strict=False)) if pair[0] != pair[1]), -1)
        raise ValueError(f"it read other tokens than it was given, from token {place} of {len(tokens)} on")
    found = Reading([], [], [], [])
    for column in columns:
        best = max(column["top_logprobs"], key=lambda one: _log(one["logprob"]))
        _add(found, best["id"], _log(best["logprob"]), _log(column["logprob"]), column.get("token"))
    return found


# ---------------------------------------------------------------------- what an answer may hold


class _Lacks(Exception):
    """A part of an answer that some servers, or some settings of them, do not give."""


def _believed(client: Client, read: Callable[[], _T]) -> _T:
    """What was read of an answer. Raises BadAnswer where it is none of the kind."""
    try:
        return read()
    except _Lacks as missing:
        raise BadAnswer(f"{client.address} gives no {missing.args[0]}", missing.args[1]) from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        said = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BadAnswer(
            f"{client.address} answers otherwise than its engine does: {said[:200]}",
            "name the engine's own address, not that of something that rewrites its answers",
        ) from None


def _growing(
    client: Client, events: Iterable[tuple[float, dict[str, Any]]], so_far: Callable[[Mapping[str, Any]], int]
) -> Iterator[tuple[float, int]]:
    """New tokens of each part, where parts tell how many there are by then."""
    before = 0
    for at, event in events:
        now = _believed(client, partial(so_far, event))
        if now > before:
            yield at, now - before
        before = now


def _ids(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < _MOST_ID for value in values):
        raise ValueError("what should be token ids are none")
    return values


def _logs(values: Any, size: int) -> list[float]:
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"not one log-probability for each of {size} tokens")
    return [_log(value) for value in values]


def _log(value: Any) -> float:
    if type(value) not in (int, float) or not value <= _ROUNDING:  # NaN is neither
        raise ValueError(f"{value!r:.40} is no log-probability")
    return min(max(float(value), _LEAST_LOG), 0.0)


def _add(found: Reading, top: int, top_log_prob: float, log_prob: float, spelled: Any) -> None:
    found.top.extend(_ids([top]))
    found.top_log_prob.append(top_log_prob)
    found.log_prob.append(log_prob)
    found.spelled.append(_spelling(spelled))


def _spelling(text: Any) -> str:
    return text if isinstance(text, str) else ""


def _ended(reason: Any) -> str:
    if reason not in ("stop", "length"):
        raise ValueError(f"the answer ended by {reason!r:.40}")
    return str(reason)


# ---------------------------------------------------------------------- prompts


def _tokenized(client: Client, about: About, prompt: Prompt, thinking: bool | None) -> tuple[list[int], bool]:
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
        return _believed(client, lambda: _ids(answer["tokens"])), True
    except Refused as error:
        if error.code not in (400, 422) or "chat template" not in error.said.lower():
            raise
    answer = client.ask("/tokenize", {"model": about.name, "prompt": prompt.text})
    return _believed(client, lambda: _ids(answer["tokens"])), False


# ---------------------------------------------------------------------- which server it is


@dataclass(frozen=True)
class _Engine:
    """An engine whose API is known."""

    key: str
    owner: str
    """What it writes as the owner of its models."""
    make: Callable[[Client, About], Server]
    version: Callable[[Client], Any] = field(repr=False)


_ENGINES = (
    _Engine("vllm", "vllm", Vllm, lambda client: client.get("/version")["version"]),
    _Engine("sglang", "sglang", Sglang, lambda client: client.get("/server_info")["version"]),
    _Engine("llama.cpp", "llamacpp", LlamaCpp, lambda client: client.get("/props")["build_info"]),
)
_AS = {"vllm-ascend": "vllm", "sglang-ascend": "sglang"}
"""Engines that speak as another does."""


def connect(url: str, *, name: str | None, called: str | None, engine: str | None, width: int) -> Server:
    """The model behind an address.

    `name`: which of its models; else one that is called as the user calls it, or its only one. `engine`: whose API it
    speaks; else it is asked.

    Raises UsageError, Refused, NotServed and BadAnswer with what to do.
    """
    client = Client(url, width=width)
    try:
        listed = client.get("/v1/models")
    except Refused as error:
        if error.code != 404:
            raise
        raise BadAnswer(
            f"{client.address} has no /v1/models",
            "name the address of an OpenAI-compatible server, as http://host:8000",
        ) from None
    models = _believed(client, lambda: [_model(one) for one in listed["data"]])
    chosen = _chosen(client, models, name, called)
    known = _engine_of(client, chosen, engine)
    about = About(
        name=chosen["id"],
        root=chosen["root"] if _is_name(chosen.get("root")) else chosen["id"],
        engine=engine if engine is not None and _AS.get(engine, engine) == known.key else known.key,
        version=_version(client, known),
        max_length=_length(chosen.get("max_model_len") or chosen["meta"].get("n_ctx")),
    )
    return known.make(client, about)


def called_otherwise(servers: Mapping[str, Server]) -> list[str]:
    """What is to be said of servers, by the model that they are said to have, that call it otherwise."""
    return [
        f"{one.client.address} calls its model {one.about.name[:80]}: whether it is {ours} is not known"
        for ours, one in servers.items()
        # The same model lies here and there: in a folder, in a cache, with an owner or without.
        if ours.rstrip("/").rpartition("/")[2].lower() not in f"{one.about.name} {one.about.root}".lower()
    ]


def _model(listed: Any) -> dict[str, Any]:
    """One of the models that a server lists. Raises what `_believed` expects."""
    name, meta = listed["id"], listed.get("meta")
    if not _is_name(name):
        raise ValueError(f"{name!r:.40} is no model's name")
    return {**listed, "meta": meta if isinstance(meta, dict) else {}}


def _is_name(value: Any) -> bool:
    """Whether traces and reports can hold it as the name of a model."""
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable() and value == value.strip()


def _chosen(
    client: Client, models: Sequence[Mapping[str, Any]], name: str | None, called: str | None
) -> Mapping[str, Any]:
    names = [model["id"] for model in models]
    wanted = name if name is not None else called
    if wanted is not None and wanted in names:
        return models[names.index(wanted)]
    # What hangs on another model, as a LoRA adapter does, is served only where it is asked for.
    bases = [model for model in models if not model.get("parent")]
    if name is None and len(bases) == 1:
        return bases[0]
    shown = ", ".join(str(one)[:80] for one in names[:8]) or "none"
    if name is None:
        raise UsageError(
            f"{client.address} serves {'several models' if names else 'no model'}: {shown}",
            "say which: --model for the target, and a draft by the name that its server has for it",
        )
    raise UsageError(f"{client.address} serves no {name[:80]!r}", f"it serves {shown}")


def _engine_of(client: Client, model: Mapping[str, Any], asked: str | None) -> _Engine:
    if asked is not None:
        key = _AS.get(asked, asked)
        found = next((one for one in _ENGINES if one.key == key), None)
        if found is None:
            raise UsageError(
                f"no API of {asked} is known that tells a draft's probabilities of a given text",
                f"known: {', '.join([*(one.key for one in _ENGINES), *_AS])}",
            )
        return found
    owner = str(model.get("owned_by")).lower()
    found = next((one for one in _ENGINES if one.owner == owner), None)
    if found is None:
        raise BadAnswer(
            f"{client.address} does not say which engine it is (its models are owned by {owner[:40]!r})",
            "say whose API it speaks: --engine vllm or --engine sglang",
        )
    return found


def _version(client: Client, engine: _Engine) -> str | None:
    try:
        found = engine.version(client)
    except (Refused, NotServed, KeyError, TypeError):
        return None
    return found[:40] if isinstance(found, str) and found.isprintable() else None


def _length(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < _MOST_ID else None
