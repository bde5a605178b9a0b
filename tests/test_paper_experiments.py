"""The paper's experiments run on a small made-up model, and their arithmetic is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments import data, record, timing
from experiments.paper import accuracy, covariance, family, joint, methods, plot, problem, shapes, tables, times

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash.lsh import simhash
from stats import assert_mean, rejects

pytest.importorskip("torch", reason="the paper's language model needs PyTorch")
SAMPLES = (20, 60)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> data.Problem:
    """Every command measures on this, and writes to a temporary folder."""
    made = problem.synthetic(1500, 16, 32)._replace(name="ptb")
    for module in (accuracy, covariance, shapes, times):
        monkeypatch.setattr(module, "trained", lambda name: made)
    for module in (record, plot):
        monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setitem(problem.SAMPLES, "ptb", SAMPLES)
    monkeypatch.setattr(methods, "_TUNED", {})
    monkeypatch.setattr(methods, "MOST_TABLES", 6)
    return made


def test_accuracy_is_measured_and_drawn(small: data.Problem) -> None:
    accuracy.figure_accuracy("ptb", quick=True)
    rows = record.read("paper-accuracy-ptb", quick=True)
    assert [row["method"] for row in rows] == [method.label for method in methods.METHODS for _ in SAMPLES]
    error = {row["method"]: float(row["error"]) for row in rows}
    assert error["Sketch"] < error["Exact Gumbel"] < error["Uniform"]
    assert all(path.stat().st_size > 1000 for path in plot.figure_accuracy("ptb", quick=True))
    assert tables.accuracy(rows).count("\n") == len(methods.METHODS) + 1


def test_the_second_largest_is_measured_and_drawn(small: data.Problem) -> None:
    accuracy.figure_gumbel("ptb", quick=True)
    first, second = (float(row["error"]) for row in record.read("paper-gumbel-ptb", quick=True)[:: len(SAMPLES)])
    assert second > 3 * first
    assert all(path.stat().st_size > 1000 for path in plot.figure_gumbel("ptb", quick=True))


def test_times_are_measured_beside_the_papers(small: data.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "set_threads", lambda threads: None)
    monkeypatch.setattr(times, "ROUNDS", 2)
    monkeypatch.setattr(times, "BUDGET", 0.1)
    times.run("ptb", quick=True)
    rows = record.read("paper-table2", quick=True)
    assert {row["method"] for row in rows} > {method.label for method in methods.METHODS}
    assert [row["paper_seconds"] for row in rows if row["method"] == "LSH"] == ["0.191"]
    table = tables.ratios(rows)
    assert table.splitlines()[2].startswith("| LSH / Uniform | 1.85 |")
    assert "| 415 |" in table  # exact Gumbel / LSH, by the paper


def test_shapes_run(small: data.Problem) -> None:
    shapes.run(quick=True)
    rows = record.read("paper-shapes", quick=True)
    assert {"", "1"} < {row["tables"] for row in rows}


def test_covariance_runs(small: data.Problem) -> None:
    covariance.run(["ptb"], quick=True)
    assert [row["hashing"] for row in record.read("paper-covariance-ptb", quick=True)] == list(covariance.WAYS)


def test_models_whose_data_are_absent_are_left_out(
    small: data.Problem, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(family, "THREE", (lambda: small, lambda: data.smollm2(Path("nowhere.npz"))))
    monkeypatch.setattr(family, "BANK", 1000)
    monkeypatch.setattr(family, "TABLES", (4,))
    family.run(quick=True)
    assert {row["model"] for row in record.read("paper-gumbel-family", quick=True)} == {"ptb"}
    assert "skipped: nowhere.npz is not there" in capsys.readouterr().out


def test_pairs_of_classes_explain_the_variance_of_a_sum() -> None:
    """Var Σ_S g = Σ g² p(1 − p) + Σ g g Cov, from hash functions drawn here; without the pairs the same check fails."""
    rng = np.random.default_rng(0)
    made = data.Problem(
        "Gaussian", gaussian(60, 4, bias=True), np.empty((0, 4), np.float32), np.ones((1, 4), np.float32)
    )
    hashed = covariance.geometry(made, "cosine", True)
    cosines = (hashed.contexts @ hashed.classes.T).astype(np.float64)
    p, weights = np.exp(simhash.log_inclusion(cosines, joint.BITS, joint.TABLES)), rng.uniform(1, 2, (1, 60))
    pairs = joint.covariance(hashed.classes, cosines, weights)
    own = (weights**2 * p * (1 - p)).sum()
    planes = rng.standard_normal((hashed.classes.shape[1], 5000 * joint.TABLES * joint.BITS), dtype=np.float32)
    agree = (hashed.classes @ planes > 0) == (hashed.contexts @ planes > 0)
    drawn = agree.reshape(60, 5000, joint.TABLES, joint.BITS).all(axis=3).any(axis=2)
    squares = (weights @ (drawn - p.T))[0] ** 2
    assert_mean(squares, own + pairs.positive[0] + pairs.negative[0])
    assert rejects(assert_mean, squares, own)


@pytest.mark.parametrize(("transform", "center"), covariance.WAYS.values(), ids=covariance.WAYS.keys())
def test_geometry_is_what_is_hashed(transform: str, center: bool) -> None:
    model = gaussian(50, 6, bias=True)
    made = data.Problem("Gaussian", model, np.empty((0, 6), np.float32), queries_for(model))
    hashed = covariance.geometry(made, transform, center)
    expected = naive.hashed_cosines(model, made.queries, transform, center)
    np.testing.assert_allclose(hashed.contexts @ hashed.classes.T, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(hashed.classes, axis=1), 1, atol=1e-6)


def test_hashing_is_no_more_than_a_share_of_scoring(small: data.Problem) -> None:
    for samples in (20, 200):
        bits, counted = methods.lsh_shape(small, samples, "cosine", True)
        assert bits * counted <= methods.HASHING_SHARE * samples
        union = np.diff(sh.LSH(small.model, bits, counted, rng=1).sample(small.queries).offsets).mean()
        assert 0.9 * samples < union < 3 * samples


def test_errors_are_what_they_say() -> None:
    truth = np.zeros(2)
    found = methods.errors(np.log([[2.0, 0.5], [1.0, 1.0]]), truth)
    assert found["error"] == pytest.approx(np.log(2) / 2)
    assert found["relative"] == pytest.approx(0.375)
    assert found["bias"] == pytest.approx(0.125)
    assert methods.errors(np.array([[-np.inf, 0.0], [0.0, 0.0]]), truth)["empty"] == 1


def test_the_document_shows_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = tmp_path / "reproduction.md"
    copy.write_text(tables.DOCUMENT.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(tables, "DOCUMENT", copy)
    tables.run()
    assert copy.read_text("utf-8") == tables.DOCUMENT.read_text("utf-8") or pytest.fail(
        "docs/reproduction.md differs from experiments/results; run python -m experiments.paper tables"
    )
