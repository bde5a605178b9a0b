"""tune: the answer meets the error, is the fastest that does, and respects its limits."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import softhash as sh
from cases import gaussian, queries_for
from errors import fails
from softhash.cli import app
from softhash.synthetic import lm_like

MODEL, QUERIES = lm_like(n_classes=6000, dim=32, n_queries=512)


@pytest.fixture(scope="module")
def result() -> sh.TuneResult:
    return sh.tune(MODEL, QUERIES, 0.05, seconds=20)


def test_the_answer_is_accurate_on_queries_it_has_not_seen(result: sh.TuneResult) -> None:
    best = result.table[0]
    assert best.note == "chosen"
    assert best.verified <= 1.1 * 0.05
    fresh = lm_like(n_classes=6000, dim=32, n_queries=1024)[1][512:]
    away = result.best.log_partition(fresh, rng=9).log_z - sh.Exact(MODEL).log_partition(fresh).log_z
    assert np.abs(away).mean() <= 1.3 * 0.05


def test_nothing_measured_was_accurate_and_much_faster(result: sh.TuneResult) -> None:
    accurate = [trial for trial in result.table[1:] if trial.error <= 0.045 and not trial.note]
    assert accurate
    assert result.table[0].milliseconds <= 1.5 * min(trial.milliseconds for trial in accurate)


def test_every_method_is_in_the_table(result: sh.TuneResult) -> None:
    wanted = {"exact", "exact-bfloat16", "sketch", "sketch-every-code", "uniform", "prior", "lsh"}
    assert wanted | {"topk-ivf", "topk-hnsw"} <= {trial.method for trial in result.table}


def test_flat_models_need_only_a_few_uniform_draws() -> None:
    model = sh.LogLinear(gaussian(20_000, 8).weights / 10)
    result = sh.tune(model, queries_for(model, 256), 0.05, ["exact", "uniform"], seconds=10)
    assert isinstance(result.best, sh.Uniform)
    assert result.best.size < 64


def test_exact_is_the_answer_where_nothing_else_is_accurate_enough() -> None:
    result = sh.tune(MODEL, QUERIES, 1e-4, ["exact", "exact-bfloat16", "uniform", "prior"], seconds=10)
    assert isinstance(result.best, sh.Exact)


def test_limits() -> None:
    small = sh.tune(MODEL, QUERIES, 0.05, ["exact", "exact-bfloat16", "sketch"], seconds=10, memory=1000)
    assert isinstance(small.best, sh.Exact)
    fast = sh.tune(MODEL, QUERIES, 0.05, ["exact", "uniform"], seconds=10, milliseconds=1e-6)
    assert "nothing met every wish" in fast.table[0].note
    hasty = sh.tune(MODEL, QUERIES, 0.05, ["exact", "sketch"], seconds=0)
    assert [trial.note for trial in hasty.table if trial.method == "sketch"] == ["time was over"]


def test_one_query_at_a_time() -> None:
    result = sh.tune(MODEL, QUERIES, 0.05, ["exact", "sketch"], batch=1, seconds=10)
    assert result.table[0].milliseconds > 0


def test_errors() -> None:
    fails(lambda: sh.tune(MODEL, QUERIES, error=0), "error is 0")
    fails(lambda: sh.tune(MODEL, QUERIES[:10]), "queries has 10", "32")
    fails(lambda: sh.tune(MODEL, QUERIES, candidates=["magic"]), "candidates", "magic", "sketch")
    fails(lambda: sh.tune(MODEL, QUERIES, candidates=[]), "candidates is empty")
    fails(lambda: sh.tune(MODEL, QUERIES, batch=0), "batch is 0")


def test_command(tmp_path) -> None:
    np.savez(tmp_path / "model.npz", weights=MODEL.weights, queries=QUERIES)
    arguments = ["tune", "--weights", f"{tmp_path}/model.npz:weights", "--queries", f"{tmp_path}/model.npz:queries"]
    index = tmp_path / "index.safetensors"
    wanted = ["--candidates", "sketch,uniform", "--save", str(index), "--seconds", "10"]
    done = CliRunner().invoke(app, [*arguments, *wanted])
    assert done.exit_code == 0, done.output
    assert "chosen" in done.output
    assert isinstance(sh.load(index, MODEL), sh.Sketch)
    done = CliRunner().invoke(app, [*arguments, "--candidates", "exact", "--save", str(tmp_path / "none.safetensors")])
    assert "has no index" in done.output
    assert CliRunner().invoke(app, [*arguments, "--candidates", "magic"]).exit_code == 2
