"""Fixtures that every test may use: a real database, workspaces, people and keys."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.test import Client, TransactionTestCase
from hypothesis import settings as hypothesis_settings
from pytest_django.plugin import DjangoDbBlocker
from rest_framework.test import APIClient
from xdist.scheduler import LoadScopeScheduling

from core.postgres import Embedded
from orchestrator.workspaces import create_workspace
from tenants.keys import issue_key
from tenants.models import Membership, User, Workspace
from tests.database import create_test_database, drop_test_database, empty_tables
from tests.described import DescribedClient

# No test asserts an absolute time, as a busy machine may take long for an example.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

# A test run in the background ignores Ctrl-C, and so would every process that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: How long `make soak` repeats tests; zero in every other run.
SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
SOAK_ENDS = time.monotonic() + SOAK_SECONDS

#: Files and folders whose tests start processes, containers or a browser, each with its group. They
#: take long and mostly wait, so they come first and the other tests fill what they leave of the
#: processors. The tests of one group never run at the same time; without a group, those of a file.
SLOW = {
    "tools_app/sandbox": "sandboxes",
    "orchestrator/tasks/test_adoption": "sandboxes",
    "orchestrator/tasks/test_billing": "sandboxes",
    "orchestrator/tasks/test_unpaid": "sandboxes",
    "browser": "browser",
    # One host of terminals at a time can listen in the tests' data directory.
    "orchestrator/terminals": "terminals",
    "orchestrator/tasks/test_looking": "terminals",
    "stack": "",
    "doors": "doors",
    "faults": "faults",
    "plugins": "",
    "acceptance/test_sessions": "",
    "test_migrations": "",
    "memory/test_kills": "",
}
#: The files of the folder `browser` are dealt out; each part starts its stack and its browser.
BROWSERS = 2


def group_of(path: str) -> tuple[int, str]:
    """Return the place of a test file in the order of the run, and its group."""
    for place, (start, group) in enumerate(SLOW.items()):
        if path.startswith(start):
            part = f"-{sum(path.encode()) % BROWSERS}" if group == "browser" else ""
            return place, f"{group}{part}" or path
    return len(SLOW), path


def path_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SOAK_SECONDS:  # whatever the time allows is a mixture of all
        random.Random(0).shuffle(items)
        return
    items.sort(key=lambda item: group_of(path_of(item.nodeid))[0])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat the tests that are marked for `make soak`, in its runs only."""
    marker = metafunc.definition.get_closest_marker("soak")
    if marker and SOAK_SECONDS:
        metafunc.fixturenames.append("soak_round")
        metafunc.parametrize("soak_round", range(marker.kwargs.get("rounds", 1)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("soak") and SOAK_SECONDS and time.monotonic() > SOAK_ENDS:
        pytest.skip("The time of this soak is over; SOAK_SECONDS gives it more.")


class GroupScheduling(LoadScopeScheduling):
    """Sends the tests of one group to one worker, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(path_of(nodeid))[1]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Create the test database on an embedded PostgreSQL without durability, or on DATABASE_URL."""
    server = Embedded(settings.DATA_DIR, durable=False) if settings.EMBEDDED else None
    if server:
        server.start()
    name = settings.DATABASES["default"]["TEST"]["NAME"]
    with django_db_blocker.unblock():
        create_test_database(name)
    yield
    with django_db_blocker.unblock():
        drop_test_database(name)
    if server:
        server.release()


@pytest.fixture(scope="session", autouse=True)
def quick_cleanup() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


@pytest.fixture(autouse=True)
def no_keys_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove model keys of the developer's environment, which would change what new agents use."""
    for vendor in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI"):
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
def operator(owner: User) -> User:
    """Make the owner staff, as the first account of an installation is."""
    owner.is_staff = True
    owner.save(update_fields=["is_staff"])
    return owner


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
