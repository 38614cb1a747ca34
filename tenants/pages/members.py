"""Who belongs to the workspace: the list, invitations, roles, leaving."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from config.faults import Conflict, Forbidden
from tenants import members as service
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tenants.mail_note import mail_note
from tenants.models import Invitation, Membership
from tenants.pages.forms import InviteForm

RANK = {role: rank for rank, role in enumerate(Membership.Role.values)}


@require_safe
def members(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    return render(request, "pages/members.html", page(principal, form=blank_form(principal)))


def blank_form(principal: Principal, data: QueryDict | None = None) -> InviteForm:
    return InviteForm(data, may_make_owners=principal.may("own"))


def page(principal: Principal, **extra: object) -> dict[str, object]:
    """What the members page shows to this person."""
    workspace_id = authorise(principal, "read")
    people = list(Membership.objects.for_workspace(workspace_id).select_related("user"))
    people.sort(key=lambda one: (RANK[one.role], one.user.display_name.lower()))
    owners = sum(one.role == Membership.Role.OWNER for one in people)
    open_ones = Invitation.objects.for_workspace(workspace_id).filter(accepted_at=None)
    return {
        "people": people,
        "me": principal.user,
        "only_owner": owners == 1,
        "roles": InviteForm(may_make_owners=principal.may("own")).fields["role"].choices,  # type: ignore[attr-defined]
        "invitations": open_ones.select_related("created_by") if principal.may("admin") else [],
        "may_admin": principal.may("admin"),
        "may_own": principal.may("own"),
        "now": timezone.now(),
        **extra,
    }


@never_cache
@require_POST
def member_invite(request: HttpRequest) -> HttpResponse:
    """Shows the link once, in the answer: only its digest is stored."""
    principal = principal_of(request)
    authorise(principal, "admin")
    form = blank_form(principal, request.POST)
    extra: dict[str, object] = {}
    if form.is_valid():
        try:
            sent = service.invite(principal, **form.cleaned_data)
        except (Conflict, Forbidden) as fault:
            form.add_error("email", fault.detail)
        else:
            path = reverse("invitation", args=[sent.token])
            link = request.build_absolute_uri(path)
            service.mail_invitation(sent.invitation, link)
            extra = {"link": link, "invited": sent.invitation, "mail_note": mail_note()}
            form = blank_form(principal)
    return render(request, "pages/members.html", page(principal, form=form, **extra))


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
    """Take somebody out, or leave."""
    principal = principal_of(request)
    try:
        service.remove_member(principal, membership_id)
    except Conflict as fault:
        messages.error(request, f"{fault.detail} Make somebody else an owner first.")
        return redirect("members")
    if Membership.objects.for_workspace(principal.workspace_id).filter(user=principal.user):
        messages.success(request, "The member is removed.")
        return redirect("members")
    messages.success(request, "You left the workspace.")
    return redirect("home")
