"""A probe from names to a probe file: weights are found, tokenizers compared, and pairs measured as they can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from draftpick import probe_file
from draftpick.assess import relate
from draftpick.candidates import given_model
from draftpick.catalog import Catalog
from draftpick.errors import DraftpickError, UsageError, Warned
from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation
from draftpick.pair import BEHIND, Pair, Setting
from draftpick.probing import translated, weights
from draftpick.probing.api import Server
from draftpick.probing.device import CannotProbe, Place, device_here, torch_here
from draftpick.probing.document import document
from draftpick.probing.outcome import ModelFiles, Outcome, Request
from draftpick.probing.run import Probe
from draftpick.probing.server import called_otherwise, connect
from draftpick.rules.size import swapped_roles


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
    device_here(request["device"], request["devices"])  # nothing is fetched for a machine that cannot measure
    swapped = _swapped(target, drafts, say)
    relations = {draft.id: relate(target, given_model(draft), catalog) for draft in drafts}
    files = {model.id: _files(model, offline=offline, consent=consent) for model in (target, *drafts)}
    ours = files[target.id]
    same = [draft for draft in drafts if _shares_ids(relations[draft.id], ours.folder, files[draft.id].folder)]
    others = [draft for draft in drafts if draft not in same]
    running = Probe(Request(ours, [files[draft.id] for draft in same], catalog=catalog, **request), say)
    running.outcome.notes += swapped
    outcome = running.run()
    if not outcome.rows:
        _refuse_nothing(outcome)
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


def _swapped(target: ModelProfile, drafts: Sequence[ModelProfile], say: Callable[[str], None]) -> list[str]:
    """What is told before minutes are spent, and kept: drafts that are not smaller than their target."""
    pairs = [Pair(target, given_model(draft), Setting()) for draft in drafts]
    said = [(pair, swapped_roles(pair)) for pair in pairs]
    found = [
        f"with {pair.proposal.label}: {told.message[:1].lower()}{told.message[1:]}"
        for pair, told in said
        if told.kind == "reject"
    ]
    for text in found:
        say(Warned(text))
    return found


def _refuse_nothing(outcome: Outcome) -> NoReturn:
    """Raise KeyboardInterrupt where somebody ended the run before the first answer, else CannotProbe."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    raise CannotProbe("nothing was measured before the run ended", "give it more time")


class Addresses(NamedTuple):
    """Where target and drafts are served, and what was said of those places."""

    target: str
    drafts: Sequence[str]
    model: str | None
    """What the target's server calls it; None: its only model."""
    names: Sequence[str]
    """Models, the target first, as they were named; fewer, or none, where the servers' own names shall do."""
    engine: str | None
    device: str | None
    """As the catalogue has it; None: nobody said."""
    speculating: Mapping[int, str] = {}
    """Servers of the target with the only draft, by tokens drafted per step."""


def served(
    addresses: Addresses,
    catalog: Catalog,
    resolve: Callable[[str], ModelProfile],
    *,
    prompts_from: str,
    beside: Path | None,
    say: Callable[[str], None],
    **request: Any,
) -> Done:
    """Measure served drafts on a served target. `request` as for `probe`.

    Raises CannotProbe and UsageError with what to do.
    """
    from draftpick.probing.served import ServedProbe
    from draftpick.probing.served_times import Servers

    say("asking the servers what they have")
    width, urls = _width(request), (addresses.target, *addresses.drafts)
    names = [*addresses.names, *[None] * (len(urls) - len(addresses.names))]
    servers = [
        connect(url, name=addresses.model if place == 0 else None, called=name, engine=addresses.engine, width=width)
        for place, (url, name) in enumerate(zip(urls, names, strict=True))
    ]
    target, *drafts = [_known(name or server.about.root, resolve) for name, server in zip(names, servers, strict=True)]
    if len({draft.id for draft in drafts}) < len(drafts):
        raise UsageError("two addresses serve one draft", "name each draft once, or give them names after the target's")
    models = zip((target, *drafts), servers, strict=True)
    if target.id in {draft.id for draft in drafts}:
        raise UsageError(
            f"{target.id} is the target and a draft",
            "name two servers; where both call their models alike, name the models: draftpick probe TARGET DRAFT",
        )
    files = [ModelFiles(model.id, None, server.about.identity) for model, server in models]
    asked = Request(
        files[0], files[1:], catalog=catalog, **{**request, "engine": request["engine"] or servers[0].about.engine}
    )
    host = f"behind {servers[0].client.address}"
    place = Place(BEHIND, f"{addresses.device} {host}" if addresses.device else host, tool_name=addresses.device)
    by_id = {draft.id: server for draft, server in zip(drafts, servers[1:], strict=True)}
    whole = Servers(servers[0], by_id, speculating(addresses.speculating, servers[0], width))
    swapped = _swapped(target, drafts, say)
    outcome = ServedProbe(asked, place, whole, say).run()
    outcome.notes += swapped
    for model, server in (target.id, servers[0]), *by_id.items():
        # A name of the server's own, as `chat`, contradicts nothing.
        told = outcome.doubts if "/" in server.about.root else outcome.notes
        told += called_otherwise({model: server})
    if not outcome.rows:
        _refuse_nothing(outcome)
    relations = {draft.id: relate(target, given_model(draft), catalog) for draft in drafts}
    found = document(outcome, target, drafts, relations, source=prompts_from, beside=beside)
    return Done(found, outcome.interrupted)


def _width(request: Mapping[str, Any]) -> int:
    """Connections to one server: as many as answers at once, where a pass over many positions is timed as well."""
    several: int = max(request["timed_batches"]) * (request["k_max"] + 1)
    return max(int(request["batch_size"]), several)


def speculating(urls: Mapping[int, str], target: Server, width: int) -> dict[int, Server]:
    """The servers of `--speculating-url`. Raises UsageError for one that has another model."""
    found = {k: connect(url, name=None, called=target.about.name, engine=None, width=width) for k, url in urls.items()}
    for server in found.values():
        if server.about.engine == "llama.cpp":
            raise UsageError(
                f"{server.client.address} sends every token by itself: its steps cannot be told",
                "leave --speculating-url out, and name the draft's own server with --draft-url",
            )
        if target.about.name != server.about.name and target.about.root != server.about.root:
            raise UsageError(
                f"{server.client.address} serves {server.about.name[:80]}, and {target.client.address} "
                f"{target.about.name[:80]}",
                "name servers of one target",
            )
    return found


def _known(name: str, resolve: Callable[[str], ModelProfile]) -> ModelProfile:
    """What is known of a model by its name; the name alone where nothing is."""
    try:
        return resolve(name)
    except DraftpickError:
        return ModelProfile(name, "server")


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
