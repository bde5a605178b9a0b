"""The reference: every class, every query, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import blas, checks
from softhash.model import LogLinear
from softhash.types import QUERIES_PER_BLOCK, Estimate

CACHE_BYTES = 2**21
CLASSES_PER_PRODUCT = 2048


class Exact:
    """log Z(x) = log Σ_y exp(θ_y·x + b_y), every term counted.

    Classes go by in blocks: a float32 matrix product, then a running maximum and sum. Memory is the budget, whatever
    N and Q are, and memory-mapped weights are read once per 1024 queries.

    Args:
        model: the model.
        memory: bytes the blocks of logits may take in all.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((100, 4)))
        >>> bool(np.isclose(sh.Exact(model).log_partition(np.ones((2, 4))).log_z[0], np.log(100)))
        True
    """

    def __init__(self, model: LogLinear, memory: int = 256 * 2**20):
        self.model = model
        self.memory = checks.positive_int("memory", memory, least=2**20)

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """log Z for queries of shape (Q, d); `rng` is accepted for uniformity and unused."""
        queries = checks.queries(queries, self.model.dim)
        blocks = [queries[start : start + QUERIES_PER_BLOCK] for start in range(0, len(queries), QUERIES_PER_BLOCK)]
        log_z = np.concatenate([self._log_z(block) for block in blocks])
        return Estimate(log_z, np.zeros(len(log_z)), np.full(len(log_z), self.model.n_classes, dtype=np.int64))

    def _log_z(self, queries: NDArray[np.float32]) -> NDArray[np.float64]:
        model, n_queries = self.model, len(queries)
        # Two threads at the least share the budget; the block never depends on how many there are.
        budget = min(CACHE_BYTES, self.memory // max(numba.config.NUMBA_NUM_THREADS, 2)) // 4  # type: ignore[attr-defined]
        block = int(np.clip(budget // n_queries, 64, 65_536))

        def top_and_sum(classes: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            logits = queries @ model.weights[classes].T
            if model.bias is not None:
                logits += model.bias[classes]
            top = logits.max(axis=1, keepdims=True)
            logits -= top
            np.exp(logits, out=logits)
            return top[:, 0].astype(np.float64), logits.sum(axis=1).astype(np.float64)

        tops, sums = zip(*blas.map_blocks(top_and_sum, model.n_classes, block), strict=True)
        top = np.maximum.reduce(tops)
        total = np.zeros(n_queries)
        for block_top, block_sum in zip(tops, sums, strict=True):
            total += block_sum * np.exp(block_top - top)
        return top + np.log(total)


def logit_batches(model: LogLinear, queries: NDArray[np.float32], memory: int) -> Iterator[tuple[slice, NDArray]]:
    """(which queries, their logits over every class), as many queries at a time as fit in `memory` bytes.

    All batches are written to the same place: use one before asking for the next.
    """
    batch = int(np.clip(memory // (4 * model.n_classes), 1, QUERIES_PER_BLOCK))
    room = np.empty((min(batch, len(queries)), model.n_classes), np.float32)
    for start in range(0, len(queries), batch):
        which = slice(start, min(start + batch, len(queries)))
        logits = room[: which.stop - start]

        def fill(classes: slice, which: slice = which, logits: NDArray = logits) -> None:
            np.matmul(queries[which], model.weights[classes].T, out=logits[:, classes])
            if model.bias is not None:
                logits[:, classes] += model.bias[classes]

        blas.map_blocks(fill, model.n_classes, CLASSES_PER_PRODUCT)
        yield which, logits
