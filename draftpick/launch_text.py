"""Fills the templates of an engine's `[launch]` table: what has no value leaves no trace, and every name is quoted.

The table stands in catalog/engines/<key>.toml:

    [launch]        source, checked; since and until: versions whose start line is known, nothing is written for others
    command         the first words of the start line, without which nothing starts; absent for scripts and files
    no_schedule     why a number of tokens by sequences at once is not written
    accelerator     the device that is assumed where none was named
    name_traps      parts of a draft's name that the engine takes for a method
    per_device      true: a process for each device, with the words of `each`, `{rank}` and a `{port}` from `port` on
    [launch.settings]
    <setting>       words that set it, or a table: words, accepts (values that the engine knows, `*` at the end stands
                    for any rest), else (said of others), own (the checkpoint's own must be told too), missing (why it
                    can't be set), say (a caution that comes with it)
    [[launch.method]]
    names           methods, or `none` for the plain start of scripts and files
    since, until, rows (equal or differ: embedding rows of target and draft)    which row holds; the first one does
    words           groups of words behind the settings
    file            a file to write: name, content. Without a name: keys for a file that is there, named by its title
    then            words that start the engine after such a file
    script          Python, with $placeholders
    cautions        sentences; schedule_cautions: those that come with a number of tokens by sequences at once
    each            words of each process
    source

A word or value is a text with `{placeholders}` of draftpick/launch_values.py (alone in a text, one keeps its type), a
number, a list, a table (JSON text where a word is wanted), `{json = value}` for JSON text inside of JSON, or a
conditional one: {value, since, until, rows, quantized, why, missing}: left out where a condition does not hold, and
`why` is then said, or where a placeholder has no value: `missing` is then said. Whatever holds a placeholder without
value vanishes with all of its group or key.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

from draftpick.launch_values import PLACEHOLDER
from draftpick.pair import Engine
from draftpick.rules.engine_facts import covers


class Filler:
    """The values of one start, put into templates; remembers why parts were left out."""

    def __init__(self, engine: Engine, values: Mapping[str, Any]) -> None:
        self.engine = engine
        self.values = values
        self.reasons: list[str] = []
        """Of what was left out, where the catalogue says why."""

    def value(self, template: Any) -> Any:
        """The template with its values; None where one of them is missing or a condition does not hold."""
        if isinstance(template, str):
            return self._text(template)
        if isinstance(template, Sequence):
            parts = [self.value(part) for part in template]
            return None if None in parts else parts
        if not isinstance(template, Mapping):
            return template
        if "value" in template:
            return self._conditional(template)
        if set(template) == {"json"}:
            inner = self.value(template["json"])
            return None if inner is None else json.dumps(inner, ensure_ascii=False)
        filled = {key: self.value(part) for key, part in template.items()}
        return {key: part for key, part in filled.items() if part is not None} or None

    def groups(self, templates: Sequence[Any]) -> list[list[str]]:
        """Groups of words, as texts; those without a value are left out."""
        filled = (self.value(template) for template in templates)
        return [[word(part) for part in group] for group in filled if group]

    def holds(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the conditions of a row hold; None where the version can't be compared."""
        for name in ("rows", "quantized"):
            if name in row and row[name] != self.values.get(name):
                return False
        return covers(self.engine, row)

    def script(self, template: str) -> str:
        """Python with its values as literals."""
        return Template(template).substitute({name: repr(value) for name, value in self.values.items()})

    def _text(self, template: str) -> Any:
        names = PLACEHOLDER.findall(template)
        if any(self.values.get(name) is None for name in names):
            return None
        alone = PLACEHOLDER.fullmatch(template)
        if alone is not None:
            return self.values[alone[1]]
        return PLACEHOLDER.sub(lambda found: str(self.values[found[1]]), template)

    def _conditional(self, template: Mapping[str, Any]) -> Any:
        filled, reason = self.value(template["value"]), template.get("missing")
        if filled is not None and not self.holds(template):
            filled, reason = None, template.get("why")
        if filled is None and reason is not None and reason not in self.reasons:
            self.reasons.append(reason)
        return filled


def word(value: Any) -> str:
    """A value as one word of a command line."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def command_line(first: Sequence[str], groups: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Words as a shell takes them back, one group to a line."""
    lines = [shlex.join(words) for words in (first, *groups) if words]
    return f" \\\n{indent}".join(lines)


def here_document(name: str, text: str) -> str:
    """Shell that writes a text into a file of this folder, without looking into the text."""
    mark = "EOF"
    while mark in text.splitlines():
        mark += "_"
    return f"cat > {shlex.quote(name)} <<'{mark}'\n{text}{mark}\n"


def yaml_text(content: Mapping[str, Any], indent: str = "") -> str:
    """Tables, texts and numbers as YAML: texts and numbers are written as in JSON, which YAML takes."""
    lines = []
    for key, value in content.items():
        if isinstance(value, Mapping) and value and not all(isinstance(name, int) for name in value):
            lines.append(f"{indent}{key}:\n{yaml_text(value, indent + '  ')}")
        elif isinstance(value, Mapping):
            pairs = ", ".join(f"{name}: {json.dumps(part, ensure_ascii=False)}" for name, part in value.items())
            lines.append(f"{indent}{key}: {{{pairs}}}\n")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
