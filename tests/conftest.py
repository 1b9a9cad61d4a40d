"""Shared by all tests: one thread (small tensors are many times faster) and a fixed seed."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
