"""Spoils files as strangers do: what a parser lets through, so that the reader behind it is reached.

Each function takes a seed and a `random.Random`, and gives another file of that kind. They know formats, not readers.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

Mutation = Callable[[bytes, random.Random, Sequence[str]], bytes]
"""Seed, chance, words of the format → the spoilt file."""

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3.5,
    2**31,
    2**63,
    -(2**63),
    2**64,
    10**299,
    1e308,
    1e-320,
    0.1,
    float("nan"),
    float("inf"),
    "",
    " ",
    "a",
    "0",
    "-1",
    "1e400",
    "NaN",
    "\0",
    "\n",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    "=1+1",
    "<b>",
    "../../x",
    "/etc/passwd",
    "a/b",
    "\N{ARABIC-INDIC DIGIT THREE}",
    "\N{SUPERSCRIPT TWO}",
    "x" * 5000,
    [],
    {},
    [[]],
    [None],
    [0],
    [-1],
    [1, 1],
    [""],
    {"": ""},
    {"a": 1},
    {"0": 0},
)
BYTES = (
    b"",
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b'"',
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"=",
    b"#",
    b"-",
    b"\xef\xbb\xbf",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    b"\x80",
    b"9" * 400,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
)
LITERALS = (
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "1" + "0" * 290,
    "nan",
    "inf",
    "-inf",
    "1e308",
    "true",
    '""',
    '"a"',
    "[]",
    "{}",
    '"\\u001b[31m"',
    '"\\u202e"',
    "2026-10-31",
    "9999-12-31",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "[[]]",
    "{a = 1}",
    "[1]",
    '[""]',
    '"' + "x" * 3000 + '"',
    '"../../x"',
    "0x10",
    "1.5",
)


def raw(seed: bytes, chance: random.Random, words: Sequence[str]) -> bytes:
    """Bytes are turned, cut, doubled, and replaced by numbers at the ends of their range or by words of the format."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
        at = chance.randrange(len(data) + 1)
        much = min(len(data) - at, chance.choice((1, 1, 2, 4, 8, 40)))
        what = chance.randrange(7)
        if what == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            data[at : at + much] = chance.choice(BYTES)
        elif what == 2:
            del data[at : at + much]
        elif what == 3:
            data[at:at] = data[at : at + much] * chance.choice((1, 2, 50))
        elif what == 4:
            number = chance.choice(
                (0, 1, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, -1)
            )
            width = chance.choice("BHIQ")
            packed = struct.pack("<" + width, number % (1 << 8 * struct.calcsize("<" + width)))
            data[at : at + len(packed)] = packed
        elif what == 5 and words:
            data[at : at + chance.choice((0, much))] = chance.choice(words).encode("utf-8", "surrogatepass")
        else:
            del data[at:]
    return bytes(data)


def json_tree(seed: bytes, chance: random.Random, words: Sequence[str]) -> bytes:
    """Values anywhere in a JSON value are replaced, dropped, doubled, renamed, nested, or swapped for one another."""
    try:
        value = json.loads(seed)
    except (ValueError, RecursionError):
        return raw(seed, chance, words)
    if chance.randrange(12) == 0:
        return raw(seed, chance, words)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _spoilt(value, chance, words)
    return json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def _spoilt(root: Any, chance: random.Random, words: Sequence[str]) -> Any:
    places = _places(root)
    if not places or chance.randrange(40) == 0:
        return _other(root, root, chance, words)
    holder, key = chance.choice(places)
    what = chance.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == 1:
        holder[chance.choice(words) if words and chance.random() < 0.7 else str(chance.choice(VALUES))] = holder[key]
    elif what == 2:
        other, there = chance.choice(places)
        holder[key] = json.loads(json.dumps(other[there])) if there in _keys(other) else None
    else:
        holder[key] = _other(holder[key], root, chance, words)
    return root


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _other(value: Any, root: Any, chance: random.Random, words: Sequence[str]) -> Any:
    what = chance.randrange(8)
    if what == 0:
        return [value]
    if what == 1:
        return {chance.choice(words) if words else "a": value}
    if what == 2 and isinstance(value, (int, float)):
        return -value if chance.random() < 0.5 else value + chance.choice((1, -1, 10**9))
    if what == 3 and isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        return value[:at] + str(chance.choice(VALUES)) + value[at:]
    if what == 4 and isinstance(value, list) and value:
        return value * chance.choice((2, 30)) if len(value) < 300 else value[:1]
    if what == 5 and words:
        return chance.choice(words)
    return deepcopy(chance.choice(VALUES))


def _places(root: Any) -> list[tuple[Any, Any]]:
    """Every value of a tree, by what holds it; of long lists the first entries."""
    found: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting and len(found) < 3000:
        holder = waiting.pop()
        for key in list(_keys(holder))[:60] if isinstance(holder, (dict, list)) else ():
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def json_lines(seed: bytes, chance: random.Random, words: Sequence[str]) -> bytes:
    """One line of JSON is spoilt, dropped, doubled or moved; sometimes its frame."""
    lines = seed.split(b"\n")
    at = chance.randrange(len(lines))
    what = chance.randrange(10)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, chance.choice(lines))
    elif what == 2:
        lines[at] = raw(lines[at], chance, words)
    else:
        head, brace, rest = lines[at].partition(b"{")
        lines[at] = head + json_tree(brace + rest, chance, words) if brace else raw(lines[at], chance, words)
    return b"\n".join(lines)


def toml_lines(seed: bytes, chance: random.Random, words: Sequence[str]) -> bytes:
    """Keys get other values and names, lines and tables are dropped, doubled and moved."""
    lines = seed.decode("utf-8", "replace").split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        what = chance.randrange(8)
        if what == 0 and lines:
            del lines[at]
        elif what == 1 and lines:
            lines.insert(chance.randrange(len(lines) + 1), line)
        elif what == 2 and words:
            lines.insert(at, f"{chance.choice(words)} = {chance.choice(LITERALS)}")
        elif what == 3 and words:
            lines.insert(at, chance.choice(("[{}]", "[[{}]]")).format(chance.choice(words)))
        elif what == 4:
            spoilt = raw(line.encode("utf-8", "surrogatepass"), chance, words)
            lines[at : at + 1] = spoilt.decode("utf-8", "replace").split("\n")
        elif "=" in line:
            key, _, value = line.partition("=")
            whole = re.sub(r'-?\d[\d.]*|"[^"]*"', lambda _: chance.choice(LITERALS), value, count=1)
            lines[at] = f"{key}= {chance.choice((chance.choice(LITERALS), whole.strip()))}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def with_header(seed: bytes, chance: random.Random, words: Sequence[str]) -> bytes:
    """A JSON header behind its length in eight bytes, as of safetensors: spoilt, with a length that fits it mostly."""
    length = int.from_bytes(seed[:8], "little")
    if chance.randrange(4) == 0 or length > len(seed):
        return raw(seed, chance, words)
    header = json_tree(seed[8 : 8 + length], chance, words)
    return struct.pack("<Q", max(len(header) + chance.choice((0,) * 12 + (1, -1)), 0)) + header + seed[8 + length :]
