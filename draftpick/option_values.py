"""What the values of options may be, and what they mean: the same for a command line, a config file and a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from draftpick.catalog import Catalog
from draftpick.errors import UsageError
from draftpick.pair import SPELLINGS, STOP_RULES, WORKLOADS, Device, Setting

if TYPE_CHECKING:
    from draftpick.evidence import Evidence
    from draftpick.gate_file import PairRow


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
            refuse(option, text, f"a whole number from {low} to {high}")
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
            refuse(option, text, f"a number from {low:g} to {high:g}")
        return number

    return parse


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
    "update_baseline",
}
_RATIOS = {
    "acceptance_rate",
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "draft_cost",
    "verify_cost",
    "overhead",
}
"""Numbers of `plan`, which says itself what of them cannot be."""
_LISTS = {"draft_model", "select", "ignore", "policy", "draft_url", "speculating_url"}
_OF_PROBE = {"temperature", "timed_batch", "draft"}
"""Those of which the probe, which measures several at once, takes several; one value is one of them."""
ARGUMENTS = ("target", "draft", "probe_file", "policy_file")
_PATHS = {"catalog_folder", "rules_file", "output", "prompts", "responses", "trace", "probe_file", "policy_file"}
PARAMETERS = {"all": "everything", "probe": "probe_best", "format": "output_format", "catalog": "catalog_folder"}
"""Options whose parameter has another name, because Python has taken the option's."""


class Unfit(Exception):
    """A value that an option does not take."""

    def __init__(self, value: Any, wanted: str) -> None:
        super().__init__(wanted)
        self.value = value
        self.wanted = wanted
        """What the option takes, in words."""


def meant(name: str, value: Any, *, of_probe: bool = False) -> Any:
    """A value of a parameter as commands take it: a path as a Path. `of_probe`: some take lists as well.

    Raises Unfit.
    """
    if of_probe and name in _OF_PROBE and isinstance(value, list) and value:
        return [meant(name, one) for one in value]
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name in _INTEGERS:
        low, high = _INTEGERS[name]
        fits, wanted = real and isinstance(value, int) and low <= value <= high, f"a whole number from {low} to {high}"
    elif name in _NUMBERS:
        least, most = _NUMBERS[name]
        fits, wanted = real and least <= value <= most, f"a number from {least:g} to {most:g}"
    elif name in _RATIOS:
        fits, wanted = real and abs(value) <= 1e15, "a number"
    elif name in _SWITCHES:
        fits, wanted = isinstance(value, bool), "true or false"
    elif name in _LISTS:
        fits, wanted = isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of texts"
    else:
        fits, wanted = isinstance(value, str), "a text"
    if not fits:
        raise Unfit(value, wanted)
    if name in _NUMBERS or name in _RATIOS:
        return float(value)
    return Path(value) if name in _PATHS else value


def takes_several(name: str, *, of_probe: bool) -> bool:
    """Whether a parameter takes several values; `of_probe`: of the command that takes several where others take one."""
    return name in _LISTS or (of_probe and name in _OF_PROBE)


def refuse(option: str, value: Any, wanted: str) -> NoReturn:
    """Raise UsageError for a value that an option does not take."""
    raise UsageError(f"{option} is {str(value)[:40]!r}", f"give {wanted}")


_NOT_ASKED = {"json", "output_format", "output", "explain", "exit_zero", "quiet", "no_color", "yes", "trace", "resume"}
"""How an answer is shown or kept, or how it comes about: what it says is the same without."""


def asked(command: str, values: Mapping[str, Any], present: Device | None = None) -> dict[str, Any]:
    """What was typed, set in a config file or called with, as an answer keeps it: models, and options that change it.

    `present` is the device of this machine that `--device auto` or npu:1 meant.
    """
    given = {name: value for name, value in values.items() if value not in (None, [])}
    named = {option: given[parameter] for option, parameter in spelled(given).items() if parameter not in _NOT_ASKED}
    if present is not None and _here(str(named.get("device"))) is not None:
        named["device"] = present.key
    drafts, place = given.get("draft", []), given.get("probe_file")
    return {
        # What is no file cannot be named in a command.
        "command": command if place is None or isinstance(place, Path) else None,
        "target": given.get("target"),
        "drafts": [drafts] if isinstance(drafts, str) else list(drafts),
        "probe_file": str(place) if isinstance(place, Path) else None,
        "options": {option: str(value) if isinstance(value, Path) else value for option, value in named.items()},
    }


def spelled(parameters: Iterable[str]) -> dict[str, str]:
    """Options as they are spelled on the command line, without the dashes before them → parameter."""
    taken = {parameter: option for option, parameter in PARAMETERS.items()}
    options = (parameter for parameter in parameters if parameter not in ARGUMENTS)
    return {taken.get(parameter, parameter).replace("_", "-"): parameter for parameter in options}


def respelled(arguments: Sequence[str]) -> list[str]:
    """A command line in the spellings of the options here, where engines take others: `--tp 8`, `-tp8`, and
    `--max_model_len`. Help has one spelling of each.
    """
    ours: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return ours + list(arguments[at:])
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            option = name[2:].replace("_", "-")
            ours.append(f"--{SPELLINGS.get(option, option)}{equals}{value}")
        elif name.startswith("-tp") and name != "-tp":
            ours += ["-tp", argument.removeprefix("-tp")]
        else:
            ours.append(argument)
    return ours


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
        quantization=_quantization(values["quantization"], "--quantization"),
        draft_quantization=_quantization(values["draft_quantization"], "--draft-quantization"),
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


def _quantization(asked: str | None, option: str) -> str | None:
    """A format whose bits are known: with another nothing could be judged. Raises UsageError."""
    from draftpick.choices import GGUF_BITS, STORED_BITS
    from draftpick.sizes import stored_bits

    if asked is None or stored_bits(asked) is not None:
        return asked
    gguf, stored = (", ".join(choice.name for choice in table) for table in (GGUF_BITS, STORED_BITS))
    raise UsageError(
        f"{option} is {asked[:40]!r}, which does not say how many bits a weight takes",
        f"name one that tells its bits, as gptq-int4, awq or w8a8; known: {stored}; of GGUF: {gguf}",
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
