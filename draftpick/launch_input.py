"""What shall be started, from the file that decided it: an advice or a probe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from draftpick.errors import UsageError
from draftpick.launch import Place, Wanted
from draftpick.pair import BEHIND, DRAFT_FREE, Device, Engine
from draftpick.rules.conditions import same

if TYPE_CHECKING:
    from draftpick.advice_file import AdviceFile, CandidateRecord
    from draftpick.advice_file import DecisionRecord as AdviceDecision
    from draftpick.catalog import Catalog
    from draftpick.probe_file import DecisionRecord as ProbeDecision
    from draftpick.probe_file import DraftRecord, ProbeFile

_MOST_BYTES = 64 << 20
_VENDORS = {"cuda": "nvidia", "npu": "huawei", "mps": "apple", "cpu": "generic"}
"""By the device as torch names it."""


class Choice(NamedTuple):
    """What somebody wants otherwise than the file says."""

    engine: str | None = None
    draft: str | None = None
    method: str | None = None
    num_spec_tokens: int | None = None


def wanted_from(path: Path, choice: Choice, catalog: Catalog) -> Wanted:
    """What an advice or a probe file decided, as `choice` changes it.

    Raises InvalidFile for a file that is neither, and UsageError for a draft it does not hold or a missing engine.
    """
    from draftpick.advice_file import checked_advice
    from draftpick.models.bounded import read_json
    from draftpick.probe_file import read_probe
    from draftpick.record import no_such_kind

    value = read_json(path, _MOST_BYTES)
    if value.get("kind") == "probe":
        return wanted_of(read_probe(path), choice, catalog)
    if "candidates" not in value:
        raise no_such_kind(
            path,
            value,
            "neither an advice nor a probe",
            "name what `draftpick recommend --json`, `check --json`, `plan --json` or `probe -o FILE` wrote",
        )
    return wanted_of(checked_advice(value, path), choice, catalog)


def wanted_of(found: AdviceFile | ProbeFile, choice: Choice, catalog: Catalog) -> Wanted:
    """What an advice or a probe decided, as `choice` changes it. Raises UsageError."""
    from draftpick.probe_file import ProbeFile

    return from_probe(found, choice, catalog) if isinstance(found, ProbeFile) else from_advice(found, choice, catalog)


def from_advice(advice: AdviceFile, choice: Choice, catalog: Catalog) -> Wanted:
    """What an advice decided, as `choice` changes it. Raises UsageError."""
    if advice.target is None:
        raise UsageError("the numbers of this plan belong to no model", "name an advice about a target")
    said = _chosen(advice, choice)
    engine = _engine_of(advice, said, choice, catalog)
    asked, workload = advice.setting, advice.workload
    predicted = _devices(advice, said)
    devices = max(asked.tensor_parallel_size if asked is not None else 1, predicted or 1)
    place = Place(
        vendor=_vendor_of(advice, engine, catalog),
        tensor_parallel_size=devices,
        max_model_len=workload.max_model_len if workload is not None else None,
        max_num_seqs=workload.max_num_seqs if workload is not None else None,
        temperature=workload.temperature if workload is not None else None,
    )
    if asked is not None:
        place = place._replace(
            dtype=asked.dtype,
            quantization=asked.quantization,
            kv_cache_dtype=asked.kv_cache_dtype,
            gpu_memory_utilization=asked.gpu_memory_utilization,
            trust_remote_code=asked.trust_remote_code,
            stop_rule=asked.stop_rule,
        )
    wanted = Wanted(
        target=advice.target.id,
        engine=engine,
        place=place,
        revision=advice.target.revision,
        target_quantization=advice.target.quantization,
        mtp_layers=advice.target.num_nextn_predict_layers,
        cautions=tuple(_of_the_place(advice, predicted, devices, catalog)),
    )
    decided = choice.draft is not None or choice.method is not None or advice.decision.action == "speculate"
    if not decided:
        return wanted._replace(why_plain=_why_plain(advice))
    return _with_draft(wanted, advice, said, choice)


def _with_draft(wanted: Wanted, advice: AdviceFile, said: CandidateRecord | None, choice: Choice) -> Wanted:
    """The draft, its method and its k put in, with what the engine was said to make of it."""
    engine = wanted.engine
    if said is None:  # a method without a draft that the advice does not list
        return wanted._replace(method=choice.method, num_spec_tokens=choice.num_spec_tokens)
    verdict = said.engines.get(engine.key)
    refused, cautions = "", [*wanted.cautions, *_against(advice.decision)]
    rejected = [one for one in said.findings if one.outcome == "reject" and one.ignored_because is None]
    cautions += [f"The rule {one.rule} rejects the pair: {one.message}" for one in rejected]
    if verdict is not None and verdict.version != engine.version:
        cautions.append(f"The pair was judged for {engine.name} {verdict.version}, not for {engine.version}.")
    elif verdict is not None and verdict.verdict == "refused":
        refused = f"{engine.name} {verdict.version} refuses the pair: {'; '.join(verdict.reasons)}"
    elif verdict is not None and verdict.verdict in ("care", "unknown"):
        cautions += [f"{reason[:1].upper()}{reason[1:]}." for reason in verdict.reasons]
    if verdict is not None and verdict.version == engine.version:
        cautions += [
            f"Known trouble: {one.sentence} ({one.source})" for one in said.known_issues if one.engine == engine.key
        ]
    if said.cost is not None and said.cost.engine not in (None, engine.key):
        cautions.append(f"num_spec_tokens was chosen for {said.cost.engine}: another engine may want another.")
    _check_method(choice, said.label, said.method)
    rows = None
    if said.model is not None and advice.target is not None:
        rows = same(advice.target.vocab_size, said.model.vocab_size)
    return wanted._replace(
        method=said.method,
        draft=said.draft,
        num_spec_tokens=choice.num_spec_tokens or _tokens_of(advice, said),
        schedule=tuple(said.plan.schedule or ()) if choice.num_spec_tokens is None else (),
        draft_revision=said.model.revision if said.model is not None else None,
        rows=rows,
        refused=refused,
        cautions=tuple(cautions),
    )


def _against(decision: AdviceDecision | ProbeDecision) -> list[str]:
    """What was decided, where a draft is started all the same."""
    return [f"Decided was otherwise: {decision.sentence}"] if decision.action == "do_not_speculate" else []


def _check_method(choice: Choice, draft: str, method: str | None) -> None:
    """A draft has one method: that which it was trained or judged for."""
    if choice.method not in (None, method):
        how = "leave out -d" if choice.method in DRAFT_FREE else "leave out --method"
        raise UsageError(f"{draft} drafts by {method}, not by {choice.method}", how)


def _tokens_of(advice: AdviceFile, said: CandidateRecord) -> int | None:
    """The k of a candidate: what was decided, else what its plan says, else the best one that drafts."""
    if (said.draft, said.method) == (advice.decision.draft, advice.decision.method):
        k = advice.decision.num_spec_tokens
        if k:
            return k
    return said.plan.num_spec_tokens or said.plan.speedup_of


def _chosen(advice: AdviceFile, choice: Choice) -> CandidateRecord | None:
    """The candidate that is meant: the one asked for, else the one decided on."""
    if choice.draft is not None:
        named = [one for one in advice.candidates if one.draft is not None and _same_name(one.draft, choice.draft)]
        if not named:
            raise UsageError(
                f"{choice.draft} is not among the drafts of this advice",
                "judge it first: draftpick check TARGET DRAFT --json",
            )
        return named[0]
    method, draft = choice.method, None
    if method is None:
        method, draft = advice.decision.method, advice.decision.draft
    found = [one for one in advice.candidates if one.method == method and (draft is None or one.draft == draft)]
    if found:
        return next((one for one in found if one.viable), found[0])
    if choice.method is None and advice.decision.action == "speculate":
        raise UsageError(f"the advice decides for {draft or method}, and has no such candidate", "ask for a new advice")
    if choice.method is not None and choice.method not in DRAFT_FREE:
        raise UsageError(f"no candidate of this advice is for {choice.method}", "name a draft with -d")
    return None


def _same_name(ours: str, theirs: str) -> bool:
    return ours.rstrip("/").lower() == theirs.rstrip("/").lower()


def _engine_of(advice: AdviceFile, said: CandidateRecord | None, choice: Choice, catalog: Catalog) -> Engine:
    if choice.engine is not None:
        return catalog.engine(choice.engine)
    if advice.engine is not None:
        return catalog.engine(f"{advice.engine.id}@{advice.engine.version}")
    assumed = said.cost.engine if said is not None and said.cost is not None else None
    assumed = assumed or (said.engine if said is not None else None)
    if assumed is None:
        raise UsageError("no engine was named", "name one with --engine, as --engine vllm")
    return catalog.engine(assumed)


def _devices(advice: AdviceFile, said: CandidateRecord | None) -> int | None:
    """The number of devices that was predicted for: what needs no draft has no prediction of its own."""
    costs = (one.cost for one in (said, *advice.candidates) if one is not None)
    return next((cost.tensor_parallel_size for cost in costs if cost is not None), None)


def _vendor_of(advice: AdviceFile, engine: Engine, catalog: Catalog) -> str | None:
    """Of the device named, or of the one assumed for this engine: another engine may run on another."""
    device = _device(advice, catalog)
    if device is None or advice.device is None:
        return None
    assumed_for = {one.cost.engine for one in advice.candidates if one.cost is not None}
    return device.vendor if not advice.device.assumed or engine.key in assumed_for else None


def _device(advice: AdviceFile, catalog: Catalog) -> Device | None:
    """The catalogue's row of the device; None where none was named, or nothing more is known than that it serves."""
    return catalog.device(advice.device.id) if advice.device is not None and advice.device.id != BEHIND else None


def _of_the_place(advice: AdviceFile, predicted: int | None, devices: int, catalog: Catalog) -> list[str]:
    """What was assumed of the place because nobody named it, and what one line can't do there."""
    said = []
    asked = advice.setting.tensor_parallel_size if advice.setting is not None else 1
    device = _device(advice, catalog)
    if predicted is not None and predicted > asked:
        where = f" of {device.key}" if device is not None else ""
        said.append(f"{predicted} devices{where} are assumed, the fewest that hold the weights: -tp names yours.")
    if device is not None and device.devices_per_node is not None and devices > device.devices_per_node:
        said.append(
            f"{devices} devices are more than a machine holds ({device.devices_per_node}): only one is started here."
        )
    return said


def _why_plain(advice: AdviceFile) -> str:
    decision = advice.decision
    if decision.action == "undecided" and decision.draft is not None:
        return f"{decision.sentence} To start it with that draft all the same: -d {decision.draft}"
    return decision.sentence


def from_probe(probe: ProbeFile, choice: Choice, catalog: Catalog) -> Wanted:
    """What a probe decided, as `choice` changes it. Raises UsageError where the engine must be named."""
    served = probe.decision.evidence == "served"
    if choice.engine is None and probe.engine != "transformers" and not served:
        raise UsageError(f"the probe drafted as {probe.engine} does", "name the engine with --engine")
    engine, decision = catalog.engine(choice.engine or probe.engine), probe.decision
    ran = catalog.engine(probe.engine if served else "transformers")
    wanted = Wanted(
        target=probe.target.path or probe.target.id,
        engine=engine,
        place=_measured_place(probe, engine),
        revision=probe.target.revision,
        target_quantization=probe.target.quantization,
        mtp_layers=probe.target.num_nextn_predict_layers,
        cautions=() if engine.key == ran.key else (_elsewhere(ran, engine),),
    )
    if choice.draft is None and choice.method is None and decision.action != "speculate":
        return wanted._replace(why_plain=decision.sentence)
    cautions = (*wanted.cautions, *_against(decision))
    if choice.draft is None and (choice.method or decision.method) in DRAFT_FREE:
        method = choice.method or decision.method
        # At the temperature that was named first, as that of a draft.
        found = {one.method: one.num_spec_tokens for one in reversed(probe.draft_free)}
        k = choice.num_spec_tokens or found.get(f"{method} of {engine.key}") or found.get(method or "")
        return wanted._replace(method=method, num_spec_tokens=k, cautions=cautions)
    measured = _measured(probe, choice)
    _check_method(choice, measured.draft, measured.method)
    record = probe.models[measured.draft]
    decided = decision.num_spec_tokens if decision.draft == measured.draft else None
    return wanted._replace(
        method=measured.method,
        draft=record.path or measured.draft,
        num_spec_tokens=choice.num_spec_tokens or decided or _best_k(measured),
        draft_revision=record.revision,
        rows=same(probe.target.vocab_size, record.vocab_size),
        cautions=cautions,
    )


def _measured_place(probe: ProbeFile, engine: Engine) -> Place:
    """Where it was measured, with what holds in another engine as well."""
    own = engine.key == "transformers" and probe.decision.evidence != "served"  # servers tell neither
    temperatures = {one.temperature for one in probe.drafts}
    return Place(
        vendor=_VENDORS.get(probe.device.id.partition(":")[0]) if own else None,
        tensor_parallel_size=probe.device.count,
        dtype=probe.dtype if own else None,
        temperature=temperatures.pop() if len(temperatures) == 1 else None,
        stop_rule="fixed",
    )


def _measured(probe: ProbeFile, choice: Choice) -> DraftRecord:
    """The draft that is meant: the one asked for, else the one decided on, else the first."""
    if not probe.drafts:
        raise UsageError("no draft was measured in this probe", "probe one, or take --method ngram")
    if choice.draft is None:
        return next((one for one in probe.drafts if one.draft == probe.decision.draft), probe.drafts[0])
    named = [one for one in probe.drafts if _same_name(one.draft, choice.draft)]
    if not named:
        known = ", ".join(dict.fromkeys(one.draft for one in probe.drafts))
        raise UsageError(f"{choice.draft} was not measured in this probe", f"measured were {known}")
    return named[0]


def _best_k(measured: DraftRecord) -> int | None:
    """The k of its plan, or the one that loses least where none gains."""
    if measured.plan is not None and measured.plan.num_spec_tokens:
        return measured.plan.num_spec_tokens
    rows = [(row.speedup.value, -row.k) for row in measured.by_k if row.k and row.speedup is not None]
    return -max(rows)[1] if rows else None


def _elsewhere(measured: Engine, engine: Engine) -> str:
    ask = f"draftpick plan PROBE.json --engine {engine.key}"
    return f"The probe measured {measured.key}: {ask} says what the draft is worth in {engine.name}."
