"""The tables of docs/reproduction.md, from the CSV files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from experiments import record, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproduction.md"
Rows = list[dict[str, str]]
COMPARED = (
    ("LSH", "Uniform"), ("LSH, not centred", "Uniform"),
    ("Exact Gumbel, a product for each maximum", "LSH"), ("Exact Gumbel", "LSH"),
    ("MIPS Gumbel, a product for each maximum", "LSH"), ("MIPS Gumbel", "LSH"),
    ("Prior", "LSH"), ("PriorityGumbel", "LSH"), ("Sketch", "LSH"),
)  # fmt: skip


def times(rows: Rows) -> str:
    """The paper's seconds beside ours."""
    out = [
        {"method": row["method"], "samples": row["samples"], "K, L": _shape(row), "scored": row["scored"],
         "paper, s": row["paper_seconds"],
         "ours, s": row["seconds"], "paper / ours": _ratio(row["paper_seconds"], row["seconds"]),
         "to build, s": row["build_seconds"]}
        for row in rows
    ]  # fmt: skip
    return tables.markdown(out, list(out[0]))


def ratios(rows: Rows) -> str:
    """What one method takes as a multiple of another: the paper's multiple, then ours."""
    counts = list(dict.fromkeys(row["samples"] for row in rows if row["build_seconds"]))
    by = {(row["method"], row["samples"]): row for row in rows}
    out = []
    for over, under in COMPARED:
        line = {"": f"{over} / {under}"}
        for count in counts:
            of, by_which = by[over, count], by[under, count]
            line[f"paper, {count}"] = _ratio(of["paper_seconds"], by_which["paper_seconds"])
            line[f"ours, {count}"] = _ratio(of["seconds"], by_which["seconds"])
        out.append(line)
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


def covariance(rows: Rows) -> str:
    """The two sums of the theorem, and what uniform samples of the same mean size have."""
    out = [
        {"hashing": row["hashing"], "cosine: best": row["best_cosine"], "median": row["median_cosine"],
         "p: best / median": row["best_over_median"], "classes drawn": row["size"], "uniform": row["uniform"],
         "first sum": row["independent"], "covariance term": row["covariance"],
         "from draws": f"{tables.cell(row['drawn_covariance'])} ± {float(row['drawn_covariance_se']):.2g}",
         "its positive part": row["positive"], "its negative part": row["negative"],
         "pairs below 0, %": str(100 * float(row["negative_pairs"])),
         "contexts above 0, %": str(100 * float(row["contexts_positive"])),
         "sd of classes drawn": row["size_sd"], "if independent": row["size_sd_if_independent"]}
        for row in rows
    ]  # fmt: skip
    return tables.markdown(out, list(out[0]))


def chosen(*columns: str) -> Callable[[Rows], str]:
    """Some columns as they are."""
    return lambda rows: tables.markdown(rows, columns)


TABLES: Mapping[str, tuple[str, Callable[[Rows], str]]] = {
    "accuracy-ptb": ("paper-accuracy-ptb", accuracy),
    "accuracy-text8": ("paper-accuracy-text8", accuracy),
    "table2": ("paper-table2", times),
    "table3": ("paper-table3", times),
    "table2-ratios": ("paper-table2", ratios),
    "table3-ratios": ("paper-table3", ratios),
    "gumbel-ptb": ("paper-gumbel-ptb", gumbel),
    "gumbel-text8": ("paper-gumbel-text8", gumbel),
    "family": ("paper-gumbel-family", chosen("model", "method", "setting", "error", "error_sd", "mean", "of_expected")),
    "shapes": (
        "paper-shapes", chosen("dataset", "method", "samples", "bits", "tables", "error", "error_sd", "relative")
    ),
    "covariance-ptb": ("paper-covariance-ptb", covariance),
    "covariance-text8": ("paper-covariance-text8", covariance),
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


def _shape(row: dict[str, str]) -> str:
    return f"{row['bits']}, {row['tables']}" if row.get("bits") else ""
