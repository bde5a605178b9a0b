"""Where data sets are: the user's path, the folder in SOFTHASH_DATA, or ../shared/data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash as sh

CACHE = Path(os.environ.get("SOFTHASH_CACHE") or Path(__file__).parent / "cache")
CALIBRATION_CONTEXTS = 2048


class Problem(NamedTuple):
    """A model, queries to calibrate on, and other queries to measure on."""

    name: str
    model: sh.LogLinear
    calibration: NDArray[np.float32]
    queries: NDArray[np.float32]


def folder() -> Path:
    """The folder that holds data sets."""
    return Path(os.environ.get("SOFTHASH_DATA") or "../shared/data")


def find(path: Path | None, name: str) -> Path:
    """`path` where given, else the file `name` in the folder of data sets."""
    found = folder() / name if path is None else path
    if not found.exists():
        raise FileNotFoundError(
            f"{found} is not there; pass its path, or name the folder that holds it in SOFTHASH_DATA"
        )
    return found


def smollm2(path: Path | None = None) -> Problem:
    """The output layer of SmolLM2-135M-Instruct, 49 152 × 576: 2048 contexts to calibrate on, 2048 to measure on."""
    with np.load(find(path, "smollm2_head.npz")) as arrays:
        weights, queries = (arrays[name].astype(np.float32) for name in ("weights", "queries"))
    return Problem("SmolLM2", sh.LogLinear(weights), queries[:CALIBRATION_CONTEXTS], queries[CALIBRATION_CONTEXTS:])
