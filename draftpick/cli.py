"""The command line: parse, call one function, render, exit code."""

# No `from __future__ import annotations` here: typer would evaluate each annotation again at start-up.
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftpick import __version__, completion, console
from draftpick.errors import UsageError
from draftpick.option_values import respelled, share
from draftpick.options import (
    AsJson,
    Attention,
    Bandwidth,
    BatchSize,
    CacheDtype,
    ChosenDraft,
    ChosenMethod,
    Config,
    Context,
    CostsFile,
    CostsFrom,
    DeviceName,
    Draft,
    DraftCost,
    DraftQuantization,
    Drafts,
    DraftUrls,
    Dtype,
    EngineName,
    Everything,
    ExitZero,
    Explain,
    Format,
    GateFormat,
    GateOutputFormat,
    Ignore,
    Images,
    InputLength,
    LoadedDtype,
    Memory,
    ModelLength,
    NewTokens,
    NoColor,
    NumPrompts,
    Offline,
    Output,
    OutputFormat,
    OutputLength,
    Overhead,
    Overlay,
    PlanCosts,
    Policies,
    Precision,
    ProbeBest,
    Prompts,
    Quantization,
    Quiet,
    RemoteCode,
    ReportFormat,
    Responses,
    Resume,
    Revision,
    RulesFile,
    SavedFormat,
    Seed,
    Select,
    Sequences,
    ServedModel,
    SpecTokens,
    SpeculatingUrls,
    StopRule,
    Target,
    TargetUrl,
    Temperature,
    Temperatures,
    TensorParallel,
    Thinking,
    TimedBatches,
    TimeLimit,
    TopK,
    TopP,
    TorchDevice,
    TracePath,
    Utilization,
    Verify,
    VerifyCost,
    Workload,
    Yes,
    merged,
)

if TYPE_CHECKING:
    from draftpick.advice import Advice
    from draftpick.doctor_file import DoctorFile
    from draftpick.gate_file import GateFile
    from draftpick.planning import Numbers
    from draftpick.probe_file import ProbeFile
    from draftpick.responses import Log
    from draftpick.scrape import Scrape


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"draftpick {__version__}")
        raise typer.Exit


def _draftpick(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def recommend(
    target: Target,
    draft_model: Drafts = None,
    engine: EngineName = None,
    device: DeviceName = None,
    tensor_parallel_size: TensorParallel = None,
    max_model_len: ModelLength = None,
    max_num_seqs: Sequences = None,
    num_speculative_tokens: SpecTokens = None,
    dtype: Dtype = None,
    quantization: Quantization = None,
    draft_quantization: DraftQuantization = None,
    memory: Memory = None,
    bandwidth: Bandwidth = None,
    gpu_memory_utilization: Utilization = None,
    kv_cache_dtype: CacheDtype = None,
    stop_rule: StopRule = None,
    temperature: Temperature = None,
    workload: Workload = None,
    input_len: InputLength = None,
    output_len: OutputLength = None,
    images: Images = None,
    revision: Revision = None,
    trust_remote_code: RemoteCode = None,
    offline: Offline = None,
    catalog_folder: Overlay = None,
    select: Select = None,
    ignore: Ignore = None,
    rules_file: RulesFile = None,
    probe_best: ProbeBest = None,
    yes: Yes = None,
    config: Config = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    explain: Explain = None,
    everything: Everything = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Rank the drafts for a target, with the reason for each, and say which look right but are not."""
    options = _options(dict(locals()))
    from draftpick import commands

    if options["probe_best"]:
        _run_long()
    with console.Progress() as say:
        answer, kept = commands.recommend(options, say=say, ask=_ask)
    if kept is not None:
        console.remark(f"measured; the probe is kept in {kept}")
    _answer(answer, options)


def _run_long() -> None:
    """Prepare for minutes. A batch system ends a job with SIGTERM, a terminal that is closed with SIGHUP: what was
    measured is kept, and what was started is ended, as on Ctrl-C.
    """
    import signal

    gc.enable()
    with contextlib.suppress(ValueError):  # only the main thread may
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no terminal that hangs up
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, signal.default_int_handler)


def check(
    target: Target,
    draft: Draft,
    engine: EngineName = None,
    device: DeviceName = None,
    tensor_parallel_size: TensorParallel = None,
    max_model_len: ModelLength = None,
    max_num_seqs: Sequences = None,
    num_speculative_tokens: SpecTokens = None,
    dtype: Dtype = None,
    quantization: Quantization = None,
    draft_quantization: DraftQuantization = None,
    memory: Memory = None,
    bandwidth: Bandwidth = None,
    gpu_memory_utilization: Utilization = None,
    kv_cache_dtype: CacheDtype = None,
    stop_rule: StopRule = None,
    temperature: Temperature = None,
    workload: Workload = None,
    input_len: InputLength = None,
    output_len: OutputLength = None,
    images: Images = None,
    revision: Revision = None,
    trust_remote_code: RemoteCode = None,
    offline: Offline = None,
    catalog_folder: Overlay = None,
    select: Select = None,
    ignore: Ignore = None,
    rules_file: RulesFile = None,
    config: Config = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Judge one pair: every finding, and the verdict of every engine."""
    options = _options(dict(locals()))
    from draftpick import commands

    _answer(commands.check(options), options)


def probe(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Hub id, folder or catalogue name.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ] = None,
    draft: Annotated[
        list[str] | None,
        typer.Argument(metavar="DRAFT...", help="Draft models.", show_default=False, autocompletion=completion.models),
    ] = None,
    target_url: TargetUrl = None,
    draft_url: DraftUrls = None,
    speculating_url: SpeculatingUrls = None,
    model: ServedModel = None,
    device: TorchDevice = None,
    tensor_parallel_size: TensorParallel = None,
    dtype: LoadedDtype = None,
    attention: Attention = None,
    engine: EngineName = None,
    num_speculative_tokens: SpecTokens = None,
    temperature: Temperatures = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    thinking: Thinking = None,
    workload: Workload = None,
    prompts: Prompts = None,
    responses: Responses = None,
    num_prompts: NumPrompts = None,
    max_new_tokens: NewTokens = None,
    batch_size: BatchSize = None,
    precision: Precision = None,
    time_limit: TimeLimit = None,
    costs: CostsFrom = None,
    timed_batch: TimedBatches = None,
    context: Context = None,
    verify: Verify = None,
    trace: TracePath = None,
    resume: Resume = None,
    yes: Yes = None,
    revision: Revision = None,
    offline: Offline = None,
    catalog_folder: Overlay = None,
    config: Config = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Measure drafts on this device: the real acceptance rate, every num_spec_tokens, and what a step costs."""
    options = _options(dict(locals()))
    from draftpick import commands

    _run_long()
    with console.Progress() as say:
        done = commands.probe(options, say=say, ask=_ask)
    _show_probe(done.probe, options)
    if done.interrupted:
        raise typer.Exit(console.INTERRUPTED)
    no = done.probe.decision.action == "do_not_speculate" and not options["exit_zero"]
    raise typer.Exit(1 if no else 0)


def plan(
    probe_file: Annotated[
        Path | None,
        typer.Argument(metavar="[PROBE.json]", help="What `draftpick probe -o` wrote.", show_default=False),
    ] = None,
    acceptance_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Chance that a drafted token is accepted, 0 to 1.", show_default=False),
    ] = None,
    mean_acceptance_length: Annotated[
        float | None, typer.Option(metavar="TOKENS", help="Tokens per step at k, the target's own included.")
    ] = None,
    draft_acceptance_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="Accepted / drafted at k, as engines log it.")
    ] = None,
    draft_cost: DraftCost = None,
    verify_cost: VerifyCost = None,
    overhead: Overhead = None,
    num_speculative_tokens: SpecTokens = None,
    policy: Policies = None,
    costs: PlanCosts = None,
    target_url: TargetUrl = None,
    draft_url: DraftUrls = None,
    speculating_url: SpeculatingUrls = None,
    model: ServedModel = None,
    engine: EngineName = None,
    device: DeviceName = None,
    tensor_parallel_size: TensorParallel = None,
    max_model_len: ModelLength = None,
    max_num_seqs: Sequences = None,
    dtype: Dtype = None,
    quantization: Quantization = None,
    draft_quantization: DraftQuantization = None,
    memory: Memory = None,
    bandwidth: Bandwidth = None,
    gpu_memory_utilization: Utilization = None,
    kv_cache_dtype: CacheDtype = None,
    temperature: Temperature = None,
    input_len: InputLength = None,
    output_len: OutputLength = None,
    catalog_folder: Overlay = None,
    config: Config = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    explain: Explain = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Choose num_spec_tokens (or judge that of -k): from a saved probe, for any place and load, or from numbers."""
    options = _options(dict(locals()))
    from draftpick import commands

    if commands.prices_anew(options):
        _run_long()  # a server that was started must end with it
    with console.Progress() as say:
        found = commands.plan(options, say=say)
    _answer(found, options)


def launch(
    advice: Annotated[
        Path,
        typer.Argument(
            metavar="ADVICE.json",
            help="What --json of recommend, check or plan, or a probe, wrote.",
            show_default=False,
        ),
    ],
    engine: EngineName = None,
    draft_model: ChosenDraft = None,
    method: ChosenMethod = None,
    num_speculative_tokens: SpecTokens = None,
    catalog_folder: Overlay = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
) -> None:
    """Write how an engine is started for a decision: the script to stdout, what to mind to stderr."""
    console.be_quiet(quiet)
    from draftpick import launch as starting
    from draftpick.catalog import load
    from draftpick.launch_input import Choice, wanted_from
    from draftpick.report import launch as report

    wanted = Format.json if json else output_format or Format.table
    if wanted is Format.html:
        raise UsageError(
            "launch writes no html", "one of table (the script), json, markdown; `draftpick report` has html"
        )
    choice = Choice(engine, draft_model, method, num_speculative_tokens)
    found = starting.launch(wanted_from(advice, choice, load(catalog_folder)))
    if wanted is Format.json:
        console.write(report.json(found), output)
    elif wanted is Format.markdown:
        console.write(report.markdown(found), output)
    else:
        console.write(report.script(found), output)
        for line in report.remarks(found):
            console.remark(line)
    raise typer.Exit(0 if found.as_decided or exit_zero else 1)


def gate(
    policy_file: Annotated[
        Path, typer.Argument(metavar="[PAIRS.toml]", help="The policy: pairs, thresholds, evidence.")
    ] = Path("pairs.toml"),
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write what was measured as the baseline of pairs that pass.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option(metavar="ADVICE.json", help="Write a commented policy for an answer instead.", show_default=False),
    ] = None,
    yes: Yes = None,
    offline: Offline = None,
    catalog_folder: Overlay = None,
    output_format: GateOutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """In CI: exit 1 when a pair misses its policy, or got worse than its baseline."""
    options = _options(dict(locals()))
    if init is not None:
        _start_gate(init, options, GateFormat.json if json else output_format)
        return
    from draftpick import commands

    gc.enable()
    with console.Progress() as say:
        result = commands.gate(options, say=say, ask=_ask)
    wanted = GateFormat.json if json else output_format or GateFormat.table
    code = 0 if exit_zero else result.exit_code
    console.write(_gate_text(result, wanted, console.screen(no_color, output)), output, cut=code)
    raise typer.Exit(code)


def _start_gate(saved: Path, options: dict[str, Any], form: GateFormat | None) -> None:
    """Write the first policy of an answer, and say how to go on."""
    from draftpick import commands
    from draftpick.report.text import printable

    if form not in (None, GateFormat.table):
        raise UsageError(
            f"--init writes TOML, and no {form.value}", "leave --format out: it is for the result of a gate"
        )
    text, steps = commands.first_policy(saved, options)
    console.write(text, options["output"])
    for line in steps:
        console.remark(printable(line))


def _gate_text(result: "GateFile", wanted: GateFormat, screen: dict[str, Any]) -> str:
    if wanted is GateFormat.table:
        from draftpick.report import gate as report

        return report.table(result, **screen)
    from draftpick.report import saved

    if wanted is GateFormat.github:
        _summarise(result)
    return saved.write(result, wanted.value)


def _summarise(found: object) -> None:
    """Add a gate's result to the summary of a GitHub job, where this is one."""
    from draftpick.gate_file import GateFile
    from draftpick.report import github

    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and isinstance(found, GateFile):
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(github.summary(found))


def observe(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="The server, as http://localhost:8000.", show_default=False),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", help="Metrics saved from it; twice: before and after.", show_default=False),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            parser=share("--interval"),
            metavar="SECONDS",
            help="Look twice, and count what came in between; by default all since the server started.",
        ),
    ] = None,
    responses: Annotated[
        Path | None,
        typer.Option(
            "--responses",
            help="Responses of vLLM with its per-request metrics, as JSON Lines, for intervals over requests.",
            show_default=False,
        ),
    ] = None,
    draft_cost: DraftCost = None,
    verify_cost: VerifyCost = None,
    overhead: Overhead = None,
    costs: CostsFile = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Read a running server's counters: what its speculation does, and which num_spec_tokens it should use."""
    options = _options(dict(locals()))
    if [url is not None, bool(file), responses is not None].count(True) != 1:
        raise UsageError(
            "name a server or files of its metrics, or a log of its responses",
            "draftpick observe http://localhost:8000",
        )
    from draftpick import observe as observing
    from draftpick.report import saved

    if costs is not None and (draft_cost, verify_cost, overhead) != (None, None, None):
        raise UsageError("costs were given twice", "leave out --costs, or the numbers")
    priced = observing.costs_from_numbers(draft_cost, verify_cost if verify_cost is not None else 1.0, overhead or 0.0)
    if costs is not None:
        from draftpick.probe_file import read_costs

        priced = observing.costs_from_file(read_costs(costs), str(costs))
    if responses is not None:
        found = observing.observe_responses(_response_log(responses, interval), priced)
    else:
        scrapes = _saved_scrapes(file, interval) if file else _scrapes(str(url), interval)
        found = observing.observe(scrapes, priced)
    wanted = _format(options)
    if wanted is Format.table:
        from draftpick.report import observe as report

        text = report.table(found, **console.screen(no_color, output))
    else:
        text = saved.write(found, wanted.value)
    console.write(text, output)
    raise typer.Exit(0 if exit_zero else found.exit_code)


def _response_log(path: Path, interval: float | None) -> "Log":
    from draftpick.responses import read

    if interval is not None:
        raise UsageError("--interval and responses were both given", "--interval is for a server")
    return read(path)


def _saved_scrapes(files: list[Path], interval: float | None) -> "list[Scrape]":
    from draftpick import scrape
    from draftpick.counters import FAMILIES

    if len(files) > 2 or interval is not None:
        raise UsageError(
            f"{len(files)} files were given" if len(files) > 2 else "--interval and files were both given",
            "give one file, or two: --file before.txt --file after.txt; --interval is for a server",
        )
    return [scrape.from_file(path, FAMILIES) for path in files]


def _scrapes(url: str, interval: float | None) -> "list[Scrape]":
    """One look at a server, or two with the interval between them."""
    import time

    from draftpick import scrape
    from draftpick.counters import FAMILIES

    found = [scrape.from_server(url, FAMILIES)]
    if interval is not None:
        with console.Progress() as say:
            say(f"looking again in {interval:g} s")
            time.sleep(interval)
        found.append(scrape.from_server(url, FAMILIES))
    return found


def report(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON that `recommend`, `check`, `plan`, `probe`, `gate` or `observe` wrote.",
            show_default=False,
        ),
    ],
    output_format: SavedFormat = ReportFormat.markdown,
    output: Output = None,
    quiet: Quiet = None,
) -> None:
    """Write a saved answer anew: Markdown to paste, a page with plots, or figures for a spreadsheet."""
    _options(dict(locals()))
    from draftpick.report import saved

    found = saved.read(file)
    text = saved.write(found, output_format.value)
    if output_format is ReportFormat.github:
        _summarise(found)
    console.write(text, output)


def doctor(
    offline: Offline = None,
    catalog_folder: Overlay = None,
    output_format: OutputFormat = None,
    json: AsJson = False,
    output: Output = None,
    exit_zero: ExitZero = None,
    quiet: Quiet = None,
    no_color: NoColor = None,
) -> None:
    """Look at this machine: devices, torch, torch_npu, CANN, hubs, caches; what does not work, and how to mend it."""
    options = _options(dict(locals()))
    from draftpick.doctor import examine

    found = examine(offline=bool(options["offline"]), overlay=catalog_folder)
    wanted = _format(options)
    if wanted is Format.table:
        from draftpick.report.doctor import table

        text = table(found.lines, quiet=bool(quiet), **console.screen(no_color, output))
    else:
        from draftpick.doctor_file import recorded

        text = _written(recorded(found), wanted)
    console.write(text, output)
    raise typer.Exit(0 if exit_zero else found.exit_code)


def rules(
    name: Annotated[
        str | None,
        typer.Argument(help="One rule, as size-ratio.", show_default=False, autocompletion=completion.rules),
    ] = None,
    no_color: NoColor = None,
) -> None:
    """What the rules check, why, and what to do about it."""
    from draftpick.report.rules import all_rules, one_rule

    text = all_rules(**console.screen(no_color)) if name is None else one_rule(name, **console.screen(no_color))
    console.write(text, None)


def catalog_list(
    kind: Annotated[
        str,
        typer.Option(help="models, heads, tokenizers, engines, devices or issues.", autocompletion=completion.kinds),
    ] = "models",
    family: Annotated[
        str | None,
        typer.Option(help="Only this family, as Qwen.", show_default=False, autocompletion=completion.families),
    ] = None,
    catalog_folder: Overlay = None,
    json: AsJson = False,
    output: Output = None,
    no_color: NoColor = None,
) -> None:
    """List what the catalogue holds."""
    from draftpick.catalog import load
    from draftpick.report.catalog import listing

    console.write(listing(load(catalog_folder), kind, family=family, as_json=json, **console.screen(no_color)), output)


def catalog_show(
    name: Annotated[
        str,
        typer.Argument(
            help="A model, head, tokenizer, engine or device.", show_default=False, autocompletion=completion.records
        ),
    ],
    catalog_folder: Overlay = None,
    json: AsJson = False,
    output: Output = None,
    no_color: NoColor = None,
) -> None:
    """Show one record with its source, the date it was checked, and which fields are uncertain."""
    from draftpick.catalog import load
    from draftpick.report.catalog import one_record

    console.write(one_record(load(catalog_folder), name, as_json=json, **console.screen(no_color)), output)


def catalog_validate(
    folder: Annotated[
        Path | None,
        typer.Argument(help="An overlay; without it, draftpick's own catalogue and your overlay.", show_default=False),
    ] = None,
) -> None:
    """Check records against their schema, and parameter counts against the dimensions."""
    from draftpick.report.catalog import validation

    text, passed = validation(folder)
    console.write(text, None)
    raise typer.Exit(0 if passed else 2)


def catalog_add(
    model: Annotated[str, typer.Argument(help="Folder, GGUF file or hub id.", show_default=False)],
    model_id: Annotated[str | None, typer.Option("--id", help="Id to file it under.", show_default=False)] = None,
    catalog_folder: Overlay = None,
    revision: Revision = None,
    offline: Offline = None,
) -> None:
    """Write what a model's files say into an overlay, by default the one in your configuration folder."""
    from draftpick.catalog import load, user_folder
    from draftpick.models import resolve
    from draftpick.overlay import add_to_overlay, left_unknown
    from draftpick.report.text import printable

    folder = catalog_folder or user_folder()
    if folder is None:
        raise UsageError("there is no home folder to write to", "name a folder with --catalog")
    # A row that is replaced tells nothing of the model, and may be the one that has to be mended.
    catalog = load(folder if folder.exists() else None, without=model_id or model)
    profile = resolve(model, catalog, revision=revision, offline=bool(offline), id=model_id)
    path = add_to_overlay(profile, folder, catalog, model_id=model_id)
    console.remark(f"written to {path}")
    for line in left_unknown(profile):
        console.remark(f"warning: {printable(model)}: {line}, and add it again")


# ---------------------------------------------------------------------- the application

COMMANDS: dict[str, tuple[Callable[..., None], str, tuple[str, ...]]] = {
    "recommend": (
        recommend,
        "Choose",
        (
            "draftpick recommend Qwen/Qwen2.5-72B-Instruct --engine vllm-ascend",
            "draftpick recommend Qwen/Qwen3-32B --engine vllm --device h100-80g -tp 2 --json -o advice.json",
        ),
    ),
    "check": (
        check,
        "Choose",
        (
            "draftpick check Qwen/Qwen3-32B Qwen/Qwen3-0.6B",
            "draftpick check Qwen/Qwen3-32B Qwen/Qwen3-0.6B --engine vllm-ascend --device 910b3 -tp 4",
        ),
    ),
    "probe": (
        probe,
        "Choose",
        (
            "draftpick probe Qwen/Qwen3-1.7B Qwen/Qwen3-0.6B -o probe.json",
            "draftpick probe --target-url http://localhost:8000 --draft-url http://localhost:8001 -o probe.json",
        ),
    ),
    "plan": (
        plan,
        "Choose",
        (
            "draftpick plan probe.json --engine vllm-ascend --device 910b3 --max-num-seqs 16",
            "draftpick plan --acceptance-rate 0.65 --draft-cost 0.05",
        ),
    ),
    "launch": (launch, "Use", ("draftpick launch advice.json > start.sh",)),
    "gate": (
        gate,
        "Watch",
        ("draftpick gate --init advice.json -o pairs.toml", "draftpick gate pairs.toml --format github"),
    ),
    "observe": (observe, "Watch", ("draftpick observe http://localhost:8000 --interval 60 --draft-cost 0.05",)),
    "report": (
        report,
        "Choose",
        ("draftpick report advice.json", "draftpick report probe.json --format html -o probe.html"),
    ),
    "rules": (rules, "Look up", ("draftpick rules size-ratio",)),
    "doctor": (doctor, "Look up", ("draftpick doctor",)),
}
CATALOG_COMMANDS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "list": (catalog_list, ("draftpick catalog list --kind devices", "draftpick catalog list --family Qwen")),
    "show": (catalog_show, ("draftpick catalog show Qwen/Qwen3-32B",)),
    "validate": (catalog_validate, ("draftpick catalog validate", "draftpick catalog validate my-rows/")),
    "add": (catalog_add, ("draftpick catalog add ./my-finetune --id acme/my-finetune",)),
}


def _examples(lines: Sequence[str]) -> str:
    """What stands below the options of a command."""
    return "\n\n".join(f"Example: {line}" for line in lines)


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """The whole application, or just the command that `arguments` ask for: typer pays for each one at start-up."""
    names = (*COMMANDS, "catalog")
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    wanted = (asked,) if asked in names else names
    built = typer.Typer(
        name="draftpick",
        help="Which draft model to put in front of a target for speculative decoding, in which engine, or none.",
        epilog=_examples(COMMANDS["recommend"][2][:1]),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    built.callback()(_draftpick)
    for name, (command, panel, examples) in COMMANDS.items():
        if name in wanted:
            built.command(name, rich_help_panel=panel, epilog=_examples(examples))(command)
    if "catalog" in wanted:
        catalog_help = "The models, heads, tokenizers, engines and devices that draftpick knows."
        group = typer.Typer(help=catalog_help, no_args_is_help=True)
        for name, (command, examples) in CATALOG_COMMANDS.items():
            group.command(name, epilog=_examples(examples))(command)
        built.add_typer(group, name="catalog", rich_help_panel="Look up")
    return built


app = application()


# ---------------------------------------------------------------------- shared by the commands


def _options(command_line: dict[str, Any]) -> dict[str, Any]:
    """The options of a command with those of its config file."""
    console.be_quiet(command_line["quiet"])
    options = merged(command_line)
    console.be_quiet(options["quiet"])
    return options


def _answer(found: "Advice | Numbers", options: dict[str, Any]) -> None:
    """Render, write, and exit with the code of the answer."""
    from draftpick import commands

    wanted = _format(options)
    if wanted is Format.table:
        text = _table(found, options)
    else:
        text = _as_text(commands.document(found, options), wanted, options)
    console.write(text, options["output"])
    raise typer.Exit(0 if options["exit_zero"] else found.exit_code)


def _table(found: "Advice | Numbers", options: dict[str, Any]) -> str:
    from draftpick.planning import Numbers

    screen = console.screen(options["no_color"], options["output"])
    if isinstance(found, Numbers):
        from draftpick.report import plan

        return plan.table(found, **screen)
    from draftpick.report import table

    return table.render(
        found, **screen, explain=bool(options.get("explain")), everything=bool(options.get("everything"))
    )


def _format(options: dict[str, Any]) -> Format:
    return Format.json if options["json"] else options["output_format"] or Format.table


def _as_text(document: dict[str, Any], wanted: Format, options: dict[str, Any]) -> str:
    """The document of an answer, as JSON or as a report made from it."""
    if wanted is Format.json:
        from draftpick.report.text import json_text

        return json_text(document) + "\n"
    from draftpick.advice_file import advice_of
    from draftpick.report import saved

    explain, everything = bool(options.get("explain")), bool(options.get("everything"))
    overlay = options["catalog_folder"]
    return saved.write(
        advice_of(document), wanted.value, explain=explain, everything=everything, catalog_folder=overlay
    )


def _written(found: "DoctorFile", wanted: Format) -> str:
    """A document in a format that is no table."""
    if wanted is Format.json:
        from draftpick.report.text import json_text

        return json_text(found.model_dump(mode="json")) + "\n"
    from draftpick.report import saved

    return saved.write(found, wanted.value)


def _show_probe(found: "ProbeFile", options: dict[str, Any]) -> None:
    """With --output the file gets the JSON, which plans are made from, and the table still goes to stdout; a report
    that is asked for goes to the file, with the JSON beside it.
    """
    from draftpick.report import probe as report
    from draftpick.report import saved

    output, wanted = options["output"], _format(options)
    to_file = output is not None and str(output) != "-"
    if to_file and wanted in (Format.markdown, Format.html):
        kept = saved.beside(output)
        console.write(report.json(found), kept)
        console.remark(f"the probe itself is kept in {kept}")
    elif to_file and wanted is Format.table:
        console.write(report.json(found), output)
        output = None
    if wanted is Format.table:
        text = report.table(found, **console.screen(options["no_color"]))
    else:
        text = saved.write(found, wanted.value)
    console.write(text, output)


def _ask(what: str) -> bool:
    """Whether something large may be fetched, where somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm(f"{what}?", err=True)


def main() -> None:
    """Entry point: runs the command that was typed."""
    arguments = respelled(sys.argv[1:])
    console.run(lambda: application(arguments)(arguments))
