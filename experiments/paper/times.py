"""Seconds for the 640 contexts: every method at every number of samples, and exact log Z."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import softhash as sh
from experiments import record, rivals, timing
from experiments.data import Problem
from experiments.paper import methods, plain
from experiments.paper.problem import SAMPLES, trained

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
BUDGET = 12.0


def measure(problem: Problem, samples: tuple[int, ...], threads: int) -> list[record.Row]:
    """One row for each method and number of samples: medians of runs in turn, uniform and LSH side by side."""
    rows: list[record.Row] = []
    once = plain.seconds_per_maximum(problem)
    for place, count in enumerate(samples):
        built, builds = {}, {}
        for method in methods.METHODS:
            method.build(problem, count, 0)  # tunes, and compiles
            start = time.perf_counter()
            built[method.label] = method.build(problem, count, 0)
            builds[method.label] = time.perf_counter() - start
        seconds = timing.interleaved({label: _work(built[label], problem) for label in ("Uniform", "LSH")}, 40, BUDGET)
        for label in built.keys() - seconds.keys():
            seconds |= timing.interleaved({label: _work(built[label], problem)}, 9, BUDGET)
        seconds |= {label + PER_DRAW: once[label] * count * len(problem.queries) for label in once}
        for label, taken in seconds.items():
            scored = built[label].log_partition(problem.queries, rng=0).evaluations.mean() if label in built else ""
            paper = PAPER.get(problem.name, {}).get(label.removesuffix(PER_DRAW))
            rows.append(
                {"dataset": problem.name, "method": label, "samples": count, "scored": scored, "seconds": taken,
                 "build_seconds": builds.get(label, ""), "over_uniform": taken / seconds["Uniform"],
                 "over_lsh": taken / seconds["LSH"], "paper_seconds": paper[place] if paper else "",
                 "threads": threads}
            )  # fmt: skip
            print(f"{problem.name}, {label}, {count} samples: {taken:.4g} s", flush=True)
    order = [method.label for method in methods.METHODS]
    rows.sort(key=lambda row: order.index(str(row["method"]).removesuffix(PER_DRAW)))
    return rows + exact(problem, threads)


def exact(problem: Problem, threads: int) -> list[record.Row]:
    """Exact log Z in this library, and by PyTorch in both precisions."""
    work: dict[str, Callable[[], object]] = {"Exact": _work(sh.Exact(problem.model), problem)}
    for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        log_z = rivals.torch_exact(problem.model, kind)
        work[f"Exact, PyTorch {name}"] = lambda log_z=log_z: log_z(problem.queries)
    seconds: dict[str, float] = {}
    for label, task in work.items():
        seconds |= timing.interleaved({label: task}, 15, BUDGET)
    return [
        {"dataset": problem.name, "method": label, "samples": problem.model.n_classes,
         "scored": problem.model.n_classes, "seconds": taken, "threads": threads}
        for label, taken in seconds.items()
    ]  # fmt: skip


def _work(estimator: sh.Estimator, problem: Problem) -> Callable[[], object]:
    return lambda: estimator.log_partition(problem.queries, rng=0)


def run(dataset: str, quick: bool, threads: int = 2) -> None:
    """The table of one data set."""
    timing.set_threads(threads)
    rows = measure(trained(dataset), SAMPLES[dataset][: 1 if quick else None], threads)
    record.save(TABLE[dataset], rows, seeds="0", quick=quick, title=f"Seconds for 640 contexts, {dataset}")
