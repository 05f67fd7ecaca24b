"""Options that commands share: spelled once, and the file that may set them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from draftpick.errors import InvalidFile, UsageError
from draftpick.option_values import Unfit, meant, share, spelled, whole
from draftpick.pair import WORKLOADS


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

Target = Annotated[str, typer.Argument(help="Hub id, local folder, GGUF file or catalogue alias.", show_default=False)]
Draft = Annotated[str, typer.Argument(help="The draft: a model or a published head.", show_default=False)]
Drafts = Annotated[
    list[str] | None,
    typer.Option(
        "--draft-model", "-d", help="Of all drafts, judge only this one; repeat for several.", show_default=False
    ),
]
EngineName = Annotated[
    str | None,
    typer.Option("--engine", help="NAME or NAME@VERSION, as vllm-ascend@0.18.0.", rich_help_panel=_WHERE),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="As 910b3 or atlas-800i-a2; auto, npu:1 or cuda for one that is here; `draftpick catalog list --kind "
        "devices` shows all.",
        rich_help_panel=_WHERE,
    ),
]
TensorParallel = Annotated[
    int | None,
    typer.Option(
        "--tensor-parallel-size",
        "-tp",
        parser=whole("--tensor-parallel-size"),
        metavar="N",
        help="Devices a model is split over.",
        rich_help_panel=_WHERE,
    ),
]
ModelLength = Annotated[
    int | None,
    typer.Option(
        "--max-model-len",
        parser=whole("--max-model-len"),
        metavar="N",
        help="Longest context in tokens.",
        rich_help_panel=_WHERE,
    ),
]
Sequences = Annotated[
    int | None,
    typer.Option(
        "--max-num-seqs",
        parser=whole("--max-num-seqs"),
        metavar="N",
        help="Sequences served at once.",
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
        help="Tokens drafted per step.",
        rich_help_panel=_WHERE,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option("--dtype", help="bfloat16, float16 or float32, if not the checkpoint's.", rich_help_panel=_WHERE),
]
Quantization = Annotated[
    str | None,
    typer.Option("--quantization", help="Quantisation of the target, as awq or w8a8.", rich_help_panel=_WHERE),
]
DraftQuantization = Annotated[
    str | None,
    typer.Option("--draft-quantization", help="Quantisation of the draft.", rich_help_panel=_WHERE),
]
CacheDtype = Annotated[
    str | None,
    typer.Option("--kv-cache-dtype", help="fp8, int8 …, if not the model's.", rich_help_panel=_WHERE),
]
Utilization = Annotated[
    float | None,
    typer.Option(
        "--gpu-memory-utilization",
        parser=share("--gpu-memory-utilization"),
        metavar="SHARE",
        help="Of a device's memory, that the engine may take.",
        rich_help_panel=_WHERE,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Of one device, as 64GB or 60.9GiB, if not --device's own.", rich_help_panel=_WHERE),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth", help="Of one device's memory, as 1600GB/s, if not --device's own.", rich_help_panel=_WHERE
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        parser=share("--temperature"),
        metavar="T",
        help="Of the requests; 0 is greedy.",
        rich_help_panel=_REQUESTS,
    ),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", help=f"{', '.join(WORKLOADS[:-1])} or {WORKLOADS[-1]}.", rich_help_panel=_REQUESTS),
]
InputLength = Annotated[
    int | None,
    typer.Option(
        "--input-len",
        parser=whole("--input-len"),
        metavar="N",
        help="Tokens of a prompt.",
        rich_help_panel=_REQUESTS,
    ),
]
OutputLength = Annotated[
    int | None,
    typer.Option(
        "--output-len",
        parser=whole("--output-len"),
        metavar="N",
        help="Tokens of an answer.",
        rich_help_panel=_REQUESTS,
    ),
]
StopRule = Annotated[
    str | None,
    typer.Option(
        "--stop-rule",
        help="When a draft ends: fixed, heuristic or confidence, if not by the engine's own rule.",
        rich_help_panel=_WHERE,
    ),
]
Images = Annotated[
    bool | None,
    typer.Option(
        "--images/--no-images", help="Whether requests carry images.", show_default=False, rich_help_panel=_WHERE
    ),
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", help="Revision of the model (of a pair: the target's).", rich_help_panel="Models"),
]
RemoteCode = Annotated[
    bool | None,
    typer.Option(
        "--trust-remote-code/--no-trust-remote-code",
        help="The engine would run a model's own code. draftpick itself never does.",
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
    typer.Option("--catalog", help="Overlay: a folder with catalogue rows of your own.", rich_help_panel="Models"),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        help="Run only this rule (`draftpick rules` lists them); repeat for several.",
        rich_help_panel=_RULES,
        show_default=False,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="RULE=reason: show the finding, do not count it; repeat for several.",
        rich_help_panel=_RULES,
        show_default=False,
    ),
]
RulesFile = Annotated[
    Path | None,
    typer.Option("--rules-file", help="TOML with select and the tables weights and ignore.", rich_help_panel=_RULES),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="TOML that sets any of these options; the command line wins.", rich_help_panel=_OUTPUT
    ),
]
ChosenDraft = Annotated[
    str | None,
    typer.Option("--draft-model", "-d", help="Another of the drafts in the file.", show_default=False),
]
ChosenMethod = Annotated[
    str | None,
    typer.Option("--method", help="Another method, as ngram or mtp.", show_default=False),
]
OutputFormat = Annotated[
    Format | None,
    typer.Option("--format", help="How to write the answer.", rich_help_panel=_OUTPUT),
]
GateOutputFormat = Annotated[
    GateFormat | None,
    typer.Option("--format", help="How to write the result.", rich_help_panel=_OUTPUT),
]
SavedFormat = Annotated[ReportFormat, typer.Option("--format", help="How to write it.", rich_help_panel=_OUTPUT)]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="The same as --format json.", rich_help_panel=_OUTPUT),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to this file instead of stdout.", rich_help_panel=_OUTPUT),
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
    typer.Option("--device", help="npu, npu:0, cuda:1, mps, cpu or auto (default).", rich_help_panel=_WHERE),
]
LoadedDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="bfloat16, float16 or float32: by default float32 on a CPU, else the checkpoint's.",
        rich_help_panel=_WHERE,
    ),
]
Attention = Annotated[
    str | None,
    typer.Option("--attention", help="sdpa, eager or another implementation of transformers.", rich_help_panel=_WHERE),
]
Temperatures = Annotated[
    list[float] | None,
    typer.Option(
        "--temperature",
        parser=share("--temperature"),
        metavar="T",
        help="At which the target writes; 0 is greedy, the default. Repeat for several.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
TopK = Annotated[int | None, _whole("--top-k", "Sample among so many tokens; 0: all.")]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        parser=share("--top-p"),
        metavar="SHARE",
        help="Sample among the likeliest tokens of this share.",
        rich_help_panel=_MEASURED,
    ),
]
Seed = Annotated[int | None, _whole("--seed", "Of what is sampled.")]
Thinking = Annotated[
    bool | None,
    typer.Option(
        "--thinking/--no-thinking",
        help="What the target's chat template is told, if it has the switch.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option("--prompts", help='JSON Lines: {"prompt": "…", "domain": "…"}.', rich_help_panel=_MEASURED),
]
Responses = Annotated[
    Path | None,
    typer.Option(
        "--responses",
        help='JSON Lines of the target\'s own answers: {"prompt": "…", "response": "…"}.',
        rich_help_panel=_MEASURED,
    ),
]
TargetUrl = Annotated[
    str | None,
    typer.Option(
        "--target-url", metavar="URL", help="An OpenAI-compatible server of the target.", rich_help_panel=_SERVED
    ),
]
DraftUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--draft-url",
        metavar="URL",
        help="A server of a draft; repeat for several.",
        show_default=False,
        rich_help_panel=_SERVED,
    ),
]
SpeculatingUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--speculating-url",
        metavar="K=URL",
        help="A server of the target that drafts K tokens per step, to time whole steps; repeat for several K.",
        show_default=False,
        rich_help_panel=_SERVED,
    ),
]
ServedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="What the target's server calls it, if it serves several.",
        rich_help_panel=_SERVED,
    ),
]
NumPrompts = Annotated[int | None, _whole("--num-prompts", "The most prompts to use.")]
NewTokens = Annotated[int | None, _whole("--max-new-tokens", "The longest answer.")]
BatchSize = Annotated[int | None, _whole("--batch-size", "Answers written at once; it changes no figure.")]
Precision = Annotated[
    float | None,
    typer.Option(
        "--precision",
        parser=share("--precision"),
        metavar="SHARE",
        help="Half-width of the acceptance rate that is enough; 0: use all prompts.",
        rich_help_panel=_MEASURED,
    ),
]
TimeLimit = Annotated[int | None, _whole("--time-limit", "Seconds after which no more prompts are begun.")]
CostsFrom = Annotated[
    str | None,
    typer.Option(
        "--costs",
        help="measured (the default), roofline (leave them to `plan`), or a JSON file with times.",
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
        "--verify-cost", metavar="RATIO", help="Time of a verification, in plain steps of the target; 1 without it."
    ),
]
Overhead = Annotated[
    float | None,
    typer.Option(
        "--overhead", metavar="RATIO", help="What a step with a draft adds, in plain steps of the target; 0 without it."
    ),
]
PlanCosts = Annotated[
    str | None,
    typer.Option(
        "--costs",
        help="served (those of the probe's servers, wherever it is planned for), synthetic (start vLLM here and time "
        "it), or a JSON file with times.",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
CostsFile = Annotated[
    Path | None,
    typer.Option("--costs", help="JSON with times of a step, as `probe --costs` takes it.", show_default=False),
]
TimedBatches = Annotated[
    list[int] | None,
    typer.Option(
        "--timed-batch",
        parser=whole("--timed-batch"),
        metavar="N",
        help="Sequences at once for which steps are timed; repeat for several.",
        show_default=False,
        rich_help_panel=_MEASURED,
    ),
]
Context = Annotated[int | None, _whole("--context", "Tokens in the cache when steps are timed.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
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
Verify = Annotated[int | None, _whole("--verify", "Also run transformers' assisted generation with this k.")]
TracePath = Annotated[
    Path | None, typer.Option("--trace", help="Where the trace is written as it goes.", rich_help_panel=_OUTPUT)
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
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise UsageError(f"{path}: unknown option {key!r}", _near(key, known))
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
        raise InvalidFile(f"{path}: {key} = {unfit.value!r}", f"{key} takes {unfit.wanted}") from None
    if name == "output_format":
        if value not in Format.__members__:
            raise InvalidFile(f"{path}: {key} = {value!r}", f"{key} is one of {', '.join(Format.__members__)}")
        return Format(value)
    return found


def _near(key: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
