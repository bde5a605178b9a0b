"""Maxima of perturbed logits, max_y (logit_y + G_y), without looking at every G.

G_y = −log E_y with E_y exponential, a function of the column's seed and y alone: nothing of size N is stored. The
maximum is the least of E_y / exp(logit_y). Classes above some logit, the head, are tried one by one; the others in the
order of their E, from a list made once per column, until no class further on can win, all of them being below that
logit. With a head of √N the list is read to about √N places whatever the logits are, and less where they are peaked.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import select
from softhash.kernels._jit import exact_inline, kernel, threads_for
from softhash.kernels.draws import uniform
from softhash.kernels.score import dot

LEAST = 2.0**-54
NO_CLASS = -1


@exact_inline
def chance(seed, y):
    """P(E < E_y) for class y: uniform in (0, 1), and a lower bound on E_y itself."""
    return max(uniform(seed, y), LEAST)


@exact_inline
def admitted(member_codes, y, codes):
    """Whether class y shares a code with the query; without any codes, every class does."""
    found = member_codes.shape[1] == 0
    for t in range(member_codes.shape[1]):
        found |= member_codes[y, t] == codes[t]
    return found


@exact_inline
def variable(seed, y):
    """G of class y in a column."""
    return -np.log(-np.log1p(-chance(seed, y)))


@kernel(parallel=False, fastmath=False)
def fill(seeds, first, out):
    """out[i, j] = G of class first + i in column j."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = variable(seeds[j], first + i)


@kernel(parallel=False, fastmath=False)
def at(seeds, classes, out):
    """out[q, k] = G of a class in the column of seed seeds[q, k]."""
    for q in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[q, k] = variable(seeds[q, k], classes[q, k])


@kernel(fastmath=False)
def _earliest(seeds, n, cut, room, out):
    for j in numba.prange(seeds.shape[0]):
        places = np.empty(room, np.int32)
        chances = np.empty(room)
        count = 0
        for y in range(n):
            v = chance(seeds[j], y)
            if v < cut and count < room:
                places[count] = y
                chances[count] = v
                count += 1
        order = np.argsort(chances[:count])
        for k in range(min(count, out.shape[1])):
            out[j, k] = places[order[k]]


def earliest(seeds: NDArray[np.uint64], n: int, count: int) -> NDArray[np.int32]:
    """(columns, count) classes of least E in each column, the least first; where a column has fewer, −1."""
    count = min(count, n)
    expected = count + 5 * np.sqrt(count)
    out = np.full((len(seeds), count), NO_CLASS, np.int32)
    _earliest(seeds, n, min(1.0, expected / n), min(n, int(2 * expected) + 16), out)
    return out


@exact_inline
def exhaustive(logits, q, seed, member_codes, codes, rank):
    """The largest (rank 1) or second largest logit + G over admitted classes, by trying all, and its class."""
    first = -np.inf
    second = -np.inf
    winner = NO_CLASS
    runner_up = NO_CLASS
    for y in range(logits.shape[1]):
        if admitted(member_codes, y, codes):
            value = np.float64(logits[q, y]) + variable(seed, y)
            if value > first:
                second = first
                runner_up = winner
                first = value
                winner = y
            elif value > second:
                second = value
                runner_up = y
    return (first, winner) if rank == 1 else (second, runner_up)


@exact_inline
def try_head(seed, head, n_head, scale, member_codes, codes, rank):
    """The two least E·scale over admitted classes of the head, and these classes."""
    first = np.inf
    second = np.inf
    winner = NO_CLASS
    runner_up = NO_CLASS
    for k in range(n_head):
        v = chance(seed, head[k])
        if v * scale[k] < (first if rank == 1 else second) and admitted(member_codes, head[k], codes):
            value = -np.log1p(-v) * scale[k]
            if value < first:
                second = first
                runner_up = winner
                first = value
                winner = head[k]
            elif value < second:
                second = value
                runner_up = head[k]
    return first, second, winner, runner_up


@exact_inline
def perturbed_maximum(logits, q, seed, earliest, j, cut, top, head, n_head, scale, member_codes, codes, rank):
    """The largest or second largest logit + G over admitted classes, and its class."""
    first, second, winner, runner_up = try_head(seed, head, n_head, scale, member_codes, codes, rank)
    reach = np.exp(top - cut)
    for k in range(earliest.shape[1]):
        y = earliest[j, k]
        if y == NO_CLASS:
            break
        e = -np.log1p(-chance(seed, y))
        limit = first if rank == 1 else second
        if e * reach >= limit:
            if limit == np.inf:
                break
            return top - np.log(limit), winner if rank == 1 else runner_up
        if logits[q, y] <= cut and admitted(member_codes, y, codes):
            value = e * np.exp(top - np.float64(logits[q, y]))
            if value < first:
                second = first
                runner_up = winner
                first = value
                winner = y
            elif value < second:
                second = value
                runner_up = y
    return exhaustive(logits, q, seed, member_codes, codes, rank)


@exact_inline
def query_codes(projections, q, planes, j, bits, codes):
    """codes[t] of the query (x, e_j), from its own projections and those of the j-th coordinate."""
    for t in range(codes.shape[0]):
        code = np.uint32(0)
        for b in range(bits):
            at = t * bits + b
            code |= np.uint32(projections[q, at] + planes[j, at] > 0) << np.uint32(b)
        codes[t] = code


@kernel(fastmath=False)
def _maxima(
    logits, columns, seeds, earliest, member_codes, projections, planes, bits, rank, n_head, n_chunks, out, won
):
    n_queries, n = logits.shape
    for c in numba.prange(n_chunks):
        sample = np.empty(select.SAMPLE_ROOM, np.float32)
        head = np.empty(n, np.int32)
        scale = np.empty(n)
        codes = np.empty(member_codes.shape[1], np.uint32)
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            cut = np.float64(select.threshold(logits, q, n_head, sample))
            count = select.above(logits, q, np.float32(cut), head)
            top = cut
            for k in range(count):
                top = max(top, np.float64(logits[q, head[k]]))
            for k in range(count):
                scale[k] = np.exp(top - np.float64(logits[q, head[k]]))
            for k in range(columns.shape[1]):
                j = columns[q, k]
                query_codes(projections, q, planes, j, bits, codes)
                out[q, k], won[q, k] = perturbed_maximum(
                    logits, q, seeds[j], earliest, j, cut, top, head, count, scale, member_codes, codes, rank
                )


def maxima(
    logits: NDArray, columns: NDArray, seeds: NDArray, earliest: NDArray, member_codes: NDArray,
    projections: NDArray, planes: NDArray, bits: int, rank: int,
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:  # fmt: skip
    """The `rank`-th largest logit + G over the classes that share a code with (x_q, e_j), j = columns[q, k].

    Args:
        logits: float32[Q, N].
        columns: int32[Q, draws].
        seeds: uint64[columns].
        earliest: int32[columns, m], from `earliest`.
        member_codes: uint32[N, L]; with L = 0 every class takes part.
        projections: float32[Q, L·bits] of the queries, and planes float32[columns, L·bits] of the columns.

    Returns:
        The maxima (Q, draws) and their classes; -inf and −1 where there is none.
    """
    out, won = np.empty(columns.shape), np.empty(columns.shape, np.int32)
    n_head = max(1, int(np.sqrt(logits.shape[1])))
    with threads_for(columns.size // 16) as n_chunks:
        _maxima(
            logits, columns, seeds, earliest, member_codes, projections, planes, bits, rank, n_head, n_chunks, out, won
        )
    return out, won


@kernel(fastmath=False)
def _bucket_maxima(rows, bias, queries, columns, seeds, first_slot, last_slot, ids, n_chunks, out, scored):
    n_queries, draws = columns.shape
    for c in numba.prange(n_chunks):
        logit = np.empty(rows.shape[0], np.float32)
        owner = np.full(rows.shape[0], -1, np.int32)
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            for k in range(draws):
                best = -np.inf
                for t in range(ids.shape[0]):
                    for slot in range(first_slot[q * draws + k, t], last_slot[q * draws + k, t]):
                        y = ids[t, slot]
                        if owner[y] != q:
                            owner[y] = q
                            logit[y] = dot(rows, y, queries, q) + bias[y if bias.shape[0] > 1 else 0]
                            scored[q] += 1
                        best = max(best, np.float64(logit[y]) + variable(seeds[columns[q, k]], y))
                out[q, k] = best


def bucket_maxima(
    rows: NDArray, bias: NDArray, queries: NDArray, columns: NDArray, seeds: NDArray, buckets: tuple, ids: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The same maxima from the buckets themselves, each class scored when first met, and how many were.

    Args:
        rows, bias: the model's.
        buckets: (first, last), each (Q·draws, L), slots of `ids`.
        ids: int32[L, N].
    """
    out, scored = np.empty(columns.shape), np.zeros(len(columns), np.int64)
    with threads_for(len(columns)) as n_chunks:
        _bucket_maxima(rows, bias, queries, columns, seeds, *buckets, ids, n_chunks, out, scored)
    return out, scored
