"""The model that is timed, and every kernel compiled before it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import softhash as sh
from softhash.synthetic import lm_like


class Problem(NamedTuple):
    """A model, queries to calibrate on, and queries to time."""

    model: sh.LogLinear
    calibration: NDArray[np.float32]
    queries: NDArray[np.float32]


@pytest.fixture(scope="session")
def problem() -> Problem:
    """50 000 classes × 256."""
    model, queries = lm_like(n_classes=50_000, dim=256, n_queries=1280)
    return Problem(model, queries[:1024], queries[1024:])
