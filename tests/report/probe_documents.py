"""Small probes made from histograms: what a report shows of them can be recounted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from draftpick.models.profile import ModelProfile
from draftpick.probe_file import ProbeFile, record_of

HISTOGRAM = (40, 30, 20, 10)
"""Steps that accepted 0, 1, 2 and 3 tokens."""


def interval(value: float, width: float = 0.1, level: float = 0.95) -> dict[str, float]:
    return {"value": value, "low": value - width, "high": value + width, "level": level}


def share(value: float) -> dict[str, float]:
    return {"value": value, "low": value * 0.9, "high": value + (1 - value) * 0.1, "level": 0.95}


def costs(k: int, source: str = "measured") -> dict[str, Any]:
    return {
        "source": source,
        "software": "transformers 5",
        "num_seqs": 2,
        "context": 64,
        "target_ms": 10.0,
        "draft_first_ms": 1.5,
        "draft_ms": 1.25,
        "verify_ms": [10.0 + place for place in range(k + 1)],
        "overhead_ms": 0.5,
        "c": 0.125,
    }


def draft(
    name: str = "acme/draft",
    temperature: float = 0.0,
    histogram: Sequence[float] = HISTOGRAM,
    *,
    priced: bool = True,
    **changes: Any,
) -> dict[str, Any]:
    """A draft whose steps accept what the histogram counts, at each k the beginning of the longest draft."""
    steps, k_max = sum(histogram), len(histogram) - 1
    reached = [*accumulate(reversed(histogram))][::-1]
    marginal = [count / steps for count in reached[1:]]
    lengths = [1.0, *(1.0 + total for total in accumulate(marginal))]
    rows = [
        {
            "k": k,
            "mean_acceptance_length": length,
            "mean_acceptance_length_low": 1 + (length - 1) * 0.9,
            "mean_acceptance_length_high": length + (k + 1 - length) * 0.1,
            "visible_length": length,
            "draft_acceptance_rate": (length - 1) / k if k else None,
            "num_drafts": steps,
            "num_draft_tokens": steps * k,
            "num_accepted_tokens": sum(reached[1 : k + 1]),
            "num_accepted_tokens_per_pos": reached[1 : k + 1],
            "acceptance_histogram": [*histogram[:k], reached[k]],
            "speedup": interval(length / 2) if priced else None,
        }
        for k, length in enumerate(lengths)
    ]
    return {
        "draft": name,
        "temperature": temperature,
        "proposal": "the draft's first choice",
        "way": "first_choice",
        "acceptance_rate": share(marginal[0] if marginal else 0.5),
        "by_k": rows,
        "position_rates": {
            "marginal": marginal,
            "conditional": [after / before if before else None for before, after in pairwise(reached)],
        },
        "by_domain": {},
        "num_prompts": 16,
        "num_tokens": 900,
        "stopped_by": "all 16 prompts were used",
        "costs": [costs(k_max)] if priced else [],
        "plan": {"num_spec_tokens": 2, "mean_acceptance_length": lengths[2], "speedup": interval(lengths[2] / 2)}
        if priced and k_max >= 2
        else None,
        **changes,
    }


def probe(
    *drafts: dict[str, Any], target: str = "acme/target", decided: str | None = None, **changes: Any
) -> ProbeFile:
    """A probe of these drafts, or of one; `decided` is the draft that the decision names."""
    found = drafts or (draft(),)
    models = {one["draft"]: record_of(ModelProfile(one["draft"], "folder")) for one in found}
    return ProbeFile.model_validate(
        {
            "schema_version": "1",
            "kind": "probe",
            "tool": {"name": "draftpick", "version": "1"},
            "created": "2026-11-30T00:00:00+00:00",
            "duration_s": 12.5,
            "seconds": {"loading": 1.0},
            "target": record_of(ModelProfile(target, "folder")).model_dump(),
            "models": {name: record.model_dump() for name, record in models.items()},
            "identities": {target: {"revision": "a" * 40}},
            "device": {"id": "npu:0", "name": "Toy NPU"},
            "software": {"python": "3.11"},
            "dtype": "bfloat16",
            "sampling": {"max_new_tokens": 128},
            "prompts": {"source": "prompts.jsonl", "digest": "0" * 64, "num": 16},
            "engine": "vllm-ascend",
            "num_prompts": 16,
            "num_tokens": 900,
            "stopped_by": "all 16 prompts were used",
            "decision": {
                "action": "speculate" if decided else "undecided",
                "draft": decided,
                "evidence": "measured",
                "sentence": "So it is.",
            },
            "drafts": found,
            **changes,
        }
    )
