"""Measurements as CSV with when, where and how they were made, and as a table on the screen."""

from __future__ import annotations

import csv
import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from experiments.data import CACHE

RESULTS = Path(__file__).parent / "results"
Row = Mapping[str, object]


def save(name: str, rows: Sequence[Row], *, seeds: str, quick: bool = False, title: str = "") -> Path:
    """Write rows to results/name.csv (of a quick run: to the cache) and print them."""
    path = (CACHE if quick else RESULTS) / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    where = provenance() | {"seeds": seeds}
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*where, *columns])
        writer.writeheader()
        writer.writerows(where | {column: short(value) for column, value in row.items()} for row in rows)
    show(rows, columns, title or name)
    print(f"{where['date']}, commit {where['commit']}, {where['machine']}, {where['command']} -> {path}")
    return path


def read(name: str, quick: bool = False) -> list[dict[str, str]]:
    """The rows of results/name.csv."""
    with open((CACHE if quick else RESULTS) / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def exists(name: str) -> bool:
    """Whether results/name.csv has been measured."""
    return (RESULTS / f"{name}.csv").exists()


def provenance() -> dict[str, str]:
    """Date, commit (with + where files differ from it), machine and command."""
    changed = _git("status", "--porcelain", "--", "src", "experiments/**.py")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if changed else ""),
        "machine": f"{os.cpu_count()} cores of {_processor()}",
        "command": " ".join(["python -m", _module(Path(sys.argv[0])), *sys.argv[1:]]),
    }


def _module(file: Path) -> str:
    """The name a module of this package was run by."""
    parts = file.with_suffix("").parts
    parts = parts[len(parts) - 1 - parts[::-1].index(str(__package__)) :] if __package__ in parts else parts[-1:]
    return ".".join(part for part in parts if part != "__main__")


def short(value: object) -> object:
    """Floats in four significant digits, large ones to the unit."""
    if not isinstance(value, float):
        return value
    return f"{value:.4g}" if abs(value) < 9999.5 or abs(value) >= 1e15 else f"{value:.0f}"


def show(rows: Iterable[Row], columns: Sequence[str], title: str) -> None:
    """Print a table, never cut to the width of the screen."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(str(short(row.get(column, ""))) for column in columns))
    console = Console()
    console.width = max(console.width, 200)
    console.print(table)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
