"""A gate's result as SARIF 2.1.0, which code scanning and editors show at the lines of the policy file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from draftpick.gate_file import CheckName, CheckResult, GateFile, PairResult
from draftpick.report.gate import severity
from draftpick.report.text import ended, json_text, printable

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
"""What GitHub and others take for the top of the repository."""

RULES: dict[CheckName, tuple[str, str]] = {
    "findings": (
        "A rule about the pair finds fault with it.",
        "`draftpick check TARGET DRAFT` lists what was found and `draftpick rules NAME` says what to do about it. "
        "A finding that is known and accepted goes into `allow`.",
    ),
    "score": (
        "The facts about the pair fit less well than `min_score` asks.",
        "`draftpick check TARGET DRAFT` shows which findings cost score, `draftpick recommend TARGET` drafts that fit "
        "better.",
    ),
    "coverage": (
        "Less of what matters could be judged than `min_coverage` asks.",
        "`draftpick check TARGET DRAFT` shows the rules that were skipped, each with the fact it lacks.",
    ),
    "memory": (
        "Target and draft do not fit into the memory of the device.",
        "`draftpick check TARGET DRAFT --device KEY` shows what takes the memory and the smallest tensor-parallel size "
        "that holds it.",
    ),
    "engine": (
        "The engine does not take the pair as well as `engine_verdict` asks.",
        "`draftpick check TARGET DRAFT` gives the verdict of every engine with its reason and version.",
    ),
    "evidence": (
        "The measurement of the pair is missing, of another pair, too old or too small.",
        "Measure anew with `draftpick probe TARGET DRAFT -o FILE` and name the file in `evidence`.",
    ),
    "acceptance_rate": (
        "The lower bound of the acceptance rate lies below `min_acceptance_rate`.",
        "Where the value lies above and only its bound below, measure more prompts; otherwise the draft guesses worse "
        "than the policy asks.",
    ),
    "mean_acceptance_length": (
        "The lower bound of the tokens per step lies below `min_mean_acceptance_length`.",
        "It holds for the pair's num_spec_tokens: `draftpick plan PROBE.json` shows every other.",
    ),
    "speedup": (
        "The lower bound of the speed-up lies below `min_speedup`.",
        "`draftpick plan PROBE.json` shows the speed-up of every num_spec_tokens, and for other engines and devices.",
    ),
    "num_spec_tokens": (
        "Another num_spec_tokens than the deployed one is faster by now.",
        "`draftpick plan PROBE.json` shows what each gives. Deploy the best one, or raise `max_k_drift`.",
    ),
    "baseline": (
        "The pair got worse than its baseline, by more than chance and `tolerance` explain.",
        "Look for what changed: target, draft, revisions, prompts, temperature. Where the change is wanted, run "
        "`draftpick gate --update-baseline` and have the new baseline reviewed.",
    ),
}
"""What each check finds fault with, and what to do about it."""


def render(result: GateFile) -> str:
    """The whole log: a result for each check that did not simply pass, waived ones with their suppression."""
    run = {
        "tool": {"driver": _driver(result)},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder that the gate was run in."}}},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(result.policy, pair, check, earlier) for pair in result.pairs for check, earlier in _told(pair)
        ],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _driver(result: GateFile) -> dict[str, Any]:
    rules = [
        {
            "id": name,
            "shortDescription": {"text": fault},
            "fullDescription": {"text": fault},
            "help": {"text": remedy.replace("`", ""), "markdown": remedy},
            "defaultConfiguration": {"level": "error"},
        }
        for name, (fault, remedy) in RULES.items()
    ]
    version = printable(result.tool.get("version", "0"))
    return {"name": "draftpick", "version": version, "rules": rules}


def _told(pair: PairResult) -> Iterable[tuple[CheckResult, int]]:
    """The checks that did not simply pass, and how many of the same name come before each."""
    seen = dict.fromkeys(RULES, 0)
    for check in pair.checks:
        if severity(check) is not None:
            yield check, seen[check.name]
            seen[check.name] += 1


def _result(policy: str, pair: PairResult, check: CheckResult, earlier: int) -> dict[str, Any]:
    location = _location(policy, pair)
    kind = severity(check)
    found: dict[str, Any] = {
        "ruleId": check.name,
        "ruleIndex": list(RULES).index(check.name),
        "level": "note" if kind == "notice" else kind,
        "message": {"text": _message(f"{pair.name}: {ended(check.reason)}")},
        "locations": [location],
        "partialFingerprints": {"draftpick/v1": _fingerprint(pair.name, check.name, str(earlier))},
        "properties": {"status": check.status},
    }
    if check.waiver is not None and check.status == "waived":
        found["suppressions"] = [
            {
                "kind": "external",
                "status": "accepted",
                "justification": printable(f"{ended(check.waiver.reason)} Until {check.waiver.expires}."),
                "location": location,
            }
        ]
    return found


def _location(policy: str, pair: PairResult) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(policy)}
    if pair.line is not None:
        place["region"] = {"startLine": pair.line}
    return {
        "physicalLocation": place,
        "logicalLocations": [{"name": printable(pair.name), "kind": "object"}],
    }


def _artifact(policy: str) -> dict[str, str]:
    path = PurePath(policy)
    if not path.is_absolute():
        return {"uri": quote(path.as_posix(), errors="surrogatepass"), "uriBaseId": _ROOT}
    return {"uri": f"file:///{quote(path.as_posix().lstrip('/'), safe='/:', errors='surrogatepass')}"}


def _message(text: str) -> str:
    """Text in which a reader of SARIF finds neither placeholders nor links."""
    return printable(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")


def _fingerprint(*parts: str) -> str:
    """The same for the same check of the same pair, wherever it stands in the file."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
