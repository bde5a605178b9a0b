"""The covariance term of LSH's variance in closed form, pair by pair.

For vectors x, v and w, with v and w at angles φ_v and φ_w to x and ψ to each other, a random plane separates two pairs
of the three or none, so

    P(x, v and w agree in a bit) = 1 − (φ_v + φ_w + ψ)/2π =: r.

With a = (1 − φ/π)^K, the probability that a code equals the query's, and L tables,

    Cov(1_v, 1_w) = (1 − a_v − a_w + r^K)^L − ((1 − a_v)(1 − a_w))^L.

It is positive where r > (1 − φ_v/π)(1 − φ_w/π), that is, where ψ < φ_v + φ_w − 2φ_v φ_w/π: for classes at right angles
to the query, wherever they are less than 90° from each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import kernel

BITS, TABLES = 10, 16
ROWS_PER_BLOCK = 256


class Terms(NamedTuple):
    """One number for each context, the sums over ordered pairs i ≠ j.

    Attributes:
        positive, negative: the two parts of Σ g_i g_j Cov(1_i, 1_j), g the weights.
        negative_share: the share of pairs whose covariance is negative.
    """

    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    negative_share: NDArray[np.float64]


@kernel(fastmath=True)
def _add_pairs(between, first, angles, meets, misses, weights, out):
    n = angles.shape[1]
    for c in numba.prange(angles.shape[0]):
        for row in range(between.shape[0]):
            i = first + row
            positive = 0.0
            negative = 0.0
            count = 0
            for j in range(i + 1, n):
                agree = max(1 - (angles[c, i] + angles[c, j] + between[row, j]) / 2, 0.0)
                covariance = (1 - meets[c, i] - meets[c, j] + agree**BITS) ** TABLES - misses[c, i] * misses[c, j]
                term = weights[c, j] * covariance
                positive += max(term, 0.0)
                negative += min(term, 0.0)
                count += covariance < 0
            out[c, 0] += weights[c, i] * positive
            out[c, 1] += weights[c, i] * negative
            out[c, 2] += count


def covariance(classes: NDArray, cosines: NDArray, weights: NDArray) -> Terms:
    """Sums over all pairs of classes, under BITS and TABLES.

    Args:
        classes: (N, d), unit vectors that are hashed.
        cosines: (C, N), of each context with each class.
        weights: (C, N), f/(pZ) of each class.
    """
    n = len(classes)
    angles = np.arccos(np.clip(cosines, -1, 1)) / np.pi
    meets = (1 - angles) ** BITS
    misses = (1 - meets) ** TABLES
    out = np.zeros((len(cosines), 3))
    for first in range(0, n, ROWS_PER_BLOCK):
        between = np.arccos(np.clip(classes[first : first + ROWS_PER_BLOCK] @ classes.T, -1, 1)) / np.pi
        _add_pairs(between, first, angles, meets, misses, weights, out)
    return Terms(2 * out[:, 0], 2 * out[:, 1], 2 * out[:, 2] / (n * max(n - 1, 1)))
