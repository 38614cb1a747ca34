"""The page one comes home to: what waits and what goes on; for a newcomer, what to do first."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from config.faults import Unauthenticated
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.credits import balance_of
from tenants.models import ApiKey, Membership
from tenants.pages.curl import talk
from tenants.pages.overview import parts_of
from tenants.pages.steps import todos


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    if not principal.is_authenticated:
        raise Unauthenticated
    if principal.workspace_id is None:
        return redirect("workspace_new")
    workspace_id = authorise(principal, "read")
    steps = todos(principal, workspace_id)
    parts = parts_of(principal, workspace_id)
    balance = balance_of(workspace_id)
    context = {
        "balance": balance,
        "is_low": balance.balance <= settings.LOW_CREDITS,
        "may_own": principal.may("own"),
        "may_run": principal.may("run"),
        "parts": parts,
        # Where things happen, only what is left to do is in the way.
        "todos": [todo for todo in steps if not (parts and todo.is_done)],
        "step_count": len(steps),
        "done_count": sum(todo.is_done for todo in steps),
        "role": principal.role,
        "member_count": Membership.objects.for_workspace(workspace_id).count(),
        "key_count": ApiKey.objects.for_workspace(workspace_id).valid().count(),
        "curl": talk(request, workspace_id),
    }
    return render(request, "pages/home.html", context)
