"""Tests of the MCP servers page and the `mcp` command against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.conftest import add_member
from tests.wire.mcp_process import McpProcess, free_port
from tools_app.models import McpServer

URL = "/settings/mcp/"


@pytest.fixture(scope="module")
def process() -> Iterator[McpProcess]:
    with McpProcess() as running:
        yield running


@pytest.fixture
def form(process: McpProcess, settings) -> dict[str, str]:
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp={process.netloc}"]
    return {
        "name": "yard",
        "url": process.url,
        "permission": "always_ask",
        "timeout_seconds": "30",
        "headers": "X-Team: cranes\n",
        "repeatable_tools": " get_*  search",
    }


def test_a_server_can_be_added_changed_disabled_refreshed_and_deleted(browser_client, form):
    page = browser_client.post(f"{URL}new/", form, follow=True).text
    server = McpServer.objects.get()
    assert "yard was added and offers 7 tools." in page
    assert "Yard tools 1.2.3" in page
    assert (server.headers, server.timeout_seconds) == ({"X-Team": "cranes"}, 30)

    path = f"{URL}{server.pk}/"
    assert server.repeatable_tools == ["get_*", "search"]
    shown = browser_client.get(path).text
    assert "X-Team: cranes" in shown
    assert 'value="get_* search"' in shown
    page = browser_client.post(path, form | {"permission": "always_allow"}, follow=True).text
    assert "Runs without asking" in page
    page = browser_client.post(f"{path}switch/", {"on": "0"}, follow=True).text
    assert "Switched off" in page
    browser_client.post(f"{path}switch/", {"on": "1"})
    assert (
        "was refreshed and offers 7 tools"
        in browser_client.post(f"{path}refresh/", follow=True).text
    )
    browser_client.post(f"{path}delete/")
    assert not McpServer.objects.exists()


def test_a_dead_server_is_reported_with_advice(browser_client, form, settings):
    port = free_port()
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp=127.0.0.1:{port}"]
    dead = form | {"url": f"http://127.0.0.1:{port}/mcp"}
    page = browser_client.post(f"{URL}new/", dead, follow=True).text

    assert "Cannot be reached" in page
    assert "Check that it is running" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Yard"}, "Use lowercase letters"),
        ({"headers": "nonsense"}, "Write “Name: value”"),
        ({"headers": "Authorization: Bearer abcdef"}, "vault"),
        ({"url": ""}, "needs an address"),
    ],
)
def test_an_error_is_shown_at_its_field(browser_client, form, change, words):
    answer = browser_client.post(f"{URL}new/", form | change)

    assert answer.status_code == 400
    assert words in answer.text
    assert not McpServer.objects.exists()


def test_builders_can_refresh_servers_and_viewers_can_only_look(
    client, workspace, browser_client, form
):
    browser_client.post(f"{URL}new/", form)
    server = McpServer.objects.get()
    client.force_login(add_member(workspace, "builder"))
    page = client.get(URL).text
    assert "Refresh yard" in page
    assert "Delete yard" not in page
    assert client.post(f"{URL}{server.pk}/refresh/").status_code == 302
    assert client.post(f"{URL}{server.pk}/delete/").status_code == 403

    client.force_login(add_member(workspace, "viewer"))
    assert "Refresh yard" not in client.get(URL).text
    assert client.post(f"{URL}{server.pk}/refresh/").status_code == 403


def run_mcp(*words: str) -> str:
    out = StringIO()
    call_command("mcp", *words, stdout=out)
    return out.getvalue()


def test_the_command_adds_lists_and_refreshes_servers(workspace, form):
    where = ("--workspace", workspace.slug)
    added = run_mcp("add", *where, "--name", "yard", "--url", form["url"], "--header", "X-A: b")

    assert added == f"yard\tok\t7 tools\t{form['url']}\n"
    assert run_mcp("list", *where) == added
    assert run_mcp("refresh", *where, "--name", "yard") == added
    assert McpServer.objects.get().headers == {"X-A": "b"}
    with pytest.raises(CommandError, match="no such MCP server"):
        run_mcp("refresh", *where, "--name", "other")
    with pytest.raises(CommandError, match="already"):
        run_mcp("add", *where, "--name", "yard", "--url", form["url"])
