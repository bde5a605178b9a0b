"""Kernels on their own, over 256 queries."""

from __future__ import annotations

import numpy as np
import pytest

import softhash as sh
from conftest import Problem
from softhash import checks
from softhash.kernels import draws, outside, perturb, ragged, score, sweep

pytestmark = pytest.mark.benchmark(group="kernels", warmup=True, warmup_iterations=1, max_time=0.5, min_rounds=5)
HEAD, TAIL, BLOCK = 100, 100, 1024


@pytest.fixture(scope="session")
def seeds(problem: Problem) -> np.ndarray:
    """One per query."""
    return checks.seeds(np.random.default_rng(0), len(problem.queries))


@pytest.fixture(scope="session")
def found(problem: Problem) -> np.ndarray:
    """The best classes of each query."""
    return sh.top_k(problem.model, problem.queries, HEAD).ids.astype(np.int64)


@pytest.fixture(scope="session")
def sample(problem: Problem) -> sh.Sample:
    """200 classes for each query."""
    return sh.Uniform(problem.model, 200).sample(problem.queries, rng=0)


@pytest.fixture
def block(problem: Problem) -> np.ndarray:
    """Logits of the first classes; visits overwrite them."""
    return problem.queries @ problem.model.weights[:BLOCK].T


def test_logits_of_a_sample(benchmark, problem: Problem, sample: sh.Sample) -> None:
    model = problem.model
    benchmark(score.logits, model.rows, model.bias_or_zeros, problem.queries, sample.offsets, sample.ids)


def test_log_sum_of_a_sample(benchmark, sample: sh.Sample) -> None:
    benchmark(ragged.log_sum, sample.offsets, sample.logits, sample.log_expected_count)


def test_alias_table(benchmark, problem: Problem) -> None:
    benchmark(draws.alias_table, np.random.default_rng(0).dirichlet(np.ones(problem.model.n_classes)))


def test_a_tail_outside_a_head(benchmark, problem: Problem, found: np.ndarray, seeds: np.ndarray) -> None:
    benchmark(outside.draw, found, seeds, problem.model.n_classes, TAIL, None)


def test_ten_draws_over_a_head(benchmark, problem: Problem, found: np.ndarray, seeds: np.ndarray) -> None:
    model = problem.model
    ids, counts = perturb.heads(found, model.n_classes)
    logits = model.logits(problem.queries, ids)
    benchmark(perturb.draw, model.rows, model.bias_or_zeros, problem.queries, ids, counts, logits, seeds, 10)


def test_the_best_ten_of_a_block(benchmark, block: np.ndarray) -> None:
    n = len(block)

    def visit() -> None:
        heaps = np.full((n, 10), -np.inf, np.float32), np.full((n, 10), -1, np.int32)
        sweep.keep_best(block.copy(), 0, np.full(n, -np.inf), np.zeros(n), *heaps)

    benchmark(visit)


def test_ten_draws_of_a_block(benchmark, block: np.ndarray, seeds: np.ndarray) -> None:
    n = len(block)

    def visit() -> None:
        sweep.keep_drawn(block.copy(), 0, 0, seeds, np.full(n, -np.inf), np.zeros(n), np.zeros((n, 10), np.int32))

    benchmark(visit)
