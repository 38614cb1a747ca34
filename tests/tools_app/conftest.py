"""Fixtures for the tests of tools: a data folder per test, and contexts to call tools in."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from core.ids import uuid7
from tools_app.files import SessionFolder
from tools_app.registry import ToolContext, registry
from tools_app.sandbox.base import Limits
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.provisioning import LazySandbox

#: Skips a test without bubblewrap; with SWITCHYARD_REQUIRE_SANDBOX set, as in CI, it fails.
needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("SWITCHYARD_REQUIRE_SANDBOX"),
    reason="bubblewrap is not installed: apt install bubblewrap",
)


@pytest.fixture
def data_dir(settings: Any) -> Iterator[Path]:
    """Create a data folder that the sandbox's user can enter; pytest's tmp_path is private."""
    folder = Path(tempfile.mkdtemp(prefix="switchyard-")).resolve()
    folder.chmod(0o711)
    settings.DATA_DIR = folder
    yield folder
    _remove(folder)


def _remove(folder: Path) -> None:
    """Delete the folder, also while the keeper of a stopped command still writes how it ended."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(folder)


@pytest.fixture
def folder(data_dir: Path) -> SessionFolder:
    return SessionFolder(workspace_id=uuid7(), session_id=uuid7())


@pytest.fixture
def files(folder: SessionFolder) -> Path:
    return folder.make()


@pytest.fixture
def sandbox(folder: SessionFolder) -> LocalSandbox:
    return LocalSandbox(folder=folder, limits=Limits())


MakeContext = Callable[..., ToolContext]


@pytest.fixture
def make_context(folder: SessionFolder, sandbox: LocalSandbox) -> MakeContext:
    def make(**given: Any) -> ToolContext:
        known: dict[str, Any] = {
            "workspace_id": folder.workspace_id,
            "session_id": folder.session_id,
            "agent_id": UUID(int=1),
            "run_id": UUID(int=2),
            "call_id": "call_1",
            "sandbox": LazySandbox(lambda: sandbox),
        }
        return ToolContext(**(known | given))

    return make


@pytest.fixture
def call(make_context: MakeContext) -> Callable[..., Any]:
    """Call a tool by name in the session's context."""

    def call(name: str, **arguments: Any) -> Any:
        return registry[name].call(arguments, make_context())

    return call
