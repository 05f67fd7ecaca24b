"""Where weights lie, and what tells them from others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftpick.errors import DraftpickError, NotResolvable
from draftpick.models.profile import ModelProfile
from draftpick.probing.device import CannotProbe
from draftpick.probing.weights import at_hand, folder_of, identity

SAMPLES, SAMPLE = 64, 4096
SMALL, LARGE = 1000, SAMPLES * SAMPLE * 3
COMMIT = "a" * 40


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "modelscope"))
    return tmp_path / "hub"


def filled(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config__json": b"{}", "model__safetensors": b"weights", **files}.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def in_folder(folder: Path) -> ModelProfile:
    return ModelProfile("acme/model", "folder", str(folder))


def on_hub(name: str = "acme/model", revision: str | None = None) -> ModelProfile:
    return ModelProfile(name, "catalogue", None, revision)


def cached(hub: Path, commit: str = COMMIT, branch: str | None = "main", weights: bool = True) -> Path:
    """The layout of huggingface_hub: blobs, and snapshots that link to them."""
    repository = hub / "models--acme--model"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / commit
    blobs.mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    for name in ("config.json", *(["model.safetensors"] if weights else [])):
        (blobs / f"{name}-{commit}").write_bytes(b"{}")
        (snapshot / name).symlink_to(blobs / f"{name}-{commit}")
    if branch is not None:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / branch).write_text(commit)
    return snapshot


# ---------------------------------------------------------------------- where they lie


def test_weights_of_a_folder_are_at_hand(tmp_path: Path) -> None:
    folder = filled(tmp_path / "m")
    assert at_hand(in_folder(folder)) == folder
    assert folder_of(in_folder(folder), offline=True, consent=never) == folder


def never(question: str) -> bool:
    raise AssertionError(f"asked {question!r}")


@pytest.mark.parametrize(
    ("revision", "commit"),
    [(None, COMMIT), ("main", COMMIT), (COMMIT, COMMIT), ("v1", "b" * 40), ("b" * 40, "b" * 40), ("c" * 40, None)],
)
def test_weights_in_the_cache_are_at_hand(revision: str | None, commit: str | None, own_caches: Path) -> None:
    folders = {COMMIT: cached(own_caches), "b" * 40: cached(own_caches, "b" * 40, "v1")}
    assert at_hand(on_hub(revision=revision)) == (folders[commit] if commit is not None else None)


@pytest.mark.parametrize("name", ["acme/model", "ACME/Model"])
def test_a_cache_is_searched_in_any_case(name: str, own_caches: Path) -> None:
    folder = cached(own_caches)
    assert at_hand(on_hub(name)) == folder


def test_modelscope_is_a_cache_too(tmp_path: Path) -> None:
    folder = filled(tmp_path / "modelscope" / "hub" / "models" / "acme" / "model")
    assert at_hand(on_hub()) == folder


def config_alone(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def half_a_download(folder: Path) -> None:
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def broken_link(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "gone")


@pytest.mark.parametrize("spoil", [config_alone, pickles, half_a_download, broken_link, shutil.rmtree])
def test_what_is_no_whole_set_of_weights_is_not_at_hand(spoil: Callable[[Path], None], own_caches: Path) -> None:
    folder = cached(own_caches)
    spoil(folder)
    assert at_hand(on_hub()) is None
    with pytest.raises(NotResolvable, match="the weights of acme/model are not on this machine") as caught:
        folder_of(on_hub(), offline=True, consent=never)
    assert caught.value.exit_code == 3


def test_a_folder_without_weights_is_left_to_the_loader(tmp_path: Path) -> None:
    folder = filled(tmp_path / "m")
    config_alone(folder)
    assert folder_of(in_folder(folder), offline=False, consent=never) == folder


@pytest.mark.parametrize(
    ("profile", "kind"),
    [
        (ModelProfile("model", "gguf", "/models/model.gguf"), CannotProbe),
        (ModelProfile("gpt2", "catalogue"), CannotProbe),
        (ModelProfile("../acme/model", "catalogue"), CannotProbe),
        (ModelProfile("acme/model", "hub"), NotResolvable),
    ],
    ids=["gguf", "no organisation", "path", "hub"],
)
def test_what_cannot_be_found_offline_is_told(profile: ModelProfile, kind: type[DraftpickError]) -> None:
    with pytest.raises(kind) as caught:
        folder_of(profile, offline=True, consent=never)
    assert caught.value.exit_code == 3
    assert profile.id in caught.value.message
    assert caught.value.hint


def test_a_hub_that_does_not_answer_is_told() -> None:
    with pytest.raises(NotResolvable, match="the weights of acme/model cannot be fetched") as caught:
        folder_of(on_hub(), offline=False, consent=never)
    assert "connection" in caught.value.hint


# ---------------------------------------------------------------------- what tells them apart


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("large"), model__safetensors=bytes(LARGE))


def flipped(folder: Path, name: str, place: int) -> str:
    """The digest of the weights with one byte changed; the file is then put back."""
    path = folder / name
    with open(path, "r+b") as file:
        file.seek(place)
        before = file.read(1)
        try:
            file.seek(place)
            file.write(bytes([before[0] ^ 1]))
            file.flush()
            return str(identity(in_folder(folder), folder)["weights"])
        finally:
            file.seek(place)
            file.write(before)


SAMPLED = st.builds(
    lambda sample, offset: (LARGE - SAMPLE) * sample // (SAMPLES - 1) + offset,
    st.integers(0, SAMPLES - 1),
    st.integers(0, SAMPLE - 1),
)


@given(st.just(0) | st.just(LARGE - 1) | SAMPLED)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_one_byte_at_a_sampled_place_is_seen(large: Path, place: int) -> None:
    before = identity(in_folder(large), large)["weights"]
    assert flipped(large, "model.safetensors", place) != before
    assert identity(in_folder(large), large)["weights"] == before


@given(st.integers(0, SMALL - 1))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_a_small_file_is_read_whole(tmp_path_factory: pytest.TempPathFactory, place: int) -> None:
    folder = filled(tmp_path_factory.mktemp("small"), model__safetensors=bytes(SMALL))
    before = identity(in_folder(folder), folder)["weights"]
    assert flipped(folder, "model.safetensors", place) != before


@pytest.mark.parametrize("size", [SMALL, LARGE, SAMPLES * SAMPLE, SAMPLES * SAMPLE + 1])
@pytest.mark.parametrize("more", [-1, 1])
def test_a_file_of_another_size_is_seen(size: int, more: int, tmp_path: Path) -> None:
    one = filled(tmp_path / "one", model__safetensors=bytes(size))
    other = filled(tmp_path / "other", model__safetensors=bytes(size + more))
    assert identity(in_folder(one), one)["weights"] != identity(in_folder(one), other)["weights"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.safetensors", "weights"),
        ("model-2.safetensors", "weights"),
        ("config.json", "config"),
        ("generation_config.json", "config"),
        ("tokenizer.json", "tokenizer"),
        ("tokenizer_config.json", "tokenizer"),
        ("tokenizer.model", "tokenizer"),
        ("spiece.model", "tokenizer"),
        ("qwen.tiktoken", "tokenizer"),
        ("vocab.json", "tokenizer"),
        ("merges.txt", "tokenizer"),
        ("added_tokens.json", "tokenizer"),
        ("special_tokens_map.json", "tokenizer"),
        ("chat_template.jinja", "tokenizer"),
        ("README.md", None),
    ],
)
def test_each_file_belongs_to_one_part(name: str, part: str | None, tmp_path: Path) -> None:
    folder = filled(tmp_path / "m")
    before = identity(in_folder(folder), folder)
    (folder / name).write_bytes(b"other")
    after = identity(in_folder(folder), folder)
    assert [key for key in before if before[key] != after[key]] == ([part] if part is not None else [])


def test_a_copy_elsewhere_is_the_same(tmp_path: Path) -> None:
    folder = filled(tmp_path / "m")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert identity(in_folder(folder), folder) == identity(in_folder(copy), copy)


def test_files_that_change_places_are_others(tmp_path: Path) -> None:
    one = filled(tmp_path / "one", model__safetensors=b"a", more__safetensors=b"b")
    other = filled(tmp_path / "other", model__safetensors=b"b", more__safetensors=b"a")
    assert identity(in_folder(one), one)["weights"] != identity(in_folder(one), other)["weights"]
