"""Peak memory within 1.5 times the weights and 300 MiB; `python -m experiments.paper memory` has it at full size."""

from __future__ import annotations

import pytest
from experiments.paper import memory

N, DIM = 100_000, 64
GUMBEL = ("ExactGumbel", "MipsGumbel", "PriorityGumbel")


def peak(expression: str) -> float:
    """MiB, kernels having been compiled before."""
    memory.peak(expression, 1000, DIM)
    return memory.peak(expression, N, DIM)[1]


@pytest.mark.parametrize("name", GUMBEL)
def test_peak_memory_is_bounded(name: str) -> None:
    assert peak(memory.ESTIMATORS[name]) <= memory.allowed(N, DIM)


def test_every_logit_at_once_would_be_noticed() -> None:
    assert peak("[model.logits(queries), sh.Exact(model)][1]") > memory.allowed(N, DIM)
