"""The tables of docs/reproduction.md, from the CSV files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from experiments import record, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproduction.md"
Rows = list[dict[str, str]]


def times(rows: Rows) -> str:
    """The paper's seconds beside ours, and both as multiples of LSH's."""
    paper = {(row["method"], row["samples"]): row["paper_seconds"] for row in rows if row.get("paper_seconds")}
    out = []
    for row in rows:
        theirs = paper.get((row["method"], row["samples"]), "")
        of_lsh = paper.get(("LSH", row["samples"]), "")
        out.append(
            {"method": row["method"], "samples": row["samples"], "paper, s": theirs, "ours, s": row["seconds"],
             "paper / LSH": _ratio(theirs, of_lsh), "ours / LSH": row["over_lsh"], "to build, s": row["build_seconds"]}
        )  # fmt: skip
    return tables.markdown(out, list(out[0]))


def accuracy(rows: Rows) -> str:
    """One line per method: log error at each number of samples, then relative error and bias at the first."""
    counts = list(dict.fromkeys(row["samples"] for row in rows))
    out: list[dict[str, str]] = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = {row["samples"]: row for row in rows if row["method"] == method}
        line = {"method": method}
        line |= {
            f"{count}": f"{tables.cell(mine[count]['error'])} ± {float(mine[count]['error_sd']):.2g}"
            for count in counts
        }
        line |= {f"rel. {count}": mine[count]["relative"] for count in counts}
        first = mine[counts[0]]
        line[f"bias {counts[0]}"] = f"{float(first['bias']):+.3f} ± {float(first['bias_se']):.2g}"
        out.append(line | {"scored": mine[counts[0]]["scored"]})
    return tables.markdown(out, list(out[0]))


def gumbel(rows: Rows) -> str:
    """The largest against the second largest."""
    counts = list(dict.fromkeys(row["samples"] for row in rows))
    out = [
        {"method": method} | {row["samples"]: row["error"] for row in rows if row["method"] == method}
        for method in dict.fromkeys(row["method"] for row in rows)
    ]
    return tables.markdown(out, ["method", *counts])


def chosen(*columns: str) -> Callable[[Rows], str]:
    """Some columns as they are."""
    return lambda rows: tables.markdown(rows, columns)


TABLES: Mapping[str, tuple[str, Callable[[Rows], str]]] = {
    "accuracy-ptb": ("paper-accuracy-ptb", accuracy),
    "accuracy-text8": ("paper-accuracy-text8", accuracy),
    "table2": ("paper-table2", times),
    "table3": ("paper-table3", times),
    "gumbel-ptb": ("paper-gumbel-ptb", gumbel),
    "gumbel-text8": ("paper-gumbel-text8", gumbel),
    "family": ("paper-gumbel-family", chosen("model", "method", "setting", "error", "error_sd", "mean", "times_root")),
    "covariance": (
        "paper-covariance",
        chosen("dataset", "hashing", "size", "independent", "covariance", "covariance_se", "contexts_positive",
               "size_variance", "size_variance_if_independent"),
    ),
    "memory": ("paper-memory", chosen("estimator", "built", "peak_mib", "allowed_mib", "within")),
}  # fmt: skip


def run() -> None:
    """Every table whose CSV is there, with the line that says where it comes from."""
    found = {}
    for name, (source, table) in TABLES.items():
        try:
            rows = record.read(source)
        except FileNotFoundError as missing:
            print(f"skipped: {missing.filename} is not there; measure it first")
            continue
        found[name] = f"{table(rows)}\n\n{tables.origin(rows, machine=True)}"
    tables.place(DOCUMENT, found)


def _ratio(a: str, b: str) -> str:
    return str(float(a) / float(b)) if a and b else ""
