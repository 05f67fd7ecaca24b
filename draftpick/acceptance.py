"""What to expect of a pair before anybody measured it: the acceptance rate, its interval, and what it rests on.

The estimator is a logistic line through published measurements, with a handful of facts of the pair as its inputs
(`features`), times what is left of the rate where draft and target differ in tokenizer or training. Its coefficients
are written by `make fit` into catalog/acceptance.json. Plain arithmetic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from draftpick.choices import PRIORS
from draftpick.errors import UsageError
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, IN_PARALLEL, WORKLOADS, Engine, Pair
from draftpick.rules import lineage
from draftpick.rules.engine_facts import in_version
from draftpick.rules.figures import bits_per_weight

LEVEL = 0.80
"""Level of every predicted interval."""
Z = 1.2816
"""Half-width of an interval of that level, in standard deviations."""


class Acceptance(NamedTuple):
    """The acceptance to expect of a pair that nobody has measured."""

    rate: float
    """α: the chance that a drafted token is accepted, all earlier ones having been."""
    low: float
    high: float
    level: float = LEVEL
    longest: int | None = None
    """The number of drafted tokens up to which rates were published; None where none were of such a target."""
    fade: float = 1.0
    """Rate of a token over that of the one before it; below 1 `rate` is that of the first."""
    own_rate: float | None = None
    """The rate with a target of the draft's own kind: what the draft's confidence goes by."""
    log_error: tuple[float, float] | None = None
    """10 % and 90 % points of log(measured / predicted speed-up) of such pairs, held out by source."""


class Basis(NamedTuple):
    """What an expectation rests on."""

    sentence: str
    rows: tuple[str, ...]
    """Ids of the published rows that stand closest, best first."""


class Drafting(NamedTuple):
    """How an engine decides how far to draft."""

    num_spec_tokens: int
    """The most tokens drafted before a verification."""
    stop: str = "fixed"
    """fixed, heuristic (2 more after a full hit, else 1 fewer) or confidence (ends where the draft is unsure)."""
    threshold: float = 0.0
    """Probability below which a confidence stop ends the draft."""
    keeps: bool = True
    """The unsure token is kept as the last one (transformers), or dropped (llama.cpp)."""
    samples: bool = False
    """The draft samples with the request's temperature, and speculative sampling accepts."""
    fade: float = 1.0
    """Rate of a token over that of the one before it, the earlier ones having been accepted."""


class Step(NamedTuple):
    """What one step is expected to do."""

    tau: float
    """Tokens emitted, the target's own included."""
    drafted: float
    """Tokens given to the verification."""
    passes: float
    """Passes of the draft; one more than `drafted` where a dropped token ended it."""


def prior(
    pair: Pair,
    workload: str | None = None,
    temperature: float | None = None,
    *,
    model: Mapping[str, Any] | None = None,
) -> Acceptance | None:
    """The acceptance to expect of `pair`; None where sizes are not known, or nothing was published for the method or
    for drafting across two vocabularies as the engine does.

    `workload` is one of WORKLOADS, `temperature` that of the request (0: greedy); not given, they are unknown and a
    mixed workload is assumed, greedy. `model` is a fitted model; the catalogue's where none is given.
    Raises UsageError for an unknown workload or an impossible temperature.
    """
    heat = _checked(workload, temperature if temperature is not None else pair.setting.temperature)
    known = model if model is not None else fitted()
    if pair.draft is None:
        return _published(pair, workload, heat, known)
    if bridged(pair):
        return None
    inputs = features(pair, workload, heat)
    if inputs is None:
        return None
    coefficients: Mapping[str, float] = known["rate"]
    logit = own_logit(inputs, coefficients)
    spread = known["spread"]["rate"] * _widened(pair)
    return Acceptance(
        rate=met_rate(logistic(logit), inputs, coefficients),
        low=met_rate(logistic(logit - Z * spread), inputs, coefficients),
        high=met_rate(logistic(logit + Z * spread), inputs, coefficients),
        fade=PRIORS["parallel_fade"] if pair.method in IN_PARALLEL else 1.0,
        own_rate=logistic(logit),
        log_error=_error(pair, known),
    )


def basis(pair: Pair, workload: str | None = None) -> Basis:
    """What `prior` goes by: what it weighs, and the published rows nearest to the pair. For pairs that have a prior."""
    known = fitted()
    if pair.draft is None:
        row = _method_row(pair, workload, known)
        assert row is not None
        where = f" on {workload}" if workload is not None and workload in known["methods"][pair.method] else ""
        said = f"{row['rows']} published rows of {row['sources']} sources, most at {row['num_spec_tokens']} drafted."
        of = f", {row['share']} of the rate of {row['share_of']}" if "share_of" in row else ""
        return Basis(f"{pair.method}{where}{of}: {said}", tuple(row["ids"]))
    inputs = features(pair, workload)
    assert inputs is not None
    near = _closest(pair, inputs, known["rows"])
    return Basis(_sentence(pair, inputs, near, known), tuple(row for row, _ in near))


def features(pair: Pair, workload: str | None = None, temperature: float = 0.0) -> dict[str, float] | None:
    """The facts of a pair that the estimator weighs, by name; None where a model's parameters are not known."""
    target, draft = pair.target, pair.draft
    if draft is None:
        return None
    ours, theirs = _params(target), _params(draft)
    if ours is None or theirs is None:
        return None
    inputs = {
        "constant": 1.0,
        "draft size": math.log(theirs / 1e9),
        "size ratio": math.log(max(ours / theirs, 1.0) / 10),
        **estrangement(pair),
    }
    origin = target.lineage
    if {target.id, origin.base_model if origin.relation == "quantized" else None} & {*draft.made_for}:
        inputs["made for the target"] = 1.0
    if target.variant == "reasoning":
        inputs["reasoning target"] = 1.0
    if target.variant == "base":
        inputs["base target"] = 1.0
    if workload is not None:
        inputs[workload] = 1.0
        if "coder" in (draft.variant or "") and workload not in ("code", "math"):
            inputs["coder on other ground"] = 1.0
    noise = 0.0
    for model, chosen in ((target, pair.setting.quantization), (draft, pair.setting.draft_quantization)):
        bits = bits_of(chosen or model.quantization, model.dtype)
        noise += 2.0**-bits if bits is not None else 0.0
    inputs["quantisation"] = 10 * noise
    if temperature:
        inputs[_heat_name(pair)] = min(temperature, PRIORS["hottest"])
    return inputs


_PARTING = {
    "other tuning": lineage.tuning,
    "other subject": lineage.subject,
    "other thinking mode": lineage.thinking_mode,
    "changed target": lineage.changed_target,
}
"""What parts a draft from its target, and the rule that says how far."""
ESTRANGED = frozenset({"other tokenizer", "other origin", "other generation", "made for others", *_PARTING})
"""Facts that part a draft from its target without making it less sure of itself."""


def estrangement(pair: Pair) -> dict[str, float]:
    """How far a draft is parted from its target, by fact: one minus the score of the rule (0 is left out); versions
    between them for another generation of one family.
    """
    found = {"other tokenizer": 1.0} if translates(pair) else {}
    for name, rule in _PARTING.items():
        outcome = rule(pair)
        if outcome.kind != "skip" and outcome.score < 1:
            found[name] = 1 - outcome.score
    meant = pair.draft.made_for if pair.draft is not None else ()
    if meant and not {pair.target.id, pair.target.lineage.base_model} & {*meant}:
        found["made for others"] = 1.0
    origin = lineage.lineage(pair)
    if origin.kind != "skip" and origin.score < 1 and not _same_tuning(pair):
        versions = origin.evidence.get("apart")
        if versions is not None:
            found["other generation"] = min(versions, PRIORS["most_generations"])
        else:
            found["other origin"] = 1 - origin.score
    return found


def own_logit(inputs: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """Logit of the rate that the draft would reach with a target of its own kind."""
    return sum(coefficients.get(name, 0.0) * value for name, value in inputs.items() if name not in ESTRANGED)


def met_rate(own_rate: float, inputs: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The rate with a target that the draft is parted from: other words, other training.

    What any draft guesses (the rest of a word, a bracket) it still guesses; of the rest a share is left.
    """
    easy = min(own_rate, coefficients.get("easy", 0.0))
    left = sum(coefficients.get(name, 0.0) * inputs[name] for name in inputs if name in ESTRANGED)
    return easy + (own_rate - easy) * math.exp(min(left, 0.0))


def translates(pair: Pair) -> bool:
    """Whether the draft's tokens have to be translated for the target: their ids mean other text."""
    if pair.draft is None:
        return False
    if pair.relation is not None and pair.relation.kind != "unknown":
        return pair.relation.kind == "different"
    ours, theirs = pair.target.tokenizer, pair.draft.tokenizer
    return ours is not None and theirs is not None and ours.family != theirs.family


def bridged(pair: Pair) -> bool:
    """Whether the engine drafts only what two vocabularies both name: every published row with two of them translates
    text instead, and tells nothing of it.
    """
    engine = pair.setting.engine
    return engine is not None and "bridge" in in_version(engine, "vocabulary") and translates(pair)


# ------------------------------------------------------------------------------------------- how far an engine drafts


def drafting_of(engine: Engine | None, num_spec_tokens: int | None = None, stop: str | None = None) -> Drafting:
    """How `engine` drafts as shipped in its version; `num_spec_tokens` and `stop` override what it says of itself."""
    facts = in_version(engine, "step_overhead") if engine is not None else {}
    rule = stop or str(facts.get("stop", "fixed"))
    return Drafting(
        num_spec_tokens=num_spec_tokens or int(facts.get("default_num_spec_tokens", PRIORS["num_spec_tokens"])),
        stop=rule,
        threshold=float(facts.get("stop_threshold", 0.0)) if rule == "confidence" else 0.0,
        keeps=bool(facts.get("stop_keeps", True)),
        samples=bool(facts.get("draft_samples", False)),
    )


def expected_step(
    rate: float,
    drafting: Drafting,
    temperature: float = 0.0,
    *,
    own_rate: float | None = None,
    model: Mapping[str, Any] | None = None,
) -> Step:
    """What a step does on average at acceptance rate `rate`.

    Tokens are taken as independent. For a confidence stop the draft believes in a rate b = own_rate^belief, where
    `own_rate` is what it would reach with a target of its own kind: it is certain of some of the tokens, and its top
    probability on the others is spread as a power of a uniform number, so that its mean is b. `insight` says how far
    what it is sure of is also right: 0 not at all, 1 as far as the rate allows.
    Raises UsageError for a rate outside 0 … 1.
    """
    if not 0 <= rate <= 1:
        raise UsageError(f"the acceptance rate is {rate}", "a rate is a number from 0 to 1")
    k = drafting.num_spec_tokens
    if drafting.stop == "confidence" and drafting.threshold > 0 and 0 < rate < 1:
        fit = (model if model is not None else fitted())["rate"]
        sure, hit_sure = _confidence(rate, own_rate or rate, drafting, temperature, fit)
        return _stopped(rate, k, sure, hit_sure, drafting.keeps)
    if drafting.stop == "heuristic":
        return _heuristic(rate, k)
    if drafting.fade < 1:
        return Step(_fading(rate, drafting.fade, k), k, k)
    return Step(_geometric(rate, k + 1), k, k)


def _fading(rate: float, fade: float, k: int) -> float:
    """1 + r + r·(r·f) + r·(r·f)·(r·f²) + …: tokens of a step whose rates fall from one to the next."""
    length = survival = 1.0
    for position in range(k):
        survival *= rate * fade**position
        length += survival
    return length


def _confidence(
    rate: float, own_rate: float, drafting: Drafting, temperature: float, fit: Mapping[str, float]
) -> tuple[float, float]:
    """Chance that the draft is sure of a token, and that such a token is accepted."""
    believed = min(own_rate ** fit.get("belief", 1.0), 0.999)
    certain = believed ** PRIORS["certain"]
    mean = (believed - certain) / (1 - certain)
    power = mean / (1 - mean)
    sure = certain + (1 - certain) * (1 - drafting.threshold**power)
    heat = min(temperature, 1.0) if drafting.samples else 0.0
    if heat:
        # A sampled token is a sure one only where it is the top one, so sampling stops earlier.
        warm = certain + (1 - certain) * mean * (1 - drafting.threshold ** (power + 1))
        sure += heat * (warm - sure)
    hits = rate + fit.get("insight", 0.5) * (min(1.0, rate / sure) - rate)
    return sure, hits


def _stopped(rate: float, k: int, sure: float, hit_sure: float, keeps: bool) -> Step:
    on = sure * hit_sure
    if keeps:
        drafted = _geometric(sure, k)
        return Step(1 + rate * _geometric(on, k), drafted, drafted)
    drafted = sure * _geometric(sure, k)
    return Step(1 + on * _geometric(on, k), drafted, min(drafted + 1 - sure**k, k))


def _heuristic(rate: float, k: int) -> Step:
    """The length settles where two up after a full hit balance one down after a miss: rate^k = 1/3."""
    settled = k if rate >= 1 else 1.0 if rate <= 0 else math.log(3) / -math.log(rate)
    length = min(max(settled, 1.0), PRIORS["heuristic_longest"])
    return Step((1 - rate ** (length + 1)) / (1 - rate) if rate < 1 else length + 1, length, length)


def _geometric(ratio: float, terms: float) -> float:
    """1 + ratio + … , so many terms."""
    return (1 - ratio**terms) / (1 - ratio) if ratio < 1 else terms


# ------------------------------------------------------------------------------------------------ heads and look-up


def _published(pair: Pair, workload: str | None, heat: float, known: Mapping[str, Any]) -> Acceptance | None:
    """The rate that the method's published tokens per step stand for, brought to the temperature asked for."""
    row = _method_row(pair, workload, known)
    if row is None:
        return None
    fades = known.get("fades", {}).get(pair.method, {})
    own = fades.get("of", {})
    fade = own.get(pair.target.architecture, fades.get("fade", 1.0))
    cooler = known["rate"].get(_heat_name(pair), 0.0) * min(heat, PRIORS["hottest"])
    rate, low, high = (_shifted(row[name], cooler) for name in ("rate", "low", "high"))
    told = not own or pair.target.architecture in own
    longest = fades.get("longest", row["num_spec_tokens"]) if told else None
    return Acceptance(rate, low, high, longest=longest, fade=fade)


def _shifted(rate: float, logit: float) -> float:
    if logit == 0 or not 0 < rate < 1:
        return float(rate)
    return logistic(math.log(rate / (1 - rate)) + logit)


def _heat_name(pair: Pair) -> str:
    sampled = drafting_of(pair.setting.engine).samples
    return "temperature, sampled draft" if sampled else "temperature, greedy draft"


def _method_row(pair: Pair, workload: str | None, known: Mapping[str, Any]) -> Mapping[str, Any] | None:
    table: Mapping[str, Mapping[str, Any]] = known["methods"].get(pair.method, {})
    if pair.method in DRAFT_FREE and workload is not None:
        return table.get(workload)  # what copies from the texts has no rate of its own
    return table.get(workload or "any") or table.get("any")


# ------------------------------------------------------------------------------------------------------ small things


def _closest(pair: Pair, inputs: Mapping[str, float], rows: list[list[Any]], n: int = 3) -> list[tuple[str, float]]:
    """The published rows nearest to the pair: the same models first, then the same class and sizes."""
    assert pair.draft is not None
    target, draft = pair.target.id, pair.draft.id
    ratio, size, other = inputs["size ratio"], inputs["draft size"], bool(inputs.get("other tokenizer"))
    found = []
    for row_id, row_target, row_draft, row_ratio, row_size, row_other in rows:
        distance = abs(row_ratio - ratio) + abs(row_size - size) + 2 * (bool(row_other) != other)
        distance += (row_target != target) + (row_draft != draft)
        found.append((distance, row_id))
    found.sort()
    return [(row_id, distance) for distance, row_id in found[:n] if distance < PRIORS["closest"]]


def _sentence(
    pair: Pair, inputs: Mapping[str, float], rests_on: list[tuple[str, float]], known: Mapping[str, Any]
) -> str:
    facts = [name for name in inputs if name not in ("constant", "draft size", "size ratio", "quantisation")]
    unknown = {
        "tokenizer": _uncompared(pair) and "other tokenizer" not in inputs,
        "lineage": lineage.lineage(pair).kind == "skip",
    }
    if not facts and not all(unknown.values()):
        facts = ["same " + " and ".join(name for name in unknown if not unknown[name])]
    if any(unknown.values()):
        facts.append(" and ".join(name for name in unknown if unknown[name]) + " not known, taken as the same")
    kind = ", ".join(facts)
    near = "; nearest: " + ", ".join(row for row, _ in rests_on) if rests_on else "; none of them is near this pair"
    return f"A line through {known['fit']['rows']} published rows of {known['fit']['sources']} sources ({kind}){near}."


def _uncompared(pair: Pair) -> bool:
    return pair.relation is None or pair.relation.kind == "unknown"


def _error(pair: Pair, known: Mapping[str, Any]) -> tuple[float, float]:
    low, high = known["spread"]["speedup"]
    wider = _widened(pair)
    return low * wider, high * wider


def _widened(pair: Pair) -> float:
    """How many times the usual spread such a pair has."""
    if _uncompared(pair):
        return PRIORS["unknown_relation"]
    return PRIORS["translated"] if translates(pair) else 1.0


def _checked(workload: str | None, temperature: float | None) -> float:
    if workload is not None and workload not in WORKLOADS:
        raise UsageError(f"unknown workload {workload!r}", f"one of {', '.join(WORKLOADS)}")
    if temperature is None:
        return 0.0
    if not 0 <= temperature <= 10:
        raise UsageError(f"the temperature is {temperature}", "a temperature is a number from 0 to 10")
    return temperature


def _params(model: ModelProfile) -> float | None:
    total = model.params_text or model.params_total
    if not total:
        return None
    # A sparse model knows more than what one token touches and less than a dense one of all its parameters.
    return math.sqrt(total * model.params_active) if model.params_active else float(total)


TUNING_SETS = ("sharegpt", "ultrachat", "openhermes", "tulu")
"""Public sets of answers: two models tuned on one of them write alike, whatever they learned before."""


def _same_tuning(pair: Pair) -> bool:
    ours = (pair.target.lineage.data or "").lower()
    theirs = (pair.draft.lineage.data or "").lower() if pair.draft is not None else ""
    return any(name in ours and name in theirs for name in TUNING_SETS)


def bits_of(quantization: str | None, dtype: str | None) -> float | None:
    """Bits of a stored weight; names of plain formats (`fp16`, `float32`) are formats too."""
    return _PLAIN_BITS.get((quantization or "").lower()) or bits_per_weight(quantization, dtype)


_PLAIN_BITS = {
    "fp16": 16.0, "float16": 16.0, "bfloat16": 16.0, "none": 16.0, "fp32": 32.0, "f32": 32.0, "float32": 32.0,
}  # fmt: skip


def logistic(value: float) -> float:
    """The share that a logit stands for."""
    return 1 / (1 + math.exp(-max(min(value, 30.0), -30.0)))


@cache
def fitted() -> Mapping[str, Any]:
    """The fitted model: catalog/acceptance.json, or its copy in the package."""
    from draftpick.catalog import packed_folder

    with open(packed_folder() / "acceptance.json", "rb") as file:
        found: Mapping[str, Any] = json.load(file)
    return found
