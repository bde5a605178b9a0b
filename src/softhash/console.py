"""What the command line shows: progress, tables, summaries."""

from __future__ import annotations

import csv
import datetime
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import softhash
from softhash import demo
from softhash.bench.advice import advice
from softhash.bench.rows import Row
from softhash.search import Trial
from softhash.types import Estimate

COLUMNS = ("classes\nscored", "% of N", "mean\n|error|", "claimed\nerror", "ms per\nquery", "times\nas fast")


def measure_with_progress(n_classes: int, dim: int, n_queries: int, seed: int) -> tuple[list[demo.Row], str]:
    """The demo's rows and its title, with a progress bar on a terminal."""
    columns = (TextColumn("{task.description:<36}"), BarColumn(), TimeElapsedColumn())
    labels = [method.label for method in demo.methods()]
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task("making a model, and its log Z exactly", total=len(labels) + 1)
        task = demo.problem(n_classes, dim, n_queries, seed)
        rows, running = [], demo.run(task, seed)
        for label in labels:
            progress.update(bar, advance=1, description=label)
            rows.append(next(running))
    spread = task.log_z.std()
    title = f"{n_classes:,} classes × {dim}, {n_queries:,} queries, log Z {task.log_z.mean():.1f} ± {spread:.1f}"
    return rows, title


def print_table(rows: Sequence[demo.Row], title: str) -> None:
    """The demo's table."""
    table = Table(title=title, title_justify="left", title_style="bold", caption_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.label,
            f"{row.scored:,.0f}",
            f"{100 * row.share:.2f}",
            number(row.error) + ("*" if row.empty else ""),
            number(row.claimed),
            f"{row.milliseconds:.4f}",
            f"{row.speedup:.1f}",
        )
    if any(row.empty for row in rows):
        empty = ", ".join(f"{row.label}: {row.empty}" for row in rows if row.empty)
        table.caption = f"* leaves out queries for which nothing was drawn ({empty})"
    Console().print(table)


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, on a terminal."""
    terminal = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task("starting", total=None)
        yield lambda line: progress.update(bar, description=line)


def print_trials(trials: Sequence[Trial], title: str, every: bool) -> None:
    """The table of `tune`: all of it, or of each method the fastest that was accurate enough, else the best."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name in ("method", "settings"):
        table.add_column(name)
    for name in ("error", "verified", "ms per\nquery", "index\nMB", "build\ns"):
        table.add_column(name, justify="right")
    table.add_column("")
    for trial in trials if every else _notable(trials):
        megabytes = f"{trial.index_bytes / 1e6:.1f}" if trial.index_bytes else "–"
        numbers = [number(trial.error), number(trial.verified), short(trial.milliseconds), megabytes]
        table.add_row(trial.method, trial.settings, *numbers, short(trial.build_seconds, 1), trial.note)
    Console().print(table)


def _notable(trials: Sequence[Trial]) -> list[Trial]:
    """The answer, what was compared with it, and of each other method the most accurate setting."""
    kept = [trial for trial in trials if trial.note]
    for method in dict.fromkeys(trial.method for trial in trials):
        mine = [trial for trial in trials if trial.method == method]
        if not any(trial in kept for trial in mine):
            kept.append(min(mine, key=lambda trial: trial.error))
    return kept


def print_advice(rows: Sequence[Row]) -> None:
    """Which method for which error, in words."""
    table = Table(title="The cheapest for an error", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("error", justify="right")
    for name in ("queries come", "use"):
        table.add_column(name)
    for found in advice(rows):
        table.add_row(f"{found.error:g}", found.mode, found.sentence())
    Console().print(table)


def short(value: float, digits: int = 4) -> str:
    """A number of so many decimals, or a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def number(value: float) -> str:
    """An error in nats, short."""
    if math.isnan(value):
        return "–"
    return "0" if value == 0 else f"{value:.3f}" if value >= 1e-3 else f"{value:.0e}"


def write_csv(rows: Sequence[demo.Row], path: Path, model: str) -> None:
    """The table as numbers, with where and when they were made."""
    where = [datetime.date.today().isoformat(), softhash.__version__, platform.machine(), os.cpu_count(), model]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "version", "machine", "cores", "model", *demo.Row._fields])
        writer.writerows([*where, *row] for row in rows)


def print_summary(estimate: Estimate, n_classes: int, build_seconds: float, seconds: float, out: Path) -> None:
    """A few lines about an estimate that was written to `out`."""
    drawn = np.isfinite(estimate.log_z)
    claims = estimate.std_error[drawn & ~np.isnan(estimate.std_error)]
    claimed = number(float(np.median(claims))) if len(claims) else "–"
    scored = estimate.evaluations.mean()
    lines = [
        f"queries             {len(drawn):,}",
        f"mean log Z          {estimate.log_z[drawn].mean():.4f}" if drawn.any() else "mean log Z          –",
        f"claimed error       {claimed} (median standard error of log Z, nats)",
        f"classes scored      {scored:,.1f} per query, {100 * scored / n_classes:.2f} % of {n_classes:,}",
        f"time                {build_seconds:.2f} s to build, {seconds:.2f} s to estimate",
        f"written             {out}",
    ]
    if not drawn.all():
        none = f"{(~drawn).sum():,} queries: their log_z is -inf; raise --size or --floor"
        lines.insert(1, f"nothing drawn for   {none}")
    print("\n".join(lines))
