"""A gate's result on GitHub: annotations at the lines of the policy file, and a summary of the job.

Workflow commands are lines as `::error file=pairs.toml,line=3,title=…::message`, escaped as GitHub's own toolkit does.
"""

from draftpick.gate_file import CheckResult, GateFile, PairResult
from draftpick.report import markdown
from draftpick.report.gate import blocks, sentence, severity, worst_first
from draftpick.report.text import printable

MOST_ANNOTATIONS = 10
"""Errors, warnings and notices that GitHub shows of one step: ten of each; it drops the rest without a word."""
MOST_BYTES = 1 << 20
"""Of a step's summary; GitHub takes nothing of one that is larger."""


def annotations(result: GateFile) -> str:
    """A workflow command for each check that did not simply pass, the worst pairs first, then the verdict in a line."""
    commands: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    for pair in worst_first(result):
        for check in pair.checks:
            kind = severity(check)
            if kind is not None:
                commands[kind].append(_command(kind, result.policy, pair, check))
    lines = [line for kind, found in commands.items() for line in _within_limit(kind, found)]
    return "\n".join([*lines, sentence(result)]) + "\n"


def summary(result: GateFile) -> str:
    """The result in Markdown, to be appended to the file that $GITHUB_STEP_SUMMARY names.

    Where it would be too large, the pairs that matter least are left out, and their number is told.
    """
    text = markdown.render(blocks(result))
    shown = len(result.pairs)
    while shown and (size := len(text.encode())) > MOST_BYTES:
        shown = int(shown * 0.95 * MOST_BYTES / size)
        text = markdown.render(blocks(result, most_pairs=shown))
    return text


def _command(kind: str, policy: str, pair: PairResult, check: CheckResult) -> str:
    # The runner trims a title and drops equals signs before it: it begins and ends with words of our own.
    title = _property(f"Draft pair {pair.name}: {check.name} {check.status}")
    line = f",line={pair.line}" if pair.line is not None else ""
    return f"::{kind} file={_property(policy)}{line},title={title}::{_data(check.reason)}"


def _within_limit(kind: str, commands: list[str]) -> list[str]:
    if len(commands) <= MOST_ANNOTATIONS:
        return commands
    kept = commands[: MOST_ANNOTATIONS - 1]
    more = (
        f"{len(commands) - len(kept)} more are not shown: GitHub shows ten of a kind. The job's summary has them all."
    )
    return [*kept, f"::{kind} title=Draft pairs::{_data(more)}"]


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
