"""Tests that `bin/setup run` leaves the front end as it is and needs no Node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.env import ROOT

#: Programs that must not be called. Each records that it was.
UNWANTED = ("node", "npm", "npx", "pip", "uv")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of what `bin/setup` reads, with installed packages and without Node."""
    target = tmp_path / "clone"
    ignored = shutil.ignore_patterns("node_modules")
    for name in ("bin", "frontend", "static"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    shutil.copyfile(ROOT / "requirements.lock", target / "requirements.lock")
    programs = target / ".venv" / "bin"
    programs.mkdir(parents=True)
    (target / ".venv" / "pyvenv.cfg").touch()
    write_program(programs / "python", "exit 0")
    write_program(programs / "bwrap", "exit 0")
    for name in UNWANTED:
        write_program(programs / name, f"echo {name} >>{target}/called")
    with (target / "requirements.lock").open() as lock:
        stamp = subprocess.run(["cksum"], stdin=lock, capture_output=True, check=True).stdout
    (target / ".venv" / "requirements.lock.stamp").write_bytes(stamp)
    return target


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def set_up(clone: Path) -> str:
    """Run `bin/setup run`, check that it called nothing unwanted, and return what it printed."""
    path = f"{clone}/.venv/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["bin/setup", "run"],
        cwd=clone,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (clone / "called").exists(), (clone / "called").read_text()
    return done.stdout + done.stderr


def read_build(clone: Path) -> dict[str, bytes]:
    files = (path for path in (clone / "static" / "dist").rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files}


def test_running_uses_the_built_pages_and_needs_no_node(clone: Path) -> None:
    built = read_build(clone)
    assert "manifest.json" in built

    assert set_up(clone) == ""
    assert read_build(clone) == built


def test_changed_sources_are_reported_and_need_no_node(clone: Path) -> None:
    built = read_build(clone)
    (clone / "frontend" / "src" / "main.ts").write_text("changed")

    assert "make pages" in set_up(clone)
    assert read_build(clone) == built


def test_the_build_in_the_repository_is_complete_and_has_no_source_maps() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "static/dist"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    on_disk = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "static" / "dist").rglob("*")
        if path.is_file()
    ]

    assert sorted(listed) == sorted(on_disk)
    assert not [name for name in listed if name.endswith(".map")]
