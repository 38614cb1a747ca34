"""Fixtures that every test may use: a real database, workspaces, people and keys."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.test import Client
from hypothesis import settings as hypothesis_settings
from rest_framework.test import APIClient
from xdist.scheduler import LoadScopeScheduling

from orchestrator.workspaces import create_workspace
from tenants.keys import issue_key
from tenants.models import Membership, User, Workspace
from tests.described import DescribedClient

# No test asserts an absolute time, as a busy machine may take long for an example.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

# A test run in the background ignores Ctrl-C, and so would every process that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Folders and files whose tests start processes or containers, measure load, or drive a browser,
#: each with its group. They run on two workers; tests of one group stay on one of them. Without a
#: group, the tests of one file stay together.
ALONE = {
    "stack": "",
    "faults": "faults",
    "browser": "browser",
    "acceptance": "acceptance",
    "tools_app/sandbox": "sandboxes",
    "orchestrator/tasks/test_adoption": "sandboxes",
    "orchestrator/tasks/test_billing": "sandboxes",
    "orchestrator/tasks/test_unpaid": "sandboxes",
}
#: Groups whose files are dealt out to both workers; each starts a stack and a browser.
SPLIT = {"browser"}


def group_of(path: str) -> str | None:
    """Return the group of a test file that runs alone, else None."""
    for place, group in ALONE.items():
        if path.startswith(place):
            half = f"-{sum(path.encode()) % 2}" if group in SPLIT else ""
            return f"{group}{half}" or path
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        if group_of(str(item.path.relative_to(root))):
            item.add_marker(pytest.mark.alone)


class GroupScheduling(LoadScopeScheduling):
    """Sends the tests of one group to one worker; `--dist loadgroup` ignores groups under pytest 9."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return group_of(path.removeprefix("tests/")) or path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """Start the embedded PostgreSQL without durability, unless DATABASE_URL is set."""
    if not settings.EMBEDDED:
        yield
        return
    from core.postgres import Embedded

    server = Embedded(settings.DATA_DIR, durable=False)
    server.start()
    yield
    server.release()


@pytest.fixture(autouse=True)
def no_keys_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove model keys of the developer's environment, which would change what new agents use."""
    for vendor in ("GEMINI", "GOOGLE", "OPENAI"):
        monkeypatch.delenv(f"{vendor}_API_KEY", raising=False)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


@pytest_asyncio.fixture
async def async_db(transactional_db: None) -> AsyncIterator[None]:
    """Give async tests a real database, and close the connections of their worker thread."""
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
    """Create a person with this role in the workspace."""
    user = User.objects.create_user(email or f"{role}@example.com", "correct horse 9")
    Membership.objects.create(workspace=workspace, user=user, role=role)
    return user


def key_client(workspace: Workspace, scope: str = "admin") -> APIClient:
    """Return a client with a new key of this workspace."""
    owner = User.objects.filter(memberships__workspace=workspace).first()
    issued = issue_key(workspace_id=workspace.pk, name="test", scope=scope, created_by=owner)
    return DescribedClient(headers={"x-api-key": issued.secret})


@pytest.fixture
def api(workspace: Workspace) -> APIClient:
    """Return a client with an admin key."""
    return key_client(workspace)


@pytest.fixture
def foreign_api(foreign_workspace: Workspace) -> APIClient:
    return key_client(foreign_workspace)


@pytest.fixture
def browser_client(owner: User, workspace: Workspace) -> Client:
    """Return the owner's browser, signed in."""
    client = Client()
    client.force_login(owner)
    return client
