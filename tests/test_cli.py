"""The command line: what a newcomer runs first, and how it fails."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash import demo
from softhash.cli import app
from softhash.commands.methods import available

MODEL = gaussian(800, 12, bias=True)
QUERIES = queries_for(MODEL, 40)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options that name a model and queries on disk."""
    np.savez(tmp_path / "model.npz", weights=MODEL.weights, bias=MODEL.bias_or_zeros, queries=QUERIES)
    names = ("weights", "bias", "queries")
    return [part for name in names for part in (f"--{name}", f"{tmp_path}/model.npz:{name}")]


def invoked(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("method", available())
def test_estimate_by_every_method(method: str, files: list[str], tmp_path: Path) -> None:
    size = [] if method == "exact" else ["--size", "400"]
    done = invoked("estimate", *files, "--method", method, *size, "--out", str(tmp_path / "z.npz"))
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "z.npz") as written:
        assert set(written) == set(sh.Estimate._fields)
        away = np.abs(written["log_z"] - naive.log_z(MODEL, QUERIES))
    assert np.median(away) < {"exact": 1e-4, "mips-gumbel": 1.2}.get(method, 0.7)
    assert "mean log Z" in done.output


def test_same_seed_same_file(files: list[str], tmp_path: Path) -> None:
    written = []
    for seed in ("1", "1", "2"):
        invoked("estimate", *files, "--size", "20", "--seed", seed, "--out", str(tmp_path / "z.npz"))
        with np.load(tmp_path / "z.npz") as arrays:
            written.append(arrays["log_z"])
    np.testing.assert_array_equal(written[0], written[1])
    assert not np.array_equal(written[0], written[2])


def test_demo_measures_every_method(tmp_path: Path) -> None:
    small = ("--classes", "3000", "--dim", "16", "--queries", "64")
    done = invoked("demo", *small, "--out", str(tmp_path / "demo.svg"))
    assert done.exit_code == 0, done.output
    with open(tmp_path / "demo.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [method.label for method in demo.methods()]
    assert all(row["label"] in done.output for row in rows)
    assert {method.kind for method in demo.methods()} >= {"Exact", "LSH", "TopK", "Sketch", "PriorityGumbel"}
    assert float(rows[0]["error"]) < 1e-4
    assert (tmp_path / "demo.svg").stat().st_size > 10_000


FAILURES = {
    "no such method": (["--method", "magic"], "--method"),
    "an option of another method": (["--method", "uniform", "--bits", "3"], "--bits"),
    "no such file": (["--weights", "nowhere.npy"], "nowhere.npy"),
    "a folder to write": (["--out", "."], "--out"),
    "a size of nothing": (["--size", "0"], "size"),
}


@pytest.mark.parametrize(("options", "named"), FAILURES.values(), ids=FAILURES.keys())
def test_failures_are_one_line(options: list[str], named: str, files: list[str], tmp_path: Path) -> None:
    done = invoked("estimate", *files, "--out", str(tmp_path / "z.npz"), *options)
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert done.output.startswith("softhash: ")
    assert named in done.output


def test_version_and_help_without_heavy_imports() -> None:
    probe = (
        "import sys; from softhash.cli import app\ntry: app(['--version'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'faiss', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout.strip()) == (0, f"softhash {sh.__version__}")
