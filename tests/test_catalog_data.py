"""The shipped catalogue: complete, sourced, and right where facts are known."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftpick import catalog
from draftpick.files import AscendVersionsFile, FamilyFile, HeadRecord, ModelRecord
from draftpick.models.parameters import count
from draftpick.toml_file import read_toml
from draftpick.validation import validate

CATALOG = Path(__file__).parent.parent / "catalog"


@cache
def families() -> dict[str, FamilyFile]:
    return {
        path.stem: FamilyFile.model_validate(read_toml(path)) for path in sorted((CATALOG / "families").glob("*.toml"))
    }


@cache
def models() -> dict[str, ModelRecord]:
    return {row.id: row for file in families().values() for row in file.model}


@cache
def heads() -> dict[str, HeadRecord]:
    return {row.id: row for file in families().values() for row in file.head}


def test_nothing_is_wrong_with_it() -> None:
    assert [str(problem) for problem in validate(CATALOG)] == []


def test_it_is_complete() -> None:
    assert len(models()) >= 665
    assert len(heads()) >= 183
    assert sum(len(file.model) for file in families().values()) == len(models())
    assert sum(len(file.head) for file in families().values()) == len(heads())


def test_files_are_named_after_their_family() -> None:
    for slug, file in families().items():
        assert slug == re.sub(r"[^a-z0-9]+", "-", file.family.lower()).strip("-")


def test_every_row_has_a_source_and_a_date() -> None:
    rows: dict[str, ModelRecord | HeadRecord] = {**models(), **heads()}
    for name, row in rows.items():
        assert row.source, name
        assert row.checked.year >= 2026, name


def test_heads_stand_with_their_target() -> None:
    for file in families().values():
        for head in file.head:
            if not head.unlisted_target and head.target in models():
                assert head.target in {row.id for row in file.model}, head.id


def test_recomputation_agrees_to_the_last_parameter() -> None:
    compared, exact = 0, 0
    for row in models().values():
        counts = count(row.profile())
        if counts is not None and row.params_text is not None:
            compared += 1
            exact += counts.total_text == row.params_text
            assert abs(counts.total_text - row.params_text) <= 0.001 * row.params_text, row.id
            if row.experts is not None:
                assert row.params_active == counts.active, row.id
    assert compared >= 593
    assert exact >= 593


def test_unknown_counts_are_those_of_hybrid_and_novel_architectures() -> None:
    unknown = {row.model_type for row in models().values() if row.params_text is None}
    assert {"nemotron_h", "falcon_h1", "jamba", "gemma3n", "deepseek_v4"} <= unknown
    assert not {"llama", "qwen2", "qwen3", "mistral", "deepseek_v3"} & unknown


@pytest.mark.parametrize(
    ("model_id", "facts"),
    [
        pytest.param(
            "Qwen/Qwen2.5-0.5B-Instruct",
            {"vocab_size": 151936, "tie_word_embeddings": True, "tokenizer": "qwen2.5-bpe-151643"},
            id="small Qwen2.5 has fewer rows",
        ),
        pytest.param(
            "Qwen/Qwen2.5-72B-Instruct",
            {"vocab_size": 152064, "tie_word_embeddings": False, "tokenizer": "qwen2.5-bpe-151643"},
            id="large Qwen2.5 has more rows, one tokenizer",
        ),
        pytest.param("Qwen/Qwen2-7B", {"tokenizer": "qwen1.5-bpe-151643"}, id="Qwen2 has the control tokens of 1.5"),
        pytest.param("Qwen/Qwen3-0.6B", {"head_dim": 128, "hidden_size": 1024}, id="head_dim is not hidden / heads"),
        pytest.param("Qwen/Qwen3.5-27B", {"attention": "hybrid", "recurrent_layers": 48, "mrope": True}, id="hybrid"),
        pytest.param("meta-llama/Llama-3.1-8B", {"tokenizer": "llama-3.1-bpe-128256"}, id="Llama 3.1 tokenizer"),
        pytest.param(
            "meta-llama/Llama-3.3-70B-Instruct", {"tokenizer": "llama-3.1-bpe-128256"}, id="Llama 3.3 tokenizer"
        ),
        pytest.param("google/gemma-2-9b-it", {"tokenizer": "gemma2-spm-256000", "sliding_layers": 21}, id="Gemma 2"),
        pytest.param("google/gemma-7b-it", {"tokenizer": "gemma-spm-256000", "attention": "full"}, id="Gemma 1"),
        pytest.param(
            "deepseek-ai/DeepSeek-V3",
            {"num_nextn_predict_layers": 1, "head_dim": None, "attention": "full", "quantization": "fp8"},
            id="DeepSeek-V3: MLA, own MTP",
        ),
        pytest.param("openai/gpt-oss-20b", {"intermediate_size": None, "quantization": "mxfp4"}, id="gpt-oss"),
        pytest.param("Qwen/Qwen2.5-VL-7B-Instruct", {"mrope": True, "modality": "text+vision"}, id="M-RoPE"),
        pytest.param("meta-llama/Llama-2-7b-hf", {"gated": True, "vocab_size": 32000}, id="gated"),
    ],
)
def test_spot_facts(model_id: str, facts: dict[str, Any]) -> None:
    row = models()[model_id]
    assert {name: getattr(row, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("alias", "model_id"),
    [
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("THUDM/GLM-4-9B-0414", "zai-org/GLM-4-9B-0414"),
        ("CohereForAI/aya-expanse-8b", "CohereLabs/aya-expanse-8b"),
        ("gpt2", "openai-community/gpt2"),
    ],
)
def test_renamed_repositories_are_aliases(alias: str, model_id: str) -> None:
    assert alias in models()[model_id].aliases


def test_renamed_heads_are_aliases() -> None:
    assert heads()["ibm-ai-platform/llama3-8b-accelerator"].aliases == ["ibm-fms/llama3-8b-accelerator"]


@pytest.mark.parametrize(
    ("model_id", "relation", "thinking"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "distill", "on"),
        ("Qwen/Qwen2.5-7B-Instruct", "finetune", "off"),
        ("Qwen/Qwen3-8B", "finetune", "hybrid"),
        ("princeton-nlp/Sheared-LLaMA-1.3B", "pruned", "off"),
        ("jukofyork/DeepSeek-R1-DRAFT-0.6B-v3.0", "draft-init", None),
    ],
)
def test_lineage(model_id: str, relation: str, thinking: str | None) -> None:
    lineage = models()[model_id].lineage
    assert (lineage.relation, lineage.thinking) == (relation, thinking)


def test_recalled_facts_are_uncertain() -> None:
    assert "lineage" in models()["meta-llama/Llama-2-7b-hf"].uncertain
    assert "hidden_size" in models()["jukofyork/DeepSeek-R1-DRAFT-0.6B-v3.0"].uncertain
    assert "tokenizer" in models()["01-ai/Yi-34B"].uncertain
    assert "vocab_size" in models()["mistralai/Mixtral-8x22B-v0.1"].uncertain
    assert "vocab_size" not in models()["Qwen/Qwen2.5-7B"].uncertain


def test_drafts_name_the_targets_they_were_made_for() -> None:
    assert models()["jukofyork/GLM-4.5-DRAFT-0.6B-v3.0"].made_for == [
        "zai-org/GLM-4-32B-0414",
        "zai-org/GLM-4.5",
        "zai-org/GLM-4.5-Air",
    ]
    assert sum(bool(row.made_for) for row in models().values()) >= 19


def test_bundles_of_target_and_head_state_no_head_size() -> None:
    row = heads()["deepseek-ai/DeepSeek-V4-Pro-DSpark"]
    assert row.params is None
    assert row.num_hidden_layers is None
    assert row.target == "deepseek-ai/DeepSeek-V4-Pro"


def test_own_mtp_heads_are_on_the_model_not_rows() -> None:
    assert sum(bool(row.num_nextn_predict_layers) for row in models().values()) >= 50
    assert "deepseek-ai/DeepSeek-V3" not in heads()


def test_what_was_never_published() -> None:
    row = families()["llama"].not_published[0]
    assert "meta-llama/Llama-2-1.1b-hf" in row.names
    assert row.nearest in models()
    assert not {name.lower() for name in row.names} & {name.lower() for name in models()}


# ---------------------------------------------------------------------- releases of the Ascend software


def releases(changed: str = "", into: str = "") -> str:
    text = (CATALOG / "ascend_versions.toml").read_text(encoding="utf-8")
    assert changed in text
    return text.replace(changed, into, 1)


def test_the_table_of_releases_is_compiled() -> None:
    file = AscendVersionsFile.model_validate(read_toml(CATALOG / "ascend_versions.toml"))
    compiled = catalog.load().ascend_versions
    assert [row["version"] for row in compiled["torch_npu"]] == [row.version for row in file.torch_npu]
    assert len(file.torch_npu) >= 21
    assert {row.version: row.cann for row in file.torch_npu}["2.10.0.post4"] == "9.1.0"
    assert {row.version: row.torch_npu for row in file.engine}["0.23.0"] == "2.10.0.post4"


@pytest.mark.parametrize(
    ("changed", "into", "said"),
    [
        ('torch = "2.12.0"', 'torch = "2.11.0"', "torch_npu 2.12.0: is made for torch 2.11.0"),
        ('version = "2.11.0"', 'version = "2.12.0"', "a version stands twice"),
        ('cann = "9.1.0"', 'cann = "newest"', "cann: string should match"),
        ('torch_npu = "2.10.0.post4"', 'torch_npu = "2.9.0"', "engine vllm-ascend 0.23.0: its torch_npu 2.9.0 belongs"),
        ('python_max = "3.14"', 'python_most = "3.14"', "unknown key 'python_most'"),
        ("checked = 2026-11-30", "", "key 'checked' is missing"),
    ],
)
def test_a_wrong_table_of_releases_is_told(tmp_path: Path, changed: str, into: str, said: str) -> None:
    (tmp_path / "ascend_versions.toml").write_text(releases(changed, into), encoding="utf-8")
    assert said in "\n".join(str(problem) for problem in validate(tmp_path))


def test_an_overlay_brings_no_releases(tmp_path: Path) -> None:
    (tmp_path / "ascend_versions.toml").write_text(releases(), encoding="utf-8")
    (problem,) = validate(tmp_path)
    assert (problem.severity, problem.message) == ("warning", "releases are read from the shipped catalogue alone")
