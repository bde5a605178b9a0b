"""Error against number of samples: every method, and the largest against the second largest perturbed logit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments import record
from experiments.data import Problem
from experiments.paper import methods
from experiments.paper.methods import Method
from experiments.paper.problem import SAMPLES, trained
from softhash.demo import true_log_z

SEEDS = {"ptb": 10, "text8": 5}
QUICK_SEEDS = 2


def measure(problem: Problem, compared: Sequence[Method], samples: Sequence[int], seeds: int) -> list[record.Row]:
    """One row for each method and number of samples, over `seeds` new indexes and draws."""
    log_z = true_log_z(problem.model, problem.queries)
    rows: list[record.Row] = []
    for method in compared:
        for count in samples:
            found, scored, shape = [], [], {}
            for seed in range(seeds):
                estimator = method.build(problem, count, seed)
                estimate = estimator.log_partition(problem.queries, rng=seed)
                found.append(estimate.log_z)
                scored.append(estimate.evaluations.mean())
                shape = methods.shape_of(estimator)
            about = {"dataset": problem.name, "method": method.label, "samples": count, "bits": "", "tables": ""}
            measured = {"scored": float(np.mean(scored))} | methods.errors(np.array(found), log_z)
            rows.append(about | shape | measured)
            print(f"{problem.name}, {method.label}, {count} samples: error {rows[-1]['error']:.4f}", flush=True)
    return rows


def _run(name: str, compared: Sequence[Method], dataset: str, quick: bool, title: str) -> None:
    seeds = QUICK_SEEDS if quick else SEEDS[dataset]
    rows = measure(trained(dataset), compared, SAMPLES[dataset][: 2 if quick else None], seeds)
    record.save(f"{name}-{dataset}", rows, seeds=f"0-{seeds - 1}", quick=quick, title=f"{title}, {dataset}")


def figure_accuracy(dataset: str, quick: bool) -> None:
    """The paper's accuracy figure, with the methods it did not have."""
    _run("paper-accuracy", methods.METHODS, dataset, quick, "Error against number of samples")


def figure_gumbel(dataset: str, quick: bool) -> None:
    """The paper's figure of what a missed maximum costs."""
    compared = (methods.named("Exact Gumbel"), methods.SECOND_LARGEST)
    _run("paper-gumbel", compared, dataset, quick, "Largest and second largest")
