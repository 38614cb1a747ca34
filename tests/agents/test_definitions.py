"""Tests of agents and their immutable, numbered versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, connection

from agents.definitions import (
    archive_agent,
    change_agent,
    create_agent,
    current_version,
    fields_of,
    find_agent,
    version_by_id,
)
from agents.environments import change_environment, create_environment
from agents.models import Agent, AgentVersion
from core.exceptions import Conflict, Invalid, InvalidFields, NotFound
from core.ids import uuid7


def numbers(agent: Agent) -> list[int]:
    return list(agent.versions.order_by("number").values_list("number", flat=True))


def test_a_new_agent_has_a_first_version_by_its_author(workspace, owner):
    agent = create_agent(workspace_id=workspace.pk, fields={"name": " Scout "}, created_by=owner)

    stored = Agent.objects.get(pk=agent.pk)
    version = current_version(stored)
    assert (version.number, version.name) == (1, "Scout")
    assert stored.created_by == version.created_by == owner
    assert version.limits["max_model_calls"] == 30


def test_every_change_creates_a_version_and_keeps_the_old_ones(agent):
    first = AgentVersion.objects.get(pk=agent.current_id)

    second = change_agent(agent, {"system_prompt": "Be brief."})

    assert (second.number, second.system_prompt, second.name) == (2, "Be brief.", "Scout")
    assert agent.current == second
    assert Agent.objects.get(pk=agent.pk).current_id == second.pk
    first.refresh_from_db()
    assert (first.number, first.system_prompt) == (1, "")


@pytest.mark.parametrize("written", ["demo", "demo/demo", {"provider": "demo", "model": "demo"}])
def test_a_fallback_can_be_written_as_a_string(agent, written):
    version = change_agent(agent, {"fallbacks": [written]})

    assert version.fallbacks == [{"provider": "demo", "model": "demo"}]


def test_a_change_without_a_difference_creates_no_version(agent):
    same = change_agent(agent, {"name": "Scout ", "temperature": None, "limits": {}})

    assert same.number == 1
    assert numbers(agent) == [1]
    assert change_agent(agent, fields_of(same)).number == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_changes_get_consecutive_numbers_and_none_is_lost(agent):
    def describe(number: int) -> int:
        try:
            return change_agent(agent, {"description": str(number)}).number
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=6) as pool:
        given = list(pool.map(describe, range(18)))

    assert sorted(given) == [*range(2, 20)]
    assert numbers(agent) == [*range(1, 20)]
    assert current_version(Agent.objects.get(pk=agent.pk)).number == 19


@pytest.mark.parametrize(
    "change",
    [
        {"system_prompt": "Forget everything."},
        {"number": 7},
        {"limits": {"max_seconds": 1}},
        {"model": "another"},
    ],
)
def test_the_database_refuses_to_change_a_version(agent, change):
    with pytest.raises(DatabaseError, match="immutable"):
        AgentVersion.objects.filter(agent=agent).update(**change)


def test_the_author_of_a_version_cannot_be_changed(agent, owner):
    with pytest.raises(DatabaseError, match="immutable"):
        AgentVersion.objects.filter(agent=agent).update(created_by=owner)


def test_a_change_built_on_an_older_version_can_be_refused(agent):
    change_agent(agent, {"description": "two"}, expected_version=1)

    with pytest.raises(Conflict, match="Version 2 is newer than version 1"):
        change_agent(agent, {"description": "three"}, expected_version=1)
    assert numbers(agent) == [1, 2]


def test_limits_are_merged_and_null_restores_the_default(agent):
    change_agent(agent, {"limits": {"max_seconds": 60, "max_model_calls": 5}})

    version = change_agent(agent, {"limits": {"max_seconds": None}})

    assert (version.limits["max_seconds"], version.limits["max_model_calls"]) == (1800, 5)


def test_a_version_written_by_an_earlier_release_can_be_changed(agent):
    older = agent.versions.create(
        workspace=agent.workspace,
        number=2,
        name="Scout",
        provider="demo",
        model="demo",
        limits={"max_seconds": 60, "max_rockets": 3},
    )

    assert change_agent(agent, {"limits": {"max_model_calls": 30}}) == older
    version = change_agent(agent, {"description": "Newer"})
    assert (version.number, version.limits["max_seconds"]) == (3, 60)
    assert "max_rockets" not in version.limits


def test_replacing_resets_omitted_fields(agent):
    change_agent(agent, {"description": "A scout", "temperature": 1})

    version = change_agent(agent, {"name": "Scout"}, replace=True)

    assert (version.number, version.description, version.temperature) == (3, "", None)


def test_changing_the_provider_selects_its_default_model(agent):
    assert change_agent(agent, {"provider": "openai"}).model.startswith("gpt-")
    assert change_agent(agent, {"provider": "gemini", "model": "mine"}).model == "mine"
    assert change_agent(agent, {"description": "x"}).model == "mine"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "   "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"description": "\ud800"}, "description"),
        ({"system_prompt": "é" * 50_001}, "system_prompt"),
        ({"provider": "skynet"}, "provider"),
        ({"model": "nobody-has-this"}, "provider"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"runner": "walker"}, "runner"),
        ({"fallbacks": [{"provider": "demo", "model": "demo"}] * 6}, "fallbacks"),
        ({"fallbacks": [{"provider": "skynet", "model": "x"}]}, "fallbacks.0.provider"),
        ({"fallbacks": [{"provider": "demo"}]}, "fallbacks.0.model"),
        ({"fallbacks": ["no-such-model"]}, "fallbacks.0"),
        ({"fallbacks": [5]}, "fallbacks.0"),
        ({"fallbacks": [{"provider": "", "model": "x"}]}, "fallbacks.0.provider"),
        ({"environment": "nowhere"}, "environment"),
        ({"environment": str(uuid7())}, "environment"),
        ({"limits": {"max_seconds": 0}}, "limits.max_seconds"),
        ({"sytem_prompt": "typo"}, "sytem_prompt"),
    ],
)
def test_an_invalid_definition_creates_no_agent(workspace, fields, wrong):
    before = Agent.objects.count()

    with pytest.raises(InvalidFields) as caught:
        create_agent(workspace_id=workspace.pk, fields={"name": "Scout", **fields})

    assert [error["field"] for error in caught.value.errors] == [wrong]
    assert Agent.objects.count() == before


def test_an_environment_of_another_workspace_is_refused(agent, foreign_workspace):
    foreign = create_environment(workspace_id=foreign_workspace.pk, fields={"name": "theirs"})

    for reference in (foreign.pk, "theirs"):
        with pytest.raises(Invalid, match="no environment"):
            change_agent(agent, {"environment": reference})
    assert numbers(agent) == [1]


def test_an_archived_agent_is_not_found_and_cannot_be_changed(workspace, agent):
    archive_agent(agent)

    for reference in (agent.pk, "Scout"):
        with pytest.raises(NotFound):
            find_agent(workspace.pk, reference)
    with pytest.raises(Conflict, match="archived"):
        change_agent(agent, {"description": "still here"})


def test_an_agent_is_found_by_id_and_by_exact_name_in_its_workspace(
    workspace, foreign_workspace, agent
):
    assert find_agent(workspace.pk, str(agent.pk)) == agent
    assert find_agent(workspace.pk, "Scout") == agent
    for reference in ("scout", "Sco", "", "Sc\x00ut", "\ud800"):
        with pytest.raises(NotFound):
            find_agent(workspace.pk, reference)
    with pytest.raises(NotFound):
        find_agent(foreign_workspace.pk, agent.pk)


def test_an_ambiguous_name_is_refused(workspace, agent):
    create_agent(workspace_id=workspace.pk, fields={"name": "Scout"})

    with pytest.raises(Conflict, match="Use the id"):
        find_agent(workspace.pk, "Scout")


def test_an_agent_is_not_found_by_its_former_name(workspace, agent):
    change_agent(agent, {"name": "Ranger"})

    assert current_version(find_agent(workspace.pk, "Ranger")).number == 2
    with pytest.raises(NotFound):
        find_agent(workspace.pk, "Scout")


def network_of(version: AgentVersion) -> str:
    environment = version_by_id(version.pk).environment
    assert environment
    return environment.network


def test_a_version_is_cached_and_its_environment_stays_current(
    workspace, agent, django_assert_num_queries
):
    box = create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    version = change_agent(agent, {"environment": "box"})

    with django_assert_num_queries(2):
        assert network_of(version) == "none"
    with django_assert_num_queries(0):
        assert network_of(version) == "none"

    change_environment(box, {"network": "full"})
    assert network_of(version) == "full"


def test_a_caller_cannot_change_a_cached_version(agent):
    version_by_id(agent.current_id).name = "Spoiled"

    assert version_by_id(agent.current_id).name == "Scout"


def test_an_unknown_version_is_not_found(db):
    with pytest.raises(NotFound):
        version_by_id(uuid7())
