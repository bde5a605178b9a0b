"""How like an output layer is lm_like? The table in its docstring: python experiments/lm_like.py

Adds the output layer of SmolLM2-135M-Instruct where the folder SOFTHASH_DATA holds smollm2_head.npz.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import softhash as sh
from softhash import blas
from softhash.synthetic import lm_like

SIZES = ("50000x256", "49152x576", "262144x640", "1000000x128", "3200000x64")
CLASSES_PER_BLOCK = 8192


def extremes(model: sh.LogLinear, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Largest logit, its class, and smallest logit, for every query."""

    def of_block(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logits = queries @ model.weights[block].T
        return logits.max(axis=1), block.start + logits.argmax(axis=1), logits.min(axis=1)

    tops, classes, lows = map(
        np.stack, zip(*blas.map_blocks(of_block, model.n_classes, CLASSES_PER_BLOCK), strict=True)
    )
    winner = tops.argmax(axis=0), np.arange(len(queries))
    return tops[winner], classes[winner], lows.min(axis=0)


def row(name: str, model: sh.LogLinear, queries: np.ndarray) -> str:
    log_z = sh.Exact(model).log_partition(queries).log_z
    top, best, low = extremes(model, queries)
    cosine = top / (np.linalg.norm(model.weights[best], axis=1) * np.linalg.norm(queries, axis=1))
    mean = model.weights.mean(axis=0, dtype=np.float64).astype(np.float32)
    norms = np.concatenate(
        [np.linalg.norm(model.weights[i : i + 8192] - mean, axis=1) for i in range(0, model.n_classes, 8192)]
    )
    errors = []
    for estimator in (sh.Uniform(model, size=200), sh.LSH(model, bits=10, tables=16, rng=0)):
        found = estimator.log_partition(queries, rng=0).log_z
        drawn = np.isfinite(found)
        errors.append(
            f"{np.abs(found - log_z)[drawn].mean():.1f}" + (f" ({(~drawn).sum()} empty)" if not drawn.all() else "")
        )
    share, spread = np.exp(top - log_z).mean(), np.quantile(norms, 0.99) / np.median(norms)
    shape = f"{share:6.2f} {np.median(cosine):7.2f} {(top - low).mean():6.0f} {log_z.std():9.1f} {spread:6.2f}"
    return f"{name:18} {len(queries):7} {shape} {errors[0]:>8} {errors[1]:>4}"


def main() -> None:
    parser = argparse.ArgumentParser(description="How like an output layer is lm_like?")
    parser.add_argument("sizes", nargs="*", default=SIZES, help="N x d, such as 50000x256")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("N x d              queries  top-1  cosine  range  sd(logZ)  norms  uniform  LSH")
    for size in options.sizes:
        n_classes, dim = map(int, size.split("x"))
        print(row(size, *lm_like(n_classes, dim, 1024, rng=options.seed)), flush=True)
    path = Path(os.environ.get("SOFTHASH_DATA", "")) / "smollm2_head.npz"
    if path.is_file():
        with np.load(path) as data:
            model = sh.LogLinear(data["weights"].astype(np.float32))
            print(row("SmolLM2", model, data["queries"][2048:].astype(np.float32)))


if __name__ == "__main__":
    main()
