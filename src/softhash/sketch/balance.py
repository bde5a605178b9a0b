"""Coordinates in which a class and a query err as little as possible together.

For any invertible A, x·θ = (A⁻ᵀx)·(Aθ), and the error of a sketch grows with ‖Aθ‖‖A⁻ᵀx‖. The mean of ‖Aθ‖²‖A⁻ᵀx‖² over
classes and queries is smallest where AᵀA = G, the matrix geometric mean of Σ_θ⁻¹ and Σ_x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.model import LogLinear

ROWS_FOR_COVARIANCE = 65_536
ROWS_PER_BLOCK = 8_192
SMALLEST_EIGENVALUE = 1e-6
LEAST_SHRINKAGE = 0.05


class Balance(NamedTuple):
    """What centres and balances classes and queries.

    Attributes:
        class_mean: float32[d], μ.
        query_mean: float32[d], x̄; zeros without calibration queries.
        for_classes: float64[d, d], A = G^½ (symmetric): classes become A(θ − μ).
        for_queries: float64[d, d], A⁻¹: queries become A⁻¹(x − x̄).
        class_covariance: float64[d, d] of the balanced classes.
    """

    class_mean: NDArray[np.float32]
    query_mean: NDArray[np.float32]
    for_classes: NDArray[np.float64]
    for_queries: NDArray[np.float64]
    class_covariance: NDArray[np.float64]


class QueryMoments(NamedTuple):
    """Mean float32[d] and covariance float64[d, d] of calibration queries."""

    mean: NDArray[np.float32]
    covariance: NDArray[np.float64]


def query_moments(queries: NDArray[np.float32] | None, dim: int) -> QueryMoments:
    """Moments of the calibration queries, their covariance shrunk towards a multiple of the identity.

    The share of the identity is d/(n + d), at least 5 %: all of it with no queries, half of it with n = d.
    """
    if queries is None:
        return QueryMoments(np.zeros(dim, np.float32), np.eye(dim))
    mean = queries.mean(axis=0, dtype=np.float64)
    covariance = _covariance(queries, mean)
    share = max(LEAST_SHRINKAGE, dim / (len(queries) + dim))
    level = np.trace(covariance) / dim
    if level <= 0:
        return QueryMoments(mean.astype(np.float32), np.eye(dim))
    return QueryMoments(mean.astype(np.float32), (1 - share) * covariance + share * level * np.eye(dim))


def fit(model: LogLinear, queries: QueryMoments) -> Balance:
    """Balance the classes of a model, as its weights are, against these queries."""
    step = -(-model.n_classes // ROWS_FOR_COVARIANCE)
    rows = model.weights[::step]
    class_mean = rows.mean(axis=0, dtype=np.float64)
    covariance = _covariance(rows, class_mean)
    if np.trace(covariance) <= 0:
        covariance = np.eye(model.dim)
    with blas.serial_blas():
        half, inverse_half = _power(covariance, 0.5), _power(covariance, -0.5)
        mean_of_both = inverse_half @ _power(half @ queries.covariance @ half, 0.5) @ inverse_half
        for_classes, for_queries = _power(mean_of_both, 0.5), _power(mean_of_both, -0.5)
        balanced = for_classes @ covariance @ for_classes
    return Balance(class_mean.astype(np.float32), queries.mean, for_classes, for_queries, balanced)


def _covariance(rows: NDArray[np.float32], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Covariance of rows around their mean, a block of float32 products at a time."""

    def block(part: slice) -> NDArray[np.float64]:
        centred = rows[part] - mean.astype(np.float32)
        return (centred.T @ centred).astype(np.float64)

    total = np.zeros((rows.shape[1], rows.shape[1]))
    for product in blas.map_blocks(block, len(rows), ROWS_PER_BLOCK):
        total += product
    return total / len(rows)


def _power(matrix: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """A symmetric positive matrix to a power, small eigenvalues lifted to 1e-6 of the largest."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.maximum(values, SMALLEST_EIGENVALUE * values[-1])
    return (vectors * values**exponent) @ vectors.T
