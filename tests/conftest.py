"""Shared by all tests: one thread, also in processes that they start (small tensors are many times faster), and a fixed seed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import pytest
import torch


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
