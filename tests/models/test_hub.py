"""The hub, as far as draftpick asks it: a server on this machine speaks the part of its protocol that is used."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CONFIG = json.loads((Path(__file__).parent.parent / "hub" / "Qwen--Qwen2.5-0.5B-Instruct.json").read_text())
TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = "model.safetensors.index.json"

FILES: dict[str, bytes] = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer.json": json.dumps(TOKENIZER).encode(),
    WEIGHTS: json.dumps({"metadata": {"total_size": 988_097_824}, "weight_map": {"a": "model-1.safetensors"}}).encode(),
    **{f"model-{number}.safetensors": b"weights" for number in range(1, 9)},
    "pytorch_model.bin": b"weights",
    "modeling_x.py": b"raise SystemExit",
}
CARD = {"license": "mit", "base_model": ["Qwen/Qwen2.5-0.5B-Instruct"], "base_model_relation": "finetune"}


def bomb(megabytes: int) -> bytes:
    """A gzip stream that is small and unpacks to much: one compressed piece, over and over."""
    packed = zlib.compressobj(wbits=31)
    start = packed.compress(b"[") + packed.flush(zlib.Z_FULL_FLUSH)
    return start + (packed.compress(b" " * 1_000_000) + packed.flush(zlib.Z_FULL_FLUSH)) * megabytes


BAD: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "html": (200, b"<html>sign in</html>", {}),
    "nothing": (200, b"", {}),
    "list": (200, b"[]", {}),
    "number": (200, b"5", {}),
    "deep": (200, b"[" * 100_000, {}),
    "no-names": (200, b'{"id": "bad/no-names", "siblings": [{"rfilename": 5}]}', {}),
    "no-sizes": (200, b'{"id": "a/b", "siblings": [{"rfilename": "config.json", "size": "x"}]}', {}),
    "no-revision": (200, b'{"id": "a/b", "sha": "../..", "siblings": [{"rfilename": "config.json", "size": 9}]}', {}),
    "bomb": (200, bomb(300), {"Content-Encoding": "gzip"}),
    "circle": (302, b"", {"Location": "/api/models/bad/circle"}),
    "unauthorized": (401, b"", {}),
    "forbidden": (403, b"", {}),
    "busy": (429, b"", {}),
    "odd": (418, b"", {}),
}
ANSWERS = {f"/api/models/bad/{name}": answer for name, answer in BAD.items()}


class Hub(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        if "gated" in path:
            self._answer(403, b"{}", {"X-Error-Code": "GatedRepo"}, body)
        elif "absent" in path:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
        elif "broken" in path:
            self._answer(500, b"no json", {}, body)
        elif path in ANSWERS:
            status, content, headers = ANSWERS[path]
            self._answer(status, content, headers, body)
        elif path == "/api/models/bad/endless":
            self._endless()
        elif path.startswith("/api/models/"):
            self._answer(200, json.dumps(self._info(path)).encode(), {}, body)
        else:
            content = FILES.get(path.rpartition("/")[2])
            found = {"X-Repo-Commit": COMMIT, "ETag": f'"{path.rpartition("/")[2]}"'}
            self._answer(200 if content is not None else 404, content or b"", found, body)

    def _endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" " * 2**20)
        except OSError:
            self.close_connection = True

    def _info(self, path: str) -> dict[str, Any]:
        files = {"model.gguf": b"x"} if "only-gguf" in path else FILES
        siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
        return {
            "id": "/".join(path.split("/")[3:5]),
            "sha": COMMIT,
            "gated": False,
            "siblings": siblings,
            "cardData": CARD,
        }

    def _answer(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence: the standard error belongs to the tests."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


ASK = """
import json, sys
from draftpick.catalog import load
from draftpick.errors import NotResolvable
from draftpick.models import resolve
for model_id in sys.argv[2:]:
    try:
        found = resolve(model_id, load(), revision=sys.argv[1] or None)
    except NotResolvable as error:
        print(json.dumps({"message": error.message, "hint": error.hint}))
    else:
        names = ("id", "origin", "revision", "family", "license", "gated", "weight_bytes", "vocab_size")
        lineage = {"base": found.lineage.base_model, "relation": found.lineage.relation}
        ids = found.tokenizer.named_ids if found.tokenizer else None
        print(json.dumps({**{name: getattr(found, name) for name in names}, **lineage, "ids": ids}))
"""


def ask(endpoint: str, home: Path, model_id: str, revision: str = "", **environment: str) -> dict[str, Any]:
    return ask_each(endpoint, home, model_id, revision=revision, **environment)[model_id]


def ask_each(
    endpoint: str, home: Path, *model_ids: str, revision: str = "", **environment: str
) -> dict[str, dict[str, Any]]:
    """In a process of their own: the client library reads its environment once."""
    settings = {"HOME": str(home), "HF_ENDPOINT": endpoint, "PATH": "/usr/bin:/bin", **environment}
    command = [sys.executable, "-c", ASK, revision, *model_ids]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=60, check=True)
    return dict(zip(model_ids, map(json.loads, done.stdout.splitlines()), strict=True))


def test_metadata_is_read_and_weights_are_not(hub: str, tmp_path: Path) -> None:
    Hub.asked.clear()
    found = ask(hub, tmp_path, "some-org/some-tune")
    assert found == {
        "id": "some-org/some-tune",
        "origin": "hub",
        "revision": COMMIT,
        "family": "Qwen",
        "license": "mit",
        "gated": False,
        "weight_bytes": 988_097_824,
        "vocab_size": 151_936,
        "base": "Qwen/Qwen2.5-0.5B-Instruct",
        "relation": "finetune",
        "ids": 2,
    }
    files = {path.rpartition("/")[2] for path in Hub.asked}
    assert {"config.json", "tokenizer.json", WEIGHTS} <= files
    assert not {name for name in files if name.endswith((".safetensors", ".bin", ".py"))}
    again = ask("http://127.0.0.1:9", tmp_path, "some-org/some-tune", HF_HUB_OFFLINE="1")
    assert (again["origin"], again["revision"]) == ("cache", COMMIT)


@pytest.mark.parametrize(
    ("model_id", "message", "hint"),
    [
        ("org/gated-model", "gated", "huggingface.co/org/gated-model"),
        ("org/absent-model", "not on the hub", "HF_TOKEN"),
        ("org/broken-model", "500", "try again"),
        ("org/only-gguf", "GGUF", "download"),
    ],
)
def test_what_the_hub_refuses_is_told(hub: str, tmp_path: Path, model_id: str, message: str, hint: str) -> None:
    error = ask(hub, tmp_path, model_id)
    assert message in error["message"]
    assert hint in error["hint"]


def test_whatever_the_hub_answers_ends_in_a_clear_error(hub: str, tmp_path: Path) -> None:
    for name, error in ask_each(hub, tmp_path, *(f"bad/{name}" for name in (*BAD, "endless"))).items():
        assert name in error["message"]
        assert "\n" not in error["message"]
        assert error["hint"], name


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HF_ENDPOINT", "http://[::1"),
        ("HF_ENDPOINT", "http://127.0.0.1:99999"),
        ("HF_ENDPOINT", "nonsense"),
        ("HF_HUB_ETAG_TIMEOUT", "soon"),
        ("HF_HOME", "/dev/null"),
    ],
)
def test_a_client_that_cannot_start_is_told(hub: str, tmp_path: Path, variable: str, value: str) -> None:
    error = ask(hub, tmp_path, "some-org/some-model", **{variable: value})
    assert "some-org/some-model" in error["message"]


def test_a_hub_out_of_reach_is_told(tmp_path: Path) -> None:
    error = ask("http://127.0.0.1:9", tmp_path, "some-org/some-model")
    assert "cannot be reached" in error["message"]


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_nothing_is_asked_offline(variable: str, hub: str, tmp_path: Path) -> None:
    Hub.asked.clear()
    assert "offline" in ask(hub, tmp_path, "some-org/some-model", **{variable: "1"})["message"]
    assert Hub.asked == []
