"""How far off the sketch is on models that behave like an output layer, and on a real one; and whether it knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import softhash as sh
from softhash.synthetic import lm_like
from stats import assert_unbiased, rejects

pytestmark = pytest.mark.usefixtures("one_thread")
DATA = Path(os.environ.get("SOFTHASH_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


class Layer(NamedTuple):
    """A model, queries to calibrate on, queries to measure on, and the truth about those."""

    model: sh.LogLinear
    calibration: NDArray[np.float32]
    queries: NDArray[np.float32]
    log_z: NDArray[np.float64]


def layer(model: sh.LogLinear, calibration: NDArray, queries: NDArray) -> Layer:
    return Layer(model, calibration, queries, sh.Exact(model).log_partition(queries).log_z)


@pytest.fixture(scope="module")
def synthetic() -> Layer:
    model, queries = lm_like(20_000, 128, 1536)
    return layer(model, queries[:1024], queries[1024:])


@pytest.fixture(scope="module")
def real() -> Layer:
    path = DATA / "smollm2_head.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent; set SOFTHASH_DATA to the folder that holds smollm2_head.npz")
    with np.load(path) as arrays:
        weights, queries = arrays["weights"].astype(np.float32), arrays["queries"].astype(np.float32)
    return layer(sh.LogLinear(weights), queries[:2048], queries[2048:2560])


def error(estimator: sh.Estimator, at: Layer) -> float:
    """Mean |log Ẑ − log Z|, in nats."""
    return float(np.abs(estimator.log_partition(at.queries, rng=0).log_z - at.log_z).mean())


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"clusters": 0}, 0.02), ({"clusters": 0, "size": 50}, 0.06), ({}, 0.035), ({"clusters": 0, "rank": 1}, 0.06)],
)
def test_error_on_a_synthetic_layer(settings: dict, most: float, synthetic: Layer) -> None:
    sketch = sh.Sketch(synthetic.model, queries=synthetic.calibration, **settings)
    assert error(sketch, synthetic) <= most


def test_a_tenth_of_the_error_of_uniform_sampling(synthetic: Layer) -> None:
    uniform = error(sh.Uniform(synthetic.model, 200), synthetic)
    assert error(sh.Sketch(synthetic.model, 200, synthetic.calibration), synthetic) <= uniform / 10


@pytest.mark.parametrize(
    ("worse", "factor"),
    [({"queries": None}, 2), ({"query_bits": 1}, 1.5), ({"rank": 1}, 1.2), ({"design": "poisson"}, 1.1)],
)
def test_each_part_earns_its_place(worse: dict, factor: float, synthetic: Layer) -> None:
    usual = {"queries": synthetic.calibration, "clusters": 0}
    best, without = (sh.Sketch(synthetic.model, **(usual | settings)) for settings in ({}, worse))
    assert error(without, synthetic) >= factor * error(best, synthetic)


def assert_covers(off: NDArray, claimed: NDArray, least: float, most: float) -> None:
    share = (np.abs(off) <= 1.96 * claimed).mean()
    assert least <= share <= most, f"95 % intervals cover {share:.1%}"


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"clusters": 0}, 0.9),
        ({"clusters": 0, "design": "poisson"}, 0.9),
        ({"clusters": 0, "replicates": 8}, 0.88),
        ({"clusters": 0, "size": 50}, 0.88),
        ({}, 0.86),
    ],
)
def test_95_percent_intervals_cover(settings: dict, least: float, synthetic: Layer) -> None:
    """Over queries and fresh draws; and the typical claim is within 1.5 times the typical error."""
    sketch = sh.Sketch(synthetic.model, queries=synthetic.calibration, **settings)
    estimates = [sketch.log_partition(synthetic.queries, rng=seed) for seed in range(4)]
    off = np.array([estimate.log_z for estimate in estimates]) - synthetic.log_z
    claimed = np.array([estimate.std_error for estimate in estimates])
    assert_covers(off, claimed, least, 0.995)
    assert 1 / 1.5 <= np.median(claimed) * 0.6745 / np.median(np.abs(off)) <= 1.5
    assert rejects(assert_covers, off, claimed / 2, least, 0.995)
    assert rejects(assert_covers, off, claimed * 5, least, 0.995)


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"clusters": 0}, 0.020), ({"clusters": 0, "size": 50}, 0.055), ({}, 0.035)],
)
def test_error_on_a_real_layer(settings: dict, most: float, real: Layer) -> None:
    """And no bias: over fresh draws, the mean of Ẑ/Z over queries is 1 within 4 standard errors."""
    sketch = sh.Sketch(real.model, queries=real.calibration, **settings)
    assert error(sketch, real) <= most
    log_z = np.array([sketch.log_partition(real.queries[:64], rng=seed).log_z for seed in range(20)])
    assert_unbiased(np.exp(log_z - real.log_z[:64]))
