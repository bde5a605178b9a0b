"""Markdown tables from the CSV files alone, and those of docs/theory.md put in their places."""

from __future__ import annotations

from pathlib import Path

from experiments import record, tables

THEORY = Path(__file__).parents[2] / "docs" / "theory.md"
SPEEDS = tuple(f"speed-{model}" for model in ("smollm2", "262144x640", "1000000x128"))
NAMES = ("accuracy", "ablation", "reader", *SPEEDS, "growth", "faiss", "memory")
SPEED = (
    "model", "mode", "queries", "method", "ms_per_query", "error", "times_float32", "times_bfloat16",
    "clusters", "probes", "refine", "size",
)  # fmt: skip
IN_DOCS = {
    "ablation": ("variant", "error_200", "error_50"),
    "accuracy": (
        "model", "queries", "draws", "clusters", "size", "error", "bias", "bias_se", "coverage", "claimed_to_real",
    ),
    **dict.fromkeys(SPEEDS, SPEED),
    "growth": (
        "classes", "mode", "ms_per_query", "exact_ms_per_query", "error", "probes", "refine", "size", "exponent",
        "exact_exponent",
    ),
    "faiss": ("method", "ms_per_query", "error", "times_sketch", "error_over_sketch"),
    "memory": (
        "classes", "dim", "clusters", "build_seconds", "megabytes", "bytes_per_class", "bound_per_class",
        "shared_per_class",
    ),
    "reader": ("gain", "fuzz 0.00", "fuzz 0.20", "fuzz 0.36", "fuzz 0.50", "fuzz 0.90", "fuzz 1.30"),
}  # fmt: skip


def with_origin(rows: list[dict[str, str]], columns: tuple[str, ...]) -> str:
    """A table, and the line that says where it comes from and what is the same in all its rows."""
    first = rows[0]
    counts = "".join(
        f", {first[name]} {name}" for name in ("queries", "draws") if first.get(name) and name not in columns
    )
    return f"{tables.markdown(rows, columns)}\n\n{tables.origin(rows)[:-1]}{counts}."


def run() -> None:
    """Every table whose CSV is there."""
    found = {}
    for name in NAMES:
        try:
            rows = record.read(f"sketch-{name}")
        except FileNotFoundError as missing:
            print(f"skipped: {missing.filename} is not there; measure it first\n")
            continue
        found[name] = with_origin(rows, IN_DOCS.get(name) or tables.measured(rows))
        print(f"{name}\n\n{found[name]}\n")
    tables.place(THEORY, {name: table for name, table in found.items() if name in IN_DOCS})
