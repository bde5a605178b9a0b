"""What takes long and needs no clock, kept in the cache: true log Z, and the sizes that settings need."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import softhash
from experiments.data import CACHE, Problem
from softhash.demo import true_log_z

KERNELS = ("sketch", "looks", "tiles", "walk", "systematic", "encode", "_tile", "_bits", "tail_error")
SOURCES = ("sketch/*.py", *(f"kernels/{name}.py" for name in KERNELS))


def true(problem: Problem) -> NDArray[np.float64]:
    """log Z of a problem's queries in float64."""
    path = CACHE / f"true-{problem.name.replace(' ', '-')}-{checksum(problem):08x}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, true_log_z(problem.model, problem.queries))
    return np.load(path)


def checksum(problem: Problem) -> int:
    """Changes with the queries, or with any of a thousand class vectors."""
    rows = problem.model.weights[:: max(1, problem.model.n_classes // 1000)]
    return zlib.crc32(np.ascontiguousarray(rows).tobytes(), zlib.crc32(problem.queries.tobytes()))


def code() -> int:
    """Changes with any line that a draw may depend on."""
    folder, total = Path(softhash.__file__).parent, 0
    for pattern in SOURCES:
        for path in sorted(folder.glob(pattern)):
            total = zlib.crc32(path.read_bytes(), total)
    return total


class Sizes:
    """The smallest sample size that meets an error, by setting; None where none does."""

    def __init__(self, problem: Problem, target: float):
        name = f"sizes-{problem.name.replace(' ', '-')}-{target}-{checksum(problem):08x}-{code():08x}.json"
        self._path = CACHE / name
        self._held: dict[str, int | None] = json.loads(self._path.read_text()) if self._path.exists() else {}

    def of(self, setting: object, find: Callable[[], int | None]) -> int | None:
        """The size of one setting, found now if it is not known yet."""
        if str(setting) not in self._held:
            self._held[str(setting)] = find()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._held, indent=1))
        return self._held[str(setting)]
