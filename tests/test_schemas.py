"""The published schemas: what is written fits them, what does not fit them is not read, and none is stale."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pydantic
import pytest
from commands import run
from jsonschema import Draft202012Validator, FormatChecker

from draftpick import schemas
from draftpick.advice_file import read_advice
from draftpick.errors import InvalidFile
from draftpick.gate_file import GateFile, PolicyFile
from draftpick.probe_file import GivenCosts, read_probe
from draftpick.probing import trace
from draftpick.record import SCHEMA_VERSION
from draftpick.report.csv import ADVICE
from draftpick.report.csv import render as csv_of
from draftpick.schemas import DOCUMENTS
from draftpick.toml_file import read_toml

FOLDER = Path(__file__).parent.parent / "schemas"
NAMES = [document.name for document in DOCUMENTS]
WRITTEN = [document.name for document in DOCUMENTS if document.mode == "serialization"]


def schema(name: str) -> dict[str, Any]:
    found = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@cache
def checker(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name), format_checker=FormatChecker())


def errors(name: str, value: Any) -> list[str]:
    """Where a document does not fit its schema."""
    return sorted(error.json_path for error in checker(name).iter_errors(value))


# ---------------------------------------------------------------------- the schemas themselves


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 11), reason="earlier ones word the same schemas differently"
)
def test_none_is_stale(tmp_path: Path) -> None:
    schemas.main([str(tmp_path / "new")])
    texts = {
        folder: {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
        for folder in (FOLDER, tmp_path / "new")
    }
    assert texts[FOLDER] == texts[tmp_path / "new"], "stale: run `make schemas`, or `python -m draftpick.schemas`"


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_schema_with_a_name(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["$id"] == f"urn:draftpick:schema:{name}:1"
    assert found["title"]
    assert found["description"].endswith(".")


@pytest.mark.parametrize("name", ["advice", "probe", "gate", "policy", "observation", "baseline"])
def test_each_holds_for_the_version_that_is_read(name: str) -> None:
    assert schema(name)["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_docstrings_of_fields_describe_them() -> None:
    policy = schema("policy")["$defs"]["Policy"]["properties"]
    assert [name for name, part in policy.items() if not part.get("description")] == []
    assert policy["must_fit"]["description"] == "In the memory of `device`."
    known = schema("probe")["$defs"]["KnownModel"]["properties"]
    assert known["vocab_size"]["description"].startswith("Rows of the embedding matrix"), "those of ModelProfile"
    whole = "".join((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8") for name in NAMES)
    assert not re.search(r"\bNone\b", whole), "JSON says null"


def test_the_module_writes_them_where_it_is_told(tmp_path: Path) -> None:
    module = [sys.executable, "-m", "draftpick.schemas", str(tmp_path / "new")]
    done = subprocess.run(module, check=True, capture_output=True, text=True)
    assert done.stdout == f"wrote {len(NAMES)} schemas into {tmp_path / 'new'}\n"
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"{name}.schema.json" for name in NAMES}


# ---------------------------------------------------------------------- an advice

ADVICES = (
    "recommend Qwen/Qwen2.5-72B-Instruct",
    "recommend meta-llama/Llama-3.3-70B-Instruct --engine vllm-ascend --device 910b3 -tp 4 --max-model-len 8192 "
    "--max-num-seqs 4",
    "recommend deepseek-ai/DeepSeek-V3 --engine sglang --device h100-80g -tp 8 --input-len 1000 --output-len 200",
    "recommend Qwen/Qwen3-32B --engine mindie",
    "check Qwen/Qwen2.5-72B-Instruct Qwen/Qwen3-0.6B --images",
    "check meta-llama/Llama-3.1-70B-Instruct yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --select tokenizer-identity",
    "plan --acceptance-rate 0.65 --draft-cost 0.05 -k 5",
)


@pytest.fixture(scope="module", params=ADVICES)
def advice(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    answer = run(*request.param.split(), "--json", "--exit-zero")
    assert answer.exit_code == 0, answer.stderr
    path = tmp_path_factory.mktemp("advice") / "advice.json"
    path.write_text(answer.stdout, encoding="utf-8")
    return path


def test_what_the_commands_print_fits(advice: Path) -> None:
    printed = json.loads(advice.read_text(encoding="utf-8"))
    assert errors("advice", printed) == []
    assert errors("advice", read_advice(advice).plain()) == []


def test_its_csv_has_a_row_for_every_candidate(advice: Path) -> None:
    whole = read_advice(advice)
    names, *rows = csv.reader(io.StringIO(csv_of(whole), newline=""))
    assert len(rows) == len(whole.candidates)
    assert names == [*ADVICE, *(f"verdict_{key}" for key in whole.candidates[0].engines)]
    assert all(len(row) == len(names) for row in rows)
    if whole.request.options.get("max-num-seqs"):  # the one that asks for everything
        assert [name for place, name in enumerate(names) if not any(row[place] for row in rows)] == []


# ---------------------------------------------------------------------- a gate

RESULT: dict[str, Any] = {
    "schema_version": "1",
    "kind": "gate",
    "tool": {"name": "draftpick", "version": "1"},
    "policy": "pairs.toml",
    "date": date(2026, 11, 30),
    "passed": True,
    "pairs": [
        {
            "name": "a", "target": "acme/target", "draft": "acme/draft", "passed": True, "judged": True, "line": 3,
            "evidence": "probe.json",
            "checks": [
                {"name": "speedup", "status": "passed", "passed": True, "value": 1.4, "bound": 1.3, "threshold": 1.2,
                 "baseline": None, "reason": "1.40 (1.30 to 1.50) reaches 1.2"},
                {"name": "engine", "status": "waived", "passed": True, "value": "refused", "threshold": "care",
                 "reason": "refused", "waiver": {"reason": "until it is mended", "expires": date(2027, 1, 1)}},
            ],
        }
    ],
}  # fmt: skip


def gate() -> dict[str, Any]:
    return GateFile.model_validate(RESULT).model_dump(mode="json")


def test_a_result_made_of_the_records_fits() -> None:
    found = gate()
    assert found["date"] == "2026-11-30"
    assert errors("gate", found) == []


# ---------------------------------------------------------------------- what people write

POLICY = """
schema_version = "1"
baseline = "baseline.json"

[defaults]
min_speedup = 1.2
allow = ["licence"]
engine_verdict = "care"

[[pair]]
name = "chat"
target = "Qwen/Qwen2.5-72B-Instruct"
draft = "Qwen/Qwen2.5-7B-Instruct"
engine = "vllm-ascend"
num_spec_tokens = 3
temperature = 0
evidence = "probe.json"
policy = { min_acceptance_rate = 0.6, must_fit = true }

[[pair.waivers]]
check = "memory"
reason = "the new nodes come in January"
expires = 2027-01-31

[[pair]]
name = "code"
target = "acme/target"
draft = "acme/draft"
probe = true
prompts = "code.jsonl"
"""


def policy(folder: Path, text: str = POLICY) -> dict[str, Any]:
    """A policy file as an editor sees it: TOML's dates are texts in JSON."""
    path = folder / "pairs.toml"
    path.write_text(text, encoding="utf-8")
    found = json.loads(json.dumps(read_toml(path), default=date.isoformat))
    assert isinstance(found, dict)
    return found


def test_a_policy_fits(tmp_path: Path) -> None:
    found = policy(tmp_path)
    assert errors("policy", found) == []
    assert [pair.name for pair in PolicyFile.model_validate(found).pair] == ["chat", "code"]


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ("min_speedup = 1.2", 'min_speedup = "1.2"', "$.defaults.min_speedup"),
        ("min_speedup = 1.2", "min_speedpu = 1.2", "$.defaults"),
        ("min_acceptance_rate = 0.6", "min_acceptance_rate = 60", "$.pair[0].policy.min_acceptance_rate"),
        ('"care"', '"careful"', "$.defaults.engine_verdict"),
        ("num_spec_tokens = 3", "num_spec_tokens = 0", "$.pair[0].num_spec_tokens"),
        ('reason = "the new nodes come in January"', "", "$.pair[0].waivers[0]"),
        ("2027-01-31", '"January"', "$.pair[0].waivers[0].expires"),
        ('name = "code"', "", "$.pair[1]"),
        ('schema_version = "1"', 'schema_version = "2"', "$.schema_version"),
        ("[defaults]", "[default]", "$"),
    ],
)
def test_a_wrong_policy_does_not(tmp_path: Path, before: str, after: str, where: str) -> None:
    assert before in POLICY
    found = policy(tmp_path, POLICY.replace(before, after))
    assert where in errors("policy", found)
    with pytest.raises(pydantic.ValidationError):
        PolicyFile.model_validate(found)


COSTS = {"target_ms": 10, "draft_ms": 1.5, "verify_ms": [10, 11.5]}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, []),
        ({"draft_first_ms": None, "overhead_ms": 0.5, "software": "ours"}, []),
        ({"target_ms": "10"}, ["$.target_ms"]),
        ({"target_ms": 0}, ["$.target_ms"]),
        ({"verify_ms": [10]}, ["$.verify_ms"]),
        ({"draft_ms": -1}, ["$.draft_ms"]),
        ({"drafts_ms": 1}, ["$"]),
    ],
)
def test_costs_given_in_a_file(changes: dict[str, Any], where: list[str]) -> None:
    found = {**COSTS, **changes}
    assert errors("costs", found) == where
    if not where:
        GivenCosts.model_validate(found)


# ---------------------------------------------------------------------- versions


@pytest.mark.parametrize("version", ["0", "2", 1, None])
@pytest.mark.parametrize(
    ("read", "rest"), [(read_probe, {"kind": "probe"}), (read_advice, {"kind": "advice", "candidates": []})]
)
def test_another_version_does_not_load(
    tmp_path: Path, read: Callable[[Path], object], rest: dict[str, Any], version: object
) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"schema_version": version, **rest}), encoding="utf-8")
    with pytest.raises(
        InvalidFile, match=r"its schema_version is .*, and this draftpick reads '1': it does not load"
    ) as told:
        read(path)
    assert "wrote it" in told.value.hint
    assert told.value.exit_code == 2


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_trace_of_another_version_does_not_load(tmp_path: Path, version: object) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps({"draftpick_trace": version}) + "\n", encoding="utf-8")
    with pytest.raises(InvalidFile, match="not a trace that this draftpick reads") as told:
        trace.read(path)
    assert told.value.hint.startswith("it reads version 1")


# ---------------------------------------------------------------------- the promise


@pytest.fixture(scope="module")
def pair() -> dict[str, Any]:
    return run("check", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", "--engine", "vllm", "--json", "--exit-zero").document


def with_more_keys(value: Any) -> Any:
    """A document of a newer draftpick, which says more everywhere."""
    if isinstance(value, dict):
        return {**{key: with_more_keys(part) for key, part in value.items()}, "a_new_key": {"deep": [1]}}
    return [with_more_keys(part) for part in value] if isinstance(value, list) else value


def test_more_keys_may_be_added_to_what_is_written(pair: dict[str, Any]) -> None:
    # Not in maps, whose keys are names: there a new key would be a new engine or option.
    found = copy.deepcopy(pair)
    for one in found["candidates"]:
        one["model"] = with_more_keys(one["model"])
        one["plan"] |= {"a_new_key": 1}
        one["a_new_key"] = {"deep": [1]}
    assert errors("advice", {**found, "a_new_key": 1}) == []
    assert errors("gate", {**with_more_keys(gate()), "tool": {}}) == []


@pytest.mark.parametrize("name", WRITTEN)
def test_schemas_of_what_is_written_close_no_record(name: str) -> None:
    found = schema(name)
    for record in (found, *found.get("$defs", {}).values()):
        assert record.get("additionalProperties") is not False


def test_a_wrong_type_does_not_fit(pair: dict[str, Any]) -> None:
    for change, where in (
        (lambda found: found["decision"].update(action="perhaps"), "$.decision.action"),
        (lambda found: found["candidates"][0].update(rank="1"), "$.candidates[0].rank"),
        (
            lambda found: found["candidates"][0]["plan"].update(num_spec_tokens=2.5),
            "$.candidates[0].plan.num_spec_tokens",
        ),
        (lambda found: found.update(candidates={}), "$.candidates"),
        (lambda found: found.pop("decision"), "$"),
    ):
        found = copy.deepcopy(pair)
        change(found)
        assert where in errors("advice", found)
