"""Runs the clients for Node, which are packages of the front end's development."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from core.env import ROOT


def run_node(program: str, given: dict[str, Any]) -> Any:
    """Run a program of `frontend/doors` with this JSON as its input, and return what it prints."""
    own = ROOT / ".venv" / "node" / "bin" / "node"
    node = str(own) if own.exists() else shutil.which("node")
    assert node
    ended = subprocess.run(
        [node, f"doors/{program}.mjs"],
        cwd=ROOT / "frontend",
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
