"""From the options of the command to a probe."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftpick.atomic import CannotWrite
from draftpick.catalog import Catalog
from draftpick.choices import PROBE
from draftpick.errors import UsageError
from draftpick.http import shown_address
from draftpick.models.profile import ModelProfile
from draftpick.pair import WORKLOADS
from draftpick.probe_file import read_costs
from draftpick.probing import prompts, session, weights
from draftpick.probing.device import CannotProbe
from draftpick.probing.local import Sampling
from draftpick.probing.result import Budget
from draftpick.speedup import StepTimes, checked_times


def run(
    target: ModelProfile,
    drafts: Sequence[ModelProfile],
    catalog: Catalog,
    options: Mapping[str, Any],
    *,
    offline: bool,
    consent: Callable[[str], bool],
    say: Callable[[str], None],
) -> session.Done:
    """Measure with the options of `draftpick probe`. Raises UsageError for what cannot be meant."""
    common = _common(options)
    greedy = any(one.greedy for one in common["samplings"])
    if options["verify"] is not None and (options["responses"] is not None or not greedy):
        raise UsageError(
            "--verify compares greedy text that the target writes here", "add --temperature 0, or leave it out"
        )
    costs = options["costs"] or "measured"
    engine = catalog.engine(options["engine"]).key if options["engine"] is not None else "transformers"
    return session.probe(
        target,
        drafts,
        catalog,
        offline=offline,
        consent=consent,
        say=say,
        verify=options["verify"],
        # One sequence is always timed: the software's own speculative runs know no batches.
        timed_batches=tuple(sorted({1, *_several(options["timed_batch"], 1)})),
        context=options["context"],
        device=options["device"],
        dtype=options["dtype"],
        attention=options["attention"],
        times_passes=costs == "measured",
        given_times=_given_times(costs),
        engine=engine,
        **common,
    )


MOST_DRAFTED = 64
"""As many as -k takes."""
NOT_SERVED = ("responses", "verify", "attention", "context", "dtype")
"""Options of the probe that mean nothing where servers have the models."""


def run_served(
    names: Sequence[str],
    catalog: Catalog,
    resolve: Callable[[str], ModelProfile],
    options: Mapping[str, Any],
    *,
    say: Callable[[str], None],
) -> session.Done:
    """Measure drafts behind `--draft-url` on the target behind `--target-url`. Raises UsageError, CannotProbe."""
    urls = options["draft_url"] or []
    if options["target_url"] is None or not urls:
        raise UsageError(
            "a served probe needs a server of the target and one of each draft", "give --target-url and --draft-url"
        )
    for name in NOT_SERVED:
        if options[name] is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} does not go with --target-url",
                "the servers are asked as they run: start them as they shall be measured",
            )
    speculating = speculating_urls(options["speculating_url"])
    if speculating and len(urls) > 1:
        raise UsageError(
            "a server that speculates does not say with which draft", "measure one draft at a time: one --draft-url"
        )
    if len(names) > 1 + len(urls):
        raise UsageError(f"{len(names)} models are named for {1 + len(urls)} addresses", "name one for each, in order")
    costs = options["costs"] or "measured"
    addresses = session.Addresses(
        options["target_url"],
        urls,
        options["model"],
        names,
        catalog.engine(options["engine"]).key if options["engine"] is not None else None,
        catalog.device(options["device"]).key if options["device"] is not None else None,
        speculating,
    )
    return session.served(
        addresses,
        catalog,
        resolve,
        say=say,
        timed_batches=tuple(sorted({*_several(options["timed_batch"], 1)})),
        times_passes=costs == "measured",
        given_times=_given_times(costs),
        engine=addresses.engine,
        **_common(options),
    )


def speculating_urls(values: Sequence[str] | None) -> dict[int, str]:
    """Tokens drafted per step → address, of `--speculating-url`. Raises UsageError."""
    found: dict[int, str] = {}
    for value in values or ():
        k, _, url = value.partition("=")
        if not (k.isascii() and k.isdecimal() and 1 <= int(k) <= MOST_DRAFTED) or not url:
            shown = shown_address(value)[:80]
            raise UsageError(
                f"--speculating-url {shown!r} does not begin with the number of tokens that it drafts",
                "write it before the address: 3=http://localhost:8000",
            )
        if int(k) in found:
            raise UsageError(f"two servers that draft {int(k)} tokens were named", "name one of each")
        found[int(k)] = url
    return found


def _common(options: Mapping[str, Any]) -> dict[str, Any]:
    """What is measured, and where it is written, whoever runs the models."""
    chosen, source = _prompts(options)
    output = options["output"] if options["output"] is not None and str(options["output"]) != "-" else None
    trace = options["trace"] or _trace_beside(output)
    _check_places(output, trace)
    return {
        "prompts_from": source,
        "beside": output.parent if output is not None else None,
        "prompts": chosen,
        "trace": trace,
        "resume": bool(options["resume"]),
        "samplings": _samplings(options),
        "k_max": options["num_speculative_tokens"] or 8,
        "max_new_tokens": options["max_new_tokens"] or int(PROBE["max-new-tokens"]),
        "batch_size": options["batch_size"] or int(PROBE["batch-size"]),
        "devices": options["tensor_parallel_size"] or 1,
        "thinking": options["thinking"],
        "seed": options["seed"] or 0,
        "budget": _budget(options, len(chosen)),
    }


def run_best(
    target: ModelProfile,
    drafts: Sequence[ModelProfile],
    catalog: Catalog,
    options: Mapping[str, Any],
    *,
    offline: bool,
    consent: Callable[[str], bool],
    say: Callable[[str], None],
) -> tuple[session.Done, Path]:
    """Measure the first of ranked drafts whose weights are here, or may be fetched; and where the probe file lies.

    A run that was broken off goes on. Raises CannotProbe where no draft's weights can be had.
    """
    found = [draft for draft in drafts if draft.head_for is None and weights.obtainable(draft, offline=offline)]
    if not found:
        raise CannotProbe(
            f"no draft for {target.id} has its weights on this machine, and none may be fetched",
            "go online, or fetch a draft and name its folder with -d",
        )
    name = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in target.name)
    output = Path(f"probe-{name}.json")
    heat = options["temperature"]
    given: dict[str, Any] = dict.fromkeys(OWN_OPTIONS)
    given |= {
        "engine": options["engine"],
        "dtype": options["dtype"],
        "workload": options["workload"],
        "tensor_parallel_size": options["tensor_parallel_size"],
        "temperature": [heat] if heat is not None else None,
        "timed_batch": options["max_num_seqs"],
        "output": output,
        "resume": True,
    }
    best = found[: int(PROBE["probed-drafts"])]
    return run(target, best, catalog, given, offline=offline, consent=consent, say=say), output


OWN_OPTIONS = (
    "target_url",
    "draft_url",
    "speculating_url",
    "model",
    "output",
    "costs",
    "engine",
    "verify",
    "trace",
    "resume",
    "num_speculative_tokens",
    "max_new_tokens",
    "batch_size",
    "timed_batch",
    "context",
    "device",
    "tensor_parallel_size",
    "dtype",
    "attention",
    "thinking",
    "seed",
    "prompts",
    "responses",
    "workload",
    "temperature",
    "top_k",
    "top_p",
    "precision",
    "num_prompts",
    "time_limit",
)


def _prompts(options: Mapping[str, Any]) -> tuple[list[prompts.Prompt], str]:
    """The prompts, and where they came from in words."""
    named = [options[name] for name in ("prompts", "responses", "workload") if options[name] is not None]
    if len(named) > 1:
        raise UsageError("two sources of prompts were named", "give one of --prompts, --responses and --workload")
    if options["prompts"] is not None:
        return prompts.read(options["prompts"]), options["prompts"].name
    if options["responses"] is not None:
        return prompts.read(options["responses"], answered=True), f"answers in {options['responses'].name}"
    workload = options["workload"]
    if workload is not None and workload not in WORKLOADS:
        raise UsageError(f"--workload {workload!r} is not known", f"one of {', '.join(WORKLOADS)}")
    return prompts.embedded(workload), f"embedded, {workload}" if workload is not None else "embedded"


def _samplings(options: Mapping[str, Any]) -> tuple[Sampling, ...]:
    heats = _several(options["temperature"], 0.0)
    if options["responses"] is not None and len(heats) > 1:
        raise UsageError("answers that are there were given at one temperature", "name it with one --temperature")
    return tuple(Sampling(heat, options["top_k"] or 0, options["top_p"] or 1.0) for heat in heats)


def _check_places(output: Path | None, trace: Path) -> None:
    """Raise UsageError or CannotWrite for places that cannot be written, before minutes are spent."""
    if output is not None and output.resolve() == trace.resolve():
        raise UsageError(f"{trace}: trace and result are one file", "name two files with --trace and --output")
    for place in (trace, *([output] if output is not None else [])):
        if os.path.isdir(place) or not os.path.isdir(place.parent):
            what = "is a folder" if os.path.isdir(place) else f"the folder {place.parent} does not exist"
            raise CannotWrite(f"{place}: {what}", "name a file in a folder that exists")
        # A trace is written to as it is, and so is a device; a result is replaced.
        as_it_is = os.path.exists(place) and (place == trace or not os.path.isfile(place))
        if not os.access(place if as_it_is else place.parent, os.W_OK):
            raise CannotWrite(f"{place}: nothing can be written there", "name a file in another folder")


def _several(given: Any, otherwise: Any) -> tuple[Any, ...]:
    """The values of an option that may be repeated, each once; a config file may give one without a list."""
    values = given if isinstance(given, list) else [given]
    return tuple(dict.fromkeys(value for value in values if value is not None)) or (otherwise,)


def _budget(options: Mapping[str, Any], available: int) -> Budget:
    precision = options["precision"] if options["precision"] is not None else PROBE["precision"]
    most = min(options["num_prompts"] or available, available)
    return Budget(
        int(PROBE["first-look"]),
        precision,
        most_prompts=most,
        most_seconds=options["time_limit"] or PROBE["time-limit"],
        fixed=precision == 0,
    )


def _given_times(costs: str) -> StepTimes | None:
    if costs in ("measured", "roofline"):
        return None
    if costs in ("served", "synthetic"):
        raise UsageError(
            f"--costs {costs} is for `draftpick plan`, with a probe that is saved",
            "servers that are named are timed without it; a file of this name is ./" + costs,
        )
    return times_in(Path(costs))


def times_in(path: Path) -> StepTimes:
    """Times of a step in a JSON file, in seconds. Raises InvalidFile and UsageError."""
    found = read_costs(path)
    first = found.draft_first_ms if found.draft_first_ms is not None else found.draft_ms
    verify = tuple(value / 1e3 for value in found.verify_ms)
    return checked_times(StepTimes(verify[0], first / 1e3, found.draft_ms / 1e3, verify, found.overhead_ms / 1e3))


def _trace_beside(output: Path | None) -> Path:
    return output.with_suffix(".trace.jsonl") if output is not None else Path("probe.trace.jsonl")
