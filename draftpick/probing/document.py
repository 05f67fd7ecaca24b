"""From what was measured to the probe file: every k, the decision in a sentence, and all that repeats the run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from draftpick import __version__, intervals, probe_file
from draftpick.candidates import given_model
from draftpick.choices import ASCEND_PREFERENCE, PROBE
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import Pair, Setting
from draftpick.probing import result
from draftpick.probing.outcome import Costs, Outcome, ServedCosts
from draftpick.probing.prompts import digest
from draftpick.probing.result import Measured
from draftpick.probing.timing import Passes, Timing
from draftpick.probing.trace import as_trace
from draftpick.replay import Replayed
from draftpick.rules.known_issues import matching
from draftpick.speedup import MARGIN, Decision, Interval, Plan, StepTimes, mostly_of_timings


def document(
    outcome: Outcome,
    target: ModelProfile,
    drafts: Sequence[ModelProfile],
    relations: Mapping[str, Relation | None],
    *,
    source: str,
    beside: Path | None,
) -> probe_file.ProbeFile:
    """The probe file. `source` says where the prompts came from; `beside` is the folder the file will lie in."""
    request = outcome.request
    found = outcome.measured(intervals.level_of_best(max(len(request.drafts), 1)))
    plans = [_plan(outcome, one) for one in found]
    said, best, unsteady = _decide(outcome, found, plans)
    lookups = _draft_free(outcome, found)
    suspects = {draft.id: _suspect(outcome, target, draft, relations.get(draft.id)) for draft in drafts}
    return probe_file.ProbeFile(
        schema_version="1",
        kind="probe",
        tool={"name": "draftpick", "version": __version__},
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        duration_s=round(sum(outcome.seconds.values()), 3),
        seconds={name: round(value, 3) for name, value in outcome.seconds.items()},
        target=probe_file.record_of(target._replace(path=None)),
        models={draft.id: probe_file.record_of(draft._replace(path=None)) for draft in drafts},
        identities={files.id: dict(files.identity) for files in (request.target, *request.drafts)},
        relations={name: _relation(relation) for name, relation in relations.items()},
        device=_device(outcome),
        software=dict(outcome.software),
        dtype=outcome.dtype,
        sampling=_sampling(outcome),
        prompts={"source": source, "digest": digest(request.prompts), "num": len(request.prompts)},
        engine=request.engine,
        trace=_trace(request.trace, beside),
        num_prompts=outcome.num_prompts,
        num_tokens=sum(len(row.tokens) for row in outcome.rows),
        stopped_by=outcome.stopped_by,
        decision=_with_lookups(_decision(outcome, said, found, plans, best, unsteady), lookups),
        drafts=[draft_record(outcome, one, plan, suspects[one.draft]) for one, plan in zip(found, plans, strict=True)],
        comparisons=_comparisons(outcome, found, plans),
        draft_free=lookups,
        checks=[probe_file.CheckRecord(**check._asdict()) for check in outcome.checks],
        doubts=[f"self-check failed: {one.name}: {one.detail}" for one in outcome.checks if not one.passed]
        + outcome.doubts
        + outcome.timing_doubts,
        timing_doubts=outcome.timing_doubts,
        notes=outcome.notes,
        peak_bytes=outcome.peak_bytes,
    )


def _plan(outcome: Outcome, found: Measured) -> Plan | None:
    priced = outcome.priced(found.draft)
    return found.priced(priced) if priced is not None else None


def _decide(
    outcome: Outcome, found: Sequence[Measured], plans: Sequence[Plan | None]
) -> tuple[Decision, int | None, bool]:
    """The decision, the draft it is about, and whether it is unsteady timings that keep it open."""
    said, best = result.decision(found, plans, outcome.num_prompts)
    if any(not check.passed for check in outcome.checks):
        return said._replace(action="undecided", more_prompts=None), best, False
    if said.action != "undecided":
        return said, best, False
    steady = [one.plan(priced.times) if (priced := outcome.priced(one.draft)) is not None else None for one in found]
    open_still, _ = result.decision(found, steady, outcome.num_prompts)
    unsteady = open_still.action != "undecided" or _mostly_of_timings(outcome, found, plans, best)
    return said._replace(more_prompts=None if unsteady else open_still.more_prompts), best, unsteady


def _mostly_of_timings(
    outcome: Outcome, found: Sequence[Measured], plans: Sequence[Plan | None], best: int | None
) -> bool:
    """Whether the speed-up of the draft in question is unsure by timings, more than by the texts."""
    plan = plans[best] if best is not None else None
    priced = outcome.priced(found[best].draft) if best is not None else None
    row = plan.drafting if plan is not None else None
    return row is not None and priced is not None and mostly_of_timings(row, priced.spread)


# ---------------------------------------------------------------------- the decision


def _decision(
    outcome: Outcome,
    said: Decision,
    found: Sequence[Measured],
    plans: Sequence[Plan | None],
    best: int | None,
    unsteady: bool,
) -> probe_file.DecisionRecord:
    target = outcome.request.target.id
    one = found[best] if best is not None else None
    plan = plans[best] if best is not None else None
    row = plan.drafting if plan is not None else None
    if one is None or plan is None or row is None:
        sentence = _without_plan(outcome, said, found, plans)
        return probe_file.DecisionRecord(action=said.action, evidence=outcome.evidence, sentence=sentence)  # type: ignore[arg-type]
    gain = (
        f"{row.speedup:.2f}× the plain decoding speed ({one.level:.0%} interval {row.low:.2f} to {row.high:.2f}) was "
        f"measured on {outcome.num_prompts} prompts{'' if unsteady else _doubt_of_timings(outcome, one.draft)}"
    ).replace("%", " %")
    where = f"in {_software_name(outcome)} on {_device_name(outcome)}"
    if said.action == "speculate":
        sentence = f"Use {one.draft} in front of {target} {where} with num_spec_tokens = {row.k}: {gain}."
    elif said.action == "undecided":
        more = f"; about {said.more_prompts} more prompts would decide" if said.more_prompts else ""
        failed = next((check for check in outcome.checks if not check.passed), None)
        more = f", but it is suspect: {failed.name}: {failed.detail}" if failed is not None else more
        more = "; its timings are too unsteady to decide: measure on a quiet machine" if unsteady else more
        sentence = f"Undecided for {target} {where}: with {one.draft} at num_spec_tokens = {row.k}, {gain}{more}."
    else:
        sentence = f"Do not speculate with {target} {where}: at best, with {one.draft} at k = {row.k}, {gain}."
    return probe_file.DecisionRecord(
        action=said.action,  # type: ignore[arg-type]
        method="draft_model" if said.action != "do_not_speculate" else None,
        draft=one.draft if said.action != "do_not_speculate" else None,
        num_spec_tokens=row.k if said.action != "do_not_speculate" else 0,
        speedup=probe_file.IntervalRecord(value=row.speedup, low=row.low, high=row.high, level=one.level),
        evidence=outcome.evidence,
        sentence=sentence,
        more_prompts=said.more_prompts,
    )


def _doubt_of_timings(outcome: Outcome, draft: str) -> str:
    """What is said of a speed-up at once, lest a verdict sound surer than the timings that it rests on."""
    priced, costs = outcome.priced(draft), outcome.costs.get(draft)
    widest = max((one.spread for passes in costs.passes for one in _kinds(passes)), default=0.0) if costs else 0.0
    if widest > PROBE["unstable"]:
        seen = f"passes of one kind spread by {widest:.0%}"
    elif priced is not None and priced.spread > PROBE["unstable"]:
        seen = f"they are known to ±{priced.spread:.0%}"
    else:
        return ""
    return f" (timings doubtful: {seen}; measure on a quiet machine)".replace("%", " %")


def _kinds(passes: Passes) -> tuple[Timing, ...]:
    return (*passes.target, *passes.draft)


def _with_lookups(
    decision: probe_file.DecisionRecord, lookups: Sequence[probe_file.LookupRecord]
) -> probe_file.DecisionRecord:
    """What needs no draft may gain where no draft does."""
    gaining = [(row, row.speedup) for row in lookups if row.speedup is not None and row.speedup.low > 1 + MARGIN]
    if decision.action == "speculate" or not gaining:
        return decision
    row, gain = max(gaining, key=lambda pair: pair[1].value)
    added = f" Without a draft, {row.method} at k = {row.num_spec_tokens} is estimated to give {gain.value:.2f}×."
    return decision.model_copy(update={"sentence": decision.sentence + added})


def _without_plan(outcome: Outcome, said: Decision, found: Sequence[Measured], plans: Sequence[Plan | None]) -> str:
    target = outcome.request.target.id
    rows = [(plan.drafting, one) for plan, one in zip(plans, found, strict=True) if plan is not None]
    known = [(row, one) for row, one in rows if row is not None]
    if said.action == "do_not_speculate" and known:
        row, one = max(known, key=lambda pair: pair[0].speedup)
        gain = f"{row.speedup:.2f}× ({row.low:.2f} to {row.high:.2f}) at num_spec_tokens = {row.k}"
        return (
            f"Do not speculate with {target} in {_software_name(outcome)} on {_device_name(outcome)}: {one.draft}, the "
            f"best that was measured, gives {gain} on {outcome.num_prompts} prompts"
            f"{_doubt_of_timings(outcome, one.draft)}."
        )
    rates = ", ".join(f"{one.draft} {one.rate.value:.3f}" for one in found)
    failed = next((check for check in outcome.checks if not check.passed), None)
    if failed is not None:
        return (
            f"Undecided for {target}: acceptance rates were measured on {outcome.num_prompts} prompts ({rates}), but "
            f"the measurement is suspect: {failed.name}: {failed.detail}."
        )
    return (
        f"Acceptance rates with {target} were measured on {outcome.num_prompts} prompts ({rates}), but not what a step "
        f"costs: {said.reason if not any(plans) and outcome.costs else 'decide with `draftpick plan` for a device'}."
    )


def _software_name(outcome: Outcome) -> str:
    engine = outcome.request.engine
    if outcome.request.given_times is not None:
        return f"{engine} (with the costs given)"
    if outcome.evidence == "served":
        return engine
    return engine if engine == "transformers" else f"transformers (drafting as {engine} does)"


def _device_name(outcome: Outcome) -> str:
    return outcome.place.id if outcome.evidence == "measured" else outcome.place.tool_name or "its servers"


# ---------------------------------------------------------------------- a draft


def draft_record(outcome: Outcome, found: Measured, plan: Plan | None, suspect: str) -> probe_file.DraftRecord:
    """What was found of one draft at one temperature, with the plan for the costs at hand.

    `suspect` is whose fault it may be where next to nothing was accepted.
    """
    longest = found.by_k.get(found.k_max)
    costs = outcome.costs.get(found.draft)
    served = outcome.served_costs.get(found.draft)
    timing_doubts = _doubts_of_costs(costs) if costs is not None else list(served.doubts) if served is not None else []
    return probe_file.DraftRecord(
        draft=found.draft,
        temperature=found.temperature,
        proposal=found.way.name,
        way=found.way.key,
        level=found.level,
        acceptance_rate=_interval(found.rate),
        by_k=[_k(one, plan, found.level) for one in found.by_k.values() if one.mean_acceptance_length() is not None],
        position_rates=probe_file.PositionRates(
            marginal=list(longest.marginal_rates) if longest is not None else [],
            conditional=list(longest.conditional_rates) if longest is not None else [],
        ),
        by_domain={
            name: probe_file.DomainRecord(acceptance_rate=_interval(rate), num_prompts=number)
            for name, (rate, number) in found.by_domain().items()
        },
        other_proposals=_other_ways(outcome, found),
        num_prompts=found.trace.num_prompts,
        num_tokens=found.trace.num_tokens,
        stopped_by=outcome.stopped_by,
        doubts=result.doubts(found, suspect) + timing_doubts,
        timing_doubts=timing_doubts,
        costs=_costs(outcome, found.draft),
        plan=_plan_record(plan),
    )


def _suspect(outcome: Outcome, target: ModelProfile, draft: ModelProfile, relation: Relation | None) -> str:
    """What is known of the engine and device of this probe, where next to nothing was accepted; empty: nothing."""
    catalog = outcome.request.catalog
    engine = catalog.engine(outcome.request.engine)
    temperature = outcome.request.samplings[0].temperature
    pair = Pair(target, given_model(draft), Setting(engine=engine, temperature=temperature), relation)
    issues = [
        issue for issue in matching(catalog.issues_of(engine.key), pair, engine) if issue.kind == "zero_acceptance"
    ]
    said = [f"known of {engine.name}: {issue.sentence} ({issue.source})" for issue in issues]
    if engine.key in ASCEND_PREFERENCE or outcome.place.id.startswith("npu"):
        said.insert(0, "on Ascend NPUs it was mostly the engine's, in one version or graph mode, and not the draft's")
    return "; ".join(said)


def _k(one: Replayed, plan: Plan | None, level: float) -> probe_file.KRecord:
    length, share, tested = one.mean_acceptance_length(level), one.draft_acceptance_rate(), one.conditional_rate()
    visible = one.visible_length()
    assert length is not None, "k without a complete block are left out"
    accepted = one.reached[:, 1:].sum(axis=0).tolist()
    row = next((row for row in plan.by_k if row.k == one.k), None) if plan is not None else None
    return probe_file.KRecord(
        k=one.k,
        mean_acceptance_length=length.value,
        mean_acceptance_length_low=length.low,
        mean_acceptance_length_high=length.high,
        visible_length=visible.value if visible is not None else None,
        draft_acceptance_rate=share.value if share is not None else None,
        conditional_rate=tested.value if tested is not None else None,
        num_drafts=one.num_drafts,
        num_draft_tokens=one.k * one.num_drafts,
        num_accepted_tokens=sum(accepted),
        num_accepted_tokens_per_pos=accepted,
        acceptance_histogram=list(one.histogram),
        speedup=(
            probe_file.IntervalRecord(value=row.speedup, low=row.low, high=row.high, level=level)
            if row is not None
            else None
        ),
    )


def _other_ways(outcome: Outcome, found: Measured) -> list[probe_file.OtherWay]:
    others = []
    request = outcome.request
    for way in outcome.ways(found.draft, found.temperature):
        if way.name == found.way.name:
            continue
        one = result.measured(
            outcome.rows,
            found.draft,
            found.temperature,
            way,
            k_max=request.k_max,
            first=result.first_position(request.engine),
            eos_ids=outcome.eos_ids,
            level=found.level,
        )
        others.append(
            probe_file.OtherWay(
                proposal=way.name,
                way=way.key,
                acceptance_rate=_interval(one.rate),
                mean_acceptance_lengths=[_interval(length) for length in one.lengths],
            )
        )
    return others


def _comparisons(
    outcome: Outcome, found: Sequence[Measured], plans: Sequence[Plan | None]
) -> list[probe_file.ComparisonRecord]:
    """Every draft against the fastest at its temperature."""
    records: list[probe_file.ComparisonRecord] = []
    costs = {one.draft: priced for one in found if (priced := outcome.priced(one.draft)) is not None}
    for heat in dict.fromkeys(one.temperature for one in found):
        known = [
            (one, plan, plan.drafting.speedup)
            for one, plan in zip(found, plans, strict=True)
            if one.temperature == heat and plan is not None and plan.drafting is not None
        ]
        best = max(known, key=lambda triple: triple[2], default=None)
        for one, plan, _ in known:
            quotient = result.compared(one, plan, *best[:2], costs) if best is not None and one is not best[0] else None
            if best is not None and quotient is not None:
                records.append(
                    probe_file.ComparisonRecord(
                        draft=one.draft, best=best[0].draft, temperature=heat, speedup=_interval(quotient)
                    )
                )
    return records


def _draft_free(outcome: Outcome, found: Sequence[Measured]) -> list[probe_file.LookupRecord]:
    records: list[probe_file.LookupRecord] = []
    request = outcome.request
    for sampling in request.samplings:
        drafts = [one.draft for one in found if one.temperature == sampling.temperature]
        parts = outcome.parts(drafts[0]) if drafts else None
        first = result.first_position(request.engine)
        trace = as_trace(outcome.rows, None, sampling.temperature, first=first, eos_ids=outcome.eos_ids)
        for rows in result.looked_up(trace, parts, request.k_max):
            row = result.best_lookup(rows)
            assert row.length is not None, "rows without a length were left out"
            records.append(
                probe_file.LookupRecord(
                    method=row.method,
                    temperature=sampling.temperature,
                    num_spec_tokens=row.k,
                    mean_acceptance_length=row.length.value,
                    draft_acceptance_rate=(
                        row.draft_acceptance_rate.value if row.draft_acceptance_rate is not None else None
                    ),
                    speedup=_interval(row.speedup) if row.speedup is not None else None,
                    by_k=[_lookup_k(one) for one in rows],
                )
            )
    return records


def _lookup_k(row: result.LookedUp) -> probe_file.LookupKRecord:
    assert row.length is not None, "rows without a length were left out"
    share = row.draft_acceptance_rate
    return probe_file.LookupKRecord(
        k=row.k,
        mean_acceptance_length=_interval(row.length),
        draft_acceptance_rate=share.value if share is not None else None,
    )


# ---------------------------------------------------------------------- costs


def _doubts_of_costs(costs: Costs) -> list[str]:
    said = []
    if costs.overhead is None:
        said.append(
            "what the software adds to its passes was not measured: speed-ups are those of passes alone, which promise "
            "too much"
        )
    for passes in costs.passes:
        if passes.grew:
            said.append(
                "a model here cannot take back what it read: its passes were timed with a context that grew meanwhile"
            )
        spreads = [one.spread for one in _kinds(passes)]
        shaky = sum(spread > PROBE["unstable"] for spread in spreads)
        if shaky:
            said.append(
                f"unstable timings with {passes.batch} at once: {shaky} of {len(spreads)} kinds of passes spread by up "
                f"to {max(spreads):.0%} between their quartiles; is the machine busy?"
            )
    for k, predicted, seen in costs.checked:
        if abs(predicted / seen - 1) > PROBE["disagreement"]:
            said.append(f"at k = {k} the costs predict {predicted:.2f}× and the software gave {seen:.2f}×")
    return said


def _costs(outcome: Outcome, draft: str) -> list[probe_file.CostRecord]:
    given = outcome.request.given_times
    if given is not None:
        return [given_costs(given)]
    if (served := outcome.served_costs.get(draft)) is not None:
        return served_costs(served)
    found = outcome.costs.get(draft)
    if found is None:
        return []
    return [_measured_costs(outcome, found, passes) for passes in found.passes]


def served_costs(served: ServedCosts) -> list[probe_file.CostRecord]:
    """Costs of running servers, a record for each number of sequences at once."""
    return [
        probe_file.CostRecord(
            source="served",
            software=served.software,
            num_seqs=batch,
            context=step.context,
            spread=step.spread,
            whole_steps=served.whole_steps,
            **_times(step.times, served.whole_steps),
        )
        for batch, step in served.steps.items()
    ]


def given_costs(times: StepTimes, num_seqs: int = 1) -> probe_file.CostRecord:
    """Costs that somebody measured elsewhere, for as many sequences at once as they say."""
    return probe_file.CostRecord(source="given", software="given", num_seqs=num_seqs, **_times(times))


def _measured_costs(outcome: Outcome, costs: Costs, passes: Passes) -> probe_file.CostRecord:
    over = costs.overhead
    first = passes.batch == 1  # the software's own runs know no batches
    from draftpick.probing.timing import software

    return probe_file.CostRecord(
        source="measured",
        software=software(),
        num_seqs=passes.batch,
        context=passes.context,
        **_times(passes.times(over)),
        passes={
            "target_ms": [one.median * 1e3 for one in passes.target],
            "draft_ms": [one.median * 1e3 for one in passes.draft],
        },
        software_adds=(
            {name: getattr(over, name) * 1e3 for name in ("per_token", "per_step", "per_draft")}
            if over is not None
            else {}
        ),
        ttft_overhead_ms=passes.draft_prefill.median * 1e3,
        prefill_ms=passes.target_prefill.median * 1e3,
        spread=outcome.spread(costs, passes.batch),
        checked=[probe_file.Checked(k=k, predicted=one, measured=two) for k, one, two in costs.checked if first],
    )


def _times(times: StepTimes, whole_steps: bool = False) -> dict[str, Any]:
    added = (times.step(times.most_tokens) - times.target) / times.most_tokens
    return {
        "target_ms": times.target * 1e3,
        "draft_first_ms": times.draft_first * 1e3,
        "draft_ms": times.draft * 1e3,
        "verify_ms": [value * 1e3 for value in times.verify],
        "overhead_ms": times.overhead * 1e3,
        "c": (added if whole_steps else times.draft) / times.target,
    }


def _plan_record(plan: Plan | None) -> probe_file.PlanRecord | None:
    if plan is None:
        return None
    return probe_file.PlanRecord(
        num_spec_tokens=plan.num_spec_tokens,
        mean_acceptance_length=plan.mean_acceptance_length,
        speedup=_interval(plan.speedup),
    )


def _interval(value: Interval) -> probe_file.IntervalRecord:
    return probe_file.IntervalRecord(**value._asdict())


# ---------------------------------------------------------------------- provenance


def _relation(relation: Relation | None) -> dict[str, Any]:
    if relation is None:
        return {"kind": "unknown", "verified": False, "reason": "at least one tokenizer is not known"}
    return {"kind": relation.kind, "verified": relation.verified, "reason": relation.reason}


def _device(outcome: Outcome) -> probe_file.DeviceRecord:
    return probe_file.DeviceRecord(**outcome.place._asdict(), count=outcome.request.devices)


def _sampling(outcome: Outcome) -> dict[str, Any]:
    request = outcome.request
    return {
        "temperatures": [sampling.temperature for sampling in request.samplings],
        "top_k": request.samplings[0].top_k,
        "top_p": request.samplings[0].top_p,
        "seed": request.seed,
        "max_new_tokens": request.max_new_tokens,
        "thinking": request.thinking,
        "chat_template": outcome.header.get("chat_template"),
        "batch_size": request.batch_size,
    }


def _trace(trace: Path, beside: Path | None) -> probe_file.TraceRecord:
    folder = beside if beside is not None else trace.parent
    try:
        shown = os.path.relpath(trace, folder)
    except ValueError:  # another drive
        shown = trace.name
    return probe_file.TraceRecord(path=shown, sha256=probe_file.sha256(trace))
