"""The tables about training in docs and README, from the CSV files alone: `python -m experiments.training_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import record, tables
from experiments.paper import plot
from experiments.paper.heads import CELLS, VARIANTS

ROOT = Path(__file__).parents[1]
Rows = Sequence[Mapping[str, str]]


def found(names: Sequence[str]) -> list[dict[str, str]]:
    """The rows of the CSV files that are there."""
    for name in names:
        if not record.exists(name):
            print(f"skipped: {name}.csv is not there; measure it first")
    return [row for name in names if record.exists(name) for row in record.read(name)]


def with_origin(rows: Rows, columns: Sequence[str], source: Rows) -> str:
    """A table and the line that says where it comes from."""
    return f"{tables.markdown(rows, columns)}\n\n{tables.origin(source, machine=True)}" if rows else "Not measured yet."


def table1(dataset: str) -> str:
    """Perplexities of the test text: where that of the validation text was least, and in the end."""
    rows = found([f"paper-table1-{dataset}-{method}" for method in CELLS])
    runs = {method: [row for row in rows if row["method"] == method] for method in CELLS}
    shown = []
    for method, run in runs.items():
        if run:
            best, reference_best = least(run), least(runs["standard"] or run)
            last = run[-1]
            then = [row for row in runs["standard"] if row["step"] == last["step"]]
            shown.append({
                "output layer": CELLS[method].label,
                "best": perplexity(best), "to the best standard": ratio(best, reference_best),
                "last": perplexity(last), "to standard then": ratio(last, then[0]) if then else "",
                "ms per step": f"{milliseconds_per_step(run):.0f}",
            })  # fmt: skip
    return with_origin(shown, list(shown[0]) if shown else [], rows)


def beside_the_paper() -> str:
    """The best perplexities of the test text and the last, as the paper's table has them, relative to standard's."""
    methods = ("standard", "lsh", "uniform", "gumbel", "mips-gumbel", "sketch-200", "sketch-50")
    shown, source = [], []
    for dataset, name in plot.NAMES.items():
        rows = found([f"paper-table1-{dataset}-{method}" for method in methods])
        standard = [row for row in rows if row["method"] == "standard"]
        line = {"text": name}
        for method in methods:
            run = [row for row in rows if row["method"] == method]
            if run and standard:
                then = [row for row in standard if row["step"] == run[-1]["step"]]
                relative = f" {ratio(run[-1], then[0])}" if then else ""
                best = f"{perplexity(least(run))} {ratio(least(run), least(standard))}"
                line[CELLS[method].label] = f"{best}; {perplexity(run[-1])}{relative}"
        shown.append(line)
        source += rows
    return with_origin(shown, ["text", *(CELLS[method].label for method in methods)], source)


def least(run: Rows) -> Mapping[str, str]:
    """The row of the least perplexity of the validation text."""
    return min(run, key=lambda row: float(row["valid_perplexity"]))


def perplexity(row: Mapping[str, str]) -> str:
    """Of the test text, and when."""
    value = float(row["test_perplexity"])
    shown = f"{value:.1f}" if value < plot.PERPLEXITY_SHOWN else f"diverged, {value:.0e}"
    return f"{shown} (epoch {row['epoch']})"


def ratio(row: Mapping[str, str], reference: Mapping[str, str]) -> str:
    """Of two perplexities."""
    value = float(row["test_perplexity"])
    return f"×{value / float(reference['test_perplexity']):.3f}" if value < plot.PERPLEXITY_SHOWN else ""


def milliseconds_per_step(run: Rows) -> float:
    """Over the last stretch between two evaluations, the model and the optimiser included."""
    before, last = ([{"cpu_seconds": "0", "step": "0"}, *run])[-2:]
    return (
        1000 * (float(last["cpu_seconds"]) - float(before["cpu_seconds"])) / (int(last["step"]) - int(before["step"]))
    )


def stability() -> str:
    """Validation perplexity half-way and at the end."""
    rows = found([f"paper-stability-ptb-{variant}" for variant in VARIANTS])
    shown = []
    for variant, cell in VARIANTS.items():
        mine = [row for row in rows if row["method"] == variant]
        if mine:
            about = {f"step {row['step']}": f"{float(row['valid_perplexity']):.0f}" for row in mine}
            shown.append({"variant": cell.label} | about)
    columns = dict.fromkeys(column for row in shown for column in row)
    return with_origin(shown, list(columns), rows)


def speed(columns: Sequence[str]) -> str:
    """Milliseconds of a step at each size."""
    rows = found([f"training-speed-{classes}" for classes in (10_000, 44_000, 1_000_000)])
    return with_origin(rows, columns, rows)


def plain(name: str, columns: Sequence[str]) -> str:
    """Columns of one file."""
    rows = found([name])
    return with_origin(rows, columns, rows)


def main() -> None:
    """Draw the picture and put every table in its place."""
    print(*plot.figure_training())
    full = ("classes", "dim", "method", "ms_per_step", "times_exact", "beyond_mib")
    made = {
        "table1-ptb": table1("ptb"), "table1-text8": table1("text8"), "stability": stability(), "speed": speed(full),
        "gradient": plain("training-gradient", ("sampler", "draws", "cosine_of_mean", "cosine_of_one")),
        "floor": plain("lsh-floor", ("method", "scored", "error", "error_sd")),
    }  # fmt: skip
    tables.place(ROOT / "docs" / "training.md", made)
    tables.place(ROOT / "docs" / "reproduction.md", {"table1": beside_the_paper()})
    tables.place(ROOT / "README.md", {"training": speed(full[:5]), "perplexity": table1("ptb")})


if __name__ == "__main__":
    main()
