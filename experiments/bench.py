"""`softhash bench` on the output layer of SmolLM2, the picture and the tables of it: `python -m experiments.bench`.

Rows go to the cache while they are measured: stopped and started again, it goes on where it was. With --again, rows
that other work on the machine disturbed are measured once more: those whose runs differ by half of their median, and
those of a size that took a quarter longer than a larger size did. With --tables, the picture and the tables from
results/bench-smollm2.csv alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from typer.testing import CliRunner

from experiments import record, tables
from experiments.data import CACHE, find
from softhash.bench import rows as bench_rows
from softhash.bench.advice import front
from softhash.bench.rows import Row
from softhash.cli import app

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "pareto.svg"
PAGE = CACHE / "bench-smollm2.html"
ENOUGH = 0.05
TIMES = {"batch_ms": "milliseconds per query, in batches of 1024", "one_ms": "milliseconds per query, one at a time"}
STYLE = {
    "Sketch": ("#2f7d3b", "*"), "TopK": ("#1f5a94", "o"), "LSH": ("#c1571b", "s"), "Uniform": ("#8a8a8a", "o"),
    "Prior": ("#8a8a8a", "s"), "ExactGumbel": ("#7a4fa0", "D"), "MipsGumbel": ("#7a4fa0", "^"),
    "PriorityGumbel": ("#7a4fa0", "v"), "ExactBFloat16": ("#000000", "P"),
}  # fmt: skip


def measure() -> None:
    """Run the command, and keep its rows with where they come from."""
    source, start = find(None, "smollm2_head.npz"), time.perf_counter()
    given = ["--weights", f"{source}:weights", "--queries", f"{source}:queries", "--out", str(PAGE)]
    done = CliRunner().invoke(app, ["bench", *given])
    print(done.output)
    if done.exit_code:
        raise SystemExit(done.exit_code)
    seconds = time.perf_counter() - start
    measured = [row._asdict() for row in bench_rows.read(PAGE.with_suffix(".csv"))]
    kept = [
        {name: value for name, value in row.items() if name not in ("date", "version", "machine")}
        | {"bench_seconds": seconds}
        for row in measured
    ]
    record.save("bench-smollm2", kept, seeds="as in softhash bench", title="softhash bench on SmolLM2")


def forget_disturbed() -> None:
    """Take disturbed rows out of the cache, so that they are measured again."""
    path = PAGE.with_suffix(".csv")
    rows = bench_rows.begin(path)
    kept = [row for row in rows if not disturbed(row, rows)]
    path.unlink()
    bench_rows.begin(path)
    for row in kept:
        bench_rows.append(path, row)
    print(f"{len(rows) - len(kept)} of {len(rows)} rows are measured again")


def disturbed(row: Row, rows: list[Row]) -> bool:
    """Whether the times of a row cannot be those of a quiet machine."""
    larger = [other for other in rows if other.size > row.size and setting(other) == setting(row)]
    slower = any(getattr(row, time) > 1.25 * getattr(other, time) for other in larger for time in TIMES)
    return slower or max(row.one_spread, row.batch_spread) > 0.5


def setting(row: Row) -> tuple[str, str]:
    """Method and settings without the size; efSearch goes with the size."""
    rest, ef, value = row.settings.partition(", ")[2].partition("efSearch=")
    return row.method, rest + (f"{ef}{int(value) // (row.size // 2)}" if ef else "")


def read() -> list[Row]:
    """The rows as `softhash bench` has them."""
    kept = record.read("bench-smollm2")
    return [bench_rows.parsed([row.get(name, "") for name in Row._fields]) for row in kept]


def plot(rows: list[Row]) -> None:
    """Each class's own front of error against time, in batches and one at a time."""
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, column in zip(figure.subplots(1, 2, sharey=True), TIMES, strict=True):
        _panel(axes, rows, column)
    figure.axes[0].set_ylabel("mean |error of log Z|, nats")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.suptitle("Output layer of SmolLM2, 49 152 classes × 576: each method at its best settings", fontsize=10)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def _panel(axes: Axes, rows: list[Row], column: str) -> None:
    for kind, (colour, marker) in STYLE.items():
        mine = front([row for row in rows if row.kind == kind and row.error == row.error], column)
        times, errors = [getattr(row, column) for row in mine], [row.error for row in mine]
        size = 8 if marker == "*" else 5
        axes.plot(times, errors, "-", marker=marker, color=colour, lw=1.1, ms=size, label=kind)
    exact = min(getattr(row, column) for row in rows if row.kind == "Exact")
    axes.axvline(exact, color="black", linestyle="--", linewidth=1)
    axes.annotate(" exact, float32", (exact, 1), (2, -10), ("data", "axes fraction"), "offset points", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel=TIMES[column])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(True, alpha=0.25)


def chosen(rows: list[Row]) -> list[Row]:
    """Of each method the fastest row that is accurate enough, or where none is, the most accurate one."""
    found = []
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method and row.error == row.error]
        enough = [row for row in mine if row.error <= ENOUGH]
        if mine:
            found.append(min(enough, key=lambda row: row.batch_ms) if enough else min(mine, key=lambda row: row.error))
    return sorted(found, key=lambda row: (row.kind != "Exact", row.error > ENOUGH, row.batch_ms))


def table(rows: list[Row]) -> str:
    """Markdown, with the line that says where it comes from."""
    exact = next(row for row in rows if row.kind == "Exact")
    shown = [
        {
            "method": f"`{row.method}`" + (f" {row.settings}" if row.settings else ""),
            "classes scored": f"{row.scored:.0f}", "error": f"{row.error:.3g}",
            "95 % intervals that hold": "–" if row.coverage != row.coverage else f"{100 * row.coverage:.0f} %",
            "ms, batch": f"{row.batch_ms:.3g}", "× exact ": f"{exact.batch_ms / row.batch_ms:.1f}",
            "ms, alone": f"{row.one_ms:.3g}", "× exact": f"{exact.one_ms / row.one_ms:.1f}",
            "index MB": f"{row.index_bytes / 1e6:.0f}",
        }
        for row in chosen(rows)
    ]  # fmt: skip
    lines = ["| " + " | ".join(shown[0]) + " |", "|---" + "|---:" * (len(shown[0]) - 1) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in shown]
    return "\n".join(lines) + "\n\n" + tables.origin(record.read("bench-smollm2"), machine=True)


def main() -> None:
    """Measure unless told not to, then draw the picture and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only what follows from results/bench-smollm2.csv")
    parser.add_argument("--again", action="store_true", help="measure disturbed rows once more")
    options = parser.parse_args()
    if options.again:
        forget_disturbed()
    if not options.tables:
        measure()
    rows = read()
    plot(rows)
    for document in (ROOT / "README.md", ROOT / "docs" / "choosing.md"):
        tables.place(document, {"bench": table(rows)})


if __name__ == "__main__":
    main()
