"""Troubles that others had with an engine although it takes the pair: they are told, and change no verdict.

The rows are in catalog/known_issues.toml. They ask of a pair what the exceptions of an engine ask
(`draftpick.rules.engine_facts`); what changes a verdict is an exception and stands there alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from draftpick.pair import Engine, Pair
from draftpick.rules.conditions import conditions, fits
from draftpick.rules.engine_facts import covers
from draftpick.versions import window

KINDS = ("crash", "wrong_output", "zero_acceptance", "slow", "quality")
"""The worst first."""


class KnownIssue(NamedTuple):
    """One trouble with what to do about it."""

    key: str
    engine: str
    kind: str
    """One of KINDS."""
    symptom: str
    mending: str
    source: str
    """Addresses of the reports."""
    reported: str | None
    """Month of the first report, as 2026-09; None: not known."""
    versions: str
    """Of the engine, in words, where it is not sure that this one has it; empty where it is."""
    mended: str
    """In what versions it is, in words; empty where nothing is known of that."""

    @property
    def sentence(self) -> str:
        """What was seen and what to do, with every doubt."""
        doubt = f" ({self.versions})" if self.versions else ""
        after = f" {self.mended[:1].upper()}{self.mended[1:]}." if self.mended else ""
        return f"{self.symptom[:1].upper()}{self.symptom[1:]}{doubt}: {self.mending}.{after}"


def matching(rows: Iterable[Mapping[str, Any]], pair: Pair, engine: Engine) -> tuple[KnownIssue, ...]:
    """Those of the catalogue's rows that fit the pair in this version of the engine, the worst kind first.

    A row without conditions fits every pair; what is not known of a pair fits no condition.
    """
    found = []
    for row in rows:
        if engine.key not in row["engines"] or pair.method not in row.get("methods", (pair.method,)):
            continue
        covered = covers(engine, row)
        if covered is not False and fits(conditions(row), pair, pair.relation):
            found.append(_issue(row, engine, sure=covered is True))
    return tuple(sorted(found, key=lambda issue: (KINDS.index(issue.kind), issue.key)))


def _issue(row: Mapping[str, Any], engine: Engine, *, sure: bool) -> KnownIssue:
    source = row["source"]
    return KnownIssue(
        key=str(row["key"]),
        engine=engine.key,
        kind=str(row["kind"]),
        symptom=str(row["symptom"]),
        mending=str(row["mending"]),
        source=source if isinstance(source, str) else ", ".join(source),
        reported=row.get("reported"),
        versions=_versions(row, sure=sure),
        mended=_mended(row),
    )


def _versions(row: Mapping[str, Any], *, sure: bool) -> str:
    if not sure:
        return f"in some versions: {window(row)}"
    return f"{window(row)}; the exact versions are not known" if row.get("certain") is False else ""


def _mended(row: Mapping[str, Any]) -> str:
    if row.get("fixed") is None:
        return f"mended in {row['until']}" if "until" in row else ""
    if row["fixed"]:
        return f"mended in {row['until']}" if "until" in row else "said to be mended since, in a version not named"
    return "not mended when last looked at"
