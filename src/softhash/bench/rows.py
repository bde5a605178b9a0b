"""Rows of a benchmark in a CSV file that grows as they are finished, and survives being cut off."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

COUNTS = ("size", "queries", "draws", "index_bytes")
WORDS = ("model", "method", "kind", "settings", "date", "version", "machine")


class Row(NamedTuple):
    """One setting of one method.

    Attributes:
        model: fingerprint of the model and the queries.
        method, kind, settings: family, class, and what it was built with.
        size: classes asked for per query; 0 where there is no choice.
        error, p95: mean and 95th percentile of |error of log Z|, in nats.
        bias, bias_se: mean of Ẑ/Z − 1 and its standard error over queries and draws; an index drawn once counts once.
        coverage: share of 95 % intervals that hold log Z; nan where no error is claimed.
        claimed: median claimed standard error.
        scored: classes scored per query.
        one_ms, one_spread: milliseconds per query one at a time: the median of several runs, and their range over it.
        batch_ms, batch_spread: the same in one batch of `queries`.
        index_bytes, build_seconds: of the index.
        queries, draws: measured over.
        date, version, machine: when and where.
    """

    model: str
    method: str
    kind: str
    settings: str
    size: int
    error: float
    p95: float
    bias: float
    bias_se: float
    coverage: float
    claimed: float
    scored: float
    one_ms: float
    one_spread: float
    batch_ms: float
    batch_spread: float
    index_bytes: int
    build_seconds: float
    queries: int
    draws: int
    date: str
    version: str
    machine: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes a row the same measurement."""
        return self.model, self.method, self.settings


def read(path: Path) -> list[Row]:
    """The complete rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    if lines and lines[0] != list(Row._fields):
        raise ValueError(f"--out is {str(path)!r}, which is not a file of this benchmark; pass another name")
    return [parsed(line) for line in lines[1:] if len(line) == len(Row._fields)]


def parsed(line: Sequence[str]) -> Row:
    """A row from its texts."""

    def value(name: str, text: str) -> Any:
        return text if name in WORDS else int(text) if name in COUNTS else float(text)

    return Row(**{name: value(name, text) for name, text in zip(Row._fields, line, strict=True)})


def begin(path: Path) -> list[Row]:
    """Make the file ready for appending: with its header, and without a row that was cut off. Its rows."""
    rows = read(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(map(_texts, rows))
    os.replace(temporary, path)
    return rows


def append(path: Path, row: Row) -> None:
    """Add a row, and have it on disk."""
    with open(path, "a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(_texts(row))
        file.flush()
        os.fsync(file.fileno())


def _texts(row: Row) -> list[object]:
    return [f"{value:.5g}" if isinstance(value, float) else value for value in row]
