"""Draws follow the softmax: two million of them by the exact methods, and resampling is as far off as it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from errors import fails
from stats import assert_frequencies, rejects

MODEL = gaussian(5000, 12, bias=True)
QUERIES = 2 * queries_for(MODEL, 2)
DRAWS = 1_000_000
LEVEL = 1e-3


def probabilities(model: sh.LogLinear, queries: NDArray) -> NDArray[np.float64]:
    logits = naive.logits(model, queries)
    return np.exp(logits - naive.log_z(model, queries)[:, None])


def assert_softmax(drawn: NDArray, model: sh.LogLinear = MODEL) -> None:
    """Pearson's chi-square for each query."""
    for row, p in zip(drawn, probabilities(model, QUERIES), strict=True):
        assert_frequencies(np.bincount(row, minlength=len(p)), p * len(row), level=LEVEL)


def test_the_reservoir_is_exact() -> None:
    assert_softmax(sh.draw(MODEL, QUERIES, DRAWS, rng=0))
    other = sh.LogLinear(MODEL.weights, np.where(np.arange(5000) < 1024, 0.02, 0) + MODEL.bias_or_zeros)
    assert rejects(assert_softmax, sh.draw(other, QUERIES, DRAWS, rng=0))


def test_the_perturbed_tail_is_exact_over_the_true_head() -> None:
    assert_softmax(sh.draw(sh.TopK(MODEL, 200, 100, "Flat"), QUERIES, DRAWS, rng=0))


def test_a_head_that_misses_the_best_is_noticed() -> None:
    sampler = sh.TopK(MODEL, 200, 100, "Flat")
    honest = sampler.found
    sampler.found = lambda queries: honest(queries)[:, 3:]
    assert rejects(assert_softmax, sh.draw(sampler, QUERIES, DRAWS // 5, rng=0))


def test_few_classes_are_drawn_exactly_by_any_sampler() -> None:
    model = gaussian(500, 12)
    drawn = sh.draw(sh.Uniform(model, size=3), QUERIES, 200_000, rng=1)
    assert_softmax(drawn, model)


def test_resampling_is_off_by_less_than_the_relative_variance_of_the_estimate() -> None:
    """Half of Σ |p − softmax| over fresh samples: below the mean std_error², and falling with the size."""
    model, many = gaussian(5000, 12), np.repeat(queries_for(MODEL, 1), 40_000, axis=0)
    p = probabilities(model, many[:1])[0]
    noise = np.sqrt(p * (1 - p) / len(many) * 2 / np.pi).sum() / 2
    away = []
    for size in (5, 50):
        sampler = sh.Uniform(model, size)
        frequency = np.bincount(sh.draw(sampler, many, 1, rng=0)[:, 0], minlength=5000) / len(many)
        away.append(np.abs(frequency - p).sum() / 2 - noise)
        assert away[-1] < (sampler.log_partition(many[:5000], rng=1).std_error ** 2).mean() + 0.01
    assert away[0] > 3 * away[1]


def test_resampling_draws_only_what_was_sampled_and_minus_one_where_nothing_was() -> None:
    sampler = sh.LSH(MODEL, bits=24, tables=1, size=50)
    drawn = sh.draw(sampler, queries_for(MODEL, 40), 5, rng=3)
    counts = np.diff(sampler.sample(queries_for(MODEL, 40), rng=3).offsets)
    np.testing.assert_array_equal((drawn == -1).all(axis=1), counts == 0)
    assert (counts == 0).any()


def test_a_query_alone_draws_as_in_a_batch() -> None:
    for sampler in (MODEL, sh.TopK(MODEL, 50, 50, "Flat")):
        alone = sh.draw(sampler, QUERIES[:1], 100, rng=5)
        np.testing.assert_array_equal(alone[0], sh.draw(sampler, np.tile(QUERIES, (400, 1)), 100, rng=5)[0])


def test_huge_logits_draw_the_best() -> None:
    model = sh.LogLinear(np.linspace(-1, 1, 3000)[:, None])
    for sampler in (model, sh.TopK(model, 10, 10, "Flat")):
        np.testing.assert_array_equal(sh.draw(sampler, [[1e7], [-1e7]], 3, rng=0), [[2999] * 3, [0] * 3])


@pytest.mark.parametrize("n_classes", [1, 2, 1024, 1025, 4097])
def test_equal_classes_are_drawn_evenly(n_classes: int) -> None:
    model = sh.LogLinear(np.zeros((n_classes, 2)))
    counts = np.bincount(sh.draw(model, np.ones((1, 2)), 100_000, rng=0)[0], minlength=n_classes)
    assert len(counts) == n_classes
    if n_classes > 1:
        assert_frequencies(counts, np.full(n_classes, 100_000 / n_classes))


def test_errors() -> None:
    fails(lambda: sh.draw(np.eye(3), np.ones((1, 3)), 1), "sampler", "ndarray", "LogLinear")  # type: ignore[arg-type]
    fails(lambda: sh.draw(MODEL, QUERIES, 0), "n is 0")
