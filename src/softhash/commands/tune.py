"""softhash tune: the cheapest method that is accurate enough, for a model and queries from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import softhash
from softhash.commands.errors import one_line_errors


def tune(
    weights: Annotated[str, typer.Option(help="Class vectors (N, d): .npy, .npz[:NAME] or .safetensors[:NAME].")],
    queries: Annotated[str, typer.Option(help="Typical queries (n, d), likewise; a few thousand are best.")],
    error: Annotated[float, typer.Option(help="Largest mean |error of log Z|, in nats.")] = 0.05,
    batch: Annotated[int, typer.Option(help="Queries that will come at a time; 1 for one by one.")] = 1024,
    seconds: Annotated[float, typer.Option(help="To spend, about.")] = 60.0,
    memory: Annotated[float | None, typer.Option(help="Largest index, in megabytes.", show_default="any")] = None,
    milliseconds: Annotated[float | None, typer.Option(help="Per query, at most.", show_default="any")] = None,
    bias: Annotated[str | None, typer.Option(help="Biases (N,), from a file as well.")] = None,
    candidates: Annotated[
        str | None, typer.Option(help="Methods to consider, separated by commas.", show_default="all")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the index of the answer here, for softhash.load.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split of the queries.")] = 0,
    every: Annotated[bool, typer.Option("--every", help="Print everything measured, not the best of each.")] = False,
) -> None:
    """Measure candidates on your own queries and name the cheapest that is accurate enough."""
    with one_line_errors():
        from softhash import arrays, console

        if save is not None:
            arrays.check_destination("--save", save)
        model = softhash.LogLinear(
            arrays.read("--weights", weights), None if bias is None else arrays.read("--bias", bias)
        )
        with console.working() as progress:
            result = softhash.tune(
                model, arrays.read("--queries", queries), error, None if candidates is None else candidates.split(","),
                seed, batch=batch, seconds=seconds, memory=None if memory is None else int(memory * 10**6),
                milliseconds=milliseconds, progress=progress,
            )  # fmt: skip
        console.print_trials(result.table, f"mean |error| at most {error:g}, {batch:,} queries at a time", every)
        if save is None:
            return
        if isinstance(result.best, softhash.Sampler):
            result.best.save(save)
            typer.echo(f"Wrote {save}")
        else:
            typer.echo(f"{type(result.best).__name__} has no index: {save} was not written")
