"""Overlays: what is refused, what is said, and what is written."""

from __future__ import annotations

import os
import re
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftpick.errors import InvalidCatalog
from draftpick.files import (
    ExpertsRecord,
    FamilyFile,
    LatentRecord,
    LineageRecord,
    ModelRecord,
    TokenizerRecord,
)
from draftpick.models.profile import Experts, LatentAttention, Lineage, ModelProfile
from draftpick.models.tokenizer import Fingerprint
from draftpick.overlay import write_overlay
from draftpick.toml_file import MAX_FILE_BYTES, read_toml
from draftpick.validation import check_overlay, validate

BASE: dict[str, Any] = {
    "models": {"org/base": {"aliases": ["old/base"]}, "org/target": {"lineage": {"base_model": "org/base"}}},
    "tokenizers": {"known-tokenizer": {}},
}

GOOD = """
family = "Mine"

[[model]]
id = "me/small"
model_type = "llama"
hidden_size = 64
tokenizer = "known-tokenizer"
source = "read by me"
checked = 2026-11-01
"""


def row(**keys: str) -> str:
    """A [[model]] row with raw TOML values."""
    keys = {"source": '"read by me"', "checked": "2026-11-01", **keys}
    return "\n[[model]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def head(**keys: str) -> str:
    return row(method='"eagle3"', **keys).replace("[[model]]", "[[head]]")


def overlay(folder: Path, text: str, name: str = "families/mine.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


FAMILY = 'family = "Mine"\n'

REFUSED = {
    "unknown key": (FAMILY + row(id='"a/b"', hiden_size="64"), "hiden_size", "did you mean 'hidden_size'?"),
    "unknown key inside": (FAMILY + row(id='"a/b"', experts="{ num_expert = 4 }"), "num_expert", "num_experts"),
    "unknown table": (FAMILY + "[[modle]]\nid = 'a/b'\n", "modle", "did you mean 'model'?"),
    "wrong type": (FAMILY + row(id='"a/b"', hidden_size='"64"'), "hidden_size", ""),
    "number for a flag": (FAMILY + row(id='"a/b"', gated="1"), "gated", ""),
    "negative": (FAMILY + row(id='"a/b"', num_hidden_layers="-1"), "num_hidden_layers", ""),
    "absurd": (FAMILY + row(id='"a/b"', params_total="99999999999999999"), "params_total", ""),
    "no id": (FAMILY + row(model_type='"llama"'), "'id' is missing", "add id"),
    "no source": (FAMILY + "[[model]]\nid = 'a/b'\nchecked = 2026-11-01\n", "'source' is missing", "add source"),
    "date as no date": (FAMILY + row(id='"a/b"', checked='"lately"'), "checked", ""),
    "control characters in the id": (FAMILY + row(id=r'"a/\u001b[31mb"'), "id", ""),
    "unknown attention": (FAMILY + row(id='"a/b"', attention='"linear"'), "attention", ""),
    "uncertain names no field": (FAMILY + row(id='"a/b"', uncertain='["torch_dtype"]'), "torch_dtype", ""),
    "more sliding layers than layers": (FAMILY + row(id='"a/b"', num_hidden_layers="2", sliding_layers="3"), "3", ""),
    "duplicate": (FAMILY + row(id='"a/b"') + row(id='"a/b"'), "stands twice", "remove one"),
    "duplicate in other case": (FAMILY + row(id='"a/b"') + row(id='"A/B"'), "stands twice", "remove one"),
    "alias of itself": (FAMILY + row(id='"a/b"', aliases='["A/b"]'), "its own id", "remove the alias"),
    "alias is a model": (FAMILY + row(id='"a/b"', aliases='["org/base"]'), "taken by org/base", "remove the alias"),
    "alias is an alias": (FAMILY + row(id='"a/b"', aliases='["old/base"]'), "taken by org/base", "remove the alias"),
    "aliases in a circle": (
        FAMILY + row(id='"a/a"', aliases='["a/b"]') + row(id='"a/b"', aliases='["a/a"]'),
        "taken by",
        "remove the alias",
    ),
    "unknown tokenizer": (FAMILY + row(id='"a/b"', tokenizer='"knwon-tokenizer"'), "knwon", "known-tokenizer"),
    "descends from itself": (
        FAMILY + row(id='"a/b"', lineage='{ base_model = "a/b" }'),
        "descends from itself: a/b → a/b",
        "correct base_model",
    ),
    "descends in a circle": (
        FAMILY + row(id='"a/b"', lineage='{ base_model = "a/c" }') + row(id='"a/c"', lineage='{ base_model = "a/b" }'),
        "a/b → a/c → a/b",
        "correct base_model",
    ),
    "closes a circle with the base": (
        FAMILY + row(id='"org/base"', lineage='{ base_model = "org/target" }'),
        "descends from itself",
        "correct base_model",
    ),
    "head of nobody": (FAMILY + head(id='"a/h"', target='"no/such"'), "no/such", "unlisted_target"),
    "head of a listed target marked unlisted": (
        FAMILY + head(id='"a/h"', target='"org/target"', unlisted_target="true"),
        "is in the catalogue",
        "remove unlisted_target",
    ),
    "head that is a model": (
        FAMILY + row(id='"a/b"') + head(id='"a/b"', target='"org/target"'),
        "is a model as well",
        "keep one",
    ),
    "no TOML": ("family = ", "not valid TOML", ""),
    "a key twice": (FAMILY + FAMILY, "not valid TOML", ""),
    "nested lists": (f"family = {'[' * 100_000}", "nested too deeply", ""),
    "nested names": (f"{'a.' * 200_000}a = 1\n", "nested too deeply", ""),
    "nested names in quotes": ('"a,b".' * 20_000 + "a = 1\n", "nested too deeply", ""),
    "nested names behind odd quotes": (
        'x = [""" " """, {' + '"k,".' * 20_000 + "k = 1}]\n",
        "nested too deeply",
        "",
    ),
    "nested tables": ("a = " + "{ a = " * 20 + "1" + " }" * 20 + "\n", "nested too deeply", ""),
    "hundreds of keys": ("".join(f"[k{number}]\n" for number in range(500)), "keys at the top", ""),
    "thousands of tables": ("".join(f"[k{number}]\n" for number in range(40_000)), "tables in one file", "split it"),
    "a date that is none": (FAMILY + row(id='"a/b"', checked="2026-13-45"), "not valid TOML", ""),
}


@pytest.mark.parametrize(("text", "said", "fix"), REFUSED.values(), ids=REFUSED)
def test_a_bad_overlay_is_refused_with_place_and_fix(tmp_path: Path, text: str, said: str, fix: str) -> None:
    started = time.monotonic()
    with pytest.raises(InvalidCatalog) as caught:
        check_overlay(overlay(tmp_path, text), BASE)
    assert "families/mine.toml" in caught.value.message
    assert said in caught.value.message
    assert fix in caught.value.hint
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 1_000
    assert time.monotonic() - started < 2


def test_a_good_overlay_passes(tmp_path: Path) -> None:
    folder = overlay(tmp_path, GOOD)
    assert validate(folder, base=BASE) == []
    assert check_overlay(folder, BASE) == [folder / "families" / "mine.toml"]


def test_an_overlay_by_itself_is_checked_against_the_shipped_catalogue(tmp_path: Path) -> None:
    text = FAMILY + row(id='"a/b"', aliases='["gpt2"]') + head(id='"a/h"', target='"Qwen/Qwen3-8B"')
    assert [problem.message for problem in validate(overlay(tmp_path, text))] == [
        "alias 'gpt2' is taken by openai-community/gpt2"
    ]


def test_a_single_file_is_an_overlay_too(tmp_path: Path) -> None:
    path = overlay(tmp_path, GOOD, "mine.toml") / "mine.toml"
    assert check_overlay(path, BASE) == [path]


def test_an_overlay_may_replace_a_model_and_point_to_an_alias(tmp_path: Path) -> None:
    text = FAMILY + row(id='"org/base"') + head(id='"a/h"', target='"old/base"')
    assert validate(overlay(tmp_path, text), base={**BASE, "models": {**BASE["models"]}})[0].where == "head a/h"
    text = FAMILY + row(id='"org/base"', aliases='["old/base"]') + head(id='"a/h"', target='"old/base"')
    assert validate(overlay(tmp_path, text), base=BASE) == []


def test_unsorted_rows_are_named_with_the_move_that_mends_them(tmp_path: Path) -> None:
    text = FAMILY + row(id='"a/one"') + row(id='"a/two"') + row(id='"a/three"')
    problem = validate(overlay(tmp_path, text), base=BASE)[0]
    assert (problem.severity, problem.where) == ("warning", "model a/three")
    assert problem.fix == "move a/three after a/one"
    for part in ("tokenizers", "engines"):
        (tmp_path / part).mkdir()
    assert validate(tmp_path)[0].severity == "error"


def test_order_does_not_depend_on_case(tmp_path: Path) -> None:
    assert validate(overlay(tmp_path, FAMILY + row(id='"a/B"') + row(id='"a/c"')), base=BASE) == []


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        pytest.param({"params_text": "494_032_768"}, None, id="exact"),
        pytest.param({"params_text": "500_000_000"}, None, id="within 3 %"),
        pytest.param(
            {"params_text": "630_000_000"}, "params_text 630,000,000 differs by +27.5%", id="untied by mistake"
        ),
        pytest.param({"params_total": "630_000_000"}, "params_total", id="total not explained"),
        pytest.param({"params_total": "630_000_000", "param_check": '"lm_head twice"'}, None, id="total explained"),
        pytest.param(
            {"params_total": "630_000_000", "modality": '"text+vision"'}, None, id="total with a vision tower"
        ),
    ],
)
def test_counts_are_recomputed(tmp_path: Path, stated: dict[str, str], said: str | None) -> None:
    qwen = {
        "id": '"a/b"', "model_type": '"qwen2"', "num_hidden_layers": "24", "hidden_size": "896",
        "intermediate_size": "4864", "num_attention_heads": "14", "num_key_value_heads": "2", "head_dim": "64",
        "tie_word_embeddings": "true", "vocab_size": "151936",
    }  # fmt: skip
    problems = validate(overlay(tmp_path, FAMILY + row(**qwen, **stated)), base=BASE)
    assert len(problems) == (said is not None)
    assert not problems or (said or "") in problems[0].message


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    folder = overlay(tmp_path, GOOD)
    with open(folder / "families" / "large.toml", "wb") as file:
        file.truncate(21_000_000)
    with pytest.raises(InvalidCatalog, match=r"families/large.toml: larger than 1,000,000 bytes"):
        check_overlay(folder, BASE)


def test_many_large_files_are_refused_together(tmp_path: Path) -> None:
    folder = overlay(tmp_path, GOOD)
    for number in range(9):
        with open(folder / "families" / f"large{number}.toml", "wb") as file:
            file.truncate(MAX_FILE_BYTES)
    with pytest.raises(InvalidCatalog, match="more than 8 MB in all"):
        check_overlay(folder, BASE)


def test_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(1_001):
        overlay(tmp_path, "", f"families/{number}.toml")
    with pytest.raises(InvalidCatalog, match="1001 files"):
        check_overlay(tmp_path, BASE)


def test_a_long_chain_of_bases_is_no_circle_and_ends_soon(tmp_path: Path) -> None:
    rows = "".join(
        row(id=f'"a/{number:05}"', lineage=f'{{ base_model = "a/{number + 1:05}" }}') for number in range(5_000)
    )
    assert validate(overlay(tmp_path, FAMILY + rows), base=BASE) == []


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.symlink_to(path.name), id="link to itself"),
        pytest.param(lambda path: path.symlink_to("missing.toml"), id="link to nothing"),
        pytest.param(lambda path: path.mkdir(), id="folder"),
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda path: path.write_bytes(b"family = '\xff\xfe'"), id="not UTF-8"),
        pytest.param(lambda path: path.write_bytes(b"\x00" * 1_000), id="zeros"),
    ],
)
def test_what_is_no_toml_file_is_refused(tmp_path: Path, make: Any) -> None:
    folder = tmp_path / "families"
    folder.mkdir()
    make(folder / "odd.toml")
    with pytest.raises(InvalidCatalog, match=r"odd\.toml"):
        check_overlay(tmp_path, BASE)


def test_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    overlay(tmp_path, GOOD)
    (tmp_path / "families" / "again").symlink_to(tmp_path)
    assert len(check_overlay(tmp_path, BASE)) == 1


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog, match="no such folder"):
        check_overlay(tmp_path / "none", BASE)


ISSUE = """
[[issue]]
key = "acme-slow"
engines = ["vllm"]
kind = "slow"
symptom = "it is slow"
mending = "do less"
source = "https://example.org/1"
checked = 2026-11-29
"""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({'kind = "slow"': 'kind = "sad"'}, "'crash', 'wrong_output'"),
        ({'engines = ["vllm"]': 'engines = ["vlm"]'}, "no engine has the key 'vlm'; did you mean 'vllm'?"),
        ({'engines = ["vllm"]': "engines = []"}, "at least 1"),
        ({"checked = 2026-11-29": 'since = "the last one"\nchecked = 2026-11-29'}, "is no version"),
        ({"checked": "target = { modle_type = 'qwen3' }\nchecked"}, "target has no 'modle_type'; did you mean"),
        ({"checked": "setting = { max_num_seqs = '>many' }\nchecked"}, "compares with no number"),
        ({"checked": "versions = '1'\nchecked"}, "unknown key 'versions'"),
        ({'mending = "do less"\n': ""}, "mending"),
    ],
)
def test_known_issues_of_an_overlay_are_checked(tmp_path: Path, changed: dict[str, str], said: str | None) -> None:
    text = ISSUE
    for before, after in changed.items():
        text = text.replace(before, after)
    problems = validate(overlay(tmp_path, text, "known_issues.toml"))
    assert bool(problems) is (said is not None)
    assert said is None or said in f"{problems[0]} {problems[0].fix}"


def test_a_known_issue_stands_once(tmp_path: Path) -> None:
    (problem,) = validate(overlay(tmp_path, ISSUE + ISSUE, "known_issues.toml"))
    assert (problem.where, problem.severity) == ("issue acme-slow", "error")


def test_other_files_of_an_overlay_are_checked(tmp_path: Path) -> None:
    overlay(
        tmp_path,
        'key = "other"\nname = "X"\nversion = "1"\nsource = "s"\nchecked = 2026-11-01\n'
        '[vocabulary]\nrule = "none"\nsource = "s"\n',
        "engines/x.toml",
    )
    overlay(tmp_path, 'confidence = "sure"\nsource = "s"\nchecked = 2026-11-01\n', "tokenizers/t.toml")
    overlay(tmp_path, '[[device]]\nkey = "d"\nname = "D"\nsource = "s"\nchecked = 2026-11-01\n', "devices.toml")
    found = {problem.file: problem.message for problem in validate(tmp_path, base=BASE)}
    assert "is not the name of the file" in found["engines/x.toml"]
    assert "confidence" in found["tokenizers/t.toml"]
    assert "'vendor' is missing" in found["devices.toml"]


# ---------------------------------------------------------------------- the schema follows the domain types


@pytest.mark.parametrize(
    ("kind", "record", "besides"),
    [
        pytest.param(ModelProfile, ModelRecord, {"origin"}, id="model"),
        pytest.param(Experts, ExpertsRecord, set(), id="experts"),
        pytest.param(LatentAttention, LatentRecord, set(), id="latent attention"),
        pytest.param(Lineage, LineageRecord, {"stock", "stock_generation"}, id="lineage"),
        pytest.param(Fingerprint, TokenizerRecord, {"verified", "tokens"}, id="tokenizer"),
    ],
)
def test_records_have_the_fields_of_the_domain_types(kind: Any, record: Any, besides: set[str]) -> None:
    assert set(kind._fields) - set(record.model_fields) == besides


# ---------------------------------------------------------------------- writing


PROFILE = ModelProfile(
    id="me/new",
    origin="folder",
    path="/models/new",
    family="Mine",
    model_type="qwen3_moe",
    params_total=30_532_122_624,
    num_hidden_layers=48,
    experts=Experts(num_experts=128, experts_per_token=8, width=768),
    latent=LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),
    tie_word_embeddings=False,
    gated=False,
    lineage=Lineage(base_model="org/base", relation="finetune"),
    uncertain=frozenset({"dtype", "lineage"}),
    notes=('a "quoted" \\ note\nwith a line', "täst ☃ \x7f"),
)


def read_back(path: Path) -> dict[str, ModelRecord]:
    return {record.id: record for record in FamilyFile.model_validate(read_toml(path)).model}


def test_a_written_profile_reads_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "families" / "mine.toml"
    write_overlay(PROFILE, path, base=BASE)
    record = read_back(path)["me/new"]
    assert record.profile().with_changes(origin="folder", family="Mine") == PROFILE
    assert record.checked == date.today()
    assert "folder" in str(record.source)
    assert validate(tmp_path, base=BASE) == []


def test_writing_keeps_other_rows_heads_and_the_first_comment(tmp_path: Path) -> None:
    text = "# my models\n\n" + GOOD.lstrip() + head(id='"me/h"', target='"org/target"')
    path = overlay(tmp_path, text) / "families" / "mine.toml"
    write_overlay(PROFILE, path, base=BASE)
    write_overlay(PROFILE.with_changes(params_total=7), path, base=BASE)
    write_overlay(PROFILE.with_changes(id="a/first", family="Other"), path, base=BASE)
    assert list(read_back(path)) == ["a/first", "me/new", "me/small"]
    assert read_back(path)["me/new"].params_total == 7
    assert read_back(path)["a/first"].family == "Other"
    assert read_back(path)["me/small"].tokenizer == "known-tokenizer"
    assert [record.id for record in FamilyFile.model_validate(read_toml(path)).head] == ["me/h"]
    assert path.read_text().startswith("# my models\n")
    assert validate(tmp_path, base=BASE) == []
    assert [other.name for other in path.parent.iterdir()] == ["mine.toml"]


def test_an_unsound_file_is_not_overwritten(tmp_path: Path) -> None:
    path = overlay(tmp_path, FAMILY + row(id='"a/b"', nonsense="1")) / "families" / "mine.toml"
    before = path.read_text()
    with pytest.raises(InvalidCatalog, match="nonsense"):
        write_overlay(PROFILE, path, base=BASE)
    assert path.read_text() == before


def test_a_profile_that_breaks_the_schema_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog, match="me/new"):
        write_overlay(PROFILE.with_changes(num_hidden_layers=-1), tmp_path / "families" / "mine.toml")
    assert not (tmp_path / "families").exists()


@pytest.mark.parametrize(
    ("already", "added", "says"),
    [
        ("", PROFILE.with_changes(lineage=Lineage(base_model="me/new")), "me/new → me/new"),
        (
            FAMILY + row(id='"org/base"', lineage='{ base_model = "me/new" }'),
            PROFILE.with_changes(lineage=Lineage(base_model="org/base")),
            "descends from itself",
        ),
        (FAMILY + row(id='"a/b"', tokenizer='"nowhere"'), PROFILE, "model a/b: no tokenizer has the key"),
    ],
    ids=["of itself", "in a circle", "another row"],
)
def test_nothing_is_written_that_the_catalogue_refuses(
    tmp_path: Path, already: str, added: ModelProfile, says: str
) -> None:
    path = tmp_path / "families" / "mine.toml"
    if already:
        overlay(tmp_path, already)
    before = path.read_text() if already else None
    tokenizer = Fingerprint(key="file:0123456789abcdef", verified=True, full="0" * 64, core="1" * 64)
    with pytest.raises(InvalidCatalog, match=re.escape(says)) as refused:
        write_overlay(added.with_changes(tokenizer=tokenizer), path, base=BASE)
    assert str(path) in refused.value.message
    assert (path.read_text() if path.exists() else None) == before
    assert not (tmp_path / "tokenizers").exists()


def test_a_tokenizer_read_from_a_file_gets_its_own_record(tmp_path: Path) -> None:
    tokenizer = Fingerprint(
        key="file:0123456789abcdef",
        verified=True,
        full="0" * 64,
        core="1" * 64,
        named_ids=3,
        highest_id=2,
        bos=0,
        stop_ids=(2,),
        blocks=("00112233aabbccdd", "ffeeddccbbaa9988"),
        sketch=(1, 2**32 - 1),
        control={2: "</s>", 0: "<s>"},
    )
    write_overlay(PROFILE.with_changes(tokenizer=tokenizer), tmp_path / "families" / "mine.toml", base=BASE)
    write_overlay(
        PROFILE.with_changes(id="me/other", tokenizer=tokenizer), tmp_path / "families" / "mine.toml", base=BASE
    )
    key = read_back(tmp_path / "families" / "mine.toml")["me/new"].tokenizer
    assert key == "file-0123456789abcdef"
    record = TokenizerRecord.model_validate(read_toml(tmp_path / "tokenizers" / f"{key}.toml"))
    assert (record.full, record.bos, record.stop_ids) == ("0" * 64, 0, [2])
    assert record.blocks == "00112233aabbccddffeeddccbbaa9988"
    assert record.sketch == "AQAAAP////8="
    assert record.control == {"0": "<s>", "2": "</s>"}
    assert record.repos == ["me/new", "me/other"]
    assert validate(tmp_path, base=BASE) == []


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)


@given(names, st.lists(st.text(max_size=60), max_size=3))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, name: str, notes: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "families" / "x.toml"
    clean = tuple(note.encode("utf-8", "replace").decode() for note in notes if note)
    profile = ModelProfile(id=name, origin="gguf", notes=clean)
    write_overlay(profile, path, base=BASE)
    assert read_back(path)[name].profile().with_changes(origin="gguf") == profile
