"""Which measurement belongs to a pair of a gate, and whether it still holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import NamedTuple

from draftpick import __version__
from draftpick.catalog import Catalog
from draftpick.errors import DraftpickError
from draftpick.gate_file import PairRow, Policy, Status
from draftpick.models.profile import ModelProfile
from draftpick.pair import Setting
from draftpick.probe_file import DraftRecord, ProbeFile, read_probe, stopped_by_looking, trace_of


class Sources(NamedTuple):
    """What a gate asks, beside its files."""

    catalog: Catalog
    resolve: Callable[[str, str | None], ModelProfile]
    """A name and a revision become a model."""
    setting: Callable[[PairRow], Setting]
    measure: Callable[[PairRow, ModelProfile, ModelProfile, Path], None]
    """Measure a pair's target and draft now, and write the probe file there."""
    today: date


class Measured(NamedTuple):
    """A measurement that belongs to a pair."""

    probe: ProbeFile
    record: DraftRecord
    path: Path
    trace: Path | None
    """None where it is gone."""


class Unusable(Exception):
    """A measurement that nothing can be judged by: missing, stale or doubtful, and why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Models:
    """The two models of a pair, as its policy file at `path` names them."""

    def __init__(self, pair: PairRow, path: Path, sources: Sources) -> None:
        self._pair, self._path, self._sources = pair, path, sources
        self._found: dict[str, ModelProfile] = {}

    def resolved(self, name: str) -> ModelProfile:
        """What is known of a model. Raises what the look-up raises."""
        if name not in self._found:
            folder = self._folder(name)
            revision = {self._pair.target: self._pair.revision, self._pair.draft: self._pair.draft_revision}.get(name)
            self._found[name] = self._sources.resolve(str(folder) if folder is not None else name, revision)
        return self._found[name]

    def is_same(self, name: str, measured: str, probe: ProbeFile) -> bool:
        """Whether a measured id is the model that the policy names: by name, or as a folder of the same files."""
        if name == measured:
            return True
        folder = self._folder(name)
        if folder is None:
            return False
        try:
            same_place = folder.resolve() == Path(measured).resolve()
            return same_place or self.digests(name) == _digests(probe.identities.get(measured, {}))
        except (OSError, ValueError, DraftpickError):  # ValueError: a null byte in a name
            return False

    def digests(self, name: str) -> Mapping[str, object] | None:
        """Digests of a model's weights, config and tokenizer; None where they are not at hand."""
        from draftpick.probing import weights

        profile = self.resolved(name)
        folder = weights.at_hand(profile)
        return _digests(weights.identity(profile, folder)) if folder is not None else None

    def _folder(self, name: str) -> Path | None:
        """A model's folder, seen from the policy file or from here."""
        places = (os.path.normpath(self._path.parent / name), name)
        return next((Path(place) for place in places if os.path.isdir(place)), None)


def find(pair: PairRow, path: Path, models: Models, sources: Sources) -> Measured:
    """The measurement of a pair of the policy at `path`: saved, or made now. Raises Unusable."""
    try:
        if pair.evidence is None and not pair.probe:
            raise Unusable("missing", "nothing was measured: the pair names no evidence and no probe = true")
        place = path.parent / (pair.evidence or f"gate-{_file_name(pair.name)}.json")
        if pair.probe:
            sources.measure(pair, models.resolved(pair.target), models.resolved(pair.draft), place)
        if not os.path.exists(place):  # unlike Path.exists, no error for a name that is too long
            raise Unusable("missing", f"{place}: there is no such probe file")
        probe = read_probe(place)
        trace = trace_of(probe, place)
    except DraftpickError as error:
        raise Unusable("missing", f"{error.message}; {error.hint}" if error.hint else error.message) from None
    if not models.is_same(pair.target, probe.target.id, probe):
        raise Unusable("missing", f"{place} measured the target {probe.target.id}, not {pair.target}")
    of_draft = [one for one in probe.drafts if models.is_same(pair.draft, one.draft, probe)]
    if not of_draft:
        known = ", ".join(dict.fromkeys(one.draft for one in probe.drafts)) or "none"
        raise Unusable("missing", f"{place} measured no draft {pair.draft}; it holds {known}")
    heat = pair.temperature if pair.temperature is not None else of_draft[0].temperature
    record = next((one for one in of_draft if one.temperature == heat), None)
    if record is None:
        heats = ", ".join(f"{one.temperature:g}" for one in of_draft)
        raise Unusable("missing", f"{place} measured nothing at temperature {heat:g}; it holds {heats}")
    return Measured(probe, record, place, trace)


def problems(found: Measured, pair: PairRow, policy: Policy, models: Models, today: date) -> Iterator[Unusable]:
    """What makes a measurement stale, then what makes it doubtful."""
    probe, record = found.probe, found.record
    yield from _stale(found, pair, policy, models, today)
    if policy.min_prompts is not None and record.num_prompts < policy.min_prompts:
        yield Unusable("doubtful", f"{record.num_prompts} prompts were measured; min_prompts = {policy.min_prompts}")
    # Unsteady timings leave acceptance as it is.
    timed = policy.min_speedup is not None or policy.max_k_drift is not None
    harmless = () if timed else (*probe.timing_doubts, *record.timing_doubts)
    doubts = [one for one in (*probe.doubts, *record.doubts) if one not in harmless]
    if doubts:
        more = f" (and {len(doubts) - 1} more doubts)" if len(doubts) > 1 else ""
        yield Unusable("doubtful", f"{doubts[0]}{more}")


def notes(found: Measured, compares: bool) -> Iterator[str]:
    """What a reader of the result should know of a measurement, and decides nothing."""
    if compares and found.trace is None:
        yield "its trace is gone: acceptance is compared without pairing by prompt"
    if stopped_by_looking(found.record.stopped_by):
        yield "the run looked before it stopped, so its intervals are nominal: --precision 0 measures all prompts"


def _stale(found: Measured, pair: PairRow, policy: Policy, models: Models, today: date) -> Iterator[Unusable]:
    probe = found.probe
    age = _age(probe.created, today)
    if age is None:
        yield Unusable("stale", f"its date, {probe.created[:40]!r}, is none, or lies in the future")
    elif policy.max_age_days is not None and age > policy.max_age_days:
        yield Unusable("stale", f"it is {age} days old; max_age_days = {policy.max_age_days}")
    theirs = probe.tool.get("version", "")
    if _major(theirs) != _major(__version__):
        yield Unusable("stale", f"draftpick {theirs:.20} measured it, this is {__version__}: measure again")
    named = ((pair.target, probe.target.id, pair.revision), (pair.draft, found.record.draft, pair.draft_revision))
    for name, measured, revision in named:
        yield from _changed(name, revision, probe.identities.get(measured, {}), models)


def _changed(name: str, revision: str | None, before: Mapping[str, object], models: Models) -> Iterator[Unusable]:
    """Whether a model is another one by now: by its revision, or by the files that are at hand."""
    measured = before.get("revision")
    if revision is not None and measured is not None and measured != revision:
        yield Unusable("stale", f"{name} was measured at revision {measured!s:.40}, the policy names {revision:.40}")
    try:
        now = models.digests(name)
    except (DraftpickError, OSError):
        return
    known = _digests(before)
    for part in ("tokenizer", "weights", "config"):
        if now is not None and part in known and known[part] != now.get(part):
            yield Unusable("stale", f"the {part} of {name} changed since it was measured: measure again")


def _age(created: str, today: date) -> int | None:
    """Days since a probe was made; None where its date cannot be."""
    try:
        made = datetime.fromisoformat(created)
        day = made.astimezone(timezone.utc).date() if made.tzinfo is not None else made.date()
    except (ValueError, OverflowError):  # in UTC the first day of all lies before it
        return None
    age = (today - day).days
    return max(age, 0) if age >= -1 else None  # clocks may be a time zone apart


def _major(version: str) -> str:
    """What tells versions apart that may measure differently: before 1.0 that is the second number."""
    parts = version.split(".")
    return ".".join(parts[:2]) if parts[0] == "0" else parts[0]


def _digests(identity: Mapping[str, object]) -> dict[str, object]:
    return {name: identity[name] for name in ("weights", "config", "tokenizer") if identity.get(name) is not None}


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)[:100]
