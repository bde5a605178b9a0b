"""Gumbel-max over a head that is known and a tail that is perturbed only where it could win."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import exact_inline, kernel
from softhash.kernels.draws import stream, uniform
from softhash.kernels.outside import skipped, tidy
from softhash.kernels.score import dot
from softhash.kernels.sweep import locate, skip

DRAWS_PER_PIECE = 256


@kernel(fastmath=False)
def _heads(found, n_classes, ids, counts):
    for q in numba.prange(found.shape[0]):
        spare = np.empty(found.shape[1], np.int64)
        counts[q] = tidy(found, q, n_classes, ids, spare)


def heads(found: NDArray[np.int64], n_classes: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct classes of each row of `found`, sorted, at the beginning of a row of ids; and how many they are."""
    ids, counts = np.zeros(found.shape, np.int32), np.empty(len(found), np.int64)
    _heads(found, n_classes, ids, counts)
    return ids, counts


@exact_inline
def draw_one(rows, bias, queries, q, ids, count, cumulative, log_head, bound, seed):
    """One class: the head's winner, or one of those of the tail whose Gumbel variable exceeds what a win takes.

    The maximum of the head's perturbed logits is a Gumbel variable at log Σ exp, independent of which class attains
    it. A class outside the head, of logit at most `bound`, beats it only if its own variable exceeds M − bound: the
    classes where it does are found by geometric skips, and only those are scored.
    """
    others = rows.shape[0] - count
    best = log_head - np.log(-np.log(1 - uniform(seed, 0) * (1 - 1e-16)))
    winner = ids[q, locate(cumulative, count, uniform(seed, 1) * cumulative[count - 1])] if count else -1
    chance = -np.expm1(-np.exp(bound - best)) if count else 1.0
    counter = 2
    rank = skip(uniform(seed, counter), chance) if chance > 0 else others
    while rank < others:
        i = skipped(ids, q, count, rank)
        exceeding = -np.log(-np.log1p(-chance * (1 - uniform(seed, counter + 1))))
        value = np.float64(dot(rows, i, queries, q)) + bias[i if bias.shape[0] > 1 else 0] + exceeding
        if value > best or winner < 0:
            best = value
            winner = i
        counter += 2
        rank += 1 + skip(uniform(seed, counter), chance)
    return winner


@kernel(fastmath=False)
def _draw(rows, bias, queries, ids, counts, logits, seeds, pieces, out):
    n = out.shape[1]
    for piece in numba.prange(seeds.shape[0] * pieces):
        q = piece // pieces
        count = counts[q]
        top = -np.inf
        bound = np.inf
        for k in range(count):
            top = max(top, np.float64(logits[q, k]))
            bound = min(bound, np.float64(logits[q, k]))
        cumulative = np.empty(max(count, 1))
        running = 0.0
        for k in range(count):
            running += np.exp(np.float64(logits[q, k]) - top)
            cumulative[k] = running
        log_head = top + np.log(running) if count else -np.inf
        for j in range(piece % pieces * n // pieces, (piece % pieces + 1) * n // pieces):
            seed = stream(seeds[q], j)
            out[q, j] = draw_one(rows, bias, queries, q, ids, count, cumulative, log_head, bound, seed)


def draw(rows, bias, queries, ids, counts, logits, seeds, n: int) -> NDArray[np.int32]:
    """(Q, n) classes from the softmax, exactly so if no class outside a head has a larger logit than one inside.

    Args:
        ids, counts: the heads, as from `heads`.
        logits: float32[Q, k], of the heads.
    """
    out = np.empty((len(seeds), n), np.int32)
    _draw(rows, bias, queries, ids, counts, logits, seeds, -(-n // DRAWS_PER_PIECE), out)
    return out
