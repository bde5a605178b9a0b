"""Sums over CSR segments: log-sum-exp with a running maximum, second moments, and editing in a target."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import kernel, threads_for

QUERIES_PER_THREAD = 16
"""Fewer queries than this are not worth a second thread."""


@kernel(fastmath=False)
def _log_sum(offsets, logits, log_count, log_z, second):
    for q in numba.prange(offsets.shape[0] - 1):
        top = -np.inf
        for s in range(offsets[q], offsets[q + 1]):
            top = max(top, np.float64(logits[s]) - np.float64(log_count[s]))
        total = 0.0
        squares = 0.0
        for s in range(offsets[q], offsets[q + 1]):
            weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - top)
            total += weight
            squares += weight * weight
        log_z[q] = top + np.log(total) if total > 0 else -np.inf
        second[q] = squares / (total * total) if total > 0 else np.nan


def log_sum(offsets: NDArray, logits: NDArray, log_count: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """log Σ w and Σ w² / (Σ w)² of each segment, for w = exp(logits − log_count); an empty one gives -inf and nan."""
    log_z = np.empty(len(offsets) - 1)
    second = np.empty(len(offsets) - 1)
    with threads_for(len(log_z) // QUERIES_PER_THREAD):
        _log_sum(offsets, logits, log_count, log_z, second)
    return log_z, second


@kernel(fastmath=False)
def _poisson_variance(offsets, logits, log_count, log_z, out):
    for q in numba.prange(offsets.shape[0] - 1):
        total = 0.0
        for s in range(offsets[q], offsets[q + 1]):
            log_p = np.float64(log_count[s])
            total -= np.exp(2 * (np.float64(logits[s]) - log_p - log_z[q])) * np.expm1(log_p)
        out[q] = np.sqrt(max(total, 0.0))


def poisson_error(offsets: NDArray, logits: NDArray, log_count: NDArray) -> NDArray[np.float64]:
    """Relative standard error √(Σ_S (f/p)² (1 − p)) / Ẑ where classes were drawn independently with probability p."""
    log_z, _ = log_sum(offsets, logits, log_count)
    out = np.empty(len(log_z))
    with threads_for(len(log_z) // QUERIES_PER_THREAD):
        _poisson_variance(offsets, logits, log_count, log_z, out)
    return out


@kernel(fastmath=False)
def _with_targets(offsets, ids, logits, log_count, targets, target_logits, new_offsets, new_ids, new_logits, new_count):
    for q in numba.prange(offsets.shape[0] - 1):
        to = new_offsets[q]
        for s in range(offsets[q], offsets[q + 1]):
            if ids[s] != targets[q]:
                new_ids[to] = ids[s]
                new_logits[to] = logits[s]
                new_count[to] = log_count[s]
                to += 1
        new_ids[to] = targets[q]
        new_logits[to] = target_logits[q]
        new_count[to] = 0


@kernel(fastmath=False)
def _count_others(offsets, ids, targets, out):
    for q in numba.prange(offsets.shape[0] - 1):
        for s in range(offsets[q], offsets[q + 1]):
            out[q] += ids[s] != targets[q]


def with_targets(offsets: NDArray, ids: NDArray, logits: NDArray, log_count: NDArray, targets: NDArray, target_logits):
    """The segments without their target, then the target last with log count 0."""
    sizes = np.ones(len(targets), np.int64)
    with threads_for(len(targets) // QUERIES_PER_THREAD):
        _count_others(offsets, ids, targets, sizes)
    new_offsets = offsets_from_sizes(sizes)
    pairs = int(new_offsets[-1])
    new = (new_offsets, np.empty(pairs, np.int32), np.empty(pairs, np.float32), np.empty(pairs, np.float32))
    with threads_for(len(targets) // QUERIES_PER_THREAD):
        _with_targets(offsets, ids, logits, log_count, targets, target_logits, *new)
    return new


def offsets_from_sizes(sizes: NDArray) -> NDArray[np.int64]:
    """CSR offsets of segments with these sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@kernel(fastmath=False)
def _compact(loose, offsets, source, out):
    for q in numba.prange(offsets.shape[0] - 1):
        for s in range(offsets[q + 1] - offsets[q]):
            out[offsets[q] + s] = source[loose[q] + s]


def compact(loose: NDArray, offsets: NDArray, source: NDArray) -> NDArray:
    """Segments that start at `loose` with room to spare, moved together to `offsets`."""
    out = np.empty(offsets[-1], source.dtype)
    with threads_for((len(offsets) - 1) // QUERIES_PER_THREAD):
        _compact(loose, offsets, source, out)
    return out
