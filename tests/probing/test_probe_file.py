"""Probe files: what was written is read, and what is no probe is told by its field."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from draftpick import probe_file
from draftpick.errors import DraftpickError, InvalidFile, UsageError
from draftpick.models.profile import Experts, Lineage, ModelProfile
from draftpick.probe_file import ProbeFile, read_costs, read_probe, record_of, sha256, to_text, trace_of
from draftpick.probing.command import times_in
from draftpick.probing.document import given_costs

SCHEMAS = Path(__file__).parents[2] / "schemas"
LAW = settings(deadline=None, derandomize=True, max_examples=60)
TARGET = ModelProfile(
    "acme/target", "folder", "/models/target", params_text=1000, lineage=Lineage(base_model="acme/base"),
    experts=Experts(8, 2),
)  # fmt: skip
DRAFT = ModelProfile("acme/draft", "cache", "/models/draft", "a" * 40, vocab_size=64)
RATE = {"value": 0.7, "low": 0.6, "high": 0.8, "level": 0.95}
K = {
    "k": 1, "mean_acceptance_length": 1.7, "mean_acceptance_length_low": 1.6, "mean_acceptance_length_high": 1.8,
    "visible_length": 1.65, "draft_acceptance_rate": 0.7, "conditional_rate": 0.7, "num_drafts": 100.5,
    "num_draft_tokens": 100.5, "num_accepted_tokens": 70.2, "num_accepted_tokens_per_pos": [70.2],
    "acceptance_histogram": [30.3, 70.2], "speedup": RATE,
}  # fmt: skip
PLAIN_STEP = {
    **K, "k": 0, "mean_acceptance_length": 1.0, "mean_acceptance_length_low": 1.0, "mean_acceptance_length_high": 1.0,
}  # fmt: skip
ONE = {"value": 1.0, "low": 1.0, "high": 1.0, "level": 0.95}
LENGTH = {"value": 1.7, "low": 1.6, "high": 1.8, "level": 0.95}
COSTS = {
    "source": "measured", "software": "transformers", "num_seqs": 1, "context": 64, "target_ms": 10.0,
    "draft_first_ms": 1.0, "draft_ms": 1.0, "verify_ms": [10.0, 11.0], "overhead_ms": 0.1, "c": 0.1,
    "whole_steps": False,
    "passes": {"target_ms": [10.0]}, "software_adds": {"per_step": 0.1}, "ttft_overhead_ms": 5.0, "prefill_ms": 20.0,
    "spread": 0.05, "checked": [{"k": 1, "predicted": 1.5, "measured": 1.4}],
}  # fmt: skip
TRANSLATED_K = {"k": 1, "mean_acceptance_length": 1.2, "speedup": 0.9}
PLAIN: dict[str, Any] = {
    "schema_version": "1",
    "kind": "probe",
    "tool": {"name": "draftpick", "version": "1"},
    "created": "2026-11-30T00:00:00+00:00",
    "duration_s": 12.5,
    "seconds": {"loading": 1.0},
    "target": record_of(TARGET._replace(path=None)).model_dump(mode="json"),
    "models": {"acme/draft": record_of(DRAFT._replace(path=None)).model_dump(mode="json")},
    "identities": {"acme/target": {"weights": "aa", "revision": None}},
    "relations": {"acme/draft": {"kind": "identical", "verified": True, "reason": "all ids"}},
    "device": {"id": "cpu", "name": "x", "count": 1, "threads": 2, "tool_name": "cpu", "memory_bytes": None},
    "software": {"torch": "2"},
    "dtype": "float32",
    "sampling": {"temperatures": [0.0], "top_k": 0},
    "prompts": {"source": "embedded", "digest": "d", "num": 16},
    "engine": "transformers",
    "trace": {"path": "trace.jsonl", "sha256": hashlib.sha256(b"trace").hexdigest()},
    "num_prompts": 16,
    "num_tokens": 2000,
    "stopped_by": "all prompts were used",
    "decision": {
        "action": "speculate", "method": "draft_model", "draft": "acme/draft", "num_spec_tokens": 1, "speedup": RATE,
        "evidence": "measured", "sentence": "Use it.", "more_prompts": None,
    },
    "drafts": [
        {
            "draft": "acme/draft", "method": "draft_model", "temperature": 0.0, "proposal": "the draft's first choice",
            "way": "first_choice", "level": 0.95, "acceptance_rate": RATE, "by_k": [PLAIN_STEP, K],
            "position_rates": {"marginal": [0.7], "conditional": [None]},
            "by_domain": {"chat": {"acceptance_rate": RATE, "num_prompts": 16}},
            "other_proposals": [
                {"proposal": "x", "way": "sampled", "acceptance_rate": RATE, "mean_acceptance_lengths": [ONE, LENGTH]}
            ],
            "num_prompts": 16, "num_tokens": 2000, "stopped_by": "x", "doubts": ["one"], "timing_doubts": [],
            "costs": [COSTS],
            "plan": {"num_spec_tokens": 1, "mean_acceptance_length": 1.7, "speedup": RATE},
        }
    ],
    "draft_free": [
        {
            "method": "ngram", "temperature": 0.0, "num_spec_tokens": 2, "mean_acceptance_length": 1.2,
            "draft_acceptance_rate": 0.5, "speedup": RATE,
            "by_k": [{"k": 1, "mean_acceptance_length": ONE, "draft_acceptance_rate": None}],
        }
    ],
    "translated": [{"draft": "acme/x", "method": "uag", "num_prompts": 8, "by_k": [TRANSLATED_K]}],
    "checks": [{"name": "the target as its own draft", "passed": True, "detail": "100 %"}],
    "doubts": ["two"],
    "peak_bytes": None,
}  # fmt: skip


def changed(value: Any, *where: str | int, remove: bool = False) -> bytes:
    """The document with one value changed, or taken out."""
    whole = json.loads(json.dumps(PLAIN))
    inside: Any = whole
    for part in where[:-1]:
        inside = inside[part]
    if remove:
        del inside[where[-1]]
    else:
        inside[where[-1]] = value
    return json.dumps(whole).encode()


def placed(folder: Path, content: bytes) -> Path:
    path = folder / "probe.json"
    path.write_bytes(content)
    return path


# ---------------------------------------------------------------------- round trip


def test_what_was_written_is_read(tmp_path: Path) -> None:
    probe = ProbeFile.model_validate(PLAIN)
    found = read_probe(placed(tmp_path, to_text(probe).encode()))
    assert found == probe
    assert {name: value for name, value in found.plain().items() if name in PLAIN} == PLAIN


def test_its_models_are_profiles_again(tmp_path: Path) -> None:
    probe = read_probe(placed(tmp_path, json.dumps(PLAIN).encode()))
    for profile in (TARGET, DRAFT):
        found = probe.profile(profile.id)
        assert (found.id, found.params_text, found.experts, found.vocab_size, found.lineage, found.revision) == (
            profile.id, profile.params_text, profile.experts, profile.vocab_size, profile.lineage, profile.revision
        )  # fmt: skip
        assert found.path is None


def test_more_keys_of_a_newer_draftpick_are_passed_over(tmp_path: Path) -> None:
    newer = {**PLAIN, "new": {"deep": [1]}, "decision": {**PLAIN["decision"], "new": 1}}
    newer |= {"target": {**PLAIN["target"], "new": 1}}
    assert read_probe(placed(tmp_path, json.dumps(newer).encode())) == ProbeFile.model_validate(PLAIN)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (1, ("schema_version",)),
        ("x", ("drafts", 0, "by_k", 1, "k")),
        ("backwards", ("drafts", 0, "way")),
        (1.5, ("drafts", 0, "acceptance_rate", "level")),
        ([0], ("drafts", 0, "costs", 0, "verify_ms")),
        (-1, ("num_prompts",)),
        (None, ("decision", "sentence")),
    ],
)
def test_the_schema_says_what_the_records_say(value: Any, where: tuple[str | int, ...], tmp_path: Path) -> None:
    fits = Draft202012Validator(json.loads((SCHEMAS / "probe.schema.json").read_text(encoding="utf-8"))).is_valid
    assert fits(PLAIN)
    assert fits(ProbeFile.model_validate(PLAIN).plain())
    content = changed(value, *where)
    assert not fits(json.loads(content))
    with pytest.raises(InvalidFile):
        read_probe(placed(tmp_path, content))


def test_what_is_not_finite_is_no_figure() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            probe_file.IntervalRecord(value=1.0, low=0.0, high=value, level=0.95)


# ---------------------------------------------------------------------- broken documents


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"{", "is not valid JSON"),
        (b"[]", "holds a list"),
        (b"\xff", "is not valid JSON"),
        (b"{}", "is no probe file"),
        (b'{"kind": "advice"}', "is no probe file: it is an advice"),
        (b'{"kind": "gate"}', "is no probe file: it is a gate's result"),
        (b'{"kind": ["probe"]}', "is no probe file"),
        (b'{"kind": "probe"}', "its schema_version is None"),
        (changed("2", "schema_version"), "its schema_version is '2', and this draftpick reads '1'"),
        (changed(1, "schema_version"), "its schema_version is 1"),
        (b'{"kind": "probe", "schema_version": "1"}', "tool: Field required"),
        (b'{"kind":' * 100_000, "nested too deeply"),
        (b'{"kind": "probe", "a": ' + b"9" * 1000 + b"}", "a number of 1,000 digits"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (json.dumps(PLAIN).encode()[:-100], "is not valid JSON"),
        (changed(None, "decision", remove=True), "decision: Field required"),
        (changed("perhaps", "decision", "action"), "decision.action: "),
        (changed(1.5, "drafts", 0, "by_k", 0, "draft_acceptance_rate"), "drafts.0.by_k.0.draft_acceptance_rate"),
        (changed(float("nan"), "drafts", 0, "acceptance_rate", "value"), "drafts.0.acceptance_rate.value"),
        (changed(float("inf"), "decision", "speedup", "high"), "decision.speedup.high"),
        (changed(257, "drafts", 0, "by_k", 0, "k"), "drafts.0.by_k.0.k"),
        (changed(-1, "drafts", 0, "plan", "num_spec_tokens"), "drafts.0.plan.num_spec_tokens"),
        (changed([], "drafts", 0, "costs", 0, "verify_ms"), "drafts.0.costs.0.verify_ms"),
        (changed([0.0], "drafts", 0, "costs", 0, "verify_ms"), "drafts.0.costs.0.verify_ms"),
        (changed(-1.0, "drafts", 0, "costs", 0, "draft_ms"), "drafts.0.costs.0.draft_ms"),
        (changed(10**200, "num_prompts"), "num_prompts"),
        (changed(10**200, "duration_s"), "duration_s"),
        (changed(11, "drafts", 0, "temperature"), "drafts.0.temperature"),
        (changed("acme", "target"), "target: "),
        (changed(-5, "target", "params_text"), "target.params_text"),
        (changed({}, "models"), "models lacks acme/draft"),
        (changed(-3, "device", "count"), "device.count"),
        (changed(50.0, "drafts", 0, "by_k", 1, "mean_acceptance_length"), "tokens per step at k = 1"),
        (changed(2, "drafts", 0, "by_k", 1, "k"), "does not count 0, 1, 2"),
        (changed("\ud800", "drafts", 0, "draft"), "models lacks ?"),
        (changed(7.0, "drafts", 0, "acceptance_rate", "high"), "no share with its bounds"),
        (changed(7.0, "drafts", 0, "other_proposals", 0, "acceptance_rate", "high"), "no share with its bounds"),
        (changed(9.0, "drafts", 0, "other_proposals", 0, "mean_acceptance_lengths", 0, "high"), "tokens per step"),
        (changed(0.1, "drafts", 0, "acceptance_rate", "high"), "between its bounds"),
        (changed(1.0, "drafts", 0, "acceptance_rate", "level"), "level of 1"),
        (changed(1e300, "drafts", 0, "costs", 0, "c"), "drafts.0.costs.0.c"),
        (changed({}, "models", "x\n" + "y" * 10_000), "models.x"),
        (changed([1], "drafts"), "drafts.0"),
        (changed("x", "trace"), "trace"),
    ],
)
def test_a_broken_probe_is_told_by_its_field(content: bytes, said: str, tmp_path: Path) -> None:
    path = placed(tmp_path, content)
    with pytest.raises(InvalidFile) as caught:
        read_probe(path)
    error = caught.value
    assert error.exit_code == 2
    assert str(path) in error.message
    assert said in error.message
    assert error.hint
    assert "\n" not in error.message
    assert len(error.message) < 700


@pytest.mark.parametrize("name", ["gone.json", "."])
def test_what_is_no_file_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile):
        read_probe(tmp_path / name)


LEAVES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2))


@given(st.sampled_from(sorted(PLAIN)), VALUES)
@LAW
def test_no_value_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, name: str, value: Any) -> None:
    path = placed(tmp_path_factory.mktemp("p"), changed(value, name))
    try:
        found = read_probe(path)
    except DraftpickError:
        return
    assert read_probe(placed(path.parent, to_text(found).encode())) == found


# ---------------------------------------------------------------------- the trace beside it


def probe_with(trace: Any) -> ProbeFile:
    return ProbeFile.model_validate({**PLAIN, "trace": trace})


def test_the_trace_beside_a_probe_belongs_to_it(tmp_path: Path) -> None:
    path, trace = tmp_path / "probe.json", tmp_path / "trace.jsonl"
    probe = ProbeFile.model_validate(PLAIN)
    assert trace_of(probe, path) is None
    trace.write_bytes(b"trace")
    assert trace_of(probe, path) == trace
    assert probe.trace is not None
    assert sha256(trace) == probe.trace.sha256
    assert trace_of(probe_with(None), path) is None


def grown(trace: Path) -> None:
    trace.write_bytes(b"trace\n")


def flipped(trace: Path) -> None:
    trace.write_bytes(b"tracf")


def emptied(trace: Path) -> None:
    trace.write_bytes(b"")


@pytest.mark.parametrize("spoil", [grown, flipped, emptied])
def test_another_trace_is_told(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    spoil(tmp_path / "trace.jsonl")
    with pytest.raises(InvalidFile, match=r"is not the trace that .* was made from") as caught:
        trace_of(ProbeFile.model_validate(PLAIN), tmp_path / "probe.json")
    assert str(tmp_path / "trace.jsonl") in caught.value.message
    assert "take the trace away" in caught.value.hint


def test_a_trace_may_lie_elsewhere_and_nothing_but_that_file_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "probes"
    folder.mkdir()
    (tmp_path / "trace.jsonl").write_text("{}\n")
    digest = sha256(tmp_path / "trace.jsonl")
    saved = folder / "probe.json"
    assert trace_of(probe_with({"path": "../trace.jsonl", "sha256": digest}), saved) == folder / "../trace.jsonl"
    with pytest.raises(InvalidFile, match="is not the trace"):
        trace_of(probe_with({"path": "/etc/passwd", "sha256": digest}), saved)


@pytest.mark.parametrize("name", ["", ".", "gone", "a\0b", "x" * 5000])
def test_a_trace_that_is_no_file_is_gone(name: str, tmp_path: Path) -> None:
    assert trace_of(probe_with({"path": name, "sha256": "x"}), tmp_path / "probe.json") is None


# ---------------------------------------------------------------------- given costs

GIVEN: dict[str, Any] = {"target_ms": 10, "draft_ms": 1, "verify_ms": [10, 11, 12]}


@pytest.mark.parametrize(
    "more", [{}, {"draft_first_ms": 2, "overhead_ms": 0.5, "software": "vllm"}, {"draft_ms": 0}], ids=repr
)
def test_given_costs_are_read(more: dict[str, Any], tmp_path: Path) -> None:
    found = read_costs(placed(tmp_path, json.dumps({**GIVEN, **more}).encode()))
    assert (found.target_ms, found.verify_ms) == (10, [10, 11, 12])
    assert found.draft_first_ms == more.get("draft_first_ms")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_ms": 0}, "target_ms"),
        ({"target_ms": 1e-300, "verify_ms": [1e-300, 1]}, "target_ms"),
        ({"target_ms": float("nan")}, "target_ms"),
        ({"target_ms": "fast"}, "target_ms"),
        ({"draft_ms": -1}, "draft_ms"),
        ({"draft_ms": float("inf")}, "draft_ms"),
        ({"verify_ms": [10]}, "verify_ms"),
        ({"verify_ms": 10}, "verify_ms"),
        ({"verify_ms": [10] * 300}, "verify_ms"),
        ({"verify_ms": [10, 0]}, "verify_ms.1"),
        ({"verfy_ms": [10, 11]}, "verfy_ms"),
        ({"overhead_ms": None}, "overhead_ms"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_costs_that_cannot_be_are_told(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=said) as caught:
        read_costs(placed(tmp_path, json.dumps({**GIVEN, **changes}).encode()))
    assert "verify_ms" in caught.value.hint


@pytest.mark.parametrize("target", [1e-6, 999_999_999.9999999])
@pytest.mark.parametrize("draft", [0, 1e-300, 9e8])
@pytest.mark.parametrize("verify", [1e-6, 9e8])
def test_costs_at_their_bounds_fit_the_probe_that_is_made_with_them(
    target: float, draft: float, verify: float, tmp_path: Path
) -> None:
    text = json.dumps({"target_ms": target, "draft_ms": draft, "verify_ms": [target, verify]})
    assert given_costs(times_in(placed(tmp_path, text.encode()))).c == pytest.approx(draft / target)


def test_costs_that_contradict_themselves_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"verify_ms begins with 11\.0, target_ms is 10\.0"):
        read_costs(placed(tmp_path, json.dumps({**GIVEN, "verify_ms": [11, 12]}).encode()))
