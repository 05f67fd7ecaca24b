"""Headers of safetensors files: names, types and shapes of tensors, never their data. Pickled files are not opened."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from draftpick.errors import InvalidFile
from draftpick.models.bounded import open_regular, parse_json, read_json, unreadable

_HEADER_BYTES = 40_000_000
"""The format allows 100 MB; 40 are 400,000 tensors, and text outside the Latin alphabets takes four times its bytes."""
_INDEX_BYTES = 40_000_000
_MAX_SHARDS = 2_000
_MAX_TENSORS = 400_000
"""Of all files together; 60 layers of 384 experts with their scales come to some 140,000."""
_WIDTHS = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
_PLAIN = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_PACKED = frozenset({"I32", "U32", "U8", "I64", "F4", "F4_E2M1"})
"""Types that hold several weights in one element, or none."""

_NO_PARAMETER = re.compile(
    r"(^|[._])(inv_freq|g_idx|qzeros|scales?|zeros?|scale_inv|absmax|quant_map|quant_state|masked_bias|zero_point"
    r"|k_scale|v_scale|position_ids)\b|weight_scale|input_scale|(^|\.)attn(\.attention)?\.bias$|attention\.bias$"
)
_VISION = re.compile(
    r"(^|\.)(visual|vision\w*|image\w*|multi_modal_projector|mm_projector|audio\w*|speech\w*|vpm|resampler|embed_vision"
    r"|embed_audio)\."
)
_MTP = re.compile(r"(^|\.)(mtp\w*|nextn\w*)\.(?:layers\.)?(\d{1,6})?")
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|tok_embeddings|wte|word_embeddings|embed_in)\.weight$")
_HEAD = re.compile(r"(^|\.)(lm_head|output|embed_out|output_layer)\.weight$")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")
_DRAFT_MARKS = ("d2t", "t2d", "hidden_norm", "midlayer", "fc", "medusa_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor as its file's header describes it."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of elements; packed types hold several weights in one."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What the headers of a checkpoint say."""

    tensors: Mapping[str, Tensor] = field(repr=False)
    complete: bool
    """Every file that the index names was there; otherwise the sums are of a part."""
    weight_bytes: int | None
    """Bytes of all weights, by the headers or else by the index."""
    listed: frozenset[str] = frozenset()
    """Names of all tensors, where an index lists them, whatever files are there."""

    @property
    def names(self) -> Iterable[str]:
        """Names of the tensors, as many as are known."""
        return self.listed or self.tensors

    @property
    def all_named(self) -> bool:
        """Whether a name that is missing here is missing in the checkpoint."""
        return bool(self.listed) or self.complete

    @property
    def elements_by_dtype(self) -> dict[str, int]:
        """Numbers of elements by the type names of the format (BF16, F8_E4M3, I32 …)."""
        found: dict[str, int] = {}
        for tensor in self.tensors.values():
            found[tensor.dtype] = found.get(tensor.dtype, 0) + tensor.elements
        return found

    @property
    def packed(self) -> bool:
        """Whether weights are packed, so that elements are no parameters."""
        by_type = self.elements_by_dtype
        return any(by_type.get(name, 0) > 100_000 for name in _PACKED)

    def parameters(self, tied: bool | None, layers: int | None = None) -> tuple[int, int] | None:
        """(all parameters, those of the text decoder without MTP modules); None where they cannot be counted.

        Scales, masks and rotary buffers are no parameters; of tied matrices one copy counts.
        """
        if not self.complete or self.packed or not self.tensors:
            return None
        has_embedding = any(_EMBEDDING.search(name) for name in self.tensors)
        total = text = 0
        for name, tensor in self.tensors.items():
            if _NO_PARAMETER.search(name) or (tied and has_embedding and _HEAD.search(name)):
                continue
            total += tensor.elements
            if not _VISION.search(name) and not self.is_mtp(name, layers):
                text += tensor.elements
        return total, text

    @property
    def embedding_rows(self) -> int | None:
        """Rows of the input embedding; None where no single two-dimensional matrix is there."""
        rows = {
            tensor.shape[0]
            for name, tensor in self.tensors.items()
            if _EMBEDDING.search(name) and len(tensor.shape) == 2 and not _VISION.search(name) and not _MTP.search(name)
        }
        return rows.pop() if len(rows) == 1 else None

    @property
    def has_head(self) -> bool:
        """Whether an lm_head of its own is stored."""
        return any(_HEAD.search(name) and not _VISION.search(name) for name in self.tensors)

    @property
    def plain_dtype(self) -> str | None:
        """The type of most unquantised elements: bfloat16, float16 or float32."""
        by_type = {name: count for name, count in self.elements_by_dtype.items() if name in _PLAIN}
        return _PLAIN[max(by_type, key=lambda name: by_type[name])] if by_type else None

    def is_mtp(self, name: str, layers: int | None) -> bool:
        """Whether a tensor belongs to a multi-token-prediction module: named so, or in a layer behind the last one."""
        if _MTP.search(name):
            return True
        layer = _LAYER.search(name)
        return bool(layers and layer and int(layer[1]) >= layers and not _VISION.search(name))

    def mtp_layers(self, layers: int | None) -> int:
        """Number of MTP layers stored here."""
        found: set[int] = set()
        for name in self.names:
            named = _MTP.search(name)
            layer = _LAYER.search(name)
            if named:
                found.add(int(named[3] or 0))
            elif layers and layer and int(layer[1]) >= layers and not _VISION.search(name):
                found.add(int(layer[1]) - layers)
        return len(found)

    @property
    def draft_marks(self) -> list[str]:
        """Names that only draft heads have: a projection of the target's states, a map of a reduced vocabulary."""
        parts = {part for name in self.names if not _MTP.search(name) for part in name.split(".")}
        return [mark for mark in _DRAFT_MARKS if mark in parts]


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of one file. Raises InvalidFile for a header that is corrupt, hostile or does not fit the file."""
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if start.startswith(b"version "):
                raise InvalidFile(
                    f"{path} is a Git LFS pointer, not the file itself", "run `git lfs pull` in that folder"
                )
            if len(start) < 8 or length < 2 or length > min(size - 8, _HEADER_BYTES):
                raise _invalid(path, f"its header claims {length:,} of {size:,} bytes")
            header = file.read(length)
        except OSError as error:
            raise unreadable(path, error) from error
    if len(header) != length:
        raise _invalid(path, "it ends inside its header (truncated?)")
    described = parse_json(header, f"the header of {path}")
    return {
        name: _tensor(path, name, entry, size - 8 - length)
        for name, entry in described.items()
        if name != "__metadata__"
    }


def _invalid(path: Path, reason: str) -> InvalidFile:
    return InvalidFile(f"{path} is not a readable safetensors file: {reason}", "download the file again")


def _tensor(path: Path, name: str, entry: Any, room: int) -> Tensor:
    shown = name[:80]
    if not isinstance(entry, dict):
        raise _invalid(path, f"tensor {shown!r} has no description")
    dtype, shape, offsets = entry.get("dtype"), _sizes(entry.get("shape")), _sizes(entry.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise _invalid(path, f"tensor {shown!r} is not described as the format wants it")
    if offsets[1] > room:
        raise _invalid(path, f"it ends before tensor {shown!r} does (truncated?)")
    nbytes = offsets[1] - offsets[0]
    expected = math.prod(shape) * _WIDTHS[dtype] if dtype in _WIDTHS else nbytes
    if nbytes < 0 or nbytes != expected:
        raise _invalid(path, f"tensor {shown!r} claims {nbytes:,} bytes where its shape needs {expected:,}")
    return Tensor(dtype=dtype, shape=shape, nbytes=nbytes)


def _sizes(value: Any) -> tuple[int, ...] | None:
    """A list of up to 16 sane sizes, or None."""
    if not isinstance(value, list) or len(value) > 16:
        return None
    sane = all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 48 for item in value)
    return tuple(value) if sane else None


def read_folder(folder: Path) -> Weights | None:
    """The headers of the safetensors files in a model folder; None where there are none.

    Raises InvalidFile for a corrupt header and for an index that names files outside the folder.
    """
    index, listed_files = _index(folder)
    names = listed_files if index is not None else _unindexed(folder)
    present = [name for name in names if (folder / name).exists()]
    total = _total_size(index) if index is not None else None
    listed = frozenset(index["weight_map"]) if index is not None else frozenset()
    if not present:
        return Weights(tensors={}, complete=False, weight_bytes=total, listed=listed) if listed or total else None
    tensors: dict[str, Tensor] = {}
    for name in present:
        tensors.update(read_header(folder / name))
        if len(tensors) > _MAX_TENSORS:
            raise InvalidFile(f"{folder}: its files describe more than {_MAX_TENSORS:,} tensors", "download it again")
    complete = len(present) == len(names)
    measured = sum(tensor.nbytes for tensor in tensors.values())
    return Weights(tensors=tensors, complete=complete, weight_bytes=measured if complete else total, listed=listed)


def listed_shards(folder: Path) -> list[str]:
    """The files that the index of a folder names; none without an index. Raises InvalidFile as `read_folder`."""
    return _index(folder)[1]


def _index(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    path = folder / "model.safetensors.index.json"
    if not path.exists():
        return None, []
    index = read_json(path, _INDEX_BYTES)
    return index, _shards(index, path)


def _shards(index: Mapping[str, Any], path: Path) -> list[str]:
    listed = index.get("weight_map")
    if not isinstance(listed, dict):
        raise InvalidFile(f"{path} has no weight_map", "download the file again")
    names = sorted({name if isinstance(name, str) else "" for name in listed.values()})
    for name in names:
        _refuse_escape(name, path)
    if len(names) > _MAX_SHARDS:
        raise InvalidFile(f"{path} names {len(names):,} files", "download the file again")
    return names


def _refuse_escape(name: str, path: Path) -> None:
    parts = PurePosixPath(name).parts
    if (
        not name
        or len(name) > 255
        or name.startswith("/")
        or ".." in parts
        or "\\" in name
        or "\0" in name
        or ":" in name
    ):
        raise InvalidFile(
            f"{path} names {name[:80]!r}, which is no file of that folder",
            "do not trust this folder; download it again",
        )


def _unindexed(folder: Path) -> list[str]:
    """All shards at the top of the folder; the consolidated copy that some repositories also hold is left out."""
    try:
        names = sorted(entry for entry in os.listdir(folder) if entry.endswith(".safetensors"))
    except OSError as error:
        raise unreadable(folder, error) from error
    kept = [name for name in names if not name.startswith(("consolidated", "adapter_"))]
    return (kept or [name for name in names if not name.startswith("adapter_")])[:_MAX_SHARDS]


def _total_size(index: Mapping[str, Any]) -> int | None:
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and math.isfinite(size):
        size = int(size)
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 50 else None


def from_hub(files: Iterable[Mapping[str, tuple[str, tuple[int, ...]]]]) -> Weights:
    """The same from tensors (type, shape) that the hub's metadata describes, one mapping for each file."""
    tensors = {
        name: Tensor(dtype=dtype, shape=shape, nbytes=math.prod(shape) * _WIDTHS.get(dtype, 1))
        for tensors_of_file in files
        for name, (dtype, shape) in tensors_of_file.items()
    }
    return Weights(tensors=tensors, complete=True, weight_bytes=sum(tensor.nbytes for tensor in tensors.values()))
