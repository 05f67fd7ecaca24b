"""Fit the acceptance and cost model to the published measurements: catalog/measurements.csv → catalog/acceptance.json.

`make fit`. Few parameters, each with a prior and a width (PARAMETERS), so that a number on which the measurements are
silent stays where physics or a single source put it. Rows of one source are not independent: a source of n rows weighs
as much as sqrt(n) rows. Prints what `make eval` prints, for sources left out in turn.
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
from draftpick.acceptance import Drafting, Step, drafting_of, expected_step, features, logistic, logit_of, own
from draftpick.assess import relate
from draftpick.cost import costs, step_time
from draftpick.models.profile import ModelProfile
from draftpick.pair import Engine, Pair, Proposal, Setting

ROOT = Path(__file__).parent.parent
MEASUREMENTS = ROOT / "catalog" / "measurements.csv"
FITTED = ROOT / "catalog" / "acceptance.json"

LONG_PROMPT = 6000
"""Tokens of the long-context tasks (SCROLLS, RAG over papers); other tasks take the assumed context."""
OLD_LLAMA_CPP = "b8000"
"""Stands for the builds that ended a draft by confidence, as shipped."""
HUBER = 1.5
"""Residuals beyond so many standard deviations count linearly: some published rows are broken builds."""
SPEEDUP_NOISE, BASE_NOISE, FRACTION_NOISE, RATE_NOISE = 0.2, 0.3, 0.12, 0.4
"""Standard deviations of what is fitted: log speed-up, log tokens per second, accepted share, logit of the rate."""


class Parameter(NamedTuple):
    """One number to fit. Costs are fitted as logarithms, and their width is one of the logarithm."""

    part: str
    name: str
    prior: float
    width: float


PARAMETERS = (
    Parameter("rate", "constant", 1.0, 0.5),
    Parameter("rate", "draft size", 0.25, 0.2),
    Parameter("rate", "size ratio", -0.15, 0.2),
    Parameter("rate", "other tokenizer", -0.6, 0.5),
    Parameter("rate", "other lineage", -0.5, 0.4),
    Parameter("rate", "changed target", -0.5, 0.4),
    Parameter("rate", "reasoning target", 0.0, 0.3),
    Parameter("rate", "base target", 0.3, 0.3),
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
    Parameter("cost", "cache_factor.transformers", 1.5, 0.4),
    Parameter("cost", "launch_per_layer.llama.cpp.apple", 0.00004, 0.5),
    Parameter("cost", "launch_per_layer.llama.cpp.nvidia", 0.00001, 0.5),
    Parameter("cost", "per_step.llama.cpp", 0.001, 0.4),
    Parameter("cost", "per_draft_token.llama.cpp", 0.0002, 0.5),
    Parameter("cost", "launch_per_layer.mlx.apple", 0.00006, 0.4),
    Parameter("cost", "per_step.mlx", 0.002, 0.4),
    Parameter("cost", "per_draft_token.mlx", 0.001, 0.4),
    Parameter("cost", "memory.apple", 0.85, 0.1),
    Parameter("cost", "memory.nvidia", 0.75, 0.1),
    Parameter("cost", "memory.generic", 0.6, 0.15),
    Parameter("cost", "compute.apple", 0.55, 0.3),
    Parameter("cost", "compute.nvidia", 0.3, 0.4),
    Parameter("cost", "compute.generic", 0.5, 0.4),
    Parameter("cost", "unpacking.apple", 1.4, 0.3),
    Parameter("cost", "unpacking.nvidia", 1.4, 0.3),
    Parameter("cost", "unpacking.generic", 1.4, 0.3),
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
        ("code", ("humaneval", "code", "python", "ruby")),
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
    rate = logistic(logit_of(row.inputs, model["rate"]))
    own_rate = logistic(logit_of(own(row.inputs), model["rate"]))
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


def as_model(values: Sequence[float]) -> dict[str, dict[str, float]]:
    model: dict[str, dict[str, float]] = {"rate": {}, "cost": {}}
    for parameter, value in zip(PARAMETERS, values, strict=True):
        part = "cost" if parameter.part == "cost" else "rate"
        model[part][parameter.name] = value if parameter.part == "rate" else math.exp(value)
    return model


def start() -> np.ndarray:
    return np.array([p.prior if p.part == "rate" else math.log(p.prior) for p in PARAMETERS])


def fit(rows: Sequence[Row], values: np.ndarray | None = None, iterations: int = 8) -> np.ndarray:
    """Values of PARAMETERS: regularised, robust Gauss-Newton with numerical derivatives."""
    prior, widths = start(), np.array([p.width for p in PARAMETERS])
    values = prior.copy() if values is None else values.copy()
    weights = _weights(rows)
    before = math.inf
    for _ in range(iterations):
        residuals, scale = _residuals(rows, values, weights)
        jacobian = np.empty((len(residuals), len(values)))
        for index in range(len(values)):
            moved = values.copy()
            moved[index] += 1e-3
            jacobian[:, index] = (_residuals(rows, moved, weights)[0] - residuals) / 1e-3
        robust = scale[:, None] * jacobian
        left = robust.T @ robust + np.diag(1 / widths**2)
        right = -(robust.T @ (scale * residuals)) - (values - prior) / widths**2
        step = np.linalg.solve(left, right)
        for _shorter in range(5):
            loss = _loss(rows, values + step, weights, prior, widths)
            if loss < before:
                break
            step /= 3
        else:
            break
        values = values + step
        if before - loss < 1e-3 * loss:
            break
        before = loss
    return values


def _weights(rows: Sequence[Row]) -> np.ndarray:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.source] = counts.get(row.source, 0) + 1
    return np.array([counts[row.source] ** -0.25 for row in rows])


def _residuals(rows: Sequence[Row], values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals in standard deviations, and the factor that makes large ones count linearly."""
    model = as_model(list(values))
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


def _loss(
    rows: Sequence[Row], values: np.ndarray, weights: np.ndarray, prior: np.ndarray, widths: np.ndarray
) -> float:
    residuals, _ = _residuals(rows, values, weights)
    factor = np.repeat(weights, 4)
    size = np.abs(residuals / factor)
    huber = np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2) * factor**2
    return float(huber.sum() + (((values - prior) / widths) ** 2).sum())


def _logit(value: float) -> float:
    value = min(max(value, 1e-4), 1 - 1e-4)
    return math.log(value / (1 - value))


def held_out(rows: Sequence[Row], values: np.ndarray) -> dict[str, Prediction]:
    """Every row predicted by a model that has not seen its source; `values` are those of the full fit, to start at."""
    found: dict[str, Prediction] = {}
    for source in sorted({row.source for row in rows}):
        rest = [row for row in rows if row.source != source]
        model = as_model(list(fit(rest, values, iterations=5)))
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


if __name__ == "__main__":
    pass
