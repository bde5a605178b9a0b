"""Measured rows as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from softhash.bench.advice import TIMES, Advice, advice
from softhash.bench.rows import Row


def write(rows: Sequence[Row], path: Path, title: str, environment: dict[str, str]) -> None:
    """Write the page.

    Args:
        rows: of one model.
        path: an .html file.
        title: what was measured.
        environment: facts to list at the end.
    """
    path.write_text(page(rows, title, environment), encoding="utf-8")


def page(rows: Sequence[Row], title: str, environment: dict[str, str]) -> str:
    """The page as text."""
    files = resources.files("softhash.bench")
    style, script, template = (files.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js", "html"))
    return Template(template).substitute(
        title=html.escape(title),
        summary=html.escape(_summary(rows)),
        advice=_advice(rows),
        batch=f"{rows[0].queries:,}",
        environment=_definitions(environment),
        data=_json(rows),
        style=style,
        script=script,
    )


def _summary(rows: Sequence[Row]) -> str:
    in_batches = {found.error: found for found in advice(rows) if found.mode == "in batches"}
    exact = [row for row in rows if row.kind == "Exact"]
    told = f"{len(rows)} settings of {len({row.method for row in rows})} methods, over {rows[0].queries:,} queries."
    if exact:
        told += (
            f" Exact computation takes {exact[0].batch_ms:.3g} ms per query in batches, {exact[0].one_ms:.3g} alone."
        )
    found = in_batches.get(0.05)
    return told + (f" For an error of 0.05 nats, in batches: {found.sentence()}." if found else "")


def _advice(rows: Sequence[Row]) -> str:
    """A table: an error per line, a mode per column."""
    found = {(each.error, each.mode): each for each in advice(rows)}
    errors = sorted({error for error, _ in found}, reverse=True)
    head = "".join(f'<th scope="col" class="words">{html.escape(mode)}</th>' for mode in TIMES)
    lines = [
        f'<tr><th scope="row">≤ {error:g}</th>' + "".join(_cell(mode, found[error, mode]) for mode in TIMES) + "</tr>"
        for error in errors
    ]
    return (
        f'<table class="advice"><thead><tr><th scope="col">error</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _cell(mode: str, found: Advice) -> str:
    return f'<td class="words" data-mode="{html.escape(mode)}">{html.escape(found.sentence())}</td>'


def _definitions(environment: dict[str, str]) -> str:
    pairs = (f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in environment.items())
    return f"<dl>{''.join(pairs)}</dl>"


def _json(rows: Sequence[Row]) -> str:
    """Rows for the script; JSON has no NaN, and no text may end the script element."""

    def plain(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    records = [{name: plain(value) for name, value in row._asdict().items()} for row in rows]
    return json.dumps(records, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
