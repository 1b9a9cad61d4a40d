"""Shared by all tests: one thread, also in processes that they start (small tensors are many times faster), and a fixed seed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import pytest
import torch


@pytest.fixture(autouse=True)
def _deterministic() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """One Ray cluster of two CPUs for all tests of a module: it takes seconds to start, and one that lived long may not end."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # which would write a token into the user's home
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        with pytest.MonkeyPatch.context() as only_of_workers:
            only_of_workers.delenv("RAY_ADDRESS", raising=False)
            only_of_workers.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
            small: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
            small |= {"include_dashboard": False, "log_to_driver": False}
            try:
                ray.init("local", **small)
            except Exception:  # a busy machine may be late for the first attempt
                ray.shutdown()
                ray.init("local", **small)
        yield
        ray.shutdown()
