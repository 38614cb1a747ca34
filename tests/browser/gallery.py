"""Takes pictures of the basic pages. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page

from core import env
from orchestrator.workspaces import create_workspace
from tenants.access import principal_of_user
from tenants.accounts import make_sign_in_link
from tenants.keys import issue_key
from tenants.models import ApiKey, Membership, User, Workspace
from tenants.workspaces import invite
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.looks import PHONE, WIDE

TARGET = env.ROOT / "var" / "pictures"
SIZES = {"wide": WIDE, "phone": PHONE}
THEMES = ["light", "dark"]


def as_seen(size: str, theme: str, *, scale: float = 1) -> dict[str, Any]:
    """Return the options of a desktop window or of a phone with touch."""
    is_phone = size == "phone"
    return {
        "viewport": SIZES[size],
        "color_scheme": theme,
        "device_scale_factor": scale,
        "has_touch": is_phone,
        "is_mobile": is_phone,
    }


@pytest.fixture
def acme(transactional_db: None) -> Workspace:
    """Create a workspace as it looks after a few weeks."""
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    create_workspace(name="Side project", owner=olive)
    for email, name, role in [
        ("marta@acme.dev", "Marta Lindqvist", "admin"),
        ("jun@acme.dev", "Jun Takeda", "builder"),
        ("ravi.menon@contractors.example", "Ravi Menon", "viewer"),
    ]:
        user = User.objects.create_user(email, "correct horse 9", name=name)
        Membership.objects.create(workspace=acme, user=user, role=role, created_by=olive)
    principal = principal_of_user(olive, acme.pk)
    invite(principal, email="dana@partner.example", role="builder")
    now = timezone.now()
    for name, scope, days, used in [
        ("Nightly report", "run", 90, timedelta(minutes=4)),
        ("CI", "admin", 30, timedelta(hours=6)),
        ("Grafana", "read", None, None),
        ("Old laptop", "run", None, timedelta(days=41)),
    ]:
        expires = now + timedelta(days=days) if days else None
        key = issue_key(
            workspace_id=acme.pk, name=name, scope=scope, expires_at=expires, created_by=olive
        ).key
        ApiKey.objects.filter(pk=key.pk).update(
            last_used_at=used and now - used, revoked_at=now if name == "Old laptop" else None
        )
    return acme


def shoot(page: Page, name: str) -> None:
    page.wait_for_load_state("load")
    page.screenshot(path=TARGET / f"{name}.png")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures(open_context: OpenContext, acme: Workspace, size: str, theme: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    window = open_context(**as_seen(size, theme, scale=2))
    page = window.new_page()
    look = f"{size}-{theme}"
    olive = User.objects.get(email="olive@acme.dev")
    link = make_sign_in_link(User.objects.create_user("owner@localhost"))

    doors = {
        "sign-in": "/sign-in/",
        "sign-up": "/sign-up/",
        "link": f"/sign-in/{link}/",
        "reset": "/password/reset/",
        "reset-sent": "/password/reset/sent/",
        "spent-link": "/sign-in/nothing/",
    }
    for name, path in doors.items():
        page.goto(path)
        shoot(page, f"{name}-{look}")
    page.goto("/sign-in/")
    page.get_by_label("E-mail").fill("olive@acme.dev")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    shoot(page, f"sign-in-wrong-{look}")

    sign_in(page, olive)
    frames = {
        "home": "/",
        "members": "/settings/members/",
        "keys": "/settings/keys/",
        "key-new": "/settings/keys/new/",
        "workspace": "/settings/workspace/",
        "account": "/settings/account/",
        "password": "/password/",
        "workspace-new": "/workspaces/new/",
        "not-found": "/nowhere/",
    }
    for name, path in frames.items():
        page.goto(path)
        shoot(page, f"{name}-{look}")
    shoot_overlays(page, size, look)


def shoot_overlays(page: Page, size: str, look: str) -> None:
    """Take pictures of dialogs, menus and the palette."""
    page.goto("/settings/keys/")
    page.get_by_role("link", name="New key").click()
    shoot(page, f"keys-dialog-{look}")
    page.keyboard.press("Escape")
    page.locator("summary", has_text="Revoke").first.click()
    shoot(page, f"keys-revoke-{look}")
    page.goto("/settings/keys/new/")
    page.get_by_label("Name").fill("Deploy hook")
    page.get_by_role("button", name="Create key").click()
    shoot(page, f"key-made-{look}")
    page.goto("/settings/members/")
    page.get_by_label("E-mail").fill("sofia@acme.dev")
    page.get_by_role("button", name="Invite", exact=True).click()
    shoot(page, f"members-invited-{look}")
    page.goto("/")
    if size == "phone":
        page.get_by_text("More").click()
        shoot(page, f"more-{look}")
        return
    page.locator("summary", has_text="Workspace:").click()
    shoot(page, f"switcher-{look}")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("se")
    shoot(page, f"palette-{look}")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    shoot(page, f"help-{look}")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_newcomer(open_context: OpenContext, transactional_db: None, size: str, theme: str) -> None:
    """Take pictures of home and the empty pages after signing up."""
    page = open_context(**as_seen(size, theme, scale=2)).new_page()
    page.goto("/sign-up/")
    page.get_by_label("Your name").fill("Olive Okafor")
    page.get_by_label("E-mail").fill("olive@acme.dev")
    page.get_by_label("Password", exact=True).fill("correct horse 9")
    page.get_by_role("button", name="Create account").click()
    shoot(page, f"home-new-{size}-{theme}")
    page.goto("/settings/keys/")
    shoot(page, f"keys-empty-{size}-{theme}")
    page.goto("/settings/members/")
    shoot(page, f"members-alone-{size}-{theme}")
