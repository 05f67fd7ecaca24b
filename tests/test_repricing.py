"""Plans with costs of running servers, of started ones and of files, from end to end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Answer, command, environment, from_a_terminal, run
from serving import Handler, Model, Server, serving

from draftpick.choices import PROBE
from draftpick.intervals import Sums
from draftpick.probe_file import ProbeFile, read_probe
from draftpick.probing import served_times, started
from draftpick.probing.served import own_steps

PAIR = Path(__file__).parent.parent / "catalog" / "demo"
TARGET, DRAFT = Model(PAIR / "target"), Model(PAIR / "draft")
QUICK = ("--prompts", str(PAIR / "prompts.jsonl"), "--max-new-tokens", "24", "--num-prompts", "6", "--precision", "0")
FEW: dict[str, float] = {"stream-tokens": 20, "stream-rounds": 4, "stream-most-rounds": 4, "stream-least": 3}
FEW |= {"stream-precision": 9.0, "check-warm-up": 2}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Few and short answers are timed: whether figures are precise is not asked here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_times, "PROBE", {**PROBE, **FEW})
        yield
    torch.set_num_threads(before)


def streams(passes: int, tokens: int = 1) -> Any:
    """Streams that compute: between two parts the model reads a text so many times."""

    def hook(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
        if not asked.get("stream"):
            return False
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        left = asked["max_tokens"]
        while left:
            for _ in range(passes):
                handler.server.model.log_probs(asked["prompt"][:16])
            number = min(tokens, left) if left < asked["max_tokens"] else 1
            part = {"choices": [{"index": 0, "text": "", "token_ids": [5] * number}]}
            handler.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")
            left -= number
        handler.wfile.write(b"data: [DONE]\n\n")
        handler.close_connection = True
        return True

    return hook


class Servers:
    """What runs for these tests."""

    def __init__(self, stack: ExitStack) -> None:
        self.target = stack.enter_context(serving(TARGET, hook=streams(2)))
        self.draft = stack.enter_context(serving(DRAFT, hook=streams(1)))
        self.speculating = stack.enter_context(serving(TARGET, hook=streams(4)))
        """Of it nothing is ever accepted."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def probe(folder: Path, servers: Servers, *options: str) -> Answer:
    urls = ("--target-url", servers.target.url, "--draft-url", servers.draft.url)
    return run("probe", *urls, "-o", str(folder / "probe.json"), "-k", "2", *QUICK, *options, "--exit-zero")


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Path:
    folder = tmp_path_factory.mktemp("timed")
    answer = probe(folder, servers)
    assert answer.exit_code == 0, answer.stderr
    return folder / "probe.json"


@pytest.fixture(scope="module")
def untimed(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Path:
    folder = tmp_path_factory.mktemp("untimed")
    answer = probe(folder, servers, "--costs", "roofline")
    assert answer.exit_code == 0, answer.stderr
    return folder / "probe.json"


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe of models that the catalogue does not have and nobody described."""

    def root(name: str) -> Any:
        def hook(handler: Handler, path: str, asked: dict[str, Any]) -> bool:
            if path != "/v1/models":
                return False
            model = {"id": name, "owned_by": "vllm", "root": f"acme/{name}", "max_model_len": 2048}
            handler.send(200, json.dumps({"data": [model]}).encode())
            return True

        return hook

    path = tmp_path_factory.mktemp("unknown") / "probe.json"
    with serving(TARGET, hook=root("big")) as target, serving(DRAFT, hook=root("small")) as draft:
        urls = ("--target-url", target.url, "--draft-url", draft.url)
        answer = run("probe", *urls, "-o", str(path), "-k", "2", *QUICK, "--costs", "roofline")
    assert answer.exit_code == 0, answer.stderr
    return path


def plan(path: Path, *options: str, **variables: str) -> Answer:
    return run("plan", str(path), *options, "--json", "--exit-zero", **variables)


def cost(answer: Answer) -> dict[str, Any]:
    """What the plan of the draft rests on."""
    assert answer.exit_code == 0, answer.stderr
    found = next(one for one in answer.document["candidates"] if one["draft"] is not None)["cost"]
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------------- a probe through servers


def test_a_probe_keeps_what_a_step_costs_in_its_servers(timed: Path) -> None:
    found = read_probe(timed)
    (record,) = found.drafts[0].costs
    assert (record.source, record.num_seqs, record.whole_steps) == ("served", 1, False)
    assert "vllm 0.32.0" in record.software
    assert len(record.verify_ms) == 3
    assert record.draft_ms > 0
    assert record.verify_ms[0] == record.target_ms
    assert record.context is not None
    assert found.decision.evidence == "served"
    assert found.seconds["timing"] > 0
    assert found.drafts[0].plan is not None


def test_it_is_planned_for_where_its_servers_are(timed: Path) -> None:
    answer = plan(timed)
    assert cost(answer)["source"] == "served"
    assert "measured in running servers" in answer.document["decision"]["sentence"]


@pytest.mark.parametrize("output", ["table", "markdown", "html"])
def test_every_output_says_what_the_evidence_is(timed: Path, output: str) -> None:
    answer = run("plan", str(timed), "--format", output, "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    assert "running servers" in answer.stdout


def test_served_costs_hold_wherever_it_is_planned_for(timed: Path) -> None:
    """Without being told so they do not hold on another device, of which the memory is asked."""
    named = ("--device", "h100-80g", "--engine", "vllm")
    assert cost(plan(timed, *named))["source"] == "roofline"
    answer = plan(timed, *named, "--costs", "served")
    assert cost(answer)["source"] == "served"
    assert answer.document["decision"]["evidence"] == "served"
    assert answer.document["device"]["id"] == "h100-80g"


def test_nothing_measured_is_denied_of_a_draft_that_is_not_known(unknown: Path) -> None:
    answer = run("plan", str(unknown), "--format", "markdown")
    assert answer.exit_code == 1
    assert "None of the 1 drafts looked at is known to fit acme/big in vllm" in answer.stdout
    assert "acceptance rates were measured all the same: acme/small 0." in answer.stdout
    assert "nothing was measured" not in answer.stdout


def test_what_was_measured_in_servers_is_started_in_their_engine(timed: Path, unknown: Path, tmp_path: Path) -> None:
    answer = run("launch", str(unknown), "-d", "acme/small", "-k", "2")
    assert answer.stdout.startswith("vllm serve acme/big")
    assert "The probe measured" not in answer.stderr
    other = run("launch", str(unknown), "-d", "acme/small", "-k", "2", "--engine", "sglang")
    assert "The probe measured vllm: draftpick plan PROBE.json --engine sglang" in other.stderr
    advice = tmp_path / "advice.json"
    advice.write_text(plan(timed).stdout, encoding="utf-8")
    assert json.loads(advice.read_text(encoding="utf-8"))["device"]["id"] == "served"
    answer = run("launch", str(advice), "--exit-zero")
    assert (answer.exit_code, answer.stdout.startswith("vllm serve")) == (0, True), answer.stderr


def test_servers_that_spread_widely_are_said_to_decide_nothing(timed: Path, tmp_path: Path) -> None:
    document = json.loads(timed.read_text(encoding="utf-8"))
    document["drafts"][0]["costs"][0]["spread"] = 1.5  # far more than texts do
    shutil.copy(timed.with_suffix(".trace.jsonl"), tmp_path / "probe.trace.jsonl")
    (tmp_path / "probe.json").write_text(json.dumps(document), encoding="utf-8")
    assert "its timings are known to ±150 %" in plan(tmp_path / "probe.json").document["decision"]["sentence"]


def test_servers_that_speculate_give_whole_steps_and_are_checked(tmp_path: Path, servers: Servers) -> None:
    """A server that accepts nothing, where the replay says otherwise, makes a probe suspect."""
    answer = probe(tmp_path, servers, "--speculating-url", f"2={servers.speculating.url}")
    found = read_probe(tmp_path / "probe.json")
    (record,) = found.drafts[0].costs
    assert record.whole_steps
    assert record.draft_ms == 0
    assert len(record.verify_ms) == 3
    assert record.verify_ms == sorted(record.verify_ms)
    assert record.c == pytest.approx((record.verify_ms[2] / record.verify_ms[0] - 1) / 2)
    (check,) = (one for one in found.checks if one.name == "the server's own tokens per step at k = 2")
    assert not check.passed
    assert check.detail.startswith("1.00 where the replay says")
    assert found.decision.action == "undecided"
    assert "steps that draft 1, 2, …" in answer.stdout
    assert all(row.speedup is None for row in found.draft_free), "drafting cannot be taken out of a whole step"


@pytest.mark.parametrize(
    ("own", "replayed", "passed"),
    [
        pytest.param([2, 2, 2], [2, 2, 2], True, id="the same"),
        pytest.param([2, 2.2, 1.8], [2, 2, 2], True, id="as near as chance"),
        pytest.param([2.1, 2.1, 2.1], [2, 2, 2], True, id="near enough"),
        pytest.param([1.5, 1.5, 1.5], [2, 2, 2], False, id="fewer"),
        pytest.param([2.6, 2.5, 2.6], [2, 2, 2], False, id="more"),
    ],
)
def test_own_steps_against_the_replay(own: list[float], replayed: list[float], passed: bool) -> None:
    def sums(values: list[float]) -> Sums:
        prompts = tuple(f"p{place}" for place in range(len(values)))
        return Sums(prompts, ("",) * len(values), 100 * np.array(values), np.full(len(values), 100.0))

    check = own_steps(2, served_times.Timed(0.02, 0.0, 0.0, sums(own)), sums(replayed))
    assert check is not None
    assert check.passed is passed


def test_without_costs_a_probe_of_rates_is_kept(tmp_path: Path, servers: Servers) -> None:
    """A server that does not stream says what it accepts all the same."""
    with serving(DRAFT) as mute:
        urls = ("--target-url", servers.target.url, "--draft-url", mute.url)
        answer = run("probe", *urls, "-o", str(tmp_path / "probe.json"), "-k", "2", *QUICK, "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    found = read_probe(tmp_path / "probe.json")
    assert found.drafts[0].costs == []
    assert any("what a step costs was not measured" in doubt for doubt in found.timing_doubts)


# ---------------------------------------------------------------------- a saved probe, and servers that run


def test_servers_are_timed_for_a_probe_that_was_made_before(untimed: Path, servers: Servers) -> None:
    urls = ("--target-url", servers.target.url, "--draft-url", servers.draft.url)
    found = cost(plan(untimed, *urls))
    assert (found["source"], found["engine"]) == ("served", "vllm")
    assert found["draft_ms"] > 0


def test_whole_steps_need_no_server_of_the_draft(
    untimed: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On every prompt: which come first in a trace is up to which answers come first, and four may look alike by chance.
    monkeypatch.setattr(served_times, "PROBE", {**served_times.PROBE, "stream-rounds": 6, "stream-most-rounds": 6})
    urls = ("--target-url", servers.target.url, "--speculating-url", f"1={servers.speculating.url}")
    answer = plan(untimed, *urls)
    found = cost(answer)
    assert found["draft_ms"] == 0
    assert found["c"] >= 0
    assert [one["draft"] for one in answer.document["candidates"]] == [str(PAIR / "draft")]
    assert "suspect: the server's own tokens per step at k = 1" in answer.document["decision"]["sentence"]


def test_costs_in_a_file_are_taken_as_they_are(untimed: Path, tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({"target_ms": 10, "draft_ms": 1, "verify_ms": [10, 11, 12]}), encoding="utf-8")
    answer = plan(untimed, "--costs", str(file), "--engine", "vllm")
    rows = next(one for one in answer.document["candidates"] if one["draft"] is not None)["plan"]["by_k"]
    for row in rows:
        step = 10 if row["k"] == 0 else row["k"] + 10 + row["k"]
        assert row["speedup"] == pytest.approx(10 * row["mean_acceptance_length"] / step)
    assert (
        "follows from the costs given and an acceptance rate measured on 6 prompts"
        in (answer.document["decision"]["sentence"])
    )
    for output in ("table", "markdown"):
        shown = run("plan", str(untimed), "--costs", str(file), "--format", output, "--exit-zero").stdout
        assert "acceptance was measured, costs were given" in shown
        assert "costs were measured" not in shown


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--costs", "served"), "no running server told this probe what a step costs", "--target-url URL"),
        (("--costs", "nowhere.json"), "nowhere.json", ""),
        (("--costs", "synthetic", "--target-url", "http://h"), "costs were given twice", "--target-url"),
        (("--draft-url", "http://h"), "timed on a server of the target", "--target-url"),
        (("--target-url", "http://h"), "timed on a server of the target", "--speculating-url"),
        (("--target-url", "http://h", "--speculating-url", "http://h"), "does not begin with the number", "3=http"),
        (("--target-url", "http://h", "--speculating-url", "0=http://h"), "does not begin with the number", "3=http"),
        (("--costs", "synthetic", "-k", "3"), "-k 3: the probe measured up to 2 tokens", "-k 3"),
        (("--costs", "synthetic", "--engine", "sglang"), "SGLang has no acceptance by given rates", "vllm"),
    ],
)
def test_what_cannot_be_meant_is_refused(untimed: Path, options: tuple[str, ...], message: str, hint: str) -> None:
    answer = plan(untimed, *options)
    assert answer.exit_code == 2, answer.stderr
    assert message in answer.stderr
    assert hint in answer.stderr


def test_addresses_that_were_swapped_are_doubted(untimed: Path, servers: Servers) -> None:
    urls = ("--target-url", servers.draft.url, "--draft-url", servers.target.url)
    answer = run("plan", str(untimed), *urls, "--exit-zero")
    for server, other, ours in ((servers.draft, "draft", "target"), (servers.target, "target", "draft")):
        assert f"{server.url} calls its model {PAIR / other}: whether it is {PAIR / ours} is not known" in answer.stdout


def test_without_a_trace_there_are_no_prompts_to_time(untimed: Path, tmp_path: Path, servers: Servers) -> None:
    shutil.copy(untimed, tmp_path / "probe.json")
    urls = ("--target-url", servers.target.url, "--draft-url", servers.draft.url)
    answer = plan(tmp_path / "probe.json", *urls)
    assert answer.exit_code == 2
    assert "the probe's trace is gone" in answer.stderr


def test_costs_go_with_a_probe() -> None:
    answer = run("plan", "--acceptance-rate", "0.6", "--draft-cost", "0.1", "--costs", "served")
    assert answer.exit_code == 2
    assert "--costs and servers go with a probe" in answer.stderr


def test_numbers_of_sequences_that_were_not_timed_are_told(timed: Path) -> None:
    answer = plan(timed, "--costs", "served", "--max-num-seqs", "4")
    assert answer.exit_code == 2
    assert "steps were timed with 1 sequences at once, not with 4" in answer.stderr


# ---------------------------------------------------------------------- servers that are started

ENGINE = """\
#!{python}
import json, pathlib, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

words = sys.argv[1:]
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(json.dumps(words) + "\\n")
config = json.loads(words[words.index("--speculative-config") + 1]) if "--speculative-config" in words else {{}}
if config.get("num_speculative_tokens", 0) > {most}:
    sys.exit("ValueError: num_speculative_tokens is too large")
if "rejection_sample_method" in config and not {synthetic}:
    sys.exit("AssertionError: Synthetic acceptance not supported with CPU sampling")
work = 60000 * (2 + config.get("num_speculative_tokens", 0))

class Handler(BaseHTTPRequestHandler):
    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        model = {{"id": words[1], "owned_by": "vllm", "root": words[1], "max_model_len": 2048}}
        self.answer(json.dumps({{"data": [model], "version": "0.32.0"}}).encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(b"", "text/event-stream")
        for _ in range(asked["max_tokens"]):
            sum(range(work))
            self.wfile.write(b'data: {{"choices": [{{"index": 0, "token_ids": [5]}}]}}\\n\\n')

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(words[words.index("--port") + 1])), Handler).serve_forever()
"""


def engine(folder: Path, most: int = 64, synthetic: bool = True) -> tuple[str, Path]:
    """A PATH with a `vllm` that does nothing but take its time, and the file in which it keeps how it was called."""
    log, script = folder / "called.jsonl", folder / "vllm"
    script.write_text(
        ENGINE.format(python=sys.executable, log=str(log), most=most, synthetic=synthetic), encoding="utf-8"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}", log


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "_LOOK", 0.05)


@pytest.mark.usefixtures("_impatient")
def test_servers_that_accept_nothing_are_started_one_after_another(untimed: Path, tmp_path: Path) -> None:
    path, log = engine(tmp_path)
    answer = plan(untimed, "--costs", "synthetic", "--max-model-len", "1024", PATH=path)
    found = cost(answer)
    assert (found["source"], found["draft_ms"]) == ("served", 0)
    assert len(found["verify_ms"]) == 3
    assert found["verify_ms"] == sorted(found["verify_ms"])
    called = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [words[:2] for words in called] == [["serve", str(PAIR / "target")]] * 3
    assert all(words[words.index("--max-model-len") + 1] == "1024" for words in called)
    assert "--speculative-config" not in called[0]
    configs = [json.loads(words[words.index("--speculative-config") + 1]) for words in called[1:]]
    assert [one["num_speculative_tokens"] for one in configs] == [1, 2]
    assert [one["synthetic_acceptance_rates"] for one in configs] == [[0.0], [0.0, 0.0]]
    assert {one["rejection_sample_method"] for one in configs} == {"synthetic"}
    assert {one["model"] for one in configs} == {str(PAIR / "draft")}


@pytest.mark.usefixtures("_impatient")
def test_only_the_k_that_is_asked_for_is_started(untimed: Path, tmp_path: Path) -> None:
    path, log = engine(tmp_path)
    assert cost(plan(untimed, "--costs", "synthetic", "-k", "2", PATH=path))["source"] == "served"
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.usefixtures("_impatient")
def test_where_none_can_be_refused_by_rates_steps_are_told_by_their_parts(untimed: Path, tmp_path: Path) -> None:
    path, log = engine(tmp_path, synthetic=False)
    answer = plan(untimed, "--costs", "synthetic", PATH=path)
    found = cost(answer)
    assert len(found["verify_ms"]) == 3
    assert any("accepted as they are right" in note for note in found["notes"])
    called = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    configs = [json.loads(words[words.index("--speculative-config") + 1]) for words in called[1:]]
    tried = ["rejection_sample_method" in one for one in configs]
    assert tried == [True, False, False]
    assert "Synthetic acceptance not supported" in answer.stderr


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_refuses_its_options_says_so(untimed: Path, tmp_path: Path) -> None:
    path, _ = engine(tmp_path, most=1)
    answer = plan(untimed, "--costs", "synthetic", "-k", "2", PATH=path)
    assert answer.exit_code == 3
    assert "num_speculative_tokens is too large" in answer.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_broken_off_leaves_no_server(untimed: Path, tmp_path: Path, number: signal.Signals) -> None:
    path, log = engine(tmp_path)
    with subprocess.Popen(
        command("plan", str(untimed), "--costs", "synthetic"),
        env=environment(PATH=path),
        preexec_fn=from_a_terminal,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if line.startswith("timing"))
        running.send_signal(number)
        running.stderr.read()
    assert running.returncode == 130
    (words,) = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    with socket.socket() as free, pytest.raises(ConnectionRefusedError):
        free.connect(("127.0.0.1", int(words[words.index("--port") + 1])))


def test_where_the_engine_is_not_installed_it_is_said(untimed: Path, tmp_path: Path) -> None:
    answer = plan(untimed, "--costs", "synthetic", PATH=str(tmp_path))
    assert answer.exit_code == 3
    assert "vllm is not on PATH" in answer.stderr


def test_the_probe_file_is_what_it_was(timed: Path, servers: Servers) -> None:
    before = timed.read_bytes()
    plan(timed, "--costs", "served")
    assert timed.read_bytes() == before
    assert isinstance(read_probe(timed), ProbeFile)
    assert isinstance(servers.target, Server)
