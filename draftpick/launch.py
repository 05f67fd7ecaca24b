"""From a decision to the start-up configuration of an engine, without starting it and without the models.

What an engine is called with is a fact of its version and stands in the catalogue; here is decided what to write: the
pair, the number of tokens, or the plain start where nothing is drafted, and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from draftpick.errors import UsageError
from draftpick.launch_text import Filler, command_line, here_document, word, yaml_text
from draftpick.pair import Engine
from draftpick.rules.engine import most_tokens
from draftpick.rules.engine_facts import covers, in_version, table_of

PLAIN = "none"
"""The method of a start without speculation."""
LOOKED_FOR = 5
"""The longest n-gram that is looked for: vLLM's default, and that of the replay."""
MOST_CAPTURED = 512
"""Tokens of a decode step up to which vLLM captures graphs by default."""
_ACCELERATORS = {"nvidia": "cuda", "amd": "cuda", "huawei": "npu", "apple": "mps", "generic": "cpu"}
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Step(NamedTuple):
    """Something to do, in order."""

    title: str
    language: Literal["sh", "python", "json"]
    text: str


class LeftOut(NamedTuple):
    """Something that was asked for, or decided, and is not in the steps."""

    what: str
    why: str


class Launch(NamedTuple):
    """How an engine is started for a decision."""

    engine: str
    name: str
    """Of the engine, for people."""
    version: str
    """The version it was written for."""
    target: str
    draft: str | None
    method: str | None
    """None: the plain start."""
    num_spec_tokens: int | None
    steps: tuple[Step, ...]
    """The first one is what is piped to a file. None where nothing is known of this version."""
    cautions: tuple[str, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def as_decided(self) -> bool:
        """Whether what was decided, or asked for, is what the steps do."""
        return bool(self.steps) and not any(left.what == "speculation" for left in self.left_out)


class Place(NamedTuple):
    """Where and for what the engine is started; None: its own default."""

    vendor: str | None = None
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    trust_remote_code: bool = False
    temperature: float | None = None
    stop_rule: str | None = None


class Wanted(NamedTuple):
    """What shall be started."""

    target: str
    engine: Engine
    place: Place = Place()
    method: str | None = None
    """None: nothing is drafted, `why_plain` says why."""
    draft: str | None = None
    num_spec_tokens: int | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    """(from, to, k): the k by sequences at once."""
    revision: str | None = None
    draft_revision: str | None = None
    rows: str | None = None
    """equal or differ: the embedding rows of target and draft; None where one is not known."""
    target_quantization: str | None = None
    """Of the checkpoint itself."""
    mtp_layers: int | None = None
    why_plain: str = ""
    refused: str = ""
    """Why the engine does not take the pair; empty where nothing is known against it."""
    cautions: tuple[str, ...] = ()


# ---------------------------------------------------------------------- writing


def launch(wanted: Wanted) -> Launch:
    """The start-up configuration. Raises UsageError for names that no command line can hold, and an impossible k."""
    for name in filter(None, (wanted.target, wanted.draft, wanted.revision, wanted.draft_revision)):
        _check_name(name)
    facts = wanted.engine.facts.get("launch", {})
    cautions = list(wanted.cautions)
    left: list[LeftOut] = []
    if not facts or covers(wanted.engine, facts) is not True:
        why = f"how {wanted.engine.name} {wanted.engine.version} is started was not read"
        return _result(wanted, None, (), cautions, [LeftOut("start-up configuration", _window(facts, why))])
    if _newer(wanted.engine):
        cautions.append(f"The flags were read for {wanted.engine.facts['version']}, which is older.")
    row, drafting = _method_row(wanted, left)
    if wanted.method is None and wanted.why_plain:
        cautions.insert(0, wanted.why_plain)
    if drafting is not None:
        _check_k(wanted)
    steps = _steps(wanted, facts, row, drafting, cautions, left)
    return _result(wanted, drafting, steps, cautions, left)


def _result(
    wanted: Wanted, drafting: str | None, steps: Sequence[Step], cautions: Sequence[str], left: Sequence[LeftOut]
) -> Launch:
    return Launch(
        engine=wanted.engine.key,
        name=wanted.engine.name,
        version=wanted.engine.version,
        target=wanted.target,
        draft=wanted.draft if drafting else None,
        method=drafting,
        num_spec_tokens=wanted.num_spec_tokens if drafting else None,
        steps=tuple(steps),
        cautions=tuple(dict.fromkeys(cautions)),
        left_out=tuple(dict.fromkeys(left)),
    )


def _check_name(name: str) -> None:
    """A name that a shell, a JSON text and the engine's parser take as one name."""
    unsafe = _UNSAFE.search(name)
    if unsafe is not None:
        shown = name.encode("unicode_escape", "backslashreplace").decode()[:80]
        raise UsageError(f"the name {shown!r} holds a control character", "rename the folder, or correct the file")
    if not name.strip():
        raise UsageError("a model has an empty name", "correct the file")
    if name.startswith("-"):
        raise UsageError(f"the name {name[:80]!r} begins with a dash", "write ./ before it")


def _newer(engine: Engine) -> bool:
    """Whether the engine is newer than the version that its facts hold for."""
    read = engine._replace(version=str(engine.facts["version"]))
    return covers(read, {"until": engine.version}) is True


def _window(row: Mapping[str, Any], why: str) -> str:
    known = " ".join(f"{say} {row[key]}" for key, say in (("since", "from"), ("until", "before")) if key in row)
    return f"{why}; what is known holds {known}" if known else why


def _method_row(wanted: Wanted, left: list[LeftOut]) -> tuple[Mapping[str, Any] | None, str | None]:
    """The row that says how to start, and the method it drafts by: None with a reason where only a plain start is."""
    engine = wanted.engine
    rows = engine.facts["launch"].get("method", ())
    plain = _first_row(wanted, PLAIN, rows)[0]
    if wanted.method is None:
        return plain, None
    why = wanted.refused or _refusal(wanted)
    if not why:
        row, somewhen = _first_row(wanted, wanted.method, rows)
        if row is not None:
            return row, wanted.method
        why = f"how {engine.name} {engine.version} is told {wanted.method} was not read"
        if somewhen is not None:
            why = _window(somewhen, why)
    left.append(LeftOut("speculation", why))
    return plain, None


def _first_row(
    wanted: Wanted, method: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The first row of the method that holds, and the last one that would in another version."""
    filler = Filler(wanted.engine, {"rows": wanted.rows})
    somewhen = None
    for row in rows:
        if method in row["names"]:
            if filler.holds(row):
                return row, None
            somewhen = row if "rows" not in row or row["rows"] == wanted.rows else somewhen
    return None, somewhen


def _refusal(wanted: Wanted) -> str:
    """Why this version of the engine does not take the method or the pair, by facts that need no model."""
    engine = wanted.engine
    table = table_of(engine)
    method = table.methods.get(wanted.method or "")
    if method is None or method.support == "unknown":
        return f"whether {engine.name} {engine.version} has {wanted.method} is not known"
    if method.support == "no":
        return method.note or f"{engine.name} {engine.version} has no {wanted.method}"
    rule = str(table.vocabulary.get("rule"))
    unequal = wanted.draft and wanted.rows == "differ" and wanted.method in ("draft_model", "pard")
    if unequal and rule in ("equal-rows", "equal-rows-and-map") and table.bridge is None:
        return f"target and draft have unequal numbers of embedding rows, which {engine.name} refuses"
    return ""


def _check_k(wanted: Wanted) -> None:
    k, engine, method = wanted.num_spec_tokens, wanted.engine, wanted.method or ""
    if k is None or k < 1:
        raise UsageError("no number of speculative tokens is known", "name one with -k")
    most = most_tokens(engine, method)
    if most is not None and k > most:
        facts = table_of(engine).methods[method].facts
        note = facts.get("max_note") or table_of(engine).limits.get("note", "")
        raise UsageError(f"num_spec_tokens {k} is above {most} in {engine.name}: {note}", f"give -k {most} or less")
    layers = wanted.mtp_layers
    reused = table_of(engine).methods[method].facts.get("multiple_of_layers")
    if method == "mtp" and reused and layers and k > layers and k % layers:
        raise UsageError(f"num_spec_tokens {k} is no multiple of the {layers} MTP layers", f"give -k {k - k % layers}")


# ---------------------------------------------------------------------- steps


def _steps(
    wanted: Wanted,
    facts: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    drafting: str | None,
    cautions: list[str],
    left: list[LeftOut],
) -> list[Step]:
    filler = Filler(wanted.engine, _values(wanted, drafting, cautions))
    what = _title(wanted, drafting)
    settings = _settings(wanted, facts, filler, cautions, left)
    first = _written(what, facts, row, settings, filler)
    if row is not None:
        cautions += [text for text in map(filler.value, row.get("cautions", ())) if text is not None]
    if drafting is not None:
        needs = table_of(wanted.engine).methods[drafting].facts.get("needs")
        cautions += [_sentence(needs)] if needs and not _is_set(needs, first) else []
        cautions += _traps(wanted, facts)
    cautions += filler.reasons
    if drafting is None or len({k for _, _, k in wanted.schedule}) < 2:
        return first
    return [*first, *_by_sequences(wanted, facts, row or {}, drafting, settings, filler, cautions, left)]


def _is_set(needs: str, steps: Sequence[Step]) -> bool:
    """Whether what a method needs is an option that these steps set."""
    option = re.search(r"(\S+) must be set", needs)
    return option is not None and any(option[1] in step.text for step in steps)


def _sentence(text: str) -> str:
    """With a capital, but for the name of an option or a package."""
    first = text.partition(" ")[0]
    return f"{text[:1].upper() if first.isalpha() else text[:1]}{text[1:]}."


def _by_sequences(
    wanted: Wanted,
    facts: Mapping[str, Any],
    row: Mapping[str, Any],
    drafting: str,
    settings: list[list[str]],
    filler: Filler,
    cautions: list[str],
    left: list[LeftOut],
) -> list[Step]:
    """The same with a number of tokens by sequences at once; nothing, and why, where the version has no option."""
    varied = Filler(wanted.engine, {**filler.values, **_by_batch(wanted, drafting)})
    fixed = Filler(wanted.engine, {**varied.values, "ranges": None, "upper_bounds": None})
    title = f"Instead: {_title(wanted, drafting, 'by sequences at once')}"
    steps = _written(title, facts, row, settings, varied)
    if steps == _written(title, facts, row, settings, fixed):
        why = f"with {drafting} {wanted.engine.name} has no option for it that was read"
        why = varied.reasons[-1] if varied.reasons else facts.get("no_schedule", why)
        left.append(LeftOut("a number of tokens by sequences at once", why))
        return []
    cautions += [text for text in map(varied.value, row.get("schedule_cautions", ())) if text is not None]
    return steps


def _title(wanted: Wanted, drafting: str | None, tokens: str = "") -> str:
    start = f"Start {wanted.engine.name} {wanted.engine.version}"
    if drafting is None:
        return f"{start} without speculation"
    who = f" with {wanted.draft}" if wanted.draft else ""
    return f"{start}{who} ({drafting}, num_spec_tokens {tokens or wanted.num_spec_tokens})"


def _written(
    title: str,
    facts: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    settings: list[list[str]],
    filler: Filler,
) -> list[Step]:
    """The steps of one start: a script, a file and the words behind it, or one command."""
    row = row or {}
    if "script" in row:
        return [Step(title, "python", filler.script(row["script"]))]
    if "command" not in facts:
        return _keys_of_a_file(title, row, filler)
    steps, before = [], ""
    if "file" in row:
        before = here_document(row["file"]["name"], yaml_text(filler.value(row["file"]["content"])))
    groups = [*settings, *filler.groups(row.get("words", ()))]
    steps.append(Step(title, "sh", before + _commands(facts, groups, row, filler)))
    return steps


def _commands(facts: Mapping[str, Any], groups: list[list[str]], row: Mapping[str, Any], filler: Filler) -> str:
    first = filler.groups([facts["command"]])[0]
    devices = int(filler.values["devices"])
    if not facts.get("per_device"):
        return command_line(first, groups) + "\n"
    lines = []
    for rank in range(devices):
        own = Filler(filler.engine, {**filler.values, "rank": rank, "port": facts["port"] + rank})
        parts = [*own.groups(facts["each"]), *groups, *own.groups(row.get("each", ()))]
        lines.append(command_line(first, parts))
    return "\n".join([*(f"{line} &" for line in lines), "wait"] if devices > 1 else lines) + "\n"


def _keys_of_a_file(title: str, row: Mapping[str, Any], filler: Filler) -> list[Step]:
    import json

    if not row:
        return []
    content = json.dumps(filler.value(row["file"]["content"]), ensure_ascii=False, indent=2)
    then = command_line([word(part) for part in row["then"]], ())
    return [Step(row["file"]["title"], "json", f"{content}\n"), Step(title, "sh", f"{then}\n")]


def _settings(
    wanted: Wanted, facts: Mapping[str, Any], filler: Filler, cautions: list[str], left: list[LeftOut]
) -> list[list[str]]:
    """The words of each setting that was asked for; what has none is said."""
    found: list[list[str]] = []
    known = facts.get("settings", {})
    for name, value in _asked(wanted).items():
        entry = known.get(name)
        if entry is None:
            left.append(LeftOut(f"{name} {value}", f"no option of {wanted.engine.name} for it is known"))
            continue
        table = entry if isinstance(entry, Mapping) else {"words": entry}
        if "missing" in table:
            left.append(LeftOut(f"{name} {value}", table["missing"]))
        elif not _accepted(value, table.get("accepts")):
            left.append(
                LeftOut(f"{name} {value}", table.get("else", f"{wanted.engine.name}'s name for it is not known"))
            )
        else:
            found += filler.groups([table["words"]]) if "words" in table else []
            cautions += [table["say"]] if "say" in table else []
    return found


def _asked(wanted: Wanted) -> dict[str, Any]:
    place = wanted.place
    asked = {
        "tensor_parallel_size": place.tensor_parallel_size if place.tensor_parallel_size > 1 else None,
        "max_model_len": place.max_model_len,
        "max_num_seqs": place.max_num_seqs,
        "dtype": place.dtype,
        "quantization": _quantization(wanted),
        "kv_cache_dtype": place.kv_cache_dtype,
        "gpu_memory_utilization": place.gpu_memory_utilization,
        "trust_remote_code": True if place.trust_remote_code else None,
        "revision": wanted.revision,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _quantization(wanted: Wanted) -> str | None:
    """What the engine must be told of it: the checkpoint's own only where it can't see it by itself."""
    own, asked = wanted.target_quantization, wanted.place.quantization
    entry = wanted.engine.facts["launch"].get("settings", {}).get("quantization", {})
    if isinstance(entry, Mapping) and entry.get("own"):
        return asked or own
    return asked if asked != own else None


def _accepted(value: Any, known: Sequence[str] | None) -> bool:
    if known is None:
        return True
    text = str(value).lower()
    return any(text.startswith(one[:-1]) if one.endswith("*") else text == one for one in known)


def _traps(wanted: Wanted, facts: Mapping[str, Any]) -> list[str]:
    """Names that an engine takes for a method, whatever it is told."""
    draft = (wanted.draft or "").lower()
    if wanted.method not in ("draft_model", "pard"):
        return []
    found = [trap for trap in facts.get("name_traps", ()) if trap in draft]
    text = (
        "{} reads {!r} in the draft's name and takes it for such a head, whatever the method says: rename the folder."
    )
    return [text.format(wanted.engine.name, trap) for trap in found]


# ---------------------------------------------------------------------- values


def _values(wanted: Wanted, drafting: str | None, cautions: list[str]) -> dict[str, Any]:
    """What templates are filled with; None where it is not known or not asked for."""
    place, k = wanted.place, wanted.num_spec_tokens if drafting else None
    many = place.tensor_parallel_size > 1
    target, draft = _files(wanted, drafting, cautions)
    assumed = wanted.engine.facts["launch"].get("accelerator")
    accelerator = _ACCELERATORS.get(place.vendor or "", assumed)
    if assumed is not None and place.vendor is None:
        cautions.append(f"The device is taken to be {assumed}, as none was named.")
    stop = in_version(wanted.engine, "step_overhead")
    rule = place.stop_rule or str(stop.get("stop", "fixed"))
    values: dict[str, Any] = {
        **_asked(wanted),
        "target": target,
        "target_name": PurePath(wanted.target).name,
        "draft": draft,
        "draft_revision": wanted.draft_revision,
        "method": drafting,
        "k": k,
        "k_plus_1": k + 1 if k is not None else None,
        "ngram_size": min(k, LOOKED_FOR) if k is not None else None,
        "mtp_folder": wanted.draft or f"{PurePath(wanted.target).name}-mtp",
        "devices": place.tensor_parallel_size,
        "trusted": place.trust_remote_code,
        "context": place.max_model_len * (place.max_num_seqs or 1) if place.max_model_len is not None else None,
        "rows": wanted.rows,
        "quantized": bool(place.quantization or wanted.target_quantization),
        "capture_sizes": capture_sizes(k, place.max_num_seqs) if k is not None else None,
        "accelerator": accelerator,
        "torch_device": f"{accelerator}:0" if accelerator in ("cuda", "npu") else accelerator,
        "load_target": _load(place, wanted.revision, many),
        "load_draft": _load(place, wanted.draft_revision, many),
        "options": {"max_new_tokens": 128, **_sampling(place.temperature)},
        "stop_threshold": float(stop.get("stop_threshold", 0.0)) if rule == "confidence" else 0.0,
        "stop_schedule": "heuristic" if rule == "heuristic" else "constant",
    }
    return values


def _files(wanted: Wanted, drafting: str | None, cautions: list[str]) -> tuple[str, str | None]:
    """The names as the engine can load them."""
    names: list[str | None] = [wanted.target, wanted.draft if drafting else None]
    if wanted.engine.facts.get("gguf") != "only":
        return wanted.target, names[1]
    as_files = [
        f"{PurePath(name).name}.gguf" if name and not name.lower().endswith(".gguf") else name for name in names
    ]
    changed = [f"{new} for {old}" for old, new in zip(names, as_files, strict=True) if new != old]
    if changed:
        cautions.append(f"{wanted.engine.name} reads GGUF files: put the names of yours ({', '.join(changed)}).")
    return as_files[0] or wanted.target, as_files[1]


def capture_sizes(k: int, max_num_seqs: int | None) -> list[int] | None:
    """Sizes of captured decode graphs: multiples of k + 1 for some numbers of sequences up to the most at once."""
    if max_num_seqs is None:
        return None
    counts = [1, 2, 4, *range(8, 257, 8), max_num_seqs]
    most = MOST_CAPTURED // (k + 1)
    return [count * (k + 1) for count in sorted(set(counts)) if count <= min(max_num_seqs, most)]


def _by_batch(wanted: Wanted, drafting: str) -> dict[str, Any]:
    """The schedule as engines want it: ranges, or the last batch of each k; above the last one nothing is drafted.

    The number of tokens itself is the largest of them: engines cap the others by it.
    """
    most = most_tokens(wanted.engine, drafting)
    parts = [(first, last, min(k, most or k)) for first, last, k in wanted.schedule]
    bounds = {last: k for _, last, k in parts}
    while bounds and list(bounds.values())[-1] == 0:
        bounds.popitem()
    largest = max(k for _, _, k in parts)
    by_batch = {"ranges": [list(part) for part in parts], "upper_bounds": bounds or None}
    return {**by_batch, "k": largest, "k_plus_1": largest + 1}


def _load(place: Place, revision: str | None, many: bool) -> dict[str, Any]:
    """Keyword arguments of `from_pretrained`."""
    found: dict[str, Any] = {"dtype": place.dtype or "auto"}
    if revision is not None:
        found["revision"] = revision
    if place.trust_remote_code:
        found["trust_remote_code"] = True
    if many:
        found["device_map"] = "auto"
    return found


def _sampling(temperature: float | None) -> dict[str, Any]:
    if temperature is None:
        return {}
    return {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
