"""Where nobody compared two tokenizers before, the tokenizers themselves say whether ids mean the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from draftpick.models.tokenizer import Relation
from draftpick.probing.device import CannotProbe
from draftpick.probing.session import _shares_ids

DEMO = Path(__file__).parents[2] / "catalog" / "demo" / "target"
UNSURE = Relation("unknown", verified=False, reason="one tokenizer is not known")


def copy(folder: Path, exchanged: bool = False) -> Path:
    """The tokenizer of the demo, or one in which two tokens changed places."""
    folder.mkdir()
    for path in DEMO.glob("tokenizer*"):
        shutil.copy(path, folder)
    if exchanged:
        path = folder / "tokenizer.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        ids = found["model"]["vocab"]
        one, other = sorted(ids, key=ids.get)[-2:]
        ids[one], ids[other] = ids[other], ids[one]
        path.write_text(json.dumps(found), encoding="utf-8")
    return folder


@pytest.mark.parametrize("relation", [None, UNSURE], ids=["none", "unknown"])
@pytest.mark.parametrize("exchanged", [False, True], ids=["same", "exchanged"])
def test_tokenizers_that_nobody_compared_are_compared(
    exchanged: bool, relation: Relation | None, tmp_path: Path
) -> None:
    ours, theirs = copy(tmp_path / "ours"), copy(tmp_path / "theirs", exchanged)
    assert _shares_ids(relation, ours, theirs) is not exchanged


def test_a_tokenizer_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    broken = copy(tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(CannotProbe, match="the tokenizers cannot be compared"):
        _shares_ids(None, DEMO, broken)
