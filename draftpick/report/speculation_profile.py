"""A probe as speculation_profile.json, schema 1.0: what NVIDIA Model Optimizer puts beside a draft checkpoint.

Dynamo's simulator reads its conditional rates, vLLM's synthetic rejection sampler its marginal ones. The format is that
of `examples/specdec_bench/specdec_bench/speculation_profile.py` (`build_profile`, SCHEMA_VERSION "1.0"), with the
metadata of `run.py` beside it, in github.com/NVIDIA/Model-Optimizer, pull request 2247, commits
edf879d3daf7879acdeb2dab9f54a591837da7b0 and c170403378778399a7834c79973c832e96302c24, open when this was written; null
vectors under block verification are those of its later tests. The reader there (`read_speculation_profile` of
`modelopt/torch/export/plugins/hf_spec_export.py`, pull request 2313) takes any JSON object with a `schema_version`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from draftpick import __version__
from draftpick.errors import NotResolvable, UsageError
from draftpick.report.text import json_text

if TYPE_CHECKING:
    from draftpick.probe_file import DraftRecord, KRecord, ProbeFile

SCHEMA_VERSION = "1.0"
TOLERANCE = 0.02
"""Of the mean length that the marginal rates imply, against the one that was measured."""
_CHAINS = ("eagle", "eagle1", "eagle2", "eagle3", "draft_model")
"""Methods whose shorter drafts are the beginnings of their longer ones: one K says all smaller ones."""


def render(probe: ProbeFile, draft: str | None = None, temperature: float | None = None) -> str:
    """The profile of one draft at one temperature: the draft that was decided for, or else the first that was measured.

    Raises UsageError for a draft or temperature that the probe lacks, NotResolvable where no answer was long enough to
    hold a block.
    """
    return json_text(_profile(probe, _chosen(probe, draft, temperature))) + "\n"


def _chosen(probe: ProbeFile, draft: str | None, temperature: float | None) -> DraftRecord:
    found = [one for one in probe.drafts if temperature is None or one.temperature == temperature]
    wanted = draft if draft is not None else probe.decision.draft
    named = [one for one in found if one.draft == wanted]
    if found and draft is None:
        return (named or found)[0]
    if not named:
        there = ", ".join(f"{one.draft} at temperature {one.temperature:g}" for one in probe.drafts) or "none"
        asked = " ".join(
            [draft or "a draft", *([f"at temperature {temperature:g}"] if temperature is not None else [])]
        )
        raise UsageError(f"the probe holds no measurement of {asked}", f"it holds: {there}")
    return named[0]


def _profile(probe: ProbeFile, one: DraftRecord) -> dict[str, Any]:
    longest = one.by_k[-1] if one.by_k else None
    if longest is None or longest.k < 1 or not longest.num_drafts:
        raise NotResolvable(
            f"no answer was long enough to hold a block drafted by {one.draft}",
            "measure more or longer answers: --num-prompts, --max-new-tokens",
        )
    by_block = one.way == "sampled_block"
    marginal = [rate or 0.0 for rate in one.position_rates.marginal]
    mean = longest.mean_acceptance_length
    return {
        "schema_version": SCHEMA_VERSION,
        "measured": True,
        "producer": f"draftpick {__version__}",
        "method": one.method,
        "draft_checkpoint": _checkpoint(probe, one.draft),
        "target_model": _checkpoint(probe, probe.target.id),
        "num_speculative_tokens": longest.k,
        "block_size": None,
        "max_supported_k": longest.k,
        "verification_method": "block" if by_block else "longest_prefix",
        "conditional_accept_rates": None if by_block else _conditional(marginal),
        "marginal_accept_rates": None if by_block else [_rounded(rate) for rate in marginal],
        **({"vectors_unavailable_reason": _NO_PREFIX} if by_block else {}),
        "mean_accept_length": _rounded(mean),
        "mean_accept_length_per_request": None,
        "accept_length_model": "chain_analytic" if one.method in _CHAINS else "measured_per_k",
        "accept_length_by_k": {str(row.k): _rounded(row.mean_acceptance_length) for row in one.by_k if row.k},
        "acceptance_length_histogram": _histogram(longest),
        "per_category": None,
        "measurement_conditions": _conditions(probe, one),
        "validation": None if by_block else _validation(mean, marginal),
    }


_NO_PREFIX = "block verification accepts a drafted block jointly: there is no longest-prefix distribution"


def _checkpoint(probe: ProbeFile, model: str) -> dict[str, Any]:
    """The last two parts of an id or path, as there: a profile is published, and must not tell where models lie."""
    parts = [part for part in re.split(r"[/\\]", model) if part]
    revision = probe.identities.get(model, {}).get("revision")
    return {"id": "/".join(parts[-2:]), **({"revision": revision} if isinstance(revision, str) else {})}


def _conditional(marginal: Sequence[float]) -> list[float]:
    """Of one position given the ones before; 0 where none was reached, as there."""
    return [_rounded(after / before) if before > 0 else 0.0 for before, after in pairwise([1.0, *marginal])]


def _histogram(longest: KRecord) -> dict[str, float]:
    """Tokens that a step gave, the target's own included → how many steps. Expected counts, so no whole numbers."""
    return {str(tokens): _rounded(count) for tokens, count in enumerate(longest.acceptance_histogram, start=1)}


def _conditions(probe: ProbeFile, one: DraftRecord) -> dict[str, Any]:
    return {
        "dataset": probe.prompts.get("source"),
        "concurrency": None,  # acceptance does not depend on it
        "temperature": one.temperature,
        "engine": probe.engine,
        "num_samples": one.num_prompts,
        "osl": probe.sampling.get("max_new_tokens"),
        "validation": f"replayed on the target's own text; {one.proposal}",
    }


def _validation(mean: float, marginal: Sequence[float]) -> dict[str, Any]:
    """The two checks that belong to the format."""
    implied = 1.0 + sum(marginal)
    risen = [
        {"position": place, "value": after, "previous": before}
        for place, (before, after) in enumerate(pairwise(marginal), start=1)
        if after > before + 1e-9
    ]
    return {
        "mean_consistency": {
            "implied_mean_accept_length": _rounded(implied),
            "reported_mean_accept_length": _rounded(mean),
            "abs_delta": _rounded(abs(implied - mean)),
            "tolerance": TOLERANCE,
            "passed": abs(implied - mean) <= TOLERANCE,
        },
        "marginal_monotonicity": {"passed": not risen, "violations": risen},
    }


def _rounded(value: float) -> float:
    return round(value, 6)
