"""The probe through servers: what it measures is what a local probe measures, and no server breaks it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Answer, run
from serving import Handler, Model, Server, llama, serving, sglang, vllm

from draftpick.probe_file import read_probe
from draftpick.probing import trace as traces
from draftpick.probing.local import Sampling, load, read_answers

PAIR = Path(__file__).parent.parent / "catalog" / "demo"
PROMPTS = str(PAIR / "prompts.jsonl")
QUICK = ("--prompts", PROMPTS, "--max-new-tokens", "24", "--num-prompts", "6", "--precision", "0", "--batch-size", "3")
TARGET, DRAFT = Model(PAIR / "target"), Model(PAIR / "draft")


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target() -> Iterator[Server]:
    with serving(TARGET) as server:
        yield server


@pytest.fixture(scope="module")
def draft() -> Iterator[Server]:
    with serving(DRAFT) as server:
        yield server


def probe(
    folder: Path, target: Server, *drafts: Server, options: tuple[str, ...] = (), costs: str = "roofline"
) -> Answer:
    urls = [word for one in drafts for word in ("--draft-url", one.url)]
    places = ("-o", str(folder / "probe.json"), "--costs", costs)
    return run("probe", "--target-url", target.url, *urls, *places, *QUICK, *options, "--exit-zero")


def rows(path: Path) -> dict[tuple[str, float], traces.Row]:
    return {(row.prompt, row.temperature): row for row in traces.read(path).rows}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    names = (str(PAIR / "target"), str(PAIR / "draft"))
    answer = run("probe", *names, "-o", str(folder / "probe.json"), "--costs", "roofline", *QUICK, "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    return folder


@pytest.mark.parametrize("speak", [vllm, sglang, llama], ids=["vllm", "sglang", "llama.cpp"])
def test_the_trace_is_that_of_a_local_probe(tmp_path: Path, local: Path, speak: Any) -> None:
    with serving(TARGET, speak) as one, serving(DRAFT, speak) as other:
        answer = probe(tmp_path, one, other)
    assert answer.exit_code == 0, answer.stderr
    here, there = rows(tmp_path / "probe.trace.jsonl"), rows(local / "probe.trace.jsonl")
    assert here.keys() == there.keys()
    for key, row in here.items():
        mine, theirs = row.drafts[str(PAIR / "draft")], there[key].drafts[str(PAIR / "draft")]
        assert (row.prompt_ids, row.tokens, row.ended) == (there[key].prompt_ids, there[key].tokens, there[key].ended)
        assert list(mine.top) == list(theirs.top)
        np.testing.assert_allclose(row.log_p, there[key].log_p, atol=1e-4)
        np.testing.assert_allclose(row.gap, there[key].gap, atol=1e-3)
        np.testing.assert_allclose(mine.top_prob, theirs.top_prob, atol=1e-4)
        np.testing.assert_allclose(mine.log_q["1"], theirs.log_q["1"], atol=1e-3)


def test_the_result_is_that_of_a_local_probe(tmp_path: Path, local: Path, target: Server, draft: Server) -> None:
    assert probe(tmp_path, target, draft, options=("--engine", "vllm")).exit_code == 0
    names = (str(PAIR / "target"), str(PAIR / "draft"))
    again = tmp_path / "local"
    again.mkdir()
    options = ("-o", str(again / "probe.json"), "--costs", "roofline", *QUICK, "--engine", "vllm", "--exit-zero")
    assert run("probe", *names, *options).exit_code == 0
    here, there = read_probe(tmp_path / "probe.json"), read_probe(again / "probe.json")
    assert here.drafts[0].acceptance_rate == there.drafts[0].acceptance_rate
    assert here.drafts[0].by_k == there.drafts[0].by_k
    assert here.draft_free == there.draft_free
    assert here.decision.evidence == "served"
    assert here.device.id == "served"
    assert here.software["server of " + names[0]] == "vllm 0.32.0"


@pytest.mark.parametrize(
    ("heat", "ways"),
    [("1", {"first_choice", "sampled", "sampled_block"}), ("0.7", {"first_choice"})],
)
def test_sampled_text_is_measured_as_far_as_servers_tell(
    tmp_path: Path, target: Server, draft: Server, heat: str, ways: set[str]
) -> None:
    answer = probe(tmp_path, target, draft, options=("--temperature", heat))
    assert answer.exit_code == 0, answer.stderr
    found = read_probe(tmp_path / "probe.json").drafts[0]
    assert {found.way, *(other.way for other in found.other_proposals)} == ways
    trace = traces.read(tmp_path / "probe.trace.jsonl")
    models = [load(PAIR / name, id=name, device="cpu", dtype=None) for name in ("target", "draft")]
    for row in trace.rows:
        sampling = Sampling(float(heat))
        (own,), (its,) = read_answers(
            [row.prompt_ids], [row.tokens], models[1:], target=models[0], sampling=sampling, temperatures=(float(heat),)
        )
        assert its.top.tolist() == row.drafts[str(PAIR / "draft")].top
        if heat == "1":
            assert row.log_p is not None
            np.testing.assert_allclose(row.log_p, own.log_prob[1.0], atol=1e-4)
            np.testing.assert_allclose(row.drafts[str(PAIR / "draft")].log_q["1"], its.log_prob[1.0], atol=1e-3)
        else:
            assert row.log_p is None


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path, target: Server, draft: Server) -> None:
    assert probe(tmp_path, target, draft).exit_code == 0
    whole = (tmp_path / "probe.trace.jsonl").read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    (tmp_path / "probe.trace.jsonl").write_text("".join(lines[:3]) + lines[3][:40], encoding="utf-8")
    assert probe(tmp_path, target, draft).exit_code == 3
    before = len(target.asked)
    assert probe(tmp_path, target, draft, options=("--resume",)).exit_code == 0
    written = [asked for path, asked in target.asked[before:] if asked.get("max_tokens") == 24]
    assert len(written) == 4
    assert rows(tmp_path / "probe.trace.jsonl").keys() == {
        (json.loads(line)["prompt"], json.loads(line)["temperature"]) for line in lines[1:]
    }


def test_two_drafts_are_read_over_one_text(tmp_path: Path, target: Server, draft: Server) -> None:
    options = ("--model", TARGET.name)
    with serving(Model(PAIR / "target", "the-target-again")) as twin:
        answer = run(
            "probe", "demo-target", "small", "same", "--target-url", target.url, "--draft-url", draft.url,
            "--draft-url", twin.url, "-o", str(tmp_path / "probe.json"), "--costs", "roofline", *QUICK, *options,
        )  # fmt: skip
    assert (answer.exit_code == 2 and "serves no" not in answer.stderr) or answer.exit_code == 0, answer.stderr
    found = {one.draft: one for one in read_probe(tmp_path / "probe.json").drafts}
    assert found["same"].acceptance_rate.value == 1.0
    assert found["small"].acceptance_rate.value < 0.9


# ---------------------------------------------------------------------- what is refused


def renamed(folder: Path, *exchanged: str) -> Path:
    """The draft with tokens of its tokenizer exchanged: these two, or many."""
    shutil.copytree(PAIR / "draft", folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    words = exchanged or [word for word, number in vocabulary.items() if 260 < number < 1500]
    for one, other in zip(words[::2], words[1::2], strict=False):
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_draft_with_another_tokenizer_is_refused(tmp_path: Path, target: Server) -> None:
    with serving(Model(renamed(tmp_path / "draft"))) as other:
        answer = probe(tmp_path, target, other)
    assert answer.exit_code == 3
    assert "token ids mean other text to" in answer.stderr
    assert "different tokenizers" in answer.stderr


def test_a_draft_with_fewer_tokens_is_refused(tmp_path: Path, target: Server) -> None:
    said = b'{"error": {"message": "Token id 2047 is out of vocabulary", "type": "BadRequestError", "code": 400}}'

    def small(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        if path != "/v1/completions":
            return False
        handler.send(400, said)
        return True

    with serving(DRAFT, hook=small) as other:
        answer = probe(tmp_path, target, other)
    assert answer.exit_code == 3
    assert "does not know all token ids of the target: Token id 2047" in answer.stderr
    assert "different tokenizers" in answer.stderr


def test_few_exchanged_tokens_are_seen_in_prompts(tmp_path: Path, target: Server) -> None:
    """This target ends nearly every chat at once, and an end means the same to both."""
    with serving(Model(renamed(tmp_path / "draft", "Ġthe", "Ġa"))) as other:
        urls = ("--target-url", target.url, "--draft-url", other.url)
        options = ("--num-prompts", "8", "--max-new-tokens", "32", "--costs", "roofline", "--exit-zero")
        answer = run("probe", *urls, "-o", str(tmp_path / "probe.json"), *options)
    assert answer.exit_code == 0, answer.stderr
    found = read_probe(tmp_path / "probe.json")
    check = next(one for one in found.checks if one.name.startswith("token ids mean the same"))
    assert not check.passed
    assert "is ' the' to the target and ' a' to it" in check.detail
    assert found.decision.action == "undecided"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--verify", "2"), 2, "--verify does not go with --target-url"),
        (("--dtype", "float16"), 2, "--dtype does not go with --target-url"),
        (("--model", "other"), 2, "serves no 'other'"),
        (("--engine", "mlx"), 2, "no API of mlx is known"),
        (("--device", "npu:0"), 2, "npu:0"),
        (("--max-new-tokens", "4000"), 3, "longer than the served context"),
    ],
)
def test_what_cannot_be_meant_is_said(
    tmp_path: Path, target: Server, draft: Server, options: tuple[str, ...], code: int, said: str
) -> None:
    answer = probe(tmp_path, target, draft, options=options)
    assert (answer.exit_code, said in answer.stderr) == (code, True), answer.stderr
    assert not (tmp_path / "probe.json").exists()


@pytest.mark.parametrize(
    "options", [("--speculating-url", "3=http://127.0.0.1:9"), ("--model", "other"), ("--draft-url", "http://h")]
)
def test_servers_are_never_left_aside(options: tuple[str, ...]) -> None:
    answer = run("probe", str(PAIR / "target"), str(PAIR / "draft"), *options)
    assert answer.exit_code == 2
    assert "a served probe needs a server of the target and one of each draft" in answer.stderr


@pytest.mark.parametrize("costs", ["served", "synthetic"])
def test_costs_of_a_plan_are_not_taken_for_a_file(tmp_path: Path, target: Server, draft: Server, costs: str) -> None:
    answer = probe(tmp_path, target, draft, costs=costs)
    assert answer.exit_code == 2
    assert f"--costs {costs} is for `draftpick plan`" in answer.stderr


def hooked(path: str, change: Any) -> Any:
    """A hook that answers one path with something else."""

    def hook(handler: Handler, asked_path: str, asked: dict[str, Any]) -> bool:
        if asked_path != path:
            return False
        code, found = handler.server.speak(handler.server.model, asked_path, asked)
        handler.send(code, json.dumps(change(found, asked)).encode())
        return True

    return hook


def without(*names: str) -> Any:
    def change(found: Any, asked: dict[str, Any]) -> Any:
        for name in names:
            found["choices"][0].pop(name, None)
        return found

    return change


def with_value(name: str, value: Any) -> Any:
    def change(found: Any, asked: dict[str, Any]) -> Any:
        found["choices"][0][name] = value
        return found

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("token_ids"), "gives no token_ids"),
        (without("logprobs"), "answers otherwise than its engine does: no 'logprobs'"),
        (with_value("token_ids", [1, -2]), "what should be token ids are none"),
        (with_value("token_ids", [1, 2.5]), "what should be token ids are none"),
        (with_value("token_ids", []), "not one log-probability for each of 0 tokens"),
        (with_value("finish_reason", "abort"), "the answer ended by 'abort'"),
        (lambda found, asked: [], "JSON"),
        (lambda found, asked: {"choices": []}, "answers otherwise"),
    ],
)
def test_a_target_that_answers_otherwise(tmp_path: Path, draft: Server, change: Any, said: str) -> None:
    with serving(TARGET, hook=hooked("/v1/completions", change)) as odd:
        answer = probe(tmp_path, odd, draft)
    assert answer.exit_code == 3
    assert said in answer.stderr, answer.stderr


def shifted(found: Any, asked: dict[str, Any]) -> Any:
    found["choices"][0]["prompt_logprobs"].pop()
    return found


def impossible(found: Any, asked: dict[str, Any]) -> Any:
    for column in found["choices"][0]["prompt_logprobs"][1:]:
        for one in column.values():
            one["logprob"] = 5.0
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("prompt_logprobs"), "gives no prompt_logprobs"),
        (shifted, "prompt_logprobs for"),
        (impossible, "5.0 is no log-probability"),
    ],
)
def test_a_draft_that_answers_otherwise(tmp_path: Path, target: Server, change: Any, said: str) -> None:
    with serving(DRAFT, hook=hooked("/v1/completions", change)) as odd:
        answer = probe(tmp_path, target, odd)
    assert answer.exit_code == 3
    assert said in answer.stderr, answer.stderr


def test_a_draft_that_ties_takes_its_own_choice(tmp_path: Path, local: Path, target: Server) -> None:
    """In half precision the emitted token often lies exactly as high as the draft's choice, and stands first."""

    def tied(found: Any, asked: dict[str, Any]) -> Any:
        for column in found["choices"][0].get("prompt_logprobs", [None])[1:]:
            highest = max(one["logprob"] for one in column.values())
            for one in column.values():
                one["logprob"] = highest
        return found

    with serving(DRAFT, hook=hooked("/v1/completions", tied)) as draft:
        assert probe(tmp_path, target, draft).exit_code == 0
    here, there = rows(tmp_path / "probe.trace.jsonl"), rows(local / "probe.trace.jsonl")
    for key, row in here.items():
        assert row.drafts[str(PAIR / "draft")].top == there[key].drafts[str(PAIR / "draft")].top


def test_one_bad_answer_loses_one_prompt(tmp_path: Path, target: Server) -> None:
    seen = []

    def once(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        seen.append(path)
        if seen.count("/v1/completions") != 2 or path != "/v1/completions":
            return False
        handler.send(200, b'{"choices": [{}]}')
        return True

    with serving(DRAFT, hook=once) as odd:
        answer = probe(tmp_path, target, odd)
    assert answer.exit_code == 0, answer.stderr
    found = read_probe(tmp_path / "probe.json")
    assert found.num_prompts == 5
    assert any("1 prompt was lost" in one for one in (*found.notes, *found.doubts))
    # The next run asks for it again.
    with serving(DRAFT) as well:
        assert probe(tmp_path, target, well, options=("--resume",)).exit_code == 0
    assert read_probe(tmp_path / "probe.json").num_prompts == 6


def test_a_server_that_dies_keeps_what_was_measured(tmp_path: Path, target: Server) -> None:
    seen = []

    def dying(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        seen.append(path)
        if len(seen) < 10:
            return False
        handler.send(400, b'{"error": {"message": "the engine is dead"}}')
        return True

    with serving(DRAFT, hook=dying) as odd:
        options = ("--num-prompts", "40")
        answer = probe(tmp_path, target, odd, options=options)
    assert answer.exit_code == 0, answer.stderr
    found = read_probe(tmp_path / "probe.json")
    assert 0 < found.num_prompts < 20
    assert "prompts in turn were lost" in found.stopped_by
    assert "the engine is dead" in found.stopped_by
    assert any("those that are left may be the easy ones" in doubt for doubt in found.doubts)


def named(**facts: Any) -> Any:
    """A hook that says other things of the model."""

    def change(found: Any, asked: dict[str, Any]) -> Any:
        found["data"][0] |= facts
        return found

    return hooked("/v1/models", change)


@pytest.mark.parametrize("name", ["a\ud800b", "a\x1b[2Jb", "a\nb", "a\u202eb", "", " x ", "x" * 501, 5])
def test_a_name_that_no_trace_can_hold_is_refused(tmp_path: Path, target: Server, name: Any) -> None:
    with serving(DRAFT, hook=named(id=name)) as odd:
        answer = probe(tmp_path, target, odd)
    assert (answer.exit_code, "is no model's name" in answer.stderr) == (3, True), answer.stderr
    assert not (tmp_path / "probe.trace.jsonl").exists()


@pytest.mark.parametrize(
    "facts", [{"root": "acme/x\ud800"}, {"root": "a\nb"}, {"root": {"a": 1}}, {"meta": [1], "max_model_len": None}]
)
def test_odd_facts_of_a_model_are_left_aside(tmp_path: Path, target: Server, facts: dict[str, Any]) -> None:
    with serving(DRAFT, hook=named(**facts)) as odd:
        options = ("--num-prompts", "1")
        assert probe(tmp_path, target, odd, options=options).exit_code == 0
        answer = probe(tmp_path, target, odd, options=("--num-prompts", "2", "--resume"))
    assert answer.exit_code == 0, answer.stderr
    assert read_probe(tmp_path / "probe.json").num_prompts == 2


def test_what_measured_nothing_stands_in_no_ones_way(tmp_path: Path, target: Server, draft: Server) -> None:
    with serving(DRAFT, hook=hooked("/v1/completions", without("prompt_logprobs"))) as odd:
        assert probe(tmp_path, target, odd).exit_code == 3
    assert not (tmp_path / "probe.trace.jsonl").exists()
    assert probe(tmp_path, target, draft).exit_code == 0


@pytest.fixture
def _interrupted_as_in_a_terminal() -> Iterator[None]:
    """Whatever started these tests: what a shell runs in the background is deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupted_as_in_a_terminal")
@pytest.mark.parametrize("answers", [0, 1])
def test_an_interrupt_keeps_the_answers_of_the_part_it_breaks_off(tmp_path: Path, draft: Server, answers: int) -> None:
    """Ctrl-C while the second of two prompts that are asked at once is being written."""
    trace, written = tmp_path / "probe.trace.jsonl", []

    def hook(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        if path != "/v1/completions" or asked.get("prompt_logprobs") is not None:
            return False
        written.append(path)
        if len(written) <= answers:
            return False
        while trace.read_bytes().count(b"\n") < 1 + answers:
            handler.server.ended.wait(0.01)
        if len(written) == 1 + answers:
            os.kill(os.getpid(), signal.SIGINT)
        handler.server.ended.wait()
        return True

    with serving(TARGET, hook=hook) as target:
        answer = probe(tmp_path, target, draft, options=("--batch-size", "2"))
    assert answer.exit_code == 130
    assert trace.exists() is bool(answers)
    assert "error" not in answer.stderr
    if answers:
        assert read_probe(tmp_path / "probe.json").num_prompts == len(traces.read(trace).rows) == 1


@pytest.mark.parametrize(
    ("names", "doubted"),
    [
        ((), []),
        (("acme/Target", "/models/draft/"), []),  # as the last part of what they are called
        (("acme/draft", "acme/target"), ["target: whether it is acme/draft", "draft: whether it is acme/target"]),
        (("acme/other",), ["target: whether it is acme/other"]),
    ],
)
def test_names_that_the_servers_do_not_know_are_doubted(
    tmp_path: Path, target: Server, draft: Server, names: tuple[str, ...], doubted: list[str]
) -> None:
    assert probe(tmp_path, target, draft, options=(*names, "--num-prompts", "1")).exit_code == 0
    said = [doubt for doubt in read_probe(tmp_path / "probe.json").doubts if "calls its model" in doubt]
    assert len(said) == len(doubted)
    assert all(f"{PAIR}/{part} is not known" in doubt for part, doubt in zip(doubted, said, strict=True))


def test_a_target_is_not_its_own_draft(tmp_path: Path, target: Server) -> None:
    answer = probe(tmp_path, target, target)
    assert (answer.exit_code, "is the target and a draft" in answer.stderr) == (2, True)


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ("chat", "notes"),
        ("acme/other", "doubts"),
        ("/cache/models--acme--big/snapshots/0123", None),
    ],
)
def test_a_name_of_the_servers_own_contradicts_nothing(
    tmp_path: Path, draft: Server, root: str, place: str | None
) -> None:
    with serving(TARGET, hook=named(id="chat", root=root)) as alias:
        assert probe(tmp_path, alias, draft, options=("acme/big", "--num-prompts", "1")).exit_code == 0
    found = read_probe(tmp_path / "probe.json")
    said = {where for where in ("doubts", "notes") for one in getattr(found, where) if "calls its model chat" in one}
    assert said == ({place} if place else set())
