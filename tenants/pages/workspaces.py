"""Workspaces: a new one, another one, its name."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from config.faults import NotFound, Unauthenticated
from tenants.access import authorise
from tenants.accounts import workspace_ids_of
from tenants.authentication import principal_of
from tenants.middleware import CHOSEN
from tenants.models import Membership, Workspace
from tenants.pages.forms import MailForm, WorkspaceForm
from tenants.workspaces import create_workspace


def choose(request: HttpRequest, workspace_id: UUID) -> None:
    """Act in this workspace from the next request on."""
    request.session[CHOSEN] = str(workspace_id)


@require_http_methods(["GET", "HEAD", "POST"])
def workspace_new(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    form = WorkspaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        workspace = create_workspace(name=form.cleaned_data["name"], owner=user)
        choose(request, workspace.pk)
        return redirect("home")
    return render(request, "pages/workspace_new.html", {"form": form})


@require_POST
def workspace_switch(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    wanted = request.POST.get("workspace", "")
    workspace_id = next((one for one in workspace_ids_of(user) if str(one) == wanted), None)
    if workspace_id is None:
        raise NotFound
    choose(request, workspace_id)
    return redirect("home")


@require_safe
def settings(request: HttpRequest) -> HttpResponse:
    return redirect("workspace")


@require_http_methods(["GET", "HEAD", "POST"])
def workspace(request: HttpRequest) -> HttpResponse:
    """The workspace's name and facts."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin" if request.method == "POST" else "read")
    acting = Workspace.objects.get(pk=workspace_id)
    form = WorkspaceForm(request.POST or None, instance=acting)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "The workspace is renamed.")
        return redirect("workspace")
    members = Membership.objects.for_workspace(workspace_id)
    context = {
        "form": form,
        "acting": acting,
        "member_count": members.count(),
        "mine": members.filter(user=principal.user).first(),
        "may_change": principal.may("admin"),
        "mail_form": MailForm(initial={"allowed": "\n".join(acting.mail_allowed)}),
    }
    return render(request, "pages/workspace.html", context)


@require_POST
def workspace_mail(request: HttpRequest) -> HttpResponse:
    """Whom agents may write e-mail to beside members."""
    workspace_id = authorise(principal_of(request), "admin")
    form = MailForm(request.POST)
    if form.is_valid():
        allowed = form.cleaned_data["allowed"]
        Workspace.objects.filter(pk=workspace_id).update(mail_allowed=allowed)
        messages.success(request, "Agents may write to these addresses now, and to members.")
    else:
        messages.error(request, " ".join(map(str, form.errors["allowed"])))
    return redirect("workspace")
