"""A probe from names to a probe file: weights are found, tokenizers compared, and pairs measured as they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftpick import probe_file
from draftpick.assess import relate
from draftpick.candidates import given_model
from draftpick.catalog import Catalog
from draftpick.errors import UsageError
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.probe import translated, weights
from draftpick.probe.device import CannotProbe, torch_here
from draftpick.probe.document import document
from draftpick.probe.run import ModelFiles, Probe, Request


class Done(NamedTuple):
    """What a probe ended with."""

    probe: probe_file.ProbeFile
    interrupted: bool


def probe(
    target: ModelProfile,
    drafts: Sequence[ModelProfile],
    catalog: Catalog,
    *,
    prompts_from: str,
    beside: Path | None,
    offline: bool,
    consent: Callable[[str], bool],
    say: Callable[[str], None],
    verify: int | None = None,
    **request: Any,
) -> Done:
    """Measure drafts on a target. `request` are the fields of `run.Request` beyond the models.

    `verify`: also run the software's own speculation with that k on the measured prompts.
    Raises CannotProbe and NotResolvable with what to do.
    """
    for draft in drafts:
        if draft.head_for is not None:
            raise UsageError(
                f"{draft.id} is a head that reads its target's hidden states",
                "measure it in the engine that runs it",
            )
    names = [draft.id for draft in drafts]
    if len(set(names)) < len(names):
        raise UsageError("a draft was named twice", "name each draft once")
    relations = {draft.id: relate(target, given_model(draft), catalog) for draft in drafts}
    files = {model.id: _files(model, offline=offline, consent=consent) for model in (target, *drafts)}
    ours = files[target.id]
    same = [draft for draft in drafts if _shares_ids(relations[draft.id], ours.folder, files[draft.id].folder)]
    others = [draft for draft in drafts if draft not in same]
    running = Probe(Request(ours, [files[draft.id] for draft in same], catalog=catalog, **request), say)
    outcome = running.run()
    if not outcome.rows:
        raise CannotProbe("nothing was measured before the run ended", "give it more time")
    found = document(outcome, target, drafts, relations, source=prompts_from, beside=beside)
    if outcome.interrupted:
        return Done(found, True)
    try:
        for draft in others:
            found = _with_translated(found, running, files[draft.id], say)
        if verify is not None:
            checks = [probe_file.CheckRecord(**check._asdict()) for check in running.verify(verify)]
            found = found.model_copy(update={"checks": [*found.checks, *checks]})
    except KeyboardInterrupt:
        return Done(found, True)
    return Done(found, False)


def _with_translated(
    found: probe_file.ProbeFile, running: Probe, draft: ModelFiles, say: Callable[[str], None]
) -> probe_file.ProbeFile:
    """The probe with a draft of another tokenizer; where no loop runs it, what was measured of others is kept."""
    try:
        record = translated.measure(running, draft, say)
    except CannotProbe as error:
        if not found.drafts and not found.translated:
            raise
        return found.model_copy(update={"doubts": [*found.doubts, error.message]})
    return found.model_copy(update={"translated": [*found.translated, record]})


def _files(model: ModelProfile, *, offline: bool, consent: Callable[[str], bool]) -> ModelFiles:
    folder = weights.folder_of(model, offline=offline, consent=consent)
    return ModelFiles(model.id, folder, weights.identity(model, folder))


def _shares_ids(relation: Relation | None, ours: Path, theirs: Path) -> bool:
    """Whether one pass over the target's ids means the same to the draft."""
    if relation is not None and relation.kind in ("identical", "control_tokens", "padding_only", "extension"):
        return True
    if relation is not None and relation.kind == "different":
        return False
    # Nobody compared them before: the tokenizers themselves are here.
    torch_here()
    from transformers import AutoTokenizer

    def vocabulary(folder: Path) -> dict[str, int]:
        found: dict[str, int] = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        ).get_vocab()
        return found

    try:
        return vocabulary(ours) == vocabulary(theirs)
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise CannotProbe(
            f"the tokenizers cannot be compared: {first}", "look at the tokenizer files of both"
        ) from None
