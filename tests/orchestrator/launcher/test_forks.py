"""Tests that `up` can fork its programs safely, and that they load nothing large at their start."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.env import ROOT
from orchestrator.launcher.forks import Fork

#: Packages that only some requests or runs need. They are imported where they are used. Importing
#: `daphne.server` opens an event loop, which the web processes would share.
LARGE = [
    "channels_redis",
    "daphne.server",
    "fsspec",
    "genai_prices",
    "google.genai",
    "lxml",
    "mcp",
    "mcp_types",
    "numpy",
    "openai",
    "playwright",
    "pytest",
    "redis",
    "trafilatura",
    "twisted.internet.reactor",
    "wordllama",
]
PRELOAD = f"""
import os, sys
import django
django.setup()
from orchestrator.launcher import stack
from orchestrator.launcher.forks import share_memory
share_memory()
import config.asgi
print(*[name for name in {LARGE} if name in sys.modules])
print(len(os.listdir("/proc/self/task")))
"""


def test_no_program_imports_a_large_package_or_starts_a_thread_before_it_is_forked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELOAD], cwd=ROOT, capture_output=True, text=True, check=True
    )

    imported, threads = done.stdout.splitlines()

    assert imported == ""
    assert threads == "1"


def test_a_fork_beside_a_thread_is_refused(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="other")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="other"):
            Fork(["-m", "this"], title="", mark="", log=tmp_path / "log", descriptors=())
    finally:
        done.set()
        thread.join()
