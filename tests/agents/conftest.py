"""Fixtures for the tests of agents, without provider keys from the machine's environment."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from agents.definitions import create_agent
from agents.models import Agent
from agents.providers.registry import PROVIDERS
from tenants.models import Workspace
from tests.wire.server import Wire


@pytest.fixture(autouse=True)
def no_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for factory in PROVIDERS.values():
        for name in (*factory.key_variables, factory.base_url_variable):
            if name:
                monkeypatch.delenv(name, raising=False)


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Scout"})


@pytest.fixture
def allow(settings) -> Callable[[Wire], str]:
    """Return a function that allows a local server, as an operator can, and returns its address."""

    def allow_one(server: Wire) -> str:
        settings.EGRESS_ALLOWED_PRIVATE = [urlsplit(server.url).netloc]
        return server.url

    return allow_one
