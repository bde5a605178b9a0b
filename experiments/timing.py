"""Times of rivals in one process, run in turn, so that a busy moment hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

Work = Callable[[], object]


def set_threads(threads: int) -> None:
    """The same number of threads for kernels, PyTorch and FAISS."""
    import faiss
    import numba
    import torch

    numba.set_num_threads(threads)
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)


def interleaved(work: Mapping[str, Work], rounds: int = 7, budget: float = 30.0, least: int = 3) -> dict[str, float]:
    """Median seconds of each, over rounds that run all of them once; one round more to warm up.

    Args:
        budget: seconds after which no further round begins.
        least: rounds that are run whatever they take.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    begun = time.perf_counter()
    for i in range(rounds + 1):
        for name, function in work.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
        if i >= least and time.perf_counter() - begun > budget:
            break
    return {name: float(np.median(times[1:])) for name, times in seconds.items()}


def fastest(work: Mapping[str, Work], rounds: int = 3) -> str:
    """The name of the fastest."""
    seconds = interleaved(work, rounds, budget=5.0, least=1)
    return min(seconds, key=lambda name: seconds[name])
