"""The Gumbel methods as the paper's times suggest that they were run: one matrix-vector product for each maximum."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data import Problem
from experiments.paper.methods import BANK
from softhash.kernels import tables as kernels
from softhash.lsh import simhash
from softhash.lsh.tables import Tables

BITS, TABLES = 5, 16
CONTEXTS, DRAWS = 16, 25


class Cost(NamedTuple):
    """Of one maximum: median seconds, and mean classes scored."""

    seconds: float
    scored: float


def per_maximum(problem: Problem, seed: int = 0) -> dict[str, Cost]:
    """What one maximum costs, over all classes and over what hash tables return, by plain NumPy."""
    rng = np.random.default_rng(seed)
    model = problem.model
    bias = np.zeros((model.n_classes, 1)) if model.bias is None else model.bias[:, None]
    noise = rng.gumbel(size=(model.n_classes, BANK)).astype(np.float32)
    wide = np.column_stack([model.weights, bias, noise]).astype(np.float32)
    planes = simhash.planes(wide.shape[1], BITS, TABLES, rng)
    index = Tables.build(_codes(wide @ planes), BITS)
    columns = np.ascontiguousarray(noise.T[:DRAWS])
    everything, retrieved, found = [], [], []
    returned = np.empty(model.n_classes, bool)
    for x in problem.queries[:CONTEXTS]:
        for j in range(DRAWS):
            start = time.perf_counter()
            _maximum(model, x, columns[j], slice(None))
            middle = time.perf_counter()
            query = np.concatenate([x, [1], np.eye(1, BANK, j)[0]]).astype(np.float32)
            first, last = index.buckets(_codes(query[None] @ planes))
            returned[:] = False
            for t in range(TABLES):
                returned[index.ids[t, first[0, t] : last[0, t]]] = True
            union = np.flatnonzero(returned)
            _maximum(model, x, columns[j], union)
            everything.append(middle - start)
            retrieved.append(time.perf_counter() - middle)
            found.append(len(union))
    return {
        "Exact Gumbel": Cost(float(np.median(everything)), model.n_classes),
        "MIPS Gumbel": Cost(float(np.median(retrieved)), float(np.mean(found))),
    }


def _maximum(model, x: NDArray, column: NDArray, ids: slice | NDArray) -> float:
    logits = model.weights[ids] @ x + column[ids]
    if model.bias is not None:
        logits += model.bias[ids]
    return float(logits.max())


def _codes(projections: NDArray) -> NDArray[np.uint32]:
    codes = np.empty((TABLES, len(projections)), np.uint32)
    kernels.pack(projections, BITS, codes)
    return codes
