"""Pairs whose tokenizers differ: no one pass measures them, so the software's own loop runs, for a few k."""

from __future__ import annotations

from collections.abc import Callable

from draftpick import probe_file
from draftpick.choices import PROBE
from draftpick.probing import timing
from draftpick.probing.device import CannotProbe, failures_told
from draftpick.probing.local import load
from draftpick.probing.outcome import ModelFiles
from draftpick.probing.render import Renderer
from draftpick.probing.run import Probe

METHOD = "universal assisted generation"
LENGTHS = (1, 4, 8)
MOST_PROMPTS = 8


def measure(running: Probe, draft: ModelFiles, say: Callable[[str], None]) -> probe_file.TranslatedRecord:
    """Tokens per step and speed-up of a draft that speaks through text. Raises CannotProbe where no loop translates."""
    request, target = running.outcome.request, running.target
    model = load(
        draft.folder, id=draft.id, device=running.outcome.place.id, dtype=request.dtype, devices=request.devices
    )
    theirs = Renderer(draft.folder, None).tokenizer
    limit = min(int(PROBE["check-tokens"]), request.max_new_tokens)
    prompts = list({row.prompt: row.prompt_ids for row in running.outcome.rows}.values())[:MOST_PROMPTS]
    with failures_told(target.device):
        plain = [timing.run_plain(target, ids, limit) for ids in prompts]
    rows: list[probe_file.TranslatedK] = []
    for k in (k for k in LENGTHS if k <= request.k_max):
        say(f"running {METHOD} with {draft.id}, k = {k}")
        try:
            with failures_told(target.device):
                runs = [
                    timing.run_assisted(
                        target, model, ids, limit, k, tokenizer=running.renderer.tokenizer, assistant_tokenizer=theirs
                    )
                    for ids in prompts
                ]
        except (ValueError, RuntimeError, KeyError, TypeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise CannotProbe(
                f"{draft.id} has another tokenizer, and transformers does not translate it: {first}",
                "take a draft with the target's tokenizer",
            ) from None
        tokens, steps = sum(len(run.tokens) for run in runs), sum(run.steps for run in runs)
        spent, without = sum(run.seconds for run in runs), sum(run.seconds for run in plain)
        rows.append(probe_file.TranslatedK(k=k, mean_acceptance_length=tokens / steps, speedup=without / spent))
    return probe_file.TranslatedRecord(draft=draft.id, method=METHOD, num_prompts=len(prompts), by_k=rows)
