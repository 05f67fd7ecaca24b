"""What to do with a first policy: commands that run when they are pasted, with the options that were given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from draftpick.advice_file import AdviceFile
from draftpick.gating.start import chosen_of, files_beside, unheld
from draftpick.probe_file import Option, RequestRecord
from draftpick.report.typed import command_line

_DRAFTED = 8
"""Tokens that a probe tries without being asked."""
_OF_PROBES = ("engine", "tensor-parallel-size", "dtype", "temperature", "workload", "revision", "offline", "catalog")
"""Options of an answer that mean the same to a probe; its device is one of torch."""
_OF_GATES = ("offline", "catalog")


def what_next(
    advice: AdviceFile, policy: Path | None, *, saved: Path = Path("advice.json"), given: Mapping[str, Option] = {}
) -> list[str]:
    """What the first policy of an answer holds, and what to do with it, a line each.

    `policy` None: it was shown, and kept nowhere. `saved` is where the answer stands, `given` are options of the
    command. Raises as draftpick.gating.start.first_policy.
    """
    chosen = chosen_of(advice)
    assert advice.target is not None
    assert chosen.draft is not None
    place = policy if policy is not None else Path("pairs.toml")
    kept = {**_chosen(advice, _OF_GATES), **given}
    said = f"a policy for {chosen.draft} with {advice.target.id}: read its comments, and set its thresholds"
    lines = [f"wrote {said}" if policy is not None else f"this is {said}"]
    if advice.decision.action != "speculate":
        lines.append("the answer was not to speculate: gate the pair only if it is deployed all the same")
    if left := unheld(advice):
        options = ", ".join(f"--{name}" for name in left)
        lines.append(f"no policy has a key for {options}: whether the pair fits is not asked of the gate")
    first = [] if policy is not None else [_gate(None, {**given, "init": str(saved), "output": str(place)})]
    if chosen.head is not None:
        steps = [*first, _gate(place, kept)]
        return [*lines, f"next: {'; then '.join(steps)} (a head is judged by facts alone: no probe measures it)"]
    beside = files_beside(advice, place)
    if not beside.measured:
        first.append(_probe(advice, chosen.draft, beside.evidence, kept))
    steps = [*first, _gate(place, {**kept, "update-baseline": True})]
    return [*lines, f"next: {'; then '.join(steps)}"]


def _chosen(advice: AdviceFile, names: tuple[str, ...]) -> dict[str, Option]:
    return {name: value for name, value in advice.request.options.items() if name in names}


def _probe(advice: AdviceFile, draft: str, evidence: Path, kept: Mapping[str, Option]) -> str:
    assert advice.target is not None
    options: dict[str, Option] = {**_chosen(advice, _OF_PROBES), **kept}
    k = advice.request.options.get("num-speculative-tokens")
    if isinstance(k, int) and k > _DRAFTED:
        options["num-speculative-tokens"] = k
    options |= {"precision": 0, "output": str(evidence)}
    return _typed(RequestRecord(command="probe", target=advice.target.id, drafts=[draft], options=options))


def _gate(policy: Path | None, options: Mapping[str, Option]) -> str:
    place = str(policy) if policy is not None else None
    return _typed(RequestRecord(command="gate", probe_file=place, options=dict(options)))


def _typed(request: RequestRecord) -> str:
    line = command_line(request)
    assert line is not None, "its command is named"
    return line
