"""What is wrong with an engine's file, of the catalogue or of a user: the place, what, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from commands import run

from draftpick.engine_file import Severity, Support, VocabularyRule
from draftpick.validation import validate

TOP = """key = "toy"
name = "Toy"
version = "1.4"
source = "its documentation"
checked = 2026-11-29
"""
VOCABULARY = """[vocabulary]
rule = "none"
source = "its code"
"""
FULL = (
    TOP
    + """aliases = ["t"]
notes = ["it is small"]
gguf = "some"
builds = [{ build = 9014, date = 2026-05-04 }]

[vocabulary]
rule = "token-text"
max_size_difference = 128
first_compared_id = 5
special_ids_always = false
severity = "refuses at start"
source = "its code"
was = [{ since = "2024", until = "2024-11-25", special_ids_always = true, severity = "warns", source = "s" }]
bridge = { name = "--translate", since = "b4500", until = "b5000", note = "slow", source = "its code" }

[methods.draft_model]
support = "yes"
since = "v0.9.0"
until = "2.0"
note = "as STANDALONE"
needs = "a flag"
max_num_spec_tokens = 8
max_note = "its limit"
multiple_of_layers = true
reuses_layers = true
severity = "warns"
source = ["one", "two"]
was = [{ until = "0.13rc1", support = "no", note = "refused", severity = "silent no-op" }]

[architectures]
read = "1.0"
since = { LlamaForCausalLM = "0.9" }
seen = { Qwen3ForCausalLM = "1.1" }
stand_in = "1.1"
source = "its code"
checked = 2026-11-30

[limits]
max_num_spec_tokens = 16
note = "its limit"
severity = "refuses at start"
source = "its code"

[tensor_parallel]
any = "one-or-equal"
draft_model = "equal"
severity = "refuses at start"
source = "its code"
was = [{ until = "0.10.0", draft_model = "one-or-equal" }]

[step_overhead]
mode = "graph"
launch_per_layer = { nvidia = 0.00003, other = 0 }
per_token = 0.0005
per_step = 0
default_num_spec_tokens = 3
stop = "confidence"
stop_threshold = 0.75
certain = false
source = ["estimates"]
was = [{ until = "2026-05", stop = "fixed" }]

[[exceptions]]
methods = ["draft_model"]
target = { moe = true, hidden_size = ">=64" }
since = "0.9"
until = "2025"
certain = false
verdict = "care"
severity = "corrupts"
reason = "it drafts nonsense"
source = "a report"

[launch]
since = "1.2"
command = ["toy", "{target}"]
source = "toy --help"
checked = 2026-11-29
"""
)
EXCEPTION = '[[exceptions]]\nverdict = "care"\nreason = "r"\nsource = "s"\n'
METHOD = '[methods.mtp]\nsupport = "yes"\nsource = "s"\n'


def told(folder: Path, text: str) -> list[str]:
    path = folder / "engines" / "toy.toml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return [f"{problem} ({problem.fix})".removeprefix("engines/toy.toml: ") for problem in validate(folder)]


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        TOP + VOCABULARY,
        *(TOP + VOCABULARY.replace("none", rule) for rule in get_args(VocabularyRule) if rule != "token-text"),
        *(TOP + VOCABULARY + METHOD.replace("yes", support) for support in get_args(Support)),
        *(TOP + VOCABULARY + METHOD + f'severity = "{severity}"' for severity in get_args(Severity)),
        *(
            TOP + VOCABULARY + EXCEPTION.replace("care", verdict) + f"{condition}\n"
            for verdict, condition in [
                ("care", 'draft = { model_type = "!glm*" }'),
                ("refused", "head = { reduced_vocab = true }"),
                ("unknown", "either = { vision = true }"),
                ("care", 'setting = { num_spec_tokens = ">3" }'),
                ("care", 'device = { vendor = ["huawei", "apple"] }'),
                ("care", 'pair = { rows = "differ" }'),
            ]
        ),
    ],
)
def test_a_sound_file_has_no_problem(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []


NO_VERSION = "is no version: a release (0.9.0), a build (b4500) or a date (2026-05-04)"
SEVERITIES = (
    "severity: input should be 'refuses at start', 'fails at first request', 'crashes under load', 'corrupts', "
    "'silent no-op' or 'warns' (correct severity)"
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        *(
            (line + "\n", "", f"key {line.split()[0]!r} is missing (add {line.split()[0]} = …)")
            for line in TOP.splitlines()
        ),
        (VOCABULARY, "", "key 'vocabulary' is missing (add vocabulary = …)"),
        ("checked", "colour = 1\nchecked", "unknown key 'colour' (remove it, or see the keys in CONTRIBUTING)"),
        (
            "[vocabulary]",
            "[vocabulry]",
            "unknown key 'vocabulry'; did you mean 'vocabulary'? (did you mean 'vocabulary'?)",
        ),
        ('version = "1.4"', "version = 1.4", "version: a version is a text in quotes, not 1.4 (correct version)"),
        ('version = "1.4"', 'version = "soon"', f"version: 'soon' {NO_VERSION} (correct version)"),
        ('source = "its code"\n', "", "vocabulary: key 'source' is missing (add source = …)"),
        ('source = "its code"', 'source = ""', "vocabulary: source: string should have at least 1 character (c"),
        ('"none"', '"by-name"', "vocabulary: rule: input should be 'equal-rows', 'equal-rows-and-map', 'token-text',"),
        ('"none"', '"token-text"', "vocabulary: the rule token-text needs max_size_difference and first_compared_id"),
        ('"none"', '"none"\nseverity = "bad"', f"vocabulary: {SEVERITIES}"),
        ('"none"', '"none"\nwas = [{ source = "s" }]', "vocabulary.was number 1: key 'until' is missing"),
        ('"none"', '"none"\nwas = [{ until = "9" }]', "vocabulary.was number 1: key 'source' is missing"),
        (
            '"none"',
            '"none"\nwas = [{ until = "x", source = "s" }]',
            f"vocabulary.was number 1: until: 'x' {NO_VERSION}",
        ),
        ('"none"', '"none"\nbridge = { source = "s" }', "vocabulary.bridge: key 'name' is missing"),
        ('"none"', '"none"\nbridge = { name = "b" }', "vocabulary.bridge: key 'source' is missing"),
        (
            '"none"',
            '"none"\nbridge = { name = "b", source = "s", since = "?" }',
            f"vocabulary.bridge: since: '?' {NO_VERSION}",
        ),
        ("", METHOD.replace("yes", "maybe"), "methods.mtp: support: input should be 'yes', 'no', 'experimental' or"),
        ("", METHOD.replace('source = "s"', ""), "methods.mtp: key 'source' is missing"),
        ("", METHOD + "neds = 'x'", "methods.mtp: unknown key 'neds'; did you mean 'needs'?"),
        ("", METHOD + 'until = "?"', f"methods.mtp: until: '?' {NO_VERSION}"),
        ("", METHOD + 'was = [{ support = "maybe" }]', "methods.mtp.was number 1: support: input should be 'yes'"),
        ("", METHOD + 'was = [{ support = "no", severity = "bad" }]', f"methods.mtp.was number 1: {SEVERITIES}"),
        ("", METHOD + 'was = [{ support = "no", til = "1" }]', "methods.mtp.was number 1: unknown key 'til'; did you"),
        ("", "[architectures]\nread = '1'\nchecked = 2026-11-30", "architectures: key 'source' is missing"),
        (
            "",
            "[architectures]\nred = '1'\nsource = 's'\nchecked = 2026-11-30",
            "architectures: unknown key 'red'; did you mean 'read'?",
        ),
        (
            "",
            "[architectures]\nseen = { A = 'x' }\nsource = 's'\nchecked = 2026-11-30",
            f"architectures.seen: A: 'x' {NO_VERSION}",
        ),
        (
            "",
            "[architectures]\nseen.A = '1'\nsince.A = '2'\nsource = 's'\nchecked = 2026-11-30",
            "architectures: since and seen both name A",
        ),
        ("", "[limits]\nmax_num_spec_tokens = 3", "limits: key 'source' is missing"),
        ("", "[limits]\nmax_num_spec_tokens = 0\nsource = 's'", "limits: max_num_spec_tokens: input should be greater"),
        ("", "[tensor_parallel]\nany = 'equal'", "tensor_parallel: key 'source' is missing"),
        ("", "[tensor_parallel]\nany = 'same'\nsource = 's'", "tensor_parallel: any: input should be 'equal' or"),
        ("", "[step_overhead]\nper_step = 1", "step_overhead: key 'source' is missing"),
        (
            "",
            "[step_overhead]\nper_step = -1\nsource = 's'",
            "step_overhead: per_step: input should be greater",
        ),
        ("", "[step_overhead]\nper_step = true\nsource = 's'", "step_overhead: per_step: input should be a valid numb"),
        ("", "[step_overhead]\nper_step = nan\nsource = 's'", "step_overhead: per_step: input should be "),
        ("", "[step_overhead]\nper_stp = 1\nsource = 's'", "step_overhead: unknown key 'per_stp'; did you mean 'per_s"),
        ("", EXCEPTION, "exceptions number 1: no condition: a method that is never taken belongs into its own table"),
        ("", EXCEPTION + "taget = { moe = true }", "exceptions number 1: unknown key 'taget'; did you mean 'target'?"),
        ("", EXCEPTION + "target = { mo = true }", "exceptions number 1: target has no 'mo'; did you mean 'moe'?"),
        (
            "",
            EXCEPTION + "target = { hidden_size = '>many' }",
            "exceptions number 1: the condition '>many' compares",
        ),
        ("", EXCEPTION.replace("care", "accepted"), "exceptions number 1: verdict: input should be 'refused', 'care'"),
        ("", EXCEPTION.replace('reason = "r"', ""), "exceptions number 1: key 'reason' is missing"),
        ("", EXCEPTION.replace('source = "s"', ""), "exceptions number 1: key 'source' is missing"),
        ("", "[launch]\nsince = 'x'\nsource = 's'\nchecked = 2026-11-30", f"launch: since: 'x' {NO_VERSION}"),
        (
            "",
            "[launch]\nsource = 's'\nchecked = 2026-11-30\n[[launch.method]]\nsource = 's'",
            "launch.method number 1: key 'names' is missing",
        ),
        ("checked", "builds = [{ build = 1, date = 2026-01-01, x = 1 }]\nchecked", "builds number 1: unknown key 'x'"),
    ],
)
def test_one_thing_wrong_is_one_sentence(tmp_path: Path, before: str, after: str, said: str) -> None:
    sound = TOP + VOCABULARY
    found = told(tmp_path, sound.replace(before, after, 1) if before else sound + after + "\n")
    assert any(sentence.startswith(said) for sentence in found), found
    assert len(found) == (2 if after in ("[vocabulry]", 'source = ""') else 1), found  # missing too; nor is it a list


@pytest.mark.parametrize("asked", [("catalog", "validate"), ("check", "Qwen/Qwen3-32B", "ngram", "--catalog")])
def test_every_reader_of_an_overlay_says_it(tmp_path: Path, asked: tuple[str, ...]) -> None:
    told(tmp_path, TOP + VOCABULARY + METHOD + 'since = "soon"\n')
    answer = run(*asked, str(tmp_path))
    assert answer.exit_code == 2
    assert f"engines/toy.toml: methods.mtp: since: 'soon' {NO_VERSION}" in answer.stdout + answer.stderr
