"""The paper's sampler against exact log Z and uniform sampling: `python -m experiments.lsh_speed`.

Gaussian classes and queries, 640 queries, the whole estimate with hashing. The exact rival is the plain
`torch.logsumexp(X @ W.T, 1)`, and beside it the best blocked version.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import softhash as sh
from experiments import record, rivals, timing

SHAPES = ((44_000, 512, 12), (44_000, 512, 10), (262_144, 640, 14), (1_000_000, 128, 16))
TABLES = 16
QUERIES = 640


def measure(n_classes: int, dim: int, bits: int, rounds: int) -> record.Row:
    """Times in turn at one shape."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((n_classes, dim), dtype=np.float32)
    queries = rng.standard_normal((QUERIES, dim), dtype=np.float32) / np.float32(np.sqrt(dim))
    model = sh.LogLinear(weights)
    lsh = sh.LSH(model, bits, TABLES, rng=0)
    scored = float(lsh.log_partition(queries).evaluations.mean())
    uniform = sh.Uniform(model, round(scored))
    tensor, batch = torch.from_numpy(weights), torch.from_numpy(queries)
    blocked = rivals.torch_exact(model, torch.float32)
    seconds = timing.interleaved({"lsh": lambda: lsh.log_partition(queries)}, rounds)
    seconds |= timing.interleaved({"uniform": lambda: uniform.log_partition(queries, rng=0)}, rounds)
    seconds |= timing.interleaved({"refresh": lsh.refresh}, 3)
    seconds |= timing.interleaved({"torch": lambda: torch.logsumexp(batch @ tensor.T, 1)}, 3)
    seconds |= timing.interleaved({"blocked": lambda: blocked(queries)}, 3)
    return {
        "classes": n_classes, "dim": dim, "bits": bits, "tables": TABLES, "scored": scored,
        "torch_ms": 1e3 * seconds["torch"], "lsh_ms": 1e3 * seconds["lsh"], "uniform_ms": 1e3 * seconds["uniform"],
        "times_torch": seconds["torch"] / seconds["lsh"], "times_blocked": seconds["blocked"] / seconds["lsh"],
        "lsh_over_uniform": seconds["lsh"] / seconds["uniform"],
        "refresh_over_torch": seconds["refresh"] / seconds["torch"],
        "bytes_over_formula": lsh.nbytes - 4 * n_classes * TABLES - 4 * TABLES * 2**bits,
    }  # fmt: skip


def main() -> None:
    """All shapes, to a table and results/lsh-speed.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    rows = [measure(*shape, rounds) for shape in SHAPES]
    record.save("lsh-speed", rows, seeds="0", title="LSH: one batch of 640 queries")


if __name__ == "__main__":
    main()
