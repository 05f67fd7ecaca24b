"""The rules: what makes a draft fit a target, each a function whose docstring is its documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from draftpick.pair import Pair

OutcomeKind = Literal["ok", "warn", "reject", "skip"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule says of a pair."""

    kind: OutcomeKind
    message: str
    score: float = 1.0
    """0 … 1: how well the pair does under this rule; not used for skip."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    certain: bool = True
    """False where the facts behind it are recalled or only probable."""


def ok(message: str, score: float = 1.0, *, certain: bool = True, **evidence: Any) -> Outcome:
    return Outcome("ok", message, score, evidence, certain)


def warn(message: str, score: float = 0.5, *, certain: bool = True, **evidence: Any) -> Outcome:
    return Outcome("warn", message, score, evidence, certain)


def reject(message: str, *, certain: bool = True, **evidence: Any) -> Outcome:
    return Outcome("reject", message, 0.0, evidence, certain)


def skip(message: str, **evidence: Any) -> Outcome:
    return Outcome("skip", message, 0.0, evidence)


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    family: str
    check: Callable[[Pair], Outcome]
    reads: tuple[str, ...]
    """Profile fields it reads: where one is uncertain, the finding is."""
    about: str
    """What it applies to: draft_model, head, any."""

    @property
    def doc(self) -> str:
        import inspect

        return inspect.getdoc(self.check) or ""

    @property
    def title(self) -> str:
        return self.doc.split("\n", 1)[0]


RULES: dict[str, Rule] = {}


def rule(name: str, family: str, *, reads: Iterable[str] = (), about: str = "draft_model") -> Callable[[Callable[[Pair], Outcome]], Callable[[Pair], Outcome]]:
    """Register a rule under a readable kebab-case name."""

    def register(check: Callable[[Pair], Outcome]) -> Callable[[Pair], Outcome]:
        RULES[name] = Rule(name, family, check, tuple(reads), about)
        return check

    return register
