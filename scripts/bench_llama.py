"""What a probe costs beside a sweep of llama.cpp, and whether its k holds there: `make evidence PARTS=llama`.

python scripts/bench_llama.py FOLDER [--prompts-count N]

FOLDER holds what `make test-engines PARTS=llama` unpacks and builds. A sweep is what is done without a probe: the
server is started with every k from 0 to 8 and asked the same prompts. The probe starts a server of each model and asks
once, with the same prompts. The servers have one thread.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import llama_server
import records
from llama_server import DEMO, Place, post, serving
from records import Figure, Told

from draftpick.catalog import load
from draftpick.probing import trace
from draftpick.probing.trace import Row

KS = range(9)
SLOTS = max(KS) + 1
"""A pass over so many positions is timed as a step with as many sequences."""


class Pair(NamedTuple):
    """Two GGUF files, and what both ways are asked."""

    name: str
    place: Place
    count: int
    """Of the prompts that come with the demo pair: short ones, for the sweep reads them nine times."""
    tokens: int


class Swept(NamedTuple):
    """The server with one k."""

    clock: float
    """Seconds from its start to its last answer."""
    writing: float
    """Seconds that it wrote, by its own timings."""
    tokens: int

    @property
    def speed(self) -> float:
        return self.tokens / self.writing


class Probed(NamedTuple):
    """The probe."""

    clock: float
    """Seconds from the start of the servers to its result."""
    result: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def draft(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.result["drafts"][0]
        return found


def probed(pair: Pair) -> Probed:
    """Ask once, through a server of each model."""
    with tempfile.TemporaryDirectory() as made:
        file, begun = Path(made) / "probe.json", time.perf_counter()
        target, draft = (_server(pair, name, "-np", str(SLOTS)) for name in ("target", "draft"))
        with serving(pair.place, target) as one, serving(pair.place, draft) as other:
            words = ["--target-url", one, "--draft-url", other, "--prompts", str(DEMO / "prompts.jsonl")]
            words += [
                "--num-prompts",
                str(pair.count),
                "--max-new-tokens",
                str(pair.tokens),
                "--precision",
                "0",
                "-o",
                str(file),
                "--exit-zero",
            ]
            command = [sys.executable, "-m", "draftpick", "probe", *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            clock = time.perf_counter() - begun
        rows = trace.read(file.with_suffix(".trace.jsonl")).rows
        return Probed(clock, json.loads(file.read_text(encoding="utf-8")), rows)


def swept(pair: Pair, rows: Sequence[Row], k: int) -> Swept:
    """Ask a server that drafts k tokens for all answers."""
    drafts = ["-md", str(pair.place.pair / "draft.gguf"), "--spec-type", "draft-simple", "--spec-draft-n-max", str(k)]
    begun, writing, tokens = time.perf_counter(), 0.0, 0
    with serving(pair.place, _server(pair, "target", "-np", "1", *(drafts if k else []))) as url:
        for row in rows:
            question = {"prompt": list(row.prompt_ids), "n_predict": pair.tokens, "temperature": 0}
            # Without `temperature` among the samplers the server would not be greedy at 0.
            answer = post(url, "/completion", {**question, "samplers": ["temperature"], "cache_prompt": False})
            # The prompt's own pass writes the first token.
            writing += answer["timings"]["predicted_ms"] / 1e3
            tokens += answer["timings"]["predicted_n"] - 1
        return Swept(time.perf_counter() - begun, writing, tokens)


def _server(pair: Pair, model: str, *more: str) -> str:
    return shlex.join(["llama-server", "-m", str(pair.place.pair / f"{model}.gguf"), *more])


def llama(pairs: Sequence[Pair]) -> Told:
    """A probe through llama.cpp's servers beside a sweep of it, and beside a probe of the same models here."""
    figures: list[Figure] = []
    for pair in pairs:
        one = probed(pair)
        sweep = {k: swept(pair, one.rows, k) for k in KS}
        figures += [*costs(pair, one, sweep), *choice(pair, one, sweep)]
    return Told(
        [*figures, *alike(pairs[-1].place)],
        [
            "Speeds are of decoding, as the server itself times it; seconds include its start. The sweep asks once "
            "with every k; the probe times each step of a server five times at the least, and until it is known to "
            "2 %. The demo pair writes so fast that a sweep of it is over before that.",
            "Costs of a step are put together from parts: the draft alone, and verification as a step of the target "
            "with as many sequences at once. What llama.cpp itself adds to a speculative step is not in them.",
        ],
    )


def costs(pair: Pair, one: Probed, sweep: Mapping[int, Swept]) -> Iterator[Figure]:
    """Seconds of both ways."""
    whole, tokens = sum(each.clock for each in sweep.values()), sum(len(row.tokens) for row in one.rows)
    yield Figure(
        f"{pair.name}: sweep of llama-server over k = 0…{max(KS)}, {len(one.rows)} prompts, {tokens} tokens",
        f"{whole:.1f} s",
    )
    yield Figure(
        f"{pair.name}: the whole probe, with the start of both servers and step times",
        f"{one.clock:.1f} s, 1/{whole / one.clock:.1f}",
        "the sweep",
        one.clock <= whole,
    )
    parts = one.result["seconds"]
    asking = parts["asking"]
    yield Figure(
        f"{pair.name}: its acceptance part, all k at once",
        f"{asking:.1f} s, 1/{whole / asking:.1f}",
        "1/8",
        asking <= whole / 8,
    )
    yield Figure(
        f"{pair.name}: the parts of the probe", ", ".join(f"{name} {taken:.1f} s" for name, taken in parts.items())
    )


def choice(pair: Pair, one: Probed, sweep: Mapping[int, Swept]) -> Iterator[Figure]:
    """Whether the planned k is as fast as the best one, and what was predicted for each."""
    best = max(KS, key=lambda k: sweep[k].speed)
    speeds = " ".join(f"{sweep[k].speed:.0f}" for k in KS)
    yield Figure(f"{pair.name}: best k of the sweep", f"{best} ({speeds} tokens/s from k = 0 on)")
    plan = one.draft["plan"]
    doubts = "; ".join([*one.result["doubts"], *one.draft["doubts"]]).replace(f"{pair.place.pair}/", "")
    if plan is None:
        yield Figure(f"{pair.name}: k planned by the probe", "none", "97 %", False, doubts)
        return
    reached = sweep[plan["num_spec_tokens"]].speed / sweep[best].speed
    yield Figure(
        f"{pair.name}: k planned by the probe",
        f"{plan['num_spec_tokens']}: {reached:.1%} of the best",
        "97 %",
        reached >= 0.97,
        doubts,
    )
    wrong = {
        by["k"]: by["speedup"]["value"] / (sweep[by["k"]].speed / sweep[0].speed) - 1
        for by in one.draft["by_k"]
        if by["k"] and by["speedup"] is not None
    }
    yield Figure(
        f"{pair.name}: predicted over measured speed-up, k = {min(wrong)}…{max(wrong)}",
        f"{' '.join(f'{value:+.0%}' for value in wrong.values())}, median {statistics.median(wrong.values()):+.0%}",
        "within 10 %",
        all(abs(value) <= 0.1 for value in wrong.values()),
    )


def alike(place: Place) -> Iterator[Figure]:
    """A probe through the servers beside one here, in float32."""
    found = llama_server.agreement(place)
    yield Figure(
        "demo pair: positions with the draft's first choice as in a local probe",
        f"{found.alike} of {found.positions}",
        "99.5 %",
        found.alike >= 0.995 * found.positions,
    )
    gaps = ", ".join(f"{gap:.2g}" for gap in found.gaps)
    yield Figure(
        f"demo pair: texts that part do so at near-ties (up to {llama_server.NEAR_TIE:g})",
        f"{len(found.gaps)} of {found.texts} part" + (f", where two logits lie {gaps} apart" if gaps else ""),
        "all",
        max(found.gaps, default=0.0) <= llama_server.NEAR_TIE,
    )


def pairs_in(folder: Path, count: int | None) -> list[Pair]:
    """The real pair in 8 bits, then the demo pair, converted where they are not yet."""
    catalog = load()
    found = []
    for which, name, number, tokens in (
        ("real", "SmolLM2-135M and its first 25 layers, Q8_0", 6, 48),
        ("", "demo pair", 24, 96),
    ):
        place = Place(folder / "build" / "bin", folder / (f"{which}-pair" if which else "pair"), catalog)
        if not (place.pair / "draft.gguf").exists():
            llama_server.convert(folder, place.pair, *([which] if which else []))
        found.append(Pair(name, place, count or number, tokens))
    return found


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--prompts-count", type=int, help="in place of each pair's own number, for a quick look")
    options = parser.parse_args()
    pairs = pairs_in(options.folder.absolute(), options.prompts_count)
    records.run({"llama": partial(llama, pairs)}, options.keep)


if __name__ == "__main__":
    main()
