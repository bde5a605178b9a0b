"""Time per query of an estimator, in batches of the size that will be used."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from softhash.types import Estimator

QUERIES_PER_RUN = 256
MOST_CALLS = 24
WARM_QUERIES = 8


def batches(queries: NDArray[np.float32], batch: int) -> list[NDArray[np.float32]]:
    """Queries, repeated where there are too few, as up to 24 batches of one size."""
    calls = int(np.clip(QUERIES_PER_RUN // batch, 1, MOST_CALLS))
    which = np.resize(np.arange(len(queries)), (calls, batch))
    return [np.ascontiguousarray(queries[ids]) for ids in which]


def warm(estimator: Estimator, queries: NDArray[np.float32]) -> None:
    """One small call, so that compiling is not timed."""
    estimator.log_partition(queries[:WARM_QUERIES], rng=0)


def milliseconds(estimator: Estimator, work: Sequence[NDArray[np.float32]]) -> float:
    """Milliseconds per query over these batches, once."""
    start = time.perf_counter()
    for queries in work:
        estimator.log_partition(queries, rng=1)
    return 1000 * (time.perf_counter() - start) / sum(map(len, work))


def in_turn(
    estimators: Mapping[str, Estimator], work: Sequence[NDArray[np.float32]], rounds: int, deadline: float = np.inf
) -> dict[str, list[float]]:
    """Milliseconds per query of each, once per round, so that a busy moment hits all of them; one round to warm up.

    Args:
        deadline: time.perf_counter() after which no further round begins; two are run at least.
    """
    taken: dict[str, list[float]] = {name: [] for name in estimators}
    for number in range(rounds + 1):
        if number >= 2 and time.perf_counter() > deadline:
            break
        for name, estimator in estimators.items():
            taken[name].append(milliseconds(estimator, work))
    return {name: times[1:] for name, times in taken.items()}
