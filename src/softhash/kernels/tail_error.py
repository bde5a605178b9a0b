"""The error of a draw in proportion to size, from the classes not taken with certainty."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import ragged, systematic
from softhash.kernels._jit import kernel, threads_for


@kernel(fastmath=False)
def _tail_error(offsets, logits, log_count, replicate, replicates, poisson, most, n_chunks, out):
    n_queries = offsets.shape[0] - 1
    for c in numba.prange(n_chunks):
        weights = np.empty(most, np.float32)
        p = np.empty(most, np.float32)
        sums = np.empty(replicates)
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            start = offsets[q]
            systematic.relative_weights(logits, log_count, start, offsets[q + 1], weights)
            systematic.probabilities(log_count, start, offsets[q + 1], p)
            sums[:] = 0
            everything = 0.0
            drawn = 0
            shares = 0.0
            mean = 0.0
            largest = 0.0
            for k in range(offsets[q + 1] - start):
                weight = np.float64(weights[k])
                everything += weight
                if replicate[start + k] >= 0:
                    missed = max(1 - np.float64(p[k]), 0.0)
                    sums[replicate[start + k]] += weight
                    mean += missed * weight
                    shares += missed
                    largest = max(largest, weight)
                    drawn += 1
            mean = mean / shares if shares > 0 and drawn > 1 and not poisson else 0.0
            total = 0.0
            if replicates > 1:
                total = replicates / (replicates - 1) * np.sum((sums - sums.mean()) ** 2)
            else:
                for k in range(offsets[q + 1] - start):
                    if replicate[start + k] >= 0:
                        total += max(1 - np.float64(p[k]), 0.0) * (np.float64(weights[k]) - mean) ** 2
                if drawn > 1 and not poisson:
                    total = total * drawn / (drawn - 1) + largest * largest / 2
            out[q] = np.sqrt(total) / everything


def tail_error(offsets, logits, log_count, replicate, replicates: int, poisson: bool) -> NDArray[np.float64]:
    """Relative standard error of a draw in proportion to size, from the classes not taken with certainty.

    With z = f/p: R replicates give R/(R − 1) Σ (t_r − t̄)² over their sums; Poisson draws Σ (1 − p) z²; one systematic
    draw n/(n − 1) Σ (1 − p)(z − z̄)² + max z²/2: Hájek's approximation, z̄ weighted by 1 − p, and an allowance for the
    classes whose sketch fell short, which few draws show and which make the plain formula cover too little.
    """
    out = np.empty(len(offsets) - 1)
    most = int(np.diff(offsets).max(initial=1))
    with threads_for(len(out) // ragged.QUERIES_PER_THREAD) as n_chunks:
        _tail_error(offsets, logits, log_count, replicate, replicates, poisson, most, n_chunks, out)
    return out
