"""Tests of environments over REST."""

from __future__ import annotations

from agents.api.serializers import EnvironmentSerializer
from agents.environments import EnvironmentInput
from agents.models import Environment
from tests.conftest import key_client

ENVIRONMENTS = "/api/v1/environments/"


def test_the_serializer_matches_the_input_model():
    fields = EnvironmentSerializer().get_fields()

    assert {name for name, field in fields.items() if not field.read_only} == set(
        EnvironmentInput.model_fields
    )


def test_an_environment_can_be_created_changed_and_deleted(api, owner):
    made = api.post(
        ENVIRONMENTS,
        {"name": "box", "network": "allowlist", "allowed_hosts": ["*.example.com"]},
        format="json",
    )
    assert made.status_code == 201
    body = made.json()
    assert (body["kind"], body["limits"]["pids"]) == ("local", 128)
    assert body["created_by"] == str(owner.pk)
    path = f"{ENVIRONMENTS}{body['id']}/"
    assert api.get(path).json() == body

    changed = api.patch(path, {"limits": {"memory_mb": 64}}, format="json").json()
    assert (changed["limits"]["memory_mb"], changed["network"]) == (64, "allowlist")

    put = api.put(path, {**body, "network": "none"}, format="json").json()
    assert (put["limits"], put["network"]) == (body["limits"], "none")

    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


def test_the_list_contains_the_default_and_only_the_workspaces_own(api, foreign_api):
    api.post(ENVIRONMENTS, {"name": "box"}, format="json")

    assert [one["name"] for one in api.get(ENVIRONMENTS).json()["results"]] == [
        "box",
        "local-default",
    ]
    theirs = foreign_api.get(ENVIRONMENTS).json()["results"]
    assert [one["name"] for one in theirs] == ["local-default"]


def test_a_taken_name_and_a_used_environment_are_conflicts(api):
    box = api.post(ENVIRONMENTS, {"name": "box"}, format="json").json()
    assert api.post(ENVIRONMENTS, {"name": "box"}, format="json").status_code == 409

    api.post("/api/v1/agents/", {"name": "Scout", "environment": "box"}, format="json")
    answer = api.delete(f"{ENVIRONMENTS}{box['id']}/")
    assert answer.status_code == 409
    assert "Scout" in answer.json()["detail"]


def test_bad_input_is_a_problem_that_names_the_field(api):
    answer = api.post(ENVIRONMENTS, {"name": "box", "limits": {"pids": 0}}, format="json")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "#/limits/pids"


def test_environments_of_another_workspace_are_not_found(foreign_api, workspace):
    path = f"{ENVIRONMENTS}{Environment.objects.get(workspace=workspace).pk}/"

    assert foreign_api.get(path).status_code == 404
    assert foreign_api.patch(path, {"network": "full"}, format="json").status_code == 404
    assert foreign_api.put(path, {"name": "x"}, format="json").status_code == 404
    assert foreign_api.delete(path).status_code == 404
    assert Environment.objects.get(workspace=workspace).network == "none"


def test_a_key_with_run_scope_cannot_create_environments(workspace):
    program = key_client(workspace, "run")

    assert program.get(ENVIRONMENTS).status_code == 200
    assert program.post(ENVIRONMENTS, {"name": "box"}, format="json").status_code == 403
