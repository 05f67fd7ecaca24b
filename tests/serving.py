"""Real small models behind a real HTTP server that speaks as an engine does.

The shapes are those of vLLM 0.32.0, SGLang 0.5.23 and llama.cpp b11434. A probe through it gives what a local one does.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from draftpick.probing.local import LocalModel, Sampling, generate, load, uniforms

Hook = Callable[["Handler", str, dict[str, Any]], bool]
"""Looks at a request before it is answered; True: it has answered, or broken off, itself."""


class Model:
    """A model of a folder, asked by one request at a time."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder, self.name = folder, name or str(folder)
        self._lock = threading.Lock()

    @cached_property
    def local(self) -> LocalModel:
        return load(self.folder, id=self.name, device="cpu", dtype=None)

    @cached_property
    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.folder)

    def spell(self, token: int) -> str:
        return str(self.tokenizer.decode([token]))

    def write(self, ids: Sequence[int], sampling: Sampling, most: int, seed: int) -> tuple[list[int], str]:
        draws = [uniforms(seed, "served", sampling.temperature, most)]
        with self._lock:
            (written,) = generate(self.local, [ids], sampling, most, draws)
        return written.tokens, written.ended

    def log_probs(self, ids: Sequence[int]) -> torch.Tensor:
        """ln of the plain softmax behind every token but the last, [position, token]."""
        with self._lock, torch.inference_mode():
            logits = self.local.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, :-1]
        return logits.float().log_softmax(-1)


class Handler(BaseHTTPRequestHandler):
    """Answers JSON; `server` has the model, how to speak, and a hook."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self._answer(json.loads(self.rfile.read(length)))

    def _answer(self, asked: dict[str, Any]) -> None:
        self.server.asked.append((self.path, asked))
        if self.server.hook is not None and self.server.hook(self, self.path, asked):
            return
        code, found = self.server.speak(self.server.model, self.path, asked)
        self.send(code, json.dumps(found).encode())

    def send(self, code: int, body: bytes, **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """One model behind a port."""

    daemon_threads = False
    """A thread that is in torch when the interpreter ends would abort the process: its end is waited for."""

    def __init__(self, model: Model, speak: Speak, hook: Hook | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ended = threading.Event()
        self.connections: list[socket.socket] = []
        self.model, self.speak, self.hook = model, speak, hook
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that its thread can be ended."""
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """A connection that a test breaks off is no news."""


@contextmanager
def serving(model: Model, speak: Speak | None = None, hook: Hook | None = None) -> Iterator[Server]:
    """A server of a model for as long as the block runs; as vLLM speaks, unless told otherwise."""
    with Server(model, speak or vllm, hook) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            for connection in server.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


Speak = Callable[[Model, str, Mapping[str, Any]], tuple[int, Any]]


def error(code: int, message: str) -> tuple[int, Any]:
    return code, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": code}}


def _common(model: Model, path: str, asked: Mapping[str, Any], owner: str) -> tuple[int, Any] | None:
    if path == "/v1/models":
        row = {"id": model.name, "object": "model", "owned_by": owner, "root": str(model.folder), "parent": None}
        return 200, {"object": "list", "data": [{**row, "max_model_len": model.local.max_length}]}
    if path == "/tokenize":
        if "messages" in asked:
            if not getattr(model.tokenizer, "chat_template", None):
                return error(400, "As of transformers v4.44, default chat template is no longer allowed")
            text = model.tokenizer.apply_chat_template(asked["messages"], tokenize=False, add_generation_prompt=True)
            ids = model.tokenizer(text, add_special_tokens=False).input_ids
        else:
            ids = model.tokenizer(asked["prompt"]).input_ids
        return 200, {"count": len(ids), "max_model_len": model.local.max_length, "tokens": list(ids)}
    return None


# ---------------------------------------------------------------------- as vLLM speaks


def vllm(model: Model, path: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
    """An answer in vLLM's shape."""
    if (found := _common(model, path, asked, "vllm")) is not None:
        return found
    if path == "/version":
        return 200, {"version": "0.32.0"}
    if path != "/v1/completions":
        return 404, {"detail": "Not Found"}
    ids = asked["prompt"]
    if max(ids) >= model.local.vocab_size:
        return error(400, f"Token id {max(ids)} is out of vocabulary")
    sampling = Sampling(asked["temperature"], asked.get("top_k") or 0, asked.get("top_p", 1.0))
    tokens, ended = model.write(ids, sampling, asked["max_tokens"], asked.get("seed", 0))
    choice: dict[str, Any] = {"index": 0, "finish_reason": ended, "stop_reason": None, "logprobs": None}
    if asked.get("return_token_ids"):
        choice["token_ids"] = tokens
    if asked.get("logprobs"):
        rows = model.log_probs([*ids, *tokens])[len(ids) - 1 :]
        choice["logprobs"] = {
            "token_logprobs": [float(row[token]) for row, token in zip(rows, tokens, strict=True)],
            "tokens": [f"token_id:{token}" for token in tokens],
            "top_logprobs": [
                {f"token_id:{int(one)}": float(row[one]) for one in {*row.topk(2).indices.tolist(), token}}
                for row, token in zip(rows, tokens, strict=True)
            ],
        }
    if asked.get("prompt_logprobs") is not None:
        choice["prompt_logprobs"] = [None, *_columns(model, ids)]
    return 200, {"id": "cmpl-1", "object": "text_completion", "model": model.name, "choices": [choice]}


def _columns(model: Model, ids: Sequence[int]) -> list[dict[str, Any]]:
    found = []
    for row, token in zip(model.log_probs(ids), ids[1:], strict=True):
        ranked = {token: int((row >= row[token]).sum()), int(row.argmax()): 1}
        found.append(
            {
                str(one): {"logprob": float(row[one]), "rank": rank, "decoded_token": model.spell(one)}
                for one, rank in ranked.items()
            }
        )
    return found


# ---------------------------------------------------------------------- as SGLang speaks


def sglang(model: Model, path: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
    """An answer in SGLang's shape."""
    if (found := _common(model, path, asked, "sglang")) is not None:
        return found
    if path == "/server_info":
        return 200, {"version": "0.5.23"}
    if path != "/generate":
        return 404, {"detail": "Not Found"}
    ids, settings = asked["input_ids"], asked["sampling_params"]
    top_k = settings.get("top_k", -1)
    sampling = Sampling(settings["temperature"], max(top_k, 0), settings.get("top_p", 1.0))
    tokens, ended = model.write(ids, sampling, settings["max_new_tokens"], settings.get("sampling_seed", 0))
    rows = model.log_probs([*ids, *tokens])
    count = asked["top_logprobs_num"]

    def own(place: int, token: int) -> list[Any]:
        return [float(rows[place - 1][token]), token, model.spell(token)]

    def tops(place: int) -> list[list[Any]]:
        return [[float(rows[place - 1][one]), int(one), None] for one in rows[place - 1].topk(count).indices]

    start = asked.get("logprob_start_len", -1)
    told: dict[str, Any] = {
        "finish_reason": {"type": ended, "matched": tokens[-1]} if ended == "stop" else {"type": ended},
        "prompt_tokens": len(ids),
        "completion_tokens": len(tokens),
        "output_token_logprobs": [own(len(ids) + place, token) for place, token in enumerate(tokens)],
        "output_top_logprobs": [tops(len(ids) + place) for place in range(len(tokens))],
    }
    if start >= 0:
        places = range(start + 1, len(ids))
        told["input_token_logprobs"] = [[None, ids[start], None], *(own(place, ids[place]) for place in places)]
        told["input_top_logprobs"] = [None, *(tops(place) for place in places)]
    return 200, {"text": "", "output_ids": tokens, "meta_info": told}


# ---------------------------------------------------------------------- as llama.cpp speaks

_FORCED = re.compile(r"<\[(\d+)\]>")
_CHATML = "{%- for message in messages -%}{{- '<|im_start|>' + message.role }}{%- endfor -%}"
"""What a model without a template is said to have."""


def llama(model: Model, path: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
    """An answer in the shape of llama.cpp's server."""
    if path == "/v1/models":
        row = {"id": model.name, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": model.local.max_length}}
        return 200, {"object": "list", "data": [row]}
    if path == "/props":
        template = getattr(model.tokenizer, "chat_template", None) or _CHATML
        return 200, {"build_info": "b11434-abc", "chat_template": template}
    if path == "/apply-template":
        text = model.tokenizer.apply_chat_template(asked["messages"], tokenize=False, add_generation_prompt=True)
        return 200, {"prompt": text}
    if path == "/tokenize":
        ids = model.tokenizer(asked["content"], add_special_tokens=asked["add_special"]).input_ids
        return 200, {"tokens": list(ids)}
    if path != "/completion":
        return 404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}
    ids, most = asked["prompt"], asked["n_predict"]
    eos = model.local.eos_ids
    if "grammar" in asked:
        tokens = [int(token) for token in _FORCED.findall(asked["grammar"])]
        tokens, ended = (tokens, "length") if len(tokens) == most else ([*tokens, eos[0]], "stop")
    else:
        sampling = Sampling(asked["temperature"], asked["top_k"], asked["top_p"])
        tokens, ended = model.write(ids, sampling, most, asked["seed"])
    rows = model.log_probs([*ids, *tokens])[len(ids) - 1 :]
    columns = [
        {
            "id": token,
            "token": model.spell(token),
            "logprob": float(row[token]),
            "top_logprobs": [
                {"id": int(one), "logprob": float(row[one])} for one in row.topk(asked["n_probs"]).indices
            ],
        }
        for row, token in zip(rows, tokens, strict=True)
    ]
    stop = "eos" if ended == "stop" else "limit"
    return 200, {"content": "", "stop": True, "stop_type": stop, "completion_probabilities": columns}
