"""Who may let a risky tool act without asking: admins, for the tools of today and of tomorrow."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.environments import create_environment
from core.exceptions import Forbidden
from tenants.access import Principal, principal_of_user
from tenants.models import User, Workspace
from tests.conftest import add_member
from tools_app.policy.storage import PolicyTarget, agent_target, change_policy, find_target


@pytest.fixture
def place(workspace: Workspace) -> PolicyTarget:
    fields = {"name": "Tester", "provider": "demo", "model": "demo"}
    return agent_target(create_agent(workspace_id=workspace.pk, fields=fields).pk)


@pytest.fixture
def admin(owner: User, workspace: Workspace) -> Principal:
    return principal_of_user(owner, workspace.pk)


def builder(workspace: Workspace) -> Principal:
    return principal_of_user(add_member(workspace, "builder"), workspace.pk)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"allowed_tools": ["exec"]}),
        ({}, {"allowed_tools": ["group:exec", "read"]}),
        ({}, {"allowed_tools": ["*"]}),
        ({}, {"allowed_tools": ["exec(git status*)"]}),
        ({"allowed_tools": ["exec(git status*)"]}, {"allowed_tools": ["exec(git *)"]}),
        ({"allowed_tools": ["exec"], "ask_tools": ["exec"]}, {"allowed_tools": ["exec"]}),
        (
            {"allowed_tools": ["exec(git *)"], "denied_tools": ["exec(git push*)"]},
            {"allowed_tools": ["exec(git *)"]},
        ),
        (
            {"profile": "minimal", "allowed_tools": ["exec(git *)"]},
            {"profile": "coding", "allowed_tools": ["exec(git *)"]},
        ),
    ],
)
def test_only_an_admin_lets_commands_run_without_asking(place, admin, workspace, before, after):
    change_policy(admin, place, before)

    with pytest.raises(Forbidden, match="the right to admin: exec"):
        change_policy(builder(workspace), place, after)

    change_policy(admin, place, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"allowed_tools": ["mcp:*"]}),
        ({}, {"allowed_tools": ["mcp:*(*)"]}),
        ({}, {"allowed_tools": ["mcp:github:*(*)", "read"]}),
        ({}, {"allowed_tools": ["mcp:[!x]*:*(*)"]}),
        ({}, {"allowed_tools": ["mcp:[gx]*:*(*)"]}),
        ({}, {"allowed_tools": ["mcp:*(repo*)"]}),
        ({}, {"allowed_tools": ["group:mcp(*)"]}),
        (
            {"allowed_tools": ["mcp:*(*)"], "denied_tools": ["mcp:bank:*"]},
            {"allowed_tools": ["mcp:*(*)"]},
        ),
        (
            {"allowed_tools": ["mcp:*(*)"], "ask_tools": ["mcp:bank:pay"]},
            {"allowed_tools": ["mcp:*(*)"]},
        ),
    ],
)
def test_only_an_admin_lets_tools_act_that_are_yet_to_come(place, admin, workspace, before, after):
    change_policy(admin, place, before)

    with pytest.raises(Forbidden, match=r"the right to admin: mcp:"):
        change_policy(builder(workspace), place, after)

    change_policy(admin, place, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"denied_tools": ["mcp:bank:*"], "ask_tools": ["group:mcp"]}),
        ({"denied_tools": ["mcp:bank:*"]}, {}),
        ({"allowed_tools": ["mcp:*(*)"]}, {"allowed_tools": ["mcp:*(*)", "read(*)"]}),
        ({"allowed_tools": ["mcp:*(*)"]}, {}),
        ({}, {"denied_tools": ["exec"], "ask_tools": ["write"]}),
        ({"denied_tools": ["exec"]}, {}),
        ({"profile": "minimal"}, {"profile": "full"}),
        ({}, {"allowed_tools": ["read", "group:web"]}),
        ({"allowed_tools": ["exec"]}, {"allowed_tools": ["exec"], "denied_tools": ["write"]}),
        ({"allowed_tools": ["exec"]}, {}),
    ],
)
def test_a_builder_changes_the_rest(place, admin, workspace, before, after):
    change_policy(admin, place, before)

    assert change_policy(builder(workspace), place, after).revision == 2


def test_an_environments_question_is_lifted_by_an_admin_only(workspace, admin):
    environment = create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    place = find_target(workspace.pk, "environment", environment.pk)
    person = builder(workspace)
    change_policy(person, place, {"ask_tools": ["exec", "write"]})

    change_policy(person, place, {"ask_tools": ["exec"]})
    with pytest.raises(Forbidden):
        change_policy(person, place, {})
    change_policy(admin, place, {})
