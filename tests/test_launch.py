"""What a start-up configuration says: by engine, method and version; parsed back as a shell and each engine would."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from draftpick.catalog import Catalog, load
from draftpick.errors import UsageError
from draftpick.launch import Launch, Place, Wanted, capture_sizes, launch
from draftpick.report.launch import blocks, markdown

CATALOG = load()
METHODS = ("draft_model", "pard", "eagle", "eagle3", "medusa", "mtp", "dflash", "dspark", "ngram", "suffix")
FREE = ("ngram", "suffix", "mtp")
KS = {"mindie": {"mtp": 1}}


def wanted(engine: str, method: str | None = None, catalog: Catalog = CATALOG, **changes: Any) -> Wanted:
    """The pair org/target and org/draft, k = 3."""
    one = Wanted("org/target", catalog.engine(engine), method=method, num_spec_tokens=3 if method else None)
    drafted = one._replace(draft="org/draft", rows="equal") if method not in (None, *FREE) else one
    return drafted._replace(**changes)


def words(text: str) -> list[str]:
    """A command as a shell takes it; only ends of lines are no words to Python's reader."""
    return shlex.split(text.replace(" \\\n", " "))


def option(text: str, name: str) -> str:
    found = words(text)
    return found[found.index(name) + 1]


def config(text: str) -> dict[str, Any]:
    found = json.loads(option(text, "--speculative-config"))
    assert isinstance(found, dict)
    return found


def text_of(found: Launch) -> str:
    return found.steps[0].text


# ---------------------------------------------------------------------- vLLM and its plug-in

DRAFT = {"model": "org/draft", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    ("engine", "method", "meant"),
    [
        ("vllm", "draft_model", {"method": "draft_model", **DRAFT}),
        ("vllm@0.15.0", "draft_model", {"method": "draft_model", **DRAFT}),
        ("vllm", "pard", {"method": "draft_model", **DRAFT, "parallel_drafting": True}),
        ("vllm", "eagle", {"method": "eagle", **DRAFT}),
        ("vllm@0.10.1", "eagle3", {"method": "eagle3", **DRAFT}),
        ("vllm", "medusa", {"method": "medusa", **DRAFT}),
        ("vllm", "dflash", {"method": "dflash", **DRAFT}),
        ("vllm", "dspark", {"method": "dspark", **DRAFT}),
        ("vllm", "mtp", {"method": "mtp", "num_speculative_tokens": 3}),
        ("vllm", "ngram", {"method": "ngram", "num_speculative_tokens": 3}),
        ("vllm@0.12.0", "suffix", {"method": "suffix", "num_speculative_tokens": 3}),
        ("vllm-ascend", "draft_model", {"method": "draft_model", **DRAFT}),
        ("vllm-ascend@0.18.0", "draft_model", {"method": "draft_model", **DRAFT}),
        ("vllm-ascend", "pard", {"method": "draft_model", **DRAFT, "parallel_drafting": True}),
        ("vllm-ascend@0.13.0", "eagle3", {"method": "eagle3", **DRAFT, "draft_tensor_parallel_size": 1}),
        ("vllm-ascend", "medusa", {"method": "medusa", **DRAFT}),
        ("vllm-ascend", "dflash", {"method": "dflash", **DRAFT}),
        ("vllm-ascend", "mtp", {"method": "mtp", "num_speculative_tokens": 3}),
        ("vllm-ascend", "suffix", {"method": "suffix", "num_speculative_tokens": 3}),
    ],
)
def test_speculative_config(engine: str, method: str, meant: dict[str, Any]) -> None:
    found = launch(wanted(engine, method))
    assert words(text_of(found))[:3] == ["vllm", "serve", "org/target"]
    assert config(text_of(found)) == meant
    assert next(iter(config(text_of(found)))) == "method"
    assert not any("must be set" in text for text in found.cautions), "the script sets it"
    assert found.as_decided


@pytest.mark.parametrize(
    ("engine", "method", "size"),
    [
        ("vllm", "draft_model", 4),
        ("vllm", "pard", 4),
        ("vllm", "eagle3", None),
        ("vllm-ascend", "draft_model", 4),
        ("vllm-ascend", "eagle3", 1),
        ("vllm-ascend", "mtp", None),
    ],
)
def test_the_drafts_tensor_parallel_size(engine: str, method: str, size: int | None) -> None:
    found = launch(wanted(engine, method, place=Place(tensor_parallel_size=4)))
    assert option(text_of(found), "--tensor-parallel-size") == "4"
    assert config(text_of(found)).get("draft_tensor_parallel_size") == size


@pytest.mark.parametrize("method", ["draft_model", "pard"])
@pytest.mark.parametrize(
    ("engine", "written"), [("vllm@0.25.0", True), ("vllm@0.24.0", False), ("vllm-ascend", False), ("sglang", False)]
)
def test_unequal_rows_need_the_option_that_bridges_them(engine: str, written: bool, method: str) -> None:
    found = launch(wanted(engine, method, rows="differ"))
    assert found.as_decided is written
    if written:
        assert config(text_of(found))["use_heterogeneous_vocab"] is True
        assert ("parallel_drafting" in config(text_of(found))) is (method == "pard")
    elif engine != "sglang" or method != "pard":  # which it does not have
        assert "unequal numbers of embedding rows" in found.left_out[0].why


def test_capture_sizes_are_multiples_up_to_the_most_sequences() -> None:
    found = launch(wanted("vllm-ascend", "draft_model", place=Place(max_num_seqs=20)))
    sizes = json.loads(option(text_of(found), "--compilation-config"))["cudagraph_capture_sizes"]
    assert sizes == [4, 8, 16, 32, 64, 80]
    unknown = launch(wanted("vllm-ascend", "draft_model"))
    assert "--compilation-config" not in text_of(unknown)
    assert any("--max-num-seqs" in text for text in unknown.cautions)
    assert "--compilation-config" not in text_of(launch(wanted("vllm", "draft_model", place=Place(max_num_seqs=20))))


@given(st.integers(1, 64), st.integers(1, 5000))
def test_every_capture_size_is_a_multiple(k: int, most: int) -> None:
    sizes = capture_sizes(k, most)
    assert sizes
    assert all(size % (k + 1) == 0 and size <= max(512, k + 1) for size in sizes)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] <= most * (k + 1)


SCHEDULE = ((1, 4, 5), (5, 16, 3), (17, 64, 0))


@pytest.mark.parametrize(
    ("engine", "method", "written"),
    [
        ("vllm", "draft_model", True),
        ("vllm@0.24.0", "eagle3", True),
        ("vllm@0.23.0", "draft_model", False),
        ("vllm", "ngram", False),
        ("vllm-ascend", "draft_model", False),
        ("sglang", "draft_model", False),
    ],
)
def test_a_number_by_sequences_at_once_is_an_alternative_where_the_version_has_it(
    engine: str, method: str, written: bool
) -> None:
    found = launch(wanted(engine, method, schedule=SCHEDULE))
    assert "per_batch_size" not in text_of(found), "the first step keeps the number that was decided"
    assert len(found.steps) == (2 if written else 1)
    if written:
        varied = config(found.steps[1].text)
        assert varied["num_speculative_tokens_per_batch_size"] == [list(part) for part in SCHEDULE]
        assert varied["num_speculative_tokens"] == 5, "vLLM caps the others by it"
        assert any("issues/49548" in text for text in found.cautions)
    else:
        assert found.left_out[0].what == "a number of tokens by sequences at once"
        assert found.as_decided


def test_one_number_for_all_is_no_schedule() -> None:
    assert launch(wanted("vllm-ascend", "draft_model", schedule=((1, 16, 3),))).left_out == ()


@pytest.mark.parametrize("name", ["org/EAGLE3-tuned-1B", "./my-dflash-experiment"])
def test_a_name_that_vllm_takes_for_a_head(name: str) -> None:
    assert any("rename the folder" in text for text in launch(wanted("vllm", "draft_model", draft=name)).cautions)
    assert not any("rename" in text for text in launch(wanted("vllm", "eagle3", draft=name)).cautions)


# ---------------------------------------------------------------------- engines that have options of their own

STEPS = ["--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
BACKEND = ["--speculative-draft-attention-backend", "ascend"]
PATH = ["--speculative-draft-model-path", "org/draft"]
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "org/target"]
ON_NPU = [*SGLANG, "--device", "npu", "--attention-backend", "ascend"]
LLAMA = ["llama-server", "-m", "target.gguf"]
LOOKING = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n"]
XLLM = [
    "xllm",
    "--model",
    "org/target",
    "--devices",
    "npu:0",
    "--port",
    "18000",
    "--master_node_addr",
    "127.0.0.1:9748",
]
XLLM += ["--nnodes", "1", "--node_rank", "0"]
DRAFTING = ["--num_speculative_tokens", "3", "--draft_devices", "npu:0"]


@pytest.mark.parametrize(
    ("engine", "method", "line"),
    [
        ("sglang", "draft_model", [*SGLANG, "--speculative-algorithm", "STANDALONE", *PATH, *STEPS]),
        ("sglang@0.5.2", "draft_model", [*SGLANG, "--speculative-algorithm", "STANDALONE", *PATH, *STEPS]),
        ("sglang@0.4.6", "eagle", [*SGLANG, "--speculative-algorithm", "EAGLE", *PATH, *STEPS]),
        ("sglang", "eagle3", [*SGLANG, "--speculative-algorithm", "EAGLE3", *PATH, *STEPS]),
        ("sglang", "mtp", [*SGLANG, "--speculative-algorithm", "NEXTN", *STEPS]),
        (
            "sglang",
            "ngram",
            [*SGLANG, "--speculative-algorithm", "NGRAM", *STEPS[4:], "--speculative-ngram-max-bfs-breadth", "1"],
        ),
        (
            "sglang@0.5.13",
            "dflash",
            [*SGLANG, "--speculative-algorithm", "DFLASH", *PATH, "--speculative-dflash-block-size", "4"],
        ),
        (
            "sglang",
            "dspark",
            [*SGLANG, "--speculative-algorithm", "DSPARK", *PATH, "--speculative-dspark-block-size", "3"],
        ),
        ("sglang-ascend", "eagle3", [*ON_NPU, "--speculative-algorithm", "EAGLE3", *PATH, *STEPS, *BACKEND]),
        ("sglang-ascend", "mtp", [*ON_NPU, "--speculative-algorithm", "NEXTN", *STEPS, *BACKEND]),
        (
            "llama.cpp",
            "draft_model",
            [*LLAMA, "-md", "draft.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "3"],
        ),
        ("llama.cpp@b9093", "draft_model", [*LLAMA, "-md", "draft.gguf", "--spec-draft-n-max", "3"]),
        ("llama.cpp@b5000", "draft_model", [*LLAMA, "-md", "draft.gguf", "--draft-max", "3"]),
        ("llama.cpp@2025-06", "draft_model", [*LLAMA, "-md", "draft.gguf", "--draft-max", "3"]),
        (
            "llama.cpp",
            "eagle3",
            [*LLAMA, "-md", "draft.gguf", "--spec-type", "draft-eagle3", "--spec-draft-n-max", "3"],
        ),
        (
            "llama.cpp@b10066",
            "dflash",
            [*LLAMA, "-md", "draft.gguf", "--spec-type", "draft-dflash", "--spec-draft-n-max", "3"],
        ),
        (
            "llama.cpp",
            "dspark",
            [*LLAMA, "-md", "draft.gguf", "--spec-type", "draft-dspark", "--spec-draft-n-max", "3"],
        ),
        ("llama.cpp@b9246", "mtp", [*LLAMA, "--spec-type", "draft-mtp", "--spec-draft-n-max", "3"]),
        ("llama.cpp", "ngram", [*LLAMA, *LOOKING, "3", "--spec-ngram-simple-size-m", "3"]),
        (
            "mlx",
            "draft_model",
            ["mlx_lm.server", "--model", "org/target", "--draft-model", "org/draft", "--num-draft-tokens", "3"],
        ),
        (
            "xllm",
            "eagle3",
            [*XLLM, *DRAFTING, "--speculative_algorithm", "Eagle3", "--draft_model", "org/draft"],
        ),
        (
            "xllm",
            "mtp",
            [*XLLM, *DRAFTING, "--speculative_algorithm", "MTP", "--draft_model", "target-mtp"],
        ),
        ("xllm", "suffix", [*XLLM, "--speculative_algorithm", "Suffix", "--num_speculative_tokens", "3"]),
    ],
)
def test_a_line(engine: str, method: str, line: list[str]) -> None:
    found = launch(wanted(engine, method))
    assert sorted(words(text_of(found))) == sorted(line)
    assert words(text_of(found))[: len(SGLANG)] == line[: len(SGLANG)]
    assert found.as_decided


@pytest.mark.parametrize(
    ("quantization", "written"), [(None, False), ("w8a8", True)], ids=["plain target", "quantised target"]
)
def test_a_head_on_an_npu_is_told_that_it_is_not_quantised(quantization: str | None, written: bool) -> None:
    text = text_of(launch(wanted("sglang-ascend", "eagle3", target_quantization=quantization)))
    assert ("--speculative-draft-model-quantization unquant" in text) is written


@pytest.mark.parametrize(("k", "size"), [(1, "1"), (4, "4"), (5, "5"), (16, "5")])
def test_llama_cpp_looks_for_no_more_tokens_than_it_drafts(k: int, size: str) -> None:
    """Build 11434 drafts nothing where size-m is below size-n, which is 12 unless told."""
    found = launch(wanted("llama.cpp", "ngram", num_spec_tokens=k))
    assert option(text_of(found), "--spec-ngram-simple-size-n") == size
    assert option(text_of(found), "--spec-ngram-simple-size-m") == str(k)
    assert any(f"the last {size} tokens" in text for text in found.cautions)


def test_xllm_starts_a_process_for_each_device() -> None:
    place = Place(vendor="nvidia", tensor_parallel_size=3)
    text = text_of(launch(wanted("xllm", "eagle3", place=place)))
    lines = text.split(" &\n")
    assert lines[-1] == "wait\n"
    assert [option(line, "--node_rank") for line in lines[:-1]] == ["0", "1", "2"]
    assert [option(line, "--draft_devices") for line in lines[:-1]] == ["cuda:0", "cuda:1", "cuda:2"]
    assert {option(line, "--nnodes") for line in lines[:-1]} == {"3"}


def yaml_of(text: str) -> Any:
    return yaml.safe_load(text.split("<<'EOF'\n")[1].split("EOF\n")[0])


@pytest.mark.parametrize(
    ("method", "meant"),
    [
        (
            "draft_model",
            {
                "disable_overlap_scheduler": True,
                "speculative_config": {
                    "decoding_type": "DraftTarget",
                    "max_draft_len": 3,
                    "speculative_model_dir": "org/draft",
                },
            },
        ),
        (
            "eagle3",
            {
                "speculative_config": {
                    "decoding_type": "Eagle",
                    "max_draft_len": 3,
                    "speculative_model_dir": "org/draft",
                }
            },
        ),
        (
            "mtp",
            {"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3, "num_nextn_predict_layers": 3}},
        ),
        (
            "ngram",
            {
                "disable_overlap_scheduler": True,
                "speculative_config": {"decoding_type": "NGram", "max_draft_len": 3, "max_matching_ngram_size": 4},
            },
        ),
    ],
)
def test_tensorrt_llm(method: str, meant: dict[str, Any]) -> None:
    text = text_of(launch(wanted("tensorrt-llm", method, place=Place(tensor_parallel_size=2))))
    assert yaml_of(text) == meant
    line = words(text.split("EOF\n")[-1])
    assert line[:4] == ["trtllm-serve", "org/target", "--backend", "pytorch"]
    assert line[4:] == ["--tp_size", "2", "--extra_llm_api_options", "draftpick-trtllm.yaml"]


@pytest.mark.parametrize("version", ["1.2.1", "1.4.0rc1"])
def test_tensorrt_llms_schedule_has_upper_bounds_in_newer_releases_only(version: str) -> None:
    found = launch(wanted(f"tensorrt-llm@{version}", "draft_model", schedule=SCHEDULE))
    if version == "1.2.1":
        assert len(found.steps) == 1
        assert "lower to upper bounds" in found.left_out[0].why
    else:
        varied = yaml_of(found.steps[1].text)["speculative_config"]
        assert (varied["draft_len_schedule"], varied["max_draft_len"]) == ({4: 5, 16: 3}, 5)


@pytest.mark.parametrize(
    ("method", "plugin", "gamma"),
    [
        ("ngram", {"plugin_type": "memory_decoding", "decoding_length": 3}, 3),
        ("mtp", {"plugin_type": "mtp", "num_speculative_tokens": 1}, None),
        (None, None, None),
    ],
)
def test_mindie(method: str | None, plugin: dict[str, Any] | None, gamma: int | None) -> None:
    place = Place(tensor_parallel_size=4, max_model_len=8192)
    found = launch(wanted("mindie", method, place=place, num_spec_tokens=KS["mindie"].get(method or "", 3)))
    assert [step.language for step in found.steps] == ["json", "sh"]
    deploy = json.loads(text_of(found))["ModelDeployConfig"]
    (model,) = deploy["ModelConfig"]
    assert (model["modelWeightPath"], model["worldSize"], deploy["maxSeqLen"]) == ("org/target", 4, 8192)
    assert deploy.get("speculationGamma") == gamma
    assert (json.loads(model["plugin_params"]) if plugin else model.get("plugin_params")) == plugin
    assert words(found.steps[1].text) == ["mindie_llm_server"]


def test_mindie_has_no_draft_model() -> None:
    found = launch(wanted("mindie", "draft_model"))
    assert not found.as_decided
    assert "no draft-model speculation" in found.left_out[0].why
    assert "plugin_params" not in text_of(found)


@pytest.mark.parametrize(
    ("version", "dtype", "rows", "method"),
    [
        ("5.24.0", "dtype", "equal", "draft_model"),
        ("5.24.0", "dtype", "differ", "draft_model"),
        ("4.52.0", "torch_dtype", "equal", "draft_model"),
        ("5.24.0", "dtype", None, "ngram"),
        ("5.24.0", "dtype", None, None),
    ],
)
def test_a_script_of_transformers(version: str, dtype: str, rows: str | None, method: str | None) -> None:
    found = launch(wanted(f"transformers@{version}", method, rows=rows, place=Place(dtype="bfloat16", temperature=0.7)))
    text = text_of(found)
    ast.parse(text)
    assert ("torch_dtype" in text) is (dtype == "torch_dtype")
    assert ("assistant_tokenizer" in text) is (rows == "differ")
    assert ("num_assistant_tokens = 3" in text) is (method == "draft_model")
    assert ('options["prompt_lookup_num_tokens"] = 3' in text) is (method == "ngram")
    assert "'temperature': 0.7" in text


@pytest.mark.parametrize(
    ("rule", "threshold", "schedule"),
    [("fixed", 0.0, "constant"), ("confidence", 0.4, "constant"), (None, 0.4, "constant")],
)
def test_when_a_draft_of_transformers_ends(rule: str | None, threshold: float, schedule: str) -> None:
    text = text_of(launch(wanted("transformers", "draft_model", place=Place(stop_rule=rule))))
    assert f"assistant_confidence_threshold = {threshold}\n" in text
    assert f"num_assistant_tokens_schedule = {schedule!r}\n" in text


# ---------------------------------------------------------------------- every engine, every method

VERSIONS = {
    "vllm": ("0.9.0", "0.10.1", "0.15.0", "0.32.0", "0.33.0", "latest"),
    "vllm-ascend": ("0.7.3", "0.11.0", "0.18.0", "0.23.0", "0.26.0rc1"),
    "sglang": ("0.4.5", "0.4.10", "0.5.2", "0.5.23"),
    "sglang-ascend": ("0.5.5", "0.5.9", "0.5.23"),
    "tensorrt-llm": ("1.0.0", "1.2.1", "1.4.0rc1"),
    "llama.cpp": ("2024-12", "b5000", "b8800", "b9093", "b9200", "b9246", "b11434"),
    "transformers": ("4.40.0", "4.46.0", "5.24.0"),
    "mlx": ("0.24.0", "0.32.2"),
    "xllm": ("2025-12-25", "2026-07-02", "v0.9.1"),
    "mindie": ("2026-04-23", "2.1.RC1"),
}
EVERYTHING = [
    (engine, version, method) for engine, all_of in VERSIONS.items() for version in all_of for method in METHODS
]


@pytest.mark.parametrize(("engine", "version", "method"), EVERYTHING)
def test_whatever_is_asked_is_written_or_left_out_with_a_reason(engine: str, version: str, method: str) -> None:
    k = KS.get(engine, {}).get(method, 3)
    found = launch(wanted(f"{engine}@{version}", method, num_spec_tokens=k))
    for step in found.steps:
        assert not re.search(r"\{\w+\}|\$\w|\bNone\b", step.text), "a placeholder is left"
        if step.language == "sh":
            words(step.text)
        elif step.language == "json":
            json.loads(step.text)
        else:
            ast.parse(step.text)
    if found.method is None:
        assert found.left_out
        assert not any(word in text_of(found) for word in ("specul", "draft")) if found.steps else True
    else:
        assert found.steps[0].text
        said = CATALOG.engine(f"{engine}@{version}")
        assert said.facts["methods"][method]["support"] in ("yes", "experimental")


def test_the_versions_asked_are_of_all_engines() -> None:
    assert set(VERSIONS) == set(CATALOG.engines)


@pytest.mark.parametrize(
    ("engine", "method", "why"),
    [
        ("vllm@0.9.0", "ngram", "is started was not read; what is known holds from 0.9.3"),
        ("vllm@0.14.1", "draft_model", "draft_model from 0.15.0, not in 0.14.1"),
        ("vllm@0.10.1", "mtp", "is told mtp was not read; what is known holds from 0.11.1"),
        ("sglang", "medusa", "has no medusa"),
        ("tensorrt-llm", "dflash", "has dflash is not known"),
        ("llama.cpp@b9200", "draft_model", "was not read"),
        ("llama.cpp@b8800", "draft_model", "was not read"),
        ("llama.cpp@b9493", "eagle3", "holds from b10066"),
        ("mlx", "ngram", "has no ngram"),
        ("xllm@v0.9.1", "mtp", "was not read"),
    ],
)
def test_what_is_not_known_is_not_written(engine: str, method: str, why: str) -> None:
    found = launch(wanted(engine, method))
    assert not found.as_decided
    assert any(why in left.why for left in found.left_out)


def test_an_engine_newer_than_what_was_read_is_said() -> None:
    newer, read = launch(wanted("vllm@0.33.0", "ngram")), launch(wanted("vllm@0.32.0", "ngram"))
    assert "The flags were read for 0.32.0, which is older." in newer.cautions
    assert text_of(newer) == text_of(read)
    assert not any("older" in text for text in read.cautions)


@pytest.mark.parametrize(
    ("engine", "method", "k", "layers", "hint"),
    [
        ("vllm-ascend", "draft_model", 15, None, "give -k 14 or less"),
        ("mindie", "mtp", 3, 1, "give -k 2 or less"),
        ("mindie", "ngram", 17, None, "give -k 16 or less"),
        ("vllm", "mtp", 5, 2, "give -k 4"),
        ("vllm", "draft_model", None, None, "name one with -k"),
    ],
)
def test_an_impossible_number_is_refused(
    engine: str, method: str, k: int | None, layers: int | None, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        launch(wanted(engine, method, num_spec_tokens=k, mtp_layers=layers))
    assert caught.value.hint == hint


def test_the_made_up_interface_is_never_written() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "catalog" / "engines").iterdir()]
    texts += [
        step.text for engine, version, method in EVERYTHING for step in launch_or_nothing(engine, version, method)
    ]
    assert not any(re.search(r"\b(from|import|install) atb\b", text) for text in texts)


def launch_or_nothing(engine: str, version: str, method: str) -> tuple[Any, ...]:
    return launch(wanted(f"{engine}@{version}", method, num_spec_tokens=1)).steps


@pytest.mark.parametrize("engine", sorted(VERSIONS))
def test_what_was_asked_of_the_place_is_set_or_left_out(engine: str) -> None:
    place = Place(
        vendor="nvidia",
        tensor_parallel_size=2,
        max_model_len=4096,
        max_num_seqs=16,
        dtype="float16",
        quantization="awq",
        kv_cache_dtype="fp8_e5m2",
        gpu_memory_utilization=0.85,
        trust_remote_code=True,
    )
    found = launch(wanted(engine, place=place, revision="v1"))
    left = {left.what.split()[0] for left in found.left_out}
    facts = CATALOG.engine(engine).facts["launch"]["settings"]
    text = " ".join(step.text for step in found.steps)
    for name, value in {**place._asdict(), "revision": "v1"}.items():
        if name in ("vendor", "temperature", "stop_rule") or value is None:
            continue
        entry = facts[name]
        table = entry if isinstance(entry, Mapping) else {"words": entry}
        if name in left:
            assert table.get("missing") or table.get("accepts"), name
        elif "words" in table:
            assert table["words"][0] in words(text.replace(" &\n", " ")), name
        else:
            assert str(value).lower() in text.lower() or "device_map" in text, name


# ---------------------------------------------------------------------- hostile names

HOSTILE = [
    "org/with space",
    "it's",
    'say "hi"',
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a&&touch pwned",
    "$HOME",
    "*",
    "~root",
    "a|b>c<d",
    "back\\slash\\",
    "EOF",
    "{k} {draft}",
    "ünï/码农",
    "#comment",
    "!history",
    "a=b",
    "'''+exit()+'''",
]
ENGINES = ("vllm", "vllm-ascend", "sglang", "tensorrt-llm", "mlx", "xllm")


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with programmes of the engines' names that write down what they are called with."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"
    for name in ("vllm", "python3", "trtllm-serve", "mlx_lm.server", "xllm", "llama-server"):
        (tools / name).write_text(script, encoding="utf-8")
        (tools / name).chmod(stat.S_IRWXU)
    return tmp_path


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_shell_takes_hostile_names_as_names(engine: str, name: str, shell: Path) -> None:
    method = "eagle3" if engine == "xllm" else "draft_model"
    target, draft = f"t/{name}", f"d/{name}"
    found = launch(wanted(engine, method, target=target, draft=draft))
    environment = {**os.environ, "PATH": f"{shell / 'tools'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", text_of(found)], capture_output=True, text=True, cwd=shell, env=environment, check=True
    )
    arguments = json.loads(done.stdout)
    assert target in arguments
    if "--speculative-config" in arguments:
        said = json.loads(arguments[arguments.index("--speculative-config") + 1])
        assert said["model"] == draft
    elif engine == "tensorrt-llm":
        content = yaml.safe_load((shell / "draftpick-trtllm.yaml").read_text(encoding="utf-8"))
        assert content["speculative_config"]["speculative_model_dir"] == draft
    else:
        assert draft in arguments
    assert {path.name for path in shell.iterdir()} <= {"tools", "draftpick-trtllm.yaml"}


SAFE = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029"), min_size=1).map(
    lambda text: f"o/{text}"
)


@given(SAFE, SAFE)
def test_any_name_comes_back_from_words_json_and_python(target: str, draft: str) -> None:
    vllm = words(text_of(launch(wanted("vllm", "draft_model", target=target, draft=draft))))
    assert vllm[2] == target
    assert json.loads(vllm[vllm.index("--speculative-config") + 1])["model"] == draft
    script = ast.parse(text_of(launch(wanted("transformers", "draft_model", target=target, draft=draft))))
    texts = [node.value for node in ast.walk(script) if isinstance(node, ast.Constant)]
    assert target in texts
    assert draft in texts
    plugin = json.loads(text_of(launch(wanted("mindie", "ngram", target=target))))
    assert plugin["ModelDeployConfig"]["ModelConfig"][0]["modelWeightPath"] == target


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x00b", "\x1b[31mred", "a\u2028b", "--help", "-x", " ", "a\ud800"])
@pytest.mark.parametrize("which", ["target", "draft"])
def test_names_that_no_line_can_hold_are_refused(name: str, which: str) -> None:
    with pytest.raises(UsageError):
        launch(wanted("vllm", "draft_model", **{which: name}))


@pytest.mark.parametrize("name", ["a```b", "<script>", "a|b", "x` `y"])
def test_a_report_shows_names_as_they_are(name: str) -> None:
    found = launch(wanted("vllm", "draft_model", draft=name))
    text = markdown(found)
    fence = re.search(r"^(`{3,})sh$", text, re.MULTILINE)
    assert fence is not None
    inside = text.split(f"{fence[1]}sh\n")[1].split(f"\n{fence[1]}\n")[0]
    assert inside + "\n" == text_of(found)
    assert "<script>" not in text.replace(inside, "")


def test_blocks_of_a_report() -> None:
    found = launch(wanted("vllm-ascend", "draft_model", schedule=SCHEDULE))
    kinds = [getattr(block, "kind", getattr(block, "language", "")) for block in blocks(found)]
    assert kinds == ["sh", *["warning"] * len(found.cautions), *["note"] * len(found.left_out)]
