"""The catalogue: models, heads, tokenizers, engines and devices that draftpick knows.

Nobody else opens those files. The start-up path reads one compiled JSON index; overlays of the user are read as
TOML, validated and laid over it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from draftpick.errors import UsageError
from draftpick.models.profile import Experts, LatentAttention, Lineage, ModelProfile
from draftpick.models.tokenizer import Fingerprint
from draftpick.pair import Device, Engine, Head

Record = dict[str, Any]

_HERE = Path(__file__).parent
_NESTED = {"experts": Experts, "latent": LatentAttention, "lineage": Lineage}
_NOT_IN_PROFILE = frozenset({"aliases", "source", "checked", "param_check", "params_active_vendor"})
_NOT_IN_FINGERPRINT = frozenset(
    {"stands_for", "source", "checked", "confidence", "embedding_rows", "repos", "head", "control_dropped"}
)

_LONGEST_VERSION = 60
_MEMORY_DIFFERS = 0.15
"""|ln| of memory seen over memory of a row, up to which they are one: what drivers take, and GB against GiB."""
_MEMORY_TELLS = 0.1
"""By how much of that the second row must be further away."""


def source_folder() -> Path | None:
    """The catalogue's text files, where they lie beside the package (a checkout or an editable install)."""
    folder = _HERE.parent / "catalog"
    return folder if (folder / "families").is_dir() else None


def packed_folder() -> Path:
    """The catalogue's text files: those of the checkout, or those that came with the package."""
    return source_folder() or _HERE / "_data" / "catalog"


def user_folder() -> Path | None:
    """Where a user's own overlay lies; None for a user without a home, as in a container."""
    places = (os.environ.get("XDG_CONFIG_HOME", ""), os.path.join(os.path.expanduser("~"), ".config"))
    # A relative place is none, says the XDG specification; ~ stays ~ where nobody has a home.
    base = next((place for place in places if os.path.isabs(place)), None)
    return Path(base) / "draftpick" / "catalog" if base is not None else None


@cache
def _compiled(name: str) -> bytes:
    path = _HERE / "_data" / name
    if path.is_file():
        with open(path, "rb") as file:
            return file.read()
    from draftpick.catalog_index import compile_index

    return compile_index(packed_folder())[name]


@cache
def _parsed(name: str) -> Any:
    return json.loads(_compiled(name))


class _Lines(Mapping[str, Record]):
    """Records that stand one a line in a compiled file; each is parsed when somebody looks."""

    def __init__(self, name: str, places: Mapping[str, tuple[int, int]]) -> None:
        self._name = name
        self._places = places
        self._seen: dict[str, Record] = {}

    def __getitem__(self, key: str) -> Record:
        known = self._seen.get(key)
        if known is None:
            start, end = self._places[key]
            known = self._seen[key] = json.loads(_compiled(self._name)[start:end])
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


class Catalog:
    """The compiled index with overlays laid over it."""

    def __init__(self, index: Mapping[str, Any]) -> None:
        self._index = index
        self._profiles: dict[str, ModelProfile] = {}
        self._fingerprints: dict[str, Fingerprint] = {}
        self._issues: dict[str, Sequence[Record]] = {}

    @property
    def date(self) -> str:
        """The newest date on which a record was checked."""
        return str(self._index["date"])

    @property
    def models(self) -> Mapping[str, Record]:
        """Model records by id, as compiled."""
        return self._index["models"]  # type: ignore[no-any-return]

    @property
    def traits(self) -> Mapping[str, list[Any]]:
        """Of each model: family, tokenizer, vocab_size, params_active, params_text, params_total."""
        return self._index["traits"]  # type: ignore[no-any-return]

    @property
    def tokenizer_traits(self) -> Mapping[str, list[Any]]:
        """Of each tokenizer: family, core, and the keys of those said to have its ids of text."""
        return self._index["tokenizer_traits"]  # type: ignore[no-any-return]

    @property
    def heads(self) -> Mapping[str, Record]:
        return self._index["heads"]  # type: ignore[no-any-return]

    @property
    def engines(self) -> Mapping[str, Record]:
        return self._index["engines"]  # type: ignore[no-any-return]

    @property
    def devices(self) -> Mapping[str, Record]:
        return self._index["devices"]  # type: ignore[no-any-return]

    @property
    def tokenizers(self) -> Mapping[str, Record]:
        return self._index["tokenizers"]  # type: ignore[no-any-return]

    @property
    def issues(self) -> Mapping[str, Record]:
        return self._index["issues"]  # type: ignore[no-any-return]

    def record(self, kind: str, key: str) -> Record:
        """A whole record, its source and date included; `kind` is one of draftpick.catalog_index.KINDS."""
        record: Record = self._index[kind][key]
        if "source" in record:
            return record
        return {**record, **_parsed("details.json").get(kind, {}).get(key, {})}

    # ------------------------------------------------------------------ models

    def model_id(self, name: str) -> str | None:
        """The id a name stands for: an id, an alias, or an unambiguous name without its organisation."""
        if name in self.models:
            return name
        return self._names("names").get(name.strip().strip("/").lower())

    def _names(self, kind: str) -> Mapping[str, str]:
        """Lower-case names and aliases → id; an overlay has its own, the compiled ones are read when first needed."""
        found: Mapping[str, str] = self._index[kind] if kind in self._index else _parsed("names.json")[kind]
        return found

    def find(self, name: str) -> ModelProfile | None:
        model_id = self.model_id(name)
        return self.profile(model_id) if model_id is not None else None

    def profile(self, model_id: str) -> ModelProfile:
        """The profile of a catalogued id."""
        known = self._profiles.get(model_id)
        if known is None:
            known = self._profiles[model_id] = self._read_profile(model_id, self.models[model_id])
        return known

    def _read_profile(self, model_id: str, record: Record) -> ModelProfile:
        fields = {key: value for key, value in record.items() if key not in _NOT_IN_PROFILE}
        for key, kind in _NESTED.items():
            if key in fields:
                fields[key] = kind(**fields[key])
        if stock := self._index["stock"].get(model_id):
            lineage = fields.get("lineage", Lineage())
            fields["lineage"] = lineage._replace(stock=stock[0], stock_generation=stock[1])
        fields["uncertain"] = frozenset(fields.get("uncertain", ()))
        fields["notes"] = tuple(fields.get("notes", ()))
        fields["made_for"] = tuple(fields.get("made_for", ()))
        key = fields.pop("tokenizer", None)
        tokenizer = self.tokenizer(key, repository=model_id) if key else None
        origin = fields.pop("origin", "catalogue")
        return ModelProfile(**{**fields, "id": model_id, "origin": origin, "tokenizer": tokenizer})

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """Ids that a mistyped name may mean, best first."""
        from draftpick.catalog_names import nearest

        return nearest(name, self.models, n)

    def not_published(self, name: str) -> tuple[str, str] | None:
        """Text and nearest real id for a name people ask for that no model has."""
        row = self._index["not_published"].get(name.strip().strip("/").lower())
        return (row["text"], row["nearest"]) if row else None

    # ------------------------------------------------------------------ heads

    def head(self, name: str) -> Head | None:
        head_id = self._names("head_names").get(name.strip().lower())
        return _head(head_id, self.heads[head_id]) if head_id is not None else None

    def heads_for(self, target_id: str) -> list[Head]:
        """Published heads trained for exactly this target."""
        return [_head(key, self.heads[key]) for key in self._index["heads_by_target"].get(target_id, ())]

    # ------------------------------------------------------------------ tokenizers

    def tokenizer(self, key: str, *, repository: str | None = None) -> Fingerprint | None:
        """The light fingerprint of a catalogued tokenizer; verified where it was read from `repository` itself."""
        record = self.tokenizers.get(key)
        if record is None:
            return None
        verified = repository in record.get("repos", ())
        cache_key = key if not verified else f"{key}\0verified"
        known = self._fingerprints.get(cache_key)
        if known is None:
            fields = {name: value for name, value in record.items() if name not in _NOT_IN_FINGERPRINT}
            known = self._fingerprints[cache_key] = _fingerprint(key, fields, verified)
        return known

    def full_tokenizer(self, light: Fingerprint) -> Fingerprint:
        """A catalogued fingerprint with its blocks, sketch and control tokens; one the catalogue lacks as it is."""
        heavy = self._own_tokenizers.get(light.key) or self._heavy_tokenizers.get(light.key)
        if heavy is None or light.full is None:
            return light
        return light._replace(
            blocks=tuple(heavy.get("blocks", ())),
            sketch=tuple(heavy.get("sketch", ())),
            control={int(token): text for token, text in heavy.get("control", {}).items()},
            head=tuple(heavy.get("head", ())),
        )

    @cached_property
    def _heavy_tokenizers(self) -> Mapping[str, Record]:
        return _parsed("tokenizers.json")  # type: ignore[no-any-return]

    @property
    def _own_tokenizers(self) -> Mapping[str, Record]:
        """Blocks, sketch and texts of the fingerprints that came with overlays."""
        return self._index.get("heavy", {})  # type: ignore[no-any-return]

    def compares_here(self, *fingerprints: Fingerprint) -> bool:
        """Whether one of them came with an overlay: no measured relation holds for it."""
        return any(fingerprint.key in self._own_tokenizers for fingerprint in fingerprints)

    def by_full(self, digest: str) -> str | None:
        """The catalogue key of the tokenizer with this `full` digest."""
        keys: Mapping[str, str] = self._index["tokenizers_by_full"]
        return keys.get(digest)

    def measured_relation(self, target: Fingerprint, draft: Fingerprint) -> Mapping[str, str] | None:
        """The measured comparison of two tokenizers that both have a fingerprint in the catalogue."""
        if not target.full or not draft.full or target.full == draft.full:
            return None
        if target.full[:16] not in self._index["related"]:
            return None
        rows: Mapping[str, Mapping[str, str]] = _parsed(f"relations/{target.full[:16]}.json")
        return rows.get(draft.full[:16])

    # ------------------------------------------------------------------ engines and devices

    def engine(self, name: str) -> Engine:
        """An engine by `NAME` or `NAME@VERSION`.

        Raises UsageError for a name that is none of the engines draftpick knows.
        """
        asked, at, version = self._parted(name)
        if len(version) > _LONGEST_VERSION:
            raise UsageError(f"a version of {len(version):,} characters for {asked!r}", f"write {asked}@VERSION")
        if at and not version.strip():
            raise UsageError(f"no version stands behind the @ of {name!r}", f"write {asked}@VERSION, or {asked} alone")
        key = self._index["engine_names"].get(asked.lower())
        if key is None:
            raise _unknown("engine", asked, self._index["engine_names"], self.engines)
        facts = self.engines[key]
        return Engine(key=key, name=facts["name"], version=version or str(facts["version"]), facts=facts)

    def _parted(self, name: str) -> tuple[str, str, str]:
        """Name, @ and version, also of other spellings of one version: vllm==0.8.2, vllm-0.8.2, "vllm v0.8.2".

        Raises UsageError for a range of versions.
        """
        import re

        asked, at, version = name.strip().partition("@")
        if at:
            return asked, at, re.sub(r"^\s*[vV](?=\d)", "", version)
        if self._index["engine_names"].get(asked.lower()) is not None:
            return asked, at, version
        found = re.fullmatch(r"(.+?)\s*([=~<>!:]+|-|\s)\s*[vV]?(\d\S*)", asked[: 2 * _LONGEST_VERSION])
        key = self._index["engine_names"].get(found[1].lower()) if found is not None else None
        if found is None or key is None:
            return asked, at, version
        if found[2].strip("=-: "):
            raise UsageError(f"unknown engine {name[: 2 * _LONGEST_VERSION]!r}", f"write {key}@{found[3]}")
        return found[1], "@", found[3]

    def issues_of(self, engine: str) -> Sequence[Record]:
        """The known issues of an engine, by its key, as the catalogue writes them."""
        known = self._issues.get(engine)
        if known is None:
            keys = self._index["issues_by_engine"].get(engine, ())
            known = self._issues[engine] = [self.issues[key] for key in keys]
        return known

    @cached_property
    def all_engines(self) -> tuple[Engine, ...]:
        """Every engine, in the version the catalogue's facts hold for."""
        return tuple(self.engine(key) for key in self.engines)

    def device(self, name: str) -> Device:
        """A device by key or alias, however it is spelled. Raises UsageError for an unknown one.

        A name that several devices have gives the one that stands for them, with the others beside it.
        """
        from draftpick.catalog_names import device_name

        names, asked = self._index["device_names"], name.strip().lower()
        plain = device_name(asked)
        key = names.get(asked) or {device_name(known): key for known, key in names.items()}.get(plain)
        if key is None or not plain:
            raise _unknown("device", name, names, self.devices)
        row = self.devices[key]
        families = (one for one in row.get("stands_for", ()) if plain in map(device_name, one["names"]))
        others = next((tuple(one["others"]) for one in families), ())
        known = {field: value for field, value in row.items() if field in Device._fields}
        return Device(**known, key=key, asked=name.strip() if others else "", others=others)

    def device_seen(self, name: str, memory_bytes: int | None) -> Device:
        """The row of a device that is here, by what torch or its own tool calls it and by the memory they show.

        Where rows share a name, memory decides. Raises UsageError where no row has that name, or that much memory.
        """
        asked = name.strip().lower()
        for spelled in (asked, "-".join(asked.split()), asked.partition("_")[0]):
            rows = [key for key, row in self.devices.items() if spelled in row.get("shared_names", ())]
            if rows and (memory_bytes is not None or spelled not in rows):
                return self._by_memory(name, rows, memory_bytes)
            known = self._index["device_names"].get(spelled)
            if known is not None:
                return self._by_memory(name, [known], memory_bytes) if memory_bytes is not None else self.device(name)
        found = self.device(name)
        return found if memory_bytes is None else self._by_memory(name, [found.key, *found.others], memory_bytes)

    def _by_memory(self, name: str, keys: list[str], memory_bytes: int | None) -> Device:
        """The one of some rows that has about that much memory."""
        shown = f"{memory_bytes / 2**30:.1f} GiB" if memory_bytes is not None else "memory that is not shown"
        fits = {key: far for key in keys if (far := self._distance(key, memory_bytes)) <= _MEMORY_DIFFERS}
        best = min(fits, key=fits.__getitem__, default=None)
        if best is not None and all(far - fits[best] >= _MEMORY_TELLS for key, far in fits.items() if key != best):
            return self.device(best)
        which = f"may be {' or '.join(fits)}" if fits else f"is none of the catalogue's {' and '.join(keys)}"
        raise UsageError(
            f"{name[:60]} with {shown} {which}", f"name it, as --device {best or keys[0]}, and its memory with --memory"
        )

    def _distance(self, key: str, memory_bytes: int | None) -> float:
        """How far a row's memory, as it is sold or as the framework shows it, is from what was seen: |ln ratio|."""
        row = self.devices[key]
        sizes = [row[field] for field in ("memory_bytes", "memory_seen_bytes") if row.get(field)]
        if memory_bytes is None or not sizes:
            return 0.0
        return min(abs(math.log(max(memory_bytes, 1) / size)) for size in sizes)

    @cached_property
    def ascend_versions(self) -> Mapping[str, list[Record]]:
        """Releases that belong together: rows of torch_npu and of engines, the newest first."""
        return _parsed("ascend_versions.json")  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ iteration

    def profiles(self) -> Iterator[ModelProfile]:
        """Every model, as a profile."""
        return (self.profile(model_id) for model_id in self.models)


def _fingerprint(key: str, fields: Record, verified: bool) -> Fingerprint:
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Fingerprint(**{**fields, **lists, "key": key, "verified": verified})


def _head(head_id: str, record: Record) -> Head:
    fields = Head._fields
    kept = {name: value for name, value in record.items() if name in fields}
    kept["uncertain"] = frozenset(kept.get("uncertain", ()))
    return Head(**{**kept, "id": head_id})


def _unknown(kind: str, asked: str, names: Iterable[str], keys: Iterable[str]) -> UsageError:
    from difflib import get_close_matches

    within = [name for name in names if asked.lower() in name.replace("-", " ").split()]
    close = within[:3] or get_close_matches(asked.lower(), list(names), n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(keys)}"
    return UsageError(f"unknown {kind} {asked!r}", f"{hint} (`draftpick catalog list --kind {kind}s` shows all)")


def load(overlay: Path | None = None, *, without: str | None = None) -> Catalog:
    """The catalogue, with the user's own overlay and then `overlay` laid over it.

    `without` is the id of a model whose rows in overlays are left out, as one that is about to be replaced.
    Raises InvalidCatalog for an overlay that is not sound.
    """
    index = dict(_parsed("index.json"))
    for kind in ("models", "heads", "tokenizers", "engines", "devices", "issues"):
        index[kind] = _Lines(f"{kind}.jsonl", index[kind])
    folders = [
        folder for folder in (user_folder(), overlay) if folder is not None and (folder is overlay or folder.is_dir())
    ]
    if not folders:
        return Catalog(index)
    from draftpick.catalog_index import lay_over

    return Catalog(lay_over(index, _parsed("details.json"), folders, without=without))
