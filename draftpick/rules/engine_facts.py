"""The facts of an engine, and how they are resolved for one version.

They live in catalog/engines/<key>.toml, one file per engine. Its tables:

    key, name, aliases, version, checked, source     `version` is the one the facts hold for
    notes = [..]                                     facts that hang on no pair, shown by `catalog show`
    gguf                                             only, some (in part) or no: whether it reads GGUF files
    builds = [{build = 9014, date = 2026-05-04}, ..] known build numbers, so that `b8000` and a date compare

    [vocabulary]
    rule            equal-rows, equal-rows-and-map, token-text, equal-rows-or-translate, named-ids or none
    severity        when a mismatch shows (see SEVERITIES)
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

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import Engine, Head, Pair

VerdictKind = Literal["accepted", "care", "refused", "unknown"]

SEVERITIES = (
    "refuses at start",
    "fails at first request",
    "crashes under load",
    "corrupts",
    "silent no-op",
    "warns",
)
RULES = ("equal-rows", "equal-rows-and-map", "token-text", "equal-rows-or-translate", "named-ids", "none")
SUPPORT = ("yes", "no", "experimental", "unknown")

_NEWEST = frozenset({"main", "master", "nightly", "latest", "dev", "head"})
_LONGEST_VERSION = 60
_PHASES: Mapping[str, int] = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}


# ---------------------------------------------------------------------- versions


class _Version(NamedTuple):
    """A span of points of one scheme; only coarse dates (`2025`) and builds seen as dates have two ends."""

    scheme: Literal["release", "build", "date"]
    low: tuple[int, ...]
    high: tuple[int, ...]


@lru_cache(maxsize=512)
def _parse(text: str) -> _Version | None:
    """A version as something that compares; None where the text is no version."""
    text = text.strip().lower().lstrip("v").split("+", 1)[0]
    if len(text) > _LONGEST_VERSION or not text.isascii():
        return None
    if text[:1] == "b" and text[1:].isdigit():
        return _Version("build", (int(text[1:]),), (int(text[1:]),))
    date = _parse_date(text)
    if date is not None:
        return date
    point = _parse_release(text)
    return _Version("release", point, point) if point is not None else None


def _parse_date(text: str) -> _Version | None:
    parts = text.split("-")
    if len(parts) > 3 or not all(part.isdigit() for part in parts) or len(parts[0]) != 4 or not parts[0] >= "2000":
        return None
    numbers = tuple(int(part) for part in parts)
    return _Version("date", numbers + (1,) * (3 - len(numbers)), numbers + (99,) * (3 - len(numbers)))


def _parse_release(text: str) -> tuple[int, ...] | None:
    """Four numbers, then phase and number of a pre- or post-release: 0.13rc1 → (0, 13, 0, 0, -1, 1)."""
    numbers: list[int] = []
    phase = (0, 0)
    for part in text.replace("-", ".").replace("_", ".").split("."):
        digits = len(part) - len(part.lstrip("0123456789"))
        if digits:
            numbers.append(int(part[:digits]))
        rest = part[digits:]
        if not rest:
            if not digits:
                return None
            continue
        name = rest.rstrip("0123456789")
        if name not in _PHASES or not numbers:
            return None
        phase = (_PHASES[name], int(rest[len(name) :] or 0))
        break
    if not numbers or len(numbers) > 4:
        return None
    return (*numbers, *(0,) * (4 - len(numbers)), *phase)


class _Clock:
    """Compares a version with the bounds of a row; builds and dates meet through known builds."""

    def __init__(self, facts: Mapping[str, Any], version: str) -> None:
        self._builds = sorted((int(row["build"]), _point(str(row["date"]))) for row in facts.get("builds", ()))
        self._asked = _parse(version)
        self._now = self._comparable(version)

    def covers(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the row's window holds the version; None where that can't be told."""
        since, until = row.get("since"), row.get("until")
        after = True if since is None else _negated(self.before(str(since)))
        before = True if until is None else self.before(str(until))
        if after is False or before is False:
            return False
        return None if after is None or before is None else True

    def before(self, bound: str) -> bool | None:
        """Whether the version came before another one; None where that can't be told."""
        asked, written = self._asked, _parse(bound)
        if asked is not None and written is not None and asked.scheme == written.scheme == "build":
            return asked.low < written.low
        limit = self._comparable(bound)
        if limit is None or self._now is None or limit.scheme != self._now.scheme:
            return None
        if self._now.high < limit.low:
            return True
        return False if self._now.low >= limit.low else None

    def _comparable(self, text: str) -> _Version | None:
        version = _parse(text)
        if version is None or version.scheme != "build" or not self._builds:
            return version
        build = version.low[0]
        low = max((date for number, date in self._builds if number <= build), default=())
        high = min((date for number, date in self._builds if number >= build), default=(9999,))
        return _Version("date", low, high)


def _point(date: str) -> tuple[int, ...]:
    return tuple(int(part) for part in date.split("-"))


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


# ---------------------------------------------------------------------- facts of one version


class Method(NamedTuple):
    """What a version of an engine makes of one method."""

    support: str
    note: str
    severity: str | None
    bound: bool
    """Refused by this version only: another takes it."""
    facts: Mapping[str, Any]


Condition = tuple[str, str, Callable[[Any], bool]]
"""Part of the pair, name of its field, and what the value must be."""


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
    if version.strip().lower() in _NEWEST:
        note = f"version {version!r} is judged by the facts of {current}"
        version = current
    elif _parse(version) is None:
        note = f"version {version!r} can't be read as one: what depends on the version is unknown"
    clock = _Clock(facts, version)
    if note is None and _Clock(facts, current).before(version):
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
        found = _with_was(row, _Clock(engine.facts, engine.version)) if isinstance(row, Mapping) else {}
        known = _PLAIN_TABLES[key] = (engine.facts, found)
    return known[1]


def covers(engine: Engine, row: Mapping[str, Any]) -> bool | None:
    """Whether the row's window (since, until) holds the engine's version; None where that can't be told."""
    newest = engine.version.strip().lower() in _NEWEST
    return _Clock(engine.facts, str(engine.facts["version"]) if newest else engine.version).covers(row)


_PLAIN_TABLES: dict[tuple[int, str, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}


def _with_was(row: Mapping[str, Any], clock: _Clock) -> Mapping[str, Any]:
    """A table with the parameters of the version put over the current ones."""
    for older in row.get("was", ()):
        if clock.covers(older):
            return {**row, **older}
    return row


def _resolve_method(name: str, row: Mapping[str, Any], clock: _Clock, engine: Engine) -> Method:
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
    table: Mapping[str, Any], clock: _Clock, engine: Engine
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
    rows: Iterable[Mapping[str, Any]], clock: _Clock
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


def window(row: Mapping[str, Any]) -> str:
    """The versions of a row whose bounds are not exactly known, in words."""
    since, until = row.get("since"), row.get("until")
    if since and until:
        return f"from about {since} to before {until}"
    if since:
        return f"from about {since}"
    return f"before about {until}" if until else "as last reported"


# ---------------------------------------------------------------------- conditions

_SUBJECTS = ("setting", "device", "pair", "head", "draft", "target", "either")


def conditions(row: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What a row asks of the parts of a pair."""
    return tuple(
        (subject, name, _test(wanted)) for subject in _SUBJECTS for name, wanted in row.get(subject, {}).items()
    )


def _test(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, list):
        tests = tuple(_test(item) for item in wanted)
        fits = all if all(str(item).startswith("!") for item in wanted) else any
        return lambda value: fits(test(value) for test in tests)
    if isinstance(wanted, bool):
        return lambda value: bool(value) is wanted
    if not isinstance(wanted, str):
        return lambda value: bool(value == wanted)
    if wanted[:1] in "<>" and wanted:
        return _comparison(wanted)
    if wanted[:1] == "!":
        inner = _test(wanted[1:])
        return lambda value: not inner(value)
    return _pattern(wanted.lower())


def _comparison(wanted: str) -> Callable[[Any], bool]:
    sign = wanted[: 2 if wanted[1:2] == "=" else 1]
    limit = float(wanted[len(sign) :])
    if sign == ">":
        return lambda value: value > limit
    if sign == ">=":
        return lambda value: value >= limit
    return (lambda value: value < limit) if sign == "<" else (lambda value: value <= limit)


def _pattern(wanted: str) -> Callable[[Any], bool]:
    body = wanted.strip("*")
    if wanted.startswith("*") and wanted.endswith("*"):
        return lambda value: body in str(value).lower()
    if wanted.endswith("*"):
        return lambda value: str(value).lower().startswith(body)
    if wanted.startswith("*"):
        return lambda value: str(value).lower().endswith(body)
    return lambda value: str(value).lower() == wanted


_DERIVED: Mapping[str, Callable[[Any], Any]] = {
    "moe": lambda model: model.is_moe,
    "vision": lambda model: "vision" in model.modality,
    "mtp": lambda model: model.has_mtp,
    "hybrid": lambda model: model.attention in ("hybrid", "recurrent"),
}


def _value(subject: Any, name: str) -> Any:
    if subject is None:
        return None
    derived = _DERIVED.get(name)
    return derived(subject) if derived is not None else getattr(subject, name, None)


def fits(wanted: Iterable[Condition], pair: Pair, relation: Relation | None) -> bool:
    """Whether all conditions hold; what is not known does not."""
    for subject, name, test in wanted:
        if subject == "either":
            values = [_value(pair.target, name), _value(pair.draft, name)]
        elif subject == "pair":
            values = [_pair_value(pair, relation, name)]
        elif subject == "head":
            values = [_head_value(pair, name)]
        else:
            values = [_value(_subject(pair, subject), name)]
        if not any(value is not None and test(value) for value in values):
            return False
    return True


def _subject(pair: Pair, subject: str) -> Any:
    if subject == "target":
        return pair.target
    if subject == "draft":
        return pair.draft
    return pair.setting if subject == "setting" else pair.setting.device


def _head_value(pair: Pair, name: str) -> Any:
    head = pair.proposal.head
    if head is None or name != "reduced_vocab":
        return _value(head, name)
    rows = head.vocab_size or pair.target.vocab_size
    if head.draft_vocab_size is None or rows is None:
        return None
    return head.draft_vocab_size < rows


def _pair_value(pair: Pair, relation: Relation | None, name: str) -> Any:
    target, draft = pair.target, pair.draft
    if name == "relation":
        return None if relation is None else relation.kind
    if name == "rows":
        return None if draft is None else same(target.vocab_size, draft.vocab_size)
    if name == "positions":
        asked_for, native = pair.setting.max_model_len, target.max_position_embeddings
        return None if asked_for is None or native is None else "stretched" if asked_for > native else "native"
    if name == "quantization":
        if draft is None:
            return None
        asked = pair.setting
        ours, theirs = asked.quantization or target.quantization, asked.draft_quantization or draft.quantization
        return "equal" if ours == theirs else "differ"
    proposed: ModelProfile | Head | None = draft if draft is not None else pair.proposal.head
    if proposed is None:
        return None
    if name == "hidden_size":
        return same(target.hidden_size, proposed.hidden_size)
    if name == "context":
        wanted, there = pair.setting.max_model_len, proposed.max_position_embeddings
        return None if wanted is None or there is None else "short" if there < wanted else "enough"
    return None


def same(ours: int | None, theirs: int | None) -> str | None:
    """`equal` or `differ`; None where one is not known."""
    if ours is None or theirs is None:
        return None
    return "equal" if ours == theirs else "differ"


# ---------------------------------------------------------------------- checking a file of facts

_HEADER = ("key", "name", "aliases", "version", "checked", "source", "notes", "gguf", "builds")
_TOP = frozenset(
    {
        *_HEADER,
        "vocabulary",
        "methods",
        "architectures",
        "limits",
        "tensor_parallel",
        "step_overhead",
        "exceptions",
        "launch",
    }
)
_STEP_NUMBERS = frozenset(
    {
        "per_token",
        "per_step",
        "per_draft_token",
        "per_translation",
        "cache_factor",
        "launch_per_expert",
        "default_num_spec_tokens",
        "stop_threshold",
        "state_copy_rate",
    }
)
_STEP_OTHERS = frozenset(
    {
        "mode",
        "launch_per_layer",
        "draft_launch_per_layer",
        "copies_cache",
        "stop",
        "stop_keeps",
        "draft_samples",
        "redecodes_draft",
        "seen",
        "splits",
        "was",
        "certain",
        "source",
        "notes",
    }
)
_WINDOWED = ("since", "until")


def problems(facts: Mapping[str, Any]) -> list[str]:
    """What is wrong with the facts of an engine file, one sentence each; empty where `verdict` can work with them."""
    found = [f"{name} is missing" for name in ("key", "name", "version", "source", "vocabulary") if name not in facts]
    found += [f"unknown key {name!r}" for name in facts if name not in _TOP]
    found += _vocabulary_problems(facts.get("vocabulary", {}))
    found += _step_problems(facts.get("step_overhead", {}))
    for name, row in facts.get("methods", {}).items():
        found += _row_problems(f"methods.{name}", row)
        if row.get("support") not in SUPPORT:
            found.append(f"methods.{name}: support is one of {', '.join(SUPPORT)}")
        for older in row.get("was", ()):
            found += _row_problems(f"methods.{name}.was", older, sourced=False)
            if older.get("support") not in SUPPORT:
                found.append(f"methods.{name}.was: support is one of {', '.join(SUPPORT)}")
    found += _architecture_problems(facts.get("architectures", {}))
    for index, row in enumerate(facts.get("exceptions", ()), start=1):
        found += _exception_problems(f"exception {index}", row)
    return found


def _step_problems(table: Mapping[str, Any]) -> list[str]:
    """Of the costs that the engine adds to a step, in seconds."""
    found = [f"step_overhead: unknown key {name!r}" for name in table if name not in _STEP_NUMBERS | _STEP_OTHERS]
    for name in _STEP_NUMBERS & table.keys():
        if isinstance(table[name], bool) or not isinstance(table[name], (int, float)) or table[name] < 0:
            found.append(f"step_overhead: {name} is a number, 0 or more")
    if table and "source" not in table:
        found.append("step_overhead: source is missing")
    return found


def _architecture_problems(table: Mapping[str, Any]) -> list[str]:
    known = {"read", "since", "seen", "stand_in", "source", "checked"}
    found = [f"architectures: unknown key {name!r}" for name in table if name not in known]
    if table and not table.get("source"):
        found.append("architectures: source is missing")
    versions = {name: table[name] for name in ("read", "stand_in") if name in table}
    for kind in ("since", "seen"):
        versions |= {f"{kind}.{name}": version for name, version in table.get(kind, {}).items()}
    found += [
        f"architectures: {name} {version!r} is no version"
        for name, version in versions.items()
        if _parse(str(version)) is None
    ]
    twice = table.get("since", {}).keys() & table.get("seen", {}).keys()
    return found + [f"architectures: {name} stands under since and under seen" for name in sorted(twice)]


def _vocabulary_problems(row: Mapping[str, Any]) -> list[str]:
    found = _row_problems("vocabulary", row)
    if row.get("rule") not in RULES:
        found.append(f"vocabulary: rule is one of {', '.join(RULES)}")
    if row.get("rule") == "token-text":
        missing = [name for name in ("max_size_difference", "first_compared_id") if not isinstance(row.get(name), int)]
        found += [f"vocabulary: {name} must be a number" for name in missing]
    for older in row.get("was", ()):
        found += _row_problems("vocabulary.was", older)
        if "until" not in older:
            found.append("vocabulary.was: until is missing")
    bridge = row.get("bridge")
    if bridge is not None:
        found += _row_problems("vocabulary.bridge", bridge)
        if "name" not in bridge:
            found.append("vocabulary.bridge: name is missing")
    return found


def _exception_problems(where: str, row: Mapping[str, Any]) -> list[str]:
    found = _row_problems(where, row)
    if row.get("verdict") not in ("refused", "care", "unknown"):
        found.append(f"{where}: verdict is refused, care or unknown")
    if not row.get("reason"):
        found.append(f"{where}: reason is missing")
    known = {"methods", "since", "until", "verdict", "severity", "reason", "source", "certain", *_SUBJECTS}
    found += [f"{where}: unknown key {name!r}" for name in row if name not in known]
    if not any(subject in row for subject in _SUBJECTS):
        found.append(f"{where}: no condition (a method that is never taken belongs into its own table)")
    return found


def _row_problems(where: str, row: Mapping[str, Any], *, sourced: bool = True) -> list[str]:
    found = [
        f"{where}: {name} {row[name]!r} is no version"
        for name in _WINDOWED
        if name in row and _parse(str(row[name])) is None
    ]
    if sourced and not row.get("source"):
        found.append(f"{where}: source is missing")
    if row.get("severity") is not None and row["severity"] not in SEVERITIES:
        found.append(f"{where}: severity is one of {', '.join(SEVERITIES)}")
    return found
