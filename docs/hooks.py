"""What the documentation's build adds: files above docs/, the help of commands, the names of a module."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
RESULTS = "experiments/results"
COLUMNS = 100


def on_files(files: Any, config: Any) -> Any:
    """Pages and pictures from files of the checkout, their links seen from docs/."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        for name, path in {**{file: page for page, file in PAGES.items()}, "docs/": ""}.items():
            text = re.sub(rf'(\]\(|src="|srcset=")({re.escape(name)})', rf"\g<1>{path}", text)
        files.append(File.generated(config, page, content=text))
    for picture in (ROOT / RESULTS).glob("*.svg"):
        files.append(File.generated(config, f"results/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """<!-- help: NAME --> becomes what `softhash NAME --help` prints, <!-- api: MODULE --> all of a module's names."""
    markdown = markdown.replace(f"](../{RESULTS}/", "](results/")
    markdown = re.sub(r"<!-- api: ([\w.]+) -->", lambda found: _names(found[1]), markdown)
    return re.sub(r"<!-- help: (\w+) -->", lambda found: f"```text\n{_help(found[1])}\n```", markdown)


def _names(module: str) -> str:
    """A directive for each name in __all__, read without importing: documentation needs no PyTorch."""
    file = ROOT / "src" / module.replace(".", "/") / "__init__.py"
    tree = ast.parse(file.read_text("utf-8"))
    (names,) = (
        ast.literal_eval(part.value)
        for part in tree.body
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__"
    )
    return "\n".join(f"::: {module}.{name}" for name in names)


def _help(command: str) -> str:
    from typer.testing import CliRunner

    from softhash.cli import app

    environment = {"COLUMNS": str(COLUMNS), "TERMINAL_WIDTH": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner().invoke(app, [command, "--help"], prog_name="softhash", env=environment)
    if done.exit_code:
        raise ValueError(f"softhash has no command {command!r}")
    return "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())


class Examples(griffe.Extension):
    """A section headed "Example:" is one of examples."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rename the heading before the docstring is parsed."""
        if obj.docstring is not None and not obj.is_alias:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
