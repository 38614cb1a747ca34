"""Sends webhooks in a process that a test kills: `python -m tests.faults.sender`."""

from __future__ import annotations

import threading

import django

django.setup()

from tenants.notifications.deliveries import Sender

if __name__ == "__main__":
    Sender(threading.Event(), look_seconds=0.2, seconds=30.0, lease=2.0).start().join()
