"""The decision: what it says, and that it says no more than is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run

from draftpick.advice import Advice, check, recommend, why
from draftpick.assess import assess
from draftpick.catalog import load
from draftpick.choices import RuleChoices
from draftpick.decision import num_spec_tokens, why_not
from draftpick.errors import NotResolvable
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Proposal, Setting

CATALOG = load()
TARGET, DRAFT, SMALL = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
OTHER, WITH_HEAD = "Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V3"


def find(name: str) -> ModelProfile:
    found = CATALOG.find(name)
    if found is None:
        raise NotResolvable(name)
    return found


def setting(engine: str | None = None, **more: Any) -> Setting:
    return Setting(engine=CATALOG.engine(engine) if engine else None, **more)


def advised(target: str, engine: str | None = None, drafts: tuple[str, ...] = (), **more: Any) -> Advice:
    return recommend(find(target), setting(engine, **more), CATALOG, find, drafts=drafts)


def checked(target: str, draft: str, engine: str | None = None, choices: RuleChoices | None = None) -> Advice:
    return check(find(target), draft, setting(engine), CATALOG, find, choices)


def test_the_decision_is_the_best_viable_draft() -> None:
    advice = advised(TARGET, "vllm-ascend")
    best, decision = advice.viable[0], advice.decision
    assert (decision.action, decision.draft, decision.method) == ("speculate", best.proposal.id, "draft_model")
    assert decision.sentence.startswith(f"Put {best.proposal.id} in front of {TARGET} as draft model in vllm-ascend")
    assert best.prediction is not None
    assert (decision.evidence, decision.num_spec_tokens) == ("roofline", best.prediction.plan.num_spec_tokens)
    assert "predicted, nothing was measured" in decision.sentence
    assert "assumed, as no device was named" in decision.sentence


def test_an_engine_is_named_where_none_was_asked_for() -> None:
    advice = advised(TARGET)
    verdict = advice.viable[0].verdict
    assert verdict is not None
    assert f" in {verdict.engine}" in advice.decision.sentence


@pytest.mark.parametrize(
    ("target", "engine", "drafts", "code"),
    [
        (TARGET, None, (), 0),
        (TARGET, "vllm-ascend", (DRAFT,), 0),
        (TARGET, "vllm-ascend", (SMALL,), 1),
        (TARGET, "mindie", (), 1),
        (TARGET, None, (OTHER,), 1),
        (WITH_HEAD, "vllm", (), 0),
    ],
)
def test_something_viable_is_0_and_nothing_is_1(
    target: str, engine: str | None, drafts: tuple[str, ...], code: int
) -> None:
    advice = advised(target, engine, drafts)
    assert advice.exit_code == code
    assert bool(advice.viable) is (code == 0)
    assert advice.decision.action == ("speculate" if code == 0 else "undecided")


def test_an_empty_answer_says_what_else_could_be_done() -> None:
    sentence = advised(TARGET, "llama.cpp", (OTHER,)).decision.sentence
    assert "None of the 1 drafts looked at fits" in sentence
    assert "in llama.cpp" in sentence
    assert "n-gram lookup" in sentence


def test_draft_free_methods_never_decide() -> None:
    advice = advised(TARGET, None, (OTHER,))
    assert [found.proposal.method for found in advice.draft_free] == ["ngram", "suffix"]
    assert not {found.proposal.method for found in [*advice.viable, *advice.rejected]} & DRAFT_FREE
    assert (advice.decision.method, advice.decision.draft) == (None, None)


def test_the_own_head_tells_that_no_draft_is_needed() -> None:
    advice = advised(WITH_HEAD)
    assert (advice.decision.method, advice.decision.draft, advice.decision.num_spec_tokens) == ("mtp", None, 3)
    assert "a separate draft model is not what to look for" in advice.decision.sentence


def test_a_head_is_called_a_head() -> None:
    decision = advised(WITH_HEAD, None, ("lmsys/DeepSeek-V3-NextN",)).decision
    assert "as mtp head" in decision.sentence


def test_check_says_no_with_the_reason() -> None:
    advice = checked(TARGET, OTHER)
    assert advice.decision.action == "do_not_speculate"
    assert advice.decision.sentence == f"Do not put {OTHER} in front of {TARGET}: {why_not(advice.assessments[0])}"
    assert "vocabularies differ" in advice.decision.sentence
    refused = checked(TARGET, SMALL, "vllm-ascend").decision.sentence
    assert "vllm-ascend" in refused
    assert "152,064 embedding rows against 151,936" in refused


def test_ignoring_the_reason_changes_the_answer_and_not_the_finding() -> None:
    ignored = RuleChoices().with_options(ignore=["tokenizer-identity=an experiment", "swapped-roles=an experiment"])
    advice = checked("meta-llama/Llama-2-7b-hf", "mistralai/Mistral-7B-v0.1", choices=ignored)
    assert advice.viable
    said = {finding.rule: finding for finding in advice.assessments[0].findings}["tokenizer-identity"]
    assert (said.outcome, said.ignored_because) == ("reject", "an experiment")


def test_a_draft_that_was_never_compared_is_no_advice_to_speculate() -> None:
    target = find(TARGET).with_changes(id="acme/target", tokenizer=None)
    advice = check(target, DRAFT, setting("vllm"), CATALOG, find)
    assert advice.decision.action == "undecided"
    assert "compare the two tokenizers first" in advice.decision.sentence


# ---------------------------------------------------------------------- k and reasons


@pytest.mark.parametrize(
    ("proposal", "asked", "k"),
    [
        (Proposal("mtp", "target"), None, 1),
        (Proposal("mtp", "target"), 3, 3),
        (Proposal("draft_model", "given", draft=find(DRAFT)), None, None),
        (Proposal("draft_model", "given", draft=find(DRAFT)), 4, 4),
        (Proposal("ngram", "always"), None, None),
    ],
)
def test_k_is_what_was_asked_or_a_fact_of_the_method(proposal: Proposal, asked: int | None, k: int | None) -> None:
    found = assess(find(WITH_HEAD), proposal, setting(num_spec_tokens=asked), CATALOG)
    assert num_spec_tokens(found) == k


def test_the_reason_is_the_weightiest() -> None:
    for found in advised(TARGET, "vllm-ascend").assessments:
        reason = why(found)
        assert reason, found.proposal.label
        if found.rejections:
            assert reason == max(found.rejections, key=lambda finding: finding.weight).message
        elif not found.viable:
            assert reason.startswith("vllm-ascend ")
        else:
            assert why_not(found) == ""


def test_those_that_need_no_draft_say_where_they_pay() -> None:
    reasons = {found.proposal.method: why(found) for found in advised(TARGET).draft_free}
    assert all(reason.startswith("Needs no draft") for reason in reasons.values())


def test_a_target_without_tokenizer_is_not_led_by_what_has_another(tmp_path: Path) -> None:
    """Rows that differ are certain, rows that agree are not: what may fit comes before what cannot be predicted."""
    shape = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600,
        "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151_936, "max_position_embeddings": 40_960, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    answer = run("recommend", str(tmp_path), "--engine", "vllm", "--device", "h100-80g", "-tp", "2", "--json")
    first = answer.document["candidates"][0]
    assert first["plan"]["speedup"]["value"] > 1
    sentence = answer.document["decision"]["sentence"]
    assert "compare the two tokenizers first (what is predicted holds only if they agree)" in sentence


@pytest.mark.parametrize(("engine", "refused"), [("sglang", True), ("vllm", True), ("transformers", False)])
def test_heads_that_do_not_divide_refuse_a_draft_where_it_is_split_as_its_target(engine: str, refused: bool) -> None:
    pair = ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
    answer = run("check", *pair, "--engine", engine, "--device", "h100-80g", "-tp", "8", "--json", "--exit-zero")
    (candidate,) = answer.document["candidates"]
    found = {finding["rule"]: finding["outcome"] for finding in candidate["findings"]}
    assert found["tensor-parallel"] == ("reject" if refused else "skip")


@pytest.mark.parametrize("version", ["latest", "main", "99", "0.32.0"])
def test_newest_versions_split_drafts_as_the_facts_say(version: str) -> None:
    """A version that is judged by the newest facts is so in the rules too."""
    pair = ("Qwen/Qwen2.5-72B-Instruct", "amd/PARD-Qwen2.5-0.5B")
    answer = run(
        "check", *pair, "--engine", f"vllm@{version}", "--device", "h100-80g", "-tp", "4", "--json", "--exit-zero"
    )
    found = {finding["rule"]: finding["outcome"] for finding in answer.document["candidates"][0]["findings"]}
    assert found["tensor-parallel"] == "reject"


def test_layers_over_devices_need_no_heads_that_divide() -> None:
    options = ("--engine", "llama.cpp", "--device", "rtx3090", "--quantization", "q4_k_m", "-tp", "3", "--json")
    first = run("recommend", "meta-llama/Llama-3.3-70B-Instruct", *options).document["candidates"][0]
    assert first["viable"]
    assert first["plan"]["num_spec_tokens"] >= 1


def test_rows_that_take_more_memory_than_others_say_so() -> None:
    rows = run("recommend", "Qwen/Qwen3.5-27B", "--engine", "vllm-ascend", "--device", "910b3", "--json").document[
        "candidates"
    ]
    said = {row["draft"]: row["reason"] for row in rows}
    assert said["z-lab/Qwen3.5-27B-DFlash"] == "It takes 2 × 910b3, more than other drafts do."
    assert said["Qwen/Qwen3.8-Flash-Next"] == "It does not fit on 1 × 910b3."


def test_a_draft_stored_whole_is_told_how_it_takes_less() -> None:
    pair = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct")
    options = ("--engine", "llama.cpp", "--device", "rtx3060", "--quantization", "q4_k_m", "--json", "--exit-zero")
    sentence = run("check", *pair, *options).document["decision"]["sentence"]
    assert sentence.endswith("fewer with --draft-quantization q4_k_m.")
