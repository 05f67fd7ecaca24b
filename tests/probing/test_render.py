"""Prompts become ids as the target's own template says, for a real tokenizer and templates of the usual shapes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from draftpick.probing.device import CannotProbe
from draftpick.probing.prompts import Prompt
from draftpick.probing.render import Renderer

DEMO = Path(__file__).parents[2] / "catalog" / "demo" / "target"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking is defined and not enable_thinking %} /no_think"
    "{% endif %}{% endif %}"
)
PROMPT = Prompt("a", "def read(", response="self):")


def renderer(folder: Path, template: str | None, thinking: bool | None = None) -> Renderer:
    for path in DEMO.glob("tokenizer*"):
        shutil.copy(path, folder)
    if template is not None:
        path = folder / "tokenizer_config.json"
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**config, "chat_template": template}), encoding="utf-8")
    return Renderer(folder, thinking)


@pytest.mark.parametrize(
    ("template", "thinking", "text"),
    [
        (None, None, "<s>def read("),
        (None, True, "<s>def read("),
        (TEMPLATE, None, "<s>[user] def read(\n[assistant]"),
        (TEMPLATE, True, "<s>[user] def read(\n[assistant]"),
        (TEMPLATE, False, "<s>[user] def read(\n[assistant] /no_think"),
    ],
    ids=["none", "none, thinking", "template", "thinking", "not thinking"],
)
def test_a_prompt_is_put_as_the_template_says(
    template: str | None, thinking: bool | None, text: str, tmp_path: Path
) -> None:
    made = renderer(tmp_path, template, thinking)
    assert made.has_template == (template is not None)
    ids = made.ids(PROMPT)
    assert made.tokenizer.decode(ids) == text
    assert ids.count(made.tokenizer.bos_token_id) == 1, "the template writes it already"


def test_an_answer_is_its_own_text_alone(tmp_path: Path) -> None:
    made = renderer(tmp_path, TEMPLATE)
    assert made.tokenizer.decode(made.answer_ids(PROMPT)) == "self):"
    assert made.answer_ids(Prompt("b", "x")) == []


@pytest.mark.parametrize("template", ["{{ raise_exception('no user turns') }}", "{% for"])
def test_a_template_that_fails_is_told(template: str, tmp_path: Path) -> None:
    with pytest.raises(CannotProbe, match="the target's chat template fails") as error:
        renderer(tmp_path, template).ids(PROMPT)
    assert "tokenizer_config.json" in error.value.hint
