"""Assessing and ranking: laws that hold whatever is judged, and the cases that decide an order."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick import advice
from draftpick.assess import Assessment, assess, rank, relate
from draftpick.candidates import draft_free, search
from draftpick.catalog import load
from draftpick.errors import NotResolvable
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Proposal, Setting

CATALOG = load()
LAW = settings(deadline=None, max_examples=60)
TARGETS = ("Qwen/Qwen2.5-72B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "deepseek-ai/DeepSeek-V3")


def profile(name: str) -> ModelProfile:
    found = CATALOG.find(name)
    assert found is not None
    return found


def find(name: str) -> ModelProfile:
    found = CATALOG.find(name)
    if found is None:
        raise NotResolvable(name)
    return found


@cache
def judged(target: str, engine: str | None) -> tuple[Assessment, ...]:
    """All candidates of a target, in the order in which they were found."""
    ours = profile(target)
    setting = Setting(engine=CATALOG.engine(engine) if engine else None)
    proposals = [*search(ours, CATALOG).proposals, *draft_free()]
    return tuple(assess(ours, proposal, setting, CATALOG) for proposal in proposals)


def pairing(target: str, draft: str, engine: str | None = None) -> Assessment:
    setting = Setting(engine=CATALOG.engine(engine) if engine else None)
    return assess(profile(target), Proposal("draft_model", "given", draft=profile(draft)), setting, CATALOG)


questions = st.tuples(st.sampled_from(TARGETS), st.sampled_from([None, "vllm", "vllm-ascend", "llama.cpp", "mindie"]))


def labels(assessments: list[Assessment]) -> list[str]:
    return [found.proposal.label for found in assessments]


# ---------------------------------------------------------------------- laws


@LAW
@given(questions, st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(question: tuple[str, str | None], random: object) -> None:
    found = list(judged(*question))
    wanted = labels(rank(found))
    random.shuffle(found)  # type: ignore[attr-defined]
    assert labels(rank(found)) == wanted


@LAW
@given(questions, st.data())
def test_a_rejected_candidate_never_changes_the_order_of_the_others(
    question: tuple[str, str | None], data: st.DataObject
) -> None:
    found = list(judged(*question))
    rejected = [one.proposal.label for one in found if not one.viable]
    gone = set(data.draw(st.lists(st.sampled_from(rejected or ["-"]), unique=True)))
    kept = [one for one in found if one.proposal.label not in gone]
    assert labels(rank(kept)) == [label for label in labels(rank(found)) if label not in gone]


@LAW
@given(questions)
def test_viable_ones_stand_before_rejected_ones(question: tuple[str, str | None]) -> None:
    viable = [found.viable for found in rank(judged(*question))]
    assert viable == sorted(viable, reverse=True)


@LAW
@given(questions)
def test_all_that_went_in_comes_out(question: tuple[str, str | None]) -> None:
    found = judged(*question)
    assert sorted(labels(rank(found))) == sorted(labels(list(found)))
    for one in found:
        assert 0 <= one.score <= 100
        assert 0 <= one.coverage <= 1
        assert set(one.engines.all) == set(CATALOG.engines)
        assert one.viable == (
            not one.rejections and (one.engines.taken_by is not None and one.engines.taken_by.verdict != "refused")
        )


@LAW
@given(st.permutations(["Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-8B"]))
def test_the_order_of_named_drafts_does_not_matter(drafts: list[str]) -> None:
    def ranked(names: list[str]) -> list[str]:
        where = Setting(engine=CATALOG.engine("vllm-ascend"))
        return labels(list(advice.recommend(profile(TARGETS[0]), where, CATALOG, find, drafts=names).assessments))

    assert ranked(drafts) == ranked(sorted(drafts))


# ---------------------------------------------------------------------- order


def test_the_own_head_comes_first() -> None:
    first = rank(judged("deepseek-ai/DeepSeek-V3", "vllm"))[0]
    assert (first.proposal.method, first.proposal.origin) == ("mtp", "target")


def test_what_needs_no_draft_stands_behind_the_viable_drafts() -> None:
    ranked = rank(judged(TARGETS[0], "vllm-ascend"))
    free = [place for place, found in enumerate(ranked) if found.proposal.method in DRAFT_FREE]
    viable = [place for place, found in enumerate(ranked) if found.viable and found.proposal.method not in DRAFT_FREE]
    assert max(viable) < min(free)
    assert labels(ranked)[min(free) : max(free) + 1] == ["n-gram lookup", "suffix decoding"]


# ---------------------------------------------------------------------- viability


@pytest.mark.parametrize(
    ("draft", "engine", "viable"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", None, True),
        ("Qwen/Qwen2.5-7B-Instruct", "vllm-ascend", True),
        ("Qwen/Qwen2.5-7B-Instruct", "mindie", False),
        ("Qwen/Qwen2.5-0.5B-Instruct", None, True),
        ("Qwen/Qwen2.5-0.5B-Instruct", "vllm-ascend", False),
        ("Qwen/Qwen2.5-0.5B-Instruct", "llama.cpp", True),
        ("Qwen/Qwen3.5-27B", None, False),
        ("Qwen/Qwen2.5-72B-Instruct", None, False),
    ],
)
def test_viable_means_that_nothing_rejects_and_an_engine_takes_it(draft: str, engine: str | None, viable: bool) -> None:
    assert pairing(TARGETS[0], draft, engine).viable is viable


def test_the_verdict_is_that_of_the_engine_asked_for() -> None:
    refused = pairing(TARGETS[0], "Qwen/Qwen2.5-0.5B-Instruct", "vllm-ascend").verdict
    assert refused is not None
    assert (refused.engine, refused.verdict) == ("vllm-ascend", "refused")
    chosen = pairing(TARGETS[0], "Qwen/Qwen2.5-7B-Instruct").verdict
    assert chosen is not None
    assert (chosen.engine, chosen.verdict) == ("vllm", "accepted")


def test_an_asked_version_is_the_one_judged() -> None:
    setting = Setting(engine=CATALOG.engine("vllm-ascend@0.7.1"))
    draft = Proposal("draft_model", "given", draft=profile("Qwen/Qwen2.5-7B-Instruct"))
    found = assess(profile(TARGETS[0]), draft, setting, CATALOG)
    assert found.engines.all["vllm-ascend"].version == "0.7.1"
    assert found.engines.all["vllm-ascend"] == found.engines.asked
    assert found.engines.all["vllm"].version == CATALOG.engine("vllm").version


# ---------------------------------------------------------------------- relations


def test_no_tokenizer_no_relation_unless_rows_tell() -> None:
    target, draft = profile(TARGETS[0]), profile("Qwen/Qwen2.5-7B-Instruct")
    blind = draft.with_changes(tokenizer=None)
    assert relate(target, Proposal("ngram", "always"), CATALOG) is None
    assert relate(target, Proposal("draft_model", "given", draft=blind), CATALOG) is None
    far = relate(target, Proposal("draft_model", "given", draft=blind.with_changes(vocab_size=32000)), CATALOG)
    assert far is not None
    assert (far.kind, far.verified) == ("different", False)
    assert "32,000" in far.reason


def test_relations_of_two_records_name_the_first_difference() -> None:
    found = pairing("meta-llama/Llama-2-7b-hf", "mistralai/Mistral-7B-v0.1").relation
    assert found is not None
    assert found.kind == "different"
    assert found.first_difference is not None
    assert (found.first_difference.id, found.first_difference.target) == (260, " t")


def test_a_relation_is_the_mirror_of_its_opposite() -> None:
    one = pairing("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen3-0.6B").relation
    other = pairing("Qwen/Qwen3-32B", "Qwen/Qwen2.5-0.5B-Instruct").relation
    assert one is not None
    assert other is not None
    assert (one.kind, one.only_target, one.only_draft) == (other.kind, other.only_draft, other.only_target)
