"""The tables of docs/choosing.md from CSV files: `python -m experiments.choosing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import record, tables

PAGE = Path(__file__).parents[1] / "docs" / "choosing.md"
DRAWS = {(256, 1): "256 × 1", (256, 100): "256 × 100", (1, 1): "1 × 1", (1, 100): "1 × 100"}


def topk() -> str:
    """Each index at its middle setting, in every coordinate system."""
    rows = [row for row in record.read("topk") if row["search"] in ("", "nprobe=64", "efSearch=400")]
    titles = {"index": "index", "search": "search", "coordinates": "coordinates", "recall": "recall of the best 200",
              "error": "error", "ms_per_query": "ms per query"}  # fmt: skip
    return table(rows, titles)


def draws() -> str:
    """Draws per second of each method: a column for queries at a time × draws for each."""
    rows = [row for row in record.read("draw") if row["what"] == "speed"]
    names = dict.fromkeys((row["method"], row["exact"]) for row in rows)
    speed = {
        (row["method"], int(row["queries"]), int(row["draws_per_query"])): f"{float(row['draws_per_second']):,.0f}"
        for row in rows
    }
    shown = [
        {"method": name, "exact": exact}
        | {title: speed.get((name, *mode), "–") for mode, title in DRAWS.items()}
        for name, exact in names
    ]  # fmt: skip
    return tables.markdown(shown, list(shown[0])) + "\n\n" + tables.origin(rows, machine=True)


def tune() -> str:
    """The answers, each beside the cheapest that an exhaustive search finds."""
    found = [record.read(path.stem) for path in sorted(record.RESULTS.glob("tune-*.csv"))]
    rows = [rows[0] | {"cheapest": f"{rows[1]['method']} {rows[1]['settings']}"} for rows in found]
    shown = [row | {"answer": f"{row['method']} {row['settings']}", "seconds": row["tune_seconds"]} for row in rows]
    titles = {"model": "model", "batch": "batch", "answer": "answer", "error": "error", "ms_per_query": "ms per query",
              "cheapest": "cheapest of all", "over_cheapest": "its time over that", "seconds": "s taken"}  # fmt: skip
    return table(shown, titles)


def table(rows: Sequence[Mapping[str, str]], titles: Mapping[str, str]) -> str:
    """Some columns, renamed, with the line that says where they come from."""
    shown = [{title: row[name] for name, title in titles.items()} for row in rows]
    return tables.markdown(shown, list(titles.values())) + "\n\n" + tables.origin(rows, machine=True)


if __name__ == "__main__":
    tables.place(PAGE, {"topk": topk(), "draws": draws(), "tune": tune()})
