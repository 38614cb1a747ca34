"""Tasks that run in this test's own process, in a folder of their own."""

from __future__ import annotations

from tests.tools_app.conftest import data_dir
from tests.tools_app.sandbox.conftest import engine, engine_home

__all__ = ["data_dir", "engine", "engine_home"]
