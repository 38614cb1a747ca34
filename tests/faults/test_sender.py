"""Tests that a sender killed during a delivery loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tenants.models import Webhook, WebhookDelivery
from tenants.notifications.webhooks import add_webhook, announce
from tests.faults.conftest import ROOT, database_url, eventually
from tests.tenants.receiving import Receiver

pytestmark = pytest.mark.django_db(transaction=True)


def sender(folder: Path, port: int) -> subprocess.Popen[bytes]:
    env = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "config.settings.test",  # The same encryption key for secrets.
        "DATA_DIR": str(folder),
        "EGRESS_ALLOWED_PRIVATE": f"webhooks=localhost:{port}",
    }
    return subprocess.Popen([sys.executable, "-m", "tests.faults.sender"], cwd=ROOT, env=env)


def test_a_delivery_survives_a_sigkill_of_its_sender_and_keeps_its_id(
    workspace: Any, tmp_path: Path
):
    server = HTTPServer(threaded=True)
    server.start()
    receiver = Receiver(server)
    receiver.hang("/hook")
    add_webhook(workspace_id=workspace.pk, url="https://example.com/", events=["run.*"])
    Webhook.objects.update(url=receiver.url("/hook"))
    first = sender(tmp_path, server.port)
    try:
        announce(workspace.pk, "run.completed", {"n": 1})
        eventually(lambda: receiver.count("/hook") == 1)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert WebhookDelivery.objects.get().status == "pending"
        receiver.release()
        second = sender(tmp_path, server.port)
        try:
            eventually(lambda: WebhookDelivery.objects.get().status == "delivered")
        finally:
            second.kill()
            second.wait()
    finally:
        first.kill()
        first.wait()
        server.stop()
    assert receiver.ids == [str(WebhookDelivery.objects.get().pk)] * 2
    assert WebhookDelivery.objects.get().attempts == 2
