"""GGUF files: the header alone, without a tensor's data. A truncated file whose header is whole is enough.

Format: magic, version, two counts, key-value pairs, tensor infos; see the GGUF specification in the ggml repository.
"""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from draftpick.errors import InvalidFile
from draftpick.models.bounded import open_regular, unreadable

# A header of a published model has some tens of keys, up to about 800,000 strings (Gemma 3: 262,144 tokens and
# 514,906 merges) and some thousand tensors. The limits keep a hostile header below two seconds and 500 MB.
_MAX_KEYS = 10_000
_MAX_STRINGS = 2_000_000
_MAX_STRING_BYTES = 64_000_000
_MAX_NUMBERS = 16_000_000
_MAX_ARRAYS = 100_000
_MAX_TENSORS = 200_000
_MAX_DIMENSIONS = 8
_MAX_DEPTH = 4

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# ggml type → name, weights in a block, bytes of a block (ggml-common.h).
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

# general.file_type → name (llama.h, llama_ftype).
FILE_TYPES: dict[int, str] = {
    0: "f32",
    1: "f16",
    2: "q4_0",
    3: "q4_1",
    7: "q8_0",
    8: "q5_0",
    9: "q5_1",
    10: "q2_k",
    11: "q3_k_s",
    12: "q3_k_m",
    13: "q3_k_l",
    14: "q4_k_s",
    15: "q4_k_m",
    16: "q5_k_s",
    17: "q5_k_m",
    18: "q6_k",
    19: "iq2_xxs",
    20: "iq2_xs",
    21: "q2_k_s",
    22: "iq3_xs",
    23: "iq3_xxs",
    24: "iq1_s",
    25: "iq4_nl",
    26: "iq3_s",
    27: "iq3_m",
    28: "iq2_s",
    29: "iq2_m",
    30: "iq4_xs",
    31: "iq1_m",
    32: "bf16",
    36: "tq1_0",
    37: "tq2_0",
    38: "mxfp4",
    39: "nvfp4",
    40: "q1_0",
}


class Tensor(NamedTuple):
    """One tensor info. Dimensions stand in ggml's order: the fastest first, so an embedding is (width, rows)."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    """Bytes from the start of the tensor data."""

    @property
    def elements(self) -> int:
        """Number of weights."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def nbytes(self) -> int | None:
        """Bytes of the data; None for a type this version does not know."""
        if self.type not in TYPES:
            return None
        _, block, size = TYPES[self.type]
        return -(-self.elements // block) * size


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What stands before the tensor data. Numeric arrays are `array.array`, arrays of strings are lists."""

    version: int
    metadata: Mapping[str, Any] = field(repr=False)
    tensor_count: int
    tensors: tuple[Tensor, ...] = field(repr=False)
    header_bytes: int
    file_bytes: int


def read_header(path: str | Path) -> GgufHeader:
    """Read the header of a GGUF file, version 2 or 3, either byte order.

    Strings that are no UTF-8 are decoded with surrogate escapes. Raises InvalidFile for anything else than a whole
    header of sane size.
    """
    path = Path(path)
    with open_regular(path) as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(data, path).header()
        except (OSError, ValueError) as error:  # mmap refuses an empty file with ValueError
            if file.seek(0, 2) == 0:
                raise _invalid(path, "it is empty") from error
            raise unreadable(path, error) from error


def _invalid(path: Path, reason: str) -> InvalidFile:
    return InvalidFile(f"{path} is not a readable GGUF file: {reason}", "download the file again, or name another one")


class _Reader:
    """A cursor over the mapped file that never believes a count before it has compared it with what is left."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data = data
        self.size = len(data)
        self.path = path
        self.at = 0
        self.order = "<"
        self.strings = self.string_bytes = self.numbers = self.arrays = 0

    def header(self) -> GgufHeader:
        version = self._version()
        tensor_count, key_count = self._unpack("QQ")
        # The shortest key-value pair has 13 bytes, the shortest tensor info 24.
        self._check(key_count, 13, _MAX_KEYS, "keys")
        self._check(tensor_count, 24, _MAX_TENSORS, "tensors")
        metadata: dict[str, Any] = {}
        for _ in range(key_count):
            key = self._string()
            (kind,) = self._unpack("I")
            metadata.setdefault(key, self._value(kind, 0))
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        return GgufHeader(
            version=version,
            metadata=metadata,
            tensor_count=tensor_count,
            tensors=tensors,
            header_bytes=self.at,
            file_bytes=self.size,
        )

    def _version(self) -> int:
        magic = self._take(4)
        if magic != b"GGUF":
            reason = "it is a Git LFS pointer (run `git lfs pull`)" if magic == b"vers" else "it has another first line"
            raise self._error(reason)
        (version,) = self._unpack("I")
        if version in (0x02000000, 0x03000000):
            self.order = ">"
            version >>= 24
        if version not in (2, 3):
            raise self._error(f"version {version}; versions 2 and 3 are read")
        return int(version)

    def _error(self, reason: str) -> InvalidFile:
        return _invalid(self.path, reason)

    def _check(self, count: int, each: int, limit: int, what: str) -> None:
        if count > limit:
            raise self._error(f"it claims {count:,} {what}")
        if count * each > self.size - self.at:
            raise self._error(
                f"it claims {count:,} {what}, but ends after {self.size:,} bytes (truncated in its header?)"
            )

    def _take(self, length: int) -> bytes:
        end = self.at + length
        if end > self.size:
            raise self._error(f"it ends inside its header, after {self.size:,} bytes (truncated?)")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        layout = self.order + layout
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        self.string_bytes += length
        if self.string_bytes > _MAX_STRING_BYTES:
            raise self._error(f"a text in its header claims {length:,} bytes")
        return self._take(length).decode("utf-8", "surrogateescape")

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _SCALARS:
            return self._unpack(_SCALARS[kind])[0]
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise self._error(f"a value of the unknown type {kind}")
        if depth >= _MAX_DEPTH:
            raise self._error("lists nested too deeply")
        item, count = self._unpack("IQ")
        if item == _STRING:
            return self._strings(count)
        if item == _ARRAY:
            self.arrays += count
            self._check(self.arrays, 0, _MAX_ARRAYS, "lists")
            self._check(count, 12, _MAX_ARRAYS, "lists")
            return [self._value(_ARRAY, depth + 1) for _ in range(count)]
        return self._numbers(item, count)

    def _numbers(self, kind: int, count: int) -> Sequence[Any]:
        code = _SCALARS.get(kind)
        if code is None:
            raise self._error(f"a list of the unknown type {kind}")
        width = struct.calcsize("<" + code)
        self.numbers += count
        self._check(self.numbers, 0, _MAX_NUMBERS, "numbers")
        self._check(count, width, _MAX_NUMBERS, "numbers")
        raw = self._take(count * width)
        values = array({"?": "B"}.get(code, code), b"") if code != "I" else array(_UINT32, b"")
        values.frombytes(raw)
        if (self.order == "<") != (sys.byteorder == "little"):
            values.byteswap()
        return values

    def _strings(self, count: int) -> list[str]:
        """The hot loop: 150,000 tokens and 150,000 merges are usual."""
        self.strings += count
        self._check(self.strings, 0, _MAX_STRINGS, "texts")
        self._check(count, 8, _MAX_STRINGS, "texts")
        data, at, size = self.data, self.at, self.size
        unpack = struct.Struct(self.order + "Q").unpack_from
        budget = _MAX_STRING_BYTES - self.string_bytes
        start = at
        texts: list[str] = []
        append = texts.append
        for _ in range(count):
            if at + 8 > size:
                self._take(size)
            (length,) = unpack(data, at)
            at += 8
            end = at + length
            if end > size or end - start > budget + 8 * count:
                raise self._error(f"a text in its header claims {length:,} bytes")
            append(data[at:end].decode("utf-8", "surrogateescape"))
            at = end
        self.string_bytes += at - start - 8 * count
        self.at = at
        return texts

    def _tensor(self) -> Tensor:
        name = self._string()
        (dimensions,) = self._unpack("I")
        if dimensions > _MAX_DIMENSIONS:
            raise self._error(f"tensor {name[:80]!r} claims {dimensions:,} dimensions")
        shape = self._unpack(f"{dimensions}Q")
        kind, offset = self._unpack("IQ")
        tensor = Tensor(name, shape, kind, offset)
        if tensor.elements > 1 << 44:
            raise self._error(f"tensor {name[:80]!r} claims {tensor.elements:,} elements")
        return tensor


_UINT32 = "I" if array("I").itemsize == 4 else "L"
