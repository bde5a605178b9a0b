"""softhash estimate: log Z of every query, from files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import softhash
from softhash import checks
from softhash.commands.errors import one_line_errors
from softhash.commands.methods import Settings, available, method_named


def estimate(
    weights: Annotated[str, typer.Option(help="Class vectors (N, d): .npy, .npz[:NAME] or .safetensors[:NAME].")],
    queries: Annotated[str, typer.Option(help="Queries (Q, d), likewise.")],
    out: Annotated[Path, typer.Option(help="The .npz to write, with log_z, std_error and evaluations per query.")],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(available())}.")] = "sketch",
    bias: Annotated[str | None, typer.Option(help="Biases (N,), likewise.")] = None,
    calibration: Annotated[
        str | None,
        typer.Option(help="Typical queries (n, d), for methods that adapt to them.", show_default="the queries"),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Classes scored per query.", show_default="200")] = None,
    bits: Annotated[
        int | None, typer.Option(help="lsh, mips-gumbel: bits per code.", show_default="tuned to --size")
    ] = None,
    tables: Annotated[
        int | None, typer.Option(help="lsh, mips-gumbel: hash tables.", show_default="tuned to --size")
    ] = None,
    transform: Annotated[str | None, typer.Option(help="lsh: cosine or mips.", show_default="cosine")] = None,
    floor: Annotated[int | None, typer.Option(help="lsh: uniform draws that join in.", show_default="0")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same answer.")] = 0,
) -> None:
    """Estimate log Z for every query, and say how far off the estimates may be."""
    with one_line_errors():
        from softhash import arrays, console

        checks.positive_int("--seed", seed, least=0)
        settings = Settings(size, bits, tables, transform, floor, seed)
        chosen = method_named(method, settings)
        arrays.check_destination("--out", out)
        model = softhash.LogLinear(
            arrays.read("--weights", weights), None if bias is None else arrays.read("--bias", bias)
        )
        batch = checks.queries(arrays.read("--queries", queries), model.dim)
        typical = batch
        if calibration is not None:
            typical = checks.matrix("calibration", arrays.read("--calibration", calibration), model.dim)
        start = time.perf_counter()
        estimator = chosen.build(getattr(softhash, chosen.kind), model, typical, settings)
        built = time.perf_counter()
        result = estimator.log_partition(batch, rng=seed)
        arrays.write_npz("--out", out, result._asdict())
        console.print_summary(result, model.n_classes, built - start, time.perf_counter() - built, out)
