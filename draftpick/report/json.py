"""The JSON document that others build on; `draftpick.advice_file` reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from draftpick import __version__
from draftpick.advice import Advice, why
from draftpick.assess import Assessment
from draftpick.decision import num_spec_tokens
from draftpick.evidence import PolicyRow
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import Device, Head, Setting
from draftpick.report.text import params_of
from draftpick.rules.known_issues import KnownIssue

SCHEMA_VERSION = "1"
NOTHING_ASKED: Mapping[str, Any] = MappingProxyType({})


def document(advice: Advice, request: Mapping[str, Any] = NOTHING_ASKED) -> dict[str, Any]:
    """The document as plain values. `request` is what was typed, as `draftpick.option_values.asked` puts it."""
    decision, setting = advice.decision, advice.setting
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "advice",
        "tool": {"name": "draftpick", "version": __version__, "catalog_date": advice.catalog_date},
        "command": advice.command,
        "request": dict(request),
        "target": model(advice.target),
        "device": _device(advice),
        "engine": {"id": setting.engine.key, "version": setting.engine.version} if setting.engine else None,
        "workload": _workload(setting),
        "setting": _place(setting),
        "decision": {
            "action": decision.action,
            "method": decision.method,
            "draft": decision.draft,
            "num_spec_tokens": decision.num_spec_tokens,
            "speedup": decision.speedup._asdict() if decision.speedup is not None else None,
            "evidence": decision.evidence,
            "sentence": decision.sentence,
        },
        "candidates": [candidate(place, found) for place, found in enumerate(advice.assessments, start=1)],
        "left_out": dict(advice.left_out),
        **({"policies": [_policy(row) for row in advice.policies]} if advice.policies else {}),
    }


def _policy(row: PolicyRow) -> dict[str, Any]:
    return {
        "policy": row.name,
        "what": row.what,
        "mean_acceptance_length": row.length._asdict() if row.length is not None else None,
        "drafted_per_step": row.drafted,
        "speedup": row.speedup._asdict() if row.speedup is not None else None,
        "estimated": row.estimated,
    }


def candidate(place: int, found: Assessment) -> dict[str, Any]:
    """One candidate with its findings and the verdict of every engine."""
    proposal = found.proposal
    return {
        "rank": place,
        "draft": proposal.id,
        "method": proposal.method,
        "label": proposal.label,
        "origin": proposal.origin,
        "via": proposal.via,
        "viable": found.viable,
        "score": round(found.score, 1),
        "coverage": round(found.coverage, 3),
        "engine": found.verdict.engine if found.verdict is not None else None,
        "reason": why(found),
        "params": params_of(proposal),
        "model": model(proposal.draft) if proposal.draft is not None else None,
        "head": _head(proposal.head) if proposal.head is not None else None,
        "tokenizer": tokenizer(found),
        "findings": [
            {
                "rule": finding.rule,
                "outcome": finding.outcome,
                "message": finding.message,
                "evidence": dict(finding.evidence),
                "weight": finding.weight,
                **({} if finding.certain else {"certain": False}),
                **({"ignored_because": finding.ignored_because} if finding.ignored_because is not None else {}),
            }
            for finding in found.findings
        ],
        **_prediction(found),
        "memory": _memory(found),
        "known_issues": [_issue(issue) for issue in found.known_issues],
        "engines": {
            key: {"verdict": found_there.verdict, "version": found_there.version, "reasons": list(found_there.reasons)}
            for key, found_there in found.engines.all.items()
        },
    }


def _issue(found: KnownIssue) -> dict[str, Any]:
    return {**found._asdict(), "sentence": found.sentence}


def _prediction(found: Assessment) -> dict[str, Any]:
    """What is predicted; null where nobody can tell."""
    said = found.prediction
    row = said.plan.drafting if said is not None else None
    if said is None or row is None:
        plan: dict[str, Any] = dict.fromkeys(("mean_acceptance_length", "speedup", "by_k", "schedule"))
        if found.bounds is not None:
            plan["speedup"] = {"value": None, "low": found.bounds[0], "high": found.bounds[1], "level": None}
        plan["missing"] = (found.missing or None) if found.viable else None
        return {"acceptance": None, "cost": None, "plan": {"num_spec_tokens": num_spec_tokens(found), **plan}}
    rate, parts, place = said.acceptance, said.costs, said.place
    whole = said.end_to_end
    return {
        "acceptance": {
            "rate": rate.rate,
            "low": rate.low,
            "high": rate.high,
            "level": rate.level,
            "fade": rate.fade,
            "source": said.basis.sentence,
            "rests_on": list(said.basis.rows),
            "measured": said.measured is not None,
            "doubts": list(said.measured.doubts) if said.measured is not None else [],
        },
        "cost": {
            "c": parts.c,
            "target_ms": parts.target * 1e3,
            "draft_first_ms": parts.draft_first * 1e3,
            "draft_ms": parts.draft * 1e3,
            "verify_ms": [time * 1e3 for time in parts.verify],
            "overhead_ms": parts.overhead * 1e3,
            "ttft_overhead_ms": parts.ttft_overhead * 1e3 if parts.ttft_overhead is not None else None,
            "source": parts.source,
            "launch_bound": parts.launch_bound,
            "notes": list(parts.notes),
            "engine": place.engine.key,
            "device": place.device.key,
            "device_assumed": place.assumed,
            "tensor_parallel_size": place.devices,
            "more_devices": place.crowded,
            "num_seqs": place.batch,
        },
        "plan": {
            "num_spec_tokens": said.plan.num_spec_tokens,
            "mean_acceptance_length": row.mean_acceptance_length,
            "speedup_of": row.k,
            "speedup": {"value": row.speedup, "low": row.low, "high": row.high, "level": said.plan.speedup.level},
            "by_k": [one._asdict() for one in said.plan.by_k],
            "schedule": [list(part) for part in found.schedule],
            "end_to_end": whole._asdict() if whole is not None else None,
        },
    }


def _memory(found: Assessment) -> dict[str, Any]:
    budget = found.budget
    return {
        "tensor_parallel_size": found.pair.setting.tensor_parallel_size,
        "fits": budget.fits,
        "per_device_bytes": budget.per_device_bytes._asdict(),
        "max_num_seqs": budget.max_num_seqs,
        "max_num_seqs_without_draft": budget.max_num_seqs_without_draft,
        "max_tokens": budget.max_tokens,
        "max_context": budget.max_context,
        "min_tensor_parallel_size": budget.min_tensor_parallel_size,
        "notes": list(budget.notes),
    }


def model(profile: ModelProfile) -> dict[str, Any]:
    """What is known of one model; unknown is null."""
    return {
        "id": profile.id,
        "origin": profile.origin,
        "revision": profile.revision,
        "architecture": profile.architecture,
        "params_total": profile.params_total,
        "params_text": profile.params_text,
        "params_active": profile.params_active,
        "params_read": profile.params_read,
        "num_hidden_layers": profile.num_hidden_layers,
        "num_nextn_predict_layers": profile.num_nextn_predict_layers,
        "vocab_size": profile.vocab_size,
        "max_position_embeddings": profile.max_position_embeddings,
        "dtype": profile.dtype,
        "quantization": profile.quantization,
        "tokenizer": profile.tokenizer.key if profile.tokenizer is not None else None,
        "license": profile.license,
        "gated": profile.gated,
        "remote_code": profile.remote_code,
        "uncertain": sorted(profile.uncertain),
    }


def _head(head: Head) -> dict[str, Any]:
    return {
        "id": head.id,
        "method": head.method,
        "target": head.target,
        "params": head.params,
        "num_hidden_layers": head.num_hidden_layers,
        "draft_vocab_size": head.draft_vocab_size,
        "num_spec_tokens": head.num_spec_tokens,
        "license": head.license,
        "confidence": head.confidence,
    }


def tokenizer(found: Assessment) -> dict[str, Any] | None:
    """How the two tokenizers relate, with the three sizes of each; null where the proposal has none of its own."""
    draft = found.proposal.draft
    if draft is None:
        return None
    relation = found.relation
    return {
        "relation": relation.kind if relation is not None else "unknown",
        "verified": relation.verified if relation is not None else False,
        "reason": relation.reason if relation is not None else "at least one tokenizer is not known",
        "first_difference": _difference(relation),
        "same_cut": relation.same_cut if relation is not None else None,
        "only_target": list(relation.only_target) if relation is not None else [],
        "only_draft": list(relation.only_draft) if relation is not None else [],
        "renamed": list(relation.renamed) if relation is not None else [],
        "target": _sizes(found.pair.target),
        "draft": _sizes(draft),
    }


def _difference(relation: Relation | None) -> dict[str, Any] | None:
    if relation is None or relation.first_difference is None:
        return None
    first = relation.first_difference
    return {"id": first.id, "target": first.target, "draft": first.draft}


def _sizes(profile: ModelProfile) -> dict[str, int | None]:
    own = profile.tokenizer
    return {
        "base_ids": own.base_ids if own is not None else None,
        "named_ids": own.named_ids if own is not None else None,
        "highest_id": own.highest_id if own is not None else None,
        "embedding_rows": profile.vocab_size,
    }


def _device(advice: Advice) -> dict[str, Any] | None:
    """The device named, or the one that the first prediction assumes or that was measured."""
    setting = advice.setting
    if setting.device is not None:
        return _device_values(setting.device, setting.tensor_parallel_size, assumed=False)
    found = next((one.prediction for one in advice.assessments if one.prediction is not None), None)
    if found is None:
        return None
    return _device_values(found.place.device, found.place.devices, assumed=found.place.assumed)


def _device_values(device: Device, count: int, *, assumed: bool) -> dict[str, Any]:
    return {
        "id": device.key,
        "name": device.name,
        "count": count,
        "memory_bytes": device.memory_bytes,
        "assumed": assumed,
        "others": list(device.others),
        "note": device.note,
    }


def _workload(setting: Setting) -> dict[str, Any]:
    return {
        "max_model_len": setting.max_model_len,
        "max_num_seqs": setting.max_num_seqs,
        "num_spec_tokens": setting.num_spec_tokens,
        "temperature": setting.temperature,
        "kind": setting.workload,
        "input_len": setting.input_len,
        "output_len": setting.output_len,
        "images": setting.images,
    }


def _place(setting: Setting) -> dict[str, Any]:
    return {
        "tensor_parallel_size": setting.tensor_parallel_size,
        "dtype": setting.dtype,
        "quantization": setting.quantization,
        "draft_quantization": setting.draft_quantization,
        "kv_cache_dtype": setting.kv_cache_dtype,
        "gpu_memory_utilization": setting.gpu_memory_utilization,
        "memory_bytes": setting.memory,
        "bandwidth": setting.bandwidth,
        "stop_rule": setting.stop_rule,
        "trust_remote_code": setting.trust_remote_code,
    }
