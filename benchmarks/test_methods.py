"""log Ẑ by every method: 256 queries at once, and one alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

import softhash as sh
from conftest import Problem
from softhash.types import Estimator

BUILDERS: dict[str, Callable[[Problem], Estimator]] = {
    "exact": lambda at: sh.Exact(at.model),
    "exact-bfloat16": lambda at: sh.ExactBFloat16(at.model),
    "uniform-200": lambda at: sh.Uniform(at.model, 200),
    "prior-200": lambda at: sh.Prior(at.model, 200, queries=at.calibration),
    "lsh-10-16": lambda at: sh.LSH(at.model, bits=10, tables=16),
    "topk-ivf-100-100": lambda at: sh.TopK(
        at.model, 100, 100, "IVF1024,Flat", coordinates="balanced", queries=at.calibration
    ),
    "sketch-50": lambda at: sh.Sketch(at.model, 50, at.calibration),
    "sketch-200": lambda at: sh.Sketch(at.model, 200, at.calibration),
    "exact-gumbel-50": lambda at: sh.ExactGumbel(at.model),
    "priority-200": lambda at: sh.PriorityGumbel(at.model, 200),
}


@pytest.fixture(scope="session", params=BUILDERS)
def estimator(request: pytest.FixtureRequest, problem: Problem) -> Estimator:
    """Each method, built once."""
    if request.param == "exact-bfloat16" and importlib.util.find_spec("torch") is None:
        pytest.skip("ExactBFloat16 needs PyTorch")
    return BUILDERS[request.param](problem)


@pytest.mark.benchmark(group="log Ẑ, 256 queries", warmup=True, warmup_iterations=1, max_time=1, min_rounds=5)
def test_batch(benchmark, estimator: Estimator, problem: Problem) -> None:
    assert len(benchmark(estimator.log_partition, problem.queries, rng=0).log_z) == len(problem.queries)


@pytest.mark.benchmark(group="log Ẑ, one query", warmup=True, warmup_iterations=5, max_time=0.5, min_rounds=20)
def test_one(benchmark, estimator: Estimator, problem: Problem) -> None:
    assert len(benchmark(estimator.log_partition, problem.queries[:1], rng=0).log_z) == 1
