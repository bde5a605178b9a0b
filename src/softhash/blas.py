"""Matrix products beside compiled kernels.

BLAS threads and kernel threads fight over the cores (a small product can wait a scheduler's quantum for its own
helper), and BLAS results depend on its thread count. So products run on one BLAS thread, and large ones are cut into
row blocks of a fixed size that a pool of threads works through: the same bits at any thread count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

import numba
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
_CONTROLLER = ThreadpoolController()


def serial_blas() -> AbstractContextManager:
    """Inside, NumPy's matrix products use one thread."""
    return _CONTROLLER.limit(limits=1, user_api="blas")


def map_blocks(function: Callable[[slice], T], n: int, block: int) -> list[T]:
    """[function(slice) for each block of range(n)], in order, on as many threads as kernels use."""
    slices: Iterable[slice] = (slice(start, min(start + block, n)) for start in range(0, n, block))
    with serial_blas():
        if n <= block or numba.get_num_threads() == 1:
            return [function(s) for s in slices]
        with ThreadPoolExecutor(numba.get_num_threads()) as pool:
            return list(pool.map(function, slices))
