"""Fit the acceptance and cost model to the published measurements: catalog/measurements.csv → catalog/acceptance.json.

`make fit`. Few parameters, each with a prior and a width (PARAMETERS), so that a number on which the measurements are
silent stays where physics or a single source put it. Rows of one source are not independent: a source of n rows weighs
as much as sqrt(n) rows. Prints what `make eval` prints, for sources left out in turn.

The shape of the model (which facts it weighs, how a confidence stop and a rounded roofline are written, the widths
below) was chosen with all of these measurements in view; only the numbers are refitted when a source is left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from draftpick import catalog
from draftpick.acceptance import (
    Drafting,
    Step,
    drafting_of,
    expected_step,
    features,
    logistic,
    met_rate,
    own_logit,
)
from draftpick.assess import relate
from draftpick.choices import PRIORS
from draftpick.cost import costs, step_time
from draftpick.pair import IN_PARALLEL, Engine, Pair, Proposal, Setting
from draftpick.speedup import least_where, rate_from_length

ROOT = Path(__file__).parent.parent
MEASUREMENTS = ROOT / "catalog" / "measurements.csv"
FITTED = ROOT / "catalog" / "acceptance.json"
PAGE = ROOT / "docs" / "predictions.md"
MARKS = ("<!-- figures of make fit -->", "<!-- end of figures -->")

LONG_PROMPT = 6000
"""Tokens of the long-context tasks (SCROLLS, RAG over papers); other tasks take the assumed context."""
OLD_LLAMA_CPP = "b8000"
"""Stands for the builds that ended a draft by confidence, as shipped."""
HUBER = 1.5
"""Residuals beyond so many standard deviations count linearly: some published rows are broken builds."""
SPEEDUP_NOISE, BASE_NOISE, FRACTION_NOISE, RATE_NOISE = 0.2, 0.3, 0.12, 0.4
"""Standard deviations of what is fitted: log speed-up, log tokens per second, accepted share, logit of the rate."""
OFFSET_WIDTH = 0.6
"""How far apart the texts of two sources are expected to be, as a logit of the rate."""
WIDTHS = 0.4
"""Share of the widths of PARAMETERS that is used. The whole of them lets two large sources pull the numbers to what is
peculiar to them. Three ways to choose a share from the training sources alone disagree: a source left out of them,
each source alike, wants 0.2, the same with the loss of the fit 0.5, the evidence of the prior 0.64. This is their
geometric mean.
"""


class Parameter(NamedTuple):
    """One number to fit. Costs are fitted as logarithms, and their width is one of the logarithm; see WIDTHS."""

    part: str
    name: str
    prior: float
    width: float


PARAMETERS = (
    Parameter("rate", "constant", 1.3, 0.3),
    Parameter("rate", "draft size", 0.25, 0.2),
    Parameter("rate", "size ratio", -0.05, 0.1),
    Parameter("rate", "other tokenizer", -0.15, 0.1),
    Parameter("rate", "other origin", -0.2, 0.07),
    Parameter("rate", "other generation", -0.3, 0.1),
    Parameter("rate", "made for others", -0.3, 0.15),
    Parameter("rate", "other tuning", -0.2, 0.1),
    Parameter("rate", "other subject", -0.3, 0.2),
    Parameter("rate", "other thinking mode", -0.1, 0.1),
    Parameter("rate", "changed target", -0.2, 0.1),
    Parameter("rate", "made for the target", 0.4, 0.2),
    Parameter("rate", "easy", 0.5, 0.05),
    Parameter("rate", "reasoning target", 0.0, 0.3),
    Parameter("rate", "base target", 0.6, 0.4),
    Parameter("rate", "coder on other ground", -0.4, 0.3),
    Parameter("rate", "chat", -0.2, 0.2),
    Parameter("rate", "code", 0.2, 0.2),
    Parameter("rate", "math", 0.2, 0.2),
    Parameter("rate", "summarization", 0.0, 0.2),
    Parameter("rate", "extraction", 0.1, 0.2),
    Parameter("rate", "translation", -0.3, 0.2),
    Parameter("rate", "quantisation", -0.2, 0.2),
    Parameter("rate", "temperature, sampled draft", 0.0, 0.2),
    Parameter("rate", "temperature, greedy draft", -0.5, 0.2),
    Parameter("log rate", "belief", 0.6, 0.4),
    Parameter("rate", "insight", 0.6, 0.2),
    Parameter("cost", "launch_per_layer.transformers.nvidia", 0.0007, 0.3),
    Parameter("cost", "per_step.transformers", 0.0031, 0.4),
    Parameter("cost", "per_draft_token.transformers", 0.0012, 0.4),
    Parameter("cost", "per_translation.transformers", 0.004, 0.5),
    Parameter("cost", "cache_factor.transformers", 2.0, 0.4),
    Parameter("cost", "launch_per_layer.llama.cpp.apple", 0.00004, 0.5),
    Parameter("cost", "launch_per_layer.llama.cpp.nvidia", 0.00001, 0.5),
    Parameter("cost", "per_step.llama.cpp", 0.001, 0.4),
    Parameter("cost", "per_draft_token.llama.cpp", 0.0002, 0.5),
    Parameter("cost", "launch_per_layer.mlx.apple", 0.00006, 0.4),
    Parameter("cost", "per_step.mlx", 0.002, 0.8),
    Parameter("cost", "per_draft_token.mlx", 0.001, 0.8),
    Parameter("cost", "memory.apple", 0.85, 0.1),
    Parameter("cost", "memory.nvidia", 0.75, 0.1),
    Parameter("cost", "memory.generic", 0.6, 0.15),
    Parameter("cost", "compute.apple", 0.8, 0.3),
    Parameter("cost", "compute.nvidia", 0.3, 0.4),
    Parameter("cost", "compute.generic", 0.5, 0.4),
    Parameter("cost", "unpacking.apple", 2.0, 0.4),
    Parameter("cost", "unpacking.nvidia", 2.0, 0.4),
    # Processors multiply blocks of quantised weights as 8-bit integers instead of unpacking them to floats: a prompt
    # of 512 tokens takes Q4_K 1.3 times as long as fp16 (https://github.com/mozilla-ai/llamafile/pull/394, before it).
    Parameter("cost", "unpacking.generic", 1.3, 0.4),
)


class Row(NamedTuple):
    """A published measurement, ready to be predicted."""

    id: str
    source: str
    group: str
    target: str
    draft: str
    draft_quant: str
    pair: Pair
    inputs: Mapping[str, float]
    draftings: tuple[Drafting, ...]
    """More than one where the best of several lengths was published."""
    temperature: float
    context: int | None
    speedup: float
    base: float
    """Tokens per second without a draft; NaN where not published."""
    fraction: float
    rate: float
    same_tokenizer: bool
    ratio: float


# ------------------------------------------------------------------------------------------------------------ reading


def read(path: Path = MEASUREMENTS) -> tuple[list[Row], dict[str, int]]:
    """Rows with use = yes, and how many of the others were left out, by reason."""
    table = pd.read_csv(path, dtype={"k": str, "temperature": str})
    left_out = {f"{use}: {reason}": int(n) for (use, reason), n in _unused(table).items()}
    known = catalog.load()
    rows = []
    for record in table[table.use == "yes"].to_dict("records"):
        row = _row(record, known)
        if isinstance(row, str):
            left_out[row] = left_out.get(row, 0) + 1
        else:
            rows.append(row)
    return rows, left_out


def _unused(table: pd.DataFrame) -> Any:
    rest = table[table.use != "yes"]
    return rest.groupby([rest.use, rest.use_reason.fillna("another method than a draft model")]).size()


def _row(record: Mapping[str, Any], known: catalog.Catalog) -> Row | str:
    target, draft = known.find(record["target_id"]), known.find(record["draft_id"])
    if target is None or draft is None:
        return "yes, but a model is not in the catalogue"
    engine, device = known.engine(record["engine_key"]), known.device(record["device_hint"])
    temperature = _number(record["temperature"])
    quant, draft_quant = _text(record["target_quant"]), _text(record["draft_quant"])
    setting = Setting(
        engine=engine,
        device=device,
        quantization=quant,
        # A draft whose format nobody named is taken to be stored as its target is.
        draft_quantization=draft_quant or quant,
        temperature=temperature,
    )
    proposal = Proposal("draft_model", "given", draft)
    pair = Pair(target, proposal, setting, relate(target, proposal, known))
    workload, context = workload_of(str(record["task"]))
    inputs = features(pair, workload, temperature)
    if inputs is None:
        return "yes, but a model's parameters are not known"
    return Row(
        id=record["row_id"],
        source=record["source"],
        group=record["group"],
        target=target.id,
        draft=draft.id,
        draft_quant=draft_quant or "",
        pair=pair,
        inputs=inputs,
        draftings=draftings(engine, str(record["k"]), str(record["k_rule"])),
        temperature=temperature,
        context=context,
        speedup=record["speedup"],
        base=record["tok_s_base"],
        fraction=record["frac_drafted_accepted"],
        rate=record["alpha_per_token"],
        same_tokenizer=record["same_tokenizer"] == "yes",
        ratio=record["size_ratio"],
    )


def workload_of(task: str) -> tuple[str | None, int | None]:
    """The workload a published task stands for, and its prompt where that is long."""
    text = task.lower()
    if "qasper" in text or "scrolls" in text:
        return "extraction", LONG_PROMPT
    for workload, marks in (
        ("code", ("humaneval", "code", "coding", "python", "ruby")),
        ("summarization", ("summar", "cnn")),
        ("extraction", ("rag", "copy")),
        ("math", ("math", "reasoning", "gsm")),
        ("translation", ("translation",)),
        ("chat", ("chat", "conversation", "open-ended")),
    ):
        if any(mark in text for mark in marks):
            return workload, None
    return None, None


def draftings(engine: Engine, k: str, rule: str) -> tuple[Drafting, ...]:
    """How far the engine drafted, from the words of the row."""
    if engine.key == "llama.cpp" and "confidence" in rule:
        engine = engine._replace(version=OLD_LLAMA_CPP)
    if "heuristic" in k.lower() or "heuristic" in rule.lower():
        return (drafting_of(engine, None, "heuristic"),)
    if k.startswith("best of"):
        return tuple(drafting_of(engine, int(length)) for length in re.findall(r"\d+", k))
    number = re.fullmatch(r"(?:<=)?(\d+)(?:\.0)?", k)
    return (drafting_of(engine, int(number[1]) if number else None),)


def _number(value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# --------------------------------------------------------------------------------------------------------- predicting


class Prediction(NamedTuple):
    speedup: float
    rate: float
    fraction: float
    """Accepted over drafted."""
    target: float
    """Seconds of a plain token."""


def predict(row: Row, model: Mapping[str, Any]) -> Prediction:
    """What the model says of a row: the best of its draft lengths."""
    offset = model["offsets"].get(row.source, 0.0)
    own_rate = logistic(own_logit(row.inputs, model["rate"]) + offset)
    rate = met_rate(own_rate, row.inputs, model["rate"])
    parts = costs(row.pair, context=row.context, calibration=model["cost"])
    assert parts is not None, row.id
    best: Prediction | None = None
    for drafting in row.draftings:
        step: Step = expected_step(rate, drafting, row.temperature, own_rate=own_rate, model=model)
        speedup = step.tau * parts.target / step_time(parts, step)
        if best is None or speedup > best.speedup:
            best = Prediction(speedup, rate, (step.tau - 1) / max(step.drafted, 1e-9), parts.target)
    assert best is not None
    return best


# ------------------------------------------------------------------------------------------------------------ fitting


def as_model(values: Sequence[float], sources: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """The model that values of PARAMETERS stand for; offsets of `sources`, where given, come after them."""
    model: dict[str, dict[str, float]] = {"rate": {}, "cost": {}, "offsets": {}}
    for parameter, value in zip(PARAMETERS, values, strict=False):
        part = "cost" if parameter.part == "cost" else "rate"
        model[part][parameter.name] = float(value) if parameter.part == "rate" else math.exp(value)
    model["offsets"] = dict(zip(sources, (float(value) for value in values[len(PARAMETERS) :]), strict=True))
    return model


def start() -> np.ndarray:
    return np.array([p.prior if p.part == "rate" else math.log(p.prior) for p in PARAMETERS])


def fit(rows: Sequence[Row], values: np.ndarray | None = None, iterations: int = 20) -> np.ndarray:
    """Values of PARAMETERS: regularised, robust Gauss-Newton with numerical derivatives.

    Every source has an offset of its own on the rate, for how predictable its texts are. It is fitted beside the
    parameters, so that one easy prompt set does not bend them, and forgotten afterwards: nobody knows that of the next.
    """
    sources = sorted({row.source for row in rows})
    prior = np.concatenate([start(), np.zeros(len(sources))])
    widths = np.concatenate([[WIDTHS * p.width for p in PARAMETERS], np.full(len(sources), OFFSET_WIDTH)])
    values = prior.copy() if values is None else np.concatenate([values, np.zeros(len(sources))])
    weights = _weights(rows)
    touches = _touches(rows, sources)
    before = math.inf
    for _ in range(iterations):
        residuals, scale = _residuals(rows, values, weights, sources)
        jacobian = np.zeros((len(residuals), len(values)))
        for index, touched in enumerate(touches):
            moved = values.copy()
            moved[index] += 1e-3
            places = (4 * touched[:, None] + np.arange(4)).ravel()
            found, _ = _residuals([rows[row] for row in touched], moved, weights[touched], sources)
            jacobian[places, index] = (found - residuals[places]) / 1e-3
        robust = scale[:, None] * jacobian
        left = robust.T @ robust + np.diag(1 / widths**2)
        right = -(robust.T @ (scale * residuals)) - (values - prior) / widths**2
        step = np.linalg.solve(left, right)
        for _shorter in range(5):
            residuals, _ = _residuals(rows, values + step, weights, sources)
            loss = _loss(residuals, weights) + float((((values + step - prior) / widths) ** 2).sum())
            if loss < before:
                break
            step /= 3
        else:
            break
        values = values + step
        if before - loss < 1e-4 * loss:
            break
        before = loss
    return values[: len(PARAMETERS)]


def _touches(rows: Sequence[Row], sources: Sequence[str]) -> list[np.ndarray]:
    """For each value to fit the places of the rows it can move: the others need no derivative."""
    found = []
    for part, name, *_ in PARAMETERS:
        if part == "cost":
            keys = name.split(".", 1)[1]
            mine = [_is_meant(row, keys) for row in rows]
        else:
            mine = [name in row.inputs or part == "log rate" or name in ("insight", "easy") for row in rows]
        found.append(np.flatnonzero(mine))
    found += [np.flatnonzero([row.source == source for row in rows]) for source in sources]
    return found


def _is_meant(row: Row, keys: str) -> bool:
    """Whether `keys`, an engine, a vendor or both, are those of the row."""
    engine, device = row.pair.setting.engine, row.pair.setting.device
    assert engine is not None
    assert device is not None
    return keys in (engine.key, device.vendor, f"{engine.key}.{device.vendor}")


def _weights(rows: Sequence[Row]) -> np.ndarray:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.source] = counts.get(row.source, 0) + 1
    return np.array([counts[row.source] ** -0.25 for row in rows])


def _residuals(
    rows: Sequence[Row], values: np.ndarray, weights: np.ndarray, sources: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals in standard deviations, and the factor that makes large ones count linearly."""
    model = as_model(list(values), sources)
    found = np.zeros((len(rows), 4))
    for index, row in enumerate(rows):
        said = predict(row, model)
        found[index, 0] = math.log(said.speedup / row.speedup) / SPEEDUP_NOISE
        if math.isfinite(row.base):
            found[index, 1] = math.log(said.target * row.base) / BASE_NOISE
        if math.isfinite(row.fraction) and row.draftings[0].stop == "confidence":
            found[index, 2] = (said.fraction - row.fraction) / FRACTION_NOISE
        if math.isfinite(row.rate):
            found[index, 3] = (_logit(said.rate) - _logit(row.rate)) / RATE_NOISE
    flat = found.ravel()
    size = np.maximum(np.abs(flat), 1e-9)
    return flat * np.repeat(weights, 4), np.sqrt(np.minimum(1.0, HUBER / size))


def _loss(residuals: np.ndarray, weights: np.ndarray) -> float:
    factor = np.repeat(weights, 4)
    size = np.abs(residuals / factor)
    return float((np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2) * factor**2).sum())


def _logit(value: float) -> float:
    value = min(max(value, 1e-4), 1 - 1e-4)
    return math.log(value / (1 - value))


def held_out(rows: Sequence[Row], values: np.ndarray) -> dict[str, Prediction]:
    """Every row predicted by a model that has not seen its source; `values` are those of the full fit, to start at."""
    found: dict[str, Prediction] = {}
    for source in sorted({row.source for row in rows}):
        rest = [row for row in rows if row.source != source]
        model = as_model(list(fit(rest, values)))
        found.update((row.id, predict(row, model)) for row in rows if row.source == source)
    return found


def speedup_bounds(rows: Sequence[Row], said: Mapping[str, Prediction]) -> tuple[float, float]:
    """Points of log(measured / predicted) between which 80 % of held-out rows lie, each source weighing as in the fit.

    Symmetric about 0: a shift of the middle would be a correction, and belongs into the model.
    """
    errors = np.array([abs(math.log(row.speedup / said[row.id].speedup)) for row in rows])
    weights = _weights(rows) ** 2
    order = np.argsort(errors)
    share = np.cumsum(weights[order]) / weights.sum()
    bound = float(errors[order][min(int(np.searchsorted(share, 0.8)), len(errors) - 1)])
    return -bound, bound


def rate_spread(rows: Sequence[Row], said: Mapping[str, Prediction]) -> float:
    """Standard deviation of the held-out rate as a logit, on rows that tell it, or the accepted share of a fixed k."""
    errors, counts = [], []
    for row, weight in zip(rows, _weights(rows) ** 2, strict=True):
        drafting, measured = row.draftings[0], row.rate
        if not math.isfinite(measured) and math.isfinite(row.fraction) and drafting.stop == "fixed":
            measured = rate_from_length(1 + row.fraction * drafting.num_spec_tokens, drafting.num_spec_tokens)
        if math.isfinite(measured):
            errors.append(_logit(said[row.id].rate) - _logit(measured))
            counts.append(weight)
    return float(np.sqrt(np.average(np.square(errors), weights=counts)))


# ----------------------------------------------------------------------------------------------- heads and n-gram

METHODS = {
    "eagle": (("eagle",), "", 5),
    "eagle3": (("eagle3",), "", 5),
    "mtp": (("mtp",), "", 1),
    "medusa": (("medusa",), "", 4),
    "dflash": (("parallel_block",), "dflash", 15),
    "ngram": (("ngram",), "", 5),
    "suffix": (("suffix",), "", 8),
}
"""Method → classes of published rows, a word of their name, and the length where a row names none."""


DRAFTS_TREES = frozenset({"eagle", "eagle2", "eagle3", "medusa"})
"""Classes whose own code drafts trees."""
CHAIN_OF_TREE = 0.87
"""Rate of a chain over the one that a tree's tokens per step seem to show: PM1188 and PM1189 state both."""


FADES = frozenset({"eagle3", "mtp"})
"""Methods that draft token by token from the head's own states: how much less each further one is accepted is fitted
from curves. Of heads that guess a block in one pass too few were published: PRIORS["block_fade"]."""


def methods(rate: Mapping[str, float], path: Path = MEASUREMENTS) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rate of the first token of methods without a draft model, by workload, sources weighing alike; and their fades.

    `rate` holds the coefficients of the estimator: rates of sampled requests are brought to greedy ones by them.
    """
    table = pd.read_csv(path, dtype={"k": str, "target_id": str})
    cooler = rate.get("temperature, greedy draft", 0.0)
    found: dict[str, Any] = {}
    faded: dict[str, Any] = {}
    for method, (*_, usual) in METHODS.items():
        records = records_of(table, method)
        if method in FADES:
            faded[method] = fades(records)
        elif method in IN_PARALLEL:
            faded[method] = {"fade": PRIORS["block_fade"]}
        fade = faded.get(method, {}).get("fade", 1.0)
        rows = [_method_row(record, usual, fade, cooler) for record in records]
        parts: dict[str, list[tuple[str, str, int, float]]] = {"any": [row[1:] for row in rows if row is not None]}
        for row in rows:
            if row is not None and row[0] is not None:
                parts.setdefault(row[0], []).append(row[1:])
        found[method] = {workload: _pooled(part) for workload, part in sorted(parts.items()) if _is_enough(part)}
    found["eagle"], faded["eagle"] = _as_eagle(found["eagle3"], table), faded["eagle3"]
    faded["mtp"]["of"] = fades_of(records_of(table, "mtp"), found["mtp"]["any"]["rate"])
    return found, faded


def records_of(table: pd.DataFrame, method: str) -> list[dict[Any, Any]]:
    """The published rows of a method."""
    classes, word, _ = METHODS[method]
    mine = table[table.method_class.isin(classes) & table.draft_or_method.str.lower().str.contains(word)]
    return mine.to_dict("records")


class Curve(NamedTuple):
    """Tokens per step that one source counted at several lengths of draft, nothing else having changed."""

    source: str
    target: str
    lengths: Mapping[int, float]


def curves(records: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Those of the rows that reach three drafted tokens or more."""
    keys = ("source", "target_id", "target", "draft_or_method", "temperature", "task", "hardware", "engine")
    known: dict[tuple[str, ...], dict[int, float]] = {}
    twice = set()
    for record in records:
        counted = lengths_of(record)
        row = record["row_id"] if len(counted) > 1 else ""  # a whole curve by itself
        where = (*(str(record[key]) for key in keys), str(record["source_locator"]), str(row))
        before = known.setdefault(where, {})
        if any(before.get(k, tau) != tau for k, tau in counted.items()):
            twice.add(where)  # two settings that the row does not tell apart
        before.update(counted)
    return [
        Curve(where[0], where[1], lengths)
        for where, lengths in known.items()
        if where not in twice and len(lengths) > 1 and max(lengths) > 2
    ]


def lengths_of(record: Mapping[str, Any]) -> dict[int, float]:
    """Tokens per step by number of drafted tokens that a row states; empty where it names no number."""
    joint = re.fullmatch(r"(\d[\d.]*(?:;\d[\d.]*)+) \(joint(?: survival)?\)", str(record["per_position"]))
    if joint is not None:
        sums = np.cumsum([float(one) for one in joint[1].split(";")])
        return {k: 1 + float(total) for k, total in enumerate(sums, start=1)}
    number = re.fullmatch(r"(\d+)(?:\.0)?", str(record["k"]))
    if number is None or _is_tree(record):
        return {}
    k, tau, share = int(number[1]), record["tau_incl_bonus"], record["frac_drafted_accepted"]
    tau = tau if math.isfinite(tau) else 1 + k * share
    return {k: float(tau)} if math.isfinite(tau) else {}


def fades(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What each further token's rate is of the one before it: the median curve, sources weighing alike."""
    found = curves(records)
    number = {one.source: sum(other.source == one.source for other in found) for one in found}
    values, weights = np.array([fade_of(one.lengths) for one in found]), [1 / number[one.source] for one in found]
    longest = int(np.median([max(one.lengths) for one in found]))
    return {"fade": round(_quantiles(values, np.array(weights), (0.5,))[0], 3), "longest": longest}


def fades_of(records: Sequence[Mapping[str, Any]], rate: float) -> dict[str, float]:
    """The same of MTP layers by the architecture they were trained with: of its curves, else of single lengths, whose
    first token is taken to be accepted as those of all.
    """
    architectures = {model.id: model.architecture for model in catalog.load().profiles()}
    found: dict[str, list[float]] = {}
    for curve in curves(records):
        found.setdefault(architectures.get(curve.target) or "", []).append(fade_of(curve.lengths))
    single: dict[str, list[float]] = {}
    for record in records:
        name = architectures.get(str(record["target_id"])) or ""
        longer = {k: tau for k, tau in lengths_of(record).items() if k > 1}
        if longer and name not in found:
            single.setdefault(name, []).append(fade_of(longer, rate))
    return {name: round(float(np.median(values)), 3) for name, values in sorted({**single, **found}.items()) if name}


def fade_of(lengths: Mapping[int, float], rate: float | None = None) -> float:
    """The fade whose tokens per step come nearest to those counted, with the first rate given or fitted too."""
    first = np.array([rate]) if rate is not None else np.arange(20, 200) / 200
    rates, faded = np.meshgrid(first, FADES_TRIED, indexing="ij")
    off = np.zeros(rates.shape)
    for k, tau in lengths.items():
        survival = np.cumprod([rates * faded**place for place in range(k)], axis=0)
        off += (1 + survival.sum(axis=0) - tau) ** 2
    return float(FADES_TRIED[np.unravel_index(np.argmin(off), off.shape)[1]])


FADES_TRIED = np.arange(20, 201) / 200


def _is_enough(part: Sequence[tuple[str, str, int, float]]) -> bool:
    """Rows of one source tell of its texts and setting, not of the method."""
    return len(part) >= 4 and len({source for _, source, _, _ in part}) >= 2


def _method_row(
    record: Mapping[str, Any], usual: int, fade: float = 1.0, cooler: float = 0.0
) -> tuple[str | None, str, str, int, float] | None:
    """Workload, id, source, length and a chain's first rate, greedy; None where neither a length nor a share tells."""
    number = re.fullmatch(r"(\d+)(?:\.0)?", str(record["k"]))
    k = int(number[1]) if number and int(number[1]) <= 32 else usual
    tau, share = record["tau_incl_bonus"], record["frac_drafted_accepted"]
    if not math.isfinite(tau):
        if not number or not math.isfinite(share):
            return None
        tau = 1 + k * share
    most = expected_step(1.0, Drafting(k, fade=fade)).tau
    tau = min(tau, most - 0.05)
    rate = least_where(lambda first: expected_step(first, Drafting(k, fade=fade)).tau >= tau, 0.0, 1.0)
    if _is_tree(record):
        rate *= CHAIN_OF_TREE
    return workload_of(str(record["task"]))[0], record["row_id"], record["source"], k, _greedy(rate, record, cooler)


def _greedy(rate: float, record: Mapping[str, Any], cooler: float) -> float:
    """What the rate of a sampled request would be where the most probable token is taken."""
    heat = pd.to_numeric(record["temperature"], errors="coerce")
    if not 0 < rate < 1 or not math.isfinite(heat):
        return rate
    return logistic(math.log(rate / (1 - rate)) - cooler * min(heat, PRIORS["hottest"]))


def _is_tree(record: Mapping[str, Any]) -> bool:
    """Whether a head drafted a tree: its own code does, unless the row speaks of a chain or of a serving engine."""
    if record["method_class"] not in DRAFTS_TREES:
        return False
    said = f"{record['k']} {record['k_rule']} {record['draft_or_method']}".lower()
    serving = re.search("vllm|sglang|tensorrt", str(record["engine"]).lower())
    return "tree" in said or not (serving or "chain" in said)


def _as_eagle(table: Mapping[str, dict[str, Any]], rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """EAGLE by what it accepts beside EAGLE-3 where a source published both: alone, its authors published it."""
    keys = ["source", "target", "task", "engine"]
    rates = {
        name: {
            tuple(record[key] for key in keys): found[-1]
            for record in rows[rows.method_class == name].to_dict("records")
            if (found := _method_row(record, METHODS[name][2])) is not None
        }
        for name in ("eagle", "eagle3")
    }
    both = rates["eagle"].keys() & rates["eagle3"].keys()
    share = float(np.median([rates["eagle"][key] / rates["eagle3"][key] for key in both]))
    said = {"rate", "low", "high"}
    return {
        workload: {name: round(value * share, 3) if name in said else value for name, value in row.items()}
        | {"share_of": "eagle3", "share": round(share, 3)}
        for workload, row in table.items()
    }


def _pooled(part: Sequence[tuple[str, str, int, float]]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for _, source, _, _ in part:
        counts[source] = counts.get(source, 0) + 1
    rates = np.array([rate for *_, rate in part])
    weights = np.array([1 / counts[source] for _, source, _, _ in part])
    low, middle, high = _quantiles(rates, weights, (0.1, 0.5, 0.9))
    nearest = sorted(part, key=lambda row: abs(row[3] - middle))
    return {
        "rate": round(middle, 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "num_spec_tokens": int(np.median([k for _, _, k, _ in part])),
        "rows": len(part),
        "sources": len(counts),
        "ids": [row[0] for row in nearest[:3]],
    }


def _quantiles(values: np.ndarray, weights: np.ndarray, shares: Sequence[float]) -> list[float]:
    order = np.argsort(values)
    places = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    return [float(np.interp(share, places, values[order])) for share in shares]


# --------------------------------------------------------------------------------------------------------------- main


def as_file(rows: Sequence[Row], values: np.ndarray, said: Mapping[str, Prediction], today: str) -> dict[str, Any]:
    """What catalog/acceptance.json holds."""
    model = as_model(list(values))
    low, high = speedup_bounds(rows, said)
    published, faded = methods(model["rate"])
    pairs = {(row.target, row.draft): row for row in reversed(rows)}
    return {
        "fit": {
            "command": "make fit",
            "date": today,
            "rows": len(rows),
            "sources": len({row.source for row in rows}),
            "weights": "a source of n rows weighs as much as sqrt(n) rows",
        },
        "rate": {name: _short(value) for name, value in model["rate"].items()},
        "cost": {name: _short(value) for name, value in model["cost"].items()},
        "spread": {"rate": _short(rate_spread(rows, said)), "speedup": [_short(low), _short(high)]},
        "methods": published,
        "fades": faded,
        "rows": sorted(
            [
                row.id,
                row.target,
                row.draft,
                _short(row.inputs["size ratio"]),
                _short(row.inputs["draft size"]),
                int("other tokenizer" in row.inputs),
            ]
            for row in pairs.values()
        ),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _text_of(content: Mapping[str, Any]) -> str:
    """JSON with one fact a line, so that a change shows."""
    parts = []
    for key, value in content.items():
        if key == "rows":
            inner = ",\n".join(f"    {json.dumps(row)}" for row in value)
            parts.append(f'  "{key}": [\n{inner}\n  ]')
        elif key == "methods":
            methods_text = ",\n".join(
                f'    "{method}": {{\n'
                + ",\n".join(f'      "{workload}": {json.dumps(row)}' for workload, row in table.items())
                + "\n    }"
                for method, table in value.items()
            )
            parts.append(f'  "{key}": {{\n{methods_text}\n  }}')
        else:
            inner = ",\n".join(f'    "{name}": {json.dumps(item)}' for name, item in value.items())
            parts.append(f'  "{key}": {{\n{inner}\n  }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_page(figures: str) -> None:
    """Put the figures into the documentation, between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n```text\n{figures}\n```\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--date", default=datetime.date.today().isoformat(), help="date to write into the file")
    options = arguments.parse_args()
    rows, left_out = read()
    values = fit(rows)
    said = held_out(rows, values)
    FITTED.write_text(_text_of(as_file(rows, values, said, options.date)), encoding="utf-8")
    print(f"{FITTED} written")
    for parameter, value in zip(PARAMETERS, values, strict=True):
        shown = value if parameter.part == "rate" else math.exp(value)
        print(f"  {parameter.name:40s} {shown:10.5g}   (from {parameter.prior:g})")
    from evaluate import report

    figures = report(rows, said, left_out)
    write_page(figures)
    print(figures)


if __name__ == "__main__":
    main()
