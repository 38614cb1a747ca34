"""Writes the list of modules in ARCHITECTURE.md from the first line of each module."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = ("config", "tenants", "agents", "tools_app", "memory", "sessions_app", "orchestrator")
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- modules -->\n", "<!-- /modules -->"
LEFT_OUT = {"migrations", "__pycache__"}


def modules(app: str) -> list[Path]:
    found = (ROOT / app).rglob("*.py")
    return sorted(p for p in found if not LEFT_OUT & set(p.parts) and p.stat().st_size)


def line(path: Path) -> str:
    """What the module says it is for."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return f"| `{path.relative_to(ROOT)}` | {said.splitlines()[0] if said else ''} |"


def module_map() -> str:
    tables = []
    for app in APPS:
        rows = "\n".join(line(path) for path in modules(app))
        tables.append(f"### {app}\n| module | what it is for |\n|---|---|\n{rows}\n")
    return "\n".join(tables)


def with_map(page: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + module_map() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text()))
