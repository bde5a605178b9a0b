"""Measuring every method over a grid of budgets."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash
from softhash import clock, families
from softhash.bench import rows
from softhash.bench.rows import Row
from softhash.demo import true_log_z
from softhash.families import Family, Setting
from softhash.model import LogLinear
from softhash.types import Estimate, Estimator

SIZES, QUICK_SIZES = (25, 50, 100, 200, 800), (50, 200)
MOST_CALIBRATION, MOST_QUERIES, QUICK_QUERIES = 2048, 1024, 256
LEAST_QUERIES = 32
MOST_DRAWS, LEAST_DRAWS = 5, 2
SECONDS_OF_DRAWS = 2.0
RUNS_ONE_BY_ONE = 3
SIGMAS_95 = 1.96


class Task(NamedTuple):
    """A model, queries to calibrate on, queries to measure on, the truth about those, and a name for all of it."""

    model: LogLinear
    calibration: NDArray[np.float32]
    queries: NDArray[np.float32]
    log_z: NDArray[np.float64]
    fingerprint: str


class Point(NamedTuple):
    """One place of the grid."""

    family: Family
    setting: Setting
    size: int


def task(model: LogLinear, queries: NDArray[np.float32], quick: bool) -> Task:
    """The second half of the queries is measured on, the first calibrated on."""
    if len(queries) < LEAST_QUERIES:
        raise ValueError(f"--queries has {len(queries)} rows; pass at least {LEAST_QUERIES}: half of them calibrate")
    half = len(queries) // 2
    measured = np.ascontiguousarray(queries[half:][: QUICK_QUERIES if quick else MOST_QUERIES])
    digest = hashlib.sha256(repr((model.weights.shape, model.bias is not None, queries.shape, quick)).encode())
    for array in (model.weights[:: max(1, model.n_classes // 64)], measured):
        digest.update(np.ascontiguousarray(array).tobytes())
    return Task(
        model, queries[:half][:MOST_CALIBRATION], measured, true_log_z(model, measured), digest.hexdigest()[:12]
    )


def grid(model: LogLinear, chosen: Sequence[Family], quick: bool) -> list[Point]:
    """Every setting and size of every family; of a quick run, one setting of each and two sizes."""
    points = []
    for family in chosen:
        settings = list(family.settings(model))
        if quick:
            settings = settings[len(settings) // 2 :][:1]
        sizes = [size for size in (QUICK_SIZES if quick else SIZES) if size < model.n_classes] if family.sized else [0]
        points += [Point(family, setting, size) for setting in settings for size in sizes]
    return points


def measure(at: Task, points: Sequence[Point], path: Path, progress: Callable[[str], None]) -> list[Row]:
    """All rows of the grid: those that `path` has, and the others, each added to it when finished."""
    wanted = {_key(at, point): point for point in points}
    done = {row.key: row for row in rows.begin(path) if row.key in wanted}
    missing = [point for key, point in wanted.items() if key not in done]
    for number, (point, estimator, seconds) in enumerate(_built(at, missing)):
        label = families.described(point.size or None, point.setting)
        progress(f"{number + 1} of {len(missing)}: {point.family.name} {label}")
        row = _row(at, point, estimator, seconds)
        rows.append(path, row)
        done[row.key] = row
    return [done[key] for key in wanted]


def _key(at: Task, point: Point) -> tuple[str, str, str]:
    return at.fingerprint, point.family.name, families.described(point.size or None, point.setting)


def _built(at: Task, points: Sequence[Point]) -> Iterator[tuple[Point, Estimator, float]]:
    """Each point with its estimator and the seconds to build it; an index is built once for all points of a family."""
    family, index, seconds = None, None, 0.0
    for point in points:
        if point.family is not family:
            family, index = point.family, None  # the old index goes before the new one comes
            start = time.perf_counter()
            index = family.build(at.model, at.calibration)
            seconds = time.perf_counter() - start
        start = time.perf_counter()
        estimator = point.family.make(index, point.size, point.setting)
        yield point, estimator, seconds + time.perf_counter() - start


def _row(at: Task, point: Point, estimator: Estimator, seconds: float) -> Row:
    clock.warm(estimator, at.queries)
    alone = clock.batches(at.queries, 1)
    one = [clock.milliseconds(estimator, alone) for _ in range(RUNS_ONE_BY_ONE)]
    estimates, batch = _draws(estimator, at.queries)
    return Row(
        model=at.fingerprint, method=point.family.name, kind=point.family.kind,
        settings=families.described(point.size or None, point.setting), size=point.size,
        **accuracy(estimates, at.log_z),
        one_ms=float(np.median(one)), one_spread=_spread(one),
        batch_ms=float(np.median(batch)), batch_spread=_spread(batch),
        index_bytes=families.index_bytes(estimator), build_seconds=seconds,
        queries=len(at.queries), draws=len(estimates), date=datetime.date.today().isoformat(),
        version=softhash.__version__, machine=machine(),
    )  # fmt: skip


def _draws(estimator: Estimator, queries: NDArray[np.float32]) -> tuple[list[Estimate], list[float]]:
    """Estimates of all queries over fresh draws, at least two, and milliseconds per query of each."""
    estimates, taken = [], []
    while len(taken) < LEAST_DRAWS or (len(taken) < MOST_DRAWS and sum(taken) * len(queries) < 1000 * SECONDS_OF_DRAWS):
        start = time.perf_counter()
        estimates.append(estimator.log_partition(queries, rng=len(taken)))
        taken.append(1000 * (time.perf_counter() - start) / len(queries))
    return estimates, taken


def accuracy(estimates: Sequence[Estimate], log_z: NDArray[np.float64]) -> dict[str, Any]:
    """How far off estimates are and say they are, over the queries for which something was drawn."""
    away = np.array([estimate.log_z for estimate in estimates]) - log_z
    claimed = np.array([estimate.std_error for estimate in estimates])
    ratio = np.exp(away)
    claims = np.isfinite(claimed) & np.isfinite(away)
    # Rounding in float32 is no sampling error, and an exact method claims none.
    inside = np.abs(away[claims]) <= SIGMAS_95 * claimed[claims] + 1e-4
    drawn = away[np.isfinite(away)]
    return {
        "error": float(np.abs(drawn).mean()) if len(drawn) else np.nan,
        "p95": float(np.percentile(np.abs(drawn), 95)) if len(drawn) else np.nan,
        "bias": float(ratio.mean() - 1),
        "bias_se": float(ratio.std(ddof=1) / np.sqrt(ratio.size)),
        "coverage": float(inside.mean()) if claims.any() else np.nan,
        "claimed": float(np.median(claimed[claims])) if claims.any() else np.nan,
        "scored": float(np.mean([estimate.evaluations.mean() for estimate in estimates])),
    }


def _spread(times: Sequence[float]) -> float:
    return float((max(times) - min(times)) / np.median(times))


def machine() -> str:
    """Cores and processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores of {name}"
