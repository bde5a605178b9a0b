"""The README's table of `softhash demo`: `python -m experiments.demo` measures, with --table only writes the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments import record, tables
from softhash import demo

README = Path(__file__).parents[1] / "README.md"


def measure() -> None:
    """What `softhash demo` measures, to a table and results/demo.csv."""
    task = demo.problem()
    rows = [
        {"method": row.label, "scored": row.scored, "share": 100 * row.share, "error": row.error,
         "claimed": row.claimed, "ms_per_query": row.milliseconds, "times_exact": row.speedup}
        for row in demo.run(task)
    ]  # fmt: skip
    record.save("demo", rows, seeds="0", title="softhash demo")


def table() -> str:
    """Markdown, with the line that says where it comes from."""
    rows = record.read("demo")
    named = {"method": "method", "scored": "classes scored", "share": "% of N", "error": "error", "claimed": "claimed",
             "ms_per_query": "ms per query", "times_exact": "times as fast as exact"}  # fmt: skip
    shown = [{title: row[name].replace("nan", "–") for name, title in named.items()} for row in rows]
    return tables.markdown(shown, list(named.values())) + "\n\n" + tables.origin(rows, machine=True)


def main() -> None:
    """Measure unless told not to, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only write the table of what was measured")
    if not parser.parse_args().table:
        measure()
    tables.place(README, {"demo": table()})


if __name__ == "__main__":
    main()
