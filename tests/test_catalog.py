"""The catalogue as people reach it: names, overlays, and what the commands of `catalog` show and write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Answer, run

from draftpick.catalog import load, user_folder
from draftpick.catalog_index import compile_index, is_current, read_toml, write_index
from draftpick.catalog_names import nearest
from draftpick.errors import InvalidCatalog, UsageError

ROOT = Path(__file__).parent.parent
CATALOG = load()
TARGET = "Qwen/Qwen2.5-72B-Instruct"
ROW = """
family = "Qwen"

[[model]]
id = "acme/Qwen2.5-Tiny"
generation = "2.5"
variant = "instruct"
architecture = "Qwen2ForCausalLM"
params_total = 494032768
num_hidden_layers = 24
hidden_size = 896
num_attention_heads = 14
num_key_value_heads = 2
tie_word_embeddings = true
vocab_size = 152064
tokenizer = "qwen2.5-bpe-151643"
max_position_embeddings = 32768
dtype = "bfloat16"
aliases = ["acme/Old-Tiny"]
source = "a test"
checked = 2026-11-29
"""


def overlay(folder: Path, text: str = ROW, name: str = "families/acme.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def drafts(answer: Answer) -> dict[str, dict[str, Any]]:
    return {found["draft"]: found for found in answer.document["candidates"] if found["draft"]}


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        (" qwen/QWEN2.5-7b-instruct/ ", "Qwen/Qwen2.5-7B-Instruct"),
        ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen2.5-8B-Instruct", None),
        ("", None),
    ],
)
def test_a_name_stands_for_a_model(name: str, found: str | None) -> None:
    model = CATALOG.find(name)
    assert (model.id if model else None) == found


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Qwen/Qwen2.5-7B-Instrukt", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen2.5-72b-instruct-", "Qwen/Qwen2.5-72B-Instruct"),
        ("meta-llama/Llama-3.1-8B-Instrct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-lama/LLama-3-1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("deepseek-ai/DeepSeekV3", "deepseek-ai/DeepSeek-V3"),
        ("mistral-small-3.2", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
    ],
)
def test_a_mistyped_name_gets_the_nearest(name: str, first: str) -> None:
    assert CATALOG.nearest(name)[0] == first


def test_names_whose_digits_agree_come_first() -> None:
    assert nearest("org/Toy-7B-Chatt", ["a/Toy-1B-Chat", "a/Toy-7B-Chit", "a/Toy-70B-Chat"])[0] == "a/Toy-7B-Chit"
    assert nearest("org/Toy-7B", ["a/Nothing-like-it"]) == []


def test_a_model_that_nobody_published_is_answered() -> None:
    answer = run("recommend", "Llama2-1.1B")
    assert answer.exit_code == 3
    assert "TinyLlama-1.1B" in answer.stderr.splitlines()[0]
    assert "TinyLlama/TinyLlama-1.1B" in answer.stderr.splitlines()[1]


@pytest.mark.parametrize("kind", ["engine", "device"])
def test_what_is_not_known_is_a_usage_error(kind: str) -> None:
    with pytest.raises(UsageError) as error:
        getattr(CATALOG, kind)("zzzzzz")
    assert f"unknown {kind} 'zzzzzz'" == error.value.message
    assert f"known: {next(iter(getattr(CATALOG, kind + 's')))}" in error.value.hint
    assert f"--kind {kind}s" in error.value.hint


def test_ten_engines_answer_to_their_keys() -> None:
    assert [engine.key for engine in CATALOG.all_engines] == sorted(CATALOG.engines)
    assert len(CATALOG.all_engines) == 10


def test_every_name_leads_to_a_record() -> None:
    for model_id in CATALOG.models:
        assert CATALOG.model_id(model_id) == model_id
        assert CATALOG.profile(model_id).id == model_id
        for alias in CATALOG.record("models", model_id).get("aliases", ()):
            assert CATALOG.model_id(alias) == model_id
    for head_id in CATALOG.heads:
        head = CATALOG.head(head_id)
        assert head is not None
        assert head.id == head_id
        assert head in CATALOG.heads_for(head.target)


def test_a_tokenizer_is_verified_for_its_own_repository_alone() -> None:
    key, repository = next(
        (key, record["repos"][0]) for key, record in CATALOG.tokenizers.items() if record.get("repos")
    )
    known, other = CATALOG.tokenizer(key, repository=repository), CATALOG.tokenizer(key, repository="some/body")
    assert known is not None
    assert other is not None
    assert (known.verified, other.verified) == (True, False)
    assert CATALOG.full_tokenizer(known).verified
    assert CATALOG.full_tokenizer(known).blocks
    assert CATALOG.tokenizer("no-such-key") is None


# ---------------------------------------------------------------------- the compiled index


def test_compiling_is_the_same_each_time(tmp_path: Path) -> None:
    write_index(ROOT / "catalog", tmp_path)
    assert is_current(ROOT / "catalog", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.json*")} == {
        name: content for name, content in compile_index(ROOT / "catalog").items() if "/" not in name
    }
    (tmp_path / "models.jsonl").write_bytes(b"")
    assert not is_current(ROOT / "catalog", tmp_path)


def test_a_record_is_whole_again() -> None:
    text = {row["id"]: row for row in read_toml(ROOT / "catalog" / "families" / "qwen.toml")["model"]}[TARGET]
    record = CATALOG.record("models", TARGET)
    assert {key: value for key, value in record.items() if key not in ("family", "checked")} == {
        key: value for key, value in text.items() if key not in ("id", "checked")
    }
    assert record["checked"] == text["checked"].isoformat()


# ---------------------------------------------------------------------- overlays


def test_a_row_of_an_overlay_is_a_candidate(tmp_path: Path) -> None:
    asked = ("recommend", TARGET, "--engine", "vllm-ascend", "--json")
    assert "acme/Qwen2.5-Tiny" not in drafts(run(*asked))
    found = drafts(run(*asked, "--catalog", str(overlay(tmp_path))))["acme/Qwen2.5-Tiny"]
    assert (found["origin"], found["viable"]) == ("overlay", True)
    assert found["engines"]["vllm-ascend"]["verdict"] == "accepted"


def test_an_alias_of_an_overlay_resolves(tmp_path: Path) -> None:
    for name in ("acme/Old-Tiny", "old-tiny", "ACME/qwen2.5-tiny"):
        document = run("check", TARGET, name, "--json", "--catalog", str(overlay(tmp_path))).document
        assert document["candidates"][0]["draft"] == "acme/Qwen2.5-Tiny"


def test_a_row_of_an_overlay_replaces_the_shipped_one(tmp_path: Path) -> None:
    row = ROW.replace("acme/Qwen2.5-Tiny", "Qwen/Qwen2.5-0.5B-Instruct").replace('aliases = ["acme/Old-Tiny"]\n', "")
    asked = ("check", TARGET, "Qwen/Qwen2.5-0.5B-Instruct", "--engine", "vllm-ascend", "--json")
    shipped, laid_over = run(*asked), run(*asked, "--catalog", str(overlay(tmp_path, row)))
    assert (shipped.exit_code, laid_over.exit_code) == (1, 0)
    assert laid_over.document["candidates"][0]["model"]["vocab_size"] == 152064


def test_the_folder_of_the_user_is_laid_over_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    overlay(home / ".config" / "draftpick" / "catalog")
    overlay(tmp_path / "xdg" / "draftpick" / "catalog", ROW.replace("Tiny", "Small"))
    asked = ("recommend", TARGET, "--json")
    assert "acme/Qwen2.5-Tiny" in drafts(run(*asked, home=home))
    found = drafts(run(*asked, home=home, XDG_CONFIG_HOME=str(tmp_path / "xdg")))
    assert "acme/Qwen2.5-Small" in found
    assert "acme/Qwen2.5-Tiny" not in found


def test_the_named_overlay_lies_on_top(tmp_path: Path) -> None:
    home = tmp_path / "home"
    overlay(home / ".config" / "draftpick" / "catalog")
    top = overlay(tmp_path / "top", ROW.replace("vocab_size = 152064", "vocab_size = 151936"))
    document = run("check", TARGET, "acme/Qwen2.5-Tiny", "--json", "--catalog", str(top), home=home).document
    assert document["candidates"][0]["model"]["vocab_size"] == 151936


def test_the_user_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "draftpick" / "catalog"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder() == tmp_path / ".config" / "draftpick" / "catalog"


@pytest.mark.parametrize("name", ["atlas-800i-a2", "Atlas 800I A2", " atlas  800i a2 ", "910B4-1"])
def test_a_device_goes_by_its_product_name_with_blanks_or_dashes(name: str) -> None:
    assert load().device(name).key == "910b4-1"


def test_devices_and_engines_of_an_overlay(tmp_path: Path) -> None:
    device = '[[device]]\nkey = "tpu-x"\nname = "TPU X"\nvendor = "acme"\nmemory_bytes = 1000\naliases = ["x"]\n'
    overlay(tmp_path, device + 'source = "a test"\nchecked = 2026-11-29\n', "devices.toml")
    vllm = (ROOT / "catalog" / "engines" / "vllm.toml").read_text(encoding="utf-8")
    overlay(tmp_path, vllm.replace('version = "', 'version = "1', 1), "engines/vllm.toml")
    document = run(
        "recommend", TARGET, "--device", "X", "--engine", "vllm", "--json", "--catalog", str(tmp_path)
    ).document
    named = {"id": "tpu-x", "name": "TPU X", "count": 1, "memory_bytes": 1000}
    assert document["device"] == {**named, "assumed": False, "others": [], "note": None}
    assert document["engine"]["version"].startswith("1")


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (ROW + "layers = 3\n", "families/acme.toml", ["families/acme.toml", "acme/Qwen2.5-Tiny", "'layers'"]),
        (ROW.replace("hidden_size", "hiden_size"), "families/acme.toml", ["hiden_size", "hidden_size"]),
        (ROW.replace("= 24", '= "24"'), "families/acme.toml", ["acme/Qwen2.5-Tiny", "num_hidden_layers"]),
        (ROW.replace('source = "a test"\n', ""), "families/acme.toml", ["acme/Qwen2.5-Tiny", "'source' is missing"]),
        (ROW.replace("qwen2.5-bpe-151643", "qwen2.5-bpe"), "families/acme.toml", ["qwen2.5-bpe", "acme/Qwen2.5-Tiny"]),
        (ROW.replace("acme/Old-Tiny", TARGET), "families/acme.toml", ["alias", TARGET]),
        (ROW + 'lineage = { base_model = "acme/Qwen2.5-Tiny" }\n', "families/acme.toml", ["descends from itself"]),
        (ROW + ROW[ROW.index("[[") :], "families/acme.toml", ["stands twice"]),
        ("family = ", "families/acme.toml", ["families/acme.toml", "not valid TOML"]),
        ('[[device]]\nkey = "x"\n', "devices.toml", ["devices.toml", "device x", "missing"]),
        ('key = "e"\nname = "E"\nversion = "1"\nsource = "s"\nchecked = 2026-01-01', "engines/e.toml", ["vocabulary"]),
    ],
    ids=[
        "unknown key",
        "mistyped key",
        "wrong type",
        "no source",
        "unknown tokenizer",
        "alias taken",
        "self-referencing",
        "twice",
        "no TOML",
        "device",
        "engine",
    ],
)  # fmt: skip
def test_an_invalid_overlay_names_file_and_row(tmp_path: Path, text: str, name: str, says: list[str]) -> None:
    for asked in (["recommend", TARGET, "--catalog"], ["catalog", "validate"]):
        answer = run(*asked, str(overlay(tmp_path, text, name)))
        assert answer.exit_code == 2
        told = answer.stdout + answer.stderr
        assert all(word in told for word in (Path(name).name, *says)), told
        assert "bug" not in told


ENGINE = 'key = "e"\nname = "E"\nversion = "1"\nsource = "s"\nchecked = 2026-01-01\n'
VOCABULARY = '[vocabulary]\nrule = "equal-rows"\nsource = "s"\n'


@pytest.mark.parametrize(
    "tables",
    [
        "methods = 3\n" + VOCABULARY,
        "vocabulary = 3",
        '[vocabulary]\nrule = "guess"',
        '[vocabulary]\nrule = "token-text"',
        VOCABULARY + '[vocabulary.bridge]\nsince = "1"',
        VOCABULARY + '[[vocabulary.was]]\nrule = "none"',
        VOCABULARY + '[methods.draft_model]\nsupport = "maybe"',
        VOCABULARY + "[methods.draft_model]\nnote = 'no support'",
        VOCABULARY + '[methods.draft_model]\nsupport = "yes"\nwas = [3]',
        VOCABULARY + '[methods.draft_model]\nsupport = "yes"\nmax_num_spec_tokens = "many"',
        "limits = 2\n" + VOCABULARY,
        VOCABULARY + "[limits]\nmax_num_spec_tokens = 0",
        "tensor_parallel = true\n" + VOCABULARY,
        "exceptions = [3]\n" + VOCABULARY,
        VOCABULARY + '[[exceptions]]\nverdict = "never"\nreason = "r"',
        VOCABULARY + '[[exceptions]]\nverdict = "care"\nreason = "r"\ntarget = "moe"',
        VOCABULARY + '[[exceptions]]\nverdict = "care"\nreason = "r"\ntarget = { hidden_size = ">many" }',
        "builds = 4\n" + VOCABULARY,
    ],
)
def test_an_engine_that_cannot_be_judged_by_is_no_bug(tmp_path: Path, tables: str) -> None:
    answer = run("check", TARGET, TARGET, "--catalog", str(overlay(tmp_path, ENGINE + tables, "engines/e.toml")))
    assert answer.exit_code == 2
    assert "engines/e.toml" in answer.stderr


def test_a_missing_overlay_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog, match="no such folder"):
        load(tmp_path / "nothing")


# ---------------------------------------------------------------------- catalog list and show


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("models", len(CATALOG.models)),
        ("heads", len(CATALOG.heads)),
        ("tokenizers", len(CATALOG.tokenizers)),
        ("engines", 10),
        ("devices", len(CATALOG.devices)),
        ("issues", len(CATALOG.issues)),
    ],
)
def test_a_list_is_complete_in_text_and_json(kind: str, number: int) -> None:
    text, rows = (
        run("catalog", "list", "--kind", kind),
        json.loads(run("catalog", "list", "--kind", kind, "--json").stdout),
    )
    assert (text.exit_code, len(rows)) == (0, number)
    assert text.stdout.splitlines()[-1] == f"{number} {kind}; catalogue of {CATALOG.date}"
    assert len(text.stdout.splitlines()) == number + 3
    assert [row["id"] for row in rows] == sorted(getattr(CATALOG, kind))
    assert all(row["source"] and row["checked"] for row in rows)


def test_a_list_of_one_family() -> None:
    rows = json.loads(run("catalog", "list", "--family", "qwq", "--json").stdout)
    assert {row["family"] for row in rows} == {"QwQ"}


@pytest.mark.parametrize(
    ("name", "kind", "key"),
    [
        ("qwen2.5-72b-instruct", "model", TARGET),
        ("jukofyork/deepseek-v3-draft-0.6b-v3.0", "model", "jukofyork/DeepSeek-V3-DRAFT-0.6B-v3.0"),
        ("lmsys/DeepSeek-V3-NextN", "head", "lmsys/DeepSeek-V3-NextN"),
        ("qwen2.5-bpe-151643", "tokenizer", "qwen2.5-bpe-151643"),
        ("vllm-npu", "engine", "vllm-ascend"),
        ("atlas-800i-a2-64g", "device", "910b4-1"),
    ],
)
def test_show_finds_every_kind(name: str, kind: str, key: str) -> None:
    record = run("catalog", "show", name, "--json").document
    assert (record["kind"], record["id"]) == (kind, key)
    text = run("catalog", "show", name).stdout
    assert text.startswith(f"{kind} {key}\n")
    assert "source" in text
    assert "checked" in text


def test_show_marks_what_is_uncertain() -> None:
    name, record = next((key, row) for key, row in CATALOG.models.items() if "dtype" in row.get("uncertain", ()))
    line = next(line for line in run("catalog", "show", name).stdout.splitlines() if line.startswith("dtype"))
    assert line.split() == ["dtype", record["dtype"], "(uncertain)"]


def test_a_listing_goes_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    answer = run("catalog", "list", "--kind", "devices", "--json", "-o", str(path))
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert len(json.loads(path.read_text())) == len(CATALOG.devices)


def test_the_shipped_catalogue_is_valid() -> None:
    answer = run("catalog", "validate")
    assert answer.exit_code == 0, answer.stdout
    assert answer.stdout.splitlines()[-1].endswith("0 errors, 0 warnings")


# ---------------------------------------------------------------------- catalog add


def test_a_folder_is_added_and_then_recommended(tmp_path: Path) -> None:
    folder = tmp_path / "my-tiny"
    folder.mkdir()
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 12,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 152064,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "_name_or_path": "Qwen/Qwen2.5-0.5B-Instruct",
    }
    (folder / "config.json").write_text(json.dumps(config))
    rows = tmp_path / "rows"
    added = run("catalog", "add", str(folder), "--id", "acme/my-tiny", "--catalog", str(rows))
    assert (added.exit_code, added.stdout) == (0, "")
    assert run("catalog", "validate", str(rows)).exit_code == 0
    assert "acme/my-tiny" in drafts(run("recommend", TARGET, "--json", "--all", "--catalog", str(rows)))
    again = run("catalog", "add", str(folder), "--id", "acme/my-tiny", "--catalog", str(rows))
    assert again.exit_code == 0
    assert sum(len(read_toml(path)["model"]) for path in rows.glob("families/*.toml")) == 1


def tiny(folder: Path, **changed: object) -> Path:
    """A folder with the config of a small Qwen2.5."""
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **changed,
    }
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("model_id", ["acme/my-finetune", "Acme/My-Finetune", "Qwen/Qwen2.5-0.5B-Instruct"])
def test_a_model_is_added_again_after_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_id: str) -> None:
    """From its own folder, by a relative path, which other folders must find as well."""
    monkeypatch.chdir(tmp_path)
    folder = tiny(tmp_path / "my-finetune")
    (folder / "README.md").write_text(f"---\nbase_model: {model_id}\n---\n")
    for again in range(3):
        tiny(folder, max_position_embeddings=30000 + again)
        answer = run("catalog", "add", "./my-finetune", "--id", model_id, home=tmp_path)
        assert answer.exit_code == 0, answer.stderr
        assert run("catalog", "validate", home=tmp_path).exit_code == 0
        found = run("catalog", "show", model_id, "--json", home=tmp_path).document
        assert found["max_position_embeddings"] == 30000 + again
        assert found["path"] == str(folder)
        assert (found.get("lineage") or {}).get("base_model") != model_id
        assert not any("acme/my-finetune" in note.lower() for note in found.get("notes", ()))


def test_a_row_whose_family_changes_stays_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tiny(tmp_path / "mine")
    add = ("catalog", "add", "mine", "--id", "acme/mine")
    assert run(*add, home=tmp_path).exit_code == 0
    (folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 32000, "num_hidden_layers": 2}')
    answer = run(*add, home=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    assert run("catalog", "show", "acme/mine", "--json", home=tmp_path).document["vocab_size"] == 32000


def test_a_broken_overlay_is_named_shown_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny(tmp_path / "mine")
    own = tmp_path / ".config" / "draftpick" / "catalog" / "families" / "local.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        'family = "local"\n[[model]]\nid = "acme/mine"\nnum_hidden_layers = 2\nsource = "s"\nchecked = 2026-01-01\n'
        'lineage = { base_model = "acme/mine" }\n'
    )
    for asked in (["check", TARGET, "Qwen/Qwen2.5-0.5B-Instruct"], ["catalog", "list"]):
        refused = run(*asked, home=tmp_path)
        assert refused.exit_code == 2
        assert str(own) in refused.stderr
    checked = run("catalog", "validate", home=tmp_path)
    assert checked.exit_code == 2
    assert "descends from itself" in checked.stdout
    assert f"{own.parent.parent}: 1 errors" in checked.stdout
    mended = run("catalog", "add", "./mine", "--id", "acme/mine", home=tmp_path)
    assert mended.exit_code == 0, mended.stderr
    assert run("catalog", "validate", home=tmp_path).exit_code == 0


def test_a_row_whose_folder_is_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tiny(tmp_path / "mine")
    assert run("catalog", "add", "mine", "--id", "acme/mine", home=tmp_path).exit_code == 0
    (folder / "config.json").unlink()
    folder.rmdir()
    answer = run("probe", "acme/mine", "Qwen/Qwen2.5-0.5B-Instruct", home=tmp_path)
    assert answer.exit_code == 3
    assert f"the row of acme/mine points to {folder}, which is not there" in " ".join(answer.stderr.split())


def test_without_a_folder_it_is_added_to_the_users_own(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 32000, "num_hidden_layers": 2}')
    answer = run("catalog", "add", str(folder), "--id", "acme/tiny", home=tmp_path)
    assert answer.exit_code == 0
    assert str(tmp_path / ".config" / "draftpick" / "catalog" / "families") in answer.stderr
    assert run("catalog", "show", "acme/tiny", "--json", home=tmp_path).document["vocab_size"] == 32000


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({}, ["no tokenizer files", "no weights and no index", "no base model is named"]),
        ({"README.md": "---\nbase_model: acme/base\n---\n"}, ["no tokenizer files", "no weights and no index"]),
        (
            {"model.safetensors.index.json": '{"metadata": {"total_size": 9000000}, "weight_map": {}}'},
            ["no tokenizer files", "no base model is named"],
        ),
    ],
)
def test_adding_warns_of_what_a_row_cannot_say(tmp_path: Path, more: dict[str, str], warned: list[str]) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 32000, "num_hidden_layers": 2}')
    for name, text in more.items():
        (folder / name).write_text(text)
    answer = run("catalog", "add", str(folder), "--id", "acme/bare", home=tmp_path)
    assert answer.exit_code == 0
    lines = [line for line in answer.stderr.splitlines() if line.startswith("warning: ")]
    assert [
        line.removeprefix(f"warning: {folder}: ").partition(":")[0].partition(" of ")[0] for line in lines
    ] == warned
    assert all("add it again" in line for line in lines)


def test_models_without_a_family_are_not_of_one_family(tmp_path: Path) -> None:
    for name, layers in (("big", 20), ("small", 2)):
        shape = {"num_hidden_layers": layers, "hidden_size": 960, "num_attention_heads": 12, "vocab_size": 99000}
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": "llama", **shape}))
        added = run("catalog", "add", str(tmp_path / name), "--id", f"acme/{name}", home=tmp_path)
        assert added.exit_code == 0
    answer = run("check", "acme/big", "acme/small", "--json", home=tmp_path)
    said = {found["rule"]: found for found in answer.document["candidates"][0]["findings"]}
    assert {said[rule]["outcome"] for rule in ("lineage", "tuning", "changed-target")} == {"skip"}


@pytest.mark.parametrize("number", range(2))
def test_a_shape_does_not_tell_how_a_model_was_tuned(tmp_path: Path, number: int) -> None:
    """A base model and its tuned ones have one shape, also where one of them alone is catalogued."""
    from draftpick.catalog import load
    from draftpick.models import resolve

    catalog = load()
    shapes: dict[object, list[str]] = {}
    fields = ("num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads")
    for model_id in catalog.models:
        known = catalog.profile(model_id)
        if known.experts is None and known.architecture and known.variant and known.architecture.endswith("CausalLM"):
            shapes.setdefault(tuple(getattr(known, name) for name in fields), []).append(model_id)
    alone = [catalog.profile(ids[0]) for shape, ids in shapes.items() if len(ids) == 1 and None not in shape]  # type: ignore[operator]
    known = alone[number]
    config = {"architectures": [known.architecture], "model_type": known.model_type or "llama"}
    (tmp_path / "config.json").write_text(json.dumps({**config, **{name: getattr(known, name) for name in fields}}))
    found = resolve(str(tmp_path), catalog, offline=True)
    assert found.family == known.family
    assert found.variant is None
