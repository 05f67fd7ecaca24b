"""Plans from numbers typed in, through the command line."""

from __future__ import annotations

import json
import re

import pytest

from draftpick.errors import UsageError
from draftpick.planning import plan_numbers

NUMBERS = {"acceptance_rate": 0.65, "draft_cost": 0.05}


@pytest.mark.parametrize(
    ("given", "k", "speedup"),
    [
        pytest.param({"num_spec_tokens": 5}, 5, 2.11, id="the source article's first pair"),
        pytest.param({}, 4, 2.10, id="the smallest k near the best"),
        pytest.param({"acceptance_rate": 0.40, "draft_cost": 0.39, "num_spec_tokens": 3}, 3, 0.75, id="a dear draft"),
        pytest.param({"acceptance_rate": 0.3, "draft_cost": 0.4}, 0, 1.0, id="nothing gains"),
        pytest.param({"verify_cost": 4.0, "num_spec_tokens": 3}, 3, 2.354 / 4.15, id="dear verification"),
        pytest.param({"draft_cost": 0.0}, 7, 2.77, id="free drafts"),
    ],
)
def test_the_plan(given: dict[str, float], k: int, speedup: float) -> None:
    plan = plan_numbers(**(NUMBERS | given)).plan  # type: ignore[arg-type]
    assert plan.num_spec_tokens == k
    assert plan.speedup.value == pytest.approx(speedup, abs=0.006)


@pytest.mark.parametrize(
    ("figure", "rate"),
    [
        pytest.param({"mean_acceptance_length": 2.6430, "num_spec_tokens": 5}, 0.65, id="mean acceptance length"),
        pytest.param({"draft_acceptance_rate": 0.3286, "num_spec_tokens": 5}, 0.65, id="accepted over drafted"),
    ],
)
def test_other_figures_give_the_same_rate(figure: dict[str, float], rate: float) -> None:
    assert plan_numbers(draft_cost=0.05, **figure).rate == pytest.approx(rate, abs=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"acceptance_rate": 1.2}, "from 0 to 1", id="rate above one"),
        pytest.param({"draft_cost": -0.1}, "0 or more", id="negative cost"),
        pytest.param({"verify_cost": 0.0}, "1 is as one token", id="free verification"),
        pytest.param({"mean_acceptance_length": 2.0}, "give one of", id="two figures"),
        pytest.param({"acceptance_rate": None}, "give one of", id="no figure"),
        pytest.param({"acceptance_rate": None, "draft_acceptance_rate": 0.4}, "-k 5", id="a figure without its k"),
        pytest.param({"draft_cost": None}, "--draft-cost", id="no cost"),
        pytest.param({"draft_cost": float("nan")}, "0 or more", id="not a number"),
        pytest.param({"draft_cost": 1e16}, "up to 1e15", id="cost without bound"),
        pytest.param({"overhead": 1e16}, "up to 1e15", id="overhead without bound"),
        pytest.param({"verify_cost": 1e-7}, "1 is as one token", id="all but free verification"),
    ],
)
def test_impossible_numbers_name_the_range(given: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_numbers(**(NUMBERS | given))  # type: ignore[arg-type]
    assert re.search(said, f"{caught.value.message} {caught.value.hint}")


def test_the_command_prints_the_document(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from draftpick import cli

    monkeypatch.setattr(
        "sys.argv", ["draftpick", "plan", "--acceptance-rate", "0.65", "--draft-cost", "0.05", "--json"]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert document["decision"]["num_spec_tokens"] == document["candidates"][0]["plan"]["num_spec_tokens"] == 4
    assert [row["k"] for row in document["candidates"][0]["plan"]["by_k"]] == list(range(9))
