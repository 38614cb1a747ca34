"""Tests of agents over REST: flat objects, versions, and nothing of other workspaces."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from agents.api.serializers import DefinitionSerializer
from agents.definitions import AgentInput, create_agent
from agents.models import Agent, AgentVersion
from tenants.models import Membership
from tests.conftest import add_member, key_client

AGENTS = "/api/v1/agents/"


def test_the_serializer_matches_the_input_model():
    assert set(DefinitionSerializer().get_fields()) == set(AgentInput.model_fields)


def test_a_name_is_enough_and_the_response_is_flat(api, workspace, owner):
    answer = api.post(AGENTS, {"name": "Scout"}, format="json")

    assert answer.status_code == 201
    made = answer.json()
    assert (made["name"], made["version"], made["provider"], made["model"]) == (
        "Scout",
        1,
        "demo",
        "demo",
    )
    assert made["limits"] == {
        "max_model_calls": 30,
        "max_tool_calls": 100,
        "max_parallel_calls": 8,
        "max_seconds": 1800,
        "max_tokens_total": 1_000_000,
        "max_depth": 3,
        "max_children": 10,
        "max_children_total": 100,
        "compact_at_percent": 75,
        "recall_memory": True,
        "save_before_compacting": True,
    }
    assert (made["environment"], made["temperature"], made["fallbacks"]) == (None, None, [])
    assert made["created_by"] == str(owner.pk)
    assert made["created_at"]
    assert made["updated_at"]
    assert api.get(f"{AGENTS}{made['id']}/").json() == made


def test_every_field_is_returned_as_it_was_sent(api, workspace):
    environment = api.post("/api/v1/environments/", {"name": "box"}, format="json").json()
    sent = {
        "name": "Scout",
        "description": "Looks around.\nTry: Look there",
        "system_prompt": "Be brief.\n",
        "provider": "gemini",
        "model": "gemini-2.5-pro",
        "runner": "harness",
        "fallbacks": [{"provider": "demo", "model": "demo"}],
        "temperature": 0.5,
        "max_tokens": 1000,
        "environment": environment["id"],
        "limits": {
            "max_model_calls": 3,
            "max_tool_calls": 4,
            "max_parallel_calls": 2,
            "max_seconds": 5,
            "max_tokens_total": 6000,
            "max_depth": 1,
            "max_children": 2,
            "max_children_total": 7,
            "compact_at_percent": 60,
            "recall_memory": False,
            "save_before_compacting": False,
        },
    }

    made = api.post(AGENTS, sent, format="json").json()

    assert {name: made[name] for name in sent} == sent
    assert made["suggestions"] == ["Look there"]


def test_a_patch_creates_a_version_unless_it_is_empty(api, agent):
    changed = api.patch(f"{AGENTS}{agent.pk}/", {"temperature": 1}, format="json")

    assert changed.status_code == 200
    assert (changed.json()["version"], changed.json()["temperature"]) == (2, 1.0)
    assert changed.json()["updated_at"] > changed.json()["created_at"]
    assert api.patch(f"{AGENTS}{agent.pk}/", {}, format="json").json()["version"] == 2


def test_a_response_can_be_edited_and_put_back(api, agent):
    read = api.get(f"{AGENTS}{agent.pk}/").json()

    put = api.put(f"{AGENTS}{agent.pk}/", {**read, "name": "Ranger"}, format="json")

    assert put.status_code == 200
    assert (put.json()["version"], put.json()["name"]) == (2, "Ranger")
    assert put.json()["id"] == read["id"]


def test_a_put_needs_a_name(api, agent):
    answer = api.put(f"{AGENTS}{agent.pk}/", {"description": "x"}, format="json")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "name"


def test_a_change_can_require_the_version_it_builds_on(api, agent):
    path = f"{AGENTS}{agent.pk}/"
    body = {"description": "one", "expected_version": 1}
    assert api.patch(path, body, format="json").status_code == 200

    late = api.patch(path, {"description": "two", "expected_version": 1}, format="json")

    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    bad = api.patch(path, {"expected_version": "first"}, format="json")
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (400, "expected_version")


def test_versions_are_listed_newest_first_and_read_by_number(api, agent):
    for text in ("two", "three"):
        api.patch(f"{AGENTS}{agent.pk}/", {"description": text}, format="json")

    listed = api.get(f"{AGENTS}{agent.pk}/versions/").json()

    assert [one["version"] for one in listed["results"]] == [3, 2, 1]
    second = api.get(f"{AGENTS}{agent.pk}/versions/2/").json()
    assert (second["description"], second["agent"]) == ("two", str(agent.pk))
    assert second == listed["results"][1]
    assert api.get(f"{AGENTS}{agent.pk}/versions/4/").status_code == 404
    assert api.get(f"{AGENTS}{agent.pk}/versions/99999999999999999999/").status_code == 404


def test_a_deleted_agent_is_archived(api, agent):
    path = f"{AGENTS}{agent.pk}/"
    assert api.delete(path).status_code == 204

    assert api.get(path).status_code == 404
    assert api.patch(path, {"name": "x"}, format="json").status_code == 404
    names = [one["name"] for one in api.get(AGENTS).json()["results"]]
    assert "Scout" not in names
    archived = api.get(f"{AGENTS}?archived=true").json()["results"]
    assert [(one["name"], bool(one["archived_at"])) for one in archived] == [("Scout", True)]
    assert api.get(f"{path}?archived=true").status_code == 200
    assert api.get(f"{path}versions/").status_code == 200


def test_a_list_can_be_filtered_by_name(api, agent):
    assert [one["name"] for one in api.get(f"{AGENTS}?q=sCo").json()["results"]] == ["Scout"]
    assert api.get(AGENTS, {"q": "a\x00"}).json()["results"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x", "provider": "skynet"}, "provider"),
        ({"name": "x", "model": None}, "model"),
        ({"name": "x", "limits": {"max_seconds": "long"}}, "limits.max_seconds"),
        ({"name": "x", "nonsense": 1}, "nonsense"),
        ({"name": "x", "environment": "elsewhere"}, "environment"),
        ({"name": "x", "environment": {}}, "environment"),
    ],
)
def test_bad_input_is_a_problem_that_names_the_field(api, body, field):
    answer = api.post(AGENTS, body, format="json")

    assert answer.status_code == 400
    assert answer["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["errors"][0]["field"]) == ("invalid", field)
    assert field.split(".")[-1] in problem["detail"]


@pytest.mark.parametrize("body", ["[]", "5", "null", '"x"', "{", ""])
def test_a_body_that_is_not_an_object_is_refused(api, body):
    answer = api.generic("POST", AGENTS, body, content_type="application/json")

    assert answer.status_code == 400


def test_a_list_takes_the_same_queries_for_any_length(
    api, workspace, django_assert_max_num_queries, owner
):
    api.get(AGENTS)
    for number in range(30):
        create_agent(workspace_id=workspace.pk, fields={"name": f"N{number}"}, created_by=owner)

    with django_assert_max_num_queries(3):
        page = api.get(AGENTS).json()

    assert len(page["results"]) == 33


def test_agents_of_another_workspace_are_not_found(foreign_api, agent):
    path = f"{AGENTS}{agent.pk}/"
    body = {"name": "Mine now"}

    assert foreign_api.get(path).status_code == 404
    assert foreign_api.patch(path, body, format="json").status_code == 404
    assert foreign_api.put(path, body, format="json").status_code == 404
    assert foreign_api.delete(path).status_code == 404
    assert foreign_api.get(f"{path}versions/").status_code == 404
    assert foreign_api.get(f"{path}versions/1/").status_code == 404
    assert AgentVersion.objects.filter(agent=agent).count() == 1
    assert Agent.objects.get(pk=agent.pk).archived_at is None


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("run", 403), ("admin", 201)])
def test_only_a_key_with_build_permission_can_create_agents(workspace, scope, status):
    answer = key_client(workspace, scope).post(AGENTS, {"name": "Scout"}, format="json")

    assert answer.status_code == status


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("builder", 201)])
def test_only_members_with_build_permission_can_create_agents(workspace, role, status):
    client = APIClient()
    client.force_login(add_member(workspace, Membership.Role(role)))

    assert client.get(AGENTS).status_code == 200
    assert client.post(AGENTS, {"name": "Scout"}, format="json").status_code == status


def test_an_anonymous_caller_must_sign_in(db):
    answer = APIClient().get(AGENTS)

    assert answer.status_code == 401
    assert answer["www-authenticate"]
