"""Whether llama.cpp's server starts with what `draftpick launch` writes, and drafts as the replay of a probe foretells.

The part `llama` of scripts/test_engines.py. FOLDER/llama holds what `make test-engines PARTS=llama` unpacks and
builds: llama.cpp, which can convert the pair, and build/bin with the server.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from draftpick import replay
from draftpick.catalog import Catalog
from draftpick.counters import FAMILIES
from draftpick.launch import Wanted, launch
from draftpick.observe import observe
from draftpick.probing import trace
from draftpick.scrape import Scrape, parse

SCRIPTS = Path(__file__).resolve().parent
DEMO = SCRIPTS.parent / "catalog" / "demo"
LIMIT = 96
"""Tokens of the longest answer."""
NEAR_TIE = 0.02
"""Logits this near change places with the batch: the server keeps its cache in 16 bits."""
TEXTS = (
    "def f(x):\n\treturn  x + 1\n",
    "Grüße, 東京 🚀",
    "I'VE 'told 3333.33 ...!!?? \r\n \u2003z",
    "a   b\n\n \n  c",
    "<s>d",
)
"""Beside the prompts, for the vocabulary."""


class Place(NamedTuple):
    """Where the server and the pair lie."""

    tools: Path
    pair: Path
    catalog: Catalog

    def line(self, method: str | None = None, k: int = 3, *, version: str = "", draft: str = "draft.gguf") -> str:
        """What draftpick writes."""
        wanted = Wanted(str(self.pair / "target.gguf"), self.catalog.engine(f"llama.cpp{version}"), method=method)
        if method not in (None, "ngram", "mtp"):
            wanted = wanted._replace(draft=str(self.pair / draft), rows="equal")
        return launch(wanted._replace(num_spec_tokens=k if method else None)).steps[0].text


class Told(NamedTuple):
    """What a server said when it was asked all prompts."""

    same: int
    """Answers with the tokens of the probe."""
    foretold: int
    """Those of them that took as many steps as the replay."""
    tokens: int
    steps: int
    drafted: int
    accepted: int
    drafts: int

    @property
    def sentence(self) -> str:
        length = (self.tokens / self.steps) if self.steps else 0.0
        return (
            f"{self.same} answers as the probe's, {self.tokens} tokens in {self.steps} steps ({length:.3f}), "
            f"{self.accepted} of {self.drafted} drafted tokens accepted"
        )


def check(folder: Path, catalog: Catalog) -> int:
    """Print what was asked and answered; the number of answers that were not expected."""
    place = Place(folder / "llama" / "build" / "bin", folder / "llama" / "pair", catalog)
    convert(folder / "llama", place.pair)
    with tempfile.TemporaryDirectory() as made:
        rows = probed(Path(made) / "probe.json")
    wrong = vocabulary(place)
    wrong += asked(place, "plain", place.line(), rows, drafts=False)
    for k in (1, 3, 8):
        wrong += asked(place, f"draft_model, k = {k}", place.line("draft_model", k), rows, k=k)
    for k in (3, 8):
        wrong += asked(place, f"ngram, k = {k}", place.line("ngram", k), rows)
    return wrong + undrafted(place, rows[:8]) + refused(place) + served(place)


def convert(llama: Path, pair: Path, *which: str) -> None:
    """Write a pair as GGUF files, with the converter of llama.cpp that lies in `llama`."""
    words = [sys.executable, str(SCRIPTS / "demo_gguf.py"), str(llama / "llama.cpp"), str(pair), *which]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


class Agreement(NamedTuple):
    """A probe through servers beside one of the same models here."""

    alike: int
    """Positions at which the draft's first choice is the same, as far as the texts are."""
    positions: int
    gaps: Sequence[float]
    """How far apart two logits lie where a text parts from the one written here."""
    texts: int

    @property
    def right(self) -> bool:
        return self.alike >= 0.995 * self.positions and max(self.gaps, default=0.0) <= NEAR_TIE


def agreement(place: Place) -> Agreement:
    """Probe the pair through two servers and here."""
    files = [shlex.join(["llama-server", "-m", str(place.pair / name)]) for name in ("target.gguf", "draft.gguf")]
    with tempfile.TemporaryDirectory() as made:
        rows = probed(Path(made) / "here.json")
        with serving(place, files[0]) as target, serving(place, files[1]) as draft:
            there = probed(Path(made) / "there.json", "--target-url", target, "--draft-url", draft)
    by_prompt = {row.prompt: row for row in there}
    alike = [alike_until(by_prompt[here.prompt], here) for here in rows]
    tops = [
        one == other
        for here, until in zip(rows, alike, strict=True)
        for one, other in zip(first_choices(by_prompt[here.prompt], until), first_choices(here, until), strict=True)
    ]
    gaps = [here.gap[until] for here, until in zip(rows, alike, strict=True) if here.gap and until < len(here.tokens)]
    return Agreement(sum(tops), len(tops), gaps, len(rows))


def served(place: Place) -> int:
    """Probe the pair through two servers; 1 where text or matches are not those of the probe here."""
    found = agreement(place)
    return said(
        found.right,
        f"probe through two servers: the draft's first choice as here in {found.alike} of {found.positions} positions; "
        f"{len(found.gaps)} of {found.texts} texts part, where two logits lie {[round(gap, 4) for gap in found.gaps]} "
        "apart",
    )


def alike_until(one: trace.Row, other: trace.Row) -> int:
    """Tokens until two answers part, or one ends."""
    pairs = zip(one.tokens, other.tokens, strict=False)
    shorter = min(len(one.tokens), len(other.tokens))
    return next((place for place, pair in enumerate(pairs) if pair[0] != pair[1]), shorter)


def first_choices(row: trace.Row, until: int) -> Sequence[int]:
    """What the only draft would have said at the first places of an answer."""
    (columns,) = row.drafts.values()
    return columns.top[:until]


def probed(file: Path, *places: str) -> Sequence[trace.Row]:
    """Answers of the pair, with what the draft would have said, by `draftpick probe`: here, or at these `places`."""
    pair = [str(DEMO / "target"), str(DEMO / "draft"), "--prompts", str(DEMO / "prompts.jsonl")]
    ways = ["--engine", "llama.cpp", "--max-new-tokens", str(LIMIT), "--precision", "0", "--costs", "roofline"]
    ways += places or ["--device", "cpu"]
    command = [sys.executable, "-m", "draftpick", "probe", *pair, *ways, "-o", str(file), "--exit-zero", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return trace.read(file.with_suffix(".trace.jsonl")).rows


def vocabulary(place: Place) -> int:
    """Print how many texts both tokenizers split alike; 1 where one is not."""
    from tokenizers import Tokenizer

    own = Tokenizer.from_file(str(DEMO / "target" / "tokenizer.json"))
    prompts = [json.loads(line)["prompt"] for line in (DEMO / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [*prompts, *TEXTS]
    with serving(place, place.line()) as url:
        alike = sum(
            post(url, "/tokenize", {"content": text, "add_special": True})["tokens"] == own.encode(text).ids
            for text in texts
        )
    return said(alike == len(texts), f"tokens: {alike} of {len(texts)} texts split as by the tokenizer of the pair")


def asked(
    place: Place, what: str, script: str, rows: Sequence[trace.Row], *, k: int | None = None, drafts: bool = True
) -> int:
    """Start the server, ask it all prompts and look at its counters; 1 where something is not as expected.

    `k` is given where the replay knows the steps; `drafts` is whether anything is drafted at all.
    """
    with serving(place, script) as url:
        told = answers(url, rows, k)
        scrape = counters(url)
    right = told.same == len(rows) and (told.drafts > 0) is drafts
    sentence = f"{what}: {told.sentence}"
    if k is not None:
        right = right and told.foretold == len(rows)
        sentence += f", {told.foretold} with the steps of the replay"
    if drafts:
        (seen,) = observe([scrape], None).models
        counted = (seen.num_accepted_tokens, seen.num_draft_tokens)
        right = right and counted == (told.accepted, told.drafted)
        sentence += f"; observe: {counted[0]} of {counted[1]}, {seen.mean_acceptance_length:.3f} tokens per draft"
    return said(right, sentence)


def answers(url: str, rows: Sequence[trace.Row], k: int | None) -> Told:
    """Greedy answers to the prompts of a probe, and what was drafted for them."""
    told = Told(*[0] * len(Told._fields))
    for row in rows:
        # Without `temperature` among the samplers the server would not be greedy at 0.
        question = {"prompt": list(row.prompt_ids), "n_predict": LIMIT, "temperature": 0, "samplers": ["temperature"]}
        answer = post(url, "/completion", {**question, "return_tokens": True})
        times = answer["timings"]
        drafted, accepted = times.get("draft_n", 0), times.get("draft_n_accepted", 0)
        drafts = number_of_drafts(url) - told.drafts
        # The prompt's own pass writes the first token. What was accepted behind the end of a text counts as accepted.
        steps = max(times["predicted_n"] - 1 - accepted, drafts)
        same = list(row.tokens) == answer["tokens"]
        alike = same and k is not None and steps == replayed(row, k)
        one = (same, alike, times["predicted_n"] - 1, steps, drafted, accepted, drafts)
        told = Told(*map(sum, zip(told, one, strict=True)))
    return told


def number_of_drafts(url: str) -> int:
    """Steps with a draft since the start."""
    found = [sample.value for sample in counters(url).samples if sample.name.endswith("spec_decode_num_drafts_total")]
    return int(sum(found))


def counters(url: str) -> Scrape:
    """The page that `draftpick observe` reads."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:
        return parse(page.read(), "/metrics", FAMILIES)


def replayed(row: trace.Row, k: int) -> int:
    """Steps behind the first token that the replay needs."""
    of = trace.as_trace([row], next(iter(row.drafts)), 0.0, first=2)
    return round(float(replay.replay(of, ks=[k])[k].visible.x.sum()))


def undrafted(place: Place, rows: Sequence[trace.Row]) -> int:
    """Lines that this build takes without drafting anything; the number of those that did otherwise."""
    draft = (place.pair / "draft.gguf").read_bytes()
    (place.pair / "renamed.gguf").write_bytes(draft.replace("Ġnumber".encode(), "Ġnumbex".encode(), 1))
    lines = [
        ("the line of b9093, which names no type", place.line("draft_model", version="@b9093")),
        ("a draft with another token text", place.line("draft_model", draft="renamed.gguf")),
        ("eagle3 with a plain draft", place.line("eagle3")),
    ]
    return sum(asked(place, f"control: {what}", script, rows, drafts=False) for what, script in lines)


def refused(place: Place) -> int:
    """Lines that this build must not start with; the number of those it took."""
    lines = [
        ("the line of b5000", place.line("draft_model", version="@b5000"), "the argument has been removed"),
        ("dflash with a plain draft", place.line("dflash"), "DFlash model has no target_layer_ids"),
        ("mtp with a target without MTP layers", place.line("mtp"), "failed to create MTP context"),
        ("a draft that is not there", place.line("draft_model", draft="none.gguf"), "failed to load draft model"),
    ]
    wrong = 0
    for what, script, reason in lines:
        try:
            with serving(place, script):
                wrong += said(False, f"control: {what}: started")
        except OSError as error:
            found = [line.strip() for line in str(error).splitlines() if reason in line] or [str(error)[-200:]]
            wrong += said(reason in str(error), f"control: {what}: rejected: {found[0]}")
    return wrong


def said(right: bool, sentence: str) -> int:
    print(f"{'' if right else 'NOT EXPECTED '}llama.cpp: {sentence}", flush=True)
    return 0 if right else 1


@contextmanager
def serving(place: Place, script: str) -> Iterator[str]:
    """The server's address while it runs. Raises OSError with its last lines where it does not start.

    What is not written by draftpick is set by the environment: the script itself is what is tried.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"LLAMA_ARG_PORT": str(port), "LLAMA_ARG_ENDPOINT_METRICS": "1", "LLAMA_ARG_THREADS": "1"}
    found = {**os.environ, **settings, "PATH": f"{place.tools}:{os.environ['PATH']}"}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(["bash", "-c", script], env=found, start_new_session=True, stdout=log, stderr=log) as process,
    ):
        try:
            wait(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def wait(url: str, process: subprocess.Popen[bytes], log: Any) -> None:
    """Until it answers. Raises OSError where it ends or takes too long."""
    for _ in range(240):
        if process.poll() is not None:
            log.seek(0)
            raise OSError(log.read().decode(errors="replace")[-4000:])
        try:
            urllib.request.urlopen(f"{url}/health", timeout=2).close()
        except OSError:
            time.sleep(0.25)
        else:
            return
    raise OSError("it was not ready after a minute")


def post(url: str, path: str, question: dict[str, Any]) -> Any:
    """What the server answers."""
    asked = urllib.request.Request(url + path, json.dumps(question).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return json.load(answer)
