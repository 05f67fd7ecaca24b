"""draftpick from Python: the commands as functions, which return what those write as JSON, as records.

A function takes the options of its command by their names, with `_` for `-`: `--max-num-seqs 8` is `max_num_seqs=8`,
and what is not given is as if it had not been typed. It prints nothing, asks nothing and never exits. What goes wrong
is a `DraftpickError`, whose `hint` names options as the command line does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftpick import commands
from draftpick.advice_file import AdviceFile, advice_of
from draftpick.gate_file import GateFile
from draftpick.option_values import ARGUMENTS, PARAMETERS, Unfit, meant, refuse, takes_several
from draftpick.probe_file import ProbeFile, to_text


def recommend(
    target: str | Path,
    *,
    draft_model: str | Path | Sequence[str | Path] | None = None,
    engine: str | None = None,
    device: str | None = None,
    tensor_parallel_size: int | None = None,
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    num_speculative_tokens: int | None = None,
    dtype: str | None = None,
    quantization: str | None = None,
    draft_quantization: str | None = None,
    memory: str | None = None,
    bandwidth: str | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_dtype: str | None = None,
    stop_rule: str | None = None,
    temperature: float | None = None,
    workload: str | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
    images: bool | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    offline: bool = False,
    catalog: str | Path | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    rules_file: str | Path | None = None,
    probe: bool = False,
    yes: bool = False,
    all: bool = False,
) -> AdviceFile:
    """Rank the drafts for a target, with the reason for each, and say which look right but are not.

    Works from facts, without weights, in about a second; with `probe=True` it measures for minutes.

    Args:
        target: A hub id, a folder, a GGUF file, or a name of the catalogue.
        draft_model: Of all drafts, judge only this one, or these.
        engine: NAME or NAME@VERSION, as "vllm-ascend@0.18.0"; without it, every engine's verdict is given.
        device: As "910b3" or "atlas-800i-a2"; "auto", "npu:1" or "cuda" for one that is here.
        tensor_parallel_size: Devices that a model is split over, 1 to 1024; 1 if not given.
        max_model_len: The longest context, in tokens.
        max_num_seqs: Sequences served at once; 1 if not given.
        num_speculative_tokens: Tokens drafted per step, 1 to 64, to be judged instead of chosen.
        dtype: "bfloat16", "float16" or "float32", if not the checkpoint's.
        quantization: Of the target, as "awq" or "w8a8".
        draft_quantization: Of the draft.
        memory: Of one device with its unit, as "64GB" or "60.9GiB", if not the device's own.
        bandwidth: Of one device's memory, as "1600GB/s", if not the device's own.
        gpu_memory_utilization: Share of a device's memory that the engine may take, 0.05 to 1.
        kv_cache_dtype: "fp8", "int8" …, if not the model's.
        stop_rule: When a draft ends: "fixed", "heuristic" or "confidence", if not by the engine's own rule.
        temperature: Of the requests, 0 to 10; 0 is greedy.
        workload: Kind of text, as "chat", "code" or "math".
        input_len: Tokens of a prompt.
        output_len: Tokens of an answer.
        images: Whether requests carry images; None: not known.
        revision: Of the target.
        trust_remote_code: Whether the engine would run a model's own code; draftpick itself never does.
        offline: Never ask a model hub; the variable HF_HUB_OFFLINE=1 says the same.
        catalog: A folder with catalogue rows of your own.
        select: Run only this rule, or these.
        ignore: "RULE=reason", or several: the finding stays, and is not counted.
        rules_file: TOML with select and the tables weights and ignore.
        probe: Measure the first drafts on this machine and rank by that. The probe is kept in the current folder, as
            probe-TARGET.json with its trace beside it; a run that was broken off goes on.
        yes: Weights that `probe` needs may be fetched; without it, only those that are here are measured.
        all: Judge the whole catalogue.

    Returns:
        The record of `draftpick recommend --json`. `decision` says what to do, `candidates` holds every draft in its
        order, the rejected ones last.

    Raises:
        UsageError: A value that cannot be meant, an unknown engine, device or rule.
        NotResolvable: A model that is missing, gated, or not here while offline.
        InvalidFile: A model's files, a catalogue or a rules file that are corrupt.
        CannotProbe: With `probe`, nothing can be measured here.

    Example:
        >>> import draftpick
        >>> advice = draftpick.recommend("Qwen/Qwen2.5-72B-Instruct", engine="vllm-ascend", tensor_parallel_size=4)
        >>> advice.decision.draft
        'Qwen/Qwen2.5-7B-Instruct'
    """
    options = _options(locals())
    answer, _ = commands.recommend(options, say=_silent, ask=_refuse)
    return advice_of(commands.document(answer, options))


def check(
    target: str | Path,
    draft: str | Path,
    *,
    engine: str | None = None,
    device: str | None = None,
    tensor_parallel_size: int | None = None,
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    num_speculative_tokens: int | None = None,
    dtype: str | None = None,
    quantization: str | None = None,
    draft_quantization: str | None = None,
    memory: str | None = None,
    bandwidth: str | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_dtype: str | None = None,
    stop_rule: str | None = None,
    temperature: float | None = None,
    workload: str | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
    images: bool | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    offline: bool = False,
    catalog: str | Path | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    rules_file: str | Path | None = None,
) -> AdviceFile:
    """Judge one pair: every finding, and the verdict of every engine. All other parameters are those of `recommend`.

    Args:
        target: A hub id, a folder, a GGUF file, or a name of the catalogue.
        draft: A model, named as the target, or a published head.

    Returns:
        The record of `draftpick check --json`: an advice with one candidate. `candidates[0].viable` says whether the
        pair can be, `candidates[0].findings` why.

    Raises:
        UsageError, NotResolvable, InvalidFile: As `recommend` does.

    Example:
        >>> import draftpick
        >>> pair = draftpick.check("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B").candidates[0]
        >>> [finding.rule for finding in pair.findings if finding.outcome == "reject"]
        []
    """
    options = _options(locals())
    return advice_of(commands.document(commands.check(options), options))


def probe(
    target: str | Path | None = None,
    draft: str | Path | Sequence[str | Path] | None = None,
    *,
    target_url: str | None = None,
    draft_url: str | Sequence[str] | None = None,
    speculating_url: str | Sequence[str] | None = None,
    model: str | None = None,
    device: str | None = None,
    tensor_parallel_size: int | None = None,
    dtype: str | None = None,
    attention: str | None = None,
    engine: str | None = None,
    num_speculative_tokens: int | None = None,
    temperature: float | Sequence[float] | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    thinking: bool | None = None,
    workload: str | None = None,
    prompts: str | Path | None = None,
    responses: str | Path | None = None,
    num_prompts: int | None = None,
    max_new_tokens: int | None = None,
    batch_size: int | None = None,
    precision: float | None = None,
    time_limit: int | None = None,
    costs: str | Path | None = None,
    timed_batch: int | Sequence[int] | None = None,
    context: int | None = None,
    verify: int | None = None,
    trace: str | Path | None = None,
    resume: bool = False,
    yes: bool = False,
    revision: str | None = None,
    offline: bool = False,
    catalog: str | Path | None = None,
    output: str | Path | None = None,
) -> ProbeFile:
    """Measure drafts on this device, or behind servers: the acceptance rate, every number of tokens, what a step costs.

    Runs for minutes. Each answer goes to the trace as soon as it is there, so that a run that is broken off
    (KeyboardInterrupt) has lost nothing: the same call with `resume=True` goes on. A trace is never written over.

    Args:
        target: A hub id, a folder, or a name of the catalogue; behind servers its name, or nothing.
        draft: One draft or several, named as the target.
        target_url: A server of the target that speaks OpenAI's API.
        draft_url: A server of a draft, or several.
        speculating_url: "K=URL": a server of the target that drafts K tokens per step, or several.
        model: What the target's server calls it, if it serves several.
        device: "npu", "npu:0", "cuda:1", "mps", "cpu" or "auto", which is meant if nothing is given; behind servers a
            device of the catalogue.
        tensor_parallel_size: Devices that a model is split over.
        dtype: "bfloat16", "float16" or "float32"; if not given float32 on a CPU, else the checkpoint's.
        attention: "sdpa", "eager" or another implementation of transformers.
        engine: By whose rules drafts are verified; transformers if not given.
        num_speculative_tokens: The most tokens drafted per step, 1 to 64; 8 if not given.
        temperature: At which the target writes, one or several; 0, which is greedy, if not given.
        top_k: Sample among so many tokens; 0: among all.
        top_p: Sample among the likeliest tokens of this share.
        seed: Of what is sampled.
        thinking: What the target's chat template is told, if it has the switch.
        workload: Kind of the prompts that come with draftpick, as "chat", "code" or "math".
        prompts: JSON Lines with your own: {"prompt": "…", "domain": "…"}.
        responses: JSON Lines of the target's own answers: {"prompt": "…", "response": "…"}.
        num_prompts: The most prompts to use.
        max_new_tokens: The longest answer, in tokens.
        batch_size: Answers written at once; it changes no figure.
        precision: Half-width of the acceptance rate that is enough, a share; 0: use all prompts.
        time_limit: Seconds after which no more prompts are begun.
        costs: "measured" (if not given), "roofline" (leave them to `plan`), or a JSON file with times.
        timed_batch: Sequences at once for which steps are timed, one number or several.
        context: Tokens in the cache when steps are timed.
        verify: Also run transformers' assisted generation with this k.
        trace: The file that the trace is written to as it goes; if not given beside `output`, and without that
            probe.trace.jsonl in the current folder.
        resume: Go on with a trace that is there.
        yes: Weights may be fetched; without it only what is here is measured.
        revision: Of the target.
        offline: Never ask a model hub; the variable HF_HUB_OFFLINE=1 says the same.
        catalog: A folder with catalogue rows of your own.
        output: A file for the record, which `plan`, `gate` and the commands read; also one that is broken off.

    Returns:
        The record of `draftpick probe --json`. `drafts` has an entry for each draft and temperature; times are
        milliseconds, rates shares.

    Raises:
        UsageError: A value that cannot be meant, or a trace that is there without `resume`.
        NotResolvable: A model that is missing, gated, or not here while offline.
        CannotProbe: Nothing can be measured here: no torch, no weights, too little memory, a server out of reach.
        AbsentDevice: The device is not here.
        CannotWrite: A place that cannot be written.
        InvalidFile: Prompts, responses, costs or a model's files that are corrupt.

    Example:
        >>> import draftpick
        >>> found = draftpick.probe("./my-target", "./my-draft", prompts="traffic.jsonl", output="probe.json")
        >>> rate = found.drafts[0].acceptance_rate
        >>> rate.low, rate.value, rate.high
    """
    options = _options(locals(), several=True)
    done = commands.probe(options, say=_silent, ask=_refuse)
    if options["output"] is not None:
        from draftpick.atomic import write_text

        write_text(options["output"], to_text(done.probe))
    if done.interrupted:
        raise KeyboardInterrupt
    return done.probe


def plan(
    probe_file: str | Path | ProbeFile | None = None,
    *,
    acceptance_rate: float | None = None,
    mean_acceptance_length: float | None = None,
    draft_acceptance_rate: float | None = None,
    draft_cost: float | None = None,
    verify_cost: float | None = None,
    overhead: float | None = None,
    num_speculative_tokens: int | None = None,
    policy: str | Sequence[str] | None = None,
    costs: str | Path | None = None,
    target_url: str | None = None,
    draft_url: str | Sequence[str] | None = None,
    speculating_url: str | Sequence[str] | None = None,
    model: str | None = None,
    engine: str | None = None,
    device: str | None = None,
    tensor_parallel_size: int | None = None,
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    dtype: str | None = None,
    quantization: str | None = None,
    draft_quantization: str | None = None,
    memory: str | None = None,
    bandwidth: str | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_dtype: str | None = None,
    temperature: float | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
    catalog: str | Path | None = None,
) -> AdviceFile:
    """Choose the number of tokens to draft, or judge a given one: from a saved probe, for any place and load, or from
    numbers.

    Args:
        probe_file: A probe file, or the record that `probe` returned. Of a record the trace is looked for in the
            current folder; where it lies elsewhere and is needed (`policy`, `costs`), name the file.
        acceptance_rate: Without a probe: the chance that a drafted token is accepted, 0 to 1.
        mean_acceptance_length: Instead: tokens per step at `num_speculative_tokens`, the target's own included.
        draft_acceptance_rate: Instead: accepted / drafted at `num_speculative_tokens`, as engines log it.
        draft_cost: Without a probe: the time of a drafted token, in plain steps of the target; 0 for n-gram lookup.
        verify_cost: Time of a verification, in plain steps of the target; 1 if not given.
        overhead: What a step with a draft adds, in plain steps of the target; 0 if not given.
        num_speculative_tokens: Tokens drafted per step, 1 to 64, to be judged instead of chosen.
        policy: "fixed", "rate", "heuristic", "confidence", "p-min" or "all": adaptive lengths, replayed on the trace.
        costs: "served" (those of the probe's servers), "synthetic" (start vLLM here and time it), or a JSON file.
        target_url, draft_url, speculating_url, model: Servers to time now, as `probe` takes them.
        temperature: Of several that were measured; the first if not given.

    The other parameters say where the pair shall run, as those of `recommend` do.

    Returns:
        The record of `draftpick plan --json`: an advice, whose `target` is None where it came from numbers.

    Raises:
        UsageError: Numbers that cannot be, or are missing; a temperature that was not measured; a policy without the
            trace.
        InvalidFile: What is no probe file, or is not the trace of it.
        CannotProbe: Servers that cannot be timed.

    Example:
        >>> import draftpick
        >>> draftpick.plan(acceptance_rate=0.65, draft_cost=0.05).decision.num_spec_tokens
        4
    """
    called = dict(locals())
    if isinstance(probe_file, ProbeFile):
        options = {**_options({**called, "probe_file": None}), "probe_file": probe_file}
    else:
        options = _options(called)
    return advice_of(commands.document(commands.plan(options, say=_silent), options))


def gate(
    policy_file: str | Path = "pairs.toml",
    *,
    update_baseline: bool = False,
    yes: bool = False,
    offline: bool = False,
    catalog: str | Path | None = None,
) -> GateFile:
    """Judge the pairs of a policy: whether each keeps its thresholds, and is no worse than its baseline.

    Args:
        policy_file: TOML with pairs, thresholds and evidence; what it names is seen from its folder.
        update_baseline: Write what was measured as the baseline of the pairs that pass.
        yes: Weights may be fetched for pairs that say `probe = true`.
        offline: Never ask a model hub; the variable HF_HUB_OFFLINE=1 says the same.
        catalog: A folder with catalogue rows of your own.

    Returns:
        The record of `draftpick gate --json`. A pair that fails is no error: look at `passed`, `pairs` and their
        `checks`. `exit_code` is that of the command.

    Raises:
        UsageError: There is no such policy file.
        InvalidFile: A policy, a baseline or a catalogue that is corrupt, or says something that cannot be meant.

    Example:
        >>> import draftpick
        >>> [pair.name for pair in draftpick.gate("pairs.toml").pairs if not pair.passed]
    """
    return commands.gate(_options(locals()), say=_silent, ask=_refuse)


def _silent(text: str) -> None:
    """Nobody watches the progress of a call."""


def _refuse(what: str) -> bool:
    """Nobody is asked whether something large may be fetched."""
    return False


_TELLING = ("images", "thinking")
"""Switches of which no says something else than nothing at all."""


def _options(called: Mapping[str, Any], *, several: bool = False) -> dict[str, Any]:
    """The values of a call as those of a command; `several`: of a probe, which takes several where others take one.

    Raises UsageError.
    """
    return {PARAMETERS.get(name, name): _value(name, value, several) for name, value in called.items()}


def _value(name: str, called: Any, several: bool) -> Any:
    parameter, value = PARAMETERS.get(name, name), _plain(called)
    if value is None or value == []:
        return None
    if takes_several(parameter, of_probe=several) and not isinstance(value, list):
        value = [value]
    try:
        found = meant(parameter, value, of_probe=several)
    except Unfit as unfit:
        refuse(name if name in ARGUMENTS else f"--{name.replace('_', '-')}", unfit.value, unfit.wanted)
    return None if found is False and parameter not in _TELLING else found


def _plain(value: Any) -> Any:
    """A value as a config file would have it: numbers of numpy and pandas are numbers, and paths are texts."""
    from numbers import Integral, Real

    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return [_plain(one) for one in value] if isinstance(value, Sequence) else value
