"""The rules: what makes a draft fit a target, each a function whose docstring is its documentation."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from draftpick.choices import WEIGHTS, RuleChoices
from draftpick.pair import DRAFT_FREE, Pair

OutcomeKind = Literal["ok", "warn", "reject", "skip"]
Evidence = dict[str, Any]
"""What a finding rests on, by name; JSON can hold it."""


# Outcomes and findings are made by the ten thousand: a named tuple costs a quarter of a frozen dataclass.


class Outcome(NamedTuple):
    """What a rule says of a pair."""

    kind: OutcomeKind
    message: str
    score: float
    """0 … 1: how well the pair does under this rule; not used for skip."""
    evidence: Mapping[str, Any] = {}
    certain: bool = True
    """False where the facts behind it are recalled or only probable."""
    applies: bool = True
    """False for a skip of what cannot matter for this pair: it counts neither in the score nor in the coverage."""


def ok(message: str, score: float = 1.0, *, certain: bool = True, **evidence: Any) -> Outcome:
    """The pair does well under this rule."""
    return Outcome("ok", message, score, evidence, certain)


def warn(message: str, score: float = 0.5, *, certain: bool = True, **evidence: Any) -> Outcome:
    """The pair may be used, with this in mind."""
    return Outcome("warn", message, score, evidence, certain)


def reject(message: str, *, certain: bool = True, **evidence: Any) -> Outcome:
    """The pair is of no use, whatever else speaks for it."""
    return Outcome("reject", message, 0.0, evidence, certain)


def skip(message: str, **evidence: Any) -> Outcome:
    """A fact is missing, so nothing can be said."""
    return Outcome("skip", message, 0.0, evidence)


def not_applicable(message: str) -> Outcome:
    """A skip for a pair that cannot have the problem; `skip` is for a fact that is missing."""
    return Outcome("skip", message, 0.0, applies=False)


class Rule(NamedTuple):
    """A check with its name and what it reads; its docstring is its documentation."""

    name: str
    family: str
    check: Callable[[Pair], Outcome]
    reads: tuple[str, ...]
    """Profile fields that it goes by: where one is uncertain, the finding is. A field that only some answers go by is
    asked about where they are given, with `sure`."""
    about: str
    """What it applies to: draft_model, head, any."""

    @property
    def doc(self) -> str:
        """The whole documentation: title, Why, Exception, Remedy."""
        import inspect

        return inspect.getdoc(self.check) or ""

    @property
    def title(self) -> str:
        """What the rule asks, in one line."""
        return self.doc.split("\n", 1)[0]


RULES: dict[str, Rule] = {}


def rule(
    name: str, family: str, *, reads: Iterable[str] = (), about: str = "draft_model"
) -> Callable[[Callable[[Pair], Outcome]], Callable[[Pair], Outcome]]:
    """Register a rule under a readable kebab-case name."""

    def register(check: Callable[[Pair], Outcome]) -> Callable[[Pair], Outcome]:
        RULES[name] = Rule(name, family, check, tuple(reads), about)
        return check

    return register


@cache
def load() -> Mapping[str, Rule]:
    """All rules by name, in one order whichever of their modules somebody imported before."""
    from draftpick.rules import architecture, context, heads, lineage, size, tokenizer

    modules = (architecture, context, lineage, heads, size, tokenizer)
    places = {module.__name__: place for place, module in enumerate(modules)}
    for name, one in sorted(RULES.items(), key=lambda named: places.get(named[1].check.__module__, len(places))):
        del RULES[name]
        RULES[name] = one
    return RULES


class Finding(NamedTuple):
    """What one rule said of one pair, and how much it counts."""

    rule: str
    outcome: OutcomeKind
    message: str
    evidence: Mapping[str, Any]
    weight: float
    ignored_because: str | None = None
    """Why the user asked not to count it; such a finding neither rejects nor counts."""
    score: float = 0.0
    """0 … 1 under this rule; without meaning for a skip."""
    certain: bool = True
    """False where a fact behind it is recalled or only probable: it then counts half in the coverage."""
    applies: bool = True
    """False for a skip of what cannot matter for this pair."""

    @property
    def rejects(self) -> bool:
        """Whether it makes the pair unviable."""
        return self.outcome == "reject" and self.ignored_because is None


def judge(pair: Pair, choices: RuleChoices | None = None) -> tuple[list[Finding], float, float]:
    """All findings about a pair, its score (0 … 100) and its coverage (0 … 1).

    The score is the weighted mean over the rules that could judge. The coverage is the share of the applicable
    weight that could be judged; a finding that rests on uncertain facts counts half. Without anything to judge
    both are 0.
    """
    findings = _findings(pair, choices or RuleChoices())
    applicable = judged = covered = points = 0.0
    for finding in findings:
        if finding.ignored_because is not None or not finding.applies:
            continue
        weight = finding.weight
        applicable += weight
        if finding.outcome != "skip":
            judged += weight
            points += weight * finding.score
            covered += weight if finding.certain else weight / 2
    score = 100 * points / judged if judged else 0.0
    return findings, min(score, 100.0), min(covered / applicable, 1.0) if applicable else 0.0


def _findings(pair: Pair, choices: RuleChoices) -> list[Finding]:
    # Thousands of findings are made before the first is read: this loop is kept free of calls it can do without.
    subjects, unsure = _subjects(pair), _unsure(pair)
    select, ignore = choices.select, choices.ignore
    weights = {**WEIGHTS, **choices.weights} if choices.weights else WEIGHTS
    findings = []
    for name, known in load().items():
        if known.about not in subjects or (select is not None and name not in select):
            continue
        kind, message, score, evidence, certain, applies = known.check(pair)
        certain = certain and (not unsure or unsure.isdisjoint(known.reads))
        weight, reason = weights.get(name, 1.0), ignore.get(name)
        findings.append(Finding(name, kind, message, evidence, weight, reason, score, certain, applies))
    return findings


def _subjects(pair: Pair) -> tuple[str, ...]:
    """What the rules must be about to say something of this pair."""
    if pair.draft is not None:
        return ("draft_model", "any")
    return ("any",) if pair.method in DRAFT_FREE else ("head", "any")


def sure(pair: Pair, *fields: str) -> bool:
    """Whether none of these fields is recalled or unverified on either side."""
    return _unsure(pair).isdisjoint(fields)


def _unsure(pair: Pair) -> frozenset[str]:
    """Names of fields that are recalled or unverified on either side."""
    second = pair.draft or pair.proposal.head
    return pair.target.uncertain | second.uncertain if second is not None else pair.target.uncertain
