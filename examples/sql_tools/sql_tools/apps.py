"""Declares the app, and the environment variables that it reads."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import AppConfig


class SqlToolsConfig(AppConfig):
    name = "sql_tools"
    verbose_name = "SQL tools"
    default_auto_field = "django.db.models.BigAutoField"
    #: Each variable with its default; `django.conf.settings` has the value.
    settings: ClassVar[dict[str, Any]] = {
        #: `sqlite:///path/to/file.db` or `postgresql://reader:password@host/name`.
        "SQL_TOOLS_URL": "",
        #: The slugs of the workspaces that may read the database, or `*` for all.
        "SQL_TOOLS_WORKSPACES": [],
        "SQL_TOOLS_ROWS": 100,
        "SQL_TOOLS_SECONDS": 10.0,
    }
