"""Pages of API keys: list, create and revoke them, with a curl example."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from shlex import quote
from typing import ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.ids import uuid7
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey

PLACEHOLDER = "YOUR_KEY"
#: The session entry that lists submitted forms, so that a reload does not create a second key.
SUBMITTED = "spent_key_forms"
REMEMBERED = 20


class KeyForm(forms.Form):
    SCOPES: ClassVar = [
        (ApiKey.Scope.READ, "Read", "Read agents, sessions and memory."),
        (ApiKey.Scope.RUN, "Run", "Also talk to agents and start runs."),
        (ApiKey.Scope.ADMIN, "Admin", "Also change agents, policies, keys and members."),
    ]
    LIVES: ClassVar = {"30": "30 days", "90": "90 days", "365": "1 year", "": "Never"}

    name = forms.CharField(
        max_length=80, help_text="Where it will be used, such as “CI” or “Billing service”."
    )
    scope = forms.ChoiceField(choices=ApiKey.Scope, initial=ApiKey.Scope.RUN)
    life = forms.ChoiceField(
        label="Expires after", choices=list(LIVES.items()), required=False, initial="90"
    )
    #: Identifies the form, so that submitting it twice creates one key.
    once = forms.UUIDField(widget=forms.HiddenInput)

    def expires_at(self) -> datetime | None:
        life: str = self.cleaned_data["life"]
        return timezone.now() + timedelta(days=int(life)) if life else None


def curl_example(request: HttpRequest, workspace_id: UUID, *, secret: str = PLACEHOLDER) -> str:
    """Return a curl command that sends a message to the oldest agent, or lists the agents."""
    agents = Agent.objects.for_workspace(workspace_id).filter(archived_at=None)
    name = agents.order_by("created_at", "pk").values_list("current__name", flat=True).first()
    if name is None:
        return curl_list_agents(request, secret=secret)
    body = json.dumps({"agent": name, "session_key": "first", "message": "list the files"})
    url = request.build_absolute_uri(reverse("runtime"))
    return " \\\n".join(
        [
            f"curl {url}",
            f"  -H {quote(f'x-api-key: {secret}')}",
            "  -H 'content-type: application/json'",
            f"  -d {quote(body)}",
        ]
    )


def curl_list_agents(request: HttpRequest, *, secret: str = PLACEHOLDER) -> str:
    """Return a curl command that lists the agents, which every key may do."""
    url = request.build_absolute_uri(reverse("agent-list"))
    return f"curl {url} \\\n  -H {quote(f'x-api-key: {secret}')}"


@require_safe
def keys(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    rows = ApiKey.objects.for_workspace(workspace_id).select_related("created_by")
    context = {
        "keys": sorted(rows, key=lambda key: key.revoked_at is not None),
        "may_admin": principal.may("admin"),
        "form": blank_form(),
        "now": timezone.now(),
    }
    return render(request, "pages/keys.html", context)


def blank_form() -> KeyForm:
    return KeyForm(initial={"once": uuid7()})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def key_new(request: HttpRequest) -> HttpResponse:
    """Create a key. The response to the form is the only page that shows the secret."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = KeyForm(request.POST) if request.method == "POST" else blank_form()
    if request.method != "POST" or not form.is_valid():
        return render(request, "pages/key_new.html", {"form": form})
    if not mark_submitted(request, str(form.cleaned_data["once"])):
        messages.info(request, "This key already exists. Its secret was shown once.")
        return redirect("keys")
    issued = issue_key(
        workspace_id=workspace_id,
        name=form.cleaned_data["name"],
        scope=form.cleaned_data["scope"],
        expires_at=form.expires_at(),
        created_by=principal.user,
    )
    may_run = issued.key.scope != ApiKey.Scope.READ
    curl = (
        curl_example(request, workspace_id, secret=issued.secret)
        if may_run
        else curl_list_agents(request, secret=issued.secret)
    )
    return render(request, "pages/key_made.html", {"issued": issued, "curl": curl})


def mark_submitted(request: HttpRequest, once: str) -> bool:
    """Return whether the form is submitted for the first time, and remember it."""
    submitted: list[str] = request.session.get(SUBMITTED, [])
    if once in submitted:
        return False
    request.session[SUBMITTED] = [*submitted, once][-REMEMBERED:]
    return True


@require_POST
def key_revoke(request: HttpRequest, key_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    revoke_key(workspace_id=workspace_id, key_id=key_id)
    messages.success(request, "Key revoked. It no longer works.")
    return redirect("keys")
