"""The numbers that are choices, not facts: how much a rule weighs and where it starts to warn, each with its reason."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from draftpick.errors import InvalidFile, UsageError


class Choice(NamedTuple):
    """A number somebody chose. A name without a dot is the weight of that rule, `rule.limit` one of its limits."""

    name: str
    value: float
    why: str


TABLE: tuple[Choice, ...] = (
    # Weights. 10 decides about use or uselessness; 5 moves the speed-up by a lot; 2 by a little; 1 informs.
    Choice("tokenizer-identity", 10, "without the same ids next to nothing is accepted"),
    Choice("control-tokens", 2, "costs acceptance around templates and at the end of answers only"),
    Choice("stop-tokens", 2, "costs one token per answer, and llama.cpp looks at bos and eos"),
    Choice("text-cut", 2, "the draft sees the target's ids, so the cut only makes some tokens rare for it"),
    Choice("embedding-rows", 3, "harmless for text, yet several engines refuse over it"),
    Choice("swapped-roles", 1, "it rejects where it matters; passing it says little"),
    Choice("self-draft", 2, "the target cannot be faster than itself; passing says little"),
    Choice("size-ratio", 6, "cost per drafted token, the larger half of the speed-up's denominator"),
    Choice("target-size", 4, "where a step is all launches, there is little to win"),
    Choice("depth", 6, "launch-bound steps cost by layer, not by parameter"),
    Choice("moe-verify", 2, "verifying several tokens wakes more experts than one token does"),
    Choice("draft-length", 3, "a wrong number of tokens turns a good pair into a loss"),
    Choice("architecture", 1, "informs: architecture acts through cost, not through the vocabulary"),
    Choice("lineage", 5, "what both were trained on is the best fact about acceptance there is without measuring"),
    Choice("tuning", 3, "a base draft does not know the answers' form"),
    Choice("subject", 2, "a coder drafts prose less well, and the other way round"),
    Choice("thinking-mode", 3, "the first part of a thinking answer is text the other mode never writes"),
    Choice("changed-target", 3, "a target that was trained on moves away from drafts made for its base"),
    Choice("made-for", 5, "trained on this very target's answers: the strongest prior for acceptance"),
    Choice("licence", 1, "no matter of speed, yet a pair is only as free as its stricter half"),
    Choice("context-length", 3, "beyond the draft's length there is no gain, or a crash in some versions"),
    Choice("rope-scaling", 1, "matters in long contexts only"),
    Choice("modality", 3, "a draft that does not see the image guesses blindly about it"),
    Choice("mrope", 2, "several engines refuse such a draft outright"),
    Choice("recurrent-state", 3, "where the state cannot be rolled back, drafting does not run or does not pay"),
    Choice("quantization", 2, "moves the gain, seldom the acceptance"),
    Choice("tensor-parallel", 5, "heads that do not divide stop the engine at start"),
    Choice("dtype", 3, "a format the device lacks is converted, with a risk of overflow"),
    Choice("file-format", 3, "a file the engine cannot read is no draft there"),
    Choice("remote-code", 1, "code of its own has to be trusted, and often keeps a cache nobody can trim"),
    Choice("head-target", 10, "a head reads the hidden states of one checkpoint"),
    Choice("head-hidden-size", 8, "other widths do not multiply"),
    Choice("head-vocabulary", 5, "a head speaks its target's ids"),
    Choice("head-not-a-draft", 1, "it rejects where it matters; passing it says little"),
    Choice("mtp-layers", 10, "no layers, no drafting"),
    # Limits.
    Choice("size-ratio.low", 3, "below, the draft's own steps eat the gain: a 2x pair lost 12 % at 66 % accepted"),
    Choice("size-ratio.ideal-low", 5, "start of the customary range of 5 to 10 times"),
    Choice("size-ratio.ideal-high", 10, "end of it; in 141 published groups the nearest to 7x won 34"),
    Choice("size-ratio.high", 15, "beyond, acceptance tends to fall; small drafts still won 78 of those 141 groups"),
    Choice("size-ratio.fade", 0.008, "times the squared e-folds above the ideal: 57x keeps 0.98, 1000x 0.83"),
    Choice("size-ratio.floor", 0.5, "an enormous ratio is still no reason to leave a draft unmeasured"),
    Choice("swapped-roles.most-kept", 0.5, "of the target's weights in memory: more takes the room of the caches"),
    Choice("swapped-roles.fewer-bytes", 0.75, "a quantised copy reading under 3/4 of the bytes is weak, not swapped"),
    Choice("target-size.small", 3e9, "a 1.7B target with a 135M draft lost 30 % in spite of very high acceptance"),
    Choice("depth.shallow", 0.25, "up to a quarter of the target's layers even a launch-bound step is cheap"),
    Choice("depth.deep", 0.5, "36 against 64 layers cost 0.53 of a step on an Atlas 800I A2"),
    Choice("moe-verify.long", 4, "longer drafts gave sparse targets nothing in public reports"),
    Choice("draft-length.assumed", 3, "the length assumed where none is given"),
    Choice("draft-length.long", 8, "the best k of nearly every published pair is at most 8"),
    Choice(
        "draft-length.reuse",
        3,
        "run more often an MTP layer drafts off its training: past that DeepSeek-V4 gains nothing, PM1769 to PM1784",
    ),
    Choice("context-length.halving", 0.1, "score lost each time the draft's context is half of what is wanted"),
    Choice("context-length.asked", 0.3, "score where a length was asked for and the draft ends before it"),
    Choice("tensor-parallel.sharded", 4, "from four devices on, a small draft's all-reduces weigh more than its work"),
    Choice("tensor-parallel.share", 2.5e9, "parameters per device below which a draft's step is all-reduce and launch"),
)

ENGINE_PREFERENCE = (
    "vllm",
    "sglang",
    "llama.cpp",
    "vllm-ascend",
    "sglang-ascend",
    "tensorrt-llm",
    "transformers",
    "mlx",
)
"""Which engine an answer holds for where none was named: the one most people serve with comes first."""
USUAL_ENGINES = frozenset({"vllm", "sglang", "llama.cpp"})
"""Named before others accept a pair more readily: nobody changes to a rare engine for the sake of a draft."""
APPLE_PREFERENCE = ("mlx", "llama.cpp")
"""The same on an Apple device."""
CPU_PREFERENCE = ("llama.cpp", "transformers")
"""The same on a processor alone."""
ASCEND_PREFERENCE = ("vllm-ascend", "sglang-ascend", "xllm", "mindie")
"""The same on an Ascend device."""

REFERENCE_DEVICE = "h100-80g"
"""What a prediction holds for where no device was named: the accelerator most measurements are published on."""
REFERENCE_DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "vllm-ascend": "910b4-1",
        "sglang-ascend": "910b4-1",
        "xllm": "910b4-1",
        "mindie": "910b4-1",
        "mlx": "m4-max",
    }
)
"""The same for engines that do not run there: the Atlas 800I A2 is the NPU server sold for inference."""

WEIGHTS: Mapping[str, float] = {choice.name: choice.value for choice in TABLE if "." not in choice.name}
LIMITS: Mapping[str, float] = {choice.name: choice.value for choice in TABLE if "." in choice.name}

COST_TABLE: tuple[Choice, ...] = (
    # What a pass costs where neither the device's nor the engine's file says, nor measurements were there to fit.
    Choice("memory", 0.8, "share of the bandwidth that reading weights reaches on most devices"),
    Choice("compute", 0.3, "share of the peak that a pass over a few positions reaches: its matrices are thin"),
    Choice("thin_rows", 32, "rows of a pass up to which its matrices are thin; published rows have at most 17"),
    Choice("thick_rows", 8192, "rows from which on a pass computes as a whole prompt does"),
    Choice("cost_error", 0.25, "half-width of ln(cost) at 80 %, for methods whose predictions nobody could check"),
    Choice("overlap", 1.5, "exponent that joins reading and arithmetic: 1 adds them up, a large one takes the longer"),
    Choice("prefill", 0.6, "share of the peak over a whole prompt"),
    Choice("unpacking", 2.0, "quantised weights are unpacked before they are multiplied"),
    Choice(
        "fewest_bits", 4.8, "below, unpacking costs what the shorter reading saves: Q2 and Q3 run no faster than Q4"
    ),
    Choice("launch_per_layer", 0.00005, "seconds: an engine that nobody timed, between graphs and a Python loop"),
    Choice("launch_per_expert", 0.0, "engines with grouped experts launch one kernel for all of them"),
    Choice(
        "routing",
        0.785,
        "exponent of the tokens of a pass: at 8 of 128 experts 8 tokens wake 36 of them, independent ones would 52",
    ),
    Choice(
        "latent_layer",
        5,
        "latent attention and shared experts: Kimi-K2's 61 layers take 16 to 18 ms in SGLang at 8 sequences "
        "(PM0826 to PM0838), of which the roofline explains 7",
    ),
    Choice("plain_layer", 0.5, "share of a Llama layer's kernels: about 15 against 35 without rotary, gate, RMS norm"),
    Choice("per_token", 0.0005, "seconds of scheduling and sampling per plain step"),
    Choice("per_step", 0.002, "seconds: rejection sampling and the loss of overlapped scheduling"),
    Choice("per_draft_token", 0.0005, "seconds of sampling per drafted token"),
    Choice("per_translation", 0.004, "seconds: text out of one tokenizer and into the other"),
    Choice("cache_factor", 1, "a paged cache is read once, at the bandwidth of the weights"),
    Choice("all_reduce", 0.00002, "seconds of one all-reduce of a few rows; a layer does two"),
    Choice("context", 1024, "tokens per sequence where no lengths are given: a chat turn"),
    Choice("launch_bound", 0.5, "more than this share of a draft pass in launches makes its size irrelevant"),
)
"""What the roofline assumes; see cost.py."""

PRIOR_TABLE: tuple[Choice, ...] = (
    Choice("num_spec_tokens", 5, "drafted tokens where neither the user nor the engine says"),
    Choice("heuristic_longest", 30, "the heuristic schedule has no bound of its own; longer drafts are not seen"),
    Choice(
        "certain",
        1.5,
        "a draft that believes in a rate b is certain of b^1.5 of its tokens: text is mostly either plain or open",
    ),
    Choice(
        "parallel_fade",
        0.87,
        "tokens drafted in one pass see nothing of each other: PM0624 to PM0627 accept 0.75 of 2 and 0.41 of 5",
    ),
    Choice(
        "block_fade",
        0.955,
        "the same of heads that guess a block: the curves of DSpark, PM1860 to PM1883, fade by 0.945 to 0.965 a token",
    ),
    Choice("hottest", 1.5, "nothing was published at a higher temperature: beyond it a rate is not taken to fall"),
    Choice("most_generations", 3, "versions apart beyond which it matters no more how many"),
    Choice("closest", 2.5, "e-folds of size and other model names within which a published row is near a pair"),
    Choice("unknown_relation", 1.5, "times the spread where nobody compared the tokenizers"),
    Choice(
        "translated",
        1.45,
        "times the spread where text is translated: ln(measured / predicted, held out by source) of the 59 such rows "
        "with drafts of 0.4B or more lies within 0.48 for 80 %, that of all rows within 0.34",
    ),
)
"""What the acceptance estimator assumes; see acceptance.py."""

PROBE_TABLE: tuple[Choice, ...] = (
    Choice("first-look", 16, "prompts before the first decision: the interval of a rate is then about 0.06 wide"),
    Choice("precision", 0.05, "half-width of a rate that moves no decision: k* changes with tenths"),
    Choice("max-new-tokens", 128, "more prompts narrow the interval, more tokens of one answer hardly do"),
    Choice("batch-size", 8, "fills a device without delaying the first look"),
    Choice("time-limit", 900, "seconds: a probe is a matter of minutes"),
    Choice("short-answers", 0.5, "more answers than this without one complete block: the rest may be another text"),
    Choice("near-zero", 0.02, "drafts that share ids and fail so often were seen with faulty kernels only"),
    Choice("foreign-text", 0.5, "nats a token: twice what other temperatures and precisions make of own text"),
    Choice("self-acceptance", 0.99, "a model agrees with itself but for near-ties"),
    Choice("near-tie.float32", 1e-3, "nats: the order in which sums are taken moves logits by as much"),
    Choice("near-tie.float16", 0.05, "nats, as above in half precision"),
    Choice("near-tie.bfloat16", 0.25, "nats: one step of bfloat16 at a logit of 32"),
    Choice("unstable", 0.25, "distance of the quartiles over the median: half of the passes then lie apart by as much"),
    Choice("drift", 0.10, "change of a plain token's time from beginning to end: as large as a small gain"),
    Choice("disagreement", 0.10, "between predicted and measured speed-up: beyond, the costs do not hold"),
    Choice("check-prompts", 2, "real speculative runs are slow; two prompts show a wrong replay"),
    Choice("check-tokens", 64, "tokens of those runs"),
    Choice("check-repeats", 3, "of those runs: the median of three forgives one disturbance"),
    Choice("check-most-repeats", 15, "of quick models: the pace of a machine wanders from second to second"),
    Choice("check-least-seconds", 10, "over which those runs are spread, as far as most-repeats allows"),
    Choice("check-seconds", 60, "after which those runs are not repeated: a slow model is timed well by one"),
    Choice("check-warm-up", 8, "tokens of a first run, for kernels to be chosen and memory to be had"),
    Choice("lost-in-turn", 5, "prompts that a server did not answer: it is gone, and asking the rest takes an hour"),
    Choice("lost-share", 0.1, "of all prompts: so many may be the hard ones, and what is left another text"),
    Choice("misspelled", 0.01, "of tokens: renamed reserved tokens are rarer, other tokenizers are not"),
    Choice(
        "stream-tokens", 64, "of a timed answer: the ramp at both ends is short beside them, the context hardly grows"
    ),
    Choice("stream-rounds", 5, "of timed answers at the least: their median forgives two disturbances"),
    Choice("stream-most-rounds", 25, "beyond, only a machine that is busy with something else is still unsure"),
    Choice("stream-precision", 0.02, "half-width of ln(step time) that moves no decision: less than plan.within"),
    Choice("stream-seconds", 120, "for all servers of a probe: no more rounds than the least are begun after them"),
    Choice("stream-least", 8, "steps of each answer that are seen while all run: with fewer, the ends weigh as much"),
    Choice("stream-lump", 0.1, "of the mean time between parts: nearer ones came as one"),
    Choice(
        "stream-merged", 0.05, "share of parts with more tokens than a step can write: steps cannot be told any more"
    ),
    Choice("start-seconds", 1800, "for a server to come up: hundreds of GB of weights are read, and graphs captured"),
    Choice("stream-unsteady", 0.10, "half-width of ln(step time): as large as a small gain"),
    Choice("own-steps", 0.10, "between a server's own tokens per step and those replayed: twice a gain that counts"),
    Choice("own-log-probs", 0.1, "nats between a token as it is written and as it is read: kernels differ by less"),
    Choice("probed-drafts", 3, "of `recommend --probe`: the best is nearly always among the first three"),
)
"""How long a probe goes on, and what makes its figures doubtful; see draftpick/probing."""

GATE_TABLE: tuple[Choice, ...] = (
    Choice("level", 0.98, "of a difference from the baseline: an unchanged pair fails in one run of a hundred"),
    Choice("tolerance", 0.01, "of an acceptance rate: a loss that moves a speed-up by less than 1 %"),
    Choice("common-prompts", 8, "for a comparison by prompt: fewer say less than all prompts of both"),
)
"""What a gate takes for worse where its policy does not say; see draftpick/gating."""

DOCTOR_TABLE: tuple[Choice, ...] = (
    Choice("old-catalogue", 180, "days after which about one generation of models and engines is missing"),
    Choice("full-device", 0.1, "share of a device's memory: less than that free holds no model worth speeding up"),
    Choice("low-disk", 20 * 2**30, "bytes: a target of 7B parameters and a draft take about as much"),
    Choice("full-disk", 2**28, "bytes: less may not hold the files of one tokenizer and a trace"),
    Choice("counting-time", 0.2, "seconds: a cache of some thousand files is counted in a tenth of that"),
)

COSTS: Mapping[str, float] = MappingProxyType({choice.name: choice.value for choice in COST_TABLE})
PRIORS: Mapping[str, float] = MappingProxyType({choice.name: choice.value for choice in PRIOR_TABLE})
PROBE: Mapping[str, float] = MappingProxyType({choice.name: choice.value for choice in PROBE_TABLE})
GATE: Mapping[str, float] = MappingProxyType({choice.name: choice.value for choice in GATE_TABLE})
DOCTOR: Mapping[str, float] = MappingProxyType({choice.name: choice.value for choice in DOCTOR_TABLE})


def choices_of(rule: str) -> tuple[Choice, ...]:
    """The weight and the limits of one rule, with their reasons."""
    return tuple(choice for choice in TABLE if choice.name.partition(".")[0] == rule)


class RuleChoices(NamedTuple):
    """What a user changed about the rules: other weights, rules left out with a reason, or only some of them."""

    weights: Mapping[str, float] = MappingProxyType({})
    select: frozenset[str] | None = None
    """Names of the only rules to run; None runs all."""
    ignore: Mapping[str, str] = MappingProxyType({})
    """Rule → reason. The finding stays visible but neither rejects nor counts."""

    def with_options(self, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> "RuleChoices":
        """These choices with `--select RULE` and `--ignore RULE=reason` of a command line, which win.

        Raises UsageError for an unknown rule or an ignore without a reason.
        """
        chosen = frozenset(select)
        for name in chosen:
            _known(name, UsageError, "--select")
        ignored = dict(self.ignore)
        for option in ignore:
            name, _, reason = option.partition("=")
            name = name.strip()
            _known(name, UsageError, "--ignore")
            ignored[name] = _reason(name, reason, UsageError, "--ignore")
        return self._replace(select=chosen or self.select, ignore=ignored)


def load_rules_file(path: str | Path) -> "RuleChoices":
    """Read a rules file: `select = [..]`, `[weights] rule = number`, `[ignore] rule = "reason"`.

    Raises UsageError where the file is not there, InvalidFile where it is not a valid rules file.
    """
    data = _read_toml(Path(path))
    for key in data:
        if key not in ("select", "weights", "ignore"):
            raise InvalidFile(
                f"{path}: unknown key {key!r:.60}", hint="A rules file holds select, [weights] and [ignore] only."
            )
    where = str(path)
    return RuleChoices(
        weights=_weights(data.get("weights", {}), where),
        select=_select(data.get("select"), where),
        ignore=_ignore(data.get("ignore", {}), where),
    )


def _read_toml(path: Path) -> dict[str, Any]:
    import stat

    from draftpick.toml_file import read_toml

    try:
        reason = "Is a directory" if stat.S_ISDIR(path.stat().st_mode) else None
    except OSError as error:
        reason = error.strerror or str(error)
    if reason is not None:
        raise UsageError(f"{path}: cannot be read ({reason})", hint="Name an existing TOML file with --rules-file.")
    return read_toml(path, "Mend the line named, or leave the rules file out.")


def _weights(table: object, where: str) -> dict[str, float]:
    weights = {}
    for name, value in _table(table, "weights", where).items():
        _known(name, InvalidFile, where)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1000:
            raise InvalidFile(
                f"{where}: the weight of {name} is {value!r:.60}",
                hint="A weight is a number from 0 (does not count) to 1000.",
            )
        weights[name] = float(value)
    return weights


def _select(names: object, where: str) -> frozenset[str] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidFile(f"{where}: select is no list of rule names", hint='Write select = ["size-ratio", "depth"].')
    for name in names:
        _known(name, InvalidFile, where)
    return frozenset(names) or None


def _ignore(table: object, where: str) -> dict[str, str]:
    ignored = {}
    for name, reason in _table(table, "ignore", where).items():
        _known(name, InvalidFile, where)
        ignored[name] = _reason(name, reason, InvalidFile, where)
    return ignored


def _table(table: object, key: str, where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise InvalidFile(f"{where}: {key} is no table", hint=f"Write [{key}] and one rule a line below it.")
    return table


def _reason(name: str, reason: object, error: type[UsageError] | type[InvalidFile], where: str) -> str:
    if not isinstance(reason, str) or not reason.strip():
        raise error(
            f"{where}: {name} is ignored without a reason",
            hint=f"Say why, for whoever reads the report: {name}=reason in words.",
        )
    return reason.strip()


def _known(name: str, error: type[UsageError] | type[InvalidFile], where: str) -> None:
    if name in WEIGHTS:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, WEIGHTS, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise error(f"{where}: no rule is called {name!r:.60}", hint=f"{hint}`draftpick rules` lists them.")


_GIB = 1 << 30

# What a budget of memory takes for granted. `name.engine` or `name.vendor` goes before `name`.
MEMORY_TABLE: tuple[Choice, ...] = (
    Choice("utilization", 0.9, "gpu_memory_utilization where nobody sets it: vLLM, vLLM-Ascend, SGLang, TensorRT-LLM"),
    Choice("utilization.mindie", 0.8, "NPU_MEMORY_FRACTION of MindIE-LLM, where nobody sets it"),
    Choice("utilization.llama.cpp", 1.0, "no such setting: it allocates what is asked for"),
    Choice("utilization.transformers", 1.0, "no such setting: it allocates what is asked for"),
    Choice("utilization.apple", 0.75, "about what macOS lets the GPU take unless the limit is raised"),
    Choice("runtime", 1.25 * _GIB, "our estimate: activations, graphs and context on one device, seen 1.0 to 1.5 GiB"),
    Choice("runtime-split", 3.25 * _GIB, "our estimate: on several devices, with collective buffers, 2.5 to 4 GiB"),
    Choice("logit-bytes", 8, "a verified row is as wide as the vocabulary: float32 logits and their probabilities"),
    Choice("context", 8192, "tokens per sequence where no length is asked for: long enough for chat and code"),
    Choice("weight-bits", 16, "where a dtype was not read: what nearly every checkpoint is published and served in"),
    Choice("float32-bits", 32, "a float32 checkpoint is loaded as it is"),
    Choice("float32-bits.vllm", 16, "dtype auto loads float32 checkpoints in 16 bits"),
    Choice("float32-bits.vllm-ascend", 16, "as vLLM"),
    Choice("float32-bits.sglang", 16, "as vLLM"),
    Choice("float32-bits.sglang-ascend", 16, "as vLLM"),
    Choice("state-bytes", 4, "vLLM and SGLang keep the state of gated delta nets in float32 for Qwen3.5 and later"),
    Choice("index-bytes", 132, "keys of the sparse index, per layer and token: 128 in 8 bits and a float32 scale"),
    Choice("medusa-heads", 4, "the published checkpoints hold four or five, though several configs name two"),
    Choice(
        "small-draft", 0.05, "room for a draft of a twentieth of its target, cache and all, decides how many devices"
    ),
    Choice("easy-fit", 0.5, "a draft whose weights take less of the free memory than this fits without a second look"),
    Choice("max-devices", 64, "tensor parallelism over more is not tried: the next step is another model or format"),
    Choice("own-matrices.sglang", 2, "NEXTN holds its own embedding and lm_head while the pool is sized: issue 36452"),
    Choice("own-matrices.sglang-ascend", 2, "as SGLang"),
    Choice(
        "draft-cache-bytes.llama.cpp", 2, "llama-server keeps the draft's cache at f16 whatever is asked: issue 11200"
    ),
    Choice("latent-copy-bytes.llama.cpp", 2, "MTP on latent attention keeps a second cache at f16: unsloth pull 6447"),
    Choice("expanded-latent.transformers", 1, "it caches the expanded keys and values of latent attention"),
    Choice("head-devices.vllm-ascend", 1, "its page on speculation says to run EAGLE heads on one device"),
)

_LLAMA_8B = "measured on Llama-3.1-8B by llama.cpp; a small model with a large vocabulary takes up to a tenth more"

# Bits of a weight in GGUF files, embedding included, by the name of the mixture; the first that fits.
GGUF_BITS: tuple[Choice, ...] = (
    Choice("iq1_s", 2.0042, _LLAMA_8B),
    Choice("iq1_m", 2.146, _LLAMA_8B),
    Choice("iq2_xxs", 2.3824, _LLAMA_8B),
    Choice("iq2_xs", 2.5882, _LLAMA_8B),
    Choice("iq2_s", 2.7403, _LLAMA_8B),
    Choice("iq2_m", 2.9294, _LLAMA_8B),
    Choice("iq3_xxs", 3.2548, _LLAMA_8B),
    Choice("iq3_xs", 3.4977, _LLAMA_8B),
    Choice("iq3_s", 3.6606, _LLAMA_8B),
    Choice("iq3_m", 3.7628, _LLAMA_8B),
    Choice("iq4_xs", 4.4597, _LLAMA_8B),
    Choice("iq4_nl", 4.6818, _LLAMA_8B),
    Choice("q2_k_s", 2.9697, _LLAMA_8B),
    Choice("q2_k", 3.1593, _LLAMA_8B),
    Choice("q3_k_s", 3.6429, _LLAMA_8B),
    Choice("q3_k_l", 4.2979, _LLAMA_8B),
    Choice("q3_k", 4.0, "of Q3_K_M, between Q3_K_S and Q3_K_L"),
    Choice("q4_k_s", 4.6672, _LLAMA_8B),
    Choice("q4_k", 4.8944, "of Q4_K_M, " + _LLAMA_8B),
    Choice("q5_k_s", 5.5704, _LLAMA_8B),
    Choice("q5_k", 5.7036, "of Q5_K_M, " + _LLAMA_8B),
    Choice("q6_k", 6.5633, _LLAMA_8B),
    Choice("q8_0", 8.5008, _LLAMA_8B),
    Choice("q4_0", 4.66, "4.5 by format (18 bytes hold 32 weights), lm_head in 6 bits"),
    Choice("q4_1", 5.1, "5 by format (20 bytes hold 32 weights), lm_head in 6 bits"),
    Choice("q5_0", 5.6, "5.5 by format (22 bytes hold 32 weights), lm_head in 6 bits"),
    Choice("q5_1", 6.0, "by format: 24 bytes hold 32 weights"),
    Choice("bf16", 16.0, "by format"),
    Choice("f16", 16.0, "by format"),
    Choice("f32", 32.0, "by format"),
)

_AFFINE = "groups of 64 share a 16-bit scale and a 16-bit bias; the embedding is quantised too"
_GROUPED = "groups of 128 share a 16-bit scale and, where asymmetric, a zero point"
_CHANNEL = "one scale per output channel is nothing beside the weights"

# Bits of a quantised weight, scales included, by what the format's name holds; the first that fits. Embedding, lm_head
# and norms stay as they are, but in mlx files; in mxfp4 files of sparse models all but the experts does.
STORED_BITS: tuple[Choice, ...] = (
    Choice("mlx-2bit", 2.5, _AFFINE),
    Choice("mlx-3bit", 3.5, _AFFINE),
    Choice("mlx-4bit", 4.5, _AFFINE),
    Choice("mlx-5bit", 5.5, _AFFINE),
    Choice("mlx-6bit", 6.5, _AFFINE),
    Choice("mlx-8bit", 8.5, _AFFINE),
    Choice("mxfp4", 4.25, "32 weights share one 8-bit scale"),
    Choice("nvfp4", 4.5, "16 weights share one 8-bit scale"),
    Choice("bnb-4bit", 4.5, "64 weights share a float32 scale; 4.13 where the scales are quantised again"),
    Choice("bnb-8bit", 8.0, _CHANNEL),
    Choice("w4a4", 4.16, _GROUPED),
    Choice("w4a8", 4.16, _GROUPED),
    Choice("w4", 4.16, _GROUPED),
    Choice("int4", 4.16, _GROUPED),
    Choice("4bit", 4.16, _GROUPED),
    Choice("awq", 4.16, "AWQ is published in 4 bits; " + _GROUPED),
    Choice("int3", 3.16, _GROUPED),
    Choice("int2", 2.16, _GROUPED),
    Choice("fp8", 8.0, "one scale per tensor, channel or block of 128 by 128 is nothing beside the weights"),
    Choice("float8", 8.0, "as fp8"),
    Choice("w8", 8.0, _CHANNEL),
    Choice("int8", 8.0, _CHANNEL),
    Choice("8bit", 8.0, _CHANNEL),
    Choice("ternary", 2.0, "four weights share a byte"),
)

MEMORY: Mapping[str, float] = {choice.name: choice.value for choice in MEMORY_TABLE}


def memory_choice(name: str, engine: str | None) -> float:
    """A choice about memory as an engine has it, where one of its own is listed."""
    return MEMORY.get(f"{name}.{engine}", MEMORY[name])


FEWER_BITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "llama.cpp": ("q8_0", "q4_k_m"),
        "mlx": ("int8", "int4"),
        "huawei": ("w8a8", "w4a8"),
        "others": ("fp8", "awq"),
    }
)
"""Formats in which people store a target that is too large, by engine or maker of the device, mildest first."""
