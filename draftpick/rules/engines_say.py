"""What the setting's engine says that a rule needs to know; its verdict on a pair is in `draftpick.rules.engine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftpick.pair import Pair
from draftpick.versions import Clock

_NOTHING: Mapping[str, Any] = {}


def engine_name(pair: Pair) -> str:
    """The engine's name, for messages."""
    return pair.setting.engine.name if pair.setting.engine is not None else "the engine"


def _facts(pair: Pair) -> Mapping[str, Any]:
    return pair.setting.engine.facts if pair.setting.engine is not None else _NOTHING


def translates_vocabularies(pair: Pair) -> bool:
    """Whether the engine can draft across two vocabularies, by text or by common tokens.

    An engine that takes equal rows for one vocabulary passes ids on as they are, and translates nothing.
    """
    vocabulary = _facts(pair).get("vocabulary", _NOTHING)
    if vocabulary.get("rule") == "equal-rows-or-translate":
        rows = None if pair.draft is None else pair.draft.vocab_size
        return pair.target.vocab_size is not None and rows is not None and rows != pair.target.vocab_size
    bridge = vocabulary.get("bridge")
    return bridge is not None and _is_current(pair)


def minds_rows(pair: Pair, difference: int) -> bool | None:
    """Whether the engine refuses, or works around, this difference in embedding rows; None without an engine."""
    vocabulary = _facts(pair).get("vocabulary", _NOTHING)
    rule = vocabulary.get("rule")
    if rule is None:
        return None
    if rule == "token-text":
        return difference > int(vocabulary.get("max_size_difference", 0))
    return bool(rule not in ("named-ids", "none"))


def draft_must_split_alike(pair: Pair) -> bool:
    """Whether the draft runs on as many devices as the target; False where that is not known."""
    rows = _facts(pair).get("tensor_parallel", _NOTHING)
    if "was" in rows and not _is_current(pair):
        return False
    return bool(rows.get(pair.method, rows.get("any")) == "equal")


def longest_draft(pair: Pair) -> int | None:
    """The most tokens that may be drafted at once; None where the engine names no limit."""
    facts = _facts(pair)
    method = facts.get("methods", _NOTHING).get(pair.method, _NOTHING)
    caps = [part.get("max_num_spec_tokens") for part in (method, facts.get("limits", _NOTHING))]
    return min((int(cap) for cap in caps if cap is not None), default=None)


def draft_inherits_quantization(pair: Pair) -> bool:
    """Whether the engine gives the draft its target's quantisation, whatever the draft is stored in."""
    exceptions = _facts(pair).get("exceptions", ())
    return any(row.get("pair", _NOTHING).get("quantization") == "differ" and "target" not in row for row in exceptions)


def reads_gguf(pair: Pair) -> str | None:
    """only, some (in part) or no; None where that is not known."""
    answer = _facts(pair).get("gguf")
    return str(answer) if answer is not None else None


def _is_current(pair: Pair) -> bool:
    """Whether the engine is judged in the version its facts hold for, or in a later one."""
    engine = pair.setting.engine
    if engine is None or "version" not in engine.facts:
        return True
    return Clock(engine.facts, engine.version).before(str(engine.facts["version"])) is False


def splits_layers(pair: Pair) -> bool:
    """Whether the engine gives each device whole layers, so that no heads have to divide."""
    return bool(_facts(pair).get("step_overhead", _NOTHING).get("splits") == "layers")
