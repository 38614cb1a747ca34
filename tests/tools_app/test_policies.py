"""Tests of stored policies: every revision is kept, and all layers are read in one query."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, connection, transaction

from agents.definitions import change_agent, create_agent, version_by_id
from agents.environments import create_environment, default_environment
from agents.models import Agent
from core.exceptions import Conflict, InvalidFields, NotFound
from core.ids import uuid7
from orchestrator.workspaces import erase_workspace
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from tenants.access import Principal, principal_of_user
from tenants.models import User, Workspace
from tools_app import filter_tools_by_policy, load_agent_tools, load_tool_policy, save_tool_policy
from tools_app.models import PolicyRevision, ToolPolicy
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import Decision
from tools_app.policy.rules import ORDER, Layer
from tools_app.policy.storage import (
    PolicyTarget,
    agent_target,
    change_policy,
    find_target,
    policy_history,
    revert_policy,
    save_policy,
)


@pytest.fixture
def agent(workspace: Workspace, owner: User) -> Agent:
    fields = {"name": "Tester", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


@pytest.fixture
def session(agent: Agent) -> Session:
    return get_or_create_session(agent=agent)[0]


@pytest.fixture
def target(agent: Agent) -> PolicyTarget:
    return agent_target(agent.pk)


@pytest.fixture
def admin(owner: User, workspace: Workspace) -> Principal:
    return principal_of_user(owner, workspace.pk)


def test_an_agent_without_rules_has_the_profile_coding(agent):
    assert load_tool_policy(agent.pk) == Layer(name="agent", profile="coding")
    assert not ToolPolicy.objects.exists()


def test_a_saved_policy_is_loaded_unchanged(agent, owner):
    layer = Layer(
        name="agent",
        profile="minimal",
        allowed=("read",),
        denied=("group:web", "exec(rm *)"),
        asked=("write",),
        max_tool_calls_per_turn=3,
    )

    save_tool_policy(agent.pk, layer, owner)

    assert load_tool_policy(agent.pk) == layer
    assert set(filter_tools_by_policy(load_agent_tools(agent.pk), layer)) == {"read"}


def test_the_python_api_accepts_an_agent_or_its_id_and_a_policy_as_a_dict(agent):
    words = {
        "profile": "coding",
        "allowed_tools": ["read", "write", "web_search"],
        "denied_tools": ["exec", "bash"],
        "max_tool_calls_per_turn": 10,
    }
    for named in (agent, agent.pk, str(agent.pk)):
        save_tool_policy(named, words)
        tools = load_agent_tools(named)

        assert set(filter_tools_by_policy(tools, words)) == {"read", "write", "web_search"}
        assert set(filter_tools_by_policy(tools, load_tool_policy(named))) == {
            "read",
            "write",
            "web_search",
        }
    with pytest.raises(InvalidFields, match="No tool is named bash"):
        save_tool_policy(agent, {"allowed_tools": ["bash"]})


def test_the_policy_of_an_unknown_agent_is_not_found(db):
    with pytest.raises(NotFound):
        load_tool_policy(uuid7())


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"allowed_tools": ["raed"]}, "allowed_tools: No tool is named raed"),
        ({"denied_tools": ["exce(rm *)"]}, "denied_tools: No tool is named exce"),
        ({"ask_tools": ["group:wbe"]}, "ask_tools: No tool is named group:wbe"),
        ({"allowed_tools": ["mcp:github:search"]}, "No tool is named mcp:github:search"),
        ({"denied_tools": ["custom:pay"]}, "No tool is named custom:pay"),
        ({"allowed_tools": ["exec(git"]}, "No tool is named exec"),
        ({"allowed_tools": [" "]}, "allowed_tools.0"),
        ({"allowed_tools": ["re\x00ad"]}, "NUL"),
        ({"allowed_tools": "read"}, "allowed_tools"),
        ({"profile": "superuser"}, "The profile is one of"),
        ({"max_tool_calls_per_turn": -1}, "max_tool_calls_per_turn"),
        ({"max_tool_calls_per_turn": "3"}, "max_tool_calls_per_turn"),
        ({"alowed_tools": []}, "alowed_tools"),
    ],
)
def test_an_invalid_policy_is_refused(agent, fields, complaint):
    with pytest.raises(InvalidFields, match=complaint.replace("(", r"\(")):
        save_tool_policy(agent.pk, fields)

    assert not ToolPolicy.objects.exists()


def test_patterns_for_future_servers_are_accepted(agent):
    rules = ["group:mcp", "group:memory", "mcp:github:*", "r*"]

    save_tool_policy(agent.pk, {"allowed_tools": rules, "denied_tools": ["mcp:github:delete"]})

    assert load_tool_policy(agent.pk).allowed == tuple(rules)


def test_every_change_is_a_revision_with_its_author(agent, target, owner, admin):
    save_tool_policy(agent.pk, {"denied_tools": ["exec"]}, owner)
    change_policy(admin, target, {"denied_tools": ["exec", "write"]})
    change_policy(admin, target, {"denied_tools": ["exec", "write"]})

    history = [(r.revision, r.author, r.denied_tools) for r in policy_history(target)]
    assert history == [(2, owner.email, ["exec", "write"]), (1, owner.email, ["exec"])]


def test_an_older_revision_can_be_restored(target, admin):
    change_policy(admin, target, {"profile": "minimal", "ask_tools": ["read"]})
    change_policy(admin, target, {"profile": "full"})

    revert_policy(admin, target, 1)

    newest = policy_history(target).first()
    assert (newest.revision, newest.reverts_to) == (3, 1)
    assert (newest.profile, newest.ask_tools) == ("minimal", ["read"])
    assert load_tool_policy(target.subject_id).profile == "minimal"
    revert_policy(admin, target, 0)
    assert load_tool_policy(target.subject_id) == Layer(name="agent", profile="coding")
    with pytest.raises(NotFound, match="no revision 9"):
        revert_policy(admin, target, 9)


def test_a_revision_cannot_be_changed(target, admin):
    change_policy(admin, target, {"profile": "full"})

    with pytest.raises(DatabaseError, match="immutable"), transaction.atomic():
        PolicyRevision.objects.update(profile="minimal")


def test_a_change_on_top_of_an_older_revision_is_refused(target, admin):
    change_policy(admin, target, {"profile": "full"}, expected_revision=0)

    with pytest.raises(Conflict, match="Revision 0 is not the newest one"):
        change_policy(admin, target, {"profile": "minimal"}, expected_revision=0)


@pytest.mark.django_db(transaction=True)
def test_concurrent_changes_all_become_revisions(target):
    def change(number: int) -> None:
        try:
            save_policy(target, {"max_tool_calls_per_turn": number})
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(change, range(18)))

    numbers = [r.revision for r in policy_history(target)]
    assert numbers == list(range(18, 0, -1))
    newest = policy_history(target).first().max_tool_calls_per_turn
    assert load_tool_policy(target.subject_id).max_tool_calls_per_turn == newest


def test_a_target_of_another_workspace_is_not_found(agent, foreign_workspace):
    with pytest.raises(NotFound):
        find_target(foreign_workspace.pk, "agent", agent.pk)


def test_a_policy_of_another_workspace_cannot_be_changed(target, stranger, foreign_workspace):
    with pytest.raises(NotFound):
        change_policy(principal_of_user(stranger, foreign_workspace.pk), target, {})


def test_all_layers_of_a_run_are_read_in_one_query(session, workspace, django_assert_num_queries):
    environment = default_environment(workspace.pk)
    subjects = [workspace.pk, session.agent_id, environment.pk, session.pk, session.pk]
    for layer, subject in zip(ORDER, subjects, strict=True):
        target = find_target(workspace.pk, layer, subject)
        save_policy(target, {"ask_tools": ["read"], "profile": "full"})
    save_policy(agent_target(id_of_other_agent(workspace)), {"denied_tools": ["read"]})

    version = version_by_id(session.agent_version_id)
    with django_assert_num_queries(0):  # the one statement bypasses the ORM
        layers = effective_policy(version, session.pk).layers

    assert tuple(one.name for one in layers) == ORDER
    assert all(one.asked == ("read",) for one in layers)


def id_of_other_agent(workspace):
    return create_agent(workspace_id=workspace.pk, fields={"name": "Other"}).pk


def test_the_sessions_environment_overrides_that_of_its_version(agent, workspace):
    own = create_environment(workspace_id=workspace.pk, fields={"name": "own"})
    other = create_environment(workspace_id=workspace.pk, fields={"name": "other"})
    change_agent(agent, {"environment": "own"})
    save_policy(find_target(workspace.pk, "environment", own.pk), {"denied_tools": ["read"]})
    save_policy(find_target(workspace.pk, "environment", other.pk), {"denied_tools": ["write"]})
    agent.refresh_from_db()
    moved, _ = get_or_create_session(agent=agent, environment=other)
    usual, _ = get_or_create_session(agent=agent)

    assert effective_policy(agent.current)["read"].decision == "deny"
    assert effective_policy(agent.current, usual.pk)["read"].decision == "deny"
    assert effective_policy(agent.current, moved.pk)["read"].decision == "allow"
    assert effective_policy(agent.current, moved.pk)["write"] == Decision(
        decision="deny", decided_by="environment: denied write"
    )


def test_a_child_session_is_bound_by_its_parents_policy(session, workspace):
    other = create_agent(workspace_id=workspace.pk, fields={"name": "Helper"})
    child, _ = get_or_create_session(agent=other, parent=session)
    grandchild, _ = get_or_create_session(agent=other, parent=child)
    save_tool_policy(other.pk, {"profile": "full", "approved_tools": ["exec"]})
    save_policy(
        find_target(workspace.pk, "session", session.pk),
        {"denied_tools": ["write"], "max_tool_calls_per_turn": 2},
    )

    policy = effective_policy(other.current, grandchild.pk)

    assert effective_policy(other.current)["exec"].decision == "allow"
    assert policy["exec"].decision == "ask"
    assert policy["write"].decided_by.startswith("subagent: parent, subagent: parent, session:")
    assert policy.max_tool_calls == 2


@pytest.mark.django_db(transaction=True)
def test_erasing_a_workspace_erases_its_policies(workspace, target, admin):
    change_policy(admin, target, {"profile": "full"})

    erase_workspace(workspace)

    assert not PolicyRevision.objects.exists()
    assert not ToolPolicy.objects.exists()
