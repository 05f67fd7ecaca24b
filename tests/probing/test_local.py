"""Models on this machine: what is written and read side by side and in pieces is what one row alone gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import EOS, ROWS, ended_by, local_model, saved, texts, whole_logits

from draftpick import catalog
from draftpick.errors import DraftpickError, InvalidFile, NotResolvable, UsageError
from draftpick.probing import local as module
from draftpick.probing.device import Batches, BrokenLogits, CannotProbe, computes_in_bf16, find_device, is_out_of_memory
from draftpick.probing.local import (
    GREEDY,
    LocalModel,
    Sampling,
    Stream,
    Written,
    check_reading,
    generate,
    load,
    read_answers,
    uniforms,
)
from draftpick.probing.run import Renderer

LAW = settings(deadline=None, derandomize=True, max_examples=40)
DEMO = Path(__file__).parents[2] / "catalog" / "demo"
READABLE = (
    "llama", "qwen3", "gpt2", "opt", "bloom", "mistral", "gemma2", "gemma3", "qwen3-next", "bamba", "falcon-h1"
)  # fmt: skip
PROMPTS = texts(5, 23, 14, 1)
ANSWERS = texts(20, 33, 1, 17, seed=1)
SLOW = pytest.mark.skipif(os.environ.get("DRAFTPICK_SLOW") != "1", reason="takes 15 s; DRAFTPICK_SLOW=1 runs it")
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 2e-5}
SAMPLINGS = {
    "greedy": GREEDY,
    "T = 1": Sampling(1.0),
    "T = 0.7": Sampling(0.7),
    "top-k": Sampling(1.0, top_k=5),
    "top-p": Sampling(0.8, top_p=0.7),
    "both": Sampling(0.9, top_k=9, top_p=0.9),
}


@pytest.fixture(scope="module")
def models() -> dict[str, LocalModel]:
    return {name: local_model(name) for name in READABLE}


@pytest.fixture(scope="module")
def llama(models: dict[str, LocalModel]) -> LocalModel:
    return models["llama"]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOGIT_BYTES", 4 * ROWS * 5 * len(PROMPTS))
    monkeypatch.setattr(module, "_WIDEST_PIECE", 5)
    monkeypatch.setattr(module, "_MASK_BYTES", 1)


def draws(count: int, size: int, seed: int = 0) -> list[np.ndarray]:
    return [uniforms(seed, str(row), 1.0, size) for row in range(count)]


def alone(local: LocalModel, sampling: Sampling, size: int, random: list[np.ndarray]) -> list[Written]:
    return [generate(local, [prompt], sampling, size, [random[row]])[0] for row, prompt in enumerate(PROMPTS)]


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_an_answer_does_not_depend_on_its_neighbours(sampling: Sampling, llama: LocalModel) -> None:
    random = draws(len(PROMPTS), 24)
    one, many = alone(llama, sampling, 24, random), generate(llama, PROMPTS, sampling, 24, random)
    assert [answer.tokens for answer in one] == [answer.tokens for answer in many]
    for mine, theirs in zip(one, many, strict=True):
        np.testing.assert_allclose(mine.log_p, theirs.log_p, **CLOSE)
        assert mine.ended == theirs.ended
        assert (mine.gap is not None) == sampling.greedy


@pytest.mark.parametrize("name", READABLE)
def test_greedy_text_is_that_of_transformers(name: str, models: dict[str, LocalModel]) -> None:
    local = models[name]
    mine = [answer.tokens for answer in generate(local, PROMPTS, GREEDY, 20)]
    theirs = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        output = local.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, pad_token_id=0
        )
        theirs.append(output[0, len(prompt) :].tolist())
    assert mine == theirs


@pytest.mark.parametrize("name", READABLE)
def test_answers_end_at_eos_and_finished_rows_change_nothing(name: str) -> None:
    local = local_model(name)
    free = generate(ended_by(local, ROWS), PROMPTS, GREEDY, 24)
    ends = {answer.tokens[4] for answer in free[:2]}
    local = ended_by(local, *ends)
    expected = [cut_behind(answer.tokens, ends) for answer in free]
    assert min(map(len, expected)) <= 5, "one row ends early, so that the others go on without it"
    for found in (generate(local, PROMPTS, GREEDY, 24), alone(local, GREEDY, 24, draws(4, 24))):
        assert [answer.tokens for answer in found] == expected
        assert [answer.ended for answer in found] == ["stop" if tokens[-1] in ends else "length" for tokens in expected]
        assert all(len(answer.tokens) == len(answer.log_p) == len(answer.gap or ()) for answer in found)


def cut_behind(tokens: list[int], ends: set[int]) -> list[int]:
    place = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tokens[: place + 1]


@pytest.mark.parametrize(("name", "cut"), [("llama", True), ("mistral", True), ("bamba", False), ("falcon-h1", False)])
def test_only_a_memory_of_keys_and_values_is_cut(name: str, cut: bool, models: dict[str, LocalModel]) -> None:
    with torch.inference_mode():
        stream = Stream(models[name], torch.ones((3, 9), dtype=torch.int64))
        stream.read_prompt(torch.tensor(texts(6, 6, 6)))
        assert stream.keep_rows(torch.tensor([2])) is cut
        assert stream.rows == (1 if cut else 3)
        stream.read(torch.ones((stream.rows, 1), dtype=torch.int64), 1)


@pytest.mark.parametrize(
    ("name", "forgets"),
    [("llama", True), ("gpt2", True), ("gemma2", False), ("gemma3", False), ("qwen3-next", False), ("bamba", False)],
)
def test_positions_are_taken_back_wholly_or_not_at_all(name: str, forgets: bool, models: dict[str, LocalModel]) -> None:
    """A window of 8 positions that is full, or a recurrent state, cannot go back."""
    [text, other, end] = (torch.tensor([ids]) for ids in texts(20, 3, 4))
    expected = torch.cat([text, end] if forgets else [text, other, end], dim=1)
    with torch.inference_mode():
        stream = Stream(models[name], torch.ones((1, 40), dtype=torch.int64))
        stream.read_prompt(text)
        stream.read(other, 3)
        assert stream.forget(3) is forgets
        found = stream.read(end, 4)[0]
        whole = models[name].model(input_ids=expected, use_cache=False).logits[0, -4:]
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-3)


def test_every_id_that_ends_an_answer_is_known(llama: LocalModel) -> None:
    assert llama.eos_ids == (EOS,)
    many = ended_by(local_model("llama"), 7, 3)
    many.model.config.eos_token_id = 5
    assert many.eos_ids == (3, 5, 7)


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.7), Sampling(1.0, top_k=3), Sampling(1.0, top_p=0.6)])
def test_samples_follow_the_distribution(sampling: Sampling) -> None:
    local = local_model("llama", 8, sharpness=8)
    count, prompt = 4000, [3, 4, 5]
    wanted = sampling.log_probs(whole_logits(local, prompt, [0])[0]).exp().double().numpy()
    random = [np.array([value]) for value in np.random.default_rng(0).random(count)]
    found = generate(ended_by(local, 8), [prompt] * count, sampling, 1, random)
    seen = np.bincount([answer.tokens[0] for answer in found], minlength=8)
    possible = wanted > 0
    assert seen[~possible].sum() == 0
    square = ((seen - count * wanted)[possible] ** 2 / (count * wanted)[possible]).sum()
    assert square < 30, "the 0.9999 quantile of χ² with 7 degrees of freedom is 29.9"
    np.testing.assert_allclose(
        np.exp([answer.log_p[0] for answer in found]), wanted[[answer.tokens[0] for answer in found]], rtol=1e-5
    )


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=12),
    st.floats(0.1, 3),
    st.integers(0, 12),
    st.floats(0.05, 1),
)
@LAW
def test_processors_keep_the_most_probable_tokens(logits: list[float], heat: float, top_k: int, top_p: float) -> None:
    values = torch.tensor(logits)
    plain = (values / heat).softmax(-1)
    kept = Sampling(heat, top_k, top_p).log_probs(values).exp()
    assert float(kept.sum()) == pytest.approx(1, abs=1e-5)
    inside = kept > 0
    assert bool(inside[values.argmax()])
    if top_k:
        assert int(inside.sum()) <= max(top_k, int((values >= values.sort(descending=True).values[:top_k][-1]).sum()))
    assert not bool((~inside).any()) or float(plain[inside].min()) >= float(plain[~inside].max()) - 1e-6
    if not top_k:
        assert float(plain[inside].sum()) >= top_p - 1e-4


@pytest.mark.parametrize("value", [0.0, 0.5, 1 - 2**-53])
def test_only_possible_tokens_are_drawn_at_the_edges(value: float) -> None:
    probs = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]])
    token = int(module._inverted(probs, torch.tensor([value]))[0])
    assert token == (1 if value < 0.25 else 3)


def test_the_draws_of_a_prompt_are_its_own() -> None:
    keys = [(0, "a", 1.0), (1, "a", 1.0), (0, "b", 1.0), (0, "a", 0.5)]
    found = [tuple(uniforms(*key, 4)) for key in keys]
    assert len(set(found)) == 4
    assert tuple(uniforms(0, "a", 1.0, 8))[:4] == found[0], "a longer answer begins alike"


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.usefixtures("small_pieces")
def test_pieces_beside_padding_are_one_whole_pass(name: str, models: dict[str, LocalModel]) -> None:
    local = models[name]
    found = read_answers(PROMPTS, ANSWERS, [local], temperatures=(1.0, 0.5))[0]
    for prompt, answer, reading in zip(PROMPTS, ANSWERS, found, strict=True):
        logits = whole_logits(local, prompt, answer)
        emitted = torch.tensor(answer)[:, None]
        for heat in (1.0, 0.5):
            expected = (logits / heat).log_softmax(-1).gather(-1, emitted)[:, 0]
            np.testing.assert_allclose(reading.log_prob[heat], expected, **CLOSE)
        np.testing.assert_allclose(reading.top_prob, logits.softmax(-1).max(-1).values, **CLOSE)
        np.testing.assert_allclose(
            reading.shortfall, logits.max(-1).values - logits.gather(-1, emitted)[:, 0], rtol=0, atol=1e-4
        )
        best = logits.gather(-1, torch.tensor(reading.top)[:, None])[:, 0]
        np.testing.assert_allclose(best, logits.max(-1).values, rtol=0, atol=1e-4)


@pytest.mark.usefixtures("small_pieces")
def test_a_target_reads_its_own_greedy_text_as_it_wrote_it(models: dict[str, LocalModel]) -> None:
    for name in ("llama", "gpt2", "gemma3", "qwen3-next"):
        written = generate(models[name], PROMPTS, GREEDY, 20)
        own, _ = read_answers(PROMPTS, [answer.tokens for answer in written], [models["qwen3"]], target=models[name])
        for answer, reading in zip(written, own, strict=True):
            assert reading.shortfall.max() < 1e-4
            np.testing.assert_allclose(reading.log_prob[0.0], answer.log_p, **CLOSE)


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(64, 64), (72, 64), (64, 72)])
@pytest.mark.parametrize("sampling", list(SAMPLINGS.values())[1:], ids=list(SAMPLINGS)[1:])
def test_what_p_and_q_have_in_common(target_rows: int, draft_rows: int, sampling: Sampling) -> None:
    target, draft = local_model("llama", target_rows), local_model("qwen3", draft_rows, seed=2)
    own, theirs = read_answers(PROMPTS, ANSWERS, [draft], target=target, sampling=sampling, temperatures=(0.7,))
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        p, logits = sampling.log_probs(whole_logits(target, prompt, answer)).exp(), whole_logits(draft, prompt, answer)
        q = (logits / 0.7).softmax(-1)
        most = max(target_rows, draft_rows)
        p, q = (torch.nn.functional.pad(values, (0, most - values.shape[-1])) for values in (p, q))
        np.testing.assert_allclose(theirs[row].overlap[0.7], p.minimum(q).sum(-1), **CLOSE)
        first = p.gather(-1, logits.argmax(-1)[:, None])[:, 0]
        np.testing.assert_allclose(theirs[row].target_prob_of_top, first, **CLOSE)
        emitted = torch.tensor(answer)[:, None]
        np.testing.assert_allclose(
            np.exp(own[row].log_prob[sampling.temperature]), p.gather(-1, emitted)[:, 0], **CLOSE
        )


def test_expected_acceptance_is_what_the_emitted_tokens_show() -> None:
    """Σ min(p, q) and p(argmax q) are the means of min(1, q/p) and of [x = argmax q] over text sampled from p."""
    target, draft = local_model("llama", sharpness=6), local_model("llama", seed=1, sharpness=5)
    target, sampling, count = ended_by(target, ROWS), Sampling(1.0), 60
    prompts = texts(*range(3, 3 + count))
    answers = [one.tokens for one in generate(target, prompts, sampling, 40, draws(count, 40))]
    own, theirs = read_answers(prompts, answers, [draft], target=target, sampling=sampling)

    def column(take: Any) -> np.ndarray:
        return np.concatenate([take(row) for row in range(count)])

    ratio = column(lambda row: np.exp(np.minimum(theirs[row].log_prob[1.0] - own[row].log_prob[1.0], 0)))
    overlap = column(lambda row: theirs[row].overlap[1.0])
    matches = column(lambda row: theirs[row].top == np.array(answers[row]))
    chance = column(lambda row: theirs[row].target_prob_of_top)
    for seen, expected in ((ratio, overlap), (matches, chance)):
        error = (seen - expected).std() / np.sqrt(len(seen))
        assert abs((seen - expected).mean()) < 4 * error


@pytest.mark.parametrize(
    ("prompts", "answers"), [([[3]], [[]]), ([[3], [4, 5]], [[], [6]]), ([[3]], [[4]])], ids=["none", "one", "short"]
)
def test_short_answers_have_short_columns(prompts: Any, answers: Any, llama: LocalModel) -> None:
    found = read_answers(prompts, answers, [llama])[0]
    assert [len(reading.top) for reading in found] == [len(answer) for answer in answers]


@pytest.mark.parametrize(("prompt", "answer"), [([3, 64], [4]), ([3], [4, 70])], ids=["prompt", "answer"])
def test_a_draft_without_a_row_for_a_token_is_told(prompt: list[int], answer: list[int], llama: LocalModel) -> None:
    with pytest.raises(CannotProbe, match=r"id (64|70), and tiny/llama has 64 rows"):
        read_answers([prompt], [answer], [llama], target=local_model("qwen3", 72))


# ---------------------------------------------------------------------- models that cannot be read so


@pytest.mark.parametrize("name", READABLE)
def test_models_that_read_in_pieces_pass_the_check(name: str, models: dict[str, LocalModel]) -> None:
    check_reading(models[name])
    half = LocalModel(name, local_model(name).model.to(torch.bfloat16), "cpu")
    check_reading(half)


def test_a_model_that_cannot_be_read_in_pieces_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotProbe, match="acme/mamba cannot be read piece by piece") as error:
        load(saved(tmp_path, "mamba"), id="acme/mamba", device="cpu", dtype=None)
    assert error.value.exit_code == 3


CACHE = "cache" if "cache" in local_model("llama").takes else "past_key_values"


class Forgetful(torch.nn.Module):
    """A network that loses its cache, or takes padding for text."""

    def __init__(self, network: Any, losing: str) -> None:
        super().__init__()
        self.network, self.losing = network, losing
        self.config, self.generation_config, self.dtype = network.config, network.generation_config, network.dtype

    def get_input_embeddings(self) -> Any:
        return self.network.get_input_embeddings()

    def forward(self, input_ids: Any, attention_mask: Any = None, cache: Any = None, use_cache: bool = True) -> Any:
        if self.losing == "padding":
            attention_mask = None
        if self.losing == "cache" and cache is not None:
            cache, attention_mask = None, None
        given = {CACHE: cache} if cache is not None else {}
        output = self.network(input_ids, attention_mask=attention_mask, use_cache=use_cache, **given)
        return SimpleNamespace(logits=output.logits, cache=getattr(output, CACHE))


@pytest.mark.parametrize("losing", ["padding", "cache"])
def test_a_model_that_would_give_wrong_numbers_is_told(losing: str) -> None:
    local = LocalModel("acme/odd", Forgetful(local_model("llama").model, losing), "cpu")
    with pytest.raises(CannotProbe, match=r"acme/odd gives other logits .* \(off by \d+%\)"):
        check_reading(local)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", ["target", "draft"])
def test_logits_that_are_no_numbers_name_the_model(value: float, which: str) -> None:
    good, bad = local_model("llama"), LocalModel("acme/broken", local_model("qwen3").model, "cpu")
    with torch.no_grad():
        bad.model.get_output_embeddings().weight.fill_(value)
    target, draft = (bad, good) if which == "target" else (good, bad)
    with pytest.raises(BrokenLogits, match="acme/broken gives NaN or infinite logits") as error:
        read_answers(PROMPTS, ANSWERS, [draft], target=target)
    assert error.value.exit_code == 3
    with pytest.raises(BrokenLogits, match="acme/broken"):
        generate(bad, PROMPTS, GREEDY, 3)


# ---------------------------------------------------------------------- memory

OUT = {
    "npu": RuntimeError("NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)"),
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"),
    "cpu": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    "python": MemoryError("std::bad_alloc"),
}


@pytest.mark.parametrize("error", OUT.values(), ids=OUT)
def test_where_memory_runs_out_fewer_rows_give_the_same(
    error: Exception, llama: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(rows: Any) -> list[Written]:
        return generate(llama, rows, GREEDY, 8)

    expected = work(PROMPTS)
    sizes: list[int] = []
    read = Stream.read

    def starved(stream: Stream, ids: torch.Tensor, keep: int) -> torch.Tensor:
        sizes.append(stream.rows)
        if stream.rows > 1:
            raise error
        return read(stream, ids, keep)

    monkeypatch.setattr(Stream, "read", starved)
    batches = Batches(4)
    assert [answer.tokens for answer in batches.run(work, PROMPTS)] == [answer.tokens for answer in expected]
    assert batches.size == 1
    assert sizes[:3] == [4, 2, 1], "halved, and not tried again"
    assert sizes.count(4) == 1


@pytest.mark.parametrize("error", OUT.values(), ids=OUT)
def test_where_one_row_is_too_much_it_is_told(error: Exception) -> None:
    def work(rows: Any) -> list[Any]:
        raise error

    with pytest.raises(CannotProbe, match="memory ran out with one sequence at a time") as caught:
        Batches(8).run(work, [1, 2, 3])
    assert "--max-new-tokens" in caught.value.hint
    assert is_out_of_memory(error)


def test_other_errors_pass() -> None:
    def work(rows: Any) -> list[Any]:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape"):
        Batches(8).run(work, [1, 2])


MEMORY = """
import resource, sys, numpy as np, torch, transformers
from draftpick.probing.local import LocalModel, Sampling, read_answers, generate, uniforms
torch.set_num_threads(2)
config = transformers.LlamaConfig(vocab_size=150_000, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=4096, eos_token_id=None, bos_token_id=None)
made = [transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval() for _ in range(2)]
target, draft = (LocalModel(str(place), model, "cpu") for place, model in enumerate(made))
weights = sum(p.numel() * p.element_size() for model in made for p in model.parameters())
prompts = np.random.default_rng(0).integers(0, 150_000, (4, 1500)).tolist()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sampling = Sampling(0.8, top_p=0.95)
generate(target, prompts, sampling, 3, [uniforms(0, str(row), 0.8, 3) for row in range(4)])
answers = np.random.default_rng(1).integers(0, 150_000, (4, 64)).tolist()
read_answers(prompts, answers, [draft], target=target, sampling=sampling, temperatures=(0.8, 0.64))
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
memory = 2 * 2 * 2 * 4 * 1564 * 64 * 4
print(used, weights + memory)
"""


@SLOW
def test_logits_of_a_large_vocabulary_are_never_held_whole() -> None:
    """4 prompts of 1,500 tokens and 150,000 ids are 3.6 GB of logits in each model."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    used, loaded = map(int, done.stdout.split())
    assert used < 0.3 * loaded + 1e9


# ---------------------------------------------------------------------- loading


def loaded(folder: Path, **options: Any) -> LocalModel:
    return load(folder, **{"id": "acme/model", "device": "cpu", "dtype": None, **options})


@pytest.mark.parametrize("side", ["target", "draft"])
def test_the_models_of_the_demo_load_and_write(side: str) -> None:
    local = loaded(DEMO / side)
    assert local.dtype == "float32"
    written = generate(local, [Renderer(DEMO / side, None).tokenizer("Once").input_ids], GREEDY, 4)
    assert 1 <= len(written[0].tokens) <= 4


def test_a_dtype_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    assert loaded(saved(tmp_path), dtype="bfloat16").dtype == "bfloat16"


def nothing(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def lfs_pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def incomplete(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def changed(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def unknown_type(folder: Path) -> None:
    changed(folder, model_type="nobody-knows")


def other_shape(folder: Path) -> None:
    changed(folder, hidden_size=64)


def encoder(folder: Path) -> None:
    changed(folder, model_type="vit")


def missing_shard(folder: Path) -> None:
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors").rename(folder / names["a"])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def broken_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": [1]}')


@pytest.mark.parametrize(
    ("spoil", "kind", "code", "said", "hint"),
    [
        (nothing, NotResolvable, 3, "there are no weights in", "download"),
        (pickled, NotResolvable, 3, "its weights are pickled", "safetensors"),
        (truncated, InvalidFile, 2, "its weights are damaged", "again"),
        (lfs_pointer, InvalidFile, 2, "its weights are damaged", "again"),
        (empty, InvalidFile, 2, "its weights are damaged", "again"),
        (incomplete, InvalidFile, 2, "lack 1 tensors of the model, such as model.layers.1.mlp.up_proj", "again"),
        (without_config, CannotProbe, 3, "cannot be loaded by transformers", "transformers"),
        (broken_config, InvalidFile, 2, "not a valid JSON", "again"),
        (unknown_type, CannotProbe, 3, "nobody-knows", "transformers"),
        (encoder, CannotProbe, 3, "cannot be loaded by transformers", "transformers"),
        (other_shape, DraftpickError, 3, "acme/model", "transformers"),
        (missing_shard, NotResolvable, 3, "1 of its weight files are not there, such as model-00002", "download"),
        (broken_index, InvalidFile, 2, "has no weight_map", "again"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_what_cannot_be_loaded_is_told(
    spoil: Any, kind: type[DraftpickError], code: int, said: str, hint: str, tmp_path: Path
) -> None:
    spoil(saved(tmp_path))
    with pytest.raises(kind) as caught:
        loaded(tmp_path)
    error = caught.value
    assert error.exit_code == code
    assert said in error.message
    assert "acme/model" in error.message or str(tmp_path) in error.message
    assert hint in error.hint
    assert "\n" not in error.message


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotResolvable, match="there are no weights"):
        loaded(tmp_path / "gone")


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotProbe, match="its tokenizer cannot be loaded"):
        Renderer(saved(tmp_path), None)


@pytest.mark.parametrize("model_type", ["llama", "acme"], ids=["known type", "own type"])
def test_code_of_a_model_is_not_run(model_type: str, tmp_path: Path) -> None:
    marker = tmp_path / "was-run"
    code = f"open({str(marker)!r}, 'w')\nclass Model: pass\nclass Config: pass\n"
    (saved(tmp_path) / "modeling_acme.py").write_text(code)
    changed(
        tmp_path,
        model_type=model_type,
        auto_map={"AutoConfig": "modeling_acme.Config", "AutoModelForCausalLM": "modeling_acme.Model"},
    )
    if model_type == "llama":
        loaded(tmp_path)
    else:
        with pytest.raises(CannotProbe, match="acme/model needs code of its own, which draftpick does not run"):
            loaded(tmp_path)
    assert not marker.exists()


# ---------------------------------------------------------------------- devices


def machine(kind: str | None, count: int = 1) -> Any:
    here = SimpleNamespace(type=kind)
    return SimpleNamespace(
        accelerator=SimpleNamespace(
            is_available=lambda: kind is not None,
            current_accelerator=lambda: here,
            current_device_index=lambda: 0,
            device_count=lambda: count,
        )
    )


@pytest.mark.parametrize(
    ("asked", "kind", "found"),
    [
        (None, None, "cpu"),
        (None, "npu", "npu:0"),
        ("auto", "cuda", "cuda:0"),
        (" NPU:1 ", "npu", "npu:1"),
        ("npu", "npu", "npu:0"),
        ("cpu", "npu", "cpu"),
        ("cpu:0", None, "cpu"),
        ("npu:2", "npu", CannotProbe),
        ("npu", None, CannotProbe),
        ("cuda", "npu", CannotProbe),
        ("tpu", None, UsageError),
        ("910b3", "npu", UsageError),
        ("npu:x", "npu", UsageError),
        ("npu:-1", "npu", UsageError),
        ("", None, UsageError),
    ],
)
def test_a_device_is_found_or_told(asked: str | None, kind: str | None, found: Any) -> None:
    if isinstance(found, str):
        assert find_device(asked, machine(kind, 2)) == found
    else:
        with pytest.raises(found):
            find_device(asked, machine(kind, 2))


# ---------------------------------------------------------------------- dtypes of a device


def accelerator(name: str | None, gib: float | None, bf16: bool = True) -> Any:
    """A torch with one device of that name and memory, as torch_npu attaches it."""
    memory = SimpleNamespace(total_memory=int(gib * 2**30)) if gib is not None else SimpleNamespace()
    npu = SimpleNamespace(
        get_device_properties=lambda index: memory,
        get_device_name=lambda index: name,
        is_bf16_supported=lambda: bf16,
    )
    return SimpleNamespace(npu=npu)


@pytest.mark.parametrize(
    ("torch_here", "device", "reason"),
    [
        (accelerator("Ascend310P3", 43.2), "npu:0", "Atlas 300I Duo 96 GB, one chip (48 GB) has no bfloat16"),
        (accelerator("Ascend310P3", 21.0, bf16=False), "npu", "Atlas 300I Duo 48 GB, one chip (24 GB) has no bfloat16"),
        (accelerator("Ascend910A", 30.0), "npu:1", "Ascend 910A 32 GB has no bfloat16"),
        (accelerator("Ascend910B3", 61.0, bf16=False), "npu:0", None),
        (accelerator("Ascend310B4", 10.5), "npu:0", None),
        (accelerator("Ascend310B4", 10.5, bf16=False), "npu:0", "torch says that npu:0 has no bfloat16"),
        (accelerator("Ascend990X", 10.5, bf16=False), "npu:0", "torch says that npu:0 has no bfloat16"),
        (accelerator(None, None), "npu:0", None),
        (SimpleNamespace(), "mps", None),
        (SimpleNamespace(), "cpu", None),
    ],
)
def test_a_device_without_bfloat16_takes_float16_and_refuses_it(
    torch_here: Any, device: str, reason: str | None
) -> None:
    said: list[str] = []
    assert computes_in_bf16(device, None, torch_here, catalog.load(), said.append) == (reason is None)
    assert said == ([f"{reason}: a checkpoint in it is loaded in float16"] if reason else [])
    assert computes_in_bf16(device, "float16", torch_here, catalog.load(), said.append) == (reason is None)
    if reason is None:
        assert computes_in_bf16(device, "bfloat16", torch_here, catalog.load(), said.append)
    else:
        with pytest.raises(CannotProbe) as refused:
            computes_in_bf16(device, "bfloat16", torch_here, catalog.load(), said.append)
        assert refused.value.message == reason
        assert "--dtype float16" in refused.value.hint


@pytest.mark.parametrize(
    ("config", "device", "bf16", "dtype"),
    [
        ({"dtype": "bfloat16"}, "npu:0", False, "float16"),
        ({"torch_dtype": "bfloat16"}, "npu:0", False, "float16"),
        ({"torch_dtype": "torch.bfloat16"}, "npu:0", False, "float16"),
        ({"text_config": {"dtype": "bfloat16"}}, "npu:0", False, "float16"),
        ({}, "npu:0", False, "float16"),
        ({"dtype": "float32"}, "npu:0", False, None),
        ({"dtype": "float16"}, "npu:0", False, None),
        ({"dtype": "bfloat16"}, "npu:0", True, None),
        ({"dtype": "bfloat16"}, "cpu", True, "float32"),
    ],
)
def test_the_dtype_that_a_checkpoint_is_loaded_in(
    tmp_path: Path, config: dict[str, Any], device: str, bf16: bool, dtype: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert module._usual_dtype(tmp_path, device, bf16) == dtype
