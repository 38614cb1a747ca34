"""Tests that the example plugin installs with pip, and that its own tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

from config.settings.base import APPS
from core.env import ROOT
from tests.plugins.test_extending import run_tests

EXAMPLE = ROOT / "examples" / "sql_tools"
#: The folders of a clone that a command needs.
FOLDERS = ("config", *APPS, "templates", "static", "examples")


def install(clone: Path, python: str, *options: str) -> None:
    """Install the example of a clone as its README says; pip gets setuptools where `bin/setup` does."""
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", *options, "./examples/sql_tools"],
        cwd=clone,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
    )


def copy_source(clone: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, clone / name, ignore=ignored)
    shutil.copy(ROOT / "manage.py", clone)
    return clone


def test_a_fresh_clone_finds_the_example_after_pip_install(tmp_path):
    clone = copy_source(tmp_path / "clone")
    venv.create(clone / ".venv", symlinks=True)
    # The packages of Switchyard itself, which take minutes to install.
    site = next((clone / ".venv" / "lib").glob("python*/site-packages"))
    (site / "switchyard.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = str(clone / ".venv" / "bin" / "python")
    install(clone, python)

    listed = subprocess.run(
        [python, "manage.py", "plugins"],
        cwd=clone,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert listed.returncode == 0, listed.stderr
    assert "sql_tools 0.1.0 (sql_tools)" in listed.stdout
    assert "  tool: sql_tables, sql_describe, sql_query" in listed.stdout
    assert "  workflow: sql-report" in listed.stdout
    assert "  node: sql_table" in listed.stdout
    assert "  page: /plugins/sql_tools/" in listed.stdout


def test_the_tests_of_the_example_pass():
    tested = run_tests(EXAMPLE)

    assert tested.returncode == 0, tested.stdout[-8000:] + tested.stderr
