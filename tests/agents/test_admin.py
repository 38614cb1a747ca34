"""Tests that the admin pages of agents show everything but secrets."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from agents.definitions import change_agent, create_agent
from agents.models import Agent, AgentVersion, Environment, ProviderKey
from agents.providers.keys import save_key
from tenants.models import User
from tests.wire.openai import OpenAIWire

SECRET = "sk-0123456789-abcdefg"
MODELS = [Agent, AgentVersion, Environment, ProviderKey]


@pytest.fixture
def staff(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("staff@example.com", "correct horse 9"))
    return client


@pytest.fixture
def saved_key(workspace) -> None:
    save_key(workspace_id=workspace.pk, provider="openai", api_key=SECRET)


def path(model: type, page: str, *args: object) -> str:
    return reverse(f"admin:agents_{model.__name__.lower()}_{page}", args=args)


@pytest.mark.parametrize("model", MODELS)
def test_lists_and_forms_open_and_never_contain_a_secret(staff, saved_key, model):
    row = model.objects.first()
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM agents_providerkey")
        cipher = cursor.fetchone()[0]

    for url in (
        path(model, "changelist"),
        f"{path(model, 'changelist')}?q=Coder",
        path(model, "change", row.pk),
    ):
        page = staff.get(url)
        assert page.status_code == 200
        assert SECRET not in page.content.decode()
        assert cipher not in page.content.decode()


def test_an_agents_page_shows_its_versions(staff, workspace, agent):
    change_agent(agent, {"name": "Ranger"})

    page = staff.get(path(Agent, "change", agent.pk)).content.decode()

    assert "Scout" in page
    assert "Ranger" in page


@pytest.mark.parametrize("model", [Agent, AgentVersion])
def test_lists_take_the_same_queries_for_any_length(
    staff, workspace, owner, model, django_assert_max_num_queries
):
    url = path(model, "changelist")
    with django_assert_max_num_queries(12) as first:
        staff.get(url)
    for number in range(20):
        create_agent(workspace_id=workspace.pk, fields={"name": f"N{number}"}, created_by=owner)

    with django_assert_max_num_queries(len(first)):
        staff.get(url)


def test_versions_and_keys_are_read_only(staff, saved_key, workspace):
    version, key = AgentVersion.objects.all()[0], ProviderKey.objects.get()

    assert staff.get(path(AgentVersion, "add")).status_code == 403
    assert staff.get(path(ProviderKey, "add")).status_code == 403
    assert staff.post(path(AgentVersion, "change", version.pk), {"name": "x"}).status_code == 403
    assert staff.post(path(ProviderKey, "change", key.pk), {"hint": "x"}).status_code == 403
    assert staff.post(path(AgentVersion, "delete", version.pk), {"post": "yes"}).status_code == 403


def test_agents_can_be_archived_and_restored(staff, agent):
    def act(action: str) -> bool:
        chosen = {"action": action, "_selected_action": [str(agent.pk)]}
        staff.post(path(Agent, "changelist"), chosen)
        return Agent.objects.get(pk=agent.pk).archived_at is not None

    assert act("archive") is True
    assert act("restore") is False


def test_a_key_can_be_tested_from_its_list(staff, workspace, allow):
    with OpenAIWire(key=SECRET) as server:
        key = save_key(
            workspace_id=workspace.pk, provider="openai", api_key=SECRET, base_url=allow(server)
        )
        chosen = {"action": "test_connection", "_selected_action": [str(key.pk)]}
        staff.post(path(ProviderKey, "changelist"), chosen)

    key.refresh_from_db()
    assert key.checked_at
    assert key.check_error == ""


@pytest.mark.parametrize(
    ("hosts", "saved"), [('["api.example.com"]', True), ('["https://example.com"]', False)]
)
def test_staff_input_for_environments_is_validated(staff, workspace, hosts, saved):
    row = Environment.objects.get(workspace=workspace)
    form = {
        "workspace": str(workspace.pk),
        "name": row.name,
        "kind": "local",
        "network": "allowlist",
        "allowed_hosts": hosts,
        "image": "",
        "mounts": "[]",
        "limits": "{}",
    }

    staff.post(path(Environment, "change", row.pk), form)

    row.refresh_from_db()
    assert (row.network == "allowlist") is saved
