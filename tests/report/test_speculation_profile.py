"""The speculation profile, by the rules of those who write and read that format."""

from __future__ import annotations

import json
import math
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_documents import HISTOGRAM, draft, probe

from draftpick.errors import NotResolvable, UsageError
from draftpick.probe_file import ProbeFile
from draftpick.report.speculation_profile import render

LAW = settings(deadline=None, max_examples=60)
HISTOGRAMS = st.lists(st.integers(0, 10_000), min_size=2, max_size=12).filter(any)

# What build_profile of specdec_bench writes, and `producer`, which ar_validate adds.
KEYS = [
    "schema_version", "measured", "producer", "method", "draft_checkpoint", "target_model", "num_speculative_tokens",
    "block_size", "max_supported_k", "verification_method", "conditional_accept_rates", "marginal_accept_rates",
    "mean_accept_length", "mean_accept_length_per_request", "accept_length_model", "accept_length_by_k",
    "acceptance_length_histogram", "per_category", "measurement_conditions", "validation",
]  # fmt: skip


def profile(document: ProbeFile, *asked: Any) -> dict[str, Any]:
    found = json.loads(render(document, *asked))
    assert isinstance(found, dict), "the exporter refuses anything else"
    return found


def test_it_has_the_keys_of_schema_1_0() -> None:
    found = profile(probe())
    assert list(found) == KEYS
    assert (found["schema_version"], found["measured"], found["method"]) == ("1.0", True, "draft_model")
    assert found["producer"].startswith("draftpick ")
    assert (found["verification_method"], found["accept_length_model"]) == ("longest_prefix", "chain_analytic")
    assert list(found["validation"]) == ["mean_consistency", "marginal_monotonicity"]


def test_position_i_is_length_i_plus_2() -> None:
    """Lengths count the target's own token: a step of length 1 accepted nothing."""
    found = profile(probe())
    assert found["acceptance_length_histogram"] == {"1": 40, "2": 30, "3": 20, "4": 10}
    assert found["marginal_accept_rates"] == [0.6, 0.3, 0.1]
    assert found["conditional_accept_rates"] == [0.6, 0.5, 0.333333]
    assert found["mean_accept_length"] == 2.0
    assert found["accept_length_by_k"] == {"1": 1.6, "2": 1.9, "3": 2.0}
    assert (found["num_speculative_tokens"], found["max_supported_k"]) == (3, 3)


@LAW
@given(HISTOGRAMS)
def test_the_vectors_are_those_of_the_histogram(counts: list[int]) -> None:
    found = profile(probe(draft(histogram=counts)))
    lengths = {int(length): count for length, count in found["acceptance_length_histogram"].items()}
    total = sum(lengths.values())
    marginal, conditional = found["marginal_accept_rates"], found["conditional_accept_rates"]
    assert len(marginal) == len(conditional) == found["num_speculative_tokens"] == len(counts) - 1
    for place in range(len(marginal)):
        long_enough, before = (sum(n for length, n in lengths.items() if length >= place + add) for add in (2, 1))
        assert marginal[place] == pytest.approx(long_enough / total, abs=1e-6)
        assert conditional[place] == pytest.approx(long_enough / before if before else 0.0, abs=1e-6)
    mean = sum(length * count for length, count in lengths.items()) / total
    assert found["mean_accept_length"] == pytest.approx(mean, abs=1e-6)
    assert found["accept_length_by_k"][str(len(marginal))] == found["mean_accept_length"]


@LAW
@given(HISTOGRAMS)
def test_what_its_readers_need_holds(counts: list[int]) -> None:
    """Probabilities that never rise (vLLM's sampler), whose products belong together, and the mean that they imply."""
    found = profile(probe(draft(histogram=counts)))
    marginal, conditional = found["marginal_accept_rates"], found["conditional_accept_rates"]
    assert all(0 <= rate <= 1 and math.isfinite(rate) for rate in (*marginal, *conditional))
    assert all(after <= before for before, after in pairwise(marginal))
    assert list(accumulate(conditional, mul)) == pytest.approx(marginal, abs=1e-4)
    assert 1 + sum(marginal) == pytest.approx(found["mean_accept_length"], abs=1e-4)
    assert found["validation"]["mean_consistency"]["passed"]
    assert found["validation"]["marginal_monotonicity"] == {"passed": True, "violations": []}


def test_a_document_that_disagrees_with_itself_says_so() -> None:
    one = draft()
    one["position_rates"]["marginal"] = [0.6, 0.3, 0.35]
    found = profile(probe(one))["validation"]
    assert found["mean_consistency"] == {
        "implied_mean_accept_length": 2.25,
        "reported_mean_accept_length": 2.0,
        "abs_delta": 0.25,
        "tolerance": 0.02,
        "passed": False,
    }
    assert found["marginal_monotonicity"] == {
        "passed": False,
        "violations": [{"position": 2, "value": 0.35, "previous": 0.3}],
    }


def test_block_verification_withholds_the_vectors() -> None:
    found = profile(probe(draft(way="sampled_block")))
    assert found["verification_method"] == "block"
    assert (found["conditional_accept_rates"], found["marginal_accept_rates"]) == (None, None)
    assert "longest-prefix" in found["vectors_unavailable_reason"]
    assert found["acceptance_length_histogram"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("acme/draft", "acme/draft"),
        ("/home/somebody/models/acme/draft", "acme/draft"),
        ("C:\\models\\acme\\draft", "acme/draft"),
        ("draft.gguf", "draft.gguf"),
    ],
)
def test_it_tells_what_was_measured_and_not_where_it_lies(name: str, shown: str) -> None:
    found = profile(probe(draft(name), target="/models/acme/target"))
    assert found["draft_checkpoint"] == {"id": shown}
    assert found["target_model"] == {"id": "acme/target", "revision": "a" * 40}
    assert found["measurement_conditions"]["temperature"] == 0.0
    assert "home" not in json.dumps(found)


def test_the_draft_decided_for_is_taken_or_else_the_first() -> None:
    drafts = [draft("acme/one", 0.8), draft("acme/one", 0.0), draft("acme/two", 0.0, (1, 1))]
    assert profile(probe(*drafts))["draft_checkpoint"] == {"id": "acme/one"}
    assert profile(probe(*drafts))["measurement_conditions"]["temperature"] == 0.8
    assert profile(probe(*drafts, decided="acme/two"))["num_speculative_tokens"] == 1
    asked = profile(probe(*drafts, decided="acme/two"), "acme/one", 0.0)
    assert (asked["draft_checkpoint"]["id"], asked["measurement_conditions"]["temperature"]) == ("acme/one", 0.0)


@pytest.mark.parametrize("asked", [("acme/none",), ("acme/draft", 0.7), (None, 0.7)])
def test_what_was_not_measured_is_refused(asked: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="holds no measurement of") as refused:
        render(probe(), *asked)
    assert "acme/draft at temperature 0" in refused.value.hint


@pytest.mark.parametrize("changes", [{"by_k": []}, {"histogram": HISTOGRAM[:1]}], ids=["no k", "k = 0 alone"])
def test_without_a_block_nothing_was_measured(changes: dict[str, Any]) -> None:
    with pytest.raises(NotResolvable, match="long enough"):
        render(probe(draft(priced=False, **changes)))
