"""Options that commands share: spelled once, and the file that may set them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from draftpick import completion
from draftpick.errors import InvalidFile, UsageError
from draftpick.option_values import Unfit, meant, share, spelled, whole
from draftpick.pair import SPELLINGS, STOP_RULES, WORKLOADS


class GateFormat(str, Enum):
    """How the result of a gate is written."""

    table = "table"
    json = "json"
    markdown = "markdown"
    github = "github"
    junit = "junit"
    sarif = "sarif"


class Format(str, Enum):
    """How an answer is written."""

    table = "table"
    json = "json"
    markdown = "markdown"
    html = "html"


class ReportFormat(str, Enum):
    """How a saved answer is written anew."""

    markdown = "markdown"
    html = "html"
    json = "json"
    csv = "csv"
    speculation_profile = "speculation-profile"
    github = "github"
    junit = "junit"
    sarif = "sarif"


_WHERE, _REQUESTS, _RULES, _OUTPUT = "Where the pair runs", "Requests", "Rules", "Output"

Target = Annotated[
    str,
    typer.Argument(
        help="Hub id, local folder, GGUF file or catalogue alias.",
        show_default=False,
        autocompletion=completion.models,
    ),
]
Draft = Annotated[
    str,
    typer.Argument(
        help="The draft: a model or a published head.", show_default=False, autocompletion=completion.drafts
    ),
]
Drafts = Annotated[
    list[str] | None,
    typer.Option(
        "--draft-model",
        "-d",
        metavar="MODEL",
        help="Judge only this draft, a model or a published head; repeat for several. Default: all that are found.",
        show_default=False,
        autocompletion=completion.drafts,
    ),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="NAME or NAME@VERSION, as vllm-ascend@0.18.0. Default: one that the answer names.",
        rich_help_panel=_WHERE,
        autocompletion=completion.engines,
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="As 910b3 or atlas-800i-a2; auto, npu:1 or cuda for one that is here; `draftpick catalog list --kind "
        "devices` shows all. Default: one that the answer names.",
        rich_help_panel=_WHERE,
        autocompletion=completion.devices,
    ),
]
TensorParallel = Annotated[
    int | None,
    typer.Option(
        "--tensor-parallel-size",
        "-tp",
        parser=whole("--tensor-parallel-size"),
        metavar="N",
        help="Devices that a model is split over. Default: 1; a prediction takes as many as hold the weights.",
        rich_help_panel=_WHERE,
    ),
]
ModelLength = Annotated[
    int | None,
    typer.Option(
        "--max-model-len",
        parser=whole("--max-model-len"),
        metavar="N",
        help="Longest context, in tokens. Default: the target's, 8192 at most.",
        rich_help_panel=_WHERE,
    ),
]
Sequences = Annotated[
    int | None,
    typer.Option(
        "--max-num-seqs",
        parser=whole("--max-num-seqs"),
        metavar="N",
        help="Sequences served at once. Default: 1.",
        rich_help_panel=_WHERE,
    ),
]
SpecTokens = Annotated[
    int | None,
    typer.Option(
        "--num-speculative-tokens",
        "-k",
        parser=whole("--num-speculative-tokens"),
        metavar="N",
        help="Tokens drafted per step, 1 to 64. Default: the best; a probe tries all up to 8.",
        rich_help_panel=_WHERE,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="bfloat16, float16 or float32. Default: the checkpoint's.",
        rich_help_panel=_WHERE,
        autocompletion=completion.words("auto", "bfloat16", "float16", "float32"),
    ),
]
Quantization = Annotated[
    str | None,
    typer.Option(
        "--quantization",
        metavar="NAME",
        help="Quantisation of the target, as awq or w8a8. Default: the checkpoint's.",
        rich_help_panel=_WHERE,
    ),
]
DraftQuantization = Annotated[
    str | None,
    typer.Option(
        "--draft-quantization",
        metavar="NAME",
        help="Quantisation of the draft, as awq or w8a8. Default: the checkpoint's.",
        rich_help_panel=_WHERE,
    ),
]
CacheDtype = Annotated[
    str | None,
    typer.Option(
        "--kv-cache-dtype",
        metavar="DTYPE",
        help="Type of the KV cache, as fp8 or int8. Default: the model's.",
        rich_help_panel=_WHERE,
        autocompletion=completion.cache_types,
    ),
]
Utilization = Annotated[
    float | None,
    typer.Option(
        "--gpu-memory-utilization",
        parser=share("--gpu-memory-utilization"),
        metavar="SHARE",
        help="Share of a device's memory that the engine may take, 0.05 to 1. Default: the engine's, mostly 0.9.",
        rich_help_panel=_WHERE,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory of one device, as 64GB or 60.9GiB. Default: --device's own.",
        rich_help_panel=_WHERE,
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth",
        metavar="RATE",
        help="Memory bandwidth of one device, as 1600GB/s. Default: --device's own.",
        rich_help_panel=_WHERE,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        parser=share("--temperature"),
        metavar="T",
        help="Temperature of the requests; 0 is greedy. Default: 0.",
        rich_help_panel=_REQUESTS,
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="KIND",
        help=f"Kind of text: {', '.join(WORKLOADS[:-1])} or {WORKLOADS[-1]}. Default: a mix.",
        rich_help_panel=_REQUESTS,
        autocompletion=completion.words(*WORKLOADS),
    ),
]
InputLength = Annotated[
    int | None,
    typer.Option(
        "--input-len",
        parser=whole("--input-len"),
        metavar="N",
        help="Length of a prompt, in tokens. Default: not known.",
        rich_help_panel=_REQUESTS,
    ),
]
OutputLength = Annotated[
    int | None,
    typer.Option(
        "--output-len",
        parser=whole("--output-len"),
        metavar="N",
        help="Length of an answer, in tokens; the time of whole requests is told, too. Default: not known.",
        rich_help_panel=_REQUESTS,
    ),
]
StopRule = Annotated[
    str | None,
    typer.Option(
        "--stop-rule",
        metavar="RULE",
        help="When a draft ends: fixed, heuristic or confidence. Default: the engine's own rule.",
        rich_help_panel=_WHERE,
        autocompletion=completion.words(*STOP_RULES),
    ),
]
Images = Annotated[
    bool | None,
    typer.Option(
        "--images/--no-images",
        help="Whether requests carry images. Default: not known.",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        metavar="NAME",
        help="Revision of the model (of a pair: the target's). Default: what is found.",
        rich_help_panel="Models",
    ),
]
RemoteCode = Annotated[
    bool | None,
    typer.Option(
        "--trust-remote-code/--no-trust-remote-code",
        help="The engine would run a model's own code; draftpick itself never does.",
        show_default=False,
        rich_help_panel="Models",
    ),
]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--online",
        help="Never ask a model hub (also HF_HUB_OFFLINE=1).",
        show_default=False,
        rich_help_panel="Models",
    ),
]
Overlay = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="DIR",
        help="Folder with catalogue rows of your own, an overlay. Default: that of your configuration.",
        rich_help_panel="Models",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="RULE",
        help="Run only this rule (`draftpick rules` lists them); repeat for several. Default: all.",
        rich_help_panel=_RULES,
        autocompletion=completion.rules,
        show_default=False,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="RULE=REASON",
        help="Show the finding of this rule, do not count it; repeat for several.",
        rich_help_panel=_RULES,
        show_default=False,
        autocompletion=completion.ignored,
    ),
]
RulesFile = Annotated[
    Path | None,
    typer.Option(
        "--rules-file",
        metavar="FILE",
        help="TOML file with select and the tables weights and ignore.",
        rich_help_panel=_RULES,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file that sets any of these options; the command line wins.",
        rich_help_panel=_OUTPUT,
    ),
]
ChosenDraft = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        "-d",
        metavar="MODEL",
        help="Another of the drafts in the file. Default: that of the decision.",
        show_default=False,
    ),
]
ChosenMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="Another method, as ngram or mtp. Default: that of the decision.",
        show_default=False,
    ),
]
OutputFormat = Annotated[
    Format | None,
    typer.Option(
        "--format", metavar="FORMAT", help="table, json, markdown or html. Default: table.", rich_help_panel=_OUTPUT
    ),
]
GateOutputFormat = Annotated[
    GateFormat | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, json, markdown, github, junit or sarif. Default: table.",
        rich_help_panel=_OUTPUT,
    ),
]
SavedFormat = Annotated[
    ReportFormat,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="markdown, html, json, csv, speculation-profile, github, junit or sarif. Default: markdown.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="The same as --format json.", rich_help_panel=_OUTPUT),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to this file. Default: stdout.", rich_help_panel=_OUTPUT
    ),
]
Explain = Annotated[
    bool | None,
    typer.Option(
        "--explain/--no-explain",
        help="Show every finding of each draft that is listed.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Everything = Annotated[
    bool | None,
    typer.Option(
        "--all/--no-all", help="Judge and show the whole catalogue.", show_default=False, rich_help_panel=_OUTPUT
    ),
]
ExitZero = Annotated[
    bool | None,
    typer.Option(
        "--exit-zero/--no-exit-zero",
        help="Exit with 0 also when the answer is no.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool | None,
    typer.Option("--quiet/--no-quiet", "-q", help="No hints on stderr.", show_default=False, rich_help_panel=_OUTPUT),
]
NoColor = Annotated[
    bool | None,
    typer.Option(
        "--no-color/--color", help="No colours (also NO_COLOR=1).", show_default=False, rich_help_panel=_OUTPUT
    ),
]

_MEASURED = "What is measured"
_SERVED = "Models that servers have"


def _whole(option: str, help: str, panel: str = _MEASURED) -> Any:
    return typer.Option(option, parser=whole(option), metavar="N", help=help, rich_help_panel=panel)


TorchDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="npu, npu:0, cuda:1, mps, cpu or auto. Default: auto.",
        rich_help_panel=_WHERE,
        autocompletion=completion.torch_devices,
    ),
]
LoadedDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="bfloat16, float16 or float32. Default: float32 on a CPU, else the checkpoint's.",
        rich_help_panel=_WHERE,
        autocompletion=completion.words("auto", "bfloat16", "float16", "float32"),
    ),
]
Attention = Annotated[
    str | None,
    typer.Option(
        "--attention",
        metavar="NAME",
        help="sdpa, eager or another of transformers. Default: what transformers chooses.",
        rich_help_panel=_WHERE,
    ),
]
Temperatures = Annotated[
    list[float] | None,
    typer.Option(
        "--temperature",
        parser=share("--temperature"),
        metavar="T",
        help="Temperature at which the target writes; 0 is greedy; repeat for several. Default: 0.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
TopK = Annotated[int | None, _whole("--top-k", "Sample among so many of the likeliest tokens; 0: all. Default: 0.")]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        parser=share("--top-p"),
        metavar="SHARE",
        help="Sample among the likeliest tokens of this share, 0.01 to 1. Default: 1.",
        rich_help_panel=_MEASURED,
    ),
]
Seed = Annotated[int | None, _whole("--seed", "Seed of what is sampled. Default: 0.")]
Thinking = Annotated[
    bool | None,
    typer.Option(
        "--thinking/--no-thinking",
        help="What the target's chat template is told, if it has the switch. Default: nothing.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help='JSON Lines: {"prompt": "…", "domain": "…"}. Default: prompts that come with draftpick.',
        rich_help_panel=_MEASURED,
    ),
]
Responses = Annotated[
    Path | None,
    typer.Option(
        "--responses",
        metavar="FILE",
        help='JSON Lines of the target\'s own answers, instead of prompts: {"prompt": "…", "response": "…"}.',
        rich_help_panel=_MEASURED,
    ),
]
TargetUrl = Annotated[
    str | None,
    typer.Option(
        "--target-url",
        metavar="URL",
        help="OpenAI-compatible server of the target, as http://localhost:8000.",
        rich_help_panel=_SERVED,
    ),
]
DraftUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--draft-url",
        metavar="URL",
        help="Server of a draft; repeat for several.",
        show_default=False,
        rich_help_panel=_SERVED,
    ),
]
SpeculatingUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--speculating-url",
        metavar="K=URL",
        help="Server of the target that drafts K tokens per step, to time whole steps; repeat for several K.",
        show_default=False,
        rich_help_panel=_SERVED,
    ),
]
ServedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="What the target's server calls it. Default: the only one it serves.",
        rich_help_panel=_SERVED,
    ),
]
NumPrompts = Annotated[int | None, _whole("--num-prompts", "Most prompts to use. Default: all there are.")]
NewTokens = Annotated[int | None, _whole("--max-new-tokens", "Longest answer, in tokens. Default: 128.")]
BatchSize = Annotated[int | None, _whole("--batch-size", "Answers written at once; it changes no figure. Default: 8.")]
Precision = Annotated[
    float | None,
    typer.Option(
        "--precision",
        parser=share("--precision"),
        metavar="SHARE",
        help="Half-width of the acceptance rate that is enough, 0 to 0.5; 0: use all prompts. Default: 0.05.",
        rich_help_panel=_MEASURED,
    ),
]
TimeLimit = Annotated[
    int | None, _whole("--time-limit", "Seconds after which no more prompts are begun. Default: 900.")
]
CostsFrom = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="HOW",
        help="measured, roofline (leave them to `plan`), or a JSON file with times. Default: measured.",
        rich_help_panel=_MEASURED,
    ),
]
DraftCost = Annotated[
    float | None,
    typer.Option(
        "--draft-cost",
        metavar="RATIO",
        help="Time of a drafted token, in plain steps of the target; 0 for n-gram lookup.",
        show_default=False,
    ),
]
VerifyCost = Annotated[
    float | None,
    typer.Option(
        "--verify-cost", metavar="RATIO", help="Time of a verification, in plain steps of the target. Default: 1."
    ),
]
Overhead = Annotated[
    float | None,
    typer.Option(
        "--overhead", metavar="RATIO", help="What a step with a draft adds, in plain steps of the target. Default: 0."
    ),
]
PlanCosts = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="HOW",
        help="served (those of the probe's servers, wherever it is planned for), synthetic (start vLLM here and time "
        "it), or a JSON file with times. Default: as probed, else predicted.",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
CostsFile = Annotated[
    Path | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        help="JSON file with times of a step, as `probe --costs` takes it.",
        show_default=False,
    ),
]
TimedBatches = Annotated[
    list[int] | None,
    typer.Option(
        "--timed-batch",
        parser=whole("--timed-batch"),
        metavar="N",
        help="Sequences at once for which steps are timed; repeat for several. Default: 1.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
Context = Annotated[
    int | None, _whole("--context", "Tokens in the cache when steps are timed. Default: as in the texts.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="fixed, rate, heuristic, confidence, p-min or all: adaptive lengths replayed on the probe's trace.",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
ProbeBest = Annotated[
    bool | None,
    typer.Option(
        "--probe/--no-probe",
        help="Measure the first drafts on this machine, then rank by what was measured.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
Verify = Annotated[int | None, _whole("--verify", "Also run transformers' assisted generation with this k, 1 to 64.")]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Where the trace is written as it goes. Default: beside --output.",
        rich_help_panel=_OUTPUT,
    ),
]
Resume = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume", help="Go on with a trace that is there.", show_default=False, rich_help_panel=_OUTPUT
    ),
]
Yes = Annotated[
    bool | None,
    typer.Option(
        "--yes/--ask", "-y", help="Fetch weights without asking.", show_default=False, rich_help_panel="Models"
    ),
]


def merged(command_line: dict[str, Any]) -> dict[str, Any]:
    """The options of a command with those of its `--config` file below them.

    Raises UsageError or InvalidFile for a file that is not there or says something no option means.
    """
    path = command_line.pop("config", None)
    if path is None:
        return command_line
    values = dict(command_line)
    known, of_probe = spelled(command_line), "timed_batch" in command_line
    for key, value in _read_config(path).items():
        option = key.replace("_", "-")
        name = known.get(SPELLINGS.get(option, option))
        if name is None:
            raise UsageError(f"{path}: unknown option {key!r:.60}", _near(key, known))
        checked = _checked(path, key, name, value, of_probe)
        if name == "json":
            name, checked = "output_format", Format.json if checked else None
        if values[name] is None:
            values[name] = checked
    return values


def _read_config(path: Path) -> Mapping[str, Any]:
    from draftpick.toml_file import read_toml

    try:
        path.stat()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", "name an existing TOML file with --config") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name an existing TOML file with --config") from None
    return read_toml(path, "mend the line named, or leave --config out")


def _checked(path: Path, key: str, name: str, value: Any, of_probe: bool) -> Any:
    try:
        found = meant(name, value, of_probe=of_probe)
    except Unfit as unfit:
        raise InvalidFile(f"{path}: {key} = {unfit.value!r:.60}", f"{key} takes {unfit.wanted}") from None
    if name == "output_format":
        if value not in Format.__members__:
            raise InvalidFile(f"{path}: {key} = {value!r:.60}", f"{key} is one of {', '.join(Format.__members__)}")
        return Format(value)
    return found


def _near(key: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
