"""draftpick: which draft model to put in front of a target for speculative decoding."""

__version__ = "0.1.0"
