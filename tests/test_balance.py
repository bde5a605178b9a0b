"""The coordinates a sketch is taken in: what they preserve, what they balance, and what few queries cannot spoil."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import sqrtm

import softhash as sh
from softhash.sketch import balance
from softhash.sketch.balance import query_moments
from softhash.sketch.codes import Projection

pytestmark = pytest.mark.usefixtures("one_thread")
DIMS = [1, 3, 17, 64, 65, 100]


def uneven(n: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Correlated rows of nonzero mean, the spectrum of their covariance falling a hundredfold."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * np.logspace(0, -1, dim)
    return (rng.standard_normal((n, dim)) @ mixing.T + rng.standard_normal(dim)).astype(np.float32)


def covariance(rows: NDArray) -> NDArray[np.float64]:
    return np.atleast_2d(np.cov(rows.astype(np.float64), rowvar=False, bias=True))


def close(a: NDArray, b: NDArray, share: float = 1e-4) -> None:
    """Equal up to a share of the largest entry: the covariance of classes is summed in float32."""
    np.testing.assert_allclose(a, b, atol=share * np.abs(b).max())


@pytest.mark.parametrize("dim", DIMS)
def test_classes_and_queries_get_the_same_covariance(dim: int) -> None:
    weights, moments = uneven(900, dim, 0), query_moments(uneven(700, dim, 1), dim)
    fitted = balance.fit(sh.LogLinear(weights), moments)
    classes = fitted.for_classes @ covariance(weights) @ fitted.for_classes
    close(classes, fitted.for_queries @ moments.covariance @ fitted.for_queries)
    close(classes, fitted.class_covariance)
    close(fitted.for_classes @ fitted.for_queries, np.eye(dim), 1e-8)
    np.testing.assert_allclose(fitted.class_mean, weights.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("dim", DIMS)
def test_metric_is_the_geometric_mean(dim: int) -> None:
    """AᵀA = Σ_θ⁻¹ # Σ_x = Σ_θ⁻¹ (Σ_θ Σ_x)^½, an expression that `fit` does not use."""
    weights, moments = uneven(900, dim, 0), query_moments(uneven(700, dim, 1), dim)
    fitted = balance.fit(sh.LogLinear(weights), moments)
    sigma = covariance(weights)
    expected = np.linalg.solve(sigma, np.real(np.atleast_2d(sqrtm(sigma @ moments.covariance))))
    close(fitted.for_classes @ fitted.for_classes, expected)


def cost(metric: NDArray, classes: NDArray, queries: NDArray) -> float:
    """Mean ‖Aθ‖² times mean ‖A⁻ᵀx‖², for AᵀA = metric."""
    return float(np.trace(metric @ classes) * np.trace(np.linalg.solve(metric, queries)))


def test_no_other_metric_costs_less() -> None:
    """Neither doing nothing, nor whitening either side, nor any small step away from the geometric mean."""
    dim, rng = 17, np.random.default_rng(0)
    weights, moments = uneven(900, dim, 0), query_moments(uneven(700, dim, 1), dim)
    fitted = balance.fit(sh.LogLinear(weights), moments)
    classes, queries = covariance(weights), moments.covariance
    least = cost(fitted.for_classes @ fitted.for_classes, classes, queries)
    for rival in (np.eye(dim), np.linalg.inv(classes), queries):
        assert least < 0.9 * cost(rival, classes, queries)
    for _ in range(50):
        step = np.eye(dim) + 0.1 * rng.standard_normal((dim, dim)) / np.sqrt(dim)
        nearby = fitted.for_classes @ step @ step.T @ fitted.for_classes
        assert least <= cost(nearby, classes, queries)


@given(dim=st.sampled_from(DIMS), share=st.floats(0, 1), seed=st.integers(0, 2**20))
@settings(max_examples=20)
def test_projection_preserves_inner_products(dim: int, share: float, seed: int) -> None:
    """x̃·θ̃ = (x − x̄)·(θ − μ) at every rank, d itself included."""
    weights, queries = uneven(150, dim, seed), uneven(40, dim, seed + 1)
    fitted = balance.fit(sh.LogLinear(weights), query_moments(queries, dim))
    rank = max(1, round(share * dim))
    projection = Projection.build(fitted, rank, np.random.default_rng(seed))
    classes, others = weights - fitted.class_mean, queries - fitted.query_mean
    got = (others @ projection.for_queries) @ (classes @ projection.for_classes).T
    close(got, others @ classes.T, 1e-3)
    leading, left = projection.for_classes[:, :rank], projection.for_classes[:, projection.rank :]
    if rank == dim:
        assert not left.any()
    elif rank > 1:
        spread = ((classes @ leading) ** 2).mean(axis=0)
        assert (np.diff(spread) <= 1e-3 * spread.max()).all(), "the widest coordinates come first"


FLAT = {
    "all rows the same": np.ones((50, 6)),
    "rows on a line": np.outer(np.linspace(-1, 1, 50), np.arange(6)),
    "one row": np.ones((1, 6)),
    "tiny": 1e-18 * np.random.default_rng(0).standard_normal((50, 6)),
    "huge": 1e8 * np.random.default_rng(0).standard_normal((50, 6)),
}


@pytest.mark.parametrize("side", ["classes", "queries", "both"])
@pytest.mark.parametrize("flat", FLAT.values(), ids=FLAT.keys())
def test_flat_or_extreme_clouds_give_finite_inverse_coordinates(flat: NDArray, side: str) -> None:
    flat, full = flat.astype(np.float32), uneven(50, 6, 0)
    weights, queries = (full if side == "queries" else flat), (full if side == "classes" else flat)
    fitted = balance.fit(sh.LogLinear(weights), query_moments(queries, 6))
    assert all(np.isfinite(array).all() for array in fitted)
    close(fitted.for_classes @ fitted.for_queries, np.eye(6), 1e-6)


def test_moments_without_queries_prefer_no_direction() -> None:
    moments = query_moments(None, 5)
    np.testing.assert_array_equal(moments.mean, np.zeros(5))
    np.testing.assert_array_equal(moments.covariance, np.eye(5))


@pytest.mark.parametrize("n", [1, 2, 10, 64, 640, 40_000])
def test_moments_trust_queries_by_their_number(n: int) -> None:
    """The identity's share is d/(n + d), at least 5 %; the total variance stays; what results can be inverted."""
    dim = 64
    queries = uneven(n, dim, 3)
    moments, sample = query_moments(queries, dim), covariance(queries)
    np.testing.assert_allclose(moments.mean, queries.mean(axis=0, dtype=np.float64), atol=1e-5)
    if n == 1:
        np.testing.assert_array_equal(moments.covariance, np.eye(dim))
        return
    share = max(0.05, dim / (n + dim))
    level = np.trace(sample) / dim
    close(moments.covariance, (1 - share) * sample + share * level * np.eye(dim))
    assert np.trace(moments.covariance) == pytest.approx(np.trace(sample), rel=1e-5)
    assert np.linalg.eigvalsh(moments.covariance)[0] >= 0.999 * share * level


def test_few_queries_are_nearer_the_truth_shrunk_than_not() -> None:
    dim = 64
    truth = covariance(uneven(20_000, dim, 3))
    rng = np.random.default_rng(0)
    few = (rng.standard_normal((40, dim)) @ np.linalg.cholesky(truth).T).astype(np.float32)
    error = np.linalg.norm(query_moments(few, dim).covariance - truth)
    assert error < 0.9 * np.linalg.norm(covariance(few) - truth)
