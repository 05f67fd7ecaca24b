"""The probe against the real thing, on a small real pair: what was seen, the limit, and whether it holds.

python scripts/bench_probe.py [exactness sampling cost coverage prediction choice memory]

All parts where none is named. `--target`, `--draft` and `--prompts` take another pair, `--prompts-count` so many
prompts in every part instead of its own number, for a quick look. Timings mean something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import records
from records import ROOT, Figure, Told

from draftpick import intervals, replay
from draftpick.catalog import load
from draftpick.choices import PROBE
from draftpick.intervals import Sums, ratio_interval
from draftpick.probing import checks, device, local, prompts, result, timing
from draftpick.probing.local import GREEDY, LocalModel, Sampling
from draftpick.probing.outcome import Costs, ModelFiles, Outcome, Request
from draftpick.probing.prompts import Prompt
from draftpick.probing.result import Budget
from draftpick.probing.run import Probe
from draftpick.probing.trace import Row
from draftpick.replay import GREEDY_DRAFT, Acceptance
from draftpick.speedup import Interval

if TYPE_CHECKING:
    import torch

DEMO = ROOT / "catalog" / "demo"
CACHE = ROOT / "build" / "bench-probe"
KS = range(1, 9)
TOKENS = int(PROBE["max-new-tokens"])
BATCH = int(PROBE["batch-size"])
FIRST = result.first_position("transformers")


def _say(said: str) -> None:
    print(f"  {said}", file=sys.stderr, flush=True)


class Bench:
    """The pair, its prompts, and what several parts share."""

    def __init__(
        self, target: Path, draft: Path, prompts_file: Path, count: int | None, scratch: Path, rounds: int
    ) -> None:
        self.target_folder, self.draft_folder, self.scratch, self.rounds = target, draft, scratch, rounds
        self._count = count
        self._given = prompts.read(prompts_file)
        self._runs = 0

    def prompts(self, number: int) -> list[Prompt]:
        """So many prompts: those of the file first, then what can be made of them and of the standard library."""
        wanted = self._count or number
        return self._given[:wanted] if wanted <= len(self._given) else self._pool[:wanted]

    @cached_property
    def _pool(self) -> list[Prompt]:
        return pool(self._given)

    def probe(
        self, asked: Sequence[Prompt], *, trace: Path | None = None, drafts: int = 1, **request: Any
    ) -> tuple[Probe, Outcome]:
        """A probe of all these prompts; without timings unless they are asked for."""
        running = self.ready(asked, trace=trace, drafts=drafts, **request)
        return running, running.run()

    def ready(self, asked: Sequence[Prompt], *, trace: Path | None = None, drafts: int = 1, **request: Any) -> Probe:
        """The same, loaded and not run yet."""
        self._runs += 1
        files = [ModelFiles(name, folder, {"id": name}) for name, folder in self._named(drafts)]
        options = {"times_passes": False, "max_new_tokens": TOKENS, **request}
        return Probe(
            Request(
                files[0],
                files[1:],
                asked,
                trace or self.scratch / f"{self._runs}.trace.jsonl",
                load(),
                resume=trace is not None,
                budget=Budget(len(asked), 0.0, most_prompts=len(asked), fixed=True),
                **options,
            ),
            say=_say,
        )

    def _named(self, drafts: int) -> list[tuple[str, Path]]:
        return [("target", self.target_folder), *((f"draft-{n + 1}", self.draft_folder) for n in range(drafts))]

    def cache(self, asked: Sequence[Prompt], *facts: object) -> Path:
        """A trace file of these very models and prompts, kept between runs."""
        whole = hashlib.sha256(f"{prompts.digest(asked)}\0{facts}\0{timing.software()}".encode())
        whole.update(inspect.getsource(local).encode())
        for folder in (self.target_folder, self.draft_folder):
            for path in sorted(folder.iterdir()):
                if path.suffix in (".json", ".safetensors"):
                    whole.update(path.read_bytes())
        CACHE.mkdir(parents=True, exist_ok=True)
        return CACHE / f"{whole.hexdigest()[:24]}.trace.jsonl"

    @cached_property
    def sweep(self) -> Sweep:
        """transformers' own generation with every k, for the prediction and for the choice."""
        return swept(self)


# ---------------------------------------------------------------------- prompts


def pool(given: Sequence[Prompt]) -> list[Prompt]:
    """The prompts, shorter cuts of them, and beginnings of functions and docstrings of the standard library."""
    found = {prompt.text: prompt for prompt in given}
    for share in (0.7, 0.45):
        for prompt in given:
            text = prompt.text[: prompt.text.rfind(" ", 0, int(len(prompt.text) * share) + 1)].rstrip()
            if len(text) >= 20:
                found.setdefault(text, prompt._replace(id=f"{prompt.id}-{share}", text=text))
    for prompt in _from_library(160):
        found.setdefault(prompt.text, prompt)
    return list(found.values())


def _from_library(each: int) -> Iterator[Prompt]:
    """As many beginnings of functions as of docstrings, scattered over the files."""
    code: dict[str, str] = {}
    prose: dict[str, str] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        lines = source.splitlines()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            name = f"{path.stem}-{node.name}-{node.lineno}"
            begun = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.lineno + 3])).rstrip()
            said = " ".join((ast.get_docstring(node) or "").split()[:18])
            if 60 <= len(begun) <= 400:
                code[name] = begun
            if 60 <= len(said) <= 400:
                prose[name] = said
    for domain, texts in (("code", code), ("prose", prose)):
        scattered = sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest())
        for name in scattered[:each]:
            yield Prompt(f"{domain}-{name}", texts[name], domain, "en")


# ---------------------------------------------------------------------- 1. exactness


def exactness(bench: Bench) -> Told:
    """Greedy: transformers' assisted loop must take the steps that the replay counted, on the same text."""
    probe, outcome = bench.probe(bench.prompts(24))
    draft = probe.drafts[0]
    replayed = replay.replay(outcome.measured()[0].trace, ks=list(KS))
    predicted = {k: dict(zip(one.prompts, one.visible_steps.tolist(), strict=True)) for k, one in replayed.items()}
    same_text = same_steps = number = steps = 0
    notes = []
    for k in KS:
        for row in outcome.rows:
            run = timing.run_assisted(probe.target, draft, row.prompt_ids, TOKENS, k)
            expected = round(predicted[k][row.prompt])
            number, steps = number + 1, steps + run.steps
            same_text += run.tokens == row.tokens
            same_steps += run.steps == expected
            if run.tokens != row.tokens or run.steps != expected:
                notes.append(_difference(probe, row, run, k, expected))
    return Told(
        [
            Figure("runs with exactly the replayed steps", f"{same_steps} of {number}", "all", same_steps == number),
            Figure("runs with the same text", f"{same_text} of {number}", "all", same_text == number),
            Figure("steps, all runs together", f"{steps}, replayed {sum(_total(predicted))}"),
        ],
        notes,
    )


def _total(predicted: Mapping[int, Mapping[str, float]]) -> Iterator[int]:
    yield from (round(steps) for by_prompt in predicted.values() for steps in by_prompt.values())


def _difference(probe: Probe, row: Row, run: timing.Run, k: int, expected: int) -> str:
    """What differs, and how near to a tie it happened."""
    said = f"{row.prompt}, k = {k}: {run.steps} steps, replayed {expected}"
    pairs = zip(run.tokens, row.tokens, strict=False)
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    if place is not None and row.gap is not None:
        alone = logit_gaps(probe.target, row)[place]
        return (
            f"{said}; the texts part at token {place + 1}: the target's two best logits lie {row.gap[place]:.2g} "
            f"apart ({alone:.2g} in a pass of the whole text)"
        )
    if place is None and len(run.tokens) != len(row.tokens):
        return f"{said}; {len(run.tokens)} tokens, {len(row.tokens)} in the trace"
    gaps = logit_gaps(probe.drafts[0], row)
    return f"{said}; the same text; the draft's two best logits lie {min(gaps):.2g} apart at the nearest"


def logit_gaps(model: LocalModel, row: Row) -> list[float]:
    """First choice's logit over the second's at each token, in one pass of the whole text."""
    import torch

    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([[*row.prompt_ids, *row.tokens]])).logits[0].float()
    best = logits[len(row.prompt_ids) - 1 : -1].topk(2, dim=-1).values
    found: list[float] = (best[:, 0] - best[:, 1]).tolist()
    return found


# ---------------------------------------------------------------------- 2. sampling

SAMPLED_TOKENS = 48
SHORT = 80
"""Characters of a prompt: the simulation reads the whole text at every step."""
SAMPLED_KS = (1, 4, 8)
HEATS = (1.0, 0.7)
REPLAY_SEEDS = 2
ENOUGH = 0.03
"""Half-width of the interval of a loop's mean over its mean."""
LEAST_RUNS = 64
MOST_SEEDS = 2

Loop = Callable[[Sequence[Row], int], "list[tuple[int, int]]"]
"""Prompts and a seed → tokens and steps of each answer."""


class Case(NamedTuple):
    """A real or simulated loop, and the rule of the replay that speaks of it."""

    name: str
    loop: Loop
    rule: Acceptance


def sampling(bench: Bench) -> Told:
    """Sampled: transformers' own loop, and two loops written down plainly here, against the replay."""
    cut = {prompt.text[:SHORT].rstrip(): prompt for prompt in bench.prompts(480)}
    asked = [prompt._replace(text=text) for text, prompt in cut.items()]
    heats = [Sampling(heat) for heat in HEATS]
    texts = [
        bench.probe(asked, samplings=heats, seed=seed, max_new_tokens=SAMPLED_TOKENS, batch_size=32)
        for seed in range(REPLAY_SEEDS)
    ]
    probe = texts[0][0]
    rows = [row for _, outcome in texts for row in outcome.rows]
    first = list({row.prompt: row for row in rows}.values())
    figures = []
    for heat in HEATS:
        for k in SAMPLED_KS:
            for case in _cases(probe, heat, k):
                measured = until_sure(case.loop, first)
                way = result.Drafts(case.name, case.rule, "sampled")
                found = result.measured(rows, "draft-1", heat, way, k_max=k, first=FIRST)
                figures.append(_beside(f"T = {heat:g}, k = {k}: {case.name}", measured, found.by_k[k].visible))
                _say(f"{figures[-1].what}: {figures[-1].seen}")
    return Told(
        figures,
        [
            "Tokens per step over whole answers, with the 95 % interval of the loop over prompts. In brackets the "
            "replay over the loop, paired by prompt, with its interval: the sharper comparison.",
            "One in twenty such intervals misses by chance.",
        ],
    )


def _cases(probe: Probe, heat: float, k: int) -> Iterator[Case]:
    target, draft = probe.target, probe.drafts[0]
    yield Case(
        "transformers do_sample",
        partial(_assisted, target, draft, heat, k),
        Acceptance(sampled=True, draft_temperature=float(f"{heat * heat:g}")),
    )
    yield Case("simulated, first-choice draft", partial(simulate, target, draft, heat, k, False), GREEDY_DRAFT)
    if k > 1:  # a block of one token is verified as any token
        yield Case(
            "simulated, block verification",
            partial(simulate, target, draft, heat, k, True),
            Acceptance(sampled=True, draft_temperature=heat, block=True),
        )


def _beside(what: str, measured: Sums, replayed: Sums) -> Figure:
    measured, replayed = measured.common(replayed)
    seen = _surely(ratio_interval(measured))
    expected, quotient = replayed.ratio, _surely(intervals.paired_quotient(replayed, measured))
    return Figure(
        f"{what} ({len(measured.prompts)} prompts)",
        f"{seen.value:.3f} [{seen.low:.3f}, {seen.high:.3f}], replayed {expected:.3f} "
        f"({quotient.value - 1:+.1%} [{quotient.low - 1:+.1%}, {quotient.high - 1:+.1%}])",
        "inside",
        seen.low <= expected <= seen.high,
    )


def _surely(found: Interval | None) -> Interval:
    assert found is not None, "something was counted"
    return found


def until_sure(loop: Loop, rows: Sequence[Row]) -> Sums:
    """Tokens and steps by prompt, prompts and then seeds, until the mean is known well enough or all were used."""
    counted: dict[str, list[float]] = {}
    domains = {row.prompt: row.domain for row in rows}
    runs = 0
    for seed in range(MOST_SEEDS):
        for start in range(0, len(rows), 32):
            part = rows[start : start + 32]
            for row, (tokens, steps) in zip(part, loop(part, seed * len(rows) + start), strict=True):
                before = counted.setdefault(row.prompt, [0.0, 0.0])
                before[0], before[1] = before[0] + tokens, before[1] + steps
            runs += len(part)
            table = np.array(list(counted.values()))
            sums = Sums(tuple(counted), tuple(domains[name] for name in counted), table[:, 0], table[:, 1])
            known = _surely(ratio_interval(sums))
            if runs >= LEAST_RUNS and known.high - known.value <= ENOUGH * known.value:
                return sums
    return sums


def _assisted(
    target: LocalModel, draft: LocalModel, heat: float, k: int, part: Sequence[Row], seed: int
) -> list[tuple[int, int]]:
    """transformers' own loop."""
    import torch

    torch.manual_seed(seed)
    runs = [
        timing.run_assisted(target, draft, row.prompt_ids, SAMPLED_TOKENS, k, do_sample=True, temperature=heat)
        for row in part
    ]
    return [(len(run.tokens), run.steps) for run in runs]


def simulate(
    target: LocalModel, draft: LocalModel, heat: float, k: int, block: bool, part: Sequence[Row], seed: int
) -> list[tuple[int, int]]:
    """A speculative loop as it stands in the papers, without a cache; answers side by side only to save time.

    `block`: the draft samples and the block is verified as a whole (Sun et al. 2024, arXiv 2403.10444, algorithm 2);
    otherwise it proposes its first choice.
    """
    import torch

    chance = torch.Generator().manual_seed(seed)
    verify = _verify_block if block else _verify_first_choice
    texts = [list(row.prompt_ids) for row in part]
    ends = [len(text) + SAMPLED_TOKENS for text in texts]
    steps = [0] * len(texts)
    going = list(range(len(texts)))
    with torch.inference_mode():
        while going:
            drafted = [list(texts[place]) for place in going]
            q = torch.zeros((len(going), k, draft.vocab_size))
            for position in range(k):
                q[:, position] = (_last_logits(draft, drafted, 1)[:, 0] / heat).softmax(-1)
                chosen = torch.multinomial(q[:, position], 1, generator=chance)[:, 0] if block else None
                chosen = q[:, position].argmax(-1) if chosen is None else chosen
                for text, token in zip(drafted, chosen.tolist(), strict=True):
                    text.append(token)
            p = (_last_logits(target, drafted, k + 1) / heat).softmax(-1)
            for number, place in enumerate(going):
                block_of = drafted[number][-k:]
                accepted, last = verify(p[number], q[number], block_of, chance)
                steps[place] += 1
                _emit(texts[place], [*block_of[:accepted], last], ends[place], target.eos_ids)
            going = [p for p in going if len(texts[p]) < ends[p] and texts[p][-1] not in target.eos_ids]
    return [(len(text) - len(row.prompt_ids), step) for text, row, step in zip(texts, part, steps, strict=True)]


def _emit(text: list[int], tokens: Sequence[int], end: int, eos: Sequence[int]) -> None:
    for token in tokens:
        if len(text) < end:
            text.append(token)
        if token in eos:
            return


def _last_logits(model: LocalModel, texts: Sequence[Sequence[int]], count: int) -> torch.Tensor:
    """[text, count, token]: behind the last `count` positions. Padding on the right: no position before it sees it."""
    import torch

    longest = max(len(text) for text in texts)
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    logits = model.model(input_ids=ids, use_cache=False).logits.float()
    places = torch.tensor([[len(text) - count + place for place in range(count)] for text in texts])
    return logits[torch.arange(len(texts))[:, None], places]


def _verify_first_choice(
    p: torch.Tensor, q: torch.Tensor, block: Sequence[int], chance: torch.Generator
) -> tuple[int, int]:
    """Accept y with p(y); else draw from p without y."""
    import torch

    for place, token in enumerate(block):
        if float(torch.rand((), generator=chance)) >= float(p[place, token]):
            rest = p[place].clone()
            rest[token] = 0.0
            return place, int(torch.multinomial(rest, 1, generator=chance))
    return len(block), int(torch.multinomial(p[-1], 1, generator=chance))


def _verify_block(p: torch.Tensor, q: torch.Tensor, block: Sequence[int], chance: torch.Generator) -> tuple[int, int]:
    """The longest beginning whose own test passes; then draw from what is left of p there."""
    import torch

    kept, weights = 0, [1.0]
    for i, token in enumerate(block, start=1):
        weights.append(min(1.0, weights[-1] * float(p[i - 1, token] / q[i - 1, token])))
        bound = weights[-1]
        if i < len(block):
            left = float((weights[-1] * p[i] - q[i]).clamp(min=0).sum())
            bound = left / (left + 1 - weights[-1]) if left > 0 else 0.0
        if float(torch.rand((), generator=chance)) < bound:
            kept = i
    rest = p[kept] if kept == len(block) else (weights[kept] * p[kept] - q[kept]).clamp(min=0)
    # Where p = q nothing is left but rounding.
    return kept, int(torch.multinomial(rest if float(rest.sum()) > 0 else p[kept], 1, generator=chance))


# ---------------------------------------------------------------------- 3. cost

ROUNDS = 5


def cost(bench: Bench) -> Told:
    """What measuring costs, beside a sweep of transformers over k and beside the least that any way must spend."""
    asked = bench.prompts(16)
    probe, outcome = bench.probe(asked, times_passes=True)
    target, draft = probe.target, probe.drafts[0]
    second = local.load(bench.draft_folder, id="draft-2", device="cpu", dtype=None)
    ids = [list(row.prompt_ids) for row in outcome.rows]
    jobs = {
        "one draft": partial(acceptance_part, target, [draft], ids),
        "floor": partial(floor, target, draft, ids),
        "two drafts": partial(acceptance_part, target, [draft, second], ids),
        "whole": lambda: None,
    }
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(ROUNDS + 1):
        # Loaded outside of the clock.
        whole = bench.ready(asked)
        jobs["whole"] = whole.run
        for name, job in jobs.items():
            begun = time.perf_counter()
            job()
            if turn:
                spent[name].append(time.perf_counter() - begun)
    sweep = sum(timing.run_assisted(target, draft, prompt, TOKENS, k).seconds for k in KS for prompt in ids)
    entire = sum(outcome.seconds.values())
    one, least, two, run = (statistics.median(spent[name]) for name in ("one draft", "floor", "two drafts", "whole"))
    tokens = sum(len(row.tokens) for row in outcome.rows)
    failed = sum(not check.passed for check in outcome.checks)
    return Told(
        [
            Figure(f"sweep of transformers over k = 1…8, {len(ids)} prompts, {tokens} tokens", f"{sweep:.2f} s"),
            Figure("acceptance part, all k at once", f"{one:.3f} s, 1/{sweep / one:.1f}", "1/8", one <= sweep / 8),
            Figure("over its floor", f"{one / least:.2f} × {least:.3f} s", "1.30", one <= 1.3 * least),
            Figure("a second draft adds", f"{two / one - 1:+.1%}", "20 %", two <= 1.2 * one),
            Figure("the probe's run without timings", f"{run:.3f} s, 1/{sweep / run:.1f}"),
            Figure(
                "the whole probe, loading, self-checks and step times too",
                f"{entire:.2f} s, 1/{sweep / entire:.1f}",
                "the sweep",
                entire <= sweep,
            ),
            *(Figure(f"the whole probe: {name}", f"{taken:.2f} s") for name, taken in outcome.seconds.items()),
            Figure("its self-checks", f"{len(outcome.checks)}, {failed} failed"),
        ],
        [
            f"Medians of {ROUNDS} rounds, by turns, models loaded before; the sweep ran once, without loading, without "
            "plain generation to compare with.",
            "The probe's run without timings has a target's pass over the first batch (a self-check), the trace on the "
            "disk and the figures after every batch too.",
            *_quartiles(spent),
        ],
    )


def _quartiles(spent: Mapping[str, Sequence[float]]) -> Iterator[str]:
    for name, values in spent.items():
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        yield f"{name}: quartiles {low:.3f} {middle:.3f} {high:.3f} s"


def acceptance_part(target: LocalModel, drafts: Sequence[LocalModel], ids: Sequence[Sequence[int]]) -> None:
    """What the probe does for acceptance: text in batches, one pass of each draft, every k replayed."""
    found: dict[str, list[replay.Answer]] = {draft.id: [] for draft in drafts}
    for part in _parts(ids):
        written = local.generate(target, part, GREEDY, TOKENS)
        readings = local.read_answers(part, [answer.tokens for answer in written], drafts)
        for draft, those in zip(drafts, readings, strict=True):
            for answer, reading in zip(written, those, strict=True):
                tokens = np.asarray(answer.tokens, np.int64)
                found[draft.id].append(replay.Answer(str(len(found[draft.id])), tokens, reading.top, reading.top_prob))
    for answers in found.values():
        trace = replay.Trace(tuple(answers), first=FIRST)
        replay.acceptance_rate(trace)
        replay.replay(trace, ks=[0, *KS])


def floor(target: LocalModel, draft: LocalModel, ids: Sequence[Sequence[int]]) -> None:
    """The least: transformers' own generation in batches, and one plain pass of the draft over what it gave."""
    import torch
    from transformers import GenerationConfig

    eos = list(target.eos_ids)
    config = GenerationConfig(
        max_new_tokens=TOKENS, do_sample=False, eos_token_id=eos or None, pad_token_id=eos[0] if eos else 0
    )
    with torch.inference_mode():
        for part in _parts(ids):
            width = max(len(prompt) for prompt in part)
            padded = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in part])
            mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in part])
            text = target.model.generate(padded, attention_mask=mask, generation_config=config)
            whole = torch.cat([mask, torch.ones_like(text[:, width:])], dim=1)
            draft.model(input_ids=text, attention_mask=whole)


def _parts(ids: Sequence[Sequence[int]]) -> Iterator[Sequence[Sequence[int]]]:
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


# ---------------------------------------------------------------------- 4. coverage

SUBSETS = 400
SHARES = (1 / 30, 1 / 20, 1 / 15, 1 / 10)


def coverage(bench: Bench) -> Told:
    """How many 95 % intervals of small sets of prompts hold what all prompts show."""
    asked = bench.prompts(512)
    heats = [Sampling(0.0), Sampling(1.0)]
    trace = bench.cache(asked, "coverage", heats)
    _, outcome = bench.probe(asked, trace=trace, samplings=heats, max_new_tokens=48, batch_size=32)
    drawn = {
        "at random": [(share, _at_random) for share in SHARES],
        "by quotas of the domains": [(share, _by_domain) for share in SHARES],
    }
    figures = []
    for sampled in heats:
        rows = [row for row in outcome.rows if row.temperature == sampled.temperature]
        pooled = _looked_at(rows)
        for name, ways in drawn.items():
            rng = random.Random(0)
            held = [
                [share, *_holds(_looked_at(draw(rows, share, rng)), pooled)]
                for share, draw in ways
                for _ in range(SUBSETS // len(ways))
            ]
            for place, what in enumerate(("α", "τ(4)"), start=1):
                figures.append(_covered(f"T = {sampled.temperature:g}, {what}, {name}", pooled[place - 1], held, place))
    return Told(
        figures,
        [
            f"{SUBSETS} subsets of {len(asked)} prompts, sizes {', '.join(f'{size(asked, s)}' for s in SHARES)}; in "
            "brackets the share that held for each size.",
            f"trace: {trace.relative_to(ROOT)}",
        ],
    )


def size(rows: Sequence[object], share: float) -> int:
    return max(round(len(rows) * share), 2)


def _at_random(rows: Sequence[Row], share: float, rng: random.Random) -> list[Row]:
    return rng.sample(rows, size(rows, share))


def _by_domain(rows: Sequence[Row], share: float, rng: random.Random) -> list[Row]:
    """As the probe's own prompts are drawn: of each domain as many as its part of all."""
    domains = sorted({row.domain for row in rows})
    groups = [[row for row in rows if row.domain == domain] for domain in domains]
    return [row for group in groups for row in rng.sample(group, size(group, share))]


def _looked_at(rows: Sequence[Row]) -> tuple[Interval, Interval]:
    """α and τ(4), as the probe says them."""
    heat = rows[0].temperature
    found = result.measured(rows, "draft-1", heat, result.usual(heat, "transformers"), k_max=8, first=FIRST)
    return found.rate, _surely(found.by_k[4].mean_acceptance_length())


def _holds(found: tuple[Interval, Interval], pooled: tuple[Interval, Interval]) -> list[bool]:
    return [one.low <= whole.value <= one.high for one, whole in zip(found, pooled, strict=True)]


def _covered(what: str, pooled: Interval, held: Sequence[Sequence[Any]], place: int) -> Figure:
    share = statistics.mean(row[place] for row in held)
    parts = [statistics.mean(row[place] for row in held if row[0] == part) for part in SHARES]
    return Figure(
        f"{what} = {pooled.value:.3f}",
        f"{share:.1%} ({', '.join(f'{part:.0%}' for part in parts)})",
        "92–98 %",
        0.92 <= share <= 0.98,
    )


# ---------------------------------------------------------------------- 5. and 6. prediction and choice

SWEEPS = 5
LEAST_TOKENS = 32


class Sweep(NamedTuple):
    """transformers' own generation with every k on a few prompts, beside what the probe says of them."""

    outcome: Outcome
    rows: Sequence[Row]
    costs: Sequence[Costs]
    """Measured anew in every round, as the probe does it: the pace of a machine wanders from minute to minute."""
    seconds: Mapping[int, Sequence[float]]
    """k → a time for all prompts of each round; k = 0 is plain generation."""
    tokens: Mapping[int, int]

    def speed(self, k: int) -> float:
        """Tokens per second, by the median round."""
        return self.tokens[k] / statistics.median(self.seconds[k])

    def gains(self, k: int) -> list[float]:
        """Measured speed-up in every round."""
        per_token = zip(self.seconds[0], self.seconds[k], strict=True)
        return [plain / self.tokens[0] / (drafted / self.tokens[k]) for plain, drafted in per_token]

    def predicted(self, k: int, length: float) -> list[float]:
        """The same by the costs of every round."""
        return [length * times.target / times.step(k) for times in (costs.times() for costs in self.costs)]


def swept(bench: Bench) -> Sweep:
    """Prompts that the probe did not calibrate its costs with, where there are enough of them."""
    probe, outcome = bench.probe(bench.prompts(24), times_passes=True)
    long = [row for row in outcome.rows if len(row.tokens) >= LEAST_TOKENS] or outcome.rows
    calibrated = {row.prompt for row in outcome.rows[: int(PROBE["check-prompts"])]}
    others = [row for row in long if row.prompt not in calibrated]
    rows = (others if len(others) >= 4 else long)[:4]
    seconds: dict[int, list[float]] = {k: [] for k in (0, *KS)}
    tokens: dict[int, int] = {}
    costs: list[Costs] = []
    for k in (0, *KS):  # the first run of each kind is slow
        _generated(probe, rows[0], k, int(PROBE["check-warm-up"]))
    for _ in range(bench.rounds):
        costs.append(_costs_again(probe, outcome))
        for k in (0, *KS):
            runs = [_generated(probe, row, k, TOKENS) for row in rows]
            tokens[k] = sum(len(run.tokens) for run in runs)
            seconds[k].append(sum(run.seconds for run in runs))
    return Sweep(outcome, rows, costs, seconds, tokens)


def _generated(probe: Probe, row: Row, k: int, limit: int) -> timing.Run:
    if not k:
        return timing.run_plain(probe.target, row.prompt_ids, limit)
    return timing.run_assisted(probe.target, probe.drafts[0], row.prompt_ids, limit, k)


def _costs_again(probe: Probe, outcome: Outcome) -> Costs:
    """What the probe measures of a step, measured once more with the same prompts."""
    draft, before = probe.drafts[0], outcome.costs["draft-1"].passes[0]
    passes = timing.time_passes(probe.target, draft, batch=1, context=before.context, k_max=max(KS))
    asked = [row.prompt_ids for row in outcome.rows[: int(PROBE["check-prompts"])]]
    runs = checks.real_runs(probe.target, draft, asked, int(PROBE["check-tokens"]), max(KS), _say)
    few, many = runs.speculative[1], runs.speculative[max(KS)]
    return Costs([passes], timing.overhead_of(passes, runs.plain, few, many))


def prediction(bench: Bench) -> Told:
    """The speed-up that passes, overhead and replay predict, beside the one that transformers shows."""
    sweep = bench.sweep
    replayed = replay.replay(_of(sweep.rows).trace, ks=list(KS))
    figures = []
    for k in KS:
        length = replayed[k].visible.ratio
        assert length is not None, "every answer has a step"
        shown, said = sweep.gains(k), sweep.predicted(k, length)
        seen, expected = statistics.median(shown), statistics.median(said)
        figures.append(
            Figure(
                f"k = {k}: τ {length:.3f}",
                f"{seen:.3f} measured ({min(shown):.3f} to {max(shown):.3f}), {expected:.3f} predicted "
                f"({min(said):.3f} to {max(said):.3f}): {expected / seen - 1:+.1%}",
                "within 10 %",
                abs(expected / seen - 1) <= 0.1,
            )
        )
    costs = sorted(sweep.costs, key=lambda one: one.times().target)[len(sweep.costs) // 2]
    base, added = costs.passes[0], costs.overhead
    return Told(
        figures,
        [
            f"{len(sweep.rows)} prompts, {sum(len(row.tokens) for row in sweep.rows)} tokens; {bench.rounds} rounds. "
            "Medians of the rounds, each of which measures the costs and then goes through all k; in brackets their "
            "extremes.",
            f"t {base.target[0].median * 1e3:.2f} ms, d {base.draft[0].median * 1e3:.2f} ms, v(9) "
            f"{base.target[-1].median * 1e3:.2f} ms; a plain token took {1e3 / sweep.speed(0):.2f} ms in transformers, "
            f"predicted {costs.times().target * 1e3:.2f}",
            *([f"overhead, ms: {_milliseconds(added)}"] if added is not None else []),
            *sweep.outcome.timing_doubts,
        ],
    )


def _milliseconds(overhead: timing.Overhead) -> str:
    names = ("per_token", "per_step", "per_draft")
    return ", ".join(f"{name} {getattr(overhead, name) * 1e3:.2f}" for name in names)


def _of(rows: Sequence[Row]) -> result.Measured:
    return result.measured(rows, "draft-1", 0.0, result.usual(0.0, "transformers"), k_max=max(KS), first=FIRST)


def choice(bench: Bench) -> Told:
    """The k of the plan must be as fast as the best k of the sweep, nearly."""
    sweep = bench.sweep
    priced = sweep.outcome.priced("draft-1")
    assert priced is not None, "passes were timed"
    best = max((0, *KS), key=sweep.speed)
    figures = [Figure("best k of the sweep", f"{best} ({_speeds(sweep)})")]
    for name, rows, judged in (
        ("the prompts of the sweep", sweep.rows, True),
        (f"all {sweep.outcome.num_prompts} prompts of the probe", sweep.outcome.rows, False),
    ):
        plan = _of(rows).priced(priced)
        if plan is None:
            figures.append(Figure(f"k planned from {name}", "none: no answer holds a block", "97 %", False))
            continue
        reached = sweep.speed(plan.num_spec_tokens) / sweep.speed(best)
        figures.append(
            Figure(
                f"k planned from {name}",
                f"{plan.num_spec_tokens}: {reached:.1%} of the best",
                "97 %" if judged else "",
                reached >= 0.97 if judged else None,
            )
        )
    return Told(figures, ["tokens per second in brackets, from k = 0 on"])


def _speeds(sweep: Sweep) -> str:
    return " ".join(f"{sweep.speed(k):.0f}" for k in (0, *KS))


# ---------------------------------------------------------------------- 7. memory

WIDE = {"vocab_size": 150_000, "hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 704}
SMALL = {"vocab_size": 150_000, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 176}
HEADS = 4
LONG_PROMPTS, LONG_TOKENS, LONG_ANSWER = 8, 2000, 32
IN_A_PROCESS = """
import json, random, sys
from pathlib import Path
from draftpick.catalog import load
from draftpick.probing import device, local
from draftpick.probing.prompts import Prompt
from draftpick.probing.result import Budget
from draftpick.probing.outcome import ModelFiles, Request
from draftpick.probing.run import Probe

def peak():
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

folder, heat, timed = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "timed"
count, length, answer, words = (int(value) for value in sys.argv[4:8])
device.torch_here()
imported = peak()
rng = random.Random(0)
asked = [Prompt(str(n), " ".join(f"w{rng.randrange(words)}" for _ in range(length))) for n in range(count)]
files = [ModelFiles(name, folder / name, {"id": name}) for name in ("target", "draft")]
request = Request(files[0], files[1:], asked, folder / f"{heat}-{timed}.jsonl", samplings=(local.Sampling(heat),),
                  catalog=load(), max_new_tokens=answer, times_passes=timed,
                  budget=Budget(count, 0.0, most_prompts=count, fixed=True))
probe = Probe(request, lambda said: None)
loaded = peak()
outcome = probe.run()
tokens = {len(row.prompt_ids) for row in outcome.rows}
print(json.dumps([imported, loaded, peak(), outcome.num_prompts, sorted(tokens)]))
"""


def memory(bench: Bench) -> Told:
    """The most memory a probe takes, for a vocabulary and prompts that make whole logits very large."""
    import json

    held = _random_pair(bench.scratch)
    limit = 1.3 * sum(held.values()) + 1e9
    figures = [Figure(f"{name}, by its sizes", f"{value / 1e6:.0f} MB") for name, value in held.items()]
    for heat, timed in ((0.0, False), (1.0, False), (0.0, True)):
        what = f"T = {heat:g}, with passes timed" if timed else f"T = {heat:g}"
        numbers = [LONG_PROMPTS, LONG_TOKENS, LONG_ANSWER, WIDE["vocab_size"] - 10]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                IN_A_PROCESS,
                str(bench.scratch),
                str(heat),
                "timed" if timed else "",
                *map(str, numbers),
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        if done.returncode:
            figures.append(Figure(f"peak, {what}", done.stderr.strip().splitlines()[-1][:200], "", False))
            continue
        imported, loaded, peak, number, lengths = json.loads(done.stdout.splitlines()[-1])
        figures.append(
            Figure(
                f"peak, {what}: {number} prompts of {lengths} tokens",
                f"{peak / 1e6:.0f} MB ({imported / 1e6:.0f} after imports, {loaded / 1e6:.0f} after loading)",
                f"{limit / 1e6:.0f} MB",
                peak <= limit,
            )
        )
    return Told(figures, ["limit: 1.3 × (weights + KV cache) + 1 GB; resident memory of a process of its own"])


def _random_pair(folder: Path) -> dict[str, float]:
    """Saves two models of random weights with one tokenizer; bytes of their weights and of their KV caches."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<unk>": 0, "<s>": 1, "</s>": 2}
    words |= {f"w{number}": number + len(words) for number in range(WIDE["vocab_size"] - len(words))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    held = {"weights": 0.0, "KV cache": 0.0}
    for name, shape in (("target", WIDE), ("draft", SMALL)):
        torch.manual_seed(0)
        config = LlamaConfig(
            **shape,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
        )
        model = LlamaForCausalLM(config)
        model.save_pretrained(folder / name)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(folder / name)
        held["weights"] += sum(value.nbytes for value in model.parameters())
        positions = LONG_PROMPTS * (LONG_TOKENS + LONG_ANSWER)
        held["KV cache"] += 2 * 4 * shape["num_hidden_layers"] * shape["hidden_size"] * positions
    return held


# ---------------------------------------------------------------------- the table

PARTS: Mapping[str, Callable[[Bench], Told]] = {
    "exactness": exactness,
    "sampling": sampling,
    "cost": cost,
    "coverage": coverage,
    "prediction": prediction,
    "choice": choice,
    "memory": memory,
}


def arguments() -> argparse.Namespace:
    parser = records.parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--target", type=Path, default=DEMO / "target")
    parser.add_argument("--draft", type=Path, default=DEMO / "draft")
    parser.add_argument("--prompts", type=Path, default=DEMO / "prompts.jsonl")
    parser.add_argument("--prompts-count", type=int)
    parser.add_argument(
        "--rounds", type=int, default=SWEEPS, help="of prediction and choice; large models take minutes"
    )
    found = parser.parse_args()
    found.parts = records.chosen(parser, found.parts, list(PARTS))
    return found


def main() -> None:
    chosen = arguments()
    torch = device.torch_here()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{timing.software()}, torch {torch.__version__}, {torch.get_num_threads()} threads{load}")
    print(f"target {chosen.target}, draft {chosen.draft}, prompts {chosen.prompts}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(chosen.target, chosen.draft, chosen.prompts, chosen.prompts_count, Path(folder), chosen.rounds)
        records.run({name: partial(PARTS[name], bench) for name in chosen.parts}, chosen.keep)


if __name__ == "__main__":
    main()
