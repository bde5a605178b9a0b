"""A log-linear model that behaves like the output layer of a language model, made from a seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softhash import blas, checks
from softhash.model import LogLinear

ROWS_PER_BLOCK = 16_384
CLASSES_PER_FAMILY = 32

SIGNAL_TO_NOISE = 0.52
FAMILY_SHARE = 0.5
SIGNAL_DECAY = 1.0
IMBALANCE = 0.7
NORM_SPREAD = 0.16
CONFIDENCE = (0.6, 1.4)
COMMON_LOGIT = 4.0


def lm_like(
    n_classes: int = 50_000, dim: int = 256, n_queries: int = 2048, rng: checks.Seed = 0
) -> tuple[LogLinear, NDArray[np.float32]]:
    """A model and queries that meet the difficulties of a real output layer.

    Words have Zipf frequencies π_y and means m_y, and contexts are Gaussian around the mean of the word that follows.
    By Bayes' rule the next word is then log-linear in the context, with

        logit_y(x) = m_y·x + log π_y − ½‖m_y‖²

    which is stretched to the shape trained models have: words come in families that resemble each other, the spectrum
    of m decays, ‖m_y‖ is unequal, contexts differ in how much they tell, all of them share a large mean (which carries
    the bias, so the model has none), all classes share a mean, and queries concentrate in directions where classes
    vary little.

    Measured by experiments/lm_like.py, seed 0, over 1024 queries, and on the output layer of SmolLM2-135M-Instruct over
    2048 real contexts:

        N × d            top-1   cosine   range   sd of log Z   norms   uniform   LSH
        50 000 × 256      0.38     0.20      59           6.9    1.48       2.1   1.5
        49 152 × 576      0.39     0.16      54           6.2    1.47       2.1   1.5
        262 144 × 640     0.40     0.17      68           7.5    1.46       2.6   1.6
        1 000 000 × 128   0.36     0.29     101           7.1    1.51       2.8   1.2
        3 200 000 × 64    0.33     0.38     123           9.8    1.57       3.0   1.1
        SmolLM2           0.46     0.18      34           6.5    1.58       3.1   2.4

    The constants were chosen by hand, comparing with SmolLM2. At its size the real layer is the harder of the two:
    sampling errors here are about two thirds of those there, and logits spread wider. Do not read errors on this
    model as errors on a trained one.

    top-1: mean probability of the best class; cosine: median between a query and its best class; range: mean over
    queries of the spread of logits; norms: 99th percentile of the centred class norms over their median; uniform, LSH:
    mean |error of log Z| in nats of Uniform(size=200) and of LSH(bits=10, tables=16).

    Classes are made in blocks of 16 384 from the seed alone: memory is the weights and little more, and one seed gives
    one model at any thread count.

    Args:
        n_classes: N.
        dim: d, at least 8.
        n_queries: Q.
        rng: seed.

    Returns:
        The model, with float32 weights (N, d) and no bias, and float32 queries (Q, d).

    Example:
        >>> from softhash.synthetic import lm_like
        >>> model, queries = lm_like(n_classes=2000, dim=32, n_queries=100)
        >>> model.n_classes, model.dim, queries.shape
        (2000, 32, (100, 32))
    """
    n_classes = checks.positive_int("n_classes", n_classes, most=checks.MAX_CLASSES)
    dim = checks.positive_int("dim", dim, least=8)
    n_queries = checks.positive_int("n_queries", n_queries)
    rng = checks.generator(rng)

    frequencies = _zipf(n_classes, rng)
    space = _space(n_classes, dim, rng)
    contexts, height = _contexts(frequencies, space, n_queries, rng)
    weights = np.empty((n_classes, dim), np.float32)

    def fill(block: slice) -> None:
        means = _means(space, block)
        bias = np.log(frequencies[block]) - 0.5 * np.einsum("nk,nk->n", means, means)
        means += space.common
        means *= space.stretch
        columns = np.concatenate([(bias - space.mean_bias)[:, None] / height, means], axis=1, dtype=np.float32)
        np.matmul(columns, space.rotation.T, out=weights[block])

    blas.map_blocks(fill, n_classes, ROWS_PER_BLOCK)
    queries = np.concatenate([np.full((n_queries, 1), height), contexts / space.stretch], axis=1, dtype=np.float32)
    return LogLinear(weights), queries @ space.rotation.T


class _Space(NamedTuple):
    """What every block of classes is made from."""

    deviation: NDArray[np.float32]  # of each coordinate of m
    stretch: NDArray[np.float32]  # classes are multiplied by it, queries divided: no logit changes
    common: NDArray[np.float32]  # added to every m
    families: NDArray[np.float32]  # (F, d − 1) standard normal
    rotation: NDArray[np.float32]  # (d, d) orthogonal
    mean_bias: float
    seed: int
    n_classes: int


def _zipf(n_classes: int, rng: np.random.Generator) -> NDArray[np.float64]:
    weights = 1 / (rng.permutation(n_classes) + 3.0)
    return weights / weights.sum()


def _space(n_classes: int, dim: int, rng: np.random.Generator) -> _Space:
    k = np.arange(1, dim)
    variance = k**-SIGNAL_DECAY
    energy = SIGNAL_TO_NOISE * 2 * np.log(n_classes)
    direction = rng.standard_normal(dim - 1) / k
    families = rng.standard_normal((max(1, n_classes // CLASSES_PER_FAMILY), dim - 1), dtype=np.float32)
    rotation, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return _Space(
        deviation=np.sqrt(energy * variance / variance.sum()).astype(np.float32),
        stretch=(k ** (IMBALANCE / 2)).astype(np.float32),
        common=(COMMON_LOGIT * direction / np.linalg.norm(direction)).astype(np.float32),
        families=families,
        rotation=rotation.astype(np.float32),
        mean_bias=float(-np.log(n_classes) - 0.5 * energy),
        seed=int(rng.integers(2**63)),
        n_classes=n_classes,
    )


def _means(space: _Space, block: slice) -> NDArray[np.float32]:
    """m of one of the blocks of classes, always the same."""
    rng = np.random.default_rng([space.seed, block.start])
    count = block.stop - block.start
    means = rng.standard_normal((count, len(space.deviation)), dtype=np.float32)
    means *= np.float32(np.sqrt(1 - FAMILY_SHARE))
    means += np.float32(np.sqrt(FAMILY_SHARE)) * space.families[rng.integers(len(space.families), size=count)]
    means *= space.deviation
    means *= np.exp(NORM_SPREAD * rng.standard_normal((count, 1), dtype=np.float32) - NORM_SPREAD**2)
    return means


def _contexts(frequencies, space: _Space, n_queries: int, rng) -> tuple[NDArray[np.float32], float]:
    """Contexts (Q, d − 1) before the stretch, and the constant coordinate that all queries get after it."""
    words = rng.choice(len(frequencies), size=n_queries, p=frequencies)
    confidence = rng.uniform(*CONFIDENCE, size=(n_queries, 1)).astype(np.float32)
    contexts = rng.standard_normal((n_queries, len(space.deviation)), dtype=np.float32)
    for start in np.unique(words // ROWS_PER_BLOCK) * ROWS_PER_BLOCK:
        block = slice(int(start), int(min(start + ROWS_PER_BLOCK, space.n_classes)))
        mine = np.flatnonzero((words >= block.start) & (words < block.stop))
        contexts[mine] += confidence[mine] * _means(space, block)[words[mine] - block.start]
    return contexts, float(np.sqrt(((contexts / space.stretch) ** 2).sum(axis=1).mean()))
