"""What is wrong with the facts of an engine: the check that every file of the catalogue passes."""

from collections.abc import Mapping
from typing import Any

from draftpick.rules.conditions import SUBJECTS
from draftpick.rules.versions import parsed

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
        if parsed(str(version)) is None
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
    known = {"methods", "since", "until", "verdict", "severity", "reason", "source", "certain", *SUBJECTS}
    found += [f"{where}: unknown key {name!r}" for name in row if name not in known]
    if not any(subject in row for subject in SUBJECTS):
        found.append(f"{where}: no condition (a method that is never taken belongs into its own table)")
    return found


def _row_problems(where: str, row: Mapping[str, Any], *, sourced: bool = True) -> list[str]:
    found = [
        f"{where}: {name} {row[name]!r} is no version"
        for name in _WINDOWED
        if name in row and parsed(str(row[name])) is None
    ]
    if sourced and not row.get("source"):
        found.append(f"{where}: source is missing")
    if row.get("severity") is not None and row["severity"] not in SEVERITIES:
        found.append(f"{where}: severity is one of {', '.join(SEVERITIES)}")
    return found
