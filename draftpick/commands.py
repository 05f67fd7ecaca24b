"""What commands do with their options, up to the answer: the one way for the command line and for `draftpick.api`.

`options` are the values of a command by parameter, as `draftpick.cli` names them; None is what was not given. `say`
hears how far a long run is, and as `Warned` what is to stay in sight; `ask` agrees to fetch something large or does
not. Nothing here prints, exits or minds signals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftpick.errors import UsageError
from draftpick.option_values import asked, dtype_of, measured_place, pair_options, setting

if TYPE_CHECKING:
    from draftpick.advice import Advice
    from draftpick.candidates import Resolve
    from draftpick.catalog import Catalog
    from draftpick.choices import RuleChoices
    from draftpick.evidence import Evidence
    from draftpick.gate_file import GateFile
    from draftpick.models.profile import ModelProfile
    from draftpick.planning import Numbers
    from draftpick.probe_file import ProbeFile
    from draftpick.probing.session import Done

Options = Mapping[str, Any]
Say = Callable[[str], None]
Ask = Callable[[str], bool]

SERVERS = ("target_url", "draft_url", "speculating_url")
"""Options that name servers: of a target, its drafts, and both together."""


def recommend(options: Options, *, say: Say, ask: Ask) -> tuple[Advice, Path | None]:
    """Rank the drafts for a target; with `probe_best` the first are measured here, and ranked by that.

    With the answer goes the file that the probe was kept in. Raises KeyboardInterrupt once that is written.
    """
    from draftpick import advice

    catalog, resolve = sources(options)
    where = setting(options, catalog)
    profile = resolve(options["target"], options["revision"])
    extra = () if options["draft_model"] else list(_found_outside(profile, catalog, resolve, options))
    judge = partial(
        advice.recommend,
        profile,
        catalog=catalog,
        resolve=resolve,
        drafts=options["draft_model"] or (),
        extra=extra,
        choices=_rule_choices(options),
        everything=bool(options["everything"]),
    )
    answer = judge(where)
    if not options["probe_best"]:
        return answer, None
    evidence, kept = _measured(answer, catalog, options, say, ask)
    measured = next(iter(evidence.values()), None)
    place = measured_place(where, catalog, measured) if measured is not None else where
    return judge(place, evidence=evidence), kept


def _measured(
    answer: Advice, catalog: Catalog, options: Options, say: Say, ask: Ask
) -> tuple[dict[str, Evidence], Path]:
    """Measure the first drafts of an answer and keep the probe file: what it shows, and where it lies."""
    from draftpick.atomic import write_text
    from draftpick.evidence import from_probe
    from draftpick.probe_file import to_text
    from draftpick.probing.command import run_best

    drafts = [found.proposal.draft for found in answer.viable if found.proposal.draft is not None]
    options = {**options, "dtype": dtype_of(options["dtype"])}
    offline, consent = _is_offline(options), _consent(options, ask)
    done, path = run_best(answer.target, drafts, catalog, options, offline=offline, consent=consent, say=say)
    write_text(path, to_text(_with_request(done.probe, "recommend", options)))
    if done.interrupted:
        raise KeyboardInterrupt
    return from_probe(done.probe, catalog), path


def check(options: Options) -> Advice:
    """Judge one pair."""
    from draftpick import advice

    catalog, resolve = sources(options)
    where = setting(options, catalog)
    profile = resolve(options["target"], options["revision"])
    return advice.check(profile, options["draft"], where, catalog, resolve, _rule_choices(options))


def probe(options: Options, *, say: Say, ask: Ask) -> Done:
    """Measure drafts on this device, or where servers have them. The probe file itself is for the caller to write."""
    from draftpick.probing.command import run, run_served

    options = {**options, "dtype": dtype_of(options["dtype"])}
    catalog, resolve = sources(options)
    target, drafts = options["target"], options["draft"] or []
    if any(options[name] for name in (*SERVERS, "model")):
        names = [*([target] if target is not None else []), *drafts]
        done = run_served(names, catalog, resolve, options, say=say)
    elif target is None or not drafts:
        raise UsageError(
            "a probe needs a target and a draft", "name both, or where they are served: --target-url and --draft-url"
        )
    else:
        models = resolve(target, options["revision"]), [resolve(name) for name in drafts]
        offline, consent = _is_offline(options), _consent(options, ask)
        done = run(*models, catalog, options, offline=offline, consent=consent, say=say)
    return done._replace(probe=_with_request(done.probe, "probe", options))


def plan(options: Options, *, say: Say) -> Advice | Numbers:
    """Choose num_spec_tokens from a saved probe, or from numbers alone."""
    if options["probe_file"] is not None:
        return _plan_from_probe(options, say)
    from draftpick.planning import plan_numbers

    if options["policy"]:
        raise UsageError(
            "--policy needs the trace of a probe", "name a probe file: draftpick plan probe.json --policy all"
        )
    if prices_anew(options):
        raise UsageError(
            "--costs and servers go with a probe", "name a probe file: draftpick plan probe.json --costs served"
        )
    given = {name: options[name] for name in _NUMBERS if options[name] is not None}
    return plan_numbers(**given, num_spec_tokens=options["num_speculative_tokens"])


_NUMBERS = (
    "acceptance_rate",
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "draft_cost",
    "verify_cost",
    "overhead",
)
"""What is planned from without a probe."""


def prices_anew(options: Options) -> bool:
    """Whether a plan takes other costs than those of its probe: that may start servers, and run for minutes."""
    return options["costs"] is not None or any(options[name] for name in SERVERS)


def _plan_from_probe(options: Options, say: Say) -> Advice:
    given = next((name for name in _NUMBERS if options[name] is not None), None)
    if given is not None:
        raise UsageError(
            f"--{given.replace('_', '-')} and a probe file were both given", "leave one out: the probe measured it"
        )
    from draftpick import advice, replanning
    from draftpick.catalog import load

    catalog = load(options["catalog_folder"])
    saved = replanning.load_probe(options["probe_file"], catalog, options["temperature"])
    unasked = dict.fromkeys(("images", "trust_remote_code", "workload", "stop_rule"))
    where = setting({**options, **unasked}, catalog)
    if prices_anew(options):
        from draftpick.repricing import repriced

        saved = repriced(saved, options, where, catalog, say)
    answer = advice.from_probe(saved.probe, saved.evidence, measured_place(where, catalog, saved.any), catalog)
    return answer._replace(policies=saved.policies(answer, options["policy"] or ()))


def gate(options: Options, *, say: Say, ask: Ask) -> GateFile:
    """Judge the pairs of a policy."""
    from draftpick.gating import command

    catalog, resolve = sources(options)
    return command.run(
        options["policy_file"],
        catalog,
        resolve=resolve,
        setting=lambda pair: setting(pair_options(pair), catalog),
        update=bool(options["update_baseline"]),
        offline=_is_offline(options),
        consent=_consent(options, ask),
        say=say,
    )


def first_policy(saved: Path, options: Options) -> tuple[str, list[str]]:
    """The policy that an answer begins with, and what to do with it, a line each."""
    from draftpick.advice_file import read_advice
    from draftpick.gating import start
    from draftpick.report.next_steps import what_next

    if options["update_baseline"]:
        raise UsageError("--init and --update-baseline were both given", "write the policy first, then take a baseline")
    output: Path | None = options["output"]
    policy = output if output is not None and str(output) != "-" else None
    if policy is not None and policy.exists():
        raise UsageError(f"{policy} is there already, and may hold thresholds of yours", "move it, or name another")
    advice = read_advice(saved)
    given = {"catalog": options["catalog_folder"], "offline": options["offline"], "yes": options["yes"]}
    asked = {
        name: value if isinstance(value, bool) else str(value) for name, value in given.items() if value is not None
    }
    steps = what_next(advice, policy, saved=saved, given=asked)
    return start.first_policy(advice, policy or Path("pairs.toml")), steps


def document(found: Advice | Numbers, options: Options) -> dict[str, Any]:
    """The JSON document of an answer as plain values, with what was asked."""
    from draftpick.planning import Numbers
    from draftpick.report import json

    if isinstance(found, Numbers):
        from draftpick.report import plan as report

        return report.document(found, asked("plan", options))
    return json.document(found, asked(found.command, options, found.setting.device))


def _with_request(found: ProbeFile, command: str, options: Options) -> ProbeFile:
    """The probe, with what was asked to get it."""
    from draftpick.probe_file import RequestRecord

    return found.model_copy(update={"request": RequestRecord.model_validate(asked(command, options))})


def sources(options: Options) -> tuple[Catalog, Callable[..., ModelProfile]]:
    """The catalogue, and what finds a model by its name and, where one is named, its revision."""
    from draftpick.catalog import load
    from draftpick.models import resolve

    catalog = load(options["catalog_folder"])
    offline = _is_offline(options)

    def find(name: str, revision: str | None = None) -> ModelProfile:
        return resolve(name, catalog, revision=revision, offline=offline)

    return catalog, find


def _found_outside(
    target: ModelProfile, catalog: Catalog, resolve: Resolve, options: Options
) -> Iterator[ModelProfile]:
    from draftpick.models.nearby import outside

    return outside(target, catalog, resolve, offline=_is_offline(options))


def _is_offline(options: Options) -> bool:
    return bool(options["offline"]) or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def _consent(options: Options, ask: Ask) -> Ask:
    return lambda what: bool(options["yes"]) or ask(what)


def _rule_choices(options: Options) -> RuleChoices:
    from draftpick.choices import RuleChoices, load_rules_file

    base = load_rules_file(options["rules_file"]) if options["rules_file"] else RuleChoices()
    return base.with_options(options["select"] or (), options["ignore"] or ())
