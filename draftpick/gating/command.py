"""From the options of the command to a judged policy, a measured pair, and a new baseline."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from draftpick import rules
from draftpick.atomic import CannotWrite, folder_beside, one_at_a_time, write_text
from draftpick.catalog import Catalog
from draftpick.errors import InvalidFile, UsageError
from draftpick.gate_file import GateFile, PairRow, Policy, PolicyFile, read_baseline, read_policy
from draftpick.gating import Outcome, judge
from draftpick.gating.baseline import updated
from draftpick.gating.evidence import Sources
from draftpick.models.profile import ModelProfile
from draftpick.pair import Setting
from draftpick.probe_file import is_probe, to_text
from draftpick.probing import command
from draftpick.probing.session import Done


def run(
    path: Path,
    catalog: Catalog,
    *,
    resolve: Callable[[str, str | None], ModelProfile],
    setting: Callable[[PairRow], Setting],
    update: bool,
    offline: bool,
    consent: Callable[[str], bool],
    say: Callable[[str], None],
) -> GateFile:
    """Judge the policy at `path`; with `update`, what was measured becomes the baseline of the pairs that pass.

    Raises UsageError and InvalidFile for a policy or a baseline that cannot be read.
    """
    policy, lines = read_policy(path)
    _check_names(policy, path, lines, setting)
    place = path.parent / policy.baseline if policy.baseline is not None else None
    if update and place is None:
        raise UsageError(f"{path} names no baseline", 'add a line `baseline = "baseline.json"` before its first pair')

    def measure(pair: PairRow, target: ModelProfile, draft: ModelProfile, output: Path) -> None:
        options = _probe_options(pair, policy.policy(pair), path)

        def probe(into: Path) -> Done:
            whole = {**options, "output": into}
            return command.run(target, [draft], catalog, whole, offline=offline, consent=consent, say=say)

        _measure(output, probe)

    sources = Sources(catalog, resolve, setting, measure, datetime.now(timezone.utc).date())
    baseline = read_baseline(place) if place is not None else None
    outcome = judge(policy, path, None if update else baseline, sources, lines)
    if update and place is not None:
        written = _write_baseline(place, policy, outcome)
        say(f"{place}: {', '.join(written) if written else 'no pair'} written; pairs that fail keep what they had")
    return outcome.result


def _check_names(
    policy: PolicyFile, path: Path, lines: Mapping[str, int], setting: Callable[[PairRow], Setting]
) -> None:
    """An engine, device or rule that nobody knows is a mistake in the policy, and no verdict on a pair."""
    for pair in policy.pair:
        strange = next((rule for rule in policy.policy(pair).allow if rule not in rules.load()), None)
        if strange is not None:
            raise InvalidFile(
                f"{path}:{lines[pair.name]}: allow names no rule: {strange!r:.60}", "`draftpick rules` lists them all"
            )
        try:
            setting(pair)
        except UsageError as error:
            raise InvalidFile(f"{path}:{lines[pair.name]}: {error.message}", error.hint) from None


def _write_baseline(place: Path, policy: PolicyFile, outcome: Outcome) -> list[str]:
    """Replace the baselines of the pairs that pass; their names."""
    if not os.path.isdir(place.parent):
        raise CannotWrite(f"{place}: the folder {place.parent} does not exist", "create it first")
    with one_at_a_time(place.parent):
        # Read again: another run may have changed the other pairs meanwhile.
        new = updated(read_baseline(place), outcome.result, outcome.rows, [pair.name for pair in policy.pair])
        write_text(place, new.text())
    return [one.name for one in outcome.result.pairs if one.passed and one.name in outcome.rows]


def _measure(output: Path, probe: Callable[[Path], Done]) -> None:
    """Have a probe measured, and put it and its trace in their place, whole or not at all."""
    if not os.path.isdir(output.parent):
        raise CannotWrite(f"{output}: the folder {output.parent} does not exist", "create it first")
    if os.path.lexists(output) and not is_probe(output):
        raise CannotWrite(f"{output}: what is there is no probe, and stays", "name another file as evidence")
    try:
        with folder_beside(output) as folder:
            done = probe(folder / output.name)
            if done.interrupted:
                raise KeyboardInterrupt
            write_text(folder / output.name, to_text(done.probe))
            for made in sorted(folder.iterdir(), reverse=True):  # the trace before the probe that names it
                os.replace(made, output.parent / made.name)
    except OSError as error:
        raise CannotWrite(
            f"{output}: {error.strerror or error}", "free some space, or check the folder's permissions"
        ) from None


def _probe_options(pair: PairRow, policy: Policy, path: Path) -> dict[str, Any]:
    """A pair's own wishes, and for the rest what `draftpick probe` does without options."""
    timed = policy.min_speedup is not None or policy.max_k_drift is not None
    return {
        **dict.fromkeys(command.OWN_OPTIONS),
        "engine": pair.engine,
        "temperature": [pair.temperature] if pair.temperature is not None else None,
        "prompts": path.parent / pair.prompts if pair.prompts is not None else None,
        "max_new_tokens": pair.max_new_tokens,
        "tensor_parallel_size": pair.tensor_parallel_size,
        "num_speculative_tokens": max(8, pair.num_spec_tokens or 0),
        "costs": "measured" if timed else "roofline",
        # All prompts, so that the intervals mean what they say.
        "precision": 0.0,
    }
