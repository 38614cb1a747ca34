"""Tells the admins of a workspace that one of its webhooks was switched off."""

from __future__ import annotations

from django.urls import reverse

from tenants.models import Webhook
from tenants.notices import tell_admins


def tell_switched_off(webhook: Webhook) -> None:
    """In the caller's transaction."""
    tell_admins(
        webhook.workspace_id,
        title="A webhook was switched off",
        text=f"`{webhook.url}` gets no more events. {webhook.disabled_reason}\n\n"
        "Mend the endpoint, then enable the webhook again.",
        link=reverse("webhook", args=[webhook.pk]),
    )
