"""A real output layer, where its file is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

DATA = Path(os.environ.get("SOFTHASH_DATA") or "../shared/data")


def smollm2_head() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights and queries of SmolLM2's output layer; skips the test where they are absent."""
    path = DATA / "smollm2_head.npz"
    if not path.exists():
        pytest.skip(f"{path} is absent; set SOFTHASH_DATA to the folder that holds smollm2_head.npz")
    with np.load(path) as arrays:
        return arrays["weights"].astype(np.float32), arrays["queries"].astype(np.float32)
