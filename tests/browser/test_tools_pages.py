"""Tests of the vault, MCP servers and skills in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tenants.models import Secret, User, Workspace
from tests.browser.conftest import OpenContext, sign_in
from tests.wire.mcp_process import McpProcess, free_port
from tools_app.mcp.servers import add_server
from tools_app.models import McpServer, Skill

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def process() -> Iterator[McpProcess]:
    with McpProcess() as running:
        yield running


@pytest.fixture
def yard(process: McpProcess, settings) -> McpProcess:
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp={process.netloc}"]
    return process


def test_an_mcp_server_uses_a_secret_from_the_vault(
    owner_page: Page, workspace: Workspace, yard: McpProcess
):
    page = owner_page
    page.goto("/settings/vault/")
    page.get_by_role("link", name="New secret").click()
    box = page.get_by_role("dialog", name="New secret")
    box.get_by_label("Name").fill("YARD")
    box.get_by_label("Value", exact=True).fill("s3cr3t-in-a-browser")
    box.get_by_role("button", name="Save secret").click()
    expect(page.get_by_role("row", name="YARD")).to_contain_text("Nothing")

    page.goto("/settings/mcp/")
    page.get_by_role("link", name="Add server").click()
    box = page.get_by_role("dialog", name="New MCP server")
    box.get_by_label("Name").fill("yard")
    box.get_by_label("Address").fill(yard.url)
    box.get_by_label("Headers").fill("Authorization: Bearer {{vault:YARD}}")
    box.get_by_role("button", name="Add server").click()
    expect(page.get_by_text("yard was added and offers 7 tools.")).to_be_visible()
    page.get_by_text("7 tools", exact=True).click()
    expect(page.get_by_text("Say it again.")).to_be_visible()
    assert "authorization Bearer s3cr3t-in-a-browser" in yard.notes()
    assert "s3cr3t" not in page.content()

    page.goto("/settings/vault/")
    row = page.get_by_role("row", name="YARD")
    expect(row).to_contain_text("MCP server yard")
    row.get_by_label("Delete YARD").click()
    expect(row.get_by_text("MCP server yard will stop working.")).to_be_visible()
    row.get_by_role("button", name="Delete secret").click()
    expect(page.get_by_text("YARD is deleted.")).to_be_visible()
    expect(page.get_by_text("YARD is in use")).to_be_visible()
    assert not Secret.objects.exists()


def test_a_dead_server_shows_advice_and_recovers_with_a_click(
    owner_page: Page, workspace: Workspace, settings, yard: McpProcess
):
    port = free_port()
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp={yard.netloc}", f"mcp=127.0.0.1:{port}"]
    fields = {"name": "yard", "url": f"http://127.0.0.1:{port}/mcp"}
    server = add_server(workspace_id=workspace.pk, fields=fields)
    page = owner_page
    page.goto("/settings/mcp/")
    page.get_by_label("Refresh yard").click()
    expect(page.get_by_text("Cannot be reached", exact=True)).to_be_visible()
    expect(page.get_by_text("Check that it is running")).to_be_visible()

    McpServer.objects.filter(pk=server.pk).update(url=yard.url)
    page.get_by_label("Refresh yard").click()
    expect(page.get_by_text("Works", exact=True)).to_be_visible()


def test_a_skill_can_be_created_and_edited_without_javascript(
    open_context: OpenContext, owner: User, workspace: Workspace
):
    page = sign_in(open_context(java_script_enabled=False).new_page(), owner)
    page.goto("/settings/skills/")
    page.get_by_role("link", name="New skill").click()
    page.get_by_label("Name").fill("deploy")
    page.get_by_label("Description").fill("How to deploy.")
    page.get_by_label("Text").fill("# Deploy\n\nAsk Ann.")
    page.get_by_label("Coder").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="deploy")).to_contain_text("1 agent")

    page.get_by_role("link", name="Edit deploy").click()
    page.get_by_label("Text").fill("Ask Bob.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("deploy was saved.")).to_be_visible()
    assert Skill.objects.get(name="deploy").body == "Ask Bob."
