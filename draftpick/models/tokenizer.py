"""Fingerprints of tokenizers, and what two of them have in common.

A vocabulary is compared id by id, never by name, class, size or overlap.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from draftpick.models.vocabulary import Vocabulary

RelationKind = Literal["identical", "control_tokens", "padding_only", "extension", "different", "unknown"]


class Fingerprint(NamedTuple):
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
    tokens: Mapping[int, bytes] | None = None
    """The whole canonical map id → kind + bytes; only where a file was read."""
    control: Mapping[int, str] = MappingProxyType({})
    """Mark-up-like tokens, id → printable text. Catalogue records leave numbered place holders out."""
    notes: tuple[str, ...] = ()
    normalizer: str | None = None
    """What happens to text before it is cut: none, NFC, NFKC, spaces …; None: not known."""
    control_known: bool = True
    """False where the file does not name its control tokens: `full` and `markup` then say nothing about them."""
    template_ids: tuple[int, ...] = ()
    """Control tokens the chat template writes."""
    head: tuple[str, ...] = ()
    """Printable texts of the ids 0 … 1023 (empty: no such id)."""
    same_text_as: tuple[Mapping[str, str], ...] = ()
    """Tokenizers said to have the same text ids: their catalogue `key`, `what` differs, and the `confidence`."""


class Difference(NamedTuple):
    """One id that means two things."""

    id: int
    target: str | None
    """Text in the target's vocabulary; None: no such id."""
    draft: str | None


class Relation(NamedTuple):
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
    renamed_in_use: tuple[int, ...] = ()
    """Those of `renamed` that begin or end an answer or stand in a chat template on either side."""

    @property
    def same_language_ids(self) -> bool:
        """Whether every id of ordinary text means the same on both sides."""
        return self.kind in ("identical", "control_tokens", "padding_only")


BLOCK = 1024
_SKETCH = 1024


# ---------------------------------------------------------------- taking a fingerprint
def fingerprint(
    vocabulary: "Vocabulary",
    *,
    key: str | None = None,
    family: str | None = None,
    verified: bool = True,
    probe: str | None = None,
    with_sketch: bool = False,
) -> Fingerprint:
    """The fingerprint of a vocabulary that was read. `probe` is made by `draftpick.models.cutting`.

    Takes about 0.3 s for 150,000 tokens, 0.4 s more with the sketch.
    """
    from draftpick.models.vocabulary import text_of

    tokens = vocabulary.tokens
    if not tokens:
        return Fingerprint(key=key or "file:none", family=family, format=vocabulary.format, notes=vocabulary.notes)
    control = vocabulary.control
    full = digest(tokens, b"draftpick-full-v1")
    return Fingerprint(
        key=key or f"file:{full[:16]}",
        family=family,
        verified=verified,
        full=full,
        core=digest({i: token for i, token in tokens.items() if i not in control}, b"draftpick-core-v1"),
        markup=digest(control, b"draftpick-mark-v1"),
        probe=probe,
        pipeline=_pipeline_digest(vocabulary.pipeline),
        format=vocabulary.format,
        vocab_type=vocabulary.vocab_type,
        named_ids=len(tokens),
        highest_id=max(tokens),
        base_ids=vocabulary.base_ids,
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        pad=vocabulary.pad,
        add_bos=vocabulary.add_bos,
        add_eos=vocabulary.add_eos,
        stop_ids=vocabulary.stop_ids,
        digits=vocabulary.digits,
        blocks=blocks(tokens),
        sketch=sketch(tokens) if with_sketch else (),
        tokens=tokens,
        control={i: text_of(token) or "" for i, token in control.items()},
        notes=vocabulary.notes,
        normalizer=vocabulary.normalizer,
        control_known=vocabulary.control_known,
        template_ids=vocabulary.template_ids,
        head=tuple(text_of(tokens.get(i)) or "" for i in range(min(BLOCK, max(tokens) + 1))),
    )


def digest(tokens: Mapping[int, bytes], tag: bytes) -> str:
    """Hex SHA-256 over a map id → canonical token."""
    import hashlib
    import struct

    pack = struct.Struct("<II").pack
    parts = [tag]
    for i in sorted(tokens):
        parts += (pack(i, len(tokens[i])), tokens[i])
    return hashlib.sha256(b"".join(parts)).hexdigest()


def blocks(tokens: Mapping[int, bytes]) -> tuple[str, ...]:
    """Eight bytes (hex) for each 1,024 ids: they show where two vocabularies part without having either."""
    import hashlib
    import struct

    pack = struct.Struct("<II").pack
    found = []
    for start in range(0, max(tokens, default=-1) + 1, BLOCK):
        parts: list[bytes] = []
        for i in range(start, start + BLOCK):
            token = tokens.get(i, b"")
            parts += (pack(i, len(token)), token)
        found.append(hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest())
    return tuple(found)


def sketch(tokens: Mapping[int, bytes]) -> tuple[int, ...]:
    """The 1,024 smallest 32-bit hashes of the tokens, whatever their ids: for `overlap`, never for identity."""
    import hashlib

    hashes = {hashlib.blake2b(token, digest_size=8).digest()[7:3:-1] for token in tokens.values()}
    return tuple(int.from_bytes(value, "big") for value in sorted(hashes)[:_SKETCH])


def overlap(a: Fingerprint, b: Fingerprint) -> float | None:
    """Estimated share of strings two vocabularies have in common (Jaccard; mean error 0.008, worst seen 0.04)."""
    if not a.sketch or not b.sketch:
        return None
    left, right = set(a.sketch), set(b.sketch)
    union = sorted(left | right)[:_SKETCH]
    return sum(1 for value in union if value in left and value in right) / len(union)


def _pipeline_digest(pipeline: Mapping[str, Any] | None) -> str | None:
    if pipeline is None:
        return None
    import hashlib
    import json

    content = json.dumps(pipeline, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(b"draftpick-pipe-v1" + content).hexdigest()


LARGEST_PADDING = 4096
"""Rows. The largest padding seen is 2,385 (DeepSeek V2: 100,015 ids in 102,400 rows); more is another vocabulary."""


# ---------------------------------------------------------------- comparing two
def compare(
    target: Fingerprint,
    draft: Fingerprint,
    target_rows: int | None,
    draft_rows: int | None,
    known: Mapping[str, str] | None = None,
) -> Relation:
    """Say how a draft's tokenizer relates to its target's.

    Rows are the embedding rows of the two configs (None: not known). `known` is the row of
    catalog/tokenizers/relations.csv found with `relation_key`; it adds what two records alone cannot show.
    Name, class, size and overlap decide nothing: identity comes from fingerprints, and where one of the two has none,
    from what the catalogue says (then `verified` is False).
    """
    facts = _Facts(target, draft, target_rows, draft_rows, _oriented(known, target, draft))
    if target.full and target.full == draft.full:
        return facts.same()
    if target.core and draft.core:
        return facts.control_tokens() if target.core == draft.core else facts.other_ids()
    return facts.by_name()


def rows_apart(target_rows: int | None, draft_rows: int | None) -> Relation | None:
    """What embedding rows alone show: too far apart for padding, two vocabularies differ; None: they show nothing."""
    if target_rows is None or draft_rows is None or abs(target_rows - draft_rows) <= LARGEST_PADDING:
        return None
    reason = f"{target_rows:,} rows against {draft_rows:,}: too far apart for padding; no ids were compared"
    return Relation(kind="different", verified=False, reason=reason)


def relation_key(target: Fingerprint, draft: Fingerprint) -> tuple[str, str] | None:
    """The columns `a_full` and `b_full` of the row of relations.csv that holds for two fingerprints, smaller first."""
    if not target.full or not draft.full or target.full == draft.full:
        return None
    a, b = target.full[:16], draft.full[:16]
    return (a, b) if a < b else (b, a)


def same_cut(target: Fingerprint, draft: Fingerprint) -> bool | None:
    """Whether two tokenizers cut text alike; None: not known."""
    if target.probe and draft.probe:
        if target.probe == draft.probe:
            return True
        # llama.cpp applies no NFC, so a GGUF file cuts otherwise than the model it was converted from (and the same
        # model under another engine): the two probes then tell of engines, not of tokenizers.
        formats = {target.format, draft.format}
        composed = {target.normalizer, draft.normalizer} & {"NFC", "NFKC"}
        return None if "gguf" in formats and len(formats) == 2 and composed else False
    if target.pipeline and target.format == draft.format and target.pipeline == draft.pipeline:
        return True
    return None


class _Known(NamedTuple):
    """A row of relations.csv, seen from the target."""

    kind: str
    first: Difference | None
    same_ids: int | None
    covered: float | None
    only_target: str
    only_draft: str
    renamed: str


def _oriented(row: Mapping[str, str] | None, target: Fingerprint, draft: Fingerprint) -> _Known | None:
    if row is None or relation_key(target, draft) != (row["a_full"], row["b_full"]):
        return None
    mine, other = ("a", "b") if str(target.full).startswith(row["a_full"]) else ("b", "a")
    first = None
    if row["first_id"]:
        texts = [row[f"text_{side}"] or None for side in (mine, other)]
        first = Difference(id=int(row["first_id"]), target=texts[0], draft=texts[1])
    covered = row[f"covered_{mine}{other}"]
    return _Known(
        row["kind"],
        first,
        int(row["same_ids"]) if row["same_ids"] else None,
        float(covered) if covered else None,
        row[f"only_{mine}"],
        row[f"only_{other}"],
        row["renamed"],
    )


def ranges(ids: Iterable[int], limit: int = 0) -> str:
    """Ids in short: `151665-151668 151670`; after `limit` ranges an ellipsis."""
    found: list[list[int]] = []
    for i in sorted(ids):
        if found and found[-1][1] == i - 1:
            found[-1][1] = i
        else:
            found.append([i, i])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in found]
    return " ".join(texts if not limit or len(texts) <= limit else [*texts[:limit], "…"])


def expand(text: str) -> tuple[int, ...]:
    """The ids that `ranges` wrote (an ellipsis is left out)."""
    found: list[int] = []
    for part in text.split():
        if part != "…":
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


class _Lists(NamedTuple):
    """Control ids that differ."""

    only_target: tuple[int, ...] = ()
    only_draft: tuple[int, ...] = ()
    renamed: tuple[int, ...] = ()
    first: Difference | None = None
    same_ids: int | None = None

    def __bool__(self) -> bool:
        return bool(self.only_target or self.only_draft or self.renamed)


class _Facts(NamedTuple):
    """What is known of two tokenizers, and the sentences made of it."""

    target: Fingerprint
    draft: Fingerprint
    target_rows: int | None
    draft_rows: int | None
    known: _Known | None

    @property
    def verified(self) -> bool:
        return self.target.verified and self.draft.verified

    @property
    def rows_differ(self) -> bool:
        return None not in (self.target_rows, self.draft_rows) and self.target_rows != self.draft_rows

    def _kind_of_same(self) -> tuple[Literal["identical", "padding_only"], str]:
        if not self.rows_differ:
            return "identical", ""
        return "padding_only", f"; embedding rows {self.target_rows:,} and {self.draft_rows:,} differ only in padding"

    def same(self) -> Relation:
        kind, rows = self._kind_of_same()
        control_known = self.target.control_known and self.draft.control_known
        doubt = "" if control_known else "; control tokens are not in either file"
        if not self.verified:
            doubt += "; not read from both of these repositories, so only probable"
        return Relation(
            kind=kind,
            verified=self.verified and control_known,
            reason=f"all {self.target.named_ids or 0:,} ids mean the same{rows}{doubt}",
            same_cut=same_cut(self.target, self.draft),
            same_ids=self.target.named_ids,
            covered=1.0,
        )

    # ------------------------------------------------------------ same text ids
    def control_tokens(self) -> Relation:
        silent = [side.key for side in (self.target, self.draft) if not side.control_known]
        lists = _Lists() if silent else self._control_lists()
        used = self._in_use(lists.renamed)
        return Relation(
            kind="control_tokens",
            verified=self.verified,
            reason=self._control_reason(silent, lists, used),
            first_difference=lists.first,
            first_difference_in=None if lists.first else self._first_block(),
            only_target=lists.only_target,
            only_draft=lists.only_draft,
            renamed=lists.renamed,
            same_cut=same_cut(self.target, self.draft),
            same_ids=lists.same_ids,
            covered=self.known.covered if self.known else None,
            renamed_in_use=used,
        )

    def _control_reason(self, silent: list[str], lists: _Lists, used: tuple[int, ...]) -> str:
        parts = ["the ids of text are the same"]
        if silent:
            parts.append(f"the control tokens of {' and '.join(silent)} are not in the file read")
        elif not lists:
            parts.append("the control tokens differ")
        if lists.only_target:
            parts.append(f"only the target names {_some(lists.only_target, lists.first)}")
        if lists.only_draft:
            parts.append(f"only the draft names {_some(lists.only_draft, lists.first)}")
        if lists.renamed:
            first = lists.renamed[0]
            mine, other = self._texts(first, lists)
            parts.append(f"{len(lists.renamed)} control ids have another text, first {first}: {mine} and {other}")
        if used:
            parts.append(f"{len(used)} of these begin, end or frame answers")
        if self.rows_differ:
            parts.append(f"embedding rows are {self.target_rows:,} and {self.draft_rows:,}")
        if not self.verified:
            parts.append("not read from both of these repositories, so only probable")
        return "; ".join(parts)

    def _texts(self, i: int, lists: _Lists) -> tuple[str, str]:
        if lists.first is not None and lists.first.id == i:
            return _quoted(lists.first.target), _quoted(lists.first.draft)
        return _quoted(self.target.control.get(i)), _quoted(self.draft.control.get(i))

    def _control_lists(self) -> _Lists:
        target, draft = self.target.tokens, self.draft.tokens
        if target is not None and draft is not None:
            return _lists_of_maps(target, draft)
        if self.known is not None:
            known = self.known
            only_target, only_draft, renamed = map(expand, (known.only_target, known.only_draft, known.renamed))
            return _Lists(only_target, only_draft, renamed, known.first, known.same_ids)
        if self.target.control and self.draft.control:
            return _lists_of_controls(self.target.control, self.draft.control)
        return _Lists()

    def _in_use(self, renamed: tuple[int, ...]) -> tuple[int, ...]:
        if not renamed:
            return ()
        used: set[int | None] = set()
        for side in (self.target, self.draft):
            used |= {side.bos, side.eos, *side.stop_ids, *side.template_ids}
        return tuple(i for i in renamed if i in used)

    # ------------------------------------------------------------ other text ids
    def other_ids(self) -> Relation:
        kind, first, same_ids, extra = self._other_kind()
        place = None if first else self._first_block()
        parts = [extra] if extra else []
        if first is not None:
            parts.append(
                f"id {first.id} is {_quoted(first.target)} in the target and {_quoted(first.draft)} in the draft"
            )
        elif place is not None:
            parts.append(f"the first difference lies between the ids {place[0]:,} and {place[1]:,}")
        if same_ids is not None and self.target.named_ids:
            parts.append(f"{same_ids:,} of the target's {self.target.named_ids:,} ids mean the same")
        return Relation(
            kind=kind,
            verified=self.verified,
            reason="; ".join(parts) or "the ids of text differ",
            first_difference=first,
            first_difference_in=place,
            same_cut=same_cut(self.target, self.draft),
            same_ids=same_ids,
            covered=self.known.covered if self.known else None,
        )

    def _other_kind(self) -> tuple[Literal["extension", "different"], Difference | None, int | None, str]:
        target, draft = self.target.tokens, self.draft.tokens
        first: Difference | None
        same_ids: int | None = None
        longer: bool | None = None
        if target is not None and draft is not None:
            longer = extends(target, draft)
            first, same_ids = _first_of_maps(target, draft)
        elif self.known is not None:
            first, same_ids = self.known.first, self.known.same_ids
            if self.known.kind == "extension":
                longer = len(expand(self.known.only_target)) > len(expand(self.known.only_draft))
        else:
            first = self._first_from_records()
            longer = self._extends_record()
        if longer is None:
            return "different", first, same_ids, ""
        who, other = ("target", "draft") if longer else ("draft", "target")
        return "extension", first, same_ids, f"the {who} has text ids that the {other} lacks, the others mean the same"

    def _extends_record(self) -> bool | None:
        """Whether one vocabulary that was read starts with all of a record's: True where the target is the longer."""
        for longer, shorter in ((self.target, self.draft), (self.draft, self.target)):
            end = shorter.highest_id
            if longer.tokens is None or end is None or longer.highest_id is None or longer.highest_id <= end:
                continue
            whole = (end + 1) // BLOCK
            if longer.blocks[:whole] != shorter.blocks[:whole]:  # spares hashing a vocabulary for each record
                continue
            start = {i: token for i, token in longer.tokens.items() if i <= end}
            if digest(start, b"draftpick-full-v1") == shorter.full:
                return longer is self.target
        return None

    def _first_block(self) -> tuple[int, int] | None:
        a, b = self.target.blocks, self.draft.blocks
        if not a or not b:
            return None
        same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        return same * BLOCK, same * BLOCK + BLOCK - 1

    def _first_from_records(self) -> Difference | None:
        """The first difference, where it lies in the first 1,024 ids, whose texts records hold."""
        place = self._first_block()
        if place is None or place[0] != 0:
            return None
        for i, (mine, other) in enumerate(zip(self.target.head, self.draft.head, strict=False)):
            if mine != other:
                return Difference(id=i, target=mine or None, draft=other or None)
        return None

    # ------------------------------------------------------------ without fingerprints
    def by_name(self) -> Relation:
        target, draft = self.target, self.draft
        if target.key == draft.key or (target.family is not None and target.family == draft.family):
            kind, rows = self._kind_of_same()
            name = target.family or target.key
            reason = f"both use {name}{rows}; no fingerprint was compared"
            return Relation(kind=kind, verified=False, reason=reason, same_cut=same_cut(target, draft))
        what = self._said_to_be_same_text()
        if what is not None:
            reason = f"the ids of text are said to be the same ({what}); no fingerprint was compared"
            return Relation(kind="control_tokens", verified=False, reason=reason)
        beyond = self._text_beyond_rows()
        if beyond is not None:
            return Relation(kind="different", verified=False, reason=beyond)
        apart = rows_apart(self.target_rows, self.draft_rows)
        if apart is not None:
            return apart
        missing = next(side for side in (target, draft) if not side.core)
        why = missing.notes[0] if missing.format == "code" and missing.notes else "no fingerprint of it is known"
        return Relation(kind="unknown", verified=False, reason=f"{missing.key}: {why}, so the ids cannot be compared")

    def _text_beyond_rows(self) -> str | None:
        """Why two vocabularies can't be one: a side names more ids of text than the other has rows."""
        for side, rows in ((self.target, self.draft_rows), (self.draft, self.target_rows)):
            # What a file counts as base may hold padding; a padded id has no name.
            base = min((n for n in (side.base_ids, side.named_ids) if n is not None), default=None)
            if base is not None and rows is not None and base > rows:
                return f"{side.key} has {base:,} ids of text, more than the {rows:,} rows of the other side"
        return None

    def _said_to_be_same_text(self) -> str | None:
        for one, other in ((self.target, self.draft), (self.draft, self.target)):
            for said in one.same_text_as:
                if said["key"] in (other.key, other.family):
                    return f"{one.key} and {said['key']}: {said['what']}, {said['confidence']}"
        return None


def _quoted(text: str | None) -> str:
    return "unnamed" if text is None else f"`{text}`"


def _some(ids: tuple[int, ...], first: Difference | None) -> str:
    """A few ids, with the text of the first where it is known."""
    text = first.target or first.draft if first is not None and first.id == ids[0] else None
    told = f", the first {_quoted(text)}" if text else ""
    return f"{ids[0]} {_quoted(text)}" if text and len(ids) == 1 else f"{_count(ids)} ({ranges(ids, limit=4)}{told})"


def _count(ids: tuple[int, ...]) -> str:
    return "1 id" if len(ids) == 1 else f"{len(ids):,} ids"


def _lists_of_maps(target: Mapping[int, bytes], draft: Mapping[int, bytes]) -> _Lists:
    from draftpick.models.vocabulary import text_of

    renamed = tuple(sorted(i for i, token in target.items() if i in draft and draft[i] != token))
    only_target = tuple(sorted(target.keys() - draft.keys()))
    only_draft = tuple(sorted(draft.keys() - target.keys()))
    at = min((*renamed, *only_target, *only_draft), default=None)
    first = None if at is None else Difference(id=at, target=text_of(target.get(at)), draft=text_of(draft.get(at)))
    return _Lists(only_target, only_draft, renamed, first, len(target) - len(renamed) - len(only_target))


def _lists_of_controls(target: Mapping[int, str], draft: Mapping[int, str]) -> _Lists:
    """Lists from two lists of control tokens; place holders, which records leave out, tell nothing."""
    from draftpick.models.vocabulary import is_reserved

    def named(side: Mapping[int, str], other: Mapping[int, str]) -> set[int]:
        return {i for i, text in side.items() if i not in other and not is_reserved(text)}

    renamed = tuple(sorted(i for i, text in target.items() if i in draft and draft[i] != text))
    only_target, only_draft = named(target, draft), named(draft, target)
    at = min([*renamed, *only_target, *only_draft], default=None)
    first = None if at is None else Difference(id=at, target=target.get(at), draft=draft.get(at))
    return _Lists(tuple(sorted(only_target)), tuple(sorted(only_draft)), renamed, first)


def extends(target: Mapping[int, bytes], draft: Mapping[int, bytes]) -> bool | None:
    """Whether one map has only more text ids than the other: True where the target is the longer; None: neither."""
    from draftpick.models.vocabulary import is_markup

    for i, token in target.items():
        other = draft.get(i, token)
        if other != token and not (is_markup(other) and is_markup(token)):
            return None
    more = [
        any(i not in b and not is_markup(token) for i, token in a.items())
        for a, b in ((target, draft), (draft, target))
    ]
    return None if all(more) or not any(more) else more[0]


def _first_of_maps(target: Mapping[int, bytes], draft: Mapping[int, bytes]) -> tuple[Difference | None, int]:
    from draftpick.models.vocabulary import text_of

    same = sum(1 for i, token in target.items() if draft.get(i) == token)
    at = min((i for i in target.keys() | draft.keys() if target.get(i) != draft.get(i)), default=None)
    if at is None:
        return None, same
    return Difference(id=at, target=text_of(target.get(at)), draft=text_of(draft.get(at))), same
