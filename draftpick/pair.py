"""The things a judgement is about: a target, a proposal, and the setting they would run in."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from draftpick.models.profile import ModelProfile
from draftpick.models.tokenizer import Relation

DRAFT_FREE = frozenset({"ngram", "suffix"})
IN_PARALLEL = frozenset({"pard", "medusa", "dflash"})
"""Methods that draft all tokens of a step in one pass."""
WITHOUT_CACHE = frozenset({"medusa", "mlp_speculator"})
"""Methods that read the target's last state alone, and nothing of the prompt."""

SPELLINGS = {"tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size"}
"""What engines call a part of a setting too, and its name here; as options without the dashes before them."""

WORKLOADS = ("chat", "code", "math", "summarization", "translation", "extraction")
"""What requests are about, as far as published measurements tell them apart."""
STOP_RULES = ("fixed", "heuristic", "confidence")
"""When a draft ends: after so many tokens, after a number that follows the hits, or where the draft is unsure."""

MEASURED = frozenset({"measured", "served"})
"""Evidence whose interval decides. For all other evidence the point value does."""


BEHIND = "served"
"""Key of the device of which nothing is known but that a server has it."""


GIVEN = "given"
"""Source of costs that somebody measured elsewhere, and wrote down without saying how surely."""


def evidence_of(costs: str) -> str:
    """The kind of evidence that a measured acceptance is with costs of this source."""
    return {"measured": "measured", GIVEN: "measured", "served": "served"}.get(costs, "roofline")


class Device(NamedTuple):
    """A row of catalog/devices.toml."""

    key: str
    name: str
    vendor: str
    memory_bytes: int | None = None
    bf16: bool | None = None
    fp8: bool | None = None
    source: str = ""
    memory_seen_bytes: int | None = None
    """What the framework reports as the total, which an engine's fraction applies to."""
    bandwidth: float | None = None
    """Bytes per second."""
    peak_fp16: float | None = None
    """Dense operations per second of the matrix units."""
    compute_efficiency: float | None = None
    memory_efficiency: float | None = None
    devices_per_node: int | None = None
    asked: str = ""
    """The name that was typed, where it is one of several devices; empty for a name that is this one's alone."""
    others: tuple[str, ...] = ()
    """Keys of the other devices that `asked` may mean."""

    @property
    def note(self) -> str | None:
        """What was assumed of a name that several devices have."""
        if not self.others:
            return None
        return f"assumed: {self.asked} may also be {listed(self.others)}"


def listed(names: Sequence[str]) -> str:
    """Names in a row, the last after `or`."""
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


class Engine(NamedTuple):
    """An engine and the version it is judged in. `facts` is the parsed catalog/engines/<key>.toml."""

    key: str
    name: str
    version: str
    """The version asked for, or else the one the catalogue's facts hold for."""
    facts: dict[str, Any]


class Head(NamedTuple):
    """A published draft head (EAGLE, MTP, Medusa, DFlash …) trained for one target."""

    id: str
    method: str
    target: str
    params: int | None = None
    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    num_spec_tokens: int | None = None
    max_position_embeddings: int | None = None
    license: str | None = None
    shares_target_embeddings: str | None = None
    confidence: str | None = None
    """How the pairing with the target is known: pairing-read, config-read, name-derived, recalled …"""
    notes: str = ""
    uncertain: frozenset[str] = frozenset()
    rope: str | None = None
    """Scaling of the rotary embedding, as in ModelProfile; None where the head's config was not read."""


class Proposal(NamedTuple):
    """One way to draft for a target: a model, a head, the target's own MTP layers, or no model at all."""

    method: str
    """draft_model, eagle, eagle3, mtp, medusa, mlp_speculator, dflash, dspark, pard, ngram, suffix."""
    origin: str
    """given, catalogue, overlay, cache, hub, target (its own head) or always (draft-free)."""
    draft: ModelProfile | None = None
    head: Head | None = None
    via: str | None = None
    """The base model through which the proposal was found, when the target is a copy or fine-tune of it."""

    @property
    def id(self) -> str | None:
        """What the user would name; None for draft-free methods and the target's own head."""
        if self.draft is not None:
            return self.draft.id
        return self.head.id if self.head is not None else None

    @property
    def label(self) -> str:
        return self.id or {"mtp": "own MTP head", "ngram": "n-gram lookup", "suffix": "suffix decoding"}.get(
            self.method, self.method
        )


NOTHING = Proposal("ngram", "always")
"""A draft that costs nothing: what a target does alone."""


class Setting(NamedTuple):
    """Where the pair would run. Made once per command."""

    engine: Engine | None = None
    device: Device | None = None
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    num_spec_tokens: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    draft_quantization: str | None = None
    temperature: float | None = None
    images: bool | None = None
    """Whether requests carry images; None: not said."""
    trust_remote_code: bool = False
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    memory: int | None = None
    """Bytes of one device, instead of what the catalogue says."""
    bandwidth: float | None = None
    """Bytes per second of one device, instead of what the catalogue says."""
    stop_rule: str | None = None
    """fixed, heuristic or confidence: when a draft ends, instead of the engine's own rule."""
    workload: str | None = None
    """What requests are about: chat, code, math, summarization, translation or extraction."""
    input_len: int | None = None
    """Tokens of a prompt."""
    output_len: int | None = None
    """Tokens of an answer."""


class Pair(NamedTuple):
    """What is judged: one target, one proposal, one setting."""

    target: ModelProfile
    proposal: Proposal
    setting: Setting
    relation: Relation | None = None
    """How the draft's tokenizer relates to the target's; None where the proposal has none, or nobody compared them."""

    @property
    def draft(self) -> ModelProfile | None:
        return self.proposal.draft

    @property
    def method(self) -> str:
        return self.proposal.method


MODEL_CONDITIONS = frozenset({*ModelProfile._fields, "moe", "vision", "mtp", "hybrid"})
CONDITIONS: Mapping[str, frozenset[str]] = {
    "target": MODEL_CONDITIONS,
    "draft": MODEL_CONDITIONS,
    "either": MODEL_CONDITIONS,
    "head": frozenset({*Head._fields, "reduced_vocab"}),
    "setting": frozenset(Setting._fields),
    "device": frozenset(Device._fields),
    "pair": frozenset({"rows", "relation", "quantization", "hidden_size", "context", "positions"}),
}
"""What a row of the catalogue may ask of each part of a pair; `draftpick.rules.engine_facts` reads it there."""
