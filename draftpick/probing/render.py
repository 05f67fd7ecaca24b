"""Prompts as the ids that a model reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftpick.probing.device import CannotProbe
from draftpick.probing.prompts import Prompt


class Renderer:
    """Turns prompts into ids as the target's own chat template says, or as plain text where it has none."""

    def __init__(self, folder: Path, thinking: bool | None) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0][:300]
            raise CannotProbe(f"{folder}: its tokenizer cannot be loaded: {first}", "look at its files") from None
        self._options = {} if thinking is None else {"enable_thinking": thinking}
        self.has_template = bool(getattr(self._tokenizer, "chat_template", None))

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    def ids(self, prompt: Prompt) -> list[int]:
        """The ids of a request, up to where the answer begins."""
        if not self.has_template:
            return list(self._tokenizer(prompt.text).input_ids)
        messages = [{"role": "user", "content": prompt.text}]
        try:
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self._options
            )
        except Exception as error:
            raise CannotProbe(f"the target's chat template fails: {error}", "mend its tokenizer_config.json") from None
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def answer_ids(self, prompt: Prompt) -> list[int]:
        """The ids of an answer that is there already."""
        return list(self._tokenizer(prompt.response or "", add_special_tokens=False).input_ids)
