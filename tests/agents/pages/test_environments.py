"""Tests of the forms for environments and custom tools: errors and permissions."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from agents.environments import default_environment
from agents.models import Environment
from tests.conftest import add_member
from tools_app.models import CustomTool

ENVIRONMENTS, TOOLS = "/settings/environments/", "/settings/tools/"


def client_of(workspace, role: str) -> Client:
    client = Client()
    client.force_login(add_member(workspace, role))
    return client


def environment_form(**changed: object) -> dict[str, object]:
    return {
        "name": "builds",
        "kind": "container",
        "image": "docker.io/library/python:3.12-slim",
        "network": "allowlist",
        "allowed_hosts": "packages.test\n*.example.com",
        "cpu_seconds": "60",
        "memory_mb": "1024",
        "pids": "64",
        "wall_seconds": "300",
        "mount_kind": ["workspace_directory", "workspace_directory"],
        "mount_source_ref": ["shared", ""],
        "mount_mount_path": ["/workspace/shared", ""],
        "mount_access": ["read_write", "read_only"],
        **changed,
    }


def tool_form(**changed: str) -> dict[str, str]:
    schema = {"type": "object", "properties": {"order": {"type": "string"}}}
    return {
        "name": "look_up_order",
        "description": "Finds an order.",
        "input_schema": json.dumps(schema),
        "permission": "always_ask",
        "timeout_seconds": "30",
        **changed,
    }


def test_an_environment_can_be_created_shown_changed_and_deleted(browser_client, workspace):
    assert browser_client.post(f"{ENVIRONMENTS}new/", environment_form()).status_code == 302
    made = Environment.objects.get(name="builds")
    assert made.allowed_hosts == ["packages.test", "*.example.com"]
    assert made.limits["memory_mb"] == 1024
    assert [mount["access"] for mount in made.mounts] == ["read_write"]
    page = browser_client.get(ENVIRONMENTS).text
    assert "reaches packages.test, *.example.com" in page
    assert "/workspace/shared" in page
    assert "300 s elapsed" in page

    form = browser_client.get(f"{ENVIRONMENTS}{made.pk}/").text
    assert 'value="/workspace/shared"' in form
    without = environment_form(network="none", mount_mount_path=["", ""], mount_source_ref=["", ""])
    browser_client.post(f"{ENVIRONMENTS}{made.pk}/", without)
    made.refresh_from_db()
    assert (made.network, made.mounts) == ("none", [])

    browser_client.post(f"{ENVIRONMENTS}{made.pk}/delete/")
    assert not Environment.objects.filter(pk=made.pk).exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"allowed_hosts": ""}, "needs at least one host"),
        ({"allowed_hosts": "*"}, "choose the network"),
        ({"memory_mb": "1"}, "greater than or equal to 64"),
        ({"image": "--privileged"}, "match pattern"),
        ({"mount_mount_path": ["/etc", ""]}, "Mounts: "),
        ({"name": " "}, "required"),
    ],
)
def test_an_invalid_environment_is_refused_with_a_message(
    browser_client, workspace, changed, message
):
    answer = browser_client.post(f"{ENVIRONMENTS}new/", environment_form(**changed))

    assert answer.status_code == 400
    assert message in answer.text
    assert not Environment.objects.filter(name="builds").exists()


def test_the_default_cannot_be_renamed_or_deleted(browser_client, workspace):
    default = default_environment(workspace.pk)
    answer = browser_client.post(f"{ENVIRONMENTS}{default.pk}/", environment_form())

    assert answer.status_code == 400
    assert "cannot be renamed" in answer.text
    refused = browser_client.post(f"{ENVIRONMENTS}{default.pk}/delete/", follow=True).text
    assert "Change it instead" in refused


def test_a_taken_name_is_refused_with_a_message(browser_client, workspace):
    browser_client.post(f"{ENVIRONMENTS}new/", environment_form())
    again = browser_client.post(f"{ENVIRONMENTS}new/", environment_form())

    assert again.status_code == 400
    assert "is already named &#x27;builds&#x27;" in again.text


def test_an_admin_can_check_which_sandboxes_work_on_this_machine(browser_client, workspace):
    page = browser_client.post(f"{ENVIRONMENTS}check/").text

    assert "Local, network none" in page
    assert "Container, network full" in page


def test_viewers_can_only_look(workspace):
    client = client_of(workspace, "viewer")
    for page in (ENVIRONMENTS, TOOLS):
        assert client.get(page).status_code == 200
        assert client.get(f"{page}new/").status_code == 403
    assert client.post(f"{ENVIRONMENTS}check/").status_code == 403


def test_a_custom_tool_can_be_defined_changed_and_deleted(browser_client, workspace):
    assert "No custom tools yet" in browser_client.get(TOOLS).text
    assert browser_client.post(f"{TOOLS}new/", tool_form()).status_code == 302
    made = CustomTool.objects.get()
    assert (made.timeout_seconds, made.permission) == (30, "always_ask")
    assert "look_up_order" in browser_client.get(TOOLS).text

    changed = tool_form(permission="always_allow", description="Finds any order.")
    browser_client.post(f"{TOOLS}{made.pk}/", changed)
    made.refresh_from_db()
    assert made.description == "Finds any order."

    browser_client.post(f"{TOOLS}{made.pk}/delete/")
    assert not CustomTool.objects.exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_schema": "{"}, "line 1, column 2"),
        ({"input_schema": "[]"}, "A schema is an object"),
        ({"input_schema": '{"type": "string"}'}, "must describe an object"),
        ({"input_schema": '{"type": "object", "properties": 3}'}, "not a JSON Schema"),
        ({"input_schema": "[" * 100_000}, "nested too deeply"),
        ({"name": "exec"}, "is the name of a built-in tool"),
        ({"name": "Look up"}, "Use lowercase letters"),
        ({"timeout_seconds": "0"}, "greater than or equal to 1"),
    ],
)
def test_an_invalid_tool_is_refused_with_a_message(browser_client, workspace, changed, message):
    answer = browser_client.post(f"{TOOLS}new/", tool_form(**changed))

    assert answer.status_code == 400
    assert message in answer.text
    assert not CustomTool.objects.exists()


def test_invalid_input_stays_in_the_form(browser_client, workspace):
    answer = browser_client.post(f"{TOOLS}new/", tool_form(input_schema='{"type": "<b>"'))

    assert "{&quot;type&quot;: &quot;&lt;b&gt;&quot;" in answer.text
