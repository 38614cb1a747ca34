"""Tasks that run in this test's own process, in a folder of their own."""

from __future__ import annotations

from tests.tools_app.conftest import data_dir

__all__ = ["data_dir"]
