"""LSH at a fixed number of samples, by the number of tables that they come from."""

from __future__ import annotations

import numpy as np

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper import methods
from experiments.paper.problem import SAMPLES, trained
from softhash.demo import true_log_z
from softhash.types import Estimator

MOST_TABLES = (1, 4, 16, 48)
SEEDS, QUICK_SEEDS = 20, 2


def measure(problem: Problem, samples: tuple[int, ...], seeds: int) -> list[record.Row]:
    """One row for uniform sampling and one for each way of hashing and number of tables."""
    log_z = true_log_z(problem.model, problem.queries)

    def row(method: str, count: int, build, **about: object) -> record.Row:
        estimators: list[Estimator] = [build(seed) for seed in range(seeds)]
        found = np.array([each.log_partition(problem.queries, rng=seed).log_z for seed, each in enumerate(estimators)])
        print(f"{problem.name}, {method} {about or ''}, {count} samples", flush=True)
        measured = methods.errors(found, log_z) | about
        return {"dataset": problem.name, "method": method, "samples": count, "bits": "", "tables": ""} | measured

    rows = [row("Uniform", count, lambda seed, count=count: sh.Uniform(problem.model, count)) for count in samples]
    for method, center in (("LSH", True), ("LSH, not centred", False)):
        for count in samples:
            for most in MOST_TABLES:
                bits, tables = methods.longest_codes(problem, count, most, "cosine", center)
                shape = {"bits": bits, "tables": tables}
                if rows[-1].items() >= shape.items():
                    continue  # no more tables were of use
                rows.append(
                    row(method, count, lambda seed, shape=shape, count=count, center=center: sh.LSH(
                        problem.model, **shape, center=center, size=count, rng=seed), **shape)
                )  # fmt: skip
    return rows


def run(quick: bool) -> None:
    """The two smallest sample counts of Penn Treebank."""
    seeds = QUICK_SEEDS if quick else SEEDS
    rows = measure(trained("ptb"), SAMPLES["ptb"][:2], seeds)
    record.save("paper-shapes", rows, seeds=f"0-{seeds - 1}", quick=quick, title="Error by number of tables")
