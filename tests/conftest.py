"""What tests share: laws do not fail because the machine is busy, and small models run on one thread."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# What measures needs the extra `probe`; `make test-core` and those who never probe run the rest.
if importlib.util.find_spec("torch") is None:
    collect_ignore = ["probing", "test_gate_command.py", "test_probe_command.py", "test_repricing.py"]
    collect_ignore += ["test_served.py", "test_served_faults.py", "test_served_page.py"]

settings.register_profile("draftpick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("draftpick")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small models on one thread: two that contend with other tests are many times slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
