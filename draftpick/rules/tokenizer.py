"""Rules about tokenizers: the same ids, the same control tokens, the same ends, the same cut, the same rows."""

from __future__ import annotations

from collections.abc import Iterable

from draftpick.models.tokenizer import Fingerprint, Relation
from draftpick.pair import Pair
from draftpick.rules import Evidence, Outcome, not_applicable, ok, reject, rule, skip, warn
from draftpick.rules.engines_say import engine_name, minds_rows, translates_vocabularies
from draftpick.rules.figures import quoted

SHOWN = 6
"""Ids written out in a message; the evidence holds more."""
KEPT = 64
"""Ids kept in the evidence."""
ODD_ROWS = "TENSOR_ROWS"
"""How a note begins that says the embedding tensor has other rows than the configuration."""


@rule("tokenizer-identity", "tokenizer", reads=("tokenizer",))
def tokenizer_identity(pair: Pair) -> Outcome:
    """Draft and target mean the same by every token id of ordinary text.

    Why: engines hand token ids, not text, from draft to target. Where an id means another token nothing is accepted:
    Llama 2 and Mistral 0.1 both state 32000 and share 270 ids. Names, classes, sizes and overlaps say nothing: Mistral
    0.1 and 0.3 share 97.7 % of their strings and 3 of 32,768 ids (measured on published tokenizer files).

    Exception: vLLM (use_heterogeneous_vocab, greedy drafts) and transformers (both tokenizers passed) translate between
    vocabularies; there it is a warning with the share of the target's tokens that the draft has. A fingerprint that was
    not read from that very repository makes the verdict probable only, which lowers the coverage.

    Remedy: take a draft of the same tokenizer family, a published head, the target's own MTP layers or n-gram lookup;
    or transplant the target's vocabulary into a small model and train it. Never edit config.json.
    """
    relation = pair.relation
    if relation is None:
        return skip("The tokenizers were not compared: at least one of them is not known.")
    evidence: Evidence = {"relation": relation.kind, "verified": relation.verified, "same_ids": relation.same_ids}
    evidence |= _first_difference(relation)
    if relation.same_language_ids:
        evidence["tokenizer_identical"] = relation.kind != "control_tokens"
        return ok(_agreement(relation), certain=relation.verified, **evidence)
    if relation.kind == "unknown":
        return skip(f"Whether the token ids agree is not known: {_clause(relation.reason)}.", **evidence)
    if relation.kind == "extension":
        return warn(f"{_sentence(relation.reason)}.", 0.4, certain=relation.verified, **evidence)
    return _different(pair, relation, evidence)


def _agreement(relation: Relation) -> str:
    if relation.kind == "control_tokens":
        return f"{_sentence(relation.reason)}."
    probably = "" if relation.verified else "probably "
    return f"The token ids {probably}agree: {_clause(relation.reason)}."


def _different(pair: Pair, relation: Relation, evidence: Evidence) -> Outcome:
    rows = pair.target.vocab_size
    although = f", although both state {rows} rows" if rows is not None and rows == _draft_rows(pair) else ""
    what = _where_it_differs(relation) or _clause(relation.reason)
    agreeing = f" ({relation.same_ids} ids agree)" if relation.same_ids is not None else ""
    if relation.covered is not None:
        evidence["covered"] = relation.covered
    if not translates_vocabularies(pair):
        return reject(f"The vocabularies differ{although}: {what}{agreeing}.", certain=relation.verified, **evidence)
    share = "" if relation.covered is None else f" (the draft has {relation.covered:.0%} of the target's tokens)"
    message = f"The vocabularies differ{although}: {what}; {engine_name(pair)} can translate between them{share}."
    return warn(message, 0.1 + 0.2 * (relation.covered or 0.0), certain=relation.verified, **evidence)


@rule("control-tokens", "tokenizer", reads=("tokenizer",))
def control_tokens(pair: Pair) -> Outcome:
    """Control tokens have the same names on both sides.

    Why: where text ids agree but an id means `<|im_start|>` here and `<｜User｜>` there, the draft misreads the
    template and misses around it: Qwen2.5 and DeepSeek-R1-Distill-Qwen differ in the 7 ids 151643 to 151649. Ids named
    on one side only are mostly harmless: Qwen3 names 151665 to 151668, which Qwen2.5 leaves open.

    Exception: reserved and unused names may differ freely. SGLang compares the whole map and llama.cpp every text from
    id 5 on, so both refuse what vLLM starts.

    Remedy: prefer a draft of the target's own generation; else measure on prompts in the served template.
    """
    relation = pair.relation
    if relation is None or relation.kind == "unknown":
        return skip("The control tokens were not compared.")
    if relation.kind == "different":
        return not_applicable("The vocabularies differ anyhow.")
    one_sided = len(relation.only_target) + len(relation.only_draft)
    if not one_sided and not relation.renamed:
        if relation.kind != "control_tokens":
            return ok("The control tokens agree.", certain=relation.verified)
        return warn(f"Which control tokens differ is not known: {_clause(relation.reason)}.", 0.6, certain=False)
    evidence: Evidence = {
        "only_target": list(relation.only_target[:KEPT]),
        "only_draft": list(relation.only_draft[:KEPT]),
        "renamed": list(relation.renamed[:KEPT]),
        "renamed_in_use": list(relation.renamed_in_use[:KEPT]),
        "count": one_sided + len(relation.renamed),
    }
    score = 0.85 if not relation.renamed else 0.4 if relation.renamed_in_use else 0.65
    return warn(_control_message(pair, relation), score, certain=relation.verified, **evidence)


def _control_message(pair: Pair, relation: Relation) -> str:
    target, draft = pair.target.tokenizer, _draft_tokenizer(pair)
    parts = []
    if relation.renamed:
        shown = [_renaming(id, _text(target, id), _text(draft, id)) for id in relation.renamed[:SHOWN]]
        parts.append(f"{len(relation.renamed)} named otherwise ({_list(shown, relation.renamed)})")
    for side, ids, named in (("target", relation.only_target, target), ("draft", relation.only_draft, draft)):
        if ids:
            shown = [f"{id} {_text(named, id)}".strip() for id in ids[:SHOWN]]
            parts.append(f"{len(ids)} named by the {side} alone ({_list(shown, ids)})")
    used = relation.renamed_in_use
    framing = (
        f"; of these {_list([str(id) for id in used[:SHOWN]], used)} begin, end or frame an answer" if used else ""
    )
    return f"Control tokens differ: {' and '.join(parts)}{framing}."


def _renaming(id: int, target: str, draft: str) -> str:
    return f"{id} {target} against {draft}" if target and draft else str(id)


@rule("stop-tokens", "tokenizer", reads=("tokenizer",))
def stop_tokens(pair: Pair) -> Outcome:
    """Both sides end an answer with the same ids.

    Why: a draft that ends with another id than its target misses at every end, and goes on after it: Llama 3 ends with
    128001, Llama 3.1 Instruct with 128009. llama.cpp compares the bos and eos ids of models that add them and refuses.

    Exception: a bos id matters only where a side adds it: with add_bos off on both sides it is ignored.

    Remedy: nothing for quality; for llama.cpp take a draft whose add flags and ids agree.
    """
    relation, target, draft = pair.relation, pair.target.tokenizer, _draft_tokenizer(pair)
    if relation is not None and relation.kind == "different":
        return not_applicable("The vocabularies differ anyhow.")
    if target is None or draft is None:
        return skip("The ids that end an answer are not known.")
    theirs, ours = _stops(target), _stops(draft)
    if not theirs or not ours:
        return skip("The ids that end an answer are not known on both sides.")
    evidence: Evidence = {"target": sorted(theirs), "draft": sorted(ours)}
    if target.add_bos is not None and draft.add_bos is not None and target.add_bos != draft.add_bos:
        side = "target" if target.add_bos else "draft"
        return warn(f"Only the {side} puts a bos token in front, over which llama.cpp refuses.", 0.6, **evidence)
    if target.add_bos and draft.add_bos and target.bos != draft.bos:
        message = f"The target begins with id {target.bos}, the draft with {draft.bos}."
        return warn(message, 0.5, bos=[target.bos, draft.bos], **evidence)
    if theirs == ours:
        return ok("Both end an answer with the same ids.", **evidence)
    if ours <= theirs:
        return ok("Every id the draft ends with also ends the target's answers.", 0.9, **evidence)
    return warn(f"The target ends with {_ids(theirs)}, the draft with {_ids(ours)}.", 0.7, **evidence)


@rule("text-cut", "tokenizer", reads=("tokenizer",))
def text_cut(pair: Pair) -> Outcome:
    """Both tokenizers cut text alike.

    Why: two files may hold the same ids and cut otherwise (GPT-NeoX and MPT as GGUF: 32 % of 173 test texts differ).
    The draft sees the target's ids, so nothing breaks, yet it rarely met such sequences in training and misses more
    often.

    Exception: engines that translate text between vocabularies lose more than acceptance: they encode again.

    Remedy: for GGUF look at `tokenizer.ggml.pre` of both files, and convert again with a current converter.
    """
    relation = pair.relation
    if relation is None or relation.kind == "unknown":
        return skip("The tokenizers were not compared.")
    if relation.kind == "different":
        return not_applicable("The vocabularies differ anyhow.")
    if relation.same_cut is None:
        return skip("Whether both cut text alike is not known.")
    if relation.same_cut:
        return ok("Both cut text alike.", certain=relation.verified)
    return warn("The ids agree, yet the two tokenizers cut text differently.", 0.6, certain=relation.verified)


@rule("embedding-rows", "tokenizer", reads=("vocab_size",))
def embedding_rows(pair: Pair) -> Outcome:
    """Both embedding matrices have the same number of rows.

    Why: rows past the last named id are padding from training (Qwen2.5: one tokenizer with 151,665 ids, 151936 rows up
    to 3B and 152064 from 7B on). vLLM, vLLM-Ascend and SGLang compare the number and refuse, MLC-LLM stops at the first
    request, transformers wants both tokenizers, llama.cpp allows a difference of 128.

    Exception: padding is harmless only where the ids below it are the same on both sides: the finding says whether that
    was checked. A draft with more rows than its target can propose an id the target has no row for.

    Remedy: a sibling with equal rows, another engine, or vLLM's heterogeneous-vocabulary option. A changed number in a
    configuration file leaves the weights as they are and hides real differences.
    """
    target, draft = pair.target.vocab_size, _draft_rows(pair)
    if target is None or draft is None:
        return skip("The number of embedding rows is not known on both sides.")
    odd = next(
        (note for side in (pair.target, pair.draft) if side for note in side.notes if note[:11] == ODD_ROWS), None
    )
    if odd is not None:
        return warn(
            f"Weights and configuration disagree, {odd[11:].strip(': ')}.", 0.1, tensor_rows=odd[11:].strip(": ")
        )
    if target == draft:
        return ok(f"Both have {target} embedding rows.", target_rows=target, draft_rows=draft)
    evidence: Evidence = {
        "target_rows": target,
        "draft_rows": draft,
        "difference": abs(target - draft),
        **_named_ids(pair),
    }
    rows = f"The target has {target} embedding rows, the draft {draft}"
    relation = pair.relation
    if relation is None or relation.kind == "unknown":
        return warn(f"{rows}; whether the difference is padding is not known.", 0.4, certain=False, **evidence)
    if relation.kind == "different":
        return warn(f"{rows}, and the vocabularies differ as well.", 0.1, **evidence)
    more = "; the draft can propose ids that the target has no row for" if draft > target else ""
    if relation.kind == "extension":
        return warn(f"{rows}, and not all of the difference is padding{more}.", 0.3, **evidence)
    proof = _prefix(pair, relation)
    score = {True: 0.4, False: 0.9, None: 0.6}[minds_rows(pair, abs(target - draft))]
    return warn(f"{rows}: the difference of {abs(target - draft)} is padding, {proof}{more}.", score, **evidence)


def _prefix(pair: Pair, relation: Relation) -> str:
    highest = [side.highest_id for side in (pair.target.tokenizer, _draft_tokenizer(pair)) if side is not None]
    known = [id for id in highest if id is not None]
    how = "the same" if relation.verified else "probably the same"
    if not known:
        return f"for the ids of text are {how}"
    return f"for the ids 0 to {min(known)} are {how} on both sides"


def _named_ids(pair: Pair) -> Evidence:
    """The other two sizes of each vocabulary, kept apart from the rows."""
    sizes: Evidence = {}
    for side, known in (("target", pair.target.tokenizer), ("draft", _draft_tokenizer(pair))):
        if known is not None:
            sizes[f"{side}_named_ids"], sizes[f"{side}_highest_id"] = known.named_ids, known.highest_id
            sizes[f"{side}_base_ids"] = known.base_ids
    return sizes


def _first_difference(relation: Relation) -> Evidence:
    first = relation.first_difference
    if first is not None:
        return {"first_difference": {"id": first.id, "target": first.target, "draft": first.draft}}
    if relation.first_difference_in is not None:
        return {"first_difference_in": list(relation.first_difference_in)}
    return {}


def _where_it_differs(relation: Relation) -> str | None:
    first = relation.first_difference
    if first is not None:
        return f"id {first.id} is {_quote(first.target)} in the target and {_quote(first.draft)} in the draft"
    if relation.first_difference_in is not None:
        low, high = relation.first_difference_in
        return f"they part between the ids {low} and {high}"
    return None


def _draft_tokenizer(pair: Pair) -> Fingerprint | None:
    return pair.draft.tokenizer if pair.draft is not None else None


def _draft_rows(pair: Pair) -> int | None:
    return pair.draft.vocab_size if pair.draft is not None else None


def _stops(tokenizer: Fingerprint) -> frozenset[int]:
    if tokenizer.stop_ids:
        return frozenset(tokenizer.stop_ids)
    return frozenset() if tokenizer.eos is None else frozenset((tokenizer.eos,))


def _text(tokenizer: Fingerprint | None, id: int) -> str:
    text = tokenizer.control.get(id) if tokenizer is not None else None
    return "" if text is None else quoted(text)


def _quote(text: str | None) -> str:
    return "not there" if text is None else quoted(text)


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _list(shown: list[str], ids: tuple[int, ...]) -> str:
    return ", ".join(shown) + (", …" if len(ids) > len(shown) else "")


def _clause(sentence: str) -> str:
    """A reason fit to stand behind a colon."""
    return sentence.rstrip(". ")


def _sentence(reason: str) -> str:
    """A reason fit to stand alone."""
    clause = _clause(reason)
    return clause[:1].upper() + clause[1:]
