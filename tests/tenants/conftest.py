"""Fixtures for webhooks: a local receiver that the egress guard allows, and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tenants.models import Workspace
from tenants.notifications.webhooks import SecretWebhook, add_webhook
from tests.tenants.receiving import Receiver


@pytest.fixture(scope="session")
def webhook_server() -> Iterator[HTTPServer]:
    """Start a server with one thread per request, so that one that hangs blocks no other."""
    server = HTTPServer(threaded=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def receiver(settings: Any, webhook_server: HTTPServer) -> Iterator[Receiver]:
    settings.EGRESS_ALLOWED_PRIVATE = [f"webhooks=localhost:{webhook_server.port}"]
    made = Receiver(webhook_server)
    yield made
    made.release()
    webhook_server.clear()


@pytest.fixture
def subscribe(workspace: Workspace, receiver: Receiver) -> Callable[..., SecretWebhook]:
    """Return a function that subscribes the receiver to events of the workspace."""

    def use(path: str = "/hook", *events: str) -> SecretWebhook:
        return add_webhook(
            workspace_id=workspace.pk, url=receiver.url(path), events=events or ["*"]
        )

    return use
