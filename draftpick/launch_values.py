"""What the templates of a start line may name; apart from who fills them, so that the catalogue can be checked."""

import re

PLACEHOLDER = re.compile(r"\{(\w+)\}")
IN_SCRIPT = re.compile(r"\$(\w+)")

VALUES = {
    "target": "The target's id or path.",
    "target_name": "Its last part.",
    "draft": "The draft's id or path.",
    "method": "As draftpick calls it.",
    "k": "num_spec_tokens.",
    "k_plus_1": "What a step verifies.",
    "ngram_size": "Tokens that an n-gram method looks for.",
    "tensor_parallel_size": "Only above 1.",
    "devices": "The same, 1 included.",
    "max_model_len": "Tokens.",
    "max_num_seqs": "Sequences at once.",
    "context": "Tokens of all sequences at once.",
    "dtype": "As torch calls it.",
    "quantization": "As draftpick calls it.",
    "kv_cache_dtype": "As asked for.",
    "gpu_memory_utilization": "A share.",
    "trust_remote_code": "Only if true.",
    "trusted": "The same, false included.",
    "revision": "Of the target.",
    "draft_revision": "Of the draft.",
    "capture_sizes": "Multiples of k + 1.",
    "ranges": "[[from, to, k], …]: k by sequences at once.",
    "upper_bounds": "{to: k, …}: the same.",
    "accelerator": "cuda, npu, mps or cpu.",
    "rank": "Of a process, from 0.",
    "port": "Of a process.",
    "mtp_folder": "A folder that holds MTP layers alone.",
    "torch_device": "As cuda:0.",
    "load_target": "Arguments of from_pretrained.",
    "load_draft": "The same of the draft.",
    "options": "Arguments of generate.",
    "stop_threshold": "Below which a draft ends; 0: never.",
    "stop_schedule": "constant or heuristic.",
}
