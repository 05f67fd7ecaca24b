"""Metrics of servers: the text format, hostile texts, and a real server on this machine that misbehaves."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import Behaviour, Handler, endless, hang, nobody_listens, page, raw, reset, serving, trickle

from draftpick.errors import DraftpickError, InvalidFile, NotObservable, UsageError
from draftpick.scrape import MOST_BYTES, MOST_LABELS, MOST_SAMPLES, Sample, from_file, from_server, parse

WANTED = re.compile(r"vllm:spec_[a-z_]+")
LINE = 'vllm:spec_drafts_total{engine="0",model_name="acme/Big-8B"} 12.0'


def samples(text: str) -> list[Sample]:
    return list(parse(text.encode(), "page", WANTED).samples)


# ---------------------------------------------------------------------- the text


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param("vllm:spec_x 3", {}, 3, id="no labels"),
        pytest.param("vllm:spec_x{} 3", {}, 3, id="empty labels"),
        pytest.param('vllm:spec_x{a="1",b="2"} 3.5e+03', {"a": "1", "b": "2"}, 3500, id="labels, exponent"),
        pytest.param('vllm:spec_x{a="1",} 3', {"a": "1"}, 3, id="comma at the end"),
        pytest.param('vllm:spec_x { a = "1" , b="2" }  3 ', {"a": "1", "b": "2"}, 3, id="blanks"),
        pytest.param('vllm:spec_x{a="1"} 3 1700000000000', {"a": "1"}, 3, id="with a time"),
        pytest.param('vllm:spec_x{a="1"} 3 # {trace="9"} 1.0', {"a": "1"}, 3, id="with an exemplar"),
        pytest.param(r'vllm:spec_x{a="q\" b\\ n\n }"} 3', {"a": 'q" b\\ n\n }'}, 3, id="escapes"),
        pytest.param('vllm:spec_x{a="模型 \u202e"} 3', {"a": "模型 \u202e"}, 3, id="any text"),
        pytest.param("vllm:spec_x 3\r", {}, 3, id="line ends of Windows"),
    ],
)
def test_a_line_is_read(line: str, labels: dict[str, str], value: float) -> None:
    assert samples(f'# HELP x y\n\nother_metric{{le="+Inf"}} NaN\n{line}\n') == [Sample("vllm:spec_x", labels, value)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("<!doctype html>\n<html>", "line 1 begins '<!doctype html>'", id="HTML"),
        pytest.param('{"a": 1}', "line 1 begins", id="JSON"),
        pytest.param("vllm:spec_x", "line 1 begins 'vllm:spec_x'", id="no value"),
        pytest.param("vllm:spec_x{", "labels end at", id="cut in the labels"),
        pytest.param('vllm:spec_x{a="1', "labels end at", id="cut in a value"),
        pytest.param('vllm:spec_x{a="1"}', "'' is no number", id="cut before the value"),
        pytest.param('vllm:spec_x{a="1" b="2"} 3', "labels end at", id="no comma"),
        pytest.param('vllm:spec_x{a="1",a="2"} 3', "label a is there twice", id="a label twice"),
        pytest.param("vllm:spec_x NaN", "is no number", id="NaN"),
        pytest.param("vllm:spec_x +Inf", "is no number", id="infinite"),
        pytest.param("vllm:spec_x 1_000", "is no number", id="what only Python reads"),
        pytest.param("vllm:spec_x 1e999", "too large", id="overflow"),
        pytest.param(f"vllm:spec_x {'9' * 4000}", "is no number", id="endless digits"),
        pytest.param("vllm:spec_x 1 2 3", "is no number", id="too many fields"),
        pytest.param(f'vllm:spec_x{{a="{"x" * 70_000}"}} 1', "line 1 begins", id="an endless line"),
        pytest.param(
            "vllm:spec_x{" + ",".join(f'l{n}="1"' for n in range(MOST_LABELS + 1)) + "} 1", "more than 32", id="labels"
        ),
        pytest.param("vllm:spec_x 1\n" * (MOST_SAMPLES + 1), "more than 20,000 values", id="values without end"),
    ],
)
def test_what_is_no_metrics_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidFile, match=re.escape(said)) as told:
        samples(text)
    assert told.value.message.startswith("page is no metrics")
    assert "/metrics" in told.value.hint


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", LINE.encode("utf-16"), b"vllm:spec_x\x80 1", b"\x1f\x8b\x08\x00"])
def test_what_is_no_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidFile, match="is no UTF-8"):
        parse(data, "page", WANTED)


def test_long_hostile_lines_take_no_time() -> None:
    for line in ("vllm:spec_x{" + '"' * 60_000, 'vllm:spec_x{a="' + "\\" * 60_000, "vllm:spec_x{" + " " * 60_000 + "}"):
        with pytest.raises(InvalidFile):
            samples(line)


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(), max_size=5))
def test_labels_come_back_as_they_were(labels: dict[str, str]) -> None:
    labels = {name: text.encode("utf-8", "replace").decode() for name, text in labels.items()}
    spelled = ",".join(
        '{}="{}"'.format(name, text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, text in labels.items()
    )
    assert samples(f"vllm:spec_x{{{spelled}}} 7") == [Sample("vllm:spec_x", labels, 7.0)]


@given(st.binary(max_size=200) | st.text(alphabet='vllm:spec_x{}="\\, 1\n#').map(str.encode))
def test_nothing_else_is_raised(data: bytes) -> None:
    with suppress(InvalidFile):
        parse(data, "page", WANTED)


def test_namespaces_are_told() -> None:
    found = parse(f"{LINE}\nprocess_cpu 1\nllamacpp:n_decode 2\n".encode(), "page", WANTED)
    assert found.namespaces == {"vllm", "process_cpu", "llamacpp"}


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(f"\ufeff{LINE}\n", encoding="utf-8")
    assert [one.value for one in from_file(path, WANTED).samples] == [12.0]
    with pytest.raises(UsageError, match="no such file"):
        from_file(tmp_path / "none.txt", WANTED)
    with pytest.raises(InvalidFile, match="not a regular file"):
        from_file(tmp_path, WANTED)
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(InvalidFile, match="is larger than"):
        from_file(path, WANTED)


# ---------------------------------------------------------------------- servers


@pytest.mark.parametrize("path", ["", "/", "/metrics", "/metrics/"])
def test_a_server_is_asked_for_its_metrics(path: str) -> None:
    with serving(page(LINE.encode())) as (url, asked):
        found = from_server(url + path, WANTED)
    assert [one.value for one in found.samples] == [12.0]
    assert found.source == f"{url}/metrics"
    assert found.at is not None
    assert asked[0]["path"] == "/metrics"
    assert "authorization" not in asked[0]


def test_another_path_stays_and_the_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "secret")
    with serving(page(LINE.encode())) as (url, asked):
        from_server(f"{url}/engine/prometheus?x=1", WANTED)
    assert asked[0]["path"] == "/engine/prometheus?x=1"
    assert asked[0]["authorization"] == "Bearer secret"


@pytest.mark.parametrize("key", ["a\nHost: b", "schlüssel", "\x00"])
def test_a_key_that_no_header_holds_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "\x00" not in key:
        monkeypatch.setenv("DRAFTPICK_API_KEY", key)
        with pytest.raises(UsageError) as told:
            from_server("http://127.0.0.1:9", WANTED)
        assert key not in told.value.message + told.value.hint


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "no address of a server"),
        ("file:///etc/passwd", "no address of a server"),
        ("ftp://localhost/metrics", "no address of a server"),
        ("http://", "no address of a server"),
        ("", "no address of a server"),
        ("http://localhost:eight", "no address"),
        ("http://localhost:99999", "no address"),
        ("http://[::1", "no address"),
        ("http://local host", "no address"),
        ("http://localhost/\r\nX: y", "no address"),
        ("http://lokalér/metrics", "no address"),
        ("http://me:secret@localhost", "name or password"),
    ],
)
def test_an_address_that_cannot_be_meant(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        from_server(url, WANTED)
    assert "secret" not in told.value.message + told.value.hint


@pytest.mark.parametrize(
    ("answer", "said", "hint"),
    [
        pytest.param(page(b"", 401), "asks for a key (401)", "DRAFTPICK_API_KEY", id="no key"),
        pytest.param(page(b"", 403), "asks for a key (403)", "DRAFTPICK_API_KEY", id="wrong key"),
        pytest.param(page(b"", 404), "is not there (404)", "--enable-metrics", id="not found"),
        pytest.param(page(b"", 501), "switched off (501)", "--metrics", id="llama-server without them"),
        pytest.param(page(b"", 500), "an error (500)", "log", id="broken"),
        pytest.param(page(b"<html></html>"), "begins '<html>", "/metrics", id="HTML"),
        pytest.param(page(LINE.encode("utf-16")), "no UTF-8", "/metrics", id="another encoding"),
        pytest.param(page(b"\x1f\x8b", Content_Encoding="gzip"), "compressed (gzip)", "--compressed", id="gzip"),
        pytest.param(page(b"", Content_Length="100000000"), "more than 8 MiB", "own address", id="says 100 MB"),
        pytest.param(
            endless(b"HTTP/1.1 200 OK\r\n\r\n", b"#" * (1 << 20)), "more than 8 MiB", "own address", id="sends 100 MB"
        ),
        pytest.param(page(LINE.encode(), Content_Length="5000"), "broke off its answer", "web server", id="cut"),
        pytest.param(reset, "broke off its answer", "web server", id="reset"),
        pytest.param(raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "broke off its answer", "web server", id="no HTTP"),
        pytest.param(page(b"", 302, Location="http://example.org/"), "which is not asked", "trust", id="elsewhere"),
        pytest.param(page(b"", 302, Location="file:///etc/passwd"), "from place to place", "where", id="a file"),
        pytest.param(page(b"", 302, Location="/again"), "from place to place (302)", "where it ends", id="circle"),
    ],
)
def test_a_server_that_misbehaves(answer: Behaviour, said: str, hint: str) -> None:
    with serving(answer) as (url, asked), pytest.raises(NotObservable, match=re.escape(said)) as told:
        from_server(url, WANTED)
    assert told.value.message.startswith(f"{url}/metrics")
    assert hint in told.value.hint
    assert told.value.exit_code == 3
    assert len(asked) <= 5


def test_it_is_followed_to_its_own_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPICK_API_KEY", "secret")

    def answer(handler: Handler) -> None:
        there = handler.path == "/metrics/"
        (page(LINE.encode()) if there else page(b"", 307, Location="/metrics/"))(handler)

    with serving(answer) as (url, asked):
        assert len(from_server(url, WANTED).samples) == 1
    assert [one["authorization"] for one in asked] == ["Bearer secret"] * 2


@pytest.mark.parametrize("answer", [hang, trickle(b"", b"H")], ids=["says nothing", "a byte now and then"])
def test_a_server_that_hangs_is_given_up(answer: Behaviour) -> None:
    with serving(answer) as (url, _), pytest.raises(NotObservable, match=r"did not answer within 0\.2 seconds"):
        from_server(url, WANTED, timeout=0.2)


def test_nobody_listens() -> None:
    with nobody_listens() as url, pytest.raises(DraftpickError, match=f"{url}/metrics: the connection was refused"):
        from_server(url, WANTED)


def test_a_host_that_is_not_there() -> None:
    with pytest.raises(NotObservable, match=r"http://nobody\.invalid/metrics"):
        from_server("http://nobody.invalid", WANTED)
