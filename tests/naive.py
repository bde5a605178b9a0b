"""What the kernels compute, in float64 loops too slow to be wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import numpy as np
from numpy.typing import NDArray

from softhash import LogLinear, Sample


def logits(model: LogLinear, queries: NDArray) -> NDArray[np.float64]:
    """θ_y·x + b_y for every class, (Q, N)."""
    bias = 0.0 if model.bias is None else model.bias.astype(np.float64)
    return np.asarray(queries, np.float64) @ model.weights.astype(np.float64).T + bias


def log_sum_exp(values: NDArray) -> float:
    """log Σ exp(values), each term added without rounding; -inf when there are none."""
    if len(values) == 0:
        return -math.inf
    top = float(np.max(values))
    return top + math.log(math.fsum(math.exp(float(value) - top) for value in values))


def log_z(model: LogLinear, queries: NDArray) -> NDArray[np.float64]:
    """log Z for each query."""
    return np.array([log_sum_exp(row) for row in logits(model, queries)])


def segments(sample: Sample) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
    """(ids, logits, log_expected_count) of each query."""
    for first, last in zip(sample.offsets[:-1], sample.offsets[1:], strict=True):
        yield sample.ids[first:last], sample.logits[first:last], sample.log_expected_count[first:last]


def log_partition(sample: Sample) -> NDArray[np.float64]:
    """log Σ exp(logit) / p of each query."""
    return np.array(
        [log_sum_exp(row.astype(np.float64) - log_count.astype(np.float64)) for _, row, log_count in segments(sample)]
    )


def log_inclusion(cosine: float, bits: int, tables: int) -> float:
    """log(1 − (1 − p^K)^L) with p = 1 − arccos(cosine)/π, in as many digits as it takes."""
    with mpmath.workdps(60 + 20 * bits):
        p = 1 - mpmath.acos(mpmath.mpf(cosine)) / mpmath.pi
        if p == 0:
            return -math.inf
        return float(mpmath.log(1 - (1 - p**bits) ** tables))


def hashed_cosines(model: LogLinear, queries: NDArray, transform: str, center: bool) -> NDArray[np.float64]:
    """Cosines (Q, N) between the vectors an LSH hashes: centred, with bias and completing coordinates."""
    vectors = model.weights.astype(np.float64)
    wide = np.asarray(queries, np.float64)
    if model.bias is not None:
        vectors = np.column_stack([vectors, model.bias.astype(np.float64)])
        wide = np.column_stack([wide, np.ones(len(wide))])
    if center:
        vectors = vectors - vectors.mean(axis=0)
    norms = np.linalg.norm(vectors, axis=1)
    if transform == "mips":
        norms = np.full(len(vectors), norms.max())
    return wide @ vectors.T / np.outer(np.linalg.norm(wide, axis=1), norms)


def codes(projections: NDArray, bits: int) -> NDArray[np.uint32]:
    """Codes (L, n) of projections (n, L·K): bit j of table t is the sign in column t·K + j."""
    positive = projections.reshape(len(projections), -1, bits) > 0
    return (positive @ (2 ** np.arange(bits, dtype=np.uint64))).astype(np.uint32).T


def union(class_codes: NDArray, query_codes: NDArray) -> list[set[int]]:
    """For each query, the classes whose code equals its own in at least one table."""
    return [set(np.flatnonzero((class_codes == code[:, None]).any(axis=0)).tolist()) for code in query_codes.T]


def alias_probabilities(keep: NDArray, other: NDArray) -> NDArray[np.float64]:
    """The distribution an alias table draws from."""
    probabilities = np.array(keep, np.float64)
    for i, j in enumerate(other):
        probabilities[j] += 1 - keep[i]
    return probabilities / len(keep)


def gumbel_noise(seeds: NDArray[np.uint64], n: int) -> NDArray[np.float64]:
    """G (columns, n): −log(−log(1 − v)), v the y-th number of the column's SplitMix64 stream."""
    mask, noise = 2**64 - 1, np.empty((len(seeds), n))
    for j, seed in enumerate(seeds.tolist()):
        for y in range(n):
            z = (seed + (y + 1) * 0x9E3779B97F4A7C15) & mask
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            v = ((z ^ (z >> 31)) >> 11) / 2**53
            noise[j, y] = -math.log(-math.log1p(-max(v, 2.0**-54)))
    return noise


def gumbel_log_z(perturbed: list[list[NDArray]], rank: int = 1) -> NDArray[np.float64]:
    """−log mean exp(−H) for each query, H the `rank`-th largest perturbed logit of a draw; empty draws do not count."""
    estimates = []
    for draws in perturbed:
        maxima = np.array([np.sort(values)[-rank] for values in draws if len(values) >= rank])
        estimates.append(math.log(len(maxima)) - log_sum_exp(-maxima) if len(maxima) else -math.inf)
    return np.array(estimates)


def priority_log_z(logits: NDArray, log_u: NDArray, size: int) -> NDArray[np.float64]:
    """log Σ max(w, τ) over the `size` largest w/u, τ the next."""
    estimates = []
    for row in logits:
        order = np.argsort(log_u - row)
        log_tau = (row - log_u)[order[size]]
        estimates.append(log_sum_exp(np.maximum(row[order[:size]], log_tau)))
    return np.array(estimates)


def pair_gradients(g: NDArray, queries: NDArray, weights: NDArray, offsets: NDArray, ids: NDArray) -> tuple:
    """∂/∂θ, ∂/∂b and ∂/∂x of Σ_s g_s (θ_i·x_q + b_i) over CSR pairs."""
    for_classes, for_bias, for_queries = np.zeros_like(weights), np.zeros(len(weights)), np.zeros_like(queries)
    for q in range(len(queries)):
        for s in range(offsets[q], offsets[q + 1]):
            for_classes[ids[s]] += g[s] * queries[q]
            for_queries[q] += g[s] * weights[ids[s]]
            for_bias[ids[s]] += g[s]
    return for_classes, for_bias, for_queries
