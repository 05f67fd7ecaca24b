"""GGUF headers: read whole or refused, and what they say of a model."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_builder import build, qwen2
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.catalog import Catalog, load
from draftpick.errors import DraftpickError, InvalidFile
from draftpick.models.folder import profile_from_gguf_file
from draftpick.models.gguf import TYPES, GgufHeader, read_header
from draftpick.models.gguf_profile import profile_from_gguf
from draftpick.models.profile import Experts, LatentAttention, ModelProfile

SOME = {
    "general.architecture": "llama",
    "flag": True,
    "factor": 0.5,
    "below": -3,
    "list": [1, 2, 3],
    "texts": ["a", "ü", ""],
    "nested": [[1, 2], [3]],
    "empty": [],
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


def written(folder: Path, data: bytes, name: str = "model.gguf") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def profile(folder: Path, metadata: dict[str, Any], tensors: Any = ()) -> ModelProfile:
    return profile_from_gguf(written(folder, build(metadata, tensors)))


@pytest.mark.parametrize(("version", "order"), [(2, "<"), (3, "<"), (3, ">")], ids=["v2", "v3", "big-endian"])
def test_values_of_all_kinds_are_read(tmp_path: Path, version: int, order: str) -> None:
    tensors = [("token_embd.weight", (64, 100), 1)]
    header = read_header(written(tmp_path, build(SOME, tensors, version=version, order=order)))
    found = {key: _plain(value) for key, value in header.metadata.items()}
    assert found == SOME
    assert (header.version, header.tensor_count) == (version, 1)
    (tensor,) = header.tensors
    assert (tensor.name, tensor.shape, tensor.elements, tensor.nbytes) == ("token_embd.weight", (64, 100), 6400, 12800)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if not isinstance(value, (str, bool, int, float)) else value


def test_text_that_is_no_utf8_survives(tmp_path: Path) -> None:
    header = read_header(written(tmp_path, build({"general.architecture": "llama", "raw": b"\xff\xfe"})))
    assert header.metadata["raw"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_file_cut_behind_its_header_is_enough(tmp_path: Path) -> None:
    found = profile(tmp_path, qwen2(), [("token_embd.weight", (3584, 152064), 12)])
    assert (found.num_hidden_layers, found.vocab_size) == (28, 152064)
    assert "the file ends before its weights do: the download was cut off" in found.notes


def test_every_cut_inside_the_header_is_told(tmp_path: Path) -> None:
    whole = build(SOME, [("token_embd.weight", (64, 100), 1)])
    for length in range(len(whole)):
        with pytest.raises(InvalidFile, match=r"cut\.gguf is not a readable GGUF file"):
            read_header(written(tmp_path, whole[:length], "cut.gguf"))


def test_a_large_vocabulary_is_read_fast(tmp_path: Path) -> None:
    keys = {"general.architecture": "llama", "tokenizer.ggml.tokens": [f"token{i}" for i in range(150_000)]}
    path = written(tmp_path, build(keys))
    start = time.perf_counter()
    header = read_header(path)
    assert time.perf_counter() - start < 1.5  # 0.05 s on an idle machine
    assert header.metadata["tokenizer.ggml.tokens"][149_999] == "token149999"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
        (b"PK\x03\x04 something else", "another first line"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99"),
        (build(SOME, key_count=2**63), "keys"),
        (build(SOME, tensor_count=2**63), "tensors"),
        (build(SOME, tensor_count=150_000), "tensors"),
        (build({}, key_count=1) + struct.pack("<Q", 2**62), "claims"),
        (build({}, key_count=1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 2**61) + bytes(64), "texts"),
        (build({}, key_count=1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 4, 2**61) + bytes(64), "numbers"),
        (build({}, key_count=1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 9, 2**61) + bytes(64), "lists"),
        (build({}, key_count=1) + struct.pack("<Q1sI", 1, b"a", 9) + struct.pack("<IQ", 9, 1) * 50, "nested"),
        (build({}, key_count=1) + struct.pack("<Q1sI", 1, b"a", 77) + bytes(64), "unknown type 77"),
        (build({}, tensor_count=1) + struct.pack("<Q1sI", 1, b"a", 2**31) + bytes(64), "dimensions"),
        (build({}, [("a", (2**60, 2**60), 0)]), "elements"),
    ],
    ids=[
        "empty", "lfs", "zip", "v1", "v99", "keys", "tensors", "more tensors than bytes", "long text", "texts",
        "numbers", "lists", "deep", "type", "dimensions", "elements",
    ],
)  # fmt: skip
def test_an_absurd_header_is_refused_at_once(tmp_path: Path, data: bytes, reason: str) -> None:
    start = time.perf_counter()
    with pytest.raises(InvalidFile, match=reason):
        read_header(written(tmp_path, data))
    assert time.perf_counter() - start < 1


def test_a_sparse_giant_of_empty_texts_is_refused_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, build({}, key_count=1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 10**10))
    with open(path, "r+b") as file:
        file.truncate(1 << 38)
    with pytest.raises(InvalidFile, match="texts"):
        read_header(path)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_behind_the_magic_give_a_header_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), b"GGUF\x03\x00\x00\x00" + data, "random.gguf")
    assert isinstance(_outcome(read_header, path), (GgufHeader, InvalidFile))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_flipped_byte_gives_a_profile_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(build(qwen2(), [("token_embd.weight", (3584, 152064), 12), ("blk.0.x", (3584,), 0)]))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.getbasetemp(), bytes(whole), "flipped.gguf")
    assert isinstance(_outcome(profile_from_gguf, path), (ModelProfile, InvalidFile))


def _outcome(call: Callable[[Path], Any], path: Path) -> Any:
    """The result, or the error where it is one of ours; any other error passes and fails the test."""
    try:
        return call(path)
    except DraftpickError as error:
        return error


def test_sizes_of_types_agree_with_the_format_s_own_package() -> None:
    constants = pytest.importorskip("gguf.constants")
    theirs = {int(kind): tuple(sizes) for kind, sizes in constants.GGML_QUANT_SIZES.items()}
    assert {kind: TYPES[kind][1:] for kind in theirs if kind in TYPES} == {
        kind: sizes for kind, sizes in theirs.items() if kind in TYPES
    }


# -------------------------------------------------------------------- profiles


def test_a_conversion_of_a_catalogued_model_is_recognised(tmp_path: Path, catalog: Catalog) -> None:
    found = profile_from_gguf_file(written(tmp_path, build(qwen2())), catalog, id="model.gguf")
    known = catalog.profile("Qwen/Qwen2.5-7B-Instruct")
    same = [
        "architecture",
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "max_position_embeddings",
        "family",
        "generation",
        "variant",
        "params_text",
        "tie_word_embeddings",
        "attention",
        "license",
    ]
    assert {name: getattr(found, name) for name in same} == {name: getattr(known, name) for name in same}
    assert found.quantization == "gguf-q4_k_m"
    assert (found.lineage.base_model, found.lineage.relation) == ("Qwen/Qwen2.5-7B-Instruct", "quantized")
    assert {"family", "lineage"} <= found.uncertain


def test_a_file_that_names_its_source_is_certain(tmp_path: Path, catalog: Catalog) -> None:
    source = "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct"
    keys = qwen2(**{"general.name": None, "general.source.repo_url": source})
    found = profile_from_gguf_file(written(tmp_path, build(keys)), catalog, id="model.gguf")
    assert (found.family, "family" in found.uncertain) == ("Qwen", False)


def test_a_name_does_not_outweigh_the_shape(tmp_path: Path, catalog: Catalog) -> None:
    keys = qwen2(**{"qwen2.block_count": 30})
    assert profile_from_gguf_file(written(tmp_path, build(keys)), catalog, id="model.gguf").family is None


def test_weights_are_counted_from_the_tensors(tmp_path: Path) -> None:
    tensors = [
        ("token_embd.weight", (256, 1000), 12),
        ("output.weight", (256, 1000), 14),
        ("blk.0.attn_q.weight", (256, 256), 12),
        ("rope_freqs.weight", (64,), 0),
    ]
    found = profile(tmp_path, {"general.architecture": "llama"}, tensors)
    assert found.params_total == 2 * 256_000 + 65_536
    assert found.weight_bytes == 144_000 + 210_000 + 36_864 + 256
    assert found.tie_word_embeddings is False
    assert found.vocab_size == 1000


def test_no_output_matrix_means_tied(tmp_path: Path) -> None:
    assert profile(tmp_path, qwen2(), [("token_embd.weight", (8, 8), 0)]).tie_word_embeddings is True


@pytest.mark.parametrize(
    ("metadata", "field", "expected"),
    [
        ({"general.file_type": 1}, "dtype", "float16"),
        ({"general.file_type": 32}, "dtype", "bfloat16"),
        ({"general.file_type": 7}, "quantization", "gguf-q8_0"),
        ({"general.file_type": None}, "quantization", None),
        ({"qwen2.attention.head_count_kv": [4] * 28}, "num_key_value_heads", 4),
        ({"qwen2.attention.head_count_kv": [4, 8]}, "num_key_value_heads", None),
        ({"qwen2.feed_forward_length": [18944] * 28}, "intermediate_size", 18944),
        ({"qwen2.attention.head_count_kv": None}, "num_key_value_heads", 28),
        ({"qwen2.attention.key_length": 256}, "head_dim", 256),
        ({"qwen2.vocab_size": None, "tokenizer.ggml.tokens": ["a", "b"]}, "vocab_size", 2),
        ({"qwen2.vocab_size": None}, "vocab_size", None),
        (
            {
                "qwen2.rope.scaling.type": "yarn",
                "qwen2.rope.scaling.factor": 4.0,
                "qwen2.rope.scaling.original_context_length": 32768,
            },
            "rope",
            "yarn 4 32768",
        ),
        ({"qwen2.rope.scaling.type": "none"}, "rope", None),
        ({"qwen2.attention.sliding_window": 1024}, "attention", "sliding"),
        ({"qwen2.ssm.state_size": 128}, "attention", "hybrid"),
        ({"general.license": "apache-2.0"}, "license", "apache-2.0"),
        ({"qwen2.nextn_predict_layers": 1}, "num_hidden_layers", 27),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_key_becomes_a_field(tmp_path: Path, metadata: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(profile(tmp_path, qwen2(**metadata)), field) == expected


def test_experts_and_latent_attention(tmp_path: Path) -> None:
    keys = {
        "general.architecture": "deepseek2",
        "deepseek2.block_count": 61,
        "deepseek2.embedding_length": 7168,
        "deepseek2.feed_forward_length": 18432,
        "deepseek2.attention.head_count": 128,
        "deepseek2.attention.head_count_kv": 1,
        "deepseek2.attention.key_length": 576,
        "deepseek2.attention.key_length_mla": 192,
        "deepseek2.attention.value_length_mla": 128,
        "deepseek2.attention.kv_lora_rank": 512,
        "deepseek2.attention.q_lora_rank": 1536,
        "deepseek2.rope.dimension_count": 64,
        "deepseek2.expert_count": 256,
        "deepseek2.expert_used_count": 8,
        "deepseek2.expert_feed_forward_length": 2048,
        "deepseek2.expert_shared_count": 1,
        "deepseek2.leading_dense_block_count": 3,
        "deepseek2.expert_gating_func": 2,
    }
    found = profile(tmp_path, keys)
    assert found.architecture == "DeepseekV3ForCausalLM"
    assert found.experts == Experts(num_experts=256, experts_per_token=8, width=2048, shared=1, dense_layers=3)
    assert found.latent == LatentAttention(
        kv_lora_rank=512, qk_rope_head_dim=64, q_lora_rank=1536, qk_nope_head_dim=128, v_head_dim=128
    )
    assert (found.num_key_value_heads, found.head_dim) == (128, None)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"general.architecture": "gemma3", "gemma3.block_count": 26, "gemma3.attention.sliding_window": 512}, 22),
        (
            {
                "general.architecture": "gemma3",
                "gemma3.block_count": 4,
                "gemma3.attention.sliding_window": 512,
                "gemma3.attention.sliding_window_pattern": [True, True, False, True],
            },
            3,
        ),
    ],
    ids=["constant", "pattern"],
)
def test_sliding_layers_are_counted(tmp_path: Path, metadata: dict[str, Any], expected: int) -> None:
    assert profile(tmp_path, metadata).sliding_layers == expected


@pytest.mark.parametrize(
    ("keys", "recurrent"),
    [
        ({"general.architecture": "qwen35", "qwen35.block_count": 64}, 48),
        (
            {"general.architecture": "lfm2", "lfm2.block_count": 4, "lfm2.attention.head_count_kv": [0, 0, 8, 0]},
            3,
        ),
        ({"general.architecture": "mamba", "mamba.block_count": 12}, 12),
    ],
    ids=["interval", "per layer", "all"],
)
def test_recurrent_layers_are_counted(tmp_path: Path, keys: dict[str, Any], recurrent: int) -> None:
    assert profile(tmp_path, keys).recurrent_layers == recurrent


def test_a_split_set_is_read_from_all_its_headers(tmp_path: Path) -> None:
    parts = {"split.count": 2, "split.no": 0}
    first = written(
        tmp_path, build({**qwen2(), **parts}, [("token_embd.weight", (8, 100), 0)]), "m-00001-of-00002.gguf"
    )
    alone = profile_from_gguf(first)
    assert (alone.params_total, alone.weight_bytes) == (None, None)
    assert any("the first of 2 files was read" in note for note in alone.notes)
    written(tmp_path, build({"split.no": 1}, [("output.weight", (8, 100), 0)]), "m-00002-of-00002.gguf")
    both = profile_from_gguf(first)
    assert (both.params_total, both.weight_bytes, both.tie_word_embeddings) == (1600, 6400, False)


def test_a_later_part_of_a_split_set_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as error:
        profile_from_gguf(written(tmp_path, build({"split.no": 1, "split.count": 2})))
    assert "first file" in error.value.hint
