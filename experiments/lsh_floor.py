"""What a floor does for LSH on a trained model: `python -m experiments.lsh_floor`.

The Penn Treebank snapshot, K = 10, L = 16: error of log Ẑ without a floor, with one drawn evenly, and with one drawn by
word frequency; beside the latter alone.
"""

from __future__ import annotations

import numpy as np

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper import data, lm
from softhash.demo import true_log_z
from softhash.types import Estimator

BITS, TABLES, FLOOR, SEEDS = 10, 16, 100, 5


def main() -> None:
    """To a table and results/lsh-floor.csv."""
    text = data.load("ptb")
    made = lm.snapshot(lm.Recipe.of("ptb", text), text)
    problem = Problem("ptb", sh.LogLinear(made.weights, made.bias), made.calibration, made.contexts)
    frequencies = np.bincount(text.train, minlength=problem.model.n_classes).astype(float)
    log_z = true_log_z(problem.model, problem.queries)

    def methods(seed: int) -> dict[str, Estimator]:
        def lsh(**settings) -> Estimator:
            return sh.LSH(problem.model, BITS, TABLES, rng=seed, **settings)

        return {
            "LSH, no floor": lsh(),
            f"LSH, floor of {FLOOR} drawn evenly": lsh(floor=FLOOR),
            f"LSH, floor of {FLOOR} by frequency": lsh(floor=FLOOR, floor_probabilities=frequencies),
            f"LSH, floor of {2 * FLOOR} by frequency": lsh(floor=2 * FLOOR, floor_probabilities=frequencies),
            f"Prior of {2 * FLOOR} by frequency": sh.Prior(problem.model, 2 * FLOOR, probabilities=frequencies),
        }

    errors: dict[str, list[float]] = {}
    scored: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        for name, method in methods(seed).items():
            estimate = method.log_partition(problem.queries, rng=seed)
            drawn = np.isfinite(estimate.log_z)
            errors.setdefault(name, []).append(float(np.abs(estimate.log_z - log_z)[drawn].mean()))
            scored.setdefault(name, []).append(float(estimate.evaluations.mean()))
    rows: list[record.Row] = [
        {"method": name, "scored": float(np.mean(scored[name])), "error": float(np.mean(found)),
         "error_sd": float(np.std(found, ddof=1))}
        for name, found in errors.items()
    ]  # fmt: skip
    title = "LSH with and without a floor, Penn Treebank snapshot, mean |error of log Z|"
    record.save("lsh-floor", rows, seeds=f"0-{SEEDS - 1}", title=title)


if __name__ == "__main__":
    main()
