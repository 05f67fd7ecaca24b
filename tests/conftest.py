"""How the laws are tried: by hypothesis, which must not fail a test because the machine is busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("draftpick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("draftpick")
