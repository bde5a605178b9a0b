"""softhash demo: every method on a synthetic model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softhash import checks
from softhash.commands.errors import one_line_errors


def demo(
    classes: Annotated[int, typer.Option(help="N, the number of classes.")] = 50_000,
    dim: Annotated[int, typer.Option(help="d, the dimension of a class vector.")] = 256,
    queries: Annotated[int, typer.Option(help="Queries to measure on.")] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of the model and of every method.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf. A .csv goes beside it.")] = Path(
        "demo.png"
    ),
) -> None:
    """Run every method on a synthetic language-model output layer: a table, and error against time as a picture.

    Needs no data and no network.
    """
    with one_line_errors():
        from softhash import arrays, console, picture

        arrays.check_destination("--out", out)
        if out.suffix not in picture.FORMATS:
            raise ValueError(f"--out is {str(out)!r}; pass a name that ends in {', '.join(picture.FORMATS)}")
        for name, value, least in (
            ("classes", classes, 1),
            ("dim", dim, 8),
            ("queries", queries, 1),
            ("seed", seed, 0),
        ):
            checks.positive_int(f"--{name}", value, least=least)
        rows, title = console.measure_with_progress(classes, dim, queries, seed)
        console.print_table(rows, title)
        console.write_csv(rows, out.with_suffix(".csv"), f"{classes}x{dim}")
        picture.error_against_time(rows, title, out)
        typer.echo(f"Wrote {out} and {out.with_suffix('.csv')}")
