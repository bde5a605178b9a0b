"""Seconds for the 640 contexts: every method at every number of samples, and exact log Z."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import softhash as sh
from experiments import record, rivals, timing
from experiments.data import Problem
from experiments.paper import methods, plain
from experiments.paper.problem import SAMPLES, trained
from softhash.types import Estimator

PAPER = {
    "ptb": {
        "Uniform": (0.103, 0.325, 0.944, 1.874), "LSH": (0.191, 0.604, 1.743, 3.440),
        "Exact Gumbel": (79.34, 248.47, 690.39, 1646.59), "MIPS Gumbel": (45.72, 140.91, 406.11, 1064.31),
    },
    "text8": {
        "Uniform": (0.13, 0.92, 3.41, 9.69), "LSH": (0.23, 1.66, 6.14, 17.40),
        "Exact Gumbel": (531.37, 3962.25, 14686.73, 42034.58), "MIPS Gumbel": (260.75, 1946.22, 7253.44, 20668.61),
    },
}  # fmt: skip
"""Tables 2 and 3 of the paper."""
TABLE = {"ptb": "paper-table2", "text8": "paper-table3"}
PER_DRAW = ", a product for each maximum"
SIDE_BY_SIDE = ("Uniform", "LSH", "LSH, not centred")
BUDGET, OTHERS_BUDGET, ROUNDS = 8.0, 2.0, 9


def measure(problem: Problem, samples: tuple[int, ...], threads: int) -> list[record.Row]:
    """One row for each method and number of samples; uniform and LSH in turn, so that a busy moment hits both."""
    rows: list[record.Row] = []
    once = plain.per_maximum(problem)
    for place, count in enumerate(samples):
        built, builds = build_all(problem, count, first=place == 0)
        scored = {label: estimator.log_partition(problem.queries, rng=0).evaluations.mean()
                  for label, estimator in built.items()}  # fmt: skip
        seconds = timing.interleaved({label: _work(built[label], problem) for label in SIDE_BY_SIDE}, 40, BUDGET)
        for label in built.keys() - seconds.keys():
            seconds[label] = seconds_of(_work(built[label], problem))
        seconds |= {label + PER_DRAW: cost.seconds * count * len(problem.queries) for label, cost in once.items()}
        scored |= {label + PER_DRAW: cost.scored * count for label, cost in once.items()}
        for label, taken in seconds.items():
            paper = PAPER.get(problem.name, {}).get(label.removesuffix(PER_DRAW))
            rows.append(
                {"dataset": problem.name, "method": label, "samples": count, "scored": scored[label],
                 "seconds": taken, "build_seconds": builds.get(label, ""),
                 "over_uniform": taken / seconds["Uniform"], "over_lsh": taken / seconds["LSH"],
                 "paper_seconds": paper[place] if paper else "", "threads": threads}
                | methods.shape_of(built.get(label))
            )  # fmt: skip
            print(f"{problem.name}, {label}, {count} samples: {taken:.4g} s", flush=True)
    order = [method.label for method in methods.METHODS]
    rows.sort(key=lambda row: order.index(str(row["method"]).removesuffix(PER_DRAW)))
    return rows + exact(problem, threads)


def build_all(problem: Problem, count: int, first: bool) -> tuple[dict[str, Estimator], dict[str, float]]:
    """Every method, and the seconds that building it took once compiled and, for LSH, tuned."""
    built, seconds = {}, {}
    for method in methods.METHODS:
        if first or method.label.startswith("LSH"):
            method.build(problem, count, 0)
        start = time.perf_counter()
        built[method.label] = method.build(problem, count, 0)
        seconds[method.label] = time.perf_counter() - start
    return built, seconds


def seconds_of(work: Callable[[], object]) -> float:
    """Median of several runs of what is compiled already; of one, where that takes long."""
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < OTHERS_BUDGET:
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def exact(problem: Problem, threads: int) -> list[record.Row]:
    """Exact log Z in this library, and by PyTorch in both precisions."""
    work: dict[str, Callable[[], object]] = {"Exact": _work(sh.Exact(problem.model), problem)}
    for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        log_z = rivals.torch_exact(problem.model, kind)
        work[f"Exact, PyTorch {name}"] = lambda log_z=log_z: log_z(problem.queries)
    seconds: dict[str, float] = {}
    for label, task in work.items():
        task()
        seconds[label] = seconds_of(task)
    return [
        {"dataset": problem.name, "method": label, "samples": problem.model.n_classes,
         "scored": problem.model.n_classes, "seconds": taken, "threads": threads}
        for label, taken in seconds.items()
    ]  # fmt: skip


def _work(estimator: Estimator, problem: Problem) -> Callable[[], object]:
    return lambda: estimator.log_partition(problem.queries, rng=0)


def run(dataset: str, quick: bool, threads: int = 2) -> None:
    """The table of one data set."""
    timing.set_threads(threads)
    rows = measure(trained(dataset), SAMPLES[dataset][: 1 if quick else None], threads)
    record.save(TABLE[dataset], rows, seeds="0", quick=quick, title=f"Seconds for 640 contexts, {dataset}")
