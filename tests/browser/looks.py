"""Window sizes, and how long a test waits for what it expects."""

from __future__ import annotations

#: Generous, because the machine may be busy; no test waits longer than it has to.
TIMEOUT_MS = 30_000
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
