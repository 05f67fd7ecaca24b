"""What a running server's speculation does, and which num_spec_tokens it should use, from counters or its responses.

`draftpick.counters` reads what they count; docs/observe.md says what they cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from draftpick import __version__
from draftpick.counters import (
    CHOSEN,
    COUNTER,
    LENGTH,
    OLD,
    RATE,
    SERVERS,
    STEPS,
    WRITTEN,
    Counts,
    Key,
    Window,
    added_up,
    counters,
    key_of,
    natural,
    of_requests,
    window_of,
)
from draftpick.errors import NotObservable, UsageError
from draftpick.observe_file import (
    Decision,
    Drift,
    EngineRow,
    LengthRow,
    ModelRow,
    ObservationFile,
    PositionRates,
    ResponseLog,
)
from draftpick.probe_file import GivenCosts, IntervalRecord
from draftpick.record import SCHEMA_VERSION
from draftpick.responses import UNNAMED, Log, Request
from draftpick.scrape import Scrape
from draftpick.speedup import (
    MARGIN,
    MOST_TOKENS,
    WITHIN,
    Interval,
    KRow,
    Plan,
    StepTimes,
    checked_times,
    decide,
    make_plan,
    speedup,
    typed_times,
)

if TYPE_CHECKING:
    from draftpick.intervals import Floats

LEAST_TOKENS = int(CHOSEN["observe.least-tokens"])
LEVEL = 0.95
_Z = 1.959964
MOST_MODELS = 100
"""In one log, each num_spec_tokens of a model counted apart."""
_EXTREMES = 2
"""Drafts added at either end before an interval is taken, as Agresti and Coull do: all of few is no certainty."""


class Costs(NamedTuple):
    """What a step costs where the server runs."""

    times: StepTimes
    words: str
    """Where they come from."""


def costs_from_numbers(draft_cost: float | None, verify_cost: float, overhead: float) -> Costs | None:
    """Costs in plain steps of the target, with the meaning they have in `plan`; None where none were given.

    Raises UsageError for impossible or missing numbers.
    """
    if draft_cost is None:
        if (verify_cost, overhead) != (1.0, 0.0):
            raise UsageError("no draft cost was given", "say what a drafted token costs: --draft-cost 0.05")
        return None
    times = typed_times(draft_cost, verify_cost, overhead, MOST_TOKENS)
    words = f"as given: draft {draft_cost:g}, verification {verify_cost:g}, overhead {overhead:g} plain steps"
    return Costs(times, words)


def costs_from_file(given: GivenCosts, name: str) -> Costs:
    """Costs that somebody measured. `name` is the file's. Raises UsageError for impossible times."""
    first = given.draft_ms if given.draft_first_ms is None else given.draft_first_ms
    times = StepTimes(given.target_ms, first, given.draft_ms, tuple(given.verify_ms), given.overhead_ms)
    return Costs(checked_times(times), f"of {name}: {given.software}")


def observe(scrapes: Sequence[Scrape], costs: Costs | None) -> ObservationFile:
    """What one scrape counted since the server started, or two between them.

    Raises NotObservable where nothing of speculation is counted, or nothing was drafted; UsageError for costs that do
    not reach the server's k.
    """
    *earlier, last = scrapes
    counter = next(filter(None, (COUNTER.fullmatch(sample.name) for sample in last.samples)), None)
    if counter is not None:
        server, counted = SERVERS[counter[1]], "between two scrapes" if earlier else "since the server started"
        models = _counted(last, earlier[0] if earlier else None, costs)
    elif any(sample.name == LENGTH for sample in last.samples):
        server, counted, models = "sglang", "at the moment", _sglang(last)
    else:
        raise _nothing_counted(last)
    both = [one.at for one in scrapes if one.at is not None]
    return _document(
        {
            "sources": list(dict.fromkeys(one.source for one in scrapes)),
            "server": server,
            "counted": counted,
            "interval_s": both[1] - both[0] if len(both) == 2 else None,
            "costs": costs.words if costs is not None and counter is not None else None,
            "models": models,
        }
    )


def _document(found: dict[str, Any]) -> ObservationFile:
    head = {
        "schema_version": SCHEMA_VERSION,
        "kind": "observation",
        "tool": {"name": "draftpick", "version": __version__},
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return ObservationFile.model_validate(head | found)


def _nothing_counted(scrape: Scrape) -> NotObservable:
    names = scrape.namespaces
    if any(sample.name == OLD for sample in scrape.samples):
        return NotObservable(f"{scrape.source}: this vLLM counts no drafts", "newer ones do: update it")
    if "vllm" in names:
        return NotObservable(
            f"{scrape.source}: this vLLM server counts nothing of speculation",
            "it does when started with --speculative-config and without --disable-log-stats; `draftpick launch` writes "
            "the first",
        )
    if "sglang" in names:
        return NotObservable(f"{scrape.source}: this SGLang server shows no accept length", "update it: 0.5.23 has it")
    there = ", ".join(sorted(name[:40] for name in names)[:5]) or "none"
    return NotObservable(
        f"{scrape.source}: no counters of speculation that are known (names there: {there})",
        "those of vLLM, vLLM-Ascend, llama.cpp and SGLang are known; measure others with `draftpick probe`",
    )


# ---------------------------------------------------------------------- counters


def _counted(last: Scrape, first: Scrape | None, costs: Costs | None) -> list[ModelRow]:
    before = counters(first) if first is not None else None
    windows = {key: window_of(key, counts, before) for key, counts in counters(last).items()}
    if not any(window.counts.drafts for window in windows.values()):
        raise _idle(last, first is not None, sum(one.before.drafts for one in windows.values() if one.before))
    by_model = groupby(sorted(windows, key=lambda key: (key.model, natural(key.engine))), key=lambda key: key.model)
    return [_served(model, {key: windows[key] for key in keys}, costs) for model, keys in by_model]


def _idle(last: Scrape, between: bool, before: int) -> NotObservable:
    source = last.source
    written = sum(sample.value for sample in last.samples if sample.name == WRITTEN)
    if written and not before:
        return NotObservable(
            f"{source}: this llama.cpp server drafted nothing for the {written:,.0f} tokens that it wrote",
            "it counts also where it does not speculate: -md does nothing without --spec-type, and a draft whose "
            "vocabulary does not fit is dropped with an error in its log; `draftpick launch` writes a line that drafts",
        )
    if between:
        return NotObservable(
            f"{source}: nothing was drafted between the two scrapes, {before:,} drafts before them",
            "observe while requests are answered, for longer, or without --interval to see all since the start",
        )
    return NotObservable(f"{source}: nothing was drafted since the server started", "observe again after some requests")


def _served(model: str, windows: Mapping[Key, Window], costs: Costs | None) -> ModelRow:
    counts = added_up(window.counts for window in windows.values())
    engines = [
        EngineRow(engine=key.engine, labels=dict(key.labels), **_figures(window.counts))
        for key, window in windows.items()
    ]
    drift = _drift(counts, [window.before for window in windows.values()])
    return _model_row(model, counts, costs, doubts=_doubts(counts, windows.values()), drift=drift, engines=engines)


# ---------------------------------------------------------------------- responses


def observe_responses(log: Log, costs: Costs | None) -> ObservationFile:
    """What the requests of a log tell, each model and num_spec_tokens apart, with intervals over requests.

    Raises NotObservable where nothing was drafted, or more models are named than one server has; UsageError for costs
    that do not reach k.
    """
    groups: dict[tuple[str, int], list[Request]] = {}
    for one in log.requests:
        groups.setdefault((one.model, len(one.histogram) - 1), []).append(one)
    if len(groups) > MOST_MODELS:
        raise NotObservable(
            f"{log.source}: {len(groups):,} models or values of num_spec_tokens in one log",
            "give the responses of one server, or of one model",
        )
    undrafted = sum(not any(one.histogram) for one in log.requests)
    if undrafted == len(log.requests):
        raise NotObservable(
            f"{log.source}: nothing was drafted in {len(log.requests):,} requests", "save longer answers"
        )
    return _document(
        {
            "sources": [log.source],
            "server": "vllm",
            "counted": "in responses",
            "responses": ResponseLog(
                num_requests=len(log.requests),
                num_undrafted=undrafted,
                num_without=log.without,
                num_repeated=log.repeated,
                num_other_lines=log.other,
                torn=log.torn,
            ),
            "costs": costs.words if costs is not None else None,
            "models": [_answered(model, groups[model, k], costs) for model, k in sorted(groups)],
        }
    )


def _answered(model: str, requests: Sequence[Request], costs: Costs | None) -> ModelRow:
    counts = of_requests(requests)
    return _model_row(model, counts, costs, doubts=_doubts(counts, ()), drift=None, engines=[], requests=len(requests))


# ---------------------------------------------------------------------- what follows


def _model_row(
    model: str,
    counts: Counts,
    costs: Costs | None,
    *,
    doubts: list[str],
    drift: Drift | None,
    engines: list[EngineRow],
    requests: int | None = None,
) -> ModelRow:
    k = len(counts.positions)
    lengths = [length_at(counts, place) for place in range(k + 1)] if counts.drafts and k else []
    plan = _plan(lengths, costs, k) if costs is not None and lengths else None
    return ModelRow(
        model=model,
        **_figures(counts),
        num_spec_tokens=k or None,
        num_requests=requests,
        by_k=_by_k(counts, lengths, plan),
        drift=drift,
        doubts=doubts,
        decision=_decision(model, counts, lengths, costs, plan),
        engines=engines,
    )


def _interval(histogram: Sequence[int]) -> Interval:
    """The mean of 0, 1, 2, … with these frequencies; its bounds take the draws as independent."""
    most, number = len(histogram) - 1, sum(histogram)
    value = sum(place * count for place, count in enumerate(histogram)) / number
    padded = [count + _EXTREMES * (place in (0, most)) for place, count in enumerate(histogram)]
    total = sum(padded)
    centre = sum(place * count for place, count in enumerate(padded)) / total
    variance = sum(count * (place - centre) ** 2 for place, count in enumerate(padded)) / total
    half = _Z * math.sqrt(variance / total)
    return Interval(value, min(value, max(centre - half, 0.0)), max(value, min(centre + half, most)), LEVEL)


def length_at(counts: Counts, k: int) -> Interval:
    """τ(k) = 1 + Σ marginal rates up to k, for drafts that begin where the server's did; 1 ≤ τ ≤ k + 1."""
    if k == 0:
        return Interval(1.0, 1.0, 1.0, LEVEL)
    histogram, single = counts.histogram, counts.requests
    found = _interval((*histogram[:k], sum(histogram[k:])))
    if single is not None:
        found = _over_requests(found, single.accepted[:, :k].sum(axis=1), single.steps, most=k)
    return Interval(1 + found.value, 1 + found.low, 1 + found.high, LEVEL)


def _over_requests(nominal: Interval, y: Floats, x: Floats, most: int = 1) -> Interval:
    """The interval of Σy/Σx over requests, no narrower than the nominal one: few that agree are no certainty."""
    from draftpick.intervals import Sums, ratio_interval

    kept = x > 0
    names = tuple(str(place) for place in range(int(kept.sum())))
    found = ratio_interval(Sums(names, ("",) * len(names), y[kept], x[kept]), LEVEL, (0, most))
    if found is None:
        return nominal
    return nominal._replace(low=min(found.low, nominal.low), high=max(found.high, nominal.high))


def pays_below(counts: Counts, k: int) -> float:
    """The cost x, in plain steps, of drafting and verifying one more token at which the k-th just pays.

    With a step of 1 + k·x, τ(k)/(1 + k·x) = τ(k−1)/(1 + (k−1)·x) there; below it k is the faster one.
    """
    before = 1 + sum(counts.positions[: k - 1]) / counts.drafts
    return _even(counts.positions[k - 1] / counts.drafts, before, k)


def _even(rate: float, before: float, k: int) -> float:
    # Marginal rates never rise, so that `before` is at least 1 + (k − 1)·rate.
    return rate / (before - (k - 1) * rate)


def _figures(counts: Counts) -> dict[str, Any]:
    """The fields of `Counted`."""
    found: dict[str, Any] = {
        "num_drafts": counts.drafts,
        "num_draft_tokens": counts.draft_tokens,
        "num_accepted_tokens": counts.accepted,
        "num_accepted_tokens_per_pos": list(counts.positions),
        "acceptance_histogram": list(counts.histogram),
    }
    if not counts.drafts:
        return found
    found["mean_acceptance_length"] = value = 1 + counts.accepted / counts.drafts
    if counts.draft_tokens:
        found["draft_acceptance_rate"] = counts.accepted / counts.draft_tokens
        if (rate := _draft_rate(counts)) is not None:
            found["draft_acceptance_rate_low"], found["draft_acceptance_rate_high"] = rate.low, rate.high
    if counts.positions:
        bounds = length_at(counts, len(counts.positions))
        found["mean_acceptance_length_low"] = min(bounds.low, value)
        found["mean_acceptance_length_high"] = max(bounds.high, value)
        found["position_rates"] = _position_rates(counts)
    return found


def _draft_rate(counts: Counts) -> Interval | None:
    """Accepted over drafted, over requests; None where they are not told apart, or nothing was drafted."""
    single = counts.requests
    if single is None or not counts.draft_tokens:
        return None
    nominal = _interval((counts.draft_tokens - counts.accepted, counts.accepted))
    return _over_requests(nominal, single.accepted.sum(axis=1), single.drafted)


def _position_rates(counts: Counts) -> PositionRates:
    tried, single = counts.tried, counts.requests

    def rate(place: int, of: int, tries: Floats | None) -> Interval:
        nominal = _interval((of - counts.positions[place], counts.positions[place]))
        if single is None or tries is None:
            return nominal
        return _over_requests(nominal, single.accepted[:, place], tries)

    places = range(len(counts.positions))
    marginal = [rate(place, counts.drafts, single.steps if single else None) for place in places]
    conditional = [
        rate(place, tried[place], single.tried[:, place] if single else None) if tried[place] else None
        for place in places
    ]
    return PositionRates(
        marginal=[one.value for one in marginal],
        conditional=[one.value if one else None for one in conditional],
        marginal_low=[one.low for one in marginal],
        marginal_high=[one.high for one in marginal],
        conditional_low=[one.low if one else None for one in conditional],
        conditional_high=[one.high if one else None for one in conditional],
    )


def _plan(lengths: Sequence[Interval], costs: Costs, k: int) -> Plan:
    if costs.times.most_tokens < k:
        raise UsageError(
            f"the costs {costs.words} reach k = {costs.times.most_tokens}, and the server drafts {k} tokens",
            f"verify_ms needs {k + 1} numbers, over 1 to {k + 1} positions",
        )
    return make_plan(lengths, costs.times)


def _by_k(counts: Counts, lengths: Sequence[Interval], plan: Plan | None) -> list[LengthRow]:
    rows: list[LengthRow] = []
    for k, length in enumerate(lengths):
        gain = plan.row(k) if plan is not None else None
        rows.append(
            LengthRow(
                k=k,
                mean_acceptance_length=length.value,
                mean_acceptance_length_low=length.low,
                mean_acceptance_length_high=length.high,
                pays_below=pays_below(counts, k) if k else None,
                speedup=IntervalRecord(value=gain.speedup, low=gain.low, high=gain.high, level=LEVEL) if gain else None,
            )
        )
    return rows


def _drift(counts: Counts, before: Sequence[Counts | None]) -> Drift | None:
    """The interval against all before it, drafts taken as independent."""
    known = [one for one in before if one is not None]
    if not known or len(known) < len(before):
        return None
    old = added_up(known)
    if not (old.drafts and counts.drafts and counts.positions):
        return None
    then, now = length_at(old, len(old.positions)), length_at(counts, len(counts.positions))
    change = now.value - then.value
    half = math.hypot((then.high - then.low) / 2, (now.high - now.low) / 2)
    return Drift(
        before=IntervalRecord(**then._asdict()),
        num_drafts_before=old.drafts,
        change=IntervalRecord(value=change, low=change - half, high=change + half, level=LEVEL),
        moved=abs(change) > half,
    )


def _doubts(counts: Counts, windows: Iterable[Window]) -> list[str]:
    doubts = []
    lengths = {len(window.counts.positions) for window in windows}
    if counts.drafts + counts.accepted < LEAST_TOKENS:
        doubts.append(f"only {counts.drafts + counts.accepted:,} tokens were written: too few to decide by")
    if any(window.restarted for window in windows):
        doubts.append("counters began anew between the two scrapes, or appeared there: those are counted since then")
    if len(lengths) > 1:
        doubts.append("its engines draft different numbers of tokens: rates at the last positions are of some of them")
    k = len(counts.positions)
    if k and counts.draft_tokens < CHOSEN["observe.short"] * k * counts.drafts:
        apart = " (if reached: over those that drafted it)" if counts.requests and counts.requests.apart else ""
        doubts.append(
            f"drafts were {counts.draft_tokens / counts.drafts:.2f} tokens long on average, not {k} (a rule that ends "
            f"them, a number by batch, grammars): a position counts as rejected where it was not drafted{apart}, and "
            "costs are those of whole drafts"
        )
    return doubts


# ---------------------------------------------------------------------- the decision


def _decision(
    model: str, counts: Counts, lengths: Sequence[Interval], costs: Costs | None, plan: Plan | None
) -> Decision:
    if not counts.drafts:
        return _open(f"{model} drafted nothing in this time.")
    seen = _seen(model, counts, lengths)
    if not lengths:
        return _open(f"{seen} Positions are not counted, so nothing can be said of another num_spec_tokens.")
    if costs is None or plan is None:
        return _open(f"{seen} {_without_costs(counts)}")
    if counts.drafts + counts.accepted < LEAST_TOKENS:
        return _open(f"{seen} That is too little to decide by: observe again after more requests.")
    return _judged(model, counts, costs, plan, seen)


def _judged(model: str, counts: Counts, costs: Costs, plan: Plan, seen: str) -> Decision:
    """Whether to speculate, then whether with fewer tokens, as many, or perhaps more."""
    k, best = len(counts.positions), plan.row(plan.num_spec_tokens)
    now, most, enough = plan.row(k), plan.drafting or plan.row(k), f"{1 + MARGIN:.2f}×"
    verdict = decide([plan], "served")
    if verdict.action == "do_not_speculate":
        said = (
            f"Do not speculate with {model}: {most.speedup:.2f}× at num_spec_tokens = {most.k} is the most that up to "
            f"{k} give with these costs, and less than {enough} is not worth it."
        )
        return _decided(f"{said} {seen}", plan, 0, "stop")
    if verdict.action == "undecided":
        return _open(
            f"Undecided whether {model} gains by speculating: num_spec_tokens = {most.k} gives {_gain(most)} with "
            f"these costs, too near to {enough}. {seen}"
        )
    if best.k < k:
        why = f", and {best.k} are lighter under load" if best.speedup <= now.speedup else ""
        said = (
            f"Lower num_spec_tokens of {model} from {k} to {best.k}: {_gain(best)} with these costs; {k} give "
            f"{now.speedup:.2f}×{why}."
        )
        return _decided(f"{said} {seen}", plan, best.k, "lower")
    further = _one_more(counts, costs)
    if further is not None and further > now.speedup * (1 + WITHIN):
        said = (
            f"Try num_spec_tokens = {k + 1} for {model}: {further:.2f}× instead of {now.speedup:.2f}× the plain "
            "decoding speed with these costs, if the next token is accepted as often as the last when it is reached, "
            "which nothing shows."
        )
        return _decided(f"{said} {seen}", plan, k + 1, "raise")
    said = f"Keep num_spec_tokens = {k} for {model}: {_gain(now)} with these costs, and fewer are slower."
    return _decided(f"{said} {seen}", plan, k, "keep")


def _gain(row: KRow) -> str:
    return f"{row.speedup:.2f}× the plain decoding speed ({row.low:.2f} to {row.high:.2f})"


def _seen(model: str, counts: Counts, lengths: Sequence[Interval]) -> str:
    bounds = f" ({lengths[-1].low:.2f} to {lengths[-1].high:.2f})" if lengths else ""
    at = f" at num_spec_tokens = {len(lengths) - 1}" if lengths else ""
    share = (
        f" and {counts.accepted / counts.draft_tokens:.0%} of what is drafted is accepted"
        if counts.draft_tokens
        else ""
    )
    if (rate := _draft_rate(counts)) is not None:
        share += f" ({rate.low:.0%} to {rate.high:.0%})"
    length = 1 + counts.accepted / counts.drafts
    name = "The model" if model == UNNAMED else model
    of = f" of {len(counts.requests.steps):,} requests" if counts.requests is not None else ""
    return f"{name} writes {length:.2f} tokens per step{bounds}{at}{share}, over {counts.drafts:,} drafts{of}."


def _without_costs(counts: Counts) -> str:
    """What holds whatever a step costs."""
    k = len(counts.positions)
    first, last, further = pays_below(counts, 1), pays_below(counts, k), _further_pays_below(counts)
    said = f"That many is right where one more token costs less than {last:.2f} plain steps to draft and verify"
    if k > 1:
        said += f", fewer up to {first:.2f}"
    said += f", none above {first:.2f}"
    if further is not None:
        rate = counts.positions[-1] / (counts.drafts, *counts.positions)[-2]
        said += f"; more perhaps below {further:.2f}, if the next is accepted as often as the last ({rate:.2f})"
    return f"{said}: --draft-cost decides."


def _next_rate(counts: Counts) -> float | None:
    """The marginal rate of the position behind the last, if it is accepted as often as that one when it is reached."""
    *_, before, last = (counts.drafts, *counts.positions)
    whole = counts.draft_tokens >= CHOSEN["observe.short"] * len(counts.positions) * counts.drafts
    return last / counts.drafts * last / before if before and whole else None


def _further_pays_below(counts: Counts) -> float | None:
    rate, k = _next_rate(counts), len(counts.positions)
    return _even(rate, length_at(counts, k).value, k + 1) if rate is not None else None


def _one_more(counts: Counts, costs: Costs) -> float | None:
    """The speed-up of one token more than the server drafts; None where nothing suggests it."""
    rate, k = _next_rate(counts), len(counts.positions)
    if rate is None or costs.times.most_tokens <= k:
        return None
    return speedup(length_at(counts, k).value + rate, costs.times, k + 1)


def _open(sentence: str) -> Decision:
    return Decision(action="undecided", evidence="served", sentence=sentence)


def _decided(sentence: str, plan: Plan, k: int, change: str) -> Decision:
    row = plan.row(k) if k <= plan.by_k[-1].k else None
    return Decision.model_validate(
        {
            "action": "speculate" if k else "do_not_speculate",
            "change": change,
            "num_spec_tokens": k,
            "speedup": {"value": row.speedup, "low": row.low, "high": row.high, "level": LEVEL} if row else None,
            "evidence": "served",
            "sentence": sentence,
        }
    )


# ---------------------------------------------------------------------- SGLang's gauges


def _sglang(scrape: Scrape) -> list[ModelRow]:
    gauges: dict[Key, dict[str, float]] = {}
    for sample in scrape.samples:
        if sample.name in (LENGTH, RATE, STEPS):
            gauges.setdefault(key_of(sample), {})[sample.name] = sample.value
    active = {key: found for key, found in gauges.items() if found.get(LENGTH)}
    if not active:
        raise NotObservable(
            f"{scrape.source}: this SGLang server does not speculate, or wrote nothing yet (accept length 0)",
            "it does when started with --speculative-algorithm; the gauge moves every 40 decoding steps",
        )
    by_model = groupby(sorted(active, key=lambda key: (key.model, natural(key.engine))), key=lambda key: key.model)
    return [_gauged(scrape, model, {key: active[key] for key in keys}) for model, keys in by_model]


def _gauged(scrape: Scrape, model: str, engines: Mapping[Key, Mapping[str, float]]) -> ModelRow:
    rows = []
    for key, found in engines.items():
        length, rate = found[LENGTH], found.get(RATE, 0.0)
        if not (1 <= length <= MOST_TOKENS and 0 <= rate <= 1):
            raise NotObservable(
                f"{scrape.source}: an accept length of {length:g} and an accept rate of {rate:g} cannot be",
                "lengths count the target's own token, so they are 1 or more; rates are shares",
            )
        figures: dict[str, Any] = {
            "mean_acceptance_length": length,
            "draft_acceptance_rate": rate if RATE in found else None,
        }
        rows.append(EngineRow(engine=key.engine, labels=dict(key.labels), **figures))
    steps = {int(found.get(STEPS, 0)) for found in engines.values()}
    k = steps.pop() if len(steps) == 1 else 0
    lengths = sorted(row.mean_acceptance_length for row in rows if row.mean_acceptance_length is not None)
    span = f"{lengths[0]:.2f}" if len(rows) == 1 else f"{lengths[0]:.2f} to {lengths[-1]:.2f}, by engine,"
    at = f" at num_spec_tokens = {k}" if 0 < k <= MOST_TOKENS else ""
    plan = f"draftpick plan --mean-acceptance-length {lengths[0]:.2f} -k {k or 'K'} --draft-cost C"
    return ModelRow(
        model=model,
        num_spec_tokens=k if at else None,
        mean_acceptance_length=lengths[0] if len(rows) == 1 else None,
        draft_acceptance_rate=rows[0].draft_acceptance_rate if len(rows) == 1 else None,
        decision=_open(
            f"{model} writes {span} tokens per step{at} in its last steps. SGLang shows this mean alone, no counts and "
            f"no positions, so nothing can be said of another number: `{plan}` estimates it, erring upward."
        ),
        engines=rows,
    )
