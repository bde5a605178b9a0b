"""Logits and collision probabilities of the classes in a union, each row read once for both."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import score
from softhash.kernels._jit import exact_inline, inline, kernel
from softhash.kernels.score import dot
from softhash.kernels.tables import FROM_FLOOR


@exact_inline
def log_inclusion(cosine, nodes, reach, bits, tables):
    """log(1 − (1 − p^bits)^tables) at this cosine: cubic Hermite between nodes, the formula itself beyond ±reach."""
    cosine = min(max(cosine, -1.0), 1.0)
    if abs(cosine) >= reach:
        p = np.arccos(-cosine) / np.pi
        log_code = bits * (np.log(p) if cosine < 0 else np.log1p(-np.arccos(cosine) / np.pi))
        if log_code < -40:
            return np.log(tables) + log_code
        if log_code >= 0:
            return 0.0
        miss = tables * (np.log(-np.expm1(log_code)) if log_code > -0.693 else np.log1p(-np.exp(log_code)))
        return np.log(-np.expm1(miss)) if miss > -0.693 else np.log1p(-np.exp(miss))
    step = 2 * reach / (nodes.shape[0] - 1)
    place = (cosine + reach) / step
    k = min(int(place), nodes.shape[0] - 2)
    t = place - k
    rise = nodes[k + 1, 0] - nodes[k, 0]
    a = nodes[k, 1] * step - rise
    b = rise - nodes[k + 1, 1] * step
    return nodes[k, 0] + t * rise + t * (1 - t) * ((1 - t) * a + t * b)


@exact_inline
def cosine_of(product, squared_norm, query_norm):
    """cos of the angle between hashed vectors; a zero vector is at right angles to all but another zero."""
    if squared_norm <= 0 or query_norm <= 0:
        return 1.0 if squared_norm <= 0 and query_norm <= 0 else 0.0
    return product / (np.sqrt(squared_norm) * query_norm)


@exact_inline
def centred_squared_norm(row, bias, mean, mean_bias, negligible):
    """‖(row − mean, bias − mean_bias)‖², 0 where it is rounding noise."""
    total = squared_distance(row, mean) + (bias - mean_bias) ** 2
    return total if total > negligible else 0.0


@inline
def squared_distance(a, b):
    total = np.float32(0)
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) * (a[k] - b[k])
    return np.float64(total)


@kernel(fastmath=False)
def _collide(
    rows, bias, hashed, hashed_bias, moved, queries, query_norm, shift, ids, position, owner,
    mean, mean_bias, norm, negligible, nodes, reach, bits, tables, n_chunks, logits, log_p,
):  # fmt: skip
    pairs = position.shape[0]
    for c in numba.prange(n_chunks):
        squared_norm = norm * norm
        before = np.int64(-1)
        for slot in range(c * pairs // n_chunks, (c + 1) * pairs // n_chunks):
            at = position[slot]
            q = owner[slot]
            i = np.int64(ids[at])
            b = i if bias.shape[0] > 1 else 0
            if i != before and norm == 0:
                squared_norm = centred_squared_norm(hashed[i], hashed_bias[b], mean, mean_bias, negligible)
            before = i
            logit = dot(rows[i], queries[q]) + bias[b]
            logits[at] = logit
            old = dot(hashed[i], queries[q]) + hashed_bias[b] if moved else logit
            cosine = cosine_of(np.float64(old) - shift[q], squared_norm, query_norm[q])
            log_p[at] = log_inclusion(cosine, nodes, reach, bits, tables)


def collide(
    rows: NDArray, bias: NDArray, hashed: NDArray, hashed_bias: NDArray, queries: NDArray, query_norm: NDArray,
    offsets: NDArray, ids: NDArray, frame: tuple, negligible: float, nodes: NDArray, reach: float, bits: int, tables: int,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:  # fmt: skip
    """Logits from `rows`, log p from `hashed` (the vectors in the tables; the same array while nothing moved).

    `frame` is (mean, mean_bias, norm) of the hashing; norm 0 means each class has its own.
    """
    mean, mean_bias, norm = frame
    shift = queries.astype(np.float64) @ mean.astype(np.float64) + mean_bias
    logits, log_p = np.empty(len(ids), np.float32), np.empty(len(ids))
    position, owner = score.order(offsets, ids, len(rows))
    _collide(
        rows, bias, hashed, hashed_bias, hashed is not rows, queries, query_norm, shift, ids, position, owner,
        mean, mean_bias, norm, negligible, nodes, reach, bits, tables, score.chunks(), logits, log_p,
    )  # fmt: skip
    return logits, log_p


@kernel(fastmath=False)
def _jackknife(offsets, logits, log_count, log_p, sole, log_z, floor_rate, n_tables, out):
    for q in numba.prange(offsets.shape[0] - 1):
        alone = np.zeros(n_tables)
        noise = 0.0
        for s in range(offsets[q], offsets[q + 1]):
            weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - log_z[q])
            if sole[s] >= 0:
                p = np.exp(log_p[s])
                p_less = -np.expm1((n_tables - 1) / n_tables * np.log1p(-p))
                alone[sole[s]] += weight * (p / p_less if p_less > 0 else n_tables / (n_tables - 1))
            elif sole[s] == FROM_FLOOR:
                noise += weight * weight * (1 - floor_rate)
        spread = 0.0
        mean = alone.mean()
        for t in range(n_tables):
            spread += (alone[t] - mean) ** 2
        out[q] = np.sqrt((1 - floor_rate) ** 2 * spread * (n_tables - 1) / n_tables + noise)


def jackknife(offsets, logits, log_count, log_p, sole, log_z, floor_rate, n_tables) -> NDArray[np.float64]:
    """Relative standard error from leaving out one table at a time.

    Without table t the classes only it holds are gone and every p is 1 − (1 − p^K)^(L−1), so the L estimates differ by
    a_t = Σ_{i only in t} f_i / p'_i and the variance is (L − 1)/L Σ (a_t − ā)². Classes only the uniform floor drew add
    their own independent part.
    """
    out = np.empty(len(log_z))
    _jackknife(offsets, logits, log_count, log_p, sole, log_z, floor_rate, n_tables, out)
    return out
