"""Pictures from the CSV files alone."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments import record
from experiments.data import CACHE
from experiments.paper.heads import CELLS

STYLE = {
    "Uniform": ("#7a7a7a", "o", "-"),
    "Prior": ("#7a7a7a", "s", "--"),
    "LSH": ("#1f5a94", "o", "-"),
    "LSH, not centred": ("#1f5a94", "s", "--"),
    "LSH, mips": ("#1f5a94", "^", ":"),
    "Exact Gumbel": ("#c1571b", "o", "-"),
    "MIPS Gumbel": ("#c1571b", "s", "--"),
    "Exact Gumbel, second largest": ("#7a4fa0", "s", "--"),
    "PriorityGumbel": ("#d79a00", "D", "-"),
    "Sketch": ("#2f7d3b", "*", "-"),
}
LABEL = {"Exact Gumbel, second largest": "second largest"}
TRAINED = {
    "standard": ("#222222", "o", "-"),
    "lsh": STYLE["LSH"],
    "uniform": STYLE["Uniform"],
    "prior": STYLE["Prior"],
    "gumbel": STYLE["Exact Gumbel"],
    "mips-gumbel": STYLE["MIPS Gumbel"],
    "sketch-200": STYLE["Sketch"],
    "sketch-50": ("#2f7d3b", "D", "--"),
}
MEASURES = {"error": "mean |log Ẑ − log Z|, nats", "relative": "mean |Ẑ − Z| / Z"}
NAMES = {"ptb": "Penn Treebank", "text8": "text8"}


PERPLEXITY_SHOWN = 3000
"""Beyond it a run has diverged."""


def figure_accuracy(dataset: str, quick: bool = False) -> list[Path]:
    """Both errors against the number of samples."""
    rows = record.read(f"paper-accuracy-{dataset}", quick)
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, measure in zip(figure.subplots(1, 2), MEASURES, strict=True):
        _lines(axes, rows, measure)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    figure.suptitle(_title(dataset, rows), fontsize=10)
    return _save(figure, f"paper-accuracy-{dataset}", quick)


def figure_gumbel(dataset: str, quick: bool = False) -> list[Path]:
    """The largest perturbed logit against the second largest."""
    figure = Figure(figsize=(4.8, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = record.read(f"paper-gumbel-{dataset}", quick)
    _lines(axes, rows, "error")
    axes.set_title(_title(dataset, rows).replace(" (", "\n("), fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return _save(figure, f"paper-gumbel-{dataset}", quick)


def figure_training() -> list[Path]:
    """Test perplexity against the minutes that training has taken, of every cell of table 1 that has been run."""
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, dataset in zip(figure.subplots(1, 2), NAMES, strict=True):
        for method, (colour, marker, line) in TRAINED.items():
            if record.exists(name := f"paper-table1-{dataset}-{method}"):
                rows = record.read(name)
                minutes = [float(row["cpu_seconds"]) / 60 for row in rows]
                values = [float(row["test_perplexity"]) for row in rows]
                axes.plot(
                    minutes, values, color=colour, marker=marker, linestyle=line, linewidth=1.3,
                    markersize=8 if marker == "*" else 4, label=CELLS[method].label,
                )  # fmt: skip
        _logarithmic(axes)
        axes.set_ylim(top=min(PERPLEXITY_SHOWN, axes.get_ylim()[1]))
        axes.set_title(NAMES[dataset], fontsize=10)
        axes.set(xlabel="minutes of training on one thread", ylabel="perplexity of the test text")
    handles = {
        label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return _save(figure, "paper-training", quick=False)


def _title(dataset: str, rows: list[dict[str, str]]) -> str:
    return f"{NAMES[dataset]}, 640 contexts after one epoch (bars: standard deviation over seeds {rows[0]['seeds']})"


def _lines(axes: Axes, rows: list[dict[str, str]], measure: str) -> None:
    """One line for each method, with the spread over seeds as bars."""
    for method, (colour, marker, line) in STYLE.items():
        mine = [row for row in rows if row["method"] == method]
        if not mine:
            continue
        counts = [int(row["samples"]) for row in mine]
        values, spread = ([float(row[column]) for row in mine] for column in (measure, f"{measure}_sd"))
        lower = [min(each, 0.9 * value) for each, value in zip(spread, values, strict=True)]
        axes.errorbar(
            counts, values, yerr=[lower, spread], color=colour, marker=marker, linestyle=line, linewidth=1.3,
            markersize=9 if marker == "*" else 5, elinewidth=0.8, label=LABEL.get(method, method),
        )  # fmt: skip
    _logarithmic(axes)
    axes.set_xticks(sorted({int(row["samples"]) for row in rows}))
    axes.margins(y=0.08)
    axes.set(xlabel="samples", ylabel=MEASURES[measure])


def _logarithmic(axes: Axes) -> None:
    """Both axes, with plain numbers beside a light grid."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(True, alpha=0.25)


def _save(figure: Figure, name: str, quick: bool) -> list[Path]:
    folder = CACHE if quick else record.RESULTS
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    for path in paths:
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths
