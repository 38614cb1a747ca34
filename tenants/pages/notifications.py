"""Pages of the inbox and of webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core import markdown
from core.db import delete_row
from core.exceptions import EgressRefused, Invalid
from tenants.access import authorise
from tenants.authentication import authorised, principal_of
from tenants.exceptions import QuotaReached
from tenants.models import InboxItem, Webhook, WebhookDelivery
from tenants.notifications import webhooks as service
from tenants.notifications.inbox import find_item, items_of, mark, mark_all, own_path

# ── Inbox ────────────────────────────────────────────────────────────────────

MAX_ITEMS = 100
SYMBOLS = {
    "message": "bot",
    "notice": "info",
    "approval": "square-check",
    "warning": "triangle-alert",
}


@never_cache
@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    authorise(principal_of(request), "read")
    return _inbox_page(request, None)


@never_cache
@require_safe
def inbox_item(request: HttpRequest, item_id: UUID) -> HttpResponse:
    """Show an item, which marks it as read."""
    principal, _ = authorised(request, "read")
    item = find_item(principal, item_id)
    if principal.user and request.method == "GET":
        mark(principal, item, read=True)
    return _inbox_page(request, item)


def _inbox_page(request: HttpRequest, opened: InboxItem | None) -> HttpResponse:
    principal = principal_of(request)
    unread_only = "unread" in request.GET
    items = items_of(principal).order_by("-created_at", "-pk")
    if unread_only:
        items = items.filter(is_read=False)
    rows = list(items[: MAX_ITEMS + 1])
    context = {
        "rows": [
            (item, SYMBOLS.get(item.kind, "info"), markdown.excerpt(item.body))
            for item in rows[:MAX_ITEMS]
        ],
        "more": len(rows) > MAX_ITEMS,
        "shown": MAX_ITEMS,
        "unread_only": unread_only,
        "has_unread": any(not item.is_read for item in rows),
        "opened": opened,
        "symbol": SYMBOLS.get(opened.kind, "info") if opened else "",
        "text": markdown.render(opened.body) if opened else "",
        "link": own_path(opened.link) if opened else "",
        "session_url": _session_url(opened),
    }
    return render(request, "pages/inbox/inbox.html", context)


def _session_url(item: InboxItem | None) -> str:
    """Return the URL of the session that the item came from."""
    return reverse("chat_session", args=[item.session_id]) if item and item.session_id else ""


@require_POST
def inbox_unread(request: HttpRequest, item_id: UUID) -> HttpResponse:
    principal, _ = authorised(request, "read")
    mark(principal, find_item(principal, item_id), read=False)
    return redirect("inbox")


@require_POST
def inbox_read_all(request: HttpRequest) -> HttpResponse:
    principal, _ = authorised(request, "read")
    mark_all(principal)
    return redirect("inbox")


# ── Webhooks ─────────────────────────────────────────────────────────────────

ALL = "*"


class WebhookForm(forms.Form):
    #: Event types by part of the product, as the page groups them.
    GROUPS: ClassVar = service.TYPES

    url = forms.CharField(
        label="Address",
        max_length=2000,
        help_text="Events are posted to this URL. It must answer with 2xx within 15 seconds.",
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hooks/switchyard"}),
    )
    description = forms.CharField(max_length=200, required=False, help_text="A note for yourself.")
    everything = forms.BooleanField(label="Everything", required=False)
    events = forms.MultipleChoiceField(
        choices=[(name, name) for names in service.TYPES.values() for name in names], required=False
    )
    patterns = forms.CharField(
        label="Patterns",
        max_length=1000,
        required=False,
        help_text="More event types, separated by spaces. * matches anything, as in session.*",
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not (cleaned.get("everything") or cleaned.get("events") or cleaned.get("patterns")):
            self.add_error("events", "Choose at least one type of event, or everything.")
        return cleaned

    def webhook_fields(self) -> dict[str, Any]:
        """Return the fields of the webhook."""
        given = self.cleaned_data
        events = [*given["events"], *given["patterns"].split()]
        return {
            "url": given["url"],
            "description": given["description"],
            "events": [ALL] if given["everything"] else events,
        }

    @classmethod
    def initial_of(cls, webhook: Webhook) -> dict[str, Any]:
        known = {name for names in service.TYPES.values() for name in names}
        return {
            "url": webhook.url,
            "description": webhook.description,
            "everything": ALL in webhook.events,
            "events": [event for event in webhook.events if event in known],
            "patterns": " ".join(event for event in webhook.events if event not in {*known, ALL}),
        }


MAX_DELIVERIES = 50


@require_safe
def webhooks(request: HttpRequest) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    rows = Webhook.objects.for_workspace(workspace_id).select_related("created_by")
    return render(request, "pages/webhooks/list.html", {"webhooks": rows})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_new(request: HttpRequest) -> HttpResponse:
    """Add a webhook. The response to the form is the only page that shows the secret."""
    principal, workspace_id = authorised(request, "admin")
    form = WebhookForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = service.add_webhook(
                workspace_id=workspace_id, created_by=principal.user, **form.webhook_fields()
            )
            return _secret_page(request, made)
        except (Invalid, EgressRefused, QuotaReached) as fault:
            form.add_error("url", fault.detail)
    return render(request, "pages/webhooks/new.html", {"form": form})


def _secret_page(request: HttpRequest, made: service.SecretWebhook) -> HttpResponse:
    context = {"webhook": made.webhook, "secret": made.secret}
    return render(request, "pages/webhooks/secret.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    """Show the settings and the deliveries of a webhook, or change its settings."""
    webhook = _find(request, webhook_id)
    form = WebhookForm(request.POST or None, initial=WebhookForm.initial_of(webhook))
    if request.method == "POST" and form.is_valid():
        try:
            service.change_webhook(webhook, **form.webhook_fields())
            messages.success(request, "Webhook saved.")
            return redirect("webhook", webhook.pk)
        except (Invalid, EgressRefused) as fault:
            form.add_error("url", fault.detail)
    log = webhook.deliveries.order_by("-created_at", "-pk").defer("body")
    context = {
        "webhook": webhook,
        "form": form,
        "deliveries": log[:MAX_DELIVERIES],
        "shown": MAX_DELIVERIES,
    }
    return render(request, "pages/webhooks/one.html", context)


@require_POST
def webhook_switch(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    webhook = _find(request, webhook_id)
    active = request.POST.get("active") == "1"
    service.change_webhook(webhook, active=active)
    messages.success(request, "Webhook enabled." if active else "Webhook disabled.")
    return redirect("webhook", webhook.pk)


@require_POST
def webhook_ping(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    webhook = _find(request, webhook_id)
    _try(request, lambda: service.ping(webhook), "Test event queued. Reload to see the response.")
    return redirect("webhook", webhook.pk)


@never_cache
@require_POST
def webhook_rotate(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    return _secret_page(request, service.rotate_secret(_find(request, webhook_id)))


@require_POST
def webhook_remove(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    delete_row(_find(request, webhook_id))
    messages.success(request, "Webhook removed.")
    return redirect("webhooks")


@require_POST
def webhook_replay(request: HttpRequest, delivery_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    delivery = WebhookDelivery.objects.for_workspace(workspace_id).find(pk=delivery_id)
    _try(request, lambda: service.replay(delivery), "Delivery queued again, with the same id.")
    return redirect("webhook", delivery.webhook_id)


def _find(request: HttpRequest, webhook_id: UUID) -> Webhook:
    return service.find_webhook(authorise(principal_of(request), "admin"), webhook_id)


def _try(request: HttpRequest, act: Callable[[], object], success: str) -> None:
    """Call `act` and show a message: `success`, or why it was refused."""
    try:
        act()
        messages.success(request, success)
    except Invalid as fault:
        messages.error(request, fault.detail)
