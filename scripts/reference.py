"""Writes docs/reference from the code and the catalogue, so that a page of reference says nothing that they do not.

`python scripts/reference.py` writes the pages that are kept in git; a test compares them. The catalogue's thousands of
rows would churn there: their pages are made for the site alone, by scripts/site.py.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from draftpick import choices, counters, speedup
from draftpick.catalog import Catalog, load, packed_folder
from draftpick.choices import Choice, choices_of
from draftpick.cli import application
from draftpick.errors import UsageError
from draftpick.report.markdown import text
from draftpick.report.text import count
from draftpick.rules import load as load_rules

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py. -->"
_ADDRESS = re.compile(r"https?://[^\s;,()<>]+[^\s;,()<>.:]")

EXIT_CODES = {
    "0": "done; the gate passed; something fits and speculation is not advised against",
    "1": "judged, and the answer is no",
    "2": "usage, an impossible value, an unknown engine or device, a corrupt or invalid file",
    "3": "could not judge: a model, server or device that is missing or out of reach; a full disk",
    "70": "a bug in draftpick; `DRAFTPICK_DEBUG=1` shows the traceback",
    "130": "interrupted; what was measured is kept",
}
EXITS = {
    "recommend": "1: nothing fits, or do not speculate. 3: the target cannot be found.",
    "check": "1: the draft does not fit, or do not speculate. 3: a model cannot be found.",
    "probe": "1: do not speculate with any of the drafts. 3: nothing can be measured here. 130: interrupted, and "
    "`--resume` goes on from the trace.",
    "plan": "1: do not speculate. 2: a file that is no probe.",
    "launch": "1: what is written is not what was decided on, or the decision is not to speculate. 2: the engine "
    "cannot be started so.",
    "gate": "1: a pair failed. 3: no pair could be judged.",
    "observe": "1: do not speculate. 3: the server does not answer, or has drafted nothing.",
    "report": "2: a file that no command wrote.",
    "rules": "2: no rule of that name.",
    "doctor": "1: something that is installed or set does not work.",
    "catalog list": "2: an unknown kind or family.",
    "catalog show": "2: nothing of that name.",
    "catalog validate": "2: a record is wrong.",
    "catalog add": "2: the folder holds no model. 3: the model cannot be found.",
}
"""What a command's codes mean, beside those that all share."""

VARIABLES = {
    "DRAFTPICK_API_KEY": "The key for servers of models (`probe --target-url`, `observe`), sent as bearer token.",
    "DRAFTPICK_DEBUG": "1: a bug shows its traceback instead of one line.",
    "HF_HUB_OFFLINE": "1: no model hub is asked, as with `--offline`.",
    "TRANSFORMERS_OFFLINE": "The same.",
    "HF_ENDPOINT": "Address of another hub, or of a mirror of it.",
    "HF_HOME": "Where the caches of Hugging Face lie, unless one of the next two says.",
    "HF_HUB_CACHE": "Where models of Hugging Face are cached.",
    "HUGGINGFACE_HUB_CACHE": "The older name of it.",
    "HF_HUB_DISABLE_XET": "Set to 1, unless it is set: for the few small files that are fetched.",
    "MODELSCOPE_CACHE": "Where models of ModelScope are cached.",
    "MODELSCOPE_DOMAIN": "Which ModelScope `doctor` asks.",
    "XDG_CACHE_HOME": "Where the caches lie if none of the above says; `~/.cache` without it.",
    "XDG_CONFIG_HOME": "Where your own overlay lies, in `draftpick/catalog`; `~/.config` without it.",
    "NO_COLOR": "Set to anything: no colours, as with `--no-color`.",
    "TERM": "`dumb`: no colours.",
    "GITHUB_STEP_SUMMARY": "The file that `--format github` adds the job's summary to; GitHub sets it.",
    "ASCEND_TOOLKIT_HOME": "Where CANN lies; its `set_env.sh` sets it.",
    "ASCEND_HOME_PATH": "The same, in older releases.",
    "ASCEND_RT_VISIBLE_DEVICES": "Which NPUs a process may use: numbers with commas.",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0: torch does not load torch_npu by itself. draftpick sets it where torch_npu is "
    "installed and CANN is not, so that torch can be imported.",
    "HTTP_PROXY, HTTPS_PROXY": "The proxy for requests to hubs and servers; in small letters too.",
}
"""Variables that the code reads, in the order of the page; tests/test_reference.py holds that none is missing."""


# ---------------------------------------------------------------------- Markdown


def page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", MADE, *parts)) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()) -> str:
    right = set(numeric)
    rule = ("---:" if place in right else "---" for place in range(len(header)))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, tuple(rule), *rows))


def prose(plain: Any) -> str:
    """Text of the catalogue, escaped, with its addresses as links."""
    words, place, shown = str(plain), 0, ""
    for found in _ADDRESS.finditer(words):
        shown += _kept(words[place : found.start()]) + f"<{found[0]}>"
        place = found.end()
    return shown + _kept(words[place:])


def _kept(part: str) -> str:
    """Escaped text with the blank at either end that joins it to a link."""
    return f"{' ' * part.startswith(' ')}{text(part)}{' ' * part.endswith(' ')}" if part.strip() else part


def code(*names: Any) -> str:
    return ", ".join("`" + str(name).replace("|", "\\|") + "`" for name in names)


def sources(record: Mapping[str, Any]) -> str:
    found = record.get("source", ())
    return "; ".join(prose(one) for one in ([found] if isinstance(found, str) else found))


def _read(record: Mapping[str, Any]) -> str:
    return f"{sources(record)} (read {record['checked']})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 and value == int(value) else f"{value:.6g}"


def anchor(title: str) -> str:
    """What GitHub and the site make of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


# ---------------------------------------------------------------------- commands


def commands() -> str:
    """Every command with its arguments, options, values, defaults, example and exit codes."""
    group = typer.main.get_command(application())
    by_name = dict(_flat(group))
    lead = (
        "`draftpick COMMAND --help` says the same. Options may also stand in a TOML file, `--config FILE`, under their "
        "names without the dashes; the command line wins. Times are in seconds, memory in bytes with a unit (`64GB`, "
        "`60.9GiB`: powers of two), bandwidth in bytes per second (`1600GB/s`: powers of ten), costs in plain steps of "
        "the target, shares from 0 to 1, lengths in tokens."
    )
    codes = table(("exit code", "meaning, in every command"), ([code, why] for code, why in EXIT_CODES.items()))
    more = "`--exit-zero` turns 1 into 0. Results go to stdout, all else to stderr."
    index = table(
        ("command", "what it does"),
        ([f"[`{name}`](#{anchor('draftpick ' + name)})", _first_line(one.help)] for name, one in by_name.items()),
    )
    shell = (
        "## Completion\n\n`draftpick --install-completion` sets up Tab for the shell you are in (bash, zsh, fish, "
        "PowerShell): commands, options, and what the catalogue knows: engines, devices, models, heads and rules. "
        "`draftpick --show-completion` prints the lines instead."
    )
    return page("Commands", lead, index, codes, more, *(_command(name, one) for name, one in by_name.items()), shell)


def _flat(group: Any, before: str = "") -> Iterable[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _flat(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _first_line(help: str | None) -> str:
    return (help or "").split("\n", 1)[0]


def _command(name: str, command: Any) -> str:
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = [_argument(one) for one in arguments]
    parts = [
        f"## draftpick {name}",
        command.help or "",
        f"```text\ndraftpick {' '.join((name, *words, '[OPTIONS]'))}\n```",
        "```sh\n" + "\n".join(re.findall(r"Example: (.+)", command.epilog or "")) + "\n```",
    ]
    if arguments:
        parts.append(table(("argument", "what it is"), ([code(_argument(one)), one.help or ""] for one in arguments)))
    panel = lambda one: one.rich_help_panel or "Options"  # noqa: E731
    order = list(dict.fromkeys(map(panel, options)))
    for title, ours in groupby(sorted(options, key=lambda one: order.index(panel(one))), key=panel):
        header = (title.lower() if title != "Options" else "option", "value", "default", "what it says")
        parts.append(table(header, map(_option, ours)))
    parts.append(f"Exit codes: {EXITS[name]}")
    return "\n\n".join(parts)


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]")
    name += "..." if one.nargs == -1 else ""
    return name if one.required else f"[{name}]"


def _option(one: Any) -> list[str]:
    spelled = [f"`{name}`" for name in (*one.opts, *one.secondary_opts)]
    help, _, told = (one.help or "").partition(" Default: ")
    default = code(getattr(one.default, "value", one.default)) if one.default not in (None, False, (), []) else ""
    many = " Repeat for several." if one.multiple and "repeat" not in help.lower() else ""
    row = (told.rstrip(".") or default, f"{help}{many}")
    return [", ".join(spelled), _values(one), *(cell.replace("|", "\\|") for cell in row)]


def _values(one: Any) -> str:
    if one.is_flag:
        return ""
    if hasattr(one.type, "choices"):
        return code(*(getattr(choice, "value", choice) for choice in one.type.choices))
    named = code(
        one.metavar
        or {"path": "FILE", "directory": "FOLDER"}.get(one.type.name, one.type.name.upper().replace("STR", "TEXT"))
    )
    return f"{named}, {limits}" if (limits := _range(one.type)) else named


def _range(kind: Any) -> str:
    """What a parser of the command line says of the numbers it takes."""
    try:
        kind.func("")
    except UsageError as error:
        return error.hint.removeprefix("give a ")
    except AttributeError:
        pass
    return ""


# ---------------------------------------------------------------------- rules and choices


def rules() -> str:
    """Every rule: what it asks, why, when not, what to do, its weight and its limits."""
    known = load_rules()
    lead = (
        "A rule asks one thing of a pair and answers `ok`, `warn`, `reject` or `skip` (a fact is missing). The score "
        "of a draft is the weighted mean of the answers; one `reject` makes a pair unviable. `draftpick rules NAME` "
        "shows a rule, `--ignore NAME=reason` keeps its finding in sight without counting it, `--select NAME` runs it "
        "alone, and a `--rules-file` changes weights."
    )
    index = table(
        ("rule", "about", "weight", "severest answer", "what it asks"),
        (
            [f"[`{name}`](#{name})", rule.family, number(choices.WEIGHTS.get(name, 1)), severest(rule), rule.title]
            for name, rule in known.items()
        ),
        numeric=(2,),
    )
    return page("Rules", lead, index, *(_rule(name, rule) for name, rule in known.items()))


def _rule(name: str, rule: Any) -> str:
    told = [prose(" ".join(part.split())) for part in rule.doc.split("\n\n")[1:]]
    led = [re.sub(r"^(Why|Exception|Remedy):", r"**\1:**", part) for part in told]
    reads = f"It reads: {code(*rule.reads)}." if rule.reads else ""
    chosen = table(
        ("choice", "value", "why"), ([code(one.name), number(one.value), prose(one.why)] for one in choices_of(name))
    )
    return "\n\n".join(filter(None, (f"## {name}", f"*{rule.title}*", *led, reads, chosen)))


def severest(rule: Any) -> str:
    """The severest answer in a rule's own code, or in the functions of its module that it calls."""
    module = inspect.getmodule(rule.check)
    todo, seen, named = [rule.check], set(), set()
    while todo:
        function = todo.pop()
        seen.add(function)
        names = {node.id for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Name)}
        named |= names
        called = (getattr(module, name, None) for name in names)
        todo += [
            one for one in called if inspect.isfunction(one) and inspect.getmodule(one) is module and one not in seen
        ]
    return next((kind for kind in ("reject", "warn", "ok") if kind in named), "skip")


_TABLES: tuple[tuple[str, str, Sequence[Choice]], ...] = (
    ("Choosing the number of tokens", "What `recommend`, `check`, `plan` and `probe` decide by.", speedup.CHOICES),
    ("Costs", "What a step costs where neither the device's nor the engine's file says.", choices.COST_TABLE),
    ("Acceptance", "What the estimate from published measurements assumes.", choices.PRIOR_TABLE),
    ("Probe", "How long a probe goes on, and what makes its figures doubtful.", choices.PROBE_TABLE),
    ("Gate", "What is taken for worse where a policy does not say.", choices.GATE_TABLE),
    ("Servers", "When counters of a running server decide.", counters.CHOICES),
    (
        "Memory",
        "What a budget takes for granted; `name.engine` or `name.vendor` goes before `name`.",
        choices.MEMORY_TABLE,
    ),
    ("Bits of a weight in GGUF files", "By the name of the mixture; the first that fits.", choices.GGUF_BITS),
    ("Bits of a quantised weight", "By what the format's name holds; the first that fits.", choices.STORED_BITS),
    ("Doctor", "When a check warns.", choices.DOCTOR_TABLE),
)


def chosen() -> str:
    """Every number that somebody chose, with its reason."""
    lead = (
        "Numbers that are facts stand in the catalogue with a source and a date. These are choices: somebody's "
        "judgement, each with its reason. Those of a rule can be changed with `--rules-file`."
    )
    weights = table(
        ("rule", "weight", "why"),
        (
            [f"[`{one.name}`](rules.md#{one.name})", number(one.value), prose(one.why)]
            for one in choices.TABLE
            if "." not in one.name
        ),
        numeric=(1,),
    )
    limits = _choices([one for one in choices.TABLE if "." in one.name])
    others = (f"## {title}\n\n{about}\n\n{_choices(ours)}" for title, about, ours in _TABLES)
    scale = "10 decides about use or uselessness; 5 moves the speed-up by a lot, 2 by a little; 1 informs."
    return page("Choices", lead, f"## Weights of rules\n\n{scale}", weights, "## Limits of rules", limits, *others)


def _choices(ours: Iterable[Choice]) -> str:
    rows = ([code(one.name), number(one.value), prose(one.why)] for one in ours)
    return table(("choice", "value", "why"), rows, numeric=(1,))


def environment() -> str:
    """Every variable of the environment that is read."""
    lead = "No variable is needed. Options of the command line go before them."
    rows = ([code(*name.split(", ")), meaning] for name, meaning in VARIABLES.items())
    more = (
        "The libraries beneath read more of their own: huggingface_hub takes `HF_TOKEN` for gated repositories, torch "
        "takes `CUDA_VISIBLE_DEVICES`."
    )
    return page("Environment variables", lead, table(("variable", "meaning"), rows), more)


# ---------------------------------------------------------------------- engines, devices, issues


def engines() -> str:
    """Every engine: the version its facts hold for, its vocabularies, methods, limits and refusals."""
    catalog = load()
    records = {key: catalog.record("engines", key) for key in catalog.engines}
    lead = (
        "What each engine takes, in the version that the facts hold for; `--engine NAME@VERSION` asks for another, and "
        "rows with *since* or *until* then count accordingly (*until* is the first version where a row no longer "
        "holds). `draftpick catalog show NAME` prints the whole record."
    )
    index = table(
        ("engine", "name", "facts hold for", "checked", "other spellings"),
        (
            [
                f"[`{key}`](#{anchor(key)})",
                one["name"],
                str(one["version"]),
                str(one["checked"]),
                code(*one.get("aliases", ())),
            ]
            for key, one in records.items()
        ),
    )
    return page("Engines", lead, index, *(_engine(key, one) for key, one in records.items()))


def _engine(key: str, one: Mapping[str, Any]) -> str:
    vocabulary = one.get("vocabulary", {})
    parts = [
        f"## {key}",
        f"{one['name']} {one['version']}, checked on {one['checked']}. Source: {sources(one)}",
        f"**Vocabularies:** {code(vocabulary['rule'])}{_severity(vocabulary)}. Source: {sources(vocabulary)}",
        table(
            ("method", "support", "since", "what to know", "source"),
            (_method(*item) for item in one["methods"].items()),
        ),
    ]
    for name, title in (("limits", "Limit"), ("tensor_parallel", "Devices of the draft")):
        if facts := one.get(name):
            said = [
                f"{label} {value}"
                for label, value in facts.items()
                if isinstance(value, (int, str)) and label not in _ELSEWHERE
            ]
            parts.append(
                f"**{title}:** {prose('; '.join(said))}{_note(facts)}{_severity(facts)}. Source: {sources(facts)}"
            )
    if refused := one.get("exceptions"):
        header = ("verdict", "where", "why", "versions", "source")
        parts.append(table(header, map(_exception, refused)))
    parts += ["\n".join(f"- {prose(note)}" for note in one["notes"])] if one.get("notes") else []
    return "\n\n".join(parts)


_ELSEWHERE = ("source", "severity", "note", "was")
_NOT_CONDITIONS = ("verdict", "severity", "reason", "source", "since", "until", "certain", "was")


def _note(facts: Mapping[str, Any]) -> str:
    return f" ({prose(facts['note'])})" if facts.get("note") else ""


def _severity(facts: Mapping[str, Any]) -> str:
    return f"; {facts['severity']}" if facts.get("severity") else ""


def _method(name: str, facts: Mapping[str, Any]) -> list[str]:
    told = [facts.get("note"), facts.get("needs")]
    told += [f"at most {facts['max_num_spec_tokens']} tokens" if "max_num_spec_tokens" in facts else None]
    return [
        code(name),
        facts["support"],
        str(facts.get("since", "")),
        prose("; ".join(filter(None, told))),
        sources(facts),
    ]


def _exception(row: Mapping[str, Any]) -> list[str]:
    where = "; ".join(f"{name}: {_condition(value)}" for name, value in row.items() if name not in _NOT_CONDITIONS)
    verdict = row["verdict"] + (f" ({row['severity']})" if row.get("severity") else "")
    why = re.sub(r"\{(\w+)\}", lambda found: _OF_THE_PAIR[found[1]], row["reason"])
    return [verdict, prose(where), prose(why), _window(row), sources(row)]


_OF_THE_PAIR = {
    "target": "the target",
    "draft": "the draft",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
}
"""What a reason names of the pair that is judged."""


def _condition(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_condition(wanted)}" for name, wanted in value.items())
    if isinstance(value, list):
        return " or ".join(map(_condition, value))
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _window(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name} {row[name]}" for name in ("since", "until") if name in row)


def devices() -> str:
    """Every device: what a prediction reads of it, its other names, sources and dates."""
    catalog = load()
    records = {key: catalog.record("devices", key) for key in catalog.devices}
    lead = (
        "One row is one device that a process sees. `--device` takes the key or another name; `auto`, `npu:1` or "
        "`cuda` mean one that is here. Memory is what is sold; bandwidth and operations per second are dense peaks. A "
        "dash is not known, and nothing is guessed: without a bandwidth nothing is predicted there. "
        "*In doubt* are fields that were recalled or inferred, not read."
    )
    header = ("device", "name", "memory, GiB", "bandwidth, GB/s", "16 bits, TFLOP/s", "bfloat16", "FP8", "also called")
    by_vendor = groupby(sorted(records.items(), key=lambda item: item[1]["vendor"]), key=lambda item: item[1]["vendor"])
    parts = []
    for vendor, ours in by_vendor:
        rows = list(ours)
        parts += [
            f"## {_VENDORS.get(vendor, vendor)}",
            table(header, (_device(*item) for item in rows), numeric=(2, 3, 4)),
        ]
        read = (
            [
                code(key),
                str(one["checked"]),
                code(*one.get("uncertain", ())) if one.get("uncertain") else "",
                _notes(one),
                sources(one),
            ]
            for key, one in rows
        )
        parts.append(table(("device", "checked", "in doubt", "notes", "source"), read))
    return page("Devices", lead, *parts)


_VENDORS = {
    "huawei": "Huawei Ascend",
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "apple": "Apple",
    "intel": "Intel",
    "generic": "Others",
}


def _device(key: str, one: Mapping[str, Any]) -> list[str]:
    scaled = (
        (name, one[name] / unit if one.get(name) else None)
        for name, unit in (("memory_bytes", 2**30), ("bandwidth", 1e9), ("peak_fp16", 1e12))
    )
    figures = ["–" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for _, value in scaled]
    flags = [{True: "yes", False: "no"}.get(one.get(name), "–") for name in ("bf16", "fp8")]
    return [
        code(key),
        prose(one["name"]),
        *figures,
        *flags,
        code(*one.get("aliases", ())) if one.get("aliases") else "",
    ]


def _notes(one: Mapping[str, Any]) -> str:
    return "; ".join(map(prose, one.get("notes", ())))


def issues() -> str:
    """Troubles that others reported with an engine that takes the pair."""
    catalog = load()
    records = {key: catalog.record("issues", key) for key in catalog.issues}
    lead = (
        "What others met with an engine that takes the pair all the same. It stands beside the verdict and never "
        "changes it; what does is a row of the [engine](engines.md)."
    )
    rows = (
        [
            code(key),
            ", ".join(one["engines"]),
            _window(one),
            one["kind"].replace("_", " "),
            prose(one["symptom"]),
            prose(one.get("mending", "")),
            {True: "yes", False: "no"}.get(one.get("fixed"), "not known"),
            str(one["reported"]),
            _read(one),
        ]
        for key, one in records.items()
    )
    header = ("issue", "engines", "versions", "kind", "what was seen", "what to do", "mended", "reported", "source")
    return page("Known issues", lead, table(header, rows))


# ---------------------------------------------------------------------- the catalogue, for the site alone


def models(catalog: Catalog) -> str:
    """All models by family: sizes, dimensions, tokenizer, licence, doubts, sources and dates."""
    lead = (
        f"{len(catalog.models)} models, as of {catalog.date}. Sizes are parameters; *active* those that one token "
        "reads. `draftpick catalog show ID` prints a whole record with all its sources."
    )
    header = ("model", "size", "active", "layers", "rows", "context", "tokenizer", "licence", "in doubt", "source")
    by_family: dict[str, list[list[str]]] = {}
    for key in sorted(catalog.models, key=str.lower):
        one = catalog.record("models", key)
        by_family.setdefault(str(one["family"]), []).append(_model(key, one))
    parts = (f"## {name}\n\n{table(header, rows, numeric=range(1, 6))}" for name, rows in sorted(by_family.items()))
    return page("Models", lead, *parts)


def _model(key: str, one: Mapping[str, Any]) -> list[str]:
    return [
        code(key),
        count(one.get("params_total")),
        count(one["params_active"]) if one.get("params_active") else "",
        *(str(one.get(name, "?")) for name in ("num_hidden_layers", "vocab_size", "max_position_embeddings")),
        code(one["tokenizer"]) if "tokenizer" in one else "?",
        prose(one.get("license", "?")),
        code(*one.get("uncertain", ())),
        _read(one),
    ]


def heads(catalog: Catalog) -> str:
    """All published heads with their targets, sources and dates."""
    lead = (
        f"{len(catalog.heads)} published heads: small networks that draft for one target alone. *Pairing* says how the "
        "target is known."
    )
    rows = []
    for key in sorted(catalog.heads, key=str.lower):
        one = catalog.record("heads", key)
        target = code(one["target"]) if "target" in one else "?"
        pairing = str(one.get("confidence", "?"))
        rows.append([code(key), one["method"], target, count(one.get("params")), pairing, _read(one)])
    return page("Heads", lead, table(("head", "method", "target", "size", "pairing", "source"), rows, numeric=(3,)))


def tokenizers(catalog: Catalog) -> str:
    """All tokenizers with the beginnings of their fingerprints, sources and dates."""
    lead = (
        f"{len(catalog.tokenizers)} tokenizers. Two models whose tokenizers have the same fingerprint mean the same by "
        "every token id; one without a fingerprint was never read, and counts as probable at best."
    )
    rows = []
    for key in sorted(catalog.tokenizers):
        one = catalog.record("tokenizers", key)
        stands_for = prose(one.get("stands_for", one.get("family", "")))
        fingerprint = code(one["core"][:12]) if one.get("core") else "none"
        known = [str(one.get("named_ids", "?")), fingerprint, str(one.get("confidence", "?"))]
        rows.append([code(key), stands_for, *known, _read(one)])
    header = ("tokenizer", "stands for", "named ids", "fingerprint", "confidence", "source")
    return page("Tokenizers", lead, table(header, rows, numeric=(2,)))


_COLUMNS = {
    "k": "k",
    "batch_size": "batch",
    "hardware": "hardware",
    "engine": "engine",
    "task": "text",
    "alpha_per_token": "α",
    "tau_incl_bonus": "τ",
    "speedup": "speed-up",
    "use": "used",
}


def measurements(_: Catalog) -> str:
    """Published measurements, as the catalogue has them."""
    import csv

    with open(packed_folder() / "measurements.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    used = sum(row["use"] == "yes" for row in rows)
    lead = (
        f"{len(rows)} published measurements from {len({row['source'] for row in rows})} sources; {used} of them, "
        "where model, engine and device are known, are what predictions are fitted to and judged by. α is the rate per "
        "token, τ the tokens per step with the target's own."
    )
    header = ("row", "target", "draft or method", *_COLUMNS.values())
    parts = []
    by_source = groupby(sorted(rows, key=lambda row: row["source"]), key=lambda row: row["source"])
    for place, (source, ours) in enumerate(by_source, 1):
        told = (
            [
                code(row["row_id"]),
                prose(row["target"]),
                prose(row["draft_or_method"]),
                *(prose(row[name]) for name in _COLUMNS),
            ]
            for row in ours
        )
        parts.append(f"## Source {place}\n\n{prose(source)}\n\n{table(header, told)}")
    return page("Measurements", lead, *parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "rules.md": rules,
    "choices.md": chosen,
    "environment.md": environment,
    "engines.md": engines,
    "devices.md": devices,
    "issues.md": issues,
}
"""Kept in git."""
CATALOGUE: Mapping[str, Callable[[Catalog], str]] = {
    "models.md": models,
    "heads.md": heads,
    "tokenizers.md": tokenizers,
    "measurements.md": measurements,
}
"""Made for the site."""


if __name__ == "__main__":
    for name, written in PAGES.items():
        (FOLDER / name).write_text(written(), encoding="utf-8")
