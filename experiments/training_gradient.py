"""Is the sampled gradient right on average? `python -m experiments.training_gradient`.

The Penn Treebank snapshot: cosine between the exact gradient of the class vectors and the mean over draws of sampled
ones, and of a single one, for each sampler at about the same number of classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper import data, lm
from softhash.torch import sampled_softmax_loss

SAMPLERS: dict[str, Callable[[Problem, int], sh.Sampler]] = {
    "Sketch, 200 classes": lambda problem, seed: sh.Sketch(problem.model, 200, problem.calibration),
    "Sketch, 50 classes": lambda problem, seed: sh.Sketch(problem.model, 50, problem.calibration),
    "Uniform, 200 classes": lambda problem, seed: sh.Uniform(problem.model, 200),
    "LSH, K=10 L=16, new planes for each draw": lambda problem, seed: sh.LSH(problem.model, 10, 16, rng=seed),
}


def measure(problem: Problem, targets: Tensor, draws: int) -> list[record.Row]:
    """One row for each sampler."""
    hidden, weight = torch.from_numpy(problem.queries), torch.from_numpy(np.array(problem.model.weights))
    bias = torch.from_numpy(np.array(problem.model.bias))
    weight.requires_grad_()

    def cosine(gradient: Tensor) -> float:
        return float(functional.cosine_similarity(gradient.flatten(), exact.flatten(), dim=0))

    (exact,) = torch.autograd.grad(functional.cross_entropy(functional.linear(hidden, weight, bias), targets), weight)
    rows: list[record.Row] = []
    for name, build in SAMPLERS.items():
        fixed = None if name.startswith("LSH") else build(problem, 0)
        total, single = torch.zeros_like(exact), []
        for seed in range(draws):
            sample = (fixed or build(problem, seed)).sample(problem.queries, rng=seed)
            loss = sampled_softmax_loss(hidden, weight, bias, targets, sample, current=True).loss
            (gradient,) = torch.autograd.grad(loss, weight)
            total += gradient
            single.append(cosine(gradient))
        mean = cosine(total)
        rows.append({"sampler": name, "draws": draws, "cosine_of_mean": mean, "cosine_of_one": float(np.mean(single))})
        print(f"{name}: {mean:.5f}", flush=True)
    return rows


def main() -> None:
    """To a table and results/training-gradient.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    text = data.load("ptb")
    made = lm.snapshot(lm.Recipe.of("ptb", text), text)
    problem = Problem("ptb", sh.LogLinear(made.weights, made.bias), made.calibration, made.contexts)
    rows = measure(problem, torch.from_numpy(made.targets).long(), draws)
    title = "Mean of sampled gradients against the exact one, Penn Treebank snapshot"
    record.save("training-gradient", rows, seeds=f"0-{draws - 1}", title=title)


if __name__ == "__main__":
    main()
