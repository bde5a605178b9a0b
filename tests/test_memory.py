"""Peak memory within 1.5 times the weights and 300 MiB; `python -m experiments.paper memory` has it at full size."""

from __future__ import annotations

import pytest
from experiments.paper import memory

N, DIM = 100_000, 64
GUMBEL = ("ExactGumbel", "MipsGumbel", "PriorityGumbel")


@pytest.mark.parametrize("name", GUMBEL)
def test_peak_memory_is_bounded(name: str) -> None:
    assert memory.peak(memory.ESTIMATORS[name], N, DIM)[1] <= memory.allowed(N, DIM)


def test_every_logit_at_once_would_be_noticed() -> None:
    everything = "[model.logits(queries), sh.Exact(model)][1]"
    assert memory.peak(everything, N, DIM)[1] > memory.allowed(N, DIM)
