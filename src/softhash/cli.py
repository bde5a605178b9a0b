"""The command line: softhash demo, softhash estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import softhash
from softhash import checks

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Estimate the normaliser of a softmax over very many classes from a few of them.",
)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Expected failures end in one line on stderr and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        typer.echo(f"softhash: {message}", err=True)
        raise typer.Exit(2) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"softhash {softhash.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
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


@dataclass(frozen=True)
class Settings:
    """The options of `estimate` that choose and shape a method; None where the user said nothing."""

    size: int | None
    bits: int | None
    tables: int | None
    transform: str | None
    floor: int | None
    seed: int

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these options that were given."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class Method:
    """A method of `estimate`: its class, the options it takes, and how to build it."""

    kind: str
    options: tuple[str, ...]
    build: Callable[[Any, softhash.LogLinear, Any, Settings], softhash.Estimator]


def _exact(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model)


def _uniform(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, **settings.given("size"))


def _prior(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, queries=queries, **settings.given("size"))


def _lsh(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    shape = settings.given("bits", "tables")
    rest = settings.given("transform", "floor") | {"rng": settings.seed}
    if shape:
        return kind(model, **shape, **settings.given("size"), **rest)
    return kind.tuned(model, 200 if settings.size is None else settings.size, queries, **rest)


def _sketch(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, queries=queries, rng=settings.seed, **settings.given("size"))


METHODS = {
    "exact": Method("Exact", (), _exact),
    "uniform": Method("Uniform", ("size",), _uniform),
    "prior": Method("Prior", ("size",), _prior),
    "lsh": Method("LSH", ("size", "bits", "tables", "transform", "floor"), _lsh),
    "sketch": Method("Sketch", ("size",), _sketch),
}


def _available() -> list[str]:
    return [name for name, method in METHODS.items() if hasattr(softhash, method.kind)]


def _method(name: str, settings: Settings) -> Method:
    """The method of this name, if this version has it and it takes what was given."""
    known = _available()
    if name not in known:
        raise ValueError(f"--method is {name!r}; pass one of {', '.join(known)}")
    method = METHODS[name]
    for option in settings.given("size", "bits", "tables", "transform", "floor"):
        if option not in method.options:
            takers = [key for key in known if option in METHODS[key].options]
            raise ValueError(
                f"--{option} means nothing to --method {name}; drop it, or pass --method {' or '.join(takers)}"
            )
    return method


@app.command()
def estimate(
    weights: Annotated[str, typer.Option(help="Class vectors (N, d): .npy, .npz[:NAME] or .safetensors[:NAME].")],
    queries: Annotated[str, typer.Option(help="Queries (Q, d), likewise.")],
    out: Annotated[Path, typer.Option(help="The .npz to write, with log_z, std_error and evaluations per query.")],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(_available())}.")] = "lsh",
    bias: Annotated[str | None, typer.Option(help="Biases (N,), likewise.")] = None,
    calibration: Annotated[
        str | None,
        typer.Option(help="Typical queries (n, d), for methods that adapt to them.", show_default="the queries"),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Classes scored per query.", show_default="200")] = None,
    bits: Annotated[int | None, typer.Option(help="lsh: bits per code.", show_default="tuned to --size")] = None,
    tables: Annotated[int | None, typer.Option(help="lsh: hash tables.", show_default="tuned to --size")] = None,
    transform: Annotated[str | None, typer.Option(help="lsh: cosine or mips.", show_default="cosine")] = None,
    floor: Annotated[int | None, typer.Option(help="lsh: uniform draws that join in.", show_default="0")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same answer.")] = 0,
) -> None:
    """Estimate log Z for every query, and say how far off the estimates may be."""
    with one_line_errors():
        from softhash import arrays, console

        checks.positive_int("--seed", seed, least=0)
        settings = Settings(size, bits, tables, transform, floor, seed)
        chosen = _method(method, settings)
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
