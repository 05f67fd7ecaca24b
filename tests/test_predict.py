"""What a pair is predicted to gain, where, and how the answer ranks and decides by it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.acceptance import WORKLOADS
from draftpick.advice import Advice, check, recommend
from draftpick.catalog import load
from draftpick.choices import REFERENCE_DEVICE, REFERENCE_DEVICES
from draftpick.errors import NotResolvable
from draftpick.models.profile import ModelProfile
from draftpick.pair import DRAFT_FREE, Setting
from draftpick.predict import Prediction, Predictor
from draftpick.report.text import method_note

CATALOG = load()
LARGE, SMALL, SMALLER = "Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"
SPARSE, SPARSE_DRAFT = "openai/gpt-oss-120b", "openai/gpt-oss-20b"


def find(name: str) -> ModelProfile:
    found = CATALOG.find(name)
    if found is None:
        raise NotResolvable(name)
    return found


def setting(engine: str | None = None, device: str | None = None, **more: Any) -> Setting:
    return Setting(
        engine=CATALOG.engine(engine) if engine else None, device=CATALOG.device(device) if device else None, **more
    )


def checked(target: str, draft: str, engine: str | None = None, device: str | None = None, **more: Any) -> Advice:
    return check(find(target), draft, setting(engine, device, **more), CATALOG, find)


def predicted(*pair: str, **more: Any) -> Prediction:
    found = checked(*pair, **more).assessments[0].prediction
    assert found is not None
    return found


def speedup(*pair: str, **more: Any) -> float:
    row = predicted(*pair, **more).plan.drafting
    assert row is not None
    return row.speedup


# ---------------------------------------------------------------------- where it holds


@pytest.mark.parametrize("engine", [engine.key for engine in CATALOG.all_engines])
def test_without_a_device_a_reference_one_is_assumed_and_said(engine: str) -> None:
    advice = checked(LARGE, SMALLER, engine)
    found = advice.assessments[0].prediction
    if found is None:
        assert not advice.assessments[0].viable
        return
    assert found.place.assumed
    assert found.place.device.key == REFERENCE_DEVICES.get(engine, REFERENCE_DEVICE)
    assert f"{found.place.device.key} (assumed, as no device was named)" in advice.decision.sentence


@pytest.mark.parametrize(
    ("target", "device", "asked", "taken"),
    [
        pytest.param(LARGE, "h100", 1, 1, id="fits on one"),
        pytest.param("Qwen/Qwen3-32B", "a100-40g", 1, 4, id="takes four with its draft"),
        pytest.param("meta-llama/Llama-3.3-70B-Instruct", "h100", 8, 8, id="more were asked for"),
        pytest.param("meta-llama/Llama-3.3-70B-Instruct", "l40s", 1, 4, id="small devices"),
    ],
)
def test_the_prediction_holds_on_as_many_devices_as_hold_the_target(
    target: str, device: str, asked: int, taken: int
) -> None:
    draft = SMALLER if target == LARGE else "meta-llama/Llama-3.2-1B-Instruct"
    found = predicted(target, draft, "vllm", device, tensor_parallel_size=asked)
    assert found.place.devices == taken


def test_engines_that_split_by_layers_are_no_faster_on_more_devices() -> None:
    one, four = (
        predicted(LARGE, SMALLER, "llama.cpp", "h100", tensor_parallel_size=devices).costs.target for devices in (1, 4)
    )
    assert one == four
    assert predicted(LARGE, SMALLER, "vllm", "h100", tensor_parallel_size=4).costs.target < one


def test_a_bandwidth_and_a_memory_replace_the_device_s_own() -> None:
    own = predicted(LARGE, SMALLER, "vllm", "h100")
    assert own.place.devices == 1
    assert predicted(LARGE, SMALLER, "vllm", "h100", bandwidth=1e12).costs.target > 2 * own.costs.target
    assert predicted(LARGE, SMALLER, "vllm", "h100", memory=40 * 2**30).place.devices == 4


def test_a_published_row_is_predicted_as_the_evaluation_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make eval` judges is what `check` says."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "scripts"))
    fit: Any = importlib.import_module("fit")
    fitted = json.loads(fit.FITTED.read_text(encoding="utf-8"))
    model = {"rate": fitted["rate"], "cost": fitted["cost"], "offsets": {}}
    rows = [row for row in fit.read()[0] if len(row.draftings) == 1 and row.context is None]
    stated = {row.id: row.draftings[0] for row in rows if row.draftings[0].stop == "fixed"}
    assert len(stated) > 20
    for row in rows[:: len(rows) // 40]:
        drafting = row.draftings[0]
        asked = row.pair.setting._replace(
            num_spec_tokens=drafting.num_spec_tokens,
            stop_rule=drafting.stop,
            workload=next((name for name in WORKLOADS if name in row.inputs), None),
        )
        if row.pair.setting.engine.key == "llama.cpp" and drafting.stop == "confidence":
            asked = asked._replace(engine=CATALOG.engine(f"llama.cpp@{fit.OLD_LLAMA_CPP}"), stop_rule=None)
        (found,) = check(row.pair.target, row.draft, asked, CATALOG, find).assessments
        predictor = Predictor(row.pair.target, asked, CATALOG)
        told = predictor.predict(found.pair, row.pair.setting.engine.key)
        assert told is not None
        assert told.plan.speedup.value == pytest.approx(fit.predict(row, model).speedup, rel=1e-6), row.id


# ---------------------------------------------------------------------- laws


@settings(deadline=None, max_examples=60)
@given(
    engine=st.sampled_from(["vllm", "vllm-ascend", "llama.cpp", "transformers", "mlx"]),
    batch=st.integers(1, 64),
    k=st.none() | st.integers(1, 14),
    heat=st.floats(0, 2),
    workload=st.none() | st.sampled_from(WORKLOADS),
    rule=st.none() | st.sampled_from(["fixed", "heuristic", "confidence"]),
)
def test_a_plan_is_sound(
    engine: str, batch: int, k: int | None, heat: float, workload: str | None, rule: str | None
) -> None:
    where = setting(engine, max_num_seqs=batch, num_spec_tokens=k, temperature=heat, workload=workload, stop_rule=rule)
    found = check(find(LARGE), SMALL, where, CATALOG, find).assessments[0]
    if not found.viable:
        return
    assert found.prediction is not None
    plan, rate = found.prediction.plan, found.prediction.acceptance
    assert 0 < rate.low <= rate.rate <= rate.high < 1
    assert plan.by_k[0].speedup == 1
    for row in plan.by_k[1:]:
        assert 1 <= row.mean_acceptance_length <= 31
        assert 0 < row.low < row.speedup < row.high
    if k is not None:
        assert plan.num_spec_tokens == k
        assert plan.fixed
    elif rule != "heuristic":
        assert plan.by_k[plan.num_spec_tokens].speedup >= max(row.speedup for row in plan.by_k) * 0.98 - 1e-9
    assert found.schedule[0][0] == 1
    assert found.schedule[-1][1] == batch


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param({}, {"temperature": 1.0}, id="greedy over sampled"),
        pytest.param({"workload": "code"}, {"workload": "chat"}, id="code over chat"),
        pytest.param({"max_num_seqs": 1}, {"max_num_seqs": 256}, id="one sequence over many"),
        pytest.param({}, {"num_spec_tokens": 12}, id="a chosen length over a long one"),
        pytest.param({}, {"quantization": "fp8"}, id="a large target over one that is read faster"),
        pytest.param({"draft_quantization": "fp8"}, {}, id="a draft that is read faster"),
        pytest.param({"input_len": 200, "output_len": 200}, {"input_len": 30000, "output_len": 200}, id="short texts"),
    ],
)
def test_what_raises_the_gain(better: dict[str, Any], worse: dict[str, Any]) -> None:
    def gain(more: dict[str, Any]) -> float:
        found = predicted(LARGE, SMALL, "vllm", "h100", **more)
        return (
            found.end_to_end.speedup if found.end_to_end is not None else speedup(LARGE, SMALL, "vllm", "h100", **more)
        )

    assert gain(better) > gain(worse)


def test_a_schedule_drafts_less_under_load() -> None:
    found = checked(LARGE, SMALLER, "vllm", "h100", max_num_seqs=512).assessments[0]
    tokens = [k for _, _, k in found.schedule]
    assert len(tokens) > 2
    assert tokens == sorted(tokens, reverse=True)
    assert checked(LARGE, SMALLER, "vllm", "h100").assessments[0].schedule == ()


def test_a_whole_request_gains_less_than_its_decoding() -> None:
    found = predicted(LARGE, SMALLER, "vllm", "h100", input_len=8000, output_len=100)
    assert found.end_to_end is not None
    assert 1 < found.end_to_end.speedup < found.plan.speedup.value
    assert found.end_to_end.total_without == pytest.approx(found.costs.prefill + 100 * found.costs.target)
    assert predicted(LARGE, SMALLER, "vllm", "h100").end_to_end is None


@pytest.mark.parametrize(
    ("target", "method", "most"),
    [
        pytest.param("deepseek-ai/DeepSeek-V3", "mtp", 3, id="one MTP layer, three times"),
        pytest.param("XiaomiMiMo/MiMo-V2-Flash", "mtp", 1, id="one MTP layer of which nobody published more"),
        pytest.param("Qwen/Qwen3-8B", "eagle3", 8, id="a head"),
    ],
)
def test_heads_draft_no_further_than_they_were_trained_or_published_for(target: str, method: str, most: int) -> None:
    found = recommend(find(target), setting("vllm", "h100"), CATALOG, find)
    mine = [one for one in found.viable if one.proposal.method == method and one.prediction is not None]
    assert mine
    for one in mine:
        assert one.prediction is not None
        trained = one.proposal.head.num_spec_tokens if one.proposal.head is not None else None
        assert len(one.prediction.plan.by_k) - 1 <= (trained or most)


@pytest.mark.parametrize(
    ("target", "name", "said", "again"),
    [
        ("deepseek-ai/DeepSeek-V3", "sglang", 3, False),
        ("deepseek-ai/DeepSeek-V3", "vllm-ascend", 2, False),
        ("deepseek-ai/DeepSeek-V3", "mindie", 2, False),
        ("zai-org/GLM-4.6", "sglang", 1, False),
        ("XiaomiMiMo/MiMo-V2-Flash", "sglang", 1, True),
    ],
)
def test_mtp_layers_are_used_again_as_far_as_engine_and_curves_go(
    target: str, name: str, said: int, again: bool
) -> None:
    device = "910b3" if name in ("vllm-ascend", "mindie") else "h200"
    found = recommend(find(target), setting(name, device), CATALOG, find)
    own = next(one for one in found.assessments if one.proposal.origin == "target" and one.proposal.method == "mtp")
    assert own.prediction is not None
    assert (own.prediction.plan.num_spec_tokens, own.prediction.used_once) == (said, again)
    assert ("were not compared" in method_note(own)) is again


@pytest.mark.parametrize("workload", [None, "summarization"])
def test_what_needs_no_draft_is_predicted_for_named_workloads_alone(workload: str | None) -> None:
    found = recommend(find(LARGE), setting("vllm", workload=workload), CATALOG, find, drafts=[SMALLER])
    free = [one for one in found.assessments if one.proposal.method in DRAFT_FREE]
    assert len(free) == 2
    assert {one.proposal.method for one in free if one.prediction is not None} == ({"ngram"} if workload else set())


# ---------------------------------------------------------------------- ranking and deciding


def test_candidates_of_one_engine_stand_in_the_order_of_their_gain() -> None:
    found = recommend(find(LARGE), setting("vllm", "h100"), CATALOG, find).viable
    gains = [round(one.expected_speedup, 2) for one in found if not one.ids_unknown and not one.misfits]
    assert len(gains) > 20
    assert gains == sorted(gains, reverse=True)


def test_without_an_engine_speed_ups_are_compared_within_one() -> None:
    found = recommend(find("Qwen/Qwen2.5-72B-Instruct"), setting(), CATALOG, find).viable
    engines = [one.verdict.engine for one in found if one.verdict is not None and not one.ids_unknown]
    assert engines[0] == "vllm"
    assert engines == sorted(engines, key=lambda engine: engine != "vllm")


def test_a_draft_that_does_not_fit_the_named_memory_comes_after_those_that_do() -> None:
    found = recommend(
        find(LARGE), setting("vllm", "h100", tensor_parallel_size=1), CATALOG, find, drafts=["Qwen/Qwen3-14B", SMALLER]
    ).viable
    assert [one.proposal.id for one in found] == [SMALLER, "Qwen/Qwen3-14B"]
    assert found[1].budget.fits is False


def test_a_sparse_draft_that_takes_more_memory_than_its_target_never_comes_before_one_that_does_not() -> None:
    heavy = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    advice = recommend(find(LARGE), setting("llama.cpp", "cpu"), CATALOG, find, drafts=[heavy, SMALLER])
    faster, leading = (one for one in sorted(advice.viable, key=lambda one: -one.expected_speedup))
    assert (faster.proposal.id, leading.proposal.id) == (heavy, SMALLER)
    assert advice.decision.draft == SMALLER
    alone = checked(LARGE, heavy, "llama.cpp", "cpu")
    assert "2.5 times the memory of the target's, and whether both fit is not known" in alone.decision.sentence
    (finding,) = (found for found in alone.assessments[0].findings if found.rule == "swapped-roles")
    assert (finding.outcome, finding.evidence["kept_share"]) == ("warn", 2.48)


@pytest.mark.parametrize(
    ("pair", "device", "action", "code"),
    [
        pytest.param((LARGE, SMALLER), "h100", "speculate", 0, id="gains"),
        pytest.param((SPARSE, SPARSE_DRAFT), "h100", "do_not_speculate", 1, id="loses there"),
        pytest.param((SPARSE, SPARSE_DRAFT), None, "do_not_speculate", 1, id="loses by more than an interval"),
        pytest.param(("Qwen/Qwen3-4B", SMALLER), "h100", "do_not_speculate", 1, id="a small target loses there"),
        pytest.param(("Qwen/Qwen3-4B", SMALLER), None, "undecided", 0, id="and may gain on another device"),
    ],
)
def test_the_decision_and_its_exit_code(pair: tuple[str, str], device: str | None, action: str, code: int) -> None:
    advice = checked(*pair, "vllm", device)
    assert (advice.decision.action, advice.exit_code) == (action, code)
    assert advice.decision.evidence == "roofline"
    assert advice.decision.speedup is not None
    assert "predicted, nothing was measured" in advice.decision.sentence
    if action == "do_not_speculate":
        assert advice.decision.sentence.startswith(f"Do not speculate with {pair[0]}")
        assert (advice.decision.draft, advice.decision.num_spec_tokens) == (None, 0)


@pytest.mark.parametrize(
    ("draft", "device", "loss"),
    [
        pytest.param(SMALLER, "h100", False, id="all of the interval gains"),
        pytest.param("Qwen/Qwen3-4B", "h100", True, id="the interval reaches below 1"),
    ],
)
def test_advice_whose_interval_spans_a_loss_says_so(draft: str, device: str, loss: bool) -> None:
    decision = checked(LARGE, draft, "vllm", device).decision
    assert decision.action == "speculate"
    assert decision.speedup is not None
    assert (decision.speedup.low < 1) is loss
    assert ("Measure before you rely on it: a loss is possible." in decision.sentence) is loss


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        pytest.param("amd/PARD-Qwen3-0.6B", "PARD is a draft model that was trained to guess all tokens", id="pard"),
        pytest.param("RedHatAI/Qwen3-32B-speculator.eagle3", "EAGLE-3 is a small head", id="eagle3"),
        pytest.param(SMALLER, None, id="a draft model needs no explanation"),
    ],
)
def test_a_method_that_leads_is_explained_in_a_line(draft: str, said: str | None) -> None:
    text = run("check", LARGE, draft, "--engine", "vllm").stdout
    lines = [line for line in text.splitlines() if "Its predictions were not tested on measured speed-ups" in line]
    assert [line.startswith(said or "") for line in lines] == ([True] if said else [])


def test_a_loss_at_full_load_says_where_it_gains() -> None:
    pair = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct")
    advice = checked(*pair, "vllm", "a100", max_num_seqs=512, input_len=100, output_len=100)
    assert advice.decision.action == "do_not_speculate"
    assert "at once it is predicted to gain" in advice.decision.sentence


@pytest.mark.parametrize("draft", ["meta-llama/Llama-3.2-1B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_published_rows_of_translated_text_predict_no_engine_that_drafts_common_tokens(draft: str) -> None:
    bridged, translated = (checked(LARGE, draft, engine=engine) for engine in ("vllm", "transformers"))
    assert translated.assessments[0].prediction is not None
    assert bridged.assessments[0].viable
    assert bridged.assessments[0].prediction is None
    assert bridged.decision.action == "undecided"
    assert bridged.decision.sentence.startswith("Measure before you put")
    assert "nothing was published" in bridged.decision.sentence


@pytest.mark.parametrize(
    ("engine", "draft", "said"),
    [
        pytest.param("vllm", "meta-llama/Llama-3.2-1B-Instruct", True, id="another vocabulary"),
        pytest.param("vllm", "Qwen/Qwen2.5-0.5B-Instruct", False, id="equal rows"),
        pytest.param("transformers", "meta-llama/Llama-3.2-1B-Instruct", False, id="translates without an option"),
        pytest.param("vllm-ascend", "meta-llama/Llama-3.2-1B-Instruct", False, id="has no such option"),
    ],
)
def test_the_sentence_names_the_option_without_which_the_engine_refuses(engine: str, draft: str, said: bool) -> None:
    sentence = checked(LARGE, draft, engine=engine).decision.sentence
    assert ("It runs only with use_heterogeneous_vocab" in sentence) is said


def test_a_launch_bound_draft_is_warned_of_with_what_was_seen() -> None:
    text = run("recommend", "Qwen/Qwen3-14B", "-d", SMALLER, "--device", "910b3", "--engine", "vllm-ascend").stdout
    assert "launch-bound" in text
    (report,) = (line for line in text.splitlines() if "with Qwen3-0.6B drafting 60 ms" in line)
    assert report.startswith("One report of a launch-bound draft model in this engine, not verified here:")
    assert "at 40 % of the drafted tokens accepted" in report


@pytest.mark.parametrize(
    ("engine", "device", "said"),
    [
        ("vllm-ascend", None, True),
        ("vllm-ascend", "910b3", True),
        ("vllm", "mi300x", True),
        ("vllm", "h100", False),
        ("llama.cpp", "m4-max", False),
    ],
)
def test_a_device_whose_maker_nobody_measured_a_draft_on_has_estimated_costs(
    engine: str, device: str | None, said: bool
) -> None:
    sentence = checked(LARGE, SMALLER, engine, device).decision.sentence
    assert ("are estimates, and the interval was not tested there" in sentence) is said


def test_a_recurrent_state_that_is_copied_at_each_step_eats_the_gain() -> None:
    found = predicted("Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-0.8B", "llama.cpp", "rtx4090", quantization="q4_k_m")
    assert found.plan.num_spec_tokens == 0
    assert any("recurrent state is saved" in note for note in found.costs.notes)


@pytest.mark.parametrize("unknown", ["num_hidden_layers", "params_total"])
def test_a_draft_of_unknown_dimensions_gets_bounds_and_no_number(unknown: str) -> None:
    profile = find(SMALLER)._replace(id="a/draft", params_text=None, **{unknown: None})

    def resolve(name: str) -> ModelProfile:
        return profile if name == "a/draft" else find(name)

    advice = recommend(find(LARGE), setting("vllm", "h100"), CATALOG, resolve, drafts=["a/draft", SMALLER])
    known, found = advice.viable
    assert (known.proposal.id, found.proposal.id) == (SMALLER, "a/draft")
    assert found.prediction is None
    assert found.bounds is not None
    assert known.prediction is not None
    assert found.bounds[0] < 1 < known.prediction.plan.speedup.value < found.bounds[1]
    assert found.coverage < known.coverage


def test_a_target_of_unknown_dimensions_is_decided_by_facts() -> None:
    target = find(LARGE)._replace(id="a/target", num_hidden_layers=None)
    advice = recommend(target, setting("vllm", "h100"), CATALOG, find, drafts=[SMALLER])
    assert advice.decision.evidence == "rule"
    assert advice.decision.speedup is None


# ---------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--temperature", "-1"), "from 0 to 10"),
        (("--temperature", "nan"), "from 0 to 10"),
        (("--workload", "poetry"), "one of chat, code"),
        (("--stop-rule", "never"), "one of fixed, heuristic, confidence"),
        (("--bandwidth", "1600"), "1600GB/s"),
        (("--bandwidth", "-3GB/s"), "1600GB/s"),
        (("--input-len", "0"), "a whole number from 1"),
        (("--output-len", "many"), "a whole number from 1"),
    ],
)
def test_impossible_values_name_what_is_allowed(arguments: tuple[str, ...], said: str) -> None:
    answer = run("check", LARGE, SMALLER, *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert said in answer.stderr
    assert arguments[0] in answer.stderr


@pytest.mark.parametrize("said", ["3.35TB/s", "3350 GB/s", "3350gbps", "3350000MB/s"])
def test_a_bandwidth_is_read_in_its_usual_spellings(said: str) -> None:
    document = run(
        "check", LARGE, SMALLER, "--engine", "vllm", "--device", "h100", "--bandwidth", said, "--json"
    ).document
    own = run("check", LARGE, SMALLER, "--engine", "vllm", "--device", "h100", "--json").document
    assert document["candidates"][0]["cost"] == own["candidates"][0]["cost"]


def test_the_document_says_what_the_prediction_holds_for() -> None:
    found = run(
        "check", LARGE, SMALLER, "--engine", "vllm", "--max-num-seqs", "4", "--output-len", "256", "--json"
    ).document
    (one,) = found["candidates"]
    assert one["cost"]["device"] == REFERENCE_DEVICE
    assert one["cost"]["device_assumed"] is True
    assert one["cost"]["num_seqs"] == 4
    assert one["cost"]["verify_ms"][0] == one["cost"]["target_ms"]
    assert one["plan"]["speedup"]["level"] == one["acceptance"]["level"] == 0.8
    assert one["plan"]["schedule"][-1][1] == 4
    assert one["plan"]["end_to_end"]["speedup"] < one["plan"]["speedup"]["value"]
    assert found["decision"]["speedup"]["value"] == one["plan"]["speedup"]["value"]
    assert found["workload"]["output_len"] == 256


def test_memory_is_budgeted_for_the_lengths_that_were_given() -> None:
    stated = checked(LARGE, SMALLER, "vllm", "h100", max_num_seqs=8, input_len=100, output_len=100).assessments[0]
    whole = checked(LARGE, SMALLER, "vllm", "h100", max_num_seqs=8, max_model_len=200).assessments[0]
    assert stated.budget.per_device_bytes.target_kv == whole.budget.per_device_bytes.target_kv


# ---------------------------------------------------------------------- what must not be said again


def heads_of(target: str, method: str, **more: Any) -> list[Prediction]:
    found = recommend(find(target), setting("vllm", "h100", **more), CATALOG, find).viable
    return [one.prediction for one in found if one.proposal.method == method and one.prediction is not None]


def test_a_draft_nobody_can_predict_is_not_advised_over_predicted_losses() -> None:
    advice = recommend(find("mistralai/Mistral-Small-4-119B-2603"), setting("llama.cpp"), CATALOG, find)
    first = advice.viable[0]
    assert first.prediction is None
    assert first.missing
    assert advice.decision.action == "undecided"
    assert first.missing in advice.decision.sentence


def test_eagle_is_not_expected_to_accept_more_than_eagle_3() -> None:
    older, newer = (heads_of("meta-llama/Llama-3.1-8B-Instruct", method) for method in ("eagle", "eagle3"))
    assert max(one.acceptance.rate for one in older) < min(one.acceptance.rate for one in newer)


def test_formats_that_a_device_multiplies_are_not_slower_under_load() -> None:
    plain, native, unpacked = (
        predicted(LARGE, SMALLER, "vllm", "h200", max_num_seqs=256, quantization=name).costs.target
        for name in (None, "fp8", "awq")
    )
    assert native < plain < unpacked


@pytest.mark.parametrize("k", [1, 12])
def test_a_given_length_is_the_only_one_in_the_schedule(k: int) -> None:
    advice = checked(LARGE, SMALL, "vllm", "h100", num_spec_tokens=k, max_num_seqs=64)
    assert {tokens for _, _, tokens in advice.assessments[0].schedule} <= {0, k}
    if advice.decision.action == "do_not_speculate":
        assert "Up to 64" not in advice.decision.sentence


def test_a_heuristic_length_is_one_row_that_the_schedule_keeps() -> None:
    found = checked(LARGE, SMALL, "vllm", "h100", stop_rule="heuristic", max_num_seqs=8).assessments[0]
    assert found.prediction is not None
    starts = [row.k for row in found.prediction.plan.by_k]
    assert starts == [0, found.prediction.plan.num_spec_tokens]
    assert {tokens for _, _, tokens in found.schedule} <= set(starts)


@pytest.mark.parametrize("device", ["m1", "310b"])
def test_devices_that_stand_alone_are_not_multiplied(device: str) -> None:
    found = checked("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", "llama.cpp", device)
    assert found.assessments[0].prediction is None


def test_a_latent_draft_is_cheaper_than_its_larger_kin() -> None:
    assert (
        predicted("moonshotai/Kimi-K2-Instruct", "moonshotai/Moonlight-16B-A3B-Instruct", "vllm", "h200").costs.c < 0.7
    )


def test_heads_beyond_their_training_gain_nothing_more() -> None:
    target, head = "lmsys/vicuna-7b-v1.3", "FasterDecoding/medusa-vicuna-7b-v1.3"
    few = predicted(target, head, "vllm", "h100")
    many = predicted(target, head, "vllm", "h100", num_spec_tokens=16)
    assert many.plan.speedup.value < few.plan.speedup.value
    assert many.plan.mean_acceptance_length <= few.plan.by_k[-1].mean_acceptance_length


def test_a_hotter_request_costs_heads_acceptance_too() -> None:
    cold, hot = (heads_of(LARGE, "eagle3", temperature=heat)[0].acceptance.rate for heat in (0.0, 1.0))
    assert hot < cold


def test_a_smaller_cache_is_read_faster() -> None:
    plain, small = (
        predicted(LARGE, SMALLER, "vllm", "h200", input_len=100_000, kv_cache_dtype=kind).costs.target
        for kind in (None, "fp8")
    )
    assert small < plain


def test_the_time_of_a_long_prompt_grows_faster_than_its_length() -> None:
    short, long = (predicted(LARGE, SMALLER, "vllm", "h200", input_len=n).costs.prefill for n in (8192, 131072))
    assert long > 24 * short


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--quantization", "bogus"), "--quantization is 'bogus'"),
        (("--draft-quantization", "bogus"), "--draft-quantization is 'bogus'"),
    ],
)
def test_a_format_that_nothing_knows_is_refused(arguments: tuple[str, ...], said: str) -> None:
    answer = run("check", LARGE, SMALLER, "--engine", "vllm", *arguments)
    assert (answer.exit_code, said in answer.stderr) == (2, True)


@pytest.mark.parametrize("device", ["a100-40g", None])
def test_a_draft_is_predicted_on_devices_that_divide_its_heads(device: str | None) -> None:
    target = LARGE if device else "Qwen/Qwen2.5-72B-Instruct"
    advice = checked(target, "Qwen/Qwen2.5-0.5B-Instruct", "vllm", device)
    (found,) = advice.assessments
    if found.prediction is not None:
        assert 14 % found.prediction.place.devices == 0
        assert found.prediction.place.crowded
    else:
        assert "divides the heads" in found.missing
    need = found.budget.min_tensor_parallel_size
    if device is not None and found.prediction is not None:
        assert found.prediction.place.devices == need


def test_a_device_that_stands_alone_is_said_to_be_too_small() -> None:
    advice = checked("Qwen/Qwen3-8B", SMALLER, "mlx", "m1")
    assert "does not fit on one m1" in advice.decision.sentence
    assert "it takes" not in advice.decision.sentence


def test_what_keeps_everything_from_running_is_said() -> None:
    sentence = recommend(find(LARGE), setting("vllm", "h100", tensor_parallel_size=3), CATALOG, find).decision.sentence
    assert "64 heads" in sentence or "do not divide" in sentence
