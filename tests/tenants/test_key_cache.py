"""Tests that the rights of keys are cached, and that every change of them counts at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from orchestrator.workspaces import create_workspace
from tenants.keys import IssuedKey, issue_key, revoke_key
from tenants.models import ApiKey, Membership, User, Workspace
from tests.conftest import add_member
from tests.core.test_backpressure import Server, read_all, running
from tests.core.test_pg_listen import end_listeners, wait_until
from tests.tenants.cached_keys import cached_keys, change_silently

ME, RUNS = "/api/v1/me/", "/api/v1/runs/"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def maker(workspace: Workspace) -> User:
    return add_member(workspace, "builder")


@pytest.fixture
def issued(workspace: Workspace, maker: User) -> IssuedKey:
    return issue_key(workspace_id=workspace.pk, name="k", scope="admin", created_by=maker)


@pytest.fixture
def program(issued: IssuedKey) -> Iterator[APIClient]:
    """Return a client whose key is in the cache of this process."""
    client = APIClient(headers={"x-api-key": issued.secret})
    with cached_keys():
        assert client.get(ME).status_code == 200
        yield client


def status(client: APIClient, path: str = ME) -> int:
    return int(client.get(path).status_code)


def test_a_key_is_read_once_for_many_requests(program, django_assert_num_queries):
    with django_assert_num_queries(1):  # the workspace that the view shows
        program.get(ME)


def test_a_key_that_is_revoked_here_is_refused_by_the_next_request(program, issued):
    revoke_key(workspace_id=issued.key.workspace_id, key_id=issued.key.pk)

    assert status(program) == 401


CHANGES = {
    "revoked": lambda key: ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()),
    "expired": lambda key: ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now()),
    "deleted": lambda key: ApiKey.objects.filter(pk=key.pk).delete(),
    "maker left": lambda key: Membership.objects.filter(user=key.created_by_id).delete(),
    "maker deactivated": lambda key: User.objects.filter(pk=key.created_by_id).update(
        is_active=False
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_that_ends_a_key_is_notified(program, issued, change):
    change(issued.key)

    wait_until(lambda: status(program) == 401)


def test_a_lower_role_of_the_maker_is_notified(program, maker):
    message = {"agent": "none", "session_key": "k", "message": "hi"}
    assert program.post("/api/v1/runtime/", message, format="json").status_code == 404

    Membership.objects.filter(user=maker).update(role="viewer")

    wait_until(lambda: program.post("/api/v1/runtime/", message, format="json").status_code == 403)


def test_an_erased_workspace_is_notified(owner):
    gone = create_workspace(name="Gone", owner=owner)
    client = APIClient(headers={"x-api-key": issue_key(workspace_id=gone.pk, name="k").secret})
    with cached_keys():
        assert status(client, RUNS) == 200
        call_command("erase_workspace", gone.slug, "--yes")

        wait_until(lambda: status(client, RUNS) == 401)


def test_a_key_expires_while_it_is_cached(workspace, owner):
    soon = timezone.now() + timedelta(seconds=1)
    issued = issue_key(workspace_id=workspace.pk, name="k", created_by=owner, expires_at=soon)
    client = APIClient(headers={"x-api-key": issued.secret})
    with cached_keys():
        status(client)

        wait_until(lambda: timezone.now() > soon)
        assert status(client) == 401


def test_nothing_is_trusted_that_was_cached_before_the_listener_lost_its_connection(program):
    change_silently("UPDATE tenants_apikey SET revoked_at = now()")
    assert status(program) == 200  # no notification came

    end_listeners()

    wait_until(lambda: status(program) == 401)


def test_recording_the_last_use_does_not_empty_the_caches(program):
    change_silently("UPDATE tenants_apikey SET revoked_at = now()")
    ApiKey.objects.update(last_used_at=timezone.now())
    time.sleep(0.2)

    assert status(program) == 200


def test_each_request_gets_its_own_copy(issued):
    from tenants.keys import recent_key

    with cached_keys():
        first = recent_key(issued.secret)
        first.scope, first.created_by.name = "read", "Changed"
        again = recent_key(issued.secret)

        assert (again.scope, again.created_by.name) == ("admin", "")


def ask(server: Server, secret: str) -> int:
    headers = f"x-api-key: {secret}\r\nConnection: close\r\n"
    with server.request(ME, headers) as client:
        return int(read_all(client)[9:12])


def test_a_change_counts_at_once_in_another_process(issued):
    database = str(connection.settings_dict["NAME"])
    with running("tests.tenants.web_process", TEST_DATABASE=database) as server:

        def is_cached() -> bool:
            change_silently("UPDATE tenants_apikey SET revoked_at = NULL")
            assert ask(server, issued.secret) == 200
            change_silently("UPDATE tenants_apikey SET revoked_at = now()")
            return ask(server, issued.secret) == 200

        wait_until(is_cached)

        ApiKey.objects.update(name="Renamed")  # any change empties the caches

        wait_until(lambda: ask(server, issued.secret) == 401)
