"""Logits and collision probabilities of the classes in a union, each row read once for both."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import score
from softhash.kernels._jit import exact_inline, inline, kernel, threads_for
from softhash.kernels.ragged import QUERIES_PER_THREAD
from softhash.kernels.score import dot
from softhash.kernels.systematic import probabilities, relative_weights
from softhash.kernels.tables import FROM_FLOOR


@exact_inline
def exact_log_inclusion(cosine, bits, tables):
    """log(1 − (1 − p^bits)^tables) for p = 1 − arccos(cosine)/π."""
    log_bit = np.log(np.arccos(-cosine) / np.pi) if cosine < 0 else np.log1p(-np.arccos(cosine) / np.pi)
    log_code = bits * log_bit
    if log_code < -40:
        return np.log(tables) + log_code
    if log_code >= 0:
        return 0.0
    log_miss = tables * (np.log(-np.expm1(log_code)) if log_code > -0.693 else np.log1p(-np.exp(log_code)))
    return np.log(-np.expm1(log_miss)) if log_miss > -0.693 else np.log1p(-np.exp(log_miss))


@exact_inline
def log_inclusion(cosine, nodes, reach, bits, tables):
    """The same by cubic Hermite interpolation between `nodes` (values and rises per step) over ±reach, exact beyond."""
    if abs(cosine) >= reach:
        return exact_log_inclusion(min(max(cosine, -1.0), 1.0), bits, tables)
    place = (cosine + reach) * (np.float64(nodes.shape[0] - 1) * (0.5 / reach))
    k = np.uint64(place)
    t = place - np.float64(k)
    after = k + np.uint64(1)
    rise = nodes[after, 0] - nodes[k, 0]
    a = nodes[k, 1] - rise
    b = rise - nodes[after, 1]
    return nodes[k, 0] + t * rise + t * (1 - t) * ((1 - t) * a + t * b)


@inline
def dot_and_distance(rows, i, queries, q, mean):
    """θ_i·x_q and ‖θ_i − mean‖² in one pass over the row."""
    product = np.float32(0)
    squares = np.float32(0)
    for k in range(rows.shape[1]):
        value = rows[i, k]
        product += value * queries[q, k]
        squares += (value - mean[k]) * (value - mean[k])
    return product, squares


@exact_inline
def inverse(norm):
    """1/norm, and 0 for a zero vector, which puts it at right angles to everything."""
    return 1 / norm if norm > 0 else 0.0


@kernel(fastmath=False)
def _collide(
    rows, bias, hashed, hashed_bias, moved, queries, query_scale, shift, ids, position, owner,
    mean, mean_bias, norm, negligible, nodes, reach, bits, tables, n_chunks, logits, log_p,
):  # fmt: skip
    pairs = position.shape[0]
    for c in numba.prange(n_chunks):
        scale = inverse(norm)
        before = np.int64(-1)
        for slot in range(c * pairs // n_chunks, (c + 1) * pairs // n_chunks):
            at = position[slot]
            q = owner[slot]
            i = np.int64(ids[at])
            score.expect(hashed, ids[position[min(slot + score.PAIRS_AHEAD, pairs - 1)]])
            b = i if bias.shape[0] > 1 else 0
            if norm == 0 and i != before:
                old, squares = dot_and_distance(hashed, i, queries, q, mean)
                squares += np.float32((hashed_bias[b] - mean_bias) ** 2)
                scale = inverse(np.float64(np.sqrt(squares)) if squares > negligible else 0.0)
                before = i
            else:
                old = dot(hashed, i, queries, q)
            logits[at] = (dot(rows, i, queries, q) if moved else old) + bias[b]
            if scale == 0 and query_scale[q] == 0:
                log_p[at] = 0.0  # both hash to the code of the zero vector
            else:
                cosine = (old + hashed_bias[b] - shift[q]) * scale * query_scale[q]
                log_p[at] = log_inclusion(cosine, nodes, reach, bits, tables)


def collide(
    rows: NDArray, bias: NDArray, hashed: NDArray, hashed_bias: NDArray, queries: NDArray, query_norm: NDArray,
    offsets: NDArray, ids: NDArray, frame: tuple, negligible: float, nodes: NDArray, reach: float, bits: int,
    tables: int,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:  # fmt: skip
    """Logits from `rows`, log p from `hashed` (the vectors in the tables; the same array while nothing moved).

    `frame` is (mean, mean_bias, norm) of the hashing; norm 0 means each class has its own.
    """
    mean, mean_bias, norm = frame
    # Not by BLAS, whose threads would keep spinning on the cores that the loop below needs.
    shift = np.einsum("qd,d->q", queries, mean).astype(np.float64) + mean_bias
    query_scale = np.divide(1, query_norm, out=np.zeros_like(query_norm), where=query_norm > 0)
    logits, log_p = np.empty(len(ids), np.float32), np.empty(len(ids))
    position, owner = score.order(offsets, ids, len(rows))
    with threads_for(len(ids) // score.PAIRS_PER_THREAD) as threads:
        _collide(
            rows, bias, hashed, hashed_bias, hashed is not rows, queries, query_scale, shift, ids, position, owner,
            mean, mean_bias, norm, negligible, nodes, reach, bits, tables, score.CHUNKS_PER_THREAD * threads,
            logits, log_p,
        )  # fmt: skip
    return logits, log_p


@kernel(fastmath=False)
def _either(log_p, rates, out):
    for s in numba.prange(log_p.shape[0]):
        rate = rates[s] if rates.shape[0] > 1 else rates[0]
        p = np.exp(log_p[s])
        out[s] = np.log(p + rate - p * rate) if rate > 0 else log_p[s]


def either(log_p: NDArray[np.float64], rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """log of 1 − (1 − p)(1 − rate), rates for each slot or (1,) for all; p + rate − p·rate has nothing to cancel."""
    out = np.empty(len(log_p))
    with threads_for(len(log_p) // score.PAIRS_PER_THREAD):
        _either(log_p, rates, out)
    return out


@exact_inline
def lost_share(p):
    """L·(1 − p'/p) to first order in 1/L: −(1 − p) log(1 − p) / p, by its series, within 3 %."""
    return (1 - p) * (1 + p * (1 / 2 + p * (1 / 3 + p * (1 / 4 + p / 5))))


@kernel(fastmath=False)
def _jackknife(offsets, logits, log_count, log_p, sole, rates, n_tables, most, n_chunks, out):
    n_queries = offsets.shape[0] - 1
    for c in numba.prange(n_chunks):
        weights = np.empty(most, np.float32)
        p = np.empty(most, np.float32)
        alone = np.empty(n_tables)
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            start = offsets[q]
            relative_weights(logits, log_count, start, offsets[q + 1], weights)
            probabilities(log_p, start, offsets[q + 1], p)
            alone[:] = 0
            noise = 0.0
            total = 0.0
            for k in range(offsets[q + 1] - start):
                weight = np.float64(weights[k])
                total += weight
                missed = 1 - rates[start + k if rates.shape[0] > 1 else 0]
                table = sole[start + k]
                if table >= 0:
                    alone[table] += missed * weight / (1 - lost_share(np.float64(p[k])) / n_tables)
                elif table == FROM_FLOOR:
                    noise += weight * weight * missed
            spread = 0.0
            mean = alone.mean()
            for t in range(n_tables):
                spread += (alone[t] - mean) ** 2
            out[q] = np.sqrt(spread * (n_tables - 1) / n_tables + noise) / total


def jackknife(offsets, logits, log_count, log_p, sole, rates, n_tables) -> NDArray[np.float64]:
    """Relative standard error from leaving out one table at a time.

    Without table t the classes only it holds are gone and every p is 1 − (1 − p^K)^(L−1), so the L estimates differ by
    a_t = Σ_{i only in t} f_i / p'_i and the variance is (L − 1)/L Σ (a_t − ā)². Classes only the floor drew add their
    own independent part. `rates`: P(the floor draws it), for each slot or (1,) for all.
    """
    out = np.empty(len(offsets) - 1)
    most = int(np.diff(offsets).max(initial=1))
    with threads_for(len(out) // QUERIES_PER_THREAD) as n_chunks:
        _jackknife(offsets, logits, log_count, log_p, sole, rates, n_tables, most, n_chunks, out)
    return out
