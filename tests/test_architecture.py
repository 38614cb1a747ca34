"""ARCHITECTURE.md stays true."""

from __future__ import annotations

import re
from pathlib import Path

from bin.module_map import PAGE, ROOT, with_map


def test_the_list_of_modules_is_up_to_date():
    page = PAGE.read_text()

    assert page == with_map(page), "run: python bin/module_map.py"


def test_every_file_that_the_page_names_exists():
    page = PAGE.read_text().split("<!-- modules -->")[0]
    named = re.findall(r"`([a-z_]+(?:/[a-z_.]+)+)`", page)

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert Path(ROOT / "templates/README.md").exists()
