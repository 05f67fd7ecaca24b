"""A saved probe with the costs of another place: of servers that run, of servers started for it, or of a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftpick import launch_input
from draftpick.catalog import Catalog
from draftpick.errors import UsageError
from draftpick.evidence import from_probe
from draftpick.launch import Place, launch
from draftpick.pair import BEHIND, DRAFT_FREE, Device, Engine, Setting
from draftpick.probe_file import CheckRecord, CostRecord
from draftpick.probing import result
from draftpick.probing.api import Server
from draftpick.probing.command import speculating_urls, times_in
from draftpick.probing.device import CannotProbe
from draftpick.probing.document import given_costs, served_costs
from draftpick.probing.local import Sampling
from draftpick.probing.outcome import ServedCosts, ServedStep
from draftpick.probing.served import own_steps
from draftpick.probing.served_times import (
    Job,
    Prices,
    Servers,
    Timed,
    context_of,
    merged,
    price,
    unsteady,
    watch,
    whole,
)
from draftpick.probing.server import called_otherwise, connect
from draftpick.probing.session import speculating
from draftpick.probing.started import started
from draftpick.probing.trace import Row
from draftpick.replanning import Saved

Say = Callable[[str], None]
SERVED, SYNTHETIC = "served", "synthetic"
_URLS = ("target_url", "draft_url", "speculating_url")
_SYNTHETIC = ("vllm", "vllm-ascend")
"""Engines that can accept by rates that they are given: rejection_sample_method, read in vLLM 0.32."""
_LENGTHS = (1, 2, 4, 8)
"""Tokens drafted per step, of which whole steps are timed: between them lines are drawn."""


def repriced(saved: Saved, options: Mapping[str, Any], where: Setting, catalog: Catalog, say: Say) -> Saved:
    """The probe with the costs that `--costs` names, or of the servers at `--target-url`; else as it is.

    Raises UsageError, InvalidFile and CannotProbe.
    """
    costs, urls = options["costs"], [name for name in _URLS if options[name]]
    if urls and costs not in (None, SERVED):
        raise UsageError("costs were given twice", f"leave out --costs, or --{urls[0].replace('_', '-')}")
    if urls:
        return _of_servers(saved, options, where, catalog, say)
    if costs is None:
        return saved
    if costs == SERVED:
        return _of_its_own(saved, where)
    if costs == SYNTHETIC:
        return _of_started(saved, where, catalog, say)

    given = given_costs(times_in(Path(costs)), where.max_num_seqs or 1)
    engine = where.engine.key if where.engine is not None else saved.probe.engine
    return _with(saved, catalog, engine, {name: [given] for name in _drafts(saved)}, {})


def _drafts(saved: Saved) -> list[str]:
    return [name for name in saved.evidence if name not in DRAFT_FREE]


def _with(
    saved: Saved,
    catalog: Catalog,
    engine: str,
    costs: Mapping[str, Sequence[CostRecord]],
    doubts: Mapping[str, Sequence[str]],
    checks: Sequence[CheckRecord] = (),
    device: Device | None = None,
) -> Saved:
    """The probe with costs by draft, in the engine of that key, wherever it is planned for.

    `device`: what they were measured on; None: that of the probe.
    """
    probe, drafts = saved.probe, []
    for one in probe.drafts:
        of_text = [doubt for doubt in one.doubts if doubt not in one.timing_doubts]
        told = list(doubts.get(one.draft, ()))
        own = {"costs": list(costs.get(one.draft, ())), "doubts": of_text + told, "timing_doubts": told}
        drafts.append(one.model_copy(update=own))
    of_text = [doubt for doubt in probe.doubts if doubt not in probe.timing_doubts]
    changed = {"drafts": drafts, "doubts": of_text, "timing_doubts": [], "checks": [*probe.checks, *checks]}
    new = probe.model_copy(update=changed)
    found = from_probe(new, catalog, saved.any.temperature)
    evidence = {
        name: one._replace(engine=engine, anywhere=True, served=True, device=device or one.device)
        for name, one in found.items()
        if one.costs  # what needs no draft has none where drafting cannot be taken out of whole steps
    }
    return saved._replace(probe=new, evidence=evidence)


def _of_its_own(saved: Saved, where: Setting) -> Saved:
    """The costs that the probe's own servers gave."""
    known = {one.draft for one in saved.probe.drafts if any(cost.source == "served" for cost in one.costs)}
    if not known:
        raise UsageError(
            "no running server told this probe what a step costs",
            "name servers: --target-url URL --draft-url URL, or --speculating-url K=URL; or probe with them",
        )
    evidence = {
        name: one._replace(anywhere=True)
        for name, one in saved.evidence.items()
        if name in known | DRAFT_FREE and one.costs
    }
    batches = sorted({batch for name in known & evidence.keys() for batch in evidence[name].costs})
    if where.max_num_seqs is not None and where.max_num_seqs not in batches:
        raise UsageError(
            f"steps were timed with {', '.join(map(str, batches))} sequences at once, not with {where.max_num_seqs}",
            f"probe with --timed-batch {where.max_num_seqs}, or give --max-num-seqs {batches[0]}",
        )
    return saved._replace(evidence=evidence)


# ---------------------------------------------------------------------- servers that run


def _of_servers(saved: Saved, options: Mapping[str, Any], where: Setting, catalog: Catalog, say: Say) -> Saved:
    """Costs that are measured now, on the probe's own prompts."""
    if options["target_url"] is None or not (options["draft_url"] or options["speculating_url"]):
        raise UsageError(
            "steps are timed on a server of the target, and on one of the draft or one that speculates",
            "give --target-url, and --draft-url or --speculating-url",
        )
    urls = speculating_urls(options["speculating_url"])
    if urls and len(_drafts(saved)) > 1:
        raise UsageError(
            "a server that speculates does not say with which draft", "name the server of each draft with --draft-url"
        )
    rows, sampling = _texts(saved)
    batch, reach = where.max_num_seqs or 1, _reach(saved, where)
    engine, width = where.engine.key if where.engine is not None else None, batch * (reach + 1)
    say("asking the servers what they have")
    target = connect(
        options["target_url"], name=options["model"], called=saved.probe.target.id, engine=engine, width=width
    )
    drafts = {} if urls else _draft_servers(saved, options["draft_url"], engine, width)
    servers = Servers(target, drafts, speculating(urls, target, width))
    names = list(drafts) or _drafts(saved)
    found = price(servers, names, rows, sampling, batches=[batch], k_max=reach, say=say)
    if not found.costs:
        raise UsageError(f"the servers do not run {batch} sequences at once", "give a smaller --max-num-seqs")
    costs = {name: served_costs(one) for name, one in found.costs.items()}
    asked = {saved.probe.target.id: target, **drafts}
    doubts = {
        name: [
            *one.doubts,
            *called_otherwise({ours: asked[ours] for ours in (saved.probe.target.id, name) if ours in asked}),
        ]
        for name, one in found.costs.items()
    }
    key = target.about.engine
    checks = _own_steps(saved, rows, found, key)
    return _with(
        saved, catalog, key, costs, doubts, checks, Device(BEHIND, f"behind {target.client.address}", "measured")
    )


def _texts(saved: Saved) -> tuple[list[Row], Sampling]:
    """What the target wrote at the temperature that is planned for, and how it was sampled."""
    if saved.trace is None:
        raise UsageError(
            "the probe's trace is gone: it holds the prompts that steps are timed on",
            "put the trace back beside the probe file",
        )
    heat, header = saved.any.temperature, saved.trace.header
    rows = [row for row in saved.trace.rows if row.temperature == heat and row.tokens]
    return rows, Sampling(heat, header.get("top_k") or 0, header.get("top_p") or 1.0)


def _reach(saved: Saved, where: Setting) -> int:
    """The most drafted tokens of which something was measured. Raises UsageError where more are asked for."""
    reach, asked = max(len(saved.evidence[name].lengths) - 1 for name in _drafts(saved)), where.num_spec_tokens
    if asked is not None and asked > reach:  # said before minutes are spent
        raise UsageError(
            f"-k {asked}: the probe measured up to {reach} tokens",
            f"measure again with -k {asked}, or ask for {reach} or fewer",
        )
    return reach


def _draft_servers(saved: Saved, urls: Sequence[str], engine: str | None, width: int) -> dict[str, Server]:
    """By the id that the probe has."""
    names, found = _drafts(saved), {}
    for url in urls:
        only = names[0] if len(names) == 1 else None
        server = connect(url, name=None, called=only, engine=engine, width=width)
        named = only or next((name for name in names if name in (server.about.name, server.about.root)), None)
        if named is None or named in found:
            raise UsageError(
                f"{server.client.address} serves {server.about.name[:80]}, which is "
                f"{'named twice' if named else 'no draft of this probe'}",
                f"the probe measured {', '.join(names)}",
            )
        found[named] = server
    return found


def _own_steps(saved: Saved, rows: Sequence[Row], found: Prices, engine: str) -> list[CheckRecord]:
    """Whether the servers that speculate accept what the probe says."""
    if not found.own or saved.trace is None:
        return []
    draft, heat = _drafts(saved)[0], saved.any.temperature
    way = result.usual(heat, engine, result.measurable(rows, draft, heat))
    first, eos_ids = result.first_position(engine), saved.trace.eos_ids
    measured = result.measured(rows, draft, heat, way, k_max=max(found.own), first=first, eos_ids=eos_ids)
    checks = [own_steps(k, own, measured.by_k[k].lengths) for k, own in sorted(found.own.items()) if k in measured.by_k]
    return [CheckRecord(**check._asdict()) for check in checks if check is not None]


# ---------------------------------------------------------------------- servers that are started


def _of_started(saved: Saved, where: Setting, catalog: Catalog, say: Say) -> Saved:
    """Costs of whole steps, in servers that are started here one after another."""
    engine = where.engine or catalog.engine(_SYNTHETIC[0])
    if engine.key not in _SYNTHETIC:
        raise UsageError(f"{engine.name} has no acceptance by given rates", f"--costs synthetic is for {_SYNTHETIC[0]}")
    rows, sampling = _texts(saved)
    reach, asked = _reach(saved, where), where.num_spec_tokens
    lengths = [asked] if asked is not None else sorted({*(k for k in _LENGTHS if k <= reach), reach})
    starter = _Starter(engine, rows, sampling, where.max_num_seqs or 1, say)
    plain = starter.timed(_command(saved, None, 0, where, engine, catalog), 0)
    costs, doubts = {}, {}
    for draft in _drafts(saved):
        steps = {k: starter.timed(_command(saved, draft, k, where, engine, catalog), k) for k in lengths}
        times, spread = whole(plain, steps, reach)
        told = [*unsteady(starter.batch, [plain, *steps.values()]), *starter.doubts]
        step = {starter.batch: ServedStep(times, spread, context_of(rows))}
        priced = ServedCosts(starter.software(lengths), step, told, whole_steps=True)
        costs[draft], doubts[draft] = served_costs(priced), told
    device = Device(BEHIND, f"started here by {engine.name}", "measured")
    return _with(saved, catalog, engine.key, costs, doubts, device=device)


class _Starter:
    """Starts servers one after another, and times the step of each."""

    def __init__(self, engine: Engine, rows: Sequence[Row], sampling: Sampling, batch: int, say: Say) -> None:
        self._engine, self._rows, self._sampling, self.batch, self._say = engine, rows, sampling, batch, say
        self._synthetic = True
        self._version = engine.name
        self.doubts: list[str] = []

    def software(self, lengths: Sequence[int]) -> str:
        """What was timed, in words."""
        words = ", ".join(map(str, lengths))
        how = "none accepted" if self._synthetic else "accepted as they are right"
        return f"{self._version}, whole steps with {words} tokens drafted and {how}, and lines between and beyond"

    def timed(self, words: Sequence[str], k: int) -> Timed:
        """The step of a server that drafts k tokens.

        Best is one that accepts none: what a step accepts changes nothing of its time, and as each writes one token,
        tokens count steps. Not every vLLM can: on a CPU it ends with the first request.
        """
        if k and self._synthetic:
            try:
                return self._run(_accepting_none(words, k), k, 0)
            except CannotProbe as error:
                self._synthetic = False
                self._say(f"{self._engine.name} cannot accept by given rates here: {error.message}")
        return self._run(words, k, k)

    def _run(self, words: Sequence[str], k: int, counted: int) -> Timed:

        drafting = f" that drafts {k}" if k else ""
        with started(words, f"{self._engine.name}{drafting}", self._say) as url:
            server = connect(url, name=None, called=None, engine=self._engine.key, width=self.batch)
            self._version = server.about.software
            job = Job(server, self.batch, counted)
            (found,) = watch([job], self._rows, self._sampling, self._say)
        if found is None:
            raise UsageError(
                f"{self._engine.name} does not run {self.batch} sequences at once here", "give a smaller --max-num-seqs"
            )
        self.doubts += merged(job, found) if counted else []
        return found


def _accepting_none(words: Sequence[str], k: int) -> list[str]:
    """The same start, with a rejection of every drafted token."""
    place = words.index("--speculative-config") + 1
    rates = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.0] * k}
    return [*words[:place], json.dumps({**json.loads(words[place]), **rates}), *words[place + 1 :]]


def _command(saved: Saved, draft: str | None, k: int, where: Setting, engine: Engine, catalog: Catalog) -> list[str]:
    """The words that start the engine, as `draftpick launch` writes them. Raises UsageError where it can't."""
    named = f"{engine.key}@{engine.version}"
    wanted = launch_input.wanted_of(
        saved.probe, launch_input.Choice(named, draft or _drafts(saved)[0], None, k or 1), catalog
    )
    place = Place(
        tensor_parallel_size=where.tensor_parallel_size,
        max_model_len=where.max_model_len,
        max_num_seqs=where.max_num_seqs,
        dtype=where.dtype,
        quantization=where.quantization,
        kv_cache_dtype=where.kv_cache_dtype,
        gpu_memory_utilization=where.gpu_memory_utilization,
        trust_remote_code=where.trust_remote_code,
    )
    wanted = wanted._replace(place=place)
    found = launch(wanted if draft is not None else wanted._replace(method=None, draft=None))
    if not found.as_decided:
        raise UsageError(
            f"{engine.name} {engine.version} cannot be started so: {'; '.join(left.why for left in found.left_out)}",
            "start the servers yourself, and name them with --target-url and --speculating-url",
        )
    return shlex.split(found.steps[0].text.replace("\\\n", " "))
