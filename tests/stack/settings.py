"""Settings of a stack in which a program that hangs is restarted soon."""

from __future__ import annotations

from config.settings.local import *

HANG_SECONDS = 6.0
