"""Results of a gate built by hand, tame and hostile ones: how a result is written depends on no policy and no model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, get_args

from hypothesis import strategies as st

from draftpick.gate_file import CheckName, CheckResult, GateFile, PairResult, Status

NAMES: tuple[CheckName, ...] = get_args(CheckName)
STATUSES: tuple[Status, ...] = get_args(Status)
LETS_PASS = {"passed", "waived", "noted"}

FRAGMENTS = [
    "|",
    "`",
    "<script>alert(1)</script>",
    "\x1b[31m",
    "]]>",
    "\n",
    "\r\n",
    "::error::",
    "\n::error file=a::b",
    "##[error]",
    "%0A",
    "%25",
    "%",
    ":",
    ",",
    "=",
    "\u202e",
    "\u2028",
    "😀",
    "\ud800",
    "\udcff",
    "\ufffe",
    "\uffff",
    "\x00",
    "&amp;",
    '"',
    "{0}",
    "[a](b)",
    "\\",
    " ",
    "–",
    "模型",
]


def check(name: CheckName, status: Status = "passed", reason: str = "Said in a sentence.", **more: Any) -> CheckResult:
    return CheckResult(name=name, status=status, passed=status in LETS_PASS, reason=reason, **more)


def waived(name: CheckName, reason: str, why: str, until: str = "2027-01-31") -> CheckResult:
    waiver = {"reason": why, "expires": date.fromisoformat(until)}
    return check(name, "waived", f"{reason}; waived until {until}: {why}", waiver=waiver)


def pair(name: str, checks: Sequence[CheckResult], **more: Any) -> PairResult:
    passed = all(one.passed for one in checks)
    known: dict[str, Any] = {"target": "acme/Big-70B", "draft": "acme/Small-1B", "judged": True, "line": 3}
    return PairResult(name=name, passed=passed, checks=list(checks), **{**known, **more})


def result(pairs: Sequence[PairResult], policy: str = "ci/pairs.toml", version: str = "1.2.3") -> GateFile:
    return GateFile(
        schema_version="1",
        kind="gate",
        tool={"name": "draftpick", "version": version},
        policy=policy,
        date=date(2026, 11, 30),
        passed=all(one.passed for one in pairs),
        pairs=list(pairs),
    )


RATE = check(
    "acceptance_rate",
    "failed",
    "The lower bound 0.702 of the acceptance rate 0.731 lies below 0.75.",
    value=0.731,
    bound=0.702,
    threshold=0.75,
    baseline=0.802,
)
GAIN = check("speedup", reason="The lower bound 1.42 of the speed-up 1.51 reaches 1.2.", value=1.51, bound=1.42)
WAIVED = waived("memory", "it does not fit on 1 × 910b4-1", "the second card arrives in January")
NOTED = check("num_spec_tokens", "noted", "4 is as fast as the deployed 3.", value=4.0, threshold=3.0)
STALE = check("evidence", "stale", "The probe is 45 days old; 30 are allowed.", value=45.0, threshold=30.0)
FINE = check("findings", reason="No rule rejects the pair.")

MIXED = result(
    [
        pair("chat", [FINE, GAIN]),
        pair("code", [FINE, GAIN, RATE], line=12, evidence="probes/code.json"),
        pair("math", [WAIVED, NOTED], line=21),
        pair("long", [STALE], line=30, judged=False),
    ]
)
"""A result with a pair of each kind."""


def many(pairs: int, status: Status = "failed", reason: str = "x" * 200) -> GateFile:
    """As many pairs with every check each."""
    checks = [check(name, status, reason, value=0.7, bound=0.6, threshold=0.8) for name in NAMES]
    return result([pair(f"pair-{number}", checks, line=number + 1) for number in range(pairs)])


hostile = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.text(st.characters(exclude_categories=()), max_size=4)),
    min_size=1,
    max_size=6,
).map("".join)
"""Texts that some format acts on; lone surrogates are among them."""

values = st.one_of(st.none(), hostile, st.floats(-1e6, 1e6))


@st.composite
def checks(draw: st.DrawFn) -> CheckResult:
    status = draw(st.sampled_from(STATUSES))
    more: dict[str, Any] = {"value": draw(values), "threshold": draw(values), "bound": draw(st.floats(0, 1))}
    if status == "waived":
        more["waiver"] = {"reason": draw(hostile), "expires": draw(st.dates())}
    return check(draw(st.sampled_from(NAMES)), status, draw(hostile), **more)


@st.composite
def pairs(draw: st.DrawFn) -> PairResult:
    return pair(
        draw(hostile),
        draw(st.lists(checks(), max_size=4)),
        target=draw(hostile),
        draft=draw(hostile),
        judged=draw(st.booleans()),
        line=draw(st.one_of(st.none(), st.integers(1, 1 << 20))),
        evidence=draw(st.one_of(st.none(), hostile)),
    )


results = st.builds(result, st.lists(pairs(), min_size=1, max_size=4), policy=hostile, version=hostile)
"""Whole results of texts like these."""
