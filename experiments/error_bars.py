"""How honest are LSH's error bars? The figures in docs/theory.md: python experiments/error_bars.py"""

from __future__ import annotations

import numpy as np

import softhash as sh
from softhash.synthetic import lm_like

INDEXES = 200
BITS, TABLES = 6, 16


def gaussian(n_classes: int = 2000, dim: int = 32, n_queries: int = 16) -> tuple[sh.LogLinear, np.ndarray]:
    """A model whose logits have standard deviation 1."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((n_classes, dim), dtype=np.float32) / np.float32(np.sqrt(dim))
    return sh.LogLinear(weights), rng.standard_normal((n_queries, dim), dtype=np.float32)


def independent_variance(sample: sh.Sample, log_z: np.ndarray) -> list[float]:
    """Σ_S (f/p)² (1 − p) / Z²: the variance, if classes were drawn independently."""
    log_p = sample.log_expected_count.astype(np.float64)
    terms = np.exp(2 * (sample.logits - log_p - np.repeat(log_z, np.diff(sample.offsets)))) * -np.expm1(log_p)
    return [part.sum() for part in np.split(terms, sample.offsets[1:-1])]


def main() -> None:
    for name, (model, queries) in {"Gaussian": gaussian(), "lm_like": lm_like(5000, 64, 64)}.items():
        log_z = sh.Exact(model).log_partition(queries).log_z
        ratio, claimed, independent = [], [], []
        for seed in range(INDEXES):
            sample = sh.LSH(model, BITS, TABLES, rng=seed).sample(queries)
            estimate = sample.log_partition()
            ratio.append(np.exp(estimate.log_z - log_z))
            claimed.append(estimate.std_error)
            independent.append(independent_variance(sample, log_z))
        ratio, claimed = np.array(ratio), np.array(claimed)
        actual = ratio.var(axis=0)
        print(
            f"{name}: mean Ẑ/Z {ratio.mean():.4f}, "
            f"variance / independence formula {np.median(actual / np.mean(independent, axis=0)):.2f}, "
            f"claimed / actual {np.median(np.sqrt(((claimed * ratio) ** 2).mean(axis=0) / actual)):.2f}, "
            f"95 % intervals cover {100 * (np.abs(np.log(ratio)) < 1.96 * claimed).mean():.0f} %"
        )


if __name__ == "__main__":
    main()
