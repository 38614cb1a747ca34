"""Fixtures for webhooks: a local receiver that the egress guard allows, and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tenants.models import Workspace
from tenants.notifications.webhooks import SecretWebhook, add_webhook
from tests.tenants.receiving import Receiver


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Start a receiver with one thread per request, so that one that hangs blocks no other."""
    server = HTTPServer(threaded=True)
    server.start()
    settings.EGRESS_ALLOWED_PRIVATE = [f"localhost:{server.port}"]
    made = Receiver(server)
    yield made
    made.release()
    server.clear()
    server.stop()


@pytest.fixture
def subscribe(workspace: Workspace, receiver: Receiver) -> Callable[..., SecretWebhook]:
    """Return a function that subscribes the receiver to events of the workspace."""

    def use(path: str = "/hook", *events: str) -> SecretWebhook:
        return add_webhook(
            workspace_id=workspace.pk, url=receiver.url(path), events=events or ["*"]
        )

    return use
