"""A first policy for the pairs of an answer, with a comment for every threshold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from draftpick.advice_file import AdviceFile, CandidateRecord
from draftpick.errors import UsageError
from draftpick.gate_file import PolicyFile
from draftpick.pair import DRAFT_FREE
from draftpick.record import first_wrong
from draftpick.toml_file import parse_toml

_TOP = """\
# What `draftpick gate` holds these pairs to. Paths are seen from this file.
# Thresholds compare with the bound of an interval: a minimum with its lower end.
schema_version = "1"
"""
_BASELINE = """\
# Acceptance must not fall below what it was: `draftpick gate --update-baseline` writes this file.
baseline = {baseline}
"""
_DEFAULTS = """\
# Of every pair that does not say otherwise under [pair.policy].
[defaults]
# "reject": only findings that rule a pair out fail it; "warn": cautions fail it too.
fail_on = "reject"
# Rules whose findings never fail a pair: allow = ["size-ratio"]
"""
_OF_EVIDENCE = """\
# A measurement older than this fails as stale.
max_age_days = 90
# One of fewer prompts fails as doubtful.
min_prompts = 16
# A loss of acceptance rate that is let pass, though the intervals show it.
tolerance = 0.01
"""


UNHELD = ("memory", "bandwidth", "quantization", "draft-quantization", "kv-cache-dtype", "gpu-memory-utilization")
"""Options of an answer that a policy has no key for: whether the pair fits hangs on them."""


class Beside(NamedTuple):
    """The files of a first policy, as seen from here."""

    evidence: Path
    measured: bool
    """Whether the evidence is there, since the answer was made from it."""
    baseline: Path


def files_beside(advice: AdviceFile, policy: Path) -> Beside:
    """What the first policy at `policy` names: the probe of the answer, else names at which nothing stands."""
    probe = advice.request.probe_file
    measured = probe is not None and os.path.isfile(probe)
    evidence = Path(probe) if probe is not None and measured else _free(policy.parent, "probe", ".json", ".trace.jsonl")
    return Beside(evidence, measured, _free(policy.parent, "baseline", ".json"))


def _free(folder: Path, name: str, *endings: str) -> Path:
    """The first of NAME, NAME-2, … that no file with one of the endings has; with the first of them."""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    free = next(one for one in names if not any(os.path.lexists(folder / f"{one}{ending}") for ending in endings))
    return folder / f"{free}{endings[0]}"


def _seen_from(policy: Path, place: Path) -> str:
    try:
        return os.path.relpath(place, policy.parent)
    except ValueError:  # another drive
        return str(place.absolute())


def first_policy(advice: AdviceFile, policy: Path = Path("pairs.toml")) -> str:
    """The text of a policy, to be kept at `policy`, for the draft of an answer, or for the best where it names none.

    Raises UsageError for an answer without a target or without a viable draft model, and for one that names what no
    policy can.
    """
    chosen = chosen_of(advice)
    beside = files_beside(advice, policy)
    baseline = _BASELINE.format(baseline=_text(beside.baseline.name))
    parts = [_TOP, _DEFAULTS] if chosen.head is not None else [_TOP, baseline, _DEFAULTS + _OF_EVIDENCE]
    text = "\n".join([*parts, *_pair(advice, chosen, _seen_from(policy, beside.evidence))]) + "\n"
    try:
        PolicyFile.model_validate(parse_toml(text, Path("pairs.toml")))
    except ValidationError as error:
        raise UsageError(
            f"no policy can hold this pair: {first_wrong(error)}", "rename its folder, or write the policy yourself"
        ) from None
    return text


def unheld(advice: AdviceFile) -> list[str]:
    """Options of the answer that its policy cannot hold."""
    return [name for name in UNHELD if name in advice.request.options]


def chosen_of(advice: AdviceFile) -> CandidateRecord:
    """The draft that the answer decided for, or the best."""
    if advice.target is None:
        raise UsageError("the answer has no target: it is a plan of typed-in numbers", "name one of `recommend --json`")
    decided = advice.decision
    if decided.action == "speculate" and decided.draft is None and decided.method in ("mtp", *DRAFT_FREE):
        raise UsageError(
            f"the answer is {decided.method} without a draft of its own, which no policy can hold",
            "name the draft to gate in the answer: draftpick recommend TARGET -d DRAFT --json",
        )
    drafts = [one for one in advice.viable if one.draft is not None]
    chosen = [one for one in drafts if one.draft == advice.decision.draft] or drafts
    if not chosen:
        raise UsageError("the answer has no viable draft model to gate", "name another answer of `recommend --json`")
    return chosen[0]


def _pair(advice: AdviceFile, chosen: CandidateRecord, evidence: str) -> Iterator[str]:
    assert advice.target is not None
    assert chosen.draft is not None
    yield "[[pair]]"
    yield f"name = {_text(_name(chosen.draft, advice.target.id))}"
    yield f"target = {_text(advice.target.id)}"
    yield f"draft = {_text(chosen.draft)}"
    if advice.target.revision is not None:
        yield f"revision = {_text(advice.target.revision)}"
    if chosen.model is not None and chosen.model.revision is not None:
        yield f"draft_revision = {_text(chosen.model.revision)}"
    if advice.engine is not None:
        yield "# Where it is deployed: engine and device are judged, even where nothing is measured there."
        yield f"engine = {_text(advice.engine.id + '@' + advice.engine.version)}"
    yield from _place(advice)
    k = chosen.plan.num_spec_tokens or chosen.plan.speedup_of
    if k:
        deployed = chosen.plan.num_spec_tokens and advice.decision.action == "speculate"
        why = "The answer was not to speculate: put the k here that is deployed all the same, or leave the pair out."
        yield "# The k that is deployed." if deployed else f"# {why}"
        yield f"num_spec_tokens = {k}"
    if chosen.head is not None:
        yield "# A head runs in its engine alone, where no probe measures it: the pair is judged by facts."
    else:
        yield "# What `draftpick probe TARGET DRAFT -o probe.json` wrote; or `probe = true` to measure at each run."
        yield "# Without evidence, baseline and the thresholds of a measurement, a pair passes by facts alone."
        yield f"evidence = {_text(evidence)}"
    yield ""
    yield "[pair.policy]"
    ignored = advice.request.options.get("ignore")
    if isinstance(ignored, list) and ignored:
        yield "# As the answer ignored them."
        yield f"allow = [{', '.join(_text(str(one).partition('=')[0].strip()) for one in ignored)}]"
    if chosen.score is not None:
        yield "# 0 to 100: how well the facts fit."
        yield f"min_score = {float(max(int(chosen.score) - 5, 0))}"
    if chosen.memory is not None and chosen.memory.fits and not unheld(advice):
        yield "must_fit = true"
    verdict = chosen.verdict
    if advice.engine is not None and verdict is not None and verdict.verdict in ("accepted", "care"):
        yield "# accepted, or care, which takes both."
        yield f"engine_verdict = {_text(verdict.verdict)}"
    if chosen.acceptance is not None and chosen.head is None:
        how = "measured" if chosen.acceptance.measured else "predicted"
        yield f"# {chosen.acceptance.rate:.2f} was {how}, {chosen.acceptance.low:.2f} at the lower end of its interval."
        yield f"min_acceptance_rate = {max(chosen.acceptance.low - 0.05, 0):.2f}"
    others = ["min_mean_acceptance_length", "min_speedup", "max_k_drift"] if chosen.head is None else []
    yield f"# Others: {', '.join(['min_coverage', *others])}."
    yield ""
    yield "# A check that may fail for a while:"
    yield "# [[pair.waivers]]"
    yield f'# check = "{"memory" if chosen.head is not None else "acceptance_rate"}"'
    yield '# reason = "why it may fail until then"'
    yield "# expires = 2027-01-31"


def _name(draft: str, target: str) -> str:
    ends = [name.rpartition("/")[2] for name in (draft, target)]
    # Folders may have longer names than a pair.
    return " for ".join(end if len(end) <= 140 else f"{end[:139]}…" for end in ends)


def _place(advice: AdviceFile) -> Iterator[str]:
    setting, workload = advice.setting, advice.workload
    if advice.device is not None and not advice.device.assumed:
        yield f"device = {_text(advice.device.id)}"
    if setting is not None and setting.tensor_parallel_size > 1:
        yield f"tensor_parallel_size = {setting.tensor_parallel_size}"
    for name in ("max_model_len", "max_num_seqs", "temperature"):
        value = getattr(workload, name) if workload is not None else None
        if value is not None:
            yield f"{name} = {value}"


def _text(value: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for the delete character.

    Raises UsageError for letters that are no UTF-8: without them it would name another file.
    """
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise UsageError(f"the name {value!a:.80} is no UTF-8, as a TOML file must be", "rename the folder")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
