"""Settings of a whole stack with the recording tool and short leases, for chaos tests."""

from __future__ import annotations

from config.settings.base import INSTALLED_APPS
from config.settings.local import *

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.recording"]
LEASE_SECONDS = 5
HEARTBEAT_SECONDS = 1
REQUESTS_PER_MINUTE = 60_000
