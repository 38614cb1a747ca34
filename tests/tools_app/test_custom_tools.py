"""Tests of custom tools: their definition, visibility and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from agents.definitions import create_agent
from agents.models import Agent
from tenants.models import Workspace
from tests.conftest import key_client
from tools_app.api.tools import CustomToolSerializer
from tools_app.exceptions import ToolFailed
from tools_app.models import CustomTool
from tools_app.workspace_tools import CustomToolInput, create_custom_tool, custom_tools

TOOLS = "/api/v1/tools/custom/"
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "minLength": 3, "pattern": "(a+)+$"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["order"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "integer", "minimum": 1}},
}
ORDERS = {"name": "find_order", "description": "Find an order.", "input_schema": SCHEMA}


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Clerk", "provider": "demo"})


def test_the_serializer_matches_the_input_model():
    fields = CustomToolSerializer().get_fields()

    described = {name for name, field in fields.items() if not field.read_only}
    assert described == set(CustomToolInput.model_fields)


def test_a_tool_can_be_created_changed_and_deleted(api, owner):
    made = api.post(TOOLS, ORDERS, format="json")
    assert made.status_code == 201
    body = made.json()
    assert (body["permission"], body["timeout_seconds"]) == ("always_allow", 300)
    assert (body["created_by"], body["input_schema"]) == (str(owner.pk), SCHEMA)
    path = f"{TOOLS}{body['id']}/"
    assert api.get(path).json() == body
    assert api.get(TOOLS).json()["results"] == [body]

    changed = api.patch(path, {"timeout_seconds": 9}, format="json").json()
    assert changed == body | {"timeout_seconds": 9}
    assert api.put(path, ORDERS, format="json").json() == body

    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Find Order"}, "name"),
        ({"name": "read"}, "name"),
        ({"name": "mcp:x"}, "name"),
        ({"description": " "}, "description"),
        ({"input_schema": {"type": "string"}}, "input_schema"),
        ({"input_schema": {"type": "object", "properties": 3}}, "input_schema"),
        ({"input_schema": {"type": "object", "properties": {"a": True}}}, "input_schema"),
        ({"input_schema": {"type": "object", "required": "a"}}, "input_schema"),
        (
            {"input_schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}},
            "input_schema",
        ),
        (
            {"input_schema": {"type": "object", "allOf": [{"$ref": "http://127.0.0.1/x"}]}},
            "input_schema",
        ),
        (
            {
                "input_schema": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/$defs/a"}},
                    "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
                }
            },
            "input_schema",
        ),
        ({"input_schema": {"type": "object", "title": "x" * 60_000}}, "input_schema"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"permission": "never_ask"}, "permission"),
        ({"url": "http://example.com"}, "url"),
    ],
)
def test_an_invalid_definition_names_its_field(api, changes, field):
    answer = api.post(TOOLS, ORDERS | changes, format="json")

    assert answer.status_code == 400, answer.json()
    assert {error["field"].split(".")[0] for error in answer.json()["errors"]} == {field}
    assert not CustomTool.objects.exists()


def test_a_name_is_unique_in_a_workspace(api, foreign_api):
    api.post(TOOLS, ORDERS, format="json")

    assert api.post(TOOLS, ORDERS, format="json").status_code == 409
    assert foreign_api.post(TOOLS, ORDERS, format="json").status_code == 201


def test_only_builders_can_define_tools(workspace):
    runner = key_client(workspace, "run")

    assert runner.post(TOOLS, ORDERS, format="json").status_code == 403
    assert runner.get(TOOLS).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "'order' is a required property"),
        ({"order": 3}, "order: 3 is not of type 'string'"),
        ({"order": "abc", "lines": [1, 0]}, "lines.1: 0 is less than the minimum"),
        ({"order": "abc", "extra": 1}, "extra"),
        ({"_raw": "not json"}, "The arguments of find_order were not a JSON object"),
    ],
)
def test_invalid_arguments_are_reported_to_the_model(workspace, arguments, complaint):
    create_custom_tool(workspace_id=workspace.pk, fields=ORDERS)
    tool = custom_tools(workspace.pk)["find_order"]

    with pytest.raises(ToolFailed) as caught:
        tool.parse(arguments)
    assert complaint in caught.value.detail


def test_broken_json_is_refused_even_by_a_permissive_schema(workspace):
    create_custom_tool(
        workspace_id=workspace.pk, fields={"name": "lax", "description": "Takes all."}
    )
    lax = custom_tools(workspace.pk)["lax"]

    assert lax.parse({"anything": 1}).model_dump() == {"anything": 1}
    with pytest.raises(ToolFailed, match="not a JSON object"):
        lax.parse({"_raw": '{"order": '})


def test_a_catastrophic_pattern_cannot_block_a_worker(workspace):
    create_custom_tool(workspace_id=workspace.pk, fields=ORDERS)

    # Python's regular expressions would need exponential time for this.
    custom_tools(workspace.pk)["find_order"].parse({"order": "a" * 200 + "b"})


def test_references_in_a_schema_are_resolved_for_the_model(workspace):
    create_custom_tool(workspace_id=workspace.pk, fields=ORDERS)

    properties: Any = custom_tools(workspace.pk)["find_order"].spec.json_schema["properties"]

    assert properties["lines"] == {"type": "array", "items": {"type": "integer", "minimum": 1}}


def test_a_policy_decides_which_agents_get_a_custom_tool(api, foreign_api, agent):
    api.post(TOOLS, ORDERS | {"permission": "always_ask"}, format="json")
    api.post(TOOLS, ORDERS | {"name": "ring_bell"}, format="json")
    path = f"/api/v1/agents/{agent.pk}/"

    def decisions() -> dict[str, str]:
        found = api.get(f"{path}tools/").json()["results"]
        return {one["name"]: one["decision"] for one in found if one["category"] == "custom"}

    assert decisions() == {"find_order": "ask", "ring_bell": "allow"}
    api.put(f"{path}policy/", {"allowed_tools": ["find_order", "read"]}, format="json")
    assert decisions() == {"find_order": "ask"}
    api.put(f"{path}policy/", {"approved_tools": ["find_order"]}, format="json")
    assert decisions() == {"find_order": "allow", "ring_bell": "allow"}
    api.put(f"{path}policy/", {"denied_tools": ["group:custom"]}, format="json")
    assert decisions() == {}
    known = {one["name"] for one in foreign_api.get("/api/v1/tools/").json()["results"]}
    assert "find_order" not in known
