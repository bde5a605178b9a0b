"""Pictures from the CSV files alone."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments import record
from experiments.data import CACHE

STYLE = {
    "batch": ("#1f5a94", "o", "in batches of 1024"),
    "one": ("#c1571b", "s", "one query at a time"),
}


def growth(quick: bool = False) -> list[Path]:
    """Time per query against N, both logarithmic, with the fitted exponents."""
    rows = record.read("sketch-growth", quick)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for mode, (colour, marker, label) in STYLE.items():
        mine = [row for row in rows if row["mode"] == mode]
        if not mine:
            continue
        sizes = [int(row["classes"]) for row in mine]
        slope, exact_slope = float(mine[0]["exponent"]), float(mine[0]["exact_exponent"])
        for column, line, name, power in (
            ("ms_per_query", "-", "Sketch", slope),
            ("exact_ms_per_query", "--", "exact float32", exact_slope),
        ):
            times = [float(row[column]) for row in mine]
            fill = colour if line == "-" else "white"
            axes.plot(sizes, times, line, marker=marker, color=colour, markerfacecolor=fill, lw=1.3, ms=5,
                      label=f"{name}, {label}: $N^{{{power:.2f}}}$")  # fmt: skip
    _logarithmic(axes)
    axes.set(xlabel="classes N", ylabel="milliseconds per query")
    axes.legend(frameon=False, fontsize=8.5)
    axes.set_title(f"Sketch at error 0.05, d = {rows[0]['dim']}, {rows[0]['machine']}", fontsize=10)
    return _save(figure, "sketch-growth", quick)


def against_faiss(quick: bool = False) -> list[Path]:
    """Error against time for every index and setting."""
    rows = record.read("sketch-faiss", quick)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    families = dict.fromkeys(row["method"].rsplit(", ", 1)[0] for row in rows)
    colours = ("#c1571b", "#1f5a94", "#6aa5dc", "#3b7d3b", "#8cc98c", "#7a4fa0", "#bb9ad6")
    for (family, colour), marker in zip(zip(families, colours, strict=False), "*ooss^^", strict=False):
        mine = [row for row in rows if row["method"].rsplit(", ", 1)[0] == family]
        mine.sort(key=lambda row: float(row["ms_per_query"]))
        times, errors = ([float(row[column]) for row in mine] for column in ("ms_per_query", "error"))
        axes.plot(times, errors, "-", marker=marker, color=colour, lw=1.2, ms=9 if marker == "*" else 5, label=family)
    _logarithmic(axes)
    axes.set(xlabel="milliseconds per query, in a batch", ylabel="mean |error of log Z|, nats")
    axes.legend(frameon=False, fontsize=8.5)
    axes.set_title("SmolLM2 head, 400 of 49 152 classes scored", fontsize=10)
    return _save(figure, "sketch-faiss", quick)


def run(quick: bool) -> None:
    """Every picture whose CSV is there."""
    for draw in (growth, against_faiss):
        try:
            print(*draw(quick))
        except FileNotFoundError as missing:
            print(f"skipped: {missing.filename} is not there; measure it first")


def _logarithmic(axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace(",", " ")))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, alpha=0.25)


def _save(figure: Figure, name: str, quick: bool) -> list[Path]:
    folder = CACHE if quick else record.RESULTS
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    for path in paths:
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths
