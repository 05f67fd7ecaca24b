"""Whether a probe through real servers measures what a probe of the same models here does: `make eval-served`.

python scripts/evaluate_served.py ENVIRONMENT [demo sampled real half foreign]

All parts where none is named. ENVIRONMENT is one of vLLM for CPUs, as `make eval-served` makes it. Each part starts a
server for every model, runs `draftpick probe` through them and without them, and compares the two traces; then each
side reads the other's text, so that nothing hangs on where two greedy texts part. Traces and the servers' logs stay in
build/eval-served. Exits 1 where a limit is missed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import records
from bench_probe import DEMO, logit_gaps
from records import ROOT, Figure, Told
from test_engines import environment, until_ready

from draftpick.probing import local, result, trace
from draftpick.probing.checks import near_tie
from draftpick.probing.local import LocalModel, Sampling
from draftpick.probing.server import connect
from draftpick.probing.trace import DraftColumns, Row, TraceFile

REAL = ROOT / "build" / "real-pair"
OUT = ROOT / "build" / "eval-served"
LIMIT = 0.995
"""Share of positions with the same greedy matches."""
SAME_RATE = 0.002
"""How far two acceptance rates of the same tokens may lie apart: rounding of the probabilities moves them less."""
BATCH = 8
KS = range(1, 9)
FIRST = result.first_position("vllm")
KV_BYTES = 96 << 20
Loaded = Mapping[str, LocalModel]
"""By name, the target first."""


class Model(NamedTuple):
    """A model of a part, the target first; its name is the folder's."""

    folder: Path
    dtype: str = "float32"
    options: tuple[str, ...] = ()
    """Of its server."""
    log: str | None = None
    """Name of the server's log, where two have one model."""

    @property
    def name(self) -> str:
        return self.folder.name


class Setting(NamedTuple):
    """Where servers come from and whereto they go."""

    environment: Path
    first_port: int


# ---------------------------------------------------------------------- servers and probes


@contextmanager
def serving(setting: Setting, models: Sequence[Model], folder: Path) -> Iterator[list[str]]:
    """The addresses of servers of these models, which are stopped at the end; their logs lie in `folder`."""
    running: list[subprocess.Popen[bytes]] = []
    ports = range(setting.first_port, setting.first_port + len(models))
    # One thread each, and a small cache: several servers share the machine.
    tools = environment(tools=setting.environment) | {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    del tools["VLLM_CPU_KVCACHE_SPACE"]  # it would stand above the option
    begun = time.perf_counter()
    try:
        for model, port in zip(models, ports, strict=True):
            words = ["vllm", "serve", str(model.folder), "--port", str(port), "--dtype", model.dtype]
            words += ["--max-model-len", "1024", "--max-num-seqs", str(BATCH), "--enforce-eager"]
            words += ["--kv-cache-memory-bytes", str(KV_BYTES), "--max-num-batched-tokens", "512", *model.options]
            print(f"  $ {shlex.join(words)}", flush=True)
            with (folder / f"{model.log or model.name}.log").open("wb") as log:
                running.append(subprocess.Popen(words, env=tools, start_new_session=True, stdout=log, stderr=log))
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        for url, server in zip(urls, running, strict=True):
            until_ready(url, server)
        print(f"  ({len(urls)} servers were ready after {time.perf_counter() - begun:.0f} s)", flush=True)
        yield urls
    finally:
        for server in running:
            _signal(server, signal.SIGTERM)
        for server in running:
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                _signal(server, signal.SIGKILL)


def _signal(server: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To a server with all its workers."""
    if server.poll() is None:
        os.killpg(server.pid, number)


def probe(output: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`draftpick probe` of all prompts without timings; its trace lies beside `output`."""
    words = (*words, "--precision", "0", "--costs", "roofline", "--time-limit", "3600", "-o", str(output))
    print(f"  $ draftpick probe {shlex.join(words)}", flush=True)
    return subprocess.run(
        [sys.executable, "-m", "draftpick", "probe", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )


def traced(output: Path, *words: str) -> TraceFile:
    """The trace of such a probe, which must have measured something."""
    done = probe(output, *words)
    if not output.is_file():
        raise SystemExit(f"the probe ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return trace.read(output.with_suffix(".trace.jsonl"))


def addresses(urls: Sequence[str]) -> list[str]:
    """The options that name servers, the target's first."""
    return ["--target-url", urls[0], *(word for url in urls[1:] for word in ("--draft-url", url))]


def loaded(models: Sequence[Model]) -> Loaded:
    """The same models here."""
    return {model.name: local.load(model.folder, id=model.name, device="cpu", dtype=model.dtype) for model in models}


def named(rows: Sequence[Row]) -> list[Row]:
    """Rows in one order, whichever answer came first, with drafts by the names of their folders."""
    return [
        row._replace(drafts={Path(name).name: columns for name, columns in row.drafts.items()})
        for row in sorted(rows, key=lambda row: (row.digest, row.temperature))
    ]


# ---------------------------------------------------------------------- reading each other's text


def read_here(models: Loaded, rows: Sequence[Row], sampling: Sampling = local.GREEDY) -> list[Row]:
    """The same answers with what the models make of them here."""
    found = []
    heat = sampling.temperature or 1.0
    target, *drafts = models.values()
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        asked = [row.prompt_ids for row in part], [row.tokens for row in part]
        own, *others = local.read_answers(*asked, drafts, target=target, sampling=sampling, temperatures=(heat,))
        for place, row in enumerate(part):
            columns = {draft.id: _columns(readings[place]) for draft, readings in zip(drafts, others, strict=True)}
            found.append(row._replace(log_p=own[place].log_prob[sampling.temperature].tolist(), drafts=columns))
    return found


def _columns(reading: local.Reading) -> DraftColumns:
    known = reading.target_prob_of_top
    return DraftColumns(
        reading.top.tolist(),
        reading.top_prob.tolist(),
        known.tolist() if known is not None else None,
        {f"{heat:g}": column.tolist() for heat, column in reading.log_prob.items()},
        {f"{heat:g}": column.tolist() for heat, column in reading.overlap.items()},
    )


def read_there(models: Sequence[Model], urls: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """The same greedy answers with what the servers of the drafts make of them."""
    servers = {
        model.name: connect(url, name=None, called=None, engine=None, width=BATCH)
        for model, url in zip(models[1:], urls[1:], strict=True)
    }
    found = []
    for row in rows:
        ended = row.ended == "stop"
        readings = {name: server.read(row.prompt_ids, row.tokens, ended=ended) for name, server in servers.items()}
        found.append(
            row._replace(
                drafts={
                    name: DraftColumns(one.top, np.exp(one.top_log_prob), None, {"1": one.log_prob})
                    for name, one in readings.items()
                }
            )
        )
    return found


# ---------------------------------------------------------------------- greedy text


class Compared(NamedTuple):
    """What two sides make of the same tokens, a draft's columns joined over answers."""

    same_match: np.ndarray
    same_top: np.ndarray
    gap: np.ndarray
    """How far the first choice lay above the second here, in nats, where the match is not the same."""
    log_q: np.ndarray
    top_prob: np.ndarray
    """Absolute differences."""


def compared(model: LocalModel, served: Sequence[Row], here: Sequence[Row], lengths: Sequence[int]) -> Compared:
    """The first so many positions of each answer."""
    parts: list[list[np.ndarray]] = [[] for _ in Compared._fields]
    for one, other, length in zip(served, here, lengths, strict=True):
        left, right = one.drafts[model.id], other.drafts[model.id]
        tops = [np.asarray(columns.top[:length]) for columns in (left, right)]
        emitted = np.asarray(one.tokens[:length])
        alike = (tops[0] == emitted) == (tops[1] == emitted)
        found = (
            alike,
            tops[0] == tops[1],
            np.asarray(logit_gaps(model, one)[:length])[~alike] if not alike.all() else np.zeros(0),
            _apart(left.log_q["1"], right.log_q["1"], length),
            _apart(left.top_prob, right.top_prob, length),
        )
        for column, values in zip(parts, found, strict=True):
            column.append(values)
    return Compared(*(np.concatenate(column) for column in parts))


def _apart(one: Sequence[float], other: Sequence[float], length: int) -> np.ndarray:
    return np.abs(np.subtract(one[:length], other[:length]))


def parting(one: Sequence[int], other: Sequence[int]) -> int:
    """Where two texts begin to differ; the length of the shorter where they do not before."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def texts(target: LocalModel, served: Sequence[Row], here: Sequence[Row], lengths: Sequence[int]) -> list[Figure]:
    """Whether the target wrote the same on both sides, and if not, how near to a tie it did not."""
    near = near_tie(target)
    pairs = list(zip(served, here, lengths, strict=True))
    same_ids = sum(list(one.prompt_ids) == list(other.prompt_ids) for one, other, _ in pairs)
    apart = [
        max(_gap(one, length), _gap(other, length))
        for one, other, length in pairs
        if list(one.tokens) != list(other.tokens)
    ]
    return [
        Figure("prompts with the same ids", f"{same_ids} of {len(here)}", "all", same_ids == len(here)),
        Figure("answers with the same text", f"{len(here) - len(apart)} of {len(here)}"),
        Figure("tokens until the texts part", f"{sum(lengths)} of {sum(len(row.tokens) for row in here)}"),
        _ties("texts that part do so", near, apart),
    ]


def _gap(row: Row, place: int) -> float:
    """How far the target's first choice lay above its second; infinite where the answer had ended."""
    return row.gap[place] if row.gap is not None and place < len(row.gap) else np.inf


def _ties(what: str, near: float, apart: Sequence[float]) -> Figure:
    """Whether differences are a matter of rounding: how near the two best logits lay at each of them."""
    tied = sum(gap <= near for gap in apart)
    shown = f": the two best logits lie {', '.join(f'{gap:.2g}' for gap in sorted(apart)[-12:])} apart" if apart else ""
    return Figure(f"{what} at near-ties (up to {near:g})", f"{tied} of {len(apart)}{shown}", "all", tied == len(apart))


def _logs(what: str, apart: Sequence[np.ndarray]) -> Figure:
    values = np.concatenate(apart)
    return Figure(f"{what}, how far apart", f"at most {values.max():.2g}, median {np.median(values):.2g}")


def _of_target(served: Sequence[Row], here: Sequence[Row]) -> Figure:
    pairs = zip(served, here, strict=True)
    return _logs(
        "target: ln p of the served text", [_apart(a.log_p or (), b.log_p or (), len(a.tokens)) for a, b in pairs]
    )


def matches(model: LocalModel, where: str, found: Compared) -> Iterator[Figure]:
    """How many positions are matched alike, and whether those that are not lie at near-ties of the draft."""
    share, alike = float(found.same_match.mean()), int(found.same_match.sum())
    # In half precision exact ties alone are one position in a hundred: there it only counts that all others are ties.
    judged = model.dtype == "float32"
    yield Figure(
        f"{model.id}: matches alike on {where}",
        f"{share:.3%} ({alike} of {len(found.same_match)}; first choices {found.same_top.mean():.3%})",
        f"{LIMIT:.1%}" if judged else "",
        share >= LIMIT if judged else None,
    )
    yield _ties("  the others", near_tie(model), found.gap.tolist())


def lengths_by_k(name: str, where: str, rows: Sequence[Row]) -> Figure:
    """α and τ of every k."""
    found = result.measured(rows, name, 0.0, result.usual(0.0, "vllm"), k_max=max(KS), first=FIRST)
    lengths = " ".join(f"{one.value:.3f}" for one in found.lengths[1:])
    return Figure(f"{name}: α; τ of k = 1…{max(KS)}, {where}", f"{found.rate.value:.4f}; {lengths}")


def greedy(setting: Setting, folder: Path, models: Sequence[Model], *asked: str) -> list[Figure]:
    """All figures of greedy text: measured here, through servers, and each side's text as the other reads it."""
    here = named(traced(folder / "here.json", *(str(model.folder) for model in models), *asked).rows)
    with serving(setting, models, folder) as urls:
        served = named(traced(folder / "served.json", *addresses(urls), *asked).rows)
        here_there = read_there(models, urls, here)
    assert [row.digest for row in served] == [row.digest for row in here], "both used all prompts"
    ours = loaded(models)
    served_here = read_here(ours, served)
    same = [parting(one.tokens, other.tokens) for one, other in zip(served, here, strict=True)]
    target, *drafts = ours.values()
    figures = [*texts(target, served, here, same), _of_target(served, served_here)]
    for draft in drafts:
        figures += [
            *matches(draft, "the text that both wrote", compared(draft, served, here, same)),
            *matches(draft, "the text written here", compared(draft, here_there, here, whole(here))),
            *reading(draft, served, served_here),
            lengths_by_k(draft.id, "here", here),
        ]
    return figures


def reading(draft: LocalModel, served: Sequence[Row], served_here: Sequence[Row]) -> Iterator[Figure]:
    """What a draft makes of the served text, behind a server and here."""
    found = compared(draft, served, served_here, whole(served))
    yield from matches(draft, "the served text", found)
    yield _logs(f"{draft.id}: ln q", [found.log_q])
    yield _logs(f"{draft.id}: probability of its first choice", [found.top_prob])
    yield lengths_by_k(draft.id, "served", served)
    yield lengths_by_k(draft.id, "served text read here", served_here)


def whole(rows: Sequence[Row]) -> list[int]:
    return [len(row.tokens) for row in rows]


# ---------------------------------------------------------------------- the parts

DEMO_PAIR = (Model(DEMO / "target"), Model(DEMO / "draft"))
DEMO_PROMPTS = ("--prompts", str(DEMO / "prompts.jsonl"), "--max-new-tokens", "96")


def fresh(name: str) -> Path:
    """An empty folder for a part."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def demo(setting: Setting) -> Told:
    """The pair that comes with draftpick, greedy text."""
    return Told(greedy(setting, fresh("demo"), DEMO_PAIR, *DEMO_PROMPTS))


def sampled(setting: Setting) -> Told:
    """The same pair, sampled text: acceptance by what the servers tell, and by the models here on the same tokens."""
    heats, folder = (1.0, 0.7), fresh("sampled")
    asked = [word for heat in heats for word in ("--temperature", f"{heat:g}")]
    with serving(setting, DEMO_PAIR, folder) as urls:
        served = named(traced(folder / "served.json", *addresses(urls), *DEMO_PROMPTS, *asked).rows)
    models = loaded(DEMO_PAIR)
    figures: list[Figure] = []
    for heat in heats:
        rows = [row for row in served if row.temperature == heat]
        figures += at_heat(DEMO_PAIR[1].name, heat, rows, read_here(models, rows, Sampling(heat)))
    return Told(figures)


def at_heat(draft: str, heat: float, served: Sequence[Row], here: Sequence[Row]) -> Iterator[Figure]:
    """Acceptance rates of one temperature in every way that the servers tell enough for."""
    for way in result.measurable(served, draft, heat):
        # By the very numbers that a server gives, and by the whole distributions that only a model here shows.
        alike = [row._replace(drafts={draft: _as_served(row.drafts[draft])}) for row in here]
        rates = [result.measured(rows, draft, heat, way, k_max=max(KS), first=FIRST) for rows in (served, alike, here)]
        there, same, full = (one.rate for one in rates)
        pairs = zip(rates[0].lengths, rates[1].lengths, strict=True)
        apart = max(abs(one.value - other.value) for one, other in pairs)
        yield Figure(
            f"T = {heat:g}, {way.name} ({len(served)} answers)",
            f"{there.value:.4f} served, {same.value:.4f} read here, {full.value:.4f} [{full.low:.4f}, {full.high:.4f}] "
            f"by the whole distributions; τ at most {apart:.4f} apart",
            f"{SAME_RATE:g} apart",
            abs(there.value - same.value) <= SAME_RATE,
        )
    if served[0].log_p is not None:
        yield _of_target(served, here)


def _as_served(columns: DraftColumns) -> DraftColumns:
    return columns._replace(target_prob_of_top=None, overlap={})


def real(setting: Setting) -> Told:
    """SmolLM2-135M and a draft of its first 25 layers, on the first prompts that come with draftpick, greedy text."""
    models = (Model(REAL / "target"), Model(REAL / "draft-25"))
    return Told(greedy(setting, fresh("real"), models, "--num-prompts", "12", "--max-new-tokens", "64"))


def half(setting: Setting) -> Told:
    """SmolLM2-135M and itself in bfloat16, which each software rounds in its own way."""
    folder = fresh("half")
    copy = folder / "target-bfloat16"
    copy.symlink_to(REAL / "target", target_is_directory=True)
    models = (Model(REAL / "target"), Model(copy, "bfloat16"))
    with serving(setting, models, folder) as urls:
        asked = ("--num-prompts", "12", "--max-new-tokens", "64")
        served = named(traced(folder / "served.json", *addresses(urls), *asked).rows)
    ours = loaded(models)
    again = read_here(ours, served)
    return Told([_of_target(served, again), *reading(ours[copy.name], served, again)])


def foreign(setting: Setting) -> Told:
    """Drafts of another tokenizer, which must be refused by what servers say alone."""
    folder = fresh("foreign")
    swapped = swapped_draft(folder / "swapped")
    models = (DEMO_PAIR[0], Model(swapped), Model(REAL / "target"))
    few = ("--prompts", str(DEMO / "prompts.jsonl"), "--num-prompts", "8", "--max-new-tokens", "32")
    with serving(setting, models, folder) as urls:
        return Told(
            [
                refused("two tokens of its tokenizer swapped", folder / "1.json", [urls[0], urls[1]], few),
                refused("a larger vocabulary", folder / "2.json", [urls[0], urls[2]], few),
                refused("a smaller vocabulary", folder / "3.json", [urls[2], urls[0]], few),
            ]
        )


def swapped_draft(folder: Path) -> Path:
    """The demo draft with the ids of its two commonest words changed for each other."""
    shutil.copytree(DEMO / "draft", folder)
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    words = value["model"]["vocab"]
    words["Ġthe"], words["Ġa"] = words["Ġa"], words["Ġthe"]
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return folder


def refused(what: str, output: Path, urls: Sequence[str], words: Sequence[str]) -> Figure:
    """What the probe says of a draft that does not fit."""
    done = probe(output, *addresses(urls), *words)
    said = " ".join(line.strip() for line in done.stderr.splitlines() if not line.startswith("asking"))
    return Figure(f"draft with {what}", f"exit {done.returncode}: {said[-400:]}", "exit 3", done.returncode == 3)


PARTS: Mapping[str, Callable[[Setting], Told]] = {
    "demo": demo,
    "sampled": sampled,
    "real": real,
    "half": half,
    "foreign": foreign,
}


def main() -> int:
    """Run the parts asked for, or all; 1 where a limit is missed."""
    parser = records.parser(__doc__)
    parser.add_argument("environment", type=Path, metavar="ENVIRONMENT")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--port", type=int, default=8150, help="the first of up to three (default: 8150)")
    options = parser.parse_args()
    # So that servers end with this process whoever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setting = Setting(options.environment.resolve(), options.port)
    parts = records.chosen(parser, options.parts, list(PARTS))
    found = records.run({name: partial(PARTS[name], setting) for name in parts}, None)
    if options.keep is not None:
        records.keep(options.keep, records.joined("served", found))
    return 1 if any(figure.reached is False for one in found for figure in one.told.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
