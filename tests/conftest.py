"""Fixtures that every test may use: a real database, workspaces, people and keys."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.test import Client
from hypothesis import settings as hypothesis_settings
from rest_framework.test import APIClient

from tenants.keys import issue_key
from tenants.models import Membership, User, Workspace
from tenants.workspaces import create_workspace
from tests.described import DescribedClient

# No test asserts an absolute time: a busy machine may take long over an example.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

# A test run in the background ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: They start processes and containers, measure load, or drive a browser: they run two by two,
#: and those of one group stay together; without a group, those of one file do.
ALONE = {
    "stack": "",
    "faults": "faults",
    "browser": "browser",
    "acceptance": "acceptance",
    "tools_app/sandbox": "sandboxes",
    "orchestrator/engine": "sandboxes",
    "orchestrator/taskagent/test_adoption": "sandboxes",
    "orchestrator/taskagent/test_minutes": "sandboxes",
    "orchestrator/taskagent/test_unpaid": "sandboxes",
}


@pytest.hookimpl(tryfirst=True)  # before those who deal the groups out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        path = str(item.path.relative_to(root))
        for place, group in ALONE.items():
            if path.startswith(place):
                item.add_marker(pytest.mark.alone)
                item.add_marker(pytest.mark.xdist_group(group or path))


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """The embedded PostgreSQL, quick and forgetful, unless DATABASE_URL names another."""
    if not settings.EMBEDDED:
        yield
        return
    from config.embedded import Embedded

    server = Embedded(settings.DATA_DIR, durable=False)
    server.start()
    yield
    server.release()


@pytest.fixture(autouse=True)
def no_keys_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model key in the developer's environment must not change what new agents use."""
    for vendor in ("GEMINI", "GOOGLE", "OPENAI"):
        monkeypatch.delenv(f"{vendor}_API_KEY", raising=False)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


@pytest_asyncio.fixture
async def async_db(transactional_db: None) -> AsyncIterator[None]:
    """A real database for async tests, closing the connection their worker thread opened."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("owner@example.com", "correct horse 9", name="Olive Owner")


@pytest.fixture
def workspace(owner: User) -> Workspace:
    return create_workspace(name="Yard", owner=owner)


@pytest.fixture
def stranger(db: None) -> User:
    return User.objects.create_user("stranger@example.com", "other horse 9", name="Sam Stranger")


@pytest.fixture
def foreign_workspace(stranger: User) -> Workspace:
    return create_workspace(name="Elsewhere", owner=stranger)


def add_member(workspace: Workspace, role: str, email: str = "") -> User:
    """A new person with this role in the workspace."""
    user = User.objects.create_user(email or f"{role}@example.com", "correct horse 9")
    Membership.objects.create(workspace=workspace, user=user, role=role)
    return user


def key_client(workspace: Workspace, scope: str = "admin") -> APIClient:
    """A program with a fresh key of this workspace."""
    owner = User.objects.filter(memberships__workspace=workspace).first()
    issued = issue_key(workspace_id=workspace.pk, name="test", scope=scope, created_by=owner)
    return DescribedClient(headers={"x-api-key": issued.secret})


@pytest.fixture
def api(workspace: Workspace) -> APIClient:
    """A program with an admin key."""
    return key_client(workspace)


@pytest.fixture
def foreign_api(foreign_workspace: Workspace) -> APIClient:
    return key_client(foreign_workspace)


@pytest.fixture
def browser_client(owner: User, workspace: Workspace) -> Client:
    """The owner's browser, signed in, with CSRF checks as in the field."""
    client = Client()
    client.force_login(owner)
    return client
