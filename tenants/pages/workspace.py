"""Pages of a workspace: create, switch and rename it, its e-mail rules, members and API keys."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.exceptions import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthenticated,
)
from core.ids import uuid7
from orchestrator.workspaces import create_workspace
from tenants import workspaces as service
from tenants.access import Principal, authorise
from tenants.accounts import list_workspace_ids
from tenants.authentication import authorised, choose_workspace, principal_of
from tenants.exceptions import QuotaReached
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey, Invitation, Membership, Workspace
from tenants.notifications.mail import checked_patterns, link_to, mail_note
from tenants.pages.accounts import email_field


class WorkspaceForm(forms.ModelForm):
    class Meta:
        model = Workspace
        fields: ClassVar = ["name"]
        labels: ClassVar = {"name": "Name"}
        help_texts: ClassVar = {"name": "A team, a company or a project. It can be changed later."}


class MailForm(forms.Form):
    allowed = forms.CharField(
        label="Addresses and domains",
        required=False,
        max_length=10_000,
        help_text="One per line: ann@example.com, or *@example.com for a whole domain.",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )

    def clean_allowed(self) -> list[str]:
        try:
            return checked_patterns(self.cleaned_data["allowed"].split())
        except Invalid as fault:
            raise forms.ValidationError(fault.detail) from None


@require_http_methods(["GET", "HEAD", "POST"])
def workspace_new(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    form = WorkspaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            workspace = create_workspace(name=form.cleaned_data["name"], owner=user)
        except QuotaReached as fault:
            form.add_error("name", fault.detail)
        else:
            choose_workspace(request, workspace.pk)
            return redirect("home")
    return render(request, "pages/workspace_new.html", {"form": form})


@require_POST
def workspace_switch(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    chosen = request.POST.get("workspace", "")
    workspace_id = next((pk for pk in list_workspace_ids(user) if str(pk) == chosen), None)
    if workspace_id is None:
        raise NotFound
    choose_workspace(request, workspace_id)
    return redirect("home")


@require_safe
def settings(request: HttpRequest) -> HttpResponse:
    return redirect("workspace")


@require_http_methods(["GET", "HEAD", "POST"])
def workspace(request: HttpRequest) -> HttpResponse:
    """Show the workspace and its e-mail rules, or rename it."""
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
    """Set the addresses that agents may write to in addition to members."""
    workspace_id = authorise(principal_of(request), "admin")
    form = MailForm(request.POST)
    if form.is_valid():
        allowed = form.cleaned_data["allowed"]
        Workspace.objects.filter(pk=workspace_id).update(mail_allowed=allowed)
        messages.success(request, "Agents may now write to members and to these addresses.")
    else:
        messages.error(request, " ".join(map(str, form.errors["allowed"])))
    return redirect("workspace")


# ── Members ──────────────────────────────────────────────────────────────────

RANK = {role: rank for rank, role in enumerate(Membership.Role.values)}


class InviteForm(forms.Form):
    email = email_field()
    role = forms.ChoiceField(choices=Membership.Role, initial=Membership.Role.BUILDER)

    def __init__(self, *args: Any, may_make_owners: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].widget.attrs["autocomplete"] = "off"
        if not may_make_owners:
            choices = [role for role in Membership.Role.choices if role[0] != Membership.Role.OWNER]
            self.fields["role"] = forms.ChoiceField(
                choices=choices, initial=Membership.Role.BUILDER
            )


@require_safe
def members(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    return render(
        request, "pages/members.html", members_context(principal, form=invite_form(principal))
    )


def invite_form(principal: Principal, data: QueryDict | None = None) -> InviteForm:
    return InviteForm(data, may_make_owners=principal.may("own"))


def members_context(principal: Principal, **extra: object) -> dict[str, object]:
    """Return the context of the members page for this principal."""
    workspace_id = authorise(principal, "read")
    people = list(Membership.objects.for_workspace(workspace_id).select_related("user"))
    people.sort(key=lambda member: (RANK[member.role], member.user.display_name.lower()))
    owners = sum(member.role == Membership.Role.OWNER for member in people)
    pending = Invitation.objects.for_workspace(workspace_id).filter(accepted_at=None)
    return {
        "people": people,
        "me": principal.user,
        "only_owner": owners == 1,
        "roles": InviteForm(may_make_owners=principal.may("own")).fields["role"].choices,  # type: ignore[attr-defined]
        "invitations": pending.select_related("created_by") if principal.may("admin") else [],
        "may_admin": principal.may("admin"),
        "may_own": principal.may("own"),
        "now": timezone.now(),
        **extra,
    }


@never_cache
@require_POST
def member_invite(request: HttpRequest) -> HttpResponse:
    """Invite someone. The link is shown once, in this response, as only its digest is stored."""
    principal, _ = authorised(request, "admin")
    form = invite_form(principal, request.POST)
    extra: dict[str, object] = {}
    status = 200
    if form.is_valid():
        try:
            sent = service.invite(principal, **form.cleaned_data)
        except (Conflict, Forbidden, TooManyRequests) as fault:
            form.add_error("email", fault.detail)
            status = fault.status if isinstance(fault, TooManyRequests) else status
        else:
            link = link_to(reverse("invitation", args=[sent.token]))
            service.mail_invitation(sent.invitation, link)
            extra = {"link": link, "invited": sent.invitation, "mail_note": mail_note()}
            form = invite_form(principal)
    context = members_context(principal, form=form, **extra)
    return render(request, "pages/members.html", context, status=status)


@require_POST
def invitation_withdraw(request: HttpRequest, invitation_id: UUID) -> HttpResponse:
    service.withdraw_invitation(principal_of(request), invitation_id)
    messages.success(request, "The invitation is withdrawn. Its link no longer works.")
    return redirect("members")


@require_POST
def member_role(request: HttpRequest, membership_id: UUID) -> HttpResponse:
    try:
        changed = service.change_role(
            principal_of(request), membership_id, request.POST.get("role", "")
        )
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        messages.success(request, f"{changed.user} is now {changed.role}.")
    return redirect("members")


@require_POST
def member_remove(request: HttpRequest, membership_id: UUID) -> HttpResponse:
    """Remove a member, or leave the workspace."""
    principal = principal_of(request)
    try:
        service.remove_member(principal, membership_id)
    except Conflict as fault:
        messages.error(request, f"{fault.detail} Make someone else an owner first.")
        return redirect("members")
    if Membership.objects.for_workspace(principal.workspace_id).filter(user=principal.user):
        messages.success(request, "The member is removed.")
        return redirect("members")
    messages.success(request, "You left the workspace.")
    return redirect("home")


# ── API keys ─────────────────────────────────────────────────────────────────

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
    principal, workspace_id = authorised(request, "read")
    rows = ApiKey.objects.for_workspace(workspace_id).select_related("created_by")
    context = {
        "keys": sorted(rows, key=lambda key: key.revoked_at is not None),
        "may_admin": principal.may("admin"),
        "form": blank_key_form(),
        "now": timezone.now(),
    }
    return render(request, "pages/keys.html", context)


def blank_key_form() -> KeyForm:
    return KeyForm(initial={"once": uuid7()})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def key_new(request: HttpRequest) -> HttpResponse:
    """Create a key. The response to the form is the only page that shows the secret."""
    principal, workspace_id = authorised(request, "admin")
    form = KeyForm(request.POST) if request.method == "POST" else blank_key_form()
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
