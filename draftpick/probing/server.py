"""Which model and engine stand behind an address: an engine is a row here, and a file of its own with its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftpick.errors import UsageError
from draftpick.probing.api import (
    MOST_ID,
    About,
    BadAnswer,
    Server,
    believed,
)
from draftpick.probing.api_llama import LlamaCpp
from draftpick.probing.api_sglang import Sglang
from draftpick.probing.api_vllm import Vllm
from draftpick.probing.client import Client, NotServed, Refused

_LONGEST_NAME = 500


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
    models = believed(client, lambda: [_model(one) for one in listed["data"]])
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
    """One of the models that a server lists. Raises what `believed` expects."""
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
    return value if type(value) is int and 0 < value < MOST_ID else None
