"""The demo's picture: error against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from softhash.demo import Row

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#79706e")
PLACES = ((8, 0, "left", "center"), (0, 9, "center", "bottom"), (0, -9, "center", "top"), (-8, 0, "right", "center"))
"""Offsets of a label in points, and its alignment there, best first."""


def error_against_time(rows: Sequence[Row], title: str, path: Path) -> None:
    """Mean |error of log Z| against milliseconds per query, both logarithmic; exact is a line, having no error.

    Args:
        rows: as `softhash.demo.run` yields them, exact first; methods with the same first word are joined.
        title: above the picture.
        path: where to write it; the suffix chooses the format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    exact, others = rows[0], [row for row in rows[1:] if np.isfinite(row.error)]
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    families = dict.fromkeys(row.label.split()[0] for row in others)
    for colour, family in zip(COLOURS * len(families), families, strict=False):
        mine = sorted((row for row in others if row.label.split()[0] == family), key=lambda row: row.milliseconds)
        axes.plot([row.milliseconds for row in mine], [row.error for row in mine], "o-", color=colour, lw=1, alpha=0.8)
    axes.axvline(exact.milliseconds, color="black", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    times, errors = [row.milliseconds for row in rows], [row.error for row in others]
    axes.set(
        title=title,
        xlabel="milliseconds per query, in a batch",
        ylabel="mean |error of log Z|, nats",
        xlim=(min(times) / 1.6, max(times) * 2.2),
        ylim=(min(errors) / 2, max(errors) * 2),
    )
    axes.grid(True, which="both", alpha=0.2)
    axes.text(exact.milliseconds, max(errors) * 1.9, " exact", va="top", ha="left")
    _label(figure, axes, others)
    figure.savefig(path, dpi=150)


def _label(figure, axes, rows: Sequence[Row]) -> None:
    """Each label beside its point, at the first place around it that is free."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    points = axes.transData.transform([(row.milliseconds, row.error) for row in rows])
    taken = [_box_around(x, y, 4) for x, y in points]
    for row in rows:
        text = axes.annotate(row.label, (row.milliseconds, row.error), (8, 0), textcoords="offset points", fontsize=9)
        for dx, dy, horizontal, vertical in PLACES:
            text.set(position=(dx, dy), horizontalalignment=horizontal, verticalalignment=vertical)
            box = text.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)


def _box_around(x: float, y: float, reach: float):
    """A square of display space."""
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)
