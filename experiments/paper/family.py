"""What the Gumbel methods promise whatever the model: on a recurrent, a synthetic and a transformer's output layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper.problem import THREE
from softhash.demo import true_log_z
from softhash.types import Estimator

DRAWS = (50, 200, 1000)
TABLES = (4, 16, 64, 256)
SIZES = (50, 200, 800)
SEEDS, QUICK_SEEDS = 10, 2
BANK = 4000
MEAN_ABSOLUTE_NORMAL = np.sqrt(2 / np.pi)


def settings(model: sh.LogLinear) -> Iterator[tuple[str, int, Callable[[int], Estimator]]]:
    """(method, setting, how to build it from a seed)."""
    for draws in DRAWS:
        yield "Exact Gumbel, draws", draws, lambda seed, draws=draws: sh.ExactGumbel(model, draws, BANK, rng=seed)
    for draws in DRAWS:
        yield (
            "Second largest, draws", draws,
            lambda seed, draws=draws: sh.ExactGumbel(model, draws, BANK, rank=2, rng=seed),
        )  # fmt: skip
    for tables in TABLES:
        yield "MIPS Gumbel of 50 draws, tables", tables, lambda seed, L=tables: sh.MipsGumbel(model, 50, 5, L, seed)
    for size in SIZES:
        yield "PriorityGumbel, size", size, lambda seed, size=size: sh.PriorityGumbel(model, size, rng=seed)


def measure(problem: Problem, seeds: int) -> list[record.Row]:
    """One row for each setting; of_expected: the error as a multiple of 0.8/√setting."""
    log_z = true_log_z(problem.model, problem.queries)
    rows: list[record.Row] = []
    for method, setting, build in settings(problem.model):
        away: NDArray = np.array(
            [build(seed).log_partition(problem.queries, rng=seed).log_z - log_z for seed in range(seeds)]
        )
        error = float(np.abs(away).mean())
        row = {"model": problem.name, "method": method, "setting": setting, "error": error,
               "error_sd": float(np.abs(away).mean(axis=1).std(ddof=1)), "mean": float(away.mean())}  # fmt: skip
        rooted = method.endswith(("draws", "size"))
        rows.append(row | {"of_expected": error * np.sqrt(setting) / MEAN_ABSOLUTE_NORMAL if rooted else ""})
        print(f"{problem.name}, {method} {setting}: error {error:.4f}", flush=True)
    return rows


def run(quick: bool) -> None:
    """The models whose data are there."""
    seeds = QUICK_SEEDS if quick else SEEDS
    rows: list[record.Row] = []
    for load in THREE:
        try:
            rows += measure(load(), seeds)
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
    record.save("paper-gumbel-family", rows, seeds=f"0-{seeds - 1}", quick=quick, title="The Gumbel methods")
