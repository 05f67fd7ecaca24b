"""Bad input: one clear line and a hint, in bounded time and memory, whatever lies in a model folder."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_resolve import LLAMA_TENSORS, SMALL, folder, safetensors

from draftpick.catalog import Catalog, load
from draftpick.errors import DraftpickError, InvalidFile, NotResolvable
from draftpick.models import resolve
from draftpick.models.folder import profile_from_folder
from draftpick.models.profile import ModelProfile
from draftpick.models.safetensors import read_folder, read_header
from draftpick.overlay import model_row
from draftpick.probe_file import record_of

SECONDS = 2.0
BYTES = 500 * 2**20


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "MODELSCOPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def refused(path: Path, catalog: Catalog, kind: type[DraftpickError] = InvalidFile) -> DraftpickError:
    start = time.perf_counter()
    with pytest.raises(kind) as caught:
        resolve(str(path), catalog, offline=True)
    assert time.perf_counter() - start < SECONDS
    error = caught.value
    assert error.hint
    assert "\n" not in error.message
    assert len(error.message) < 500
    return error


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result, or the error where it is one of ours; any other error passes and fails the test."""
    try:
        return call(*arguments, **options)
    except DraftpickError as error:
        return error


def giant(path: Path, start: bytes, size: int) -> None:
    """A sparse file: it claims a size that nobody wrote."""
    path.write_bytes(start)
    with open(path, "r+b") as file:
        file.truncate(size)


# -------------------------------------------------------------------- config.json


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"hidden_size": 64',
        b"[1, 2]",
        b'"text"',
        b"\x80\x81\x82",
        b'{"a": "\xff"}',
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        b"<html>not found</html>",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"hidden_size": ' + b"9" * 100_000 + b"}",
        b'{"hidden_size": 1e400}',
        b'{"num_hidden_layers": 1000000000}',
        b'{"num_hidden_layers": NaN}',
        b"\0" * 1000,
    ],
    ids=[
        "empty", "open", "cut off", "list", "text", "no utf-8", "no utf-8 inside", "lfs pointer", "html", "deep list",
        "deep object", "long number", "infinite", "absurd count", "not a number", "zeros",
    ],
)  # fmt: skip
def test_a_bad_config_is_told(content: bytes, tmp_path: Path, catalog: Catalog) -> None:
    error = refused(folder(tmp_path / "m", config__json=content), catalog)
    assert "config.json" in error.message


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden_size": 10**7, "intermediate_size": 10**8, "num_hidden_layers": 10_000, "num_attention_heads": 1},
        {"vocab_size": 10**9, "hidden_size": 10**8},
        {"model_type": "of_nobody", "hidden_size": 10**6, "intermediate_size": 10**8, "num_hidden_layers": 10_000},
        {"num_key_value_heads": 256_000, "head_dim": 256_000},
        {"num_attention_heads": 10**6, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 10**6},
        {"num_nextn_predict_layers": 257},
    ],
    ids=["parameters", "embedding", "unknown architecture", "cache", "latent cache", "mtp layers"],
)
def test_sizes_that_multiply_to_what_no_model_has_are_told(
    sizes: dict[str, int], tmp_path: Path, catalog: Catalog
) -> None:
    error = refused(folder(tmp_path / "m", {**SMALL, **sizes}), catalog)
    assert re.search("come to .* which no model has", error.message)


ODD_TEXTS = st.sampled_from(
    ["x" * 400, "a\nb", "\x1b[31m", "\x7f", "\ud800", "' ; rm -rf /", "\u2028", "a" * 299 + "\U0001f600b"]
)
ODD_NUMBERS = st.sampled_from([0, 1, -1, 10_000, 10**9, 1 << 40, 1e300, 1.5, True, None, "12"])
ODD_CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "architectures": st.tuples(ODD_TEXTS),
        "model_type": ODD_TEXTS,
        "layer_types": st.lists(
            st.sampled_from(["full_attention", "sliding_attention", "linear_attention"]), max_size=9
        ),
        "sliding_window": ODD_NUMBERS,
        "max_position_embeddings": ODD_NUMBERS,
        "num_experts": st.just(8),
        "num_experts_per_tok": st.just(2),
        "moe_intermediate_size": ODD_NUMBERS,
        "first_k_dense_replace": ODD_NUMBERS,
        "num_nextn_predict_layers": ODD_NUMBERS,
        "quantization_config": st.fixed_dictionaries({"quant_method": ODD_TEXTS, "bits": ODD_NUMBERS}),
        "rope_scaling": st.fixed_dictionaries(
            {"rope_type": ODD_TEXTS, "original_max_position_embeddings": ODD_NUMBERS}
        ),
    },
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(config=ODD_CONFIGS, id=st.sampled_from(["a/b", "/" + "deep/" * 200, "two\nlines", "no-utf-8-\udcff"]))
def test_whatever_is_read_of_a_model_fits_a_probe_and_the_catalogue(
    config: dict[str, Any], id: str, tmp_path: Path, catalog: Catalog
) -> None:
    here = folder(tmp_path / "m", {**SMALL, **config})
    profile = outcome(profile_from_folder, here, catalog, id=id)
    if isinstance(profile, ModelProfile):
        assert record_of(profile._replace(path=None)).profile().num_hidden_layers == profile.num_hidden_layers
        model_row(profile._replace(id="me/x", tokenizer=None), "mine")


def test_an_lfs_pointer_says_what_to_run(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", config__json=b"version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in refused(here, catalog).hint


@pytest.mark.parametrize("name", ["config.json", "adapter_config.json", "tokenizer.json", "README.md"])
def test_a_file_of_200_mb_is_not_read(name: str, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", None if name.endswith("config.json") else SMALL)
    giant(here / name, b'{"a": "', 200 * 2**20)
    if name == "README.md":
        assert resolve(str(here), catalog).license is None
    else:
        assert name in refused(here, catalog).message


def test_keys_that_are_there_twice_are_tolerated(tmp_path: Path, catalog: Catalog) -> None:
    text = json.dumps(SMALL)[:-1] + ', "hidden_size": 128, "hidden_size": 256}'
    assert resolve(str(folder(tmp_path / "m", config__json=text)), catalog).hidden_size == 256


def test_a_byte_order_mark_is_tolerated(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", config__json=b"\xef\xbb\xbf" + json.dumps(SMALL).encode())
    assert resolve(str(here), catalog).hidden_size == 64


# -------------------------------------------------------------------- folders


def test_an_empty_folder_is_told(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "m").mkdir()
    assert "is empty" in refused(tmp_path / "m", catalog, NotResolvable).message


def test_a_folder_of_other_things_is_told(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", notes__txt="x", pytorch_model__bin=b"\x80\x04")
    assert "config.json" in refused(here, catalog, NotResolvable).message


@pytest.mark.parametrize("name", ["m", "m.gguf", "m/config.json"])
def test_links_in_a_circle_are_told(name: str, tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(path.name)
    refused(tmp_path / name.split("/")[0], catalog)


def test_a_broken_link_is_told(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "m").symlink_to("gone")
    refused(tmp_path / "m", catalog)
    folder(tmp_path / "n")
    (tmp_path / "n" / "config.json").symlink_to("gone")
    refused(tmp_path / "n", catalog)


def test_a_pipe_does_not_block(tmp_path: Path, catalog: Catalog) -> None:
    folder(tmp_path / "m")
    os.mkfifo(tmp_path / "m" / "config.json")
    assert "not a regular file" in refused(tmp_path / "m", catalog).message


def test_a_file_that_is_no_model_is_told(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert "names" not in refused(tmp_path / "config.json", catalog).hint


def test_an_adapter_of_itself_ends(tmp_path: Path, catalog: Catalog) -> None:
    here = tmp_path / "m"
    folder(here, adapter_config__json={"base_model_name_or_path": str(here)})
    assert "without end" in refused(here, catalog).message


@pytest.mark.parametrize("base", [None, 3, "", ["a"], {"a": 1}], ids=str)
def test_an_adapter_without_a_base_is_told(base: object, tmp_path: Path, catalog: Catalog) -> None:
    refused(folder(tmp_path / "m", adapter_config__json={"base_model_name_or_path": base}), catalog)


def test_code_and_pickles_in_a_folder_are_not_touched(tmp_path: Path, catalog: Catalog) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w')\n"
    pickled = b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR."
    here = folder(
        tmp_path / "m",
        {**SMALL, "auto_map": {"AutoConfig": "configuration_x.X"}},
        configuration_x__py=code,
        modeling_x__py=code,
        pytorch_model__bin=pickled,
        model__pt=pickled,
    )
    assert resolve(str(here), catalog).remote_code
    assert not mark.exists()


# -------------------------------------------------------------------- safetensors


def header(described: object, *, length: int | None = None, body: int = 0) -> bytes:
    raw = json.dumps(described).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(body)


ONE = {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234",
        b"version https://git-lfs.github.com/spec/v1\n",
        header({"a": ONE}, length=2**63),
        header({"a": ONE}, length=5),
        header({"a": ONE}, body=4),
        header([ONE], body=8),
        header({"a": 3}),
        header({"a": {**ONE, "shape": [2**60]}}, body=8),
        header({"a": {**ONE, "shape": [-1]}}, body=8),
        header({"a": {**ONE, "shape": [3, 3]}}, body=8),
        header({"a": {**ONE, "data_offsets": [8, 0]}}, body=8),
        header({"a": {**ONE, "data_offsets": [0, 2**60]}}, body=8),
        header({"a": {**ONE, "data_offsets": [0]}}, body=8),
        header({"a": {**ONE, "dtype": 3}}, body=8),
        struct.pack("<Q", 200_000) + b'{"a":' * 40_000,
    ],
    ids=[
        "empty", "short", "lfs", "absurd length", "cut json", "cut data", "list", "number", "absurd shape", "negative",
        "other size", "backwards", "absurd offset", "one offset", "no type", "deep",
    ],
)  # fmt: skip
def test_a_bad_header_is_told(content: bytes, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL, model__safetensors=content)
    assert "model.safetensors" in refused(here, catalog).message


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "a/../../b", "..\\b", "C:\\b", "", "a\0b", "x" * 300], ids=repr
)
def test_an_index_does_not_lead_out_of_its_folder(name: str, tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "outside.safetensors").write_bytes(safetensors(LLAMA_TENSORS))
    here = folder(tmp_path / "m", SMALL)
    (here / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert "no file of that folder" in refused(here, catalog).message


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"weight_map": 3},
        {"weight_map": {"a": 3}},
        {"weight_map": {f"{i}": f"{i}.safetensors" for i in range(9999)}},
    ],
    ids=["empty", "number", "entry", "too many"],
)
def test_a_bad_index_is_told(index: object, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL)
    (here / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(here, catalog)


@pytest.mark.parametrize("size", [float("nan"), -1, 1e300, "x", None, True, 2**80], ids=str)
def test_an_absurd_total_is_unknown(size: object, tmp_path: Path) -> None:
    here = folder(tmp_path / "m")
    index = {"metadata": {"total_size": size}, "weight_map": {"a": "a.safetensors"}}
    (here / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read_folder(here)
    assert found is not None
    assert found.weight_bytes is None


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_header_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    for content in (data, struct.pack("<Q", len(data)) + data):
        path.write_bytes(content)
        assert isinstance(outcome(read_header, path), (dict, InvalidFile))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "config.json",
                "generation_config.json",
                "tokenizer.json",
                "tokenizer_config.json",
                "quantize_config.json",
                "hf_quant_config.json",
                "quant_model_description.json",
                "adapter_config.json",
                "model.safetensors.index.json",
            ]
        ),
        st.dictionaries(
            st.sampled_from(
                [
                    "model",
                    "vocab",
                    "added_tokens",
                    "eos_token_id",
                    "base_model_name_or_path",
                    "quantization",
                    "weight_map",
                ]
            ),
            JSON,
        ),
        min_size=1,
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_folder_of_any_json_is_a_profile_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, catalog: Catalog, files: dict[str, object]
) -> None:
    here = tmp_path_factory.mktemp("m")
    for name, content in files.items():
        (here / name).write_text(json.dumps(content))
    assert isinstance(outcome(resolve, str(here), catalog, offline=True), (ModelProfile, DraftpickError))


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_is_a_model_or_an_error_of_ours(catalog: Catalog, name: str) -> None:
    assert isinstance(outcome(resolve, name, catalog, offline=True), (ModelProfile, NotResolvable, InvalidFile))


# -------------------------------------------------------------------- tokenizers


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def part(number: int, value: int | bytes) -> bytes:
    """A field of a sentencepiece model: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


PIECES = b"".join(part(1, part(1, b"piece%d" % i)) for i in range(20))
TEKKEN = {
    "config": {"default_num_special_tokens": 1, "default_vocab_size": 5, "pattern": ""},
    "vocab": [{"rank": 0, "token_bytes": "YQ=="}],
}
BPE = {"model": {"type": "BPE", "vocab": {"a": 0}}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": -1}}}),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}}}),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 2**60}}}),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0, "b": 10**7}}}),
        ("tokenizer.json", {"model": {"type": "Unigram", "vocab": [5]}}),
        ("tokenizer.json", {**BPE, "added_tokens": [{"id": [], "content": "x"}]}),
        ("tokenizer.model", PIECES[:-3]),
        ("tokenizer.model", b"\x0a\xff\xff\xff\xff\x7f"),
        ("tokenizer.model", b"\x0a" + b"\xff" * 100_000),
        ("tokenizer.model", b"YWJj 99999999999999999999\n"),
        ("tekken.json", {**TEKKEN, "special_tokens": [{}]}),
        ("tekken.json", {**TEKKEN, "special_tokens": [{"rank": [], "token_str": "x"}]}),
        ("tekken.json", {**TEKKEN, "special_tokens": 5}),
        ("tekken.json", {**TEKKEN, "special_tokens": [{"rank": -1, "token_str": "x"}]}),
        ("vocab.json", {"a": [0]}),
        ("rwkv_vocab_v1.txt", b"0 " + b"(" * 30_000 + b" 1\n"),
        ("rwkv_vocab_v1.txt", b"0 'a' 1\n" * 71_000),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:60],
)
def test_a_bad_tokenizer_is_told(name: str, content: object, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL)
    (here / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert name in refused(here, catalog).message


@pytest.mark.parametrize(
    "content",
    [
        part(2, part(41, b"a number was meant") + part(25, b"x")),
        part(3, part(1, 2**40)),
        part(3, part(1, 2**63) + part(2, 5)),
        part(1, part(1, 5)),
    ],
    ids=["text for an id", "number for a text", "huge number for a text", "number for a piece"],
)
def test_a_field_of_another_type_is_not_believed(content: bytes, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL, tokenizer__model=PIECES + content)
    tokenizer = resolve(str(here), catalog).tokenizer
    assert tokenizer is not None
    assert tokenizer.named_ids is not None


@pytest.mark.parametrize("name", ["tokenizer.json", "tekken.json", "tokenizer.model", "tokenizer_config.json"])
@pytest.mark.parametrize("make", ["folder", "pipe", "broken link", "circle", "device"])
def test_a_tokenizer_that_is_no_file_is_not_passed_over(name: str, make: str, tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL)
    if name == "tokenizer_config.json":
        (here / "tokenizer.json").write_text(json.dumps(BPE))
    path = here / name
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"broken link": "gone", "circle": name, "device": "/dev/zero"}[make])
    assert name in refused(here, catalog).message


@pytest.mark.parametrize("key", ["9" * 5000, "9" * 400, "-1", "x", ""], ids=lambda key: f"{len(key)} {key[:3]}")
def test_an_absurd_id_in_the_tokenizer_config_is_left_out(key: str, tmp_path: Path, catalog: Catalog) -> None:
    config = {"added_tokens_decoder": {key: {"content": "<|x|>"}}}
    here = folder(tmp_path / "m", SMALL, tokenizer__json=BPE, tokenizer_config__json=config)
    tokenizer = resolve(str(here), catalog).tokenizer
    assert tokenizer is not None
    assert tokenizer.named_ids == 1


@pytest.mark.filterwarnings("error")
def test_an_odd_escape_in_a_literal_warns_of_nothing(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL)
    (here / "rwkv_vocab_v1.txt").write_text("0 '\\d' 2\n1 'a' 1\n")
    tokenizer = resolve(str(here), catalog).tokenizer
    assert tokenizer is not None
    assert tokenizer.named_ids == 2


def test_many_control_tokens_and_a_long_template_take_no_product_of_time(tmp_path: Path, catalog: Catalog) -> None:
    vocab = {f"<|t{i}|>": i for i in range(20_000)}
    here = folder(
        tmp_path / "m",
        SMALL,
        tokenizer__json={"model": {"type": "BPE", "vocab": vocab}},
        tokenizer_config__json={"chat_template": "<|t7|>" + "<|t" * 300_000},
    )
    start = time.perf_counter()
    tokenizer = resolve(str(here), catalog).tokenizer
    assert time.perf_counter() - start < SECONDS
    assert tokenizer is not None
    assert tokenizer.template_ids == (7,)


# -------------------------------------------------------------------- time and memory


WORST = {
    "brackets": b'{"a":[' + b"[]," * 1_490_000 + b"[]]}",
    "braces": b'{"a":[' + b'{"b":{}},' * 740_000 + b"[]]}",
    "numbers": b'{"a":[' + b"1.5," * 2_990_000 + b"[]]}",
    "texts": b"{" + b",".join(b'"%d":"%d"' % (i, i) for i in range(790_000)) + b"}",
    "wide text": '{"a":"\U0001f600'.encode() + b"x" * 39_999_000 + b'"}',
}


@pytest.mark.parametrize("kind", [*WORST, "gguf"])
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from /proc")
def test_the_worst_files_stay_within_bounds(kind: str, tmp_path: Path) -> None:
    """In a process of its own, because its memory is measured: files just below what the limits let through."""
    here = folder(tmp_path / "m", SMALL)
    path = here
    if kind == "gguf":
        path = here / "model.gguf"
        start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 1_999_999)
        path.write_bytes(start + b"".join(struct.pack("<Q24s", 24, b"%d" % i) for i in range(1_999_999)))
    else:
        body = WORST[kind]
        (here / "model.safetensors").write_bytes(struct.pack("<Q", len(body)) + body)
    code = (
        "import sys, time\n"
        "from draftpick.catalog import Catalog\n"
        "from draftpick.errors import DraftpickError\n"
        "from draftpick.models.folder import profile_from_folder, profile_from_gguf_file\n"
        "from pathlib import Path\n"
        "empty = Catalog({'models': {}, 'names': {}, 'tokenizers': {}, 'tokenizers_by_full': {}})\n"
        "path = Path(sys.argv[1])\n"
        "read = profile_from_folder if path.is_dir() else profile_from_gguf_file\n"
        "start = time.process_time()\n"
        "try:\n    read(path, empty, id='x')\n"
        "except DraftpickError as error:\n    print(type(error).__name__)\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]\n"
        "print(time.process_time() - start, int(peak) * 1024)\n"
    )
    # A bound on the reader's own work: tracing its lines would take five times as long.
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, env=untraced
    )
    refusal, seconds, peak = done.stdout.split()
    assert refusal == "InvalidFile"
    assert float(seconds) < SECONDS
    assert float(peak) < BYTES
