"""Where proposals come from: named ones, the catalogue, local caches, the hub, published heads, the target itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from draftpick.catalog import Catalog
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import rows_apart
from draftpick.pair import Head, Proposal

Resolve = Callable[[str], ModelProfile]


class Candidates(NamedTuple):
    """Proposals to judge, and how many catalogued models were not even worth a line, by reason."""

    proposals: list[Proposal]
    left_out: dict[str, int]


def named(names: Sequence[str], catalog: Catalog, resolve: Resolve) -> Iterator[Proposal]:
    """The drafts a user asked about, each once; a name may be a model or a published head."""
    seen = set()
    for name in names:
        head = catalog.head(name)
        if head is not None and catalog.model_id(name) is None:
            proposal = Proposal(method=head.method, origin="given", head=head, draft=None)
        else:
            proposal = given_model(resolve(name))
        if proposal.id not in seen:
            seen.add(proposal.id)
            yield proposal


def given_model(draft: ModelProfile) -> Proposal:
    """A proposal for a model named by the user, which may turn out to be a head."""
    if draft.head_for is None:
        return _model_proposal(draft, "given")
    head = _head_of(draft)
    return Proposal(method=head.method, origin="given", head=head)


def search(
    target: ModelProfile, catalog: Catalog, everything: bool = False, extra: Sequence[ModelProfile] = ()
) -> Candidates:
    """All that is known to fit, or to look as if it did, and the `extra` models found in caches or on the hub.

    With `everything`, each catalogued model becomes a proposal.
    """
    found = Candidates([], {})
    if target.has_mtp or any(note.startswith("HEAD_MISSING") for note in target.notes):
        found.proposals.append(Proposal(method="mtp", origin="target"))
    relatives = _relatives(target, catalog)
    found.proposals.extend(_heads(target, relatives, catalog))
    own = {name.lower() for name in (target.id, *(relative.id for relative in relatives[:1]))}
    for model_id, traits in catalog.traits.items():
        if model_id.lower() in own:
            continue
        reason = None if everything else _why_not_worth_a_line(target, traits, catalog)
        if reason is None:
            draft = catalog.profile(model_id)
            found.proposals.append(_model_proposal(draft, draft.origin))
        else:
            found.left_out[reason] = found.left_out.get(reason, 0) + 1
    found.proposals.extend(_model_proposal(draft, draft.origin) for draft in extra if draft.id.lower() not in own)
    return found


def draft_free() -> Iterator[Proposal]:
    """What every target can try without a draft."""
    yield Proposal(method="ngram", origin="always")
    yield Proposal(method="suffix", origin="always")


def _relatives(target: ModelProfile, catalog: Catalog) -> list[ModelProfile]:
    """Catalogued ancestors of the target, nearest first."""
    found: list[ModelProfile] = []
    seen = {target.id}
    current = target
    while current.lineage.base_model and len(found) < 5:
        base = catalog.find(current.lineage.base_model)
        if base is None or base.id in seen:
            break
        seen.add(base.id)
        found.append(base)
        current = base
    return found


def _heads(target: ModelProfile, relatives: Iterable[ModelProfile], catalog: Catalog) -> Iterator[Proposal]:
    known = catalog.model_id(target.id) or target.id
    for head in catalog.heads_for(known):
        yield _head_proposal(head, catalog, via=None)
    for relative in relatives:
        for head in catalog.heads_for(relative.id):
            yield _head_proposal(head, catalog, via=relative.id)


def _head_proposal(head: Head, catalog: Catalog, via: str | None) -> Proposal:
    return Proposal(method=head.method, origin="catalogue", head=head, via=via)


def _why_not_worth_a_line(target: ModelProfile, traits: Sequence[Any], catalog: Catalog) -> str | None:
    """A reason to leave a catalogued model out of the list, or None to judge it."""
    family, tokenizer, vocab_size, active, text, total = traits
    theirs = active or text or total
    ours = target.params_active or target.params_text or target.params_total
    if theirs is not None and ours is not None and theirs >= ours:
        return "not smaller than the target"
    if family is not None and family == target.family:
        return None
    shares = _shares_text(target, tokenizer, catalog)
    if shares:
        return None
    if vocab_size is None or vocab_size != target.vocab_size:
        apart = shares is not None or rows_apart(target.vocab_size, vocab_size) is not None
        return "another vocabulary" if apart else "never compared id by id"
    # Equal rows alone are no sign of one vocabulary: what was compared and differs is shown, as it looks right.
    known = tokenizer is not None and target.tokenizer is not None
    return "never compared id by id" if known and shares is None else None


def _shares_text(target: ModelProfile, key: str | None, catalog: Catalog) -> bool | None:
    """Whether a catalogued tokenizer gives ordinary text the ids of the target's; None where nobody can tell."""
    own, other = target.tokenizer, catalog.tokenizer_traits.get(key or "")
    if other is None or own is None:
        return None
    family, core, same_text_as = other
    if own.core is not None and core is not None:
        return bool(own.core == core)
    if own.key == key or (own.family is not None and own.family == family):
        return True
    if own.key in same_text_as or own.family in same_text_as:
        return True
    return True if any(said["key"] in (key, family) for said in own.same_text_as) else None


def _model_proposal(draft: ModelProfile, origin: str) -> Proposal:
    return Proposal(method=draft.draft_method or "draft_model", origin=origin, draft=draft)


def _head_of(draft: ModelProfile) -> Head:
    return Head(
        id=draft.id,
        method=draft.draft_method or "unknown",
        target=draft.head_for or "unknown",
        params=draft.params_total,
        num_hidden_layers=draft.num_hidden_layers,
        hidden_size=draft.hidden_size,
        vocab_size=draft.vocab_size,
        max_position_embeddings=draft.max_position_embeddings,
        license=draft.license,
        rope=draft.rope,
        confidence="config-read",
    )
