"""Takes pictures of the policy page. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from orchestrator.workspaces import create_workspace
from tenants.access import principal_of_user
from tenants.models import User
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tools_app.policy.storage import change_policy, find_target


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_policies(
    open_context: OpenContext, transactional_db: None, size: str, theme: str
) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    fields = {"name": "Release helper", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=acme.pk, fields=fields)
    others = [
        create_agent(workspace_id=acme.pk, fields={**fields, "name": name})
        for name in ("Researcher", "Clerk")
    ]
    principal = principal_of_user(olive, acme.pk)
    change_policy(principal, find_target(acme.pk, "workspace"), {"denied_tools": ["web_fetch"]})
    target = find_target(acme.pk, "agent", agent.pk)
    change_policy(principal, target, {"profile": "full", "ask_tools": ["write"]})
    words = {
        "profile": "coding",
        "ask_tools": ["write"],
        "approved_tools": ["exec(git status*)"],
        "peers": [{"agent": str(others[0].pk), "may": ["list", "read"]}],
    }
    change_policy(principal, target, words)
    look = f"{size}-{theme}"
    page = open_context(**as_seen(size, theme)).new_page()
    sign_in(page, olive)
    page.goto("/policies/")
    shoot(page, f"policies-workspace-{look}")
    page.goto(f"/policies/agent/{agent.pk}/")
    page.locator("[data-tool=exec] .segment.is-allow").click()
    if size == "wide":
        page.get_by_label("Tool", exact=True).fill("exec")
        page.get_by_label("Arguments").fill('{"command": "rm -rf build"}')
        page.locator(".chain").wait_for()
    page.locator(".peers-more summary").click()
    page.get_by_role("group", name="Clerk").get_by_label("Send").check()
    page.get_by_text("unsaved change").wait_for()
    shoot(page, f"policies-agent-{look}")
    page.get_by_role("button", name="Review changes").click()
    page.get_by_role("heading", name="Review changes").wait_for()
    shoot(page, f"policies-review-{look}")
    page.locator(".target-menu summary").click()
    shoot(page, f"policies-places-{look}")
