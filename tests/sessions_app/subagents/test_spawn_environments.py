"""Tests that a sub-agent's environment allows no more than that of the session that starts it."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.environments import create_environment, excess
from agents.models.environment import DEFAULT_NAME
from agents.providers.base import ToolCall
from sessions_app.models import Session, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.conftest import serve
from tests.sessions_app.spawning import agent, words
from tests.sessions_app.stage import say

__all__ = ["agent"]

VAULT = {"kind": "vault", "source_ref": "KEY", "mount_path": "/vaults/keys"}
DATA = {"kind": "workspace_directory", "source_ref": "data", "mount_path": "/workspace/data"}
WRITABLE = {**DATA, "access": "read_write"}


@pytest.fixture
def environment(workspace):
    def make(name: str, **fields):
        return create_environment(workspace_id=workspace.pk, fields={"name": name, **fields})

    return make


@pytest.mark.parametrize(
    ("child", "parent", "more"),
    [
        ({"network": "none"}, {"network": "none"}, ""),
        ({"network": "full"}, {"network": "none"}, "reaches more of the network"),
        ({"network": "full"}, {"network": "allowlist", "allowed_hosts": ["a.example"]}, "reaches"),
        ({"network": "allowlist", "allowed_hosts": ["a.example"]}, {"network": "none"}, "reaches"),
        ({"network": "allowlist", "allowed_hosts": ["a.example"]}, {"network": "full"}, ""),
        (
            {"network": "allowlist", "allowed_hosts": ["a.example", "b.example"]},
            {"network": "allowlist", "allowed_hosts": ["a.example"]},
            "reaches",
        ),
        (
            {"network": "allowlist", "allowed_hosts": ["x.a.example", "*.y.a.example"]},
            {"network": "allowlist", "allowed_hosts": ["*.a.example"]},
            "",
        ),
        (
            {"network": "allowlist", "allowed_hosts": ["a.example"]},
            {"network": "allowlist", "allowed_hosts": ["*.a.example"]},
            "reaches",
        ),
        ({"mounts": [VAULT]}, {}, "it mounts /vaults/keys"),
        ({"mounts": [VAULT]}, {"mounts": [{**VAULT, "source_ref": "OTHER, KEY"}]}, ""),
        ({"mounts": [{**VAULT, "source_ref": "KEY, OTHER"}]}, {"mounts": [VAULT]}, "mounts"),
        ({"mounts": [DATA]}, {"mounts": [WRITABLE]}, ""),
        ({"mounts": [WRITABLE]}, {"mounts": [DATA]}, "mounts"),
    ],
)
@pytest.mark.django_db
def test_an_environment_is_compared_with_another(environment, child, parent, more):
    found = excess(environment("Child", **child), environment("Parent", **parent))

    assert (more in found) if more else found == ""


def spawn(session: Session, principal, script, **arguments: object) -> ToolExecution:
    call = ToolCall(call_id="c", name="sessions_spawn", arguments={"task": "Go.", **arguments})
    script([call], words("Well."), words("Well."))
    say(session, principal)
    serve(session.pk)
    return ToolExecution.objects.get(session=session)


@pytest.mark.django_db(transaction=True)
def test_a_sub_agent_cannot_choose_an_environment_with_more_network(
    session, principal, script, environment
):
    environment("Online", network="full")

    call = spawn(session, principal, script, environment="Online")

    assert call.state == "error"
    assert "reaches more of the network" in call.error
    assert not Session.objects.filter(parent=session).exists()


@pytest.mark.django_db(transaction=True)
def test_a_sub_agent_may_choose_a_narrower_environment(
    agent, owner, principal, script, environment
):
    online = environment("Online", network="full")
    environment("Offline")
    session, _ = get_or_create_session(agent=agent, environment=online, created_by_id=owner.pk)

    spawn(session, principal, script, environment="Offline")

    assert Session.objects.get(parent=session).environment.name == "Offline"


@pytest.mark.django_db(transaction=True)
def test_another_agent_works_in_the_parents_environment_if_its_own_allows_more(
    workspace, session, principal, script, environment, owner
):
    online = environment("Online", network="full", mounts=[VAULT])
    fields = {"name": "Browser", "provider": "demo", "model": "demo", "environment": str(online.pk)}
    create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)

    spawn(session, principal, script, agent="Browser")

    child = Session.objects.get(parent=session)
    assert child.environment.name == DEFAULT_NAME
    assert not child.resources.exists()
