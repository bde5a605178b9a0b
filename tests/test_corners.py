"""Inputs at the edge, for every sampler and estimator: the answer is right or, where nothing was drawn, -inf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import naive
import softhash as sh
from cases import Case, every_case, every_sampler, gaussian, over, queries_for, replicate
from stats import assert_unbiased


def _with_zero_rows() -> sh.LogLinear:
    weights = gaussian(60, 6).weights.copy()
    weights[::2] = 0
    return sh.LogLinear(weights)


CORNERS: dict[str, Callable[[], sh.LogLinear]] = {
    "zero classes among others": _with_zero_rows,
    "all classes zero": lambda: sh.LogLinear(np.zeros((60, 6))),
    "all rows the same": lambda: sh.LogLinear(np.tile(gaussian(1, 6).weights, (60, 1))),
    "all rows the same, with bias": lambda: sh.LogLinear(np.tile(gaussian(1, 6).weights, (60, 1)), np.full(60, 0.3)),
    "two classes": lambda: gaussian(2, 6, bias=True),
}
corners = pytest.mark.parametrize("corner", CORNERS.values(), ids=CORNERS.keys())
pytestmark = pytest.mark.usefixtures("one_thread")


def assert_sound(estimate: sh.Estimate) -> None:
    """No NaN in log Z, and -inf only where nothing was drawn."""
    assert not np.isnan(estimate.log_z).any()
    assert not np.isposinf(estimate.log_z).any()
    np.testing.assert_array_equal(np.isneginf(estimate.log_z), estimate.evaluations == 0)


@every_case
def test_one_class(case: Case) -> None:
    """log Z is that class's logit whenever it was drawn, divided by a known p."""
    model = gaussian(1, 6, bias=True)
    queries = queries_for(model)
    estimates = replicate(case, model, queries, 60)
    assert not np.isnan(estimates.log_z).any()
    if case.redraw in ("nothing", "rng"):
        np.testing.assert_allclose(estimates.log_z[0], naive.log_z(model, queries), atol=1e-5)


@every_case
@corners
def test_corner_models_are_sound(case: Case, corner: Callable[[], sh.LogLinear]) -> None:
    model = corner()
    queries = np.concatenate([queries_for(model), np.zeros((1, model.dim), np.float32), queries_for(model, seed=5)])
    for seed in range(5):
        assert_sound(case.make(model, seed).log_partition(queries, rng=seed))


@over(lambda case: case.redraw != "never")
@corners
def test_corner_models_are_unbiased(case: Case, corner: Callable[[], sh.LogLinear]) -> None:
    model = corner()
    queries = np.concatenate([queries_for(model, 3), np.zeros((1, model.dim), np.float32)])
    estimates = replicate(case, model, queries, 150)
    ratios = np.exp(estimates.log_z - naive.log_z(model, queries))
    for column in ratios.T:
        assert_unbiased(column, power=0.5)


@every_case
@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_huge_logits_overflow_nothing(case: Case, scale: float) -> None:
    model = sh.LogLinear(np.linspace(-1, 1, 300)[:, None] * np.ones(4) / 4, np.linspace(0, 1, 300))
    queries = np.stack([np.full(4, scale), np.full(4, -scale), np.zeros(4)])
    for seed in range(3):
        estimate = case.make(model, seed).log_partition(queries, rng=seed)
        assert_sound(estimate)
        assert (estimate.log_z < 1.1e4).all()


@every_sampler
def test_huge_biases_overflow_nothing(case: Case) -> None:
    model = sh.LogLinear(gaussian(300, 4).weights, np.where(np.arange(300) % 2, 1e4, -1e4))
    assert_sound(case.make(model, 0).log_partition(queries_for(model), rng=0))


def test_one_dimension_needs_a_floor() -> None:
    """On a line classes are along or against the query, and LSH without a floor never draws those against it."""
    model = gaussian(60, 1)
    along, terms = model.weights[:, 0] > 0, np.exp(model.weights[:, 0])
    bare = [sh.LSH(model, 3, 4, center=False, rng=seed).log_partition([[1.0]]).log_z[0] for seed in range(20)]
    np.testing.assert_allclose(np.exp(bare), terms[along].sum(), rtol=1e-5)
    floored = [sh.LSH(model, 3, 4, floor=20, rng=seed).log_partition([[1.0]], rng=seed).log_z[0] for seed in range(300)]
    assert_unbiased(np.exp(floored) / terms.sum())


@pytest.mark.parametrize("size", [60, 61, 10_000])
def test_uniform_of_every_class_is_exact(size: int) -> None:
    model = gaussian(60, 6, bias=True)
    queries = queries_for(model)
    estimate = sh.Uniform(model, size=size).log_partition(queries, rng=0)
    np.testing.assert_allclose(estimate.log_z, naive.log_z(model, queries), atol=1e-5)
    assert (estimate.std_error == 0).all()
    assert (estimate.evaluations == 60).all()


def test_lsh_with_a_floor_of_every_class_is_exact() -> None:
    model = gaussian(60, 6, bias=True)
    queries = queries_for(model)
    estimate = sh.LSH(model, bits=3, tables=4, floor=60, rng=0).log_partition(queries, rng=0)
    np.testing.assert_allclose(estimate.log_z, naive.log_z(model, queries), atol=1e-5)
    np.testing.assert_allclose(estimate.std_error, 0, atol=1e-6)


def test_a_lone_query_may_find_nothing() -> None:
    model = gaussian(20, 16)
    estimate = sh.LSH(model, bits=20, tables=1, rng=0).log_partition(queries_for(model), rng=0)
    assert_sound(estimate)
    assert np.isneginf(estimate.log_z).any()
    assert np.isnan(estimate.std_error).all()
