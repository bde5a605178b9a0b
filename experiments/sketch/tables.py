"""Markdown tables from the CSV files alone, and those of docs/theory.md put in their places."""

from __future__ import annotations

from pathlib import Path

from experiments import record

THEORY = Path(__file__).parents[2] / "docs" / "theory.md"
PROVENANCE = ("date", "commit", "machine", "command", "seeds")
NAMES = ("accuracy", "ablation", "reader", "speed", "growth", "faiss", "memory")
IN_DOCS = {
    "ablation": ("variant", "error_200", "error_50"),
    "accuracy": (
        "model", "queries", "draws", "clusters", "size", "error", "bias", "bias_se", "coverage", "claimed_to_real",
    ),
    "reader": ("gain", "fuzz 0.00", "fuzz 0.20", "fuzz 0.36", "fuzz 0.50", "fuzz 0.90", "fuzz 1.30"),
}  # fmt: skip


def markdown(rows: list[dict[str, str]], columns: tuple[str, ...]) -> str:
    """A table and the line that says where it comes from."""
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    lines += ["| " + " | ".join(_cell(row[column]) for column in columns) + " |" for row in rows]
    first = rows[0]
    counts = "".join(
        f", {first[name]} {name}" for name in ("queries", "draws") if first.get(name) and name not in columns
    )
    return "\n".join([*lines, "", f"`{first['command']}`, {first['date']}, commit {first['commit']}{counts}."])


def placed(text: str, name: str, table: str) -> str:
    """`text` with what lies between <!-- table: name --> and <!-- end --> replaced."""
    start, end = f"<!-- table: {name} -->", "<!-- end -->"
    before, _, rest = text.partition(start)
    if not rest:
        raise ValueError(f"{THEORY} has no {start}")
    return before + start + "\n" + table + "\n" + end + rest.partition(end)[2]


def run() -> None:
    """Every table whose CSV is there."""
    text = THEORY.read_text("utf-8")
    for name in NAMES:
        try:
            rows = record.read(f"sketch-{name}")
        except FileNotFoundError as missing:
            print(f"skipped: {missing.filename} is not there; measure it first\n")
            continue
        columns = IN_DOCS.get(name) or tuple(column for column in rows[0] if column not in PROVENANCE)
        table = markdown(rows, columns)
        print(f"{name}\n\n{table}\n")
        if name in IN_DOCS:
            text = placed(text, name, table)
    THEORY.write_text(text, "utf-8")


def _cell(value: str) -> str:
    """Numbers in three digits, without exponents."""
    try:
        number = float(value)
    except ValueError:
        return value
    return value if number.is_integer() else f"{number:.3g}" if abs(number) >= 1e-3 else f"{number:.5f}"
