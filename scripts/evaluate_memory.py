"""How near the memory estimates come to what engines logged and publishers stated: `make evidence PARTS=estimates`.

The figures lie in tests/memory_figures.csv, each with its source and date. `weights`: of one device, as loaded.
`cache`: memory for the KV cache over the tokens that it was said to hold. `room`: what engine, weights and reserve
leave to the KV cache.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import records
from records import ROOT, Figure, Told

from draftpick.catalog import Catalog, load
from draftpick.memory import budget
from draftpick.pair import Pair, Proposal, Setting
from draftpick.sizes import kv_bytes_per_token, weight_bytes

PUBLISHED = ROOT / "tests" / "memory_figures.csv"
UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30}
LIMITS = {"weights": 0.05, "cache": 0.02, "room": 0.05}
"""Of the relative error. Weights: what an engine pads and keeps beside them is not counted. Cache: known but for the
rounding of logs. Room: the reserve is an estimate of a few per cent of the device."""


class Published(NamedTuple):
    """A row of the table."""

    kind: str
    model: str
    engine: str
    devices: int
    quantization: str | None
    utilization: float | None
    memory: int | None
    tokens: int
    """That the memory seen holds; 1 where it is not a matter of tokens."""
    seen: float
    """Bytes."""
    source: str
    date: str
    note: str


def read() -> list[Published]:
    """The table."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [
            Published(
                row["kind"],
                row["model"],
                row["engine"],
                int(row["tensor_parallel_size"]),
                row["quantization"] or None,
                float(row["utilization"]) if row["utilization"] else None,
                int(row["memory_bytes"]) if row["memory_bytes"] else None,
                int(row["tokens"] or 1),
                float(row["seen"]) * UNITS[row["unit"]],
                row["source"],
                row["date"],
                row["note"],
            )
            for row in csv.DictReader(file)
        ]


def estimate(row: Published, catalog: Catalog) -> float:
    """The bytes that draftpick expects, per token for a cache."""
    model = catalog.find(row.model)
    assert model is not None, row.model
    if row.kind == "weights":
        found: float | None = weight_bytes(
            model, quantization=row.quantization, tensor_parallel_size=row.devices, engine=row.engine
        )
    elif row.kind == "cache":
        found = kv_bytes_per_token(model, None, row.devices, engine=row.engine)
    else:
        setting = Setting(engine=catalog.engine(row.engine), tensor_parallel_size=row.devices)
        pair = Pair(model, Proposal("ngram", "always"), setting)
        parts = budget(pair, memory=row.memory, gpu_memory_utilization=row.utilization).per_device_bytes
        found = (parts.free or 0) + (parts.target_kv or 0)
    assert found is not None, row
    return found


def error(row: Published, catalog: Catalog) -> float:
    """How far the estimate lies above what was published, over the latter."""
    return estimate(row, catalog) * row.tokens / row.seen - 1


def estimates() -> Told:
    """What is expected of weights, KV cache and room, beside what engines logged and publishers stated."""
    catalog = load()
    rows = read()
    errors = {row: error(row, catalog) for row in rows}
    figures = [*_summaries(errors), *(_figure(row, wrong, estimate(row, catalog)) for row, wrong in errors.items())]
    return Told(
        figures,
        [
            "Logs call GiB GB. Estimates come from the catalogue alone: no model is loaded or asked.",
            "What was found in public reports that name model, engine and figure. The limits were set with it at hand.",
        ],
    )


def _summaries(errors: Mapping[Published, float]) -> list[Figure]:
    found = []
    for kind, limit in LIMITS.items():
        sizes = [abs(wrong) for row, wrong in errors.items() if row.kind == kind]
        found.append(
            Figure(
                f"{kind}: largest error, and the median, of {len(sizes)}",
                f"{max(sizes):.1%}, {statistics.median(sizes):.1%}",
                f"{limit:.0%} each",
                max(sizes) <= limit,
            )
        )
    return found


def _figure(row: Published, wrong: float, expected: float) -> Figure:
    how = ", ".join([row.engine, *([row.quantization] if row.quantization else [])])
    each = f", each of {row.devices}" if row.devices > 1 else ""
    if row.kind == "cache":
        told = f"{expected:,.0f} B a token expected, {row.seen / row.tokens:,.0f} B seen"
    else:
        told = f"{expected / 2**30:.2f} GiB expected, {row.seen / 2**30:.2f} GiB seen"
    return Figure(
        f"{row.kind}: {row.model}, {how}{each}", f"{told}: {wrong:+.1%}", note=f"{row.note}; {row.date}, {row.source}"
    )


def main() -> None:
    records.run({"estimates": estimates}, records.parser(__doc__).parse_args().keep)


if __name__ == "__main__":
    main()
