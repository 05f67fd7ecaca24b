"""Whether a probe through real servers measures what a probe of the same models here does: `make eval-served`.

python scripts/evaluate_served.py ENVIRONMENT [demo sampled real foreign]

All parts where none is named. ENVIRONMENT is one of vLLM for CPUs, as `make eval-served` makes it. Each part starts a
server for every model, runs `draftpick probe` through them and without them, and compares the two traces; then each
side reads the other's text, so that nothing hangs on where two greedy texts part. Exits 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
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
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from bench_probe import DEMO, ROOT, Figure, logit_gaps, table
from test_engines import environment, until_ready

from draftpick.probe import local, result, trace
from draftpick.probe.checks import near_tie
from draftpick.probe.local import LocalModel, Sampling
from draftpick.probe.server import Server, connect
from draftpick.probe.trace import DraftColumns, Row, TraceFile

REAL = ROOT / "build" / "real-pair"
OUT = ROOT / "build" / "eval-served"
LIMIT = 0.995
"""Share of positions with the same greedy matches."""
SAME_RATE = 0.002
"""How far two acceptance rates of the same tokens may lie apart: rounding of the probabilities moves them less."""
BATCH = 8
KS = range(1, 9)
FIRST = result.first_position("vllm")
TOKENS = 96


class Model(NamedTuple):
    """A model of a part, the target first; its name is the folder's."""

    folder: Path
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return self.folder.name


class Models(NamedTuple):
    """What is compared with what."""

    served: Mapping[str, Server]
    here: Mapping[str, LocalModel]

    @property
    def target(self) -> str:
        return next(iter(self.here))

    @property
    def drafts(self) -> list[str]:
        return list(self.here)[1:]


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
    # One thread each: several servers share the machine.
    own = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    begun = time.perf_counter()
    try:
        for model, port in zip(models, ports, strict=True):
            words = ["vllm", "serve", str(model.folder), "--port", str(port), "--dtype", model.dtype]
            words += ["--max-model-len", "1024", "--max-num-seqs", str(BATCH), "--enforce-eager"]
            print(f"  $ {shlex.join(words)}", flush=True)
            with (folder / f"{model.name}.log").open("wb") as log:
                tools = environment(tools=setting.environment) | own
                running.append(subprocess.Popen(words, env=tools, start_new_session=True, stdout=log, stderr=log))
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        for url, server in zip(urls, running, strict=True):
            until_ready(url, server)
        print(f"  ({len(urls)} servers were ready after {time.perf_counter() - begun:.0f} s)", flush=True)
        yield urls
    finally:
        for server in running:
            _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


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


def both(models: Sequence[Model], urls: Sequence[str]) -> Models:
    """The models behind the addresses, and the same loaded here."""
    return Models(
        {
            model.name: connect(url, name=None, called=None, engine=None, width=BATCH)
            for model, url in zip(models, urls, strict=True)
        },
        {
            model.name: local.load(model.folder, id=model.name, device="cpu", dtype=model.dtype)
            for model in models
        },
    )  # fmt: skip


def named(rows: Sequence[Row]) -> list[Row]:
    """Rows with drafts by the names of their folders."""
    return [row._replace(drafts={Path(name).name: columns for name, columns in row.drafts.items()}) for row in rows]


# ---------------------------------------------------------------------- reading each other's text


def read_here(models: Models, rows: Sequence[Row], sampling: Sampling = local.GREEDY) -> list[Row]:
    """The same answers with what the models make of them here."""
    found = []
    heat = sampling.temperature or 1.0
    target, drafts = models.here[models.target], [models.here[name] for name in models.drafts]
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        asked = [row.prompt_ids for row in part], [row.tokens for row in part]
        own, *others = local.read_answers(*asked, drafts, target=target, sampling=sampling, temperatures=(heat,))
        for place, row in enumerate(part):
            readings = {name: those[place] for name, those in zip(models.drafts, others, strict=True)}
            columns = {name: _columns(reading) for name, reading in readings.items()}
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


def read_there(models: Models, rows: Sequence[Row]) -> list[Row]:
    """The same greedy answers with what the servers make of them."""
    found = []
    for row in rows:
        own = models.served[models.target].read(row.prompt_ids, row.tokens)
        columns = {}
        for name in models.drafts:
            reading = models.served[name].read(row.prompt_ids, row.tokens)
            columns[name] = DraftColumns(reading.top, np.exp(reading.top_log_prob), None, {"1": reading.log_prob})
        found.append(row._replace(log_p=own.log_prob, drafts=columns))
    return found


# ---------------------------------------------------------------------- greedy text


class Compared(NamedTuple):
    """What two sides make of the same tokens, a draft's columns joined over answers."""

    same_match: np.ndarray
    same_top: np.ndarray
    gap: np.ndarray
    """How far the first choice lay above the second here, in nats."""
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
        found = (
            (tops[0] == emitted) == (tops[1] == emitted),
            tops[0] == tops[1],
            np.asarray(logit_gaps(model, one)[:length]),
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
    yield Figure(
        f"{model.id}: matches alike on {where}",
        f"{share:.3%} ({alike} of {len(found.gap)}; first choices {found.same_top.mean():.3%})",
        f"{LIMIT:.1%}",
        share >= LIMIT,
    )
    yield _ties("  the others", near_tie(model), found.gap[~found.same_match].tolist())


def lengths_by_k(name: str, where: str, rows: Sequence[Row]) -> Figure:
    """α and τ of every k."""
    found = result.measured(rows, name, 0.0, result.usual(0.0, "vllm"), k_max=max(KS), first=FIRST)
    lengths = " ".join(f"{one.value:.3f}" for one in found.lengths[1:])
    return Figure(f"{name}: α; τ of k = 1…{max(KS)}, {where}", f"{found.rate.value:.4f}; {lengths}")


def greedy(models: Models, served: Sequence[Row], here: Sequence[Row]) -> list[Figure]:
    """All figures of greedy text. `here`: of the probe without servers, in the same order; it may lack drafts."""
    same = [parting(one.tokens, other.tokens) for one, other in zip(served, here, strict=True)]
    served_here, here_there = read_here(models, served), read_there(models, here)
    here_here = read_here(models, here)
    figures = [*texts(models.here[models.target], served, here, same), _of_target(served, served_here)]
    for name in models.drafts:
        model = models.here[name]
        own = compared(model, served, served_here, [len(row.tokens) for row in served])
        other = compared(model, here_there, here_here, [len(row.tokens) for row in here])
        if name in here[0].drafts:
            figures += matches(model, "the text that both wrote", compared(model, served, here, same))
        figures += [*matches(model, "the served text", own), *matches(model, "the text written here", other)]
        figures += [
            _logs(f"{name}: ln q", [own.log_q, other.log_q]),
            _logs(f"{name}: probability of its first choice", [own.top_prob, other.top_prob]),
            lengths_by_k(name, "served", served),
            lengths_by_k(name, "served text read here", served_here),
        ]
        if name in here[0].drafts:
            figures.append(lengths_by_k(name, "here", here))
    return figures


# ---------------------------------------------------------------------- the parts

DEMO_PAIR = (Model(DEMO / "target"), Model(DEMO / "draft"))
DEMO_PROMPTS = ("--prompts", str(DEMO / "prompts.jsonl"), "--max-new-tokens", str(TOKENS))


def demo(setting: Setting, folder: Path) -> list[Figure]:
    """The pair that comes with draftpick, greedy text."""
    with serving(setting, DEMO_PAIR, folder) as urls:
        served = traced(folder / "served.json", *addresses(urls), *DEMO_PROMPTS)
        here = traced(folder / "here.json", *(str(model.folder) for model in DEMO_PAIR), *DEMO_PROMPTS)
        return greedy(both(DEMO_PAIR, urls), *in_order(served, here))


def sampled(setting: Setting, folder: Path) -> list[Figure]:
    """The same pair, sampled text: acceptance by what the servers tell, and by the models here on the same tokens."""
    heats = (1.0, 0.7)
    with serving(setting, DEMO_PAIR, folder) as urls:
        asked = [word for heat in heats for word in ("--temperature", f"{heat:g}")]
        served = named(traced(folder / "served.json", *addresses(urls), *DEMO_PROMPTS, *asked).rows)
        models = both(DEMO_PAIR, urls)
        figures = []
        for heat in heats:
            rows = [row for row in served if row.temperature == heat]
            figures += at_heat(models.drafts[0], heat, rows, read_here(models, rows, Sampling(heat)))
    return figures


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


def real(setting: Setting, folder: Path) -> list[Figure]:
    """SmolLM2-135M: a draft of its first 25 layers, and itself in bfloat16, on the prompts that come with draftpick."""
    copy = folder / "target-bfloat16"
    copy.symlink_to(REAL / "target", target_is_directory=True)
    models = (Model(REAL / "target"), Model(REAL / "draft-25"), Model(copy, "bfloat16"))
    asked = ("--num-prompts", "12", "--max-new-tokens", "64")
    with serving(setting, models, folder) as urls:
        served = traced(folder / "served.json", *addresses(urls), *asked)
        # A probe without servers has one dtype for all.
        here = traced(folder / "here.json", *(str(model.folder) for model in models[:2]), *asked)
        return greedy(both(models, urls), *in_order(served, here))


def in_order(served: TraceFile, here: TraceFile) -> tuple[list[Row], list[Row]]:
    """The answers of both to the same prompts."""
    found = {row.digest: row for row in named(here.rows)}
    rows = named(served.rows)
    return rows, [found[row.digest] for row in rows]


def foreign(setting: Setting, folder: Path) -> list[Figure]:
    """Drafts of another tokenizer, which must be refused by what servers say alone."""
    swapped = swapped_draft(folder / "swapped")
    models = (DEMO_PAIR[0], Model(swapped), Model(REAL / "target"))
    few = ("--num-prompts", "8", "--max-new-tokens", "32")
    with serving(setting, models, folder) as urls:
        return [
            refused("two tokens of its tokenizer swapped", folder / "1.json", [urls[0], urls[1]], few),
            refused("a larger vocabulary", folder / "2.json", [urls[0], urls[2]], few),
            refused("a smaller vocabulary", folder / "3.json", [urls[2], urls[0]], few),
        ]


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


PARTS: Mapping[str, Callable[[Setting, Path], list[Figure]]] = {
    "demo": demo,
    "sampled": sampled,
    "real": real,
    "foreign": foreign,
}


def main() -> int:
    """Run the parts asked for, or all; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path, metavar="ENVIRONMENT")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--port", type=int, default=8150, help="the first of up to three (default: 8150)")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}: take any of {', '.join(PARTS)}")
    missed = 0
    for name in [name for name in PARTS if name in (chosen.parts or PARTS)]:
        begun, folder = time.perf_counter(), OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{name}: {(PARTS[name].__doc__ or '').strip()}", flush=True)
        figures = PARTS[name](Setting(chosen.environment.resolve(), chosen.port), folder)
        print(f"\n{table(figures)}\n  ({time.perf_counter() - begun:.0f} s)\n", flush=True)
        missed += sum(one.reached is False for one in figures)
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
