"""config.json of any family, read as data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.catalog import Catalog, load
from draftpick.errors import DraftpickError, InvalidFile
from draftpick.models.bounded import parse_json
from draftpick.models.config import ascend_quantization, profile_from_config
from draftpick.models.profile import Experts, ModelProfile

PUBLISHED = sorted((Path(__file__).parent.parent / "hub").glob("*.json"))
SHAPE = [
    "architecture",
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "latent",
    "experts",
    "tie_word_embeddings",
    "vocab_size",
    "attention",
    "recurrent_layers",
    "modality",
    "head_for",
]

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


def read(config: dict[str, object], **changes: object) -> ModelProfile:
    return profile_from_config({**config, **changes}, id="a/b", origin="folder", where="config.json")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_configs_give_the_facts_of_the_catalogue(path: Path, catalog: Catalog) -> None:
    model_id = path.stem.replace("--", "/")
    read_here = profile_from_config(json.loads(path.read_text()), id=model_id, origin="folder", where=str(path))
    known = catalog.profile(model_id)
    assert {name: getattr(read_here, name) for name in SHAPE} == {name: getattr(known, name) for name in SHAPE}


def test_there_are_a_dozen_published_configs() -> None:
    assert len(PUBLISHED) >= 12


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        pytest.param({"head_dim": 80}, "head_dim", 80, id="head_dim is read, not divided"),
        pytest.param({}, "head_dim", 64, id="missing head_dim is hidden over heads"),
        pytest.param({"hidden_size": 2050}, "head_dim", None, id="a width that heads do not divide gives none"),
        pytest.param({"num_key_value_heads": None}, "num_key_value_heads", 32, id="no KV heads means as many as heads"),
        pytest.param({"num_key_value_heads": [4] * 22}, "num_key_value_heads", 4, id="equal list"),
        pytest.param({"num_key_value_heads": [0, 4, 4]}, "num_key_value_heads", 4, id="list with layers without"),
        pytest.param({"num_key_value_heads": [2, 4]}, "num_key_value_heads", None, id="unequal list says nothing"),
        pytest.param({"intermediate_size": [1024, 2048]}, "intermediate_size", None, id="unequal widths"),
        pytest.param({"auto_map": {"AutoConfig": "x.Y"}}, "remote_code", True, id="code of its own"),
        pytest.param({"torch_dtype": "torch.bfloat16"}, "dtype", "bfloat16", id="dtype with its module"),
        pytest.param({"dtype": "float16", "torch_dtype": None}, "dtype", "float16", id="new name of dtype"),
        pytest.param({"torch_dtype": "auto"}, "dtype", None, id="dtype auto is unknown"),
        pytest.param({"vision_config": {"depth": 3}}, "modality", "text+vision", id="vision"),
        pytest.param({"audio_config": {"a": 1}, "vision_config": {"a": 1}}, "modality", "text+vision+audio", id="both"),
        pytest.param({"audio_config": None}, "modality", "text", id="an empty audio config is none"),
        pytest.param({"num_nextn_predict_layers": 0}, "num_nextn_predict_layers", 0, id="no MTP layers is said"),
        pytest.param({"mtp_num_hidden_layers": 1}, "num_nextn_predict_layers", 1, id="other name of MTP layers"),
        pytest.param({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope", "yarn 4", id="yarn"),
        pytest.param(
            {"rope_parameters": {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 8192}},
            "rope",
            "llama3 8 8192",
            id="new name of rope scaling",
        ),
        pytest.param({"rope_parameters": {"rope_type": "default"}}, "rope", None, id="default rope is none"),
        pytest.param({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}}, "mrope", True, id="M-RoPE"),
        pytest.param(
            {"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}}, "rope", None, id="M-RoPE no scaling"
        ),
        pytest.param(
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8}, "sliding_attention": {}}},
            "rope",
            "linear 8",
            id="rope by layer type",
        ),
        pytest.param(
            {"sliding_window": 1024, "use_sliding_window": False}, "attention", "full", id="window switched off"
        ),
        pytest.param({"sliding_window": 1024}, "sliding_layers", 22, id="window on every layer"),
        pytest.param({"sliding_window": 4096}, "attention", "full", id="window wider than the context"),
        pytest.param(
            {"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 11},
            "sliding_layers",
            11,
            id="layer types count sliding layers",
        ),
        pytest.param({"layer_types": ["linear_attention", "full_attention"] * 11}, "attention", "hybrid", id="hybrid"),
        pytest.param(
            {"layer_types": ["attention"] * 22, "mamba_d_state": 128}, "attention", "full", id="hybrid in name"
        ),
        pytest.param({"hybrid_override_pattern": "M-M*-"}, "recurrent_layers", 2, id="pattern string"),
        pytest.param({"attn_type_list": [0, 0, 1]}, "recurrent_layers", 2, id="attention type list"),
        pytest.param({"model_type": "mamba2"}, "attention", "recurrent", id="recurrent type"),
        pytest.param({"model_type": "falcon_h1"}, "recurrent_layers", 22, id="both in every layer"),
        pytest.param({"attn_layer_period": 8, "attn_layer_offset": 4}, "recurrent_layers", 19, id="period and offset"),
    ],
)
def test_a_field_is_read_from(changes: dict[str, object], field: str, expected: object) -> None:
    assert getattr(read(LLAMA, **changes), field) == expected


@pytest.mark.parametrize("nested", ["text_config", "llm_config", "language_config"])
def test_the_text_part_is_found_under(nested: str) -> None:
    profile = read({"model_type": "some_vlm", "architectures": ["SomeVLM"], "vision_config": {"a": 1}, nested: LLAMA})
    assert (profile.num_hidden_layers, profile.vocab_size, profile.architecture) == (22, 32000, "SomeVLM")


def test_a_whole_multimodal_config_inside_is_opened() -> None:
    inner = {"text_config": LLAMA, "vision_config": {"a": 1}, "audio_config": {"a": 1}}
    profile = read({"architectures": ["Omni"], "model_type": "omni", "thinker_config": inner})
    assert (profile.modality, profile.hidden_size, profile.architecture) == ("text+vision+audio", 2048, "Omni")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, Experts(num_experts=8, experts_per_token=2, width=5632)),
        (
            {"num_experts": 64, "moe_topk": [6, 6], "moe_intermediate_size": 512, "num_shared_expert": [1, 1]},
            Experts(num_experts=64, experts_per_token=6, width=512, shared=1),
        ),
        (
            {
                "n_routed_experts": 64,
                "num_experts_per_tok": 6,
                "moe_intermediate_size": 1408,
                "n_shared_experts": 2,
                "first_k_dense_replace": 1,
            },
            Experts(num_experts=64, experts_per_token=6, width=1408, shared=2, dense_layers=1),
        ),
        (
            {"num_experts": 16, "num_experts_per_tok": 2, "moe_layer_freq": [0, *[1] * 21]},
            Experts(num_experts=16, experts_per_token=2, width=5632, dense_layers=1),
        ),
        (
            {"num_experts": 16, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2},
            Experts(num_experts=16, experts_per_token=2, width=5632, dense_layers=11),
        ),
        ({"num_local_experts": 0, "num_experts_per_tok": 0}, None),
        ({"num_experts": 16}, None),
    ],
    ids=["mixtral", "lists", "deepseek", "frequency list", "every second layer", "none", "unknown top-k"],
)
def test_experts(changes: dict[str, object], expected: Experts | None) -> None:
    assert read(LLAMA, **changes).experts == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "fp8", "fmt": "e4m3"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb-4bit"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-8bit"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "int"},
                        "input_activations": {"num_bits": 8, "type": "int"},
                    }
                },
            },
            "w8a8",
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}},
            "w4a16",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "gptq", "bits": "many"}, "gptq"),
        ({}, None),
        ([], None),
    ],
    ids=str,
)
def test_quantisation_is_named(found: object, expected: str | None) -> None:
    assert read(LLAMA, quantization_config=found).quantization == expected


def test_msmodelslim_descriptions_name_their_scheme() -> None:
    assert ascend_quantization({"model_quant_type": "W8A8_DYNAMIC", "a.weight": "W8A8_DYNAMIC"}) == "w8a8_dynamic"
    assert ascend_quantization({"a.weight": "W8A8", "b.weight": "W8A8", "c.weight": "FLOAT"}) == "w8a8"
    assert ascend_quantization({"a.weight": "FLOAT"}) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000, "num_hidden_layers": 1}, "unknown"),
        ({"architectures": ["DFlashDraftModel"]}, "unknown"),
        ({"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator"}, "unknown"),
        ({"medusa_num_heads": 5, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}, "lmsys/vicuna-7b-v1.3"),
        (
            {"speculators_model_type": "eagle3", "speculators_config": {"verifier": {"name_or_path": "Qwen/Qwen3-8B"}}},
            "Qwen/Qwen3-8B",
        ),
        ({"num_hidden_layers": 1}, "unknown"),
        ({"num_hidden_layers": 1, "hidden_size": 64}, None),
        ({"architectures": ["Eagle2_5_VLForConditionalGeneration"], "vision_config": {"a": 1}}, None),
        ({}, None),
    ],
    ids=[
        "eagle3",
        "dflash",
        "mlp",
        "medusa",
        "speculators",
        "one layer",
        "tiny test model",
        "a VLM named Eagle",
        "model",
    ],
)
def test_draft_heads_are_recognised(changes: dict[str, object], expected: str | None) -> None:
    assert read(LLAMA, **changes).head_for == expected


@pytest.mark.parametrize("value", [10**30, float("nan"), float("inf"), -(10**30), 1e300], ids=str)
def test_a_size_no_model_has_is_refused(value: float) -> None:
    with pytest.raises(InvalidFile, match=r"config\.json: num_hidden_layers is"):
        read(LLAMA, num_hidden_layers=value)


@pytest.mark.parametrize("value", ["22", True, {}, [], [[]], -3, 0, 2.5, None], ids=str)
def test_a_size_that_is_no_count_is_unknown(value: object) -> None:
    assert read(LLAMA, num_hidden_layers=value).num_hidden_layers is None


def test_an_infinite_value_of_another_field_does_no_harm() -> None:
    text = json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}).encode()
    assert read(parse_json(text, "config.json")).num_hidden_layers == 22


def test_lone_surrogates_do_not_travel() -> None:
    profile = read(LLAMA, architectures=["Llama\ud800"], model_type="\udfff")
    assert profile.architecture is not None
    assert profile.architecture.encode("utf-8") == b"Llama?"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["yarn", "sliding_attention", "mamba", "gptq", "gemma3_text", "falcon", "mistral"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["bits", "factor", "quant_method", "model_type", "hidden_size"]), inner)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *LLAMA,
        *[
            "text_config",
            "thinker_config",
            "vision_config",
            "num_experts",
            "num_experts_per_tok",
            "kv_lora_rank",
            "qk_rope_head_dim",
            "rope_scaling",
            "layer_types",
            "sliding_window",
            "quantization_config",
            "ffn_config",
            "block_configs",
            "attn_config",
            "n_inner",
            "moe_layer_freq",
            "mlp_only_layers",
            "linear_attn_config",
            "attn_type_list",
            "expansion_ratio",
            "hybrid_override_pattern",
            "speculators_config",
            "quantization",
            "moe_layers_enum",
            "max_window_layers",
            "use_sliding_window",
            "multi_query",
            "interleave_moe_layer_step",
            "first_k_dense_replace",
            "full_attention_interval",
        ],
    ]
)


@given(st.dictionaries(KEYS, VALUES, max_size=12))
@settings(max_examples=300, deadline=None)
def test_any_json_object_gives_a_profile_or_an_error_of_ours(config: dict[str, object]) -> None:
    found = outcome(lambda: read(config))
    assert isinstance(found, (ModelProfile, InvalidFile))
    if isinstance(found, ModelProfile):
        assert found.num_hidden_layers is None or 0 < found.num_hidden_layers <= 10_000


def outcome(call: Callable[[], Any]) -> Any:
    """The result, or the error where it is one of ours; any other error passes and fails the test."""
    try:
        return call()
    except DraftpickError as error:
        return error


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_object_or_an_error_of_ours(data: bytes) -> None:
    assert isinstance(outcome(lambda: parse_json(data, "config.json")), (dict, InvalidFile))
