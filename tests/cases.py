"""The capability table. A new sampler or estimator gets every contract test by adding its row to CASES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import softhash as sh


class Case(NamedTuple):
    """What one configuration promises.

    Attributes:
        make: (model, seed) -> the estimator; must work for any model, one class included.
        redraw: what must be drawn anew for Ẑ to average to Z: "nothing" (exact), "rng" (unbiased given the index),
            "index" (only over indexes), or "never" (biased).
        sampler: whether it has `sample`, `refresh` and `save`.
        once: whether a class is drawn at most once, so that expected counts are probabilities.
        std_error: "zero", "finite", or "nan" where the method cannot say.
        honest: bounds on claimed error / actual spread.
        settled: whether refresh() with unchanged weights changes nothing; one more step of k-means may.
    """

    name: str
    make: Callable[[sh.LogLinear, int], sh.Estimator]
    redraw: Literal["nothing", "rng", "index", "never"]
    sampler: bool = True
    once: bool = True
    std_error: Literal["zero", "finite", "nan"] = "finite"
    honest: tuple[float, float] = (0.75, 1.33)
    settled: bool = True


def _lsh(**settings) -> Callable[[sh.LogLinear, int], sh.Estimator]:
    def make(model: sh.LogLinear, seed: int) -> sh.Estimator:
        floor = min(settings.get("floor", 0), model.n_classes)
        return sh.LSH(model, **{"bits": 4, "tables": 8, **settings, "floor": floor}, rng=seed)

    return make


def _unigram(model: sh.LogLinear, seed: int) -> sh.Estimator:
    return sh.Prior(model, size=50, probabilities=1 / np.sqrt(1 + np.arange(model.n_classes)))


def _mean_query(model: sh.LogLinear, seed: int) -> sh.Estimator:
    return sh.Prior(model, size=50, queries=0.1 + queries_for(model, 16, seed=99))


def _sketch(*, calibrated: bool = False, clusters: int | None = None, **settings) -> Callable[..., sh.Estimator]:
    def make(model: sh.LogLinear, seed: int) -> sh.Estimator:
        queries = 0.1 + queries_for(model, 64, seed=99) if calibrated else None
        groups = clusters and min(clusters, model.n_classes)
        return sh.Sketch(model, 50, queries, groups, rng=seed, **settings)

    return make


def _topk(index: str, *, prior: bool = False, calibrated: bool = False, **settings) -> Callable[..., sh.Estimator]:
    def make(model: sh.LogLinear, seed: int) -> sh.Estimator:
        probabilities = 1 / np.sqrt(1 + np.arange(model.n_classes)) if prior else None
        queries = 0.1 + queries_for(model, 64, seed=99) if calibrated else None
        return sh.TopK(model, 20, 40, index, probabilities=probabilities, queries=queries, **settings)

    return make


CASES = (
    Case("exact", lambda model, seed: sh.Exact(model), "nothing", sampler=False, std_error="zero"),
    Case("exact-bfloat16", lambda model, seed: sh.ExactBFloat16(model), "never", sampler=False, std_error="nan"),
    Case("uniform", lambda model, seed: sh.Uniform(model, size=50), "rng"),
    Case("uniform-replace", lambda model, seed: sh.Uniform(model, size=50, replace=True), "rng", once=False),
    Case("prior-unigram", _unigram, "rng", once=False),
    Case("prior-queries", _mean_query, "rng", once=False),
    Case("prior-bias", lambda model, seed: sh.Prior(model, size=50), "rng", once=False),
    Case("lsh-cosine", _lsh(), "index"),
    Case("lsh-mips", _lsh(transform="mips"), "index"),
    Case("lsh-uncentred", _lsh(center=False), "index"),
    Case("lsh-size", _lsh(size=100), "index", honest=(0.5, 2.0)),
    Case("lsh-floor", _lsh(bits=6, floor=30), "index"),
    Case("lsh-mips-floor-size", _lsh(bits=5, transform="mips", floor=30, size=100), "index", honest=(0.5, 2.0)),
    Case("sketch", _sketch(), "rng", honest=(0.5, 2.0)),
    Case("sketch-queries", _sketch(calibrated=True), "rng", honest=(0.5, 2.0)),
    Case("sketch-every-code", _sketch(calibrated=True, clusters=0), "rng", honest=(0.5, 2.0)),
    Case(
        "sketch-clusters", _sketch(clusters=8, probes=2), "rng", once=False, honest=(0.5, 2.0), settled=False,
    ),
    Case(
        "sketch-clusters-queries", _sketch(calibrated=True, clusters=8, probes=2, refine=0.5), "rng", once=False,
        honest=(0.5, 2.0), settled=False,
    ),
    Case("sketch-poisson", _sketch(calibrated=True, design="poisson"), "rng"),
    Case(
        "sketch-clusters-poisson", _sketch(clusters=8, probes=2, design="poisson"), "rng", once=False, settled=False,
    ),
    Case("topk-flat", _topk("Flat"), "rng"),
    Case("topk-ivf", _topk("IVF1,Flat", search="nprobe=1"), "rng"),
    Case("topk-hnsw", _topk("HNSW16", search="efSearch=2000"), "rng"),
    Case("topk-balanced", _topk("Flat", coordinates="balanced", calibrated=True), "rng"),
    Case("topk-prior", _topk("Flat", prior=True, coordinates="centred"), "rng", once=False),
    Case("sketch-replicates", _sketch(calibrated=True, replicates=8), "rng", once=False),
    Case("exact-gumbel", lambda model, seed: sh.ExactGumbel(model, bank=200, rng=seed), "never", sampler=False),
    Case("mips-gumbel", lambda model, seed: sh.MipsGumbel(model, 50, 3, rng=seed, bank=200), "never", sampler=False),
    Case("priority-gumbel", lambda model, seed: sh.PriorityGumbel(model, 50, rng=seed), "index", sampler=False),
)  # fmt: skip


def over(keep: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """Parametrise a test over the cases that `keep` accepts."""
    kept = [case for case in CASES if keep(case)]
    return pytest.mark.parametrize("case", kept, ids=[case.name for case in kept])


every_case = over()
every_sampler = over(lambda case: case.sampler)


def sampler_of(case: Case, model: sh.LogLinear, seed: int = 0) -> sh.Sampler:
    """The case's estimator, known to be a sampler."""
    return cast(sh.Sampler, case.make(model, seed))


def redrawn(case: Case, model: sh.LogLinear, draws: int) -> Iterator[sh.Estimator]:
    """The estimator `draws` times, built anew where its unbiasedness is over indexes."""
    fixed = None if case.redraw == "index" else case.make(model, 0)
    for seed in range(draws):
        yield fixed or case.make(model, seed)


def gaussian(n: int = 2000, dim: int = 32, *, bias: bool = False, seed: int = 0) -> sh.LogLinear:
    """A Gaussian model; with `queries_for` its logits have standard deviation about 1."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((n, dim), dtype=np.float32)
    return sh.LogLinear(weights, rng.standard_normal(n, dtype=np.float32) / 2 if bias else None)


def queries_for(model: sh.LogLinear, count: int = 8, *, seed: int = 1) -> NDArray[np.float32]:
    """Gaussian queries of norm about 1."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, model.dim), dtype=np.float32) / np.float32(np.sqrt(model.dim))


def replicate(case: Case, model: sh.LogLinear, queries: NDArray, draws: int) -> sh.Estimate:
    """Independent estimates, each field (draws, Q), redrawing what the case's unbiasedness is over."""
    rng = np.random.default_rng(12345)
    estimates = [estimator.log_partition(queries, rng=rng) for estimator in redrawn(case, model, draws)]
    return sh.Estimate(*map(np.stack, zip(*estimates, strict=True)))
