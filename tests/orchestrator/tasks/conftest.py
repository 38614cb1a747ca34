"""Fixtures for tasks that run in the test's own process and folder."""

from __future__ import annotations

from tests.tools_app.conftest import data_dir
from tests.tools_app.sandbox.conftest import engine, engine_home

__all__ = ["data_dir", "engine", "engine_home"]
