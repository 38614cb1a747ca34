"""The windows that pages are looked at in, and how long a test waits for what it expects."""

from __future__ import annotations

#: Milliseconds. Long, as the machine may be busy; nothing waits longer than it must.
PATIENCE = 30_000
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
