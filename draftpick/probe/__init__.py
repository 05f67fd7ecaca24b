"""The probe: one load of the target, one pass of each draft over its text, and every num_spec_tokens at once.

Stages, none of which imports a later one: prompts, trace, local (the models on a device), timing, checks, result, run.
"""
