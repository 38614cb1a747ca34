"""Switchyard's settings for tests, with this plugin."""

from __future__ import annotations

import os

os.environ["PLUGINS"] = "sql_tools"

from config.settings.test import *
