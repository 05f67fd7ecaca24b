"""What an engine will say of a pair: accepted, with care, refused, or unknown, and exactly why.

Facts live in catalog/engines/<key>.toml, one file per engine; this module only applies them. Its tables:

    key, name, aliases, version, checked, source     `version` is the one the facts hold for
    notes = [..]                                     facts that hang on no pair, shown by `catalog show`
    builds = [{build = 9014, date = 2026-05-04}, ..] known build numbers, so that `b8000` and a date compare

    [vocabulary]
    rule            equal-rows, equal-rows-and-map, token-text, equal-rows-or-translate, named-ids or none
    severity        when a mismatch shows (see Severities)
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

Conditions of target, draft, head and either (target or draft) name a field of ModelProfile or Head, or one of moe,
vision, mtp, reduced_vocab; setting names a field of Setting; device one of Device. A wanted value is true/false,
a number, a comparison (">1"), a text that may begin or end with * and may be turned round with a leading "!", or a
list of which one must fit (of a list of "!" texts all must). What is not known does not match: nothing is held
against a pair on a guess.
Conditions of pair: rows = equal | differ, relation = [kinds], quantization = differ, hidden_size = differ,
context = short (the draft's or head's positions end before max_model_len).

Versions: releases (0.9.0, 0.13rc1), builds (b4500) or dates (2025, 2026-05, 2026-05-04).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

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

_WORST: Mapping[str, int] = {"accepted": 0, "care": 1, "unknown": 2, "refused": 3}
_OWN_VOCABULARY = frozenset({"draft_model", "pard"})
"""Methods whose draft is a language model of its own; heads work in the target's vocabulary."""
_NEWEST = frozenset({"main", "master", "nightly", "latest", "dev", "head"})
_PHASES: Mapping[str, int] = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one engine in one version says of one pair."""

    engine: str
    version: str
    """The version the verdict holds for, as asked or the catalogue's."""
    verdict: VerdictKind
    reasons: tuple[str, ...]
    """The worst first."""
    severity: str | None = None
    """How the worst reason shows; None where nothing stands against the pair."""


@dataclass(frozen=True, slots=True)
class _Finding:
    verdict: VerdictKind
    reason: str
    severity: str | None = None


# ---------------------------------------------------------------------- versions


@dataclass(frozen=True, slots=True)
class _Version:
    """A span of points of one scheme; only coarse dates (`2025`) and builds seen as dates have two ends."""

    scheme: Literal["release", "build", "date"]
    low: tuple[int, ...]
    high: tuple[int, ...]


@lru_cache(maxsize=512)
def _parse(text: str) -> _Version | None:
    """A version as something that compares; None where the text is no version."""
    text = text.strip().lower().lstrip("v").split("+", 1)[0]
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
        self._now = self._comparable(version)

    def covers(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the row's window holds the version; None where that can't be told."""
        since, until = row.get("since"), row.get("until")
        after = True if since is None else _negated(self._before(str(since)))
        before = True if until is None else self._before(str(until))
        if after is False or before is False:
            return False
        return None if after is None or before is None else True

    def _before(self, bound: str) -> bool | None:
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
        low = max((date for number, date in self._builds if number <= build), default=(0, 0, 0))
        high = min((date for number, date in self._builds if number >= build), default=(9999, 0, 0))
        return _Version("date", low, high)


def _point(date: str) -> tuple[int, ...]:
    return tuple(int(part) for part in date.split("-"))


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


# ---------------------------------------------------------------------- facts of one version


@dataclass(frozen=True, slots=True)
class _Method:
    support: str
    note: str
    severity: str | None
    bound: bool
    """Refused by this version only: another takes it."""
    facts: Mapping[str, Any]


_Condition = tuple[str, str, Callable[[Any], bool]]


@dataclass(frozen=True, slots=True)
class _Exception:
    conditions: tuple[_Condition, ...]
    verdict: VerdictKind
    reason: str
    severity: str | None


@dataclass(frozen=True, slots=True)
class _Table:
    """The facts of an engine resolved for one version, so that a verdict compares no versions."""

    methods: Mapping[str, _Method]
    vocabulary: Mapping[str, Any]
    bridge: Mapping[str, Any] | None
    tensor_parallel: Mapping[str, Any]
    exceptions: Mapping[str, tuple[_Exception, ...]]
    anywhere: tuple[_Exception, ...]
    limits: Mapping[str, Any]
    note: str | None


_TABLES: dict[tuple[int, str], tuple[Mapping[str, Any], _Table]] = {}


def _table(engine: Engine) -> _Table:
    # Keyed by identity: an overlay may give the same engine and version other facts. The kept reference holds the id.
    key = (id(engine.facts), engine.version)
    known = _TABLES.get(key)
    if known is None:
        if len(_TABLES) >= 64:
            _TABLES.clear()
        known = _TABLES[key] = (engine.facts, _resolve(engine))
    return known[1]


def _resolve(engine: Engine) -> _Table:
    facts, version, note = engine.facts, engine.version, None
    current = str(facts.get("version", ""))
    if version.strip().lower() in _NEWEST:
        note = f"version {version!r} is judged by the facts of {current}"
        version = current
    elif _parse(version) is None:
        note = f"version {version!r} can't be read as one: what depends on the version is unknown"
    clock = _Clock(facts, version)
    for older in facts.get("vocabulary", {}).get("was", ()):
        if note is None and clock.covers(older) is None:
            note = f"what {engine.name} compared before {older['until']} may still hold in {engine.version}"
    by_method, anywhere = _resolve_exceptions(facts.get("exceptions", ()), clock)
    bridge = facts.get("vocabulary", {}).get("bridge")
    return _Table(
        methods={name: _resolve_method(name, row, clock, engine) for name, row in facts.get("methods", {}).items()},
        vocabulary=_with_was(facts.get("vocabulary", {}), clock),
        bridge=bridge if bridge is not None and clock.covers(bridge) is not False else None,
        tensor_parallel=_with_was(facts.get("tensor_parallel", {}), clock),
        exceptions=by_method,
        anywhere=anywhere,
        limits=facts.get("limits", {}),
        note=note,
    )


def _with_was(row: Mapping[str, Any], clock: _Clock) -> Mapping[str, Any]:
    """A table with the parameters of the version put over the current ones."""
    for older in row.get("was", ()):
        if clock.covers(older):
            return {**row, **older}
    return row


def _resolve_method(name: str, row: Mapping[str, Any], clock: _Clock, engine: Engine) -> _Method:
    for older in row.get("was", ()):
        if clock.covers(older):
            refused = older["support"] == "no"
            return _Method(older["support"], older.get("note", ""), older.get("severity"), refused, row)
    support, note = str(row["support"]), str(row.get("note", ""))
    covered = clock.covers(row)
    if covered is False and support != "no":
        window = " ".join(f"{word} {row[key]}" for key, word in (("since", "from"), ("until", "until")) if key in row)
        return _Method("no", f"{engine.name} has {name} {window}, not in {engine.version}", None, True, row)
    if covered is None and support != "no":
        return _Method(
            "unknown", f"{name} exists in some versions of {engine.name}: {note}".rstrip(": "), None, True, row
        )
    return _Method(support, note, row.get("severity"), False, row)


def _resolve_exceptions(
    rows: Iterable[Mapping[str, Any]], clock: _Clock
) -> tuple[dict[str, tuple[_Exception, ...]], tuple[_Exception, ...]]:
    by_method: dict[str, list[_Exception]] = {}
    anywhere: list[_Exception] = []
    for row in rows:
        covered = clock.covers(row)
        if covered is False:
            continue
        verdict, reason = row["verdict"], row["reason"]
        if covered is None:
            verdict, reason = "care", f"{reason} (in some versions: {_window(row)})"
        elif row.get("certain") is False:
            reason = f"{reason} ({_window(row)}; the exact versions are not known)"
        found = _Exception(_conditions(row), verdict, reason, row.get("severity"))
        if "methods" not in row:
            anywhere.append(found)
        for method in row.get("methods", ()):
            by_method.setdefault(method, []).append(found)
    return {method: tuple(found) for method, found in by_method.items()}, tuple(anywhere)


def _window(row: Mapping[str, Any]) -> str:
    since, until = row.get("since"), row.get("until")
    if since and until:
        return f"from about {since} to before {until}"
    if since:
        return f"from about {since}"
    return f"before about {until}" if until else "as last reported"


# ---------------------------------------------------------------------- conditions


def _conditions(row: Mapping[str, Any]) -> tuple[_Condition, ...]:
    return tuple(
        (subject, name, _test(wanted))
        for subject in ("setting", "device", "pair", "head", "draft", "target", "either")
        for name, wanted in row.get(subject, {}).items()
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


def _fits(found: _Exception, pair: Pair, relation: Relation | None) -> bool:
    for subject, name, test in found.conditions:
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
        return None if draft is None else _same(target.vocab_size, draft.vocab_size)
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
        return _same(target.hidden_size, proposed.hidden_size)
    if name == "context":
        wanted, there = pair.setting.max_model_len, proposed.max_position_embeddings
        return None if wanted is None or there is None else "short" if there < wanted else "enough"
    return None


def _same(ours: int | None, theirs: int | None) -> str | None:
    if ours is None or theirs is None:
        return None
    return "equal" if ours == theirs else "differ"


# ---------------------------------------------------------------------- the verdict


def verdict(pair: Pair, relation: Relation | None, engine: Engine) -> Verdict:
    """What `engine` says of `pair`; the worst reason decides, all are kept.

    `relation` compares the tokenizers of target and draft: None for draft-free methods and the target's own heads.
    """
    table = _table(engine)
    method = table.methods.get(pair.method)
    if method is None:
        findings = [_Finding("unknown", f"whether {engine.name} has {pair.method} is not known")]
    else:
        findings = _method_findings(pair, method, engine)
    if method is None or method.support != "no" or method.bound:
        # A method that only this version lacks is judged further: upgrading must not lead into the next refusal.
        if pair.draft is not None and pair.method in _OWN_VOCABULARY:
            findings += _vocabulary_findings(pair, relation, table, engine)
        findings += _length_findings(pair, method, table)
        findings += _parallel_findings(pair, table, engine)
        findings += [
            _Finding(found.verdict, _filled(found.reason, pair), found.severity)
            for found in (*table.exceptions.get(pair.method, ()), *table.anywhere)
            if _fits(found, pair, relation)
        ]
    return _judge(findings, engine, table.note)


def _judge(findings: list[_Finding], engine: Engine, note: str | None) -> Verdict:
    findings.sort(key=lambda finding: -_WORST[finding.verdict])
    worst = findings[0] if findings else _Finding("accepted", "")
    reasons = [finding.reason for finding in findings if finding.reason]
    if note is not None:
        reasons.append(note)
    return Verdict(engine.key, engine.version, worst.verdict, tuple(dict.fromkeys(reasons)), worst.severity)


def _filled(reason: str, pair: Pair) -> str:
    if "{" not in reason:
        return reason
    setting = pair.setting
    for name, value in (
        ("target", pair.target.name),
        ("draft", pair.proposal.label),
        ("k", setting.num_spec_tokens),
        ("tp", setting.tensor_parallel_size),
        ("max_model_len", setting.max_model_len),
        ("max_num_seqs", setting.max_num_seqs),
    ):
        reason = reason.replace("{" + name + "}", str(value))
    return reason


def _method_findings(pair: Pair, method: _Method, engine: Engine) -> list[_Finding]:
    needs = method.facts.get("needs")
    found = [_Finding("accepted", str(needs))] if needs and method.support in ("yes", "experimental") else []
    if method.support == "yes":
        return found
    note = (
        method.note
        or {
            "no": f"{engine.name} has no {pair.method}",
            "experimental": f"{pair.method} is experimental in {engine.name}",
            "unknown": f"whether {engine.name} has {pair.method} is not known",
        }[method.support]
    )
    kinds: Mapping[str, VerdictKind] = {"no": "refused", "experimental": "care", "unknown": "unknown"}
    severity = method.severity or ("refuses at start" if method.support == "no" else None)
    return [_Finding(kinds[method.support], note, severity), *found]


def _length_findings(pair: Pair, method: _Method | None, table: _Table) -> list[_Finding]:
    k = pair.setting.num_spec_tokens
    if k is None or method is None:
        return []
    found = []
    most = method.facts.get("max_num_spec_tokens", table.limits.get("max_num_spec_tokens"))
    if most is not None and k > most:
        note = method.facts.get("max_note", table.limits.get("note", "the engine's limit"))
        found.append(_Finding("refused", f"num_spec_tokens {k} is above {most}: {note}", table.limits.get("severity")))
    layers = pair.target.num_nextn_predict_layers if pair.method == "mtp" else None
    if layers and k > layers:
        if method.facts.get("multiple_of_layers") and k % layers:
            reason = f"num_spec_tokens {k} is no multiple of the {layers} MTP layers"
            found.append(_Finding("refused", reason, "refuses at start"))
        elif method.facts.get("reuses_layers"):
            plural = "layer" if layers == 1 else "layers"
            found.append(_Finding("care", f"{k} tokens from {layers} MTP {plural}: reuse, each position accepts less"))
    return found


def _parallel_findings(pair: Pair, table: _Table, engine: Engine) -> list[_Finding]:
    """The draft's tensor-parallel size, where the engine leaves no choice."""
    size, draft = pair.setting.tensor_parallel_size, pair.draft
    rule = table.tensor_parallel.get(pair.method, table.tensor_parallel.get("any"))
    if size <= 1 or draft is None or rule is None or draft.num_attention_heads is None:
        return []
    heads, kv_heads = draft.num_attention_heads, draft.num_key_value_heads or draft.num_attention_heads
    if heads % size:
        reason = f"{heads} attention heads of {draft.name} do not divide by tensor-parallel size {size}"
    elif kv_heads % size and size % kv_heads:
        reason = f"{kv_heads} key-value heads of {draft.name} do not fit tensor-parallel size {size}"
    else:
        return []
    severity = table.tensor_parallel.get("severity", "refuses at start")
    if rule == "equal":
        return [_Finding("refused", f"{reason}, and {engine.name} runs the draft at the target's size", severity)]
    return [_Finding("care", f"{reason}: the draft must run at tensor-parallel size 1")]


# ---------------------------------------------------------------------- vocabulary rules


def _vocabulary_findings(pair: Pair, relation: Relation | None, table: _Table, engine: Engine) -> list[_Finding]:
    assert pair.draft is not None
    rule = table.vocabulary.get("rule")
    if rule == "named-ids":
        return _named_ids(pair.target, pair.draft, relation, table)
    if rule == "none":
        return _not_compared(pair.target, pair.draft, relation, engine)
    rows = pair.target.vocab_size, pair.draft.vocab_size
    if rule == "token-text":
        return _token_text(pair.target, pair.draft, relation, table)
    if rows[0] is None or rows[1] is None:
        which = [model.name for model in (pair.target, pair.draft) if model.vocab_size is None]
        return [_Finding("unknown", f"the embedding rows of {' and '.join(which)} are not known")]
    if rows[0] != rows[1]:
        return _unequal_rows(rows[0], rows[1], relation, table, engine)
    if rule == "equal-rows-and-map":
        return _equal_maps(rows[0], relation, table)
    return [_by_number(f"equal embedding rows ({rows[0]:,})", relation)]


def _unequal_rows(ours: int, theirs: int, relation: Relation | None, table: _Table, engine: Engine) -> list[_Finding]:
    numbers = f"{ours:,} embedding rows against {theirs:,}"
    tokenizers = _in_words(relation)
    if table.vocabulary.get("rule") == "equal-rows-or-translate":
        what = "both tokenizers must be passed, and drafts are translated as text"
        return [_Finding("care", f"{numbers}{tokenizers}: {what}")]
    bridge = table.bridge
    if bridge is None:
        return [_Finding("refused", f"{numbers}{tokenizers}", _severity(table))]
    covered = ""
    if relation is not None and relation.covered is not None and not relation.same_language_ids:
        covered = f", which reach {relation.covered:.0%} of the target's tokens on text"
    note = f"{numbers}{tokenizers}: refused as shipped; {bridge['name']} drafts only what both name{covered}"
    return [_Finding("care", f"{note} ({bridge['note']})" if bridge.get("note") else note)]


def _in_words(relation: Relation | None) -> str:
    """How the tokenizers relate, for a sentence about numbers of rows."""
    if relation is None or relation.kind == "unknown":
        return ""
    sure = "" if relation.verified else "probably "
    if relation.kind in ("identical", "padding_only"):
        return f", though the tokenizers are {sure}identical"
    if relation.kind == "different":
        return f", and the tokenizers are {sure}different"
    return f", and the tokenizers {sure}differ in some ids ({_first(relation)})"


def _by_number(number: str, relation: Relation | None) -> _Finding:
    """An engine that compares one number: what it lets through, and what that is worth."""
    if relation is None or relation.kind == "unknown":
        return _Finding(
            "accepted", f"{number}; it compares nothing else, and the tokenizers could not be compared here"
        )
    sure = "" if relation.verified else "probably "
    if relation.kind in ("identical", "padding_only"):
        return _Finding("accepted", f"{number}, {sure}the same tokenizer")
    if relation.kind == "different":
        what = f"{sure}another vocabulary ({_first(relation)})"
        return _Finding(
            "accepted", f"{number} is all it compares: it starts, but with {what} acceptance will be near zero"
        )
    return _Finding("care", f"{number} is all it compares, but {_control(relation)}")


def _control(relation: Relation) -> str:
    """What differing control tokens mean for the draft."""
    said = []
    if relation.only_target:
        said.append(f"only the target names {_ids(relation.only_target)}: the draft can't propose them")
    if relation.only_draft:
        said.append(f"only the draft names {_ids(relation.only_draft)}: what it proposes there is lost")
    if relation.renamed:
        said.append(f"{_ids(relation.renamed)} mean other control tokens ({_first(relation)})")
    sure = "" if relation.verified else "probably "
    return sure + ("; ".join(said) or f"the tokenizers differ ({_first(relation)})")


def _ids(ids: tuple[int, ...]) -> str:
    if len(ids) == 1:
        return f"id {ids[0]}"
    if ids == tuple(range(ids[0], ids[-1] + 1)):
        return f"ids {ids[0]}–{ids[-1]}"
    if len(ids) <= 4:
        return "ids " + ", ".join(map(str, ids))
    return f"{len(ids)} ids from {ids[0]} on"


def _first(relation: Relation) -> str:
    """The first id that parts the two, with both texts."""
    part = relation.first_difference
    if part is not None:
        return f"first at id {part.id}: {_text(part.target)} against {_text(part.draft)}"
    if relation.first_difference_in is not None:
        low, high = relation.first_difference_in
        return f"first between ids {low} and {high}"
    return relation.reason


def _text(text: str | None) -> str:
    return "no such token" if text is None else repr(text)


def _severity(table: _Table) -> str:
    return str(table.vocabulary.get("severity", "refuses at start"))


def _equal_maps(rows: int, relation: Relation | None, table: _Table) -> list[_Finding]:
    """Rows equal, then the two maps id → text."""
    if relation is None or relation.kind == "unknown":
        reason = (
            f"equal embedding rows ({rows:,}), but it also compares the token maps, which could not be compared here"
        )
        return [_Finding("unknown", reason)]
    if relation.kind in ("identical", "padding_only"):
        if relation.verified:
            return [_Finding("accepted", f"equal embedding rows ({rows:,}) and the same token map")]
        return [_Finding("care", f"equal embedding rows ({rows:,}) and probably the same token map: not verified")]
    sure = "" if relation.verified else "probably "
    return [_Finding("refused", f"the token maps {sure}differ, {_first(relation)}", _severity(table))]


def _named_ids(target: ModelProfile, draft: ModelProfile, relation: Relation | None, table: _Table) -> list[_Finding]:
    """Compares `tokenizer.vocab_size`, the ids without added tokens; embedding rows do not matter."""
    if relation is not None and relation.kind in ("identical", "padding_only"):
        return [_by_number("equal tokenizer.vocab_size", relation)]
    ours = target.tokenizer.base_ids if target.tokenizer is not None else None
    theirs = draft.tokenizer.base_ids if draft.tokenizer is not None else None
    if ours is None or theirs is None:
        return [_Finding("unknown", "it compares tokenizer.vocab_size, which is not known for both")]
    if ours != theirs:
        return [_Finding("refused", f"tokenizer.vocab_size {ours:,} against {theirs:,}", _severity(table))]
    return [_by_number(f"equal tokenizer.vocab_size ({ours:,})", relation)]


def _not_compared(
    target: ModelProfile, draft: ModelProfile, relation: Relation | None, engine: Engine
) -> list[_Finding]:
    """The engine compares nothing."""
    rows = _same(target.vocab_size, draft.vocab_size)
    if rows == "equal" and relation is not None and relation.kind != "unknown":
        return [_by_number("nothing is compared at start; embedding rows are equal", relation)]
    if relation is None or relation.kind == "unknown":
        return [
            _Finding("care", f"{engine.name} compares no vocabulary, and the tokenizers could not be compared here")
        ]
    numbers = ""
    if rows == "differ":
        numbers = f" ({target.vocab_size:,} embedding rows against {draft.vocab_size:,})"
    if relation.kind == "different":
        return [
            _Finding(
                "care", f"nothing is compared at start{numbers}, and acceptance will be near zero: {_first(relation)}"
            )
        ]
    return [
        _Finding("care", f"nothing is compared at start{numbers}{_in_words(relation)}: try it before relying on it")
    ]


def _token_text(target: ModelProfile, draft: ModelProfile, relation: Relation | None, table: _Table) -> list[_Finding]:
    """Vocabulary type, bos and eos, the difference in size, then the texts id by id."""
    found = _special_differences(target, draft, table)
    ours, theirs = target.vocab_size, draft.vocab_size
    if ours is not None and theirs is not None:
        limit, difference = int(table.vocabulary["max_size_difference"]), abs(ours - theirs)
        if difference > limit:
            reason = f"{ours:,} tokens against {theirs:,}: a difference of {difference:,}, allowed are {limit}"
            return [*found, _Finding("refused", reason, _severity(table))]
    return [*found, _text_difference(ours, theirs, relation, table)]


def _special_differences(target: ModelProfile, draft: ModelProfile, table: _Table) -> list[_Finding]:
    ours, theirs = target.tokenizer, draft.tokenizer
    if ours is None or theirs is None:
        return []
    found = []
    if ours.vocab_type and theirs.vocab_type and ours.vocab_type != theirs.vocab_type:
        found.append(f"vocabulary type {ours.vocab_type} against {theirs.vocab_type}")
    always = bool(table.vocabulary.get("special_ids_always"))
    for name, added, ids in (
        ("bos", (ours.add_bos, theirs.add_bos), (ours.bos, theirs.bos)),
        ("eos", (ours.add_eos, theirs.add_eos), (ours.eos, theirs.eos)),
    ):
        if None not in added and added[0] != added[1]:
            found.append(f"one adds {name}, the other does not")
        elif (always or (added[0] and added[1])) and None not in ids and ids[0] != ids[1]:
            found.append(f"{name} is id {ids[0]} against {ids[1]}")
    return [_Finding("refused", reason, _severity(table)) for reason in found]


def _text_difference(ours: int | None, theirs: int | None, relation: Relation | None, table: _Table) -> _Finding:
    if relation is None or relation.kind == "unknown":
        return _Finding("unknown", "it compares token texts, which could not be compared here")
    sizes = "" if ours is None or theirs is None or ours == theirs else f" ({ours:,} and {theirs:,} tokens)"
    same = f"the same token text at every shared id{sizes}"
    if relation.kind not in ("identical", "padding_only"):
        shared = min(size for size in (ours, theirs, 1 << 62) if size is not None)
        reason = _first_compared(relation, int(table.vocabulary["first_compared_id"]), shared)
        sure = "" if relation.verified else "probably "
        if reason is not None:
            return _Finding("refused", f"token texts {sure}differ, {reason}", _severity(table))
        same = f"{same}; the differing ids are not compared"
    if relation.verified:
        return _Finding("accepted", same)
    return _Finding("care", f"probably {same}: not verified")


def _first_compared(relation: Relation, start: int, shared: int) -> str | None:
    """Where the texts first part among the ids that are compared; None where all of those agree."""
    part = relation.first_difference
    if part is not None and start <= part.id < shared:
        return _first(relation)
    # Converted files name unused ids [PADn], so an id that only one side names has another text on the other side.
    named = sorted(
        token for token in (*relation.only_target, *relation.only_draft, *relation.renamed) if start <= token < shared
    )
    if named:
        return f"first at id {named[0]}"
    if relation.kind == "different":
        return _first(relation)
    if relation.first_difference_in is not None and part is None:
        low, high = relation.first_difference_in
        return None if low >= shared or high < start else f"first between ids {low} and {high}"
    return None if part is not None else _first(relation)
