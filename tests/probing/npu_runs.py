"""Runs commands on the stand-in for an NPU: each in a process of its own, which begins with torch imported already.

A line of standard input is a JSON object: `settings` of the stand-in, where stdout and stderr go, and the `arguments`
of draftpick, or a `script` instead. The answer to it is a line with the exit code.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

import torch  # noqa: F401  it imports torch_npu, as on a machine that has it
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM  # noqa: F401

from draftpick import replay  # noqa: F401
from draftpick.cli import main
from draftpick.probing import command  # noqa: F401
from draftpick.report import probe  # noqa: F401

SETTINGS: Any = sys.modules["torch_npu.settings"].SETTINGS  # type: ignore[attr-defined]


def follow(request: dict[str, Any]) -> None:
    for name, value in request["settings"].items():
        setattr(SETTINGS, name, value)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(request[name], os.O_CREAT | os.O_WRONLY), number)
    if "script" in request:
        exec(compile(request["script"], "script", "exec"), {"__name__": "script"})
        sys.exit(0)
    sys.argv = ["draftpick", *request["arguments"]]
    main()


# Collecting what torch and transformers made, in each process again, would take longer than most runs.
gc.freeze()
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        follow(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
