"""The tables about training in docs and README, from the CSV files alone: `python -m experiments.training_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import record, tables
from experiments.paper.heads import CELLS, VARIANTS

ROOT = Path(__file__).parents[1]
Rows = Sequence[Mapping[str, str]]
EPOCHS_SHOWN = ("1", "2", "3", "5", "10")


def found(names: Sequence[str]) -> list[dict[str, str]]:
    """The rows of the CSV files that are there."""
    rows: list[dict[str, str]] = []
    for name in names:
        try:
            rows += record.read(name)
        except FileNotFoundError:
            print(f"skipped: {name}.csv is not there; measure it first")
    return rows


def with_origin(rows: Rows, columns: Sequence[str], source: Rows) -> str:
    """A table and the line that says where it comes from."""
    return f"{tables.markdown(rows, columns)}\n\n{tables.origin(source, machine=True)}" if rows else "Not measured yet."


def table1() -> str:
    """Perplexities on the test text at the end of some epochs, and relative to standard at the last common one."""
    rows = found([f"paper-table1-ptb-{method}" for method in CELLS])
    at = {(row["method"], row["epoch"]): float(row["test_perplexity"]) for row in rows}
    shown = []
    for method, cell in CELLS.items():
        epochs = [epoch for epoch in EPOCHS_SHOWN if (method, epoch) in at]
        common = [epoch for epoch in epochs if ("standard", epoch) in at]
        if epochs:
            values = {f"test, epoch {epoch}": f"{at[method, epoch]:.1f}" for epoch in epochs}
            relative = {
                "relative": f"{at[method, common[-1]] / at['standard', common[-1]]:.3f} (epoch {common[-1]})"
            } if common else {}  # fmt: skip
            mine = [row for row in rows if row["method"] == method]
            each = 1000 * float(mine[-1]["cpu_seconds"]) / float(mine[-1]["step"])
            shown.append({"output layer": cell.label, **values, **relative, "ms per step, one thread": f"{each:.0f}"})
    columns = dict.fromkeys(column for row in shown for column in row)
    order = ["output layer", *sorted((c for c in columns if c.startswith("test")), key=lambda c: int(c.split()[-1]))]
    return with_origin(shown, [*order, "relative", "ms per step, one thread"], rows)


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
    """Put every table in its place."""
    full = ("classes", "dim", "method", "ms_per_step", "times_exact", "beyond_mib")
    made = {
        "table1": table1(), "stability": stability(), "speed": speed(full),
        "gradient": plain("training-gradient", ("sampler", "draws", "cosine_of_mean", "cosine_of_one")),
        "floor": plain("lsh-floor", ("method", "scored", "error", "error_sd")),
    }  # fmt: skip
    tables.place(ROOT / "docs" / "training.md", made)
    tables.place(ROOT / "README.md", {"training": speed(full[:5])})


if __name__ == "__main__":
    main()
