"""API keys: made, shown once, revoked."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.ids import uuid7
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey
from tenants.pages.curl import look, talk
from tenants.pages.forms import KeyForm

#: Forms that already made a key, in the session. A reload must not make a second one.
SPENT = "spent_key_forms"
REMEMBERED = 20


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
    """The answer to the form is the only page that ever shows the secret."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = KeyForm(request.POST) if request.method == "POST" else blank_form()
    if request.method != "POST" or not form.is_valid():
        return render(request, "pages/key_new.html", {"form": form})
    if not spend(request, str(form.cleaned_data["once"])):
        messages.info(request, "That key was made already. Its secret was shown once.")
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
        talk(request, workspace_id, secret=issued.secret)
        if may_run
        else look(request, secret=issued.secret)
    )
    return render(request, "pages/key_made.html", {"issued": issued, "curl": curl})


def spend(request: HttpRequest, once: str) -> bool:
    """Whether this form makes its first key."""
    spent: list[str] = request.session.get(SPENT, [])
    if once in spent:
        return False
    request.session[SPENT] = [*spent, once][-REMEMBERED:]
    return True


@require_POST
def key_revoke(request: HttpRequest, key_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    revoke_key(workspace_id=workspace_id, key_id=key_id)
    messages.success(request, "The key is revoked. It opens nothing any more.")
    return redirect("keys")
