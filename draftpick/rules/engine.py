"""What an engine will say of a pair: accepted, with care, refused, or unknown, and exactly why.

The facts, and the schema of their files, are in `draftpick.rules.engine_facts`; this module only applies them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import Engine, Pair
from draftpick.rules.conditions import fits, same
from draftpick.rules.engine_facts import Method, Table, VerdictKind, table_of
from draftpick.rules.figures import quoted

_WORST: Mapping[str, int] = {"accepted": 0, "care": 1, "unknown": 2, "refused": 3}
_OWN_VOCABULARY = frozenset({"draft_model", "pard"})
"""Methods whose draft is a language model of its own; heads work in the target's vocabulary."""


class Verdict(NamedTuple):
    """What one engine in one version says of one pair."""

    engine: str
    version: str
    """The version the verdict holds for, as asked or the catalogue's."""
    verdict: VerdictKind
    reasons: tuple[str, ...]
    """The worst first."""
    severity: str | None = None
    """How the worst reason shows; None where nothing stands against the pair."""


class _Finding(NamedTuple):
    verdict: VerdictKind
    reason: str
    severity: str | None = None


# ---------------------------------------------------------------------- the verdict


def verdict(pair: Pair, relation: Relation | None, engine: Engine) -> Verdict:
    """What `engine` says of `pair`; the worst reason decides, all are kept.

    `relation` compares the tokenizers of target and draft: None for draft-free methods and the target's own heads.
    """
    table = table_of(engine)
    method = table.methods.get(pair.method)
    if method is None:
        findings = [_Finding("unknown", f"whether {engine.name} has {pair.method} is not known")]
    else:
        findings = _method_findings(pair, method, engine)
    if method is None or method.support != "no" or method.bound:
        # A method that only this version lacks is judged further: upgrading must not lead into the next refusal.
        if pair.draft is not None and pair.method in _OWN_VOCABULARY:
            findings += _vocabulary_findings(pair, relation, table, engine)
        findings += _architecture_findings(pair, table)
        findings += _length_findings(pair, method, table)
        findings += _parallel_findings(pair, table, engine)
        findings += [
            _Finding(found.verdict, _filled(found.reason, pair), found.severity)
            for found in (*table.exceptions.get(pair.method, ()), *table.anywhere)
            if fits(found.conditions, pair, relation)
        ]
    if not findings:
        findings = [_Finding("accepted", f"{engine.name} takes {pair.method}")]
    return _judge(findings, engine, table.note)


def _judge(findings: list[_Finding], engine: Engine, note: str | None) -> Verdict:
    findings.sort(key=lambda finding: -_WORST[finding.verdict])
    worst = findings[0]
    reasons = [finding.reason for finding in findings]
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


def _method_findings(pair: Pair, method: Method, engine: Engine) -> list[_Finding]:
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


def _architecture_findings(pair: Pair, table: Table) -> list[_Finding]:
    """Classes of target and draft that the version lacks, or of which nobody read whether it has them."""
    found = []
    for model in (pair.target, pair.draft):
        if model is None:
            continue
        lack = table.architectures.get(model.architecture or "", table.unread)
        if lack is not None:
            said = lack.reason.replace("{architecture}", model.architecture or model.name)
            found.append(_Finding(lack.verdict, said, lack.severity))
    return found


def most_tokens(engine: Engine, method: str) -> int | None:
    """The largest num_spec_tokens that an engine takes with a method; None where no limit is known."""
    table = table_of(engine)
    return _most_tokens(table.methods.get(method), table)


def reuses_layers(engine: Engine) -> bool:
    """Whether an engine drafts more tokens with MTP layers than there are, using them again."""
    method = table_of(engine).methods.get("mtp")
    return method is not None and bool(method.facts.get("reuses_layers"))


def takes_length(pair: Pair, engine: Engine, k: int) -> bool:
    """Whether the engine takes k tokens as well as any number: some want a multiple of the MTP layers past each once,
    and rows of their files speak against long drafts.
    """
    table = table_of(engine)
    layers = pair.target.num_nextn_predict_layers if pair.method == "mtp" else None
    method = table.methods.get(pair.method)
    if layers and k > layers and k % layers and method is not None and method.facts.get("multiple_of_layers"):
        return False
    asked = pair._replace(setting=pair.setting._replace(num_spec_tokens=k))
    return not any(
        fits(row.conditions, asked, pair.relation)
        for row in (*table.exceptions.get(pair.method, ()), *table.anywhere)
        if any((subject, name) == ("setting", "num_spec_tokens") for subject, name, _ in row.conditions)
    )


def _most_tokens(method: Method | None, table: Table) -> int | None:
    facts = method.facts if method is not None else {}
    found = facts.get("max_num_spec_tokens", table.limits.get("max_num_spec_tokens"))
    return int(found) if found is not None else None


def _length_findings(pair: Pair, method: Method | None, table: Table) -> list[_Finding]:
    k = pair.setting.num_spec_tokens
    if k is None or method is None:
        return []
    found = []
    most = _most_tokens(method, table)
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
            found.append(_Finding("accepted", f"{k} tokens from {layers} MTP {plural}: used again, each accepts less"))
    return found


def _parallel_findings(pair: Pair, table: Table, engine: Engine) -> list[_Finding]:
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


def _vocabulary_findings(pair: Pair, relation: Relation | None, table: Table, engine: Engine) -> list[_Finding]:
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


def _unequal_rows(ours: int, theirs: int, relation: Relation | None, table: Table, engine: Engine) -> list[_Finding]:
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


def needed_option(pair: Pair, engine: Engine) -> str | None:
    """The option without which the engine, as shipped, refuses the draft's number of embedding rows; None: none."""
    table = table_of(engine)
    if table.bridge is None or pair.draft is None or pair.method not in _OWN_VOCABULARY:
        return None
    ours, theirs = pair.target.vocab_size, pair.draft.vocab_size
    return None if ours is None or theirs is None or ours == theirs else str(table.bridge["name"])


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


def _by_number(number: str, relation: Relation | None, limit: str | None = None) -> _Finding:
    """An engine that compares one number, or none: what it lets through, and what that is worth."""
    limit = limit or f"{number} is all it compares"
    if relation is None or relation.kind == "unknown":
        return _Finding(
            "accepted", f"{number}; it compares nothing else, and the tokenizers could not be compared here"
        )
    sure = "" if relation.verified else "probably "
    if relation.kind in ("identical", "padding_only"):
        return _Finding("accepted", f"{number}, {sure}the same tokenizer")
    if relation.kind == "different":
        what = f"{sure}another vocabulary ({_first(relation)})"
        return _Finding("accepted", f"{limit}: it starts, but with {what} acceptance will be near zero")
    return _Finding("care", f"{limit}, but {_control(relation)}")


def _control(relation: Relation) -> str:
    """What differing control tokens mean for the draft."""
    said = []
    if relation.only_target:
        said.append(f"only the target names {_ids(relation.only_target)}: the draft can't propose them")
    if relation.only_draft:
        said.append(f"only the draft names {_ids(relation.only_draft)}: what it proposes there is lost")
    if relation.renamed:
        meaning = "means another control token" if len(relation.renamed) == 1 else "mean other control tokens"
        said.append(f"{_ids(relation.renamed)} {meaning} ({_first(relation)})")
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
    return "no such token" if text is None else quoted(text)


def _severity(table: Table) -> str:
    return str(table.vocabulary.get("severity", "refuses at start"))


def _equal_maps(rows: int, relation: Relation | None, table: Table) -> list[_Finding]:
    """Rows equal, then the two maps id → text."""
    if relation is None or relation.kind == "unknown":
        reason = (
            f"equal embedding rows ({rows:,}), but it also compares the token maps, which could not be compared here"
        )
        return [_Finding("unknown", reason)]
    if relation.kind in ("identical", "padding_only"):
        return [_same_text(f"equal embedding rows ({rows:,}) and", "the same token map", relation)]
    if not _located(relation):
        return [_somewhere("token maps", relation)]
    sure = "" if relation.verified else "probably "
    return [_Finding("refused", f"the token maps {sure}differ, {_first(relation)}", _severity(table))]


def _same_text(before: str, what: str, relation: Relation) -> _Finding:
    """Equal texts, and how well that is known."""
    if relation.verified:
        return _Finding("accepted", f"{before} {what}".strip())
    if relation.same_ids is not None:
        # Compared id by id, but on files of the same name and family, not on these very repositories.
        doubt = "compared on the family's files, not read from both repositories"
        return _Finding("accepted", f"{before} probably {what}: {doubt}".strip())
    return _Finding("care", f"{before} probably {what}: no file was compared".strip())


def _located(relation: Relation) -> bool:
    """Whether it is known where the two part; a difference that is only said to exist refuses nothing."""
    found = relation.first_difference or relation.first_difference_in or relation.only_target or relation.only_draft
    return bool(found or relation.renamed or relation.verified or relation.kind == "different")


def _somewhere(what: str, relation: Relation) -> _Finding:
    return _Finding("care", f"it compares {what}, and some ids probably differ, which is not known: {relation.reason}")


def _named_ids(target: ModelProfile, draft: ModelProfile, relation: Relation | None, table: Table) -> list[_Finding]:
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
    rows = same(target.vocab_size, draft.vocab_size)
    if rows == "equal" and relation is not None and relation.kind != "unknown":
        limit = "nothing is compared at start"
        return [_by_number(f"{limit}; embedding rows are equal", relation, limit)]
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


def _token_text(target: ModelProfile, draft: ModelProfile, relation: Relation | None, table: Table) -> list[_Finding]:
    """Vocabulary type, bos and eos, the difference in size, then the texts id by id."""
    found = _special_differences(target, draft, table)
    ours, theirs = target.vocab_size, draft.vocab_size
    if ours is not None and theirs is not None:
        limit, difference = int(table.vocabulary["max_size_difference"]), abs(ours - theirs)
        if difference > limit:
            reason = f"{ours:,} tokens against {theirs:,}: a difference of {difference:,}, allowed are {limit}"
            return [*found, _Finding("refused", reason, _severity(table))]
    return [*found, _text_difference(ours, theirs, relation, table)]


def _special_differences(target: ModelProfile, draft: ModelProfile, table: Table) -> list[_Finding]:
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


def _text_difference(ours: int | None, theirs: int | None, relation: Relation | None, table: Table) -> _Finding:
    if relation is None or relation.kind == "unknown":
        return _Finding("unknown", "it compares token texts, which could not be compared here")
    sizes = "" if ours is None or theirs is None or ours == theirs else f" ({ours:,} and {theirs:,} tokens)"
    same_text = f"the same token text at every shared id{sizes}"
    if relation.kind in ("identical", "padding_only"):
        return _same_text("", same_text, relation)
    if not _located(relation):
        return _somewhere("token texts", relation)
    shared = min(size for size in (ours, theirs, 1 << 62) if size is not None)
    part = _first_compared(relation, int(table.vocabulary["first_compared_id"]), shared)
    sure = "" if relation.verified else "probably "
    if part is not None:
        return _Finding("refused", f"token texts {sure}differ, {part}", _severity(table))
    return _same_text("", f"{same_text}; the differing ids are not compared", relation)


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
