"""Files that were changed by hand: they load and can be reported, or are refused; nothing in between."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from answers import paired, recommended
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed import shape_of
from probe_documents import draft, probe, share

from draftpick.advice_file import AdviceFile
from draftpick.errors import InvalidFile
from draftpick.probe_file import ProbeFile
from draftpick.report import saved
from draftpick.report.json import document

LAW = settings(deadline=None, derandomize=True, max_examples=120)
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 256, 2**62, 2**64, -0.5, 0.5, 1.0, 1e300, float("nan"), "", "x", "\ud800", "|`\n", [], [None],
    [1], {}, {"a": [{}]}, [[1, 2, 3]],
)  # fmt: skip
DOMAINS = {name: {"acceptance_rate": share(0.5), "num_prompts": 8} for name in ("code", "prose")}
DOCUMENTS: tuple[dict[str, Any], ...] = (
    document(recommended()),
    document(paired(0.8)),
    probe(draft(by_domain=DOMAINS), draft("acme/second"), decided="acme/draft").plain(),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value inside."""
    if isinstance(value, dict):
        inside = [place for key, one in value.items() for place in places(one, (*path, key))]
    elif isinstance(value, list):
        inside = [place for key, one in enumerate(value) for place in places(one, (*path, key))]
    else:
        inside = []
    return [path, *inside] if path else inside


PLACES = [places(json.loads(json.dumps(document))) for document in DOCUMENTS]


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """A document in which some values are others, or gone."""
    which = draw(st.integers(0, len(DOCUMENTS) - 1))
    found: dict[str, Any] = json.loads(json.dumps(DOCUMENTS[which]))
    for path in draw(st.lists(st.sampled_from(PLACES[which]), min_size=1, max_size=3)):
        inside: Any = found
        try:
            for key in path[:-1]:
                inside = inside[key]
            if draw(st.booleans()):
                inside[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
            else:
                del inside[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved") / "changed.json"


def read(path: Path) -> AdviceFile | ProbeFile | InvalidFile:
    try:
        return saved.read(path)
    except InvalidFile as error:
        return error


@LAW
@given(found=changed())
def test_a_changed_file_is_reported_or_refused(found: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(found), encoding="utf-8")
    answer = read(path)
    if isinstance(answer, InvalidFile):
        assert answer.message.startswith(str(path))
        return
    assert shape_of(saved.write(answer, "markdown", explain=True))
    assert saved.write(answer, "csv")
    path.write_text(saved.write(answer, "json"), encoding="utf-8")
    assert read(path) == answer
