from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick.models.parameters import count
from draftpick.models.profile import Experts, LatentAttention, ModelProfile


def shape(model_type: str, layers: int, hidden: int, width: int | None, heads: tuple[int, int, int | None],
          vocabulary: int, tied: bool, **more: object) -> ModelProfile:  # fmt: skip
    query_heads, kv_heads, head_dim = heads
    return ModelProfile(
        id="org/model",
        origin="catalogue",
        model_type=model_type,
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=width,
        num_attention_heads=query_heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
        **more,  # type: ignore[arg-type]
    )


QWEN25_05B = shape("qwen2", 24, 896, 4864, (14, 2, 64), 151936, True)
LLAMA_8B = shape("llama", 32, 4096, 14336, (32, 8, 128), 128256, False)
MIXTRAL = shape(
    "mixtral", 32, 4096, 14336, (32, 8, 128), 32000, False,
    experts=Experts(num_experts=8, experts_per_token=2, width=14336),
)  # fmt: skip
DEEPSEEK_V3 = shape(
    "deepseek_v3", 61, 7168, 18432, (128, 128, None), 129280, False,
    experts=Experts(num_experts=256, experts_per_token=8, width=2048, shared=1, dense_layers=3),
    latent=LatentAttention(
        kv_lora_rank=512, qk_rope_head_dim=64, q_lora_rank=1536, qk_nope_head_dim=128, v_head_dim=128
    ),
)  # fmt: skip
NEXT = shape(
    "qwen3_next", 48, 2048, None, (16, 2, 256), 151936, False, recurrent_layers=36, attention="hybrid",
    experts=Experts(num_experts=512, experts_per_token=10, width=512, shared=1, shared_width=512),
)  # fmt: skip

# Published element counts of the checkpoints, to the last parameter.
PUBLISHED = {
    "dense, biased q k v, tied (Qwen2.5-0.5B)": (QWEN25_05B, 494_032_768),
    "dense, grouped queries, untied (Llama-3.1-8B)": (LLAMA_8B, 8_030_261_248),
    "q and k norms, own head_dim (Qwen3-0.6B)": (
        shape("qwen3", 28, 1024, 3072, (16, 8, 128), 151936, True),
        596_049_920,
    ),
    "four norms a layer (gemma-2-2b)": (shape("gemma2", 26, 2304, 9216, (8, 4, 256), 256000, True), 2_614_341_888),
    "one norm a layer, no bias (command-r7b)": (
        shape("cohere2", 32, 4096, 14336, (32, 8, 128), 256000, True),
        8_028_033_024,
    ),
    "two matrices and biases everywhere (phi-2)": (
        shape("phi", 32, 2560, 10240, (32, 32, 80), 51200, False),
        2_779_683_840,
    ),
    "learned positions (gpt2)": (
        shape("gpt2", 12, 768, 3072, (12, 12, 64), 50257, True, max_position_embeddings=1024),
        124_439_808,
    ),
    "one key-value head and one norm (falcon-7b)": (
        shape("falcon", 32, 4544, 18176, (71, 1, 64), 65024, True),
        6_921_720_704,
    ),
    "experts (Mixtral-8x7B)": (MIXTRAL, 46_702_792_704),
    "experts with biases and sinks (gpt-oss-20b)": (
        shape("gpt_oss", 24, 2880, None, (64, 8, 64), 201088, False,
              experts=Experts(num_experts=32, experts_per_token=4, width=2880)),
        20_914_757_184,
    ),
    "latent attention, shared expert, dense layers first (DeepSeek-V3)": (DEEPSEEK_V3, 671_026_419_200),
    "recurrent layers (Qwen3-Coder-Next)": (NEXT, 79_674_391_296),
    "short convolutions (LFM2-1.2B)": (
        shape("lfm2", 16, 2048, 8192, (32, 8, 64), 65536, True, recurrent_layers=10, attention="hybrid"),
        1_170_340_608,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("profile", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_reproduces_published_counts(profile: ModelProfile, published: int) -> None:
    counts = count(profile)
    assert counts is not None
    assert counts.total_text == published


@pytest.mark.parametrize(
    ("profile", "active"),
    [
        pytest.param(LLAMA_8B, 8_030_261_248, id="dense: all of them"),
        pytest.param(MIXTRAL, 12_879_925_248, id="two of eight experts"),
        pytest.param(DEEPSEEK_V3, 37_552_297_472, id="DeepSeek-V3, both embedding matrices included"),
    ],
)
def test_active_parameters(profile: ModelProfile, active: int) -> None:
    counts = count(profile)
    assert counts is not None
    assert counts.active == active


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model_type": None}, id="no type"),
        pytest.param({"model_type": "novel_type"}, id="unlisted type"),
        pytest.param({"hidden_size": None}, id="no hidden size"),
        pytest.param({"num_hidden_layers": None}, id="no layers"),
        pytest.param({"num_key_value_heads": None}, id="no key-value heads"),
        pytest.param({"head_dim": None}, id="no head_dim"),
        pytest.param({"intermediate_size": None}, id="no feed-forward width"),
        pytest.param({"vocab_size": None}, id="no vocabulary"),
        pytest.param({"tie_word_embeddings": None}, id="tied or not is unknown"),
        pytest.param({"attention": "hybrid"}, id="hybrid layers of a type that has none"),
        pytest.param({"recurrent_layers": 4}, id="recurrent layers of a type that has none"),
        pytest.param({"experts": Experts(num_experts=8, experts_per_token=2)}, id="experts of unknown width"),
    ],
)
def test_says_nothing_where_it_cannot_know(changes: dict[str, object]) -> None:
    assert count(LLAMA_8B) is not None
    assert count(LLAMA_8B.with_changes(**changes)) is None


@pytest.mark.parametrize(
    ("profile", "changes"),
    [
        pytest.param(NEXT, {"recurrent_layers": None}, id="hybrid without the number of recurrent layers"),
        pytest.param(NEXT, {"num_attention_heads": 13, "head_dim": 72}, id="state that does not divide"),
        pytest.param(PUBLISHED["learned positions (gpt2)"][0], {"max_position_embeddings": None}, id="no positions"),
    ],
)
def test_needs_what_its_type_needs(profile: ModelProfile, changes: dict[str, object]) -> None:
    assert count(profile) is not None
    assert count(profile.with_changes(**changes)) is None


def test_granite_4_hybrids_are_not_computed_but_its_plain_models_are() -> None:
    plain = shape("granitemoehybrid", 40, 2560, 8192, (40, 8, 64), 100352, True)
    assert count(plain) is not None
    assert count(plain.with_changes(attention="hybrid")) is None


dense = st.builds(
    lambda kind, layers, heads, kv, dim, width, rows, tied: shape(
        kind, layers, heads * dim, width, (heads, min(kv, heads), dim), rows, tied
    ),
    st.sampled_from(["llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "starcoder2", "olmo", "glm4", "bitnet"]),
    st.integers(1, 100), st.integers(1, 64), st.integers(1, 64), st.sampled_from([32, 64, 128]),
    st.integers(1, 40_000), st.integers(1, 300_000), st.booleans(),
)  # fmt: skip


@given(dense)
def test_every_layer_costs_the_same(profile: ModelProfile) -> None:
    layers = profile.num_hidden_layers or 0
    totals = [count(profile.with_changes(num_hidden_layers=layers + more)) for more in (0, 1, 2)]
    first, second, third = (counts.total_text if counts else -1 for counts in totals)
    assert second - first == third - second > 0


@given(dense)
def test_tying_saves_exactly_one_embedding_matrix(profile: ModelProfile) -> None:
    tied, untied = (count(profile.with_changes(tie_word_embeddings=flag)) for flag in (True, False))
    assert tied is not None
    assert untied is not None
    assert untied.total_text - tied.total_text == tied.embedding == profile.embedding_params


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 4), st.integers(0, 32))
def test_active_never_exceeds_total(experts: int, chosen: int, shared: int, dense_layers: int) -> None:
    layout = Experts(
        num_experts=experts, experts_per_token=min(chosen, experts), width=512, shared=shared, dense_layers=dense_layers
    )
    counts = count(MIXTRAL.with_changes(experts=layout))
    assert counts is not None
    assert 0 < counts.embedding < counts.active <= counts.total_text
    assert (counts.active == counts.total_text) == (chosen >= experts or dense_layers == 32)


def test_leading_dense_layers_use_the_wide_feed_forward() -> None:
    experts = Experts(num_experts=8, experts_per_token=2, width=100)
    one_dense = count(MIXTRAL.with_changes(experts=experts._replace(dense_layers=1)))
    none_dense = count(MIXTRAL.with_changes(experts=experts))
    assert one_dense is not None
    assert none_dense is not None
    sparse_layer = 8 * (3 * 4096 * 100) + 8 * 4096
    assert one_dense.total_text - none_dense.total_text == 3 * 4096 * 14336 - sparse_layer
