"""Tests that a key which can only run agents reaches no secret by its own choice and its own answer."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.environments import create_environment
from sessions_app.models import ResourceAttachment
from tests.conftest import key_client
from tests.sessions_app.api.test_approvals import answer
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.waiting_calls import parked

SESSIONS = "/api/v1/sessions/"
VAULT = {"kind": "vault", "source_ref": "KEY", "mount_path": "/vaults/keys"}


@pytest.fixture
def runner(workspace):
    return key_client(workspace, "run")


@pytest.fixture
def secrets(workspace):
    fields = {"name": "Secrets", "mounts": [VAULT]}
    return create_environment(workspace_id=workspace.pk, fields=fields)


def create(client, agent, **fields):
    return client.post(SESSIONS, {"agent": str(agent.pk), **fields}, format="json")


def test_a_run_key_cannot_choose_an_environment_that_mounts_secrets(runner, api, agent, secrets):
    assert_problem(create(runner, agent, environment="Secrets"), 403, "forbidden")
    assert_problem(
        runner.post(
            "/api/orchestrator/session",
            {"agent": str(agent.pk), "environment": "Secrets"},
            format="json",
        ),
        403,
        "forbidden",
    )
    assert create(api, agent, environment="Secrets").status_code == 201


def test_a_run_key_may_use_the_environment_that_the_agent_names(runner, workspace, owner, secrets):
    fields = {"name": "A", "provider": "demo", "model": "demo", "environment": str(secrets.pk)}
    agent = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)

    assert create(runner, agent).status_code == 201
    assert create(runner, agent, environment="Secrets").status_code == 201


def test_a_run_key_may_choose_an_environment_without_secrets(runner, agent, workspace):
    create_environment(workspace_id=workspace.pk, fields={"name": "Plain"})

    assert create(runner, agent, environment="Plain").status_code == 201


def speak(client, session) -> None:
    said = client.post(f"{SESSIONS}{session.pk}/messages/", {"text": "Hi"}, format="json")
    assert said.status_code == 202


@pytest.fixture
def with_secrets(session):
    """Return a session that has secrets mounted."""
    ResourceAttachment.objects.create(
        workspace_id=session.workspace_id, session=session, access="read_only", **VAULT
    )
    return session


def test_a_run_key_cannot_allow_its_own_call_where_secrets_are_mounted(runner, with_secrets):
    session = with_secrets
    speak(runner, session)
    (asked,) = parked(session)

    assert_problem(answer(runner, asked, decision="allow"), 403, "forbidden")
    asked.refresh_from_db()
    assert asked.status == "pending"
    assert answer(runner, asked, decision="deny").status_code == 200


def test_a_run_key_may_allow_its_own_call_where_no_secrets_are_mounted(runner, session):
    speak(runner, session)
    (asked,) = parked(session)

    assert answer(runner, asked, decision="allow").status_code == 200


def test_another_run_key_and_an_admin_key_may_allow_the_call(runner, api, workspace, with_secrets):
    session = with_secrets
    speak(runner, session)
    speak(api, session)
    first, second = parked(session, 2)

    assert answer(key_client(workspace, "run"), first, decision="allow").status_code == 200
    assert answer(api, second, decision="allow").status_code == 200
