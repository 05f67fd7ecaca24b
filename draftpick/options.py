"""Options that commands share: spelled once, and the file that may set them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftpick.catalog import Catalog
from draftpick.errors import InvalidFile, UsageError
from draftpick.pair import STOP_RULES, WORKLOADS, Device, Setting

if TYPE_CHECKING:
    from draftpick.evidence import Evidence
    from draftpick.gate_file import PairRow


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


_INTEGERS = {
    "tensor_parallel_size": (1, 1024),
    "max_model_len": (1, 1 << 30),
    "max_num_seqs": (1, 1 << 20),
    "num_speculative_tokens": (1, 64),
    "input_len": (1, 1 << 30),
    "output_len": (1, 1 << 30),
    "num_prompts": (1, 100_000),
    "max_new_tokens": (2, 1 << 20),
    "batch_size": (1, 4096),
    "timed_batch": (1, 4096),
    "time_limit": (1, 1 << 30),
    "context": (1, 1 << 24),
    "seed": (0, 2**63 - 1),
    "top_k": (0, 1 << 20),
    "verify": (1, 64),
}
_NUMBERS = {
    "gpu_memory_utilization": (0.05, 1.0),
    "temperature": (0.0, 10.0),
    "precision": (0.0, 0.5),
    "top_p": (0.01, 1.0),
    "interval": (0.01, 86_400.0),
}


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def whole(option: str) -> Callable[[str], int]:
    """A parser of whole numbers in an option's range. typer's own prints it in a column of its own in every help."""
    low, high = _INTEGERS[_parameter(option)]

    def parse(text: str | int) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise UsageError(f"{option} is {str(text)[:40]!r}", f"give a whole number from {low} to {high}")
        return number

    return parse


def share(option: str) -> Callable[[str], float]:
    """A parser of numbers in an option's range."""
    low, high = _NUMBERS[_parameter(option)]

    def parse(text: str | float) -> float:
        try:
            number = float(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise UsageError(f"{option} is {str(text)[:40]!r}", f"give a number from {low:g} to {high:g}")
        return number

    return parse


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
    float,
    typer.Option("--verify-cost", metavar="RATIO", help="Time of a verification, in plain steps of the target."),
]
Overhead = Annotated[
    float,
    typer.Option("--overhead", metavar="RATIO", help="What a step with a draft adds, in plain steps of the target."),
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
        parser=whole("--batch-size"),
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

_SWITCHES = {
    "images",
    "trust_remote_code",
    "offline",
    "json",
    "explain",
    "everything",
    "exit_zero",
    "quiet",
    "no_color",
    "thinking",
    "resume",
    "yes",
    "probe_best",
}
_LISTS = {"draft_model", "select", "ignore", "policy", "draft_url", "speculating_url"}
_NUMBER_LISTS = {"temperature", "timed_batch"}
"""Of the probe, which measures several at once; one number is one of them."""
_ARGUMENTS = ("target", "draft", "probe_file")
_PATHS = {"catalog_folder", "rules_file", "output", "prompts", "responses", "trace"}
_PARAMETERS = {"all": "everything", "probe": "probe_best", "format": "output_format", "catalog": "catalog_folder"}
"""Options whose parameter has another name, because Python has taken the option's."""


def merged(command_line: dict[str, Any]) -> dict[str, Any]:
    """The options of a command with those of its `--config` file below them.

    Raises UsageError or InvalidFile for a file that is not there or says something no option means.
    """
    path = command_line.pop("config", None)
    if path is None:
        return command_line
    values = dict(command_line)
    known = _names(command_line)
    for key, value in _read_config(path).items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise UsageError(f"{path}: unknown option {key!r:.60}", _near(key, known))
        checked = _checked(path, key, name, value)
        if name == "json":
            name, checked = "output_format", Format.json if checked else None
        if values[name] is None:
            values[name] = checked
    return values


_NOT_ASKED = {"json", "output_format", "output", "explain", "exit_zero", "quiet", "no_color", "yes", "trace", "resume"}
"""How an answer is shown or kept, or how it comes about: what it says is the same without."""
_DEFAULTS = {"verify_cost": 1.0, "overhead": 0.0}


def asked(command: str, values: Mapping[str, Any], present: Device | None = None) -> dict[str, Any]:
    """What was typed, or set in a config file, as an answer keeps it: the models, and the options that change it.

    `present` is the device of this machine that `--device auto` or npu:1 meant.
    """
    given = {name: value for name, value in values.items() if value not in (None, [], _DEFAULTS.get(name))}
    named = {option: given[parameter] for option, parameter in _names(given).items() if parameter not in _NOT_ASKED}
    if present is not None and _here(str(named.get("device"))) is not None:
        named["device"] = present.key
    drafts = given.get("draft", [])
    return {
        "command": command,
        "target": given.get("target"),
        "drafts": [drafts] if isinstance(drafts, str) else list(drafts),
        "probe_file": str(given["probe_file"]) if "probe_file" in given else None,
        "options": {option: str(value) if isinstance(value, Path) else value for option, value in named.items()},
    }


def _names(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Options as they are spelled on the command line, without the dashes before them → parameter."""
    spelled = {parameter: option for option, parameter in _PARAMETERS.items()}
    options = (parameter for parameter in parameters if parameter not in _ARGUMENTS)
    return {spelled.get(parameter, parameter).replace("_", "-"): parameter for parameter in options}


def _read_config(path: Path) -> Mapping[str, Any]:
    from draftpick.toml_file import read_toml

    try:
        path.stat()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", "name an existing TOML file with --config") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name an existing TOML file with --config") from None
    return read_toml(path, "mend the line named, or leave --config out")


def _checked(path: Path, key: str, name: str, value: Any) -> Any:
    if name in _NUMBER_LISTS and isinstance(value, list) and value:
        return [_checked(path, key, name, one) for one in value]
    if name in _INTEGERS:
        low, high = _INTEGERS[name]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        wanted = f"a whole number from {low} to {high}"
    elif name in _NUMBERS:
        least, most = _NUMBERS[name]
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
        wanted = f"a number from {least:g} to {most:g}"
    elif name in _SWITCHES:
        fits, wanted = isinstance(value, bool), "true or false"
    elif name in _LISTS:
        fits, wanted = isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of texts"
    else:
        fits, wanted = isinstance(value, str), "a text"
    if not fits:
        raise InvalidFile(f"{path}: {key} = {value!r:.60}", f"{key} takes {wanted}")
    if name == "output_format":
        if value not in Format.__members__:
            raise InvalidFile(f"{path}: {key} = {value!r:.60}", f"{key} is one of {', '.join(Format.__members__)}")
        return Format(value)
    return Path(value) if name in _PATHS else value


def _near(key: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"


_DTYPES = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32"}
"""Other spellings that engines take."""


def dtype_of(asked: str | None) -> str | None:
    """The name of a dtype as torch has it; None for the checkpoint's own. Raises UsageError."""
    if asked is None or asked.strip().lower() == "auto":
        return None
    name = _DTYPES.get(asked.strip().lower(), asked.strip().lower())
    if name not in _DTYPES.values():
        raise UsageError(f"unknown dtype {asked!r}", "one of bfloat16, float16, float32, or auto for the checkpoint's")
    return name


def setting(values: Mapping[str, Any], catalog: Catalog) -> Setting:
    """Where the pair runs, from the options of a command."""
    return Setting(
        engine=catalog.engine(values["engine"]) if values["engine"] is not None else None,
        device=_device(values["device"], catalog),
        tensor_parallel_size=values["tensor_parallel_size"] or 1,
        max_model_len=values["max_model_len"],
        max_num_seqs=values["max_num_seqs"],
        num_spec_tokens=values["num_speculative_tokens"],
        dtype=dtype_of(values["dtype"]),
        quantization=values["quantization"],
        draft_quantization=values["draft_quantization"],
        images=values["images"],
        trust_remote_code=bool(values["trust_remote_code"]),
        kv_cache_dtype=values["kv_cache_dtype"],
        gpu_memory_utilization=values["gpu_memory_utilization"],
        memory=_amount(values["memory"], "--memory", "64GB or 60.9GiB"),
        bandwidth=_rate(values["bandwidth"]),
        temperature=values["temperature"],
        workload=_one_of(values["workload"], "--workload", WORKLOADS),
        input_len=values["input_len"],
        output_len=values["output_len"],
        stop_rule=_one_of(values["stop_rule"], "--stop-rule", STOP_RULES),
    )


def pair_options(pair: PairRow) -> dict[str, Any]:
    """The options of a command that judges one pair of a policy."""
    own = {
        "num_speculative_tokens": pair.num_spec_tokens,
        **{name: getattr(pair, name) for name in _OF_PAIRS},
    }
    return {**dict.fromkeys(_OF_SETTINGS), **own}


_OF_PAIRS = ("engine", "device", "tensor_parallel_size", "max_model_len", "max_num_seqs", "temperature")
_OF_SETTINGS = (
    "dtype",
    "quantization",
    "draft_quantization",
    "images",
    "trust_remote_code",
    "kv_cache_dtype",
    "gpu_memory_utilization",
    "memory",
    "bandwidth",
    "workload",
    "input_len",
    "output_len",
    "stop_rule",
)


def measured_place(where: Setting, catalog: Catalog, measured: Evidence) -> Setting:
    """A setting for what was measured: in its engine, where nobody named another, another device or another load."""
    if measured.served:
        return _served_place(where, catalog, measured)
    # The software that is timed speculates for one sequence alone.
    several = (where.max_num_seqs or 1) > 1
    if where.engine is not None or several or measured.priced_here(where, measured.engine) is None:
        return where
    return where._replace(engine=catalog.engine(measured.engine))


def _served_place(where: Setting, catalog: Catalog, measured: Evidence) -> Setting:
    """Where servers have the pair, as far as that was said, where nobody names another place."""
    from draftpick.evidence import UNLISTED

    here = where if where.engine is not None else where._replace(engine=catalog.engine(measured.engine))
    if where.device is not None or measured.device.vendor == UNLISTED:
        return here
    devices = measured.devices if where.tensor_parallel_size == 1 else where.tensor_parallel_size
    return here._replace(device=measured.device, tensor_parallel_size=devices)


def _device(asked: str | None, catalog: Catalog) -> Device | None:
    if asked is None:
        return None
    here = _here(asked)
    if here is None:
        return catalog.device(asked)
    from draftpick.devices import find, first

    kind, index = here
    chip = first() if kind == "auto" else find(kind, index)
    return catalog.device_seen(chip.name, chip.memory_bytes) if chip is not None else catalog.device("cpu")


def _here(asked: str) -> tuple[str, int] | None:
    """Kind and index of a device of this machine, as auto, npu or cuda:1; None for a key of the catalogue."""
    kind, colon, index = asked.strip().lower().partition(":")
    if kind not in ("auto", "npu", "cuda", "mps") or (colon and kind == "auto"):
        return None
    if not colon:
        return kind, 0
    return (kind, int(index)) if index.isascii() and index.isdecimal() and len(index) < 5 else None


def _one_of(asked: str | None, option: str, known: tuple[str, ...]) -> str | None:
    if asked is None or asked in known:
        return asked
    raise UsageError(f"{option} is {asked[:40]!r}", f"one of {', '.join(known)}")


# Memory is labelled in powers of two, whatever the unit is called: a card of "12 GB" holds 12 GiB.
_UNITS = {"mb": 2**20, "gb": 2**30, "tb": 2**40, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def _amount(text: str | None, option: str, example: str) -> int | None:
    """Bytes from text such as 64GB or 60.9GiB. Raises UsageError."""
    if text is None:
        return None
    plain = text.strip().lower().replace(" ", "")
    number = plain.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = _UNITS.get(plain[len(number) :])
    try:
        amount = float(number) * (unit or 0)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e18:
        raise UsageError(f"{option} is {text!r}", f"give an amount above 0 with its unit, as {example}")
    return int(amount)


def _rate(text: str | None) -> float | None:
    """Bytes per second from text such as 1600GB/s or 1.6TB/s; data sheets count in powers of ten. Raises UsageError."""
    if text is None:
        return None
    plain = text.strip().lower().replace(" ", "").removesuffix("/s").removesuffix("ps")
    number = plain.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = {"mb": 1e6, "gb": 1e9, "tb": 1e12, "gib": 2.0**30, "tib": 2.0**40}.get(plain[len(number) :])
    try:
        found = float(number) * (unit or 0)
    except ValueError:
        found = 0.0
    if not 1e6 <= found < 1e18:
        raise UsageError(f"--bandwidth is {text[:40]!r}", "give a rate above 0 with its unit, as 1600GB/s or 1.6TB/s")
    return found
