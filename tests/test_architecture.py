"""Tests that ARCHITECTURE.md stays short and names files that exist."""

from __future__ import annotations

import re

from core.env import ROOT

PAGE = ROOT / "ARCHITECTURE.md"
MOST_LINES = 300
#: A path of this repository with a folder in it, in the picture or between backticks.
PATHS = re.compile(r"(?<![\w/.*])((?:[a-z_]+/)+(?:[\w.-]+\.(?:py|sql|md|ts|toml|lock)\b|\b)?)")
TESTS = re.compile(r"(?<!/)\b(test_\w+\.py)\b")


def test_the_page_is_short_enough_to_be_read():
    assert len(PAGE.read_text().splitlines()) <= MOST_LINES


def test_every_path_on_the_page_exists():
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    named = {path for path in PATHS.findall(PAGE.read_text()) if path.split("/")[0] in tops}

    assert len(named) > 80
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_test_on_the_page_exists():
    existing = {path.name for path in (ROOT / "tests").rglob("test_*.py")}

    assert set(TESTS.findall(PAGE.read_text())) - existing == set()
