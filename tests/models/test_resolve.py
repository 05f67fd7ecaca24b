"""From a name to a profile: paths, catalogue, caches; what folders say and whose copies they are."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gguf_builder import build, qwen2

from draftpick.catalog import Catalog, load
from draftpick.errors import InvalidFile, NotResolvable
from draftpick.models import resolve
from draftpick.models.caches import Cached, cached_models, find_cached
from draftpick.models.card import Card, parse_card
from draftpick.models.profile import ModelProfile

PUBLISHED = sorted((Path(__file__).parent.parent / "hub").glob("*.json"))
SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN = json.loads((Path(__file__).parent.parent / "hub" / "Qwen--Qwen2.5-7B-Instruct.json").read_text())


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No cache of the machine is looked into, and nothing is asked of the hub."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "MODELSCOPE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return home


def folder(path: Path, config: Mapping[str, Any] | None = None, **files: Any) -> Path:
    """A model folder; names of files have `__` for the dot, objects are written as JSON."""
    path.mkdir(parents=True, exist_ok=True)
    if config is not None:
        files["config__json"] = config
    for name, content in files.items():
        target = path / name.replace("__", ".")
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def safetensors(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    widths = {"BF16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1}
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = widths[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(at)


LLAMA_TENSORS = {
    "model.embed_tokens.weight": ("BF16", (100, 64)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (64, 64)),
    "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (8,)),
    "lm_head.weight": ("BF16", (100, 64)),
}


# -------------------------------------------------------------------- order


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-7B-Instruct", "qwen/qwen2.5-7b-INSTRUCT", "Qwen2.5-7B-Instruct"])
def test_the_catalogue_answers_in_any_case(name: str, catalog: Catalog) -> None:
    assert resolve(name, catalog).id == "Qwen/Qwen2.5-7B-Instruct"


def test_an_alias_answers(catalog: Catalog) -> None:
    assert resolve("meta-llama/Meta-Llama-3.1-8B", catalog).id == "meta-llama/Llama-3.1-8B"


def test_a_path_comes_before_the_catalogue(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "Qwen" / "Qwen2.5-7B-Instruct", SMALL)
    found = resolve("Qwen/Qwen2.5-7B-Instruct", catalog)
    assert (found.origin, found.hidden_size) == ("folder", 64)


@pytest.mark.parametrize("name", ["./nothing", "/nothing/there", "~/nothing", "nothing.gguf"])
def test_what_looks_like_a_path_is_never_an_id(name: str, catalog: Catalog) -> None:
    with pytest.raises((NotResolvable, InvalidFile), match="nothing"):
        resolve(name, catalog)


def test_a_mistyped_id_gets_the_nearest_names(catalog: Catalog) -> None:
    with pytest.raises(NotResolvable) as error:
        resolve("Qwen/Qwen2.5-7B-Instrukt", catalog, offline=True)
    assert "Qwen/Qwen2.5-7B-Instruct" in error.value.hint


def test_a_model_nobody_published_is_told(catalog: Catalog) -> None:
    with pytest.raises(NotResolvable) as error:
        resolve("Llama2-1.1B", catalog)
    assert "TinyLlama" in error.value.message + error.value.hint


@pytest.mark.parametrize(
    "name",
    ["", " ", "a", "a/b/c", "org/../../etc", "org/na me", "x" * 5000, "a\0b", "org/\ud800", "\n", "-x/-y"],
    ids=repr,
)
def test_a_name_that_can_be_no_model_is_refused(name: str, catalog: Catalog) -> None:
    with pytest.raises(NotResolvable) as error:
        resolve(name, catalog, offline=True)
    assert len(error.value.message) < 300


def test_offline_is_said(catalog: Catalog) -> None:
    with pytest.raises(NotResolvable, match="offline"):
        resolve("some-org/some-model-nobody-knows", catalog)


# -------------------------------------------------------------------- caches


def hugging_face(home: Path, model_id: str, commit: str, config: Mapping[str, Any], refs: str | None = "main") -> Path:
    repository = home / ".cache" / "huggingface" / "hub" / f"models--{model_id.replace('/', '--')}"
    if refs:
        (repository / "refs").mkdir(parents=True, exist_ok=True)
        (repository / "refs" / refs).write_text(commit)
    return folder(repository / "snapshots" / commit, config)


def test_the_hugging_face_cache_is_read_by_its_reference(own_home: Path, catalog: Catalog) -> None:
    hugging_face(own_home, "my-org/my-model", "abc123", SMALL)
    hugging_face(own_home, "my-org/my-model", "def456", {**SMALL, "hidden_size": 128}, refs="next")
    main = resolve("my-org/my-model", catalog)
    assert (main.origin, main.revision, main.hidden_size) == ("cache", "abc123", 64)
    assert resolve("My-Org/My-Model", catalog).id == "my-org/my-model"
    assert resolve("my-org/my-model", catalog, revision="next").hidden_size == 128
    assert resolve("my-org/my-model", catalog, revision="def456").hidden_size == 128
    with pytest.raises(NotResolvable):
        resolve("my-org/my-model", catalog, revision="none")


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
def test_environment_variables_move_the_cache(
    variable: str, tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "elsewhere"
    hub = root / "hub" if variable == "HF_HOME" else root
    folder(hub / "models--a--b" / "snapshots" / "abc", SMALL)
    monkeypatch.setenv(variable, str(root))
    assert resolve("a/b", catalog).revision == "abc"


@pytest.mark.parametrize("place", [("hub", "models"), ("hub",), ("models",)], ids="/".join)
def test_modelscope_s_cache_is_read(place: tuple[str, ...], own_home: Path, catalog: Catalog) -> None:
    folder(own_home.joinpath(".cache", "modelscope", *place, "my-org", "my-model-2___5"), SMALL)
    found = resolve("my-org/my-model-2.5", catalog)
    assert (found.id, found.origin, found.revision) == ("my-org/my-model-2.5", "cache", None)


@pytest.mark.parametrize(
    ("asked", "read"),
    [(None, "master"), ("master", "master"), ("main", "master"), ("v1.0", "v1.0"), ("v2", None), ("../v1.0", None)],
)
def test_modelscope_s_snapshots_are_read(asked: str | None, read: str | None, own_home: Path) -> None:
    """As its tool writes them from 1.38 on."""
    kept = own_home / ".cache" / "modelscope" / "models" / "my-org--my-model-2.5" / "snapshots"
    for branch in ("v1.0", "master"):
        folder(kept / branch, SMALL)
    found = find_cached("My-Org/my-model-2.5", asked)
    assert found == (None if read is None else Cached("my-org/my-model-2.5", kept / read, None))
    assert [one.id for one in cached_models()] == ["my-org/my-model-2.5"]


def test_a_snapshot_of_modelscope_that_is_the_only_one_is_read(own_home: Path) -> None:
    kept = folder(own_home / ".cache" / "modelscope" / "models" / "a--b" / "snapshots" / "v1.0", SMALL)
    assert find_cached("a/b") == Cached("a/b", kept, None)
    assert find_cached("a/b", "master") is None


def test_a_cached_revision_of_a_catalogued_model_is_read(own_home: Path, catalog: Catalog) -> None:
    hugging_face(own_home, "Qwen/Qwen2.5-7B-Instruct", "abc123", QWEN)
    assert resolve("Qwen/Qwen2.5-7B-Instruct", catalog).origin == "catalogue"
    found = resolve("Qwen/Qwen2.5-7B-Instruct", catalog, revision="abc123")
    known = catalog.profile("Qwen/Qwen2.5-7B-Instruct")
    assert (found.origin, found.family, found.lineage) == ("cache", known.family, known.lineage)
    unread = resolve("Qwen/Qwen2.5-7B-Instruct", catalog, revision="v9")
    assert (unread.origin, unread.revision) == ("catalogue", "v9")
    assert "was not read" in unread.notes[-1]


def test_revisions_do_not_leave_the_cache(own_home: Path) -> None:
    hugging_face(own_home, "a/b", "abc", SMALL)
    folder(own_home / "outside", SMALL)
    assert find_cached("a/b", "../../../../../outside") is None
    assert find_cached("../b") is None


def test_cached_models_are_listed_once(own_home: Path) -> None:
    hugging_face(own_home, "a/b", "abc", SMALL)
    folder(own_home / ".cache" / "modelscope" / "hub" / "models" / "a" / "b", SMALL)
    folder(own_home / ".cache" / "modelscope" / "hub" / "models" / "c" / "d___1", SMALL)
    (own_home / ".cache" / "huggingface" / "hub" / "models--only--weights" / "snapshots" / "x").mkdir(parents=True)
    assert [found.id for found in cached_models()] == ["a/b", "c/d.1"]


# -------------------------------------------------------------------- folders


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_folder_with_its_model_s_name_has_the_facts_of_the_catalogue(
    path: Path, tmp_path: Path, catalog: Catalog
) -> None:
    known = catalog.profile(path.stem.replace("--", "/"))
    here = folder(tmp_path / known.name, json.loads(path.read_text()))
    found = resolve(str(here), catalog)
    same = [
        "family",
        "generation",
        "variant",
        "params_text",
        "params_active",
        "vocab_size",
        "head_dim",
        "tie_word_embeddings",
        "dtype",
    ]
    assert {name: getattr(found, name) for name in same} == {name: getattr(known, name) for name in same}
    assert (found.lineage.base_model, found.lineage.thinking) == (known.id, known.lineage.thinking)
    assert {"family", "lineage"} <= found.uncertain


def test_a_recognised_folder_without_a_tokenizer_has_a_probable_one(tmp_path: Path, catalog: Catalog) -> None:
    found = resolve(str(folder(tmp_path / "Qwen2.5-7B-Instruct", QWEN)), catalog)
    known = catalog.profile("Qwen/Qwen2.5-7B-Instruct").tokenizer
    assert found.tokenizer is not None
    assert known is not None
    assert (found.tokenizer.key, found.tokenizer.verified) == (known.key, False)
    assert "tokenizer" in found.uncertain


def test_a_folder_of_another_name_has_what_models_of_its_shape_agree_on(tmp_path: Path, catalog: Catalog) -> None:
    config = json.loads((PUBLISHED[0].parent / "deepseek-ai--DeepSeek-V3.json").read_text())
    found = resolve(str(folder(tmp_path / "target", config)), catalog)
    known = catalog.profile("deepseek-ai/DeepSeek-V3")
    assert (found.family, found.params_text, found.params_active) == (
        known.family,
        known.params_text,
        known.params_active,
    )
    assert "family" in found.uncertain


def test_a_folder_without_kin_has_no_family(tmp_path: Path, catalog: Catalog) -> None:
    found = resolve(str(folder(tmp_path / "target", SMALL)), catalog)
    assert (found.family, found.variant, found.lineage.base_model) == (None, None, None)
    assert found.params_text == 86_848  # 2 x 6,400 of embeddings, two layers of 36,992 and the last norm


def test_a_fine_tune_takes_its_family_from_its_base(tmp_path: Path, catalog: Catalog) -> None:
    card = "---\nlicense: mit\nbase_model: Qwen/Qwen2.5-7B-Instruct\nbase_model_relation: finetune\n---\n# mine\n"
    found = resolve(str(folder(tmp_path / "mine", QWEN, README__md=card)), catalog)
    assert (found.family, found.variant, found.license) == ("Qwen", None, "mit")
    assert (found.lineage.base_model, found.lineage.relation) == ("Qwen/Qwen2.5-7B-Instruct", "finetune")


def test_a_quantised_copy_is_its_base_in_other_numbers(tmp_path: Path, catalog: Catalog) -> None:
    config = {
        **QWEN,
        "_name_or_path": "Qwen/Qwen2.5-7B-Instruct",
        "quantization_config": {"quant_method": "awq", "bits": 4},
    }
    found = resolve(str(folder(tmp_path / "mine", config)), catalog)
    assert (found.quantization, found.lineage.relation, found.variant) == ("awq-int4", "quantized", "instruct")


def test_msmodelslim_s_description_names_the_quantisation(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", SMALL, quant_model_description__json={"model_quant_type": "W8A8", "x": "FLOAT"})
    assert resolve(str(here), catalog).quantization == "w8a8"


def test_an_adapter_has_the_shape_of_its_base(tmp_path: Path, catalog: Catalog) -> None:
    adapter = {"base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "peft_type": "LORA", "r": 8}
    found = resolve(str(folder(tmp_path / "lora", adapter_config__json=adapter)), catalog)
    assert (found.hidden_size, found.origin, found.id) == (3584, "folder", str(tmp_path / "lora"))
    assert (found.lineage.base_model, found.lineage.relation) == ("Qwen/Qwen2.5-7B-Instruct", "adapter")


def test_an_adapter_of_an_unknown_base_names_both(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "lora", adapter_config__json={"base_model_name_or_path": "some/unknown-base"})
    with pytest.raises(NotResolvable, match=r"lora is an adapter of some/unknown-base"):
        resolve(str(here), catalog)


def test_a_folder_with_one_gguf_file_is_that_file(tmp_path: Path, catalog: Catalog) -> None:
    here = folder(tmp_path / "m", model__gguf=build(qwen2()), mmproj__gguf=b"")
    assert resolve(str(here), catalog).origin == "gguf"
    folder(here, other__gguf=build(qwen2()))
    with pytest.raises(NotResolvable, match="2 GGUF models"):
        resolve(str(here), catalog)


def test_the_tokenizer_is_read_with_the_folder(tmp_path: Path, catalog: Catalog) -> None:
    vocabulary = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2}, "merges": []}, "added_tokens": []}
    found = resolve(str(folder(tmp_path / "m", SMALL, tokenizer__json=vocabulary)), catalog)
    assert found.tokenizer is not None
    assert (found.tokenizer.verified, found.tokenizer.named_ids) == (True, 3)


# -------------------------------------------------------------------- weights


def read_with(tmp_path: Path, catalog: Catalog, tensors: Any, **config: Any) -> ModelProfile:
    here = folder(tmp_path / "m", {**SMALL, **config}, model__safetensors=safetensors(tensors))
    return resolve(str(here), catalog)


def test_parameters_and_bytes_come_from_the_header(tmp_path: Path, catalog: Catalog) -> None:
    found = read_with(tmp_path, catalog, LLAMA_TENSORS)
    assert (found.params_total, found.params_text) == (16_896, 16_896)
    assert found.weight_bytes == 2 * 16_896 + 32


def test_a_stored_copy_of_a_tied_matrix_counts_once(tmp_path: Path, catalog: Catalog) -> None:
    assert read_with(tmp_path, catalog, LLAMA_TENSORS, tie_word_embeddings=True).params_total == 10_496


def test_vision_and_mtp_are_in_the_total_only(tmp_path: Path, catalog: Catalog) -> None:
    more = {"visual.patch_embed.weight": ("BF16", (10, 10)), "mtp.layers.0.fc.weight": ("BF16", (10, 10))}
    found = read_with(tmp_path, catalog, {**LLAMA_TENSORS, **more})
    assert (found.params_total, found.params_text) == (17_096, 16_896)
    assert found.num_nextn_predict_layers == 1


def test_an_mtp_head_behind_the_last_layer_is_found(tmp_path: Path, catalog: Catalog) -> None:
    more = {"model.layers.2.eh_proj.weight": ("BF16", (10, 10))}
    found = read_with(tmp_path, catalog, {**LLAMA_TENSORS, **more}, num_nextn_predict_layers=1)
    assert (found.num_nextn_predict_layers, found.params_text) == (1, 16_896)


def test_a_promised_mtp_head_that_is_not_stored_is_told(tmp_path: Path, catalog: Catalog) -> None:
    found = read_with(tmp_path, catalog, LLAMA_TENSORS, num_nextn_predict_layers=1)
    assert found.num_nextn_predict_layers == 0
    assert any(note.startswith("HEAD_MISSING") for note in found.notes)


def test_rows_that_differ_from_the_config_are_told(tmp_path: Path, catalog: Catalog) -> None:
    found = read_with(tmp_path, catalog, LLAMA_TENSORS, vocab_size=128)
    assert any(note.startswith("TENSOR_ROWS: the embedding has 100 rows") for note in found.notes)


def test_packed_weights_are_not_counted_as_parameters(tmp_path: Path, catalog: Catalog) -> None:
    packed = {**LLAMA_TENSORS, "model.layers.0.mlp.up_proj.qweight": ("I32", (1000, 200))}
    found = read_with(tmp_path, catalog, packed, quantization_config={"quant_method": "gptq", "bits": 4})
    assert found.params_total == 86_848
    assert found.weight_bytes == 833_824


def test_a_head_is_known_by_its_tensors(tmp_path: Path, catalog: Catalog) -> None:
    head = {"fc.weight": ("BF16", (64, 128)), "midlayer.self_attn.q_proj.weight": ("BF16", (64, 64))}
    assert read_with(tmp_path, catalog, head, num_hidden_layers=1).head_for == "unknown"


def test_shards_that_are_not_there_leave_the_sum_of_the_index(tmp_path: Path, catalog: Catalog) -> None:
    index = {
        "metadata": {"total_size": 123_456},
        "weight_map": {"a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"},
    }
    here = folder(tmp_path / "m", SMALL)
    (here / "model.safetensors.index.json").write_text(json.dumps(index))
    (here / "model-00001-of-00002.safetensors").write_bytes(safetensors(LLAMA_TENSORS))
    found = resolve(str(here), catalog)
    assert (found.weight_bytes, found.params_total) == (123_456, 86_848)


# -------------------------------------------------------------------- model cards


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlicense: apache-2.0\n---\n", Card(license="apache-2.0")),
        ("---\nbase_model:\n- a/b\nlicense: other\nlicense_name: my-terms\n---", Card("a/b", None, "my-terms")),
        ("---\nbase_model: [ 'a/b' ]\nbase_model_relation: Quantized\n---", Card("a/b", "quantized")),
        ('---\nbase_model: "a/b" # the base\n---', Card("a/b")),
        ("---\nbase_model:\n  - a/b\n  - c/d\n---", Card(None, "merge")),
        ("---\ntags:\n- base_model:x/y\nlicense: mit\n---", Card(license="mit")),
        ("---\nlicense: mit\n", Card()),
        ("# no metadata\nlicense: mit", Card()),
        ("", Card()),
        ("---\nlicense: &a [*a, *a]\n---", Card()),
    ],
    ids=["licence", "list", "inline list", "quoted", "merge", "tags", "unfinished", "none", "empty", "anchors"],
)
def test_card(text: str, expected: Card) -> None:
    assert parse_card(text) == expected
