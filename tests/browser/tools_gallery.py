"""Takes pictures of the vault, MCP servers and skills. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from django.utils import timezone

from orchestrator.workspaces import create_workspace
from tenants import vault
from tenants.models import Secret, User
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tools_app.mcp.servers import add_server
from tools_app.models import McpServer, Skill

TOOLS = [
    ("search_issues", "Search issues and pull requests by words, labels, people and state."),
    ("create_issue", "Open an issue in a repository."),
    ("get_file", "Read a file of a repository at a branch or commit."),
]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_tools_pages(open_context: OpenContext, transactional_db: None, size: str, theme: str):
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    page = sign_in(
        open_context(**as_seen(size, theme, scale=2)).new_page(),
        olive,
    )
    look = f"{size}-{theme}"
    for name in ("vault", "mcp"):
        page.goto(f"/settings/{name}/")
        shoot(page, f"{name}-empty-{look}")
    vault.add(acme.pk, "GITHUB_TOKEN", "x" * 20, hosts=["api.githubcopilot.com"], by=olive)
    vault.add(acme.pk, "WAREHOUSE_PASSWORD", "x" * 20, by=olive)
    Secret.objects.filter(name="GITHUB_TOKEN").update(last_used_at=timezone.now())
    bearer = {"Authorization": "Bearer {{vault:GITHUB_TOKEN}}"}
    for name, url, headers, status in (
        ("github", "https://api.githubcopilot.com/mcp/", bearer, "ok"),
        ("warehouse", "https://mcp.acme.dev/warehouse", {}, "down"),
    ):
        fields = {"name": name, "url": url, "headers": headers}
        server = add_server(workspace_id=acme.pk, fields=fields, created_by=olive)
        McpServer.objects.filter(pk=server.pk).update(
            status=status,
            error="" if status == "ok" else f"{name} cannot be reached: connection refused",
            server_info="github-mcp-server 2.1.0" if status == "ok" else "",
            refreshed_at=timezone.now(),
            left_out=[
                "'delete:all': the name has characters that are not allowed in names of tools."
            ],
            tools=[{"name": n, "description": d, "input_schema": {}} for n, d in TOOLS],
        )
    skill = Skill.objects.get()
    for name, path in {
        "vault": "/settings/vault/",
        "mcp": "/settings/mcp/",
        "skills": "/settings/skills/",
        "skill-edit": f"/settings/skills/{skill.pk}/",
        "mcp-edit": f"/settings/mcp/{McpServer.objects.first().pk}/",
    }.items():
        page.goto(path)
        if name == "mcp":
            page.get_by_text("3 tools").first.click()
        shoot(page, f"{name}-{look}")
    page.goto("/settings/mcp/")
    page.get_by_role("link", name="Add server").click()
    shoot(page, f"mcp-dialog-{look}")
    page.goto("/settings/vault/")
    page.get_by_label("Replace GITHUB_TOKEN").click()
    shoot(page, f"vault-replace-{look}")
