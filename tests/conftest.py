"""Property tests run the same examples every time; loops over many small draws run on one thread."""

from collections.abc import Iterator

import numba
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Kernels and BLAS on one thread: thousands of tiny parallel loops would mostly wait for a busy scheduler."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    with threadpool_limits(1):
        yield
    numba.set_num_threads(before)
