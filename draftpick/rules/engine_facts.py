"""The facts of an engine, and how they are resolved for one version.

They live in catalog/engines/<key>.toml, one file per engine. Its tables:

    key, name, aliases, version, checked, source     `version` is the one the facts hold for
    notes = [..]                                     facts that hang on no pair, shown by `catalog show`
    gguf                                             only, some (in part) or no: whether it reads GGUF files
    builds = [{build = 9014, date = 2026-05-04}, ..] known build numbers, so that `b8000` and a date compare

    [vocabulary]
    rule            equal-rows, equal-rows-and-map, token-text, equal-rows-or-translate, named-ids or none
    severity        when a mismatch shows (see Severity of draftpick/engine_file.py)
    source
    rule = token-text also takes max_size_difference, first_compared_id and special_ids_always (ids of bos and eos
    are compared even where they are not added); a list `was = [{since, until, <parameter> = ..}]` changes any
    parameter for older versions.
    [vocabulary.bridge]                              an option that lets unequal vocabularies through
    name, since, until, note, source

    [methods.<name>]                                 one table per method; a method without a table is unknown
    support         yes, no, experimental or unknown
    since, until    outside: no
    note            why, or what to know; said unless support is yes
    needs           what must be installed or set: said with yes too, without changing the verdict
    max_num_spec_tokens, multiple_of_layers, reuses_layers
    was = [{since, until, support, note, severity}]  other versions, looked at first
    source

    [architectures] which classes of models (`architecture` of a profile) it runs
    read            the oldest version that the facts were read from: in older ones a class without an entry is unknown
    since           class = version: refused before, as it is absent from the release before
    seen            class = version: unknown before, as no release just before was read
    stand_in        from this version on transformers' own code may run what the engine lacks: unknown, not refused
    source, checked

    [limits]        max_num_spec_tokens and its note, source and severity
    [tensor_parallel]
    <method> or any = equal (the draft runs on as many devices as the target) or one-or-equal
    was = [{since, until, <method> = ..}], severity, source

    [[exceptions]]  what goes wrong with certain models or settings, whatever the vocabulary
    methods         absent: all
    target, draft, head, either, setting, device, pair   conditions; all must hold
    since, until    version window, until is the first version where it no longer holds
    verdict         refused, care or unknown
    severity, reason, source, certain = false            (the window is not exactly known)

    [launch]        how it is started: draftpick/launch_text.py says what its tables mean

Conditions of target, draft, head and either (target or draft) name a field of ModelProfile or Head, or one of moe,
vision, mtp, reduced_vocab; setting names a field of Setting; device one of Device. A wanted value is true/false,
a number, a comparison (">1"), a text that may begin or end with * and may be turned round with a leading "!", or a
list of which one must fit (of a list of "!" texts all must). What is not known does not match: nothing is held
against a pair on a guess.
Conditions of pair: rows = equal | differ, relation = [kinds], quantization = differ, hidden_size = differ,
context = short (the draft's or head's positions end before max_model_len), positions = stretched (the target's own do).

Versions: releases (0.9.0, 0.13rc1), builds (b4500) or dates (2025, 2026-05, 2026-05-04).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from draftpick.pair import Engine
from draftpick.rules.conditions import Condition, conditions
from draftpick.versions import Clock, is_newest, parsed, window

VerdictKind = Literal["accepted", "care", "refused", "unknown"]


class Method(NamedTuple):
    """What a version of an engine makes of one method."""

    support: str
    note: str
    severity: str | None
    bound: bool
    """Refused by this version only: another takes it."""
    facts: Mapping[str, Any]


class ExceptionRow(NamedTuple):
    """What goes wrong where all its conditions hold."""

    conditions: tuple[Condition, ...]
    verdict: VerdictKind
    reason: str
    severity: str | None


class Lack(NamedTuple):
    """What a version of an engine makes of a class of models that it does not have, or perhaps not."""

    verdict: VerdictKind
    reason: str
    severity: str | None = None


class Table(NamedTuple):
    """The facts of an engine resolved for one version, so that a verdict compares no versions."""

    methods: Mapping[str, Method]
    architectures: Mapping[str, Lack | None]
    """By class; None: this version runs it."""
    unread: Lack | None
    """What is said of any other class; None for a version that was read."""
    vocabulary: Mapping[str, Any]
    bridge: Mapping[str, Any] | None
    tensor_parallel: Mapping[str, Any]
    exceptions: Mapping[str, tuple[ExceptionRow, ...]]
    anywhere: tuple[ExceptionRow, ...]
    limits: Mapping[str, Any]
    note: str | None


_TABLES: dict[tuple[int, str], tuple[Mapping[str, Any], Table]] = {}


def table_of(engine: Engine) -> Table:
    """The facts of the engine in its version, resolved once."""
    # Keyed by identity: an overlay may give the same engine and version other facts. The kept reference holds the id.
    key = (id(engine.facts), engine.version)
    known = _TABLES.get(key)
    if known is None:
        if len(_TABLES) >= 64:
            _TABLES.clear()
        known = _TABLES[key] = (engine.facts, _resolve(engine))
    return known[1]


def _resolve(engine: Engine) -> Table:
    facts, version, note = engine.facts, engine.version, None
    current = str(facts.get("version", ""))
    if is_newest(version):
        note = f"version {version!r} is judged by the facts of {current}"
    elif parsed(version) is None:
        note = f"version {version!r} can't be read as one: what depends on the version is unknown"
    clock = Clock(facts, version)
    if note is None and Clock(facts, current).before(version):
        note = f"version {version!r} is newer than {current}, by whose facts it is judged"
    for older in facts.get("vocabulary", {}).get("was", ()):
        if note is None and clock.covers(older) is None:
            note = f"what {engine.name} compared before {older['until']} may still hold in {engine.version}"
    by_method, anywhere = _resolve_exceptions(facts.get("exceptions", ()), clock)
    bridge = facts.get("vocabulary", {}).get("bridge")
    architectures, unread = _resolve_architectures(facts.get("architectures", {}), clock, engine)
    return Table(
        methods={name: _resolve_method(name, row, clock, engine) for name, row in facts.get("methods", {}).items()},
        architectures=architectures,
        unread=unread,
        vocabulary=_with_was(facts.get("vocabulary", {}), clock),
        bridge=bridge if bridge is not None and clock.covers(bridge) is not False else None,
        tensor_parallel=_with_was(facts.get("tensor_parallel", {}), clock),
        exceptions=by_method,
        anywhere=anywhere,
        limits=facts.get("limits", {}),
        note=note,
    )


def in_version(engine: Engine, table: str) -> Mapping[str, Any]:
    """A plain table of the engine's file, with the older values that hold for the engine's version; empty: none."""
    key = (id(engine.facts), engine.version, table)
    known = _PLAIN_TABLES.get(key)
    if known is None:
        if len(_PLAIN_TABLES) >= 64:
            _PLAIN_TABLES.clear()
        row = engine.facts.get(table)
        found = _with_was(row, Clock(engine.facts, engine.version)) if isinstance(row, Mapping) else {}
        known = _PLAIN_TABLES[key] = (engine.facts, found)
    return known[1]


def covers(engine: Engine, row: Mapping[str, Any]) -> bool | None:
    """Whether the row's window (since, until) holds the engine's version; None where that can't be told."""
    return Clock(engine.facts, engine.version).covers(row)


_PLAIN_TABLES: dict[tuple[int, str, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}


def _with_was(row: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """A table with the parameters of the version put over the current ones."""
    for older in row.get("was", ()):
        if clock.covers(older):
            return {**row, **older}
    return row


def _resolve_method(name: str, row: Mapping[str, Any], clock: Clock, engine: Engine) -> Method:
    for older in row.get("was", ()):
        if clock.covers(older):
            refused = older["support"] == "no"
            return Method(older["support"], older.get("note", ""), older.get("severity"), refused, row)
    support, note = str(row["support"]), str(row.get("note", ""))
    covered = clock.covers(row)
    if covered is False and support != "no":
        window = " ".join(f"{word} {row[key]}" for key, word in (("since", "from"), ("until", "until")) if key in row)
        return Method("no", f"{engine.name} has {name} {window}, not in {engine.version}", None, True, row)
    if covered is None and support != "no":
        return Method(
            "unknown", f"{name} exists in some versions of {engine.name}: {note}".rstrip(": "), None, True, row
        )
    return Method(support, note, row.get("severity"), False, row)


def _resolve_architectures(
    table: Mapping[str, Any], clock: Clock, engine: Engine
) -> tuple[Mapping[str, Lack | None], Lack | None]:
    """What the version makes of each class that has an entry, and of all others."""
    stand_in = "stand_in" in table and clock.covers({"since": table["stand_in"]}) is not False
    found: dict[str, Lack | None] = {}
    for kind in ("since", "seen"):
        for name, first in table.get(kind, {}).items():
            covered = clock.covers({"since": first})
            if covered:
                found[name] = None
            elif covered is None or kind == "seen":
                found[name] = _unread(name, f"it is known to from {first}", engine)
            elif stand_in:
                why = f"{engine.name} has it from {first}, and transformers' own code may stand in before"
                found[name] = _unread(name, why, engine)
            else:
                lacks = f"{engine.name} runs {name} from {first}, not in {engine.version}"
                found[name] = Lack("refused", lacks, "refuses at start")
    read = table.get("read")
    if read is None or clock.covers({"since": read}):
        return found, None
    return found, _unread("{architecture}", f"what it runs was read from version {read} on", engine)


def _unread(name: str, why: str, engine: Engine) -> Lack:
    return Lack("unknown", f"whether {engine.name} {engine.version} runs {name} is not known: {why}")


def _resolve_exceptions(
    rows: Iterable[Mapping[str, Any]], clock: Clock
) -> tuple[dict[str, tuple[ExceptionRow, ...]], tuple[ExceptionRow, ...]]:
    by_method: dict[str, list[ExceptionRow]] = {}
    anywhere: list[ExceptionRow] = []
    for row in rows:
        covered = clock.covers(row)
        if covered is False:
            continue
        verdict, reason = row["verdict"], row["reason"]
        if covered is None:
            verdict, reason = "care", f"{reason} (in some versions: {window(row)})"
        elif row.get("certain") is False:
            reason = f"{reason} ({window(row)}; the exact versions are not known)"
        found = ExceptionRow(conditions(row), verdict, reason, row.get("severity"))
        if "methods" not in row:
            anywhere.append(found)
        for method in row.get("methods", ()):
            by_method.setdefault(method, []).append(found)
    return {method: tuple(found) for method, found in by_method.items()}, tuple(anywhere)
