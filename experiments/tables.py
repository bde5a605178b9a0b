"""Markdown tables from CSV rows, put between the markers of a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

PROVENANCE = ("date", "commit", "machine", "command", "seeds")


def markdown(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    """A table; numbers in three digits."""
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    lines += ["| " + " | ".join(cell(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def origin(rows: Sequence[Mapping[str, str]], machine: bool = False) -> str:
    """The line that says where rows come from: every command, date and commit that made some of them."""
    made = dict.fromkeys((row["command"], row["date"], row["commit"]) for row in rows)
    said = "; ".join(f"`{command}`, {date}, commit {commit}" for command, date, commit in made)
    return said + (f", on {rows[0]['machine']}." if machine else ".")


def place(document: Path, tables: Mapping[str, str]) -> None:
    """Replace what lies between <!-- table: name --> and <!-- end --> in a document, for each name."""
    text = document.read_text("utf-8")
    for name, table in tables.items():
        start, end = f"<!-- table: {name} -->", "<!-- end -->"
        before, _, rest = text.partition(start)
        if not rest:
            raise ValueError(f"{document} has no {start}")
        text = before + start + "\n" + table + "\n" + end + rest.partition(end)[2]
    document.write_text(text, "utf-8")


def measured(rows: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The columns of rows that are not about where they come from."""
    return tuple(dict.fromkeys(column for row in rows for column in row if column not in PROVENANCE))


def cell(value: str) -> str:
    """Numbers in three digits, without exponents."""
    try:
        number = float(value)
    except ValueError:
        return value
    if number.is_integer():
        return value
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}" if abs(number) >= 1e-3 else f"{number:.5f}"
