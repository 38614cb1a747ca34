"""Takes pictures of the inbox and of webhooks. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tenants.models import InboxItem, User, Webhook, WebhookDelivery, Workspace
from tenants.notifications import inbox
from tenants.notifications.webhooks import add_webhook, announce
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, acme, as_seen, shoot

__all__ = ["acme"]

REPORT = """The **nightly** run ended with one failure.

- 12 reports were written
- `billing` failed: the API answered 503

| step | state |
|---|---|
| fetch | done |
| billing | failed |

See [the dashboard](https://example.com/).
"""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures(open_context: OpenContext, acme: Workspace, size: str, theme: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.get(email="olive@acme.dev")
    page = open_context(**as_seen(size, theme)).new_page()
    look = f"{size}-{theme}"
    sign_in(page, olive)
    page.goto("/inbox/")
    shoot(page, f"inbox-empty-{look}")
    page.goto("/settings/webhooks/")
    shoot(page, f"webhooks-empty-{look}")
    made = populate(acme)
    page.goto("/inbox/")
    shoot(page, f"inbox-{look}")
    page.get_by_role("link", name="Nightly report").click()
    shoot(page, f"inbox-item-{look}")
    for name, path in {
        "webhooks": "/settings/webhooks/",
        "webhook-new": "/settings/webhooks/new/",
        "webhook": f"/settings/webhooks/{made.pk}/",
        "workspace-mail": "/settings/workspace/",
    }.items():
        page.goto(path)
        shoot(page, f"{name}-{look}")
    Webhook.objects.filter(pk=made.pk).update(
        active=False, disabled_reason="Every attempt has failed since 12 November 2026, 08:00 UTC."
    )
    page.reload()
    page.goto(f"/settings/webhooks/{made.pk}/")
    shoot(page, f"webhook-off-{look}")
    page.get_by_role("button", name="Roll secret").click()
    shoot(page, f"webhook-secret-{look}")


def populate(acme: Workspace) -> Webhook:
    """Create an inbox and webhooks as they look after some days."""
    now = timezone.now()
    for title, body, kind, hours in [
        ("Nightly report", REPORT, "message", 1),
        (
            "A webhook was disabled",
            "`https://old.example/hook` receives no more events.",
            "warning",
            5,
        ),
        ("The release notes of version 4 are ready for a last look", "Please read.", "message", 30),
        ("Credits are low", "About 4 dollars are left.", "notice", 70),
    ]:
        item = inbox.put(acme.pk, title=title, body=body, kind=kind)
        InboxItem.objects.filter(pk=item.pk).update(created_at=now - timedelta(hours=hours))
    add_webhook(workspace_id=acme.pk, url="https://ci.acme.dev/hooks/switchyard", events=["*"])
    made = add_webhook(
        workspace_id=acme.pk,
        url="https://hooks.acme.dev/services/switchyard/production",
        events=["run.failed", "run.completed", "approval.*"],
        description="On-call chat",
    ).webhook
    for number, (status, code, text) in enumerate(
        [("delivered", 200, "ok"), ("failed", 503, "upstream timed out"), ("pending", None, "")]
    ):
        announce(acme.pk, "run.failed", {"n": number})
        newest = WebhookDelivery.objects.filter(webhook=made).latest("created_at")
        WebhookDelivery.objects.filter(pk=newest.pk).update(
            status=status,
            response_status=code,
            response_snippet=text,
            duration_ms=87 if code else None,
            attempts=11 if code == 503 else 1 if code else 0,
            created_at=now - timedelta(minutes=40 * (3 - number)),
            next_attempt_at=None if code else now,
        )
    return made
