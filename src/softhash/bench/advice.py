"""Which method for which error, from measured rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softhash.bench.rows import Row

ERRORS = (1.0, 0.3, 0.1, 0.05, 0.02, 0.01)
TIMES = {"in batches": "batch_ms", "one at a time": "one_ms"}


class Advice(NamedTuple):
    """The cheapest row for an error, in one mode, and how many times as fast as exact float32 it is."""

    error: float
    mode: str
    row: Row
    times_exact: float

    def sentence(self) -> str:
        """In words."""
        settings = f" ({self.row.settings})" if self.row.settings else ""
        milliseconds = getattr(self.row, TIMES[self.mode])
        if self.row.kind == "Exact":
            return f"compute exactly: {milliseconds:.3g} ms per query"
        return (
            f"{self.row.kind}{settings}: {milliseconds:.3g} ms per query, {self.times_exact:.1f}× exact float32, "
            f"off by {self.row.error:.3g}"
        )


def front(rows: Sequence[Row], time: str) -> list[Row]:
    """The rows that no other beats in both error and time, by rising time."""
    best: list[Row] = []
    for row in sorted(rows, key=lambda row: (getattr(row, time), row.error)):
        if not best or row.error < best[-1].error:
            best.append(row)
    return best


def advice(rows: Sequence[Row]) -> list[Advice]:
    """For each error and mode, the cheapest row that is at most so far off."""
    found = []
    for mode, time in TIMES.items():
        exact = min((getattr(row, time) for row in rows if row.kind == "Exact"), default=float("nan"))
        for error in ERRORS:
            meeting = [row for row in rows if row.error <= error]
            if meeting:
                row = min(meeting, key=lambda row: getattr(row, time))
                found.append(Advice(error, mode, row, exact / getattr(row, time)))
    return found
