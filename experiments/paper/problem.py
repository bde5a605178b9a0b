"""The output layers that the experiments measure on, trained first where they have not been yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import softhash as sh
from experiments.data import Problem, smollm2
from experiments.paper import data, lm
from softhash.synthetic import lm_like

DATASETS = ("ptb", "text8")
SAMPLES = {"ptb": (50, 150, 400, 1000), "text8": (50, 400, 1500, 5000)}
"""The paper's sample counts."""


def trained(dataset: str, path: Path | None = None) -> Problem:
    """The snapshot of the paper's LSTM after one epoch: its 640 contexts, and those before them to calibrate on."""
    text = data.load(dataset, path, data.SNAPSHOT_CHARACTERS.get(dataset))
    made = lm.snapshot(lm.Recipe.of(dataset, text), text, lambda line: print(line, flush=True))
    return Problem(dataset, sh.LogLinear(made.weights, made.bias), made.calibration, made.contexts)


def synthetic(n_classes: int = 50_000, dim: int = 256, contexts: int = 640) -> Problem:
    """lm_like, seed 0."""
    model, queries = lm_like(n_classes, dim, 2048 + contexts)
    return Problem(f"lm_like {n_classes}x{dim}", model, queries[:2048], queries[2048:])


def real() -> Problem:
    """The output layer of SmolLM2-135M-Instruct and 640 of its contexts."""
    problem = smollm2()
    return problem._replace(queries=problem.queries[:640])


THREE: tuple[Callable[[], Problem], ...] = (lambda: trained("ptb"), synthetic, real)
"""A trained recurrent model, a synthetic one, and a transformer."""
