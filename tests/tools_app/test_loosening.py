"""Tests that only admins can let risky tools, present or future, run without asking."""

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
def target(workspace: Workspace) -> PolicyTarget:
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
        ({}, {"approved_tools": ["exec"]}),
        ({}, {"approved_tools": ["group:exec", "read"]}),
        ({}, {"approved_tools": ["*"]}),
        ({}, {"approved_tools": ["exec(git status*)"]}),
        ({}, {"allowed_tools": ["exec(git status*)"]}),
        ({"approved_tools": ["exec(git status*)"]}, {"approved_tools": ["exec(git *)"]}),
        ({"approved_tools": ["exec"], "ask_tools": ["exec"]}, {"approved_tools": ["exec"]}),
        (
            {"approved_tools": ["exec(git *)"], "denied_tools": ["exec(git push*)"]},
            {"approved_tools": ["exec(git *)"]},
        ),
        (
            {"profile": "minimal", "approved_tools": ["exec(git *)"]},
            {"profile": "coding", "approved_tools": ["exec(git *)"]},
        ),
    ],
)
def test_only_an_admin_can_let_commands_run_without_asking(target, admin, workspace, before, after):
    change_policy(admin, target, before)

    with pytest.raises(Forbidden, match=r"the right to admin: (http_request, )?exec"):
        change_policy(builder(workspace), target, after)

    change_policy(admin, target, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"approved_tools": ["mcp:*"]}),
        ({}, {"approved_tools": ["mcp:*(*)"]}),
        ({}, {"approved_tools": ["mcp:github:*(*)", "read"]}),
        ({}, {"approved_tools": ["mcp:[!x]*:*(*)"]}),
        ({}, {"approved_tools": ["mcp:[gx]*:*(*)"]}),
        ({}, {"approved_tools": ["mcp:*(repo*)"]}),
        ({}, {"approved_tools": ["group:mcp(*)"]}),
        (
            {"approved_tools": ["mcp:*(*)"], "denied_tools": ["mcp:bank:*"]},
            {"approved_tools": ["mcp:*(*)"]},
        ),
        (
            {"approved_tools": ["mcp:*(*)"], "ask_tools": ["mcp:bank:pay"]},
            {"approved_tools": ["mcp:*(*)"]},
        ),
    ],
)
def test_only_an_admin_can_allow_tools_that_do_not_exist_yet(
    target, admin, workspace, before, after
):
    change_policy(admin, target, before)

    with pytest.raises(Forbidden, match=r"the right to admin: mcp:"):
        change_policy(builder(workspace), target, after)

    change_policy(admin, target, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"denied_tools": ["mcp:bank:*"], "ask_tools": ["group:mcp"]}),
        ({"denied_tools": ["mcp:bank:*"]}, {}),
        ({"approved_tools": ["mcp:*(*)"]}, {"approved_tools": ["mcp:*(*)", "read(*)"]}),
        ({"approved_tools": ["mcp:*(*)"]}, {}),
        ({}, {"denied_tools": ["exec"], "ask_tools": ["write"]}),
        ({"denied_tools": ["exec"]}, {}),
        ({"profile": "minimal"}, {"profile": "full"}),
        ({}, {"approved_tools": ["read", "group:memory"]}),
        ({}, {"allowed_tools": ["exec", "mcp:*"]}),
        ({"approved_tools": ["exec"]}, {"approved_tools": ["exec"], "denied_tools": ["write"]}),
        ({"approved_tools": ["exec"]}, {}),
    ],
)
def test_a_builder_can_make_any_other_change(target, admin, workspace, before, after):
    change_policy(admin, target, before)

    assert change_policy(builder(workspace), target, after).revision == 2


def test_only_an_admin_can_remove_an_environments_ask_rule(workspace, admin):
    environment = create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    target = find_target(workspace.pk, "environment", environment.pk)
    person = builder(workspace)
    change_policy(person, target, {"ask_tools": ["exec", "write"]})

    change_policy(person, target, {"ask_tools": ["exec"]})
    with pytest.raises(Forbidden):
        change_policy(person, target, {})
    change_policy(admin, target, {})
