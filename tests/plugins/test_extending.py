"""Tests that every recipe of docs/extending.md works, in a plugin that `startplugin` wrote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from django.core.management import call_command

from core.env import ROOT

BLOCK = re.compile(r"^```python\n# (acme/\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGE = ROOT / "docs" / "extending.md"


def run(folder: Path, *command: str, required: str = "acme") -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder, and these plugins required."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(folder), "PLUGINS": required}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a plugin as its author does, with the settings that its pyproject names."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def write_recipes(folder: Path) -> None:
    """Add each block of the page to the file that its first line names."""
    text = PAGE.read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python") > 15
    for name, code in blocks:
        with (folder / name).open("a") as file:
            file.write(f"\n\n{code}")


def test_every_recipe_of_the_cookbook_works(tmp_path):
    folder = tmp_path / "acme"
    call_command("startplugin", "acme", str(folder), verbosity=0)
    write_recipes(folder)
    recipes = (ROOT / "tests" / "plugins" / "recipes.py").read_text()
    (folder / "acme" / "tests" / "test_recipes.py").write_text(recipes)

    made = run(folder, "manage.py", "makemigrations", "acme", "--settings", "acme.tests.settings")
    assert made.returncode == 0, made.stderr
    tested = run_tests(folder)

    assert tested.returncode == 0, tested.stdout[-8000:]
    covered = re.findall(r"^def test_(\w+)", recipes, re.MULTILINE)
    sections = re.findall(r"^## ((?:A|An) .*|Settings)$", PAGE.read_text(), re.MULTILINE)
    # `tests/tools_app/test_mcp_stdio.py` tests the last one.
    missing = [one for one in sections if one.lower().replace(" ", "_") not in covered]
    assert missing == ["An MCP server"]
