"""The cheapest settings of Sketch that meet an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import timing
from experiments.data import Problem
from experiments.sketch import kept
from experiments.sketch.measures import error, variant
from softhash.sketch.codes import TILE
from softhash.types import Estimator

SIZES = tuple(round(2 ** (step / 4)) for step in range(16, 45))
QUERIES_TO_CHOOSE = 512
LATENCY_QUERIES = 32
TIMED = 6
MARGIN = 0.92
"""Share of the target that the draws which choose a setting must meet, so that others meet the target."""
Run = Callable[[Estimator, NDArray], object]


class Setting(NamedTuple):
    """What a search varies; see softhash.Sketch."""

    clusters: int
    probes: int
    refine: float


class Choice(NamedTuple):
    """A setting, the sample size it needs, and the sketch itself."""

    setting: Setting
    size: int
    sketch: sh.Sketch


def batch(estimator: Estimator, queries: NDArray) -> object:
    """All queries at once."""
    return estimator.log_partition(queries, rng=0)


def one_by_one(estimator: Estimator, queries: NDArray) -> object:
    """The first 32 queries, each alone."""
    return [estimator.log_partition(queries[i : i + 1], rng=i) for i in range(min(LATENCY_QUERIES, len(queries)))]


def grid(n_classes: int, clusters: Sequence[int], shares: Sequence[float], refines: Sequence[float]) -> list[Setting]:
    """Every combination that means something: clusters 0 reads all codes; 1 opens a share of the tiles."""
    settings = []
    for count in clusters:
        groups = count if count > 1 else -(-n_classes // TILE)
        probes = sorted({max(1, int(share * groups)) for share in shares}) if count else [groups]
        settings += [Setting(count, n, refine) for refine in (refines if count else (1.0,)) for n in probes]
    return settings


def candidates(problem: Problem, log_z: NDArray, settings: Sequence[Setting], target: float) -> list[Choice]:
    """For each setting, the smallest sample size that meets the error over the first 512 queries, where one does."""
    queries, truth = problem.queries[:QUERIES_TO_CHOOSE], log_z[:QUERIES_TO_CHOOSE]
    sizes = kept.Sizes(problem, target)
    found, indexes = [], {}

    def index(clusters: int, probes: int) -> sh.Sketch:
        key = clusters, probes * TILE < problem.model.n_classes
        if key not in indexes:
            print(f"  building {clusters} clusters over {problem.model.n_classes:,} classes", flush=True)
            indexes[key] = sh.Sketch(problem.model, queries=problem.calibration, clusters=clusters, probes=probes)
        return indexes[key]

    def sketch(setting: Setting, size: int) -> sh.Sketch:
        held = index(setting.clusters, setting.probes)
        return variant(held, probes=setting.probes, refine=setting.refine, size=size)

    def needed(setting: Setting) -> int | None:
        return smallest(lambda size: error(sketch(setting, size), queries, truth) <= target)

    for setting in settings:
        size = sizes.of(setting, partial(needed, setting))
        if size is not None:
            found.append(Choice(setting, size, sketch(setting, size)))
    return found


def smallest(meets: Callable[[int], bool]) -> int | None:
    """The first of SIZES that meets a condition which, once met, stays met."""
    low, high = 0, len(SIZES)
    while low < high:
        middle = (low + high) // 2
        if meets(SIZES[middle]):
            high = middle
        else:
            low = middle + 1
    return SIZES[low] if low < len(SIZES) else None


def cheapest(found: Sequence[Choice], run: Run, problem: Problem, log_z: NDArray, target: float) -> Choice | None:
    """The fastest choice whose error over all queries meets the target, its size changed where it may or must be.

    All choices are timed once, the best six three times; the others are tried only where none of the six will do.
    """
    work = {str(i): lambda choice=choice: run(choice.sketch, problem.queries) for i, choice in enumerate(found)}
    if not work:
        return None
    seconds = timing.interleaved(work, rounds=1)
    best = sorted(seconds, key=lambda name: seconds[name])[:TIMED]
    again = timing.interleaved({name: work[name] for name in best}, rounds=3)
    others = sorted(seconds.keys() - again, key=lambda name: seconds[name])
    for name in (*sorted(again, key=lambda name: again[name]), *others):
        choice = found[int(name)]
        for size in (size for size in SIZES if 0.8 * choice.size < size <= 1.5 * choice.size):
            sketch = variant(choice.sketch, size=size)
            if error(sketch, problem.queries, log_z, draws=2) <= MARGIN * target:
                return choice._replace(size=size, sketch=sketch)
    return None


def described(choice: Choice) -> dict[str, object]:
    """Columns of a table."""
    return {**choice.setting._asdict(), "size": choice.size}


def fresh_error(estimator: Estimator, queries: NDArray, log_z: NDArray) -> float:
    """Over three draws that chose nothing."""
    return float(np.mean([error(estimator, queries, log_z, seed=seed) for seed in (101, 102, 103)]))
