"""The probe: one load of the target, one pass of each draft over its text, and every num_spec_tokens at once.

Stages, none of which imports a later one: prompts, trace, device; local (the models); timing, result, checks; run,
which does it all; document, session and command around it. Behind servers: client, api and a file for each engine,
server; served and served_times instead of run and timing.
"""
