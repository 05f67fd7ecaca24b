"""Models on the devices of this machine, through transformers: load, generate, and read given text.

Only safetensors are read, and no code of a model is run. Logits never leave this module whole: each piece is reduced
on the device at once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from draftpick.errors import DraftpickError, InvalidFile, NotResolvable
from draftpick.models.bounded import CONFIG_BYTES, read_json
from draftpick.probing.device import BrokenLogits, CannotProbe, device_failure, is_out_of_memory, torch_here

if TYPE_CHECKING:
    import torch

_LOGIT_BYTES = 64 << 20
"""Of one piece of logits in float32. Reducing holds six of them at once, eight where top-p sorts them."""
_WIDEST_PIECE = 512
"""Positions that one pass reads: bounds the activations of long prompts."""
_MASK_BYTES = 128 << 20
_TRIAL = 24
"""Tokens of the text on which a model shows that it reads in pieces what it reads whole."""
_TRIAL_ERROR = 0.1
"""Share of what its logits tell apart; half precision comes to 0.02, a memory that is lost to over 0.3."""

_LESS_MEMORY = "take a smaller dtype, or more devices (--tensor-parallel-size)"
_OTHER_ENGINE = "measure it in the engine that serves it (--target-url, --draft-url), or try another transformers"


class Sampling(NamedTuple):
    """How the target writes: temperature 0 is greedy; then top_k and top_p mean nothing."""

    temperature: float = 0.0
    top_k: int = 0
    """0: all tokens."""
    top_p: float = 1.0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def log_probs(self, logits: torch.Tensor) -> torch.Tensor:
        """ln p after the processors, of logits in float32; of the plain softmax where greedy. Shape is kept."""
        import torch

        if self.greedy:
            return logits.log_softmax(-1)
        logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p < 1:
            values, order = logits.sort(dim=-1, descending=True)
            probs = values.softmax(-1)
            before = probs.cumsum(-1).sub_(probs)
            out = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= self.top_p)
            logits = logits.masked_fill(out, -torch.inf)
        return logits.log_softmax(-1)


GREEDY = Sampling()


class Written(NamedTuple):
    """One answer that a model gave."""

    tokens: list[int]
    log_p: list[float]
    gap: list[float] | None
    """First choice's logit over the second's; None where sampled."""
    ended: str


class Reading(NamedTuple):
    """What a model makes of one given answer: an entry per token."""

    top: npt.NDArray[np.int64]
    top_prob: npt.NDArray[np.float64]
    log_prob: Mapping[float, npt.NDArray[np.float64]]
    """Temperature → ln of the emitted token's probability."""
    target_prob_of_top: npt.NDArray[np.float64] | None
    overlap: Mapping[float, npt.NDArray[np.float64]]
    shortfall: npt.NDArray[np.float64]
    """How far the emitted token's logit lies below the first choice's."""
    entropy: npt.NDArray[np.float64] | None = None
    """Of the target's distribution after its processors, in nats; None for drafts."""


# ---------------------------------------------------------------------- models


@dataclass(frozen=True)
class LocalModel:
    """A causal language model on a device."""

    id: str
    model: Any
    device: str
    """Where its input goes, in torch's spelling."""

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """Every id that ends an answer."""
        found: set[int] = set()
        for config in (self.model.generation_config, self.model.config.get_text_config()):
            ids = getattr(config, "eos_token_id", None)
            found.update([ids] if isinstance(ids, int) else ids or ())
        return tuple(sorted(found))

    @cached_property
    def vocab_size(self) -> int:
        """Ids that it can read: the rows of its embedding."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @cached_property
    def max_length(self) -> int | None:
        """Positions the model was made for; None where its config does not say."""
        config = self.model.config.get_text_config()
        found = getattr(config, "max_position_embeddings", None)
        return int(found) if found else None

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    @cached_property
    def takes(self) -> frozenset[str]:
        """Names of the arguments of a pass; transformers renamed the cache in 5.x."""
        return frozenset(inspect.signature(self.model.forward).parameters)


def load(
    folder: Path,
    *,
    id: str,
    device: str,
    dtype: str | None,
    devices: int = 1,
    attention: str | None = None,
    bf16: bool = True,
) -> LocalModel:
    """The model of a folder, ready to run; a checkpoint in bfloat16 in float16 where the device has no `bf16`.

    Raises CannotProbe, NotResolvable or InvalidFile with what to do.
    """
    torch = torch_here()
    from transformers import AutoModelForCausalLM

    _check_weights(folder, id)
    name = dtype or _usual_dtype(folder, device, bf16)
    wanted = getattr(torch, name) if name is not None else "auto"
    options: dict[str, Any] = {"dtype": wanted, "use_safetensors": True, "trust_remote_code": False}
    if attention is not None:
        options["attn_implementation"] = attention
    if devices > 1:
        options["device_map"] = "auto"
    try:
        model, told = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, **options
        )
        if devices == 1:
            model = model.to(device)
    except Exception as error:
        raise _cannot_load(error, id, folder) from None
    _check_complete(told, model, id, folder)
    model.eval()
    first = str(model.get_input_embeddings().weight.device)
    local = LocalModel(id, model, device if devices == 1 else first)
    check_reading(local)
    return local


def _usual_dtype(folder: Path, device: str, bf16: bool) -> str | None:
    """The dtype to load in where nobody named one; None for the checkpoint's own."""
    if device == "cpu":
        return "float32"
    # Converted when loading: afterwards the tables of rotary positions would be rounded too.
    return "float16" if not bf16 and stored_dtype(folder) in (None, "bfloat16") else None


def stored_dtype(folder: Path) -> str | None:
    """The dtype that a checkpoint's config states; None where it states none. Raises InvalidFile for a broken one."""
    config = read_json(folder / "config.json", CONFIG_BYTES)
    parts = [config, *(part for name in ("text_config", "llm_config") if isinstance(part := config.get(name), dict))]
    named = [part[key] for part in parts for key in ("dtype", "torch_dtype") if isinstance(part.get(key), str)]
    return named[0].removeprefix("torch.") if named else None


def missing_shards(folder: Path) -> list[str]:
    """Weight files that the index of a folder names and that are not there. Raises InvalidFile for a broken index."""
    from draftpick.models.safetensors import listed_shards

    return [name for name in listed_shards(folder) if not os.path.isfile(folder / name)]


def _check_weights(folder: Path, id: str) -> None:
    names = [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    if any(name.endswith(".safetensors") for name in names):
        if missing := missing_shards(folder):
            raise NotResolvable(
                f"{id}: {len(missing)} of its weight files are not there, such as {missing[0]:.100}",
                f"finish the download into {folder}",
            )
        return
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names):
        raise NotResolvable(
            f"{id}: its weights are pickled, and draftpick loads no pickle",
            "convert them to safetensors, or take a revision that has them",
        )
    raise NotResolvable(f"{id}: there are no weights in {folder}", "download its safetensors files first")


def _check_complete(told: Mapping[str, Any], model: Any, id: str, folder: Path) -> None:
    """transformers fills what the files lack with random numbers."""
    # Quantised models keep other tensors than their class names.
    missing = sorted(told.get("missing_keys", ()))
    if missing and getattr(model.config, "quantization_config", None) is None:
        raise InvalidFile(
            f"{id}: its files lack {len(missing)} tensors of the model, such as {missing[0]}",
            f"download the files in {folder} again, or another revision",
        )


def _cannot_load(error: Exception, id: str, folder: Path) -> DraftpickError:
    first = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    if is_out_of_memory(error):
        return CannotProbe(f"{id} does not fit in memory: {first}", _LESS_MEMORY)
    if (failure := device_failure(error)) is not None:
        return failure
    if "SafetensorError" in type(error).__name__ or "header" in first.lower():
        return InvalidFile(f"{id}: its weights are damaged: {first}", f"download the files in {folder} again")
    if "trust_remote_code" in str(error) or "custom code" in first:
        return CannotProbe(
            f"{id} needs code of its own, which draftpick does not run",
            "measure it in the engine that serves it (--target-url, --draft-url)",
        )
    if "is not a valid JSON file" in first:
        return InvalidFile(f"{id}: {first}", f"download the files in {folder} again")
    if isinstance(error, ImportError):
        return CannotProbe(f"{id} cannot be loaded: {first}", "install what it names, then run this again")
    return CannotProbe(f"{id} cannot be loaded by transformers: {first}", "try a newer transformers, or another model")


class Stream:
    """One model that reads rows of ids from left to right, piece by piece, and remembers them."""

    def __init__(self, local: LocalModel, mask: torch.Tensor) -> None:
        """`mask`: [row, position] over everything that will be read; 0 is padding, which stands on the left."""
        self.local = local
        self._mask = mask
        self._positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self._read = 0
        self._cache: Any = None
        self._cache_name = "cache" if "cache" in local.takes else "past_key_values"

    @property
    def rows(self) -> int:
        return int(self._mask.shape[0])

    def read(self, ids: torch.Tensor, keep: int) -> torch.Tensor:
        """Read [row, position] ids; logits of the last `keep` positions: [row, keep, token], float32.

        Raises BrokenLogits for NaN or infinity.
        """
        import torch

        local, start, end = self.local, self._read, self._read + ids.shape[1]
        given: dict[str, Any] = {self._cache_name: self._cache} if self._cache is not None else {}
        if "position_ids" in local.takes:
            given["position_ids"] = self._positions[:, start:end]
        if "logits_to_keep" in local.takes:
            given["logits_to_keep"] = keep
        output = local.model(input_ids=ids, attention_mask=self._mask[:, :end], use_cache=True, **given)
        self._cache = getattr(output, self._cache_name)
        self._read = end
        logits: torch.Tensor = output.logits[:, -keep:].float()
        # A mask in the model may forbid tokens; a first choice that is not finite is broken. Padding may read anything.
        if not bool((torch.isfinite(logits.amax(-1)) | (self._mask[:, end - keep : end] == 0)).all()):
            raise BrokenLogits(
                f"{local.id} gives NaN or infinite logits", "try another dtype (--dtype float32), or look at its files"
            )
        return logits

    def read_prompt(self, ids: torch.Tensor) -> torch.Tensor:
        """Read a whole prompt in pieces; logits of its last position: [row, 1, token]."""
        width = _piece_width(ids.shape[0], ids.shape[1])
        if "logits_to_keep" not in self.local.takes:  # it gives those of every position
            width = min(width, _logit_width(ids.shape[0], self.local.vocab_size))
        for start in range(0, ids.shape[1] - 1, width):
            stop = min(start + width, ids.shape[1] - 1)
            self.read(ids[:, start:stop], 1)
        return self.read(ids[:, -1:], 1)

    def forget(self, positions: int) -> bool:
        """Take the last positions back; False, and nothing is changed, where this model's memory cannot."""
        layers = getattr(self._cache, "layers", ())
        before = [dict(vars(layer)) for layer in layers]
        try:
            self._cache.crop(-positions)
        except (AttributeError, NotImplementedError, ValueError, RuntimeError):
            # One kind of layer may have been cut before another refused. What is cut are views: the old ones are whole.
            for layer, values in zip(layers, before, strict=True):
                vars(layer).update(values)
            return False
        self._read -= positions
        return True

    def keep_rows(self, rows: torch.Tensor) -> bool:
        """Go on with these rows alone; False where this model's memory cannot be cut so."""
        # A layer with a recurrent state either cannot be cut, or cuts its keys and not its state.
        layers = getattr(self._cache, "layers", None)
        if not layers or any(
            hasattr(layer, "recurrent_states") or not hasattr(layer, "batch_select_indices") for layer in layers
        ):
            return False
        self._cache.batch_select_indices(rows)
        self._mask, self._positions = self._mask[rows], self._positions[rows]
        return True


def _piece_width(rows: int, length: int) -> int:
    return max(min(_WIDEST_PIECE, _MASK_BYTES // max(4 * rows * length, 1)), 16)


def _logit_width(rows: int, vocabulary: int) -> int:
    return max(min(_WIDEST_PIECE, _LOGIT_BYTES // (4 * vocabulary * rows)), 1)


def check_reading(local: LocalModel) -> None:
    """Raise CannotProbe unless a model reads in pieces, beside padding, what it reads whole.

    Some with a recurrent state, or with code of their own for the cache, give other numbers then.
    """
    import torch

    ids = np.random.default_rng(0).integers(local.vocab_size // 10, max(local.vocab_size // 2, 2), _TRIAL)
    texts = [ids.tolist(), ids[_TRIAL // 3 :].tolist()]
    cuts = (0, _TRIAL // 2, _TRIAL // 2 + 1, _TRIAL - 4, _TRIAL)
    try:
        with torch.inference_mode():
            laid = _lay(texts, (), 0, local.device)
            stream = Stream(local, laid.mask)
            pieces = torch.cat([stream.read(laid.ids[:, a:b], b - a) for a, b in pairwise(cuts)], dim=1)
            error = max(_trial_error(local, text, pieces[row, -len(text) :]) for row, text in enumerate(texts))
    except DraftpickError:
        raise
    except Exception as failed:
        if is_out_of_memory(failed):
            raise CannotProbe(f"memory ran out when {local.id} first read {_TRIAL} tokens", _LESS_MEMORY) from None
        if (failure := device_failure(failed)) is not None:
            raise failure from None
        first = (str(failed).splitlines() or [type(failed).__name__])[0][:200]
        raise CannotProbe(f"{local.id} cannot be read piece by piece: {first}", _OTHER_ENGINE) from None
    if not error <= _TRIAL_ERROR:
        raise CannotProbe(
            f"{local.id} gives other logits when it reads a text in pieces or beside padding (off by {error:.0%})",
            _OTHER_ENGINE,
        )


def _trial_error(local: LocalModel, text: Sequence[int], pieces: torch.Tensor) -> float:
    """How far logits read in pieces lie from those read whole, over how far positions lie apart; at half of them."""
    import torch

    whole = local.model(input_ids=torch.tensor([list(text)], device=local.device), use_cache=False).logits[0].float()
    whole, pieces = (values.log_softmax(-1) for values in (whole, pieces.to(whole.device)))
    apart = (whole - whole.mean(0)).norm(dim=-1).median()
    off = (whole - pieces).norm(dim=-1)
    # Half precision may flip the experts of one position; a memory that is lost shows at all behind the first piece.
    return float(off[len(text) // 2 :].median() / apart.clamp(min=1e-6))


class _Laid(NamedTuple):
    """Rows of prompt and answer side by side: every answer begins in the same column."""

    ids: torch.Tensor
    mask: torch.Tensor
    width: int
    """Columns of the prompts; padding stands on their left."""


def _lay(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], room: int, device: str) -> _Laid:
    import torch

    width = max(len(prompt) for prompt in prompts)
    ids = np.zeros((len(prompts), width + room), np.int64)
    mask = np.ones((len(prompts), width + room), np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) : width] = prompt
        mask[row, : width - len(prompt)] = 0
        if answers:
            ids[row, width : width + len(answers[row])] = answers[row]
    return _Laid(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device), width)


# ---------------------------------------------------------------------- writing


def generate(
    local: LocalModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    max_new_tokens: int,
    draws: Sequence[npt.NDArray[np.float64]] = (),
) -> list[Written]:
    """Let a model answer prompts of ids side by side.

    `draws[row][step]` decides what is sampled, by inverting the distribution: so the text of a prompt does not depend
    on its neighbours. Not needed where greedy.
    """
    import torch

    with torch.inference_mode():
        return _generate(local, prompts, sampling, max_new_tokens, draws)


def _generate(
    local: LocalModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    max_new_tokens: int,
    draws: Sequence[npt.NDArray[np.float64]],
) -> list[Written]:
    import torch

    laid = _lay(prompts, (), max_new_tokens, local.device)
    stream = Stream(local, laid.mask)
    eos = frozenset(local.eos_ids)
    answers = [Written([], [], [] if sampling.greedy else None, "length") for _ in prompts]
    alive = list(range(len(prompts)))
    """Which answer each row of the stream is; -1: one that has ended."""
    logits = stream.read_prompt(laid.ids[:, : laid.width])[:, -1]
    for step in range(max_new_tokens):
        uniform = [float(draws[row][step]) if row >= 0 else 0.0 for row in alive] if not sampling.greedy else []
        tokens, facts = _choose(logits, sampling, uniform)
        chosen, numbers = tokens.tolist(), facts.tolist()
        for place, row in enumerate(alive):
            if row >= 0:
                _note(answers[row], chosen[place], numbers[place])
                if chosen[place] in eos:
                    answers[row] = answers[row]._replace(ended="stop")
                    alive[place] = -1
        going = [place for place, row in enumerate(alive) if row >= 0]
        if not going or step + 1 == max_new_tokens:
            break
        if 2 * len(going) <= len(alive):
            kept = torch.tensor(going, device=local.device)
            if stream.keep_rows(kept):
                alive, tokens = [alive[place] for place in going], tokens[kept]
        logits = stream.read(tokens[:, None], 1)[:, -1]
    return answers


def _note(answer: Written, token: int, numbers: Sequence[float]) -> None:
    answer.tokens.append(token)
    answer.log_p.append(numbers[0])
    if answer.gap is not None:
        answer.gap.append(numbers[1])


def _choose(logits: torch.Tensor, sampling: Sampling, uniform: Sequence[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row, and [row, (ln p, gap)]."""
    import torch

    log_p = sampling.log_probs(logits)
    if sampling.greedy:
        tokens = logits.argmax(-1)
        best = logits.topk(2, dim=-1).values
        gap = best[:, 0] - best[:, 1]
    else:
        tokens = _inverted(log_p.exp(), torch.tensor(uniform, dtype=log_p.dtype, device=log_p.device))
        gap = torch.zeros_like(log_p[:, 0])
    return tokens, torch.stack([log_p.gather(-1, tokens[:, None])[:, 0], gap], dim=-1)


def _inverted(probs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The token at which the cumulative probability passes each uniform number."""
    import torch

    cumulative = probs.cumsum(-1)
    wanted = (uniform[:, None] * cumulative[:, -1:]).contiguous()
    found = torch.searchsorted(cumulative, wanted, right=True)[:, 0]
    # A number near 1 may land behind the last token that has any probability.
    last = probs.shape[-1] - 1 - (probs.flip(-1) > 0).int().argmax(-1)
    return torch.minimum(found, last)


# ---------------------------------------------------------------------- reading


def read_answers(
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    drafts: Sequence[LocalModel],
    *,
    target: LocalModel | None = None,
    sampling: Sampling = GREEDY,
    temperatures: Sequence[float] = (1.0,),
) -> list[list[Reading]]:
    """What models make of answers that are there already, in one pass each: [model][row], the target first if given.

    With a target, drafts are compared with its distribution too (after the processors of `sampling`).
    `temperatures` are those of the drafts.
    """
    import torch

    models = [target, *drafts] if target is not None else list(drafts)
    with torch.inference_mode():
        pieces = list(_read_pieces(prompts, answers, models, target is not None, sampling, temperatures))
    lengths = [len(answer) for answer in answers]
    return [
        [_joined([piece[place] for piece in pieces], row, size) for row, size in enumerate(lengths)]
        for place in range(len(models))
    ]


def _read_pieces(
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    models: Sequence[LocalModel],
    with_target: bool,
    sampling: Sampling,
    temperatures: Sequence[float],
) -> Iterator[list[dict[str, Any]]]:
    """For each piece of the answers, what each model makes of it, as arrays [row, position]."""
    _check_ids([*prompts, *answers], models)
    longest = max(1, *(len(answer) for answer in answers))
    laid = [_lay(prompts, answers, longest, model.device) for model in models]
    streams = [Stream(model, there.mask) for model, there in zip(models, laid, strict=True)]
    vocabulary = max(model.vocab_size for model in models)
    width = _logit_width(len(prompts), vocabulary)
    starts = [0, *range(1, longest, width)]
    for start, end in zip(starts, [*starts[1:], longest], strict=True):
        target_probs = None
        found: list[dict[str, Any]] = []
        for place, (stream, there) in enumerate(zip(streams, laid, strict=True)):
            at = there.width + start
            if start == 0:
                logits = stream.read_prompt(there.ids[:, : there.width])
            else:
                logits = stream.read(there.ids[:, at - 1 : at - 1 + end - start], end - start)
            emitted = there.ids[:, at : at + end - start]
            if with_target and place == 0:
                log_p = sampling.log_probs(logits)
                found.append(_reduce(logits, emitted, {sampling.temperature: log_p}, (), None))
                target_probs = None if sampling.greedy else log_p.exp_()
                del log_p
            else:
                found.append(_reduce(logits, emitted, {}, temperatures, target_probs))
            del logits
        yield found


def _check_ids(texts: Sequence[Sequence[int]], models: Sequence[LocalModel]) -> None:
    """A device may answer an id without a row by crashing."""
    highest = max(max(text, default=0) for text in texts)
    for model in models:
        if highest >= model.vocab_size:
            raise CannotProbe(
                f"the text holds the id {highest}, and {model.id} has {model.vocab_size} rows of embeddings",
                "take a draft with the target's own vocabulary, or leave out the prompts with such tokens",
            )


def _reduce(
    logits: torch.Tensor,
    emitted: torch.Tensor,
    known: Mapping[float, torch.Tensor],
    temperatures: Sequence[float],
    target_probs: torch.Tensor | None,
) -> dict[str, Any]:
    """What is kept of logits [row, position, token], of ln p that is known already, and of ln q at temperatures."""
    best, top = logits.max(-1)
    here = logits.gather(-1, emitted[..., None])[..., 0]
    found: dict[str, Any] = {
        "top": top,
        "top_prob": (best - logits.logsumexp(-1)).exp(),
        "shortfall": best - here,
        "log_prob": {},
        "overlap": {},
        "target_prob_of_top": None,
        "entropy": None,
    }
    for temperature, log_p in known.items():
        found["log_prob"][temperature] = log_p.gather(-1, emitted[..., None])[..., 0]
        # What the processors rule out has p ln p = 0, not 0 times infinity.
        found["entropy"] = -(log_p.exp() * log_p.clamp(min=-1e4)).sum(-1)
    for temperature in temperatures:
        log_q = (logits / temperature).log_softmax(-1)
        found["log_prob"][temperature] = log_q.gather(-1, emitted[..., None])[..., 0]
        if target_probs is not None:
            common = min(log_q.shape[-1], target_probs.shape[-1])
            there = target_probs[..., :common].to(log_q.device)
            found["overlap"][temperature] = log_q[..., :common].exp().minimum(there).sum(-1)
        del log_q
    if target_probs is not None:
        rows = target_probs.shape[-1]
        first = top.to(target_probs.device)
        chance = target_probs.gather(-1, first.clamp(max=rows - 1)[..., None])[..., 0]
        found["target_prob_of_top"] = chance.masked_fill(first >= rows, 0.0)
    return {name: _on_cpu(value) for name, value in found.items()}


def _on_cpu(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _on_cpu(one) for key, one in value.items()}
    return value.cpu().numpy() if value is not None else None


def _joined(pieces: Sequence[Mapping[str, Any]], row: int, size: int) -> Reading:
    def whole(take: Callable[[Mapping[str, Any]], Any]) -> Any:
        return np.concatenate([take(piece)[row] for piece in pieces])[:size]

    def by_heat(name: str) -> dict[float, npt.NDArray[np.float64]]:
        return {heat: whole(partial(_nested, name, heat)) for heat in first[name]}

    first = pieces[0]
    known = first["target_prob_of_top"] is not None
    return Reading(
        top=whole(itemgetter("top")).astype(np.int64),
        top_prob=whole(itemgetter("top_prob")).astype(np.float64),
        log_prob=by_heat("log_prob"),
        target_prob_of_top=whole(itemgetter("target_prob_of_top")) if known else None,
        overlap=by_heat("overlap"),
        shortfall=whole(itemgetter("shortfall")).astype(np.float64),
        entropy=whole(itemgetter("entropy")) if first["entropy"] is not None else None,
    )


def _nested(name: str, heat: float, piece: Mapping[str, Any]) -> Any:
    return piece[name][heat]


def uniforms(seed: int, digest: str, temperature: float, count: int) -> npt.NDArray[np.float64]:
    """Uniform numbers of one prompt's own: the same whatever stands beside it, and on every device."""
    import hashlib

    key = hashlib.sha256(f"{seed}\0{digest}\0{temperature:g}".encode()).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(key[:16], "big"))).random(count)
