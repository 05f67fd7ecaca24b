"""Fingerprints of tokenizers, and what two of them have in common.

A vocabulary is compared id by id, never by name, class, size or overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

RelationKind = Literal["identical", "control_tokens", "padding_only", "extension", "different", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What identifies a tokenizer, whatever file it came from.

    Digests are hex SHA-256 of canonical id → token maps; see `draftpick.models.vocabulary` for how they are made.
    """

    key: str
    """Catalogue key of the tokenizer, or `file:` and the first 16 digits of `full`."""
    family: str | None = None
    """Vocabulary family in the catalogue; the only thing known where no fingerprint was taken."""
    verified: bool = False
    """Read from that very repository or file. Otherwise equality is only probable."""
    full: str | None = None
    core: str | None = None
    markup: str | None = None
    probe: str | None = None
    pipeline: str | None = None
    """How text is cut; comparable only between files of one `format`."""
    format: str | None = None
    vocab_type: str | None = None
    """What llama.cpp calls it: SPM, BPE, WPM, UGM, RWKV."""
    named_ids: int | None = None
    """Ids that mean something: ordinary and control tokens, padding left out."""
    highest_id: int | None = None
    """The highest id that means something."""
    base_ids: int | None = None
    """Ids without added and control tokens."""
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    stop_ids: tuple[int, ...] = ()
    """All ids that end an answer (generation_config included)."""
    digits: str | None = None
    """single, groups-of-3 or free."""
    blocks: tuple[str, ...] = ()
    """Eight bytes (hex) for each 1,024 ids of the full map."""
    sketch: tuple[int, ...] = ()
    """The 1,024 smallest 32-bit hashes of token bytes: an estimate of overlap, never of identity."""
    tokens: Mapping[int, bytes] | None = field(default=None, repr=False, compare=False)
    """The whole canonical map id → kind + bytes; only where a file was read."""
    control: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)
    """Mark-up-like tokens, id → text."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One id that means two things."""

    id: int
    target: str | None
    """Text in the target's vocabulary; None: no such id."""
    draft: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """How a draft's tokenizer relates to its target's."""

    kind: RelationKind
    verified: bool
    """Both fingerprints were read from those very repositories or files."""
    reason: str
    """One sentence with the evidence."""
    first_difference: Difference | None = None
    first_difference_in: tuple[int, int] | None = None
    """Range of ids that holds the first difference where the very id is not known."""
    only_target: tuple[int, ...] = ()
    """Control ids named by the target alone."""
    only_draft: tuple[int, ...] = ()
    renamed: tuple[int, ...] = ()
    """Control ids with another text on each side."""
    same_cut: bool | None = None
    """Whether both cut text alike; None: not known."""
    same_ids: int | None = None
    """Number of ids with the same meaning."""
    covered: float | None = None
    """Share of the target's tokens on text whose string the draft's vocabulary has."""

    @property
    def same_language_ids(self) -> bool:
        """Whether every id of ordinary text means the same on both sides."""
        return self.kind in ("identical", "control_tokens", "padding_only")


def compare(target: Fingerprint, draft: Fingerprint, target_rows: int | None, draft_rows: int | None) -> Relation:
    """Compare two tokenizers; rows are the embedding rows of the two configs."""
    raise NotImplementedError
