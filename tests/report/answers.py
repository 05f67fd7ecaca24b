"""Small answers built by hand: what a report shows of them depends on no catalogue and no rule."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from draftpick import __version__
from draftpick.acceptance import Acceptance, Basis
from draftpick.advice import Advice
from draftpick.advice_file import advice_of
from draftpick.assess import Assessment, Engines, rank
from draftpick.cost import Costs
from draftpick.decision import decide
from draftpick.models.profile import Lineage, ModelProfile
from draftpick.models.tokenizer import Difference, Fingerprint, Relation
from draftpick.pair import Device, Engine, Head, Pair, Proposal, Setting
from draftpick.place import Place
from draftpick.predict import Prediction
from draftpick.report import saved
from draftpick.report.json import document
from draftpick.rules import Finding
from draftpick.speedup import Interval, KRow, Plan

DOCUMENTS = Path(__file__).parent / "documents"

METHODS = {name: {"support": "yes"} for name in ("draft_model", "eagle3", "mtp", "ngram", "suffix")}
STRICT = Engine("strict", "Strict", "2.0", {"version": "2.0", "vocabulary": {"rule": "equal-rows"}, "methods": METHODS})
LOOSE = Engine("loose", "Loose", "b42", {"version": "b42", "vocabulary": {"rule": "none"}, "methods": METHODS})
NPU = Device("toy-npu", "Toy NPU", "acme", memory_bytes=64 * 2**30, bf16=True)
SAME = Relation("identical", verified=True, reason="all 1,000 ids mean the same", same_cut=True, same_ids=1000)
OTHER = Relation(
    "different",
    verified=True,
    reason="id 7 is 'a' in the target and '|' in the draft",
    first_difference=Difference(7, "a", "|"),
)


def tokenizer(key: str = "toy") -> Fingerprint:
    return Fingerprint(key=key, verified=True, named_ids=1000, highest_id=999, base_ids=990)


def model(name: str, billions: float, **changes: Any) -> ModelProfile:
    fields: dict[str, Any] = {
        "id": name,
        "origin": "catalogue",
        "family": "Toy",
        "generation": "2",
        "variant": "instruct",
        "architecture": "ToyForCausalLM",
        "params_total": int(billions * 1e9),
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "vocab_size": 1024,
        "tokenizer": tokenizer(),
        "max_position_embeddings": 32768,
        "dtype": "bfloat16",
        "license": "apache-2.0",
        "gated": False,
        "lineage": Lineage(data="Toy 2"),
    }
    return ModelProfile(**{**fields, **changes})


TARGET = model("maker/Toy-2-70B-Instruct", 70)


def finding(rule: str, outcome: Any, message: str, weight: float = 5, score: float = 1, **more: Any) -> Finding:
    return Finding(rule, outcome, message, {"seen": 1}, weight, score=score, **more)


FITS = (
    finding("tokenizer-identity", "ok", "The token ids agree: all 1,000 ids mean the same.", 10),
    finding("size-ratio", "ok", "The target reads 10 times the parameters of its draft.", 6),
    finding("depth", "skip", "The number of layers is not known on both sides."),
)
CAREFUL = (
    *FITS[:1],
    finding("size-ratio", "warn", "The target reads 2.0 times the parameters of its draft.", 6, 0.4),
    finding("licence", "warn", "The pair is only as free as its stricter half.", 1, 0.5, ignored_because="for tests"),
)
WRONG = (finding("tokenizer-identity", "reject", "The vocabularies differ: id 7 is 'a' here and '|' there.", 10, 0),)


PLACE = Place(STRICT, NPU, assumed=False, devices=4, batch=8)
RATE = Acceptance(0.7, 0.55, 0.82, own_rate=0.75)
PARTS = Costs(
    target=0.04,
    draft_first=0.011,
    draft=0.01,
    verify=(0.04, 0.041, 0.043),
    overhead=0.002,
    ttft_overhead=0.03,
    c=0.25,
    notes=("a drafted token is launch-bound",),
    launch_bound=True,
)


class Foretold(Prediction):
    """A prediction that rests on rows named here."""

    __slots__ = ()

    @property
    def basis(self) -> Basis:
        return Basis("A line through 9 published rows.", ("PM1", "PM2"))


class Told:
    """Says of every pair that it gains `speedup`."""

    def __init__(self, speedup: float) -> None:
        row = KRow(2, 2.19, speedup, speedup * 0.7, speedup * 1.4)
        rows = (KRow(0, 1.0, 1.0, 1.0, 1.0), KRow(1, 1.7, 1 + (speedup - 1) / 2, 0.8, 1.6), row)
        k = 2 if speedup > 1 else 0
        gain = Interval(rows[k].speedup, rows[k].low, rows[k].high, 0.8)
        self.plan = Plan(k, rows[k].mean_acceptance_length, gain, rows)

    def predict(self, pair: Pair, engine: str) -> Prediction:
        return Foretold(pair, PLACE, RATE, PARTS, self.plan)

    def schedule(self, found: Prediction) -> tuple[tuple[int, int, int], ...]:
        return ((1, 4, 2), (5, 8, found.plan.num_spec_tokens and 1))


def candidate(
    proposal: Proposal,
    findings: Sequence[Finding] = FITS,
    relation: Relation | None = SAME,
    score: float = 97.04,
    setting: Setting | None = None,
    target: ModelProfile = TARGET,
    speedup: float | None = None,
    issues: Sequence[dict[str, Any]] = (),
) -> Assessment:
    pair = Pair(target, proposal, setting or Setting(), relation if proposal.draft is not None else None)
    predictor: Any = Told(speedup) if speedup is not None else None
    return Assessment(
        pair, findings, score, 0.874, Engines(pair, (STRICT, LOOSE), issues_of=lambda _: issues), predictor
    )


def issue(key: str, **more: Any) -> dict[str, Any]:
    """A row of the catalogue's known issues for both engines."""
    plain = {"key": key, "engines": ["strict", "loose"], "kind": "slow", "symptom": f"{key} is slow"}
    return {**plain, "mending": "do less", "source": f"https://example.org/{key}", **more}


def drafted(name: str, billions: float, **changes: Any) -> Proposal:
    return Proposal("draft_model", "catalogue", draft=model(name, billions, **changes))


HEAD = Head(
    "someone/EAGLE3-Toy-2-70B",
    "eagle3",
    TARGET.id,
    params=900_000_000,
    hidden_size=4096,
    num_spec_tokens=5,
    license="mit",
)


def answer(
    *candidates: Assessment,
    command: str = "recommend",
    setting: Setting | None = None,
    target: ModelProfile = TARGET,
    left_out: dict[str, int] | None = None,
) -> Advice:
    ranked = rank(candidates)
    return Advice(
        command, target, setting or Setting(), decide(command, target, ranked), ranked, "2026-11-29", left_out or {}
    )


def recommended(engine: Engine | None = STRICT) -> Advice:
    """A ranking with one of everything."""
    setting = Setting(engine=engine, device=NPU, tensor_parallel_size=4, max_model_len=8192)
    found = [
        candidate(drafted("maker/Toy-2-7B-Instruct", 7), setting=setting, speedup=1.62),
        candidate(drafted("maker/Toy-2-35B-Instruct", 35), CAREFUL, score=71.5, setting=setting, speedup=0.81),
        candidate(Proposal("eagle3", "catalogue", head=HEAD, via="maker/Toy-2-70B"), score=90, setting=setting),
        candidate(Proposal("ngram", "always"), (), score=0, setting=setting),
        candidate(Proposal("suffix", "always"), (), score=0, setting=setting),
        candidate(drafted("maker/Toy-3-7B", 7, tokenizer=tokenizer("toy-3")), WRONG, OTHER, 40, setting),
        candidate(drafted("maker/Toy-3-1B", 1, tokenizer=tokenizer("toy-3")), WRONG, OTHER, 40, setting),
        candidate(drafted("maker/Toy-2-0.5B", 0.5, vocab_size=1000), score=88, setting=setting),
    ]
    return answer(*found, setting=setting, left_out={"another vocabulary": 12, "not smaller than the target": 3})


def checked() -> Advice:
    """One pair that is rejected."""
    setting = Setting(engine=STRICT)
    pair = candidate(drafted("maker/Toy-3-7B", 7), (*WRONG, *CAREFUL[1:], *FITS[1:]), OTHER, 40, setting)
    return answer(pair, command="check", setting=setting)


def paired(speedup: float) -> Advice:
    """One pair that fits, and what it is told to gain."""
    setting = Setting(engine=STRICT, device=NPU, tensor_parallel_size=4, max_num_seqs=8)
    found = candidate(drafted("maker/Toy-2-7B-Instruct", 7), setting=setting, speedup=speedup)
    return answer(found, command="check", setting=setting)


DOCUMENTED: dict[str, Callable[[], Advice]] = {
    "recommend": recommended,
    "check": checked,
    "check-gains": lambda: paired(1.62),
    "check-loses": lambda: paired(0.81),
}
"""Answers that are kept as whole documents."""


def markdown_of(advice: Advice, *, explain: bool = False, everything: bool = False) -> str:
    """An answer as its command writes it with --format markdown."""
    return saved.write(advice_of(document(advice)), "markdown", explain=explain, everything=everything)


def compare_document(name: str, text: str) -> None:
    """Compare a whole document with the one on file; UPDATE_DOCUMENTS=1 writes it anew."""
    path, text = DOCUMENTS / name, text.replace(__version__, "VERSION")
    if os.environ.get("UPDATE_DOCUMENTS"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), "run the tests once with UPDATE_DOCUMENTS=1 and look at what it wrote"
    assert text == path.read_text(encoding="utf-8")
