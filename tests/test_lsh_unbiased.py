"""Mean Ẑ/Z over 400 independent indexes, for every way the sampler can be set up or kept up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash.lsh import simhash
from stats import assert_unbiased, rejects

pytestmark = pytest.mark.usefixtures("one_thread")
INDEXES, BITS, TABLES = 400, 4, 8
QUERIES = queries_for(gaussian())
Draw = Callable[[sh.LogLinear, int], sh.Sample]


def static(**settings) -> Draw:
    return lambda model, seed: sh.LSH(model, BITS, TABLES, **settings, rng=seed).sample(QUERIES, rng=seed)


def moving(which: str, **settings) -> Draw:
    """Hash, let the weights move, refresh as told, sample. The model is left as it was found."""

    def draw(model: sh.LogLinear, seed: int) -> sh.Sample:
        final, start, third = model.weights.copy(), model.weights.copy(), np.arange(0, model.n_classes, 3)
        noise = np.random.default_rng(seed).standard_normal(model.weights.shape, dtype=np.float32)
        moved = slice(None) if which == "none" else third
        start[moved] += noise[moved]
        model.weights[:] = start
        sampler = sh.LSH(model, BITS, TABLES, **settings, rng=seed)
        model.weights[:] = final
        if which != "none":
            sampler.refresh(None if which == "all" else third)
        return sampler.sample(QUERIES, rng=seed)

    return draw


def ratios(draw: Draw, model: sh.LogLinear, weigh: Callable[[sh.Sample], NDArray] | None = None) -> NDArray:
    """Ẑ/Z of shape (indexes, queries), weighted as the sampler says or by the log p that `weigh` puts in its place."""
    log_z = []
    for seed in range(INDEXES):
        sample = draw(model, seed)
        if weigh is not None:
            sample = sample._replace(log_expected_count=weigh(sample).astype(np.float32))
        log_z.append(sample.log_partition().log_z)
    return np.exp(np.array(log_z) - naive.log_z(model, QUERIES))


WAYS: dict[str, tuple[Draw, bool]] = {
    "cosine": (static(center=False), False),
    "mips": (static(transform="mips", center=False), False),
    "cosine centred": (static(), False),
    "mips centred": (static(transform="mips"), False),
    "cosine with bias": (static(), True),
    "mips with bias": (static(transform="mips"), True),
    "floor": (static(floor=50), True),
    "size": (static(size=200), False),
    "size and floor, mips": (static(transform="mips", size=200, floor=50), True),
    "refresh of a third": (moving("third"), True),
    "refresh of a third, mips": (moving("third", transform="mips"), False),
    "refresh of all": (moving("all", transform="mips"), True),
    "moved, not refreshed": (moving("none"), False),
    "moved, not refreshed, mips": (moving("none", transform="mips"), True),
}


@pytest.mark.parametrize(("draw", "bias"), WAYS.values(), ids=WAYS.keys())
def test_unbiased_over_indexes(draw: Draw, bias: bool) -> None:
    assert_unbiased(ratios(draw, gaussian(bias=bias)), power=0.03)


def log1mexp(x: NDArray) -> NDArray:
    return np.log(-np.expm1(np.minimum(x, -1e-7)))


def one_table_fewer(sample: sh.Sample) -> NDArray:
    """1 − (1 − p)^{(L−1)/L}."""
    return log1mexp((TABLES - 1) / TABLES * log1mexp(sample.log_expected_count.astype(np.float64)))


def sum_over_tables(sample: sh.Sample) -> NDArray:
    """L·p^K, the chance of being drawn were the buckets disjoint."""
    return np.log(TABLES) + log1mexp(log1mexp(sample.log_expected_count.astype(np.float64)) / TABLES)


def angles_of_today(sample: sh.Sample) -> NDArray:
    """p from the weights as they are, though the buckets hold them as they were."""
    cosines = naive.hashed_cosines(gaussian(), QUERIES, "cosine", True)
    owner = np.repeat(np.arange(len(QUERIES)), np.diff(sample.offsets))
    return simhash.log_inclusion(cosines[owner, sample.ids], BITS, TABLES)


def floor_forgotten(sample: sh.Sample) -> NDArray:
    """p of the buckets alone, for a sample that uniform draws have joined."""
    miss = log1mexp(sample.log_expected_count.astype(np.float64)) - np.log1p(-400 / gaussian().n_classes)
    return log1mexp(miss)


@pytest.mark.parametrize(
    ("draw", "weigh"),
    [
        (static(), one_table_fewer),
        (static(), sum_over_tables),
        (moving("none"), angles_of_today),
        (static(floor=400), floor_forgotten),
    ],
)
def test_the_same_check_rejects(draw: Draw, weigh: Callable[[sh.Sample], NDArray]) -> None:
    model = gaussian()
    assert_unbiased(ratios(draw, model))
    assert rejects(assert_unbiased, ratios(draw, model, weigh), power=np.inf)
