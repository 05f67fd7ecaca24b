"""Names and texts of models, made safe and short for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from draftpick.advice import Advice
from draftpick.assess import Assessment
from draftpick.pair import GIVEN, MEASURED, Pair, Proposal
from draftpick.rules import Finding
from draftpick.speedup import KRow

if TYPE_CHECKING:
    from draftpick.advice_file import FindingRecord

# What a terminal or a browser acts on instead of showing: control characters, marks of direction, what has no width;
# and the two that XML forbids.
_UNSHOWN = (0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xFFFE, 0xFFFF)
_INVISIBLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0xAD)} | {
    code: f"\\u{code:04x}" for code in _UNSHOWN
}

_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _INVISIBLE if code >= 0x7F}


def printable(text: str) -> str:
    """Text on one line with everything invisible spelled out."""
    return text.translate(_INVISIBLE).encode("utf-8", "backslashreplace").decode("utf-8")


def json_text(value: Any) -> str:
    """A value as indented JSON that is safe to show: what a terminal acts on is escaped, and nothing is lost."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    return text.translate(_JSON_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def count(number: int | None) -> str:
    """A number of parameters as people say it: 2.8M, 135M, 0.49B, 72.7B, 671B."""
    if number is None:
        return "?"
    if number < 9.95e6:
        return f"{number / 1e6:.1f}M"
    billions = number / 1e9
    if billions < 0.95:
        return f"{number / 1e6:.0f}M" if billions < 0.1 else f"{billions:.2f}B"
    return f"{billions:.1f}B" if billions < 100 else f"{billions:.0f}B"


def size_of(proposal: Proposal) -> str:
    """The size of what a proposal adds."""
    return count(params_of(proposal)) if proposal.draft is not None or proposal.head is not None else "-"


def params_of(proposal: Proposal) -> int | None:
    """Parameters of what a proposal adds: the draft's text decoder, or the head; None where unknown, or nothing."""
    if proposal.draft is not None:
        return proposal.draft.params_text or proposal.draft.params_total
    return proposal.head.params if proposal.head is not None else None


def ratio(pair: Pair) -> str:
    """How many times more parameters the target reads per token than the draft."""
    target, draft = pair.target, pair.draft
    if draft is None or not draft.params_read or not target.params_read:
        return "-" if draft is None else "?"
    times = target.params_read / draft.params_read
    return f"{times:.0f}×" if times >= 9.95 else f"{times:.1f}×"


def summary(found: Assessment) -> str:
    """How well one pair does, in a line."""
    judged = f"{found.coverage:.0%} of what matters could be judged"
    if found.rejections:
        return f"Rejected by {', '.join(finding.rule for finding in found.rejections)}; {judged}."
    return f"Score {found.score:.0f} of 100; {judged}."


def gain(row: KRow) -> str:
    """A speed-up with its interval."""
    return f"{row.speedup:.2f}× ({row.low:.1f}–{row.high:.1f})"


def expected(found: Assessment) -> str:
    """The predicted speed-up of a candidate, or between what it must lie, or a dash."""
    row = found.prediction.plan.drafting if found.prediction is not None else None
    if row is not None:
        return gain(row)
    return f"? ({found.bounds[0]:.1f}–{found.bounds[1]:.1f})" if found.bounds is not None else "-"


def acceptance(found: Assessment) -> str:
    """The acceptance rate that is expected."""
    return f"{found.prediction.acceptance.rate:.2f}" if found.prediction is not None else "-"


def draft_cost(found: Assessment) -> str:
    """What a drafted token costs, in plain tokens of the target."""
    return f"{found.prediction.costs.c:.2f}" if found.prediction is not None else "-"


def finding_text(finding: Finding | FindingRecord) -> str:
    """A finding's sentence, with what weakens it."""
    unsure = "" if finding.certain or finding.outcome == "skip" else " (unverified)"
    ignored = f" (ignored: {finding.ignored_because})" if finding.ignored_because is not None else ""
    return f"{finding.message}{unsure}{ignored}"


def fades(fade: float) -> str:
    """What a rate that falls from token to token holds for; empty for one that does not."""
    return f" for the first token, each later one {fade:.2f} of the one before" if fade < 1 else ""


METHODS = {
    "pard": "PARD is a draft model that was trained to guess all tokens of a step in one pass",
    "eagle": "EAGLE is a small head that reads the target's hidden states and guesses token by token",
    "eagle3": "EAGLE-3 is a small head that reads hidden states of several of the target's layers and guesses token by "
    "token",
    "mtp": "MTP (multi-token prediction) is a layer trained along with the target to guess the tokens after the next",
    "medusa": "Medusa is a set of small heads on the target's last hidden state, one for each token ahead",
    "dflash": "DFlash is a small head that reads the target's hidden states and guesses a block of tokens in one pass",
}
"""What a method other than a plain draft model is, for whoever never met its name."""


def method_note(found: Assessment) -> str:
    """What the method is, and that its predictions stand on less than those of draft models; empty for these."""
    what, said = METHODS.get(found.proposal.method), found.prediction
    if what is None:
        return ""
    if said is None or said.measured is not None:
        return f"{what}."
    again = (
        " More tokens than it has layers were not compared: how much less it accepts when it is used again was not "
        "published of such a target."
        if said.used_once
        else ""
    )
    return f"{what}. Its predictions were not tested on measured speed-ups, as those of draft models were.{again}"


def predicted(found: Assessment) -> list[tuple[str, bool]]:
    """What is predicted of a pair, in lines, and for each whether it is a warning."""
    said = found.prediction
    row = said.plan.drafting if said is not None else None
    if said is None or row is None:
        return []
    rate, parts = said.acceptance, said.costs
    verb = "Measured" if said.evidence in MEASURED else "Predicted"
    known = ", measured," if said.measured is not None and verb == "Predicted" else ""
    lines = [
        f"{verb} with {printable(found.proposal.label)}: acceptance rate{known} {rate.rate:.2f} ({rate.low:.2f} to "
        f"{rate.high:.2f}){fades(rate.fade)}, {row.mean_acceptance_length:.2f} tokens per step at k = {row.k}; a plain "
        f"token takes {milliseconds(parts.target)}, a drafted one {parts.c:.2f} of it."
    ]
    if note := method_note(found):
        lines.append(note)
    if parts.ttft_overhead:
        lines.append(f"The draft's own prompt adds {milliseconds(parts.ttft_overhead)} to the time to the first token.")
    if said.end_to_end is not None and said.plan.num_spec_tokens:
        whole = said.end_to_end
        lines.append(
            f"A whole request takes {whole.total:.2f} s instead of {whole.total_without:.2f} s: {whole.speedup:.2f}×."
        )
    if found.schedule:
        lines.append(f"num_spec_tokens by load: {schedule(found)}.")
    doubts = said.measured.doubts if said.measured is not None else ()
    lines_of_doubt = [(f"Doubtful: {printable(ended(doubt))}", True) for doubt in doubts]
    return (
        [(line, False) for line in lines]
        + lines_of_doubt
        + [(f"{note[:1].upper()}{note[1:]}.", True) for note in parts.notes]
    )


def level(found: Iterable[Assessment]) -> str:
    """The heading of speed-ups: with the level of their intervals where they have one in common."""
    levels = {one.prediction.plan.speedup.level for one in found if one.prediction is not None}
    return f"speed-up ({spoken_level(levels.pop())})" if len(levels) == 1 else "speed-up"


def spoken_level(level: float) -> str:
    """The level of an interval: 80 %."""
    return f"{100 * level:.3g} %"


def short_names(labels: Sequence[str]) -> list[str]:
    """Names without their organisation, where they differ without it."""
    short = [label.rstrip("/").rpartition("/")[2] or label for label in labels]
    return [one if short.count(one) == 1 else label for one, label in zip(short, labels, strict=True)]


POLICY_HEADER = ("length of drafts", "tokens per step", "drafted", "speed-up", "rule")


def ran(advice: Advice) -> str:
    """Whether anything an answer says was measured."""
    found = [one.prediction for one in advice.assessments if one.prediction is not None]
    if any(one.measured and one.costs.source == GIVEN for one in found):
        return "acceptance was measured, costs were given"
    if any(one.evidence in MEASURED for one in found):
        return "acceptance and costs were measured"
    return "acceptance was measured, costs are predicted" if any(one.measured for one in found) else "nothing was run"


def policies(advice: Advice) -> list[tuple[str, ...]]:
    """A row for each adaptive length that was replayed."""
    rows: list[tuple[str, ...]] = []
    for row in advice.policies:
        length = f"{row.length.value:.2f}" if row.length is not None else "-"
        value = row.speedup
        gained = f"{value.value:.2f}× ({value.low:.2f}–{value.high:.2f})" if value is not None else "-"
        rows.append((row.name, length, f"{row.drafted:.2f}", f"{'≈' if row.estimated else ''}{gained}", row.what))
    return rows


def ended(text: str) -> str:
    """A clause as a sentence."""
    return text if text.endswith(("?", ".")) else f"{text}."


def schedule(found: Assessment) -> str:
    """The k for every number of sequences at once, as `3 for 1 to 4 sequences at once, 2 for 5 to 16`."""
    words: list[str] = []
    for low, high, k in found.schedule:
        unit = "" if words else " sequences at once" if high > 1 else " sequence at once"
        words.append(f"{k or '0 (no drafting)'} for {f'{low} to {high}' if low < high else low}{unit}")
    return ", ".join(words)


def by_k(found: Assessment) -> list[tuple[str, ...]]:
    """The rows of a table over k."""
    plan = found.prediction.plan if found.prediction is not None else None
    rows = plan.by_k if plan is not None else ()
    return [(str(row.k), f"{row.mean_acceptance_length:.2f}", gain(row) if row.k else "1.00× (plain)") for row in rows]


def milliseconds(seconds: float) -> str:
    """A time with two digits that matter."""
    value = seconds * 1e3
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"


def memory(found: Assessment) -> list[str]:
    """What the pair takes of each device's memory, and whether it fits; nothing where no device or memory was named."""
    setting = found.pair.setting
    if setting.device is None and setting.memory is None:
        return []
    budget = found.budget_in_place
    parts = budget.per_device_bytes
    many = f" of {setting.max_num_seqs:,} sequences" if setting.max_num_seqs is not None else ""
    short = parts.free is not None and parts.free < 0
    named = {
        "target": parts.target_weights,
        "draft": parts.draft_weights,
        f"KV cache{many}": _sum(parts.target_kv, parts.draft_kv),
        "workspace and reserve": _sum(parts.verify_workspace, parts.reserve),
        "missing" if short else "free": abs(parts.free) if parts.free is not None else None,
    }
    said = ", ".join(f"{name} {gib(value)}" for name, value in named.items() if value is not None)
    key = setting.device.key if setting.device is not None else "device"
    where = f"{found.num_devices} × {key}"
    lines = (
        [f"Memory of each of {where}, with {printable(found.proposal.label)}, GiB, estimated: {said}."] if said else []
    )
    room, without = budget.max_num_seqs, budget.max_num_seqs_without_draft
    if budget.fits is False and not room:
        need = budget.min_tensor_parallel_size
        lines.append("It does not fit." if need is None else f"It does not fit: it takes {need} × {key}.")
    elif room is not None and without is not None:
        wait = ": the rest wait" if budget.fits is False else ""
        lines.append(f"Room for {room:,} full-length sequences at once, {without:,} without the draft{wait}.")
    return lines


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def gib(value: float) -> str:
    """Bytes as GiB with one decimal."""
    return f"{value / 2**30:.1f}"
