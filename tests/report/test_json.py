"""The JSON document that others build on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from answers import DOCUMENTED, FITS, answer, candidate, checked, compare_document, drafted, recommended
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick import __version__
from draftpick.advice import Advice
from draftpick.assess import Assessment
from draftpick.pair import Proposal, Setting
from draftpick.report.json import document
from draftpick.report.text import json_text


def render(advice: Advice) -> str:
    return json_text(document(advice))


NAMED: dict[str, Any] = {
    "schema_version": "1",
    "tool": {"name", "version"},
    "target": {"id", "params_total", "params_active"},
    "device": {"id", "count", "memory_bytes"},
    "engine": {"id", "version"},
    "workload": set(),
    "decision": {"action", "method", "draft", "num_spec_tokens", "speedup", "evidence", "sentence"},
}
CANDIDATE = {
    "rank", "draft", "method", "viable", "score", "coverage", "findings", "acceptance", "cost", "plan", "memory",
    "engines",
}  # fmt: skip
INNER = {
    "acceptance": {"rate", "low", "high", "source"},
    "cost": {"c", "target_ms", "draft_ms", "verify_ms", "ttft_overhead_ms", "source"},
    "plan": {"num_spec_tokens", "mean_acceptance_length", "speedup", "by_k", "schedule"},
    "memory": {
        "fits", "per_device_bytes", "max_num_seqs", "max_num_seqs_without_draft", "min_tensor_parallel_size",
        "tensor_parallel_size",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", [*DOCUMENTED])
def test_the_whole_document(name: str) -> None:
    compare_document(f"{name}.json", render(DOCUMENTED[name]()) + "\n")


def test_every_key_that_others_build_on_is_there() -> None:
    found = document(recommended())
    assert found["schema_version"] == "1"
    assert found["tool"]["version"] == __version__
    for key, inner in NAMED.items():
        assert key in found
        assert not isinstance(inner, set) or inner <= set(found[key]), key
    for candidate_ in found["candidates"]:
        assert set(candidate_) >= CANDIDATE
        for key, inner in INNER.items():
            assert candidate_[key] is None or inner <= set(candidate_[key]), key
        for finding in candidate_["findings"]:
            assert {"rule", "outcome", "message", "evidence"} <= set(finding)
            assert finding["outcome"] in ("ok", "warn", "reject", "skip")
        for verdict in candidate_["engines"].values():
            assert verdict["verdict"] in ("accepted", "care", "refused", "unknown")
            assert isinstance(verdict["reasons"], list)


def test_what_was_not_asked_for_is_null() -> None:
    found = document(answer(candidate(drafted("maker/Toy-2-7B", 7))))
    assert (found["device"], found["engine"]) == (None, None)
    assert found["workload"]["max_model_len"] is None
    assert (found["decision"]["speedup"], found["decision"]["num_spec_tokens"]) == (None, None)


def test_candidates_stand_in_the_order_of_rank() -> None:
    found = document(recommended())["candidates"]
    assert [one["rank"] for one in found] == list(range(1, len(found) + 1))
    viable = [one["viable"] for one in found]
    assert viable == sorted(viable, reverse=True)
    assert False in viable, "rejected ones stay"


def test_the_decision_is_the_first_candidate() -> None:
    found = document(recommended())
    first = found["candidates"][0]
    assert (found["decision"]["action"], found["decision"]["draft"]) == ("speculate", first["draft"])
    assert found["decision"]["method"] == first["method"]
    assert found["decision"]["evidence"] == "roofline"


def test_check_has_one_candidate() -> None:
    found = document(checked())
    assert [one["draft"] for one in found["candidates"]] == ["maker/Toy-3-7B"]
    assert found["decision"]["action"] == "do_not_speculate"
    assert found["candidates"][0]["tokenizer"]["first_difference"] == {"id": 7, "target": "a", "draft": "|"}


def test_draft_free_methods_have_no_draft_and_decide_nothing() -> None:
    free = [candidate(Proposal(method, "always"), (), score=0) for method in ("ngram", "suffix")]
    found = document(answer(*free))
    assert [(one["draft"], one["model"], one["viable"]) for one in found["candidates"]] == [(None, None, True)] * 2
    assert found["decision"]["draft"] is None
    assert found["decision"]["action"] != "speculate"
    assert answer(*free).exit_code == 1


def test_an_ignored_finding_keeps_its_reason() -> None:
    second = next(one for one in document(recommended())["candidates"] if one["draft"] == "maker/Toy-2-35B-Instruct")
    ignored = [finding for finding in second["findings"] if "ignored_because" in finding]
    assert [(finding["rule"], finding["ignored_because"]) for finding in ignored] == [("licence", "for tests")]


@settings(deadline=None, max_examples=60)
@given(st.text(min_size=1), st.text(), st.integers(0, 2**63), st.booleans())
def test_any_name_and_message_makes_a_valid_document(name: str, message: str, number: int, flag: bool) -> None:
    findings = (FITS[0]._replace(message=message, evidence={name: [number, flag, None, message]}),)
    found: Assessment = candidate(drafted(name, 7), findings)
    text = render(answer(found, setting=Setting(max_model_len=number)))
    read = json.loads(text.encode("utf-8", "backslashreplace"))
    assert read["candidates"][0]["draft"] == name
    assert read["candidates"][0]["findings"][0]["message"] == message


def test_it_is_the_same_from_run_to_run() -> None:
    assert render(recommended()) == render(recommended())
