"""Runs every program of the pages about doors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.env import ROOT
from tests.doors.conftest import Model
from tests.stack.client import Client
from tests.stack.running import Running

PROGRAMS = [
    pytest.param(program, id=f"{page.stem}-{number}")
    for page in sorted(Path(ROOT, "docs", "doors").glob("*.md"))
    for number, program in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_of_the_documentation_runs(
    program: str, client: Client, stack: Running, model: Model
):
    env = {"OPENAI_BASE_URL": f"{stack.base_url}/v1", "OPENAI_API_KEY": client.key}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "Hello there." in ended.stdout
