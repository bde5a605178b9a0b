"""Where a benchmark was run."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Sequence

import numba

from softhash.bench.rows import Row
from softhash.bench.run import Task

PACKAGES = ("softhash", "numpy", "numba", "faiss-cpu", "torch")


def facts(task: Task, rows: Sequence[Row], source: str) -> dict[str, str]:
    """Names and values, to be listed as they are."""
    model, log_z = task.model, task.log_z
    biases = "" if model.bias is None else ", with biases"
    dates = sorted({row.date for row in rows})
    return {
        "model": f"{source}: {model.n_classes:,} classes × {model.dim}{biases}",
        "queries": f"{len(task.queries):,} measured on, {len(task.calibration):,} others to calibrate",
        "log Z": f"{log_z.mean():.1f} ± {log_z.std():.1f} nats, from {log_z.min():.1f} to {log_z.max():.1f}",
        "machine": ", ".join(sorted({row.machine for row in rows})),
        "threads": str(numba.get_num_threads()),
        "system": f"{platform.system()} {platform.release()}, Python {sys.version.split()[0]}",
        "packages": ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name))),
        "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
