"""What is kept while blocks of logits of every class go by: the mass so far, the best classes, classes drawn."""

from __future__ import annotations

import numpy as np

from softhash.kernels._jit import exact_inline, kernel
from softhash.kernels.draws import uniform
from softhash.kernels.systematic import exponentiate

NEVER = -3e38


@exact_inline
def raise_top(logits, q, top, mass):
    """Rescale the mass of query q to the largest logit seen, this block's included."""
    highest = top[q]
    for j in range(logits.shape[1]):
        highest = max(highest, np.float64(logits[q, j]))
    if highest > top[q]:
        mass[q] *= np.exp(top[q] - highest)
        top[q] = highest
    return highest


@exact_inline
def worse(a, i, b, j):
    """Whether class i with logit a comes after class j with logit b: a smaller logit, or the same and a later class."""
    return a < b or (a == b and i > j)


@exact_inline
def settle(values, ids, q, value, i):
    """Put (value, i) in the place of the worst of a heap whose root is the worst."""
    k = values.shape[1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= k:
            break
        if child + 1 < k and worse(values[q, child + 1], ids[q, child + 1], values[q, child], ids[q, child]):
            child += 1
        if not worse(values[q, child], ids[q, child], value, i):
            break
        values[q, at] = values[q, child]
        ids[q, at] = ids[q, child]
        at = child
    values[q, at] = value
    ids[q, at] = i


@kernel(parallel=False, fastmath=False)
def keep_best(logits, first, top, mass, values, ids):
    """Classes first, first + 1, … into each query's heap of the best k, and their exponentials into its mass."""
    for q in range(logits.shape[0]):
        for j in range(logits.shape[1]):
            if worse(values[q, 0], ids[q, 0], logits[q, j], first + j):
                settle(values, ids, q, logits[q, j], first + j)
        highest = raise_top(logits, q, top, mass)
        mass[q] += exponentiate(logits[q], logits.shape[1], np.float32(highest))


@exact_inline
def locate(cumulative, n, wanted):
    """The first of n places whose running sum exceeds `wanted`, the last where rounding leaves none."""
    low = 0
    high = n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@exact_inline
def skip(u, p):
    """How many trials of chance p fail before one succeeds, from a uniform number."""
    return int(min(np.log1p(-u) / np.log1p(-p), 1e18)) if p < 1 else 0


@exact_inline
def replace_draws(weights, n, total, p, first, seed, counter, drawn, q, cumulative):
    """Each draw of query q moves, with chance p, to one of these n classes in proportion to their weights."""
    ready = False
    j = skip(uniform(seed, counter), p)
    while j < drawn.shape[1]:
        if not ready:
            running = 0.0
            for c in range(n):
                running += np.float64(weights[c])
                cumulative[c] = running
            ready = True
        wanted = uniform(seed, counter + 1) * cumulative[n - 1]
        drawn[q, j] = first + locate(cumulative, n, wanted)
        counter += 2
        j += 1 + skip(uniform(seed, counter), p)


@kernel(parallel=False, fastmath=False)
def keep_drawn(logits, first, counter, seeds, top, mass, drawn):
    """A weighted reservoir: after every block, each draw is a class seen so far with probability in proportion.

    The mass of the block over that of all so far is the chance of a draw to move into the block.
    """
    n = logits.shape[1]
    cumulative = np.empty(n)
    for q in range(logits.shape[0]):
        highest = raise_top(logits, q, top, mass)
        total = exponentiate(logits[q], n, np.float32(highest))
        mass[q] += total
        if total > 0:
            replace_draws(logits[q], n, total, total / mass[q], first, seeds[q], counter, drawn, q, cumulative)


@kernel(parallel=False, fastmath=False)
def merge_drawn(tops, masses, drawn, seeds, counter, out):
    """Each draw from one of several parts of the classes, chosen in proportion to their masses."""
    parts = tops.shape[0]
    cumulative = np.empty(parts)
    for q in range(out.shape[0]):
        highest = tops[0, q]
        for s in range(parts):
            highest = max(highest, tops[s, q])
        running = 0.0
        for s in range(parts):
            running += masses[s, q] * np.exp(tops[s, q] - highest)
            cumulative[s] = running
        for j in range(out.shape[1]):
            wanted = uniform(seeds[q], counter + j) * running
            out[q, j] = drawn[locate(cumulative, parts, wanted), q, j]


@kernel(parallel=False, fastmath=False)
def best_of_segments(offsets, ids, logits, values, best):
    """The best k distinct classes of each CSR segment, into heaps of k."""
    k = values.shape[1]
    for q in range(offsets.shape[0] - 1):
        for s in range(offsets[q], offsets[q + 1]):
            if not worse(values[q, 0], best[q, 0], logits[s], ids[s]):
                continue
            fresh = True
            for j in range(k):
                fresh &= best[q, j] != ids[s]
            if fresh:
                settle(values, best, q, logits[s], ids[s])


@kernel(parallel=False, fastmath=False)
def draw_from_segments(offsets, ids, log_weights, seeds, out):
    """Classes of each CSR segment in proportion to exp(log_weights); −1 where a segment is empty."""
    for q in range(offsets.shape[0] - 1):
        n = offsets[q + 1] - offsets[q]
        if n == 0:
            out[q, :] = -1
            continue
        highest = np.float64(log_weights[offsets[q]])
        for s in range(offsets[q], offsets[q + 1]):
            highest = max(highest, np.float64(log_weights[s]))
        cumulative = np.empty(n)
        running = 0.0
        for s in range(n):
            running += np.exp(np.float64(log_weights[offsets[q] + s]) - highest)
            cumulative[s] = running
        for j in range(out.shape[1]):
            out[q, j] = ids[offsets[q] + locate(cumulative, n, uniform(seeds[q], j) * running)]
