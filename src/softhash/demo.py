"""Every method on one synthetic model: what it costs, how far off it is, and how far off it says it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash
from softhash import blas, checks
from softhash.model import LogLinear
from softhash.synthetic import lm_like
from softhash.types import Estimator

CALIBRATION_QUERIES = 1024
RUNS = 5
ENOUGH_SECONDS = 2.0
CLASSES_PER_BLOCK = 8192


class Method(NamedTuple):
    """One row of the demo: a label, the public class, and how to build it from (class, model, calibration queries)."""

    label: str
    kind: str
    build: Callable[[Any, LogLinear, NDArray[np.float32]], Estimator]


METHODS = (
    Method("exact", "Exact", lambda kind, model, queries: kind(model)),
    Method("uniform 200", "Uniform", lambda kind, model, queries: kind(model, size=200)),
    Method("uniform 2000", "Uniform", lambda kind, model, queries: kind(model, size=2000)),
    Method("prior 200", "Prior", lambda kind, model, queries: kind(model, size=200, queries=queries)),
    Method("prior 2000", "Prior", lambda kind, model, queries: kind(model, size=2000, queries=queries)),
    Method("LSH K=10 L=16", "LSH", lambda kind, model, queries: kind(model, bits=10, tables=16)),
    Method("LSH tuned 200", "LSH", lambda kind, model, queries: kind.tuned(model, 200, queries)),
    Method("LSH tuned 2000", "LSH", lambda kind, model, queries: kind.tuned(model, 2000, queries)),
    Method("top-k 100+100 HNSW", "TopK", lambda kind, model, queries: kind(model, 100, 100)),
    Method("exact Gumbel 50", "ExactGumbel", lambda kind, model, queries: kind(model)),
    Method("MIPS Gumbel 50", "MipsGumbel", lambda kind, model, queries: kind(model)),
    Method("priority 200", "PriorityGumbel", lambda kind, model, queries: kind(model, size=200)),
    Method("sketch 50", "Sketch", lambda kind, model, queries: kind(model, size=50, queries=queries)),
    Method("sketch 200", "Sketch", lambda kind, model, queries: kind(model, size=200, queries=queries)),
)


class Row(NamedTuple):
    """What one method did.

    Attributes:
        label: the method.
        scored: classes scored per query, mean.
        share: the same as a fraction of N.
        error: mean |log Ẑ − log Z| in nats, over queries for which something was drawn.
        claimed: median standard error the method claimed; nan where it claims none.
        milliseconds: per query, in a batch: the median of several runs.
        speedup: exact's time over this one's.
        empty: queries for which nothing was drawn.
    """

    label: str
    scored: float
    share: float
    error: float
    claimed: float
    milliseconds: float
    speedup: float
    empty: int


class Problem(NamedTuple):
    """A model, queries to calibrate on, queries to measure on, and the truth about those."""

    model: LogLinear
    calibration: NDArray[np.float32]
    queries: NDArray[np.float32]
    log_z: NDArray[np.float64]


def methods() -> list[Method]:
    """The rows whose class this version has."""
    return [method for method in METHODS if hasattr(softhash, method.kind)]


def problem(n_classes: int = 50_000, dim: int = 256, n_queries: int = 1024, seed: int = 0) -> Problem:
    """The synthetic model, and log Z in float64."""
    n_queries = checks.positive_int("queries", n_queries)
    model, queries = lm_like(n_classes, dim, CALIBRATION_QUERIES + n_queries, rng=seed)
    calibration, queries = queries[:CALIBRATION_QUERIES], queries[CALIBRATION_QUERIES:]
    return Problem(model, calibration, queries, true_log_z(model, queries))


def true_log_z(model: LogLinear, queries: NDArray) -> NDArray[np.float64]:
    """log Z in float64, so that the error of the float32 reference shows too."""
    queries = queries.astype(np.float64)

    def block_log_z(block: slice) -> NDArray[np.float64]:
        logits = queries @ model.weights[block].T.astype(np.float64)
        if model.bias is not None:
            logits += model.bias[block]
        top = logits.max(axis=1, keepdims=True)
        logits -= top
        return top[:, 0] + np.log(np.exp(logits, out=logits).sum(axis=1))

    return np.logaddexp.reduce(blas.map_blocks(block_log_z, model.n_classes, CLASSES_PER_BLOCK))


def run(task: Problem, seed: int = 0) -> Iterator[Row]:
    """Measure each of `methods()`; exact comes first, and the rest are compared with it."""
    exact_ms = None
    for method in methods():
        estimator = method.build(getattr(softhash, method.kind), task.model, task.calibration)
        estimate = estimator.log_partition(task.queries, rng=seed)
        milliseconds = _median_seconds(estimator, task.queries, seed) * 1000 / len(task.queries)
        exact_ms = exact_ms or milliseconds
        drawn = np.isfinite(estimate.log_z)
        scored = float(estimate.evaluations.mean())
        yield Row(
            label=method.label,
            scored=scored,
            share=scored / task.model.n_classes,
            error=float(np.abs(estimate.log_z - task.log_z)[drawn].mean()) if drawn.any() else np.nan,
            claimed=float(np.median(estimate.std_error[drawn])) if drawn.any() else np.nan,
            milliseconds=milliseconds,
            speedup=exact_ms / milliseconds,
            empty=int((~drawn).sum()),
        )


def _median_seconds(estimator: Estimator, queries: NDArray, seed: int) -> float:
    """Median over warm runs; slow methods get fewer."""
    seconds: list[float] = []
    while len(seconds) < RUNS and sum(seconds) < ENOUGH_SECONDS:
        start = time.perf_counter()
        estimator.log_partition(queries, rng=seed + 1 + len(seconds))
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
