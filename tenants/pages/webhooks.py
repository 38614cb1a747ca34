"""Webhooks: added, shown with their deliveries, tried, switched off and on."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from config.faults import EgressRefused, Invalid, NotFound
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.models import Webhook, WebhookDelivery
from tenants.pages.webhook_form import WebhookForm
from tenants.rows import remove
from tenants.webhooks import (
    SecretWebhook,
    add_webhook,
    change_webhook,
    find_webhook,
    ping,
    replay,
    rotate_secret,
)

SHOWN = 50


@require_safe
def webhooks(request: HttpRequest) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    rows = Webhook.objects.for_workspace(workspace_id).select_related("created_by")
    return render(request, "pages/webhooks/list.html", {"webhooks": rows})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_new(request: HttpRequest) -> HttpResponse:
    """The answer to the form is the only page that shows the secret."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = WebhookForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = add_webhook(
                workspace_id=workspace_id, created_by=principal.user, **form.wanted()
            )
            return _secret_page(request, made)
        except (Invalid, EgressRefused) as fault:
            form.add_error("url", fault.detail)
    return render(request, "pages/webhooks/new.html", {"form": form})


def _secret_page(request: HttpRequest, made: SecretWebhook) -> HttpResponse:
    context = {"webhook": made.webhook, "secret": made.secret}
    return render(request, "pages/webhooks/secret.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    """One webhook: its settings and its delivery log."""
    webhook = _find(request, webhook_id)
    form = WebhookForm(request.POST or None, initial=WebhookForm.initial_of(webhook))
    if request.method == "POST" and form.is_valid():
        try:
            change_webhook(webhook, **form.wanted())
            messages.success(request, "The webhook is changed.")
            return redirect("webhook", webhook.pk)
        except (Invalid, EgressRefused) as fault:
            form.add_error("url", fault.detail)
    log = webhook.deliveries.order_by("-created_at", "-pk").defer("body")
    context = {"webhook": webhook, "form": form, "deliveries": log[:SHOWN], "shown": SHOWN}
    return render(request, "pages/webhooks/one.html", context)


@require_POST
def webhook_switch(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    webhook = _find(request, webhook_id)
    active = request.POST.get("active") == "1"
    change_webhook(webhook, active=active)
    said = "It is on again." if active else "It is switched off. Nothing is sent."
    messages.success(request, said)
    return redirect("webhook", webhook.pk)


@require_POST
def webhook_ping(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    webhook = _find(request, webhook_id)
    _try(request, lambda: ping(webhook), "A test event is on its way. Reload to see its answer.")
    return redirect("webhook", webhook.pk)


@never_cache
@require_POST
def webhook_rotate(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    return _secret_page(request, rotate_secret(_find(request, webhook_id)))


@require_POST
def webhook_remove(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    remove(_find(request, webhook_id))
    messages.success(request, "The webhook is removed.")
    return redirect("webhooks")


@require_POST
def webhook_replay(request: HttpRequest, delivery_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    rows = WebhookDelivery.objects.for_workspace(workspace_id)
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:
        raise NotFound
    _try(request, lambda: replay(delivery), "It is on its way again, with the same id.")
    return redirect("webhook", delivery.webhook_id)


def _find(request: HttpRequest, webhook_id: UUID) -> Webhook:
    return find_webhook(authorise(principal_of(request), "admin"), webhook_id)


def _try(request: HttpRequest, do: Callable[[], object], said: str) -> None:
    try:
        do()
        messages.success(request, said)
    except Invalid as fault:
        messages.error(request, fault.detail)
