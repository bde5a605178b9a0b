"""Time per query at a fixed error, in batches and one at a time, against exact log Z at its best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

import softhash as sh
from experiments import record, rivals, timing
from experiments.data import Problem, smollm2
from experiments.sketch import kept, search
from experiments.sketch.measures import error
from softhash.checks import Seed
from softhash.synthetic import lm_like
from softhash.types import Estimate, Estimator

BATCH = 1024
CALIBRATION = 2048
MODES = {"batch": search.batch, "one": search.one_by_one}


class Task(NamedTuple):
    """A problem, the error to meet, and the settings to try."""

    load: Callable[[], Problem]
    target: float
    clusters: Sequence[int]
    shares: Sequence[float]
    refines: Sequence[float]


def synthetic(n_classes: int, dim: int, n_queries: int = BATCH) -> Problem:
    """lm_like, seed 0."""
    model, queries = lm_like(n_classes, dim, CALIBRATION + n_queries)
    return Problem(f"lm_like {n_classes}x{dim}", model, queries[:CALIBRATION], queries[CALIBRATION:])


TILE_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
TASKS = {
    "smollm2": Task(smollm2, 0.05, (0, 1), (1 / 4, 1.0), (0.03, 0.04, 0.05, 0.07, 0.1)),
    "262144x640": Task(lambda: synthetic(262_144, 640), 0.06, (1, 4096), TILE_SHARES, (0.03, 0.1, 0.3)),
    "1000000x128": Task(lambda: synthetic(1_000_000, 128), 0.06, (1, 15_625), TILE_SHARES, (0.03, 0.1, 0.3)),
    "quick": Task(lambda: synthetic(20_000, 64, 256), 0.05, (0, 1, 256), (1 / 4, 1.0), (0.05, 0.2)),
}


class TorchExact:
    """PyTorch's exact log Z as an Estimator."""

    def __init__(self, model: sh.LogLinear, dtype: torch.dtype):
        self.model = model
        self._log_z = rivals.torch_exact(model, dtype)

    def log_partition(self, queries: ArrayLike, *, rng: Seed = None) -> Estimate:
        """log Z for float32 queries of shape (Q, d)."""
        log_z = self._log_z(np.asarray(queries))
        return Estimate(log_z, np.zeros(len(log_z)), np.full(len(log_z), self.model.n_classes))


def measure(task: Task, prepare: bool) -> list[record.Row]:
    """One row per mode and method, the three exact ones first; none where only preparing."""
    problem = task.load()
    problem = problem._replace(queries=np.ascontiguousarray(problem.queries[:BATCH]))
    log_z = kept.true(problem)
    print(f"{problem.name}: choosing settings", flush=True)
    settings = search.grid(problem.model.n_classes, task.clusters, task.shares, task.refines)
    found = search.candidates(problem, log_z, settings, task.target)
    if prepare:
        return []
    exact = {
        "torch float32": TorchExact(problem.model, torch.float32),
        "torch bfloat16": TorchExact(problem.model, torch.bfloat16),
        "softhash Exact": sh.Exact(problem.model),
    }
    rows: list[record.Row] = []
    for mode, run in MODES.items():
        choice = search.cheapest(found, run, problem, log_z, task.target)
        rows += compare(problem, log_z, mode, exact, choice)
    return rows


def compare(
    problem: Problem, log_z: NDArray, mode: str, exact: dict[str, Estimator], choice: search.Choice | None
) -> list[record.Row]:
    """Times in turn, errors, and how many times as fast as float32 and bfloat16."""
    methods: dict[str, Estimator] = dict(exact)
    if choice is not None:
        methods["Sketch"] = choice.sketch
    run = MODES[mode]
    count = len(problem.queries) if mode == "batch" else min(search.LATENCY_QUERIES, len(problem.queries))
    work = {name: lambda method=method: run(method, problem.queries) for name, method in methods.items()}
    seconds = timing.interleaved(work)
    rows: list[record.Row] = []
    for name, method in methods.items():
        rows.append(
            {
                "model": problem.name, "classes": problem.model.n_classes, "dim": problem.model.dim,
                "mode": mode, "queries": count, "method": name,
                "ms_per_query": 1000 * seconds[name] / count,
                "error": (search.fresh_error if name == "Sketch" else error)(method, problem.queries, log_z),
                "times_float32": seconds["torch float32"] / seconds[name],
                "times_bfloat16": seconds["torch bfloat16"] / seconds[name],
            }
            | (search.described(choice) if name == "Sketch" and choice is not None else {})
        )  # fmt: skip
    return rows


def run(models: Sequence[str], quick: bool, prepare: bool) -> None:
    """Measure the models named (all by default), each to its own file."""
    for name in ["quick"] if quick else models or [name for name in TASKS if name != "quick"]:
        if name not in TASKS:
            raise SystemExit(f"--model is {name!r}; pass one of {', '.join(TASKS)}")
        try:
            rows = measure(TASKS[name], prepare)
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
            continue
        if not prepare:
            title = f"Sketch: time per query, {name}"
            record.save(f"sketch-speed-{name}", rows, seeds="model 0; index 0; draws 0-103", quick=quick, title=title)
