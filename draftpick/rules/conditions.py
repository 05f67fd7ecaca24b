"""What a row of an engine's file asks of a pair, and whether the pair is so; what is not known is not.

The words are explained at the top of `draftpick.rules.engine_facts`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import Head, Pair

Condition = tuple[str, str, Callable[[Any], bool]]
"""Part of the pair, name of its field, and what the value must be."""

SUBJECTS = ("setting", "device", "pair", "head", "draft", "target", "either")


def conditions(row: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What a row asks of the parts of a pair."""
    return tuple(
        (subject, name, _test(wanted)) for subject in SUBJECTS for name, wanted in row.get(subject, {}).items()
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
