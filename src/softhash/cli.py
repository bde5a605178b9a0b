"""The command line: what `softhash` runs."""

from __future__ import annotations

from typing import Annotated

import typer

import softhash
from softhash.commands.bench import bench
from softhash.commands.demo import demo
from softhash.commands.estimate import estimate
from softhash.commands.tune import tune

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Estimate the normaliser of a softmax over very many classes from a few of them.",
)


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


for command in (demo, estimate, tune, bench):
    app.command()(command)
