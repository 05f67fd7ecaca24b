"""Code of somebody who uses draftpick from Python: `make lint` checks its types, no test runs it."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import assert_type

import draftpick


def choose(folder: Path) -> int | None:
    advice: draftpick.AdviceFile = draftpick.recommend(
        "a/b", draft_model=["c/d", folder], engine="vllm", max_num_seqs=8
    )
    assert_type(draftpick.check(folder, "c/d", temperature=0.8), draftpick.AdviceFile)
    found: draftpick.ProbeFile = draftpick.probe("a/b", ["c/d"], temperature=[0, 0.8], output=folder / "probe.json")
    assert_type(draftpick.gate(folder / "pairs.toml").passed, bool)
    try:
        return draftpick.plan(found, device="910b3", policy="all").decision.num_spec_tokens
    except draftpick.DraftpickError as error:
        assert_type(error.hint, str)
        return advice.candidates[0].plan.num_spec_tokens


def mistakes() -> None:
    draftpick.recommend("a/b", max_num_seq=8)  # type: ignore[call-arg]
    draftpick.check("a/b", "c/d", temperature="hot")  # type: ignore[arg-type]
    draftpick.recomend("a/b")  # type: ignore[attr-defined]
